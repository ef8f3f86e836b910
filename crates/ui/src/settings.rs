//! The settings of the screen, as help, files and the setup dialog know them.

use crate::chart_metric::ChartMetric;
use crate::views::{fleet, job, node, processes, users};
use gtop_fleet::settings::SettingKind::{DistinctList, PercentPair};
use gtop_fleet::settings::{
    EnvMapping, Setting, choice, columns, env_alias, flag, option, sort, switch, value,
};

const GENERAL: &str = "General";
const FLEET: &str = "Fleet";
const DEVICES: &str = "Devices";
const CHART: &str = "Chart";
const PROCESSES: &str = "Processes";

/// Maps the words in nvitop's variables to values of `background`.
const BACKGROUNDS: &[(&str, &str)] = &[("dark", "dark"), ("light", "light")];

/// The settings of the screen.
pub const SETTINGS: &[Setting] = &[
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
    option("charted", DistinctList(check_metric, ChartMetric::MAX_CHARTED), "METRIC")
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

/// Accepts metrics that can be charted.
fn check_metric(text: &str) -> Result<(), &'static str> {
    ChartMetric::from_name(text).map(drop).ok_or(
        "expected metrics: util, mem, power, temp, membw, smclock, memclock, fan, enc, dec, pcie, throttled",
    )
}
