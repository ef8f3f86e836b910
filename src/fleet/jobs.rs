//! The devices of a job: as allocated by its scheduler, or as used by its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::Fleet;
use crate::fleet::node::{DeviceNumbering, Node};
use crate::model::{Allocation, Device, DeviceAllocation, Job, JobId, NodeName, Reading, Vendor};
use crate::time::Timestamp;

/// How the devices of a job are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The scheduler allocated them.
    Scheduler,
    /// Its processes use them; more may be allocated.
    Processes,
}

impl Evidence {
    /// Returns the name used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Processes => "processes",
        }
    }
}

/// The devices a job has on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// Their UUIDs; `None` when unknown.
    pub devices: Option<Vec<Arc<str>>>,
    /// How they are known; `None` when they are not.
    pub evidence: Option<Evidence>,
    /// Processes contradict the scheduler; `devices` are those that processes use.
    pub is_disputed: bool,
}

impl Assigned {
    /// Returns true if these are all devices of an allocation.
    pub fn is_complete(&self, allocation: &DeviceAllocation) -> bool {
        let known = self.devices.as_ref().map(Vec::len);
        let has = |count: usize| count == 0 || known.is_some_and(|known| known >= count);
        match allocation {
            DeviceAllocation::None => true,
            // An index without a device is that of a device that the driver does not show.
            DeviceAllocation::Indices(indices) if !self.is_disputed => {
                indices.is_empty() || known.is_some()
            }
            DeviceAllocation::Indices(indices) => has(indices.len()),
            DeviceAllocation::Count(count) => has(usize::try_from(*count).unwrap_or(usize::MAX)),
            DeviceAllocation::Unknown => known.is_some_and(|known| known > 0),
        }
    }
}

/// A job and its allocation on one node.
pub type JobAllocation<'a> = (&'a Job, &'a Allocation);

/// A node and some of its devices, by UUID.
pub type NodeDevices<'a> = (&'a NodeName, &'a [Arc<str>]);

/// The devices of each job, by node; computed once per snapshot.
#[derive(Debug)]
pub struct JobDevices<'a> {
    fleet: &'a Fleet,
    nodes: BTreeMap<&'a NodeName, JobsOnNode<'a>>,
}

/// The jobs of one node.
#[derive(Debug)]
struct JobsOnNode<'a> {
    node: &'a Node,
    /// Jobs that the scheduler placed there.
    listed: Vec<JobAllocation<'a>>,
    /// The devices of each of `listed`, by position.
    assigned: Vec<Assigned>,
    /// Jobs of its processes, with the devices they use.
    used: BTreeMap<JobId, Vec<Arc<str>>>,
}

impl<'a> JobDevices<'a> {
    /// Computes the devices of each job.
    pub fn of(fleet: &'a Fleet) -> Self {
        let entry = |node: &'a Arc<Node>| {
            let used = devices_by_job(node);
            (&node.name, JobsOnNode { node, listed: Vec::new(), assigned: Vec::new(), used })
        };
        let mut nodes: BTreeMap<_, _> = fleet.nodes.iter().map(entry).collect();
        for job in fleet.jobs.iter().flat_map(|jobs| &jobs.jobs) {
            for allocation in job.allocations.iter() {
                if let Some(entry) = nodes.get_mut(&allocation.node) {
                    entry.listed.push((job, allocation));
                }
            }
        }
        for (other_name, machine) in fleet.same_as.iter() {
            let listed = nodes.get(machine).map(|entry| entry.listed.clone());
            if let (Some(listed), Some(entry)) = (listed, nodes.get_mut(other_name)) {
                entry.listed = listed;
            }
        }
        for entry in nodes.values_mut() {
            entry.assigned = assign_devices(entry.node, &entry.listed, &entry.used);
        }
        Self { fleet, nodes }
    }

    /// Returns the devices a job has on a node.
    pub fn assigned(&self, job: &Job, allocation: &Allocation) -> Assigned {
        let Some(entry) = self.nodes.get(&allocation.node) else {
            return assigned_by_scheduler(&allocation.devices, None);
        };
        let index = entry.listed.iter().position(|(listed, _)| listed.id == job.id);
        let assigned = index.and_then(|index| entry.assigned.get(index)).cloned();
        assigned.unwrap_or_else(|| assigned_by_processes(entry.used.get(&job.id)))
    }

    /// Returns the ids of the jobs on a node, from the scheduler and from processes, sorted by number.
    pub fn jobs_on(&self, node: &NodeName) -> Vec<&JobId> {
        let Some(entry) = self.nodes.get(node) else { return Vec::new() };
        let mut jobs: Vec<&JobId> =
            entry.listed.iter().map(|(job, _)| &job.id).chain(entry.used.keys()).collect();
        jobs.sort_unstable_by_key(|id| {
            (id.as_str().parse::<u64>().unwrap_or(u64::MAX), id.as_str())
        });
        jobs.dedup();
        jobs
    }

    /// Returns the jobs known from processes only, with the devices they use on each node.
    pub fn unlisted(&self) -> BTreeMap<&JobId, Vec<NodeDevices<'_>>> {
        let listed: BTreeSet<&JobId> =
            self.fleet.jobs.iter().flat_map(|jobs| &jobs.jobs).map(|job| &job.id).collect();
        let mut all: BTreeMap<&JobId, Vec<NodeDevices<'_>>> = BTreeMap::new();
        for node in self.fleet.machines() {
            let Some(entry) = self.nodes.get(&node.name) else { continue };
            for (job, devices) in entry.used.iter().filter(|(job, _)| !listed.contains(job)) {
                all.entry(job).or_default().push((&entry.node.name, devices));
            }
        }
        all
    }
}

