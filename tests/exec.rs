//! Nodes reached by `--exec`: real shells and wrappers, their failures, and their cleanup.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder with the wrappers of one test.
struct WrapperFolder(tempfile::TempDir);

impl WrapperFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a wrapper and returns its path.
    fn wrapper(&self, text: &str) -> PathBuf {
        let path = self.0.path().join("wrapper");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

fn gtop(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gtop"));
    command.args(arguments).env("HOME", "/nowhere").env_remove("SSH_AUTH_SOCK").output().unwrap()
}

fn run_snapshot(arguments: &[&str]) -> Value {
    let done = gtop(&[&["--json", "--deadline", "60"], arguments].concat());
    let text = String::from_utf8(done.stdout).unwrap();
    serde_json::from_str(&text)
        .unwrap_or_else(|_| unreachable!("{}", String::from_utf8_lossy(&done.stderr)))
}

fn fault(snapshot: &Value, index: usize) -> String {
    snapshot["nodes"][index]["fault"].to_string()
}

#[test]
fn a_shell_that_reads_stdin_runs_the_probe() {
    for command in [
        "env NODE={node} sh",
        "env NODE={node} dash",
        "env NODE={node} bash",
        "env X={node} busybox sh",
    ] {
        let snapshot = run_snapshot(&["--exec", command, "pod-1"]);
        let node = &snapshot["nodes"][0];
        assert_eq!(
            (node["name"].as_str(), node["link"].as_str()),
            (Some("pod-1"), Some("up")),
            "{command}: {node}"
        );
        assert_eq!(node["transport"], "exec");
        assert!(
            node["host"]["cpu_utilization_percent"].is_number() || node["host"].is_object(),
            "{node}"
        );
    }
}

#[test]
fn the_documented_kubectl_command_reaches_pods() {
    let folder = WrapperFolder::new();
    // Like kubectl: the command after `--` runs in the pod, and gets stdin only with -i.
    let wrapper = folder.wrapper(
        "[ \"$1 $2 $4 $#\" = 'exec -i -- 5' ] || exit 9\nexport HOSTNAME=$3\nshift 4\nexec \"$@\"",
    );
    let page = include_str!("../docs/transports.md");
    let command = "kubectl exec -i {node} -- sh";
    assert!(page.contains(&format!("--exec '{command}'")));
    let command = command.replace("kubectl", &wrapper.display().to_string());
    let snapshot = run_snapshot(&["--exec", &command, "pod-[0-1]"]);
    for index in 0..2 {
        let node = &snapshot["nodes"][index];
        assert_eq!((&node["link"], &node["name"]), (&"up".into(), &format!("pod-{index}").into()));
    }
    let without = command.replace(" -i", "");
    let snapshot = run_snapshot(&["--exec", &without, "pod-0"]);
    assert!(fault(&snapshot, 0).contains("exit status 9"), "{}", fault(&snapshot, 0));
}

#[test]
fn a_wrapper_may_get_the_command_as_an_argument() {
    let folder = WrapperFolder::new();
    // Like docker and kubectl: options, a name, and a command with its arguments.
    let log = folder.0.path().join("log");
    let wrapper = folder.wrapper(&format!(
        "[ \"$1 $2\" = 'exec -i' ] || exit 9\necho \"$3\" >>{}\nshift 3\nexec \"$@\"",
        log.display()
    ));
    let command = format!("'{}' exec -i \"{{node}}\" sh -c {{command}}", wrapper.display());
    let snapshot = run_snapshot(&["--exec", &command, "pod-[1-3]"]);
    for index in 0..3 {
        assert_eq!(snapshot["nodes"][index]["link"], "up", "{}", fault(&snapshot, index));
    }
    let mut seen: Vec<_> =
        std::fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, ["pod-1", "pod-2", "pod-3"]);
}

#[test]
fn no_local_shell_expands_the_command() {
    let folder = WrapperFolder::new();
    let file = folder.0.path().join("marker");
    let marker = format!("env X={{node}} 'A=$(touch {})' sh", file.display());
    assert_eq!(run_snapshot(&["--exec", &marker, "pod-1"])["nodes"][0]["link"], "up");
    assert!(!file.exists());
}

