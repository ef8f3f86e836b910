//! What a device did, under each group of those who held it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sums::energy::EnergyMeter;
use crate::sums::intervals::TimeIntervals;
use crate::sums::series::StepSeries;
use gtop_fleet::usage::DeviceUsage;
use gtop_fleet::{Health, HealthReason, advice};
use gtop_local::time::Timestamp;

/// What a device did.
#[derive(Clone, Debug, Default)]
pub struct DeviceSums {
    /// Its UUID.
    pub uuid: Arc<str>,
    /// The index that the driver gives it.
    pub index: Option<u32>,
    /// Its model.
    pub model: Option<Arc<str>>,
    /// How sound it was at last, and when.
    pub last_health: Option<(Timestamp, Health)>,
    /// When it was in the node.
    pub present: TimeIntervals,
    /// When it was seen, in rising order.
    pub seen: Vec<SeenSpan>,
    /// What it did under each group of holders, by the group's number.
    pub held: BTreeMap<usize, HeldSums>,
    /// The driver's counter of energy.
    pub energy: EnergyMeter,
    /// Energy in joules that this counter shows beyond what was seen, from a group's time to that of another.
    pub unseen_energy: BTreeMap<(usize, usize), f64>,
}

/// A time in which samples of a device show the same holders; it may be a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSpan {
    /// When it begins.
    pub from: Timestamp,
    /// When it ends.
    pub to: Timestamp,
    /// The number of the group of holders.
    pub set: usize,
}

/// What a device did under a group of holders.
#[derive(Clone, Debug, Default)]
pub struct HeldSums {
    /// The sums.
    pub usage: DeviceUsage,
    /// The sums of steps.
    pub series: StepSeries,
    /// Why it was not sound, the newest of each kind.
    pub reasons: BTreeMap<Arc<str>, SeenReason>,
}

/// Why a device was not sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenReason {
    /// What it makes of the device.
    pub health: Health,
    /// It in a few words.
    pub text: Arc<str>,
    /// The words are the driver's, and may have names in them.
    pub is_of_driver: bool,
    /// What to do.
    pub remedy: Arc<str>,
}

impl SeenReason {
    pub(super) fn of(reason: &HealthReason) -> Self {
        Self {
            health: reason.health(),
            text: reason.lasting_text().into(),
            is_of_driver: matches!(reason, HealthReason::Driver(words) if !words.is_empty()),
            remedy: advice::device::of_health(reason).into(),
        }
    }
}

impl DeviceSums {
    pub(super) fn new(uuid: Arc<str>) -> Self {
        Self { uuid, ..Self::default() }
    }

    /// Adds a time in which samples show a group of holders.
    pub(super) fn see(&mut self, (from, to): (Timestamp, Timestamp), set: usize) {
        let last = self.seen.last_mut();
        let from = last.as_ref().map_or(from, |last| from.max(last.to));
        match last.filter(|last| last.set == set && last.to == from) {
            Some(last) => last.to = to.max(last.to),
            None => self.seen.push(SeenSpan { from, to: to.max(from), set }),
        }
    }

    /// Adds energy that its counter shows beyond what was seen, from a group's time to that of another.
    pub(super) fn add_unseen_energy(&mut self, before: usize, after: usize, joules: f64) {
        if before == after {
            self.held.entry(before).or_default().usage.add_energy(Some(joules));
        } else {
            *self.unseen_energy.entry((before, after)).or_default() += joules;
        }
    }

    /// Adds what it did in the span that follows; `number` returns the number of a group of the other.
    pub(super) fn merge(
        &mut self,
        other: Self,
        number: impl Fn(usize) -> usize,
        recorded: &TimeIntervals,
    ) {
        let joules = self.energy.merge(other.energy, recorded);
        let ends = (self.seen.last(), other.seen.first());
        if let ((Some(before), Some(after)), Some(joules)) = (ends, joules) {
            let (before, after) = (before.set, number(after.set));
            self.add_unseen_energy(before, after, joules);
        }
        self.index = other.index.or(self.index);
        self.model = other.model.or(self.model.take());
        self.last_health = self.last_health.max(other.last_health);
        self.present.extend(&other.present);
        for span in other.seen {
            self.see((span.from, span.to), number(span.set));
        }
        for ((before, after), joules) in other.unseen_energy {
            self.add_unseen_energy(number(before), number(after), joules);
        }
        for (set, more) in other.held {
            let held = self.held.entry(number(set)).or_default();
            held.usage += &more.usage;
            held.series.merge(&more.series, 1.0);
            held.reasons.extend(more.reasons);
        }
    }
}
