//! `gtop pick`: waits for a complete snapshot, prints the devices that may be used, or runs a command on them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::app::env::Env;
use crate::app::pick::absence::{check_any_devices, check_any_readable, has_hope, is_unreadable};
use crate::app::pick::command::{check_program, run_command};
use crate::app::pick::reserving::choose;
use crate::app::pick::snapshot::{Snapshot, complete_fleet};
use crate::app::watch::{WatchSession, start};
use crate::app::{AppError, CommandError, ExitReason, print_whole, variable};
use crate::cli::{DeviceFormat, PickOptions};
use crate::export::{PickFormat, write_pick_json, write_pick_variables, write_picks};
use crate::setting_table::{IntervalSettings, JobSettings};
use crate::watch::restore_open_files;
use gtop_collect::inventory::targets_of_nodes;
use gtop_collect::scheduler::OwnJob;
use gtop_collect::transport::{Reach, Target};
use gtop_fleet::insight::node_status::device_label;
use gtop_fleet::insight::pick::{
    EligibleDevice, PickRequest, Picks, Refused, Spread, memory_of_nobody, variables,
};
use gtop_fleet::{Fleet, Health, Node};
use gtop_local::fault::Fault;
use gtop_local::process;
use gtop_local::text::counted;
use gtop_local::time::Timestamp;
use gtop_model::{Device, JobId, nodeset};
use gtop_ui::StopSignals;

mod absence;
mod command;
mod on_node;
mod reserving;
mod snapshot;

/// Devices that are named because they are not sound.
const MAX_PASSED_OVER: usize = 3;

/// Why no devices are picked, or the command does not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum PickError {
    #[error("no devices: {0}; gtop doctor {1}says more")]
    NoDevices(String, String),
    #[error("no devices: {0}; gtop doctor {1}says more")]
    DriverError(String, String),
    #[error("no device can be read{0}; gtop doctor {1}says more")]
    Unreadable(String, String),
    #[error("{0}: command not found; nothing was picked")]
    CommandNotFound(String),
    #[error("{0}: not an executable file; nothing was picked")]
    NotExecutable(String),
    #[error("{command} does not run: {shortage}")]
    TooFew { command: String, shortage: String },
    #[error(
        "{command} does not run: the picked devices are on {node}, and it would run on this machine; {remedy}"
    )]
    Elsewhere { command: String, node: String, remedy: String },
    #[error("the command does not run: {node}: {fault}; gtop doctor {node} says more")]
    NotOnNode { node: String, fault: Box<Fault> },
    #[error(
        "{node} is reached only through a job step, in which gtop cannot run commands; start gtop pick with srun"
    )]
    InStep { node: String },
    #[error("the connection to {node} ended before the command, which may still run: {fault}")]
    LostCommand { node: String, fault: Box<Fault> },
    #[error(
        "--env prints the variables of one node, and devices of {0} nodes are picked; add --same-node, or use --json"
    )]
    ManyNodes(usize),
    #[error(
        "-i without a list reads CUDA_VISIBLE_DEVICES of this machine; give the list, such as -i 0,1, or leave the hosts out"
    )]
    InheritsHere,
}

impl PickError {
    /// Exit status, as that of ssh, if a connection ended before the command.
    const CONNECTION_LOST: u8 = 255;
}

impl CommandError for PickError {
    /// Returns the exit code: nvisel's, or that of a shell that cannot run a command.
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoDevices(..) | Self::Unreadable(..) => 1,
            Self::DriverError(..)
            | Self::Elsewhere { .. }
            | Self::InStep { .. }
            | Self::ManyNodes(_)
            | Self::InheritsHere => 2,
            Self::TooFew { .. } => 4,
            Self::NotOnNode { .. } | Self::LostCommand { .. } => Self::CONNECTION_LOST,
            Self::NotExecutable(_) => 126,
            Self::CommandNotFound(_) => 127,
        }
    }
}

