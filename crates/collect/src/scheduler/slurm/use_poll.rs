//! When it is queried which devices of nodes jobs have: once per list of jobs, and after it, so that all listed jobs count.

use std::time::Duration;

use tokio::time::Instant;

use super::error;
use super::node_use::{self, NodeUse};
use crate::scheduler::SchedulerError;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedAnswer, TimedResult};
use gtop_local::time::{Clock, Timestamp};

/// Without a newer list of jobs, the nodes are queried this many times less often.
const INTERVALS_WITHOUT_LIST: u32 = 2;
/// How long the first query waits for the first list of jobs.
const MAX_WAIT_FOR_LIST: Duration = Duration::from_secs(2);
/// A query that is due so soon is waited for as a running one is.
const NEAR: Duration = Duration::from_millis(500);

/// Why an answer that was cut is not believed.
const NOT_ALL_NODES: &str = "scontrol did not list all nodes";

/// The last answer, and the query for the next.
#[derive(Debug)]
pub(super) struct UsePoll {
    pub(super) last: NodeUse,
    pub(super) query: ScheduledQuery<Result<NodeUse, SchedulerError>>,
    interval: Duration,
    /// Somebody waits for the answer that follows the next list of jobs.
    is_refreshed: bool,
    /// Why the answer is missing or old.
    error: Option<SchedulerError>,
}

impl UsePoll {
    pub(super) fn new(interval: Duration) -> Self {
        let query = ScheduledQuery::due_in(MAX_WAIT_FOR_LIST);
        Self { last: NodeUse::default(), query, interval, is_refreshed: false, error: None }
    }

    /// Makes the query due, because there are newer jobs.
    pub(super) fn on_list(&mut self) {
        if std::mem::take(&mut self.is_refreshed) {
            self.query.hasten();
        } else if !self.query.has_failed() {
            self.query.request();
        }
    }

    /// Makes the query after the next list due at once.
    pub(super) fn refresh(&mut self) {
        self.is_refreshed = true;
    }

    /// Returns true if an answer is expected soon.
    pub(super) fn is_answer_near(&self) -> bool {
        let soon = Instant::now() + NEAR;
        self.query.next_due().is_none_or(|due| due <= soon && !self.query.has_failed())
    }

    /// Starts the query if one is due.
    pub(super) fn start(&mut self, clock: &Clock) {
        if self.query.is_due() {
            self.query.start(node_use::fetch(clock.clone()));
        }
    }

    /// Returns true until the first answer or failure.
    pub(super) fn is_awaited(&self) -> bool {
        self.last.at.is_none() && self.error.is_none()
    }

