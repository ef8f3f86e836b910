//! What counts of what was added up: all of it, or what some jobs and users held.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::report::filter::CountedPart;
use crate::report::held_time::HeldTime;
use crate::report::holders::{CountedPlace, CountedSet, HolderSums};
use crate::report::scope::ReportScope;
use gtop_collect::sums::{
    DeviceSums, NodeSums, PartSeries, SeenReason, SpanSums, StepSeries, TimeIntervals,
};
use gtop_fleet::Node;
use gtop_fleet::usage::DeviceUsage;
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeName, Reading};

/// What counts.
#[derive(Debug)]
pub(super) struct CountedSums<'a> {
    pub(super) sums: &'a SpanSums,
    pub(super) nodes: BTreeMap<&'a NodeName, CountedNode<'a>>,
    pub(super) holders: HolderSums<'a>,
}

/// What counts of a node.
#[derive(Debug)]
pub(super) struct CountedNode<'a> {
    pub(super) sums: &'a NodeSums,
    /// When it was watched, under this name.
    pub(super) watched: TimeIntervals,
    /// Different times of samples.
    pub(super) samples: u64,
    /// Those of which anything may count.
    pub(super) devices: Vec<DeviceRecord<'a>>,
    pub(super) parts: PartSeries,
    /// Only the time counts in which those that count held a device.
    pub(super) is_of_holders: bool,
}

/// What counts of a device.
#[derive(Debug)]
pub(super) struct DeviceRecord<'a> {
    pub(super) sums: &'a DeviceSums,
    pub(super) usage: DeviceUsage,
    pub(super) series: StepSeries,
    /// When it was in the node.
    pub(super) present: TimeIntervals,
    /// Why it was not sound, the newest of each kind.
    pub(super) reasons: BTreeMap<&'a str, &'a SeenReason>,
    /// What it did under each holder, by number.
    pub(super) by_holder: BTreeMap<usize, DeviceUsage>,
    /// It counts whoever held it.
    pub(super) is_whole: bool,
    /// When it was held by those that count.
    pub(super) held_time: HeldTime,
}

impl<'a> CountedSums<'a> {
    /// Counts what the filter names.
    pub(super) fn new(sums: &'a SpanSums, scope: &'a ReportScope) -> Self {
        let mut holders = HolderSums::new(&scope.filter, sums);
        let nodes = sums.nodes.iter().filter(|(name, _)| scope.filter.has_node(name));
        let nodes = nodes.filter_map(|(name, node)| {
            Some((name, CountedNode::new(name, node, scope, &mut holders)?))
        });
        let nodes = nodes.collect();
        Self { sums, nodes, holders }
    }

    /// Returns true if only what some jobs or users held counts.
    pub(super) fn is_of_holders(&self, scope: &ReportScope) -> bool {
        scope.filter.reads_holders() && self.nodes.values().all(|node| node.is_of_holders)
    }
}

impl<'a> CountedNode<'a> {
    /// Counts what the filter names of a node; `None` if nothing of it can count.
    fn new(
        name: &'a NodeName,
        node: &'a NodeSums,
        scope: &ReportScope,
        holders: &mut HolderSums<'a>,
    ) -> Option<Self> {
        let filtered = FilteredNode::new(name, node, scope, holders)?;
        let is_of_holders = filtered.is_of_holders;
        let samples = node
            .samples
            .iter()
            .filter(|(held, _)| !is_of_holders || held.iter().any(|set| filtered.has_set(*set)));
        let samples = samples.map(|(_, count)| count).sum();
        let listed = node.listed.union().intersection(&scope.counted_times());
        let watched = listed.difference(&node.elsewhere.union());
        let counting =
            DeviceCounting { name, watched: &watched, blind: &node.blind_times(), scope };
        let devices = filtered.devices.iter();
        let devices: Vec<_> = devices.map(|device| counting.device(device, holders)).collect();
        let parts = filtered.parts(node, &devices, scope);
        Some(Self { sums: node, watched, samples, devices, parts, is_of_holders })
    }
}

/// A node after the filter.
struct FilteredNode<'a> {
    /// The devices of which anything may count.
    devices: Vec<FilteredDevice<'a>>,
    is_of_holders: bool,
}

