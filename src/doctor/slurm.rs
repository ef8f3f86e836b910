//! Reports Slurm as seen from this machine: commands, configuration, munge, the controller, and the state of
//! the user's jobs and their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::advice::scheduler;
use crate::doctor::{Report, StepResult, StepStatus, srun};
use crate::inventory::targets_of_jobs;
use crate::model::{Job, JobState, NodeName, SchedulerErrorKind};
use crate::nodeset;
use crate::scheduler::slurm::{
    PROFILE, fetch_jobs, fetch_node_addresses, is_job_list_private, of_stderr, run_command_within,
};
use crate::scheduler::{JobFilter, SchedulerError};
use crate::ssh::SchedulerAddresses;
use crate::text::sanitize;
use crate::time::Clock;
use crate::transport::{Target, Transport};

/// Time limit of commands that answer in milliseconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(8);
/// Time limit of `scontrol ping`, which itself waits 10 s for the controller.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of nodes of jobs that are examined.
const MAX_NODES: usize = 8;
/// Parts of the names of node states that need an administrator.
const STOPPED_STATES: [&str; 3] = ["drain", "down", "fail"];
/// Slower answers are reported.
const SLOW_ANSWER: Duration = Duration::from_secs(2);

/// Where `slurm.conf` may be if `SLURM_CONF` is not set.
const CONF_PATHS: [&str; 4] = [
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
];

/// The report on Slurm, and the nodes to examine next.
#[derive(Debug)]
pub struct SchedulerDiagnosis {
    pub report: Report,
    /// Up to 8 nodes of running jobs.
    pub nodes: Vec<Target>,
}

/// Examines Slurm. The first failed step is the cause; later ones run only if they add information.
pub async fn diagnose_scheduler(
    filter: &JobFilter,
    transport: &Transport,
    clock: &Clock,
) -> Option<SchedulerDiagnosis> {
    let mut steps = Vec::new();
    let nodes = match Box::pin(run_checks(filter, &mut steps)).await {
        Some(jobs) => {
            let nodes = jobs.iter().flat_map(|job| job.allocations.iter());
            let nodes = nodes.map(|allocation| allocation.node.clone()).collect();
            let addresses = Arc::new(fetch_node_addresses(&nodes).await);
            transport.set_scheduler_addresses(SchedulerAddresses {
                known: addresses,
                is_query_running: false,
            });
            Box::pin(srun::add_steps(&jobs, transport, clock, &mut steps)).await;
            targets_of_jobs(&jobs, &PROFILE)
        }
        None => Vec::new(),
    };
    let nodes = nodes.into_iter().take(MAX_NODES).collect();
    let report = Report::new(NodeName::new("slurm").ok()?, steps);
    Some(SchedulerDiagnosis { report, nodes })
}

/// Returns the jobs, or `None` after a failure that makes further steps pointless.
async fn run_checks(filter: &JobFilter, steps: &mut Vec<StepResult>) -> Option<Vec<Job>> {
    let configuration = configuration_step();
    let has_configuration = configuration.status != StepStatus::Failed;
    steps.push(configuration);
    has_configuration.then_some(())?;
    add_step(steps, munge_step()).await?;
    check_controller(steps).await?;
    let jobs = check_jobs(filter, steps).await?;
    check_visibility(steps).await;
    check_nodes(&jobs, steps).await;
    Some(jobs)
}

/// Adds a step with its duration; returns `None` if it failed.
async fn add_step(
    steps: &mut Vec<StepResult>,
    step: impl Future<Output = StepResult>,
) -> Option<()> {
    let began = Instant::now();
    let row = step.await;
    let has_failed = row.status == StepStatus::Failed;
    steps.push(row.with_duration(began.elapsed()));
    (!has_failed).then_some(())
}

/// Returns the file that is read if `SLURM_CONF` is not set.
fn default_configuration() -> Option<&'static str> {
    CONF_PATHS.into_iter().find(|path| Path::new(path).exists())
}

