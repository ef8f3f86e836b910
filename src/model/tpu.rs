//! What is known of a TPU chip beyond what every device has.

use std::sync::Arc;

use crate::model::details::readings;
use crate::model::reading::Reading;
use crate::model::unit::{Bytes, Percent};

readings! {
    /// What only a TPU chip tells. A chip is one device, however many cores it has.
    TpuDetails {
        /// Its device nodes, a space between two.
        nodes: Arc<str>,
        /// Cores that the runtime counts on it.
        cores: u32,
        /// A process has its device node open, or serves its numbers.
        is_held: bool,
        /// Share of the memory's bandwidth.
        bandwidth: Percent,
        /// Seconds since one of its cores last worked.
        idle_seconds: f32,
        /// Programs that wait for it.
        queue: u64,
        /// Where the numbers come from.
        metrics_source: Arc<str>,
        /// Why there are none although there should be; `none`.
        metrics_fault: Arc<str>,
        /// Its cores one by one, where there are several and each has numbers.
        by_core: Arc<[TpuCore]>,
        /// Seconds since its runtime has started.
        uptime_seconds: u64,
        /// What uses that runtime: name and version.
        framework: Arc<str>,
        /// What is wrong with its slice, in the runtime's words; `none`.
        slice_error: Arc<str>,
        /// What is wrong between slices, in the runtime's words; `none`.
        megascale_error: Arc<str>,
    }
}

/// One core of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TpuCore {
    /// Memory in use.
    pub memory_used: Option<Bytes>,
    /// Memory.
    pub memory_total: Option<Bytes>,
    /// Share of time it ran anything.
    pub utilization: Option<Percent>,
}
