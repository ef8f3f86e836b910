//! Decodes typed devices and their processes: checks each number, and gives each missing value a reason.

use std::sync::Arc;

use crate::model::{
    Bytes, Celsius, ComputeMode, Device, DeviceActivity, DeviceCounters, DeviceDetails,
    DeviceFault, DeviceStatics, DeviceUse, FabricHealth, FabricState, FanSpeed, LinkCounters,
    Megahertz, Percent, Reading, Reason, RecoveryAction, Throttle, UseKind, Watts, sanitize_shared,
};
use crate::wire::body::{self, Raw};
use crate::wire::csv::{MAX_NAME_LENGTH, MAX_USES};
use crate::wire::decode::names::NameInterner;
use crate::wire::decode::{percent, to_f32};

mod tpu;

/// Maximum number of links per device.
const MAX_LINKS: usize = 64;

/// A device as sent, with its reasons for missing values.
pub(super) struct DeviceDecoder<'a>(pub(super) &'a body::Device);

impl DeviceDecoder<'_> {
    fn null_reason(&self, key: &str) -> Reason {
        self.0.lacks.get(key).map_or(Reason::NotAvailable, |why| missing_reason(why))
    }

    /// Returns a value, or the reason it is missing; looks the reason up only for `null`.
    fn read<T>(&self, raw: Raw<T>, key: &str) -> Reading<T> {
        let is_null = matches!(raw, Raw::Null);
        raw.reading(if is_null { self.null_reason(key) } else { Reason::NotAvailable })
    }

    /// Returns the unknown value of a key, with its reason.
    pub(super) fn unknown<T>(&self, key: &str) -> Reading<T> {
        Reading::Unknown(self.null_reason(key))
    }

    pub(super) fn count(&self, raw: Raw<u64>, key: &str) -> Reading<u64> {
        self.read(raw, key)
    }

    pub(super) fn count_u32(&self, raw: Raw<u64>, key: &str) -> Reading<u32> {
        self.count(raw, key).and_then(|number| u32::try_from(number).ok())
    }

    fn state<T>(&self, raw: Raw<u64>, key: &str, parse: fn(u64) -> Option<T>) -> Reading<T> {
        self.count(raw, key).and_then(parse)
    }

    pub(super) fn flag(&self, raw: Raw<bool>, key: &str) -> Reading<bool> {
        self.read(raw, key)
    }

    fn bytes(&self, raw: Raw<u64>, key: &str) -> Reading<Bytes> {
        self.count(raw, key).and_then(Bytes::from_memory)
    }

    pub(super) fn number(&self, raw: Raw<f64>, key: &str) -> Reading<f64> {
        self.read(raw, key)
    }

    pub(super) fn percent(&self, raw: Raw<f64>, key: &str) -> Reading<Percent> {
        self.number(raw, key).and_then(|share| Percent::new(to_f32(share)))
    }

    fn celsius(&self, raw: Raw<f64>, key: &str) -> Reading<Celsius> {
        self.read(raw, key).and_then(|degrees| Celsius::new(to_f32(degrees)))
    }

    /// Returns a text of the driver. `null` and absent are both `None`, so `lacks` tells them apart.
    fn text(&self, raw: Option<&str>, key: &str) -> Reading<Arc<str>> {
        match (raw, self.0.lacks.get(key)) {
            (Some(word), _) => Reading::Known(sanitize_shared(word, MAX_NAME_LENGTH)),
            (None, Some(why)) => Reading::Unknown(missing_reason(why)),
            (None, None) => Reading::default(),
        }
    }

    fn clock(&self, raw: Raw<u64>, key: &str) -> Reading<Megahertz> {
        self.count_u32(raw, key).and_then(Megahertz::new)
    }

    fn power(&self, raw: Raw<u64>, key: &str) -> Reading<Watts> {
        let watts = |milliwatts: u32| Watts::new(to_f32(f64::from(milliwatts) / 1000.0));
        self.count_u32(raw, key).and_then(watts)
    }

    /// Returns one of the hardware's activity counters; a device has nearly all of them or none.
    fn activity(&self, raw: Raw<[Raw<f64>; 8]>, index: usize) -> Reading<Percent> {
        let list = match raw {
            Raw::Value(list) => list,
            Raw::Absent => return Reading::default(),
            Raw::Null => return Reading::Unknown(self.null_reason("activity")),
            Raw::Wrong => return Reading::Unknown(Reason::Malformed),
        };
        let raw = list.get(index).copied().unwrap_or_default();
        raw.reading(Reason::NotSupported).and_then(|share| Percent::new(to_f32(share)))
    }

    /// Returns one of the hardware's throughput values, sent in MiB per second.
    fn throughput(raw: Raw<[Raw<f64>; 4]>, index: usize) -> Reading<Bytes> {
        let Raw::Value(list) = raw else { return Reading::default() };
        let raw = list.get(index).copied().unwrap_or_default();
        raw.reading(Reason::NotSupported).and_then(|mib| {
            // No link is that fast (1e9 MiB/s): the value is invalid.
            let is_sane = (0.0..1e9).contains(&mib);
            is_sane.then(|| Bytes(mib_to_bytes(mib)))
        })
    }

    /// Returns two numbers that are meaningful only together.
    fn pair(&self, raw: [Raw<u64>; 2], keys: [&str; 2]) -> Reading<(u8, u8)> {
        let [first, second] = raw;
        let [first_key, second_key] = keys;
        let byte = |raw, key| self.count(raw, key).and_then(|number| u8::try_from(number).ok());
        match (byte(first, first_key), byte(second, second_key)) {
            (Reading::Known(first), Reading::Known(second)) => Reading::Known((first, second)),
            (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => {
                Reading::Unknown(reason)
            }
        }
    }
}