#[test]
fn the_reason_of_a_failed_command_is_reported() {
    let folder = WrapperFolder::new();
    let wrapper = folder
        .wrapper("echo 'Error from server (NotFound): pods \"'$1'\" not snapshot' >&2; exit 1");
    let command = format!("{} {{node}}", wrapper.display());
    let snapshot = run_snapshot(&["--exec", &command, "pod-1"]);
    let detail = &snapshot["nodes"][0]["fault"]["detail"];
    assert!(
        detail.as_str().unwrap().ends_with("(NotFound): pods \"pod-1\" not snapshot"),
        "{detail}"
    );
    let snapshot = run_snapshot(&["--exec", "sh -c 'exit 3' {node}", "pod-1"]);
    assert!(fault(&snapshot, 0).contains("exit status 3"), "{}", fault(&snapshot, 0));
    let snapshot = run_snapshot(&["--exec", "/nowhere/kubectl {node}", "pod-1"]);
    assert!(
        fault(&snapshot, 0).contains("cannot start /nowhere/kubectl"),
        "{}",
        fault(&snapshot, 0)
    );
    // A command that exits at once with status 0 is a failure too.
    let snapshot = run_snapshot(&["--exec", "true {node}", "pod-1"]);
    assert!(fault(&snapshot, 0).contains("exit status 0"), "{}", fault(&snapshot, 0));
    for (command, words) in [
        ("kubectl exec", "put {node} where"),
        ("kubectl 'x {node}", "unclosed"),
        ("", "empty value; leave the option out"),
    ] {
        let done = gtop(&["--once", "--exec", command, "pod-1"]);
        let error = String::from_utf8(done.stderr).unwrap();
        assert!(error.contains(words), "{command}: {error}");
        assert_eq!(done.status.code(), Some(2), "{command}");
    }
}

#[test]
fn a_node_reconnects_although_the_gtop_binary_was_replaced() {
    let folder = WrapperFolder::new();
    let (flag, gtop) = (folder.0.path().join("is-there"), folder.0.path().join("gtop"));
    std::fs::copy(env!("CARGO_BIN_EXE_gtop"), &gtop).unwrap();
    let text = format!("[ -e {} ] || exit 3\nexec sh", flag.display());
    let command = format!("{} {{node}}", folder.wrapper(&text).display());
    let mut watch = Command::new(&gtop)
        .args(["--json", "--watch", "--interval", "0.2", "--exec", &command, "pod-1"])
        .env("HOME", "/nowhere")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let snapshots = std::io::BufReader::new(watch.stdout.take().unwrap());
    let (mut was_away, mut is_there) = (false, false);
    for snapshot in serde_json::Deserializer::from_reader(snapshots).into_iter::<Value>() {
        let node = snapshot.unwrap()["nodes"][0].clone();
        let fault = node["fault"].to_string();
        if fault != "null" && !fault.contains("exit status 3") {
            watch.kill().unwrap();
            panic!("{fault}");
        }
        if !was_away && fault != "null" {
            was_away = true;
            // Like an upgrade; the new binary exits at once.
            std::fs::remove_file(&gtop).unwrap();
            std::fs::copy("/bin/false", &gtop).unwrap();
            std::fs::write(&flag, "").unwrap();
        }
        is_there = node["link"] == "up" && node["fault"].is_null() && node["host"].is_object();
        if is_there {
            break;
        }
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(was_away && is_there);
}

#[test]
fn the_process_group_of_a_hanging_command_ends_with_gtop() {
    let folder = WrapperFolder::new();
    let pids = folder.0.path().join("pids");
    // Both processes ignore the end of their stdin.
    let wrapper = folder.wrapper(&format!("sleep 1000 & echo $! $$ >{}; wait", pids.display()));
    let command = format!("{} {{node}}", wrapper.display());
    let done = gtop(&["--once", "--deadline", "2", "--exec", &command, "pod-1"]);
    assert_eq!(done.status.code(), Some(1));
    for pid in std::fs::read_to_string(pids).unwrap().split_whitespace() {
        let has_exited = || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let mut tries = 0;
        while !has_exited() {
            tries += 1;
            assert!(tries < 300, "{pid} is still there");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn doctor_reports_the_exec_command() {
    let done = gtop(&["doctor", "--exec", "env X={node} sh", "pod-1"]);
    let report = String::from_utf8(done.stdout).unwrap();
    assert!(report.contains("exec command") && report.contains("env X=pod-1 sh"), "{report}");
    assert!(!report.contains("configuration") && !report.contains("ssh_config"), "{report}");
    assert_eq!(done.status.code(), Some(0), "{report}");
    let done = gtop(&["doctor", "--exec", "sh -c 'echo no >&2; exit 1' {node}", "pod-1"]);
    let report = String::from_utf8(done.stdout).unwrap();
    assert!(
        report.contains("FAILED  exec command") && report.contains("> run the command by hand"),
        "{report}"
    );
    assert_eq!(done.status.code(), Some(1), "{report}");
    let done = gtop(&["trust", "--exec", "env X={node} sh", "pod-1"]);
    let stdout = String::from_utf8(done.stdout).unwrap();
    assert!(stdout.contains("shows no host key"), "{stdout}");
}
