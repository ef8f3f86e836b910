//! Which devices a job has: by what its scheduler says, or by what its processes use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fleet::Fleet;
use crate::fleet::node::Node;
use crate::model::{Allocation, Allotment, Device, Job, JobId, NodeName};

/// Where the devices of a job are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The scheduler gave them to it.
    Scheduler,
    /// Its processes use them; it may have been given more.
    Processes,
}

impl Basis {
    /// Returns the word programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Processes => "processes",
        }
    }
}

/// The devices a job has on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Their ids; `None` when nobody says, or the node has not shown its devices.
    pub devices: Option<Vec<Arc<str>>>,
    /// Who says so; `None` when nobody does.
    pub basis: Option<Basis>,
}

/// A node, and devices of it.
pub type Use<'a> = (&'a NodeName, &'a [Arc<str>]);

/// The jobs of a fleet by node, worked out once for a picture.
#[derive(Debug)]
pub struct Ledger<'a> {
    fleet: &'a Fleet,
    nodes: BTreeMap<&'a NodeName, Entry<'a>>,
}

/// What a node has.
#[derive(Debug)]
struct Entry<'a> {
    node: &'a Node,
    /// Jobs the scheduler put there.
    listed: Vec<&'a JobId>,
    /// The devices of the job that the probe is in.
    around: Option<&'a [u32]>,
    /// Jobs of its processes, with the devices they use.
    used: BTreeMap<JobId, Vec<Arc<str>>>,
}

impl<'a> Ledger<'a> {
    /// Works out who has what.
    pub fn of(fleet: &'a Fleet) -> Self {
        let entry = |node: &'a Arc<Node>| {
            let entry = Entry { node, listed: Vec::new(), around: None, used: used_by(node) };
            (&node.name, entry)
        };
        let mut nodes: BTreeMap<_, _> = fleet.nodes.iter().map(entry).collect();
        for job in fleet.jobs.iter().flat_map(|jobs| &jobs.jobs) {
            for allocation in job.allocations.iter() {
                if let Some(entry) = nodes.get_mut(&allocation.node) {
                    entry.listed.push(&job.id);
                    entry.around = entry.around.or(places_around(entry.node, job, allocation));
                }
            }
        }
        Self { fleet, nodes }
    }

    /// Returns the devices a job has on a node.
    pub fn held(&self, job: &Job, allocation: &Allocation) -> Held {
        let entry = self.nodes.get(&allocation.node);
        let said = |devices| Held { devices, basis: Some(Basis::Scheduler) };
        match &allocation.devices {
            Allotment::Nothing => said(Some(Vec::new())),
            Allotment::Places(places) => {
                said(entry.and_then(|entry| at_places(entry.node, places, entry.around)))
            }
            Allotment::Count(_) | Allotment::Unsaid => {
                let used = entry.and_then(|entry| entry.used.get(&job.id)).cloned();
                let basis = used.is_some().then_some(Basis::Processes);
                Held { devices: used, basis }
            }
        }
    }

    /// Returns the jobs a node has, by what the scheduler says and by its processes, in order.
    pub fn jobs_on(&self, node: &NodeName) -> Vec<&JobId> {
        let Some(entry) = self.nodes.get(node) else { return Vec::new() };
        let mut jobs: Vec<&JobId> = entry.listed.iter().copied().chain(entry.used.keys()).collect();
        jobs.sort_unstable_by_key(|id| {
            (id.as_str().parse::<u64>().unwrap_or(u64::MAX), id.as_str())
        });
        jobs.dedup();
        jobs
    }

    /// Returns the jobs that only processes tell of, with the devices they use on each node.
    pub fn unlisted(&self) -> BTreeMap<&JobId, Vec<Use<'_>>> {
        let listed: BTreeSet<&JobId> =
            self.fleet.jobs.iter().flat_map(|jobs| &jobs.jobs).map(|job| &job.id).collect();
        let mut all: BTreeMap<&JobId, Vec<Use<'_>>> = BTreeMap::new();
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
fn used_by(node: &Node) -> BTreeMap<JobId, Vec<Arc<str>>> {
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

/// Returns the places of a job's devices on a node whose probe is in that job, as far as told.
pub fn places_around<'a>(node: &Node, job: &Job, allocation: &'a Allocation) -> Option<&'a [u32]> {
    let around = node.hello.as_ref()?.host.job.as_ref()?;
    let is_it = *around == job.id || job.lasting_id.as_ref() == Some(around);
    match &allocation.devices {
        Allotment::Places(places) if is_it => Some(places),
        Allotment::Places(_) | Allotment::Count(_) | Allotment::Nothing | Allotment::Unsaid => None,
    }
}

