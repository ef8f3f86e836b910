//! Adds up what nodes did over a span of time, from the changes of their states.
//!
//! Values hold from one sample of a device to the next, at most for the time after which they count as stale, and not
//! beyond the loss of the connection or the end of the recording. Collectors of spans that follow each other are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::{DeviceState, EventRecord, MIN_HELD_BYTES, Node};
use crate::insight::device_fault;
use crate::insight::ownership::{AllocationIndex, Holder};
use crate::model::{Device, JobId, JobList, JobState, NodeName, Source, stale_after};
use crate::report::intervals::TimeIntervals;
use crate::report::machines::{MachineIndex, MachineName, TimeElsewhere};
use crate::report::series::{PartSeries, StepGrid, StepSeries};
use crate::report::usage::{DeviceUsage, DeviceValues, TimedMean};
use crate::source::replay::{FoldedChange, FoldedLine};
use crate::time::Timestamp;

/// Different command lines that are kept.
const MAX_COMMANDS: usize = 2_000;
/// Different errors of the devices of a node.
const MAX_ERRORS: usize = 256;
/// Pairs of users and jobs that are kept apart; those that come later are added up under one name.
const MAX_HOLDERS: usize = 20_000;

/// What is recorded, and how it is divided.
#[derive(Clone, Debug)]
pub(super) struct ReportScope {
    /// The times that count.
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) grid: StepGrid,
    /// The recorded times of each file, and of all.
    pub(super) spans_by_file: Vec<TimeIntervals>,
    pub(super) spans: TimeIntervals,
    pub(super) has_commands: bool,
}

/// What was collected.
#[derive(Debug)]
pub(super) struct UsageCollector {
    scope: ReportScope,
    allocations: AllocationIndex,
    /// Per file, the nodes that it lists, and since when.
    rosters: BTreeMap<usize, (Timestamp, Vec<NodeName>)>,
    pub(super) nodes: BTreeMap<NodeName, CollectedNode>,
    machines: MachineIndex,
    pub(super) holders: HolderIndex,
    pub(super) jobs: BTreeMap<JobId, JobFacts>,
    pub(super) commands: BTreeMap<HeldCommand, f64>,
}

/// A program, as its node, user and job have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldCommand {
    pub(super) node: NodeName,
    pub(super) holder: Holder,
    pub(super) text: Arc<str>,
}

/// What the scheduler said about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobFacts {
    pub(super) shown_id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) partition: Arc<str>,
}

/// What was collected of a node.
#[derive(Debug, Default)]
pub(super) struct CollectedNode {
    /// When it was listed, by each file for itself.
    pub(super) listed: TimeIntervals,
    pub(super) down: TimeIntervals,
    pub(super) elsewhere: TimeElsewhere,
    /// Why it was down last.
    pub(super) fault: Option<String>,
    /// Different times of samples.
    pub(super) samples: u64,
    /// The sampling interval, as last known.
    pub(super) interval: Duration,
    pub(super) devices: Vec<DeviceRecord>,
    pub(super) parts: PartSeries,
    /// When devices reported errors, by device and text.
    pub(super) errors: BTreeMap<(Arc<str>, String), BTreeSet<Timestamp>>,
    /// The events that were looked at.
    known_events: Option<Arc<[EventRecord]>>,
    sampled_at: Option<Timestamp>,
    down_since: Option<Timestamp>,
    /// A file lists it.
    is_listed: bool,
    holders: CachedHolders,
}

/// What was collected of a device.
#[derive(Debug)]
pub(super) struct DeviceRecord {
    pub(super) uuid: Arc<str>,
    pub(super) index: Option<u32>,
    pub(super) model: Option<Arc<str>>,
    /// The last fault that the driver reported for it.
    pub(super) fault: Option<String>,
    /// When it was in the node.
    pub(super) present: TimeIntervals,
    pub(super) usage: DeviceUsage,
    pub(super) series: StepSeries,
    /// Utilization under each holder, by number.
    pub(super) by_holder: BTreeMap<usize, TimedMean>,
    present_since: Option<Timestamp>,
    sampled_at: Option<Timestamp>,
    /// What was added up to now: a clock that is set back does not count a time twice.
    counted_to: Timestamp,
    held: Option<HeldValues>,
}

/// Values that hold until the next sample.
#[derive(Debug)]
struct HeldValues {
    from: Timestamp,
    until: Timestamp,
    values: DeviceValues,
    holder: CachedHolder,
}

/// The holders of each device of a node, as long as its processes and allocations stay the same.
#[derive(Debug, Default)]
struct CachedHolders {
    signature: u64,
    by_position: Vec<CachedHolder>,
}

