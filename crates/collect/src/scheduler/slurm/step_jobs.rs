//! Chooses the jobs in which `srun` steps run: this user's running jobs.

use crate::scheduler::user_name::{own_uid, own_user_name};
use crate::scheduler::{StepCandidate, StepJob};
use gtop_model::{DeviceAllocation, Job, JobId, JobList, JobState};

/// Returns the job as `srun` names it: a component of a heterogeneous job, `12+1`, by its leader.
pub fn step_job(job: &Job) -> StepJob {
    let part = job
        .shown_id
        .split_once('+')
        .and_then(|(leader, part)| Some((JobId::new(leader)?, part.parse().ok()?)));
    StepJob { id: job.id.clone(), component: part }
}

/// Returns this user's running jobs on their nodes.
pub fn step_candidates(list: &JobList) -> Vec<StepCandidate> {
    let user_names = [own_user_name(), own_uid()];
    let own = list.jobs.iter().filter(|job| {
        matches!(job.state, JobState::Running | JobState::Starting)
            && user_names.iter().any(|name| **name == *job.user)
    });
    let on_nodes = own.flat_map(|job| job.allocations.iter().map(move |part| (job, part)));
    let candidates = on_nodes.map(|(job, allocation)| StepCandidate {
        job: step_job(job),
        node: allocation.node.clone(),
        has_devices: allocation.devices != DeviceAllocation::None,
    });
    candidates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{Allocation, NodeName};

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
        let with = job("8", &own, JobState::Starting, devices());
        let jobs = vec![
            bare.clone(),
            with.clone(),
            job("9", "someone", JobState::Running, devices()),
            job("10", &own, JobState::Ending, devices()),
        ];
        let list = JobList { jobs, ..JobList::default() };
        let candidate = |job: &Job, has_devices| StepCandidate {
            job: step_job(job),
            node: node.clone(),
            has_devices,
        };
        assert_eq!(step_candidates(&list), [candidate(&bare, false), candidate(&with, true)]);
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
