//! The clock of a recording: it stands, or runs at a multiple of real time up to a limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::ClockId;

use super::{Timestamp, read_clock};

/// A clock that a player sets and others read.
#[derive(Clone, Debug)]
pub struct PlaybackClock(Arc<Mutex<PlaybackTime>>);

/// How the time of a recording runs.
#[derive(Clone, Copy, Debug)]
struct PlaybackTime {
    /// The time at the last change.
    at: Timestamp,
    /// The monotonic clock at the last change, in microseconds.
    since: i64,
    /// Recorded seconds per second; 0 while it stands.
    speed: f32,
    /// The time does not pass this.
    limit: Timestamp,
}

impl PlaybackClock {
    /// Makes a clock that stands at `at`.
    pub fn standing_at(at: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(PlaybackTime { at, since: 0, speed: 0.0, limit: at })))
    }

    /// Sets the time, its speed in recorded seconds per second, and the time at which it stops.
    pub fn set(&self, at: Timestamp, speed: f32, limit: Timestamp) {
        let since = read_clock(ClockId::Boottime);
        *self.lock() = PlaybackTime { at, since, speed, limit };
    }

    /// Returns the time that is played.
    pub fn now(&self) -> Timestamp {
        let PlaybackTime { at, since, speed, limit } = *self.lock();
        if speed <= 0.0 {
            return at;
        }
        let elapsed = read_clock(ClockId::Boottime).saturating_sub(since).max(0);
        at.plus(scaled(elapsed, speed)).min(limit.max(at))
    }

    fn lock(&self) -> MutexGuard<'_, PlaybackTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "elapsed microseconds are small and positive, and a float cast saturates"
)]
fn scaled(micros: i64, speed: f32) -> Duration {
    Duration::from_micros((micros as f64 * f64::from(speed)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_or_runs_up_to_the_limit() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let clock = PlaybackClock::standing_at(at(5));
        assert_eq!(clock.now(), at(5));
        clock.set(at(7), 0.0, at(99));
        assert_eq!(clock.now(), at(7));
        clock.set(at(7), 1e12, at(99));
        while clock.now() < at(99) {}
        assert_eq!(clock.now(), at(99));
        // A limit in the past does not move it back.
        clock.set(at(7), 64.0, at(3));
        assert_eq!(clock.now(), at(7));
    }
}
