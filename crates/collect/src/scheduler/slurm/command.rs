//! Runs Slurm's commands.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};

use super::error::{self, PROGRAMS};
use super::job_detail::{DetailReader, JobDetail};
use super::queue::{self, Queue};
use crate::scheduler::programs::PROGRAM_TIMEOUT;
use crate::scheduler::{JobFilter, SchedulerError};
use gtop_local::process::ProgramOutput;
use gtop_model::{Job, JobId, NodeName, SchedulerErrorKind, nodeset};

/// Maximum number of nodes in a command line.
const MAX_NODES_PER_COMMAND: usize = 1000;
/// Maximum bytes of `scontrol`'s records, which are not kept: those of 100,000 jobs.
const MAX_RECORDS_SIZE: usize = 256 << 20;

/// Runs `squeue` once; the jobs have no devices.
pub async fn fetch_jobs(filter: &JobFilter) -> Result<Vec<Job>, SchedulerError> {
    Ok(fetch_queue(filter).await?.jobs)
}

/// Runs `squeue` and parses its output.
pub(super) async fn fetch_queue(filter: &JobFilter) -> Result<Queue, SchedulerError> {
    let boundary = random_boundary();
    let answer = run_command("squeue", &queue::arguments(filter, &boundary), "").await?;
    let is_refused = !answer.succeeded || answer.stderr.contains("Invalid user");
    if is_refused {
        return Err(error::of_stderr("squeue", &answer.stderr));
    }
    let mut queue = queue::parse(&answer.stdout, &boundary, answer.is_truncated);
    match queue.error.take() {
        Some(message) => Err(error::unexpected_output("squeue", &message)),
        None => Ok(queue),
    }
}

/// A query for details of jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct DetailQuery {
    /// The jobs with their unescaped names.
    pub(super) jobs: BTreeMap<JobId, String>,
    /// All jobs of the cluster are requested at once, instead of one after the other.
    pub(super) of_all: bool,
}

/// The answer to a [`DetailQuery`].
#[derive(Debug)]
pub(super) struct DetailAnswer {
    pub(super) query: DetailQuery,
    /// What is whole, also of an answer that was cut.
    pub(super) details: BTreeMap<JobId, JobDetail>,
    /// It ends inside a record, so jobs may be missing.
    pub(super) is_cut: bool,
    /// Why jobs may be missing.
    pub(super) error: Option<SchedulerError>,
}

/// Runs one `scontrol`, which asks the controller once per job, or once for all.
pub(super) async fn fetch_details(query: DetailQuery) -> DetailAnswer {
    let mut lines = String::new();
    for id in query.jobs.keys() {
        // Writing to a string cannot fail.
        _ = writeln!(lines, "show job {id}");
    }
    let (words, input) = if query.of_all {
        (&["--all", "--details", "show", "job"][..], "")
    } else {
        (&["--all", "--details"][..], lines.as_str())
    };
    let mut reader = DetailReader::new(&query.jobs);
    let ended = stream_records(words, input, &mut |bytes| reader.push(bytes)).await;
    let (has_records, start) = (reader.has_records(), reader.start());
    let (details, is_cut) = reader.finish();
    let error = match ended {
        Ok(ended) => detail_error(&ended, has_records, &start),
        Err(error) => Some(error),
    };
    DetailAnswer { query, details, is_cut, error }
}

/// Returns why jobs may be missing in an answer; `None` if those that are missing are not known to Slurm.
fn detail_error(ended: &ProgramOutput, has_records: bool, start: &str) -> Option<SchedulerError> {
    if ended.is_truncated {
        return Some(error::truncated("scontrol"));
    }
    let mut lines: Vec<&str> =
        ended.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let all = lines.len();
    // The jobs have ended and were purged; what else failed may be about another one.
    lines.retain(|line| error::of_stderr("scontrol", line).kind != SchedulerErrorKind::NoSuchJob);
    let names_jobs = lines.len() < all;
    if !ended.succeeded {
        let has_other = lines.iter().any(|line| line.contains("error"));
        return (has_other || !names_jobs).then(|| error::of_stderr("scontrol", &lines.join("\n")));
    }
    let start = start.trim_start_matches("scontrol: ").trim();
    if has_records || names_jobs || start.starts_with("No jobs") {
        return None;
    }
    let message = if start.is_empty() {
        "scontrol printed nothing".to_owned()
    } else {
        queue::unexpected_output("scontrol", "job", start)
    };
    Some(error::unexpected_output("scontrol", &message))
}

