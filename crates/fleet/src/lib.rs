//! The state of all nodes: one immutable [`Node`] per node, built from samples, published as one [`Fleet`].
//!
//! Readers take a snapshot, which never changes. Knows nothing of how samples arrive.
//!
//! A part of gtop: its interface changes with it.

pub use anonymizer::Anonymizer;
pub use charted::Metric;
pub use event_record::EventRecord;
pub use headline::{DeviceState, NodeCount};
pub use health::{Health, HealthReason};
pub use history::CLOSE_UP_STEP;
pub use holdings::{Certainty, Claim, DeviceHoldings, Evidence, Holder, JobHoldings, NodeHoldings};
pub use host_share::{HostShare, HostShares};
pub use idle::{
    ACTIVE_PERCENT, LastState, is_busy, is_free, is_held, is_idle, is_in_use, is_memory_refused,
};
pub use job_lookup::JobLookup;
pub use node::{DEFAULT_INTERVAL, Host, Node, Process, SourceState, Traffic};
pub use node_builder::NodeBuilder;
pub use placing::{HoldingsKeeper, job_holdings};
pub use state_reason::StateReason;
pub use store::{FleetReader, FleetStore, PublishIntervals};
pub use totals::{Totals, measured_parts};
pub use user::User;
pub use waste::Waste;

pub(crate) use health::NodeHealth;
pub(crate) use idle::{is_idle_held, is_much, memory_owner, min_unexplained, unexplained_memory};
pub(crate) use lasting::SlowdownCause;
pub(crate) use waste::IdleSpan;

use std::collections::BTreeMap;
use std::sync::Arc;

use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, JobList, Link, MachineId, NodeName, SchedulerNode, SchedulerNodes, SchedulerProfile,
};

mod anonymizer;
mod charted;
mod declare;
mod device_list;
mod devices;
mod event_record;
mod headline;
mod health;
mod health_rules;
mod hidden;
mod history;
mod holdings;
mod host_share;
mod idle;
mod job_lookup;
mod kernel_events;
mod lasting;
mod lasting_update;
mod missing;
mod node;
mod node_builder;
mod placing;
mod rates;
mod state_reason;
mod store;
mod totals;
mod user;
mod waste;

pub mod advice;
pub mod insight;
pub mod metrics;
pub mod query;
pub mod settings;
pub mod usage;

/// All monitored nodes at one moment.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The nodes, in the order of the roster.
    pub nodes: Arc<[Arc<Node>]>,
    /// Other names of machines that are monitored under more than one, each with the name under which the machine counts:
    /// the first one that is up, and of these the first that the scheduler knows.
    pub same_as: Arc<BTreeMap<NodeName, NodeName>>,
    /// The scheduler's job list; `None` when no scheduler is queried. Jobs have their devices under the names in `same_as`.
    pub jobs: Option<Arc<JobList>>,
    /// What users have held and left idle since gtop watches.
    pub waste: Arc<Waste>,
    /// Counts the arrivals of values that were not known before, such as the first sample of a node.
    pub arrivals: u64,
}

impl Fleet {
    /// Builds a fleet without a scheduler, and finds the machines that are monitored twice.
    pub fn new(nodes: Arc<[Arc<Node>]>) -> Self {
        let same_as = Arc::new(find_other_names(&nodes, |node| node.scheduler.is_some()));
        let fleet = Self { same_as, nodes, jobs: None, waste: Arc::default(), arrivals: 0 };
        fleet.with_jobs(None)
    }

    /// Returns the same nodes with these jobs on them, and with what the list says of nodes.
    #[must_use]
    pub fn with_jobs(self, jobs: Option<Arc<JobList>>) -> Self {
        let scheduler = jobs.as_ref().map(|list| with_other_names(&list.nodes, &self.same_as));
        let scheduler = scheduler.unwrap_or_default();
        let jobs = jobs.map(|list| with_machine_names(&list, &self.same_as));
        let mut keeper = HoldingsKeeper::default();
        keeper.set_jobs(jobs.as_ref());
        let nodes = self.nodes.iter().cloned().map(|mut node| {
            if let Some(known) = scheduler.nodes.get(&node.name) {
                Arc::make_mut(&mut node).scheduler = Some(Arc::clone(known));
            }
            keeper.place(&mut node);
            node
        });
        Self { nodes: nodes.collect(), jobs, ..self }
    }

