//! One declaration per metric: every table, file and filter reads these lines.
//!
//! A field's id ends in its unit and is the JSON key; it never changes. The alias is its word in filters,
//! columns, sort orders and charts: no word means two metrics, and no metric has two words. Knows nothing of
//! formats or cell widths.

use std::sync::Arc;
use std::time::Duration;

use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, Celsius, ComputeMode, Device, FabricHealth, FabricState, FanSpeed, JobState, Megahertz,
    Percent, ProcessState, Reading, Reason, RecoveryAction, UseKind, Vendor, Watts,
};

pub use crate::charted::{bandwidth_share, nvlink_rates, pcie_rates};
pub use chart::{DeviceChart, charts, utilization};
pub use device::{DEVICE, DEVICE_AMD, DEVICE_DETAIL, DEVICE_TPU, DeviceMetric};
pub use host::{HOST, HostMetric, is_slow_host_metric};
pub use job::{JOB, JobAt, JobMetric};
pub use process::{PROCESS, ProcessMetric, Usage, is_driver_metric};

pub(crate) use chart::MetricChart;

mod chart;
mod device;
mod host;
mod job;
mod process;

/// A metric of an `S`.
#[derive(Debug)]
pub struct Field<S: 'static> {
    /// Its JSON key.
    pub id: &'static str,
    /// The type of its known values.
    pub kind: ValueKind,
    /// The word in filters, columns, sort orders and charts.
    pub alias: &'static str,
    /// Description in one line.
    pub help: &'static str,
    /// Reads the value.
    pub read: fn(&S) -> Value,
    /// How the table of an `S` shows it; `None` if it does not.
    pub column: Option<MetricColumn>,
    /// How it is charted; `None` if it is not.
    pub chart: Option<MetricChart<S>>,
    /// How nodes are sorted by it; `None` if they are not.
    pub order: Option<MetricOrder>,
    /// It only grows, until the device or the driver starts again.
    pub is_counter: bool,
}

/// The column of a metric in a table.
#[derive(Clone, Copy, Debug)]
pub struct MetricColumn {
    /// Text in the title row.
    pub title: &'static str,
    /// Label before the value outside a table.
    pub label: &'static str,
    /// Width of the column.
    pub width: u16,
    /// Its place among the columns; the first get room first.
    pub rank: u8,
}

/// How nodes are sorted by a metric: the highest value first, of a device metric by the highest of the node.
#[derive(Clone, Copy, Debug)]
pub struct MetricOrder {
    /// The key that selects it in the sort menu.
    pub key: char,
    /// The label in the sort menu.
    pub label: &'static str,
    /// The description among the values of the setting.
    pub help: &'static str,
}

/// The text names no metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no metric is called {0:?}; gtop fields lists all")]
pub struct ParseMetricError(String);

