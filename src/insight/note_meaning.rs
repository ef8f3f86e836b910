//! What the notes on nodes and devices mean, and what to do about each.

use crate::fleet::Node;
use crate::insight::node_status::{SCHEDULER_GIVES_NO_JOBS, SCHEDULER_SAYS, source_fault_text};
use crate::insight::{Severity, device_fault};
use crate::model::{DeviceFault, FaultKind, SourceFaultKind};
use crate::time::Timestamp;

/// What a note or an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoteMeaning {
    /// How the notes and events of this kind begin, after the devices or the number of devices. What follows may be text of
    /// others, such as a reason that an administrator has written.
    beginnings: &'static [&'static str],
    pub(crate) meaning: &'static str,
    /// What to do about it; empty if nothing.
    pub(crate) remedy: &'static str,
}

const fn meaning(
    beginnings: &'static [&'static str],
    meaning: &'static str,
    remedy: &'static str,
) -> NoteMeaning {
    NoteMeaning { beginnings, meaning, remedy }
}

/// What is known of a device whose driver names a fault that gtop does not know.
const FAULTY: NoteMeaning = meaning(
    &["faulty", "device faulty"],
    "the driver reports a fault of the device",
    "run nvidia-smi there by hand",
);

/// The meanings, those of longer beginnings first.
const MEANINGS: [NoteMeaning; 32] = [
    meaning(
        &["!THERM", "throttled: thermal"],
        "thermal throttling: the device is too hot and runs slower",
        "check cooling and airflow, and that the fans turn; nvidia-smi -q -d TEMPERATURE,PERFORMANCE there",
    ),
    meaning(
        &["!PWR", "throttled: power brake"],
        "power brake: slowed down by the power supply",
        "ask the administrator to check the power supplies and the rack's power limit",
    ),
    meaning(
        &["!SLOW", "throttled: hardware slowdown"],
        "hardware slowdown, reason not reported",
        "check temperature and power; nvidia-smi -q -d PERFORMANCE there",
    ),
    meaning(
        &[
            "ECC",
            "uncorrected memory error",
            "poisoned data consumed",
            "Xid 48:",
            "Xid 95:",
            "Xid 140:",
        ],
        "uncorrected memory errors since the driver was loaded",
        "results on this device may be wrong: stop using it, and ask the administrator to reset or replace it",
    ),
    meaning(
        &["needs a reset", "device needs a reset", "the device needs a reset"],
        "the driver asks for a reset of the device",
        "when nothing uses it: nvidia-smi --gpu-reset there, as administrator",
    ),
    meaning(
        &["lost", "device lost", "the driver lost the device", "Xid 79:"],
        "the device no longer answers",
        "the device fell off the bus; reboot the node",
    ),
    meaning(
        &["no permission", "device no permission"],
        "the login may not read the device",
        "ask the administrator for access to the devices",
    ),
    FAULTY,
    meaning(
        &["lags"],
        "far below the other devices of its job for a while: they may wait for it",
        "look at its temperature, clocks and processes; if nothing is wrong there, ask its user",
    ),
    meaning(
        &["idle-held"],
        "allocated to a job, or with much memory in use, and does no work",
        "ask its user whether the job hangs or may end; view 5 shows who holds idle devices",
    ),
    meaning(
        &["same machine as"],
        "another name of a node that is listed too; its devices are counted once",
        "leave one of the names out",
    ),
    meaning(&["waiting to connect"], "other nodes are connected first", ""),
    meaning(&["connecting"], "a connection is being opened", ""),
    meaning(&["starting the probe"], "connected; the probe has not said hello yet", ""),
    meaning(&["waiting for the first sample"], "connected; the first values are on their way", ""),
    meaning(
        &["starting"],
        "the driver is being loaded, which takes seconds where it is not kept loaded",
        "persistence mode keeps the driver loaded: nvidia-smi -pm 1 there, as administrator",
    ),
    meaning(
        &["stale"],
        "no new values: the numbers are old",
        "check the node; gtop reconnects automatically",
    ),
    meaning(&["rebooted"], "the node has started anew: what ran there before has ended", ""),
    meaning(
        &["no devices selected"],
        "a setting hides all its devices",
        "F2 shows what is selected",
    ),
    meaning(
        &["no devices"],
        "no driver reports a device there",
        "a node without devices needs nothing",
    ),
    meaning(
        &["R retries"],
        "trying again would not help unless something changes",
        "R tries again",
    ),
    meaning(&["retry"], "gtop tries again by itself", "R tries at once"),
    meaning(&["free"], "nobody uses it and no job holds it", ""),
    meaning(
        &[SCHEDULER_GIVES_NO_JOBS],
        "the scheduler starts no new job there",
        "scontrol show node tells who set the state, and why",
    ),
    meaning(
        &[SCHEDULER_SAYS],
        "this is what the scheduler said of the node, and when",
        "where a node lets in only users with a job on it, a job of yours there lets gtop in",
    ),
    meaning(
        &["memory retirement pending", "Xid 63:", "Xid 94:"],
        "memory of the device has failed; a reset puts spare memory in its place",
        "when nothing uses it: nvidia-smi --gpu-reset there, as administrator",
    ),
    meaning(
        &["recovery action"],
        "the driver recommends this to make the device work again",
        "do so when nothing uses the device, as administrator",
    ),
    meaning(
        &["the device is unavailable"],
        "the driver cannot use the device",
        "dmesg there tells why; a reset or reboot of the node is likely needed",
    ),
    meaning(
        &["Xid 13:", "Xid 31:", "Xid 43:", "Xid 45:"],
        "mostly an error of the program that ran there, or what follows one",
        "look at its output; if different programs fail on this device alone, test it: dcgmi diag -r 3 there",
    ),
    meaning(
        &["Xid 74:", "Xid 144:", "Xid 145:", "Xid 149:", "Xid 155:"],
        "a link between devices failed: jobs on several devices may hang",
        "nvidia-smi nvlink --status there shows the links; ask the administrator to check them",
    ),
    meaning(
        &["Xid 61:", "Xid 62:", "Xid 119:", "Xid 120:"],
        "the device's own firmware does not work",
        "when nothing uses it: nvidia-smi --gpu-reset there, as administrator; else reboot the node",
    ),
    meaning(
        &["Xid"],
        "an error that the driver reported",
        "NVIDIA's list of Xid errors tells what to do; dmesg there has the whole message",
    ),
];

