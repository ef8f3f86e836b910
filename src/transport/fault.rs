//! Why a node cannot be reached, in words a tired person can act on.
//!
//! Every text that came from the other side is bounded and freed of control
//! characters before it gets in here.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::{harmless, is_unprintable};

/// Longest text taken from another machine or program into a fault.
const MAX_QUOTE: usize = 200;

/// What `open` is doing, and what a timeout interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectPhase {
    /// Reads the configuration and the key files.
    Configuration,
    /// Looks up the addresses of the name.
    Name,
    /// Opens the TCP connection, or starts the local program.
    Connection,
    /// Waits for the first line of the SSH server.
    Greeting,
    /// Exchanges keys and checks the host key.
    KeyExchange,
    /// Proves who the user is.
    Login,
    /// Opens the channel and starts the command.
    Command,
}

impl fmt::Display for ConnectPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "reading the ssh configuration",
            Self::Name => "looking up the name",
            Self::Connection => "connecting",
            Self::Greeting => "waiting for the SSH greeting",
            Self::KeyExchange => "exchanging keys",
            Self::Login => "logging in",
            Self::Command => "starting the command",
        })
    }
}

impl ConnectPhase {
    fn remedy(self) -> &'static str {
        match self {
            Self::Configuration => "try ssh -G by hand; a Match exec line may hang",
            Self::Name => "check the name service",
            Self::Connection => "the node may be down, or a firewall drops the packets",
            Self::Greeting => "something listens there but does not answer; sshd may hang",
            Self::KeyExchange => "the node may be overloaded, or the path loses large packets",
            Self::Login => "the directory service of the node may hang",
            Self::Command => "the node may be overloaded, or its file system hangs",
        }
    }
}

