//! The table of settings: the source of `--help`, environment variables, `config.toml`, the setup pages and
//! the reference.

use super::check;
use super::kind::SettingKind::{Count, DistinctList, List, PercentPair, Seconds, Text};
use super::kind::value;
use super::setting::{EnvMapping, Setting, choice, columns, env_alias, flag, option, sort, switch};
use gtop_ui::{ChartMetric, fleet, job, node, processes, users};

/// All settings by the heading under which help lists them, in the order of `--help`.
pub const SECTIONS: [(&str, &[Setting]); 7] = [
    ("Nodes", NODES),
    (JOBS, JOB_SETTINGS),
    ("Intervals", INTERVALS),
    ("Output", OUTPUT),
    ("Connection", CONNECTION),
    ("Screen", SCREEN),
    ("Filters", FILTERS),
];

/// Returns all settings, in the order of `--help`.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.into_iter().flat_map(|(_, settings)| settings)
}

pub fn setting(name: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.name == name)
}

/// In lists of users: the user who runs gtop.
pub const CURRENT_USER: &str = "@";

const GENERAL: &str = "General";
const FLEET: &str = "Fleet";
const DEVICES: &str = "Devices";
const CHART: &str = "Chart";
const PROCESSES: &str = "Processes";
const SELECTION: &str = "Selection";

/// Maps the words in nvitop's variables to values of `background`.
const BACKGROUNDS: &[(&str, &str)] = &[("dark", "dark"), ("light", "light")];

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
        .page(GENERAL)
        .steps(&["0.1", "0.25", "0.5", "1", "2", "5", "10", "30", "60"]),
    option("redraw", Seconds { min: 0.02, max: 3600.0 }, "SECONDS")
        .label("time between redraws, at least")
        .help("Minimum seconds between redraws for new data, 0.02 to 3600")
        .default("0.5")
        .page(GENERAL)
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

