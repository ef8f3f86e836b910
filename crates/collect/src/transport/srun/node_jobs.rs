//! Chooses the job for the step on each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::scheduler::{StepCandidate, StepJob};
use gtop_model::{JobId, NodeName};

/// Returns the options that select the job of a step.
pub(crate) fn srun_options(job: &StepJob) -> Vec<String> {
    match &job.component {
        None => vec![format!("--jobid={}", job.id)],
        Some((leader, part)) => vec![format!("--jobid={leader}"), format!("--het-group={part}")],
    }
}

/// A running job, and the nodes whose step runs in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepNodes {
    pub job: StepJob,
    pub nodes: Arc<[NodeName]>,
}

/// The user's running jobs by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeJobs {
    /// The preferred job first.
    nodes: BTreeMap<NodeName, Vec<StepJob>>,
    /// Nodes and the jobs in which a step on them failed.
    failed: BTreeSet<(NodeName, JobId)>,
}

impl NodeJobs {
    /// Orders the jobs of each node: the current one while it runs, then jobs with devices, since a step sees only
    /// the devices of its job.
    #[must_use]
    pub fn with_running_jobs(&self, jobs: &[StepCandidate]) -> Self {
        let mut found: BTreeMap<NodeName, Vec<(bool, bool, StepJob)>> = BTreeMap::new();
        for StepCandidate { job, node, has_devices } in jobs {
            let is_new = self.job_of(node).is_none_or(|before| before.id != job.id);
            found.entry(node.clone()).or_default().push((is_new, !has_devices, job.clone()));
        }
        let (mut nodes, mut failed) = (BTreeMap::new(), BTreeSet::new());
        for (node, mut jobs) in found {
            jobs.sort_by_key(|(is_new, has_none, _)| (*is_new, *has_none));
            let jobs: Vec<StepJob> = jobs.into_iter().map(|(.., job)| job).collect();
            // If all jobs of a node have failed, all are tried again.
            if jobs.iter().any(|job| !self.has_failed(&node, job)) {
                let those = jobs.iter().filter(|job| self.has_failed(&node, job));
                failed.extend(those.map(|job| (node.clone(), job.id.clone())));
            }
            nodes.insert(node, jobs);
        }
        Self { nodes, failed }
    }

    fn has_failed(&self, node: &NodeName, job: &StepJob) -> bool {
        self.failed.contains(&(node.clone(), job.id.clone()))
    }

    /// Returns the job of a node, with all nodes of that job.
    pub(crate) fn step_nodes(&self, node: &NodeName) -> Option<StepNodes> {
        let job = self.job_of(node)?;
        let nodes = self
            .nodes
            .keys()
            .filter(|node| self.job_of(node).is_some_and(|other| other.id == job.id));
        Some(StepNodes { job: job.clone(), nodes: nodes.cloned().collect() })
    }

    /// Records that a step in this job failed on a node, and returns true if there is another job to try. If not,
    /// all may be tried again.
    pub(crate) fn mark_failed(&mut self, node: &NodeName, job: &JobId) -> bool {
        self.failed.insert((node.clone(), job.clone()));
        let is_left = self.job_of(node).is_some();
        if !is_left {
            self.failed.retain(|(other, _)| other != node);
        }
        is_left
    }

    /// Returns the jobs on a node.
    pub(crate) fn jobs_on(&self, node: &NodeName) -> impl Iterator<Item = &JobId> {
        self.nodes.get(node).into_iter().flatten().map(|job| &job.id)
    }

    /// Returns the job of a node in which a step would start.
    pub(crate) fn job_of(&self, node: &NodeName) -> Option<&StepJob> {
        self.nodes.get(node)?.iter().find(|job| !self.has_failed(node, job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(node_jobs: &NodeJobs, node: &str) -> String {
        let Some(step) = node_jobs.step_nodes(&NodeName::new(node).unwrap()) else {
            return "none".to_owned();
        };
        let nodes: Vec<_> = step.nodes.iter().map(NodeName::as_str).collect();
        format!("{}: {}", step.job.id, nodes.join(" "))
    }

    fn jobs(list: &[(&str, &str, bool)]) -> Vec<StepCandidate> {
        let entry = |(job, node, has_devices): &(&str, &str, bool)| StepCandidate {
            job: JobId::new(job).unwrap().into(),
            node: NodeName::new(node).unwrap(),
            has_devices: *has_devices,
        };
        list.iter().map(entry).collect()
    }

    #[test]
    fn a_node_prefers_its_current_job_then_jobs_with_devices() {
        let first =
            jobs(&[("1", "a", false), ("2", "a", true), ("2", "b", true), ("3", "b", true)]);
        let node_jobs = NodeJobs::default().with_running_jobs(&first);
        assert_eq!(describe(&node_jobs, "a"), "2: a b");
        assert_eq!(describe(&node_jobs, "c"), "none");
        let node_jobs = node_jobs.with_running_jobs(&jobs(&[
            ("0", "a", true),
            ("2", "a", false),
            ("3", "b", true),
        ]));
        assert_eq!(
            (describe(&node_jobs, "a"), describe(&node_jobs, "b")),
            ("2: a".into(), "3: b".into())
        );
    }

    #[test]
    fn after_a_failed_step_the_next_job_is_tried_and_after_the_last_all_again() {
        let list = jobs(&[("1", "a", true), ("2", "a", false), ("1", "b", true)]);
        let mut node_jobs = NodeJobs::default().with_running_jobs(&list);
        let (a, entry) = (NodeName::new("a").unwrap(), JobId::new("1").unwrap());
        let two = JobId::new("2").unwrap();
        assert!(node_jobs.mark_failed(&a, &entry));
        assert_eq!(
            (describe(&node_jobs, "a"), describe(&node_jobs, "b")),
            ("2: a".into(), "1: b".into())
        );
        // The current job is kept while it runs.
        node_jobs = node_jobs.with_running_jobs(&list);
        assert_eq!(describe(&node_jobs, "a"), "2: a");
        assert!(!node_jobs.mark_failed(&a, &two));
        assert_eq!(describe(&node_jobs, "a"), "2: a");
        assert!(node_jobs.mark_failed(&a, &two));
        assert_eq!(describe(&node_jobs, "a"), "1: a b");
        let only = node_jobs.with_running_jobs(&jobs(&[("2", "a", false)]));
        assert_eq!(describe(&only, "a"), "2: a", "the only job left");
        let other = node_jobs.with_running_jobs(&jobs(&[("3", "a", false)]));
        assert_eq!(describe(&other, "a"), "3: a");
        assert_eq!(other.failed.len(), 0, "entries of ended jobs are removed");
    }

    #[test]
    fn a_component_of_a_heterogeneous_job_is_selected_by_its_leader() {
        let id = |text: &str| JobId::new(text).unwrap();
        assert_eq!(srun_options(&StepJob::from(id("7"))), ["--jobid=7"]);
        let part = StepJob { id: id("4"), component: Some((id("3"), 1)) };
        assert_eq!(srun_options(&part), ["--jobid=3", "--het-group=1"]);
    }
}
