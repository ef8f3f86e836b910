//! A node that is being watched: what holds of it now, and what it did until now.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use crate::sums::held::{DeviceSums, SeenReason};
use crate::sums::machines::OtherName;
use crate::sums::scope::SumScope;
use crate::sums::{DeviceError, HeldCommand, HolderSet, MAX_COMMANDS, MAX_ERRORS, NodeSums};
use gtop_fleet::usage::DeviceValues;
use gtop_fleet::{
    Certainty, EventRecord, Holder, JobLookup, LastState, Node, NodeHoldings, advice,
};
use gtop_local::time::Timestamp;
use gtop_model::{Device, EventKind, Link, Source, SourceFaultKind, stale_after};

/// Times at which shares of jobs are read are no further apart, unless some are missing.
const MAX_SHARES_SPAN: Duration = Duration::from_secs(60);

/// Seconds on devices of each command line.
pub(super) type CommandSums = BTreeMap<HeldCommand, f64>;

/// A node that is being watched.
#[derive(Debug, Default)]
pub(super) struct WatchedNode {
    /// A file lists it.
    pub(super) is_listed: bool,
    pub(super) down_since: Option<Timestamp>,
    pub(super) other_name: OtherName,
    /// What it did until now; that of its devices is with them.
    pub(super) sums: NodeSums,
    blind_since: Option<Timestamp>,
    sampled_at: Option<Timestamp>,
    source_fault: Option<(Source, SourceFaultKind)>,
    /// When the shares of jobs were read last.
    shares_at: Option<Timestamp>,
    /// The events that were looked at.
    known_events: Option<Arc<[EventRecord]>>,
    holders: HolderCache,
    /// In the order of the node; those that are gone stay behind them.
    devices: Vec<WatchedDevice>,
}

/// A device that is being watched.
#[derive(Debug, Default)]
struct WatchedDevice {
    present_since: Option<Timestamp>,
    sampled_at: Option<Timestamp>,
    /// What was added up to now: a clock that is set back does not count a time twice.
    counted_to: Timestamp,
    held: Option<HeldValues>,
    sums: DeviceSums,
}

/// Values that hold until the next sample.
#[derive(Clone, Debug)]
struct HeldValues {
    from: Timestamp,
    until: Timestamp,
    values: DeviceValues,
    holder: CachedHolder,
}

/// The holders of each device of a node, as long as its processes and allocations stay the same.
#[derive(Debug, Default)]
struct HolderCache {
    /// Of which holders it was made.
    holdings: Option<Arc<NodeHoldings>>,
    /// Changes with the programs that run.
    signature: u64,
    by_position: Vec<CachedHolder>,
}

/// The holders of one device, and what they run on it.
#[derive(Clone, Debug, Default)]
struct CachedHolder {
    set: HolderSet,
    commands: Arc<[HeldCommand]>,
}

impl WatchedNode {
    /// Follows the connection: values do not hold beyond its loss.
    pub(super) fn on_link(
        &mut self,
        at: Timestamp,
        node: &Node,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) {
        let Some(fault) = node.fault() else {
            if let Some(since) = self.down_since.take() {
                self.sums.down.push(since.max(scope.from), at.min(scope.to));
            }
            return;
        };
        self.down_since.get_or_insert(at);
        self.sums.fault = Some(fault.message());
        self.close(at, (scope, commands));
    }

    /// Notes whether its devices are waited for.
    pub(super) fn note_blindness(&mut self, at: Timestamp, node: &Node, scope: &SumScope) {
        let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
        let is_waiting = node.link == Link::Up
            && node.units().next().is_none()
            && backends.any(|backend| backend.source != Source::host() && backend.absent.is_none());
        if is_waiting {
            self.blind_since.get_or_insert(at);
        } else if let Some(since) = self.blind_since.take() {
            self.sums.blind.push(since.max(scope.from), at.min(scope.to));
        }
    }

    /// Adds what has held until now.
    pub(super) fn close(&mut self, at: Timestamp, to: (&SumScope, &mut CommandSums)) {
        let (scope, commands) = to;
        for device in &mut self.devices {
            device.close(at, &mut self.sums, (scope, &mut *commands));
        }
    }

