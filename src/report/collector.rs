//! Adds up what nodes did over a span of time, from the changes of their states.
//!
//! Values hold from one sample of a device to the next, at most for the time after which they count as stale, and not
//! beyond the loss of the connection or the end of the recording. Collectors of spans that follow each other are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::report::collected_node::CollectedNode;
use crate::report::device_record::{DeviceRecord, HeldValues, UsageSums};
use crate::report::filter::is_named;
use crate::report::holders::{CachedHolder, HeldCommand, HolderSums, JobFacts};
use crate::report::intervals::TimeIntervals;
use crate::report::machines::{MachineIndex, MachineName};
use crate::report::scope::ReportScope;
use gtop_collect::source::replay::{FoldedChange, FoldedLine};
use gtop_fleet::usage::DeviceValues;
use gtop_fleet::{Holder, HoldingsKeeper, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, JobId, JobList, JobState, NodeName, stale_after};

/// Maximum number of holders of which it is noted where else they were.
const MAX_ELSEWHERE: usize = 1_000;

/// What was collected.
#[derive(Debug, Default)]
pub(super) struct UsageCollector {
    scope: ReportScope,
    placing: HoldingsKeeper,
    /// Per file, the nodes that it lists, and since when.
    rosters: BTreeMap<usize, (Timestamp, Vec<NodeName>)>,
    pub(super) nodes: BTreeMap<NodeName, CollectedNode>,
    /// All that were recorded, whether they count or not.
    pub(super) known_nodes: BTreeSet<NodeName>,
    machines: MachineIndex,
    pub(super) holders: HolderSums,
    pub(super) jobs: BTreeMap<JobId, JobFacts>,
    /// The names of the filter that fit a job that waited.
    pub(super) pending: BTreeSet<String>,
    /// Who held devices on nodes that do not count, and which; only if jobs or users are named.
    pub(super) elsewhere: BTreeMap<Holder, BTreeSet<NodeName>>,
    pub(super) commands: BTreeMap<HeldCommand, f64>,
}

impl UsageCollector {
    pub(super) fn new(scope: ReportScope) -> Self {
        Self { holders: HolderSums::new(scope.filter.clone()), scope, ..Self::default() }
    }

    /// Takes a change of a recording.
    pub(super) fn on_change(&mut self, line: &FoldedLine<'_>) {
        match &line.change {
            FoldedChange::Node(node) => self.on_node(line.at, node),
            FoldedChange::Roster(names, jobs) => {
                self.on_roster(line.file, line.at, names);
                self.on_jobs(line.at, jobs.as_ref());
            }
        }
    }

    fn on_roster(&mut self, file: usize, at: Timestamp, listed: &[NodeName]) {
        self.note_names(listed);
        let names: Vec<NodeName> =
            listed.iter().filter(|name| self.scope.filter.has_node(name)).cloned().collect();
        let known = self.rosters.get(&file).map(|(_, known)| known.as_slice());
        if known == Some(&*names) {
            return;
        }
        let gone: Vec<NodeName> = known
            .unwrap_or_default()
            .iter()
            .filter(|name| !names.contains(name))
            .cloned()
            .collect();
        self.close_roster(file, at);
        self.rosters.insert(file, (at, names.clone()));
        let Self { scope, rosters, nodes, holders, commands, .. } = self;
        for name in &names {
            nodes.entry(name.clone()).or_default().is_listed = true;
        }
        for name in gone {
            let is_listed = rosters.values().any(|(_, names)| names.contains(&name));
            if let Some(record) = nodes.get_mut(&name).filter(|_| !is_listed) {
                record.is_listed = false;
                record.close(at, &mut UsageSums { scope, holders, commands, node: &name });
            }
        }
    }

    fn note_names(&mut self, names: &[NodeName]) {
        let new = names.iter().filter(|name| !self.known_nodes.contains(*name));
        let new: Vec<NodeName> = new.cloned().collect();
        self.known_nodes.extend(new);
    }

    /// Returns the id of a holder's job as users know it.
    pub(super) fn shown_id<'a>(&'a self, holder: &'a Holder) -> Option<&'a str> {
        let id = holder.job.as_ref()?;
        Some(self.jobs.get(id).map_or(id.as_str(), |facts| &facts.shown_id))
    }

