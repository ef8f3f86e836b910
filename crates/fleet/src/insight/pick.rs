//! The choice of free devices for `gtop pick`: which devices may be picked, in which order, and why the others may not.
//!
//! On one machine without a scheduler the choice is that of nvisel. Beyond that, a device is never picked if what is
//! known of it is old or incomplete, or if a job of somebody else holds it.

pub use variables::{identifiers, variables};

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::insight::pick::candidates::find_candidates;
pub use crate::insight::pick::candidates::memory_of_nobody;
use crate::query::Filter;
use crate::{Fleet, Health, Node};
use gtop_local::time::Timestamp;
use gtop_model::{JobId, NodeName, Vendor};

mod candidates;
mod held;
mod inherited;
mod variables;

/// What is wanted. Sizes are in bytes, shares in percent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PickRequest {
    /// Fewer devices are not enough.
    pub min_count: usize,
    /// No more devices are picked; `None`: all that may be.
    pub max_count: Option<usize>,
    pub min_free_memory: Option<u64>,
    pub min_total_memory: Option<u64>,
    pub max_utilization: Option<u32>,
    pub max_memory_utilization: Option<u32>,
    /// How far a device may be from these limits.
    pub tolerance: u32,
    /// Memory that processes of these users hold counts as free.
    pub free_users: BTreeSet<String>,
    /// Memory of the user who runs gtop counts as free.
    pub is_own_memory_free: bool,
    /// Devices that work, and are slower or less reliable than they should be, are picked too, after all others.
    pub allows_degraded: bool,
    /// Picked in the order of the driver instead of the best first.
    pub is_unsorted: bool,
    pub spread: Spread,
    /// Only the devices of this list, in the form of `CUDA_VISIBLE_DEVICES`.
    pub inherited: Option<String>,
    /// Only the devices that match.
    pub filter: Filter,
    /// The UUIDs of devices that another gtop pick has reserved.
    pub reserved: BTreeSet<String>,
    /// Only the devices of this job, or of these components of a heterogeneous one: that of the shell in which gtop runs.
    pub jobs: Vec<JobId>,
}

/// Over which nodes the devices are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Any.
    #[default]
    Anywhere,
    /// All devices are from one node.
    SameNode,
    /// The same number of devices from each of exactly this many nodes.
    Nodes(usize),
}

/// A device that may be picked.
#[derive(Clone, Debug, PartialEq)]
pub struct EligibleDevice {
    pub node: NodeName,
    pub vendor: Vendor,
    pub uuid: Arc<str>,
    /// The driver's index; of a MIG slice, that among the slices of its device.
    pub index: u32,
    /// The index of the device; of a MIG slice, that of the device it is cut from.
    pub whole_index: u32,
    pub is_slice: bool,
    /// Its index is not the one that programs know it by, as devices before it are gone.
    pub(crate) is_renumbered: bool,
    /// Model name.
    pub name: Option<Arc<str>>,
    /// Free memory in bytes, with what counts as free.
    pub free_memory: u64,
    /// Total memory in bytes.
    pub total_memory: Option<u64>,
    /// Used memory in bytes, without what counts as free.
    pub(crate) used_memory: u64,
    /// Percent.
    pub utilization: Option<f32>,
    /// Percent.
    pub memory_utilization: Option<f32>,
    /// How sound it is; never faulty.
    pub health: Health,
    /// It is busy, or others use it or may, and no limit says how much they may.
    pub is_shared: bool,
    /// Number of limits that only the tolerance lets it meet.
    pub loosened: u32,
}

/// A device, or a whole node, that is not picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub node: NodeName,
    /// The driver's index; `None` if it is unknown, and for a node.
    pub index: Option<u32>,
    /// `None` for a node.
    pub uuid: Option<Arc<str>>,
    pub reason: String,
}

/// The devices picked, the best first, and all others with the reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picks {
    pub picked: Vec<EligibleDevice>,
    pub refused: Vec<Refused>,
    /// False if fewer devices or nodes were found than wanted.
    pub is_enough: bool,
    /// Why most devices are refused that were not eligible, and how many are.
    pub main_reason: Option<(String, usize)>,
    /// Where the list of inherited devices ends early, as a sentence.
    pub notice: Option<String>,
}

/// The vendors whose devices are picked; the first that has enough wins, and vendors are never mixed.
const PICKED_VENDORS: [Vendor; 2] = [Vendor::Nvidia, Vendor::Amd];

impl Picks {
    /// Picks devices of a fleet, each machine counted once.
    pub fn of(fleet: &Fleet, now: Timestamp, request: &PickRequest) -> Self {
        let found = find_candidates(fleet, now, request);
        let mut candidates = found.candidates;
        if request.is_unsorted {
            candidates.sort_by_key(|candidate| candidate.health);
        } else {
            sort(fleet, &mut candidates);
        }
        let picked = choose_vendor(&candidates, request);
        let main_reason = main_reason(&found.refused);
        let mut refused = found.refused;
        refused.extend(not_chosen(&candidates, &picked));
        let is_enough = request.is_met(&picked);
        Self { picked, refused, is_enough, main_reason, notice: found.notice }
    }

    /// Returns the picked devices by node, in the order picked.
    pub fn by_node(&self) -> Vec<(&NodeName, Vec<&EligibleDevice>)> {
        group_by_node(&self.picked)
    }
}

impl PickRequest {
    /// Returns true if it says how much others may use a device.
    const fn has_limits(&self) -> bool {
        self.min_free_memory.is_some()
            || self.max_utilization.is_some()
            || self.max_memory_utilization.is_some()
    }

    /// Returns true if these devices are enough.
    fn is_met(&self, picked: &[EligibleDevice]) -> bool {
        let has_nodes = match self.spread {
            Spread::Nodes(count) => group_by_node(picked).len() == count,
            Spread::Anywhere | Spread::SameNode => true,
        };
        picked.len() >= self.min_count && has_nodes
    }
}

/// Sorts devices, the best first; equal ones by node, and on a node from the highest index.
fn sort(fleet: &Fleet, devices: &mut [EligibleDevice]) {
    let positions: BTreeMap<&NodeName, usize> =
        fleet.nodes.iter().enumerate().map(|(position, node)| (&node.name, position)).collect();
    devices.sort_by(|one, other| {
        quality(one, other)
            .then_with(|| positions.get(&one.node).cmp(&positions.get(&other.node)))
            .then_with(|| other.whole_index.cmp(&one.whole_index))
    });
}

/// Compares two devices: sound ones first, fewest loosened limits, without limits unused ones first, most free memory, most
/// memory in use (the larger device), lowest utilization, lowest memory utilization. An unknown share comes after all known
/// ones.
fn quality(one: &EligibleDevice, other: &EligibleDevice) -> Ordering {
    let [key, other_key] = [one, other].map(|device| {
        let memory = (Reverse(device.free_memory), Reverse(device.used_memory));
        (device.health, device.loosened, device.is_shared, memory)
    });
    key.cmp(&other_key)
        .then_with(|| compare_shares(one.utilization, other.utilization))
        .then_with(|| compare_shares(one.memory_utilization, other.memory_utilization))
}

