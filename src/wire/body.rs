//! The JSON of a frame, as structs: this file is the schema.
//!
//! Probes write it, the simulated fleet writes it through the same structs, and
//! [`crate::wire::Decoder`] reads it. Every key is optional unless it is named as needed.

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

/// What one frame holds.
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
    /// A kind this version does not know.
    Other,
}

/// The probe presents itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Schema version.
    pub v: u32,
    /// `python` or `sh`.
    pub probe: String,
    /// Version of the interpreter.
    pub version: String,
    /// Where the interpreter lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Seconds of the machine's clock since 1970.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub time: Raw<f64>,
    /// Host name of the machine.
    pub host: String,
    /// Boot id.
    pub boot: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture.
    pub arch: String,
    /// Logical processors.
    pub cpus: u32,
    /// Clock ticks a second.
    pub tick: u32,
    /// Bytes a memory page.
    pub page: u32,
    /// The probe's user number.
    pub uid: u32,
    /// The probe's user name.
    pub user: String,
    /// `hidepid` of `/proc`.
    pub hidepid: u8,
    /// The probe is in a PID namespace of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contained: bool,
    /// Its control group, where that is one of Slurm's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Verbs it understands.
    pub commands: Vec<String>,
    /// Seconds by source.
    pub intervals: BTreeMap<String, f64>,
    /// Backends and why they are absent.
    pub backends: Vec<BackendState>,
}

/// One backend in a hello.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendState {
    /// Such as `nvidia-smi`.
    pub kind: String,
    /// `starting`, `ready` or `absent`.
    pub state: String,
    /// Why it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver's library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Highest version of CUDA the driver knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Devices found.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub devices: Raw<u64>,
    /// Slices of them found.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub slices: Raw<u64>,
    /// Why no events are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// It was written without such a device at hand.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub experimental: bool,
}

/// One tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Counts up by one.
    pub n: u64,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Milliseconds the probe worked.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub took: Raw<f64>,
    /// It holds everything the probe knows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// The host's fast group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The host's slow group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_slow: Option<HostSlow>,
    /// Backends that have something new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
    /// Processes that use devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
}

/// The host's fast group.
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
    /// Pressure stall shares.
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
    /// Whole disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Vec<Disk>>,
}

/// `some avg10` of `/proc/pressure`, percent.
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

/// The host's slow group.
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
    /// Where it is mounted.
    pub path: String,
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub free: u64,
}

/// What one backend has to say: typed devices, or `nvidia-smi`'s text as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backend {
    /// Such as `nvidia-smi`.
    pub kind: String,
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Seconds of the probe's clock when the slow group was read, whenever `devices` hold it.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub slow: Raw<f64>,
    /// Answer of `nvidia-smi --query-gpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<Csv>,
    /// Answer of the query for what changes slowly; comes with `csv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<Csv>,
    /// What `nvidia-smi` says of slices; comes with `csv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
    /// The numbers of device files by PCI bus id, where `csv` has no column for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub minors: BTreeMap<String, u32>,
    /// Answer of `nvidia-smi --query-compute-apps`.
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
    /// What was asked for, in order.
    pub columns: Vec<String>,
    /// One line a device.
    pub rows: Vec<String>,
    /// Lines that are no rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<String>,
}

/// Raw lines on MIG slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mig {
    /// Those of `nvidia-smi -L`.
    pub list: Vec<String>,
    /// Those of `nvidia-smi` from `MIG devices:` on that begin with a number.
    pub table: Vec<String>,
}

/// Raw lines of `--query-compute-apps=gpu_uuid,pid,used_memory,process_name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Apps {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// One line a use.
    pub rows: Vec<String>,
}

/// The processes that use devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// The processes.
    pub list: Vec<Process>,
    /// Those a driver names and `/proc` does not show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
}

in_place! {
    /// One process.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Process {
        /// Process id; needed.
        pub pid: u32,
        /// Start time in ticks since boot; needed.
        pub start: u64,
        /// CPU ticks so far.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub cpu: Raw<u64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub rss: Raw<u64>,
        /// The kernel's letter; sent when it changes, as are the threads.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub state: Option<String>,
        /// Threads.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub threads: Raw<u64>,
    }

    /// What does not change in a process's life; sent once.
    pub struct ProcessStatics in statics {
        /// Parent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ppid: Raw<u64>,
        /// Owner's number.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub uid: Raw<u64>,
        /// Owner's name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub user: Option<String>,
        /// Command line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub command: Option<String>,
        /// Control group path.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cgroup: Option<String>,
        /// Working directory; `null` where only others may know.
        #[serde(skip_serializing_if = "RawText::is_absent")]
        pub cwd: RawText,
        /// Slurm's job, from the environment.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub job: Option<String>,
        /// Slurm's step, from the environment.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub step: Option<String>,
        /// Pid, start time and name of those above it, the nearest first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub parents: Vec<(u32, u64, String)>,
    }
}

/// A process that `/proc` does not show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unseen {
    /// Process id; needed.
    pub pid: u32,
    /// `gone hidden elsewhere`
    pub why: String,
    /// Owner's number.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub uid: Raw<u64>,
    /// Owner's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Control group path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// A source failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceError {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// The source.
    pub source: String,
    /// `host` or `device`.
    pub scope: String,
    /// `starting stuck nolib nodriver mismatch perm lost parse failed`
    pub code: String,
    /// What was called.
    pub call: String,
    /// Seconds it has lasted.
    #[serde(rename = "for", skip_serializing_if = "Raw::is_absent")]
    pub lasting: Raw<f64>,
    /// The driver's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Something happened to a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// The source.
    pub source: String,
    /// `xid ecc retirement poison unavailable recovery lost reset`
    pub kind: String,
    /// The device, or the slice of it.
    pub device: String,
    /// The Xid, or NVML's number of the recovery action.
    #[serde(skip_serializing_if = "Raw::is_absent")]
    pub code: Raw<u64>,
    /// The driver's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The probe ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bye {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// Why.
    pub why: String,
}
