//! Why a node cannot be reached, or why its session ended.

use crate::model::declare::table;
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

table! {
    /// Why gtop's Slurm step on a node failed or ended.
    pub enum StepCause {
        /// In this version of Slurm other steps would wait for gtop's.
        SlurmTooOld = (
            "this Slurm would make your own steps wait for gtop's",
            "use ssh; srun needs Slurm 22.05 or later",
        ),
        /// The user has no known running job on the node.
        NoJob = (
            "you have no running job on the node",
            "--transport srun reaches only nodes of your own running jobs",
        ),
        /// The job is not running, or no longer exists.
        NotRunning = ("the job is no longer running", NO_ACTION),
        /// Slurm refuses the step.
        Refused = (
            "Slurm refuses gtop a step in the job",
            "is the job yours? try srun --overlap --jobid=JOB hostname by hand",
        ),
        /// The job or the step was cancelled.
        Cancelled = (
            "the job or gtop's step in it was cancelled",
            "a new step starts if the job is still running",
        ),
        /// The job was cancelled.
        JobCancelled = ("the job was cancelled", NO_ACTION),
        /// The job was preempted.
        Preempted = ("the job was preempted", NO_ACTION),
        /// The job reached its time limit.
        TimeLimit = ("the job reached its time limit", NO_ACTION),
        /// A node of the job failed.
        NodeFailed = (
            "a node of the job failed",
            "see sinfo -R; a new step starts for the other nodes",
        ),
        /// The step cannot start now.
        Busy = ("Slurm cannot start gtop's step now", RETRIES),
        /// The controller does not answer.
        ControllerUnreachable = (
            "the Slurm controller does not answer",
            "gtop retries; see scontrol ping",
        ),
        /// The task on this node has ended; the others run on.
        TaskEnded = ("the probe's task ended", NO_RESTART),
        /// The running step does not include this node.
        NotInStep = ("the node is not part of gtop's current step", NO_RESTART),
        /// The step in one job failed; another job on the node is tried.
        TryingOtherJob = ("trying another job of yours on the node", RECONNECTS),
        /// It was replaced by a step that includes more nodes.
        Restarted = ("gtop's step was restarted to include another node", RECONNECTS),
        /// The node has not joined the step yet.
        NotJoined = (
            "the node has not joined gtop's step yet",
            "it appears once its task has started; otherwise restart gtop",
        ),
        /// Anything else.
        Other = ("srun ended", RETRIES),
    }
    fn row -> (&'static str, &'static str);
}

const NO_ACTION: &str = "no action is needed";
const RETRIES: &str = "gtop retries; or try srun --overlap --jobid=JOB hostname by hand";
const NO_RESTART: &str =
    "gtop does not interrupt the other nodes of the job; restart gtop to start a new step";
const RECONNECTS: &str = "gtop reconnects automatically";

impl StepCause {
    /// Returns the cause as a short text.
    pub const fn text(self) -> &'static str {
        self.row().0
    }

    /// Returns what the user can do about it.
    pub const fn remedy(self) -> &'static str {
        self.row().1
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
