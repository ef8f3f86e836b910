//! Further values of a device: groups of readings, each stored once and shared.

use std::sync::Arc;

use crate::health::{ComputeMode, FabricHealth, FabricState, RecoveryAction};
use crate::reading::{Reading, Reason};
use crate::unit::{Bytes, Celsius, Megahertz, Percent, Watts};
use gtop_local::time::NodeTime;

/// Declares a group of readings that are completed one by one.
macro_rules! readings {
    (
        $(#[$doc:meta])*
        $group:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }
    ) => {
        crate::declare::completed! {
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $group {
                $($(#[$field_doc])* pub $field: Reading<$kind>,)*
            }
        }

        impl $group {
            /// Returns the group in an `Arc`; `None` if nothing of it was sampled.
            pub fn shared(self) -> Option<Arc<Self>> {
                (self != Self::default()).then(|| Arc::new(self))
            }

            /// Completes a newer group; one that tells the same is shared with earlier snapshots.
            pub(super) fn complete(self: &Arc<Self>, newer: &mut Option<Arc<Self>>) {
                if let Some(newer) = newer {
                    Arc::make_mut(newer).complete_from(self);
                }
                if newer.as_ref().is_none_or(|newer| newer == self) {
                    *newer = Some(Arc::clone(self));
                }
            }
        }
    };
}

pub(super) use readings;

readings! {
    /// Static properties of a device.
    DeviceStatics {
        /// Driver version.
        driver: Arc<str>,
        /// Highest clock of the multiprocessors.
        sm_clock_max: Megahertz,
        /// Highest clock of the memory.
        memory_clock_max: Megahertz,
        /// Maximum `PCIe` generation and lanes.
        pcie_max: (u8, u8),
        /// CUDA compute capability, such as `9.0`.
        capability: Arc<str>,
        /// NUMA node of the host that the device is attached to.
        numa_node: u32,
        /// Minor number of its device file: `3` of `/dev/nvidia3`.
        minor: u32,
        /// GPU instance id of a MIG slice.
        gpu_instance: u32,
        /// Compute instance id of a MIG slice.
        compute_instance: u32,
        /// Highest clock of the graphics engine.
        graphics_clock_max: Megahertz,
        /// Highest clock of the video engines.
        video_clock_max: Megahertz,
        /// Temperature at which the device throttles.
        slowdown_temperature: Celsius,
        /// Temperature at which the device shuts down.
        shutdown_temperature: Celsius,
        /// Default power limit.
        power_limit_default: Watts,
        /// Lowest settable power limit.
        power_limit_min: Watts,
        /// Highest settable power limit.
        power_limit_max: Watts,
        /// Number of `NVLinks`.
        nvlinks: u32,
        /// Junction temperature at which the device throttles.
        junction_slowdown_temperature: Celsius,
        /// Memory temperature at which the device throttles.
        memory_slowdown_temperature: Celsius,
        /// Host memory the device may use (GTT).
        host_memory_total: Bytes,
        /// The driver reports that it has no memory of its own and uses the host's.
        integrated: bool,
    }
}

readings! {
    /// Values that change all the time while a device is busy, beyond those of [`Device`](super::Device).
    DeviceActivity {
        /// Instantaneous power.
        power_instant: Watts,
        /// Share of time the graphics or compute engine was active; like those below, from hardware counters.
        graphics_active: Percent,
        /// Share of multiprocessors busy.
        sm_active: Percent,
        /// Active warps, as a share of the maximum.
        sm_occupancy: Percent,
        /// Share of time the tensor cores were active.
        tensor_active: Percent,
        /// Share of time the device memory was read or written.
        dram_active: Percent,
        /// Share of time the FP64 pipe was active.
        fp64_active: Percent,
        /// Share of time the FP32 pipe was active.
        fp32_active: Percent,
        /// Share of time the FP16 pipe was active.
        fp16_active: Percent,
        /// Bytes per second received over `PCIe`; from hardware counters, for devices without byte counters.
        pcie_received: Bytes,
        /// Bytes per second sent over `PCIe`, likewise.
        pcie_sent: Bytes,
        /// Bytes per second received over all `NVLinks`, likewise.
        nvlink_received: Bytes,
        /// Bytes per second sent over all `NVLinks`, likewise.
        nvlink_sent: Bytes,
    }
}

readings! {
    /// Values that change occasionally while a device is busy.
    DeviceDetails {
        /// The driver reports its processes.
        reports_users: bool,
        /// Utilization of the video encoder.
        encoder: Percent,
        /// Utilization of the video decoder.
        decoder: Percent,
        /// Utilization of the JPEG engine.
        jpeg: Percent,
        /// Utilization of the optical flow engine.
        optical_flow: Percent,
        /// Power, averaged over one second.
        power_average: Watts,
        /// Requested power limit.
        power_limit_requested: Watts,
        /// Energy used since the driver was loaded, in millijoules.
        energy_millijoules: u64,
        /// Clock of the graphics engine.
        graphics_clock: Megahertz,
        /// Clock of the video engines.
        video_clock: Megahertz,
        /// Degrees below the throttling temperature.
        temperature_margin: Celsius,
        /// A display is attached and active.
        display_active: bool,
        /// A display is connected, whether or not it is used.
        display_connected: bool,
        /// Which processes may use the device.
        compute_mode: ComputeMode,
        /// ECC is enabled.
        ecc_enabled: bool,
        /// Corrected memory errors over the lifetime of the device.
        ecc_corrected_total: u64,
        /// Uncorrected memory errors over the lifetime of the device.
        ecc_uncorrected_total: u64,
        /// Memory pages retired for single-bit errors.
        retired_single: u64,
        /// Memory pages retired for double-bit errors.
        retired_double: u64,
        /// Pages will be retired at the next reboot.
        retirement_pending: bool,
        /// Memory rows remapped for corrected errors.
        remapped_corrected: u64,
        /// Memory rows remapped for uncorrected errors.
        remapped_uncorrected: u64,
        /// Rows will be remapped at the next reset.
        remapping_pending: bool,
        /// A row could not be remapped.
        remapping_failed: bool,
        /// The SRAM error count has reached the threshold for replacing the device.
        sram_threshold_exceeded: bool,
        /// `PCIe` replays.
        pcie_replays: u64,
        /// Memory that the host can map (BAR1).
        bar1_total: Bytes,
        /// Mapped BAR1 memory.
        bar1_used: Bytes,
        /// Unmapped BAR1 memory.
        bar1_free: Bytes,
        /// State of its registration with the `NVLink` fabric.
        fabric: FabricState,
        /// Problems of the fabric.
        fabric_health: FabricHealth,
        /// Recovery action that the driver recommends.
        recovery: RecoveryAction,
        /// The last Xid in this session.
        xid: u32,
        /// Number of Xids in this session.
        xids: u64,
        /// Number of `NVLinks` that are up.
        nvlinks_active: u32,
        /// The counters of each `NVLink`.
        links: Arc<[LinkCounters]>,
        /// Host memory in use by the device (GTT).
        host_memory_used: Bytes,
        /// Junction (hotspot) temperature.
        junction_temperature: Celsius,
        /// Fan speed, in revolutions per minute.
        fan_rpm: u32,
        /// Utilization of the engine that encodes and decodes.
        video: Percent,
        /// The driver's performance level, such as `auto`.
        performance_level: Arc<str>,
        /// The driver's compute partition, such as `SPX`.
        compute_partition: Arc<str>,
        /// The driver's memory partition, such as `NPS1`.
        memory_partition: Arc<str>,
    }
}

readings! {
    /// Monotonic counters, from which [`DeviceRates`] are computed.
    DeviceCounters {
        /// Bytes received over `PCIe`.
        pcie_received: u64,
        /// Bytes sent over `PCIe`.
        pcie_sent: u64,
        /// Bytes received over all `NVLinks`.
        nvlink_received: u64,
        /// Bytes sent over all `NVLinks`.
        nvlink_sent: u64,
        /// Nanoseconds throttled by the power limit.
        power_throttled: u64,
        /// Nanoseconds throttled by the driver for temperature.
        thermal_throttled: u64,
        /// Nanoseconds throttled for sync boost.
        sync_boost_throttled: u64,
        /// Nanoseconds throttled by the hardware for temperature.
        hardware_thermal_throttled: u64,
        /// Nanoseconds throttled by the power brake.
        power_brake_throttled: u64,
    }
}

/// The counters of one `NVLink`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Sent.
    pub sent: Option<u64>,
    /// Received.
    pub received: Option<u64>,
}

/// Rates between two samples of the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRates {
    /// When the counters of `base` were sampled.
    pub at: NodeTime,
    /// The counters the next rates are computed against.
    pub base: Arc<DeviceCounters>,
    /// Bytes per second received over `PCIe`.
    pub pcie_received: Reading<Bytes>,
    /// Bytes per second sent over `PCIe`.
    pub pcie_sent: Reading<Bytes>,
    /// Bytes per second received over all `NVLinks`.
    pub nvlink_received: Reading<Bytes>,
    /// Bytes per second sent over all `NVLinks`.
    pub nvlink_sent: Reading<Bytes>,
    /// Share of time throttled by the power limit.
    pub power_throttled: Reading<Percent>,
    /// Share of time throttled by the driver for temperature.
    pub thermal_throttled: Reading<Percent>,
    /// Share of time throttled for sync boost.
    pub sync_boost_throttled: Reading<Percent>,
    /// Share of time throttled by the hardware for temperature.
    pub hardware_thermal_throttled: Reading<Percent>,
    /// Share of time throttled by the power brake.
    pub power_brake_throttled: Reading<Percent>,
}

