//! Sums and means over fresh nodes. Only device counts cover all nodes.

use crate::Fleet;
use crate::headline::{DeviceState, NodeCount};
use crate::idle::LastState;
use crate::node::Node;
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Device, Percent, Watts};

/// Totals over a group of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Nodes in the group.
    pub nodes: usize,
    /// Fresh nodes: the only ones in the following fields, except `devices` and `stale_devices`.
    pub fresh: usize,
    /// Nodes that are connected and stale.
    pub stale: usize,
    /// Nodes that are not connected.
    pub down: usize,
    /// Nodes that have not sent a sample yet, so that their devices are unknown and in none of the counts.
    pub unseen: usize,
    /// Nodes that do not let gtop in or are powered off, known from the scheduler alone.
    pub reported: usize,
    /// All known devices, each in exactly one of the eight counts that follow; slices count instead of what they are cut
    /// from.
    pub devices: usize,
    /// Those that are no slices: the cards and chips that the machines have.
    pub physical_devices: usize,
    /// Devices at 5 % utilization or more.
    pub busy: usize,
    /// Devices that are allocated or in use, and idle.
    pub idle_held: usize,
    /// Devices that are not in use, and idle.
    pub free: usize,
    /// The most of them on one node.
    pub max_free: usize,
    /// Devices for which the driver reports a fault.
    pub faulty: usize,
    /// Devices of nodes that are not fresh.
    pub stale_devices: usize,
    /// Devices that are allocated or in use, and how busy they are is not known.
    pub in_use: usize,
    /// Devices not known to be busy, idle-held, in use or free.
    pub unknown_devices: usize,
    /// Devices that nobody can be given: unused ones of nodes to which the scheduler gives no jobs, such as drained ones,
    /// and those in MIG mode without slices.
    pub unavailable: usize,
    /// Mean [load](Device::load) of the devices that report it. What follows is of physical devices, or of those slices of
    /// them alone that are included.
    pub utilization: Option<Percent>,
    /// Number of devices, and of slices that are not all of theirs, in `utilization`.
    pub utilization_devices: usize,
    /// Memory in use on devices that report it.
    pub memory_used: Option<Bytes>,
    /// Total memory of those devices.
    pub memory_total: Option<Bytes>,
    /// Memory in use and in total of the host, if devices of one node use it instead of their own.
    pub host_memory: Option<(Bytes, Bytes)>,
    /// Power drawn by devices that report it.
    pub power: Option<Watts>,
    /// Power limit of those devices, if all report one.
    pub power_limit: Option<Watts>,
}

impl Totals {
    /// Returns the totals of a fleet, each machine counted once.
    pub fn of(fleet: &Fleet, now: Timestamp) -> Self {
        Self::of_nodes(fleet.machines().map(|node| &**node), now)
    }

