//! The short notes on a node: their text, how serious each is, what it means, and what to do about it, all by the kind of
//! the note.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::advice::{self, Advice, Known, Reader};
use crate::declare::kinds;
use crate::insight::Severity;
use crate::insight::device_flag::DeviceFlag;
use crate::{HealthReason, Node};
use gtop_local::text::excerpt_line;
use gtop_local::time::{format_age, format_duration};
use gtop_model::{
    Fault, NodeName, SchedulerWords, Source, SourceFault, SourceFaultKind, SudoRefusal,
};

kinds! {
    /// A note on a node.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Note {
        /// It is another name of this node.
        SameMachine(first: NodeName) = ("same_machine", Severity::Warning,
            "another name of a node that is listed too; its devices are counted once".into()),
        /// It is queued to connect.
        Waiting = ("waiting", Severity::Info, "other nodes are connected first".into()),
        /// A connection is being opened; the number of the attempt, from 1.
        Connecting(attempt: u32) = ("connecting", Severity::Info, "a connection is being opened".into()),
        /// The connection is up, and the probe has not said hello.
        StartingProbe = ("starting_probe", Severity::Info, "connected; the probe has not said hello yet".into()),
        /// The probe has said hello, and no values have come.
        FirstSample = ("first_sample", Severity::Info, "connected; the first values are on their way".into()),
        /// The newest values are this old.
        Stale(age: Duration) = ("stale", Severity::Warning, "no new values: the numbers are old".into()),
        /// The page of metrics from which it is read is this old.
        OldPage(age: Duration) = ("old_page", Severity::Warning,
            "the time on its page of metrics stands still, or the page comes late: the numbers are old".into()),
        /// Values of its devices are this old, as they come seldom.
        Aged(age: Duration) = ("aged", Severity::Info,
            "the driver's program is slow there, so values of devices arrive rarely".into()),
        /// Why it is down.
        Down(fault: Box<Fault>) = ("down", Severity::Error, fault_meaning(fault)),
        /// When it is tried again.
        NextAttempt(next: NextAttempt) = ("next_attempt", Severity::Info, next.meaning().into()),
        /// The probe does not run as root, although that is wanted.
        SudoRefused(refusal: SudoRefusal) = ("sudo_refused", Severity::Warning,
            "the probe runs as the user who logs in, so what only root sees is missing".into()),
        /// A source of values fails, for so long.
        SourceFault { source: Source, fault: Box<SourceFault>, span: Duration } =
            ("source_fault", source_fault_severity(fault), source_fault_meaning(fault)),
        /// A source of values has not answered yet.
        SourceStarting(source: Source) = ("source_starting", Severity::Info,
            "the driver is being loaded, which takes seconds where it is not kept loaded".into()),
        /// The settings hide all its devices.
        NoneSelected = ("none_selected", Severity::Info, "a setting hides all its devices".into()),
        /// Nothing reports a device there: why.
        NoDevices(why: Vec<String>) = ("no_devices", Severity::Info, "nothing reports a device there".into()),
        /// The PCI bus has devices that their driver does not list: their addresses.
        UnlistedDevices(addresses: Vec<Arc<str>>) = ("unlisted_devices", Severity::Warning,
            "the PCI bus has these devices, and their driver does not list them".into()),
        /// The kernel has logged a fatal Xid of a device that its driver does not list: the Xid and the address.
        UnlistedXid { code: u64, address: Arc<str> } = ("unlisted_xid", Severity::Error,
            format!("no driver lists this device; {}", HealthReason::xid_meaning(*code)).into()),
        /// It has fewer devices than the scheduler gives to jobs.
        BelowScheduler { found: usize, configured: usize } = ("below_scheduler", Severity::Warning,
            "the scheduler gives jobs more devices than the node has: jobs that get a missing one fail".into()),
        /// How many devices are read, and how many there are more.
        DevicesLeftOut { read: usize, more: usize } = ("devices_left_out", Severity::Warning,
            "gtop reads no more devices per node; the others are neither shown nor counted".into()),
        /// Accelerators that gtop cannot read, as texts.
        UnreadableDevices(list: Vec<String>) = ("unreadable_devices", Severity::Info,
            "accelerators on its PCI bus whose values gtop cannot show; they are not counted".into()),
        /// The scheduler gives it no jobs: its state, and how old that is if it is old.
        ClosedByScheduler { words: &'static SchedulerWords, said: String, age: Option<Duration> } =
            ("scheduler_closed", Severity::Warning, "the scheduler starts no new job there".into()),
        /// What the scheduler says of a node that cannot be reached, and how long ago.
        ReportedByScheduler {
            words: &'static SchedulerWords, said: String, age: Option<Duration>, severity: Severity,
        } = ("scheduler_reported", *severity, "this is what the scheduler said of the node, and when".into()),
        /// What is wrong with devices.
        Devices { labels: Vec<String>, flag: DeviceFlag } = (flag.id(), flag.severity(), flag.meaning().into()),
        /// A device is far below the others of its job.
        Lags { label: String, share: f32, span: String } = ("lags", Severity::Warning,
            "far below the other devices of its job for a while: they may wait for it".into()),
        /// Devices are held and idle; for how long at least.
        IdleHeld { count: usize, span: String, severity: Severity } = ("idle_held", *severity,
            "allocated to a job, or with much memory in use, and does no work".into()),
        /// All its devices are free.
        Free = ("free", Severity::Info, "nobody uses it and no job holds it".into()),
        /// Some of its devices are free.
        FreeDevices(count: usize) = ("free_devices", Severity::Info, "nobody uses it and no job holds it".into()),
    }
    /// Returns its name for programs, which never changes, how serious it is, and what it means.
    fn row -> (&'static str, Severity, Cow<'static, str>);
}

