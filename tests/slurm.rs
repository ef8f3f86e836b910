//! Slurm jobs: the control groups of their processes in real versions, and Slurm commands that are missing,
//! fail, hang, print noise, or print too much.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gtop_collect::inventory::{JobTargets, Roster};
use gtop_collect::scheduler::{JobFilter, PollRequest, Scheduler, SchedulerKind};
use gtop_collect::wire::{Decoder, FrameReader, Received};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{
    DeviceAllocation, FinishedJob, FinishedJobs, Job, JobId, JobList, JobOutcome, NodeName,
    NodeUpdate, Sample,
};
use tokio::sync::watch;

const GROUPS: &str = include_str!("fixtures/slurm/control-groups.txt");

/// Reads each record as a file of /proc, and prints what the probe makes of it.
const READER: &str = r"
import sys
source, groups = sys.stdin.read().split('\n%%%%\n', 1)
space = {'CLAIMS': [['slurm', 'SLURM_JOB_ID', 'SLURM_STEP_ID']]}
exec(compile(source, 'probe', 'exec'), space)
for record in groups.split('== ')[1:]:
    title, _, text = record.partition('\n')
    space['read'] = lambda path, most: text.encode()
    print(title + ' ' + space['cgroup'](1))
";

/// Returns the Slurm version and process, the expected job, and the control group that the probe reports.
fn recorded_cgroups() -> Vec<(String, String, String)> {
    let source = include_str!("../probes/processes.py");
    let mut python = Command::new("python3")
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = format!("{source}\n%%%%\n{GROUPS}");
    python.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
    };
    String::from_utf8(output.stdout).unwrap().lines().map(line).collect()
}