impl DeviceRates {
    /// Returns true if a rate will be known with the next sample.
    pub fn needs_another_sample(&self) -> bool {
        let bytes = [self.pcie_received, self.pcie_sent, self.nvlink_received, self.nvlink_sent]
            .map(|rate| rate.reason());
        let shares = [
            self.power_throttled,
            self.thermal_throttled,
            self.sync_boost_throttled,
            self.hardware_thermal_throttled,
            self.power_brake_throttled,
        ]
        .map(|rate| rate.reason());
        bytes.into_iter().chain(shares).any(|reason| reason == Some(Reason::NeedsTwoSamples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_keeps_values_absent_from_the_next_sample() {
        let group = |encoder: Option<f32>, xids| DeviceDetails {
            encoder: encoder.and_then(Percent::new).map_or_else(Reading::default, Reading::Known),
            xids: Reading::Known(xids),
            ..DeviceDetails::default()
        };
        let known = group(Some(5.0), 1).shared().unwrap();
        let completed = |newer: DeviceDetails| {
            let mut newer = newer.shared();
            known.complete(&mut newer);
            newer.unwrap()
        };
        assert_eq!(DeviceDetails::default().shared(), None);
        assert_eq!(*completed(group(None, 2)), group(Some(5.0), 2));
        // What tells nothing new stays shared.
        for newer in [DeviceDetails::default(), group(None, 1)] {
            assert!(Arc::ptr_eq(&completed(newer), &known));
        }
    }
}