/// Why a node cannot be reached, or why its session ended.
///
/// The sentence does not name the node, so that equal faults of many nodes fold
/// into one line; [`Fault::headline`] leaves out what differs from node to node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The name has no address.
    #[error("{}not found ({why}); check the spelling, or set HostName in ~/.ssh/config", name_prefix(.host.as_deref()))]
    NameNotFound {
        /// The name that was looked up, when it is not what the user typed.
        host: Option<String>,
        /// What the name service says.
        why: String,
    },
    /// The network has no way to the node.
    #[error("no route to the node ({why}); check that it is up and on this network")]
    Unreachable {
        /// What the kernel says.
        why: String,
    },
    /// This machine lets gtop open no more files, and a connection is one.
    #[error(
        "too many open files on this machine; watch fewer nodes, or raise the limit (ulimit -Hn tells it)"
    )]
    TooManyOpenFiles,
    /// Nothing listens on the port.
    #[error(
        "connection refused on port {port}; check that sshd runs there, or set Port in ~/.ssh/config"
    )]
    ConnectionRefused {
        /// The port that was tried.
        port: u16,
    },
    /// A step took too long.
    #[error("timed out {step} after {}; {}", seconds(.after), step.remedy())]
    TimedOut {
        /// The step that did not end.
        step: ConnectPhase,
        /// How long it was given.
        after: Duration,
    },
    /// The connection ended, or said something else, before the SSH greeting.
    #[error(
        "no SSH greeting on port {port} ({why}); sshd may be refusing new connections, or this is not an SSH port"
    )]
    NotSsh {
        /// The port that was tried.
        port: u16,
        /// What came instead.
        why: String,
        /// Nothing came: sshd closes so when too many connections are begun at once, or keeps an address off.
        is_closed: bool,
    },
    /// The two sides have no algorithm in common.
    #[error(
        "no common {kind} algorithm (node offers {}; gtop knows {}); the sshd there is too old or locked down",
        list(.theirs), list(.ours)
    )]
    NoCommonAlgorithm {
        /// What kind of algorithm.
        kind: &'static str,
        /// What we offer.
        ours: Vec<String>,
        /// What the node offers.
        theirs: Vec<String>,
    },
    /// No `known_hosts` file has a key of this host.
    #[error(
        "host key of {host} unknown ({algorithm} {fingerprint}); check it, then accept it with gtop trust"
    )]
    HostKeyUnknown {
        /// The name a `known_hosts` file would hold.
        host: String,
        /// The kind of key the node shows.
        algorithm: String,
        /// Its fingerprint, as `ssh-keygen -l` prints it.
        fingerprint: String,
    },
    /// The certificate of the node does not count, and its key is not known by itself.
    #[error(
        "certificate of {host} {why}, and its key ({algorithm} {fingerprint}) is not known by itself; \
         ask the administrator for a new certificate, or accept the key with gtop trust"
    )]
    HostCertificateRefused {
        /// The name a `known_hosts` file would hold.
        host: String,
        /// What is wrong with it, to be read behind "certificate".
        why: String,
        /// The kind of key the node shows.
        algorithm: String,
        /// Its fingerprint.
        fingerprint: String,
    },
    /// The node shows another key than the one that is known.
    #[error(transparent)]
    HostKeyChanged(Box<HostKeyChange>),
    /// The key of the node is marked `@revoked`.
    #[error("host key of {host} ({algorithm} {fingerprint}) is revoked in {}{}; do not connect, ask the administrator", .file.display(), line_suffix(*.line))]
    HostKeyRevoked {
        /// The name in the `known_hosts` file.
        host: String,
        /// The kind of key the node shows.
        algorithm: String,
        /// Its fingerprint.
        fingerprint: String,
        /// The file that revokes it.
        file: PathBuf,
        /// The line that revokes it, counted from 1, when the file has lines.
        line: Option<usize>,
    },
    /// The node does not let the user in.
    #[error("authentication refused for {user} (node offers: {}; tried: {})", list(.offers), list(.tried))]
    AuthenticationRefused {
        /// The user name on the node.
        user: String,
        /// The methods the node would accept.
        offers: Vec<String>,
        /// The keys we showed, or why we showed none.
        tried: Vec<String>,
    },
    /// The node hung up because so many keys were none it knows.
    #[error(
        "node hung up after {} of {user} that it does not know{}; show it the right one first: \
         set IdentityFile and IdentitiesOnly yes for it in ~/.ssh/config", key_count(*.shown), keys_not_tried(*.left)
    )]
    TooManyKeys {
        /// The user name on the node.
        user: String,
        /// How many it was shown, where that is known.
        shown: Option<usize>,
        /// How many were left to show.
        left: usize,
    },
    /// The node took a proof and wants another that gtop does not give.
    #[error(
        "login of {user} accepted so far, but the node also wants {}, which gtop does not give; try --ssh-binary with a ControlMaster connection",
        list(.wants)
    )]
    MoreAuthenticationRequired {
        /// The user name on the node.
        user: String,
        /// What the node wants next.
        wants: Vec<String>,
    },
    /// The node takes passwords and nothing else.
    #[error(
        "node takes only a password for {user}, and gtop sends none; set up a key with ssh-copy-id, or use --ssh-binary with a ControlMaster connection"
    )]
    PasswordOnly {
        /// The user name on the node.
        user: String,
    },
    /// The node asks something that nobody answered.
    #[error("node asks {user} a question ({}) {why}", tried_text(.tried))]
    Unanswered {
        /// The user name on the node.
        user: String,
        /// What was shown before.
        tried: Vec<String>,
        /// Why nobody answered.
        why: UnansweredReason,
    },
    /// The only key left cannot be shown as it is.
    #[error("{} {flaw}", .file.display())]
    KeyUnusable {
        /// The key file.
        file: PathBuf,
        /// What is wrong with it.
        flaw: KeyFileProblem,
        /// The methods the node would accept.
        offers: Vec<String>,
    },
    /// The only key left is encrypted and nobody gave its passphrase.
    #[error("{} is encrypted and has no passphrase here; start gtop from a terminal, or ssh-add it", .file.display())]
    KeyEncrypted {
        /// The key file.
        file: PathBuf,
    },
    /// The agent does not answer and there is no other key.
    #[error("the ssh agent at {} does not answer ({why}) and there is no other key; start one, or set IdentityFile", .socket.display())]
    AgentUnreachable {
        /// Its socket.
        socket: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// The node refused the session channel.
    #[error("node refused a session ({why}); MaxSessions of its sshd may be too low")]
    ChannelRefused {
        /// The reason it gave.
        why: String,
    },
    /// The node refused to run the command.
    #[error("node refused to run a command; the account there may be restricted")]
    CommandRefused,
    /// The configuration asks for something that only the ssh program can do.
    #[error(
        "the ssh configuration asks for {options}, which only the ssh program can do; \
         use --transport auto or --transport ssh"
    )]
    NeedsSshProgram {
        /// The options, spelt as in `ssh_config`.
        options: String,
    },
    /// An option names algorithms, and none of them is one gtop has.
    #[error(
        "{option} in the ssh configuration names nothing gtop has (it has {}); \
         use --transport auto or --transport ssh", list(.known)
    )]
    UnsupportedAlgorithms {
        /// The option, spelt as in `ssh_config`.
        option: &'static str,
        /// What gtop has.
        known: Vec<String>,
    },
    /// Something is wrong with a gateway, not with the node behind it.
    #[error("by way of {gateway}: {fault}")]
    AtGateway {
        /// The gateway, as `ProxyJump` names it.
        gateway: String,
        /// What is wrong there.
        fault: Box<Self>,
    },
    /// The gateway is well and cannot connect to the node.
    #[error(
        "gateway {gateway} cannot reach it: {why}; check that the node is up and that sshd runs there"
    )]
    GatewayCannotReach {
        /// The gateway, as `ProxyJump` names it.
        gateway: String,
        /// What the gateway says.
        why: String,
    },
    /// The gateway does not forward connections, not to this node, or no more of them.
    #[error(
        "gateway {gateway} does not forward to it: {why}; its sshd may have AllowTcpForwarding no \
         or a PermitOpen list"
    )]
    GatewayForwardingRefused {
        /// The gateway, as `ProxyJump` names it.
        gateway: String,
        /// What the gateway says.
        why: String,
    },
    /// The command of `ProxyCommand` does not lead to the node.
    #[error("ProxyCommand does not lead there: {why}; run it by hand: {command}")]
    ProxyCommandFailed {
        /// The command, tokens expanded.
        command: String,
        /// What it printed, or how it ended.
        why: String,
        /// It is an ssh that a server closed on before its greeting.
        is_closed: bool,
    },
    /// The ssh program cannot reach the node, for a reason it gives.
    #[error("{}: ssh says: {says}; {}", cause.words(), cause.remedy())]
    SshProgram {
        /// Which kind of reason.
        cause: SshProgramCause,
        /// The line that says so.
        says: String,
    },
    /// The command of the user's does not lead to the node.
    #[error("{program} does not lead there: {says}; run the command of --exec by hand")]
    ExecFailed {
        /// The program.
        program: String,
        /// The last line it printed, or how it ended.
        says: String,
    },
    /// The configuration, or the target itself, is wrong.
    #[error("bad configuration: {why}")]
    BadConfiguration {
        /// What is wrong, in the words of `ssh` where it found it.
        why: String,
    },
    /// The node knows the user and ends the login all the same, for a reason it gives.
    #[error("node does not let {user} in: {says}")]
    AccountRefused {
        /// The user name on the node.
        user: String,
        /// What it said.
        says: String,
    },
    /// The node lets in only who has a job there.
    #[error(
        "the node lets in only who has a job there ({says}); if one of yours runs there: gtop --slurm --transport srun"
    )]
    JobRequired {
        /// The line that says so.
        says: String,
    },
    /// The connection broke while it was being made.
    #[error("connection lost while {step} ({why})")]
    ConnectionLost {
        /// The step it broke in.
        step: ConnectPhase,
        /// What went wrong.
        why: String,
    },
    /// The session broke after it had been open.
    #[error("session lost ({why})")]
    SessionLost {
        /// What went wrong.
        why: String,
    },
    /// The step of a job that leads to the node did not begin, or has ended.
    #[error("{}{}; {}", cause.words(), parenthesised(.says), cause.remedy())]
    SlurmStep {
        /// Why.
        cause: StepCause,
        /// What Slurm says; may be empty.
        says: String,
    },
    /// The local program cannot be started.
    #[error("cannot start {program} ({why}); check that it is installed")]
    ProgramNotFound {
        /// The program.
        program: String,
        /// What the kernel says.
        why: String,
    },
}

