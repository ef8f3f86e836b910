//! When the nodes of the cluster are listed: rarely, because their partitions and states seldom change.

use std::time::Duration;

use tokio::time::Instant;

use super::node_list::{self, NodeList, NodeQuestion};
use super::node_use::NodeUse;
use crate::scheduler::SchedulerError;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedResult};
use crate::scheduler::wait::WAIT_PER_QUERY_TIME;
use crate::scheduler::watched_nodes::WatchedNodes;
use gtop_local::time::{Clock, Timestamp};

/// Nodes are listed this many times less often than jobs.
const JOB_LISTS_PER_NODE_LIST: u32 = 10;
/// The same if nodes are watched of which nothing but this list may be known.
const JOB_LISTS_PER_FULL_NODE_LIST: u32 = 2;
/// After this time without a first answer, nodes are taken from elsewhere.
const LATE: Duration = Duration::from_secs(3);

/// The last list of nodes, and when the next one is due.
#[derive(Debug, Default)]
pub(super) struct NodePoll {
    pub(super) list: NodeList,
    /// Partitions are named, which may be hidden ones.
    names_partitions: bool,
    interval: Duration,
    pub(super) query: ScheduledQuery<Result<NodeList, SchedulerError>>,
    /// Why the list is missing or old.
    error: Option<SchedulerError>,
    /// When the first answer is late.
    late_at: Option<Instant>,
    /// [`Self::becomes_late`] has returned true.
    was_late: bool,
}

impl NodePoll {
    /// Returns a poll for lists of jobs in this interval.
    pub(super) fn new(job_interval: Duration, names_partitions: bool) -> Self {
        Self { names_partitions, interval: job_interval, ..Self::default() }
    }

    /// Starts the query if one is due.
    pub(super) fn start(&mut self, clock: &Clock) {
        if self.query.is_due() {
            let question = NodeQuestion { with_hidden: self.names_partitions };
            let now = clock.now();
            self.query.start(async move { node_list::fetch(question, now).await });
            self.late_at.get_or_insert_with(|| Instant::now() + LATE);
        }
    }

    /// Returns true until the first list has arrived or failed.
    pub(super) fn is_awaited(&self) -> bool {
        self.list.at.is_none() && self.error.is_none()
    }

    /// Returns true if there is no list yet, and the first has failed or is late.
    pub(super) fn is_missing(&self) -> bool {
        let is_late = self.late_at.is_some_and(|at| Instant::now() >= at);
        self.list.at.is_none() && (self.error.is_some() || is_late)
    }

    /// Returns true once: when the first answer becomes late.
    pub(super) fn becomes_late(&mut self) -> bool {
        let is_new = self.late_at.is_some() && self.is_missing() && !self.was_late;
        self.was_late |= is_new;
        is_new
    }

