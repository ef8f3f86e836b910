//! Device metrics of AMD's driver.

use crate::metrics::{Field, Value, ValueKind, fields};
use gtop_model::{Device, Reading};

/// Metrics that only AMD devices report.
pub const DEVICE_AMD: &[Field<Device>] = fields! { Device:
    Integer("gtt_used_bytes", "gtt", "GTT memory in use (host memory mapped by the device)", details?.host_memory_used);
    Integer("gtt_total_bytes", "gtttotal", "total GTT memory", statics?.host_memory_total);
    Number("junction_temperature_celsius", "junction", "junction temperature (hottest spot)",
        details?.junction_temperature)
        .column(("JUNCTION", "junction"), (8, 6));
    Number("junction_slowdown_temperature_celsius", "jslowat", "junction slowdown temperature",
        statics?.junction_slowdown_temperature);
    Number("memory_slowdown_temperature_celsius", "mslowat", "memory slowdown temperature",
        statics?.memory_slowdown_temperature);
    Integer("fan_rpm", "rpm", "fan speed in revolutions per minute", details?.fan_rpm);
    Share("video_percent", "vcn", "utilization of the video engine (VCN)", details?.video);
    Text("performance_level", "level", "performance level of the driver, such as auto or high",
        details?.performance_level);
    Text("compute_partition", "cpart", "compute partition mode, such as SPX", details?.compute_partition);
    Text("memory_partition", "mpart", "memory partition mode, such as NPS1", details?.memory_partition);
};
