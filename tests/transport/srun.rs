//! One step for many nodes, with a srun that mixes what they say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use gtop::collect::Visit;
use gtop::model::{JobId, NodeName, Via};
use gtop::transport::{
    Choice, Fault, Options, Profile, Reach, SshTarget, StepCause, Target, Transport,
};
use gtop::wire::Body;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::lab::PATIENCE;

/// Runs the script once for each node, writes to all what is written to it, and passes on their
/// output in turns: line by line, or in pieces that know no lines.
const SRUN: &str = r#"#!/usr/bin/python3
import os, select, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
mood = open(here + "/mood").read()
if sys.argv[1:] == ["--version"]:
    print("slurm 20.11.9" if mood == "old" else "slurm 23.02.1")
    sys.exit()
open(here + "/calls", "a").write(" ".join(sys.argv[1:17]) + "\n")
if mood == "refuse":
    sys.exit("srun: error: Unable to create step for job 7: Access/permission denied")
names = next(word for word in sys.argv if word.startswith("--nodelist=")).split("=")[1].split(",")
tasks = {}
for name in names:
    task = subprocess.Popen(sys.argv[-3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "SLURMD_NODENAME": name})
    tasks[task.stdout.fileno()] = [name, task, b""]
poll = select.poll()
for descriptor in [0, *tasks]:
    poll.register(descriptor, select.POLLIN)
while tasks:
    for descriptor, _ in poll.poll(100):
        data = os.read(descriptor, 1024)
        if descriptor == 0:
            if not data:
                poll.unregister(0)
            for _, task, _ in tasks.values():
                task.stdin.write(data) if data else task.stdin.close()
                data and task.stdin.flush()
        elif not data:
            poll.unregister(descriptor)
            name, task, _ = tasks.pop(descriptor)
            if task.wait():
                print("srun: error: %s: task 0: Exited with exit code %d" % (name, task.returncode), file=sys.stderr, flush=True)
        elif mood == "torn":
            os.write(1, data)
        else:
            whole, end, rest = (tasks[descriptor][2] + data).rpartition(b"\n")
            os.write(1, whole + end)
            tasks[descriptor][2] = rest
    if mood == "cancel" and os.path.exists(here + "/now"):
        os.remove(here + "/now")
        open(here + "/mood", "w").write("well")
        sys.exit("slurmstepd-a: error: *** STEP 7.0 ON a CANCELLED AT 2026-01-01T00:00:00 ***")
"#;

const NODES: [&str; 3] = ["gpu01", "gpu02", "gpu03"];

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

struct Site {
    folder: TempDir,
    transport: Transport,
}

