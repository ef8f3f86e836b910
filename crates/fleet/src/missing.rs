//! Devices that a driver has listed and does not list any more: a device is its UUID or its PCI id, so that one that is gone
//! keeps its row, and the others their indices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::node::Node;
use gtop_local::time::Timestamp;
use gtop_model::{Device, DeviceFault, DevicesReading, Event, EventKind, Reading, Source};

/// A driver that lists no device at all is likely being loaded: its devices are gone only after this.
const RELOAD_TIME: Duration = Duration::from_secs(15);
/// Maximum number of devices of a node that are gone; the one that has been gone longest is forgotten first.
const MAX_GONE: usize = 64;

/// What is kept of the devices of a node beside those that its drivers list.
#[derive(Clone, Debug, Default)]
pub(super) struct MissingDevices {
    /// Devices that are not listed, and not gone for certain.
    waiting: BTreeMap<Arc<str>, MissedDevice>,
    /// Sources that have listed devices in this session.
    listed: BTreeSet<Source>,
    /// The list that is being applied is the first one of its source in this session.
    is_first_list: bool,
    /// The devices before the last reboot, until their source lists those after it.
    before_reboot: Vec<(Device, Source)>,
    /// A session saw only some devices of the node.
    was_confined: bool,
    /// Sources with a device in the slot of an earlier one: their drivers may count the others anew.
    renumbered: BTreeSet<Source>,
}

#[derive(Clone, Copy, Debug)]
struct MissedDevice {
    since: Timestamp,
    /// It was missed together with all others.
    is_reload: bool,
}

impl MissingDevices {
    /// Begins to apply a list of devices; returns true if none is missing.
    pub(super) fn on_list(&mut self, node: &Node, source: &Source) -> bool {
        self.is_first_list = !self.listed.contains(source);
        if self.is_first_list {
            self.listed.insert(source.clone());
        }
        self.waiting.is_empty()
            && self.before_reboot.is_empty()
            && !node.devices.iter().any(Device::is_gone)
    }

    /// Restores devices that were gone when a recording was written.
    pub(super) fn restore(&mut self, node: &mut Node, devices: &[(Source, Device)]) {
        for (source, device) in devices.iter().take(MAX_GONE) {
            self.listed.insert(source.clone());
            let Some(since) = device.gone_since().filter(|_| node.device(&device.uuid).is_none())
            else {
                continue;
            };
            node.devices.push(device.clone());
            node.device_sources = node.device_sources.iter().chain([source]).cloned().collect();
            let event = device_event(source, device, since, EventKind::Gone);
            if !node.events.iter().any(|known| known.event.is_same_event(&event)) {
                node.record_event(event);
            }
        }
    }

    /// Begins another session, which may see other devices.
    pub(super) fn on_session_end(&mut self, node: &Node) {
        self.listed.clear();
        self.renumbered.clear();
        self.was_confined |= node.is_confined();
    }

    /// Keeps the devices of a node that has been rebooted: those that do not come back are gone.
    pub(super) fn on_reboot(&mut self, node: &Node) {
        self.waiting.clear();
        self.listed.clear();
        self.renumbered.clear();
        let devices = node.devices.iter().zip(node.device_sources.iter());
        let whole = devices.filter(|(device, _)| device.parent.is_none());
        self.before_reboot =
            whole.map(|(device, source)| (device.clone(), source.clone())).collect();
    }

    /// Returns the devices of a source before a reboot, if the machine is still the same: it has one of them.
    pub(super) fn take_before_reboot(&mut self, source: &Source, list: &[Device]) -> Vec<Device> {
        let before = std::mem::take(&mut self.before_reboot).into_iter();
        let (mut own, others): (Vec<_>, Vec<_>) = before.partition(|(_, owner)| owner == source);
        self.before_reboot = others;
        if !list.iter().any(|newer| own.iter().any(|(known, _)| known.uuid == newer.uuid)) {
            own.clear();
        }
        own.into_iter().map(|(device, _)| device.without_readings()).collect()
    }

