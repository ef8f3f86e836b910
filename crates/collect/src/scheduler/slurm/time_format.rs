//! Parses times and durations as its programs write them.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use gtop_local::time::Timestamp;

/// Parses a time: a Unix time, as requested, or local time if they ignore the request. `None` for
/// `N/A`, `Unknown` and the like.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let seconds = match text.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_words) => {
            let local: DateTime = text.parse().ok()?;
            local.to_zoned(TimeZone::system()).ok()?.timestamp().as_second()
        }
    };
    // They write 0 or u32::MAX for no value.
    let is_sound = (1..=253_402_300_799).contains(&seconds) && seconds != i64::from(u32::MAX);
    is_sound.then(|| seconds.checked_mul(1_000_000).map(Timestamp::from_micros))?
}

/// Parses a duration: `MM:SS`, `HH:MM:SS`, `D-HH:MM:SS`. `None` for `UNLIMITED` and the like.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (days, clock) = text.trim().split_once('-').unwrap_or(("0", text.trim()));
    let mut parts: Vec<&str> = clock.split(':').collect();
    if parts.len() == 2 {
        parts.insert(0, "0");
    }
    let [hours, minutes, seconds] = *parts else { return None };
    let mut total: u64 = 0;
    for (part, per_whole) in [(days, 1), (hours, 24), (minutes, 60), (seconds, 60)] {
        total = total.checked_mul(per_whole)?.checked_add(part.parse().ok()?)?;
    }
    Some(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_words_are_none() {
        for (text, seconds) in [
            ("30:00", Some(1800)),
            ("1:00:00", Some(3600)),
            ("7-00:00:00", Some(7 * 86_400)),
            ("0:01", Some(1)),
            ("UNLIMITED", None),
            ("NOT_SET", None),
            ("INVALID", None),
            ("", None),
            ("99999999999999999999-00:00:00", None),
            ("18446744073709551615-00:00:00", None),
        ] {
            assert_eq!(parse_duration(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn times_are_parsed_and_words_are_none() {
        assert_eq!(parse_time("1795269440"), Some(Timestamp::from_micros(1_795_269_440_000_000)));
        assert!(parse_time("2026-11-21T13:57:20").is_some());
        for text in ["N/A", "Unknown", "0", "4294967295", "-5", "", "9223372036854775807"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
