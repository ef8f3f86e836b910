//! The library: watch nodes, or open a recording, and read what they report.
//!
//! What a program sees is here and in the files below, and the crate shows it as its own; `src/lib.rs` says what it is for.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crate::watch::is_complete;
use gtop_fleet as fleet;
use gtop_fleet::advice::{Known, Reader, for_fault};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::jobs::JobEntry;
use gtop_fleet::metrics::{HostMetric, is_slow_host_metric};
use gtop_fleet::query::DisplaySelection;
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

pub use device::{Holder, Process, Reason};
pub use error::{Error, Fault};
pub use monitor::{Fleets, Monitor, MonitorBuilder};
pub use pick::{PickRequest, Picks, Refusal};
#[cfg(feature = "record")]
pub use recording::Recording;
pub use value::{Unknown, Value};

mod device;
mod error;
mod job;
mod monitor;
mod pick;
#[cfg(feature = "record")]
mod recording;
mod value;

/// All nodes and jobs at one moment, which does not change.
///
/// A monitor, a recording and a simulation give the same. With the feature `serde` it is serialised to what `gtop --json`
/// prints.
pub struct Fleet {
    data: fleet::Fleet,
    at: Timestamp,
    source: Arc<str>,
    /// What is concluded of all nodes together, once it is asked for.
    view: OnceLock<FleetView>,
}

/// A node of a fleet.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    fleet: &'a Fleet,
    node: &'a fleet::Node,
}

/// A device of a node: an accelerator, or a slice of one.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    node: Node<'a>,
    position: usize,
    readings: &'a gtop_model::Device,
}

/// A job with nodes: listed by the scheduler, or seen in the processes of a node.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    fleet: &'a Fleet,
    entry: &'a JobEntry,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<Node<'_>> = self.nodes().collect();
        f.debug_struct("Fleet").field("time", &self.time()).field("nodes", &nodes).finish()
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.name()).finish()
    }
}

impl fmt::Debug for Device<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.node.name()).field(&self.uuid()).finish()
    }
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Job").field(&self.id()).finish()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Fleet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::export::serialize_fleet(&self.data, self.at, &self.source, serializer)
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.as_micros().unsigned_abs())
}

impl Fleet {
    fn new(data: fleet::Fleet, at: Timestamp, source: &Arc<str>) -> Arc<Self> {
        Arc::new(Self { data, at, source: Arc::clone(source), view: OnceLock::new() })
    }

    fn view(&self) -> &FleetView {
        self.view.get_or_init(|| {
            FleetView::printed(self.data.clone(), self.at, &DisplaySelection::default())
        })
    }

    /// Returns its time, by the clock of this machine; of a recording, by the one of the recorder.
    pub fn time(&self) -> SystemTime {
        system_time(self.at)
    }

    /// Returns what is watched, as text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns true if every node has answered or is down, and the scheduler has answered if one is asked.
    pub fn is_complete(&self) -> bool {
        is_complete(&self.data)
    }

    /// Returns the nodes, in the order in which they were named.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.data.nodes.iter().map(|node| Node { fleet: self, node })
    }

    /// Returns the node of this name, as it was given.
    pub fn node(&self, name: &str) -> Option<Node<'_>> {
        self.nodes().find(|node| node.name() == name)
    }

    /// Returns the devices of all nodes, those of a machine with several names once.
    pub fn devices(&self) -> impl Iterator<Item = Device<'_>> {
        self.nodes().filter(|node| node.same_as().is_none()).flat_map(Node::devices)
    }

    /// Returns the jobs that have nodes.
    pub fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        self.view().job_index().entries.iter().map(|entry| Job { fleet: self, entry })
    }
}

impl<'a> Node<'a> {
    /// Returns the name, as it was given.
    pub fn name(self) -> &'a str {
        self.node.name.label()
    }

    /// Returns the name under which the same machine counts, if that is another one: its devices are listed there, too.
    pub fn same_as(self) -> Option<&'a str> {
        self.fleet.data.same_as.get(&self.node.name).map(NodeName::label)
    }

    /// Returns why the node does not answer; `None` if it does, or has not been tried yet.
    pub fn fault(self) -> Option<Fault> {
        self.node.fault().map(|fault| {
            let advice = for_fault(fault, &Known::of_node(&self.node.name, Reader::Program));
            Fault { kind: fault.kind.label(), text: fault.message(), remedy: advice.text() }
        })
    }

    /// Returns the age of the newest sample; `None` if there is none.
    pub fn age(self) -> Option<Duration> {
        self.node.taken_at().map(|at| self.fleet.at.since(at))
    }

    /// Returns a value of its host.
    ///
    /// # Errors
    ///
    /// If it is not known, or old.
    pub fn value(self, metric: HostMetric) -> Result<Value, Unknown> {
        let now = self.fleet.at;
        let freshness = if is_slow_host_metric(metric.id()) {
            self.node.slow_host_freshness(now)
        } else {
            self.node.host_freshness(now)
        };
        Unknown::of_freshness(freshness)?;
        Value::of(metric.reader()(self.node), gtop_model::Reason::NotSampled)
    }

    /// Returns the number of a metric of its host; `None` if it is unknown or old, or a text.
    pub fn number(self, metric: HostMetric) -> Option<f64> {
        self.value(metric).ok()?.number()
    }

    /// Returns the devices, slices after the device they are part of.
    pub fn devices(self) -> impl Iterator<Item = Device<'a>> {
        let all = self.node.devices.iter().enumerate();
        all.map(move |(position, device)| Device { node: self, position, readings: device })
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    /// What `gtop --json` prints of a live and of a simulated fleet; tests/api.rs compares recordings with the command.
    #[test]
    fn a_fleet_is_serialised_to_what_is_printed() {
        let limit = Duration::from_secs(120);
        for builder in [Monitor::builder().local(), Monitor::builder().demo(12)] {
            let fleet = builder.start().unwrap().complete_blocking(limit);
            let mut printed = Vec::new();
            crate::export::write_json(&mut printed, &fleet.data, fleet.at, &fleet.source).unwrap();
            let printed: serde_json::Value = serde_json::from_slice(&printed).unwrap();
            assert_eq!(serde_json::to_value(&*fleet).unwrap(), printed);
            assert_ne!(printed["source"], "");
        }
    }
}
