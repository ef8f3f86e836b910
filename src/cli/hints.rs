//! Hints for likely mistakes: options of other monitors, values separated from their option, misspelt subcommands.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;
use crate::setting_table::settings;
use gtop_fleet::settings::{Setting, SettingKind};
use gtop_local::text::sanitize;

/// Options of other monitors and of Slurm's commands, and their equivalents in gtop.
const FOREIGN_OPTIONS: &[(&[&str], &str)] = &[
    (
        &["-d", "--delay"],
        "use -i SECONDS between samples, --redraw SECONDS between frames; nvtop counts in tenths of a second",
    ),
    (&["-s", "--snapshot"], "use --json for a snapshot as JSON, --once for one as text"),
    (&["-x"], "gtop does not write XML; use --json"),
    (&["-v"], "use -V, --version"),
    (&["-r"], "use --reverse-chart"),
    (&["-P"], "use --no-node-processes"),
    (&["-E"], "metrics that no device reports are hidden by default"),
    (
        &["-M", "--clusters", "--cluster"],
        "gtop watches the cluster of this machine; run it on a login node of the other one, or set SLURM_CONF",
    ),
    (
        &["-a", "--all"],
        "for jobs of all users use --all-users; a hidden partition is found by its name: --partition NAME",
    ),
    (&["-A"], "for jobs of an account use --account NAME"),
    (&["-j", "--jobs"], "for jobs by number use --job ID"),
    (&["-q"], "for jobs of a quality of service use --qos NAME; q ends gtop"),
    (&["-R"], "for jobs in a reservation use --reservation NAME"),
    (
        &["-w", "--nodes"],
        "for jobs on some nodes use --nodelist SET; to watch nodes, name them: gtop SET",
    ),
    (&["-n", "--name"], "for jobs of a name press / and type jobname=NAME"),
    (&["--me"], "--slurm watches your jobs"),
    (
        &["-t", "--state", "--states"],
        "pending jobs are listed too; for jobs in a state press / and type, for example, jobstate=suspended",
    ),
    (&["--users"], "use --user NAME"),
    (&["--accounts"], "use --account NAME"),
    (&["--partitions"], "use --partition NAME"),
    (&["--tree"], "press t in the process or node view for the process tree"),
    (&["--mb", "--mib", "--gb", "--gib"], "use --units mb, mib, gb or gib"),
];

/// Options of `squeue` that mean something else without `--slurm`, or nothing.
const SQUEUE_OPTIONS: &[(&[&str], &str)] = &[
    (
        &["-P", "--priority", "-S", "--sort"],
        "to sort the list of jobs use --sort-jobs COLUMN, or press F6 in it",
    ),
    (&["-r", "--array"], "running tasks of a job array have a row each; those that wait share one"),
    (&["-s", "--steps", "--step"], "jobs are listed, not their steps"),
    (&["-L", "--licenses"], "there is no filter for licenses"),
    (&["--jobid"], "for jobs by number use --job ID"),
    (
        &["-O", "--Format", "--format"],
        "the columns of the list of jobs are those of --columns-jobs; for programs use --json",
    ),
    (&["--noheader"], "for programs use --json or --csv"),
    (&["--iterate"], "use -i SECONDS between samples"),
    (&["--start"], "the expected start of a job that waits is in the list of jobs, in --json too"),
    (
        &["--federation", "--sibling"],
        "gtop watches the cluster of this machine; run it on a login node of the other one, or set SLURM_CONF",
    ),
];

