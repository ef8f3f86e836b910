//! A report as JSON: one object, with units in the names of its keys; `null` is unknown, and a gap in what changes over
//! time. Times are in seconds since 1970.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use crate::export::report::{STATES, rounded};
use crate::report::{
    CommandReport, DeviceReport, EventReport, JobDevice, JobReport, JobVerdict, NodeReport,
    ReportCriteria, ReportFilter, ReportFinding, ReportSteps, UsageReport, UsageSummary,
    UserReport, VerdictWord,
};
use gtop_local::time::Timestamp;

/// The version of the format.
const SCHEMA: u32 = 1;
/// How each report in JSON begins.
pub(super) const MARK: &str = "{\"schema\":1,\"gtop\":";

/// Writes a report as JSON in one line.
pub(super) fn write_report_json(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &ReportJson(report))?;
    out.write_all(b"\n")
}

/// Returns a report as JSON text.
pub(super) fn report_text(report: &UsageReport) -> io::Result<String> {
    Ok(serde_json::to_string(&ReportJson(report))?)
}

struct ReportJson<'a>(&'a UsageReport);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = *self;
        let source = json!({"kind": report.kind, "files": report.files, "notes": report.notes});
        let spans: Vec<_> =
            report.recorded.iter().map(|(from, to)| [seconds(*from), seconds(*to)]).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("gtop", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("title", &report.title)?;
        map.serialize_entry("made_at", &seconds(report.made_at))?;
        map.serialize_entry("source", &source)?;
        map.serialize_entry("filter", &filter(&report.filter))?;
        map.serialize_entry("from", &seconds(report.span.0))?;
        map.serialize_entry("to", &seconds(report.span.1))?;
        map.serialize_entry("spans", &spans)?;
        map.serialize_entry("headline", &report.headline)?;
        map.serialize_entry("criteria", &criteria(&report.criteria))?;
        map.serialize_entry("totals", &totals(report))?;
        map.serialize_entry("held", &with_summary(json!({}), &report.held))?;
        map.serialize_entry("unheld", &with_summary(json!({}), &report.unheld()))?;
        map.serialize_entry("nodes", &all(&report.nodes, node))?;
        map.serialize_entry("devices", &all(&report.devices, device))?;
        map.serialize_entry("users", &all(&report.users, user))?;
        map.serialize_entry("jobs", &all(&report.jobs, job))?;
        map.serialize_entry("findings", &all(&report.findings, finding))?;
        map.serialize_entry("events", &all(&report.events, event))?;
        map.serialize_entry("events_left_out", &report.events_left_out)?;
        map.serialize_entry("commands", &report.commands.as_ref().map(|rows| all(rows, command)))?;
        map.serialize_entry("series", &series(report))?;
        map.end()
    }
}

fn all<T>(rows: &[T], json: fn(&T) -> Value) -> Vec<Value> {
    rows.iter().map(json).collect()
}

fn totals(report: &UsageReport) -> Value {
    let totals = json!({
        "nodes": report.nodes.len(),
        "nodes_seen": report.nodes_seen,
        "devices": report.devices.len(),
        "users": report.users.len(),
        "jobs": report.jobs.len(),
        "row_mean_percent": report.row_mean.map(|mean| rounded(mean, 4)),
    });
    with_summary(totals, &report.totals)
}

/// Returns by what is judged, and what the words mean.
fn criteria(criteria: &ReportCriteria) -> Value {
    let words = VerdictWord::ALL
        .map(|word| json!({"word": word.as_str(), "meaning": word.definition(criteria)}));
    let prices: Vec<String> = criteria.prices.iter().map(ToString::to_string).collect();
    json!({
        "low_percent": criteria.low_percent,
        "good_percent": criteria.good_percent,
        "min_held_seconds": criteria.min_held.as_secs_f64(),
        "prices": prices,
        "words": words,
        "text": criteria.text(),
    })
}

