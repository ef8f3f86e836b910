//! Recordings that are always there: they fit into their size, and begin while nodes are watched.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::record::{Limits, Recorder, RecorderOptions, RecorderSink};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::Pipeline;
use gtop_collect::source::replay::Recordings;
use gtop_fleet::{Fleet, FleetStore};
use gtop_local::time::{Clock, Timestamp};

use super::sim_feed::SimFeed;
use super::{HISTORY, START, Session, Thinning, after, json, options, replayed, seconds};

/// Returns the size of all files of a folder.
fn size_of(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    files.sum()
}

/// Records nodes for seven times what is kept.
fn record_a_week(spec: &FleetSpec, sample_every: u32, limits: Limits) {
    let folder =
        tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
    let folder = folder.unwrap();
    let path = folder.path().join("auto.gtop");
    let options = RecorderOptions { thinning: Thinning::ToFit, limits, ..options() };
    let mut session = Session::at(&path, spec, START, options);
    session.feed.sample_every = sample_every;
    let day = u32::try_from(limits.keep.as_secs()).unwrap();
    let (mut largest, mut every) = (0, Vec::new());
    for day_end in (1..=7).map(|days| days * day) {
        while session.feed.second < day_end {
            session.run(1);
            largest = largest.max(size_of(folder.path()));
            every.push(session.recorder.state().borrow().every.as_secs());
            every.dedup();
        }
        let recordings = Recordings::open([path.as_path()]).unwrap();
        let spans = recordings.spans();
        let kept = u64::from(day_end) - seconds(spans[0].0);
        println!(
            "day ends at {day_end}: {} bytes, {kept} s in {} spans, every {every:?} s",
            size_of(folder.path()),
            spans.len()
        );
        assert_eq!(spans.len(), 1, "{spans:?}");
        // A part is a twentieth, and the first size is an estimate.
        assert!(kept * 10 >= u64::from(day) * 9, "{kept} s are kept, every {every:?} s");
        let now = after(u64::from(day_end));
        let replayed = recordings.fleet_at(now, HISTORY);
        assert!(replayed.nodes.iter().all(|node| node.freshness(now).is_fresh()));
        assert_eq!(replayed.nodes.len(), session.fleet().nodes.len());
    }
    println!("largest: {largest} bytes, every {every:?} s");
    assert!(largest <= limits.max_bytes / 19 * 20, "{largest}");
}

#[test]
fn seven_times_what_is_kept_stays_within_the_size() {
    let (keep, max_bytes) = (Duration::from_secs(3_600), 570_000);
    record_a_week(&FleetSpec::busy(4, 8, 20, 1), 2, Limits { keep, max_bytes });
}

#[test]
fn a_recorder_that_goes_on_begins_at_the_pace_of_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auto.gtop");
    let limits = Limits { keep: Duration::from_secs(3_600), max_bytes: 570_000 };
    let options = RecorderOptions { thinning: Thinning::ToFit, limits, ..options() };
    let spec = FleetSpec::busy(4, 8, 20, 1);
    let every = |session: &Session| session.recorder.state().borrow().every.as_secs();
    let mut session = Session::at(&path, &spec, START, options.clone());
    session.run(40);
    // More than the estimate, which is of fewer devices and processes.
    let known = every(&session);
    assert!(known > 8, "every {known} s");
    session.run(600);
    let known = every(&session);
    drop(session);
    for start in [1_000, 2_000, 3_000] {
        let clock = Clock::fixed(after(start));
        let recorder = Recorder::start(&path, options.clone(), clock.clone()).unwrap();
        // Its nodes are not known yet.
        assert_eq!(recorder.state().borrow().every.as_secs(), known);
        drop(recorder);
        let mut session = Session::at(&path, &spec, after(start + 10), options.clone());
        session.run(20);
        assert!(every(&session) * 2 >= known, "every {} s, and {known} s", every(&session));
    }
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn a_week_of_64_nodes_stays_within_200_mb() {
    let (keep, max_bytes) = (Duration::from_secs(86_400), 190_000_000);
    record_a_week(&FleetSpec::busy(64, 8, 5, 1), 5, Limits { keep, max_bytes });
}

/// Returns a fleet as JSON, without the times of events, as the clocks of nodes are followed to a tenth of a millisecond, and
/// without what takes longer than it is recorded.
fn shown(fleet: &Fleet, now: Timestamp) -> serde_json::Value {
    let mut shown: serde_json::Value = serde_json::from_str(&json(fleet, now)).unwrap();
    for node in shown["nodes"].as_array_mut().unwrap() {
        for event in node["events"].as_array_mut().unwrap() {
            (event["at"], event["first_at"]) = Default::default();
        }
        node["notes"].as_array_mut().unwrap().clear();
        for device in node["devices"].as_array_mut().unwrap() {
            (device["health"], device["health_reasons"]) = Default::default();
        }
    }
    shown
}

/// Returns the fleet of a store.
fn fleet_of(store: &Arc<FleetStore>, feed: &SimFeed) -> Fleet {
    store.set_nodes(feed.names(), None);
    Fleet::clone(&store.reader().borrow())
}

#[test]
fn a_recorder_that_starts_later_begins_with_the_next_full_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auto.gtop");
    let clock = Clock::fixed(START);
    let sink = RecorderSink::idle(clock.clone());
    let mut feed = SimFeed::new(&FleetSpec::demo(6, 1), START);
    let store = FleetStore::new(feed.names(), HISTORY);
    let pipeline = Pipeline::new(Arc::clone(&store)).with_recorder(Some(sink.clone()));
    let mut sinks: Vec<_> = feed.names().map(|name| pipeline.sink(name)).collect();
    sink.on_roster(feed.names(), None);
    let mut run = |feed: &mut SimFeed, to: u32| {
        while feed.second < to {
            let names: Vec<_> = feed.names().collect();
            for (name, delivery) in feed.next_second() {
                clock.advance(delivery.at.since(clock.now()));
                let number = names.iter().position(|known| *known == name).unwrap();
                sinks[number](delivery);
            }
        }
        clock.advance(after(u64::from(to)).since(clock.now()));
    };
    run(&mut feed, 40);
    for (begins, ends) in [(40, 45), (70, 75)] {
        let recorder = Recorder::start_on(&sink, &path, options()).unwrap();
        // Changes alone say nothing.
        run(&mut feed, begins + 2);
        recorder.flush();
        let fleet = replayed(&path, after(u64::from(begins) + 2));
        assert_eq!(fleet.nodes.len(), 6);
        assert!(fleet.nodes.iter().all(|node| node.hello.is_some()));
        let known = fleet.nodes.iter().filter(|node| node.taken_at() > Some(after(begins.into())));
        assert_eq!(known.count(), 0);
        feed.is_full = true;
        run(&mut feed, ends - 1);
        feed.is_full = false;
        run(&mut feed, ends);
        recorder.flush();
        let now = after(ends.into());
        let shown = [replayed(&path, now), fleet_of(&store, &feed)].map(|fleet| shown(&fleet, now));
        assert_eq!(shown[0], shown[1]);
        drop(recorder);
        // What happens meanwhile is nowhere.
        let size = size_of(folder.path());
        run(&mut feed, begins + 30);
        assert_eq!(size_of(folder.path()), size);
    }
    let spans = Recordings::open([path.as_path()]).unwrap().spans();
    let spans: Vec<_> = spans.iter().map(|(from, to)| (seconds(*from), seconds(*to))).collect();
    assert_eq!(spans, [(40, 45), (70, 75)]);
}
