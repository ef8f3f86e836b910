//! Busy, idle-held and free devices: one rule for totals, table cells and users.
//!
//! A device is held when a scheduler allocated it to a job, when processes hold at least 256 MiB of memory on it
//! or on a slice of it, or when a TPU chip is open. It is idle-held while it is held and its utilization is
//! known to be below [`ACTIVE_PERCENT`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Fleet;
use super::jobs::{JobAllocation, NodeAllocations};
use super::node::Node;
use crate::model::{Device, NodeName, Percent, Reading, Reason};

/// Utilization, in percent, from which a device counts as busy.
pub const ACTIVE_PERCENT: f32 = 5.0;
/// Device memory, in bytes, from which processes hold a device; less than that is contexts and leftovers.
pub const MIN_HELD_BYTES: u64 = 256 << 20;

/// What a device is doing, as totals count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceState {
    /// Its utilization is at least [`ACTIVE_PERCENT`].
    Busy,
    /// Idle, but allocated or in use.
    IdleHeld,
    /// Idle, and neither allocated nor in use.
    Free,
    /// The driver reports a fault.
    Faulty,
    /// Its utilization or its users are not known, or a job whose devices are not all known may have it.
    Unknown,
    /// Idle and unused, on a node to which the scheduler gives no jobs, such as a drained one.
    Unavailable,
}

impl DeviceState {
    /// Returns the state of the device at this position of a node, as last known. `is_allocated` is what
    /// [`AllocatedDevices::is_allocated`] returns.
    pub fn of(node: &Node, position: usize, device: &Device, is_allocated: Option<bool>) -> Self {
        if device.fault.is_some() {
            Self::Faulty
        } else if is_busy(device) {
            Self::Busy
        } else if is_idle_held(node, device, is_allocated == Some(true)) {
            Self::IdleHeld
        } else if is_allocated == Some(false) && is_free(node, position) {
            if node.takes_jobs() { Self::Free } else { Self::Unavailable }
        } else {
            Self::Unknown
        }
    }
}

/// The devices that a scheduler allocated to jobs, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedDevices(BTreeMap<NodeName, AllocatedOnNode>);

/// The devices of one node that a scheduler allocated to jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AllocatedOnNode {
    allocated: BTreeSet<Arc<str>>,
    /// Jobs may have more of them than those known.
    may_be_more: bool,
}

impl AllocatedDevices {
    /// Collects the allocated devices; a device with slices is allocated when one of its slices is.
    pub fn of(fleet: &Fleet) -> Self {
        let mut allocated = Self::default();
        let mut allocations: BTreeMap<&NodeName, Vec<JobAllocation<'_>>> = BTreeMap::new();
        for job in fleet.jobs.iter().flat_map(|jobs| &jobs.jobs) {
            for allocation in job.allocations.iter() {
                allocations.entry(&allocation.node).or_default().push((job, allocation));
            }
        }
        if allocations.is_empty() {
            return allocated;
        }
        let counted_at = fleet.jobs.as_ref().and_then(|list| list.nodes.counted_at());
        for node in fleet.nodes.iter() {
            let Some(node_allocations) = allocations.get(fleet.machine_name(&node.name)) else {
                continue;
            };
            let found = NodeAllocations::of(node, node_allocations);
            let may_be_more = found.may_be_more(node, counted_at);
            let uuids =
                found.devices.iter().map(|device| Arc::clone(node.whole_uuid(&device.uuid)));
            let devices = AllocatedOnNode { allocated: uuids.collect(), may_be_more };
            allocated.0.insert(node.name.clone(), devices);
        }
        allocated
    }

    /// Returns true if a device is allocated to a job; `None` if a job whose devices are not all known may have it.
    pub fn is_allocated(&self, node: &Node, device: &Device) -> Option<bool> {
        match self.0.get(&node.name) {
            Some(found) if found.allocated.contains(&device.uuid) => Some(true),
            Some(found) if found.may_be_more => None,
            Some(_) | None => Some(false),
        }
    }