    /// From now on, its machine counts under another name.
    pub(super) fn count_elsewhere(
        &mut self,
        at: Timestamp,
        other: &gtop_model::NodeName,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) {
        if self.other_name.begin(at) {
            self.sums.other_name = Some(other.clone());
            self.close(at, (scope, commands));
            self.devices.iter_mut().for_each(|device| device.leave(at, scope));
        }
    }

    /// Its machine counts under its own name again.
    pub(super) fn end_elsewhere(&mut self, at: Timestamp, scope: &SumScope) {
        if let Some(since) = self.other_name.end(at) {
            self.sums.elsewhere.push(since.max(scope.from), at.min(scope.to));
        }
    }

    /// Takes the values of a state of the node.
    pub(super) fn on_values(
        &mut self,
        at: Timestamp,
        node: &Node,
        jobs: &JobLookup,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) {
        let is_counted = self.note_sample(at, node, scope);
        self.note_source_fault(at, node, scope);
        self.on_events(node, scope);
        if self.has_new_sample(node) {
            self.holders.refresh(node, jobs, scope.has_commands);
        }
        self.on_devices(at, node, (scope, commands));
        self.on_shares(node, jobs, scope);
        if is_counted {
            self.count_sample();
        }
    }

    /// Returns true if there is a new sample of the host, recorded in the span.
    fn note_sample(&mut self, at: Timestamp, node: &Node, scope: &SumScope) -> bool {
        let Some(host) = node.source(&Source::host()) else { return false };
        self.sums.interval = host.interval;
        if host.taken_at == self.sampled_at {
            return false;
        }
        self.sampled_at = host.taken_at;
        // The checkpoint at the start repeats samples of before.
        let is_repeated = host.taken_at.is_some_and(|taken_at| taken_at < scope.from);
        at >= scope.from && at < scope.to && !is_repeated
    }

    /// Counts a sample for those who hold its devices now.
    fn count_sample(&mut self) {
        let Self { devices, sums, .. } = self;
        let held = devices.iter().filter_map(|device| device.held.as_ref());
        let mut sets: Vec<usize> = held.map(|held| sums.number_of(&held.holder.set)).collect();
        sets.sort_unstable();
        sets.dedup();
        match sums.samples.get_mut(&*sets) {
            Some(count) => *count += 1,
            None => {
                sums.samples.insert(sets.into(), 1);
            }
        }
    }

    /// Notes why its devices give no values.
    fn note_source_fault(&mut self, at: Timestamp, node: &Node, scope: &SumScope) {
        let of_host = [Source::host(), Source::host_slow()];
        let mut states = node
            .sources
            .iter()
            .filter(|state| !of_host.contains(&state.source) && !state.source.is_processes());
        let fault = states.find_map(|state| {
            let fault = state.fault.as_ref().filter(|fault| fault.is_problem())?;
            Some((state.source.clone(), fault.kind))
        });
        let Some((source, kind)) = fault.clone().filter(|_| (scope.from..scope.to).contains(&at))
        else {
            return;
        };
        if self.source_fault != fault || self.sums.source_fault.is_none() {
            let remedy = advice::source::of_source(kind);
            self.sums.source_fault = Some((kind.text(&source, None), remedy.into()));
            self.source_fault = fault;
        }
    }

    fn on_events(&mut self, node: &Node, scope: &SumScope) {
        if self.known_events.as_ref().is_some_and(|known| Arc::ptr_eq(known, &node.events)) {
            return;
        }
        let known = self.known_events.replace(Arc::clone(&node.events)).unwrap_or_default();
        let errors = &mut self.sums.errors;
        for record in node.events.iter() {
            let event = &record.event;
            if !is_error(&event.kind) || !(scope.from..=scope.to).contains(&event.at) {
                continue;
            }
            let count = match known.iter().find(|known| known.event.is_same_event(event)) {
                Some(before) => record.count.saturating_sub(before.count),
                None if record.first_at >= scope.from => record.count,
                None => event.count,
            };
            let key = DeviceError {
                device: Arc::clone(&event.device),
                text: event.text(),
                xid: event.code.filter(|_| event.kind == EventKind::Xid),
            };
            if count > 0 && (errors.len() < MAX_ERRORS || errors.contains_key(&key)) {
                let seconds = errors.entry(key).or_default();
                let second = seconds.entry(event.at.whole_seconds()).or_default();
                *second = second.saturating_add(count);
            }
        }
    }

