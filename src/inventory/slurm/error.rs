//! Classifies errors of Slurm's commands and gives each a message.

use crate::model::SchedulerErrorKind;
use crate::process::ProgramError;
use crate::text::sanitize;

/// An error of a Slurm command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmError {
    pub kind: SchedulerErrorKind,
    /// One sentence for the screen.
    pub message: String,
}

/// Texts in stderr and the kind they mean. The first match counts, because one error causes others.
const PATTERNS: &[(&str, SchedulerErrorKind)] = &[
    ("munge", SchedulerErrorKind::Munge),
    ("authentication", SchedulerErrorKind::Munge),
    ("auth_g_create", SchedulerErrorKind::Munge),
    ("invalid credential", SchedulerErrorKind::Munge),
    ("configuration source", SchedulerErrorKind::NoConfiguration),
    ("unable to status file", SchedulerErrorKind::NoConfiguration),
    ("parse error", SchedulerErrorKind::BadConfiguration),
    ("parsing error", SchedulerErrorKind::BadConfiguration),
    ("process configuration file", SchedulerErrorKind::BadConfiguration),
    ("configuration file", SchedulerErrorKind::NoConfiguration),
    ("slurm.conf", SchedulerErrorKind::NoConfiguration),
    ("configless", SchedulerErrorKind::NoConfiguration),
    ("resolve_ctls_from_dns_srv", SchedulerErrorKind::NoConfiguration),
    ("socket timed out", SchedulerErrorKind::ControllerUnresponsive),
    ("unable to contact", SchedulerErrorKind::ControllerDown),
    ("connection refused", SchedulerErrorKind::ControllerDown),
    ("connect failure", SchedulerErrorKind::ControllerDown),
    ("no route to host", SchedulerErrorKind::ControllerDown),
    ("zero bytes were transmitted", SchedulerErrorKind::ControllerUnresponsive),
    ("invalid job id", SchedulerErrorKind::NoSuchJob),
    ("invalid user", SchedulerErrorKind::InvalidArgument),
    ("invalid partition", SchedulerErrorKind::InvalidArgument),
    ("invalid account", SchedulerErrorKind::InvalidArgument),
    ("invalid node name", SchedulerErrorKind::InvalidArgument),
    ("unrecognized option", SchedulerErrorKind::InvalidArgument),
    ("permission denied", SchedulerErrorKind::PermissionDenied),
];

impl SlurmError {
    /// Classifies the stderr of a command.
    pub fn from_stderr(program: &str, stderr: &str) -> Self {
        let lower = stderr.to_ascii_lowercase();
        let kind = PATTERNS.iter().find(|(pattern, _)| lower.contains(pattern));
        let kind = kind.map_or(SchedulerErrorKind::Other, |(_, kind)| *kind);
        // The last line only says that there is an error.
        let is_first_line_best = kind == SchedulerErrorKind::BadConfiguration;
        let line = if is_first_line_best { first_error_line(stderr) } else { last_line(stderr) };
        Self::new(kind, program, &line)
    }

    /// Returns an error for output that is not what was requested.
    pub(super) fn unexpected_output(program: &str, message: &str) -> Self {
        Self::new(SchedulerErrorKind::UnexpectedOutput, program, message)
    }

    /// Returns an error for output that is longer than gtop reads.
    pub(super) fn truncated(program: &str) -> Self {
        Self::new(SchedulerErrorKind::TooLong, program, "")
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.kind == SchedulerErrorKind::TooLong
    }

    /// Classifies why a command could not be run to its end.
    pub fn from_run_error(program: &str, fault: &ProgramError, seconds: u64) -> Self {
        match fault {
            ProgramError::NotFound => Self::new(SchedulerErrorKind::NotInstalled, program, ""),
            ProgramError::NotStarted(why) => Self::new(SchedulerErrorKind::Other, program, why),
            ProgramError::TimedOut(stderr) => {
                let error = Self::from_stderr(program, stderr);
                if error.kind == SchedulerErrorKind::Other {
                    let line = format!("{program} did not answer within {seconds} s");
                    return Self::new(SchedulerErrorKind::TimedOut, program, &line);
                }
                error
            }
        }
    }

