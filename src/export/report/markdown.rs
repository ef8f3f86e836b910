//! A report as Markdown: what a person wants to see, for a terminal, an issue or a mail.

use std::io::{self, Write};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::export::report::STATES;
use crate::export::report::ledger::{TIME_HEADINGS, device_time, ledger};
use crate::export::time_format::zoned_text;
use crate::report::{JobReport, ReportCriteria, UsageReport, UsageSummary, VerdictWord};
use gtop_local::text::UNKNOWN;
use gtop_local::time::{Timestamp, format_duration};
use gtop_model::nodeset;

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
    writeln!(out, "**{}**\n", escaped(&report.headline))?;
    for note in &report.notes {
        writeln!(out, "> {}\n", escaped(note))?;
    }
    write_jobs(out, report)?;
    write_users(out, report)?;
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
    writeln!(out, "\n## Numbers\n")?;
    write_totals(out, report)?;
    write_nodes(out, report)?;
    if !report.events.is_empty() {
        writeln!(out, "\n## Latest events\n")?;
    }
    let hidden = report.events.len().saturating_sub(MAX_LINES);
    for event in report.events.iter().skip(hidden) {
        writeln!(out, "- {} {}", local(event.at, zone), escaped(&event.text))?;
    }
    left_out(out, report.events.len() + report.events_left_out, MAX_LINES)?;
    write_words(out, &report.criteria)
}

/// Writes what each word means.
fn write_words(out: &mut impl Write, criteria: &ReportCriteria) -> io::Result<()> {
    writeln!(out, "\n## Words\n\nJudged with: {}.\n", escaped(&criteria.text()))?;
    for word in VerdictWord::ALL {
        writeln!(out, "- {}: {}", word.as_str(), word.definition(criteria))?;
    }
    Ok(())
}

/// Returns the span, and how much of it is recorded if there are gaps.
pub(super) fn recorded_text(report: &UsageReport) -> String {
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

fn write_jobs(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let rows = report.jobs.iter().take(MAX_ROWS).map(|job| {
        let JobReport { id, name, user, verdict, summary, .. } = job;
        let words =
            [verdict.word.as_str(), id, name, user, &nodeset::fold(&job.nodes)].map(escaped);
        let rates = [
            number(verdict.efficiency, 1, ""),
            number(summary.max_memory_percent.map(f64::from), 0, ""),
            number(summary.energy_kwh, 3, ""),
        ];
        let sentence = match verdict.enough {
            Some(enough) => format!("{}; enough: {}", verdict.sentence, enough.text()),
            None => verdict.sentence.clone(),
        };
        let used = job.host.text().map(|used| format!("; {used}"));
        let sentence = sentence + &used.unwrap_or_default();
        let cost = number(job.cost, 2, "");
        let cells = words.into_iter().chain(hours_cells(summary)).chain(rates);
        cells.chain([cost, escaped(&sentence)]).collect()
    });
    let headings = ["verdict", "job", "name", "user", "nodes"].into_iter().map(Column::Text);
    let rates = ["efficiency %", "most memory %", "kWh", "cost"].map(Column::Number);
    let headings = headings.chain(TIME_HEADINGS.map(Column::Number)).chain(rates);
    write_table(out, "Jobs", &headings.chain([Column::Text("why")]).collect::<Vec<_>>(), rows)?;
    left_out(out, report.jobs.len(), MAX_ROWS)
}

fn write_users(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let rows = ledger(report, MAX_ROWS).into_iter().map(|row| {
        let who = if row.is_user { escaped(row.who) } else { format!("**{}**", row.who) };
        let jobs = row.jobs.map_or_else(String::new, |jobs| jobs.to_string());
        let rates = [
            number(row.summary.utilization, 1, ""),
            number(row.summary.energy_kwh, 3, ""),
            number(row.cost, 2, ""),
        ];
        [who, jobs].into_iter().chain(hours_cells(&row.summary)).chain(rates).collect()
    });
    let rates = ["efficiency %", "kWh", "cost"].map(Column::Number);
    let headings = [Column::Text("user"), Column::Number("jobs")].into_iter();
    let headings = headings.chain(TIME_HEADINGS.map(Column::Number)).chain(rates);
    write_table(out, "Users", &headings.collect::<Vec<_>>(), rows)?;
    left_out(out, report.users.len(), MAX_ROWS)
}

fn write_nodes(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let rows = report.nodes.iter().take(MAX_ROWS).map(|node| {
        let [_, p95] = node.summary.percentiles;
        let rates = [
            number(node.summary.utilization, 1, ""),
            number(p95.map(f64::from), 0, ""),
            number(node.summary.memory_percent, 1, ""),
            number(node.summary.energy_kwh, 3, ""),
        ];
        [escaped(&node.name)].into_iter().chain(hours_cells(&node.summary)).chain(rates).collect()
    });
    let rates = ["utilization %", "p95 %", "memory %", "kWh"].map(Column::Number);
    let headings = [Column::Text("node")].into_iter();
    let headings = headings.chain(TIME_HEADINGS.map(Column::Number)).chain(rates);
    write_table(out, "Nodes", &headings.collect::<Vec<_>>(), rows)?;
    left_out(out, report.nodes.len(), MAX_ROWS)
}

/// A column of a table.
#[derive(Clone, Copy)]
enum Column {
    Text(&'static str),
    Number(&'static str),
}

/// Writes a table, if it has rows, without the columns that have no known value.
fn write_table(
    out: &mut impl Write,
    title: &str,
    columns: &[Column],
    rows: impl Iterator<Item = Vec<String>>,
) -> io::Result<()> {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let is_shown = |number: usize| {
        let cells = rows.iter().filter_map(|row| row.get(number));
        cells.clone().any(|cell| !cell.is_empty() && cell != UNKNOWN)
    };
    let shown: Vec<usize> = (0..columns.len()).filter(|number| is_shown(*number)).collect();
    let columns = shown.iter().filter_map(|number| columns.get(*number));
    let (names, marks): (Vec<&str>, Vec<&str>) = columns
        .map(|column| match column {
            Column::Text(name) => (*name, "---"),
            Column::Number(name) => (*name, "---:"),
        })
        .unzip();
    writeln!(out, "\n## {title}\n\n| {} |\n|{}|", names.join(" | "), marks.join("|"))?;
    for row in &rows {
        let cells = shown.iter().filter_map(|number| row.get(*number));
        let cells: Vec<&str> = cells.map(String::as_str).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// Returns the device-time of a row in hours.
fn hours_cells(summary: &UsageSummary) -> [String; 6] {
    device_time(summary).map(|seconds| format!("{:.2}", seconds / 3600.0))
}

fn left_out(out: &mut impl Write, count: usize, shown: usize) -> io::Result<()> {
    match count.saturating_sub(shown) {
        0 => Ok(()),
        hidden => writeln!(out, "\n{hidden} more are not shown."),
    }
}

pub(super) fn number(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.digits$}{unit}"))
}

pub(super) fn local(at: Timestamp, zone: &TimeZone) -> String {
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
