//! One simulated node: a pure function of the seed, its index and the time.

use std::collections::{BTreeMap, BTreeSet};

use crate::sim::gpu::{A100, A6000, Gpu, H100, MI300X, Model, SimDeviceFault, V5P};
use crate::sim::host::SimHost;
use crate::sim::job_traces;
use crate::sim::rng::{Rng, random_uuid, round_milli, to_u64};
use crate::sim::scenario::{FleetSpec, NodeRole};
use crate::sim::workload::{Lifetime, Workload, WorkloadKind, YOU, YOUR_UID, node_workloads};
use crate::wire::body::{
    Backend, BackendState, Changes as _, Configuration, Daemon, Event, Evidence, Hello, HostShare,
    Process, ProcessStatics, Processes, Raw, RawText, Sample, Shares, SourceError, Use, Uses,
};
use gtop_model::NodeName;

mod answers;

/// The verbs that the probe supports.
const COMMANDS: [&str; 8] =
    ["heartbeat", "interval", "focus", "full", "signal", "environ", "tree", "detail"];
/// Clock ticks per second.
const TICK: f64 = 100.0;

/// One simulated node.
///
/// `t` is always the fleet's time: seconds since its start. The node's own clock is its uptime, see
/// [`Machine::clock`].
#[derive(Clone, Debug)]
pub struct Machine {
    host: String,
    rng: Rng,
    boot: String,
    uptime: f64,
    model: &'static Model,
    has_foreign_devices: bool,
    sim_host: SimHost,
    workloads: Vec<Workload>,
    /// Number of devices of each workload, before they are split into slices.
    workload_devices: Vec<u32>,
    gpus: Vec<Gpu>,
    slots: Vec<ProcessSlot>,
    /// Slot number and generation of killed processes.
    ended: BTreeSet<(u64, u64)>,
}

/// A sequence of processes on the same devices.
#[derive(Clone, Debug)]
struct ProcessSlot {
    workload: usize,
    number: u64,
    rng: Rng,
    /// Indices in the list of devices, each with the number of processes that share it.
    gpus: Vec<(usize, u64)>,
}

/// The sections of a sample in addition to the host's fast group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleRequest {
    pub number: u64,
    /// Time of the last device values; only later changes are sent.
    pub since: f64,
    /// Time of the last uses; only later changes are sent.
    pub uses_since: f64,
    /// All values, including static ones.
    pub full: bool,
    /// Include the host's slow group.
    pub slow: bool,
    /// The state of the driver.
    pub driver: DriverState,
}

/// What the driver returns at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverState {
    /// Nothing, because it hangs.
    Hangs,
    /// Nothing, because the devices are not due.
    Waits,
    /// The devices.
    #[default]
    Devices,
    /// The devices and the processes that use them.
    DevicesAndUses,
}

impl Machine {
    /// Returns the node with this index.
    pub fn new(spec: &FleetSpec, node: u32, name: &NodeName) -> Self {
        let rng = Rng::new(spec.seed).branch(1_000).branch(u64::from(node));
        let role = spec.role(node);
        let model = match role {
            NodeRole::IdleHeld | NodeRole::Free => &A6000,
            NodeRole::Amd => &MI300X,
            NodeRole::Tpu => &V5P,
            NodeRole::Sweep | NodeRole::Serving if rng.branch(1).below(2) == 0 => &A100,
            NodeRole::Training
            | NodeRole::Throttled
            | NodeRole::Straggler
            | NodeRole::Failing
            | NodeRole::Mig
            | NodeRole::Serving
            | NodeRole::Sweep => &H100,
        };
        let plan = node_workloads(spec, node);
        let workloads: Vec<Workload> = plan.iter().map(|(work, _)| work.clone()).collect();
        let workload_indices = plan
            .iter()
            .enumerate()
            .flat_map(|(work, (_, devices))| (0..*devices).map(move |_| work));
        let mig_devices = spec.devices.div_ceil(4);
        let gpus: Vec<Gpu> = (0..)
            .zip(workload_indices)
            .flat_map(|(index, work)| {
                let fault = device_fault(role, index, spec.devices);
                let gpu = Gpu::new(model, rng, index, work, fault);
                let gpu = if spec.is_detailed() { gpu.detailed() } else { gpu };
                if role == NodeRole::Mig && index < mig_devices { gpu.split() } else { vec![gpu] }
            })
            .collect();
        // One process has all chips of a TPU worker.
        let processes = if role == NodeRole::Tpu { 1 } else { spec.processes };
        let slots = assign_slots(rng, processes, &workloads, &gpus);
        let busy = workloads.iter().any(|work| {
            !matches!(work.kind, WorkloadKind::Hung | WorkloadKind::Free | WorkloadKind::IdleHeld)
        });
        Self {
            host: name.as_str().to_owned(),
            rng,
            boot: random_uuid(rng.branch(2)),
            uptime: rng.branch(3).range(2.0 * 86_400.0, 60.0 * 86_400.0).round(),
            model,
            has_foreign_devices: role == NodeRole::IdleHeld,
            sim_host: SimHost::new(
                rng,
                matches!(role, NodeRole::IdleHeld | NodeRole::Free | NodeRole::Tpu),
                busy,
                workloads.first(),
            ),
            workloads,
            workload_devices: plan.iter().map(|(_, devices)| *devices).collect(),
            gpus,
            slots,
            ended: BTreeSet::new(),
        }
    }

