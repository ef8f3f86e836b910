//! Finds how sound the devices of a node are.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use crate::event_record::EventRecord;
use crate::health::{FATAL_XIDS, Health, HealthReason, UnsoundDevice};
use crate::lasting::is_awake;
use crate::node::Node;
use gtop_local::time::Timestamp;
use gtop_model::{
    Device, DeviceDetails, EventKind, FabricState, Reading, Reason, RecoveryAction, Vendor,
};

/// Xids that announce a failure, or follow one that was contained.
const WARNING_XIDS: [u64; 1] = [94];
/// An Xid that is mostly an error of a program is one of the device if it occurs so often there, and on no other device
/// of the node.
const MIN_PAGE_FAULTS: u64 = 2;
const PAGE_FAULT_XID: u64 = 31;
/// An Xid counts for this long; the driver's other values show what lasts.
const XID_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The values of one sample are taken within this time.
const SAMPLE_SPAN: Duration = Duration::from_millis(200);
/// Slots often have half of the lanes of a device, but never so small a part by design.
const MIN_LANES_PART: u8 = 4;

impl UnsoundDevice {
    fn of(node: &Node, device: &Device) -> Option<Self> {
        let own = node.find_reasons(device);
        let mut reasons = own.clone();
        if let Some(whole) = device.parent.as_ref().and_then(|parent| node.device(parent)) {
            let of_whole = node.find_reasons(whole).into_iter();
            reasons.extend(of_whole.filter(|reason| !own.contains(reason)));
            reasons.sort_by_key(|reason| Reverse(reason.health()));
        }
        let uuid = Arc::clone(&device.uuid);
        (!reasons.is_empty()).then_some(Self { uuid, reasons, own })
    }
}

impl Node {
    /// Returns how sound one of its devices is.
    pub fn health(&self, device: &Device) -> Health {
        self.health_reasons(device).first().map_or(Health::Ok, HealthReason::health)
    }

    /// Returns why one of its devices is not sound, the worst first; nothing if it is. A slice is no sounder than its device.
    pub fn health_reasons(&self, device: &Device) -> &[HealthReason] {
        self.unsound(device).map_or(&[], |unsound| &unsound.reasons)
    }

    /// Returns the same without what only the device of a slice tells.
    pub(crate) fn own_health_reasons(&self, device: &Device) -> &[HealthReason] {
        self.unsound(device).map_or(&[], |unsound| &unsound.own)
    }

    fn unsound(&self, device: &Device) -> Option<&UnsoundDevice> {
        let unsound = self.health.or_find(|| {
            self.devices.iter().filter_map(|device| UnsoundDevice::of(self, device)).collect()
        });
        unsound.iter().find(|unsound| unsound.uuid == device.uuid)
    }

    /// Finds why a device is not sound, the worst first.
    fn find_reasons(&self, device: &Device) -> Vec<HealthReason> {
        let mut reasons: Vec<HealthReason> = Vec::new();
        reasons.extend(device.fault.as_ref().map(HealthReason::from));
        if reasons.is_empty() {
            reasons.extend(silence(device));
        }
        let has_fault = !reasons.is_empty();
        if let Some(details) = &device.details {
            add_standing(&mut reasons, details);
        }
        if !has_fault {
            reasons.extend(self.unread_health(device).map(HealthReason::NotRead));
        }
        let errors = device.ecc_uncorrected.get().filter(|errors| *errors > 0);
        reasons.extend(errors.map(HealthReason::EccUncorrected));
        // A driver that cannot read the rest either, as in a reload, does not tell of the fan.
        let failed = Reason::DriverError;
        let reads_others =
            device.pcie.reason() != Some(failed) && device.temperature.get().is_some();
        if device.fan == Reading::Unknown(failed) && reads_others {
            reasons.push(HealthReason::FanFailed);
        }
        reasons.extend(self.slow_link(device));
        reasons.extend(self.links_down(device));
        if device.fault.is_none() {
            let slowdowns = self.lasting.slowdowns(&device.uuid);
            reasons.extend(slowdowns.map(|(cause, span)| HealthReason::Slowed { cause, span }));
            let empty_load = self.lasting.empty_load(&device.uuid);
            reasons.extend(empty_load.map(HealthReason::LoadWithoutProcess));
        }
        // What the driver reported before it lost the device is told by the events.
        if device.fault.is_none() {
            self.add_xids(&mut reasons, device);
        }
        reasons.sort_by_key(|reason| Reverse(reason.health()));
        reasons
    }

