//! The arguments of `sacct` for the jobs that have ended in the last day, and the parser of its output.
//!
//! A job's name may contain anything, also lines that look like jobs. So a random delimiter separates the fields, and the
//! name is the last one: it ends with the last line end before the next delimiter.

use std::cmp::Reverse;
use std::time::Duration;

use super::command::{random_boundary, run_command};
use super::error;
use super::gres::{allocated_cpus, allocated_devices, allocated_memory};
use super::job_state::outcome;
use super::queue::{self, non_empty, parse_nodelist, text};
use super::time_format::parse_time;
use crate::scheduler::user_name::user_name;
use crate::scheduler::{JobFilter, SchedulerError};
use gtop_model::{Allocation, DeviceAllocation, FinishedJob, FinishedJobs, Job, JobId, JobState};

/// Maximum number of jobs that are kept; those that ended first are dropped.
const MAX_FINISHED_JOBS: usize = 1_000;
/// The states in which jobs have ended, by the short names that all versions know.
const END_STATES: &str = "--state=BF,CA,CD,DL,F,NF,OOM,PR,RV,TO";
/// The fields in order; the name is last.
const FIELDS: [&str; 17] = [
    "JobIDRaw",
    "JobID",
    "User",
    "Partition",
    "Account",
    "State",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "ExitCode",
    "AllocTRES",
    "NNodes",
    "NodeList",
    "Reservation",
    "JobName",
];

/// Runs `sacct` for the jobs of a filter.
pub(super) async fn fetch_finished_jobs(
    filter: &JobFilter,
) -> Result<FinishedJobs, SchedulerError> {
    let delimiter = format!("{}{}", queue::FIELD_SEPARATOR, random_boundary());
    let answer = run_command("sacct", &arguments(filter, &delimiter), "").await?;
    if !answer.succeeded {
        return Err(error::of_stderr("sacct", &answer.stderr));
    }
    let Some(mut list) = parse(&answer.stdout, &delimiter, &filter.reservations) else {
        let message = queue::unexpected_output("sacct", "list of jobs", &answer.stdout);
        return Err(error::unexpected_output("sacct", &message));
    };
    let is_partial = answer.is_truncated || list.len() > MAX_FINISHED_JOBS;
    list.truncate(MAX_FINISHED_JOBS);
    for finished in &mut list {
        finished.cancelled_by = finished.cancelled_by.take().map(|user| text(&user_name(&user)));
    }
    Ok(FinishedJobs { list, at: None, error: None, is_partial })
}

fn arguments(filter: &JobFilter, delimiter: &str) -> Vec<String> {
    let fixed =
        ["--allocations", "--parsable2", "--starttime=now-1days", "--endtime=now", END_STATES];
    let mut words = fixed.map(str::to_owned).to_vec();
    words.push(format!("--delimiter={delimiter}"));
    words.push(format!("--format={}", FIELDS.join(",")));
    if filter.users.is_empty() {
        words.push("--allusers".to_owned());
    }
    let lists = [
        ("--user", &filter.users),
        ("--jobs", &filter.jobs),
        ("--partition", &filter.partitions),
        ("--accounts", &filter.accounts),
        ("--nodelist", &filter.nodes),
        ("--qos", &filter.qos),
    ];
    let given = lists.into_iter().filter(|(_, names)| !names.is_empty());
    words.extend(given.map(|(option, names)| format!("{option}={}", names.join(","))));
    words
}

/// Returns the jobs of the output in these reservations, the last end first; `None` without a header.
fn parse(output: &str, delimiter: &str, reservations: &[String]) -> Option<Vec<FinishedJob>> {
    let mut parts = output.split(delimiter);
    let first = parts.next()?;
    let mut id = first.rsplit_once('\n').map_or(first, |(_, id)| id);
    let mut has_header = false;
    let mut jobs = Vec::new();
    loop {
        let record: Vec<&str> = parts.by_ref().take(FIELDS.len() - 1).collect();
        let [fields @ .., rest] = &*record else { break };
        // A line that was cut off has no end, and may lack fields.
        let Some((name, next_id)) = rest.rsplit_once('\n') else { break };
        if id == FIELDS[0] {
            has_header = true;
        } else {
            jobs.extend(parse_job(id, fields, name, reservations));
        }
        id = next_id;
    }
    jobs.sort_by_key(|finished: &FinishedJob| Reverse(finished.job.ends_at));
    has_header.then_some(jobs)
}

