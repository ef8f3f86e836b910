//! gtop as a library: watch nodes, or open a recording, and read what they report.
//!
//! A [`Monitor`] watches what the arguments of the command name, in the background, with the user's settings and
//! SSH configuration; a [`Recording`] has what was watched before. Their [`Snapshot`]s do not change. Values are read by the words that filters and columns have;
//! docs/metrics.md lists them with their units. A value that is unknown, or older than a few sampling intervals, is
//! `None`, never zero.
//!
//! ```no_run
//! # fn main() -> Result<(), gtop::api::ApiError> {
//! let mut monitor = gtop::api::Monitor::start(["gpu01", "gpu02"])?;
//! for node in monitor.complete_snapshot(std::time::Duration::from_secs(20)).nodes() {
//!     println!("{}: {} devices", node.name(), node.devices().count());
//! }
//! # Ok(())
//! # }
//! ```

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::app::Watcher;
use gtop_collect::source::replay::Recordings;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::jobs::JobEntry;
use gtop_fleet::metrics::{HOST, Value, device_fields, is_slow_host_metric};
use gtop_fleet::query::DisplaySelection;
use gtop_fleet::{self as fleet, DeviceState, Fleet};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Watches nodes in the background until it is dropped.
///
/// The limit of open files of the process is raised to what it may be. When it is killed by SIGKILL, what runs on the
/// nodes ends by itself; a local command of `--exec` or `ProxyCommand` that does not read its input may stay.
pub struct Monitor(Watcher);

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

/// What `gtop record` has written: one file or several, each with its older parts.
#[derive(Debug)]
pub struct Recording(Recordings);

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
    /// Starts watching. The arguments are those of the command: hosts, `--job`, `--demo`, `--interval=2`, …
    ///
    /// # Errors
    ///
    /// If an argument is wrong, a file cannot be read, or the machine refuses a thread.
    pub fn start<I>(args: I) -> Result<Self, ApiError>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Watcher::start(args.into_iter().map(Into::into).collect()).map(Self).map_err(ApiError)
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

impl Recording {
    /// Opens files, which are read as one.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not a recording.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, ApiError> {
        let paths: Vec<P> = paths.into_iter().collect();
        if paths.is_empty() {
            return Err(ApiError("no file given; gtop record makes one".to_owned()));
        }
        let opened = Recordings::open(paths.iter().map(AsRef::as_ref));
        opened.map(Self).map_err(|error| ApiError(error.to_string()))
    }

    /// Returns the recorded times, from and to, in rising order; between them nothing was recorded.
    pub fn spans(&self) -> Vec<(SystemTime, SystemTime)> {
        self.0.spans().into_iter().map(|(from, to)| (system_time(from), system_time(to))).collect()
    }

    /// Returns the snapshot at a time, as far as it is recorded. A node that was silent then has old values.
    pub fn snapshot_at(&self, at: SystemTime) -> Snapshot {
        let at = timestamp(at);
        snapshot_of(self.0.fleet_at(at, Duration::ZERO), at)
    }

    /// Returns snapshots this far apart, from the first recorded time to the last, without the gaps.
    pub fn snapshots(&self, every: Duration) -> impl Iterator<Item = Snapshot> {
        self.0.snapshots(every).map(|(at, fleet)| snapshot_of(fleet, at))
    }
}

fn snapshot_of(fleet: Fleet, at: Timestamp) -> Snapshot {
    Snapshot(FleetView::printed(fleet, at, &DisplaySelection::default()))
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.as_micros().unsigned_abs())
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
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

    /// Returns the text of a metric, such as `"model"`; `None` if it is unknown or old, or if no metric has this
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
