//! A report as Markdown: what a person wants to see, for a terminal, an issue or a mail.

use std::io::{self, Write};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::export::report::STATES;
use crate::export::time_format::zoned_text;
use crate::report::{UsageReport, UsageSummary};
use gtop_local::time::{Timestamp, format_duration};

/// How each report begins.
pub(super) const MARK: &str = "# gtop report: ";
/// Maximum number of rows of a table; the number of the others is written.
const MAX_ROWS: usize = 50;
/// Findings and events.
const MAX_LINES: usize = 20;

/// Writes the report; times are in `zone`.
pub(super) fn write_report_markdown(
    out: &mut impl Write,
    report: &UsageReport,
    zone: &TimeZone,
) -> io::Result<()> {
    let (from, to) = report.span;
    writeln!(out, "{MARK}{}\n", escaped(&report.title))?;
    // A report on what was watched just now names no file.
    let (before, files) = if report.files.is_empty() {
        ("", String::new())
    } else {
        (", from ", escaped(&report.files.join(", ")))
    };
    writeln!(
        out,
        "{} to {} ({}){before}{files}.\n",
        local(from, zone),
        local(to, zone),
        recorded_text(report),
    )?;
    for note in &report.notes {
        writeln!(out, "> {}\n", escaped(note))?;
    }
    write_totals(out, report)?;
    if !report.findings.is_empty() {
        writeln!(out, "\n## Findings\n")?;
    }
    for finding in report.findings.iter().take(MAX_LINES) {
        let severity = finding.severity.as_str();
        writeln!(
            out,
            "- **{severity}**: {} → {}",
            escaped(&finding.text),
            escaped(&finding.remedy)
        )?;
    }
    left_out(out, report.findings.len(), MAX_LINES)?;
    let users = report.users.iter().map(|user| (vec![escaped(&user.user)], &user.summary));
    write_table(out, "Users", &["user"], users)?;
    let jobs = report.jobs.iter().map(|job| {
        let nodes = gtop_model::nodeset::fold(&job.nodes);
        (
            vec![escaped(&job.id), escaped(&job.name), escaped(&job.user), escaped(&nodes)],
            &job.summary,
        )
    });
    write_table(out, "Jobs", &["job", "name", "user", "nodes"], jobs)?;
    let nodes = report.nodes.iter().map(|node| (vec![escaped(&node.name)], &node.summary));
    write_table(out, "Nodes", &["node"], nodes)?;
    if !report.events.is_empty() {
        writeln!(out, "\n## Latest events\n")?;
    }
    let hidden = report.events.len().saturating_sub(MAX_LINES);
    for event in report.events.iter().skip(hidden) {
        writeln!(out, "- {} {}", local(event.at, zone), escaped(&event.text))?;
    }
    left_out(out, report.events.len() + report.events_left_out, MAX_LINES)
}

/// Returns the span, and how much of it is recorded if there are gaps.
fn recorded_text(report: &UsageReport) -> String {
    let (from, to) = report.span;
    let recorded: Duration = report.recorded.iter().map(|(from, to)| to.since(*from)).sum();
    let text = format_duration(to.since(from));
    if recorded + Duration::from_secs(1) < to.since(from) && !report.recorded.is_empty() {
        return format!("{text}, of which {} are recorded", format_duration(recorded));
    }
    text
}

fn write_totals(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let totals = &report.totals;
    let states = STATES.map(|state| state.replace('_', "-")).into_iter().zip(totals.states);
    let states = states.chain([("not seen".to_owned(), totals.not_seen_seconds())]);
    let states = states.map(|(state, seconds)| format!("{state} {:.2}", seconds / 3600.0));
    let states: Vec<String> = states.collect();
    let watched = totals.watched_seconds / 3600.0;
    let [p50, p95] = totals.percentiles.map(|percent| percent.map(f64::from));
    let rows = [
        ("nodes", format!("{}, of which {} answered", report.nodes.len(), report.nodes_seen)),
        ("devices", report.devices.len().to_string()),
        ("users, jobs", format!("{}, {}", report.users.len(), report.jobs.len())),
        ("coverage", number(totals.coverage_percent(), 1, " %")),
        (
            "utilization",
            format!(
                "{} mean, {} p50, {} p95",
                number(totals.utilization, 2, " %"),
                number(p50, 0, " %"),
                number(p95, 0, " %")
            ),
        ),
        ("memory", number(totals.memory_percent, 2, " %")),
        (
            "power of a device",
            format!(
                "{} mean, {} maximum",
                number(totals.power, 0, " W"),
                number(totals.max_power.map(f64::from), 0, " W")
            ),
        ),
        ("energy", number(totals.energy_kwh, 3, " kWh")),
        ("device-hours", format!("{watched:.2}: {}", states.join(", "))),
    ];
    writeln!(out, "| | |\n|---|---|")?;
    for (name, value) in rows {
        writeln!(out, "| {name} | {value} |")?;
    }
    if let Some(mean) = report.row_mean {
        writeln!(out, "| mean over rows, as rntop-board shows it | {mean:.2} % |")?;
    }
    Ok(())
}

fn write_table<'a>(
    out: &mut impl Write,
    title: &str,
    headings: &[&str],
    rows: impl ExactSizeIterator<Item = (Vec<String>, &'a UsageSummary)>,
) -> io::Result<()> {
    let count = rows.len();
    if count == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\n## {title}\n\n| {} | device-hours | active | idle-held | utilization % | p95 % | memory % | kWh |\n|{}---:|---:|---:|---:|---:|---:|---:|",
        headings.join(" | "),
        "---|".repeat(headings.len())
    )?;
    for (words, summary) in rows.take(MAX_ROWS) {
        let [active, idle_held, ..] = summary.states;
        let [_, p95] = summary.percentiles;
        writeln!(
            out,
            "| {} | {:.2} | {:.2} | {:.2} | {} | {} | {} | {} |",
            words.join(" | "),
            summary.watched_seconds / 3600.0,
            active / 3600.0,
            idle_held / 3600.0,
            number(summary.utilization, 1, ""),
            number(p95.map(f64::from), 0, ""),
            number(summary.memory_percent, 1, ""),
            number(summary.energy_kwh, 3, ""),
        )?;
    }
    left_out(out, count, MAX_ROWS)
}

fn left_out(out: &mut impl Write, count: usize, shown: usize) -> io::Result<()> {
    match count.saturating_sub(shown) {
        0 => Ok(()),
        hidden => writeln!(out, "\n{hidden} more are not shown."),
    }
}

fn number(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}{unit}"))
}

fn local(at: Timestamp, zone: &TimeZone) -> String {
    zoned_text(at, zone, "%Y-%m-%d %H:%M:%S %Z")
}

/// Returns a text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\`*_[]<>|~&".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(if letter.is_control() { ' ' } else { letter });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_markup() {
        assert_eq!(escaped("a|b <script>\n*x*"), r"a\|b \<script\> \*x\*");
    }

    #[test]
    fn an_empty_report_has_no_zeros_for_what_is_unknown() {
        let mut text = Vec::new();
        write_report_markdown(&mut text, &UsageReport::default(), &TimeZone::UTC).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("| utilization | – mean, – p50, – p95 |"), "{text}");
        assert!(text.contains("| energy | – |") && text.contains("| coverage | – |"), "{text}");
    }
}
