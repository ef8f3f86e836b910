//! Applies a backend's devices and their processes to a node: missing devices are removed, lost devices keep
//! their identity, partial readings keep the remaining values.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::charted::Metric;
use crate::lasting_update::update_lasting;
use crate::missing::{MissingDevices, device_event, is_told_gone, keep_indices};
use crate::node::Node;
use crate::rates::update_rates;
use gtop_local::time::{ClockOffset, NodeTime, Timestamp};
use gtop_model::{
    BackendReading, Bytes, Device, DeviceDetails, DeviceFault, DeviceUse, DevicesReading, Event,
    EventKind, Reading, Reason, RecoveryAction, Source, UsesReading,
};

/// Maximum number of devices of a node, over all its sources.
const MAX_DEVICES: usize = 1024;

/// Applies the readings of one backend.
pub(super) fn apply_backend(
    node: &mut Node,
    missing: &mut MissingDevices,
    backend: BackendReading,
    clock: ClockOffset,
) {
    if let Some(at) = backend.slow_at {
        node.mark_sampled(&backend.source.slow(), at);
    }
    if let Some(devices) = backend.devices {
        node.mark_sampled(&backend.source, devices.at);
        apply_devices(node, missing, &backend.source, devices, clock);
    }
    if let Some(uses) = backend.uses {
        node.mark_sampled(&backend.source.processes(), uses.at);
        apply_uses(node, &backend.source, uses);
    }
}

fn apply_devices(
    node: &mut Node,
    missing: &mut MissingDevices,
    source: &Source,
    reading: DevicesReading,
    clock: ClockOffset,
) {
    let (sampled_at, at) = (reading.at, clock.node_time(reading.at));
    let before = health_states(node, source);
    let mut has_identities =
        reading.list.iter().any(|newer| newer.name.known().is_some() || newer.statics.is_some());
    let is_none_missing = missing.on_list(node, source);
    if is_none_missing && has_same_devices(node, source, &reading.list) {
        let mut devices = reading.list;
        for (device, known) in devices.iter_mut().zip(&node.devices) {
            device.complete_from(known);
            update_rates(device, at);
        }
        node.devices = devices.into();
    } else {
        has_identities = true;
        rebuild_devices(node, missing, source, &reading, at);
        apply_xids(node);
    }
    let changed = node
        .devices
        .iter()
        .filter_map(|device| health_event(*before.get(&device.uuid)?, device, source, sampled_at));
    for event in changed.collect::<Vec<Event>>() {
        node.record_event(event);
    }
    for device in &mut node.devices {
        device.reject_impossible_memory();
    }
    if has_identities {
        // Integrated devices have the host's memory.
        for device in node.devices.iter_mut().filter(|device| device.fault.is_none()) {
            device.has_host_memory |= device.parent.is_none() && device.is_integrated();
        }
    }
    apply_host_memory(node);
    update_lasting(node, source, sampled_at);
    record_charts(node, source, sampled_at);
}

/// Records what is charted of the devices of a source: each metric of all of them in turn, so that a limit on series costs
/// a device its rarer ones.
fn record_charts(node: &mut Node, source: &Source, at: Timestamp) {
    let devices = node.devices.iter().zip(&*node.device_sources);
    let devices = devices.filter(|(device, owner)| *owner == source && device.fault.is_none());
    for metric in Metric::OF_DEVICES {
        for (device, _) in devices.clone() {
            if let Some(share) = metric.of_device(device) {
                node.history.record(&device.uuid, metric, at, share);
            }
        }
    }
}

/// The action that the driver recommends for a device, and whether the device has a fault.
type HealthState = (Option<RecoveryAction>, bool);

/// Returns the health of the devices of a backend that does not report events itself.
fn health_states(node: &Node, source: &Source) -> BTreeMap<Arc<str>, HealthState> {
    if source.as_str() != "nvidia-smi" {
        return BTreeMap::new();
    }
    let devices = node.devices.iter();
    devices.map(|device| (Arc::clone(&device.uuid), health_state(device))).collect()
}

