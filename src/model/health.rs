//! States of a device that drivers number, as words.

use std::fmt;

/// Who may use a device (`nvmlComputeMode_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of processes.
    Shared,
    /// One thread.
    ExclusiveThread,
    /// Nobody.
    Prohibited,
    /// One process.
    ExclusiveProcess,
}

impl ComputeMode {
    /// Returns the mode of this number.
    pub const fn new(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Shared,
            1 => Self::ExclusiveThread,
            2 => Self::Prohibited,
            3 => Self::ExclusiveProcess,
            _ => return None,
        })
    }

    /// Returns the mode in a word or two.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Shared => "default",
            Self::ExclusiveThread => "exclusive thread",
            Self::Prohibited => "prohibited",
            Self::ExclusiveProcess => "exclusive process",
        }
    }
}

/// How far a device's registration with the fabric of `NVLinks` has come (`nvmlGpuFabricState_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricState {
    /// There is no fabric.
    None,
    /// Not begun.
    NotStarted,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

impl FabricState {
    /// Returns the state of this number.
    pub const fn new(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::NotStarted,
            2 => Self::InProgress,
            3 => Self::Completed,
            _ => return None,
        })
    }

    /// Returns the state in a word or two.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "no fabric",
            Self::NotStarted => "not started",
            Self::InProgress => "in progress",
            Self::Completed => "completed",
        }
    }
}

/// What the fabric of `NVLinks` suffers from: two bits a matter, 1 is yes
/// (`NVML_GPU_FABRIC_HEALTH_MASK_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricHealth(pub u32);

impl FabricHealth {
    /// `nvidia-smi` sums it up so; no bit of NVML's.
    pub const LIMITED: u32 = 1 << 28;
    /// Likewise.
    pub const UNHEALTHY: u32 = 1 << 30;

    const FLAGS: [(u32, &'static str); 6] = [
        (0, "degraded bandwidth"),
        (2, "route recovery"),
        (4, "unhealthy route"),
        (6, "access timeout"),
        (28, "limited capacity"),
        (30, "unhealthy"),
    ];
}

impl fmt::Display for FabricHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for (shift, words) in Self::FLAGS {
            if self.0 >> shift & 3 == 1 {
                f.write_str(if is_first { "" } else { ", " })?;
                f.write_str(words)?;
                is_first = false;
            }
        }
        if is_first { f.write_str("good") } else { Ok(()) }
    }
}

/// What would bring a device back to health (`NVML_GPU_RECOVERY_ACTION_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// It is well.
    None,
    /// A reset of the device.
    Reset,
    /// A reboot of the node.
    Reboot,
    /// Draining its traffic to other devices.
    DrainPeers,
    /// Draining it and a reset.
    DrainAndReset,
    /// Something that drivers number differently.
    Other,
}

impl RecoveryAction {
    /// Returns the action of this number. From 5 on the numbers changed their meaning between drivers.
    pub const fn new(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Reset,
            2 => Self::Reboot,
            3 => Self::DrainPeers,
            4 => Self::DrainAndReset,
            5..=15 => Self::Other,
            _ => return None,
        })
    }

    /// Returns its number; `None` where drivers number it differently.
    pub const fn number(self) -> Option<u64> {
        Some(match self {
            Self::None => 0,
            Self::Reset => 1,
            Self::Reboot => 2,
            Self::DrainPeers => 3,
            Self::DrainAndReset => 4,
            Self::Other => return None,
        })
    }

    /// Returns the action in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Reset => "reset the device",
            Self::Reboot => "reboot the node",
            Self::DrainPeers => "drain peer-to-peer traffic",
            Self::DrainAndReset => "drain and reset the device",
            Self::Other => "see nvidia-smi -q",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_nobody_knows_are_no_state() {
        assert_eq!(ComputeMode::new(3), Some(ComputeMode::ExclusiveProcess));
        assert_eq!(ComputeMode::new(4), None);
        assert_eq!(FabricState::new(4), None);
        assert_eq!(RecoveryAction::new(6), Some(RecoveryAction::Other));
        assert_eq!(RecoveryAction::new(16), None);
    }

    #[test]
    fn health_names_what_is_wrong_and_nothing_else() {
        assert_eq!(FabricHealth(0).to_string(), "good");
        assert_eq!(FabricHealth(0b10_10_10_10).to_string(), "good");
        assert_eq!(FabricHealth(0b01_00_00_01).to_string(), "degraded bandwidth, access timeout");
    }
}