/// A device after the filter.
struct FilteredDevice<'a> {
    sums: &'a DeviceSums,
    is_whole: bool,
    /// The groups of holders of the node, as they count on this device.
    sets: Rc<[CountedSet]>,
}

impl<'a> FilteredNode<'a> {
    /// Returns what may count of a node; `None` if nothing can.
    fn new(
        name: &NodeName,
        sums: &'a NodeSums,
        scope: &ReportScope,
        holders: &mut HolderSums<'a>,
    ) -> Option<Self> {
        let node = &Node::new(name.clone(), Duration::ZERO);
        if sums.devices.is_empty() {
            let part = scope.filter.part_of(node, None);
            let is_of_holders = part == CountedPart::OfHolders;
            return (part != CountedPart::Nothing)
                .then(|| Self { devices: Vec::new(), is_of_holders });
        }
        let mut devices: Vec<FilteredDevice<'a>> = Vec::new();
        for sums_of_device in &sums.devices {
            let device = shown_device(sums_of_device);
            let part = scope.filter.part_of(node, Some(&device));
            if part == CountedPart::Nothing {
                continue;
            }
            let place = CountedPlace { node, device, part };
            // Only the filter can tell devices apart.
            let known = devices.last().filter(|_| scope.filter.matching.is_empty());
            let sets = match known {
                Some(known) => Rc::clone(&known.sets),
                None => sums.sets.iter().map(|set| holders.count(set, &place)).collect(),
            };
            let is_whole = part == CountedPart::All;
            devices.push(FilteredDevice { sums: sums_of_device, is_whole, sets });
        }
        let is_of_holders = !devices.iter().any(|device| device.is_whole);
        (!devices.is_empty()).then_some(Self { devices, is_of_holders })
    }

    /// Returns true if a group of holders counts on any device.
    fn has_set(&self, set: usize) -> bool {
        self.devices.iter().any(|device| device.share(set) > 0.0)
    }

    /// Returns the parts of steps. Only those of all devices together are known: if these differ in what counts, the parts of
    /// a step are equal.
    fn parts(
        &self,
        node: &NodeSums,
        records: &[DeviceRecord<'_>],
        scope: &ReportScope,
    ) -> PartSeries {
        let mut parts = PartSeries::default();
        let Some(first) = self.devices.first() else { return parts };
        let is_same = |set: &usize| {
            self.devices
                .iter()
                .all(|device| device.share(*set).to_bits() == first.share(*set).to_bits())
        };
        if self.devices.len() < node.devices.len() || !node.parts.keys().all(is_same) {
            for record in records {
                parts.merge(&record.series.equal_parts(scope.sums.grid), 1.0);
            }
            return parts;
        }
        for (set, series) in &node.parts {
            let share = first.share(*set);
            if share > 0.0 {
                parts.merge(series, share);
            }
        }
        parts
    }
}

impl FilteredDevice<'_> {
    fn share(&self, set: usize) -> f64 {
        self.sets.get(set).map_or(0.0, CountedSet::share)
    }
}

/// Returns a device as filters read it.
fn shown_device(sums: &DeviceSums) -> Device {
    let name = sums.model.clone().map_or_else(Reading::default, Reading::Known);
    Device { uuid: Arc::clone(&sums.uuid), name, ..Device::default() }
}

/// What is known where the devices of a node are counted.
struct DeviceCounting<'b> {
    name: &'b NodeName,
    watched: &'b TimeIntervals,
    /// When its devices were waited for.
    blind: &'b TimeIntervals,
    scope: &'b ReportScope,
}