    /// Returns why it is not known how sound a device is, whatever else is known of it.
    fn unread_health(&self, device: &Device) -> Option<Reason> {
        let mut awaited = self.sources.iter().filter(|state| state.taken_at.is_none());
        if awaited.any(|state| state.source.is_slow())
            && let Some(position) = self.devices.iter().position(|one| one.uuid == device.uuid)
            && let Some(is_failed) = self.health_failed(position)
        {
            return Some(if is_failed { Reason::DriverError } else { Reason::NotSampled });
        }
        if device.is_partial {
            return Some(Reason::NotSampled);
        }
        if self.is_read_from_page() {
            return Some(Reason::NotOffered);
        }
        let details = device.details.as_ref()?;
        let reasons = [
            details.recovery.reason(),
            details.remapping_failed.reason(),
            details.sram_threshold_exceeded.reason(),
        ];
        reasons.into_iter().flatten().find(|reason| *reason == Reason::DriverError)
    }

    /// Adds the Xids that are errors of the device, not of a program.
    fn add_xids(&self, reasons: &mut Vec<HealthReason>, device: &Device) {
        for record in self.events.iter().filter(|record| record.event.device == device.uuid) {
            let (Some(code), count) = (record.event.code, self.xid_count(record)) else { continue };
            let is_own = FATAL_XIDS.contains(&code)
                || WARNING_XIDS.contains(&code)
                || (code == PAGE_FAULT_XID && self.are_page_faults_its_own(device, count));
            if count > 0 && is_own {
                reasons.push(HealthReason::Xid { code, count });
            }
        }
    }

    /// Returns true if so many page faults are errors of a device: no other device of the node has any.
    fn are_page_faults_its_own(&self, device: &Device, count: u64) -> bool {
        let mut others = self.events.iter().filter(|record| record.event.device != device.uuid);
        count >= MIN_PAGE_FAULTS
            && !others.any(|record| {
                record.event.code == Some(PAGE_FAULT_XID) && self.xid_count(record) > 0
            })
    }

    /// Returns how often an Xid occurred of late; 0 if it tells nothing of its device any more, or if it is another event.
    fn xid_count(&self, record: &EventRecord) -> u64 {
        let from = self.told_from(&record.event.device);
        if record.event.kind != EventKind::Xid || record.event.at < from {
            return 0;
        }
        // Only the kernel tells what was before gtop, and when each was.
        if record.first_at >= from || record.lines.is_empty() {
            return record.count;
        }
        let lines = record.lines.iter().filter(|line| line.at >= from);
        u64::try_from(lines.count()).unwrap_or(u64::MAX).max(1)
    }

    /// Returns from when on events tell of a device as it is: for a day, unless the node was booted or the driver loaded
    /// since, or the driver said that nothing is to be done.
    fn told_from(&self, device: &str) -> Timestamp {
        let events = self.events.iter().map(|record| &record.event);
        let recoveries = events
            .filter(|event| *event.device == *device && event.is_recovery())
            .map(|recovery| recovery.at);
        let day_ago = self.taken_at().unwrap_or_default().minus(XID_LIFETIME);
        let loaded_at = self.hello.as_ref().and_then(|hello| hello.driver_loaded_at);
        let starts = [Some(day_ago), self.host.fast.booted_at.get(), loaded_at];
        starts.into_iter().flatten().chain(recoveries).max().unwrap_or_default()
    }

    /// Returns when what an event tells of a device as it is began: at its first occurrence of late, or else the last.
    pub(crate) fn begin_of(&self, record: &EventRecord) -> Timestamp {
        let from = self.told_from(&record.event.device);
        let lines = record.lines.iter().map(|line| line.at);
        let of_late = lines.chain([record.first_at]).filter(|at| *at >= from).min();
        of_late.unwrap_or(record.event.at).min(record.event.at)
    }

