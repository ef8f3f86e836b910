//! Why a node or a source has no values, with a remedy.

use std::sync::Arc;
use std::time::Duration;

use crate::model::declare::table;
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

table! {
    /// How a node is reached.
    pub enum TransportKind {
        /// By gtop's built-in SSH.
        Native = "native",
        /// By the ssh program.
        SshProgram = "ssh",
        /// By a command of the user (`--exec`).
        Exec = "exec",
        /// By a step of a Slurm job (`srun`).
        Step = "srun",
        /// Locally, without SSH.
        Local = "local",
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
    /// The explanation and remedy for this node, with details such as its fingerprint; empty if the kind's remedy
    /// applies.
    pub node_remedy: Arc<str>,
    /// The node offers no login with a key.
    pub is_keyless: bool,
}

table! {
    /// The kinds of faults.
    #[derive(PartialOrd, Ord)]
    pub enum FaultKind {
        /// No address for the name.
        NameNotFound =
            ("name not found", "check the spelling, or add a Host entry to ~/.ssh/config"),
        /// No route to the address.
        Unreachable = ("unreachable", "check the network and whether the node is up"),
        /// Connection refused: nothing listens on the port.
        Refused = ("connection refused", "check that sshd runs there and that the port is right"),
        /// A connection step timed out.
        TimedOut = (
            "timed out",
            "the node or the network path to it hangs; try ssh by hand, or raise --connect-timeout",
        ),
        /// The two sides have no algorithm in common, or the server does not speak SSH.
        KeyExchange = (
            "key exchange failed",
            "the server is too old or is no SSH server; try ssh -v by hand",
        ),
        /// The host key is in no `known_hosts` file.
        HostKeyUnknown = ("host key unknown", "check the fingerprint and run: gtop trust HOST"),
        /// `known_hosts` has a different host key.
        HostKeyChanged = (
            "host key changed",
            "ask the administrator; if the change is expected, remove the old key with ssh-keygen -R",
        ),
        /// The host key is marked as revoked.
        HostKeyRevoked = ("host key revoked", "do not connect; ask the administrator"),
        /// The node refused the login.
        AuthenticationRefused =
            ("authentication refused", "check the login name, and load your key with ssh-add"),
        /// The node prompts for input, such as a one-time code, and nobody answered.
        PromptUnanswered =
            ("login prompt", "press R to answer it, or start gtop again from a terminal"),
        /// The only usable key needs a passphrase.
        KeyLocked = (
            "key needs a passphrase",
            "load it with ssh-add, or start gtop from a terminal and type the passphrase",
        ),
        /// `ssh_config` is invalid or asks for something gtop cannot do.
        Configuration =
            ("configuration", "fix ~/.ssh/config; ssh -G HOST prints the options in effect"),
        /// The node refuses to open a channel.
        ChannelRefused = (
            "channel refused",
            "close other sessions to that node (MaxSessions), or ask the administrator",
        ),
        /// Neither Python nor `sh` could be started.
        NoInterpreter = ("no interpreter", "check the login shell: ssh HOST /bin/sh -c true"),
        /// The node stopped responding.
        Silent = ("silent", "look at the node; gtop reconnects automatically"),
        /// The node sent an invalid reply.
        BadReply = ("bad reply", "check what the login files print: ssh HOST true"),
        /// The node closed the connection before its SSH banner.
        NoBanner = (
            "no SSH banner",
            "sshd may be refusing connections for now (MaxStartups); gtop reconnects automatically",
        ),
        /// The node ends the session after login, with a message.
        AccountRefused = (
            "login refused",
            "the node says why; gtop retries every few minutes, or press R to retry now",
        ),
        /// The node admits only users with a job there.
        NoJob = (
            "no job on the node",
            "gtop retries every few minutes, and at once when a job of yours starts there (gtop --slurm) \
             or on R",
        ),
        /// The local limit of open files is reached.
        FileLimit = (
            "too many open files here",
            "monitor fewer nodes, or raise the limit (ulimit -Hn shows it)",
        ),
        /// The session ended.
        SessionLost = ("session lost", "gtop reconnects automatically"),
    }
    /// All of them.
    pub const ALL;
    fn texts -> (&'static str, &'static str);
}

/// What to do about a node that offers no login with a key.
const KEYLESS_REMEDY: &str = "check the login name; a key cannot help, --ssh-binary may";

impl Fault {
    /// Makes a fault with its kind's remedy.
    pub fn new(kind: FaultKind, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, detail: detail.into(), node_remedy: "".into(), is_keyless: false }
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

    /// Returns the remedy: the one for this node, or else the one for all nodes with this fault.
    pub fn remedy(&self) -> &str {
        if self.node_remedy.is_empty() { self.common_remedy() } else { &self.node_remedy }
    }

    /// Returns the remedy for all nodes with this fault.
    pub const fn common_remedy(&self) -> &'static str {
        if self.is_keyless { KEYLESS_REMEDY } else { self.kind.remedy() }
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
        self.texts().0
    }

    /// Returns what the user can do about it.
    pub const fn remedy(self) -> &'static str {
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

    /// Returns what has happened, in plain words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NameNotFound => "no name server knows an address for this name",
            Self::Unreachable => {
                "the network has no way to the node: it may be off, or the network down"
            }
            Self::Refused => {
                "the node is up, but nothing listens on the port: sshd does not run there"
            }
            Self::TimedOut => {
                "the node did not answer in time: it may be off, overloaded or behind a firewall"
            }
            Self::KeyExchange => "what answers there and gtop have no way of encryption in common",
            Self::HostKeyUnknown => {
                "gtop cannot tell whether this is the right node: its key is not known yet"
            }
            Self::HostKeyChanged => {
                "the node shows another key than before: it was reinstalled, or it is another machine"
            }
            Self::HostKeyRevoked => "the key of the node is marked as no longer to be trusted",
            Self::AuthenticationRefused => "the node answers, but does not accept the login",
            Self::PromptUnanswered => "the node asks a question at login, such as a one-time code",
            Self::KeyLocked => {
                "the key for the login is encrypted, and nobody has typed its passphrase"
            }
            Self::Configuration => "the ssh configuration of this machine cannot be used as it is",
            Self::ChannelRefused => "the login works, but the node opens no further session",
            Self::NoInterpreter => {
                "the login works, but the node starts neither Python nor a shell for gtop"
            }
            Self::Silent => "the connection is open, but nothing comes through it any more",
            Self::BadReply => "something else than gtop's probe answers after the login",
            Self::NoBanner => {
                "the node accepts the connection and closes it before saying anything"
            }
            Self::AccountRefused => "the login is right, but the node sends this account away",
            Self::NoJob => "the node lets in only users with a job there, and you have none now",
            Self::FileLimit => "this machine, where gtop runs, allows no more open files",
            Self::SessionLost => {
                "the connection ended: the node may have restarted, or the network failed"
            }
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
    /// The driver's number of the error, where it has one.
    pub code: Option<u32>,
}

