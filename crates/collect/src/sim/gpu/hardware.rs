//! What a simulated device reports beyond the basics: activity, traffic, energy, clocks, errors, limits.
//!
//! The slowly changing values are read every ten seconds only, as the probes do.

use crate::sim::gpu::{Gpu, MIB, Role, SimDeviceFault, mark_unsupported};
use crate::sim::rng::{Flow, Pulse, round_deci, to_u64};
use crate::sim::workload::{PAUSED_LOAD, Workload, WorkloadKind};
use crate::wire::body::{Device, DeviceCounters, DeviceDetails, Raw};

/// Seconds between two readings of the slowly changing values.
const SLOW_INTERVAL: f64 = 10.0;
/// Seconds that the driver was loaded before the fleet's start.
const DRIVER_AGE: f64 = 1_234_567.0;
const NANOSECONDS: f64 = 1e9;
/// NVML's health mask of a fabric without problems.
const HEALTHY_FABRIC: u64 = 0xaa;
/// NVML's number of a completed registration with the fabric.
const REGISTERED: u64 = 3;
/// NVML's number of the recovery action that resets the device.
const RESET: u64 = 1;

/// What a board can do, besides what its processor does.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) capability: &'static str,
    pub(super) pcie_generation: u64,
    pub(super) nvlinks: u64,
    pub(super) bar1_mib: u64,
    pub(super) least_watts: f64,
    /// It slows down at this temperature and ends itself five degrees above, in °C.
    pub(super) slowdown: f64,
    /// It has hardware counters of activity and is registered with a fabric.
    pub(super) has_activity: bool,
}

impl Gpu {
    /// Adds the values of a board at `t`.
    pub(super) fn fill_details(
        &self,
        hardware: &Hardware,
        device: &mut Device,
        work: &Workload,
        t: f64,
        is_full: bool,
    ) {
        let slow = (t / SLOW_INTERVAL).floor() * SLOW_INTERVAL;
        device.persistence = Raw::Value(true);
        device.pcie_generation = hardware.pcie_generation.into();
        device.pcie_lanes = 16.into();
        self.fill_counters(hardware, device.counters.get_or_insert_default(), work, t);
        self.fill_slow(hardware, device.details.get_or_insert_default(), work, slow);
        if hardware.has_activity && self.role == Role::Whole {
            self.fill_activity(device, work, t);
        }
        if is_full {
            self.fill_limits(hardware, device);
        }
    }

    /// Sets what the hardware counters say: which units were active, in %.
    pub(super) fn fill_activity(&self, device: &mut Device, work: &Workload, t: f64) {
        let load = self.load(work, t);
        // Graphics engine, multiprocessors, occupancy, tensor cores, memory, FP64, FP32, FP16.
        let shares = match work.kind {
            WorkloadKind::Training => [0.99, 0.86, 0.31, 0.52, 0.44, 0.0, 0.07, 0.05],
            // The kernels that wait for the other devices.
            WorkloadKind::Hung => [1.0, 0.17, 0.02, 0.0, 0.0, 0.0, 0.0, 0.0],
            WorkloadKind::Serving => [0.98, 0.71, 0.24, 0.33, 0.62, 0.0, 0.05, 0.04],
            WorkloadKind::Sweep | WorkloadKind::IdleHeld | WorkloadKind::Free => {
                [0.99, 0.78, 0.42, 0.08, 0.51, 0.19, 0.23, 0.01]
            }
        };
        let mut branch = 20;
        let activity = device.activity.get_or_insert_default();
        activity.activity = Raw::Value(shares.map(|share| {
            branch += 1;
            let ripple = 1.0 + 0.02 * self.rng.branch(branch).noise(t, 3.0);
            Raw::Value(round_deci((load * share * ripple).clamp(0.0, 100.0)))
        }));
        if self.role == Role::Whole {
            let watts = self.watts(work, t) * (1.0 + 0.02 * self.rng.branch(19).noise(t, 0.4));
            activity.power_instant = to_u64(watts * 1000.0).into();
        }
    }

    fn fill_counters(
        &self,
        hardware: &Hardware,
        counters: &mut DeviceCounters,
        work: &Workload,
        t: f64,
    ) {
        let age = DRIVER_AGE + t;
        // Bytes per second: received and sent over PCIe, then over NVLink.
        let [received, sent, link] = match work.kind {
            WorkloadKind::Training => [5.2e9, 1.9e9, 141e9],
            WorkloadKind::Serving => [0.9e9, 0.6e9, 37e9],
            WorkloadKind::Sweep => [1.3e9, 0.2e9, 0.0],
            WorkloadKind::Hung | WorkloadKind::IdleHeld | WorkloadKind::Free => [9e3, 4e3, 0.0],
        };
        let total = |name: u64, mean: f64| {
            let flow = self.flow(name, mean, work.pauses(self.rng));
            Raw::Value(to_u64(flow.total(DRIVER_AGE, t)))
        };
        counters.pcie_rx = total(30, received);
        counters.pcie_tx = total(32, sent);
        if hardware.nvlinks > 0 {
            counters.nvlink_rx = total(34, link);
            counters.nvlink_tx = total(36, link);
        }
        let throttled = |share: f64| Raw::Value(to_u64(share * age * NANOSECONDS));
        let (hot, lagging) = match self.fault {
            Some(SimDeviceFault::Hot) => (1.0, 0.0),
            Some(SimDeviceFault::Lagging) => (0.0, 1.0),
            Some(SimDeviceFault::Lost | SimDeviceFault::MemoryErrors) | None => (0.0, 0.0),
        };
        let is_capped = self.is_power_capped() && work.kind == WorkloadKind::Training;
        counters.held_power = throttled(if is_capped { 0.31 } else { 0.0 });
        counters.held_thermal = throttled(0.02 * hot);
        counters.held_hw_thermal = throttled(0.63 * hot);
        counters.held_power_brake = throttled(0.88 * lagging);
        counters.held_sync_boost = throttled(0.0);
    }

