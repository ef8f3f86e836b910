//! The JSON schema of a frame's body, as structs.
//!
//! Probes and the simulated fleet write it, and [`crate::wire::Decoder`] reads it. Every key is optional
//! unless marked as required. Times `at` are seconds of the probe's clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::in_place::in_place;
pub use crate::wire::raw::{Raw, RawText};
pub use answer::{Answer, Detail, TreeRow};
pub use device::{Device, DeviceActivity, DeviceCounters, DeviceDetails, DeviceStatics, Use, Uses};
pub use tpu::{Tpu, TpuCore};

mod answer;
mod device;
mod tpu;

/// The body of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `t: hello`
    Hello(Hello),
    /// `t: sample`
    Sample(Sample),
    /// `t: error`
    Error(SourceError),
    /// `t: answer`
    Answer(Box<Answer>),
    /// `t: event`
    Event(Event),
    /// `t: bye`
    Bye(Bye),
    /// A type that this version does not know.
    Other,
}

/// The first message of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Schema version.
    pub v: u32,
    /// `python` or `sh`.
    pub probe: String,
    /// Version of the interpreter.
    pub version: String,
    /// Path of the interpreter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Wall clock in seconds since 1970.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub time: Raw<f64>,
    /// Host name.
    pub host: String,
    /// Boot id.
    pub boot: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture, as of `uname -m`.
    pub arch: String,
    /// Number of logical CPUs.
    pub cpus: u32,
    /// Clock ticks per second.
    pub tick: u32,
    /// Bytes per memory page.
    pub page: u32,
    /// The probe's uid.
    pub uid: u32,
    /// The probe's user name.
    pub user: String,
    /// The mount option `hidepid` of `/proc`.
    pub hidepid: u8,
    /// True if the probe runs in a PID namespace of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contained: bool,
    /// The probe's control group, if it is one of Slurm's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Commands the probe supports.
    pub commands: Vec<String>,
    /// Sampling interval of each source, in seconds.
    pub intervals: BTreeMap<String, f64>,
    pub backends: Vec<BackendState>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendState {
    /// The backend, such as `nvidia-smi`.
    pub kind: String,
    /// `starting`, `ready` or `absent`.
    pub state: String,
    /// Why it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver's library, such as NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Highest CUDA version the driver supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Number of devices.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub devices: Raw<u64>,
    /// Number of slices.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub slices: Raw<u64>,
    /// Why the backend reports no events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// True if the backend was written without access to such a device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub experimental: bool,
}

/// The readings of one sampling interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Sequence number.
    pub n: u64,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Milliseconds the probe took for it.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub took: Raw<f64>,
    /// True if it holds all values, not only changed ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_slow: Option<HostSlow>,
    /// Backends with new readings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
}

/// The host's fast group of readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Ticks since boot: user, nice, system, idle, iowait, irq, softirq, steal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Vec<u64>>,
    /// Load averages over 1, 5, 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Vec<f64>>,
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub memory_total: Raw<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub memory_available: Raw<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub swap_total: Raw<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub swap_free: Raw<u64>,
    /// Pressure stall information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// Seconds since boot.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uptime: Raw<f64>,
    /// Physical network interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net: Option<Vec<Traffic>>,
    /// InfiniBand ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infiniband: Option<Vec<Traffic>>,
    /// Whole disks, without partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Vec<Disk>>,
}

/// The `some avg10` values of `/proc/pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// Percent.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub cpu: Raw<f64>,
    /// Percent.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub memory: Raw<f64>,
    /// Percent.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub io: Raw<f64>,
}

/// Byte counters of an interface or port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Name.
    pub name: String,
    /// Bytes received since boot.
    pub rx: u64,
    /// Bytes sent since boot.
    pub tx: u64,
}

/// Byte counters of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Name.
    pub name: String,
    /// Bytes read since boot.
    pub read: u64,
    /// Bytes written since boot.
    pub write: u64,
}

/// The host's slow group of readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSlow {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Degrees Celsius.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub temperature: Raw<f64>,
    /// Local file systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<Vec<Space>>,
}

