//! Chooses how many samples are recorded, so that the time that is to be kept fits into the size.

use std::path::Path;
use std::time::Duration;

use crate::record::line::{self, Content};
use crate::record::parts::part_paths;
use crate::record::recording::Recording;
use crate::record::writer::Limits;
use crate::wire::RawUpdate;
use crate::wire::body::Body;
use gtop_local::time::Timestamp;
use gtop_model::SessionUpdate;

/// Seconds between two recorded samples of a node.
const STEPS: [u32; 11] = [1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600];
/// Bytes of a node's sample, with its part of the checkpoints, before they are measured.
const ESTIMATED_BYTES: f64 = 250.0;
/// Parts are removed as a whole, so that less than the maximum size is kept.
const KEPT_SHARE: f64 = 0.9;
/// A size is measured for this long at first, and each time for twice as long, up to the maximum.
const MIN_MEASURED: Duration = Duration::from_secs(25);
const MAX_MEASURED: Duration = Duration::from_secs(600);
/// The pace of a recording is measured of its last segments that have this many samples, or of as many segments.
const MEASURED_SAMPLES: u32 = 500;
const MIN_MEASURED_SAMPLES: u32 = 20;
const MAX_MEASURED_SEGMENTS: u32 = 16;
/// More samples are recorded if they need less than this share of the size.
const SPARE_SHARE: f64 = 0.8;

/// Which samples are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinning {
    /// At most one per node in this time; each one if it is zero.
    Every(Duration),
    /// As many as fit into the limits.
    ToFit,
}

/// How much a recording has of its nodes, at its end.
#[derive(Debug, PartialEq)]
pub(super) struct RecordedPace {
    every: Duration,
    /// Bytes of a node's sample, with its part of the checkpoints.
    sample_bytes: f64,
}

impl RecordedPace {
    /// Measures the end of a recording, from its file back to older parts.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let mut end = RecordingEnd::default();
        for path in part_paths(path).into_iter().chain([path.to_owned()]).rev() {
            let Ok(recording) = Recording::open(&path) else { continue };
            for (lines, size) in recording.latest_segments() {
                end.add(&lines, size);
                if end.samples >= MEASURED_SAMPLES || end.segments >= MAX_MEASURED_SEGMENTS {
                    return end.pace();
                }
            }
        }
        end.pace()
    }
}

/// What the last segments of a recording have.
#[derive(Debug, Default)]
struct RecordingEnd {
    segments: u32,
    samples: u32,
    bytes: u64,
    /// The time between two recorded samples that was set last.
    every: Option<Duration>,
}

impl RecordingEnd {
    /// Adds the segment before those that are known.
    fn add(&mut self, lines: &[u8], size: u64) {
        self.segments += 1;
        self.bytes += size;
        let mut last_every = None;
        for line in lines.split(|byte| *byte == b'\n').filter_map(line::parse) {
            let Content::Node(_, raw) = line.content else { continue };
            match raw {
                RawUpdate::Session(SessionUpdate::RecordedEvery(every)) => last_every = Some(every),
                RawUpdate::Session(_) => {}
                RawUpdate::Frame(frame) if !matches!(frame.body, Body::Sample(_)) => {}
                RawUpdate::Frame(_) | RawUpdate::Scrape(_) => {
                    self.samples += u32::from(!line.is_checkpoint);
                }
            }
        }
        self.every = self.every.or(last_every);
    }

    #[expect(clippy::cast_precision_loss, reason = "a size of a sample")]
    fn pace(&self) -> Option<RecordedPace> {
        let every = self.every.filter(|_| self.samples >= MIN_MEASURED_SAMPLES)?;
        Some(RecordedPace { every, sample_bytes: self.bytes as f64 / f64::from(self.samples) })
    }
}

/// The time between two recorded samples of a node.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    /// Bytes per second for which there is room; `None` if the time is fixed.
    budget: Option<f64>,
    nodes: u32,
    /// Bytes of a node's sample, with its part of the checkpoints.
    sample_bytes: f64,
    /// Since when sizes are measured, and the size then.
    since: Option<(Timestamp, u64)>,
    min_measured: Duration,
}

