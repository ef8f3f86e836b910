//! Busy, idle-held and free devices: one rule for totals, table cells and users.
//!
//! A device is held when a scheduler allocated it to a job, when processes hold at least 256 MiB of memory on it
//! or on a slice of it, or when a TPU chip is open. It is idle-held while it is held and its utilization is
//! known to be below [`ACTIVE_PERCENT`], and in use if its utilization is not known.

use crate::health::Health;
use crate::node::Node;
use gtop_model::{Bytes, Device, DeviceUse, Percent, Reading, Reason, Vendor};

/// Utilization, in percent, from which a device counts as busy.
pub const ACTIVE_PERCENT: f32 = 5.0;
/// Device memory, in bytes, from which processes hold a device; less than that is contexts and leftovers.
pub(crate) const MIN_HELD_BYTES: u64 = 256 << 20;
/// A driver reserves at most this part of the memory of a device: 0.7 % of an H100, 2 % of a V100 and of an L4.
const RESERVED_PART: u64 = 40;

/// What a device does by its last values, fresh or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LastState {
    /// Its utilization is at least [`ACTIVE_PERCENT`].
    Busy,
    /// Idle, but allocated or in use.
    IdleHeld,
    /// Idle, and neither allocated nor in use.
    Free,
    /// The driver reports a fault.
    Faulty,
    /// Whether it is free is not known: its utilization or its users are not, or a job whose devices are not all known may
    /// have it.
    Unknown,
    /// Nobody can be given it: it is idle and unused, on a node to which the scheduler gives no jobs, such as a drained one,
    /// or it is in MIG mode without slices.
    Unavailable,
    /// Allocated or in use, and its load is unknown.
    InUse,
}

impl LastState {
    /// Returns the state of the device at this position of a node, as last known.
    pub fn of(node: &Node, position: usize, device: &Device) -> Self {
        let is_allocated = node.holdings.device(&device.uuid).is_allocated();
        if node.health(device) == Health::Faulty {
            Self::Faulty
        } else if device.is_partial {
            Self::Unknown
        } else if node.is_without_slices(device) {
            Self::Unavailable
        } else if is_busy(device) {
            Self::Busy
        } else if is_idle_held(node, device, is_allocated == Some(true)) {
            Self::IdleHeld
        } else if is_held(node, device) {
            Self::InUse
        } else if is_allocated == Some(false) && is_free(node, position) {
            if node.takes_jobs() { Self::Free } else { Self::Unavailable }
        } else {
            Self::Unknown
        }
    }
}

/// Returns true if the [load](Device::load) is known and at least [`ACTIVE_PERCENT`].
pub fn is_busy(device: &Device) -> bool {
    device.load().get().map(Percent::get).is_some_and(|share| share >= ACTIVE_PERCENT)
}

/// Returns true if the [load](Device::load) is known and below [`ACTIVE_PERCENT`].
pub fn is_idle(device: &Device) -> bool {
    device.load().get().is_some() && !is_busy(device)
}

/// Returns true if processes, visible or not, hold a device or a slice of it. Unknown memory counts as held.
pub fn is_in_use(node: &Node, device: &Device) -> bool {
    is_much(node.uses_on(device)) || device.is_open() == Some(true)
}

/// Returns true if uses together have a relevant amount of memory. Unknown memory counts as that.
pub(crate) fn is_much<'a>(uses: impl Iterator<Item = &'a DeviceUse>) -> bool {
    let mut bytes = 0_u64;
    for used in uses {
        let Some(memory) = used.memory.get() else { return true };
        bytes = bytes.saturating_add(memory.0);
    }
    bytes >= MIN_HELD_BYTES
}

/// Returns the memory in use that no process has which the driver lists, if it is more than what the driver keeps.
pub(crate) fn unexplained_memory(node: &Node, device: &Device) -> Option<Bytes> {
    let device = memory_owner(node, device);
    let hidden = device.hidden_memory.get().filter(|_| device.hidden_processes.get() == Some(0))?;
    (hidden.0 >= min_unexplained(device)).then_some(hidden)
}