/// Returns the job that gtop derives from a control group.
fn job(cgroup: &str) -> Option<String> {
    let mut reader = FrameReader::default();
    let process = format!(r#"{{"pid":7,"start":1,"cgroup":{cgroup:?},"command":"x"}}"#);
    let sample =
        format!(r#"{{"t":"sample","n":1,"at":1.0,"processes":{{"at":1.0,"list":[{process}]}}}}"#);
    reader.push(format!("\u{1e}gtop1 {sample}\n"));
    let Some(Received::Frame(frame)) = reader.next_frame() else { return None };
    let mut decoder = Decoder::default();
    let Some(NodeUpdate::Sample(sample)) =
        decoder.decode(&frame.body, Timestamp::from_micros(2_000_000))
    else {
        return None;
    };
    let Sample { processes, .. } = *sample;
    let process = processes?.list.into_iter().next()?;
    let statics = process.statics?;
    let job = statics.job.as_ref().map(ToString::to_string);
    job.or_else(|| Some(statics.job_alias.as_ref()?.to_string()))
}

#[test]
fn a_process_of_every_version_belongs_to_its_job() {
    let records = recorded_cgroups();
    assert_eq!(records.len(), 40);
    for (source, expected, cgroup) in records {
        let expected = (expected != "-").then_some(expected);
        assert_eq!(job(&cgroup), expected, "{source}: {cgroup}");
    }
}

/// Runs `gtop --slurm` where these are the only programs, and returns its exit status and what it
/// printed.
fn gtop(programs: &[(&str, &str)], words: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    put_programs(folder.path(), programs);
    run(folder.path(), words)
}

fn put_programs(folder: &Path, programs: &[(&str, &str)]) {
    for (name, text) in programs {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn run(path: &Path, words: &[&str]) -> (i32, String) {
    let (status, out, stderr) = run_with_stderr(path, words);
    assert!(stderr.is_empty(), "{stderr}");
    (status, out)
}

/// The name of this user by `id`; `USER` has another, as after `sudo -E`.
fn own_name() -> String {
    let done = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Runs gtop as [`run`] does, and returns its stderr too.
fn run_with_stderr(path: &Path, words: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(words)
        .env("PATH", path)
        .env("HOME", path)
        .env("USER", "alice")
        .env("SQUEUE_FORMAT", "%i")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// A stub of `squeue` in Python; `record` prints a job.
const SQUEUE: &str = r"#!/usr/bin/python3 -IS
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
form = [word for word in sys.argv if word.startswith('--format=')][0][len('--format='):]
mark, *letters = form.split('\x1f')
def put(fields):
    print(mark + '\x1f' + '\x1f'.join(map(str, fields)) + mark, flush=True)
def titles():
    put(['JOBID'] + ['X'] * (len(letters) - 1))
def record(number, state='PENDING', nodes='', name='x', reason='Resources'):
    put([number, number, 'alice', 'gpu', 'phys', state, 1795269430, 1795269440, 'N/A', '1:00:00', '0:07', 2, nodes, reason, name])
";

/// The same that prints the header and then runs more code.
fn squeue(more: &str) -> String {
    format!("{SQUEUE}titles()\n{more}\n")
}

/// A stub of `sinfo` in Python: a node in two partitions, and a drained one.
const SINFO: &str = r"#!/usr/bin/python3 -IS
import os, sys
assert not [name for name in os.environ if name.startswith('SINFO_')]
form = [word for word in sys.argv if word.startswith('--format=')]
mark, *letters = form[0][len('--format='):].split('\x1f')
def put(*fields):
    print(mark + '\x1f' + '\x1f'.join(fields) + mark)
put('NODELIST', 'PARTITION', 'STATE', 'AVAIL_FEATURES', 'GRES', 'REASON')
put('a.invalid', 'gpu', 'mixed', 'ib', 'gpu:h100:8(S:0-1)', 'none')
put('a.invalid', 'debug', 'mixed', 'ib', 'gpu:h100:8(S:0-1)', 'none')
put('b.invalid', 'gpu', 'drained*', '(null)', 'gpu:h100:8(S:0-1)', 'bad\x1f \x1b[31mcable|x')
put('c.invalid', 'cpu', 'idle', '(null)', '(null)', 'none')
";

/// A stub of `scontrol` in Python that prints what jobs have on the nodes, and a reason with a fake record.
const NODE_USE: &str = r"#!/usr/bin/python3 -IS
import os, sys
def node(name, gres, used, state='MIXED', reason='none'):
    print('NodeName=%s Arch=x86_64 CoresPerSocket=32 \n   Gres=%s\n   GresDrain=N/A\n   GresUsed=%s' % (name, gres, used))
    print('   NodeAddr=x NodeHostName=x Version=22.05.8\n   State=%s ThreadsPerCore=1\n   Partitions=gpu ' % state)
    print('   BootTime=1795225000 SlurmdStartTime=1795225429\n   CfgTRES=cpu=64\n   Reason=%s\n' % reason)
if sys.argv[-1] == 'config':
    print('PrivateData             = none')
if sys.argv[-1] == 'node':
    node('a.invalid', 'gpu:h100:8', 'gpu:h100:3(IDX:0-2)')
    node('b.invalid', 'gpu:h100:8', 'gpu:h100:0(IDX:N/A)', 'IDLE+DRAIN+NOT_RESPONDING',
         'bad\x1f \x1b[31mcable|x [root@2026-11-27T12:00:00]\n   GresUsed=gpu:h100:8(IDX:0-7)')
";

/// Runs `gtop` with this `sinfo` and a `squeue` without jobs.
fn gtop_with_sinfo(words: &[&str]) -> (i32, String) {
    gtop(&[("squeue", &squeue("")), ("sinfo", SINFO), ("scontrol", NODE_USE)], words)
}

#[test]
fn all_nodes_of_a_partition_are_watched_with_what_slurm_says_of_them() {
    let words = ["--slurm", "--partition", "gpu", "--all-nodes", "--json", "--deadline", "3"];
    let (_, out) = gtop_with_sinfo(&words);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let nodes = out["nodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.invalid", "b.invalid"]);
    let [shared, drained] = [&nodes[0]["scheduler"], &nodes[1]["scheduler"]];
    assert_eq!(shared["partitions"], serde_json::json!(["gpu", "debug"]));
    let devices = |node: &serde_json::Value| {
        (node["devices"].as_u64(), node["devices_allocated"].as_u64(), node["takes_jobs"].as_bool())
    };
    assert_eq!(devices(shared), (Some(8), Some(3), Some(true)));
    assert_eq!(devices(drained), (Some(8), Some(0), Some(false)));
    assert_eq!(drained["state"], "drained");
    let reason = drained["reason"].as_str().unwrap();
    assert!(reason.starts_with("bad") && reason.ends_with("cable|x"), "{reason:?}");
    assert!(!reason.contains('\u{1b}'), "{reason:?}");
}

#[test]
fn an_unknown_partition_is_named_with_those_that_exist() {
    let words = ["--slurm", "--partition", "gpux", "--all-nodes", "--once", "--deadline", "3"];
    let (status, out) = gtop_with_sinfo(&words);
    assert_eq!(status, 1);
    let sentence = "Slurm has no partition \"gpux\"; use one of gpu, cpu, debug";
    assert!(out.contains(sentence), "{out}");
    // The list of jobs is as new as without it.
    let (_, out) = gtop_with_sinfo(&["--slurm", "--partition", "gpux", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["roster"]["notes"], serde_json::json!([sentence]));
    assert_eq!(out["roster"]["problem"], serde_json::Value::Null);
}

#[test]
fn a_hidden_partition_is_known_to_whom_names_it() {
    let hidden = format!(
        "{SINFO}if '--all' in sys.argv: put('d.invalid', 'secret', 'idle', '(null)', '(null)', 'none')\n"
    );
    let names = |words: &[&str]| {
        let scontrol = NODE_USE.to_owned();
        let programs = [("squeue", squeue("")), ("sinfo", hidden.clone()), ("scontrol", scontrol)];
        let programs = programs.each_ref().map(|(name, text)| (*name, text.as_str()));
        let (_, out) = gtop(&programs, &[words, &["--json", "--deadline", "3"]].concat());
        let out: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(out["roster"]["notes"], serde_json::json!([]));
        let nodes = out["nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--all-nodes", "--partition", "secret"]), ["d.invalid"]);
    assert_eq!(names(&["--all-nodes"]), ["a.invalid", "b.invalid", "c.invalid"]);
}

#[test]
fn the_first_snapshot_has_what_a_slow_sinfo_says_of_nodes() {
    let slow = SINFO.replace("import os, sys\n", "import os, sys, time\ntime.sleep(1)\n");
    let squeue = squeue("record(1, 'RUNNING', 'b.invalid')");
    let (_, out) = gtop(&[("squeue", &squeue), ("sinfo", &slow)], &["--slurm", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["nodes"][0]["scheduler"]["state"], "drained");
}

/// A program that never answers.
const HANGS: &str = "#!/bin/sh\nexec /bin/sleep 1000\n";

/// Runs `gtop --json` with these programs until a deadline that is long enough for all but those parts to be answered;
/// returns what it printed, and its notice with `SECONDS` for the deadline.
fn gtop_until_deadline(
    programs: &[(&str, &str)],
    unanswered: &[&str],
) -> (serde_json::Value, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in programs {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut last = None;
    for seconds in ["4", "16", "64"] {
        let words = ["--slurm", "--all-nodes", "--json", "--deadline", seconds];
        let (_, out, notice) = run_with_stderr(folder.path(), &words);
        let out: serde_json::Value = serde_json::from_str(&out).unwrap();
        let is_expected = out["roster"]["unanswered"] == serde_json::json!(unanswered);
        last = Some((out, notice.replace(&format!("within {seconds} s"), "within SECONDS s")));
        if is_expected {
            break;
        }
    }
    last.unwrap()
}

#[test]
fn what_is_answered_is_shown_while_one_program_hangs_and_a_notice_names_the_rest() {
    let squeue = squeue("record(7, 'RUNNING', 'a.invalid')");
    let jobs = format!(
        "{NODE_USE}{}",
        r"
if sys.argv[-1] not in ('config', 'node'):
    print('JobId=7 JobName=x\n   JOB_GRES=gpu:2\n     Nodes=a.invalid CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)\n   MinCPUsNode=1\n')
"
    );
    let hanging = |mode: &str| {
        let hang = format!("import time\nif sys.argv[-1] {mode}: time.sleep(1000)\n");
        jobs.replacen("import os, sys\n", &format!("import os, sys\n{hang}"), 1)
    };
    // scontrol replaces sinfo.
    let programs = [("squeue", &*squeue), ("sinfo", HANGS), ("scontrol", &*jobs)];
    let (out, notice) = gtop_until_deadline(&programs, &[]);
    assert_eq!((&out["roster"]["unanswered"], &*notice), (&serde_json::json!([]), ""));
    assert_eq!(out["jobs"][0]["allocations"][0]["places"], serde_json::json!([0, 1]));
    assert_eq!(out["nodes"][0]["scheduler"]["devices_allocated"], 3);
    for (sinfo, scontrol, unanswered, text) in [
        (SINFO, hanging("== 'node'"), "node_devices", "which devices of the nodes are in use"),
        (SINFO, hanging("== '--details'"), "job_devices", "which devices the jobs have"),
    ] {
        let programs = [("squeue", &*squeue), ("sinfo", sinfo), ("scontrol", &*scontrol)];
        let (out, notice) = gtop_until_deadline(&programs, &[unanswered]);
        assert_eq!(out["roster"]["unanswered"], serde_json::json!([unanswered]));
        let sentence = format!(
            "gtop: Slurm did not report {text} within SECONDS s; --deadline SECONDS waits longer\n"
        );
        assert_eq!(notice, sentence);
        let places = &out["jobs"][0]["allocations"][0]["places"];
        let node = &out["nodes"][0]["scheduler"];
        let answers = [
            (*places == serde_json::json!([0, 1]), "job_devices"),
            (node["devices_allocated"] == 3, "node_devices"),
            (node["features"] == serde_json::json!(["ib"]), "node_states"),
        ];
        for (is_known, part) in answers {
            assert_eq!(is_known, part != unanswered, "{part} without {unanswered}: {out}");
        }
        assert_eq!(out["roster"]["jobs_without_devices"], u32::from(unanswered == "job_devices"));
    }
}

#[test]
fn a_squeue_that_fails_at_once_delays_nothing_and_the_rest_is_awaited() {
    let fails = "#!/bin/sh\necho 'squeue: oops' >&2\nexit 1\n";
    let slow = SINFO.replace("import os, sys\n", "import os, sys, time\ntime.sleep(1)\n");
    let programs = [("squeue", fails), ("sinfo", &*slow), ("scontrol", fails)];
    let (out, notice) = gtop_until_deadline(&programs, &[]);
    assert_eq!(out["roster"]["problem"]["sentence"], "squeue failed: squeue: oops");
    assert_eq!(out["nodes"].as_array().unwrap().len(), 3, "{out}");
    assert_eq!(out["roster"]["unanswered"], serde_json::json!([]));
    assert_eq!(notice, "");
    let programs = [("squeue", fails), ("sinfo", HANGS), ("scontrol", fails)];
    let (out, notice) = gtop_until_deadline(&programs, &["node_states"]);
    assert_eq!(out["roster"]["unanswered"], serde_json::json!(["node_states"]));
    assert!(notice.contains("did not report the states of the nodes within SECONDS s"), "{notice}");
}

/// Runs `gtop --all-users` as a user who may not see all jobs, with this answer to `scontrol show config`; returns what
/// there is to know besides the jobs, and what was not answered.
fn gtop_of_all_users(config: &str) -> (serde_json::Value, serde_json::Value) {
    use std::os::unix::process::CommandExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let scontrol = NODE_USE.replace("    print('PrivateData             = none')\n", config);
    for (name, text) in [("squeue", &*squeue("")), ("sinfo", SINFO), ("scontrol", &*scontrol)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gtop"));
    if rustix::process::getuid().is_root() {
        command.uid(65_534);
    }
    let done = command
        .args(["--slurm", "--all-users", "--json", "--deadline", "4"])
        .env("PATH", folder.path())
        .env("HOME", folder.path())
        .env("USER", "alice")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut out: serde_json::Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|_error| panic!("{}", String::from_utf8_lossy(&done.stderr)));
    let roster = &mut out["roster"];
    (roster["notes"].take(), roster["unanswered"].take())
}

#[test]
fn whether_jobs_are_hidden_is_awaited_and_said() {
    let may_hide = "scontrol show config does not say whether Slurm hides other users' jobs from you; they may have \
                    devices that no listed job has";
    let hides = "PrivateData=jobs hides other users' jobs from you; they may have devices that no listed job has";
    for (config, note) in [
        ("    print('PrivateData = none')\n", None),
        ("    import time; time.sleep(1.5); print('PrivateData = jobs')\n", Some(hides)),
        ("    sys.exit(1)\n", Some(may_hide)),
        ("    print('news of the day')\n", Some(may_hide)),
    ] {
        let notes: Vec<&str> = note.into_iter().collect();
        let expected = (serde_json::json!(notes), serde_json::json!([]));
        assert_eq!(gtop_of_all_users(config), expected, "{config}");
    }
    let hangs = "    import time; time.sleep(1000)\n";
    assert_eq!(gtop_of_all_users(hangs).1, serde_json::json!(["hidden_jobs"]));
}

#[test]
fn without_sinfo_only_those_who_need_it_are_told() {
    let squeue = squeue("record(1)");
    for (sinfo, sentence) in [
        (None, "sinfo is not on the PATH of this machine; only nodes of jobs are shown"),
        (
            Some("#!/bin/sh\necho '<html>'\n"),
            "sinfo printed \"<html>\" instead of a list of nodes; only nodes of jobs are shown",
        ),
        (
            Some(
                "#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller' >&2\nexit 1\n",
            ),
            "the Slurm controller is down; only nodes of jobs are shown",
        ),
    ] {
        let sinfo = sinfo.map(|text| ("sinfo", text));
        let notes = |scontrol: &str, words: &[&str]| {
            let others = [("squeue", squeue.as_str()), ("scontrol", scontrol)];
            let programs: Vec<_> = others.into_iter().chain(sinfo).collect();
            let (_, out) = gtop(&programs, words);
            let out: serde_json::Value = serde_json::from_str(&out).unwrap();
            out["roster"]["notes"].clone()
        };
        let told = |found: &serde_json::Value| {
            found.as_array().unwrap().iter().any(|note| note == sentence)
        };
        assert!(told(&notes("#!/bin/sh\nexit 1\n", &["--all-nodes", "--json"])), "{sentence}");
        assert!(!told(&notes("#!/bin/sh\nexit 1\n", &["--slurm", "--json"])), "{sentence}");
        assert_eq!(notes(NODE_USE, &["--all-nodes", "--json"]), serde_json::json!([]));
    }
}

#[test]
fn until_sinfo_answers_all_nodes_are_those_of_scontrol() {
    for sinfo in ["#!/bin/sh\nexec sleep 1000\n", "#!/bin/sh\nexit 1\n"] {
        let programs = [("squeue", &*squeue("")), ("sinfo", sinfo), ("scontrol", NODE_USE)];
        for (partition, expected) in [("gpu", &["a.invalid", "b.invalid"][..]), ("cpu", &[])] {
            let words = ["--all-nodes", "--partition", partition, "--json", "--deadline", "8"];
            let (_, out) = gtop(&programs, &words);
            let out: serde_json::Value = serde_json::from_str(&out).unwrap();
            let nodes = out["nodes"].as_array().unwrap();
            let names: Vec<&str> =
                nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
            assert_eq!(names, expected, "{sinfo}");
            assert_eq!(out["roster"]["unanswered"], serde_json::json!([]), "{sinfo}");
        }
    }
}

#[test]
fn a_missing_squeue_is_reported() {
    let (status, out) = gtop(&[], &["--slurm", "--once"]);
    assert_eq!(status, 1);
    assert!(
        out.contains("\n\nsqueue is not on the PATH of this machine; start gtop on a login node"),
        "{out}"
    );
    // CSV has no place for it.
    let folder = tempfile::tempdir().unwrap();
    let (status, out, stderr) = run_with_stderr(folder.path(), &["--slurm", "--csv"]);
    assert_eq!((status, out.lines().count()), (1, 1), "{out}");
    let problem = "gtop: squeue is not on the PATH of this machine; start gtop on a login node";
    assert!(stderr.starts_with(problem), "{stderr}");
}

#[test]
fn user_alone_without_slurm_or_with_hosts_names_the_alternatives() {
    let bare = tempfile::tempdir().unwrap();
    let with = tempfile::tempdir().unwrap();
    let path = with.path().join("squeue");
    std::fs::write(&path, squeue("record(1)")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (folder, words, why) in [
        (&bare, &["--user", "ada", "--once"][..], "squeue is not on the PATH"),
        (&bare, &["--user", "ada", "doctor"], "squeue is not on the PATH"),
        (&with, &["--user", "ada", "gpu01", "--once"], "hosts are named"),
        (&with, &["--user", "ada", "doctor", "gpu01"], "hosts are named"),
    ] {
        let (status, _, stderr) = run_with_stderr(folder.path(), words);
        assert_eq!(status, 2, "{words:?}: {stderr}");
        for part in [why, "--slurm --user ada", "-l ada", "-u=ada"] {
            assert!(stderr.contains(part), "{words:?}: {stderr}");
        }
    }
    // With Slurm, or with --slurm, the option is accepted.
    for (folder, words) in [
        (&with, &["--user", "ada", "--once"][..]),
        (&with, &["--slurm", "--user", "ada", "--once"]),
        (&bare, &["--slurm", "--user", "ada", "--once"]),
        (&bare, &["--user", "ada", "--account", "phys", "--once"]),
    ] {
        let (status, out, stderr) = run_with_stderr(folder.path(), words);
        assert_eq!((status, stderr.as_str()), (1, ""), "{words:?}");
        assert!(out.contains("no running job of ada") || out.contains("squeue is not"), "{out}");
    }
}

#[test]
fn errors_of_squeue_have_a_message_of_gtop() {
    for (says, sentence) in [
        (
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            "the Slurm controller is down",
        ),
        (
            "slurm_load_jobs error: Socket timed out on send/recv operation",
            "the Slurm controller does not answer",
        ),
        (
            "squeue: error: Munge encode failed: Failed to connect",
            "munge, which authenticates users",
        ),
        (
            "squeue: fatal: Could not establish a configuration source",
            "Slurm's configuration was not found",
        ),
        (
            "squeue: error: _parse_next_key: Parsing error at unrecognized key: Foo\nsqueue: fatal: Unable to process \
             configuration file",
            "Slurm's configuration on this machine has an error: Parsing error at unrecognized key: Foo",
        ),
        ("squeue: oops \u{1b}[31m", "squeue failed: squeue: oops"),
    ] {
        let stub = format!("#!/bin/sh\necho '{says}' >&2\nexit 1\n");
        let (status, out) = gtop(&[("squeue", &stub)], &["--slurm", "--once"]);
        assert_eq!(status, 1);
        assert!(out.contains(&format!("\n\n{sentence}")) && !out.contains('\u{1b}'), "{out}");
    }
}

#[test]
fn a_job_that_has_ended_is_not_an_error() {
    let stub = "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n";
    let (_, out) = gtop(&[("squeue", stub)], &["--job", "7", "--once"]);
    assert!(
        out.contains("no running job numbered 7")
            && out.contains("job 7 is not in the queue: it has ended, or it never existed"),
        "{out}"
    );
    let (_, out) = gtop(&[("squeue", stub)], &["--job", "7", "--user", "bob", "--once"]);
    assert!(out.contains("no running job numbered 7 of bob"), "{out}");
    let stub = "#!/bin/sh\necho 'squeue: error: Invalid user: bob' >&2\n";
    let (_, out) = gtop(&[("squeue", stub)], &["--user", "bob", "--once"]);
    assert!(out.contains("Invalid user: bob; correct the options"), "{out}");
}

/// Stub commands for jobs that are not in the queue: 4 was cancelled a moment ago, 5 ended so long ago that
/// only the database knows it, 6 is no longer known.
const ABSENT: [(&str, &str); 3] = [
    ("squeue", "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n"),
    (
        "scontrol",
        "#!/bin/sh\ncase $* in\n*'show job 4') printf 'JobId=4 JobName=x\\n   JobState=CANCELLED Reason=None\\n' ;;\n\
         *'show config') printf 'NEXT_JOB_ID             = 9\\nPrivateData             = %s\\n' PRIVATE ;;\n\
         *) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;\nesac\n",
    ),
    ("sacct", "#!/bin/sh\ncase $* in *--jobs=5) echo 'TIMEOUT' ;; esac\n"),
];

#[test]
fn a_job_that_is_not_in_the_queue_is_explained() {
    for (private, job, sentence) in [
        ("none", "4", "job 4 was cancelled"),
        ("none", "5", "job 5 reached its time limit"),
        ("none", "6", "job 6 has ended; Slurm no longer knows how"),
        (
            "accounts,jobs",
            "6",
            "job 6 is not in the queue: it has ended, or PrivateData=jobs hides it from you",
        ),
        ("jobs", "9", "job 9 never existed: the next id is 9"),
        ("none", "8", "job 8 has ended; Slurm no longer knows how"),
        ("none", "77_3", "job 77_3 never existed: the next id is 9"),
    ] {
        let [squeue, (scontrol, text), sacct] = ABSENT;
        let text = text.replace("PRIVATE", private);
        let (status, out) = gtop(&[squeue, (scontrol, &text), sacct], &["--job", job, "--once"]);
        assert_eq!(status, 1);
        assert!(out.lines().any(|line| line == sentence), "{sentence}:\n{out}");
    }
}

#[test]
fn output_that_is_not_a_list_is_reported() {
    for (printed, sentence) in [
        ("echo '<html>'", "squeue printed \"<html>\" instead of a list of jobs; run it by hand"),
        ("true", "squeue printed nothing, not even a header; run it by hand"),
    ] {
        let stub = format!("#!/bin/sh\n{printed}\n");
        let (status, out) = gtop(&[("squeue", &stub)], &["--slurm", "--once"]);
        assert_eq!(status, 1);
        assert!(out.contains(sentence), "{out}");
    }
    let (_, out) = gtop(&[("squeue", &squeue("print('news of the day')"))], &["--slurm", "--once"]);
    assert!(out.contains(&format!("no running job of {}; submit one", own_name())), "{out}");
}

#[test]
fn a_hanging_squeue_delays_nothing_and_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let stub = format!("#!/bin/sh\necho $$ > {}\n/bin/sleep 1000\n", pid.display());
    let path = folder.path().join("squeue");
    std::fs::write(&path, stub).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["--slurm", "--once", "--deadline", "3"];
    let (status, out, notice) = run_with_stderr(folder.path(), &words);
    assert_eq!(status, 1);
    assert!(out.contains("\n\nasking Slurm which jobs run"), "{out}");
    assert!(notice.contains("Slurm did not report which jobs there are within 3 s"), "{notice}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let began = Instant::now();
    while !is_gone() {
        assert!(began.elapsed() < Duration::from_secs(60), "{stat} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn warnings_of_squeue_are_skipped() {
    let stub = squeue(
        "print('warning: plugin'); record(1); print('warning: more'); record(2, name='a\\n\\x1e\\x1fb')\n\
         sys.stderr.write('squeue: warning: x\\n' * 100000)\nassert 'SQUEUE_FORMAT' not in os.environ\n\
         assert os.environ['SLURM_TIME_FORMAT'] == '%s'",
    );
    let (_, out) = gtop(&[("squeue", &stub)], &["--slurm", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let jobs = out["jobs"].as_array().unwrap();
    let ids_and_names: Vec<_> = jobs.iter().map(|job| (&job["id"], &job["name"])).collect();
    assert_eq!(ids_and_names.len(), 2, "{out}");
    assert_eq!(
        (ids_and_names[0].1.as_str(), ids_and_names[1].1.as_str()),
        (Some("x"), Some("a   b"))
    );
    assert_eq!(jobs[0]["starts_at"], "2026-11-21T13:57:20Z");
    assert_eq!((&jobs[0]["account"], &jobs[0]["reason"]), (&"phys".into(), &"Resources".into()));
    assert_eq!(out["roster"]["problem"], serde_json::Value::Null);
}

#[test]
fn too_many_jobs_are_truncated_with_a_note() {
    let stub = squeue("for number in range(20100): record(number)");
    let (_, out) = gtop(&[("squeue", &stub)], &["--all-users", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["jobs"].as_array().unwrap().len(), 20_000);
    assert_eq!(
        out["roster"]["notes"][0],
        "only the first 20000 jobs are shown; narrow the list down with --partition or --account"
    );
}

/// A stub of `scontrol` in Python that prints the devices of each requested job, and appends the requested jobs
/// to a file, one line per call: `all` for all, of which there are 300. It knows no nodes.
const SCONTROL: &str = r"#!/usr/bin/python3 -IS
import os, sys
if sys.argv[-1] in ('config', 'node'): sys.exit()
is_all = sys.argv[-1] == 'job'
asked = list(map(str, range(300))) if is_all else [line.split()[2] for line in sys.stdin]
open(os.path.dirname(os.path.abspath(__file__)) + '/asked', 'a').write('all\n' if is_all else ' '.join(asked) + '\n')
for job in asked:
    print('JobId=%s JobName=x\n   UserId=alice(7)\n   JOB_GRES=gpu:2\n     Nodes=n%s CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)' % (job, job))
    print('   MinCPUsNode=1\n')
";

/// Set in the child process whose `PATH` has only the stub commands.
const IN_CHILD: &str = "GTOP_TEST_INSIDE";

/// Runs a test in a child process with this code in the stub of `squeue`; returns what `scontrol` was queried for.
fn run_in_child(test: &str, answer: &str) -> Vec<String> {
    run_with_programs(test, &[("squeue", &squeue(answer)), ("scontrol", SCONTROL)])
}

/// The same with these stub commands.
fn run_with_programs(test: &str, programs: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    put_programs(folder.path(), programs);
    let done = Command::new(std::env::current_exe().unwrap())
        .args([&*format!("slurm::{test}"), "--exact", "--nocapture"])
        .env("PATH", folder.path())
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    // A name that no test has runs none, and succeeds.
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && stdout.contains("1 passed"),
        "{stdout}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

/// A poller with its requests and its rosters.
struct Watcher {
    requests: watch::Sender<PollRequest>,
    rosters: watch::Receiver<Arc<Roster>>,
    /// When the last complete list was made, and since when there was none.
    complete: (Option<Timestamp>, Option<Timestamp>),
}

impl Watcher {
    /// Polls the jobs of all users once; further rounds only on request.
    fn start() -> Self {
        Self::of(Self::slurm())
    }

    fn slurm() -> Scheduler {
        let (kind, filter) = (SchedulerKind::Slurm, JobFilter::default());
        Scheduler::new(kind, filter, Duration::from_secs(3600), Vec::new())
    }

    fn of(slurm: Scheduler) -> Self {
        let slurm = JobTargets::new(slurm, Vec::new());
        let (requests, receiver) = watch::channel(PollRequest::default());
        let clock = Clock::system();
        let (sender, rosters) = watch::channel(Arc::new(slurm.roster(clock.now())));
        tokio::spawn(slurm.run(clock, receiver, sender));
        Self { requests, rosters, complete: (None, None) }
    }

    /// Waits for the next list.
    async fn next(&mut self) -> JobList {
        loop {
            self.rosters.changed().await.unwrap();
            let roster = Arc::clone(&self.rosters.borrow_and_update());
            let list = JobList::clone(roster.jobs.as_ref().unwrap());
            if list.at.is_some() || list.error.is_some() {
                return list;
            }
        }
    }

    /// Waits for the next list that is newer than the last one, or why there is none, with everything that is queried.
    async fn next_complete(&mut self) -> JobList {
        loop {
            let list = self.next().await;
            let complete = (list.at, list.error.as_ref().map(|error| error.since));
            if list.is_answered() && complete != self.complete {
                self.complete = complete;
                return list;
            }
        }
    }

    /// Waits for a list whose finished jobs are such.
    async fn next_finished(&mut self, is_meant: impl Fn(&FinishedJobs) -> bool) -> JobList {
        loop {
            let list = self.next().await;
            if is_meant(&list.finished) {
                return list;
            }
        }
    }

    /// Returns the jobs whose devices are known after the next round.
    async fn next_known_jobs(&mut self) -> Vec<String> {
        jobs_with_devices(&self.next_complete().await)
    }

    fn refresh(&self) {
        self.requests.send_modify(|request| request.refresh += 1);
    }
}

/// Returns the jobs whose devices are known.
fn jobs_with_devices(list: &JobList) -> Vec<String> {
    let has_places = |job: &&Job| {
        matches!(job.allocations.first().unwrap().devices, DeviceAllocation::Indices(_))
    };
    list.jobs.iter().filter(has_places).map(|job| job.id.to_string()).collect()
}

#[tokio::test]
async fn known_devices_are_not_queried_again_and_new_jobs_are() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "known_devices_are_not_queried_again_and_new_jobs_are";
        let answer = "count = 20 if not os.path.exists(here + '/asked') else 22\n\
                      for number in range(count): record(number, 'RUNNING', f'n{number}')";
        assert_eq!(run_in_child(name, answer), ["all", "20 21"]);
        return;
    }
    let mut watcher = Watcher::start();
    assert_eq!(watcher.next_known_jobs().await.len(), 20);
    for _ in 0..2 {
        watcher.refresh();
        assert_eq!(watcher.next_known_jobs().await.len(), 22);
    }
}

#[tokio::test]
async fn while_squeue_hangs_the_last_list_stays_with_the_reason() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "while_squeue_hangs_the_last_list_stays_with_the_reason";
        let hangs = "import time\nhere = os.path.dirname(os.path.abspath(__file__))\n\
                     if os.path.exists(here + '/asked'): time.sleep(1000)\n";
        assert_eq!(run_in_child(name, &format!("{hangs}record(7, 'RUNNING', 'n7')")), ["7"]);
        return;
    }
    let mut watcher = Watcher::start();
    assert_eq!(watcher.next_known_jobs().await, ["7"]);
    // Skips the time limit of 30 s.
    tokio::time::pause();
    watcher.refresh();
    assert_eq!(watcher.next_known_jobs().await, ["7"]);
    let roster = Arc::clone(&watcher.rosters.borrow());
    let list = roster.jobs.as_ref().unwrap();
    let problem = list.error.as_ref().unwrap();
    assert_eq!(&*problem.message, "squeue did not answer within 30 s");
    assert!(list.at.is_some_and(|at| at <= problem.since));
    assert_eq!(roster.targets.len(), 1);
}

#[tokio::test]
async fn invalid_output_leaves_the_last_list_with_its_age_and_the_reason() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "invalid_output_leaves_the_last_list_with_its_age_and_the_reason";
        // A list, then a notice, a truncated list, nothing, and an empty queue.
        let stub = format!(
            "{SQUEUE}count = len(open(here + '/count', 'a+').read()) if not os.path.exists(here + '/count') else \
             os.path.getsize(here + '/count')\nopen(here + '/count', 'a').write('x')\n\
             if count == 0: titles(); record(7, 'RUNNING', 'n7')\n\
             if count == 1: print('System maintenance until 18:00')\n\
             if count == 2: titles(); record(8, 'RUNNING', 'n8'); sys.stdout.write(mark + '\\x1f9\\x1f9\\x1fali')\n\
             if count == 4: titles()\n"
        );
        run_with_programs(name, &[("squeue", &stub), ("scontrol", SCONTROL)]);
        return;
    }
    let mut watcher = Watcher::start();
    let first = watcher.next_complete().await;
    for sentence in [
        "squeue printed \"System maintenance until 18:00\" instead of a list of jobs",
        "the output of squeue ends in the middle of a job",
        "squeue printed nothing, not even a header",
    ] {
        watcher.refresh();
        let list = watcher.next_complete().await;
        assert_eq!(&*list.error.as_ref().unwrap().message, sentence);
        assert_eq!((&list.jobs, list.at), (&first.jobs, first.at));
        assert_eq!(watcher.rosters.borrow().targets.len(), 1);
    }
    watcher.refresh();
    let list = watcher.next().await;
    assert_eq!((list.jobs.len(), &list.error), (0, &None));
    assert!(list.at > first.at);
}

/// A stub of `sacct` in Python that lists two jobs, then says that there is no accounting, then hangs.
const SACCT: &str = r"#!/usr/bin/python3 -IS
import os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
assert not [name for name in os.environ if name.startswith('SACCT_')]
calls = open(here + '/calls', 'a+')
calls.write('x'); calls.flush()
count = calls.tell()
if count == 2: sys.exit('Slurm accounting storage is disabled')
if count == 3: time.sleep(1000)
option = lambda name: [word.split('=', 1)[1] for word in sys.argv if word.startswith(name)][0]
mark, fields = option('--delimiter='), option('--format=').split(',')
print(mark.join(fields))
for number, state, ended in ('4', 'COMPLETED', '1795269440'), ('5', 'CANCELLED by 0', '1795269450'):
    known = {'JobIDRaw': number, 'JobID': number, 'State': state, 'End': ended, 'JobName': 'x'}
    print(mark.join(known.get(field, '') for field in fields))
";

#[tokio::test]
async fn a_sacct_that_fails_or_hangs_leaves_its_last_list_and_the_queue() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "a_sacct_that_fails_or_hangs_leaves_its_last_list_and_the_queue";
        let running = squeue("record(7, 'RUNNING', 'n7')");
        let programs = [("squeue", &*running), ("scontrol", SCONTROL), ("sacct", SACCT)];
        run_with_programs(name, &programs);
        return;
    }
    let mut watcher = Watcher::of(Watcher::slurm().with_finished_jobs());
    let first = watcher.next_finished(|finished| finished.at.is_some()).await;
    let texts: Vec<_> = first.finished.list.iter().map(FinishedJob::outcome_text).collect();
    assert_eq!(texts, ["cancelled by root", "completed"]);
    for error in
        ["sacct failed: Slurm accounting storage is disabled", "sacct did not answer within 30 s"]
    {
        watcher.refresh();
        if error.contains("30 s") {
            // The queue is listed meanwhile.
            let listed_at = watcher.rosters.borrow().jobs.as_ref().unwrap().at;
            while watcher.next().await.at == listed_at {}
            // Skips the time limit of 30 s.
            tokio::time::pause();
        }
        let has_error = |finished: &FinishedJobs| finished.error.as_deref() == Some(error);
        let list = watcher.next_finished(has_error).await;
        assert_eq!(
            (&list.finished.list, list.finished.at),
            (&first.finished.list, first.finished.at)
        );
        assert_eq!((list.jobs.len(), &list.error), (1, &None));
    }
}

#[test]
fn a_setting_turns_sacct_off() {
    for (setting, is_asked) in [("true", true), ("false", false)] {
        let folder = tempfile::tempdir().unwrap();
        let programs =
            [("squeue", &*squeue("record(7)")), ("scontrol", SCONTROL), ("sacct", SACCT)];
        put_programs(folder.path(), &programs);
        let config = folder.path().join("config.toml");
        std::fs::write(&config, format!("finished-jobs = {setting}\n")).unwrap();
        let mut gtop = Command::new(env!("CARGO_BIN_EXE_gtop"))
            .args(["--slurm", "--json", "--watch", "-i", "0.05", "--config"])
            .arg(&config)
            .env("PATH", folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked = folder.path().join("calls");
        let lines = BufReader::new(gtop.stdout.take().unwrap()).lines();
        let listed = lines.map(Result::unwrap).filter(|line| line.contains("\"id\":\"7\""));
        // It is asked when the queue is, which is listed here.
        let most = if is_asked { usize::MAX } else { 20 };
        let was_asked = listed.take(most).any(|_line| asked.exists());
        gtop.kill().unwrap();
        gtop.wait().unwrap();
        assert_eq!(was_asked, is_asked);
    }
}

#[tokio::test]
async fn without_sacct_finished_jobs_are_not_known() {
    if std::env::var_os(IN_CHILD).is_none() {
        run_in_child("without_sacct_finished_jobs_are_not_known", "record(7, 'RUNNING', 'n7')");
        return;
    }
    let mut watcher = Watcher::of(Watcher::slurm().with_finished_jobs());
    let list = watcher.next_finished(|finished| finished.error.is_some()).await;
    assert_eq!(list.finished.error.as_deref(), Some("sacct is not on the PATH of this machine"));
    assert_eq!((list.finished.at, list.jobs.len(), list.error), (None, 1, None));
}

/// Returns the notes about a list, without the one that only others than root get where Slurm's configuration is not known.
fn notes(list: &JobList) -> Vec<&str> {
    let notes = list.notes.iter().map(|note| &**note);
    notes.filter(|note| !note.starts_with("scontrol show config does not say")).collect()
}

#[tokio::test]
async fn while_scontrol_hangs_jobs_and_nodes_are_still_published() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "while_scontrol_hangs_jobs_and_nodes_are_still_published";
        let answer = "record(7, 'RUNNING', 'n7')\nif os.path.exists(here + '/asked'): record(8, 'RUNNING', 'n8')\n";
        let scontrol = "#!/bin/sh\ncase $* in *node | *config) ;; *) echo x >>${0%/*}/asked ;; esac\n\
                        exec /bin/sleep 1000\n";
        run_with_programs(name, &[("squeue", &squeue(answer)), ("scontrol", scontrol)]);
        return;
    }
    let mut watcher = Watcher::start();
    let nodes = |watcher: &Watcher| -> Vec<String> {
        let roster = Arc::clone(&watcher.rosters.borrow());
        roster.targets.iter().map(|target| target.name.to_string()).collect()
    };
    let list = watcher.next().await;
    assert!(list.awaits_devices && list.at.is_some() && list.error.is_none());
    assert_eq!(nodes(&watcher), ["n7"]);
    // A new job is published while the first query still hangs.
    while nodes(&watcher).len() < 2 {
        watcher.refresh();
        assert!(watcher.next().await.awaits_devices);
    }
    assert_eq!(nodes(&watcher), ["n7", "n8"]);
    // Skips the time limit of 30 s.
    tokio::time::pause();
    let list = watcher.next_complete().await;
    let note =
        "scontrol did not answer within 30 s; devices of jobs are inferred from their processes";
    let of_nodes = "scontrol did not answer within 30 s; what jobs have on nodes is not known";
    assert_eq!(notes(&list), [note, of_nodes]);
    assert_eq!((list.jobs.len(), &list.error), (2, &None));
}

#[tokio::test]
async fn a_truncated_record_of_scontrol_is_queried_again() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "a_truncated_record_of_scontrol_is_queried_again";
        let scontrol = SCONTROL.replace(
            "    print('   MinCPUs",
            "    if os.path.getsize(os.path.dirname(os.path.abspath(__file__)) + '/asked') < 3: sys.exit()\n    print('   MinCPUs",
        );
        let asked = run_with_programs(
            name,
            &[("squeue", &squeue("record(7, 'RUNNING', 'n7')")), ("scontrol", &scontrol)],
        );
        assert_eq!(asked, ["7", "7"]);
        return;
    }
    let mut watcher = Watcher::start();
    assert_eq!(watcher.next_known_jobs().await, [""; 0]);
    watcher.refresh();
    assert_eq!(watcher.next_known_jobs().await, ["7"]);
    watcher.refresh();
    assert_eq!(watcher.next_known_jobs().await, ["7"]);
}

#[tokio::test]
async fn unexpected_output_of_scontrol_is_reported_and_ends_no_job() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "unexpected_output_of_scontrol_is_reported_and_ends_no_job";
        let answer = "if not os.path.exists(here + '/asked'): record(7, 'RUNNING', 'n7')\n";
        let scontrol = "#!/bin/sh\ncase $* in *node | *config) ;; *) echo x >>${0%/*}/asked ;; esac\n\
                        echo 'System maintenance until 18:00'\n";
        run_with_programs(name, &[("squeue", &squeue(answer)), ("scontrol", scontrol)]);
        return;
    }
    let mut watcher = Watcher::start();
    let note = "scontrol printed \"System maintenance until 18:00\" instead of a job; devices of jobs \
                are inferred from their processes";
    let of_nodes = "scontrol printed \"System maintenance until 18:00\" instead of a list of nodes; what jobs have on \
                    nodes is not known";
    let list = watcher.next_complete().await;
    assert_eq!((list.jobs.len(), notes(&list)), (1, vec![note, of_nodes]));
    watcher.refresh();
    let list = watcher.next_complete().await;
    assert_eq!((list.jobs.len(), list.ended.len(), notes(&list)), (0, 0, vec![note, of_nodes]));
}

/// A stub of `scontrol` that has purged job 8 at the second call; job 7 is completing at the second call and
/// cancelled at the third.
const ENDING: &str = r"#!/usr/bin/python3 -IS
import os, sys
if sys.argv[-1] in ('config', 'node'): sys.exit()
path = os.path.dirname(os.path.abspath(__file__)) + '/asked'
asked = [line.split()[2] for line in sys.stdin]
open(path, 'a').write(' '.join(asked) + '\n')
turn = len(open(path).readlines())
for job in asked:
    if job == '7' or turn == 1:
        state = ['RUNNING', 'COMPLETING', 'CANCELLED'][turn - 1]
        print('JobId=%s JobName=x\n   JobState=%s Reason=None\n   JOB_GRES=gpu:2' % (job, state))
        print('     Nodes=n%s CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)\n   MinCPUsNode=1\n' % job)
";

#[tokio::test]
async fn the_outcome_of_a_job_is_queried_until_it_is_known() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "the_outcome_of_a_job_is_queried_until_it_is_known";
        let answer = "if not os.path.exists(here + '/asked'):\n    for number in (7, 8): record(number, 'RUNNING', f'n{number}')\n";
        let asked = run_with_programs(name, &[("squeue", &squeue(answer)), ("scontrol", ENDING)]);
        assert_eq!(asked, ["7 8", "7 8", "7"]);
        return;
    }
    let id = |text: &str| JobId::new(text).unwrap();
    let mut watcher = Watcher::start();
    assert_eq!(watcher.next_known_jobs().await, ["7", "8"]);
    watcher.refresh();
    // Until then they are neither listed nor ended.
    let list = watcher.next().await;
    let leaving: Vec<&str> = list.awaiting_outcome.iter().map(|job| job.id.as_str()).collect();
    assert_eq!((list.jobs.len(), list.ended.len(), leaving), (0, 0, vec!["7", "8"]));
    let list = watcher.next_complete().await;
    assert_eq!((list.jobs.len(), list.ended.len()), (0, 1), "{:?}", list.ended);
    // By Slurm, job 7 has not ended.
    let leaving: Vec<&str> = list.awaiting_outcome.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(leaving, ["7"]);
    assert_eq!(list.outcome(&id("8")), JobOutcome::Unknown);
    watcher.refresh();
    let list = watcher.next_complete().await;
    assert_eq!((list.outcome(&id("7")), list.awaiting_outcome.len()), (JobOutcome::Cancelled, 0));
    watcher.refresh();
    assert_eq!(watcher.next_complete().await.outcome(&id("7")), JobOutcome::Cancelled);
}