    /// Returns the totals of some nodes.
    pub fn of_nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>, now: Timestamp) -> Self {
        Self::of_node_parts(nodes.into_iter().map(|node| (node, None)), now)
    }

    /// Returns the totals of parts of nodes: the devices at these [positions](Node::device_positions), or all.
    pub fn of_node_parts<'a>(
        parts: impl IntoIterator<Item = (&'a Node, Option<&'a [usize]>)>,
        now: Timestamp,
    ) -> Self {
        let mut totals = Self::default();
        let mut sums = Sums::default();
        for (node, positions) in parts {
            let free = totals.free;
            totals.add_node((node, positions), now, &mut sums);
            totals.max_free = totals.max_free.max(totals.free - free);
        }
        sums.finish(&mut totals);
        totals
    }

    /// Returns the totals of the devices at these positions of one node, or all.
    pub fn of_node_part(node: &Node, positions: Option<&[usize]>, now: Timestamp) -> Self {
        Self::of_node_parts([(node, positions)], now)
    }

    /// Returns the known devices that cannot be used: faulty, stale, or free on nodes that take no jobs.
    pub const fn unusable(&self) -> usize {
        self.faulty + self.stale_devices + self.unavailable
    }

    /// Returns the number of busy devices, see `Self::known_count`. Those in use may be busy or idle.
    pub const fn known_busy(&self) -> Option<usize> {
        self.known_count(self.busy, self.in_use)
    }

    /// Returns the number of idle-held devices, see `Self::known_count`.
    pub const fn known_idle_held(&self) -> Option<usize> {
        self.known_count(self.idle_held, self.in_use)
    }

    /// Returns the number of all devices; `None` if there are none on nodes that were not all seen.
    pub const fn known_devices(&self) -> Option<usize> {
        self.known_count(self.devices, 0)
    }

    /// Returns the number of devices whose load or users are unknown; `None` as [`Self::known_devices`] does.
    pub const fn known_unknown(&self) -> Option<usize> {
        let unknown = self.unknown_devices + self.in_use;
        if self.known_devices().is_some() { Some(unknown) } else { None }
    }

    /// Returns a count of devices; `None` if it is zero and all devices may be in it: the unknown ones, and `others`.
    /// Without devices, it is zero if all nodes have been seen.
    const fn known_count(&self, count: usize, others: usize) -> Option<usize> {
        let unknown = self.unknown_devices + self.stale_devices + others;
        let is_known = if self.devices == 0 { self.unseen == 0 } else { self.devices > unknown };
        if count > 0 || is_known { Some(count) } else { None }
    }

    /// Returns the number of free devices, see `Self::known_count`.
    pub const fn known_free(&self) -> Option<usize> {
        self.known_count(self.free, 0)
    }

    /// Returns the totals of one node's devices as last known, fresh or not.
    pub fn of_devices(node: &Node) -> Self {
        Self::of_part(node, None)
    }

    /// Returns the totals of the devices at these positions of a node, or all, as last known.
    pub fn of_part(node: &Node, positions: Option<&[usize]>) -> Self {
        let mut totals = Self { nodes: 1, ..Self::default() };
        let mut sums = Sums::default();
        totals.add(node, positions, &mut sums);
        totals.max_free = totals.free;
        totals.host_memory = sums.host_memory;
        sums.finish(&mut totals);
        totals
    }

    /// Returns the memory in use and in total, and whether it is the host's, as is shown for one node.
    pub fn shown_memory(&self) -> ((Option<Bytes>, Option<Bytes>), bool) {
        match (self.memory_total, self.host_memory) {
            (None, Some((used, total))) => ((Some(used), Some(total)), true),
            (_, _) => ((self.memory_used, self.memory_total), false),
        }
    }

    /// Returns how many devices count as this.
    pub const fn devices_counted_as(&mut self, count: DeviceState) -> &mut usize {
        match count {
            DeviceState::Busy => &mut self.busy,
            DeviceState::IdleHeld => &mut self.idle_held,
            DeviceState::Free => &mut self.free,
            DeviceState::Faulty => &mut self.faulty,
            DeviceState::Stale => &mut self.stale_devices,
            DeviceState::Unavailable => &mut self.unavailable,
            DeviceState::Unknown => &mut self.unknown_devices,
            DeviceState::InUse => &mut self.in_use,
        }
    }

    fn add_node(
        &mut self,
        (node, positions): (&Node, Option<&[usize]>),
        now: Timestamp,
        sums: &mut Sums,
    ) {
        self.nodes += 1;
        let count = NodeCount::of(node, now);
        match count {
            NodeCount::Fresh => self.fresh += 1,
            NodeCount::Stale => self.stale += 1,
            NodeCount::Down => self.down += 1,
            NodeCount::Connecting => {}
            NodeCount::Reported => self.reported += 1,
        }
        if let Some(reported) = node.reported() {
            for (position, (count, devices)) in
                DeviceState::of_reported(reported).into_iter().enumerate()
            {
                if positions.is_none_or(|positions| positions.contains(&position)) {
                    self.devices += devices;
                    self.physical_devices += devices;
                    *self.devices_counted_as(count) += devices;
                }
            }
        } else if count == NodeCount::Fresh {
            self.add(node, positions, sums);
        } else {
            let devices = units(node, positions).count();
            self.devices += devices;
            self.physical_devices += included_devices(node, positions).len();
            *self.devices_counted_as(DeviceState::Stale) += devices;
            self.unseen += usize::from(node.is_unseen());
        }
    }

    fn add(&mut self, node: &Node, positions: Option<&[usize]>, sums: &mut Sums) {
        for (index, device) in units(node, positions) {
            self.devices += 1;
            let state = LastState::of(node, index, device);
            *self.devices_counted_as(state.into()) += 1;
        }
        let included = included_devices(node, positions);
        self.physical_devices += included.len();
        for (device, slices) in &included {
            if device.fault.is_none() {
                sums.add_device(node, device, slices);
            }
        }
    }
}

