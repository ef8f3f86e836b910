//! Keeps who has which device of each node, and what was proved about the scheduler's lists.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::holdings::NodeHoldings;
use crate::idle::MIN_HELD_BYTES;
use crate::job_lookup::{JobAllocation, JobLookup};
use crate::node::Node;
use crate::placing::learned::{LearnedMap, START_ROUNDING, process_list_time};
use crate::placing::place::Placement;
use gtop_model::{JobList, MachineId, NodeName, ProvedIndices};

/// Sets who has the devices of each node. What the scheduler's indices mean is learned over time.
#[derive(Clone, Debug, Default)]
pub struct HoldingsKeeper {
    jobs: JobLookup,
    /// Counts the job lists that differ from the one before, and the names of machines.
    generation: u64,
    /// The names of each machine, for lists that have its jobs under any of them, as those of recordings do.
    names: BTreeMap<MachineId, BTreeSet<NodeName>>,
    nodes: BTreeMap<NodeName, KnownNode>,
}

/// What was found for a node last.
#[derive(Clone, Debug, Default)]
struct KnownNode {
    /// Of what it was found.
    signature: u64,
    holdings: Arc<NodeHoldings>,
    learned: LearnedMap,
}

impl HoldingsKeeper {
    /// Replaces the job list.
    pub fn set_jobs(&mut self, list: Option<&Arc<JobList>>) {
        if self.jobs.list().map(Arc::as_ptr) == list.map(Arc::as_ptr) {
            return;
        }
        let known = std::mem::replace(&mut self.jobs, JobLookup::of(list));
        self.generation += match (known.list(), list) {
            (Some(known), Some(list)) if tells_the_same(known, list) => 0,
            _ => 1,
        };
        // A recording has what was proved before it.
        for (name, proved) in list.iter().flat_map(|list| list.proved.iter()) {
            let known = self.nodes.entry(name.clone()).or_default();
            known.learned.restore(proved);
        }
    }

    /// Returns what was proved about the lists of nodes, beyond what the nodes report at any time.
    pub fn proved(&self) -> BTreeMap<NodeName, ProvedIndices> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|(name, known)| Some((name.clone(), known.learned.proved()?))).collect()
    }

    /// Returns the jobs.
    pub fn jobs(&self) -> &JobLookup {
        &self.jobs
    }

    /// Notes a name of a machine, for lists that have the jobs of a machine under any of its names.
    pub fn note_name(&mut self, node: &Node) {
        let Some(machine) = node.machine_id() else { return };
        let names = self.names.entry(machine).or_default();
        if names.insert(node.name.clone()) && names.len() > 1 {
            self.generation += 1;
        }
    }

    /// Returns who has the devices of a node, as it was found last.
    pub fn last(&self, name: &NodeName) -> Option<&Arc<NodeHoldings>> {
        self.nodes.get(name).map(|known| &known.holdings)
    }

    /// Returns of what the holdings of a node were found last.
    #[cfg(test)]
    pub(super) fn signature_of(&self, name: &NodeName) -> Option<u64> {
        self.nodes.get(name).map(|known| known.signature)
    }

    /// Sets who has the devices of a node; found anew only if something that matters has changed.
    pub fn place(&mut self, node: &mut Arc<Node>) {
        let signature = self.signature(node);
        let known = self.nodes.entry(node.name.clone()).or_default();
        if signature != known.signature {
            let scheduler = node.scheduler.as_ref();
            let scheduler = scheduler.or_else(|| self.jobs.list()?.nodes.nodes.get(&node.name));
            let listed = listed(&self.jobs, &self.names, node);
            let placement = Placement {
                node,
                jobs: &self.jobs,
                listed: &listed,
                scheduler: scheduler.map(|known| &**known),
            };
            let holdings = placement.holdings(&mut known.learned);
            if holdings != *known.holdings {
                known.holdings = Arc::new(holdings);
            }
            known.signature = signature;
        }
        if !Arc::ptr_eq(&node.holdings, &known.holdings) {
            Arc::make_mut(node).holdings = Arc::clone(&known.holdings);
        }
    }

    /// Returns a number that changes when who has the node's devices may have changed.
    fn signature(&self, node: &Node) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        // Never that of a node of which nothing is known.
        1_u8.hash(&mut hasher);
        self.generation.hash(&mut hasher);
        for device in &node.devices {
            let statics = address(device.statics.as_ref());
            (&device.uuid, &device.parent, statics).hash(&mut hasher);
        }
        for used in node.uses.iter() {
            // More than that holds a device, however much it is.
            let memory = used.memory.get().map(|memory| memory.0.min(MIN_HELD_BYTES));
            // Uses share the UUIDs of their devices, whose text is part of this above.
            (used.pid, Arc::as_ptr(&used.device).addr(), memory).hash(&mut hasher);
        }
        for process in node.processes.iter() {
            (process.key.pid, Arc::as_ptr(&process.statics).addr()).hash(&mut hasher);
        }
        for process in node.unseen.iter() {
            (process.pid, &process.statics.job, process.statics.user.known()).hash(&mut hasher);
        }
        address(node.evidence.as_ref()).hash(&mut hasher);
        address(node.scheduler.as_ref()).hash(&mut hasher);
        address(node.hello.as_ref()).hash(&mut hasher);
        // A list of processes from before a job's start says nothing about it.
        let listed_at = process_list_time(node);
        for (job, _) in listed(&self.jobs, &self.names, node) {
            let times = listed_at.zip(job.starts_at);
            let is_older = times.is_some_and(|(at, start)| at < start.plus(START_ROUNDING));
            is_older.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Returns where something is kept that is replaced when it changes; 0 if there is none.
fn address<T>(known: Option<&Arc<T>>) -> usize {
    known.map_or(0, |known| Arc::as_ptr(known).addr())
}

/// Returns true if two lists agree about who has which device: most lists are only newer.
fn tells_the_same(one: &JobList, other: &JobList) -> bool {
    let [counted_at, new_counted_at] = [one, other].map(|list| list.nodes.counted_at());
    one.at.is_some() == other.at.is_some()
        && one.with_nodes().count() == other.with_nodes().count()
        && one.with_nodes().zip(other.with_nodes()).all(|(job, new)| {
            (&job.id, &job.alias, &job.user) == (&new.id, &new.alias, &new.user)
                && (job.state, job.starts_at) == (new.state, new.starts_at)
                && job.allocations == new.allocations
                && (counted_at > job.starts_at) == (new_counted_at > new.starts_at)
        })
        && (one.requested, one.is_partial, one.hides_jobs)
            == (other.requested, other.is_partial, other.hides_jobs)
        && one.other_names == other.other_names
        && one.proved == other.proved
        && one.nodes.nodes == other.nodes.nodes
}

/// Returns the jobs on the machine of a node.
fn listed<'a>(
    jobs: &'a JobLookup,
    names: &BTreeMap<MachineId, BTreeSet<NodeName>>,
    node: &Node,
) -> Vec<JobAllocation<'a>> {
    match node.machine_id().and_then(|machine| names.get(&machine)) {
        Some(names) => names.iter().flat_map(|name| jobs.on_node(name)).collect(),
        None => jobs.on_node(&node.name),
    }
}
