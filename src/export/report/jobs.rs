//! The jobs of a report for programs: a line of JSON each, with the same keys in each line; `null` is unknown.

use std::io::{self, Write};

use serde::Serialize;

use crate::export::report::json::{hours, known, seconds};
use crate::export::report::ledger::device_time;
use crate::report::{EnoughDevices, JobReport, UsageReport};

/// The version of the format.
const SCHEMA: u32 = 1;
/// How each line begins.
pub(super) const MARK: &str = "{\"schema\":1,\"job\":";

/// A job; the keys are in the order in which docs/reports.md has them.
#[derive(Serialize)]
struct ReportedJob<'a> {
    schema: u32,
    job: &'a str,
    name: Option<&'a str>,
    user: &'a str,
    partition: Option<&'a str>,
    nodes: &'a [String],
    devices: usize,
    from: f64,
    to: f64,
    held_hours: f64,
    used_hours: f64,
    idle_hours: f64,
    faulty_hours: f64,
    unknown_hours: f64,
    unseen_hours: f64,
    efficiency_percent: Option<f64>,
    utilization_p50_percent: Option<u8>,
    utilization_p95_percent: Option<u8>,
    memory_max_percent: Option<f64>,
    cpus: Option<u32>,
    cpus_used: Option<f64>,
    cpu_efficiency_percent: Option<f64>,
    host_memory_bytes: Option<u64>,
    host_memory_max_bytes: Option<u64>,
    host_memory_efficiency_percent: Option<f64>,
    energy_kwh: Option<f64>,
    cost: Option<f64>,
    verdict: &'static str,
    sentence: &'a str,
    certainty: &'static str,
    enough_devices: Option<usize>,
    enough_part: Option<f64>,
    enough: Option<String>,
    remedy: Option<&'a str>,
}

/// Writes a line for each job.
pub(super) fn write_report_jobs(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    for job in &report.jobs {
        serde_json::to_writer(&mut *out, &ReportedJob::of(job))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

impl<'a> ReportedJob<'a> {
    fn of(job: &'a JobReport) -> Self {
        let JobReport { summary, verdict, .. } = job;
        let [held, used, idle, faulty, unknown, unseen] = device_time(summary).map(hours);
        let [p50, p95] = summary.percentiles;
        Self {
            schema: SCHEMA,
            job: &job.id,
            name: non_empty(&job.name),
            user: &job.user,
            partition: job.partition.as_deref(),
            nodes: &job.nodes,
            devices: job.devices,
            from: seconds(job.from),
            to: seconds(job.to),
            held_hours: held,
            used_hours: used,
            idle_hours: idle,
            faulty_hours: faulty,
            unknown_hours: unknown,
            unseen_hours: unseen,
            efficiency_percent: known(verdict.efficiency, 2),
            utilization_p50_percent: p50,
            utilization_p95_percent: p95,
            memory_max_percent: known(summary.max_memory_percent.map(f64::from), 2),
            cpus: job.host.cpus,
            cpus_used: known(job.host.cpus_used, 2),
            cpu_efficiency_percent: known(job.host.cpu_percent(), 2),
            host_memory_bytes: job.host.memory,
            host_memory_max_bytes: job.host.max_memory,
            host_memory_efficiency_percent: known(job.host.memory_percent(), 2),
            energy_kwh: known(summary.energy_kwh, 6),
            cost: known(job.cost, 4),
            verdict: verdict.word.as_str(),
            sentence: &verdict.sentence,
            certainty: verdict.certainty.as_str(),
            enough_devices: verdict.enough.map(|enough| enough.devices),
            enough_part: verdict.enough.map(|enough| 1.0 / f64::from(enough.parts)),
            enough: verdict.enough.map(EnoughDevices::text),
            remedy: non_empty(&verdict.remedy),
        }
    }
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
