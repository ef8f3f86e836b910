//! `gtop doctor`: examines nodes concurrently and prints the reports in the order of the targets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use tokio::task::JoinSet;

use crate::app::env::Env;
use crate::app::prompter::Prompter;
use crate::app::targets::{self, PodSearch};
use crate::app::unlock::unlock_keys;
use crate::app::{AppError, ExitReason, unless_stopped};
use crate::cli::DoctorOptions;
use crate::doctor::{
    Report, SchedulerDiagnosis, diagnose_node, diagnose_scheduler, report_on_pod, write_json,
    write_text,
};
use crate::watch::with_local;
use gtop_collect::scheduler::{JobFilter, SchedulerKind};
use gtop_collect::transport::Target;
use gtop_model::NodeName;
use gtop_ui::StopSignals;

/// What is examined.
struct DoctorTargets {
    targets: Vec<Target>,
    /// The reports on the TPU pod and on the scheduler, printed first.
    first: Vec<Report>,
    /// With a filter, the scheduler is examined first, then the nodes of these jobs.
    jobs: Option<(SchedulerKind, JobFilter)>,
}

impl DoctorTargets {
    fn of(env: &Env, options: &DoctorOptions) -> Result<Self, AppError> {
        let (cli, hosts) = (&env.cli, &options.hosts);
        let is_local = options.local || cli.nodes.local;
        let kind = if options.jobs { SchedulerKind::Slurm } else { cli.jobs.scheduler() };
        let jobs = (options.jobs || cli.jobs.is_requested())
            .then(|| (kind, targets::job_filter_of_options(cli)));
        let search = PodSearch::of(cli)?;
        let pod = search.as_ref().map(|search| report_on_pod(&search.result, search.duration));
        let pod = pod.transpose().map_err(io::Error::other)?;
        let found = search.as_ref().and_then(|search| search.result.as_ref().ok());
        let no_targets = search.is_some() && found.is_none() && hosts.is_empty() && !is_local;
        let targets = if no_targets {
            Vec::new()
        } else {
            let roster = targets::named_roster_with_pod(env, hosts, found)?;
            // With jobs the targets are the nodes of the jobs, so this machine is not added.
            let is_of_jobs = jobs.is_some() && roster.targets.is_empty() && !is_local;
            if is_of_jobs { Vec::new() } else { with_local(roster, is_local).0 }
        };
        Ok(Self { targets, first: pod.into_iter().collect(), jobs })
    }
}

/// Runs `gtop doctor`, after asking for the passphrases of encrypted keys.
pub(super) fn run(
    mut env: Env,
    options: &DoctorOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let targets = DoctorTargets::of(&env, options)?;
    env.runtime.block_on(unlock_keys(&env.transport, &targets.targets, err))?;
    let is_json = options.json || env.cli.output.print.json;
    let prompter = env.prompter.take();
    env.runtime.block_on(examine(&env, prompter, targets, is_json, out))
}

/// Examines all nodes and prints the reports.
async fn examine(
    env: &Env,
    prompter: Option<Prompter>,
    doctor_targets: DoctorTargets,
    is_json: bool,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let DoctorTargets { mut targets, mut first, jobs } = doctor_targets;
    let mut signals = StopSignals::new();
    if let Some((kind, filter)) = jobs {
        let diagnosis = Box::pin(diagnose_scheduler(kind, &filter, &env.transport, &env.clock));
        let diagnosis = unless_stopped(&mut signals, diagnosis).await?;
        let Some(SchedulerDiagnosis { report, nodes }) = diagnosis else {
            return Ok(ExitReason::Failed);
        };
        let named: BTreeSet<NodeName> = targets.iter().map(|node| node.name.clone()).collect();
        targets.extend(nodes.into_iter().filter(|node| !named.contains(&node.name)));
        first.push(report);
    }
    for (index, report) in first.iter().enumerate().filter(|_| !is_json) {
        print(report, index > 0, out)?;
    }
    let (count, ssh_count) = (targets.len(), targets::ssh_count(&targets));
    let mut prompter = prompter.filter(|_| ssh_count > 0);
    if let Some(prompter) = &mut prompter {
        prompter.open(ssh_count);
    }
    let mut examinations = spawn_examinations(env, targets);
    if let Some(prompter) = &mut prompter {
        prompter.prompt_at_startup().await?;
    }
    let mut printed = first.len();
    let in_order = in_order(&mut examinations, |report| {
        if is_json {
            return Ok(());
        }
        printed += 1;
        print(report, printed > 1, out)
    });
    let reports = unless_stopped(&mut signals, in_order).await??;
    // An examination that panicked has no report and counts as failed.
    let is_complete = reports.len() == count;
    let reports: Vec<Report> = first.into_iter().chain(reports).collect();
    if is_json {
        write_json(out, &reports)?;
    }
    out.flush()?;
    let is_healthy = is_complete && reports.iter().all(Report::is_healthy);
    Ok(if is_healthy { ExitReason::Done } else { ExitReason::Failed })
}

/// Returns the reports in order, each shown as soon as those before it are; one whose examination panicked is left out.
async fn in_order(
    examinations: &mut JoinSet<(usize, Report)>,
    mut show: impl FnMut(&Report) -> io::Result<()>,
) -> io::Result<Vec<Report>> {
    let mut reports = BTreeMap::new();
    let mut next = 0;
    while let Some(done) = examinations.join_next().await {
        let Ok((index, report)) = done else { continue };
        reports.insert(index, report);
        while let Some(report) = reports.get(&next) {
            show(report)?;
            next += 1;
        }
    }
    for report in reports.range(next..).map(|(_, report)| report) {
        show(report)?;
    }
    Ok(reports.into_values().collect())
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

fn spawn_examinations(env: &Env, targets: Vec<Target>) -> JoinSet<(usize, Report)> {
    targets::spawn_for_each(targets, env.cli.connection.max_connecting, |target| {
        let (transport, clock) = (env.transport.clone(), env.clock.clone());
        async move { Box::pin(diagnose_node(&transport, &target, &clock)).await }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reports_after_a_panic_are_shown() {
        let mut examinations = JoinSet::new();
        for index in 0..4 {
            examinations.spawn(async move {
                assert_ne!(index, 1, "this examination panics");
                let node = NodeName::new(&format!("gpu{index}")).unwrap();
                (index, Report { node, steps: Vec::new() })
            });
        }
        let mut shown = Vec::new();
        let reports = in_order(&mut examinations, |report| {
            shown.push(report.node.to_string());
            Ok(())
        });
        let reports = reports.await.unwrap();
        assert_eq!(shown, ["gpu0", "gpu2", "gpu3"]);
        assert_eq!(reports.len(), 3);
    }
}
