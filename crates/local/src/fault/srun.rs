//! Why gtop's Slurm step on a node failed or ended.

/// Why gtop's Slurm step on a node failed or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepCause {
    /// In this version of Slurm other steps would wait for gtop's.
    TooOld,
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

/// What a step is, as the way to a node.
pub const STEP_OF_JOB: &str = "a step of a Slurm job (srun)";
/// Why the probe of a step does not run as root.
pub const NO_ROOT_IN_STEP: &str = "a step of a Slurm job cannot become root";

impl StepCause {
    /// Returns the cause as a short text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TooOld => "this Slurm would make your own steps wait for gtop's",
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

    /// Returns true if a step in another job may still work.
    pub(crate) const fn is_job_specific(self) -> bool {
        !matches!(
            self,
            Self::TooOld
                | Self::NoJob
                | Self::ControllerUnreachable
                | Self::TryingOtherJob
                | Self::Restarted
                | Self::NotJoined
        )
    }

    /// Returns true if gtop may try again without the user.
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::TooOld | Self::Refused)
    }
}
