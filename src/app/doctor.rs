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
    prompter.iter().for_each(Prompter::open);
    let mut examinations = spawn_examinations(env, targets);
    if let Some(prompter) = &mut prompter {
        prompter.prompt_at_startup(ssh_count).await?;
    }
    let mut reports = BTreeMap::new();
    let mut printed = 0;
    let mut is_healthy = first.iter().all(Report::is_healthy);
    while reports.len() < count {
        let done = unless_stopped(&mut signals, examinations.join_next()).await?;
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

fn spawn_examinations(env: &Env, targets: Vec<Target>) -> JoinSet<(usize, Report)> {
    targets::spawn_for_each(targets, env.cli.connection.max_connecting, |target| {
        let (transport, clock) = (env.transport.clone(), env.clock.clone());
        async move { Box::pin(diagnose_node(&transport, &target, &clock)).await }
    })
}
