//! Looks at the devices of a node for what is a fault only if it lasts.

use std::time::Duration;

use crate::node::Node;
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Device, Source, stale_after};

/// Full load, in percent.
const FULL_LOAD: f32 = 99.0;
/// A device with less memory in use than a context of CUDA has, in bytes, works for nobody.
const MAX_EMPTY_BYTES: Bytes = Bytes(64 << 20);
/// What is not seen for less than this goes on.
const MIN_GAP: Duration = Duration::from_secs(10);

/// Remembers what a sample of a source tells of its devices.
pub(super) fn update_lasting(node: &mut Node, source: &Source, at: Timestamp) {
    let interval = node.source(source).map_or(Duration::ZERO, |state| state.interval);
    let max_gap = stale_after(interval).max(MIN_GAP);
    let mut lasting = std::mem::take(&mut node.lasting);
    let own = node
        .devices
        .iter()
        .enumerate()
        .filter(|(position, _)| node.device_sources.get(*position) == Some(source));
    let looks = own.map(|(position, device)| (device, is_loaded_by_nobody(node, position, device)));
    lasting.remember(looks, at, max_gap);
    node.lasting = lasting;
    node.health.forget();
}

/// Returns true if a device is at full load, and neither memory nor a process tells for whom.
fn is_loaded_by_nobody(node: &Node, position: usize, device: &Device) -> bool {
    // A driver that is loaded for each look reports the load of its own start.
    let is_loaded = device.persistence.get() == Some(true)
        || node.device_sources.get(position).is_some_and(|source| source.as_str() == "nvml");
    device.utilization.get().is_some_and(|share| share.get() >= FULL_LOAD)
        && is_loaded
        && !node.is_cut(device)
        && device.parent.is_none()
        && !device.has_host_memory
        // Without it, what the driver reserves is part of the memory in use.
        && device.memory_reserved.get().is_some()
        && device.memory_used.get().is_some_and(|used| used < MAX_EMPTY_BYTES)
        && device.hidden_processes.get().is_none_or(|count| count == 0)
        && !node.is_used(device)
        && node.users_unknown_reason(position).is_none()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::HealthReason;
    use crate::lasting::Lasting;
    use gtop_model::{
        DeviceDetails, DeviceRates, DeviceStatics, DeviceUse, NodeName, Percent, Reading, Throttle,
        Vendor,
    };

    const SECOND: i64 = 1_000_000;

    /// Returns a node with a device that is at full load and has nothing in its memory.
    fn node(source: &str) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.device_sources = [Source::new(source)].into();
        node.devices = vec![Device {
            uuid: "GPU-1".into(),
            utilization: Reading::checked(Percent::new(100.0)),
            memory_used: Reading::Known(Bytes(5 << 20)),
            memory_reserved: Reading::Known(Bytes(600 << 20)),
            throttle: Reading::Known(Throttle(0)),
            ..Device::default()
        }]
        .into();
        node.mark_sampled(&Source::new(source).processes(), Timestamp::default());
        node
    }

    /// Looks at a node every second, from this second until that one.
    fn watch(node: &mut Node, seconds: std::ops::RangeInclusive<i64>) {
        let source = node.device_sources[0].clone();
        for second in seconds {
            update_lasting(node, &source, Timestamp::from_micros(second * SECOND));
        }
    }

    fn names(node: &Node) -> Vec<&'static str> {
        node.health_reasons(&node.devices[0]).iter().map(HealthReason::id).collect()
    }

    /// Returns the names of the reasons after each of these seconds of throttling for these reasons.
    fn after(bits: u64, seconds: [i64; 2]) -> [Vec<&'static str>; 2] {
        let mut node = node("nvidia-smi");
        node.devices[0].throttle = Reading::Known(Throttle(bits));
        watch(&mut node, 0..=seconds[0]);
        let first = names(&node);
        watch(&mut node, seconds[0] + 1..=seconds[1]);
        [first, names(&node)]
    }

    #[test]
    fn what_slows_a_device_down_for_long_degrades_it() {
        let thermal = vec!["throttled_thermal"];
        assert_eq!(after(0x20, [59, 60]), [vec![], thermal.clone()]);
        assert_eq!(after(0x48, [59, 60]), [vec![], thermal]);
        assert_eq!(after(0x88, [9, 10]), [vec![], vec!["throttled_power_brake"]]);
        assert_eq!(after(0x08, [59, 60]), [vec![], vec!["throttled_hardware"]]);
        // A power limit, a clock setting and idleness are none of it.
        for harmless in [0x00, 0x01, 0x02, 0x04, 0x10, 0x100] {
            assert_eq!(after(harmless, [60, 900]).concat(), [""; 0], "{harmless:#x}");
        }
    }

    #[test]
    fn a_short_break_does_not_end_it_and_a_long_one_does() {
        let mut node = node("nvidia-smi");
        let set = |node: &mut Node, bits| node.devices[0].throttle = Reading::Known(Throttle(bits));
        set(&mut node, 0x20);
        watch(&mut node, 0..=40);
        set(&mut node, 0);
        watch(&mut node, 41..=49);
        set(&mut node, 0x20);
        watch(&mut node, 50..=60);
        assert_eq!(names(&node), ["throttled_thermal"]);
        set(&mut node, 0);
        watch(&mut node, 61..=70);
        assert_eq!(names(&node), ["throttled_thermal"]);
        node.devices[0].utilization = Reading::default();
        watch(&mut node, 71..=71);
        assert_eq!(names(&node), [""; 0]);
        assert_eq!(node.lasting, Lasting::default());
        // Nothing is known of a time without samples.
        set(&mut node, 0x20);
        watch(&mut node, 100..=130);
        watch(&mut node, 400..=430);
        assert_eq!(names(&node), [""; 0]);
    }

    #[test]
    fn counters_tell_of_heat_before_a_moment_does() {
        let mut node = node("nvidia-smi");
        let throttled = |node: &mut Node, share: f32, bits| {
            let rates = DeviceRates {
                thermal_throttled: Reading::checked(Percent::new(share)),
                hardware_thermal_throttled: Reading::Known(Percent::default()),
                ..DeviceRates::default()
            };
            node.devices[0].rates = Some(Arc::new(rates));
            node.devices[0].throttle = Reading::Known(Throttle(bits));
        };
        throttled(&mut node, 4.0, 0x20);
        watch(&mut node, 0..=90);
        assert_eq!(names(&node), [""; 0]);
        throttled(&mut node, 6.0, 0);
        watch(&mut node, 91..=95);
        throttled(&mut node, 3.0, 0);
        watch(&mut node, 96..=151);
        assert_eq!(names(&node), ["throttled_thermal"]);
        throttled(&mut node, 2.0, 0x20);
        watch(&mut node, 152..=162);
        assert_eq!(names(&node), [""; 0]);
    }

    #[test]
    fn full_load_for_nobody_degrades_a_device_and_load_with_a_reason_does_not() {
        let after = |source, change: fn(&mut Node)| {
            let mut node = node(source);
            change(&mut node);
            watch(&mut node, 0..=59);
            assert_eq!(names(&node), [""; 0]);
            watch(&mut node, 60..=60);
            names(&node)
        };
        assert_eq!(after("nvml", |_| {}), ["load_without_process"]);
        let is_persistent = |node: &mut Node| node.devices[0].persistence = Reading::Known(true);
        assert_eq!(after("nvidia-smi", is_persistent), ["load_without_process"]);
        // Without persistence mode, each call of nvidia-smi loads the driver, which is work.
        assert_eq!(after("nvidia-smi", |_| {}), [""; 0]);
        let near_misses: [fn(&mut Node); 7] = [
            |node| node.devices[0].utilization = Reading::checked(Percent::new(98.0)),
            |node| node.devices[0].memory_used = Reading::Known(Bytes(300 << 20)),
            |node| node.devices[0].memory_used = Reading::default(),
            |node| node.devices[0].hidden_processes = Reading::Known(1),
            |node| node.devices[0].mig = Reading::Known(true),
            |node| {
                let device = "GPU-1".into();
                node.uses = [DeviceUse { device, pid: 7, ..DeviceUse::default() }].into();
            },
            |node| {
                let reports_users = Reading::Unknown(gtop_model::Reason::NotSupported);
                let details = DeviceDetails { reports_users, ..DeviceDetails::default() };
                node.devices[0].details = details.shared();
            },
        ];
        for (index, near_miss) in near_misses.into_iter().enumerate() {
            assert_eq!(after("nvml", near_miss), [""; 0], "{index}");
        }
    }

    #[test]
    fn the_link_of_a_device_that_has_just_begun_to_work_is_not_judged_by_its_sleep() {
        let mut node = node("nvml");
        let statics =
            DeviceStatics { pcie_max: Reading::Known((5, 16)), ..DeviceStatics::default() };
        let device = &mut node.devices[0];
        (device.vendor, device.statics) = (Reading::Known(Vendor::Nvidia), statics.shared());
        device.memory_used = Reading::Known(Bytes(20 << 30));
        device.performance_state = Reading::Known(0);
        // Load, the generation of the link at the time of the last slow group, and that time.
        for (second, (load, generation, taken_at, expected)) in (0..).zip([
            (0.0, 1, 0, ""),
            (97.0, 1, 0, ""),
            (97.0, 1, 0, ""),
            (97.0, 5, 3, ""),
            (97.0, 3, 4, "pcie_below_max"),
            (0.0, 1, 5, ""),
            (97.0, 1, 5, ""),
            (97.0, 1, 7, "pcie_below_max"),
        ]) {
            node.devices[0].utilization = Reading::checked(Percent::new(load));
            node.devices[0].pcie = Reading::Known((generation, 16));
            let slow = Source::new("nvml").slow();
            node.mark_sampled(&slow, Timestamp::from_micros(taken_at * SECOND));
            watch(&mut node, second..=second);
            let ids = node.health_reasons(&node.devices[0]).iter().map(HealthReason::id);
            assert_eq!(ids.collect::<Vec<_>>().join(","), expected, "second {second}");
        }
    }

    #[test]
    fn a_link_that_was_up_before_is_missed_until_it_is_back() {
        let mut node = node("nvml");
        node.devices[0].utilization = Reading::default();
        let set = |node: &mut Node, nvlinks_active: u32| {
            let nvlinks_active = Reading::Known(nvlinks_active);
            let details = DeviceDetails { nvlinks_active, ..DeviceDetails::default() };
            node.devices[0].details = details.shared();
        };
        for (second, (active, expected)) in (0..).zip([
            (4, ""),
            (0, "0 of 4 NVLinks active"),
            (3, "3 of 4 NVLinks active"),
            (4, ""),
        ]) {
            set(&mut node, active);
            watch(&mut node, second..=second);
            let texts = node.health_reasons(&node.devices[0]).iter().map(HealthReason::text);
            assert_eq!(texts.collect::<Vec<_>>().join(","), expected);
        }
    }
}
