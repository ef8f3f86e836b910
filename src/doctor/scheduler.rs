//! Reports a scheduler as seen from this machine: its configuration and server, the jobs, and the state of their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::{Report, StepResult, StepStatus, slurm, srun};
use gtop_collect::inventory::targets_of_jobs;
use gtop_collect::scheduler::slurm::fetch_node_addresses;
use gtop_collect::scheduler::{JobFilter, ListedNode, SchedulerError, SchedulerKind, ServerState};
use gtop_collect::transport::{Target, Transport};
use gtop_fleet::advice::scheduler;
use gtop_local::text::sanitize;
use gtop_local::time::Clock;
use gtop_model::{Job, JobState, NodeName, SchedulerErrorKind, SchedulerProfile, nodeset};
use gtop_ssh::SchedulerAddresses;

/// Maximum number of nodes of jobs that are examined.
const MAX_NODES: usize = 8;
/// Parts of the reason of a job that waits for nodes in bad states.
const SIGNS_OF_NODES: [&str; 4] = ["DOWN", "DRAIN", "ReqNodeNotAvail", "BadConstraints"];

/// The report on a scheduler, and the nodes to examine next.
#[derive(Debug)]
pub struct SchedulerDiagnosis {
    pub report: Report,
    /// Up to 8 nodes of running jobs.
    pub nodes: Vec<Target>,
}

/// Examines a scheduler. The first failed step is the cause; later ones run only if they add information.
pub async fn diagnose_scheduler(
    kind: SchedulerKind,
    filter: &JobFilter,
    transport: &Transport,
    clock: &Clock,
) -> Option<SchedulerDiagnosis> {
    let mut steps = Vec::new();
    let nodes = match Box::pin(run_checks(kind, filter, &mut steps)).await {
        Some(jobs) => {
            if kind == SchedulerKind::Slurm {
                use_addresses(&jobs, transport).await;
                Box::pin(srun::add_steps(&jobs, transport, clock, &mut steps)).await;
            }
            targets_of_jobs(&jobs, kind.profile())
        }
        None => Vec::new(),
    };
    let nodes = nodes.into_iter().take(MAX_NODES).collect();
    let report = Report::new(NodeName::new(kind.profile().id).ok()?, steps);
    Some(SchedulerDiagnosis { report, nodes })
}

/// Gives the transport the addresses by which Slurm reaches the nodes of jobs.
async fn use_addresses(jobs: &[Job], transport: &Transport) {
    let nodes = jobs.iter().flat_map(|job| job.allocations.iter());
    let nodes = nodes.map(|allocation| allocation.node.clone()).collect();
    let known = Arc::new(fetch_node_addresses(&nodes).await);
    transport.set_scheduler_addresses(SchedulerAddresses { known, is_query_running: false });
}

/// Returns the jobs, or `None` after a failure that makes further steps pointless.
async fn run_checks(
    kind: SchedulerKind,
    filter: &JobFilter,
    steps: &mut Vec<StepResult>,
) -> Option<Vec<Job>> {
    let began = Instant::now();
    match kind.fetch_server_state().await {
        Some(answer) => {
            steps.push(configuration_step(kind.profile()));
            steps.push(server_step(kind.profile(), answer.as_ref(), began.elapsed()));
            answer.ok()?;
        }
        None => slurm::add_steps(steps).await?,
    }
    let jobs = check_jobs(kind, filter, steps).await?;
    check_visibility(kind, steps).await;
    check_nodes(kind, &jobs, steps).await;
    Some(jobs)
}

/// Reports where the configuration is; that it is missing is no failure, as the server may answer.
fn configuration_step(profile: &SchedulerProfile) -> StepResult {
    let step = "configuration";
    let Some((variable, file)) = profile.configured_by else {
        return StepResult::not_applicable(step, "none is needed");
    };
    let given = std::env::var(variable).ok();
    let path = sanitize(given.as_deref().unwrap_or(file), 300);
    let name = if given.is_some() { format!("{path} ({variable})") } else { path.clone() };
    if Path::new(&path).exists() {
        return StepResult::ok(step, name);
    }
    StepResult::note(step, format!("{name} does not exist"))
}

