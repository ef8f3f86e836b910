//! Why a node cannot be reached by SSH.
//!
//! Text from the other side is bounded and stripped of control characters before it gets in here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::fault::Origin;
use crate::process::NotStarted;
use crate::text;

/// The disconnect message of sshd after `MaxAuthTries`.
pub const TOO_MANY_FAILURES: &str = "Too many authentication failures";

/// The phases of opening a connection, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectPhase {
    /// Reads the configuration and the key files.
    Configuration,
    /// Looks up the addresses of the name.
    Name,
    /// Opens the TCP connection, or starts the local program.
    Connection,
    /// Waits for the version line of the SSH server.
    BannerExchange,
    /// Exchanges keys and checks the host key.
    KeyExchange,
    /// Authenticates the user.
    Login,
    /// Opens the channel and starts the command.
    Command,
}

impl ConnectPhase {
    /// Returns what is done in this phase, and the name of its step.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Configuration => ("reading the ssh configuration", "configuration"),
            Self::Name => ("looking up the name", "name"),
            Self::Connection => ("connecting", "connection"),
            Self::BannerExchange => ("waiting for the SSH banner", "banner"),
            Self::KeyExchange => ("exchanging keys", "key exchange"),
            Self::Login => ("logging in", "login"),
            Self::Command => ("starting the command", "channel"),
        }
    }

    /// Returns the name of the phase's step.
    pub const fn step(self) -> &'static str {
        self.texts().1
    }
}

impl fmt::Display for ConnectPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.texts().0)
    }
}

/// What may work after a fault, without the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recourse {
    /// The same again, later.
    Retry,
    /// A master connection, which is authenticated already.
    Master,
    /// A way to the node that needs no login by SSH.
    OtherWay,
}