    /// Adds what jobs have used of the host since this was read last.
    fn on_shares(&mut self, node: &Node, jobs: &JobLookup, scope: &SumScope) {
        let Some(shares) = node.shares.as_deref() else { return };
        if self.shares_at >= Some(shares.at) {
            return;
        }
        let before = self.shares_at.replace(shares.at);
        if !(scope.from..scope.to).contains(&shares.at) {
            return;
        }
        // A part that begins between two readings has all of what was used since the first.
        let is_first = scope.from == scope.begins;
        let before = before.map(|before| if is_first { before.max(scope.from) } else { before });
        let span = before.map(|before| shares.at.since(before));
        let seconds = span.filter(|span| *span <= MAX_SHARES_SPAN).map(|span| span.as_secs_f64());
        for (id, share) in &shares.jobs {
            let id = jobs.job(id).map_or(id, |job| &job.id);
            let sums = self.sums.shares.entry(id.clone()).or_default();
            if let (Some(cpus), Some(seconds)) = (share.cpus_used.get(), seconds) {
                sums.cpus.add(f64::from(cpus), seconds);
            }
            sums.max_memory = sums.max_memory.max(share.memory_used.get());
        }
    }

    fn has_new_sample(&self, node: &Node) -> bool {
        node.units().enumerate().any(|(number, (position, _))| {
            let known = self.devices.get(number).and_then(|device| device.sampled_at);
            taken_at(node, position).is_some_and(|(at, _)| Some(at) != known)
        })
    }

    fn on_devices(
        &mut self,
        at: Timestamp,
        node: &Node,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) {
        let mut known = self.devices.iter();
        let are_known = node
            .units()
            .all(|(_, device)| known.next().is_some_and(|known| known.sums.uuid == device.uuid));
        if !are_known {
            self.sort_devices(node);
        }
        let present = node.units().count();
        let Self { devices, sums, holders, other_name, .. } = self;
        for device in devices.iter_mut().skip(present) {
            device.close(at, sums, (scope, &mut *commands));
            device.leave(at, scope);
        }
        for (watched, (position, device)) in devices.iter_mut().zip(node.units()) {
            let Some((taken_at, interval)) = taken_at(node, position) else { continue };
            if Some(taken_at) == watched.sampled_at {
                continue;
            }
            watched.close(taken_at, sums, (scope, &mut *commands));
            watched.sampled_at = Some(taken_at);
            watched.present_since.get_or_insert(taken_at.max(other_name.ended_at));
            watched.note_facts(taken_at, node, device);
            let values = DeviceValues::of(node, position, device);
            let holder = holders.by_position.get(position).cloned().unwrap_or_default();
            let holder =
                if values.state == LastState::Free { CachedHolder::default() } else { holder };
            let end = scope.recorded.end_of(taken_at).filter(|_| node.fault().is_none());
            let until = end.map_or(taken_at, |end| taken_at.plus(stale_after(interval)).min(end));
            watched.on_sample((taken_at, until), sums.number_of(&holder.set), node, device, scope);
            if end.is_some() {
                let from = taken_at.max(other_name.ended_at);
                watched.held = Some(HeldValues { from, until, values, holder });
            }
        }
    }

    /// Puts the devices of the node first, in its order.
    fn sort_devices(&mut self, node: &Node) {
        let mut rest = std::mem::take(&mut self.devices);
        for (_, device) in node.units() {
            let known = rest.iter().position(|watched| watched.sums.uuid == device.uuid);
            let watched = known.map(|position| rest.remove(position));
            self.devices.push(watched.unwrap_or_else(|| WatchedDevice::new(&device.uuid)));
        }
        self.devices.append(&mut rest);
    }

    /// Takes a row of a log: values of a device that hold until its next row.
    pub(super) fn on_row(
        &mut self,
        index: u32,
        (at, interval): (Timestamp, Duration),
        values: DeviceValues,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) {
        self.sums.interval = interval;
        // Rows of one sample have one time.
        let is_new = self.sampled_at != Some(at);
        self.sampled_at = Some(at);
        let known = self.devices.iter().position(|device| device.sums.index == Some(index));
        let position = known.unwrap_or_else(|| {
            let uuid = format!("{}{index}", Device::INDEX_PREFIX);
            let mut device = WatchedDevice::new(&Arc::from(uuid));
            device.sums.index = Some(index);
            self.devices.push(device);
            self.devices.len() - 1
        });
        let Some(device) = self.devices.get_mut(position) else { return };
        device.close(at, &mut self.sums, (scope, commands));
        device.present_since.get_or_insert(at);
        let until = at.plus(stale_after(interval));
        device.held = Some(HeldValues { from: at, until, values, holder: CachedHolder::default() });
        if is_new {
            self.count_sample();
        }
    }

