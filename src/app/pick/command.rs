//! The command of `gtop pick`, which gtop becomes, or runs on the node of the devices.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::app::env::Env;
use crate::app::pick::{Outcome, PickError, become_program, on_node, shortage};
use crate::app::{AppError, ExitReason};
use crate::cli::PickOptions;
use gtop_fleet::Node;
use gtop_fleet::advice::shell_quoted;
use gtop_fleet::insight::pick::{EligibleDevice, PickRequest, Spread, variables};
use gtop_model::{NodeName, TransportKind, nodeset};

/// Options with a file of hosts; the first one stands before `pick`, where it has no other meaning.
const HOSTS_OPTIONS: [&str; 5] = ["-f", "--hosts-file", "--mpi-hostfile", "--pod-ips", "--podips"];

/// Becomes the command, with the variables of the devices, or runs it on their node.
pub(super) fn run_command(
    env: &mut Env,
    options: &PickOptions,
    outcome: &Outcome,
    streams: (&mut impl Write, &mut impl Write),
) -> Result<ExitReason, AppError> {
    let Outcome { fleet, request, picks, has_uuids, .. } = outcome;
    let Some((program, args)) = options.command.split_first() else { return Ok(ExitReason::Done) };
    let command = program.to_string_lossy().into_owned();
    if !picks.is_enough {
        return Err(PickError::TooFew { command, shortage: shortage(picks, request) }.into());
    }
    let picked: Vec<&EligibleDevice> = picks.picked.iter().collect();
    let variables = variables(&picked, *has_uuids);
    let mut nodes: Vec<&NodeName> = picks.picked.iter().map(|device| &device.node).collect();
    nodes.dedup();
    let mut names = nodes.iter().copied();
    let Some(node) = names.find(|name| !fleet.node(name).is_some_and(|node| is_this_machine(node)))
    else {
        let error = become_program(program, args, &variables);
        return Err(if error.kind() == io::ErrorKind::NotFound {
            PickError::CommandNotFound(command).into()
        } else {
            PickError::NotExecutable(command).into()
        });
    };
    if options.on_node {
        if fleet.node(node).is_some_and(|node| node.via == Some(TransportKind::Step)) {
            return Err(PickError::InStep { node: node.label().to_owned() }.into());
        }
        let target = outcome.targets.iter().find(|target| target.name == *node);
        if let Some(target) = target {
            return on_node::run(env, target, &options.command, &variables, streams);
        }
    }
    let labels: BTreeSet<&str> = nodes.iter().map(|name| name.label()).collect();
    let remedy = elsewhere_remedy(env, request, (node, labels.len()));
    Err(PickError::Elsewhere { command, node: nodeset::fold(labels), remedy }.into())
}

/// Returns what to do about devices that are on other nodes: the first one, and how many there are.
fn elsewhere_remedy(env: &Env, request: &PickRequest, (node, nodes): (&NodeName, usize)) -> String {
    if env.cli.nodes.demo.is_some() {
        return "simulated nodes run no commands".to_owned();
    }
    if !request.jobs.is_empty() {
        return "start gtop pick with srun".to_owned();
    }
    if matches!(request.spread, Spread::Nodes(2..)) {
        return "a command runs on one node: leave out --nodes and add --on-node".to_owned();
    }
    if nodes > 1 {
        return "a command runs on one node: --on-node runs it on one that has all of them, so ask for fewer".to_owned();
    }
    let line = on_node_line(std::env::args_os().skip(1), node);
    format!("this runs it there: {line}")
}

