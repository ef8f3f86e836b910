//! Why a node cannot be reached by any way, or why its session ended.

use crate::fault::ssh::{self, Recourse};
use crate::fault::{LoaderCause, ScrapeFault, StepCause};
use crate::process::NotStarted;

/// Why a node cannot be reached, or why its session ended.
///
/// The text does not name the node, so that equal faults of many nodes group into one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// SSH failed.
    #[error(transparent)]
    Ssh(#[from] ssh::Fault),
    /// The command of `--exec` failed.
    #[error("{program} failed: {message}")]
    ExecFailed {
        /// The program.
        program: String,
        /// Its last line of stderr, or its exit status.
        message: String,
    },
    /// The step of a job on the node did not start, or has ended.
    #[error("{}{}", cause.text(), parenthesised(.message))]
    JobStep {
        /// Why.
        cause: StepCause,
        /// The scheduler's message; may be empty.
        message: String,
    },
    /// The connection is open, and the login shell does not start the probe.
    #[error("{message}")]
    Loader {
        /// Why.
        cause: LoaderCause,
        /// What happened, with the last output of the shell.
        message: String,
        /// `ssh` leads to the same shell.
        is_by_ssh: bool,
    },
    /// The page of metrics is not read.
    #[error("the page of metrics: {0}")]
    Scrape(#[from] ScrapeFault),
}

impl From<NotStarted> for Fault {
    fn from(error: NotStarted) -> Self {
        Self::Ssh(error.into())
    }
}

impl Fault {
    /// Returns true if a step in another job may still work.
    pub const fn is_job_specific(&self) -> bool {
        matches!(self, Self::JobStep { cause, .. } if cause.is_job_specific())
    }

    /// Returns true if gtop may retry without the user.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Ssh(fault) => fault.permits(Recourse::Retry),
            Self::ExecFailed { .. } | Self::Loader { .. } | Self::Scrape(_) => true,
            Self::JobStep { cause, .. } => cause.is_retryable(),
        }
    }

    /// Returns the cause of a step's end, as a short text.
    pub fn cause_text(&self) -> &'static str {
        if let Self::JobStep { cause, .. } = self { cause.text() } else { "session lost" }
    }

    /// Returns the fault of a step, with the scheduler's message.
    pub fn job_step(cause: StepCause, message: &str) -> Self {
        Self::JobStep { cause, message: message.to_owned() }
    }

    /// Returns the fault of a node that has not joined its step yet.
    pub fn not_joined() -> Self {
        Self::job_step(StepCause::NotJoined, "")
    }
}

fn parenthesised(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}
