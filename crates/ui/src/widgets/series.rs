//! Values over time, one per second.

use std::collections::VecDeque;

/// The points of the last seconds, the newest last; a second without a value is a default point.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeSeries<P> {
    /// Unix time of the last point, in seconds.
    second: i64,
    points: VecDeque<P>,
}

impl<P: Clone + Default> TimeSeries<P> {
    /// Records the point of a second and keeps the last `kept` seconds. A newer point of the same second
    /// replaces the older one; the series starts over after a longer pause or if time goes back.
    pub(crate) fn record(&mut self, second: i64, point: P, kept: usize) {
        match usize::try_from(second - self.second) {
            Ok(0) => {
                self.points.pop_back();
            }
            Ok(passed) if passed <= kept && !self.points.is_empty() => {
                self.points.extend(std::iter::repeat_n(P::default(), passed - 1));
            }
            _ => self.points.clear(),
        }
        self.points.push_back(point);
        let surplus = self.points.len().saturating_sub(kept);
        self.points.drain(..surplus);
        self.second = second;
    }

    /// Returns the `count` points up to a second, oldest first, `None` where there is none.
    pub(crate) fn until(&self, second: i64, count: usize) -> impl Iterator<Item = Option<&P>> {
        (0..count).rev().map(move |ago| {
            let ago = i64::try_from(ago).ok()?;
            let offset = usize::try_from(self.second - second + ago).ok()?;
            self.points.get(self.points.len().checked_sub(offset + 1)?)
        })
    }

    /// Returns the Unix time of the last point, in seconds.
    pub(crate) const fn last_second(&self) -> i64 {
        self.second
    }

    /// Returns all points, oldest first.
    pub(crate) fn points(&self) -> impl ExactSizeIterator<Item = &P> {
        self.points.iter()
    }
}

/// Returns the mean of numbers; `None` if there are none.
pub(crate) fn mean(values: impl Iterator<Item = f32>) -> Option<f32> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Returns the median, the higher one of the two in the middle.
pub(crate) fn median(values: &[f32]) -> Option<f32> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Means of values by their position, each with a weight.
pub(crate) struct Means(Vec<(f32, f32)>);

impl Means {
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![(0.0, 0.0); count])
    }

    /// Adds a value, if it is known, to the mean at `position`.
    pub(crate) fn add(&mut self, position: usize, value: Option<f32>, weight: f32) {
        if let (Some(value), Some((sum, weights))) = (value, self.0.get_mut(position)) {
            *sum += value * weight;
            *weights += weight;
        }
    }

    /// Returns the means, `None` where nothing was added.
    pub(crate) fn finish(self) -> Vec<Option<f32>> {
        self.0.into_iter().map(|(sum, weights)| (weights > 0.0).then(|| sum / weights)).collect()
    }
}