/// Why a node cannot be reached, or why its session ended.
///
/// The text does not name the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The name has no address.
    #[error("{}not found ({why})", name_prefix(.host.as_deref()))]
    NameNotFound {
        /// The name that was looked up, if it differs from what the user typed.
        host: Option<String>,
        /// The resolver's error.
        why: String,
    },
    /// There is no route to the node.
    #[error("no route to the node ({why})")]
    Unreachable {
        /// The system's error.
        why: String,
    },
    /// The limit of open files is reached on this machine.
    #[error("too many open files on this machine")]
    TooManyOpenFiles,
    /// Nothing listens on the port.
    #[error("connection refused on port {port}")]
    ConnectionRefused {
        /// The port that was tried.
        port: u16,
    },
    /// A phase ran into its timeout.
    #[error("timed out {phase} after {}", seconds_text(.after))]
    TimedOut {
        /// The phase that timed out.
        phase: ConnectPhase,
        /// The timeout.
        after: Duration,
    },
    /// The connection closed, or sent something else, before the SSH version line.
    #[error("no SSH banner on port {port} ({why})")]
    NoBanner {
        /// The port that was tried.
        port: u16,
        /// The error, or what was received instead.
        why: String,
        /// Nothing was received: sshd closes like this under `MaxStartups`, or for penalised addresses.
        is_closed: bool,
    },
    /// The server speaks another version of the SSH protocol.
    #[error("protocol major versions differ: gtop and ssh speak SSH 2.0, the node {version}")]
    OtherProtocol {
        /// The version in its banner.
        version: String,
    },
    /// The two sides have no algorithm in common.
    #[error(
        "no common {kind} algorithm (node offers {}{})",
        join_names(.theirs), ours_text(.ours)
    )]
    NoCommonAlgorithm {
        /// The kind of algorithm.
        kind: &'static str,
        /// What gtop offers; empty if the ssh program failed.
        ours: Vec<String>,
        /// What the node offers.
        theirs: Vec<String>,
    },
    /// No `known_hosts` file has a key of this host.
    #[error("host key of {host} unknown ({algorithm} {fingerprint})")]
    HostKeyUnknown {
        /// The name a `known_hosts` file would hold.
        host: String,
        /// The algorithm of the node's key.
        algorithm: String,
        /// Its fingerprint, as `ssh-keygen -l` prints it.
        fingerprint: String,
    },
    /// No `known_hosts` file has a key of this host, and the configuration names none to keep one in.
    #[error(
        "host key of {host} unknown ({algorithm} {fingerprint}), and UserKnownHostsFile names no file that keeps it"
    )]
    HostKeyNotKept {
        /// The name a `known_hosts` file would hold.
        host: String,
        /// The algorithm of the node's key.
        algorithm: String,
        /// Its fingerprint.
        fingerprint: String,
    },
    /// The host certificate is not valid, and its plain key is not known.
    #[error(
        "certificate of {host} {why}, and its key ({algorithm} {fingerprint}) is not in known_hosts"
    )]
    HostCertificateRefused {
        /// The name a `known_hosts` file would hold.
        host: String,
        /// The rest of a sentence that starts with "certificate of HOST".
        why: String,
        /// The algorithm of the node's key.
        algorithm: String,
        /// Its fingerprint.
        fingerprint: String,
    },
    /// The node's key differs from the known one.
    #[error(transparent)]
    HostKeyChanged(Box<HostKeyChange>),
    /// The key of the node is marked `@revoked`.
    #[error("host key of {host} ({algorithm} {fingerprint}) is revoked in {at}")]
    HostKeyRevoked {
        /// The name in the `known_hosts` file.
        host: String,
        /// The algorithm of the node's key.
        algorithm: String,
        /// Its fingerprint.
        fingerprint: String,
        /// The line that revokes it, or the whole file when it has no lines.
        at: Origin,
    },
    /// The node accepts none of the user's credentials.
    #[error("authentication refused for {user} (node offers: {}; tried: {})", join_names(.offers), join_names(.tried))]
    AuthenticationRefused {
        /// The user name on the node.
        user: String,
        /// The methods the node offers.
        offers: Vec<String>,
        /// The keys that were offered, or why none was.
        tried: Vec<String>,
    },
    /// The node disconnected after too many unknown keys.
    #[error(
        "node closed the connection after it refused {} of {user}{}",
        key_count_text(*.offered), untried_text(*.untried)
    )]
    TooManyKeys {
        /// The user name on the node.
        user: String,
        /// How many were offered, if known.
        offered: Option<usize>,
        /// How many were not offered yet.
        untried: usize,
    },
    /// The node accepted one method and requires another that gtop does not support.
    #[error(
        "login of {user} accepted so far, but the node also requires {}",
        join_names(.required)
    )]
    MoreAuthenticationRequired {
        /// The user name on the node.
        user: String,
        /// The methods the node requires next.
        required: Vec<String>,
    },
    /// The node accepts only passwords.
    #[error("node accepts only a password for {user}, and gtop never sends one")]
    PasswordOnly {
        /// The user name on the node.
        user: String,
    },
    /// Nobody answered the node's keyboard-interactive prompt.
    #[error("login prompt for {user} not answered ({}): {why}", tried_text(.tried))]
    PromptUnanswered {
        /// The user name on the node.
        user: String,
        /// The credentials tried before.
        tried: Vec<String>,
        /// Why nobody answered.
        why: UnansweredReason,
    },
    /// The only remaining key cannot be used.
    #[error("{} {problem}", .file.display())]
    KeyUnusable {
        /// The file.
        file: PathBuf,
        /// Why it is not used.
        problem: KeyFileProblem,
        /// The methods the node offers.
        offers: Vec<String>,
    },
    /// The only remaining key is encrypted and its passphrase is not known.
    #[error("{} is encrypted and its passphrase is not known", .file.display())]
    KeyEncrypted {
        /// The file.
        file: PathBuf,
    },
    /// The agent does not answer and there is no other key.
    #[error("the ssh agent at {} does not answer ({why}) and there is no other key", .socket.display())]
    AgentUnreachable {
        /// Its socket.
        socket: PathBuf,
        /// The system's error.
        why: String,
    },
    /// The node refused to open a session channel.
    #[error("node refused a session ({why})")]
    ChannelRefused {
        /// The node's reason.
        why: String,
    },
    /// The node refused to run the command.
    #[error("node refused to run a command")]
    CommandRefused,
    /// The configuration sets options that only the ssh program supports.
    #[error("the ssh configuration sets {options}, which only the ssh program supports")]
    NeedsSshProgram {
        /// The options, as spelt in `ssh_config`.
        options: String,
    },
    /// gtop supports none of the algorithms that an option lists.
    #[error(
        "{option} in the ssh configuration lists no algorithm gtop supports (it supports {})",
        join_names(.known)
    )]
    UnsupportedAlgorithms {
        /// The option, as spelt in `ssh_config`.
        option: &'static str,
        /// The algorithms gtop supports.
        known: Vec<String>,
    },
    /// A fault of a gateway, not of the node behind it.
    #[error("via {gateway}: {fault}")]
    AtGateway {
        /// The gateway, as `ProxyJump` names it.
        gateway: String,
        /// The fault.
        fault: Box<Self>,
    },
    /// The gateway works but cannot connect to the node.
    #[error("gateway {gateway} cannot reach the node: {why}")]
    GatewayCannotReach {
        /// The gateway, as `ProxyJump` names it.
        gateway: String,
        /// The gateway's error.
        why: String,
    },
    /// The gateway refuses to forward: at all, to this node, or beyond its limit.
    #[error("gateway {gateway} refuses to forward to the node: {why}")]
    GatewayForwardingRefused {
        /// The gateway, as `ProxyJump` names it.
        gateway: String,
        /// The gateway's error.
        why: String,
    },
    /// The `ProxyCommand` failed.
    #[error("ProxyCommand failed: {why}")]
    ProxyCommandFailed {
        /// The command, tokens expanded.
        command: String,
        /// Its last line of stderr, or its exit status.
        why: String,
        /// It is an ssh whose connection was closed before the version line.
        is_closed: bool,
    },
    /// The ssh program failed.
    #[error("{}: ssh says: {message}", cause.text())]
    SshProgram {
        /// Why.
        cause: SshProgramCause,
        /// The line of stderr that says so.
        message: String,
    },
    /// The configuration or the target is invalid.
    #[error("bad configuration: {why}")]
    BadConfiguration {
        /// What is wrong; the message of `ssh` if it found it.
        why: String,
    },
    /// The node closed the login of a known user with a message.
    #[error("node refused the login of {user}: {message}")]
    AccountRefused {
        /// The user name on the node.
        user: String,
        /// The node's message.
        message: String,
    },
    /// The node admits only users with a running job on it ([`JOB_GATE`]).
    #[error("the node admits only users with a running job on it ({message})")]
    JobRequired {
        /// The line of stderr that says so.
        message: String,
    },
    /// The connection was lost while it was being opened.
    #[error("connection lost while {phase} ({why})")]
    ConnectionLost {
        /// The phase it was lost in.
        phase: ConnectPhase,
        /// The error.
        why: String,
    },
    /// The session was lost after it had been open.
    #[error("session lost ({why})")]
    SessionLost {
        /// The error.
        why: String,
    },
    /// The local program cannot be started.
    #[error(transparent)]
    ProgramNotFound(#[from] NotStarted),
}

