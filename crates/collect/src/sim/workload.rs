//! Workloads of a simulated node: jobs, owners, processes, and the load that they cause.

use std::f64::consts::TAU;

use crate::sim::job_traces;
use crate::sim::rng::{Pulse, Rng, random_uuid, to_u64};
use crate::sim::scenario::{FleetSpec, NodeRole};

#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
}

/// The user who looks at the demo, as whom the probes run.
pub(crate) const YOU: &str = "ada";
/// Their uid.
pub(crate) const YOUR_UID: u32 = 1001;

const ADA: Owner = Owner { name: YOU, uid: YOUR_UID };
static OWNERS: [Owner; 6] = [
    ADA,
    Owner { name: "grace", uid: 1002 },
    Owner { name: "alan", uid: 1003 },
    Owner { name: "barbara", uid: 1004 },
    Owner { name: "edsger", uid: 1005 },
    Owner { name: "katherine", uid: 1006 },
];

/// The cycle of a serving load, in seconds, and its amplitude, in %.
const DAY: f64 = 300.0;
const DAY_SWING: f64 = 24.0;
/// The utilization of a device in a pause, in %; below that of a busy one.
pub(crate) const PAUSED_LOAD: f64 = 2.0;

const TRAINING: [&str; 4] = [
    "python -m torch.distributed.run --nproc-per-node=8 train.py --model llama-70b --tp 8",
    "python train.py --config configs/mixtral-8x7b.yaml --pp 4 --resume latest",
    "/opt/conda/envs/nemo/bin/python pretrain.py trainer.num_nodes=4 model=gpt-20b",
    "python finetune.py --base qwen2.5-32b --lora-rank 64 --data /scratch/instruct",
];
const TPU_TRAINING: [&str; 2] = [
    "python3 -m MaxText.train MaxText/configs/base.yml model_name=gemma2-27b",
    "python3 -m axlearn.common.launch_trainer_main --config fuji-7B-v2-flash",
];
const SERVING: [&str; 2] = [
    "python -m vllm.entrypoints.openai.api_server --model mistral-large --port 8000",
    "/opt/tritonserver/bin/tritonserver --model-repository=/models",
];
const SWEEP: [&str; 3] =
    ["python sweep.py --lr 3e-4 --trial", "python eval.py --suite mmlu --shard", "./relax --grid"];
const IDLE_HELD: [&str; 2] = [
    "/opt/conda/bin/python -m ipykernel_launcher -f kernel-7d1c.json",
    "python -i explore.py --checkpoint /scratch/grace/last.pt",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    /// One job over many devices and nodes, synchronised.
    Training,
    /// A job that hangs: its devices wait for one that never answers, at full utilization and little power.
    Hung,
    /// Serves requests, with a daily cycle.
    Serving,
    /// Short runs, one after another.
    Sweep,
    /// Holds memory without computing.
    IdleHeld,
    /// No processes.
    Free,
}

/// The workload of a group of devices on one node.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) kind: WorkloadKind,
    /// The same for all nodes of a job.
    pub(crate) rng: Rng,
    /// Job id; `None` for idle-held and free devices.
    pub(crate) job: Option<u32>,
    pub(crate) owner: &'static Owner,
    pub(crate) command: &'static str,
    pub(crate) checkpoint: Pulse,
}

/// The lifetime of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lifetime {
    /// Number of the process in its slot, from 0.
    pub(crate) generation: u64,
    /// Start in the fleet's time, in seconds; negative before the fleet's start.
    pub(crate) began: f64,
    /// Duration in seconds.
    pub(crate) lasts: f64,
}

/// Returns the workloads of a node, in order, each with its number of devices.
pub(crate) fn node_workloads(spec: &FleetSpec, node: u32) -> Vec<(Workload, u32)> {
    let total = spec.devices_of(node);
    let half = total.div_ceil(2);
    let (kind, busy) = match spec.role(node) {
        NodeRole::Training | NodeRole::Throttled | NodeRole::Straggler | NodeRole::Tpu => {
            (WorkloadKind::Training, total)
        }
        NodeRole::Failing => (WorkloadKind::Hung, total),
        NodeRole::Mig => (WorkloadKind::Sweep, total),
        NodeRole::Serving => (WorkloadKind::Serving, half),
        NodeRole::Sweep | NodeRole::Amd => (WorkloadKind::Sweep, total - total / 4),
        NodeRole::IdleHeld => (WorkloadKind::IdleHeld, half),
        NodeRole::Free => (WorkloadKind::Free, total),
    };
    let groups = [(kind, busy), (WorkloadKind::Free, total - busy)];
    let groups = (0..).zip(groups).filter(|(_, (_, devices))| *devices > 0);
    groups
        .map(|(index, (kind, devices))| (Workload::new(kind, spec, node, index), devices))
        .collect()
}

