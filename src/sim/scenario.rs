//! Which node plays which part.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::NodeName;
use crate::sim::injected_fault::InjectedFault;

/// Who is in the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSpec {
    /// Nodes; at least one is made.
    pub nodes: u32,
    /// Devices of each node.
    pub devices: u32,
    /// Processes of each node, shared out among its busy devices.
    pub processes: u32,
    /// What everything is drawn from.
    pub seed: u64,
    /// What the nodes do.
    pub scenario: Scenario,
    /// What is wrong with the session of which node, by its place from 0.
    pub faults: BTreeMap<u32, InjectedFault>,
}

/// What the nodes of a fleet do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A cluster on an ordinary day: jobs, idle nodes, and one of each kind of trouble.
    Mixed,
    /// Every node trains, and nothing is wrong.
    Busy,
}

/// What one node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// Trains a job that spans nodes.
    Training,
    /// The same, with one device that is too hot.
    Throttled,
    /// The same, with one device that lags.
    Straggler,
    /// The same, with one device lost and memory errors on another.
    Failing,
    /// Devices split into slices.
    Mig,
    /// Half of it answers requests, half is free.
    Serving,
    /// Short runs, one after another.
    Sweep,
    /// Memory is held and nothing is done.
    IdleHeld,
    /// Nobody is there.
    Free,
}

/// One of the first nodes of an ordinary day.
struct ScriptedNode {
    role: NodeRole,
    fault: Option<InjectedFault>,
    /// Its place among those that appear in a small fleet.
    rank: u32,
}

const fn scripted(rank: u32, part: NodeRole, fault: Option<InjectedFault>) -> ScriptedNode {
    ScriptedNode { role: part, fault, rank }
}

const STALLING: InjectedFault =
    InjectedFault::Stall { after: Duration::from_secs(20), lasting: Duration::from_secs(12) };
const FLAPPING: InjectedFault = InjectedFault::DropSession { after: Duration::from_secs(40) };
const STUCK_DRIVER: InjectedFault = InjectedFault::StuckBackend { after: Duration::from_secs(15) };

/// The nodes of a small fleet, in the order of their names.
const SCRIPTED_NODES: [ScriptedNode; 12] = [
    scripted(0, NodeRole::Training, None),
    scripted(1, NodeRole::Throttled, None),
    scripted(11, NodeRole::Straggler, None),
    scripted(2, NodeRole::Failing, None),
    scripted(3, NodeRole::Mig, None),
    scripted(6, NodeRole::Serving, None),
    scripted(7, NodeRole::IdleHeld, None),
    scripted(8, NodeRole::Training, Some(STUCK_DRIVER)),
    scripted(4, NodeRole::Sweep, Some(STALLING)),
    scripted(9, NodeRole::Training, Some(FLAPPING)),
    scripted(10, NodeRole::Free, Some(InjectedFault::RefuseAuth)),
    scripted(5, NodeRole::Free, Some(InjectedFault::RefusedPort)),
];

/// How many nodes one job spans at most, and how many in a row do the same.
const NODES_PER_JOB: u32 = 8;

impl FleetSpec {
    /// Makes the fleet of the demo: 8 devices a node, an ordinary day.
    pub fn demo(nodes: u32, seed: u64) -> Self {
        Self {
            nodes,
            devices: 8,
            processes: 8,
            seed,
            scenario: Scenario::Mixed,
            faults: (0..nodes)
                .filter_map(|node| Some((node, scripted_node(node, nodes)?.fault?)))
                .collect(),
        }
    }

    /// Makes a fleet that is busy everywhere, with nothing wrong; for measurements.
    pub fn busy(nodes: u32, devices: u32, processes: u32, seed: u64) -> Self {
        Self { nodes, devices, processes, seed, scenario: Scenario::Busy, faults: BTreeMap::new() }
    }