    /// Adds the time in which the nodes of a file were listed.
    fn close_roster(&mut self, file: usize, at: Timestamp) {
        let Some((since, names)) = self.rosters.remove(&file) else { return };
        let mut listed = TimeIntervals::default();
        listed.push(since.max(self.scope.from), at.min(self.scope.to));
        let Some(spans) = self.scope.spans_by_file.get(file) else { return };
        let listed = spans.intersection(&listed);
        for name in names {
            self.nodes.entry(name).or_default().listed.extend(&listed);
        }
    }

    fn on_jobs(&mut self, at: Timestamp, jobs: Option<&Arc<JobList>>) {
        self.placing.set_jobs(jobs);
        if let Some(jobs) = jobs {
            let running = jobs.with_nodes().filter(|job| job.state != JobState::Pending);
            let listed = running.map(|job| job.id.clone());
            self.holders.listed.update(at, &listed.collect());
        }
        let listed = jobs.iter().flat_map(|list| &list.jobs);
        for job in listed.filter(|job| job.state != JobState::Pending) {
            if !self.jobs.contains_key(&job.id) {
                self.holders.note_shown_id(&job.id, &job.shown_id);
                self.jobs.insert(
                    job.id.clone(),
                    JobFacts {
                        shown_id: Arc::clone(&job.shown_id),
                        name: Arc::clone(&job.name),
                        user: Arc::clone(&job.user),
                        partition: Arc::clone(&job.partition),
                        nodes: job.allocations.iter().map(|one| one.node.clone()).collect(),
                    },
                );
            }
        }
        for job in jobs.iter().flat_map(|list| list.pending()) {
            let named = self.scope.filter.jobs.iter().filter(|given| {
                is_named(given, Some(&job.id), Some(&job.shown_id))
                    || job.lists_task(given) == Some(true)
            });
            self.pending.extend(named.cloned());
        }
    }

    /// Notes who holds devices of a node that does not count.
    fn note_elsewhere(&mut self, node: &Arc<Node>) {
        if !self.scope.filter.is_of_holders() {
            return;
        }
        let mut placed = Arc::clone(node);
        self.placing.place(&mut placed);
        for device in &placed.devices {
            for claim in placed.holdings.device(&device.uuid).holders() {
                if let Some(nodes) = self.elsewhere.get_mut(&claim.holder) {
                    nodes.insert(node.name.clone());
                } else if self.elsewhere.len() < MAX_ELSEWHERE {
                    self.elsewhere.insert(claim.holder.clone(), [node.name.clone()].into());
                }
            }
        }
    }