fn compare_shares(one: Option<f32>, other: Option<f32>) -> Ordering {
    one.unwrap_or(f32::INFINITY).total_cmp(&other.unwrap_or(f32::INFINITY))
}

/// Chooses devices of one vendor: the first that has enough, or else the one with the most.
fn choose_vendor(candidates: &[EligibleDevice], request: &PickRequest) -> Vec<EligibleDevice> {
    let mut best = Vec::new();
    for vendor in PICKED_VENDORS {
        let own = candidates.iter().filter(|candidate| candidate.vendor == vendor);
        let chosen = choose(own.cloned().collect(), request);
        let is_enough = !chosen.is_empty() && request.is_met(&chosen);
        if chosen.len() > best.len() || is_enough {
            best = chosen;
        }
        if is_enough {
            break;
        }
    }
    best
}

/// Chooses from sorted devices of one vendor.
fn choose(sorted: Vec<EligibleDevice>, request: &PickRequest) -> Vec<EligibleDevice> {
    match request.spread {
        Spread::Anywhere => {
            let mut chosen = usable_together(sorted, request.min_count);
            chosen.truncate(request.max_count.unwrap_or(usize::MAX));
            chosen
        }
        Spread::SameNode => spread_evenly(&sorted, 1, request),
        Spread::Nodes(count) => spread_evenly(&sorted, count, request),
    }
}

/// Returns devices that one program can use together: CUDA shows it either whole devices or one MIG slice.
fn usable_together(sorted: Vec<EligibleDevice>, min_count: usize) -> Vec<EligibleDevice> {
    let starts_whole = sorted.first().is_none_or(|device| !device.is_used_alone());
    let (mut slices, whole): (Vec<_>, Vec<_>) =
        sorted.into_iter().partition(EligibleDevice::is_used_alone);
    // One slice is better than one device that others use.
    let is_slice_better = min_count <= 1
        && slices.first().is_some_and(|slice| !slice.is_shared)
        && whole.iter().all(|device| device.is_shared);
    let has_enough = min_count > 0 && whole.len() >= min_count && !is_slice_better;
    if slices.is_empty() || has_enough || starts_whole {
        return whole;
    }
    slices.truncate(1);
    slices
}

/// Chooses the same number of devices, as many as possible, on each of this many nodes.
///
/// Of several nodes with that many, those are chosen whose last device is best.
fn spread_evenly(
    sorted: &[EligibleDevice],
    nodes: usize,
    request: &PickRequest,
) -> Vec<EligibleDevice> {
    let min_count = request.min_count.div_ceil(nodes.max(1));
    let limit = request.max_count.map_or(usize::MAX, |count| count / nodes.max(1));
    let groups = group_by_node(sorted)
        .into_iter()
        .map(|(_, devices)| usable_together(devices.into_iter().cloned().collect(), min_count));
    let mut groups: Vec<_> = groups.filter(|devices| !devices.is_empty()).collect();
    groups.sort_by_key(|devices| Reverse(devices.len()));
    let smallest = groups.get(nodes.saturating_sub(1)).or(groups.last()).map_or(0, Vec::len);
    let count = smallest.min(limit);
    groups.retain(|devices| devices.len() >= count);
    for devices in &mut groups {
        devices.truncate(count);
    }
    if !request.is_unsorted {
        groups.sort_by(|one, other| match (one.last(), other.last()) {
            (Some(one), Some(other)) => quality(one, other),
            (None, _) | (_, None) => Ordering::Equal,
        });
    }
    groups.into_iter().take(nodes).flatten().collect()
}

/// Groups devices by node, both in the order they come.
fn group_by_node(devices: &[EligibleDevice]) -> Vec<(&NodeName, Vec<&EligibleDevice>)> {
    let mut positions: BTreeMap<&NodeName, usize> = BTreeMap::new();
    let mut groups: Vec<(&NodeName, Vec<&EligibleDevice>)> = Vec::new();
    for device in devices {
        let position = *positions.entry(&device.node).or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, group)) => group.push(device),
            None => groups.push((&device.node, vec![device])),
        }
    }
    groups
}

/// Returns why most devices are refused, and how many are for that reason; of equally many, the first of the alphabet.
fn main_reason(refused: &[Refused]) -> Option<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for device in refused.iter().filter(|refused| refused.uuid.is_some()) {
        *counts.entry(&device.reason).or_default() += 1;
    }
    let (reason, count) =
        counts.into_iter().max_by_key(|(reason, count)| (*count, Reverse(*reason)))?;
    Some((reason.to_owned(), count))
}

/// Returns the devices that meet all limits and were not chosen.
fn not_chosen(candidates: &[EligibleDevice], picked: &[EligibleDevice]) -> Vec<Refused> {
    let chosen: BTreeSet<(&NodeName, &Arc<str>)> =
        picked.iter().map(|device| (&device.node, &device.uuid)).collect();
    let vendor = picked.first().map(|device| device.vendor);
    let has_slice = picked.iter().any(EligibleDevice::is_used_alone);
    let others = candidates.iter().filter(|device| !chosen.contains(&(&device.node, &device.uuid)));
    let refused = others.map(|device| {
        let reason = if vendor.is_some_and(|vendor| vendor != device.vendor) {
            "another vendor's devices are picked"
        } else if !picked.is_empty() && device.is_used_alone() != has_slice {
            "MIG slices and whole devices cannot be used together"
        } else if device.is_used_alone() {
            "CUDA shows a program one MIG slice only"
        } else {
            "not needed"
        };
        Refused::of_device(&device.node, Some(device.index), &device.uuid, reason.to_owned())
    });
    refused.collect()
}

impl EligibleDevice {
    /// Returns true if a program can use it and no other device: a MIG slice.
    fn is_used_alone(&self) -> bool {
        self.is_slice && self.vendor == Vendor::Nvidia
    }
}

impl Refused {
    fn of_node(node: &Node, reason: String) -> Self {
        Self { node: node.name.clone(), index: None, uuid: None, reason }
    }

