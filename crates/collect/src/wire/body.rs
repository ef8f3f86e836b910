//! The JSON schema of a frame's body, as structs.
//!
//! Probes and the simulated fleet write it, and [`crate::wire::Decoder`] reads it. Every key is optional
//! unless marked as required. Times `at` are seconds of the probe's clock.

use std::collections::BTreeMap;

#[cfg(feature = "demo")]
pub(crate) use crate::wire::raw::Changes;
pub use crate::wire::raw::Raw;
use crate::wire::schema::{in_place, objects};
pub use answer::{Detail, TreeRow};
pub use device::{Device, DeviceActivity, DeviceCounters, DeviceDetails, DeviceStatics, Use};
pub use tpu::TpuCore;

pub(crate) use crate::wire::raw::RawText;
pub(crate) use answer::Answer;
pub(crate) use device::Uses;
pub(crate) use tpu::Tpu;

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

objects! {
    /// The first message of a probe.
    pub struct Hello {
        /// Schema version.
        pub v: u32,
        /// `python` or `sh`.
        pub probe: String,
        /// Version of the interpreter.
        pub version: String,
        /// Path of the interpreter.
        pub path?: Option<String>,
        /// Seconds of the probe's clock.
        pub at: f64,
        /// Wall clock in seconds since 1970.
        pub time?: Raw<f64>,
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
        /// `root` if sudo runs it as root, for the user named before; otherwise why not, if that is wanted.
        pub sudo?: Option<String>,
        /// True if it reads what the kernel logs of Xids.
        pub kernel_log?: bool,
        /// When NVIDIA's driver was loaded last, in seconds of the probe's clock, if the kernel's log goes back so far.
        pub driver_loaded?: Raw<f64>,
        /// True if the probe runs in a PID namespace of its own.
        pub contained?: bool,
        /// The displays and accelerators on the PCI bus: address, ids of vendor and device, class and driver, as sysfs has
        /// them.
        pub pci?: Vec<(String, String, String, String, String)>,
        /// True if it reports how the scheduler numbers and confines devices: samples then have `evidence`.
        pub evidence?: bool,
        /// The probe's control group, if it is one of a scheduler's.
        pub cgroup?: Option<String>,
        /// PCI addresses of the devices that the driver of their vendor should list; none where some may be hidden.
        pub expected?: Vec<String>,
        /// Commands the probe supports.
        pub commands: Vec<String>,
        /// Sampling interval of each source, in seconds.
        pub intervals: BTreeMap<String, f64>,
        pub backends: Vec<BackendState>,
    }

    pub struct BackendState {
        /// The backend, such as `nvidia-smi`.
        pub kind: String,
        /// `starting`, `ready` or `absent`.
        pub state: String,
        /// Why it is absent.
        pub why?: Option<String>,
        /// It is absent because its program or library is not installed.
        pub missing?: bool,
        /// Its driver refused to start, although the node has devices for it: the code of the error.
        pub code?: Option<String>,
        /// The call that was refused.
        pub call?: Option<String>,
        /// The words of the error.
        pub message?: Option<String>,
        /// The driver's number of the error.
        pub number?: Raw<u64>,
        pub driver?: Option<String>,
        /// Version of the driver's library, such as NVML.
        pub library?: Option<String>,
        /// Highest CUDA version the driver supports.
        pub cuda?: Option<String>,
        /// Number of devices.
        pub devices?: Raw<u64>,
        /// Number of slices.
        pub slices?: Raw<u64>,
        /// Why the backend reports no events.
        pub events?: Option<String>,
        /// True if the backend was written without access to such a device.
        pub experimental?: bool,
    }

    /// The readings of one sampling interval.
    pub struct Sample {
        /// Sequence number.
        pub n: u64,
        /// Seconds of the probe's clock.
        pub at: f64,
        /// Milliseconds the probe took for it.
        pub took?: Raw<f64>,
        /// True if it holds all values, not only changed ones.
        pub full?: bool,
        pub host?: Option<Host>,
        pub host_slow?: Option<HostSlow>,
        /// Backends with new readings.
        pub backends?: Vec<Backend>,
        pub processes?: Option<Processes>,
        /// What jobs have and use of the host, by their control groups.
        pub shares?: Option<Shares>,
        /// How the scheduler numbers the node's devices; sent when a part of it has changed, and with all values.
        pub evidence?: Option<Box<Evidence>>,
        /// What the probe costs; sent in focus only.
        pub cost?: Option<Cost>,
    }

    /// The probe's own CPU use.
    #[derive(Copy)]
    pub struct Cost {
        /// Percent of one core.
        pub cpu: f64,
        /// Seconds over which it was measured, up to the sample.
        pub seconds: f64,
    }

    /// The host's fast group of readings.
    pub struct Host {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// Ticks since boot: user, nice, system, idle, iowait, irq, softirq, steal.
        pub cpu?: Option<Vec<u64>>,
        /// Load averages over 1, 5, 15 minutes.
        pub load?: Option<Vec<f64>>,
        /// Bytes.
        pub memory_total?: Raw<u64>,
        /// Bytes.
        pub memory_available?: Raw<u64>,
        /// Bytes that cache files and can be dropped.
        pub memory_cached?: Raw<u64>,
        /// Bytes.
        pub memory_buffers?: Raw<u64>,
        /// Bytes.
        pub swap_total?: Raw<u64>,
        /// Bytes.
        pub swap_free?: Raw<u64>,
        /// Pressure stall information.
        pub pressure?: Option<Pressure>,
        /// Seconds since boot.
        pub uptime?: Raw<f64>,
        /// Physical network interfaces.
        pub net?: Option<Vec<Traffic>>,
        /// InfiniBand ports.
        pub infiniband?: Option<Vec<Traffic>>,
        /// Whole disks, without partitions.
        pub disk?: Option<Vec<Disk>>,
    }

    /// What control groups have and use of the host. It replaces the ones before.
    pub struct Shares {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// The container in which the probe runs, if that has less than the host.
        pub own: HostShare,
        /// By the id of the job, as the path of its group has it.
        pub jobs: BTreeMap<String, HostShare>,
    }

    /// What a control group has and uses of the host; a limit that is missing is none, or cannot be read.
    #[derive(Copy)]
    pub struct HostShare {
        /// CPUs that it may use at once: the lowest quota of it and its parents, or the CPUs of its set.
        pub cpus?: Raw<f64>,
        /// Microseconds of CPU time so far.
        pub cpu?: Raw<u64>,
        /// Bytes that it may use.
        pub memory_limit?: Raw<u64>,
        /// Bytes that it uses, without pages of files that nobody has used for long.
        pub memory?: Raw<u64>,
    }

    /// The `some avg10` values of `/proc/pressure`.
    #[derive(Copy)]
    pub struct Pressure {
        /// Percent.
        pub cpu?: Raw<f64>,
        /// Percent.
        pub memory?: Raw<f64>,
        /// Percent.
        pub io?: Raw<f64>,
    }

    /// Byte counters of an interface or port.
    pub struct Traffic {
        /// Name.
        pub name: String,
        /// Bytes received since boot.
        pub rx: u64,
        /// Bytes sent since boot.
        pub tx: u64,
    }

    /// Byte counters of a disk.
    pub struct Disk {
        /// Name.
        pub name: String,
        /// Bytes read since boot.
        pub read: u64,
        /// Bytes written since boot.
        pub write: u64,
    }

    /// The host's slow group of readings.
    pub struct HostSlow {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// Degrees Celsius.
        pub temperature?: Raw<f64>,
        /// Local file systems.
        pub space?: Option<Vec<Space>>,
    }

    /// One file system.
    pub struct Space {
        /// Mount point.
        pub path: String,
        /// Bytes.
        pub total: u64,
        /// Bytes.
        pub free: u64,
    }

    /// The readings of one backend: typed devices, or `nvidia-smi`'s raw output.
    pub struct Backend {
        /// The backend, such as `nvidia-smi`.
        pub kind: String,
        /// Seconds of the probe's clock.
        pub at: f64,
        /// Time of the slow group in `devices`, by the probe's clock.
        pub slow?: Raw<f64>,
        /// Output of `nvidia-smi --query-gpu`.
        pub csv?: Option<Csv>,
        /// Output of the query for slowly changing columns; sent with `csv`.
        pub more?: Option<Csv>,
        /// Output on MIG slices; sent with `csv`.
        pub mig?: Option<Mig>,
        /// Minor numbers by PCI bus id, if `csv` has no column for them.
        pub minors?: BTreeMap<String, u32>,
        /// Output of `nvidia-smi --query-compute-apps`.
        pub apps?: Option<Apps>,
        /// Typed devices.
        pub devices?: Option<Vec<Device>>,
        /// Typed uses.
        pub uses?: Option<Uses>,
    }

    /// Raw lines of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`.
    pub struct Csv {
        /// The columns of the query, in order.
        pub columns: Vec<String>,
        /// One line per device.
        pub rows: Vec<String>,
        /// Lines that are not rows.
        pub noise?: Vec<String>,
    }

    /// Raw lines about MIG slices.
    pub struct Mig {
        /// Lines of `nvidia-smi -L`.
        pub list: Vec<String>,
        /// Lines of `nvidia-smi` after `MIG devices:` that begin with a number.
        pub table: Vec<String>,
    }

    /// Raw lines of `--query-compute-apps=gpu_uuid,pid,used_memory,process_name`.
    pub struct Apps {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// One line per use.
        pub rows: Vec<String>,
    }

    /// Processes that use devices.
    pub struct Processes {
        /// Seconds of the probe's clock.
        pub at: f64,
        pub list: Vec<Process>,
        /// Processes that a driver reports and `/proc` does not show.
        pub unseen?: Vec<Unseen>,
    }
}