const SCREEN: &[Setting] = &[
    choice("theme", "THEME")
        .label("colours")
        .help(
            "Colour theme: auto (greener when busier), hot (green, yellow, red with rising \
             load), colour-blind (blue for load, orange for warnings) or mono; dark and light \
             are auto for that background",
        )
        .values(&[
            value("auto", "greener when busier"),
            value("dark", "auto for a dark background, unless background is set"),
            value("light", "auto for a light background, unless background is set"),
            value("mono", "no colours; bold, dim and reverse video"),
            value("colour-blind", "blue for load, orange for warnings").with_alias("color-blind"),
            value("hot", "green, yellow, red with rising load"),
        ])
        .page(GENERAL),
    choice("background", "WHICH")
        .label("background of the terminal")
        .help(
            "Background of the terminal: dark, light, or auto (ask the terminal, then \
             COLORFGBG)",
        )
        .values(&[
            value("auto", "ask the terminal, then COLORFGBG; otherwise dark"),
            value("dark", "dark background"),
            value("light", "light background"),
        ])
        .flags(&[flag("light", "light", "Same as --background light")])
        .page(GENERAL)
        .env_aliases(&[
            env_alias("NVITOP_MONITOR_MODE", EnvMapping::ListWords(BACKGROUNDS)),
            env_alias("NVITOP_MONITOR_THEME", EnvMapping::ListWords(BACKGROUNDS)),
        ]),
    choice("color", "WHEN")
        .label("use colours")
        .help("When to use colours: auto (if the terminal supports them), always or never")
        .values(&[
            value("auto", "if the terminal supports them"),
            value("always", "even if output is not a terminal"),
            value("never", "no colours"),
        ])
        .aliases(&["colour"])
        .flags(&[
            flag("force-color", "always", "Same as --color always"),
            flag("no-color", "never", "Same as --color never"),
        ])
        .page(GENERAL)
        .env_aliases(&[
            env_alias("NO_COLOR", EnvMapping::IfSet("never")),
            env_alias("CLICOLOR_FORCE", EnvMapping::IfNotZero("always")),
        ]),
    switch("colorful")
        .label("bars with a gradient")
        .help("Draw bars with a colour gradient")
        .page(GENERAL)
        .env_aliases(&[env_alias(
            "NVITOP_MONITOR_MODE",
            EnvMapping::ListWords(&[("colorful", "true"), ("plain", "false")]),
        )]),
    switch("ascii")
        .label("plain characters only (ASCII)")
        .help("Draw with ASCII characters only; default: on if the locale is not UTF-8")
        .default("")
        .short('U')
        .aliases(&["no-unicode"])
        .page(GENERAL),
    switch("mouse")
        .help("Use the mouse to select, scroll and sort")
        .on_by_default("Leave the mouse to the terminal, for selecting text"),
    choice("key-scheme", "SCHEME")
        .help(
            "Whose keys are bound: gtop's own, or those of nvitop, nvtop or htop. Keys of the \
             config file stand above them. nvitop also makes hot the default theme",
        )
        .long("keys")
        .values(&[
            value("gtop", "the keys of gtop"),
            value("nvitop", "k kills, Tab selects, / reverses the order, o and a letter sorts"),
            value("nvtop", "h and l scroll commands, F-keys as in gtop"),
            value("htop", "k sends signals, P M T N sort, I reverses, F5 shows the tree"),
        ]),
    switch("readonly").help("Read-only mode: do not send signals to processes").env_aliases(&[
        env_alias("NVITOP_MONITOR_MODE", EnvMapping::ListWords(&[("readonly", "true")])),
    ]),
    choice("monitor", "LEVEL")
        .label("lines per device")
        .help(
            "Level of detail per device and node: as many lines as fit (auto), all lines \
             (full) or one line each (compact)",
        )
        .values(&[
            value("auto", "as many lines as fit"),
            value("full", "all lines"),
            value("compact", "one line per device"),
        ])
        .short('m')
        .bare("auto")
        .page(DEVICES)
        .env_aliases(&[env_alias(
            "NVITOP_MONITOR_MODE",
            EnvMapping::ListWords(&[("auto", "auto"), ("full", "full"), ("compact", "compact")]),
        )]),
    choice("units", "UNIT")
        .label("unit of memory")
        .help("Unit for memory on the screen; exports always use bytes")
        .values(&[
            value("mb", "MB, 10^6 bytes"),
            value("mib", "MiB, 2^20 bytes"),
            value("gb", "GB, 10^9 bytes"),
            value("gib", "GiB, 2^30 bytes"),
        ])
        .default("gib")
        .flags(&[
            flag("mb", "mb", "Same as --units mb"),
            flag("mib", "mib", "Same as --units mib"),
            flag("gb", "gb", "Same as --units gb"),
            flag("gib", "gib", "Same as --units gib"),
        ])
        .page(GENERAL),
    switch("fahrenheit")
        .label("temperatures in °F")
        .help("Show temperatures in degrees Fahrenheit")
        .page(GENERAL),
    option("gpu-util-thresh", PercentPair, "PERCENT")
        .label("medium, high utilization and power")
        .help(
            "Medium and high thresholds for utilization and power, in %; default: 10 75, and \
             60 85 for the bars of a device",
        )
        .page(DEVICES)
        .steps(&["10,75", "25,75", "50,90", "60,85"])
        .env_aliases(&[env_alias("NVITOP_GPU_UTILIZATION_THRESHOLDS", EnvMapping::SameSyntax)]),
    option("mem-util-thresh", PercentPair, "PERCENT")
        .label("medium, high memory")
        .help("Medium and high thresholds for memory, in %")
        .default("10,80")
        .page(DEVICES)
        .steps(&["10,80", "25,75", "50,90", "60,85"])
        .env_aliases(&[env_alias("NVITOP_MEMORY_UTILIZATION_THRESHOLDS", EnvMapping::SameSyntax)]),
    switch("gpu-index")
        .label("device numbers")
        .help("Show device indices")
        .on_by_default("Hide device indices")
        .page(DEVICES),
    switch("gpu-name")
        .label("device names")
        .help("Show device names")
        .on_by_default("Hide device names")
        .page(DEVICES),
    switch("gpu-uuid").label("device UUIDs").help("Show device UUIDs").page(DEVICES),
    sort("sort-fleet", fleet::sort_columns)
        .label("nodes sorted by")
        .help("Initial sort column of the fleet view")
        .page(FLEET),
    switch("reverse-fleet")
        .label("nodes in reverse order")
        .help("Reverse the sort order of the fleet view")
        .page(FLEET),
    choice("fleet-form", "FORM")
        .label("list or map of devices")
        .help(
            "Initial layout of the fleet view: one line per node (table) or one cell per \
             device (map)",
        )
        .values(&[value("table", "one line per node"), value("map", "one cell per device")])
        .page(FLEET),
    choice("fleet-map", "WHAT")
        .label("the map shows")
        .help("Initial metric of the fleet map")
        .values(&[
            value("util", "utilization of each device"),
            value("mem", "memory in use"),
            value("power", "power draw relative to the limit"),
            value("temp", "temperature"),
            value("owner", "user"),
            value("job", "job"),
        ])
        .page(FLEET),
    choice("fleet-group", "WHAT")
        .label("nodes grouped by")
        .help("Initial grouping of the fleet view")
        .values(&[
            value("none", "all nodes in one list"),
            value("name", "by common name prefix"),
            value("partition", "by partition; a node may be in several"),
            value("job", "by job"),
            value("user", "by user"),
            value("model", "by device model"),
        ])
        .page(FLEET),
    sort("sort-processes", processes::sort_columns)
        .label("processes sorted by")
        .help("Initial sort column of the process view")
        .page(PROCESSES),
    switch("reverse-processes")
        .label("processes in reverse order")
        .help("Reverse the sort order of the process view")
        .page(PROCESSES),
    switch("node-processes")
        .label("processes below a node's devices")
        .help("Show processes below the devices of a node; p toggles them")
        .on_by_default("Hide processes below the devices of a node; p shows them")
        .page(PROCESSES),
    sort("sort-jobs", job::sort_columns)
        .label("jobs sorted by")
        .help("Initial sort column of the list of jobs")
        .default("worst")
        .page(PROCESSES),
    switch("reverse-jobs")
        .label("jobs in reverse order")
        .help("Reverse the sort order of the list of jobs")
        .page(PROCESSES),
    sort("sort-users", users::sort_columns)
        .label("users sorted by")
        .help("Initial sort column of the user view")
        .default("devices")
        .page(PROCESSES),
    switch("reverse-users")
        .label("users in reverse order")
        .help("Reverse the sort order of the user view")
        .page(PROCESSES),
    switch("node-chart")
        .label("chart of a node at start")
        .help("Show the chart of a node at start; g toggles it")
        .page(CHART),
    columns("columns-fleet", fleet::column_specs).label("columns of nodes").help(
        "Columns of the fleet table after the node, from left to right; the rightmost are \
             dropped if there is no room",
    ),
    columns("columns-node", node::column_specs)
        .label("columns of devices")
        .help("Columns of the device table after the device, from left to right"),
    columns("columns-processes", processes::column_specs)
        .label("columns of processes")
        .help("Columns of the process table before the command, from left to right"),
    columns("columns-jobs", || job::COLUMN_SPECS.to_vec())
        .label("columns of jobs")
        .help("Columns of the list of jobs after the id, from left to right"),
    columns("columns-users", || users::COLUMN_SPECS.to_vec())
        .label("columns of users")
        .help("Columns of the user table after the user, from left to right"),
    option("charted", DistinctList(check::metric, ChartMetric::MAX_CHARTED), "METRIC")
        .label("metrics in the chart")
        .help(
            "Metrics charted per device, at most four: util, mem, power, temp, membw, smclock, \
             memclock, fan, enc, dec, pcie, throttled",
        )
        .default("util,mem")
        .page(CHART)
        .steps(&["util,mem", "util,power", "util,mem,power,temp", "util,enc,dec"]),
    switch("reverse-chart")
        .label("newest values on the left")
        .help("Draw charts with the newest sample on the left")
        .page(CHART),
];

const FILTERS: &[Setting] = &[
    option("only", List(check::device), "INDEX")
        .label("only devices with these numbers")
        .help("Show only the devices with these indices, on every node")
        .short('o')
        .page(SELECTION),
    switch("only-visible")
        .label("only CUDA_VISIBLE_DEVICES")
        .help(
            "Show only the devices in CUDA_VISIBLE_DEVICES: of this machine, or of any node if \
             it lists UUIDs; also -ov",
        )
        .page(SELECTION),
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
        .page(PROCESSES),
    option("user-processes", List(check::name), "USER")
        .label("only processes of these users")
        .help("Show only processes of these users; without USER, your own")
        .short('u')
        .bare(CURRENT_USER)
        .page(PROCESSES),
    option("pid", List(check::pid), "PID")
        .label("only these process ids")
        .help("Show only processes with these PIDs")
        .short('p')
        .page(SELECTION),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use gtop_fleet::metrics::charts;
    use gtop_fleet::query::aliases;
    use gtop_ui::{ColumnSpec, DisplayOptions, Navigation, preferences, restore_preference};

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
