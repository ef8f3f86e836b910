//! gtop shows every accelerator a person uses, on every node, live, from one terminal, with nothing
//! installed on the nodes.
//!
//! The page of the architecture follows.
//!
#![doc = include_str!("../docs/architecture.md")]
#![allow(rustdoc::private_intra_doc_links, reason = "this page is for those who build gtop, too")]

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
mod settings;

#[doc(hidden)]
pub use crate::app::run_program;

/// Modules of the crate for its tests; no stable interface.
#[doc(hidden)]
pub mod internals {
    macro_rules! modules {
        ($($name:ident)*) => { $(pub mod $name { pub use crate::$name::*; })* };
    }

    modules! { config doctor export report settings }
}
