//! The JSON of devices and of who uses them, typed.
//!
//! A value that has not changed may be left out: what is absent is as it was. So a counter that is left out
//! stands still. Where a device refuses a value, its key is `null` once and `lacks` says why.
//!
//! Keys stand nearly in the order in which probes write those that move all the time: so they are found soonest.

use serde::{Deserialize, Serialize};

use crate::wire::body::tpu::Tpu;
use crate::wire::in_place::in_place;
use crate::wire::raw::Raw;

in_place! {
    /// One device, typed.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Device {
        /// Identity; needed.
        pub uuid: String,
        /// The device it is a slice of.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
        /// The driver's number.
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
        /// 0 to 15.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pstate: Raw<u64>,
        /// NVML's bits.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub throttle: Raw<u64>,
        /// Corrected errors since the driver was loaded.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_corrected: Raw<u64>,
        /// Uncorrected errors since the driver was loaded.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_uncorrected: Raw<u64>,
        /// Split into MIG slices.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub mig: Raw<bool>,
        /// The driver stays loaded when nobody uses the device.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub persistence: Raw<bool>,
        /// `PCIe` generation now.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_generation: Raw<u64>,
        /// `PCIe` lanes now.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_lanes: Raw<u64>,
        /// What only a TPU chip tells.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tpu: Option<Box<Tpu>>,
        /// Why a key is `null`, by key.
        #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        pub lacks: std::collections::BTreeMap<String, String>,
        /// `lost`, `reset`, `perm`, or words.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fault: Option<String>,
    }

    /// Counters from which rates are made.
    pub struct DeviceCounters in counters {
        /// Nanoseconds of clocks held down by the power limit.
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
        /// Nanoseconds of clocks held down by the driver for heat.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_thermal: Raw<u64>,
        /// Nanoseconds, for other devices of its group.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_sync_boost: Raw<u64>,
        /// Nanoseconds, by the hardware for heat.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_hw_thermal: Raw<u64>,
        /// Nanoseconds, by the power supply.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub held_power_brake: Raw<u64>,
    }

    /// What moves all the time while a device works, beyond what every screen shows.
    pub struct DeviceActivity in activity {
        /// Milliwatts, at this moment.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub power_instant: Raw<u64>,
        /// Percent, measured by the hardware: time anything ran, multiprocessors busy, warps of those there could
        /// be, time the tensor cores worked, bandwidth of the memory, time in double, single and half precision.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub activity: Raw<[Raw<f64>; 8]>,
        /// MiB a second, measured by the hardware, where there are no counters: sent and received over `PCIe`,
        /// received and sent over `NVLink`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub flow: Raw<[Raw<f64>; 4]>,
    }

    /// What changes now and then while a device works.
    pub struct DeviceDetails in details {
        /// Who uses it is told.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub users: Raw<bool>,
        /// Percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub encoder: Raw<f64>,
        /// Percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub decoder: Raw<f64>,
        /// Milliwatts, averaged over a second.
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
        /// Degrees Celsius left before clocks are held down.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_margin: Raw<f64>,
        /// A display is attached and drawn on.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub display: Raw<bool>,
        /// NVML's number of the compute mode.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub compute_mode: Raw<u64>,
        /// Memory errors are corrected.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_mode: Raw<bool>,
        /// Corrected errors in its whole life.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_corrected_total: Raw<u64>,
        /// Uncorrected errors in its whole life.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ecc_uncorrected_total: Raw<u64>,
        /// Memory pages given up for single bit errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub retired_single: Raw<u64>,
        /// Memory pages given up for double bit errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub retired_double: Raw<u64>,
        /// Pages wait for a reboot to be given up.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub retired_pending: Raw<bool>,
        /// Memory rows replaced for corrected errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remapped_corrected: Raw<u64>,
        /// Memory rows replaced for uncorrected errors.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remapped_uncorrected: Raw<u64>,
        /// Rows wait for a reset to be replaced.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remap_pending: Raw<bool>,
        /// A row could not be replaced.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub remap_failed: Raw<bool>,
        /// `PCIe` packets sent again; a counter.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_replays: Raw<u64>,
        /// Bytes sent and received by each `NVLink`; counters.
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
        /// NVML's number of the state of its registration with the fabric.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fabric: Raw<u64>,
        /// NVML's bits of the fabric's health.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fabric_health: Raw<u64>,
        /// NVML's number of what would bring it back to health.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub recovery: Raw<u64>,
        /// The last Xid of this session.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub xid: Raw<u64>,
        /// How many there were.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub xids: Raw<u64>,
        /// Percent of the JPEG engine.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub jpeg: Raw<f64>,
        /// Percent of the optical flow engine.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub ofa: Raw<f64>,
        /// So many errors in the on-chip memory that the device should be replaced.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub sram_threshold: Raw<bool>,
        /// Bytes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub gtt_used: Raw<u64>,
        /// Degrees Celsius.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_junction: Raw<f64>,
        /// Turns a minute.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub fan_rpm: Raw<u64>,
        /// Percent of the engine that encodes and decodes.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub video: Raw<f64>,
        /// The driver's word for how its clocks are chosen, such as `auto`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub performance_level: Option<String>,
        /// The driver's word for how its compute units are shared out, such as `SPX`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub compute_partition: Option<String>,
        /// The driver's word for how its memory is shared out, such as `NPS1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub memory_partition: Option<String>,
    }

    /// What does not change while a device is there.
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
        /// `PCIe` generation at most.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub pcie_generation_max: Raw<u64>,
        /// `PCIe` lanes at most.
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
        /// Degrees Celsius at which clocks are held down.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_slowdown: Raw<f64>,
        /// Degrees Celsius at which it turns off.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub temperature_shutdown: Raw<f64>,
        /// Number of `NVLinks`.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub nvlinks: Raw<u64>,
        /// The part of the host's memory it is close to.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub numa_node: Raw<u64>,
        /// The number of its device file.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub minor: Raw<u64>,
        /// CUDA compute capability.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub capability: Option<String>,
        /// Of a slice: its GPU instance.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub gpu_instance: Raw<u64>,
        /// Of a slice: its compute instance.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub compute_instance: Raw<u64>,
        /// Bytes of the host's memory that it may use as its own.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub gtt_total: Raw<u64>,
        /// Degrees Celsius at which the junction is too hot.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub junction_slowdown: Raw<f64>,
        /// Degrees Celsius at which the memory is too hot.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory_slowdown: Raw<f64>,
    }
}

/// Who uses the devices, typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uses {
    /// Seconds of the probe's clock.
    pub at: f64,
    /// The uses.
    pub list: Vec<Use>,
}

in_place! {
    /// One process's use of one device; what has not changed since the last list may be left out.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Use {
        /// The device; a use without it is of the same device as the one before.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub device: String,
        /// The process; needed.
        pub pid: u32,
        /// Bytes of device memory.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub memory: Raw<u64>,
        /// Percent.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub sm: Raw<f64>,
        /// Percent of time its kernels used the memory.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub mem: Raw<f64>,
        /// Percent of the encoder.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub enc: Raw<f64>,
        /// Percent of the decoder.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub dec: Raw<f64>,
        /// Percent of the compute units it keeps busy.
        #[serde(skip_serializing_if = "Raw::is_absent")]
        pub occupancy: Raw<f64>,
        /// `C` computes, `G` draws, `C+G` does both.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kind: Option<String>,
    }
}