    /// Gives a device in the slot of an earlier one its index; returns true if there was one in this session.
    pub(super) fn take_slots(
        &mut self,
        source: &Source,
        list: &[Device],
        lacking: &[Device],
        indices: &mut BTreeMap<Arc<str>, u32>,
    ) -> bool {
        for earlier in lacking.iter().filter(|device| device.parent.is_none()) {
            let (Some(pci), Some(index)) = (earlier.pci.known(), earlier.index.get()) else {
                continue;
            };
            let mut new = list.iter().filter(|newer| !indices.contains_key(&newer.uuid));
            if let Some(newer) = new.find(|newer| newer.has_pci_id(pci)) {
                indices.insert(Arc::clone(&newer.uuid), index);
                self.renumbered.insert(source.clone());
            }
        }
        self.renumbered.contains(source)
    }

    /// Returns the devices that stay although this list of their source lacks them, and those that others have replaced, with
    /// the time since when.
    pub(super) fn keep(
        &mut self,
        node: &Node,
        reading: &DevicesReading,
        lacking: Vec<Device>,
        known: &BTreeMap<Arc<str>, u32>,
    ) -> (Vec<Device>, Vec<(Device, Timestamp)>) {
        let is_confined = node.is_confined();
        // What another session saw may be hidden in this one, if one of them is confined.
        if self.is_first_list && (is_confined || std::mem::take(&mut self.was_confined)) {
            return (Vec::new(), Vec::new());
        }
        for device in &reading.list {
            self.waiting.remove(&device.uuid);
        }
        // Slices end with their layout.
        let whole = lacking.into_iter().filter(|device| device.parent.is_none());
        let missed = whole.filter(|device| !device.has_stand_in_identity());
        // A new device in the same slot has replaced the one before.
        let new = reading.list.iter().filter(|newer| !known.contains_key(&newer.uuid));
        let (replaced, others): (Vec<Device>, Vec<Device>) = missed.partition(|device| {
            let pci = device.pci.known();
            pci.is_some_and(|pci| new.clone().any(|newer| newer.has_pci_id(pci)))
        });
        let until_now = replaced.into_iter().filter(|device| !device.is_gone());
        let replaced = until_now.map(|device| {
            let waiting = self.waiting.remove(&device.uuid);
            (device, waiting.map_or(reading.at, |waiting| waiting.since))
        });
        let replaced = replaced.collect();
        let others = others.into_iter().map(|device| self.missing_device(device, reading));
        let mut kept: Vec<Device> = others.collect();
        kept.sort_by_key(|device| Reverse(device.gone_since()));
        kept.truncate(MAX_GONE);
        (kept, replaced)
    }

    /// Returns a device that its driver does not list: one that is gone, or one without readings that may come back soon.
    fn missing_device(&mut self, device: Device, reading: &DevicesReading) -> Device {
        if device.is_gone() {
            return device;
        }
        let first = MissedDevice { since: reading.at, is_reload: reading.list.is_empty() };
        let waiting = *self.waiting.entry(Arc::clone(&device.uuid)).or_insert(first);
        let may_return = reading.is_cut_short
            || (waiting.is_reload && reading.at.since(waiting.since) < RELOAD_TIME);
        let device = device.without_readings();
        if may_return {
            return device;
        }
        self.waiting.remove(&device.uuid);
        Device { statics: None, fault: Some(DeviceFault::Gone(waiting.since)), ..device }
    }
}

/// Returns true if the last event about a device is that it is gone.
pub(super) fn is_told_gone(node: &Node, uuid: &str) -> bool {
    let events = node.events.iter().map(|record| &record.event);
    let told = events.filter(|event| matches!(event.kind, EventKind::Gone | EventKind::Returned));
    let last = told
        .filter(|event| *event.device == *uuid)
        .max_by_key(|event| (event.at, event.kind == EventKind::Returned));
    last.is_some_and(|event| event.kind == EventKind::Gone)
}

/// Returns the event that something of this kind has happened to a device.
pub(super) fn device_event(
    source: &Source,
    device: &Device,
    at: Timestamp,
    kind: EventKind,
) -> Event {
    let (source, device) = (source.clone(), Arc::clone(&device.uuid));
    Event { at, source, kind, device, code: None, message: Arc::default(), count: 1, line: None }
}

