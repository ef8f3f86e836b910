//! Busy, idle-held and free devices: one rule for totals, table cells and users.
//!
//! A device is held when a scheduler allocated it to a job, when processes hold at least 256 MiB of memory on it
//! or on a slice of it, or when a TPU chip is open. It is idle-held while it is held and its utilization is
//! known to be below [`ACTIVE_PERCENT`].

use crate::fleet::health::Health;
use crate::fleet::node::Node;
use crate::model::{Bytes, Device, Percent, Reading, Reason};

/// Utilization, in percent, from which a device counts as busy.
pub const ACTIVE_PERCENT: f32 = 5.0;
/// Device memory, in bytes, from which processes hold a device; less than that is contexts and leftovers.
pub const MIN_HELD_BYTES: u64 = 256 << 20;
/// A driver reserves at most this part of the memory of a device: 0.7 % of an H100, 2 % of a V100 and of an L4.
const RESERVED_PART: u64 = 40;

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
    /// Returns the state of the device at this position of a node, as last known.
    pub fn of(node: &Node, position: usize, device: &Device) -> Self {
        let is_allocated = node.holdings.device(&device.uuid).is_allocated();
        if node.health(device) == Health::Faulty {
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

/// Returns the memory in use that no process has which the driver lists, if it is more than what the driver keeps.
pub fn unexplained_memory(device: &Device) -> Option<Bytes> {
    let hidden = device.hidden_memory.get().filter(|_| device.hidden_processes.get() == Some(0))?;
    // What the driver reserves is part of the memory in use where it is not told apart.
    let total = device.memory_total.get().filter(|_| device.memory_reserved.get().is_none());
    let reserved = total.map_or(0, |total| total.0 / RESERVED_PART);
    (hidden.0 >= MIN_HELD_BYTES.saturating_add(reserved)).then_some(hidden)
}

/// Returns true if the device at this position is known to be idle and unused, whether its node takes jobs or not.
pub fn is_free(node: &Node, position: usize) -> bool {
    let Some(device) = node.devices.get(position) else { return false };
    let is_asleep = device.utilization == Reading::Unknown(Reason::Asleep);
    device.fault.is_none()
        && (is_idle(device) || is_asleep || device.is_open() == Some(false))
        && !is_in_use(node, device)
        && unexplained_memory(device).is_none()
        && device.hidden_processes.get().is_none_or(|count| count == 0)
        && node.users_unknown_reason(position).is_none()
}

/// Returns true if a device is allocated to a job, or processes hold a relevant amount of its memory.
pub fn is_held(node: &Node, device: &Device) -> bool {
    node.holdings.device(&device.uuid).is_allocated() == Some(true) || is_in_use(node, device)
}

/// Returns true if a device is idle and allocated or in use.
pub fn is_idle_held(node: &Node, device: &Device, is_allocated: bool) -> bool {
    is_idle(device) && (is_allocated || is_in_use(node, device))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use super::*;
    use crate::fleet::{Fleet, Totals};
    use crate::model::{
        Allocation, DeviceAllocation, DeviceUse, Job, JobList, Link, NodeName, NodeState,
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
        assert_eq!(counts(&fleet.with_jobs(jobs)), (1, 1, 0));
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
            let fleet = Fleet::new([Arc::new(node)].into()).with_jobs(Some(Arc::new(list)));
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
        let fleet = Fleet::new([Arc::new(node)].into()).with_jobs(Some(Arc::new(list)));
        let totals = Totals::of(&fleet, at(0));
        assert_eq!((totals.idle_held, totals.free, totals.unknown_devices), (1, 0, 1));
    }

    #[test]
    fn an_unused_device_of_a_drained_node_is_unavailable_and_a_used_one_is_not() {
        let state = |state, share, mebibytes| {
            let mut node = node(Some(share), mebibytes);
            let scheduler = SchedulerNode { state, is_responding: true, ..Default::default() };
            node.scheduler = Some(Arc::new(scheduler));
            DeviceState::of(&node, 0, &node.devices[0])
        };
        assert_eq!(state(NodeState::Idle, 0.0, None), DeviceState::Free);
        assert_eq!(state(NodeState::Drained, 0.0, None), DeviceState::Unavailable);
        assert_eq!(state(NodeState::Reserved, 0.0, None), DeviceState::Unavailable);
        assert_eq!(state(NodeState::Draining, 90.0, Some(900)), DeviceState::Busy);
        assert_eq!(state(NodeState::Draining, 0.0, Some(900)), DeviceState::IdleHeld);
    }
}
