//! Who held devices, numbered, and what counts of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::report::filter::{CountedPart, ReportFilter};
use gtop_collect::sums::{
    HeldSums, HolderSet, JobFacts, JobListings, SpanSums, StepSeries, TimeIntervals,
};
use gtop_fleet::usage::DeviceUsage;
use gtop_fleet::{Holder, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, Job, JobId, NodeName};

/// Pairs of users and jobs that are kept apart; those that come later are added up under one name.
const MAX_HOLDERS: usize = 20_000;

/// Who held devices, numbered in the order in which they were found.
#[derive(Debug)]
pub(super) struct HolderSums<'a> {
    filter: &'a ReportFilter,
    sums: &'a SpanSums,
    /// The listed jobs, if the filter may read them.
    jobs: BTreeMap<&'a JobId, Job>,
    numbers: BTreeMap<Holder, usize>,
    pub(super) records: Vec<HolderRecord>,
    /// Seconds before the first values of devices, counted to those who held them then, which is assumed.
    pub(super) assumed_seconds: f64,
}

/// What a user or a job of theirs did.
#[derive(Debug)]
pub(super) struct HolderRecord {
    pub(super) holder: Holder,
    /// Of devices that several hold, an equal part.
    pub(super) usage: DeviceUsage,
    pub(super) series: StepSeries,
    /// Seconds of `usage` in which it is not certain that it held the device.
    pub(super) unsure_seconds: f64,
    /// Seconds in which its devices were not seen, although it held them before and after.
    pub(super) unseen_seconds: f64,
    /// The first and the last time.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    pub(super) nodes: BTreeSet<NodeName>,
    /// The devices, by node and UUID.
    pub(super) devices: BTreeSet<(NodeName, Arc<str>)>,
}

/// A group of holders, which have equal parts of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct CountedSet {
    /// The whole device counts, whoever of them does.
    is_whole: bool,
    pub(super) holders: Vec<NumberedHolder>,
}

/// A holder of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedHolder {
    pub(super) number: usize,
    /// It is proved that it holds the device.
    pub(super) is_certain: bool,
    /// What it has of the device counts.
    pub(super) is_counted: bool,
}

/// A device as filters read it, with its node, and what counts of it.
#[derive(Debug)]
pub(super) struct CountedPlace<'b> {
    pub(super) node: &'b Node,
    pub(super) device: Device,
    pub(super) part: CountedPart,
}

/// A device of a node, by the name of the node and its UUID.
pub(super) type DevicePlace<'a> = (&'a NodeName, &'a Arc<str>);

impl<'a> HolderSums<'a> {
    pub(super) fn new(filter: &'a ReportFilter, sums: &'a SpanSums) -> Self {
        let jobs = sums.jobs.iter().filter(|_| !filter.matching.is_empty());
        Self {
            filter,
            sums,
            jobs: jobs.map(|(id, facts)| (id, listed_job(id, facts))).collect(),
            numbers: BTreeMap::new(),
            records: Vec::new(),
            assumed_seconds: 0.0,
        }
    }