/// When a node that is down is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// It is being tried; the number of the attempt, from 1.
    Running(u32),
    In(Duration),
    /// Only when the user asks for it.
    OnRequest,
    /// Once its host key is known.
    OnHostKey,
    /// Once the user has logged in.
    OnLogin,
    Soon,
}

impl NextAttempt {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Running(attempt) => connecting_text(attempt),
            Self::In(span) => format!("retry in {}", format_duration(span)),
            Self::OnRequest => "R retries".to_owned(),
            Self::OnHostKey => "A shows the key".to_owned(),
            Self::OnLogin => "L logs in".to_owned(),
            Self::Soon => "retrying".to_owned(),
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Running(_) => "a connection is being opened",
            Self::In(_) | Self::Soon => "gtop retries automatically",
            Self::OnRequest => "retrying does not help unless something changes",
            Self::OnHostKey => "gtop connects once you have said that this is the right machine",
            Self::OnLogin => "gtop connects once you have logged in there",
        }
    }
}

fn connecting_text(attempt: u32) -> String {
    if attempt < 2 { "connecting".to_owned() } else { format!("connecting (attempt {attempt})") }
}

fn fault_meaning(fault: &Fault) -> Cow<'static, str> {
    if fault.what.is_empty() || *fault.what == *fault.message() {
        return fault.kind.meaning().into();
    }
    format!("{} ({})", fault.kind.meaning(), fault.what).into()
}

fn source_fault_severity(fault: &SourceFault) -> Severity {
    if fault.kind == SourceFaultKind::Unanswered {
        return Severity::Warning;
    }
    if fault.is_problem() { Severity::Error } else { Severity::Info }
}

fn source_fault_meaning(fault: &SourceFault) -> Cow<'static, str> {
    let call = if fault.call.is_empty() { "" } else { "the call " };
    let colon = if fault.message.is_empty() { "" } else { ": " };
    format!("{call}{}{colon}{}", fault.call, fault.message).into()
}

