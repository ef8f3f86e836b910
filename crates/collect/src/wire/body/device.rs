//! The JSON of typed devices and their users.
//!
//! Unchanged values may be left out: an absent value, or counter, is as before. If a device cannot report a
//! value, its key is `null` once and `lacks` gives the reason.
//!
//! The fields are in about the order in which probes write them, so that the frequent ones are found fastest.

use std::collections::BTreeMap;

use crate::wire::body::tpu::Tpu;
use crate::wire::raw::Raw;
use crate::wire::schema::{in_place, objects};

in_place! {
    pub struct Device => gtop_model::Device {
        /// UUID; required.
        pub uuid: String,
        /// UUID of the parent device, for a slice.
        pub parent?: Option<String>,
        /// The driver's index.
        pub index?: Raw<u64> => index ("index"),
        /// Model name.
        pub name?: Option<String>,
        /// PCI bus id.
        pub pci?: Option<String>,
        /// Percent.
        pub util?: Raw<f64> => utilization ("utilization.gpu"),
        /// Percent.
        pub memory_util?: Raw<f64> => memory_utilization ("utilization.memory"),
        /// Bytes.
        pub memory_total?: Raw<u64> => memory_total ("memory.total"),
        /// Bytes.
        pub memory_used?: Raw<u64> => memory_used ("memory.used"),
        /// Bytes.
        pub memory_free?: Raw<u64> => memory_free ("memory.free"),
        /// Bytes.
        pub memory_reserved?: Raw<u64> => memory_reserved ("memory.reserved"),
        /// Degrees Celsius.
        pub temperature?: Raw<f64> => temperature ("temperature.gpu"),
        /// Milliwatts.
        pub power?: Raw<u64> => power ("power.draw"),
        /// Milliwatts.
        pub power_limit?: Raw<u64> => power_limit,
        /// MHz.
        pub clock_sm?: Raw<u64> => sm_clock ("clocks.current.sm"),
        /// Degrees Celsius.
        pub temperature_memory?: Raw<f64> => memory_temperature ("temperature.memory"),
        /// MHz.
        pub clock_memory?: Raw<u64> => memory_clock ("clocks.current.memory"),
        /// Percent.
        pub fan?: Raw<f64> => fan ("fan.speed"),
        /// Performance state, 0 to 15.
        pub pstate?: Raw<u64> => performance_state ("pstate"),
        /// NVML's bits of the throttle reasons.
        pub throttle?: Raw<u64> => throttle ("clocks_throttle_reasons.active"),
        /// Corrected errors since the driver was loaded.
        pub ecc_corrected?: Raw<u64> => ecc_corrected ("ecc.errors.corrected.volatile.total"),
        /// Uncorrected errors since the driver was loaded.
        pub ecc_uncorrected?: Raw<u64> => ecc_uncorrected ("ecc.errors.uncorrected.volatile.total"),
        /// MIG mode is enabled.
        pub mig?: Raw<bool> => mig ("mig.mode.current"),
        /// Persistence mode: the driver stays loaded while the device is unused.
        pub persistence?: Raw<bool> => persistence ("persistence_mode"),
        /// Current `PCIe` generation.
        pub pcie_generation?: Raw<u64>,
        /// Current number of `PCIe` lanes.
        pub pcie_lanes?: Raw<u64>,
        /// Values that only TPU chips have.
        pub tpu?: Option<Box<Tpu>>,
        /// Why a value is `null`, by key.
        pub lacks?: BTreeMap<String, String>,
        /// `lost`, `reset`, `perm`, or the driver's message.
        pub fault?: Option<String>,
    }

    /// Counters that rates are computed from.
    pub struct DeviceCounters in counters => gtop_model::DeviceCounters {
        /// Nanoseconds throttled by the power limit.
        pub held_power?: Raw<u64> => power_throttled,
        /// Bytes sent over `PCIe`.
        pub pcie_tx?: Raw<u64> => pcie_sent,
        /// Bytes received over `PCIe`.
        pub pcie_rx?: Raw<u64> => pcie_received,
        /// Bytes sent over all `NVLinks`.
        pub nvlink_tx?: Raw<u64> => nvlink_sent,
        /// Bytes received over all `NVLinks`.
        pub nvlink_rx?: Raw<u64> => nvlink_received,
        /// Nanoseconds throttled by the driver because of temperature.
        pub held_thermal?: Raw<u64> => thermal_throttled,
        /// Nanoseconds throttled to stay in sync with the other devices of a sync boost group.
        pub held_sync_boost?: Raw<u64> => sync_boost_throttled,
        /// Nanoseconds throttled by the hardware because of temperature.
        pub held_hw_thermal?: Raw<u64> => hardware_thermal_throttled,
        /// Nanoseconds throttled by the power supply.
        pub held_power_brake?: Raw<u64> => power_brake_throttled,
    }

    /// Values that change all the time while a device is busy, beyond those of [`Device`].
    pub struct DeviceActivity in activity => gtop_model::DeviceActivity {
        /// Milliwatts, instantaneous.
        pub power_instant?: Raw<u64> => power_instant,
        /// Percent, from hardware counters: graphics engine active, multiprocessors active, occupancy, tensor
        /// cores active, memory bandwidth, and the FP64, FP32 and FP16 pipes active.
        pub activity?: Raw<[Raw<f64>; 8]>,
        /// MiB per second, from hardware counters, for devices without byte counters: sent and received over
        /// `PCIe`, received and sent over `NVLink`.
        pub flow?: Raw<[Raw<f64>; 4]>,
    }

    /// Values that change occasionally while a device is busy.
    pub struct DeviceDetails in details => gtop_model::DeviceDetails {
        /// True if the driver reports the device's processes.
        pub users?: Raw<bool> => reports_users,
        /// Utilization in percent.
        pub encoder?: Raw<f64> => encoder ("utilization.encoder"),
        /// Utilization in percent.
        pub decoder?: Raw<f64> => decoder ("utilization.decoder"),
        /// Milliwatts, averaged over one second.
        pub power_average?: Raw<u64> => power_average ("power.draw.average"),
        /// Milliwatts.
        pub power_limit_requested?: Raw<u64> => power_limit_requested,
        /// Millijoules since the driver was loaded.
        pub energy?: Raw<u64> => energy_millijoules,
        /// MHz.
        pub clock_graphics?: Raw<u64> => graphics_clock ("clocks.current.graphics"),
        /// MHz.
        pub clock_video?: Raw<u64> => video_clock ("clocks.current.video"),
        /// Degrees Celsius below the throttling temperature.
        pub temperature_margin?: Raw<f64> => temperature_margin ("temperature.gpu.tlimit"),
        /// A display is attached and active.
        pub display?: Raw<bool> => display_active ("display_active"),
        /// A display is connected.
        pub display_mode?: Raw<bool> => display_connected,
        /// NVML's number of the compute mode.
        pub compute_mode?: Raw<u64> => compute_mode ("compute_mode"),
        /// ECC is enabled.
        pub ecc_mode?: Raw<bool> => ecc_enabled ("ecc.mode.current"),
        /// Corrected errors over the device's lifetime.
        pub ecc_corrected_total?: Raw<u64> => ecc_corrected_total ("ecc.errors.corrected.aggregate.total"),
        /// Uncorrected errors over the device's lifetime.
        pub ecc_uncorrected_total?: Raw<u64> => ecc_uncorrected_total ("ecc.errors.uncorrected.aggregate.total"),
        /// Memory pages retired for single bit errors.
        pub retired_single?: Raw<u64> => retired_single ("retired_pages.single_bit_ecc.count"),
        /// Memory pages retired for double bit errors.
        pub retired_double?: Raw<u64> => retired_double ("retired_pages.double_bit.count"),
        /// Pages will be retired at the next reboot.
        pub retired_pending?: Raw<bool> => retirement_pending ("retired_pages.pending"),
        /// Memory rows remapped for corrected errors.
        pub remapped_corrected?: Raw<u64> => remapped_corrected ("remapped_rows.correctable"),
        /// Memory rows remapped for uncorrected errors.
        pub remapped_uncorrected?: Raw<u64> => remapped_uncorrected ("remapped_rows.uncorrectable"),
        /// Rows will be remapped at the next reset.
        pub remap_pending?: Raw<bool> => remapping_pending ("remapped_rows.pending"),
        /// A row could not be remapped.
        pub remap_failed?: Raw<bool> => remapping_failed ("remapped_rows.failure"),
        /// Number of `PCIe` replays; a counter.
        pub pcie_replays?: Raw<u64> => pcie_replays,
        /// Bytes sent and received over each `NVLink`; counters.
        pub links?: Option<Vec<[Raw<u64>; 2]>>,
        /// Bytes.
        pub bar1_total?: Raw<u64> => bar1_total,
        /// Bytes.
        pub bar1_used?: Raw<u64> => bar1_used,
        /// Bytes.
        pub bar1_free?: Raw<u64> => bar1_free,
        /// NVML's number of the fabric registration state.
        pub fabric?: Raw<u64> => fabric ("fabric.state"),
        /// NVML's bits of the fabric's health.
        pub fabric_health?: Raw<u64> => fabric_health ("fabric.health.summary"),
        /// NVML's number of the recovery action.
        pub recovery?: Raw<u64> => recovery ("gpu_recovery_action"),
        /// The last Xid of this session.
        pub xid?: Raw<u64> => xid,
        /// Number of Xids in this session.
        pub xids?: Raw<u64> => xids,
        /// Number of `NVLinks` that are up.
        pub nvlinks_active?: Raw<u64> => nvlinks_active,
        /// Utilization of the JPEG engine in percent.
        pub jpeg?: Raw<f64> => jpeg ("utilization.jpeg"),
        /// Utilization of the optical flow engine in percent.
        pub ofa?: Raw<f64> => optical_flow ("utilization.ofa"),
        /// The SRAM error count has reached the threshold for replacing the device.
        pub sram_threshold?: Raw<bool> => sram_threshold_exceeded ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"),
        /// Bytes.
        pub gtt_used?: Raw<u64> => host_memory_used,
        /// Degrees Celsius.
        pub temperature_junction?: Raw<f64> => junction_temperature,
        /// Revolutions per minute.
        pub fan_rpm?: Raw<u64> => fan_rpm,
        /// Utilization of the video engine in percent, where one engine encodes and decodes.
        pub video?: Raw<f64> => video,
        /// The driver's performance level, such as `auto`.
        pub performance_level?: Option<String> => performance_level,
        /// The driver's compute partition, such as `SPX`.
        pub compute_partition?: Option<String> => compute_partition,
        /// The driver's memory partition, such as `NPS1`.
        pub memory_partition?: Option<String> => memory_partition,
    }

    /// Values that do not change while a device is present.
    pub struct DeviceStatics in statics => gtop_model::DeviceStatics {
        /// Driver version.
        pub driver?: Option<String>,
        /// MHz.
        pub clock_sm_max?: Raw<u64> => sm_clock_max ("clocks.max.sm"),
        /// MHz.
        pub clock_memory_max?: Raw<u64> => memory_clock_max ("clocks.max.memory"),
        /// Maximum `PCIe` generation.
        pub pcie_generation_max?: Raw<u64>,
        /// Maximum number of `PCIe` lanes.
        pub pcie_lanes_max?: Raw<u64>,
        /// Milliwatts.
        pub power_limit_default?: Raw<u64> => power_limit_default ("power.default_limit"),
        /// Milliwatts.
        pub power_limit_min?: Raw<u64> => power_limit_min ("power.min_limit"),
        /// Milliwatts.
        pub power_limit_max?: Raw<u64> => power_limit_max ("power.max_limit"),
        /// MHz.
        pub clock_graphics_max?: Raw<u64> => graphics_clock_max ("clocks.max.graphics"),
        /// MHz.
        pub clock_video_max?: Raw<u64> => video_clock_max,
        /// Throttling temperature in degrees Celsius.
        pub temperature_slowdown?: Raw<f64> => slowdown_temperature,
        /// Shutdown temperature in degrees Celsius.
        pub temperature_shutdown?: Raw<f64> => shutdown_temperature,
        /// Number of `NVLinks`.
        pub nvlinks?: Raw<u64> => nvlinks,
        /// NUMA node.
        pub numa_node?: Raw<u64> => numa_node,
        /// Minor number of the device file.
        pub minor?: Raw<u64> => minor,
        /// True if it has no memory of its own and uses the host's, according to the driver.
        pub integrated?: Raw<bool> => integrated,
        /// CUDA compute capability.
        pub capability?: Option<String>,
        /// GPU instance id of a slice.
        pub gpu_instance?: Raw<u64> => gpu_instance,
        /// Compute instance id of a slice.
        pub compute_instance?: Raw<u64> => compute_instance,
        /// Bytes of host memory that the device may use.
        pub gtt_total?: Raw<u64> => host_memory_total,
        /// Throttling temperature of the junction in degrees Celsius.
        pub junction_slowdown?: Raw<f64> => junction_slowdown_temperature,
        /// Throttling temperature of the memory in degrees Celsius.
        pub memory_slowdown?: Raw<f64> => memory_slowdown_temperature,
    }
}

