//! What is known of a machine itself: processors, memory, network, storage.

use std::sync::Arc;

use crate::model::id::JobId;
use crate::model::reading::Reading;
use crate::model::unit::{Bytes, Celsius, Percent};
use crate::time::Timestamp;

/// What does not change while a machine runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// The machine's own host name.
    pub host_name: Arc<str>,
    /// Boot id of the kernel: with the host name, the identity of a running machine.
    pub boot_id: Arc<str>,
    /// Kernel release.
    pub kernel: Arc<str>,
    /// Machine architecture.
    pub architecture: Arc<str>,
    /// Logical processors.
    pub cpus: u32,
    /// Clock ticks a second, the unit of CPU time and start times.
    pub ticks_per_second: u32,
    /// `hidepid` of `/proc`: above 0, other users' processes may be hidden.
    pub hidepid: u8,
    /// The probe is in a PID namespace of its own: it sees no processes outside.
    pub is_contained: bool,
    /// The login the probe runs as.
    pub user: Arc<str>,
    /// The job whose control group the probe is in: what lets in only who has a job there puts it
    /// into one, and so does a step. Where jobs are confined to their devices, it sees only those.
    pub job: Option<JobId>,
}

/// CPU time of all processors since boot, in clock ticks (first line of `/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Doing work: user, nice, system, irq, softirq, steal.
    pub busy: u64,
    /// Waiting: idle and iowait.
    pub idle: u64,
}

/// A pair of ever growing byte counters with a name: a network interface, a port, a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name of the interface, port or disk.
    pub name: Arc<str>,
    /// Bytes received or read since boot.
    pub inward: u64,
    /// Bytes sent or written since boot.
    pub outward: u64,
}

/// Share of the last 10 s in which some task waited (`/proc/pressure`, `some avg10`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Waited for a processor.
    pub cpu: Reading<Percent>,
    /// Waited for memory.
    pub memory: Reading<Percent>,
    /// Waited for storage.
    pub io: Reading<Percent>,
}

/// Room on one local file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Where it is mounted.
    pub path: Arc<str>,
    /// Size.
    pub total: Bytes,
    /// Room for an ordinary user.
    pub free: Bytes,
}

/// The fast group of a host, sampled each tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostReading {
    /// CPU time counters.
    pub cpu: Reading<CpuTicks>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: Reading<[f32; 3]>,
    /// Memory of the machine.
    pub memory_total: Reading<Bytes>,
    /// Memory that programs can still get.
    pub memory_available: Reading<Bytes>,
    /// Swap space.
    pub swap_total: Reading<Bytes>,
    /// Unused swap space.
    pub swap_free: Reading<Bytes>,
    /// Pressure stall shares.
    pub pressure: Pressure,
    /// Seconds since boot.
    pub uptime_seconds: Reading<u64>,
    /// When it booted, by our clock.
    pub booted_at: Reading<Timestamp>,
    /// Physical network interfaces.
    pub network: Arc<[Counter]>,
    /// InfiniBand ports.
    pub infiniband: Arc<[Counter]>,
    /// Whole disks.
    pub disks: Arc<[Counter]>,
}

/// The slow group of a host, sampled every 10 s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSlowReading {
    /// Temperature of the hottest processor package.
    pub temperature: Reading<Celsius>,
    /// Local file systems.
    pub space: Arc<[Space]>,
}
