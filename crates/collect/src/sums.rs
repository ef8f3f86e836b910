//! What nodes did over a span of time, added up: how long each device was seen, who held it, and what it did then.
//!
//! Values hold from one sample of a device to the next, at most for the time after which they count as stale, and not
//! beyond the loss of the connection or the end of the recording. Sums of spans that follow each other are merged. Whose
//! devices count is asked only of the sums, so that those which a recorder writes serve every report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use builder::SumBuilder;
pub(crate) use energy::{CounterValue, EnergyMeter};
pub(crate) use held::SeenSpan;
pub use held::{DeviceSums, HeldSums, SeenReason};
pub use intervals::TimeIntervals;
pub use job_listings::JobListings;
pub(crate) use job_listings::ListedSpan;
pub use scope::SumScope;
pub use series::{PartSeries, StepGrid, StepSeries};
pub(crate) use series::{SeriesStep, TimedSums};

use gtop_fleet::Holder;
use gtop_fleet::usage::TimedMean;
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Job, JobId, NodeName, stale_after};

mod builder;
mod energy;
mod held;
mod intervals;
mod job_listings;
mod machines;
mod scope;
mod series;
mod watched_node;

/// Different errors of the devices of a node.
const MAX_ERRORS: usize = 256;
/// Groups of holders of a node that are kept apart; those that come later are added up under the last one.
const MAX_SETS: usize = 4_096;
/// Different command lines that are kept.
const MAX_COMMANDS: usize = 2_000;

/// Those who hold a device, and whether that is certain; several have equal parts of it.
pub type HolderSet = Arc<[(Holder, bool)]>;

/// What all nodes did over a span of time.
#[derive(Clone, Debug, Default)]
pub struct SpanSums {
    /// The nodes that were listed or have sent anything.
    pub nodes: BTreeMap<NodeName, NodeSums>,
    /// The jobs that were listed with nodes.
    pub jobs: BTreeMap<JobId, JobFacts>,
    /// Those that waited.
    pub pending: BTreeMap<JobId, Job>,
    /// When jobs were listed.
    pub listings: JobListings,
    /// Seconds on devices of each command line, if these are asked for.
    pub commands: BTreeMap<HeldCommand, f64>,
}

/// What a node did.
#[derive(Clone, Debug, Default)]
pub struct NodeSums {
    /// When it was listed, by each file for itself.
    pub listed: TimeIntervals,
    /// When it had no connection.
    pub down: TimeIntervals,
    /// When it was connected and none of its devices was seen yet, although its probe reads some.
    pub blind: TimeIntervals,
    /// When its machine counted under another name.
    pub elsewhere: TimeIntervals,
    /// The last of these other names.
    pub other_name: Option<NodeName>,
    /// Why it was down last.
    pub fault: Option<String>,
    /// Why a source of its devices gave no values, at last, and what to do.
    pub source_fault: Option<(String, Arc<str>)>,
    /// The sampling interval, as last known.
    pub interval: Duration,
    /// How often devices reported errors in each second.
    pub errors: BTreeMap<DeviceError, BTreeMap<Timestamp, u64>>,
    /// The groups of holders that devices of it had. Others name them by their position.
    pub sets: Vec<HolderSet>,
    /// Different times of samples, by the groups that held its devices then.
    pub samples: BTreeMap<Box<[usize]>, u64>,
    /// What jobs used of the host.
    pub shares: BTreeMap<JobId, ShareSums>,
    /// Its devices.
    pub devices: Vec<DeviceSums>,
    /// What devices did under each group, in the parts of steps.
    pub parts: BTreeMap<usize, PartSeries>,
}

/// What a job used of a host, by its control group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareSums {
    /// CPUs that it used at once.
    pub cpus: TimedMean,
    /// The most memory that it used.
    pub max_memory: Option<Bytes>,
}

/// An error that a device has reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceError {
    /// Its UUID.
    pub device: Arc<str>,
    /// What it has reported.
    pub text: String,
    /// The number of an Xid.
    pub xid: Option<u64>,
}

/// What the scheduler lists of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Its id as users know it.
    pub shown_id: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its user.
    pub user: Arc<str>,
    /// Its partition.
    pub partition: Arc<str>,
    /// The nodes that it had when it was listed first.
    pub nodes: BTreeSet<NodeName>,
    /// The CPUs and the memory that it has on all nodes.
    pub cpus: Option<u32>,
    /// See `cpus`.
    pub memory: Option<Bytes>,
}

