//! How gtop gets its samples: schedulers, transports, probes and their frames, scraped pages, simulated nodes; and how it
//! records and replays them.
//!
//! A part of gtop: its interface changes with it.

pub mod collect;
pub mod inventory;
pub mod probe;
pub mod record;
pub mod runs;
pub mod scheduler;
pub mod sim;
pub mod source;
pub mod transport;
pub mod wire;
