//! A job step (`srun`) as the transport to the nodes of a job, for clusters that refuse SSH.
//!
//! One `srun` reaches all nodes of a job: its stdin goes to every task, and the output of the tasks is demultiplexed
//! by node here. The step takes no resources from other steps; with versions before 22.05 it would, so there it is
//! refused. gtop never runs more than one step per job.

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
pub(super) use node_jobs::NodeJobs;
pub(crate) use node_jobs::StepNodes;

use crate::transport::Options;
use crate::transport::srun::demux::Demux;
use crate::transport::srun::router::{Router, StepTask};
use gtop_local::fault::{Fault, StepCause};
use gtop_local::lock::lock;
use gtop_local::process::{Launch, LocalProcess, NotStarted, Output};
use gtop_model::{JobId, NodeName};
use gtop_ssh::{self as ssh, DEFAULT_CONNECT_TIMEOUT, shutting_down};

pub(crate) use cluster::{Cluster, refine_fault};
use messages::HIDDEN_VARIABLES;
pub(crate) use messages::srun_fault;

/// A running step is restarted for a node it does not include only at this age: a restart interrupts all nodes of
/// the job for a second.
const MIN_RESTART_AGE: Duration = Duration::from_secs(600);
/// The backoff after a step failed or ended.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// A step that ran this long resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Timeout for a step to exit after its last channel is gone.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);
/// Most lines of a node that wait for its session; further ones are dropped.
const MAX_PENDING_OUTPUT: usize = 256;
/// Most writes to stdin that wait.
const MAX_PENDING_COMMANDS: usize = 64;

/// Returns the node of a line, the number of its message, and whether the line begins a hello, which later
/// subscribers must get first.
pub(super) type LineAddress = fn(&[u8]) -> Option<(&str, u64, bool)>;

/// What a step runs on its nodes.
#[derive(Debug, Clone)]
pub(crate) struct StepScript {
    /// The nonce of the announcement line of each node: `NONCE [NOPY] NODE`.
    pub(crate) nonce: String,
    /// The script for `/bin/sh -c`.
    pub script: String,
    /// Written once to stdin, after the nodes have announced themselves.
    pub input: Vec<u8>,
    /// Finds the node of an output line.
    pub(crate) address_of: LineAddress,
}

/// The user's running jobs, shared with the steps.
pub(crate) type SharedNodeJobs = Arc<Mutex<NodeJobs>>;

/// All steps, and the jobs they run in.
#[derive(Debug, Default)]
pub(crate) struct SrunSteps {
    pub(crate) node_jobs: SharedNodeJobs,
    job_slots: Mutex<BTreeMap<JobId, Arc<JobSlot>>>,
    /// One task per step.
    tasks: Mutex<JoinSet<()>>,
}

/// The step of one job.
#[derive(Debug)]
struct JobSlot {
    /// Held while a step is started.
    start_permit: Semaphore,
    state: Mutex<JobSlotState>,
}

#[derive(Debug, Default)]
struct JobSlotState {
    step: Weak<SrunStep>,
    /// The router of the last step, which knows how it ended.
    last_router: Option<Arc<Router>>,
    backoff: Duration,
}

/// A running step; it ends with its last channel.
#[derive(Debug)]
pub(crate) struct SrunStep {
    router: Arc<Router>,
    commands: mpsc::Sender<Vec<u8>>,
    began: Instant,
}

/// How to start a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SrunCall<'a> {
    pub(crate) step: &'a StepNodes,
    pub(crate) options: &'a Options,
}

impl SrunCall<'_> {
    pub(crate) fn connect_timeout(self) -> Duration {
        self.options.ssh.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT)
    }
}