/// Returns what a note on a node means and what to do about it; both may be empty.
pub(crate) fn explain_note(node: &Node, text: &str, now: Timestamp) -> (String, String) {
    if let Some(fault) = node.fault().filter(|fault| fault.message() == text) {
        return (fault.kind.meaning().to_owned(), fault.remedy().to_owned());
    }
    let faults = node.sources.iter().filter_map(|state| Some((state, state.fault.as_deref()?)));
    let of_source = faults
        .into_iter()
        .find(|(state, fault)| source_fault_text(&state.source, fault, now) == text);
    if let Some((_, fault)) = of_source {
        let call = if fault.call.is_empty() { "" } else { "the call " };
        let colon = if fault.message.is_empty() { "" } else { ": " };
        let meaning = format!("{call}{}{colon}{}", fault.call, fault.message);
        return (meaning, fault.kind.remedy().to_owned());
    }
    // The driver's own words, which may be any.
    let is_shown = |fault: &DeviceFault| {
        matches!(fault, DeviceFault::Other(_))
            && device_fault(fault).eq_ignore_ascii_case(without_devices(text))
    };
    let is_faulty = node.devices.iter().filter_map(|device| device.fault.as_ref()).any(is_shown);
    let known = if is_faulty { Some(&FAULTY) } else { meaning_of(text) };
    known.map_or_else(Default::default, |known| (known.meaning.to_owned(), known.remedy.to_owned()))
}

/// Returns what an event means and what to do about it; both are empty where nothing is wrong any more.
pub(crate) fn explain_event(text: &str, severity: Severity) -> (&'static str, &'static str) {
    if matches!(severity, Severity::Recovery | Severity::Info) {
        return ("", "");
    }
    // A session that is lost is no lost device: faults of connections have names of their own.
    let fault = FaultKind::ALL.into_iter().find(|kind| text.starts_with(kind.label()));
    if let Some(kind) = fault {
        return (kind.meaning(), kind.remedy_for(text));
    }
    let is_of_source = |kind: &SourceFaultKind| {
        text.strip_prefix(kind.label()).is_some_and(|rest| rest.starts_with(": "))
    };
    if let Some(kind) = SourceFaultKind::ALL.into_iter().find(is_of_source) {
        return ("the source gives no values", kind.remedy());
    }
    meaning_of(text).map_or(("", ""), |known| (known.meaning, known.remedy))
}

/// Returns what a note or a flag means; `None` if it is none of the known ones.
pub(crate) fn meaning_of(note: &str) -> Option<&'static NoteMeaning> {
    let note = without_devices(note);
    let begins = |beginning: &&str| {
        note.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    };
    MEANINGS.iter().find(|known| known.beginnings.iter().any(begins))
}

