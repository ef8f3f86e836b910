//! What is wrong with a device: the flags of its row.

use std::time::Duration;

use crate::advice::device as advice;
use crate::insight::Severity;
use crate::{Health, HealthReason, Node, SlowdownCause, is_busy, unexplained_memory};
use gtop_local::time::format_duration;
use gtop_model::{Bytes, Device, Reason, RecoveryAction};

/// Why a device needs attention.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceFlag {
    /// Why it is not sound.
    Health(HealthReason),
    /// What slows it down now; being hot for a moment is no fault.
    Slowed(SlowdownCause),
    /// Much of its memory is in use, and no process that the node lists has it.
    UnexplainedMemory(Bytes),
    /// It is in MIG mode and has no slices, so that nobody can use it.
    NoSlices,
}

/// Returns true if an Xid alone is no sign of a faulty device: it is mostly the program's, or the driver records what it
/// has put aside, or that errors were corrected.
pub const fn is_harmless_xid(code: u64) -> bool {
    matches!(code, 13 | 31 | 43 | 45 | 63 | 92)
}

/// Returns what a device needs, after its number.
const fn recovery_note(action: RecoveryAction) -> &'static str {
    match action {
        RecoveryAction::Reset | RecoveryAction::DrainAndReset => "needs a reset",
        RecoveryAction::Reboot => "needs a reboot",
        RecoveryAction::DrainPeers => "needs its peers drained",
        RecoveryAction::Other(_) | RecoveryAction::None => "needs recovery",
    }
}

impl DeviceFlag {
    /// Returns the flags of a device, the worst first.
    pub fn of(node: &Node, device: &Device) -> Vec<Self> {
        // What has not come yet comes in a moment, and what the source does not offer is no sign of anything.
        let untold = [Reason::NotSampled, Reason::NotOffered].map(HealthReason::NotRead);
        let reasons = node.own_health_reasons(device);
        let told = reasons.iter().filter(|reason| !untold.contains(reason)).cloned();
        let mut flags: Vec<Self> = told.map(Self::Health).collect();
        if let Some(throttle) = device.throttle.get() {
            let causes = SlowdownCause::ALL.into_iter().filter(|cause| cause.applies(throttle));
            let momentary = causes
                .filter(|cause| reasons.iter().all(|reason| reason.slowed_by() != Some(*cause)));
            flags.extend(momentary.map(Self::Slowed));
        }
        // That a device at work has memory in use is no surprise.
        let unexplained = unexplained_memory(node, device).filter(|_| !is_busy(device));
        // A device with slices leaves this to them.
        let unexplained = unexplained.filter(|_| !node.has_slices(device));
        flags.extend(unexplained.map(Self::UnexplainedMemory));
        flags.extend(node.is_without_slices(device).then_some(Self::NoSlices));
        if flags.len() > 1 {
            flags.sort_by_key(Self::severity);
        }
        flags
    }

    pub fn severity(&self) -> Severity {
        match self {
            Self::Health(HealthReason::EccUncorrected(_) | HealthReason::NoPermission) => {
                Severity::Error
            }
            Self::Health(reason) => match reason.health() {
                Health::Faulty => Severity::Error,
                Health::Degraded | Health::Unknown | Health::Ok => Severity::Warning,
            },
            Self::Slowed(_) | Self::UnexplainedMemory(_) | Self::NoSlices => Severity::Warning,
        }
    }

