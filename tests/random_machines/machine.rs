//! The facts of a random machine, the rules that follow from them, and the fleet that gtop makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::scheduler::SchedulerKind;
use gtop_fleet::{Fleet, NodeBuilder};
use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, BackendReading, Bytes, Device, DeviceActivity, DeviceAllocation, DeviceDetails,
    DeviceEvidence, DeviceFault, DeviceUse, DevicesReading, Fault, FaultKind, Hello, HostFacts,
    HostReading, Job, JobDeviceFiles, JobId, JobList, Link, NodeName, NodeState, Percent,
    ProcessKey, ProcessReading, ProcessStatics, ProcessesReading, Reading, Reason, RecoveryAction,
    Sample, SchedulerNode, SchedulerNodes, Source, UnseenProcess, UnseenReason, UsesReading,
    Vendor,
};

use crate::golden::fleets::running_job;

pub(super) const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);
pub(super) const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Numbers that look random and are the same in each run.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    pub(super) fn is_one_of(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// How sound a card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Soundness {
    Sound,
    /// It had memory errors, or waits for a reset that puts spare memory in place.
    Worn,
    /// Lost, wanting a reset, or without spare memory.
    Broken,
}

/// What Slurm reports of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduling {
    /// There is none.
    Unscheduled,
    Idle,
    Drained,
    /// A job of somebody else has one device, and its processes show which.
    JobSeen,
    /// A job of somebody else has one device, and nothing shows which.
    JobUnseen,
}

/// One thing that can be given away: a card, or a slice of one.
#[derive(Clone, Debug)]
pub(super) struct UnitFacts {
    pub(super) uuid: Arc<str>,
    pub(super) card: u32,
    /// Its number among the slices of its card.
    pub(super) slice: Option<u32>,
    pub(super) soundness: Soundness,
    /// In percent; `None` if nothing measures it.
    pub(super) load: Option<u64>,
    /// Memory of the processes that are listed and seen.
    pub(super) process: Option<u64>,
    /// It belongs to the job of somebody else.
    pub(super) is_of_job: bool,
    /// Processes that are listed and hidden.
    pub(super) hidden: u64,
    /// Processes that are listed without a pid.
    pub(super) nameless: u32,
    /// Memory in use that no process has, or only one without a pid.
    pub(super) leaked: u64,
    /// The card is in MIG mode and has no slices.
    pub(super) is_empty: bool,
}

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: NodeName,
    pub(super) units: Vec<UnitFacts>,
    pub(super) cards: usize,
    pub(super) scheduling: Scheduling,
    pub(super) is_down: bool,
    broken_as: u64,
}

impl UnitFacts {
    /// Returns the memory of a card or slice, and what of it is in use.
    pub(super) fn memory(&self) -> (u64, u64) {
        let total = if self.slice.is_some() { 10 * GIB } else { 80 * GIB };
        // A hidden process of this memory is part of what is in use.
        (total, self.process.unwrap_or(0) + self.hidden * GIB + self.leaked)
    }

    /// Returns true if nothing is listed that explains its memory.
    pub(super) fn is_leak(&self) -> bool {
        self.leaked > GIB && self.process.unwrap_or(0) + self.hidden * GIB < self.leaked
    }
}

impl Machine {
    pub(super) fn random(number: u64) -> Self {
        let mut rng = Rng::new(number);
        let scheduling = match rng.below(8) {
            0 => Scheduling::Drained,
            1 => Scheduling::JobSeen,
            2 => Scheduling::JobUnseen,
            3 => Scheduling::Idle,
            _ => Scheduling::Unscheduled,
        };
        let cards = u32::try_from(1 + rng.below(8)).unwrap();
        let has_mig = rng.is_one_of(2);
        let mut units = Vec::new();
        for card in 0..cards {
            let soundness = match rng.below(8) {
                0 => Soundness::Broken,
                1 => Soundness::Worn,
                _ => Soundness::Sound,
            };
            let is_cut = has_mig && rng.is_one_of(2);
            // The driver lists no slices of a card that it has lost.
            let is_lost = soundness == Soundness::Broken && number.is_multiple_of(3);
            let slices = if is_cut && !is_lost { rng.below(8) } else { 0 };
            let unit = |slice: Option<u32>| {
                let uuid = slice.map_or_else(
                    || format!("GPU-{number}-{card}"),
                    |slice| format!("MIG-{number}-{card}-{slice}"),
                );
                unit(&mut rng, uuid, (card, slice), soundness, is_cut)
            };
            let numbers = (0..u32::try_from(slices).unwrap()).map(Some);
            units.extend(numbers.chain((slices == 0).then_some(None)).map(unit));
        }
        let count = u64::try_from(units.len()).unwrap();
        let held = usize::try_from(rng.below(count)).unwrap();
        if scheduling == Scheduling::JobSeen && !units[held].is_empty {
            units[held].is_of_job = true;
            units[held].process = Some(2 * GIB);
        }
        let cards = usize::try_from(cards).unwrap();
        let name = NodeName::new(&format!("gpu{number:03}")).unwrap();
        Self { name, units, cards, scheduling, is_down: rng.is_one_of(12), broken_as: number % 3 }
    }

