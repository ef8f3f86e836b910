//! Device states that drivers report as numbers.

use std::borrow::Cow;
use std::fmt;

use crate::declare::table;

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
        let problems = Self::FLAGS.into_iter().filter(|(shift, _)| self.0 >> shift & 3 == 1);
        let problems: Vec<&str> = problems.map(|(_, text)| text).collect();
        if problems.is_empty() { f.write_str("good") } else { f.write_str(&problems.join(", ")) }
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
    /// Another one, with its number if the driver tells it. The numbers from 5 on differ between drivers, and a newer driver
    /// may have more of them: each is an action all the same.
    Other(Option<u32>),
}

impl RecoveryAction {
    /// The known actions, by number.
    const KNOWN: [Self; 5] =
        [Self::None, Self::Reset, Self::Reboot, Self::DrainPeers, Self::DrainAndReset];

    /// Returns the action of this number; `None` if it is none, such as one with all bits set.
    pub fn new(number: u64) -> Option<Self> {
        let number = u32::try_from(number).ok().filter(|number| *number != u32::MAX)?;
        let known = at(&Self::KNOWN, number.into());
        Some(known.unwrap_or(Self::Other(Some(number))))
    }

    /// Returns its number, if that is known.
    pub fn number(self) -> Option<u64> {
        if let Self::Other(number) = self {
            return number.map(u64::from);
        }
        (0..).zip(Self::KNOWN).find(|(_, known)| *known == self).map(|(number, _)| number)
    }

    /// Returns the action as text.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self::None => "none".into(),
            Self::Reset => "reset the device".into(),
            Self::Reboot => "reboot the node".into(),
            Self::DrainPeers => "drain peer-to-peer traffic".into(),
            Self::DrainAndReset => "drain and reset the device".into(),
            Self::Other(None) => "see nvidia-smi -q".into(),
            Self::Other(Some(number)) => format!("number {number}, see nvidia-smi -q").into(),
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
        assert_eq!(RecoveryAction::new(u64::from(u32::MAX)), None);
        assert_eq!(RecoveryAction::new(u64::MAX), None);
    }

    #[test]
    fn each_number_of_a_recovery_action_is_an_action() {
        for number in (0..=17).chain([99, 1 << 20]) {
            let action = RecoveryAction::new(number).unwrap();
            assert_eq!(action.number(), Some(number));
            assert_eq!(action == RecoveryAction::None, number == 0);
        }
        assert_eq!(RecoveryAction::new(17).unwrap().text(), "number 17, see nvidia-smi -q");
    }

    #[test]
    fn fabric_health_lists_only_the_problems() {
        assert_eq!(FabricHealth(0).to_string(), "good");
        assert_eq!(FabricHealth(0b10_10_10_10).to_string(), "good");
        assert_eq!(FabricHealth(0b01_00_00_01).to_string(), "degraded bandwidth, access timeout");
    }
}
