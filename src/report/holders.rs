//! Who held devices, numbered, and what counts of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::report::filter::ReportFilter;
use gtop_collect::sums::{HeldSums, HolderSet, JobListings, SpanSums, StepSeries, TimeIntervals};
use gtop_fleet::Holder;
use gtop_fleet::usage::DeviceUsage;
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Pairs of users and jobs that are kept apart; those that come later are added up under one name.
const MAX_HOLDERS: usize = 20_000;

/// Who held devices, numbered in the order in which they were found.
#[derive(Debug)]
pub(super) struct HolderSums<'a> {
    filter: &'a ReportFilter,
    sums: &'a SpanSums,
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
    /// What it has counts.
    pub(super) is_counted: bool,
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
    /// The share of the device that counts.
    pub(super) share: f64,
    pub(super) holders: Vec<NumberedHolder>,
}

/// A holder of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedHolder {
    pub(super) number: usize,
    /// It is proved that it holds the device.
    pub(super) is_certain: bool,
}

/// A device of a node, by the name of the node and its UUID.
pub(super) type DevicePlace<'a> = (&'a NodeName, &'a Arc<str>);

impl<'a> HolderSums<'a> {
    pub(super) fn new(filter: &'a ReportFilter, sums: &'a SpanSums) -> Self {
        Self { filter, sums, numbers: BTreeMap::new(), records: Vec::new(), assumed_seconds: 0.0 }
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
            is_counted: self.filter.has_holder(holder, self.shown_id(holder)),
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

    /// Returns true if all devices count, not only those of some holders.
    pub(super) fn counts_all(&self) -> bool {
        !self.filter.is_of_holders()
    }

    /// Returns a group of holders with the share of a device that counts.
    pub(super) fn count(&mut self, set: &'a HolderSet) -> CountedSet {
        let mut holders: Vec<NumberedHolder> = Vec::with_capacity(set.len());
        for (holder, is_certain) in set.iter() {
            let number = self.number(holder);
            match holders.iter_mut().find(|known| known.number == number) {
                Some(known) => known.is_certain |= is_certain,
                None => holders.push(NumberedHolder { number, is_certain: *is_certain }),
            }
        }
        self.with_share(holders)
    }

    fn with_share(&self, holders: Vec<NumberedHolder>) -> CountedSet {
        let mut set = CountedSet { share: 1.0, holders };
        if !self.counts_all() {
            let records = set.holders.iter().filter_map(|holder| self.records.get(holder.number));
            let counted = records.filter(|record| record.is_counted).count();
            set.share = number_of(counted) / set.count();
        }
        set
    }

    /// Adds what a device did while a group held it.
    pub(super) fn add_held(
        &mut self,
        set: &CountedSet,
        (held, series): (&HeldSums, &StepSeries),
        place: DevicePlace<'_>,
    ) {
        let part = 1.0 / set.count();
        for NumberedHolder { number, is_certain } in &set.holders {
            let record = self.records.get_mut(*number);
            let Some(record) = record.filter(|record| record.is_counted) else { continue };
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
        for holder in &set.holders {
            let record = self.records.get_mut(holder.number);
            if let Some(record) = record.filter(|record| record.is_counted) {
                record.extend_span(span);
            }
        }
    }

    /// Adds energy in joules that the counter of a device shows beyond what was seen, to those who held it before and after.
    pub(super) fn add_unseen_energy(&mut self, [before, after]: [&CountedSet; 2], joules: f64) {
        for holder in before.holders.iter().filter(|holder| after.has(holder)) {
            let record = self.records.get_mut(holder.number);
            if let Some(record) = record.filter(|record| record.is_counted) {
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
        let only_after = after.holders.iter().filter(|holder| !before.has(holder));
        for holder in before.holders.iter().chain(only_after) {
            let listings = self.listings();
            let record = self.records.get_mut(holder.number);
            let Some(record) = record.filter(|record| record.is_counted) else { continue };
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
        self.with_share(holders.copied().collect())
    }

    /// Returns true if what a holder runs counts.
    pub(super) fn counts(&self, holder: &Holder) -> bool {
        let number = self.numbers.get(holder);
        let record = number.and_then(|number| self.records.get(*number));
        self.counts_all() || record.is_some_and(|record| record.is_counted)
    }
}

/// Returns the id of a holder's job as users know it.
pub(super) fn shown_id<'a>(sums: &'a SpanSums, holder: &'a Holder) -> Option<&'a str> {
    let id = holder.job.as_ref()?;
    Some(sums.jobs.get(id).map_or(id.as_str(), |facts| &facts.shown_id))
}

impl CountedSet {
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
