//! In which jobs a step of ours may run: those that run and are the user's own.

use crate::inventory::slurm::{own_name, own_number};
use crate::model::{Allotment, Job, JobId, JobList, JobState};
use crate::transport::{Places, StepJob};

/// Returns the job as a step in it is begun: a part of a heterogeneous job, `12+1`, only by the job
/// that leads it.
pub fn step_job(job: &Job) -> StepJob {
    let part = job
        .shown_id
        .split_once('+')
        .and_then(|(leader, part)| Some((JobId::new(leader)?, part.parse().ok()?)));
    StepJob { id: job.id.clone(), part }
}

/// Chooses a job for each node, as before where that is possible.
pub fn places(list: &JobList, before: &Places) -> Places {
    let names = [own_name(), own_number()];
    let is_own = |job: &&Job| {
        matches!(job.state, JobState::Running | JobState::Starting)
            && names.iter().any(|name| **name == *job.user)
    };
    let pairs: Vec<_> = list
        .jobs
        .iter()
        .filter(is_own)
        .flat_map(|job| {
            let has_devices = |devices: &Allotment| *devices != Allotment::Nothing;
            job.allocations
                .iter()
                .map(move |one| (step_job(job), one.node.clone(), has_devices(&one.devices)))
        })
        .collect();
    before.choose(&pairs)
}
