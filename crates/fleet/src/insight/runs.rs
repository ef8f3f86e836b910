//! What is known of training runs: their files joined with their processes and the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::insight::node_status::device_label;
use crate::insight::runs::times::times;
use crate::{Fleet, Node};
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, FoundProcess, JobId, Link, NodeName, Percent, ProcessState, Progress, Run, RunHost,
    RunList, RunProcess, RunStatus,
};

pub mod times;

/// A process this much younger than its run is another one: the clocks of a file's host and of its reader differ a
/// little.
const START_SLACK: Duration = Duration::from_secs(5);
/// A run that does not advance for this long, and for twenty batches, is stalled.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);
const STALL_BATCHES: f64 = 20.0;
/// Maximum number of processes that are polled on one host.
const MAX_PROCESSES: usize = 2_000;

const NOT_ANSWERED: &str = "its host has not answered yet";
const NOT_LOOKED_AT: &str = "its process has not been checked yet";
const OF_ANOTHER_USER: &str = "its pid is that of another user's process here";

/// All runs with what follows from the fleet.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// What the rows are made of.
    pub list: Arc<RunList>,
    /// The rows, in the order of the list.
    pub rows: Vec<Arc<RunRow>>,
    /// Memory of all devices of the nodes that runs are on.
    total_device_memory: Bytes,
}

/// A run with what follows from its files, its processes and the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// What its files say.
    pub run: Arc<Run>,
    /// The status: that of the file, unless its process is gone.
    pub status: RunStatus,
    /// What is known of its process.
    pub liveness: Liveness,
    /// The node it runs on, if that is watched.
    pub node: Option<NodeName>,
    /// Elapsed, remaining and total times.
    pub times: RunTimes,
    /// Its process with all below it, if it is alive.
    pub process: Option<Box<FoundProcess>>,
    /// What it uses.
    pub resources: RunResources,
    /// The scheduler's job.
    pub job: Option<JobId>,
    /// Since when it has not advanced although it runs.
    pub stalled_since: Option<Timestamp>,
}

/// What is known of the process of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It is stopped by a signal.
    Stopped,
    /// The file records the end.
    Ended,
    /// There is no such process any more.
    Gone,
    /// It has ended and its parent has not noticed.
    Zombie,
    /// Its pid is that of a younger process.
    PidReused,
    /// Its host is watched and does not answer.
    Unreachable,
    /// Its host is not watched.
    Elsewhere(Arc<str>),
    /// It is not known, for this reason.
    Unknown(&'static str),
}

/// Elapsed, remaining and total time of each part of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTimes {
    /// The run.
    pub run: RunTime,
    /// The epoch.
    pub epoch: RunTime,
    /// The training phase.
    pub training: RunTime,
    /// The validation phase.
    pub validation: RunTime,
    /// Mean duration of the validations so far.
    pub validation_mean: Option<Duration>,
    /// Batches per second of the current phase.
    pub rate: Option<f64>,
}

/// Times of one part; unknown ones are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunTime {
    /// So far.
    pub elapsed: Option<Duration>,
    /// To go.
    pub remaining: Option<Duration>,
    /// In all.
    pub total: Option<Duration>,
}

/// What the processes of a run use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResources {
    /// CPU use; 100 is one CPU.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub resident: Option<Bytes>,
    /// Number of processes.
    pub processes: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// Device memory in use by its processes.
    pub device_memory: Option<Bytes>,
    /// Mean utilization of its devices.
    pub device_utilization: Option<f32>,
    /// Its devices, as their node numbers them.
    pub devices: Arc<[Arc<str>]>,
    /// Which device each of its processes uses: UUID and pid.
    pub uses: Arc<[(Arc<str>, u32)]>,
    /// True if they come from the run's file, not from its host.
    pub is_from_file: bool,
    /// When they were measured, if they come from the file.
    pub taken_at: Option<Timestamp>,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq)]
enum HostMatch {
    /// On a node that is watched.
    Node(NodeName),
    /// On a host of this name, which is not watched, or is the name of several nodes.
    Elsewhere(Arc<str>),
    /// Its file does not name it.
    Unknown,
}

/// The nodes of a fleet by their host names; `None` for a name that several have.
struct NodesByHost<'a>(BTreeMap<&'a str, Option<&'a NodeName>>);