    /// Returns its text in the row of the device.
    pub fn badge(&self) -> String {
        let reason = match self {
            Self::Slowed(SlowdownCause::Thermal) => return "!THERM".to_owned(),
            Self::Slowed(SlowdownCause::PowerBrake) => return "!PWR".to_owned(),
            Self::Slowed(SlowdownCause::Hardware) => return "!SLOW".to_owned(),
            Self::UnexplainedMemory(_) => return "!MEM".to_owned(),
            Self::NoSlices => return "NO-SLICE".to_owned(),
            Self::Health(reason) => reason,
        };
        match reason {
            HealthReason::Gone(_) => "GONE".to_owned(),
            HealthReason::Lost
            | HealthReason::NeedsReset
            | HealthReason::NoPermission
            | HealthReason::Driver(_) => reason.text().to_uppercase(),
            HealthReason::Recovery(RecoveryAction::Reboot) => "!REBOOT".to_owned(),
            HealthReason::Recovery(RecoveryAction::DrainPeers) => "!DRAIN".to_owned(),
            HealthReason::Recovery(RecoveryAction::Reset | RecoveryAction::DrainAndReset) => {
                "!RESET".to_owned()
            }
            HealthReason::Recovery(RecoveryAction::Other(_) | RecoveryAction::None) => {
                "!RECOVER".to_owned()
            }
            HealthReason::RemapFailed => "!REMAP".to_owned(),
            HealthReason::RemapPending => "REMAP".to_owned(),
            HealthReason::RetirementPending => "RETIRE".to_owned(),
            HealthReason::SramThreshold => "!SRAM".to_owned(),
            HealthReason::EccUncorrected(errors) => format!("ECC:{errors}"),
            HealthReason::EccUncorrectedTotal(errors) => format!("OLD-ECC:{errors}"),
            HealthReason::Xid { code, .. } => format!("XID:{code}"),
            HealthReason::PcieBelowMax { now, .. } => format!("PCIE:{}x{}", now.0, now.1),
            HealthReason::FanFailed => "!FAN".to_owned(),
            HealthReason::NotRead(_) => "HEALTH?".to_owned(),
            HealthReason::NvlinksDown { active, .. } => format!("NVLINK:{active}"),
            HealthReason::Slowed { cause, span } => {
                format!("{}:{}", Self::Slowed(*cause).badge(), format_duration(*span))
            }
            HealthReason::LoadWithoutProcess(_) => "!LOAD".to_owned(),
        }
    }

    /// Returns one of each kind that has a text of its own in rows.
    pub fn examples() -> Vec<Self> {
        let reasons = [
            HealthReason::Recovery(RecoveryAction::Reboot),
            HealthReason::Recovery(RecoveryAction::Reset),
            HealthReason::Recovery(RecoveryAction::DrainPeers),
            HealthReason::Recovery(RecoveryAction::Other(None)),
            HealthReason::RemapFailed,
            HealthReason::SramThreshold,
            HealthReason::EccUncorrected(1),
            HealthReason::Xid { code: 79, count: 1 },
            HealthReason::RemapPending,
            HealthReason::RetirementPending,
            HealthReason::EccUncorrectedTotal(1),
            HealthReason::PcieBelowMax { now: (1, 16), max: (5, 16) },
            HealthReason::FanFailed,
            HealthReason::NotRead(Reason::DriverError),
            HealthReason::NvlinksDown { active: 17, of: 18 },
            HealthReason::LoadWithoutProcess(Duration::ZERO),
        ];
        let lasting = SlowdownCause::ALL
            .map(|cause| HealthReason::Slowed { cause, span: Duration::from_secs(60) });
        let slowed = SlowdownCause::ALL.into_iter().map(Self::Slowed);
        let reasons = reasons.into_iter().chain(lasting).map(Self::Health);
        slowed.chain(reasons).chain([Self::UnexplainedMemory(Bytes(0)), Self::NoSlices]).collect()
    }

    /// Returns true if it is only slower than usual.
    pub const fn is_slowdown(&self) -> bool {
        matches!(self, Self::Slowed(_))
    }

    /// Returns it in a few words, for a single device.
    pub fn text(&self) -> String {
        match self {
            Self::Health(reason) => reason.text(),
            Self::Slowed(cause) => cause.text().to_owned(),
            Self::UnexplainedMemory(bytes) => {
                format!("{:.1} GiB in use without a process", bytes.gib())
            }
            Self::NoSlices => "in MIG mode without slices".to_owned(),
        }
    }

