//! The common metrics of a device.

use crate::Metric;
use crate::metrics::chart::{MetricChart, bandwidth_share, clock_share, utilization};
use crate::metrics::{Field, Value, ValueKind, fields};
use gtop_model::{Device, Percent, Reading};

/// Metrics that most devices of most vendors report.
pub const DEVICE: &[Field<Device>] = fields! { Device:
    Text("vendor", "vendor", "vendor: nvidia, amd or google", vendor);
    Text("name", "name", "model name", name);
    Text("pci_bus", "pci", "PCI bus id", pci);
    Text("driver_version", "driver", "driver version", statics?.driver);
    Share("utilization_percent", "util",
        "share of time in which the device was executing work; in MIG mode, by hardware counters",
        |device| device.load().into())
        .chart(MetricChart::new(1, 'u', "utilization").share(utilization).history(Metric::Utilization));
    Share("memory_utilization_percent", "membw", "share of time in which device memory was read or written",
        memory_utilization)
        .chart(MetricChart::new(5, 'b', "share of time the memory is busy")
            .share(|device: &Device| bandwidth_share(device).get().map(Percent::get)));
    Integer("memory_used_bytes", "mem", "device memory in use", memory_used)
        .chart(MetricChart::new(2, 'm', "memory in use")
            .share(|device: &Device| device.memory_share().map(Percent::get)).history(Metric::Memory));
    Integer("memory_total_bytes", "memtotal", "total device memory", memory_total);
    Integer("memory_free_bytes", "memfree", "free device memory", memory_free);
    Integer("memory_reserved_bytes", "memreserved", "device memory reserved by the driver", memory_reserved);
    Flag("memory_is_host", "unified", "the device has no memory of its own: its memory is the host's, and in no sum",
        |device: &Device| device.memory_total.map(|_| device.has_host_memory).into());
    Integer("hidden_processes", "hidden", "processes that use the device but are hidden from gtop on the node",
        hidden_processes);
    Integer("hidden_memory_bytes", "hiddenmem",
        "device memory in use that belongs to no visible process; part of it is the driver's", hidden_memory);
    Number("temperature_celsius", "temp", "core temperature", temperature)
        .chart(MetricChart::new(4, 't', "temperature, to 100 °C"))
        .order('t', "hottest device", "by the highest device temperature");
    Number("memory_temperature_celsius", "memtemp", "memory temperature", memory_temperature)
        .column(("MEMTEMP", "memtemp"), (7, 4));
    Number("power_watts", "power", "power draw", power)
        .chart(MetricChart::new(3, 'p', "power, of its limit")
            .share(|device: &Device| device.power_share().map(Percent::get)));
    Number("power_limit_watts", "limit", "power limit in force", power_limit);
    Integer("sm_clock_megahertz", "smclock", "SM clock", sm_clock)
        .chart(MetricChart::new(6, 'c', "SM clock, of the highest")
            .share(|device: &Device| clock_share(device, device.sm_clock, |known| known.sm_clock_max)));
    Integer("memory_clock_megahertz", "memclock", "memory clock", memory_clock)
        .chart(MetricChart::new(7, 'l', "memory clock, of the highest")
            .share(|device: &Device| clock_share(device, device.memory_clock, |known| known.memory_clock_max)));
    Integer("sm_clock_max_megahertz", "smclockmax", "maximum SM clock", statics?.sm_clock_max);
    Integer("memory_clock_max_megahertz", "memclockmax", "maximum memory clock", statics?.memory_clock_max);
    Number("fan_percent", "fan", "intended fan speed; may exceed 100", fan)
        .chart(MetricChart::new(8, 'f', "fan speed"));
    Integer("performance_state", "pstate", "performance state, 0 (fastest) to 15", performance_state);
    Integer("throttle_bits", "throttlebits", "clock throttle reasons, as NVML's bit mask",
        throttle => |throttle| throttle.0);
    Integer("ecc_corrected_errors", "eccfix", "corrected ECC errors since the driver was loaded", ecc_corrected)
        .counter();
    Integer("ecc_uncorrected_errors", "ecc", "uncorrected ECC errors since the driver was loaded", ecc_uncorrected)
        .counter();
    Integer("pcie_generation", "pciegen", "current PCIe generation", pcie => |(generation, _)| generation);
    Integer("pcie_lanes", "pciewidth", "current PCIe link width, in lanes", pcie => |(_, lanes)| lanes);
    Flag("persistence_enabled", "persistence", "persistence mode: the driver stays loaded while the device is unused",
        persistence)
        .column(("PERS", "pers"), (4, 18));
    Flag("mig_enabled", "mig", "MIG mode is enabled", mig)
        .column(("MIG", "MIG"), (3, 25));
};
