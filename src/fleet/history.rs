//! The last minutes of a node, one point a second.
//!
//! All tracks of a node share one time base. Whole minutes are frozen and shared between snapshots;
//! only the open minute is ever copied.

use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;

/// Points in a frozen chunk.
const CHUNK: usize = 60;

/// What a track records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Percent of time a device ran anything.
    Utilization,
    /// Percent of a device's memory in use.
    Memory,
    /// Percent of processor time spent working.
    Cpu,
}

/// The tracks of one node.
#[derive(Clone, Debug)]
pub struct History {
    /// Chunks to keep, the open one not counted.
    keep: usize,
    /// The second of the first point of the open chunk.
    base: i64,
    tracks: Vec<Track>,
}

#[derive(Clone, Debug)]
struct Track {
    /// The device; empty for the host.
    subject: Arc<str>,
    metric: Metric,
    frozen: Vec<Arc<[f32; CHUNK]>>,
    open: Arc<[f32; CHUNK]>,
}

const NOTHING: [f32; CHUNK] = [f32::NAN; CHUNK];

impl History {
    /// Makes an empty history that keeps at least `keep`.
    pub fn new(keep: Duration) -> Self {
        let chunks = usize::try_from(keep.as_secs()).unwrap_or(usize::MAX).div_ceil(CHUNK);
        Self { keep: chunks, base: 0, tracks: Vec::new() }
    }

    /// Records a value for the second of `at`; what is older than the open minute is left out.
    pub fn record(&mut self, subject: &Arc<str>, metric: Metric, at: Timestamp, value: f32) {
        let second = at.as_micros().div_euclid(1_000_000);
        self.advance(second);
        let Some(place) = usize::try_from(second - self.base).ok().filter(|place| *place < CHUNK)
        else {
            return;
        };
        let track = self.track(subject, metric);
        if let Some(point) = Arc::make_mut(&mut track.open).get_mut(place) {
            *point = value;
        }
    }

    /// Forgets devices that `is_gone` names.
    pub fn forget(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.tracks.retain(|track| track.subject.is_empty() || !is_gone(&track.subject));
    }

    /// Returns the `count` seconds up to `now`, oldest first; `None` where nothing was sampled.
    pub fn last(
        &self,
        subject: &str,
        metric: Metric,
        now: Timestamp,
        count: usize,
    ) -> Vec<Option<f32>> {
        let Some(track) =
            self.tracks.iter().find(|track| *track.subject == *subject && track.metric == metric)
        else {
            return vec![None; count];
        };
        let now = now.as_micros().div_euclid(1_000_000);
        let first = now - i64::try_from(count).unwrap_or(0) + 1;
        (first..=now).map(|second| self.point(track, second)).collect()
    }

    fn point(&self, track: &Track, second: i64) -> Option<f32> {
        let start = self.base - i64::try_from(track.frozen.len() * CHUNK).ok()?;
        let place = usize::try_from(second - start).ok()?;
        let chunk = track.frozen.get(place / CHUNK).unwrap_or(&track.open);
        // Beyond the open chunk nothing is known yet.
        if place / CHUNK > track.frozen.len() {
            return None;
        }
        chunk.get(place % CHUNK).copied().filter(|value| !value.is_nan())
    }

    fn advance(&mut self, second: i64) {
        if self.tracks.is_empty() {
            self.base = second;
        }
        let kept = i64::try_from((self.keep + 1) * CHUNK).unwrap_or(i64::MAX);
        if second - self.base > kept {
            // Longer away than we remember: begin anew.
            self.tracks.clear();
            self.base = second;
        }
        while second - self.base >= i64::try_from(CHUNK).unwrap_or(i64::MAX) {
            self.base += i64::try_from(CHUNK).unwrap_or(i64::MAX);
            for track in &mut self.tracks {
                track.frozen.push(std::mem::replace(&mut track.open, Arc::new(NOTHING)));
                let excess = track.frozen.len().saturating_sub(self.keep);
                track.frozen.drain(..excess);
            }
        }
    }

    fn track(&mut self, subject: &Arc<str>, metric: Metric) -> &mut Track {
        let known = self
            .tracks
            .iter()
            .position(|track| track.subject == *subject && track.metric == metric);
        let place = known.unwrap_or_else(|| {
            self.tracks.push(Track {
                subject: Arc::clone(subject),
                metric,
                frozen: Vec::new(),
                open: Arc::new(NOTHING),
            });
            self.tracks.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the place was found or made just now")]
        &mut self.tracks[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn filled(seconds: std::ops::Range<i64>, keep: u64) -> History {
        let mut history = History::new(Duration::from_secs(keep));
        let subject: Arc<str> = "GPU-1".into();
        for second in seconds {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            history.record(&subject, Metric::Utilization, at(second), second as f32);
        }
        history
    }

    #[test]
    fn one_point_a_second_however_often_it_is_asked() {
        let history = filled(1000..1010, 300);
        let last = history.last("GPU-1", Metric::Utilization, at(1009), 3);
        assert_eq!(last, [Some(1007.0), Some(1008.0), Some(1009.0)]);
        assert_eq!(history.last("GPU-1", Metric::Utilization, at(1009), 3), last);
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let mut history = filled(1000..1003, 300);
        history.record(&"GPU-1".into(), Metric::Utilization, at(1100), 7.0);
        let last = history.last("GPU-1", Metric::Utilization, at(1101), 101);
        assert_eq!(last[..3], [Some(1001.0), Some(1002.0), None]);
        assert_eq!(last[98..], [None, Some(7.0), None]);
    }

    #[test]
    fn what_is_older_than_kept_is_dropped_in_whole_minutes() {
        let history = filled(0..1000, 300);
        let last = history.last("GPU-1", Metric::Utilization, at(999), 1000);
        let known = last.iter().flatten().count();
        assert!((300..=420).contains(&known), "{known}");
        assert_eq!(last[999], Some(999.0));
    }

    #[test]
    fn a_device_that_was_never_seen_has_no_points() {
        assert_eq!(filled(0..9, 60).last("GPU-2", Metric::Memory, at(9), 2), [None, None]);
    }

    #[test]
    fn a_long_absence_begins_anew() {
        let mut history = filled(0..100, 60);
        history.record(&"GPU-1".into(), Metric::Utilization, at(1_000_000), 1.0);
        let last = history.last("GPU-1", Metric::Utilization, at(1_000_000), 60);
        assert_eq!(last.iter().flatten().count(), 1);
    }
}
