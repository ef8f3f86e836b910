//! What is collected of a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::report::energy::EnergyMeter;
use crate::report::held_time::HeldTime;
use crate::report::holders::{CachedHolder, HeldCommand, HolderSums, NumberedHolder};
use crate::report::intervals::TimeIntervals;
use crate::report::scope::ReportScope;
use crate::report::series::{PartSeries, StepSeries};
use gtop_fleet::usage::{DeviceUsage, DeviceValues, TimedMean};
use gtop_fleet::{Health, HealthReason};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Different command lines that are kept.
const MAX_COMMANDS: usize = 2_000;

/// What was collected of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceRecord {
    pub(super) uuid: Arc<str>,
    pub(super) index: Option<u32>,
    pub(super) model: Option<Arc<str>>,
    /// Why it was not sound, the newest of each kind.
    pub(super) health_reasons: BTreeMap<&'static str, HealthReason>,
    /// How sound it was at last, and when.
    pub(super) last_health: Option<(Timestamp, Health)>,
    /// When it was in the node.
    pub(super) present: TimeIntervals,
    pub(super) usage: DeviceUsage,
    pub(super) series: StepSeries,
    /// Utilization under each holder, by number.
    pub(super) by_holder: BTreeMap<usize, TimedMean>,
    /// When it was held by those that count.
    pub(super) held_time: HeldTime,
    pub(super) present_since: Option<Timestamp>,
    pub(super) sampled_at: Option<Timestamp>,
    /// What was added up to now: a clock that is set back does not count a time twice.
    pub(super) counted_to: Timestamp,
    pub(super) held: Option<HeldValues>,
    energy: EnergyMeter,
    /// Who held it first, and since when.
    first_held: Option<(Timestamp, CachedHolder)>,
    /// Who held it when it was last seen, and until when that was counted.
    last_held: Option<(Timestamp, CachedHolder)>,
}

/// Values that hold until the next sample.
#[derive(Debug)]
pub(super) struct HeldValues {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) values: DeviceValues,
    pub(super) holder: CachedHolder,
}

/// Where values of a node are added.
pub(super) struct UsageSums<'a> {
    pub(super) scope: &'a ReportScope,
    pub(super) holders: &'a mut HolderSums,
    pub(super) commands: &'a mut BTreeMap<HeldCommand, f64>,
    pub(super) node: &'a NodeName,
}

impl DeviceRecord {
    pub(super) fn new(uuid: Arc<str>) -> Self {
        Self { uuid, ..Self::default() }
    }

    /// Takes who holds it at a sample, whose values hold until a time, and the driver's counter of energy in joules. What was
    /// not seen since the sample before is time of those who held it before and hold it now.
    pub(super) fn on_sample(
        &mut self,
        (at, until): (Timestamp, Timestamp),
        holder: &CachedHolder,
        joules: Option<f64>,
        sums: &mut UsageSums<'_>,
    ) {
        let scope = sums.scope;
        if at < scope.from {
            let before = Some((scope.from, holder.clone()));
            if scope.from == scope.begins {
                // Who held it when what is reported begins.
                self.last_held = before;
                if scope.filter.is_of_holders() {
                    self.held_time = HeldTime::default();
                    self.held_time.add((scope.from, scope.from), sums.holders.share(holder));
                }
            } else if until > scope.from {
                // A part begins between two samples: it is seen in between.
                (self.first_held, self.last_held) = (before.clone(), before);
            }
            return;
        }
        if at >= scope.to {
            return;
        }
        self.first_held.get_or_insert_with(|| (at, holder.clone()));
        // Of a clock that was set back, what was counted before is not unseen.
        let before = self.last_held.replace((at.max(self.counted_to), holder.clone()));
        let correction = joules.and_then(|joules| self.energy.correction(at, joules, &scope.spans));
        let Some((seen_to, before)) = before else { return };
        let share = sums.holders.share(&before);
        self.usage.add_energy(correction.map(|joules| joules * share));
        let unseen = scope.recorded((seen_to, at));
        let place = Some((sums.node, &self.uuid));
        let parts = sums.holders.add_unseen([&before, holder], &unseen, correction, place);
        self.add_parts(&parts, scope);
    }

    /// Adds times in which it was held unseen, each with the share that counts.
    fn add_parts(&mut self, parts: &[(TimeIntervals, f64)], scope: &ReportScope) {
        if scope.filter.is_of_holders() {
            for (part, share) in parts {
                self.held_time.add_unseen(part, *share);
            }
        }
    }

