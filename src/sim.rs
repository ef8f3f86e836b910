//! The simulated fleet: for the demo, for tests and for measurements.
//!
//! A [`Population`] says who is there and what is wrong; a [`Machine`] is one node of it, a pure
//! function of the seed, its place and the time; [`serve`] puts each behind a real SSH server on
//! loopback that speaks the probe's protocol. The frames are made of [`crate::wire::body`]'s structs
//! and pass the same schema test as those of the real probes. Knows nothing of screens.

pub use fault::Fault;
pub use machine::{Ask, BACKEND, Driver, Machine};
pub use part::{Population, Scene};
pub use server::{Served, SimNode, serve};

mod chance;
mod fault;
mod gpu;
mod host;
mod jobs;
mod keys;
mod launch;
mod machine;
mod part;
mod server;
mod session;
mod spoil;
mod talk;
mod work;
