//! Watches training runs: reads and changes their files through a script of its own on the host of each folder.
//!
//! Knows nothing of devices and of the screen: `insight` joins runs with the fleet.

mod client;
mod message;
mod monitor;
mod session;
mod store;

pub use client::{HostProcesses, OutputPlace, RunsClient};
pub use monitor::{RunSource, RunsMonitor};
