//! The size of a simulated fleet and the role of each node.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sim::injected_fault::InjectedFault;
use gtop_model::NodeName;

/// Describes a simulated fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSpec {
    /// Number of nodes, at least one.
    pub nodes: u32,
    /// Devices per node.
    pub devices: u32,
    /// Processes per node, distributed over its busy devices.
    pub processes: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// What the nodes do.
    pub scenario: Scenario,
    /// Injected faults by node index, from 0.
    pub faults: BTreeMap<u32, InjectedFault>,
}

/// What the nodes of a fleet do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Jobs, free nodes, and one of each kind of fault.
    Mixed,
    /// All nodes train, without faults.
    Busy,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// Trains a job over several nodes.
    Training,
    /// Trains, with one device that is too hot.
    Throttled,
    /// Trains, with one device that is too slow.
    Straggler,
    /// Its training hangs since it has lost a device; another has memory errors.
    Failing,
    /// Some devices are partitioned into MIG slices.
    Mig,
    /// Half of it serves requests, half is free.
    Serving,
    /// Short runs, one after another.
    Sweep,
    /// The same on AMD's devices.
    Amd,
    /// A worker of a TPU pod, which trains.
    Tpu,
    /// Processes hold memory without computing, beside accelerators that gtop cannot read.
    IdleHeld,
    /// No processes.
    Free,
}

/// A node with a fixed role in a mixed fleet.
struct ScriptedNode {
    role: NodeRole,
    fault: Option<InjectedFault>,
    /// Priority in small fleets: lower ranks are kept.
    rank: u32,
}

const fn scripted(rank: u32, role: NodeRole, fault: Option<InjectedFault>) -> ScriptedNode {
    ScriptedNode { role, fault, rank }
}

// In the first minute one node changes its state, whose driver hangs: who looks for the first time looks at a calm fleet.
const STALLING: InjectedFault =
    InjectedFault::Stall { after: Duration::from_secs(62), lasting: Duration::from_secs(12) };
const FLAPPING: InjectedFault = InjectedFault::DropSession { after: Duration::from_secs(130) };
const STUCK_DRIVER: InjectedFault = InjectedFault::StuckBackend { after: Duration::from_secs(15) };

/// The first nodes of a mixed fleet, in the order of their names.
const SCRIPTED_NODES: [ScriptedNode; SCRIPTED as usize] = [
    scripted(0, NodeRole::Training, None),
    scripted(1, NodeRole::Throttled, None),
    scripted(11, NodeRole::Straggler, None),
    scripted(2, NodeRole::Failing, None),
    scripted(3, NodeRole::Mig, None),
    scripted(6, NodeRole::Serving, None),
    scripted(7, NodeRole::IdleHeld, None),
    scripted(8, NodeRole::Training, Some(STUCK_DRIVER)),
    scripted(4, NodeRole::Amd, Some(STALLING)),
    scripted(9, NodeRole::Tpu, Some(FLAPPING)),
    scripted(10, NodeRole::Tpu, Some(InjectedFault::RefuseAuth)),
    scripted(5, NodeRole::Free, Some(InjectedFault::RefusedPort)),
];

/// Maximum nodes of a job, and number of consecutive nodes with the same role.
const NODES_PER_JOB: u32 = 8;

/// Number of scripted nodes.
const SCRIPTED: u32 = 12;

/// Devices of a worker of a TPU pod.
const CHIPS_PER_WORKER: u32 = 4;

impl FleetSpec {
    /// Returns the fleet of the demo: mixed, with 8 devices per node.
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

    /// Returns a fully busy fleet without faults, for benchmarks.
    #[cfg(any(test, feature = "testing"))]
    pub fn busy(nodes: u32, devices: u32, processes: u32, seed: u64) -> Self {
        Self { nodes, devices, processes, seed, scenario: Scenario::Busy, faults: BTreeMap::new() }
    }

