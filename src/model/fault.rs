//! Why a node or a source gives nothing, in our words and with a remedy.

use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;

/// The state of the connection to a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Link {
    /// Nothing was tried yet.
    #[default]
    Idle,
    /// A session is being opened.
    Opening {
        /// 1 for the first try.
        attempt: u32,
    },
    /// The probe talks.
    Up,
    /// There is no session.
    Down {
        /// Why.
        fault: Fault,
        /// When it is tried again; `None` waits for the user.
        retry_at: Option<Timestamp>,
    },
}

/// How a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// By gtop's own SSH.
    Native,
    /// By the ssh program.
    SshProgram,
    /// By a command of the user's.
    Exec,
    /// By a step of a Slurm job.
    Step,
    /// It is this machine.
    Local,
}

impl TransportKind {
    /// Returns the word programs see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::SshProgram => "ssh",
            Self::Exec => "exec",
            Self::Step => "srun",
            Self::Local => "local",
        }
    }
}

/// Why there is no session with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which kind.
    pub kind: FaultKind,
    /// What makes this one particular, such as the methods a node offers. May be empty. Equal
    /// faults of many nodes are shown once, so it must not name the node.
    pub detail: Arc<str>,
    /// The whole story of this one node with its remedy, such as a fingerprint; may be empty.
    pub node_remedy: Arc<str>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// No address for the name.
    NameNotFound,
    /// No way to the address.
    Unreachable,
    /// Nobody listens.
    Refused,
    /// Some step took too long.
    TimedOut,
    /// The two sides have no algorithm in common, or the far side speaks no SSH.
    KeyExchange,
    /// The host key stands in no `known_hosts`.
    HostKeyUnknown,
    /// Another host key stands in `known_hosts`.
    HostKeyChanged,
    /// The host key is marked as revoked.
    HostKeyRevoked,
    /// The node did not let us in.
    AuthenticationRefused,
    /// The node asks something that nobody answered.
    PromptUnanswered,
    /// The only usable key needs a passphrase.
    KeyLocked,
    /// `ssh_config` is broken or asks for what gtop cannot do.
    Configuration,
    /// The node opens no (more) channels.
    ChannelRefused,
    /// Neither Python nor `sh` started.
    NoInterpreter,
    /// The node stopped talking.
    Silent,
    /// What the node sent makes no sense.
    BadReply,
    /// The node closed the connection before a word of SSH.
    NoBanner,
    /// The node ends the login for a reason it gives.
    AccountRefused,
    /// The node lets in only who has a job there.
    NoJob,
    /// This machine lets gtop open no more files.
    FileLimit,
    /// The session ended.
    SessionLost,
}

impl Fault {
    /// Makes a fault.
    pub fn new(kind: FaultKind, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, detail: detail.into(), node_remedy: "".into() }
    }

    /// Adds the whole story.
    #[must_use]
    pub fn with_remedy(mut self, node_remedy: impl Into<Arc<str>>) -> Self {
        self.node_remedy = node_remedy.into();
        self
    }

    /// Fills in the node where the remedy speaks of one.
    #[must_use]
    pub fn for_node(self, node: &str) -> Self {
        let remedy = self.kind.remedy();
        if !self.node_remedy.is_empty() || !remedy.contains("HOST") {
            return self;
        }
        self.with_remedy(remedy.replace("HOST", node))
    }

    /// Returns what a person can do about it: the whole story where there is one.
    pub fn remedy(&self) -> &str {
        if self.node_remedy.is_empty() { self.kind.remedy() } else { &self.node_remedy }
    }

    /// Returns the fault as one sentence: what, and the node_remedy.
    pub fn message(&self) -> String {
        if self.detail.is_empty() {
            self.kind.label().to_owned()
        } else {
            format!("{}: {}", self.kind.label(), self.detail)
        }
    }
}