impl DeviceCounting<'_> {
    fn device<'a>(
        &self,
        filtered: &FilteredDevice<'a>,
        holders: &mut HolderSums<'a>,
    ) -> DeviceRecord<'a> {
        let FilteredDevice { sums, sets, is_whole } = filtered;
        let mut device = DeviceRecord {
            sums,
            usage: DeviceUsage::default(),
            series: StepSeries::default(),
            present: sums.present.clone(),
            reasons: BTreeMap::new(),
            by_holder: BTreeMap::new(),
            is_whole: *is_whole,
            held_time: HeldTime::default(),
        };
        for (set, held) in &sums.held {
            let Some(set) = sets.get(*set).filter(|set| set.share() > 0.0) else { continue };
            device.reasons.extend(held.reasons.iter().map(|(id, reason)| (&**id, reason)));
            device.usage.add_part(&held.usage, set.share());
            if held.usage.seconds() <= 0.0 {
                continue;
            }
            device.series.merge(&held.series, set.share());
            holders.add_held(set, (held, &held.series), (self.name, &sums.uuid));
            for holder in set.counted() {
                *device.by_holder.entry(holder.number).or_default() += &held.usage;
            }
        }
        for ((before, after), joules) in &sums.unseen_energy {
            let pair = [before, after].map(|set| sets.get(*set));
            if let [Some(before), Some(after)] = pair {
                let share = before.share();
                device.usage.add_energy((share > 0.0).then_some(joules * share));
                holders.add_unseen_energy([before, after], *joules);
            }
        }
        self.add_times(&mut device, sets, holders);
        device
    }

    /// Adds when it was held, and the time in which it was not seen.
    fn add_times<'a>(
        &self,
        device: &mut DeviceRecord<'a>,
        sets: &[CountedSet],
        holders: &mut HolderSums<'a>,
    ) {
        let seen = device.sums.seen.iter();
        let seen = seen.filter_map(|span| Some((span.from, span.to, sets.get(span.set)?)));
        // What is not in the node is not unseen.
        let there = device.present.union().intersection(self.watched);
        let mut last: Option<(Timestamp, &CountedSet)> = None;
        let mut parts = Vec::new();
        for (from, to, set) in seen {
            match last {
                Some((seen_to, before)) => {
                    let unseen = there.intersection(&TimeIntervals::new(vec![(seen_to, from)]));
                    parts.extend(self.add_unseen([before, set], &unseen, device, holders));
                }
                None => self.add_blind(from, set, device, holders),
            }
            if to > from {
                holders.note_span(set, (from, to));
            }
            device.held_time.add((from, to), set.share());
            last = Some((to, set));
        }
        let Some((seen_to, before)) = last else { return };
        // It may be of a holder that still has it, as the scheduler's list shows.
        let listed = holders.still_listed(before);
        let end = self.scope.sums.to;
        let unseen = there.intersection(&TimeIntervals::new(vec![(seen_to, end)]));
        parts.extend(self.add_unseen([before, &listed], &unseen, device, holders));
        if !device.is_whole && listed.share() > 0.0 {
            device.held_time.end(end);
        }
        if !device.is_whole {
            for (part, share) in &parts {
                device.held_time.add_unseen(part, *share);
            }
        }
    }

    fn add_unseen<'a>(
        &self,
        sets: [&CountedSet; 2],
        unseen: &TimeIntervals,
        device: &DeviceRecord<'a>,
        holders: &mut HolderSums<'a>,
    ) -> Vec<(TimeIntervals, f64)> {
        if unseen.as_slice().is_empty() {
            return Vec::new();
        }
        holders.add_unseen(sets, unseen, (self.name, &device.sums.uuid))
    }

    /// Adds the times before its first values in which they were waited for: to those who held it then, from when their jobs
    /// were listed.
    fn add_blind<'a>(
        &self,
        first: Timestamp,
        set: &CountedSet,
        device: &mut DeviceRecord<'a>,
        holders: &mut HolderSums<'a>,
    ) {
        let before = TimeIntervals::new(vec![(self.scope.sums.from, first)]);
        let blind = self.scope.sums.recorded.intersection(&self.blind.intersection(&before));
        device.present.extend(&blind);
        let listings = holders.listings();
        let listed_since = set.holders.iter().filter_map(|holder| {
            let job = holders.records.get(holder.number)?.holder.job.as_ref()?;
            listings.since(job, first)
        });
        let Some(since) = listed_since.max() else { return };
        let unseen = blind.intersection(&TimeIntervals::new(vec![(since.min(first), first)]));
        if !device.is_whole {
            device.held_time.add_unseen(&unseen, set.share());
        }
        holders.assumed_seconds += unseen.seconds() * set.share();
        holders.add_unseen([set, set], &unseen, (self.name, &device.sums.uuid));
    }
}

impl DeviceRecord<'_> {
    pub(super) fn uuid(&self) -> &Arc<str> {
        &self.sums.uuid
    }
}