fn series(report: &UsageReport) -> Value {
    let grid = report.steps.grid;
    let (step, count) = grid.map_or((1.0, 0), |grid| (grid.step.as_secs_f64(), grid.count));
    let [active, idle_held, free, seen] = &report.steps.devices;
    let mut cluster = steps(&report.steps.cluster);
    let devices = json!({
        "active": numbers(active),
        "idle_held": numbers(idle_held),
        "free": numbers(free),
        "seen": numbers(seen),
    });
    extend(&mut cluster, json!({ "devices": devices }));
    json!({
        "from": grid.map_or_else(|| seconds(report.span.0), |grid| seconds(grid.from)),
        "step": step,
        "count": count,
        "cluster": cluster,
        "nodes": all(&report.nodes, node_steps),
        "devices": all(&report.devices, device_steps),
    })
}

fn filter(filter: &ReportFilter) -> Option<Value> {
    let ReportFilter { jobs, users, nodes, matching } = filter;
    let matching = (!matching.is_empty()).then(|| matching.text());
    (!filter.is_empty())
        .then(|| json!({"jobs": jobs, "users": users, "nodes": nodes, "matching": matching}))
}

pub(super) fn seconds(at: Timestamp) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this century are exact")]
    let micros = at.as_micros() as f64;
    micros / 1e6
}

pub(super) fn hours(seconds: f64) -> f64 {
    rounded(seconds / 3600.0, 6)
}

pub(super) fn known(value: Option<f64>, digits: i32) -> Option<f64> {
    value.map(|value| rounded(value, digits))
}

/// Adds the numbers of a summary to an object.
fn with_summary(mut object: Value, summary: &UsageSummary) -> Value {
    let mut device_hours: serde_json::Map<String, Value> = STATES
        .iter()
        .zip(summary.states)
        .map(|(name, seconds)| ((*name).to_owned(), json!(hours(seconds))))
        .collect();
    device_hours.insert("not_seen".to_owned(), json!(hours(summary.not_seen_seconds())));
    let [p50, p95] = summary.percentiles;
    let (seen, expected) = summary.samples.unzip();
    let numbers = json!({
        "watched_hours": hours(summary.watched_seconds),
        "device_hours": device_hours,
        "utilization_percent": {"mean": known(summary.utilization, 4), "p50": p50, "p95": p95},
        "memory_percent": {
            "mean": known(summary.memory_percent, 4),
            "max": known(summary.max_memory_percent.map(f64::from), 2),
        },
        "memory_used_bytes": known(summary.memory_used, 0),
        "power_watts": {
            "mean": known(summary.power, 3),
            "max": known(summary.max_power.map(f64::from), 2),
        },
        "energy_kwh": known(summary.energy_kwh, 6),
        "temperature_celsius": {"max": known(summary.max_temperature.map(f64::from), 1)},
        "coverage_percent": known(summary.coverage_percent(), 3),
        "samples_seen": seen,
        "samples_expected": expected.map(|samples| rounded(samples, 1)),
    });
    extend(&mut object, numbers);
    object
}

fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

fn node(node: &NodeReport) -> Value {
    let object = json!({
        "node": node.name, "devices": node.devices, "down_hours": hours(node.down_seconds),
    });
    with_summary(object, &node.summary)
}

fn device(device: &DeviceReport) -> Value {
    let object = json!({
        "node": device.node, "index": device.index, "uuid": device.uuid, "model": device.model,
    });
    with_summary(object, &device.summary)
}

fn user(user: &UserReport) -> Value {
    let cost = known(user.cost, 4);
    with_summary(json!({"user": user.user, "jobs": user.jobs, "cost": cost}), &user.summary)
}

