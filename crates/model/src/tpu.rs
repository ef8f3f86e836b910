//! Values that only TPU chips have.

use std::sync::Arc;

use crate::details::readings;
use crate::reading::Reading;
use crate::unit::{Bytes, Percent};

readings! {
    /// Values that only TPU chips have. A chip is one device, whatever its number of cores.
    TpuDetails {
        /// The device files, separated by spaces.
        nodes: Arc<str>,
        /// Number of cores, as reported by the runtime.
        cores: u32,
        /// A process has the device file open or exports metrics of the chip.
        is_held: bool,
        /// HBM bandwidth in use.
        bandwidth: Percent,
        /// Seconds since one of the cores was last active.
        idle_seconds: f32,
        /// Number of queued programs.
        queue: u64,
        /// Source of the metrics: `port 8431` or `libtpuinfo`.
        metrics_source: Arc<str>,
        /// Why expected metrics are missing; `none` if they are not.
        metrics_fault: Arc<str>,
        /// The cores, if there are several and each has metrics.
        by_core: Arc<[TpuCore]>,
        /// Seconds since the runtime started.
        uptime_seconds: u64,
        /// Name and version of the framework that uses the runtime.
        framework: Arc<str>,
        /// The runtime's error message about the slice; `none` without error.
        slice_error: Arc<str>,
        /// The runtime's error message about the connections between slices; `none` without error.
        megascale_error: Arc<str>,
    }
}

/// One core of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TpuCore {
    /// Memory in use.
    pub memory_used: Option<Bytes>,
    /// Total memory.
    pub memory_total: Option<Bytes>,
    /// Share of time it was busy.
    pub utilization: Option<Percent>,
}
