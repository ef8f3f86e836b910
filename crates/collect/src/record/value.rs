//! Values of lines: times as seconds, pauses between them, and names of nodes.

use std::sync::Arc;
use std::time::Duration;

use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Lines that are further apart have a time between them in which nothing was recorded.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Returns true if nothing was recorded between two lines that follow each other.
pub(super) fn is_pause(from: Timestamp, to: Timestamp) -> bool {
    to.since(from) > MAX_PAUSE
}

/// Returns a text that is safe to show.
pub(super) fn text(text: &str) -> Arc<str> {
    sanitize_shared(text, 1000)
}

/// Returns a short text that is safe to show, such as a name.
pub(super) fn short_text(text: &str) -> Arc<str> {
    sanitize_shared(text, 300)
}

/// Returns true for a time between the years 1970 and 2255; a line of another time is not one of a recorder.
pub(super) fn is_recorded_time(seconds: f64) -> bool {
    (0.0..9e9).contains(&seconds)
}

/// Returns seconds since 1970 as a timestamp; out of range they are clamped.
#[expect(clippy::cast_possible_truncation, reason = "a float cast saturates")]
pub(super) fn from_seconds(seconds: f64) -> Timestamp {
    Timestamp::from_micros((seconds * 1e6).round() as i64)
}

/// Returns a timestamp as seconds since 1970, exact to the microsecond for the next centuries.
#[expect(clippy::cast_precision_loss, reason = "53 bits hold microseconds until the year 2255")]
pub(super) fn to_seconds(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1e6
}

/// Returns the node of this name; a label and a host are separated by a space.
pub(super) fn node_name(text: &str) -> Option<NodeName> {
    match text.split_once(' ') {
        Some((label, host)) => NodeName::labelled(label, host).ok(),
        None => NodeName::new(text).ok(),
    }
}
