//! Why a scheduler does not answer, with a message for the screen.

use std::sync::Arc;

use gtop_local::time::Timestamp;
use gtop_model::{JobList, JobListError, SchedulerErrorKind};

/// An error of a scheduler's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerError {
    pub kind: SchedulerErrorKind,
    /// One sentence for the screen.
    pub message: String,
}

impl SchedulerError {
    /// Returns why there is no list newer than `list`, from when it became so.
    pub(super) fn of_list(self, list: &JobList, now: Timestamp) -> JobListError {
        let Self { kind, message } = self;
        let message: Arc<str> = message.into();
        let known = list.error.as_ref().filter(|known| known.message == message);
        JobListError { since: known.map_or(now, |known| known.since), message, kind }
    }

    /// Returns true if the server did not answer, which may do so later.
    pub(super) fn is_of_server(&self) -> bool {
        use SchedulerErrorKind as Kind;
        matches!(self.kind, Kind::ControllerDown | Kind::ControllerUnresponsive | Kind::TimedOut)
    }

    /// Returns true if the output was longer than gtop reads.
    pub(super) fn is_truncated(&self) -> bool {
        self.kind == SchedulerErrorKind::TooLong
    }
}
