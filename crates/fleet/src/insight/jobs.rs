//! Index of jobs: those the scheduler lists, and those known only from the cgroups of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::insight::FleetView;
use crate::{Fleet, JobHoldings, Node, job_holdings};
use gtop_local::time::Timestamp;
use gtop_model::{Allocation, Device, DeviceAllocation, Job, JobId, NodeName};

/// The jobs that have nodes, in the order in which the view steps through them.
#[derive(Debug, Default)]
pub struct JobIndex {
    pub entries: Vec<JobEntry>,
}

#[derive(Debug)]
pub struct JobEntry {
    pub job: Job,
    /// Parallel to the allocations of the job.
    pub nodes: Vec<JobNode>,
    /// True if the scheduler lists the job, false if only its processes show it.
    pub is_listed: bool,
    /// True if the filter matches a device of the job, or could where these are unknown.
    pub is_shown: bool,
}

/// The share of a job on one node.
#[derive(Debug)]
pub struct JobNode {
    /// Index into the nodes of the fleet, `None` if the node is not monitored.
    pub node_index: Option<usize>,
    /// True if the filter matches a device of the job there, or could if it is not known which these are.
    pub is_shown: bool,
    pub holdings: JobHoldings,
    /// The positions of the job's devices and slices that match, in the order of the node.
    pub positions: Vec<usize>,
}

impl JobNode {
    /// Returns the node; `None` if it is not monitored.
    pub fn node<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a Node> {
        fleet_view.fleet.nodes.get(self.node_index?).map(|node| &**node)
    }

    /// Returns the devices and slices that match, each with its position.
    pub fn devices<'a>(&self, node: &'a Node) -> impl Iterator<Item = (usize, &'a Device)> {
        self.positions.iter().filter_map(|at| Some((*at, node.devices.get(*at)?)))
    }
}

impl JobIndex {
    /// Builds the index. With thousands of nodes this is too slow to be done for each frame.
    pub fn build(fleet_view: &FleetView) -> Self {
        let fleet = &fleet_view.fleet;
        let lookup = NodeLookup::of(fleet_view);
        let listed = fleet.jobs.iter().flat_map(|list| list.with_nodes()).cloned();
        let unlisted = jobs_from_processes(fleet);
        let listed = listed.map(|job| build_entry(job, true, &lookup));
        let unlisted = unlisted.into_iter().map(|job| build_entry(job, false, &lookup));
        Self { entries: listed.chain(unlisted).collect() }
    }

    /// Returns the jobs that have a node matching the filter.
    pub fn shown(&self) -> impl Iterator<Item = &JobEntry> {
        self.entries.iter().filter(|entry| entry.is_shown)
    }

    pub fn entry(&self, id: &JobId) -> Option<&JobEntry> {
        self.entries.iter().find(|entry| entry.job.id == *id)
    }
}

/// Looks up nodes by name, and what of them the filter matches.
struct NodeLookup<'a> {
    fleet_view: &'a FleetView,
    by_name: BTreeMap<&'a NodeName, usize>,
    shown: Option<BTreeSet<usize>>,
}

impl<'a> NodeLookup<'a> {
    fn of(fleet_view: &'a FleetView) -> Self {
        let named = fleet_view.fleet.nodes.iter().map(|node| &node.name).zip(0..);
        let shown =
            (!fleet_view.filter.is_empty()).then(|| fleet_view.matching.iter().copied().collect());
        Self { fleet_view, by_name: named.collect(), shown }
    }

    fn is_shown(&self, node_index: Option<usize>) -> bool {
        let Some(shown) = &self.shown else { return true };
        node_index.is_some_and(|node_index| shown.contains(&node_index))
    }

    fn job_node(&self, node_index: Option<usize>, job: &Job, allocation: &Allocation) -> JobNode {
        let node = node_index.and_then(|at| self.fleet_view.fleet.nodes.get(at));
        let (mut has_devices, mut positions) = (false, Vec::new());
        let holdings = job_holdings(node.map(|node| &**node), job, allocation);
        if let Some(node) = node {
            let devices = node.devices.iter().enumerate();
            for (position, _) in devices.filter(|(_, own)| holdings.devices.contains(&own.uuid)) {
                has_devices = true;
                if self.fleet_view.matches_device(node, position) {
                    positions.push(position);
                }
            }
        }
        let filter = &self.fleet_view.filter;
        let is_match = match node {
            _ if has_devices => !positions.is_empty(),
            Some(node) if !filter.is_empty() => {
                filter.matches_job_on(node, job, self.fleet_view.now)
            }
            Some(_) | None => true,
        };
        let is_shown = self.is_shown(node_index) && is_match;
        JobNode { node_index, is_shown, holdings, positions }
    }
}

