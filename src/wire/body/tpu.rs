//! The JSON of what only TPU chips tell.

use serde::{Deserialize, Serialize};

use crate::wire::raw::Raw;

/// What only a TPU chip tells; where a key is `null`, the device's `lacks` says why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tpu {
    /// Its device nodes, a space between two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Cores that the runtime counts on it.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub cores: Raw<u64>,
    /// A process has its device node open, or serves its numbers.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub held: Raw<bool>,
    /// Percent of the memory's bandwidth.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub hbm_util: Raw<f64>,
    /// Seconds since one of its cores last worked.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub idle: Raw<f64>,
    /// Programs that wait for it.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub queue: Raw<u64>,
    /// Where the numbers come from: `port 8431`, `libtpuinfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Why there are none although there should be, in words; `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its cores one by one, where there are several and each has numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_core: Option<Vec<TpuCore>>,
    /// Seconds since its runtime has started.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uptime: Raw<f64>,
    /// What uses that runtime: name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// What is wrong with its slice, in the runtime's words; `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_error: Option<String>,
    /// What is wrong between slices, in the runtime's words; `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub megascale_error: Option<String>,
}

/// One core of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TpuCore {
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub used: Raw<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub total: Raw<u64>,
    /// Percent.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub util: Raw<f64>,
}