impl SrunSteps {
    /// Joins the step of a node's job; starts the step if there is none.
    pub(crate) async fn join(
        &self,
        node: &NodeName,
        call: SrunCall<'_>,
        script: &(dyn Fn() -> StepScript + Sync),
    ) -> Result<StepChannel, Fault> {
        let slot = self.job_slot(&call.step.job.id);
        let asked_at = Instant::now();
        let Ok(_permit) = slot.start_permit.acquire().await else {
            return Err(shutting_down().into());
        };
        let running = lock(&slot.state).step.upgrade().filter(|step| step.router.end().is_none());
        if let Some(step) = running {
            match step.router.subscribe(node) {
                Ok(outputs) => return Ok(self.channel(node, call, step, outputs)),
                Err(fault) if step.began.elapsed() < MIN_RESTART_AGE => return Err(fault),
                Err(_) => step.router.terminate(Fault::job_step(StepCause::Restarted, "")),
            }
        }
        slot.wait_to_start(asked_at).await?;
        let step = self.start_step(&slot, call, script())?;
        let outputs = step.router.subscribe(node)?;
        Ok(self.channel(node, call, step, outputs))
    }

    fn channel(
        &self,
        node: &NodeName,
        call: SrunCall<'_>,
        step: Arc<SrunStep>,
        outputs: mpsc::Receiver<Output>,
    ) -> StepChannel {
        let job = call.step.job.id.clone();
        StepChannel {
            node: node.clone(),
            job,
            node_jobs: Arc::clone(&self.node_jobs),
            step,
            outputs,
        }
    }

    fn job_slot(&self, job: &JobId) -> Arc<JobSlot> {
        let mut slots = lock(&self.job_slots);
        // Drops the state of jobs that are over.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_needed());
        let slot = slots.entry(job.clone()).or_insert_with(|| {
            Arc::new(JobSlot { start_permit: Semaphore::new(1), state: Mutex::default() })
        });
        Arc::clone(slot)
    }

    fn start_step(
        &self,
        slot: &JobSlot,
        call: SrunCall<'_>,
        script: StepScript,
    ) -> Result<Arc<SrunStep>, Fault> {
        let local = start(call, &script.script)?;
        let (commands, queued) = mpsc::channel(MAX_PENDING_COMMANDS);
        let router = Arc::new(Router::new(&call.step.nodes, &script.nonce, call.connect_timeout()));
        let demux = Demux::new(&call.step.nodes, &script.nonce, script.address_of);
        let step = Arc::new(SrunStep {
            router: Arc::clone(&router),
            commands: commands.clone(),
            began: Instant::now(),
        });
        let job = call.step.job.id.clone();
        let running =
            StepTask { job, local, router: Arc::clone(&router), demux, input: script.input };
        let mut state = lock(&slot.state);
        state.step = Arc::downgrade(&step);
        state.last_router = Some(router);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(running.run(commands.downgrade(), queued));
        Ok(step)
    }
}

impl JobSlot {
    /// Returns true if the state of the job is still needed.
    fn is_needed(&self) -> bool {
        let state = lock(&self.state);
        let ended = state.last_router.as_ref().and_then(|router| router.exited_at());
        state.step.strong_count() > 0 || ended.is_some_and(|at| at.elapsed() < MAX_BACKOFF)
    }

    /// Waits for the last step to exit, and for the backoff. Callers that asked before the last step failed get its
    /// fault.
    async fn wait_to_start(&self, asked_at: Instant) -> Result<(), Fault> {
        let last = lock(&self.state).last_router.clone();
        let Some(last) = last else { return Ok(()) };
        // There must never be two steps at once.
        if timeout(SHUTDOWN_TIMEOUT * 2, last.wait_until_exited()).await.is_err() {
            return Err(Fault::job_step(StepCause::Busy, "gtop's last step has not ended yet"));
        }
        let Some(ended) = last.exited_at() else { return Ok(()) };
        if let Some(fault) = last.end().filter(|_| ended >= asked_at) {
            return Err(fault);
        }
        let until = {
            let mut state = lock(&self.state);
            let was_stable = ended.duration_since(last.started_at) >= STABLE_AFTER;
            let doubled = (state.backoff * 2).clamp(MIN_BACKOFF, MAX_BACKOFF);
            state.backoff = if was_stable { MIN_BACKOFF } else { doubled };
            ended + state.backoff
        };
        sleep_until(until).await;
        Ok(())
    }
}

