//! Which devices of a node are kept by jobs of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fleet::{Assigned, Evidence, Fleet, JobAllocation, JobDevices, Node};
use crate::model::{Device, DeviceAllocation, Job, JobId, NodeName};

/// The jobs of a fleet by node.
pub(super) struct FleetJobs<'a> {
    fleet: &'a Fleet,
    devices: JobDevices<'a>,
    by_node: BTreeMap<&'a NodeName, Vec<JobAllocation<'a>>>,
}

/// The devices that jobs hold on one node.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// Devices and slices of jobs of others, each with that job as text.
    foreign: BTreeMap<Arc<str>, String>,
    /// Devices and slices of jobs of the user who runs gtop.
    own: BTreeSet<Arc<str>>,
    /// A job of somebody else whose devices on this node are not all known.
    unknown: Option<String>,
    /// The job that gtop runs in on this node, as text, with its devices.
    confined_to: Option<(String, BTreeSet<Arc<str>>)>,
}

impl<'a> FleetJobs<'a> {
    pub(super) fn of(fleet: &'a Fleet) -> Self {
        let mut by_node: BTreeMap<&NodeName, Vec<JobAllocation<'_>>> = BTreeMap::new();
        for job in fleet.jobs.iter().flat_map(|list| &list.jobs) {
            for allocation in job.allocations.iter() {
                by_node.entry(&allocation.node).or_default().push((job, allocation));
            }
        }
        Self { fleet, devices: JobDevices::of(fleet), by_node }
    }

    /// Returns who holds the devices of a node.
    pub(super) fn holders(&self, node: &Node) -> Holders {
        let mut holders = Holders::default();
        for (job, allocation) in self.by_node.get(&node.name).into_iter().flatten() {
            let assigned = self.devices.assigned(job, allocation);
            if is_own(node, &job.user) {
                holders.add_own(node, job, assigned);
            } else {
                holders.add_foreign(job, &allocation.devices, &assigned);
            }
        }
        self.add_processes(node, &mut holders);
        holders
    }

    /// Adds the devices that processes of jobs use.
    fn add_processes(&self, node: &Node, holders: &mut Holders) {
        for used in node.uses.iter() {
            let Some(id) = node.job_of(used.pid) else { continue };
            let listed = self.fleet.jobs.as_ref().and_then(|list| list.job(id));
            let process = node.process(used.pid);
            let user = match listed {
                Some(job) => Some(&job.user),
                None => process.and_then(|process| process.statics.user.known()),
            };
            if user.is_some_and(|user| is_own(node, user)) {
                continue;
            }
            let shown_id = listed.map_or(id.as_str(), |job| &job.shown_id);
            let text = job_text(shown_id, user.map_or("somebody", |user| user));
            holders.foreign.entry(Arc::clone(&used.device)).or_insert(text);
        }
    }
}

impl Holders {
    fn add_own(&mut self, node: &Node, job: &Job, assigned: Assigned) {
        let is_certain = assigned.evidence == Some(Evidence::Scheduler) && !assigned.is_disputed;
        let devices: BTreeSet<Arc<str>> = assigned.devices.into_iter().flatten().collect();
        if is_certain && !devices.is_empty() && is_job_of_probe(node, job) {
            self.confined_to = Some((format!("job {}", job.shown_id), devices.clone()));
        }
        self.own.extend(devices);
    }

    fn add_foreign(&mut self, job: &Job, allocation: &DeviceAllocation, assigned: &Assigned) {
        let text = job_text(&job.shown_id, &job.user);
        for device in assigned.devices.iter().flatten() {
            self.foreign.insert(Arc::clone(device), text.clone());
        }
        if !assigned.is_complete(allocation) {
            self.unknown = Some(text);
        }
    }

    /// Returns why jobs keep a device from being picked; `None` if they do not.
    pub(super) fn refusal(&self, node: &Node, device: &Device) -> Option<String> {
        let family = family(node, device);
        if let Some(job) = family.iter().find_map(|uuid| self.foreign.get(*uuid)) {
            return Some(format!("{job} holds it"));
        }
        let is_in =
            |devices: &BTreeSet<Arc<str>>| family.iter().any(|uuid| devices.contains(*uuid));
        match &self.confined_to {
            Some((job, devices)) if !is_in(devices) => {
                return Some(format!("outside {job}, in which gtop runs"));
            }
            Some(_) | None => {}
        }
        let job = self.unknown.as_ref().filter(|_| !is_in(&self.own))?;
        Some(format!("{job} may hold it: its devices on this node are not known"))
    }
}

fn job_text(id: &str, user: &str) -> String {
    format!("job {id} of {user}")
}

/// Returns true if this is the user as whom gtop runs on the node.
pub(super) fn is_own(node: &Node, user: &str) -> bool {
    node.hello.as_ref().is_some_and(|hello| &*hello.host.user == user)
}

fn is_job_of_probe(node: &Node, job: &Job) -> bool {
    let id: Option<&JobId> = node.hello.as_ref().and_then(|hello| hello.host.job.as_ref());
    id.is_some_and(|id| *id == job.id || job.sluid.as_ref() == Some(id))
}

/// Returns the device with its slices, or the slice with its device: who holds one holds the other.
fn family<'a>(node: &'a Node, device: &'a Device) -> Vec<&'a Arc<str>> {
    let slices = node.devices.iter().filter(|slice| slice.parent.as_ref() == Some(&device.uuid));
    let slices = slices.map(|slice| &slice.uuid);
    [&device.uuid].into_iter().chain(device.parent.as_ref()).chain(slices).collect()
}
