//! How jobs have ended, from `qstat -x`, which lists those that the server remembers.

use serde::Deserialize;

use super::jobs::JobsOutput;
use super::read_json;
use super::resources::Text;
use crate::scheduler::SchedulerError;
use crate::scheduler::list_poller::Outcomes;
use gtop_model::{JobId, JobOutcome};

/// What was killed for its run time or its processor time.
const LATE: [i64; 2] = [-29, -28];
/// What was killed for its memory, the virtual one too.
const TOO_LARGE: [i64; 2] = [-27, -26];
/// The substate of a job that somebody has ended.
const TERMINATED: &str = "91";

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndedJob {
    job_state: Text,
    substate: Text,
    #[serde(rename = "Exit_status")]
    exit_status: Option<Text>,
}

/// Parses the output.
pub(super) fn parse(output: &str) -> Result<Outcomes, SchedulerError> {
    let parsed: JobsOutput = read_json("qstat", output)?;
    let outcomes = parsed.jobs.into_iter().filter_map(|(id, json)| {
        let job = EndedJob::deserialize(json).ok()?;
        Some((JobId::new(&id)?, job.outcome()))
    });
    Ok(outcomes.collect())
}

impl EndedJob {
    fn outcome(&self) -> Option<JobOutcome> {
        if !matches!(&*self.job_state, "F" | "X" | "M") {
            return None;
        }
        let status: Option<i64> = self.exit_status.as_ref().and_then(|status| status.parse().ok());
        Some(match status {
            Some(status) if LATE.contains(&status) => JobOutcome::TimeLimit,
            Some(status) if TOO_LARGE.contains(&status) => JobOutcome::OutOfMemory,
            _ if &*self.substate == TERMINATED => JobOutcome::Cancelled,
            Some(0) => JobOutcome::Completed,
            Some(_) => JobOutcome::Failed,
            None => JobOutcome::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_and_the_exit_status_tell_how_a_job_ended() {
        for (job, outcome) in [
            (r#""job_state":"F","substate":92,"Exit_status":0"#, Some(JobOutcome::Completed)),
            (r#""job_state":"F","substate":93,"Exit_status":1"#, Some(JobOutcome::Failed)),
            (r#""job_state":"F","substate":93,"Exit_status":271"#, Some(JobOutcome::Failed)),
            (r#""job_state":"F","substate":91,"Exit_status":271"#, Some(JobOutcome::Cancelled)),
            (r#""job_state":"F","substate":91,"Exit_status":-29"#, Some(JobOutcome::TimeLimit)),
            (r#""job_state":"F","substate":93,"Exit_status":-27"#, Some(JobOutcome::OutOfMemory)),
            (r#""job_state":"X","Exit_status":0"#, Some(JobOutcome::Completed)),
            (r#""job_state":"M","substate":94"#, Some(JobOutcome::Unknown)),
            (r#""job_state":"R","substate":42"#, None),
            ("", None),
        ] {
            let output = format!(r#"{{"pbs_server":"s","Jobs":{{"1[2].s":{{{job}}}}}}}"#);
            let found = parse(&output).unwrap();
            assert_eq!(found[&JobId::new("1[2].s").unwrap()], outcome, "{job}");
        }
    }
}
