//! `gtop pick`: waits for a complete snapshot, prints the devices that may be used, or runs a command on them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::app::env::Env;
use crate::app::pick::reserving::choose;
use crate::app::pick::snapshot::{Snapshot, complete_fleet};
use crate::app::watch::{Start, WatchSession, start};
use crate::app::{AppError, ExitReason, targets, variable};
use crate::cli::{DeviceFormat, PickOptions};
use crate::export::{PickFormat, write_pick_json, write_pick_variables, write_picks};
use crate::setting_table::{IntervalSettings, JobSettings};
use crate::watch::restore_open_files;
use gtop_collect::transport::Target;
use gtop_fleet::advice::shell_quoted;
use gtop_fleet::insight::node_status::device_label;
use gtop_fleet::insight::pick::{
    EligibleDevice, PickRequest, Picks, Refused, Spread, memory_of_nobody, variables,
};
use gtop_fleet::{Fleet, Health, Node, SourceState, is_memory_refused};
use gtop_local::fault::Fault;
use gtop_local::process;
use gtop_local::time::Timestamp;
use gtop_model::nodeset;
use gtop_model::{
    BackendState, Device, Freshness, JobId, Link, NodeName, SourceFault, SourceFaultKind,
    TransportKind,
};
use gtop_ui::StopSignals;

mod on_node;
mod reserving;
mod snapshot;

