//! A report as one HTML file that needs nothing else: the data, a script that draws it, and a policy that allows these
//! and nothing else.

use std::fmt::Write as _;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::export::report::json::report_text;
use crate::report::UsageReport;

/// How each page begins.
pub(super) const MARK: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"gtop report\">";

const PAGE: &str = include_str!("../../../page/page.html");
const STYLE: &str = include_str!("../../../page/page.css");
const SCRIPT: &str = include_str!("../../../page/page.js");
/// uPlot draws the charts.
const CHART_STYLE: &str = include_str!("../../../page/uplot.min.css");
const CHART_SCRIPT: &str = include_str!("../../../page/uplot.min.js");
/// To be kept with uPlot, as it asks.
const CHART_LICENCE: &str = include_str!("../../../page/uplot.LICENSE.txt");

/// Writes the page.
pub(super) fn write_report_page(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let data = escaped_json(&report_text(report)?);
    let title = escaped_text(&format!("gtop report: {}", report.title));
    let policy = policy();
    let parts = [
        ("policy", policy.as_str()),
        ("title", &title),
        ("chart_style", CHART_STYLE),
        ("style", STYLE),
        ("data", &data),
        ("chart_licence", CHART_LICENCE),
        ("chart_script", CHART_SCRIPT),
        ("script", SCRIPT),
    ];
    // What is put in may look like a placeholder itself, so the template is written from left to right, once.
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or_default();
        out.write_all(before.as_bytes())?;
        let part = parts.iter().find(|(known, _)| *known == name);
        out.write_all(part.map_or("", |(_, text)| text).as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Allows the styles and scripts of the page, by their hashes.
fn policy() -> String {
    let [chart_style, style, chart_script, script] = [CHART_STYLE, STYLE, CHART_SCRIPT, SCRIPT]
        .map(|text| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text))));
    format!(
        "default-src 'none'; style-src {chart_style} {style}; script-src {chart_script} {script}; base-uri 'none'; form-action 'none'"
    )
}

/// Returns JSON without characters that could end its element.
fn escaped_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string cannot fail.
                write!(text, "\\u{:04x}", u32::from(letter)).ok();
            }
            _ => text.push(letter),
        }
    }
    text
}

fn escaped_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_data_can_be_markup() {
        let report = UsageReport {
            title: "</title><script>alert(1)</script>{{script}} & \u{2028}".to_owned(),
            notes: vec!["</script><script>window.injected = 1</script> <!-- {{data}}".to_owned()],
            ..UsageReport::default()
        };
        let mut page = Vec::new();
        write_report_page(&mut page, &report).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.starts_with(MARK), "{}", page.get(..200).unwrap());
        assert!(!page.contains("window.injected = 1</script>"));
        assert!(!page.contains("alert(1)</script>"));
        // Three scripts of the page, whatever the data says.
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(page.contains("Copyright (c) 2022 Leon Sorokin"), "uPlot's licence is kept");
        assert!(page.contains("{{script}}"), "the title is kept as it is");
    }
}