    /// Puts something wrong with the session of one node.
    #[must_use]
    pub fn with_fault(mut self, node: u32, fault: InjectedFault) -> Self {
        self.faults.insert(node, fault);
        self
    }

    /// Returns the names of the nodes: `gpu01` and so on, with as many digits as the fleet needs.
    pub fn names(&self) -> Vec<NodeName> {
        let digits = self.nodes.to_string().len().max(2);
        (1..=self.nodes.max(1))
            .filter_map(|number| NodeName::new(&format!("gpu{number:0digits$}")).ok())
            .collect()
    }

    /// Returns what a node does.
    pub(crate) fn role(&self, node: u32) -> NodeRole {
        match self.scenario {
            Scenario::Busy => NodeRole::Training,
            Scenario::Mixed => scripted_node(node, self.nodes)
                .map_or_else(|| generated_role(node), |cast| cast.role),
        }
    }

    /// Returns which job of several nodes a node belongs to.
    pub(crate) fn job_block(&self, node: u32) -> u32 {
        let first = u32::try_from(SCRIPTED_NODES.len()).unwrap_or(0);
        match self.scenario {
            Scenario::Mixed if node < first => node / 3,
            Scenario::Mixed => (node - first) / NODES_PER_JOB + NODES_PER_JOB,
            Scenario::Busy => node / NODES_PER_JOB,
        }
    }
}

/// Returns who stands at this place among the first; a small fleet leaves the least telling out.
fn scripted_node(node: u32, nodes: u32) -> Option<&'static ScriptedNode> {
    let place = usize::try_from(node).ok()?;
    SCRIPTED_NODES.iter().filter(|cast| cast.rank < nodes).nth(place)
}

/// Returns what the nodes behind the first do.
fn generated_role(node: u32) -> NodeRole {
    match (node % 41, (node / NODES_PER_JOB) % 6) {
        (7, _) => NodeRole::Straggler,
        (19, _) => NodeRole::Throttled,
        (31, _) => NodeRole::Failing,
        (_, 0 | 1 | 4) => NodeRole::Training,
        (_, 2) => NodeRole::Serving,
        (_, 3) => NodeRole::Sweep,
        _ if node.is_multiple_of(3) => NodeRole::IdleHeld,
        _ => NodeRole::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(nodes: u32) -> Vec<NodeRole> {
        let fleet = FleetSpec::demo(nodes, 1);
        (0..nodes).map(|node| fleet.role(node)).collect()
    }

    #[test]
    fn six_nodes_show_what_matters_and_one_is_healthy() {
        for nodes in 6..40 {
            let (parts, faults) = (parts(nodes), FleetSpec::demo(nodes, 1).faults);
            for part in [NodeRole::Training, NodeRole::Throttled, NodeRole::Failing, NodeRole::Mig]
            {
                assert!(parts.contains(&part), "{nodes}: {part:?}");
            }
            for fault in [STALLING, InjectedFault::RefusedPort] {
                assert!(faults.values().any(|known| *known == fault), "{nodes}: {fault:?}");
            }
        }
        assert_eq!(parts(1), [NodeRole::Training]);
        assert!(FleetSpec::demo(1, 1).faults.is_empty());
    }

    #[test]
    fn twelve_nodes_have_one_of_each_trouble() {
        let faults: Vec<InjectedFault> = FleetSpec::demo(12, 1).faults.into_values().collect();
        assert_eq!(
            faults,
            [
                STUCK_DRIVER,
                STALLING,
                FLAPPING,
                InjectedFault::RefuseAuth,
                InjectedFault::RefusedPort
            ]
        );
    }

    #[test]
    fn names_sort_as_they_count() {
        let names = FleetSpec::busy(100, 1, 1, 0).names();
        assert_eq!(names.first().map(NodeName::as_str), Some("gpu001"));
        assert!(names.is_sorted());
        assert_eq!(FleetSpec::busy(0, 1, 1, 0).names().len(), 1);
    }
}