/// Returns the command line with `--on-node`, quoted for a shell. A list of hosts that was piped in cannot be read again:
/// the picked node is named instead.
fn on_node_line(args: impl Iterator<Item = OsString>, node: &NodeName) -> String {
    let mut args = args.map(|arg| arg.to_string_lossy().into_owned()).peekable();
    let mut words = Vec::new();
    let (mut place, mut is_piped) = (None, false);
    while let Some(arg) = args.next() {
        if arg == "--" {
            words.push(arg);
            break;
        }
        let is_split =
            HOSTS_OPTIONS.contains(&&*arg) && args.next_if(|file| is_pipe(file)).is_some();
        if is_split || has_pipe(&arg) {
            is_piped = true;
            continue;
        }
        let is_first = arg == "pick" && place.is_none();
        words.push(arg);
        place = if is_first { Some(words.len()) } else { place };
    }
    words.extend(args);
    if let Some(place) = place {
        let host = is_piped.then(|| node.host().to_owned());
        words.splice(place..place, ["--on-node".to_owned()].into_iter().chain(host));
    }
    words.iter().fold("gtop".to_owned(), |line, word| format!("{line} {}", shell_quoted(word)))
}

/// Returns true if an argument is an option with a pipe that it reads hosts from.
fn has_pipe(word: &str) -> bool {
    let parts = word.split_once('=').or_else(|| word.split_at_checked("-f".len()));
    parts.is_some_and(|(name, file)| HOSTS_OPTIONS.contains(&name) && is_pipe(file))
}

/// Returns true for the names of standard input and other open files.
fn is_pipe(file: &str) -> bool {
    let places = ["/dev/stdin", "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"];
    file == "-" || places.iter().any(|place| file.starts_with(place))
}

/// Returns true if a node is the machine that gtop runs on, however it is reached.
fn is_this_machine(node: &Node) -> bool {
    if node.via == Some(TransportKind::Local) {
        return true;
    }
    let Some(hello) = &node.hello else { return false };
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let system = rustix::system::uname();
    !hello.host.boot_id.is_empty()
        && *hello.host.boot_id == *boot_id.trim()
        && system.nodename().to_str() == Ok(&*hello.host.host_name)
}

/// Fails if a program does not exist or cannot be executed.
pub(super) fn check_program(program: &OsStr) -> Result<(), PickError> {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(&folders).map(|folder| folder.join(program)).collect()
    };
    if candidates.iter().any(|path| is_executable(path)) {
        return Ok(());
    }
    let name = program.to_string_lossy().into_owned();
    let exists = !program.is_empty() && candidates.iter().any(|path| path.exists());
    Err(if exists { PickError::NotExecutable(name) } else { PickError::CommandNotFound(name) })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_works_has_the_words_quoted() {
        let node = NodeName::labelled("gpu1", "10.0.0.1").unwrap();
        let line = |words: &[&str]| on_node_line(words.iter().map(OsString::from), &node);
        let words =
            ["--login", "ada", "pick", "-n", "1", "gpu[1-2]", "--", "sh", "-c", "pick it's"];
        let expected = r"gtop --login ada pick --on-node -n 1 'gpu[1-2]' -- sh -c 'pick it'\''s'";
        assert_eq!(line(&words), expected);
        let expected = "gtop pick --on-node 10.0.0.1 -n 1 -f 1G -- cat --hosts-file -";
        for piped in [
            &["pick", "--hosts-file", "-", "-n", "1", "-f", "1G"][..],
            &["pick", "-n", "1", "-f", "1G", "--hosts-file=-"],
            &["-f", "-", "pick", "-n", "1", "-f", "1G"],
            &["-f-", "pick", "-n", "1", "-f", "1G"],
            &["pick", "-n", "1", "--mpi-hostfile", "/dev/fd/63", "-f", "1G"],
            &["pick", "--pod-ips=/dev/stdin", "-n", "1", "-f", "1G"],
        ] {
            let words = [piped, &["--", "cat", "--hosts-file", "-"]].concat();
            assert_eq!(line(&words), expected);
        }
        let words = ["pick", "--hosts-file", "gpus", "--", "pick"];
        assert_eq!(line(&words), "gtop pick --on-node --hosts-file gpus -- pick");
    }
}
