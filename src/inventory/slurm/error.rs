//! Classifies errors of Slurm's commands and gives each a message and a remedy.

use crate::process::ProgramError;
use crate::text::sanitize;

/// An error of a Slurm command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmError {
    pub kind: SlurmErrorKind,
    /// One sentence for the screen.
    pub message: String,
    /// What the user can do about it.
    pub remedy: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlurmErrorKind {
    /// The command is not on the `PATH`.
    NotInstalled,
    /// No configuration was found.
    NoConfiguration,
    /// The configuration has an error, or a key that this version does not know.
    BadConfiguration,
    /// The controller cannot be connected to.
    ControllerDown,
    /// The controller accepts connections and does not answer.
    ControllerUnresponsive,
    /// The authentication service does not work.
    Munge,
    /// The command was killed at its time limit.
    TimedOut,
    /// The command printed something else than requested.
    UnexpectedOutput,
    /// The command printed more than gtop reads.
    TooLong,
    /// The job is not known, or no longer.
    NoSuchJob,
    /// A user, a partition or an account does not exist.
    InvalidArgument,
    PermissionDenied,
    Other,
}

/// Texts in stderr and the kind they mean. The first match counts, because one error causes others.
const PATTERNS: &[(&str, SlurmErrorKind)] = &[
    ("munge", SlurmErrorKind::Munge),
    ("authentication", SlurmErrorKind::Munge),
    ("auth_g_create", SlurmErrorKind::Munge),
    ("invalid credential", SlurmErrorKind::Munge),
    ("configuration source", SlurmErrorKind::NoConfiguration),
    ("unable to status file", SlurmErrorKind::NoConfiguration),
    ("parse error", SlurmErrorKind::BadConfiguration),
    ("parsing error", SlurmErrorKind::BadConfiguration),
    ("process configuration file", SlurmErrorKind::BadConfiguration),
    ("configuration file", SlurmErrorKind::NoConfiguration),
    ("slurm.conf", SlurmErrorKind::NoConfiguration),
    ("configless", SlurmErrorKind::NoConfiguration),
    ("resolve_ctls_from_dns_srv", SlurmErrorKind::NoConfiguration),
    ("socket timed out", SlurmErrorKind::ControllerUnresponsive),
    ("unable to contact", SlurmErrorKind::ControllerDown),
    ("connection refused", SlurmErrorKind::ControllerDown),
    ("connect failure", SlurmErrorKind::ControllerDown),
    ("no route to host", SlurmErrorKind::ControllerDown),
    ("zero bytes were transmitted", SlurmErrorKind::ControllerUnresponsive),
    ("invalid job id", SlurmErrorKind::NoSuchJob),
    ("invalid user", SlurmErrorKind::InvalidArgument),
    ("invalid partition", SlurmErrorKind::InvalidArgument),
    ("invalid account", SlurmErrorKind::InvalidArgument),
    ("invalid node name", SlurmErrorKind::InvalidArgument),
    ("unrecognized option", SlurmErrorKind::InvalidArgument),
    ("permission denied", SlurmErrorKind::PermissionDenied),
];

impl SlurmError {
    /// Classifies the stderr of a command.
    pub fn from_stderr(program: &str, stderr: &str) -> Self {
        let lower = stderr.to_ascii_lowercase();
        let kind = PATTERNS.iter().find(|(pattern, _)| lower.contains(pattern));
        let kind = kind.map_or(SlurmErrorKind::Other, |(_, kind)| *kind);
        // The last line only says that there is an error.
        let is_first_line_best = kind == SlurmErrorKind::BadConfiguration;
        let line = if is_first_line_best { first_error_line(stderr) } else { last_line(stderr) };
        Self::new(kind, program, &line)
    }

    /// Returns an error for output that is not what was requested.
    pub(super) fn unexpected_output(program: &str, message: &str) -> Self {
        Self::new(SlurmErrorKind::UnexpectedOutput, program, message)
    }

    /// Returns an error for output that is longer than gtop reads.
    pub(super) fn truncated(program: &str) -> Self {
        Self::new(SlurmErrorKind::TooLong, program, "")
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.kind == SlurmErrorKind::TooLong
    }

    /// Classifies why a command could not be run to its end.
    pub fn from_run_error(program: &str, fault: &ProgramError, seconds: u64) -> Self {
        match fault {
            ProgramError::NotFound => Self::new(SlurmErrorKind::NotInstalled, program, ""),
            ProgramError::NotStarted(why) => Self::new(SlurmErrorKind::Other, program, why),
            ProgramError::TimedOut(stderr) => {
                let error = Self::from_stderr(program, stderr);
                if error.kind == SlurmErrorKind::Other {
                    let line = format!("{program} did not answer within {seconds} s");
                    return Self::new(SlurmErrorKind::TimedOut, program, &line);
                }
                error
            }
        }
    }