fn server_step(
    profile: &SchedulerProfile,
    answer: Result<&ServerState, &SchedulerError>,
    took: Duration,
) -> StepResult {
    let row = match answer {
        Ok(server) => StepResult::of_answer("server", took, sanitize(&server.text, 300)),
        Err(error) => StepResult::of_error(profile, "server", error),
    };
    row.with_duration(took)
}

async fn check_jobs(
    kind: SchedulerKind,
    filter: &JobFilter,
    steps: &mut Vec<StepResult>,
) -> Option<Vec<Job>> {
    let profile = kind.profile();
    let began = Instant::now();
    let jobs = match kind.fetch_jobs(filter).await {
        Ok(jobs) => jobs,
        Err(error) if error.kind == SchedulerErrorKind::NoSuchJob => Vec::new(),
        Err(error) => {
            let row = StepResult::of_error(profile, "jobs", &error);
            steps.push(row.with_duration(began.elapsed()));
            return None;
        }
    };
    let took = began.elapsed();
    let running = jobs.iter().filter(|job| !job.allocations.is_empty()).count();
    let pending: Vec<&Job> = jobs.iter().filter(|job| job.state == JobState::Pending).collect();
    let finding = format!("{running} running, {} pending, {}", pending.len(), filter.describe());
    let details = pending.iter().take(4).map(|job| {
        let reason = job.reason.as_deref().unwrap_or("no reason given");
        format!("job {} is pending: {reason}", job.shown_id)
    });
    let row = if running == 0 {
        StepResult::note("jobs", format!("no running job {}", filter.describe()))
            .with_remedy(scheduler::of_no_jobs(&profile.words))
    } else {
        StepResult::of_answer("jobs", took, finding)
    };
    steps.push(row.with_details(details.collect()).with_duration(took));
    Some(jobs)
}

/// Reports whose jobs this user can see.
async fn check_visibility(kind: SchedulerKind, steps: &mut Vec<StepResult>) {
    let began = Instant::now();
    let Some(hides_jobs) = kind.fetch_hides_jobs().await else { return };
    let row = if hides_jobs {
        let setting = kind.profile().words.hiding;
        StepResult::note("job visibility", format!("you can see only your own jobs ({setting})"))
    } else {
        StepResult::ok("job visibility", "you can see the jobs of all users")
    };
    steps.push(row.with_duration(began.elapsed()));
}

/// Reports nodes in bad states: those of the jobs, and all nodes if a pending job waits for some.
async fn check_nodes(kind: SchedulerKind, jobs: &[Job], steps: &mut Vec<StepResult>) {
    let job_nodes: BTreeSet<&str> = jobs
        .iter()
        .flat_map(|job| job.allocations.iter())
        .map(|allocation| allocation.node.as_str())
        .collect();
    let waits_for_nodes = jobs.iter().any(|job| {
        let reason = job.reason.as_deref().unwrap_or_default();
        job.state == JobState::Pending && SIGNS_OF_NODES.iter().any(|sign| reason.contains(sign))
    });
    let began = Instant::now();
    let row = match kind.fetch_listed_nodes().await {
        Ok(listed) => nodes_step(kind.profile(), &listed, &job_nodes, waits_for_nodes),
        Err(error) => StepResult::note("nodes", error.message),
    };
    steps.push(row.with_duration(began.elapsed()));
}

