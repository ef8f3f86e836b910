//! Device metrics of AMD's driver.

use crate::metrics::detail::detail;
use crate::metrics::{Field, ValueKind, bytes, celsius, integer, percent, text};
use crate::model::Device;

/// Metrics that only AMD devices report.
pub const DEVICE_AMD: &[Field<Device>] = &[
    Field {
        id: "gtt_used_bytes",
        kind: ValueKind::Integer,
        title: "GTT",
        alias: "gtt",
        help: "GTT memory in use (host memory mapped by the device)",
        read: |device| bytes(detail(device, |known| known.host_memory_used)),
    },
    Field {
        id: "gtt_total_bytes",
        kind: ValueKind::Integer,
        title: "GTTTOTAL",
        alias: "gtttotal",
        help: "total GTT memory",
        read: |device| bytes(device.static_value(|known| known.host_memory_total)),
    },
    Field {
        id: "junction_temperature_celsius",
        kind: ValueKind::Number,
        title: "JUNCTION",
        alias: "junction",
        help: "junction temperature (hottest spot)",
        read: |device| celsius(detail(device, |known| known.junction_temperature)),
    },
    Field {
        id: "junction_slowdown_temperature_celsius",
        kind: ValueKind::Number,
        title: "JSLOWAT",
        alias: "jslowat",
        help: "junction slowdown temperature",
        read: |device| celsius(device.static_value(|known| known.junction_slowdown_temperature)),
    },
    Field {
        id: "memory_slowdown_temperature_celsius",
        kind: ValueKind::Number,
        title: "MSLOWAT",
        alias: "mslowat",
        help: "memory slowdown temperature",
        read: |device| celsius(device.static_value(|known| known.memory_slowdown_temperature)),
    },
    Field {
        id: "fan_rpm",
        kind: ValueKind::Integer,
        title: "RPM",
        alias: "rpm",
        help: "fan speed in revolutions per minute",
        read: |device| integer(detail(device, |known| known.fan_rpm)),
    },
    Field {
        id: "video_percent",
        kind: ValueKind::Share,
        title: "VCN",
        alias: "vcn",
        help: "utilization of the video engine (VCN)",
        read: |device| percent(detail(device, |known| known.video)),
    },
    Field {
        id: "performance_level",
        kind: ValueKind::Text,
        title: "LEVEL",
        alias: "level",
        help: "performance level of the driver, such as auto or high",
        read: |device| text(&detail(device, |known| known.performance_level.clone())),
    },
    Field {
        id: "compute_partition",
        kind: ValueKind::Text,
        title: "CPART",
        alias: "cpart",
        help: "compute partition mode, such as SPX",
        read: |device| text(&detail(device, |known| known.compute_partition.clone())),
    },
    Field {
        id: "memory_partition",
        kind: ValueKind::Text,
        title: "MPART",
        alias: "mpart",
        help: "memory partition mode, such as NPS1",
        read: |device| text(&detail(device, |known| known.memory_partition.clone())),
    },
];
