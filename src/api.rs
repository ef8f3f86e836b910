//! gtop as a library: watch nodes, or open a recording, and read what they report.
//!
//! A [`Monitor`] watches nodes in the background, with the user's SSH configuration, or what the arguments of the command
//! name, with the user's settings, too; a `Recording` (feature `record`) has what was watched before. Their [`Snapshot`]s
//! do not change. Values are read by the words that filters and columns have; docs/metrics.md lists them with their units. A
//! value that is unknown, or older than a few sampling intervals, is `None`, never zero.
//!
//! ```no_run
//! # fn main() -> Result<(), gtop::api::ApiError> {
//! let mut monitor = gtop::api::Monitor::builder().nodes(["gpu[01-16]"]).start()?;
//! for node in monitor.complete_snapshot(std::time::Duration::from_secs(20)).nodes() {
//!     println!("{}: {} devices", node.name(), node.devices().count());
//! }
//! # Ok(())
//! # }
//! ```

use std::time::{Duration, SystemTime};

use crate::watch::{Discovery, MonitorOptions, Watcher, raise_open_files};
use gtop_collect::inventory::{JobTargets, Roster, user_groups};
use gtop_collect::scheduler::{JobFilter, Scheduler, SchedulerKind, own_uid};
use gtop_collect::transport::{Options, Transport};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::jobs::JobEntry;
use gtop_fleet::metrics::{HOST, Value, device_fields, is_slow_host_metric};
use gtop_fleet::query::DisplaySelection;
use gtop_fleet::{self as fleet, DeviceState, Fleet};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::NodeName;

#[cfg(feature = "record")]
pub use recording::Recording;

#[cfg(feature = "record")]
mod recording;

/// Limits of the time between samples, as of the setting.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

/// Time between two queries to the scheduler.
const SCHEDULER_INTERVAL: Duration = Duration::from_secs(30);

/// Watches nodes in the background until it is dropped.
///
/// The limit of open files of the process is raised to what it may be. When it is killed by SIGKILL, what runs on the
/// nodes ends by itself; a local command of `--exec` or `ProxyCommand` that does not read its input may stay.
pub struct Monitor(Watcher);

/// What to watch, and how.
#[derive(Clone, Debug, Default)]
pub struct MonitorBuilder {
    nodes: Vec<String>,
    is_local: bool,
    has_jobs: bool,
    #[cfg(feature = "demo")]
    demo: Option<u16>,
    options: MonitorOptions,
}

/// The arguments are wrong, watching could not start, or a file cannot be read; the text says which and what to do.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiError(String);

impl std::fmt::Debug for ApiError {
    /// Writes the text, which a `main` that returns the error prints.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// All nodes and jobs at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(FleetView);

/// A node of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    view: &'a FleetView,
    node: &'a fleet::Node,
}

/// A device of a node.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    node: Node<'a>,
    position: usize,
    readings: &'a gtop_model::Device,
}

/// A job with nodes: listed by the scheduler, or seen in the processes of a node.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    view: &'a FleetView,
    entry: &'a JobEntry,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Monitor").finish_non_exhaustive()
    }
}

impl Monitor {
    /// Returns what to watch and how, to be filled in.
    pub fn builder() -> MonitorBuilder {
        MonitorBuilder::default()
    }

    /// Starts watching. The arguments are those of the command: hosts, `--job`, `--demo`, `--interval=2`, …
    ///
    /// # Errors
    ///
    /// If an argument is wrong, a file cannot be read, or the machine refuses a thread.
    #[cfg(feature = "cli")]
    pub fn start<I>(args: I) -> Result<Self, ApiError>
    where
        I: IntoIterator,
        I::Item: Into<std::ffi::OsString>,
    {
        let args = args.into_iter().map(Into::into).collect();
        crate::app::watch_args(args).map(Self).map_err(ApiError)
    }

    /// Returns the latest snapshot; nodes that have not answered yet have no devices.
    pub fn snapshot(&self) -> Snapshot {
        snapshot_of(self.0.fleet(), self.0.now())
    }

    /// Waits until every node has answered or is down, at most for `limit`, and returns the snapshot.
    pub fn complete_snapshot(&mut self, limit: Duration) -> Snapshot {
        self.0.wait_until_complete(limit);
        self.snapshot()
    }

    /// Waits for the next change and returns the snapshot; `None` if none comes any more.
    pub fn next_snapshot(&mut self) -> Option<Snapshot> {
        self.0.wait_for_next().then(|| self.snapshot())
    }
}