    fn on_node(&mut self, at: Timestamp, node: &Arc<Node>) {
        self.placing.note_name(node);
        if !self.scope.filter.has_node(&node.name) {
            self.note_elsewhere(node);
            return;
        }
        if !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), CollectedNode::default());
        }
        self.find_machine(at, node);
        let mut placed = Arc::clone(node);
        self.placing.place(&mut placed);
        let node = &*placed;
        let Self { scope, placing, nodes, holders, commands, .. } = self;
        let Some(record) = nodes.get_mut(&node.name) else { return };
        let mut sums = UsageSums { scope, holders, commands, node: &node.name };
        record.on_link(at, node, &mut sums);
        record.note_blindness(at, node, sums.scope);
        if record.elsewhere.is_now() {
            return;
        }
        let is_counted = record.note_sample(at, node, sums.scope);
        record.note_source_fault(at, node, sums.scope);
        record.on_events(node, sums.scope);
        if record.has_new_sample(node) {
            record.holders.refresh(node, placing.jobs(), sums.holders, sums.scope.has_commands);
        }
        record.on_devices(at, node, &mut sums);
        record.samples += u64::from(is_counted && record.is_held(sums.holders));
    }

    /// Finds out whether the node counts, or its machine under another name.
    fn find_machine(&mut self, at: Timestamp, node: &Node) {
        let Self { scope, nodes, machines, holders, commands, .. } = self;
        if !nodes.get_mut(&node.name).is_some_and(|record| record.elsewhere.may_change(node)) {
            return;
        }
        let found = machines.name_of(node, |name| {
            nodes.get(name).is_some_and(|record| record.is_listed && record.down_since.is_none())
        });
        let (counted, other) = match &found {
            MachineName::Own => (&node.name, None),
            MachineName::OwnNow(before) => (&node.name, Some(before)),
            MachineName::Other(counted) => (counted, Some(&node.name)),
        };
        if let Some(record) = nodes.get_mut(counted) {
            record.elsewhere.end(at, (scope.from, scope.to));
        }
        if let Some((name, record)) = other.and_then(|name| Some((name, nodes.get_mut(name)?))) {
            let mut sums = UsageSums { scope, holders, commands, node: name };
            record.count_elsewhere(at, counted, &mut sums);
        }
    }

    /// Takes a row of a log: values of a device that hold until its next row.
    pub(super) fn on_row(
        &mut self,
        (name, index): (&NodeName, u32),
        at: Timestamp,
        interval: Duration,
        values: DeviceValues,
    ) {
        self.note_names(std::slice::from_ref(name));
        if !self.scope.filter.has_node(name) {
            return;
        }
        let Self { scope, nodes, holders, commands, .. } = self;
        if !nodes.contains_key(name) {
            let mut record = CollectedNode { interval, ..CollectedNode::default() };
            record.listed.push(scope.from, scope.to);
            nodes.insert(name.clone(), record);
        }
        let Some(record) = nodes.get_mut(name) else { return };
        // Rows of one sample have one time.
        record.samples += u64::from(record.sampled_at != Some(at));
        record.sampled_at = Some(at);
        let CollectedNode { devices, parts, .. } = record;
        let known = devices.iter().position(|device| device.index == Some(index));
        let position = known.unwrap_or(devices.len());
        if known.is_none() {
            let uuid = format!("{}{index}", Device::INDEX_PREFIX);
            let mut device = DeviceRecord::new(uuid.into());
            device.index = Some(index);
            devices.push(device);
        }
        let Some(device) = devices.get_mut(position) else { return };
        device.close(at, parts, &mut UsageSums { scope, holders, commands, node: name });
        device.present_since.get_or_insert(at);
        let until = at.plus(stale_after(interval));
        device.held = Some(HeldValues { from: at, until, values, holder: CachedHolder::default() });
    }

    /// Ends the span: what holds is added up to its end.
    pub(super) fn finish(&mut self) {
        let files: Vec<usize> = self.rosters.keys().copied().collect();
        for file in files {
            self.close_roster(file, self.scope.to);
        }
        let Self { scope, nodes, holders, commands, .. } = self;
        for (name, record) in nodes {
            let mut sums = UsageSums { scope, holders, commands, node: name };
            record.finish(&mut sums);
        }
    }

    /// Adds what was not seen before the first values of devices, and after their last ones.
    pub(super) fn add_unseen(&mut self, scope: &ReportScope) {
        let Self { nodes, holders, .. } = self;
        for (name, node) in nodes {
            node.add_unseen(scope, (name, holders));
        }
    }

    /// Adds what a collector of another span has collected.
    pub(super) fn merge(&mut self, other: Self) {
        let numbers: Vec<usize> = other
            .holders
            .records
            .iter()
            .map(|record| self.holders.number(&record.holder, other.shown_id(&record.holder)))
            .collect();
        self.holders.listed.merge(other.holders.listed);
        for (number, more) in numbers.iter().zip(other.holders.records) {
            let Some(record) = self.holders.records.get_mut(*number) else { continue };
            record.is_counted |= more.is_counted;
            record.unsure_seconds += more.unsure_seconds;
            record.unseen_seconds += more.unseen_seconds;
            record.usage += &more.usage;
            record.series.merge(&more.series);
            record.nodes.extend(more.nodes);
            record.devices.extend(more.devices);
            if let Some((first, last)) = more.span {
                record.extend_span(first, last);
            }
        }
        for (name, more) in other.nodes {
            let Self { nodes, scope, holders, .. } = self;
            nodes.entry(name).or_default().merge(more, &numbers, (scope, holders));
        }
        self.known_nodes.extend(other.known_nodes);
        self.jobs.extend(other.jobs);
        self.pending.extend(other.pending);
        for (holder, nodes) in other.elsewhere {
            self.elsewhere.entry(holder).or_default().extend(nodes);
        }
        for (command, seconds) in other.commands {
            *self.commands.entry(command).or_default() += seconds;
        }
    }
}