fn job(job: &JobReport) -> Value {
    let series = job.steps.as_ref().map(|steps| {
        json!({
            "start": steps.first,
            "utilization_percent": numbers(&steps.utilization),
            "memory_percent": numbers(&steps.memory),
        })
    });
    let object = json!({
        "job": job.id, "name": job.name, "user": job.user, "partition": job.partition,
        "nodes": job.nodes, "devices": job.devices,
        "from": seconds(job.from), "to": seconds(job.to), "series": series,
        "verdict": verdict(&job.verdict), "cost": known(job.cost, 4),
        "host": {
            "cpus": job.host.cpus, "cpus_used": known(job.host.cpus_used, 2),
            "memory_bytes": job.host.memory, "memory_max_bytes": job.host.max_memory,
            "text": job.host.text(),
        },
        "each_device": job.steps.as_ref().map(|_kept| all(&job.each_device, job_device)),
    });
    with_summary(object, &job.summary)
}

fn verdict(verdict: &JobVerdict) -> Value {
    let enough = verdict.enough.map(|enough| {
        json!({
            "devices": enough.devices, "parts": enough.parts,
            "certainty": enough.certainty.as_str(), "text": enough.text(),
        })
    });
    json!({
        "word": verdict.word.as_str(),
        "sentence": verdict.sentence,
        "efficiency_percent": known(verdict.efficiency, 2),
        "enough": enough,
        "remedy": verdict.remedy,
        "certainty": verdict.certainty.as_str(),
    })
}

fn job_device(device: &JobDevice) -> Value {
    json!({
        "node": device.node, "index": device.index,
        "utilization_percent": known(device.load, 2), "active_hours": hours(device.active_seconds),
        "known_hours": hours(device.seconds),
    })
}

fn finding(finding: &ReportFinding) -> Value {
    json!({
        "kind": finding.kind.as_str(),
        "severity": finding.severity.as_str(),
        "text": finding.text,
        // Of several nodes or devices, none stands for all.
        "node": if let [node] = &finding.nodes[..] { Some(node) } else { None },
        "nodes": finding.nodes,
        "device": finding.device,
        "devices": finding.devices,
        "job": finding.job,
        "user": finding.user,
        // An error has no duration.
        "hours": (finding.device_seconds > 0.0).then(|| hours(finding.device_seconds)),
        "remedy": finding.remedy,
    })
}

fn event(event: &EventReport) -> Value {
    json!({"at": seconds(event.at), "kind": event.kind, "text": event.text})
}

fn command(command: &CommandReport) -> Value {
    json!({
        "job": command.job, "user": command.user, "node": command.node,
        "command": command.command, "device_hours": hours(command.device_seconds),
    })
}

/// Returns numbers with one digit after the point.
fn numbers(values: &[Option<f32>]) -> Vec<Value> {
    values.iter().map(|value| number(*value)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number of moderate size")]
fn number(value: Option<f32>) -> Value {
    let Some(value) = value else { return Value::Null };
    let value = rounded(f64::from(value), 1);
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

fn ranges(values: &[Option<[f32; 3]>]) -> Value {
    let mean: Value = values.iter().map(|range| number(range.map(|[mean, _, _]| mean))).collect();
    let min: Value = values.iter().map(|range| number(range.map(|[_, min, _]| min))).collect();
    let max: Value = values.iter().map(|range| number(range.map(|[_, _, max]| max))).collect();
    json!({"mean": mean, "min": min, "max": max})
}

fn steps(steps: &ReportSteps) -> Value {
    json!({
        "utilization_percent": ranges(&steps.utilization),
        "memory_percent": ranges(&steps.memory),
        "power_watts": {"mean": numbers(&steps.power)},
    })
}

fn node_steps(node: &NodeReport) -> Value {
    let mut object = json!({ "node": node.name });
    extend(&mut object, steps(&node.steps));
    object
}

fn device_steps(device: &DeviceReport) -> Value {
    json!({
        "node": device.node,
        "index": device.index,
        "utilization_percent": STANDARD.encode(&device.steps.utilization),
        "memory_percent": STANDARD.encode(&device.steps.memory),
    })
}
