//! The metrics of a device that only some devices tell, for those who look closely.

use crate::fields::{
    Field, Kind, Value, bytes, celsius, flag, megahertz, percent, text, unknown, watts, whole, word,
};
use crate::model::{
    ComputeMode, Device, DeviceActivity, DeviceDetails, DeviceRates, FabricState, Reading,
    RecoveryAction, xid_meaning,
};

/// What devices tell beyond the everyday.
pub const DEVICE_DETAIL: &[Field<Device>] = &[
    Field {
        id: "encoder_percent",
        kind: Kind::Share,
        title: "ENC",
        alias: "enc",
        help: "load of the video encoder",
        read: |device| percent(detail(device, |known| known.encoder)),
    },
    Field {
        id: "decoder_percent",
        kind: Kind::Share,
        title: "DEC",
        alias: "dec",
        help: "load of the video decoder",
        read: |device| percent(detail(device, |known| known.decoder)),
    },
    Field {
        id: "jpeg_percent",
        kind: Kind::Share,
        title: "JPEG",
        alias: "jpeg",
        help: "load of the JPEG engine",
        read: |device| percent(detail(device, |known| known.jpeg)),
    },
    Field {
        id: "optical_flow_percent",
        kind: Kind::Share,
        title: "OFA",
        alias: "ofa",
        help: "load of the optical flow engine",
        read: |device| percent(detail(device, |known| known.optical_flow)),
    },
    Field {
        id: "power_average_watts",
        kind: Kind::Number,
        title: "PAVG",
        alias: "poweravg",
        help: "power averaged over a second",
        read: |device| watts(detail(device, |known| known.power_average)),
    },
    Field {
        id: "power_instant_watts",
        kind: Kind::Number,
        title: "PNOW",
        alias: "powernow",
        help: "power at the moment",
        read: |device| watts(activity(device, |known| known.power_instant)),
    },
    Field {
        id: "power_limit_requested_watts",
        kind: Kind::Number,
        title: "ASKED",
        alias: "limitasked",
        help: "power limit somebody asked for",
        read: |device| watts(detail(device, |known| known.power_limit_requested)),
    },
    Field {
        id: "power_limit_default_watts",
        kind: Kind::Number,
        title: "LDEF",
        alias: "limitdefault",
        help: "power limit it came with",
        read: |device| watts(device.fact(|known| known.power_limit_default)),
    },
    Field {
        id: "power_limit_min_watts",
        kind: Kind::Number,
        title: "LMIN",
        alias: "limitmin",
        help: "lowest power limit there can be",
        read: |device| watts(device.fact(|known| known.power_limit_min)),
    },
    Field {
        id: "power_limit_max_watts",
        kind: Kind::Number,
        title: "LMAX",
        alias: "limitmax",
        help: "highest power limit there can be",
        read: |device| watts(device.fact(|known| known.power_limit_max)),
    },
    Field {
        id: "energy_joules",
        kind: Kind::Whole,
        title: "ENERGY",
        alias: "energy",
        help: "energy spent since the driver was loaded",
        read: |device| {
            whole(detail(device, |known| known.energy_millijoules).map(|energy| energy / 1000))
        },
    },
    Field {
        id: "graphics_clock_megahertz",
        kind: Kind::Whole,
        title: "GRCLK",
        alias: "grclock",
        help: "clock of the graphics engine",
        read: |device| megahertz(detail(device, |known| known.graphics_clock)),
    },
    Field {
        id: "video_clock_megahertz",
        kind: Kind::Whole,
        title: "VIDCLK",
        alias: "videoclock",
        help: "clock of the video engines",
        read: |device| megahertz(detail(device, |known| known.video_clock)),
    },
    Field {
        id: "graphics_clock_max_megahertz",
        kind: Kind::Whole,
        title: "GRCLKMAX",
        alias: "grclockmax",
        help: "highest clock of the graphics engine",
        read: |device| megahertz(device.fact(|known| known.graphics_clock_max)),
    },
    Field {
        id: "video_clock_max_megahertz",
        kind: Kind::Whole,
        title: "VIDCLKMAX",
        alias: "videoclockmax",
        help: "highest clock of the video engines",
        read: |device| megahertz(device.fact(|known| known.video_clock_max)),
    },
    Field {
        id: "temperature_margin_celsius",
        kind: Kind::Number,
        title: "MARGIN",
        alias: "margin",
        help: "degrees left before clocks are held down",
        read: |device| celsius(detail(device, |known| known.temperature_margin)),
    },
    Field {
        id: "slowdown_temperature_celsius",
        kind: Kind::Number,
        title: "SLOWAT",
        alias: "slowat",
        help: "temperature at which clocks are held down",
        read: |device| celsius(device.fact(|known| known.slowdown_temperature)),
    },
    Field {
        id: "shutdown_temperature_celsius",
        kind: Kind::Number,
        title: "OFFAT",
        alias: "offat",
        help: "temperature at which it turns off",
        read: |device| celsius(device.fact(|known| known.shutdown_temperature)),
    },
    Field {
        id: "throttle_reasons",
        kind: Kind::Text,
        title: "THROTTLED",
        alias: "throttled",
        help: "why clocks are held down, in words",
        read: |device| {
            device
                .throttle
                .get()
                .map_or_else(|| unknown(&device.throttle), |bits| Value::Text(bits.text().into()))
        },
    },
    Field {
        id: "throttled_power_percent",
        kind: Kind::Share,
        title: "CAPPED",
        alias: "capped",
        help: "share of time the power limit held clocks down",
        read: |device| percent(rate(device, |known| known.power_throttled)),
    },
    Field {
        id: "throttled_thermal_percent",
        kind: Kind::Share,
        title: "THERMAL",
        alias: "thermal",
        help: "share of time the driver held clocks down for heat",
        read: |device| percent(rate(device, |known| known.thermal_throttled)),
    },
    Field {
        id: "throttled_hardware_thermal_percent",
        kind: Kind::Share,
        title: "HWTHERMAL",
        alias: "hwthermal",
        help: "share of time the hardware held clocks down for heat",
        read: |device| percent(rate(device, |known| known.hardware_thermal_throttled)),
    },
    Field {
        id: "throttled_power_brake_percent",
        kind: Kind::Share,
        title: "BRAKE",
        alias: "brake",
        help: "share of time the power supply held clocks down",
        read: |device| percent(rate(device, |known| known.power_brake_throttled)),
    },
    Field {
        id: "throttled_sync_boost_percent",
        kind: Kind::Share,
        title: "SYNC",
        alias: "syncboost",
        help: "share of time clocks were held down for other devices",
        read: |device| percent(rate(device, |known| known.sync_boost_throttled)),
    },
    Field {
        id: "ecc_enabled",
        kind: Kind::Flag,
        title: "ECCMODE",
        alias: "eccmode",
        help: "memory errors are corrected",
        read: |device| flag(detail(device, |known| known.ecc_enabled)),
    },
    Field {
        id: "ecc_corrected_total_errors",
        kind: Kind::Whole,
        title: "FIXEDALL",
        alias: "eccfixall",
        help: "corrected memory errors in its whole life",
        read: |device| whole(detail(device, |known| known.ecc_corrected_total)),
    },
    Field {
        id: "ecc_uncorrected_total_errors",
        kind: Kind::Whole,
        title: "ECCALL",
        alias: "eccall",
        help: "uncorrected memory errors in its whole life",
        read: |device| whole(detail(device, |known| known.ecc_uncorrected_total)),
    },
    Field {
        id: "retired_single_bit_pages",
        kind: Kind::Whole,
        title: "RET1",
        alias: "retired1",
        help: "memory pages given up for single bit errors",
        read: |device| whole(detail(device, |known| known.retired_single)),
    },
    Field {
        id: "retired_double_bit_pages",
        kind: Kind::Whole,
        title: "RET2",
        alias: "retired2",
        help: "memory pages given up for double bit errors",
        read: |device| whole(detail(device, |known| known.retired_double)),
    },
    Field {
        id: "retirement_pending",
        kind: Kind::Flag,
        title: "RETIRING",
        alias: "retiring",
        help: "memory pages wait for a reboot to be given up",
        read: |device| flag(detail(device, |known| known.retirement_pending)),
    },
    Field {
        id: "remapped_corrected_rows",
        kind: Kind::Whole,
        title: "REMFIX",
        alias: "remapfix",
        help: "memory rows replaced for corrected errors",
        read: |device| whole(detail(device, |known| known.remapped_corrected)),
    },
    Field {
        id: "remapped_uncorrected_rows",
        kind: Kind::Whole,
        title: "REMAP",
        alias: "remap",
        help: "memory rows replaced for uncorrected errors",
        read: |device| whole(detail(device, |known| known.remapped_uncorrected)),
    },
    Field {
        id: "remapping_pending",
        kind: Kind::Flag,
        title: "REMAPPING",
        alias: "remapping",
        help: "memory rows wait for a reset to be replaced",
        read: |device| flag(detail(device, |known| known.remapping_pending)),
    },
    Field {
        id: "remapping_failed",
        kind: Kind::Flag,
        title: "REMFAIL",
        alias: "remapfail",
        help: "a memory row could not be replaced",
        read: |device| flag(detail(device, |known| known.remapping_failed)),
    },
    Field {
        id: "sram_threshold_exceeded",
        kind: Kind::Flag,
        title: "SRAM",
        alias: "sram",
        help: "so many errors in the on-chip memory that it should be replaced",
        read: |device| flag(detail(device, |known| known.sram_threshold_exceeded)),
    },
    Field {
        id: "xid",
        kind: Kind::Whole,
        title: "XID",
        alias: "xid",
        help: "the last Xid since gtop watches",
        read: |device| whole(detail(device, |known| known.xid)),
    },
    Field {
        id: "xid_meaning",
        kind: Kind::Text,
        title: "MEANING",
        alias: "xidmeaning",
        help: "the last Xid in words",
        read: |device| {
            text(&detail(device, |known| {
                known.xid.map(|code| xid_meaning(u64::from(code)).unwrap_or("unknown").into())
            }))
        },
    },
    Field {
        id: "xid_events",
        kind: Kind::Whole,
        title: "XIDS",
        alias: "xids",
        help: "how many Xids there were since gtop watches",
        read: |device| whole(detail(device, |known| known.xids)),
    },
    Field {
        id: "recovery_action",
        kind: Kind::Text,
        title: "RECOVER",
        alias: "recover",
        help: "what would bring it back to health",
        read: |device| word(detail(device, |known| known.recovery), RecoveryAction::text),
    },
    Field {
        id: "pcie_generation_max",
        kind: Kind::Whole,
        title: "GENMAX",
        alias: "pciegenmax",
        help: "PCIe generation at most",
        read: |device| whole(device.fact(|known| known.pcie_max.map(|(generation, _)| generation))),
    },
    Field {
        id: "pcie_lanes_max",
        kind: Kind::Whole,
        title: "LANESMAX",
        alias: "pciewidthmax",
        help: "PCIe lanes at most",
        read: |device| whole(device.fact(|known| known.pcie_max.map(|(_, lanes)| lanes))),
    },
    Field {
        id: "pcie_receive_bytes_per_second",
        kind: Kind::Whole,
        title: "PCIERX",
        alias: "pcierx",
        help: "received over PCIe",
        read: |device| {
            bytes(
                rate(device, |known| known.pcie_received)
                    .or(|| activity(device, |known| known.pcie_received)),
            )
        },
    },
    Field {
        id: "pcie_transmit_bytes_per_second",
        kind: Kind::Whole,
        title: "PCIETX",
        alias: "pcietx",
        help: "sent over PCIe",
        read: |device| {
            bytes(
                rate(device, |known| known.pcie_sent)
                    .or(|| activity(device, |known| known.pcie_sent)),
            )
        },
    },
    Field {
        id: "pcie_replays",
        kind: Kind::Whole,
        title: "REPLAYS",
        alias: "replays",
        help: "PCIe packets sent again",
        read: |device| whole(detail(device, |known| known.pcie_replays)),
    },
    Field {
        id: "nvlinks",
        kind: Kind::Whole,
        title: "LINKS",
        alias: "nvlinks",
        help: "number of NVLinks",
        read: |device| whole(device.fact(|known| known.nvlinks)),
    },
    Field {
        id: "nvlink_receive_bytes_per_second",
        kind: Kind::Whole,
        title: "NVRX",
        alias: "nvrx",
        help: "received over all NVLinks",
        read: |device| {
            bytes(
                rate(device, |known| known.nvlink_received)
                    .or(|| activity(device, |known| known.nvlink_received)),
            )
        },
    },
    Field {
        id: "nvlink_transmit_bytes_per_second",
        kind: Kind::Whole,
        title: "NVTX",
        alias: "nvtx",
        help: "sent over all NVLinks",
        read: |device| {
            bytes(
                rate(device, |known| known.nvlink_sent)
                    .or(|| activity(device, |known| known.nvlink_sent)),
            )
        },
    },
    Field {
        id: "bar1_used_bytes",
        kind: Kind::Whole,
        title: "BAR1",
        alias: "bar1",
        help: "memory mapped by the host",
        read: |device| bytes(detail(device, |known| known.bar1_used)),
    },
    Field {
        id: "bar1_total_bytes",
        kind: Kind::Whole,
        title: "BAR1ALL",
        alias: "bar1total",
        help: "memory that can be mapped by the host",
        read: |device| bytes(detail(device, |known| known.bar1_total)),
    },
    Field {
        id: "bar1_free_bytes",
        kind: Kind::Whole,
        title: "BAR1FREE",
        alias: "bar1free",
        help: "memory that can still be mapped by the host",
        read: |device| bytes(detail(device, |known| known.bar1_free)),
    },
    Field {
        id: "display_active",
        kind: Kind::Flag,
        title: "DISPLAY",
        alias: "display",
        help: "a display is attached and drawn on",
        read: |device| flag(detail(device, |known| known.display_active)),
    },
    Field {
        id: "compute_mode",
        kind: Kind::Text,
        title: "MODE",
        alias: "mode",
        help: "who may use it",
        read: |device| word(detail(device, |known| known.compute_mode), ComputeMode::text),
    },
    Field {
        id: "compute_capability",
        kind: Kind::Text,
        title: "CC",
        alias: "cc",
        help: "CUDA compute capability",
        read: |device| text(&device.fact(|known| known.capability.clone())),
    },
    Field {
        id: "numa_node",
        kind: Kind::Whole,
        title: "NUMA",
        alias: "numa",
        help: "the part of the host's memory it is close to",
        read: |device| whole(device.fact(|known| known.numa_node)),
    },
    Field {
        id: "device_minor",
        kind: Kind::Whole,
        title: "MINOR",
        alias: "minor",
        help: "number of its device file, by which Slurm counts devices: 3 of /dev/nvidia3",
        read: |device| whole(device.fact(|known| known.minor)),
    },
    Field {
        id: "fabric_state",
        kind: Kind::Text,
        title: "FABRIC",
        alias: "fabric",
        help: "how far its registration with the fabric of NVLinks has come",
        read: |device| word(detail(device, |known| known.fabric), FabricState::text),
    },
    Field {
        id: "fabric_health",
        kind: Kind::Text,
        title: "FABHEALTH",
        alias: "fabrichealth",
        help: "what the fabric of NVLinks suffers from",
        read: |device| {
            text(&detail(device, |known| {
                known.fabric_health.map(|health| health.to_string().into())
            }))
        },
    },
    Field {
        id: "graphics_active_percent",
        kind: Kind::Share,
        title: "GRACT",
        alias: "gract",
        help: "share of time anything ran, measured by the hardware",
        read: |device| percent(activity(device, |known| known.graphics_active)),
    },
    Field {
        id: "sm_active_percent",
        kind: Kind::Share,
        title: "SMACT",
        alias: "smact",
        help: "share of multiprocessors busy",
        read: |device| percent(activity(device, |known| known.sm_active)),
    },
    Field {
        id: "sm_occupancy_percent",
        kind: Kind::Share,
        title: "OCC",
        alias: "occupancy",
        help: "share of the warps there could be",
        read: |device| percent(activity(device, |known| known.sm_occupancy)),
    },
    Field {
        id: "tensor_active_percent",
        kind: Kind::Share,
        title: "TENSOR",
        alias: "tensor",
        help: "share of time the tensor cores worked",
        read: |device| percent(activity(device, |known| known.tensor_active)),
    },
    Field {
        id: "dram_active_percent",
        kind: Kind::Share,
        title: "DRAM",
        alias: "dram",
        help: "share of the memory's bandwidth",
        read: |device| percent(activity(device, |known| known.dram_active)),
    },
    Field {
        id: "fp64_active_percent",
        kind: Kind::Share,
        title: "FP64",
        alias: "fp64",
        help: "share of time spent in double precision",
        read: |device| percent(activity(device, |known| known.fp64_active)),
    },
    Field {
        id: "fp32_active_percent",
        kind: Kind::Share,
        title: "FP32",
        alias: "fp32",
        help: "share of time spent in single precision",
        read: |device| percent(activity(device, |known| known.fp32_active)),
    },
    Field {
        id: "fp16_active_percent",
        kind: Kind::Share,
        title: "FP16",
        alias: "fp16",
        help: "share of time spent in half precision",
        read: |device| percent(activity(device, |known| known.fp16_active)),
    },
    Field {
        id: "gpu_instance",
        kind: Kind::Whole,
        title: "GI",
        alias: "gi",
        help: "of a slice: its GPU instance",
        read: |device| whole(device.fact(|known| known.gpu_instance)),
    },
    Field {
        id: "compute_instance",
        kind: Kind::Whole,
        title: "CI",
        alias: "ci",
        help: "of a slice: its compute instance",
        read: |device| whole(device.fact(|known| known.compute_instance)),
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
