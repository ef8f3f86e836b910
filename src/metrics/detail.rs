//! Device metrics that only some devices report, or that only details show.

use crate::metrics::chart::{MetricChart, pcie_rates, throttled_share};
use crate::metrics::{
    Field, Value, bytes, celsius, enum_text, flag, integer, megahertz, percent, text, unknown,
    watts,
};
use crate::model::{
    ComputeMode, Device, DeviceActivity, DeviceDetails, DeviceRates, FabricState, Reading,
    RecoveryAction, xid_meaning,
};

/// Metrics beyond the common ones.
pub const DEVICE_DETAIL: &[Field<Device>] = &[
    Field::share(
        "encoder_percent",
        "enc",
        "utilization of the video encoder",
        |device: &Device| percent(detail(device, |known| known.encoder)),
    )
    .chart(MetricChart::new(9, 'e', "load of the video encoder")),
    Field::share(
        "decoder_percent",
        "dec",
        "utilization of the video decoder",
        |device: &Device| percent(detail(device, |known| known.decoder)),
    )
    .chart(MetricChart::new(10, 'd', "load of the video decoder")),
    Field::share("jpeg_percent", "jpeg", "utilization of the JPEG engine", |device| {
        percent(detail(device, |known| known.jpeg))
    }),
    Field::share(
        "optical_flow_percent",
        "ofa",
        "utilization of the optical flow engine",
        |device| percent(detail(device, |known| known.optical_flow)),
    ),
    Field::number(
        "power_average_watts",
        "poweravg",
        "power draw averaged over one second",
        |device| watts(detail(device, |known| known.power_average)),
    ),
    Field::number("power_instant_watts", "powernow", "instantaneous power draw", |device| {
        watts(activity(device, |known| known.power_instant))
    }),
    Field::number("power_limit_requested_watts", "limitasked", "requested power limit", |device| {
        watts(detail(device, |known| known.power_limit_requested))
    }),
    Field::number("power_limit_default_watts", "limitdefault", "default power limit", |device| {
        watts(device.static_value(|known| known.power_limit_default))
    }),
    Field::number("power_limit_min_watts", "limitmin", "minimum power limit", |device| {
        watts(device.static_value(|known| known.power_limit_min))
    }),
    Field::number("power_limit_max_watts", "limitmax", "maximum power limit", |device| {
        watts(device.static_value(|known| known.power_limit_max))
    }),
    Field::integer(
        "energy_joules",
        "energy",
        "energy consumed since the driver was loaded",
        |device| {
            integer(detail(device, |known| known.energy_millijoules).map(|energy| energy / 1000))
        },
    ),
    Field::integer("graphics_clock_megahertz", "grclock", "graphics clock", |device| {
        megahertz(detail(device, |known| known.graphics_clock))
    }),
    Field::integer("video_clock_megahertz", "videoclock", "video clock", |device| {
        megahertz(detail(device, |known| known.video_clock))
    }),
    Field::integer(
        "graphics_clock_max_megahertz",
        "grclockmax",
        "maximum graphics clock",
        |device| megahertz(device.static_value(|known| known.graphics_clock_max)),
    ),
    Field::integer("video_clock_max_megahertz", "videoclockmax", "maximum video clock", |device| {
        megahertz(device.static_value(|known| known.video_clock_max))
    }),
    Field::number(
        "temperature_margin_celsius",
        "margin",
        "margin to the slowdown temperature",
        |device| celsius(detail(device, |known| known.temperature_margin)),
    ),
    Field::number("slowdown_temperature_celsius", "slowat", "slowdown temperature", |device| {
        celsius(device.static_value(|known| known.slowdown_temperature))
    }),
    Field::number("shutdown_temperature_celsius", "offat", "shutdown temperature", |device| {
        celsius(device.static_value(|known| known.shutdown_temperature))
    }),
    Field::text(
        "throttle_reasons",
        "throttled",
        "clock throttle reasons, in words",
        |device: &Device| {
            device
                .throttle
                .get()
                .map_or_else(|| unknown(&device.throttle), |bits| Value::Text(bits.text().into()))
        },
    )
    .chart(MetricChart::new(12, 'h', "share of time throttled").share(throttled_share)),
    Field::share(
        "throttled_power_percent",
        "capped",
        "share of time throttled by the power limit",
        |device| percent(rate(device, |known| known.power_throttled)),
    ),
    Field::share(
        "throttled_thermal_percent",
        "thermal",
        "share of time throttled by the driver for temperature",
        |device| percent(rate(device, |known| known.thermal_throttled)),
    ),
    Field::share(
        "throttled_hardware_thermal_percent",
        "hwthermal",
        "share of time throttled by the hardware for temperature",
        |device| percent(rate(device, |known| known.hardware_thermal_throttled)),
    ),
    Field::share(
        "throttled_power_brake_percent",
        "brake",
        "share of time throttled by the power brake of the power supply",
        |device| percent(rate(device, |known| known.power_brake_throttled)),
    ),
    Field::share(
        "throttled_sync_boost_percent",
        "syncboost",
        "share of time throttled to match other devices (sync boost)",
        |device| percent(rate(device, |known| known.sync_boost_throttled)),
    ),
    Field::flag("ecc_enabled", "eccmode", "ECC is enabled", |device| {
        flag(detail(device, |known| known.ecc_enabled))
    }),
    Field::integer(
        "ecc_corrected_total_errors",
        "eccfixall",
        "corrected ECC errors over the device's lifetime",
        |device| integer(detail(device, |known| known.ecc_corrected_total)),
    ),
    Field::integer(
        "ecc_uncorrected_total_errors",
        "eccall",
        "uncorrected ECC errors over the device's lifetime",
        |device| integer(detail(device, |known| known.ecc_uncorrected_total)),
    ),
    Field::integer(
        "retired_single_bit_pages",
        "retired1",
        "memory pages retired for single-bit errors",
        |device| integer(detail(device, |known| known.retired_single)),
    ),
    Field::integer(
        "retired_double_bit_pages",
        "retired2",
        "memory pages retired for double-bit errors",
        |device| integer(detail(device, |known| known.retired_double)),
    ),
    Field::flag(
        "retirement_pending",
        "retiring",
        "memory pages are pending retirement until the next reboot",
        |device| flag(detail(device, |known| known.retirement_pending)),
    ),
    Field::integer(
        "remapped_corrected_rows",
        "remapfix",
        "memory rows remapped for corrected errors",
        |device| integer(detail(device, |known| known.remapped_corrected)),
    ),
    Field::integer(
        "remapped_uncorrected_rows",
        "remap",
        "memory rows remapped for uncorrected errors",
        |device| integer(detail(device, |known| known.remapped_uncorrected)),
    ),
    Field::flag(
        "remapping_pending",
        "remapping",
        "memory rows are pending remapping until the next reset",
        |device| flag(detail(device, |known| known.remapping_pending)),
    ),
    Field::flag("remapping_failed", "remapfail", "a memory row could not be remapped", |device| {
        flag(detail(device, |known| known.remapping_failed))
    }),
    Field::flag(
        "sram_threshold_exceeded",
        "sram",
        "SRAM errors exceed the threshold at which the device should be replaced",
        |device| flag(detail(device, |known| known.sram_threshold_exceeded)),
    ),
    Field::integer("xid", "xid", "last Xid error since gtop started", |device| {
        integer(detail(device, |known| known.xid))
    }),
    Field::text("xid_meaning", "xidmeaning", "last Xid error, in words", |device| {
        text(&detail(device, |known| {
            known.xid.map(|code| xid_meaning(u64::from(code)).unwrap_or("unknown").into())
        }))
    }),
    Field::integer("xid_events", "xids", "Xid errors since gtop started", |device| {
        integer(detail(device, |known| known.xids))
    }),
    Field::text(
        "recovery_action",
        "recover",
        "recovery action that the driver recommends",
        |device| enum_text(detail(device, |known| known.recovery), RecoveryAction::text),
    ),
    Field::integer("pcie_generation_max", "pciegenmax", "maximum PCIe generation", |device| {
        integer(device.static_value(|known| known.pcie_max.map(|(generation, _)| generation)))
    }),
    Field::integer(
        "pcie_lanes_max",
        "pciewidthmax",
        "maximum PCIe link width, in lanes",
        |device| integer(device.static_value(|known| known.pcie_max.map(|(_, lanes)| lanes))),
    ),
    Field::integer("pcie_receive_bytes_per_second", "pcierx", "PCIe receive rate", |device| {
        bytes(pcie_rates(device).0)
    }),
    Field::integer("pcie_transmit_bytes_per_second", "pcietx", "PCIe transmit rate", |device| {
        bytes(
            rate(device, |known| known.pcie_sent).or(|| activity(device, |known| known.pcie_sent)),
        )
    }),
    Field::integer("pcie_replays", "replays", "PCIe replays", |device| {
        integer(detail(device, |known| known.pcie_replays))
    }),
    Field::integer("nvlinks", "nvlinks", "number of NVLinks", |device| {
        integer(device.static_value(|known| known.nvlinks))
    }),
    Field::integer(
        "nvlink_receive_bytes_per_second",
        "nvrx",
        "receive rate of all NVLinks",
        |device| {
            bytes(
                rate(device, |known| known.nvlink_received)
                    .or(|| activity(device, |known| known.nvlink_received)),
            )
        },
    ),
    Field::integer(
        "nvlink_transmit_bytes_per_second",
        "nvtx",
        "transmit rate of all NVLinks",
        |device| {
            bytes(
                rate(device, |known| known.nvlink_sent)
                    .or(|| activity(device, |known| known.nvlink_sent)),
            )
        },
    ),
    Field::integer(
        "bar1_used_bytes",
        "bar1",
        "BAR1 memory in use (device memory mapped by the host)",
        |device| bytes(detail(device, |known| known.bar1_used)),
    ),
    Field::integer("bar1_total_bytes", "bar1total", "total BAR1 memory", |device| {
        bytes(detail(device, |known| known.bar1_total))
    }),
    Field::integer("bar1_free_bytes", "bar1free", "free BAR1 memory", |device| {
        bytes(detail(device, |known| known.bar1_free))
    }),
    Field::flag(
        "display_active",
        "display",
        "a display is attached and active",
        |device: &Device| flag(detail(device, |known| known.display_active)),
    )
    .column(("DISP", "disp"), (4, 25), "display attached"),
    Field::text("compute_mode", "mode", "compute mode: who may use the device", |device| {
        enum_text(detail(device, |known| known.compute_mode), ComputeMode::text)
    }),
    Field::text("compute_capability", "cc", "CUDA compute capability", |device| {
        text(&device.static_value(|known| known.capability.clone()))
    }),
    Field::integer("numa_node", "numa", "nearest NUMA node", |device| {
        integer(device.static_value(|known| known.numa_node))
    }),
    Field::integer(
        "device_minor",
        "minor",
        "minor number of the device file, by which Slurm counts devices: 3 of /dev/nvidia3",
        |device| integer(device.static_value(|known| known.minor)),
    ),
    Field::text("fabric_state", "fabric", "registration state with the NVLink fabric", |device| {
        enum_text(detail(device, |known| known.fabric), FabricState::text)
    }),
    Field::text("fabric_health", "fabrichealth", "health of the NVLink fabric", |device| {
        text(&detail(device, |known| known.fabric_health.map(|health| health.to_string().into())))
    }),
    Field::share(
        "graphics_active_percent",
        "gract",
        "share of time the graphics or compute engine was active, by hardware counters",
        |device| percent(activity(device, |known| known.graphics_active)),
    ),
    Field::share(
        "sm_active_percent",
        "smact",
        "SM activity: share of SMs that were busy",
        |device: &Device| percent(activity(device, |known| known.sm_active)),
    )
    .column(("SMACT", "smact"), (5, 11), "SM activity"),
    Field::share(
        "sm_occupancy_percent",
        "occupancy",
        "SM occupancy: resident warps as a share of the maximum",
        |device: &Device| percent(activity(device, |known| known.sm_occupancy)),
    )
    .column(("OCC", "occ"), (4, 13), "SM occupancy"),
    Field::share("tensor_active_percent", "tensor", "tensor core activity", |device: &Device| {
        percent(activity(device, |known| known.tensor_active))
    })
    .column(("TENSOR", "tensor"), (6, 12), "tensor core activity"),
    Field::share(
        "dram_active_percent",
        "dram",
        "DRAM activity: share of peak memory bandwidth",
        |device| percent(activity(device, |known| known.dram_active)),
    ),
    Field::share("fp64_active_percent", "fp64", "FP64 pipe activity", |device| {
        percent(activity(device, |known| known.fp64_active))
    }),
    Field::share("fp32_active_percent", "fp32", "FP32 pipe activity", |device| {
        percent(activity(device, |known| known.fp32_active))
    }),
    Field::share("fp16_active_percent", "fp16", "FP16 pipe activity", |device| {
        percent(activity(device, |known| known.fp16_active))
    }),
    Field::integer("gpu_instance", "gi", "GPU instance id of a MIG slice", |device| {
        integer(device.static_value(|known| known.gpu_instance))
    }),
    Field::integer("compute_instance", "ci", "compute instance id of a MIG slice", |device| {
        integer(device.static_value(|known| known.compute_instance))
    }),
];

fn activity<T>(device: &Device, read: impl Fn(&DeviceActivity) -> Reading<T>) -> Reading<T> {
    device.activity.as_deref().map_or_else(Reading::default, read)
}

pub(super) fn detail<T>(
    device: &Device,
    read: impl Fn(&DeviceDetails) -> Reading<T>,
) -> Reading<T> {
    device.details.as_deref().map_or_else(Reading::default, read)
}

fn rate<T>(device: &Device, read: impl Fn(&DeviceRates) -> Reading<T>) -> Reading<T> {
    device.rates.as_deref().map_or_else(Reading::default, read)
}
