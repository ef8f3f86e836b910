//! Runs the programs of a scheduler with a time limit, an output limit and a controlled environment.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use crate::scheduler::SchedulerError;
use gtop_local::process::{ProgramCall, ProgramError, ProgramOutput, run_program, stream_program};
use gtop_local::text::sanitize;
use gtop_model::{SchedulerErrorKind as Kind, SchedulerWords};

/// Time limit for a program. Slurm itself reports a hanging controller after 20 s, with a better message.
pub(super) const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Texts in the messages of programs and the kind they mean. The first match counts, because one error causes others.
pub(super) type ErrorPatterns = &'static [(&'static str, Kind)];

/// How the programs of a scheduler are run, and what their messages mean.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) words: &'static SchedulerWords,
    pub(super) patterns: ErrorPatterns,
    /// Environment variables to set.
    pub(super) env: &'static [(&'static str, &'static str)],
    /// Selects variables of the user that would change the output.
    pub(super) hides: fn(&str) -> bool,
    /// Maximum bytes of output.
    pub(super) max_stdout: usize,
}

impl Programs {
    /// Runs a program to its end, whether it succeeds or not.
    pub(super) async fn run(
        &self,
        limit: Duration,
        program: &str,
        words: &[impl AsRef<OsStr>],
        input: &str,
    ) -> Result<ProgramOutput, SchedulerError> {
        let words: Vec<_> = words.iter().map(|word| word.as_ref().to_owned()).collect();
        let ended = run_program(self.call(limit, program, &words, input)).await;
        ended.map_err(|fault| self.run_error(program, &fault, limit))
    }

    /// Runs a program and passes its output on while it is read, up to `max_stdout` bytes.
    pub(super) async fn stream(
        &self,
        program: &str,
        words: &[&str],
        input: &str,
        max_stdout: usize,
        on_stdout: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<ProgramOutput, SchedulerError> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        let call = self.call(PROGRAM_TIMEOUT, program, &words, input);
        let ended = stream_program(ProgramCall { max_stdout, ..call }, on_stdout).await;
        ended.map_err(|fault| self.run_error(program, &fault, PROGRAM_TIMEOUT))
    }

    fn call<'a>(
        &'a self,
        timeout: Duration,
        program: &'a str,
        args: &'a [OsString],
        input: &'a str,
    ) -> ProgramCall<'a> {
        ProgramCall {
            program: program.as_ref(),
            args,
            input,
            env: self.env,
            hides: self.hides,
            timeout,
            max_stdout: self.max_stdout,
        }
    }

    /// Classifies the stderr of a program.
    pub(super) fn stderr_error(&self, program: &str, stderr: &str) -> SchedulerError {
        let lower = stderr.to_ascii_lowercase();
        let kind = self.patterns.iter().find(|(pattern, _)| lower.contains(pattern));
        let kind = kind.map_or(Kind::Other, |(_, kind)| *kind);
        // The last line only repeats that there is an error.
        let is_first_line_best = kind == Kind::BadConfiguration;
        let line = if is_first_line_best { first_error_line(stderr) } else { last_line(stderr) };
        self.error(kind, program, &line)
    }

    /// Classifies why a program could not be run to its end.
    pub(super) fn run_error(
        &self,
        program: &str,
        fault: &ProgramError,
        limit: Duration,
    ) -> SchedulerError {
        match fault {
            ProgramError::NotFound => self.error(Kind::NotInstalled, program, ""),
            ProgramError::NotStarted(why) => self.error(Kind::Other, program, why),
            ProgramError::TimedOut(stderr) => match self.stderr_error(program, stderr) {
                error if error.kind != Kind::Other => error,
                _ => {
                    let line = format!("{program} did not answer within {} s", limit.as_secs());
                    self.error(Kind::TimedOut, program, &line)
                }
            },
        }
    }

    /// Returns an error of a kind; `line` is a line that the program printed.
    pub(super) fn error(&self, kind: Kind, program: &str, line: &str) -> SchedulerError {
        let name = self.words.name;
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
        SchedulerError { kind, message }
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
