//! Device metrics of TPU chips.

use crate::metrics::{Field, Value, ValueKind, fields};
use gtop_model::{Device, Reading};

/// Metrics that only TPU chips report.
pub const DEVICE_TPU: &[Field<Device>] = fields! { Device:
    Text("device_node", "devnode", "TPU: device nodes", tpu?.nodes);
    Integer("tpu_cores", "cores", "TPU: cores of the chip, as the runtime reports", tpu?.cores);
    Flag("held", "held", "TPU: a process has the chip open", tpu?.is_held);
    Share("hbm_bandwidth_percent", "hbmbw", "TPU: share of peak HBM bandwidth", tpu?.bandwidth);
    Number("tensorcore_idle_seconds", "tcidle", "TPU: time since a TensorCore last ran", tpu?.idle_seconds);
    Integer("hlo_queue", "hloq", "TPU: programs queued for the chip", tpu?.queue)
        .column(("HLOQ", "hloq"), (5, 20));
    Integer("runtime_uptime_seconds", "runtime", "TPU: uptime of the runtime", tpu?.uptime_seconds);
    Text("framework", "framework", "TPU: framework that uses the runtime", tpu?.framework);
    Text("slice_error", "sliceerr", "TPU: fault of the slice", tpu?.slice_error);
    Text("megascale_error", "megaerr", "TPU: fault between slices", tpu?.megascale_error);
    Text("metrics_source", "metrics", "TPU: source of the metrics", tpu?.metrics_source);
    Text("metrics_fault", "metricsfault", "TPU: why expected metrics are missing", tpu?.metrics_fault);
};
