//! Collects what happens into groups of lines, with a checkpoint of every node from time to time.
//!
//! Sessions and the scheduler report here; the thread of `writer` takes the groups. Each node has its own lock, so that a
//! checkpoint holds up one node at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use crate::record::line::{self, Header, NodeLines};
use crate::record::line_group::LineGroup;
use crate::record::pace::{Pace, RecordedPace, Thinning};
use crate::record::writer::{Limits, RecordError, Writer};
use crate::wire::body::{self, Body};
use crate::wire::{Delivery, Frame, MergedSample, RawUpdate, encode_text};
use gtop_local::lock::lock;
use gtop_local::time::{Clock, ClockOffset, Timestamp, format_duration};
use gtop_model::{
    Device, JobList, Link, Mark, MarkKind, NodeName, RecorderState, SessionUpdate, Source,
    TransportKind,
};

/// A group closes after this time, or with this many bytes of lines.
pub(super) const GROUP_SPAN: Duration = Duration::from_secs(2);
const GROUP_BYTES: usize = 4 << 20;
/// Maximum bytes of lines that wait while the file cannot be written; further ones are lost, which is recorded.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// Minimum time between two checkpoints, and how many samples of a node are between them if fewer than one per second are
/// recorded. With half as many checkpoints, a jump among 64 nodes takes 85 ms instead of 55, and a file is 7 % smaller.
const MIN_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(28);
const CHECKPOINT_SAMPLES: u32 = 28;
/// Maximum time without a line: a longer silence is one of the recorder.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time for the last group to be written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Samples that a checkpoint repeats as sent: processes are in every other one.
const LAST_SAMPLES: usize = 2;
/// Events of a node that a checkpoint repeats.
const MAX_EVENTS: usize = 64;

/// What and how to record.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The first line of the run.
    pub header: Header,
    /// Which samples are recorded.
    pub thinning: Thinning,
    /// What is kept.
    pub limits: Limits,
}

/// A running recorder. Dropping it writes what is collected and closes the file.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    shared: Arc<RecorderShared>,
    /// Ends with the thread.
    ended: Receiver<()>,
    state: watch::Receiver<RecorderState>,
}

/// Takes the events of nodes, whether or not there is a recorder; cheap to clone.
#[derive(Clone, Debug)]
pub struct RecorderSink(Arc<RecorderShared>);

#[derive(Debug)]
pub(super) struct RecorderShared {
    lines: Mutex<Lines>,
    /// A group is full, or the recorder stops.
    is_due: Condvar,
    clock: Clock,
    /// A recorder takes the lines. Until then, of what nodes send only that is kept which they do not repeat.
    is_recording: AtomicBool,
    /// Minimum time between two recorded samples of a node, in microseconds; zero records each.
    every: AtomicU64,
}

/// The lines that are not written yet, and what a checkpoint needs.
#[derive(Debug, Default)]
struct Lines {
    group: LineGroup,
    nodes: BTreeMap<NodeName, Arc<Mutex<NodeState>>>,
    roster: Vec<NodeName>,
    jobs: Option<Arc<JobList>>,
    /// The time of the last line.
    last_at: Option<Timestamp>,
    /// Since when lines are dropped because too many wait.
    lost_since: Option<Timestamp>,
    is_stopping: bool,
    /// How often it was requested to write at once, and how many of these requests are done.
    flushes: (u64, u64),
}

/// An event of a node.
#[derive(Debug)]
struct ToldEvent {
    at: Timestamp,
    event: body::Event,
    text: Bytes,
}

/// What a checkpoint repeats of a node.
#[derive(Debug, Default)]
struct NodeState {
    offset: ClockOffset,
    via: Option<TransportKind>,
    interval: Option<Duration>,
    /// The minimum time between two recorded samples; zero if each is recorded.
    every: Duration,
    link: Option<Link>,
    /// Why it was down, until it is up.
    down: Option<Link>,
    hello: Option<(f64, String, Bytes)>,
    /// All samples but the last ones, which are repeated as sent, so that a reader has two for rates.
    merged: MergedSample,
    last: VecDeque<(Timestamp, Box<Frame>)>,
    /// The last pages of metrics, each of which has all values; there are two for rates, too.
    scrapes: VecDeque<(Timestamp, Arc<str>)>,
    /// The devices that are gone.
    gone: Vec<(Source, Device)>,
    /// The last error of each source.
    errors: BTreeMap<String, (f64, Bytes)>,
    /// The events, each with its time; of many, equal ones are one that counts them.
    events: VecDeque<ToldEvent>,
    /// What came since the last sample that was written, if not each is.
    unwritten: MergedSample,
    written_at: Option<Timestamp>,
}

