//! Decodes typed devices and their processes: checks each number, and gives each missing value a reason.

use std::sync::Arc;

use crate::wire::body::{self, Raw};
use crate::wire::checked::{
    Checked as _, Decode as _, MAX_NAME_LENGTH, ObjectReader, pair, unless_all_ones,
};
use crate::wire::csv::MAX_USES;
use crate::wire::decode::names::NameInterner;
use crate::wire::decode::text_reading;
use gtop_local::text::sanitize_shared;
use gtop_model::{
    Bytes, Device, DeviceActivity, DeviceCounters, DeviceDetails, DeviceFault, DeviceStatics,
    DeviceUse, LinkCounters, Percent, Reading, Reason, UseKind,
};

mod tpu;

/// Maximum number of links per device.
const MAX_LINKS: usize = 64;

pub(super) fn device(sent: &body::Device, names: &mut NameInterner) -> Device {
    let reader = ObjectReader { lacks: &sent.lacks, max_text_length: MAX_NAME_LENGTH };
    let rest = Device {
        uuid: names.intern(&sent.uuid, MAX_NAME_LENGTH),
        parent: sent.parent.as_deref().map(|parent| names.intern(parent, MAX_NAME_LENGTH)),
        name: text_reading(sent.name.as_deref(), MAX_NAME_LENGTH),
        pci: text_reading(sent.pci.as_deref(), MAX_NAME_LENGTH),
        pcie: pair::<u64>([
            reader.read(&sent.pcie_generation, "pcie_generation"),
            reader.read(&sent.pcie_lanes, "pcie_lanes"),
        ]),
        statics: sent.statics.as_deref().and_then(|sent| statics(sent, &reader).shared()),
        activity: sent.activity.as_deref().and_then(|sent| activity(sent, &reader).shared()),
        details: sent.details.as_deref().and_then(|sent| details(sent, &reader).shared()),
        counters: sent
            .counters
            .as_deref()
            .and_then(|sent| sent.decode(&reader, DeviceCounters::default()).shared()),
        tpu: sent.tpu.as_deref().and_then(|chip| tpu::tpu(chip, &sent.lacks).shared()),
        fault: sent.fault.as_deref().map(device_fault),
        ..Device::default()
    };
    sent.decode(&reader, rest)
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

fn statics(sent: &body::DeviceStatics, reader: &ObjectReader<'_>) -> DeviceStatics {
    let rest = DeviceStatics {
        driver: text_reading(sent.driver.as_deref(), MAX_NAME_LENGTH),
        pcie_max: pair::<u64>([
            reader.read(&sent.pcie_generation_max, "pcie_generation_max"),
            reader.read(&sent.pcie_lanes_max, "pcie_lanes_max"),
        ]),
        capability: text_reading(sent.capability.as_deref(), 16),
        ..DeviceStatics::default()
    };
    sent.decode(reader, rest)
}

fn activity(sent: &body::DeviceActivity, reader: &ObjectReader<'_>) -> DeviceActivity {
    let active = sent.activity.reading(reader.null_reason("activity"));
    let [
        graphics_active,
        sm_active,
        sm_occupancy,
        tensor_active,
        dram_active,
        fp64_active,
        fp32_active,
        fp16_active,
    ] = elements(active, Percent::from_sent);
    let flow = sent.flow.value().map_or_else(Reading::default, Reading::Known);
    let [pcie_sent, pcie_received, nvlink_received, nvlink_sent] = elements(flow, mib_to_bytes);
    let rest = DeviceActivity {
        power_instant: Reading::default(),
        graphics_active,
        sm_active,
        sm_occupancy,
        tensor_active,
        dram_active,
        fp64_active,
        fp32_active,
        fp16_active,
        pcie_sent,
        pcie_received,
        nvlink_received,
        nvlink_sent,
    };
    sent.decode(reader, rest)
}

/// Returns the values of a list; a device has nearly all of them or none.
fn elements<T, const N: usize>(
    list: Reading<[Raw<f64>; N]>,
    check: fn(f64) -> Option<T>,
) -> [Reading<T>; N] {
    match list {
        Reading::Known(list) => list.map(|raw| raw.reading(Reason::NotSupported).and_then(check)),
        Reading::Unknown(reason) => [(); N].map(|()| Reading::Unknown(reason)),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be small and not negative"
)]
fn mib_to_bytes(mib: f64) -> Option<Bytes> {
    // No link transfers as much in a second: the value is invalid.
    (0.0..1e9).contains(&mib).then_some(Bytes((mib * 1_048_576.0) as u64))
}

fn details(sent: &body::DeviceDetails, reader: &ObjectReader<'_>) -> DeviceDetails {
    let links = links(sent.links.as_deref());
    sent.decode(reader, DeviceDetails { links, ..DeviceDetails::default() })
}

fn links(sent: Option<&[[Raw<u64>; 2]]>) -> Reading<Arc<[LinkCounters]>> {
    Reading::of(sent, |links| {
        let links = links.iter().take(MAX_LINKS).map(|[sent, received]| LinkCounters {
            sent: sent.value().and_then(unless_all_ones),
            received: received.value().and_then(unless_all_ones),
        });
        Reading::Known(links.collect())
    })
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
        let device = device.clone().filter(|_| used.pid > 0);
        list.extend(device.map(|device| device_use(used, device)));
    }
    list
}

