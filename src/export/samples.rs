//! Samples of devices over time as a table: a row per value (long) or per device (wide).
//!
//! `seconds` is the time for which the values of a row hold, as reports count it: weighted by it, means are exact.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::export::output_field::{DeviceKey, OutputField, OutputRow};
use crate::export::table::{SampleCell, SampleColumn, SampleFormat, TableWriter};
use gtop_collect::source::replay::{FoldedChange, FoldedLine};
use gtop_fleet::metrics::{Value, ValueKind, device_fields};
use gtop_fleet::{Anonymizer, HoldingsKeeper, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeName, Reason, Source, stale_after};

/// Devices of a table; hostile recordings could name any number.
const MAX_DEVICES: usize = 1 << 20;
/// The words of the fields of a table by default.
const DEFAULT_FIELDS: [&str; 8] =
    ["util", "mem", "memtotal", "power", "limit", "temp", "user", "job"];

/// The keys whose texts are names, and of what.
const NAMES: [(DeviceKey, &str); 3] =
    [(DeviceKey::User, "user"), (DeviceKey::Job, "job"), (DeviceKey::Parent, "device")];
/// The time for which the values of a wide row hold.
const SECONDS: SampleColumn =
    SampleColumn::required("seconds", ValueKind::Number, "s", "time for which the values hold");
const FIELD: SampleColumn = SampleColumn::required("field", ValueKind::Text, "", "id of the field");
const VALUE: SampleColumn =
    SampleColumn::required("value", ValueKind::Number, "", "value; of a boolean, 1 or 0");
const UNIT: SampleColumn =
    SampleColumn::required("unit", ValueKind::Text, "", "unit of the value; empty for counts");

/// What a table has.
#[derive(Debug)]
pub struct SampleTable {
    /// How it is written.
    pub format: SampleFormat,
    /// A row per device and time, instead of one per value.
    pub is_wide: bool,
    /// The fields.
    pub fields: Vec<OutputField>,
    /// At most one row per device in this time; zero for each sample.
    pub every: Duration,
    /// The first and the last time that counts.
    pub span: (Timestamp, Timestamp),
    /// The recorded times, in rising order and apart: values hold no longer.
    pub recorded: Vec<(Timestamp, Timestamp)>,
    /// The zone of times in a text that spreadsheets read; `None` for ISO 8601, in UTC.
    pub zone: Option<TimeZone>,
    /// Replaces names.
    pub anonymizer: Option<Anonymizer>,
}

/// Writes the rows of a table.
#[derive(Debug)]
pub struct SampleWriter<W> {
    table: SampleTable,
    writer: TableWriter<W>,
    placing: HoldingsKeeper,
    /// What the devices of each node hold.
    held: BTreeMap<NodeName, BTreeMap<Arc<str>, HeldSample>>,
    devices: usize,
}

/// Values that hold until the next sample.
#[derive(Debug, Default)]
struct HeldSample {
    index: Option<u32>,
    sampled_at: Option<Timestamp>,
    written_at: Option<Timestamp>,
    /// The values, and until when they hold at most.
    values: Option<(Timestamp, Vec<Value>)>,
}

/// Returns the fields that words choose, each once; `all` stands for all numbers of devices, no words for the default ones. The error names
/// what is wrong.
pub fn sample_fields(words: &[String]) -> Result<Vec<OutputField>, String> {
    if words.is_empty() {
        return Ok(DEFAULT_FIELDS
            .iter()
            .filter_map(|word| OutputField::from_name(word).ok())
            .collect());
    }
    let (all, names): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.trim() == "all");
    let numbers = device_fields().filter(|field| !all.is_empty() && is_number(field.kind));
    let fields = names.into_iter().map(|word| match OutputField::from_name(word)? {
        OutputField::Key(DeviceKey::Command) => {
            Err("command lines are not exported; gtop report --commands lists them".to_owned())
        }
        OutputField::Key(
            DeviceKey::Time | DeviceKey::Node | DeviceKey::Index | DeviceKey::Uuid | DeviceKey::Age,
        ) => Err(format!("{word} is in every table, or follows from its time; leave it out")),
        field @ (OutputField::Key(
            DeviceKey::Parent
            | DeviceKey::User
            | DeviceKey::Job
            | DeviceKey::Certainty
            | DeviceKey::State
            | DeviceKey::StateReason
            | DeviceKey::Health
            | DeviceKey::HealthReasons,
        )
        | OutputField::Device(_)
        | OutputField::Host(_)) => Ok(field),
    });
    let numbers = numbers.map(|field| Ok(OutputField::Device(field)));
    let mut fields = numbers.chain(fields).collect::<Result<Vec<_>, _>>()?;
    let mut ids = BTreeSet::new();
    fields.retain(|field| ids.insert(field.id()));
    Ok(fields)
}

