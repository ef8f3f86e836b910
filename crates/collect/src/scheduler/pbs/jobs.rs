//! Parses the output of `qstat -t -f -F json`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use super::read_json;
use super::resources::{DEVICE_RESOURCES, Resources, Text, device_count, number, size, text};
use crate::scheduler::SchedulerError;
use crate::scheduler::list_poller::{ListedJob, ListedJobs};
use gtop_local::time::Timestamp;
use gtop_model::{Allocation, DeviceAllocation, Job, JobId, JobState, NodeName};

/// Maximum number of jobs.
const MAX_JOBS: usize = 20_000;
/// Maximum number of nodes, over all jobs.
const MAX_NODES: usize = 65_536;

#[derive(Deserialize)]
pub(super) struct JobsOutput {
    pbs_server: String,
    #[serde(rename = "Jobs", default)]
    pub(super) jobs: BTreeMap<String, Value>,
}

/// The attributes of a job that are read. Its environment and its command line are not.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PbsJob {
    #[serde(rename = "Job_Name")]
    name: Text,
    #[serde(rename = "Job_Owner")]
    owner: Text,
    #[serde(rename = "Account_Name")]
    account: Option<Text>,
    job_state: Text,
    queue: Text,
    ctime: Text,
    stime: Option<Text>,
    #[serde(rename = "Execution_Time")]
    not_before: Option<Text>,
    comment: Option<Text>,
    depend: Option<Text>,
    #[serde(rename = "Hold_Types")]
    holds: Option<Text>,
    exec_vnode: Option<Text>,
    #[serde(rename = "Resource_List")]
    requested: Resources,
    resources_used: Resources,
    estimated: Resources,
}

/// Parses the output: the jobs that wait or run.
pub(super) fn parse(output: &str) -> Result<ListedJobs, SchedulerError> {
    let parsed: JobsOutput = read_json("qstat", output)?;
    // One odd job hides no other.
    let listed = parsed
        .jobs
        .into_iter()
        .filter_map(|(id, json)| PbsJob::deserialize(json).ok()?.job(&id, &parsed.pbs_server));
    let mut jobs: Vec<ListedJob> = listed.collect();
    jobs.sort_by_cached_key(|listed| (listed.job.state, numbers(&listed.job.shown_id)));
    let all = jobs.len();
    let mut nodes = 0_usize;
    let fitting = jobs.iter().take(MAX_JOBS).take_while(|listed| {
        nodes = nodes.saturating_add(listed.job.allocations.len());
        nodes <= MAX_NODES
    });
    let kept = fitting.count();
    jobs.truncate(kept);
    let cut = (kept < all)
        .then(|| format!("only the first {kept} of {all} jobs are shown, running ones first"));
    Ok(ListedJobs { jobs, cut })
}

/// Returns true if a person means this job: `8421`, `1[2]`, or `1` or `1[]` for a whole array, with or without the server.
pub(super) fn is_named(job: &Job, wanted: &str) -> bool {
    let wanted_job = wanted.split_once('.').map_or(wanted, |(job, _)| job);
    let wanted_array = wanted_job.strip_suffix("[]").unwrap_or(wanted_job);
    let is_server =
        wanted == wanted_job || job.id.as_str().ends_with(wanted.trim_start_matches(wanted_job));
    let shown = job.id.as_str().split('.').next().unwrap_or_default();
    is_server
        && (shown == wanted_job
            || shown.split_once('[').is_some_and(|(array, _)| array == wanted_array))
}

