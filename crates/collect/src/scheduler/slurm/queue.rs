//! The arguments of `squeue`, and the parser of its output.
//!
//! A job's name may contain anything: quotes, tabs, newlines, any separator. So each record is between
//! random boundaries, and the name is its last field. The same format works with all versions since
//! 20.11; JSON is larger, and before 24.11 it ignores the filters.
//!
//! The header line is requested too: it tells an empty queue from a program that prints something else
//! or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gres::requested_devices;
use super::job_state::job_state;
use super::time_format::{parse_duration, parse_time};
use crate::scheduler::JobFilter;
use gtop_local::text::{counted, sanitize, sanitize_shared};
use gtop_model::{Allocation, DeviceAllocation, Job, JobId, JobState, NodeName, nodeset};

/// Maximum number of jobs.
pub(super) const MAX_JOBS: usize = 20_000;
/// Maximum number of nodes, over all jobs.
pub(super) const MAX_NODES: usize = 65_536;
/// Maximum length of a text, in characters.
const MAX_TEXT_CHARS: usize = 256;

/// Maximum length of a displayed id, in characters, that lists tasks of an array.
const MAX_ID_CHARS: usize = 64;

/// Precedes each field.
pub(super) const FIELD_SEPARATOR: char = '\u{1f}';
/// The fields in order; the name is last. The devices requested on each node and the CPUs follow the number
/// of nodes. Its `%m` is not of one thing: memory of a node, of a CPU or of a device.
const FIELDS: [&str; 15] = [
    "%A", "%i", "%u", "%P", "%a", "%T", "%V", "%S", "%e", "%l", "%M", "%D %b %C", "%N", "%r", "%j",
];
/// The header of the first field.
const FIRST_HEADER: &str = "JOBID";

/// Returns the arguments; `boundary` is random.
pub(super) fn arguments(filter: &JobFilter, boundary: &str) -> Vec<String> {
    let mut words = vec!["--all".to_owned()];
    let lists = [
        ("--user", &filter.users),
        ("--job", &filter.jobs),
        ("--partition", &filter.partitions),
        ("--account", &filter.accounts),
        ("--nodelist", &filter.nodes),
        ("--qos", &filter.qos),
        ("--reservation", &filter.reservations),
    ];
    for (option, list) in lists {
        if !list.is_empty() {
            words.push(format!("{option}={}", list.join(",")));
        }
    }
    words.push(format_option(&FIELDS, boundary));
    words
}

/// Returns the option for records of these fields, each record between two boundaries.
pub(super) fn format_option(fields: &[&str], boundary: &str) -> String {
    let fields: Vec<String> =
        fields.iter().map(|field| format!("{FIELD_SEPARATOR}{field}")).collect();
    format!("--format=\u{1e}{boundary}{}\u{1e}{boundary}", fields.concat())
}

/// The parsed output of `squeue`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Queue {
    pub(super) jobs: Vec<Job>,
    /// Unescaped names of the jobs on nodes; never shown.
    pub(super) names: BTreeMap<JobId, String>,
    /// Warnings about the list.
    pub(super) notes: Vec<String>,
    /// Some jobs are missing: there are too many, or their lines are not understood.
    pub(super) is_partial: bool,
    /// Why the output is incomplete or not a list of jobs.
    pub(super) error: Option<String>,
}

impl Queue {
    /// Drops the jobs that have none of these nodes.
    pub(super) fn keep_jobs(&mut self, is_kept: impl Fn(&Job) -> bool) {
        self.jobs.retain(is_kept);
        let kept: BTreeSet<&JobId> = self.jobs.iter().map(|job| &job.id).collect();
        self.names.retain(|id, _| kept.contains(id));
    }
}

