//! The nodes of a simulated fleet as its scheduler lists them: their partitions, and one that takes no jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::sim::scenario::{FleetSpec, NodeRole};
use crate::sim::workload::{WorkloadKind, node_workloads};
use gtop_local::time::Timestamp;
use gtop_model::{Job, NodeName, NodeState, SchedulerNode, SchedulerNodes};

/// One node in this many is in the interactive partition too, beside the one where its job runs.
const INTERACTIVE_EVERY: u32 = 24;

impl FleetSpec {
    /// Returns what the scheduler says at `now` of the nodes of a fleet with these jobs that was started at `began`.
    pub(super) fn scheduler_nodes(
        &self,
        began: Timestamp,
        now: Timestamp,
        jobs: &[Job],
    ) -> SchedulerNodes {
        let mut indices_of_jobs: BTreeMap<&NodeName, BTreeSet<u32>> = BTreeMap::new();
        for allocation in jobs.iter().flat_map(|job| job.allocations.iter()) {
            if let Some(indices) = allocation.devices.indices() {
                indices_of_jobs.entry(&allocation.node).or_default().extend(indices.iter());
            }
        }
        let mut sound = (0..self.nodes).filter(|node| !self.faults.contains_key(node));
        // In a small fleet, one with processes is only draining.
        let [free, idle_held] = [NodeRole::Free, NodeRole::IdleHeld]
            .map(|role| sound.clone().find(|node| self.role(*node) == role));
        let drained = free.or(idle_held);
        let interactive = sound.find(|node| {
            node_workloads(self, *node).iter().any(|(work, _)| work.kind == WorkloadKind::Free)
        });
        let mut nodes = BTreeMap::new();
        for (node, name) in (0..).zip(self.names()) {
            let is_serving = self.role(node) == NodeRole::Serving;
            let mut partitions: Vec<Arc<str>> =
                vec![if is_serving { "serve" } else { "gpu" }.into()];
            if interactive == Some(node) || node % INTERACTIVE_EVERY == INTERACTIVE_EVERY / 4 {
                partitions.push("interactive".into());
            }
            let (state, reason) = match self.use_of(node) {
                _ if drained == Some(node) => {
                    let is_free = self.role(node) == NodeRole::Free;
                    let state = if is_free { NodeState::Drained } else { NodeState::Draining };
                    (state, Some("NVLink cable ordered"))
                }
                (0, _) => (NodeState::Idle, None),
                (used, all) if used < all => (NodeState::Mixed, None),
                _ => (NodeState::Allocated, None),
            };
            let has_slices = self.role(node) == NodeRole::Mig;
            let indices = indices_of_jobs.remove(&name).unwrap_or_default();
            let indices: Option<Arc<[u32]>> = (!has_slices).then(|| indices.into_iter().collect());
            let said = SchedulerNode {
                partitions,
                state,
                is_responding: true,
                reason: reason.map(Into::into),
                features: vec!["nvlink".into()],
                // How many slices it gives to jobs is not simulated.
                devices: (!has_slices).then(|| self.devices_of(node)),
                allocated: indices
                    .as_ref()
                    .map(|indices| u32::try_from(indices.len()).unwrap_or(u32::MAX)),
                allocated_indices: indices,
                ..SchedulerNode::default()
            };
            nodes.insert(name, Arc::new(said));
        }
        SchedulerNodes { nodes, at: Some(began), allocated_at: Some(now), awaits_allocated: false }
    }

    /// Returns the number of devices of a node that jobs have, and of all.
    fn use_of(&self, node: u32) -> (u32, u32) {
        let workloads = node_workloads(self, node);
        let used = workloads.iter().filter(|(work, _)| work.job.is_some());
        (used.map(|(_, devices)| devices).sum(), self.devices_of(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_nodes_are_in_two_partitions_and_one_is_drained() {
        let all = FleetSpec::demo(300, 1).scheduler_nodes(
            Timestamp::default(),
            Timestamp::default(),
            &[],
        );
        assert_eq!(all.nodes.len(), 300);
        let count = |is_counted: fn(&SchedulerNode) -> bool| {
            all.nodes.values().filter(|node| is_counted(node)).count()
        };
        assert!((10..16).contains(&count(|node| node.partitions.len() == 2)));
        assert_eq!(count(|node| node.state == NodeState::Drained), 1);
        assert_eq!(count(|node| !node.takes_jobs()), 1);
        assert!(count(|node| node.state == NodeState::Mixed) > 0);
    }

    #[test]
    fn a_fleet_of_one_node_has_a_partition_too() {
        let all =
            FleetSpec::demo(1, 1).scheduler_nodes(Timestamp::default(), Timestamp::default(), &[]);
        assert_eq!(all.nodes.values().map(|node| node.partitions.len()).collect::<Vec<_>>(), [1]);
    }
}
