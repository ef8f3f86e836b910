//! Times that options name, and times as messages show them.

use jiff::tz::TimeZone;

use crate::app::AppError;
use gtop_local::time::Timestamp;
use gtop_ui::{TimeContext, parse_time};

/// Returns the time that an option means; distances are from the end.
pub(super) fn parse_option(
    option: &'static str,
    text: &str,
    end: Timestamp,
    spans: &[(Timestamp, Timestamp)],
) -> Result<Timestamp, AppError> {
    let context = TimeContext { now: end, zone: &TimeZone::system(), spans };
    parse_time(text, context).map_err(|reason| AppError::NoTime(option, text.to_owned(), reason))
}

/// Returns a local time: `2026-11-24 14:05:00`.
pub(super) fn local_time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Returns spans as text.
pub(super) fn span_texts(spans: &[(Timestamp, Timestamp)]) -> String {
    let text = |(from, to): &(Timestamp, Timestamp)| {
        format!("{} to {}", local_time(*from), local_time(*to))
    };
    spans.iter().map(text).collect::<Vec<_>>().join(", ")
}
