//! Why a node or a source has no values.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::declare::table;
use crate::id::Source;
use gtop_local::fault;
use gtop_local::time::Timestamp;

/// The state of the connection to a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Link {
    /// Not tried yet.
    #[default]
    Idle,
    /// A session is being opened.
    Opening {
        /// 1 for the first try.
        attempt: u32,
    },
    /// The probe is connected.
    Up,
    /// Not connected.
    Down {
        /// Why.
        fault: Fault,
        /// Time of the next try; `None` waits for the user.
        retry_at: Option<Timestamp>,
    },
}

table! {
    /// How a node is reached.
    pub enum TransportKind {
        /// By gtop's built-in SSH.
        Native = "native",
        /// By the ssh program.
        SshProgram = "ssh",
        /// By a command of the user (`--exec`).
        Exec = "exec",
        /// By a step of a job (`srun`).
        Step = "srun",
        /// Locally, without SSH.
        Local = "local",
        /// Not at all: a page of metrics is read over HTTP.
        Http = "http",
        /// Not at all: it runs in this process, simulated.
        InProcess = "in-process",
    }
    /// All of them.
    pub const ALL;
    /// Returns the name used in JSON.
    pub fn as_str -> &'static str;
}

/// Why a node is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of fault.
    pub kind: FaultKind,
    /// Details, such as the methods a node offers; may be empty. Equal faults of many nodes are shown once, so it
    /// must not name the node.
    pub detail: Arc<str>,
    /// What happened at this node, in full, with details such as its fingerprint; empty if there is no more to say.
    pub what: Arc<str>,
    /// What happened, as data; unknown of a recorded fault.
    pub cause: Option<Arc<fault::Fault>>,
    /// What is known of the host where it happened; unknown of a recorded fault.
    pub host: Option<Arc<fault::LoginFacts>>,
}

table! {
    /// The kinds of faults.
    #[derive(PartialOrd, Ord)]
    pub enum FaultKind {
        /// No address for the name.
        NameNotFound = ("name not found", "no name server knows an address for this name"),
        /// No route to the address.
        Unreachable = ("unreachable",
            "there is no network route to the node: it may be off, or the network down"),
        /// Connection refused: nothing listens on the port.
        Refused = ("connection refused",
            "the node is up, but nothing listens on the port: sshd does not run there"),
        /// A connection step timed out.
        TimedOut = ("timed out",
            "the node did not answer in time: it may be off, overloaded or behind a firewall"),
        /// The two sides have no algorithm in common, or the server does not speak SSH.
        KeyExchange = ("key exchange failed",
            "gtop and what answers there share no encryption algorithms"),
        /// The host key is in no `known_hosts` file.
        HostKeyUnknown = ("host key unknown",
            "gtop cannot tell whether this is the right node: its key is not known yet"),
        /// `known_hosts` has a different host key.
        HostKeyChanged = ("host key changed",
            "the node shows another key than before: it was reinstalled, or it is another machine"),
        /// The host key is marked as revoked.
        HostKeyRevoked = ("host key revoked",
            "the key of the node is marked as no longer trusted"),
        /// The node refused the login.
        AuthenticationRefused = ("authentication refused",
            "the node answers, but does not accept the login"),
        /// The node prompts for input, such as a one-time code, and nobody answered.
        PromptUnanswered = ("login prompt",
            "the node asks a question at login, such as a one-time code"),
        /// The only usable key needs a passphrase.
        KeyLocked = ("key needs a passphrase",
            "the key for the login is encrypted, and nobody has typed its passphrase"),
        /// `ssh_config` is invalid or asks for something gtop cannot do.
        Configuration = ("configuration",
            "the ssh configuration of this machine cannot be used as it is"),
        /// The node refuses to open a channel.
        ChannelRefused = ("channel refused",
            "the login works, but the node opens no further session"),
        /// Neither Python nor `sh` could be started.
        NoInterpreter = ("no interpreter",
            "the login works, but the node starts neither Python nor a shell for gtop"),
        /// The node stopped responding.
        Silent = ("silent", "the connection is open, but nothing arrives through it any more"),
        /// The node sent an invalid reply.
        BadReply = ("bad reply", "something other than gtop's probe answers after the login"),
        /// The node closed the connection before its SSH banner.
        NoBanner = ("no SSH banner",
            "the node accepts the connection and closes it before saying anything"),
        /// The node ends the session after login, with a message.
        AccountRefused = ("login refused",
            "the login is accepted, but the node turns this account away"),
        /// The node admits only users with a job there.
        NoJob = ("no job on the node",
            "the node lets in only users with a job there, and you have none now"),
        /// The local limit of open files is reached.
        FileLimit = ("too many open files here",
            "this machine, where gtop runs, allows no more open files"),
        /// Nothing answers where the page of metrics should be.
        PageNotReached = ("page not reached",
            "nothing answers at the address of the page of metrics: its exporter may not run there"),
        /// What answers is no page of metrics that gtop reads.
        PageNotReadable = ("page not readable",
            "the address answers, but not with a page of metrics that gtop reads"),
        /// The session ended.
        SessionLost = ("session lost",
            "the connection ended: the node may have restarted, or the network failed"),
    }
    /// All of them.
    pub const ALL;
    fn texts -> (&'static str, &'static str);
}