impl<'a> NodesByHost<'a> {
    fn new(fleet: &'a Fleet, list: &'a RunList) -> Self {
        let mut names: BTreeMap<&str, Option<&NodeName>> = BTreeMap::new();
        let reported = list.hosts.iter().map(|host| (&*host.host_name, &host.node));
        let known = fleet.machines().flat_map(|node| {
            let hello = node.hello.as_ref().map(|hello| &*hello.host.host_name);
            [Some(host_of(&node.name)), hello].into_iter().flatten().map(|name| (name, &node.name))
        });
        for (name, node) in reported.chain(known).filter(|(name, _)| !name.is_empty()) {
            for name in [name, short_name(name)] {
                let entry = names.entry(name).or_insert(Some(node));
                if *entry != Some(node) {
                    *entry = None;
                }
            }
        }
        Self(names)
    }

    /// Returns where a run is by the host name in its file, which is only compared.
    fn place(&self, progress: &Progress) -> HostMatch {
        let Some(host) = &progress.host else { return HostMatch::Unknown };
        let names = [&**host, short_name(host)];
        match names.into_iter().find_map(|name| self.0.get(name)) {
            Some(Some(node)) => HostMatch::Node((*node).clone()),
            Some(None) | None => HostMatch::Elsewhere(Arc::clone(host)),
        }
    }
}

/// Returns the host of a node's name, without login and port.
fn host_of(name: &NodeName) -> &str {
    let host = name.host();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    host.split_once(':').map_or(host, |(host, _)| host)
}

/// Returns a host name without its domain; an address stays whole.
fn short_name(name: &str) -> &str {
    let is_address = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_address { name } else { name.split_once('.').map_or(name, |(short, _)| short) }
}

/// Returns true if the status of a run depends on its process: its file does not record the end.
fn is_open(progress: &Progress) -> bool {
    matches!(progress.status, Some(RunStatus::Running) | None) && progress.ended_at.is_none()
}

/// Returns the processes to poll: the pids of runs that are not over, on watched nodes.
pub fn processes_to_watch(list: &RunList, fleet: &Fleet) -> BTreeMap<NodeName, Vec<u32>> {
    let names = NodesByHost::new(fleet, list);
    let mut wanted: BTreeMap<NodeName, Vec<u32>> = BTreeMap::new();
    for progress in list.runs.iter().filter_map(|run| run.progress.as_ref()) {
        let Some(pid) = progress.pid.filter(|_| is_open(progress)) else { continue };
        let HostMatch::Node(node) = names.place(progress) else { continue };
        let pids = wanted.entry(node).or_default();
        // Two runs may have one pid.
        if pids.len() < MAX_PROCESSES && !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    wanted
}

impl Runs {
    /// Joins runs with the fleet at one moment.
    pub fn new(list: Arc<RunList>, fleet: &Fleet, now: Timestamp) -> Self {
        let names = NodesByHost::new(fleet, &list);
        let offsets: BTreeMap<&str, i64> =
            list.folders.iter().map(|folder| (&*folder.label, folder.clock_offset)).collect();
        let hosts: BTreeMap<&NodeName, &RunHost> =
            list.hosts.iter().map(|host| (&host.node, &**host)).collect();
        let rows = list.runs.iter().map(|run| {
            let offset = offsets.get(&*run.id.folder).copied().unwrap_or(0);
            Arc::new(RunRow::new(run, &names, &hosts, fleet, offset, now))
        });
        let rows = rows.collect();
        let nodes = list.hosts.iter().filter_map(|host| fleet.node(&host.node));
        let devices = nodes.flat_map(|node| node.whole_devices());
        let total = devices.filter_map(|(_, device)| Some(device.own_memory()?.1.0)).sum();
        Self { rows, list, total_device_memory: Bytes(total) }
    }

    /// Returns the device memory that runs use, and that of all devices of the nodes they are on.
    pub fn device_memory(&self) -> (Bytes, Bytes) {
        let measured = self.rows.iter().filter(|row| !row.resources.is_from_file);
        // Two runs may have one process.
        let by_process: BTreeMap<(&NodeName, u32), Bytes> = measured
            .filter_map(|row| {
                let process = row.process.as_ref()?;
                Some(((row.node.as_ref()?, process.key.pid), row.resources.device_memory?))
            })
            .collect();
        let used = by_process.values().map(|bytes| bytes.0).sum();
        (Bytes(used), self.total_device_memory)
    }

    /// Returns what all processes of the login use on the polled hosts, summed.
    pub fn user_resources(&self) -> impl Iterator<Item = gtop_model::UserResources> + '_ {
        self.list.hosts.iter().filter(|host| host.fault.is_none()).filter_map(|host| host.user)
    }
}

