//! The values of a device that `--fields` chooses: metrics of the device and of its host, and what identifies it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::export::time_format::TimeFormat;
use gtop_fleet::insight::FleetView;
use gtop_fleet::metrics::{
    Field, HOST, JOB, PROCESS, Usage, Value, ValueKind, current_aliases, device_fields, unit_of,
};
use gtop_fleet::query::{DisplaySelection, nearest};
use gtop_fleet::{DeviceState, Fleet, HealthReason, JobLookup, Node, StateReason};
use gtop_local::time::Timestamp;
use gtop_model::{Device, Reason, table};

table! {
    /// A value of a device that is not a metric.
    pub enum DeviceKey {
        /// When the device was sampled.
        Time = ("time", "time", ValueKind::Timestamp, "time of the sample, by the local clock"),
        /// Seconds since then.
        Age = ("age", "age_seconds", ValueKind::Number, "time since the sample"),
        /// The name of its node.
        Node = ("node", "node", ValueKind::Text, "node name, as given"),
        /// The driver's index.
        Index = ("index", "index", ValueKind::Integer, "index of the device; of a slice, within its device"),
        /// The UUID.
        Uuid = ("uuid", "uuid", ValueKind::Text, "UUID of the device"),
        /// The UUID of the device it is a slice of.
        Parent = ("parent", "parent", ValueKind::Text, "of a slice: UUID of its device"),
        /// The users of its processes and jobs.
        User = ("user", "user", ValueKind::Text, "users of its processes and jobs, separated by spaces"),
        /// The jobs it is allocated to or used by.
        Job = ("job", "job", ValueKind::Text, "jobs that it is allocated to or used by, separated by spaces"),
        /// How sure it is who has it.
        Certainty = ("certainty", "certainty", ValueKind::Text, "how sure it is who has it: certain, likely, disputed or unknown"),
        /// What it counts as.
        State = ("state", "state", ValueKind::Text, "what it counts as: busy, idle_held, free, faulty, stale, unavailable or unknown"),
        /// Why it counts as that.
        StateReason = ("because", "state_reason", ValueKind::Text, "why it is not free, or not known to be"),
        /// How sound it is.
        Health = ("health", "health", ValueKind::Text, "how sound it is: ok, degraded, faulty or unknown"),
        /// Why it is not sound.
        HealthReasons = ("why", "health_reasons", ValueKind::Text, "why it is not sound, the worst first, separated by spaces"),
        /// The command lines of its processes.
        Command = ("command", "command", ValueKind::Text, "command lines of its processes, one per line"),
    }
    /// All keys.
    pub const ALL;
    /// Returns its name, its id, the type of its values and its description.
    pub fn declaration -> (&'static str, &'static str, ValueKind, &'static str);
}

/// A value of a device that can be chosen.
#[derive(Clone, Copy, Debug)]
pub enum OutputField {
    /// What identifies or uses the device.
    Key(DeviceKey),
    /// A metric.
    Device(&'static Field<Device>),
    /// A metric of its node.
    Host(&'static Field<Node>),
}

/// The words of the fields that are printed by default.
#[rustfmt::skip]
const DEFAULT_FIELDS: [&str; 17] = [
    "time", "age", "node", "index", "uuid", "parent", "name", "util", "mem", "memtotal", "power", "limit",
    "temp", "user", "job", "certainty", "health",
];

impl OutputField {
    /// Finds a field by its name or its id; the error names the nearest one.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let name = name.trim();
        if name.is_empty() {
            return Err("a name is empty; separate names by commas, as in util,mem".to_owned());
        }
        let found = Self::all().find(|field| field.name() == name || field.id() == name);
        let current = current_aliases(name);
        let found = found
            .or_else(|| Self::all().find(|field| current == [field.name()]))
            // As in nvidia-smi, the name of a device is its model.
            .or_else(|| Self::from_name("name").ok().filter(|_| name == "model"));
        found.ok_or_else(|| {
            let is_of_process = PROCESS.iter().any(|field| field.alias == name);
            if is_of_process || JOB.iter().any(|field| field.alias == name) {
                let owner = if is_of_process { "a process" } else { "a job" };
                return format!("{name} is a metric of {owner}; choose those of a device or a node, see gtop fields");
            }
            let nearest = nearest(name, Self::all().map(Self::name)).unwrap_or_default();
            format!("no field {name}; did you mean {nearest}? gtop fields lists all")
        })
    }

    /// Returns the fields that are printed by default.
    pub fn defaults() -> Vec<Self> {
        DEFAULT_FIELDS.into_iter().filter_map(|word| Self::from_name(word).ok()).collect()
    }

    fn all() -> impl Iterator<Item = Self> {
        let keys = DeviceKey::ALL.into_iter().map(Self::Key);
        keys.chain(device_fields().map(Self::Device)).chain(HOST.iter().map(Self::Host))
    }

    /// Returns the name that chooses it.
    fn name(self) -> &'static str {
        match self {
            Self::Key(key) => key.declaration().0,
            Self::Device(field) => field.alias,
            Self::Host(field) => field.alias,
        }
    }

    /// Returns the title of its column in CSV and its key in JSON, which ends in the unit.
    pub fn id(self) -> Cow<'static, str> {
        match self {
            Self::Key(key) => key.declaration().1.into(),
            Self::Device(field) => field.id.into(),
            // Some ids are those of a device too.
            Self::Host(field) => format!("host_{}", field.id).into(),
        }
    }

    /// Returns the type of its known values.
    pub const fn kind(self) -> ValueKind {
        match self {
            Self::Key(key) => key.declaration().2,
            Self::Device(field) => field.kind,
            Self::Host(field) => field.kind,
        }
    }

    /// Returns the unit of its values; empty for counts and texts.
    pub fn unit(self) -> &'static str {
        unit_of(&self.id())
    }

    /// Returns its description in one line.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Key(key) => key.declaration().3,
            Self::Device(field) => field.help,
            Self::Host(field) => field.help,
        }
    }

    /// Returns true if its values may hold secrets of users.
    pub const fn is_command(self) -> bool {
        matches!(self, Self::Key(DeviceKey::Command))
    }

    /// Returns true if it remains valid while the device is not sampled.
    fn is_lasting(self) -> bool {
        match self {
            Self::Key(key) => !matches!(key, DeviceKey::User | DeviceKey::Job | DeviceKey::Command),
            Self::Device(field) => field.id == "name",
            Self::Host(_) => false,
        }
    }
}

