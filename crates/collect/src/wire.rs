//! From bytes to samples; the only place where incoming values are checked.
//!
//! A frame is byte 0x1E, `gtop1 `, one ASCII JSON object and a newline. [`FrameReader`] cuts frames
//! out of whatever a login shell prints around them, [`Body`] is their JSON, and [`Decoder`] turns a
//! body into a [`gtop_model::NodeUpdate`] in which every value is known, or unknown with a reason.
//! Knows nothing of where the bytes came from.
//!
//! A page of metrics in Prometheus' text format is decoded to the same updates ([`excerpt`], [`Exporter`]).
//!
//! Over a transport that cuts or interleaves long lines, a frame is sent as numbered short lines; the reader accepts
//! both.
//!
//! # Schema, version 1
//!
//! Times `at` are seconds of the probe's own monotonic clock. Bytes, ticks and milliwatts are
//! integers. An absent key was not sampled this time; `null` was sampled and is not available;
//! unknown keys are skipped. The structs of [`body`] are the schema.

pub use body::Body;
pub use decode::{Decoder, job_of_cgroup};
pub use delivery::{Delivery, DeliverySink, RawUpdate};
pub use frame::{Frame, FrameReader, Received, encode};
pub use scrape::{Exporter, excerpt};

pub(crate) use decode::decode_response;
pub(crate) use frame::encode_text;
pub(crate) use merged::MergedSample;
pub(crate) use raw::OptionalKey;
pub(crate) use reassemble::address_of;
pub(crate) use schema::{object, objects};

use gtop_local::text::sanitize;

pub mod body;
mod checked;
mod csv;
mod decode;
mod delivery;
mod frame;
mod merged;
#[cfg_attr(not(feature = "demo"), expect(dead_code, reason = "simulated nodes send what changes"))]
mod raw;
mod reassemble;
mod schema;
mod scrape;

/// A frame that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedFrame {
    /// Not valid JSON of this schema.
    #[error("invalid frame: {0}")]
    NotJson(String),
    /// A line longer than the limit.
    #[error("a line of more than 1 MiB")]
    TooLong,
    /// Fragments that do not make a frame.
    #[error("incomplete frame: {0}")]
    Pieces(&'static str),
    /// A frame of another schema version.
    #[error("schema version {0}; this gtop reads version 1")]
    Version(u32),
}

impl From<serde_json::Error> for MalformedFrame {
    fn from(error: serde_json::Error) -> Self {
        Self::NotJson(sanitize(&error.to_string(), 120))
    }
}
