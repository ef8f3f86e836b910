//! From bytes to samples; the only place where incoming values are checked.
//!
//! A frame is byte 0x1E, `gtop1 `, one ASCII JSON object and a newline. [`FrameReader`] cuts frames
//! out of whatever a login shell prints around them, [`Body`] is their JSON, and [`Decoder`] turns a
//! body into a [`crate::model::Sample`] in which every value is known, or unknown with a reason.
//! Knows nothing of where the bytes came from.
//!
//! Where what carries them cuts and mixes long lines, a frame travels as numbered short lines; the
//! reader takes both.
//!
//! # Schema, version 1
//!
//! Times `at` are seconds of the probe's own monotonic clock. Bytes, ticks and milliwatts are
//! integers. An absent key was not sampled this time; `null` was asked for and is not available;
//! unknown keys are skipped. The structs of [`body`] are the schema.

pub use body::Body;
pub use decode::{Decoded, Decoder, answer, job_of_group};
pub use delivery::{Delivery, EventSink, NodeEvent};
pub use frame::{Frame, FrameReader, MalformedFrame, Received, encode};
pub use reassemble::address_of;

pub mod body;
mod csv;
mod decode;
mod delivery;
mod frame;
mod in_place;
mod raw;
mod reassemble;