/// Parses the output, ignoring anything between the records.
pub(super) fn parse(output: &str, boundary: &str, is_cut: bool) -> Queue {
    let mut queue = Queue::default();
    let separator = format!("\u{1e}{boundary}");
    let mut records = output.split(separator.as_str()).skip(1);
    let (mut unparsed, mut nodes) = (0_usize, 0_usize);
    let mut rejected = Vec::new();
    let (mut has_header, mut is_complete) = (false, true);
    // Records and the text between them alternate.
    while let Some(record) = records.next() {
        let Some(between) = records.next() else {
            // Truncated inside a record.
            is_complete = is_cut;
            break;
        };
        // Truncated inside the next boundary.
        is_complete = is_complete && (is_cut || !between.contains('\u{1e}'));
        if is_header(record) {
            has_header = true;
            continue;
        }
        if queue.jobs.len() >= MAX_JOBS {
            break;
        }
        match parse_job(record, &mut rejected) {
            Some((job, name)) => {
                nodes += job.allocations.len();
                if nodes > MAX_NODES {
                    break;
                }
                if !job.allocations.is_empty() {
                    queue.names.insert(job.id.clone(), name.to_owned());
                }
                queue.jobs.push(job);
            }
            None => unparsed += 1,
        }
    }
    let is_more = is_cut || nodes > MAX_NODES || records.next().is_some();
    queue.is_partial = is_more || unparsed > 0;
    if is_more {
        let kept = queue.jobs.len();
        queue.notes.push(format!(
            "only the first {kept} jobs are shown; narrow the list down with --partition or --account"
        ));
    }
    if unparsed > 0 {
        queue.notes.push(format!("{} of squeue could not be parsed", counted(unparsed, "line")));
    }
    if let Some(first) = rejected.first() {
        let others = rejected.len() - 1;
        let rest = if others > 0 { format!(" (and {others} more)") } else { String::new() };
        queue.notes.push(format!("{first}{rest}"));
    }
    queue.error = if !is_complete {
        Some("the output of squeue ends in the middle of a job".to_owned())
    } else if has_header || !queue.jobs.is_empty() {
        None
    } else {
        Some(unexpected_output("squeue", "list of jobs", output))
    };
    // No order is guaranteed.
    queue.jobs.sort_by_cached_key(|job| (job.state, numeric_id(&job.id), job.shown_id.to_string()));
    queue.jobs.dedup_by(|later, first| later.id == first.id && later.shown_id == first.shown_id);
    queue
}

/// Returns a sentence about output that is not what was requested.
pub(super) fn unexpected_output(program: &str, wanted: &str, output: &str) -> String {
    let lines = output.lines().map(|line| sanitize(line, 80));
    match lines.map(|line| line.trim().to_owned()).find(|line| !line.is_empty()) {
        Some(line) => format!("{program} printed {line:?} instead of a {wanted}"),
        None => format!("{program} printed nothing, not even a header"),
    }
}

fn is_header(record: &str) -> bool {
    record.strip_prefix(FIELD_SEPARATOR).and_then(|rest| rest.split(FIELD_SEPARATOR).next())
        == Some(FIRST_HEADER)
}

fn numeric_id(id: &JobId) -> u64 {
    id.as_str().parse().unwrap_or(u64::MAX)
}

fn parse_job<'a>(record: &'a str, rejected: &mut Vec<String>) -> Option<(Job, &'a str)> {
    let fields = record.strip_prefix(FIELD_SEPARATOR)?.splitn(FIELDS.len(), FIELD_SEPARATOR);
    let fields: Vec<&str> = fields.collect();
    let [id, shown, user, partition, account, state, submitted, starts, rest @ ..] = &*fields
    else {
        return None;
    };
    let [ends, limit, run_time, count, list, reason, name] = *rest else { return None };
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let shown_id = text(&shortened_id(shown));
    let (native_state, state) = (text(state), job_state(state));
    let mut counts = count.split(' ');
    let [count, gres, cpus] = [(); 3].map(|()| counts.next().unwrap_or_default());
    let nodes = if state == JobState::Pending { Ok(Vec::new()) } else { parse_nodelist(list) };
    let nodes = nodes.unwrap_or_else(|why| {
        rejected.push(format!("the nodes of job {shown_id}: {why}"));
        Vec::new()
    });
    let job = Job {
        id: JobId::new(id)?,
        shown_id,
        alias: None,
        name: text(name),
        user: text(user),
        partition: text(partition),
        account: non_empty(account),
        state,
        native_state,
        reason: non_empty(reason),
        submitted_at: parse_time(submitted),
        starts_at: parse_time(starts),
        ends_at: parse_time(ends),
        limit: parse_duration(limit),
        run_time: parse_duration(run_time),
        listed_at: None,
        tasks: count_tasks(shown),
        node_count: count.parse().unwrap_or_default(),
        devices_per_node: requested_devices(gres),
        cpus: cpus.parse().ok(),
        memory: None,
        allocations: nodes
            .into_iter()
            .map(|node| Allocation { node, devices: DeviceAllocation::Unknown })
            .collect::<Arc<[_]>>(),
    };
    Some((job, name))
}

