//! What can be wrong with a simulated node's session, as data.

use std::time::Duration;

/// What is wrong with one node. All spans count from the start of a session, but for
/// [`InjectedFault::Reboot`], which counts from the start of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Nobody listens at the port.
    RefusedPort,
    /// The port is open and says nothing, not even its version.
    SilentPort,
    /// No key is let in; the node offers hostbased only.
    RefuseAuth,
    /// [`crate::sim::SimNode::host_key`] is `None`: the user has never seen this node.
    UnknownHostKey,
    /// The node shows another host key than [`crate::sim::SimNode::host_key`].
    ChangedHostKey,
    /// The channel opens, and the request to run something gets no answer.
    NeverAnswerExec,
    /// The command runs, and no nonce comes.
    NoNonce,
    /// The login shell prints a line and ends before the command runs.
    LoginExits,
    /// There is no Python: the node announces `NOPY` and reads `sh`.
    NoPython,
    /// Login files print before the nonce, and something prints between frames.
    BannerNoise,
    /// The nonce comes and nothing after it.
    Silent,
    /// The hello is of schema version 2.
    WrongVersion,
    /// Of sample number `number` only the first half comes, with no end of line.
    CutFrame {
        /// The sample.
        number: u64,
    },
    /// Sample number `number` is lost on its way.
    LostFrame {
        /// The sample.
        number: u64,
    },
    /// Every third sample is no JSON, or no text.
    Garbage,
    /// Before sample number `number` comes a line of 2 MiB.
    HugeLine {
        /// The sample.
        number: u64,
    },
    /// The probe goes quiet and comes back, again and again; the session stays.
    Stall {
        /// For how long it talks.
        after: Duration,
        /// For how long it is quiet.
        lasting: Duration,
    },
    /// The connection is cut, with no goodbye.
    DropSession {
        /// For how long it lives.
        after: Duration,
    },
    /// A frame takes a second to come: it dribbles.
    SlowFrames,
    /// The way to us fills up: from then on everything comes late.
    Lag {
        /// From when on.
        after: Duration,
        /// By how much.
        by: Duration,
    },
    /// The driver hangs while the host goes on.
    StuckBackend {
        /// From when on.
        after: Duration,
    },
    /// Questions get no answer.
    NoAnswers,
    /// Around each answer stand others: under ids nobody asked with, senseless, huge, full of control
    /// characters, and the same once more.
    CorruptAnswers,
    /// The node boots: the connection is cut, and the next boot id is another one.
    Reboot {
        /// When.
        after: Duration,
    },
}
