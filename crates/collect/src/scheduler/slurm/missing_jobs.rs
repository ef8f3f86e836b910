//! Explains why a job requested by id is not in the queue: it has ended, it is hidden from this user, or
//! it never existed.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::PROFILE;
use super::command::run_command;
use super::job_state::outcome;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedAnswer};
use gtop_local::text::sanitize;
use gtop_model::{Job, JobOutcome};

/// Maximum number of missing jobs that are explained.
const MAX_EXPLAINED: usize = 8;

/// The jobs requested by id that are not in the queue, and why.
#[derive(Debug, Default)]
pub(super) struct MissingJobs {
    missing: Vec<String>,
    /// By job.
    reasons: BTreeMap<String, MissingReason>,
    pub(super) query: ScheduledQuery<BTreeMap<String, MissingReason>>,
}

impl MissingJobs {
    /// Takes the list of jobs and those that were requested.
    pub(super) fn set_missing(&mut self, wanted: &[String], list: &[Job]) {
        self.missing = find_missing(wanted, list).into_iter().map(str::to_owned).collect();
        // Reasons that may change are queried again.
        self.reasons.retain(|job, known| known.is_final && self.missing.contains(job));
    }

    /// Returns the jobs without a reason.
    fn unexplained(&self) -> impl Iterator<Item = &String> {
        self.missing.iter().filter(|job| !self.reasons.contains_key(*job))
    }

    /// Returns true if a reason is not known yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.query.is_running() || self.unexplained().next().is_some()
    }

    /// Returns when reasons may be queried; `None` if all are known.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.unexplained().next().and_then(|_| self.query.next_due())
    }

    /// Starts the query if reasons are to be found.
    pub(super) fn start(&mut self) {
        if self.query.is_due() && self.unexplained().next().is_some() {
            let jobs: Vec<String> = self.unexplained().cloned().collect();
            self.query.start(async move {
                let mut reasons = BTreeMap::new();
                for job in jobs {
                    let reason = explain(&job).await;
                    reasons.insert(job, reason);
                }
                reasons
            });
        }
    }

    pub(super) fn apply(&mut self, answer: TimedAnswer<BTreeMap<String, MissingReason>>) {
        self.query.on_success(Duration::ZERO, answer.took);
        self.reasons.extend(answer.value);
        self.reasons.retain(|job, _| self.missing.contains(job));
    }

    /// Returns a sentence for each job.
    pub(super) fn reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.values().map(|known| known.text.as_str())
    }
}

/// Returns the requested jobs that are not in the list, as they were written.
fn find_missing<'a>(wanted: &'a [String], list: &[Job]) -> Vec<&'a str> {
    let missing = wanted.iter().map(String::as_str).filter(|wanted| {
        // squeue takes the first component of a job that has none for the job.
        let whole = wanted.strip_suffix("+0").unwrap_or(wanted);
        !list.iter().any(|job| is_meant(job, wanted) || is_meant(job, whole))
    });
    missing.take(MAX_EXPLAINED).collect()
}

/// Returns true if a listed job, or one that it is a part of, has this id.
fn is_meant(job: &Job, wanted: &str) -> bool {
    // The id of an array matches its tasks, that of a heterogeneous job its components.
    let rest = job.shown_id.strip_prefix(wanted);
    job.id.as_str() == wanted
        || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '+']))
        // Pending tasks share one entry, such as `2_[3-5]`.
        || job.lists_task(wanted) != Some(false)
}

/// A sentence about a job that is not in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingReason {
    pub(super) text: String,
    /// It stays true.
    pub(super) is_final: bool,
}

impl MissingReason {
    fn ended(shown: &str, outcome: JobOutcome) -> Self {
        Self { text: format!("job {shown} {}", outcome.text()), is_final: true }
    }
}

/// Returns a sentence about a job that is not in the queue.
async fn explain(wanted: &str) -> MissingReason {
    let shown = sanitize(wanted, 40);
    let Some(number) = base_number(wanted) else {
        return MissingReason { text: format!("job {shown} is not in the queue"), is_final: true };
    };
    match fate_from_scontrol(wanted).await {
        Some(JobFate::Listed(words)) => {
            let text = format!("job {shown} {words}; the other options exclude it");
            MissingReason { text, is_final: false }
        }
        Some(JobFate::Ended(outcome)) => MissingReason::ended(&shown, outcome),
        None => explain_unknown(wanted, &shown, number).await,
    }
}

