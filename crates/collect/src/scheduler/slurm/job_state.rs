//! Parses the states of jobs.

use gtop_model::{JobOutcome, JobState};

/// Returns the state with this word.
pub(super) fn job_state(word: &str) -> JobState {
    match word {
        "RUNNING" => JobState::Running,
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
        | "RESV_DEL_HOLD" | "EXPEDITING" => JobState::Pending,
        "CONFIGURING" | "POWER_UP_NODE" => JobState::Starting,
        "SUSPENDED" | "STOPPED" => JobState::Suspended,
        "COMPLETING" | "STAGE_OUT" | "SIGNALING" => JobState::Ending,
        _ => JobState::Other,
    }
}

/// Returns how a job in a state has ended; `None` while it has not.
pub fn outcome(word: &str) -> Option<JobOutcome> {
    // There may be more: `CANCELLED by 2001`.
    match word.split([' ', '+']).next()? {
        "COMPLETED" => Some(JobOutcome::Completed),
        "CANCELLED" | "REVOKED" => Some(JobOutcome::Cancelled),
        "TIMEOUT" => Some(JobOutcome::TimeLimit),
        "DEADLINE" => Some(JobOutcome::Deadline),
        "FAILED" | "BOOT_FAIL" | "LAUNCH_FAILED" => Some(JobOutcome::Failed),
        "NODE_FAIL" => Some(JobOutcome::NodeFailed),
        "OUT_OF_MEMORY" => Some(JobOutcome::OutOfMemory),
        "PREEMPTED" => Some(JobOutcome::Preempted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_maps_to_one_of_the_model() {
        for (words, state) in [
            (&["RUNNING"][..], JobState::Running),
            (
                &["PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"],
                JobState::Pending,
            ),
            (&["RESV_DEL_HOLD", "EXPEDITING"], JobState::Pending),
            (&["CONFIGURING", "POWER_UP_NODE"], JobState::Starting),
            (&["SUSPENDED", "STOPPED"], JobState::Suspended),
            (&["COMPLETING", "STAGE_OUT", "SIGNALING"], JobState::Ending),
            (&["RESIZING", ""], JobState::Other),
        ] {
            for word in words {
                assert_eq!(job_state(word), state, "{word}");
            }
        }
    }

    #[test]
    fn end_states_map_to_outcomes() {
        for (word, outcome) in [
            ("COMPLETED", Some(JobOutcome::Completed)),
            ("CANCELLED by 2001", Some(JobOutcome::Cancelled)),
            ("CANCELLED+", Some(JobOutcome::Cancelled)),
            ("REVOKED", Some(JobOutcome::Cancelled)),
            ("TIMEOUT", Some(JobOutcome::TimeLimit)),
            ("DEADLINE", Some(JobOutcome::Deadline)),
            ("FAILED", Some(JobOutcome::Failed)),
            ("BOOT_FAIL", Some(JobOutcome::Failed)),
            ("LAUNCH_FAILED", Some(JobOutcome::Failed)),
            ("NODE_FAIL", Some(JobOutcome::NodeFailed)),
            ("OUT_OF_MEMORY", Some(JobOutcome::OutOfMemory)),
            ("PREEMPTED", Some(JobOutcome::Preempted)),
            ("RUNNING", None),
            ("", None),
        ] {
            assert_eq!(super::outcome(word), outcome, "{word}");
        }
    }
}