#[tokio::test]
async fn the_address_of_a_node_is_queried_once() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "the_address_of_a_node_is_queried_once";
        let sinfo = "#!/bin/sh\ncase $* in *%o*) echo sinfo >>${0%/*}/asked ;; *) exit 1 ;; esac\nprintf '%s\\n' 'n1|10.0.0.1|n1' 'n2|n2|host2' 'n3|n3|n3' \
                     'n4|-oProxyCommand=x|n4' 'n5|root@n5|n5' 'other|10.0.0.9|other'\n";
        let squeue = squeue("record(7, 'RUNNING', 'n[1-6]')");
        let asked = run_with_programs(
            name,
            &[("squeue", &squeue), ("scontrol", SCONTROL), ("sinfo", sinfo)],
        );
        assert_eq!(std::collections::BTreeSet::from_iter(&asked).len(), asked.len(), "{asked:?}");
        assert_eq!(asked.len(), 2, "{asked:?}");
        return;
    }
    let mut watcher = Watcher::start();
    for _ in 0..2 {
        watcher.next_complete().await;
        let has_all = |roster: &Arc<Roster>| roster.addresses.known.len() == 6;
        let roster = Arc::clone(&*watcher.rosters.wait_for(has_all).await.unwrap());
        let known: Vec<(&str, Option<&str>)> = roster
            .addresses
            .known
            .iter()
            .map(|(node, at)| (node.as_str(), at.as_deref()))
            .collect();
        let wanted = [("n1", Some("10.0.0.1")), ("n2", Some("host2"))];
        let without = ["n3", "n4", "n5", "n6"].map(|node| (node, None));
        assert_eq!(known, [&wanted[..], &without].concat());
        watcher.refresh();
    }
}

