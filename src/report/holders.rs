//! Who held devices, and what they ran on them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::report::filter::ReportFilter;
use crate::report::intervals::TimeIntervals;
use crate::report::job_listings::JobListings;
use crate::report::series::StepSeries;
use gtop_fleet::usage::DeviceUsage;
use gtop_fleet::{Certainty, Holder, JobLookup, Node, NodeHoldings};
use gtop_local::time::Timestamp;
use gtop_model::{JobId, NodeName};

/// Pairs of users and jobs that are kept apart; those that come later are added up under one name.
const MAX_HOLDERS: usize = 20_000;

/// Who held devices, numbered in the order in which they appeared.
#[derive(Debug, Default)]
pub(super) struct HolderSums {
    filter: ReportFilter,
    numbers: BTreeMap<Holder, usize>,
    pub(super) records: Vec<HolderRecord>,
    /// Seconds before the first values of devices, counted to those who held them then, which is assumed.
    pub(super) assumed_seconds: f64,
    /// When the scheduler listed jobs with nodes.
    pub(super) listed: JobListings,
}

/// What was collected of a user or a job of theirs.
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

/// What the scheduler lists of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobFacts {
    pub(super) shown_id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) partition: Arc<str>,
    /// The nodes that it had when it was listed first.
    pub(super) nodes: BTreeSet<NodeName>,
}

/// A program, as its node, user and job have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldCommand {
    pub(super) node: NodeName,
    pub(super) holder: Holder,
    pub(super) text: Arc<str>,
}

/// The holders of each device of a node, as long as its processes and allocations stay the same.
#[derive(Debug, Default)]
pub(super) struct CachedHolders {
    /// Of which holders it was made.
    holdings: Option<Arc<NodeHoldings>>,
    /// Changes with the programs that run.
    signature: u64,
    pub(super) by_position: Vec<CachedHolder>,
}

/// The holders of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedHolder {
    pub(super) holders: Arc<[NumberedHolder]>,
    pub(super) commands: Arc<[HeldCommand]>,
}

/// A holder of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedHolder {
    pub(super) number: usize,
    /// It is proved that it holds the device.
    pub(super) is_certain: bool,
}

