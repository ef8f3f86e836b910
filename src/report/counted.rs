//! What counts of what was added up: all of it, or what some jobs and users held.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::report::held_time::HeldTime;
use crate::report::holders::{CountedSet, HolderSums};
use crate::report::scope::ReportScope;
use gtop_collect::sums::{
    DeviceSums, NodeSums, PartSeries, SeenReason, SpanSums, StepSeries, TimeIntervals,
};
use gtop_fleet::usage::DeviceUsage;
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

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
    pub(super) devices: Vec<DeviceRecord<'a>>,
    pub(super) parts: PartSeries,
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
    /// When it was held by those that count.
    pub(super) held_time: HeldTime,
}

impl<'a> CountedSums<'a> {
    /// Counts what the filter names.
    pub(super) fn new(sums: &'a SpanSums, scope: &'a ReportScope) -> Self {
        let mut holders = HolderSums::new(&scope.filter, sums);
        let nodes = sums.nodes.iter().filter(|(name, _)| scope.filter.has_node(name));
        let nodes =
            nodes.map(|(name, node)| (name, CountedNode::new(name, node, scope, &mut holders)));
        let nodes = nodes.collect();
        Self { sums, nodes, holders }
    }
}

impl<'a> CountedNode<'a> {
    fn new(
        name: &'a NodeName,
        node: &'a NodeSums,
        scope: &ReportScope,
        holders: &mut HolderSums<'a>,
    ) -> Self {
        let sets: Vec<CountedSet> = node.sets.iter().map(|set| holders.count(set)).collect();
        let is_held = |set: &usize| sets.get(*set).is_some_and(|set| set.share > 0.0);
        let samples = node
            .samples
            .iter()
            .filter(|(held, _)| holders.counts_all() || held.iter().any(is_held));
        let samples = samples.map(|(_, count)| count).sum();
        let blind = node.blind_times();
        let mut parts = PartSeries::default();
        for (set, series) in &node.parts {
            let share = sets.get(*set).map_or(0.0, |set| set.share);
            if share > 0.0 {
                parts.merge(series, share);
            }
        }
        let listed = node.listed.union().intersection(&scope.counted_times());
        let watched = listed.difference(&node.elsewhere.union());
        let counting =
            DeviceCounting { name, sets: &sets, watched: &watched, blind: &blind, scope };
        let devices = node.devices.iter().map(|device| counting.device(device, holders)).collect();
        Self { sums: node, watched, samples, devices, parts }
    }
}

/// What is known where the devices of a node are counted.
struct DeviceCounting<'b> {
    name: &'b NodeName,
    sets: &'b [CountedSet],
    watched: &'b TimeIntervals,
    /// When its devices were waited for.
    blind: &'b TimeIntervals,
    scope: &'b ReportScope,
}

impl DeviceCounting<'_> {
    fn device<'a>(&self, sums: &'a DeviceSums, holders: &mut HolderSums<'a>) -> DeviceRecord<'a> {
        let mut device = DeviceRecord {
            sums,
            usage: DeviceUsage::default(),
            series: StepSeries::default(),
            present: sums.present.clone(),
            reasons: BTreeMap::new(),
            by_holder: BTreeMap::new(),
            held_time: HeldTime::default(),
        };
        for (set, held) in &sums.held {
            let Some(set) = self.sets.get(*set).filter(|set| set.share > 0.0) else { continue };
            device.reasons.extend(held.reasons.iter().map(|(id, reason)| (&**id, reason)));
            device.usage.add_part(&held.usage, set.share);
            if held.usage.seconds() <= 0.0 {
                continue;
            }
            device.series.merge(&held.series, set.share);
            holders.add_held(set, (held, &held.series), (self.name, &sums.uuid));
            for holder in &set.holders {
                if holders.records.get(holder.number).is_some_and(|record| record.is_counted) {
                    *device.by_holder.entry(holder.number).or_default() += &held.usage;
                }
            }
        }
        for ((before, after), joules) in &sums.unseen_energy {
            let pair = [before, after].map(|set| self.sets.get(*set));
            if let [Some(before), Some(after)] = pair {
                device.usage.add_energy((before.share > 0.0).then_some(joules * before.share));
                holders.add_unseen_energy([before, after], *joules);
            }
        }
        self.add_times(&mut device, holders);
        device
    }

    /// Adds when it was held, and the time in which it was not seen.
    fn add_times<'a>(&self, device: &mut DeviceRecord<'a>, holders: &mut HolderSums<'a>) {
        let seen = device.sums.seen.iter();
        let seen = seen.filter_map(|span| Some((span.from, span.to, self.sets.get(span.set)?)));
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
            device.held_time.add((from, to), set.share);
            last = Some((to, set));
        }
        let Some((seen_to, before)) = last else { return };
        // It may be of a holder that still has it, as the scheduler's list shows.
        let listed = holders.still_listed(before);
        let end = self.scope.sums.to;
        let unseen = there.intersection(&TimeIntervals::new(vec![(seen_to, end)]));
        parts.extend(self.add_unseen([before, &listed], &unseen, device, holders));
        if !holders.counts_all() && listed.share > 0.0 {
            device.held_time.end(end);
        }
        if !holders.counts_all() {
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
        if !holders.counts_all() {
            device.held_time.add_unseen(&unseen, set.share);
        }
        holders.assumed_seconds += unseen.seconds() * set.share;
        holders.add_unseen([set, set], &unseen, (self.name, &device.sums.uuid));
    }
}

impl DeviceRecord<'_> {
    pub(super) fn uuid(&self) -> &Arc<str> {
        &self.sums.uuid
    }
}