/// Returns the fault of a source: `no answer for 12s from nvidia-smi`.
fn source_fault_text(source: &Source, fault: &SourceFault, span: Duration) -> String {
    let label = fault.kind.label();
    if let Some(code) = fault.code {
        return format!("{label} (error {code}): {source}");
    }
    if fault.kind == SourceFaultKind::Failed && !fault.message.is_empty() {
        return format!("{label}: {source}: {}", excerpt_line(&fault.message));
    }
    fault.kind.text(source, Some(&format_age(span)))
}

/// Returns what a scheduler says, with its age if that matters.
fn scheduler_text(words: &SchedulerWords, said: &str, age: Option<Duration>) -> String {
    let name = words.name;
    age.map_or_else(
        || format!("{name}: {said}"),
        |age| format!("{name} {} ago: {said}", format_age(age)),
    )
}

impl Note {
    /// Returns that the newest values of a node are this old.
    pub(crate) fn of_age(node: &Node, age: Duration) -> Self {
        if node.is_read_from_page() { Self::OldPage(age) } else { Self::Stale(age) }
    }

    /// Returns its name for programs, which never changes.
    pub fn id(&self) -> &'static str {
        self.row().0
    }

    pub fn severity(&self) -> Severity {
        self.row().1
    }

    /// Returns what it means.
    pub fn meaning(&self) -> Cow<'static, str> {
        self.row().2
    }

    /// Returns its text and how serious it is, to be drawn.
    pub fn drawn(&self) -> (String, Severity) {
        (self.text(), self.severity())
    }

    pub fn text(&self) -> String {
        match self {
            Self::SameMachine(first) => format!("same machine as {first}"),
            Self::Waiting => "waiting to connect".to_owned(),
            Self::Connecting(attempt) => connecting_text(*attempt),
            Self::StartingProbe => "starting the probe".to_owned(),
            Self::FirstSample => "waiting for the first sample".to_owned(),
            Self::Stale(age) => format!("stale {}", format_age(*age)),
            Self::OldPage(age) => format!("stale {}: old page", format_age(*age)),
            Self::Aged(age) => format!("{} old", format_age(*age)),
            Self::Down(fault) => fault.message(),
            Self::NextAttempt(next) => next.text(),
            Self::SudoRefused(refusal) => format!("not root: {}", refusal.text()),
            Self::SourceFault { source, fault, span } => source_fault_text(source, fault, *span),
            Self::SourceStarting(source) => format!("starting {}", source.title()),
            Self::NoneSelected => "no devices selected".to_owned(),
            Self::NoDevices(why) => format!("no devices ({})", why.join(", ")),
            Self::UnlistedDevices(addresses) => format!("not listed: {}", addresses.join(", ")),
            Self::UnlistedXid { code, address } => format!("Xid {code} of {address}"),
            Self::BelowScheduler { found, configured } => {
                format!("{found} of the {configured} devices that the scheduler expects")
            }
            Self::DevicesLeftOut { read, more } => {
                format!("only {read} of at least {} devices are read", read + more)
            }
            Self::UnreadableDevices(list) => list.join("; "),
            Self::ClosedByScheduler { words, said, age }
            | Self::ReportedByScheduler { words, said, age, .. } => {
                scheduler_text(words, said, *age)
            }
            Self::Devices { labels, flag } => format!("#{} {}", labels.join(","), flag.note()),
            Self::Lags { label, share, span } => {
                format!("#{label} lags: {share:.0}% for {span}")
            }
            Self::IdleHeld { count, span, .. } => format!("{count} idle-held for {span}"),
            Self::Free => "free".to_owned(),
            Self::FreeDevices(count) => format!("{count} free"),
        }
    }

    /// Returns true if it names a key of the screen.
    pub const fn names_key(&self) -> bool {
        use NextAttempt::{OnHostKey, OnLogin, OnRequest};
        matches!(self, Self::NextAttempt(OnRequest | OnHostKey | OnLogin))
    }

    /// Returns what to do about it, without what only some may know of this node, such as the name of a user.
    pub fn common_advice(&self, node: &NodeName) -> Advice {
        let Self::Down(fault) = self else { return self.advice(node, Reader::Program) };
        advice::in_public(fault.kind, node.label())
    }

    /// Returns what to do about it on this node; nothing if no step helps.
    pub fn advice(&self, node: &NodeName, reader: Reader) -> Advice {
        let words = match self {
            Self::Down(fault) => return advice::for_fault(fault, &Known::of_node(node, reader)),
            Self::SameMachine(_) => advice::source::SAME_MACHINE,
            Self::Stale(_) => advice::source::of_stale(reader),
            Self::OldPage(_) => advice::source::OLD_PAGE,
            Self::NextAttempt(_) if reader != Reader::Screen => "",
            Self::NextAttempt(NextAttempt::OnRequest) => advice::source::ON_REQUEST,
            Self::NextAttempt(NextAttempt::OnHostKey) => advice::source::ON_HOST_KEY,
            Self::NextAttempt(NextAttempt::OnLogin) => advice::source::ON_LOGIN,
            Self::NextAttempt(NextAttempt::In(_) | NextAttempt::Soon) => advice::source::RETRY,
            Self::SudoRefused(refusal) => advice::root::of_note(*refusal),
            Self::SourceFault { fault, .. } => advice::source::of_source(fault.kind),
            Self::SourceStarting(_) | Self::Aged(_) => advice::source::PERSISTENCE,
            Self::NoneSelected => advice::source::NONE_SELECTED,
            Self::NoDevices(_) => advice::source::NO_DEVICES,
            Self::UnlistedDevices(_) => advice::device::UNLISTED,
            Self::UnlistedXid { code, .. } => advice::device::of_xid(*code),
            Self::BelowScheduler { .. } => advice::scheduler::BELOW_SCHEDULER,
            Self::DevicesLeftOut { .. } => advice::device::LEFT_OUT,
            Self::UnreadableDevices(_) => advice::device::UNREADABLE,
            Self::ClosedByScheduler { words, .. } => {
                return advice::scheduler::of_closed(words);
            }
            Self::ReportedByScheduler { .. } => advice::scheduler::REPORTED,
            Self::Devices { flag, .. } => flag.remedy(),
            Self::Lags { .. } => advice::device::LAGS,
            Self::IdleHeld { .. } => advice::device::IDLE_HELD,
            Self::Waiting
            | Self::Connecting(_)
            | Self::NextAttempt(NextAttempt::Running(_))
            | Self::StartingProbe
            | Self::FirstSample
            | Self::Free
            | Self::FreeDevices(_) => "",
        };
        words.into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use gtop_local::time::Timestamp;
    use gtop_model::{FaultKind, UNNAMED_SCHEDULER};

    const WORDS: &SchedulerWords = &UNNAMED_SCHEDULER.words;

    fn node() -> NodeName {
        NodeName::new("gpu01").unwrap()
    }

    fn stuck() -> SourceFault {
        SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "nvmlInit".into(),
            message: "Unknown Error".into(),
            duration: Duration::ZERO,
            at: Timestamp::default(),
            code: None,
        }
    }

    /// Returns one of each kind, with these words of others in it.
    fn all(words: &str) -> Vec<Note> {
        let said = || words.to_owned();
        let driver = HealthReason::Driver(words.into());
        vec![
            Note::SameMachine(NodeName::new("gpu01").unwrap()),
            Note::Waiting,
            Note::Connecting(2),
            Note::StartingProbe,
            Note::FirstSample,
            Note::Stale(Duration::from_secs(9)),
            Note::OldPage(Duration::from_secs(9)),
            Note::Aged(Duration::from_secs(9)),
            Note::Down(Box::new(Fault::new(FaultKind::Silent, words))),
            Note::NextAttempt(NextAttempt::Soon),
            Note::SudoRefused(SudoRefusal::Denied),
            Note::SourceFault {
                source: Source::new("nvml"),
                fault: Box::new(stuck()),
                span: Duration::from_secs(9),
            },
            Note::SourceStarting(Source::new("nvml")),
            Note::NoneSelected,
            Note::NoDevices(vec![said()]),
            Note::UnlistedDevices(vec![words.into()]),
            Note::UnlistedXid { code: 79, address: words.into() },
            Note::BelowScheduler { found: 7, configured: 8 },
            Note::DevicesLeftOut { read: 256, more: 44 },
            Note::UnreadableDevices(vec![said()]),
            Note::ClosedByScheduler { words: WORDS, said: said(), age: None },
            Note::ReportedByScheduler {
                words: WORDS,
                said: said(),
                age: None,
                severity: Severity::Info,
            },
            Note::Devices { labels: vec!["0".to_owned()], flag: DeviceFlag::Health(driver) },
            Note::Lags { label: "1".to_owned(), share: 12.0, span: "3m".to_owned() },
            Note::IdleHeld { count: 2, span: "20m".to_owned(), severity: Severity::Warning },
            Note::Free,
            Note::FreeDevices(2),
        ]
    }

    fn variant(note: &Note) -> String {
        format!("{note:?}").chars().take_while(|letter| letter.is_alphabetic()).collect()
    }

    #[test]
    fn each_note_has_a_name_of_its_own_and_a_meaning() {
        let notes = all("drained");
        let kinds: Vec<String> = notes.iter().map(variant).collect();
        assert_eq!(kinds, Note::VARIANTS, "all() lists one of each kind, in their order");
        let names: BTreeSet<&str> = notes.iter().map(Note::id).collect();
        assert_eq!(names.len(), notes.len());
        let is_plain = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(names.iter().all(is_plain), "{names:?}");
        for note in notes {
            assert_ne!(note.text(), "", "{note:?}");
            assert_ne!(note.meaning(), "", "{note:?}");
            let is_problem = matches!(note.severity(), Severity::Error | Severity::Warning);
            assert!(
                !is_problem || !note.advice(&node(), Reader::Screen).steps.is_empty(),
                "{note:?}"
            );
        }
    }

    #[test]
    fn the_words_of_others_decide_nothing() {
        let plain = all("x");
        let facts = |note: &Note| {
            (note.id(), note.severity(), note.meaning(), note.advice(&node(), Reader::Screen))
        };
        let facts = |notes: &[Note]| -> Vec<_> {
            notes.iter().map(|note| format!("{:?}", facts(note))).collect()
        };
        for words in [
            "lost",
            "#0 lost",
            "stale 12s",
            "free",
            "the scheduler: drained",
            "the scheduler 12s ago: idle",
            "no devices selected",
            "Xid 79: the device has fallen off the bus",
            "",
        ] {
            assert_eq!(facts(&all(words)), facts(&plain), "{words}");
        }
    }

    #[test]
    fn an_old_note_of_the_scheduler_has_the_remedy_of_a_new_one() {
        let closed =
            |age| Note::ClosedByScheduler { words: WORDS, said: "drained".to_owned(), age };
        let old = closed(Some(Duration::from_secs(90)));
        assert_eq!(old.text(), "the scheduler 1m30s ago: drained");
        let remedy = old.advice(&node(), Reader::Screen).first();
        assert_eq!(remedy, closed(None).advice(&node(), Reader::Screen).first());
        assert!(remedy.contains(WORDS.explain_node), "{remedy}");
    }

    #[test]
    fn a_down_node_has_the_remedy_of_its_own_fault() {
        let fault = Fault::new(FaultKind::HostKeyUnknown, "SHA256:x");
        let note = Note::Down(Box::new(fault));
        assert_eq!(note.meaning(), FaultKind::HostKeyUnknown.meaning());
        let remedy = note.advice(&node(), Reader::Screen).first();
        assert!(remedy.ends_with(": gtop trust gpu01"), "{remedy}");
    }
}
