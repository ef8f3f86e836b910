//! What the backend of TPUs reports of a simulated chip: the kernel tells where it is, the runtime of its process the rest.

use crate::sim::gpu::{Board, Gpu, MIB, Model, mark_unsupported};
use crate::sim::rng::{round_deci, to_u64};
use crate::sim::workload::Workload;
use crate::wire::body::{Device, Raw, Tpu};

/// A chip of a pod; it reports neither power nor clocks.
pub(crate) const V5P: Model = Model {
    name: "TPU v5p",
    memory_mib: 97_280,
    reserved_mib: 0,
    idle_watts: 0.0,
    limit_watts: 0.0,
    clock: 0.0,
    idle_clock: 0.0,
    memory_clock: 0.0,
    has_fan: false,
    board: Board::Tpu,
};

/// What the backend reports of no chip.
const UNSUPPORTED: [&str; 6] =
    ["temperature", "power", "power_limit", "clock_sm", "clock_memory", "fan"];

impl Gpu {
    /// Sets the values at `t`; texts and static ones only if `is_full`.
    pub(super) fn fill_tpu(&self, device: &mut Device, work: &Workload, t: f64, is_full: bool) {
        let load = self.load(work, t);
        device.util = round_deci(load).into();
        let used = self.used_mib(work, t) * MIB;
        device.memory_total = (self.memory_mib * MIB).into();
        device.memory_used = used.into();
        device.memory_free = (self.memory_mib * MIB - used).into();
        let tpu = device.tpu.get_or_insert_default();
        tpu.held = Raw::Value(true);
        tpu.hbm_util = round_deci(0.62 * load).into();
        tpu.queue = to_u64(2.5 + 2.5 * self.rng.branch(8).noise(t, 2.0)).into();
        tpu.idle = round_deci(work.checkpoint.seconds_on(t)).into();
        tpu.uptime = (t - work.lifetime(self.rng, t).began).floor().into();
        if is_full {
            self.fill_tpu_statics(tpu);
            device.name = Some(self.model.name.to_owned());
            device.pci = Some(self.pci.clone());
            let statics = device.statics.get_or_insert_default();
            statics.numa_node = u64::from(self.index / 2).into();
            mark_unsupported(device, &UNSUPPORTED);
        }
    }

    fn fill_tpu_statics(&self, tpu: &mut Tpu) {
        let text = |text: &str| Some(text.to_owned());
        tpu.nodes = Some(format!("/dev/vfio/{}", self.index));
        tpu.cores = 1.into();
        tpu.source = text("port 8431");
        tpu.trouble = text("none");
        tpu.framework = text("JAX 0.6.2");
        tpu.slice_error = text("none");
        tpu.megascale_error = text("none");
    }
}