    /// Returns the node after a reboot at `t`.
    #[must_use]
    pub(crate) fn rebooted(&self, t: f64) -> Self {
        Self { boot: random_uuid(self.rng.branch(4)), uptime: 30.0 - t, ..self.clone() }
    }

    /// Returns the node's own time at `t`: seconds since its boot.
    pub fn clock(&self, t: f64) -> f64 {
        round_milli(self.uptime + t)
    }

    /// Returns the probe's hello for an interval of `pace` seconds.
    pub fn hello(&self, t: f64, interval: f64) -> Hello {
        // Whole ticks.
        let [slow, processes] =
            [10.0, 2.0].map(|floor: f64| interval * (floor / interval - 0.05).ceil().max(1.0));
        let backend = self.model.backend();
        let (slices, whole) = self.gpus.iter().partition::<Vec<&Gpu>, _>(|gpu| gpu.is_slice());
        Hello {
            v: 1,
            probe: "python".to_owned(),
            version: "3.11.2".to_owned(),
            at: self.clock(t),
            host: self.host.clone(),
            boot: self.boot.clone(),
            kernel: "6.1.0-28-amd64".to_owned(),
            arch: "x86_64".to_owned(),
            cpus: self.sim_host.cpus,
            tick: 100,
            page: 4096,
            uid: YOUR_UID,
            user: YOU.to_owned(),
            evidence: true,
            pci: self.pci_functions(),
            commands: COMMANDS.map(str::to_owned).to_vec(),
            intervals: BTreeMap::from([
                ("host".to_owned(), interval),
                ("host.slow".to_owned(), slow),
                (backend.kind.clone(), interval),
                (format!("{}.processes", backend.kind), processes),
            ]),
            backends: vec![BackendState {
                devices: count_u64(whole.len()).into(),
                slices: if self.model.is_nvidia() {
                    count_u64(slices.len()).into()
                } else {
                    Raw::Absent
                },
                ..backend
            }],
            ..Hello::default()
        }
    }

    /// Returns the name of the backend that reads its devices.
    pub fn backend_kind(&self) -> String {
        self.model.backend().kind
    }

    /// Returns the displays and accelerators on its PCI bus, if gtop cannot read some of them.
    fn pci_functions(&self) -> Vec<(String, String, String, String, String)> {
        let readable = self.gpus.iter().map(|gpu| {
            let address = gpu.pci.trim_start_matches("0000").to_lowercase();
            (format!("0000{address}"), "0x10de", "0x2230", "0x030000", "nvidia")
        });
        let foreign = ["0000:f1:00.0", "0000:f2:00.0"]
            .map(|address| (address.to_owned(), "0x1e52", "0x401e", "0x120000", "tenstorrent"));
        let functions = readable.chain(foreign).filter(|_| self.has_foreign_devices);
        functions
            .map(|(address, vendor, device, class, driver)| {
                let [vendor, device, class, driver] =
                    [vendor, device, class, driver].map(str::to_owned);
                (address, vendor, device, class, driver)
            })
            .collect()
    }

    /// Returns the sample of a tick.
    pub fn sample(&self, t: f64, request: SampleRequest) -> Sample {
        let at = self.clock(t);
        let answers = !matches!(request.driver, DriverState::Hangs | DriverState::Waits);
        let uses = request.full || request.driver == DriverState::DevicesAndUses;
        Sample {
            n: request.number,
            at,
            took: round_milli(1.4 + 0.6 * self.rng.branch(5).noise(t, 0.7)).into(),
            full: request.full,
            host: Some(self.sim_host.fast_group(at, t)),
            host_slow: (request.slow || request.full).then(|| self.sim_host.slow_group(at, t)),
            backends: if answers { vec![self.backend(at, t, &request, uses)] } else { vec![] },
            processes: (answers && uses).then(|| Processes {
                at,
                list: self.live_slots(t).map(|slot| self.process(slot, t, &request)).collect(),
                unseen: Vec::new(),
            }),
            // As probes do, so that rates are soon known.
            shares: (request.slow || request.full || request.number == 2)
                .then(|| self.shares(at, t)),
            evidence: request.full.then(|| Box::new(self.evidence())),
            cost: None,
        }
    }