    fn new(kind: SlurmErrorKind, program: &str, line: &str) -> Self {
        use SlurmErrorKind as Kind;
        let (message, remedy) = match kind {
            Kind::NotInstalled => (
                format!("{program} is not on the PATH of this machine"),
                "start gtop on a login node of the cluster, or load its Slurm module",
            ),
            Kind::NoConfiguration => (
                "Slurm's configuration was not found on this machine".to_owned(),
                "check /etc/slurm/slurm.conf and SLURM_CONF, or ask the administrator",
            ),
            Kind::BadConfiguration => (
                format!("Slurm's configuration on this machine has an error: {line}"),
                "tell the administrator; an older Slurm here may not know a new key of slurm.conf",
            ),
            Kind::ControllerDown => (
                "the Slurm controller is down".to_owned(),
                "run scontrol ping, and ask the administrator; gtop retries automatically",
            ),
            Kind::ControllerUnresponsive => (
                "the Slurm controller does not answer".to_owned(),
                "it is overloaded or hangs: ask the administrator; gtop retries automatically",
            ),
            Kind::Munge => (
                "munge, which authenticates users, does not work on this machine".to_owned(),
                "check whether munge -n works, and ask the administrator to restart munged",
            ),
            Kind::TimedOut => {
                (line.to_owned(), "the controller may be overloaded; gtop retries automatically")
            }
            Kind::UnexpectedOutput => {
                (line.to_owned(), "run it by hand to see its output; gtop retries automatically")
            }
            Kind::TooLong => (
                format!("{program} printed more than gtop reads"),
                "narrow the list with --partition or --account",
            ),
            Kind::NoSuchJob => (
                "the job is not in the queue".to_owned(),
                "it has ended, or the id is wrong: squeue lists the current jobs",
            ),
            Kind::InvalidArgument if line.to_ascii_lowercase().contains("node name") => {
                (line.to_owned(), "correct the options; sinfo -N lists the nodes that Slurm knows")
            }
            Kind::InvalidArgument => (line.to_owned(), "correct the options"),
            Kind::PermissionDenied => (line.to_owned(), "ask the administrator what you may see"),
            Kind::Other => (format!("{program} failed: {line}"), "run it by hand"),
        };
        Self { kind, message, remedy }
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
    fn who_names_a_node_that_slurm_lacks_learns_how_to_list_them() {
        let error = SlurmError::from_stderr("squeue", "Invalid node name gpu99\n");
        let remedy = "correct the options; sinfo -N lists the nodes that Slurm knows";
        assert_eq!((&*error.message, error.remedy), ("Invalid node name gpu99", remedy));
    }

    #[test]
    fn errors_of_slurm_are_classified() {
        for (stderr, kind) in [
            (
                "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
                SlurmErrorKind::ControllerDown,
            ),
            (
                "slurm_load_jobs error: Socket timed out on send/recv operation\n",
                SlurmErrorKind::ControllerUnresponsive,
            ),
            (
                "squeue: error: If munged is up, restart with --num-threads=10\n\
                 squeue: error: Munge encode failed: Failed to connect to \"/run/munge/munge.socket.2\"\n\
                 squeue: error: slurm_send_node_msg: auth_g_create: REQUEST_FED_INFO has authentication error\n",
                SlurmErrorKind::Munge,
            ),
            ("slurm_load_jobs error: Invalid job id specified\n", SlurmErrorKind::NoSuchJob),
            ("squeue: error: Invalid user: nobodyxx\n", SlurmErrorKind::InvalidArgument),
            ("Invalid node name specified\n", SlurmErrorKind::InvalidArgument),
            ("Invalid node name gpu99\n", SlurmErrorKind::InvalidArgument),
            (
                "squeue: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: No such file or \
                 directory, retrying in 1sec up to 60sec\nsqueue: fatal: Unable to process configuration file\n",
                SlurmErrorKind::NoConfiguration,
            ),
            (
                "squeue: error: Parse error in file /etc/slurm/slurm.conf line 37: \"Nonsense\"\n\
                 squeue: fatal: Unable to process configuration file\n",
                SlurmErrorKind::BadConfiguration,
            ),
            (
                "scontrol: error: Invalid SlurmctldPort abc\nscontrol: fatal: Unable to process configuration file\n",
                SlurmErrorKind::BadConfiguration,
            ),
            (
                "squeue: fatal: Could not establish a configuration source\n",
                SlurmErrorKind::NoConfiguration,
            ),
            ("\u{1b}[31mSegmentation fault", SlurmErrorKind::Other),
            ("", SlurmErrorKind::Other),
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
        assert_eq!(late("squeue: error: Munge encode failed"), SlurmErrorKind::Munge);
        assert_eq!(late(""), SlurmErrorKind::TimedOut);
        let missing = SlurmError::from_run_error("squeue", &ProgramError::NotFound, 30);
        assert!(missing.message.contains("not on the PATH"));
    }
}
