//! OS processes that use a device.

use std::sync::Arc;

use crate::declare::{completed, table};
use crate::id::{JobId, ProcessKey};
use crate::reading::{Reading, Reason};
use crate::unit::{Bytes, Percent};

/// One process as the node's kernel shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessReading {
    /// Identity.
    pub key: ProcessKey,
    /// CPU time so far, in clock ticks.
    pub cpu_ticks: Reading<u64>,
    /// CPU use in percent of a core, where the source tells it and not the time.
    pub cpu_percent: Reading<f32>,
    /// For how long it runs, where the source tells it and not when it started.
    pub running_seconds: Reading<u64>,
    /// Memory in use on the host.
    pub resident: Reading<Bytes>,
    /// The kernel's process state.
    pub state: Reading<ProcessState>,
    /// Number of threads.
    pub threads: Reading<u32>,
    /// Static properties; sent once.
    pub statics: Option<Arc<ProcessStatics>>,
}

/// Static properties of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessStatics {
    /// Parent process.
    pub parent_pid: Reading<u32>,
    /// Owner's uid.
    pub uid: Reading<u32>,
    /// Owner's user name.
    pub user: Reading<Arc<str>>,
    /// Command line, without control characters.
    pub command: Reading<Arc<str>>,
    /// Working directory; only the owner may read it.
    pub directory: Reading<Arc<str>>,
    /// The scheduler's job, from the control group or else from the environment.
    pub job: Option<JobId>,
    /// The job is from the environment, which anybody may set, and not from the control group.
    pub is_job_of_environment: bool,
    /// The devices and slices that its environment names by UUID, as in `CUDA_VISIBLE_DEVICES`; only its owner may read
    /// them.
    pub visible_uuids: Arc<[Arc<str>]>,
    /// The step of that job: a number, or `batch`, `extern`, `interactive`.
    pub step: Option<Arc<str>>,
    /// Another name of the job, which its control group has in place of the id.
    pub job_alias: Option<Arc<str>>,
    /// The container or pod it runs in.
    pub container: Option<Container>,
    /// Ancestors, nearest first, without init.
    pub parents: Arc<[Ancestor]>,
}

/// An ancestor of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Identity.
    pub key: ProcessKey,
    /// The kernel's name for it, at most 15 characters.
    pub name: Arc<str>,
}

table! {
    /// The kernel's state of a process.
    pub enum ProcessState {
        /// Running or runnable.
        Running = "R",
        /// Interruptible sleep.
        Sleeping = "S",
        /// Uninterruptible sleep, usually in I/O.
        Waiting = "D",
        /// Stopped by a signal.
        Stopped = "T",
        /// Stopped by a debugger.
        Traced = "t",
        /// Exited and not reaped by its parent.
        Zombie = "Z",
        /// Being removed.
        Dead = "X",
        /// A kernel thread with nothing to do.
        Idle = "I",
    }
    /// All states.
    pub const ALL;
    /// Returns the kernel's letter.
    pub fn letter -> &'static str;
}

impl ProcessState {
    /// Parses the kernel's letter.
    pub fn new(letter: &str) -> Option<Self> {
        match letter {
            "x" => Some(Self::Dead),
            "P" | "W" | "K" => Some(Self::Idle),
            _ => Self::ALL.into_iter().find(|state| state.letter() == letter),
        }
    }
}

/// The container of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Runtime.
    pub kind: ContainerKind,
    /// The first 12 digits of its id, or its name.
    pub id: Arc<str>,
    /// The pod it is part of.
    pub pod: Option<Arc<str>>,
}

table! {
    /// Container runtimes.
    pub enum ContainerKind {
        /// Docker.
        Docker = "docker",
        /// Podman, or another user of libpod.
        Podman = "podman",
        /// containerd, mostly under Kubernetes.
        Containerd = "containerd",
        /// CRI-O, under Kubernetes.
        Crio = "cri-o",
        /// Kubernetes, with an unknown runtime.
        Kubernetes = "kubernetes",
        /// LXC.
        Lxc = "lxc",
        /// A `systemd-machined` machine.
        Machine = "machine",
    }
    /// Returns the name used in JSON and on the screen.
    pub fn as_str -> &'static str;
}

/// A process that a driver lists and `/proc` does not show.
#[derive(Clone, Debug, PartialEq)]
pub struct UnseenProcess {
    /// Process id as the driver gives it.
    pub pid: u32,
    /// Why `/proc` does not show it.
    pub why: UnseenReason,
    /// What is known from its control group.
    pub statics: ProcessStatics,
}

/// Why `/proc` does not show a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnseenReason {
    /// The process has ended.
    Gone,
    /// The node hides the process.
    Hidden,
    /// The process is in another PID namespace, or the driver's pid is not valid here.
    OtherNamespace,
    /// A process has this pid in the probe's PID namespace, and nothing proves that it is the one the driver means.
    Ambiguous,
}

impl UnseenReason {
    /// Returns why nothing is known of the process.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Gone => Reason::Gone,
            Self::Hidden => Reason::NoPermission,
            Self::OtherNamespace => Reason::OtherNamespace,
            Self::Ambiguous => Reason::AmbiguousPid,
        }
    }
}

table! {
    /// What a process uses a device for.
    pub enum UseKind {
        /// Compute.
        Compute = "C",
        /// Graphics.
        Graphics = "G",
        /// Both.
        Both = "C+G",
    }
    /// All uses.
    pub const ALL;
    /// Returns the letters of `nvidia-smi`.
    pub fn as_str -> &'static str;
}

impl UseKind {
    /// Parses the letters of `nvidia-smi`.
    pub fn new(letters: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == letters)
    }
}

completed! {
    /// One process's use of one device.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DeviceUse {
        /// The device's identity.
        pub device: Arc<str> => kept,
        /// Process id.
        pub pid: u32 => kept,
        /// Device memory in use.
        pub memory: Reading<Bytes>,
        /// SM utilization by the process.
        pub sm: Reading<Percent>,
        /// Memory utilization by the process.
        pub memory_utilization: Reading<Percent>,
        /// Encoder utilization by the process.
        pub encoder: Reading<Percent>,
        /// Decoder utilization by the process.
        pub decoder: Reading<Percent>,
        /// Share of the compute units in use by the process.
        pub occupancy: Reading<Percent>,
        /// Compute or graphics.
        pub kind: Reading<UseKind>,
        /// The driver's name of the process; shown if the node hides the command line.
        pub driver_name: Option<Arc<str>> => unless_none,
    }
}