impl FaultKind {
    /// Returns the fault in a few words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NameNotFound => "name not found",
            Self::Unreachable => "unreachable",
            Self::Refused => "connection refused",
            Self::TimedOut => "timed out",
            Self::KeyExchange => "no SSH agreement",
            Self::HostKeyUnknown => "host key unknown",
            Self::HostKeyChanged => "host key changed",
            Self::HostKeyRevoked => "host key revoked",
            Self::AuthenticationRefused => "authentication refused",
            Self::PromptUnanswered => "asks a question",
            Self::KeyLocked => "key needs a passphrase",
            Self::Configuration => "configuration",
            Self::ChannelRefused => "channel refused",
            Self::NoInterpreter => "no interpreter",
            Self::Silent => "silent",
            Self::BadReply => "bad reply",
            Self::NoBanner => "no SSH greeting",
            Self::AccountRefused => "login refused",
            Self::NoJob => "no job of yours there",
            Self::FileLimit => "too many open files here",
            Self::SessionLost => "session lost",
        }
    }

    /// Returns what a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NameNotFound => "check the spelling, or add a Host entry to ~/.ssh/config",
            Self::Unreachable => "check the network and whether the node is up",
            Self::Refused => "check that sshd runs there and that the port is right",
            Self::TimedOut => {
                "the node or the way to it hangs; try ssh by hand, or raise --connect-timeout"
            }
            Self::KeyExchange => "the server is too old or is no SSH server; try ssh -v by hand",
            Self::HostKeyUnknown => "check the fingerprint and run: gtop trust HOST",
            Self::HostKeyChanged => {
                "ask the administrator; if the change is right, remove the old key with ssh-keygen -R"
            }
            Self::HostKeyRevoked => "do not connect; ask the administrator",
            Self::AuthenticationRefused => "check the login name, and load your key with ssh-add",
            Self::PromptUnanswered => "press F5 to be asked, or start gtop again from a terminal",
            Self::KeyLocked => {
                "load it with ssh-add, or start gtop from a terminal and type the passphrase"
            }
            Self::Configuration => "correct ~/.ssh/config; ssh -G HOST shows what it says",
            Self::ChannelRefused => {
                "close other sessions to that node (MaxSessions), or ask the administrator"
            }
            Self::NoInterpreter => "see whether the login shell works: ssh HOST /bin/sh -c true",
            Self::Silent => "look at the node; gtop connects again by itself",
            Self::BadReply => "see what the login files print: ssh HOST true",
            Self::NoBanner => {
                "sshd may take no more connections for now (MaxStartups); gtop connects again by itself"
            }
            Self::AccountRefused => {
                "the node says why; gtop tries again every few minutes, press F5 for at once"
            }
            Self::NoJob => {
                "gtop tries again every few minutes, and at once when it sees a job of yours begin there (gtop --slurm) \
                 or on F5"
            }
            Self::FileLimit => "watch fewer nodes, or raise the limit: ulimit -Hn tells it",
            Self::SessionLost => "gtop connects again by itself",
        }
    }

    /// Says whether trying again can help without anybody doing anything.
    ///
    /// Authentication and host keys are never tried again by themselves: many refused logins get a
    /// whole login node penalised.
    pub const fn retries_by_itself(self) -> bool {
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

/// Why one source of a node gives nothing, while the node itself is up.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFault {
    /// Which kind.
    pub kind: SourceFaultKind,
    /// The call that failed.
    pub call: Arc<str>,
    /// What the driver said, in its words; may be empty.
    pub message: Arc<str>,
    /// For how long, as the probe counted.
    pub duration: Duration,
    /// When the probe said so.
    pub at: Timestamp,
}

/// The kinds of source faults; the wire's error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFaultKind {
    /// The driver is being loaded.
    Starting,
    /// The call does not return.
    Stuck,
    /// What the node tells of itself does not come.
    HostStuck,
    /// The backend's program or library is not there.
    NoLibrary,
    /// The driver does not run.
    NoDriver,
    /// Driver and library are of different versions.
    Mismatch,
    /// Not allowed.
    NoPermission,
    /// A device is gone.
    Lost,
    /// The answer cannot be read.
    Unreadable,
    /// Anything else.
    Failed,
}

