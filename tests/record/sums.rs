//! Sums that a recorder writes: reports of them are those of the samples.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gtop::internals::export::{ReportFormat, write_report};
use gtop::internals::report::{ReportFilter, ReportRequest, WrittenSums, report_recordings};
use gtop_collect::record::{Limits, RecorderOptions, Recording, rewrite};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::{Recordings, SumPiece};
use gtop_fleet::query::Filter;
use gtop_local::time::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{START, Session, after, options};

/// How far numbers of sums may be from those of samples: theirs are rounded, a part that is read from a checkpoint on follows
/// the clock of a node anew, and after a break a device is there from its first sample on.
pub const TOLERANCE: f64 = 4e-3;

fn report(path: &Path, request: &ReportRequest) -> Value {
    let recordings = Recordings::open([path]).unwrap();
    let report = report_recordings(&recordings, request, |_| {}).unwrap().unwrap();
    let mut out = Vec::new();
    write_report(&mut out, &report, ReportFormat::Json, &TimeZone::UTC).unwrap();
    sorted(serde_json::from_slice(&out).unwrap())
}

/// Sorts what is in the order of its numbers, which may be equal. How long a device is degraded already is not known from a
/// checkpoint on.
fn sorted(mut report: Value) -> Value {
    for (list, keys) in [
        ("jobs", &["job"][..]),
        ("users", &["user"]),
        ("findings", &["kind", "node", "device", "job", "user"]),
    ] {
        let list = report[list].as_array_mut().unwrap();
        list.retain(|one| one["kind"] != "degraded");
        list.sort_by_cached_key(|one| {
            keys.iter().map(|key| one[*key].to_string()).collect::<Vec<_>>()
        });
    }
    report
}

/// Checks that a report of written sums is that of samples, but for its charts.
pub fn check(path: &Path, request: &ReportRequest, place: &str, tolerance: f64) {
    let [found, expected] = [WrittenSums::Always, WrittenSums::Never].map(|written_sums| {
        report(path, &ReportRequest { written_sums, threads: Some(1), ..request.clone() })
    });
    compare(&found, &expected, place, tolerance);
}

fn compare(found: &Value, expected: &Value, place: &str, tolerance: f64) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()), "{place}");
            for (key, expected) in expected {
                if !matches!(
                    key.as_str(),
                    "series" | "made_at" | "severity" | "sentence" | "answer" | "unheld"
                ) {
                    compare(&found[key], expected, &format!("{place}.{key}"), tolerance);
                }
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{place}");
            for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
                compare(found, expected, &format!("{place}[{number}]"), tolerance);
            }
        }
        (Value::Number(found), Value::Number(expected)) => {
            let [found, expected] = [found, expected].map(|number| number.as_f64().unwrap());
            // A sample may come on the other side of a cut than it was taken.
            let counts =
                ["samples_seen", "coverage_percent"].iter().any(|key| place.ends_with(key));
            let allowed = if counts { 1.01 } else { 0.011 };
            let is_equal = (found - expected).abs() <= allowed + expected.abs() * tolerance;
            assert!(is_equal, "{place}: {found}, of samples {expected}");
        }
        (found, expected) => assert_eq!(found, expected, "{place}"),
    }
}

/// Writes a recording again, with sums of short stretches.
fn again(path: &Path, folder: &Path) -> std::path::PathBuf {
    let again = folder.join("again.gtop");
    rewrite(&Recording::open(path).unwrap().lines(), &again).unwrap();
    again
}

fn matching(text: &str) -> ReportFilter {
    ReportFilter { matching: Filter::of_span(text).unwrap(), ..ReportFilter::default() }
}

fn between(from: Timestamp, to: Timestamp) -> ReportRequest {
    ReportRequest { from: Some(from), to: Some(to), ..ReportRequest::default() }
}

/// A recorder that is killed leaves segments without sums; the next one goes on.
#[test]
fn a_report_of_a_file_of_two_recorders_is_that_of_its_samples() {
    let (spec, folder) = (FleetSpec::demo(3, 1), tempfile::tempdir().unwrap());
    let paths = ["a.gtop", "a.gtop.journal"].map(|name| folder.path().join(name));
    let mut killed = Session::at(&paths[0], &spec, START, options());
    killed.run(100);
    let bytes = paths.clone().map(|path| fs::read(path).unwrap());
    assert!(!bytes[1].is_empty());
    drop(killed);
    for (path, bytes) in paths.iter().zip(bytes) {
        fs::write(path, bytes).unwrap();
    }
    let mut next = Session::at(&paths[0], &spec, after(200), options());
    next.run(100);
    drop(next);
    let recordings = Recordings::open([&*paths[0]]).unwrap();
    let spans = recordings.spans();
    let (start, end) = (spans[0].0, spans[spans.len() - 1].1);
    assert_eq!((spans.len(), super::seconds(end)), (2, 299));
    let pieces = recordings.pieces(start, end);
    assert!(pieces.iter().any(SumPiece::is_written), "{pieces:?}");
    for (from, to) in [(start, end), (after(50), end), (start, after(250)), (after(50), after(210))]
    {
        let place = format!("{} to {}", super::seconds(from), super::seconds(to));
        check(&paths[0], &between(from, to), &place, TOLERANCE);
    }
}