pub(super) fn text(text: &str) -> Arc<str> {
    sanitize_shared(text, MAX_TEXT_CHARS)
}

pub(super) fn non_empty(word: &str) -> Option<Arc<str>> {
    (!is_empty_value(word)).then(|| text(word))
}

/// Returns the number of tasks of a displayed id: those in the brackets of `2_[3-5,9-13:2%3]`, or one; `None` if the list
/// is cut.
fn count_tasks(shown: &str) -> Option<u32> {
    let Some((_, list)) = shown.split_once("_[") else { return Some(1) };
    // The number after % is how many run at once.
    let list = list.strip_suffix(']')?.split('%').next()?;
    let mut tasks: u32 = 0;
    for part in list.split(',') {
        let (span, step) = part.split_once(':').unwrap_or((part, "1"));
        let (from, to) = span.split_once('-').unwrap_or((span, span));
        let [from, to, step] = [from, to, step].map(|number| number.parse::<u32>().ok());
        let distance = to?.checked_sub(from?)?;
        tasks = tasks.checked_add(distance.checked_div(step?)?.checked_add(1)?)?;
    }
    Some(tasks)
}

/// Shortens a long list of tasks, as `squeue` does by default.
fn shortened_id(shown: &str) -> String {
    match shown.char_indices().nth(MAX_ID_CHARS) {
        Some((end, _)) if shown.contains("_[") => {
            format!("{}...]", shown.get(..end).unwrap_or_default())
        }
        Some(_) | None => shown.to_owned(),
    }
}

pub(super) fn is_empty_value(word: &str) -> bool {
    matches!(word, "" | "(null)" | "None" | "N/A" | "n/a")
}

/// Returns why a node list that a user typed cannot be given to `squeue`.
pub fn check_nodelist(list: &str) -> Result<(), String> {
    match parse_nodelist(list)?.as_slice() {
        [] => Err("expected nodes, such as gpu01 or gpu[01-08]".to_owned()),
        _ => Ok(()),
    }
}