fn configuration_step() -> StepResult {
    let step = "configuration";
    let Ok(path) = std::env::var("SLURM_CONF") else {
        return match default_configuration() {
            Some(path) => StepResult::ok(step, path),
            None => StepResult::note(step, "no slurm.conf in the default folders")
                .with_details(CONF_PATHS.iter().map(|path| format!("not found: {path}")).collect()),
        };
    };
    let path = sanitize(&path, 300);
    if Path::new(&path).exists() {
        return StepResult::ok(step, format!("{path} (SLURM_CONF)"));
    }
    StepResult::failed(step, format!("SLURM_CONF is {path}, which does not exist"))
        .with_remedy(scheduler::BAD_SLURM_CONF)
}

/// Reports a failure at the step of the configuration, if that is its cause. Returns true if so.
fn attribute_to_configuration(steps: &mut [StepResult], error: Option<&SchedulerError>) -> bool {
    let row = steps.iter_mut().find(|row| row.step == "configuration");
    let Some(row) = row else { return false };
    let error = error.filter(|error| error.kind == SchedulerErrorKind::BadConfiguration);
    let remedy = if let Some(error) = error {
        let previous = std::mem::replace(&mut row.finding, error.message.clone());
        row.details.insert(0, previous);
        scheduler::of_scheduler(&PROFILE.words, error.kind, &error.message)
    } else if row.status == StepStatus::Note {
        "slurm.conf is missing and no server provides it".clone_into(&mut row.finding);
        scheduler::NO_SLURM_CONF.to_owned()
    } else {
        return false;
    };
    row.status = StepStatus::Failed;
    row.remedy = Some(remedy);
    true
}

async fn munge_step() -> StepResult {
    let complaint = match run_command_within(COMMAND_TIMEOUT, "munge", &["--no-input"], "").await {
        Ok(answer) if answer.stdout.starts_with("MUNGE:") => {
            return StepResult::ok("munge", "authentication works");
        }
        // Slurm may use another authentication plugin than munge.
        Err(SchedulerError { kind: SchedulerErrorKind::NotInstalled, .. }) => {
            return StepResult::not_applicable("munge", "not on the PATH");
        }
        Ok(answer) if answer.stderr.trim().is_empty() => answer.stdout,
        Ok(answer) => answer.stderr,
        Err(_late) => format!("no answer within {} s", COMMAND_TIMEOUT.as_secs()),
    };
    StepResult::failed("munge", "authentication fails: Slurm cannot identify you")
        .with_details(vec![sanitize(complaint.lines().next().unwrap_or_default(), 300)])
        .with_remedy(scheduler::MUNGE)
}

async fn check_controller(steps: &mut Vec<StepResult>) -> Option<()> {
    let began = Instant::now();
    let answer = run_command_within(PING_TIMEOUT, "scontrol", &["ping"], "").await;
    let took = began.elapsed();
    let (row, error) = match answer {
        Ok(answer) => {
            let line_with = |part: &str| answer.stdout.lines().find(|line| line.contains(part));
            if let Some(line) = line_with(" is UP") {
                let status = if took > SLOW_ANSWER { StepStatus::Note } else { StepStatus::Ok };
                steps.push(StepResult::new("controller", status, line).with_duration(took));
                return Some(());
            }
            if let Some(line) = line_with(" is DOWN") {
                (controller_failure(line).await, None)
            } else if answer.succeeded {
                let line = answer.stdout.lines().find(|line| !line.trim().is_empty());
                let line = sanitize(line.unwrap_or("nothing"), 200);
                let finding = format!("unexpected output of scontrol ping: {line:?}");
                let row =
                    StepResult::failed("controller", finding).with_remedy(scheduler::ODD_PING);
                // With a broken configuration, scontrol would have failed.
                steps.push(row.with_duration(took));
                return None;
            } else {
                let error = of_stderr("scontrol", &answer.stderr);
                (error_step("controller", &error), Some(error))
            }
        }
        Err(error) => (error_step("controller", &error), Some(error)),
    };
    if !attribute_to_configuration(steps, error.as_ref()) {
        steps.push(row.with_duration(took));
    }
    None
}

