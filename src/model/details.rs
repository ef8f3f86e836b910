//! What is known of a device beyond the everyday: groups of readings, each held once and shared.

use std::sync::Arc;

use crate::model::health::{ComputeMode, FabricHealth, FabricState, RecoveryAction};
use crate::model::reading::Reading;
use crate::model::unit::{Bytes, Celsius, Megahertz, Percent, Watts};
use crate::time::NodeTime;

/// Declares a group of readings that are taken over one by one.
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
            /// Takes over what `newer` sampled and keeps the rest.
            pub fn update_from(&mut self, newer: Self) {
                $(self.$field.update_from(newer.$field);)*
            }

            /// Returns the group, shared, unless nothing of it was sampled.
            pub fn shared(self) -> Option<Arc<Self>> {
                (self != Self::default()).then(|| Arc::new(self))
            }

            /// Takes over what a newer group sampled, if there is one.
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
    /// What does not change while a device is there.
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
        /// The part of the host's memory it is close to.
        numa_node: u32,
        /// The number of its device file: `3` of `/dev/nvidia3`.
        minor: u32,
        /// Of a slice: its GPU instance.
        gpu_instance: u32,
        /// Of a slice: its compute instance.
        compute_instance: u32,
        /// Highest clock of the graphics engine.
        graphics_clock_max: Megahertz,
        /// Highest clock of the video engines.
        video_clock_max: Megahertz,
        /// Clocks are held down from here.
        slowdown_temperature: Celsius,
        /// It turns off from here.
        shutdown_temperature: Celsius,
        /// Power limit it came with.
        power_limit_default: Watts,
        /// Lowest power limit there can be.
        power_limit_min: Watts,
        /// Highest power limit there can be.
        power_limit_max: Watts,
        /// Number of `NVLinks`.
        nvlinks: u32,
        /// The junction is too hot from here.
        junction_slowdown_temperature: Celsius,
        /// The memory is too hot from here.
        memory_slowdown_temperature: Celsius,
        /// Memory of the host that it may use as its own.
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
        /// The driver says who uses it.
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
        /// What would bring it back to health.
        recovery: RecoveryAction,
        /// The last Xid of this session.
        xid: u32,
        /// How many there were.
        xids: u64,
        /// The counters of each `NVLink`.
        links: Arc<[LinkCounters]>,
        /// Memory of the host that it uses as its own.
        host_memory_used: Bytes,
        /// Temperature of the hottest place.
        junction_temperature: Celsius,
        /// Turns of the fan in a minute.
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
        /// Nanoseconds of clocks held down for other devices of its group.
        sync_boost_throttled: u64,
        /// Nanoseconds of clocks held down by the hardware for heat.
        hardware_thermal_throttled: u64,
        /// Nanoseconds of clocks held down by the power supply.
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

/// What two samples of the counters say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRates {
    /// When the counters of `base` were sampled.
    pub at: NodeTime,
    /// What the next rates are taken against.
    pub base: Arc<DeviceCounters>,
    /// Bytes received over `PCIe` each second.
    pub pcie_received: Reading<Bytes>,
    /// Bytes sent over `PCIe` each second.
    pub pcie_sent: Reading<Bytes>,
    /// Bytes received over all `NVLinks` each second.
    pub nvlink_received: Reading<Bytes>,
    /// Bytes sent over all `NVLinks` each second.
    pub nvlink_sent: Reading<Bytes>,
    /// Share of time the power limit held clocks down.
    pub power_throttled: Reading<Percent>,
    /// Share of time the driver held them down for heat.
    pub thermal_throttled: Reading<Percent>,
    /// Share of time they were held down for other devices of its group.
    pub sync_boost_throttled: Reading<Percent>,
    /// Share of time the hardware held them down for heat.
    pub hardware_thermal_throttled: Reading<Percent>,
    /// Share of time the power supply held them down.
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
