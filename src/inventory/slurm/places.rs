//! In which jobs a step of ours may run: those that run and are the user's own.

use crate::inventory::slurm::{own_name, own_number};
use crate::model::{Allotment, Job, JobList, JobState};
use crate::transport::Places;

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
                .map(move |one| (job.id.clone(), one.node.clone(), has_devices(&one.devices)))
        })
        .collect();
    before.choose(&pairs)
}
