//! Watching nodes in the background: where their list comes from, and the collection that publishes what they report.
//!
//! Knows neither the command line nor settings nor what is done with the snapshots.

#[cfg(feature = "demo")]
pub use demo::simulate;
pub use discovery::{Discovery, SCHEDULER_INTERVAL, SCHEDULER_TIMEOUT, folded_names, with_local};
pub use monitor::{Monitor, MonitorOptions};
pub use open_files::{raise_open_files, restore_open_files};
pub use watcher::Watcher;
pub use work_thread::{DISK_TIMEOUT, WorkThread};

#[cfg(feature = "demo")]
mod demo;
mod discovery;
mod monitor;
mod open_files;
mod watcher;
mod work_thread;

use gtop_fleet::Fleet;
use gtop_model::FaultKind;

/// Returns true if the scheduler has answered and every node has rates or is down. A node that refused one of
/// too many concurrent connections is retried, so it does not count as down.
pub fn is_complete(fleet: &Fleet) -> bool {
    let jobs = fleet.jobs.as_ref();
    jobs.is_none_or(|list| list.is_answered())
        && fleet.nodes.iter().all(|node| {
            let is_settled = node.is_settled && !node.awaits_evidence();
            is_settled
                || node.powered_off().is_some()
                || node.fault().is_some_and(|fault| fault.kind != FaultKind::NoBanner)
        })
}
