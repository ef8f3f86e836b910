//! Energy of a device: power × time, corrected by the driver's counter wherever that has moved on.

use crate::sums::intervals::TimeIntervals;
use gtop_local::time::Timestamp;

/// No device draws more power, in watts: today's draw up to 1,400.
const MAX_WATTS: f64 = 10_000.0;

/// Follows the driver's counter of energy, which also counts the time in which nothing was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnergyMeter {
    pub(crate) first: Option<CounterValue>,
    /// When the counter last moved.
    pub(crate) last: Option<CounterValue>,
    /// Energy from power before the first value, and since the last one, in joules.
    pub(crate) before_first: f64,
    pub(crate) since_last: f64,
    pub(crate) has_moved: bool,
}

/// What the counter showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterValue {
    pub(crate) at: Timestamp,
    pub(crate) joules: f64,
}

impl EnergyMeter {
    /// Adds energy that was counted from power.
    pub fn add(&mut self, joules: f64) {
        if self.first.is_none() {
            self.before_first += joules;
        } else {
            self.since_last += joules;
        }
    }

    /// Takes what the counter shows; returns by how much the energy from power since it last moved has to be corrected.
    pub(super) fn correction(
        &mut self,
        at: Timestamp,
        joules: f64,
        recorded: &TimeIntervals,
    ) -> Option<f64> {
        let newer = CounterValue { at, joules };
        let Some(last) = self.last.filter(|last| last.leads_to(newer, recorded)) else {
            self.first.get_or_insert(newer);
            (self.last, self.since_last) = (Some(newer), 0.0);
            return None;
        };
        if joules <= last.joules {
            return None;
        }
        let correction = joules - last.joules - self.since_last;
        if joules - last.joules > MAX_WATTS * at.since(last.at).as_secs_f64() {
            // No device draws as much: the counter is wrong.
            (self.last, self.since_last) = (Some(newer), 0.0);
            return None;
        }
        (self.last, self.since_last, self.has_moved) = (Some(newer), 0.0, true);
        Some(correction)
    }

    /// Adds that of the span that follows; returns the correction for the time between them.
    pub fn merge(&mut self, other: Self, recorded: &TimeIntervals) -> Option<f64> {
        let between = self.since_last + other.before_first;
        let (Some(last), Some(first)) = (self.last, other.first) else {
            if self.first.is_none() {
                self.before_first += other.before_first;
                (self.first, self.last) = (other.first, other.last);
                self.since_last = other.since_last;
            } else {
                self.since_last = between;
            }
            self.has_moved |= other.has_moved;
            return None;
        };
        let is_stuck = !self.has_moved && !other.has_moved && first.joules <= last.joules;
        if is_stuck {
            self.since_last = between + other.since_last;
            return None;
        }
        (self.last, self.since_last) = (other.last, other.since_last);
        self.has_moved |= other.has_moved || first.joules > last.joules;
        last.leads_to(first, recorded).then_some(first.joules - last.joules - between)
    }
}

impl CounterValue {
    /// Returns true if the counter went from this value to a later one within a recorded span.
    fn leads_to(self, later: Self, recorded: &TimeIntervals) -> bool {
        let is_recorded = recorded.end_of(self.at).is_some_and(|end| later.at <= end);
        is_recorded && self.joules <= later.joules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i32) -> Timestamp {
        Timestamp::from_micros(i64::from(seconds) * 1_000_000)
    }

    /// Meters a device that draws 100 W by its readings and 300 W by its counter, which is read every 10 s; nothing is read
    /// in a hang from 30 s to 70 s. Returns the joules, read in parts that begin at these seconds.
    fn metered(parts: &[i32], counter: impl Fn(i32) -> f64) -> f64 {
        let recorded = TimeIntervals::new(vec![(at(0), at(100))]);
        let (mut all, mut joules) = (EnergyMeter::default(), 0.0);
        let bounds: Vec<i32> = [0].into_iter().chain(parts.iter().copied()).chain([101]).collect();
        for bound in bounds.windows(2) {
            let mut meter = EnergyMeter::default();
            for second in (bound[0]..bound[1]).filter(|second| !(31..70).contains(second)) {
                if second % 10 == 0 {
                    joules +=
                        meter.correction(at(second), counter(second), &recorded).unwrap_or(0.0);
                }
                if second < 100 && second != 30 {
                    meter.add(100.0);
                    joules += 100.0;
                }
            }
            joules += all.merge(meter, &recorded).unwrap_or(0.0);
        }
        joules
    }

    #[test]
    fn the_counter_counts_what_was_not_seen_however_a_recording_is_read() {
        let steady = |second: i32| 5.0 + 300.0 * f64::from(second);
        for parts in [&[][..], &[15], &[30], &[50], &[65, 85], &[10, 20, 30, 40, 50, 60, 70]] {
            let joules = metered(parts, steady);
            assert!((joules - 30_000.0).abs() < 1e-6, "{parts:?}: {joules}");
        }
    }

    #[test]
    fn a_counter_that_stands_still_or_begins_anew_corrects_nothing_wrongly() {
        for parts in [&[][..], &[15], &[50]] {
            assert!((metered(parts, |_| 7.0) - 6_000.0).abs() < 1e-6, "{parts:?}");
        }
        // A counter that is wrong once.
        let jump = |second: i32| 7.0 + if second > 50 { 2e15 } else { 0.0 };
        assert!((metered(&[], jump) - 6_000.0).abs() < 1e-6, "{}", metered(&[], jump));
        // The driver is loaded anew in the hang: only what the counter shows before and after it is known.
        let anew = |second: i32| 300.0 * f64::from(if second > 30 { second - 70 } else { second });
        assert!((metered(&[], anew) - 18_000.0).abs() < 1e-6, "{}", metered(&[], anew));
    }
}