    fn of_device(node: &NodeName, index: Option<u32>, uuid: &Arc<str>, reason: String) -> Self {
        Self { node: node.clone(), index, uuid: Some(Arc::clone(uuid)), reason }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Process, SourceState};
    use gtop_model::NodeState;
    use gtop_model::SchedulerProfile;
    use gtop_model::{
        Allocation, Bytes, ConfigurationState, Device, DeviceAllocation, DeviceDetails,
        DeviceEvidence, DeviceFault, DeviceUse, DriverDevice, Fault, FaultKind, Hello, HostFacts,
        Job, JobList, JobListError, Link, Percent, ProcessKey, ProcessStatics, Reading, Reason,
        RecoveryAction, RequestedJobs, SchedulerErrorKind, SchedulerNode, SchedulerNodes, Source,
        TransportKind,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn nvml() -> Source {
        Source::new("nvml")
    }

    /// Returns a device of 100 GiB with this much free, in GiB, and this utilization.
    fn device(index: u32, free: u64, share: f32) -> Device {
        Device {
            uuid: format!("GPU-{index}").into(),
            index: Reading::Known(index),
            vendor: Reading::Known(Vendor::Nvidia),
            utilization: Reading::checked(Percent::new(share)),
            memory_utilization: Reading::checked(Percent::new(0.0)),
            memory_total: Reading::Known(Bytes(100 << 30)),
            memory_used: Reading::Known(Bytes((100 - free) << 30)),
            memory_free: Reading::Known(Bytes(free << 30)),
            ..Device::default()
        }
    }

    /// Returns a fresh node on which gtop runs as ada.
    fn node(name: &str, devices: Vec<Device>) -> Node {
        let host = HostFacts { user: "ada".into(), ..HostFacts::default() };
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::from_secs(60));
        node.link = Link::Up;
        node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        let sampled = |source| SourceState {
            source,
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        };
        node.sources = [Source::host(), nvml()].map(sampled).into();
        node.device_sources = vec![nvml(); devices.len()].into();
        node.devices = devices.into();
        node
    }

    fn fleet(nodes: Vec<Node>) -> Fleet {
        Fleet::new(nodes.into_iter().map(Arc::new).collect())
    }

    fn picks(fleet: &Fleet, request: &PickRequest) -> Picks {
        Picks::of(fleet, NOW, request)
    }

    /// Returns the picked devices as `gpu01:0,1 gpu02:3`.
    fn text(picks: &Picks) -> String {
        let group = |(node, devices): &(&NodeName, Vec<&EligibleDevice>)| {
            let devices = identifiers(devices, false).join(",");
            format!("{node}:{devices}")
        };
        picks.by_node().iter().map(group).collect::<Vec<_>>().join(" ")
    }

    fn wanted(count: usize, spread: Spread) -> PickRequest {
        PickRequest { min_count: count, max_count: Some(count), spread, ..PickRequest::default() }
    }

    fn reason(picks: &Picks, uuid: &str) -> String {
        let found = picks.refused.iter().find(|refused| refused.uuid.as_deref() == Some(uuid));
        found.unwrap_or_else(|| panic!("{uuid} is not refused: {picks:?}")).reason.clone()
    }

    /// Returns a job of this user with these devices of `gpu01`.
    fn job(id: &str, user: &str, devices: DeviceAllocation) -> Job {
        let allocation = Allocation { node: NodeName::new("gpu01").unwrap(), devices };
        Job { user: user.into(), allocations: [allocation].into(), ..Job::example(id) }
    }

    /// Returns a list of jobs.
    fn list(jobs: Vec<Job>) -> JobList {
        let scheduler = SchedulerProfile::example();
        JobList { scheduler, jobs, at: Some(NOW), ..JobList::default() }
    }

    fn with_jobs(nodes: Vec<Node>, jobs: Vec<Job>) -> Fleet {
        fleet(nodes).with_jobs(Some(Arc::new(list(jobs))))
    }

    /// Returns a list of jobs of a scheduler that knows `gpu01`, of whose devices these are in use.
    fn scheduled(jobs: Vec<Job>, state: NodeState, devices: u32, in_use: &[u32]) -> JobList {
        let node = SchedulerNode {
            devices: Some(devices),
            allocated: u32::try_from(in_use.len()).ok(),
            allocated_indices: Some(in_use.into()),
            ..SchedulerNode::in_state(state, &[])
        };
        let nodes = [(NodeName::new("gpu01").unwrap(), Arc::new(node))].into();
        let nodes = SchedulerNodes {
            nodes,
            at: Some(NOW),
            allocated_at: Some(NOW),
            ..SchedulerNodes::default()
        };
        JobList { nodes: Arc::new(nodes), ..list(jobs) }
    }

    /// Returns `gpu01` with a daemon that lists these device files, and with what the scheduler tells.
    fn scheduled_fleet(minors: &[u32], listed: &[u32], jobs: JobList) -> Fleet {
        let gpu01 = node("gpu01", numbered(minors)).with_device_list(listed);
        fleet(vec![gpu01]).with_jobs(Some(Arc::new(jobs)))
    }

    /// Returns devices with the minor numbers by which the scheduler counts.
    fn numbered(minors: &[u32]) -> Vec<Device> {
        let with_minor = |(index, minor): (u32, &u32)| {
            let statics = gtop_model::DeviceStatics {
                minor: Reading::Known(*minor),
                ..gtop_model::DeviceStatics::default()
            };
            Device { statics: Some(Arc::new(statics)), ..device(index, 90, 0.0) }
        };
        (0..).zip(minors).map(with_minor).collect()
    }

    /// Adds a process of a user, in a job if there is one, to a device of a node.
    fn run_process(node: &mut Node, pid: u32, user: &str, job: Option<&str>, device: &str) {
        let memory = Reading::Known(Bytes(10 << 30));
        let device_use = DeviceUse { device: device.into(), pid, memory, ..DeviceUse::default() };
        let statics = ProcessStatics {
            user: Reading::Known(user.into()),
            job: job.and_then(JobId::new),
            ..ProcessStatics::default()
        };
        let key = ProcessKey { pid, start_ticks: 1 };
        let process = Process { key, statics: Arc::new(statics), ..Process::default() };
        node.uses = node.uses.iter().cloned().chain([device_use]).collect();
        node.processes = node.processes.iter().cloned().chain([process]).collect();
    }

    #[test]
    fn the_best_devices_come_first_and_device_0_last() {
        let one = fleet(vec![node(
            "gpu01",
            vec![device(0, 90, 0.0), device(1, 50, 0.0), device(2, 90, 30.0), device(3, 90, 0.0)],
        )]);
        assert_eq!(text(&picks(&one, &PickRequest::default())), "gpu01:3,0,1,2");
        let unsorted = PickRequest { is_unsorted: true, ..wanted(3, Spread::Anywhere) };
        assert_eq!(text(&picks(&one, &unsorted)), "gpu01:0,1,2");
        let two = picks(&one, &wanted(2, Spread::Anywhere));
        assert_eq!((text(&two).as_str(), two.is_enough), ("gpu01:3,0", true));
        assert_eq!(reason(&two, "GPU-2"), "not needed");
    }

