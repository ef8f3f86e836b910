//! `gtop` without a subcommand: watches nodes, on the screen or printed.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::app::env::Env;
use crate::app::feed::Feed;
use crate::app::output_mode::OutputMode;
use crate::app::printer::Printer;
use crate::app::prompter::Prompter;
use crate::app::recording::SessionRecorder;
use crate::app::unlock::unlock_keys;
use crate::app::utilization_log::{UtilizationLog, print_notices};
use crate::app::{AppError, ExitReason, limits, recording, screen, targets, utilization_log};
use crate::cli::Cli;
use crate::setting_table::{IntervalSettings, OutputSettings, TransportChoice};
use crate::watch::{Discovery, Monitor, SCHEDULER_TIMEOUT, simulate};
use gtop_collect::transport::Reach;

/// Maximum wait for the scheduler before the screen shows that it is asked.
const SCREEN_TIMEOUT: Duration = Duration::from_millis(100);

/// What is being watched.
pub(super) struct WatchSession {
    pub(super) monitor: Monitor,
    /// What is watched, as text.
    pub(super) title: String,
    pub(super) recorder: SessionRecorder,
    pub(super) prompter: Option<Prompter>,
    /// How long the scheduler was waited for.
    pub(super) scheduler_wait: Duration,
}

/// Finds the nodes, asks for what their connections need, and starts to watch them.
pub(super) fn start(env: &mut Env, err: &mut impl Write) -> Result<Box<WatchSession>, AppError> {
    let is_demo = env.cli.nodes.demo.is_some();
    let (discovery, title) = discovery(env)?;
    let is_screen = matches!(env.output_mode, OutputMode::Screen);
    // The scheduler usually answers at once; then passphrases are asked for before the screen.
    let limit = if is_screen { SCREEN_TIMEOUT } else { SCHEDULER_TIMEOUT };
    let limit = limit.min(env.settings.read::<OutputSettings>().deadline);
    let scheduler_wait = env.runtime.block_on(discovery.wait_for_answer(limit));
    let roster = Arc::clone(&discovery.rosters().borrow());
    let targets = &roster.targets;
    let files_per_node = files_per_node(&env.cli);
    let available = env.max_open_files.map(|limit| limit.saturating_sub(env.other_files));
    let with_files = targets.iter().filter(|target| !matches!(target.reach, Reach::InProcess(_)));
    let warning = limits::open_files_warning(available, with_files.count(), files_per_node);
    if let Some(warning) = warning {
        writeln!(err, "gtop: {warning}")?;
    }
    if !is_demo {
        env.runtime.block_on(unlock_keys(&env.transport, targets, err))?;
    }
    // Neither simulated nodes, nor this machine, nor a command prompts for input.
    let ssh_count = targets::ssh_count(targets);
    let uses_ssh = !is_demo && env.cli.connection.exec.is_none();
    let can_prompt = uses_ssh && (ssh_count > 0 || env.cli.jobs.is_requested());
    env.prompter = env.prompter.take().filter(|_| can_prompt);
    if let Some(prompter) = &mut env.prompter {
        prompter.open(ssh_count);
        prompter.has_late_nodes = !roster.is_complete();
    }
    let recorder = SessionRecorder::start(env, &title)?;
    let (transport, clock) = (env.transport.clone(), env.clock.clone());
    let options = env.monitor_options();
    let monitor = Monitor::start(transport, discovery, options, clock, recorder.sink())?;
    // The screen does not wait for logins: it is suspended for their prompts.
    if let Some(prompter) = env.prompter.as_ref().filter(|_| !is_screen) {
        env.runtime.block_on(prompter.prompt_at_startup())?;
    }
    let prompter = env.prompter.take();
    Ok(Box::new(WatchSession { monitor, title, recorder, prompter, scheduler_wait }))
}

/// Watches the nodes until the snapshot is printed or the user quits.
pub(super) fn run(
    mut env: Env,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    if env.cli.nodes.demo.is_some() {
        // The interval of simulated nodes must not become the default for real ones.
        let interval = env.settings.read::<IntervalSettings>().interval;
        env.settings.never_save(interval.name);
    }
    if let OutputMode::Once(Some(reason)) = env.output_mode {
        writeln!(err, "gtop: {reason}")?;
    }
    let log_file = env.cli.output.output.as_deref().map(utilization_log::open).transpose()?;
    let WatchSession { monitor, title, recorder, prompter, scheduler_wait } =
        *start(&mut env, err)?;
    let (notice_sender, mut notices) = mpsc::channel(1);
    let log = log_file
        .map(|file| UtilizationLog::start(&env, &monitor, file, notice_sender.clone()))
        .transpose()?;
    let mut printer = Printer::new(&env, &title);
    let reason = env.runtime.block_on(async {
        match env.output_mode {
            OutputMode::Screen => {
                Box::pin(screen::run(
                    &env,
                    &monitor,
                    &recorder,
                    title.clone(),
                    prompter,
                    None,
                    &mut notices,
                ))
                .await
            }
            OutputMode::Record => tokio::select! {
                reason = recording::report(&recorder, &notice_sender) => reason,
                reason = print_notices(&mut notices, err) => reason,
            },
            OutputMode::Once(_) => tokio::select! {
                reason = printer.print_once(&monitor, scheduler_wait, out) => reason,
                reason = print_notices(&mut notices, err) => reason,
            },
            OutputMode::Continuous if env.cli.output.feed => {
                let (mut writer, feed) = Feed::open()?;
                tokio::select! {
                    reason = printer.print_continuously(&monitor, &mut writer) => reason,
                    ended = feed.serve() => ended.map(|()| ExitReason::Done),
                    reason = print_notices(&mut notices, err) => reason,
                }
            }
            OutputMode::Continuous => tokio::select! {
                reason = printer.print_continuously(&monitor, out) => reason,
                reason = recording::report(&recorder, &notice_sender) => reason,
                reason = print_notices(&mut notices, err) => reason,
            },
        }
    });
    for notice in &printer.notices {
        writeln!(err, "gtop: {notice}")?;
    }
    if let Some(log) = log {
        log.finish();
        while let Ok(notice) = notices.try_recv() {
            writeln!(err, "gtop: {notice}")?;
        }
    }
    // A blocked read of standard input must not delay the exit.
    drop(monitor);
    recording::finish(recorder, env.output_mode, err)?;
    Ok(reason?)
}

/// Prepares to find the nodes; starts them if they are simulated. The text says what is watched.
pub(super) fn discovery(env: &Env) -> Result<(Discovery, String), AppError> {
    let nodes = &env.cli.nodes;
    match nodes.demo {
        Some(count) => Ok(simulate(count, nodes.seed, env.clock.clone())?),
        None => targets::discovery(env),
    }
}

/// Returns the number of files that are open per node.
fn files_per_node(cli: &Cli) -> u64 {
    match cli.connection.transport_kind() {
        _ if cli.nodes.demo.is_some() => limits::FILES_PER_SESSION_AND_SERVER,
        TransportChoice::Ssh | TransportChoice::Exec => limits::FILES_PER_PROGRAM,
        // One step serves many nodes.
        TransportChoice::Auto
        | TransportChoice::Native
        | TransportChoice::Local
        | TransportChoice::Srun => limits::FILES_PER_SESSION,
    }
}
