//! When the nodes of the cluster are listed: rarely, because their partitions and states seldom change.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::inventory::slurm::SlurmError;
use crate::inventory::slurm::node_list::{self, NodeList};
use crate::inventory::slurm::poll::{WAIT_PER_QUERY_TIME, next_wait, random_byte};
use crate::time::Clock;

/// Nodes are listed this many times less often than jobs.
const JOB_LISTS_PER_NODE_LIST: u32 = 10;
/// The same if nodes are watched of which nothing but this list may be known.
const JOB_LISTS_PER_FULL_NODE_LIST: u32 = 2;

/// The last list of nodes, and when the next one is due.
#[derive(Debug)]
pub(super) struct NodePoll {
    pub(super) list: NodeList,
    /// All nodes of the partitions are watched, also those without a listed job.
    pub(super) has_all_nodes: bool,
    interval: Duration,
    due: Instant,
    failures: u32,
    /// Why the list is missing or old.
    error: Option<SlurmError>,
}

/// A list, and how long it took.
#[derive(Debug)]
pub(super) struct NodeAnswer {
    list: Result<NodeList, SlurmError>,
    took: Duration,
}

/// A running query.
pub(super) type NodeQuery = Pin<Box<dyn Future<Output = NodeAnswer> + Send>>;

/// Waits for the running query; for ever if there is none.
pub(super) async fn await_nodes(query: &mut Option<NodeQuery>) -> NodeAnswer {
    match query {
        Some(query) => query.await,
        None => std::future::pending().await,
    }
}

impl NodePoll {
    /// Returns a poll for lists of jobs in this interval.
    pub(super) fn new(job_interval: Duration) -> Self {
        Self {
            list: NodeList::default(),
            has_all_nodes: false,
            interval: job_interval,
            due: Instant::now(),
            failures: 0,
            error: None,
        }
    }

    /// Returns the query if one is due; `is_refreshed` makes it due.
    pub(super) fn next_query(&mut self, is_refreshed: bool, clock: &Clock) -> Option<NodeQuery> {
        if !is_refreshed && Instant::now() < self.due {
            return None;
        }
        let (with_use, now) = (self.has_all_nodes, clock.now());
        Some(Box::pin(async move {
            let began = Instant::now();
            let list = node_list::fetch(with_use, now).await;
            NodeAnswer { list, took: began.elapsed() }
        }))
    }

    /// Returns true if nothing can be watched before the first list.
    pub(super) fn is_awaited(&self) -> bool {
        self.has_all_nodes && self.list.at.is_none() && self.error.is_none()
    }

    /// Keeps the list, or the last one if there is none.
    pub(super) fn apply(&mut self, answer: NodeAnswer) {
        let every =
            if self.has_all_nodes { JOB_LISTS_PER_FULL_NODE_LIST } else { JOB_LISTS_PER_NODE_LIST };
        match answer.list {
            Ok(list) => {
                (self.list, self.failures, self.error) = (list, 0, None);
            }
            Err(error) => {
                log::info!("slurm: nodes: {}", error.message);
                self.failures = self.failures.saturating_add(1);
                self.error = Some(error);
            }
        }
        let interval = self.interval.saturating_mul(every);
        let took = answer.took.saturating_mul(WAIT_PER_QUERY_TIME);
        self.due = Instant::now() + next_wait(interval, took, self.failures, random_byte());
    }

    /// Returns a note if nodes without a job are wanted and cannot be listed.
    pub(super) fn note(&self) -> Option<String> {
        let error = self.error.as_ref().filter(|_| self.has_all_nodes)?;
        let what = match self.list.at {
            Some(_) => "partitions and states of nodes are old",
            None => "only nodes of jobs are shown",
        };
        Some(format!("{}; {what}", error.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::slurm::SlurmErrorKind;

    fn failed() -> NodeAnswer {
        let error = SlurmError {
            kind: SlurmErrorKind::NotInstalled,
            message: "sinfo is not on the PATH of this machine".into(),
            remedy: "",
        };
        NodeAnswer { list: Err(error), took: Duration::ZERO }
    }

    fn listed(clock: &Clock) -> NodeAnswer {
        let list = NodeList { at: Some(clock.now()), ..NodeList::default() };
        NodeAnswer { list: Ok(list), took: Duration::ZERO }
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_are_listed_rarely_and_when_somebody_asks() {
        let clock = Clock::system();
        let mut poll = NodePoll::new(Duration::from_secs(30));
        assert!(poll.next_query(false, &clock).is_some());
        poll.apply(listed(&clock));
        tokio::time::advance(Duration::from_secs(200)).await;
        assert!(poll.next_query(false, &clock).is_none());
        assert!(poll.next_query(true, &clock).is_some());
        tokio::time::advance(Duration::from_secs(200)).await;
        assert!(poll.next_query(false, &clock).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_list_is_told_only_to_whom_it_matters() {
        let clock = Clock::system();
        let mut poll = NodePoll::new(Duration::from_secs(30));
        poll.apply(failed());
        assert_eq!(poll.note(), None);
        poll.has_all_nodes = true;
        let note = "sinfo is not on the PATH of this machine; only nodes of jobs are shown";
        assert_eq!(poll.note().as_deref(), Some(note));
        assert!(!poll.is_awaited());
        poll.apply(listed(&clock));
        assert_eq!(poll.note(), None);
        poll.apply(failed());
        assert!(poll.note().unwrap().ends_with("partitions and states of nodes are old"));
    }
}
