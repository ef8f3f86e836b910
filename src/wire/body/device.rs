//! The JSON of typed devices and their users.
//!
//! Unchanged values may be left out: an absent value, or counter, is as before. If a device cannot report a
//! value, its key is `null` once and `lacks` gives the reason.
//!
//! The fields are in about the order in which probes write them, so that the frequent ones are found fastest.

use serde::{Deserialize, Serialize};

use crate::wire::body::tpu::Tpu;
use crate::wire::in_place::in_place;
use crate::wire::raw::Raw;

in_place! {
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Device {
        /// UUID; required.
        pub uuid: String,
        /// UUID of the parent device, for a slice.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
        /// The driver's index.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub index: Raw<u64>,
        /// Model name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        /// PCI bus id.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pci: Option<String>,
        /// Percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub util: Raw<f64>,
        /// Percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_util: Raw<f64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_total: Raw<u64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_used: Raw<u64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_free: Raw<u64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_reserved: Raw<u64>,
        /// Degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature: Raw<f64>,
        /// Milliwatts.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power: Raw<u64>,
        /// Milliwatts.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_limit: Raw<u64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_sm: Raw<u64>,
        /// Degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_memory: Raw<f64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_memory: Raw<u64>,
        /// Percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fan: Raw<f64>,
        /// Performance state, 0 to 15.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pstate: Raw<u64>,
        /// NVML's bits of the throttle reasons.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub throttle: Raw<u64>,
        /// Corrected errors since the driver was loaded.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_corrected: Raw<u64>,
        /// Uncorrected errors since the driver was loaded.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_uncorrected: Raw<u64>,
        /// MIG mode is enabled.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub mig: Raw<bool>,
        /// Persistence mode: the driver stays loaded while the device is unused.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub persistence: Raw<bool>,
        /// Current `PCIe` generation.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_generation: Raw<u64>,
        /// Current number of `PCIe` lanes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_lanes: Raw<u64>,
        /// Values that only TPU chips have.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tpu: Option<Box<Tpu>>,
        /// Why a value is `null`, by key.
        #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        pub lacks: std::collections::BTreeMap<String, String>,
        /// `lost`, `reset`, `perm`, or the driver's message.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fault: Option<String>,
    }

    /// Counters that rates are computed from.
    pub struct DeviceCounters in counters {
        /// Nanoseconds throttled by the power limit.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_power: Raw<u64>,
        /// Bytes sent over `PCIe`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_tx: Raw<u64>,
        /// Bytes received over `PCIe`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_rx: Raw<u64>,
        /// Bytes sent over all `NVLinks`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub nvlink_tx: Raw<u64>,
        /// Bytes received over all `NVLinks`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub nvlink_rx: Raw<u64>,
        /// Nanoseconds throttled by the driver because of temperature.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_thermal: Raw<u64>,
        /// Nanoseconds throttled to stay in sync with the other devices of a sync boost group.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_sync_boost: Raw<u64>,
        /// Nanoseconds throttled by the hardware because of temperature.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_hw_thermal: Raw<u64>,
        /// Nanoseconds throttled by the power supply.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_power_brake: Raw<u64>,
    }

    /// Values that change all the time while a device is busy, beyond those of [`Device`].
    pub struct DeviceActivity in activity {
        /// Milliwatts, instantaneous.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_instant: Raw<u64>,
        /// Percent, from hardware counters: graphics engine active, multiprocessors active, occupancy, tensor
        /// cores active, memory bandwidth, and the FP64, FP32 and FP16 pipes active.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub activity: Raw<[Raw<f64>; 8]>,
        /// MiB per second, from hardware counters, for devices without byte counters: sent and received over
        /// `PCIe`, received and sent over `NVLink`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub flow: Raw<[Raw<f64>; 4]>,
    }

    /// Values that change occasionally while a device is busy.
    pub struct DeviceDetails in details {
        /// True if the driver reports the device's processes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub users: Raw<bool>,
        /// Utilization in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub encoder: Raw<f64>,
        /// Utilization in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub decoder: Raw<f64>,
        /// Milliwatts, averaged over one second.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_average: Raw<u64>,
        /// Milliwatts.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_limit_requested: Raw<u64>,
        /// Millijoules since the driver was loaded.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub energy: Raw<u64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_graphics: Raw<u64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_video: Raw<u64>,
        /// Degrees Celsius below the throttling temperature.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_margin: Raw<f64>,
        /// A display is attached and active.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub display: Raw<bool>,
        /// NVML's number of the compute mode.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub compute_mode: Raw<u64>,
        /// ECC is enabled.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_mode: Raw<bool>,
        /// Corrected errors over the device's lifetime.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_corrected_total: Raw<u64>,
        /// Uncorrected errors over the device's lifetime.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_uncorrected_total: Raw<u64>,
        /// Memory pages retired for single bit errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub retired_single: Raw<u64>,
        /// Memory pages retired for double bit errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub retired_double: Raw<u64>,
        /// Pages will be retired at the next reboot.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub retired_pending: Raw<bool>,
        /// Memory rows remapped for corrected errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remapped_corrected: Raw<u64>,
        /// Memory rows remapped for uncorrected errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remapped_uncorrected: Raw<u64>,
        /// Rows will be remapped at the next reset.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remap_pending: Raw<bool>,
        /// A row could not be remapped.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remap_failed: Raw<bool>,
        /// Number of `PCIe` replays; a counter.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_replays: Raw<u64>,
        /// Bytes sent and received over each `NVLink`; counters.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub links: Option<Vec<[Raw<u64>; 2]>>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub bar1_total: Raw<u64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub bar1_used: Raw<u64>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub bar1_free: Raw<u64>,
        /// NVML's number of the fabric registration state.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fabric: Raw<u64>,
        /// NVML's bits of the fabric's health.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fabric_health: Raw<u64>,
        /// NVML's number of the recovery action.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub recovery: Raw<u64>,
        /// The last Xid of this session.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub xid: Raw<u64>,
        /// Number of Xids in this session.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub xids: Raw<u64>,
        /// Utilization of the JPEG engine in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub jpeg: Raw<f64>,
        /// Utilization of the optical flow engine in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ofa: Raw<f64>,
        /// The SRAM error count has reached the threshold for replacing the device.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub sram_threshold: Raw<bool>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub gtt_used: Raw<u64>,
        /// Degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_junction: Raw<f64>,
        /// Revolutions per minute.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fan_rpm: Raw<u64>,
        /// Utilization of the video engine in percent, where one engine encodes and decodes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub video: Raw<f64>,
        /// The driver's performance level, such as `auto`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub performance_level: Option<String>,
        /// The driver's compute partition, such as `SPX`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub compute_partition: Option<String>,
        /// The driver's memory partition, such as `NPS1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub memory_partition: Option<String>,
    }

    /// Values that do not change while a device is present.
    pub struct DeviceStatics in statics {
        /// Driver version.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub driver: Option<String>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_sm_max: Raw<u64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_memory_max: Raw<u64>,
        /// Maximum `PCIe` generation.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_generation_max: Raw<u64>,
        /// Maximum number of `PCIe` lanes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_lanes_max: Raw<u64>,
        /// Milliwatts.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_limit_default: Raw<u64>,
        /// Milliwatts.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_limit_min: Raw<u64>,
        /// Milliwatts.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_limit_max: Raw<u64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_graphics_max: Raw<u64>,
        /// MHz.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub clock_video_max: Raw<u64>,
        /// Throttling temperature in degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_slowdown: Raw<f64>,
        /// Shutdown temperature in degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_shutdown: Raw<f64>,
        /// Number of `NVLinks`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub nvlinks: Raw<u64>,
        /// NUMA node.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub numa_node: Raw<u64>,
        /// Minor number of the device file.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub minor: Raw<u64>,
        /// CUDA compute capability.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub capability: Option<String>,
        /// GPU instance id of a slice.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub gpu_instance: Raw<u64>,
        /// Compute instance id of a slice.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub compute_instance: Raw<u64>,
        /// Bytes of host memory that the device may use.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub gtt_total: Raw<u64>,
        /// Throttling temperature of the junction in degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub junction_slowdown: Raw<f64>,
        /// Throttling temperature of the memory in degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_slowdown: Raw<f64>,
    }
}

/// Processes that use devices, typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uses {
    /// Seconds of the probe's clock.
    pub at: f64,
    pub list: Vec<Use>,
}

in_place! {
    /// One process's use of one device; values unchanged since the last list may be left out.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Use {
        /// UUID of the device; if absent, the device of the previous entry.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub device: String,
        /// Process id; required.
        pub pid: u32,
        /// Bytes of device memory.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory: Raw<u64>,
        /// Utilization in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub sm: Raw<f64>,
        /// Memory utilization in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub mem: Raw<f64>,
        /// Encoder utilization in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub enc: Raw<f64>,
        /// Decoder utilization in percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub dec: Raw<f64>,
        /// Percent of the compute units in use.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub occupancy: Raw<f64>,
        /// `C` for compute, `G` for graphics, `C+G` for both.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kind: Option<String>,
    }
}