    /// Returns when the first answer is late; `None` if it has come or failed, or is late.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.late_at.filter(|_| self.is_awaited() && !self.is_missing())
    }

    /// Returns true if the last list is so old that it may no longer be true.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        self.query.is_old(self.list.at, now)
    }

    /// Keeps the list, or the last one if there is none.
    pub(super) fn apply(&mut self, answer: TimedResult<NodeList>, watched: &WatchedNodes) {
        let every =
            if watched.has_all { JOB_LISTS_PER_FULL_NODE_LIST } else { JOB_LISTS_PER_NODE_LIST };
        let interval = self.interval.saturating_mul(every);
        // Nothing of this list is urgent, so it may take a smaller part of the time.
        let rare = answer.took.saturating_mul(WAIT_PER_QUERY_TIME * WAIT_PER_QUERY_TIME);
        match self.query.schedule_next(answer, interval.max(rare), interval) {
            Ok(list) => (self.list, self.error) = (list, None),
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns a note if what is known of nodes is old or not complete, or if nodes without a job cannot be listed.
    pub(super) fn note(
        &self,
        now: Timestamp,
        node_use: &NodeUse,
        watched: &WatchedNodes,
    ) -> Option<String> {
        if self.list.is_truncated {
            return Some("sinfo lists more nodes than gtop reads; some are missing".to_owned());
        }
        let error = self.error.as_ref().filter(|_| watched.has_all || self.is_old(now))?;
        let what = match self.list.at {
            Some(_) => "partitions and states of nodes are old",
            None if node_use.is_whole() => return None,
            None if node_use.at.is_some() => "some nodes are missing",
            None => "only nodes of jobs are shown",
        };
        Some(format!("{}; {what}", error.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::scheduled_query::TimedAnswer;
    use gtop_model::SchedulerErrorKind;

    fn failed() -> TimedAnswer<Result<NodeList, SchedulerError>> {
        let error = SchedulerError {
            kind: SchedulerErrorKind::NotInstalled,
            message: "sinfo is not on the PATH of this machine".into(),
        };
        TimedAnswer { value: Err(error), took: Duration::ZERO }
    }

    fn listed(clock: &Clock) -> TimedAnswer<Result<NodeList, SchedulerError>> {
        let list = NodeList { at: Some(clock.now()), ..NodeList::default() };
        TimedAnswer { value: Ok(list), took: Duration::ZERO }
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_are_listed_rarely_and_when_somebody_asks() {
        let clock = Clock::system();
        let few = WatchedNodes::default();
        let mut poll = NodePoll::new(Duration::from_secs(30), false);
        assert!(poll.query.is_due());
        poll.apply(listed(&clock), &few);
        tokio::time::advance(Duration::from_secs(200)).await;
        assert!(!poll.query.is_due());
        tokio::time::advance(Duration::from_secs(200)).await;
        assert!(poll.query.is_due());
        poll.apply(listed(&clock), &few);
        tokio::time::advance(Duration::from_secs(2)).await;
        poll.query.hasten();
        assert!(poll.query.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_old_only_if_several_answers_are_missing() {
        let clock = Clock::system();
        let after = |minutes: u64| clock.now().plus(Duration::from_secs(60 * minutes));
        let few = WatchedNodes::default();
        let mut poll = NodePoll::new(Duration::from_secs(30), false);
        poll.apply(listed(&clock), &few);
        assert!(!poll.is_old(after(60)), "the next answer is awaited");
        poll.apply(failed(), &few);
        assert!(!poll.is_old(after(10)));
        assert_eq!(poll.note(after(10), &NodeUse::default(), &few), None);
        assert!(poll.is_old(after(20)));
        assert!(
            poll.note(after(20), &NodeUse::default(), &few)
                .unwrap()
                .ends_with("partitions and states of nodes are old")
        );
        poll.apply(listed(&clock), &few);
        assert!(!poll.is_old(after(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_list_is_told_only_to_whom_it_matters() {
        let clock = Clock::system();
        let now = clock.now();
        let few = WatchedNodes::default();
        let mut poll = NodePoll::new(Duration::from_secs(30), false);
        assert!(poll.is_awaited());
        poll.apply(failed(), &few);
        assert_eq!(poll.note(now, &NodeUse::default(), &few), None);
        let mut all = WatchedNodes::default();
        all.has_all = true;
        let note = "sinfo is not on the PATH of this machine; only nodes of jobs are shown";
        assert_eq!(poll.note(now, &NodeUse::default(), &all).as_deref(), Some(note));
        assert!(!poll.is_awaited());
        let told = |is_truncated| {
            let told = NodeUse { at: Some(now), is_truncated, ..NodeUse::default() };
            poll.note(now, &told, &all)
        };
        assert_eq!(told(false), None, "scontrol lists all nodes");
        assert!(told(true).unwrap().ends_with("; some nodes are missing"));
        poll.apply(listed(&clock), &all);
        assert_eq!(poll.note(now, &NodeUse::default(), &all), None);
        poll.apply(failed(), &all);
        assert!(
            poll.note(now, &NodeUse::default(), &all)
                .unwrap()
                .ends_with("partitions and states of nodes are old")
        );
    }
}
