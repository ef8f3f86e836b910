//! Pictures of the fleet at times of recordings, one after the other.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::fleet::Fleet;
use crate::source::replay::fold::Fold;
use crate::source::replay::{Recordings, fleet_of};
use crate::time::Timestamp;

/// Pictures at equal distances, without the gaps of the recordings.
#[derive(Debug)]
pub struct Pictures {
    fold: Fold,
    /// The spans that are left, the next one last.
    spans: Vec<(Timestamp, Timestamp)>,
    every: Duration,
    /// The time of the picture before.
    before: Option<Timestamp>,
}

impl Recordings {
    /// Returns pictures this far apart, from the first recorded time; each span has one at its end.
    pub fn pictures(&self, every: Duration) -> Pictures {
        let mut spans = self.spans();
        let start = spans.first().map(|(from, _)| *from).unwrap_or_default();
        spans.reverse();
        let every = every.max(Duration::from_millis(1));
        Pictures { fold: Fold::new(self, start, Duration::ZERO), spans, every, before: None }
    }
}

impl Iterator for Pictures {
    type Item = (Timestamp, Fleet);

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = *self.spans.last()?;
        let next = self.before.filter(|before| *before >= from).map(|it| it.plus(self.every));
        let at = next.unwrap_or(from).min(to);
        if at == to {
            self.spans.pop();
        }
        self.before = Some(at);
        self.fold.advance(at, &AtomicBool::new(false));
        Some((at, fleet_of(&self.fold, Duration::ZERO)))
    }
}