/// A program, as its node, user and job have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldCommand {
    /// Where it ran.
    pub node: NodeName,
    /// Whose it was.
    pub holder: Holder,
    /// Its command line.
    pub text: Arc<str>,
}

impl JobFacts {
    /// Adds what was not known when it was listed first.
    fn complete(&mut self, cpus: Option<u32>, memory: Option<Bytes>) {
        self.cpus = self.cpus.or(cpus);
        self.memory = self.memory.or(memory);
    }
}

impl NodeSums {
    /// Returns the number of a group of holders.
    fn number_of(&mut self, set: &HolderSet) -> usize {
        let known = self.sets.iter().rposition(|known| Arc::ptr_eq(known, set) || known == set);
        known.unwrap_or_else(|| {
            if self.sets.len() < MAX_SETS {
                self.sets.push(Arc::clone(set));
            }
            self.sets.len() - 1
        })
    }

    /// Returns the times in which its devices were waited for longer than for their first values.
    pub fn blind_times(&self) -> TimeIntervals {
        let usual = stale_after(self.interval);
        let all = self.blind.union();
        let long = all.as_slice().iter().filter(|(from, to)| to.since(*from) > usual);
        TimeIntervals::new(long.copied().collect())
    }

    /// Adds what it did in the span that follows.
    fn merge(&mut self, other: Self, recorded: &TimeIntervals) {
        let sets: Vec<usize> = other.sets.iter().map(|set| self.number_of(set)).collect();
        let number = |of_other: usize| sets.get(of_other).copied().unwrap_or_default();
        self.listed.extend(&other.listed);
        self.down.extend(&other.down);
        self.blind.extend(&other.blind);
        self.elsewhere.extend(&other.elsewhere);
        self.other_name = other.other_name.or(self.other_name.take());
        self.fault = other.fault.or(self.fault.take());
        self.source_fault = other.source_fault.or(self.source_fault.take());
        self.interval = self.interval.max(other.interval);
        // Two recordings of a node have the same errors.
        for (key, seconds) in other.errors {
            let known = self.errors.entry(key).or_default();
            for (second, count) in seconds {
                known.entry(second).and_modify(|known| *known = count.max(*known)).or_insert(count);
            }
        }
        for (groups, count) in other.samples {
            let mut groups: Vec<usize> = groups.iter().map(|group| number(*group)).collect();
            groups.sort_unstable();
            *self.samples.entry(groups.into()).or_default() += count;
        }
        for (group, series) in other.parts {
            self.parts.entry(number(group)).or_default().merge(&series, 1.0);
        }
        for (job, more) in other.shares {
            let known = self.shares.entry(job).or_default();
            known.cpus += more.cpus;
            known.max_memory = known.max_memory.max(more.max_memory);
        }
        for more in other.devices {
            let known = self.devices.iter().position(|known| known.uuid == more.uuid);
            let position = known.unwrap_or_else(|| {
                self.devices.push(DeviceSums::new(Arc::clone(&more.uuid)));
                self.devices.len() - 1
            });
            if let Some(device) = self.devices.get_mut(position) {
                device.merge(more, number, recorded);
            }
        }
    }
}

impl SpanSums {
    /// Returns these sums, whose steps are minutes, with those of a grid.
    #[must_use]
    pub fn on_grid(mut self, grid: StepGrid) -> Self {
        for node in self.nodes.values_mut() {
            for device in &mut node.devices {
                for (set, held) in &mut device.held {
                    let (steps, parts) = held.series.minutes_on(grid);
                    held.series = steps;
                    node.parts.entry(*set).or_default().merge(&parts, 1.0);
                }
            }
        }
        self
    }

    /// Adds the sums of the span that follows; `recorded` are the times of both.
    pub fn merge(&mut self, other: Self, recorded: &TimeIntervals) {
        for (name, more) in other.nodes {
            self.nodes.entry(name).or_default().merge(more, recorded);
        }
        self.listings.merge(other.listings);
        for (id, facts) in other.jobs {
            let (cpus, memory) = (facts.cpus, facts.memory);
            self.jobs.entry(id).or_insert(facts).complete(cpus, memory);
        }
        self.pending.extend(other.pending);
        for (command, seconds) in other.commands {
            if self.commands.len() < MAX_COMMANDS || self.commands.contains_key(&command) {
                *self.commands.entry(command).or_default() += seconds;
            }
        }
    }
}
