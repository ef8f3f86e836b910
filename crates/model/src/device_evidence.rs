//! What a node itself tells of how its scheduler numbers its devices, and which of them jobs may open.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::JobId;
use crate::scheduler::SchedulerProfile;
use gtop_local::time::Timestamp;

/// The evidence of one node. What is `None` or empty could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceEvidence {
    /// All of it has been read.
    pub is_complete: bool,
    /// The scheduler's daemon on the node: its list of devices, by index.
    pub daemon: DaemonDevices,
    /// The configuration from which the daemon makes its list.
    pub config: Option<Arc<DeviceConfig>>,
    /// The state of the files of that configuration.
    pub configuration: ConfigurationState,
    /// The minor numbers of device files whose names do not tell them; `None` for one that is not that of a device.
    pub file_minors: BTreeMap<Arc<str>, Option<u32>>,
    /// The devices that the driver knows, also those that the probe may not open.
    pub driver_devices: Arc<[DriverDevice]>,
    /// The slices that the driver knows, by the number of their capability file.
    pub capabilities: Arc<[SliceCapability]>,
    /// What the device control groups of jobs let them open.
    pub job_devices: Arc<[JobDeviceFiles]>,
    /// The minor numbers that the probe can open, if it runs in the control group of a job; `None` if it does not, or if
    /// that is not known.
    pub openable: Option<Arc<[u32]>>,
}

impl DeviceEvidence {
    /// Returns the minor number of a device file of NVIDIA; `None` if it is not known to be one.
    pub fn minor_of(&self, file: &str) -> Option<u32> {
        match self.file_minors.get(file) {
            Some(minor) => *minor,
            None => file.strip_prefix("/dev/nvidia")?.parse().ok(),
        }
    }
}

/// The devices of a node, as the scheduler's daemon there prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonDevices {
    /// The scheduler whose daemon it is.
    pub scheduler: &'static SchedulerProfile,
    /// The devices in the order of the scheduler's indices; `None` if it did not tell.
    pub list: Option<Arc<[ListedDevice]>>,
    /// Why there is no list.
    pub error: Option<Arc<str>>,
    /// When the daemon started, by the node's clock.
    pub started_at: Option<Timestamp>,
    /// Its version, such as `22.05.8`.
    pub version: Option<Arc<str>>,
}

impl DaemonDevices {
    /// Returns true if anything is known of such a daemon.
    pub const fn is_shown(&self) -> bool {
        self.list.is_some()
            || self.error.is_some()
            || self.started_at.is_some()
            || self.version.is_some()
    }
}

/// The state of the files from which a daemon makes its list of devices, by the node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationState {
    /// When one of them last became what it is; `None` if they cannot be seen.
    pub changed_at: Option<Timestamp>,
    /// When that was looked at.
    pub checked_at: Option<Timestamp>,
    /// The daemon writes them itself as it reads them, so that they never differ from what it has read.
    pub is_cached: bool,
    /// Jobs can open no devices but their own; `None` if that cannot be read.
    pub confines_jobs: Option<bool>,
    /// When one of the files that say so last became what it is; `None` if they cannot be seen.
    pub confinement_changed_at: Option<Timestamp>,
}

/// A device, or slice, of a scheduler's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedDevice {
    /// The type that the administrator gave it, such as `h100`.
    pub kind: Option<Arc<str>>,
    /// Its device files, joined by commas.
    pub files: Arc<str>,
}

/// `gres.conf`, as far as it is about devices of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConfig {
    /// How devices are detected: `nvml`, `nvidia`, `rsmi`, `oneapi`, …; `None` if they are not.
    pub detection: Option<Arc<str>>,
    /// The devices of its lines, in the order of the file.
    pub devices: Arc<[ListedDevice]>,
}

/// A device as the driver lists it in `/proc/driver/nvidia/gpus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverDevice {
    /// The number of its device file.
    pub minor: u32,
    /// Its PCI address, such as `0000:17:00.0`.
    pub address: Arc<str>,
    /// Its UUID, if the driver tells.
    pub uuid: Option<Arc<str>>,
}

/// A MIG slice as the driver lists it in `/proc/driver/nvidia-caps/mig-minors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceCapability {
    /// The number of its capability file: `12` for `nvidia-cap12`.
    pub number: u32,
    /// The minor number of the device it is cut from.
    pub minor: u32,
    /// The id of its GPU instance.
    pub gpu_instance: u32,
    /// The id of its compute instance; `None` for the capability of the GPU instance.
    pub compute_instance: Option<u32>,
}

/// What was proved about a scheduler's list of the devices of a node. A device without slices, or a slice, is a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProvedIndices {
    /// The boot of the node in which it was proved.
    pub boot_id: Option<Arc<str>>,
    /// The UUIDs of the units, in the driver's order.
    pub units: Vec<Arc<str>>,
    /// Number of indices of the list.
    pub indices: usize,
    /// When the daemon started that made the list.
    pub started_at: Option<Timestamp>,
    /// The positions of the units that each index may mean; empty if nothing is known.
    pub meanings: Vec<Vec<u32>>,
    /// When the last job began that was certainly placed by the list; `None` if no end is known.
    pub until: Option<Timestamp>,
    /// The same meanings of the list before the daemon made it anew.
    pub earlier: Vec<Vec<u32>>,
    /// When the first job began that was certainly placed by that list; `None` if that is not known.
    pub earlier_since: Option<Timestamp>,
    /// When the last job began that was certainly placed by that list; `None` if that is not known.
    pub earlier_until: Option<Timestamp>,
    /// Something contradicted what had been proved.
    pub is_contradicted: bool,
}

impl ProvedIndices {
    /// Maximum number of units, and of indices, of a node; with more, nothing is concluded.
    pub const MAX_UNITS: usize = 127;
}

/// The device files that a job may open, by a control group that exists only where jobs are confined to their devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDeviceFiles {
    /// The job.
    pub job: JobId,
    /// The minor numbers of its devices; `None` if the group does not tell them.
    pub minors: Option<Arc<[u32]>>,
}