/// Jobs of a large cluster: 5,000 with devices on 1,000 nodes, of which 500 are hidden, and a CPU-only one on each of 100
/// more nodes. Each program appends its words to a file, one line per call.
const LARGE: &str = r"
folder = os.path.dirname(os.path.abspath(__file__))
words = [os.path.basename(__file__)] + [word for word in sys.argv[1:] if 'format' not in word]
open(folder + '/asked', 'a').write(' '.join(words) + '\n')
NODES = ['g%04d' % number for number in range(1000)]
# Five jobs per node have one, two, one, three and one of its eight devices.
SPANS = [(0, 1), (1, 3), (3, 4), (4, 7), (7, 8)]
JOBS = [(5 * at + part, node, *SPANS[part]) for at, node in enumerate(NODES) for part in range(5)]
CPU_ONLY = [(9000 + at, 'c%04d' % at) for at in range(100)]
def is_hidden(job): return job % 10 == 3
";

/// What `scontrol` prints of it.
const LARGE_DETAILS: &str = r"
def node(name, gres, used):
    print('NodeName=%s Arch=x86_64 \n   Gres=%s\n   GresUsed=%s' % (name, gres, used))
    print('   State=MIXED\n   CfgTRES=cpu=1\n')
if sys.argv[-1] == 'config': print('PrivateData = none')
if sys.argv[-1] == 'node':
    for name in NODES: node(name, 'gpu:h100:8', 'gpu:h100:8(IDX:0-7)')
    for _, name in CPU_ONLY: node(name, '(null)', 'gpu:0')
