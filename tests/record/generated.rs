//! Recordings that `tests/clients/generate` makes up, written again: nothing of them is lost or changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gtop::internals::export::{ReportFormat, write_report};
use gtop::internals::report::{ReportRequest, UsageReport, report_recordings};
use gtop_collect::record::{Recording, rewrite};
use gtop_collect::source::replay::Recordings;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::reports::check_ledger;
use super::sums;

const SCENARIOS: [&str; 20] = [
    "mixed",
    "training",
    "inference",
    "notebook",
    "turns",
    "neighbours",
    "gap",
    "down",
    "replaced",
    "clock",
    "clock-back",
    "mig",
    "hung",
    "unseen-end",
    "ecc",
    "held-cold",
    "imbalance",
    "throttled",
    "shared",
    "lost",
];

/// Makes up a recording in a folder of its own.
fn make_up(folder: &Path, scenario: &str, seed: usize) -> PathBuf {
    fs::create_dir(folder).unwrap();
    let path = folder.join("fleet.gtop");
    let values = if seed.is_multiple_of(2) { "noisy" } else { "smooth" };
    let words = ["--nodes", "2", "--hours", "0.15", "--scenario", scenario, "--values", values];
    let status = Command::new("python3")
        .arg("tests/clients/generate")
        .args(words)
        .args(["--seed", &seed.to_string(), "--out"])
        .arg(&path)
        .status();
    assert!(status.unwrap().success(), "{scenario}");
    path
}

/// Writes the lines of a recording again, in a folder of its own.
fn written_again(original: &Path, folder: &Path) -> PathBuf {
    fs::create_dir(folder).unwrap();
    let again = folder.join("fleet.gtop");
    rewrite(&Recording::open(original).unwrap().lines(), &again).unwrap();
    again
}

/// Returns all lines but those with which recorders start.
fn lines(path: &Path) -> Vec<String> {
    let all = super::lines(path);
    all.lines().filter(|line| !line.contains("\"start\":{\"gtop\"")).map(str::to_owned).collect()
}

fn report(paths: &[&Path]) -> UsageReport {
    let request = ReportRequest { threads: Some(1), ..ReportRequest::default() };
    let recordings = Recordings::open(paths.iter().copied()).unwrap();
    report_recordings(&recordings, &request, |_| {}).unwrap().unwrap()
}

/// Returns a report as JSON, without the time at which it was made.
fn json_of(report: &UsageReport) -> Value {
    let mut out = Vec::new();
    write_report(&mut out, report, ReportFormat::Json, &TimeZone::UTC).unwrap();
    let mut found: Value = serde_json::from_slice(&out).unwrap();
    found["made_at"] = Value::Null;
    found
}

#[test]
fn made_up_recordings_are_the_same_in_columns_and_their_sums_those_of_samples() {
    std::thread::scope(|threads| {
        for (seed, scenario) in SCENARIOS.into_iter().enumerate() {
            threads.spawn(move || check(scenario, seed));
        }
    });
}

fn check(scenario: &str, seed: usize) {
    let folder = tempfile::tempdir().unwrap();
    let original = make_up(&folder.path().join("original"), scenario, seed);
    let again = written_again(&original, &folder.path().join("again"));
    let [expected, found] = [&original, &again].map(|path| lines(path));
    assert!(expected.len() > 50 && found == expected, "{scenario}");
    let [expected, found] = [&original, &again].map(|path| report(&[path]));
    assert_eq!(json_of(&found), json_of(&expected), "{scenario}");
    check_ledger(&found);
    // Jobs of the one are still listed where devices of the other come and go.
    let other = make_up(&folder.path().join("other"), scenario, seed + 2);
    check_ledger(&report(&[&again, &other]));
    let recordings = Recordings::open([again.as_path()]).unwrap();
    assert_eq!(recordings.loss(), None, "{scenario}");
    let spans = recordings.spans();
    let (start, end) = (spans[0].0, spans[spans.len() - 1].1);
    let pieces = recordings.pieces(start, end);
    let written = pieces.iter().filter(|piece| recordings.written_sums(piece).is_some()).count();
    assert!(written >= 2, "{scenario}: {written}");
    let third = end.since(start) / 3;
    let cut = ReportRequest {
        from: Some(start.plus(third)),
        to: Some(end.minus(third / 2)),
        ..ReportRequest::default()
    };
    // Which samples count of a time that a clock repeats depends on where it is cut.
    let tolerance = if scenario == "clock-back" { 0.04 } else { sums::TOLERANCE };
    sums::check(&again, &ReportRequest::default(), scenario, tolerance);
    sums::check(&again, &cut, &format!("{scenario}, cut"), tolerance);
}