impl MonitorBuilder {
    /// Adds nodes: host names, node sets such as `gpu[01-16]`, groups such as `@gpu`, or pages of exporters.
    #[must_use]
    pub fn nodes<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Adds this machine, which is watched without it, too, if nothing else is.
    #[must_use]
    pub fn local(self) -> Self {
        Self { is_local: true, ..self }
    }

    /// Adds the nodes of your running jobs, updated as jobs start and end, by the scheduler on this machine.
    #[must_use]
    pub fn own_jobs(self) -> Self {
        Self { has_jobs: true, ..self }
    }

    /// Watches this many simulated nodes, and nothing else.
    #[cfg(feature = "demo")]
    #[must_use]
    pub fn demo(self, nodes: u16) -> Self {
        Self { demo: Some(nodes), ..self }
    }

    /// Sets the time between samples, 50 ms to an hour; default: a second.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.options.interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        self
    }

    /// Starts watching, with the user's SSH configuration and without settings of gtop.
    ///
    /// # Errors
    ///
    /// If a node cannot be named so, no scheduler's program is here to ask for your jobs, or the machine refuses a thread.
    ///
    /// # Panics
    ///
    /// Within an asynchronous runtime, as it waits for the first answer of the scheduler: call it, and what else waits, from
    /// a thread of its own.
    pub fn start(self) -> Result<Monitor, ApiError> {
        raise_open_files();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(to_api_error)?;
        let mut options = Options::of_this_process();
        // Children of the program's own binary would be another program.
        options.ssh.parent_guard = None;
        let clock = Clock::system();
        let discovery = self.discovery(&clock)?;
        let watcher =
            Watcher::start(runtime, Transport::new(options), discovery, self.options, clock);
        watcher.map(Monitor).map_err(to_api_error)
    }

    fn discovery(&self, clock: &Clock) -> Result<Discovery, ApiError> {
        #[cfg(feature = "demo")]
        if let Some(nodes) = self.demo {
            let simulated = crate::watch::simulate(nodes, 1, clock.clone());
            return simulated.map(|(discovery, _)| discovery).map_err(to_api_error);
        }
        let mut roster = Roster::with_groups(user_groups());
        roster.add_arguments(&self.nodes).map_err(to_api_error)?;
        if self.is_local || (roster.targets.is_empty() && !self.has_jobs) {
            roster.add_local();
        }
        if !self.has_jobs {
            return Ok(Discovery::from_roster(Roster::new(roster.targets)));
        }
        let kind = SchedulerKind::here().ok_or_else(|| {
            let programs = SchedulerKind::ALL.map(|kind| kind.profile().program);
            ApiError(format!(
                "no scheduler is here: its {} is not on the PATH",
                programs.join(" or ")
            ))
        })?;
        let filter = JobFilter { users: vec![own_uid()], ..JobFilter::default() };
        let fixed = roster.targets.iter().map(|target| target.name.clone()).collect();
        let scheduler = Scheduler::new(kind, filter, SCHEDULER_INTERVAL, fixed);
        let jobs = JobTargets::new(scheduler, roster.targets);
        Discovery::scheduler(jobs, clock.clone()).map_err(to_api_error)
    }
}

fn to_api_error(error: impl std::fmt::Display) -> ApiError {
    ApiError(error.to_string())
}

fn snapshot_of(fleet: Fleet, at: Timestamp) -> Snapshot {
    Snapshot(FleetView::printed(fleet, at, &DisplaySelection::default()))
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.as_micros().unsigned_abs())
}

impl Snapshot {
    /// Returns its time, by the clock of this machine; of a recording, by the one of the recorder.
    pub fn time(&self) -> SystemTime {
        system_time(self.0.now)
    }

    /// Returns the nodes, in the order in which they were named.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.0.fleet.nodes.iter().map(|node| Node { view: &self.0, node })
    }

    /// Returns the snapshot as JSON, as `gtop --json` prints it, without a title.
    #[cfg(feature = "serde")]
    pub fn to_json(&self) -> String {
        let mut text = Vec::new();
        // Nothing fails that writes to memory.
        crate::export::write_json(&mut text, &self.0.fleet, self.0.now, "").ok();
        String::from_utf8(text).unwrap_or_default()
    }

    /// Returns the jobs that have nodes.
    pub fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        self.0.job_index().entries.iter().map(|entry| Job { view: &self.0, entry })
    }
}