/// The devices of a fleet with their owners.
pub(super) struct OutputRows {
    view: FleetView,
    jobs: JobLookup,
    zone: TimeZone,
    times: TimeFormat,
}

/// A device at a moment, and what it is part of.
pub(super) struct OutputRow<'a> {
    pub(super) node: &'a Node,
    pub(super) position: usize,
    pub(super) device: &'a Device,
    pub(super) jobs: &'a JobLookup,
    pub(super) now: Timestamp,
    /// How the time of its sample is written; without that, it is unknown.
    pub(super) times: Option<(TimeFormat, &'a TimeZone)>,
}

impl OutputRows {
    /// `zone` is that of times.
    pub(super) fn of(fleet: &Fleet, now: Timestamp, zone: &TimeZone) -> Self {
        let view = FleetView::printed(fleet.clone(), now, &DisplaySelection::default());
        let jobs = JobLookup::of(view.fleet.jobs.as_ref());
        Self { view, jobs, zone: zone.clone(), times: TimeFormat::default() }
    }

    /// Writes times in another format.
    pub(super) fn with_times(self, times: TimeFormat) -> Self {
        Self { times, ..self }
    }

    /// Returns the rows of a node, in the driver's order.
    pub(super) fn of_node<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = OutputRow<'a>> {
        let (jobs, now, times) = (&self.jobs, self.view.now, Some((self.times, &self.zone)));
        node.devices.iter().enumerate().map(move |(position, device)| OutputRow {
            node,
            position,
            device,
            jobs,
            now,
            times,
        })
    }

    /// Returns the rows of all nodes.
    pub(super) fn all(&self) -> impl Iterator<Item = OutputRow<'_>> {
        self.view.fleet.nodes.iter().flat_map(|node| self.of_node(node))
    }
}

