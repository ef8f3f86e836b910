//! Reports as a page, as JSON, as Markdown, as plain text and as tables: the same numbers in each.

use std::io::{self, Write};

use jiff::tz::TimeZone;

use crate::export::report::csv::write_report_csv;
use crate::export::report::jobs::write_report_jobs;
use crate::export::report::json::write_report_json;
use crate::export::report::markdown::write_report_markdown;
use crate::export::report::page::write_report_page;
use crate::export::report::text::write_report_text;
use crate::report::UsageReport;

mod csv;
mod jobs;
mod json;
mod ledger;
mod markdown;
mod page;
mod text;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// A page for browsers.
    Html,
    /// Text for people and for issues.
    Markdown,
    /// All of it, for programs.
    Json,
    /// A table of all numbers.
    Csv,
    /// Plain text for mail.
    Text,
    /// A line of JSON for each job.
    Jobs,
}

impl ReportFormat {
    /// Returns the format that a file with this ending has.
    pub fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension {
            "html" | "htm" => Self::Html,
            "md" => Self::Markdown,
            "json" => Self::Json,
            "csv" => Self::Csv,
            "txt" => Self::Text,
            "ndjson" => Self::Jobs,
            _ => return None,
        })
    }

    /// Returns true if the file is a report in this format, or empty.
    pub fn is_report(self, content: &[u8]) -> bool {
        let mark = match self {
            Self::Html => page::MARK,
            Self::Markdown => markdown::MARK,
            Self::Json => json::MARK,
            Self::Csv => csv::MARK,
            Self::Text => text::MARK,
            Self::Jobs => jobs::MARK,
        };
        content.is_empty() || content.starts_with(mark.as_bytes())
    }
}

/// Writes a report; times in texts are in `zone`.
pub fn write_report(
    out: &mut impl Write,
    report: &UsageReport,
    format: ReportFormat,
    zone: &TimeZone,
) -> io::Result<()> {
    match format {
        ReportFormat::Html => write_report_page(out, report),
        ReportFormat::Markdown => write_report_markdown(out, report, zone),
        ReportFormat::Json => write_report_json(out, report),
        ReportFormat::Csv => write_report_csv(out, report),
        ReportFormat::Text => write_report_text(out, report, zone),
        ReportFormat::Jobs => write_report_jobs(out, report),
    }
}

/// Names of the states in files, in the order of `LastState`.
const STATES: [&str; crate::report::STATES] = ["active", "idle_held", "free", "faulty", "unknown"];

/// Rounds to this many digits after the point, so that files stay small.
fn rounded(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    let result = (value * factor).round() / factor;
    if result.is_finite() { result } else { value }
}