/// Devices that are named because they are not sound.
const MAX_PASSED_OVER: usize = 3;
/// Options with a file of hosts; the first one stands before `pick`, where it has no other meaning.
const HOSTS_OPTIONS: [&str; 5] = ["-f", "--hosts-file", "--mpi-hostfile", "--pod-ips", "--podips"];

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
        "{node} is reached inside a job only, where no command of yours runs over gtop; start gtop pick with srun"
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

    /// Returns the exit code: nvisel's, or that of a shell that cannot run a command.
    pub(super) const fn code(&self) -> u8 {
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
    let outcome = match pick(&mut env, options, err)? {
        Ok(outcome) => outcome,
        Err(reason) => return Ok(reason),
    };
    print_notices(&outcome, err)?;
    if options.format.json {
        let Outcome { picks, request, now, has_uuids, .. } = &outcome;
        let mut text = Vec::new();
        write_pick_json(&mut text, picks, request, *now, *has_uuids)?;
        write_all(out, &text)?;
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

/// Watches the nodes until a snapshot is complete, and picks from it, again if it is to wait; the reason if the user ends
/// gtop before.
fn pick(
    env: &mut Env,
    options: &PickOptions,
    err: &mut impl Write,
) -> Result<Result<Outcome, ExitReason>, AppError> {
    let names_nodes = env.cli.names_nodes();
    let jobs = if names_nodes { Vec::new() } else { targets::jobs_of_environment() };
    let is_elsewhere = !jobs.is_empty() && targets::is_allocation_elsewhere();
    // Without an allocation elsewhere, this machine is picked from, inside a job too.
    env.cli.nodes.local |= !is_elsewhere && !names_nodes;
    let nodes = &env.cli.nodes;
    let finds_nodes =
        is_elsewhere || nodes.names_nodes() || nodes.demo.is_some() || env.cli.jobs.is_requested();
    let may_be_elsewhere = finds_nodes || !env.cli.hosts.is_empty();
    if options.inherits_variable() && may_be_elsewhere {
        return Err(PickError::InheritsHere.into());
    }
    // On another node, the command need not be here.
    if let Some(program) = options.command.first().filter(|_| !may_be_elsewhere) {
        check_program(program)?;
    }
    let mut session = match start(env, err)? {
        Start::Watching(session) => session,
        Start::Stopped(reason) => return Ok(Err(reason)),
    };
    let shell = UserShell { jobs, is_elsewhere };
    // What the user was asked before is not part of the time to wait.
    let limit = options.wait_limit().map(|limit| limit.saturating_sub(session.scheduler_wait));
    let end = limit.map(|limit| Instant::now() + limit);
    let snapshot = match env.runtime.block_on(complete_fleet(env, &session, end, err))? {
        Ok(snapshot) => snapshot,
        Err(reason) => return Ok(Err(reason.into())),
    };
    let mut outcome = match pick_from(env, options, &shell, snapshot, err)? {
        Ok(outcome) => outcome,
        Err(reason) => return Ok(Err(reason)),
    };
    if options.waits() && !outcome.picks.is_enough && outcome.fleet.nodes.iter().any(has_hope) {
        let shortage = || shortage(&outcome.picks, &outcome.request);
        let why =
            check_any_devices(&outcome.fleet).map_or_else(|why| why.to_string(), |()| shortage());
        writeln!(err, "gtop: waiting: {why}")?;
        outcome = match pick_later(env, options, &session, &shell, (end, outcome))? {
            Ok(outcome) => outcome,
            Err(reason) => return Ok(Err(reason)),
        };
    }
    outcome.has_names |= finds_nodes;
    outcome.targets.clone_from(&session.monitor.rosters().borrow().targets);
    env.prompter = session.prompter.take();
    // Ends the sessions, before the devices are used.
    drop(session);
    Ok(Ok(outcome))
}

/// The shell in which gtop runs.
struct UserShell {
    /// The jobs that its environment tells.
    jobs: Vec<JobId>,
    /// They have no devices of this machine.
    is_elsewhere: bool,
}

/// Picks from a snapshot.
fn pick_from(
    env: &Env,
    options: &PickOptions,
    shell: &UserShell,
    Snapshot { fleet, scheduler_time }: Snapshot,
    err: &mut impl Write,
) -> Result<Result<Outcome, ExitReason>, AppError> {
    // Where control groups do not tell, a job is known by its environment, which may be left over elsewhere.
    let is_scheduled = fleet.nodes.iter().any(|node| node.is_scheduled());
    let jobs = if shell.is_elsewhere || is_scheduled { shell.jobs.clone() } else { Vec::new() };
    let request = PickRequest { jobs, ..options.request(variable) };
    let (picks, request, now) = match choose(env, options, &fleet, request, err)? {
        Ok(chosen) => chosen,
        Err(reason) => return Ok(Err(reason)),
    };
    let has_uuids = options.format.format == DeviceFormat::Uuid;
    let has_names = fleet.nodes.len() > 1;
    let targets = Vec::new();
    Ok(Ok(Outcome { fleet, scheduler_time, request, picks, targets, now, has_names, has_uuids }))
}

/// Picks again and again until enough devices are free or the time to wait is over. What stderr would be told each time has
/// been told.
fn pick_later(
    env: &Env,
    options: &PickOptions,
    session: &WatchSession,
    shell: &UserShell,
    (end, mut outcome): (Option<Instant>, Outcome),
) -> Result<Result<Outcome, ExitReason>, AppError> {
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
            return Ok(Ok(outcome));
        }
        let next = now + pause;
        let next = last.map_or(next, |last| last.min(next));
        let stopped = env.runtime.block_on(async {
            let mut signals = StopSignals::new();
            timeout_at(next, signals.next()).await.ok()
        });
        if let Some(reason) = stopped {
            return Ok(Err(reason.into()));
        }
        let sink = &mut io::sink();
        let snapshot = match env.runtime.block_on(complete_fleet(env, session, end, sink))? {
            Ok(snapshot) => snapshot,
            Err(reason) => return Ok(Err(reason.into())),
        };
        // What it was cut off from, such as the jobs on its nodes, may hold the devices.
        if snapshot.scheduler_time > Duration::ZERO && end.is_some_and(|end| end <= Instant::now())
        {
            return Ok(Ok(outcome));
        }
        outcome = match pick_from(env, options, shell, snapshot, sink)? {
            Ok(outcome) if !outcome.picks.is_enough => outcome,
            ended => return Ok(ended),
        };
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
    Ok(write_all(out, &text)?)
}

fn write_all(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    let with_context = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
    };
    out.write_all(text).and_then(|()| out.flush()).map_err(with_context)
}