in_place! {
    pub struct Process => gtop_model::ProcessReading {
        /// Process id; required.
        pub pid: u32,
        /// Start time in ticks since boot; required.
        pub start: u64,
        /// CPU time so far, in ticks.
        pub cpu?: Raw<u64> => cpu_ticks,
        /// Bytes of resident memory.
        pub rss?: Raw<u64>,
        /// The kernel's state letter; like the threads, sent only when it changes.
        pub state?: Option<String>,
        /// Number of threads.
        pub threads?: Raw<u64> => threads,
    }

    /// Values that do not change while a process runs; sent once.
    pub struct ProcessStatics in statics => gtop_model::ProcessStatics {
        /// Parent process id.
        pub ppid?: Raw<u64> => parent_pid,
        /// Owner's uid.
        pub uid?: Raw<u64> => uid,
        /// Owner's user name.
        pub user?: Option<String>,
        /// Command line.
        pub command?: Option<String>,
        /// Control group path.
        pub cgroup?: Option<String>,
        /// Working directory; `null` if not permitted.
        pub cwd?: RawText,
        /// Job id, from the environment.
        pub job?: Option<String>,
        /// Step id, from the environment.
        pub step?: Option<String>,
        /// UUIDs of devices and slices by which the environment says which are visible.
        pub visible?: Vec<String>,
        /// Pid, start time and name of the ancestors, parent first.
        pub parents?: Vec<(u32, u64, String)>,
    }
}

