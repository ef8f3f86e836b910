//! The settings of the screen, as help, files and the setup dialog know them.

use crate::chart_metric::ChartMetric;
use crate::display_options::{Chart, Density, DisplayOptions, Thresholds};
use crate::key_scheme::KeyScheme;
use crate::theme::{Background, ColourUse, ThemeName};
use crate::views::fleet::{Grouping, Layout, MapMetric};
use crate::views::{fleet, job, node, processes, users};
use crate::widgets::column_spec::TableColumns;
use crate::widgets::number_format::MemoryUnit;
use gtop_fleet::query::DisplaySelection;
use gtop_fleet::settings;
use gtop_fleet::settings::{
    Choice, ChoiceValue, EnvMapping, choice, columns, distinct_list, env_alias, flag, open_switch,
    percent_pair, sort, switch, value,
};

const GENERAL: &str = "General";
const FLEET: &str = "Fleet";
const DEVICES: &str = "Devices";
const CHART: &str = "Chart";
const PROCESSES: &str = "Processes";

/// Maps the words in nvitop's variables to values of `background`.
const BACKGROUNDS: &[(&str, &str)] = &[("dark", "dark"), ("light", "light")];

settings! {
    /// The settings of the screen.
    pub struct ScreenSettings {
        pub theme: ThemeName = choice("THEME")
            .label("colours")
            .help(
                "Colour theme: auto (greener when busier), hot (green, yellow, orange with rising \
                 load), colour-blind (blue for load, orange for warnings) or mono; dark and light \
                 are auto for that background",
            )
            .page(GENERAL),
        pub background: Background = choice("WHICH")
            .label("background of the terminal")
            .help(
                "Background of the terminal: dark, light, or auto (ask the terminal, then \
                 COLORFGBG)",
            )
            .flags(&[flag("light", "light", "Same as --background light")])
            .page(GENERAL)
            .env_aliases(&[
                env_alias("NVITOP_MONITOR_MODE", EnvMapping::ListWords(BACKGROUNDS)),
                env_alias("NVITOP_MONITOR_THEME", EnvMapping::ListWords(BACKGROUNDS)),
            ]),
        pub color: ColourUse = choice("WHEN")
            .label("use colours")
            .help("When to use colours: auto (if the terminal supports them), always or never")
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
        pub colorful: bool = switch()
            .label("bars with a gradient")
            .help("Draw bars with a colour gradient")
            .page(GENERAL)
            .env_aliases(&[env_alias(
                "NVITOP_MONITOR_MODE",
                EnvMapping::ListWords(&[("colorful", "true"), ("plain", "false")]),
            )]),
        pub ascii: Option<bool> = open_switch()
            .label("plain characters only (ASCII)")
            .help("Draw with ASCII characters only; default: on if the locale is not UTF-8")
            .short('U')
            .aliases(&["no-unicode"])
            .page(GENERAL),
        pub mouse: bool = switch()
            .help("Use the mouse to select, scroll and sort")
            .on_by_default("Leave the mouse to the terminal, to select text"),
        pub key_scheme: KeyScheme = choice("SCHEME")
            .help(
                "Key bindings: gtop's own, or those of nvitop, nvtop or htop. [keys] in the config \
                 file overrides them",
            )
            .long("keys"),
        pub readonly: bool = switch().help("Read-only mode: do not send signals to processes").env_aliases(&[
            env_alias("NVITOP_MONITOR_MODE", EnvMapping::ListWords(&[("readonly", "true")])),
        ]),
        pub monitor: Density = choice("LEVEL")
            .label("lines per device")
            .help(
                "Level of detail of a node: a line per device, and graphs of the host if they fit (auto), \
                 two lines per device (full), or a line per device and no graphs (compact)",
            )
            .short('m')
            .bare("auto")
            .page(DEVICES)
            .env_aliases(&[env_alias(
                "NVITOP_MONITOR_MODE",
                EnvMapping::ListWords(&[("auto", "auto"), ("full", "full"), ("compact", "compact")]),
            )]),
        pub units: MemoryUnit = choice("UNIT")
            .label("unit of memory")
            .help("Unit for memory on the screen; exports always use bytes")
            .default("gib")
            .page(GENERAL),
        pub fahrenheit: bool = switch()
            .label("temperatures in °F")
            .help("Show temperatures in degrees Fahrenheit")
            .page(GENERAL),
        pub gpu_util_thresh: Option<(u8, u8)> = percent_pair()
            .label("medium, high utilization and power")
            .help(
                "Medium and high thresholds for utilization and power, in %; default: 10 75, and \
                 60 85 for the bars of a device",
            )
            .page(DEVICES)
            .steps(&["10,75", "25,75", "50,90", "60,85"])
            .env_aliases(&[env_alias("NVITOP_GPU_UTILIZATION_THRESHOLDS", EnvMapping::SameSyntax)]),
        pub mem_util_thresh: (u8, u8) = percent_pair()
            .label("medium, high memory")
            .help("Medium and high thresholds for memory, in %")
            .or("10,80")
            .page(DEVICES)
            .steps(&["10,80", "25,75", "50,90", "60,85"])
            .env_aliases(&[env_alias("NVITOP_MEMORY_UTILIZATION_THRESHOLDS", EnvMapping::SameSyntax)]),
        pub gpu_index: bool = switch()
            .label("device numbers")
            .help("Show device indices")
            .on_by_default("Hide device indices")
            .page(DEVICES),
        pub gpu_name: bool = switch()
            .label("device names")
            .help("Show device names")
            .on_by_default("Hide device names")
            .page(DEVICES),
        pub gpu_uuid: bool = switch().label("device UUIDs").help("Show device UUIDs").page(DEVICES),
        pub sort_fleet: &'static str = sort(fleet::sort_columns)
            .label("nodes sorted by")
            .help("Initial sort column of the fleet view")
            .page(FLEET),
        pub reverse_fleet: bool = switch()
            .label("nodes in reverse order")
            .help("Reverse the sort order of the fleet view")
            .page(FLEET),
        pub(crate) fleet_form: Layout = choice("FORM")
            .label("list or map of devices")
            .help(
                "Initial layout of the fleet view: one line per node (table) or one cell per \
                 device (map)",
            )
            .page(FLEET),
        pub(crate) fleet_map: MapMetric = choice("WHAT")
            .label("the map shows")
            .help("Initial metric of the fleet map")
            .page(FLEET),
        pub(crate) fleet_group: Grouping = choice("WHAT")
            .label("nodes grouped by")
            .help("Initial grouping of the fleet view")
            .page(FLEET),
        pub sort_processes: &'static str = sort(processes::sort_columns)
            .label("processes sorted by")
            .help("Initial sort column of the process view")
            .page(PROCESSES),
        pub reverse_processes: bool = switch()
            .label("processes in reverse order")
            .help("Reverse the sort order of the process view")
            .page(PROCESSES),
        pub node_processes: bool = switch()
            .label("processes below a node's devices")
            .help("Show processes below the devices of a node; p toggles them")
            .on_by_default("Hide processes below the devices of a node; p shows them")
            .page(PROCESSES),
        pub sort_jobs: &'static str = sort(job::sort_columns)
            .label("jobs sorted by")
            .help("Initial sort column of the list of jobs")
            .default("worst")
            .page(PROCESSES),
        pub reverse_jobs: bool = switch()
            .label("jobs in reverse order")
            .help("Reverse the sort order of the list of jobs")
            .page(PROCESSES),
        pub sort_users: &'static str = sort(users::sort_columns)
            .label("users sorted by")
            .help("Initial sort column of the user view")
            .default("devices")
            .page(PROCESSES),
        pub reverse_users: bool = switch()
            .label("users in reverse order")
            .help("Reverse the sort order of the user view")
            .page(PROCESSES),
        pub node_chart: bool = switch()
            .label("chart of a node at start")
            .help("Show the chart of a node at start; g toggles it")
            .page(CHART),
        pub columns_fleet: Vec<String> = columns(fleet::column_specs).label("columns of nodes").help(
            "Columns of the fleet table after the node, from left to right; the rightmost are \
                 dropped if there is no room",
        ),
        pub columns_node: Vec<String> = columns(node::column_specs)
            .label("columns of devices")
            .help("Columns of the device table after the device, from left to right"),
        pub columns_processes: Vec<String> = columns(processes::column_specs)
            .label("columns of processes")
            .help("Columns of the process table before the command, from left to right"),
        pub columns_jobs: Vec<String> = columns(|| job::COLUMN_SPECS.to_vec())
            .label("columns of jobs")
            .help("Columns of the list of jobs after the id, from left to right"),
        pub columns_users: Vec<String> = columns(|| users::COLUMN_SPECS.to_vec())
            .label("columns of users")
            .help("Columns of the user table after the user, from left to right"),
        pub charted: Vec<String> = distinct_list(check_metric, ChartMetric::MAX_CHARTED, "METRIC")
            .label("metrics in the chart")
            .help(
                "Metrics charted per device, at most four: util, mem, power, temp, membw, smclock, \
                 memclock, fan, enc, dec, pcie, throttled",
            )
            .default("util,mem")
            .page(CHART)
            .steps(&["util,mem", "util,power", "util,mem,power,temp", "util,enc,dec"]),
        pub reverse_chart: bool = switch()
            .label("newest values on the left")
            .help("Draw charts with the newest sample on the left")
            .page(CHART),
    }
}

