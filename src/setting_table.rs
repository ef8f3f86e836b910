//! The table of all settings: the source of `--help`, environment variables, `config.toml`, the setup pages and
//! the reference. Those of the screen are declared there.

pub use setup_pages::setup;

use crate::config::{Declared, SettingSources, Settings};
use gtop_fleet::settings::SettingKind::{Count, List, Seconds, Text};
use gtop_fleet::settings::{Setting, check, choice, flag, option, switch, value};

mod setup_pages;

/// All settings by the heading under which help lists them, in the order of `--help`.
pub const SECTIONS: &[(&str, &[Setting])] = &[
    ("Nodes", NODES),
    (JOBS, JOB_SETTINGS),
    ("Intervals", INTERVALS),
    ("Output", OUTPUT),
    ("Connection", CONNECTION),
    ("Screen", gtop_ui::SETTINGS),
    ("Filters", FILTERS),
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

const NODES: &[Setting] = &[
    option("hosts", List(check::any), "HOST")
        .help("Nodes to watch if the command line names none, such as gpu[01-16] or @a100")
        .without_option(),
    option("exclude", List(check::any), "SET")
        .help("Exclude these nodes from every source: a node set such as gpu[03,07], or @down")
        .without_option(),
    option("sudo", List(check::any), "SET")
        .help(
            "Run the probe as root, through sudo -n, on these nodes: a node set such as @a100; on \
             all nodes if none is given. It needs a line in sudoers there (gtop probe --sudoers)",
        )
        .bare("*")
        .global(),
    switch("allow-signals")
        .help(
            "Let probes that run as root send signals, to the processes of any user; without it \
             they only read",
        )
        .global(),
    option("login", Text(check::login), "NAME")
        .help("Login user, unless the host names another")
        .short('l')
        .aliases(&["username"])
        .global(),
];

/// The heading of what selects jobs.
pub const JOBS: &str = "Jobs";

const JOB_SETTINGS: &[Setting] = &[
    switch("slurm")
        .help("Watch the nodes of your running jobs if the command line names nothing")
        .without_option(),
    option("discovery-interval", Seconds { min: 1.0, max: 3600.0 }, "SECONDS")
        .help("Seconds between queries to the scheduler, 1 to 3600")
        .default("30"),
];

const INTERVALS: &[Setting] = &[
    option("interval", Seconds { min: 0.05, max: 3600.0 }, "SECONDS")
        .label("time between samples")
        .help("Seconds between samples, 0.05 to 3600")
        .default("1")
        .short('i')
        .page("General")
        .steps(&["0.1", "0.25", "0.5", "1", "2", "5", "10", "30", "60"]),
    option("redraw", Seconds { min: 0.02, max: 3600.0 }, "SECONDS")
        .label("time between redraws, at least")
        .help("Minimum seconds between redraws for new data, 0.02 to 3600")
        .default("0.5")
        .page("General")
        .steps(&["0.1", "0.25", "0.5", "1", "2", "5"]),
    option("history", Seconds { min: 10.0, max: 86_400.0 }, "SECONDS")
        .help("Seconds of history to keep, 10 to 86400")
        .default("300"),
];

const OUTPUT: &[Setting] = &[
    option("deadline", Seconds { min: 0.1, max: 3600.0 }, "SECONDS")
        .help("Seconds to wait for a complete snapshot with --once or --json, 0.1 to 3600")
        .default("10"),
    option("log", Text(check::any), "FILE")
        .help("Write a log to FILE; at 32 MiB it is rotated to FILE.1")
        .global(),
];

const CONNECTION: &[Setting] = &[
    option("connect-timeout", Seconds { min: 0.1, max: 600.0 }, "SECONDS")
        .help(
            "Connection timeout in seconds, 0.1 to 600; default: ConnectTimeout of ssh_config, \
             or 10",
        )
        .global(),
    option("max-connecting", Count { min: 1, max: 4096 }, "COUNT")
        .help("Maximum number of connections opened at once")
        .default("64")
        .global(),
    choice("transport", "HOW")
        .help(
            "How to connect to nodes: built-in SSH (native), the ssh program (ssh), a step of \
             your Slurm job (srun), the command of --exec (exec), this machine only (local), or \
             built-in SSH with the ssh program or a job step as fallback (auto)",
        )
        .values(&[
            value(
                "auto",
                "built-in SSH; falls back to the ssh program or a step of your Slurm job",
            ),
            value("native", "built-in SSH only"),
            value("ssh", "the ssh program").with_alias("ssh-binary"),
            value("local", "no connections: this machine only"),
            value("exec", "the command of --exec"),
            value("srun", "one step per Slurm job, for clusters that forbid ssh to nodes"),
        ])
        .global(),
    option("exec", Text(check::any), "COMMAND")
        .help(
            "Connect to nodes with this command. It is split into words at spaces and quotes \
             and not run by a shell. {node} is replaced by the node, {command} by the command \
             line to run there; without {command} that line is written to standard input, which \
             must reach a shell on the node: 'kubectl exec -i {node} -- sh', or 'docker exec -i \
             {node} sh -c {command}'",
        )
        .conflicts(&["ssh-binary"])
        .global(),
    option("ssh-binary", Text(check::any), "PROGRAM")
        .help("Connect with the ssh program, one process per node; PROGRAM defaults to ssh")
        .aliases(&["ssh"])
        .bare("ssh")
        .global(),
];

const FILTERS: &[Setting] = &[
    option("only", List(check::device), "INDEX")
        .label("only devices with these numbers")
        .help("Show only the devices with these indices, on every node")
        .short('o')
        .page("Selection"),
    switch("only-visible")
        .label("only CUDA_VISIBLE_DEVICES")
        .help(
            "Show only the devices in CUDA_VISIBLE_DEVICES: of this machine, or of any node if \
             it lists UUIDs; also -ov",
        )
        .page("Selection"),
    choice("process-type", "TYPE")
        .label("only processes of this type")
        .help("Show only processes of this type")
        .values(&[
            value("all", "all processes"),
            value("compute", "compute processes (C, C+G)"),
            value("only-compute", "compute-only processes (C)"),
            value("graphics", "graphics processes (G, C+G)"),
            value("only-graphics", "graphics-only processes (G)"),
        ])
        .flags(&[
            flag("compute", "compute", "Show only compute processes, types C and C+G").short('c'),
            flag("only-compute", "only-compute", "Show only processes of type C").short('C'),
            flag("graphics", "graphics", "Show only graphics processes, types G and C+G")
                .short('g'),
            flag("only-graphics", "only-graphics", "Show only processes of type G").short('G'),
        ])
        .page("Processes"),
    option("user-processes", List(check::name), "USER")
        .label("only processes of these users")
        .help("Show only processes of these users; without USER, your own")
        .short('u')
        .bare(CURRENT_USER)
        .page("Processes"),
    option("pid", List(check::pid), "PID")
        .label("only these process ids")
        .help("Show only processes with these PIDs")
        .short('p')
        .page("Selection"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use gtop_fleet::metrics::charts;
    use gtop_fleet::query::aliases;
    use gtop_fleet::settings::ColumnSpec;
    use gtop_ui::{
        DisplayOptions, Navigation, fleet, node, preferences, processes, restore_preference, users,
    };

    #[test]
    fn the_help_names_every_metric_that_can_be_charted() {
        let help = setting("charted").unwrap().help;
        let (_, names) = help.split_once(": ").unwrap();
        let aliases: BTreeSet<_> = charts().iter().map(|chart| chart.alias).collect();
        let names: BTreeSet<_> = names.split(", ").collect();
        assert_eq!(names, aliases);
    }

    #[test]
    fn preferences_are_settings_with_the_same_default() {
        let initial = preferences(&Navigation::default(), &DisplayOptions::default());
        for (name, value) in initial {
            let setting = setting(name).unwrap();
            assert!(!setting.page.is_empty() && setting.kind.parse(&value).is_ok(), "{name}");
            assert_eq!(setting.default, value, "{name}");
        }
        for (name, labels) in
            [("fleet-map", "util mem power temp owner job"), ("fleet-form", "table map")]
        {
            for label in labels.split(' ') {
                let mut navigation = Navigation::default();
                restore_preference(&mut navigation, name, label);
                assert!(
                    preferences(&navigation, &DisplayOptions::default())
                        .contains(&(name, label.to_owned()))
                );
            }
        }
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
}