    /// Returns what jobs have and use of the host.
    fn shares(&self, at: f64, t: f64) -> Shares {
        let jobs = self.workloads.iter().zip(&self.workload_devices);
        let jobs = jobs.filter_map(|(work, devices)| {
            Some((work.job?.to_string(), self.sim_host.share(at, t, *devices)))
        });
        Shares { at, own: HostShare::default(), jobs: jobs.collect() }
    }

    /// Returns the list of the node's scheduler, which is in the driver's order. There is no list if a device
    /// is partitioned, or is not NVIDIA's.
    fn evidence(&self) -> Evidence {
        if !self.model.is_nvidia() {
            return Evidence { complete: true, ..Evidence::default() };
        }
        let list = (0..self.gpus.len()).map(|index| {
            job_traces::listed_device(&self.host, index, &format!("/dev/nvidia{index}"))
        });
        let is_whole = self.gpus.iter().all(|gpu| !gpu.is_slice());
        let daemon = Daemon { list: Some(list.collect()), ..Daemon::default() };
        let configuration = Configuration {
            changed: 1.0.into(),
            cached: true,
            constrained: Some(true),
            constrained_changed: 1.0.into(),
            ..Configuration::default()
        };
        let whole = self.gpus.iter().filter(|gpu| !gpu.is_slice());
        let devices =
            (0..).zip(whole).map(|(minor, gpu)| (minor, gpu.pci.clone(), Some(gpu.uuid.clone())));
        Evidence {
            complete: true,
            devices: devices.collect(),
            daemon: is_whole.then_some(daemon),
            configuration: Some(configuration),
            ..Evidence::default()
        }
    }

    /// Returns the error for NVIDIA's driver if it has not answered for `lasting` seconds.
    pub fn stuck_error(&self, t: f64, lasting: f64) -> SourceError {
        SourceError {
            at: self.clock(t),
            source: self.backend_kind(),
            scope: "host".to_owned(),
            code: "stuck".to_owned(),
            call: "nvmlDeviceGetUtilizationRates".to_owned(),
            lasting: round_milli(lasting).into(),
            ..SourceError::default()
        }
    }

    /// Returns the events of its devices after `since`, until `t`.
    pub fn events(&self, since: f64, t: f64) -> Vec<Event> {
        let events = self.gpus.iter().filter_map(|gpu| {
            let (at, code) = gpu.xid(since, t)?;
            Some(Event {
                at: self.clock(at),
                source: self.backend_kind(),
                kind: "xid".to_owned(),
                device: gpu.uuid.clone(),
                code: code.into(),
                ..Event::default()
            })
        });
        events.collect()
    }

    fn backend(&self, at: f64, t: f64, request: &SampleRequest, uses: bool) -> Backend {
        let since = (!request.full).then_some(request.since);
        let devices = self
            .gpus
            .iter()
            .filter_map(|gpu| Some(gpu.report(self.workloads.get(gpu.workload)?, t, since)));
        Backend {
            kind: self.backend_kind(),
            at,
            devices: Some(devices.collect()),
            uses: uses.then(|| Uses {
                at,
                list: self.live_slots(t).flat_map(|slot| self.uses(slot, t, request)).collect(),
                ..Uses::default()
            }),
            ..Backend::default()
        }
    }

    fn workload(&self, slot: &ProcessSlot) -> Option<&Workload> {
        self.workloads.get(slot.workload)
    }

    /// Returns the slots whose process was not killed.
    fn live_slots(&self, t: f64) -> impl Iterator<Item = &ProcessSlot> {
        self.slots.iter().filter(move |slot| {
            let generation = self.process_lifetime(slot, t).generation;
            !self.ended.contains(&(slot.number, generation))
        })
    }

