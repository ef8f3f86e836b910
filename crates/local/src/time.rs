//! Timestamps, the clock that returns them, the offset of a node's clock, and the format of durations.
//!
//! Functions take a [`Timestamp`] as an argument instead of reading a clock, so that tests can say what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, in microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Makes a timestamp from microseconds since 1970-01-01 UTC.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns microseconds since 1970-01-01 UTC.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns its second since the Unix epoch.
    pub const fn second(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the beginning of its second.
    #[must_use]
    pub const fn whole_seconds(self) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(1_000_000)))
    }

    /// Returns its second as programs and people write it: `2026-11-27T14:05:10Z`.
    pub fn rfc3339_seconds(self) -> String {
        jiff::Timestamp::from_second(self.second()).unwrap_or_default().to_string()
    }

    /// Parses the date of an HTTP response: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        Some(Self(date.as_microsecond()))
    }

    /// Returns how long ago `earlier` was; zero when it is later than `self`.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the time between two moments, whichever is earlier.
    pub fn distance(self, other: Self) -> Duration {
        Duration::from_micros(self.0.abs_diff(other.0))
    }

    /// Returns the moment `later` after this one.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(micros(later)))
    }

    /// Returns the moment `earlier` before this one.
    #[must_use]
    pub fn minus(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(micros(earlier)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A moment on a node's own clock.
///
/// Spans between two samples are measured on it, so that they do not change when the offset estimate does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTime(i64);

impl NodeTime {
    /// Returns how long ago `earlier` was; `None` when it is later than `self`, because the clock was restarted.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        u64::try_from(self.0.saturating_sub(earlier.0)).ok().map(Duration::from_micros)
    }
}

/// Source of timestamps.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The wall clock at the start, advanced by the monotonic clock.
    System {
        /// Wall clock minus monotonic clock, in microseconds, read once.
        wall_offset: i64,
    },
    /// A clock that moves only when it is set: the time at which a recording is played, or that of a test.
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    /// Makes a clock that follows the system's clock.
    ///
    /// The monotonic part includes time spent suspended: samples from before a laptop slept are old when it wakes.
    pub fn system() -> Self {
        Self::System { wall_offset: read_clock(ClockId::Realtime) - read_clock(ClockId::Boottime) }
    }

    /// Makes a clock that stands at `at` until it is set.
    pub fn fixed(at: Timestamp) -> Self {
        Self::Fixed(Arc::new(AtomicI64::new(at.0)))
    }

    /// Sets a fixed clock; has no effect on the system clock.
    pub fn set(&self, at: Timestamp) {
        if let Self::Fixed(fixed) = self {
            fixed.store(at.0, Ordering::Relaxed);
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System { wall_offset } => Timestamp(read_clock(ClockId::Boottime) + wall_offset),
            Self::Fixed(at) => Timestamp(at.load(Ordering::Relaxed)),
        }
    }

    /// Advances a fixed clock; has no effect on the system clock.
    #[cfg(any(test, feature = "testing"))]
    pub fn advance(&self, by: Duration) {
        if let Self::Fixed(at) = self {
            at.fetch_add(micros(by), Ordering::Relaxed);
        }
    }
}

fn read_clock(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Offset between a node's probe clock and the local clock, estimated from arriving frames.
///
/// The smallest difference between arrival and probe time in a session is the best estimate: a frame can be late, never
/// early. Two clocks drift apart by up to about 50 ppm, so the minimum rises by twice that; otherwise all values would be
/// stale after a session of some days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset(Option<OffsetEstimate>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetEstimate {
    micros: i64,
    at: Timestamp,
}

/// The allowed drift: 1/10 000 = 100 ppm.
const DRIFT_DIVISOR: i64 = 10_000;

impl ClockOffset {
    /// Updates the estimate with a frame stamped `probe_seconds` that arrived at `arrival`.
    pub fn update(&mut self, probe_seconds: f64, arrival: Timestamp) {
        let observed = arrival.0.saturating_sub(probe_micros(probe_seconds));
        let micros = match self.0 {
            None => observed,
            Some(known) => {
                let passed = arrival.0.saturating_sub(known.at.0).max(0);
                observed.min(known.micros.saturating_add(passed / DRIFT_DIVISOR))
            }
        };
        self.0 = Some(OffsetEstimate { micros, at: arrival });
    }

    /// Returns the local time at which the probe's clock showed `probe_seconds`.
    ///
    /// `None` before the first frame. Never later than `not_after`.
    pub fn local_time(&self, probe_seconds: f64, not_after: Timestamp) -> Option<Timestamp> {
        let estimate = self.0?;
        let time = Timestamp(probe_micros(probe_seconds).saturating_add(estimate.micros));
        Some(time.min(not_after))
    }