impl PbsJob {
    /// Returns the job; `None` if it neither waits nor runs. The tasks of an array are jobs of their own, so the array is
    /// none.
    fn job(&self, id: &str, server: &str) -> Option<ListedJob> {
        let state = job_state(&self.job_state)?;
        let own_server = id.strip_suffix(server).and_then(|id| id.strip_suffix('.'));
        let starts_at = if state == JobState::Pending {
            self.expected_start()
        } else {
            self.stime.as_deref().and_then(time)
        };
        let limit = walltime(&self.requested);
        let node_count = self.requested.get("nodect").and_then(number);
        let chunks = self.exec_vnode.as_deref().filter(|_| state != JobState::Pending);
        let job = Job {
            shown_id: text(own_server.unwrap_or(id)),
            name: text(&self.name),
            user: text(self.owner.split('@').next().unwrap_or_default()),
            partition: text(&self.queue),
            account: self.account.as_deref().map(text),
            state,
            native_state: text(native_state(&self.job_state)),
            reason: self.reason(state, id).map(|reason| text(&reason)),
            submitted_at: time(&self.ctime),
            starts_at,
            ends_at: starts_at.zip(limit).map(|(start, limit)| start.plus(limit)),
            limit,
            run_time: walltime(&self.resources_used),
            node_count: node_count.unwrap_or(1),
            devices_per_node: self.devices_per_node(node_count),
            cpus: self.requested.get("ncpus").and_then(number),
            memory: self.requested.get("mem").and_then(size),
            allocations: chunks.map(allocations).unwrap_or_default(),
            ..Job::unlisted(JobId::new(id)?)
        };
        let place = self.requested.get("place").and_then(Value::as_str).unwrap_or_default();
        Some(ListedJob {
            job,
            has_whole_nodes: place.split(':').any(|word| word.starts_with("excl")),
        })
    }

    /// Returns when a waiting job is expected to start, or may at the earliest.
    fn expected_start(&self) -> Option<Timestamp> {
        let estimated = self.estimated.get("start_time").and_then(Value::as_str);
        estimated.and_then(time).or_else(|| time(self.not_before.as_deref()?))
    }

    /// Returns what a waiting job waits for. The comment of an array's task is that of the array.
    fn reason(&self, state: JobState, id: &str) -> Option<String> {
        if state != JobState::Pending {
            return None;
        }
        match (self.comment.as_deref(), self.depend.as_deref(), self.holds.as_deref()) {
            (Some(comment), ..) if !id.contains('[') => Some(comment.to_owned()),
            (_, Some(on), _) => Some(format!("depends on {on}")),
            (_, None, None | Some("" | "n")) => None,
            (_, None, Some(holds)) => Some(format!("held ({holds})")),
        }
    }

    /// Returns the number of devices requested on each node, if they are the same on all.
    fn devices_per_node(&self, nodes: Option<u32>) -> Option<u32> {
        let all = device_count(&self.requested)?;
        let nodes = nodes.filter(|nodes| *nodes > 0)?;
        (all % nodes == 0).then_some(all / nodes)
    }
}

/// Returns the state with this letter; `None` if the job has ended or been moved away, or is an array.
fn job_state(letter: &str) -> Option<JobState> {
    match letter {
        "R" => Some(JobState::Running),
        "Q" | "H" | "W" => Some(JobState::Pending),
        "S" | "U" => Some(JobState::Suspended),
        "E" => Some(JobState::Ending),
        "B" | "F" | "M" | "X" => None,
        _ => Some(JobState::Other),
    }
}

/// Returns what a state is called: by its letter, as in lists of jobs, if the model has its own word for it.
fn native_state(letter: &str) -> &str {
    // It is on its way to another queue or server, and has no nodes.
    if letter == "T" { "in transit" } else { letter }
}

/// Returns what the chunks of a job have, such as `(gpu01:ncpus=2:ngpus=2)+(gpu02[0]:ncpus=1)`.
fn allocations(chunks: &str) -> Arc<[Allocation]> {
    let allocations = chunks.split('+').filter_map(|part| {
        let mut words = part.trim_matches(['(', ')']).split(':');
        let node = NodeName::new(words.next()?).ok()?;
        let count = words.find_map(|word| {
            let (name, value) = word.split_once('=')?;
            DEVICE_RESOURCES.contains(&name).then(|| value.parse().ok())?
        });
        let devices = match count {
            Some(0) => DeviceAllocation::None,
            Some(count) => DeviceAllocation::Count(count),
            None => DeviceAllocation::Unknown,
        };
        Some(Allocation { node, devices })
    });
    allocations.collect()
}

/// Parses a time such as `Fri Nov 27 13:10:48 2026`, in UTC.
fn time(text: &str) -> Option<Timestamp> {
    let (_, rest) = text.trim().split_once(' ')?;
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    let civil = DateTime::strptime("%b %d %H:%M:%S %Y", rest).ok()?;
    let second = civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    second.checked_mul(1_000_000).map(Timestamp::from_micros)
}

