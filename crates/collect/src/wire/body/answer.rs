//! The JSON of a probe's answers to commands.

use std::fmt;

use crate::wire::raw::Raw;
use crate::wire::schema::{object, objects};

object! {
    /// The answer to one command.
    #[derive(serde::Deserialize)]
    #[serde(default)]
    pub struct Answer {
        /// Id of the command; required.
        pub id: u64,
        /// Seconds of the probe's clock.
        pub at: f64,
        /// One of `ok sent gone reused zombie refused failed bad`; required.
        pub result: String,
        /// Why it failed.
        pub why?: Option<String>,
        /// The `errno` of the failure.
        pub errno?: Raw<u64>,
        /// True if the answer was truncated.
        pub cut?: bool,
        /// `NAME=value`; contains secrets, so it must never be logged.
        pub environ?: Option<Vec<String>>,
        /// Processes, each parent before its children.
        pub tree?: Option<Vec<TreeRow>>,
        /// Details of one process.
        pub detail?: Option<Box<Detail>>,
    }
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

objects! {
    /// One process of a process tree.
    pub struct TreeRow {
        /// Process id; required.
        pub pid: u32,
        /// Parent process id; required.
        pub ppid: u32,
        /// Start time in ticks since boot; required.
        pub start: u64,
        /// Owner's uid.
        pub uid?: Raw<u64>,
        /// Owner's user name.
        pub user?: Option<String>,
        /// The kernel's state letter.
        pub state?: Option<String>,
        /// CPU time so far, in ticks.
        pub cpu?: Raw<u64>,
        /// Bytes of resident memory.
        pub rss?: Raw<u64>,
        /// Command line.
        pub command?: Option<String>,
    }

    /// Details of one process; `null` if not permitted.
    pub struct Detail {
        /// The same values as in a tree.
        #[serde(flatten)]
        pub row: TreeRow,
        /// Number of threads.
        pub threads?: Raw<u64>,
        /// Niceness, -20 to 19.
        pub nice?: Raw<f64>,
        /// Bytes of virtual memory.
        pub vsize?: Raw<u64>,
        /// Peak resident memory in bytes.
        pub peak?: Raw<u64>,
        /// Bytes in swap.
        pub swap?: Raw<u64>,
        /// Voluntary context switches.
        pub voluntary?: Raw<u64>,
        /// Involuntary context switches.
        pub involuntary?: Raw<u64>,
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
}