pub(super) fn device(sent: &body::Device, names: &mut NameInterner) -> Device {
    let device = DeviceDecoder(sent);
    let name = |raw: &Option<String>| text(raw.as_deref(), MAX_NAME_LENGTH);
    Device {
        uuid: names.intern(&sent.uuid, MAX_NAME_LENGTH),
        parent: sent.parent.as_deref().map(|parent| names.intern(parent, MAX_NAME_LENGTH)),
        index: device.count_u32(sent.index, "index"),
        vendor: Reading::default(),
        name: name(&sent.name),
        pci: name(&sent.pci),
        utilization: device.percent(sent.util, "util"),
        memory_utilization: device.percent(sent.memory_util, "memory_util"),
        has_host_memory: false,
        memory_total: device.bytes(sent.memory_total, "memory_total"),
        memory_used: device.bytes(sent.memory_used, "memory_used"),
        memory_free: device.bytes(sent.memory_free, "memory_free"),
        memory_reserved: device.bytes(sent.memory_reserved, "memory_reserved"),
        temperature: device.celsius(sent.temperature, "temperature"),
        memory_temperature: device.celsius(sent.temperature_memory, "temperature_memory"),
        power: device.power(sent.power, "power"),
        power_limit: device.power(sent.power_limit, "power_limit"),
        sm_clock: device.clock(sent.clock_sm, "clock_sm"),
        memory_clock: device.clock(sent.clock_memory, "clock_memory"),
        fan: device.number(sent.fan, "fan").and_then(|share| FanSpeed::new(to_f32(share))),
        performance_state: device.state(sent.pstate, "pstate", |state| {
            u8::try_from(state).ok().filter(|state| *state <= 15)
        }),
        throttle: device.count(sent.throttle, "throttle").map(Throttle),
        ecc_corrected: device.count(sent.ecc_corrected, "ecc_corrected"),
        ecc_uncorrected: device.count(sent.ecc_uncorrected, "ecc_uncorrected"),
        persistence: device.flag(sent.persistence, "persistence"),
        mig: device.flag(sent.mig, "mig"),
        pcie: device
            .pair([sent.pcie_generation, sent.pcie_lanes], ["pcie_generation", "pcie_lanes"]),
        statics: sent.statics.as_deref().and_then(|group| statics(&device, group).shared()),
        activity: sent.activity.as_deref().and_then(|group| activity(&device, group).shared()),
        details: sent.details.as_deref().and_then(|group| details(&device, group).shared()),
        counters: sent.counters.as_deref().and_then(|group| counters(&device, group).shared()),
        rates: None,
        hidden_processes: Reading::default(),
        hidden_memory: Reading::default(),
        tpu: tpu::tpu(&device),
        fault: sent.fault.as_deref().map(device_fault),
    }
}

fn text(raw: Option<&str>, limit: usize) -> Reading<Arc<str>> {
    raw.map_or_else(Reading::default, |text| Reading::Known(sanitize_shared(text, limit)))
}

/// Shares equal values of consecutive devices in memory: the devices of a node are mostly alike.
pub(super) fn share_equal_values(list: &mut [Device]) {
    let mut rest = list.iter_mut();
    let Some(mut before) = rest.next() else { return };
    for device in rest {
        if device.statics == before.statics {
            device.statics.clone_from(&before.statics);
        }
        if device.name == before.name {
            device.name.clone_from(&before.name);
        }
        before = device;
    }
}