/// The channel of one node in a step.
#[derive(Debug)]
pub struct StepChannel {
    node: NodeName,
    job: JobId,
    node_jobs: SharedNodeJobs,
    step: Arc<SrunStep>,
    outputs: mpsc::Receiver<Output>,
}

impl StepChannel {
    /// Returns the nonce of the step's loaders.
    pub(crate) fn nonce(&self) -> &str {
        &self.step.router.nonce
    }

    /// Returns the router of the step.
    pub(crate) fn router(&self) -> Arc<Router> {
        Arc::clone(&self.step.router)
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Output, Option<Fault>> {
        self.outputs.recv().await.ok_or_else(|| self.close_fault())
    }

    /// Returns why the node's output ended, or that another job is tried.
    fn close_fault(&self) -> Option<Fault> {
        let fault = self.step.router.close_fault(&self.node)?;
        if fault.is_job_specific() && lock(&self.node_jobs).mark_failed(&self.node, &self.job) {
            return Some(Fault::job_step(StepCause::TryingOtherJob, fault.cause_text()));
        }
        Some(fault)
    }

    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        let sent = self.step.commands.send(bytes.to_vec()).await;
        sent.map_err(|_over| lost(Some(std::io::Error::other("the step has ended"))))
    }

    /// Closes the channel; the last one waits for the step to exit.
    pub(crate) async fn shutdown(self) {
        let router = Arc::clone(&self.step.router);
        let is_last = Arc::strong_count(&self.step) == 1;
        drop(self);
        if is_last {
            // A step that does not exit is ended by its parent guard.
            timeout(SHUTDOWN_TIMEOUT, router.wait_until_exited()).await.ok();
        }
    }
}

/// Starts `srun` for a step that runs `script`.
pub(crate) fn start(call: SrunCall<'_>, script: &str) -> Result<LocalProcess, NotStarted> {
    let args = srun_args(call, script);
    let Options { ssh, srun_program: program, .. } = call.options;
    let parent_guard = ssh.parent_guard.as_deref();
    LocalProcess::launch(Launch {
        program,
        args: &args,
        parent_guard,
        hides: HIDDEN_VARIABLES,
        env: &[],
    })
}

/// Returns the fault of an `srun` that ended without an exit status.
pub(crate) fn lost(error: Option<std::io::Error>) -> Fault {
    error.map_or_else(shutting_down, |error| ssh::Fault::session_lost(&error)).into()
}

/// Returns the arguments of `srun`.
fn srun_args(call: SrunCall<'_>, script: &str) -> Vec<OsString> {
    let StepNodes { job, nodes } = call.step;
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    let seconds = call.connect_timeout().as_secs().max(1);
    let mut args = node_jobs::srun_options(job);
    args.extend([
        // Shares all resources and allocates no memory. No devices are requested, so that it sees those of the job.
        "--overlap".to_owned(),
        "--mem=0".to_owned(),
        format!("--nodes={}", names.len()),
        format!("--ntasks={}", names.len()),
        "--ntasks-per-node=1".to_owned(),
        format!("--nodelist={}", names.join(",")),
        // A failed node must not end the step on the others.
        "--no-kill".to_owned(),
        "--kill-on-bad-exit=0".to_owned(),
        "--wait=0".to_owned(),
        format!("--immediate={seconds}"),
        "--job-name=gtop".to_owned(),
        "--cpu-bind=none".to_owned(),
        "--mpi=none".to_owned(),
        // A home directory that hangs must not block the probe.
        "--chdir=/".to_owned(),
        "--export=PATH,HOME,USER,LOGNAME".to_owned(),
    ]);
    args.extend(["/bin/sh", "-c", script].map(str::to_owned));
    args.into_iter().map(OsString::from).collect()
}
