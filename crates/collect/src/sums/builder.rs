//! Adds up what nodes do, from the changes of their states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::sums::intervals::TimeIntervals;
use crate::sums::machines::{MachineIndex, MachineName};
use crate::sums::scope::SumScope;
use crate::sums::watched_node::WatchedNode;
use crate::sums::{JobFacts, SpanSums};
use gtop_fleet::usage::DeviceValues;
use gtop_fleet::{HoldingsKeeper, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Job, JobId, JobList, JobState, NodeName};

/// Jobs that wait of which one may be asked for.
const MAX_PENDING: usize = 20_000;

/// Adds up what nodes do.
#[derive(Debug, Default)]
pub struct SumBuilder {
    scope: SumScope,
    placing: HoldingsKeeper,
    jobs: Option<Arc<JobList>>,
    /// Per file, the nodes that it lists, and since when.
    rosters: BTreeMap<usize, (Timestamp, Vec<NodeName>)>,
    nodes: BTreeMap<NodeName, WatchedNode>,
    machines: MachineIndex,
    sums: SpanSums,
}

impl SumBuilder {
    /// Begins with nothing known.
    pub fn new(scope: SumScope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// Takes the nodes that a file lists, and the jobs of all files.
    pub fn on_roster(
        &mut self,
        file: usize,
        at: Timestamp,
        names: &[NodeName],
        jobs: Option<&Arc<JobList>>,
    ) {
        self.on_names(file, at, names);
        self.placing.set_jobs(jobs);
        self.jobs = jobs.cloned();
        self.note_jobs(at);
    }

    fn on_names(&mut self, file: usize, at: Timestamp, names: &[NodeName]) {
        let known = self.rosters.get(&file).map(|(_, known)| known.as_slice());
        if known == Some(names) {
            return;
        }
        let listed: BTreeSet<&NodeName> = names.iter().collect();
        let gone = known.unwrap_or_default().iter().filter(|name| !listed.contains(name));
        let gone: Vec<NodeName> = gone.cloned().collect();
        self.close_roster(file, at);
        self.rosters.insert(file, (at, names.to_vec()));
        let Self { scope, rosters, nodes, sums, .. } = self;
        for name in names {
            nodes.entry(name.clone()).or_default().is_listed = true;
        }
        for name in gone {
            let is_listed = rosters.values().any(|(_, names)| names.contains(&name));
            if let Some(node) = nodes.get_mut(&name).filter(|_| !is_listed) {
                node.is_listed = false;
                node.close(at, (scope, &mut sums.commands));
            }
        }
    }

    /// Adds the time in which the nodes of a file were listed.
    fn close_roster(&mut self, file: usize, at: Timestamp) {
        let Some((since, names)) = self.rosters.remove(&file) else { return };
        let mut listed = TimeIntervals::default();
        listed.push(since.max(self.scope.from), at.min(self.scope.to));
        let Some(recorded) = self.scope.recorded_by_file.get(file) else { return };
        let listed = recorded.intersection(&listed);
        for name in names {
            self.nodes.entry(name).or_default().sums.listed.extend(&listed);
        }
    }

    /// Notes the jobs that are listed at a time.
    fn note_jobs(&mut self, at: Timestamp) {
        let Some(list) = self.jobs.as_ref() else { return };
        let running = list.with_nodes().filter(|job| job.state != JobState::Pending);
        let listed: BTreeSet<JobId> = running.map(|job| job.id.clone()).collect();
        let sums = &mut self.sums;
        sums.listings.update(at, &listed);
        for job in &list.jobs {
            if job.state == JobState::Pending {
                if sums.pending.len() < MAX_PENDING && !sums.pending.contains_key(&job.id) {
                    sums.pending.insert(job.id.clone(), job.clone());
                }
            } else if let Some(known) = sums.jobs.get_mut(&job.id) {
                known.complete(job.cpus, job.memory);
            } else {
                sums.jobs.insert(job.id.clone(), JobFacts::of(job));
            }
        }
    }

    /// Takes a new state of a node.
    pub fn on_node(&mut self, at: Timestamp, node: &Arc<Node>) {
        self.placing.note_name(node);
        if !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), WatchedNode::default());
        }
        self.find_machine(at, node);
        let mut placed = Arc::clone(node);
        self.placing.place(&mut placed);
        let Self { scope, placing, nodes, sums, .. } = self;
        let Some(watched) = nodes.get_mut(&node.name) else { return };
        watched.on_link(at, &placed, (scope, &mut sums.commands));
        watched.note_blindness(at, &placed, scope);
        if !watched.other_name.is_now() {
            watched.on_values(at, &placed, placing.jobs(), (scope, &mut sums.commands));
        }
    }

    /// Finds out whether the node counts, or its machine under another name.
    fn find_machine(&mut self, at: Timestamp, node: &Node) {
        let Self { scope, nodes, machines, sums, .. } = self;
        if !nodes.get_mut(&node.name).is_some_and(|watched| watched.other_name.may_change(node)) {
            return;
        }
        let found = machines.name_of(node, |name| {
            nodes.get(name).is_some_and(|known| known.is_listed && known.down_since.is_none())
        });
        let (counted, other) = match &found {
            MachineName::Own => (&node.name, None),
            MachineName::OwnNow(before) => (&node.name, Some(before)),
            MachineName::Other(counted) => (counted, Some(&node.name)),
        };
        if let Some(watched) = nodes.get_mut(counted) {
            watched.end_elsewhere(at, scope);
        }
        if let Some(watched) = other.and_then(|name| nodes.get_mut(name)) {
            watched.count_elsewhere(at, counted, (scope, &mut sums.commands));
        }
    }

    /// Takes a row of a log: values of a device that hold until its next row.
    pub fn on_row(
        &mut self,
        (name, index): (&NodeName, u32),
        at: Timestamp,
        interval: Duration,
        values: DeviceValues,
    ) {
        let Self { scope, nodes, sums, .. } = self;
        if !nodes.contains_key(name) {
            let mut node = WatchedNode::default();
            node.sums.listed.push(scope.from, scope.to);
            nodes.insert(name.clone(), node);
        }
        if let Some(node) = nodes.get_mut(name) {
            node.on_row(index, (at, interval), values, (scope, &mut sums.commands));
        }
    }

    /// Values do not hold beyond a time, as the recorder stands still after it until another time.
    pub fn pause(&mut self, from: Timestamp, to: Timestamp) {
        let Self { scope, nodes, sums, .. } = self;
        for node in nodes.values_mut() {
            node.close(from, (scope, &mut sums.commands));
        }
        let pause = TimeIntervals::new(vec![(from, to)]);
        scope.recorded = scope.recorded.difference(&pause);
        for recorded in &mut scope.recorded_by_file {
            *recorded = recorded.difference(&pause);
        }
    }

    /// Returns what has been added up until a time, the last one that counts if it is later, and begins anew there.
    pub fn take(&mut self, to: Timestamp) -> SpanSums {
        let to = to.min(self.scope.to);
        for (file, (since, names)) in self.rosters.clone() {
            self.close_roster(file, to);
            self.rosters.insert(file, (to.max(since), names));
        }
        let Self { scope, nodes, sums, .. } = self;
        let of_nodes = nodes
            .iter_mut()
            .map(|(name, node)| (name.clone(), node.take(to, (scope, &mut sums.commands))));
        let of_nodes = of_nodes.collect();
        nodes.retain(|_, node| node.is_listed);
        let sums = SpanSums { nodes: of_nodes, ..std::mem::take(&mut self.sums) };
        self.note_jobs(to);
        sums
    }
}