    #[test]
    fn limits_are_loosened_by_the_tolerance_only_after_those_within_them() {
        let one = fleet(vec![node(
            "gpu01",
            vec![device(0, 80, 9.0), device(1, 90, 20.0), device(2, 90, 90.0)],
        )]);
        let request = |tolerance| PickRequest {
            max_utilization: Some(10),
            tolerance,
            ..PickRequest::default()
        };
        assert_eq!(text(&picks(&one, &request(0))), "gpu01:0");
        assert_eq!(text(&picks(&one, &request(10))), "gpu01:0,1");
        assert_eq!(reason(&picks(&one, &request(10)), "GPU-2"), "utilization is 90 %, above 10 %");
        let memory = PickRequest { min_free_memory: Some(100 << 30), tolerance: 10, ..request(10) };
        assert_eq!(text(&picks(&one, &memory)), "gpu01:1");
    }

    #[test]
    fn what_is_unknown_old_or_broken_is_never_picked() {
        let unknown = Reading::Unknown(Reason::NoPermission);
        let cases = [
            (Device { fault: Some(DeviceFault::Lost), ..device(1, 90, 0.0) }, "lost"),
            (Device { memory_free: unknown, ..device(1, 90, 0.0) }, "free memory is unknown"),
            (
                Device { utilization: Reading::default(), ..device(1, 90, 0.0) },
                "utilization is unk",
            ),
            (Device { vendor: Reading::default(), ..device(1, 90, 0.0) }, "vendor is unknown"),
            (Device { vendor: Reading::Known(Vendor::Google), ..device(1, 90, 0.0) }, "TPU chips"),
            (Device { mig: Reading::Known(true), ..device(1, 90, 0.0) }, "in MIG mode"),
            (Device { uuid: "GPU-$(x)".into(), ..device(1, 90, 0.0) }, "its UUID has"),
        ];
        for (bad, expected) in cases {
            let uuid = Arc::clone(&bad.uuid);
            let one = fleet(vec![node("gpu01", vec![device(0, 10, 5.0), bad])]);
            let request = PickRequest { max_utilization: Some(50), ..PickRequest::default() };
            let found = picks(&one, &request);
            assert_eq!(text(&found), "gpu01:0", "{expected}");
            assert!(reason(&found, &uuid).starts_with(expected), "{}", reason(&found, &uuid));
        }
        let late = NOW.plus(Duration::from_secs(60));
        let one = fleet(vec![node("gpu01", vec![device(0, 90, 0.0)])]);
        let found = Picks::of(&one, late, &PickRequest::default());
        assert_eq!(reason(&found, "GPU-0"), "stale: sampled 60 s ago");
        // Its driver has told what it is doing, and not yet how it is.
        let mut unjudged = node("gpu01", vec![device(0, 90, 0.0)]);
        unjudged.sources.push(SourceState {
            source: nvml().slow(),
            taken_at: None,
            ..unjudged.sources[1].clone()
        });
        let found = picks(&fleet(vec![unjudged]), &PickRequest::default());
        assert!(reason(&found, "GPU-0").starts_with("its health is not known yet"));
    }

    /// Returns a device with these details.
    fn detailed(index: u32, change: impl FnOnce(&mut DeviceDetails)) -> Device {
        let mut details = DeviceDetails::default();
        change(&mut details);
        Device { details: Some(Arc::new(details)), ..device(index, 95, 0.0) }
    }

    #[test]
    fn a_faulty_device_is_never_picked_and_a_degraded_one_last_and_only_on_request() {
        let broken =
            detailed(1, |details| details.recovery = Reading::Known(RecoveryAction::Reset));
        let failing = detailed(2, |details| details.remapping_pending = Reading::Known(true));
        let one = fleet(vec![node("gpu01", vec![device(0, 10, 5.0), broken, failing])]);
        let found = picks(&one, &PickRequest::default());
        assert_eq!(text(&found), "gpu01:0");
        assert_eq!(reason(&found, "GPU-1"), "faulty: recovery action: reset the device");
        assert_eq!(
            reason(&found, "GPU-2"),
            "degraded: memory row remapping pending; --allow-degraded picks it"
        );
        let request = PickRequest { allows_degraded: true, ..PickRequest::default() };
        assert_eq!(text(&picks(&one, &request)), "gpu01:0,2");
    }

    #[test]
    fn a_device_whose_source_tells_nothing_of_health_comes_after_sound_ones() {
        let mut page = node("page", vec![device(0, 95, 0.0), device(1, 95, 0.0)]);
        page.via = Some(TransportKind::Http);
        page.devices[1].ecc_uncorrected = Reading::Known(3);
        let other = Device { uuid: "GPU-9".into(), ..device(0, 10, 0.0) };
        let found = picks(&fleet(vec![page, node("gpu01", vec![other])]), &PickRequest::default());
        assert_eq!(text(&found), "gpu01:0 page:0");
        let health: Vec<Health> = found.picked.iter().map(|device| device.health).collect();
        assert_eq!(health, [Health::Ok, Health::Unknown]);
        assert!(reason(&found, "GPU-1").starts_with("degraded: 3 uncorrected memory errors"));
    }

    #[test]
    fn memory_that_no_process_has_is_not_free() {
        let holding = |gibibytes: u64, hidden_processes| Device {
            hidden_processes,
            ..device(1, 100 - gibibytes, 0.0)
        };
        // On the other one, a process has all that is in use.
        let listing = |held: Device| {
            let mut listing = node("gpu01", vec![device(0, 90, 0.0), held]);
            run_process(&mut listing, 4, "ada", None, "GPU-0");
            let list = SourceState { source: nvml().processes(), ..listing.sources[1].clone() };
            listing.sources.push(list);
            listing
        };
        let found = |held| picks(&fleet(vec![listing(held)]), &PickRequest::default());
        let ghost = found(holding(22, Reading::Known(0)));
        assert_eq!(text(&ghost), "gpu01:0");
        assert_eq!(
            reason(&ghost, "GPU-1"),
            "22.0 GiB in use, and no process that the node lists has it"
        );
        // That much the driver keeps for itself.
        assert_eq!(text(&found(holding(2, Reading::Known(0)))), "gpu01:1,0");
        // Neither does a process without a pid explain it, nor a list that is refused; with next to no memory in use, such a
        // device comes last.
        let nameless =
            |gibibytes| Device { nameless_processes: 2, ..holding(gibibytes, Reading::Known(2)) };
        let refusing = |gibibytes| {
            let refused = Reason::NoPermission;
            let details = DeviceDetails {
                reports_users: Reading::Unknown(refused),
                ..DeviceDetails::default()
            };
            Device { details: details.shared(), ..holding(gibibytes, Reading::Unknown(refused)) }
        };
        let hiding = found(nameless(22));
        assert_eq!(text(&hiding), "gpu01:0");
        assert_eq!(
            reason(&hiding, "GPU-1"),
            "22.0 GiB in use, and no process that the node lists has it; 2 processes are hidden"
        );
        let silent = found(refusing(22));
        assert_eq!(text(&silent), "gpu01:0");
        assert_eq!(
            reason(&silent, "GPU-1"),
            "22.0 GiB in use, and which processes have it is not known"
        );
        assert_eq!(text(&found(nameless(0))), "gpu01:1,0");
        assert_eq!(text(&found(refusing(0))), "gpu01:1,0");
        // That a process has a little of it does not explain the rest.
        let with_process = |held, memory: Reading<Bytes>| {
            let mut shared = listing(held);
            let device_use =
                DeviceUse { device: "GPU-1".into(), pid: 5, memory, ..DeviceUse::default() };
            shared.uses = shared.uses.iter().cloned().chain([device_use]).collect();
            text(&picks(&fleet(vec![shared]), &PickRequest::default()))
        };
        let gibibytes = |count: u64| Reading::Known(Bytes(count << 30));
        assert_eq!(with_process(holding(22, Reading::Known(0)), gibibytes(9)), "gpu01:0");
        assert_eq!(with_process(nameless(22), gibibytes(12)), "gpu01:0,1");
        // A process of unknown memory may have all of it, if no other is hidden.
        let unknown = Reading::Unknown(Reason::NotAvailable);
        assert_eq!(with_process(holding(22, Reading::Known(0)), unknown), "gpu01:0,1");
        assert_eq!(with_process(nameless(22), unknown), "gpu01:0");
    }