fn statics(device: &DeviceDecoder<'_>, sent: &body::DeviceStatics) -> DeviceStatics {
    DeviceStatics {
        driver: text(sent.driver.as_deref(), MAX_NAME_LENGTH),
        sm_clock_max: device.clock(sent.clock_sm_max, "clock_sm_max"),
        memory_clock_max: device.clock(sent.clock_memory_max, "clock_memory_max"),
        pcie_max: device.pair(
            [sent.pcie_generation_max, sent.pcie_lanes_max],
            ["pcie_generation_max", "pcie_lanes_max"],
        ),
        capability: text(sent.capability.as_deref(), 16),
        numa_node: device.count_u32(sent.numa_node, "numa_node"),
        minor: device.count_u32(sent.minor, "minor"),
        gpu_instance: device.count_u32(sent.gpu_instance, "gpu_instance"),
        compute_instance: device.count_u32(sent.compute_instance, "compute_instance"),
        graphics_clock_max: device.clock(sent.clock_graphics_max, "clock_graphics_max"),
        video_clock_max: device.clock(sent.clock_video_max, "clock_video_max"),
        slowdown_temperature: device.celsius(sent.temperature_slowdown, "temperature_slowdown"),
        shutdown_temperature: device.celsius(sent.temperature_shutdown, "temperature_shutdown"),
        power_limit_default: device.power(sent.power_limit_default, "power_limit_default"),
        power_limit_min: device.power(sent.power_limit_min, "power_limit_min"),
        power_limit_max: device.power(sent.power_limit_max, "power_limit_max"),
        nvlinks: device.count_u32(sent.nvlinks, "nvlinks"),
        junction_slowdown_temperature: device.celsius(sent.junction_slowdown, "junction_slowdown"),
        memory_slowdown_temperature: device.celsius(sent.memory_slowdown, "memory_slowdown"),
        host_memory_total: device.bytes(sent.gtt_total, "gtt_total"),
    }
}

fn activity(device: &DeviceDecoder<'_>, sent: &body::DeviceActivity) -> DeviceActivity {
    let active = |index: usize| device.activity(sent.activity, index);
    let flow = |index: usize| DeviceDecoder::throughput(sent.flow, index);
    DeviceActivity {
        power_instant: device.power(sent.power_instant, "power_instant"),
        graphics_active: active(0),
        sm_active: active(1),
        sm_occupancy: active(2),
        tensor_active: active(3),
        dram_active: active(4),
        fp64_active: active(5),
        fp32_active: active(6),
        fp16_active: active(7),
        pcie_sent: flow(0),
        pcie_received: flow(1),
        nvlink_received: flow(2),
        nvlink_sent: flow(3),
    }
}

fn details(device: &DeviceDecoder<'_>, sent: &body::DeviceDetails) -> DeviceDetails {
    DeviceDetails {
        reports_users: device.flag(sent.users, "users"),
        encoder: device.percent(sent.encoder, "encoder"),
        decoder: device.percent(sent.decoder, "decoder"),
        jpeg: device.percent(sent.jpeg, "jpeg"),
        optical_flow: device.percent(sent.ofa, "ofa"),
        power_average: device.power(sent.power_average, "power_average"),
        power_limit_requested: device.power(sent.power_limit_requested, "power_limit_requested"),
        energy_millijoules: device.count(sent.energy, "energy"),
        graphics_clock: device.clock(sent.clock_graphics, "clock_graphics"),
        video_clock: device.clock(sent.clock_video, "clock_video"),
        temperature_margin: device.celsius(sent.temperature_margin, "temperature_margin"),
        display_active: device.flag(sent.display, "display"),
        compute_mode: device.state(sent.compute_mode, "compute_mode", ComputeMode::new),
        ecc_enabled: device.flag(sent.ecc_mode, "ecc_mode"),
        ecc_corrected_total: device.count(sent.ecc_corrected_total, "ecc_corrected_total"),
        ecc_uncorrected_total: device.count(sent.ecc_uncorrected_total, "ecc_uncorrected_total"),
        retired_single: device.count(sent.retired_single, "retired_single"),
        retired_double: device.count(sent.retired_double, "retired_double"),
        retirement_pending: device.flag(sent.retired_pending, "retired_pending"),
        remapped_corrected: device.count(sent.remapped_corrected, "remapped_corrected"),
        remapped_uncorrected: device.count(sent.remapped_uncorrected, "remapped_uncorrected"),
        remapping_pending: device.flag(sent.remap_pending, "remap_pending"),
        remapping_failed: device.flag(sent.remap_failed, "remap_failed"),
        sram_threshold_exceeded: device.flag(sent.sram_threshold, "sram_threshold"),
        pcie_replays: device.count(sent.pcie_replays, "pcie_replays"),
        bar1_total: device.bytes(sent.bar1_total, "bar1_total"),
        bar1_used: device.bytes(sent.bar1_used, "bar1_used"),
        bar1_free: device.bytes(sent.bar1_free, "bar1_free"),
        fabric: device.state(sent.fabric, "fabric", FabricState::new),
        fabric_health: device.count_u32(sent.fabric_health, "fabric_health").map(FabricHealth),
        recovery: device.state(sent.recovery, "recovery", RecoveryAction::new),
        xid: device.count_u32(sent.xid, "xid"),
        xids: device.count(sent.xids, "xids"),
        links: links(sent.links.as_deref()),
        host_memory_used: device.bytes(sent.gtt_used, "gtt_used"),
        junction_temperature: device.celsius(sent.temperature_junction, "temperature_junction"),
        fan_rpm: device.count_u32(sent.fan_rpm, "fan_rpm"),
        video: device.percent(sent.video, "video"),
        performance_level: device.text(sent.performance_level.as_deref(), "performance_level"),
        compute_partition: device.text(sent.compute_partition.as_deref(), "compute_partition"),
        memory_partition: device.text(sent.memory_partition.as_deref(), "memory_partition"),
    }
}