impl Workload {
    fn new(kind: WorkloadKind, spec: &FleetSpec, node: u32, index: u32) -> Self {
        let seed = Rng::new(spec.seed);
        let block = spec.job_block(node);
        let (rng, number) = if kind == WorkloadKind::Training {
            (seed.branch(1).branch(u64::from(block)), 8421 + block * 9)
        } else {
            let rng = seed.branch(2).branch(u64::from(node)).branch(u64::from(index));
            (rng, 20_000 + node * 4 + index)
        };
        let is_yours = kind == WorkloadKind::Training && spec.is_your_job(block);
        let commands: &[&'static str] = match kind {
            WorkloadKind::Training if spec.role(node) == NodeRole::Tpu => &TPU_TRAINING,
            WorkloadKind::Training | WorkloadKind::Hung => &TRAINING,
            WorkloadKind::Serving => &SERVING,
            WorkloadKind::Sweep => &SWEEP,
            WorkloadKind::IdleHeld => &IDLE_HELD,
            WorkloadKind::Free => &[],
        };
        let has_job = !matches!(kind, WorkloadKind::IdleHeld | WorkloadKind::Free);
        Self {
            kind,
            rng,
            job: has_job.then_some(number),
            owner: rng.branch(3).pick(&OWNERS).filter(|_| !is_yours).unwrap_or(&ADA),
            command: rng.branch(4).pick(commands).copied().unwrap_or_default(),
            checkpoint: Pulse {
                period: rng.branch(5).range(120.0, 220.0).round(),
                width: if kind == WorkloadKind::Training { 8.0 } else { 0.0 },
                // No checkpoint in the first minute.
                phase: rng.branch(6).range(20.0, 50.0).round(),
            },
        }
    }

    /// Returns the utilization of a device at `t`, in %.
    pub(crate) fn load(&self, device: Rng, t: f64) -> f64 {
        let load = match self.kind {
            WorkloadKind::Training if self.checkpoint.is_on(t) => {
                PAUSED_LOAD + 2.0 * device.noise(t, 1.5)
            }
            WorkloadKind::Training => {
                let plateau = 97.0 + 1.5 * self.rng.branch(7).noise(t, 90.0);
                let data_shortage = 5.0 * ((t + self.checkpoint.phase) / 22.0).rem_euclid(1.0);
                plateau - data_shortage + 1.6 * device.noise(t, 1.2)
            }
            WorkloadKind::Hung => 100.0,
            WorkloadKind::Serving => {
                54.0 + DAY_SWING * (TAU * (t / DAY + self.rng.branch(8).unit())).sin()
                    + 7.0 * device.noise(t, 9.0)
                    + 6.0 * device.branch(1).noise(t, 1.5)
            }
            WorkloadKind::Sweep => {
                let is_paused = self.pauses(device).is_on(t);
                if is_paused { PAUSED_LOAD } else { 84.0 + 9.0 * device.noise(t, 5.0) }
            }
            WorkloadKind::IdleHeld | WorkloadKind::Free => 0.0,
        };
        load.clamp(0.0, 100.0)
    }

    /// Returns when a device does next to nothing: it waits for a checkpoint, or for the next run of a sweep.
    pub(crate) fn pauses(&self, device: Rng) -> Pulse {
        let never = Pulse { period: 60.0, width: 0.0, phase: 0.0 };
        match self.kind {
            WorkloadKind::Training => self.checkpoint,
            WorkloadKind::Sweep => {
                let (period, phase) = sweep_cycle(device);
                Pulse { period, width: 9.0, phase: phase + 3.0 }
            }
            WorkloadKind::Hung
            | WorkloadKind::Serving
            | WorkloadKind::IdleHeld
            | WorkloadKind::Free => never,
        }
    }

    /// Returns the integral of a serving load's excess over its mean from 0 to `t`, in % times seconds.
    pub(crate) fn served_excess(&self, t: f64) -> f64 {
        let [start, end] =
            [0.0, t].map(|t: f64| (TAU * (t / DAY + self.rng.branch(8).unit())).cos());
        DAY_SWING * DAY / TAU * (start - end)
    }

    /// Returns the mean utilization outside of pauses, in %.
    pub(crate) const fn mean_load(&self) -> f64 {
        match self.kind {
            WorkloadKind::Training => 94.5,
            WorkloadKind::Hung => 100.0,
            WorkloadKind::Serving => 54.0,
            WorkloadKind::Sweep => 84.0,
            WorkloadKind::IdleHeld | WorkloadKind::Free => 0.0,
        }
    }

    /// Returns which part of the power that its utilization needs a device draws, 0 to 1: a kernel that only waits
    /// needs little.
    pub(crate) fn effort(&self) -> f64 {
        if self.kind == WorkloadKind::Hung { 0.12 } else { 1.0 }
    }

