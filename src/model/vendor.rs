//! Vendors of devices.

/// The vendor of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Google.
    Google,
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

    /// Returns the name used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
            Self::Google => "google",
        }
    }
}
