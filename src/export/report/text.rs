//! A report as plain text, for mail and for reading: the verdicts first, lines of at most 100 columns, and no markup.

use std::io::{self, Write};

use jiff::tz::TimeZone;

use crate::export::report::ledger::{TIME_HEADINGS, device_time, ledger};
use crate::export::report::markdown::{local, number, recorded_text};
use crate::report::{JobReport, UsageReport, VerdictWord};
use gtop_fleet::Certainty;
use gtop_local::text::{counted, sanitized_chars, width_of};
use gtop_model::nodeset;

/// How each report begins.
pub(super) const MARK: &str = "gtop report: ";
/// Columns of a line.
const WIDTH: u16 = 100;
/// Jobs and users; the number of the others is written.
const MAX_ROWS: usize = 50;
/// Findings.
const MAX_FINDINGS: usize = 20;
/// Columns of the name of a user, and of a number with the space before it.
const NAME_WIDTH: u16 = 14;
const COLUMN_WIDTH: u16 = 9;

/// Writes the report; times are in `zone`.
pub(super) fn write_report_text(
    out: &mut impl Write,
    report: &UsageReport,
    zone: &TimeZone,
) -> io::Result<()> {
    let (from, to) = report.span;
    paragraph(out, "", &format!("{MARK}{}", report.title))?;
    let span = format!("{} to {} ({})", local(from, zone), local(to, zone), recorded_text(report));
    let files = report.files.join(", ");
    let files = if files.is_empty() { files } else { format!(", from {files}") };
    paragraph(out, "", &format!("{span}{files}."))?;
    writeln!(out)?;
    paragraph(out, "", &report.headline)?;
    for note in &report.notes {
        paragraph(out, "  ", &format!("Note: {note}."))?;
    }
    write_jobs(out, report)?;
    write_ledger(out, report)?;
    write_findings(out, report)?;
    heading(out, "Words")?;
    paragraph(out, "", &format!("Judged with: {}.", report.criteria.text()))?;
    for word in VerdictWord::ALL {
        let meaning = word.definition(&report.criteria);
        paragraph(out, "", &format!("{}: {meaning}.", word.as_str()))?;
    }
    Ok(())
}

fn write_jobs(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    if report.jobs.is_empty() {
        return Ok(());
    }
    heading(out, "Jobs")?;
    for job in report.jobs.iter().take(MAX_ROWS) {
        write_job(out, job)?;
    }
    left_out(out, report.jobs.len(), MAX_ROWS)
}

fn write_job(out: &mut impl Write, job: &JobReport) -> io::Result<()> {
    let JobReport { verdict, summary, .. } = job;
    let certainty = match verdict.certainty {
        Certainty::Likely => " (likely)",
        Certainty::Certain | Certainty::Disputed | Certainty::Unknown => "",
    };
    let word = verdict.word.as_str().to_uppercase();
    paragraph(out, "", &format!("{word}{certainty}: {}: {}.", job.title(), verdict.sentence))?;
    let [all, parts @ ..] = device_time(summary).map(|seconds| seconds / 3600.0);
    let parts = TIME_HEADINGS.into_iter().skip(1).zip(parts).filter(|(_, hours)| *hours > 0.0);
    let parts: Vec<String> =
        parts.map(|(heading, hours)| format!("{heading} {hours:.2}")).collect();
    let (nodes, devices) = (nodeset::fold(&job.nodes), counted(job.devices, "device"));
    let parts = parts.join(", ");
    paragraph(out, "    ", &format!("{devices} of {nodes}, {all:.2} device-hours: {parts}."))?;
    let numbers = [
        ("efficiency", number(verdict.efficiency, 1, " %")),
        ("most memory", number(summary.max_memory_percent.map(f64::from), 0, " %")),
        ("energy", number(summary.energy_kwh, 3, " kWh")),
    ];
    let cost = job.cost.map(|cost| ("cost", format!("{cost:.2}")));
    let numbers = numbers.into_iter().chain(cost);
    let numbers: Vec<String> = numbers.map(|(name, value)| format!("{name} {value}")).collect();
    paragraph(out, "    ", &format!("{}.", numbers.join(", ")))?;
    if let Some(used) = job.host.text() {
        paragraph(out, "    ", &format!("{used}."))?;
    }
    if let Some(enough) = verdict.enough {
        paragraph(out, "    ", &format!("Enough: {}.", enough.text()))?;
    }
    if !verdict.remedy.is_empty() {
        paragraph(out, "    ", &format!("-> {}", verdict.remedy))?;
    }
    Ok(())
}