/// Says which nodes are left out, which devices are not sound or not known to be, and where the inherited list ends.
fn print_notices(outcome: &Outcome, err: &mut impl Write) -> io::Result<()> {
    let Outcome { fleet, picks, .. } = outcome;
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let is_second = |node: &NodeName| fleet.same_as.contains_key(node);
    for refused in picks.refused.iter().filter(|refused| refused.uuid.is_none()) {
        // Of a single node without devices, the error says why.
        let is_told = fleet.nodes.len() == 1
            && fleet.node(&refused.node).is_none_or(|node| node.devices.is_empty());
        if !is_second(&refused.node) && !is_told {
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
    let found = picks.picked.len();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let nodes = picks.by_node().len();
    let main_reason = picks
        .main_reason
        .as_ref()
        .map(|(reason, count)| format!("; of {count} other{}: {reason}", plural(*count)));
    let main_reason = main_reason.unwrap_or_default();
    let remedy = "loosen the limits, or see with --json why each device is refused";
    match request.spread {
        Spread::Nodes(wanted) if nodes < wanted => {
            let (ending, many) = (plural(nodes), plural(wanted));
            format!(
                "devices found on {nodes} node{ending}, wanted on {wanted} node{many}{main_reason}; {remedy}"
            )
        }
        Spread::Anywhere | Spread::SameNode | Spread::Nodes(_) => {
            let ending = plural(found);
            format!(
                "{found} device{ending} found, {} wanted{main_reason}; {remedy}",
                request.min_count
            )
        }
    }
}

/// Fails if no node has devices.
fn check_any_devices(fleet: &Fleet) -> Result<(), PickError> {
    if fleet.nodes.iter().any(|node| !node.devices.is_empty()) {
        return Ok(());
    }
    let names = doctor_argument(fleet);
    let reasons: Vec<NoDevices> = fleet.nodes.iter().flat_map(|node| absences(node)).collect();
    let driver = reasons.iter().find(|reason| !reason.is_missing);
    let is_answered = fleet.nodes.iter().any(|node| node.taken_at().is_some());
    let hellos = fleet.nodes.iter().filter_map(|node| node.hello.as_ref());
    if let Some(found) = hellos.flat_map(|hello| hello.unreadable_texts()).next() {
        return Err(PickError::NoDevices(found, names));
    }
    if driver.is_none() && fleet.nodes.iter().any(|node| awaits_driver(node)) {
        let awaited = "a driver has not answered yet; a longer --deadline helps";
        return Err(PickError::NoDevices(awaited.to_owned(), names));
    }
    match driver.or(reasons.first()) {
        Some(reason) if driver.is_some() => Err(PickError::DriverError(reason.text.clone(), names)),
        Some(reason) => Err(PickError::NoDevices(reason.text.clone(), names)),
        None if is_answered => {
            Err(PickError::NoDevices("the nodes have no accelerators".to_owned(), names))
        }
        None => Err(PickError::NoDevices("no node answered".to_owned(), names)),
    }
}

/// Returns true if a node has devices, or will have told of some later.
fn has_hope(node: &Arc<Node>) -> bool {
    let is_given_up = matches!(node.link, Link::Down { retry_at: None, .. });
    let is_silent = node.taken_at().is_none() && !is_given_up;
    !node.devices.is_empty() || is_silent || awaits_driver(node)
}

/// Fails if none of the devices of any node can be read, and all that are free were asked for: none is not an answer then.
fn check_any_readable(outcome: &Outcome) -> Result<(), PickError> {
    let Outcome { fleet, request, picks, now, .. } = outcome;
    let takes_any_number = request.min_count == 0 && request.max_count != Some(0);
    let mut nodes = fleet.nodes.iter();
    let has_readable =
        nodes.any(|node| node.units().any(|(position, _)| !is_unreadable(node, position, *now)));
    if !takes_any_number || has_readable {
        return Ok(());
    }
    let why = picks.main_reason.as_ref().map(|(reason, count)| format!("; {count}: {reason}"));
    Err(PickError::Unreadable(why.unwrap_or_default(), doctor_argument(fleet)))
}

/// Returns true if the driver does not tell how the device at this position is now.
fn is_unreadable(node: &Node, position: usize, now: Timestamp) -> bool {
    node.devices.get(position).is_none_or(|device| {
        device.fault.is_some()
            || node.device_freshness(position, now) != Freshness::Fresh
            || is_memory_refused(device)
    })
}

/// Returns the nodes of a fleet as an argument of `gtop doctor`, with a space behind it; empty for this machine.
fn doctor_argument(fleet: &Fleet) -> String {
    let names = fleet.nodes.iter().filter(|node| node.via != Some(TransportKind::Local));
    let names = nodeset::fold(names.map(|node| node.name.label()));
    if names.is_empty() { names } else { format!("'{names}' ") }
}

/// Why a driver reports no devices.
struct NoDevices {
    text: String,
    /// It is not installed.
    is_missing: bool,
}

/// Returns true if a driver may yet answer.
fn is_awaited(fault: &SourceFault) -> bool {
    matches!(fault.kind, SourceFaultKind::Starting | SourceFaultKind::Slow)
}

/// Returns true if a driver of a node that answers has told neither devices nor why there are none.
fn awaits_driver(node: &Node) -> bool {
    let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
    backends.any(|backend| {
        node.source(&backend.source).is_some_and(|state| {
            let has_none = state.taken_at.is_none() && state.absent.is_none();
            has_none && state.fault.as_ref().is_none_or(|fault| is_awaited(fault))
        })
    })
}

/// Returns why the drivers of a node report no devices: NVIDIA's library first.
fn absences(node: &Node) -> Vec<NoDevices> {
    let backends = node.hello.iter().flat_map(|hello| &hello.backends);
    let mut states: Vec<(&BackendState, &SourceState)> =
        backends.filter_map(|backend| Some((backend, node.source(&backend.source)?))).collect();
    states.sort_by_key(|(backend, _)| backend.source.as_str() != "nvml");
    let reason = |(backend, state): (&BackendState, &SourceState)| {
        let fault = state.fault.as_ref().filter(|fault| !is_awaited(fault));
        let fault = fault.map(|fault| fault.kind.label());
        let text = state.absent.as_deref().or(fault)?.to_owned();
        Some(NoDevices { text, is_missing: state.absent.is_some() && backend.is_missing })
    };
    states.into_iter().filter_map(reason).collect()
}

/// Becomes the command, with the variables of the devices, or runs it on their node.
fn run_command(
    env: &mut Env,
    options: &PickOptions,
    outcome: &Outcome,
    streams: (&mut impl Write, &mut impl Write),
) -> Result<ExitReason, AppError> {
    let Outcome { fleet, request, picks, has_uuids, .. } = outcome;
    let Some((program, args)) = options.command.split_first() else { return Ok(ExitReason::Done) };
    let command = program.to_string_lossy().into_owned();
    if !picks.is_enough {
        return Err(PickError::TooFew { command, shortage: shortage(picks, request) }.into());
    }
    let picked: Vec<&EligibleDevice> = picks.picked.iter().collect();
    let variables = variables(&picked, *has_uuids);
    let mut nodes: Vec<&NodeName> = picks.picked.iter().map(|device| &device.node).collect();
    nodes.dedup();
    let is_elsewhere =
        |name: &&&NodeName| fleet.node(name).is_none_or(|node| !is_this_machine(node));
    let elsewhere = nodes.iter().find(is_elsewhere).copied();
    let Some(node) = elsewhere else {
        return Err(become_command(program, args, &variables).into());
    };
    if options.on_node {
        if fleet.node(node).is_some_and(|node| node.via == Some(TransportKind::Step)) {
            return Err(PickError::InStep { node: node.label().to_owned() }.into());
        }
        let target = outcome.targets.iter().find(|target| target.name == *node);
        if let Some(target) = target {
            return on_node::run(env, target, &options.command, &variables, streams);
        }
    }
    let labels: BTreeSet<&str> = nodes.iter().map(|name| name.label()).collect();
    let remedy = elsewhere_remedy(env, request, (node, labels.len()));
    Err(PickError::Elsewhere { command, node: nodeset::fold(labels), remedy }.into())
}

/// Returns what to do about devices that are on other nodes: the first one, and how many there are.
fn elsewhere_remedy(env: &Env, request: &PickRequest, (node, nodes): (&NodeName, usize)) -> String {
    if env.cli.nodes.demo.is_some() {
        return "simulated nodes run no commands".to_owned();
    }
    if !request.jobs.is_empty() {
        return "start gtop pick with srun".to_owned();
    }
    if matches!(request.spread, Spread::Nodes(2..)) {
        return "a command runs on one node: leave out --nodes and add --on-node".to_owned();
    }
    if nodes > 1 {
        return "a command runs on one node: --on-node runs it on one that has all of them, so ask for fewer".to_owned();
    }
    let line = on_node_line(std::env::args_os().skip(1), node);
    format!("this runs it there: {line}")
}

/// Returns the command line with `--on-node`, quoted for a shell. A list of hosts that was piped in cannot be read again:
/// the picked node is named instead.
fn on_node_line(args: impl Iterator<Item = OsString>, node: &NodeName) -> String {
    let mut args = args.map(|arg| arg.to_string_lossy().into_owned()).peekable();
    let mut words = Vec::new();
    let (mut place, mut is_piped) = (None, false);
    while let Some(arg) = args.next() {
        if arg == "--" {
            words.push(arg);
            break;
        }
        let is_split =
            HOSTS_OPTIONS.contains(&&*arg) && args.next_if(|file| is_pipe(file)).is_some();
        if is_split || has_pipe(&arg) {
            is_piped = true;
            continue;
        }
        let is_first = arg == "pick" && place.is_none();
        words.push(arg);
        place = if is_first { Some(words.len()) } else { place };
    }
    words.extend(args);
    if let Some(place) = place {
        let host = is_piped.then(|| node.host().to_owned());
        words.splice(place..place, ["--on-node".to_owned()].into_iter().chain(host));
    }
    words.iter().fold("gtop".to_owned(), |line, word| format!("{line} {}", shell_quoted(word)))
}

/// Returns true if a word is an option with a pipe that it reads hosts from.
fn has_pipe(word: &str) -> bool {
    let parts = word.split_once('=').or_else(|| word.split_at_checked("-f".len()));
    parts.is_some_and(|(name, file)| HOSTS_OPTIONS.contains(&name) && is_pipe(file))
}

/// Returns true for the names of standard input and other open files.
fn is_pipe(file: &str) -> bool {
    let places = ["/dev/stdin", "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"];
    file == "-" || places.iter().any(|place| file.starts_with(place))
}

/// Becomes the command; returns why that fails.
fn become_command(program: &OsStr, args: &[OsString], variables: &[(&str, String)]) -> PickError {
    process::terminate_programs();
    restore_open_files();
    let error = process::replace_by(program, args, variables);
    let command = program.to_string_lossy().into_owned();
    if error.kind() == io::ErrorKind::NotFound {
        return PickError::CommandNotFound(command);
    }
    PickError::NotExecutable(command)
}

/// Returns true if a node is the machine that gtop runs on, however it is reached.
fn is_this_machine(node: &Node) -> bool {
    if node.via == Some(TransportKind::Local) {
        return true;
    }
    let Some(hello) = &node.hello else { return false };
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let system = rustix::system::uname();
    !hello.host.boot_id.is_empty()
        && *hello.host.boot_id == *boot_id.trim()
        && system.nodename().to_str() == Ok(&*hello.host.host_name)
}

/// Fails if a program does not exist or cannot be executed.
fn check_program(program: &OsStr) -> Result<(), PickError> {
    let name = || program.to_string_lossy().into_owned();
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(&folders).map(|folder| folder.join(program)).collect()
    };
    if candidates.iter().any(|path| is_executable(path)) {
        return Ok(());
    }
    let exists = !program.is_empty() && candidates.iter().any(|path| path.exists());
    Err(if exists { PickError::NotExecutable(name()) } else { PickError::CommandNotFound(name()) })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_works_has_the_words_quoted() {
        let node = NodeName::labelled("gpu1", "10.0.0.1").unwrap();
        let line = |words: &[&str]| on_node_line(words.iter().map(OsString::from), &node);
        let words =
            ["--login", "ada", "pick", "-n", "1", "gpu[1-2]", "--", "sh", "-c", "pick it's"];
        let expected = r"gtop --login ada pick --on-node -n 1 'gpu[1-2]' -- sh -c 'pick it'\''s'";
        assert_eq!(line(&words), expected);
        let expected = "gtop pick --on-node 10.0.0.1 -n 1 -f 1G -- cat --hosts-file -";
        for piped in [
            &["pick", "--hosts-file", "-", "-n", "1", "-f", "1G"][..],
            &["pick", "-n", "1", "-f", "1G", "--hosts-file=-"],
            &["-f", "-", "pick", "-n", "1", "-f", "1G"],
            &["-f-", "pick", "-n", "1", "-f", "1G"],
            &["pick", "-n", "1", "--mpi-hostfile", "/dev/fd/63", "-f", "1G"],
            &["pick", "--pod-ips=/dev/stdin", "-n", "1", "-f", "1G"],
        ] {
            let words = [piped, &["--", "cat", "--hosts-file", "-"]].concat();
            assert_eq!(line(&words), expected);
        }
        let words = ["pick", "--hosts-file", "gpus", "--", "pick"];
        assert_eq!(line(&words), "gtop pick --on-node --hosts-file gpus -- pick");
    }
}