impl Recorder {
    /// Opens the file and starts to record.
    pub fn start(path: &Path, options: RecorderOptions, clock: Clock) -> Result<Self, RecordError> {
        Self::start_on(&RecorderSink::idle(clock), path, options)
    }

    /// Opens the file and starts to record what a sink takes, which no other recorder may do. Nodes that are already watched
    /// are recorded from their next full sample on.
    pub fn start_on(
        sink: &RecorderSink,
        path: &Path,
        options: RecorderOptions,
    ) -> Result<Self, RecordError> {
        let shared = Arc::clone(&sink.0);
        let RecorderOptions { header, thinning, limits } = options;
        let header = Header { alive: Some(ALIVE_INTERVAL.as_secs_f64()), ..header };
        let began = shared.clock.now();
        let recorded = (thinning == Thinning::ToFit).then(|| RecordedPace::of(path)).flatten();
        let writer = Writer::open(path, header, limits, began)?;
        let mut pace = Pace::new(thinning, limits, recorded);
        shared.follow(&mut pace);
        pace.on_written(began, writer.written_bytes());
        let (publisher, state) = watch::channel(writer.state(pace.every(), None));
        shared.begin(writer.previous_end);
        let for_thread = Arc::clone(&shared);
        let (ended_sender, ended) = channel();
        thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                write_groups(&for_thread, writer, pace, &publisher, began);
                drop(ended_sender);
            })
            .map_err(RecordError::Thread)?;
        Ok(Self { path: path.to_owned(), shared, ended, state })
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what takes the events.
    pub fn sink(&self) -> RecorderSink {
        RecorderSink(Arc::clone(&self.shared))
    }

    /// Writes what is collected and waits until it is in the file, or cannot be written.
    #[cfg(feature = "testing")]
    pub fn flush(&self) {
        let mut lines = self.shared.lock();
        lines.flushes.0 += 1;
        let request = lines.flushes.0;
        self.shared.is_due.notify_all();
        // An error means that another thread has panicked, which is shown.
        drop(
            self.shared
                .is_due
                .wait_while(lines, |lines| lines.flushes.1 < request && !lines.is_stopping),
        );
    }

    /// Returns the state as it changes.
    pub fn state(&self) -> watch::Receiver<RecorderState> {
        self.state.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.end();
        // The sender sends nothing. After the timeout, the disk hangs, which must not delay the exit.
        self.ended.recv_timeout(SHUTDOWN_TIMEOUT).ok();
    }
}

/// Writes groups until the recorder stops.
fn write_groups(
    shared: &RecorderShared,
    mut writer: Writer,
    mut pace: Pace,
    publisher: &watch::Sender<RecorderState>,
    began: Timestamp,
) {
    let mut checkpoint_at = began;
    loop {
        let (is_stopping, flushes) = shared.wait_until_due();
        let now = shared.clock.now();
        let interval = MIN_CHECKPOINT_INTERVAL.max(pace.every() * CHECKPOINT_SAMPLES);
        let ends_segment = now.since(checkpoint_at) >= interval
            || writer.is_part_full(now)
            || shared.has_lost()
            || writer.take_needs_checkpoint();
        let lost_since = if ends_segment { writer.take_lost() } else { None };
        let group = if is_stopping {
            shared.take_last(now)
        } else {
            shared.take_group(now, ends_segment, lost_since)
        };
        let mut written = writer.write(group);
        if is_stopping {
            written = written.and_then(|()| writer.finish());
        } else if ends_segment {
            let is_full = writer.is_part_full(now);
            written = written
                .and_then(|()| if is_full { writer.start_part(now) } else { writer.end_segment() });
            shared.add_checkpoint();
            checkpoint_at = now;
            pace.on_written(now, writer.written_bytes());
        }
        shared.follow(&mut pace);
        publisher.send_replace(writer.state(pace.every(), written.as_ref().err()));
        shared.lock().flushes.1 = flushes;
        shared.is_due.notify_all();
        if is_stopping {
            return;
        }
    }
}