/// Why a keyboard-interactive prompt was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnansweredReason {
    /// There is no terminal.
    #[error("there is no terminal")]
    NoTerminal,
    /// An authenticated `ControlMaster` connection exists.
    #[error("a master connection is open and needs no answer")]
    MasterOpen,
    /// Prompts are not shown at the moment.
    #[error("prompts are shown only at start")]
    PromptsClosed,
    /// The host key has changed and was accepted only because of `StrictHostKeyChecking no`.
    #[error("the host key has changed")]
    ChangedHostKey,
    /// The user skipped it.
    #[error("skipped")]
    Skipped,
    /// The node disconnected before the answer.
    #[error("the node closed the connection first")]
    HungUp,
    /// One request had this many prompts.
    #[error("it has {0} prompts, more than gtop accepts")]
    TooManyPrompts(usize),
    /// The node keeps prompting.
    #[error("the node repeats it without end")]
    TooManyRounds,
}

/// Why the ssh program failed, where its message has no fault of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshProgramCause {
    /// The host key is unknown.
    HostKeyUnknown,
    /// The host key is revoked.
    HostKeyRevoked,
    /// Its configuration is invalid.
    Configuration,
    /// Anything else.
    Other,
}

impl SshProgramCause {
    /// Returns the cause as a short text.
    const fn text(self) -> &'static str {
        match self {
            Self::HostKeyUnknown => "host key unknown",
            Self::HostKeyRevoked => "host key revoked",
            Self::Configuration => "bad configuration",
            Self::Other => "the ssh program ended",
        }
    }
}

/// Why a key file is not used; reads on after the file name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileProblem {
    /// It is readable by others; ssh would not use it either.
    #[error("is readable by others and is ignored")]
    Unprotected,
    /// `PubkeyAcceptedAlgorithms` excludes its algorithm.
    #[error("is a {0} key, which PubkeyAcceptedAlgorithms excludes")]
    AlgorithmExcluded(String),
    /// It is an RSA key of so many bits, fewer than `RequiredRSASize`.
    #[error("is an RSA key of {0} bits, shorter than RequiredRSASize")]
    TooShort(u32),
}

/// The entry of `tried` when there was no key.
pub const NO_KEY: &str = "no key to offer";