impl Fault {
    /// Makes a fault of which no more is known.
    pub fn new(kind: FaultKind, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, detail: detail.into(), what: "".into(), cause: None, host: None }
    }

    /// Sets what happened at this node.
    #[must_use]
    pub fn with_what(mut self, what: impl Into<Arc<str>>) -> Self {
        self.what = what.into();
        self
    }

    /// Returns true if the user can log in with the ssh program, and gtop then uses that connection. An unknown host is
    /// asked about otherwise.
    pub fn is_solved_by_login(&self) -> bool {
        let Some(fault::Fault::Ssh(cause)) = self.cause.as_deref() else { return false };
        self.kind != FaultKind::HostKeyUnknown
            && cause.is_solved_by_login()
            && self.host.as_ref().is_none_or(|facts| facts.shares_logins)
    }

    /// Returns the fault as one line: `label: detail`.
    pub fn message(&self) -> String {
        if self.detail.is_empty() {
            self.kind.label().to_owned()
        } else {
            format!("{}: {}", self.kind.label(), self.detail)
        }
    }

    /// Returns what happened at this node, in full.
    pub fn what(&self) -> Cow<'_, str> {
        if self.what.is_empty() { self.message().into() } else { (&*self.what).into() }
    }
}

impl FaultKind {
    /// Returns the fault as shown on the screen and in JSON.
    pub const fn label(self) -> &'static str {
        self.texts().0
    }

    /// Returns what has happened, in plain language.
    pub const fn meaning(self) -> &'static str {
        self.texts().1
    }

    /// Returns true if the node answers and what is wrong is this user's login to it.
    pub const fn is_of_login(self) -> bool {
        matches!(
            self,
            Self::AuthenticationRefused
                | Self::PromptUnanswered
                | Self::KeyLocked
                | Self::HostKeyUnknown
                | Self::AccountRefused
                | Self::NoJob
        )
    }

    /// Returns true if retrying can succeed without user action.
    ///
    /// Refused logins and host keys are never retried automatically: repeated failures can get the whole login
    /// node banned.
    pub const fn is_retryable(self) -> bool {
        !matches!(
            self,
            Self::HostKeyUnknown
                | Self::HostKeyChanged
                | Self::HostKeyRevoked
                | Self::AuthenticationRefused
                | Self::PromptUnanswered
                | Self::KeyLocked
                | Self::Configuration
        )
    }
}

/// Why one source of a node has no values while the node is up.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFault {
    /// Kind of fault.
    pub kind: SourceFaultKind,
    /// The call that failed.
    pub call: Arc<str>,
    /// The driver's message; may be empty.
    pub message: Arc<str>,
    /// How long the call has taken.
    pub duration: Duration,
    /// When the probe reported it.
    pub at: Timestamp,
    /// The driver's number of the error, where it has one.
    pub code: Option<u32>,
}

table! {
    /// The kinds of source faults, from the wire's error codes.
    #[derive(PartialOrd, Ord)]
    pub enum SourceFaultKind {
        /// The driver is being loaded.
        Starting = "starting",
        /// The call takes longer than it usually does.
        Slow = "slow",
        /// A driver that is loaded has not answered for long, and may yet.
        Unanswered = "maybe stuck",
        /// The call does not return: the kernel does not let go of it, or it has not answered for a minute.
        Stuck = "stuck",
        /// Reading the host's values hangs.
        HostStuck = "stuck",
        /// The backend's program or library is not installed.
        NoLibrary = "not installed",
        /// The driver is not running.
        NoDriver = "driver not running",
        /// The driver does not start, for another reason.
        NoStart = "driver does not start",
        /// Driver and library are of different versions.
        Mismatch = "driver and library differ",
        /// Permission denied.
        NoPermission = "no permission",
        /// A device is gone.
        Lost = "device lost",
        /// The driver answers and has no device.
        NoDevices = "no devices found",
        /// The output cannot be parsed.
        Unreadable = "unreadable answer",
        /// Anything else.
        Failed = "failed",
    }
    /// All kinds.
    #[cfg(test)]
    pub const ALL;
    /// Returns the fault as in JSON.
    pub fn label -> &'static str;
}