/// Records a fleet with jobs, of which a node goes down and a job ends.
fn recorded() -> Session {
    let spec = FleetSpec::demo(12, 1);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    session.run(70);
    session.go_down("gpu02");
    session.jobs = Some(Arc::new(spec.jobs(START, after(70))));
    session.publish();
    session.run(230);
    session
}

#[test]
fn a_report_of_any_span_and_filter_is_that_of_its_samples() {
    let session = recorded();
    let Session { path, recorder, folder, .. } = session;
    drop(recorder);
    let path = again(&path, folder.as_ref().unwrap().path());
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let (start, end) = recordings.spans()[0];
    let written = recordings.pieces(start, end);
    assert!(written.iter().filter(|piece| piece.is_written()).count() >= 3, "{written:?}");
    let middle = START.plus(Duration::from_millis(30_500));
    let later = START.plus(Duration::from_millis(240_250));
    for (from, to) in [(start, end), (middle, end), (start, later), (middle, later)] {
        let place = format!("{} to {}", super::seconds(from), super::seconds(to));
        check(&path, &between(from, to), &place, TOLERANCE);
    }
    let whole = report(&path, &ReportRequest::default());
    let first = |list: &str, key: &str| whole[list][0][key].as_str().unwrap().to_owned();
    for filter in [
        ReportFilter { jobs: vec![first("jobs", "job")], ..ReportFilter::default() },
        ReportFilter { users: vec![first("users", "user")], ..ReportFilter::default() },
        ReportFilter { nodes: vec!["gpu02".to_owned()], ..ReportFilter::default() },
        matching(&format!("user={} or node=gpu02", first("users", "user"))),
        matching(&format!("name~nvidia not uuid={}", first("devices", "uuid"))),
    ] {
        let place = filter.text();
        check(&path, &ReportRequest { filter, ..ReportRequest::default() }, &place, TOLERANCE);
    }
}

#[test]
fn a_report_of_many_parts_is_that_of_their_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let limits = Limits { keep: Duration::from_secs(400), ..super::NO_LIMITS };
    let spec = FleetSpec::demo(6, 1);
    let options = RecorderOptions { limits, ..options() };
    let mut session = Session::at(&path, &spec, START, options);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    session.run(90);
    session.go_down("gpu02");
    session.run(90);
    drop(session);
    assert!(Recording::parts(&path).len() >= 5);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let pieces = recordings.pieces(START, after(180));
    assert!(pieces.iter().filter(|piece| piece.is_written()).count() >= 5, "{pieces:?}");
    check(&path, &ReportRequest::default(), "parts", TOLERANCE);
}

/// Which of the times count that a clock repeats is decided once, by the samples.
#[test]
fn where_the_clock_of_the_recorder_was_set_back_samples_are_used() {
    let Session { path, recorder, folder, .. } = recorded();
    drop(recorder);
    let step = Duration::from_micros(after(150).as_micros().unsigned_abs()).as_secs_f64();
    let lines = super::lines(&path);
    let set_back = lines.lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if let Some(at) = value["at"].as_f64().filter(|at| *at >= step) {
            value["at"] = (at - 40.0).into();
        }
        value.to_string() + "\n"
    });
    let again = folder.as_ref().unwrap().path().join("again.gtop");
    rewrite(set_back.collect::<String>().as_bytes(), &again).unwrap();
    let recordings = Recordings::open([again.as_path()]).unwrap();
    let (start, end) = (START, after(260));
    let pieces = recordings.pieces(start, end);
    let used = pieces.iter().filter(|piece| recordings.written_sums(piece).is_some()).count();
    assert!(used >= 1, "{pieces:?}");
    check(&again, &ReportRequest::default(), "set back", TOLERANCE);
}

#[test]
fn where_sums_are_damaged_samples_are_used() {
    let session = recorded();
    let Session { path, recorder, folder, .. } = session;
    drop(recorder);
    let path = again(&path, folder.as_ref().unwrap().path());
    let magic = 0x184D_2A5A_u32.to_le_bytes();
    let bytes = fs::read(&path).unwrap();
    let places = bytes.windows(4).zip(0..).filter(|(window, _)| *window == magic);
    let frames: Vec<usize> = places.map(|(_, at)| at).collect();
    assert!(frames.len() >= 3, "{frames:?}");
    for damaged in [&frames[..1], &frames[frames.len() - 1..], &frames] {
        let mut bytes = bytes.clone();
        for at in damaged {
            bytes[at + 30] ^= 4;
        }
        fs::write(&path, &bytes).unwrap();
        let recordings = Recordings::open([path.as_path()]).unwrap();
        let (start, end) = recordings.spans()[0];
        let pieces = recordings.pieces(start, end);
        let read = pieces.iter().filter(|piece| recordings.written_sums(piece).is_some()).count();
        assert_eq!(read, frames.len() - damaged.len());
        check(&path, &ReportRequest::default(), &format!("{} damaged", damaged.len()), TOLERANCE);
    }
}