    /// Injects a fault into a node.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_fault(mut self, node: u32, fault: InjectedFault) -> Self {
        self.faults.insert(node, fault);
        self
    }

    /// Returns the names of the nodes: `gpu01`, or `tpu01` of a TPU pod, with as many digits as the fleet needs.
    pub fn names(&self) -> Vec<NodeName> {
        let digits = self.nodes.to_string().len().max(2);
        (1..=self.nodes.max(1))
            .filter_map(|number| {
                let is_tpu = self.role(number - 1) == NodeRole::Tpu;
                let kind = if is_tpu { "tpu" } else { "gpu" };
                NodeName::new(&format!("{kind}{number:0digits$}")).ok()
            })
            .collect()
    }

    /// Returns what a node does.
    pub(crate) fn role(&self, node: u32) -> NodeRole {
        match self.scenario {
            Scenario::Busy => NodeRole::Training,
            Scenario::Mixed => scripted_node(node, self.nodes)
                .map_or_else(|| generated_role(node), |scripted| scripted.role),
        }
    }

    /// Returns the number of devices of a node.
    pub(crate) fn devices_of(&self, node: u32) -> u32 {
        let is_tpu = self.role(node) == NodeRole::Tpu;
        if is_tpu { self.devices.min(CHIPS_PER_WORKER) } else { self.devices }
    }

    /// Returns true if devices report everything that their boards have, not only what benchmarks compare.
    pub(crate) fn is_detailed(&self) -> bool {
        self.scenario == Scenario::Mixed
    }

    /// Returns true if this job of several nodes is that of the user who looks at the demo.
    pub(crate) fn is_your_job(&self, block: u32) -> bool {
        self.scenario == Scenario::Mixed && block == 0
    }

    /// Returns which job of several nodes a node belongs to.
    pub(crate) fn job_block(&self, node: u32) -> u32 {
        match self.scenario {
            Scenario::Mixed if node < SCRIPTED => node / 3,
            Scenario::Mixed => (node - SCRIPTED) / NODES_PER_JOB + NODES_PER_JOB,
            Scenario::Busy => node / NODES_PER_JOB,
        }
    }
}

/// Returns the scripted node with this index; a small fleet leaves out the highest ranks.
fn scripted_node(node: u32, nodes: u32) -> Option<&'static ScriptedNode> {
    let index = usize::try_from(node).ok()?;
    SCRIPTED_NODES.iter().filter(|scripted| scripted.rank < nodes).nth(index)
}

/// Returns the role of a node after the scripted ones.
fn generated_role(node: u32) -> NodeRole {
    // All nodes of a job are of one vendor.
    match node.saturating_sub(SCRIPTED) / NODES_PER_JOB % 24 {
        3 => return NodeRole::Tpu,
        6 => return NodeRole::Amd,
        _ => {}
    }
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

    fn roles(nodes: u32) -> Vec<NodeRole> {
        let fleet = FleetSpec::demo(nodes, 1);
        (0..nodes).map(|node| fleet.role(node)).collect()
    }

    #[test]
    fn six_nodes_have_the_main_roles_and_faults_and_one_is_healthy() {
        for nodes in 6..40 {
            let (roles, faults) = (roles(nodes), FleetSpec::demo(nodes, 1).faults);
            for role in [NodeRole::Training, NodeRole::Throttled, NodeRole::Failing, NodeRole::Mig]
            {
                assert!(roles.contains(&role), "{nodes}: {role:?}");
            }
            for fault in [STALLING, InjectedFault::RefusedPort] {
                assert!(faults.values().any(|known| *known == fault), "{nodes}: {fault:?}");
            }
        }
        assert_eq!(roles(1), [NodeRole::Training]);
        assert!(FleetSpec::demo(1, 1).faults.is_empty());
    }

    #[test]
    fn twelve_nodes_have_one_of_each_fault() {
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
    fn one_node_changes_its_state_in_the_first_minute() {
        let minute = Duration::from_secs(60);
        for nodes in [6, 12, 300] {
            let faults = FleetSpec::demo(nodes, 1).faults;
            let is_early = |fault: &&InjectedFault| {
                matches!(fault, InjectedFault::Stall { after, .. }
                    | InjectedFault::DropSession { after }
                    | InjectedFault::StuckBackend { after } if *after <= minute)
            };
            let changes = faults.values().filter(is_early);
            assert_eq!(changes.count(), usize::from(nodes > 8), "{nodes}");
        }
    }

    #[test]
    fn the_nodes_of_a_job_are_all_of_a_tpu_pod_or_none_is() {
        let fleet = FleetSpec::demo(300, 1);
        let mut pods = BTreeMap::new();
        for node in SCRIPTED..300 {
            let is_tpu = fleet.role(node) == NodeRole::Tpu;
            assert_eq!(*pods.entry(fleet.job_block(node)).or_insert(is_tpu), is_tpu, "{node}");
        }
        assert_eq!(pods.values().filter(|is_tpu| **is_tpu).count(), 2);
    }

    #[test]
    fn names_sort_by_number() {
        let names = FleetSpec::busy(100, 1, 1, 0).names();
        assert_eq!(names.first().map(NodeName::as_str), Some("gpu001"));
        assert!(names.is_sorted());
        assert_eq!(FleetSpec::busy(0, 1, 1, 0).names().len(), 1);
    }
}