/// Returns the jobs of a node's processes, with the devices each uses.
fn devices_by_job(node: &Node) -> BTreeMap<JobId, Vec<Arc<str>>> {
    let mut jobs: BTreeMap<JobId, Vec<Arc<str>>> = BTreeMap::new();
    for used in node.uses.iter() {
        let Some(job) = node.job_of(used.pid).cloned() else { continue };
        let devices = jobs.entry(job).or_default();
        if !devices.contains(&used.device) {
            devices.push(Arc::clone(&used.device));
        }
    }
    jobs
}

/// Returns the device indices of a job on a node whose probe runs inside that job, if known.
fn probe_job_indices<'a>(node: &Node, job: &Job, allocation: &'a Allocation) -> Option<&'a [u32]> {
    let probe_job = node.hello.as_ref()?.host.job.as_ref()?;
    let is_same_job = job.has_id(probe_job);
    match &allocation.devices {
        DeviceAllocation::Indices(indices) if is_same_job => Some(indices),
        DeviceAllocation::Indices(_)
        | DeviceAllocation::Count(_)
        | DeviceAllocation::None
        | DeviceAllocation::Unknown => None,
    }
}

/// What jobs have on one node, as far as it is known.
#[derive(Debug, Default)]
pub struct NodeAllocations<'a> {
    /// The devices that jobs are known to have: allocated by index, unless processes contradict it, or used by processes
    /// of the job.
    pub devices: Vec<JobDevice<'a>>,
    /// The jobs that may have further devices.
    incomplete: Vec<&'a Job>,
}

/// A device, or a slice of one, that a job has.
#[derive(Clone, Debug)]
pub struct JobDevice<'a> {
    /// The job.
    pub job: &'a Job,
    /// The UUID of the device.
    pub uuid: Arc<str>,
    /// True if only processes of the job tell, so that it may share the device with others.
    pub is_by_processes: bool,
}