/// Returns the columns of a table with these fields.
pub fn sample_columns(is_wide: bool, fields: &[OutputField]) -> Vec<SampleColumn> {
    let key = |key| SampleColumn::of(OutputField::Key(key));
    let required = |column| SampleColumn { is_required: true, ..column };
    let time = required(key(DeviceKey::Time));
    let node = required(key(DeviceKey::Node));
    let device = required(SampleColumn { id: "device".into(), ..key(DeviceKey::Uuid) });
    if !is_wide {
        return vec![time, node, device, FIELD, VALUE, UNIT];
    }
    let mut columns = vec![time, SECONDS, node, device, key(DeviceKey::Index)];
    columns.extend(fields.iter().map(|field| SampleColumn::of(*field)));
    columns
}

const fn is_number(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::Number | ValueKind::Share | ValueKind::Integer | ValueKind::Flag)
}

impl<W: Write> SampleWriter<W> {
    /// Begins a table.
    pub fn new(table: SampleTable, out: W) -> io::Result<Self> {
        let columns = sample_columns(table.is_wide, &table.fields);
        Ok(Self {
            writer: TableWriter::new(table.format, columns, table.zone.clone(), out)?,
            table,
            placing: HoldingsKeeper::default(),
            held: BTreeMap::new(),
            devices: 0,
        })
    }

    /// Takes a change of a recording.
    pub fn on_change(&mut self, line: &FoldedLine<'_>) -> io::Result<()> {
        match &line.change {
            FoldedChange::Node(node) => self.on_node(line.at, node),
            FoldedChange::Roster(_, jobs) => {
                self.placing.set_jobs(jobs.as_ref());
                Ok(())
            }
        }
    }

    fn on_node(&mut self, at: Timestamp, node: &Arc<Node>) -> io::Result<()> {
        self.placing.note_name(node);
        let mut placed = Arc::clone(node);
        self.placing.place(&mut placed);
        let node = &*placed;
        let mut of_node = self.held.remove(&node.name).unwrap_or_default();
        let mut result = Ok(());
        if node.fault().is_some() {
            for (uuid, held) in &mut of_node {
                result = result.and(self.close(&node.name, uuid, held, at));
            }
        } else {
            result = self.on_samples(node, &mut of_node);
        }
        self.held.insert(node.name.clone(), of_node);
        result
    }

    fn on_samples(
        &mut self,
        node: &Node,
        of_node: &mut BTreeMap<Arc<str>, HeldSample>,
    ) -> io::Result<()> {
        for (position, device) in node.devices.iter().enumerate() {
            let state = node.device_sources.get(position).and_then(|source| node.source(source));
            let Some((taken_at, state)) = state.and_then(|state| Some((state.taken_at?, state)))
            else {
                continue;
            };
            if !of_node.contains_key(&device.uuid) {
                if self.devices >= MAX_DEVICES {
                    continue;
                }
                self.devices += 1;
                of_node.insert(Arc::clone(&device.uuid), HeldSample::default());
            }
            let Some(held) = of_node.get_mut(&device.uuid) else { continue };
            if held.sampled_at == Some(taken_at) {
                continue;
            }
            self.close(&node.name, &device.uuid, held, taken_at)?;
            held.sampled_at = Some(taken_at);
            held.index = device.index.get().or(held.index);
            // Samples come at intervals that are not exact.
            let slack = self.table.every / 10;
            let is_early = held
                .written_at
                .is_some_and(|before| taken_at.since(before) + slack < self.table.every);
            let (from, to) = self.table.span;
            let Some(end) = self.recorded_until(taken_at) else { continue };
            if is_early || taken_at < from || taken_at > to {
                continue;
            }
            held.written_at = Some(taken_at);
            let fields = self.table.fields.iter();
            let values = fields.map(|field| self.value(*field, (node, position), device, taken_at));
            let until = taken_at.plus(stale_after(state.interval)).min(end);
            held.values = Some((until, values.collect()));
        }
        Ok(())
    }

    /// Returns the end of the recorded span that has this time.
    fn recorded_until(&self, at: Timestamp) -> Option<Timestamp> {
        let spans = &self.table.recorded;
        let next = spans.partition_point(|(from, _)| *from <= at);
        spans.get(next.checked_sub(1)?).map(|(_, to)| *to).filter(|to| *to >= at)
    }

    fn value(
        &self,
        field: OutputField,
        (node, position): (&Node, usize),
        device: &Device,
        at: Timestamp,
    ) -> Value {
        match field {
            OutputField::Device(field) => (field.read)(device),
            OutputField::Host(field) if node.source(&Source::host()).is_some() => {
                (field.read)(node)
            }
            OutputField::Host(_) => Value::Unknown(Reason::NotSampled),
            OutputField::Key(key) => {
                let jobs = self.placing.jobs();
                OutputRow { node, position, device, jobs, now: at, times: None }.key_value(key)
            }
        }
    }