    /// Returns the node of this name.
    pub fn node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Returns the name under which the machine of this name counts.
    pub fn machine_name<'a>(&'a self, name: &'a NodeName) -> &'a NodeName {
        self.same_as.get(name).unwrap_or(name)
    }

    /// Returns true if a node repeats what its machine reports under another name.
    pub fn is_repeated(&self, node: &Node) -> bool {
        node.link == Link::Up && self.same_as.contains_key(&node.name)
    }

    /// Returns the scheduler that lists the jobs; an unnamed one if none does.
    pub fn scheduler(&self) -> &'static SchedulerProfile {
        self.jobs.as_ref().map(|list| list.scheduler).unwrap_or_default()
    }

    /// Returns when the scheduler answered what is known from it of a node.
    pub fn answered_at(&self, node: &SchedulerNode) -> Option<Timestamp> {
        self.jobs.as_ref()?.nodes.answered_at(node)
    }

    /// Returns each machine once.
    pub fn machines(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().filter(|node| !self.same_as.contains_key(&node.name))
    }
}

/// Returns the other names of machines, as in [`Fleet::same_as`]. `is_scheduled`: the scheduler knows the name.
fn find_other_names(
    nodes: &[Arc<Node>],
    is_scheduled: impl Fn(&Node) -> bool,
) -> BTreeMap<NodeName, NodeName> {
    let mut machines: BTreeMap<MachineId, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        if let Some(machine) = node.machine_id() {
            machines.entry(machine).or_default().push(node);
        }
    }
    let mut other_names = BTreeMap::new();
    for names in machines.into_values().filter(|names| names.len() > 1) {
        let best = names.iter().min_by_key(|node| (node.link != Link::Up, !is_scheduled(node)));
        let Some(chosen) = best else { continue };
        let others = names.iter().filter(|node| node.name != chosen.name);
        other_names.extend(others.map(|node| (node.name.clone(), chosen.name.clone())));
    }
    other_names
}

/// Returns a job list in which the jobs of a machine are on the name under which it counts.
fn with_machine_names(
    list: &Arc<JobList>,
    same_as: &Arc<BTreeMap<NodeName, NodeName>>,
) -> Arc<JobList> {
    if same_as.is_empty() {
        return Arc::clone(list);
    }
    let mut placed = JobList::clone(list);
    for job in placed.jobs.iter_mut().chain(&mut placed.awaiting_outcome) {
        if job.allocations.iter().any(|allocation| same_as.contains_key(&allocation.node)) {
            job.allocations = with_machine_allocations(&job.allocations, same_as);
        }
    }
    placed.other_names = Arc::clone(same_as);
    Arc::new(placed)
}

/// Returns what a job has on machines; what it has under several names of one is together.
fn with_machine_allocations(
    listed: &[Allocation],
    same_as: &BTreeMap<NodeName, NodeName>,
) -> Arc<[Allocation]> {
    let mut placed: Vec<Allocation> = Vec::with_capacity(listed.len());
    let mut positions = BTreeMap::new();
    for Allocation { node, devices } in listed {
        let machine = same_as.get(node).unwrap_or(node);
        let position = *positions.entry(machine).or_insert(placed.len());
        match placed.get_mut(position) {
            Some(known) => known.devices = known.devices.and(devices),
            None => placed.push(Allocation { node: machine.clone(), devices: devices.clone() }),
        }
    }
    placed.into()
}

/// Returns what the scheduler says of each name of its nodes' machines.
fn with_other_names(
    listed: &Arc<SchedulerNodes>,
    same_as: &BTreeMap<NodeName, NodeName>,
) -> Arc<SchedulerNodes> {
    let mut of_machines: BTreeMap<&NodeName, &Arc<SchedulerNode>> = BTreeMap::new();
    for (other_name, machine) in same_as {
        let known = [machine, other_name].into_iter().find_map(|name| listed.nodes.get(name));
        if let Some(known) = known {
            of_machines.entry(machine).or_insert(known);
        }
    }
    if of_machines.is_empty() {
        return Arc::clone(listed);
    }
    let mut placed = SchedulerNodes::clone(listed);
    for (other_name, machine) in same_as {
        let Some(known) = of_machines.get(machine) else { continue };
        for name in [machine, other_name] {
            // The scheduler does not list such a name, so the user gave it.
            placed.nodes.entry(name.clone()).or_insert_with(|| {
                Arc::new(SchedulerNode { is_extra: false, ..SchedulerNode::clone(known) })
            });
        }
    }
    Arc::new(placed)
}
