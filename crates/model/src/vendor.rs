//! Vendors of devices.

use crate::declare::table;

table! {
    /// The vendor of a device.
    #[derive(PartialOrd, Ord)]
    pub enum Vendor {
        /// NVIDIA.
        Nvidia = "nvidia",
        /// AMD.
        Amd = "amd",
        /// Google.
        Google = "google",
    }
    /// Returns the name used in JSON.
    pub fn as_str -> &'static str;
}

impl Vendor {
    /// Returns the vendor of a backend's devices.
    pub fn from_backend(kind: &str) -> Option<Self> {
        Some(match kind {
            "nvml" | "nvidia-smi" => Self::Nvidia,
            "amdgpu" => Self::Amd,
            "tpu" => Self::Google,
            _ => return None,
        })
    }
}
