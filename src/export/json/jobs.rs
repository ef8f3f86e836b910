//! The jobs of a snapshot: those the scheduler lists, and those known from processes only.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};

use crate::export::json::age;
use crate::export::json::schema::{JsonShape, Metrics, Objects, Shaped, object};
use crate::fleet::{Evidence, Fleet, JobDevices, NodeDevices};
use crate::metrics::JobAt;
use crate::model::{Allocation, DeviceAllocation, Job, JobId, JobList, JobListError, Unanswered};
use crate::time::Timestamp;

object! {
    /// The scheduler's job list: its age, its error and notes.
    pub(super) RosterJson<'a> as "roster" of (list: &'a JobList, now: Timestamp) {
        /// Which jobs are listed, such as "of alice".
        whose: &'a str = &list.filter_text,
        /// Age of the list; null when the scheduler has never answered.
        age_seconds: Option<f64> = list.at.map(|at| age(at, now)),
        /// Why there is no newer list.
        problem: Option<ProblemJson<'a>> =
            list.error.as_ref().map(|error| ProblemJson::of(error, now)),
        /// Notes about the list, one sentence each.
        notes: Vec<&'a str> = list.notes.iter().map(|note| &**note).collect(),
        /// Number of jobs in the list.
        jobs: usize = list.jobs.len(),
        /// Number of jobs on nodes whose devices the scheduler has not told.
        jobs_without_devices: usize = list.jobs_without_devices(),
        /// What the scheduler has not answered yet: `jobs`, `job_devices`, `node_states`, `node_devices`.
        unanswered: Vec<&'static str> = list.unanswered().into_iter().map(Unanswered::as_str).collect(),
        /// True if it hides jobs of others from this user; null if that is not known.
        hides_jobs: Option<bool> = list.hides_jobs,
    }
}

object! {
    /// Why the scheduler does not list its jobs.
    ProblemJson<'a> as "problem" of (error: &'a JobListError, now: Timestamp) {
        /// What is wrong.
        sentence: &'a str = &error.message,
        /// What to do about it.
        remedy: &'a str = &error.remedy,
        /// How long the problem has lasted.
        for_seconds: f64 = age(error.since, now),
    }
}

/// All jobs, each serialised when it is written.
pub(super) struct Jobs<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) job_devices: &'a JobDevices<'a>,
    pub(super) now: Timestamp,
}

impl Serialize for Jobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed = self.fleet.jobs.iter().flat_map(|list| &list.jobs);
        let listed = listed.map(|job| JobJson::Listed(Box::new(ListedJson::of(self, job))));
        let unlisted = self.job_devices.unlisted();
        let unlisted =
            unlisted.iter().map(|(id, uses)| JobJson::Unlisted(UnlistedJson::of(id, uses)));
        serializer.collect_seq(listed.chain(unlisted))
    }
}

impl Shaped for Jobs<'_> {
    fn shape(objects: &mut Objects) -> JsonShape {
        let either = [ListedJson::shape(objects), UnlistedJson::shape(objects)];
        JsonShape::Array(Box::new(JsonShape::AnyOf(Box::new(either))))
    }
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum JobJson<'a> {
    Listed(Box<ListedJson<'a>>),
    Unlisted(UnlistedJson<'a>),
}

object! {
    /// A job the scheduler lists.
    ListedJson<'a> as "job" of (jobs: &Jobs<'_>, job: &'a Job) with {
        let at = JobAt { job: job.clone(), now: jobs.now };
        let allocations = job.allocations.iter();
    } {
        /// Job id.
        id: &'a str = job.id.as_str(),
        ..metrics: Metrics<'a, JobAt> = Metrics { subject: Cow::Owned(at), unknown_extra: None },
        /// Its allocation on each node.
        allocations: Vec<AllocationJson<'a>> =
            allocations.map(|one| allocation(jobs.job_devices, job, one)).collect(),
    }
}

object! {
    /// A job known from processes only.
    UnlistedJson<'a> as "unlisted_job" of (id: &'a JobId, devices: &[NodeDevices<'a>]) {
        /// Job id.
        id: &'a str = id.as_str(),
        /// The devices its processes use, on each node.
        allocations: Vec<AllocationJson<'a>> = devices.iter().map(process_allocation).collect(),
    }
}

object! {
    /// The devices of a job on a node.
    AllocationJson<'a> as "allocation" {
        /// The node.
        node: &'a str,
        /// UUIDs of the devices; null when unknown.
        devices: Option<Vec<String>>,
        /// Where the devices are known from: scheduler or processes. From processes the list may be incomplete.
        devices_from: Option<&'static str>,
        /// True if processes contradict the scheduler; devices are then those its processes use, null when they use none.
        disputed: bool,
        /// The scheduler's device indices (GRES IDX), if it reports them.
        places: Option<Vec<u32>>,
        /// Number of devices, if the scheduler reports it.
        count: Option<usize>,
    }
}

fn process_allocation<'a>((node, devices): &NodeDevices<'a>) -> AllocationJson<'a> {
    AllocationJson {
        node: node.as_str(),
        devices: Some(devices.iter().map(ToString::to_string).collect()),
        devices_from: Some(Evidence::Processes.as_str()),
        disputed: false,
        places: None,
        count: None,
    }
}

/// `places` and `count` are what the scheduler reports; `devices` are the devices these stand for on the node.
fn allocation<'a>(
    job_devices: &JobDevices<'_>,
    job: &Job,
    allocation: &'a Allocation,
) -> AllocationJson<'a> {
    let assigned = job_devices.assigned(job, allocation);
    let (places, count) = match &allocation.devices {
        DeviceAllocation::Indices(indices) => (Some(indices.to_vec()), Some(indices.len())),
        DeviceAllocation::Count(count) => (None, usize::try_from(*count).ok()),
        DeviceAllocation::None => (Some(Vec::new()), Some(0)),
        DeviceAllocation::Unknown => (None, None),
    };
    AllocationJson {
        node: allocation.node.as_str(),
        devices: assigned.devices.map(|list| list.iter().map(ToString::to_string).collect()),
        devices_from: assigned.evidence.map(Evidence::as_str),
        disputed: assigned.is_disputed,
        places,
        count,
    }
}
