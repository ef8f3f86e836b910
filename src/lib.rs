//! gtop shows every accelerator a person uses, on every node, live, from one terminal, with nothing
//! installed on the nodes.
//!
//! The page of the architecture follows.
//!
#![doc = include_str!("../docs/architecture.md")]
#![allow(rustdoc::private_intra_doc_links, reason = "this page is for those who build gtop, too")]

#[warn(missing_docs)]
pub mod api;
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
