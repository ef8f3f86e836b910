//! Why Slurm does not answer, in our words and with a remedy.

use crate::model::clean;
use crate::transport::AskFault;

/// What is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which kind.
    pub kind: TroubleKind,
    /// What is wrong, in a few words.
    pub sentence: String,
    /// What a person can do about it.
    pub remedy: &'static str,
}

/// The kinds of trouble with Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// Its programs are not here.
    NotInstalled,
    /// Its configuration is not here.
    NoConfiguration,
    /// Its configuration is here, and holds what this Slurm does not understand.
    BadConfiguration,
    /// Nothing listens where the controller should be.
    ControllerDown,
    /// The controller takes connections and says nothing.
    ControllerSilent,
    /// The service that vouches for users does not work.
    Munge,
    /// Nothing came in time.
    TooLate,
    /// It printed something else than what it was asked for.
    NoAnswer,
    /// There is no such job any more.
    NoSuchJob,
    /// There is no such user, or the like.
    Wrong,
    /// Not allowed.
    Denied,
    /// Anything else.
    Other,
}

/// What programs say, and what that means. The first that fits counts: one trouble brings others.
const SIGNS: &[(&str, TroubleKind)] = &[
    ("munge", TroubleKind::Munge),
    ("authentication", TroubleKind::Munge),
    ("auth_g_create", TroubleKind::Munge),
    ("invalid credential", TroubleKind::Munge),
    ("configuration source", TroubleKind::NoConfiguration),
    ("unable to status file", TroubleKind::NoConfiguration),
    ("parse error", TroubleKind::BadConfiguration),
    ("parsing error", TroubleKind::BadConfiguration),
    ("process configuration file", TroubleKind::BadConfiguration),
    ("configuration file", TroubleKind::NoConfiguration),
    ("slurm.conf", TroubleKind::NoConfiguration),
    ("configless", TroubleKind::NoConfiguration),
    ("resolve_ctls_from_dns_srv", TroubleKind::NoConfiguration),
    ("socket timed out", TroubleKind::ControllerSilent),
    ("unable to contact", TroubleKind::ControllerDown),
    ("connection refused", TroubleKind::ControllerDown),
    ("connect failure", TroubleKind::ControllerDown),
    ("no route to host", TroubleKind::ControllerDown),
    ("zero bytes were transmitted", TroubleKind::ControllerSilent),
    ("invalid job id", TroubleKind::NoSuchJob),
    ("invalid user", TroubleKind::Wrong),
    ("invalid partition", TroubleKind::Wrong),
    ("invalid account", TroubleKind::Wrong),
    ("unrecognized option", TroubleKind::Wrong),
    ("permission denied", TroubleKind::Denied),
];

impl Trouble {
    /// Reads what a program of Slurm complained about.
    pub fn of_complaint(program: &str, complaint: &str) -> Self {
        let words = complaint.to_ascii_lowercase();
        let kind = SIGNS.iter().find(|(sign, _)| words.contains(sign));
        let kind = kind.map_or(TroubleKind::Other, |(_, kind)| *kind);
        // The last line of these only says that there is a mistake.
        let names_it_first = kind == TroubleKind::BadConfiguration;
        let line = if names_it_first { mistake(complaint) } else { telling(complaint) };
        Self::new(kind, program, &line)
    }

    /// Says that a program printed something else than what it was asked for.
    pub(super) fn of_no_answer(program: &str, sentence: &str) -> Self {
        Self::new(TroubleKind::NoAnswer, program, sentence)
    }

    /// Reads why a program of Slurm has not answered at all.
    pub fn of_fault(program: &str, fault: &AskFault, seconds: u64) -> Self {
        match fault {
            AskFault::Missing => Self::new(TroubleKind::NotInstalled, program, ""),
            AskFault::NotStarted(why) => Self::new(TroubleKind::Other, program, why),
            AskFault::TooLate(complaint) => {
                let known = Self::of_complaint(program, complaint);
                if known.kind == TroubleKind::Other {
                    let line = format!("{program} has not answered within {seconds} s");
                    return Self::new(TroubleKind::TooLate, program, &line);
                }
                known
            }
        }
    }