impl<'a> NodeAllocations<'a> {
    /// `listed` holds every job the scheduler placed on the node.
    pub fn of(node: &Node, listed: &[JobAllocation<'a>]) -> Self {
        let mut allocations = Self::default();
        if listed.iter().all(|(_, allocation)| allocation.devices == DeviceAllocation::None) {
            return allocations;
        }
        let assigned = assign_devices(node, listed, &devices_by_job(node));
        for ((job, allocation), assigned) in listed.iter().zip(assigned) {
            if !assigned.is_complete(&allocation.devices) {
                allocations.incomplete.push(job);
            }
            let is_by_processes = assigned.evidence == Some(Evidence::Processes);
            let devices = assigned.devices.into_iter().flatten();
            let of_job = devices.map(|uuid| JobDevice { job, uuid, is_by_processes });
            allocations.devices.extend(of_job);
        }
        allocations
    }

    /// Returns true if jobs may have more devices of the node than those known. The scheduler may say how many they have, and
    /// all of these may be known. `counted_at` is when it said so.
    pub fn may_be_more(&self, node: &Node, counted_at: Option<Timestamp>) -> bool {
        let is_counted = |job: &Job| job.starts_at.is_some_and(|at| counted_at > Some(at));
        if self.incomplete.is_empty() {
            return false;
        }
        if !self.incomplete.iter().all(|job| is_counted(job)) {
            return true;
        }
        // What runs outside of the scheduler, and jobs that have begun since, are not in its count.
        let counted = self.devices.iter().filter(|device| is_counted(device.job));
        let held: BTreeSet<&Arc<str>> =
            counted.map(|device| node.whole_uuid(&device.uuid)).collect();
        let scheduler = node.scheduler.as_ref().filter(|scheduler| !scheduler.is_old);
        let count = scheduler.and_then(|scheduler| usize::try_from(scheduler.allocated?).ok());
        count.is_none_or(|count| held.len() < count)
    }
}

type DevicesByJob = BTreeMap<JobId, Vec<Arc<str>>>;

fn assign_devices(node: &Node, listed: &[JobAllocation<'_>], used: &DevicesByJob) -> Vec<Assigned> {
    let probe_indices =
        listed.iter().find_map(|(job, allocation)| probe_job_indices(node, job, allocation));
    let scheduled: Vec<Assigned> = listed
        .iter()
        .map(|(_, allocation)| {
            let at = |indices: &[u32]| devices_at(node, indices, probe_indices);
            assigned_by_scheduler(&allocation.devices, Some(&at))
        })
        .collect();
    let parents = Parents::of(node);
    let lists = node.sources.iter().filter(|state| state.source.is_processes());
    let listed_at = lists.filter_map(|state| state.taken_at).min();
    let disputed = |index: usize| {
        let job = listed.get(index)?.0;
        // A process list from before the job's start says nothing about the job. Slurm reports whole seconds.
        let start = job.starts_at.map(|at| at.plus(Duration::from_secs(1)));
        if start.zip(listed_at).is_some_and(|(start, listed_at)| listed_at < start) {
            return None;
        }
        let devices = scheduled.get(index)?.devices.as_ref()?;
        let own_devices = used_devices(used, job);
        let is_foreign = own_devices.is_some_and(|own_devices| {
            own_devices.iter().any(|device| !parents.overlaps(devices, device))
        });
        let is_used_by_other = |device: &Arc<str>| {
            let is_own =
                own_devices.is_some_and(|own_devices| parents.overlaps(own_devices, device));
            !is_own
                && used.iter().any(|(other, other_uses)| {
                    let other_index = listed.iter().position(|(job, _)| job.has_id(other));
                    let other_devices = other_index
                        .and_then(|other_index| scheduled.get(other_index)?.devices.as_ref());
                    other_index != Some(index)
                        && parents.overlaps(other_uses, device)
                        && !other_devices
                            .is_some_and(|other_devices| parents.overlaps(other_devices, device))
                })
        };
        (is_foreign || devices.iter().any(is_used_by_other)).then_some(own_devices)
    };
    let resolve = |(index, (job, _)): (usize, &JobAllocation<'_>)| match scheduled.get(index) {
        Some(assigned) if assigned.evidence.is_some() => match disputed(index) {
            Some(own_devices) => {
                Assigned { is_disputed: true, ..assigned_by_processes(own_devices) }
            }
            None if assigned.devices.is_some() => assigned.clone(),
            // The scheduler's indices cannot be resolved on this node.
            None => match used_devices(used, job) {
                Some(own_devices) => assigned_by_processes(Some(own_devices)),
                None => assigned.clone(),
            },
        },
        _ => assigned_by_processes(used_devices(used, job)),
    };
    listed.iter().enumerate().map(resolve).collect()
}

fn used_devices<'a>(used: &'a DevicesByJob, job: &Job) -> Option<&'a Vec<Arc<str>>> {
    used.get(&job.id).or_else(|| used.get(job.sluid.as_ref()?))
}

