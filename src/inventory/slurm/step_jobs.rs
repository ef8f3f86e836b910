//! Chooses the jobs in which `srun` steps run: this user's running jobs.

use crate::inventory::slurm::own_uid;
use crate::inventory::slurm::user_name::own_user_name;
use crate::model::{DeviceAllocation, Job, JobId, JobList, JobState};
use crate::transport::{NodeJobs, StepJob};

/// Returns the job as `srun` names it: a component of a heterogeneous job, `12+1`, by its leader.
pub fn step_job(job: &Job) -> StepJob {
    let part = job
        .shown_id
        .split_once('+')
        .and_then(|(leader, part)| Some((JobId::new(leader)?, part.parse().ok()?)));
    StepJob { id: job.id.clone(), component: part }
}

/// Chooses a job for each node, keeping earlier choices if possible.
pub fn choose_step_jobs(list: &JobList, previous: &NodeJobs) -> NodeJobs {
    let user_names = [own_user_name(), own_uid()];
    let is_own_and_running = |job: &&Job| {
        matches!(job.state, JobState::Running | JobState::Configuring)
            && user_names.iter().any(|name| **name == *job.user)
    };
    let pairs: Vec<_> = list
        .jobs
        .iter()
        .filter(is_own_and_running)
        .flat_map(|job| {
            let has_devices = |devices: &DeviceAllocation| *devices != DeviceAllocation::None;
            job.allocations.iter().map(move |allocation| {
                (step_job(job), allocation.node.clone(), has_devices(&allocation.devices))
            })
        })
        .collect();
    previous.with_running_jobs(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Allocation, NodeName};

    #[test]
    fn a_step_runs_in_the_user_s_own_running_job_preferably_with_devices() {
        let node = NodeName::new("gpu01").unwrap();
        let job = |id: &str, user: &str, state, devices| Job {
            user: user.into(),
            state,
            allocations: [Allocation { node: node.clone(), devices }].into(),
            ..Job::example(id)
        };
        let own = own_user_name();
        let devices = || DeviceAllocation::Indices([0].into());
        let bare = job("7", &own, JobState::Running, DeviceAllocation::None);
        let with = job("8", &own, JobState::Configuring, devices());
        let jobs = vec![
            bare.clone(),
            with.clone(),
            job("9", "someone", JobState::Running, devices()),
            job("10", &own, JobState::Completing, devices()),
        ];
        let candidates =
            [(step_job(&bare), node.clone(), false), (step_job(&with), node.clone(), true)];
        let list = JobList { jobs, ..JobList::default() };
        let chosen = NodeJobs::default().with_running_jobs(&candidates);
        assert_eq!(choose_step_jobs(&list, &NodeJobs::default()), chosen);
        assert_ne!(chosen, NodeJobs::default());
    }

    #[test]
    fn a_component_of_a_heterogeneous_job_has_the_id_of_its_leader() {
        let step_of =
            |shown_id: &str| step_job(&Job { shown_id: shown_id.into(), ..Job::example("13") });
        let (leader, part) = (step_of("12+1"), Some((JobId::new("12").unwrap(), 1)));
        assert_eq!((leader.id.as_str(), leader.component), ("13", part));
        assert_eq!(step_of("12_1").component, None);
    }
}
