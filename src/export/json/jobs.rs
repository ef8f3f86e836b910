//! The jobs of a snapshot: those of the scheduler's list, and those that only processes tell of.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};

use crate::export::json::age;
use crate::export::json::schema::{Metrics, Objects, Shape, Shaped, object};
use crate::fields::JobAt;
use crate::fleet::{Evidence, Fleet, JobDevices, NodeDevices};
use crate::model::{Allocation, DeviceAllocation, Job, JobList};
use crate::time::Timestamp;

object! {
    /// How old the scheduler's list is, why there is no newer one, and what else there is to know about it.
    pub(super) RosterJson<'a> as "roster" {
        /// Which jobs are asked for, to stand after "job".
        whose: &'a str,
        /// How old the list is; null when the scheduler has never answered.
        age_seconds: Option<f64>,
        /// Why there is no newer list.
        problem: Option<ProblemJson<'a>>,
        /// What else there is to know about it, a sentence each.
        notes: Vec<&'a str>,
        /// How many jobs it has.
        jobs: usize,
    }
}

object! {
    /// Why a scheduler does not say which jobs there are.
    ProblemJson<'a> as "problem" {
        /// What is wrong, in a few words.
        sentence: &'a str,
        /// What a person can do about it.
        remedy: &'a str,
        /// For how long.
        for_seconds: f64,
    }
}

/// Says how old the list is, why there is no newer one, and what else there is to know about it.
pub(super) fn list(list: &JobList, now: Timestamp) -> RosterJson<'_> {
    RosterJson {
        whose: &list.whose,
        age_seconds: list.at.map(|at| age(at, now)),
        problem: list.error.as_ref().map(|problem| ProblemJson {
            sentence: &problem.sentence,
            remedy: &problem.remedy,
            for_seconds: age(problem.since, now),
        }),
        notes: list.notes.iter().map(|note| &**note).collect(),
        jobs: list.jobs.len(),
    }
}

/// All jobs, each made when it is written.
pub(super) struct Jobs<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) job_devices: &'a JobDevices<'a>,
    pub(super) now: Timestamp,
}

impl Serialize for Jobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed = self.fleet.jobs.iter().flat_map(|list| &list.jobs);
        let listed = listed.map(|job| JobJson::Listed(Box::new(self.listed(job))));
        let unlisted = self.job_devices.unlisted().into_iter().map(|(id, uses)| {
            let allocations = uses.iter().map(used).collect();
            JobJson::Unlisted(UnlistedJson { id: id.as_str(), allocations })
        });
        serializer.collect_seq(listed.chain(unlisted))
    }
}

impl Shaped for Jobs<'_> {
    fn shape(objects: &mut Objects) -> Shape {
        let either = [ListedJson::shape(objects), UnlistedJson::shape(objects)];
        Shape::List(Box::new(Shape::Either(Box::new(either))))
    }
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum JobJson<'a> {
    Listed(Box<ListedJson<'a>>),
    Unlisted(UnlistedJson<'a>),
}

object! {
    /// A job of the scheduler's list.
    ListedJson<'a> as "job" {
        /// Its number.
        id: &'a str,
        ..metrics: Metrics<'a, JobAt>,
        /// What it has, node by node.
        allocations: Vec<AllocationJson<'a>>,
    }
}

object! {
    /// A job that only processes tell of.
    UnlistedJson<'a> as "unlisted_job" {
        /// Its number.
        id: &'a str,
        /// What its processes use, node by node.
        allocations: Vec<AllocationJson<'a>>,
    }
}

object! {
    /// The devices of a job on a node.
    AllocationJson<'a> as "allocation" {
        /// The node.
        node: &'a str,
        /// The uuids of the devices; null when nobody says, or the node has not shown its devices.
        devices: Option<Vec<String>>,
        /// Who says which: scheduler or processes. Of what processes use a job may have been given more.
        devices_from: Option<&'static str>,
        /// Processes contradict the scheduler's numbers: the devices are those its processes use, null when they use none.
        disputed: bool,
        /// The scheduler's numbers of the devices, where it tells them.
        places: Option<Vec<u32>>,
        /// How many devices, where the scheduler tells that.
        count: Option<usize>,
    }
}

impl<'a> Jobs<'a> {
    fn listed(&self, job: &'a Job) -> ListedJson<'a> {
        let at = JobAt { job: job.clone(), now: self.now };
        let allocations = job.allocations.iter().map(|one| allocation(self.job_devices, job, one));
        ListedJson {
            id: job.id.as_str(),
            metrics: Metrics { of: Cow::Owned(at), besides: None },
            allocations: allocations.collect(),
        }
    }
}

fn used<'a>((node, devices): &NodeDevices<'a>) -> AllocationJson<'a> {
    AllocationJson {
        node: node.as_str(),
        devices: Some(devices.iter().map(ToString::to_string).collect()),
        devices_from: Some(Evidence::Processes.as_str()),
        disputed: false,
        places: None,
        count: None,
    }
}

/// `places` and `count` are the scheduler's words; `devices` is what they mean on the node.
fn allocation<'a>(
    job_devices: &JobDevices<'_>,
    job: &Job,
    allocation: &'a Allocation,
) -> AllocationJson<'a> {
    let held = job_devices.assigned(job, allocation);
    let (places, count) = match &allocation.devices {
        DeviceAllocation::Indices(places) => (Some(places.to_vec()), Some(places.len())),
        DeviceAllocation::Count(count) => (None, usize::try_from(*count).ok()),
        DeviceAllocation::None => (Some(Vec::new()), Some(0)),
        DeviceAllocation::Unknown => (None, None),
    };
    AllocationJson {
        node: allocation.node.as_str(),
        devices: held.devices.map(|list| list.iter().map(ToString::to_string).collect()),
        devices_from: held.evidence.map(Evidence::as_str),
        disputed: held.is_disputed,
        places,
        count,
    }
}