    /// Returns the utilization of the memory in %.
    pub(crate) fn memory_load(&self, load: f64) -> f64 {
        if self.kind == WorkloadKind::Hung { 0.0 } else { (load * 0.55).round() }
    }

    /// Returns the used share of a device's memory at `t`, 0 to 1.
    pub(crate) fn memory_share(&self, device: Rng, t: f64) -> f64 {
        match self.kind {
            WorkloadKind::Training => {
                device.branch(2).range(0.88, 0.92) + 0.004 * device.noise(t, 4.0)
            }
            WorkloadKind::Hung => device.branch(2).range(0.88, 0.92),
            WorkloadKind::Serving => 0.9,
            WorkloadKind::Sweep => {
                let lifetime = self.lifetime(device, t);
                let loaded = ((t - lifetime.began) / 8.0).clamp(0.02, 1.0);
                loaded * self.rng.branch(9).branch(lifetime.generation).range(0.35, 0.75)
            }
            WorkloadKind::IdleHeld => device.branch(2).range(0.2, 0.6),
            WorkloadKind::Free => 0.0,
        }
    }

    /// Returns the lifetime of the process on this device at `t`.
    pub(crate) fn lifetime(&self, device: Rng, t: f64) -> Lifetime {
        if self.kind != WorkloadKind::Sweep {
            let age = self.rng.branch(10).range(1_500.0, 100_000.0).round();
            return Lifetime { generation: 0, began: -age, lasts: f64::INFINITY };
        }
        let (lasts, phase) = sweep_cycle(device);
        let generation = ((t + phase) / lasts).floor().max(0.0);
        Lifetime { generation: to_u64(generation), began: generation * lasts - phase, lasts }
    }

    /// Returns the command line of a process of this generation.
    pub(crate) fn command_line(&self, generation: u64) -> String {
        if self.kind == WorkloadKind::Sweep {
            format!("{} {}", self.command, generation + 1)
        } else {
            self.command.to_owned()
        }
    }

    /// Returns the control group of its processes: that of the job, or of a pod of a notebook server.
    pub(crate) fn cgroup(&self) -> String {
        let uid = self.owner.uid;
        if let Some(job) = self.job {
            return job_traces::control_group(uid, job);
        }
        let pod = random_uuid(self.rng.branch(13)).replace('-', "_");
        let [a, b, c, d] = [0, 1, 2, 3].map(|name| self.rng.branch(14).branch(name).bits());
        let id = format!("{a:016x}{b:016x}{c:016x}{d:016x}");
        format!("/kubepods.slice/kubepods-burstable-pod{pod}.slice/cri-containerd-{id}.scope")
    }
}

/// Returns how long a run of a sweep lasts on a device, and how much of the first has passed at 0, in seconds. No run
/// ends in the first minute.
fn sweep_cycle(device: Rng) -> (f64, f64) {
    let lasts = device.branch(3).range(110.0, 260.0).round();
    (lasts, device.branch(4).range(10.0, lasts - 75.0).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_job_write_checkpoints_together() {
        let fleet = FleetSpec::busy(16, 8, 8, 5);
        let workload_of = |node| node_workloads(&fleet, node).remove(0).0;
        assert_eq!(
            (workload_of(0).job, workload_of(0).rng),
            (workload_of(7).job, workload_of(7).rng)
        );
        assert_ne!(workload_of(0).job, workload_of(8).job);
        let low = (0..4000_u32)
            .map(|step| f64::from(step) * 0.1)
            .filter(|t| workload_of(0).load(Rng::new(1), *t) < 10.0)
            .inspect(|t| assert!(workload_of(3).load(Rng::new(2), *t) < 10.0))
            .count();
        assert!((80..400).contains(&low));
    }

    #[test]
    fn only_a_sweep_starts_new_processes() {
        let fleet = FleetSpec::demo(12, 5);
        for node in 0..12 {
            for (work, _) in node_workloads(&fleet, node) {
                let (early, late) =
                    (work.lifetime(Rng::new(1), 0.0), work.lifetime(Rng::new(1), 300.0));
                assert!(early.began <= 0.0 && late.began <= 300.0);
                assert_eq!(late.generation > early.generation, work.kind == WorkloadKind::Sweep);
            }
        }
    }

    #[test]
    fn jobs_have_distinct_ids() {
        let fleet = FleetSpec::demo(200, 5);
        let mut seen = std::collections::BTreeMap::new();
        for node in 0..200 {
            for (work, _) in node_workloads(&fleet, node) {
                let Some(job) = work.job else { continue };
                assert_eq!(*seen.entry(job).or_insert(work.rng), work.rng, "{job}");
            }
        }
    }
}
