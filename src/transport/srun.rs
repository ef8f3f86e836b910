//! A step of a Slurm job as the way to its nodes, for sites that let nobody in by SSH.
//!
//! One `srun` reaches all nodes of a job: what is written to it goes to every task, and what the
//! tasks print is sorted by node here. The step takes nothing from the job that another step could
//! want; with Slurm before 22.05 it would, so there it is refused. There is never more than one step
//! of ours in a job.

mod cluster;
mod cluster_cache;
mod demux;
mod messages;
mod node_jobs;
mod router;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

pub use cluster_cache::CLUSTER_CACHE_TTL;
pub(super) use node_jobs::StepNodes;
pub use node_jobs::{NodeJobs, StepJob};

use crate::model::{JobId, NodeName};
use crate::transport::channel::Output;
use crate::transport::fault::{Fault, StepCause};
use crate::transport::file_cache::lock;
use crate::transport::process::{LocalProcess, ParentGuard};
use crate::transport::srun::demux::Demux;
use crate::transport::srun::router::{Router, StepTask};

pub(super) use cluster::{Cluster, refine_fault};
pub(super) use messages::{HIDDEN_VARIABLES, srun_fault};

/// A node that the running step does not serve gets a new one when that has run for so long: it
/// interrupts all nodes of the job for a second.
const MIN_RESTART_AGE: Duration = Duration::from_secs(600);
/// How long a job is left alone after a step in it failed or ended: at first, and at most.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// A step that lasted so long was a good one.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// How long a step may take to end once nobody wants it any more.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);
/// Most output of a node that waits for its session; what is more is dropped, and missed.
const MAX_PENDING_OUTPUT: usize = 256;
/// Most commands that wait to be written.
const MAX_PENDING_COMMANDS: usize = 64;

/// Returns whose a line is, the number of the message it is a part of, and whether a message begins
/// with it that whoever comes later must hear first.
pub type LineAddress = fn(&[u8]) -> Option<(&str, u64, bool)>;

/// What a step runs on all its nodes.
#[derive(Debug, Clone)]
pub struct StepScript {
    /// The word by which nodes announce themselves: a line of it and the node, with `NOPY` between
    /// for some.
    pub nonce: String,
    /// What `/bin/sh -c` is to run.
    pub script: String,
    /// What is to be written once to all nodes, after they have announced themselves.
    pub input: Vec<u8>,
    /// How to tell whose a line of the output is.
    pub address_of: LineAddress,
}

/// The jobs of the user, shared with the steps in them.
pub(super) type SharedNodeJobs = Arc<Mutex<Arc<NodeJobs>>>;

/// All steps, and what is known of the jobs they are in.
#[derive(Debug, Default)]
pub(super) struct SrunSteps {
    pub(super) places: SharedNodeJobs,
    slots: Mutex<BTreeMap<JobId, Arc<JobSlot>>>,
    /// One task a step; it ends with the step.
    tasks: Mutex<JoinSet<()>>,
}

/// A job, as far as steps of ours go.
#[derive(Debug)]
struct JobSlot {
    /// Who may begin a step.
    turn: Semaphore,
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    step: Weak<SrunStep>,
    /// The board of the last step, which knows how it ended.
    last: Option<Arc<Router>>,
    pause: Duration,
}

/// A step with its nodes; it ends when the last channel is gone.
#[derive(Debug)]
pub(super) struct SrunStep {
    router: Arc<Router>,
    commands: mpsc::Sender<Vec<u8>>,
    began: Instant,
}

/// What a step is begun with.
#[derive(Debug, Clone, Copy)]
pub(super) struct SrunCall<'a> {
    pub(super) place: &'a StepNodes,
    pub(super) leash: ParentGuard<'a>,
    pub(super) program: &'a std::path::Path,
    pub(super) connect_limit: Duration,
}

impl SrunSteps {
    /// Returns where a node's step would run.
    pub(super) fn place(&self, node: &NodeName) -> Option<StepNodes> {
        lock(&self.places).of(node)
    }