impl SourceFaultKind {
    /// Returns the fault in a few words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Stuck | Self::HostStuck => "stuck",
            Self::NoLibrary => "not installed",
            Self::NoDriver => "driver not running",
            Self::Mismatch => "driver and library differ",
            Self::NoPermission => "no permission",
            Self::Lost => "device lost",
            Self::Unreadable => "unreadable answer",
            Self::Failed => "failed",
        }
    }

    /// Returns what a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Starting => "without persistence mode the driver is loaded anew each time",
            Self::Stuck => "the driver hangs; a reset or reboot of the node is likely needed",
            Self::HostStuck => "a file system or a process of the node hangs; see df and ps there",
            Self::NoLibrary => "no NVIDIA tools on this node; a CPU node needs none",
            Self::NoDriver => "load the driver, or ask the administrator",
            Self::Mismatch => "the driver was updated; reload it or reboot the node",
            Self::NoPermission => "ask the administrator for access to the devices",
            Self::Lost => "the device fell off the bus; reboot the node",
            Self::Unreadable | Self::Failed => "run nvidia-smi there by hand",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KINDS: [FaultKind; 21] = [
        FaultKind::NameNotFound,
        FaultKind::Unreachable,
        FaultKind::Refused,
        FaultKind::TimedOut,
        FaultKind::KeyExchange,
        FaultKind::HostKeyUnknown,
        FaultKind::HostKeyChanged,
        FaultKind::HostKeyRevoked,
        FaultKind::AuthenticationRefused,
        FaultKind::PromptUnanswered,
        FaultKind::KeyLocked,
        FaultKind::Configuration,
        FaultKind::ChannelRefused,
        FaultKind::NoInterpreter,
        FaultKind::Silent,
        FaultKind::BadReply,
        FaultKind::NoBanner,
        FaultKind::AccountRefused,
        FaultKind::NoJob,
        FaultKind::FileLimit,
        FaultKind::SessionLost,
    ];

    const SOURCE_KINDS: [SourceFaultKind; 10] = [
        SourceFaultKind::Starting,
        SourceFaultKind::Stuck,
        SourceFaultKind::HostStuck,
        SourceFaultKind::NoLibrary,
        SourceFaultKind::NoDriver,
        SourceFaultKind::Mismatch,
        SourceFaultKind::NoPermission,
        SourceFaultKind::Lost,
        SourceFaultKind::Unreadable,
        SourceFaultKind::Failed,
    ];

    #[test]
    fn each_fault_has_words_and_a_remedy_of_its_own() {
        let labels: BTreeSet<_> = KINDS.into_iter().map(FaultKind::label).collect();
        let remedies: BTreeSet<_> = KINDS.into_iter().map(FaultKind::remedy).collect();
        assert_eq!((labels.len(), remedies.len()), (KINDS.len(), KINDS.len()));
        let labels: BTreeSet<_> = SOURCE_KINDS.into_iter().map(SourceFaultKind::label).collect();
        let remedies: BTreeSet<_> = SOURCE_KINDS.into_iter().map(SourceFaultKind::remedy).collect();
        // Of two that hang, the remedy tells which; of two that cannot be told apart, the words.
        assert_eq!(
            (labels.len(), remedies.len()),
            (SOURCE_KINDS.len() - 1, SOURCE_KINDS.len() - 1)
        );
    }

    #[test]
    fn the_remedy_speaks_of_the_node() {
        let remedy = |fault: Fault| fault.for_node("gpu07").remedy().to_owned();
        let unknown = || Fault::new(FaultKind::HostKeyUnknown, "");
        assert_eq!(remedy(unknown()), "check the fingerprint and run: gtop trust gpu07");
        assert_eq!(remedy(unknown().with_remedy("the whole story")), "the whole story");
        let lost = Fault::new(FaultKind::SessionLost, "why");
        assert_eq!(lost.message(), "session lost: why");
        assert_eq!(remedy(lost), FaultKind::SessionLost.remedy());
        assert_eq!(unknown().message(), "host key unknown");
    }

    #[test]
    fn a_login_that_was_refused_is_not_tried_again_by_itself() {
        let never: Vec<_> = KINDS.into_iter().filter(|kind| !kind.retries_by_itself()).collect();
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