    /// Returns true if a job of somebody else may have any of the devices.
    pub(super) fn has_unseen_job(&self) -> bool {
        let is_seen = self.units.iter().any(|unit| unit.is_of_job);
        match self.scheduling {
            Scheduling::JobUnseen => true,
            Scheduling::JobSeen => !is_seen,
            Scheduling::Unscheduled | Scheduling::Idle | Scheduling::Drained => false,
        }
    }

    /// Returns the word that a unit counts as.
    pub(super) fn state(&self, unit: &UnitFacts) -> &'static str {
        let is_idle = unit.load.is_some_and(|load| load < 5);
        let is_in_use = unit.process.is_some_and(|bytes| bytes >= 256 * MIB);
        let is_unused = !is_in_use && unit.hidden == 0 && unit.nameless == 0 && unit.leaked < GIB;
        // A slice whose load nothing measures is idle if nothing uses it.
        let may_be_idle = is_idle || (unit.slice.is_some() && unit.load.is_none());
        match unit.load {
            _ if self.is_down => "stale",
            _ if unit.soundness == Soundness::Broken => "faulty",
            _ if unit.is_empty => "unavailable",
            Some(5..) => "busy",
            // Which processes are hidden is known, and what they use is not.
            _ if is_idle && (is_in_use || unit.is_of_job || unit.hidden > 0) => "idle_held",
            _ if is_in_use || unit.hidden > 0 => "in_use",
            _ if unit.is_of_job && !(may_be_idle && is_unused) => "in_use",
            _ if unit.is_of_job => "idle_held",
            _ if self.has_unseen_job() || !may_be_idle || !is_unused => "unknown",
            _ if self.scheduling == Scheduling::Drained => "unavailable",
            _ => "free",
        }
    }

    /// Returns why a unit is not free, or not known to be.
    pub(super) fn state_reason(&self, unit: &UnitFacts) -> Option<&'static str> {
        match self.state(unit) {
            "unavailable" if unit.is_empty => Some("no_slices"),
            "unavailable" => Some("node_takes_no_jobs"),
            "idle_held" | "in_use" if unit.is_of_job => Some("allocated"),
            "idle_held" | "in_use" => Some("in_use"),
            "unknown" if unit.nameless > 0 => Some("hidden_processes"),
            "unknown" if unit.leaked >= GIB => Some("memory_without_process"),
            "unknown" if unit.load.is_none() && unit.slice.is_none() => Some("load_unknown"),
            "unknown" => Some("may_be_allocated"),
            _ => None,
        }
    }

    /// Returns what gtop makes of it.
    pub(super) fn fleet(&self) -> Fleet {
        let node = self.node();
        Fleet::new([node].into()).with_jobs(self.jobs().map(Arc::new))
    }

    fn jobs(&self) -> Option<JobList> {
        let state = match self.scheduling {
            Scheduling::Unscheduled => return None,
            Scheduling::Idle => NodeState::Idle,
            Scheduling::Drained => NodeState::Drained,
            Scheduling::JobSeen | Scheduling::JobUnseen => NodeState::Mixed,
        };
        let is_used = matches!(self.scheduling, Scheduling::JobSeen | Scheduling::JobUnseen);
        let node = SchedulerNode {
            devices: u32::try_from(self.units.len()).ok(),
            allocated: Some(u32::from(is_used)),
            ..SchedulerNode::in_state(state, &[])
        };
        let nodes = SchedulerNodes {
            nodes: [(self.name.clone(), Arc::new(node))].into(),
            at: Some(NOW),
            allocated_at: Some(NOW),
            ..SchedulerNodes::default()
        };
        let (devices, begun) = (DeviceAllocation::Count(1), NOW.minus(Duration::from_secs(600)));
        let allocation = Allocation { node: self.name.clone(), devices };
        let job = running_job("7", "train", "bob", (600, 3600));
        let job = Job { allocations: [allocation].into(), starts_at: Some(begun), ..job };
        let jobs = if is_used { vec![job] } else { Vec::new() };
        Some(JobList {
            scheduler: SchedulerKind::default().profile(),
            jobs,
            at: Some(NOW),
            nodes: Arc::new(nodes),
            ..JobList::default()
        })
    }
}

