//! What somebody asks a node about its processes, and what comes back.
//!
//! Processes are named by pid and start time, and the node checks that before it tells or does anything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::model::id::ProcessKey;
use crate::model::process::ProcessState;
use crate::model::reading::Reading;
use crate::model::signal::Signal;
use crate::model::unit::Bytes;

/// Something a person wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRequest {
    /// Send this signal to this process.
    Signal(ProcessKey, Signal),
    /// The environment of this process; its owner may see it.
    Environment(ProcessKey),
    /// This process, all above and all below it; `None` for those that use devices.
    Tree(Option<ProcessKey>),
    /// More of this process.
    Detail(ProcessKey),
}

impl ProcessRequest {
    /// Every word by which a probe knows a question.
    pub const COMMANDS: [&'static str; 4] = ["signal", "environ", "tree", "detail"];

    /// Returns the word by which a probe knows it.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Signal(..) => "signal",
            Self::Environment(_) => "environ",
            Self::Tree(_) => "tree",
            Self::Detail(_) => "detail",
        }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessResponse {
    /// The signal was sent.
    Sent,
    /// The environment.
    Environment(Environment),
    /// The tree.
    Tree(ProcessTree),
    /// Details.
    Detail(Box<ProcessDetail>),
}

/// The environment a process began with. It often holds secrets: it is shown to who asked and is written nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its variables, in the process's order, without control characters.
    pub variables: Vec<Variable>,
    /// There is more than an answer holds.
    pub is_truncated: bool,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}

/// One variable of an environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Variable {
    /// What stands before the first `=`.
    pub name: Box<str>,
    /// What stands behind it.
    pub value: Box<str>,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variable")
    }
}

/// Processes with those above and below them; a parent stands before its children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessTree {
    /// The processes.
    pub processes: Vec<TreeProcess>,
    /// There are more below than an answer holds.
    pub is_truncated: bool,
}

/// One process of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeProcess {
    /// Identity.
    pub key: ProcessKey,
    /// Its parent; 0 for none.
    pub parent_pid: u32,
    /// Owner's number.
    pub uid: Reading<u32>,
    /// Owner's name.
    pub user: Reading<Arc<str>>,
    /// What it is doing.
    pub state: Reading<ProcessState>,
    /// CPU time so far, in clock ticks.
    pub cpu_ticks: Reading<u64>,
    /// Memory in use on the host.
    pub resident: Reading<Bytes>,
    /// Command line.
    pub command: Reading<Arc<str>>,
}

/// More of one process. What only its owner may know has no permission as its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessDetail {
    /// What a tree tells of it too, with a longer command line.
    pub process: TreeProcess,
    /// Threads it has.
    pub threads: Reading<u32>,
    /// Niceness, -20 to 19.
    pub niceness: Reading<i8>,
    /// Addresses it has virtual_memory.
    pub virtual_memory: Reading<Bytes>,
    /// Memory at most in use on the host so far.
    pub peak_resident: Reading<Bytes>,
    /// Memory that was swapped out.
    pub swapped: Reading<Bytes>,
    /// Times it gave its processor away.
    pub voluntary_switches: Reading<u64>,
    /// Times its processor was taken from it.
    pub involuntary_switches: Reading<u64>,
    /// Working directory.
    pub directory: Reading<Arc<str>>,
    /// The program's file.
    pub program: Reading<Arc<str>>,
    /// Control group.
    pub cgroup: Reading<Arc<str>>,
    /// What of the kernel it waits in.
    pub wchan: Reading<Arc<str>>,
    /// What it read and wrote.
    pub io: Reading<IoCounters>,
    /// What it may use.
    pub limits: Vec<ResourceLimit>,
}

/// Bytes a process read and wrote in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCounters {
    /// By calls, from whatever.
    pub read: Bytes,
    /// By calls, to whatever.
    pub written: Bytes,
    /// From storage.
    pub storage_read: Bytes,
    /// To storage.
    pub storage_written: Bytes,
}

/// What a process may use of something, in the kernel's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Of what.
    pub name: Arc<str>,
    /// How much; it may raise this itself.
    pub soft: Arc<str>,
    /// How far it may.
    pub hard: Arc<str>,
}

/// Why there is no answer, or not the one that was hoped for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nobody watches it.
    #[error("no such node is watched")]
    UnknownNode,
    /// There is no session.
    #[error("there is no session with the node; wait until it is up")]
    Down,
    /// What runs there cannot do it.
    #[error("the probe on the node cannot do that; it needs Python 3.6 or newer there")]
    Unsupported,
    /// gtop is to change nothing.
    #[error("gtop was told to send no signals")]
    ReadOnly,
    /// They would pile up.
    #[error("too many questions wait for this node already; wait for their answers")]
    QueueFull,
    /// It took too long.
    #[error("the node did not answer within {} s; try again", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The session ended meanwhile.
    #[error("the session ended before the answer came, so it may have been done; look again")]
    SessionLost,
    /// It is no answer to this question.
    #[error("the node's answer makes no sense")]
    Malformed,
    /// The node did not do it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why a node did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No process has this pid any more.
    #[error("the process has ended")]
    Gone,
    /// The pid is there, the start time is another.
    #[error("the process has ended, and another one has its pid now")]
    Reused,
    /// It has ended, but is still there.
    #[error("the process has ended already; its parent has not collected it yet")]
    Zombie,
    /// Somebody else's, or one that must not be touched.
    #[error("not allowed: {0}")]
    NotAllowed(Arc<str>),
    /// Something else, in the node's words.
    #[error("the node says: {0}")]
    Failed(Arc<str>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_keeps_its_values_out_of_every_log() {
        let variable = Variable { name: "API_KEY".into(), value: "hunter2".into() };
        let shown = format!("{variable:?}");
        let environment = Environment { variables: vec![variable], is_truncated: false };
        let shown = format!(
            "{shown} {environment:?} {:?}",
            ProcessResponse::Environment(environment.clone())
        );
        assert!(!shown.contains("hunter2") && !shown.contains("API_KEY"), "{shown}");
        assert!(shown.contains("1 variables"), "{shown}");
    }

    #[test]
    fn what_went_wrong_is_a_sentence() {
        let late = RequestError::TimedOut(Duration::from_millis(1500));
        assert_eq!(late.to_string(), "the node did not answer within 1.5 s; try again");
        let refused = RequestError::from(Refusal::NotAllowed("it belongs to another user".into()));
        assert_eq!(refused.to_string(), "not allowed: it belongs to another user");
    }
}
