//! Device metrics of AMD's driver.

use crate::metrics::detail::detail;
use crate::metrics::{Field, bytes, celsius, integer, percent, text};
use crate::model::Device;

/// Metrics that only AMD devices report.
pub const DEVICE_AMD: &[Field<Device>] = &[
    Field::integer(
        "gtt_used_bytes",
        "gtt",
        "GTT memory in use (host memory mapped by the device)",
        |device| bytes(detail(device, |known| known.host_memory_used)),
    ),
    Field::integer("gtt_total_bytes", "gtttotal", "total GTT memory", |device| {
        bytes(device.static_value(|known| known.host_memory_total))
    }),
    Field::number(
        "junction_temperature_celsius",
        "junction",
        "junction temperature (hottest spot)",
        |device: &Device| celsius(detail(device, |known| known.junction_temperature)),
    )
    .column(("JUNCTION", "junction"), (8, 5), "junction (hotspot) temperature"),
    Field::number(
        "junction_slowdown_temperature_celsius",
        "jslowat",
        "junction slowdown temperature",
        |device| celsius(device.static_value(|known| known.junction_slowdown_temperature)),
    ),
    Field::number(
        "memory_slowdown_temperature_celsius",
        "mslowat",
        "memory slowdown temperature",
        |device| celsius(device.static_value(|known| known.memory_slowdown_temperature)),
    ),
    Field::integer("fan_rpm", "rpm", "fan speed in revolutions per minute", |device| {
        integer(detail(device, |known| known.fan_rpm))
    }),
    Field::share("video_percent", "vcn", "utilization of the video engine (VCN)", |device| {
        percent(detail(device, |known| known.video))
    }),
    Field::text(
        "performance_level",
        "level",
        "performance level of the driver, such as auto or high",
        |device| text(&detail(device, |known| known.performance_level.clone())),
    ),
    Field::text("compute_partition", "cpart", "compute partition mode, such as SPX", |device| {
        text(&detail(device, |known| known.compute_partition.clone()))
    }),
    Field::text("memory_partition", "mpart", "memory partition mode, such as NPS1", |device| {
        text(&detail(device, |known| known.memory_partition.clone()))
    }),
];
