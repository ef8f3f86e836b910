//! The JSON of values that only TPU chips have.

use serde::{Deserialize, Serialize};

use crate::wire::raw::Raw;

/// Values of a TPU chip; for `null`, the reason is in the device's `lacks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tpu {
    /// The device files, separated by spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Number of cores, as reported by the runtime.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub cores: Raw<u64>,
    /// True if a process has the device file open or exports metrics of the chip.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub held: Raw<bool>,
    /// HBM bandwidth in use, in percent.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub hbm_util: Raw<f64>,
    /// Seconds since one of the cores was last active.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub idle: Raw<f64>,
    /// Number of queued programs.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub queue: Raw<u64>,
    /// Source of the metrics: `port 8431` or `libtpuinfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Why expected metrics are missing; `none` if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The cores, if there are several and each has metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_core: Option<Vec<TpuCore>>,
    /// Seconds since the runtime started.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uptime: Raw<f64>,
    /// Name and version of the framework that uses the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The runtime's error message about the slice; `none` without error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_error: Option<String>,
    /// The runtime's error message about the connections between slices; `none` without error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub megascale_error: Option<String>,
}

/// One core of a TPU chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TpuCore {
    /// Bytes of memory in use.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub used: Raw<u64>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub total: Raw<u64>,
    /// Utilization in percent.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub util: Raw<f64>,
}
