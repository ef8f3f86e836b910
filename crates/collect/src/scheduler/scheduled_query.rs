//! A query of a scheduler: a task of its own, of which one runs at a time, with its own deadline and schedule.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scheduler::SchedulerError;
use crate::scheduler::wait::{WAIT_PER_QUERY_TIME, next_wait, random_byte};
use gtop_local::time::Timestamp;

/// Minimum pause between two queries, however often a refresh is requested; at least as long as the last query took.
const MIN_QUERY_GAP: Duration = Duration::from_secs(1);

/// After this many usual waits without an answer, the last one may no longer be true.
const WAITS_UNTIL_OLD: u32 = 3;

/// The running query, if any, and when the next one is due.
#[derive(Debug)]
pub(super) struct ScheduledQuery<T> {
    task: JoinSet<TimedAnswer<T>>,
    due: Instant,
    /// The load of the controller allows the next query then.
    ready_at: Instant,
    /// No query before this instant, even if a refresh is requested.
    not_before: Instant,
    failures: u32,
    /// The wait after the last query that succeeded.
    usual_wait: Duration,
}

/// A query that is due.
impl<T: Send + 'static> Default for ScheduledQuery<T> {
    fn default() -> Self {
        Self::due_in(Duration::ZERO)
    }
}

/// An answer, and how long it took.
#[derive(Debug)]
pub(super) struct TimedAnswer<T> {
    pub(super) value: T,
    pub(super) took: Duration,
}

/// An answer, or why there is none.
pub(super) type TimedResult<T> = TimedAnswer<Result<T, SchedulerError>>;

impl<T: Send + 'static> ScheduledQuery<Result<T, SchedulerError>> {
    /// Schedules the query after the next one: in `interval`, or in `retry` if there was no answer. Returns the answer.
    pub(super) fn schedule_next(
        &mut self,
        answer: TimedResult<T>,
        interval: Duration,
        retry: Duration,
    ) -> Result<T, SchedulerError> {
        match &answer.value {
            Ok(_) => self.on_success(interval, answer.took),
            Err(error) => {
                log::info!("scheduler: {}", error.message);
                self.on_failure(retry, answer.took);
            }
        }
        answer.value
    }
}

impl<T: Send + 'static> ScheduledQuery<T> {
    /// Returns a query that is due after a time, or before on request.
    pub(super) fn due_in(wait: Duration) -> Self {
        let now = Instant::now();
        Self {
            task: JoinSet::new(),
            due: now + wait,
            ready_at: now,
            not_before: now,
            failures: 0,
            usual_wait: Duration::ZERO,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        !self.task.is_empty()
    }

    /// Returns true if a query may start now.
    pub(super) fn is_due(&self) -> bool {
        self.next_due().is_some_and(|due| Instant::now() >= due)
    }

    /// Returns when the next query may start; `None` while one runs.
    pub(super) fn next_due(&self) -> Option<Instant> {
        (!self.is_running()).then_some(self.due.max(self.not_before))
    }

    /// Returns true if the last query failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Returns true if the last query failed, and the last answer is so old that it may no longer be true.
    pub(super) fn is_old(&self, answered_at: Option<Timestamp>, now: Timestamp) -> bool {
        let limit = self.usual_wait.saturating_mul(WAITS_UNTIL_OLD);
        self.has_failed() && answered_at.is_some_and(|at| now.since(at) > limit)
    }

    /// Makes it due as soon as the load of the controller allows.
    pub(super) fn request(&mut self) {
        self.request_at(self.ready_at);
    }

    /// Makes it due at this instant, or later if the load of the controller allows it only then.
    pub(super) fn request_at(&mut self, at: Instant) {
        self.due = self.due.min(self.ready_at.max(at));
    }

    /// Makes it due at once: the user waits for the answer.
    pub(super) fn hasten(&mut self) {
        self.due = Instant::now();
    }

    /// Starts the query; there must be none.
    pub(super) fn start(&mut self, query: impl Future<Output = T> + Send + 'static) {
        self.task.spawn(async move {
            let began = Instant::now();
            let value = query.await;
            TimedAnswer { value, took: began.elapsed() }
        });
    }

    /// Waits for the running query; forever if there is none.
    pub(super) async fn answer(&mut self) -> TimedAnswer<T> {
        match self.task.join_next().await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Schedules the next query after one that succeeded.
    pub(super) fn on_success(&mut self, interval: Duration, took: Duration) {
        self.failures = 0;
        self.schedule(interval, took);
        self.usual_wait = self.due.saturating_duration_since(Instant::now());
    }

    /// Schedules the next query after one that failed.
    pub(super) fn on_failure(&mut self, interval: Duration, took: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.schedule(interval, took);
    }

    fn schedule(&mut self, interval: Duration, took: Duration) {
        let now = Instant::now();
        self.due = now + next_wait(interval, took, self.failures, random_byte());
        self.ready_at = now + took.saturating_mul(WAIT_PER_QUERY_TIME);
        self.not_before = now + took.max(MIN_QUERY_GAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn one_query_runs_at_a_time_and_the_next_waits_for_its_interval() {
        let mut query = ScheduledQuery::default();
        assert!(query.is_due() && !query.is_running());
        query.start(async { 7 });
        assert!(query.is_running() && !query.is_due());
        let answer = query.answer().await;
        assert_eq!(answer.value, 7);
        query.on_success(INTERVAL, Duration::from_secs(6));
        assert!(!query.is_due(), "ten times as long as it took");
        tokio::time::advance(Duration::from_secs(40)).await;
        assert!(!query.is_due());
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(query.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn a_newer_list_waits_for_the_controller_and_a_refresh_as_long_as_the_last_query_took() {
        let mut query = ScheduledQuery::<()>::default();
        query.on_success(INTERVAL, Duration::from_secs(6));
        query.request();
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(!query.is_due());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(query.is_due());
        query.on_success(INTERVAL, Duration::from_secs(6));
        query.hasten();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!query.is_due());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(query.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_with_failures() {
        let mut query = ScheduledQuery::<()>::default();
        for _ in 0..3 {
            query.on_failure(INTERVAL, Duration::ZERO);
        }
        assert!(query.has_failed());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(!query.is_due());
        query.on_success(INTERVAL, Duration::ZERO);
        assert!(!query.has_failed() && query.usual_wait < INTERVAL * 2);
    }
}