    fn new(kind: TroubleKind, program: &str, line: &str) -> Self {
        use TroubleKind as Kind;
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
            Kind::ControllerSilent => (
                "the Slurm controller does not answer".to_owned(),
                "it is overloaded or hangs: ask the administrator; gtop asks again by itself",
            ),
            Kind::Munge => (
                "munge, which vouches for users, does not work on this machine".to_owned(),
                "see whether munge -n works, and ask the administrator to restart munged",
            ),
            Kind::TooLate => {
                (line.to_owned(), "the controller may be overloaded; gtop asks again by itself")
            }
            Kind::NoAnswer => {
                (line.to_owned(), "run it by hand to see what it says; gtop asks again by itself")
            }
            Kind::NoSuchJob => (
                "there is no such job in the queue".to_owned(),
                "it has ended, or the number is wrong: squeue lists those that are there",
            ),
            Kind::Wrong => (line.to_owned(), "correct the options"),
            Kind::Denied => (line.to_owned(), "ask the administrator what you may see"),
            Kind::Other => (format!("{program} failed: {line}"), "run it by hand"),
        };
        Self { kind, sentence, remedy }
    }
}

/// Returns the line that says most: the last one that is not empty.
fn telling(complaint: &str) -> String {
    let lines = complaint.lines().map(|line| clean(line, 300));
    bare(&lines.rev().find(|line| !line.is_empty()).unwrap_or_default())
}

/// Returns the line that names a mistake in the configuration: the first error.
fn mistake(complaint: &str) -> String {
    let mut lines = complaint.lines().map(|line| clean(line, 300));
    lines
        .find(|line| line.contains("error: "))
        .map_or_else(|| telling(complaint), |line| bare(&line))
}

/// Takes off who says it.
fn bare(line: &str) -> String {
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
                TroubleKind::ControllerDown,
            ),
            (
                "slurm_load_jobs error: Socket timed out on send/recv operation\n",
                TroubleKind::ControllerSilent,
            ),
            (
                "squeue: error: If munged is up, restart with --num-threads=10\n\
                 squeue: error: Munge encode failed: Failed to connect to \"/run/munge/munge.socket.2\"\n\
                 squeue: error: slurm_send_node_msg: auth_g_create: REQUEST_FED_INFO has authentication error\n",
                TroubleKind::Munge,
            ),
            ("slurm_load_jobs error: Invalid job id specified\n", TroubleKind::NoSuchJob),
            ("squeue: error: Invalid user: nobodyxx\n", TroubleKind::Wrong),
            (
                "squeue: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: No such file or \
                 directory, retrying in 1sec up to 60sec\nsqueue: fatal: Unable to process configuration file\n",
                TroubleKind::NoConfiguration,
            ),
            (
                "squeue: error: Parse error in file /etc/slurm/slurm.conf line 37: \"Nonsense\"\n\
                 squeue: fatal: Unable to process configuration file\n",
                TroubleKind::BadConfiguration,
            ),
            (
                "scontrol: error: Invalid SlurmctldPort abc\nscontrol: fatal: Unable to process configuration file\n",
                TroubleKind::BadConfiguration,
            ),
            (
                "squeue: fatal: Could not establish a configuration source\n",
                TroubleKind::NoConfiguration,
            ),
            ("\u{1b}[31mSegmentation fault", TroubleKind::Other),
            ("", TroubleKind::Other),
        ] {
            let trouble = Trouble::of_complaint("squeue", complaint);
            assert_eq!(trouble.kind, kind, "{complaint}");
            assert!(!trouble.sentence.is_empty() && !trouble.sentence.contains('\u{1b}'));
        }
    }

    #[test]
    fn a_mistake_in_the_configuration_is_named() {
        let said = "squeue: error: _parse_next_key: Parsing error at unrecognized key: Foo\n\
                    squeue: fatal: Unable to process configuration file\n";
        let trouble = Trouble::of_complaint("squeue", said);
        assert_eq!(
            trouble.sentence,
            "Slurm's configuration on this machine has a mistake: Parsing error at unrecognized key: Foo"
        );
    }

    #[test]
    fn what_came_too_late_is_told_by_what_it_had_said() {
        let late =
            |said: &str| Trouble::of_fault("squeue", &AskFault::TooLate(said.to_owned()), 30).kind;
        assert_eq!(late("squeue: error: Munge encode failed"), TroubleKind::Munge);
        assert_eq!(late(""), TroubleKind::TooLate);
        let missing = Trouble::of_fault("squeue", &AskFault::Missing, 30);
        assert!(missing.sentence.contains("not on the PATH"));
    }
}
