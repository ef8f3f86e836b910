//! The last minutes of a node, one point per second, and the last minute in finer steps while it is sampled often.
//!
//! A point is one byte: a percentage in steps of 0.5, or a rate in steps of 9 %.
//! All series of a node share one time base. Whole chunks are frozen and shared between snapshots;
//! only the open one is ever copied, so it is short.

use std::sync::Arc;
use std::time::Duration;

use crate::charted::Metric;
use gtop_local::time::Timestamp;

/// Points per series in a chunk.
const CHUNK_POINTS: usize = 25;

/// Maximum number of series per node; further ones are not recorded.
const MAX_SERIES: usize = 4096;

/// The time between two points of a close-up: the shortest interval of a probe.
pub const CLOSE_UP_STEP: Duration = Duration::from_millis(50);
/// How long a close-up is kept.
const CLOSE_UP_SPAN: Duration = Duration::from_secs(60);

/// Marks a second without a sample.
const NO_POINT: u8 = u8::MAX;
/// Precedes a single point: all points of the chunk have this value.
const CONSTANT: u8 = u8::MAX - 1;

/// The lowest rate that is not 0, in bytes per second.
const LOWEST_RATE: f32 = 1024.0;
/// The steps in which a rate doubles; the highest one is more than 2 TiB/s.
const RATE_STEPS: f32 = 8.0;

/// The series of one node. In a close-up, what is called a second here is a [`CLOSE_UP_STEP`].
#[derive(Clone, Debug)]
pub struct History {
    /// The time between two points, in microseconds.
    step: i64,
    /// Number of frozen chunks to keep.
    max_chunks: usize,
    /// The second of the first point of the open chunk.
    base: i64,
    /// The recorded series; a series has the same position here and in every chunk.
    series: Arc<Vec<SeriesKey>>,
    /// Position of the series recorded last: series are recorded in the same order each second.
    last: usize,
    /// Frozen chunks, oldest first. A chunk holds the points of each series in turn, or `CONSTANT` and one
    /// point, which is common for memory and idle devices. Series that began later are missing at its end.
    frozen: Arc<Vec<Arc<[u8]>>>,
    /// The points of each series in turn, for the open chunk.
    open: Arc<[u8]>,
    /// The last points in finer steps, while they are kept.
    close_up: Option<Arc<Self>>,
}

#[derive(Clone, Debug, PartialEq)]
struct SeriesKey {
    /// The device; empty for the host.
    subject: Arc<str>,
    metric: Metric,
}

impl History {
    /// Makes an empty history that keeps at least `keep`.
    pub fn new(keep: Duration) -> Self {
        Self::in_steps(keep, Duration::from_secs(1))
    }