/// A changed host key: the known one and the node's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "host key of {host} has changed: someone could be eavesdropping on you right now (man-in-the-middle attack), \
     or the host key has just been changed; {at} has {known}, the node offers {algorithm} {fingerprint}"
)]
pub struct HostKeyChange {
    /// The name in the `known_hosts` file.
    pub host: String,
    /// The line with the old key.
    pub at: Origin,
    /// The algorithm and fingerprint of the key in the file.
    pub known: String,
    /// The algorithm of the node's key.
    pub algorithm: String,
    /// The fingerprint of the node's key.
    pub fingerprint: String,
}

impl Fault {
    /// Returns the step that the fault belongs to, if it is always the same one, and what may work after it.
    ///
    /// Network faults are transient. Authentication, host key and configuration faults are not: another attempt
    /// could lock the account, or get this machine's address penalised for everybody on it.
    const fn facts(&self) -> (Option<&'static str>, &'static [Recourse]) {
        use Recourse::{Master, OtherWay, Retry};
        let (step, recourses): (_, &[Recourse]) = match self {
            Self::NameNotFound { .. } => ("name", &[Retry]),
            Self::Unreachable { .. } | Self::TooManyOpenFiles => ("connection", &[Retry]),
            Self::ConnectionRefused { .. } => ("connection", &[Retry, OtherWay]),
            Self::NoBanner { .. } | Self::OtherProtocol { .. } => ("banner", &[Retry]),
            Self::NoCommonAlgorithm { .. } => ("key exchange", &[]),
            Self::HostKeyUnknown { .. }
            | Self::HostKeyNotKept { .. }
            | Self::HostCertificateRefused { .. }
            | Self::HostKeyChanged(_)
            | Self::HostKeyRevoked { .. } => ("host key", &[]),
            Self::PromptUnanswered { .. }
            | Self::KeyEncrypted { .. }
            | Self::AgentUnreachable { .. } => ("login", &[Master]),
            Self::AuthenticationRefused { .. }
            | Self::TooManyKeys { .. }
            | Self::MoreAuthenticationRequired { .. }
            | Self::PasswordOnly { .. }
            | Self::KeyUnusable { .. } => ("login", &[Master, OtherWay]),
            Self::JobRequired { .. } | Self::AccountRefused { .. } => {
                ("login", &[Retry, Master, OtherWay])
            }
            Self::ChannelRefused { .. } => ("channel", &[Retry]),
            Self::CommandRefused => ("channel", &[]),
            Self::NeedsSshProgram { .. }
            | Self::UnsupportedAlgorithms { .. }
            | Self::BadConfiguration { .. } => ("configuration", &[]),
            Self::AtGateway { fault, .. } => ("route", fault.facts().1),
            Self::GatewayCannotReach { .. } | Self::ProxyCommandFailed { .. } => {
                ("route", &[Retry])
            }
            Self::GatewayForwardingRefused { .. } => ("route", &[]),
            Self::SshProgram { cause, .. } => match cause {
                SshProgramCause::Other => ("ssh program", &[Retry]),
                SshProgramCause::HostKeyUnknown
                | SshProgramCause::HostKeyRevoked
                | SshProgramCause::Configuration => ("ssh program", &[]),
            },
            Self::ProgramNotFound(_) => ("ssh program", &[]),
            // Some nodes that admit only users with a job close the connection without a message.
            Self::ConnectionLost {
                phase: phase @ (ConnectPhase::Login | ConnectPhase::Command),
                ..
            } => (phase.step(), &[Retry, OtherWay]),
            Self::TimedOut { phase, .. } | Self::ConnectionLost { phase, .. } => {
                (phase.step(), &[Retry])
            }
            Self::SessionLost { .. } => return (None, &[Retry]),
        };
        (Some(step), recourses)
    }

