//! Freshness: how old a value may be before it is stale.

use std::time::Duration;

use crate::id::Source;
use gtop_local::time::Timestamp;

/// Freshness of one source, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freshness {
    /// Sampled recently enough.
    Fresh,
    /// Sampled this long ago, which is too long.
    Stale(Duration),
    /// Never sampled.
    Missing,
}

impl Freshness {
    /// Returns the freshness of a value sampled at `taken_at` that is stale after `stale_after`.
    pub fn of(taken_at: Option<Timestamp>, now: Timestamp, stale_after: Duration) -> Self {
        let Some(taken_at) = taken_at else { return Self::Missing };
        let age = now.since(taken_at);
        if age <= stale_after { Self::Fresh } else { Self::Stale(age) }
    }

    /// Returns true if the source is fresh.
    pub const fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh)
    }
}

/// Returns the age beyond which a source of this effective interval is stale: three intervals,
/// at least 3 s.
pub fn stale_after(interval: Duration) -> Duration {
    interval.saturating_mul(3).max(Duration::from_secs(3))
}

/// Returns the longest allowed interval of a source while its node is sampled every `requested`.
///
/// Probes poll some sources less often, as listed here. The limit keeps a node from announcing a longer interval and
/// having old values shown as fresh.
pub fn max_interval(source: &Source, requested: Duration) -> Duration {
    let name = source.as_str();
    let minimum = Duration::from_secs(match name.split_once('.').unwrap_or((name, "")) {
        ("host", "") => 0,
        // A slow nvidia-smi pauses for as long as it runs; one that takes longer than a minute hangs.
        ("nvidia-smi", _) => 120,
        (_, "slow") => 10,
        (_, "processes") => 2,
        _ => 1,
    });
    if requested < minimum { minimum.saturating_add(requested) } else { requested }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_stale_after_three_intervals_and_at_least_three_seconds() {
        let taken = Timestamp::from_micros(0);
        let freshness = |interval, age| {
            let now = taken.plus(Duration::from_millis(age));
            Freshness::of(Some(taken), now, stale_after(Duration::from_millis(interval)))
        };
        assert_eq!(freshness(100, 3_000), Freshness::Fresh);
        assert_eq!(freshness(100, 3_001), Freshness::Stale(Duration::from_millis(3_001)));
        assert_eq!(freshness(5_000, 15_000), Freshness::Fresh);
        assert!(!freshness(5_000, 15_001).is_fresh());
        assert_eq!(Freshness::of(None, taken, Duration::ZERO), Freshness::Missing);
    }

    #[test]
    fn rarely_polled_sources_may_have_longer_intervals() {
        for (source, requested, maximum) in [
            ("host", 1, 1),
            ("host", 60, 60),
            ("host.slow", 1, 11),
            ("nvml", 1, 1),
            ("nvml.processes", 1, 3),
            ("nvml.slow", 7, 17),
            ("nvidia-smi", 1, 121),
            ("nvidia-smi", 150, 150),
            ("anything", 2, 2),
        ] {
            let found = max_interval(&Source::new(source), Duration::from_secs(requested));
            assert_eq!(found.as_secs(), maximum, "{source} {requested}");
        }
    }
}