impl OutputRow<'_> {
    /// Returns the value of a field. Values of a device that is not sampled any more are unknown.
    pub(super) fn value(&self, field: OutputField) -> Value {
        let Self { node, device, now, .. } = *self;
        if !field.is_lasting() && !node.device_freshness(self.position, now).is_fresh() {
            return Value::Unknown(Reason::NotSampled);
        }
        match field {
            OutputField::Key(key) => self.key_value(key),
            OutputField::Device(field) => (field.read)(device),
            OutputField::Host(field) if node.host_freshness(now).is_fresh() => (field.read)(node),
            OutputField::Host(_) => Value::Unknown(Reason::NotSampled),
        }
    }

    /// Returns the value of a key, fresh or not.
    pub(super) fn key_value(&self, key: DeviceKey) -> Value {
        let Self { node, device, position, now, .. } = *self;
        let holdings = node.holdings.device(&device.uuid);
        match key {
            DeviceKey::Time => {
                let at = self.times.zip(self.taken_at());
                at.map(|((format, zone), at)| format.text(at, zone)).into()
            }
            DeviceKey::Age => self.taken_at().map(|at| milliseconds(now.since(at))).into(),
            DeviceKey::Node => node.name.as_str().into(),
            DeviceKey::Index => device.index.into(),
            DeviceKey::Uuid => (*device.uuid).into(),
            DeviceKey::Parent => device.parent.clone().into(),
            DeviceKey::User => joined(holdings.users(), " "),
            DeviceKey::Job => {
                let ids = holdings.jobs();
                let shown = ids.map(|id| {
                    self.jobs.job(id).map_or_else(|| id.to_string(), |job| job.shown_id.to_string())
                });
                joined(shown, " ")
            }
            DeviceKey::Command => joined(self.commands(), "\n"),
            DeviceKey::Certainty => holdings.certainty().as_str().into(),
            DeviceKey::State => DeviceState::of(node, position, now).map(DeviceState::id).into(),
            DeviceKey::StateReason => {
                StateReason::of(node, position, now).map(StateReason::id).into()
            }
            DeviceKey::Health => node.health(device).as_str().into(),
            DeviceKey::HealthReasons => {
                joined(node.health_reasons(device).iter().map(HealthReason::id), " ")
            }
        }
    }

    fn taken_at(&self) -> Option<Timestamp> {
        self.node.source(self.node.device_sources.get(self.position)?)?.taken_at
    }

    /// Returns the different command lines of its processes.
    fn commands(&self) -> Vec<Arc<str>> {
        let mut commands = Vec::new();
        for command in Usage::of(self.node, self.device).filter_map(|usage| usage.command().text())
        {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }
}

/// Returns seconds with three decimals.
fn milliseconds(span: Duration) -> f32 {
    (span.as_secs_f32() * 1000.0).round() / 1000.0
}

