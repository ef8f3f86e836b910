//! The simulated fleet: for the demo, for tests and for measurements.
//!
//! A [`FleetSpec`] says who is there and what is wrong; a [`Machine`] is one node of it, a pure
//! function of the seed, its place and the time; [`serve`] puts each behind a real SSH server on
//! loopback that speaks the probe's protocol. The frames are made of [`crate::wire::body`]'s structs
//! and pass the same schema test as those of the real probes. Knows nothing of screens.

pub use injected_fault::InjectedFault;
pub use machine::{BACKEND, DriverState, Machine, SampleRequest};
pub use scenario::{FleetSpec, Scenario};
pub use server::{SimFleet, SimNode, serve};

mod corrupt;
mod gpu;
mod host;
mod injected_fault;
mod jobs;
mod keys;
mod launch;
mod machine;
mod rng;
mod scenario;
mod server;
mod session;
mod sim_probe;
mod workload;
