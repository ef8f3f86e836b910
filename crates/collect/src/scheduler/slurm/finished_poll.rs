//! When `sacct` is asked for the jobs that have ended: rarely, and after one has left the queue. Its database serves the whole
//! site, so nothing waits for the answer, and a failure only means that these jobs are not known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::accounting::fetch_finished_jobs;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedResult};
use crate::scheduler::{JobFilter, SchedulerError};
use gtop_local::time::Timestamp;
use gtop_model::{FinishedJobs, Job, JobId};

/// Interval between two queries.
const INTERVAL: Duration = Duration::from_secs(300);
/// The same where jobs leave the queue.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// The last answer of `sacct`, and when the next query is due.
#[derive(Debug, Default)]
pub(super) struct FinishedPoll {
    /// False where nothing shows these jobs, as for one snapshot that is printed.
    pub(super) is_wanted: bool,
    last: FinishedJobs,
    answered_at: Option<Instant>,
    pub(super) query: ScheduledQuery<Result<FinishedJobs, SchedulerError>>,
}

impl FinishedPoll {
    /// Returns when the next query is due; `None` if there is none.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.query.next_due().filter(|_| self.is_wanted)
    }

    /// Starts the query if one is due.
    pub(super) fn start(&mut self, filter: &JobFilter) {
        if self.is_wanted && self.query.is_due() {
            let filter = filter.clone();
            self.query.start(async move { fetch_finished_jobs(&filter).await });
        }
    }

    /// Makes the query due after a job has left the queue.
    pub(super) fn on_departure(&mut self) {
        let earliest = self.answered_at.map(|at| at + MIN_INTERVAL);
        self.query.request_at(earliest.unwrap_or_else(Instant::now));
    }

    /// Takes an answer; keeps the last list if there is none.
    pub(super) fn apply(&mut self, answer: TimedResult<FinishedJobs>, now: Timestamp) {
        self.answered_at = Some(Instant::now());
        match self.query.schedule_next(answer, INTERVAL, INTERVAL) {
            Ok(finished) => self.last = FinishedJobs { at: Some(now), ..finished },
            Err(error) => self.last.error = Some(error.message.into()),
        }
    }

    /// Returns the jobs that have ended, without those that are still listed.
    pub(super) fn finished(&self, listed: &[Job]) -> Arc<FinishedJobs> {
        let mut finished = self.last.clone();
        let listed: BTreeSet<&JobId> = listed.iter().map(|job| &job.id).collect();
        finished.list.retain(|finished| !listed.contains(&finished.job.id));
        Arc::new(finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::scheduled_query::TimedAnswer;
    use gtop_local::time::Clock;
    use gtop_model::{FinishedJob, JobOutcome};

    fn answer() -> TimedResult<FinishedJobs> {
        let finished = |id: &str| FinishedJob {
            job: Job::example(id),
            outcome: JobOutcome::Completed,
            exit_code: Some(0),
            signal: None,
            cancelled_by: None,
            devices: None,
        };
        let list = ["1", "2"].map(finished).to_vec();
        let value = Ok(FinishedJobs { list, ..FinishedJobs::default() });
        TimedAnswer { value, took: Duration::ZERO }
    }

    #[tokio::test(start_paused = true)]
    async fn sacct_is_asked_every_five_minutes_and_at_most_once_a_minute_where_jobs_end() {
        let now = Clock::system().now();
        let mut poll = FinishedPoll { is_wanted: true, ..FinishedPoll::default() };
        poll.apply(answer(), now);
        tokio::time::advance(Duration::from_secs(240)).await;
        assert!(!poll.query.is_due());
        poll.on_departure();
        assert!(poll.query.is_due());
        poll.apply(answer(), now);
        for _ in 0..59 {
            poll.on_departure();
            assert!(!poll.query.is_due());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(poll.query.is_due());
        poll.is_wanted = false;
        assert_eq!(poll.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_still_listed_has_not_finished() {
        let mut poll = FinishedPoll::default();
        poll.apply(answer(), Clock::system().now());
        let left = poll.finished(&[Job::example("2")]);
        assert_eq!(left.list.iter().map(|one| one.job.id.as_str()).collect::<Vec<_>>(), ["1"]);
    }
}