impl JobFacts {
    fn of(job: &Job) -> Self {
        Self {
            shown_id: Arc::clone(&job.shown_id),
            name: Arc::clone(&job.name),
            user: Arc::clone(&job.user),
            partition: Arc::clone(&job.partition),
            nodes: job.allocations.iter().map(|one| one.node.clone()).collect(),
            cpus: job.cpus,
            memory: job.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Bytes;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn builder() -> SumBuilder {
        let times = TimeIntervals::new(vec![(at(0), at(1_000))]);
        SumBuilder::new(SumScope {
            to: at(1_000),
            recorded_by_file: vec![times.clone()],
            recorded: times,
            ..SumScope::default()
        })
    }

    fn list_job(builder: &mut SumBuilder, second: i64, memory: Option<Bytes>) {
        let job = Job { state: JobState::Running, cpus: Some(4), memory, ..Job::example("7") };
        let list = Arc::new(JobList { jobs: vec![job], ..JobList::default() });
        builder.on_roster(0, at(second), &[], Some(&list));
    }

    #[test]
    fn the_memory_of_a_job_may_be_known_later_than_the_job() {
        let memory = |sums: &SpanSums| sums.jobs.values().next().unwrap().memory;
        let mut builder = builder();
        list_job(&mut builder, 10, None);
        let mut sums = builder.take(at(20));
        assert_eq!(memory(&sums), None);
        list_job(&mut builder, 30, Some(Bytes(1)));
        list_job(&mut builder, 40, None);
        let later = builder.take(at(50));
        assert_eq!(memory(&later), Some(Bytes(1)));
        sums.merge(later, &TimeIntervals::default());
        assert_eq!(memory(&sums), Some(Bytes(1)));
    }

    #[test]
    fn a_node_that_is_no_longer_listed_is_forgotten_with_the_next_sums() {
        let mut builder = builder();
        let [one, two] = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
        builder.on_roster(0, at(10), &[one.clone(), two.clone()], None);
        builder.on_roster(0, at(20), std::slice::from_ref(&two), None);
        let listed = |sums: &SpanSums| {
            let nodes = sums.nodes.iter();
            let seconds = nodes.map(|(name, node)| (name.clone(), node.listed.seconds()));
            seconds.collect::<Vec<_>>()
        };
        assert_eq!(listed(&builder.take(at(30))), [(one, 10.0), (two.clone(), 20.0)]);
        assert_eq!(listed(&builder.take(at(40))), [(two, 10.0)]);
    }
}