    /// Returns when jobs were listed.
    pub(super) fn listings(&self) -> &'a JobListings {
        &self.sums.listings
    }

    /// Returns the id of a holder's job as users know it.
    pub(super) fn shown_id(&self, holder: &'a Holder) -> Option<&'a str> {
        shown_id(self.sums, holder)
    }

    /// Returns the number of a holder.
    fn number(&mut self, holder: &'a Holder) -> usize {
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
            unsure_seconds: 0.0,
            unseen_seconds: 0.0,
            usage: DeviceUsage::default(),
            series: StepSeries::default(),
            span: None,
            nodes: BTreeSet::new(),
            devices: BTreeSet::new(),
        });
        number
    }

    /// Returns a group of holders of a device with the share of it that counts.
    pub(super) fn count(&mut self, set: &'a HolderSet, place: &CountedPlace<'_>) -> CountedSet {
        let matching = self.matching(set, place);
        let mut holders: Vec<NumberedHolder> = Vec::with_capacity(set.len());
        for ((holder, is_certain), is_matching) in set.iter().zip(&matching) {
            let number = self.number(holder);
            let is_counted = *is_matching && self.filter.has_holder(holder, self.shown_id(holder));
            match holders.iter_mut().find(|known| known.number == number) {
                Some(known) => {
                    known.is_certain |= is_certain;
                    known.is_counted |= is_counted;
                }
                None => {
                    holders.push(NumberedHolder { number, is_certain: *is_certain, is_counted });
                }
            }
        }
        let is_free_and_counted =
            set.is_empty() && !self.filter.names_holders() && matching.contains(&true);
        CountedSet { is_whole: place.part == CountedPart::All || is_free_and_counted, holders }
    }

    /// Returns which holders of a device match; if it has none, whether the device does.
    fn matching(&self, set: &HolderSet, place: &CountedPlace<'_>) -> Vec<bool> {
        if self.filter.matching.is_empty() {
            return vec![true; set.len().max(1)];
        }
        let holders = set
            .iter()
            .map(|(holder, _)| (holder, holder.job.as_ref().and_then(|job| self.jobs.get(job))));
        let holders: Vec<_> = holders.collect();
        self.filter.matching.match_holders((place.node, &place.device), &holders)
    }

    /// Adds what a device did while a group held it.
    pub(super) fn add_held(
        &mut self,
        set: &CountedSet,
        (held, series): (&HeldSums, &StepSeries),
        place: DevicePlace<'_>,
    ) {
        let part = 1.0 / set.count();
        for NumberedHolder { number, is_certain, .. } in set.counted() {
            let Some(record) = self.records.get_mut(*number) else { continue };
            record.usage.add_part(&held.usage, part);
            if !is_certain {
                record.unsure_seconds += held.usage.seconds() * part;
            }
            if record.holder.job.is_some() {
                record.series.merge(series, part);
            }
            record.note_place(place);
        }
    }

    /// Notes when a group held a device.
    pub(super) fn note_span(&mut self, set: &CountedSet, span: (Timestamp, Timestamp)) {
        for holder in set.counted() {
            if let Some(record) = self.records.get_mut(holder.number) {
                record.extend_span(span);
            }
        }
    }

    /// Adds energy in joules that the counter of a device shows beyond what was seen, to those who held it before and after.
    pub(super) fn add_unseen_energy(&mut self, [before, after]: [&CountedSet; 2], joules: f64) {
        for holder in before.counted().filter(|holder| after.has(holder)) {
            if let Some(record) = self.records.get_mut(holder.number) {
                record.usage.add_energy(Some(joules / before.count()));
            }
        }
    }

    /// Adds time in which a device was not seen to those that held it before and after. Each has an equal part of the device.
    ///
    /// A job that held it only before or after has the part of the time in which the scheduler listed it. Returns these
    /// parts, with the share of the device.
    pub(super) fn add_unseen(
        &mut self,
        [before, after]: [&CountedSet; 2],
        unseen: &TimeIntervals,
        place: DevicePlace<'_>,
    ) -> Vec<(TimeIntervals, f64)> {
        let mut parts = Vec::new();
        let only_after = after.counted().filter(|holder| !before.has(holder));
        for holder in before.counted().chain(only_after) {
            let listings = self.listings();
            let Some(record) = self.records.get_mut(holder.number) else { continue };
            let is_before = before.has(holder);
            let count = if is_before { before.count() } else { after.count() };
            if is_before && after.has(holder) {
                record.add_unseen(unseen, count, place);
                continue;
            }
            let job_and_gap = record.holder.job.as_ref().zip(unseen.bounds());
            let held = job_and_gap.and_then(|(job, gap)| listings.held_part(job, gap, is_before));
            if let Some(held) = held {
                let part = unseen.intersection(&TimeIntervals::new(vec![held]));
                record.add_unseen(&part, count, place);
                parts.push((part, 1.0 / count));
            }
        }
        parts
    }

    /// Returns those holders of a device whose jobs the scheduler still lists.
    pub(super) fn still_listed(&self, set: &CountedSet) -> CountedSet {
        let holders = set.holders.iter().filter(|holder| {
            let record = self.records.get(holder.number);
            let job = record.and_then(|record| record.holder.job.as_ref());
            job.is_some_and(|job| self.listings().is_listed(job))
        });
        let holders: Vec<NumberedHolder> = holders.copied().collect();
        CountedSet { is_whole: set.is_whole && !holders.is_empty(), holders }
    }

    /// Returns true if what a holder runs on a node counts.
    pub(super) fn counts_on(&self, holder: &Holder, node: &NodeName) -> bool {
        let number = self.numbers.get(holder);
        let record = number.and_then(|number| self.records.get(*number));
        self.filter.is_empty() || record.is_some_and(|record| record.nodes.contains(node))
    }
}

/// Returns a job with what is known of it.
fn listed_job(id: &JobId, facts: &JobFacts) -> Job {
    Job {
        shown_id: Arc::clone(&facts.shown_id),
        name: Arc::clone(&facts.name),
        user: Arc::clone(&facts.user),
        partition: Arc::clone(&facts.partition),
        ..Job::unlisted(id.clone())
    }
}

/// Returns the id of a holder's job as users know it.
pub(super) fn shown_id<'a>(sums: &'a SpanSums, holder: &'a Holder) -> Option<&'a str> {
    let id = holder.job.as_ref()?;
    Some(sums.jobs.get(id).map_or(id.as_str(), |facts| &facts.shown_id))
}

impl CountedSet {
    /// Returns the share of the device that counts.
    pub(super) fn share(&self) -> f64 {
        if self.is_whole { 1.0 } else { number_of(self.counted().count()) / self.count() }
    }

    /// Returns those whose parts count.
    pub(super) fn counted(&self) -> impl Iterator<Item = &NumberedHolder> {
        self.holders.iter().filter(|holder| holder.is_counted)
    }

    fn has(&self, holder: &NumberedHolder) -> bool {
        self.holders.iter().any(|known| known.number == holder.number)
    }

    /// Returns the number of holders, at least 1.
    fn count(&self) -> f64 {
        number_of(self.holders.len().max(1))
    }
}

fn number_of(count: usize) -> f64 {
    f64::from(u16::try_from(count).unwrap_or(u16::MAX))
}

impl HolderRecord {
    /// Adds time in which a device, of which it has one of `count` parts, was not seen.
    fn add_unseen(&mut self, unseen: &TimeIntervals, count: f64, place: DevicePlace<'_>) {
        self.unseen_seconds += unseen.seconds() / count;
        if let Some(span) = unseen.bounds() {
            self.extend_span(span);
            self.note_place(place);
        }
    }

    fn note_place(&mut self, (node, uuid): DevicePlace<'_>) {
        if !self.nodes.contains(node) {
            self.nodes.insert(node.clone());
        }
        self.devices.insert((node.clone(), Arc::clone(uuid)));
    }

    fn extend_span(&mut self, (from, to): (Timestamp, Timestamp)) {
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
    }
}
