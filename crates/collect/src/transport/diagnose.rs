//! Checks for `gtop doctor`: starts a trial job step, and retries SSH on clusters that refused it.

use std::time::Duration;

use tokio::time::timeout;

use crate::scheduler::StepJob;
use crate::transport::TransportMode;
use crate::transport::srun::{self, SrunCall};
use crate::transport::{Target, Transport, select};
use gtop_local::fault::{Fault, StepCause};
use gtop_local::lock::lock;
use gtop_local::process::{Exit, Output, OutputTail};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::NodeName;
use gtop_ssh::shutting_down;

/// Timeout for a trial step, on top of the connect timeout.
const STEP_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for SSH; its own timeouts are shorter, but a configuration may run programs.
const SSH_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of srun's stderr that are kept.
const MAX_STDERR: usize = 4096;

/// The support for job steps on this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSupport {
    /// The version of the scheduler; a fault if gtop does not start steps with it.
    pub version: Result<String, Fault>,
    /// The cluster name; only if a refusal is cached.
    pub cluster: Option<String>,
    /// When a node last refused SSH, if cached: then steps are tried first.
    pub refused_at: Option<Timestamp>,
    /// `--transport srun`: only steps are used.
    pub is_forced: bool,
    /// Steps are never used, by the user's settings.
    pub is_disabled: bool,
}

impl Transport {
    /// Returns whether gtop can use job steps on this cluster.
    pub async fn step_support(&self) -> StepSupport {
        let options = &self.0.options;
        let refused_at = self.0.cluster.refused_at(options.state.as_deref()).await;
        let cluster = if refused_at.is_some() { self.0.cluster.name().await } else { None };
        StepSupport {
            version: self.0.cluster.checked_version(&options.srun_program).await,
            cluster,
            refused_at,
            is_forced: options.mode == TransportMode::Srun,
            is_disabled: matches!(options.mode, TransportMode::Native | TransportMode::Ssh)
                || options.exec.is_some(),
        }
    }

    /// Returns true if a running job of the user on a node is known.
    pub fn has_job(&self, node: &NodeName) -> bool {
        self.step_job(node).is_some()
    }

    /// Returns the job in which a step on a node would start.
    pub fn step_job(&self, node: &NodeName) -> Option<StepJob> {
        lock(&self.0.srun_steps.node_jobs).job_of(node).cloned()
    }

    /// Records that a step in this job failed on a node, and returns true if there is another job to try.
    pub fn mark_job_failed(&self, node: &NodeName, job: &StepJob) -> bool {
        lock(&self.0.srun_steps.node_jobs).mark_failed(node, &job.id)
    }

    /// Starts a step on one node that exits at once, with the options used for monitoring.
    pub async fn try_step(&self, job: &StepJob, node: &NodeName) -> Result<(), Fault> {
        let step_nodes = srun::StepNodes { job: job.clone(), nodes: [node.clone()].into() };
        let call = SrunCall { step: &step_nodes, options: &self.0.options };
        let mut local = srun::start(call, "exit 0")?;
        local.close_stdin();
        let running = async {
            let mut stderr = OutputTail::new(MAX_STDERR);
            loop {
                match local.next().await {
                    Ok(Output::Stderr(bytes)) => stderr.push(&bytes),
                    Ok(Output::Stdout(_)) => {}
                    Ok(Output::Exit(Exit::Status(0))) => return Ok(()),
                    Ok(Output::Exit(exit)) => {
                        let fault = srun::srun_fault(&exit, &stderr.text());
                        return Err(srun::refine_fault(fault, &job.id).await);
                    }
                    Err(error) => return Err(srun::lost(error)),
                }
            }
        };
        timeout(call.connect_timeout() + STEP_TIMEOUT, running).await.unwrap_or_else(|_elapsed| {
            Err(Fault::job_step(StepCause::Busy, "it did not start in time"))
        })
    }

    /// Tries SSH to a node although a refusal is cached, and updates the cache by the result.
    pub async fn retry_ssh(&self, target: &Target) -> Result<(), Fault> {
        let state = self.0.options.state.as_deref();
        let opening = timeout(SSH_TIMEOUT, Box::pin(self.open(target, "exit 0", |_| ())));
        let opened = opening.await.unwrap_or_else(|_elapsed| Err(shutting_down().into()));
        match opened {
            Ok(channel) => {
                channel.shutdown().await;
                self.0.cluster.set_refused_at(state, None).await;
                Ok(())
            }
            Err(fault) => {
                if select::refuses_login(&fault) {
                    self.0.cluster.set_refused_at(state, Some(Clock::system().now())).await;
                }
                Err(fault)
            }
        }
    }
}