/// Declares the metrics of a subject, one per line, in one or more tables, and an enum of all of them: the name in the enum,
/// the type of the values, the id, alias and help, and how the value is read: as a field, as one of a part that may be
/// missing, or by a function. How it is shown may follow.
macro_rules! metrics {
    ($(#[doc = $about:literal])+ $metric:ident of $subject:ident; $($(#[$table_about:meta])* $table:ident {
        $($name:ident = $kind:ident($id:literal, $alias:literal, $help:literal, $($read:tt)+)
            $(.$shown:ident($($how:tt)*))*;)*
    })+) => {
        $($(#[$table_about])* pub const $table: &[Field<$subject>] = &[$(
            Field::new(ValueKind::$kind, $id, $alias, $help, $metric::$name.reader())$(.$shown($($how)*))*
        ),*];)+

        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $metric {
            $($(#[doc = concat!(" `", $id, "`: ", $help, ".")] $name,)*)+
        }

        impl $metric {
            /// All of them.
            pub const ALL: &[Self] = &[$($(Self::$name),*),+];

            /// Returns its key in JSON, which ends in its unit and never changes.
            pub const fn id(self) -> &'static str {
                match self { $($(Self::$name => $id,)*)+ }
            }

            /// Returns its word in filters, columns and charts.
            pub const fn alias(self) -> &'static str {
                match self { $($(Self::$name => $alias,)*)+ }
            }

            /// Returns its description, in one line.
            pub const fn help(self) -> &'static str {
                match self { $($(Self::$name => $help,)*)+ }
            }

            /// Returns the unit that its id ends in, as printed after a number; empty for counts and texts.
            pub fn unit(self) -> &'static str {
                $crate::metrics::unit_of(self.id())
            }

            /// Returns what reads its value.
            #[doc(hidden)]
            pub const fn reader(self) -> fn(&$subject) -> Value {
                match self { $($(Self::$name => $crate::metrics::reader!($($read)+),)*)+ }
            }
        }

        impl std::fmt::Display for $metric {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.id())
            }
        }

        impl std::str::FromStr for $metric {
            type Err = $crate::metrics::ParseMetricError;

            /// Parses an id or an alias.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().find(|metric| [metric.id(), metric.alias()].contains(&text));
                known.copied().ok_or_else(|| $crate::metrics::ParseMetricError(text.to_owned()))
            }
        }
    };
}

/// Returns the function that reads a metric.
macro_rules! reader {
    ($($field:ident).+) => { |subject| Value::from(subject.$($field).+.clone()) };
    ($part:ident?.$field:ident) => {
        |subject| Value::from(Reading::of(subject.$part.as_deref(), |known| known.$field.clone()))
    };
    ($part:ident?.$field:ident => $convert:expr) => {
        |subject| {
            let part = subject.$part.as_deref();
            Value::from(Reading::of(part, |known| known.$field.clone()).map($convert))
        }
    };
    ($($field:ident).+ => $convert:expr) => {
        |subject| Value::from(subject.$($field).+.clone().map($convert))
    };
    ($read:expr) => { $read };
}
use {metrics, reader};

impl<S> Field<S> {
    const fn new(
        kind: ValueKind,
        id: &'static str,
        alias: &'static str,
        help: &'static str,
        read: fn(&S) -> Value,
    ) -> Self {
        let (column, chart, order) = (None, None, None);
        Self { id, kind, alias, help, read, column, chart, order, is_counter: false }
    }

    /// Shows the metric in a column of its table.
    const fn column(
        self,
        (title, label): (&'static str, &'static str),
        (width, rank): (u16, u8),
    ) -> Self {
        Self { column: Some(MetricColumn { title, label, width, rank }), ..self }
    }

    /// Makes the metric one that can be charted.
    const fn chart(self, chart: MetricChart<S>) -> Self {
        Self { chart: Some(chart), ..self }
    }

    /// Makes the metric one that nodes can be sorted by.
    const fn order(self, key: char, label: &'static str, help: &'static str) -> Self {
        Self { order: Some(MetricOrder { key, label, help }), ..self }
    }

    /// Says that the metric only grows.
    const fn counter(self) -> Self {
        Self { is_counter: true, ..self }
    }

    /// Returns the value as a number; `None` if it is unknown or not a number.
    pub fn number_of(&self, subject: &S) -> Option<f32> {
        (self.read)(subject).number()
    }

    /// Returns the unit that its id ends in, as printed after a number; empty for counts and texts.
    pub fn unit(&self) -> &'static str {
        unit_of(self.id)
    }

    /// Returns true if it is the difference of two temperatures: 0 °C of it are 0 °F.
    pub fn is_temperature_difference(&self) -> bool {
        self.id.ends_with("_margin_celsius")
    }
}

/// Returns the description of the metric with this alias, for a column that shows it; empty if there is none.
pub const fn help_of<S>(fields: &[Field<S>], alias: &str) -> &'static str {
    let mut rest = fields;
    while let [field, others @ ..] = rest {
        if is_same(field.alias.as_bytes(), alias.as_bytes()) {
            return field.help;
        }
        rest = others;
    }
    ""
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, more @ ..], [second, others @ ..]) = (one, other) {
        if *first != *second {
            return false;
        }
        (one, other) = (more, others);
    }
    one.is_empty() && other.is_empty()
}