/// Why nobody answered a node's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnansweredReason {
    /// There is nobody to ask.
    #[error("and there is no terminal to answer it; start gtop from one, or log in with a key")]
    NoTerminal,
    /// A master connection that was logged in to before is there.
    #[error("that nobody has to answer while a master connection is open")]
    MasterOpen,
    /// Questions are not put at the moment.
    #[error("after those of the start were put; press F5 to be asked, or start gtop again")]
    PromptsClosed,
    /// The host key is not the known one, and was let pass by the configuration.
    #[error("and shows a changed host key; check that key, then correct known_hosts")]
    ChangedHostKey,
    /// The user skipped it.
    #[error("that was skipped; press F5 to be asked again, or start gtop again")]
    Skipped,
    /// The node did not wait, or broke.
    #[error("and hung up before the end; press F5 to be asked again, or start gtop again")]
    HungUp,
    /// It asks so many things at once.
    #[error("with {0} parts, which no login needs; try ssh by hand")]
    TooManyPrompts(usize),
    /// It never stops asking.
    #[error("again and again; try ssh by hand")]
    TooManyRounds,
}

/// What the ssh program can fail at, where it does not say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshProgramCause {
    /// It knows no key of the host.
    HostKeyUnknown,
    /// It knows the key as revoked.
    HostKeyRevoked,
    /// It cannot read its configuration.
    Configuration,
    /// Anything else.
    Other,
}