    /// Returns the fatal Xids that the kernel has logged of devices that no driver lists, with the address of each.
    pub(crate) fn xids_of_unlisted_devices(&self) -> Vec<(u64, Arc<str>)> {
        let fatal = self.events.iter().filter_map(|record| {
            let is_told = record.is_of_unlisted_device() && self.xid_count(record) > 0;
            let code = record.event.code.filter(|code| is_told && FATAL_XIDS.contains(code))?;
            Some((code, Arc::clone(&record.event.device)))
        });
        fatal.collect()
    }

    /// Returns the link to the host if it is slower than it can be while the device works at full clocks.
    fn slow_link(&self, device: &Device) -> Option<HealthReason> {
        // An integrated device reaches the memory of the host in another way, and its link is one lane of sixteen.
        let has_no_memory = device.memory_total == Reading::Unknown(Reason::NotSupported);
        if device.has_host_memory || has_no_memory {
            return None;
        }
        let max = device.statics.as_ref()?.pcie_max.get()?;
        let now = device.pcie.get()?;
        // A driver that does not know says 0.
        if !is_awake(device)
            || now.0 == 0
            || now.1 == 0
            || (now.0 >= max.0 && now.1 >= max.1)
            || self.is_link_older_than_load(device)
        {
            return None;
        }
        // Only NVIDIA's maximum is that of device and slot together, and a slot for 16 lanes may have 8.
        let is_below_slot = device.vendor.get() == Some(Vendor::Nvidia)
            && (now.0 < max.0 || now.1.saturating_mul(MIN_LANES_PART) <= max.1);
        (is_below_slot || self.is_below_others(device, now))
            .then_some(HealthReason::PcieBelowMax { now, max })
    }

    /// Returns true if the state of its link was taken before the load began: it is taken less often than the load.
    fn is_link_older_than_load(&self, device: &Device) -> bool {
        let position = self.devices.iter().position(|known| known.uuid == device.uuid);
        let source = position.and_then(|position| self.device_sources.get(position));
        let taken_at = source.and_then(|source| self.source(&source.slow())?.taken_at);
        let awake_since = self.lasting.awake_since(&device.uuid);
        taken_at.zip(awake_since).is_some_and(|(taken, since)| since.since(taken) > SAMPLE_SPAN)
    }

    /// Returns how many `NVLinks` of a device are active if fewer are than could be.
    fn links_down(&self, device: &Device) -> Option<HealthReason> {
        // In MIG mode, devices do not use their links.
        if self.is_cut(device) {
            return None;
        }
        let active = active_links(device)?;
        let of = self.links_of_others(device, active).max(self.lasting.most_links(&device.uuid));
        (active < of).then_some(HealthReason::NvlinksDown { active, of })
    }

    /// Returns how many `NVLinks` a device could have active, as far as those of its model on the node tell; 0 if they do not.
    fn links_of_others(&self, device: &Device, active: u32) -> u32 {
        let uncut = self.alike(device).filter(|other| !self.is_cut(other));
        let links: Vec<u32> = uncut.filter_map(active_links).collect();
        let most = links.iter().copied().max().unwrap_or_default();
        let with_most = links.iter().filter(|links| **links == most).count();
        let is_design = if is_linked_by_board(device) {
            false
        } else if active > 0 {
            // Pairs may be joined by different numbers of bridges.
            with_most * 2 <= links.len()
        } else {
            // Bridges join an even number of devices, and another may have none.
            with_most + 1 < links.len() || with_most % 2 == 0
        };
        if is_design { 0 } else { most }
    }

    /// Returns true if most devices of its model on the node have a better link now.
    fn is_below_others(&self, device: &Device, link: (u8, u8)) -> bool {
        let links = self.alike(device).filter_map(|other| other.pcie.get());
        let better = links.clone().filter(|other| link.0 < other.0 || link.1 < other.1);
        better.count() * 2 > links.count()
    }

