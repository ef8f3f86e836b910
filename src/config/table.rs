//! The table of settings: the source of `--help`, environment variables, `config.toml`, the setup pages and
//! the reference.

use super::check;
use super::kind::{SettingKind, choice};
use super::setting::{EnvAlias, EnvMapping, Flag, Setting};
use crate::ui::ChartMetric;
use crate::ui::{fleet, node, processes, users};

pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

const GENERAL: Option<&str> = Some("General");
const FLEET: Option<&str> = Some("Fleet");
const DEVICES: Option<&str> = Some("Devices");
const CHART: Option<&str> = Some("Chart");
const PROCESSES: Option<&str> = Some("Processes");
const SELECTION: Option<&str> = Some("Selection");

/// Defaults of the fields of a setting.
const BASE: Setting = Setting {
    name: "",
    short: None,
    aliases: &[],
    kind: SettingKind::Switch,
    value_name: "",
    default: "",
    default_missing_value: None,
    flags: &[],
    help: "",
    off_help: "",
    heading: "Screen",
    page: None,
    steps: &[],
    env_aliases: &[],
    is_global: false,
    has_option: true,
    conflicts: &[],
};

const NODES: Setting = Setting { heading: "Nodes", has_option: false, ..BASE };
const JOBS: Setting = Setting { heading: "Slurm", has_option: false, ..BASE };
const TIMING: Setting = Setting { heading: "Intervals", value_name: "SECONDS", ..BASE };
const OUTPUT: Setting = Setting { heading: "Output", ..BASE };
const CONNECTION: Setting = Setting { heading: "Connection", is_global: true, ..BASE };
const FILTERS: Setting = Setting { heading: "Filters", ..BASE };

/// Columns of a table; by default as many as fit.
const COLUMNS: Setting = Setting { value_name: "COLUMN", page: Some("Columns"), ..BASE };

/// Maps the words in nvitop's variables to values of `background`.
const BACKGROUNDS: &[(&str, &str)] = &[("dark", "dark"), ("light", "light")];