/// Returns the device whose memory in use the driver reports: of a partition of AMD, that it is a part of, as the partition's
/// own is only what its processes have.
pub(crate) fn memory_owner<'a>(node: &'a Node, device: &'a Device) -> &'a Device {
    let is_amd = device.vendor.get() == Some(Vendor::Amd);
    let parent = device.parent.as_ref().filter(|_| is_amd);
    parent.and_then(|parent| node.device(parent)).unwrap_or(device)
}

/// Returns the memory, in bytes, from which what no listed process has is more than what the driver keeps.
pub(crate) fn min_unexplained(device: &Device) -> u64 {
    // What the driver reserves is part of the memory in use unless it is reported separately.
    let total = device.memory_total.get().filter(|_| device.memory_reserved.get().is_none());
    let reserved = total.map_or(0, |total| total.0 / RESERVED_PART);
    MIN_HELD_BYTES.saturating_add(reserved)
}

/// Returns true if the driver could report how much of its memory is in use, and does not.
pub fn is_memory_refused(device: &Device) -> bool {
    match device.memory_used.reason() {
        Some(Reason::NoPermission | Reason::DriverError | Reason::Malformed) => true,
        // Each has memory, unless it is that of the host.
        Some(Reason::NotSupported) => {
            let is_nvidia = device.vendor.get() == Some(Vendor::Nvidia);
            is_nvidia && device.parent.is_none() && !device.has_host_memory
        }
        _ => false,
    }
}

/// Returns true if the device at this position is known to be idle and unused, whether its node takes jobs or not.
pub fn is_free(node: &Node, position: usize) -> bool {
    let Some(device) = node.devices.get(position) else { return false };
    device.fault.is_none()
        && is_known_idle(device)
        && !is_in_use(node, device)
        && !is_whole_in_use(node, device)
        && !has_hidden_processes(node, device)
        && !is_memory_refused(device)
        && node.users_unknown_reason(position).is_none()
}

/// Returns whether any process, visible or not, is on the device at this position; `None` if that is not known.
pub(crate) fn has_processes(node: &Node, position: usize) -> Option<bool> {
    let device = node.devices.get(position)?;
    if node.uses_on(device).next().is_some()
        || device.is_open() == Some(true)
        || has_hidden_processes(node, device)
    {
        return Some(true);
    }
    let is_known = !is_whole_in_use(node, device)
        && !is_memory_refused(device)
        && node.users_unknown_reason(position).is_none();
    is_known.then_some(false)
}

/// Returns true if processes that the driver does not list are counted, or have memory.
fn has_hidden_processes(node: &Node, device: &Device) -> bool {
    device.hidden_processes.get().is_some_and(|count| count > 0)
        || unexplained_memory(node, device).is_some()
}

/// Returns true if a device is known to do nothing.
pub(super) fn is_known_idle(device: &Device) -> bool {
    is_idle(device)
        || device.utilization == Reading::Unknown(Reason::Asleep)
        || device.is_open() == Some(false)
        // Of a slice whose load cannot be measured, the memory of its processes shows that it is unused.
        || (device.parent.is_some()
            && device.load() == Reading::Unknown(Reason::NotSupported)
            && device.hidden_memory.get().is_some())
}

/// Returns true if processes use the device of a slice, and it is not known on which of its slices they are.
pub(super) fn is_whole_in_use(node: &Node, device: &Device) -> bool {
    device.parent.as_ref().is_some_and(|parent| node.uses_of(parent).next().is_some())
}

/// Returns true if a device is allocated to a job, or processes hold a relevant amount of its memory.
pub fn is_held(node: &Node, device: &Device) -> bool {
    node.holdings.device(&device.uuid).is_allocated() == Some(true) || is_in_use(node, device)
}

