//! Things that happen to a device, and what their numbers mean.

use std::sync::Arc;

use crate::model::health::RecoveryAction;
use crate::model::id::Source;
use crate::time::Timestamp;

/// Something that happened to a device, as its driver told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// Who told it.
    pub source: Source,
    /// What kind of thing.
    pub kind: EventKind,
    /// The device's identity; empty when it is not known.
    pub device: Arc<str>,
    /// The driver's number of it, such as an Xid.
    pub code: Option<u64>,
    /// The driver's words; mostly empty.
    pub message: Arc<str>,
}

/// The kinds of events; the wire's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An error report of NVIDIA's driver.
    Xid,
    /// A memory error that could not be corrected.
    MemoryError,
    /// Memory is to be given up.
    Retirement,
    /// Poisoned data was met.
    Poison,
    /// The device cannot be used.
    Unavailable,
    /// What would bring it back to health is something else than before.
    Recovery,
    /// The driver lost it.
    Lost,
    /// It needs a reset.
    NeedsReset,
    /// Something a newer probe knows.
    Other(Arc<str>),
}

impl EventKind {
    /// Returns the kind in a word, as programs see it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Xid => "xid",
            Self::MemoryError => "ecc",
            Self::Retirement => "retirement",
            Self::Poison => "poison",
            Self::Unavailable => "unavailable",
            Self::Recovery => "recovery",
            Self::Lost => "lost",
            Self::NeedsReset => "reset",
            Self::Other(word) => word,
        }
    }
}

impl Event {
    /// Says whether both tell of the same, at whatever time.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.source, &self.kind, &self.device, self.code)
            == (&other.source, &other.kind, &other.device, other.code)
    }

    /// Returns what happened in words, with the number by which drivers and handbooks call it.
    pub fn text(&self) -> String {
        let words = match (&self.kind, self.code) {
            (EventKind::Xid, Some(code)) => {
                return format!("Xid {code}: {}", xid_meaning(code).unwrap_or("unknown"));
            }
            (EventKind::Recovery, Some(code)) => {
                let action = RecoveryAction::new(code).map_or("unknown", RecoveryAction::text);
                return format!("recovery action: {action}");
            }
            (EventKind::Xid, None) => "Xid",
            (EventKind::Recovery, None) => "recovery action changed",
            (EventKind::MemoryError, _) => "uncorrected memory error",
            (EventKind::Retirement, _) => "memory is to be given up",
            (EventKind::Poison, _) => "poisoned data was met",
            (EventKind::Unavailable, _) => "the device cannot be used",
            (EventKind::Lost, _) => "the driver lost the device",
            (EventKind::NeedsReset, _) => "the device needs a reset",
            (EventKind::Other(word), Some(code)) => return format!("{word} {code}"),
            (EventKind::Other(word), None) => word,
        };
        words.to_owned()
    }
}

/// Returns what an Xid means; NVIDIA's "Xid errors" handbook has a page on each.
pub const fn xid_meaning(code: u64) -> Option<&'static str> {
    Some(match code {
        13 => "graphics engine exception, mostly a fault of the application",
        31 => "memory page fault, mostly a fault of the application",
        43 => "the work of an application was stopped",
        45 => "the work of an application was cleaned up after another error",
        48 => "double bit memory error",
        61 => "the micro-controller stopped at a breakpoint",
        62 => "the micro-controller halted",
        63 => "memory was marked to be replaced or given up",
        64 => "memory could not be marked to be replaced or given up",
        69 => "graphics engine class error",
        74 | 144 | 145 | 149 => "NVLink error",
        79 => "the device has fallen off the bus",
        92 => "many single bit memory errors",
        94 => "contained memory error: an application was stopped",
        95 => "uncontained memory error: the device needs a reset",
        109 => "switching between applications took too long",
        119 => "the GSP processor did not answer",
        120 => "error of the GSP processor",
        121 => "error on the link to the processor (C2C)",
        137 => "NVLink privilege error",
        140 => "unrecovered memory error",
        143 => "the device could not be initialized",
        154 => "the recovery action has changed",
        155 => "NVLink error told by software",
        156 => "a part of the device was given up",
        157 => "a part of the device could not be given up",
        158 => "fatal timeout",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: EventKind, code: Option<u64>) -> String {
        let (source, device, message) = (Source::new("nvml"), "GPU-1".into(), "".into());
        Event { at: Timestamp::from_micros(1), source, kind, device, code, message }.text()
    }

    #[test]
    fn an_event_has_words_and_its_number() {
        assert_eq!(text(EventKind::Xid, Some(79)), "Xid 79: the device has fallen off the bus");
        assert_eq!(text(EventKind::Xid, Some(12_345)), "Xid 12345: unknown");
        assert_eq!(text(EventKind::Recovery, Some(2)), "recovery action: reboot the node");
        assert_eq!(text(EventKind::Recovery, Some(u64::MAX)), "recovery action: unknown");
        assert_eq!(text(EventKind::MemoryError, None), "uncorrected memory error");
        assert_eq!(text(EventKind::Other("meteor".into()), Some(4)), "meteor 4");
    }

    #[test]
    fn every_known_xid_has_a_meaning_of_its_own() {
        let known: Vec<&str> = (0..1000).filter_map(xid_meaning).collect();
        let mut different = known.clone();
        different.sort_unstable();
        different.dedup();
        // Four of them are NVLink errors.
        assert_eq!((known.len(), different.len()), (30, 27));
    }
}
