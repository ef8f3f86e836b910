//! How sound a device is: one answer, with its reasons.
//!
//! A reason is a fact that the driver reports. What is no fault, such as the power limit or a link that sleeps, is none.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::lasting::SlowdownCause;
use gtop_local::time::{Timestamp, format_duration};
use gtop_model::table;
use gtop_model::{DeviceFault, Reason, RecoveryAction};

table! {
    /// How sound a device is.
    #[derive(PartialOrd, Ord)]
    pub enum Health {
        /// Nothing is known to be wrong with it.
        Ok = "ok",
        /// Whether something is wrong cannot be seen.
        Unknown = "unknown",
        /// It works, and is slower or less reliable than it should be.
        Degraded = "degraded",
        /// It does not work, or its driver or its maker says that it should not be used.
        Faulty = "faulty",
    }
    /// Returns its word in JSON, in the exporter and in filters.
    pub fn as_str -> &'static str;
}

/// Why a device is not sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthReason {
    /// The driver no longer reaches it.
    Lost,
    /// The driver reports that it needs a reset.
    NeedsReset,
    /// The login may not read it.
    NoPermission,
    /// The values that show how sound it is have not arrived, or the driver cannot read them.
    NotRead(Reason),
    /// The driver does not list it any more, since this time.
    Gone(Timestamp),
    /// The driver's own words.
    Driver(Arc<str>),
    /// What the driver recommends to make it work again; never [`RecoveryAction::None`].
    Recovery(RecoveryAction),
    /// A failed row of its memory has no spare row left.
    RemapFailed,
    /// Rows of its memory are replaced at the next reset.
    RemapPending,
    /// Pages of its memory are retired at the next reboot.
    RetirementPending,
    /// The errors of its SRAM have reached the number at which it is to be replaced.
    SramThreshold,
    /// Memory errors that could not be corrected, since the driver was loaded.
    EccUncorrected(u64),
    /// The same over its lifetime, and no memory was put aside for them.
    EccUncorrectedTotal(u64),
    /// An error of the hardware that the driver has reported since gtop watches: the Xid, and how often.
    Xid {
        /// Its number.
        code: u64,
        /// How often it was reported.
        count: u64,
    },
    /// Under load, its link to the host is slower than it can be.
    PcieBelowMax {
        /// `PCIe` generation and lanes now.
        now: (u8, u8),
        /// The highest that device and host can have.
        max: (u8, u8),
    },
    /// The driver cannot read its fan.
    FanFailed,
    /// Fewer of its `NVLinks` are active than before, or than those of each other device of its model on the node.
    NvlinksDown {
        /// How many are active.
        active: u32,
        /// How many could be.
        of: u32,
    },
    /// Something has slowed it down for long.
    Slowed {
        /// What.
        cause: SlowdownCause,
        /// How long.
        span: Duration,
    },
    /// It has been at full load for so long, without memory in use and without a process.
    LoadWithoutProcess(Duration),
}

/// Xids after which a device does not work until it is reset or replaced (NVIDIA, "Xid Errors": the immediate action is a
/// reset, a reboot or a replacement).
pub(super) const FATAL_XIDS: [u64; 14] =
    [48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 144, 149, 157, 158];

impl HealthReason {
    /// Returns what it makes of the device.
    pub fn health(&self) -> Health {
        match self {
            Self::Lost
            | Self::NeedsReset
            | Self::Gone(_)
            | Self::Driver(_)
            | Self::RemapFailed
            | Self::SramThreshold => Health::Faulty,
            Self::Recovery(action) if *action != RecoveryAction::DrainPeers => Health::Faulty,
            Self::Xid { code, .. } if FATAL_XIDS.contains(code) => Health::Faulty,
            Self::Xid { .. }
            | Self::Recovery(_)
            | Self::RemapPending
            | Self::RetirementPending
            | Self::EccUncorrected(_)
            | Self::EccUncorrectedTotal(_)
            | Self::PcieBelowMax { .. }
            | Self::FanFailed
            | Self::NvlinksDown { .. }
            | Self::Slowed { .. }
            | Self::LoadWithoutProcess(_) => Health::Degraded,
            Self::NoPermission | Self::NotRead(_) => Health::Unknown,
        }
    }

    /// Returns what has slowed the device down for long.
    pub(crate) const fn slowed_by(&self) -> Option<SlowdownCause> {
        if let Self::Slowed { cause, .. } = self { Some(*cause) } else { None }
    }