/// What was picked, from what.
struct Outcome {
    fleet: Fleet,
    /// How long the scheduler was asked; zero where there is none.
    scheduler_time: Duration,
    request: PickRequest,
    picks: Picks,
    targets: Vec<Target>,
    now: Timestamp,
    /// Devices follow the names of their nodes.
    has_names: bool,
    /// Devices are named by UUID.
    has_uuids: bool,
}

/// Picks devices, and prints them, becomes the command, or runs it on their node.
pub(super) fn run(
    mut env: Env,
    options: &PickOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let outcome = pick(&mut env, options, err)?;
    print_notices(&outcome, err)?;
    if options.format.json {
        let Outcome { picks, request, now, has_uuids, .. } = &outcome;
        let mut text = Vec::new();
        write_pick_json(&mut text, picks, request, *now, *has_uuids)?;
        print_whole(out, &text)?;
    }
    check_any_devices(&outcome.fleet)?;
    check_any_readable(&outcome)?;
    if !options.command.is_empty() {
        return run_command(&mut env, options, &outcome, (out, err));
    }
    if !options.format.json {
        print_picks(options, &outcome, out, err)?;
    }
    if outcome.picks.is_enough {
        return Ok(ExitReason::Done);
    }
    writeln!(err, "gtop: {}", shortage(&outcome.picks, &outcome.request))?;
    Ok(ExitReason::TooFew)
}

/// Watches the nodes until a snapshot is complete, and picks from it, again if it is to wait.
fn pick(env: &mut Env, options: &PickOptions, err: &mut impl Write) -> Result<Outcome, AppError> {
    let names_nodes = env.cli.names_nodes();
    let shell = if names_nodes { UserShell::default() } else { UserShell::of_this_process() };
    // Without an allocation elsewhere, this machine is picked from, inside a job too.
    env.cli.nodes.local |= !shell.is_elsewhere && !names_nodes;
    let nodes = &env.cli.nodes;
    let finds_nodes = shell.is_elsewhere
        || nodes.names_nodes()
        || nodes.demo.is_some()
        || env.cli.jobs.is_requested();
    let may_be_elsewhere = finds_nodes || !env.cli.hosts.is_empty();
    if options.inherits_variable() && may_be_elsewhere {
        return Err(PickError::InheritsHere.into());
    }
    // On another node, the command need not be here.
    if let Some(program) = options.command.first().filter(|_| !may_be_elsewhere) {
        check_program(program)?;
    }
    let mut session = start(env, err)?;
    // What the user was asked before is not part of the time to wait.
    let limit = options.wait_limit().map(|limit| limit.saturating_sub(session.scheduler_wait));
    let end = limit.map(|limit| Instant::now() + limit);
    let snapshot = env.runtime.block_on(complete_fleet(env, &session, end, err))?;
    let mut outcome = pick_from(env, options, &shell, snapshot, err)?;
    if options.waits() && !outcome.picks.is_enough && outcome.fleet.nodes.iter().any(has_hope) {
        let why = match check_any_devices(&outcome.fleet) {
            Err(error) => error.to_string(),
            Ok(()) => shortage(&outcome.picks, &outcome.request),
        };
        writeln!(err, "gtop: waiting: {why}")?;
        outcome = pick_later(env, options, &session, &shell, (end, outcome))?;
    }
    outcome.has_names |= finds_nodes;
    outcome.targets.clone_from(&session.monitor.rosters().borrow().targets);
    env.prompter = session.prompter.take();
    // Ends the sessions, before the devices are used.
    drop(session);
    Ok(outcome)
}

/// The shell in which gtop runs.
#[derive(Default)]
struct UserShell {
    /// The job that its environment names, or each component of a heterogeneous one.
    jobs: Vec<JobId>,
    /// It runs on another machine than the nodes of the job, as that of `salloc` on a login node does.
    is_elsewhere: bool,
}

impl UserShell {
    fn of_this_process() -> Self {
        let Some((kind, job)) = OwnJob::of_this_process() else { return Self::default() };
        let nodes = targets_of_nodes(&job.nodes, kind.profile());
        let is_elsewhere = !job.ids.is_empty()
            && !nodes.is_empty()
            && nodes.iter().all(|node| node.reach != Reach::Local);
        Self { jobs: job.ids, is_elsewhere }
    }
}

