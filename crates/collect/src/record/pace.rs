//! Chooses how many samples are recorded, so that the time that is to be kept fits into the size.

use std::time::Duration;

use crate::record::writer::Limits;
use gtop_local::time::Timestamp;

/// Seconds between two recorded samples of a node.
const STEPS: [u32; 11] = [1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600];
/// Bytes of a node's sample, with its part of the checkpoints, before they are measured.
const ESTIMATED_BYTES: u32 = 250;
/// Parts are removed as a whole, so that less than the maximum size is kept.
const KEPT_SHARE: f64 = 0.9;
/// A size is measured for this long at least: the first samples are larger.
const MIN_MEASURED: Duration = Duration::from_secs(600);
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

/// The time between two recorded samples of a node.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    /// Bytes per second for which there is room; `None` if the time is fixed.
    budget: Option<f64>,
    /// Since when sizes are measured, and the size then.
    since: Option<(Timestamp, u64)>,
    is_measured: bool,
}

impl Pace {
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn new(thinning: Thinning, limits: Limits) -> Self {
        let (every, budget) = match thinning {
            Thinning::Every(every) => (every, None),
            Thinning::ToFit => {
                let budget = limits.max_bytes as f64 * KEPT_SHARE / limits.keep.as_secs_f64();
                (Duration::from_secs(STEPS[0].into()), Some(budget))
            }
        };
        Self { every, budget, since: None, is_measured: false }
    }

    /// Returns the time; zero records each sample.
    pub(super) const fn every(&self) -> Duration {
        self.every
    }

    /// Estimates the time for this many nodes, until it is measured.
    pub(super) fn estimate(&mut self, nodes: usize) {
        if let (Some(budget), false) = (self.budget, self.is_measured) {
            let nodes = f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
            self.every = step_for(nodes * f64::from(ESTIMATED_BYTES) / budget);
        }
    }

    /// Measures the bytes that were written up to now, and adapts the time.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn on_written(&mut self, now: Timestamp, bytes: u64) {
        let Some(budget) = self.budget else { return };
        let (since, before) = *self.since.get_or_insert((now, bytes));
        let measured = now.since(since);
        if measured < MIN_MEASURED {
            return;
        }
        self.since = Some((now, bytes));
        // It is less if the file was removed.
        let Some(grown) = bytes.checked_sub(before) else { return };
        let rate = grown as f64 / measured.as_secs_f64();
        let fitting = self.every.as_secs_f64() * rate / budget;
        let with_room = step_for(fitting / SPARE_SHARE);
        self.every =
            if with_room < self.every { with_room } else { self.every.max(step_for(fitting)) };
        self.is_measured = true;
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
            let mut pace = Pace::new(Thinning::ToFit, LIMITS);
            pace.estimate(nodes);
            assert_eq!(pace.every().as_secs(), seconds, "{nodes}");
        }
    }

    #[test]
    fn the_time_follows_the_size_that_is_measured_and_settles() {
        for bytes_of_a_round in [100, 20_000, 300_000, 90_000_000] {
            let mut pace = Pace::new(Thinning::ToFit, LIMITS);
            pace.estimate(64);
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
    fn a_fixed_time_stays() {
        let mut pace = Pace::new(Thinning::Every(Duration::ZERO), LIMITS);
        pace.estimate(10_000);
        pace.on_written(at(0), 0);
        pace.on_written(at(3_600), 1 << 40);
        assert_eq!(pace.every(), Duration::ZERO);
    }
}
