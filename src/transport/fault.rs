//! Why a node cannot be reached, or why its session ended.

use crate::process::NotStarted;
use crate::ssh;

/// Why a node cannot be reached, or why its session ended.
///
/// The text does not name the node, so that equal faults of many nodes group into one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// SSH failed.
    #[error(transparent)]
    Ssh(#[from] ssh::Fault),
    /// The command of `--exec` failed.
    #[error("{program} failed: {message}; run the --exec command by hand")]
    ExecFailed {
        /// The program.
        program: String,
        /// Its last line of stderr, or its exit status.
        message: String,
    },
    /// The Slurm step on the node did not start, or has ended.
    #[error("{}{}; {}", cause.text(), parenthesised(.message), cause.remedy())]
    SlurmStep {
        /// Why.
        cause: StepCause,
        /// Slurm's message; may be empty.
        message: String,
    },
}

impl From<NotStarted> for Fault {
    fn from(error: NotStarted) -> Self {
        Self::Ssh(error.into())
    }
}

/// Why gtop's Slurm step on a node failed or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepCause {
    /// In this version of Slurm other steps would wait for gtop's.
    SlurmTooOld,
    /// The user has no known running job on the node.
    NoJob,
    /// The job is not running, or no longer exists.
    NotRunning,
    /// Slurm refuses the step.
    Refused,
    /// The job or the step was cancelled.
    Cancelled,
    /// The job was cancelled.
    JobCancelled,
    /// The job was preempted.
    Preempted,
    /// The job reached its time limit.
    TimeLimit,
    /// A node of the job failed.
    NodeFailed,
    /// The step cannot start now.
    Busy,
    /// The controller does not answer.
    ControllerUnreachable,
    /// The task on this node has ended; the others run on.
    TaskEnded,
    /// The running step does not include this node.
    NotInStep,
    /// The step in one job failed; another job on the node is tried.
    TryingOtherJob,
    /// It was replaced by a step that includes more nodes.
    Restarted,
    /// The node has not joined the step yet.
    NotJoined,
    /// Anything else.
    Other,
}

impl StepCause {
    /// Returns the cause as a short text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::SlurmTooOld => "this Slurm would make your own steps wait for gtop's",
            Self::NoJob => "you have no running job on the node",
            Self::NotRunning => "the job is no longer running",
            Self::Refused => "Slurm refuses gtop a step in the job",
            Self::Cancelled => "the job or gtop's step in it was cancelled",
            Self::JobCancelled => "the job was cancelled",
            Self::Preempted => "the job was preempted",
            Self::TimeLimit => "the job reached its time limit",
            Self::NodeFailed => "a node of the job failed",
            Self::Busy => "Slurm cannot start gtop's step now",
            Self::ControllerUnreachable => "the Slurm controller does not answer",
            Self::TaskEnded => "the probe's task ended",
            Self::NotInStep => "the node is not part of gtop's current step",
            Self::TryingOtherJob => "trying another job of yours on the node",
            Self::Restarted => "gtop's step was restarted to include another node",
            Self::NotJoined => "the node has not joined gtop's step yet",
            Self::Other => "srun ended",
        }
    }

    /// Returns what the user can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::SlurmTooOld => "use ssh; srun needs Slurm 22.05 or later",
            Self::NoJob => "--transport srun reaches only nodes of your own running jobs",
            Self::NotRunning | Self::TimeLimit | Self::JobCancelled | Self::Preempted => {
                "no action is needed"
            }
            Self::Refused => "is the job yours? try srun --overlap --jobid=JOB hostname by hand",
            Self::Cancelled => "a new step starts if the job is still running",
            Self::NodeFailed => "see sinfo -R; a new step starts for the other nodes",
            Self::Busy | Self::Other => {
                "gtop retries; or try srun --overlap --jobid=JOB hostname by hand"
            }
            Self::ControllerUnreachable => "gtop retries; see scontrol ping",
            Self::TaskEnded | Self::NotInStep => {
                "gtop does not interrupt the other nodes of the job; restart gtop to start a new step"
            }
            Self::Restarted | Self::TryingOtherJob => "gtop reconnects automatically",
            Self::NotJoined => "it appears once its task has started; otherwise restart gtop",
        }
    }
}

impl Fault {
    /// Returns true if a step in another job may still work.
    pub(crate) const fn is_job_specific(&self) -> bool {
        let Self::SlurmStep { cause, .. } = self else { return false };
        !matches!(
            cause,
            StepCause::SlurmTooOld
                | StepCause::NoJob
                | StepCause::ControllerUnreachable
                | StepCause::Restarted
                | StepCause::TryingOtherJob
                | StepCause::NotJoined
        )
    }

    /// Returns true if gtop may retry without the user.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Ssh(fault) => fault.is_retryable(),
            Self::ExecFailed { .. } => true,
            Self::SlurmStep { cause, .. } => {
                !matches!(cause, StepCause::SlurmTooOld | StepCause::Refused)
            }
        }
    }

    /// Returns the fault of SSH, without the gateways it happened at.
    pub fn ssh_root(&self) -> Option<&ssh::Fault> {
        let Self::Ssh(fault) = self else { return None };
        Some(fault.root())
    }

    /// Returns the cause of a step's end, as a short text.
    pub(crate) fn cause_text(&self) -> &'static str {
        if let Self::SlurmStep { cause, .. } = self { cause.text() } else { "session lost" }
    }

    /// Returns the fault of a step, with Slurm's message.
    pub(crate) fn slurm_step(cause: StepCause, message: &str) -> Self {
        Self::SlurmStep { cause, message: message.to_owned() }
    }

    /// Returns the fault of a node that has not joined its step yet.
    pub fn not_joined() -> Self {
        Self::slurm_step(StepCause::NotJoined, "")
    }
}

fn parenthesised(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}