objects! {
    /// What the node tells of how its scheduler numbers its devices. It replaces the one before; a missing key could not
    /// be read, or does not apply.
    pub struct Evidence {
        /// True once all of it has been read.
        pub complete?: bool,
        /// The node's name in the scheduler's configuration.
        pub node?: Option<String>,
        pub daemon?: Option<Daemon>,
        /// Lines of `gres.conf` that may be about the node's GPUs, without comments.
        pub config?: Option<Vec<String>>,
        /// Minor numbers of device files in those lines and in the daemon's list whose names do not tell them; `null` for a
        /// file that is not that of a device.
        pub files?: BTreeMap<String, Option<u32>>,
        /// Minor number, PCI address and UUID of each device in `/proc/driver/nvidia/gpus`; the UUID is `null` if the
        /// driver hides it.
        pub devices?: Vec<(u32, String, Option<String>)>,
        /// Number of the capability file, minor number of the device, GPU instance and compute instance of each slice;
        /// the last is `null` for the file of a GPU instance.
        pub slices?: Vec<(u32, u32, u32, Option<u32>)>,
        /// Minor numbers of the devices that each job may open, by the job's id, from its control group for devices, which
        /// exists only where jobs are confined; `null` if the group does not tell them.
        pub jobs?: BTreeMap<String, Option<Vec<u32>>>,
        pub configuration?: Option<Configuration>,
        /// Minor numbers of the devices that the probe can open, if it runs in a job.
        pub openable?: Option<Vec<u32>>,
    }

    /// The scheduler's daemon on the node.
    pub struct Daemon {
        /// When it was started, in seconds since 1970 by the node's clock.
        pub started?: Raw<f64>,
        /// Its version.
        pub version?: Option<String>,
        /// Lines of the scheduler's daemon about GPUs.
        pub list?: Option<Vec<String>>,
        /// Why there is no list; absent too while the daemon is queried.
        pub error?: Option<String>,
    }

    /// The files from which the daemon makes its list. Times are seconds since 1970 by the node's clock.
    pub struct Configuration {
        /// When one of them last became what it is.
        pub changed?: Raw<f64>,
        /// When that was looked at.
        pub checked?: Raw<f64>,
        /// The daemon writes them itself.
        pub cached?: bool,
        /// Jobs can open no devices but their own.
        pub constrained?: Option<bool>,
        /// When one of the files that say so last changed.
        pub constrained_changed?: Raw<f64>,
    }

    /// A process that `/proc` does not show.
    pub struct Unseen {
        /// Process id; required.
        pub pid: u32,
        /// `gone`, `hidden`, `elsewhere` or `ambiguous`.
        pub why: String,
        /// Owner's uid.
        pub uid?: Raw<u64>,
        /// Owner's user name.
        pub user?: Option<String>,
        /// Control group path.
        pub cgroup?: Option<String>,
    }

    /// A fault of a source.
    pub struct SourceError {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// The source that failed.
        pub source: String,
        /// `host` or `device`.
        pub scope: String,
        /// One of `starting slow silent stuck nolib nodriver mismatch perm lost parse failed`.
        pub code: String,
        /// The call that failed.
        pub call: String,
        /// Seconds since it began.
        #[serde(rename = "for")]
        pub lasting?: Raw<f64>,
        /// The driver's message.
        pub message?: Option<String>,
        /// UUID of the device.
        pub device?: Option<String>,
    }

    /// A device event.
    pub struct Event {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// The source that reports it.
        pub source: String,
        /// One of `xid ecc retirement poison unavailable recovery lost reset`.
        pub kind: String,
        /// UUID of the device or slice; empty if the event comes from the kernel's log.
        pub device: String,
        /// The Xid, or NVML's number of the recovery action.
        pub code?: Raw<u64>,
        /// How often it occurred; once if this is missing.
        pub count?: Raw<u64>,
        /// The driver's message.
        pub message?: Option<String>,
        /// From the kernel's log: the PCI address of the device.
        pub pci?: Option<String>,
        /// The GPU instance of the slice.
        pub instance?: Raw<u64>,
        /// The process, as the driver knows it.
        pub pid?: Raw<u64>,
        /// The name of the process.
        pub process?: Option<String>,
        /// Number of the record since the boot.
        pub seq?: Raw<u64>,
        /// When it was logged, in seconds of the probe's clock.
        pub logged?: Raw<f64>,
        /// Number of the first record of those counted.
        pub first?: Raw<u64>,
        /// When that one was logged.
        pub since?: Raw<f64>,
    }

    /// The last message of a probe that exits.
    pub struct Bye {
        /// Seconds of the probe's clock.
        pub at: f64,
        /// Why the probe exits.
        pub why: String,
    }
}

impl Event {
    /// Returns how often it occurred.
    pub(crate) fn occurrences(&self) -> u64 {
        self.count.value().unwrap_or(1).max(1)
    }
}
