//! The job list of a recording, as JSON.

use std::sync::Arc;
use std::time::Duration;

use crate::record::proved::{self, ProvedLine};
use crate::record::scheduler_nodes::{self, SchedulerNodesLine};
use crate::record::value::{from_seconds, node_name, text, to_seconds};
use crate::scheduler::{SchedulerKind, profile_of};
use crate::wire::objects;
use gtop_model::{
    Allocation, Bytes, DeviceAllocation, Job, JobId, JobList, JobListError, JobOutcome, JobState,
    RequestedJobs, SchedulerErrorKind, SchedulerNodes,
};

objects! {
    /// A job list.
    pub(super) struct JobListLine {
        /// The scheduler that listed them; `None` for the one of the first recordings.
        scheduler?: Option<String>,
        jobs: Vec<JobLine>,
        at: Option<f64>,
        interval?: Option<f64>,
        error: Option<ErrorLine>,
        notes: Vec<Arc<str>>,
        filter: Arc<str>,
        by_id: bool,
        all: bool,
        is_partial?: bool,
        awaits_devices: bool,
        hides_jobs?: Option<bool>,
        awaiting_outcome: Vec<JobLine>,
        /// Ids and how the jobs ended.
        ended: Vec<(String, String)>,
        /// The scheduler's nodes; equal ones share a line.
        nodes?: Vec<SchedulerNodesLine>,
        nodes_at?: Option<f64>,
        /// What was proved of the indices of nodes.
        proved?: Vec<ProvedLine>,
        /// When it was asked which devices of nodes jobs have.
        allocated_at?: Option<f64>,
    }

    struct ErrorLine {
        message: Arc<str>,
        kind: String,
        since: f64,
    }

    struct JobLine {
        id: String,
        shown_id: Arc<str>,
        sluid?: Option<String>,
        name: Arc<str>,
        user: Arc<str>,
        partition: Arc<str>,
        account?: Option<Arc<str>>,
        state: String,
        reason?: Option<Arc<str>>,
        submitted_at?: Option<f64>,
        starts_at?: Option<f64>,
        ends_at?: Option<f64>,
        limit?: Option<f64>,
        run_time?: Option<f64>,
        /// `None` for one task, 0 if their number is not known.
        tasks?: Option<u32>,
        node_count: u32,
        devices_per_node?: Option<u32>,
        cpus?: Option<u32>,
        /// Bytes.
        memory?: Option<u64>,
        allocations: Vec<AllocationLine>,
    }

    /// The devices of a job on a node: indices, a number, neither if there are none, or unknown.
    struct AllocationLine {
        node: String,
        indices?: Option<Vec<u32>>,
        /// The job has shares of these devices.
        #[serde(rename = "shares")]
        is_share?: bool,
        count?: Option<u32>,
    }
}

fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

impl From<&JobList> for JobListLine {
    fn from(list: &JobList) -> Self {
        let ended = list.ended.iter();
        let id = list.scheduler.id;
        let is_default = id == SchedulerKind::default().profile().id;
        Self {
            scheduler: (!is_default).then(|| id.to_owned()),
            jobs: list.jobs.iter().map(JobLine::from).collect(),
            at: list.at.map(to_seconds),
            interval: Some(list.interval.as_secs_f64()).filter(|seconds| *seconds > 0.0),
            error: list.error.as_ref().map(|error| ErrorLine {
                message: Arc::clone(&error.message),
                kind: error.kind.as_str().to_owned(),
                since: to_seconds(error.since),
            }),
            notes: list.notes.clone(),
            filter: Arc::clone(&list.filter_text),
            by_id: list.requested == RequestedJobs::ById,
            all: list.requested == RequestedJobs::All,
            is_partial: list.is_partial,
            awaits_devices: list.awaits_devices,
            hides_jobs: list.hides_jobs,
            awaiting_outcome: list.awaiting_outcome.iter().map(JobLine::from).collect(),
            ended: ended.map(|(id, how)| (id.to_string(), how.text().to_owned())).collect(),
            nodes: scheduler_nodes::to_lines(&list.nodes),
            nodes_at: list.nodes.at.map(to_seconds),
            proved: proved::to_lines(&list.proved),
            allocated_at: list.nodes.allocated_at.map(to_seconds),
        }
    }
}

impl JobListLine {
    pub(super) fn to_list(&self) -> JobList {
        let requested = match (self.all, self.by_id) {
            (true, _) => RequestedJobs::All,
            (false, true) => RequestedJobs::ById,
            (false, false) => RequestedJobs::Selected,
        };
        let ended = self.ended.iter().filter_map(|(id, how)| {
            let outcome = JobOutcome::ALL.into_iter().find(|outcome| outcome.text() == how);
            Some((JobId::new(id)?, outcome.unwrap_or_default()))
        });
        let awaiting_outcome = self.awaiting_outcome.iter().filter_map(|job| job.to_job(self.at));
        JobList {
            scheduler: self
                .scheduler
                .as_deref()
                .map_or_else(|| SchedulerKind::default().profile(), profile_of),
            jobs: self.jobs.iter().filter_map(|job| job.to_job(self.at)).collect(),
            at: self.at.map(from_seconds),
            interval: self.interval.and_then(duration).unwrap_or_default(),
            error: self.error.as_ref().map(|error| JobListError {
                message: text(&error.message),
                kind: SchedulerErrorKind::named(&error.kind),
                since: from_seconds(error.since),
            }),
            notes: self.notes.iter().map(|note| text(note)).collect(),
            filter_text: text(&self.filter),
            narrowed_by: Arc::default(),
            requested,
            is_partial: self.is_partial,
            awaits_devices: self.awaits_devices,
            awaits_nodes: false,
            awaits_hidden: false,
            hides_jobs: self.hides_jobs,
            awaiting_outcome: awaiting_outcome.collect(),
            ended: ended.collect(),
            finished: Arc::default(),
            nodes: Arc::new(SchedulerNodes {
                nodes: scheduler_nodes::to_nodes(&self.nodes),
                at: self.nodes_at.map(from_seconds),
                allocated_at: self.allocated_at.map(from_seconds),
                awaits_allocated: false,
            }),
            other_names: Arc::default(),
            proved: Arc::new(proved::to_proved(&self.proved)),
        }
    }
}

