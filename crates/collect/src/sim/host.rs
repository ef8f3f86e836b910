//! Host metrics of a simulated node: processors, memory, network, disks.

use crate::sim::jobs::{CPUS_PER_DEVICE, MEMORY_PER_DEVICE};
use crate::sim::rng::{Flow, Pulse, Rng, round_milli, to_u64};
use crate::sim::workload::{Workload, WorkloadKind};
use crate::wire::body::{Disk, Host, HostShare, HostSlow, Pressure, Space, Traffic};

const GIB: f64 = 1_073_741_824.0;
/// Clock ticks per second.
const TICK: f64 = 100.0;

/// The host of a simulated node.
#[derive(Clone, Debug)]
pub(crate) struct SimHost {
    rng: Rng,
    /// Number of logical processors.
    pub(crate) cpus: u32,
    memory_gib: f64,
    memory_share: f64,
    user: Flow,
    system: Flow,
    iowait: Flow,
    nets: Vec<(&'static str, Flow, Flow)>,
    ports: Vec<(&'static str, Flow, Flow)>,
    disks: Vec<(&'static str, Flow, Flow)>,
    has_scratch: bool,
}

impl SimHost {
    /// Returns a workstation or a server; `work` sets the times of checkpoints.
    pub(crate) fn new(rng: Rng, is_small: bool, is_busy: bool, work: Option<&Workload>) -> Self {
        let rng = rng.branch(50);
        let cpus = if is_small { 64 } else { 192 };
        let never = Pulse { period: 60.0, width: 0.0, phase: 0.0 };
        let checkpoints = work.map_or(never, |work| work.checkpoint);
        let flow = |name: u64, mean: f64, burst: f64| Flow {
            mean: mean * rng.branch(name).range(0.8, 1.2),
            swing: 0.3,
            period: rng.branch(name + 1).range(40.0, 160.0),
            burst,
            pulse: checkpoints,
        };
        let load = |busy: f64, idle: f64| if is_busy { busy } else { idle };
        // The processes of a job that hangs poll.
        let is_polling = work.is_some_and(|work| work.kind == WorkloadKind::Hung);
        let user = if is_polling { 0.05 } else { load(0.24, 0.006) };
        let ticks = f64::from(cpus) * TICK;
        let fabric = if is_busy { 21e9 } else { 2e3 };
        let ports = ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"];
        let ports = (0..).map(|index| 10 + 4 * index).zip(if is_small { &[][..] } else { &ports });
        Self {
            cpus,
            memory_gib: if is_small { 251.5 } else { 2015.3 },
            memory_share: load(rng.branch(1).range(0.2, 0.3), rng.branch(1).range(0.02, 0.08)),
            user: flow(2, ticks * user, 0.0),
            system: flow(4, ticks * load(0.035, 0.002), 0.0),
            iowait: flow(6, ticks * load(0.002, 0.0002), ticks * 0.05),
            nets: vec![("eth0", flow(30, load(38e6, 9e3), 0.0), flow(32, load(21e6, 6e3), 180e6))],
            ports: ports
                .map(|(branch, name)| {
                    (*name, flow(branch, fabric, 0.0), flow(branch + 2, fabric, 0.0))
                })
                .collect(),
            disks: vec![
                ("nvme0n1", flow(34, load(2e6, 2e4), 0.0), flow(36, load(4e6, 9e4), 0.0)),
                ("nvme1n1", flow(38, load(310e6, 1e3), 0.0), flow(40, load(9e6, 1e3), 2.1e9)),
            ],
            has_scratch: !is_small,
            rng,
        }
    }

    /// Returns the fast group at `t`, at the node's time `at`.
    pub(crate) fn fast_group(&self, at: f64, t: f64) -> Host {
        let total = self.memory_gib * GIB;
        let used = total * (self.memory_share + 0.01 * self.rng.branch(60).noise(t, 45.0));
        let busy = (self.user.rate(t) + self.system.rate(t)) / TICK;
        let load = [(20.0, 61), (90.0, 62), (300.0, 63)].map(|(span, branch)| {
            round_milli((busy + 0.06 * busy * self.rng.branch(branch).noise(t, span)).max(0.0))
        });
        let [net, infiniband] = [&self.nets, &self.ports].map(|list| {
            let traffic = list.iter().map(|(name, rx, tx)| Traffic {
                name: (*name).to_owned(),
                rx: counter(rx, at, t),
                tx: counter(tx, at, t),
            });
            traffic.collect::<Vec<_>>()
        });
        let disks = self.disks.iter().map(|(name, read, write)| Disk {
            name: (*name).to_owned(),
            read: counter(read, at, t),
            write: counter(write, at, t),
        });
        Host {
            at,
            cpu: Some(self.ticks(at, t)),
            load: Some(load.to_vec()),
            memory_total: to_u64(total).into(),
            memory_available: to_u64(total - used).into(),
            memory_cached: to_u64((total - used) * 0.4).into(),
            memory_buffers: to_u64(1.2 * GIB).into(),
            swap_total: to_u64(8.0 * GIB).into(),
            swap_free: to_u64(8.0 * GIB - 3e6).into(),
            pressure: Some(self.pressure(t)),
            uptime: at.into(),
            net: Some(net),
            infiniband: Some(infiniband).filter(|ports| !ports.is_empty()),
            disk: Some(disks.collect()),
        }
    }

    /// Returns what a job on so many devices has and uses of the host.
    pub(crate) fn share(&self, at: f64, t: f64, devices: u32) -> HostShare {
        let part = f64::from(devices) / 8.0;
        let ticks = self.user.total(at - t, t) + self.system.total(at - t, t);
        let used =
            self.memory_gib * GIB * (self.memory_share + 0.01 * self.rng.branch(60).noise(t, 45.0));
        HostShare {
            cpus: f64::from(devices * CPUS_PER_DEVICE).into(),
            cpu: to_u64(ticks.max(0.0) * 0.9 * part * 1e6 / TICK).into(),
            memory_limit: (u64::from(devices) * MEMORY_PER_DEVICE.0).into(),
            memory: to_u64(used * 0.5 * part).into(),
        }
    }

    /// Returns the slow group.
    pub(crate) fn slow_group(&self, at: f64, t: f64) -> HostSlow {
        let busy = (self.user.rate(t) + self.system.rate(t)) / TICK / f64::from(self.cpus);
        let scratch = ("/scratch", 6_983.0, self.rng.branch(64).range(0.3, 0.95));
        let file_systems = [("/", 438.0, 0.37), ("/tmp", 126.0, 0.02)];
        let file_systems = file_systems.into_iter().chain(self.has_scratch.then_some(scratch));
        let space = file_systems.map(|(path, gib, used)| Space {
            path: path.to_owned(),
            total: to_u64(gib * GIB),
            free: to_u64(gib * GIB * (1.0 - used) - t.max(0.0) * 1e5),
        });
        HostSlow {
            at,
            temperature: round_milli(38.0 + 60.0 * busy + self.rng.branch(65).noise(t, 20.0))
                .into(),
            space: Some(space.collect()),
        }
    }

    /// Returns user, nice, system, idle, iowait, irq, softirq and steal ticks of all processors.
    fn ticks(&self, at: f64, t: f64) -> Vec<u64> {
        let before = at - t;
        let [user, system, iowait] =
            [&self.user, &self.system, &self.iowait].map(|flow| flow.total(before, t).max(0.0));
        let softirq = system * 0.04;
        let idle = at * f64::from(self.cpus) * TICK - user - system - iowait - softirq;
        [user, 0.0, system, idle, iowait, 0.0, softirq, 0.0].map(to_u64).to_vec()
    }

    fn pressure(&self, t: f64) -> Pressure {
        let busy = 0.4 * (1.0 + self.rng.branch(66).noise(t, 15.0));
        let waits = 100.0 * self.iowait.rate(t) / (f64::from(self.cpus) * TICK);
        Pressure {
            cpu: round_milli(busy.clamp(0.0, 100.0)).into(),
            memory: 0.0.into(),
            io: round_milli(waits.clamp(0.0, 100.0)).into(),
        }
    }
}

fn counter(flow: &Flow, at: f64, t: f64) -> u64 {
    to_u64(flow.total(at - t, t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_add_up_to_the_elapsed_time() {
        let host = SimHost::new(Rng::new(1), false, true, None);
        let mut before = host.ticks(200_000.0, 0.0);
        for second in 1..600_u32 {
            let now = host.ticks(200_000.0 + f64::from(second), f64::from(second));
            let spent: Vec<u64> = now.iter().zip(&before).map(|(now, then)| now - then).collect();
            let all: u64 = spent.iter().sum();
            assert!((19_195..=19_205).contains(&all), "{spent:?}");
            assert!((20..80).contains(&(spent[0] * 100 / all)), "{spent:?}");
            before = now;
        }
    }
}