/// Asks the controller for the job of which a task or component was requested that is not there.
async fn explain_part(wanted: &str) -> Option<String> {
    let (base, _) = wanted.split_once(['_', '+'])?;
    let answer = run_command("scontrol", &["show", "job", base], "").await.ok()?;
    missing_part(&Some(answer).filter(|answer| answer.succeeded)?.stdout, wanted)
}

/// Returns a sentence about a task or component that a listed job does not have, given the job's records. One that has ended
/// may be gone from them.
fn missing_part(records: &str, wanted: &str) -> Option<String> {
    let Some(JobFate::Listed(words)) = fate_of_records(records) else { return None };
    let (base, part) = wanted.split_once(['_', '+'])?;
    let (base, part) = (sanitize(base, 40), sanitize(part, 40));
    let header = records.lines().next().unwrap_or_default();
    let (is_task, is_array) = (wanted.contains('_'), header.contains(" ArrayJobId="));
    let is_heterogeneous = header.contains(" HetJobId=");
    Some(match (is_task, is_array, is_heterogeneous) {
        (true, true, _) => {
            format!("job array {base} {words}; it has no task {part} that runs or waits")
        }
        (true, false, _) => {
            format!("job {base} {words}; it is not an array, and has no task {part}")
        }
        (false, _, true) => {
            format!(
                "heterogeneous job {base} {words}; it has no component {part} that runs or waits"
            )
        }
        (false, _, false) => {
            format!("job {base} {words}; it is not heterogeneous, and has no component {part}")
        }
    })
}

/// Returns a sentence about a job that the controller does not know.
async fn explain_unknown(wanted: &str, shown: &str, number: u64) -> MissingReason {
    if let Some(outcome) = outcome_from_sacct(wanted).await {
        return MissingReason::ended(shown, outcome);
    }
    if let Some(text) = explain_part(wanted).await {
        return MissingReason { text, is_final: false };
    }
    let config = run_command("scontrol", &["show", "config"], "").await;
    let config = config.map(|answer| answer.stdout).unwrap_or_default();
    let next = config_value(&config, "NEXT_JOB_ID").and_then(|next| next.parse::<u64>().ok());
    let text = match next {
        Some(next) if next <= number => {
            format!("job {shown} never existed: the next id is {next}")
        }
        _ if is_job_list_private(&config) == Some(true) => format!(
            "job {shown} is not in the queue: it has ended, or PrivateData=jobs hides it from you"
        ),
        Some(_) => format!("job {shown} has ended; {} no longer knows how", PROFILE.words.name),
        None => format!("job {shown} is not in the queue: it has ended, or it never existed"),
    };
    MissingReason { text, is_final: true }
}

/// Returns the numeric id of an array or a heterogeneous job.
fn base_number(id: &str) -> Option<u64> {
    id.split(['_', '+', '[']).next()?.parse().ok()
}

/// The state of a job that the filter does not find.
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
        let [state, user, partition] = ["JobState=", "UserId=", "Partition="]
            .map(|key| record.split([' ', '\n']).find_map(|word| word.strip_prefix(key)));
        let Some(state) = state else { continue };
        if let Some(outcome) = outcome(state) {
            fate = fate.or(Some(JobFate::Ended(outcome)));
            continue;
        }
        let state = sanitize(state, 40).to_ascii_lowercase();
        let partition = sanitize(partition.unwrap_or_default(), 40);
        let user = sanitize(user.unwrap_or_default(), 40);
        let user = user.split('(').next().unwrap_or_default();
        let words = format!("is {state} in partition {partition}, of {user}");
        return Some(JobFate::Listed(words));
    }
    fate
}

/// Asks the accounting database, which keeps jobs for longer.
async fn outcome_from_sacct(wanted: &str) -> Option<JobOutcome> {
    let jobs = format!("--jobs={wanted}");
    let words = ["--noheader", "--parsable2", "--allocations", "--format=State", &jobs];
    let answer = run_command("sacct", &words, "").await.ok().filter(|answer| answer.succeeded)?;
    outcome(answer.stdout.lines().next()?)
}