impl SourceFault {
    /// Returns true unless it likely ends by itself: the driver is being loaded, or is slow.
    pub fn is_problem(&self) -> bool {
        !matches!(self.kind, SourceFaultKind::Starting | SourceFaultKind::Slow)
    }
}

impl SourceFaultKind {
    /// Returns the fault of a source as shown on the screen, with how long a call has taken, if that is to be shown: `no answer
    /// for 12s from the NVIDIA driver`.
    pub fn text(self, source: &Source, span: Option<&str>) -> String {
        let title = source.title();
        let spanned = |before: &str, after: &str| {
            span.map_or_else(String::new, |span| format!("{before}{span}{after}"))
        };
        match self {
            Self::Starting => format!("starting {title}{}", spanned(" (", ")")),
            Self::Slow => format!("waiting{} for {title}", spanned(" ", "")),
            Self::Unanswered => format!("no answer yet{} from {title}", spanned(" for ", "")),
            Self::Stuck | Self::HostStuck => {
                format!("no answer{} from {title}", spanned(" for ", ""))
            }
            Self::NoLibrary
            | Self::NoDriver
            | Self::NoStart
            | Self::Mismatch
            | Self::NoPermission
            | Self::Lost
            | Self::NoDevices
            | Self::Unreadable
            | Self::Failed => format!("{}: {source}", self.label()),
        }
    }

    /// Returns true if it is about how long a call takes.
    pub const fn is_duration(self) -> bool {
        matches!(
            self,
            Self::Starting | Self::Slow | Self::Unanswered | Self::Stuck | Self::HostStuck
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_fault_has_its_own_label_and_meaning() {
        let all = FaultKind::ALL;
        let labels: BTreeSet<_> = all.into_iter().map(FaultKind::label).collect();
        let meanings: BTreeSet<_> = all.into_iter().map(FaultKind::meaning).collect();
        assert_eq!((labels.len(), meanings.len()), (all.len(), all.len()));
        let is_plain = |meaning: &&str| meaning.contains(' ') && !meaning.ends_with('.');
        assert!(meanings.iter().all(is_plain), "{meanings:?}");
        let all = SourceFaultKind::ALL;
        let labels: BTreeSet<_> = all.into_iter().map(SourceFaultKind::label).collect();
        // The two kinds that hang share a label.
        assert_eq!(labels.len(), all.len() - 1);
    }

    #[test]
    fn a_fault_of_a_source_names_it_and_how_long_it_has_lasted() {
        let driver = Source::new("nvml");
        for (kind, source, long, short) in [
            (
                SourceFaultKind::Stuck,
                driver.clone(),
                "no answer for 5s from the NVIDIA driver",
                "no answer from the NVIDIA driver",
            ),
            (
                SourceFaultKind::Unanswered,
                driver.slow(),
                "no answer yet for 5s from the NVIDIA driver",
                "no answer yet from the NVIDIA driver",
            ),
            (
                SourceFaultKind::Slow,
                Source::new("nvidia-smi").processes(),
                "waiting 5s for the process list of nvidia-smi",
                "waiting for the process list of nvidia-smi",
            ),
            (
                SourceFaultKind::Starting,
                Source::new("tpu"),
                "starting the TPU runtime (5s)",
                "starting the TPU runtime",
            ),
            (
                SourceFaultKind::NoPermission,
                Source::host(),
                "no permission: host",
                "no permission: host",
            ),
        ] {
            let texts = (kind.text(&source, Some("5s")), kind.text(&source, None));
            assert_eq!(texts, (long.to_owned(), short.to_owned()));
        }
    }

    #[test]
    fn a_fault_says_what_happened_at_the_node() {
        let lost = Fault::new(FaultKind::SessionLost, "why");
        assert_eq!((&*lost.message(), &*lost.what()), ("session lost: why", "session lost: why"));
        let unknown = Fault::new(FaultKind::HostKeyUnknown, "").with_what("the whole story");
        assert_eq!(
            (&*unknown.message(), &*unknown.what()),
            ("host key unknown", "the whole story")
        );
    }

    #[test]
    fn a_refused_login_is_not_retried_automatically() {
        let never: Vec<_> =
            FaultKind::ALL.into_iter().filter(|kind| !kind.is_retryable()).collect();
        assert_eq!(
            never,
            [
                FaultKind::HostKeyUnknown,
                FaultKind::HostKeyChanged,
                FaultKind::HostKeyRevoked,
                FaultKind::AuthenticationRefused,
                FaultKind::PromptUnanswered,
                FaultKind::KeyLocked,
                FaultKind::Configuration,
            ]
        );
    }
}