    #[test]
    fn nodes_that_are_down_or_listed_twice_are_left_out() {
        let mut down = node("gpu02", vec![device(0, 90, 0.0)]);
        let fault = Fault::new(FaultKind::Silent, "");
        down.link = Link::Down { fault, retry_at: None };
        let mut alias = node("alias", vec![device(0, 90, 0.0)]);
        let mut first = node("gpu01", vec![device(0, 90, 0.0)]);
        for same in [&mut first, &mut alias] {
            let host =
                HostFacts { boot_id: "b".into(), host_name: "x".into(), ..HostFacts::default() };
            same.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        }
        let found = picks(&fleet(vec![first, down, alias]), &wanted(2, Spread::Anywhere));
        assert_eq!((text(&found).as_str(), found.is_enough), ("gpu01:0", false));
        let reasons: Vec<_> =
            found.refused.iter().map(|one| format!("{}: {}", one.node, one.reason)).collect();
        assert!(reasons[0].starts_with("gpu02: down: "), "{reasons:?}");
        assert_eq!(reasons[1], "alias: the same machine as gpu01");
    }

    #[test]
    fn equal_devices_are_taken_node_by_node() {
        let devices = || (0..4).map(|index| device(index, 90, 0.0)).collect();
        let two = fleet(vec![node("gpu02", devices()), node("gpu01", devices())]);
        assert_eq!(text(&picks(&two, &wanted(6, Spread::Anywhere))), "gpu02:3,2,1,0 gpu01:3,2");
    }

    #[test]
    fn devices_are_spread_evenly_or_on_one_node() {
        let free = |frees: &[u64]| {
            (0..).zip(frees).map(|(index, free)| device(index, *free, 0.0)).collect::<Vec<_>>()
        };
        let three = fleet(vec![
            node("a", free(&[99, 10])),
            node("b", free(&[50, 50, 50])),
            node("c", free(&[60, 60])),
        ]);
        for (count, spread, expected, is_enough) in [
            (2, Spread::SameNode, "c:1,0", true),
            (3, Spread::SameNode, "b:2,1,0", true),
            (4, Spread::SameNode, "b:2,1,0", false),
            (1, Spread::SameNode, "a:0", true),
            (4, Spread::Nodes(2), "c:1,0 b:2,1", true),
            (3, Spread::Nodes(3), "a:0 c:1 b:2", true),
            (6, Spread::Nodes(3), "c:1,0 b:2,1 a:0,1", true),
            (9, Spread::Nodes(3), "c:1,0 b:2,1 a:0,1", false),
            (4, Spread::Nodes(4), "a:0 c:1 b:2", false),
        ] {
            let found = picks(&three, &wanted(count, spread));
            assert_eq!(
                (text(&found).as_str(), found.is_enough),
                (expected, is_enough),
                "{spread:?}"
            );
        }
        let most = PickRequest { spread: Spread::Nodes(2), ..PickRequest::default() };
        assert_eq!(text(&picks(&three, &most)), "c:1,0 b:2,1");
        assert!(!picks(&fleet(vec![]), &most).is_enough);
    }

    #[test]
    fn a_device_of_somebody_elses_job_is_not_free_however_idle() {
        let indices = |list: &[u32]| DeviceAllocation::Indices(list.into());
        let jobs = vec![job("7", "bob", indices(&[3, 1])), job("8", "ada", indices(&[2]))];
        let jobs = scheduled(jobs, NodeState::Mixed, 4, &[1, 2, 3]);
        let one = scheduled_fleet(&[0, 1, 2, 3], &[0, 1, 2, 3], jobs);
        let found = picks(&one, &PickRequest::default());
        assert_eq!(text(&found), "gpu01:2,0");
        assert_eq!(reason(&found, "GPU-3"), "job 7 of bob holds it");
        // As the scheduler counts: neither by minor number nor in the driver's order.
        let bobs =
            || scheduled(vec![job("7", "bob", indices(&[0, 1]))], NodeState::Mixed, 4, &[0, 1]);
        let crossed = scheduled_fleet(&[2, 0, 3, 1], &[0, 1, 2, 3], bobs());
        assert_eq!(text(&picks(&crossed, &PickRequest::default())), "gpu01:2,0");
        let backwards = scheduled_fleet(&[2, 0, 3, 1], &[3, 1, 0, 2], bobs());
        assert_eq!(text(&picks(&backwards, &PickRequest::default())), "gpu01:1,0");
    }

    #[test]
    fn devices_of_jobs_that_the_scheduler_hides_are_not_picked() {
        let hidden = scheduled(Vec::new(), NodeState::Mixed, 3, &[1]);
        let found =
            picks(&scheduled_fleet(&[0, 1, 2], &[0, 1, 2], hidden), &PickRequest::default());
        // They may be from before the daemon made its list.
        assert_eq!(text(&found), "");
        assert!(reason(&found, "GPU-1").starts_with("jobs that are not shown hold it"));
    }

    #[test]
    fn a_closed_node_is_not_picked_from_without_an_own_job() {
        let drained = |jobs| scheduled(jobs, NodeState::Drained, 1, &[]);
        let found =
            picks(&scheduled_fleet(&[0], &[0], drained(Vec::new())), &PickRequest::default());
        assert_eq!(text(&found), "");
        assert_eq!(found.refused[0].reason, "the scheduler has it drained");
        assert_eq!(reason(&found, "GPU-0"), "the scheduler has it drained");
        assert_eq!((found.refused.len(), &found.refused[0].uuid), (2, &None));
        let own = vec![job("8", "ada", DeviceAllocation::None)];
        let found = picks(&scheduled_fleet(&[0], &[0], drained(own)), &PickRequest::default());
        assert_eq!(text(&found), "gpu01:0");
    }

