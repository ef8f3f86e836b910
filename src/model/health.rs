//! Device states that drivers report as numbers.

use std::fmt;

/// Who may use a device (`nvmlComputeMode_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of processes.
    Shared,
    /// One thread.
    ExclusiveThread,
    /// None.
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

    /// Returns the mode as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Shared => "default",
            Self::ExclusiveThread => "exclusive thread",
            Self::Prohibited => "prohibited",
            Self::ExclusiveProcess => "exclusive process",
        }
    }
}

/// State of a device's registration with the `NVLink` fabric (`nvmlGpuFabricState_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricState {
    /// There is no fabric.
    None,
    /// Not started.
    NotStarted,
    /// In progress.
    InProgress,
    /// Completed.
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

    /// Returns the state as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "no fabric",
            Self::NotStarted => "not started",
            Self::InProgress => "in progress",
            Self::Completed => "completed",
        }
    }
}

/// Problems of the `NVLink` fabric: two bits per problem, 1 means yes (`NVML_GPU_FABRIC_HEALTH_MASK_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricHealth(pub u32);

impl FabricHealth {
    /// `Limited Capacity` in `nvidia-smi`; not a bit of NVML.
    pub const LIMITED: u32 = 1 << 28;
    /// `Unhealthy` in `nvidia-smi`; not a bit of NVML.
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

/// The recovery action that the driver recommends (`NVML_GPU_RECOVERY_ACTION_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// None is needed.
    None,
    /// Reset the device.
    Reset,
    /// Reboot the node.
    Reboot,
    /// Drain its peer-to-peer traffic.
    DrainPeers,
    /// Drain and reset the device.
    DrainAndReset,
    /// An action whose number differs between drivers.
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

    /// Returns its number; `None` if the number differs between drivers.
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

    /// Returns the action as text.
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
    fn unknown_numbers_are_no_state() {
        assert_eq!(ComputeMode::new(3), Some(ComputeMode::ExclusiveProcess));
        assert_eq!(ComputeMode::new(4), None);
        assert_eq!(FabricState::new(4), None);
        assert_eq!(RecoveryAction::new(6), Some(RecoveryAction::Other));
        assert_eq!(RecoveryAction::new(16), None);
    }

    #[test]
    fn fabric_health_lists_only_the_problems() {
        assert_eq!(FabricHealth(0).to_string(), "good");
        assert_eq!(FabricHealth(0b10_10_10_10).to_string(), "good");
        assert_eq!(FabricHealth(0b01_00_00_01).to_string(), "degraded bandwidth, access timeout");
    }
}
