//! A report as a table: a row for all devices, and per node, device, user and job. An unknown value is an empty cell.

use std::io::{self, Write};

use crate::export::csv::text_cell;
use crate::export::report::{STATES, rounded};
use crate::report::{UsageReport, UsageSummary};

/// How each table begins.
pub(super) const MARK: &str = "scope,name,node,user,job,watched_hours,";

/// Writes the table.
pub(super) fn write_report_csv(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let states: Vec<String> = STATES.iter().map(|state| format!("{state}_hours")).collect();
    write!(
        out,
        "{MARK}{},not_seen_hours,utilization_mean_percent,utilization_p50_percent,\
         utilization_p95_percent,memory_mean_percent,memory_max_percent,memory_used_bytes,\
         power_mean_watts,power_max_watts,energy_kwh,temperature_max_celsius,coverage_percent,\
         samples_seen,samples_expected\r\n",
        states.join(",")
    )?;
    row(out, ["total", &report.title, "", "", ""], &report.totals)?;
    for node in &report.nodes {
        row(out, ["node", &node.name, &node.name, "", ""], &node.summary)?;
    }
    for device in &report.devices {
        row(out, ["device", &device.uuid, &device.node, "", ""], &device.summary)?;
    }
    for user in &report.users {
        row(out, ["user", &user.user, "", &user.user, ""], &user.summary)?;
    }
    for job in &report.jobs {
        row(out, ["job", &job.name, "", &job.user, &job.id], &job.summary)?;
    }
    Ok(())
}

fn row(out: &mut impl Write, words: [&str; 5], summary: &UsageSummary) -> io::Result<()> {
    let [p50, p95] = summary.percentiles.map(|percent| percent.map(f64::from));
    let (seen, expected) = summary.samples.unzip();
    #[expect(clippy::cast_precision_loss, reason = "counts of samples are exact")]
    let seen = seen.map(|samples| samples as f64);
    let numbers = [
        summary.utilization,
        p50,
        p95,
        summary.memory_percent,
        summary.max_memory_percent.map(f64::from),
        summary.memory_used.map(f64::round),
        summary.power,
        summary.max_power.map(f64::from),
        summary.energy_kwh,
        summary.max_temperature.map(f64::from),
        summary.coverage_percent(),
        seen,
        expected,
    ];
    let seconds = [summary.watched_seconds].into_iter().chain(summary.states);
    let hours = seconds.chain([summary.not_seen_seconds()]).map(|seconds| Some(seconds / 3600.0));
    let all = hours.chain(numbers).map(|number| number.map(|number| rounded(number, 6)));
    let words = words.map(text_cell);
    let numbers: Vec<String> =
        all.map(|number| number.map_or_else(String::new, |number| number.to_string())).collect();
    write!(out, "{},{}\r\n", words.join(","), numbers.join(","))
}
