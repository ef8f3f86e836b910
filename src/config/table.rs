//! The table of settings. `--help`, the environment, `config.toml`, the setup pages and the reference
//! all come from it.

use super::check;
use super::kind::{Kind, choice};
use super::setting::{EnvAlias, EnvMapping, Flag, Setting};
use crate::view::node::ChartMetric;
use crate::view::{fleet, node, processes, users};

/// Finds a setting.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

const GENERAL: Option<&str> = Some("General");
const FLEET: Option<&str> = Some("Fleet");
const DEVICES: Option<&str> = Some("Devices");
const CHART: Option<&str> = Some("Chart");
const PROCESSES: Option<&str> = Some("Processes");
const SELECTION: Option<&str> = Some("Selection");

/// What most have in common.
const BASE: Setting = Setting {
    name: "",
    short: None,
    aliases: &[],
    kind: Kind::Switch,
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
const TIMING: Setting = Setting { heading: "Pace", value_name: "SECONDS", ..BASE };
const OUTPUT: Setting = Setting { heading: "Output", ..BASE };
const CONNECTION: Setting = Setting { heading: "Reach", is_global: true, ..BASE };
const FILTERS: Setting = Setting { heading: "What is shown", ..BASE };

/// Columns of a table; as many as there is room for unless told.
const COLUMNS: Setting = Setting { value_name: "COLUMN", page: Some("Columns"), ..BASE };

/// What nvitop calls the background of a terminal.
const BACKGROUNDS: &[(&str, &str)] = &[("dark", "dark"), ("light", "light")];

/// All of them, in the order of help.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "hosts",
        kind: Kind::List(check::any),
        value_name: "HOST",
        help: "Nodes to watch where the command line names none, such as gpu[01-16] or @a100",
        ..NODES
    },
    Setting {
        name: "exclude",
        kind: Kind::List(check::any),
        value_name: "SET",
        help: "Leave these nodes out, wherever they come from: a set such as gpu[03,07] or @down",
        ..NODES
    },
    Setting {
        name: "login",
        short: Some('l'),
        aliases: &["username"],
        kind: Kind::Text(check::login),
        value_name: "NAME",
        help: "Log in as this user, where the host does not say another",
        is_global: true,
        has_option: true,
        ..NODES
    },
    Setting {
        name: "slurm",
        default: "false",
        help: "Watch the nodes of your running jobs where the command line names nothing",
        ..JOBS
    },
    Setting {
        name: "discovery-interval",
        kind: Kind::Seconds { min: 1.0, max: 3600.0 },
        value_name: "SECONDS",
        default: "30",
        help: "Ask Slurm every so many seconds, 1 to 3600",
        has_option: true,
        ..JOBS
    },
    Setting {
        name: "interval",
        short: Some('i'),
        kind: Kind::Seconds { min: 0.05, max: 3600.0 },
        default: "1",
        help: "Sample every so many seconds, 0.05 to 3600",
        page: GENERAL,
        steps: &["0.1", "0.25", "0.5", "1", "2", "5", "10", "30", "60"],
        ..TIMING
    },
    Setting {
        name: "redraw",
        kind: Kind::Seconds { min: 0.02, max: 3600.0 },
        default: "0.5",
        help: "Draw new data at most every so many seconds, 0.02 to 3600",
        page: GENERAL,
        steps: &["0.1", "0.25", "0.5", "1", "2", "5"],
        ..TIMING
    },
    Setting {
        name: "history",
        kind: Kind::Seconds { min: 10.0, max: 86_400.0 },
        default: "300",
        help: "Remember so many seconds, 10 to 86400",
        ..TIMING
    },
    Setting {
        name: "deadline",
        kind: Kind::Seconds { min: 0.1, max: 3600.0 },
        value_name: "SECONDS",
        default: "10",
        help: "Wait so long for a complete picture, 0.1 to 3600 seconds",
        ..OUTPUT
    },
    Setting {
        name: "log",
        kind: Kind::Text(check::any),
        value_name: "FILE",
        help: "Write what happens to a file; at 32 MiB it becomes FILE.1 and a new one begins",
        is_global: true,
        ..OUTPUT
    },
    Setting {
        name: "connect-timeout",
        kind: Kind::Seconds { min: 0.1, max: 600.0 },
        value_name: "SECONDS",
        help: "Give up a connection attempt after so many seconds, 0.1 to 600; else as ssh would, or 10",
        ..CONNECTION
    },
    Setting {
        name: "max-connecting",
        kind: Kind::Count { min: 1, max: 4096 },
        value_name: "COUNT",
        default: "64",
        help: "Open at most so many connections at once",
        ..CONNECTION
    },
    Setting {
        name: "transport",
        kind: Kind::Choice(&[
            choice(
                "auto",
                "gtop itself, and the ssh program or a step of your Slurm job where that cannot",
            ),
            choice("native", "gtop itself"),
            choice("ssh", "The ssh program").or("ssh-binary"),
            choice("local", "Not at all: only this machine is watched"),
            choice("exec", "The command of --exec"),
            choice("srun", "One step of each Slurm job, for clusters that let nobody in by ssh"),
        ]),
        value_name: "HOW",
        default: "auto",
        help: "How to get to nodes: gtop's own SSH, the ssh program, own SSH and where that cannot the program or a step of your Slurm job (auto), a step of your Slurm job, nowhere but this machine, or the command of --exec",
        ..CONNECTION
    },
    Setting {
        name: "exec",
        kind: Kind::Text(check::any),
        value_name: "COMMAND",
        help: "Reach nodes by a command, split into words at spaces and quotes and run by no shell: {node} stands for the node, {command} for the line to run there. Without {command} that line goes to the command's standard input, which must be a shell's on the node: 'kubectl exec -i {node} -- sh', or 'docker exec -i {node} sh -c {command}'",
        conflicts: &["ssh-binary"],
        ..CONNECTION
    },
    Setting {
        name: "ssh-binary",
        aliases: &["ssh"],
        kind: Kind::Text(check::any),
        value_name: "PROGRAM",
        default_missing_value: Some("ssh"),
        help: "Reach nodes by the ssh program, one process a node; PROGRAM unless it is ssh",
        ..CONNECTION
    },
    Setting {
        name: "theme",
        kind: Kind::Choice(&[
            choice("auto", "the busier the greener"),
            choice("dark", "the same, for a dark background unless that is set"),
            choice("light", "the same, for a light background unless that is set"),
            choice("mono", "bold, dim and reverse; no colours"),
            choice("colour-blind", "blue for load, orange for trouble").or("color-blind"),
            choice("hot", "green, yellow, red: the busier the hotter"),
        ]),
        value_name: "THEME",
        default: "auto",
        help: "Colours: auto (busy is good: the busier the greener), hot (busy is hot: green, yellow, red), colour-blind (blue for load, orange for trouble), or mono; dark and light are auto for such a background",
        page: GENERAL,
        ..BASE
    },
    Setting {
        name: "background",
        kind: Kind::Choice(&[
            choice("auto", "as the terminal says, or COLORFGBG; else dark"),
            choice("dark", "colours for a dark background"),
            choice("light", "colours for a light background"),
        ]),
        value_name: "WHICH",
        default: "auto",
        flags: &[Flag {
            name: "light",
            short: None,
            value: "light",
            help: "Same as --background light",
        }],
        help: "What the terminal's background is: dark, light, or auto: as the terminal says when it is asked, or COLORFGBG",
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
        kind: Kind::Choice(&[
            choice("auto", "where the terminal has them"),
            choice("always", "also where output is no terminal"),
            choice("never", "none"),
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
        help: "Colours: where the terminal has them, always, or never",
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
        help: "Bars change their colour along their length",
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
        help: "Draw with ASCII alone; unless said, where the locale has nothing else",
        page: GENERAL,
        ..BASE
    },
    Setting {
        name: "mouse",
        default: "true",
        help: "Clicks and the wheel of the mouse select, scroll and sort",
        off_help: "Leave the mouse to the terminal, for selecting text",
        ..BASE
    },
    Setting {
        name: "readonly",
        default: "false",
        help: "Change nothing anywhere: send no signals to processes",
        env_aliases: &[EnvAlias {
            variable: "NVITOP_MONITOR_MODE",
            mapping: EnvMapping::ListWords(&[("readonly", "true")]),
        }],
        ..BASE
    },
    Setting {
        name: "monitor",
        short: Some('m'),
        kind: Kind::Choice(&[
            choice("auto", "as much as there is room for"),
            choice("full", "everything"),
            choice("compact", "a line a device"),
        ]),
        value_name: "HOW",
        default: "auto",
        default_missing_value: Some("auto"),
        help: "How much is said of each device and machine: as much as there is room for (auto), everything (full), or a line each (compact)",
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
        kind: Kind::Choice(&[
            choice("mb", "millions of bytes"),
            choice("mib", "MiB"),
            choice("gb", "billions of bytes"),
            choice("gib", "GiB"),
        ]),
        value_name: "UNIT",
        default: "gib",
        flags: &[
            Flag { name: "mb", short: None, value: "mb", help: "Same as --units mb" },
            Flag { name: "mib", short: None, value: "mib", help: "Same as --units mib" },
            Flag { name: "gb", short: None, value: "gb", help: "Same as --units gb" },
            Flag { name: "gib", short: None, value: "gib", help: "Same as --units gib" },
        ],
        help: "Unit of memory on the screen; files always hold bytes",
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
        kind: Kind::PercentPair,
        value_name: "SHARE",
        help: "From which percentages utilization and power are middling and high: 10 75 unless told, and 60 85 for the bars of a device",
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
        kind: Kind::PercentPair,
        value_name: "SHARE",
        default: "10,80",
        help: "From which percentages memory is middling and high",
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
        help: "Show the indices of devices",
        off_help: "Leave the indices of devices out",
        page: DEVICES,
        ..BASE
    },
    Setting {
        name: "gpu-name",
        default: "true",
        help: "Show the names of devices",
        off_help: "Leave the names of devices out",
        page: DEVICES,
        ..BASE
    },
    Setting {
        name: "gpu-uuid",
        default: "false",
        help: "Show the UUIDs of devices",
        page: DEVICES,
        ..BASE
    },
    Setting {
        name: "sort-fleet",
        kind: Kind::Choice(&[
            choice("node", "in the order they are watched"),
            choice("job", "by job"),
            choice("user", "by user"),
            choice("busy", "by devices that work"),
            choice("util", "by utilization"),
            choice("mem", "by device memory in use"),
            choice("power", "by power"),
            choice("temp", "by the hottest device"),
            choice("cpu", "by processors"),
            choice("age", "by age"),
            choice("note", "by what is wrong"),
        ]),
        value_name: "COLUMN",
        default: "node",
        help: "By which column the fleet is sorted at first",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "reverse-fleet",
        default: "false",
        help: "Turn the order of the fleet around",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "fleet-form",
        kind: Kind::Choice(&[choice("table", "a line a node"), choice("map", "a cell a device")]),
        value_name: "FORM",
        default: "table",
        help: "The form of the fleet at first: a line a node (table), or a cell a device (map)",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "fleet-map",
        kind: Kind::Choice(&[
            choice("util", "how much each device works"),
            choice("mem", "how full its memory is"),
            choice("power", "how much of its power limit it draws"),
            choice("temp", "how warm it is"),
            choice("owner", "who uses it"),
            choice("job", "which job has it"),
        ]),
        value_name: "WHAT",
        default: "util",
        help: "What the map of the fleet shows at first",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "fleet-group",
        kind: Kind::Choice(&[
            choice("none", "all nodes in one list"),
            choice("name", "nodes with like names together"),
            choice("partition", "by the partition of their jobs"),
            choice("job", "by job"),
            choice("user", "by user"),
            choice("model", "by what kind of device they have"),
        ]),
        value_name: "WHAT",
        default: "none",
        help: "By what the nodes of the fleet stand together at first",
        page: FLEET,
        ..BASE
    },
    Setting {
        name: "sort-processes",
        kind: Kind::Choice(&[
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
            choice("pcpu", "by processor"),
            choice("prss", "by share of host memory"),
            choice("rss", "by host memory"),
            choice("time", "by running time"),
            choice("job", "by job"),
            choice("command", "by command line"),
        ]),
        value_name: "COLUMN",
        default: "node",
        help: "By which column processes are sorted at first",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "reverse-processes",
        default: "false",
        help: "Turn the order of processes around",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "node-processes",
        default: "true",
        help: "Show processes below the devices of a node; p turns them on and off",
        off_help: "Leave processes out below the devices of a node; p shows them",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "sort-users",
        kind: Kind::Choice(&[
            choice("user", "by name"),
            choice("devices", "by devices held"),
            choice("busy", "by devices that work"),
            choice("idle-held", "by devices held idle").formerly("idle"),
            choice("mem", "by device memory"),
            choice("power", "by power"),
            choice("nodes", "by nodes"),
            choice("jobs", "by jobs"),
            choice("procs", "by processes"),
        ]),
        value_name: "COLUMN",
        default: "devices",
        help: "By which column users are sorted at first",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "reverse-users",
        default: "false",
        help: "Turn the order of users around",
        page: PROCESSES,
        ..BASE
    },
    Setting {
        name: "node-chart",
        default: "false",
        help: "Show the chart of a node from the start; g turns it on and off",
        page: CHART,
        ..BASE
    },
    Setting {
        name: "columns-fleet",
        kind: Kind::Columns(&fleet::HEADINGS),
        help: "Columns of the list of nodes, from left to right behind the node; what has no room is left out from the right",
        ..COLUMNS
    },
    Setting {
        name: "columns-node",
        kind: Kind::Columns(&node::HEADINGS),
        help: "Columns of the devices of a node, from left to right behind the device",
        ..COLUMNS
    },
    Setting {
        name: "columns-processes",
        kind: Kind::Columns(&processes::HEADINGS),
        help: "Columns of the list of processes, from left to right before the command",
        ..COLUMNS
    },
    Setting {
        name: "columns-users",
        kind: Kind::Columns(&users::HEADINGS),
        help: "Columns of the list of users, from left to right behind the user",
        ..COLUMNS
    },
    Setting {
        name: "charted",
        kind: Kind::DistinctList(check::metric, ChartMetric::MAX_CHARTED),
        value_name: "METRIC",
        default: "util,mem",
        help: "Chart these of each device, four at most: util, mem, power, temp, membw, smclock, memclock, fan, enc, dec, pcie, throttled",
        page: CHART,
        steps: &["util,mem", "util,power", "util,mem,power,temp", "util,enc,dec"],
        ..BASE
    },
    Setting {
        name: "reverse-chart",
        default: "false",
        help: "The newest point of a chart stands on the left",
        page: CHART,
        ..BASE
    },
    Setting {
        name: "only",
        short: Some('o'),
        kind: Kind::List(check::device),
        value_name: "INDEX",
        help: "Show only the devices with these indices, on every node",
        page: SELECTION,
        ..FILTERS
    },
    Setting {
        name: "only-visible",
        default: "false",
        help: "Show only the devices that CUDA_VISIBLE_DEVICES names, of this machine, and anywhere where it lists UUIDs; also -ov",
        page: SELECTION,
        ..FILTERS
    },
    Setting {
        name: "process-type",
        kind: Kind::Choice(&[
            choice("all", "all processes"),
            choice("compute", "those that compute"),
            choice("only-compute", "those that compute and draw nothing"),
            choice("graphics", "those that draw"),
            choice("only-graphics", "those that draw and compute nothing"),
        ]),
        value_name: "TYPE",
        default: "all",
        flags: &[
            Flag {
                name: "compute",
                short: Some('c'),
                value: "compute",
                help: "Show only processes that compute, types C and C+G",
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
                help: "Show only processes that draw, types G and C+G",
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
        kind: Kind::List(check::word),
        value_name: "USER",
        default_missing_value: Some(CURRENT_USER),
        help: "Show only processes of these users; yours without a value",
        page: PROCESSES,
        ..FILTERS
    },
    Setting {
        name: "pid",
        short: Some('p'),
        kind: Kind::List(check::pid),
        value_name: "PID",
        help: "Show only these processes",
        page: SELECTION,
        ..FILTERS
    },
];

/// Stands for whoever runs gtop.
pub const CURRENT_USER: &str = "@";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::view::{
        ColumnSpec, DisplayOptions, Navigation, aliases, preferences, restore_preference,
    };

    #[test]
    fn what_keys_change_is_a_setting_and_begins_as_it_says() {
        let begun = preferences(&Navigation::default(), &DisplayOptions::default());
        for (name, value) in begun {
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
    fn columns_are_sorted_by_what_their_view_is_sorted_by() {
        let none: &[crate::view::SortColumn] = &[];
        for (headings, columns) in [
            (&fleet::HEADINGS[..], &fleet::COLUMNS[..]),
            (&node::HEADINGS[..], none),
            (&processes::HEADINGS[..], &processes::COLUMNS[..]),
            (&users::HEADINGS[..], &users::COLUMNS[..]),
        ] {
            let mut names: Vec<_> = headings.iter().map(|heading| heading.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
            let is_known = |heading: &&ColumnSpec| {
                heading.sort.is_empty() || columns.iter().any(|one| one.name == heading.sort)
            };
            let strange: Vec<_> = headings.iter().filter(|one| !is_known(one)).collect();
            assert!(strange.is_empty(), "{strange:?}");
        }
    }

    #[test]
    fn views_are_sorted_by_the_columns_they_have() {
        for (name, columns) in [
            ("sort-fleet", &fleet::COLUMNS[..]),
            ("sort-processes", &processes::COLUMNS[..]),
            ("sort-users", &users::COLUMNS[..]),
        ] {
            let Kind::Choice(words) = setting(name).unwrap().kind else { panic!() };
            let names: Vec<_> = columns.iter().map(|column| column.name).collect();
            assert_eq!(words.iter().map(|word| word.name).collect::<Vec<_>>(), names, "{name}");
        }
    }

    /// Words of columns and sort orders that are no single metric: they join several, or count what a row has.
    const JOINED: &[&str] = &[
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
    fn columns_sort_orders_and_charts_have_the_words_of_filters() {
        let tables =
            [&fleet::HEADINGS[..], &node::HEADINGS, &processes::HEADINGS, &users::HEADINGS];
        let columns = tables.into_iter().flatten().map(|heading| heading.name);
        let orders = [&fleet::COLUMNS[..], &processes::COLUMNS, &users::COLUMNS];
        let orders = orders.into_iter().flatten().map(|column| column.name);
        let charts = ChartMetric::ALL.into_iter().map(ChartMetric::alias);
        let strange: BTreeSet<_> = columns
            .chain(orders)
            .chain(charts)
            .filter(|word| !aliases().any(|alias| alias == *word) && !JOINED.contains(word))
            .collect();
        assert!(strange.is_empty(), "{strange:?} are words of no metric");
        let twice = JOINED.iter().filter(|word| aliases().any(|alias| alias == **word));
        assert_eq!(twice.count(), 0, "a metric is listed as several");
    }

    #[test]
    fn names_are_taken_once_and_defaults_can_be_read() {
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
