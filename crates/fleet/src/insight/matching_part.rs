//! What the filter of a view leaves of its fleet, for output that has no view.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::insight::FleetView;
use crate::query::without_devices;
use crate::{Fleet, Node};
use gtop_model::{DeviceUse, JobId, JobList};

impl FleetView {
    /// Returns the nodes and jobs that match the filter, each node with the devices and processes that match: what the
    /// tables of the screen show. A node that is known from the scheduler alone stays whole.
    pub(super) fn matching_part(&self) -> Fleet {
        if self.filter.is_empty() {
            return self.fleet.clone();
        }
        let nodes = self.nodes().map(|node| self.matching_part_of(node)).collect();
        let jobs = self.fleet.jobs.as_ref().map(|list| Arc::new(self.matching_jobs(list)));
        Fleet { nodes, jobs, ..self.fleet.clone() }
    }

    fn matching_part_of(&self, node: &Arc<Node>) -> Arc<Node> {
        if node.reported().is_some() {
            return Arc::clone(node);
        }
        let mut hidden = BTreeSet::new();
        for (position, device) in node.devices.iter().enumerate() {
            if !self.matches_device(node, position) {
                hidden.insert(&*device.uuid);
            }
        }
        let part = without_devices(node, &hidden);
        let matching = part.uses.iter().filter(|used| self.matches_use(node, used));
        let uses: Arc<[DeviceUse]> = matching.cloned().collect();
        if uses.len() == part.uses.len() {
            return part;
        }
        Arc::new(Node { uses, ..Node::clone(&part) })
    }

    fn matching_jobs(&self, list: &JobList) -> JobList {
        let shown: BTreeSet<&JobId> = self.job_index().shown().map(|entry| &entry.job.id).collect();
        let matching = list.jobs.iter().filter(|job| {
            shown.contains(&job.id)
                || (job.allocations.is_empty() && self.filter.matches_waiting_job(job, self.now))
        });
        JobList { jobs: matching.cloned().collect(), ..list.clone() }
    }
}
