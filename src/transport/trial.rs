//! What a doctor tries of the ways to nodes of jobs: a step that ends at once, and SSH where it is
//! remembered that nodes refuse it.

use std::time::Duration;

use tokio::time::timeout;

use crate::model::NodeName;
use crate::time::{Clock, Timestamp};
use crate::transport::channel::{Exit, Output};
use crate::transport::choice::Choice;
use crate::transport::fault::{Fault, StepCause};
use crate::transport::local::{Leash, Local};
use crate::transport::step::{self, Call, StepJob, VARIABLES};
use crate::transport::target::Target;
use crate::transport::{CONNECT_LIMIT, Transport, way};

/// How long a step that does nothing may take beyond what it may wait for.
const STEP_LIMIT: Duration = Duration::from_secs(15);
/// How long SSH may take; its own limits are shorter, but a configuration may run programs.
const SSH_LIMIT: Duration = Duration::from_secs(60);
/// Most of srun's complaints that are kept.
const MOST_COMPLAINTS: usize = 4096;

/// What is known of steps at this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSite {
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
    pub async fn step_site(&self) -> StepSite {
        let options = &self.0.options;
        let refused_at = self.0.site.refused_at(options.state.as_deref()).await;
        let cluster = if refused_at.is_some() { self.0.site.name().await } else { None };
        StepSite {
            version: self.0.site.safe_version(&options.srun_program).await,
            cluster,
            refused_at,
            is_only_choice: options.choice == Choice::Srun,
            is_ruled_out: matches!(options.choice, Choice::Native | Choice::Ssh)
                || options.exec.is_some(),
        }
    }

    /// Says whether a job of the user's is known to run on a node, so that a step may lead there.
    pub fn has_job(&self, node: &NodeName) -> bool {
        self.0.steps.place(node).is_some()
    }

    /// Returns in which job a step would lead to a node.
    pub fn step_job(&self, node: &NodeName) -> Option<StepJob> {
        self.0.steps.place(node).map(|place| place.job)
    }

    /// Takes note that a step in this job does not lead to the node, and returns whether another job
    /// may.
    pub fn pass_over(&self, node: &NodeName, job: &StepJob) -> bool {
        self.0.steps.pass_over(node, &job.id)
    }

    /// Begins a step on one node of a job, as that of a watch is begun, which ends at once.
    pub async fn try_step(&self, job: &StepJob, node: &NodeName) -> Result<(), Fault> {
        let options = &self.0.options;
        let connect_limit = options.connect_timeout.unwrap_or(CONNECT_LIMIT);
        let place = step::Place { job: job.clone(), nodes: [node.clone()].into() };
        let leash = Leash(options.leash.as_deref());
        let program = options.srun_program.as_path();
        let words = step::words(Call { place: &place, leash, program, connect_limit }, "exit 0");
        let mut local = Local::run_without(program, &words, leash, VARIABLES)?;
        local.close_stdin();
        let ending = async {
            let mut complaint = Vec::new();
            loop {
                match local.next().await {
                    Output::Stderr(bytes) if complaint.len() < MOST_COMPLAINTS => {
                        complaint.extend(bytes);
                    }
                    Output::Stdout(_) | Output::Stderr(_) => {}
                    Output::Exit(Exit::Status(0)) => return Ok(()),
                    Output::Exit(exit) => {
                        let fault = step::fault(&exit, &String::from_utf8_lossy(&complaint));
                        return Err(step::judged(fault, &job.id).await);
                    }
                    Output::Closed(fault) => {
                        return Err(fault.map_or_else(super::ending, |fault| *fault));
                    }
                }
            }
        };
        let late = |_| Fault::step(StepCause::Busy, "it has not begun in time");
        timeout(connect_limit + STEP_LIMIT, ending).await.map_err(late)?
    }

    /// Tries SSH to a node of a job though it is remembered that nodes of this cluster refuse it, and
    /// corrects what is remembered by what comes of it.
    pub async fn try_ssh_again(&self, target: &Target) -> Result<(), Fault> {
        let state = self.0.options.state.as_deref();
        let opening = timeout(SSH_LIMIT, Box::pin(self.open(target, "exit 0", |_| ())));
        let opened = opening.await.unwrap_or_else(|_late| Err(super::ending()));
        match opened {
            Ok(channel) => {
                channel.shutdown().await;
                self.0.site.note(state, None).await;
                Ok(())
            }
            Err(fault) => {
                if way::is_refusal(&fault) {
                    self.0.site.note(state, Some(Clock::system().now())).await;
                }
                Err(fault)
            }
        }
    }
}
