//! Training runs: what their files say, and what is known of their processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::declare::table;
use crate::id::{NodeName, ProcessKey};
use crate::process::ProcessState;
use crate::unit::Bytes;
use gtop_local::time::Timestamp;

/// Identifies a run among all folders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// The folder as it was named, with its host, or the log of a run without files of its own.
    pub folder: Arc<str>,
    /// The name of the run's folder or file.
    pub name: Arc<str>,
}

table! {
    /// The status that a run's file tells.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum RunStatus {
        /// The job reports that it runs.
        Running = "RUNNING",
        /// Ended by itself.
        Finished = "FINISHED",
        /// Ended with an error.
        Failed = "FAILED",
        /// Ended by a signal it handled.
        Canceled = "CANCELED",
        /// Its process ended without saying so.
        Killed = "KILLED",
        /// The file has no status, or an unknown one.
        Unknown = "UNKNOWN",
    }
    /// All statuses.
    pub const ALL;
    /// Returns the name in the file.
    pub fn as_str -> &'static str;
}

impl RunStatus {
    /// Parses the name in a file; any other is [`RunStatus::Unknown`].
    pub fn new(word: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == word).unwrap_or(Self::Unknown)
    }
}

/// The content of a progress file. A value that is missing, or of another type, is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The main process, on the run's own host.
    pub pid: Option<u32>,
    /// The host name that the job saw.
    pub host: Option<Arc<str>>,
    /// The PID namespace of the job, if the file tells it: `pid:[4026531836]`.
    pub pid_namespace: Option<Arc<str>>,
    /// The script.
    pub script: Option<Arc<str>>,
    /// Start of the run.
    pub started_at: Option<Timestamp>,
    /// The name to show instead of the folder's.
    pub title: Option<Arc<str>>,
    /// Page of the run, with its scheme; only http and https.
    pub url: Option<Arc<str>>,
    /// File, pipe or terminal of standard output.
    pub stdout: Option<Arc<str>>,
    /// The same for standard error.
    pub stderr: Option<Arc<str>>,
    /// Status.
    pub status: Option<RunStatus>,
    /// End of the run.
    pub ended_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<Arc<str>>,
    /// Phase, such as `training`.
    pub phase: Option<Arc<str>>,
    /// Number of the epoch, from 0.
    pub epoch: Option<u64>,
    /// Number of epochs.
    pub total_epochs: Option<u64>,
    /// Batches of this epoch so far.
    pub batch: Option<u64>,
    /// Batches of an epoch.
    pub total_batches: Option<u64>,
    /// Batches of this validation so far.
    pub validation_batch: Option<u64>,
    /// Batches of a validation.
    pub total_validation_batches: Option<u64>,
    /// Start of the epoch.
    pub epoch_started_at: Option<Timestamp>,
    /// Start of the training phase; `None` outside it.
    pub training_started_at: Option<Timestamp>,
    /// Start of the validation phase; `None` outside it.
    pub validation_started_at: Option<Timestamp>,
    /// Estimates of the run; its rate is a fraction.
    pub run: Estimate,
    /// Estimates of the epoch; its rate is a fraction.
    pub epoch_estimate: Estimate,
    /// Estimates of the training phase; its rate is in batches per second.
    pub training: Estimate,
    /// Estimates of the validation phase; its rate is in batches per second.
    pub validation: Estimate,
    /// Size of the validation set by that of the training set.
    pub dataset_ratio: Option<f64>,
    /// Loss.
    pub loss: Option<MetricValue>,
    /// Learning rate.
    pub learning_rate: Option<MetricValue>,
    /// Samples so far.
    pub samples: Option<u64>,
    /// Other metrics, in the file's order.
    pub metrics: Arc<[(Arc<str>, MetricValue)]>,
    /// Resources of the processes, as the file tells them.
    pub resources: Option<FileResources>,
    /// The variables that the job has taken over, if it acknowledges changes.
    pub acknowledged: Option<Arc<[RunVariable]>>,
}

/// Times of a part of a run, in seconds; never negative.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Fraction or batches per second.
    pub rate: Option<f64>,
    /// So far.
    pub elapsed: Option<f64>,
    /// To go.
    pub remaining: Option<f64>,
    /// In all.
    pub total: Option<f64>,
    /// Earlier epochs or phases, one each, the last ones if there are many.
    pub durations: Arc<[f64]>,
}

/// A metric of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A number; may be infinite or NaN, which jobs report when they diverge.
    Number(f64),
    /// Any other value, as one line of text.
    Text(Arc<str>),
}

/// Resources of a run's processes at one time, as a progress file tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileResources {
    /// Number of processes.
    pub processes: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// CPU use; 100 is one CPU.
    pub cpu_percent: Option<f64>,
    /// Memory in MiB.
    pub ram_mib: Option<f64>,
    /// Device memory in MiB.
    pub device_memory_mib: Option<f64>,
    /// When they were measured.
    pub taken_at: Option<Timestamp>,
}

table! {
    /// The JSON type of a variable.
    pub enum VariableKind {
        /// `null`
        Null = "null",
        /// `true` or `false`
        Bool = "bool",
        /// A number without point or exponent.
        Integer = "int",
        /// Any other number.
        Float = "float",
        /// Text.
        Text = "str",
        /// `[…]`
        List = "list",
        /// `{…}`
        Object = "object",
    }
    /// Returns the name shown.
    pub fn as_str -> &'static str;
}

