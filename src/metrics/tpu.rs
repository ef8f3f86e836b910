//! Device metrics of TPU chips.

use crate::metrics::{Field, ValueKind, flag, integer, number, percent, text};
use crate::model::{Device, Reading, TpuDetails};

/// Metrics that only TPU chips report.
pub const DEVICE_TPU: &[Field<Device>] = &[
    Field {
        id: "device_node",
        kind: ValueKind::Text,
        title: "DEVNODE",
        alias: "devnode",
        help: "TPU: device nodes",
        read: |device| text(&tpu(device, |known| known.nodes.clone())),
    },
    Field {
        id: "tpu_cores",
        kind: ValueKind::Integer,
        title: "CORES",
        alias: "cores",
        help: "TPU: cores of the chip, as the runtime reports",
        read: |device| integer(tpu(device, |known| known.cores)),
    },
    Field {
        id: "held",
        kind: ValueKind::Flag,
        title: "HELD",
        alias: "held",
        help: "TPU: a process has the chip open",
        read: |device| flag(tpu(device, |known| known.is_held)),
    },
    Field {
        id: "hbm_bandwidth_percent",
        kind: ValueKind::Share,
        title: "HBMBW",
        alias: "hbmbw",
        help: "TPU: share of peak HBM bandwidth",
        read: |device| percent(tpu(device, |known| known.bandwidth)),
    },
    Field {
        id: "tensorcore_idle_seconds",
        kind: ValueKind::Number,
        title: "TCIDLE",
        alias: "tcidle",
        help: "TPU: time since a TensorCore last ran",
        read: |device| number(tpu(device, |known| known.idle_seconds)),
    },
    Field {
        id: "hlo_queue",
        kind: ValueKind::Integer,
        title: "HLOQ",
        alias: "hloq",
        help: "TPU: programs queued for the chip",
        read: |device| integer(tpu(device, |known| known.queue)),
    },
    Field {
        id: "runtime_uptime_seconds",
        kind: ValueKind::Integer,
        title: "RUNTIME",
        alias: "runtime",
        help: "TPU: uptime of the runtime",
        read: |device| integer(tpu(device, |known| known.uptime_seconds)),
    },
    Field {
        id: "framework",
        kind: ValueKind::Text,
        title: "FRAMEWORK",
        alias: "framework",
        help: "TPU: framework that uses the runtime",
        read: |device| text(&tpu(device, |known| known.framework.clone())),
    },
    Field {
        id: "slice_error",
        kind: ValueKind::Text,
        title: "SLICEERR",
        alias: "sliceerr",
        help: "TPU: fault of the slice",
        read: |device| text(&tpu(device, |known| known.slice_error.clone())),
    },
    Field {
        id: "megascale_error",
        kind: ValueKind::Text,
        title: "MEGAERR",
        alias: "megaerr",
        help: "TPU: fault between slices",
        read: |device| text(&tpu(device, |known| known.megascale_error.clone())),
    },
    Field {
        id: "metrics_source",
        kind: ValueKind::Text,
        title: "SOURCE",
        alias: "metrics",
        help: "TPU: source of the metrics",
        read: |device| text(&tpu(device, |known| known.metrics_source.clone())),
    },
    Field {
        id: "metrics_fault",
        kind: ValueKind::Text,
        title: "MFAULT",
        alias: "metricsfault",
        help: "TPU: why expected metrics are missing",
        read: |device| text(&tpu(device, |known| known.metrics_fault.clone())),
    },
];

fn tpu<T>(device: &Device, read: impl Fn(&TpuDetails) -> Reading<T>) -> Reading<T> {
    device.tpu.as_deref().map_or_else(Reading::default, read)
}