/// The holders of one device.
#[derive(Clone, Debug, Default)]
struct CachedHolder {
    numbers: Arc<[usize]>,
    is_allocated: bool,
    commands: Arc<[HeldCommand]>,
}

/// Who held devices, numbered in the order in which they appeared.
#[derive(Debug, Default)]
pub(super) struct HolderIndex {
    numbers: BTreeMap<Holder, usize>,
    pub(super) records: Vec<HolderRecord>,
}

/// What was collected of a user or a job of theirs.
#[derive(Debug)]
pub(super) struct HolderRecord {
    pub(super) holder: Holder,
    /// Of devices that several hold, an equal part.
    pub(super) usage: DeviceUsage,
    pub(super) series: StepSeries,
    /// The first and the last time.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    pub(super) nodes: BTreeSet<NodeName>,
    /// The devices, by node and UUID.
    pub(super) devices: BTreeSet<(NodeName, Arc<str>)>,
}

impl HolderIndex {
    /// Returns the number of a holder.
    fn number(&mut self, holder: &Holder) -> usize {
        if let Some(number) = self.numbers.get(holder) {
            return *number;
        }
        if self.records.len() >= MAX_HOLDERS {
            return self.records.len() - 1;
        }
        let number = self.records.len();
        self.numbers.insert(holder.clone(), number);
        self.records.push(HolderRecord {
            holder: holder.clone(),
            usage: DeviceUsage::default(),
            series: StepSeries::default(),
            span: None,
            nodes: BTreeSet::new(),
            devices: BTreeSet::new(),
        });
        number
    }
}

impl UsageCollector {
    pub(super) fn new(scope: ReportScope) -> Self {
        Self {
            scope,
            allocations: AllocationIndex::default(),
            rosters: BTreeMap::new(),
            nodes: BTreeMap::new(),
            machines: MachineIndex::default(),
            holders: HolderIndex::default(),
            jobs: BTreeMap::new(),
            commands: BTreeMap::new(),
        }
    }

    /// Takes a change of a recording.
    pub(super) fn on_change(&mut self, line: &FoldedLine<'_>) {
        match &line.change {
            FoldedChange::Node(node) => self.on_node(line.at, node),
            FoldedChange::Roster(names, jobs) => {
                self.on_roster(line.file, line.at, names);
                self.on_jobs(jobs.as_ref());
            }
        }
    }

    fn on_roster(&mut self, file: usize, at: Timestamp, names: &[NodeName]) {
        let known = self.rosters.get(&file).map(|(_, known)| known.as_slice());
        if known == Some(names) {
            return;
        }
        let gone: Vec<NodeName> = known
            .unwrap_or_default()
            .iter()
            .filter(|name| !names.contains(name))
            .cloned()
            .collect();
        self.close_roster(file, at);
        self.rosters.insert(file, (at, names.to_vec()));
        let Self { scope, rosters, nodes, holders, commands, .. } = self;
        for name in names {
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

    fn on_jobs(&mut self, jobs: Option<&Arc<JobList>>) {
        self.allocations.refresh(jobs);
        let listed = jobs.iter().flat_map(|list| &list.jobs);
        for job in listed.filter(|job| job.state != JobState::Pending) {
            if !self.jobs.contains_key(&job.id) {
                self.jobs.insert(
                    job.id.clone(),
                    JobFacts {
                        shown_id: Arc::clone(&job.shown_id),
                        name: Arc::clone(&job.name),
                        user: Arc::clone(&job.user),
                        partition: Arc::clone(&job.partition),
                    },
                );
            }
        }
    }

    fn on_node(&mut self, at: Timestamp, node: &Node) {
        if !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), CollectedNode::default());
        }
        self.find_machine(at, node);
        let Self { scope, allocations, nodes, holders, commands, .. } = self;
        let Some(record) = nodes.get_mut(&node.name) else { return };
        let mut sums = UsageSums { scope, holders, commands, node: &node.name };
        record.on_link(at, node, &mut sums);
        if record.elsewhere.is_now() {
            return;
        }
        record.count_sample(at, node, sums.scope);
        record.on_events(node, sums.scope);
        if record.has_new_sample(node) {
            record.holders.refresh(node, allocations, sums.holders, sums.scope.has_commands);
        }
        record.on_devices(at, node, &mut sums);
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
            devices.push(DeviceRecord { index: Some(index), ..DeviceRecord::new(uuid.into()) });
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

