//! The options of `gtop pick`. Letters are those of nvisel, so options that `gtop pick` shares with watching exist in
//! their long form only.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, CommandFactory as _, FromArgMatches, ValueEnum};

use crate::cli::hints::is_number;
use crate::cli::keep::parse_duration;
use crate::cli::{Cli, CliCommand, HOST_HELP, JobOptions, NodeOptions, SettingArgs};
use crate::setting_table::{JOBS, SECTIONS};
use gtop_fleet::insight::pick::{PickRequest, Spread};
use gtop_fleet::query::Filter;
use gtop_local::storage::reservations::{MAX_RESERVATION, ReservationEnd};

/// How long devices are reserved by default: programs need a minute before they use them.
const DEFAULT_RESERVATION: Duration = Duration::from_secs(120);

/// Options of `gtop pick`.
#[derive(Debug, Args)]
#[command(
    after_long_help = "EXIT STATUS\n  0 enough devices, 1 no devices, 2 usage error or driver error, 4 fewer devices \
        than wanted, 126 or 127 the command cannot be run, 130 interrupted; otherwise that of the command"
)]
pub(crate) struct PickOptions {
    /// The nodes to pick from
    #[arg(value_name = "HOST", help = HOST_HELP)]
    hosts: Vec<String>,
    /// Run this command, here or --on-node, with the variables that show it the picked devices only
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Pick from one node, and run COMMAND there, with this terminal, as ssh would
    #[arg(long, requires = "command", conflicts_with = "nodes")]
    pub on_node: bool,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    sharing: SharingOptions,
    #[command(flatten)]
    pub format: FormatOptions,
    #[command(flatten)]
    watched: LongOptions,
}

/// Which devices are wanted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
struct LimitOptions {
    /// Pick only from this list of indices or UUIDs; without a value, from `CUDA_VISIBLE_DEVICES`; put hosts before it
    #[arg(short, long, value_name = "CUDA_VISIBLE_DEVICES", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "given, and with a value")]
    inherit: Option<Option<String>>,
    /// Pick only devices that match FILTER, in the syntax of / on the screen: 'model~h100 partition=gpu'
    #[arg(long, value_name = "FILTER", value_parser = Filter::new, default_value = "", hide_default_value = true)]
    filter: Filter,
    /// Count the memory that processes of these users hold as free; without USER, yours; put hosts before it
    #[arg(long, value_name = "USER", num_args = 0.., value_delimiter = ',')]
    account_as_free: Option<Vec<String>>,
    /// Pick at least N devices: with fewer, exit with 4 and do not run COMMAND
    #[arg(short = 'c', long, value_name = "N", default_value_t = 0)]
    min_count: usize,
    /// Pick at most N devices; default: all
    #[arg(short = 'C', long, value_name = "N")]
    max_count: Option<usize>,
    /// Pick exactly N devices: the same as -c N -C N
    #[arg(short = 'n', long, value_name = "N", conflicts_with_all = ["min_count", "max_count"])]
    count: Option<usize>,
    /// Pick devices with this much free memory: 4GiB, 5000M (of 1000), plain bytes
    #[arg(short = 'f', long, value_name = "SIZE", value_parser = parse_memory)]
    min_free_memory: Option<u64>,
    /// Pick devices with this much memory
    #[arg(short = 't', long, value_name = "SIZE", value_parser = parse_memory)]
    min_total_memory: Option<u64>,
    /// Pick devices with at most this utilization, in percent
    #[arg(short = 'G', long, value_name = "RATE")]
    max_gpu_utilization: Option<u32>,
    /// Pick devices with at most this memory bandwidth utilization, in percent
    #[arg(short = 'M', long, value_name = "RATE")]
    max_memory_utilization: Option<u32>,
    /// Loosen the limits by this percentage if too few devices are within them
    #[arg(long, visible_alias = "tol", value_name = "TOL", default_value_t = 0)]
    tolerance: u32,
    /// Pick, after all others, also devices that are slower or less reliable than they should be
    #[arg(long)]
    allow_degraded: bool,
    /// Keep the order of the driver: do not put the best devices first
    #[arg(short = 'S', long)]
    no_sort: bool,
    /// Pick all devices from one node
    #[arg(long, conflicts_with = "nodes")]
    same_node: bool,
    /// Pick the same number of devices from each of exactly N nodes; -n, -c and -C count them all
    #[arg(long, value_name = "N", value_parser = parse_nodes)]
    nodes: Option<usize>,
}

