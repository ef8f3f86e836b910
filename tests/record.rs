//! Recordings of simulated fleets: what a replay shows, what damage costs, and who may write a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gtop::internals::export::write_json;
use gtop_collect::record::{
    Header, Limits, Recorder, RecorderOptions, Recording, Thinning, compress_lines,
};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::Pipeline;
use gtop_collect::source::replay::Recordings;
use gtop_collect::wire::{Delivery, DeliverySink, RawUpdate};
use gtop_fleet::insight::events::MarkObserver;
use gtop_fleet::{Fleet, FleetStore};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Fault, FaultKind, JobList, Link, NodeName, SessionUpdate};
use tempfile::TempDir;

use self::sim_feed::SimFeed;

mod automatic;
mod damage;
mod faults;
mod generated;
mod held_reports;
mod program;
mod replays;
mod reports;
mod scrapes;
mod sim_feed;
mod sums;

/// The time at which the simulated fleets start.
pub const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);
/// How much history a node keeps.
pub const HISTORY: Duration = Duration::from_secs(300);

pub const NO_LIMITS: Limits = Limits { keep: Duration::from_secs(86_400), max_bytes: 1 << 30 };

pub fn options() -> RecorderOptions {
    let header = Header { title: "a test".to_owned(), ..Header::default() };
    RecorderOptions { header, thinning: Thinning::Every(Duration::ZERO), limits: NO_LIMITS }
}

/// A live fleet that is recorded: simulated nodes, second by second, on a clock that the test moves.
pub struct Session {
    pub recorder: Recorder,
    pub clock: Clock,
    pub store: Arc<FleetStore>,
    pub feed: SimFeed,
    sinks: Vec<(NodeName, DeliverySink)>,
    pub jobs: Option<Arc<JobList>>,
    observer: MarkObserver,
    start: Timestamp,
    /// Nodes that send nothing.
    down: Vec<NodeName>,
    /// Removed with the session.
    folder: Option<TempDir>,
    pub path: PathBuf,
}

impl Session {
    pub fn start(spec: &FleetSpec) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.gtop");
        Self { folder: Some(folder), ..Self::at(&path, spec, START, options()) }
    }

    pub fn at(path: &Path, spec: &FleetSpec, start: Timestamp, options: RecorderOptions) -> Self {
        let clock = Clock::fixed(start);
        let recorder = Recorder::start(path, options, clock.clone()).unwrap();
        let store = FleetStore::new([], HISTORY);
        let feed = SimFeed::new(spec, start);
        let pipeline = Pipeline::new(Arc::clone(&store)).with_recorder(Some(recorder.sink()));
        let sinks = feed.names().map(|name| (name.clone(), pipeline.sink(name))).collect();
        let mut session = Self {
            recorder,
            clock,
            store,
            feed,
            sinks,
            jobs: None,
            observer: MarkObserver::default(),
            start,
            down: Vec::new(),
            folder: None,
            path: path.into(),
        };
        session.publish();
        session
    }

    /// Passes the roster to the store and the recorder, as the source of live nodes does.
    pub fn publish(&mut self) {
        self.recorder.sink().on_roster(self.feed.names(), self.jobs.clone());
        self.store.set_nodes(self.feed.names(), self.jobs.clone());
        self.observe();
    }

    /// Marks what has happened, as the monitor of live nodes does.
    pub fn observe(&mut self) {
        let fleet = self.fleet();
        for mark in self.observer.observe(&fleet, self.clock.now()) {
            self.recorder.sink().mark(mark);
        }
    }

    pub fn deliver(&mut self, name: &NodeName, raw: impl Into<RawUpdate>) {
        let at = self.clock.now();
        let sink = self.sinks.iter_mut().find(|(known, _)| known == name).unwrap();
        sink.1(Delivery { at, raw: raw.into() });
    }

    /// Runs for some seconds, and closes a group every two. Ends just before the next sample.
    pub fn run(&mut self, seconds: u32) {
        for second in 0..seconds {
            for (name, delivery) in self.feed.next_second() {
                let passed = delivery.at.since(self.clock.now());
                self.clock.advance(passed);
                if !self.down.contains(&name) {
                    self.deliver(&name, delivery.raw);
                }
            }
            self.observe();
            if second % 2 == 1 {
                self.recorder.flush();
            }
        }
        let end = self.start.plus(Duration::from_secs(u64::from(self.feed.second)));
        self.clock.advance(end.minus(Duration::from_millis(1)).since(self.clock.now()));
        self.recorder.flush();
    }

    pub fn go_down(&mut self, node: &str) {
        let fault = Fault::new(FaultKind::SessionLost, "a cable was pulled");
        let event = SessionUpdate::Link(Link::Down { fault, retry_at: Some(self.clock.now()) });
        self.deliver(&NodeName::new(node).unwrap(), event);
        self.fall_silent(node);
        self.observe();
    }

    /// A node sends nothing any more, and stays connected.
    pub fn fall_silent(&mut self, node: &str) {
        self.down.push(NodeName::new(node).unwrap());
    }

    /// A node sends again.
    pub fn speak(&mut self) {
        self.down.clear();
    }

    /// Returns the live fleet.
    pub fn fleet(&self) -> Fleet {
        self.store.set_nodes(self.feed.names(), self.jobs.clone());
        Fleet::clone(&self.store.reader().borrow())
    }
}

