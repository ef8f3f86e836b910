//! The interval between two rounds.

use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};

/// Maximum wait after failures, if the interval is shorter.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// Minimum wait as a multiple of the last query's time; failed queries count once, because their time
/// does not show how busy the scheduler is.
pub(super) const WAIT_PER_QUERY_TIME: u32 = 10;

/// Returns the wait after a round: the interval, doubled per failure from the second on, at least
/// [`WAIT_PER_QUERY_TIME`] times the query's time, with jitter from the random byte.
pub(super) fn next_wait(interval: Duration, took: Duration, failures: u32, random: u8) -> Duration {
    let doubled = interval.saturating_mul(1 << failures.saturating_sub(1).min(8));
    let factor = if failures == 0 { WAIT_PER_QUERY_TIME } else { 1 };
    let wait = doubled.min(MAX_BACKOFF.max(interval)).max(took.saturating_mul(factor));
    // Jitter: 0.9 to 1.1.
    wait / 10 * 9 + wait / 5 * u32::from(random) / u32::from(u8::MAX)
}

pub(super) fn random_byte() -> u8 {
    let mut byte = [0];
    // Without randomness there is no jitter, which does no harm.
    _ = getrandom(&mut byte, GetRandomFlags::empty());
    byte[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_failures_and_with_query_time() {
        let wait = |took, failures| {
            next_wait(Duration::from_secs(30), Duration::from_secs(took), failures, 128).as_secs()
        };
        for (took, failures, around) in [
            (0, 0, 30),
            (0, 1, 30),
            (0, 2, 60),
            (0, 3, 120),
            (0, 30, 300),
            (20, 0, 200),
            (40, 1, 40),
            (9, 0, 90),
        ] {
            let got = wait(took, failures);
            assert!(got.abs_diff(around) <= around / 9, "{took} {failures}: {got}");
        }
        let hour = Duration::from_secs(3600);
        let spread = [0, 255].map(|chance| next_wait(hour, Duration::ZERO, 9, chance).as_secs());
        assert_eq!(spread, [3240, 3960]);
    }
}
