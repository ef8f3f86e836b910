//! The JSON of values that only TPU chips have.

use crate::wire::raw::Raw;
use crate::wire::schema::{in_place, objects};

in_place! {
    /// Values of a TPU chip; for `null`, the reason is in the device's `lacks`.
    pub struct Tpu => gtop_model::TpuDetails {
        /// The device files, separated by spaces.
        pub nodes?: Option<String> => nodes,
        /// Number of cores, as reported by the runtime.
        pub cores?: Raw<u64> => cores,
        /// True if a process has the device file open or exports metrics of the chip.
        pub held?: Raw<bool> => is_held,
        /// HBM bandwidth in use, in percent.
        pub hbm_util?: Raw<f64> => bandwidth,
        /// Seconds since one of the cores was last active.
        pub idle?: Raw<f64>,
        /// Number of queued programs.
        pub queue?: Raw<u64> => queue,
        /// Source of the metrics: `port 8431` or `libtpuinfo`.
        pub source?: Option<String> => metrics_source,
        /// Why expected metrics are missing; `none` if they are not.
        pub trouble?: Option<String> => metrics_fault,
        /// The cores, if there are several and each has metrics.
        pub by_core?: Option<Vec<TpuCore>>,
        /// Seconds since the runtime started.
        pub uptime?: Raw<f64>,
        /// Name and version of the framework that uses the runtime.
        pub framework?: Option<String> => framework,
        /// The runtime's error message about the slice; `none` without error.
        pub slice_error?: Option<String> => slice_error,
        /// The runtime's error message about the connections between slices; `none` without error.
        pub megascale_error?: Option<String> => megascale_error,
    }
}

objects! {
    /// One core of a TPU chip.
    #[derive(Copy)]
    pub struct TpuCore {
        /// Bytes of memory in use.
        pub used?: Raw<u64>,
        /// Bytes of memory.
        pub total?: Raw<u64>,
        /// Utilization in percent.
        pub util?: Raw<f64>,
    }
}