    /// Returns a rate that nearly stops in pauses.
    fn flow(&self, name: u64, mean: f64, pulse: Pulse) -> Flow {
        let mean = mean * self.rng.branch(name).range(0.95, 1.05);
        let period = self.rng.branch(name + 1).range(9.0, 17.0);
        Flow { mean, swing: 0.03, period, burst: -0.96 * mean, pulse }
    }

    fn fill_slow(&self, hardware: &Hardware, details: &mut DeviceDetails, work: &Workload, t: f64) {
        let has_errors = self.fault == Some(SimDeviceFault::MemoryErrors);
        let errors = |count: u64| Raw::Value(if has_errors { count } else { 0 });
        let watts = self.watts(work, t);
        let is_busy = self.load(work, t) >= 1.0;
        // The servers of requests read images.
        let is_decoding = work.kind == WorkloadKind::Serving;
        [details.decoder, details.jpeg] = [(21.0, 40), (8.0, 41)].map(|(mean, branch)| {
            let rng = self.rng.branch(branch);
            let share = if is_decoding { mean * (1.0 + 0.2 * rng.noise(t, 40.0)) } else { 0.0 };
            Raw::Value(share.round())
        });
        details.users = Raw::Value(true);
        details.encoder = 0.0.into();
        details.ofa = 0.0.into();
        details.power_average = to_u64(watts * 1000.0).into();
        details.power_limit_requested = to_u64(self.model.limit_watts * 1000.0).into();
        details.energy = to_u64(self.joules(work, t) * 1000.0).into();
        details.clock_graphics = to_u64(self.clock(is_busy, t)).into();
        details.clock_video = to_u64(self.clock(is_busy, t) * 0.78).into();
        details.temperature_margin = (hardware.slowdown - self.temperature(work, t)).round().into();
        details.display = Raw::Value(false);
        details.display_mode = Raw::Value(false);
        details.compute_mode = 0.into();
        details.ecc_mode = Raw::Value(true);
        details.ecc_corrected_total = errors(8_731 + to_u64((t / 7.0).max(0.0)));
        details.ecc_uncorrected_total = errors(3);
        details.remapped_corrected = errors(5);
        details.remapped_uncorrected = errors(1);
        details.remap_pending = Raw::Value(has_errors);
        details.remap_failed = Raw::Value(false);
        details.sram_threshold = Raw::Value(false);
        details.pcie_replays = u64::from(self.rng.branch(42).below(4)).into();
        let used = if is_busy { 21 } else { 1 };
        details.bar1_total = (hardware.bar1_mib * MIB).into();
        details.bar1_used = (used * MIB).into();
        details.bar1_free = ((hardware.bar1_mib - used) * MIB).into();
        details.recovery = errors(RESET);
        if has_errors {
            let count = u64::from(self.xid(f64::NEG_INFINITY, t).is_some());
            details.xid = 63.into();
            details.xids = count.max(1).into();
        }
        details.nvlinks_active = hardware.nvlinks.into();
        if hardware.has_activity {
            details.fabric = REGISTERED.into();
            details.fabric_health = HEALTHY_FABRIC.into();
        }
    }

    /// Returns the energy since the driver was loaded, in joules: the mean power over time, less in pauses.
    pub(super) fn joules(&self, work: &Workload, t: f64) -> f64 {
        let pauses = work.pauses(self.rng);
        let watts = |load| self.watts_at(work, self.own_load(load));
        let saved = watts(work.mean_load()) - watts(PAUSED_LOAD);
        let cycle = if work.kind == WorkloadKind::Serving {
            (watts(55.0) - watts(53.0)) / 2.0 * work.served_excess(t)
        } else {
            0.0
        };
        watts(work.mean_load()) * (DRIVER_AGE + t) - saved * pauses.on_seconds(t) + cycle
    }

    /// Sets what never changes, and what the board does not have.
    fn fill_limits(&self, hardware: &Hardware, device: &mut Device) {
        let model = self.model;
        let limit = Raw::Value(to_u64(model.limit_watts * 1000.0));
        let statics = device.statics.get_or_insert_default();
        statics.pcie_generation_max = hardware.pcie_generation.into();
        statics.pcie_lanes_max = 16.into();
        statics.power_limit_default = limit;
        statics.power_limit_min = to_u64(hardware.least_watts * 1000.0).into();
        statics.power_limit_max = limit;
        statics.clock_graphics_max = to_u64(model.clock).into();
        statics.clock_video_max = to_u64(model.clock * 0.78).into();
        statics.temperature_slowdown = hardware.slowdown.into();
        statics.temperature_shutdown = (hardware.slowdown + 5.0).into();
        statics.nvlinks = hardware.nvlinks.into();
        statics.numa_node = u64::from(self.index / 4).into();
        statics.capability = Some(hardware.capability.to_owned());
        // These boards remap rows instead.
        mark_unsupported(device, &["retired_single", "retired_double", "retired_pending"]);
        if !hardware.has_activity {
            mark_unsupported(device, &["activity", "fabric", "fabric_health"]);
        }
        if hardware.nvlinks == 0 {
            mark_unsupported(device, &["nvlink_tx", "nvlink_rx"]);
        }
    }
}
