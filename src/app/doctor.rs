//! `gtop doctor`: examines nodes concurrently and prints the reports in the order of the targets.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::app::ExitReason;
use crate::app::prompter::Prompter;
use crate::doctor::{
    Report, SlurmDiagnosis, diagnose_node, diagnose_slurm, write_json, write_text,
};
use crate::inventory::slurm::JobFilter;
use crate::time::Clock;
use crate::transport::{Reach, Target, Transport};
use crate::ui::StopSignals;

/// The parameters of a run.
#[derive(Debug)]
pub(super) struct DoctorRun {
    pub(super) transport: Transport,
    pub(super) targets: Vec<Target>,
    /// Report on the TPU pod, printed first.
    pub(super) pod: Option<Report>,
    pub(super) clock: Clock,
    /// `None` without a terminal.
    pub(super) prompter: Option<Prompter>,
    pub(super) max_connecting: u16,
    pub(super) is_json: bool,
    /// With a filter, Slurm is examined first, then the nodes of these jobs.
    pub(super) slurm: Option<JobFilter>,
}

/// Examines all nodes and prints the reports.
pub(super) async fn run(doctor_run: DoctorRun, out: &mut impl Write) -> io::Result<ExitReason> {
    let DoctorRun {
        transport,
        mut targets,
        pod,
        slurm,
        clock,
        mut prompter,
        max_connecting,
        is_json,
    } = doctor_run;
    let mut signals = StopSignals::new();
    let mut first: Vec<Report> = pod.into_iter().collect();
    if let Some(filter) = slurm {
        let examination = tokio::select! {
            examination = Box::pin(diagnose_slurm(&filter, &transport, &clock)) => examination,
            reason = signals.next() => return Ok(reason.into()),
        };
        let Some(SlurmDiagnosis { report, nodes }) = examination else {
            return Ok(ExitReason::Failed);
        };
        let is_new = |node: &Target| targets.iter().all(|known| known.name != node.name);
        let nodes: Vec<Target> = nodes.into_iter().filter(is_new).collect();
        targets.extend(nodes);
        first.push(report);
    }
    for (index, report) in first.iter().enumerate().filter(|_| !is_json) {
        print(report, index > 0, out)?;
    }
    let ssh_count = targets.iter().filter(|target| matches!(target.reach, Reach::Ssh(_))).count();
    prompter = prompter.filter(|_| ssh_count > 0);
    prompter.iter().for_each(Prompter::open);
    let count = targets.len();
    let mut examinations = spawn_examinations(&transport, targets, &clock, max_connecting);
    if let Some(prompter) = &mut prompter
        && let Some(reason) = prompter.prompt_at_startup(ssh_count).await?
    {
        return Ok(reason);
    }
    let mut reports = BTreeMap::new();
    let mut printed = 0;
    let mut is_healthy = first.iter().all(Report::is_healthy);
    while reports.len() < count {
        let done = tokio::select! {
            done = examinations.join_next() => done,
            reason = signals.next() => return Ok(reason.into()),
        };
        // A task that panicked has no report and counts as failed.
        let Some(done) = done else { break };
        let Ok((index, report)) = done else {
            is_healthy = false;
            continue;
        };
        is_healthy &= report.is_healthy();
        reports.insert(index, report);
        while !is_json && let Some(report) = reports.get(&printed) {
            print(report, printed > 0 || !first.is_empty(), out)?;
            printed += 1;
        }
    }
    if is_json {
        let reports: Vec<Report> = first.into_iter().chain(reports.into_values()).collect();
        write_json(out, &reports)?;
    }
    out.flush()?;
    Ok(if is_healthy { ExitReason::Done } else { ExitReason::Failed })
}

fn print(report: &Report, is_later: bool, out: &mut impl Write) -> io::Result<()> {
    // One write: standard output is line-buffered and would split it.
    let mut text = Vec::new();
    if is_later {
        text.push(b'\n');
    }
    write_text(&mut text, report)?;
    out.write_all(&text)?;
    out.flush()
}

fn spawn_examinations(
    transport: &Transport,
    targets: Vec<Target>,
    clock: &Clock,
    max_connecting: u16,
) -> JoinSet<(usize, Report)> {
    let permits = Arc::new(Semaphore::new(usize::from(max_connecting)));
    let mut examinations = JoinSet::new();
    for (index, target) in targets.into_iter().enumerate() {
        let (transport, permits, clock) = (transport.clone(), Arc::clone(&permits), clock.clone());
        examinations.spawn(async move {
            let _permit = permits.acquire().await;
            (index, Box::pin(diagnose_node(&transport, &target, &clock)).await)
        });
    }
    examinations
}