    #[test]
    fn a_node_that_is_powered_down_is_refused_as_that() {
        let mut off = Node::new(NodeName::new("gpu02").unwrap(), Duration::ZERO);
        let state = NodeState::PoweredDown;
        off.scheduler = Some(Arc::new(SchedulerNode::in_state(state, &[])));
        let found = picks(
            &fleet(vec![node("gpu01", vec![device(0, 90, 0.0)]), off]),
            &PickRequest::default(),
        );
        assert_eq!(text(&found), "gpu01:0");
        assert_eq!(found.refused[0].reason, "the scheduler has it powered down");
    }

    #[test]
    fn a_silent_scheduler_frees_nothing() {
        let error = JobListError {
            message: "the controller is down".into(),
            kind: SchedulerErrorKind::Other,
            since: NOW.plus(Duration::from_secs(1)),
        };
        let scheduler = SchedulerProfile::example();
        let silent = || JobList { scheduler, ..JobList::default() };
        let listed = || scheduled(Vec::new(), NodeState::Idle, 1, &[]);
        let unasked = || {
            let known =
                SchedulerNode { devices: Some(1), ..SchedulerNode::in_state(NodeState::Idle, &[]) };
            let mut jobs = listed();
            let nodes = Arc::make_mut(&mut jobs.nodes);
            nodes.nodes.insert(NodeName::new("gpu01").unwrap(), Arc::new(known));
            jobs
        };
        for (jobs, expected) in [
            (Some(listed()), None),
            (None, Some("its commands are not on this machine, or are not configured")),
            (
                Some(JobList { error: Some(error), ..silent() }),
                Some("the controller is down; run it by hand"),
            ),
            (Some(silent()), Some("no answer yet; a longer --deadline may help")),
            (
                Some(JobList { awaits_devices: true, ..listed() }),
                Some("no answer yet; a longer --deadline may help"),
            ),
            (Some(list(Vec::new())), Some("it does not list this node")),
            (Some(unasked()), Some("it does not say how many devices of this node are in use")),
        ] {
            let with_daemon = node("gpu01", numbered(&[0])).with_device_list(&[0]);
            let without = node("gpu02", vec![device(5, 90, 0.0)]);
            let both = fleet(vec![with_daemon, without]).with_jobs(jobs.map(Arc::new));
            let found = picks(&both, &PickRequest::default());
            let Some(why) = expected else {
                assert_eq!(text(&found), "gpu01:0 gpu02:5");
                continue;
            };
            assert_eq!(text(&found), "gpu02:5", "{why}");
            let sentence = format!("{} does not say who has it: {why}", scheduler.words.name);
            assert_eq!(reason(&found, "GPU-0"), sentence);
            let of_nodes = found.refused.iter().filter(|refused| refused.uuid.is_none());
            let reasons: Vec<&str> = of_nodes.map(|refused| refused.reason.as_str()).collect();
            assert_eq!(reasons, [sentence.as_str()]);
            assert_eq!(found.main_reason, Some((sentence, 1)));
        }
    }

    #[test]
    fn in_the_shell_of_an_allocation_only_its_devices_are_picked() {
        let jobs = || {
            let own = DeviceAllocation::Indices([1, 2].into());
            let others = DeviceAllocation::Indices([0].into());
            let jobs = vec![job("7", "bob", others), job("8", "ada", own)];
            scheduled(jobs, NodeState::Mixed, 4, &[0, 1, 2])
        };
        let jobs_of = |ids: &[&str]| PickRequest {
            jobs: ids.iter().filter_map(|id| JobId::new(id)).collect(),
            ..PickRequest::default()
        };
        let request = jobs_of(&["8"]);
        let found = picks(&scheduled_fleet(&[0, 1, 2, 3], &[0, 1, 2, 3], jobs()), &request);
        assert_eq!(text(&found), "gpu01:2,1");
        assert_eq!(reason(&found, "GPU-3"), "outside job 8, whose shell this is");
        // A component of the job is on another node.
        let fleet_of_job = scheduled_fleet(&[0, 1, 2, 3], &[0, 1, 2, 3], jobs());
        assert_eq!(text(&picks(&fleet_of_job, &jobs_of(&["6", "8"]))), "gpu01:2,1");
        // Which devices the indices mean is only likely.
        let gpu01 = node("gpu01", numbered(&[0, 1, 2, 3]));
        let found = picks(&fleet(vec![gpu01]).with_jobs(Some(Arc::new(jobs()))), &request);
        assert_eq!(text(&found), "");
        let why = "not known for certain to belong to job 8, whose shell this is";
        assert_eq!(reason(&found, "GPU-1"), why);
        let found = picks(&fleet(vec![node("gpu01", numbered(&[0]))]), &request);
        assert_eq!(reason(&found, "GPU-0"), "not known to belong to job 8, whose shell this is");
    }

    #[test]
    fn in_a_confined_job_the_devices_it_may_open_are_picked_without_a_scheduler_too() {
        let mut inside = node("gpu01", numbered(&[0, 1])).with_device_list(&[0, 1, 2]);
        let host = HostFacts { user: "ada".into(), job: JobId::new("8"), ..HostFacts::default() };
        inside.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        let of = |openable: &[u32]| {
            let mut inside = inside.clone();
            let evidence = Arc::make_mut(inside.evidence.as_mut().unwrap());
            let known = |minor| DriverDevice { minor, ..DriverDevice::default() };
            evidence.driver_devices = (0..3).map(known).collect();
            evidence.openable = Some(openable.into());
            picks(&fleet(vec![inside]), &PickRequest::default())
        };
        assert_eq!(text(&of(&[1])), "gpu01:1");
        assert_eq!(reason(&of(&[1]), "GPU-0"), "not known to belong to job 8, in which gtop runs");
        assert_eq!(text(&of(&[0, 1, 2])), "", "the job is not confined");
    }

