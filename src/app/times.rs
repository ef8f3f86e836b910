//! Times of recordings that options name, and times as messages show them.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::app::CommandError;
use crate::cli::SpanOptions;
use gtop_local::time::{Timestamp, local_text};
use gtop_ui::{TimeContext, parse_time};

/// Why recordings have nothing for the times that were asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpanError {
    #[error("{0} {1:?}: {2}")]
    NoTime(&'static str, String, &'static str),
    #[error("{0} {1:?} is outside the recording, which covers {2}")]
    NotRecorded(&'static str, String, String),
    #[error("--from {0:?} is after --to {1:?}")]
    Reversed(String, String),
    #[error("{0} holds no samples: the recorder ended before a node answered")]
    NothingRecorded(String),
    #[error("nothing was recorded between --from and --to; the recording covers {0}")]
    NothingInSpan(String),
}

impl SpanError {
    /// Returns the error for files without samples.
    pub(super) fn nothing_in<P: AsRef<Path>>(files: &[P]) -> Self {
        let names: Vec<_> = files.iter().map(|path| path.as_ref().display().to_string()).collect();
        Self::NothingRecorded(names.join(", "))
    }
}

impl CommandError for SpanError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoTime(..) | Self::NotRecorded(..) | Self::Reversed(..) => 2,
            Self::NothingRecorded(_) | Self::NothingInSpan(_) => 1,
        }
    }
}

/// Returns the time that an option means; distances are from the end.
pub(super) fn parse_option(
    option: &'static str,
    text: &str,
    end: Timestamp,
    spans: &[(Timestamp, Timestamp)],
) -> Result<Timestamp, SpanError> {
    let context = TimeContext { now: end, zone: &TimeZone::system(), spans };
    parse_time(text, context).map_err(|reason| SpanError::NoTime(option, text.to_owned(), reason))
}

/// Returns the times that `--from` and `--to` mean.
pub(super) fn parse_span(
    options: &SpanOptions,
    end: Timestamp,
    spans: &[(Timestamp, Timestamp)],
) -> Result<(Option<Timestamp>, Option<Timestamp>), SpanError> {
    let from = options.from.as_deref().map(|text| parse_option("--from", text, end, spans));
    let to = options.to.as_deref().map(|text| parse_option("--to", text, end, spans));
    let (from, to) = (from.transpose()?, to.transpose()?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        let [from, to] = [&options.from, &options.to].map(|text| text.clone().unwrap_or_default());
        return Err(SpanError::Reversed(from, to));
    }
    Ok((from, to))
}

/// Returns spans as text.
pub(super) fn span_texts(spans: &[(Timestamp, Timestamp)]) -> String {
    let texts =
        spans.iter().map(|(from, to)| format!("{} to {}", local_text(*from), local_text(*to)));
    texts.collect::<Vec<_>>().join(", ")
}