impl HolderSums {
    pub(super) fn new(filter: ReportFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Returns the number of a holder; `shown_id` is the id of its job as users know it.
    pub(super) fn number(&mut self, holder: &Holder, shown_id: Option<&str>) -> usize {
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
            is_counted: self.filter.has_holder(holder, shown_id),
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

    /// Notes the id of a job as users know it, which may decide whether the job counts.
    pub(super) fn note_shown_id(&mut self, job: &JobId, shown_id: &str) {
        if self.filter.jobs.is_empty() {
            return;
        }
        let of_job = self.records.iter_mut().filter(|known| known.holder.job.as_ref() == Some(job));
        for record in of_job {
            record.is_counted = self.filter.has_holder(&record.holder, Some(shown_id));
        }
    }

    /// Returns true if all devices count, not only those of some holders.
    pub(super) fn counts_all(&self) -> bool {
        !self.filter.is_of_holders()
    }

    /// Returns the share of a device that counts: its holders have equal parts of it.
    pub(super) fn share(&self, device: &CachedHolder) -> f64 {
        if self.counts_all() {
            return 1.0;
        }
        let records = device.holders.iter().filter_map(|holder| self.records.get(holder.number));
        number_of(records.filter(|record| record.is_counted).count()) / device.count()
    }

    /// Adds time in which a device was not seen to those that held it before and after, and the energy that its counter shows
    /// beyond what was seen, in joules. Each has an equal part of the device.
    ///
    /// A job that held it only before or after has the part of the time in which the scheduler listed it, and no energy, as
    /// nothing tells how much of it is its own. Returns these parts, with the share of the device.
    pub(super) fn add_unseen(
        &mut self,
        [before, after]: [&CachedHolder; 2],
        unseen: &TimeIntervals,
        joules: Option<f64>,
        place: Option<(&NodeName, &Arc<str>)>,
    ) -> Vec<(TimeIntervals, f64)> {
        let mut parts = Vec::new();
        let only_after = after.holders.iter().filter(|holder| !before.has(holder));
        for holder in before.holders.iter().chain(only_after) {
            let record = self.records.get_mut(holder.number);
            let Some(record) = record.filter(|record| record.is_counted) else { continue };
            let is_before = before.has(holder);
            let count = if is_before { before.count() } else { after.count() };
            if is_before && after.has(holder) {
                record.usage.add_energy(joules.map(|joules| joules / count));
                record.add_unseen(unseen, count, place);
                continue;
            }
            let job_and_gap = record.holder.job.as_ref().zip(unseen.bounds());
            let held =
                job_and_gap.and_then(|(job, gap)| self.listed.held_part(job, gap, is_before));
            if let Some(held) = held {
                let part = unseen.intersection(&TimeIntervals::new(vec![held]));
                record.add_unseen(&part, count, place);
                parts.push((part, 1.0 / count));
            }
        }
        parts
    }

    /// Returns those holders of a device whose jobs the scheduler still lists.
    pub(super) fn still_listed(&self, device: &CachedHolder) -> CachedHolder {
        let holders = device.holders.iter().filter(|holder| {
            let record = self.records.get(holder.number);
            let job = record.and_then(|record| record.holder.job.as_ref());
            job.is_some_and(|job| self.listed.is_listed(job))
        });
        CachedHolder { holders: holders.copied().collect(), commands: Arc::default() }
    }

    /// Returns true if what a holder runs counts.
    pub(super) fn counts(&self, holder: &Holder) -> bool {
        let number = self.numbers.get(holder);
        let record = number.and_then(|number| self.records.get(*number));
        self.counts_all() || record.is_some_and(|record| record.is_counted)
    }
}

impl CachedHolder {
    /// Returns the holders under other numbers.
    pub(super) fn numbered(&self, numbers: &[usize]) -> Self {
        let holders = self.holders.iter().filter_map(|holder| {
            Some(NumberedHolder { number: *numbers.get(holder.number)?, ..*holder })
        });
        Self { holders: holders.collect(), commands: Arc::clone(&self.commands) }
    }

    fn has(&self, holder: &NumberedHolder) -> bool {
        self.holders.iter().any(|known| known.number == holder.number)
    }

    /// Returns the number of holders, at least 1.
    pub(super) fn count(&self) -> f64 {
        number_of(self.holders.len().max(1))
    }
}

fn number_of(count: usize) -> f64 {
    f64::from(u16::try_from(count).unwrap_or(u16::MAX))
}

impl HolderRecord {
    /// Adds time in which a device, of which it has one of `count` parts, was not seen.
    fn add_unseen(
        &mut self,
        unseen: &TimeIntervals,
        count: f64,
        place: Option<(&NodeName, &Arc<str>)>,
    ) {
        self.unseen_seconds += unseen.seconds() / count;
        if let Some((from, to)) = unseen.bounds() {
            self.extend_span(from, to);
            self.nodes.extend(place.map(|(node, _)| node.clone()));
            self.devices.extend(place.map(|(node, uuid)| (node.clone(), Arc::clone(uuid))));
        }
    }

    pub(super) fn extend_span(&mut self, from: Timestamp, to: Timestamp) {
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
    }
}

impl CachedHolders {
    /// Finds the holders again if processes, allocations or devices have changed.
    pub(super) fn refresh(
        &mut self,
        node: &Node,
        jobs: &JobLookup,
        holders: &mut HolderSums,
        has_commands: bool,
    ) {
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
            let mut of_device: Vec<NumberedHolder> = Vec::new();
            for claim in node.holdings.device(&device.uuid).holders() {
                let job = claim.holder.job.as_ref().and_then(|id| jobs.job(id));
                let number = holders.number(&claim.holder, job.map(|job| &*job.shown_id));
                let is_certain = claim.certainty == Certainty::Certain;
                match of_device.iter_mut().find(|known| known.number == number) {
                    Some(known) => known.is_certain |= is_certain,
                    None => of_device.push(NumberedHolder { number, is_certain }),
                }
            }
            let commands = commands.get(position).map(|all| Arc::from(&**all)).unwrap_or_default();
            CachedHolder { holders: of_device.into(), commands }
        });
        self.by_position = cached.collect();
    }
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
