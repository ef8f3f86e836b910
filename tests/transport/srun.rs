//! One step for many nodes, with a stub srun that interleaves their output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;
use gtop::collect::Handshake;
use gtop::model::{FaultKind, JobId, NodeName, TransportKind};
use gtop::transport::{
    Fault, Options, Profile, Reach, SshTarget, StepCause, StepJob, Target, Transport, TransportMode,
};
use gtop::wire::{Body, FrameReader, Received};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::lab::TIMEOUT;

/// Runs the script once for each node, writes to all what is written to it, and passes on their
/// output in turns: line by line, or in pieces that know no lines. What each node really said lies
/// in a file.
const SRUN: &str = r#"#!/usr/bin/python3
import os, random, select, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
mood = open(here + "/mood").read()
if sys.argv[1:] == ["--version"]:
    print("slurm 20.11.9" if mood == "old" else "slurm 23.02.1")
    sys.exit()
open(here + "/calls", "a").write(" ".join(sys.argv[1:17]) + "\n")
job = sys.argv[1].removeprefix("--jobid=")
if mood == "refuse" or (mood == "refuse 7" and job == "7"):
    sys.exit("srun: error: Unable to create step for job 7: Access/permission denied")
if mood == "lead" and not any(word.startswith("--het-group=") for word in sys.argv):
    sys.exit("srun: error: Unable to confirm allocation for job 3: Job not heterogeneous job leader")
while mood == "slow" and not os.path.exists(here + "/now"):
    time.sleep(0.01)
names = next(word for word in sys.argv if word.startswith("--nodelist=")).split("=")[1].split(",")
tasks = {}
for name in names:
    task = subprocess.Popen(sys.argv[-3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "SLURMD_NODENAME": name})
    tasks[task.stdout.fileno()] = [name, task, b""]
def mix(held):
    # Pieces of all of them in turns, cut at the same places of each, or anywhere.
    while any(held.values()):
        size, is_same = random.randrange(1, 700), random.random() < 0.5
        for descriptor in held:
            size = size if is_same else random.randrange(1, 700)
            os.write(1, held[descriptor][:size])
            held[descriptor] = held[descriptor][size:]
    held.clear()
random.seed(7)
held = {}
poll = select.poll()
for descriptor in [0, *tasks]:
    poll.register(descriptor, select.POLLIN)
while tasks:
    ready = poll.poll(100)
    if len(held) == len(tasks) or not ready:
        mix(held)
    for descriptor, _ in ready:
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
        else:
            open(here + "/said." + tasks[descriptor][0], "ab").write(data)
            whole, end, rest = (tasks[descriptor][2] + data).rpartition(b"\n")
            if mood == "torn" and os.path.exists(here + "/now"):
                held[descriptor] = held.get(descriptor, b"") + whole + end
            else:
                mix(held)
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

