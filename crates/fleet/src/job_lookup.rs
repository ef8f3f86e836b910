//! The jobs listed by the scheduler, indexed by job id and by node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use gtop_model::{Allocation, Job, JobId, JobList, JobState, NodeName, RequestedJobs};

/// A job and its allocation on one node.
pub(crate) type JobAllocation<'a> = (&'a Job, &'a Allocation);

/// An index of a job list; of none, it is empty.
#[derive(Clone, Debug, Default)]
pub struct JobLookup {
    list: Option<Arc<JobList>>,
    /// Indices in the list.
    by_id: BTreeMap<JobId, usize>,
    /// Indices in the list, and of the allocation in the job.
    by_node: BTreeMap<NodeName, Vec<(usize, usize)>>,
    /// The number of pending jobs and tasks of arrays that may start in each partition; `None` where it is unknown.
    pending: BTreeMap<Arc<str>, Option<usize>>,
}

impl JobLookup {
    /// Indexes a list.
    pub fn of(list: Option<&Arc<JobList>>) -> Self {
        let mut lookup = Self { list: list.cloned(), ..Self::default() };
        for (job_index, job) in list.iter().flat_map(|list| &list.jobs).enumerate() {
            for id in [Some(&job.id), job.alias.as_ref()].into_iter().flatten() {
                lookup.by_id.insert(id.clone(), job_index);
            }
            for (allocation_index, allocation) in job.allocations.iter().enumerate() {
                let of_node = lookup.by_node.entry(allocation.node.clone()).or_default();
                of_node.push((job_index, allocation_index));
            }
            // A pending job may start in any of several.
            for partition in job.partition.split(',').filter(|_| job.state == JobState::Pending) {
                let count = lookup.pending.entry(partition.into()).or_insert(Some(0));
                let tasks = job.tasks.and_then(|tasks| usize::try_from(tasks).ok());
                *count = count.zip(tasks).map(|(count, tasks)| count.saturating_add(tasks));
            }
        }
        lookup
    }

    /// Indexes another list, if it is another.
    pub fn refresh(&mut self, list: Option<&Arc<JobList>>) {
        if self.list.as_ref().map(Arc::as_ptr) != list.map(Arc::as_ptr) {
            *self = Self::of(list);
        }
    }

    /// Returns the list.
    pub fn list(&self) -> Option<&Arc<JobList>> {
        self.list.as_ref()
    }

    /// Returns the job with an id, or SLUID, as its processes have it.
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.list.as_ref()?.jobs.get(*self.by_id.get(id)?)
    }

    /// Returns the id and name of a job, as users know it.
    pub fn name(&self, id: &JobId) -> String {
        match self.job(id) {
            Some(job) => format!("{} {}", job.shown_id, job.name),
            None => self.raw_id(id).into_owned(),
        }
    }

    /// Returns the id of a job as users know it.
    pub fn shown_id<'a>(&'a self, id: &'a JobId) -> Cow<'a, str> {
        self.job(id).map_or_else(|| self.raw_id(id), |job| (&*job.shown_id).into())
    }

    fn raw_id<'a>(&self, id: &'a JobId) -> Cow<'a, str> {
        self.list.as_ref().map_or_else(|| id.as_str().into(), |list| list.raw_id(id))
    }

    /// Returns the number of pending jobs that may start in a partition, each task of an array counted; `None` unless all
    /// jobs and their tasks are listed now.
    pub fn pending_in(&self, partition: &str) -> Option<usize> {
        let list = self.list.as_ref()?;
        let has_all = list.requested == RequestedJobs::All && !list.is_partial && list.is_current();
        list.at.filter(|_| has_all)?;
        self.pending.get(partition).copied().unwrap_or(Some(0))
    }

    /// Returns the jobs on the machine of this name, each with its allocation there.
    pub fn on_node(&self, node: &NodeName) -> Vec<JobAllocation<'_>> {
        let Some(list) = &self.list else { return Vec::new() };
        let machine = list.other_names.get(node).unwrap_or(node);
        let found = self.by_node.get(machine).into_iter().flatten();
        let allocations = found.filter_map(|(job_index, allocation_index)| {
            let job = list.jobs.get(*job_index)?;
            Some((job, job.allocations.get(*allocation_index)?))
        });
        allocations.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::time::Timestamp;

    #[test]
    fn a_job_is_pending_in_each_partition_that_it_may_start_in() {
        let job = |id, partition: &str, state| Job {
            partition: partition.into(),
            state,
            ..Job::example(id)
        };
        let jobs = vec![
            job("1", "gpu,long", JobState::Pending),
            job("2", "gpu", JobState::Pending),
            job("3", "gpu", JobState::Running),
        ];
        let list = |at, requested| {
            Arc::new(JobList { jobs: jobs.clone(), at, requested, ..JobList::default() })
        };
        let now = Some(Timestamp::default());
        let lookup = JobLookup::of(Some(&list(now, RequestedJobs::All)));
        let counts = ["gpu", "long", "other", ""].map(|partition| lookup.pending_in(partition));
        assert_eq!(counts, [Some(2), Some(1), Some(0), Some(0)]);
        // Of one's own jobs alone, and before the scheduler has answered, the number is unknown.
        assert_eq!(
            JobLookup::of(Some(&list(now, RequestedJobs::Selected))).pending_in("gpu"),
            None
        );
        assert_eq!(JobLookup::of(Some(&list(None, RequestedJobs::All))).pending_in("gpu"), None);
        assert_eq!(JobLookup::default().pending_in("gpu"), None);
        // Each task of an array counts, if the scheduler lists them.
        let with_tasks = |tasks| {
            let array = Job { tasks, ..job("4", "gpu", JobState::Pending) };
            let jobs = [jobs.clone(), vec![array]].concat();
            let list = JobList { jobs, ..(*list(now, RequestedJobs::All)).clone() };
            let lookup = JobLookup::of(Some(&Arc::new(list)));
            (lookup.pending_in("gpu"), lookup.pending_in("long"))
        };
        assert_eq!(with_tasks(Some(3)), (Some(5), Some(1)));
        assert_eq!(with_tasks(None), (None, Some(1)));
        let partial = JobList { is_partial: true, ..(*list(now, RequestedJobs::All)).clone() };
        assert_eq!(JobLookup::of(Some(&Arc::new(partial))).pending_in("gpu"), None);
    }
}
