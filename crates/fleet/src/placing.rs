//! Places the jobs of a scheduler on the devices of nodes: how the holdings of a node are found.
//!
//! A scheduler numbers the devices of a node by *indices*, which need not be the driver's numbers. A *unit* is a device or a
//! slice, one bit of a `UnitSet`. What an index *means* is the unit behind it, by the `DeviceMap` of the node. A map is
//! *proved*: a job has index 2 and its control group opens unit 5, so 2 means 5 (`proofs`); it is kept as long as the daemon
//! has not made another list (`learned`). Of each job, `Placed` has the units that are *certain* (a proof, or what the kernel
//! lets its processes open), *likely* (they follow if the order is the usual one) and *possible* (nothing excludes them);
//! *unplaced* is how many it has besides. Two statements that exclude each other make a job *disputed*: then nothing of it
//! is certain. What the scheduler has *told* (`told_list`) and who holds what else (`Hidden`) follow from these.

pub use keeper::HoldingsKeeper;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Fleet;
use crate::holdings::{Certainty, Evidence, JobHoldings};
use crate::node::Node;
use gtop_model::{Allocation, DeviceAllocation, Job, JobId};

mod builder;
mod device_map;
#[cfg(any(test, feature = "testing"))]
mod examples;
mod keeper;
mod learned;
mod numbering;
mod place;
mod proofs;
#[cfg(test)]
mod tests;
mod told_list;

/// Returns what a job has by its allocation on a node; of one that is not watched, no device is known.
pub fn job_holdings(node: Option<&Node>, job: &Job, allocation: &Allocation) -> JobHoldings {
    if let Some(known) = node.and_then(|node| node.holdings.job(&job.id)) {
        return known.clone();
    }
    let has_none = allocation.devices == DeviceAllocation::None;
    let certainty = if has_none { Certainty::Certain } else { Certainty::Unknown };
    let unplaced = allocation.devices.count().and_then(|count| u32::try_from(count).ok());
    let is_told = allocation.devices != DeviceAllocation::Unknown;
    JobHoldings {
        job: job.id.clone(),
        is_listed: true,
        devices: Vec::new(),
        evidence: if is_told { Evidence::SCHEDULER } else { Evidence::default() },
        certainty,
        unplaced,
    }
}

impl Fleet {
    /// Returns the jobs that are known from processes alone, with what they have on each machine.
    pub fn unlisted_jobs(&self) -> BTreeMap<&JobId, Vec<(&Arc<Node>, &JobHoldings)>> {
        let mut found: BTreeMap<&JobId, Vec<_>> = BTreeMap::new();
        for node in self.machines() {
            for known in node.holdings.jobs().iter().filter(|known| !known.is_listed) {
                found.entry(&known.job).or_default().push((node, known));
            }
        }
        found
    }
}
