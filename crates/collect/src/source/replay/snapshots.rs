//! The fleet at times of recordings, one after the other.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::source::replay::fold::Fold;
use crate::source::replay::{Recordings, fleet_of};
use gtop_fleet::Fleet;
use gtop_local::time::Timestamp;

/// Snapshots at equal distances, without the gaps of the recordings.
#[derive(Debug)]
pub struct FleetSnapshots {
    fold: Fold,
    /// The spans that are left, the next one last.
    spans: Vec<(Timestamp, Timestamp)>,
    every: Duration,
    /// The time of the snapshot before.
    before: Option<Timestamp>,
}

impl Recordings {
    /// Returns snapshots this far apart, from the first recorded time; each span has one at its end.
    pub fn snapshots(&self, every: Duration) -> FleetSnapshots {
        let mut spans = self.spans();
        let start = spans.first().map(|(from, _)| *from).unwrap_or_default();
        spans.reverse();
        let every = every.max(Duration::from_millis(1));
        FleetSnapshots { fold: Fold::new(self, start, Duration::ZERO), spans, every, before: None }
    }
}

impl Iterator for FleetSnapshots {
    type Item = (Timestamp, Fleet);

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = *self.spans.last()?;
        let next = self.before.filter(|before| *before >= from).map(|at| at.plus(self.every));
        let at = next.unwrap_or(from).min(to);
        if at == to {
            self.spans.pop();
        }
        self.before = Some(at);
        self.fold.advance(at, &AtomicBool::new(false));
        Some((at, fleet_of(&self.fold, Duration::ZERO)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_has_its_start_its_end_and_what_is_between() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let times = |spans: &[(i64, i64)], every| {
            let spans = spans.iter().rev().map(|(from, to)| (at(*from), at(*to))).collect();
            let fold = Fold::new(&Recordings::default(), at(0), Duration::ZERO);
            let every = Duration::from_secs(every);
            let all = FleetSnapshots { fold, spans, every, before: None };
            all.map(|(at, _)| at.second()).collect::<Vec<_>>()
        };
        assert_eq!(times(&[(10, 15), (40, 44)], 2), [10, 12, 14, 15, 40, 42, 44]);
        assert_eq!(times(&[(10, 15), (40, 40)], 60), [10, 15, 40]);
        assert_eq!(times(&[], 1), [0_i64; 0]);
    }
}
