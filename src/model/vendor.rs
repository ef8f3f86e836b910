//! Who makes a device.

/// The maker of a device.
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
    /// Returns whose devices a backend of this kind tells of.
    pub fn from_backend(kind: &str) -> Option<Self> {
        Some(match kind {
            "nvml" | "nvidia-smi" => Self::Nvidia,
            "amdgpu" => Self::Amd,
            "tpu" => Self::Google,
            _ => return None,
        })
    }

    /// Returns the name programs see.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
            Self::Google => "google",
        }
    }
}