    fn in_steps(keep: Duration, step: Duration) -> Self {
        let points = keep.as_micros() / step.as_micros().max(1);
        let max_chunks = usize::try_from(points).unwrap_or(usize::MAX).div_ceil(CHUNK_POINTS);
        let (series, frozen, open) = Default::default();
        let step = i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1);
        Self { step, max_chunks, base: 0, series, last: 0, frozen, open, close_up: None }
    }

    /// Begins to keep points in finer steps too, or ends that.
    pub(super) fn keep_close_up(&mut self, is_kept: bool) {
        if is_kept && self.close_up.is_none() {
            self.close_up = Some(Arc::new(Self::in_steps(CLOSE_UP_SPAN, CLOSE_UP_STEP)));
        } else if !is_kept {
            self.close_up = None;
        }
    }

    /// Returns the last minute, one point per [`CLOSE_UP_STEP`]; `None` if the node is not sampled often.
    pub fn close_up(&self) -> Option<&Self> {
        self.close_up.as_deref()
    }

    /// Returns the number of the step that holds `at`.
    fn slot(&self, at: Timestamp) -> i64 {
        at.as_micros().div_euclid(self.step)
    }

    /// Records a value for the second of `at`; points older than the open chunk are ignored.
    pub fn record(&mut self, subject: &Arc<str>, metric: Metric, at: Timestamp, value: f32) {
        if let Some(close_up) = &mut self.close_up {
            Arc::make_mut(close_up).record(subject, metric, at, value);
        }
        let second = self.slot(at);
        self.advance_to(second);
        let Some(point) =
            usize::try_from(second - self.base).ok().filter(|point| *point < CHUNK_POINTS)
        else {
            return;
        };
        let index = self.series_index(subject, metric).unwrap_or(self.series.len());
        if index >= MAX_SERIES {
            return;
        }
        self.last = index;
        if index == self.series.len() {
            let series = Arc::make_mut(&mut self.series);
            // Rare and permanent, so reserve exactly.
            series.reserve_exact(1);
            series.push(SeriesKey { subject: Arc::clone(subject), metric });
        }
        let length = self.series.len() * CHUNK_POINTS;
        if self.open.len() < length {
            let missing = std::iter::repeat_n(NO_POINT, length - self.open.len());
            self.open = self.open.iter().copied().chain(missing).collect();
        }
        if let Some(slot) = Arc::make_mut(&mut self.open).get_mut(index * CHUNK_POINTS + point) {
            *slot = point_of(metric, value);
        }
    }

    /// Returns how many series there are.
    #[cfg(test)]
    pub(super) fn series_count(&self) -> usize {
        self.series.len()
    }

    /// Drops the series of devices.
    pub fn drop_series(&mut self, devices: &[Arc<str>]) {
        let subjects = self.series.iter().map(|key| &key.subject);
        let kept: Vec<bool> = subjects.map(|subject| !devices.contains(subject)).collect();
        if kept.iter().all(|is_kept| *is_kept) {
            return;
        }
        if let Some(close_up) = &mut self.close_up {
            Arc::make_mut(close_up).drop_series(devices);
        }
        for chunk in Arc::make_mut(&mut self.frozen) {
            *chunk = retain_series(&kept, split_series(chunk));
        }
        self.open = retain_series(&kept, self.open.chunks(CHUNK_POINTS));
        Arc::make_mut(&mut self.series).retain(|key| !devices.contains(&key.subject));
    }

    /// Renames the devices of the series.
    pub(super) fn rename_subjects(&mut self, rename: &mut dyn FnMut(&str) -> Arc<str>) {
        if let Some(close_up) = &mut self.close_up {
            Arc::make_mut(close_up).rename_subjects(rename);
        }
        for key in Arc::make_mut(&mut self.series).iter_mut().filter(|key| !key.subject.is_empty())
        {
            key.subject = rename(&key.subject);
        }
    }

    /// Returns the `count` seconds up to `now`, oldest first; `None` where nothing was sampled.
    pub fn last(
        &self,
        subject: &str,
        metric: Metric,
        now: Timestamp,
        count: usize,
    ) -> Vec<Option<f32>> {
        let Some(index) = self.series_index(subject, metric) else { return vec![None; count] };
        let now = self.slot(now);
        let first = now - i64::try_from(count).unwrap_or(0) + 1;
        let mut cached: (usize, &[u8]) = (usize::MAX, &[]);
        let points = (first..=now).map(|second| {
            let start = self.base - i64::try_from(self.frozen.len() * CHUNK_POINTS).ok()?;
            let point = usize::try_from(second - start).ok()?;
            let chunk = point / CHUNK_POINTS;
            if cached.0 != chunk {
                cached = (chunk, self.points(chunk, index));
            }
            let point = match cached.1 {
                [CONSTANT, all] => *all,
                points => *points.get(point % CHUNK_POINTS)?,
            };
            (point != NO_POINT).then(|| value_of(metric, point))
        });
        points.collect()
    }

    fn series_index(&self, subject: &str, metric: Metric) -> Option<usize> {
        let all = 0..self.series.len();
        all.clone().skip(self.last).chain(all.take(self.last)).find(|index| {
            let key = self.series.get(*index);
            key.is_some_and(|key| key.metric == metric && *key.subject == *subject)
        })
    }

    /// Returns the points of a series in a chunk; empty if it has none there.
    fn points(&self, chunk: usize, index: usize) -> &[u8] {
        let points = match self.frozen.get(chunk) {
            Some(frozen) => split_series(frozen).nth(index),
            None if chunk == self.frozen.len() => self.open.chunks(CHUNK_POINTS).nth(index),
            None => None,
        };
        points.unwrap_or_default()
    }

    /// Starts new chunks until the open one holds `second`.
    fn advance_to(&mut self, second: i64) {
        let chunk = i64::try_from(CHUNK_POINTS).unwrap_or(i64::MAX);
        let remembered = chunk
            .saturating_mul(i64::try_from(self.max_chunks.saturating_add(1)).unwrap_or(i64::MAX));
        if self.series.is_empty() || second - self.base > remembered {
            // All points are older than what is kept.
            (self.base, self.last) = (second, 0);
            (self.series, self.frozen, self.open) = Default::default();
        }
        while second - self.base >= chunk {
            self.base += chunk;
            let frozen = Arc::make_mut(&mut self.frozen);
            frozen.reserve_exact(1);
            frozen.push(freeze(&std::mem::take(&mut self.open)));
            let excess = frozen.len().saturating_sub(self.max_chunks);
            frozen.drain(..excess);
        }
    }
}

