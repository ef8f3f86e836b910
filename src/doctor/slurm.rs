//! Reports Slurm as seen from this machine: commands, configuration, munge, the controller, and the state of
//! the user's jobs and their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::remedy::shell_quoted;
use crate::doctor::{Report, StepResult, StepStatus, srun};
use crate::inventory::slurm::{
    JobFilter, SlurmError, SlurmErrorKind, fetch_jobs, fetch_node_addresses, run_command_within,
    targets_of_jobs,
};
use crate::model::{Job, JobState, NodeName, sanitize};
use crate::nodeset;
use crate::time::Clock;
use crate::transport::{ProgramOutput, SchedulerAddresses, Target, Transport};

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
pub struct SlurmDiagnosis {
    pub report: Report,
    /// Up to 8 nodes of running jobs.
    pub nodes: Vec<Target>,
}

/// Examines Slurm. The first failed step is the cause; later ones run only if they add information.
pub async fn diagnose_slurm(
    whose: &JobFilter,
    transport: &Transport,
    clock: &Clock,
) -> Option<SlurmDiagnosis> {
    let mut rows = Vec::new();
    let nodes = match Box::pin(run_checks(whose, &mut rows)).await {
        Some(jobs) => {
            let nodes = jobs.iter().flat_map(|job| job.allocations.iter());
            let nodes = nodes.map(|one| one.node.clone()).collect();
            let known = Arc::new(fetch_node_addresses(&nodes).await);
            transport.set_scheduler_addresses(SchedulerAddresses { known, is_asking: false });
            Box::pin(srun::add_steps(&jobs, transport, clock, &mut rows)).await;
            targets_of_jobs(&jobs)
        }
        None => Vec::new(),
    };
    let nodes = nodes.into_iter().take(MAX_NODES).collect();
    let report = Report::new(NodeName::new("slurm").ok()?, rows);
    Some(SlurmDiagnosis { report, nodes })
}

/// Returns the jobs, or `None` after a failure that makes further steps pointless.
async fn run_checks(whose: &JobFilter, rows: &mut Vec<StepResult>) -> Option<Vec<Job>> {
    check_configuration(rows)?;
    check_munge(rows).await?;
    check_controller(rows).await?;
    let jobs = check_jobs(whose, rows).await?;
    check_visibility(rows).await;
    check_nodes(&jobs, rows).await;
    Some(jobs)
}

fn check_configuration(rows: &mut Vec<StepResult>) -> Option<()> {
    let step = "configuration";
    if let Ok(path) = std::env::var("SLURM_CONF") {
        let path = sanitize(&path, 300);
        if Path::new(&path).exists() {
            rows.push(StepResult::new(step, StepStatus::Ok, format!("{path} (SLURM_CONF)")));
            return Some(());
        }
        let row = StepResult::new(
            step,
            StepStatus::Failed,
            format!("SLURM_CONF is {path}, which does not exist"),
        );
        rows.push(row.with_remedy("unset SLURM_CONF, or correct it"));
        return None;
    }
    let found = CONF_PATHS.iter().find(|path| Path::new(path).exists());
    rows.push(match found {
        Some(path) => StepResult::new(step, StepStatus::Ok, *path),
        None => StepResult::new(step, StepStatus::Note, "no slurm.conf in the default folders")
            .with_details(CONF_PATHS.iter().map(|path| format!("not found: {path}")).collect()),
    });
    Some(())
}

/// Reports a failure at the step of the configuration, if that is its cause. Returns true if so.
fn attribute_to_configuration(rows: &mut [StepResult], trouble: Option<&SlurmError>) -> bool {
    if let Some(trouble) = trouble.filter(|known| known.kind == SlurmErrorKind::BadConfiguration) {
        let Some(row) = rows.iter_mut().find(|row| row.step == "configuration") else {
            return false;
        };
        row.status = StepStatus::Failed;
        let place = std::mem::replace(&mut row.finding, trouble.message.clone());
        row.details.insert(0, place);
        row.remedy = Some(trouble.remedy.to_owned());
        return true;
    }
    let row =
        rows.iter_mut().find(|row| row.step == "configuration" && row.status == StepStatus::Note);
    let Some(row) = row else { return false };
    row.status = StepStatus::Failed;
    "slurm.conf is missing and no server provides it".clone_into(&mut row.finding);
    row.remedy = Some(
        "start gtop on a login node, set SLURM_CONF, or ask the administrator for slurm.conf"
            .to_owned(),
    );
    true
}

