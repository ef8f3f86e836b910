//! gtop shows every accelerator a person uses, on every node, live, with nothing installed on the nodes: GPUs of NVIDIA and
//! AMD and TPUs of Google, over SSH, as processes, jobs and users have them. This crate is the program of that name, and a
//! library that reads the same:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use gtop::{DeviceMetric, DeviceState, Monitor};
//!
//! # fn main() -> Result<(), gtop::Error> {
//! let monitor = Monitor::builder().nodes(["gpu[01-16]"]).start()?;
//! let fleet = monitor.complete_blocking(Duration::from_secs(20));
//! for device in fleet.devices().filter(|device| device.state() == Some(DeviceState::Free)) {
//!     let memory = device.number(DeviceMetric::MemoryTotalBytes);
//!     println!("{} {:?}: {memory:?} bytes", device.node().name(), device.index());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Monitor`] watches nodes in the background, on threads of its own, with the user's SSH configuration. Its [`Fleet`]s
//! do not change: take the latest one, wait for a complete one, or follow them as a stream, in any asynchronous runtime:
//!
//! ```no_run
//! # use gtop::Monitor;
//! # async fn follow(monitor: Monitor) {
//! let mut fleets = monitor.stream();
//! while let Some(fleet) = fleets.next().await {
//!     println!("{} devices", fleet.devices().count());
//! }
//! # }
//! ```
//!
//! | to | call |
//! |---|---|
//! | watch nodes | [`Monitor::builder`], then [`nodes`](MonitorBuilder::nodes), [`local`](MonitorBuilder::local), [`own_jobs`](MonitorBuilder::own_jobs), [`interval`](MonitorBuilder::interval) |
//! | watch what the command does | `Monitor::start(["--slurm"])`, with its arguments and settings (feature `cli`) |
//! | read once | [`Monitor::complete`], [`complete_blocking`](Monitor::complete_blocking): until every node has answered or is down |
//! | follow | [`Monitor::stream`], asynchronous; [`Monitor::fleets`], blocking |
//! | read a metric | [`Device::value`], [`Node::value`], [`Process::value`], [`Job::value`], of [`DeviceMetric`], [`HostMetric`], [`ProcessMetric`], [`JobMetric`] |
//! | know whether a device is free and sound | [`Device::state`], [`Device::health`] with their reasons |
//! | know who has a device | [`Device::holders`], [`Device::processes`], [`Fleet::jobs`] |
//! | choose free devices | [`Fleet::pick`] |
//! | read a recording | `Recording::open` (feature `record`) |
//! | write JSON | [`Fleet`] is `Serialize` (feature `serde`): what `gtop --json` prints |
//! | test without devices | `Monitor::builder().demo(12)` (feature `demo`) |
//!
//! A value that is unknown, or older than a few sampling intervals, is an [`Unknown`] that says why, never zero.
//!
//! No feature is needed to watch nodes; `default-features = false` leaves the command out, and with it half of the crates.
//! [docs/library.md](https://docs.rs/crate/gtop/latest/source/docs/library.md) has the features, three programs, and what
//! stays from version to version. How gtop is built is in `docs/architecture.md`.

#[cfg(feature = "record")]
pub use api::Recording;
pub use api::{
    Device, Error, Fault, Fleet, Fleets, Holder, Job, Monitor, MonitorBuilder, Node, PickRequest,
    Picks, Process, Reason, Refusal, Unknown, Value,
};
pub use gtop_fleet::metrics::{
    DeviceMetric, HostMetric, JobMetric, ParseMetricError, ProcessMetric,
};
// What a device counts as is its state in JSON, too.
pub use gtop_fleet::{Certainty, DeviceState, Health};

#[warn(missing_docs)]
mod api;
#[cfg(feature = "cli")]
mod app;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod config;
#[cfg(feature = "cli")]
mod doctor;
#[cfg(feature = "serde")]
#[warn(missing_docs)]
mod export;
#[cfg(feature = "report")]
mod report;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "cli")]
mod setting_table;
mod watch;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use crate::app::run_program;

/// Modules of the crate for its tests; no stable interface.
#[doc(hidden)]
pub mod internals {
    macro_rules! modules {
        ($($feature:literal: $($name:ident)*;)*) => {
            $($(#[cfg(feature = $feature)] pub mod $name { pub use crate::$name::*; })*)*
        };
    }

    modules! {
        "cli": config doctor setting_table;
        "report": report;
        "serde": export;
        "serve": serve;
    }

    pub mod watch {
        pub use crate::watch::*;
    }
}
