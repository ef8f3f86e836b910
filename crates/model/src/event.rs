//! Device events and the meaning of Xids.

use std::sync::Arc;

use crate::health::RecoveryAction;
use crate::id::Source;
use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;

/// The Xid with which the driver tells that another recovery action is needed.
const RECOVERY_XID: u64 = 154;
/// In its message if none is needed.
const NO_ACTION_WORDS: &str = " to 0x0 ";

/// A device event as reported by its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event.
    pub at: Timestamp,
    /// Source that reported it.
    pub source: Source,
    /// Kind of event.
    pub kind: EventKind,
    /// The device's identity; empty when it is not known. A line of the kernel has a PCI id where no driver lists the device.
    pub device: Arc<str>,
    /// Number, such as an Xid; `None` if there is none.
    pub code: Option<u64>,
    /// The driver's message; mostly empty.
    pub message: Arc<str>,
    /// How often it occurred since it was last reported.
    pub count: u64,
    /// What the kernel logged of it, the last time it occurred.
    pub line: Option<Arc<KernelLine>>,
}

/// A line of the kernel's log that tells of an event of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLine {
    /// When it was logged.
    pub at: Timestamp,
    /// Number of its record since the boot.
    pub number: u64,
    /// The same of the first of the records that it stands for.
    pub first_number: u64,
    /// When that one was logged.
    pub first_at: Timestamp,
    /// PCI id of the device.
    pub pci: Arc<str>,
    /// The GPU instance of the slice; `None` if the line tells of the whole device.
    pub gpu_instance: Option<u32>,
    /// The process, as the driver knows it.
    pub pid: Option<u32>,
    /// Name of the process; empty if it is not known.
    pub process: Arc<str>,
    /// The rest of the line.
    pub words: Arc<str>,
}

impl KernelLine {
    /// Returns the process and the kernel's message.
    pub fn text(&self) -> String {
        let process = match (self.pid, &*self.process) {
            (Some(pid), "") => format!("pid {pid}"),
            (Some(pid), name) => format!("pid {pid} ({name})"),
            (None, name) => name.to_owned(),
        };
        let parts = [&*process, &self.words];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

/// The kinds of events on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An Xid: an error reported by NVIDIA's driver.
    Xid,
    /// A memory error that could not be corrected.
    MemoryError,
    /// Page retirement or row remapping is pending.
    Retirement,
    /// Poisoned data was consumed.
    Poison,
    /// The device cannot be used.
    Unavailable,
    /// The recommended recovery action has changed.
    Recovery,
    /// The driver lost the device.
    Lost,
    /// The device needs a reset.
    NeedsReset,
    /// The driver does not list the device any more.
    Gone,
    /// The driver lists the device again.
    Returned,
    /// A kind that this version does not know.
    Other(Arc<str>),
}

impl EventKind {
    /// The known kinds, as used in frames and in JSON.
    const NAMES: [(&'static str, Self); 10] = [
        ("xid", Self::Xid),
        ("ecc", Self::MemoryError),
        ("retirement", Self::Retirement),
        ("poison", Self::Poison),
        ("unavailable", Self::Unavailable),
        ("recovery", Self::Recovery),
        ("lost", Self::Lost),
        ("reset", Self::NeedsReset),
        ("gone", Self::Gone),
        ("returned", Self::Returned),
    ];

    /// Returns the kind of this name.
    pub fn new(name: &str) -> Self {
        let known = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        known.map_or_else(|| Self::Other(sanitize_shared(name, 32)), |(_, kind)| kind)
    }

    /// Returns the kinds that this version knows.
    #[cfg(any(test, feature = "testing"))]
    pub fn known() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(_, kind)| kind)
    }

    /// Returns the kind as used in JSON.
    pub fn as_str(&self) -> &str {
        if let Self::Other(name) = self {
            return name;
        }
        Self::NAMES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name)
    }
}

impl Event {
    /// Returns true if both are the same event, whenever they occurred. An Xid is the same from the driver and the kernel.
    pub fn is_same_event(&self, other: &Self) -> bool {
        (self.source == other.source || self.kind == EventKind::Xid)
            && (&self.kind, &self.device, self.code) == (&other.kind, &other.device, other.code)
    }