/// Distinguishes a controller that hangs from one that is down, by a TCP connection; scontrol calls both
/// DOWN.
async fn controller_failure(line: &str) -> StepResult {
    let address = controller_address();
    let is_listening = match &address {
        Some((host, port)) => {
            let connecting = tokio::net::TcpStream::connect((host.as_str(), *port));
            tokio::time::timeout(SLOW_ANSWER, connecting).await.is_ok_and(|done| done.is_ok())
        }
        None => false,
    };
    let detail = address.map(|(host, port)| format!("tried {host}:{port}"));
    let row = if is_listening {
        StepResult::failed("controller", "hangs: accepts connections, but does not answer")
            .with_remedy(scheduler::CONTROLLER_HANGS)
    } else {
        StepResult::failed("controller", "down: nothing listens at its address")
            .with_remedy(scheduler::CONTROLLER_DOWN)
    };
    row.with_details([Some(line.to_owned()), detail].into_iter().flatten().collect())
}

/// Returns the address of the controller in `slurm.conf`.
fn controller_address() -> Option<(String, u16)> {
    let configured = std::env::var("SLURM_CONF").ok();
    let path = configured.as_deref().or_else(|| default_configuration())?;
    let text = std::fs::read_to_string(path).ok()?;
    let value = |key: &str| {
        text.lines().map(str::trim).find_map(|line| {
            let (name, value) = line.split_once('=')?;
            name.trim().eq_ignore_ascii_case(key).then(|| value.trim().to_owned())
        })
    };
    let host = value("SlurmctldHost").or_else(|| value("ControlMachine"))?;
    let host = match host.split_once('(') {
        Some((_, inside)) => inside.trim_end_matches(')').to_owned(),
        None => host,
    };
    let port = value("SlurmctldPort").and_then(|port| port.split('-').next()?.parse().ok());
    Some((host, port.unwrap_or(6817)))
}

fn error_step(step: &str, error: &SchedulerError) -> StepResult {
    StepResult::failed(step, error.message.as_str()).with_remedy(scheduler::of_scheduler(
        &PROFILE.words,
        error.kind,
        &error.message,
    ))
}