    /// Adds what a collector of another span has collected.
    pub(super) fn merge(&mut self, other: Self) {
        let numbers: Vec<usize> = other
            .holders
            .records
            .iter()
            .map(|record| self.holders.number(&record.holder))
            .collect();
        for (number, more) in numbers.iter().zip(other.holders.records) {
            let Some(record) = self.holders.records.get_mut(*number) else { continue };
            record.usage += &more.usage;
            record.series.merge(&more.series);
            record.nodes.extend(more.nodes);
            record.devices.extend(more.devices);
            if let Some((first, last)) = more.span {
                record.extend_span(first, last);
            }
        }
        for (name, more) in other.nodes {
            self.nodes.entry(name).or_default().merge(more, &numbers);
        }
        self.jobs.extend(other.jobs);
        for (command, seconds) in other.commands {
            *self.commands.entry(command).or_default() += seconds;
        }
    }
}

/// Where values of a node are added.
struct UsageSums<'a> {
    scope: &'a ReportScope,
    holders: &'a mut HolderIndex,
    commands: &'a mut BTreeMap<HeldCommand, f64>,
    node: &'a NodeName,
}

impl HolderRecord {
    fn extend_span(&mut self, from: Timestamp, to: Timestamp) {
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
    }
}

impl CollectedNode {
    /// Follows the connection: values do not hold beyond its loss.
    fn on_link(&mut self, at: Timestamp, node: &Node, sums: &mut UsageSums<'_>) {
        let Some(fault) = node.fault() else {
            if let Some(since) = self.down_since.take() {
                self.down.push(since.max(sums.scope.from), at.min(sums.scope.to));
            }
            return;
        };
        self.down_since.get_or_insert(at);
        self.fault = Some(fault.message());
        self.close(at, sums);
    }

    /// Adds what has held until now.
    fn close(&mut self, at: Timestamp, sums: &mut UsageSums<'_>) {
        for device in &mut self.devices {
            device.close(at, &mut self.parts, sums);
        }
    }

    /// From now on, its machine counts under another name.
    fn count_elsewhere(&mut self, at: Timestamp, other: &NodeName, sums: &mut UsageSums<'_>) {
        if self.elsewhere.begin(at, other) {
            self.close(at, sums);
            self.devices.iter_mut().for_each(|device| device.leave(at, sums.scope));
        }
    }

    /// Counts the samples of the host that were recorded in the span, each once.
    fn count_sample(&mut self, at: Timestamp, node: &Node, scope: &ReportScope) {
        let Some(host) = node.source(&Source::host()) else { return };
        self.interval = host.interval;
        if host.taken_at == self.sampled_at {
            return;
        }
        self.sampled_at = host.taken_at;
        self.samples += u64::from(at >= scope.from && at < scope.to);
    }

    fn on_events(&mut self, node: &Node, scope: &ReportScope) {
        if self.known_events.as_ref().is_some_and(|known| Arc::ptr_eq(known, &node.events)) {
            return;
        }
        self.known_events = Some(Arc::clone(&node.events));
        let is_counted = |event: &&EventRecord| (scope.from..=scope.to).contains(&event.event.at);
        for EventRecord { event, .. } in node.events.iter().filter(is_counted) {
            let key = (Arc::clone(&event.device), event.text());
            if self.errors.len() < MAX_ERRORS || self.errors.contains_key(&key) {
                self.errors.entry(key).or_default().insert(event.at.whole_seconds());
            }
        }
    }

    fn has_new_sample(&self, node: &Node) -> bool {
        node.whole_devices().enumerate().any(|(number, (position, _))| {
            let known = self.devices.get(number).and_then(|device| device.sampled_at);
            taken_at(node, position).is_some_and(|(at, _)| Some(at) != known)
        })
    }