async fn check_munge(rows: &mut Vec<StepResult>) -> Option<()> {
    let began = Instant::now();
    let answer = run_command_within(COMMAND_TIMEOUT, "munge", &["--no-input".into()], "").await;
    let row = match answer {
        Ok(answer) if answer.output.starts_with("MUNGE:") => {
            StepResult::new("munge", StepStatus::Ok, "authentication works")
        }
        // Slurm may use another authentication plugin than munge.
        Err(SlurmError { kind: SlurmErrorKind::NotInstalled, .. }) => {
            StepResult::new("munge", StepStatus::NotApplicable, "not on the PATH")
        }
        Ok(ProgramOutput { complaint, output, .. }) => {
            munge_failure(if complaint.trim().is_empty() { &output } else { &complaint })
        }
        Err(_late) => munge_failure(&format!("no answer within {} s", COMMAND_TIMEOUT.as_secs())),
    };
    let has_failed = row.status == StepStatus::Failed;
    rows.push(row.with_duration(began.elapsed()));
    (!has_failed).then_some(())
}

fn munge_failure(why: &str) -> StepResult {
    let why = sanitize(why.lines().next().unwrap_or_default(), 300);
    StepResult::new("munge", StepStatus::Failed, "authentication fails: Slurm cannot identify you")
        .with_details(vec![why])
        .with_remedy("as root on this machine: systemctl restart munge")
}

async fn check_controller(rows: &mut Vec<StepResult>) -> Option<()> {
    let began = Instant::now();
    let answer = run_command_within(PING_TIMEOUT, "scontrol", &["ping".into()], "").await;
    let took = began.elapsed();
    let mut trouble = None;
    let row = match answer {
        Ok(answer) if answer.output.contains(" is UP") => {
            let line = answer.output.lines().find(|line| line.contains(" is UP"));
            let mark = if took > SLOW_ANSWER { StepStatus::Note } else { StepStatus::Ok };
            rows.push(
                StepResult::new("controller", mark, line.unwrap_or_default()).with_duration(took),
            );
            return Some(());
        }
        Ok(answer) if answer.output.contains(" is DOWN") => {
            let line = answer.output.lines().find(|line| line.contains(" is DOWN"));
            controller_failure(line.unwrap_or_default()).await
        }
        Ok(answer) if answer.succeeded => {
            let said = answer.output.lines().find(|line| !line.trim().is_empty());
            let said = sanitize(said.unwrap_or("nothing"), 200);
            let found = format!("unexpected output of scontrol ping: {said:?}");
            let row = StepResult::new("controller", StepStatus::Failed, found)
                .with_remedy("run scontrol ping by hand; another program may have its name");
            // With a broken configuration, scontrol would have failed.
            rows.push(row.with_duration(took));
            return None;
        }
        Ok(answer) => {
            let found = trouble.insert(SlurmError::from_stderr("scontrol", &answer.complaint));
            error_step("controller", found)
        }
        Err(fault) => error_step("controller", trouble.insert(fault)),
    };
    if !attribute_to_configuration(rows, trouble.as_ref()) {
        rows.push(row.with_duration(took));
    }
    None
}

