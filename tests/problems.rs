//! `gtop --problems` for scripts: its blocks, its exit status, and the commands that drain nodes, run by a shell.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");

fn gtop(args: &[&str]) -> Output {
    Command::new(GTOP).arg("--problems").args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the values of a key in the block of a problem.
fn values<'a>(text: &'a str, problem: &str, key: &str) -> Vec<&'a str> {
    let mut blocks = text.split("\n\n");
    let block = blocks.find(|block| block.starts_with(&format!("problem: {problem}")));
    let block = block.unwrap_or_else(|| panic!("no block of {problem}: {text}"));
    block.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
}

#[test]
fn each_kind_is_a_block_and_its_drain_command_is_safe_in_a_shell() {
    let output = gtop(&["--demo=12", "--seed", "1"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(values(&text, "connection refused", "nodes"), ["gpu12"]);
    assert_eq!(values(&text, "connection refused", "drain"), [""; 0]);
    assert!(values(&text, "connection refused", "remedy")[0].contains("systemctl start sshd"));
    assert_eq!(values(&text, "device lost", "nodes"), ["gpu04"]);
    assert_eq!(values(&text, "device lost", "count"), ["1"]);
    let devices = values(&text, "device lost", "device");
    assert!(devices.len() == 1 && devices[0].starts_with("gpu04 7 GPU-"), "{devices:?}");
    for line in text.lines().filter(|line| !line.is_empty()) {
        let key = line.split(": ").next().unwrap();
        assert!(key.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}");
    }
    let drain = values(&text, "device lost", "drain");
    let [command] = drain[..] else { panic!("{drain:?}") };
    assert_eq!(
        words_of(command),
        ["update", "NodeName=gpu04", "State=DRAIN", "Reason=gtop: device lost"]
    );
}

/// Returns what a shell passes to `scontrol`.
fn words_of(command: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let scontrol = folder.path().join("scontrol");
    std::fs::write(&scontrol, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    std::fs::set_permissions(&scontrol, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let output = Command::new("sh").args(["-c", command]).env("PATH", path).output().unwrap();
    text(&output).lines().map(str::to_owned).collect()
}

#[test]
fn nodes_that_match_a_filter_and_have_no_problem_are_said_to_have_none() {
    let output = gtop(&["--demo=12", "--seed", "1", "--filter", "node=gpu01"]);
    assert_eq!((output.status.code(), &*text(&output)), (Some(0), NO_PROBLEM));
    let output = gtop(&["--demo=12", "--seed", "1", "--filter", "node=gpu99"]);
    assert_eq!(text(&output), "no node matches the filter\n");
    let output = gtop(&["--demo=12", "--seed", "1", "--filter", "node=gpu12"]);
    assert_eq!(values(&text(&output), "connection refused", "nodes"), ["gpu12"]);
    assert_eq!(text(&output).matches("problem: ").count(), 1, "{output:?}");
}

const NO_PROBLEM: &str = "no problems among the 1 of 12 nodes that match the filter\n";

#[test]
fn the_status_tells_that_no_node_answered() {
    let output = gtop(&["--exec", "exit 3 # {node}", "gpu01", "gpu02", "--deadline", "30"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("\nnodes: gpu[01-02]\ncount: 2\nsince: before 20"), "{text}");
}