/// Returns a random card or slice.
fn unit(
    rng: &mut Rng,
    uuid: String,
    (card, slice): (u32, Option<u32>),
    soundness: Soundness,
    is_cut: bool,
) -> UnitFacts {
    let is_empty = is_cut && slice.is_none();
    let load = match rng.below(6) {
        0 => None,
        1 => Some(rng.below(101)),
        _ => Some(0),
    };
    let process = match rng.below(5) {
        0 => Some((1 + rng.below(6)) * GIB),
        1 => Some(100 * MIB),
        _ => None,
    };
    UnitFacts {
        uuid: uuid.into(),
        card,
        slice,
        soundness,
        load: load.filter(|_| !is_empty),
        process: process.filter(|_| !is_empty),
        is_of_job: false,
        hidden: u64::from(!is_empty && rng.is_one_of(12)),
        nameless: u32::from(!is_empty && rng.is_one_of(12)),
        leaked: if rng.is_one_of(8) { 3 * GIB } else { 20 * MIB },
        is_empty,
    }
}

/// Making of the node.
impl Machine {
    fn node(&self) -> Arc<gtop_fleet::Node> {
        let source = Source::new("nvml");
        let mut builder = NodeBuilder::new(self.name.clone(), Duration::from_secs(60));
        builder.on_link(Link::Up);
        let host = HostFacts { user: "ada".into(), ..HostFacts::default() };
        let second = Duration::from_secs(1);
        let intervals = [Source::host(), source.clone(), source.processes(), source.slow()];
        let intervals = intervals.into_iter().map(|source| (source, second)).collect();
        builder.on_hello(Hello { host, intervals, ..Hello::default() });
        let seen = |(pid, unit): (u32, &UnitFacts)| {
            let job = unit.is_of_job.then(|| JobId::new("7")).flatten();
            let user = if unit.is_of_job { "bob" } else { "eve" };
            ProcessReading {
                key: ProcessKey { pid, start_ticks: 1 },
                cpu_ticks: Reading::default(),
                cpu_percent: Reading::default(),
                running_seconds: Reading::default(),
                resident: Reading::default(),
                state: Reading::default(),
                threads: Reading::default(),
                statics: Some(Arc::new(ProcessStatics {
                    user: Reading::Known(user.into()),
                    job,
                    ..ProcessStatics::default()
                })),
            }
        };
        let listed = (100..).zip(&self.units);
        let visible = listed.clone().filter(|(_, unit)| unit.process.is_some());
        let hidden = listed.filter(|(_, unit)| unit.hidden > 0).map(|(pid, _)| UnseenProcess {
            pid: pid + 1000,
            why: UnseenReason::Hidden,
            statics: ProcessStatics::default(),
        });
        builder.on_sample(Sample {
            host: Some((NOW, HostReading::default())),
            backends: vec![BackendReading {
                source,
                slow_at: Some(NOW),
                devices: Some(DevicesReading {
                    at: NOW,
                    list: self.devices(),
                    is_cut_short: false,
                }),
                uses: Some(UsesReading { at: NOW, list: self.uses(), nameless: self.nameless() }),
            }],
            processes: Some(ProcessesReading {
                at: NOW,
                list: visible.map(seen).collect(),
                unseen: hidden.collect(),
            }),
            evidence: Some(Arc::new(self.evidence())),
            ..Sample::default()
        });
        if self.is_down {
            let fault = Fault::new(FaultKind::Silent, "");
            builder.on_link(Link::Down { fault, retry_at: None });
        }
        builder.node()
    }

    /// The job has a device control group.
    fn evidence(&self) -> DeviceEvidence {
        let job = JobId::new("7").filter(|_| self.scheduling == Scheduling::JobSeen);
        let groups = job.into_iter().map(|job| JobDeviceFiles { job, minors: None });
        DeviceEvidence { job_devices: groups.collect(), ..DeviceEvidence::default() }
    }