    /// Returns the node's time at a local time; the same time before the first frame.
    pub fn node_time(&self, local: Timestamp) -> NodeTime {
        NodeTime(local.0.saturating_sub(self.0.map_or(0, |estimate| estimate.micros)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float cast saturates, which is what we want"
)]
fn probe_micros(seconds: f64) -> i64 {
    (seconds * 1e6) as i64
}

/// Returns a moment in the time zone of the system: `2026-11-24 14:05:00`.
pub fn local_text(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_second(at.second()).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats an age: accurate to a second, at least `1s`.
pub fn format_age(span: Duration) -> String {
    let rounded = span.saturating_add(Duration::from_millis(500)).as_secs();
    format_seconds(rounded.max(1))
}

/// Formats a duration, `0s` included.
pub fn format_duration(span: Duration) -> String {
    format_seconds(span.saturating_add(Duration::from_millis(500)).as_secs())
}

fn format_seconds(total: u64) -> String {
    let (days, hours, minutes, rest) =
        (total / 86_400, total / 3_600 % 24, total / 60 % 60, total % 60);
    match total {
        0..60 => format!("{rest}s"),
        60..3_600 => format!("{minutes}m{rest:02}s"),
        3_600..86_400 => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn dates_of_http_are_read() {
        let parsed = Timestamp::from_http_date("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parsed, Some(at(784_111_777)));
        for odd in ["", "now", "784111777", "Sun, 06 Nov 1994"] {
            assert_eq!(Timestamp::from_http_date(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_time_since_a_later_moment_is_zero() {
        assert_eq!(at(1).since(at(5)), Duration::ZERO);
        assert_eq!(at(5).since(at(1)), Duration::from_secs(4));
    }

    #[test]
    fn a_fixed_clock_moves_only_by_advance() {
        let clock = Clock::fixed(at(10));
        assert_eq!(clock.now(), at(10));
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now(), at(13));
    }

    #[test]
    fn the_system_clock_is_near_the_wall_clock_and_never_goes_back() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(first.as_micros() > 1_700_000_000_000_000);
        assert!(clock.now() >= first);
    }

    #[test]
    fn a_frame_delayed_in_a_pipe_does_not_look_new() {
        let mut offset = ClockOffset::default();
        offset.update(100.0, at(1000));
        offset.update(101.0, at(1009));
        assert_eq!(
            offset.local_time(101.0, at(1009)),
            Some(at(1001)).map(|t| t.plus(Duration::from_micros(900)))
        );
    }

    #[test]
    fn the_offset_follows_the_drift_of_clocks() {
        let mut offset = ClockOffset::default();
        let mut arrival = at(0);
        for second in 0..200_000_i32 {
            // our clock runs 50 ppm faster than the node's
            arrival = Timestamp::from_micros(i64::from(second) * 1_000_050);
            offset.update(f64::from(second), arrival);
        }
        let sampled = offset.local_time(199_999.0, arrival).unwrap();
        assert!(arrival.since(sampled) < Duration::from_millis(10));
    }

    #[test]
    fn nothing_is_sampled_in_the_future() {
        let mut offset = ClockOffset::default();
        offset.update(100.0, at(1000));
        assert_eq!(offset.local_time(500.0, at(1001)), Some(at(1001)));
        assert_eq!(ClockOffset::default().local_time(1.0, at(1)), None);
    }

    #[test]
    fn spans_between_samples_are_measured_by_the_clock_of_the_node() {
        let mut offset = ClockOffset::default();
        let taken = [(100.0, at(1000)), (101.0, at(1001).minus(Duration::from_millis(400)))];
        let [first, second] = taken.map(|(probe, arrival)| {
            offset.update(probe, arrival);
            offset.node_time(offset.local_time(probe, arrival).unwrap())
        });
        assert_eq!(second.since(first), Some(Duration::from_secs(1)));
        assert_eq!(first.since(second), None);
    }

    #[test]
    fn ages_are_accurate_to_a_second_and_at_least_one_second() {
        for (millis, text) in [
            (0, "1s"),
            (999, "1s"),
            (1_400, "1s"),
            (1_600, "2s"),
            (59_400, "59s"),
            (102_000, "1m42s"),
            (3_725_000, "1h02m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(format_age(Duration::from_millis(millis)), text);
        }
        assert_eq!(format_duration(Duration::from_millis(100)), "0s");
    }
}
