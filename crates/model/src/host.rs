//! Values of a host: processors, memory, network, storage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::declare::completed;
use crate::id::JobId;
use crate::pci::{PciFunction, UnreadableDevices};
use crate::reading::Reading;
use crate::unit::{Bytes, Celsius, Percent};
use gtop_local::time::Timestamp;

/// Static properties of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// Host name, as the machine reports it.
    pub host_name: Arc<str>,
    /// Boot id of the kernel: with the host name, the identity of a running machine.
    pub boot_id: Arc<str>,
    /// Kernel release.
    pub kernel: Arc<str>,
    /// Machine architecture.
    pub architecture: Arc<str>,
    /// Logical processors.
    pub cpus: u32,
    /// Clock ticks per second, the unit of CPU times and start times.
    pub ticks_per_second: u32,
    /// `hidepid` of `/proc`: above 0, other users' processes may be hidden.
    pub hidepid: u8,
    /// The probe runs in its own PID namespace and sees no processes outside of it.
    pub is_contained: bool,
    /// User name of the probe.
    pub user: Arc<str>,
    /// The job whose control group the probe runs in, because the node's login or a job step put it there. If jobs are
    /// confined to their devices, the probe sees only those.
    pub job: Option<JobId>,
    /// Displays and accelerators on the PCI bus.
    pub pci: Arc<[PciFunction]>,
}

/// A running machine: two nodes with equal ids are one machine under two names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineId {
    boot_id: Arc<str>,
    host_name: Arc<str>,
}

impl HostFacts {
    /// Returns the accelerators that gtop cannot read.
    pub fn unreadable_devices(&self) -> Vec<UnreadableDevices> {
        UnreadableDevices::among(&self.pci)
    }

    /// Returns true if the probe may see only some devices of the node: in a container or a job.
    pub fn is_confined(&self) -> bool {
        self.is_contained || self.job.is_some()
    }

    /// Returns the number of devices on the PCI bus that NVIDIA's driver should list.
    pub fn nvidia_devices(&self) -> usize {
        self.pci.iter().filter(|function| function.is_of_nvidia_driver()).count()
    }

    /// Returns the machine's identity; `None` if the probe could not read the boot id.
    pub fn machine_id(&self) -> Option<MachineId> {
        (!self.boot_id.is_empty()).then(|| MachineId {
            boot_id: Arc::clone(&self.boot_id),
            host_name: Arc::clone(&self.host_name),
        })
    }
}

/// CPU time of all processors since boot, in clock ticks (first line of `/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Busy: user, nice, system, irq, softirq, steal.
    pub busy: u64,
    /// Idle: idle and iowait.
    pub idle: u64,
}

/// Monotonic byte counters of a network interface, a port or a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name of the interface, port or disk.
    pub name: Arc<str>,
    /// Bytes received or read since boot.
    pub inward: u64,
    /// Bytes sent or written since boot.
    pub outward: u64,
}

completed! {
    /// Share of the last 10 s in which some task waited (`/proc/pressure`, `some avg10`).
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Pressure {
        /// For a processor.
        pub cpu: Reading<Percent>,
        /// For memory.
        pub memory: Reading<Percent>,
        /// For storage.
        pub io: Reading<Percent>,
    }
}

/// Space on one local file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Mount point.
    pub path: Arc<str>,
    /// Total size.
    pub total: Bytes,
    /// Space available to ordinary users.
    pub free: Bytes,
}

completed! {
    /// The fast group of a host, sampled each tick.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct HostReading {
        /// CPU time counters.
        pub cpu: Reading<CpuTicks>,
        /// CPU utilization, where the source tells it and not the counters.
        pub cpu_utilization: Reading<Percent>,
        /// Load averages over 1, 5 and 15 minutes.
        pub load: Reading<[f32; 3]>,
        /// Total memory.
        pub memory_total: Reading<Bytes>,
        /// Memory available to programs (`MemAvailable`).
        pub memory_available: Reading<Bytes>,
        /// Memory that caches files and can be dropped: `Cached` and `SReclaimable` without `Shmem`.
        pub memory_cached: Reading<Bytes>,
        /// Memory that holds blocks of disks (`Buffers`).
        pub memory_buffers: Reading<Bytes>,
        /// Swap space.
        pub swap_total: Reading<Bytes>,
        /// Unused swap space.
        pub swap_free: Reading<Bytes>,
        /// Pressure stall shares.
        pub pressure: Pressure,
        /// Seconds since boot.
        pub uptime_seconds: Reading<u64>,
        /// Boot time by the local clock; computed anew from each sample, so it jitters.
        pub booted_at: Reading<Timestamp> => kept,
        /// Physical network interfaces.
        pub network: Arc<[Counter]> => replaced,
        /// InfiniBand ports.
        pub infiniband: Arc<[Counter]> => replaced,
        /// Whole disks.
        pub disks: Arc<[Counter]> => replaced,
    }
}

/// What a control group has and uses of a host: that of a job, or of the container of the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostShareReading {
    /// CPUs that it may use at once; `None` without a limit.
    pub cpus: Option<f32>,
    /// CPU time so far.
    pub cpu_time: Option<Duration>,
    /// Memory that it may use; `None` without a limit.
    pub memory_limit: Option<Bytes>,
    /// Memory that it uses, without pages of files that nobody has used for long.
    pub memory: Reading<Bytes>,
}

/// The shares of all control groups that are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharesReading {
    /// When they were read.
    pub at: Timestamp,
    /// That of the container of the probe; all of it is `None` if it is not limited.
    pub own: HostShareReading,
    /// Those of jobs.
    pub jobs: BTreeMap<JobId, HostShareReading>,
}

/// The slow group of a host, sampled every 10 s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSlowReading {
    /// Temperature of the hottest processor package.
    pub temperature: Reading<Celsius>,
    /// Local file systems.
    pub space: Arc<[Space]>,
}