impl RecorderShared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        // A panic elsewhere leaves at most an incomplete line, which readers pass by.
        lock(&self.lines)
    }

    /// Starts with a checkpoint, and marks that a recording resumes.
    fn begin(&self, gap_since: Option<Timestamp>) {
        let now = self.clock.now();
        let mut lines = self.lock();
        lines.start();
        lines.add_checkpoint(now);
        if let Some(since) = gap_since {
            let text = format!("recording resumes after {}", format_duration(now.since(since)));
            lines.group.add_mark(Mark::plain(now, MarkKind::Resumed, text));
        }
        self.is_recording.store(true, Ordering::Release);
        drop(lines);
        self.add_checkpoint();
    }

    /// Lets the thread write what is collected, and end.
    fn end(&self) {
        self.is_recording.store(false, Ordering::Release);
        self.lock().is_stopping = true;
        self.is_due.notify_all();
        self.nodes().iter().for_each(|(_, node)| lock(node).on_recorder_end());
    }

    fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Acquire)
    }

    /// Returns the minimum time between two recorded samples of a node; zero records each.
    fn every(&self) -> Duration {
        Duration::from_micros(self.every.load(Ordering::Relaxed))
    }

    /// Lets nodes be recorded at this pace, which depends on their number.
    fn follow(&self, pace: &mut Pace) {
        pace.set_nodes(self.lock().roster.len());
        let micros = u64::try_from(pace.every().as_micros()).unwrap_or(u64::MAX);
        self.every.store(micros, Ordering::Relaxed);
    }

    fn nodes(&self) -> Vec<(NodeName, Arc<Mutex<NodeState>>)> {
        self.lock().nodes.iter().map(|(name, node)| (name.clone(), Arc::clone(node))).collect()
    }

    fn has_lost(&self) -> bool {
        self.lock().lost_since.is_some()
    }

    /// Waits until a group is due; returns true if the recorder stops, and the number of flushes that this one is.
    fn wait_until_due(&self) -> (bool, u64) {
        let waited = self.is_due.wait_timeout_while(self.lock(), GROUP_SPAN, |lines| {
            let (requested, done) = lines.flushes;
            !lines.is_stopping && requested == done && lines.group.text.len() < GROUP_BYTES
        });
        let lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        (lines.is_stopping, lines.flushes.0)
    }

    /// Takes the group. If it is the last one of its segment, the next one starts with the roster, and says since when
    /// lines are lost.
    fn take_group(
        &self,
        now: Timestamp,
        ends_segment: bool,
        lost_since: Option<Timestamp>,
    ) -> LineGroup {
        let mut lines = self.lock();
        let is_silent = lines.last_at.is_none_or(|last| now.since(last) >= ALIVE_INTERVAL);
        if lines.group.span.is_none() && is_silent {
            lines.group.add(now, |text| line::write_alive(text, now));
        }
        let group = std::mem::take(&mut lines.group);
        lines.last_at = group.span.map(|(_, last)| last).or(lines.last_at);
        if ends_segment {
            lines.add_checkpoint(now);
            if let Some(since) = lines.lost_since.take().or(lost_since) {
                lines.group.add(now, |text| line::write_lost(text, now, since));
            }
        }
        group
    }

    /// Takes the group with the end of the run.
    fn take_last(&self, now: Timestamp) -> LineGroup {
        let mut lines = self.lock();
        lines.group.add(now, |text| line::write_end(text, now));
        std::mem::take(&mut lines.group)
    }

    /// Adds the state of each node to the group.
    fn add_checkpoint(&self) {
        for (name, node) in self.nodes() {
            let node = lock(&node);
            let mut text = Vec::new();
            node.write_checkpoint(&mut text, &name, self.clock.now());
            // While the node is locked, no line of it can come before its checkpoint is in the group.
            self.lock().group.text.append(&mut text);
        }
    }
}

