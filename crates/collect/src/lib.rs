//! How gtop gets its samples: schedulers, transports, probes and their frames, scraped pages, simulated nodes; and how it
//! records and replays them.
//!
//! A part of gtop: its interface changes with it.

// Without a feature, what only it uses is there for nobody.
#![cfg_attr(
    not(all(feature = "demo", feature = "record", feature = "scrape")),
    allow(dead_code, unused_imports, reason = "a feature uses it")
)]

#[cfg(not(feature = "record"))]
mod no_record;

/// No recordings.
#[cfg(not(feature = "record"))]
pub mod record {
    pub use crate::no_record::{NodeRecorder, RecorderSink};
}

pub mod collect;
pub mod inventory;
pub mod probe;
#[cfg(feature = "record")]
pub mod record;
pub mod runs;
pub mod scheduler;
#[cfg(feature = "demo")]
pub mod sim;
pub mod source;
#[cfg(feature = "record")]
pub mod sums;
pub mod transport;
pub mod wire;