    fn on_devices(&mut self, at: Timestamp, node: &Node, sums: &mut UsageSums<'_>) {
        let is_same = |devices: &[DeviceRecord]| {
            let mut known = devices.iter();
            node.whole_devices()
                .all(|(_, device)| known.next().is_some_and(|record| record.uuid == device.uuid))
        };
        if !is_same(&self.devices) {
            self.sort_devices(node);
        }
        let present = node.whole_devices().count();
        let Self { devices, parts, holders, elsewhere, .. } = self;
        for device in devices.iter_mut().skip(present) {
            device.close(at, parts, sums);
            device.leave(at, sums.scope);
        }
        for (record, (position, device)) in devices.iter_mut().zip(node.whole_devices()) {
            let Some((taken_at, interval)) = taken_at(node, position) else { continue };
            if Some(taken_at) == record.sampled_at {
                continue;
            }
            record.close(taken_at, parts, sums);
            record.sampled_at = Some(taken_at);
            record.present_since.get_or_insert(taken_at.max(elsewhere.ended_at));
            record.index = device.index.get().or(record.index);
            if record.model.is_none() {
                record.model = device.name.known().cloned();
            }
            if let Some(fault) = &device.fault {
                record.fault = Some(device_fault(fault));
            }
            if node.fault().is_some() {
                continue;
            }
            let Some(end) = sums.scope.spans.end_of(taken_at) else { continue };
            let known = holders.by_position.get(position).cloned().unwrap_or_default();
            let values = values_of(node, position, device, known.is_allocated);
            let is_free = values.state == DeviceState::Free;
            record.held = Some(HeldValues {
                from: taken_at.max(elsewhere.ended_at),
                until: taken_at.plus(stale_after(interval)).min(end),
                values,
                holder: if is_free { CachedHolder::default() } else { known },
            });
        }
    }

    /// Puts the devices of the node first, in its order; those that are gone stay behind them.
    fn sort_devices(&mut self, node: &Node) {
        let mut rest = std::mem::take(&mut self.devices);
        for (_, device) in node.whole_devices() {
            let known = rest.iter().position(|record| record.uuid == device.uuid);
            let record = known.map(|position| rest.remove(position));
            self.devices
                .push(record.unwrap_or_else(|| DeviceRecord::new(Arc::clone(&device.uuid))));
        }
        self.devices.append(&mut rest);
    }

    fn finish(&mut self, sums: &mut UsageSums<'_>) {
        let to = sums.scope.to;
        if let Some(since) = self.down_since {
            self.down.push(since.max(sums.scope.from), to);
        }
        self.elsewhere.end(to, (sums.scope.from, to));
        for device in &mut self.devices {
            device.close(to, &mut self.parts, sums);
            device.leave(to, sums.scope);
        }
    }

    fn merge(&mut self, other: Self, numbers: &[usize]) {
        self.listed.extend(&other.listed);
        self.down.extend(&other.down);
        self.elsewhere.merge(other.elsewhere);
        self.fault = other.fault.or(self.fault.take());
        self.samples += other.samples;
        self.interval = self.interval.max(other.interval);
        self.parts.merge(&other.parts);
        for (key, times) in other.errors {
            self.errors.entry(key).or_default().extend(times);
        }
        for more in other.devices {
            if let Some(known) = self.devices.iter_mut().find(|known| known.uuid == more.uuid) {
                known.merge(more, numbers);
            } else {
                let mut device = DeviceRecord::new(Arc::clone(&more.uuid));
                device.merge(more, numbers);
                self.devices.push(device);
            }
        }
    }
}

impl DeviceRecord {
    fn new(uuid: Arc<str>) -> Self {
        Self {
            uuid,
            index: None,
            model: None,
            fault: None,
            present: TimeIntervals::default(),
            usage: DeviceUsage::default(),
            series: StepSeries::default(),
            by_holder: BTreeMap::new(),
            present_since: None,
            sampled_at: None,
            counted_to: Timestamp::default(),
            held: None,
        }
    }

    /// Adds what has held until now.
    fn close(&mut self, at: Timestamp, parts: &mut PartSeries, sums: &mut UsageSums<'_>) {
        let Some(held) = self.held.take() else { return };
        let scope = sums.scope;
        let from = held.from.max(scope.from).max(self.counted_to);
        let span = (from, at.min(held.until).min(scope.to));
        if span.1 <= span.0 {
            return;
        }
        self.counted_to = span.1;
        let seconds = span.1.since(span.0).as_secs_f64();
        self.usage.add(&held.values, seconds);
        self.series.add(scope.grid, span, &held.values, 1.0);
        parts.add(scope.grid, span, &held.values);
        let count = u16::try_from(held.holder.numbers.len()).unwrap_or(u16::MAX).max(1);
        for number in held.holder.numbers.iter() {
            let Some(record) = sums.holders.records.get_mut(*number) else { continue };
            record.usage.add(&held.values, seconds / f64::from(count));
            record.extend_span(span.0, span.1);
            if record.holder.job.is_some() {
                record.series.add(scope.grid, span, &held.values, f32::from(count));
            }
            let of_holder = self.by_holder.entry(*number).or_insert_with(|| {
                record.nodes.insert(sums.node.clone());
                record.devices.insert((sums.node.clone(), Arc::clone(&self.uuid)));
                TimedMean::default()
            });
            if let Some(percent) = held.values.utilization {
                of_holder.add(f64::from(percent), seconds);
            }
        }
        for command in held.holder.commands.iter() {
            if let Some(known) = sums.commands.get_mut(command) {
                *known += seconds;
            } else if sums.commands.len() < MAX_COMMANDS {
                sums.commands.insert(command.clone(), seconds);
            }
        }
    }