fn write_ledger(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let rows = ledger(report, MAX_ROWS);
    if rows.is_empty() {
        return Ok(());
    }
    heading(out, "Device-hours of users")?;
    let has_cost = rows.iter().any(|row| row.cost.is_some());
    let cost = has_cost.then_some("cost");
    let headings = TIME_HEADINGS.into_iter().map(|heading| heading.trim_start_matches("device-"));
    let headings = headings.chain(["load %", "kWh"]).chain(cost);
    write_row(out, "user", headings.map(str::to_owned))?;
    let mut was_user = true;
    for row in rows {
        if was_user && !row.is_user {
            left_out(out, report.users.len(), MAX_ROWS)?;
            writeln!(out, "{}", "-".repeat(usize::from(NAME_WIDTH)))?;
        }
        was_user = row.is_user;
        let time = device_time(&row.summary).map(|seconds| cell(Some(seconds / 3600.0), 2));
        let rates = [cell(row.summary.utilization, 1), cell(row.summary.energy_kwh, 3)];
        let cost = has_cost.then(|| cell(row.cost, 2));
        write_row(out, row.who, time.into_iter().chain(rates).chain(cost))?;
    }
    Ok(())
}

/// Returns a number with as many digits after the point as fit into a column.
fn cell(value: Option<f64>, digits: usize) -> String {
    let texts = (0..=digits).rev().map(|digits| number(value, digits, ""));
    let shortest = number(value, 0, "");
    texts.into_iter().find(|text| width_of(text) < COLUMN_WIDTH).unwrap_or(shortest)
}

/// Writes a name and numbers, which stand at the right of their columns.
fn write_row(
    out: &mut impl Write,
    name: &str,
    cells: impl Iterator<Item = String>,
) -> io::Result<()> {
    let mut line = fitted(name, NAME_WIDTH);
    for cell in cells {
        let space = COLUMN_WIDTH.saturating_sub(width_of(&cell)).max(1);
        line.extend(std::iter::repeat_n(' ', usize::from(space)));
        line.push_str(&cell);
    }
    writeln!(out, "{line}")
}

fn write_findings(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    if report.findings.is_empty() {
        return Ok(());
    }
    heading(out, "Findings")?;
    for finding in report.findings.iter().take(MAX_FINDINGS) {
        let severity = finding.severity.as_str();
        paragraph(out, "", &format!("{severity}: {}.", finding.text))?;
        if !finding.remedy.is_empty() {
            paragraph(out, "    ", &format!("-> {}", finding.remedy))?;
        }
    }
    left_out(out, report.findings.len(), MAX_FINDINGS)
}

fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}\n", text.to_uppercase())
}

fn left_out(out: &mut impl Write, count: usize, shown: usize) -> io::Result<()> {
    match count.saturating_sub(shown) {
        0 => Ok(()),
        hidden => writeln!(out, "{hidden} more are not shown."),
    }
}

/// Writes a text in lines, of which all but the first are indented by four columns more.
fn paragraph(out: &mut impl Write, indent: &str, text: &str) -> io::Result<()> {
    let text: String = sanitized_chars(text).collect();
    let mut line = indent.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace().flat_map(pieces) {
        if !is_empty && width_of(&line) + 1 + width_of(&word) > WIDTH {
            writeln!(out, "{line}")?;
            line = format!("{indent}    ");
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    writeln!(out, "{line}")
}

/// Returns a word in pieces that fit into a line with its indent.
fn pieces(word: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let is_full = pieces.last().is_some_and(|piece| width_of(piece) >= WIDTH - 10);
        if is_full {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(letter);
        }
    }
    pieces
}

/// Returns a text in so many columns, with spaces or cut.
fn fitted(text: &str, width: u16) -> String {
    let mut fitted = String::new();
    for letter in sanitized_chars(text) {
        let with_letter = format!("{fitted}{letter}");
        if width_of(&with_letter) > width {
            break;
        }
        fitted = with_letter;
    }
    let space = width.saturating_sub(width_of(&fitted));
    fitted.extend(std::iter::repeat_n(' ', usize::from(space)));
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportCriteria, UsageSummary, UserReport};

    #[test]
    fn no_line_is_longer_than_a_mail_allows_and_no_name_is_more_than_text() {
        let long = format!("a\u{1b}[2J\u{202e}{}", "名".repeat(200));
        let summary = UsageSummary {
            watched_seconds: 3.6e12,
            states: [1.8e12, 1.8e12, 0.0, 0.0, 0.0],
            energy_kwh: Some(123_456.789),
            ..UsageSummary::default()
        };
        let user = UserReport { user: long.clone(), jobs: 1, summary, ..UserReport::default() };
        let job = JobReport {
            id: long.clone(),
            name: long.clone(),
            user: long.clone(),
            nodes: vec![long.clone()],
            cost: Some(1e9),
            ..JobReport::default()
        };
        let mut report = UsageReport {
            title: long.clone(),
            notes: vec![format!("{long} and {long}")],
            files: vec![long],
            users: vec![user],
            jobs: vec![job],
            held: summary,
            totals: summary,
            ..UsageReport::default()
        };
        report.judge(ReportCriteria::default());
        let mut text = Vec::new();
        write_report_text(&mut text, &report, &TimeZone::UTC).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with(MARK) && text.contains("NOT JUDGED: a [2J"), "{text}");
        for line in text.lines() {
            assert!(width_of(line) <= WIDTH, "{}: {line}", width_of(line));
            assert!(!line.contains(['\u{1b}', '\u{202e}']), "{line}");
        }
    }
}