impl Pace {
    /// Begins at the pace of what is recorded already, if there is some.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn new(thinning: Thinning, limits: Limits, known: Option<RecordedPace>) -> Self {
        let first = Duration::from_secs(STEPS[0].into());
        let known = known.unwrap_or(RecordedPace { every: first, sample_bytes: ESTIMATED_BYTES });
        let (every, budget) = match thinning {
            Thinning::Every(every) => (every, None),
            Thinning::ToFit => {
                let budget = limits.max_bytes as f64 * KEPT_SHARE / limits.keep.as_secs_f64();
                (known.every.max(first), Some(budget))
            }
        };
        let sample_bytes = known.sample_bytes;
        Self { every, budget, nodes: 0, sample_bytes, since: None, min_measured: MIN_MEASURED }
    }

    /// Returns the time; zero records each sample.
    pub(super) const fn every(&self) -> Duration {
        self.every
    }

    /// Adapts the time to the number of nodes.
    pub(super) fn set_nodes(&mut self, nodes: usize) {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        if nodes != self.nodes {
            self.nodes = nodes;
            self.adapt();
        }
    }

    /// Measures the bytes that were written up to now, and adapts the time.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn on_written(&mut self, now: Timestamp, bytes: u64) {
        let (since, before) = *self.since.get_or_insert((now, bytes));
        let measured = now.since(since);
        if measured < self.min_measured || self.nodes == 0 {
            return;
        }
        self.since = Some((now, bytes));
        self.min_measured = (self.min_measured * 2).min(MAX_MEASURED);
        // It is less if the file was removed.
        let Some(grown) = bytes.checked_sub(before) else { return };
        let rate = grown as f64 / measured.as_secs_f64();
        self.sample_bytes = rate * self.every.as_secs_f64() / f64::from(self.nodes);
        self.adapt();
    }

    /// Chooses the time for which there is room; it becomes shorter only with room to spare.
    fn adapt(&mut self) {
        let Some(budget) = self.budget.filter(|_| self.nodes > 0) else { return };
        let fitting = f64::from(self.nodes) * self.sample_bytes / budget;
        let every = self.every.min(step_for(fitting / SPARE_SHARE)).max(step_for(fitting));
        if every != self.every {
            self.every = every;
            self.since = None;
        }
    }
}

/// Returns the shortest time that is not shorter than this one.
fn step_for(seconds: f64) -> Duration {
    let [.., longest] = STEPS;
    let step = STEPS.into_iter().find(|step| f64::from(*step) >= seconds);
    Duration::from_secs(step.unwrap_or(longest).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { keep: Duration::from_secs(86_400), max_bytes: 200_000_000 };

    fn at(second: u32) -> Timestamp {
        Timestamp::from_micros(i64::from(second) * 1_000_000)
    }

    #[test]
    fn few_nodes_are_recorded_each_second_and_many_seldom() {
        for (nodes, seconds) in [(0, 1), (8, 1), (9, 2), (64, 10), (900, 120), (100_000, 600)] {
            let mut pace = Pace::new(Thinning::ToFit, LIMITS, None);
            pace.set_nodes(nodes);
            assert_eq!(pace.every().as_secs(), seconds, "{nodes}");
        }
    }

    #[test]
    fn the_time_follows_the_size_that_is_measured_and_settles() {
        for bytes_of_a_round in [100, 20_000, 300_000, 90_000_000] {
            let mut pace = Pace::new(Thinning::ToFit, LIMITS, None);
            pace.set_nodes(64);
            let (mut bytes, mut changes) = (0, Vec::new());
            for minute in 0..600 {
                let before = pace.every();
                pace.on_written(at(minute * 60), bytes);
                changes.extend((pace.every() != before).then_some(minute));
                bytes += bytes_of_a_round * 60 / pace.every().as_secs();
            }
            let (rate, every) = (bytes_of_a_round / pace.every().as_secs(), pace.every().as_secs());
            assert!(rate <= 2_084 || every == 600, "{bytes_of_a_round}: every {every} s");
            assert!(changes.len() <= 2 && changes.last() < Some(&60), "{changes:?}");
        }
    }

    #[test]
    fn nodes_that_send_much_are_recorded_seldom_after_half_a_minute() {
        let mut pace = Pace::new(Thinning::ToFit, LIMITS, None);
        pace.set_nodes(8);
        pace.on_written(at(0), 0);
        assert_eq!(pace.every().as_secs(), 1);
        pace.on_written(at(28), 28 * 8 * 2_500);
        assert_eq!(pace.every().as_secs(), 10);
        pace.set_nodes(1);
        assert_eq!(pace.every().as_secs(), 2);
    }

    #[test]
    fn a_recorder_begins_at_the_pace_of_what_is_recorded() {
        let known = || RecordedPace { every: Duration::from_secs(10), sample_bytes: 2_500.0 };
        let mut pace = Pace::new(Thinning::ToFit, LIMITS, Some(known()));
        // The nodes are not known yet.
        assert_eq!(pace.every().as_secs(), 10);
        pace.set_nodes(8);
        assert_eq!(pace.every().as_secs(), 10);
        pace.set_nodes(30);
        assert_eq!(pace.every().as_secs(), 60);
        let fixed = Pace::new(Thinning::Every(Duration::ZERO), LIMITS, Some(known()));
        assert_eq!(fixed.every(), Duration::ZERO);
    }

    #[test]
    fn a_fixed_time_stays() {
        let mut pace = Pace::new(Thinning::Every(Duration::ZERO), LIMITS, None);
        pace.set_nodes(10_000);
        pace.on_written(at(0), 0);
        pace.on_written(at(3_600), 1 << 40);
        assert_eq!(pace.every(), Duration::ZERO);
    }
}
