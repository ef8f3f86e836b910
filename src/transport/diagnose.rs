//! What a doctor tries of the ways to nodes of jobs: a step that ends at once, and SSH where it is
//! remembered that nodes refuse it.

use std::time::Duration;

use tokio::time::timeout;

use crate::model::NodeName;
use crate::time::{Clock, Timestamp};
use crate::transport::channel::{Exit, Output};
use crate::transport::fallback::TransportMode;
use crate::transport::fault::{Fault, StepCause};
use crate::transport::process::{LocalProcess, ParentGuard};
use crate::transport::srun::{self, HIDDEN_VARIABLES, SrunCall, StepJob};
use crate::transport::target::Target;
use crate::transport::{DEFAULT_CONNECT_TIMEOUT, Transport, select};

/// How long a step that does nothing may take beyond what it may wait for.
const STEP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long SSH may take; its own limits are shorter, but a configuration may run programs.
const SSH_TIMEOUT: Duration = Duration::from_secs(60);
/// Most of srun's complaints that are kept.
const MAX_STDERR: usize = 4096;

/// What is known of steps at this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSupport {
    /// Which Slurm this is; a fault where steps of gtop's are not begun with it.
    pub version: Result<String, Fault>,
    /// What the cluster is called, where anything depends on it.
    pub cluster: Option<String>,
    /// When a node of it last refused SSH, if that is remembered: steps are tried first.
    pub refused_at: Option<Timestamp>,
    /// There is no other way, by the user's own choice.
    pub is_only_choice: bool,
    /// Neither is a step ever begun, by the user's own choice.
    pub is_ruled_out: bool,
}

impl Transport {
    /// Says what is known of steps at this site.
    pub async fn step_support(&self) -> StepSupport {
        let options = &self.0.options;
        let refused_at = self.0.cluster.refused_at(options.state.as_deref()).await;
        let cluster = if refused_at.is_some() { self.0.cluster.name().await } else { None };
        StepSupport {
            version: self.0.cluster.checked_version(&options.srun_program).await,
            cluster,
            refused_at,
            is_only_choice: options.choice == TransportMode::Srun,
            is_ruled_out: matches!(options.choice, TransportMode::Native | TransportMode::Ssh)
                || options.exec.is_some(),
        }
    }

    /// Says whether a job of the user's is known to run on a node, so that a step may lead there.
    pub fn has_job(&self, node: &NodeName) -> bool {
        self.0.srun_steps.place(node).is_some()
    }

    /// Returns in which job a step would lead to a node.
    pub fn step_job(&self, node: &NodeName) -> Option<StepJob> {
        self.0.srun_steps.place(node).map(|place| place.job)
    }

    /// Takes note that a step in this job does not lead to the node, and returns whether another job
    /// may.
    pub fn pass_over(&self, node: &NodeName, job: &StepJob) -> bool {
        self.0.srun_steps.pass_over(node, &job.id)
    }

    /// Begins a step on one node of a job, as that of a watch is begun, which ends at once.
    pub async fn try_step(&self, job: &StepJob, node: &NodeName) -> Result<(), Fault> {
        let options = &self.0.options;
        let connect_limit = options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
        let place = srun::StepNodes { job: job.clone(), nodes: [node.clone()].into() };
        let leash = ParentGuard(options.leash.as_deref());
        let program = options.srun_program.as_path();
        let words =
            srun::srun_args(SrunCall { place: &place, leash, program, connect_limit }, "exit 0");
        let mut local = LocalProcess::spawn_without_env(program, &words, leash, HIDDEN_VARIABLES)?;
        local.close_stdin();
        let ending = async {
            let mut complaint = Vec::new();
            loop {
                match local.next().await {
                    Output::Stderr(bytes) if complaint.len() < MAX_STDERR => {
                        complaint.extend(bytes);
                    }
                    Output::Stdout(_) | Output::Stderr(_) => {}
                    Output::Exit(Exit::Status(0)) => return Ok(()),
                    Output::Exit(exit) => {
                        let fault = srun::srun_fault(&exit, &String::from_utf8_lossy(&complaint));
                        return Err(srun::refine_fault(fault, &job.id).await);
                    }
                    Output::Closed(fault) => {
                        return Err(fault.map_or_else(super::ending, |fault| *fault));
                    }
                }
            }
        };
        let late = |_| Fault::step(StepCause::Busy, "it has not begun in time");
        timeout(connect_limit + STEP_TIMEOUT, ending).await.map_err(late)?
    }

    /// Tries SSH to a node of a job though it is remembered that nodes of this cluster refuse it, and
    /// corrects what is remembered by what comes of it.
    pub async fn retry_ssh(&self, target: &Target) -> Result<(), Fault> {
        let state = self.0.options.state.as_deref();
        let opening = timeout(SSH_TIMEOUT, Box::pin(self.open(target, "exit 0", |_| ())));
        let opened = opening.await.unwrap_or_else(|_late| Err(super::ending()));
        match opened {
            Ok(channel) => {
                channel.shutdown().await;
                self.0.cluster.set_refused_at(state, None).await;
                Ok(())
            }
            Err(fault) => {
                if select::is_refusal(&fault) {
                    self.0.cluster.set_refused_at(state, Some(Clock::system().now())).await;
                }
                Err(fault)
            }
        }
    }
}
