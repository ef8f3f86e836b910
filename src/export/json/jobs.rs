//! The jobs of a snapshot: those the scheduler lists, and those known from processes only.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};

use crate::export::json::age;
use crate::export::json::schema::{JsonShape, Metrics, Objects, Shaped, object};
use gtop_fleet::advice;
use gtop_fleet::metrics::{JobAt, measured_digits};
use gtop_fleet::{Claim, Fleet, HostShare, JobHoldings, Node, job_holdings};
use gtop_local::time::Timestamp;
use gtop_model::{Allocation, FinishedJob, Job, JobId, JobList, JobListError, Reason, Unanswered};

object! {
    /// The scheduler's job list: its age, its error and notes.
    pub(super) RosterJson<'a> as "roster" of (list: &'a JobList, now: Timestamp) {
        /// Which jobs are listed, such as "of alice".
        whose: &'a str = &list.filter_text,
        /// Age of the list; null when the scheduler has never answered.
        age_seconds: Option<f64> = list.at.map(|at| age(at, now)),
        /// Why there is no newer list.
        problem: Option<ProblemJson<'a>> =
            list.error.as_ref().map(|error| ProblemJson::of(list, error, now)),
        /// Notes about the list, one sentence each.
        notes: Vec<&'a str> = list.notes.iter().map(|note| &**note).collect(),
        /// Number of jobs in the list.
        jobs: usize = list.jobs.len(),
        /// Number of jobs on nodes whose devices the scheduler has not told.
        jobs_without_devices: usize = list.jobs_without_devices(),
        /// What the scheduler has not answered yet: `jobs`, `job_devices`, `node_states`, `node_devices`, `hidden_jobs`.
        unanswered: Vec<&'static str> = list.unanswered().into_iter().map(Unanswered::as_str).collect(),
        /// True if it hides jobs of others from this user; null if that is not known.
        hides_jobs: Option<bool> = list.hides_jobs,
    }
}

object! {
    /// Why the scheduler does not list its jobs.
    ProblemJson<'a> as "problem" of (list: &'a JobList, error: &'a JobListError, now: Timestamp) {
        /// What is wrong.
        sentence: &'a str = &error.message,
        /// What to do about it.
        remedy: String =
            advice::scheduler::of_scheduler(&list.scheduler.words, error.kind, &error.message),
        /// How long the problem has lasted.
        for_seconds: f64 = age(error.since, now),
    }
}

/// All jobs, each serialised when it is written.
pub(super) struct Jobs<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) now: Timestamp,
}

impl Serialize for Jobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed = self.fleet.jobs.iter().flat_map(|list| &list.jobs);
        let listed = listed.map(|job| JobJson::Listed(Box::new(ListedJson::of(self, job))));
        let unlisted = self.fleet.unlisted_jobs();
        let unlisted =
            unlisted.iter().map(|(id, found)| JobJson::Unlisted(UnlistedJson::of(id, found)));
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
        ..metrics: Metrics<'a, JobAt> = Metrics {
            subject: Cow::Owned(at),
            unknown_extra: None,
            unsampled: Reason::NotSampled,
        },
        /// Its allocation on each node.
        allocations: Vec<AllocationJson<'a>> =
            allocations.map(|known| allocation(jobs, job, known)).collect(),
    }
}

object! {
    /// A job that has ended, as the scheduler's accounting has it.
    pub(super) FinishedJson<'a> as "finished_job" of (finished: &'a FinishedJob, now: Timestamp) with {
        let job = &finished.job;
    } {
        /// Job id.
        id: &'a str = job.id.as_str(),
        ..metrics: Metrics<'a, JobAt> = Metrics {
            subject: Cow::Owned(JobAt { job: job.clone(), now }),
            unknown_extra: None,
            unsampled: Reason::NotSampled,
        },
        /// How it ended: completed, cancelled, time limit, failed, node failed, out of memory, preempted.
        outcome: &'static str = finished.outcome.name(),
        /// Exit code of its script.
        exit_code: Option<u32> = finished.exit_code,
        /// Signal that ended its script; null without one.
        signal: Option<u32> = finished.signal,
        /// Who cancelled it.
        cancelled_by: Option<&'a str> = finished.cancelled_by.as_deref(),
        /// Number of devices on all nodes; null if accounting does not have it.
        devices: Option<u32> = finished.devices,
        /// The nodes it ran on.
        node_names: Vec<&'a str> = job.allocations.iter().map(|known| known.node.as_str()).collect(),
    }
}

/// Returns the jobs that have ended in the last day, the last end first; `None` if they are not known.
pub(super) fn finished_jobs(fleet: &Fleet, now: Timestamp) -> Option<Vec<FinishedJson<'_>>> {
    let finished = &fleet.jobs.as_ref()?.finished;
    finished.at.map(|_| finished.list.iter().map(|job| FinishedJson::of(job, now)).collect())
}

object! {
    /// A job known from processes only.
    UnlistedJson<'a> as "unlisted_job" of (id: &'a JobId, found: &[(&'a Arc<Node>, &'a JobHoldings)]) {
        /// Job id.
        id: &'a str = id.as_str(),
        /// The devices its processes use, on each node.
        allocations: Vec<AllocationJson<'a>> =
            found.iter().map(|(node, known)| process_allocation(node, known)).collect(),
    }
}