/// Becomes a program; returns why that fails.
fn become_program(program: &OsStr, args: &[OsString], variables: &[(&str, String)]) -> io::Error {
    process::terminate_programs();
    restore_open_files();
    process::replace_by(program, args, variables)
}

/// Picks from a snapshot.
fn pick_from(
    env: &Env,
    options: &PickOptions,
    shell: &UserShell,
    Snapshot { fleet, scheduler_time }: Snapshot,
    err: &mut impl Write,
) -> Result<Outcome, AppError> {
    // Without control groups, a job is known by its environment, which may be left over elsewhere.
    let is_scheduled = fleet.nodes.iter().any(|node| node.is_scheduled());
    let jobs = if shell.is_elsewhere || is_scheduled { shell.jobs.clone() } else { Vec::new() };
    let request = PickRequest { jobs, ..options.request(variable) };
    let (picks, request, now) = choose(env, options, &fleet, request, err)?;
    let has_uuids = options.format.format == DeviceFormat::Uuid;
    let has_names = fleet.nodes.len() > 1;
    let targets = Vec::new();
    Ok(Outcome { fleet, scheduler_time, request, picks, targets, now, has_names, has_uuids })
}

/// Picks again and again until enough devices are free or the time to wait is over, without the notices of the first time.
fn pick_later(
    env: &Env,
    options: &PickOptions,
    session: &WatchSession,
    shell: &UserShell,
    (end, mut outcome): (Option<Instant>, Outcome),
) -> Result<Outcome, AppError> {
    let asks_scheduler = outcome.scheduler_time > Duration::ZERO;
    let pause = if asks_scheduler {
        env.settings.read::<JobSettings>().discovery_interval
    } else {
        env.settings.read::<IntervalSettings>().interval.value
    };
    loop {
        let now = Instant::now();
        // So that the scheduler has answered by the end, even if it takes twice as long as before.
        let last = end.map(|end| end.checked_sub(outcome.scheduler_time * 2).unwrap_or(now));
        if last.is_some_and(|last| last <= now) {
            return Ok(outcome);
        }
        let next = now + pause;
        let next = last.map_or(next, |last| last.min(next));
        let stopped = env.runtime.block_on(async {
            let mut signals = StopSignals::new();
            timeout_at(next, signals.next()).await.ok()
        });
        if let Some(reason) = stopped {
            return Err(reason.into());
        }
        let sink = &mut io::sink();
        let snapshot = env.runtime.block_on(complete_fleet(env, session, end, sink))?;
        // What it was cut off from, such as the jobs on its nodes, may hold the devices.
        if snapshot.scheduler_time > Duration::ZERO && end.is_some_and(|end| end <= Instant::now())
        {
            return Ok(outcome);
        }
        outcome = pick_from(env, options, shell, snapshot, sink)?;
        if outcome.picks.is_enough {
            return Ok(outcome);
        }
    }
}