/// Runs `scontrol` and passes its output on while it is read.
pub(super) async fn stream_records(
    words: &[&str],
    input: &str,
    on_stdout: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<ProgramOutput, SchedulerError> {
    PROGRAMS.stream("scontrol", words, input, MAX_RECORDS_SIZE, on_stdout).await
}

/// Runs `sinfo` for the addresses of nodes; `None` for a node that is reached by its name.
pub async fn fetch_node_addresses(nodes: &BTreeSet<NodeName>) -> BTreeMap<String, Option<String>> {
    let names = format!("--nodes={}", nodeset::fold(nodes.iter().map(NodeName::as_str)));
    let mut words = vec!["--noheader", "--Node", "--format=%N|%o|%n"];
    // Stays below the maximum length of a command line.
    if nodes.len() <= MAX_NODES_PER_COMMAND {
        words.push(&names);
    }
    let answer = run_command("sinfo", &words, "").await.ok();
    let Some(answer) = answer.filter(|answer| answer.succeeded) else { return BTreeMap::new() };
    parse_addresses(&answer.stdout, nodes)
}

/// Parses lines of node, address and host name, such as `gpu01|10.0.0.1|gpu01-host`.
fn parse_addresses(output: &str, nodes: &BTreeSet<NodeName>) -> BTreeMap<String, Option<String>> {
    let lines = output.lines().filter_map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let node = NodeName::new(fields.next()?).ok().filter(|node| nodes.contains(node))?;
        let address =
            fields.find(|field| !field.eq_ignore_ascii_case(node.as_str()) && is_address(field));
        Some((node, address.map(str::to_owned)))
    });
    let addresses: BTreeMap<NodeName, Option<String>> = lines.collect();
    // Nodes without a line get `None`, so that they are not queried again.
    nodes.iter().map(|node| (node.to_string(), addresses.get(node).cloned().flatten())).collect()
}

/// Returns true if the text can be a host name or an address.
fn is_address(text: &str) -> bool {
    text.is_ascii() && NodeName::new(text).is_ok_and(|name| !name.as_str().contains(['@', '/']))
}

pub(super) async fn run_command(
    program: &str,
    words: &[impl AsRef<OsStr>],
    input: &str,
) -> Result<ProgramOutput, SchedulerError> {
    PROGRAMS.run(PROGRAM_TIMEOUT, program, words, input).await
}

/// Runs a command of Slurm within a time limit.
pub async fn run_command_within(
    limit: Duration,
    program: &str,
    words: &[impl AsRef<OsStr>],
    input: &str,
) -> Result<ProgramOutput, SchedulerError> {
    PROGRAMS.run(limit, program, words, input).await
}

/// Returns a random boundary, so that no job name can contain it on purpose.
pub(super) fn random_boundary() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness only a crafted job name could contain it.
    _ = getrandom(&mut bytes, GetRandomFlags::empty());
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_purged_only_where_slurm_says_so() {
        const PURGED: &str = "slurm_load_jobs error: Invalid job id specified\n";
        let kind = |succeeded, stderr: &str, has_records, start: &str| {
            let stderr = stderr.to_owned();
            let ended = ProgramOutput { succeeded, stderr, ..ProgramOutput::default() };
            detail_error(&ended, has_records, start).map(|error| error.kind)
        };
        assert_eq!(kind(false, PURGED, false, "scontrol: "), None);
        assert_eq!(kind(false, PURGED, true, ""), None);
        assert_eq!(kind(true, PURGED, false, "scontrol: "), None);
        assert_eq!(kind(true, "", false, "No jobs in the system"), None);
        assert_eq!(kind(true, "", true, ""), None);
        let lost =
            PURGED.to_owned() + "slurm_load_jobs error: Unable to contact slurm controller\n";
        assert_eq!(kind(false, &lost, true, ""), Some(SchedulerErrorKind::ControllerDown));
        let other = PURGED.to_owned() + "slurm_load_jobs error: Unexpected message received\n";
        assert_eq!(kind(false, &other, true, ""), Some(SchedulerErrorKind::Other));
        assert_eq!(kind(false, "", true, ""), Some(SchedulerErrorKind::Other));
        for start in ["", "scontrol: ", "System maintenance"] {
            let found = kind(true, "", false, start);
            assert_eq!(found, Some(SchedulerErrorKind::UnexpectedOutput), "{start}");
        }
    }

    #[test]
    fn node_addresses_of_sinfo_are_used_if_they_are_valid() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let names = ["named", "cased", "at", "host", "hostile", "user", "unlisted"];
        let nodes: BTreeSet<NodeName> = names.map(node).into();
        let output = "named|named|named\ncased|Cased|CASED\nat | 10.0.0.1 | at\nhost|host|host-ib\n\
            hostile|-oProxyCommand=x|a b\nuser|root@10.0.0.9|10.0.0.8/24\nother|10.0.0.7|x\nbad line\n";
        let addresses: Vec<_> = parse_addresses(output, &nodes)
            .into_iter()
            .filter_map(|(node, address)| Some((node, address?)))
            .collect();
        let pair = |node: &str, address: &str| (node.to_owned(), address.to_owned());
        assert_eq!(addresses, [pair("at", "10.0.0.1"), pair("host", "host-ib")]);
        assert_eq!(parse_addresses(output, &nodes).len(), names.len());
    }
}
