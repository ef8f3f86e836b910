//! Requests to a node about its processes, and the responses.
//!
//! Processes are identified by pid and start time; the node checks both before it responds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::id::ProcessKey;
use crate::process::ProcessState;
use crate::reading::Reading;
use crate::signal::Signal;
use crate::unit::Bytes;

/// A request about the processes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRequest {
    /// Send this signal to this process.
    Signal(ProcessKey, Signal),
    /// Return the environment of this process; only its owner may read it.
    Environment(ProcessKey),
    /// Return this process with its ancestors and descendants; `None` for all that use devices.
    Tree(Option<ProcessKey>),
    /// Return details of this process.
    Detail(ProcessKey),
}

impl ProcessRequest {
    /// All command names a probe may announce.
    pub const COMMANDS: [&'static str; 4] = ["signal", "environ", "tree", "detail"];

    /// Returns the probe's name for the command.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Signal(..) => "signal",
            Self::Environment(_) => "environ",
            Self::Tree(_) => "tree",
            Self::Detail(_) => "detail",
        }
    }
}

/// A successful response.
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

/// The environment a process started with. It often holds secrets, so it is never logged or stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// The variables, in the process's order, without control characters.
    pub variables: Vec<Variable>,
    /// True if the list was truncated.
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
    /// The part before the first `=`.
    pub name: Box<str>,
    /// The part after it.
    pub value: Box<str>,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variable")
    }
}

/// Processes with their ancestors and descendants; a parent comes before its children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessTree {
    /// The processes.
    pub processes: Vec<TreeProcess>,
    /// True if the list was truncated.
    pub is_truncated: bool,
}

/// One process of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeProcess {
    /// Identity.
    pub key: ProcessKey,
    /// Parent process; 0 for none.
    pub parent_pid: u32,
    /// Owner's uid.
    pub uid: Reading<u32>,
    /// Owner's user name.
    pub user: Reading<Arc<str>>,
    /// The kernel's process state.
    pub state: Reading<ProcessState>,
    /// CPU time so far, in clock ticks.
    pub cpu_ticks: Reading<u64>,
    /// Memory in use on the host.
    pub resident: Reading<Bytes>,
    /// Command line.
    pub command: Reading<Arc<str>>,
}

/// Details of one process. Values that only its owner may read are unknown for lack of permission.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessDetail {
    /// The values of a tree row, with a longer command line.
    pub process: TreeProcess,
    /// Number of threads.
    pub threads: Reading<u32>,
    /// Niceness, -20 to 19.
    pub niceness: Reading<i8>,
    /// Virtual memory size.
    pub virtual_memory: Reading<Bytes>,
    /// Peak resident memory.
    pub peak_resident: Reading<Bytes>,
    /// Swapped-out memory.
    pub swapped: Reading<Bytes>,
    /// Voluntary context switches.
    pub voluntary_switches: Reading<u64>,
    /// Involuntary context switches.
    pub involuntary_switches: Reading<u64>,
    /// Working directory.
    pub directory: Reading<Arc<str>>,
    /// Path of the executable.
    pub program: Reading<Arc<str>>,
    /// Control group.
    pub cgroup: Reading<Arc<str>>,
    /// Kernel function it waits in (`/proc/PID/wchan`).
    pub wchan: Reading<Arc<str>>,
    /// Bytes read and written.
    pub io: Reading<IoCounters>,
    /// Resource limits.
    pub limits: Vec<ResourceLimit>,
}

/// Bytes a process has read and written so far (`/proc/PID/io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCounters {
    /// Read by system calls.
    pub read: Bytes,
    /// Written by system calls.
    pub written: Bytes,
    /// Read from storage.
    pub storage_read: Bytes,
    /// Written to storage.
    pub storage_written: Bytes,
}

/// A resource limit of a process, as `/proc/PID/limits` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Name, such as `Max open files`.
    pub name: Arc<str>,
    /// Soft limit, which the process may raise up to the hard limit.
    pub soft: Arc<str>,
    /// Hard limit.
    pub hard: Arc<str>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The node is not monitored.
    #[error("this node is not monitored")]
    UnknownNode,
    /// The node is not connected.
    #[error("the node is not connected; wait until it is up")]
    Down,
    /// The probe does not support the command.
    #[error("the probe on the node cannot do that; it needs Python 3.6 or newer")]
    Unsupported,
    /// The probe runs as root and refuses what changes something.
    #[error("the probe runs as root and only reads; start gtop with --allow-signals")]
    RootReadOnly,
    /// The node is read from a page of metrics.
    #[error(
        "this node is read from a page of metrics, which takes no requests; name the host itself, to watch it over SSH"
    )]
    FromPage,
    /// gtop runs read-only.
    #[error("sending signals is disabled")]
    ReadOnly,
    /// Too many requests are pending.
    #[error("too many requests are pending for this node; wait for their answers")]
    QueueFull,
    /// No response before the deadline.
    #[error("the node did not answer within {} s; try again", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The session ended before the response.
    #[error(
        "the session ended before the answer arrived; the request may have taken effect, check again"
    )]
    SessionLost,
    /// The response does not fit the request.
    #[error("the node sent an invalid answer")]
    Malformed,
    /// The node refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why a node refused a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No process has this pid any more.
    #[error("the process has ended")]
    Gone,
    /// The pid now belongs to another process.
    #[error("the process has ended, and another one has its pid now")]
    Reused,
    /// The process is a zombie.
    #[error("the process is a zombie: its parent has not reaped it yet")]
    Zombie,
    /// Another user's process, or a protected one.
    #[error("not allowed: {0}")]
    NotAllowed(Arc<str>),
    /// Another error, with the node's message.
    #[error("the node says: {0}")]
    Failed(Arc<str>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_omits_environment_values() {
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
    fn errors_name_the_reason_and_the_remedy() {
        let late = RequestError::TimedOut(Duration::from_millis(1500));
        assert_eq!(late.to_string(), "the node did not answer within 1.5 s; try again");
        let refused = RequestError::from(Refusal::NotAllowed("it belongs to another user".into()));
        assert_eq!(refused.to_string(), "not allowed: it belongs to another user");
    }
}