/// Compresses the open chunk into a frozen one.
fn freeze(open: &[u8]) -> Arc<[u8]> {
    let mut chunk = Vec::with_capacity(open.len());
    for points in open.chunks(CHUNK_POINTS) {
        match points {
            [all, rest @ ..] if rest.iter().all(|point| point == all) => {
                chunk.extend([CONSTANT, *all]);
            }
            points => chunk.extend_from_slice(points),
        }
    }
    chunk.into()
}

/// Iterates over the series of a frozen chunk.
fn split_series(mut frozen: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = if *frozen.first()? == CONSTANT { 2 } else { CHUNK_POINTS };
        let (points, rest) = frozen.split_at_checked(length)?;
        frozen = rest;
        Some(points)
    })
}

/// Returns a chunk with only the series that are kept.
fn retain_series<'a>(kept: &[bool], series: impl Iterator<Item = &'a [u8]>) -> Arc<[u8]> {
    let series = series.zip(kept).filter(|(_, is_kept)| **is_kept);
    series.flat_map(|(points, _)| points).copied().collect()
}

/// Returns the point of a value. A share is rounded down, so that it stays below a threshold; 0.001 absorbs rounding errors
/// of whole numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn point_of(metric: Metric, value: f32) -> u8 {
    let point = if !metric.is_rate() {
        (value.clamp(0.0, 100.0) * 2.0 + 0.001).floor()
    } else if value < LOWEST_RATE {
        0.0
    } else {
        ((value / LOWEST_RATE).log2() * RATE_STEPS + 1.0).round()
    };
    (point as u8).min(CONSTANT - 1)
}

