//! How sound a device is: one answer, with its reasons.
//!
//! A reason is a fact that the driver reports. What is no fault, such as the power limit or a link that sleeps, is none.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::declare::kinds;
use crate::lasting::SlowdownCause;
use gtop_local::time::{Timestamp, format_duration};
use gtop_model::table;
use gtop_model::{DeviceFault, Event, EventKind, Reason, RecoveryAction};

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

kinds! {
    /// Why a device is not sound.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum HealthReason {
        /// The driver no longer reaches it.
        Lost = (Health::Faulty, "lost", "the device no longer answers"),
        /// The driver reports that it needs a reset.
        NeedsReset = (Health::Faulty, "needs_reset", "the driver asks for a reset of the device"),
        /// The login may not read it.
        NoPermission = (Health::Unknown, "no_permission", "the login may not read the device"),
        /// The values that show how sound it is have not arrived, or the driver cannot read them.
        NotRead(why: Reason) = (Health::Unknown, "not_read", unread_meaning(*why)),
        /// The driver does not list it any more, since this time.
        Gone(since: Timestamp) = (Health::Faulty, "gone", "the driver used to list the device, and no longer does"),
        /// The driver's own words.
        Driver(words: Arc<str>) = (Health::Faulty, "driver", "the driver reports a fault of the device"),
        /// What the driver recommends to make it work again; never [`RecoveryAction::None`].
        Recovery(action: RecoveryAction) = (recovery_health(*action), "recovery_action",
            "the driver recommends this to make the device work again"),
        /// A failed row of its memory has no spare row left.
        RemapFailed = (Health::Faulty, "remap_failed",
            "a row of its memory failed and no spare row is left: the device must be replaced"),
        /// Rows of its memory are replaced at the next reset.
        RemapPending = (Health::Degraded, "remap_pending", SPARE_MEMORY),
        /// Pages of its memory are retired at the next reboot.
        RetirementPending = (Health::Degraded, "retirement_pending", SPARE_MEMORY),
        /// The errors of its SRAM have reached the number at which it is to be replaced.
        SramThreshold = (Health::Faulty, "sram_threshold", "its SRAM has had so many errors that the device must be replaced"),
        /// Memory errors that could not be corrected, since the driver was loaded.
        EccUncorrected(errors: u64) = (Health::Degraded, "ecc_uncorrected",
            "uncorrected memory errors since the driver was loaded"),
        /// The same over its lifetime, and no memory was put aside for them.
        EccUncorrectedTotal(errors: u64) = (Health::Degraded, "ecc_uncorrected_total",
            "uncorrected memory errors in the past, and no memory was retired or remapped for them"),
        /// An error of the hardware that the driver has reported since gtop watches: the Xid, and how often.
        Xid {
            /// Its number.
            code: u64,
            /// How often it was reported.
            count: u64,
        } = (xid_health(*code), "xid", Self::xid_meaning(*code)),
        /// Under load, its link to the host is slower than it can be.
        PcieBelowMax {
            /// `PCIe` generation and lanes now.
            now: (u8, u8),
            /// The highest that device and host can have.
            max: (u8, u8),
        } = (Health::Degraded, "pcie_below_max",
            "the link to the host is slower than it can be, although the device works"),
        /// The driver cannot read its fan.
        FanFailed = (Health::Degraded, "fan_failed", "the driver gets no answer from the fan"),
        /// Fewer of its `NVLinks` are active than before, or than those of each other device of its model on the node.
        NvlinksDown {
            /// How many are active.
            active: u32,
            /// How many could be.
            of: u32,
        } = (Health::Degraded, "nvlinks_down",
            "links to other devices are down: jobs on several devices are slower or hang"),
        /// Something has slowed it down for long.
        Slowed {
            /// What.
            cause: SlowdownCause,
            /// How long.
            span: Duration,
        } = (Health::Degraded, cause.lasting().0, cause.lasting().1),
        /// It has been at full load for so long, without memory in use and without a process.
        LoadWithoutProcess(span: Duration) = (Health::Degraded, "load_without_process",
            "the device reports full load, but no memory is in use and no process is listed"),
    }
    /// Returns what it makes of the device, its name for programs, which never changes, and what it means.
    fn row -> (Health, &'static str, &'static str);
}

const SPARE_MEMORY: &str =
    "memory of the device has failed; a reset puts spare memory in its place";

/// Xids after which a device does not work until it is reset or replaced (NVIDIA, "Xid Errors": the immediate action is a
/// reset, a reboot or a replacement).
pub(super) const FATAL_XIDS: [u64; 14] =
    [48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 144, 149, 157, 158];

/// The Xid of a device that is lost.
const FALLEN_OFF_BUS: u64 = 79;

