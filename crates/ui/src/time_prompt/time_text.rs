//! Times as a person writes them: a time of day, a distance from the time shown, or a date and time.

use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;

use crate::timeline::zoned;
use gtop_local::time::Timestamp;

const NOT_A_TIME: &str = "not a time: write 14:05, -3m, +10s or 2026-11-24 14:05";
const NOT_A_TIME_OF_DAY: &str = "no such time of day: write 14:05 or 14:05:30";
const NOT_A_DISTANCE: &str = "not an offset: write -3m, +10s or -1h30m, with d, h, m and s";
const OUT_OF_RANGE: &str = "that is too far from now";

/// What a time is relative to.
#[derive(Clone, Copy, Debug)]
pub struct TimeContext<'a> {
    /// The time shown.
    pub now: Timestamp,
    pub zone: &'a TimeZone,
    /// The recorded times, first and last.
    pub spans: &'a [(Timestamp, Timestamp)],
}

/// Returns the moment that a text means, or what is wrong with it.
pub fn parse_time(text: &str, context: TimeContext<'_>) -> Result<Timestamp, &'static str> {
    let text = text.trim();
    if let Some(distance) = text.strip_prefix('+') {
        return moved(context, distance, 1);
    }
    if let Some(distance) = text.strip_prefix('-') {
        return moved(context, distance, -1);
    }
    if text.contains(':') && text.chars().all(|letter| letter.is_ascii_digit() || letter == ':') {
        let time = time_of_day(text).ok_or(NOT_A_TIME_OF_DAY)?;
        return nearest_day(time, context).ok_or(OUT_OF_RANGE);
    }
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp::from_micros(moment.as_microsecond()));
    }
    // The name of a zone in brackets would be ignored.
    let local = text.parse::<DateTime>().ok().filter(|_| !text.contains('['));
    moment(local.ok_or(NOT_A_TIME)?, context.zone).ok_or(OUT_OF_RANGE)
}

/// Returns the first and the last recorded time if a time is more than a second before or after them.
pub fn outside(at: Timestamp, spans: &[(Timestamp, Timestamp)]) -> Option<(Timestamp, Timestamp)> {
    // A time is written in whole seconds.
    const SLACK: Duration = Duration::from_secs(1);
    let (first, last) = (spans.first()?.0, spans.last()?.1);
    (at.plus(SLACK) < first || last.plus(SLACK) < at).then_some((first, last))
}