/// Returns the event of a device whose health was another one before a sample.
fn health_event(
    (action, is_faulty): HealthState,
    device: &Device,
    source: &Source,
    at: Timestamp,
) -> Option<Event> {
    let newer = health_state(device).0;
    let (kind, code) = match (&device.fault, action.zip(newer)) {
        (Some(DeviceFault::Lost), _) if !is_faulty => (EventKind::Lost, None),
        (Some(DeviceFault::NeedsReset), _) if !is_faulty => (EventKind::NeedsReset, None),
        (_, Some((before, newer))) if before != newer => (EventKind::Recovery, newer.number()),
        _ => return None,
    };
    Some(Event { code, ..device_event(source, device, at, kind) })
}

fn health_state(device: &Device) -> HealthState {
    let action = device.details.as_ref().and_then(|details| details.recovery.get());
    (action, device.fault.is_some())
}

/// Shows the host's memory as that of integrated devices for which the driver reports none.
fn apply_host_memory(node: &mut Node) {
    let host = &node.host.fast;
    let (total, free) = (host.memory_total, host.memory_available);
    let used = total.zip(free).map(|(total, free)| Bytes(total.0.saturating_sub(free.0)));
    let sound = node.devices.iter_mut().filter(|device| device.fault.is_none());
    for device in sound.filter(|device| device.has_host_memory) {
        // The driver's own numbers, of a part of it, are kept.
        let is_host_memory = match device.memory_total {
            Reading::Known(known) => total.get() == Some(known),
            Reading::Unknown(reason) => reason != Reason::NotSampled,
        };
        if is_host_memory {
            (device.memory_total, device.memory_free, device.memory_used) = (total, free, used);
        }
    }
}

/// Returns true if the devices are the same as before, in the same order and none lost: the usual case.
fn has_same_devices(node: &Node, source: &Source, list: &[Device]) -> bool {
    node.devices.len() == list.len()
        && node.device_sources.iter().all(|owner| owner == source)
        && node.devices.iter().zip(list).all(|(known, newer)| {
            known.uuid == newer.uuid
                && newer.fault.is_none()
                && (newer.index == known.index || newer.index == Reading::default())
                && (newer.parent == known.parent || newer.parent.is_none())
        })
}

/// Merges new devices with those of other sources, in order. Those that are not listed stay if they are gone; the history of
/// removed ones is dropped.
fn rebuild_devices(
    node: &mut Node,
    missing: &mut MissingDevices,
    source: &Source,
    reading: &DevicesReading,
    at: NodeTime,
) {
    let known = std::mem::take(&mut node.devices);
    let sources = std::mem::take(&mut node.device_sources);
    let known = known.iter().cloned().zip(sources.iter().cloned());
    // A device has one row, whichever source lists it.
    let (own_devices, mut merged): (Vec<_>, Vec<_>) = known.partition(|(device, owner)| {
        owner == source || reading.list.iter().any(|newer| newer.uuid == device.uuid)
    });
    let mut own_devices: Vec<Device> = own_devices.into_iter().map(|(device, _)| device).collect();
    let before_reboot = missing.take_before_reboot(source, &reading.list);
    let is_same_boot = before_reboot.is_empty();
    own_devices.extend(before_reboot);
    let indices = own_devices.iter().filter(|device| device.parent.is_none());
    let indices: BTreeMap<Arc<str>, u32> = indices
        .filter_map(|device| Some((Arc::clone(&device.uuid), device.index.get()?)))
        .collect();
    let mut devices: Vec<Device> = Vec::with_capacity(reading.list.len());
    for newer in reading.list.iter().cloned() {
        let before = own_devices
            .iter()
            .position(|known| is_same_device(known, &newer))
            .map(|index| own_devices.swap_remove(index));
        let was_gone = match &before {
            Some(before) => before.is_gone(),
            None => is_told_gone(node, &newer.uuid),
        };
        if was_gone && newer.fault.is_none() {
            node.record_event(device_event(source, &newer, reading.at, EventKind::Returned));
        }
        let mut device = merge_device(before, newer);
        update_rates(&mut device, at);
        devices.push(device);
    }
    let mut removed: Vec<Arc<str>> =
        own_devices.iter().map(|device| Arc::clone(&device.uuid)).collect();
    let were_gone = own_devices.iter().filter(|device| device.is_gone());
    let were_gone: Vec<Arc<str>> = were_gone.map(|device| Arc::clone(&device.uuid)).collect();
    let mut slots = indices.clone();
    let is_renumbered =
        is_same_boot && missing.take_slots(source, &reading.list, &own_devices, &mut slots);
    let (kept, replaced) = missing.keep(node, reading, own_devices, &indices);
    for (device, since) in &replaced {
        node.record_event(device_event(source, device, *since, EventKind::Gone));
    }
    for device in kept.iter().filter(|device| !were_gone.contains(&device.uuid)) {
        if let Some(since) = device.gone_since() {
            node.record_event(device_event(source, device, since, EventKind::Gone));
        }
    }
    if !kept.is_empty() || is_renumbered {
        devices.extend(kept);
        keep_indices(&mut devices, &slots);
    }
    merged.extend(devices.into_iter().map(|device| (device, source.clone())));
    merged.truncate(MAX_DEVICES);
    removed.retain(|uuid| !merged.iter().any(|(device, _)| device.uuid == *uuid));
    node.history.drop_series(&removed);
    node.lasting.forget(&removed);
    sort_devices(&mut merged);
    let (devices, sources): (Vec<_>, Vec<_>) = merged.into_iter().unzip();
    (node.devices, node.device_sources) = (devices.into(), sources.into());
}