/// One file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Space {
    /// Mount point.
    pub path: String,
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub free: u64,
}

/// The readings of one backend: typed devices, or `nvidia-smi`'s raw output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backend {
    /// The backend, such as `nvidia-smi`.
    pub kind: String,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Time of the slow group in `devices`, by the probe's clock.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub slow: Raw<f64>,
    /// Output of `nvidia-smi --query-gpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<Csv>,
    /// Output of the query for slowly changing columns; sent with `csv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<Csv>,
    /// Output on MIG slices; sent with `csv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
    /// Minor numbers by PCI bus id, if `csv` has no column for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub minors: BTreeMap<String, u32>,
    /// Output of `nvidia-smi --query-compute-apps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apps: Option<Apps>,
    /// Typed devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<Device>>,
    /// Typed uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
}

/// Raw lines of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Csv {
    /// The columns of the query, in order.
    pub columns: Vec<String>,
    /// One line per device.
    pub rows: Vec<String>,
    /// Lines that are not rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<String>,
}

/// Raw lines about MIG slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mig {
    /// Lines of `nvidia-smi -L`.
    pub list: Vec<String>,
    /// Lines of `nvidia-smi` after `MIG devices:` that begin with a number.
    pub table: Vec<String>,
}

/// Raw lines of `--query-compute-apps=gpu_uuid,pid,used_memory,process_name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Apps {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// One line per use.
    pub rows: Vec<String>,
}

/// Processes that use devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// Seconds of the probe's clock.
    pub at: f64,
    pub list: Vec<Process>,
    /// Processes that a driver reports and `/proc` does not show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
}

in_place! {
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Process {
        /// Process id; required.
        pub pid: u32,
        /// Start time in ticks since boot; required.
        pub start: u64,
        /// CPU time so far, in ticks.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub cpu: Raw<u64>,
        /// Bytes of resident memory.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub rss: Raw<u64>,
        /// The kernel's state letter; like the threads, sent only when it changes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub state: Option<String>,
        /// Number of threads.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub threads: Raw<u64>,
    }

    /// Values that do not change while a process runs; sent once.
    pub struct ProcessStatics in statics {
        /// Parent process id.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ppid: Raw<u64>,
        /// Owner's uid.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub uid: Raw<u64>,
        /// Owner's user name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub user: Option<String>,
        /// Command line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub command: Option<String>,
        /// Control group path.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cgroup: Option<String>,
        /// Working directory; `null` if not permitted.
        #[serde(skip_serializing_if = "RawText::is_absent")]
        pub cwd: RawText,
        /// Slurm job id, from the environment.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub job: Option<String>,
        /// Slurm step id, from the environment.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub step: Option<String>,
        /// Pid, start time and name of the ancestors, parent first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub parents: Vec<(u32, u64, String)>,
    }
}

/// A process that `/proc` does not show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unseen {
    /// Process id; required.
    pub pid: u32,
    /// `gone`, `hidden` or `elsewhere`.
    pub why: String,
    /// Owner's uid.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uid: Raw<u64>,
    /// Owner's user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Control group path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// A fault of a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceError {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// The source that failed.
    pub source: String,
    /// `host` or `device`.
    pub scope: String,
    /// One of `starting stuck nolib nodriver mismatch perm lost parse failed`.
    pub code: String,
    /// The call that failed.
    pub call: String,
    /// Seconds since it began.
    #[serde(rename = "for", skip_serializing_if = "Raw::is_absent")]
    pub lasting: Raw<f64>,
    /// The driver's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// UUID of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// A device event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// The source that reports it.
    pub source: String,
    /// One of `xid ecc retirement poison unavailable recovery lost reset`.
    pub kind: String,
    /// UUID of the device or slice.
    pub device: String,
    /// The Xid, or NVML's number of the recovery action.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub code: Raw<u64>,
    /// The driver's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The last message of a probe that exits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bye {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Why the probe exits.
    pub why: String,
}
