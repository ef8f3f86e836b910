//! The table of all settings: the source of `--help`, environment variables, `config.toml`, the setup pages and
//! the reference. Those of the screen are declared there.

pub use setup_pages::setup;

use std::time::Duration;

use crate::config::{Declared, SettingSources, Settings};
use crate::report::DevicePrice;
use gtop_fleet::query::ProcessKinds;
use gtop_fleet::settings;
use gtop_fleet::settings::{
    Choice, ChoiceValue, Given, Setting, SettingGroup as _, check, choice, count, flag, list,
    seconds, switch, text, value,
};
use gtop_ui::ScreenSettings;

mod setup_pages;

/// All settings by the heading under which help lists them, in the order of `--help`.
pub const SECTIONS: &[(&str, &[Setting])] = &[
    ("Nodes", NodeSettings::TABLE),
    (JOBS, JobSettings::TABLE),
    ("Intervals", IntervalSettings::TABLE),
    ("Output", OutputSettings::TABLE),
    ("Connection", ConnectionSettings::TABLE),
    ("Screen", ScreenSettings::TABLE),
    ("Filters", FilterSettings::TABLE),
    ("Reports", ReportSettings::TABLE),
];

/// What can be set.
pub const DECLARED: Declared = Declared { sections: SECTIONS, keys: gtop_ui::KEY_TABLE };

/// Returns all settings, in the order of `--help`.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    DECLARED.settings()
}

/// Returns the setting of this name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    DECLARED.setting(name)
}

/// Merges the sources of settings; `variable` reads an environment variable.
pub fn merge(sources: SettingSources, variable: impl Fn(&str) -> Option<String>) -> Settings {
    Settings::merge(DECLARED, sources, variable)
}

/// In lists of users: the user who runs gtop.
pub const CURRENT_USER: &str = "@";

/// In sets of nodes for `sudo`: all nodes.
pub const ALL_NODES: &str = "*";

/// The heading of what selects jobs.
pub const JOBS: &str = "Jobs";

settings! {
    /// Which nodes are watched, and how.
    pub struct NodeSettings {
        pub hosts: Given<Vec<String>> = list(check::any, "HOST")
            .with_origin()
            .help("Nodes to watch if the command line names none, such as gpu[01-16] or @a100")
            .without_option(),
        pub exclude: Given<Vec<String>> = list(check::any, "SET")
            .with_origin()
            .help("Exclude these nodes from every source: a node set such as gpu[03,07], or @down")
            .without_option(),
        pub sudo: Given<Vec<String>> = list(check::any, "SET")
            .with_origin()
            .help(
                "Run the probe as root, through sudo -n, on these nodes: a node set such as @a100; on \
                 all nodes if none is given. It needs a line in sudoers there (gtop probe --sudoers)",
            )
            .bare(ALL_NODES)
            .global(),
        pub allow_signals: bool = switch()
            .help(
                "Let probes that run as root send signals, to the processes of any user; without it \
                 they only read",
            )
            .global(),
        pub login: Option<String> = text(check::login, "NAME")
            .help("Login user, unless the host names another")
            .short('l')
            .aliases(&["username"])
            .global(),
    }
}

settings! {
    /// By what reports judge.
    pub struct ReportSettings {
        pub report_low: u32 = count(0, 100)
            .help("Mean load in percent below which the load of a job is low, 0 to 100; gtop report --low takes precedence")
            .or("15")
            .without_option(),
        pub report_good: u32 = count(0, 100)
            .help("Mean load in percent from which a job is good, 0 to 100")
            .or("50")
            .without_option(),
        pub report_min_time: Duration = seconds(0.0, 86_400.0)
            .help("Seconds for which a job must have devices to be judged, 0 to 86400")
            .or("300")
            .without_option(),
        pub report_price: Vec<String> = list(DevicePrice::check, "PRICE")
            .help(
                "Prices of a device-hour, such as 2.50, or H100=2.50 for a model; gtop report --price \
                 takes precedence",
            )
            .without_option(),
    }
}