    /// Writes what has held until now.
    fn close(
        &mut self,
        node: &NodeName,
        uuid: &Arc<str>,
        held: &mut HeldSample,
        at: Timestamp,
    ) -> io::Result<()> {
        let Some((until, values)) = held.values.take() else { return Ok(()) };
        let Some(taken_at) = held.sampled_at else { return Ok(()) };
        let seconds = at.min(until).min(self.table.span.1).since(taken_at).as_secs_f64();
        let (node, uuid) = match &mut self.table.anonymizer {
            Some(anonymizer) => (
                anonymizer.name("node", node.as_str()).to_string(),
                anonymizer.name("device", uuid),
            ),
            None => (node.label().to_owned(), Arc::clone(uuid)),
        };
        let (time, node) = (SampleCell::Time(taken_at), SampleCell::Text(node.into()));
        let device = SampleCell::Text(uuid);
        let fields = self.table.fields.clone();
        let cells = fields.iter().zip(values);
        let cells: Vec<SampleCell> = cells.map(|(field, value)| self.cell(*field, value)).collect();
        if self.table.is_wide {
            let index =
                held.index.map_or(SampleCell::Unknown, |index| SampleCell::Integer(index.into()));
            let mut row = vec![time, SampleCell::Number(seconds), node, device, index];
            row.extend(cells);
            return self.writer.write_row(&row);
        }
        self.write_values(&[time, node, device], &fields, cells)
    }

    /// Writes a row per number of a device.
    fn write_values(
        &mut self,
        of_device: &[SampleCell; 3],
        fields: &[OutputField],
        cells: Vec<SampleCell>,
    ) -> io::Result<()> {
        for (field, cell) in fields.iter().zip(cells) {
            let value = match cell {
                SampleCell::Flag(flag) => SampleCell::Integer(flag.into()),
                SampleCell::Number(_) | SampleCell::Integer(_) => cell,
                SampleCell::Unknown | SampleCell::Time(_) | SampleCell::Text(_) => continue,
            };
            let [time, node, device] = of_device.clone();
            let [id, unit] = [&*field.id(), field.unit()].map(|text| SampleCell::Text(text.into()));
            self.writer.write_row(&[time, node, device, id, value, unit])?;
        }
        Ok(())
    }

    fn cell(&mut self, field: OutputField, value: Value) -> SampleCell {
        match value {
            Value::Unknown(_) => SampleCell::Unknown,
            Value::Number(number) if !number.is_finite() => SampleCell::Unknown,
            Value::Number(number) => SampleCell::Number(shortest(number)),
            Value::Integer(number) => SampleCell::Integer(number),
            Value::Flag(flag) => SampleCell::Flag(flag),
            Value::Text(text) => SampleCell::Text(self.shown(field, text)),
        }
    }

    /// Returns a text, or what replaces it.
    fn shown(&mut self, field: OutputField, text: Arc<str>) -> Arc<str> {
        let Some(anonymizer) = &mut self.table.anonymizer else { return text };
        match field {
            OutputField::Key(key) => {
                let kind = NAMES.iter().find(|(named, _)| *named == key);
                let Some((_, kind)) = kind else { return text };
                let names = text.split(' ').map(|name| anonymizer.name(kind, name).to_string());
                names.collect::<Vec<_>>().join(" ").into()
            }
            OutputField::Device(field) if field.id == "name" => text,
            OutputField::Device(_) | OutputField::Host(_) => "withheld".into(),
        }
    }

    /// Writes what still holds at the end, and returns the output and the number of rows.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        let end = self.table.span.1;
        for (node, of_node) in std::mem::take(&mut self.held) {
            for (uuid, mut held) in of_node {
                self.close(&node, &uuid, &mut held, end)?;
            }
        }
        self.writer.finish()
    }
}

/// Returns the number with the digits that its 32 bits hold.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::metrics::HOST;

    #[test]
    fn no_two_columns_have_the_same_name() {
        let host = HOST.iter().map(OutputField::Host);
        let fields: Vec<_> = device_fields().map(OutputField::Device).chain(host).collect();
        for is_wide in [true, false] {
            let columns = sample_columns(is_wide, &fields);
            let ids: BTreeSet<_> = columns.iter().map(|column| &column.id).collect();
            assert_eq!(ids.len(), columns.len());
        }
        let words = ["util", "mem", "utilization_percent"].map(str::to_owned);
        let ids = |words: &[String]| -> Vec<_> {
            sample_fields(words).unwrap().into_iter().map(OutputField::id).collect()
        };
        assert_eq!(ids(&words), ["utilization_percent", "memory_used_bytes"]);
        let all = ids(&["all".to_owned()]);
        let more = ids(&["user", " all", " util "].map(str::to_owned));
        assert_eq!(more, [&all[..], &["user".into()]].concat());
        let error = sample_fields(&["util", ""].map(str::to_owned)).unwrap_err();
        assert!(error.starts_with("a name is empty"), "{error}");
    }
}