/// Returns what of a node a mean of its devices at these positions, or of all, is made of, each with the part that it is of
/// a device: devices with the value, if all their slices are included, and else those slices.
pub fn measured_parts<'a>(
    node: &'a Node,
    positions: Option<&[usize]>,
    has_value: impl Fn(&Device) -> bool,
) -> Vec<(&'a Device, f32)> {
    let included = included_devices(node, positions);
    let parts = included
        .iter()
        .flat_map(|(device, slices)| parts_of(node, device, slices, has_value(device)));
    parts.collect()
}

/// Returns a device if all its slices are included, or else these.
fn parts_of<'a>(
    node: &Node,
    device: &'a Device,
    slices: &[&'a Device],
    has_value: bool,
) -> impl Iterator<Item = (&'a Device, f32)> {
    let is_whole = slices.is_empty() || (has_value && slices.len() == node.slices(device).count());
    let (whole, parts) = if is_whole { (Some((device, 1.0)), &[][..]) } else { (None, slices) };
    whole.into_iter().chain(parts.iter().map(|slice| (*slice, node.part_of_device(slice))))
}

/// Returns the units at these positions of a node, or all.
fn units<'a>(
    node: &'a Node,
    positions: Option<&[usize]>,
) -> impl Iterator<Item = (usize, &'a Device)> {
    node.units().filter(move |(index, _)| positions.is_none_or(|all| all.contains(index)))
}

/// Returns the physical devices of which a unit is at these positions of a node, or all, each with these of its slices.
fn included_devices<'a>(
    node: &'a Node,
    positions: Option<&[usize]>,
) -> Vec<(&'a Device, Vec<&'a Device>)> {
    let mut devices: Vec<(&Device, Vec<&Device>)> = Vec::new();
    for (_, unit) in units(node, positions) {
        let whole = node.whole(unit);
        if std::ptr::eq(whole, unit) {
            devices.push((unit, Vec::new()));
            continue;
        }
        match devices.iter_mut().find(|(known, _)| std::ptr::eq(*known, whole)) {
            Some((_, slices)) => slices.push(unit),
            None => devices.push((whole, vec![unit])),
        }
    }
    devices
}

#[derive(Default)]
struct Sums {
    utilization: f64,
    /// What of devices is in it: of slices, their parts.
    utilization_weight: f64,
    utilization_devices: usize,
    memory: Option<(u64, u64)>,
    /// All integrated devices of a node have the same.
    host_memory: Option<(Bytes, Bytes)>,
    power: Option<f32>,
    /// `None` once a device that reports its power has no limit.
    power_limit: Option<f32>,
}

impl Sums {
    /// Adds a device, or some of its slices. What the driver does not report for a device is that of its slices.
    fn add_device(&mut self, node: &Node, device: &Device, slices: &[&Device]) {
        let has_memory = device.memory_used.zip(device.memory_total).get().is_some();
        for (unit, part) in parts_of(node, device, slices, device.load().get().is_some()) {
            self.add_load(unit, part);
        }
        if device.has_host_memory {
            self.host_memory = device.memory_used.get().zip(device.memory_total.get());
        }
        for (unit, _) in parts_of(node, device, slices, has_memory) {
            self.add_memory(unit);
        }
        for (_, part) in parts_of(node, device, slices, true) {
            self.add_power(device, part);
        }
    }

    fn add_load(&mut self, unit: &Device, part: f32) {
        if let Some(share) = unit.load().get() {
            self.utilization += f64::from(share.get() * part);
            self.utilization_weight += f64::from(part);
            self.utilization_devices += 1;
        }
    }