/// All settings, in the order of `--help`.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "hosts",
        kind: SettingKind::List(check::any),
        value_name: "HOST",
        help: "Nodes to watch if the command line names none, such as gpu[01-16] or @a100",
        ..NODES
    },
    Setting {
        name: "exclude",
        kind: SettingKind::List(check::any),
        value_name: "SET",
        help: "Exclude these nodes from every source: a node set such as gpu[03,07], or @down",
        ..NODES
    },
    Setting {
        name: "login",
        short: Some('l'),
        aliases: &["username"],
        kind: SettingKind::Text(check::login),
        value_name: "NAME",
        help: "Login user, unless the host names another",
        is_global: true,
        has_option: true,
        ..NODES
    },
    Setting {
        name: "slurm",
        default: "false",
        help: "Watch the nodes of your running jobs if the command line names nothing",
        ..JOBS
    },
    Setting {
        name: "discovery-interval",
        kind: SettingKind::Seconds { min: 1.0, max: 3600.0 },
        value_name: "SECONDS",
        default: "30",
        help: "Seconds between queries to Slurm, 1 to 3600",
        has_option: true,
        ..JOBS
    },
    Setting {
        name: "interval",
        short: Some('i'),
        kind: SettingKind::Seconds { min: 0.05, max: 3600.0 },
        default: "1",
        help: "Seconds between samples, 0.05 to 3600",
        page: GENERAL,
        steps: &["0.1", "0.25", "0.5", "1", "2", "5", "10", "30", "60"],
        ..TIMING
    },
    Setting {
        name: "redraw",
        kind: SettingKind::Seconds { min: 0.02, max: 3600.0 },
        default: "0.5",
        help: "Minimum seconds between redraws for new data, 0.02 to 3600",
        page: GENERAL,
        steps: &["0.1", "0.25", "0.5", "1", "2", "5"],
        ..TIMING
    },
    Setting {
        name: "history",
        kind: SettingKind::Seconds { min: 10.0, max: 86_400.0 },
        default: "300",
        help: "Seconds of history to keep, 10 to 86400",
        ..TIMING
    },
    Setting {
        name: "deadline",
        kind: SettingKind::Seconds { min: 0.1, max: 3600.0 },
        value_name: "SECONDS",
        default: "10",
        help: "Seconds to wait for a complete snapshot with --once or --json, 0.1 to 3600",
        ..OUTPUT
    },
    Setting {
        name: "log",
        kind: SettingKind::Text(check::any),
        value_name: "FILE",
        help: "Write a log to FILE; at 32 MiB it is rotated to FILE.1",
        is_global: true,
        ..OUTPUT
    },
    Setting {
        name: "connect-timeout",
        kind: SettingKind::Seconds { min: 0.1, max: 600.0 },
        value_name: "SECONDS",
        help: "Connection timeout in seconds, 0.1 to 600; default: ConnectTimeout of ssh_config, or 10",
        ..CONNECTION
    },
    Setting {
        name: "max-connecting",
        kind: SettingKind::Count { min: 1, max: 4096 },
        value_name: "COUNT",
        default: "64",
        help: "Maximum number of connections opened at once",
        ..CONNECTION
    },
    Setting {
        name: "transport",
        kind: SettingKind::Choice(&[
            choice(
                "auto",
                "built-in SSH; falls back to the ssh program or a step of your Slurm job",
            ),
            choice("native", "built-in SSH only"),
            choice("ssh", "the ssh program").with_alias("ssh-binary"),
            choice("local", "no connections: this machine only"),
            choice("exec", "the command of --exec"),
            choice("srun", "one step per Slurm job, for clusters that forbid ssh to nodes"),
        ]),
        value_name: "HOW",
        default: "auto",
        help: "How to connect to nodes: built-in SSH (native), the ssh program (ssh), a step of your Slurm job (srun), the command of --exec (exec), this machine only (local), or built-in SSH with the ssh program or a job step as fallback (auto)",
        ..CONNECTION
    },
    Setting {
        name: "exec",
        kind: SettingKind::Text(check::any),
        value_name: "COMMAND",
        help: "Connect to nodes with this command. It is split into words at spaces and quotes and not run by a shell. {node} is replaced by the node, {command} by the command line to run there; without {command} that line is written to standard input, which must reach a shell on the node: 'kubectl exec -i {node} -- sh', or 'docker exec -i {node} sh -c {command}'",
        conflicts: &["ssh-binary"],
        ..CONNECTION
    },
    Setting {
        name: "ssh-binary",
        aliases: &["ssh"],
        kind: SettingKind::Text(check::any),
        value_name: "PROGRAM",
        default_missing_value: Some("ssh"),
        help: "Connect with the ssh program, one process per node; PROGRAM defaults to ssh",
        ..CONNECTION
    },
    Setting {
        name: "theme",
        kind: SettingKind::Choice(&[
            choice("auto", "greener when busier"),
            choice("dark", "auto for a dark background, unless background is set"),
            choice("light", "auto for a light background, unless background is set"),
            choice("mono", "no colours; bold, dim and reverse video"),
            choice("colour-blind", "blue for load, orange for warnings").with_alias("color-blind"),
            choice("hot", "green, yellow, red with rising load"),
        ]),
        value_name: "THEME",
        default: "auto",
        help: "Colour theme: auto (greener when busier), hot (green, yellow, red with rising load), colour-blind (blue for load, orange for warnings) or mono; dark and light are auto for that background",
        page: GENERAL,
        ..BASE
    },
    Setting {
        name: "background",
        kind: SettingKind::Choice(&[
            choice("auto", "ask the terminal, then COLORFGBG; otherwise dark"),
            choice("dark", "dark background"),
            choice("light", "light background"),
        ]),
        value_name: "WHICH",
        default: "auto",
        flags: &[Flag {
            name: "light",
            short: None,
            value: "light",
            help: "Same as --background light",
        }],
        help: "Background of the terminal: dark, light, or auto (ask the terminal, then COLORFGBG)",
        page: GENERAL,
        env_aliases: &[
            EnvAlias {
                variable: "NVITOP_MONITOR_MODE",
                mapping: EnvMapping::ListWords(BACKGROUNDS),
            },
            EnvAlias {
                variable: "NVITOP_MONITOR_THEME",
                mapping: EnvMapping::ListWords(BACKGROUNDS),
            },
        ],
        ..BASE
    },
    Setting {
        name: "color",
        aliases: &["colour"],
        kind: SettingKind::Choice(&[
            choice("auto", "if the terminal supports them"),
            choice("always", "even if output is not a terminal"),
            choice("never", "no colours"),
        ]),
        value_name: "WHEN",
        default: "auto",
        flags: &[
            Flag {
                name: "force-color",
                short: None,
                value: "always",
                help: "Same as --color always",
            },
            Flag { name: "no-color", short: None, value: "never", help: "Same as --color never" },
        ],
        help: "When to use colours: auto (if the terminal supports them), always or never",
        page: GENERAL,
        env_aliases: &[
            EnvAlias { variable: "NO_COLOR", mapping: EnvMapping::IfSet("never") },
            EnvAlias { variable: "CLICOLOR_FORCE", mapping: EnvMapping::IfNotZero("always") },
        ],
        ..BASE
    },
    Setting {
        name: "colorful",
        default: "false",
        help: "Draw bars with a colour gradient",
        page: GENERAL,
        env_aliases: &[EnvAlias {
            variable: "NVITOP_MONITOR_MODE",
            mapping: EnvMapping::ListWords(&[("colorful", "true"), ("plain", "false")]),
        }],
        ..BASE
    },
    Setting {
        name: "ascii",
        short: Some('U'),
        aliases: &["no-unicode"],
        help: "Draw with ASCII characters only; default: on if the locale is not UTF-8",
        page: GENERAL,
        ..BASE
    },
    Setting {
        name: "mouse",
        default: "true",
        help: "Use the mouse to select, scroll and sort",
        off_help: "Leave the mouse to the terminal, for selecting text",
        ..BASE
    },
    Setting {
        name: "readonly",
        default: "false",
        help: "Read-only mode: do not send signals to processes",
        env_aliases: &[EnvAlias {
            variable: "NVITOP_MONITOR_MODE",
            mapping: EnvMapping::ListWords(&[("readonly", "true")]),
        }],
        ..BASE
    },
    Setting {
        name: "monitor",
        short: Some('m'),
        kind: SettingKind::Choice(&[
            choice("auto", "as many lines as fit"),
            choice("full", "all lines"),
            choice("compact", "one line per device"),
        ]),
        value_name: "LEVEL",
        default: "auto",
        default_missing_value: Some("auto"),
        help: "Level of detail per device and node: as many lines as fit (auto), all lines (full) or one line each (compact)",
        page: DEVICES,
        env_aliases: &[EnvAlias {
            variable: "NVITOP_MONITOR_MODE",
            mapping: EnvMapping::ListWords(&[
                ("auto", "auto"),
                ("full", "full"),
                ("compact", "compact"),
            ]),
        }],
        ..BASE
    },
    Setting {
        name: "units",
        kind: SettingKind::Choice(&[
            choice("mb", "MB, 10^6 bytes"),
            choice("mib", "MiB, 2^20 bytes"),
            choice("gb", "GB, 10^9 bytes"),
            choice("gib", "GiB, 2^30 bytes"),
        ]),
        value_name: "UNIT",
        default: "gib",
        flags: &[
            Flag { name: "mb", short: None, value: "mb", help: "Same as --units mb" },
            Flag { name: "mib", short: None, value: "mib", help: "Same as --units mib" },
            Flag { name: "gb", short: None, value: "gb", help: "Same as --units gb" },
            Flag { name: "gib", short: None, value: "gib", help: "Same as --units gib" },
        ],
        help: "Unit for memory on the screen; exports always use bytes",
        page: GENERAL,
        ..BASE
    },
    Setting {
        name: "fahrenheit",
        default: "false",
        help: "Show temperatures in degrees Fahrenheit",
        page: GENERAL,
        ..BASE
    },
    Setting {
        name: "gpu-util-thresh",
        kind: SettingKind::PercentPair,
        value_name: "PERCENT",
        help: "Medium and high thresholds for utilization and power, in %; default: 10 75, and 60 85 for the bars of a device",
        page: DEVICES,
        steps: &["10,75", "25,75", "50,90", "60,85"],
        env_aliases: &[EnvAlias {
            variable: "NVITOP_GPU_UTILIZATION_THRESHOLDS",
            mapping: EnvMapping::SameSyntax,
        }],
        ..BASE
    },
    Setting {
        name: "mem-util-thresh",
        kind: SettingKind::PercentPair,
        value_name: "PERCENT",
        default: "10,80",
        help: "Medium and high thresholds for memory, in %",
        page: DEVICES,
        steps: &["10,80", "25,75", "50,90", "60,85"],
        env_aliases: &[EnvAlias {
            variable: "NVITOP_MEMORY_UTILIZATION_THRESHOLDS",
            mapping: EnvMapping::SameSyntax,
        }],
        ..BASE
    },
    Setting {
        name: "gpu-index",
        default: "true",
        help: "Show device indices",
        off_help: "Hide device indices",
        page: DEVICES,
        ..BASE
    },
    Setting {
        name: "gpu-name",
        default: "true",
        help: "Show device names",
        off_help: "Hide device names",
        page: DEVICES,
        ..BASE
    },
    Setting {
        name: "gpu-uuid",
        default: "false",
        help: "Show device UUIDs",
        page: DEVICES,
        ..BASE
    },
    Setting {
        name: "sort-fleet",
        kind: SettingKind::Choice(&[
            choice("node", "in the order given"),
            choice("job", "by job"),
            choice("user", "by user"),
            choice("busy", "by number of busy devices"),
            choice("util", "by utilization"),
            choice("mem", "by device memory in use"),
            choice("power", "by power"),
            choice("temp", "by the highest device temperature"),
            choice("cpu", "by CPU utilization"),
            choice("age", "by age of the data"),
            choice("note", "by notes, such as faults"),
        ]),
        value_name: "COLUMN",
        default: "node",
        help: "Initial sort column of the fleet view",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "reverse-fleet",
        default: "false",
        help: "Reverse the sort order of the fleet view",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "fleet-form",
        kind: SettingKind::Choice(&[
            choice("table", "one line per node"),
            choice("map", "one cell per device"),
        ]),
        value_name: "FORM",
        default: "table",
        help: "Initial layout of the fleet view: one line per node (table) or one cell per device (map)",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "fleet-map",
        kind: SettingKind::Choice(&[
            choice("util", "utilization of each device"),
            choice("mem", "memory in use"),
            choice("power", "power draw relative to the limit"),
            choice("temp", "temperature"),
            choice("owner", "user"),
            choice("job", "job"),
        ]),
        value_name: "WHAT",
        default: "util",
        help: "Initial metric of the fleet map",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "fleet-group",
        kind: SettingKind::Choice(&[
            choice("none", "all nodes in one list"),
            choice("name", "by common name prefix"),
            choice("partition", "by the partition of their jobs"),
            choice("job", "by job"),
            choice("user", "by user"),
            choice("model", "by device model"),
        ]),
        value_name: "WHAT",
        default: "none",
        help: "Initial grouping of the fleet view",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "sort-processes",
        kind: SettingKind::Choice(&[
            choice("node", "by node and device"),
            choice("gpu", "by device"),
            choice("pid", "by process id"),
            choice("type", "by type"),
            choice("user", "by user"),
            choice("gpumem", "by device memory"),
            choice("psm", "by device load"),
            choice("pmembw", "by memory bandwidth"),
            choice("penc", "by video encoder"),
            choice("pdec", "by video decoder"),
            choice("pcpu", "by CPU"),
            choice("prss", "by share of host memory"),
            choice("rss", "by host memory"),
            choice("time", "by running time"),
            choice("job", "by job"),
            choice("command", "by command line"),
        ]),
        value_name: "COLUMN",
        default: "node",
        help: "Initial sort column of the process view",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "reverse-processes",
        default: "false",
        help: "Reverse the sort order of the process view",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "node-processes",
        default: "true",
        help: "Show processes below the devices of a node; p toggles them",
        off_help: "Hide processes below the devices of a node; p shows them",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "sort-users",
        kind: SettingKind::Choice(&[
            choice("user", "by name"),
            choice("devices", "by number of devices"),
            choice("busy", "by number of busy devices"),
            choice("idle-held", "by number of idle-held devices").formerly("idle"),
            choice("mem", "by device memory"),
            choice("power", "by power"),
            choice("nodes", "by nodes"),
            choice("jobs", "by jobs"),
            choice("procs", "by processes"),
        ]),
        value_name: "COLUMN",
        default: "devices",
        help: "Initial sort column of the user view",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "reverse-users",
        default: "false",
        help: "Reverse the sort order of the user view",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "node-chart",
        default: "false",
        help: "Show the chart of a node at start; g toggles it",
        page: CHART,
        ..BASE
    },
    Setting {
        name: "columns-fleet",
        kind: SettingKind::Columns(&fleet::COLUMN_SPECS),
        help: "Columns of the fleet table after the node, from left to right; the rightmost are dropped if there is no room",
        ..COLUMNS
    },
    Setting {
        name: "columns-node",
        kind: SettingKind::Columns(&node::COLUMN_SPECS),
        help: "Columns of the device table after the device, from left to right",
        ..COLUMNS
    },
    Setting {
        name: "columns-processes",
        kind: SettingKind::Columns(&processes::COLUMN_SPECS),
        help: "Columns of the process table before the command, from left to right",
        ..COLUMNS
    },
    Setting {
        name: "columns-users",
        kind: SettingKind::Columns(&users::COLUMN_SPECS),
        help: "Columns of the user table after the user, from left to right",
        ..COLUMNS
    },
    Setting {
        name: "charted",
        kind: SettingKind::DistinctList(check::metric, ChartMetric::MAX_CHARTED),
        value_name: "METRIC",
        default: "util,mem",
        help: "Metrics charted per device, at most four: util, mem, power, temp, membw, smclock, memclock, fan, enc, dec, pcie, throttled",
        page: CHART,
        steps: &["util,mem", "util,power", "util,mem,power,temp", "util,enc,dec"],
        ..BASE
    },
    Setting {
        name: "reverse-chart",
        default: "false",
        help: "Draw charts with the newest sample on the left",
        page: CHART,
        ..BASE
    },
    Setting {
        name: "only",
        short: Some('o'),
        kind: SettingKind::List(check::device),
        value_name: "INDEX",
        help: "Show only the devices with these indices, on every node",
        page: SELECTION,
        ..FILTERS
    },
    Setting {
        name: "only-visible",
        default: "false",
        help: "Show only the devices in CUDA_VISIBLE_DEVICES: of this machine, or of any node if it lists UUIDs; also -ov",
        page: SELECTION,
        ..FILTERS
    },
    Setting {
        name: "process-type",
        kind: SettingKind::Choice(&[
            choice("all", "all processes"),
            choice("compute", "compute processes (C, C+G)"),
            choice("only-compute", "compute-only processes (C)"),
            choice("graphics", "graphics processes (G, C+G)"),
            choice("only-graphics", "graphics-only processes (G)"),
        ]),
        value_name: "TYPE",
        default: "all",
        flags: &[
            Flag {
                name: "compute",
                short: Some('c'),
                value: "compute",
                help: "Show only compute processes, types C and C+G",
            },
            Flag {
                name: "only-compute",
                short: Some('C'),
                value: "only-compute",
                help: "Show only processes of type C",
            },
            Flag {
                name: "graphics",
                short: Some('g'),
                value: "graphics",
                help: "Show only graphics processes, types G and C+G",
            },
            Flag {
                name: "only-graphics",
                short: Some('G'),
                value: "only-graphics",
                help: "Show only processes of type G",
            },
        ],
        help: "Show only processes of this type",
        page: PROCESSES,
        ..FILTERS
    },
    Setting {
        name: "user-processes",
        short: Some('u'),
        kind: SettingKind::List(check::name),
        value_name: "USER",
        default_missing_value: Some(CURRENT_USER),
        help: "Show only processes of these users; without USER, your own",
        page: PROCESSES,
        ..FILTERS
    },
    Setting {
        name: "pid",
        short: Some('p'),
        kind: SettingKind::List(check::pid),
        value_name: "PID",
        help: "Show only processes with these PIDs",
        page: SELECTION,
        ..FILTERS
    },
];