settings! {
    /// What selects jobs.
    pub struct JobSettings {
        pub slurm: bool = switch()
            .help("Watch the nodes of your running jobs if the command line names nothing")
            .without_option(),
        pub finished_jobs: bool = switch()
            .help("List the jobs of the last day that have ended, by Slurm's sacct")
            .on_by_default("Do not ask Slurm's sacct for jobs that have ended"),
        pub discovery_interval: Duration = seconds(1.0, 3600.0)
            .help("Seconds between queries to the scheduler, 1 to 3600")
            .or("30"),
    }
}

settings! {
    /// How often, and for how long.
    pub struct IntervalSettings {
        pub interval: Given<Duration> = seconds(0.05, 3600.0)
            .or("1")
            .with_origin()
            .label("time between samples")
            .help("Seconds between samples, 0.05 to 3600")
            .short('i')
            .page("General")
            .steps(&["0.1", "0.25", "0.5", "1", "2", "5", "10", "30", "60"]),
        pub redraw: Given<Duration> = seconds(0.02, 3600.0)
            .label("minimum time between redraws")
            .help(
                "Minimum seconds between redraws for new data, 0.02 to 3600; unless set, a few nodes that are sampled \
                 more often than every 0.25 s are drawn with each sample",
            )
            .or("0.5")
            .with_origin()
            .page("General")
            .steps(&["0.1", "0.25", "0.5", "1", "2", "5"]),
        pub history: Duration = seconds(10.0, 86_400.0)
            .help("Seconds of history to keep, 10 to 86400")
            .or("300"),
    }
}

settings! {
    /// Output that is no screen.
    pub struct OutputSettings {
        pub deadline: Duration = seconds(0.1, 3600.0)
            .help("Seconds to wait for a complete snapshot with --once or --json, 0.1 to 3600")
            .or("10"),
        pub record: RecordChoice = choice("WHEN")
            .label("recording of this screen")
            .help("Record what the screen watches, to go back in it, and for gtop replay")
            .page("General")
            .without_option(),
        pub log: Option<String> = text(check::any, "FILE")
            .help("Write a log to FILE; at 32 MiB it is rotated to FILE.1")
            .global(),
    }
}

settings! {
    /// How nodes are reached.
    pub struct ConnectionSettings {
        pub connect_timeout: Option<Duration> = seconds(0.1, 600.0)
            .help(
                "Connection timeout in seconds, 0.1 to 600; default: ConnectTimeout of ssh_config, \
                 or 10",
            )
            .global(),
        pub max_connecting: u32 = count(1, 4096)
            .help("Maximum number of connections opened at once")
            .or("64")
            .global(),
        pub transport: Given<TransportChoice> = choice("HOW")
            .with_origin()
            .help(
                "How to connect to nodes: built-in SSH (native), the ssh program (ssh), a step of \
                 your Slurm job (srun), the command of --exec (exec), this machine only (local), or \
                 built-in SSH with the ssh program or a job step as fallback (auto)",
            )
            .global(),
        pub exec: Given<Option<String>> = text(check::any, "COMMAND")
            .with_origin()
            .help(
                "Connect to nodes with this command. It is split into words at spaces and quotes \
                 and not run by a shell. {node} is replaced by the node, {command} by the command \
                 line to run there; without {command} that line is written to standard input, which \
                 must reach a shell on the node: 'kubectl exec -i {node} -- sh', or 'docker exec -i \
                 {node} sh -c {command}'",
            )
            .conflicts(&["ssh-binary"])
            .global(),
        pub ssh_binary: Given<Option<String>> = text(check::any, "PROGRAM")
            .with_origin()
            .help("Connect with the ssh program, one process per node; PROGRAM defaults to ssh")
            .aliases(&["ssh"])
            .bare("ssh")
            .global(),
    }
}