impl RunRow {
    fn new(
        run: &Arc<Run>,
        names: &NodesByHost<'_>,
        hosts: &BTreeMap<&NodeName, &RunHost>,
        fleet: &Fleet,
        folder_offset: i64,
        now: Timestamp,
    ) -> Self {
        let unread = Progress::default();
        let progress = run.progress.as_deref().unwrap_or(&unread);
        let place = names.place(progress);
        let node = if let HostMatch::Node(node) = &place { Some(node.clone()) } else { None };
        let host = node.as_ref().and_then(|node| hosts.get(node).copied());
        // Times of the file come from the clock of the run's host, and were corrected by that of the folder's.
        let skew = host.map_or(0, |host| host.clock_offset.saturating_sub(folder_offset));
        let file_now = Timestamp::from_micros(now.as_micros().saturating_sub(skew));
        let fleet_node = node.as_ref().and_then(|node| fleet.node(node));
        let liveness = liveness(run, progress, &place, host, fleet_node, skew);
        let is_its_own = matches!(liveness, Liveness::Alive | Liveness::Stopped);
        let process = match host.and_then(|host| host.processes.get(&progress.pid?)) {
            Some(RunProcess::Found(found)) if is_its_own => Some(&**found),
            Some(_) | None => None,
        };
        let told = progress.status.unwrap_or(RunStatus::Unknown);
        let is_killed = matches!(liveness, Liveness::Gone | Liveness::Zombie | Liveness::PidReused);
        let status = if is_killed { RunStatus::Killed } else { told };
        let is_over = is_killed || !is_open(progress);
        let last_word = progress.ended_at.or(run.written_at);
        let times = times(progress, run.seen_rate, last_word.filter(|_| is_over), file_now);
        let stalled_since =
            (liveness == Liveness::Alive).then(|| stalled_since(run, &times, now)).flatten();
        let (resources, job) = resources(progress, process, fleet_node, now);
        Self {
            run: Arc::clone(run),
            status,
            liveness,
            node,
            times,
            process: process.cloned().map(Box::new),
            resources,
            job,
            stalled_since,
        }
    }

    /// Returns the name to show.
    pub fn title(&self) -> &str {
        let title = self.run.progress.as_ref().and_then(|progress| progress.title.as_deref());
        title.unwrap_or(&self.run.id.name)
    }

    /// Returns true if the run goes on, as far as is known.
    pub fn is_running(&self) -> bool {
        self.status == RunStatus::Running
    }

    /// Returns true if its process is still to be polled.
    pub fn is_looked_for(&self) -> bool {
        // CPU use is known from the second poll on.
        matches!(self.liveness, Liveness::Unknown(NOT_LOOKED_AT | NOT_ANSWERED))
            || (self.liveness == Liveness::Alive && self.resources.cpu_percent.is_none())
    }

    /// Returns why the run may not be deleted now; `None` if it may.
    pub fn deletion_obstacle(&self) -> Option<String> {
        match &self.liveness {
            Liveness::Alive | Liveness::Stopped => Some("it is running; end it first".to_owned()),
            Liveness::Ended | Liveness::Gone | Liveness::Zombie | Liveness::PidReused => None,
            Liveness::Unreachable => {
                Some("its host does not answer, so it may be running".to_owned())
            }
            Liveness::Elsewhere(host) => {
                Some(format!("it may be running on {host}, which is not watched; add the host"))
            }
            Liveness::Unknown(_) if self.status != RunStatus::Running => None,
            Liveness::Unknown(reason) => Some(format!("it may be running: {reason}")),
        }
    }
}

