//! The JSON of answers to what somebody asked.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::wire::raw::Raw;

/// The answer to one command.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Of the command; needed.
    pub id: u64,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// `ok sent gone reused zombie refused failed bad`; needed.
    pub result: String,
    /// Why there is no more to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The kernel's number for that.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub errno: Raw<u64>,
    /// There is more than an answer holds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// `NAME=value`; whoever writes it down anywhere gives secrets away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environ: Option<Vec<String>>,
    /// Processes, a parent before its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Vec<TreeRow>>,
    /// More of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest may hold secrets.
        f.debug_struct("Answer")
            .field("id", &self.id)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

/// One process of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeRow {
    /// Process id; needed.
    pub pid: u32,
    /// Parent; needed.
    pub ppid: u32,
    /// Start time in ticks since boot; needed.
    pub start: u64,
    /// Owner's number.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uid: Raw<u64>,
    /// Owner's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The kernel's letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// CPU ticks so far.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub cpu: Raw<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub rss: Raw<u64>,
    /// Command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// More of one process; `null` is what only its owner may know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// What a tree tells of it too.
    #[serde(flatten)]
    pub row: TreeRow,
    /// Threads.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub threads: Raw<u64>,
    /// Niceness, -20 to 19.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub nice: Raw<f64>,
    /// Bytes of addresses.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub vsize: Raw<u64>,
    /// Bytes at most in use so far.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub peak: Raw<u64>,
    /// Bytes swapped out.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub swap: Raw<u64>,
    /// Times it gave its processor away.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub voluntary: Raw<u64>,
    /// Times its processor was taken from it.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub involuntary: Raw<u64>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Program.
    pub exe: Option<String>,
    /// Control group path.
    pub cgroup: Option<String>,
    /// What of the kernel it waits in.
    pub wchan: Option<String>,
    /// Bytes read and written by calls, and from and to storage.
    pub io: Option<[u64; 4]>,
    /// Name, soft and hard limit.
    pub limits: Vec<[String; 3]>,
}
