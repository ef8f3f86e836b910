//! Explains why a job requested by id is not in the queue: it has ended, it is hidden from this user, or
//! it never existed.

use crate::inventory::slurm::command::run_command;
use crate::model::{Job, JobOutcome};
use crate::text::sanitize;

/// Maximum number of missing jobs that are explained.
const MAX_EXPLAINED: usize = 8;

/// Returns the requested jobs that are not in the list, as they were written.
pub(super) fn find_missing<'a>(wanted: &'a [String], list: &[Job]) -> Vec<&'a str> {
    let is_there = |wanted: &str| {
        list.iter().any(|job| {
            let shown = &*job.shown_id;
            // The id of an array matches its tasks, that of a heterogeneous job its components.
            let rest = shown.strip_prefix(wanted);
            job.id.as_str() == wanted || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '+']))
                // Pending tasks share one entry, such as `2_[3-5]`.
                || (wanted.contains('_') && shown.contains('[') && base_number(shown) == base_number(wanted))
        })
    };
    wanted
        .iter()
        .map(String::as_str)
        .filter(|wanted| !is_there(wanted))
        .take(MAX_EXPLAINED)
        .collect()
}

/// A sentence about a job that is not in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Explanation {
    pub(super) text: String,
    /// It stays true.
    pub(super) is_final: bool,
}

/// Returns a sentence about a job that is not in the queue.
pub(super) async fn explain(wanted: &str) -> Explanation {
    let shown = sanitize(wanted, 40);
    let ended = |text| Explanation { text, is_final: true };
    let Some(number) = base_number(wanted) else {
        return ended(format!("job {shown} is not in the queue"));
    };
    match fate_from_scontrol(wanted).await {
        Some(JobFate::Listed(words)) => {
            let text = format!("job {shown} {words}; the other options leave it out");
            Explanation { text, is_final: false }
        }
        Some(JobFate::Ended(outcome)) => ended(format!("job {shown} {}", outcome.text())),
        None => ended(explain_unknown(wanted, &shown, number).await),
    }
}

/// Returns a sentence about a job that the controller does not know.
async fn explain_unknown(wanted: &str, shown: &str, number: u64) -> String {
    if let Some(outcome) = outcome_from_sacct(wanted).await {
        return format!("job {shown} {}", outcome.text());
    }
    let config = run_command("scontrol", &["show", "config"], "").await;
    let config = config.map(|answer| answer.stdout).unwrap_or_default();
    let next = config_value(&config, "NEXT_JOB_ID").and_then(|next| next.parse::<u64>().ok());
    match next {
        Some(next) if next <= number => {
            format!("job {shown} never existed: the next id is {next}")
        }
        _ if is_job_list_private(&config) == Some(true) => format!(
            "job {shown} is not in the queue: it has ended, or PrivateData=jobs hides it from you"
        ),
        Some(_) => format!("job {shown} has ended; Slurm no longer knows how"),
        None => format!("job {shown} is not in the queue: it has ended, or it never existed"),
    }
}

/// Returns the numeric id of an array or a heterogeneous job.
fn base_number(id: &str) -> Option<u64> {
    id.split(['_', '+', '[']).next()?.parse().ok()
}

/// What the controller says of a job that the filter does not find.
#[derive(Debug, PartialEq, Eq)]
enum JobFate {
    /// It runs or waits, as these words say.
    Listed(String),
    Ended(JobOutcome),
}

/// Asks the controller, which keeps jobs for some minutes after their end.
async fn fate_from_scontrol(wanted: &str) -> Option<JobFate> {
    let answer = run_command("scontrol", &["show", "job", wanted], "").await.ok();
    fate_of_records(&answer.filter(|answer| answer.succeeded)?.stdout)
}

/// Returns the fate of a job, given by the records of its parts: it has ended if each of them has.
fn fate_of_records(output: &str) -> Option<JobFate> {
    let mut fate = None;
    for record in output.split("JobId=").skip(1) {
        let value = |key: &str| {
            record.lines().find_map(|line| line.split(' ').find_map(|word| word.strip_prefix(key)))
        };
        let Some(state) = value("JobState=") else { continue };
        if let Some(outcome) = JobOutcome::from_slurm(state) {
            fate = fate.or(Some(JobFate::Ended(outcome)));
            continue;
        }
        let text = |key: &str| sanitize(value(key).unwrap_or_default(), 40);
        let user = text("UserId=");
        let user = user.split('(').next().unwrap_or_default();
        let state = sanitize(state, 40).to_ascii_lowercase();
        let words = format!("is {state} in partition {}, of {user}", text("Partition="));
        return Some(JobFate::Listed(words));
    }
    fate
}

/// Asks the accounting database, which keeps jobs for longer.
async fn outcome_from_sacct(wanted: &str) -> Option<JobOutcome> {
    let jobs = format!("--jobs={wanted}");
    let words = ["--noheader", "--parsable2", "--allocations", "--format=State", &jobs];
    let answer = run_command("sacct", &words, "").await.ok().filter(|answer| answer.succeeded)?;
    JobOutcome::from_slurm(answer.stdout.lines().next()?)
}

/// Returns true if the output of `scontrol show config` says that users see only their own jobs; `None` if it
/// does not say.
pub fn is_job_list_private(config: &str) -> Option<bool> {
    let kinds = config_value(config, "PrivateData")?;
    Some(kinds.split(',').any(|kind| kind.trim() == "jobs"))
}

/// Returns the value of a key in the output of `scontrol show config`.
fn config_value<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_another_option_leaves_out_has_not_ended() {
        let record = |id: &str, state: &str| {
            format!(
                "JobId={id} JobName=x\n   UserId=bob(2002) GroupId=bob(2002) MCS_label=N/A\n   \
                 JobState={state} Reason=None Dependency=(null)\n   Partition=gpu AllocNode:Sid=login:9\n\n"
            )
        };
        let listed = |words: &str| Some(JobFate::Listed(words.to_owned()));
        let fate = |records: &[(&str, &str)]| {
            fate_of_records(
                &records.iter().map(|(id, state)| record(id, state)).collect::<String>(),
            )
        };
        assert_eq!(fate(&[("12", "RUNNING")]), listed("is running in partition gpu, of bob"));
        assert_eq!(fate(&[("12", "PENDING")]), listed("is pending in partition gpu, of bob"));
        assert_eq!(fate(&[("12", "CANCELLED")]), Some(JobFate::Ended(JobOutcome::Cancelled)));
        // Tasks of one array.
        let both = fate(&[("12", "COMPLETED"), ("13", "SUSPENDED")]);
        assert_eq!(both, listed("is suspended in partition gpu, of bob"));
        assert_eq!(fate(&[]), None);
    }

    #[test]
    fn a_job_is_missing_if_neither_it_nor_a_part_of_it_is_listed() {
        let list = ["7", "2_0", "2_[3-5%3]", "12+0", "12+1"]
            .map(|shown| Job { shown_id: shown.into(), ..Job::example("99") });
        for (wanted, is_missing) in [
            ("7", false),
            ("99", false),
            ("2", false),
            ("2_4", false),
            ("12", false),
            ("12+1", false),
            ("1", true),
            ("12+2", true),
            ("3_1", true),
            ("70", true),
        ] {
            let wanted = [wanted.to_owned()];
            assert_eq!(!find_missing(&wanted, &list).is_empty(), is_missing, "{wanted:?}");
        }
    }
}