/// Returns true if a sound device is idle and allocated or in use.
pub(crate) fn is_idle_held(node: &Node, device: &Device, is_allocated: bool) -> bool {
    let is_idle_and_held = if is_in_use(node, device) {
        is_idle(device)
    } else {
        is_allocated && is_known_idle(device)
    };
    is_idle_and_held && node.health(device) != Health::Faulty
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use super::*;
    use crate::{Fleet, StateReason, Totals};
    use gtop_local::time::Timestamp;
    use gtop_model::{
        Allocation, DeviceActivity, DeviceAllocation, DeviceDetails, DeviceFault, Job, JobList,
        Link, NodeName, NodeState, RequestedJobs, SchedulerNode, SchedulerNodes, Source,
    };

    /// Returns a node with a device of this utilization, on which a process holds this many MiB.
    fn node(share: Option<f32>, mebibytes: Option<u64>) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let utilization =
            share.map_or_else(Reading::default, |share| Reading::checked(Percent::new(share)));
        node.devices =
            vec![Device { uuid: "GPU-1".into(), utilization, ..Device::default() }].into();
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

    /// Returns a node with a device in MIG mode and slices of these loads, none of which has users.
    fn sliced_node(loads: &[Option<f32>]) -> Node {
        let mut node = node(None, None);
        let unsupported = Reading::Unknown(Reason::NotSupported);
        let whole = &mut node.devices[0];
        (whole.utilization, whole.mig) = (unsupported, Reading::Known(true));
        let slice = |(index, load): (u32, &Option<f32>)| {
            let activity = DeviceActivity {
                graphics_active: load
                    .map_or(unsupported, |load| Reading::checked(Percent::new(load))),
                ..DeviceActivity::default()
            };
            Device {
                uuid: format!("MIG-{index}").into(),
                parent: Some("GPU-1".into()),
                index: Reading::Known(index),
                utilization: unsupported,
                activity: activity.shared(),
                hidden_processes: Reading::Known(0),
                hidden_memory: Reading::Known(Bytes(12 << 20)),
                ..Device::default()
            }
        };
        let slices: Vec<Device> = (0..).zip(loads).map(slice).collect();
        node.devices.extend(slices);
        node
    }

    /// Returns the states of all devices of a node.
    fn states(node: &Node) -> Vec<LastState> {
        let devices = node.devices.iter().enumerate();
        devices.map(|(position, device)| LastState::of(node, position, device)).collect()
    }

    #[test]
    fn a_device_that_is_not_free_has_a_reason() {
        type Change = fn(&mut Node);
        let cases: [(Change, Option<&str>); 9] = [
            (|_| (), None),
            (|node| node.devices[0].utilization = Reading::checked(Percent::new(70.0)), None),
            (|node| node.devices[0].fault = Some(DeviceFault::Lost), None),
            (|node| node.devices[0].fault = Some(DeviceFault::NoPermission), Some("not_readable")),
            (|node| node.devices[0].utilization = Reading::default(), Some("load_unknown")),
            (|node| node.devices[0].hidden_processes = Reading::Known(2), Some("hidden_processes")),
            (
                |node| node.devices[0].memory_used = Reading::Unknown(Reason::DriverError),
                Some("memory_unknown"),
            ),
            (
                |node| {
                    node.devices[0].hidden_processes = Reading::Known(0);
                    node.devices[0].hidden_memory = Reading::Known(Bytes(9 << 30));
                },
                Some("memory_without_process"),
            ),
            (
                |node| {
                    let details = DeviceDetails {
                        reports_users: Reading::Unknown(Reason::NoPermission),
                        ..DeviceDetails::default()
                    };
                    node.devices[0].details = details.shared();
                },
                Some("users_unknown"),
            ),
        ];
        for (change, expected) in cases {
            let mut node = node(Some(0.0), None);
            node.mark_sampled(&Source::host(), Timestamp::default());
            node.device_sources = [Source::host()].into();
            change(&mut node);
            let found = StateReason::last_known(&node, 0).map(StateReason::id);
            assert_eq!(found, expected, "{:?}", states(&node));
        }
    }

    #[test]
    fn a_slice_has_a_state_of_its_own() {
        use LastState::{Busy, Faulty, Free, IdleHeld, Unknown};
        let mut node = sliced_node(&[Some(63.0), Some(0.0), Some(4.0)]);
        let use_of = |device: &str| DeviceUse {
            device: device.into(),
            memory: Reading::Known(Bytes(1 << 30)),
            ..DeviceUse::default()
        };
        node.uses = [use_of("MIG-0"), use_of("MIG-2")].into();
        assert_eq!(states(&node)[1..], [Busy, Free, IdleHeld]);
        // It is not known on which slice this process is.
        node.uses = [use_of("GPU-1")].into();
        assert_eq!(states(&node)[1..], [Busy, Unknown, Unknown]);
        // A slice is no sounder than its device.
        node.uses = [].into();
        node.health.forget();
        node.devices[0].details =
            DeviceDetails { remapping_failed: Reading::Known(true), ..DeviceDetails::default() }
                .shared();
        assert_eq!(states(&node), [Faulty; 4]);
    }

    #[test]
    fn a_slice_whose_load_cannot_be_measured_is_free_if_its_processes_and_its_memory_say_so() {
        let state = |change: &dyn Fn(&mut Node)| {
            let mut node = sliced_node(&[None]);
            change(&mut node);
            states(&node)[1]
        };
        assert_eq!(state(&|_| ()), LastState::Free);
        let in_use: &dyn Fn(&mut Node) = &|node| {
            node.uses = [DeviceUse { device: "MIG-0".into(), ..DeviceUse::default() }].into();
        };
        assert_eq!(state(in_use), LastState::InUse);
        let not_free: [&dyn Fn(&mut Node); 4] = [
            &|node| node.devices[1].hidden_memory = Reading::Known(Bytes(10 << 30)),
            &|node| node.devices[1].hidden_memory = Reading::default(),
            &|node| node.devices[1].hidden_processes = Reading::Known(1),
            &|node| {
                let graphics_active = Reading::Unknown(Reason::DriverError);
                let activity = DeviceActivity { graphics_active, ..DeviceActivity::default() };
                node.devices[1].activity = activity.shared();
            },
        ];
        for change in not_free {
            assert_eq!(state(change), LastState::Unknown);
        }
    }

    #[test]
    fn a_device_in_mig_mode_without_slices_is_unavailable() {
        let mut node = sliced_node(&[]);
        assert_eq!(states(&node), [LastState::Unavailable]);
        assert_eq!(node.units().count(), 1);
        node.health.forget();
        node.devices[0].fault = Some(DeviceFault::Lost);
        assert_eq!(states(&node), [LastState::Faulty]);
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
        let counts_of = |hides_jobs, devices, allocated: Option<u32>, starts_at: i64| {
            let mut node = node.clone();
            let state = NodeState::Mixed;
            let scheduler =
                SchedulerNode { state, is_responding: true, allocated, ..Default::default() };
            node.scheduler = Some(Arc::new(scheduler));
            let allocations = [Allocation { node: node.name.clone(), devices }].into();
            let job = Job { allocations, starts_at: Some(at(starts_at)), ..Job::example("7") };
            let nodes = Arc::new(SchedulerNodes { at: Some(at(5)), ..SchedulerNodes::default() });
            let requested = RequestedJobs::All;
            let list =
                JobList { jobs: vec![job], nodes, requested, hides_jobs, ..JobList::default() };
            let fleet = Fleet::new([Arc::new(node)].into()).with_jobs(Some(Arc::new(list)));
            let totals = Totals::of(&fleet, at(0));
            (totals.free, totals.unknown_devices)
        };
        let counts =
            |devices, allocated, starts_at| counts_of(Some(false), devices, allocated, starts_at);
        // A job that is not listed, or none yet, may have it.
        assert_eq!(counts_of(None, DeviceAllocation::None, None, 1), (0, 1));
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
        let second = Device { uuid: "GPU-2".into(), ..node.devices[0].clone() };
        node.devices.push(second);
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
            LastState::of(&node, 0, &node.devices[0])
        };
        assert_eq!(state(NodeState::Idle, 0.0, None), LastState::Free);
        assert_eq!(state(NodeState::Drained, 0.0, None), LastState::Unavailable);
        assert_eq!(state(NodeState::Reserved, 0.0, None), LastState::Unavailable);
        assert_eq!(state(NodeState::Draining, 90.0, Some(900)), LastState::Busy);
        assert_eq!(state(NodeState::Draining, 0.0, Some(900)), LastState::IdleHeld);
    }
}