if sys.argv[-1] == 'job':
    for job, name, first, end in JOBS:
        if is_hidden(job): continue
        count = end - first
        print('JobId=%d JobName=x\n   UserId=alice(7)\n   JOB_GRES=gpu:%d' % (job, count))
        print('     Nodes=%s CPU_IDs=0 Mem=0 GRES=gpu:%d(IDX:%d-%d)' % (name, count, first, end - 1))
        # Together more than squeue may print.
        print('   MinCPUsNode=1\n   Command=%s\n' % ('x' * 6000))
";

#[tokio::test]
async fn all_devices_of_5000_jobs_on_1000_nodes_are_known_after_one_round() {
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "all_devices_of_5000_jobs_on_1000_nodes_are_known_after_one_round";
        let squeue = squeue(&format!(
            "{LARGE}\nfor job, node, *_ in JOBS:\n    if not is_hidden(job): record(job, 'RUNNING', node)\n\
             for job, node in CPU_ONLY: record(job, 'RUNNING', node)\n\
             if os.path.exists(folder + '/later'): record(9999, 'RUNNING', 'c0000')\n"
        ));
        let scontrol = format!("#!/usr/bin/python3 -IS\nimport os, sys\n{LARGE}{LARGE_DETAILS}");
        let programs = [("squeue", &*squeue), ("scontrol", &*scontrol), ("sinfo", HANGS)];
        let mut asked = run_with_programs(name, &programs);
        // What is asked at the same time is logged in any order.
        let second = asked.split_off(4);
        asked.sort();
        let once = ["scontrol --all --details show job", "scontrol --all --details show node"];
        assert_eq!(asked, [once[0], once[1], "scontrol show config", "squeue --all"]);
        assert_eq!(second, ["squeue --all", once[1]]);
        return;
    }
    let mut watcher = Watcher::start();
    let mut list = watcher.next().await;
    // `sinfo` hangs, and delays nothing.
    while list.awaits_devices || list.nodes.awaits_allocated {
        list = watcher.next().await;
    }
    check_large(&list, 4600);
    // Known jobs and CPU-only ones are not queried again.
    let first = list.at;
    std::fs::write(std::env::var("PATH").unwrap() + "/later", "").unwrap();
    watcher.refresh();
    while list.at == first || list.awaits_devices || list.nodes.allocated_at < list.at {
        list = watcher.next().await;
    }
    check_large(&list, 4601);
}