impl Lines {
    /// Drops what an earlier recorder has left.
    fn start(&mut self) {
        (self.group, self.last_at, self.lost_since, self.is_stopping) = Default::default();
    }

    /// Writes the roster at the start of a checkpoint.
    fn add_checkpoint(&mut self, at: Timestamp) {
        line::write_roster(&mut self.group.text, at, true, &self.roster, self.jobs.as_deref());
    }
}

impl RecorderSink {
    /// Returns a sink without a recorder.
    pub fn idle(clock: Clock) -> Self {
        Self(Arc::new(RecorderShared {
            lines: Mutex::default(),
            is_due: Condvar::new(),
            clock,
            is_recording: AtomicBool::new(false),
            every: AtomicU64::new(0),
        }))
    }

    /// Returns true while there is a recorder.
    pub fn is_recording(&self) -> bool {
        self.0.is_recording()
    }

    /// Records the nodes and jobs that are watched.
    pub fn on_roster(&self, names: impl Iterator<Item = NodeName>, jobs: Option<Arc<JobList>>) {
        let at = self.0.clock.now();
        let mut lines = self.0.lock();
        let roster: Vec<NodeName> = names.collect();
        let is_known = match (&jobs, &lines.jobs) {
            (Some(jobs), Some(known)) => Arc::ptr_eq(jobs, known),
            (jobs, known) => jobs.is_none() && known.is_none(),
        };
        if is_known && roster == lines.roster {
            return;
        }
        lines.roster = roster;
        let roster: BTreeSet<NodeName> = lines.roster.iter().cloned().collect();
        // The session of a node that is no longer listed goes on for a while, and it may be listed again.
        lines.nodes.retain(|name, node| roster.contains(name) || Arc::strong_count(node) > 1);
        lines.jobs = jobs;
        let Lines { group, roster, jobs, .. } = &mut *lines;
        if !self.0.is_recording() {
            return;
        }
        group.add(at, |text| line::write_roster(text, at, false, roster, jobs.as_deref()));
    }

    /// Records a mark.
    pub fn mark(&self, mark: Mark) {
        let mut lines = self.0.lock();
        if self.0.is_recording() && lines.group.text.len() <= MAX_WAITING_BYTES {
            lines.group.add_mark(mark);
        }
    }

    /// Returns the recorder of one node.
    pub fn node(&self, name: &NodeName) -> NodeRecorder {
        let state = Arc::clone(self.0.lock().nodes.entry(name.clone()).or_default());
        NodeRecorder { name: name.clone(), shared: Arc::clone(&self.0), state }
    }
}

/// Records the events of one node.
#[derive(Debug)]
pub struct NodeRecorder {
    name: NodeName,
    shared: Arc<RecorderShared>,
    state: Arc<Mutex<NodeState>>,
}

impl NodeRecorder {
    /// Records what arrived. Answers to questions of a user are not recorded: they may hold secrets.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let Delivery { at, raw } = delivery;
        if matches!(&raw, RawUpdate::Frame(frame) if frame.text.is_empty()) {
            return;
        }
        let mut state = lock(&self.state);
        let is_recording = self.shared.is_recording();
        let mut text = Vec::new();
        let mut lines = NodeLines { out: &mut text, node: &self.name, at, is_checkpoint: false };
        let mut recorded = None;
        match raw {
            RawUpdate::Session(update) => state.on_session(update, &mut lines),
            RawUpdate::Frame(frame) if is_recording => {
                recorded = state.record_frame(frame, &mut lines);
            }
            RawUpdate::Frame(frame) => state.on_unrecorded(at, frame),
            RawUpdate::Scrape(page) if is_recording => state.record_scrape(page, &mut lines),
            RawUpdate::Scrape(_) => {}
        }
        state.set_every(self.shared.every(), &mut lines);
        if !is_recording {
            return;
        }
        // The node stays locked until its line is in the group, which keeps its lines in order.
        let mut lines = self.shared.lock();
        if lines.group.text.len() + text.len() > MAX_WAITING_BYTES {
            lines.lost_since = lines.lost_since.or(Some(at));
            return;
        }
        if !text.is_empty() {
            lines.group.add(at, |group| group.append(&mut text));
        }
        if lines.group.text.len() <= GROUP_BYTES {
            lines.group.frames.extend(recorded);
        }
        if lines.group.text.len() >= GROUP_BYTES {
            self.shared.is_due.notify_all();
        }
    }
}

