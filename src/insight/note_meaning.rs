//! What the notes on nodes and devices mean, and what to do about each.

use crate::fleet::Node;
use crate::insight::Severity;
use crate::insight::node_status::source_fault_text;
use crate::model::FaultKind;
use crate::time::Timestamp;

/// What a note means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoteMeaning {
    /// A word that only notes of this kind have.
    pub(crate) word: &'static str,
    pub(crate) meaning: &'static str,
    /// What to do about it; empty if nothing.
    pub(crate) remedy: &'static str,
}

const fn meaning(word: &'static str, meaning: &'static str, remedy: &'static str) -> NoteMeaning {
    NoteMeaning { word, meaning, remedy }
}

/// The notes, those with more particular words first.
pub(crate) const MEANINGS: [NoteMeaning; 22] = [
    meaning(
        "!THERM",
        "thermal throttling: the device is too hot and runs slower",
        "check cooling and airflow, and that the fans turn; nvidia-smi -q -d TEMPERATURE,PERFORMANCE there",
    ),
    meaning(
        "!PWR",
        "power brake: slowed down by the power supply",
        "ask the administrator to check the power supplies and the rack's power limit",
    ),
    meaning(
        "!SLOW",
        "hardware slowdown, reason not reported",
        "check temperature and power; nvidia-smi -q -d PERFORMANCE there",
    ),
    meaning(
        "ECC",
        "uncorrected memory errors since the driver was loaded",
        "results on this device may be wrong: stop using it, and ask the administrator to reset or replace it",
    ),
    meaning(
        "needs a reset",
        "the driver asks for a reset of the device",
        "when nothing uses it: nvidia-smi --gpu-reset there, as administrator",
    ),
    meaning("lost", "the device no longer answers", "the device fell off the bus; reboot the node"),
    meaning(
        "no permission",
        "the login may not read the device",
        "ask the administrator for access to the devices",
    ),
    meaning("faulty", "the driver reports a fault of the device", "run nvidia-smi there by hand"),
    meaning(
        "lags",
        "far below the other devices of its job for a while: they may wait for it",
        "look at its temperature, clocks and processes; if nothing is wrong there, ask its user",
    ),
    meaning(
        "idle-held",
        "allocated to a job, or with much memory in use, and does no work",
        "ask its user whether the job hangs or may end; view 5 shows who holds idle devices",
    ),
    meaning(
        "same machine as",
        "another name of a node that is listed too; its devices are counted once",
        "leave one of the names out",
    ),
    meaning("waiting to connect", "other nodes are connected first", ""),
    meaning("connecting", "a connection is being opened", ""),
    meaning("starting the probe", "connected; the probe has not said hello yet", ""),
    meaning("waiting for the first sample", "connected; the first values are on their way", ""),
    meaning(
        "starting",
        "the driver is being loaded, which takes seconds where it is not kept loaded",
        "persistence mode keeps the driver loaded: nvidia-smi -pm 1 there, as administrator",
    ),
    meaning(
        "stale",
        "no new values: the numbers are old",
        "check the node; gtop reconnects automatically",
    ),
    meaning("no devices selected", "a setting hides all its devices", "F2 shows what is selected"),
    meaning(
        "no devices",
        "no driver reports a device there",
        "a node without devices needs nothing",
    ),
    meaning("F5", "trying again would not help unless something changes", "F5 or R tries again"),
    meaning("retry", "gtop tries again by itself", "F5 or R tries at once"),
    meaning("free", "nobody uses it and no job holds it", ""),
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
    meaning_of(text)
        .map_or_else(Default::default, |known| (known.meaning.to_owned(), known.remedy.to_owned()))
}

/// Returns what an event means and what to do about it; both are empty where nothing is wrong any more.
pub(crate) fn explain_event(text: &str, severity: Severity) -> (&'static str, &'static str) {
    if matches!(severity, Severity::Recovery | Severity::Info) {
        return ("", "");
    }
    // A session that is lost is no lost device: faults of connections have names of their own.
    let fault = FaultKind::ALL.into_iter().find(|kind| text.starts_with(kind.label()));
    if let Some(kind) = fault {
        return (kind.meaning(), kind.remedy());
    }
    meaning_of(text).map_or(("", ""), |known| (known.meaning, known.remedy))
}

/// Returns what a note or a flag means; `None` if it is none of the known ones.
pub(crate) fn meaning_of(note: &str) -> Option<&'static NoteMeaning> {
    let note = note.to_lowercase();
    MEANINGS.iter().find(|known| note.contains(&known.word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Fault, Link, NodeName};

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
        assert_eq!(explained("job 8450 of lost-and-found started", Severity::Info), "");
        assert_eq!(explained("no longer throttled: thermal", Severity::Recovery), "");
    }

    #[test]
    fn notes_are_told_apart_by_their_words() {
        for (note, word) in [
            ("#3,5 !THERM", "!THERM"),
            ("ECC:4", "ECC"),
            ("LOST", "lost"),
            ("#2 lags: 12% for 3m", "lags"),
            ("4 idle-held for 20m", "idle-held"),
            ("2 free", "free"),
            ("stale 12s", "stale"),
            ("starting nvml (3s)", "starting"),
            ("starting the probe", "starting the probe"),
            ("retry in 12s", "retry"),
            ("F5 retries", "F5"),
            ("no devices (nvml found none)", "no devices"),
        ] {
            let found = meaning_of(note).map(|known| known.word);
            assert_eq!(found, Some(word), "{note}");
        }
        assert_eq!(meaning_of("something else"), None);
    }
}
