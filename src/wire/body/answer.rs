//! The JSON of a probe's answers to commands.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::wire::raw::Raw;

/// The answer to one command.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Id of the command; required.
    pub id: u64,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// One of `ok sent gone reused zombie refused failed bad`; required.
    pub result: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The `errno` of the failure.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub errno: Raw<u64>,
    /// True if the answer was truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// `NAME=value`; contains secrets, so it must never be logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environ: Option<Vec<String>>,
    /// Processes, each parent before its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Vec<TreeRow>>,
    /// Details of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields may contain secrets.
        f.debug_struct("Answer")
            .field("id", &self.id)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

/// One process of a process tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeRow {
    /// Process id; required.
    pub pid: u32,
    /// Parent process id; required.
    pub ppid: u32,
    /// Start time in ticks since boot; required.
    pub start: u64,
    /// Owner's uid.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uid: Raw<u64>,
    /// Owner's user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The kernel's state letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// CPU time so far, in ticks.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub cpu: Raw<u64>,
    /// Bytes of resident memory.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub rss: Raw<u64>,
    /// Command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Details of one process; `null` if not permitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// The same values as in a tree.
    #[serde(flatten)]
    pub row: TreeRow,
    /// Number of threads.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub threads: Raw<u64>,
    /// Niceness, -20 to 19.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub nice: Raw<f64>,
    /// Bytes of virtual memory.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub vsize: Raw<u64>,
    /// Peak resident memory in bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub peak: Raw<u64>,
    /// Bytes in swap.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub swap: Raw<u64>,
    /// Voluntary context switches.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub voluntary: Raw<u64>,
    /// Involuntary context switches.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub involuntary: Raw<u64>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Path of the executable.
    pub exe: Option<String>,
    /// Control group path.
    pub cgroup: Option<String>,
    /// The kernel function the process waits in.
    pub wchan: Option<String>,
    /// Bytes read and written by system calls, then from and to storage.
    pub io: Option<[u64; 4]>,
    /// Name, soft and hard limit.
    pub limits: Vec<[String; 3]>,
}