    /// Returns the name of the step that the fault belongs to; `None` for any.
    pub const fn step(&self) -> Option<&'static str> {
        self.facts().0
    }

    /// Returns true if this may work after the fault, without the user.
    pub fn permits(&self, recourse: Recourse) -> bool {
        self.facts().1.contains(&recourse)
    }

    /// Returns true if the node lets the user in by a password or a code only, or by one beside a key.
    pub fn needs_password(&self) -> bool {
        let root = self.root();
        let is_asked_for = matches!(root, Self::MoreAuthenticationRequired { .. });
        matches!(root, Self::PasswordOnly { .. }) || (is_asked_for && self.is_solved_by_login())
    }

    /// Returns true if the user can log in with the ssh program, which asks for what is missing.
    pub fn is_solved_by_login(&self) -> bool {
        let root = self.root();
        if let Self::AuthenticationRefused { offers, .. }
        | Self::KeyUnusable { offers, .. }
        | Self::MoreAuthenticationRequired { required: offers, .. } = root
        {
            return offers
                .iter()
                .any(|offer| offer == "password" || offer == "keyboard-interactive");
        }
        matches!(
            root,
            Self::PasswordOnly { .. }
                | Self::PromptUnanswered { .. }
                | Self::KeyEncrypted { .. }
                | Self::AgentUnreachable { .. }
                | Self::HostKeyUnknown { .. }
                | Self::HostKeyNotKept { .. }
                | Self::SshProgram { cause: SshProgramCause::HostKeyUnknown, .. }
        )
    }

    /// Returns the fault of a session that ended with an error of the system.
    pub fn session_lost(error: &std::io::Error) -> Self {
        Self::SessionLost { why: text::io_error(error) }
    }

    /// Returns true if the server did not finish the first steps in time.
    pub fn is_slow_banner(&self) -> bool {
        use ConnectPhase::{BannerExchange, KeyExchange};
        matches!(self.root(), Self::TimedOut { phase: BannerExchange | KeyExchange, .. })
    }

    /// Returns true if there was no key to offer.
    pub fn had_no_key(&self) -> bool {
        matches!(self, Self::AuthenticationRefused { tried, .. } if tried.iter().any(|key| key == NO_KEY))
    }

    /// Returns the fault without the gateways it happened at.
    pub fn root(&self) -> &Self {
        let Self::AtGateway { fault, .. } = self else { return self };
        fault.root()
    }

    /// Returns the gateway that the fault happened at.
    pub fn gateway(&self) -> Option<&str> {
        let Self::AtGateway { gateway, fault } = self else { return None };
        fault.gateway().or(Some(gateway))
    }

    /// Wraps the fault as one of a gateway.
    #[must_use]
    pub fn at_gateway(self, gateway: &str) -> Self {
        Self::AtGateway { gateway: gateway.to_owned(), fault: Box::new(self) }
    }
}

/// What admits only users with a job to a node.
pub const JOB_GATE: &str = "pam_slurm_adopt";

/// Recognises the message of a node with it, which denies the login of users without a job.
pub fn job_required(text: Option<&str>) -> Option<Fault> {
    let mut lines = text?.lines().map(str::trim_end);
    let line = lines.find(|line| line.contains("denied by pam_slurm"))?;
    Some(Fault::JobRequired { message: text::excerpt_line(line) })
}

fn name_prefix(host: Option<&str>) -> String {
    host.map_or_else(|| "name ".to_owned(), |host| format!("name {host} "))
}

/// Lists names for a sentence.
pub fn join_names(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn ours_text(ours: &[String]) -> String {
    if ours.is_empty() { String::new() } else { format!("; gtop supports {}", join_names(ours)) }
}

fn key_count_text(offered: Option<usize>) -> String {
    offered.map_or_else(|| "several keys".to_owned(), |offered| format!("{offered} keys"))
}

fn untried_text(untried: usize) -> String {
    if untried == 0 { String::new() } else { format!(", with {untried} more untried") }
}

fn tried_text(tried: &[String]) -> String {
    if tried.is_empty() {
        return "keyboard-interactive".to_owned();
    }
    format!("keyboard-interactive, after {}", tried.join("; "))
}

/// Returns a time in seconds, with one decimal if it is no whole number of them.
pub fn seconds_text(time: &Duration) -> String {
    if time.subsec_millis() == 0 {
        return format!("{} s", time.as_secs());
    }
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_text_has_no_capital_and_no_full_stop() {
        let faults = [
            Fault::NameNotFound { host: None, why: "name or service not known".to_owned() },
            Fault::ConnectionRefused { port: 22 },
            Fault::TimedOut { phase: ConnectPhase::BannerExchange, after: Duration::from_secs(10) },
            Fault::KeyEncrypted { file: PathBuf::from("/home/ada/.ssh/id_ed25519") },
            Fault::CommandRefused,
        ];
        for fault in faults {
            let text = fault.to_string();
            assert!(!text.ends_with('.'), "{text}");
            assert!(!text.starts_with(|c: char| c.is_uppercase()), "{text}");
        }
    }

    #[test]
    fn only_transient_faults_permit_a_retry() {
        assert!(Fault::ConnectionRefused { port: 22 }.permits(Recourse::Retry));
        assert!(Fault::SessionLost { why: String::new() }.permits(Recourse::Retry));
        let refused = Fault::AuthenticationRefused {
            user: "ada".to_owned(),
            offers: vec!["hostbased".to_owned(), "password".to_owned()],
            tried: Vec::new(),
        };
        assert!(!refused.permits(Recourse::Retry));
    }
}
