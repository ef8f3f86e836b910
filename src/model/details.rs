//! Further values of a device: groups of readings, each stored once and shared.

use std::sync::Arc;

use crate::model::health::{ComputeMode, FabricHealth, FabricState, RecoveryAction};
use crate::model::reading::Reading;
use crate::model::unit::{Bytes, Celsius, Megahertz, Percent, Watts};
use crate::time::NodeTime;

/// Declares a group of readings that are updated one by one.
macro_rules! readings {
    (
        $(#[$doc:meta])*
        $group:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $group {
            $($(#[$field_doc])* pub $field: Reading<$kind>,)*
        }

        impl $group {
            /// Updates the values that `newer` sampled and keeps the rest.
            pub fn update_from(&mut self, newer: Self) {
                $(self.$field.update_from(newer.$field);)*
            }

            /// Returns the group, shared, unless nothing of it was sampled.
            pub fn shared(self) -> Option<Arc<Self>> {
                (self != Self::default()).then(|| Arc::new(self))
            }

            /// Updates the values of a newer group, if there is one.
            pub(super) fn merge(known: &mut Option<Arc<Self>>, newer: Option<Arc<Self>>) {
                match (known.as_mut(), newer) {
                    // What says nothing new stays shared with whoever holds it.
                    (Some(known), Some(newer)) if *known == newer => {}
                    (Some(known), Some(newer)) => {
                        Arc::make_mut(known).update_from(Arc::unwrap_or_clone(newer));
                    }
                    (None, Some(newer)) => *known = Some(newer),
                    (_, None) => {}
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
        /// `PCIe` generation and lanes at most.
        pcie_max: (u8, u8),
        /// CUDA compute capability, such as `9.0`.
        capability: Arc<str>,
        /// NUMA node of the host it is attached to.
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
        /// The junction is too hot from here.
        junction_slowdown_temperature: Celsius,
        /// The memory is too hot from here.
        memory_slowdown_temperature: Celsius,
        /// Host memory the device may use (GTT).
        host_memory_total: Bytes,
    }
}

readings! {
    /// What moves all the time while a device works, beyond what every screen shows: of this, each sample has
    /// something.
    DeviceActivity {
        /// Power at the moment.
        power_instant: Watts,
        /// Share of time anything ran; with those below, measured by the hardware.
        graphics_active: Percent,
        /// Share of multiprocessors busy.
        sm_active: Percent,
        /// Share of the warps there could be.
        sm_occupancy: Percent,
        /// Share of time the tensor cores worked.
        tensor_active: Percent,
        /// Share of the memory's bandwidth.
        dram_active: Percent,
        /// Share of time spent in double precision.
        fp64_active: Percent,
        /// Share of time spent in single precision.
        fp32_active: Percent,
        /// Share of time spent in half precision.
        fp16_active: Percent,
        /// Bytes received over `PCIe` each second, measured by the hardware where there are no counters.
        pcie_received: Bytes,
        /// Bytes sent over `PCIe` each second, likewise.
        pcie_sent: Bytes,
        /// Bytes received over all `NVLinks` each second, likewise.
        nvlink_received: Bytes,
        /// Bytes sent over all `NVLinks` each second, likewise.
        nvlink_sent: Bytes,
    }
}

readings! {
    /// What changes now and then while a device works, beyond what every screen shows.
    DeviceDetails {
        /// The driver reports its processes.
        reports_users: bool,
        /// Load of the video encoder.
        encoder: Percent,
        /// Load of the video decoder.
        decoder: Percent,
        /// Load of the JPEG engine.
        jpeg: Percent,
        /// Load of the optical flow engine.
        optical_flow: Percent,
        /// Power averaged over a second.
        power_average: Watts,
        /// Power limit somebody asked for.
        power_limit_requested: Watts,
        /// Energy spent since the driver was loaded, in millijoules.
        energy_millijoules: u64,
        /// Clock of the graphics engine.
        graphics_clock: Megahertz,
        /// Clock of the video engines.
        video_clock: Megahertz,
        /// Degrees left before clocks are held down.
        temperature_margin: Celsius,
        /// A display is attached and drawn on.
        display_active: bool,
        /// Who may use it.
        compute_mode: ComputeMode,
        /// Memory errors are corrected.
        ecc_enabled: bool,
        /// Corrected memory errors in its whole life.
        ecc_corrected_total: u64,
        /// Uncorrected memory errors in its whole life.
        ecc_uncorrected_total: u64,
        /// Memory pages given up for single bit errors.
        retired_single: u64,
        /// Memory pages given up for double bit errors.
        retired_double: u64,
        /// Pages wait for a reboot to be given up.
        retirement_pending: bool,
        /// Memory rows replaced for corrected errors.
        remapped_corrected: u64,
        /// Memory rows replaced for uncorrected errors.
        remapped_uncorrected: u64,
        /// Rows wait for a reset to be replaced.
        remapping_pending: bool,
        /// A row could not be replaced.
        remapping_failed: bool,
        /// So many errors in the on-chip memory that the device should be replaced.
        sram_threshold_exceeded: bool,
        /// `PCIe` packets sent again.
        pcie_replays: u64,
        /// Memory that can be mapped by the host.
        bar1_total: Bytes,
        /// Of it, mapped.
        bar1_used: Bytes,
        /// Of it, free.
        bar1_free: Bytes,
        /// State of its registration with the fabric of `NVLinks`.
        fabric: FabricState,
        /// What the fabric suffers from.
        fabric_health: FabricHealth,
        /// Recovery action that the driver recommends.
        recovery: RecoveryAction,
        /// The last Xid in this session.
        xid: u32,
        /// Number of Xids in this session.
        xids: u64,
        /// The counters of each `NVLink`.
        links: Arc<[LinkCounters]>,
        /// Host memory in use by the device (GTT).
        host_memory_used: Bytes,
        /// Junction (hotspot) temperature.
        junction_temperature: Celsius,
        /// Fan speed, in revolutions per minute.
        fan_rpm: u32,
        /// Load of the engine that encodes and decodes.
        video: Percent,
        /// How its clocks are chosen, in the driver's word.
        performance_level: Arc<str>,
        /// How its compute units are shared out, in the driver's word.
        compute_partition: Arc<str>,
        /// How its memory is shared out, in the driver's word.
        memory_partition: Arc<str>,
    }
}

readings! {
    /// Ever growing counters, from which [`DeviceRates`] are made.
    DeviceCounters {
        /// Bytes received over `PCIe`.
        pcie_received: u64,
        /// Bytes sent over `PCIe`.
        pcie_sent: u64,
        /// Bytes received over all `NVLinks`.
        nvlink_received: u64,
        /// Bytes sent over all `NVLinks`.
        nvlink_sent: u64,
        /// Nanoseconds of clocks held down by the power limit.
        power_throttled: u64,
        /// Nanoseconds of clocks held down by the driver for heat.
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
    /// Bytes received over `PCIe` each second.
    pub pcie_received: Reading<Bytes>,
    /// Bytes sent over `PCIe` each second.
    pub pcie_sent: Reading<Bytes>,
    /// Bytes received over all `NVLinks` each second.
    pub nvlink_received: Reading<Bytes>,
    /// Bytes sent over all `NVLinks` each second.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_keeps_what_the_next_sample_leaves_out() {
        let group = |encoder: Option<f32>, xids| DeviceDetails {
            encoder: encoder.and_then(Percent::new).map_or_else(Reading::default, Reading::Known),
            xids: Reading::Known(xids),
            ..DeviceDetails::default()
        };
        let mut known = group(Some(5.0), 1).shared();
        DeviceDetails::merge(&mut known, group(None, 2).shared());
        DeviceDetails::merge(&mut known, DeviceDetails::default().shared());
        assert_eq!(known, group(Some(5.0), 2).shared());
    }
}