fn assigned_by_processes(used: Option<&Vec<Arc<str>>>) -> Assigned {
    let evidence = used.map(|_| Evidence::Processes);
    Assigned { devices: used.cloned(), evidence, is_disputed: false }
}

/// Looks up devices by the scheduler's indices.
type DevicesAt<'a> = &'a dyn Fn(&[u32]) -> Option<Vec<Arc<str>>>;

/// Returns the devices as the scheduler reports them, as far as its indices can be resolved.
fn assigned_by_scheduler(allocation: &DeviceAllocation, at: Option<DevicesAt<'_>>) -> Assigned {
    let devices = match allocation {
        DeviceAllocation::None => Some(Vec::new()),
        DeviceAllocation::Indices(indices) => at.and_then(|at| at(indices)),
        DeviceAllocation::Count(_) | DeviceAllocation::Unknown => return Assigned::default(),
    };
    Assigned { devices, evidence: Some(Evidence::Scheduler), is_disputed: false }
}

/// The parent device of each MIG slice of a node; most nodes have none.
struct Parents<'a>(BTreeMap<&'a Arc<str>, &'a Arc<str>>);

impl<'a> Parents<'a> {
    fn of(node: &'a Node) -> Self {
        let pair = |device: &'a Device| Some((&device.uuid, device.parent.as_ref()?));
        Self(node.devices.iter().filter_map(pair).collect())
    }

    /// Returns true if `other` is one of `devices`, or a slice or the parent of one of them.
    fn overlaps(&self, devices: &[Arc<str>], other: &Arc<str>) -> bool {
        let parent = |device: &Arc<str>| self.0.get(device).copied();
        devices.iter().any(|device| {
            device == other || parent(other) == Some(device) || parent(device) == Some(other)
        })
    }
}

/// Returns the devices at indices of the scheduler's list, in which a device with MIG slices is listed by its
/// slices. `None` when none of them is known.
///
/// `probe_indices` are the indices of the job that the probe runs in. If devices have no minor numbers and as many are
/// visible as that job has, they are taken to be those of the job.
pub fn devices_at(
    node: &Node,
    indices: &[u32],
    probe_indices: Option<&[u32]>,
) -> Option<Vec<Arc<str>>> {
    let device_numbering = node.numbering.clone().unwrap_or_else(|| device_numbering(node).into());
    let DeviceNumbering { by_index, is_by_minor } = &*device_numbering;
    let probe_indices =
        probe_indices.filter(|probe_indices| !is_by_minor && probe_indices.len() == by_index.len());
    let at = |index: &u32| match probe_indices {
        Some(probe_indices) => {
            let index = probe_indices.iter().position(|probe_index| probe_index == index)?;
            by_index.get(&u32::try_from(index).ok()?)
        }
        None => by_index.get(index),
    };
    let mut found: Vec<_> = indices.iter().filter_map(at).map(Arc::clone).collect();
    let is_known = !found.is_empty() || (indices.is_empty() && !by_index.is_empty());
    if node.numbering.is_some() {
        found.retain(|uuid| node.devices.iter().any(|device| device.uuid == *uuid));
    }
    is_known.then_some(found)
}

/// Returns the scheduler's numbering of a node's devices: NVIDIA's by minor number, and none where that is
/// unknown; others in the driver's order.
pub fn device_numbering(node: &Node) -> DeviceNumbering {
    let minor = |device: &Device| Reading::of(device.statics.as_deref(), |known| known.minor).get();
    let unsliced = || node.whole_devices().map(|(_, device)| device);
    let is_by_minor = unsliced()
        .any(|device| minor(device).is_some() || device.vendor.get() == Some(Vendor::Nvidia));
    // Sorted; `None` where two devices have the same number.
    let mut ordered: BTreeMap<u32, Option<&Device>> = BTreeMap::new();
    for (index, device) in (0..).zip(unsliced()) {
        let Some(number) = (if is_by_minor { minor(device) } else { Some(index) }) else {
            continue;
        };
        ordered.entry(number).and_modify(|known| *known = None).or_insert(Some(device));
    }
    let by_index = if node.devices.iter().any(|device| device.parent.is_some()) {
        number_by_slice(node, ordered)
    } else {
        let uuid = |device: &Device| Arc::clone(&device.uuid);
        ordered.into_iter().filter_map(|(number, device)| Some((number, uuid(device?)))).collect()
    };
    DeviceNumbering { by_index, is_by_minor }
}