    #[test]
    fn in_a_step_of_fewer_devices_than_its_job_those_it_may_open_are_picked() {
        let of = |devices: DeviceAllocation, driver: u32, openable: &[u32]| {
            // The driver shows what can be opened, and nothing tells what the indices mean.
            let mut inside = node("gpu01", numbered(openable));
            let host =
                HostFacts { user: "ada".into(), job: JobId::new("8"), ..HostFacts::default() };
            inside.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
            let known = |minor| DriverDevice { minor, ..DriverDevice::default() };
            inside.evidence = Some(Arc::new(DeviceEvidence {
                driver_devices: (0..driver).map(known).collect(),
                openable: Some(openable.into()),
                ..DeviceEvidence::default()
            }));
            let jobs = scheduled(vec![job("8", "ada", devices)], NodeState::Mixed, 4, &[1, 2]);
            picks(&fleet(vec![inside]).with_jobs(Some(Arc::new(jobs))), &PickRequest::default())
        };
        let two = || DeviceAllocation::Indices([1, 2].into());
        assert_eq!(text(&of(two(), 4, &[3])), "gpu01:0");
        assert_eq!(text(&of(DeviceAllocation::Count(2), 4, &[3])), "gpu01:0");
        // Every job may open a device that the scheduler does not give to jobs.
        assert_eq!(text(&of(two(), 5, &[3])), "");
        assert_eq!(text(&of(two(), 4, &[1, 2, 3])), "");
        let shares = DeviceAllocation::Shares([1, 2].into());
        assert_eq!(text(&of(shares, 4, &[3])), "");
    }

    #[test]
    fn what_is_only_likely_is_not_picked() {
        let bobs = vec![job("7", "bob", DeviceAllocation::Indices([1].into()))];
        let found = picks(
            &with_jobs(vec![node("gpu01", numbered(&[0, 1, 2]))], bobs),
            &PickRequest::default(),
        );
        assert_eq!(text(&found), "");
        assert_eq!(reason(&found, "GPU-1"), "job 7 of bob holds it");
        let why = "job 7 of bob may hold it: which devices it has is only likely";
        assert_eq!(reason(&found, "GPU-0"), why);
    }

    #[test]
    fn of_equal_devices_that_with_more_memory_in_use_is_better() {
        let mut larger = device(0, 10, 0.0);
        larger.memory_total = Reading::Known(Bytes(200 << 30));
        larger.memory_used = Reading::Known(Bytes(190 << 30));
        let one = fleet(vec![node("gpu01", vec![larger, device(1, 10, 0.0)])]);
        assert_eq!(text(&picks(&one, &PickRequest::default())), "gpu01:0,1");
    }

    #[test]
    fn devices_that_a_job_may_have_are_not_picked() {
        let of = |devices: DeviceAllocation| {
            let jobs = vec![job("7", "bob", devices)];
            let mut gpu01 = node("gpu01", numbered(&[0, 1]));
            run_process(&mut gpu01, 5, "bob", Some("7"), "GPU-1");
            // Jobs can open their devices only, so a process shows a device of its job.
            let configuration = ConfigurationState {
                confines_jobs: Some(true),
                confinement_changed_at: Some(NOW),
                is_cached: true,
                ..ConfigurationState::default()
            };
            let evidence = DeviceEvidence { configuration, ..DeviceEvidence::default() };
            gpu01.evidence = Some(Arc::new(evidence));
            picks(&with_jobs(vec![gpu01], jobs), &PickRequest::default())
        };
        // The process shows the only device of the job.
        assert_eq!(text(&of(DeviceAllocation::Count(1))), "gpu01:0");
        let found = of(DeviceAllocation::Count(2));
        assert_eq!(text(&found), "");
        assert_eq!(
            reason(&found, "GPU-0"),
            "job 7 of bob may hold it: its devices on this node are not known"
        );
        // The scheduler names a device that the job does not use, so its numbering cannot be trusted.
        let found = of(DeviceAllocation::Indices([0].into()));
        assert_eq!(text(&found), "gpu01:0", "one device was allocated, and one is used");
    }

    #[test]
    fn in_a_job_only_its_devices_are_picked() {
        let indices = |list: &[u32]| DeviceAllocation::Indices(list.into());
        let jobs = vec![job("7", "bob", indices(&[0])), job("8", "ada", indices(&[1, 2]))];
        let mut inside = node("gpu01", numbered(&[0, 1, 2, 3])).with_device_list(&[0, 1, 2, 3]);
        let host = HostFacts { user: "ada".into(), job: JobId::new("8"), ..HostFacts::default() };
        inside.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        let found = picks(&with_jobs(vec![inside], jobs), &PickRequest::default());
        assert_eq!(text(&found), "gpu01:2,1");
        assert_eq!(reason(&found, "GPU-3"), "outside job 8, in which gtop runs");
    }

    #[test]
    fn a_device_of_which_a_job_not_shown_may_have_a_share_is_not_picked() {
        let host = HostFacts { user: "ada".into(), job: JobId::new("8"), ..HostFacts::default() };
        let of = |devices: DeviceAllocation, hides_jobs, is_inside| {
            let mut list = scheduled(vec![job("8", "ada", devices)], NodeState::Mixed, 2, &[0]);
            list.requested = RequestedJobs::All;
            list.hides_jobs = Some(hides_jobs);
            let mut gpu01 = node("gpu01", numbered(&[0, 1])).with_device_list(&[0, 1]);
            if is_inside {
                gpu01.hello = Some(Arc::new(Hello { host: host.clone(), ..Hello::default() }));
            }
            let one = fleet(vec![gpu01]).with_jobs(Some(Arc::new(list)));
            picks(&one, &PickRequest::default())
        };
        let whole = || DeviceAllocation::Indices([0].into());
        let share = || DeviceAllocation::Shares([0].into());
        let shared = "jobs that are not shown may hold it: several jobs may have shares of it";
        for (is_inside, all, others) in [(true, "gpu01:0", ""), (false, "gpu01:1,0", "gpu01:1")] {
            assert_eq!(text(&of(whole(), true, is_inside)), all);
            assert_eq!(text(&of(share(), false, is_inside)), all);
            let found = of(share(), true, is_inside);
            assert_eq!(text(&found), others);
            assert_eq!(reason(&found, "GPU-0"), shared, "{is_inside}");
        }
    }

    #[test]
    fn a_process_by_hand_inside_a_job_allocates_nothing() {
        let mut inside = node("gpu01", numbered(&[0, 1]));
        run_process(&mut inside, 5, "ada", None, "GPU-0");
        run_process(&mut inside, 6, "ada", Some("8"), "GPU-1");
        let host = HostFacts { user: "ada".into(), job: JobId::new("8"), ..HostFacts::default() };
        inside.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        let jobs = vec![job("8", "ada", DeviceAllocation::Count(1))];
        assert_eq!(text(&picks(&with_jobs(vec![inside], jobs), &PickRequest::default())), "");
    }

    #[test]
    fn processes_count_only_if_they_are_of_a_job() {
        let mut gpu01 = node("gpu01", (0..4).map(|index| device(index, 90, 0.0)).collect());
        run_process(&mut gpu01, 5, "bob", Some("7"), "GPU-3");
        run_process(&mut gpu01, 6, "bob", None, "GPU-2");
        run_process(&mut gpu01, 7, "ada", Some("8"), "GPU-1");
        let one = fleet(vec![gpu01]);
        let found = picks(&one, &PickRequest::default());
        // Without limits, those in use come last.
        assert_eq!(text(&found), "gpu01:0,2,1");
        assert_eq!(reason(&found, "GPU-3"), "job 7 of bob holds it");
        let free = PickRequest { free_users: ["bob".to_owned()].into(), ..PickRequest::default() };
        assert_eq!(picks(&one, &free).picked[0].free_memory, 100 << 30);
        let own = PickRequest { is_own_memory_free: true, ..PickRequest::default() };
        assert_eq!(text(&picks(&one, &own)), "gpu01:1,0,2");
    }