/// Parses the fields between the id and the name of a job.
fn parse_job(
    id: &str,
    fields: &[&str],
    name: &str,
    reservations: &[String],
) -> Option<FinishedJob> {
    let [shown, user, partition, account, state, submitted, started, ended, rest @ ..] = fields
    else {
        return None;
    };
    let [run_time, limit, exit, resources, count, nodes, reservation] = rest else { return None };
    let is_wanted = reservations.is_empty() || reservations.iter().any(|name| name == reservation);
    if !is_wanted || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let outcome = outcome(state)?;
    let allocations = parse_nodelist(nodes).unwrap_or_default().into_iter();
    let allocations =
        allocations.map(|node| Allocation { node, devices: DeviceAllocation::Unknown });
    let (node_count, devices) = (count.parse().unwrap_or_default(), allocated_devices(resources));
    let job = Job {
        shown_id: text(shown),
        name: text(name),
        user: text(user),
        partition: text(partition),
        account: non_empty(account),
        state: JobState::Ended,
        native_state: text(state.split(' ').next().unwrap_or_default()),
        submitted_at: parse_time(submitted),
        starts_at: parse_time(started),
        ends_at: Some(parse_time(ended)?),
        limit: limit.parse().ok().map(|minutes: u64| Duration::from_secs(minutes * 60)),
        run_time: run_time.parse().ok().map(Duration::from_secs),
        node_count,
        devices_per_node: devices
            .filter(|devices| devices.checked_rem(node_count) == Some(0))
            .map(|devices| devices / node_count),
        cpus: allocated_cpus(resources),
        memory: allocated_memory(resources),
        allocations: allocations.collect(),
        ..Job::unlisted(JobId::new(id)?)
    };
    let (exit_code, signal) = exit.split_once(':').unwrap_or_default();
    Some(FinishedJob {
        job,
        outcome,
        exit_code: exit_code.parse().ok(),
        signal: signal.parse().ok().filter(|signal| *signal > 0),
        cancelled_by: state.split_once(" by ").map(|(_, uid)| text(uid)),
        devices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::time::Timestamp;

    /// Jobs of Slurm 22.05.8 that have ended, one of them with a line end in its name.
    const ENDED: &str = include_str!("../../../../../tests/fixtures/slurm/sacct-22.05.8.txt");
    const DELIMITER: &str = "\u{1f}0123456789abcdef";

    fn parsed(output: &str) -> Vec<FinishedJob> {
        parse(output, DELIMITER, &[]).unwrap()
    }

    #[test]
    fn recorded_jobs_are_read_with_how_they_ended() {
        let list = parsed(ENDED);
        let lines = list.iter().map(|finished| {
            let FinishedJob { job, devices, .. } = finished;
            let devices = devices.map_or("-".to_owned(), |count| count.to_string());
            format!("{} {} {devices} {}", job.shown_id, job.name, finished.outcome_text())
        });
        let mut lines: Vec<String> = lines.collect();
        assert_eq!(lines[0], "6 timeout - time limit", "the last end is first");
        lines.sort_by_key(|line| line.split(['_', ' ']).next().unwrap().parse::<u32>().unwrap());
        assert_eq!(
            lines,
            [
                "1 done 2 completed",
                "2 failed 8 failed, exit 3",
                "3 killed 1 killed by signal 9",
                "4 evil|na me;$(x) - completed",
                "5 new line| [31m - completed",
                "6 timeout - time limit",
                "7_0 arr - completed",
                "7_1 arr - failed, exit 1",
                "8 never - cancelled by 0",
                "9 cancelme 4 cancelled by 0",
                "10 mine - completed",
                "11 reserved - completed",
            ]
        );
        let job = |shown: &str| {
            let found = list.iter().find(|finished| *finished.job.shown_id == *shown);
            found.unwrap().job.clone()
        };
        let timeout = job("6");
        assert_eq!(timeout.ends_at, Some(Timestamp::from_micros(1_796_032_221_000_000)));
        assert_eq!(timeout.elapsed(Timestamp::default()), Some(Duration::from_secs(84)));
        assert_eq!(timeout.limit, Some(Duration::from_secs(60)));
        assert_eq!(timeout.allocations[0].node.as_str(), "node1");
        let (arrayed, never) = (job("7_0"), job("8"));
        assert_eq!((arrayed.id.as_str(), arrayed.limit), ("15", None));
        assert_eq!((never.starts_at, never.allocations.len()), (None, 0));
        assert_eq!((job("2").devices_per_node, &*job("10").user), (Some(8), "nobody"));
        assert_eq!((job("2").cpus, never.cpus, never.memory), (Some(1), None, None));
    }

    #[test]
    fn a_name_cannot_forge_a_job_and_a_cut_line_is_none() {
        let forged = ENDED.replace(
            "\u{1f}0123456789abcdefkilled\n",
            "\u{1f}0123456789abcdefx\n9\u{1f}9\u{1f}root\n",
        );
        assert_eq!(parsed(&forged).len(), parsed(ENDED).len());
        let cut = ENDED.rsplit_once(DELIMITER).unwrap().0;
        assert_eq!(parsed(cut).len() + 1, parsed(ENDED).len());
        assert_eq!(parse("", DELIMITER, &[]), None);
        assert_eq!(parse("System maintenance\n", DELIMITER, &[]), None);
    }

    #[test]
    fn only_jobs_of_the_requested_reservations_are_kept() {
        let list = parse(ENDED, DELIMITER, &["school".to_owned()]).unwrap();
        let names: Vec<&str> = list.iter().map(|finished| &*finished.job.name).collect();
        assert_eq!(names, ["reserved"]);
    }

    #[test]
    fn the_options_select_the_jobs() {
        let one = |word: &str| vec![word.to_owned()];
        let all = arguments(&JobFilter::default(), "|");
        assert!(all.contains(&"--allusers".to_owned()), "{all:?}");
        let filter = JobFilter { users: one("7"), jobs: one("2_1"), ..JobFilter::default() };
        let words = arguments(&filter, "|");
        assert!(words.ends_with(&["--user=7".to_owned(), "--jobs=2_1".to_owned()]), "{words:?}");
        assert!(!words.contains(&"--allusers".to_owned()));
    }
}