/// Numbers the devices of a source: while some are missing, the driver counts the others anew, but they keep the index by
/// which they are known, and new ones take one that is free.
pub(super) fn keep_indices(devices: &mut [Device], known: &BTreeMap<Arc<str>, u32>) {
    let mut taken: BTreeSet<u32> = known.values().copied().collect();
    for device in devices.iter_mut().filter(|device| device.parent.is_none()) {
        if let Some(index) = known.get(&device.uuid) {
            device.index = Reading::Known(*index);
            continue;
        }
        let Some(wanted) = device.index.get() else { continue };
        let free = (wanted..=u32::MAX).find(|index| !taken.contains(index)).unwrap_or(wanted);
        taken.insert(free);
        device.index = Reading::Known(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Health, NodeBuilder};
    use gtop_model::{
        BackendReading, BackendState, Hello, HostFacts, JobId, Link, NodeName, Percent, Sample,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn hello(boot: &str, job: Option<&str>) -> Hello {
        let source = Source::new("nvml");
        let backend = BackendState {
            source: source.clone(),
            absent: None,
            is_missing: false,
            fault: None,
            driver: None,
        };
        let host = HostFacts {
            boot_id: boot.into(),
            job: job.and_then(JobId::new),
            ..HostFacts::default()
        };
        Hello {
            host,
            intervals: vec![(source, Duration::from_secs(1))],
            backends: vec![backend],
            ..Hello::default()
        }
    }

    /// A node and the second of its last list.
    struct TestNode {
        builder: NodeBuilder,
        second: i64,
    }

    impl TestNode {
        fn new() -> Self {
            let name = NodeName::new("gpu01").unwrap();
            let mut watched =
                Self { builder: NodeBuilder::new(name, Duration::from_secs(60)), second: 0 };
            watched.begin_session("boot-1", None);
            watched
        }

        fn begin_session(&mut self, boot: &str, job: Option<&str>) {
            self.builder.on_link(Link::Opening { attempt: 1 });
            self.builder.on_link(Link::Up);
            self.builder.on_hello(hello(boot, job));
        }

        fn apply(&mut self, second: i64, list: Vec<Device>, is_cut_short: bool) {
            self.second = second;
            let devices = Some(DevicesReading { at: at(second), list, is_cut_short });
            let source = Source::new("nvml");
            let backend = BackendReading { source, slow_at: None, devices, uses: None };
            self.builder.on_sample(Sample { backends: vec![backend], ..Sample::default() });
        }

        /// Lists the devices of these letters, as a driver counts them.
        fn list(&mut self, second: i64, letters: &str) {
            let devices = letters.chars().zip(0..).map(|(letter, index)| device(letter, index));
            self.apply(second, devices.collect(), false);
        }

        /// Returns each device as its letter, its index and its state: works, waiting or gone.
        fn rows(&self) -> String {
            let node = self.builder.node();
            let row = |device: &Device| {
                let state = match (device.gone_since(), device.utilization.get()) {
                    (Some(_), _) => "gone",
                    (None, None) => "waiting",
                    (None, Some(_)) => "works",
                };
                let letter = device.uuid.trim_start_matches("GPU-");
                format!("{letter}{} {state}", device.index.get().unwrap())
            };
            node.devices.iter().map(row).collect::<Vec<_>>().join(", ")
        }

        /// Returns the events as words with the letters of their devices.
        fn events(&self) -> String {
            let node = self.builder.node();
            let events = node.events.iter().map(|record| {
                let letter = record.event.device.trim_start_matches("GPU-");
                format!("{letter} {} {}", record.event.kind.as_str(), record.count)
            });
            events.collect::<Vec<_>>().join(", ")
        }
    }

    fn device(letter: char, index: u32) -> Device {
        let bus = u32::from(letter) - u32::from('a');
        Device {
            uuid: format!("GPU-{letter}").into(),
            index: Reading::Known(index),
            pci: Reading::Known(format!("00000000:{bus:02X}:00.0").into()),
            utilization: Reading::checked(Percent::new(50.0)),
            ..Device::default()
        }
    }

    #[test]
    fn a_device_that_is_gone_keeps_its_row_and_the_others_their_indices() {
        let mut watched = TestNode::new();
        watched.list(1, "abcd");
        watched.list(2, "abd");
        for second in 3..40 {
            assert_eq!(watched.rows(), "a0 works, b1 works, c2 gone, d3 works");
            watched.list(second, "abd");
        }
        let node = watched.builder.node();
        assert_eq!(node.devices[2].gone_since(), Some(at(2)));
        assert_eq!(node.health(&node.devices[2]), Health::Faulty);
        assert_eq!(
            node.health_reasons(&node.devices[2])[0].text(),
            "gone since 1970-01-01T00:00:02Z"
        );
        assert_eq!(watched.events(), "c gone 1");
        // Another one that comes meanwhile takes no number that is in use.
        watched.list(40, "abde");
        assert_eq!(watched.rows(), "a0 works, b1 works, c2 gone, d3 works, e4 works");
    }

    #[test]
    fn a_device_that_is_back_has_its_row_and_its_history_again() {
        let mut watched = TestNode::new();
        watched.list(1, "abcd");
        watched.list(2, "abd");
        watched.list(60, "abcd");
        assert_eq!(watched.rows(), "a0 works, b1 works, c2 works, d3 works");
        assert_eq!(watched.events(), "c gone 1, c returned 1");
        watched.list(61, "abd");
        assert_eq!(watched.builder.node().devices[2].gone_since(), Some(at(61)));
        assert_eq!(watched.events(), "c returned 1, c gone 2");
    }

    #[test]
    fn a_reload_of_the_driver_is_no_alarm() {
        let mut watched = TestNode::new();
        watched.list(1, "abc");
        for second in 2..10 {
            watched.list(second, "");
            assert_eq!(watched.rows(), "a0 waiting, b1 waiting, c2 waiting");
        }
        watched.list(10, "b");
        assert_eq!(watched.rows(), "a0 waiting, b1 works, c2 waiting");
        watched.list(11, "abc");
        assert_eq!(
            (watched.rows(), watched.events()),
            ("a0 works, b1 works, c2 works".into(), String::new())
        );
        // A driver that stays without devices has lost them.
        watched.list(20, "");
        watched.list(34, "");
        assert_eq!(watched.rows(), "a0 waiting, b1 waiting, c2 waiting");
        watched.list(35, "");
        assert_eq!(watched.rows(), "a0 gone, b1 gone, c2 gone");
        assert_eq!(watched.events(), "a gone 1, b gone 1, c gone 1");
        assert_eq!(watched.builder.node().devices[0].gone_since(), Some(at(20)));
    }

    #[test]
    fn after_a_reboot_only_devices_of_the_same_machine_are_missed() {
        for (letters, rows, events) in [
            ("abd", "a0 works, b1 works, c2 gone, d3 works", "c gone 1"),
            ("abcd", "a0 works, b1 works, c2 works, d3 works", ""),
            ("wxy", "w0 works, x1 works, y2 works", ""),
        ] {
            let mut watched = TestNode::new();
            watched.list(1, "abcd");
            watched.begin_session("boot-2", None);
            assert_eq!(watched.rows(), "");
            watched.list(90, letters);
            watched.list(91, letters);
            assert_eq!((&*watched.rows(), &*watched.events()), (rows, events));
        }
    }

    #[test]
    fn the_next_session_misses_a_device_unless_one_is_confined_to_some() {
        let confined = Some("7");
        for (before, after, rows) in [
            (None, None, "a0 works, b1 gone"),
            (None, confined, "a0 works"),
            (confined, None, "a0 works"),
            (confined, confined, "a0 works"),
        ] {
            let mut watched = TestNode::new();
            watched.begin_session("boot-1", before);
            watched.list(1, "ab");
            watched.begin_session("boot-1", after);
            watched.list(2, "a");
            assert_eq!(watched.rows(), rows, "{before:?} {after:?}");
            // While a session lasts, it sees the same devices.
            watched.list(3, "");
            watched.list(60, "");
            assert!(watched.rows().starts_with("a0 gone"), "{}", watched.rows());
        }
    }

    #[test]
    fn slices_and_replaced_devices_are_not_missed() {
        let mut watched = TestNode::new();
        let slice = Device { parent: Some("GPU-a".into()), ..device('s', 0) };
        watched.apply(1, vec![device('a', 0), slice], false);
        watched.list(2, "a");
        assert_eq!((watched.rows(), watched.events()), ("a0 works".into(), String::new()));
        let replaced = Device { pci: device('a', 0).pci, ..device('n', 0) };
        watched.apply(3, vec![replaced], false);
        assert_eq!((watched.rows(), watched.events()), ("n0 works".into(), "a gone 1".into()));
        // One that is known moves to a slot that is free.
        let mut watched = TestNode::new();
        watched.list(1, "abc");
        watched.apply(
            2,
            vec![device('a', 0), Device { pci: device('b', 0).pci, ..device('c', 1) }],
            false,
        );
        assert_eq!(watched.rows(), "a0 works, b1 gone, c2 works");
    }

    #[test]
    fn a_device_in_the_slot_of_one_that_is_gone_has_its_index_and_the_others_keep_theirs() {
        let mut watched = TestNode::new();
        watched.list(1, "abcd");
        let listed = |letters: &str| -> Vec<Device> {
            let pairs = letters.chars().zip(0..);
            pairs.map(|(letter, index)| device(letter, index)).collect()
        };
        watched.list(2, "acd");
        let mut newer = listed("acdn");
        newer[3].pci = device('b', 0).pci;
        for second in 3..6 {
            watched.apply(second, newer.clone(), false);
            assert_eq!(watched.rows(), "a0 works, n1 works, c2 works, d3 works");
        }
        // The one before is back.
        watched.list(6, "acd");
        watched.list(7, "acdb");
        assert_eq!(watched.rows(), "a0 works, b1 works, c2 works, d3 works");
        // It is replaced from one list to the next.
        watched.apply(8, newer, false);
        assert_eq!(watched.rows(), "a0 works, n1 works, c2 works, d3 works");
    }

    #[test]
    fn each_device_of_a_slot_that_changes_twice_is_told_gone_and_back() {
        let mut watched = TestNode::new();
        watched.list(1, "abcd");
        watched.list(2, "ad");
        let in_slot =
            |letter: char, slot: char| Device { pci: device(slot, 0).pci, ..device(letter, 1) };
        let with = |other: Device| vec![device('a', 0), other, device('d', 2)];
        watched.apply(3, with(in_slot('e', 'b')), false);
        assert_eq!(watched.rows(), "a0 works, e1 works, c2 gone, d3 works");
        assert_eq!(watched.events(), "c gone 1, b gone 1");
        watched.apply(4, with(device('b', 1)), false);
        assert_eq!(watched.rows(), "a0 works, b1 works, c2 gone, d3 works");
        assert_eq!(watched.events(), "c gone 1, b gone 1, b returned 1, e gone 1");
        // That it is back is told once.
        watched.apply(5, with(device('b', 1)), false);
        watched.apply(6, with(in_slot('e', 'b')), false);
        assert_eq!(watched.events(), "c gone 1, b returned 1, e gone 1, e returned 1, b gone 2");
    }

    #[test]
    fn a_list_that_ends_early_tells_nothing_of_the_others() {
        let mut watched = TestNode::new();
        watched.list(1, "ab");
        let lost = Device { fault: Some(DeviceFault::Lost), ..device('b', 1).without_readings() };
        for second in 2..60 {
            watched.apply(second, vec![lost.clone()], true);
            assert_eq!(watched.rows(), "a0 waiting, b1 waiting");
        }
        assert_eq!(watched.builder.node().devices[1].fault, Some(DeviceFault::Lost));
        watched.list(60, "ab");
        assert_eq!(
            (watched.rows(), watched.events()),
            ("a0 works, b1 works".into(), String::new())
        );
    }

    #[test]
    fn a_device_without_a_uuid_gets_it_when_it_works() {
        let mut watched = TestNode::new();
        let lost = |uuid: &str| Device {
            uuid: uuid.into(),
            fault: Some(DeviceFault::Lost),
            utilization: Reading::default(),
            ..device('a', 0)
        };
        let by_index = Device { pci: Reading::default(), ..lost("index-0") };
        for faulty in [by_index, lost("0000:00:00.0")] {
            watched.apply(1, vec![faulty], false);
            watched.list(2, "a");
            assert_eq!((watched.rows(), watched.events()), ("a0 works".into(), String::new()));
        }
    }

    #[test]
    fn devices_that_change_without_end_use_bounded_memory() {
        let mut watched = TestNode::new();
        for round in 0..300_u32 {
            let devices = (0..9).map(|index| Device {
                uuid: format!("GPU-{round}-{index}").into(),
                pci: Reading::default(),
                ..device('a', index)
            });
            watched.apply(i64::from(round), devices.collect(), false);
        }
        assert_eq!(watched.builder.node().devices.len(), MAX_GONE + 9);
        assert!(watched.builder.node().history.series_count() <= 2 * (MAX_GONE + 9) + 1);
    }
}