    fn add_memory(&mut self, unit: &Device) {
        if let Some((used, total)) = unit.own_memory() {
            let (all_used, all) = self.memory.unwrap_or_default();
            self.memory = Some((all_used.saturating_add(used.0), all.saturating_add(total.0)));
        }
    }

    fn add_power(&mut self, device: &Device, part: f32) {
        if let Some(drawn) = device.power.get() {
            let before = if self.power.is_none() { Some(0.0) } else { self.power_limit };
            let limit = device.power_limit.get().map(|limit| limit.get() * part);
            self.power_limit = before.zip(limit).map(|(before, limit)| before + limit);
            self.power = Some(self.power.unwrap_or_default() + drawn.get() * part);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a mean of shares")]
    fn finish(self, totals: &mut Totals) {
        totals.utilization_devices = self.utilization_devices;
        if self.utilization_weight > 0.0 {
            totals.utilization = Percent::new((self.utilization / self.utilization_weight) as f32);
        }
        if let Some((used, total)) = self.memory {
            (totals.memory_used, totals.memory_total) = (Some(Bytes(used)), Some(Bytes(total)));
        }
        // A fleet may draw more than the maximum of one device, so add without that check.
        totals.power = self.power.and_then(Watts::total);
        totals.power_limit = self.power_limit.and_then(Watts::total);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use gtop_model::{
        DeviceActivity, DeviceFault, Fault, FaultKind, Link, NodeName, NodeState, Reading, Reason,
        SchedulerNode, Source, TpuDetails,
    };

    #[test]
    fn a_chip_with_unknown_users_is_not_counted_as_free() {
        let chip = |is_held| Device {
            uuid: "tpu-1".into(),
            tpu: Some(Arc::new(TpuDetails { is_held, ..TpuDetails::default() })),
            ..Device::default()
        };
        let counts = |device: Device| {
            let mut node = Node::new(NodeName::new("tpu01").unwrap(), Duration::ZERO);
            node.devices = vec![device].into();
            let totals = Totals::of_devices(&node);
            assert_eq!(totals.idle_held, 0);
            (totals.devices, totals.in_use, totals.free, totals.unknown_devices)
        };
        assert_eq!(counts(chip(Reading::Known(true))), (1, 1, 0, 0));
        assert_eq!(counts(chip(Reading::Known(false))), (1, 0, 1, 0));
        assert_eq!(counts(chip(Reading::Unknown(Reason::NoPermission))), (1, 0, 0, 1));
        // A device of unknown utilization is not free; a sleeping device is.
        let load = |utilization| Device { utilization, ..Device::default() };
        assert_eq!(counts(Device::default()), (1, 0, 0, 1));
        assert_eq!(counts(load(Reading::Unknown(Reason::DriverError))), (1, 0, 0, 1));
        assert_eq!(counts(load(Reading::Known(Percent::new(0.0).unwrap()))), (1, 0, 1, 0));
        assert_eq!(counts(load(Reading::Unknown(Reason::Asleep))), (1, 0, 1, 0));
    }

    #[test]
    fn a_node_that_lets_nobody_in_counts_as_the_scheduler_says() {
        let node = |state, devices, allocated, is_old| {
            let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
            node.link = Link::Down { fault: Fault::new(FaultKind::NoJob, ""), retry_at: None };
            node.scheduler = Some(Arc::new(SchedulerNode {
                state,
                is_responding: true,
                devices,
                allocated,
                is_old,
                ..SchedulerNode::default()
            }));
            let all = Totals::of(&Fleet::new([Arc::new(node)].into()), Timestamp::default());
            assert_eq!((all.nodes, all.reported, all.down), (1, 1, 0));
            assert_eq!(all.free + all.in_use + all.unknown_devices + all.unavailable, all.devices);
            (all.free, all.in_use, all.unknown_devices, all.unavailable)
        };
        assert_eq!(node(NodeState::Mixed, Some(8), Some(3), false), (5, 3, 0, 0));
        assert_eq!(node(NodeState::Draining, Some(8), Some(3), false), (0, 3, 0, 5));
        assert_eq!(node(NodeState::Idle, Some(8), None, false), (0, 0, 8, 0));
        assert_eq!(node(NodeState::Idle, None, Some(3), false), (0, 0, 0, 0));
        assert_eq!(node(NodeState::Idle, Some(8), Some(9), false), (0, 8, 0, 0));
        // Jobs may have come since an old answer.
        assert_eq!(node(NodeState::Mixed, Some(8), Some(3), true), (0, 0, 8, 0));
    }

    #[test]
    fn each_device_is_counted_once_also_on_stale_nodes() {
        let start = Timestamp::from_micros(1_000_000_000);
        let device = |uuid: &str, share: Option<f32>, fault| Device {
            uuid: uuid.into(),
            utilization: share
                .map_or_else(Reading::default, |share| Reading::checked(Percent::new(share))),
            fault,
            ..Device::default()
        };
        let node = |name: &str, link| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            node.link = link;
            node.mark_sampled(&Source::host(), start);
            node.devices = vec![
                device("busy", Some(50.0), None),
                device("free", Some(0.0), None),
                device("broken", Some(0.0), Some(DeviceFault::Lost)),
                device("unknown", None, None),
                Device { parent: Some("unknown".into()), ..device("slice", None, None) },
            ]
            .into();
            Arc::new(node)
        };
        let fault = Fault::new(FaultKind::Silent, "");
        let down = Link::Down { fault, retry_at: None };
        let fleet = Fleet::new(vec![node("a", Link::Up), node("b", down)].into());
        let counts = |seconds| {
            let now = start.plus(Duration::from_secs(seconds));
            let all = Totals::of(&fleet, now);
            let parts = [
                all.busy,
                all.idle_held,
                all.free,
                all.faulty,
                all.stale_devices,
                all.unknown_devices,
            ];
            assert_eq!(parts.iter().sum::<usize>(), all.devices);
            (all.devices, parts)
        };
        assert_eq!(counts(0), (8, [1, 0, 1, 1, 4, 1]));
        assert_eq!(counts(600), (8, [0, 0, 0, 0, 8, 0]));
        assert_eq!(Totals::of(&fleet, start).unseen, 0);
    }

    #[test]
    fn slices_count_instead_of_their_device_and_sums_are_of_devices() {
        let bytes = |bytes| Reading::Known(Bytes(bytes));
        let load = |load| DeviceActivity {
            graphics_active: Reading::checked(Percent::new(load)),
            ..DeviceActivity::default()
        };
        let slice = |uuid: &str, percent| Device {
            uuid: uuid.into(),
            parent: Some("GPU-1".into()),
            activity: load(percent).shared(),
            memory_total: bytes(40),
            memory_used: bytes(if percent > 0.0 { 30 } else { 1 }),
            ..Device::default()
        };
        let whole = Device {
            uuid: "GPU-1".into(),
            activity: load(31.0).shared(),
            memory_total: bytes(100),
            memory_used: bytes(35),
            power: Reading::checked(Watts::new(300.0)),
            ..Device::default()
        };
        let other = Device {
            uuid: "GPU-2".into(),
            utilization: Reading::checked(Percent::new(91.0)),
            memory_total: bytes(100),
            memory_used: bytes(5),
            power: Reading::checked(Watts::new(500.0)),
            ..Device::default()
        };
        let mut node = Node::new(NodeName::new("a").unwrap(), Duration::ZERO);
        node.devices = vec![whole, slice("MIG-0", 60.0), slice("MIG-1", 0.0), other].into();
        let counts =
            |totals: &Totals| (totals.devices, totals.physical_devices, totals.busy, totals.free);
        let sums = |totals: &Totals| {
            let bytes = totals.memory_used.zip(totals.memory_total);
            let numbers = totals.utilization.map(Percent::get).zip(totals.power.map(Watts::get));
            (numbers, bytes.map(|(used, total)| (used.0, total.0)))
        };
        let all = Totals::of_devices(&node);
        assert_eq!(counts(&all), (3, 2, 2, 1));
        // Memory and power are counted once.
        assert_eq!(sums(&all), (Some((61.0, 800.0)), Some((40, 200))));
        let part = |positions: &[usize]| Totals::of_part(&node, Some(positions));
        assert_eq!(counts(&part(&[1, 3])), (2, 2, 2, 0));
        // A slice weighs half as much as a device, and has half of its power.
        let load = (60.0 * 0.5 + 91.0) / 1.5;
        assert_eq!(sums(&part(&[1, 3])), (Some((load, 650.0)), Some((35, 140))));
        assert_eq!(sums(&part(&[1, 2])), (Some((31.0, 300.0)), Some((35, 100))));
        assert_eq!(counts(&part(&[0])), (0, 0, 0, 0));
        // What the driver does not tell of a device is that of its slices.
        (node.devices[0].activity, node.devices[0].memory_used) = (None, Reading::default());
        let load = f32::midpoint(f32::midpoint(60.0, 0.0), 91.0);
        assert_eq!(sums(&Totals::of_devices(&node)), (Some((load, 800.0)), Some((36, 180))));
    }

    #[test]
    fn power_is_known_without_a_limit() {
        let watts = |watts: Option<f32>| Reading::checked(watts.and_then(Watts::new));
        let totals = |devices: &[(Option<f32>, Option<f32>)]| {
            let mut node = Node::new(NodeName::new("a").unwrap(), Duration::ZERO);
            let device = |(power, limit): &(Option<f32>, Option<f32>)| Device {
                power: watts(*power),
                power_limit: watts(*limit),
                ..Device::default()
            };
            node.devices = devices.iter().map(device).collect();
            let totals = Totals::of_devices(&node);
            (totals.power.map(Watts::get), totals.power_limit.map(Watts::get))
        };
        assert_eq!(
            totals(&[(Some(90.0), Some(100.0)), (None, Some(50.0))]),
            (Some(90.0), Some(100.0))
        );
        assert_eq!(totals(&[(Some(90.0), None)]), (Some(90.0), None));
        assert_eq!(totals(&[(Some(1.0), Some(2.0)), (Some(90.0), None)]), (Some(91.0), None));
        assert_eq!(totals(&[(Some(90.0), None), (Some(1.0), Some(2.0))]), (Some(91.0), None));
        assert_eq!(totals(&[(None, None)]), (None, None));
    }

    #[test]
    fn the_max_free_devices_are_those_of_one_node() {
        let now = Timestamp::default();
        let node = |name: &str, free: usize| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            node.link = Link::Up;
            node.mark_sampled(&Source::host(), now);
            let share = |number: usize| if number < free { 0.0 } else { 90.0 };
            let device = |number| Device {
                uuid: format!("{name}-{number}").into(),
                utilization: Reading::checked(Percent::new(share(number))),
                ..Device::default()
            };
            node.devices = (0..8).map(device).collect();
            Arc::new(node)
        };
        let most = |counts: &[(&str, usize)]| {
            let nodes: Vec<_> = counts.iter().map(|(name, free)| node(name, *free)).collect();
            let totals = Totals::of(&Fleet::new(nodes.into()), now);
            (totals.free, totals.max_free)
        };
        assert_eq!(most(&[("a", 3), ("b", 5), ("c", 4)]), (12, 5));
        assert_eq!(most(&[("a", 0), ("b", 0)]), (0, 0));
        assert_eq!(most(&[("a", 2), ("b", 8)]), (10, 8));
    }

    #[test]
    fn a_node_without_a_sample_is_unseen_until_its_devices_are_known() {
        let mut node = Node::new(NodeName::new("a").unwrap(), Duration::ZERO);
        let unseen = |node: &Node| {
            let nodes = [Arc::new(node.clone())];
            Totals::of(&Fleet::new(nodes.into()), Timestamp::default()).unseen
        };
        assert_eq!(unseen(&node), 1);
        let fault = Fault::new(FaultKind::Refused, "");
        node.link = Link::Down { fault, retry_at: None };
        assert_eq!(unseen(&node), 1);
        node.mark_sampled(&Source::host(), Timestamp::default());
        assert_eq!(unseen(&node), 0);
    }
}