fn joined(texts: impl IntoIterator<Item: ToString>, separator: &str) -> Value {
    let texts: Vec<String> = texts.into_iter().map(|text| text.to_string()).collect();
    (!texts.is_empty()).then(|| texts.join(separator)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::{Process, SourceState};
    use gtop_model::JobId;
    use gtop_model::{Bytes, DeviceUse, NodeName, ProcessKey, ProcessStatics, Reading, Source};

    #[test]
    fn a_field_has_a_word_and_an_id() {
        for (name, id) in [
            ("util", "utilization_percent"),
            ("utilization_percent", "utilization_percent"),
            ("mem", "memory_used_bytes"),
            ("memory_total_bytes", "memory_total_bytes"),
            ("hostmemtotal", "host_memory_total_bytes"),
            ("host_cpu_percent", "host_cpu_percent"),
            ("model", "name"),
            ("bus", "pci_bus"),
            ("age", "age_seconds"),
            ("user", "user"),
        ] {
            assert_eq!(OutputField::from_name(name).unwrap().id(), id, "{name}");
        }
        let mut ids: Vec<_> = OutputField::all().map(OutputField::id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|two| two[0] != two[1]), "{ids:?}");
        assert_eq!(OutputField::defaults().len(), DEFAULT_FIELDS.len());
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_nearest_one() {
        for (name, expected) in [
            ("utl", "no field utl; did you mean util?"),
            ("powr", "did you mean power?"),
            (" ", "a name is empty; separate names by commas"),
            ("psm", "psm is a metric of a process"),
            ("left", "left is a metric of a job"),
        ] {
            let error = OutputField::from_name(name).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    /// Returns what a row prints: unknown values as `-`.
    fn printed(rows: &OutputRows, words: &[&str]) -> Vec<Vec<String>> {
        let text = |value| match value {
            Value::Unknown(_) => "-".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text.to_string(),
            Value::Flag(flag) => flag.to_string(),
        };
        let value = |row: &OutputRow<'_>, word: &&str| {
            text(row.value(OutputField::from_name(word).unwrap()))
        };
        let row = |row: OutputRow<'_>| words.iter().map(|word| value(&row, word)).collect();
        rows.all().map(row).collect()
    }

    #[test]
    fn a_row_has_the_owners_of_a_slice_and_no_old_values() {
        let device = |uuid: &str, parent: Option<&str>, index| Device {
            uuid: uuid.into(),
            parent: parent.map(Into::into),
            index: Reading::Known(index),
            name: Reading::Known("H100".into()),
            memory_used: Reading::Known(Bytes(5)),
            ..Device::default()
        };
        let used = |uuid: &str, pid| DeviceUse { device: uuid.into(), pid, ..DeviceUse::default() };
        let process = |pid, user: &str| Process {
            key: ProcessKey { pid, start_ticks: 1 },
            statics: Arc::new(ProcessStatics {
                user: Reading::Known(user.into()),
                command: Reading::Known(format!("{user} --now").into()),
                job: JobId::new("11"),
                ..ProcessStatics::default()
            }),
            ..Process::default()
        };
        let mut node = Node::new(NodeName::new("n1").unwrap(), Duration::ZERO);
        node.devices =
            vec![device("a", None, 3), device("s", Some("a"), 0), device("b", None, 4)].into();
        let source = Source::new("nvml");
        node.device_sources = vec![source.clone(); 3].into();
        node.sources = vec![SourceState {
            source,
            taken_at: Some(Timestamp::default()),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        }];
        node.uses = [used("s", 7), used("a", 8), used("s", 8)].into();
        node.processes = [process(7, "alice"), process(8, "bob")].into();
        let fleet = Fleet::new([Arc::new(node)].into());
        let words =
            ["node", "index", "parent", "name", "mem", "util", "user", "job", "age", "time"];
        let print = |seconds: i64| {
            let now = Timestamp::from_micros(seconds * 1_000_000);
            let rows = OutputRows::of(&fleet, now, &TimeZone::UTC);
            let lines: Vec<_> = printed(&rows, &words).iter().map(|row| row.join(" ")).collect();
            (lines, printed(&rows, &["command"]).concat())
        };
        let (lines, commands) = print(1);
        let epoch = "1970-01-01T00:00:00.000+00:00";
        assert_eq!(
            lines,
            [
                format!("n1 3 - H100 5 - bob alice 11 1 {epoch}"),
                format!("n1 0 a H100 5 - alice bob 11 1 {epoch}"),
                format!("n1 4 - H100 5 - - - 1 {epoch}"),
            ]
        );
        assert_eq!(commands, ["bob --now", "alice --now\nbob --now", "-"]);
        let (lines, commands) = print(60);
        assert_eq!(lines[0], format!("n1 3 - H100 - - - - 60 {epoch}"));
        assert_eq!(commands, ["-", "-", "-"]);
    }
}
