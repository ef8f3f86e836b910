//! The jobs listed by the scheduler, indexed by job id and by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::jobs::JobAllocation;
use crate::model::{Job, JobId, JobList, NodeName};

/// An index of a job list; of none, it is empty.
#[derive(Clone, Debug, Default)]
pub struct JobLookup {
    list: Option<Arc<JobList>>,
    /// Indices in the list.
    by_id: BTreeMap<JobId, usize>,
    /// Indices in the list, and of the allocation in the job.
    by_node: BTreeMap<NodeName, Vec<(usize, usize)>>,
}

impl JobLookup {
    /// Indexes a list.
    pub fn of(list: Option<&Arc<JobList>>) -> Self {
        let mut lookup = Self { list: list.cloned(), ..Self::default() };
        for (job_index, job) in list.iter().flat_map(|list| &list.jobs).enumerate() {
            for id in [Some(&job.id), job.sluid.as_ref()].into_iter().flatten() {
                lookup.by_id.insert(id.clone(), job_index);
            }
            for (allocation_index, allocation) in job.allocations.iter().enumerate() {
                let of_node = lookup.by_node.entry(allocation.node.clone()).or_default();
                of_node.push((job_index, allocation_index));
            }
        }
        lookup
    }

    /// Returns the list.
    pub fn list(&self) -> Option<&Arc<JobList>> {
        self.list.as_ref()
    }

    /// Returns the job with an id, or SLUID, as its processes have it.
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.list.as_ref()?.jobs.get(*self.by_id.get(id)?)
    }

    /// Returns the jobs on a node, each with its allocation there.
    pub fn on_node(&self, node: &NodeName) -> Vec<JobAllocation<'_>> {
        let Some(list) = &self.list else { return Vec::new() };
        let found = self.by_node.get(node).into_iter().flatten();
        let allocation = |(job_index, allocation_index): &(usize, usize)| {
            let job = list.jobs.get(*job_index)?;
            Some((job, job.allocations.get(*allocation_index)?))
        };
        found.filter_map(allocation).collect()
    }
}