impl HealthReason {
    /// Returns what it makes of the device.
    pub fn health(&self) -> Health {
        self.row().0
    }

    /// Returns its name for programs, which never changes.
    pub fn id(&self) -> &'static str {
        self.row().1
    }

    /// Returns what it means.
    pub(crate) fn meaning(&self) -> &'static str {
        self.row().2
    }

    /// Returns what an Xid means for those who use the device.
    pub const fn xid_meaning(code: u64) -> &'static str {
        match code {
            13 | 31 | 43 | 45 => {
                "usually an error of the program that ran there, or the consequence of one"
            }
            48 | 95 | 140 => "uncorrected memory errors since the driver was loaded",
            63 => {
                "the driver has recorded which memory of the device spare memory will replace, by the next reset at the latest"
            }
            92 => "many memory errors, all of which were corrected",
            94 => "memory of the device has failed; a reset puts spare memory in its place",
            79 => "the device no longer answers",
            61 | 62 | 119 | 120 => "the device's own firmware does not work",
            74 | 144 | 145 | 149 | 155 => {
                "a link between devices failed: jobs on several devices may hang"
            }
            _ => "an error that the driver reported",
        }
    }

    /// Returns true if a reason with this name for programs is that something has slowed the device down for long.
    pub fn is_of_slowdown(id: &str) -> bool {
        SlowdownCause::ALL.into_iter().any(|cause| cause.lasting().0 == id)
    }

    /// Returns what has slowed the device down for long.
    pub(crate) const fn slowed_by(&self) -> Option<SlowdownCause> {
        if let Self::Slowed { cause, .. } = self { Some(*cause) } else { None }
    }

    /// Returns it in words that are the same for all devices that have it, to follow "device".
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Gone(_) => "gone".to_owned(),
            Self::EccUncorrected(_) => "has uncorrected memory errors".to_owned(),
            Self::EccUncorrectedTotal(_) => {
                "had uncorrected memory errors over its lifetime".to_owned()
            }
            Self::Xid { code, .. } => format!("Xid {code}"),
            Self::PcieBelowMax { .. } => "with a slow PCIe link".to_owned(),
            Self::NvlinksDown { .. } => "with NVLinks down".to_owned(),
            Self::Slowed { cause, .. } => format!("throttled for long: {}", cause.text()),
            Self::LoadWithoutProcess(_) => "at full load without a process".to_owned(),
            Self::Lost
            | Self::NeedsReset
            | Self::NoPermission
            | Self::NotRead(_)
            | Self::Driver(_)
            | Self::Recovery(_)
            | Self::RemapFailed
            | Self::RemapPending
            | Self::RetirementPending
            | Self::SramThreshold
            | Self::FanFailed => self.text(),
        }
    }

    /// Returns why a node with such a device is to take no new jobs, without words of the node; empty if it may: the device
    /// works, or nobody can look at it.
    pub(crate) fn drain_reason(&self) -> String {
        if let Self::Driver(_) = self {
            return "device faulty".to_owned();
        }
        let drains = self.health() == Health::Faulty || matches!(self, Self::EccUncorrected(_));
        if drains { format!("device {}", self.label()) } else { String::new() }
    }

    /// Returns true if an event of the device tells of it.
    pub(crate) fn is_told_by(&self, event: &Event) -> bool {
        match (self, &event.kind) {
            (Self::Lost, EventKind::Lost)
            | (Self::NeedsReset, EventKind::NeedsReset)
            | (Self::Recovery(_), EventKind::Recovery)
            | (Self::EccUncorrected(_), EventKind::MemoryError)
            | (Self::RemapPending | Self::RetirementPending, EventKind::Retirement) => true,
            (Self::Lost, EventKind::Xid) => event.code == Some(FALLEN_OFF_BUS),
            (Self::Xid { code, .. }, EventKind::Xid) => event.code == Some(*code),
            _ => false,
        }
    }

    /// Returns it in a few words, without how long it has lasted, which is known of what was watched only.
    pub fn lasting_text(&self) -> String {
        if let Self::LoadWithoutProcess(_) = self {
            "full load without a process".to_owned()
        } else if self.slowed_by().is_some() {
            self.label()
        } else {
            self.text()
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

fn unread_meaning(why: Reason) -> &'static str {
    if why == Reason::NotOffered {
        return "the source does not report the health of the device";
    }
    "the driver cannot read the values that show the health of the device"
}

fn recovery_health(action: RecoveryAction) -> Health {
    if action == RecoveryAction::DrainPeers { Health::Degraded } else { Health::Faulty }
}

fn xid_health(code: u64) -> Health {
    if FATAL_XIDS.contains(&code) { Health::Faulty } else { Health::Degraded }
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
