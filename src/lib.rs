//! gtop shows every accelerator a person uses, on every node, live, from one terminal, with nothing
//! installed on the nodes.
//!
//! # The path of a sample
//!
//! ```text
//! inventory ─▶ collect ─▶ transport ─▶ the probe on a node
//!                 │ bytes back
//!                 ▼
//!               wire     frames ─▶ deliveries
//!                 ▼
//!              source    decode, build; one consumer per node
//!                 ▼
//!               fleet    immutable, published atomically ─▶ view ─▶ tui
//!                                                        └▶ export
//! ```
//!
//! # Modules, bottom up
//!
//! A module imports only modules above it in this list; `tests/architecture.rs` enforces it.
//!
//! - [`time`]: timestamps, the clock, the offset of a node's clock
//! - [`text`]: foreign text made safe to show; the width of a text; patterns
//! - [`storage`]: writes files; no other module does
//! - [`process`]: starts local programs; no other module does
//! - [`ssh`]: an SSH client that does what `ssh` does; nothing of monitoring
//! - [`model`]: ids, units, readings, devices, processes, freshness, faults
//! - [`nodeset`]: `gpu[001-128,200]` to a list and back
//! - [`wire`]: bytes to samples; the only place where incoming values are checked
//! - [`probe`]: the embedded scripts, the launch line, the commands they accept
//! - [`transport`]: connects to a node and runs one command there
//! - [`inventory`]: which nodes to monitor
//! - [`collect`]: one task per node: sessions, retries, requests
//! - [`fleet`]: the state of all nodes; history, totals, publishing
//! - [`metrics`]: one declaration per metric
//! - [`query`]: filters, the selection of devices and processes, sort orders
//! - [`insight`]: what a snapshot means: node status, jobs, users, owners of devices, events
//! - [`source`]: where deliveries come from, and how they become the fleet
//! - [`export`]: one file per format
//! - [`ui`]: event loop, key table, theme, widgets, views
//! - [`sim`]: the simulated fleet and its in-process SSH nodes
//! - [`doctor`]: step-by-step diagnosis of a node
//! - [`config`]: settings, their sources and precedence
//! - [`cli`]: command-line arguments
//! - [`app`]: wiring, exit codes
//! - [`api`]: the library: snapshots of nodes, devices and jobs
//!
//! All but [`api`] are private. The feature `internals`, which the tests and the benches switch on, shows them as
//! `gtop::internals`; without it, the compiler reports what only tests use.
#![allow(rustdoc::private_intra_doc_links, reason = "this page is for those who build gtop, too")]
#![cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, unused_imports, reason = "what is `pub` is re-exported by `internals`")
)]

#[warn(missing_docs)]
pub mod api;
mod app;
mod cli;
mod collect;
mod config;
mod doctor;
#[warn(missing_docs)]
mod export;
#[warn(missing_docs)]
mod fleet;
mod insight;
mod inventory;
#[warn(missing_docs)]
mod metrics;
#[warn(missing_docs)]
mod model;
#[warn(missing_docs)]
mod nodeset;
mod probe;
mod process;
mod query;
mod sim;
mod source;
mod ssh;
mod storage;
#[warn(missing_docs)]
mod text;
#[warn(missing_docs)]
mod time;
mod transport;
mod ui;
mod wire;

#[doc(hidden)]
pub use crate::app::run_program;

/// The modules of the crate, for its tests and benches; no stable interface.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    macro_rules! modules {
        ($($name:ident)*) => { $(pub mod $name { pub use crate::$name::*; })* };
    }

    modules! {
        app cli collect config doctor export fleet insight inventory metrics model nodeset probe
        process query sim source ssh storage text time transport ui wire
    }
}