/// Assigns indices to devices, counting slices one by one. After a missing device, whose number of slices is
/// unknown, no index can be assigned.
fn number_by_slice(
    node: &Node,
    ordered: BTreeMap<u32, Option<&Device>>,
) -> BTreeMap<u32, Arc<str>> {
    let contiguous = (0..).zip(ordered).map_while(
        |(expected, (number, device))| {
            if number == expected { device } else { None }
        },
    );
    let units = contiguous.flat_map(|device| {
        let is_slice = |slice: &&Device| slice.parent.as_ref() == Some(&device.uuid);
        let mut slices = node.devices.iter().filter(is_slice).peekable();
        let unsliced = slices.peek().is_none().then_some(device);
        slices.chain(unsliced)
    });
    (0..).zip(units.map(|device| Arc::clone(&device.uuid))).collect()
}

#[cfg(test)]
impl Fleet {
    /// A fleet of one node: the scheduler allocated its only device to job 11, and a process of `job` uses
    /// it. For the tests of other modules.
    pub(crate) fn example_used_by(job: &str) -> Self {
        let node = tests::node_used_by(tests::nvidia_node(&[("a", Some(0))]), "a", job);
        tests::fleet_with(node, DeviceAllocation::Indices([0].into())).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        DeviceStatics, DeviceUse, Hello, HostFacts, JobList, ProcessStatics, Source, UnseenProcess,
        UnseenReason,
    };

