//! Jobs that have ended, as the accounting of a scheduler has them.

use std::sync::Arc;

use crate::job::{Job, JobOutcome};
use gtop_local::time::Timestamp;

/// A job that has ended. Texts are safe to show.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedJob {
    /// The job in its last state, with its end.
    pub job: Job,
    /// How it ended.
    pub outcome: JobOutcome,
    /// Exit code of its script; `None` if it is not known.
    pub exit_code: Option<u32>,
    /// Signal that ended its script; `None` without one.
    pub signal: Option<u32>,
    /// Who cancelled it.
    pub cancelled_by: Option<Arc<str>>,
    /// Number of its devices on all nodes; `None` if it is not known.
    pub devices: Option<u32>,
}

impl FinishedJob {
    /// Returns how it ended, such as `failed, exit 1`, `killed by signal 9` or `cancelled by root`.
    pub fn outcome_text(&self) -> String {
        let word = self.outcome.name();
        match (self.outcome, self.signal, self.exit_code) {
            (JobOutcome::Cancelled, ..) => match &self.cancelled_by {
                Some(user) => format!("{word} by {user}"),
                None => word.to_owned(),
            },
            (JobOutcome::Failed, Some(signal), _) => format!("killed by signal {signal}"),
            (JobOutcome::Failed, None, Some(code @ 1..)) => format!("{word}, exit {code}"),
            _ => word.to_owned(),
        }
    }
}

/// What accounting tells of the jobs that have ended in the last day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinishedJobs {
    /// The last end first.
    pub list: Vec<FinishedJob>,
    /// When it answered; `None` if it never has.
    pub at: Option<Timestamp>,
    /// Why there is no newer list.
    pub error: Option<Arc<str>>,
    /// There are more, which ended earlier.
    pub is_partial: bool,
}

impl FinishedJobs {
    /// Returns the job with this displayed id.
    pub fn job(&self, shown_id: &str) -> Option<&FinishedJob> {
        self.list.iter().find(|finished| *finished.job.shown_id == *shown_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_how_a_job_ended_as_far_as_that_is_known() {
        let text = |outcome, exit_code, signal, cancelled_by: Option<&str>| {
            let cancelled_by = cancelled_by.map(Into::into);
            let job = Job::example("7");
            FinishedJob { job, outcome, exit_code, signal, cancelled_by, devices: None }
                .outcome_text()
        };
        assert_eq!(text(JobOutcome::Completed, Some(0), None, None), "completed");
        assert_eq!(text(JobOutcome::Failed, Some(3), None, None), "failed, exit 3");
        assert_eq!(text(JobOutcome::Failed, Some(0), Some(9), None), "killed by signal 9");
        assert_eq!(text(JobOutcome::Failed, None, None, None), "failed");
        assert_eq!(text(JobOutcome::OutOfMemory, Some(0), Some(125), None), "out of memory");
        assert_eq!(text(JobOutcome::TimeLimit, Some(0), Some(15), None), "time limit");
        assert_eq!(text(JobOutcome::Cancelled, Some(0), None, Some("root")), "cancelled by root");
        assert_eq!(text(JobOutcome::Cancelled, Some(0), Some(15), None), "cancelled");
    }
}
