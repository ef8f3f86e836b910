//! Values of metrics, and why there is none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gtop_fleet::metrics::{self, measured_digits};
use gtop_local::time::format_duration;
use gtop_model::{Freshness, Reason};

/// The value of a metric, in the unit of the metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A measured number.
    Number(f64),
    /// A count or an amount.
    Integer(u64),
    /// A text; a time is one in RFC 3339 format.
    Text(Arc<str>),
    /// Yes or no.
    Flag(bool),
}

/// Why there is no value; never zero instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unknown {
    /// It was read this long ago, which is more than a few sampling intervals.
    #[error("{} old", format_duration(*.0))]
    Old(Duration),
    /// It was never read, or cannot be; in the words of `unknown` in JSON.
    #[error("{0}")]
    Absent(&'static str),
}

impl Value {
    pub(super) fn of(value: metrics::Value, unsampled: Reason) -> Result<Self, Unknown> {
        Ok(match value {
            metrics::Value::Number(number) => Self::Number(measured_digits(number)),
            metrics::Value::Integer(number) => Self::Integer(number),
            metrics::Value::Text(text) => Self::Text(text),
            metrics::Value::Flag(is_on) => Self::Flag(is_on),
            metrics::Value::Unknown(Reason::NotSampled) => {
                return Err(Unknown::Absent(unsampled.text()));
            }
            metrics::Value::Unknown(reason) => return Err(Unknown::Absent(reason.text())),
        })
    }

    /// Returns a number, a count or an amount; `None` for anything else.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Integer(number) => Some(*number as f64),
            Self::Text(_) | Self::Flag(_) => None,
        }
    }

    /// Returns a text; `None` for anything else.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Integer(_) | Self::Flag(_) => None,
        }
    }

    /// Returns yes or no; `None` for anything else.
    pub fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(is_on) => Some(*is_on),
            Self::Number(_) | Self::Integer(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// Writes it without a unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Flag(is_on) => is_on.fmt(f),
        }
    }
}

impl Unknown {
    pub(super) fn of_freshness(freshness: Freshness) -> Result<(), Self> {
        match freshness {
            Freshness::Fresh => Ok(()),
            Freshness::Stale(age) => Err(Self::Old(age)),
            Freshness::Missing => Err(Self::Absent(Reason::NotSampled.text())),
        }
    }
}