    fn node(devices: &[(&str, Option<&str>)]) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let device = |(uuid, parent): &(&str, Option<&str>)| Device {
            uuid: (*uuid).into(),
            parent: parent.map(Into::into),
            ..Device::default()
        };
        node.devices = devices.iter().map(device).collect();
        node
    }

    pub(super) fn node_used_by(mut node: Node, device: &str, job: &str) -> Node {
        let statics = ProcessStatics { job: JobId::new(job), ..ProcessStatics::default() };
        node.uses = [DeviceUse { device: device.into(), pid: 7, ..DeviceUse::default() }].into();
        node.unseen = [UnseenProcess { pid: 7, why: UnseenReason::Hidden, statics }].into();
        node
    }

    pub(super) fn fleet_with(node: Node, devices: DeviceAllocation) -> (Fleet, Job) {
        let allocation = Allocation { node: node.name.clone(), devices };
        let job = Job {
            shown_id: "2_1".into(),
            sluid: JobId::new("s1MXM7XYD0DV00"),
            allocations: [allocation].into(),
            ..Job::example("11")
        };
        let jobs = JobList { jobs: vec![job.clone()], ..JobList::default() };
        (Fleet { jobs: Some(Arc::new(jobs)), ..Fleet::new(vec![Arc::new(node)].into()) }, job)
    }

    fn assigned_to(
        node: Node,
        devices: DeviceAllocation,
    ) -> (Option<Vec<String>>, Option<Evidence>) {
        let (fleet, job) = fleet_with(node, devices);
        let assigned = JobDevices::of(&fleet).assigned(&job, &job.allocations[0]);
        let names = assigned.devices.map(|list| list.iter().map(ToString::to_string).collect());
        (names, assigned.evidence)
    }

    /// Returns a node with NVIDIA devices, each with its minor number.
    pub(super) fn nvidia_node(devices: &[(&str, Option<u32>)]) -> Node {
        let names: Vec<_> = devices.iter().map(|(uuid, _)| (*uuid, None)).collect();
        let mut node = node(&names);
        for (device, (_, minor)) in node.devices.iter_mut().zip(devices) {
            device.vendor = Reading::Known(Vendor::Nvidia);
            let minor = minor.map_or_else(Reading::default, Reading::Known);
            device.statics = DeviceStatics { minor, ..DeviceStatics::default() }.shared();
        }
        node
    }

    fn joined(devices: Option<Vec<Arc<str>>>) -> Option<String> {
        devices.map(|list| list.iter().map(|uuid| &**uuid).collect())
    }

    #[test]
    fn scheduler_indices_are_minor_numbers() {
        let at = |node: &Node, indices: &[u32]| joined(devices_at(node, indices, None));
        let some = |text: &str| Some(text.to_owned());
        // The driver's order differs from that of the minor numbers.
        let reordered = nvidia_node(&[("a", Some(2)), ("b", Some(0)), ("c", Some(1))]);
        assert_eq!(at(&reordered, &[0, 2]), some("ba"));
        // The device with minor number 1 is missing: those after it keep their indices.
        let short = nvidia_node(&[("a", Some(0)), ("c", Some(2)), ("d", Some(3))]);
        assert_eq!(at(&short, &[0, 1, 3]), some("ad"));
        assert_eq!(at(&short, &[1]), None);
        // A device that was lost from the start has no known number.
        let lost = nvidia_node(&[("a", Some(0)), ("b", None), ("c", Some(2))]);
        assert_eq!((at(&lost, &[1]), at(&lost, &[2])), (None, some("c")));
        // Missing and duplicate minor numbers are not resolved by guessing.
        assert_eq!(at(&nvidia_node(&[("a", None), ("b", None)]), &[0]), None);
        let duplicate = nvidia_node(&[("a", Some(0)), ("b", Some(0)), ("c", Some(4_000_000_000))]);
        assert_eq!((at(&duplicate, &[0]), at(&duplicate, &[4_000_000_000])), (None, some("c")));
        // A job that sees only some devices still sees their real minor numbers.
        let confined = nvidia_node(&[("c", Some(2)), ("d", Some(3))]);
        assert_eq!(joined(devices_at(&confined, &[3], Some(&[2, 3]))), some("d"));
        assert_eq!(joined(devices_at(&confined, &[0], Some(&[2, 3]))), None);
        // Other vendors have no minor numbers: the driver's order counts.
        assert_eq!(at(&node(&[("a", None), ("b", None)]), &[1]), some("b"));
    }

    #[test]
    fn slices_are_numbered_up_to_the_first_missing_device() {
        let numbering = |minors: [Option<u32>; 3]| {
            let [a, b, c] = minors;
            let mut node = nvidia_node(&[("c", c), ("b", b), ("a", a)]);
            for slice in ["x", "y"] {
                let parent = Some("b".into());
                node.devices.push(Device { uuid: slice.into(), parent, ..Device::default() });
            }
            joined(devices_at(&node, &[0, 1, 2, 3], None))
        };
        assert_eq!(numbering([Some(0), Some(1), Some(2)]).as_deref(), Some("axyc"));
        assert_eq!(numbering([Some(0), Some(2), Some(3)]).as_deref(), Some("a"));
        assert_eq!(numbering([None, Some(1), Some(2)]), None);
    }

    #[test]
    fn processes_override_the_scheduler_where_they_contradict_it() {
        let two = || nvidia_node(&[("a", Some(0)), ("b", Some(1))]);
        let resolve = |node: Node, devices: DeviceAllocation, other: Option<DeviceAllocation>| {
            let (mut fleet, job) = fleet_with(node, devices);
            let name = job.allocations[0].node.clone();
            let mut jobs = vec![job.clone()];
            jobs.extend(other.map(|devices| Job {
                allocations: [Allocation { node: name, devices }].into(),
                ..Job::example("12")
            }));
            fleet.jobs = Some(Arc::new(JobList { jobs: jobs.clone(), ..JobList::default() }));
            let Assigned { devices, evidence, is_disputed } =
                JobDevices::of(&fleet).assigned(&job, &job.allocations[0]);
            let listed: Vec<JobAllocation<'_>> = jobs
                .iter()
                .flat_map(|job| job.allocations.iter().map(move |allocation| (job, allocation)))
                .collect();
            let allocated: String = NodeAllocations::of(&fleet.nodes[0], &listed)
                .devices
                .iter()
                .filter(|device| device.job.id == job.id)
                .map(|device| &*device.uuid)
                .collect();
            let devices = joined(devices).unwrap_or_else(|| "?".to_owned());
            (devices, evidence.map_or("nobody", Evidence::as_str), is_disputed, allocated)
        };
        let indices = |list: &[u32]| DeviceAllocation::Indices(list.into());
        let expected = |devices: &str, evidence, is_disputed, allocated: &str| {
            (devices.to_owned(), evidence, is_disputed, allocated.to_owned())
        };
        // The job's process uses the allocated device.
        let agreed = expected("ab", "scheduler", false, "ab");
        assert_eq!(resolve(node_used_by(two(), "a", "11"), indices(&[0, 1]), None), agreed);
        // The job's process uses another device; also with a SLUID, and with nothing allocated.
        let by_processes = expected("b", "processes", true, "b");
        assert_eq!(resolve(node_used_by(two(), "b", "11"), indices(&[0]), None), by_processes);
        assert_eq!(
            resolve(node_used_by(two(), "b", "s1MXM7XYD0DV00"), indices(&[0]), None),
            by_processes
        );
        let nothing = expected("b", "processes", true, "");
        assert_eq!(resolve(node_used_by(two(), "b", "11"), DeviceAllocation::None, None), nothing);
        // A process of another job uses the allocated device.
        let used_by_other_job = expected("?", "nobody", true, "");
        assert_eq!(resolve(node_used_by(two(), "a", "7"), indices(&[0]), None), used_by_other_job);
        assert_eq!(
            resolve(node_used_by(two(), "a", "12"), indices(&[0]), Some(indices(&[1]))),
            used_by_other_job
        );
        // Both jobs were allocated the device.
        let shared = expected("a", "scheduler", false, "a");
        assert_eq!(
            resolve(node_used_by(two(), "a", "12"), indices(&[0]), Some(indices(&[0, 1]))),
            shared
        );
        // Without minor numbers only processes show the devices.
        let unnumbered = || nvidia_node(&[("a", None), ("b", None)]);
        let used = expected("b", "processes", false, "b");
        assert_eq!(resolve(node_used_by(unnumbered(), "b", "11"), indices(&[0]), None), used);
        assert_eq!(
            resolve(unnumbered(), indices(&[0]), None),
            expected("?", "scheduler", false, "")
        );
    }

    #[test]
    fn process_lists_from_before_a_job_do_not_contradict_it() {
        let began = Timestamp::from_micros(1_795_269_440_000_000);
        let disputed = |after: i64| {
            let mut node = node_used_by(nvidia_node(&[("a", Some(0))]), "a", "7");
            let listed_at = Timestamp::from_micros(began.as_micros() + after * 1_000);
            node.mark_sampled(&Source::new("nvml").processes(), listed_at);
            let (mut fleet, mut job) = fleet_with(node, DeviceAllocation::Indices([0].into()));
            job.starts_at = Some(began);
            fleet.jobs = Some(Arc::new(JobList { jobs: vec![job.clone()], ..JobList::default() }));
            let assigned = JobDevices::of(&fleet).assigned(&job, &job.allocations[0]);
            assert_eq!(joined(assigned.devices), (!assigned.is_disputed).then(|| "a".to_owned()));
            assigned.is_disputed
        };
        assert_eq!([-2_000, 999, 1_000].map(disputed), [false, false, true]);
    }

    #[test]
    fn a_process_on_a_slice_counts_on_its_parent_device() {
        let mut sliced = nvidia_node(&[("a", Some(0)), ("b", Some(1))]);
        sliced.devices.push(Device {
            uuid: "x".into(),
            parent: Some("b".into()),
            ..Device::default()
        });
        // nvidia-smi reports only the parent device of a slice's process.
        for used in ["b", "x"] {
            let (fleet, job) = fleet_with(
                node_used_by(sliced.clone(), used, "11"),
                DeviceAllocation::Indices([1].into()),
            );
            let assigned = JobDevices::of(&fleet).assigned(&job, &job.allocations[0]);
            assert_eq!(
                (joined(assigned.devices).as_deref(), assigned.is_disputed),
                (Some("x"), false)
            );
        }
    }

    #[test]
    fn devices_come_from_the_scheduler_or_else_from_processes() {
        let two = || node_used_by(node(&[("a", None), ("b", None)]), "b", "11");
        let names = |list: &[&str]| Some(list.iter().map(|one| (*one).to_owned()).collect());
        let indices = |list: &[u32]| DeviceAllocation::Indices(list.into());
        let (scheduler, processes) = (Some(Evidence::Scheduler), Some(Evidence::Processes));
        assert_eq!(assigned_to(two(), indices(&[0, 1])), (names(&["a", "b"]), scheduler));
        assert_eq!(assigned_to(two(), indices(&[1, 9])), (names(&["b"]), scheduler));
        assert_eq!(
            assigned_to(node(&[("a", None)]), DeviceAllocation::None),
            (names(&[]), scheduler)
        );
        assert_eq!(assigned_to(two(), DeviceAllocation::Unknown), (names(&["b"]), processes));
        assert_eq!(assigned_to(two(), DeviceAllocation::Count(2)), (names(&["b"]), processes));
        assert_eq!(assigned_to(node(&[("a", None)]), DeviceAllocation::Unknown), (None, None));
        assert_eq!(assigned_to(node(&[]), indices(&[0])), (None, scheduler));
    }

    #[test]
    fn a_probe_inside_a_job_may_see_only_its_devices() {
        let node_inside = |devices: &[(&str, Option<&str>)], job: &str| {
            let host = HostFacts { job: JobId::new(job), ..HostFacts::default() };
            let hello = Hello { host, ..Hello::default() };
            Node { hello: Some(Arc::new(hello)), ..node(devices) }
        };
        let devices_of_both = |node: Node, indices: &[u32], other_indices: &[u32]| {
            let (mut fleet, job) = fleet_with(node, DeviceAllocation::Indices(indices.into()));
            let name = job.allocations[0].node.clone();
            let devices = DeviceAllocation::Indices(other_indices.into());
            let other = Job {
                allocations: [Allocation { node: name, devices }].into(),
                ..Job::example("12")
            };
            let jobs = vec![job.clone(), other.clone()];
            fleet.jobs = Some(Arc::new(JobList { jobs, ..JobList::default() }));
            let job_devices = JobDevices::of(&fleet);
            [job, other].map(|job| {
                job_devices.assigned(&job, &job.allocations[0]).devices.map(|list| list.concat())
            })
        };
        let found = |text: &str| Some(text.to_owned());
        let two = [("a", None), ("b", None)];
        // Two of the job's devices are visible as its own; those of the other job are not visible.
        for name in ["11", "s1MXM7XYD0DV00"] {
            assert_eq!(
                devices_of_both(node_inside(&two, name), &[3, 4], &[0, 1]),
                [found("ab"), None],
                "{name}"
            );
        }
        assert_eq!(
            devices_of_both(node_inside(&two, "11"), &[1, 4], &[4, 5]),
            [found("ab"), found("b")]
        );
        // All devices are visible, so the probe is not confined; neither is one in a job with all devices.
        let four = [("a", None), ("b", None), ("c", None), ("d", None)];
        assert_eq!(
            devices_of_both(node_inside(&four, "11"), &[2, 3], &[0, 1]),
            [found("cd"), found("ab")]
        );
        assert_eq!(
            devices_of_both(node_inside(&two, "11"), &[0, 1], &[1]),
            [found("ab"), found("b")]
        );
        // The probe runs in a third job.
        assert_eq!(devices_of_both(node_inside(&two, "7"), &[0], &[1]), [found("a"), found("b")]);
    }

    #[test]
    fn slices_replace_their_parent_in_the_numbering() {
        let cut =
            node(&[("a", None), ("b", None), ("b1", Some("b")), ("b2", Some("b")), ("c", None)]);
        let (names, _) = assigned_to(cut, DeviceAllocation::Indices([0, 2, 3].into()));
        assert_eq!(names.unwrap(), ["a", "b2", "c"]);
    }

    #[test]
    fn jobs_of_a_node_come_from_the_list_and_its_processes() {
        let (fleet, _) =
            fleet_with(node_used_by(node(&[("a", None)]), "a", "9"), DeviceAllocation::None);
        let job_devices = JobDevices::of(&fleet);
        let on: Vec<_> =
            job_devices.jobs_on(&fleet.nodes[0].name).into_iter().map(JobId::as_str).collect();
        assert_eq!(on, ["9", "11"]);
        assert_eq!(job_devices.unlisted().len(), 1);
    }
}