/// Returns the unit that an id ends in, as printed after a number; empty for counts and texts.
pub fn unit_of(id: &str) -> &'static str {
    let unit = UNITS.iter().find(|(ending, _)| id.ends_with(ending));
    unit.map_or("", |(_, unit)| unit)
}

/// The type of a metric's known values. Any metric may be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A measured number.
    Number,
    /// A number from 0 to 100.
    Share,
    /// A count or an amount, without a fraction.
    Integer,
    /// A text.
    Text,
    /// A time in RFC 3339 format.
    Timestamp,
    /// Yes or no.
    Flag,
}

impl ValueKind {
    /// Returns its name in lists of fields.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Number | Self::Share => "number",
            Self::Integer => "integer",
            Self::Text => "text",
            Self::Timestamp => "time",
            Self::Flag => "boolean",
        }
    }
}

/// Suffixes of ids that are units; longer ones first.
const UNITS: [(&str, &str); 8] = [
    ("_bytes_per_second", "B/s"),
    ("_bytes", "B"),
    ("_percent", "%"),
    ("_celsius", "°C"),
    ("_watts", "W"),
    ("_joules", "J"),
    ("_megahertz", "MHz"),
    ("_seconds", "s"),
];

/// Aliases of earlier versions and those that replace them. One with two replacements was ambiguous and is refused
/// where both are possible.
const FORMER_ALIASES: [(&str, &[&str]); 28] = [
    ("bus", &["pci"]),
    ("bw", &["membw"]),
    ("clock", &["smclock"]),
    ("disp", &["display"]),
    ("gr", &["grclock"]),
    ("grmax", &["grclockmax"]),
    ("hot", &["junction", "thermal"]),
    ("hwhot", &["hwthermal"]),
    ("idle", &["idle-held"]),
    ("mclk", &["memclock"]),
    ("mtemp", &["memtemp"]),
    ("occ", &["occupancy"]),
    ("perf", &["pstate"]),
    ("pers", &["persistence"]),
    ("queue", &["hloq"]),
    ("sm", &["smclock", "smact"]),
    ("smmax", &["smclockmax"]),
    ("tc", &["tensor"]),
    ("thr", &["throttled"]),
    ("throttle", &["throttlebits", "throttled"]),
    ("video", &["videoclock"]),
    ("videomax", &["videoclockmax"]),
    ("why", &["throttled"]),
    ("jobaccount", &["account"]),
    ("jobleft", &["left"]),
    ("jobpartition", &["partition"]),
    ("jobreason", &["reason"]),
    ("jobstart", &["start"]),
];

/// Returns the aliases that replace one of earlier versions; empty if the word was not an alias.
pub fn current_aliases(word: &str) -> &'static [&'static str] {
    let replaced = FORMER_ALIASES.iter().find(|(former, _)| *former == word);
    replaced.map_or(&[], |(_, aliases)| aliases)
}

/// Returns all metrics of a device, the common ones first.
pub fn device_fields() -> impl Iterator<Item = &'static Field<Device>> {
    let fields = DEVICE.iter().chain(DEVICE_DETAIL).chain(DEVICE_AMD).chain(DEVICE_TPU);
    #[cfg(any(test, feature = "testing"))]
    let fields = fields.chain(made_up::fields());
    fields
}

/// A value; its unit is in the field's id.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown, with the reason.
    Unknown(Reason),
    /// A measured number.
    Number(f32),
    /// A count or an amount.
    Integer(u64),
    /// A text.
    Text(Arc<str>),
    /// Yes or no.
    Flag(bool),
}