    /// Takes note that a step in this job did not lead to the node, and returns whether another job
    /// may.
    pub(super) fn pass_over(&self, node: &NodeName, job: &JobId) -> bool {
        pass_over(&self.places, node, job)
    }

    /// Returns the jobs of the user on a node.
    pub(super) fn jobs_on(&self, node: &NodeName) -> Vec<JobId> {
        lock(&self.places).on(node).cloned().collect()
    }

    /// Takes a node's part of the step of its job, and begins the step where there is none.
    pub(super) async fn join(
        &self,
        node: &NodeName,
        call: SrunCall<'_>,
        shared: &(dyn Fn() -> StepScript + Sync),
    ) -> Result<StepChannel, Fault> {
        let slot = self.slot(&call.place.job.id);
        let asked = Instant::now();
        let Ok(_turn) = slot.turn.acquire().await else { return Err(super::ending()) };
        let running = lock(&slot.state).step.upgrade().filter(|step| step.router.end().is_none());
        if let Some(step) = running {
            match step.router.subscribe(node) {
                Ok(outputs) => return Ok(self.part(node, call, step, outputs)),
                Err(fault) if step.began.elapsed() < MIN_RESTART_AGE => return Err(fault),
                Err(_) => step.router.finish(Fault::step(StepCause::Restarted, "")),
            }
        }
        slot.wait(asked).await?;
        let step = self.begin(&slot, call, shared())?;
        let outputs = step.router.subscribe(node)?;
        Ok(self.part(node, call, step, outputs))
    }

    fn part(
        &self,
        node: &NodeName,
        call: SrunCall<'_>,
        step: Arc<SrunStep>,
        outputs: mpsc::Receiver<Output>,
    ) -> StepChannel {
        let job = call.place.job.id.clone();
        StepChannel { node: node.clone(), job, known: Arc::clone(&self.places), step, outputs }
    }

    fn slot(&self, job: &JobId) -> Arc<JobSlot> {
        let mut slots = lock(&self.slots);
        // Of jobs that are over nothing is kept.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.must_be_kept());
        let new = || Arc::new(JobSlot { turn: Semaphore::new(1), state: Mutex::default() });
        Arc::clone(slots.entry(job.clone()).or_insert_with(new))
    }

    fn begin(
        &self,
        slot: &JobSlot,
        call: SrunCall<'_>,
        shared: StepScript,
    ) -> Result<Arc<SrunStep>, Fault> {
        let words = srun_args(call, &shared.script);
        let local =
            LocalProcess::spawn_without_env(call.program, &words, call.leash, HIDDEN_VARIABLES)?;
        let (commands, written) = mpsc::channel(MAX_PENDING_COMMANDS);
        let router = Arc::new(Router::new(&call.place.nodes, &shared.nonce, call.connect_limit));
        let demux = Demux::new(&call.place.nodes, &shared.nonce, shared.address_of);
        let step = Arc::new(SrunStep {
            router: Arc::clone(&router),
            commands: commands.clone(),
            began: Instant::now(),
        });
        let job = call.place.job.id.clone();
        let running =
            StepTask { job, local, router: Arc::clone(&router), demux, input: shared.input };
        let mut state = lock(&slot.state);
        state.step = Arc::downgrade(&step);
        state.last = Some(router);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(running.run(commands.downgrade(), written));
        Ok(step)
    }
}

impl JobSlot {
    /// Returns whether something must be remembered about the job.
    fn must_be_kept(&self) -> bool {
        let state = lock(&self.state);
        let ended = state.last.as_ref().and_then(|router| router.ended_at());
        state.step.strong_count() > 0 || ended.is_some_and(|at| at.elapsed() < MAX_BACKOFF)
    }