impl NodeState {
    /// Writes the line of a change of the session, and keeps what a checkpoint needs of it.
    fn on_session(&mut self, update: SessionUpdate, lines: &mut NodeLines<'_>) {
        // They follow from the samples, from which only a checkpoint cuts a reader off.
        if let SessionUpdate::Gone(devices) = update {
            self.gone = devices;
            return;
        }
        lines.write_session(&update);
        match update {
            SessionUpdate::Link(link) => self.on_link(link),
            SessionUpdate::Reached(via) => self.via = Some(via),
            SessionUpdate::Interval(interval) => {
                self.interval = Some(interval);
                if !self.every.is_zero() {
                    lines.write_session(&SessionUpdate::RecordedEvery(self.every));
                }
            }
            SessionUpdate::RecordedEvery(_) | SessionUpdate::Gone(_) => {}
        }
    }

    /// Sets the time between two recorded samples, and writes its line if it changes.
    fn set_every(&mut self, every: Duration, lines: &mut NodeLines<'_>) {
        if every != self.every {
            self.every = every;
            lines.write_session(&SessionUpdate::RecordedEvery(every));
        }
    }

    /// Forgets what the node sends again in a full sample, and events, which are recorded.
    fn on_recorder_end(&mut self) {
        (self.merged, self.unwritten, self.written_at) = Default::default();
        self.last.clear();
        self.scrapes.clear();
        self.events.clear();
    }

    /// Keeps what a checkpoint needs of a frame that is not recorded, but for samples, which the node sends again.
    fn on_unrecorded(&mut self, at: Timestamp, frame: Box<Frame>) {
        let Body::Sample(sample) = &frame.body else { return self.on_frame(at, frame) };
        self.offset.update(sample.at, at);
        self.errors.retain(|source, (failed_at, _)| {
            sampled_at(sample, source).is_none_or(|sampled| sampled < *failed_at)
        });
    }

    /// Writes the line of a frame, if its sample is due, keeps what a checkpoint needs of it, and returns what was written.
    fn record_frame(&mut self, frame: Box<Frame>, lines: &mut NodeLines<'_>) -> Option<Frame> {
        let recorded = if let Body::Sample(sample) = &frame.body {
            // The changes since a sample that nobody has say nothing.
            if !sample.full && self.last.is_empty() {
                return None;
            }
            if self.is_each_due() && self.unwritten.sample().is_none() {
                Some(Frame::clone(&frame))
            } else {
                self.thin(sample.clone(), lines.at)
            }
        } else {
            Some(Frame::clone(&frame))
        };
        if let Some(recorded) = &recorded {
            lines.write_body(&recorded.text);
        }
        self.on_frame(lines.at, frame);
        recorded
    }

    /// Returns a sample of all that came since the last one that was written, if it is due.
    fn thin(&mut self, sample: body::Sample, at: Timestamp) -> Option<Frame> {
        self.unwritten.add(sample);
        if !self.is_due(at) {
            return None;
        }
        self.written_at = Some(at);
        let body = Body::Sample(std::mem::take(&mut self.unwritten).into_sample()?);
        Some(Frame { text: encode_text(&body).into(), body })
    }

    /// Returns true if samples do not come more often than they are recorded.
    fn is_each_due(&self) -> bool {
        self.every.is_zero() || self.interval.is_some_and(|interval| self.every <= interval)
    }

    /// Returns true unless a sample was written less than the time ago. They come at intervals that are not exact.
    fn is_due(&self, at: Timestamp) -> bool {
        let is_late = |before| at.since(before) + self.every / 10 >= self.every;
        self.is_each_due() || self.written_at.is_none_or(is_late)
    }