table! {
    /// The kinds of source faults, from the wire's error codes.
    pub enum SourceFaultKind {
        /// The driver is being loaded.
        Starting = ("starting", "without persistence mode the driver is reloaded each time"),
        /// The call takes longer than it usually does.
        Slow = ("slow", "wait: it may yet answer, and gtop goes on when it does"),
        /// A driver that is loaded has not answered for long, and may yet.
        Unanswered =
            ("maybe stuck", "wait a minute: a driver that has not answered by then hangs"),
        /// The call does not return: the kernel does not let go of it, or it has not answered for a minute.
        Stuck = ("stuck", "the driver hangs; a reset or reboot of the node is likely needed"),
        /// Reading the host's values hangs.
        HostStuck =
            ("stuck", "a file system or a process of the node hangs; check df and ps there"),
        /// The backend's program or library is not installed.
        NoLibrary = ("not installed", "no NVIDIA tools on this node; a CPU node needs none"),
        /// The driver is not running.
        NoDriver = ("driver not running", "load the driver, or ask the administrator"),
        /// The driver does not start, for another reason.
        NoStart = (
            "driver does not start",
            "dmesg there tells why; reload the driver or reboot the node",
        ),
        /// Driver and library are of different versions.
        Mismatch =
            ("driver and library differ", "the driver was updated; reload it or reboot the node"),
        /// Permission denied.
        NoPermission = ("no permission", "ask the administrator for access to the devices"),
        /// A device is gone.
        Lost = ("device lost", "the device fell off the bus; reboot the node"),
        /// The driver answers and has no device.
        NoDevices = (
            "no devices found",
            "dmesg there tells why the driver finds none; reload it or reboot the node",
        ),
        /// The output cannot be parsed.
        Unreadable = ("unreadable answer", "run nvidia-smi there by hand"),
        /// Anything else.
        Failed = ("failed", "run nvidia-smi there by hand"),
    }
    /// All kinds.
    #[cfg(test)]
    pub const ALL;
    fn texts -> (&'static str, &'static str);
}

impl SourceFault {
    /// Returns true unless it likely ends by itself: the driver is being loaded, or is slow.
    pub fn is_problem(&self) -> bool {
        !matches!(self.kind, SourceFaultKind::Starting | SourceFaultKind::Slow)
    }
}

impl SourceFaultKind {
    /// Returns true if it says how long a call takes.
    pub const fn is_duration(self) -> bool {
        matches!(
            self,
            Self::Starting | Self::Slow | Self::Unanswered | Self::Stuck | Self::HostStuck
        )
    }

    /// Returns the fault as shown on the screen and in JSON.
    pub const fn label(self) -> &'static str {
        self.texts().0
    }

    /// Returns what the user can do about it.
    pub const fn remedy(self) -> &'static str {
        self.texts().1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_fault_has_its_own_label_and_remedy() {
        let all = FaultKind::ALL;
        let labels: BTreeSet<_> = all.into_iter().map(FaultKind::label).collect();
        let remedies: BTreeSet<_> = all.into_iter().map(FaultKind::remedy).collect();
        assert_eq!((labels.len(), remedies.len()), (all.len(), all.len()));
        let all = SourceFaultKind::ALL;
        let labels: BTreeSet<_> = all.into_iter().map(SourceFaultKind::label).collect();
        let remedies: BTreeSet<_> = all.into_iter().map(SourceFaultKind::remedy).collect();
        // The two kinds that hang share a label; two kinds share a remedy.
        assert_eq!((labels.len(), remedies.len()), (all.len() - 1, all.len() - 1));
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