impl SshProgramCause {
    const fn words(self) -> &'static str {
        match self {
            Self::HostKeyUnknown => "host key unknown",
            Self::HostKeyRevoked => "host key revoked",
            Self::Configuration => "bad configuration",
            Self::Other => "the ssh program ended",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::HostKeyUnknown => "check it, then accept it with gtop trust, or with ssh by hand",
            Self::HostKeyRevoked => "do not connect, ask the administrator",
            Self::Configuration => "correct it; ssh -G shows what it says",
            Self::Other => "try the same ssh by hand",
        }
    }
}

/// Why a step of ours in a job leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepCause {
    /// This Slurm lets other steps wait for ours.
    SlurmTooOld,
    /// No job of the user's is known on the node.
    NoJob,
    /// The job does not run, or is not there any more.
    NotRunning,
    /// Slurm refuses it.
    Refused,
    /// The job, or the step alone, was cancelled.
    Cancelled,
    /// The job was cancelled.
    JobCancelled,
    /// Another job took the place of the job.
    Preempted,
    /// The job has used its time.
    TimeLimit,
    /// A node of the job failed.
    NodeFailed,
    /// It cannot begin now.
    Busy,
    /// The controller does not answer.
    ControllerUnreachable,
    /// The task on this node has ended, others go on.
    TaskEnded,
    /// The running step does not serve this node.
    NotInStep,
    /// The job did not lead to the node, and another one on it is tried.
    TryingOtherJob,
    /// It was ended for another one that serves more nodes.
    Restarted,
    /// The node has not joined the step yet.
    NotJoined,
    /// Anything else.
    Other,
}

impl StepCause {
    /// Returns the cause in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::SlurmTooOld => "with this Slurm your own steps would wait for gtop's",
            Self::NoJob => "no running job of yours is known on the node",
            Self::NotRunning => "the job does not run any more",
            Self::Refused => "Slurm refuses gtop a step in the job",
            Self::Cancelled => "the job or gtop's step in it was cancelled",
            Self::JobCancelled => "the job was cancelled",
            Self::Preempted => "the job was preempted",
            Self::TimeLimit => "the job has used up its time",
            Self::NodeFailed => "a node of the job failed",
            Self::Busy => "Slurm cannot begin gtop's step now",
            Self::ControllerUnreachable => "the Slurm controller does not answer",
            Self::TaskEnded => "the probe's task ended",
            Self::NotInStep => "the node waits for gtop's next step in the job",
            Self::TryingOtherJob => "another job of yours on the node is tried",
            Self::Restarted => "gtop's step was begun anew for another node",
            Self::NotJoined => "the node has not joined gtop's step yet",
            Self::Other => "srun ended",
        }
    }

    /// Returns what a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::SlurmTooOld => "reach the nodes by ssh; srun serves from Slurm 22.05 on",
            Self::NoJob => "--transport srun reaches nodes of running jobs that are your own",
            Self::NotRunning | Self::TimeLimit | Self::JobCancelled | Self::Preempted => {
                "nothing is wrong with gtop"
            }
            Self::Refused => "is the job yours? try srun --overlap --jobid=JOB hostname by hand",
            Self::Cancelled => "a new step is begun if the job runs on",
            Self::NodeFailed => "look at sinfo -R; a new step is begun for the others",
            Self::Busy | Self::Other => {
                "gtop tries again; try srun --overlap --jobid=JOB hostname by hand"
            }
            Self::ControllerUnreachable => "gtop tries again; see scontrol ping",
            Self::TaskEnded | Self::NotInStep => {
                "the other nodes of the job are not interrupted for it; start gtop again for a new step"
            }
            Self::Restarted | Self::TryingOtherJob => "gtop connects again by itself",
            Self::NotJoined => {
                "it comes by itself once its task has started; else start gtop again"
            }
        }
    }
}