    /// Returns what it did up to a time, and begins anew there.
    pub(super) fn take(
        &mut self,
        to: Timestamp,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) -> NodeSums {
        let from = scope.from;
        for (since, times) in [
            (&mut self.down_since, &mut self.sums.down),
            (&mut self.blind_since, &mut self.sums.blind),
        ] {
            if let Some(since) = since {
                times.push((*since).max(from), to);
                *since = to.max(*since);
            }
        }
        if let Some(since) = self.other_name.restart(to) {
            self.sums.elsewhere.push(since.max(from), to);
        }
        for device in &mut self.devices {
            let held = device.held.clone();
            device.close(to, &mut self.sums, (scope, &mut *commands));
            device.held = held.filter(|held| held.until > to);
            if let Some(held) = &mut device.held {
                held.from = held.from.max(to);
            }
            if let Some(since) = &mut device.present_since {
                device.sums.present.push((*since).max(from), to);
                *since = to.max(*since);
            }
        }
        let again = NodeSums {
            interval: self.sums.interval,
            other_name: self.sums.other_name.clone(),
            ..NodeSums::default()
        };
        let mut sums = std::mem::replace(&mut self.sums, again);
        sums.devices = self.devices.iter_mut().map(WatchedDevice::take).collect();
        // A device that is gone does not come back, as a rule.
        self.devices.retain(|device| device.present_since.is_some());
        sums
    }
}

impl WatchedDevice {
    fn new(uuid: &Arc<str>) -> Self {
        Self { sums: DeviceSums::new(Arc::clone(uuid)), ..Self::default() }
    }

    fn note_facts(&mut self, taken_at: Timestamp, node: &Node, device: &Device) {
        self.sums.index = device.index.get().or(self.sums.index);
        if self.sums.model.is_none() {
            self.sums.model = device.name.known().cloned();
        }
        self.sums.last_health = Some((taken_at, node.health(device)));
    }

    /// Takes who holds it at a sample, whose values hold until a time, and the driver's counter of energy.
    fn on_sample(
        &mut self,
        (at, until): (Timestamp, Timestamp),
        set: usize,
        node: &Node,
        device: &Device,
        scope: &SumScope,
    ) {
        let reasons = node.health_reasons(device);
        if !reasons.is_empty() {
            let known = &mut self.sums.held.entry(set).or_default().reasons;
            known.extend(reasons.iter().map(|one| (Arc::from(one.id()), SeenReason::of(one))));
        }
        if at < scope.from {
            // Who held it when what is added up begins; a part of it may begin between two samples.
            if scope.from == scope.begins || until > scope.from {
                self.sums.seen.clear();
                self.sums.see((scope.from, scope.from), set);
            }
            return;
        }
        if at >= scope.to {
            return;
        }
        let counter = device.details.as_ref().and_then(|details| details.energy_millijoules.get());
        #[expect(clippy::cast_precision_loss, reason = "2^53 mJ are 285 years at 1 kW")]
        let joules = counter.map(|millijoules| millijoules as f64 / 1000.0);
        let before = self.sums.seen.last().map(|span| span.set);
        let unseen =
            joules.and_then(|joules| self.sums.energy.correction(at, joules, &scope.recorded));
        // Of a clock that was set back, what was counted before is not unseen.
        let at = at.max(self.counted_to);
        self.sums.see((at, at), set);
        if let (Some(before), Some(joules)) = (before, unseen) {
            self.sums.add_unseen_energy(before, set, joules);
        }
    }