    fn uses(&self) -> Vec<DeviceUse> {
        let of_unit = |(pid, unit): (u32, &UnitFacts)| {
            let used = |pid, bytes| DeviceUse {
                device: Arc::clone(&unit.uuid),
                pid,
                memory: Reading::Known(Bytes(bytes)),
                ..DeviceUse::default()
            };
            let hidden = (unit.hidden > 0).then(|| used(pid + 1000, GIB));
            let visible = unit.process.map(|bytes| used(pid, bytes));
            visible.into_iter().chain(hidden).collect::<Vec<_>>()
        };
        (100..).zip(&self.units).flat_map(of_unit).collect()
    }

    fn nameless(&self) -> BTreeMap<Arc<str>, u32> {
        let units = self.units.iter().filter(|unit| unit.nameless > 0);
        units.map(|unit| (Arc::clone(&unit.uuid), unit.nameless)).collect()
    }

    /// Returns the cards, each followed by its slices.
    fn devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> = Vec::new();
        for unit in &self.units {
            let whole = format!("GPU-{}-{}", self.number(), unit.card);
            if unit.slice.is_some() && devices.iter().all(|device| *device.uuid != *whole) {
                let of_card = self.units.iter().filter(|other| other.card == unit.card);
                let used: u64 = of_card.map(|other| other.memory().1).sum();
                devices.push(Device {
                    uuid: whole.as_str().into(),
                    mig: Reading::Known(true),
                    memory_used: Reading::Known(Bytes(used)),
                    ..self.device(unit, (80 * GIB, used))
                });
            }
            let parent = unit.slice.map(|_| whole.as_str().into());
            let mut device = self.device(unit, unit.memory());
            if let Some(slice) = unit.slice {
                // All that a slice has is its memory, its processes and the counters of its engines.
                let load = unit.load.map_or(Reading::Unknown(Reason::NotSupported), percent);
                let activity = DeviceActivity { graphics_active: load, ..Default::default() };
                device = Device {
                    index: Reading::Known(slice),
                    activity: activity.shared(),
                    details: None,
                    fault: None,
                    ..device
                };
            }
            let mig = Reading::Known(unit.is_empty);
            devices.push(Device { uuid: Arc::clone(&unit.uuid), parent, mig, ..device });
        }
        devices
    }

    /// Returns the values of a card, or those that a unit shares with it.
    fn device(&self, unit: &UnitFacts, (total, used): (u64, u64)) -> Device {
        let is_whole = unit.slice.is_none() && !unit.is_empty;
        let utilization = match unit.load.filter(|_| is_whole) {
            Some(load) => percent(load),
            None if is_whole => Reading::Unknown(Reason::DriverError),
            None => Reading::Unknown(Reason::NotSupported),
        };
        let (is_broken, is_worn) =
            (unit.soundness == Soundness::Broken, unit.soundness == Soundness::Worn);
        let is_lost = is_broken && self.broken_as == 0 && unit.slice.is_none();
        let details = DeviceDetails {
            recovery: Reading::Known(if is_broken && self.broken_as == 1 {
                RecoveryAction::Reset
            } else {
                RecoveryAction::None
            }),
            remapping_failed: Reading::Known(is_broken && self.broken_as != 1),
            remapping_pending: Reading::Known(is_worn && self.broken_as == 1),
            ecc_uncorrected_total: Reading::Known(0),
            ..DeviceDetails::default()
        };
        Device {
            uuid: Arc::clone(&unit.uuid),
            index: Reading::Known(unit.card),
            vendor: Reading::Known(Vendor::Nvidia),
            name: Reading::Known("H100".into()),
            utilization,
            memory_total: Reading::Known(Bytes(total)),
            memory_used: Reading::Known(Bytes(used)),
            memory_free: Reading::Known(Bytes(total - used)),
            ecc_uncorrected: Reading::Known(u64::from(is_worn && self.broken_as != 1)),
            details: details.shared(),
            fault: is_lost.then_some(DeviceFault::Lost),
            ..Device::default()
        }
    }

    fn number(&self) -> u64 {
        self.name.as_str().trim_start_matches("gpu").parse().unwrap()
    }
}

fn percent(share: u64) -> Reading<Percent> {
    Reading::checked(Percent::new(share as f32))
}