/// Runs `scontrol show config` for whether it hides jobs of others from this user; `None` if it does not say.
pub async fn fetch_hides_jobs() -> Option<bool> {
    let answer = run_command("scontrol", &["show", "config"], "").await.ok()?;
    is_job_list_private(&answer.stdout)
}

/// Returns true if the output of `scontrol show config` says that users see only their own jobs; `None` if it
/// does not say.
pub(super) fn is_job_list_private(config: &str) -> Option<bool> {
    let kinds = config_value(config, "PrivateData")?;
    Some(kinds.split(',').any(|kind| kind.trim() == "jobs"))
}

/// Returns whether jobs of others are hidden from a user, given by name and id, if users see only their own jobs; `None` if
/// it is not known which he sees.
pub(super) fn hides_jobs(
    is_private: Option<bool>,
    user: &str,
    uid: &str,
    jobs: &[Job],
) -> Option<bool> {
    match is_private {
        _ if uid == "0" => Some(false),
        // An operator sees all of them, the coordinator of an account those of the account.
        Some(true) if jobs.iter().any(|job| ![user, uid].contains(&&*job.user)) => None,
        known => known,
    }
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
    fn a_part_that_a_job_does_not_have_is_not_called_ended() {
        let record = |header: &str, state: &str| {
            format!(
                "JobId={header} JobName=x\n   UserId=bob(2002) GroupId=bob(2002) MCS_label=N/A\n   \
                 JobState={state} Reason=None Dependency=(null)\n   Partition=gpu AllocNode:Sid=login:9\n\n"
            )
        };
        let part = |header: &str, wanted: &str| missing_part(&record(header, "RUNNING"), wanted);
        let text = |words: &str| Some(words.to_owned());
        let array = "11 ArrayJobId=5 ArrayTaskId=0";
        assert_eq!(
            part(array, "5_20"),
            text(
                "job array 5 is running in partition gpu, of bob; it has no task 20 that runs or waits"
            )
        );
        assert_eq!(
            part("4", "4_1"),
            text(
                "job 4 is running in partition gpu, of bob; it is not an array, and has no task 1"
            )
        );
        assert_eq!(
            part("6 HetJobId=6 HetJobOffset=0", "6+5"),
            text(
                "heterogeneous job 6 is running in partition gpu, of bob; it has no component 5 that runs or waits"
            )
        );
        assert_eq!(
            part("4", "4+0"),
            text(
                "job 4 is running in partition gpu, of bob; it is not heterogeneous, and has no component 0"
            )
        );
        assert_eq!(missing_part(&record("4", "COMPLETED"), "4_1"), None);
        assert_eq!(part("4", "4"), None);
    }

    #[test]
    fn jobs_of_others_are_hidden_from_users_without_rights() {
        let config = |kinds: &str| format!("Prolog   = x\nPrivateData             = {kinds}\n");
        let hides = |kinds: &str, uid: &str, owners: &[&str]| {
            let job = |owner: &&str| Job { user: (*owner).into(), ..Job::example("7") };
            let jobs: Vec<Job> = owners.iter().map(job).collect();
            hides_jobs(is_job_list_private(&config(kinds)), "alice", uid, &jobs)
        };
        assert_eq!(hides("none", "2001", &["alice", "bob"]), Some(false));
        assert_eq!(hides("accounts,jobs", "2001", &["alice", "2001"]), Some(true));
        assert_eq!(hides("jobs", "2001", &[]), Some(true));
        assert_eq!(hides("jobs", "0", &["alice"]), Some(false));
        assert_eq!(hides("jobs", "2001", &["alice", "bob"]), None);
        assert_eq!(hides_jobs(is_job_list_private("news of the day"), "alice", "2001", &[]), None);
    }

    #[test]
    fn a_job_is_missing_if_neither_it_nor_a_part_of_it_is_listed() {
        let list = ["7", "2_0", "2_[3-5%3]", "12+0", "12+1"]
            .map(|shown| Job { shown_id: shown.into(), ..Job::example("99") });
        for (wanted, is_missing) in [
            ("7", false),
            ("7+0", false),
            ("2+0", false),
            ("7+1", true),
            ("99", false),
            ("2", false),
            ("2_4", false),
            ("2_6", true),
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