    /// Ends its time in the node.
    fn leave(&mut self, at: Timestamp, scope: &ReportScope) {
        if let Some(since) = self.present_since.take() {
            self.present.push(since.max(scope.from), at.min(scope.to));
        }
    }

    fn merge(&mut self, other: Self, numbers: &[usize]) {
        self.index = other.index.or(self.index);
        self.model = other.model.or(self.model.take());
        self.fault = other.fault.or(self.fault.take());
        self.present.extend(&other.present);
        self.usage += &other.usage;
        self.series.merge(&other.series);
        for (number, mean) in other.by_holder {
            if let Some(number) = numbers.get(number) {
                *self.by_holder.entry(*number).or_default() += mean;
            }
        }
    }
}

impl CachedHolders {
    /// Finds the holders again if processes, allocations or devices have changed.
    fn refresh(
        &mut self,
        node: &Node,
        allocations: &AllocationIndex,
        holders: &mut HolderIndex,
        has_commands: bool,
    ) {
        let signature = signature(node, allocations);
        if signature == self.signature && self.by_position.len() == node.devices.len() {
            return;
        }
        self.signature = signature;
        let commands = if has_commands { commands_of(node, allocations) } else { Vec::new() };
        let cached = allocations.holders(node).into_iter().enumerate().map(|(position, known)| {
            let numbers = known.holders.iter().map(|holder| holders.number(holder)).collect();
            let commands = commands.get(position).map(|all| Arc::from(&**all)).unwrap_or_default();
            CachedHolder { numbers, is_allocated: known.is_allocated, commands }
        });
        self.by_position = cached.collect();
    }
}

/// Returns a number that changes when the holders of the node's devices may have changed.
fn signature(node: &Node, allocations: &AllocationIndex) -> u64 {
    let mut hasher = DefaultHasher::new();
    allocations.generation().hash(&mut hasher);
    for device in &node.devices {
        device.uuid.hash(&mut hasher);
    }
    for used in node.uses.iter() {
        let memory = used.memory.get().map(|memory| memory.0 / MIN_HELD_BYTES);
        (used.pid, &used.device, memory).hash(&mut hasher);
    }
    for process in node.processes.iter() {
        (process.key.pid, Arc::as_ptr(&process.statics) as usize).hash(&mut hasher);
    }
    node.unseen.len().hash(&mut hasher);
    hasher.finish()
}

/// Returns the command lines on each device of a node.
fn commands_of(node: &Node, allocations: &AllocationIndex) -> Vec<Vec<HeldCommand>> {
    let mut commands = vec![Vec::new(); node.devices.len()];
    for (position, holder, used) in allocations.uses(node) {
        let statics = node.statics_of(used.pid);
        let text = statics.and_then(|statics| statics.command.known()).cloned();
        if let (Some(text), Some(of_device)) = (text, commands.get_mut(position)) {
            of_device.push(HeldCommand { node: node.name.clone(), holder, text });
        }
    }
    commands
}

/// Returns when the device at this position was sampled, and how often it is.
fn taken_at(node: &Node, position: usize) -> Option<(Timestamp, Duration)> {
    let state = node.source(node.device_sources.get(position)?)?;
    Some((state.taken_at?, state.interval))
}

fn values_of(node: &Node, position: usize, device: &Device, is_allocated: bool) -> DeviceValues {
    let state = DeviceState::of(node, position, device, is_allocated);
    let is_known = device.fault.is_none();
    let throttle = device.throttle.get().filter(|_| is_known).unwrap_or_default();
    let memory = device.memory_used.get().zip(device.memory_total.get());
    #[expect(clippy::cast_precision_loss, reason = "sums over time have rounding anyway")]
    let memory = memory.map(|(used, total)| (used.0 as f64, total.0 as f64));
    DeviceValues {
        state,
        utilization: device.utilization.get().map(crate::model::Percent::get).filter(|_| is_known),
        memory: memory.filter(|_| is_known),
        power: device.power.get().map(crate::model::Watts::get).filter(|_| is_known),
        temperature: device.temperature.get().map(crate::model::Celsius::get).filter(|_| is_known),
        is_throttled: throttle.is_thermal()
            || throttle.is_power_brake()
            || throttle.is_hardware_slowdown(),
    }
}
