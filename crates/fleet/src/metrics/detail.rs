//! Device metrics that only some devices report, or that only details show.

use std::sync::Arc;

use crate::metrics::chart::{MetricChart, nvlink_rates, pcie_rates, throttled_share};
use crate::metrics::{Field, Value, ValueKind, fields};
use gtop_model::{Device, Reading, xid_meaning};

/// Metrics beyond the common ones.
pub const DEVICE_DETAIL: &[Field<Device>] = fields! { Device:
    Share("encoder_percent", "enc", "utilization of the video encoder", details?.encoder)
        .chart(MetricChart::new(9, 'e', "load of the video encoder"));
    Share("decoder_percent", "dec", "utilization of the video decoder", details?.decoder)
        .chart(MetricChart::new(10, 'd', "load of the video decoder"));
    Share("jpeg_percent", "jpeg", "utilization of the JPEG engine", details?.jpeg);
    Share("optical_flow_percent", "ofa", "utilization of the optical flow engine", details?.optical_flow);
    Number("power_average_watts", "poweravg", "power draw averaged over one second", details?.power_average);
    Number("power_instant_watts", "powernow", "instantaneous power draw", activity?.power_instant);
    Number("power_limit_requested_watts", "limitasked", "requested power limit", details?.power_limit_requested);
    Number("power_limit_default_watts", "limitdefault", "default power limit", statics?.power_limit_default);
    Number("power_limit_min_watts", "limitmin", "minimum power limit", statics?.power_limit_min);
    Number("power_limit_max_watts", "limitmax", "maximum power limit", statics?.power_limit_max);
    Integer("energy_joules", "energy", "energy consumed since the driver was loaded",
        details?.energy_millijoules => |millijoules| millijoules / 1000)
        .counter();
    Integer("graphics_clock_megahertz", "grclock", "graphics clock", details?.graphics_clock);
    Integer("video_clock_megahertz", "videoclock", "video clock", details?.video_clock);
    Integer("graphics_clock_max_megahertz", "grclockmax", "maximum graphics clock", statics?.graphics_clock_max);
    Integer("video_clock_max_megahertz", "videoclockmax", "maximum video clock", statics?.video_clock_max);
    Number("temperature_margin_celsius", "margin", "margin to the slowdown temperature", details?.temperature_margin);
    Number("slowdown_temperature_celsius", "slowat", "slowdown temperature", statics?.slowdown_temperature);
    Number("shutdown_temperature_celsius", "offat", "shutdown temperature", statics?.shutdown_temperature);
    Text("throttle_reasons", "throttled", "clock throttle reasons, in words",
        throttle => |bits| Arc::<str>::from(bits.text()))
        .chart(MetricChart::new(12, 'h', "share of time throttled").share(throttled_share));
    Share("throttled_power_percent", "capped", "share of time throttled by the power limit", rates?.power_throttled);
    Share("throttled_thermal_percent", "thermal", "share of time throttled by the driver for temperature",
        rates?.thermal_throttled);
    Share("throttled_hardware_thermal_percent", "hwthermal", "share of time throttled by the hardware for temperature",
        rates?.hardware_thermal_throttled);
    Share("throttled_power_brake_percent", "brake", "share of time throttled by the power brake of the power supply",
        rates?.power_brake_throttled);
    Share("throttled_sync_boost_percent", "syncboost", "share of time throttled to match other devices (sync boost)",
        rates?.sync_boost_throttled);
    Flag("ecc_enabled", "eccmode", "ECC is enabled", details?.ecc_enabled);
    Integer("ecc_corrected_total_errors", "eccfixall", "corrected ECC errors over the device's lifetime",
        details?.ecc_corrected_total)
        .counter();
    Integer("ecc_uncorrected_total_errors", "eccall", "uncorrected ECC errors over the device's lifetime",
        details?.ecc_uncorrected_total)
        .counter();
    Integer("retired_single_bit_pages", "retired1", "memory pages retired for single-bit errors",
        details?.retired_single)
        .counter();
    Integer("retired_double_bit_pages", "retired2", "memory pages retired for double-bit errors",
        details?.retired_double)
        .counter();
    Flag("retirement_pending", "retiring", "memory pages are pending retirement until the next reboot",
        details?.retirement_pending);
    Integer("remapped_corrected_rows", "remapfix", "memory rows remapped for corrected errors",
        details?.remapped_corrected)
        .counter();
    Integer("remapped_uncorrected_rows", "remap", "memory rows remapped for uncorrected errors",
        details?.remapped_uncorrected)
        .counter();
    Flag("remapping_pending", "remapping", "memory rows are pending remapping until the next reset",
        details?.remapping_pending);
    Flag("remapping_failed", "remapfail", "a memory row could not be remapped", details?.remapping_failed);
    Flag("sram_threshold_exceeded", "sram", "SRAM errors exceed the threshold at which the device should be replaced",
        details?.sram_threshold_exceeded);
    Integer("xid", "xid", "last Xid error since gtop started", details?.xid);
    Text("xid_meaning", "xidmeaning", "last Xid error, in words",
        details?.xid => |code| xid_meaning(code.into()).unwrap_or("unknown"));
    Integer("xid_events", "xids", "Xid errors since gtop started", details?.xids).counter();
    Text("recovery_action", "recover", "recovery action that the driver recommends", details?.recovery);
    Integer("pcie_generation_max", "pciegenmax", "maximum PCIe generation",
        statics?.pcie_max => |(generation, _)| generation);
    Integer("pcie_lanes_max", "pciewidthmax", "maximum PCIe link width, in lanes",
        statics?.pcie_max => |(_, lanes)| lanes);
    Integer("pcie_receive_bytes_per_second", "pcierx", "PCIe receive rate", |device| pcie_rates(device).0.into());
    Integer("pcie_transmit_bytes_per_second", "pcietx", "PCIe transmit rate", |device| pcie_rates(device).1.into());
    Integer("pcie_replays", "replays", "PCIe replays", details?.pcie_replays).counter();
    Integer("nvlinks", "nvlinks", "number of NVLinks", statics?.nvlinks);
    Integer("nvlinks_active", "nvlinksup", "number of NVLinks that are up", details?.nvlinks_active);
    Integer("nvlink_receive_bytes_per_second", "nvrx", "receive rate of all NVLinks",
        |device| nvlink_rates(device).0.into());
    Integer("nvlink_transmit_bytes_per_second", "nvtx", "transmit rate of all NVLinks",
        |device| nvlink_rates(device).1.into());
    Integer("bar1_used_bytes", "bar1", "BAR1 memory in use (device memory mapped by the host)", details?.bar1_used);
    Integer("bar1_total_bytes", "bar1total", "total BAR1 memory", details?.bar1_total);
    Integer("bar1_free_bytes", "bar1free", "free BAR1 memory", details?.bar1_free);
    Flag("display_active", "display", "a display is attached and active", details?.display_active)
        .column(("DISP", "disp"), (4, 26));
    Flag("display_connected", "connected", "a display is connected", details?.display_connected);
    Text("compute_mode", "mode", "compute mode: who may use the device", details?.compute_mode);
    Text("compute_capability", "cc", "CUDA compute capability", statics?.capability);
    Integer("numa_node", "numa", "nearest NUMA node", statics?.numa_node);
    Integer("device_minor", "minor",
        "minor number of the device file, by which schedulers count: 3 of /dev/nvidia3", statics?.minor);
    Text("fabric_state", "fabric", "registration state with the NVLink fabric", details?.fabric);
    Text("fabric_health", "fabrichealth", "health of the NVLink fabric", details?.fabric_health);
    Share("graphics_active_percent", "gract",
        "share of time the graphics or compute engine was active, by hardware counters", activity?.graphics_active);
    Share("sm_active_percent", "smact", "SM activity: share of SMs that were busy", activity?.sm_active)
        .column(("SMACT", "smact"), (5, 12));
    Share("sm_occupancy_percent", "occupancy", "SM occupancy: resident warps as a share of the maximum",
        activity?.sm_occupancy)
        .column(("OCC", "occ"), (4, 14));
    Share("tensor_active_percent", "tensor", "tensor core activity", activity?.tensor_active)
        .column(("TENSOR", "tensor"), (6, 13));
    Share("dram_active_percent", "dram", "DRAM activity: share of peak memory bandwidth", activity?.dram_active);
    Share("fp64_active_percent", "fp64", "FP64 pipe activity", activity?.fp64_active);
    Share("fp32_active_percent", "fp32", "FP32 pipe activity", activity?.fp32_active);
    Share("fp16_active_percent", "fp16", "FP16 pipe activity", activity?.fp16_active);
    Integer("gpu_instance", "gi", "GPU instance id of a MIG slice", statics?.gpu_instance);
    Integer("compute_instance", "ci", "compute instance id of a MIG slice", statics?.compute_instance);
};