impl From<&Job> for JobLine {
    fn from(job: &Job) -> Self {
        Self {
            id: job.id.as_str().to_owned(),
            shown_id: Arc::clone(&job.shown_id),
            sluid: job.alias.as_ref().map(|id| id.as_str().to_owned()),
            name: Arc::clone(&job.name),
            user: Arc::clone(&job.user),
            partition: Arc::clone(&job.partition),
            account: job.account.clone(),
            state: job.state_text().to_owned(),
            reason: job.reason.clone(),
            submitted_at: job.submitted_at.map(to_seconds),
            starts_at: job.starts_at.map(to_seconds),
            ends_at: job.ends_at.map(to_seconds),
            limit: job.limit.map(|limit| limit.as_secs_f64()),
            run_time: job.run_time.map(|time| time.as_secs_f64()),
            tasks: Some(job.tasks.unwrap_or(0)).filter(|tasks| *tasks != 1),
            node_count: job.node_count,
            devices_per_node: job.devices_per_node,
            cpus: job.cpus,
            memory: job.memory.map(|memory| memory.0),
            allocations: job.allocations.iter().map(AllocationLine::from).collect(),
        }
    }
}

impl JobLine {
    /// Returns the job of a list made at this time; `None` without a valid id.
    fn to_job(&self, listed_at: Option<f64>) -> Option<Job> {
        let state = JobState::ALL.into_iter().find(|state| state.as_str() == self.state);
        Some(Job {
            id: JobId::new(&self.id)?,
            shown_id: text(&self.shown_id),
            alias: self.sluid.as_deref().and_then(JobId::new),
            name: text(&self.name),
            user: text(&self.user),
            partition: text(&self.partition),
            account: self.account.as_deref().map(text),
            state: state.unwrap_or(JobState::Other),
            native_state: if state.is_none() { text(&self.state) } else { Arc::default() },
            reason: self.reason.as_deref().map(text),
            submitted_at: self.submitted_at.map(from_seconds),
            starts_at: self.starts_at.map(from_seconds),
            ends_at: self.ends_at.map(from_seconds),
            limit: self.limit.and_then(duration),
            run_time: self.run_time.and_then(duration),
            listed_at: listed_at.map(from_seconds),
            tasks: Some(self.tasks.unwrap_or(1)).filter(|tasks| *tasks > 0),
            node_count: self.node_count,
            devices_per_node: self.devices_per_node,
            cpus: self.cpus,
            memory: self.memory.map(Bytes),
            allocations: self
                .allocations
                .iter()
                .filter_map(AllocationLine::to_allocation)
                .collect(),
        })
    }
}

impl From<&Allocation> for AllocationLine {
    fn from(allocation: &Allocation) -> Self {
        let is_share = matches!(allocation.devices, DeviceAllocation::Shares(_));
        let (indices, count) = match &allocation.devices {
            DeviceAllocation::Indices(indices) | DeviceAllocation::Shares(indices) => {
                (Some(indices.to_vec()), None)
            }
            DeviceAllocation::Count(count) => (None, Some(*count)),
            DeviceAllocation::None => (None, Some(0)),
            DeviceAllocation::Unknown => (None, None),
        };
        Self { node: allocation.node.as_str().to_owned(), indices, is_share, count }
    }
}

impl AllocationLine {
    fn to_allocation(&self) -> Option<Allocation> {
        let devices = match (&self.indices, self.count) {
            (Some(indices), _) if self.is_share => DeviceAllocation::Shares(indices[..].into()),
            (Some(indices), _) => DeviceAllocation::Indices(indices[..].into()),
            (None, Some(0)) => DeviceAllocation::None,
            (None, Some(count)) => DeviceAllocation::Count(count),
            (None, None) => DeviceAllocation::Unknown,
        };
        Some(Allocation { node: node_name(&self.node)?, devices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_the_scheduler_that_made_it_or_of_the_first_that_was_recorded() {
        for kind in SchedulerKind::ALL {
            let scheduler = kind.profile();
            let list = JobList { scheduler, ..JobList::default() };
            let text = serde_json::to_string(&JobListLine::from(&list)).unwrap();
            assert_eq!(text.contains("scheduler"), kind != SchedulerKind::default(), "{text}");
            let line: JobListLine = serde_json::from_str(&text).unwrap();
            assert_eq!(line.to_list().scheduler, scheduler);
        }
    }

    #[test]
    fn the_devices_of_a_job_are_read_as_they_were_written() {
        let node = node_name("gpu01").unwrap();
        for devices in [
            DeviceAllocation::Indices([0, 3].into()),
            DeviceAllocation::Shares([0, 3].into()),
            DeviceAllocation::Count(2),
            DeviceAllocation::None,
            DeviceAllocation::Unknown,
        ] {
            let allocation = Allocation { node: node.clone(), devices };
            let text = serde_json::to_string(&AllocationLine::from(&allocation)).unwrap();
            let line: AllocationLine = serde_json::from_str(&text).unwrap();
            assert_eq!(line.to_allocation(), Some(allocation), "{text}");
        }
    }
}