impl ScreenSettings {
    /// Returns the display options, for what is selected of the fleet.
    pub fn display_options(&self, selection: DisplaySelection) -> DisplayOptions {
        let defaults = DisplayOptions::default();
        let load = self.gpu_util_thresh.map(Thresholds::of_percent);
        let metrics = self.charted.iter().filter_map(|name| ChartMetric::from_name(name));
        DisplayOptions {
            load: load.unwrap_or(defaults.load),
            device: load.unwrap_or(defaults.device),
            memory: Thresholds::of_percent(self.mem_util_thresh),
            is_fahrenheit: self.fahrenheit,
            density: self.monitor,
            is_readonly: self.readonly,
            key_scheme: self.key_scheme,
            unit: self.units,
            chart: Chart { metrics: metrics.collect(), is_reversed: self.reverse_chart },
            selection,
            columns: TableColumns {
                fleet: self.columns_fleet.clone(),
                node: self.columns_node.clone(),
                processes: self.columns_processes.clone(),
                jobs: self.columns_jobs.clone(),
                users: self.columns_users.clone(),
            },
            ..defaults
        }
    }
}

impl Choice for MapMetric {
    const CHOICES: &'static [(ChoiceValue, Self)] = &[
        (value(Self::Utilization.label(), "utilization of each device"), Self::Utilization),
        (value(Self::Memory.label(), "memory in use"), Self::Memory),
        (value(Self::Power.label(), "power draw relative to the limit"), Self::Power),
        (value(Self::Temperature.label(), "temperature"), Self::Temperature),
        (value(Self::Owner.label(), "user"), Self::Owner),
        (value(Self::Job.label(), "job"), Self::Job),
    ];
}

impl Choice for Grouping {
    const CHOICES: &'static [(ChoiceValue, Self)] = &[
        (value("none", "all nodes in one list"), Self::None),
        (value("name", "by common name prefix"), Self::Range),
        (value("partition", "by partition; a node may be in several"), Self::Partition),
        (value("job", "by job"), Self::Job),
        (value("user", "by user"), Self::User),
        (value("model", "by device model"), Self::Model),
    ];
}

/// Accepts metrics that can be charted.
fn check_metric(text: &str) -> Result<(), &'static str> {
    ChartMetric::from_name(text).map(drop).ok_or(
        "expected metrics: util, mem, power, temp, membw, smclock, memclock, fan, enc, dec, pcie, throttled",
    )
}
