//! What jobs, and a container of the probe, have and use of a host, by their control groups.

use std::collections::BTreeMap;

use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Job, JobId, Reading};

/// What a control group has and uses of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostShare {
    /// CPUs that it may use at once; `None` without a limit.
    pub cpus: Option<f32>,
    /// CPUs that it has used, on average since the reading before.
    pub cpus_used: Reading<f32>,
    /// Memory that it may use; `None` without a limit.
    pub memory_limit: Option<Bytes>,
    /// Memory that it uses, without pages of files that nobody has used for long.
    pub memory_used: Reading<Bytes>,
}

/// The shares of a host that are known.
#[derive(Clone, Debug, PartialEq)]
pub struct HostShares {
    /// When they were read.
    pub at: Timestamp,
    /// That of the container in which the probe runs; `None` if that has no limit below that of the host.
    pub own: Option<HostShare>,
    /// Those of jobs, by the id that the path of their group has.
    pub jobs: BTreeMap<JobId, HostShare>,
}

impl HostShares {
    /// Returns the share of a job; `None` if it has no control group of its own, or if that is not seen.
    pub fn of_job(&self, job: &Job) -> Option<&HostShare> {
        let alias = || self.jobs.get(job.alias.as_ref()?);
        self.jobs.get(&job.id).or_else(alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_have_another_name_of_a_job() {
        let jobs = BTreeMap::from([(JobId::new("7").unwrap(), HostShare::default())]);
        let shares = HostShares { at: Timestamp::default(), own: None, jobs };
        let named = Job { alias: JobId::new("7"), ..Job::example("8") };
        assert!(shares.of_job(&named).is_some() && shares.of_job(&Job::example("8")).is_none());
    }
}