    /// Returns true if it tells that nothing needs to be done about a device any more.
    pub fn is_recovery(&self) -> bool {
        let words = self.line.as_ref().map_or("", |line| &*line.words);
        let is_changed = self.kind == EventKind::Xid && self.code == Some(RECOVERY_XID);
        (self.kind == EventKind::Recovery && self.code == Some(0))
            || (is_changed && words.contains(NO_ACTION_WORDS))
    }

    /// Returns the event as text, with the number that drivers and manuals use.
    pub fn text(&self) -> String {
        let words = match (&self.kind, self.code) {
            (EventKind::Xid, Some(code)) => {
                return format!("Xid {code}: {}", xid_meaning(code).unwrap_or("unknown"));
            }
            (EventKind::Recovery, Some(0)) => "no recovery action is needed any more",
            (EventKind::Recovery, Some(code)) => {
                let action =
                    RecoveryAction::new(code).map_or("unknown".into(), RecoveryAction::text);
                return format!("recovery action: {action}");
            }
            (EventKind::Xid, None) => "Xid",
            (EventKind::Recovery, None) => "recovery action changed",
            (EventKind::MemoryError, _) => "uncorrected memory error",
            (EventKind::Retirement, _) => "memory retirement pending",
            (EventKind::Poison, _) => "poisoned data consumed",
            (EventKind::Unavailable, _) => "the device is unavailable",
            (EventKind::Lost, _) => "the driver lost the device",
            (EventKind::NeedsReset, _) => "the device needs a reset",
            (EventKind::Gone, _) => "the driver no longer lists the device",
            (EventKind::Returned, _) => "the driver lists the device again",
            (EventKind::Other(word), Some(code)) => return format!("{word} {code}"),
            (EventKind::Other(word), None) => word,
        };
        words.to_owned()
    }
}

/// Returns the meaning of an Xid; see NVIDIA's "Xid Errors" documentation.
pub const fn xid_meaning(code: u64) -> Option<&'static str> {
    Some(match code {
        13 => "graphics engine exception, usually an application error",
        31 => "GPU memory page fault, usually an application error",
        43 => "GPU stopped processing an application's work",
        45 => "preemptive cleanup after an earlier error",
        48 => "double-bit ECC error",
        61 => "internal micro-controller breakpoint",
        62 => "internal micro-controller halt",
        63 => "row remapping or page retirement recorded",
        64 => "row remapping or page retirement could not be recorded",
        69 => "graphics engine class error",
        74 | 144 | 145 | 149 => "NVLink error",
        79 => "the device has fallen off the bus",
        92 => "high single-bit ECC error rate",
        94 => "contained memory error: an application was terminated",
        95 => "uncontained memory error: the device needs a reset",
        109 => "context switch timeout",
        119 => "GSP RPC timeout",
        120 => "GSP error",
        121 => "C2C link error",
        137 => "NVLink privilege error",
        140 => "unrecovered ECC error",
        143 => "GPU initialization failure",
        154 => "recovery action changed",
        155 => "software-defined NVLink error",
        156 => "resource retirement",
        157 => "resource retirement failure",
        158 => "fatal GPU timeout",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: EventKind, code: Option<u64>) -> String {
        let (source, device, message) = (Source::new("nvml"), "GPU-1".into(), "".into());
        Event {
            at: Timestamp::from_micros(1),
            source,
            kind,
            device,
            code,
            message,
            count: 1,
            line: None,
        }
        .text()
    }

    #[test]
    fn an_event_has_a_text_with_its_number() {
        assert_eq!(text(EventKind::Xid, Some(79)), "Xid 79: the device has fallen off the bus");
        assert_eq!(text(EventKind::Xid, Some(12_345)), "Xid 12345: unknown");
        assert_eq!(text(EventKind::Recovery, Some(2)), "recovery action: reboot the node");
        assert_eq!(text(EventKind::Recovery, Some(0)), "no recovery action is needed any more");
        assert_eq!(text(EventKind::Recovery, Some(u64::MAX)), "recovery action: unknown");
        assert_eq!(text(EventKind::MemoryError, None), "uncorrected memory error");
        assert_eq!(text(EventKind::Other("meteor".into()), Some(4)), "meteor 4");
    }

    #[test]
    fn known_xids_have_distinct_meanings() {
        let known: Vec<&str> = (0..1000).filter_map(xid_meaning).collect();
        let mut different = known.clone();
        different.sort_unstable();
        different.dedup();
        // Four of them are NVLink errors.
        assert_eq!((known.len(), different.len()), (30, 27));
    }
}