fn walltime(resources: &Resources) -> Option<Duration> {
    duration(resources.get("walltime")?.as_str()?)
}

/// Parses a duration such as `100:00:05`, which has more than 24 hours.
fn duration(text: &str) -> Option<Duration> {
    let mut seconds: u64 = 0;
    for part in text.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    Some(Duration::from_secs(seconds))
}

/// Returns the numbers of an id, by which jobs are sorted: 1 and 2 of `1[2]`.
fn numbers(shown_id: &str) -> (u64, u64) {
    let parts = shown_id.split(|letter: char| !letter.is_ascii_digit());
    let mut numbers = parts.map(|part| part.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str =
        include_str!("../../../../../tests/fixtures/pbs/openpbs-23.06.06/qstat-t-f-F-json.json");

    #[test]
    fn one_odd_job_hides_no_other() {
        let recorded: Value = serde_json::from_str(RECORDED).unwrap();
        let odd = |id: &str, key: &str, value: Value| {
            let mut changed = recorded.clone();
            changed["Jobs"][id][key] = value;
            parse(&changed.to_string()).unwrap().jobs
        };
        let count = parse(RECORDED).unwrap().jobs.len();
        for key in ["comment", "queue", "Job_Owner", "exec_vnode", "Resource_List", "estimated"] {
            for value in [Value::from(5), Value::Null, vec![1].into()] {
                assert_eq!(odd("7.pbsserver", key, value).len(), count, "{key}");
            }
        }
        let mut changed = recorded.clone();
        changed["Jobs"]["7.pbsserver"] = Value::Null;
        assert_eq!(parse(&changed.to_string()).unwrap().jobs.len(), count - 1);
    }

    #[test]
    fn the_jobs_of_a_recorded_cluster_are_listed() {
        let jobs = parse(RECORDED).unwrap().jobs;
        let shown: Vec<_> = jobs
            .iter()
            .map(|ListedJob { job, .. }| {
                format!("{} {} {}", job.shown_id, job.user, job.state_text())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "0 alice running",
                "1[1] alice running",
                "1[2] alice running",
                "7 bob running",
                "1[3] alice pending",
                "1[4] alice pending",
                "2 alice pending",
                "3 alice pending",
                "4 alice pending",
                "5 alice pending",
                "6 alice pending",
                "8 alice pending",
                "9 alice pending",
                "10 alice pending",
            ]
        );
        let train = &jobs[0].job;
        let devices: Vec<_> =
            train.allocations.iter().map(|one| (one.node.as_str(), one.devices.clone())).collect();
        let two = DeviceAllocation::Count(2);
        assert_eq!(devices, [("pbs-gpu01", two.clone()), ("pbs-gpu02", two)]);
        // 13:10:48 of that day in UTC, and 30 minutes later.
        let second = |second: i64| Some(Timestamp::from_micros(second * 1_000_000));
        assert_eq!(
            (train.starts_at, train.ends_at),
            (second(1_795_785_048), second(1_795_786_848))
        );
        assert_eq!(train.run_time, Some(Duration::from_secs(111)));
        assert_eq!((train.id.as_str(), &*train.native_state), ("0.pbsserver", "R"));
        assert_eq!((train.node_count, train.devices_per_node), (2, Some(2)));
        assert_eq!((train.cpus, train.memory), (Some(4), None));
        assert_eq!(jobs[1].job.id.as_str(), "1[1].pbsserver");
    }

    #[test]
    fn waiting_jobs_say_what_they_wait_for() {
        let jobs = parse(RECORDED).unwrap().jobs;
        let reason = |id: &str| {
            let found = jobs.iter().find(|listed| &*listed.job.shown_id == id).unwrap();
            found.job.reason.as_deref().map(str::to_owned)
        };
        let text = |text: &str| Some(text.to_owned());
        let lacks = "Not Running: Insufficient amount of resource: ngpus (R: 4 A: 0 T: 8)";
        assert_eq!(reason("2"), text(lacks));
        assert_eq!(reason("4"), text("depends on afterok:0.pbsserver@pbsserver"));
        assert_eq!((reason("6"), reason("1[3]")), (text("held (u)"), None));
        let later = jobs.iter().find(|listed| &*listed.job.shown_id == "5").unwrap();
        assert_eq!(later.job.starts_at.unwrap().as_micros(), 1_924_991_940_000_000);
    }

    #[test]
    fn a_list_that_is_cut_says_so_and_keeps_running_jobs() {
        let of = |count: usize| {
            let jobs = (0..count).map(|number| {
                let state = if number == count - 1 { "R" } else { "Q" };
                format!(r#""{number}.s":{{"job_state":"{state}"}}"#)
            });
            let jobs = jobs.collect::<Vec<_>>().join(",");
            parse(&format!(r#"{{"pbs_server":"s","Jobs":{{{jobs}}}}}"#)).unwrap()
        };
        assert_eq!((of(MAX_JOBS).jobs.len(), of(MAX_JOBS).cut), (MAX_JOBS, None));
        let cut = of(MAX_JOBS + 1);
        assert_eq!(cut.jobs[0].job.state, JobState::Running);
        let sentence = "only the first 20000 of 20001 jobs are shown, running ones first";
        assert_eq!((cut.jobs.len(), cut.cut.as_deref()), (MAX_JOBS, Some(sentence)));
    }

    #[test]
    fn a_job_in_transit_is_called_so() {
        let output = r#"{"pbs_server":"s","Jobs":{"1.s":{"job_state":"T"}}}"#;
        assert_eq!(parse(output).unwrap().jobs[0].job.state_text(), "in transit");
    }

    #[test]
    fn one_text_that_is_not_json_hides_no_job() {
        let count = parse(RECORDED).unwrap().jobs.len();
        for name in ["007", "\"a\tb\u{1b}\"", "+5", "NaN", "\"a \"b\" c\""] {
            let output = RECORDED.replacen("\"train\"", name, 1);
            assert_ne!(output, RECORDED);
            assert_eq!(parse(&output).unwrap().jobs.len(), count, "{name}");
        }
    }

    #[test]
    fn names_stay_texts_whatever_they_look_like() {
        let jobs = parse(RECORDED).unwrap().jobs;
        let name = |id: &str| {
            jobs.iter().find(|listed| &*listed.job.shown_id == id).unwrap().job.name.to_string()
        };
        assert_eq!((name("8"), name("9"), name("10")), ("007".into(), "1e5".into(), "+x".into()));
    }

    #[test]
    fn a_person_names_a_job_or_an_array_with_or_without_the_server() {
        let job = |id: &str| Job { id: JobId::new(id).unwrap(), ..Job::example("1") };
        for (id, wanted, is_meant) in [
            ("8421.pbs01", "8421", true),
            ("8421.pbs01", "8421.pbs01", true),
            ("8421.pbs01", "8421.other", false),
            ("8421.pbs01", "842", false),
            ("1[2].pbs01", "1[2]", true),
            ("1[2].pbs01", "1[]", true),
            ("1[2].pbs01", "1", true),
            ("1[2].pbs01", "1[3]", false),
            ("12[2].pbs01", "1", false),
        ] {
            assert_eq!(is_named(&job(id), wanted), is_meant, "{id} {wanted}");
        }
    }

    #[test]
    fn chunks_may_be_of_virtual_nodes_and_without_devices() {
        let found = allocations("(a[0]:ncpus=2:ngpus=1+a[1]:ncpus=2:ngpus=1)+(b:ncpus=4)");
        let found: Vec<_> =
            found.iter().map(|one| (one.node.as_str(), one.devices.count())).collect();
        assert_eq!(found, [("a[0]", Some(1)), ("a[1]", Some(1)), ("b", None)]);
    }

    #[test]
    fn other_output_is_an_error_and_no_job_is_none() {
        let empty = r#"{"timestamp":1,"pbs_version":"23.06.06","pbs_server":"s"}"#;
        assert_eq!(parse(empty), Ok(ListedJobs::default()));
        for (output, says) in [
            ("", "qstat printed nothing"),
            ("{", "qstat printed JSON that cannot be read: line 1, column 2"),
            ("{}", "qstat printed \"{}\" instead of JSON"),
            ("job-ID prior name", "instead of JSON"),
        ] {
            let error = parse(output).unwrap_err();
            assert!(error.message.contains(says), "{}", error.message);
        }
    }
}
