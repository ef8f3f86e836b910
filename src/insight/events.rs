//! Events: those that devices report, and those that two consecutive snapshots show.

pub mod changes;
pub mod event_log;
pub mod rows;
