//! Jobs of Slurm: the control groups of their processes as real versions make them, and programs of
//! Slurm that are missing, fail, hang, chatter, or have too much to say.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]
#![expect(clippy::disallowed_methods, reason = "programs are run, and stand in for those of Slurm")]

use std::io::Write;
use std::process::{Command, Stdio};

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gtop::inventory::Roster;
use gtop::inventory::slurm::{Slurm, Whose, Wishes};
use gtop::model::{Allotment, Job, JobId, Sample};
use gtop::time::{Clock, Timestamp};
use gtop::wire::{FrameReader, Lift, Lifted, Received};
use tokio::sync::watch;

const GROUPS: &str = include_str!("fixtures/slurm/control-groups.txt");

/// Reads each record as a file of /proc, and prints what the probe makes of it.
const READER: &str = r"
import sys
source, groups = sys.stdin.read().split('\n%%%%\n', 1)
space = {}
exec(compile(source, 'probe', 'exec'), space)
for record in groups.split('== ')[1:]:
    title, _, text = record.partition('\n')
    space['read'] = lambda path, most: text.encode()
    print(title + ' ' + space['cgroup'](1))
";

/// Returns (where it was recorded, the job it belongs to, the control group that the probe tells).
fn told() -> Vec<(String, String, String)> {
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

/// Returns the job we read from a process's control group.
fn job(cgroup: &str) -> Option<String> {
    let mut reader = FrameReader::default();
    let process = format!(r#"{{"pid":7,"start":1,"cgroup":{cgroup:?},"command":"x"}}"#);
    let sample =
        format!(r#"{{"t":"sample","n":1,"at":1.0,"processes":{{"at":1.0,"list":[{process}]}}}}"#);
    reader.push(format!("\u{1e}gtop1 {sample}\n").as_bytes());
    let Some(Received::Frame(frame)) = reader.next_frame() else { return None };
    let mut lift = Lift::default();
    let lifted = lift.body(&frame.body, Timestamp::from_micros(2_000_000));
    let Some(Lifted::Sample(sample)) = lifted else { return None };
    let Sample { processes, .. } = *sample;
    let process = processes?.list.into_iter().next()?;
    let statics = process.statics?;
    let job = statics.job.as_ref().map(ToString::to_string);
    job.or_else(|| Some(statics.sluid.as_ref()?.to_string()))
}

#[test]
fn a_process_of_every_version_belongs_to_its_job() {
    let told = told();
    assert_eq!(told.len(), 40);
    for (place, want, cgroup) in told {
        let want = (want != "-").then_some(want);
        assert_eq!(job(&cgroup), want, "{place}: {cgroup}");
    }
}

/// Runs `gtop --slurm` where these are the only programs, and returns its exit status and what it
/// printed.
fn gtop(programs: &[(&str, &str)], words: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in programs {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    run(folder.path(), words)
}

fn run(path: &Path, words: &[&str]) -> (i32, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(words)
        .env("PATH", path)
        .env("HOME", path)
        .env("USER", "alice")
        .env("SQUEUE_FORMAT", "%i")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    (done.status.code().unwrap(), String::from_utf8(done.stdout).unwrap())
}

/// A `squeue` in Python whose `record` writes as it is asked to.
const SQUEUE: &str = r"#!/usr/bin/python3 -IS
import os, sys
mark = [word for word in sys.argv if word.startswith('--format=')][0].split('\x1f')[0][len('--format='):]
def record(number, state='PENDING', nodes='', name='x', reason='Resources'):
    fields = [number, number, 'alice', 'gpu', 'phys', state, 1795269430, 1795269440, 'N/A', '1:00:00', 2, nodes, reason, name]
    print(mark + '\x1f' + '\x1f'.join(map(str, fields)) + mark)
";

fn squeue(more: &str) -> String {
    format!("{SQUEUE}{more}\n")
}

#[test]
fn without_squeue_that_is_said() {
    let (status, out) = gtop(&[], &["--slurm", "--once"]);
    assert_eq!(status, 1);
    assert!(
        out.contains("\n\nsqueue is not on the PATH of this machine; start gtop on a login node"),
        "{out}"
    );
}

#[test]
fn a_squeue_that_fails_is_told_in_our_words() {
    for (says, sentence) in [
        (
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            "the Slurm controller is down",
        ),
        (
            "slurm_load_jobs error: Socket timed out on send/recv operation",
            "the Slurm controller does not answer",
        ),
        ("squeue: error: Munge encode failed: Failed to connect", "munge, which vouches for users"),
        (
            "squeue: fatal: Could not establish a configuration source",
            "Slurm's configuration is not found",
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
fn a_job_that_is_over_is_no_failure() {
    let stub = "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n";
    let (_, out) = gtop(&[("squeue", stub)], &["--job", "7", "--once"]);
    assert!(out.contains("no running job numbered 7") && out.contains("it has ended"), "{out}");
    let stub = "#!/bin/sh\necho 'squeue: error: Invalid user: bob' >&2\n";
    let (_, out) = gtop(&[("squeue", stub)], &["--user", "bob", "--once"]);
    assert!(out.contains("Invalid user: bob; correct the options"), "{out}");
}

#[test]
fn a_squeue_that_hangs_holds_nobody_up_and_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let stub = format!("#!/bin/sh\necho $$ > {}\n/bin/sleep 1000\n", pid.display());
    let (status, out) = gtop(&[("squeue", &stub)], &["--slurm", "--once", "--deadline", "3"]);
    assert_eq!(status, 1);
    assert!(out.contains("\n\nasking Slurm which jobs run"), "{out}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let began = Instant::now();
    while !is_gone() {
        assert!(began.elapsed() < Duration::from_secs(10), "{stat} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_squeue_that_chatters_is_heard_all_the_same() {
    let stub = squeue(
        "print('warning: plugin'); record(1); print('warning: more'); record(2, name='a\\n\\x1e\\x1fb')\n\
         sys.stderr.write('squeue: warning: x\\n' * 100000)\nassert 'SQUEUE_FORMAT' not in os.environ\n\
         assert os.environ['SLURM_TIME_FORMAT'] == '%s'",
    );
    let (_, out) = gtop(&[("squeue", &stub)], &["--slurm", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let jobs = out["jobs"].as_array().unwrap();
    let told: Vec<_> = jobs.iter().map(|job| (&job["id"], &job["name"])).collect();
    assert_eq!(told.len(), 2, "{out}");
    assert_eq!((told[0].1.as_str(), told[1].1.as_str()), (Some("x"), Some("a   b")));
    assert_eq!(jobs[0]["starts_at"], "2026-11-21T13:57:20Z");
    assert_eq!((&jobs[0]["account"], &jobs[0]["reason"]), (&"phys".into(), &"Resources".into()));
    assert_eq!(out["roster"]["problem"], serde_json::Value::Null);
}

#[test]
fn thousands_of_jobs_are_cut_with_a_sentence() {
    let stub = squeue("for number in range(20100): record(number)");
    let (_, out) = gtop(&[("squeue", &stub)], &["--all-users", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["jobs"].as_array().unwrap().len(), 20_000);
    assert_eq!(
        out["roster"]["notes"][0],
        "only the first 20000 jobs are shown; narrow the list with --partition or --account"
    );
}

#[test]
fn thousands_of_jobs_that_run_are_asked_for_once_and_about_in_detail_never() {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let stub = squeue(&format!(
        "open('{}', 'a').write('squeue\\n')\nfor number in range(20000): record(number, 'RUNNING', '{host}')",
        log.display()
    ));
    let scontrol = format!("#!/bin/sh\necho scontrol >>'{}'\n", log.display());
    let programs = [("squeue", stub.as_str()), ("scontrol", scontrol.as_str())];
    let (_, out) = gtop(&programs, &["--all-users", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["jobs"].as_array().unwrap().len(), 20_000);
    assert_eq!(out["nodes"][0]["name"], host.as_str());
    assert_eq!(out["nodes"][0]["jobs"].as_array().unwrap().len(), 20_000);
    assert_eq!(out["roster"]["notes"], serde_json::json!([]));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "squeue\n");
}

/// A `scontrol` in Python that tells where each job it is asked about is, and writes down what it
/// was asked, a line for each time.
const SCONTROL: &str = r"#!/usr/bin/python3 -IS
import os, sys
asked = [line.split()[2] for line in sys.stdin]
open(os.path.dirname(os.path.abspath(__file__)) + '/asked', 'a').write(' '.join(asked) + '\n')
for job in asked:
    print('JobId=%s JobName=x\n   UserId=alice(7)\n   JOB_GRES=gpu:2\n     Nodes=n%s CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)' % (job, job))
    print('   MinCPUsNode=1\n')
";

/// Set in the process that watches jobs where the stand-ins for programs of Slurm are.
const INSIDE: &str = "GTOP_TEST_INSIDE";

/// Runs this test once more, alone, where so many jobs run, and returns what `scontrol` was asked.
fn once_more(test: &str, jobs: u32) -> Vec<String> {
    inside(test, &format!("for number in range({jobs}): record(number, 'RUNNING', f'n{{number}}')"))
}

/// The same where `squeue` does this.
fn inside(test: &str, answer: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let queue = squeue(answer);
    for (name, text) in [("squeue", queue.as_str()), ("scontrol", SCONTROL)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("PATH", folder.path())
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

/// Jobs that are watched, and what somebody who looks at them wants.
struct Looking {
    wishes: watch::Sender<Wishes>,
    rosters: watch::Receiver<Arc<Roster>>,
}

impl Looking {
    /// Watches everybody's jobs; no further round comes by itself.
    fn begin() -> Self {
        let slurm = Slurm::new(Whose::default(), Duration::from_secs(3600), Vec::new());
        let (wishes, followed) = watch::channel(Wishes::default());
        let (found, rosters) = watch::channel(Arc::new(slurm.first()));
        tokio::spawn(slurm.run(Clock::system(), followed, found));
        Self { wishes, rosters }
    }

    /// Returns the jobs whose devices are known after the next round.
    async fn known(&mut self) -> Vec<String> {
        self.rosters.changed().await.unwrap();
        let roster = Arc::clone(&self.rosters.borrow_and_update());
        let has_places =
            |job: &&Job| matches!(job.allocations.first().unwrap().devices, Allotment::Places(_));
        let jobs = &roster.jobs.as_ref().unwrap().jobs;
        jobs.iter().filter(has_places).map(|job| job.id.to_string()).collect()
    }

    fn look_at(&self, job: &str) {
        self.wishes.send_modify(|wishes| wishes.job = JobId::new(job));
    }
}

#[tokio::test]
async fn of_more_than_two_hundred_jobs_only_the_one_looked_at_is_asked_about() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "of_more_than_two_hundred_jobs_only_the_one_looked_at_is_asked_about";
        let answer = "here = os.path.dirname(os.path.abspath(__file__))\n\
                      open(here + '/asked', 'a').write('squeue\\n')\n\
                      for number in range(201): record(number, 'RUNNING', f'n{number}')";
        assert_eq!(inside(name, answer), ["squeue", "7", "200", "squeue"]);
        return;
    }
    let mut looking = Looking::begin();
    assert_eq!(looking.known().await, [""; 0]);
    looking.look_at("7");
    assert_eq!(looking.known().await, ["7"]);
    looking.look_at("200");
    assert_eq!(looking.known().await, ["7", "200"]);
    // What is known is not asked for again, and of what is no job nothing is.
    looking.look_at("7");
    looking.look_at("999");
    looking.wishes.send_modify(|wishes| wishes.refresh += 1);
    assert_eq!(looking.known().await, ["7", "200"]);
}

#[tokio::test]
async fn while_squeue_hangs_the_last_list_stays_and_the_reason_is_told() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "while_squeue_hangs_the_last_list_stays_and_the_reason_is_told";
        let hangs = "import time\nhere = os.path.dirname(os.path.abspath(__file__))\n\
                     if os.path.exists(here + '/asked'): time.sleep(1000)\n";
        assert_eq!(inside(name, &format!("{hangs}record(7, 'RUNNING', 'n7')")), ["7"]);
        return;
    }
    let mut looking = Looking::begin();
    assert_eq!(looking.known().await, ["7"]);
    // Nobody waits half a minute for it.
    tokio::time::pause();
    looking.wishes.send_modify(|wishes| wishes.refresh += 1);
    assert_eq!(looking.known().await, ["7"]);
    let roster = Arc::clone(&looking.rosters.borrow());
    let list = roster.jobs.as_ref().unwrap();
    let problem = list.problem.as_ref().unwrap();
    assert_eq!(&*problem.sentence, "squeue has not answered within 30 s");
    assert!(list.at.is_some_and(|at| at <= problem.since));
    assert_eq!(roster.targets.len(), 1);
}

#[tokio::test]
async fn two_hundred_jobs_are_asked_about_at_once_and_once() {
    if std::env::var_os(INSIDE).is_none() {
        let asked = once_more("two_hundred_jobs_are_asked_about_at_once_and_once", 200);
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked.first().unwrap().split(' ').count(), 200);
        return;
    }
    let mut looking = Looking::begin();
    assert_eq!(looking.known().await.len(), 200);
    looking.wishes.send_modify(|wishes| wishes.refresh += 1);
    assert_eq!(looking.known().await.len(), 200);
}

#[test]
fn nodes_with_hostile_names_are_never_reached() {
    let stub = squeue(
        "record(1, 'RUNNING', '-oProxyCommand=touch')\nrecord(2, 'RUNNING', 'gpu[01')\nrecord(3, 'RUNNING', '$(reboot)')",
    );
    let (_, out) = gtop(&[("squeue", &stub)], &["--slurm", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["nodes"].as_array().unwrap().len(), 0);
    let note = out["roster"]["notes"][0].as_str().unwrap();
    assert!(note.contains("which no node name does (and 2 more)"), "{note}");
}

#[test]
fn without_scontrol_devices_are_told_from_processes() {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let stub = squeue(&format!("record(1, 'RUNNING', '{host}')"));
    let (_, out) = gtop(&[("squeue", &stub)], &["--slurm", "--json", "--deadline", "0.5"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let allocation = &out["jobs"][0]["allocations"][0];
    assert_eq!(
        (&allocation["devices_from"], &allocation["places"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let note = out["roster"]["notes"][0].as_str().unwrap();
    assert!(
        note.contains("scontrol is not on the PATH") && note.contains("told from their processes"),
        "{note}"
    );
}

#[test]
fn an_allocation_without_programs_of_slurm_is_known_by_its_environment() {
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
fn the_doctor_says_when_a_slurm_is_too_old_for_steps_and_tries_none() {
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
            found.ends_with("slurm 20.11.9: with this Slurm your own steps would wait for gtop's"),
            "{found}"
        );
        assert!(out.contains("> reach the nodes by ssh; srun serves from Slurm 22.05 on"), "{out}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "--version\n");
        std::fs::remove_file(&log).unwrap();
    }
}
