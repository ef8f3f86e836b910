//! Freshness: how old a value may be before it is called stale.

use std::time::Duration;

use crate::time::Timestamp;

/// How new what we know from one source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Sampled within its time.
    Fresh,
    /// Sampled this long ago, which is too long.
    Stale(Duration),
    /// Never sampled.
    Missing,
}

impl Freshness {
    /// Judges something taken at `taken_at` that counts as stale after `stale_after`.
    pub fn of(taken_at: Option<Timestamp>, now: Timestamp, stale_after: Duration) -> Self {
        let Some(taken_at) = taken_at else { return Self::Missing };
        let age = now.since(taken_at);
        if age <= stale_after { Self::Fresh } else { Self::Stale(age) }
    }

    /// Says whether it is fresh.
    pub const fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh)
    }
}

/// Returns the age beyond which a source of this effective interval is stale: three intervals,
/// at least 3 s.
pub fn stale_after(interval: Duration) -> Duration {
    interval.saturating_mul(3).max(Duration::from_secs(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_intervals_make_stale_but_never_less_than_three_seconds() {
        let taken = Timestamp::from_micros(0);
        let judge = |interval, age| {
            let now = taken.plus(Duration::from_millis(age));
            Freshness::of(Some(taken), now, stale_after(Duration::from_millis(interval)))
        };
        assert_eq!(judge(100, 3_000), Freshness::Fresh);
        assert_eq!(judge(100, 3_001), Freshness::Stale(Duration::from_millis(3_001)));
        assert_eq!(judge(5_000, 15_000), Freshness::Fresh);
        assert!(!judge(5_000, 15_001).is_fresh());
        assert_eq!(Freshness::of(None, taken, Duration::ZERO), Freshness::Missing);
    }
}