async fn check_jobs(filter: &JobFilter, steps: &mut Vec<StepResult>) -> Option<Vec<Job>> {
    let began = Instant::now();
    let jobs = match fetch_jobs(filter).await {
        Ok(jobs) => jobs,
        Err(error) if error.kind == SchedulerErrorKind::NoSuchJob => Vec::new(),
        Err(error) => {
            steps.push(error_step("jobs", &error).with_duration(began.elapsed()));
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
            .with_remedy(scheduler::NO_JOBS)
    } else {
        let status = if took > SLOW_ANSWER { StepStatus::Note } else { StepStatus::Ok };
        StepResult::new("jobs", status, finding)
    };
    steps.push(row.with_details(details.collect()).with_duration(took));
    Some(jobs)
}

/// Reports whose jobs this user can see.
async fn check_visibility(steps: &mut Vec<StepResult>) {
    let began = Instant::now();
    let arguments = ["show", "config"];
    let answer = run_command_within(COMMAND_TIMEOUT, "scontrol", &arguments, "").await;
    let Some(is_private) = answer.ok().and_then(|answer| is_job_list_private(&answer.stdout))
    else {
        return;
    };
    let row = if is_private {
        let finding = "you can see only your own jobs (PrivateData=jobs)";
        StepResult::note("job visibility", finding)
    } else {
        StepResult::ok("job visibility", "you can see the jobs of all users")
    };
    steps.push(row.with_duration(began.elapsed()));
}

/// Reports nodes in bad states: those of the jobs, and all nodes if a pending job waits for some.
async fn check_nodes(jobs: &[Job], steps: &mut Vec<StepResult>) {
    let job_nodes: BTreeSet<&str> = jobs
        .iter()
        .flat_map(|job| job.allocations.iter())
        .map(|allocation| allocation.node.as_str())
        .collect();
    let waits_for_nodes = jobs.iter().any(|job| {
        let reason = job.reason.as_deref().unwrap_or_default();
        job.state == JobState::Pending
            && ["DOWN", "DRAIN", "ReqNodeNotAvail", "BadConstraints"]
                .iter()
                .any(|sign| reason.contains(sign))
    });
    if job_nodes.is_empty() && !waits_for_nodes {
        return;
    }
    let began = Instant::now();
    let arguments = ["--noheader", "--Node", "--format=%N|%T|%E"];
    let row = match run_command_within(COMMAND_TIMEOUT, "sinfo", &arguments, "").await {
        Ok(answer) => nodes_step(&answer.stdout, &job_nodes, waits_for_nodes),
        Err(error) => StepResult::note("nodes", error.message),
    };
    steps.push(row.with_duration(began.elapsed()));
}

/// Returns the step of nodes in bad states: those in `own`, or all if `waits_for_nodes`.
fn nodes_step(output: &str, job_nodes: &BTreeSet<&str>, waits_for_nodes: bool) -> StepResult {
    let mut by_state: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // Nodes in other states return by themselves, or need more than `resume`.
    let mut stopped: BTreeSet<&str> = BTreeSet::new();
    let mut is_down = false;
    let mut unlisted = job_nodes.clone();
    for line in output.lines() {
        let mut fields = line.splitn(3, '|');
        let (Some(node), Some(state), reason) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        unlisted.remove(node);
        let is_bad = ["drain", "down", "fail", "maint", "*", "inval"]
            .iter()
            .any(|part| state.contains(part));
        if is_bad && (job_nodes.contains(node) || waits_for_nodes) {
            is_down |= state.contains("down");
            let reason = reason.filter(|reason| !matches!(*reason, "" | "none"));
            let reason = reason.map(|reason| format!(": {}", sanitize(reason, 200)));
            let nodes = by_state
                .entry(format!("{}{}", sanitize(state, 40), reason.unwrap_or_default()))
                .or_default();
            if !nodes.contains(&node) {
                nodes.push(node);
            }
            if STOPPED_STATES.iter().any(|part| state.contains(part)) && NodeName::new(node).is_ok()
            {
                stopped.insert(node);
            }
        }
    }
    if by_state.is_empty() && !unlisted.is_empty() {
        let names = nodeset::fold(&unlisted);
        StepResult::note("nodes", format!("sinfo does not list {names}"))
            .with_remedy(scheduler::UNLISTED_NODES)
    } else if by_state.is_empty() {
        StepResult::ok("nodes", format!("{} used by your jobs, no problems", job_nodes.len()))
    } else {
        let lines = by_state.iter().map(|(why, nodes)| format!("{} {why}", nodeset::fold(nodes)));
        let mut lines: Vec<String> = lines.collect();
        let first = lines.remove(0);
        let status = if is_down || waits_for_nodes { StepStatus::Failed } else { StepStatus::Note };
        StepResult::new("nodes", status, first)
            .with_details(lines)
            .with_remedy(scheduler::resume(&stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_own_jobs_are_a_failure_only_if_they_are_down() {
        let own = BTreeSet::from(["downtown01"]);
        for (line, status) in [
            ("downtown01|drained|shutdown of the rack", StepStatus::Note),
            ("downtown01|down*|Not responding", StepStatus::Failed),
            ("downtown01|mixed|none", StepStatus::Ok),
        ] {
            assert_eq!(nodes_step(line, &own, false).status, status, "{line}");
        }
    }

    #[test]
    fn only_drained_down_and_failed_nodes_are_resumed() {
        let remedy = |output: &str| nodes_step(output, &BTreeSet::new(), true).remedy.unwrap();
        for state in ["maint", "inval", "idle*", "mixed*", "maint|drain of power fails"] {
            let text = remedy(&format!("gpu01|{state}\n"));
            assert!(!text.contains("RESUME"), "{state}: {text}");
        }
        let output = "gpu01|drained|ECC\ngpu02|down*|none\ngpu03|idle*|none\ngpu04|failing|x\ngpu05|maint|x\n\
                    x;reboot|drained|x\n-f|down|x\n";
        let text = remedy(output);
        assert!(
            text.ends_with(": scontrol update NodeName='gpu[01-02,04]' State=RESUME")
                && text.contains("once the reason is gone"),
            "{text}"
        );
        assert!(remedy("gpu01|down|x\n").ends_with(" NodeName=gpu01 State=RESUME"));
    }
}
