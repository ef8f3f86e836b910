//! A report as one HTML file that needs nothing else: the data, a script that draws it, and a policy that allows these
//! and nothing else.

use std::fmt::Write as _;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
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

/// Bytes of data from which on they are compressed.
const MAX_PLAIN_DATA: usize = 1 << 20;

/// Writes the page.
pub(super) fn write_report_page(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let (data_type, data) = data_of(&report_text(report)?)?;
    let title = escaped_text(&format!("gtop report: {}", report.title));
    let policy = policy();
    let parts = [
        ("policy", policy.as_str()),
        ("title", &title),
        ("chart_style", CHART_STYLE),
        ("style", STYLE),
        ("data_type", data_type),
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

/// Returns the type of the data and the text of their element: JSON, or that of a large report compressed.
fn data_of(json: &str) -> io::Result<(&'static str, String)> {
    if json.len() <= MAX_PLAIN_DATA {
        return Ok(("application/json", escaped_json(json)));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json.as_bytes())?;
    Ok(("application/gzip", STANDARD.encode(encoder.finish()?)))
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
    use crate::report::{
        DeviceReport, DeviceSteps, JobReport, JobSteps, NodeReport, ReportSteps, UsageSummary,
    };
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    /// Returns numbers below 1,000 that are not regular.
    fn mixed(seed: usize, count: usize) -> impl Iterator<Item = u16> {
        let mix = move |at: usize| (seed * 7_919 + at).wrapping_mul(2_654_435_761) >> 9;
        (0..count).map(move |at| u16::try_from(mix(at) % 1_000).unwrap())
    }

    /// Returns such numbers between 0 and 100.
    fn noise(seed: usize, count: usize) -> impl Iterator<Item = f32> {
        mixed(seed, count).map(|value| f32::from(value) / 10.0)
    }

    fn noisy_summary(seed: usize) -> UsageSummary {
        let value = |number| noise(seed + number, 1).next().map(f64::from);
        UsageSummary {
            watched_seconds: 86_400.0,
            states: [value(0).unwrap() * 111.1, value(1).unwrap() * 77.7, 0.0, 0.0, 0.0],
            utilization: value(2),
            percentiles: [Some(50), Some(99)],
            memory_percent: value(3),
            memory_used: value(4).map(|share| share * 8e8),
            power: value(5).map(|share| share * 7.0),
            energy_kwh: value(6).map(|share| share / 9.0),
            ..UsageSummary::default()
        }
    }

    #[test]
    fn the_page_of_a_thousand_nodes_and_a_day_has_at_most_five_megabytes() {
        const STEPS: usize = 145;
        let ranges = |seed| {
            let values = noise(seed, STEPS);
            values.map(|value| Some([value, value * 0.7, value * 1.2])).collect::<Vec<_>>()
        };
        let known = |seed| noise(seed, STEPS).map(Some).collect::<Vec<_>>();
        let node = |number| NodeReport {
            name: format!("gpu{number:04}"),
            devices: 8,
            down_seconds: 0.0,
            summary: noisy_summary(number),
            steps: ReportSteps {
                utilization: ranges(number),
                memory: ranges(number + 1),
                power: known(number + 2),
            },
        };
        let bytes =
            |seed| mixed(seed, STEPS).map(|value| u8::try_from(value / 10).unwrap()).collect();
        let device = |number: usize| DeviceReport {
            node: format!("gpu{:04}", number / 8),
            index: u32::try_from(number % 8).ok(),
            uuid: format!("GPU-{:032x}", number * 987_654_321),
            model: Some("NVIDIA H100 80GB HBM3".to_owned()),
            summary: noisy_summary(number),
            steps: DeviceSteps { utilization: bytes(number), memory: bytes(number + 3) },
        };
        let job = |number: usize| JobReport {
            id: number.to_string(),
            nodes: (0..4).map(|node| format!("gpu{:04}", number % 900 + node)).collect(),
            summary: noisy_summary(number),
            steps: (number < 300).then(|| JobSteps {
                first: 0,
                utilization: known(number),
                memory: known(number + 1),
            }),
            ..JobReport::default()
        };
        let report = UsageReport {
            nodes: (0..1_000).map(node).collect(),
            devices: (0..8_000).map(device).collect(),
            jobs: (0..2_000).map(job).collect(),
            ..UsageReport::default()
        };
        let mut page = Vec::new();
        write_report_page(&mut page, &report).unwrap();
        assert!(page.len() < 5_000_000, "{}", page.len());
    }

    #[test]
    fn large_data_are_compressed() {
        let json = format!("[\"{}\"]", "<a>".repeat(MAX_PLAIN_DATA / 3));
        let (data_type, data) = data_of(&json).unwrap();
        assert_eq!(data_type, "application/gzip");
        let (mut read, bytes) = (String::new(), STANDARD.decode(&data).unwrap());
        GzDecoder::new(&*bytes).read_to_string(&mut read).unwrap();
        assert!(read == json && data.len() < json.len() / 100, "{}", data.len());
        assert_eq!(data_of("[1]").unwrap(), ("application/json", "[1]".to_owned()));
    }

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