impl Value {
    /// Returns a number, a count or an amount; `None` for anything else.
    #[expect(clippy::cast_precision_loss, reason = "it is drawn or sorted by")]
    pub fn number(&self) -> Option<f32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Integer(number) => Some(*number as f32),
            Self::Unknown(_) | Self::Text(_) | Self::Flag(_) => None,
        }
    }

    /// Returns a text; `None` for anything else.
    pub fn text(self) -> Option<Arc<str>> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Returns the number of these digits, as they were measured, not the binary fraction next to them.
pub fn measured_digits(number: f32) -> f64 {
    let rounded = (f64::from(number) * 1000.0).round() / 1000.0;
    #[expect(clippy::cast_possible_truncation, clippy::float_cmp, reason = "it asks for the same")]
    let is_same = rounded as f32 == number;
    // Beyond that, several numbers of three decimals are the same.
    if is_same && number.abs() < 8192.0 {
        return rounded;
    }
    number.to_string().parse().unwrap_or(rounded)
}

/// Declares how known values become a [`Value`].
macro_rules! values {
    ($($kind:ty: |$known:pat_param| $value:expr;)*) => {
        $(impl From<$kind> for Value {
            fn from($known: $kind) -> Self {
                $value
            }
        })*
    };
}

values! {
    bool: |is_on| Self::Flag(is_on);
    u8: |count| Self::Integer(count.into());
    u32: |count| Self::Integer(count.into());
    u64: |count| Self::Integer(count);
    f32: |number| Self::Number(number);
    Arc<str>: |text| Self::Text(text);
    &str: |text| Self::Text(text.into());
    String: |text| Self::Text(text.into());
    Bytes: |bytes| Self::Integer(bytes.0);
    Celsius: |celsius| Self::Number(celsius.get());
    FanSpeed: |share| Self::Number(share.get());
    Megahertz: |clock| Self::Integer(clock.get().into());
    Percent: |share| Self::Number(share.get());
    Watts: |power| Self::Number(power.get());
    Duration: |span| Self::Integer(span.as_secs());
    ComputeMode: |mode| mode.text().into();
    FabricHealth: |health| Self::Text(health.to_string().into());
    FabricState: |state| state.text().into();
    JobState: |state| state.as_str().into();
    ProcessState: |state| state.letter().into();
    RecoveryAction: |action| Self::Text(action.text().into());
    UseKind: |kind| kind.as_str().into();
    Vendor: |vendor| vendor.as_str().into();
    Timestamp: |at| match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(at) => Self::Text(at.to_string().into()),
        Err(_) => Self::Unknown(Reason::Malformed),
    };
}

/// A property that does not exist is not available.
impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(known: Option<T>) -> Self {
        known.map_or(Self::Unknown(Reason::NotAvailable), Into::into)
    }
}

impl<T: Into<Self>> From<Reading<T>> for Value {
    fn from(reading: Reading<T>) -> Self {
        match reading {
            Reading::Known(known) => known.into(),
            Reading::Unknown(reason) => Self::Unknown(reason),
        }
    }
}

/// A metric that only exists in tests, to see that one entry is all it takes.
#[cfg(any(test, feature = "testing"))]
pub mod made_up {
    use std::cell::Cell;

    use super::{Device, Field, MetricChart, Value, ValueKind};
    use crate::Metric;

    const FIELDS: &[Field<Device>] =
        &[Field::new(ValueKind::Number, "wobble_celsius", "wobble", "a made-up metric", read)
            .column(("WOBBLE", "wobble"), (6, 30))
            .chart(MetricChart::new(30, 'w', "made up", Metric::Temperature))
            .order('o', "wobble", "by wobble")];

    fn read(device: &Device) -> Value {
        device.memory_temperature.into()
    }

    thread_local! {
        static IS_DECLARED: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn fields() -> &'static [Field<Device>] {
        if IS_DECLARED.get() { FIELDS } else { &[] }
    }