/// Distinguishes a controller that hangs from one that is down, by a TCP connection; scontrol calls both
/// DOWN.
async fn controller_failure(line: &str) -> StepResult {
    let address = controller_address();
    let answers = match &address {
        Some((host, port)) => {
            let connecting = tokio::net::TcpStream::connect((host.as_str(), *port));
            tokio::time::timeout(SLOW_ANSWER, connecting).await.is_ok_and(|done| done.is_ok())
        }
        None => false,
    };
    let place = address.map(|(host, port)| format!("tried {host}:{port}"));
    let row = if answers {
        StepResult::new(
            "controller",
            StepStatus::Failed,
            "hangs: accepts connections, but does not answer",
        )
        .with_remedy("ask the administrator to check and restart slurmctld")
    } else {
        StepResult::new("controller", StepStatus::Failed, "down: nothing listens at its address")
            .with_remedy("ask the administrator to start slurmctld")
    };
    row.with_details([Some(line.to_owned()), place].into_iter().flatten().collect())
}

/// Returns the address of the controller in `slurm.conf`.
fn controller_address() -> Option<(String, u16)> {
    let own = std::env::var("SLURM_CONF").ok();
    let path = own.or_else(|| {
        CONF_PATHS.iter().find(|path| Path::new(path).exists()).map(|path| (*path).to_owned())
    })?;
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

fn error_step(step: &str, trouble: &SlurmError) -> StepResult {
    StepResult::new(step, StepStatus::Failed, trouble.message.as_str()).with_remedy(trouble.remedy)
}

async fn check_jobs(whose: &JobFilter, rows: &mut Vec<StepResult>) -> Option<Vec<Job>> {
    let began = Instant::now();
    let jobs = match fetch_jobs(whose).await {
        Ok(jobs) => jobs,
        Err(trouble) if trouble.kind == SlurmErrorKind::NoSuchJob => Vec::new(),
        Err(trouble) => {
            rows.push(error_step("jobs", &trouble).with_duration(began.elapsed()));
            return None;
        }
    };
    let took = began.elapsed();
    let running = jobs.iter().filter(|job| !job.allocations.is_empty()).count();
    let waiting: Vec<&Job> = jobs.iter().filter(|job| job.state == JobState::Pending).collect();
    let found = format!("{running} running, {} pending, {}", waiting.len(), whose.describe());
    let details = waiting.iter().take(4).map(|job| {
        let reason = job.reason.as_deref().unwrap_or("no reason given");
        format!("job {} is pending: {reason}", job.shown_id)
    });
    let row = if running == 0 {
        StepResult::new("jobs", StepStatus::Note, format!("no running job {}", whose.describe()))
            .with_remedy(
                "submit one with sbatch or salloc; gtop --slurm shows the nodes of running jobs",
            )
    } else {
        let mark = if took > SLOW_ANSWER { StepStatus::Note } else { StepStatus::Ok };
        StepResult::new("jobs", mark, found)
    };
    rows.push(row.with_details(details.collect()).with_duration(took));
    Some(jobs)
}

/// Reports whose jobs this user can see.
async fn check_visibility(rows: &mut Vec<StepResult>) {
    let began = Instant::now();
    let words = ["show".into(), "config".into()];
    let Ok(answer) = run_command_within(COMMAND_TIMEOUT, "scontrol", &words, "").await else {
        return;
    };
    let line = answer.output.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "PrivateData").then(|| value.trim().to_owned())
    });
    let Some(private) = line else { return };
    let row = if private.split(',').any(|word| word.trim() == "jobs") {
        StepResult::new(
            "job visibility",
            StepStatus::Note,
            "you can see only your own jobs (PrivateData=jobs)",
        )
    } else {
        StepResult::new("job visibility", StepStatus::Ok, "you can see the jobs of all users")
    };
    rows.push(row.with_duration(began.elapsed()));
}

/// Reports nodes in bad states: those of the jobs, and all nodes if a pending job waits for some.
async fn check_nodes(jobs: &[Job], rows: &mut Vec<StepResult>) {
    let own: BTreeSet<&str> = jobs
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
    if own.is_empty() && !waits_for_nodes {
        return;
    }
    let began = Instant::now();
    let words: Vec<OsString> =
        ["--noheader", "--Node", "--format=%N|%T|%E"].iter().map(Into::into).collect();
    let answer = match run_command_within(COMMAND_TIMEOUT, "sinfo", &words, "").await {
        Ok(answer) => answer,
        Err(trouble) => {
            rows.push(
                StepResult::new("nodes", StepStatus::Note, trouble.message)
                    .with_duration(began.elapsed()),
            );
            return;
        }
    };
    let row = nodes_step(&answer.output, &own, waits_for_nodes);
    rows.push(row.with_duration(began.elapsed()));
}