/// Returns the value of a point.
fn value_of(metric: Metric, point: u8) -> f32 {
    if !metric.is_rate() {
        f32::from(point) / 2.0
    } else if point == 0 {
        0.0
    } else {
        LOWEST_RATE * (f32::from(point - 1) / RATE_STEPS).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// Returns the second modulo 100.
    fn percent(second: i64) -> f32 {
        f32::from(u8::try_from(second % 100).unwrap())
    }

    fn history_with(seconds: std::ops::Range<i64>, keep: u64) -> History {
        let mut history = History::new(Duration::from_secs(keep));
        let subject: Arc<str> = "GPU-1".into();
        for second in seconds {
            history.record(&subject, Metric::Utilization, at(second), percent(second));
        }
        history
    }

    #[test]
    fn one_point_is_kept_per_second() {
        let history = history_with(1000..1010, 300);
        let last = history.last("GPU-1", Metric::Utilization, at(1009), 3);
        assert_eq!(last, [Some(7.0), Some(8.0), Some(9.0)]);
        assert_eq!(history.last("GPU-1", Metric::Utilization, at(1009), 3), last);
    }

    #[test]
    fn shares_are_rounded_down_to_half_percents() {
        for (share, expected) in [
            (0.0, 0.0),
            (0.3, 0.0),
            (4.999_999_5, 5.0),
            (4.99, 4.5),
            (33.33, 33.0),
            (99.99, 99.5),
            (100.0, 100.0),
        ] {
            let mut history = History::new(Duration::ZERO);
            let subject = "GPU-1".into();
            history.record(&subject, Metric::Memory, at(5), share);
            assert_eq!(history.last("GPU-1", Metric::Memory, at(5), 1), [Some(expected)]);
        }
    }

    #[test]
    fn rates_are_kept_in_steps_of_nine_percent() {
        let mut history = History::new(Duration::ZERO);
        for rate in [0.0, 1_023.0, 1_024.0, 43e6, 1e9, 93e9, 1e13] {
            history.record(&"".into(), Metric::NetworkIn, at(5), rate);
            let kept = history.last("", Metric::NetworkIn, at(5), 1)[0].unwrap();
            let expected = if rate < LOWEST_RATE { 0.0 } else { rate.min(3e12) };
            assert!((kept - expected).abs() <= expected * 0.05, "{rate}: {kept}");
        }
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let mut history = history_with(1000..1003, 300);
        history.record(&"GPU-1".into(), Metric::Utilization, at(1100), percent(7));
        let last = history.last("GPU-1", Metric::Utilization, at(1101), 101);
        assert_eq!(last[..3], [Some(1.0), Some(2.0), None]);
        assert_eq!(last[98..], [None, Some(7.0), None]);
    }

    #[test]
    fn old_points_are_dropped_in_whole_chunks() {
        let history = history_with(0..1000, 300);
        let last = history.last("GPU-1", Metric::Utilization, at(999), 1000);
        let known = last.iter().flatten().count();
        assert!((300..=420).contains(&known), "{known}");
        assert_eq!(last[999], Some(99.0));
    }

    #[test]
    fn an_unknown_device_has_no_points() {
        assert_eq!(history_with(0..9, 60).last("GPU-2", Metric::Memory, at(9), 2), [None, None]);
    }

    #[test]
    fn removing_a_device_drops_only_its_own_points() {
        let mut history = history_with(0..100, 300);
        history.record(&"GPU-2".into(), Metric::Utilization, at(99), percent(2));
        history.record(&"".into(), Metric::Cpu, at(99), percent(3));
        history.drop_series(&["GPU-1".into()]);
        assert_eq!(history.last("GPU-1", Metric::Utilization, at(99), 1), [None]);
        assert_eq!(history.last("GPU-2", Metric::Utilization, at(99), 2), [None, Some(2.0)]);
        assert_eq!(history.last("", Metric::Cpu, at(99), 1), [Some(3.0)]);
    }

    #[test]
    fn constant_points_are_compressed_without_shifting_other_series() {
        let mut history = History::new(Duration::from_secs(90));
        let subjects: [Arc<str>; 3] = ["GPU-1".into(), "GPU-2".into(), "GPU-3".into()];
        for second in 0..80 {
            for (index, subject) in (0_i64..).zip(&subjects) {
                // The second series changes all the time, the last one only once.
                let share = match index {
                    1 => second,
                    2 if second == 30 => 7,
                    _ => 50,
                };
                history.record(subject, Metric::Memory, at(second), percent(share));
            }
        }
        let lengths: Vec<usize> = history.frozen.iter().map(|chunk| chunk.len()).collect();
        assert_eq!(
            lengths,
            [2 + CHUNK_POINTS + 2, 2 + CHUNK_POINTS + CHUNK_POINTS, 2 + CHUNK_POINTS + 2]
        );
        let known =
            |history: &History, subject: &str| history.last(subject, Metric::Memory, at(80), 81);
        let expected = |share: fn(u8) -> u8| -> Vec<Option<f32>> {
            (0..80).map(|second| Some(share(second).into())).chain([None]).collect()
        };
        let last = expected(|second| if second == 30 { 7 } else { 50 });
        assert_eq!(known(&history, "GPU-1"), expected(|_| 50));
        assert_eq!(known(&history, "GPU-2"), expected(|second| second));
        assert_eq!(known(&history, "GPU-3"), last);
        history.drop_series(&["GPU-1".into()]);
        assert_eq!(known(&history, "GPU-2"), expected(|second| second));
        assert_eq!(known(&history, "GPU-3"), last);
    }

    #[test]
    fn a_close_up_has_finer_steps_for_a_minute() {
        let mut history = history_with(0..100, 300);
        assert!(history.close_up().is_none());
        history.keep_close_up(true);
        let subject: Arc<str> = "GPU-1".into();
        let moment = |step: u32| at(100).plus(CLOSE_UP_STEP * step);
        for step in 0..2000 {
            let share = percent(step.into());
            history.record(&subject, Metric::Utilization, moment(step), share);
        }
        let last = |history: &History, count| {
            let close_up = history.close_up().unwrap();
            close_up.last("GPU-1", Metric::Utilization, moment(1999), count)
        };
        assert_eq!(last(&history, 3), [Some(97.0), Some(98.0), Some(99.0)]);
        let known = last(&history, 2000).into_iter().flatten().count();
        assert!((1200..=1250).contains(&known), "{known}");
        // The seconds go on beside it, with the last value of each.
        let seconds = history.last("GPU-1", Metric::Utilization, moment(1999), 2);
        assert_eq!(seconds, [Some(79.0), Some(99.0)]);
        history.drop_series(&["GPU-1".into()]);
        assert_eq!(last(&history, 1), [None]);
        history.keep_close_up(false);
        assert!(history.close_up().is_none());
    }

    #[test]
    fn a_long_absence_resets_the_history() {
        let mut history = history_with(0..100, 60);
        history.record(&"GPU-1".into(), Metric::Utilization, at(1_000_000), percent(1));
        let last = history.last("GPU-1", Metric::Utilization, at(1_000_000), 60);
        assert_eq!(last.iter().flatten().count(), 1);
    }
}
