//! One step for many nodes, with a stub srun that interleaves their output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;
use gtop_collect::collect::{Handshake, LoaderError, ProbeStart, ShellHistory};
use gtop_collect::probe::Interpreter;
use gtop_collect::scheduler::{StepCandidate, StepJob};
use gtop_collect::transport::{Fault, Options, Reach, StepCause, Target, Transport, TransportMode};
use gtop_collect::wire::{Body, FrameReader, Received};
use gtop_model::{self as model, FaultKind, JobId, NodeName, Privilege, TransportKind};
use gtop_ssh::{Profile, SshTarget};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::harness::lab::TIMEOUT;

/// Runs the script once per node, copies its stdin to all, and interleaves their output: by lines, or in arbitrary
/// chunks. The output of each node is also written to a file.
const SRUN: &str = r#"#!/usr/bin/python3
import os, random, select, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
mode = open(here + "/mode").read()
if sys.argv[1:] == ["--version"]:
    print("slurm 20.11.9" if mode == "old" else "slurm 23.02.1")
    sys.exit()
open(here + "/calls", "a").write(" ".join(sys.argv[1:17]) + "\n")
job = sys.argv[1].removeprefix("--jobid=")
if mode == "refuse" or (mode == "refuse 7" and job == "7"):
    sys.exit("srun: error: Unable to create step for job 7: Access/permission denied")
if mode == "het" and not any(word.startswith("--het-group=") for word in sys.argv):
    sys.exit("srun: error: Unable to confirm allocation for job 3: Job not heterogeneous job leader")
while mode == "slow" and not os.path.exists(here + "/now"):
    time.sleep(0.01)
names = next(word for word in sys.argv if word.startswith("--nodelist=")).split("=")[1].split(",")
tasks = {}
for name in names:
    task = subprocess.Popen(sys.argv[-3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "SLURMD_NODENAME": name})
    tasks[task.stdout.fileno()] = [name, task, b""]
def mix(held):
    # Chunks of all nodes in turn, of equal or random sizes.
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
            open(here + "/output." + tasks[descriptor][0], "ab").write(data)
            whole, end, rest = (tasks[descriptor][2] + data).rpartition(b"\n")
            if mode == "torn" and os.path.exists(here + "/now"):
                held[descriptor] = held.get(descriptor, b"") + whole + end
            else:
                mix(held)
                os.write(1, whole + end)
            tasks[descriptor][2] = rest
    if mode == "cancel" and os.path.exists(here + "/now"):
        os.remove(here + "/now")
        open(here + "/mode", "w").write("normal")
        sys.exit("slurmstepd-a: error: *** STEP 7.0 ON a CANCELLED AT 2026-01-01T00:00:00 ***")
"#;

const NODES: [&str; 3] = ["gpu01", "gpu02", "gpu03"];

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

fn job(id: &str) -> StepJob {
    JobId::new(id).unwrap().into()
}

struct SrunFixture {
    folder: TempDir,
    transport: Transport,
}