/// Returns the step of nodes in bad states: those in `own`, or all if `waits_for_nodes`.
fn nodes_step(told: &str, own: &BTreeSet<&str>, waits_for_nodes: bool) -> StepResult {
    let mut odd: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // Nodes in other states return by themselves, or need more than `resume`.
    let mut stopped: BTreeSet<&str> = BTreeSet::new();
    let mut untold = own.clone();
    for line in told.lines() {
        let mut fields = line.splitn(3, '|');
        let (Some(node), Some(state), reason) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        untold.remove(node);
        let is_odd = ["drain", "down", "fail", "maint", "*", "inval"]
            .iter()
            .any(|sign| state.contains(sign));
        if is_odd && (own.contains(node) || waits_for_nodes) {
            let reason = reason.filter(|reason| !matches!(*reason, "" | "none"));
            let reason = reason.map(|reason| format!(": {}", sanitize(reason, 200)));
            let nodes = odd
                .entry(format!("{}{}", sanitize(state, 40), reason.unwrap_or_default()))
                .or_default();
            if !nodes.contains(&node) {
                nodes.push(node);
            }
            if STOPPED_STATES.iter().any(|sign| state.contains(sign)) && NodeName::new(node).is_ok()
            {
                stopped.insert(node);
            }
        }
    }
    if odd.is_empty() && !untold.is_empty() {
        let names = nodeset::fold(&untold);
        StepResult::new("nodes", StepStatus::Note, format!("sinfo does not list {names}"))
            .with_remedy("run sinfo --Node by hand")
    } else if odd.is_empty() {
        StepResult::new(
            "nodes",
            StepStatus::Ok,
            format!("{} used by your jobs, no problems", own.len()),
        )
    } else {
        let lines = odd.iter().map(|(why, nodes)| format!("{} {why}", nodeset::fold(nodes)));
        let mut lines: Vec<String> = lines.collect();
        let first = lines.remove(0);
        let mark = if first.contains("down") || waits_for_nodes {
            StepStatus::Failed
        } else {
            StepStatus::Note
        };
        StepResult::new("nodes", mark, first)
            .with_details(lines)
            .with_remedy(resume_remedy(&stopped))
    }
}

/// Returns the command that resumes the nodes.
fn resume_remedy(stopped: &BTreeSet<&str>) -> String {
    if stopped.is_empty() {
        return "no new jobs start there; ask the administrator for how long".to_owned();
    }
    format!(
        "no new jobs start there, even once the reason is gone, until an administrator runs: \
         scontrol update NodeName={} State=RESUME",
        shell_quoted(&nodeset::fold(stopped))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_were_stopped_are_resumed() {
        let remedy = |told: &str| nodes_step(told, &BTreeSet::new(), true).remedy.unwrap();
        for state in ["maint", "inval", "idle*", "mixed*", "maint|drain of power fails"] {
            let text = remedy(&format!("gpu01|{state}\n"));
            assert!(!text.contains("RESUME"), "{state}: {text}");
        }
        let told = "gpu01|drained|ECC\ngpu02|down*|none\ngpu03|idle*|none\ngpu04|failing|x\ngpu05|maint|x\n\
                    x;reboot|drained|x\n-f|down|x\n";
        let text = remedy(told);
        assert!(
            text.ends_with(": scontrol update NodeName='gpu[01-02,04]' State=RESUME")
                && text.contains("once the reason is gone"),
            "{text}"
        );
        assert!(remedy("gpu01|down|x\n").ends_with(" NodeName=gpu01 State=RESUME"));
    }
}