    #[test]
    fn one_slice_is_picked_or_whole_devices() {
        let slice = |number: u32, free| Device {
            uuid: format!("MIG-{number}").into(),
            parent: Some("GPU-1".into()),
            utilization: Reading::default(),
            ..device(number, free, 0.0)
        };
        let cut = |whole_free| {
            let mut devices =
                vec![device(0, whole_free, 0.0), device(1, 20, 0.0), slice(0, 9), slice(1, 8)];
            devices.sort_by_key(|device| device.parent.is_some());
            fleet(vec![node("gpu01", devices)])
        };
        assert_eq!(text(&picks(&cut(50), &PickRequest::default())), "gpu01:0");
        assert_eq!(text(&picks(&cut(1), &PickRequest::default())), "gpu01:MIG-0");
        let found = picks(&cut(1), &wanted(1, Spread::Anywhere));
        assert_eq!(text(&found), "gpu01:0", "one whole device is enough");
        assert!(reason(&found, "MIG-1").starts_with("MIG slices and whole devices"));
        let mut busy = node("gpu01", cut(1).nodes[0].devices.to_vec());
        run_process(&mut busy, 5, "bob", None, "GPU-0");
        let found = picks(&fleet(vec![busy]), &wanted(1, Spread::Anywhere));
        assert_eq!(text(&found), "gpu01:MIG-0", "the whole device is in use");
        let two = picks(&cut(1), &wanted(2, Spread::Anywhere));
        assert_eq!((text(&two).as_str(), two.is_enough), ("gpu01:MIG-0", false));
        assert!(reason(&two, "MIG-1").starts_with("CUDA shows a program one"));
        let jobs = vec![job("7", "bob", DeviceAllocation::None)];
        let mut held = node("gpu01", cut(1).nodes[0].devices.to_vec());
        run_process(&mut held, 5, "bob", Some("7"), "GPU-1");
        // Drivers may report only the device of a slice's process.
        assert_eq!(text(&picks(&with_jobs(vec![held], jobs), &PickRequest::default())), "gpu01:0");
    }

    #[test]
    fn what_another_pick_has_reserved_is_not_picked() {
        let one = fleet(vec![node("gpu01", vec![device(0, 90, 0.0), device(1, 95, 0.0)])]);
        let reserved =
            PickRequest { reserved: ["GPU-1".to_owned()].into(), ..wanted(1, Spread::Anywhere) };
        let found = picks(&one, &reserved);
        assert_eq!((text(&found).as_str(), found.is_enough), ("gpu01:0", true));
        assert_eq!(reason(&found, "GPU-1"), "another gtop pick has reserved it");
    }

    #[test]
    fn a_name_that_a_shell_would_read_is_not_picked() {
        for (uuid, is_picked) in [
            ("GPU-1;reboot", false),
            ("GPU-1 2", false),
            ("GPU-$(id)", false),
            ("GPU-1/a:b_c.d", true),
        ] {
            let one = Device { uuid: uuid.into(), ..device(0, 90, 0.0) };
            let found = picks(&fleet(vec![node("gpu01", vec![one])]), &PickRequest::default());
            assert_eq!(found.picked.len(), usize::from(is_picked), "{uuid}");
            assert!(is_picked || reason(&found, uuid) == "its UUID has unusual characters");
        }
    }

    #[test]
    fn vendors_are_not_mixed() {
        let amd = |index| Device {
            uuid: format!("GPU-a{index}").into(),
            vendor: Reading::Known(Vendor::Amd),
            ..device(index, 95, 0.0)
        };
        let both =
            fleet(vec![node("a", vec![device(0, 50, 0.0)]), node("b", vec![amd(0), amd(1)])]);
        assert_eq!(text(&picks(&both, &wanted(1, Spread::Anywhere))), "a:0");
        let found = picks(&both, &wanted(2, Spread::Anywhere));
        assert_eq!(text(&found), "b:GPU-a1,GPU-a0");
        assert_eq!(reason(&found, "GPU-0"), "another vendor's devices are picked");
        let devices: Vec<&EligibleDevice> = found.picked.iter().collect();
        let list = "GPU-a1,GPU-a0".to_owned();
        assert_eq!(variables(&devices, false), [("ROCR_VISIBLE_DEVICES", list)]);
    }

    #[test]
    fn inherited_lists_end_where_cuda_stops_reading() {
        let one = fleet(vec![node("gpu01", (0..4).map(|index| device(index, 90, 0.0)).collect())]);
        for (list, expected, notice) in [
            ("3,1", "gpu01:3,1", None),
            (" 1 ,0x", "gpu01:1,0", None),
            ("GPU-2,GPU-0", "gpu01:2,0", None),
            ("1,7,2", "gpu01:1", Some("7 is neither")),
            ("1,GPU-2", "gpu01:1", Some("GPU-2 is neither")),
            ("GPU-,1", "", Some("GPU- is neither")),
            ("1,2,1", "", Some("1 is listed twice")),
            ("gpu01", "", Some("hosts stand before -i")),
            ("", "", None),
            ("0,", "gpu01:0", Some("an empty entry")),
        ] {
            let request = PickRequest {
                inherited: Some(list.to_owned()),
                is_unsorted: true,
                ..PickRequest::default()
            };
            let found = picks(&one, &request);
            assert_eq!(text(&found), expected, "{list}");
            let is_expected = match (&found.notice, notice) {
                (Some(found), Some(part)) => found.contains(part),
                (found, part) => found.is_none() && part.is_none(),
            };
            assert!(is_expected, "{list}: {:?}", found.notice);
        }
    }

    #[test]
    fn indices_need_the_order_of_the_bus_and_no_devices_hide_all() {
        let one = fleet(vec![node("gpu01", vec![device(0, 90, 0.0), device(1, 90, 0.0)])]);
        let found = picks(&one, &PickRequest::default());
        let devices: Vec<&EligibleDevice> = found.picked.iter().collect();
        let pair = |name, value: &str| (name, value.to_owned());
        let order = pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        assert_eq!(variables(&devices, false), [order, pair("CUDA_VISIBLE_DEVICES", "1,0")]);
        let uuids = pair("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-0");
        assert_eq!(variables(&devices, true), [uuids]);
        let none = ["ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"].map(|name| pair(name, ""));
        assert_eq!(variables(&[], false), none);
    }
}