    /// Keeps the answer, or the last one if there is none.
    pub(super) fn apply(&mut self, answer: TimedResult<NodeUse>) {
        let interval = self.interval.saturating_mul(INTERVALS_WITHOUT_LIST);
        let value = match answer.value {
            // What is missing in it has not changed.
            Ok(node_use) if node_use.is_truncated && self.has_more_than(&node_use) => {
                Err(error::unexpected_output("scontrol", NOT_ALL_NODES))
            }
            value => value,
        };
        match self.query.schedule_next(TimedAnswer { value, ..answer }, interval, self.interval) {
            Ok(node_use) => (self.last, self.error) = (node_use, None),
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns true if the last answer has a node that this one lacks.
    fn has_more_than(&self, node_use: &NodeUse) -> bool {
        self.last.nodes.keys().any(|name| !node_use.nodes.contains_key(name))
    }

    /// Returns true if the last answer is so old that it may no longer be true.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        self.query.is_old(self.last.at, now)
    }

    /// Returns a note if what is known of the devices in use is missing, old or not complete.
    pub(super) fn note(&self, now: Timestamp) -> Option<String> {
        if self.last.is_truncated {
            return Some(format!("{NOT_ALL_NODES}; on some it is not known what jobs have"));
        }
        let error = self.error.as_ref()?;
        let what = match self.last.at {
            None => "not known",
            Some(_) if self.is_old(now) => "old",
            Some(_) => return None,
        };
        Some(format!("{}; what jobs have on nodes is {what}", error.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use gtop_model::NodeName;
    use gtop_model::SchedulerErrorKind;

    fn answer(
        value: Result<NodeUse, SchedulerError>,
    ) -> TimedAnswer<Result<NodeUse, SchedulerError>> {
        TimedAnswer { value, took: Duration::ZERO }
    }

    fn failed() -> TimedAnswer<Result<NodeUse, SchedulerError>> {
        let error = error::of_stderr("scontrol", "Unable to contact the controller");
        assert_eq!(error.kind, SchedulerErrorKind::ControllerDown);
        answer(Err(error))
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_are_queried_after_each_list_and_without_one_too() {
        let mut poll = UsePoll::new(Duration::from_secs(30));
        assert!(!poll.query.is_due(), "the first list comes first");
        poll.on_list();
        assert!(poll.query.is_due() && poll.is_awaited());
        poll.apply(answer(Ok(NodeUse::default())));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(!poll.query.is_due());
        poll.on_list();
        assert!(poll.query.is_due());
        poll.apply(answer(Ok(NodeUse::default())));
        tokio::time::advance(Duration::from_secs(70)).await;
        assert!(poll.query.is_due(), "squeue hangs");
        let late = UsePoll::new(Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(late.query.is_due(), "there is no list yet");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_the_last_answer_stays_with_its_age() {
        let clock = Clock::system();
        let now = clock.now();
        let mut poll = UsePoll::new(Duration::from_secs(30));
        poll.apply(answer(Ok(NodeUse { at: Some(now), ..NodeUse::default() })));
        poll.apply(failed());
        assert_eq!((poll.last.at, poll.is_awaited()), (Some(now), false));
        assert_eq!(poll.note(now), None);
        let later = now.plus(Duration::from_secs(600));
        assert!(poll.is_old(later));
        let note = "; what jobs have on nodes is old";
        assert!(poll.note(later).unwrap().ends_with(note));
        // A list does not make the next try come sooner.
        tokio::time::advance(Duration::from_secs(10)).await;
        poll.on_list();
        assert!(!poll.query.is_due() && !poll.is_answer_near());
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_answer_that_fails_is_told() {
        let mut poll = UsePoll::new(Duration::from_secs(30));
        let now = Clock::system().now();
        assert_eq!(poll.note(now), None, "the first answer is awaited");
        poll.apply(failed());
        let note = "; what jobs have on nodes is not known";
        assert!(poll.note(now).unwrap().ends_with(note));
        let quoted = "scontrol printed \"<html>\" instead of a list of nodes";
        poll.apply(answer(Err(error::unexpected_output("scontrol", quoted))));
        assert!(poll.note(now).unwrap().starts_with(quoted), "{:?}", poll.note(now));
        poll.apply(answer(Ok(NodeUse { at: Some(now), ..NodeUse::default() })));
        assert_eq!(poll.note(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_cut_changes_nothing_if_it_lacks_a_known_node() {
        let now = Clock::system().now();
        let answered = |names: &[&str], is_truncated| {
            let node = |name: &&str| (NodeName::new(name).unwrap(), Arc::default());
            let nodes = names.iter().map(node).collect();
            answer(Ok(NodeUse { nodes, at: Some(now), is_truncated }))
        };
        let mut poll = UsePoll::new(Duration::from_secs(30));
        let known = |poll: &UsePoll| (poll.last.nodes.len(), poll.last.is_truncated);
        poll.apply(answered(&["a"], true));
        assert_eq!(known(&poll), (1, true), "there is no better one");
        poll.apply(answered(&["a", "b", "c"], false));
        assert_eq!(known(&poll), (3, false));
        poll.apply(answered(&["a", "b"], true));
        assert_eq!((known(&poll), poll.note(now)), ((3, false), None));
        let later = now.plus(Duration::from_secs(600));
        assert!(poll.is_old(later));
        let note = "scontrol did not list all nodes; what jobs have on nodes is old";
        assert!(poll.note(later).unwrap().ends_with(note));
        // A node that a whole answer lacks is gone.
        poll.apply(answered(&["a", "b"], false));
        assert_eq!((known(&poll), poll.is_old(later)), ((2, false), false));
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_are_missing_are_told() {
        let mut poll = UsePoll::new(Duration::from_secs(30));
        let cut = NodeUse { is_truncated: true, ..NodeUse::default() };
        poll.apply(answer(Ok(cut)));
        assert!(poll.note(Clock::system().now()).unwrap().contains("did not list all nodes"));
    }
}