/// Returns the step of nodes in bad states: those of jobs, or all if `waits_for_nodes`.
fn nodes_step(
    profile: &SchedulerProfile,
    listed: &[ListedNode],
    job_nodes: &BTreeSet<&str>,
    waits_for_nodes: bool,
) -> StepResult {
    let SchedulerProfile { words, states, .. } = profile;
    let mut by_state: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // Nodes in other states return by themselves, or need more than `resume`.
    let mut stopped: BTreeSet<&str> = BTreeSet::new();
    let mut is_down = false;
    let mut unlisted = job_nodes.clone();
    for ListedNode { name, state, reason } in listed {
        unlisted.remove(name.as_str());
        let is_bad = states.bad.iter().any(|sign| state.contains(sign));
        if !is_bad || !(job_nodes.contains(name.as_str()) || waits_for_nodes) {
            continue;
        }
        is_down |= states.down.iter().any(|sign| state.contains(sign));
        let reason = reason.as_ref().map(|reason| format!(": {}", sanitize(reason, 200)));
        let nodes = by_state
            .entry(format!("{}{}", sanitize(state, 40), reason.unwrap_or_default()))
            .or_default();
        if !nodes.contains(&name.as_str()) {
            nodes.push(name);
        }
        let is_stopped = states.stopped.iter().any(|sign| state.contains(sign));
        if is_stopped && NodeName::new(name).is_ok() {
            stopped.insert(name);
        }
    }
    if by_state.is_empty() && !unlisted.is_empty() {
        let names = nodeset::fold(&unlisted);
        StepResult::note("nodes", format!("{} does not list {names}", words.node_program()))
            .with_remedy(scheduler::of_unlisted_nodes(words))
    } else if by_state.is_empty() {
        let all: BTreeSet<&str> = listed.iter().map(|node| node.name.as_str()).collect();
        let own = format!("{} used by your jobs, no problems", job_nodes.len());
        StepResult::ok("nodes", own).with_details(vec![format!("{} listed", all.len())])
    } else {
        let lines = by_state.iter().map(|(why, nodes)| format!("{} {why}", nodeset::fold(nodes)));
        let mut lines: Vec<String> = lines.collect();
        let first = lines.remove(0);
        let status = if is_down || waits_for_nodes { StepStatus::Failed } else { StepStatus::Note };
        StepResult::new("nodes", status, first)
            .with_details(lines)
            .with_remedy(scheduler::resume(words, &stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes, each written as `NAME|STATE|REASON`.
    fn nodes(list: &str) -> Vec<ListedNode> {
        let node = |line: &str| {
            let mut fields = line.split('|').map(str::to_owned);
            let mut next = || fields.next().unwrap();
            ListedNode { name: next(), state: next(), reason: fields.next() }
        };
        list.lines().map(node).collect()
    }

    fn step(kind: SchedulerKind, list: &str, own: &[&str], waits_for_nodes: bool) -> StepResult {
        let own = own.iter().copied().collect();
        nodes_step(kind.profile(), &nodes(list), &own, waits_for_nodes)
    }

    #[test]
    fn nodes_of_own_jobs_are_a_failure_only_if_they_are_down() {
        for (line, status) in [
            ("downtown01|drained|shutdown of the rack", StepStatus::Note),
            ("downtown01|down*|Not responding", StepStatus::Failed),
            ("downtown01|mixed", StepStatus::Ok),
        ] {
            let found = step(SchedulerKind::Slurm, line, &["downtown01"], false);
            assert_eq!(found.status, status, "{line}");
        }
    }

    #[test]
    fn only_drained_down_and_failed_nodes_are_resumed() {
        let remedy = |list: &str| step(SchedulerKind::Slurm, list, &[], true).remedy.unwrap();
        for state in ["maint", "inval", "idle*", "mixed*", "maint|drain of power fails"] {
            let text = remedy(&format!("gpu01|{state}\n"));
            assert!(!text.contains("RESUME"), "{state}: {text}");
        }
        let output = "gpu01|drained|ECC\ngpu02|down*\ngpu03|idle*\ngpu04|failing|x\ngpu05|maint|x\n\
                    x;reboot|drained|x\n-f|down|x\n";
        let text = remedy(output);
        assert!(
            text.ends_with(": scontrol update NodeName='gpu[01-02,04]' State=RESUME")
                && text.contains("once the reason is gone"),
            "{text}"
        );
        assert!(remedy("gpu01|down|x\n").ends_with(" NodeName=gpu01 State=RESUME"));
    }

    #[test]
    fn each_scheduler_has_its_states_and_its_command() {
        for kind in SchedulerKind::ALL {
            let SchedulerProfile { words, states, .. } = kind.profile();
            let (stopped, down) = (states.stopped[0], states.down[0]);
            let list = format!("a|{stopped}|GPU 2\nb|{down}\nc|well\nd|{stopped}|GPU 2");
            let found = step(kind, &list, &["a", "c", "d"], false);
            let finding = format!("a,d {stopped}: GPU 2");
            assert_eq!((found.status, found.finding), (StepStatus::Note, finding));
            let command = words.resume.as_ref().map(|command| command.before).unwrap_or_default();
            assert!(found.remedy.unwrap().contains(command));
            assert_eq!(step(kind, &list, &["b"], false).status, StepStatus::Failed);
            assert_eq!(step(kind, &list, &["c"], false).details, ["4 listed"]);
        }
    }
}