/// How gtop picks beside others.
#[derive(Debug, Args)]
#[command(next_help_heading = "Other picks")]
struct SharingOptions {
    /// Wait until enough devices are free, at least one, for TIME at most: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = parse_duration)]
    #[expect(clippy::option_option, reason = "given, and with a value")]
    wait: Option<Option<Duration>>,
    /// Reserve the printed devices against other picks on this machine for TIME, at most 10m (default: 2m); with
    /// COMMAND, they are always reserved until it ends
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = parse_lock)]
    #[expect(clippy::option_option, reason = "given, and with a value")]
    lock: Option<Option<Duration>>,
    /// Pick also what others have reserved, and reserve nothing
    #[arg(long, conflicts_with = "lock")]
    no_lock: bool,
}

/// How the devices are printed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Format")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct FormatOptions {
    /// Print indices or UUIDs; MIG slices and AMD devices are always printed by UUID
    #[arg(short = 'O', long, value_name = "FORMAT", default_value = "index")]
    pub format: DeviceFormat,
    /// Separate devices by SEP
    #[arg(short, long, visible_alias = "separator", value_name = "SEP", default_value = ",")]
    sep: String,
    /// Print a device per line
    #[arg(long, conflicts_with_all = ["sep", "null"])]
    newline: bool,
    /// End each device with a null character, for xargs -0
    #[arg(short = '0', long, conflicts_with = "sep")]
    null: bool,
    /// Print the variables for a program instead: export $(gtop pick -n 2 --env)
    #[arg(long, conflicts_with_all = ["sep", "newline", "null", "json", "command"])]
    pub env: bool,
    /// Print as JSON: the devices of each node, and why others are not picked
    #[arg(long, conflicts_with_all = ["sep", "newline", "null", "command"])]
    pub json: bool,
}

/// How devices are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceFormat {
    /// By index, as the driver counts them
    #[default]
    Index,
    /// By UUID
    Uuid,
}

/// What is watched, without short options: nvisel has other meanings for them.
#[derive(Debug)]
struct LongOptions {
    nodes: NodeOptions,
    jobs: JobOptions,
    settings: SettingArgs,
}

/// The sections of settings that matter for devices.
const SHARED_SECTIONS: [&str; 5] = ["Nodes", JOBS, "Intervals", "Output", "Connection"];