    fn new(kind: SchedulerErrorKind, program: &str, line: &str) -> Self {
        use SchedulerErrorKind as Kind;
        let message = match kind {
            Kind::NotInstalled => format!("{program} is not on the PATH of this machine"),
            Kind::NoConfiguration => {
                "Slurm's configuration was not found on this machine".to_owned()
            }
            Kind::BadConfiguration => {
                format!("Slurm's configuration on this machine has an error: {line}")
            }
            Kind::ControllerDown => "the Slurm controller is down".to_owned(),
            Kind::ControllerUnresponsive => "the Slurm controller does not answer".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_slurm_are_classified() {
        for (stderr, kind) in [
            (
                "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
                SchedulerErrorKind::ControllerDown,
            ),
            (
                "slurm_load_jobs error: Socket timed out on send/recv operation\n",
                SchedulerErrorKind::ControllerUnresponsive,
            ),
            (
                "squeue: error: If munged is up, restart with --num-threads=10\n\
                 squeue: error: Munge encode failed: Failed to connect to \"/run/munge/munge.socket.2\"\n\
                 squeue: error: slurm_send_node_msg: auth_g_create: REQUEST_FED_INFO has authentication error\n",
                SchedulerErrorKind::Munge,
            ),
            ("slurm_load_jobs error: Invalid job id specified\n", SchedulerErrorKind::NoSuchJob),
            ("squeue: error: Invalid user: nobodyxx\n", SchedulerErrorKind::InvalidArgument),
            ("Invalid node name specified\n", SchedulerErrorKind::InvalidArgument),
            ("Invalid node name gpu99\n", SchedulerErrorKind::InvalidArgument),
            (
                "squeue: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: No such file or \
                 directory, retrying in 1sec up to 60sec\nsqueue: fatal: Unable to process configuration file\n",
                SchedulerErrorKind::NoConfiguration,
            ),
            (
                "squeue: error: Parse error in file /etc/slurm/slurm.conf line 37: \"Nonsense\"\n\
                 squeue: fatal: Unable to process configuration file\n",
                SchedulerErrorKind::BadConfiguration,
            ),
            (
                "scontrol: error: Invalid SlurmctldPort abc\nscontrol: fatal: Unable to process configuration file\n",
                SchedulerErrorKind::BadConfiguration,
            ),
            (
                "squeue: fatal: Could not establish a configuration source\n",
                SchedulerErrorKind::NoConfiguration,
            ),
            ("\u{1b}[31mSegmentation fault", SchedulerErrorKind::Other),
            ("", SchedulerErrorKind::Other),
        ] {
            let error = SlurmError::from_stderr("squeue", stderr);
            assert_eq!(error.kind, kind, "{stderr}");
            assert!(!error.message.is_empty() && !error.message.contains('\u{1b}'));
        }
    }

    #[test]
    fn an_error_in_the_configuration_is_quoted() {
        let stderr = "squeue: error: _parse_next_key: Parsing error at unrecognized key: Foo\n\
                    squeue: fatal: Unable to process configuration file\n";
        let error = SlurmError::from_stderr("squeue", stderr);
        assert_eq!(
            error.message,
            "Slurm's configuration on this machine has an error: Parsing error at unrecognized key: Foo"
        );
    }

    #[test]
    fn a_timed_out_command_is_classified_by_its_stderr() {
        let late = |stderr: &str| {
            SlurmError::from_run_error("squeue", &ProgramError::TimedOut(stderr.to_owned()), 30)
                .kind
        };
        assert_eq!(late("squeue: error: Munge encode failed"), SchedulerErrorKind::Munge);
        assert_eq!(late(""), SchedulerErrorKind::TimedOut);
        let missing = SlurmError::from_run_error("squeue", &ProgramError::NotFound, 30);
        assert!(missing.message.contains("not on the PATH"));
    }
}