/// Adds the equivalent to the error for an option of another monitor, or of `squeue` beside `--slurm`.
pub(super) fn explain_foreign_option(error: clap::Error, args: &[OsString]) -> clap::Error {
    if let Some(partition) = partition_as_pid(&error) {
        let message =
            format!("-p takes process IDs; for a partition of Slurm use --partition {partition}");
        return Cli::command().error(ErrorKind::ValueValidation, message);
    }
    if lacks_user(&error) {
        let message = "--user needs a name, whose jobs it selects; for your own processes use -u, for those of others \
                       -u=NAME";
        return Cli::command().error(ErrorKind::InvalidValue, message);
    }
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let Some(option) = text_of(&error, ContextKind::InvalidArg).filter(|_| is_unknown) else {
        return error;
    };
    let option = option.split('=').next().unwrap_or_default();
    let is_slurm =
        args.iter().any(|arg| arg.to_str().is_some_and(|arg| arg.starts_with("--slurm")));
    if let Some(user) = args.iter().find_map(attached_user).filter(|_| is_slurm) {
        let message =
            format!("for jobs of {user} use --user {user}; for their processes, -u={user}");
        return Cli::command().error(ErrorKind::UnknownArgument, message);
    }
    let unknown_letter = option.strip_prefix('-').unwrap_or_default();
    let mut attached = args.iter().skip(1).filter_map(|arg| attached_value(arg.to_str()?));
    if let Some(attached) = attached.find(|one| one.value.contains(unknown_letter)) {
        return Cli::command().error(ErrorKind::UnknownArgument, attached.hint());
    }
    let squeue_options = if is_slurm { SQUEUE_OPTIONS } else { &[] };
    let mut all = squeue_options.iter().chain(FOREIGN_OPTIONS);
    let known = all.find(|(names, _)| names.contains(&option));
    let Some((_, hint)) = known else { return error };
    Cli::command().error(ErrorKind::UnknownArgument, format!("unknown option {option}; {hint}"))
}

/// Returns the user of `-uNAME`, which `squeue` takes and gtop reads as options of one letter.
fn attached_user(arg: &OsString) -> Option<String> {
    let user = arg.to_str()?.strip_prefix("-u")?;
    (!user.is_empty() && !user.starts_with('=')).then(|| sanitize(user, 64))
}

/// Returns true if `--user`, which nvitop takes without a name, has none.
fn lacks_user(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::InvalidValue
        && text_of(error, ContextKind::InvalidValue).is_none_or(str::is_empty)
        && text_of(error, ContextKind::InvalidArg).is_some_and(|arg| arg.starts_with("--user "))
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    if let ContextValue::String(text) = error.get(kind)? { Some(text) } else { None }
}

/// Returns the value of `-p` if it cannot be the id of a process, and may be a partition.
fn partition_as_pid(error: &clap::Error) -> Option<String> {
    let is_pid = text_of(error, ContextKind::InvalidArg)?.starts_with("--pid ");
    let value = text_of(error, ContextKind::InvalidValue).filter(|_| is_pid)?;
    let begins_as_name = value.starts_with(|letter: char| letter.is_ascii_alphabetic());
    begins_as_name.then(|| sanitize(value, 64))
}

/// The arguments up to `--`, and the hosts among them; all arguments after `--` are hosts.
struct Misread<'a> {
    args: Vec<&'a str>,
    hosts: &'a [String],
    /// Jobs are to be watched.
    is_slurm: bool,
}

/// Returns a message if an argument was taken as a host and is probably something else.
pub(super) fn explain_misread_host(cli: &Cli, args: &[OsString]) -> Option<String> {
    let all: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("")).collect();
    let end = all.iter().position(|arg| *arg == "--").unwrap_or(all.len());
    let after_end = all.len().saturating_sub(end + 1);
    let hosts = cli.hosts.get(..cli.hosts.len().checked_sub(after_end)?)?;
    let args = all.into_iter().take(end).collect();
    let misread = Misread { args, hosts, is_slurm: cli.jobs.is_requested() };
    misread
        .detached_value()
        .or_else(|| misread.attached_value(cli.nodes.hosts_file.as_deref()))
        .or_else(|| misread.bare_number())
        .or_else(|| misread.misspelt_command())
}

