//! Which nodes a backend watches, and on which it lists jobs.

use std::collections::BTreeSet;

use crate::scheduler::node_names::merge_nodes;
use gtop_model::{Job, NodeName};

/// The watched nodes: those of jobs, and others.
#[derive(Debug, Default)]
pub(super) struct WatchedNodes {
    /// All nodes of the filter's queues are watched, also those without a listed job.
    pub(super) has_all: bool,
    /// Watched in addition to those of jobs.
    fixed: Vec<NodeName>,
    /// Watched until the first answer.
    initial: Vec<NodeName>,
    /// Only jobs on these nodes are listed, if there are any.
    only_on: Option<BTreeSet<NodeName>>,
    names: Vec<NodeName>,
}

impl WatchedNodes {
    /// Returns the nodes that are watched whatever jobs there are.
    pub(super) fn new(fixed: Vec<NodeName>) -> Self {
        Self { names: fixed.clone(), fixed, ..Self::default() }
    }

    /// Adds nodes that are watched until the first answer.
    pub(super) fn add_initial(&mut self, mut nodes: Vec<NodeName>) {
        nodes.retain(|node| !self.fixed.contains(node));
        self.names.extend(nodes.iter().cloned());
        self.initial = nodes;
    }

    /// Lists only the jobs on these nodes, which the scheduler need not know.
    pub(super) fn list_jobs_on(&mut self, nodes: BTreeSet<NodeName>) {
        self.only_on = Some(nodes);
    }

    /// Returns true if a job is listed, by its nodes.
    pub(super) fn lists(&self, job: &Job) -> bool {
        self.only_on.as_ref().is_none_or(|nodes| {
            job.allocations.iter().any(|allocation| nodes.contains(&allocation.node))
        })
    }

    /// Forgets the initial nodes: the scheduler has listed its jobs.
    pub(super) fn on_list(&mut self) {
        self.initial.clear();
    }

    /// Watches the nodes of these jobs and, if all are watched, those of the filter's queues.
    pub(super) fn update<'a>(&mut self, jobs: &'a [Job], all: impl Iterator<Item = &'a NodeName>) {
        let has_all = self.has_all;
        let constant = self.fixed.iter().chain(&self.initial).cloned().collect();
        self.names = merge_nodes(constant, jobs, all.filter(|_| has_all));
    }

    /// Returns the nodes, in natural order.
    pub(super) fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// Returns those that are not watched only because all are.
    pub(super) fn expected<'a>(&'a self, jobs: &'a [Job]) -> BTreeSet<&'a NodeName> {
        let allocations = jobs.iter().flat_map(|job| job.allocations.iter());
        allocations.map(|allocation| &allocation.node).chain(&self.fixed).collect()
    }

    /// Returns true if there is a node of which it matters what jobs have there.
    pub(super) fn is_any(&self) -> bool {
        self.has_all || !self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{Allocation, DeviceAllocation};

    fn names(list: &[&str]) -> Vec<NodeName> {
        list.iter().map(|name| NodeName::new(name).unwrap()).collect()
    }

    fn job_on(node: &str) -> Job {
        let node = NodeName::new(node).unwrap();
        let allocation = Allocation { node, devices: DeviceAllocation::Unknown };
        Job { allocations: [allocation].into(), ..Job::example("1") }
    }

    #[test]
    fn nodes_of_jobs_are_added_and_initial_ones_leave_with_the_first_list() {
        let mut watched = WatchedNodes::new(names(&["b"]));
        watched.add_initial(names(&["b", "c"]));
        assert_eq!(watched.names(), names(&["b", "c"]));
        watched.update(&[job_on("a")], names(&["z"]).iter());
        assert_eq!(watched.names(), names(&["a", "b", "c"]));
        watched.on_list();
        watched.has_all = true;
        let (jobs, all) = ([job_on("a")], names(&["z"]));
        watched.update(&jobs, all.iter());
        assert_eq!(watched.names(), names(&["a", "b", "z"]));
        let expected: Vec<NodeName> = watched.expected(&jobs).into_iter().cloned().collect();
        assert_eq!(expected, names(&["a", "b"]));
    }

    #[test]
    fn jobs_elsewhere_are_not_listed() {
        let mut watched = WatchedNodes::default();
        assert!(watched.lists(&job_on("a")) && !watched.is_any());
        watched.list_jobs_on(names(&["a"]).into_iter().collect());
        assert!(watched.lists(&job_on("a")) && !watched.lists(&job_on("b")));
    }
}