/// Returns true if `newer` is the device `known`. A lost device may have no UUID; its PCI id or index then
/// decides.
fn is_same_device(known: &Device, newer: &Device) -> bool {
    if known.uuid == newer.uuid || known.parent.is_some() || newer.parent.is_some() {
        return known.uuid == newer.uuid;
    }
    let has_same_pci = newer.pci.known().is_some_and(|pci| known.has_pci_id(pci));
    let has_same_index = known.index == newer.index;
    if newer.fault.is_some() {
        let has_index_alone =
            newer.pci.known().is_none() && newer.uuid.starts_with(Device::INDEX_PREFIX);
        return has_same_pci || (has_index_alone && has_same_index);
    }
    // A device that had no UUID while it was faulty has one now.
    known.has_stand_in_identity()
        && (has_same_pci || (known.pci.known().is_none() && has_same_index))
}

fn merge_device(before: Option<Device>, mut newer: Device) -> Device {
    let Some(before) = before else { return newer };
    if newer.fault.is_some() {
        // The readings of a lost device no longer hold; its identity stays.
        let fault = newer.fault.take();
        let known = before.without_readings();
        if known.uuid != newer.uuid {
            return Device { fault, ..known };
        }
        let mut lost = newer.without_readings();
        lost.complete_from(&known);
        return Device { fault, ..lost };
    }
    if before.uuid == newer.uuid {
        newer.complete_from(&before);
    }
    newer
}

/// Gives faulty devices, which report nothing themselves, the last Xid that was reported of them.
pub(super) fn apply_xids(node: &mut Node) {
    let Node { devices, events, .. } = node;
    for device in devices.iter_mut().filter(|device| device.fault.is_some()) {
        let mut latest = events.iter().rev().map(|record| &record.event);
        let last = latest.find(|event| event.kind == EventKind::Xid && event.device == device.uuid);
        if let Some(code) = last.and_then(|event| u32::try_from(event.code?).ok()) {
            let xid = Reading::Known(code);
            device.details = DeviceDetails { xid, ..DeviceDetails::default() }.shared();
        }
    }
}

/// Sorts devices in the driver's order, each slice after its device.
fn sort_devices(devices: &mut [(Device, Source)]) {
    let parent_indices: BTreeMap<Arc<str>, u32> = devices
        .iter()
        .filter(|(device, _)| device.parent.is_none())
        .map(|(device, _)| (Arc::clone(&device.uuid), device.index.get().unwrap_or(u32::MAX)))
        .collect();
    devices.sort_by_cached_key(|(device, source)| {
        let own_index = device.index.get().unwrap_or(u32::MAX);
        let parent = device.parent.as_ref();
        let parent_index = parent
            .map_or(own_index, |parent| parent_indices.get(parent).copied().unwrap_or(u32::MAX));
        (source.clone(), parent_index, parent.cloned(), own_index, Arc::clone(&device.uuid))
    });
}