fn counters(device: &DeviceDecoder<'_>, sent: &body::DeviceCounters) -> DeviceCounters {
    DeviceCounters {
        pcie_received: device.count(sent.pcie_rx, "pcie_rx"),
        pcie_sent: device.count(sent.pcie_tx, "pcie_tx"),
        nvlink_received: device.count(sent.nvlink_rx, "nvlink_rx"),
        nvlink_sent: device.count(sent.nvlink_tx, "nvlink_tx"),
        power_throttled: device.count(sent.held_power, "held_power"),
        thermal_throttled: device.count(sent.held_thermal, "held_thermal"),
        sync_boost_throttled: device.count(sent.held_sync_boost, "held_sync_boost"),
        hardware_thermal_throttled: device.count(sent.held_hw_thermal, "held_hw_thermal"),
        power_brake_throttled: device.count(sent.held_power_brake, "held_power_brake"),
    }
}

fn links(sent: Option<&[[Raw<u64>; 2]]>) -> Reading<Arc<[LinkCounters]>> {
    let bytes = |raw: Raw<u64>| raw.reading(Reason::NotAvailable).get();
    let link = |[sent, received]: &[Raw<u64>; 2]| LinkCounters {
        sent: bytes(*sent),
        received: bytes(*received),
    };
    sent.map_or_else(Reading::default, |links| {
        Reading::Known(links.iter().take(MAX_LINKS).map(link).collect())
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be small and not negative"
)]
fn mib_to_bytes(mib: f64) -> u64 {
    (mib * 1_048_576.0) as u64
}

fn missing_reason(why: &str) -> Reason {
    match why {
        "not supported" => Reason::NotSupported,
        "no permission" => Reason::NoPermission,
        "driver error" => Reason::DriverError,
        "malformed" => Reason::Malformed,
        "asleep" => Reason::Asleep,
        "no workload" => Reason::NoWorkload,
        _ => Reason::NotAvailable,
    }
}

fn device_fault(word: &str) -> DeviceFault {
    match word {
        "lost" => DeviceFault::Lost,
        "reset" => DeviceFault::NeedsReset,
        "perm" => DeviceFault::NoPermission,
        _ => DeviceFault::Other(sanitize_shared(word, 160)),
    }
}

/// Decodes the processes of devices; an entry without a device belongs to the previous one's.
pub(super) fn uses(sent: &[body::Use], names: &mut NameInterner) -> Vec<DeviceUse> {
    let mut device: Option<Arc<str>> = None;
    let mut list = Vec::with_capacity(sent.len().min(MAX_USES));
    for used in sent.iter().take(MAX_USES) {
        if !used.device.is_empty() {
            device = Some(names.intern(&used.device, MAX_NAME_LENGTH));
        }
        list.extend(device.clone().map(|device| device_use(used, device)));
    }
    list
}

fn device_use(sent: &body::Use, device: Arc<str>) -> DeviceUse {
    let kind = sent.kind.as_deref();
    DeviceUse {
        device,
        pid: sent.pid,
        memory: sent.memory.reading(Reason::NotAvailable).and_then(Bytes::from_memory),
        sm: percent(sent.sm),
        memory_utilization: percent(sent.mem),
        encoder: percent(sent.enc),
        decoder: percent(sent.dec),
        occupancy: percent(sent.occupancy),
        kind: kind.map_or_else(Reading::default, |letters| Reading::checked(UseKind::new(letters))),
        driver_name: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_of_devices_are_stored_once() {
        let device_of = |name: &str, node| Device {
            name: Reading::Known(name.into()),
            statics: DeviceStatics { numa_node: Reading::Known(node), ..DeviceStatics::default() }
                .shared(),
            ..Device::default()
        };
        let sent =
            [device_of("H100", 0), device_of("H100", 0), device_of("H100", 1), device_of("L4", 1)];
        let mut list = sent.clone();
        share_equal_values(&mut list);
        assert_eq!(list, sent);
        let is_shared = |(one, other): (&Device, &Device)| {
            let names = one.name.known().zip(other.name.known());
            let statics = one.statics.as_ref().zip(other.statics.as_ref());
            [
                names.is_some_and(|(one, other)| Arc::ptr_eq(one, other)),
                statics.is_some_and(|(one, other)| Arc::ptr_eq(one, other)),
            ]
        };
        let shared: Vec<_> = list.iter().zip(&list[1..]).map(is_shared).collect();
        assert_eq!(shared, [[true, true], [true, false], [false, true]]);
        // An equal newer sample keeps them shared.
        let before = list[0].statics.clone().unwrap();
        list[0].update_from(device_of("H100", 0));
        assert!(Arc::ptr_eq(&before, list[0].statics.as_ref().unwrap()));
    }

    #[test]
    fn a_missing_value_has_the_reason_from_the_probe() {
        let sent = body::Device {
            uuid: "GPU-1".into(),
            fan: Raw::Null,
            power: Raw::Null,
            pstate: Raw::Value(77),
            details: Some(Box::new(body::DeviceDetails {
                encoder: Raw::Null,
                recovery: Raw::Value(99),
                ..body::DeviceDetails::default()
            })),
            lacks: [
                ("fan".to_owned(), "not supported".to_owned()),
                ("encoder".to_owned(), "no permission".to_owned()),
            ]
            .into(),
            ..body::Device::default()
        };
        let device = device(&sent, &mut NameInterner::default());
        assert_eq!(device.fan, Reading::Unknown(Reason::NotSupported));
        assert_eq!(device.power, Reading::Unknown(Reason::NotAvailable));
        assert_eq!(device.performance_state, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.utilization, Reading::Unknown(Reason::NotSampled));
        let details = device.details.unwrap();
        assert_eq!(details.encoder, Reading::Unknown(Reason::NoPermission));
        assert_eq!(details.recovery, Reading::Unknown(Reason::Malformed));
        assert_eq!((device.statics, device.counters), (None, None));
    }

    #[test]
    fn impossible_numbers_do_not_affect_others() {
        let sent: body::Device = serde_json::from_str(
            r#"{"uuid": "GPU-1", "util": 2147483632, "fan": 140, "power": 18446744073709551615,
                "temperature": 1e308, "clock_sm": -5, "mig": 1, "links": [[1, null], ["x", 2]]}"#,
        )
        .unwrap();
        let device = device(&sent, &mut NameInterner::default());
        assert_eq!(device.utilization, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.power, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.temperature, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.sm_clock, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.mig, Reading::Unknown(Reason::Malformed));
        // A driver may request a fan speed above 100 %.
        assert_eq!(device.fan.get().map(FanSpeed::get), Some(140.0));
        let links = device.details.unwrap().links.clone().into_known().unwrap();
        let link = |sent, received| LinkCounters { sent, received };
        assert_eq!(*links, [link(Some(1), None), link(None, Some(2))]);
    }

    #[test]
    fn a_use_without_a_device_belongs_to_the_previous_device() {
        let sent: Vec<body::Use> = serde_json::from_str(
            r#"[{"pid": 1}, {"device": "GPU-a", "pid": 2, "kind": "C"}, {"pid": 3, "kind": "Z"},
                {"device": "GPU-b", "pid": 4}]"#,
        )
        .unwrap();
        let found = uses(&sent, &mut NameInterner::default());
        let pairs: Vec<(&str, u32)> = found.iter().map(|used| (&*used.device, used.pid)).collect();
        assert_eq!(pairs, [("GPU-a", 2), ("GPU-a", 3), ("GPU-b", 4)]);
        assert_eq!(found[0].kind, Reading::Known(UseKind::Compute));
        assert_eq!(found[1].kind, Reading::Unknown(Reason::Malformed));
    }
}