/// Why a key file is not used, to be read behind its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileProblem {
    /// Others than its owner may read it; ssh would not use it either.
    #[error("can be read by others, and is not used")]
    Unprotected,
    /// The configuration leaves out keys of its kind.
    #[error("is a key of kind {0}, which PubkeyAcceptedAlgorithms leaves out")]
    AlgorithmExcluded(String),
}

impl KeyFileProblem {
    /// Returns what a person can do about a file with this flaw.
    pub fn remedy(&self, file: &Path) -> String {
        match self {
            Self::Unprotected => format!("chmod 600 {}", file.display()),
            Self::AlgorithmExcluded(kind) => {
                format!("add {kind} to PubkeyAcceptedAlgorithms in the ssh configuration")
            }
        }
    }
}

/// What stands among the keys that were tried when there was none.
pub(super) const NO_KEY: &str = "no key to show";

/// The key a node shows, and the other one it is known by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "host key of {host} has changed: someone could be eavesdropping on you right now (man-in-the-middle attack), \
     or the host key has just been changed; {}:{line} has {known}, the node shows {algorithm} {shown}; \
     if that is right, remove the old one with ssh-keygen -f {} -R '{host}'", .file.display(), .file.display()
)]
pub struct HostKeyChange {
    /// The name in the `known_hosts` file.
    pub host: String,
    /// The file with the old key.
    pub file: PathBuf,
    /// Its line, counted from 1.
    pub line: usize,
    /// The kind and the fingerprint of the key in the file.
    pub known: String,
    /// The kind of key the node shows.
    pub algorithm: String,
    /// The fingerprint of the key the node shows.
    pub shown: String,
}

impl Fault {
    /// Returns whether a step in another job may lead to the node all the same.
    pub(super) const fn is_job_specific(&self) -> bool {
        let Self::SlurmStep { cause, .. } = self else { return false };
        match cause {
            StepCause::NotRunning
            | StepCause::Refused
            | StepCause::Cancelled
            | StepCause::JobCancelled
            | StepCause::Preempted
            | StepCause::TimeLimit
            | StepCause::NodeFailed
            | StepCause::Busy
            | StepCause::TaskEnded
            | StepCause::NotInStep
            | StepCause::Other => true,
            StepCause::SlurmTooOld
            | StepCause::NoJob
            | StepCause::ControllerUnreachable
            | StepCause::Restarted
            | StepCause::TryingOtherJob
            | StepCause::NotJoined => false,
        }
    }

    /// Returns whether trying again later, without a person, makes sense.
    ///
    /// Network faults pass by themselves. Authentication, host keys and
    /// configuration do not: another try could lock the account, or get this
    /// machine's address penalised for everybody on it.
    pub fn retries_by_itself(&self) -> bool {
        match self {
            Self::NameNotFound { .. }
            | Self::Unreachable { .. }
            | Self::TooManyOpenFiles
            | Self::ConnectionRefused { .. }
            | Self::TimedOut { .. }
            | Self::NotSsh { .. }
            | Self::ChannelRefused { .. }
            | Self::GatewayCannotReach { .. }
            | Self::ProxyCommandFailed { .. }
            | Self::SshProgram { cause: SshProgramCause::Other, .. }
            | Self::JobRequired { .. }
            | Self::AccountRefused { .. }
            | Self::ExecFailed { .. }
            | Self::ConnectionLost { .. }
            | Self::SessionLost { .. } => true,
            Self::SlurmStep { cause, .. } => {
                !matches!(cause, StepCause::SlurmTooOld | StepCause::Refused)
            }
            Self::AtGateway { fault, .. } => fault.retries_by_itself(),
            Self::NoCommonAlgorithm { .. }
            | Self::HostKeyUnknown { .. }
            | Self::HostCertificateRefused { .. }
            | Self::HostKeyChanged(_)
            | Self::HostKeyRevoked { .. }
            | Self::AuthenticationRefused { .. }
            | Self::TooManyKeys { .. }
            | Self::MoreAuthenticationRequired { .. }
            | Self::PasswordOnly { .. }
            | Self::Unanswered { .. }
            | Self::KeyUnusable { .. }
            | Self::KeyEncrypted { .. }
            | Self::AgentUnreachable { .. }
            | Self::CommandRefused
            | Self::GatewayForwardingRefused { .. }
            | Self::NeedsSshProgram { .. }
            | Self::UnsupportedAlgorithms { .. }
            | Self::SshProgram { .. }
            | Self::BadConfiguration { .. }
            | Self::ProgramNotFound { .. } => false,
        }
    }