    /// Adds the times before its first values in which they were waited for: to those who held it then, from when their jobs
    /// were listed.
    pub(super) fn add_blind(
        &mut self,
        blind: &TimeIntervals,
        scope: &ReportScope,
        (node, holders): (&NodeName, &mut HolderSums),
    ) {
        let Some((at, holder)) = &self.first_held else { return };
        let before = TimeIntervals::new(vec![(scope.from, *at)]);
        let blind = scope.spans.intersection(&blind.intersection(&before));
        self.present.extend(&blind);
        let listed_since = holder.holders.iter().filter_map(|holder| {
            let job = holders.records.get(holder.number)?.holder.job.as_ref()?;
            holders.listed.since(job)
        });
        let Some(since) = listed_since.max() else { return };
        let unseen = blind.intersection(&TimeIntervals::new(vec![(since.min(*at), *at)]));
        if scope.filter.is_of_holders() {
            self.held_time.add_unseen(&unseen, holders.share(holder));
        }
        holders.assumed_seconds += unseen.seconds() * holders.share(holder);
        holders.add_unseen([holder, holder], &unseen, None, Some((node, &self.uuid)));
    }

    /// Adds the time since it was last seen to a holder that still has it, as the scheduler's list shows.
    pub(super) fn end_unseen(
        &mut self,
        scope: &ReportScope,
        (node, holders): (&NodeName, &mut HolderSums),
    ) {
        let Some((until, holder)) = &self.last_held else { return };
        let listed = holders.still_listed(holder);
        let unseen = scope.recorded((*until, scope.to));
        let place = Some((node, &self.uuid));
        let parts = holders.add_unseen([holder, &listed], &unseen, None, place);
        if scope.filter.is_of_holders() && holders.share(&listed) > 0.0 {
            self.held_time.end(scope.to);
        }
        self.add_parts(&parts, scope);
    }

    /// Adds what has held until now.
    pub(super) fn close(
        &mut self,
        at: Timestamp,
        parts: &mut PartSeries,
        sums: &mut UsageSums<'_>,
    ) {
        let Some(held) = self.held.take() else { return };
        let scope = sums.scope;
        let from = held.from.max(scope.from).max(self.counted_to);
        let span = (from, at.min(held.until).min(scope.to));
        if span.1 <= span.0 {
            return;
        }
        self.counted_to = span.1;
        if let Some((until, _)) = &mut self.last_held {
            *until = span.1.max(*until);
        }
        let seconds = span.1.since(span.0).as_secs_f64();
        let share = sums.holders.share(&held.holder);
        if scope.filter.is_of_holders() {
            self.held_time.add(span, share);
        }
        if share <= 0.0 {
            return;
        }
        self.usage.add(&held.values, seconds * share);
        self.energy.add(held.values.power.map_or(0.0, |watts| f64::from(watts) * seconds));
        self.series.add(scope.grid, span, &held.values, share);
        parts.add(scope.grid, span, &held.values, share);
        let count = held.holder.count();
        for NumberedHolder { number, is_certain } in held.holder.holders.iter() {
            let record = sums.holders.records.get_mut(*number);
            let Some(record) = record.filter(|record| record.is_counted) else { continue };
            let seconds_of_part = seconds / count;
            record.usage.add(&held.values, seconds_of_part);
            if !is_certain {
                record.unsure_seconds += seconds_of_part;
            }
            record.extend_span(span.0, span.1);
            if record.holder.job.is_some() {
                record.series.add(scope.grid, span, &held.values, 1.0 / count);
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
            if !sums.holders.counts(&command.holder) {
                continue;
            }
            if let Some(known) = sums.commands.get_mut(command) {
                *known += seconds;
            } else if sums.commands.len() < MAX_COMMANDS {
                sums.commands.insert(command.clone(), seconds);
            }
        }
    }

    /// Ends its time in the node.
    pub(super) fn leave(&mut self, at: Timestamp, scope: &ReportScope) {
        if let Some(since) = self.present_since.take() {
            self.present.push(since.max(scope.from), at.min(scope.to));
        }
    }

    /// Adds what was collected of the span that follows; `numbers` are those of its holders here.
    pub(super) fn merge(
        &mut self,
        other: Self,
        numbers: &[usize],
        (scope, holders): (&ReportScope, &mut HolderSums),
    ) {
        let correction = self.energy.merge(other.energy, &scope.spans);
        let first = other.first_held.map(|(at, holder)| (at, holder.numbered(numbers)));
        let last = other.last_held.map(|(at, holder)| (at, holder.numbered(numbers)));
        let mut parts = Vec::new();
        if let (Some((until, before)), Some((from, after))) = (&self.last_held, &first) {
            let share = holders.share(before);
            self.usage.add_energy(correction.map(|joules| joules * share));
            let unseen = scope.recorded((*until, *from));
            parts = holders.add_unseen([before, after], &unseen, correction, None);
        }
        self.first_held = self.first_held.take().or(first);
        self.last_held = last.or(self.last_held.take());
        self.index = other.index.or(self.index);
        self.model = other.model.or(self.model.take());
        self.health_reasons.extend(other.health_reasons);
        self.last_health = self.last_health.max(other.last_health);
        self.present.extend(&other.present);
        self.usage += &other.usage;
        self.series.merge(&other.series);
        self.held_time.merge(other.held_time);
        self.add_parts(&parts, scope);
        for (number, mean) in other.by_holder {
            if let Some(number) = numbers.get(number) {
                *self.by_holder.entry(*number).or_default() += mean;
            }
        }
    }
}
