//! Why a scheduler does not answer, with a message for the screen.

use std::sync::Arc;

use gtop_local::process::ProgramError;
use gtop_local::text::sanitize;
use gtop_local::time::Timestamp;
use gtop_model::{JobList, JobListError, SchedulerErrorKind, SchedulerWords};

/// An error of a scheduler's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerError {
    pub kind: SchedulerErrorKind,
    /// One sentence for the screen.
    pub message: String,
}

/// Texts in the messages of programs and the kind they mean. The first match counts, because one error causes others.
pub(super) type ErrorPatterns = &'static [(&'static str, SchedulerErrorKind)];

impl SchedulerError {
    /// Classifies the stderr of a program.
    pub(super) fn of_stderr(
        words: &SchedulerWords,
        patterns: ErrorPatterns,
        program: &str,
        stderr: &str,
    ) -> Self {
        let lower = stderr.to_ascii_lowercase();
        let kind = patterns.iter().find(|(pattern, _)| lower.contains(pattern));
        let kind = kind.map_or(SchedulerErrorKind::Other, |(_, kind)| *kind);
        // The last line only repeats that there is an error.
        let is_first_line_best = kind == SchedulerErrorKind::BadConfiguration;
        let line = if is_first_line_best { first_error_line(stderr) } else { last_line(stderr) };
        Self::new(words, kind, program, &line)
    }

    /// Classifies why a program could not be run to its end.
    pub(super) fn of_run_error(
        words: &SchedulerWords,
        patterns: ErrorPatterns,
        program: &str,
        fault: &ProgramError,
        seconds: u64,
    ) -> Self {
        match fault {
            ProgramError::NotFound => {
                Self::new(words, SchedulerErrorKind::NotInstalled, program, "")
            }
            ProgramError::NotStarted(why) => {
                Self::new(words, SchedulerErrorKind::Other, program, why)
            }
            ProgramError::TimedOut(stderr) => {
                let error = Self::of_stderr(words, patterns, program, stderr);
                if error.kind == SchedulerErrorKind::Other {
                    let line = format!("{program} did not answer within {seconds} s");
                    return Self::new(words, SchedulerErrorKind::TimedOut, program, &line);
                }
                error
            }
        }
    }

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

    /// Returns an error of a kind; `line` is a line that the program printed.
    pub(super) fn new(
        words: &SchedulerWords,
        kind: SchedulerErrorKind,
        program: &str,
        line: &str,
    ) -> Self {
        use SchedulerErrorKind as Kind;
        let name = words.name;
        let message = match kind {
            Kind::NotInstalled => format!("{program} is not on the PATH of this machine"),
            Kind::NoConfiguration => {
                format!("{name}'s configuration was not found on this machine")
            }
            Kind::BadConfiguration => {
                format!("{name}'s configuration on this machine has an error: {line}")
            }
            Kind::ControllerDown => format!("the {name} controller is down"),
            Kind::ControllerUnresponsive => format!("the {name} controller does not answer"),
            Kind::Munge => {
                "munge, which authenticates users, does not work on this machine".to_owned()
            }
            Kind::TooLong => format!("{program} printed more than gtop reads"),
            Kind::NoSuchJob => "the job is not in the queue".to_owned(),
            Kind::TimedOut
            | Kind::UnexpectedOutput
            | Kind::InvalidArgument
            | Kind::PermissionDenied => line.to_owned(),
            Kind::Other => format!("{program} failed: {line}"),
        };
        Self { kind, message }
    }
}

/// Returns the last line that is not empty.
fn last_line(stderr: &str) -> String {
    let lines = stderr.lines().map(|line| sanitize(line, 300));
    strip_program(&lines.rev().find(|line| !line.is_empty()).unwrap_or_default())
}

/// Returns the first line with an error.
fn first_error_line(stderr: &str) -> String {
    let mut lines = stderr.lines().map(|line| sanitize(line, 300));
    lines
        .find(|line| line.contains("error: "))
        .map_or_else(|| last_line(stderr), |line| strip_program(&line))
}

/// Removes the name of the program.
fn strip_program(line: &str) -> String {
    let message = match line.split_once("error: ") {
        Some((program, message)) if program.split(' ').count() <= 2 => message,
        _ => line,
    };
    let message = message.strip_prefix("_parse_next_key: ").unwrap_or(message);
    if message.is_empty() { "it printed nothing".to_owned() } else { message.to_owned() }
}