    /// Makes a fault of a step, with what Slurm says.
    pub(super) fn step(cause: StepCause, says: &str) -> Self {
        Self::SlurmStep { cause, says: says.to_owned() }
    }

    /// Returns the fault of a node that has not come to its step yet.
    pub fn late() -> Self {
        Self::step(StepCause::NotJoined, "")
    }

    /// Returns whether there was no key to show at all.
    pub fn had_no_key(&self) -> bool {
        matches!(self, Self::AuthenticationRefused { tried, .. } if tried.iter().any(|key| key == NO_KEY))
    }

    /// Returns the fault itself, whichever gateway it happened at.
    pub fn root(&self) -> &Self {
        let Self::AtGateway { fault, .. } = self else { return self };
        fault.root()
    }

    /// Returns the same fault as one of a gateway.
    #[must_use]
    pub fn at_gateway(self, gateway: &str) -> Self {
        Self::AtGateway { gateway: gateway.to_owned(), fault: Box::new(self) }
    }

    /// Returns the few words that are the same for every node with this fault.
    pub fn headline(&self) -> Cow<'static, str> {
        match self {
            Self::NameNotFound { .. } => "name not found".into(),
            Self::Unreachable { .. } => "no route".into(),
            Self::TooManyOpenFiles => "too many open files here".into(),
            Self::ConnectionRefused { .. } => "connection refused".into(),
            Self::TimedOut { step, .. } => format!("timed out {step}").into(),
            Self::NotSsh { .. } => "no SSH greeting".into(),
            Self::NoCommonAlgorithm { kind, .. } => format!("no common {kind} algorithm").into(),
            Self::HostKeyUnknown { .. } => "host key unknown".into(),
            Self::HostCertificateRefused { .. } => "host certificate refused".into(),
            Self::HostKeyChanged(_) => "host key changed".into(),
            Self::HostKeyRevoked { .. } => "host key revoked".into(),
            Self::AuthenticationRefused { offers, .. } => {
                format!("authentication refused (node offers: {})", list(offers)).into()
            }
            Self::TooManyKeys { .. } => "too many keys shown".into(),
            Self::MoreAuthenticationRequired { wants, .. } => {
                format!("node also wants {}", list(wants)).into()
            }
            Self::PasswordOnly { .. } => "node takes only a password".into(),
            Self::Unanswered { .. } => "node asks a question".into(),
            Self::KeyUnusable { flaw: KeyFileProblem::Unprotected, .. } => {
                "key can be read by others".into()
            }
            Self::KeyUnusable { flaw: KeyFileProblem::AlgorithmExcluded(kind), .. } => {
                format!("PubkeyAcceptedAlgorithms leaves out {kind}").into()
            }
            Self::KeyEncrypted { .. } => "key is encrypted".into(),
            Self::AgentUnreachable { .. } => "ssh agent does not answer".into(),
            Self::ChannelRefused { .. } => "session refused".into(),
            Self::CommandRefused => "command refused".into(),
            Self::NeedsSshProgram { options } => format!("needs ssh for {options}").into(),
            Self::UnsupportedAlgorithms { option, .. } => format!("no known {option}").into(),
            Self::AtGateway { gateway, fault } => {
                format!("by way of {gateway}: {}", fault.headline()).into()
            }
            Self::GatewayCannotReach { gateway, .. } => {
                format!("gateway {gateway} cannot reach it").into()
            }
            Self::GatewayForwardingRefused { gateway, .. } => {
                format!("gateway {gateway} does not forward to it").into()
            }
            Self::ProxyCommandFailed { .. } => "ProxyCommand failed".into(),
            Self::SshProgram { cause, .. } => cause.words().into(),
            Self::ExecFailed { program, .. } => format!("{program} failed").into(),
            Self::BadConfiguration { .. } => "bad configuration".into(),
            Self::JobRequired { .. } => "no job there".into(),
            Self::AccountRefused { says, .. } => format!("login refused: {says}").into(),
            Self::ConnectionLost { step, .. } => format!("connection lost while {step}").into(),
            Self::SessionLost { .. } => "session lost".into(),
            Self::SlurmStep { cause, .. } => cause.words().into(),
            Self::ProgramNotFound { .. } => "program not found".into(),
        }
    }
}

