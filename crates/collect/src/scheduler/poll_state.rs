//! What each poller keeps, whatever its scheduler: which jobs are wanted, the last list of them, how those ended that have
//! left it, and the nodes to watch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::scheduler::watched_nodes::WatchedNodes;
use crate::scheduler::{JobFilter, Listing, SchedulerError};
use gtop_local::time::Timestamp;
use gtop_model::{JobId, JobList, JobOutcome, NodeName, RequestedJobs, SchedulerProfile};
use gtop_ssh::SchedulerAddresses;

/// Maximum number of ended jobs whose outcome is queried or kept.
pub(super) const MAX_ENDED_JOBS: usize = 200;

/// The state of a poller.
#[derive(Debug)]
pub(super) struct PollState {
    pub(super) filter: JobFilter,
    pub(super) interval: Duration,
    pub(super) watched: WatchedNodes,
    pub(super) list: JobList,
}

impl PollState {
    /// Returns the state before the first answer; the fixed nodes are watched as well.
    pub(super) fn new(
        profile: &'static SchedulerProfile,
        filter: JobFilter,
        interval: Duration,
        fixed_nodes: Vec<NodeName>,
    ) -> Self {
        let list = filter.unanswered_list(profile, interval);
        Self { filter, interval, watched: WatchedNodes::new(fixed_nodes), list }
    }

    /// Lists only the jobs on these nodes, which the scheduler need not know.
    pub(super) fn list_jobs_on(&mut self, nodes: BTreeSet<NodeName>) {
        self.list.requested = RequestedJobs::Selected;
        self.watched.list_jobs_on(nodes);
    }

    /// Stores why there is no newer list.
    pub(super) fn on_error(&mut self, error: SchedulerError, now: Timestamp) {
        self.list.error = Some(error.of_list(&self.list, now));
    }

    /// Stores when the scheduler has listed the jobs, and what is to be known of the list.
    pub(super) fn on_list(&mut self, at: Timestamp, is_partial: bool, notes: Vec<String>) {
        self.list.at = Some(at);
        self.list.error = None;
        self.list.is_partial = is_partial;
        self.list.notes = notes.into_iter().map(Into::into).collect();
        self.watched.on_list();
    }

    /// Records the jobs that had nodes and have left the list, which may hold others again.
    pub(super) fn track_departed(&mut self, listed: &BTreeSet<&JobId>) {
        let known = self.list.with_nodes().chain(&self.list.awaiting_outcome);
        let left = known.filter(|job| !listed.contains(&job.id)).take(MAX_ENDED_JOBS).cloned();
        self.list.awaiting_outcome = left.collect();
        let ended = self.list.ended.iter().filter(|(id, _)| !listed.contains(id)).cloned();
        self.list.ended = ended.collect();
    }

    /// Stores how jobs ended; those without an outcome are queried again.
    pub(super) fn record_outcomes(&mut self, outcome_of: impl Fn(&JobId) -> Option<JobOutcome>) {
        let mut ended = self.list.ended.to_vec();
        self.list.awaiting_outcome.retain(|job| {
            let outcome = outcome_of(&job.id);
            ended.extend(outcome.map(|outcome| (job.id.clone(), outcome)));
            outcome.is_none()
        });
        let surplus = ended.len().saturating_sub(MAX_ENDED_JOBS);
        self.list.ended = ended.split_off(surplus).into();
    }

    /// Returns the last answers, of which `list` is the list of jobs, with these notes on it.
    pub(super) fn listing(
        &self,
        mut list: JobList,
        notes: impl IntoIterator<Item = String>,
        addresses: SchedulerAddresses,
    ) -> Listing {
        list.notes.extend(notes.into_iter().map(Into::into));
        Listing { jobs: Arc::new(list), nodes: self.watched.names().to_vec(), addresses }
    }
}