fn job(id: &str) -> StepJob {
    JobId::new(id).unwrap().into()
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
            mode: TransportMode::Srun,
            srun_program: srun,
            parent_guard: Some(env!("CARGO_BIN_EXE_gtop").into()),
            ..Options::of_this_process()
        };
        let transport = Transport::new(options);
        let site = Self { folder, transport };
        site.know(&[job("7")]);
        site
    }

    /// Takes note that these jobs run on all nodes.
    fn know(&self, jobs: &[StepJob]) {
        let pairs: Vec<_> =
            jobs.iter().flat_map(|job| NODES.map(|node| (job.clone(), name(node), true))).collect();
        self.transport.update_jobs(|before| before.choose(&pairs));
    }

    async fn visit(&self, node: &str) -> Result<Handshake, Fault> {
        let host = node.to_owned();
        let ssh = SshTarget { host, user: None, port: None, profile: Profile::System };
        let target = Target { name: name(node), reach: Reach::Ssh(ssh) };
        Handshake::start(&self.transport, &target, Duration::from_millis(100)).await
    }

    /// Brings all nodes to their hello and through some samples, at the same time; in their order.
    async fn meet_all(&self) -> Vec<Handshake> {
        let mut meetings = JoinSet::new();
        for node in NODES {
            let visit = self.visit(node).await.unwrap();
            meetings.spawn(async move { (node, meet(visit, 5).await) });
        }
        let mut met = timeout(TIMEOUT, meetings.join_all()).await.unwrap();
        met.sort_by_key(|(node, _)| *node);
        met.into_iter().map(|(_, visit)| visit).collect()
    }

    /// Returns the frames a node has said until now, whatever became of them.
    fn said(&self, node: &str) -> Vec<Bytes> {
        let mut reader = FrameReader::default();
        reader.push(&fs::read(self.folder.path().join(format!("said.{node}"))).unwrap());
        let mut said = Vec::new();
        while let Some(received) = reader.next_frame() {
            if let Received::Frame(frame) = received {
                said.push(frame.text);
            }
        }
        said
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

async fn meet(mut visit: Handshake, samples: u64) -> Handshake {
    let interpreter = visit.await_loader(TIMEOUT).await.unwrap();
    let hello = visit.start_probe(interpreter).await.unwrap();
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
    assert!(visits.iter().all(|visit| visit.via() == TransportKind::Step));
    let calls = site.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    for word in ["--jobid=7", "--overlap", "--mem=0", "--nodes=3", "--nodelist=gpu01,gpu02,gpu03"] {
        assert!(calls[0].contains(word), "{word}: {calls:?}");
    }
    // A node that rejoins finds the step running, and gets its hello again.
    visits.pop().unwrap().close().await;
    let again = timeout(TIMEOUT, meet(site.visit(NODES[2]).await.unwrap(), 6)).await.unwrap();
    assert_eq!(site.calls().len(), 1);
    again.close().await;
    for visit in visits {
        timeout(TIMEOUT, visit.close()).await.unwrap();
    }
    let visit = timeout(TIMEOUT, site.visit(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, meet(visit, 1)).await.unwrap().close().await;
    assert_eq!(site.calls().len(), 2, "a new one, once the first is gone");
}

#[tokio::test]
async fn output_in_pieces_that_know_no_lines_never_gives_a_wrong_frame() {
    let site = Site::new("torn");
    let mut visits = site.meet_all().await;
    fs::write(site.folder.path().join("now"), "").unwrap();
    let (mut right, mut noticed) = (0, 0);
    for _ in 0..12 {
        for (visit, node) in visits.iter_mut().zip(NODES) {
            match timeout(TIMEOUT, visit.next_frame()).await.unwrap() {
                Ok(frame) => {
                    let said = site.said(node);
                    let is_said = said.contains(&frame.text);
                    assert!(is_said, "{node} never said {:?}", frame.text);
                    right += 1;
                }
                Err(fault) => {
                    assert_eq!(fault.kind, FaultKind::BadReply, "{}", fault.message());
                    noticed += 1;
                }
            }
        }
    }
    assert!(noticed > 0, "nothing was torn: {right} frames were whole");
    // With whole lines again all is well.
    fs::remove_file(site.folder.path().join("now")).unwrap();
    for visit in &mut visits {
        let mut whole = 0;
        while whole < 5 {
            match timeout(TIMEOUT, visit.next_frame()).await.unwrap() {
                Ok(_) => whole += 1,
                Err(_torn) => whole = 0,
            }
        }
    }
    for visit in visits {
        visit.close().await;
    }
}

#[tokio::test]
async fn the_end_of_a_step_is_reported_to_every_node_and_another_one_starts() {
    let site = Site::new("cancel");
    let visits = site.meet_all().await;
    fs::write(site.folder.path().join("now"), "").unwrap();
    for mut visit in visits {
        let fault = loop {
            if let Err(fault) = timeout(TIMEOUT, visit.next_frame()).await.unwrap() {
                break fault;
            }
        };
        assert!(fault.message().contains("cancelled"), "{}", fault.message());
    }
    for visit in site.meet_all().await {
        visit.close().await;
    }
    assert_eq!(site.calls().len(), 2);
}

#[tokio::test]
async fn where_one_job_refuses_a_step_the_other_one_of_the_node_is_tried() {
    let site = Site::new("refuse 7");
    site.know(&[job("7"), job("8")]);
    let refused = async |site: &Site| {
        let mut visit = site.visit(NODES[0]).await.unwrap();
        timeout(TIMEOUT, visit.await_loader(TIMEOUT)).await.unwrap().unwrap_err()
    };
    let fault = refused(&site).await;
    assert!(fault.kind.retries_by_itself(), "{}", fault.message());
    assert!(fault.message().contains("another job of yours"), "{}", fault.message());
    let visit = timeout(TIMEOUT, site.visit(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, meet(visit, 1)).await.unwrap().close().await;
    let jobs = |site: &Site| -> Vec<String> {
        let first = |call: String| call.split(' ').next().unwrap_or_default().to_owned();
        site.calls().into_iter().map(first).collect()
    };
    assert_eq!(jobs(&site), ["--jobid=7", "--jobid=8"]);
    // The one that refused is not asked again while the other one runs.
    site.know(&[job("7"), job("8")]);
    let visit = timeout(TIMEOUT, site.visit(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, meet(visit, 1)).await.unwrap().close().await;
    assert_eq!(jobs(&site), ["--jobid=7", "--jobid=8", "--jobid=8"]);
    // Where it alone is left it is.
    site.know(&[job("7")]);
    let fault = refused(&site).await;
    assert!(!fault.kind.retries_by_itself(), "{}", fault.message());
}

#[tokio::test]
async fn a_part_of_a_heterogeneous_job_is_reached_by_its_leader() {
    let site = Site::new("lead");
    let id = |text: &str| JobId::new(text).unwrap();
    site.know(&[StepJob { id: id("4"), component: Some((id("3"), 1)) }]);
    let visit = timeout(TIMEOUT, site.visit(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, meet(visit, 1)).await.unwrap().close().await;
    assert!(site.calls()[0].starts_with("--jobid=3 --het-group=1 --overlap"), "{:?}", site.calls());
}

#[tokio::test]
async fn a_step_that_is_slow_to_begin_is_waited_for() {
    let site = Site::new("slow");
    let mut visit = site.visit(NODES[0]).await.unwrap();
    // While something blocks, the clock stands still but for the steps it is moved by.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let blocking = tokio::task::spawn_blocking(move || held.recv().ok());
    tokio::time::pause();
    let waking =
        tokio::spawn(async move { (visit.await_loader(Duration::from_secs(10)).await, visit) });
    for _ in 0..30 {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    assert!(!waking.is_finished());
    tokio::time::resume();
    drop(release);
    blocking.await.unwrap();
    fs::write(site.folder.path().join("now"), "").unwrap();
    let (interpreter, mut visit) = timeout(TIMEOUT, waking).await.unwrap().unwrap();
    let hello = timeout(TIMEOUT, visit.start_probe(interpreter.unwrap())).await.unwrap().unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
    assert_eq!(site.calls().len(), 1);
    visit.close().await;
}

#[tokio::test]
async fn a_slurm_that_lets_others_wait_and_a_job_of_somebody_else_are_refused() {
    let site = Site::new("old");
    let fault = site.visit(NODES[0]).await.unwrap_err();
    assert!(matches!(&fault, Fault::SlurmStep { cause: StepCause::SlurmTooOld, .. }), "{fault}");
    assert!(fault.to_string().contains("20.11.9"), "{fault}");
    assert!(site.calls().is_empty() && !fault.retries_by_itself());

    let site = Site::new("refuse");
    let mut visit = site.visit(NODES[0]).await.unwrap();
    let fault = visit.await_loader(TIMEOUT).await.unwrap_err();
    assert!(fault.message().contains("refuses gtop a step"), "{}", fault.message());
    assert!(!fault.kind.retries_by_itself());

    let fault = site.visit("gpu09").await.unwrap_err();
    assert!(matches!(&fault, Fault::SlurmStep { cause: StepCause::NoJob, .. }), "{fault}");
}
