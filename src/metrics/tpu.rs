//! Device metrics of TPU chips.

use crate::metrics::{Field, flag, integer, number, percent, text};
use crate::model::{Device, Reading, TpuDetails};

/// Metrics that only TPU chips report.
pub const DEVICE_TPU: &[Field<Device>] = &[
    Field::text("device_node", "devnode", "TPU: device nodes", |device| {
        text(&tpu(device, |known| known.nodes.clone()))
    }),
    Field::integer(
        "tpu_cores",
        "cores",
        "TPU: cores of the chip, as the runtime reports",
        |device| integer(tpu(device, |known| known.cores)),
    ),
    Field::flag("held", "held", "TPU: a process has the chip open", |device| {
        flag(tpu(device, |known| known.is_held))
    }),
    Field::share("hbm_bandwidth_percent", "hbmbw", "TPU: share of peak HBM bandwidth", |device| {
        percent(tpu(device, |known| known.bandwidth))
    }),
    Field::number(
        "tensorcore_idle_seconds",
        "tcidle",
        "TPU: time since a TensorCore last ran",
        |device| number(tpu(device, |known| known.idle_seconds)),
    ),
    Field::integer("hlo_queue", "hloq", "TPU: programs queued for the chip", |device: &Device| {
        integer(tpu(device, |known| known.queue))
    })
    .column(("HLOQ", "hloq"), (5, 19), "programs queued for a chip"),
    Field::integer("runtime_uptime_seconds", "runtime", "TPU: uptime of the runtime", |device| {
        integer(tpu(device, |known| known.uptime_seconds))
    }),
    Field::text("framework", "framework", "TPU: framework that uses the runtime", |device| {
        text(&tpu(device, |known| known.framework.clone()))
    }),
    Field::text("slice_error", "sliceerr", "TPU: fault of the slice", |device| {
        text(&tpu(device, |known| known.slice_error.clone()))
    }),
    Field::text("megascale_error", "megaerr", "TPU: fault between slices", |device| {
        text(&tpu(device, |known| known.megascale_error.clone()))
    }),
    Field::text("metrics_source", "metrics", "TPU: source of the metrics", |device| {
        text(&tpu(device, |known| known.metrics_source.clone()))
    }),
    Field::text(
        "metrics_fault",
        "metricsfault",
        "TPU: why expected metrics are missing",
        |device| text(&tpu(device, |known| known.metrics_fault.clone())),
    ),
];

fn tpu<T>(device: &Device, read: impl Fn(&TpuDetails) -> Reading<T>) -> Reading<T> {
    device.tpu.as_deref().map_or_else(Reading::default, read)
}