/// Checks that all jobs of the large cluster have their devices, and its nodes those of hidden jobs too.
fn check_large(list: &JobList, jobs: usize) {
    assert_eq!((list.jobs.len(), list.jobs_without_devices()), (jobs, 0));
    let of_node = |name: &str| &list.nodes.nodes[&NodeName::new(name).unwrap()];
    for at in 0..1000 {
        let node = of_node(&format!("g{at:04}"));
        assert_eq!((node.devices, node.allocated), (Some(8), Some(8)));
        assert_eq!(node.allocated_indices.as_deref(), Some(&[0, 1, 2, 3, 4, 5, 6, 7][..]));
    }
    assert_eq!(of_node("c0000").allocated, Some(0));
    for job in &list.jobs {
        let number: u32 = job.id.as_str().parse().unwrap();
        let [allocation] = &*job.allocations else { unreachable!("{job:?}") };
        if number >= 9000 {
            assert_eq!(allocation.devices, DeviceAllocation::None, "{number}");
            continue;
        }
        let (first, end) = [(0, 1), (1, 3), (3, 4), (4, 7), (7, 8)][number as usize % 5];
        let indices = (first..end).collect::<Vec<u32>>();
        assert_eq!(allocation.devices, DeviceAllocation::Indices(indices.into()), "{number}");
    }
}

