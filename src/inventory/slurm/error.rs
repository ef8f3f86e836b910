//! Why Slurm does not answer, in our words and with a remedy.

use crate::model::clean;
use crate::transport::ProgramError;

/// What is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmError {
    /// Which kind.
    pub kind: SlurmErrorKind,
    /// What is wrong, in a few words.
    pub message: String,
    /// What a person can do about it.
    pub remedy: &'static str,
}

/// The kinds of trouble with Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlurmErrorKind {
    /// Its programs are not here.
    NotInstalled,
    /// Its configuration is not here.
    NoConfiguration,
    /// Its configuration is here, and holds what this Slurm does not understand.
    BadConfiguration,
    /// Nothing listens where the controller should be.
    ControllerDown,
    /// The controller takes connections and says nothing.
    ControllerUnresponsive,
    /// The service that vouches for users does not work.
    Munge,
    /// Nothing came in time.
    TimedOut,
    /// It printed something else than what it was asked for.
    UnexpectedOutput,
    /// There is no such job any more.
    NoSuchJob,
    /// There is no such user, or the like.
    InvalidArgument,
    /// Not allowed.
    PermissionDenied,
    /// Anything else.
    Other,
}

/// What programs say, and what that means. The first that fits counts: one trouble brings others.
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
    ("unrecognized option", SlurmErrorKind::InvalidArgument),
    ("permission denied", SlurmErrorKind::PermissionDenied),
];

impl SlurmError {
    /// Reads what a program of Slurm complained about.
    pub fn from_stderr(program: &str, complaint: &str) -> Self {
        let words = complaint.to_ascii_lowercase();
        let kind = PATTERNS.iter().find(|(sign, _)| words.contains(sign));
        let kind = kind.map_or(SlurmErrorKind::Other, |(_, kind)| *kind);
        // The last line of these only says that there is a mistake.
        let names_it_first = kind == SlurmErrorKind::BadConfiguration;
        let line = if names_it_first { first_error_line(complaint) } else { last_line(complaint) };
        Self::new(kind, program, &line)
    }

    /// Says that a program printed something else than what it was asked for.
    pub(super) fn unexpected_output(program: &str, sentence: &str) -> Self {
        Self::new(SlurmErrorKind::UnexpectedOutput, program, sentence)
    }

    /// Reads why a program of Slurm has not answered at all.
    pub fn from_run_error(program: &str, fault: &ProgramError, seconds: u64) -> Self {
        match fault {
            ProgramError::NotFound => Self::new(SlurmErrorKind::NotInstalled, program, ""),
            ProgramError::NotStarted(why) => Self::new(SlurmErrorKind::Other, program, why),
            ProgramError::TimedOut(complaint) => {
                let known = Self::from_stderr(program, complaint);
                if known.kind == SlurmErrorKind::Other {
                    let line = format!("{program} has not answered within {seconds} s");
                    return Self::new(SlurmErrorKind::TimedOut, program, &line);
                }
                known
            }
        }
    }

    fn new(kind: SlurmErrorKind, program: &str, line: &str) -> Self {
        use SlurmErrorKind as Kind;
        let (sentence, remedy) = match kind {
            Kind::NotInstalled => (
                format!("{program} is not on the PATH of this machine"),
                "start gtop on a login node of the cluster, or load its Slurm module",
            ),
            Kind::NoConfiguration => (
                "Slurm's configuration is not found on this machine".to_owned(),
                "check /etc/slurm/slurm.conf and SLURM_CONF, or ask the administrator",
            ),
            Kind::BadConfiguration => (
                format!("Slurm's configuration on this machine has a mistake: {line}"),
                "tell the administrator; an older Slurm here may not know a new key of slurm.conf",
            ),
            Kind::ControllerDown => (
                "the Slurm controller is down".to_owned(),
                "see scontrol ping, and ask the administrator; gtop asks again by itself",
            ),
            Kind::ControllerUnresponsive => (
                "the Slurm controller does not answer".to_owned(),
                "it is overloaded or hangs: ask the administrator; gtop asks again by itself",
            ),
            Kind::Munge => (
                "munge, which vouches for users, does not work on this machine".to_owned(),
                "see whether munge -n works, and ask the administrator to restart munged",
            ),
            Kind::TimedOut => {
                (line.to_owned(), "the controller may be overloaded; gtop asks again by itself")
            }
            Kind::UnexpectedOutput => {
                (line.to_owned(), "run it by hand to see what it says; gtop asks again by itself")
            }
            Kind::NoSuchJob => (
                "there is no such job in the queue".to_owned(),
                "it has ended, or the number is wrong: squeue lists those that are there",
            ),
            Kind::InvalidArgument => (line.to_owned(), "correct the options"),
            Kind::PermissionDenied => (line.to_owned(), "ask the administrator what you may see"),
            Kind::Other => (format!("{program} failed: {line}"), "run it by hand"),
        };
        Self { kind, message: sentence, remedy }
    }
}

/// Returns the line that says most: the last one that is not empty.
fn last_line(complaint: &str) -> String {
    let lines = complaint.lines().map(|line| clean(line, 300));
    strip_program(&lines.rev().find(|line| !line.is_empty()).unwrap_or_default())
}

/// Returns the line that names a mistake in the configuration: the first error.
fn first_error_line(complaint: &str) -> String {
    let mut lines = complaint.lines().map(|line| clean(line, 300));
    lines
        .find(|line| line.contains("error: "))
        .map_or_else(|| last_line(complaint), |line| strip_program(&line))
}

/// Takes off who says it.
fn strip_program(line: &str) -> String {
    let said = match line.split_once("error: ") {
        Some((program, said)) if program.split(' ').count() <= 2 => said,
        _ => line,
    };
    let said = said.strip_prefix("_parse_next_key: ").unwrap_or(said);
    if said.is_empty() { "it said nothing".to_owned() } else { said.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_complains_about_has_a_cause() {
        for (complaint, kind) in [
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
            let trouble = SlurmError::from_stderr("squeue", complaint);
            assert_eq!(trouble.kind, kind, "{complaint}");
            assert!(!trouble.message.is_empty() && !trouble.message.contains('\u{1b}'));
        }
    }

    #[test]
    fn a_mistake_in_the_configuration_is_named() {
        let said = "squeue: error: _parse_next_key: Parsing error at unrecognized key: Foo\n\
                    squeue: fatal: Unable to process configuration file\n";
        let trouble = SlurmError::from_stderr("squeue", said);
        assert_eq!(
            trouble.message,
            "Slurm's configuration on this machine has a mistake: Parsing error at unrecognized key: Foo"
        );
    }

    #[test]
    fn what_came_too_late_is_told_by_what_it_had_said() {
        let late = |said: &str| {
            SlurmError::from_run_error("squeue", &ProgramError::TimedOut(said.to_owned()), 30).kind
        };
        assert_eq!(late("squeue: error: Munge encode failed"), SlurmErrorKind::Munge);
        assert_eq!(late(""), SlurmErrorKind::TimedOut);
        let missing = SlurmError::from_run_error("squeue", &ProgramError::NotFound, 30);
        assert!(missing.message.contains("not on the PATH"));
    }
}