impl Site {
    fn new(mood: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let srun = folder.path().join("srun");
        fs::write(&srun, SRUN).unwrap();
        fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("mood"), mood).unwrap();
        let options = Options {
            choice: Choice::Srun,
            srun_program: srun,
            leash: Some(env!("CARGO_BIN_EXE_gtop").into()),
            ..Options::of_this_process()
        };
        let transport = Transport::new(options);
        let job = JobId::new("7").unwrap();
        let pairs: Vec<_> = NODES.map(|node| (job.clone(), name(node), true)).into();
        transport.know_jobs(|before| before.choose(&pairs));
        Self { folder, transport }
    }

    async fn visit(&self, node: &str) -> Result<Visit, Fault> {
        let host = node.to_owned();
        let ssh = SshTarget { host, user: None, port: None, profile: Profile::System };
        let target = Target { name: name(node), reach: Reach::Ssh(ssh) };
        Visit::begin(&self.transport, &target, Duration::from_millis(100)).await
    }

    /// Brings all nodes to their hello and through some samples, at the same time.
    async fn meet_all(&self) -> Vec<Visit> {
        let mut meetings = JoinSet::new();
        for node in NODES {
            meetings.spawn(meet(self.visit(node).await.unwrap(), 5));
        }
        timeout(PATIENCE, meetings.join_all()).await.unwrap()
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

async fn meet(mut visit: Visit, samples: u64) -> Visit {
    let interpreter = visit.wake().await.unwrap();
    let hello = visit.hello(interpreter).await.unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
    let mut last = 0;
    while last < samples {
        if let Body::Sample(sample) = &visit.next_frame().await.unwrap().body {
            last = sample.n;
        }
    }
    visit
}

#[tokio::test]
async fn one_step_serves_all_nodes_of_a_job_and_ends_with_the_last() {
    let site = Site::new("well");
    let mut visits = site.meet_all().await;
    assert!(visits.iter().all(|visit| visit.via() == Via::Step));
    let calls = site.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    for word in ["--jobid=7", "--overlap", "--mem=0", "--nodes=3", "--nodelist=gpu01,gpu02,gpu03"] {
        assert!(calls[0].contains(word), "{word}: {calls:?}");
    }
    // Whoever comes back finds the step running, and the hello that was said.
    visits.pop().unwrap().end().await;
    let again = timeout(PATIENCE, meet(site.visit(NODES[2]).await.unwrap(), 6)).await.unwrap();
    assert_eq!(site.calls().len(), 1);
    again.end().await;
    for visit in visits {
        timeout(PATIENCE, visit.end()).await.unwrap();
    }
    let visit = timeout(PATIENCE, site.visit(NODES[0])).await.unwrap().unwrap();
    timeout(PATIENCE, meet(visit, 1)).await.unwrap().end().await;
    assert_eq!(site.calls().len(), 2, "a new one, once the first is gone");
}

#[tokio::test]
async fn output_in_pieces_that_know_no_lines_never_gives_a_wrong_frame() {
    let site = Site::new("torn");
    let mut visit = site.visit(NODES[0]).await.unwrap();
    // What is torn is noticed, sooner or later; nothing waits for ever and nothing is made up.
    if let Ok(interpreter) = visit.wake().await
        && visit.hello(interpreter).await.is_ok()
    {
        for _ in 0..20 {
            if let Ok(frame) = timeout(PATIENCE, visit.next_frame()).await.unwrap() {
                assert!(!matches!(frame.body, Body::Other));
            }
        }
    }
    visit.end().await;
}

#[tokio::test]
async fn the_end_of_the_step_is_told_to_every_node_and_another_one_is_begun() {
    let site = Site::new("cancel");
    let visits = site.meet_all().await;
    fs::write(site.folder.path().join("now"), "").unwrap();
    for mut visit in visits {
        let fault = loop {
            if let Err(fault) = timeout(PATIENCE, visit.next_frame()).await.unwrap() {
                break fault;
            }
        };
        assert!(fault.sentence().contains("cancelled"), "{}", fault.sentence());
    }
    for visit in site.meet_all().await {
        visit.end().await;
    }
    assert_eq!(site.calls().len(), 2);
}

#[tokio::test]
async fn a_slurm_that_lets_others_wait_and_a_job_of_somebody_else_are_refused() {
    let site = Site::new("old");
    let fault = site.visit(NODES[0]).await.unwrap_err();
    assert!(matches!(&fault, Fault::Step { cause: StepCause::TooOld, .. }), "{fault}");
    assert!(fault.to_string().contains("20.11.9"), "{fault}");
    assert!(site.calls().is_empty() && !fault.retries_by_itself());

    let site = Site::new("refuse");
    let mut visit = site.visit(NODES[0]).await.unwrap();
    let fault = visit.wake().await.unwrap_err();
    assert!(fault.sentence().contains("refuses gtop a step"), "{}", fault.sentence());
    assert!(!fault.kind.retries_by_itself());

    let fault = site.visit("gpu09").await.unwrap_err();
    assert!(matches!(&fault, Fault::Step { cause: StepCause::NoJob, .. }), "{fault}");
}
