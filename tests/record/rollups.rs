//! Sums that a recorder writes: they are those of the samples, and those of reports.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use gtop::internals::report::{ReportRequest, report_recordings};
use gtop_collect::record::{Recording, Rollup};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::Recordings;
use gtop_fleet::usage::DeviceUsage;
use gtop_local::time::Timestamp;

use super::{START, Session, after, options};

/// A recorder that is killed leaves segments without the sums of their stretch; the next one goes on.
#[test]
fn the_sums_of_a_file_of_two_recorders_are_those_of_its_samples() {
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
    for (from, to) in [(start, end), (after(50), end), (start, after(250)), (after(50), after(210))]
    {
        let place = format!("{} to {}", super::seconds(from), super::seconds(to));
        let found = recordings.rollup(from, to);
        assert!(found.0.len() > 10, "{place}: {}", found.0.len());
        assert_equal(&found, &recordings.rollup_of_samples(from, to), &place);
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
    session.run(110);
    session
}

/// Returns what is added up of a device, in one list, without what depends on more than is read from a checkpoint on: whether it
/// was slower than it should be for long.
fn numbers(usage: &DeviceUsage) -> Vec<f64> {
    const MIB: f64 = 1_048_576.0;
    let maxima = usage.maxima().map(|value| value.map_or(-1.0, f64::from));
    let means = [usage.utilization, usage.power];
    let means = means.into_iter().flat_map(|mean| [mean.sum, mean.seconds]);
    let memory = [usage.memory_used.sum / MIB, usage.memory_used.seconds, usage.memory_total / MIB];
    let others = [usage.energy.unwrap_or(-1.0), usage.throttled_seconds];
    let all = usage.states.into_iter().chain(*usage.by_percent).chain(maxima).chain(means);
    all.chain(memory).chain(others).collect()
}

pub fn assert_equal(found: &Rollup, expected: &Rollup, place: &str) {
    let keys = |rollup: &Rollup| rollup.0.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{place}");
    for (key, usage) in &expected.0 {
        for (found, expected) in numbers(&found.0[key]).into_iter().zip(numbers(usage)) {
            let is_equal = (found - expected).abs() <= 0.01 + expected.abs() * 1e-6;
            assert!(is_equal, "{place}, {key:?}: {found}, of samples {expected}");
        }
    }
}

#[test]
fn the_sums_of_any_span_are_those_of_its_samples() {
    let session = recorded();
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let (start, end) = recordings.spans()[0];
    let middle = START.plus(Duration::from_millis(30_500));
    let later = START.plus(Duration::from_millis(140_250));
    for (from, to) in
        [(start, end), (middle, end), (start, later), (middle, later), (middle, after(40))]
    {
        let found = recordings.rollup(from, to);
        let place = format!("{} to {}", super::seconds(from), super::seconds(to));
        assert!(found.0.len() > 50, "{place}: {}", found.0.len());
        assert_equal(&found, &recordings.rollup_of_samples(from, to), &place);
    }
    let degraded =
        |rollup: &Rollup| rollup.0.values().map(|usage| usage.degraded_seconds).sum::<f64>();
    let [found, expected] =
        [recordings.rollup(start, end), recordings.rollup_of_samples(start, end)];
    assert!(degraded(&expected) > 1.0 && (degraded(&found) - degraded(&expected)).abs() < 0.1);
    let recording = Recording::open(&path).unwrap();
    let written: Vec<_> =
        recording.segments().iter().filter_map(|one| recording.rollup(one)).collect();
    assert!(written.len() > 4, "{}", written.len());
    assert_eq!((written[0].0.0, written[written.len() - 1].0.1), (start, end));
    assert!(written.windows(2).all(|two| two[0].0.1 == two[1].0.0));
}

#[test]
fn the_sums_are_those_of_a_report() {
    let session = recorded();
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let (start, end) = recordings.spans()[0];
    let mut all = DeviceUsage::default();
    for usage in recordings.rollup(start, end).0.values() {
        all += usage;
    }
    let report = report_recordings(&recordings, &ReportRequest::default(), |_| {});
    let totals = report.unwrap().unwrap().totals;
    for (found, expected) in all.states.into_iter().zip(totals.states) {
        let is_equal = (found - expected).abs() < 1.0;
        assert!(is_equal, "{:?}, of the report {:?}", all.states, totals.states);
    }
    let means = [all.utilization.get(), totals.utilization].map(Option::unwrap);
    assert!((means[0] - means[1]).abs() < 0.05, "{means:?}");
    assert_eq!(all.percentile(0.5), totals.percentiles[0]);
}

#[test]
fn where_sums_are_damaged_or_of_other_rules_samples_are_used() {
    let session = recorded();
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let (start, end): (Timestamp, Timestamp) = recordings.spans()[0];
    let expected = recordings.rollup_of_samples(start, end);
    let magic = 0x184D_2A5A_u32.to_le_bytes();
    let bytes = fs::read(&path).unwrap();
    let places = bytes.windows(4).zip(0..).filter(|(window, _)| *window == magic);
    let frames: Vec<usize> = places.map(|(_, at)| at).collect();
    let written = || {
        let recording = Recording::open(&path).unwrap();
        recording.segments().iter().filter_map(|one| recording.rollup(one)).count()
    };
    // The last frame has the sums of all segments.
    assert_eq!(written(), frames.len() - 1);
    for damaged in [&frames[..1], &frames[frames.len() - 1..], &frames[frames.len() - 2..], &frames]
    {
        let mut bytes = bytes.clone();
        for at in damaged {
            bytes[at + 30] ^= 4;
        }
        fs::write(&path, &bytes).unwrap();
        let of_segments = damaged.iter().filter(|at| **at != frames[frames.len() - 1]).count();
        assert_eq!(written(), frames.len() - 1 - of_segments);
        let recordings = Recordings::open([path.as_path()]).unwrap();
        let place = format!("{} damaged", damaged.len());
        assert_equal(&recordings.rollup(start, end), &expected, &place);
    }
}