objects! {
    /// Processes that use devices, typed.
    pub struct Uses {
        /// Seconds of the probe's clock.
        pub at: f64,
        pub list: Vec<Use>,
        /// Number of processes that the driver lists without a pid, by the UUID of the device.
        pub nameless?: BTreeMap<String, u32>,
    }
}

in_place! {
    /// One process's use of one device; values unchanged since the last list may be left out.
    pub struct Use => gtop_model::DeviceUse {
        /// UUID of the device; if absent, the device of the previous entry.
        pub device?: String,
        /// Process id; required.
        pub pid: u32,
        /// Bytes of device memory.
        pub memory?: Raw<u64> => memory,
        /// Utilization in percent.
        pub sm?: Raw<f64> => sm,
        /// Memory utilization in percent.
        pub mem?: Raw<f64> => memory_utilization,
        /// Encoder utilization in percent.
        pub enc?: Raw<f64> => encoder,
        /// Decoder utilization in percent.
        pub dec?: Raw<f64> => decoder,
        /// Percent of the compute units in use.
        pub occupancy?: Raw<f64> => occupancy,
        /// `C` for compute, `G` for graphics, `C+G` for both.
        pub kind?: Option<String>,
        /// Why a value is `null`, by key.
        pub lacks?: BTreeMap<String, String>,
    }
}