settings! {
    /// What is shown of nodes.
    pub struct FilterSettings {
        pub only: Vec<String> = list(check::device, "INDEX")
            .label("only devices with these numbers")
            .help("Show only the devices with these indices, on every node")
            .short('o')
            .page("Selection"),
        pub only_visible: bool = switch()
            .label("only CUDA_VISIBLE_DEVICES")
            .help(
                "Show only the devices in CUDA_VISIBLE_DEVICES: of this machine, or of any node if \
                 it lists UUIDs; also -ov",
            )
            .page("Selection"),
        pub process_type: ProcessKinds = choice("TYPE")
            .label("only processes of this type")
            .help("Show only processes of this type")
            .flags(&[
                flag("compute", "compute", "Show only compute processes, types C and C+G").short('c'),
                flag("only-compute", "only-compute", "Show only processes of type C").short('C'),
                flag("graphics", "graphics", "Show only graphics processes, types G and C+G")
                    .short('g'),
                flag("only-graphics", "only-graphics", "Show only processes of type G").short('G'),
            ])
            .page("Processes"),
        pub user_processes: Vec<String> = list(check::name, "USER")
            .label("only processes of these users")
            .help("Show only processes of these users; without USER, your own")
            .short('u')
            .bare(CURRENT_USER)
            .page("Processes"),
        pub pid: Vec<String> = list(check::pid, "PID")
            .label("only these process ids")
            .help("Show only processes with these PIDs")
            .short('p')
            .page("Selection"),
    }
}

/// Whether a screen is recorded without a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordChoice {
    /// No
    #[default]
    Off,
    /// By one screen at a time
    Auto,
}

impl Choice for RecordChoice {
    const CHOICES: &'static [(ChoiceValue, Self)] = &[
        (
            value(
                "off",
                "nothing is recorded; auto keeps the last 24 hours within 200 MB in \
                 ~/.local/state/gtop/recordings ($XDG_STATE_HOME, if set), readable by you only",
            ),
            Self::Off,
        ),
        (
            value(
                "auto",
                "the last 24 hours within 200 MB in ~/.local/state/gtop/recordings ($XDG_STATE_HOME, if \
                 set), readable by you only; one screen per host records",
            ),
            Self::Auto,
        ),
    ];
}

/// The transport setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// Built-in SSH, with fallbacks
    #[default]
    Auto,
    /// Built-in SSH only
    Native,
    /// The ssh program
    Ssh,
    /// No connections: this machine only
    Local,
    /// The command of --exec
    Exec,
    /// One step per job, for clusters that forbid ssh to nodes
    Srun,
}

impl Choice for TransportChoice {
    const CHOICES: &'static [(ChoiceValue, Self)] = &[
        (
            value(
                "auto",
                "built-in SSH; falls back to the ssh program or a step of your Slurm job",
            ),
            Self::Auto,
        ),
        (value("native", "built-in SSH only"), Self::Native),
        (value("ssh", "the ssh program").with_alias("ssh-binary"), Self::Ssh),
        (value("local", "no connections: this machine only"), Self::Local),
        (value("exec", "the command of --exec"), Self::Exec),
        (
            value("srun", "one step per Slurm job, for clusters that forbid ssh to nodes"),
            Self::Srun,
        ),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::watch::{MonitorOptions, SCHEDULER_INTERVAL};
    use gtop_fleet::metrics::charts;
    use gtop_fleet::query::aliases;
    use gtop_fleet::settings::{ColumnSpec, default_group};
    use gtop_ui::{fleet, node, processes, users};

    #[test]
    fn the_help_names_every_metric_that_can_be_charted() {
        let help = setting("charted").unwrap().help;
        let (_, names) = help.split_once(": ").unwrap();
        let aliases: BTreeSet<_> = charts().iter().map(|chart| chart.alias).collect();
        let names: BTreeSet<_> = names.split(", ").collect();
        assert_eq!(names, aliases);
    }

