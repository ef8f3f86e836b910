//! Events: those that devices report, and those that two consecutive snapshots show.

pub use marks::MarkObserver;

pub mod changes;
pub mod event_log;
mod marks;
pub mod rows;
