//! Samples of devices over time as a table: a row per value (long) or per device (wide), as CSV or as JSON lines.
//!
//! `seconds` is the time for which the values of a row hold, as reports count it: weighted by it, means are exact.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::{Value as Json, json};

use crate::export::csv::text_cell;
use crate::export::output_field::{DeviceKey, OutputField, OutputRow};
use crate::export::time_format::{TimeFormat, zoned_text};
use gtop_collect::source::replay::{FoldedChange, FoldedLine};
use gtop_fleet::metrics::{Value, ValueKind, device_fields, unit_of};
use gtop_fleet::{Anonymizer, HoldingsKeeper, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeName, Reason, Source, stale_after};

/// Devices of a table; hostile recordings could name any number.
const MAX_DEVICES: usize = 1 << 20;
/// The words of the fields of a table by default.
const DEFAULT_FIELDS: [&str; 8] =
    ["util", "mem", "memtotal", "power", "limit", "temp", "user", "job"];

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFormat {
    /// One JSON object per row.
    Ndjson,
    /// CSV (RFC 4180).
    Csv,
}

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
    /// The zone of times that spreadsheets read; `None` for ISO 8601, in UTC.
    pub zone: Option<TimeZone>,
    /// Replaces names.
    pub anonymizer: Option<Anonymizer>,
}

/// Writes the rows of a table.
#[derive(Debug)]
pub struct SampleWriter<W> {
    table: SampleTable,
    out: W,
    placing: HoldingsKeeper,
    /// What the devices of each node hold.
    held: BTreeMap<NodeName, BTreeMap<Arc<str>, HeldSample>>,
    devices: usize,
    /// Rows written.
    rows: u64,
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

/// Returns the fields that words choose; `all` are all numbers of devices, none the default ones. The error names what is
/// wrong.
pub fn sample_fields(words: &[String]) -> Result<Vec<OutputField>, String> {
    if words.is_empty() {
        return Ok(DEFAULT_FIELDS
            .iter()
            .filter_map(|word| OutputField::from_name(word).ok())
            .collect());
    }
    if words == ["all"] {
        let numbers = device_fields().filter(|field| is_number(field.kind));
        return Ok(numbers.map(OutputField::Device).collect());
    }
    let fields = words.iter().map(|word| match OutputField::from_name(word)? {
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
    fields.collect()
}

const fn is_number(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::Number | ValueKind::Share | ValueKind::Integer | ValueKind::Flag)
}

impl<W: Write> SampleWriter<W> {
    /// Begins a table.
    pub fn new(table: SampleTable, mut out: W) -> io::Result<Self> {
        if table.format == SampleFormat::Csv {
            if table.is_wide {
                let titles = table.fields.iter().map(|field| field.id());
                let titles = titles.collect::<Vec<_>>().join(",");
                write!(out, "time,seconds,node,device,index,{titles}\r\n")?;
            } else {
                write!(out, "time,node,device,field,value,unit\r\n")?;
            }
        }
        Ok(Self {
            table,
            out,
            placing: HoldingsKeeper::default(),
            held: BTreeMap::new(),
            devices: 0,
            rows: 0,
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
        let time = match &self.table.zone {
            Some(zone) => TimeFormat::Spreadsheet.text(taken_at, zone),
            None => time_text(taken_at),
        };
        let (node, uuid) = match &mut self.table.anonymizer {
            Some(anonymizer) => (
                anonymizer.name("node", node.as_str()).to_string(),
                anonymizer.name("device", uuid),
            ),
            None => (node.label().to_owned(), Arc::clone(uuid)),
        };
        let fields = self.table.fields.clone();
        let values = fields.iter().zip(values);
        let values: Vec<Json> =
            values.map(|(field, value)| self.json_value(*field, value)).collect();
        if self.table.is_wide {
            let mut row = vec![
                ("time".into(), json!(time)),
                ("seconds".into(), json!(seconds)),
                ("node".into(), json!(node)),
                ("device".into(), json!(uuid)),
                ("index".into(), json!(held.index)),
            ];
            row.extend(fields.iter().map(|field| field.id()).zip(values));
            return self.write_row(&row);
        }
        for (field, value) in fields.iter().zip(values) {
            let number = match value {
                Json::Bool(flag) => json!(u8::from(flag)),
                Json::Number(_) => value,
                Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => continue,
            };
            let id = field.id();
            self.write_row(&[
                ("time".into(), json!(time)),
                ("node".into(), json!(node)),
                ("device".into(), json!(uuid)),
                ("field".into(), json!(id)),
                ("value".into(), number),
                ("unit".into(), json!(unit_of(&id))),
            ])?;
        }
        Ok(())
    }

    fn json_value(&mut self, field: OutputField, value: Value) -> Json {
        match value {
            Value::Unknown(_) => Json::Null,
            Value::Number(number) => json!(shortest(number)),
            Value::Integer(number) => json!(number),
            Value::Flag(flag) => json!(flag),
            Value::Text(text) => match (&mut self.table.anonymizer, field) {
                (None, _) => json!(text),
                (Some(anonymizer), OutputField::Key(key)) => {
                    let kinds = [(DeviceKey::User, "user"), (DeviceKey::Job, "job")];
                    let kind = kinds.into_iter().find(|(known, _)| *known == key);
                    let kind = kind.map_or("device", |(_, kind)| kind);
                    let names = text.split(' ').map(|name| anonymizer.name(kind, name).to_string());
                    json!(names.collect::<Vec<_>>().join(" "))
                }
                (Some(_), _) if field.id() == "name" => json!(text),
                (Some(_), _) => json!("withheld"),
            },
        }
    }

    fn write_row(&mut self, cells: &[(std::borrow::Cow<'static, str>, Json)]) -> io::Result<()> {
        self.rows += 1;
        match self.table.format {
            SampleFormat::Csv => {
                let texts: Vec<String> = cells.iter().map(|(_, value)| csv_cell(value)).collect();
                write!(self.out, "{}\r\n", texts.join(","))
            }
            SampleFormat::Ndjson => {
                // The order of the columns stays, which a map would not keep.
                let texts = cells.iter().map(|(name, value)| format!("{}:{value}", json!(name)));
                writeln!(self.out, "{{{}}}", texts.collect::<Vec<_>>().join(","))
            }
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
        self.out.flush()?;
        Ok((self.out, self.rows))
    }
}

fn csv_cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text_cell(text),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

/// Returns the number with the digits that its 32 bits hold.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

/// Returns a time in ISO 8601, in UTC.
fn time_text(at: Timestamp) -> String {
    zoned_text(at, &TimeZone::UTC, "%Y-%m-%dT%H:%M:%S%.6fZ")
}
