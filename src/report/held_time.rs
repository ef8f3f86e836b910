//! When a device was held by those that a report counts.

use std::time::Duration;

use gtop_collect::sums::TimeIntervals;
use gtop_local::time::Timestamp;

/// When a device was held by those that a report counts. A gap counts if the samples before and after it both show that.
#[derive(Debug, Default)]
pub(super) struct HeldTime {
    pub(super) intervals: TimeIntervals,
    /// The gaps in it, and the share of the device that was held before.
    gaps: Vec<((Timestamp, Timestamp), f64)>,
    /// Until when the last sample shows it held, and the share; `None` if it does not show it.
    last: Option<(Timestamp, f64)>,
}

impl HeldTime {
    /// Adds the time in which a sample held; `share` is that of the device which counts.
    pub(super) fn add(&mut self, (from, to): (Timestamp, Timestamp), share: f64) {
        if share <= 0.0 {
            self.last = None;
            return;
        }
        self.close_gap(from);
        self.intervals.push(from, to);
        self.last = Some((to, share));
    }

    /// Adds times in which it was held unseen, before the first sample or where samples show other holders.
    pub(super) fn add_unseen(&mut self, unseen: &TimeIntervals, share: f64) {
        if share > 0.0 {
            self.gaps.extend(unseen.as_slice().iter().map(|gap| (*gap, share)));
            self.intervals.extend(unseen);
            self.intervals = self.intervals.union();
        }
    }

    /// Adds the time since the last sample up to the end: it is known to be held then.
    pub(super) fn end(&mut self, at: Timestamp) {
        self.close_gap(at);
        self.last = None;
    }

    /// Adds the time since the last sample.
    fn close_gap(&mut self, to: Timestamp) {
        if let Some((from, share)) = self.last.filter(|(from, _)| *from < to) {
            self.intervals.push(from, to);
            self.gaps.push(((from, to), share));
        }
    }

    /// Returns true if it was held at any time.
    pub(super) fn is_held(&self) -> bool {
        !self.intervals.as_slice().is_empty()
    }

    /// Returns true if it was held in any part of the second that begins at this time.
    pub(super) fn has_second(&self, at: Timestamp) -> bool {
        let second = TimeIntervals::new(vec![(at, at.plus(Duration::from_secs(1)))]);
        !self.intervals.intersection(&second).as_slice().is_empty()
    }

    /// Returns the seconds of the gaps in the time that is watched, each times its share.
    pub(super) fn unseen_seconds(&self, watched: &TimeIntervals) -> f64 {
        self.gaps.iter().fold(0.0, |sum, (gap, share)| {
            sum + TimeIntervals::new(vec![*gap]).intersection(watched).seconds() * share
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: i64, to: i64) -> (Timestamp, Timestamp) {
        (Timestamp::from_micros(from * 1_000_000), Timestamp::from_micros(to * 1_000_000))
    }

    fn held(samples: &[(i64, i64, f64)]) -> HeldTime {
        let mut time = HeldTime::default();
        for (from, to, share) in samples {
            time.add(span(*from, *to), *share);
        }
        time
    }

    #[test]
    fn a_gap_between_samples_that_show_it_held_is_part_of_it() {
        let samples =
            [(0, 2, 1.0), (2, 4, 0.5), (10, 12, 0.5), (12, 14, 0.0), (30, 32, 1.0), (40, 41, 0.0)];
        let all = TimeIntervals::new(vec![span(0, 100)]);
        let time = held(&samples);
        assert_eq!(time.intervals, TimeIntervals::new(vec![span(0, 12), span(30, 32)]));
        assert!((time.unseen_seconds(&all) - 3.0).abs() < 1e-9);
        let watched = TimeIntervals::new(vec![span(0, 6)]);
        assert!((held(&samples).unseen_seconds(&watched) - 1.0).abs() < 1e-9);
    }
}