impl SrunFixture {
    fn new(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let srun = folder.path().join("srun");
        fs::write(&srun, SRUN).unwrap();
        fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("mode"), mode).unwrap();
        let mut options =
            Options { mode: TransportMode::Srun, srun_program: srun, ..Options::of_this_process() };
        options.ssh.parent_guard = Some(env!("CARGO_BIN_EXE_gtop").into());
        let transport = Transport::new(options);
        let fixture = Self { folder, transport };
        fixture.set_jobs(&[job("7")]);
        fixture
    }

    /// Sets these jobs as running on all nodes.
    fn set_jobs(&self, jobs: &[StepJob]) {
        let on_nodes = |job: &StepJob| {
            NODES.map(|node| StepCandidate {
                job: job.clone(),
                node: name(node),
                has_devices: true,
            })
        };
        let candidates: Vec<_> = jobs.iter().flat_map(on_nodes).collect();
        self.transport.update_jobs(|before| before.with_running_jobs(&candidates));
    }

    async fn connect(&self, node: &str) -> Result<Handshake, Fault> {
        let host = node.to_owned();
        let ssh = SshTarget { host, user: None, port: None, profile: Profile::System };
        let target = Target { name: name(node), reach: Reach::Ssh(ssh) };
        let interval = Duration::from_millis(100);
        let start = ProbeStart { interval, privilege: Privilege::Login, sudo_refusal: None };
        Handshake::start(&self.transport, &target, start).await
    }

    /// Connects to all nodes at once and reads their hellos and some samples; returns them in order.
    async fn connect_all(&self) -> Vec<Handshake> {
        let mut connecting = JoinSet::new();
        for node in NODES {
            let handshake = self.connect(node).await.unwrap();
            connecting.spawn(async move { (node, read_samples(handshake, 5).await) });
        }
        let mut connected = timeout(TIMEOUT, connecting.join_all()).await.unwrap();
        connected.sort_by_key(|(node, _)| *node);
        connected.into_iter().map(|(_, handshake)| handshake).collect()
    }

    /// Returns all frames a node has written so far.
    fn written_frames(&self, node: &str) -> Vec<Bytes> {
        let mut reader = FrameReader::default();
        reader.push(fs::read(self.folder.path().join(format!("output.{node}"))).unwrap());
        let mut frames = Vec::new();
        while let Some(received) = reader.next_frame() {
            if let Received::Frame(frame) = received {
                frames.push(frame.text);
            }
        }
        frames
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

async fn await_loader(handshake: &mut Handshake) -> Result<Interpreter, model::Fault> {
    let limits = ShellHistory::default().limits(None);
    let loaded = handshake.await_loader(limits, &mut |_fault, _remaining| ()).await;
    loaded.map_err(|error| match error {
        LoaderError::Fault(fault) => fault,
        LoaderError::SudoRefused(..) => panic!("{error:?}"),
    })
}

async fn read_samples(mut handshake: Handshake, samples: u64) -> Handshake {
    let interpreter = await_loader(&mut handshake).await.unwrap();
    let hello = handshake.start_probe(interpreter).await.unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
    let mut last = 0;
    while last < samples {
        if let Body::Sample(sample) = &handshake.next_frame().await.unwrap().body {
            last = sample.n;
        }
    }
    handshake
}

#[tokio::test]
async fn one_step_serves_all_nodes_of_a_job_and_ends_with_the_last_session() {
    let fixture = SrunFixture::new("normal");
    let mut handshakes = fixture.connect_all().await;
    assert!(handshakes.iter().all(|handshake| handshake.via() == TransportKind::Step));
    let calls = fixture.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    for word in ["--jobid=7", "--overlap", "--mem=0", "--nodes=3", "--nodelist=gpu01,gpu02,gpu03"] {
        assert!(calls[0].contains(word), "{word}: {calls:?}");
    }
    // A node that rejoins finds the step running, and gets its hello again.
    handshakes.pop().unwrap().close().await;
    let again =
        timeout(TIMEOUT, read_samples(fixture.connect(NODES[2]).await.unwrap(), 6)).await.unwrap();
    assert_eq!(fixture.calls().len(), 1);
    again.close().await;
    for handshake in handshakes {
        timeout(TIMEOUT, handshake.close()).await.unwrap();
    }
    let handshake = timeout(TIMEOUT, fixture.connect(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, read_samples(handshake, 1)).await.unwrap().close().await;
    assert_eq!(fixture.calls().len(), 2, "a new step, after the first has ended");
}

#[tokio::test]
async fn output_split_within_lines_never_yields_a_wrong_frame() {
    let fixture = SrunFixture::new("torn");
    let mut handshakes = fixture.connect_all().await;
    fs::write(fixture.folder.path().join("now"), "").unwrap();
    let (mut valid, mut rejected) = (0, 0);
    for _ in 0..12 {
        for (handshake, node) in handshakes.iter_mut().zip(NODES) {
            match timeout(TIMEOUT, handshake.next_frame()).await.unwrap() {
                Ok(frame) => {
                    let frames = fixture.written_frames(node);
                    let is_written = frames.contains(&frame.text);
                    assert!(is_written, "{node} never wrote {:?}", frame.text);
                    valid += 1;
                }
                Err(fault) => {
                    assert_eq!(fault.kind, FaultKind::BadReply, "{}", fault.message());
                    rejected += 1;
                }
            }
        }
    }
    assert!(rejected > 0, "no frame was torn: {valid} were valid");
    // With whole lines again no frame is lost.
    fs::remove_file(fixture.folder.path().join("now")).unwrap();
    for handshake in &mut handshakes {
        let mut whole = 0;
        while whole < 5 {
            match timeout(TIMEOUT, handshake.next_frame()).await.unwrap() {
                Ok(_) => whole += 1,
                Err(_torn) => whole = 0,
            }
        }
    }
    for handshake in handshakes {
        handshake.close().await;
    }
}

#[tokio::test]
async fn the_end_of_a_step_is_reported_to_every_node_and_another_one_starts() {
    let fixture = SrunFixture::new("cancel");
    let handshakes = fixture.connect_all().await;
    fs::write(fixture.folder.path().join("now"), "").unwrap();
    for mut handshake in handshakes {
        let fault = loop {
            if let Err(fault) = timeout(TIMEOUT, handshake.next_frame()).await.unwrap() {
                break fault;
            }
        };
        assert!(fault.message().contains("cancelled"), "{}", fault.message());
    }
    for handshake in fixture.connect_all().await {
        handshake.close().await;
    }
    assert_eq!(fixture.calls().len(), 2);
}

#[tokio::test]
async fn after_a_refused_step_another_job_of_the_node_is_tried() {
    let fixture = SrunFixture::new("refuse 7");
    fixture.set_jobs(&[job("7"), job("8")]);
    let refused = async |fixture: &SrunFixture| {
        let mut handshake = fixture.connect(NODES[0]).await.unwrap();
        timeout(TIMEOUT, await_loader(&mut handshake)).await.unwrap().unwrap_err()
    };
    let fault = refused(&fixture).await;
    assert!(fault.kind.is_retryable(), "{}", fault.message());
    assert!(fault.message().contains("another job of yours"), "{}", fault.message());
    let handshake = timeout(TIMEOUT, fixture.connect(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, read_samples(handshake, 1)).await.unwrap().close().await;
    let jobs = |fixture: &SrunFixture| -> Vec<String> {
        let first = |call: String| call.split(' ').next().unwrap_or_default().to_owned();
        fixture.calls().into_iter().map(first).collect()
    };
    assert_eq!(jobs(&fixture), ["--jobid=7", "--jobid=8"]);
    // The job that refused is not tried again while the other one runs.
    fixture.set_jobs(&[job("7"), job("8")]);
    let handshake = timeout(TIMEOUT, fixture.connect(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, read_samples(handshake, 1)).await.unwrap().close().await;
    assert_eq!(jobs(&fixture), ["--jobid=7", "--jobid=8", "--jobid=8"]);
    // It is tried again when it is the only one left.
    fixture.set_jobs(&[job("7")]);
    let fault = refused(&fixture).await;
    assert!(!fault.kind.is_retryable(), "{}", fault.message());
}

#[tokio::test]
async fn a_component_of_a_heterogeneous_job_is_reached_by_its_leader() {
    let fixture = SrunFixture::new("het");
    let id = |text: &str| JobId::new(text).unwrap();
    fixture.set_jobs(&[StepJob { id: id("4"), component: Some((id("3"), 1)) }]);
    let handshake = timeout(TIMEOUT, fixture.connect(NODES[0])).await.unwrap().unwrap();
    timeout(TIMEOUT, read_samples(handshake, 1)).await.unwrap().close().await;
    assert!(
        fixture.calls()[0].starts_with("--jobid=3 --het-group=1 --overlap"),
        "{:?}",
        fixture.calls()
    );
}

#[tokio::test]
async fn a_step_that_starts_slowly_is_waited_for() {
    let fixture = SrunFixture::new("slow");
    let mut handshake = fixture.connect(NODES[0]).await.unwrap();
    // While a blocking task runs, the paused clock moves only by `advance`.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocking = tokio::task::spawn_blocking(move || blocked.recv().ok());
    tokio::time::pause();
    let waiting = tokio::spawn(async move { (await_loader(&mut handshake).await, handshake) });
    for _ in 0..30 {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    tokio::time::resume();
    drop(release);
    blocking.await.unwrap();
    fs::write(fixture.folder.path().join("now"), "").unwrap();
    let (interpreter, mut handshake) = timeout(TIMEOUT, waiting).await.unwrap().unwrap();
    let hello =
        timeout(TIMEOUT, handshake.start_probe(interpreter.unwrap())).await.unwrap().unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
    assert_eq!(fixture.calls().len(), 1);
    handshake.close().await;
}

#[tokio::test]
async fn an_old_slurm_and_a_job_of_another_user_are_refused() {
    let fixture = SrunFixture::new("old");
    let fault = fixture.connect(NODES[0]).await.unwrap_err();
    assert!(matches!(&fault, Fault::JobStep { cause: StepCause::TooOld, .. }), "{fault}");
    assert!(fault.to_string().contains("20.11.9"), "{fault}");
    assert!(fixture.calls().is_empty() && !fault.is_retryable());

    let fixture = SrunFixture::new("refuse");
    let mut handshake = fixture.connect(NODES[0]).await.unwrap();
    let fault = await_loader(&mut handshake).await.unwrap_err();
    assert!(fault.message().contains("refuses gtop a step"), "{}", fault.message());
    assert!(!fault.kind.is_retryable());

    let fault = fixture.connect("gpu09").await.unwrap_err();
    assert!(matches!(&fault, Fault::JobStep { cause: StepCause::NoJob, .. }), "{fault}");
}
