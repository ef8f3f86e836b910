//! The common metrics of a device.

use crate::fleet::Metric;
use crate::metrics::chart::{MetricChart, bandwidth_share, clock_share, utilization};
use crate::metrics::{
    Field, bytes, celsius, enum_text, flag, integer, megahertz, number, percent, text, watts,
};
use crate::model::{Device, FanSpeed, Percent, Throttle, Vendor};

/// Metrics that most devices of most vendors report.
pub const DEVICE: &[Field<Device>] = &[
    Field::text("vendor", "vendor", "vendor: nvidia, amd or google", |device| {
        enum_text(device.vendor, Vendor::as_str)
    }),
    Field::text("name", "name", "model name", |device| text(&device.name)),
    Field::text("pci_bus", "pci", "PCI bus id", |device| text(&device.pci)),
    Field::text("driver_version", "driver", "driver version", |device| {
        text(&device.static_value(|known| known.driver.clone()))
    }),
    Field::share(
        "utilization_percent",
        "util",
        "share of time in which the device was executing work",
        |device: &Device| percent(device.utilization),
    )
    .chart(MetricChart::new(1, 'u', "utilization").share(utilization).history(Metric::Utilization)),
    Field::share(
        "memory_utilization_percent",
        "membw",
        "share of time in which device memory was read or written",
        |device: &Device| percent(device.memory_utilization),
    )
    .chart(
        MetricChart::new(5, 'b', "share of time the memory is busy")
            .share(|device: &Device| bandwidth_share(device).get().map(Percent::get)),
    ),
    Field::integer("memory_used_bytes", "mem", "device memory in use", |device: &Device| {
        bytes(device.memory_used)
    })
    .chart(
        MetricChart::new(2, 'm', "memory in use")
            .share(|device: &Device| device.memory_share().map(Percent::get))
            .history(Metric::Memory),
    ),
    Field::integer("memory_total_bytes", "memtotal", "total device memory", |device| {
        bytes(device.memory_total)
    }),
    Field::integer("memory_free_bytes", "memfree", "free device memory", |device| {
        bytes(device.memory_free)
    }),
    Field::integer(
        "memory_reserved_bytes",
        "memreserved",
        "device memory reserved by the driver",
        |device| bytes(device.memory_reserved),
    ),
    Field::integer(
        "hidden_processes",
        "hidden",
        "processes that use the device but are hidden from gtop on the node",
        |device| integer(device.hidden_processes),
    ),
    Field::integer(
        "hidden_memory_bytes",
        "hiddenmem",
        "device memory in use that belongs to no visible process; part of it is the driver's",
        |device| bytes(device.hidden_memory),
    ),
    Field::number("temperature_celsius", "temp", "core temperature", |device: &Device| {
        celsius(device.temperature)
    })
    .chart(MetricChart::new(4, 't', "temperature, to 100 °C"))
    .order('t', "hottest device", "by the highest device temperature"),
    Field::number(
        "memory_temperature_celsius",
        "memtemp",
        "memory temperature",
        |device: &Device| celsius(device.memory_temperature),
    )
    .column(("MEMTEMP", "memtemp"), (7, 4), "memory temperature"),
    Field::number("power_watts", "power", "power draw", |device: &Device| watts(device.power))
        .chart(
            MetricChart::new(3, 'p', "power, of its limit")
                .share(|device: &Device| device.power_share().map(Percent::get)),
        ),
    Field::number("power_limit_watts", "limit", "power limit in force", |device| {
        watts(device.power_limit)
    }),
    Field::integer("sm_clock_megahertz", "smclock", "SM clock", |device: &Device| {
        megahertz(device.sm_clock)
    })
    .chart(MetricChart::new(6, 'c', "SM clock, of the highest").share(|device: &Device| {
        clock_share(device.sm_clock, device.static_value(|known| known.sm_clock_max))
    })),
    Field::integer("memory_clock_megahertz", "memclock", "memory clock", |device: &Device| {
        megahertz(device.memory_clock)
    })
    .chart(MetricChart::new(7, 'l', "memory clock, of the highest").share(
        |device: &Device| {
            clock_share(device.memory_clock, device.static_value(|known| known.memory_clock_max))
        },
    )),
    Field::integer("sm_clock_max_megahertz", "smclockmax", "maximum SM clock", |device| {
        megahertz(device.static_value(|known| known.sm_clock_max))
    }),
    Field::integer("memory_clock_max_megahertz", "memclockmax", "maximum memory clock", |device| {
        megahertz(device.static_value(|known| known.memory_clock_max))
    }),
    Field::number("fan_percent", "fan", "intended fan speed; may exceed 100", |device: &Device| {
        number(device.fan.map(FanSpeed::get))
    })
    .chart(MetricChart::new(8, 'f', "fan speed")),
    Field::integer(
        "performance_state",
        "pstate",
        "performance state, 0 (fastest) to 15",
        |device| integer(device.performance_state),
    ),
    Field::integer(
        "throttle_bits",
        "throttlebits",
        "clock throttle reasons, as NVML's bit mask",
        |device| integer(device.throttle.map(|Throttle(bits)| bits)),
    ),
    Field::integer(
        "ecc_corrected_errors",
        "eccfix",
        "corrected ECC errors since the driver was loaded",
        |device| integer(device.ecc_corrected),
    ),
    Field::integer(
        "ecc_uncorrected_errors",
        "ecc",
        "uncorrected ECC errors since the driver was loaded",
        |device| integer(device.ecc_uncorrected),
    ),
    Field::integer("pcie_generation", "pciegen", "current PCIe generation", |device| {
        integer(device.pcie.map(|(generation, _)| generation))
    }),
    Field::integer("pcie_lanes", "pciewidth", "current PCIe link width, in lanes", |device| {
        integer(device.pcie.map(|(_, lanes)| lanes))
    }),
    Field::flag(
        "persistence_enabled",
        "persistence",
        "persistence mode: the driver stays loaded while the device is unused",
        |device: &Device| flag(device.persistence),
    )
    .column(("PERS", "pers"), (4, 17), "persistence mode"),
    Field::flag("mig_enabled", "mig", "MIG mode is enabled", |device: &Device| flag(device.mig))
        .column(("MIG", "MIG"), (3, 24), "MIG mode"),
];
