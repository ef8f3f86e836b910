//! Why a node or a source has no values, with a remedy.

use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;

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

/// How a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// By gtop's built-in SSH.
    Native,
    /// By the ssh program.
    SshProgram,
    /// By a command of the user (`--exec`).
    Exec,
    /// By a step of a Slurm job (`srun`).
    Step,
    /// Locally, without SSH.
    Local,
}

impl TransportKind {
    /// Returns the name used in JSON.
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

/// Why a node is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of fault.
    pub kind: FaultKind,
    /// Details, such as the methods a node offers; may be empty. Equal faults of many nodes are shown once, so it
    /// must not name the node.
    pub detail: Arc<str>,
    /// The explanation and remedy for this node, with details such as its fingerprint; empty if the kind's remedy
    /// applies.
    pub node_remedy: Arc<str>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// No address for the name.
    NameNotFound,
    /// No route to the address.
    Unreachable,
    /// Connection refused: nothing listens on the port.
    Refused,
    /// A connection step timed out.
    TimedOut,
    /// The two sides have no algorithm in common, or the server does not speak SSH.
    KeyExchange,
    /// The host key is in no `known_hosts` file.
    HostKeyUnknown,
    /// `known_hosts` has a different host key.
    HostKeyChanged,
    /// The host key is marked as revoked.
    HostKeyRevoked,
    /// The node refused the login.
    AuthenticationRefused,
    /// The node prompts for input, such as a one-time code, and nobody answered.
    PromptUnanswered,
    /// The only usable key needs a passphrase.
    KeyLocked,
    /// `ssh_config` is invalid or asks for something gtop cannot do.
    Configuration,
    /// The node refuses to open a channel.
    ChannelRefused,
    /// Neither Python nor `sh` could be started.
    NoInterpreter,
    /// The node stopped responding.
    Silent,
    /// The node sent an invalid reply.
    BadReply,
    /// The node closed the connection before its SSH banner.
    NoBanner,
    /// The node ends the session after login, with a message.
    AccountRefused,
    /// The node admits only users with a job there.
    NoJob,
    /// The local limit of open files is reached.
    FileLimit,
    /// The session ended.
    SessionLost,
}

impl Fault {
    /// Makes a fault with its kind's remedy.
    pub fn new(kind: FaultKind, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, detail: detail.into(), node_remedy: "".into() }
    }

    /// Sets the explanation and remedy for this node.
    #[must_use]
    pub fn with_remedy(mut self, node_remedy: impl Into<Arc<str>>) -> Self {
        self.node_remedy = node_remedy.into();
        self
    }

    /// Replaces `HOST` in the kind's remedy by this node.
    #[must_use]
    pub fn for_node(self, node: &str) -> Self {
        let remedy = self.kind.remedy();
        if !self.node_remedy.is_empty() || !remedy.contains("HOST") {
            return self;
        }
        self.with_remedy(remedy.replace("HOST", node))
    }

    /// Returns the remedy: the one for this node, or else its kind's.
    pub fn remedy(&self) -> &str {
        if self.node_remedy.is_empty() { self.kind.remedy() } else { &self.node_remedy }
    }

    /// Returns the fault as one line: `label: detail`.
    pub fn message(&self) -> String {
        if self.detail.is_empty() {
            self.kind.label().to_owned()
        } else {
            format!("{}: {}", self.kind.label(), self.detail)
        }
    }
}