impl Args for LongOptions {
    fn augment_args(command: Command) -> Command {
        let shared = JobOptions::augment_args(NodeOptions::augment_args(Command::new("shared")));
        let mut command = command.next_help_heading(None);
        for arg in shared.get_arguments() {
            command = command.arg(arg.clone().short(None));
        }
        let sections = SECTIONS.iter().filter(|(name, _)| SHARED_SECTIONS.contains(name));
        for arg in sections.flat_map(|(heading, settings)| SettingArgs::args(heading, settings)) {
            let is_of_screen = arg.get_id() == "redraw" || arg.get_id() == "history";
            command = if is_of_screen { command } else { command.arg(arg.short(None)) };
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LongOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            nodes: NodeOptions::from_arg_matches(matches)?,
            jobs: JobOptions::from_arg_matches(matches)?,
            settings: SettingArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Cli {
    /// Moves the options that `gtop pick` shares with watching to where watching has them.
    pub(super) fn lift_pick_options(&mut self) {
        let Some(CliCommand::Pick(options)) = &mut self.command else { return };
        self.hosts.append(&mut options.hosts);
        self.nodes.add(&mut options.watched.nodes);
        self.jobs.add(&mut options.watched.jobs);
        self.settings.add(&mut options.watched.settings);
    }

    /// Returns true if the command line says which nodes to watch.
    pub(crate) fn names_nodes(&self) -> bool {
        !self.hosts.is_empty()
            || self.nodes.names_nodes()
            || self.nodes.local
            || self.nodes.demo.is_some()
            || self.jobs.is_requested()
    }

    /// Checks rules of `gtop pick` that clap cannot express.
    pub(super) fn check_pick(&self) -> Result<(), clap::Error> {
        let Some(CliCommand::Pick(options)) = &self.command else { return Ok(()) };
        let number = self.hosts.iter().find(|host| is_number(host));
        let misread = number.map(|host| {
            format!("{host} is a number, not a host; for {host} devices use -n {host}")
        });
        let simulated = (options.on_node && self.nodes.demo.is_some())
            .then(|| "simulated nodes run no commands; leave out --demo or --on-node".to_owned());
        match misread.or(simulated).or_else(|| options.limits.contradiction()) {
            Some(message) => Err(Self::command().error(ErrorKind::ArgumentConflict, message)),
            None => Ok(()),
        }
    }
}

impl LimitOptions {
    fn counts(&self) -> (usize, Option<usize>) {
        let count = self.count;
        (count.unwrap_or(self.min_count), count.or(self.max_count))
    }

    /// Returns an error message if the numbers contradict each other.
    fn contradiction(&self) -> Option<String> {
        let (min, max) = self.counts();
        if let Some(max) = max.filter(|max| *max < min) {
            return Some(format!(
                "--min-count {min} is more than --max-count {max}; give a higher -C, or -n for both"
            ));
        }
        let nodes = self.nodes?;
        let rest = self.count?.checked_rem(nodes).filter(|rest| *rest > 0)?;
        let lower = self.count?.saturating_sub(rest);
        let fitting = match lower {
            0 => format!("-n {nodes}"),
            lower => format!("-n {lower} or -n {}", lower.saturating_add(nodes)),
        };
        let count = self.count?;
        Some(format!("-n {count} cannot be spread evenly over --nodes {nodes}; use {fitting}"))
    }
}

impl PickOptions {
    /// Returns what is wanted; `variable` reads the environment.
    pub(crate) fn request(&self, variable: impl Fn(&str) -> Option<String>) -> PickRequest {
        let limits = &self.limits;
        let (min_count, max_count) = limits.counts();
        // Waiting for nothing, or running nowhere, is not meant.
        let least = usize::from((self.waits() || self.on_node) && max_count != Some(0));
        let users = limits.account_as_free.clone();
        PickRequest {
            min_count: min_count.max(least),
            max_count,
            min_free_memory: limits.min_free_memory,
            min_total_memory: limits.min_total_memory,
            max_utilization: limits.max_gpu_utilization,
            max_memory_utilization: limits.max_memory_utilization,
            tolerance: limits.tolerance,
            is_own_memory_free: users.as_ref().is_some_and(Vec::is_empty),
            free_users: users.into_iter().flatten().collect(),
            allows_degraded: limits.allow_degraded,
            is_unsorted: limits.no_sort,
            spread: match limits.nodes {
                Some(nodes) => Spread::Nodes(nodes),
                None if limits.same_node || self.on_node => Spread::SameNode,
                None => Spread::Anywhere,
            },
            inherited: match &limits.inherit {
                Some(Some(list)) => Some(list.clone()),
                Some(None) => variable("CUDA_VISIBLE_DEVICES"),
                None => None,
            },
            filter: limits.filter.clone(),
            reserved: BTreeSet::new(),
            jobs: Vec::new(),
        }
    }

    /// Returns true if it waits for enough devices.
    pub(crate) const fn waits(&self) -> bool {
        self.sharing.wait.is_some()
    }

    /// Returns how long it waits at most.
    pub(crate) fn wait_limit(&self) -> Option<Duration> {
        self.sharing.wait.flatten()
    }

    /// Returns true if what others have reserved is not picked.
    pub(crate) const fn respects_reservations(&self) -> bool {
        !self.sharing.no_lock
    }

    /// Returns for how long what is picked is reserved, and what ends that earlier; `None` if it is not.
    pub(crate) fn reservation(&self) -> Option<(Duration, ReservationEnd)> {
        let length = self.sharing.lock.flatten().unwrap_or(DEFAULT_RESERVATION);
        match (self.command.is_empty(), self.sharing.lock, self.sharing.no_lock) {
            (_, _, true) | (true, None, false) => None,
            (true, Some(_), false) => Some((length, ReservationEnd::Time)),
            (false, _, false) => Some((length, ReservationEnd::Process)),
        }
    }

    /// Returns true if the list of `CUDA_VISIBLE_DEVICES` of this machine is inherited.
    pub(crate) fn inherits_variable(&self) -> bool {
        self.limits.inherit == Some(None)
    }
}

impl FormatOptions {
    /// Returns what separates devices.
    pub(crate) fn separator(&self) -> &str {
        match (self.newline, self.null) {
            (true, _) => "\n",
            (false, true) => "\0",
            (false, false) => &self.sep,
        }
    }
}

fn parse_lock(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text)?;
    if length > MAX_RESERVATION {
        return Err(format!("at most {}m", MAX_RESERVATION.as_secs() / 60));
    }
    Ok(length)
}

fn parse_nodes(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "expected a number of nodes, at least 1".to_owned())
}

/// Parses a size in bytes: a number with `K`, `M`, `G`, `T` or `P` for powers of 1000, `Ki`, `Mi`, … for powers of
/// 1024; a `B` may follow.
fn parse_memory(text: &str) -> Result<u64, &'static str> {
    memory_of(text).ok_or("expected a size such as 4GiB, 4096MiB, 5000M (of 1000) or plain bytes")
}