/// Returns foreign text on one line, without control characters and bounded.
pub(super) fn sanitize_line(text: &str) -> String {
    sanitize(text.trim_matches(|c: char| c.is_whitespace() || is_unprintable(c)), MAX_QUOTE)
}

/// Returns `text` with control and invisible characters as spaces, at most
/// `limit` characters of it.
pub(super) fn sanitize(text: &str, limit: usize) -> String {
    let mut kept: String = harmless(text).take(limit).collect();
    if text.chars().nth(limit).is_some() {
        kept.push('…');
    }
    kept
}

/// Returns what the operating system says, without Rust's error number.
pub(super) fn io_error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(text);
    let mut letters = sanitize_line(text).chars().collect::<Vec<_>>();
    if let [first, second, ..] = letters.as_mut_slice()
        && second.is_lowercase()
    {
        *first = first.to_ascii_lowercase();
    }
    letters.into_iter().collect()
}

fn parenthesised(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

fn name_prefix(host: Option<&str>) -> String {
    host.map_or_else(|| "name ".to_owned(), |host| format!("name {host} "))
}

fn line_suffix(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(":{line}"))
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

fn key_count(shown: Option<usize>) -> String {
    shown.map_or_else(|| "so many keys".to_owned(), |shown| format!("{shown} keys"))
}

fn keys_not_tried(left: usize) -> String {
    if left == 0 { String::new() } else { format!(", before it was shown {left} more") }
}

fn tried_text(tried: &[String]) -> String {
    if tried.is_empty() {
        return "keyboard-interactive".to_owned();
    }
    format!("keyboard-interactive, after {}", tried.join("; "))
}

fn seconds(time: &Duration) -> String {
    if time.subsec_millis() == 0 {
        return format!("{} s", time.as_secs());
    }
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_reach_the_terminal_as_commands() {
        assert_eq!(sanitize_line("hi\x1b[2Jthere\r\n"), "hi [2Jthere");
        assert_eq!(sanitize_line("a\u{202e}b\u{9b}c\u{7f}"), "a b c");
        assert_eq!(sanitize_line(&"x".repeat(300)).chars().count(), 201);
    }

    #[test]
    fn a_sentence_has_no_capital_and_no_full_stop() {
        let faults = [
            Fault::NameNotFound { host: None, why: "name or service not known".to_owned() },
            Fault::ConnectionRefused { port: 22 },
            Fault::TimedOut { step: ConnectPhase::Greeting, after: Duration::from_secs(10) },
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
    fn only_what_passes_by_itself_is_retried() {
        assert!(Fault::ConnectionRefused { port: 22 }.retries_by_itself());
        assert!(Fault::SessionLost { why: String::new() }.retries_by_itself());
        let refused = Fault::AuthenticationRefused {
            user: "ada".to_owned(),
            offers: vec!["hostbased".to_owned(), "password".to_owned()],
            tried: Vec::new(),
        };
        assert!(!refused.retries_by_itself());
        assert_eq!(refused.headline(), "authentication refused (node offers: hostbased, password)");
    }

    #[test]
    fn an_operating_system_error_reads_as_a_phrase() {
        let error = std::io::Error::from_raw_os_error(113);
        assert_eq!(io_error_text(&error), "no route to host");
    }
}