/// Writes the list or the variables.
fn print_picks(
    options: &PickOptions,
    outcome: &Outcome,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<(), AppError> {
    let Outcome { picks, has_names, has_uuids, .. } = outcome;
    let (has_names, has_uuids) = (*has_names, *has_uuids);
    let mut text = Vec::new();
    if options.format.env {
        let nodes = picks.by_node().len();
        if nodes > 1 {
            return Err(PickError::ManyNodes(nodes).into());
        }
        write_pick_variables(&mut text, picks, has_uuids)?;
    } else {
        let separator = options.format.separator();
        write_picks(&mut text, picks, PickFormat { has_uuids, separator, has_names })?;
        if !has_names && !io::stdout().is_terminal() {
            let picked: Vec<&EligibleDevice> = picks.picked.iter().collect();
            if let Some((name, list)) = variables(&picked, has_uuids).pop() {
                writeln!(err, "{name}=\"{list}\"")?;
            }
        }
    }
    Ok(print_whole(out, &text)?)
}

/// Prints which nodes are left out, which devices are not sound or not known to be, and where the inherited list ends.
fn print_notices(outcome: &Outcome, err: &mut impl Write) -> io::Result<()> {
    let Outcome { fleet, picks, .. } = outcome;
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for refused in picks.refused.iter().filter(|refused| refused.uuid.is_none()) {
        // Of a single node without devices, the error says why.
        let is_told = fleet.nodes.len() == 1
            && fleet.node(&refused.node).is_none_or(|node| node.devices.is_empty());
        if !fleet.same_as.contains_key(&refused.node) && !is_told {
            nodes.entry(&refused.reason).or_default().push(refused.node.label());
        }
    }
    for (reason, names) in nodes {
        writeln!(err, "gtop: {}: {reason}", nodeset::fold(names))?;
    }
    let unsound = picks.refused.iter().filter_map(|refused| passed_over(outcome, refused));
    print_some("passed over", &unsound.collect::<Vec<_>>(), err)?;
    let unjudged = picks.picked.iter().filter_map(|picked| unjudged(outcome, picked));
    print_some("picked", &unjudged.collect::<Vec<_>>(), err)?;
    picks.notice.iter().try_for_each(|notice| writeln!(err, "gtop: {notice}"))
}

/// Writes the first of some devices in a line, and how many more there are.
fn print_some(what: &str, devices: &[String], err: &mut impl Write) -> io::Result<()> {
    let (shown, rest) = devices.split_at(MAX_PASSED_OVER.min(devices.len()));
    if shown.is_empty() {
        return Ok(());
    }
    let more = match rest.len() {
        0 => String::new(),
        count => format!("; and {count} more, see --json"),
    };
    writeln!(err, "gtop: {what}: {}{more}", shown.join("; "))
}

/// Returns a device that was picked although it is not known how sound it is.
fn unjudged(Outcome { fleet, .. }: &Outcome, picked: &EligibleDevice) -> Option<String> {
    let node = fleet.node(&picked.node)?;
    let device = node.device(&picked.uuid).filter(|_| picked.health == Health::Unknown)?;
    let reason = node.health_reasons(device).first()?;
    Some(format!("{} {}", full_label(fleet, node, device), reason.text()))
}

/// Returns the label of a device, after that of its node if there are several.
fn full_label(fleet: &Fleet, node: &Node, device: &Device) -> String {
    let of_node = if fleet.nodes.len() > 1 { node.name.label() } else { "" };
    format!("{of_node}#{}", device_label(node, device))
}

/// Returns a device that was not picked because it is not sound or cannot be read, or has memory in use for nobody.
fn passed_over(outcome: &Outcome, refused: &Refused) -> Option<String> {
    let Outcome { fleet, request, now, .. } = outcome;
    let node = fleet.node(&refused.node)?;
    let uuid = refused.uuid.as_deref()?;
    let position = node.devices.iter().position(|device| *device.uuid == *uuid)?;
    let device = node.devices.get(position)?;
    let is_unsound = match node.health(device) {
        Health::Faulty => true,
        Health::Degraded => !request.allows_degraded,
        Health::Unknown | Health::Ok => {
            is_unreadable(node, position, *now) || memory_of_nobody(node, position).is_some()
        }
    };
    is_unsound.then(|| format!("{} {}", full_label(fleet, node, device), refused.reason))
}

/// Returns how many devices are missing, and what to do.
fn shortage(picks: &Picks, request: &PickRequest) -> String {
    let nodes = picks.by_node().len();
    let main_reason = picks.main_reason.as_ref();
    let main_reason =
        main_reason.map(|(reason, count)| format!("; of {}: {reason}", counted(*count, "other")));
    let found = match request.spread {
        Spread::Nodes(wanted) if nodes < wanted => {
            let [nodes, wanted] = [nodes, wanted].map(|count| counted(count, "node"));
            format!("devices found on {nodes}, wanted on {wanted}")
        }
        Spread::Anywhere | Spread::SameNode | Spread::Nodes(_) => {
            let found = counted(picks.picked.len(), "device");
            format!("{found} found, {} wanted", request.min_count)
        }
    };
    format!(
        "{found}{}; loosen the limits, or see with --json why each device is refused",
        main_reason.unwrap_or_default()
    )
}