    /// Runs a test in which the metric is declared.
    pub fn with(test: impl FnOnce()) {
        IS_DECLARED.set(true);
        test();
        IS_DECLARED.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn check_names<'a, S: 'static>(fields: impl Iterator<Item = &'a Field<S>>) {
        let fields: Vec<_> = fields.collect();
        let ids: BTreeSet<_> = fields.iter().map(|field| field.id).collect();
        let aliases: BTreeSet<_> = fields.iter().map(|field| field.alias).collect();
        assert_eq!((ids.len(), aliases.len()), (fields.len(), fields.len()), "duplicate name");
        for field in fields {
            let is_plain = |name: &str| {
                name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            };
            assert!(is_plain(field.id) && is_plain(field.alias), "{}", field.id);
            assert!(!field.help.is_empty() && !field.help.ends_with('.'), "{}", field.id);
        }
    }

    #[test]
    fn names_are_plain_and_unique() {
        check_names(device_fields());
        check_names(HOST.iter());
        check_names(PROCESS.iter());
        check_names(JOB.iter());
    }

    #[test]
    fn a_metric_is_called_in_rust_as_in_json() {
        let words = |name: &str| name.replace('_', "").to_lowercase();
        for metric in DeviceMetric::ALL {
            assert_eq!(words(&format!("{metric:?}")), words(metric.id()));
        }
        for metric in HostMetric::ALL {
            assert_eq!(words(&format!("{metric:?}")), words(metric.id()));
        }
        for metric in ProcessMetric::ALL {
            assert_eq!(words(&format!("{metric:?}")), words(metric.id()));
        }
        for metric in JobMetric::ALL {
            assert_eq!(words(&format!("{metric:?}")), words(metric.id()));
        }
        let ids: Vec<&str> = device_fields().map(|field| field.id).collect();
        assert!(DeviceMetric::ALL.iter().map(|metric| metric.id()).eq(ids));
    }

    #[test]
    fn the_digits_of_a_number_are_those_that_were_measured() {
        for number in [0.0, 12.3, 99.999, 100.0, 1e-7, 8191.999, 8192.1, 16_777_216.0, 1e12, -3.25]
        {
            assert_eq!(measured_digits(number).to_string(), number.to_string());
        }
    }

    #[test]
    fn an_alias_names_one_metric_of_devices_processes_hosts_and_jobs() {
        let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let device = device_fields().map(|field| (field.alias, field.id));
        let host = HOST.iter().map(|field| (field.alias, field.id));
        let process = PROCESS.iter().map(|field| (field.alias, field.id));
        let job = JOB.iter().map(|field| (field.alias, field.id));
        for (alias, id) in device.chain(host).chain(process).chain(job) {
            owners.entry(alias).or_default().push(id);
        }
        // The job of a process and the job in the scheduler's list are the same.
        assert_eq!(owners.remove("job"), Some(vec!["job", "shown_id"]));
        owners.retain(|_, ids| ids.len() > 1);
        assert_eq!(owners, BTreeMap::new());
    }

    #[test]
    fn a_former_alias_is_not_a_current_one() {
        for (former, _) in FORMER_ALIASES {
            assert!(device_fields().all(|field| field.alias != former), "{former}");
            assert!(PROCESS.iter().all(|field| field.alias != former), "{former}");
            assert!(HOST.iter().all(|field| field.alias != former), "{former}");
            assert!(JOB.iter().all(|field| field.alias != former), "{former}");
        }
    }

    #[test]
    fn an_unreported_metric_is_unknown_and_not_zero() {
        let empty = Device::default();
        for field in device_fields() {
            assert_eq!((field.read)(&empty), Value::Unknown(Reason::NotSampled), "{}", field.id);
        }
    }

    #[test]
    fn the_unit_is_the_suffix_of_the_id() {
        let unit = |id: &str| device_fields().find(|field| field.id == id).unwrap().unit();
        assert_eq!(unit("pcie_receive_bytes_per_second"), "B/s");
        assert_eq!(unit("memory_used_bytes"), "B");
        assert_eq!(unit("performance_state"), "");
    }
}
