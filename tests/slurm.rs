//! Processes and jobs: what the control groups of real Slurm look like, through the probe's eyes and
//! ours.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]
#![expect(clippy::disallowed_methods, reason = "a Python reads the source of the probe")]

use std::io::Write;
use std::process::{Command, Stdio};

use gtop::model::Sample;
use gtop::time::Timestamp;
use gtop::wire::{FrameReader, Lift, Lifted, Received};

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
    Some(process.statics?.job?.to_string())
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
