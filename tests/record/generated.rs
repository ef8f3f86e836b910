//! Recordings that `tests/clients/generate` makes up, written again: nothing of them is lost or changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gtop::internals::export::{ReportFormat, write_report};
use gtop::internals::report::{ReportRequest, report_recordings};
use gtop_collect::record::{Recording, rewrite};
use gtop_collect::source::replay::Recordings;
use jiff::tz::TimeZone;
use serde_json::Value;

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

/// Makes up a recording, and returns the files of it and of what is written again of its lines.
fn made_up(folder: &Path, scenario: &str, seed: usize) -> [PathBuf; 2] {
    let [original, again] = ["original", "again"].map(|name| folder.join(name).join("fleet.gtop"));
    for path in [&original, &again] {
        fs::create_dir(path.parent().unwrap()).unwrap();
    }
    let values = if seed.is_multiple_of(2) { "noisy" } else { "smooth" };
    let words = ["--nodes", "2", "--hours", "0.15", "--scenario", scenario, "--values", values];
    let status = Command::new("python3")
        .arg("tests/clients/generate")
        .args(words)
        .args(["--seed", &seed.to_string(), "--out"])
        .arg(&original)
        .status();
    assert!(status.unwrap().success(), "{scenario}");
    rewrite(&Recording::open(&original).unwrap().lines(), &again).unwrap();
    [original, again]
}

/// Returns all lines but those with which recorders start.
fn lines(path: &Path) -> Vec<String> {
    let all = super::lines(path);
    all.lines().filter(|line| !line.contains("\"start\":{\"gtop\"")).map(str::to_owned).collect()
}

/// Returns a report as JSON, without the time at which it was made.
fn report(path: &Path) -> Value {
    let request = ReportRequest { threads: Some(1), ..ReportRequest::default() };
    let recordings = Recordings::open([path]).unwrap();
    let report = report_recordings(&recordings, &request, |_| {}).unwrap().unwrap();
    let mut out = Vec::new();
    write_report(&mut out, &report, ReportFormat::Json, &TimeZone::UTC).unwrap();
    let mut found: Value = serde_json::from_slice(&out).unwrap();
    found["made_at"] = Value::Null;
    found
}

#[test]
fn made_up_recordings_are_the_same_in_columns_and_their_sums_those_of_samples() {
    std::thread::scope(|threads| {
        for (seed, scenario) in
            SCENARIOS.into_iter().enumerate().filter(|(_, s)| *s == "clock-back")
        {
            threads.spawn(move || check(scenario, seed));
        }
    });
}

fn check(scenario: &str, seed: usize) {
    let folder = tempfile::tempdir().unwrap();
    let [original, again] = made_up(folder.path(), scenario, seed);
    let [expected, found] = [&original, &again].map(|path| lines(path));
    assert!(expected.len() > 50 && found == expected, "{scenario}");
    assert_eq!(report(&again), report(&original), "{scenario}");
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
