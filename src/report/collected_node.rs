//! What is collected of a node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::report::device_record::{DeviceRecord, HeldValues, UsageSums};
use crate::report::holders::{CachedHolder, CachedHolders, HolderSums};
use crate::report::intervals::TimeIntervals;
use crate::report::machines::TimeElsewhere;
use crate::report::scope::ReportScope;
use crate::report::series::PartSeries;
use gtop_fleet::usage::DeviceValues;
use gtop_fleet::{EventRecord, LastState, Node};
use gtop_local::time::Timestamp;
use gtop_model::{EventKind, Link, NodeName, Source, SourceFaultKind, stale_after};

/// Different errors of the devices of a node.
const MAX_ERRORS: usize = 256;

/// An error that a device has reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceError {
    /// Its UUID.
    pub(super) device: Arc<str>,
    pub(super) text: String,
    /// The number of an Xid.
    pub(super) xid: Option<u64>,
}

/// What was collected of a node.
#[derive(Debug, Default)]
pub(super) struct CollectedNode {
    /// When it was listed, by each file for itself.
    pub(super) listed: TimeIntervals,
    pub(super) down: TimeIntervals,
    /// When it was connected and none of its devices was seen yet, although its probe reads some.
    pub(super) blind: TimeIntervals,
    pub(super) elsewhere: TimeElsewhere,
    /// Why it was down last.
    pub(super) fault: Option<String>,
    /// Why a source of its devices gave no values, at last.
    pub(super) source_fault: Option<(Source, SourceFaultKind)>,
    /// Different times of samples.
    pub(super) samples: u64,
    /// The sampling interval, as last known.
    pub(super) interval: Duration,
    pub(super) devices: Vec<DeviceRecord>,
    pub(super) parts: PartSeries,
    /// How often devices reported errors in each second.
    pub(super) errors: BTreeMap<DeviceError, BTreeMap<Timestamp, u64>>,
    /// The events that were looked at.
    pub(super) known_events: Option<Arc<[EventRecord]>>,
    pub(super) sampled_at: Option<Timestamp>,
    pub(super) down_since: Option<Timestamp>,
    pub(super) blind_since: Option<Timestamp>,
    /// A file lists it.
    pub(super) is_listed: bool,
    pub(super) holders: CachedHolders,
}

impl CollectedNode {
    /// Follows the connection: values do not hold beyond its loss.
    pub(super) fn on_link(&mut self, at: Timestamp, node: &Node, sums: &mut UsageSums<'_>) {
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

    /// Notes whether its devices are waited for.
    pub(super) fn note_blindness(&mut self, at: Timestamp, node: &Node, scope: &ReportScope) {
        let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
        let is_waiting = node.link == Link::Up
            && node.units().next().is_none()
            && backends.any(|backend| backend.source != Source::host() && backend.absent.is_none());
        if is_waiting {
            self.blind_since.get_or_insert(at);
        } else if let Some(since) = self.blind_since.take() {
            self.blind.push(since.max(scope.from), at.min(scope.to));
        }
    }

    /// Returns the times in which its devices were waited for longer than for their first values.
    pub(super) fn blind_times(&self) -> TimeIntervals {
        let usual = stale_after(self.interval);
        let all = self.blind.union();
        let long = all.as_slice().iter().filter(|(from, to)| to.since(*from) > usual);
        TimeIntervals::new(long.copied().collect())
    }

    /// Adds what was not seen of its devices: before the first values, and at the end to the jobs that are listed then.
    pub(super) fn add_unseen(
        &mut self,
        scope: &ReportScope,
        (name, holders): (&NodeName, &mut HolderSums),
    ) {
        let blind = self.blind_times();
        for device in &mut self.devices {
            device.add_blind(&blind, scope, (name, holders));
            device.end_unseen(scope, (name, holders));
        }
    }

    /// Adds what has held until now.
    pub(super) fn close(&mut self, at: Timestamp, sums: &mut UsageSums<'_>) {
        for device in &mut self.devices {
            device.close(at, &mut self.parts, sums);
        }
    }

    /// From now on, its machine counts under another name.
    pub(super) fn count_elsewhere(
        &mut self,
        at: Timestamp,
        other: &NodeName,
        sums: &mut UsageSums<'_>,
    ) {
        if self.elsewhere.begin(at, other) {
            self.close(at, sums);
            self.devices.iter_mut().for_each(|device| device.leave(at, sums.scope));
        }
    }

    /// Returns true if there is a new sample of the host, recorded in the span.
    pub(super) fn note_sample(&mut self, at: Timestamp, node: &Node, scope: &ReportScope) -> bool {
        let Some(host) = node.source(&Source::host()) else { return false };
        self.interval = host.interval;
        if host.taken_at == self.sampled_at {
            return false;
        }
        self.sampled_at = host.taken_at;
        // The checkpoint at the start repeats samples of before.
        let is_repeated = host.taken_at.is_some_and(|taken_at| taken_at < scope.from);
        at >= scope.from && at < scope.to && !is_repeated
    }

    /// Returns true if those that count hold any of its devices now, or if all counts.
    pub(super) fn is_held(&self, holders: &HolderSums) -> bool {
        let held = self.devices.iter().filter_map(|device| device.held.as_ref());
        holders.counts_all()
            || held.map(|held| holders.share(&held.holder)).any(|share| share > 0.0)
    }

    /// Notes why its devices give no values.
    pub(super) fn note_source_fault(&mut self, at: Timestamp, node: &Node, scope: &ReportScope) {
        let of_host = [Source::host(), Source::host_slow()];
        let mut states = node
            .sources
            .iter()
            .filter(|state| !of_host.contains(&state.source) && !state.source.is_processes());
        let fault = states.find_map(|state| {
            let fault = state.fault.as_ref().filter(|fault| fault.is_problem())?;
            Some((state.source.clone(), fault.kind))
        });
        if (scope.from..scope.to).contains(&at) {
            self.source_fault = fault.or(self.source_fault.take());
        }
    }

    pub(super) fn on_events(&mut self, node: &Node, scope: &ReportScope) {
        if self.known_events.as_ref().is_some_and(|known| Arc::ptr_eq(known, &node.events)) {
            return;
        }
        let known = self.known_events.replace(Arc::clone(&node.events)).unwrap_or_default();
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
            if count > 0 && (self.errors.len() < MAX_ERRORS || self.errors.contains_key(&key)) {
                let seconds = self.errors.entry(key).or_default();
                let second = seconds.entry(event.at.whole_seconds()).or_default();
                *second = second.saturating_add(count);
            }
        }
    }

