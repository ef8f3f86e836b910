//! The jobs listed by the scheduler, indexed by job id and by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Allocation, Job, JobId, JobList, NodeName};

/// An index of a job list.
#[derive(Debug)]
pub(super) struct JobLookup {
    list: Arc<JobList>,
    /// Indices in the list.
    by_id: BTreeMap<JobId, usize>,
    /// Indices in the list, and of the allocation in the job.
    by_node: BTreeMap<NodeName, Vec<(usize, usize)>>,
}

impl JobLookup {
    pub(super) fn of(list: &Arc<JobList>) -> Self {
        let (mut by_id, mut by_node) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for (job_index, job) in list.jobs.iter().enumerate() {
            for id in [Some(&job.id), job.sluid.as_ref()].into_iter().flatten() {
                by_id.insert(id.clone(), job_index);
            }
            for (allocation_index, allocation) in job.allocations.iter().enumerate() {
                by_node
                    .entry(allocation.node.clone())
                    .or_default()
                    .push((job_index, allocation_index));
            }
        }
        Self { list: Arc::clone(list), by_id, by_node }
    }

    /// Returns the job with the id that its processes have.
    pub(super) fn by_process_job_id(&self, id: &JobId) -> Option<&Job> {
        self.list.jobs.get(*self.by_id.get(id)?)
    }

    /// Returns the jobs on a node, each with its allocation there.
    pub(super) fn on_node(&self, node: &NodeName) -> impl Iterator<Item = (&Job, &Allocation)> {
        let indices = self.by_node.get(node).into_iter().flatten();
        indices.filter_map(|(job_index, allocation_index)| {
            let job = self.list.jobs.get(*job_index)?;
            Some((job, job.allocations.get(*allocation_index)?))
        })
    }
}
