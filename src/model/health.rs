//! Device states that drivers report as numbers.

use std::fmt;

use crate::model::declare::table;

/// Returns the state of this number.
fn at<T: Copy>(all: &[T], number: u64) -> Option<T> {
    all.get(usize::try_from(number).ok()?).copied()
}

table! {
    /// Who may use a device (`nvmlComputeMode_t`).
    pub enum ComputeMode {
        /// Any number of processes.
        Shared = "default",
        /// One thread.
        ExclusiveThread = "exclusive thread",
        /// None.
        Prohibited = "prohibited",
        /// One process.
        ExclusiveProcess = "exclusive process",
    }
    /// The modes, by number.
    pub const ALL;
    /// Returns the mode as text.
    pub fn text -> &'static str;
}

impl ComputeMode {
    /// Returns the mode of this number.
    pub fn new(number: u64) -> Option<Self> {
        at(&Self::ALL, number)
    }
}

table! {
    /// State of a device's registration with the `NVLink` fabric (`nvmlGpuFabricState_t`).
    pub enum FabricState {
        /// There is no fabric.
        None = "no fabric",
        /// Not started.
        NotStarted = "not started",
        /// In progress.
        InProgress = "in progress",
        /// Completed.
        Completed = "completed",
    }
    /// The states, by number.
    pub const ALL;
    /// Returns the state as text.
    pub fn text -> &'static str;
}

impl FabricState {
    /// Returns the state of this number.
    pub fn new(number: u64) -> Option<Self> {
        at(&Self::ALL, number)
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

table! {
    /// The recovery action that the driver recommends (`NVML_GPU_RECOVERY_ACTION_*`).
    pub enum RecoveryAction {
        /// None is needed.
        None = "none",
        /// Reset the device.
        Reset = "reset the device",
        /// Reboot the node.
        Reboot = "reboot the node",
        /// Drain its peer-to-peer traffic.
        DrainPeers = "drain peer-to-peer traffic",
        /// Drain and reset the device.
        DrainAndReset = "drain and reset the device",
        /// An action whose number differs between drivers.
        Other = "see nvidia-smi -q",
    }
    /// The actions, by number.
    pub const ALL;
    /// Returns the action as text.
    pub fn text -> &'static str;
}

impl RecoveryAction {
    /// Returns the action of this number. From 5 on the numbers changed their meaning between drivers.
    pub fn new(number: u64) -> Option<Self> {
        if (6..=15).contains(&number) { Some(Self::Other) } else { at(&Self::ALL, number) }
    }

    /// Returns its number; `None` if the number differs between drivers.
    pub const fn number(self) -> Option<u64> {
        if matches!(self, Self::Other) { None } else { Some(self as u64) }
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