/// Returns the devices at places of the scheduler's list, where a device that is cut into slices
/// stands by its slices. `None` when the node has not shown its devices, or none of these.
///
/// `around` are the places of the job that the probe is in. Where as many devices are seen as that
/// job has, they are taken to be those, and no others are known by their places.
pub fn at_places(node: &Node, places: &[u32], around: Option<&[u32]>) -> Option<Vec<Arc<str>>> {
    let units = node.units.clone().unwrap_or_else(|| units(node));
    if units.is_empty() {
        return None;
    }
    let around = around.filter(|around| around.len() == units.len());
    let at = |place: &u32| match around {
        Some(around) => units.get(around.iter().position(|one| one == place)?),
        None => units.get(usize::try_from(*place).ok()?),
    };
    let mut found: Vec<_> = places.iter().filter_map(at).map(Arc::clone).collect();
    let is_told = around.is_none() || !found.is_empty() || places.is_empty();
    if node.units.is_some() {
        found.retain(|uuid| node.devices.iter().any(|device| device.uuid == *uuid));
    }
    is_told.then_some(found)
}

/// Returns the devices of a node as a scheduler counts them: one that is cut into slices stands by
/// these.
pub fn units(node: &Node) -> Arc<[Arc<str>]> {
    let has_slices = |device: &Device| {
        node.devices.iter().any(|other| other.parent.as_deref() == Some(&*device.uuid))
    };
    let units = node.devices.iter().filter(|device| !has_slices(device));
    units.map(|device| Arc::clone(&device.uuid)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{
        Absence, DeviceUse, Hello, HostFacts, JobList, ProcessStatics, UnseenProcess,
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

    fn using(mut node: Node, device: &str, job: &str) -> Node {
        let statics = ProcessStatics { job: JobId::new(job), ..ProcessStatics::default() };
        node.uses = [DeviceUse { device: device.into(), pid: 7, ..DeviceUse::default() }].into();
        node.unseen = [UnseenProcess { pid: 7, why: Absence::Hidden, statics }].into();
        node
    }

    fn fleet(node: Node, devices: Allotment) -> (Fleet, Job) {
        let allocation = Allocation { node: node.name.clone(), devices };
        let job = Job {
            shown_id: "2_1".into(),
            lasting_id: JobId::new("s1MXM7XYD0DV00"),
            allocations: [allocation].into(),
            ..Job::example("11")
        };
        let jobs = JobList { jobs: vec![job.clone()], ..JobList::default() };
        (Fleet { jobs: Some(Arc::new(jobs)), ..Fleet::new(vec![Arc::new(node)].into()) }, job)
    }

    fn held(node: Node, devices: Allotment) -> (Option<Vec<String>>, Option<Basis>) {
        let (fleet, job) = fleet(node, devices);
        let held = Ledger::of(&fleet).held(&job, &job.allocations[0]);
        let names = held.devices.map(|list| list.iter().map(ToString::to_string).collect());
        (names, held.basis)
    }

    #[test]
    fn what_the_scheduler_says_counts_and_else_what_processes_use() {
        let two = || using(node(&[("a", None), ("b", None)]), "b", "11");
        let names = |list: &[&str]| Some(list.iter().map(|one| (*one).to_owned()).collect());
        let places = |list: &[u32]| Allotment::Places(list.into());
        let (scheduler, processes) = (Some(Basis::Scheduler), Some(Basis::Processes));
        assert_eq!(held(two(), places(&[0])), (names(&["a"]), scheduler));
        assert_eq!(held(two(), places(&[0, 9])), (names(&["a"]), scheduler));
        assert_eq!(held(two(), Allotment::Nothing), (names(&[]), scheduler));
        assert_eq!(held(two(), Allotment::Unsaid), (names(&["b"]), processes));
        assert_eq!(held(two(), Allotment::Count(2)), (names(&["b"]), processes));
        assert_eq!(held(node(&[("a", None)]), Allotment::Unsaid), (None, None));
        assert_eq!(held(node(&[]), places(&[0])), (None, scheduler));
    }

    #[test]
    fn a_probe_within_a_job_may_see_the_devices_of_that_job_only() {
        let within = |devices: &[(&str, Option<&str>)], job: &str| {
            let host = HostFacts { job: JobId::new(job), ..HostFacts::default() };
            let hello = Hello { host, ..Hello::default() };
            Node { hello: Some(Arc::new(hello)), ..node(devices) }
        };
        let other = |node: Node, places: &[u32], others: &[u32]| {
            let (mut fleet, job) = fleet(node, Allotment::Places(places.into()));
            let name = job.allocations[0].node.clone();
            let devices = Allotment::Places(others.into());
            let other = Job {
                allocations: [Allocation { node: name, devices }].into(),
                ..Job::example("12")
            };
            let jobs = vec![job.clone(), other.clone()];
            fleet.jobs = Some(Arc::new(JobList { jobs, ..JobList::default() }));
            let ledger = Ledger::of(&fleet);
            [job, other]
                .map(|job| ledger.held(&job, &job.allocations[0]).devices.map(|list| list.concat()))
        };
        let found = |text: &str| Some(text.to_owned());
        let two = [("a", None), ("b", None)];
        // Of the devices 3 and 4 one sees two; those of the other job are not seen at all.
        for name in ["11", "s1MXM7XYD0DV00"] {
            assert_eq!(other(within(&two, name), &[3, 4], &[0, 1]), [found("ab"), None], "{name}");
        }
        assert_eq!(other(within(&two, "11"), &[1, 4], &[4, 5]), [found("ab"), found("b")]);
        // All are seen, so jobs are not confined; and a job that has all devices sees all.
        let four = [("a", None), ("b", None), ("c", None), ("d", None)];
        assert_eq!(other(within(&four, "11"), &[2, 3], &[0, 1]), [found("cd"), found("ab")]);
        assert_eq!(other(within(&two, "11"), &[0, 1], &[1]), [found("ab"), found("b")]);
        // It is in another job than these.
        assert_eq!(other(within(&two, "7"), &[0], &[1]), [found("a"), found("b")]);
    }

    #[test]
    fn slices_stand_in_place_of_the_device_they_are_cut_from() {
        let cut =
            node(&[("a", None), ("b", None), ("b1", Some("b")), ("b2", Some("b")), ("c", None)]);
        let (names, _) = held(cut, Allotment::Places([0, 2, 3].into()));
        assert_eq!(names.unwrap(), ["a", "b2", "c"]);
    }

    #[test]
    fn a_node_has_the_jobs_of_the_list_and_those_of_its_processes() {
        let (fleet, _) = fleet(using(node(&[("a", None)]), "a", "9"), Allotment::Nothing);
        let ledger = Ledger::of(&fleet);
        let on: Vec<_> =
            ledger.jobs_on(&fleet.nodes[0].name).into_iter().map(JobId::as_str).collect();
        assert_eq!(on, ["9", "11"]);
        assert_eq!(ledger.unlisted().len(), 1);
    }
}