fn build_entry(job: Job, is_listed: bool, lookup: &NodeLookup<'_>) -> JobEntry {
    let nodes = job.allocations.iter().map(|allocation| {
        let node_index = lookup.by_name.get(&allocation.node).copied();
        lookup.job_node(node_index, &job, allocation)
    });
    let nodes: Vec<JobNode> = nodes.collect();
    JobEntry { is_shown: nodes.iter().any(|job_node| job_node.is_shown), nodes, is_listed, job }
}

/// What stands for the name of a job of which only the scheduler's own id is known: users know a task of an array by
/// another one, and beside a list of jobs the ids would look alike.
const RAW_ID: &str = "(raw id)";

/// Builds a job of each job id that processes carry in their cgroup and that no scheduler lists.
fn jobs_from_processes(fleet: &Fleet) -> Vec<Job> {
    let has_list = fleet.jobs.as_ref().is_some_and(|list| list.at.is_some());
    let name = if has_list { RAW_ID } else { "" };
    let mut jobs: Vec<Job> = fleet
        .unlisted_jobs()
        .into_iter()
        .map(|(id, found)| {
            let nodes: Vec<&Arc<Node>> = found.iter().map(|(node, _)| *node).collect();
            let (user, starts_at) = owner_and_start(&nodes, id);
            let allocations = nodes.iter().map(|node| Allocation {
                node: node.name.clone(),
                devices: DeviceAllocation::Unknown,
            });
            Job {
                name: name.into(),
                user: user.unwrap_or_default(),
                starts_at,
                node_count: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
                allocations: allocations.collect(),
                ..Job::unlisted(id.clone())
            }
        })
        .collect();
    jobs.sort_by_key(|job| job.id.as_str().parse::<u64>().unwrap_or(u64::MAX));
    jobs
}

/// Returns the owner of the job's processes and the earliest start among them.
fn owner_and_start(nodes: &[&Arc<Node>], job: &JobId) -> (Option<Arc<str>>, Option<Timestamp>) {
    let processes = nodes.iter().flat_map(|node| node.processes.iter());
    let mut processes =
        processes.filter(|process| process.statics.job.as_ref() == Some(job)).peekable();
    let user = processes.peek().and_then(|process| process.statics.user.known()).map(Arc::clone);
    (user, processes.filter_map(|process| process.started_at.get()).min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Filter;
    use gtop_model::{JobList, SchedulerNode};
    use std::time::Duration;

    #[test]
    fn beside_listed_ids_those_of_processes_are_marked() {
        let ids = |fleet: &Fleet| -> Vec<String> {
            let text = |job: &Job| format!("{} {}", job.shown_id, job.name);
            jobs_from_processes(fleet).iter().map(text).collect()
        };
        let fleet = Fleet::example_used_by("9");
        assert_eq!(ids(&fleet), ["9 "]);
        let list = JobList::clone(fleet.jobs.as_deref().unwrap());
        let list = JobList { at: Some(Timestamp::default()), ..list };
        assert_eq!(ids(&fleet.with_jobs(Some(Arc::new(list)))), ["9 (raw id)"]);
    }

    #[test]
    fn a_job_whose_devices_are_not_known_is_shown_if_it_could_match() {
        let name = NodeName::new("gpu01").unwrap();
        let mut node = Node::new(name.clone(), Duration::ZERO);
        node.devices = vec![Device { uuid: "GPU-1".into(), ..Device::default() }].into();
        let partitions = vec!["gpu".into(), "high".into()];
        node.scheduler = Some(Arc::new(SchedulerNode { partitions, ..SchedulerNode::default() }));
        let allocation = Allocation { node: name, devices: DeviceAllocation::Count(1) };
        let job = |id| Job { allocations: [allocation.clone()].into(), ..Job::example(id) };
        let jobs = vec![
            Job { partition: "gpu".into(), user: "ada".into(), ..job("1") },
            Job { partition: "high".into(), user: "bob".into(), ..job("2") },
        ];
        let fleet = Fleet::new([Arc::new(node)].into());
        let fleet = fleet.with_jobs(Some(Arc::new(JobList { jobs, ..JobList::default() })));
        for (filter, expected) in [
            ("", &["1", "2"][..]),
            ("partition=gpu", &["1"]),
            ("partition=high", &["2"]),
            ("jobuser=bob", &["2"]),
            ("gpu01", &["1", "2"]),
            ("partition=cpu", &[]),
        ] {
            let filter = Filter::new(filter).unwrap();
            let fleet_view = FleetView::filtered(fleet.clone(), Timestamp::default(), filter);
            let index = JobIndex::build(&fleet_view);
            let shown: Vec<&str> = index.shown().map(|entry| entry.job.id.as_str()).collect();
            assert_eq!(shown, expected, "{}", fleet_view.filter.text());
        }
    }
}
