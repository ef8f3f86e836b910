//! Faults that can be injected into a simulated node.

use std::time::Duration;

/// The fault of a node. Durations count from the start of a session, except for
/// [`InjectedFault::Reboot`], which counts from the start of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The port is closed.
    RefusedPort,
    /// The port accepts connections but sends nothing, not even a version.
    SilentPort,
    /// No key is accepted; the node offers hostbased only.
    RefuseAuth,
    /// [`crate::sim::SimNode::host_key`] is `None`: the user has never seen this node.
    UnknownHostKey,
    /// The node shows another host key than [`crate::sim::SimNode::host_key`].
    ChangedHostKey,
    /// The channel opens, but the exec request is never answered.
    NeverAnswerExec,
    /// The command runs, but never announces the nonce.
    NoNonce,
    /// The login shell takes this long to start the command.
    SlowShell {
        /// How long it takes.
        after: Duration,
    },
    /// A login file reads its input to the end before the command runs.
    ReadsInput,
    /// The login shell prints a line and exits before the command runs.
    LoginExits,
    /// The node has no Python: it announces `NOPY` and reads the sh probe.
    NoPython,
    /// Text is printed before the nonce and between frames.
    BannerNoise,
    /// Nothing follows the nonce.
    Silent,
    /// The hello has schema version 2.
    WrongVersion,
    /// Sample `number` is truncated to its first half, without a newline.
    CutFrame { number: u64 },
    /// Sample `number` is lost.
    LostFrame { number: u64 },
    /// Every third sample is not JSON or not UTF-8.
    Garbage,
    /// A line of 2 MiB precedes sample `number`.
    HugeLine { number: u64 },
    /// The probe stops sending and resumes, repeatedly; the session stays open.
    Stall {
        /// How long it sends.
        after: Duration,
        /// How long it is silent.
        lasting: Duration,
    },
    /// The connection is cut without a bye.
    DropSession {
        /// Lifetime of the connection.
        after: Duration,
    },
    /// A frame arrives in small pieces over a second.
    SlowFrames,
    /// From then on, all frames arrive late.
    Lag {
        /// When it starts.
        after: Duration,
        /// The delay.
        by: Duration,
    },
    /// The driver hangs; host metrics continue.
    StuckBackend {
        /// When it starts.
        after: Duration,
    },
    /// Process requests are not answered.
    NoAnswers,
    /// Each answer is surrounded by others: with unknown ids, malformed, huge, with control characters, and
    /// a duplicate.
    CorruptAnswers,
    /// The node reboots: the connection is cut and the boot id changes.
    Reboot {
        /// Time of the reboot.
        after: Duration,
    },
}