impl<'a> Node<'a> {
    /// Returns the name, as it was given.
    pub fn name(self) -> &'a str {
        self.node.name.label()
    }

    /// Returns the name under which the same machine counts, if that is another one: its devices are listed there, too.
    pub fn same_as(self) -> Option<&'a str> {
        self.view.fleet.same_as.get(&self.node.name).map(NodeName::label)
    }

    /// Returns why the node does not answer; `None` if it does, or has not been tried yet.
    pub fn fault(self) -> Option<String> {
        self.node.fault().map(gtop_model::Fault::message)
    }

    /// Returns the age of the newest sample; `None` if there is none.
    pub fn age(self) -> Option<Duration> {
        self.node.taken_at().map(|at| self.view.now.since(at))
    }

    /// Returns the number of a metric of its host, such as `"cpu"` in percent; `None` if it is unknown or old, or if
    /// no metric has this word.
    pub fn number(self, metric: &str) -> Option<f64> {
        let field = HOST.iter().find(|field| field.alias == metric || field.id == metric)?;
        let now = self.view.now;
        let freshness = if is_slow_host_metric(field.id) {
            self.node.slow_host_freshness(now)
        } else {
            self.node.host_freshness(now)
        };
        freshness.is_fresh().then(|| (field.read)(self.node))?.double()
    }

    /// Returns the devices, slices after the device they are part of.
    pub fn devices(self) -> impl Iterator<Item = Device<'a>> {
        let all = self.node.devices.iter().enumerate();
        all.map(move |(position, device)| Device { node: self, position, readings: device })
    }
}

impl<'a> Device<'a> {
    /// Returns the node it is in.
    pub fn node(self) -> Node<'a> {
        self.node
    }

    /// Returns the index that the driver gives it.
    pub fn index(self) -> Option<u32> {
        self.readings.index.get()
    }

    /// Returns the UUID.
    pub fn uuid(self) -> &'a str {
        &self.readings.uuid
    }

    /// Returns true if its values are at most a few sampling intervals old.
    pub fn is_fresh(self) -> bool {
        self.node.node.device_freshness(self.position, self.node.view.now).is_fresh()
    }

    /// Returns true if a job or a process holds it and it does nothing; `None` if its values are old or not enough is known.
    pub fn is_idle_held(self) -> Option<bool> {
        let node = self.node.node;
        let state = DeviceState::of(node, self.position, self.readings);
        let is_known =
            self.is_fresh() && !matches!(state, DeviceState::Unknown | DeviceState::InUse);
        is_known.then_some(state == DeviceState::IdleHeld)
    }

    /// Returns the number of a metric, such as `"util"` in percent; `None` if it is unknown or old, or if no
    /// metric has this word.
    pub fn number(self, metric: &str) -> Option<f64> {
        self.value(metric)?.double()
    }

    /// Returns whether a metric is on, such as `"mig"`; `None` if it is unknown or old, or if no metric has this word.
    pub fn flag(self, metric: &str) -> Option<bool> {
        match self.value(metric)? {
            Value::Flag(is_on) => Some(is_on),
            Value::Unknown(_) | Value::Number(_) | Value::Integer(_) | Value::Text(_) => None,
        }
    }

    /// Returns the text of a metric, such as `"name"`; `None` if it is unknown or old, or if no metric has this
    /// word.
    pub fn text(self, metric: &str) -> Option<String> {
        self.value(metric)?.text().map(|text| text.to_string())
    }

    fn value(self, metric: &str) -> Option<Value> {
        let field = device_fields().find(|field| field.alias == metric || field.id == metric)?;
        self.is_fresh().then(|| (field.read)(self.readings))
    }
}

impl<'a> Job<'a> {
    /// Returns the id, as the scheduler prints it.
    pub fn id(self) -> &'a str {
        &self.entry.job.shown_id
    }

    /// Returns the name; empty if only processes show the job.
    pub fn name(self) -> &'a str {
        &self.entry.job.name
    }

    /// Returns the user; empty if unknown.
    pub fn user(self) -> &'a str {
        &self.entry.job.user
    }

    /// Returns its devices on the watched nodes, as far as they are known.
    pub fn devices(self) -> impl Iterator<Item = Device<'a>> {
        self.entry.nodes.iter().flat_map(move |job_node| {
            let node = job_node.node_index.and_then(|index| self.view.fleet.nodes.get(index));
            let uuids = &job_node.holdings.devices;
            let node = node.map(|node| Node { view: self.view, node });
            node.into_iter()
                .flat_map(Node::devices)
                .filter(move |device| uuids.contains(&device.readings.uuid))
        })
    }

    /// Returns the mean utilization of its devices in percent; `None` if no device has a fresh one.
    pub fn utilization(self) -> Option<f64> {
        let known = self.devices().filter_map(|device| device.number("util"));
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), util| (sum + util, count + 1.0));
        (count > 0.0).then(|| sum / count)
    }
}