#[test]
fn nodes_with_hostile_names_are_never_connected_to() {
    let stub = squeue(
        "record(1, 'RUNNING', '-oProxyCommand=touch')\nrecord(2, 'RUNNING', 'gpu[01')\nrecord(3, 'RUNNING', '$(reboot)')",
    );
    let (_, out) = gtop(&[("squeue", &stub)], &["--slurm", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["nodes"].as_array().unwrap().len(), 0);
    let note = out["roster"]["notes"][0].as_str().unwrap();
    assert!(note.contains("which is not allowed in a node name (and 2 more)"), "{note}");
}

#[test]
fn without_scontrol_devices_are_inferred_from_processes() {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let stub = squeue(&format!("record(1, 'RUNNING', '{host}')"));
    let (_, out) = gtop(&[("squeue", &stub)], &["--slurm", "--json", "--deadline", "0.5"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let allocation = &out["jobs"][0]["allocations"][0];
    assert_eq!(
        (&allocation["certainty"], &allocation["places"]),
        (&serde_json::Value::from("unknown"), &serde_json::Value::Null)
    );
    let note = out["roster"]["notes"][0].as_str().unwrap();
    assert!(
        note.contains("scontrol is not on the PATH")
            && note.contains("inferred from their processes"),
        "{note}"
    );
}

#[test]
fn an_allocation_without_slurm_commands_is_known_from_the_environment() {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let done = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(["--json", "--deadline", "0.5"])
        .env("PATH", "/nowhere")
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_NODELIST", &host)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(out["source"], "Slurm: job 7, this allocation");
    assert_eq!(out["nodes"][0]["name"], host);
    let problem = &out["roster"]["problem"]["sentence"];
    assert_eq!(problem, "squeue is not on the PATH of this machine");
}

#[test]
fn doctor_reports_unexpected_output_of_slurm_commands() {
    const WELL: [(&str, &str); 3] = [
        ("munge", "#!/bin/sh\necho MUNGE:x:\n"),
        (
            "scontrol",
            "#!/bin/sh\ncase $1 in ping) echo 'Slurmctld(primary) at login is UP' ;; esac\n",
        ),
        ("sinfo", "#!/bin/sh\necho 'NODE|mixed|none'\n"),
    ];
    const NOTICE: &str = "#!/bin/sh\necho 'Maintenance until 18:00'\n";
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let queue = squeue(&format!("record(7, 'RUNNING', '{host}')"));
    for (program, line) in [
        ("", "  ok      nodes       1 used by your jobs, no problems"),
        ("munge", "  FAILED  munge       authentication fails"),
        (
            "scontrol",
            "  FAILED  controller  unexpected output of scontrol ping: \"Maintenance until 18:00\"",
        ),
        (
            "squeue",
            "  FAILED  jobs        squeue printed \"Maintenance until 18:00\" instead of a list of jobs",
        ),
        ("sinfo", "  note    nodes       sinfo does not list HOST"),
    ] {
        let stub = |(name, text): (&'static str, &str)| {
            (name, if name == program { NOTICE.to_owned() } else { text.replace("NODE", &host) })
        };
        let stubs = WELL.map(stub);
        let queue = stub(("squeue", &queue));
        let programs: Vec<(&str, &str)> =
            stubs.iter().chain([&queue]).map(|(name, text)| (*name, text.as_str())).collect();
        let (_, out) = gtop(&programs, &["doctor", "--slurm"]);
        // The duration is between the step and the finding.
        let (mark, rest) = line.split_at(10);
        let (step, words) = rest.split_at(12);
        let (step, words) = (step.trim(), words.replace("HOST", &host));
        let found = out.lines().any(|found| {
            found.starts_with(&format!("{mark}{step} ")) && found.contains(words.as_str())
        });
        assert!(found, "{line}:\n{out}");
    }
}

#[test]
fn doctor_reports_a_slurm_too_old_for_steps_and_starts_none() {
    const PING: &str =
        "#!/bin/sh\ncase $1 in ping) echo 'Slurmctld(primary) at login is UP' ;; esac\n";
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let queue = squeue(&format!("record(7, 'RUNNING', '{host}')"));
    let srun = format!("#!/bin/sh\necho \"$*\" >>{}\necho 'slurm 20.11.9'\n", log.display());
    let programs = [("squeue", queue.as_str()), ("scontrol", PING), ("srun", srun.as_str())];
    for (words, line) in [
        (&["doctor", "--slurm"][..], "  note    srun "),
        (&["--transport", "srun", "doctor", "--slurm"], "  FAILED  srun "),
    ] {
        let (_, out) = gtop(&programs, words);
        let found = out.lines().find(|found| found.starts_with(line));
        let found = found.unwrap_or_else(|| unreachable!("{out}"));
        assert!(
            found.ends_with("slurm 20.11.9: this Slurm would make your own steps wait for gtop's"),
            "{found}"
        );
        assert!(out.contains("> use ssh; srun must be of release 22.05 or later"), "{out}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "--version\n");
        std::fs::remove_file(&log).unwrap();
    }
}

#[test]
fn doctor_tries_the_next_job_of_a_node_if_one_refuses_steps() {
    const PING: &str =
        "#!/bin/sh\ncase $1 in ping) echo 'Slurmctld(primary) at login is UP' ;; esac\n";
    const SRUN: &str = "#!/bin/sh\ncase $* in\n--version) echo 'slurm 23.02.1' ;;\n--jobid=8*) ;;\n\
                        *) echo 'srun: error: Unable to create step for job 7: Access/permission denied' >&2; exit 1 ;;\nesac\n";
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let queue = |jobs: &[u32]| {
        let lines = jobs.iter().map(|job| format!("record({job}, 'RUNNING', '{host}')\n"));
        squeue(&lines.collect::<Vec<_>>().concat()).replace("'alice'", &format!("'{}'", own_name()))
    };
    for (jobs, mark, found) in [
        (&[7, 8][..], "  ok      step ", "in job 8"),
        (&[7][..], "  FAILED  step ", "Access/permission denied"),
    ] {
        let programs = [("squeue", &*queue(jobs)), ("scontrol", PING), ("srun", SRUN)];
        let (_, out) = gtop(&programs, &["--transport", "srun", "doctor", "--slurm"]);
        let steps: Vec<&str> = out.lines().filter(|line| line.contains("  step ")).collect();
        assert!(steps.len() == 1 && steps[0].starts_with(mark), "{out}");
        assert!(steps[0].contains(found), "{out}");
        // Earlier attempts are reported too.
        assert!(out.contains("no step in job 7: "), "{out}");
    }
}