    /// Returns true if a device is known to be allocated to a job.
    pub fn contains(&self, node: &Node, device: &Device) -> bool {
        self.is_allocated(node, device) == Some(true)
    }
}

/// Returns true if utilization is known and at least [`ACTIVE_PERCENT`].
pub fn is_busy(device: &Device) -> bool {
    device.utilization.get().map(Percent::get).is_some_and(|share| share >= ACTIVE_PERCENT)
}

/// Returns true if utilization is known and below [`ACTIVE_PERCENT`].
pub fn is_idle(device: &Device) -> bool {
    device.utilization.get().is_some() && !is_busy(device)
}

/// Returns true if processes, visible or not, hold a device or a slice of it. Unknown memory counts as held.
pub fn is_in_use(node: &Node, device: &Device) -> bool {
    let mut bytes = 0_u64;
    for used in node.uses_on(device) {
        let Some(memory) = used.memory.get() else { return true };
        bytes = bytes.saturating_add(memory.0);
    }
    bytes >= MIN_HELD_BYTES || device.is_open() == Some(true)
}

/// Returns true if the device at this position is known to be idle and unused, whether its node takes jobs or not.
pub fn is_free(node: &Node, position: usize) -> bool {
    let Some(device) = node.devices.get(position) else { return false };
    let is_asleep = device.utilization == Reading::Unknown(Reason::Asleep);
    device.fault.is_none()
        && (is_idle(device) || is_asleep || device.is_open() == Some(false))
        && !is_in_use(node, device)
        && node.users_unknown_reason(position).is_none()
}