/// Returns what is known of the main process.
fn liveness(
    run: &Run,
    progress: &Progress,
    place: &HostMatch,
    host: Option<&RunHost>,
    node: Option<&Arc<Node>>,
    skew: i64,
) -> Liveness {
    if !is_open(progress) {
        return Liveness::Ended;
    }
    match place {
        HostMatch::Elsewhere(name) => return Liveness::Elsewhere(Arc::clone(name)),
        HostMatch::Unknown => {
            return Liveness::Unknown("the file does not say which host it runs on");
        }
        HostMatch::Node(_) => {}
    }
    let Some(pid) = progress.pid else {
        return Liveness::Unknown("the file does not say which process it is");
    };
    let answering = host.filter(|host| host.answered_at.is_some());
    let is_down = node.is_some_and(|node| matches!(node.link, Link::Down { .. }));
    if host.is_some_and(|host| host.fault.is_some()) || (answering.is_none() && is_down) {
        return Liveness::Unreachable;
    }
    let Some(host) = answering else { return Liveness::Unknown(NOT_ANSWERED) };
    if let (Some(told), Some(seen)) = (&progress.pid_namespace, &host.pid_namespace)
        && told != seen
    {
        return Liveness::Unknown("it runs in a container");
    }
    match host.processes.get(&pid) {
        None => Liveness::Unknown(NOT_LOOKED_AT),
        Some(RunProcess::Gone { since })
            if run.written_at.is_some_and(|at| at > since.plus(START_SLACK)) =>
        {
            Liveness::Unknown("its file is still being written, so it runs in a container")
        }
        Some(RunProcess::Gone { .. }) => Liveness::Gone,
        Some(RunProcess::Hidden) => Liveness::Unknown(OF_ANOTHER_USER),
        Some(RunProcess::Found(found)) => check_process(run, progress, found, skew),
    }
}

/// Returns what a process of the run's pid says about the run.
fn check_process(run: &Run, progress: &Progress, found: &FoundProcess, skew: i64) -> Liveness {
    let started_at = progress.started_at.map(|at| at.as_micros().saturating_add(skew));
    let is_younger = started_at.is_some_and(|run_started| {
        found.started_at > Timestamp::from_micros(run_started).plus(START_SLACK)
    });
    match found.state {
        _ if is_younger => Liveness::PidReused,
        _ if found.is_kernel || run.uid.is_some_and(|uid| uid != found.uid) => {
            Liveness::Unknown(OF_ANOTHER_USER)
        }
        Some(ProcessState::Zombie | ProcessState::Dead) => Liveness::Zombie,
        Some(ProcessState::Stopped | ProcessState::Traced) => Liveness::Stopped,
        _ => Liveness::Alive,
    }
}

/// Returns since when a live run has not advanced, if it should have.
fn stalled_since(run: &Run, times: &RunTimes, now: Timestamp) -> Option<Timestamp> {
    let advanced_at = run.advanced_at?;
    let batches = times.rate.filter(|rate| *rate > 0.0).map(|rate| STALL_BATCHES / rate);
    let limit = batches
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .map_or(STALL_TIMEOUT, |batches| batches.max(STALL_TIMEOUT));
    (now.since(advanced_at) > limit).then_some(advanced_at)
}