    /// Writes the line of a page, if it is due: each has all values. A checkpoint repeats the last two.
    fn record_scrape(&mut self, page: Arc<str>, lines: &mut NodeLines<'_>) {
        if self.is_due(lines.at) {
            self.written_at = Some(lines.at);
            lines.write_scrape(&page);
        }
        self.scrapes.push_back((lines.at, page));
        if self.scrapes.len() > LAST_SAMPLES {
            self.scrapes.pop_front();
        }
    }

    fn on_link(&mut self, link: Link) {
        match &link {
            Link::Opening { .. } => self.offset = ClockOffset::default(),
            Link::Down { .. } => self.down = Some(link.clone()),
            Link::Up => self.down = None,
            Link::Idle => {}
        }
        self.link = Some(link);
    }

    fn on_frame(&mut self, at: Timestamp, frame: Box<Frame>) {
        let text = frame.text.clone();
        match &frame.body {
            Body::Hello(hello) => {
                self.offset.update(hello.at, at);
                if self.hello.as_ref().is_some_and(|(_, boot, _)| *boot != hello.boot) {
                    // After a reboot, nothing known before holds.
                    (self.merged, self.last) = (MergedSample::default(), VecDeque::new());
                    self.errors.clear();
                }
                self.merged.on_hello(hello);
                self.hello = Some((hello.at, hello.boot.clone(), text));
            }
            Body::Sample(sample) => {
                self.offset.update(sample.at, at);
                self.last.push_back((at, frame));
                if self.last.len() > LAST_SAMPLES
                    && let Some((_, before)) = self.last.pop_front()
                    && let Body::Sample(before) = before.body
                {
                    self.merged.add(before);
                }
            }
            Body::Error(error) => {
                self.offset.update(error.at, at);
                self.errors.insert(error.source.chars().take(64).collect(), (error.at, text));
                if self.errors.len() > MAX_EVENTS {
                    self.errors.pop_first();
                }
            }
            Body::Event(event) => {
                self.offset.update(event.at, at);
                let event_at = self.offset.local_time(event.at, at).unwrap_or(at);
                self.events.push_back(ToldEvent { at: event_at, event: event.clone(), text });
                if self.events.len() > MAX_EVENTS {
                    self.drop_event();
                }
            }
            Body::Answer(_) | Body::Bye(_) | Body::Other => {}
        }
    }

    /// Makes the oldest two equal events one that counts both; if there are none, the oldest event is dropped.
    fn drop_event(&mut self) {
        let equal = self.events.iter().enumerate().find_map(|(position, earlier)| {
            let mut later = self.events.iter().enumerate().skip(position + 1);
            let found = later.find(|(_, later)| is_same_event(&earlier.event, &later.event));
            found.map(|(later, _)| (position, later))
        });
        let Some((earlier, later)) = equal else {
            self.events.pop_front();
            return;
        };
        let counted = self.events.remove(earlier);
        if let (Some(counted), Some(told)) = (counted, self.events.get_mut(later - 1)) {
            let count = told.event.occurrences().saturating_add(counted.event.occurrences());
            told.event.count = count.into();
            let ToldEvent { event: body::Event { first, since, seq, logged, .. }, .. } = counted;
            told.event.first = if first.value().is_some() { first } else { seq };
            told.event.since = if since.value().is_some() { since } else { logged };
            told.text = encode_text(&Body::Event(told.event.clone())).into();
        }
    }

