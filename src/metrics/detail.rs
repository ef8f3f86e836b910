//! Device metrics that only some devices report, or that only details show.

use crate::metrics::{
    Field, Value, ValueKind, bytes, celsius, enum_text, flag, integer, megahertz, percent, text,
    unknown, watts,
};
use crate::model::{
    ComputeMode, Device, DeviceActivity, DeviceDetails, DeviceRates, FabricState, Reading,
    RecoveryAction, xid_meaning,
};

/// Metrics beyond the common ones.
pub const DEVICE_DETAIL: &[Field<Device>] = &[
    Field {
        id: "encoder_percent",
        kind: ValueKind::Share,
        title: "ENC",
        alias: "enc",
        help: "utilization of the video encoder",
        read: |device| percent(detail(device, |known| known.encoder)),
    },
    Field {
        id: "decoder_percent",
        kind: ValueKind::Share,
        title: "DEC",
        alias: "dec",
        help: "utilization of the video decoder",
        read: |device| percent(detail(device, |known| known.decoder)),
    },
    Field {
        id: "jpeg_percent",
        kind: ValueKind::Share,
        title: "JPEG",
        alias: "jpeg",
        help: "utilization of the JPEG engine",
        read: |device| percent(detail(device, |known| known.jpeg)),
    },
    Field {
        id: "optical_flow_percent",
        kind: ValueKind::Share,
        title: "OFA",
        alias: "ofa",
        help: "utilization of the optical flow engine",
        read: |device| percent(detail(device, |known| known.optical_flow)),
    },
    Field {
        id: "power_average_watts",
        kind: ValueKind::Number,
        title: "PAVG",
        alias: "poweravg",
        help: "power draw averaged over one second",
        read: |device| watts(detail(device, |known| known.power_average)),
    },
    Field {
        id: "power_instant_watts",
        kind: ValueKind::Number,
        title: "PNOW",
        alias: "powernow",
        help: "instantaneous power draw",
        read: |device| watts(activity(device, |known| known.power_instant)),
    },
    Field {
        id: "power_limit_requested_watts",
        kind: ValueKind::Number,
        title: "ASKED",
        alias: "limitasked",
        help: "requested power limit",
        read: |device| watts(detail(device, |known| known.power_limit_requested)),
    },
    Field {
        id: "power_limit_default_watts",
        kind: ValueKind::Number,
        title: "LDEF",
        alias: "limitdefault",
        help: "default power limit",
        read: |device| watts(device.static_value(|known| known.power_limit_default)),
    },
    Field {
        id: "power_limit_min_watts",
        kind: ValueKind::Number,
        title: "LMIN",
        alias: "limitmin",
        help: "minimum power limit",
        read: |device| watts(device.static_value(|known| known.power_limit_min)),
    },
    Field {
        id: "power_limit_max_watts",
        kind: ValueKind::Number,
        title: "LMAX",
        alias: "limitmax",
        help: "maximum power limit",
        read: |device| watts(device.static_value(|known| known.power_limit_max)),
    },
    Field {
        id: "energy_joules",
        kind: ValueKind::Integer,
        title: "ENERGY",
        alias: "energy",
        help: "energy consumed since the driver was loaded",
        read: |device| {
            integer(detail(device, |known| known.energy_millijoules).map(|energy| energy / 1000))
        },
    },
    Field {
        id: "graphics_clock_megahertz",
        kind: ValueKind::Integer,
        title: "GRCLK",
        alias: "grclock",
        help: "graphics clock",
        read: |device| megahertz(detail(device, |known| known.graphics_clock)),
    },
    Field {
        id: "video_clock_megahertz",
        kind: ValueKind::Integer,
        title: "VIDCLK",
        alias: "videoclock",
        help: "video clock",
        read: |device| megahertz(detail(device, |known| known.video_clock)),
    },
    Field {
        id: "graphics_clock_max_megahertz",
        kind: ValueKind::Integer,
        title: "GRCLKMAX",
        alias: "grclockmax",
        help: "maximum graphics clock",
        read: |device| megahertz(device.static_value(|known| known.graphics_clock_max)),
    },
    Field {
        id: "video_clock_max_megahertz",
        kind: ValueKind::Integer,
        title: "VIDCLKMAX",
        alias: "videoclockmax",
        help: "maximum video clock",
        read: |device| megahertz(device.static_value(|known| known.video_clock_max)),
    },
    Field {
        id: "temperature_margin_celsius",
        kind: ValueKind::Number,
        title: "MARGIN",
        alias: "margin",
        help: "margin to the slowdown temperature",
        read: |device| celsius(detail(device, |known| known.temperature_margin)),
    },
    Field {
        id: "slowdown_temperature_celsius",
        kind: ValueKind::Number,
        title: "SLOWAT",
        alias: "slowat",
        help: "slowdown temperature",
        read: |device| celsius(device.static_value(|known| known.slowdown_temperature)),
    },
    Field {
        id: "shutdown_temperature_celsius",
        kind: ValueKind::Number,
        title: "OFFAT",
        alias: "offat",
        help: "shutdown temperature",
        read: |device| celsius(device.static_value(|known| known.shutdown_temperature)),
    },
    Field {
        id: "throttle_reasons",
        kind: ValueKind::Text,
        title: "THROTTLED",
        alias: "throttled",
        help: "clock throttle reasons, in words",
        read: |device| {
            device
                .throttle
                .get()
                .map_or_else(|| unknown(&device.throttle), |bits| Value::Text(bits.text().into()))
        },
    },
    Field {
        id: "throttled_power_percent",
        kind: ValueKind::Share,
        title: "CAPPED",
        alias: "capped",
        help: "share of time throttled by the power limit",
        read: |device| percent(rate(device, |known| known.power_throttled)),
    },
    Field {
        id: "throttled_thermal_percent",
        kind: ValueKind::Share,
        title: "THERMAL",
        alias: "thermal",
        help: "share of time throttled by the driver for temperature",
        read: |device| percent(rate(device, |known| known.thermal_throttled)),
    },
    Field {
        id: "throttled_hardware_thermal_percent",
        kind: ValueKind::Share,
        title: "HWTHERMAL",
        alias: "hwthermal",
        help: "share of time throttled by the hardware for temperature",
        read: |device| percent(rate(device, |known| known.hardware_thermal_throttled)),
    },
    Field {
        id: "throttled_power_brake_percent",
        kind: ValueKind::Share,
        title: "BRAKE",
        alias: "brake",
        help: "share of time throttled by the power brake of the power supply",
        read: |device| percent(rate(device, |known| known.power_brake_throttled)),
    },
    Field {
        id: "throttled_sync_boost_percent",
        kind: ValueKind::Share,
        title: "SYNC",
        alias: "syncboost",
        help: "share of time throttled to match other devices (sync boost)",
        read: |device| percent(rate(device, |known| known.sync_boost_throttled)),
    },
    Field {
        id: "ecc_enabled",
        kind: ValueKind::Flag,
        title: "ECCMODE",
        alias: "eccmode",
        help: "ECC is enabled",
        read: |device| flag(detail(device, |known| known.ecc_enabled)),
    },
    Field {
        id: "ecc_corrected_total_errors",
        kind: ValueKind::Integer,
        title: "FIXEDALL",
        alias: "eccfixall",
        help: "corrected ECC errors over the device's lifetime",
        read: |device| integer(detail(device, |known| known.ecc_corrected_total)),
    },
    Field {
        id: "ecc_uncorrected_total_errors",
        kind: ValueKind::Integer,
        title: "ECCALL",
        alias: "eccall",
        help: "uncorrected ECC errors over the device's lifetime",
        read: |device| integer(detail(device, |known| known.ecc_uncorrected_total)),
    },
    Field {
        id: "retired_single_bit_pages",
        kind: ValueKind::Integer,
        title: "RET1",
        alias: "retired1",
        help: "memory pages retired for single-bit errors",
        read: |device| integer(detail(device, |known| known.retired_single)),
    },
    Field {
        id: "retired_double_bit_pages",
        kind: ValueKind::Integer,
        title: "RET2",
        alias: "retired2",
        help: "memory pages retired for double-bit errors",
        read: |device| integer(detail(device, |known| known.retired_double)),
    },
    Field {
        id: "retirement_pending",
        kind: ValueKind::Flag,
        title: "RETIRING",
        alias: "retiring",
        help: "memory pages are pending retirement until the next reboot",
        read: |device| flag(detail(device, |known| known.retirement_pending)),
    },
    Field {
        id: "remapped_corrected_rows",
        kind: ValueKind::Integer,
        title: "REMFIX",
        alias: "remapfix",
        help: "memory rows remapped for corrected errors",
        read: |device| integer(detail(device, |known| known.remapped_corrected)),
    },
    Field {
        id: "remapped_uncorrected_rows",
        kind: ValueKind::Integer,
        title: "REMAP",
        alias: "remap",
        help: "memory rows remapped for uncorrected errors",
        read: |device| integer(detail(device, |known| known.remapped_uncorrected)),
    },
    Field {
        id: "remapping_pending",
        kind: ValueKind::Flag,
        title: "REMAPPING",
        alias: "remapping",
        help: "memory rows are pending remapping until the next reset",
        read: |device| flag(detail(device, |known| known.remapping_pending)),
    },
    Field {
        id: "remapping_failed",
        kind: ValueKind::Flag,
        title: "REMFAIL",
        alias: "remapfail",
        help: "a memory row could not be remapped",
        read: |device| flag(detail(device, |known| known.remapping_failed)),
    },
    Field {
        id: "sram_threshold_exceeded",
        kind: ValueKind::Flag,
        title: "SRAM",
        alias: "sram",
        help: "SRAM errors exceed the threshold at which the device should be replaced",
        read: |device| flag(detail(device, |known| known.sram_threshold_exceeded)),
    },
    Field {
        id: "xid",
        kind: ValueKind::Integer,
        title: "XID",
        alias: "xid",
        help: "last Xid error since gtop started",
        read: |device| integer(detail(device, |known| known.xid)),
    },
    Field {
        id: "xid_meaning",
        kind: ValueKind::Text,
        title: "MEANING",
        alias: "xidmeaning",
        help: "last Xid error, in words",
        read: |device| {
            text(&detail(device, |known| {
                known.xid.map(|code| xid_meaning(u64::from(code)).unwrap_or("unknown").into())
            }))
        },
    },
    Field {
        id: "xid_events",
        kind: ValueKind::Integer,
        title: "XIDS",
        alias: "xids",
        help: "Xid errors since gtop started",
        read: |device| integer(detail(device, |known| known.xids)),
    },
    Field {
        id: "recovery_action",
        kind: ValueKind::Text,
        title: "RECOVER",
        alias: "recover",
        help: "recovery action that the driver recommends",
        read: |device| enum_text(detail(device, |known| known.recovery), RecoveryAction::text),
    },
    Field {
        id: "pcie_generation_max",
        kind: ValueKind::Integer,
        title: "GENMAX",
        alias: "pciegenmax",
        help: "maximum PCIe generation",
        read: |device| {
            integer(device.static_value(|known| known.pcie_max.map(|(generation, _)| generation)))
        },
    },
    Field {
        id: "pcie_lanes_max",
        kind: ValueKind::Integer,
        title: "LANESMAX",
        alias: "pciewidthmax",
        help: "maximum PCIe link width, in lanes",
        read: |device| integer(device.static_value(|known| known.pcie_max.map(|(_, lanes)| lanes))),
    },
    Field {
        id: "pcie_receive_bytes_per_second",
        kind: ValueKind::Integer,
        title: "PCIERX",
        alias: "pcierx",
        help: "PCIe receive rate",
        read: |device| {
            bytes(
                rate(device, |known| known.pcie_received)
                    .or(|| activity(device, |known| known.pcie_received)),
            )
        },
    },
    Field {
        id: "pcie_transmit_bytes_per_second",
        kind: ValueKind::Integer,
        title: "PCIETX",
        alias: "pcietx",
        help: "PCIe transmit rate",
        read: |device| {
            bytes(
                rate(device, |known| known.pcie_sent)
                    .or(|| activity(device, |known| known.pcie_sent)),
            )
        },
    },
    Field {
        id: "pcie_replays",
        kind: ValueKind::Integer,
        title: "REPLAYS",
        alias: "replays",
        help: "PCIe replays",
        read: |device| integer(detail(device, |known| known.pcie_replays)),
    },
    Field {
        id: "nvlinks",
        kind: ValueKind::Integer,
        title: "LINKS",
        alias: "nvlinks",
        help: "number of NVLinks",
        read: |device| integer(device.static_value(|known| known.nvlinks)),
    },
    Field {
        id: "nvlink_receive_bytes_per_second",
        kind: ValueKind::Integer,
        title: "NVRX",
        alias: "nvrx",
        help: "receive rate of all NVLinks",
        read: |device| {
            bytes(
                rate(device, |known| known.nvlink_received)
                    .or(|| activity(device, |known| known.nvlink_received)),
            )
        },
    },
    Field {
        id: "nvlink_transmit_bytes_per_second",
        kind: ValueKind::Integer,
        title: "NVTX",
        alias: "nvtx",
        help: "transmit rate of all NVLinks",
        read: |device| {
            bytes(
                rate(device, |known| known.nvlink_sent)
                    .or(|| activity(device, |known| known.nvlink_sent)),
            )
        },
    },
    Field {
        id: "bar1_used_bytes",
        kind: ValueKind::Integer,
        title: "BAR1",
        alias: "bar1",
        help: "BAR1 memory in use (device memory mapped by the host)",
        read: |device| bytes(detail(device, |known| known.bar1_used)),
    },
    Field {
        id: "bar1_total_bytes",
        kind: ValueKind::Integer,
        title: "BAR1ALL",
        alias: "bar1total",
        help: "total BAR1 memory",
        read: |device| bytes(detail(device, |known| known.bar1_total)),
    },
    Field {
        id: "bar1_free_bytes",
        kind: ValueKind::Integer,
        title: "BAR1FREE",
        alias: "bar1free",
        help: "free BAR1 memory",
        read: |device| bytes(detail(device, |known| known.bar1_free)),
    },
    Field {
        id: "display_active",
        kind: ValueKind::Flag,
        title: "DISPLAY",
        alias: "display",
        help: "a display is attached and active",
        read: |device| flag(detail(device, |known| known.display_active)),
    },
    Field {
        id: "compute_mode",
        kind: ValueKind::Text,
        title: "MODE",
        alias: "mode",
        help: "compute mode: who may use the device",
        read: |device| enum_text(detail(device, |known| known.compute_mode), ComputeMode::text),
    },
    Field {
        id: "compute_capability",
        kind: ValueKind::Text,
        title: "CC",
        alias: "cc",
        help: "CUDA compute capability",
        read: |device| text(&device.static_value(|known| known.capability.clone())),
    },
    Field {
        id: "numa_node",
        kind: ValueKind::Integer,
        title: "NUMA",
        alias: "numa",
        help: "nearest NUMA node",
        read: |device| integer(device.static_value(|known| known.numa_node)),
    },
    Field {
        id: "device_minor",
        kind: ValueKind::Integer,
        title: "MINOR",
        alias: "minor",
        help: "minor number of the device file, by which Slurm counts devices: 3 of /dev/nvidia3",
        read: |device| integer(device.static_value(|known| known.minor)),
    },
    Field {
        id: "fabric_state",
        kind: ValueKind::Text,
        title: "FABRIC",
        alias: "fabric",
        help: "registration state with the NVLink fabric",
        read: |device| enum_text(detail(device, |known| known.fabric), FabricState::text),
    },
    Field {
        id: "fabric_health",
        kind: ValueKind::Text,
        title: "FABHEALTH",
        alias: "fabrichealth",
        help: "health of the NVLink fabric",
        read: |device| {
            text(&detail(device, |known| {
                known.fabric_health.map(|health| health.to_string().into())
            }))
        },
    },
    Field {
        id: "graphics_active_percent",
        kind: ValueKind::Share,
        title: "GRACT",
        alias: "gract",
        help: "share of time the graphics or compute engine was active, by hardware counters",
        read: |device| percent(activity(device, |known| known.graphics_active)),
    },
    Field {
        id: "sm_active_percent",
        kind: ValueKind::Share,
        title: "SMACT",
        alias: "smact",
        help: "SM activity: share of SMs that were busy",
        read: |device| percent(activity(device, |known| known.sm_active)),
    },
    Field {
        id: "sm_occupancy_percent",
        kind: ValueKind::Share,
        title: "OCC",
        alias: "occupancy",
        help: "SM occupancy: resident warps as a share of the maximum",
        read: |device| percent(activity(device, |known| known.sm_occupancy)),
    },
    Field {
        id: "tensor_active_percent",
        kind: ValueKind::Share,
        title: "TENSOR",
        alias: "tensor",
        help: "tensor core activity",
        read: |device| percent(activity(device, |known| known.tensor_active)),
    },
    Field {
        id: "dram_active_percent",
        kind: ValueKind::Share,
        title: "DRAM",
        alias: "dram",
        help: "DRAM activity: share of peak memory bandwidth",
        read: |device| percent(activity(device, |known| known.dram_active)),
    },
    Field {
        id: "fp64_active_percent",
        kind: ValueKind::Share,
        title: "FP64",
        alias: "fp64",
        help: "FP64 pipe activity",
        read: |device| percent(activity(device, |known| known.fp64_active)),
    },
    Field {
        id: "fp32_active_percent",
        kind: ValueKind::Share,
        title: "FP32",
        alias: "fp32",
        help: "FP32 pipe activity",
        read: |device| percent(activity(device, |known| known.fp32_active)),
    },
    Field {
        id: "fp16_active_percent",
        kind: ValueKind::Share,
        title: "FP16",
        alias: "fp16",
        help: "FP16 pipe activity",
        read: |device| percent(activity(device, |known| known.fp16_active)),
    },
    Field {
        id: "gpu_instance",
        kind: ValueKind::Integer,
        title: "GI",
        alias: "gi",
        help: "GPU instance id of a MIG slice",
        read: |device| integer(device.static_value(|known| known.gpu_instance)),
    },
    Field {
        id: "compute_instance",
        kind: ValueKind::Integer,
        title: "CI",
        alias: "ci",
        help: "compute instance id of a MIG slice",
        read: |device| integer(device.static_value(|known| known.compute_instance)),
    },
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