/// Returns what the processes of a run use, and the job of the first that has one.
fn resources(
    progress: &Progress,
    process: Option<&FoundProcess>,
    node: Option<&Arc<Node>>,
    now: Timestamp,
) -> (RunResources, Option<JobId>) {
    let Some(process) = process else {
        let Some(told) = progress.resources else { return Default::default() };
        let resources = RunResources {
            cpu_percent: told.cpu_percent,
            resident: told.ram_mib.and_then(bytes_of_mib),
            processes: told.processes,
            threads: told.threads,
            device_memory: told.device_memory_mib.and_then(bytes_of_mib),
            is_from_file: true,
            taken_at: told.taken_at,
            ..RunResources::default()
        };
        return (resources, None);
    };
    let mut resources = RunResources {
        cpu_percent: process.cpu_percent,
        resident: Some(process.resident),
        processes: u64::try_from(process.tree.len()).ok(),
        threads: Some(process.threads.into()),
        ..RunResources::default()
    };
    let Some(node) = node.filter(|node| node.freshness(now).is_fresh() && !node.devices.is_empty())
    else {
        return (resources, None);
    };
    let pids: BTreeSet<u32> = process.tree.iter().map(|process| process.key.pid).collect();
    let uses: Vec<_> = node.uses.iter().filter(|used| pids.contains(&used.pid)).collect();
    let memory = uses.iter().map(|used| Some(used.memory.get()?.0));
    resources.device_memory = memory.sum::<Option<u64>>().map(Bytes);
    resources.uses = uses.iter().map(|used| (Arc::clone(&used.device), used.pid)).collect();
    let devices: BTreeSet<&Arc<str>> = uses.iter().map(|used| &used.device).collect();
    let mut found: Vec<_> = devices.iter().filter_map(|uuid| node.device(uuid)).collect();
    found.sort_by_key(|device| device.index.get());
    resources.devices = found.iter().map(|device| device_label(node, device).into()).collect();
    let loads: Vec<f32> =
        found.iter().filter_map(|device| device.load().get()).map(Percent::get).collect();
    if !loads.is_empty() {
        let count = u16::try_from(loads.len()).map_or(f32::from(u16::MAX), f32::from);
        resources.device_utilization = Some(loads.iter().sum::<f32>() / count);
    }
    let job = process.tree.iter().find_map(|one| node.job_of(one.key.pid)).cloned();
    (resources, job)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and the value is not negative"
)]
fn bytes_of_mib(mib: f64) -> Option<Bytes> {
    (mib.is_finite() && mib >= 0.0).then_some(Bytes((mib * 1_048_576.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{FileResources, ProcessKey, RunId, RunVariables};

    const START: i64 = 1_795_226_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros((START + second) * 1_000_000)
    }

    /// What is different about a process.
    type Change = fn(&mut FoundProcess);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn running() -> Progress {
        Progress {
            pid: Some(7),
            host: Some("gpu01".into()),
            started_at: Some(at(0)),
            status: Some(RunStatus::Running),
            ..Progress::default()
        }
    }

    fn run(progress: Progress) -> Run {
        Run {
            id: RunId { folder: "runs".into(), name: "train".into() },
            is_flat: false,
            uid: Some(1_000),
            user: None,
            progress: Some(Arc::new(progress)),
            written_at: Some(at(10)),
            fault: None,
            advanced_at: Some(at(10)),
            seen_rate: None,
            variables: RunVariables::default(),
        }
    }

    fn found() -> FoundProcess {
        FoundProcess {
            key: ProcessKey { pid: 7, start_ticks: 1 },
            state: Some(ProcessState::Running),
            started_at: at(-1),
            uid: 1_000,
            is_kernel: false,
            pid_namespace: None,
            cpu_percent: None,
            resident: Bytes(0),
            threads: 1,
            tree: Arc::default(),
            outputs: [None, None],
        }
    }

    fn host(process: RunProcess) -> RunHost {
        RunHost {
            node: node("gpu01"),
            host_name: "gpu01".into(),
            pid_namespace: Some("pid:[1]".into()),
            fault: None,
            answered_at: Some(at(20)),
            clock_offset: 0,
            processes: [(7, process)].into(),
            user: None,
        }
    }

    fn of_run(run: &Run, host: Option<&RunHost>) -> Liveness {
        let progress = run.progress.as_deref().unwrap();
        liveness(run, progress, &HostMatch::Node(node("gpu01")), host, None, 0)
    }

    #[test]
    fn a_process_is_the_runs_by_its_start_its_owner_and_its_state() {
        let other_user = Liveness::Unknown(OF_ANOTHER_USER);
        let cases: [(Change, Liveness); 8] = [
            (|_| {}, Liveness::Alive),
            // The clocks of both may differ a little.
            (|process| process.started_at = at(5), Liveness::Alive),
            (|process| process.started_at = at(6), Liveness::PidReused),
            (|process| process.uid = 0, other_user.clone()),
            (|process| process.is_kernel = true, other_user),
            (|process| process.state = Some(ProcessState::Zombie), Liveness::Zombie),
            (|process| process.state = Some(ProcessState::Stopped), Liveness::Stopped),
            (|process| process.state = None, Liveness::Alive),
        ];
        for (at, (change, expected)) in cases.into_iter().enumerate() {
            let mut process = found();
            change(&mut process);
            let host = host(RunProcess::Found(Box::new(process)));
            assert_eq!(of_run(&run(running()), Some(&host)), expected, "{at}");
        }
    }

    #[test]
    fn a_run_whose_process_is_not_seen_is_not_called_dead() {
        let alive = || RunProcess::Found(Box::new(found()));
        let hidden = host(RunProcess::Hidden);
        let gone = |second| host(RunProcess::Gone { since: at(second) });
        let run = run(running());
        assert_eq!(of_run(&run, Some(&gone(10))), Liveness::Gone);
        assert_eq!(of_run(&run, Some(&hidden)), Liveness::Unknown(OF_ANOTHER_USER));
        // Its file was written after that.
        assert!(matches!(of_run(&run, Some(&gone(4))), Liveness::Unknown(_)));
        assert_eq!(of_run(&run, None), Liveness::Unknown(NOT_ANSWERED));
        let silent = RunHost { answered_at: None, ..host(alive()) };
        assert_eq!(of_run(&run, Some(&silent)), Liveness::Unknown(NOT_ANSWERED));
        let lost = RunHost { fault: Some("timed out".into()), ..gone(10) };
        assert_eq!(of_run(&run, Some(&lost)), Liveness::Unreachable);
        let unasked = RunHost { processes: BTreeMap::new(), ..host(alive()) };
        assert_eq!(of_run(&run, Some(&unasked)), Liveness::Unknown(NOT_LOOKED_AT));
        let in_container =
            self::run(Progress { pid_namespace: Some("pid:[2]".into()), ..running() });
        assert!(matches!(of_run(&in_container, Some(&gone(10))), Liveness::Unknown(_)));
    }

    #[test]
    fn what_a_file_says_of_the_end_counts_before_any_process() {
        let host = host(RunProcess::Found(Box::new(found())));
        for progress in [
            Progress { status: Some(RunStatus::Finished), ..running() },
            Progress { ended_at: Some(at(9)), ..running() },
            Progress { status: None, ended_at: Some(at(9)), ..running() },
        ] {
            assert_eq!(of_run(&run(progress), Some(&host)), Liveness::Ended);
        }
        let untold = Progress { status: None, ..running() };
        assert_eq!(of_run(&run(untold), Some(&host)), Liveness::Alive);
    }

    #[test]
    fn a_run_is_stalled_after_two_minutes_and_twenty_batches() {
        let run = run(running());
        for (rate, second, is_stalled) in [
            (None, 130, false),
            (None, 131, true),
            (Some(100.0), 131, true),
            (Some(0.1), 131, false),
            (Some(0.1), 211, true),
        ] {
            let times = RunTimes { rate, ..RunTimes::default() };
            let since = stalled_since(&run, &times, at(second));
            assert_eq!(since, is_stalled.then_some(at(10)), "{rate:?} {second}");
        }
    }

    #[test]
    fn a_host_is_found_by_its_short_name_and_not_if_two_have_it() {
        let host_of = |node_name: &str, host_name: &str| {
            let host = host(RunProcess::Gone { since: at(0) });
            Arc::new(RunHost { node: node(node_name), host_name: host_name.into(), ..host })
        };
        let hosts = vec![
            host_of("gpu01", "gpu01.cluster"),
            host_of("gpu02", "twin.a"),
            host_of("gpu03", "twin.b"),
        ];
        let (list, fleet) = (RunList { hosts, ..RunList::default() }, Fleet::default());
        let names = NodesByHost::new(&fleet, &list);
        let elsewhere = |host: &str| HostMatch::Elsewhere(host.into());
        for (host, expected) in [
            ("gpu01.cluster", HostMatch::Node(node("gpu01"))),
            ("gpu01", HostMatch::Node(node("gpu01"))),
            ("gpu01.other", HostMatch::Node(node("gpu01"))),
            ("twin.b", HostMatch::Node(node("gpu03"))),
            ("twin", elsewhere("twin")),
            ("10.0.0.1", elsewhere("10.0.0.1")),
        ] {
            let progress = Progress { host: Some(host.into()), ..running() };
            assert_eq!(names.place(&progress), expected, "{host}");
        }
        assert_eq!(names.place(&Progress::default()), HostMatch::Unknown);
    }

    #[test]
    fn what_a_file_tells_of_resources_is_old() {
        let told = FileResources {
            processes: Some(2),
            ram_mib: Some(1.5),
            device_memory_mib: Some(-1.0),
            taken_at: Some(at(3)),
            ..FileResources::default()
        };
        let progress = Progress { resources: Some(told), ..running() };
        let (resources, _) = resources(&progress, None, None, at(20));
        assert!(resources.is_from_file);
        assert_eq!((resources.processes, resources.taken_at), (Some(2), Some(at(3))));
        assert_eq!((resources.resident, resources.device_memory), (Some(Bytes(1_572_864)), None));
        let measured = super::resources(&progress, Some(&found()), None, at(20)).0;
        assert!(!measured.is_from_file);
        assert_eq!(measured.threads, Some(1));
    }
}