/// Returns true if a device is idle and allocated or in use.
pub fn is_idle_held(node: &Node, device: &Device, is_allocated: bool) -> bool {
    is_idle(device) && (is_allocated || is_in_use(node, device))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::Totals;
    use crate::model::{
        Allocation, Bytes, DeviceAllocation, DeviceUse, Job, JobList, Link, NodeState,
        SchedulerNode, SchedulerNodes, Source,
    };
    use crate::time::Timestamp;

    /// Returns a node with a device of this utilization, on which a process holds this many MiB.
    fn node(share: Option<f32>, mebibytes: Option<u64>) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let utilization =
            share.map_or_else(Reading::default, |share| Reading::checked(Percent::new(share)));
        node.devices = vec![Device { uuid: "GPU-1".into(), utilization, ..Device::default() }];
        let using = |mebibytes: u64| DeviceUse {
            device: "GPU-1".into(),
            pid: 7,
            memory: Reading::Known(Bytes(mebibytes << 20)),
            ..DeviceUse::default()
        };
        node.uses = mebibytes.map(using).into_iter().collect();
        node
    }

    #[test]
    fn a_device_is_idle_held_when_held_and_known_to_be_idle() {
        for (share, memory, is_allocated, expected) in [
            (Some(0.0), Some(900), false, true),
            (Some(4.9), Some(256), false, true),
            (Some(5.0), Some(900), false, false),
            (None, Some(900), false, false),
            (Some(0.0), Some(10), false, false),
            (Some(0.0), None, false, false),
            (Some(0.0), None, true, true),
            (None, None, true, false),
        ] {
            let node = node(share, memory);
            let found = is_idle_held(&node, &node.devices[0], is_allocated);
            assert_eq!(found, expected, "{share:?} {memory:?} {is_allocated}");
        }
    }

    #[test]
    fn an_allocated_device_is_held_and_not_free() {
        let mut node = node(Some(0.0), None);
        node.link = Link::Up;
        node.mark_sampled(&Source::host(), Timestamp::default());
        let devices = DeviceAllocation::Indices([0].into());
        let allocation = Allocation { node: node.name.clone(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("7") };
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        let jobs = Some(Arc::new(JobList { jobs: vec![job], ..JobList::default() }));
        let counts = |fleet: &Fleet| {
            let totals = Totals::of(fleet, Timestamp::default());
            (totals.fresh, totals.idle_held, totals.free)
        };
        assert_eq!(counts(&fleet), (1, 0, 1));
        assert_eq!(counts(&Fleet { jobs, ..fleet }), (1, 1, 0));
    }

    #[test]
    fn a_device_that_a_job_may_have_is_free_only_if_all_allocated_ones_are_known() {
        let at = Timestamp::from_micros;
        let mut node = node(Some(0.0), None);
        node.link = Link::Up;
        node.mark_sampled(&Source::host(), at(0));
        // Returns how many devices are free and unknown.
        let counts = |devices, allocated: Option<u32>, starts_at: i64| {
            let mut node = node.clone();
            let state = NodeState::Mixed;
            let scheduler =
                SchedulerNode { state, is_responding: true, allocated, ..Default::default() };
            node.scheduler = Some(Arc::new(scheduler));
            let allocations = [Allocation { node: node.name.clone(), devices }].into();
            let job = Job { allocations, starts_at: Some(at(starts_at)), ..Job::example("7") };
            let nodes = Arc::new(SchedulerNodes { at: Some(at(5)), ..SchedulerNodes::default() });
            let list = JobList { jobs: vec![job], nodes, ..JobList::default() };
            let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::new([Arc::new(node)].into()) };
            let totals = Totals::of(&fleet, at(0));
            (totals.free, totals.unknown_devices)
        };
        assert_eq!(counts(DeviceAllocation::None, None, 1), (1, 0));
        assert_eq!(counts(DeviceAllocation::Count(1), None, 1), (0, 1));
        assert_eq!(counts(DeviceAllocation::Unknown, None, 1), (0, 1));
        assert_eq!(counts(DeviceAllocation::Unknown, Some(1), 1), (0, 1));
        assert_eq!(counts(DeviceAllocation::Unknown, Some(0), 1), (1, 0));
        // The job has begun since the scheduler said so.
        assert_eq!(counts(DeviceAllocation::Unknown, Some(0), 9), (0, 1));
    }

    #[test]
    fn a_process_outside_of_the_scheduler_is_not_taken_for_an_allocated_device() {
        let at = Timestamp::from_micros;
        let mut node = node(Some(0.0), Some(900));
        node.link = Link::Up;
        node.mark_sampled(&Source::host(), at(0));
        node.devices.push(Device { uuid: "GPU-2".into(), ..node.devices[0].clone() });
        let scheduler = SchedulerNode { allocated: Some(1), ..SchedulerNode::default() };
        node.scheduler = Some(Arc::new(scheduler));
        let devices = DeviceAllocation::Count(1);
        let allocations = [Allocation { node: node.name.clone(), devices }].into();
        let job = Job { allocations, starts_at: Some(at(1)), ..Job::example("7") };
        let nodes = Arc::new(SchedulerNodes { at: Some(at(5)), ..SchedulerNodes::default() });
        let list = JobList { jobs: vec![job], nodes, ..JobList::default() };
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::new([Arc::new(node)].into()) };
        let totals = Totals::of(&fleet, at(0));
        assert_eq!((totals.idle_held, totals.free, totals.unknown_devices), (1, 0, 1));
    }

    #[test]
    fn an_unused_device_of_a_drained_node_is_unavailable_and_a_used_one_is_not() {
        let state = |state, share, mebibytes| {
            let mut node = node(Some(share), mebibytes);
            let scheduler = SchedulerNode { state, is_responding: true, ..Default::default() };
            node.scheduler = Some(Arc::new(scheduler));
            DeviceState::of(&node, 0, &node.devices[0], Some(false))
        };
        assert_eq!(state(NodeState::Idle, 0.0, None), DeviceState::Free);
        assert_eq!(state(NodeState::Drained, 0.0, None), DeviceState::Unavailable);
        assert_eq!(state(NodeState::Reserved, 0.0, None), DeviceState::Unavailable);
        assert_eq!(state(NodeState::Draining, 90.0, Some(900)), DeviceState::Busy);
        assert_eq!(state(NodeState::Draining, 0.0, Some(900)), DeviceState::IdleHeld);
    }
}