    /// Returns its name for programs, which never changes.
    pub(crate) fn id(&self) -> &'static str {
        match self {
            Self::Health(reason) => reason.id(),
            Self::Slowed(SlowdownCause::Thermal) => "slowed_thermal",
            Self::Slowed(SlowdownCause::PowerBrake) => "slowed_power_brake",
            Self::Slowed(SlowdownCause::Hardware) => "slowed_hardware",
            Self::UnexplainedMemory(_) => "unexplained_memory",
            Self::NoSlices => "no_slices",
        }
    }

    /// Returns true if devices with these two flags share a note: counts differ from device to device, and that there
    /// are errors is what matters.
    pub(crate) fn is_told_with(&self, other: &Self) -> bool {
        self.id() == other.id() && self.note() == other.note()
    }

    /// Returns its place among the notes on a node: a device that is gone is worse than one that waits for its reset, and that
    /// is worse than one with errors in its memory.
    pub(crate) fn rank(&self) -> (Severity, u8) {
        let rank = match self {
            Self::Health(
                HealthReason::Lost
                | HealthReason::NeedsReset
                | HealthReason::NoPermission
                | HealthReason::Gone(_)
                | HealthReason::Driver(_),
            ) => 0,
            Self::Health(HealthReason::EccUncorrected(_)) => 2,
            Self::Health(_) | Self::Slowed(_) | Self::UnexplainedMemory(_) | Self::NoSlices => 1,
        };
        (self.severity(), rank)
    }

    /// Returns it in the note of a node, after its devices; devices with the same text share a note.
    pub(crate) fn note(&self) -> String {
        match self {
            // Error counts differ from device to device; that there are errors is what matters.
            Self::Health(HealthReason::EccUncorrected(_)) => "ECC".to_owned(),
            Self::Health(HealthReason::EccUncorrectedTotal(_)) => "old ECC errors".to_owned(),
            Self::Health(HealthReason::Recovery(action)) => recovery_note(*action).to_owned(),
            Self::Health(HealthReason::RemapFailed) => "row remap failed".to_owned(),
            Self::Health(HealthReason::RemapPending) => "row remap pending".to_owned(),
            Self::Health(HealthReason::RetirementPending) => "page retirement pending".to_owned(),
            Self::Health(HealthReason::SramThreshold) => "SRAM errors".to_owned(),
            Self::Health(HealthReason::Xid { code, .. }) => format!("Xid {code}"),
            Self::Health(
                reason @ (HealthReason::PcieBelowMax { .. } | HealthReason::NvlinksDown { .. }),
            ) => reason.text(),
            Self::Health(HealthReason::Slowed { cause, .. }) => {
                format!("{} for long", Self::Slowed(*cause).badge())
            }
            Self::Health(HealthReason::LoadWithoutProcess(_)) => {
                "full load without a process".to_owned()
            }
            // Since when differs from device to device.
            Self::Health(HealthReason::Gone(_)) => "gone".to_owned(),
            Self::Health(reason) => reason.text().to_lowercase(),
            Self::UnexplainedMemory(_) => "memory without a process".to_owned(),
            Self::NoSlices => self.text(),
            Self::Slowed(_) => self.badge(),
        }
    }

    /// Returns what it means.
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::Health(reason) => reason.meaning(),
            Self::Slowed(SlowdownCause::Thermal) => {
                "thermal throttling: the device is too hot and runs slower"
            }
            Self::Slowed(SlowdownCause::PowerBrake) => {
                "power brake: slowed down by the power supply"
            }
            Self::Slowed(SlowdownCause::Hardware) => "hardware slowdown, reason not reported",
            Self::UnexplainedMemory(_) => {
                "memory is in use that belongs to no listed process; the device is not free"
            }
            Self::NoSlices => {
                "the device is in MIG mode, in which programs use slices, but it has none: nobody can use it"
            }
        }
    }

    /// Returns what to do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Slowed(cause) => advice::of_slowdown(*cause),
            Self::UnexplainedMemory(_) => advice::UNEXPLAINED_MEMORY,
            Self::NoSlices => advice::NO_SLICES,
            Self::Health(reason) => advice::of_health(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns one of each kind.
    fn all() -> Vec<DeviceFlag> {
        let faults = [
            HealthReason::Lost,
            HealthReason::NeedsReset,
            HealthReason::NoPermission,
            HealthReason::Gone(gtop_local::time::Timestamp::default()),
            HealthReason::Driver("broken".into()),
        ];
        DeviceFlag::examples().into_iter().chain(faults.map(DeviceFlag::Health)).collect()
    }

    #[test]
    fn each_flag_has_a_word_a_meaning_and_a_remedy() {
        let examples = format!("{:?}", all());
        for variant in HealthReason::VARIANTS {
            assert!(examples.contains(&format!("Health({variant}")), "all() has no {variant}");
        }
        for flag in all() {
            for text in [flag.badge(), flag.note(), flag.text(), flag.id().to_owned()] {
                assert_ne!(text, "", "{flag:?}");
            }
            let explained = [flag.meaning(), flag.remedy()];
            let is_sentence = |text: &&str| text.contains(' ') && !text.ends_with('.');
            assert!(explained.iter().all(is_sentence), "{flag:?}: {explained:?}");
        }
    }

    #[test]
    fn the_words_and_names_of_different_flags_differ() {
        let words: BTreeSet<String> = all().iter().map(DeviceFlag::badge).collect();
        assert_eq!(words.len(), all().len());
        let names: BTreeSet<&str> = all().iter().map(DeviceFlag::id).collect();
        // The recovery actions share a name.
        assert_eq!(names.len(), all().len() - 3);
    }

    /// Returns the row of the docs for flags of the same name.
    fn row(id: &str) -> String {
        // What an Xid means is told for those of no special number.
        let xids = [0, 79, 94].map(|code| HealthReason::Xid { code, count: 1 });
        let flags = xids.map(DeviceFlag::Health).into_iter().chain(all());
        let flags: Vec<DeviceFlag> = flags.filter(|flag| flag.id() == id).collect();
        let mut words: Vec<String> = Vec::new();
        for flag in &flags {
            let word = match flag {
                DeviceFlag::Health(HealthReason::Driver(_)) => "the driver's words".to_owned(),
                DeviceFlag::Health(HealthReason::PcieBelowMax { .. }) => "`PCIE:NxN`".to_owned(),
                DeviceFlag::Health(HealthReason::Slowed { cause, .. }) => {
                    format!("`{}:TIME`", DeviceFlag::Slowed(*cause).badge())
                }
                DeviceFlag::Health(_)
                | DeviceFlag::Slowed(_)
                | DeviceFlag::UnexplainedMemory(_)
                | DeviceFlag::NoSlices => {
                    format!("`{}`", flag.badge().trim_end_matches(|c: char| c.is_ascii_digit()))
                }
            };
            let word = word.replace(":`", ":N`");
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let health: BTreeSet<&str> = flags
            .iter()
            .map(|flag| match flag {
                DeviceFlag::Health(reason) => reason.health().as_str(),
                DeviceFlag::Slowed(_) | DeviceFlag::UnexplainedMemory(_) | DeviceFlag::NoSlices => {
                    "–"
                }
            })
            .collect();
        let health = health.into_iter().collect::<Vec<_>>().join(" or ");
        let (meaning, remedy) = (flags[0].meaning(), flags[0].remedy());
        format!("| `{id}` | {} | {health} | {meaning} | {remedy} |\n", words.join(" "))
    }

    #[test]
    fn the_docs_have_a_row_for_each_flag() {
        let docs = include_str!("../../../../docs/troubleshooting.md");
        let names: BTreeSet<&str> = all().iter().map(DeviceFlag::id).collect();
        let rows: String = names.into_iter().map(row).collect();
        assert!(docs.contains(&rows), "docs/troubleshooting.md lacks:\n{rows}");
    }

    #[test]
    fn the_driver_s_own_words_do_not_decide_what_a_fault_means() {
        let flag = |text: &str| DeviceFlag::Health(HealthReason::Driver(text.into()));
        for text in ["lost", "Free fan failure", "stale", "ECC", ""] {
            assert_eq!(flag(text).meaning(), flag("x").meaning(), "{text}");
            assert_eq!(flag(text).remedy(), flag("x").remedy(), "{text}");
            assert_eq!(flag(text).severity(), Severity::Error, "{text}");
        }
    }
}
