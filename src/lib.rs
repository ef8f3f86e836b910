//! gtop shows every accelerator a person uses, on every node, live, from one terminal, with nothing
//! installed on the nodes.
//!
//! The page of the architecture follows.
//!
#![doc = include_str!("../docs/architecture.md")]
#![allow(rustdoc::private_intra_doc_links, reason = "this page is for those who build gtop, too")]
#![cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, unused_imports, reason = "what is `pub` is re-exported by `internals`")
)]

#[warn(missing_docs)]
pub mod api;
mod app;
mod cli;
mod config;
mod doctor;
#[warn(missing_docs)]
mod export;
mod report;
mod serve;

#[doc(hidden)]
pub use crate::app::run_program;

/// The modules of the crate, for its tests and benches; no stable interface.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use gtop_collect::collect;
    pub use gtop_collect::inventory;
    pub use gtop_collect::probe;
    pub use gtop_collect::record;
    pub use gtop_collect::runs;
    pub use gtop_collect::scheduler;
    pub use gtop_collect::sim;
    pub use gtop_collect::source;
    pub use gtop_collect::transport;
    pub use gtop_collect::wire;
    pub use gtop_fleet as fleet;
    pub use gtop_fleet::advice;
    pub use gtop_fleet::insight;
    pub use gtop_fleet::metrics;
    pub use gtop_fleet::query;
    pub use gtop_local::fault;
    pub use gtop_local::process;
    pub use gtop_local::storage;
    pub use gtop_local::text;
    pub use gtop_local::time;
    pub use gtop_model as model;
    pub use gtop_model::nodeset;
    pub use gtop_model::training;
    pub use gtop_ssh as ssh;
    pub use gtop_ui as ui;
    macro_rules! modules {
        ($($name:ident)*) => { $(pub mod $name { pub use crate::$name::*; })* };
    }

    modules! {
        app cli config doctor export
        report serve
    }
}