    /// Writes the lines from which a reader knows this node. The time of a frame is that at which it was made, so that
    /// the reader finds the offset of the node's clock at once.
    fn write_checkpoint(&self, out: &mut Vec<u8>, node: &NodeName, now: Timestamp) {
        let mut lines = NodeLines { out, node, at: now, is_checkpoint: true };
        let is_up = self.hello.is_some() || !self.scrapes.is_empty();
        let updates = [
            self.via.map(SessionUpdate::Reached),
            is_up.then_some(SessionUpdate::Link(Link::Up)),
            self.interval.map(SessionUpdate::Interval),
            (!self.every.is_zero()).then_some(SessionUpdate::RecordedEvery(self.every)),
        ];
        for update in updates.iter().flatten() {
            lines.write_session(update);
        }
        if let Some((at, _, text)) = &self.hello {
            lines.at(self.made_at(*at, now)).write_body(text);
        }
        if !self.gone.is_empty() {
            lines.at(now).write_session(&SessionUpdate::Gone(self.gone.clone()));
        }
        for (at, page) in &self.scrapes {
            lines.at(*at).write_scrape(page);
        }
        if let Some(sample) = self.merged.sample() {
            let text = encode_text(&Body::Sample(sample.clone()));
            lines.at(self.made_at(sample.at, now)).write_body(&text);
        }
        let frames = self.last.iter().map(|(at, frame)| (at, &frame.text));
        let events = self.events.iter().map(|told| (&told.at, &told.text));
        for (at, text) in frames.chain(events) {
            lines.at(*at).write_body(text);
        }
        for (at, text) in self.errors_since_samples() {
            lines.at(self.made_at(*at, now)).write_body(text);
        }
        let link = self.link.as_ref().filter(|link| **link != Link::Up);
        for link in self.down.iter().chain(link) {
            lines.at(now).write_session(&SessionUpdate::Link(link.clone()));
        }
    }

    /// Returns when a frame was made, given its time by the clock of the probe.
    fn made_at(&self, probe_seconds: f64, now: Timestamp) -> Timestamp {
        self.offset.local_time(probe_seconds, now).unwrap_or(now)
    }

    /// Returns the errors of sources that were not sampled since.
    fn errors_since_samples(&self) -> impl Iterator<Item = &(f64, Bytes)> {
        let last = self.last.iter().filter_map(|(_, frame)| {
            if let Body::Sample(sample) = &frame.body { Some(sample) } else { None }
        });
        let samples: Vec<&body::Sample> = self.merged.sample().into_iter().chain(last).collect();
        let errors = self.errors.iter().filter(move |(source, (at, _))| {
            let mut times = samples.iter().filter_map(|sample| sampled_at(sample, source));
            times.all(|sampled| sampled < *at)
        });
        errors.map(|(_, error)| error)
    }
}

/// Returns true if a reader counts two events as one that occurred twice.
fn is_same_event(one: &body::Event, other: &body::Event) -> bool {
    let [one, other] = [one, other].map(|event| {
        let device = event.pci.as_ref().unwrap_or(&event.device);
        (&event.source, &event.kind, device, event.code.value())
    });
    one == other
}

/// Returns when a source was sampled, by the clock of the probe.
fn sampled_at(sample: &body::Sample, source: &str) -> Option<f64> {
    match source {
        "host" => sample.host.as_ref().map(|host| host.at),
        "host.slow" => sample.host_slow.as_ref().map(|slow| slow.at),
        _ => {
            let of_processes = source.strip_suffix(".processes");
            let kind = of_processes.unwrap_or(source);
            let backend = sample.backends.iter().find(|backend| backend.kind == kind)?;
            match of_processes {
                Some(_) => backend
                    .uses
                    .as_ref()
                    .map(|uses| uses.at)
                    .or(backend.apps.as_ref().map(|apps| apps.at)),
                None => (backend.devices.is_some() || backend.csv.is_some()).then_some(backend.at),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::line::{Content, RecordedLine, parse};

    #[test]
    fn a_group_after_lost_ones_begins_with_a_checkpoint_and_says_so() {
        let clock = Clock::fixed(Timestamp::from_micros(9_000_000));
        let now = clock.now();
        let RecorderSink(shared) = RecorderSink::idle(clock);
        shared.take_group(now, true, Some(Timestamp::from_micros(2_000_000)));
        let next = shared.take_group(now, false, None);
        let lines: Vec<RecordedLine> =
            next.text.split(|byte| *byte == b'\n').filter_map(parse).collect();
        let [checkpoint, lost] = &lines[..] else { panic!("{lines:?}") };
        assert!(checkpoint.is_checkpoint && matches!(checkpoint.content, Content::Roster(..)));
        assert!(matches!(lost.content, Content::Lost(_)));
    }
}