/// Returns the time shown, moved by a distance such as `1h30m`.
fn moved(context: TimeContext<'_>, distance: &str, sign: i64) -> Result<Timestamp, &'static str> {
    let seconds = seconds(distance).ok_or(NOT_A_DISTANCE)?;
    let micros = seconds.checked_mul(sign * 1_000_000);
    let target = micros.and_then(|micros| context.now.as_micros().checked_add(micros));
    let target = target.map(Timestamp::from_micros).ok_or(OUT_OF_RANGE)?;
    zoned(target, context.zone).map(|_| target).ok_or(OUT_OF_RANGE)
}

/// Parses numbers with units; a number too large for the clock counts as the largest one.
fn seconds(distance: &str) -> Option<i64> {
    let (mut total, mut number) = (0_i64, None);
    for letter in distance.chars().filter(|letter| *letter != ' ') {
        if let Some(digit) = letter.to_digit(10) {
            number = Some(number.unwrap_or(0_i64).saturating_mul(10).saturating_add(digit.into()));
            continue;
        }
        let unit = match letter {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        total = total.saturating_add(number.take()?.saturating_mul(unit));
    }
    (number.is_none() && !distance.is_empty()).then_some(total)
}

fn time_of_day(text: &str) -> Option<Time> {
    let mut parts = text.split(':').map(|part| {
        let is_short = (1..=2).contains(&part.len());
        part.parse::<i8>().ok().filter(|_| is_short)
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, 0).ok()
}

/// Returns a time of day on the day shown, or on the nearest day on which it is recorded.
fn nearest_day(time: Time, context: TimeContext<'_>) -> Option<Timestamp> {
    let zone = context.zone;
    let today = zoned(context.now, zone)?.date();
    let recorded = context.spans.iter().flat_map(|(from, to)| {
        let [first, last] = [from, to].map(|at| zoned(*at, zone).map_or(today, |at| at.date()));
        // All days but the first and the last of a span are recorded as a whole.
        let nearest = today.clamp(first, last.max(first));
        let dates = [Some(nearest), nearest.yesterday().ok(), nearest.tomorrow().ok()];
        dates.into_iter().flatten().filter_map(move |date| {
            let at = moment(date.to_datetime(time), zone)?;
            let distance = today.until(date).map_or(i32::MAX, |span| span.get_days().abs());
            (from..=to).contains(&&at).then_some((distance, at))
        })
    });
    recorded.min().map(|(_, at)| at).or_else(|| moment(today.to_datetime(time), zone))
}

/// Returns the moment of a local time; a time that the clocks skip is as much later, one they repeat the first.
fn moment(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let at = zone.to_timestamp(local).ok()?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central European time.
    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn utc(text: &str) -> Timestamp {
        Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    /// Parses a text, shown at noon of a day in local time, with these spans recorded.
    fn parse(text: &str, now: &str, spans: &[(&str, &str)]) -> Result<String, &'static str> {
        let spans: Vec<_> = spans.iter().map(|(from, to)| (utc(from), utc(to))).collect();
        let zone = zone();
        let context = TimeContext { now: utc(now), zone: &zone, spans: &spans };
        let found = parse_time(text, context)?;
        Ok(jiff::Timestamp::from_microsecond(found.as_micros()).unwrap().to_string())
    }

    const NOON: &str = "2026-11-24T11:00:00Z";

    #[test]
    fn a_time_is_absolute_or_relative_to_the_time_shown() {
        for (text, expected) in [
            ("14:05", "2026-11-24T13:05:00Z"),
            (" 9:05 ", "2026-11-24T08:05:00Z"),
            ("14:05:30", "2026-11-24T13:05:30Z"),
            ("00:00", "2026-11-23T23:00:00Z"),
            ("-3m", "2026-11-24T10:57:00Z"),
            ("+10s", "2026-11-24T11:00:10Z"),
            ("-1h30m", "2026-11-24T09:30:00Z"),
            ("-1d 2h", "2026-11-23T09:00:00Z"),
            ("-0s", "2026-11-24T11:00:00Z"),
            ("2026-11-24 14:05", "2026-11-24T13:05:00Z"),
            ("2026-11-24T14:05:06", "2026-11-24T13:05:06Z"),
            ("2026-07-01 14:05", "2026-07-01T12:05:00Z"),
            ("2026-11-24T14:05:06Z", "2026-11-24T14:05:06Z"),
            ("2026-11-24T14:05Z", "2026-11-24T14:05:00Z"),
            ("2026-11-24T14:05:06-08:00", "2026-11-24T22:05:06Z"),
            ("2026-11-24 14:05+02:00", "2026-11-24T12:05:00Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
        ] {
            assert_eq!(parse(text, NOON, &[]).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_wrong_text_is_explained() {
        let long = "9".repeat(10_000);
        let far = format!("-{long}d");
        let many = "1h".repeat(5_000);
        for (text, expected) in [
            ("", NOT_A_TIME),
            ("yesterday", NOT_A_TIME),
            ("3m", NOT_A_TIME),
            ("2026-13-01 00:00", NOT_A_TIME),
            ("2026-02-30", NOT_A_TIME),
            ("2026-11-24T14:05[Europe/Paris]", NOT_A_TIME),
            ("2026-11-24 25:00", NOT_A_TIME),
            (long.as_str(), NOT_A_TIME),
            (many.as_str(), NOT_A_TIME),
            ("１４:05", NOT_A_TIME),
            ("24:00", NOT_A_TIME_OF_DAY),
            ("14:65", NOT_A_TIME_OF_DAY),
            ("14:", NOT_A_TIME_OF_DAY),
            (":", NOT_A_TIME_OF_DAY),
            ("1:2:3:4", NOT_A_TIME_OF_DAY),
            ("014:05", NOT_A_TIME_OF_DAY),
            ("99999999999999999999:00", NOT_A_TIME_OF_DAY),
            ("-", NOT_A_DISTANCE),
            ("+ ", NOT_A_DISTANCE),
            ("-3", NOT_A_DISTANCE),
            ("-m", NOT_A_DISTANCE),
            ("--3m", NOT_A_DISTANCE),
            ("-3m10", NOT_A_DISTANCE),
            ("-3.5m", NOT_A_DISTANCE),
            ("-3y", NOT_A_DISTANCE),
            (far.as_str(), OUT_OF_RANGE),
            ("+999999999999s", OUT_OF_RANGE),
            ("+9223372036854775807s", OUT_OF_RANGE),
        ] {
            let shown: String = text.chars().take(40).collect();
            assert_eq!(parse(text, NOON, &[]), Err(expected), "{shown}");
        }
    }

    #[test]
    fn a_time_of_day_is_that_of_the_nearest_day_that_has_it() {
        let spans = [
            ("2026-11-20T06:00:00Z", "2026-11-22T10:00:00Z"),
            ("2026-11-24T10:30:00Z", "2026-11-24T12:00:00Z"),
            ("2026-11-26T07:00:00Z", "2026-11-26T08:00:00Z"),
        ];
        for (text, expected) in [
            ("11:45", "2026-11-24T10:45:00Z"),
            // Two days away in both directions: the earlier one.
            ("08:30", "2026-11-22T07:30:00Z"),
            ("23:59", "2026-11-21T22:59:00Z"),
            ("11:15", "2026-11-21T10:15:00Z"),
        ] {
            assert_eq!(parse(text, NOON, &spans).as_deref(), Ok(expected), "{text}");
        }
        let short = [("2026-11-20T06:00:00Z", "2026-11-20T06:10:00Z")];
        assert_eq!(parse("14:05", NOON, &short).as_deref(), Ok("2026-11-24T13:05:00Z"));
    }

    #[test]
    fn clocks_that_change_skip_a_time_or_repeat_it() {
        let spring = "2026-03-29T10:00:00Z";
        assert_eq!(parse("02:30", spring, &[]).as_deref(), Ok("2026-03-29T01:30:00Z"));
        assert_eq!(parse("01:30", spring, &[]).as_deref(), Ok("2026-03-29T00:30:00Z"));
        let autumn = "2026-10-25T10:00:00Z";
        assert_eq!(parse("02:30", autumn, &[]).as_deref(), Ok("2026-10-25T00:30:00Z"));
        assert_eq!(parse("-10h", autumn, &[]).as_deref(), Ok("2026-10-25T00:00:00Z"));
    }
}