    fn uses<'a>(
        &'a self,
        slot: &'a ProcessSlot,
        t: f64,
        request: &SampleRequest,
    ) -> impl Iterator<Item = Use> + 'a {
        let lifetime = self.process_lifetime(slot, t);
        let pid = self.pid(slot, lifetime);
        let listed =
            (!request.full && lifetime.began <= request.uses_since).then_some(request.uses_since);
        slot.gpus.iter().filter_map(move |(index, sharing)| {
            let gpu = self.gpus.get(*index)?;
            let work = self.workload(slot)?;
            let mut used = gpu.usage(work, t, pid, *sharing);
            if let Some(before) = listed.map(|before| gpu.usage(work, before, pid, *sharing)) {
                used.kind = None;
                used.omit_unchanged(&before);
            }
            Some(used)
        })
    }

    fn process(&self, slot: &ProcessSlot, t: f64, request: &SampleRequest) -> Process {
        let lifetime = self.process_lifetime(slot, t);
        let age = (t - lifetime.began).max(0.0);
        let start = to_u64(((self.uptime + lifetime.began) * TICK).max(3_000.0));
        let gib = slot.rng.branch(1).range(6.0, 40.0);
        let loaded = (age / 10.0).min(1.0) + 0.01 * slot.rng.noise(t, 30.0);
        let mut process = Process {
            pid: self.pid(slot, lifetime),
            start,
            cpu: to_u64(slot.rng.branch(2).range(60.0, 160.0) * age).into(),
            rss: (to_u64(gib * loaded * 262_144.0) * 4096).into(),
            ..Process::default()
        };
        let Some(work) = self.workload(slot) else { return process };
        if request.full || lifetime.began > request.uses_since {
            let parent = self.first_pid() - 7;
            process.state = Some("R".to_owned());
            process.threads = 112.into();
            process.statics = Some(Box::new(ProcessStatics {
                ppid: u64::from(parent).into(),
                uid: u64::from(work.owner.uid).into(),
                user: Some(work.owner.name.to_owned()),
                command: Some(work.command_line(lifetime.generation)),
                cgroup: Some(work.cgroup()),
                cwd: match work.owner.uid {
                    YOUR_UID => RawText::Text("/scratch/ada/run".to_owned()),
                    _ => RawText::Null,
                },
                parents: vec![(parent, 2_900, job_traces::STEP_DAEMON.to_owned())],
                ..ProcessStatics::default()
            }));
        }
        process
    }

    fn process_lifetime(&self, slot: &ProcessSlot, t: f64) -> Lifetime {
        let none = Lifetime { generation: 0, began: 0.0, lasts: 0.0 };
        self.workload(slot).map_or(none, |work| work.lifetime(slot.rng, t))
    }

    fn first_pid(&self) -> u32 {
        self.rng.branch(6).below(40_000) + 4_000
    }

    /// Returns a pid that grows with the generation and is unique among slots.
    fn pid(&self, slot: &ProcessSlot, lifetime: Lifetime) -> u32 {
        let steps = slot.number + lifetime.generation % 10_000 * (count_u64(self.slots.len()) + 3);
        self.first_pid().saturating_add(u32::try_from(steps).unwrap_or(0))
    }
}

fn device_fault(role: NodeRole, index: u32, devices: u32) -> Option<SimDeviceFault> {
    let faults = [
        (NodeRole::Throttled, devices / 2, SimDeviceFault::Hot),
        (NodeRole::Straggler, devices / 3, SimDeviceFault::Lagging),
        (NodeRole::Failing, devices / 4, SimDeviceFault::MemoryErrors),
        (NodeRole::Failing, devices - 1, SimDeviceFault::Lost),
    ];
    let mut faults = faults.into_iter();
    faults.find(|(faulty, at, _)| (*faulty, *at) == (role, index)).map(|(.., fault)| fault)
}

/// Distributes processes: at least one per workload, on its devices in turn.
fn assign_slots(
    rng: Rng,
    processes: u32,
    workloads: &[Workload],
    gpus: &[Gpu],
) -> Vec<ProcessSlot> {
    let processes = usize::try_from(processes).unwrap_or(usize::MAX);
    let used = gpus.iter().enumerate().filter(|(_, gpu)| {
        gpu.is_usable()
            && workloads.get(gpu.workload).is_some_and(|work| work.kind != WorkloadKind::Free)
    });
    let used: Vec<(usize, &Gpu)> = used.collect();
    let all = used.len();
    let mut slots = Vec::new();
    for work in 0..workloads.len() {
        let usable: Vec<(usize, &Gpu)> =
            used.iter().copied().filter(|(_, gpu)| gpu.workload == work).collect();
        for (index, devices) in distribute(processes * usable.len() / all.max(1), usable.len()) {
            let number = count_u64(slots.len());
            let gpu_rng = usable.get(index).map_or(rng, |(_, gpu)| gpu.rng);
            let gpus = devices
                .into_iter()
                .filter_map(|(index, sharing)| Some((usable.get(index)?.0, sharing)))
                .collect();
            slots.push(ProcessSlot {
                workload: work,
                number,
                rng: if index < usable.len() { gpu_rng } else { rng.branch(900 + number) },
                gpus,
            });
        }
    }
    slots
}

/// Distributes `devices` to `processes` in turn until each of both has one; returns each device with
/// the number of processes that share it.
fn distribute(processes: usize, devices: usize) -> Vec<(usize, Vec<(usize, u64)>)> {
    let processes = if devices == 0 { 0 } else { processes.max(1) };
    let shares = processes.max(devices);
    let assigned = (0..processes).map(|process| {
        let assigned = (process..shares).step_by(processes.max(1)).map(|share| share % devices);
        let sharing =
            assigned.map(|device| (device, count_u64((shares - device).div_ceil(devices))));
        (process, sharing.collect())
    });
    assigned.collect()
}

fn count_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