impl Misread<'_> {
    /// Explains a value that is separated from its option, which takes one only with `=`.
    fn detached_value(&self) -> Option<String> {
        self.args.iter().enumerate().find_map(|(at, option)| {
            let setting = setting_of_option(option)?;
            let following = self.args.iter().skip(at + 1).take_while(|word| self.is_host(word));
            let values: Vec<&str> =
                following.copied().filter(|word| setting.kind.parse(word).is_ok()).collect();
            let (first, joined) = (values.first().filter(|_| needs_equals(setting))?, values.join(","));
            let joined = if setting.kind.is_list() { joined.as_str() } else { first };
            if *option == "-u" && self.is_slurm {
                let message = format!("for jobs of {joined} use --user {joined}; for their processes, -u={joined}");
                return Some(sanitize(&message, 400));
            }
            Some(sanitize(
                &format!(
                    "{option} takes a value only with =: {option}={joined}; to watch a host called {first}, put it \
                     first: gtop {first} {option}"
                ),
                400,
            ))
        })
    }

    /// Explains a value that is attached to its option without `=`: `-mfull` is `-m -f ull`, `-ufred` is `-u -f red`.
    fn attached_value(&self, hosts_file: Option<&Path>) -> Option<String> {
        let missing = hosts_file.filter(|file| !file.exists()).map(Path::to_string_lossy);
        self.args.iter().find_map(|arg| {
            let is_of_file = missing.as_ref().is_some_and(|file| arg.ends_with(&**file));
            attached_value(arg)
                .filter(|attached| attached.is_choice || is_of_file)
                .map(|attached| attached.hint())
        })
    }

    /// Explains a number that is not the value of an option.
    fn bare_number(&self) -> Option<String> {
        let first = self.hosts.iter().find(|host| is_number(host))?;
        let at = self.args.iter().rposition(|word| word == first)?;
        let count_before =
            self.args.iter().take(at).rev().take_while(|word| is_number(word)).count();
        let begin = at - count_before;
        let numbers: Vec<&str> =
            self.args.iter().skip(begin).take_while(|word| is_number(word)).copied().collect();
        let option = begin.checked_sub(1).and_then(|at| self.args.get(at));
        let (name, joined) = option.map_or(("", None), |option| with_value(option));
        let advice = match numbers.as_slice() {
            _ if setting_of_option(name).is_some_and(|setting| setting.kind.is_list()) => {
                let all: Vec<&str> = joined.into_iter().chain(numbers).collect();
                format!("use {name} {}", all.join(","))
            }
            [interval, redraw] => {
                format!(
                    "for seconds between samples and between frames use -i {interval} --redraw {redraw}"
                )
            }
            _ => format!("for seconds between samples use -i {first}"),
        };
        let message = format!(
            "{first} is a number, not a host; {advice}; for a host of that name use --: gtop -- {first}"
        );
        Some(sanitize(&message, 400))
    }

    /// Explains a host that is a subcommand with one letter wrong.
    fn misspelt_command(&self) -> Option<String> {
        let first = self.hosts.first()?;
        let command = Cli::command();
        let known = command.get_subcommands().map(clap::Command::get_name);
        let suggestion =
            known.filter(|known| known.len() >= 5).find(|known| is_misspelling(first, known))?;
        Some(format!(
            "unknown command {first}; did you mean {suggestion}? For a host of that name use --: gtop -- {first}"
        ))
    }

    fn is_host(&self, word: &str) -> bool {
        self.hosts.iter().any(|host| host == word)
    }
}

/// Returns the setting of an option.
fn setting_of_option(option: &str) -> Option<&'static Setting> {
    let long = option.strip_prefix("--");
    let mut short = option.strip_prefix('-').into_iter().flat_map(str::chars);
    let short = short.next().filter(|_| short.next().is_none());
    settings().filter(|setting| setting.has_option).find(|setting| {
        let is_long = long
            .is_some_and(|long| long == setting.option_name() || setting.aliases.contains(&long));
        is_long || short.is_some() && setting.short == short
    })
}

/// A value that is attached to its option of one letter, and needs `=`.
struct AttachedValue<'a> {
    option: &'a str,
    value: &'a str,
    /// It is one of the values of the option: it can hardly be meant otherwise.
    is_choice: bool,
}

impl AttachedValue<'_> {
    fn hint(&self) -> String {
        let Self { option, value, .. } = self;
        sanitize(&format!("{option} takes a value only with =: {option}={value}"), 400)
    }
}

/// Returns the value of `-mfull`, which clap reads as options of one letter.
fn attached_value(arg: &str) -> Option<AttachedValue<'_>> {
    let (option, value) = arg.split_at_checked(2)?;
    let setting = setting_of_option(option).filter(|setting| needs_equals(setting))?;
    let is_value = !value.starts_with(['=', '-']) && setting.kind.parse(value).is_ok();
    let is_choice = !setting.kind.choices().is_empty();
    is_value.then_some(AttachedValue { option, value, is_choice })
}

