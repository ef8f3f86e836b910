//! How times are written in tables.

use jiff::tz::TimeZone;

use gtop_local::time::Timestamp;

/// How times are written in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// ISO 8601, with the offset of the time zone.
    #[default]
    Iso,
    /// As spreadsheets read them, which take ISO 8601 with an offset for a text.
    Spreadsheet,
}

impl TimeFormat {
    pub(super) fn text(self, at: Timestamp, zone: &TimeZone) -> String {
        let format = match self {
            Self::Iso => "%Y-%m-%dT%H:%M:%S%.3f%:z",
            Self::Spreadsheet => "%Y-%m-%d %H:%M:%S%.3f",
        };
        zoned_text(at, zone, format)
    }
}

/// Returns a time in a zone, in a format of `strftime`.
pub(super) fn zoned_text(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime(format).to_string()
}