    #[test]
    fn sortable_columns_name_a_sort_order_of_their_view() {
        let none: &[gtop_fleet::query::SortColumn] = &[];
        for (headings, columns) in [
            (&fleet::column_specs()[..], &fleet::sort_columns()[..]),
            (&node::column_specs()[..], none),
            (&processes::column_specs()[..], &processes::sort_columns()[..]),
            (&users::COLUMN_SPECS[..], &users::sort_columns()[..]),
        ] {
            let mut names: Vec<_> = headings.iter().map(|heading| heading.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
            let is_known = |heading: &&ColumnSpec| {
                heading.sort.is_empty() || columns.iter().any(|one| one.name == heading.sort)
            };
            let unknown: Vec<_> = headings.iter().filter(|one| !is_known(one)).collect();
            assert!(unknown.is_empty(), "{unknown:?}");
        }
    }

    /// Columns and sort orders that combine several metrics or count something.
    const COMBINED: &[&str] = &[
        "age",
        "bar",
        "busy",
        "clocks",
        "devices",
        "down",
        "enc-dec",
        "flags",
        "free",
        "gi-ci",
        "idle-held",
        "jobs",
        "last",
        "link",
        "membar",
        "memshare",
        "most-free",
        "nodes",
        "note",
        "nvlink",
        "owner",
        "partitions",
        "pcie",
        "pending",
        "procs",
        "share",
        "unknown",
        "wasted",
    ];

    #[test]
    fn columns_sort_orders_and_charts_use_the_aliases_of_metrics() {
        let tables = [
            &fleet::column_specs()[..],
            &node::column_specs(),
            &processes::column_specs(),
            &users::COLUMN_SPECS,
        ];
        let columns = tables.into_iter().flatten().map(|heading| heading.name);
        let orders = [fleet::sort_columns(), processes::sort_columns(), users::sort_columns()];
        let orders = orders.into_iter().flatten().map(|column| column.name);
        let charts = charts().into_iter().map(|chart| chart.alias);
        let unknown: BTreeSet<_> = columns
            .chain(orders)
            .chain(charts)
            .filter(|word| !aliases().any(|alias| alias == *word) && !COMBINED.contains(word))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?} are not aliases of a metric");
        let ambiguous = COMBINED.iter().filter(|word| aliases().any(|alias| alias == **word));
        assert_eq!(ambiguous.count(), 0, "an alias of one metric is listed as combined");
    }

    #[test]
    fn names_are_unique_and_defaults_valid() {
        let mut names: Vec<_> = settings().map(|setting| setting.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        for setting in settings() {
            assert_eq!(
                setting.default_value().is_none(),
                setting.default.is_empty(),
                "{}",
                setting.name
            );
            for text in setting.steps.iter().chain(setting.default_missing_value.iter()) {
                assert!(setting.kind.parse(text).is_ok(), "{} {text}", setting.name);
            }
            for flag in setting.flags {
                assert!(setting.kind.parse(flag.value).is_ok(), "{} {}", setting.name, flag.name);
            }
            assert_eq!(
                setting.off_help.is_empty(),
                !setting.is_on_by_default(),
                "{}",
                setting.name
            );
            assert!(!setting.help.is_empty() && !setting.help.ends_with('.'), "{}", setting.name);
        }
    }

    #[test]
    fn the_library_watches_as_the_command_does_without_options() {
        let options = MonitorOptions::default();
        let intervals: IntervalSettings = default_group();
        assert_eq!(intervals.interval.value, options.interval);
        assert_eq!(intervals.history, options.history);
        let connections: ConnectionSettings = default_group();
        assert_eq!(connections.max_connecting, u32::from(options.max_connecting));
        let jobs: JobSettings = default_group();
        assert_eq!(jobs.discovery_interval, SCHEDULER_INTERVAL);
    }
}