    /// Returns the devices of the model of a device, itself among them.
    fn alike<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = &'a Device> + Clone {
        let whole = self.devices.iter().filter(|other| other.parent.is_none());
        whole.filter(|other| other.model().is_some() && other.model() == device.model())
    }
}

fn active_links(device: &Device) -> Option<u32> {
    device.details.as_ref()?.nvlinks_active.get().filter(|_| device.fault.is_none())
}

/// Returns true if the board of its node, not a bridge that one may leave out, joins a device with the others of its model.
fn is_linked_by_board(device: &Device) -> bool {
    let fabric = device.details.as_ref().and_then(|details| details.fabric.get());
    fabric.is_some_and(|state| state != FabricState::None)
        || device.model().is_some_and(|model| model.contains("SXM") || model.contains("HBM"))
}

/// Returns why a device tells nothing, although the driver lists it without a fault.
fn silence(device: &Device) -> Option<HealthReason> {
    let why = device.utilization.reason()?;
    let others = [device.memory_used.reason(), device.temperature.reason(), device.power.reason()];
    if others != [Some(why); 3] {
        return None;
    }
    if why == Reason::DriverError {
        return Some(HealthReason::Driver("every value fails".into()));
    }
    (why == Reason::NoPermission).then_some(HealthReason::NoPermission)
}

