//! Why a node cannot be reached, or why its session ended.

use crate::model::FaultKind;
use crate::model::declare::table;
use crate::process::NotStarted;
use crate::ssh::{self, Recourse};

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
    #[error("{}{}; {}", cause.facts().text, parenthesised(.message), cause.facts().remedy)]
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
        SlurmTooOld = StepFacts {
            kind: FaultKind::Configuration,
            ..in_any_job(
                "this Slurm would make your own steps wait for gtop's",
                "use ssh; srun needs Slurm 22.05 or later",
            )
        },
        /// The user has no known running job on the node.
        NoJob = in_any_job(
            "you have no running job on the node",
            "--transport srun reaches only nodes of your own running jobs",
        ),
        /// The job is not running, or no longer exists.
        NotRunning = in_this_job("the job is no longer running", NO_ACTION),
        /// Slurm refuses the step.
        Refused = StepFacts {
            kind: FaultKind::AuthenticationRefused,
            ..in_this_job(
                "Slurm refuses gtop a step in the job",
                "is the job yours? try srun --overlap --jobid=JOB hostname by hand",
            )
        },
        /// The job or the step was cancelled.
        Cancelled = in_this_job(
            "the job or gtop's step in it was cancelled",
            "a new step starts if the job is still running",
        ),
        /// The job was cancelled.
        JobCancelled = in_this_job("the job was cancelled", NO_ACTION),
        /// The job was preempted.
        Preempted = in_this_job("the job was preempted", NO_ACTION),
        /// The job reached its time limit.
        TimeLimit = in_this_job("the job reached its time limit", NO_ACTION),
        /// A node of the job failed.
        NodeFailed = in_this_job(
            "a node of the job failed",
            "see sinfo -R; a new step starts for the other nodes",
        ),
        /// The step cannot start now.
        Busy = in_this_job("Slurm cannot start gtop's step now", TRY_BY_HAND),
        /// The controller does not answer.
        ControllerUnreachable =
            in_any_job("the Slurm controller does not answer", "gtop retries; see scontrol ping"),
        /// The task on this node has ended; the others run on.
        TaskEnded = in_this_job("the probe's task ended", RESTART_NEEDED),
        /// The running step does not include this node.
        NotInStep = in_this_job("the node is not part of gtop's current step", RESTART_NEEDED),
        /// The step in one job failed; another job on the node is tried.
        TryingOtherJob = in_any_job("trying another job of yours on the node", RECONNECTING),
        /// It was replaced by a step that includes more nodes.
        Restarted = in_any_job("gtop's step was restarted to include another node", RECONNECTING),
        /// The node has not joined the step yet.
        NotJoined = StepFacts {
            kind: FaultKind::TimedOut,
            ..in_any_job(
                "the node has not joined gtop's step yet",
                "it appears once its task has started; otherwise restart gtop",
            )
        },
        /// Anything else.
        Other = in_this_job("srun ended", TRY_BY_HAND),
    }
    /// Returns what the cause means for the node and the user.
    pub fn facts -> StepFacts;
}

/// What a cause means for the node and the user.
#[derive(Debug, Clone, Copy)]
pub struct StepFacts {
    /// The cause as a short text.
    pub text: &'static str,
    /// What the user can do about it.
    pub remedy: &'static str,
    /// The fault of the node.
    pub kind: FaultKind,
    /// A step in another job may still work.
    pub(crate) is_job_specific: bool,
}

const NO_ACTION: &str = "no action is needed";
const TRY_BY_HAND: &str = "gtop retries; or try srun --overlap --jobid=JOB hostname by hand";
const RESTART_NEEDED: &str =
    "gtop does not interrupt the other nodes of the job; restart gtop to start a new step";
const RECONNECTING: &str = "gtop reconnects automatically";

/// A cause after which a step in another job may still work.
const fn in_this_job(text: &'static str, remedy: &'static str) -> StepFacts {
    StepFacts { text, remedy, kind: FaultKind::SessionLost, is_job_specific: true }
}

/// A cause that another job would not help.
const fn in_any_job(text: &'static str, remedy: &'static str) -> StepFacts {
    StepFacts { is_job_specific: false, ..in_this_job(text, remedy) }
}

impl Fault {
    /// Returns true if a step in another job may still work.
    pub(crate) const fn is_job_specific(&self) -> bool {
        matches!(self, Self::SlurmStep { cause, .. } if cause.facts().is_job_specific)
    }

    /// Returns true if gtop may retry without the user.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Ssh(fault) => fault.permits(Recourse::Retry),
            Self::ExecFailed { .. } => true,
            Self::SlurmStep { cause, .. } => cause.facts().kind.is_retryable(),
        }
    }

    /// Returns the cause of a step's end, as a short text.
    pub(crate) fn cause_text(&self) -> &'static str {
        if let Self::SlurmStep { cause, .. } = self { cause.facts().text } else { "session lost" }
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