/// Expands a node list without duplicates. One bad name rejects the list: the controller did not write it.
pub(super) fn parse_nodelist(list: &str) -> Result<Vec<NodeName>, String> {
    if is_empty_value(list) {
        return Ok(Vec::new());
    }
    let mut letters = list.chars();
    if let Some(letter) =
        letters.find(|letter| !letter.is_ascii_alphanumeric() && !"._-[],/".contains(*letter))
    {
        return Err(format!(
            "{:?} contains {letter:?}, which is not allowed in a node name",
            sanitize_shared(list, 60)
        ));
    }
    let names = nodeset::expand(list).map_err(|error| error.to_string())?;
    names.iter().map(|name| NodeName::new(name).map_err(|error| error.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "0123456789abcdef";

    fn record(fields: [&str; 15]) -> String {
        format!("\u{1e}{MARK}\u{1f}{}\u{1e}{MARK}\n", fields.join("\u{1f}"))
    }

    fn running(id: &str, nodes: &str, name: &str) -> String {
        record([
            id,
            id,
            "alice",
            "gpu",
            "(null)",
            "RUNNING",
            "1795269430",
            "1795269440",
            "1795273040",
            "1:00:00",
            "0:24",
            "1",
            nodes,
            "None",
            name,
        ])
    }

    #[test]
    fn jobs_are_sorted_without_duplicates() {
        let part = |shown: &str| {
            let shown = format!("\u{1f}4\u{1f}{shown}\u{1f}");
            running("4", "gpu01", "x").replace("\u{1f}4\u{1f}4\u{1f}", &shown)
        };
        let one = |id| running(id, "gpu01", "x");
        let text = [one("20"), part("2_2"), one("3"), one("20"), part("2_1")];
        let queue = parse(&text.concat(), MARK, false);
        let shown: Vec<_> = queue.jobs.iter().map(|job| &*job.shown_id).collect();
        assert_eq!(shown, ["3", "2_1", "2_2", "20"]);
    }

    #[test]
    fn a_name_may_contain_anything() {
        let hostile = "a\u{1f}b\u{1e}99\u{1f}\u{1f}\nJobId=7 |\t'\"$(x)";
        let noise = "squeue: warning: something\n";
        let text = [noise, &running("1", "gpu[01-02]", hostile), noise, &running("2", "", "b")];
        let queue = parse(&text.concat(), MARK, false);
        assert_eq!(queue.notes, Vec::<String>::new());
        assert_eq!(queue.jobs.len(), 2);
        assert_eq!(&*queue.jobs[0].name, "a b 99   JobId=7 | '\"$(x)");
        assert_eq!(&*queue.jobs[1].name, "b");
        let nodes: Vec<_> = queue.jobs[0].allocations.iter().map(|one| one.node.as_str()).collect();
        assert_eq!(nodes, ["gpu01", "gpu02"]);
    }

    #[test]
    fn all_fields_of_a_job_are_parsed() {
        let waiting = record([
            "2",
            "2_[3-5%3]",
            "bob",
            "gpu,long",
            "phys",
            "PENDING",
            "1795269430",
            "N/A",
            "N/A",
            "UNLIMITED",
            "0:00",
            "4 gres/gpu:h100:8 256",
            "",
            "Dependency",
            "sweep",
        ]);
        let queue = parse(&(waiting + &running("1", "n1", "x")), MARK, false);
        let [first, second] = queue.jobs.as_slice() else { panic!("{queue:?}") };
        assert_eq!((first.id.as_str(), first.state), ("1", JobState::Running));
        assert_eq!(first.limit.unwrap().as_secs(), 3600);
        assert!(first.account.is_none() && first.reason.is_none() && first.ends_at.is_some());
        assert_eq!((&*second.shown_id, second.state), ("2_[3-5%3]", JobState::Pending));
        assert_eq!(
            (second.account.as_deref(), second.reason.as_deref()),
            (Some("phys"), Some("Dependency"))
        );
        assert_eq!((second.node_count, second.starts_at, second.limit), (4, None, None));
        assert_eq!((second.devices_per_node, first.devices_per_node), (Some(8), None));
        assert_eq!((second.cpus, first.cpus), (Some(256), None));
    }

    #[test]
    fn pending_tasks_of_an_array_are_counted() {
        for (shown, tasks) in [
            ("7", Some(1)),
            ("2_1", Some(1)),
            ("3+1", Some(1)),
            ("2_[3-5%3]", Some(3)),
            ("2_[3]", Some(1)),
            ("5_[1-51:2%4]", Some(26)),
            ("5_[0,2-4,9-13:2]", Some(7)),
            ("5_[1,3,5,...]", None),
            ("5_[1-", None),
            ("5_[5-1]", None),
            ("5_[1-9:0]", None),
            ("5_[]", None),
        ] {
            assert_eq!(count_tasks(shown), tasks, "{shown}");
        }
        let numbers: Vec<String> = (0..400).map(|task| (task * task).to_string()).collect();
        let shown = format!("5_[{}]", numbers.join(","));
        let waiting = running("5", "", "x")
            .replace("\u{1f}5\u{1f}5\u{1f}", &format!("\u{1f}5\u{1f}{shown}\u{1f}"));
        let job = &parse(&waiting, MARK, false).jobs[0];
        assert_eq!(job.tasks, Some(400));
        assert!(job.shown_id.starts_with("5_[0,1,4,9,") && job.shown_id.ends_with("...]"));
        assert!(job.shown_id.len() < 70, "{}", job.shown_id);
    }

    #[test]
    fn invalid_node_names_are_rejected_with_a_reason() {
        for (list, words) in [
            ("gpu[01", "'[' without ']'"),
            ("gpu01,-oProxyCommand=x", "contains '='"),
            ("-l", "begins with '-'"),
            ("$(touch_x)", "contains '$'"),
            ("ada@gpu01", "contains '@'"),
            ("gpu01 gpu02", "contains ' '"),
        ] {
            let queue = parse(&running("7", list, "x"), MARK, false);
            assert!(queue.jobs[0].allocations.is_empty(), "{list}");
            assert!(
                queue.notes[0].contains(words) && queue.notes[0].contains("job 7"),
                "{queue:?}"
            );
        }
        assert_eq!(parse_nodelist("gpu[01-02],gpu01").unwrap().len(), 2);
    }

    #[test]
    fn too_many_jobs_are_truncated_with_a_note() {
        let all: String = (0..20_010).map(|id| running(&id.to_string(), "gpu01", "x")).collect();
        let queue = parse(&all, MARK, false);
        assert_eq!((queue.jobs.len(), queue.is_partial), (MAX_JOBS, true));
        assert!(queue.notes[0].contains("first 20000 jobs"), "{:?}", queue.notes);
        let (cut, _) = all.split_at(all.len() / 30);
        let queue = parse(cut, MARK, true);
        assert!(queue.jobs.len() > 600 && queue.notes.len() == 1, "{:?}", queue.notes);
    }

    fn header() -> String {
        let mut titles = ["X"; 15];
        titles[0] = "JOBID";
        record(titles)
    }

    #[test]
    fn only_the_header_shows_an_empty_queue() {
        let queue = parse(&header(), MARK, false);
        assert_eq!(queue, Queue::default());
        for (text, says) in [
            ("", "squeue printed nothing, not even a header"),
            ("\n \n", "squeue printed nothing, not even a header"),
            ("\n<html><body>\n", "squeue printed \"<html><body>\" instead of a list of jobs"),
            ("Maintenance \u{1b}[31muntil 18:00", "until 18:00\" instead of a list of jobs"),
            ("JOBID\u{1f}X", "printed \"JOBID X\" instead of a list of jobs"),
            ("\u{1e}0123456789abcdef\u{1f}JOBI", "ends in the middle of a job"),
        ] {
            let queue = parse(text, MARK, false);
            let flaw = queue.error.as_ref().unwrap();
            assert!(flaw.contains(says) && queue.jobs.is_empty(), "{text:?}: {queue:?}");
        }
    }

    #[test]
    fn truncation_inside_a_job_is_detected_anywhere() {
        let whole = header() + &running("1", "gpu01", "a") + &running("2", "gpu02", "b");
        let queue = |end: usize| parse(whole.split_at(end).0, MARK, false);
        assert_eq!((queue(whole.len()).error, queue(whole.len()).jobs.len()), (None, 2));
        let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at).collect();
        for end in 0..whole.len() - 1 {
            // Truncation between two jobs cannot be detected.
            let is_between = ends.iter().any(|at| end == *at || end == *at + 1);
            assert_eq!(queue(end).error.is_none(), is_between && end > 0, "{end}");
            // Output that gtop itself truncated has a note instead.
            assert!(
                end < ends[1] || parse(whole.split_at(end).0, MARK, true).error.is_none(),
                "{end}"
            );
        }
    }

    #[test]
    fn malformed_records_are_counted_and_never_a_job() {
        for text in ["", "load_jobs error", "\u{1e}", &"\u{1e}0123456789abcdef".repeat(9)] {
            assert!(parse(text, MARK, false).jobs.is_empty(), "{text:?}");
        }
        let odd = format!("\u{1e}{MARK}\u{1f}x\u{1f}y\u{1e}{MARK}");
        let queue = parse(&odd, MARK, false);
        assert_eq!(queue.notes, ["1 line of squeue could not be parsed"]);
        assert!(queue.is_partial);
    }

    #[test]
    fn the_arguments_have_the_filter() {
        let filter = JobFilter {
            users: vec!["2001".into()],
            jobs: vec!["2_1".into()],
            qos: vec!["high".into(), "low".into()],
            reservations: vec!["maint".into()],
            nodes: vec!["gpu[01-02]".into()],
            ..JobFilter::default()
        };
        let words = arguments(&filter, MARK);
        assert!(words.contains(&"--user=2001".into()) && words.contains(&"--job=2_1".into()));
        for word in ["--qos=high,low", "--reservation=maint", "--nodelist=gpu[01-02]"] {
            assert!(words.contains(&word.to_owned()), "{word}");
        }
        assert!(!words.iter().any(|word| word.starts_with("--account")));
    }
}