/// A variable that may be changed while the job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunVariable {
    /// Name.
    pub name: Arc<str>,
    /// JSON type.
    pub kind: VariableKind,
    /// The value as compact JSON.
    pub json: Arc<str>,
}

/// The variables of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunVariables {
    /// The control file's text, to notice changes by others; `None` if there is none.
    pub text: Option<Arc<str>>,
    /// The variables, in the file's order.
    pub list: Arc<[RunVariable]>,
    /// Why the file cannot be read.
    pub fault: Option<Arc<str>>,
}

/// A run as its files tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Identity.
    pub id: RunId,
    /// True for `NAME.json`, false for `NAME/progress.json`.
    pub is_flat: bool,
    /// Owner of the progress file.
    pub uid: Option<u32>,
    /// The owner's name.
    pub user: Option<Arc<str>>,
    /// The last progress file that could be read.
    pub progress: Option<Arc<Progress>>,
    /// When that file was written, by the clock of its host corrected to ours.
    pub written_at: Option<Timestamp>,
    /// Why the file cannot be read now.
    pub fault: Option<Arc<str>>,
    /// The last time its epoch, batch, samples or phase changed.
    pub advanced_at: Option<Timestamp>,
    /// Batches per second, as they were seen to advance.
    pub seen_rate: Option<f64>,
    /// Variables.
    pub variables: RunVariables,
}

/// All runs that are watched, with the state of their folders and hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunList {
    /// The folders and logs, in the order they were named.
    pub folders: Vec<RunFolder>,
    /// The runs, by folder and in natural order of their names.
    pub runs: Vec<Arc<Run>>,
    /// The hosts on which processes of runs are looked at.
    pub hosts: Vec<Arc<RunHost>>,
    /// What resources are compared with.
    pub limits: RunLimits,
}

/// What the resources of a login are compared with; `None` for what its hosts have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLimits {
    /// Number of CPUs.
    pub cpus: Option<f64>,
    /// Memory.
    pub ram: Option<Bytes>,
    /// Device memory.
    pub gpu: Option<Bytes>,
}

/// A folder of runs, or a log that is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFolder {
    /// As it was named, with its host.
    pub label: Arc<str>,
    /// Its host.
    pub node: NodeName,
    /// Number of runs in it; not all of them are read if there are thousands.
    pub total: usize,
    /// True if changes are polled.
    pub is_polled: bool,
    /// Why it cannot be read, or why its host does not answer.
    pub fault: Option<Arc<str>>,
    /// When its host last reported it.
    pub answered_at: Option<Timestamp>,
    /// Our clock less that of its host, in microseconds; times in files were corrected by it.
    pub clock_offset: i64,
}

/// A host on which processes of runs are looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHost {
    /// The node.
    pub node: NodeName,
    /// The host name it has itself.
    pub host_name: Arc<str>,
    /// The PID namespace in which its processes are seen.
    pub pid_namespace: Option<Arc<str>>,
    /// Why it does not answer.
    pub fault: Option<Arc<str>>,
    /// When it last answered.
    pub answered_at: Option<Timestamp>,
    /// Our clock less that of the host, in microseconds.
    pub clock_offset: i64,
    /// The processes that were asked for, by pid.
    pub processes: BTreeMap<u32, RunProcess>,
    /// What all processes of the login use.
    pub user: Option<UserResources>,
}

/// What all processes of a login use on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UserResources {
    /// CPU use; 100 is one CPU.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub resident: Bytes,
    /// Number of CPUs of the host.
    pub cpus: u32,
    /// Memory of the host.
    pub memory: Bytes,
}

/// The main process of a run, as its host shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum RunProcess {
    /// There is no process of this pid.
    Gone {
        /// When that was first seen.
        since: Timestamp,
    },
    /// There is one that this user may not see.
    Hidden,
    /// There is one, which may be another than the run's.
    Found(Box<FoundProcess>),
}

/// A process with the processes it has started.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundProcess {
    /// Pid and start time.
    pub key: ProcessKey,
    /// State.
    pub state: Option<ProcessState>,
    /// When it started.
    pub started_at: Timestamp,
    /// Owner.
    pub uid: u32,
    /// True for a thread of the kernel.
    pub is_kernel: bool,
    /// Its PID namespace, if it may be read.
    pub pid_namespace: Option<Arc<str>>,
    /// CPU use of the tree; 100 is one CPU.
    pub cpu_percent: Option<f64>,
    /// Resident memory of the tree.
    pub resident: Bytes,
    /// Number of threads of the tree.
    pub threads: u32,
    /// The process and all below it, itself first.
    pub tree: Arc<[RunTreeProcess]>,
    /// Files, pipes or terminals of standard output and error.
    pub outputs: [Option<Arc<str>>; 2],
}

/// A process of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTreeProcess {
    /// Pid and start time.
    pub key: ProcessKey,
    /// Parent.
    pub parent_pid: u32,
    /// The kernel's name for it.
    pub name: Arc<str>,
    /// CPU use; 100 is one CPU.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub resident: Bytes,
    /// Number of threads.
    pub threads: u32,
    /// Its threads, if they were asked for.
    pub tasks: Arc<[RunTask]>,
}

/// A thread of a process of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTask {
    /// Thread id.
    pub tid: u32,
    /// The kernel's name for it.
    pub name: Arc<str>,
    /// CPU use; 100 is one CPU.
    pub cpu_percent: Option<f64>,
}