    /// Waits until the last step is gone and the job was left alone for a while. Whoever asked
    /// before the last step failed shares its fault.
    async fn wait(&self, asked: Instant) -> Result<(), Fault> {
        let last = lock(&self.state).last.clone();
        let Some(last) = last else { return Ok(()) };
        // Two steps at once there must not be, whatever the old one does.
        if timeout(SHUTDOWN_TIMEOUT * 2, last.wait_until_ended()).await.is_err() {
            return Err(Fault::step(StepCause::Busy, "the last step of gtop has not ended yet"));
        }
        let Some(ended) = last.ended_at() else { return Ok(()) };
        if let Some(fault) = last.end().filter(|_| ended >= asked) {
            return Err(fault);
        }
        let until = {
            let mut state = lock(&self.state);
            let is_good = ended.duration_since(last.started_at()) >= STABLE_AFTER;
            let doubled = (state.pause * 2).clamp(MIN_BACKOFF, MAX_BACKOFF);
            state.pause = if is_good { MIN_BACKOFF } else { doubled };
            ended + state.pause
        };
        sleep_until(until).await;
        Ok(())
    }
}

/// One node's part of a step.
#[derive(Debug)]
pub(super) struct StepChannel {
    node: NodeName,
    job: JobId,
    known: SharedNodeJobs,
    step: Arc<SrunStep>,
    outputs: mpsc::Receiver<Output>,
}

impl StepChannel {
    /// Returns by which word the loaders of this step announce themselves.
    pub(super) fn nonce(&self) -> &str {
        &self.step.router.nonce
    }

    /// Waits until the node is late, if it is awaited from now on.
    pub(super) fn late(&self) -> impl Future<Output = ()> + use<> {
        let router = Arc::clone(&self.step.router);
        async move { router.late().await }
    }

    /// Waits for what comes next. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Output {
        match self.outputs.recv().await {
            Some(output) => output,
            None => Output::Closed(self.why_closed().map(Box::new)),
        }
    }

    /// Returns why the node has no output any more; where another job of it may serve, that.
    fn why_closed(&self) -> Option<Fault> {
        let fault = self.step.router.why_closed(&self.node)?;
        if fault.is_job_specific() && pass_over(&self.known, &self.node, &self.job) {
            return Some(Fault::step(StepCause::TryingOtherJob, &fault.headline()));
        }
        Some(fault)
    }

    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        let sent = self.step.commands.send(bytes.to_vec()).await;
        sent.map_err(|_over| Fault::SessionLost { why: "the step has ended".to_owned() })
    }

    /// Takes leave; the last one waits for the end of the step.
    pub(super) async fn shutdown(self) {
        let router = Arc::clone(&self.step.router);
        let is_last = Arc::strong_count(&self.step) == 1;
        drop(self);
        if is_last {
            // What does not end by itself is ended by its leash.
            timeout(SHUTDOWN_TIMEOUT, router.wait_until_ended()).await.ok();
        }
    }
}

fn pass_over(known: &SharedNodeJobs, node: &NodeName, job: &JobId) -> bool {
    Arc::make_mut(&mut lock(known)).pass_over(node, job)
}

/// Returns the command line of `srun`.
pub(super) fn srun_args(call: SrunCall<'_>, script: &str) -> Vec<OsString> {
    let StepNodes { job, nodes } = call.place;
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    let seconds = call.connect_limit.as_secs().max(1);
    let mut words = job.words();
    words.extend([
        // Shares whatever it uses, and takes no memory of its own. No devices are named, so that it
        // may see those of the job: it uses none.
        "--overlap".to_owned(),
        "--mem=0".to_owned(),
        format!("--nodes={}", names.len()),
        format!("--ntasks={}", names.len()),
        "--ntasks-per-node=1".to_owned(),
        format!("--nodelist={}", names.join(",")),
        // One node that fails is no reason to end the others.
        "--no-kill".to_owned(),
        "--kill-on-bad-exit=0".to_owned(),
        "--wait=0".to_owned(),
        format!("--immediate={seconds}"),
        "--job-name=gtop".to_owned(),
        "--cpu-bind=none".to_owned(),
        "--mpi=none".to_owned(),
        // A home that hangs must not keep the probe from starting.
        "--chdir=/".to_owned(),
        "--export=PATH,HOME,USER,LOGNAME".to_owned(),
    ]);
    words.extend(["/bin/sh", "-c", script].map(str::to_owned));
    words.into_iter().map(OsString::from).collect()
}