fn device_use(sent: &body::Use, device: Arc<str>) -> DeviceUse {
    let reader = ObjectReader { lacks: &sent.lacks, max_text_length: MAX_NAME_LENGTH };
    let kind = Reading::of(sent.kind.as_deref(), |letters| Reading::checked(UseKind::new(letters)));
    sent.decode(&reader, DeviceUse { device, pid: sent.pid, kind, ..DeviceUse::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::FanSpeed;

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
        let mut newer = device_of("H100", 0);
        newer.complete_from(&list[0]);
        assert!(Arc::ptr_eq(&before, newer.statics.as_ref().unwrap()));
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
                recovery: Raw::Value(u64::MAX),
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

    #[test]
    fn numbers_with_all_bits_set_are_malformed() {
        let sent: body::Device = serde_json::from_str(
            r#"{"uuid": "GPU-1", "power": 4294967295, "memory_used": 18446744073709551615,
                "throttle": 18446744073709551615, "ecc_corrected": 4294967295, "clock_sm": 4294967295,
                "mig": 4294967295, "energy": 18446744073709551615, "pcie_replays": 4294967295,
                "fabric_health": 4294967295, "fan_rpm": 4294967295, "held_power": 18446744073709551615,
                "retired_single": 4294967294, "links": [[18446744073709551615, 5]]}"#,
        )
        .unwrap();
        let device = device(&sent, &mut NameInterner::default());
        let details = device.details.as_deref().unwrap();
        let reasons = [
            device.power.reason(),
            device.memory_used.reason(),
            device.throttle.reason(),
            device.ecc_corrected.reason(),
            device.sm_clock.reason(),
            device.mig.reason(),
            details.energy_millijoules.reason(),
            details.pcie_replays.reason(),
            details.fabric_health.reason(),
            details.fan_rpm.reason(),
            device.counters.as_deref().unwrap().power_throttled.reason(),
        ];
        assert_eq!(reasons, [Some(Reason::Malformed); 11]);
        let links = details.links.clone().into_known().unwrap();
        assert_eq!((links[0].sent, links[0].received), (None, Some(5)));
        // One less is a number.
        assert_eq!(details.retired_single.get(), Some(4_294_967_294));
    }

    #[test]
    fn reasons_tell_apart_why_a_value_is_missing() {
        for (word, reason) in [
            ("not supported", Reason::NotSupported),
            ("not offered", Reason::NotOffered),
            ("no permission", Reason::NoPermission),
            ("two samples", Reason::NeedsTwoSamples),
            ("driver error", Reason::DriverError),
        ] {
            let text =
                format!(r#"{{"uuid": "GPU-1", "power": null, "lacks": {{"power": "{word}"}}}}"#);
            let sent: body::Device = serde_json::from_str(&text).unwrap();
            let power = device(&sent, &mut NameInterner::default()).power;
            assert_eq!(power.reason(), Some(reason));
            let text = format!(
                r#"[{{"device": "GPU-1", "pid": 1, "sm": null, "lacks": {{"sm": "{word}"}}}}]"#
            );
            let sent: Vec<body::Use> = serde_json::from_str(&text).unwrap();
            let sm = uses(&sent, &mut NameInterner::default())[0].sm;
            assert_eq!(sm.reason(), Some(reason));
        }
    }
}