/// In lists of users: the user who runs gtop.
pub const CURRENT_USER: &str = "@";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::query::aliases;
    use crate::ui::{ColumnSpec, DisplayOptions, Navigation, preferences, restore_preference};

    #[test]
    fn preferences_are_settings_with_the_same_default() {
        let initial = preferences(&Navigation::default(), &DisplayOptions::default());
        for (name, value) in initial {
            let setting = setting(name).unwrap();
            assert!(setting.page.is_some() && setting.kind.parse(&value).is_ok(), "{name}");
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
        let none: &[crate::query::SortColumn] = &[];
        for (headings, columns) in [
            (&fleet::COLUMN_SPECS[..], &fleet::SORT_COLUMNS[..]),
            (&node::COLUMN_SPECS[..], none),
            (&processes::COLUMN_SPECS[..], &processes::COLUMNS[..]),
            (&users::COLUMN_SPECS[..], &users::COLUMNS[..]),
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

    #[test]
    fn sort_settings_list_the_sort_orders_of_their_view() {
        for (name, columns) in [
            ("sort-fleet", &fleet::SORT_COLUMNS[..]),
            ("sort-processes", &processes::COLUMNS[..]),
            ("sort-users", &users::COLUMNS[..]),
        ] {
            let SettingKind::Choice(choices) = setting(name).unwrap().kind else { panic!() };
            let names: Vec<_> = columns.iter().map(|column| column.name).collect();
            assert_eq!(
                choices.iter().map(|choice| choice.name).collect::<Vec<_>>(),
                names,
                "{name}"
            );
        }
    }

    /// Columns and sort orders that combine several metrics or count something.
    const COMBINED: &[&str] = &[
        "age",
        "bar",
        "busy",
        "clocks",
        "devices",
        "enc-dec",
        "flags",
        "gi-ci",
        "idle-held",
        "jobs",
        "last",
        "link",
        "membar",
        "nodes",
        "note",
        "nvlink",
        "owner",
        "partitions",
        "pcie",
        "procs",
        "share",
    ];

    #[test]
    fn columns_sort_orders_and_charts_use_the_aliases_of_metrics() {
        let tables = [
            &fleet::COLUMN_SPECS[..],
            &node::COLUMN_SPECS,
            &processes::COLUMN_SPECS,
            &users::COLUMN_SPECS,
        ];
        let columns = tables.into_iter().flatten().map(|heading| heading.name);
        let orders = [&fleet::SORT_COLUMNS[..], &processes::COLUMNS, &users::COLUMNS];
        let orders = orders.into_iter().flatten().map(|column| column.name);
        let charts = ChartMetric::ALL.into_iter().map(ChartMetric::alias);
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
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        for setting in SETTINGS {
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