/// Returns a note without the devices that it begins with: `#3,5 !THERM` or `2 free`.
fn without_devices(note: &str) -> &str {
    let is_devices =
        |word: &str| word.starts_with('#') || word.bytes().all(|letter| letter.is_ascii_digit());
    note.split_once(' ').filter(|(first, _)| is_devices(first)).map_or(note, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Device, Event, EventKind, Fault, Link, NodeName, Source};

    #[test]
    fn a_down_node_has_the_remedy_of_its_own_fault() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let fault = Fault::new(FaultKind::HostKeyUnknown, "SHA256:x").for_node("gpu01");
        node.link = Link::Down { fault: fault.clone(), retry_at: None };
        let (meaning, remedy) = explain_note(&node, &fault.message(), Timestamp::default());
        assert_eq!(meaning, FaultKind::HostKeyUnknown.meaning());
        assert!(remedy.contains("gtop trust gpu01"), "{remedy}");
    }

    #[test]
    fn every_kind_of_fault_has_a_meaning_in_words() {
        for kind in FaultKind::ALL {
            let meaning = kind.meaning();
            assert!(meaning.contains(' ') && !meaning.ends_with('.'), "{kind:?}");
        }
    }

    #[test]
    fn a_lost_session_is_no_lost_device() {
        let explained = |text, severity| explain_event(text, severity).1;
        let error = Severity::Error;
        assert_eq!(explained("session lost", error), FaultKind::SessionLost.remedy());
        assert!(explained("device lost", error).contains("fell off the bus"));
        for (text, remedy) in [
            ("Xid 13: graphics engine exception, usually an application error", "dcgmi"),
            ("Xid 79: the device has fallen off the bus", "fell off the bus"),
            ("Xid 95: uncontained memory error: the device needs a reset", "may be wrong"),
            ("Xid 99999: unknown", "list of Xid errors"),
        ] {
            assert!(explained(text, error).contains(remedy), "{text}");
        }
        assert_eq!(explained("job 8450 of lost-and-found started", Severity::Info), "");
        assert_eq!(explained("no longer throttled: thermal", Severity::Recovery), "");
    }

    #[test]
    fn every_event_of_a_driver_has_a_remedy() {
        for kind in EventKind::known() {
            let event = Event {
                at: Timestamp::default(),
                source: Source::host(),
                kind,
                device: "".into(),
                code: None,
                message: "".into(),
            };
            assert_ne!(explain_event(&event.text(), Severity::Error).1, "", "{}", event.text());
        }
    }

    #[test]
    fn notes_are_told_apart_by_their_beginnings() {
        for (note, beginning) in [
            ("#3,5 !THERM", "!THERM"),
            ("ECC:4", "ECC"),
            ("LOST", "lost"),
            ("#0,1.2 needs a reset", "needs a reset"),
            ("#2 lags: 12% for 3m", "lags"),
            ("4 idle-held for 20m", "idle-held"),
            ("2 free", "free"),
            ("stale 12s", "stale"),
            ("starting nvml (3s)", "starting"),
            ("starting the probe", "starting the probe"),
            ("retry in 12s", "retry"),
            ("R retries", "R retries"),
            ("no devices (nvml found none)", "no devices"),
            ("no devices selected", "no devices selected"),
            // The words of others do not decide.
            ("Slurm: drained: free the lost stale device", SCHEDULER_GIVES_NO_JOBS),
            ("Slurm 12s ago: idle · 3 of 4 devices free", SCHEDULER_SAYS),
        ] {
            let found = meaning_of(note).map(|known| known.beginnings[0]);
            assert_eq!(found, Some(beginning), "{note}");
        }
        for unknown in ["something else", "job 7 was cancelled · lost of free", "ü", "#", "# ", ""]
        {
            assert_eq!(meaning_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_fault_in_the_driver_s_own_words_is_explained() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let fault = Some(DeviceFault::Other("Free fan failure".into()));
        node.devices = vec![Device { fault, ..Device::default() }];
        for text in ["FREE FAN FAILURE", "#0 free fan failure"] {
            let found = explain_note(&node, text, Timestamp::default());
            assert_eq!(found.0, FAULTY.meaning, "{text}");
        }
    }

    #[test]
    fn events_of_devices_and_sources_are_explained() {
        for text in [
            "throttled: thermal",
            "uncorrected memory error",
            "stuck: nvml",
            "rebooted",
            "device no permission",
        ] {
            assert_ne!(explain_event(text, Severity::Error).0, "", "{text}");
        }
        assert_eq!(explain_event("job 9 failed · lost of free", Severity::Error), ("", ""));
    }
}