/// Adds what the driver's health values say, from the first sample on.
fn add_standing(reasons: &mut Vec<HealthReason>, details: &DeviceDetails) {
    let action = details.recovery.get().filter(|action| *action != RecoveryAction::None);
    reasons.extend(action.map(HealthReason::Recovery));
    for (is_on, reason) in [
        (details.remapping_failed, HealthReason::RemapFailed),
        (details.sram_threshold_exceeded, HealthReason::SramThreshold),
        (details.remapping_pending, HealthReason::RemapPending),
        (details.retirement_pending, HealthReason::RetirementPending),
    ] {
        if is_on.get() == Some(true) {
            reasons.push(reason);
        }
    }
    let put_aside = details.remapped_uncorrected.get();
    let retired = details.retired_double.get();
    let is_cured = put_aside.is_some_and(|rows| rows > 0) || retired.is_some_and(|pages| pages > 0);
    let total = details.ecc_uncorrected_total.get().filter(|total| *total > 0 && !is_cured);
    reasons.extend(total.map(HealthReason::EccUncorrectedTotal));
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{
        Celsius, DeviceStatics, Event, FanSpeed, Hello, KernelLine, NodeName, Percent, Source,
        TransportKind,
    };

    /// Returns a node of healthy devices under load.
    fn node(count: u32) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let statics =
            DeviceStatics { pcie_max: Reading::Known((5, 16)), ..DeviceStatics::default() };
        let device = |index: u32| Device {
            uuid: format!("GPU-{index}").into(),
            index: Reading::Known(index),
            vendor: Reading::Known(Vendor::Nvidia),
            name: Reading::Known("H100".into()),
            utilization: Reading::checked(Percent::new(90.0)),
            temperature: Reading::checked(Celsius::new(50.0)),
            fan: Reading::checked(FanSpeed::new(30.0)),
            performance_state: Reading::Known(0),
            ecc_uncorrected: Reading::Known(0),
            pcie: Reading::Known((5, 16)),
            statics: Some(Arc::new(statics.clone())),
            ..Device::default()
        };
        node.devices = (0..count).map(device).collect();
        node
    }

    /// Returns the reasons of the first device after a change of the node.
    fn reasons(change: impl FnOnce(&mut Node)) -> Vec<HealthReason> {
        let mut node = node(4);
        change(&mut node);
        node.health_reasons(&node.devices[0]).to_vec()
    }

    fn with_details(change: impl FnOnce(&mut DeviceDetails)) -> Vec<HealthReason> {
        let mut details = DeviceDetails::default();
        change(&mut details);
        reasons(|node| node.devices[0].details = Some(Arc::new(details)))
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn kernel_line(at: i64, pci: &str, words: &str) -> KernelLine {
        KernelLine {
            at: second(at),
            number: 1,
            first_number: 1,
            first_at: second(at),
            pci: pci.into(),
            gpu_instance: None,
            pid: None,
            process: "".into(),
            words: words.into(),
        }
    }

    fn record_xid(node: &mut Node, device: &str, code: u64, second: i64) {
        node.record_event(Event {
            at: Timestamp::from_micros(second * 1_000_000),
            source: Source::new("nvml"),
            kind: EventKind::Xid,
            device: device.into(),
            code: Some(code),
            message: "".into(),
            count: 1,
            line: None,
        });
    }

    #[test]
    fn an_xid_counts_until_the_node_or_the_driver_is_started_again() {
        let found = |change: fn(&mut Node)| {
            let told = reasons(|node| {
                record_xid(node, "GPU-0", 79, 100);
                change(node);
            });
            told.len()
        };
        assert_eq!(found(|_| {}), 1);
        assert_eq!(found(|node| node.host.fast.booted_at = Reading::Known(second(99))), 1);
        assert_eq!(found(|node| node.host.fast.booted_at = Reading::Known(second(101))), 0);
        for (loaded_at, expected) in [(None, 1), (Some(99), 1), (Some(101), 0)] {
            let driver_loaded_at = loaded_at.map(second);
            let told = reasons(|node| {
                record_xid(node, "GPU-0", 79, 100);
                node.hello = Some(Arc::new(Hello { driver_loaded_at, ..Hello::default() }));
            });
            assert_eq!(told.len(), expected);
        }
    }

    #[test]
    fn an_xid_counts_until_the_driver_says_that_nothing_needs_to_be_done() {
        let found = |later: Event| {
            let told = reasons(|node| {
                record_xid(node, "GPU-0", 79, 100);
                node.record_event(later.clone());
            });
            told.len()
        };
        let recovery = |device: &str, code, at| Event {
            at: second(at),
            source: Source::new("nvml"),
            kind: EventKind::Recovery,
            device: device.into(),
            code: Some(code),
            message: "".into(),
            count: 1,
            line: None,
        };
        assert_eq!(found(recovery("GPU-0", 0, 101)), 0);
        assert_eq!(found(recovery("GPU-0", 2, 101)), 1);
        assert_eq!(found(recovery("GPU-1", 0, 101)), 1);
        assert_eq!(found(recovery("GPU-0", 0, 99)), 1);
        let logged = |words: &str| Event {
            kind: EventKind::Xid,
            line: Some(Arc::new(kernel_line(101, "GPU-0", words))),
            ..recovery("GPU-0", 154, 101)
        };
        let changed = "GPU recovery action changed from";
        assert_eq!(found(logged(&format!("{changed} 0x1 (GPU Reset Required) to 0x0 (None)"))), 0);
        assert_eq!(
            found(logged(&format!("{changed} 0x0 (None) to 0x2 (Node Reboot Required)"))),
            1
        );
    }

    #[test]
    fn of_page_faults_over_months_only_those_of_the_last_day_count() {
        let day = 24 * 60 * 60;
        let found = |seconds: &[i64]| {
            let mut node = node(2);
            for at in seconds {
                node.record_event(Event {
                    at: second(*at),
                    source: Source::new("kernel"),
                    kind: EventKind::Xid,
                    device: "GPU-0".into(),
                    code: Some(31),
                    message: "".into(),
                    count: 1,
                    line: Some(kernel_line(*at, "0000:3b:00.0", "").into()),
                });
            }
            node.mark_sampled(&Source::host(), second(30 * day));
            node.health_reasons(&node.devices[0]).to_vec()
        };
        let last = 30 * day - 60;
        assert_eq!(found(&[day, 2 * day, last]), []);
        assert_eq!(found(&[day, last - 1, last]), [HealthReason::Xid { code: 31, count: 2 }]);
    }

    #[test]
    fn fatal_xids_of_devices_that_are_not_listed_are_told_until_they_are_old() {
        let found = |code, sampled| {
            let mut node = node(1);
            let line = kernel_line(100, "0000:3b:00.0", "");
            node.record_event(Event {
                at: line.at,
                source: Source::new("kernel"),
                kind: EventKind::Xid,
                device: Arc::clone(&line.pci),
                code: Some(code),
                message: "".into(),
                count: 1,
                line: Some(line.into()),
            });
            node.mark_sampled(&Source::host(), second(sampled));
            node.xids_of_unlisted_devices()
        };
        assert_eq!(found(79, 101), [(79, "0000:3b:00.0".into())]);
        assert_eq!(found(31, 101), []);
        assert_eq!(found(79, 101 + 24 * 60 * 60), []);
    }

    #[test]
    fn a_device_of_which_nothing_bad_is_known_is_healthy() {
        let mut node = node(1);
        assert_eq!(node.health(&node.devices[0]), Health::Ok);
        // No value is no fault.
        node.devices = vec![Device::default()].into();
        assert_eq!(node.health(&node.devices[0]), Health::Ok);
    }

    #[test]
    fn standing_values_count_from_the_first_sample_and_the_worst_comes_first() {
        for (action, health) in [
            (RecoveryAction::None, None),
            (RecoveryAction::Reset, Some(Health::Faulty)),
            (RecoveryAction::Reboot, Some(Health::Faulty)),
            (RecoveryAction::DrainAndReset, Some(Health::Faulty)),
            (RecoveryAction::DrainPeers, Some(Health::Degraded)),
        ] {
            let found = with_details(|details| details.recovery = Reading::Known(action));
            assert_eq!(found.first().map(HealthReason::health), health, "{action:?}");
        }
        let found = with_details(|details| {
            details.remapping_pending = Reading::Known(true);
            details.remapping_failed = Reading::Known(true);
            details.retirement_pending = Reading::Known(false);
        });
        assert_eq!(found, [HealthReason::RemapFailed, HealthReason::RemapPending]);
    }

    #[test]
    fn old_memory_errors_count_unless_memory_was_put_aside_for_them() {
        let found = |change: fn(&mut DeviceDetails)| {
            with_details(|details| {
                details.ecc_uncorrected_total = Reading::Known(3);
                change(details);
            })
        };
        let old = [HealthReason::EccUncorrectedTotal(3)];
        assert_eq!(found(|_| {}), old);
        assert_eq!(found(|details| details.remapped_uncorrected = Reading::Known(0)), old);
        assert_eq!(found(|details| details.remapped_uncorrected = Reading::Known(1)), []);
        assert_eq!(found(|details| details.retired_double = Reading::Known(2)), []);
    }

    #[test]
    fn an_xid_counts_for_a_day_and_one_of_programs_only_if_it_is_of_one_device() {
        const DAY: i64 = 24 * 60 * 60;
        let found = |xids: &[(&str, u64)], sampled: i64| {
            reasons(|node| {
                for (device, code) in xids {
                    record_xid(node, device, *code, 100);
                }
                node.mark_sampled(&Source::host(), Timestamp::from_micros(sampled * 1_000_000));
            })
        };
        let xid = |code, count| HealthReason::Xid { code, count };
        assert_eq!(found(&[("GPU-0", 79)], 101), [xid(79, 1)]);
        assert_eq!(found(&[("GPU-0", 79)], 101 + DAY), []);
        assert_eq!(found(&[("GPU-1", 79)], 101), []);
        assert_eq!(found(&[("GPU-0", 94), ("GPU-0", 79)], 101), [xid(79, 1), xid(94, 1)]);
        for of_programs in [13, 43, 45, 63, 92] {
            assert_eq!(found(&[("GPU-0", of_programs); 9], 101), [], "{of_programs}");
        }
        assert_eq!(found(&[("GPU-0", 31)], 101), []);
        assert_eq!(found(&[("GPU-0", 31); 2], 101), [xid(31, 2)]);
        assert_eq!(found(&[("GPU-0", 31), ("GPU-0", 31), ("GPU-1", 31)], 101), []);
    }

    #[test]
    fn a_slow_link_counts_only_where_it_could_be_faster() {
        let found = |change: fn(&mut Vec<Device>)| {
            let found = reasons(|node| change(&mut node.devices));
            found.first().map(HealthReason::text)
        };
        let slow = |text: &str| Some(format!("PCIe {text} of 5x16 under load"));
        assert_eq!(found(|all| all[0].pcie = Reading::Known((3, 16))), slow("3x16"));
        assert_eq!(found(|all| all[0].pcie = Reading::Known((5, 4))), slow("5x4"));
        // Of four equal devices, one has fewer lanes: it sits badly.
        assert_eq!(found(|all| all[0].pcie = Reading::Known((5, 8))), slow("5x8"));
        // All have fewer: so are the slots.
        let of_slot: fn(&mut Vec<Device>) = |all| {
            for device in all {
                device.pcie = Reading::Known((5, 8));
            }
        };
        assert_eq!(found(of_slot), None);
        // It is the only one of its model.
        let of_one: fn(&mut Vec<Device>) = |all| {
            all[0].pcie = Reading::Known((5, 8));
            all[0].name = Reading::Known("L4".into());
        };
        assert_eq!(found(of_one), None);
        let of_unknown: fn(&mut Vec<Device>) = |all| all[0].pcie = Reading::Known((0, 16));
        assert_eq!(found(of_unknown), None);
        // It sleeps, or plays a video.
        let asleep: fn(&mut Vec<Device>) = |all| {
            all[0].pcie = Reading::Known((1, 16));
            all[0].utilization = Reading::checked(Percent::new(3.0));
        };
        assert_eq!(found(asleep), None);
        let slow_clocks: fn(&mut Vec<Device>) = |all| {
            all[0].pcie = Reading::Known((1, 16));
            all[0].performance_state = Reading::Known(8);
        };
        assert_eq!(found(slow_clocks), None);
        let of_integrated: fn(&mut Vec<Device>) = |all| {
            all[0].pcie = Reading::Known((5, 1));
            all[0].has_host_memory = true;
        };
        assert_eq!(found(of_integrated), None);
        // The maximum that AMD's driver reports is that of the device, whatever the slot has.
        let of_amd: fn(&mut Vec<Device>) = |all| {
            for device in all {
                device.vendor = Reading::Known(Vendor::Amd);
                device.pcie = Reading::Known((4, 16));
            }
        };
        assert_eq!(found(of_amd), None);
    }

    #[test]
    fn without_the_values_that_tell_of_it_health_is_unknown() {
        let mut node = node(2);
        assert_eq!(node.health(&node.devices[0]), Health::Ok);
        let details = DeviceDetails {
            recovery: Reading::Unknown(Reason::DriverError),
            ..DeviceDetails::default()
        };
        node.devices[0].details = Some(Arc::new(details));
        node.health.forget();
        let unread = |reason| vec![HealthReason::NotRead(reason)];
        assert_eq!(node.health_reasons(&node.devices[0]), unread(Reason::DriverError));
        assert_eq!(node.health(&node.devices[1]), Health::Ok);
        // None has come yet.
        let backend = Source::new("nvml");
        node.device_sources = vec![backend.clone(); 2].into();
        node.source_mut(&backend.slow()).taken_at = None;
        node.health.forget();
        assert_eq!(node.health_reasons(&node.devices[1]), unread(Reason::NotSampled));
        node.mark_sampled(&backend.slow(), Timestamp::default());
        node.health.forget();
        assert_eq!(node.health(&node.devices[1]), Health::Ok);
    }

    #[test]
    fn the_health_of_a_device_on_a_page_of_metrics_is_unknown_unless_something_is_wrong() {
        let mut node = node(1);
        node.via = Some(TransportKind::Http);
        let not_told = HealthReason::NotRead(Reason::NotOffered);
        assert_eq!(node.health_reasons(&node.devices[0]), std::slice::from_ref(&not_told));
        assert_eq!(node.health(&node.devices[0]), Health::Unknown);
        node.devices[0].ecc_uncorrected = Reading::Known(1);
        node.health.forget();
        let reasons = [HealthReason::EccUncorrected(1), not_told];
        assert_eq!(node.health_reasons(&node.devices[0]), reasons);
    }

    #[test]
    fn a_fan_has_failed_if_it_alone_cannot_be_read() {
        let found = |fan, temperature| {
            reasons(|node| {
                node.devices[0].fan = Reading::Unknown(fan);
                node.devices[0].temperature = temperature;
            })
        };
        let warm = Reading::checked(Celsius::new(50.0));
        assert_eq!(found(Reason::DriverError, warm), [HealthReason::FanFailed]);
        assert_eq!(found(Reason::NotSupported, warm), []);
        assert_eq!(found(Reason::DriverError, Reading::Unknown(Reason::DriverError)), []);
        // The driver was away when the group of the fan was read last.
        let away = reasons(|node| {
            node.devices[0].fan = Reading::Unknown(Reason::DriverError);
            node.devices[0].pcie = Reading::Unknown(Reason::DriverError);
        });
        assert_eq!(away, []);
    }

    #[test]
    fn links_between_devices_are_compared_with_those_of_the_other_devices() {
        // Returns the reason of each device with so many active links.
        let told_of = |model: &str, fabric, active: &[u32]| {
            let mut node = node(u32::try_from(active.len()).unwrap());
            for (device, active) in node.devices.iter_mut().zip(active) {
                device.name = Reading::Known(model.into());
                let nvlinks_active = Reading::Known(*active);
                let details = DeviceDetails { fabric, nvlinks_active, ..DeviceDetails::default() };
                device.details = details.shared();
            }
            let texts = node.devices.iter().map(|device| {
                node.health_reasons(device).iter().map(HealthReason::text).collect::<String>()
            });
            texts.collect::<Vec<_>>().join(";")
        };
        let none = Reading::Known(FabricState::None);
        let told = |active: &[u32]| told_of("H100", none, active);
        assert_eq!(told(&[18, 18, 17, 18]), ";;17 of 18 NVLinks active;");
        // A link has two ends.
        let of_two = "5 of 6 NVLinks active;;;5 of 6 NVLinks active;;";
        assert_eq!(told(&[5, 6, 6, 5, 6, 6]), of_two);
        assert_eq!(told(&[4, 4, 4, 0]), ";;;0 of 4 NVLinks active");
        // Bridges join pairs, and one device is left; or pairs have different numbers of bridges.
        for design in [&[4, 4, 0][..], &[4, 4, 12, 12], &[0, 0, 0], &[18, 17], &[18], &[4, 4, 0, 0]]
        {
            assert_eq!(told(design), ";".repeat(design.len() - 1), "{design:?}");
        }
        // Where the board joins them, all have as many.
        for (model, fabric) in [
            ("A100-SXM4-80GB", none),
            ("H100 80GB HBM3", none),
            ("H200", Reading::Known(FabricState::Completed)),
            ("H200", Reading::Known(FabricState::InProgress)),
        ] {
            let told = |active: &[u32]| told_of(model, fabric, active);
            assert_eq!(told(&[18, 0, 18]), ";0 of 18 NVLinks active;");
            assert_eq!(told(&[18, 17, 17]), ";17 of 18 NVLinks active;17 of 18 NVLinks active");
            assert_eq!(told(&[0, 0, 0]), ";;");
        }
    }

    #[test]
    fn a_device_of_which_every_value_fails_is_faulty_and_one_of_which_some_do_is_not() {
        let told = |why: Reason, has_power: bool| {
            reasons(|node| {
                let device = &mut node.devices[0];
                (device.utilization, device.memory_used) =
                    (Reading::Unknown(why), Reading::Unknown(why));
                device.temperature = Reading::Unknown(why);
                if !has_power {
                    device.power = Reading::Unknown(why);
                }
            })
        };
        let failed = HealthReason::Driver("every value fails".into());
        assert_eq!(told(Reason::DriverError, false), [failed]);
        assert_eq!(told(Reason::NoPermission, false), [HealthReason::NoPermission]);
        for (why, has_power) in [
            (Reason::DriverError, true),
            (Reason::NotSupported, false),
            (Reason::NotSampled, false),
        ] {
            assert_eq!(told(why, has_power), [], "{why:?}");
        }
    }
}