fn apply_uses(node: &mut Node, source: &Source, reading: UsesReading) {
    let Node { uses, devices, device_sources, .. } = node;
    for (device, owner) in devices.iter_mut().zip(device_sources.iter()) {
        if owner == source {
            device.nameless_processes =
                reading.nameless.get(&device.uuid).copied().unwrap_or_default();
        }
    }
    let has_others = device_sources.iter().any(|owner| owner != source);
    let (others, own_uses): (Vec<&DeviceUse>, Vec<&DeviceUse>) = uses.iter().partition(|used| {
        let mut owned = devices.iter().zip(device_sources.iter());
        has_others && owned.any(|(device, owner)| device.uuid == used.device && owner != source)
    });
    let by_key = LazyCell::new(|| {
        let keys = own_uses.iter().map(|used| ((&used.device, used.pid), *used));
        keys.collect::<BTreeMap<_, _>>()
    });
    let own = reading.list.into_iter().enumerate().map(|(index, mut newer)| {
        // Fast path: nearly always the same uses in the same order.
        let at_same_index = own_uses.get(index).copied();
        let known = at_same_index
            .filter(|known| known.pid == newer.pid && known.device == newer.device)
            .or_else(|| by_key.get(&(&newer.device, newer.pid)).copied());
        if let Some(known) = known {
            newer.complete_from(known);
        } else if let Some(device) = devices.iter().find(|device| device.uuid == newer.device) {
            newer.device = Arc::clone(&device.uuid);
        }
        newer
    });
    *uses = others.into_iter().cloned().chain(own).collect();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::NodeBuilder;
    use gtop_model::{
        BackendState, DeviceStatics, Hello, Link, NodeName, Percent, Sample, SourceFault,
        SourceFaultKind, UseKind, Vendor,
    };

    fn nvml() -> Source {
        Source::new("nvml")
    }

    /// Returns the hello of a probe with these backends, each with the reason for its absence.
    fn hello(backends: &[(&Source, Option<&str>)]) -> Hello {
        let state = |(source, absent): &(&Source, Option<&str>)| BackendState {
            source: (*source).clone(),
            absent: absent.map(Into::into),
            is_missing: absent.is_some(),
            fault: None,
            driver: None,
        };
        Hello {
            intervals: backends
                .iter()
                .map(|(source, _)| ((*source).clone(), Duration::from_secs(1)))
                .collect(),
            backends: backends.iter().map(state).collect(),
            ..Hello::default()
        }
    }

    fn builder(hello: Hello) -> NodeBuilder {
        let mut builder =
            NodeBuilder::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(60));
        builder.on_link(Link::Up);
        builder.on_hello(hello);
        builder
    }

    fn sample_with(source: &Source, uuid: &str, list: Vec<DeviceUse>) -> Sample {
        let at = Timestamp::from_micros(1_000_000);
        let device = Device { uuid: uuid.into(), ..Device::default() };
        Sample {
            backends: vec![BackendReading {
                source: source.clone(),
                slow_at: Some(at),
                devices: Some(DevicesReading { at, list: vec![device], is_cut_short: false }),
                uses: Some(UsesReading { at, list, nameless: BTreeMap::new() }),
            }],
            ..Sample::default()
        }
    }

    #[test]
    fn uses_of_one_backend_do_not_replace_those_of_another() {
        let amd = Source::new("amdgpu");
        let mut builder = builder(hello(&[(&nvml(), None), (&amd, None)]));
        let device_use =
            |device: &str, pid| DeviceUse { device: device.into(), pid, ..DeviceUse::default() };
        let mut uses_after = |sample| {
            builder.on_sample(sample);
            let node = builder.node();
            node.uses
                .iter()
                .map(|device_use| (device_use.device.to_string(), device_use.pid))
                .collect::<Vec<_>>()
        };
        let (a, b) = (("GPU-a".to_owned(), 7), ("GPU-b".to_owned(), 8));
        uses_after(sample_with(&nvml(), "GPU-a", vec![device_use("GPU-a", 7)]));
        assert_eq!(
            uses_after(sample_with(&amd, "GPU-b", vec![device_use("GPU-b", 8)])),
            [a, b.clone()]
        );
        assert_eq!(uses_after(sample_with(&nvml(), "GPU-a", vec![])), [b]);
        assert_eq!(uses_after(sample_with(&amd, "GPU-b", vec![])), []);
    }

    #[test]
    fn a_use_keeps_the_values_that_the_next_list_leaves_out() {
        let mut builder = builder(hello(&[(&nvml(), None)]));
        let first = DeviceUse {
            device: "GPU-a".into(),
            pid: 7,
            kind: Reading::Known(UseKind::Compute),
            sm: Reading::checked(Percent::new(5.0)),
            ..DeviceUse::default()
        };
        let next = DeviceUse {
            device: "GPU-a".into(),
            pid: 7,
            sm: Reading::checked(Percent::new(9.0)),
            ..DeviceUse::default()
        };
        builder.on_sample(sample_with(&nvml(), "GPU-a", vec![first.clone()]));
        builder.on_sample(sample_with(&nvml(), "GPU-a", vec![next.clone()]));
        assert_eq!(*builder.node().uses, [DeviceUse { sm: next.sm, ..first }]);
        builder.on_sample(sample_with(&nvml(), "GPU-a", vec![]));
        builder.on_sample(sample_with(&nvml(), "GPU-a", vec![next.clone()]));
        assert_eq!(*builder.node().uses, [next]);
    }

    #[test]
    fn a_backend_that_takes_over_removes_the_data_of_the_previous_one() {
        let smi = Source::new("nvidia-smi");
        let mut builder = builder(hello(&[(&nvml(), Some("not found")), (&smi, None)]));
        let used = DeviceUse { device: "GPU-a".into(), pid: 7, ..DeviceUse::default() };
        builder.on_sample(sample_with(&smi, "GPU-a", vec![used]));
        assert_eq!(builder.node().devices.len(), 1);
        builder.on_hello(hello(&[(&nvml(), None)]));
        let node = builder.node();
        assert!(node.devices.is_empty() && node.device_sources.is_empty() && node.uses.is_empty());
        assert!(node.source(&smi).is_none());
        builder.on_sample(sample_with(&nvml(), "GPU-a", vec![]));
        assert_eq!(*builder.node().device_sources, [nvml()]);
        assert!(builder.node().source(&nvml().slow()).is_some());
    }

    #[test]
    fn a_hanging_driver_is_reported_while_nvidia_smi_reports_the_devices() {
        let smi = Source::new("nvidia-smi");
        let why = "nvml: its library hangs in nvmlInit_v2";
        let hangs = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "nvmlInit_v2".into(),
            message: "".into(),
            duration: Duration::from_secs(60),
            at: Timestamp::default(),
            code: None,
        };
        let mut builder = builder(hello(&[(&nvml(), None)]));
        builder.on_sample(Sample { faults: vec![(nvml(), hangs)], ..Sample::default() });
        builder.on_hello(hello(&[(&nvml(), Some(why)), (&smi, None)]));
        builder.on_sample(sample_with(&smi, "GPU-a", vec![]));
        let node = builder.node();
        assert_eq!(node.devices.len(), 1);
        let found = node.source_fault().map(|(source, fault)| (source.clone(), fault.kind));
        assert_eq!(found, Some((nvml(), SourceFaultKind::Stuck)));
    }

    #[test]
    fn a_node_is_not_settled_while_its_driver_loads() {
        let fault_of = |kind| {
            let fault = SourceFault {
                kind,
                call: "nvmlInit_v2".into(),
                message: "".into(),
                duration: Duration::from_secs(4),
                at: Timestamp::default(),
                code: None,
            };
            Sample { faults: vec![(nvml(), fault)], ..Sample::default() }
        };
        let host = |second: i64| Sample {
            host: Some((
                Timestamp::from_micros(second * 1_000_000),
                gtop_model::HostReading::default(),
            )),
            ..Sample::default()
        };
        let mut builder = builder(hello(&[(&nvml(), None)]));
        builder.on_sample(host(1));
        builder.on_sample(host(2));
        builder.on_sample(fault_of(SourceFaultKind::Starting));
        assert!(!builder.node().is_settled);
        builder.on_sample(fault_of(SourceFaultKind::Stuck));
        assert!(builder.node().is_settled);
    }

    #[test]
    fn used_memory_above_the_total_is_malformed() {
        let mut builder = builder(hello(&[(&nvml(), None)]));
        let mib = |mib: u64| Reading::Known(Bytes(mib << 20));
        let memory_sample = |total, used| {
            let mut sample = sample_with(&nvml(), "GPU-a", vec![]);
            let list = &mut sample.backends[0].devices.as_mut().unwrap().list;
            (list[0].memory_total, list[0].memory_used) = (total, used);
            sample
        };
        builder.on_sample(memory_sample(mib(80), mib(80)));
        assert_eq!(builder.node().devices[0].memory_used, mib(80));
        // The total is known from the earlier sample.
        builder.on_sample(memory_sample(Reading::default(), mib(81)));
        assert_eq!(builder.node().devices[0].memory_used, Reading::Unknown(Reason::Malformed));
        assert_eq!(builder.node().devices[0].memory_total, mib(80));
    }

    #[test]
    fn a_lost_device_keeps_the_last_xid_that_was_reported_of_it() {
        let at = Timestamp::default();
        let xid = |device: &str, code| Event {
            at,
            source: nvml(),
            kind: EventKind::Xid,
            device: device.into(),
            code: Some(code),
            message: Arc::default(),
            count: 1,
            line: None,
        };
        let lose = |builder: &mut NodeBuilder| {
            let mut sample = sample_with(&nvml(), "GPU-a", vec![]);
            sample.backends[0].devices.as_mut().unwrap().list[0].fault = Some(DeviceFault::Lost);
            builder.on_sample(sample);
        };
        let last = |builder: &NodeBuilder| {
            builder.node().devices[0].details.as_deref().and_then(|details| details.xid.get())
        };
        for is_lost_first in [false, true] {
            let mut builder = builder(hello(&[(&nvml(), None)]));
            builder.on_sample(sample_with(&nvml(), "GPU-a", vec![]));
            if is_lost_first {
                lose(&mut builder);
                assert_eq!(last(&builder), None);
            }
            builder.on_event(xid("GPU-a", 48));
            builder.on_event(xid("GPU-a", 79));
            builder.on_event(xid("GPU-b", 13));
            lose(&mut builder);
            assert_eq!(last(&builder), Some(79), "{is_lost_first}");
        }
    }

    /// Returns a sample with devices of these names, which report no memory, on a host with 128 GiB.
    fn sample_without_memory(available: u64, names: &[&str]) -> Sample {
        let known = |gibibytes: u64| Reading::Known(Bytes(gibibytes << 30));
        let host = gtop_model::HostReading {
            memory_total: known(128),
            memory_available: known(available),
            ..gtop_model::HostReading::default()
        };
        let mut sample = sample_with(&nvml(), "GPU-a", vec![]);
        let devices = &mut sample.backends[0].devices.as_mut().unwrap().list;
        *devices = names
            .iter()
            .enumerate()
            .map(|(index, name)| Device {
                uuid: format!("GPU-{index}").into(),
                vendor: Reading::Known(Vendor::Nvidia),
                name: Reading::Known((*name).into()),
                memory_total: Reading::Unknown(Reason::NotSupported),
                memory_used: Reading::Unknown(Reason::NotSupported),
                ..Device::default()
            })
            .collect();
        Sample { host: Some((Timestamp::from_micros(1_000_000), host)), ..sample }
    }

    fn shown_memory(node: &Node, index: usize) -> (Option<Bytes>, Option<u64>, bool) {
        let device = &node.devices[index];
        let used = device.memory_used.get().map(|used| used.0 >> 30);
        (device.memory_total.get(), used, device.has_host_memory)
    }

    #[test]
    fn an_integrated_device_shows_the_host_memory_which_is_in_no_sum() {
        let total = Some(Bytes(128 << 30));
        for name in ["NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Thor", "NVIDIA Jetson AGX Xavier"] {
            let mut builder = builder(hello(&[(&nvml(), None)]));
            builder.on_sample(sample_without_memory(100, &[name]));
            assert_eq!(shown_memory(&builder.node(), 0), (total, Some(28), true), "{name}");
            builder.on_sample(sample_without_memory(60, &[name]));
            let node = builder.node();
            assert_eq!(shown_memory(&node, 0), (total, Some(68), true), "{name}");
            let totals = crate::Totals::of_devices(&node);
            assert_eq!((totals.memory_used, totals.memory_total), (None, None));
            let host = (Some(Bytes(68 << 30)), total);
            assert_eq!(totals.shown_memory(), (host, true));
        }
        // All of a node have the same memory.
        let mut builder = builder(hello(&[(&nvml(), None)]));
        builder.on_sample(sample_without_memory(100, &["NVIDIA GB10", "NVIDIA GB10"]));
        let node = builder.node();
        for index in [0, 1] {
            assert_eq!(shown_memory(&node, index), (total, Some(28), true));
        }
        let shown = crate::Totals::of_devices(&node).shown_memory();
        assert_eq!(shown, ((Some(Bytes(28 << 30)), total), true));
    }

    #[test]
    fn a_device_with_memory_of_its_own_never_shows_the_host_memory() {
        for name in [
            "NVIDIA H100 80GB HBM3",
            "NVIDIA GH200 480GB",
            "NVIDIA GB200",
            "NVIDIA GB100",
            "GRID T4-16Q",
            "NVIDIA GeForce RTX 4070",
        ] {
            let mut builder = builder(hello(&[(&nvml(), None)]));
            builder.on_sample(sample_without_memory(100, &[name]));
            let node = builder.node();
            assert_eq!(shown_memory(&node, 0), (None, None, false), "{name}");
            assert_eq!(node.devices[0].memory_total.reason(), Some(Reason::NotSupported));
        }
    }

    #[test]
    fn a_total_of_nothing_is_no_memory() {
        for (name, has_host_memory) in [("NVIDIA H100 80GB HBM3", false), ("NVIDIA GB10", true)] {
            let mut builder = builder(hello(&[(&nvml(), None)]));
            let mut sample = sample_without_memory(100, &[name]);
            let list = &mut sample.backends[0].devices.as_mut().unwrap().list;
            let zero = Reading::Known(Bytes(0));
            (list[0].memory_total, list[0].memory_used, list[0].memory_free) = (zero, zero, zero);
            builder.on_sample(sample);
            let (total, used, is_host) = shown_memory(&builder.node(), 0);
            let found = (total.is_some(), used.is_some(), is_host);
            assert_eq!(found, (has_host_memory, has_host_memory, has_host_memory), "{name}");
        }
    }

    #[test]
    fn the_driver_tells_that_a_device_is_integrated() {
        let mut builder = builder(hello(&[(&nvml(), None)]));
        let mut sample = sample_without_memory(100, &["NVIDIA Unheard-of"]);
        let list = &mut sample.backends[0].devices.as_mut().unwrap().list;
        let statics =
            DeviceStatics { integrated: Reading::Known(true), ..DeviceStatics::default() };
        list[0].statics = statics.shared();
        builder.on_sample(sample.clone());
        let total = Some(Bytes(128 << 30));
        assert_eq!(shown_memory(&builder.node(), 0), (total, Some(28), true));
        // A part of the host's memory that the driver tells is kept.
        let list = &mut sample.backends[0].devices.as_mut().unwrap().list;
        list[0].memory_total = Reading::Known(Bytes(96 << 30));
        list[0].memory_used = Reading::Known(Bytes(60 << 30));
        builder.on_sample(sample);
        assert_eq!(shown_memory(&builder.node(), 0), (Some(Bytes(96 << 30)), Some(60), true));
    }

    #[test]
    fn health_changes_of_nvidia_smi_devices_are_recorded_once() {
        let smi = Source::new("nvidia-smi");
        let mut builder = builder(hello(&[(&smi, None)]));
        let mut apply =
            |source: &Source, action: Option<RecoveryAction>, fault: Option<DeviceFault>| {
                let mut sample = sample_with(source, "GPU-a", vec![]);
                let list = &mut sample.backends[0].devices.as_mut().unwrap().list;
                let recovery = action.map_or_else(Reading::default, Reading::Known);
                list[0].details = DeviceDetails { recovery, ..DeviceDetails::default() }.shared();
                list[0].fault = fault;
                builder.on_sample(sample);
                let node = builder.node();
                node.events
                    .iter()
                    .map(|one| (one.event.kind.clone(), one.event.code, one.count))
                    .collect::<Vec<_>>()
            };
        assert_eq!(apply(&smi, Some(RecoveryAction::None), None), []);
        let reset = (EventKind::Recovery, Some(1), 1);
        assert_eq!(apply(&smi, Some(RecoveryAction::Reset), None), std::slice::from_ref(&reset));
        // The slow group is not in every sample.
        assert_eq!(apply(&smi, None, None), std::slice::from_ref(&reset));
        assert_eq!(apply(&smi, Some(RecoveryAction::Reset), None), std::slice::from_ref(&reset));
        let lost = (EventKind::Lost, None, 1);
        assert_eq!(apply(&smi, None, Some(DeviceFault::Lost)), [reset.clone(), lost.clone()]);
        assert_eq!(apply(&smi, None, Some(DeviceFault::Lost)), [reset.clone(), lost.clone()]);
        // The device works again, then needs a reset.
        apply(&smi, None, None);
        let mut needs_reset = || apply(&smi, None, Some(DeviceFault::NeedsReset)).last().cloned();
        let once = Some((EventKind::NeedsReset, None, 1));
        assert_eq!([needs_reset(), needs_reset()], [once.clone(), once]);
    }
}