    /// Adds what has held until now.
    fn close(
        &mut self,
        at: Timestamp,
        node: &mut NodeSums,
        (scope, commands): (&SumScope, &mut CommandSums),
    ) {
        let Some(held) = self.held.take() else { return };
        let from = held.from.max(scope.from).max(self.counted_to);
        let span = (from, at.min(held.until).min(scope.to));
        if span.1 <= span.0 {
            return;
        }
        self.counted_to = span.1;
        let seconds = span.1.since(span.0).as_secs_f64();
        let set = node.number_of(&held.holder.set);
        self.sums.see(span, set);
        let sums = self.sums.held.entry(set).or_default();
        sums.usage.add(&held.values, seconds);
        sums.series.hold(scope.grid, span, &held.values);
        self.sums.energy.add(held.values.power.map_or(0.0, |watts| f64::from(watts) * seconds));
        if scope.grid.parts > 1 {
            node.parts.entry(set).or_default().hold(scope.grid, span, &held.values);
        }
        for command in held.holder.commands.iter() {
            if let Some(known) = commands.get_mut(command) {
                *known += seconds;
            } else if commands.len() < MAX_COMMANDS {
                commands.insert(command.clone(), seconds);
            }
        }
    }

    /// Ends its time in the node.
    fn leave(&mut self, at: Timestamp, scope: &SumScope) {
        if let Some(since) = self.present_since.take() {
            self.sums.present.push(since.max(scope.from), at.min(scope.to));
        }
    }

    /// Returns what it did, and begins anew.
    fn take(&mut self) -> DeviceSums {
        let again = DeviceSums {
            index: self.sums.index,
            model: self.sums.model.clone(),
            ..DeviceSums::new(Arc::clone(&self.sums.uuid))
        };
        std::mem::replace(&mut self.sums, again)
    }
}

impl HolderCache {
    /// Finds the holders again if processes, allocations or devices have changed.
    fn refresh(&mut self, node: &Node, jobs: &JobLookup, has_commands: bool) {
        let signature = if has_commands { signature(node) } else { 0 };
        let is_same =
            self.holdings.as_ref().is_some_and(|known| Arc::ptr_eq(known, &node.holdings));
        if is_same && signature == self.signature && self.by_position.len() == node.devices.len() {
            return;
        }
        self.holdings = Some(Arc::clone(&node.holdings));
        self.signature = signature;
        let commands = if has_commands { commands_of(node, jobs) } else { Vec::new() };
        let cached = node.devices.iter().enumerate().map(|(position, device)| {
            let commands = commands.get(position).map(|all| Arc::from(&**all)).unwrap_or_default();
            CachedHolder { set: holders_of(node, &device.uuid), commands }
        });
        self.by_position = cached.collect();
    }
}

fn holders_of(node: &Node, uuid: &str) -> HolderSet {
    let mut holders: BTreeMap<Holder, bool> = BTreeMap::new();
    for claim in node.holdings.device(uuid).holders() {
        let is_certain = claim.certainty == Certainty::Certain;
        *holders.entry(claim.holder.clone()).or_default() |= is_certain;
    }
    holders.into_iter().collect()
}

/// Returns a number that changes when the programs on the node's devices may have changed.
fn signature(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    for used in node.uses.iter() {
        (used.pid, &used.device).hash(&mut hasher);
    }
    for process in node.processes.iter() {
        (process.key.pid, Arc::as_ptr(&process.statics).addr()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the command lines on each device of a node.
fn commands_of(node: &Node, jobs: &JobLookup) -> Vec<Vec<HeldCommand>> {
    let mut commands = vec![Vec::new(); node.devices.len()];
    for used in node.uses.iter() {
        let text = node.statics_of(used.pid).and_then(|statics| statics.command.known()).cloned();
        let position = node.devices.iter().position(|device| device.uuid == used.device);
        let of_device = position.and_then(|position| commands.get_mut(position));
        let (Some(user), Some(text), Some(of_device)) = (node.user_of(used), text, of_device)
        else {
            continue;
        };
        let job = node.job_of(used.pid).map(|id| jobs.job(id).map_or(id, |job| &job.id));
        let holder = Holder { user, job: job.cloned() };
        of_device.push(HeldCommand { node: node.name.clone(), holder, text });
    }
    commands
}

/// Returns false for what becomes of a device, which its health shows.
const fn is_error(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::Gone
            | EventKind::Returned
            | EventKind::Lost
            | EventKind::NeedsReset
            | EventKind::Recovery
    )
}

/// Returns when the device at this position was sampled, and how often it is.
fn taken_at(node: &Node, position: usize) -> Option<(Timestamp, Duration)> {
    let state = node.source(node.device_sources.get(position)?)?;
    Some((state.taken_at?, state.interval))
}