fn memory_of(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let lower = lower.strip_prefix('+').unwrap_or(&lower).trim_start();
    let end = lower.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = lower.split_at_checked(end.unwrap_or(lower.len()))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let unit = unit.trim_start();
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) => (letter, 1024.0_f64),
        None => (unit, 1000.0),
    };
    let power = match letter {
        "" if base < 1024.0 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * base.powi(power);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be in range; a fraction of a byte is dropped"
    )]
    (0.0..1e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::parse_args(line.split_whitespace().map(Into::into))
    }

    fn request(line: &str) -> PickRequest {
        let Some(CliCommand::Pick(options)) = parse(line).unwrap().command else {
            panic!("{line}")
        };
        options.request(|name| (name == "CUDA_VISIBLE_DEVICES").then(|| "5,6".to_owned()))
    }

    #[test]
    fn sizes_are_those_of_nvisel() {
        for (text, bytes) in [
            ("200", Some(200)),
            ("500B", Some(500)),
            ("10k", Some(10_000)),
            ("10ki", Some(10_240)),
            ("1M", Some(1_000_000)),
            ("1MB", Some(1_000_000)),
            ("1MiB", Some(1 << 20)),
            ("1.5GiB", Some(1_610_612_736)),
            (" + 4 gib ", Some(4 << 30)),
            ("5000m", Some(5_000_000_000)),
            ("2P", Some(2_000_000_000_000_000)),
            ("", None),
            ("GiB", None),
            ("-1G", None),
            ("1.G", None),
            (".5G", None),
            ("1i", None),
            ("1iB", None),
            ("1GBB", None),
            ("1e3", None),
            ("1,5G", None),
            ("9999999P", None),
        ] {
            assert_eq!(parse_memory(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn letters_are_those_of_nvisel_and_hosts_are_arguments() {
        let wanted = request(
            "gtop pick gpu01 -c 1 -C 3 -f 4GiB -t 10G -G 30 -M 50 --tol 20 -S -i 0,1 --account-as-free ada bob",
        );
        let expected = PickRequest {
            min_count: 1,
            max_count: Some(3),
            min_free_memory: Some(4 << 30),
            min_total_memory: Some(10_000_000_000),
            max_utilization: Some(30),
            max_memory_utilization: Some(50),
            tolerance: 20,
            is_unsorted: true,
            inherited: Some("0,1".to_owned()),
            free_users: ["ada".to_owned(), "bob".to_owned()].into(),
            ..PickRequest::default()
        };
        assert_eq!(wanted, expected);
        assert_eq!(parse("gtop pick gpu01 -n 2").unwrap().hosts, ["gpu01"]);
        assert_eq!(request("gtop pick -i").inherited.as_deref(), Some("5,6"));
        assert_eq!(request("gtop pick -i -S").inherited.as_deref(), Some("5,6"));
        assert!(request("gtop pick --account-as-free").is_own_memory_free);
        assert_eq!(request("gtop pick -n 4 --nodes 2").spread, Spread::Nodes(2));
        assert_eq!(request("gtop pick --same-node").spread, Spread::SameNode);
        assert!(request("gtop pick --allow-degraded").allows_degraded);
    }

    #[test]
    fn shared_options_exist_in_their_long_form_only() {
        let cli = parse("gtop pick --hosts-file h --interval 2 --login ada --job 7 -f 1G").unwrap();
        assert_eq!(cli.nodes.hosts_file.as_deref(), Some("h".as_ref()));
        assert!(cli.jobs.is_requested() && !cli.nodes.local);
        assert_eq!(cli.settings.values["interval"].to_string(), "2");
        assert_eq!(cli.settings.values["login"].to_string(), "ada");
        let mut command = Cli::command();
        command.build();
        let pick = command.find_subcommand("pick").unwrap();
        let letters = pick.get_arguments().filter_map(clap::Arg::get_short).collect::<String>();
        assert_eq!(letters, "icCnftGMSOs0h");
        let cli = parse("gtop -f hosts pick -f 4GiB").unwrap();
        assert_eq!(cli.nodes.hosts_file.as_deref(), Some("hosts".as_ref()));
    }

    #[test]
    fn nodes_are_named_by_hosts_and_options() {
        for (line, names_nodes) in [
            ("gtop pick", false),
            ("gtop pick -n 1 -- python x.py", false),
            ("gtop pick gpu01", true),
            ("gtop pick --local", true),
            ("gtop pick --demo=2", true),
            ("gtop pick --job 7", true),
        ] {
            assert_eq!(parse(line).unwrap().names_nodes(), names_nodes, "{line}");
        }
    }

    #[test]
    fn commands_reserve_and_printed_devices_only_when_asked_for() {
        let options = |line: &str| match parse(line).unwrap().command {
            Some(CliCommand::Pick(options)) => options,
            other => panic!("{other:?}"),
        };
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (line, expected) in [
            ("gtop pick -n 1", None),
            ("gtop pick --lock", Some((minutes(2), ReservationEnd::Time))),
            ("gtop pick --lock=5m", Some((minutes(5), ReservationEnd::Time))),
            ("gtop pick -n 1 -- a", Some((minutes(2), ReservationEnd::Process))),
            ("gtop pick --lock=10m -- a", Some((minutes(10), ReservationEnd::Process))),
            ("gtop pick --no-lock -- a", None),
        ] {
            assert_eq!(options(line).reservation(), expected, "{line}");
            assert_eq!(options(line).respects_reservations(), !line.contains("no-lock"), "{line}");
        }
        for (line, waits, limit, min_count, spread) in [
            ("gtop pick", false, None, 0, Spread::Anywhere),
            ("gtop pick --wait", true, None, 1, Spread::Anywhere),
            ("gtop pick --wait=90m -n 3", true, Some(minutes(90)), 3, Spread::Anywhere),
            ("gtop pick --wait -n 0", true, None, 0, Spread::Anywhere),
            ("gtop pick --on-node gpu01 -- a", false, None, 1, Spread::SameNode),
        ] {
            let options = options(line);
            assert_eq!((options.waits(), options.wait_limit()), (waits, limit), "{line}");
            let request = options.request(|_| None);
            assert_eq!((request.min_count, request.spread), (min_count, spread), "{line}");
        }
    }

    #[test]
    fn contradictions_name_the_remedy() {
        for (line, expected) in [
            ("gtop pick -c 3 -C 2", "--min-count 3 is more than --max-count 2"),
            ("gtop pick -n 3 -c 2", "cannot be used with"),
            ("gtop pick -n 7 --nodes 2", "use -n 6 or -n 8"),
            ("gtop pick -n 1 --nodes 2", "use -n 2"),
            ("gtop pick --nodes 0", "at least 1"),
            ("gtop pick --nodes 2 --same-node", "cannot be used with"),
            ("gtop pick -n -1", "-1"),
            ("gtop pick --on-node gpu01", "<COMMAND>"),
            ("gtop pick --on-node --nodes 2 gpu01 -- a", "cannot be used with"),
            ("gtop pick --on-node --demo -- a", "simulated nodes run no commands"),
            ("gtop pick --lock=11m", "at most 10m"),
            ("gtop pick --lock --no-lock", "cannot be used with"),
            ("gtop pick --wait=soon", "expected a time"),
            ("gtop pick 4", "for 4 devices use -n 4"),
            ("gtop pick -f 4Q", "expected a size such as 4GiB"),
            ("gtop pick -O name", "uuid"),
            ("gtop pick --json -- true", "cannot be used with"),
            ("gtop pick -0 -s ;", "cannot be used with"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.to_string().contains(expected), "{line}: {error}");
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn devices_are_separated_as_wanted() {
        for (line, separator) in [
            ("gtop pick", ","),
            ("gtop pick -s :", ":"),
            ("gtop pick --separator=;", ";"),
            ("gtop pick --newline", "\n"),
            ("gtop pick -0", "\0"),
        ] {
            let Some(CliCommand::Pick(options)) = parse(line).unwrap().command else { panic!() };
            assert_eq!(options.format.separator(), separator, "{line}");
        }
    }
}
