//! The state of all nodes: one immutable [`Node`] per node, built from samples, published as one [`Fleet`].
//!
//! Readers take a snapshot, which never changes. Knows nothing of how samples arrive.

pub use anonymizer::Anonymizer;
pub use headline::{DeviceCount, NodeCount};
pub use history::{CLOSE_UP_STEP, History, Metric};
pub use idle::{
    ACTIVE_PERCENT, AllocatedDevices, DeviceState, MIN_HELD_BYTES, is_busy, is_free, is_idle,
    is_idle_held, is_in_use,
};
pub use job_lookup::JobLookup;
pub use jobs::{
    Assigned, Evidence, JobAllocation, JobDevices, NodeDevices, allocated_on, device_numbering,
    devices_at,
};
pub use node::{DeviceNumbering, EventRecord, Host, Node, Process, SourceState, Traffic};
pub use node_builder::NodeBuilder;
pub use store::{FleetReader, FleetStore, PublishIntervals};
pub use totals::Totals;
pub use user::{User, user_of};
pub use waste::{IdleSpan, NodeWaste, Waste};

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{JobList, MachineId, NodeName};
use crate::time::Timestamp;

mod anonymizer;
mod devices;
mod headline;
mod hidden;
mod history;
mod idle;
mod job_lookup;
mod jobs;
mod node;
mod node_builder;
mod rates;
mod store;
mod totals;
mod user;
mod waste;

/// All monitored nodes at one moment.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The nodes, in the order of the roster.
    pub nodes: Arc<[Arc<Node>]>,
    /// Nodes that are the same machine as an earlier node, each with that node's name.
    pub same_as: Arc<BTreeMap<NodeName, NodeName>>,
    /// The scheduler's job list; `None` when no scheduler is queried.
    pub jobs: Option<Arc<JobList>>,
    /// What users have held and left idle since gtop watches.
    pub waste: Arc<Waste>,
    /// Counts the arrivals of values that were not known before, such as the first sample of a node.
    pub arrivals: u64,
}

impl Fleet {
    /// Builds a fleet and finds the machines that are monitored twice.
    pub fn new(nodes: Arc<[Arc<Node>]>) -> Self {
        let mut seen: BTreeMap<MachineId, &NodeName> = BTreeMap::new();
        let mut same_as = BTreeMap::new();
        for node in nodes.iter() {
            let machine = node.hello.as_ref().and_then(|hello| hello.host.machine_id());
            let Some(machine) = machine else { continue };
            match seen.get(&machine) {
                Some(first) => {
                    same_as.insert(node.name.clone(), (*first).clone());
                }
                None => {
                    seen.insert(machine, &node.name);
                }
            }
        }
        Self { same_as: Arc::new(same_as), nodes, jobs: None, waste: Arc::default(), arrivals: 0 }
    }

    /// Returns the node of this name.
    pub fn node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Returns when the scheduler last said what its nodes are.
    pub fn nodes_listed_at(&self) -> Option<Timestamp> {
        self.jobs.as_ref()?.nodes.at
    }

    /// Returns each machine once, under its first name.
    pub fn machines(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().filter(|node| !self.same_as.contains_key(&node.name))
    }
}
