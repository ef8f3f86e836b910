//! How Slurm's commands are run, and what their messages mean.

use super::PROFILE;
use crate::scheduler::SchedulerError;
use crate::scheduler::programs::{ErrorPatterns, Programs};
use gtop_model::SchedulerErrorKind;

/// Texts in stderr and the kind they mean. The first match counts, because one error causes others.
const PATTERNS: ErrorPatterns = &[
    ("talking to the database", SchedulerErrorKind::Other),
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

/// Times are numbers, independent of the time zone, and lists of the tasks of arrays are whole.
pub(super) static PROGRAMS: Programs = Programs {
    words: &PROFILE.words,
    patterns: PATTERNS,
    env: &[("LC_ALL", "C"), ("SLURM_TIME_FORMAT", "%s"), ("SLURM_BITSTR_LEN", "0")],
    hides: |name| ["SQUEUE_", "SINFO_", "SACCT_"].iter().any(|start| name.starts_with(start)),
    // 20,000 jobs take a fifth of it.
    max_stdout: 24 << 20,
};

/// Classifies the stderr of a command.
pub fn of_stderr(program: &str, stderr: &str) -> SchedulerError {
    PROGRAMS.stderr_error(program, stderr)
}

/// Returns an error for output that is not what was requested.
pub(super) fn unexpected_output(program: &str, message: &str) -> SchedulerError {
    PROGRAMS.error(SchedulerErrorKind::UnexpectedOutput, program, message)
}

/// Returns an error for output that is longer than gtop reads.
pub(super) fn truncated(program: &str) -> SchedulerError {
    PROGRAMS.error(SchedulerErrorKind::TooLong, program, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::programs::PROGRAM_TIMEOUT;
    use gtop_local::process::ProgramError;

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
            let error = of_stderr("squeue", stderr);
            assert_eq!(error.kind, kind, "{stderr}");
            assert!(!error.message.is_empty() && !error.message.contains('\u{1b}'));
        }
    }

    #[test]
    fn an_error_in_the_configuration_is_quoted() {
        let stderr = "squeue: error: _parse_next_key: Parsing error at unrecognized key: Foo\n\
                    squeue: fatal: Unable to process configuration file\n";
        let error = of_stderr("squeue", stderr);
        assert_eq!(
            error.message,
            "Slurm's configuration on this machine has an error: Parsing error at unrecognized key: Foo"
        );
    }

    #[test]
    fn a_timed_out_command_is_classified_by_its_stderr() {
        let late = |stderr: &str| {
            PROGRAMS
                .run_error("squeue", &ProgramError::TimedOut(stderr.to_owned()), PROGRAM_TIMEOUT)
                .kind
        };
        assert_eq!(late("squeue: error: Munge encode failed"), SchedulerErrorKind::Munge);
        assert_eq!(late(""), SchedulerErrorKind::TimedOut);
        let missing = PROGRAMS.run_error("squeue", &ProgramError::NotFound, PROGRAM_TIMEOUT);
        assert!(missing.message.contains("not on the PATH"));
    }
}