impl FaultKind {
    /// Returns the fault as shown on the screen and in JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NameNotFound => "name not found",
            Self::Unreachable => "unreachable",
            Self::Refused => "connection refused",
            Self::TimedOut => "timed out",
            Self::KeyExchange => "key exchange failed",
            Self::HostKeyUnknown => "host key unknown",
            Self::HostKeyChanged => "host key changed",
            Self::HostKeyRevoked => "host key revoked",
            Self::AuthenticationRefused => "authentication refused",
            Self::PromptUnanswered => "login prompt",
            Self::KeyLocked => "key needs a passphrase",
            Self::Configuration => "configuration",
            Self::ChannelRefused => "channel refused",
            Self::NoInterpreter => "no interpreter",
            Self::Silent => "silent",
            Self::BadReply => "bad reply",
            Self::NoBanner => "no SSH banner",
            Self::AccountRefused => "login refused",
            Self::NoJob => "no job on the node",
            Self::FileLimit => "too many open files here",
            Self::SessionLost => "session lost",
        }
    }

    /// Returns what the user can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NameNotFound => "check the spelling, or add a Host entry to ~/.ssh/config",
            Self::Unreachable => "check the network and whether the node is up",
            Self::Refused => "check that sshd runs there and that the port is right",
            Self::TimedOut => {
                "the node or the network path to it hangs; try ssh by hand, or raise --connect-timeout"
            }
            Self::KeyExchange => "the server is too old or is no SSH server; try ssh -v by hand",
            Self::HostKeyUnknown => "check the fingerprint and run: gtop trust HOST",
            Self::HostKeyChanged => {
                "ask the administrator; if the change is expected, remove the old key with ssh-keygen -R"
            }
            Self::HostKeyRevoked => "do not connect; ask the administrator",
            Self::AuthenticationRefused => "check the login name, and load your key with ssh-add",
            Self::PromptUnanswered => "press F5 to answer it, or start gtop again from a terminal",
            Self::KeyLocked => {
                "load it with ssh-add, or start gtop from a terminal and type the passphrase"
            }
            Self::Configuration => "fix ~/.ssh/config; ssh -G HOST prints the options in effect",
            Self::ChannelRefused => {
                "close other sessions to that node (MaxSessions), or ask the administrator"
            }
            Self::NoInterpreter => "check the login shell: ssh HOST /bin/sh -c true",
            Self::Silent => "look at the node; gtop reconnects automatically",
            Self::BadReply => "check what the login files print: ssh HOST true",
            Self::NoBanner => {
                "sshd may be refusing connections for now (MaxStartups); gtop reconnects automatically"
            }
            Self::AccountRefused => {
                "the node says why; gtop retries every few minutes, or press F5 to retry now"
            }
            Self::NoJob => {
                "gtop retries every few minutes, and at once when a job of yours starts there (gtop --slurm) \
                 or on F5"
            }
            Self::FileLimit => "monitor fewer nodes, or raise the limit (ulimit -Hn shows it)",
            Self::SessionLost => "gtop reconnects automatically",
        }
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
}

/// The kinds of source faults, from the wire's error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFaultKind {
    /// The driver is being loaded.
    Starting,
    /// The call does not return.
    Stuck,
    /// Reading the host's values hangs.
    HostStuck,
    /// The backend's program or library is not installed.
    NoLibrary,
    /// The driver is not running.
    NoDriver,
    /// Driver and library are of different versions.
    Mismatch,
    /// Permission denied.
    NoPermission,
    /// A device is gone.
    Lost,
    /// The output cannot be parsed.
    Unreadable,
    /// Anything else.
    Failed,
}

impl SourceFaultKind {
    /// Returns the fault as shown on the screen and in JSON.
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

    /// Returns what the user can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Starting => "without persistence mode the driver is reloaded each time",
            Self::Stuck => "the driver hangs; a reset or reboot of the node is likely needed",
            Self::HostStuck => {
                "a file system or a process of the node hangs; check df and ps there"
            }
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
    fn each_fault_has_its_own_label_and_remedy() {
        let labels: BTreeSet<_> = KINDS.into_iter().map(FaultKind::label).collect();
        let remedies: BTreeSet<_> = KINDS.into_iter().map(FaultKind::remedy).collect();
        assert_eq!((labels.len(), remedies.len()), (KINDS.len(), KINDS.len()));
        let labels: BTreeSet<_> = SOURCE_KINDS.into_iter().map(SourceFaultKind::label).collect();
        let remedies: BTreeSet<_> = SOURCE_KINDS.into_iter().map(SourceFaultKind::remedy).collect();
        // The two kinds that hang share a label; two kinds share a remedy.
        assert_eq!(
            (labels.len(), remedies.len()),
            (SOURCE_KINDS.len() - 1, SOURCE_KINDS.len() - 1)
        );
    }

    #[test]
    fn a_remedy_names_the_node() {
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
    fn a_refused_login_is_not_retried_automatically() {
        let never: Vec<_> = KINDS.into_iter().filter(|kind| !kind.is_retryable()).collect();
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