pub fn json(fleet: &Fleet, now: Timestamp) -> String {
    let mut out = Vec::new();
    write_json(&mut out, fleet, now, "a test").unwrap();
    String::from_utf8(out).unwrap()
}

pub fn replayed(path: &Path, at: Timestamp) -> Fleet {
    Recordings::open([path]).unwrap().fleet_at(at, HISTORY)
}

/// Returns the end of this many seconds, just before the samples of the next one.
pub fn after(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds)).minus(Duration::from_millis(1))
}

/// Returns whole seconds since the start.
pub fn seconds(at: Timestamp) -> u64 {
    at.plus(Duration::from_millis(1)).since(START).as_secs()
}

/// Returns a recording of a small fleet in groups of lines, which fits into a few kilobytes.
pub fn small_recording(seconds: u32) -> Vec<u8> {
    let mut session = Session::start(&FleetSpec::busy(2, 1, 1, 3));
    session.run(seconds);
    let Session { recorder, folder: _folder, path, .. } = session;
    drop(recorder);
    in_groups(&path)
}

/// Returns the lines of a recording.
pub fn lines(path: &Path) -> String {
    String::from_utf8(Recording::open(path).unwrap().lines()).unwrap()
}

/// Returns the file of a recording in groups of a second, without indexes: as a recorder of format 1 that was killed leaves it.
pub fn in_groups(path: &Path) -> Vec<u8> {
    // Each with its second; `None` for one that has only a checkpoint so far.
    let mut groups: Vec<(Option<u64>, String)> = Vec::new();
    for line in lines(path).lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let at = START.plus(Duration::from_secs_f64(value["at"].as_f64().unwrap() - 1.79e9));
        let has = |key| value.get(key).is_some();
        let second = Some(at.since(START).as_secs()).filter(|_| !has("checkpoint"));
        let line = format!("{line}\n").replace("{\"gtop\":2", "{\"gtop\":1");
        match groups.last_mut() {
            Some((last, lines))
                if if has("checkpoint") {
                    !has("nodes")
                } else {
                    last.is_none() || *last == second
                } =>
            {
                lines.push_str(&line);
                *last = second.or(*last);
            }
            _ if has("start") => groups.push((Some(u64::MAX), line)),
            _ => groups.push((second, line)),
        }
    }
    groups.iter().flat_map(|(_, lines)| compress_lines(lines.as_bytes())).collect()
}