/// Returns true if an option may stand alone, and takes a value only with `=`. Hosts may follow `--sudo`, which holds for
/// all of them.
fn needs_equals(setting: &Setting) -> bool {
    setting.default_missing_value.is_some()
        && !matches!(setting.kind, SettingKind::Text(_))
        && setting.name != "sudo"
}

/// Returns an option and the value that is joined to it: `--only=0`, `-o=0`, `-o0`.
fn with_value(option: &str) -> (&str, Option<&str>) {
    if let Some((name, value)) = option.split_once('=') {
        return (name, Some(value));
    }
    match option.split_at_checked(2) {
        Some((name, value)) if !option.starts_with("--") && !value.is_empty() => {
            (name, Some(value))
        }
        _ => (option, None),
    }
}

pub(super) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a word differs from a known one by one missing, additional or wrong letter, or by two swapped
/// ones. A known word with a suffix is not a misspelling: trusty or doctor2.
fn is_misspelling(written: &str, known: &str) -> bool {
    !written.starts_with(known) && strsim::osa_distance(written, known) == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::query::Filter;

    fn error_text(line: &str) -> Option<String> {
        let error = Cli::parse_args(line.split_whitespace().map(Into::into)).err()?;
        assert_eq!(error.exit_code(), 2, "{line}");
        Some(error.to_string())
    }

    #[test]
    fn likely_mistakes_are_not_taken_as_hosts() {
        for (line, expected) in [
            (
                "gtop -o 0 1",
                "1 is a number, not a host; use -o 0,1; for a host of that name use --: gtop -- 1",
            ),
            ("gtop -o=0 1 2", "use -o 0,1,2;"),
            ("gtop -o0 1", "use -o 0,1;"),
            ("gtop -p4711 4712", "use -p 4711,4712;"),
            ("gtop gpu01 --only 0 1", "use --only 0,1;"),
            ("gtop -p 4711 4712 gpu01", "use -p 4711,4712;"),
            (
                "gtop -m full",
                "-m takes a value only with =: -m=full; to watch a host called full, put it first: gtop full -m",
            ),
            ("gtop --monitor compact gpu01", "--monitor=compact;"),
            ("gtop -mfull", "-m takes a value only with =: -m=full"),
            ("gtop -mauto gpu01", "-m takes a value only with =: -m=auto"),
            ("gtop -ubob", "-u takes a value only with =: -u=bob"),
            ("gtop -ufred", "-u takes a value only with =: -u=fred"),
            (
                "gtop --user",
                "--user needs a name, whose jobs it selects; for your own processes use -u, for those of others -u=NAME",
            ),
            ("gtop gpu01 --user --once", "for your own processes use -u"),
            ("gtop -u ada bob", "-u takes a value only with =: -u=ada,bob;"),
            (
                "gtop 5 2",
                "5 is a number, not a host; for seconds between samples and between frames use -i 5 --redraw 2;",
            ),
            (
                "gtop 5",
                "for seconds between samples use -i 5; for a host of that name use --: gtop -- 5",
            ),
            ("gtop -i 5 2", "-i 5 --redraw 2;"),
            ("gtop doctr gpu01", "unknown command doctr; did you mean doctor?"),
            ("gtop dcotor", "did you mean doctor?"),
            ("gtop confog show", "did you mean config?"),
            ("gtop -d 5", "unknown option -d; use -i SECONDS between samples"),
            ("gtop --delay=5", "unknown option --delay; use -i SECONDS"),
            ("gtop -s", "unknown option -s; use --json"),
            ("gtop -x", "unknown option -x; gtop does not write XML"),
            ("gtop --tree", "unknown option --tree; press t"),
            (
                "gtop --clusters=b",
                "unknown option --clusters; gtop watches the cluster of this machine",
            ),
            ("gtop -M b", "unknown option -M; gtop watches the cluster of this machine"),
            ("gtop --slurm -A phys", "use --account NAME"),
            ("gtop --slurm -j 12", "use --job ID"),
            ("gtop --slurm -q high", "use --qos NAME"),
            ("gtop --slurm -R maint", "use --reservation NAME"),
            ("gtop --slurm -w gpu01", "use --nodelist SET"),
            ("gtop --slurm -p gpu", "for a partition of Slurm use --partition gpu"),
            ("gtop --slurm -u bob", "for jobs of bob use --user bob; for their processes, -u=bob"),
            ("gtop --slurm -t R", "press / and type, for example, jobstate=suspended"),
            ("gtop --slurm --name train", "press / and type jobname=NAME"),
            ("gtop --slurm -ubob", "for jobs of bob use --user bob; for their processes, -u=bob"),
            ("gtop --slurm -r", "unknown option -r; running tasks of a job array have a row each"),
            ("gtop --slurm -P", "unknown option -P; to sort the list of jobs use --sort-jobs"),
            ("gtop --slurm -s", "unknown option -s; jobs are listed, not their steps"),
            ("gtop --slurm -L matlab", "unknown option -L; there is no filter for licenses"),
            ("gtop --slurm --sort=i", "use --sort-jobs COLUMN"),
            ("gtop --slurm --jobid 5", "use --job ID"),
            ("gtop --slurm --federation", "gtop watches the cluster of this machine"),
            ("gtop -P", "unknown option -P; use --no-node-processes"),
            ("gtop --nodelist gpu[1-", "'[' without ']'"),
            ("gtop --qos=", "invalid value"),
        ] {
            let error = error_text(line).unwrap_or_else(|| panic!("{line} is accepted"));
            let flat = error.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(expected) && !flat.contains("--theme"), "{line}: {error}");
        }
    }

    /// Returns the options that a text names.
    fn options_in(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|letter: char| letter.is_whitespace() || ",;:=".contains(letter));
        words.filter(|word| word.len() > 1 && word.starts_with('-'))
    }

    #[test]
    fn every_option_that_a_hint_names_exists() {
        let command = Cli::command();
        let is_known = |option: &str| {
            let mut arguments = command.get_arguments();
            let Some(long) = option.strip_prefix("--") else {
                let short = option.chars().nth(1);
                return option == "-V" || arguments.any(|argument| argument.get_short() == short);
            };
            arguments.any(|argument| {
                let aliases = argument.get_all_aliases().unwrap_or_default();
                argument.get_long() == Some(long) || aliases.contains(&long)
            })
        };
        for (names, hint) in FOREIGN_OPTIONS.iter().chain(SQUEUE_OPTIONS) {
            for option in options_in(hint).filter(|option| *option != "--version") {
                assert!(is_known(option), "{names:?}: {option} of {hint:?}");
            }
            for name in *names {
                assert!(!is_known(name), "{name} is an option of gtop");
            }
            // What they say to type is a filter.
            let typed = hint.split_once("type ").map(|(_, typed)| typed);
            let filter = typed.and_then(|typed| typed.split(' ').next_back());
            if let Some(filter) = filter {
                assert!(Filter::new(filter).is_ok(), "{names:?}: {filter}");
            }
        }
    }

    #[test]
    fn hosts_with_such_names_are_still_possible() {
        for (line, hosts) in [
            ("gtop -- 5 doctr", vec!["5", "doctr"]),
            ("gtop -i 5 -- 5", vec!["5"]),
            ("gtop ada@5 5:22", vec!["ada@5", "5:22"]),
            ("gtop full -m", vec!["full"]),
            ("gtop -m gpu01", vec!["gpu01"]),
            ("gtop -mUc gpu01", vec!["gpu01"]),
            ("gtop -uf/etc/hosts gpu01", vec!["gpu01"]),
            ("gtop gpu01 -u", vec!["gpu01"]),
            ("gtop -u -- gpu01", vec!["gpu01"]),
            ("gtop --ssh-binary gpu01", vec!["gpu01"]),
            ("gtop trusty doctor2 gpu01", vec!["trusty", "doctor2", "gpu01"]),
            ("gtop gpu01 doctr", vec!["gpu01", "doctr"]),
            ("gtop mac", vec!["mac"]),
            ("gtop -o 0 -p 4711 gpu01", vec!["gpu01"]),
            ("gtop --gpu-util-thresh 20 60 gpu01", vec!["gpu01"]),
            ("gtop 10.0.0.5", vec!["10.0.0.5"]),
        ] {
            let cli = Cli::parse_args(line.split_whitespace().map(Into::into)).unwrap();
            assert_eq!(cli.hosts, hosts, "{line}");
        }
    }
}