    /// Returns its name for programs, which never changes.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::NeedsReset => "needs_reset",
            Self::NoPermission => "no_permission",
            Self::NotRead(_) => "not_read",
            Self::Gone(_) => "gone",
            Self::Driver(_) => "driver",
            Self::Recovery(_) => "recovery_action",
            Self::RemapFailed => "remap_failed",
            Self::RemapPending => "remap_pending",
            Self::RetirementPending => "retirement_pending",
            Self::SramThreshold => "sram_threshold",
            Self::EccUncorrected(_) => "ecc_uncorrected",
            Self::EccUncorrectedTotal(_) => "ecc_uncorrected_total",
            Self::Xid { .. } => "xid",
            Self::PcieBelowMax { .. } => "pcie_below_max",
            Self::FanFailed => "fan_failed",
            Self::NvlinksDown { .. } => "nvlinks_down",
            Self::Slowed { cause: SlowdownCause::Thermal, .. } => "throttled_thermal",
            Self::Slowed { cause: SlowdownCause::PowerBrake, .. } => "throttled_power_brake",
            Self::Slowed { cause: SlowdownCause::Hardware, .. } => "throttled_hardware",
            Self::LoadWithoutProcess(_) => "load_without_process",
        }
    }

    /// Returns it in a few words, to follow the name of a device.
    pub fn text(&self) -> String {
        match self {
            Self::Lost => "lost".to_owned(),
            Self::NeedsReset => "needs a reset".to_owned(),
            Self::NoPermission => "no permission".to_owned(),
            Self::NotRead(reason) => format!("health unknown: {}", reason.text()),
            Self::Gone(since) => format!("gone since {}", since.rfc3339_seconds()),
            Self::Driver(text) if text.is_empty() => "faulty".to_owned(),
            Self::Driver(text) => text.to_string(),
            Self::Recovery(action) => format!("recovery action: {}", action.text()),
            Self::RemapFailed => "memory row remapping failed".to_owned(),
            Self::RemapPending => "memory row remapping pending".to_owned(),
            Self::RetirementPending => "memory page retirement pending".to_owned(),
            Self::SramThreshold => "SRAM errors above the threshold".to_owned(),
            Self::EccUncorrected(count) => format!("{count} uncorrected memory {}", errors(*count)),
            Self::EccUncorrectedTotal(count) => {
                format!("{count} uncorrected memory {} over its lifetime", errors(*count))
            }
            Self::Xid { code, count: 1 } => format!("Xid {code}"),
            Self::Xid { code, count } => format!("Xid {code}, {count} times"),
            Self::PcieBelowMax { now, max } => {
                format!("PCIe {}x{} of {}x{} under load", now.0, now.1, max.0, max.1)
            }
            Self::FanFailed => "the fan cannot be read".to_owned(),
            Self::NvlinksDown { active, of } => format!("{active} of {of} NVLinks active"),
            Self::Slowed { cause, span } => {
                format!("throttled for {}: {}", format_duration(*span), cause.text())
            }
            Self::LoadWithoutProcess(span) => {
                format!("full load without a process for {}", format_duration(*span))
            }
        }
    }
}

const fn errors(count: u64) -> &'static str {
    if count == 1 { "error" } else { "errors" }
}

impl From<&DeviceFault> for HealthReason {
    fn from(fault: &DeviceFault) -> Self {
        match fault {
            DeviceFault::Lost => Self::Lost,
            DeviceFault::NeedsReset => Self::NeedsReset,
            DeviceFault::NoPermission => Self::NoPermission,
            DeviceFault::Gone(since) => Self::Gone(*since),
            DeviceFault::Other(text) => Self::Driver(Arc::clone(text)),
        }
    }
}

/// The devices of a node that are not sound. Found on first use, as views and exports read them many times per sample.
#[derive(Debug, Default)]
pub struct NodeHealth(OnceLock<Box<[UnsoundDevice]>>);

/// A device that is not sound.
#[derive(Debug)]
pub(super) struct UnsoundDevice {
    pub(super) uuid: Arc<str>,
    /// The worst first.
    pub(super) reasons: Vec<HealthReason>,
    /// The same without what holds for the device of a slice only.
    pub(super) own: Vec<HealthReason>,
}

impl NodeHealth {
    /// Returns them; `find` finds them on first use.
    pub(super) fn or_find(&self, find: impl FnOnce() -> Box<[UnsoundDevice]>) -> &[UnsoundDevice] {
        self.0.get_or_init(find)
    }

    /// Forgets what was found, as the node changes.
    pub(crate) fn forget(&mut self) {
        self.0.take();
    }
}

/// The copy of a node is made to be changed, so what was found of the node is not found of its copy.
impl Clone for NodeHealth {
    fn clone(&self) -> Self {
        Self::default()
    }
}
