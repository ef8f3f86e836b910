//! A decoded frame: one node's values at one moment, each checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::device::Device;
use crate::device_evidence::DeviceEvidence;
use crate::fault::SourceFault;
use crate::host::{HostFacts, HostReading, HostSlowReading, SharesReading};
use crate::id::Source;
use crate::pci::UnreadableDevices;
use crate::process::{DeviceUse, ProcessReading, UnseenProcess};
use crate::sudo::SudoState;
use gtop_local::time::{ClockOffset, Timestamp};

/// The first frame of a probe, about itself and its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hello {
    /// Interpreter of the probe: `python 3.11.2`, `sh`.
    pub probe: Arc<str>,
    /// The probe is the one that needs no Python.
    pub is_shell_probe: bool,
    /// The machine.
    pub host: HostFacts,
    /// Each source with its effective interval.
    pub intervals: Vec<(Source, Duration)>,
    /// Each backend, and why it is absent.
    pub backends: Vec<BackendState>,
    /// How many devices its source lists beyond those that are read.
    pub devices_left_out: usize,
    /// PCI addresses of the devices that the driver of their vendor should list; none where some may be hidden.
    pub bus_devices: Vec<Arc<str>>,
    /// Commands the probe supports.
    pub commands: Vec<Arc<str>>,
    /// It tells how the scheduler numbers and confines devices.
    pub has_evidence: bool,
    /// Whether it runs as root; `None` where that is not wanted.
    pub sudo: Option<SudoState>,
    /// It reads what the kernel logs of Xids.
    pub reads_kernel_log: bool,
    /// When NVIDIA's driver was loaded last; `None` if the kernel's log does not tell.
    pub driver_loaded_at: Option<Timestamp>,
}

impl Hello {
    /// Returns true if the probe announces this source.
    pub fn announces(&self, source: &Source) -> bool {
        self.intervals.iter().any(|(announced, _)| announced == source)
    }

    /// Returns the PCI addresses of the devices that the driver of their vendor should list, and that are not among these.
    pub fn unlisted_devices(&self, devices: &[Device]) -> Vec<Arc<str>> {
        let mut unlisted = self.bus_devices.clone();
        unlisted.retain(|address| !devices.iter().any(|device| device.has_pci_id(address)));
        // A device whose address is not known may be any of them.
        let whole = devices.iter().filter(|device| device.parent.is_none());
        let unnamed = whole.filter(|device| device.pci.known().is_none()).count();
        if unlisted.len() > unnamed { unlisted } else { Vec::new() }
    }

    /// Returns the accelerators of the node that gtop cannot read, as texts: also NVIDIA's, where their tools are missing.
    pub fn unreadable_texts(&self) -> Vec<String> {
        let found = self.host.unreadable_devices();
        let mut texts: Vec<String> = found.iter().map(UnreadableDevices::text).collect();
        let backends = self.backends.iter();
        let mut tools = backends
            .filter(|backend| ["nvml", "nvidia-smi"].contains(&backend.source.as_str()))
            .peekable();
        // Of what the probe did not look for, nothing is known.
        let lacks_tools = tools.peek().is_some() && tools.all(|backend| backend.is_missing);
        let count = self.host.nvidia_devices();
        // In a container, they may be those of others.
        if count > 0 && !self.host.is_confined() && lacks_tools {
            texts.push(format!("{count} × NVIDIA, without NVML and nvidia-smi"));
        }
        texts
    }
}

/// One backend as announced by a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendState {
    /// Its source.
    pub source: Source,
    /// Why it is absent; `None` when it works or is starting.
    pub absent: Option<Arc<str>>,
    /// It is absent because its program or library is not installed.
    pub is_missing: bool,
    /// Its driver refused to start, although the node has devices for it.
    pub fault: Option<SourceFault>,
    /// Its driver, once it works.
    pub driver: Option<Arc<DriverFacts>>,
}

/// A backend's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverFacts {
    /// Version of the driver.
    pub version: Option<Arc<str>>,
    /// Version of its library.
    pub library: Option<Arc<str>>,
    /// Highest CUDA version it supports.
    pub cuda: Option<Arc<str>>,
    /// Why it reports no events; `None` if it does, or if unknown.
    pub no_events: Option<Arc<str>>,
    /// The backend was written without access to such a device.
    pub is_experimental: bool,
}

/// One sample. Values that are `None` or empty were not sampled this time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Sequence number; a gap means dropped frames.
    pub number: u64,
    /// True if it holds all values, not only changed ones.
    pub is_complete: bool,
    /// How long the probe took.
    pub took: Option<Duration>,
    /// Offset between the node's clock and the local clock.
    pub clock: ClockOffset,
    /// The host's fast group and when it was taken.
    pub host: Option<(Timestamp, HostReading)>,
    /// The host's slow group and when it was taken.
    pub host_slow: Option<(Timestamp, HostSlowReading)>,
    /// Readings of each backend.
    pub backends: Vec<BackendReading>,
    /// The processes that use devices.
    pub processes: Option<ProcessesReading>,
    /// What control groups have and use of the host.
    pub shares: Option<SharesReading>,
    /// How the scheduler numbers and confines the devices of the node.
    pub evidence: Option<Arc<DeviceEvidence>>,
    /// What the probe costs the node, if it has just been measured.
    pub cost: Option<ProbeCost>,
    /// Sources that failed.
    pub faults: Vec<(Source, SourceFault)>,
}

/// The CPU use of a probe itself, as it has measured it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeCost {
    /// Percent of one core, over some seconds.
    pub core_percent: f32,
    /// The end of these seconds.
    pub at: Timestamp,
}

/// The readings of one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendReading {
    /// The backend.
    pub source: Source,
    /// When its slow group was sampled, if it was.
    pub slow_at: Option<Timestamp>,
    /// Its devices.
    pub devices: Option<DevicesReading>,
    /// Uses of its devices by processes.
    pub uses: Option<UsesReading>,
}

/// All devices of a backend at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicesReading {
    /// Time of the sample.
    pub at: Timestamp,
    /// The devices.
    pub list: Vec<Device>,
    /// The list ends early, so that nothing is known of devices that are not in it; else the driver does not have them.
    pub is_cut_short: bool,
}

/// All uses of a backend's devices at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct UsesReading {
    /// Time of the sample.
    pub at: Timestamp,
    /// The uses; one that is missing has ended.
    pub list: Vec<DeviceUse>,
    /// Number of processes that the driver lists without a pid, by device.
    pub nameless: BTreeMap<Arc<str>, u32>,
}

/// All processes that use a device at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessesReading {
    /// Time of the sample.
    pub at: Timestamp,
    /// The processes; one that is missing has ended.
    pub list: Vec<ProcessReading>,
    /// Processes that a driver lists and `/proc` does not show.
    pub unseen: Vec<UnseenProcess>,
}