object! {
    /// The devices of a job on a node.
    AllocationJson<'a> as "allocation" {
        /// The node.
        node: &'a str,
        /// UUIDs of the devices that it is known to have; null when none is known of those it has.
        devices: Option<Vec<String>>,
        /// From what they are known: scheduler, cgroup, processes, environment.
        evidence: Vec<&'static str>,
        /// How sure that is: certain, likely, disputed if what is known contradicts itself, unknown if it is not known
        /// which devices the job has, or not of all.
        certainty: &'static str,
        /// How many more devices it has of which it is not known which they are; null if that is not known.
        unplaced: Option<u32>,
        /// The scheduler's device indices (GRES IDX), if it reports them.
        places: Option<Vec<u32>>,
        /// Number of devices, if the scheduler reports it.
        count: Option<usize>,
        /// What it has and uses of the host, by its control group; null if that is not seen.
        host_share: Option<HostShareJson>,
    }
}

object! {
    /// What a control group has and uses of a host.
    pub(super) HostShareJson as "host_share" of (share: &HostShare, at: Timestamp, now: Timestamp) {
        /// CPUs that it may use at once, by its quota and its set of CPUs; null without a limit.
        cpus: Option<f64> = share.cpus.map(measured_digits),
        /// CPUs in use, on average over the seconds between two readings; null if unknown.
        cpus_used: Option<f64> = share.cpus_used.get().map(measured_digits),
        /// Memory that it may use; null without a limit.
        memory_limit_bytes: Option<u64> = share.memory_limit.map(|limit| limit.0),
        /// Memory in use, without pages of files that nobody has used for long; null if unknown.
        memory_used_bytes: Option<u64> = share.memory_used.get().map(|used| used.0),
        /// Reason for each value that is unknown; a limit that is null is none.
        unknown: ShareReasons = ShareReasons::of(share),
        /// Age of these values.
        age_seconds: f64 = age(at, now),
    }
}

/// Why values of a share are unknown, by key.
#[derive(serde::Serialize)]
#[serde(transparent)]
pub(super) struct ShareReasons(BTreeMap<&'static str, &'static str>);

impl ShareReasons {
    const KEYS: [&'static str; 2] = ["cpus_used", "memory_used_bytes"];

    fn of(share: &HostShare) -> Self {
        let reasons = [share.cpus_used.reason(), share.memory_used.reason()];
        let found = Self::KEYS.into_iter().zip(reasons);
        Self(found.filter_map(|(key, reason)| Some((key, reason?.text()))).collect())
    }
}

impl Shaped for ShareReasons {
    fn shape(_: &mut Objects) -> JsonShape {
        JsonShape::Reasons(Self::KEYS.into())
    }
}

/// Returns one of the shares of a node's host.
pub(super) fn host_share(
    node: &Node,
    share: Option<&HostShare>,
    now: Timestamp,
) -> Option<HostShareJson> {
    Some(HostShareJson::of(share?, node.shares.as_ref()?.at, now))
}

fn process_allocation<'a>(node: &'a Node, known: &JobHoldings) -> AllocationJson<'a> {
    holdings_json(node.name.as_str(), known, None, None)
}

/// `places` and `count` are what the scheduler reports; `devices` are the devices these stand for on the node.
fn allocation<'a>(jobs: &Jobs<'_>, job: &Job, allocation: &'a Allocation) -> AllocationJson<'a> {
    let node = jobs.fleet.node(&allocation.node).map(|node| &**node);
    let places = allocation.devices.indices().map(<[u32]>::to_vec);
    let known = job_holdings(node, job, allocation);
    let host_share = node.and_then(|node| host_share(node, node.share_of(job), jobs.now));
    let count = allocation.devices.count();
    AllocationJson { host_share, ..holdings_json(allocation.node.as_str(), &known, places, count) }
}

fn holdings_json<'a>(
    node: &'a str,
    known: &JobHoldings,
    places: Option<Vec<u32>>,
    count: Option<usize>,
) -> AllocationJson<'a> {
    let devices = known.devices.iter().map(ToString::to_string).collect();
    AllocationJson {
        node,
        devices: known.is_known().then_some(devices),
        evidence: known.evidence.names().collect(),
        certainty: known.certainty.as_str(),
        unplaced: known.unplaced,
        places,
        count,
        host_share: None,
    }
}

object! {
    /// Somebody who has a device.
    pub(super) HolderJson as "holder" of (claim: &Claim) {
        /// The user; null if unknown.
        user: Option<String> = claim.holder.user.is_known().then(|| claim.holder.user.text()),
        /// The scheduler's id of the job; null outside of jobs, and of jobs that the scheduler does not show.
        job: Option<String> = claim.holder.job.as_ref().map(ToString::to_string),
        /// From what it is known: scheduler, cgroup, processes, environment.
        evidence: Vec<&'static str> = claim.evidence.names().collect(),
        /// How sure that is: certain, likely, disputed.
        certainty: &'static str = claim.certainty.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{Bytes, Reading};

    #[test]
    fn what_is_unknown_of_a_share_has_its_reason() {
        let at = Timestamp::default();
        let share = HostShare {
            cpus_used: Reading::Unknown(Reason::NeedsTwoSamples),
            memory_used: Reading::Known(Bytes(1)),
            ..HostShare::default()
        };
        let json = serde_json::to_value(HostShareJson::of(&share, at, at)).unwrap();
        assert_eq!(json["cpus_used"], serde_json::Value::Null);
        assert_eq!(json["unknown"], serde_json::json!({"cpus_used": "needs two samples"}));
    }
}
