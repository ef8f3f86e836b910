//! The metrics of a device that the driver of AMD devices tells.

use crate::fields::detail::detail;
use crate::fields::{Field, Kind, bytes, celsius, percent, text, whole};
use crate::model::Device;

/// What AMD devices tell beyond what those of other makers do.
pub const DEVICE_AMD: &[Field<Device>] = &[
    Field {
        id: "gtt_used_bytes",
        kind: Kind::Whole,
        title: "GTT",
        alias: "gtt",
        help: "memory of the host that it uses as its own",
        read: |device| bytes(detail(device, |known| known.host_memory_used)),
    },
    Field {
        id: "gtt_total_bytes",
        kind: Kind::Whole,
        title: "GTTTOTAL",
        alias: "gtttotal",
        help: "memory of the host that it may use as its own",
        read: |device| bytes(device.fact(|known| known.host_memory_total)),
    },
    Field {
        id: "junction_temperature_celsius",
        kind: Kind::Number,
        title: "JUNCTION",
        alias: "junction",
        help: "temperature of the hottest place",
        read: |device| celsius(detail(device, |known| known.junction_temperature)),
    },
    Field {
        id: "junction_slowdown_temperature_celsius",
        kind: Kind::Number,
        title: "JSLOWAT",
        alias: "jslowat",
        help: "temperature from which the junction is too hot",
        read: |device| celsius(device.fact(|known| known.junction_slowdown_temperature)),
    },
    Field {
        id: "memory_slowdown_temperature_celsius",
        kind: Kind::Number,
        title: "MSLOWAT",
        alias: "mslowat",
        help: "temperature from which the memory is too hot",
        read: |device| celsius(device.fact(|known| known.memory_slowdown_temperature)),
    },
    Field {
        id: "fan_rpm",
        kind: Kind::Whole,
        title: "RPM",
        alias: "rpm",
        help: "turns of the fan in a minute",
        read: |device| whole(detail(device, |known| known.fan_rpm)),
    },
    Field {
        id: "video_percent",
        kind: Kind::Share,
        title: "VCN",
        alias: "vcn",
        help: "load of the engine that encodes and decodes",
        read: |device| percent(detail(device, |known| known.video)),
    },
    Field {
        id: "performance_level",
        kind: Kind::Text,
        title: "LEVEL",
        alias: "level",
        help: "how its clocks are chosen, in the driver's word",
        read: |device| text(&detail(device, |known| known.performance_level.clone())),
    },
    Field {
        id: "compute_partition",
        kind: Kind::Text,
        title: "CPART",
        alias: "cpart",
        help: "how its compute units are shared out, in the driver's word",
        read: |device| text(&detail(device, |known| known.compute_partition.clone())),
    },
    Field {
        id: "memory_partition",
        kind: Kind::Text,
        title: "MPART",
        alias: "mpart",
        help: "how its memory is shared out, in the driver's word",
        read: |device| text(&detail(device, |known| known.memory_partition.clone())),
    },
];
