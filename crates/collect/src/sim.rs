//! The simulated fleet, for the demo, for tests and for benchmarks.
//!
//! A [`FleetSpec`] defines the nodes and their injected faults; a [`Machine`] is one node, a pure function of
//! the seed, its index and the time; [`serve`] starts a real SSH server on loopback for each, which
//! speaks the probe's protocol, and an [`InProcessFleet`] does the same without SSH. Frames are built from [`crate::wire::body`]'s structs and pass the same
//! schema test as those of the real probes. Does not depend on the user interface.

pub use in_process::InProcessFleet;
pub use injected_fault::InjectedFault;
pub use machine::{DriverState, Machine, SampleRequest};
pub use scenario::{FleetSpec, Scenario};
pub use server::{SimFleet, SimNode, serve};

mod corrupt;
mod gpu;
mod host;
mod in_process;
mod injected_fault;
mod job_traces;
mod jobs;
mod keys;
mod launch;
mod machine;
mod partitions;
mod rng;
mod scenario;
mod server;
mod session;
mod sim_probe;
mod workload;