    pub(super) fn has_new_sample(&self, node: &Node) -> bool {
        node.units().enumerate().any(|(number, (position, _))| {
            let known = self.devices.get(number).and_then(|device| device.sampled_at);
            taken_at(node, position).is_some_and(|(at, _)| Some(at) != known)
        })
    }

    pub(super) fn on_devices(&mut self, at: Timestamp, node: &Node, sums: &mut UsageSums<'_>) {
        let mut known = self.devices.iter();
        let are_known = node
            .units()
            .all(|(_, device)| known.next().is_some_and(|record| record.uuid == device.uuid));
        if !are_known {
            self.sort_devices(node);
        }
        let present = node.units().count();
        let Self { devices, parts, holders, elsewhere, .. } = self;
        for device in devices.iter_mut().skip(present) {
            device.close(at, parts, sums);
            device.leave(at, sums.scope);
        }
        for (record, (position, device)) in devices.iter_mut().zip(node.units()) {
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
            let known = holders.by_position.get(position).cloned().unwrap_or_default();
            record.last_health = Some((taken_at, node.health(device)));
            let energy =
                device.details.as_ref().and_then(|details| details.energy_millijoules.get());
            #[expect(clippy::cast_precision_loss, reason = "2^53 mJ are 285 years at 1 kW")]
            let joules = energy.map(|millijoules| millijoules as f64 / 1000.0);
            let end = sums.scope.spans.end_of(taken_at).filter(|_| node.fault().is_none());
            let until = end.map_or(taken_at, |end| taken_at.plus(stale_after(interval)).min(end));
            record.on_sample((taken_at, until), &known, joules, sums);
            let is_counted = sums.holders.share(&known) > 0.0;
            let reasons = if is_counted { node.health_reasons(device) } else { &[] };
            let reasons = reasons.iter().map(|reason| (reason.id(), reason.clone()));
            record.health_reasons.extend(reasons);
            if end.is_none() {
                continue;
            }
            let values = DeviceValues::of(node, position, device);
            let is_free = values.state == LastState::Free;
            record.held = Some(HeldValues {
                from: taken_at.max(elsewhere.ended_at),
                until,
                values,
                holder: if is_free { CachedHolder::default() } else { known },
            });
        }
    }

    /// Puts the devices of the node first, in its order; those that are gone stay behind them.
    pub(super) fn sort_devices(&mut self, node: &Node) {
        let mut rest = std::mem::take(&mut self.devices);
        for (_, device) in node.units() {
            let known = rest.iter().position(|record| record.uuid == device.uuid);
            let record = known.map(|position| rest.remove(position));
            self.devices
                .push(record.unwrap_or_else(|| DeviceRecord::new(Arc::clone(&device.uuid))));
        }
        self.devices.append(&mut rest);
    }

    pub(super) fn finish(&mut self, sums: &mut UsageSums<'_>) {
        let to = sums.scope.to;
        if let Some(since) = self.down_since {
            self.down.push(since.max(sums.scope.from), to);
        }
        if let Some(since) = self.blind_since {
            self.blind.push(since.max(sums.scope.from), to);
        }
        self.elsewhere.end(to, (sums.scope.from, to));
        for device in &mut self.devices {
            device.close(to, &mut self.parts, sums);
            device.leave(to, sums.scope);
        }
    }

    pub(super) fn merge(
        &mut self,
        other: Self,
        numbers: &[usize],
        (scope, holders): (&ReportScope, &mut HolderSums),
    ) {
        self.source_fault = other.source_fault.or(self.source_fault.take());
        self.listed.extend(&other.listed);
        self.down.extend(&other.down);
        self.blind.extend(&other.blind);
        self.elsewhere.merge(other.elsewhere);
        self.fault = other.fault.or(self.fault.take());
        self.samples += other.samples;
        self.interval = self.interval.max(other.interval);
        self.parts.merge(&other.parts);
        // Two recordings of a node have the same errors.
        for (key, seconds) in other.errors {
            let known = self.errors.entry(key).or_default();
            for (second, count) in seconds {
                known.entry(second).and_modify(|known| *known = count.max(*known)).or_insert(count);
            }
        }
        for more in other.devices {
            if let Some(known) = self.devices.iter_mut().find(|known| known.uuid == more.uuid) {
                known.merge(more, numbers, (scope, &mut *holders));
            } else {
                let mut device = DeviceRecord::new(Arc::clone(&more.uuid));
                device.merge(more, numbers, (scope, &mut *holders));
                self.devices.push(device);
            }
        }
    }
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
