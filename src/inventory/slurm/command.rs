//! Runs Slurm's commands with a time limit, an output limit and a controlled environment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::inventory::slurm::queue::{self, Queue};
use crate::inventory::slurm::{JobFilter, SlurmError, SlurmErrorKind};
use crate::model::{Job, JobId, NodeName};
use crate::nodeset;
use crate::process::{ProgramCall, ProgramOutput, run_program};

/// Limit for a command. Slurm itself reports a hanging controller after 20 s, with a better message.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of nodes in a command line.
const MAX_NODES_PER_COMMAND: usize = 1000;
/// Maximum bytes of output: 20,000 jobs take a fifth of it.
const MAX_OUTPUT_SIZE: usize = 24 << 20;

/// Runs `squeue` once; the jobs have no devices.
pub async fn fetch_jobs(filter: &JobFilter) -> Result<Vec<Job>, SlurmError> {
    Ok(fetch_queue(filter).await?.jobs)
}

/// Runs `squeue` and parses its output.
pub(super) async fn fetch_queue(filter: &JobFilter) -> Result<Queue, SlurmError> {
    let boundary = random_boundary();
    let answer = run_command("squeue", &queue::arguments(filter, &boundary), "").await?;
    let is_refused = !answer.succeeded || answer.stderr.contains("Invalid user");
    if is_refused {
        return Err(SlurmError::from_stderr("squeue", &answer.stderr));
    }
    let mut queue = queue::parse(&answer.stdout, &boundary, answer.is_truncated);
    match queue.error.take() {
        Some(message) => Err(SlurmError::unexpected_output("squeue", &message)),
        None => Ok(queue),
    }
}

/// Runs one `scontrol` with a `show job` line per job.
pub(super) async fn fetch_details(
    jobs: &BTreeMap<JobId, String>,
) -> Result<ProgramOutput, SlurmError> {
    let mut lines = String::new();
    for id in jobs.keys() {
        // Writing to a string cannot fail.
        _ = writeln!(lines, "show job {id}");
    }
    let answer = run_command("scontrol", &["-d"], &lines).await?;
    if answer.stdout.contains("JobId=") {
        return Ok(answer);
    }
    let error = SlurmError::from_stderr("scontrol", &answer.stderr);
    // The jobs have ended and were purged.
    let is_purged = error.kind == SlurmErrorKind::NoSuchJob;
    if is_purged || (answer.succeeded && answer.stdout.trim().is_empty()) {
        return Ok(answer);
    }
    if answer.succeeded {
        let message = queue::unexpected_output("scontrol", "job", &answer.stdout);
        return Err(SlurmError::unexpected_output("scontrol", &message));
    }
    Err(error)
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
    NodeName::new(text).is_ok_and(|name| !name.as_str().contains(['@', '/']))
}

pub(super) async fn run_command(
    program: &str,
    words: &[impl AsRef<OsStr>],
    input: &str,
) -> Result<ProgramOutput, SlurmError> {
    run_command_within(COMMAND_TIMEOUT, program, words, input).await
}

/// Runs a command of Slurm within a time limit.
pub async fn run_command_within(
    limit: Duration,
    program: &str,
    words: &[impl AsRef<OsStr>],
    input: &str,
) -> Result<ProgramOutput, SlurmError> {
    let words: Vec<_> = words.iter().map(|word| word.as_ref().to_owned()).collect();
    let call = ProgramCall {
        program: program.as_ref(),
        args: &words,
        input,
        // Unix times, independent of the time zone, and whole lists of the tasks of arrays.
        env: &[("LC_ALL", "C"), ("SLURM_TIME_FORMAT", "%s"), ("SLURM_BITSTR_LEN", "0")],
        // The user's variables would change the output.
        hides: |name| name.starts_with("SQUEUE_") || name.starts_with("SINFO_"),
        timeout: limit,
        max_stdout: MAX_OUTPUT_SIZE,
    };
    run_program(call)
        .await
        .map_err(|fault| SlurmError::from_run_error(program, &fault, limit.as_secs()))
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
