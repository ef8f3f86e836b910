//! What the backend of AMD reports of a simulated card: an accelerator without a fan and without a sensor at its edge.

use crate::sim::gpu::{Board, Gpu, MIB, Model, POWER_CAP, mark_unsupported};
use crate::sim::rng::{round_deci, to_u64};
use crate::sim::workload::{Workload, WorkloadKind};
use crate::wire::body::{Device, Raw};

pub(crate) const MI300X: Model = Model {
    name: "AMD Instinct MI300X",
    memory_mib: 196_592,
    reserved_mib: 0,
    idle_watts: 138.0,
    limit_watts: 750.0,
    clock: 2100.0,
    idle_clock: 132.0,
    memory_clock: 1300.0,
    has_fan: false,
    board: Board::Amd,
};

/// The version of the driver.
pub(super) const DRIVER: &str = "6.10.5";

/// The host's memory that a card may use, and what it uses when idle, in MiB.
const GTT_TOTAL_MIB: u64 = 1_031_720;
const GTT_USED_MIB: u64 = 26;

/// What the driver does not report of such cards.
const UNSUPPORTED: [&str; 7] = [
    "fan",
    "fan_rpm",
    "video",
    "power_average",
    "power_limit_default",
    "power_limit_min",
    "power_limit_max",
];

impl Gpu {
    /// Sets the values at `t`; static ones only if `is_full`.
    pub(super) fn fill_amd(&self, device: &mut Device, work: &Workload, t: f64, is_full: bool) {
        let load = self.load(work, t);
        let is_busy = load >= 1.0;
        let heat = round_deci(self.temperature(work, t) + 9.0);
        let milliwatts = Raw::Value(to_u64(self.watts(work, t) * 1000.0));
        device.util = load.round().into();
        device.memory_util = work.memory_load(load).into();
        self.fill_memory(device, work, t);
        device.memory_reserved = Raw::Absent;
        // The hottest spot, as there is no sensor at the edge.
        device.temperature = heat.into();
        device.temperature_memory = round_deci(heat - 4.0).into();
        device.power = milliwatts;
        device.power_limit = to_u64(self.model.limit_watts * 1000.0).into();
        device.clock_sm = to_u64(self.clock(is_busy, t)).into();
        device.clock_memory = to_u64(if is_busy { self.model.memory_clock } else { 900.0 }).into();
        let is_capped = work.kind == WorkloadKind::Training && self.is_power_capped();
        device.throttle = Raw::Value(if is_capped { POWER_CAP } else { 0 });
        device.ecc_corrected = 0.into();
        device.ecc_uncorrected = 0.into();
        device.pcie_generation = 5.into();
        device.pcie_lanes = 16.into();
        device.activity.get_or_insert_default().power_instant = milliwatts;
        let details = device.details.get_or_insert_default();
        details.gtt_used = (GTT_USED_MIB * MIB).into();
        details.temperature_junction = heat.into();
        details.energy = to_u64(self.joules(work, t) * 1000.0).into();
        details.pcie_replays = 0.into();
        details.retired_pending = Raw::Value(false);
        let counters = device.counters.get_or_insert_default();
        counters.held_power = 0.into();
        counters.held_thermal = 0.into();
        counters.held_hw_thermal = 0.into();
        if is_full {
            self.fill_amd_statics(device);
        }
    }

    fn fill_amd_statics(&self, device: &mut Device) {
        device.name = Some(self.model.name.to_owned());
        device.pci = Some(self.pci.clone());
        let details = device.details.get_or_insert_default();
        details.performance_level = Some("auto".to_owned());
        details.compute_partition = Some("SPX".to_owned());
        details.memory_partition = Some("NPS1".to_owned());
        let statics = device.statics.get_or_insert_default();
        statics.driver = Some(DRIVER.to_owned());
        statics.numa_node = u64::from(self.index / 4).into();
        statics.clock_sm_max = to_u64(self.model.clock).into();
        statics.clock_memory_max = to_u64(self.model.memory_clock).into();
        statics.pcie_generation_max = 5.into();
        statics.pcie_lanes_max = 16.into();
        statics.gtt_total = (GTT_TOTAL_MIB * MIB).into();
        statics.temperature_slowdown = 100.0.into();
        statics.temperature_shutdown = 105.0.into();
        statics.junction_slowdown = 100.0.into();
        statics.memory_slowdown = 105.0.into();
        mark_unsupported(device, &UNSUPPORTED);
    }
}
