//! What was proved about the scheduler's list of the devices of a node, and for which jobs it holds.
//!
//! A daemon makes its list when it starts, and again when it is told to read its configuration again, which it does not
//! tell. So its list is that of the files only while they have not changed since it started; a job that began since they
//! were last looked at may have been placed by another list.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::node::Node;
use crate::fleet::placing::device_map::DeviceMap;
use crate::fleet::placing::numbering::NodeUnits;
use crate::model::{ConfigurationState, Job, ProvedIndices, SchedulerNode};
use crate::time::Timestamp;

/// A daemon whose start the scheduler and the node tell this much apart is the same: their clocks differ.
const SAME_START: Duration = Duration::from_secs(60);
/// The node tells the start of its daemon to this precision.
const NODE_ROUNDING: Duration = Duration::from_secs(2);
/// Slurm reports whole seconds.
pub(super) const START_ROUNDING: Duration = Duration::from_secs(1);
/// What is written so soon after the boot of a node is there before its daemon starts for the first time.
const BOOT_TIME: Duration = Duration::from_secs(600);

/// By what a scheduler's list of the devices of a node is the same as before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListIdentity {
    boot_id: Option<Arc<str>>,
    units: Vec<Arc<str>>,
    indices: usize,
    /// When the daemon started, by the clock of the scheduler, and by that of the node.
    started_at: Option<Timestamp>,
    node_started_at: Option<Timestamp>,
    /// When its configuration last changed, when that was looked at, and whether the daemon writes it itself.
    changed_at: Option<Timestamp>,
    checked_at: Option<Timestamp>,
    is_cached: bool,
    booted_at: Option<Timestamp>,
}

/// A map, and the moments between which jobs were certainly placed by it; `None` if that is not known.
#[derive(Clone, Debug)]
struct EarlierMap {
    map: DeviceMap,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// What was proved about the scheduler's list of the devices of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct LearnedMap {
    identity: ListIdentity,
    map: Option<DeviceMap>,
    /// Something contradicted what had been proved.
    is_contradicted: bool,
    /// It follows the daemon's own list, which the node tells again.
    is_listed: bool,
    /// What was proved before the daemon made its list anew, for jobs from that time.
    earlier: Option<EarlierMap>,
}

impl ListIdentity {
    pub(super) fn of(
        node: &Node,
        scheduler: Option<&SchedulerNode>,
        units: &NodeUnits<'_>,
        indices: usize,
    ) -> Self {
        let evidence = node.evidence.as_deref();
        let files =
            evidence.map_or_else(ConfigurationState::default, |evidence| evidence.configuration);
        let host = node.hello.as_ref().map(|hello| &hello.host);
        let boot_id = host.map(|host| Arc::clone(&host.boot_id)).filter(|id| !id.is_empty());
        let uptime = node.host.fast.uptime_seconds.get().map(Duration::from_secs);
        Self {
            boot_id,
            units: units.devices.iter().map(|device| Arc::clone(&device.uuid)).collect(),
            indices,
            started_at: scheduler.and_then(|known| known.daemon_started_at),
            node_started_at: evidence.and_then(|evidence| evidence.daemon.started_at),
            changed_at: files.changed_at,
            checked_at: files.checked_at,
            is_cached: files.is_cached,
            booted_at: node.taken_at().zip(uptime).map(|(at, uptime)| at.minus(uptime)),
        }
    }

    /// Returns true if the daemon runs that ran before, and has not made its list anew, as far as that is known.
    fn has_same_list(&self, other: &Self) -> bool {
        let apart = |one: Timestamp, other: Timestamp| one.since(other).max(other.since(one));
        let is_near = |one: Option<Timestamp>, other: Option<Timestamp>, limit: Duration| {
            one.zip(other).is_none_or(|(one, other)| apart(one, other) <= limit)
        };
        let has_pair = (self.started_at.is_some() && other.started_at.is_some())
            || (self.node_started_at.is_some() && other.node_started_at.is_some());
        let is_same_daemon = if has_pair {
            is_near(self.started_at, other.started_at, Duration::ZERO)
                && is_near(self.node_started_at, other.node_started_at, NODE_ROUNDING)
        } else {
            is_near(self.any_start(), other.any_start(), SAME_START)
        };
        let is_rewritten = self.is_cached
            && self.changed_at.zip(other.changed_at).is_some_and(|(one, other)| one != other);
        is_same_daemon && !is_rewritten
    }

    /// Returns when the daemon started, by the clock of the scheduler as the starts of jobs, if that is known.
    fn any_start(&self) -> Option<Timestamp> {
        self.started_at.or(self.node_started_at)
    }

    /// Returns true if the daemon has the list that the files describe now.
    fn is_current(&self) -> bool {
        let Some(changed) = self.changed_at else { return false };
        let started = self.node_started_at.or(self.started_at);
        self.is_cached
            || match started {
                Some(started) => changed < started,
                None => self.is_before_first_daemon(changed),
            }
    }

    /// Returns true if every daemon since the boot of the node has read what the files had become by then.
    fn is_before_first_daemon(&self, changed: Timestamp) -> bool {
        self.booted_at.is_some_and(|booted| changed <= booted.plus(BOOT_TIME))
    }

    /// Returns since when jobs are placed by the list that the daemon has now; `None` if that is not known.
    fn since(&self) -> Option<Timestamp> {
        match self.changed_at {
            Some(changed) if self.is_cached => {
                Some(self.any_start().unwrap_or(changed).max(changed))
            }
            Some(changed) if self.is_current() && self.is_before_first_daemon(changed) => {
                self.booted_at.map(|booted| self.any_start().unwrap_or(booted).min(booted))
            }
            Some(_) | None => self.any_start(),
        }
    }

    /// Returns until when jobs are certainly placed by it; `None` if no end is known.
    fn until(&self) -> Option<Timestamp> {
        if self.is_current() { self.checked_at } else { self.changed_at }
    }
}

impl LearnedMap {
    /// Keeps what was proved if the list is still the same, and forgets it otherwise.
    pub(super) fn follow(&mut self, identity: ListIdentity) {
        let before = &self.identity;
        let has_same_devices = before.units == identity.units && before.indices == identity.indices;
        let is_same_boot = before.boot_id.is_none() || before.boot_id == identity.boot_id;
        let is_same_node = has_same_devices && is_same_boot;
        if !is_same_node {
            (self.map, self.earlier, self.is_contradicted) = (None, None, false);
        } else if !before.has_same_list(&identity) {
            let (since, until) = (before.since(), before.until());
            let complete = self.map.take().filter(DeviceMap::is_complete);
            self.earlier = complete.map(|map| EarlierMap { map, since, until });
            self.is_contradicted = false;
        }
        // The scheduler, or the node, may not tell for a while.
        let kept = |now: Option<Timestamp>, before: Option<Timestamp>| {
            now.or(before.filter(|_| is_same_node))
        };
        let started_at = kept(identity.started_at, self.identity.started_at);
        let node_started_at = kept(identity.node_started_at, self.identity.node_started_at);
        self.identity = ListIdentity { started_at, node_started_at, ..identity };
    }

    /// Returns true if the daemon has the list that its files describe now.
    pub(super) fn is_list_current(&self) -> bool {
        self.identity.is_current()
    }

    /// Returns true if it is known when the configuration changed: if not, the daemon may have made its list anew since
    /// something was proved.
    pub(super) fn is_sure(&self) -> bool {
        self.identity.changed_at.is_some()
    }

    /// Returns true if a job was given its indices by the list that the daemon has now. Times are whole seconds, so one that
    /// began in the second of a change is taken for one of another list.
    pub(super) fn is_of_list(&self, job: &Job) -> bool {
        let until = job.starts_at.zip(self.identity.until());
        self.is_since_list(job) && until.is_none_or(|(start, until)| start < until)
    }

    fn is_since_list(&self, job: &Job) -> bool {
        job.starts_at.zip(self.identity.since()).is_none_or(|(start, since)| start > since)
    }

    /// Returns true if the rules by which the files describe a list may be applied to a job.
    pub(super) fn has_rule_for(&self, job: &Job) -> bool {
        !self.is_sure() || (self.is_list_current() && self.is_since_list(job))
    }

    /// Returns true if all jobs of the node were given their indices by the list that the daemon has now.
    pub(super) fn is_unchanged(&self) -> bool {
        let since = self.identity.since().zip(self.identity.booted_at);
        self.is_list_current()
            && since.is_none_or(|(since, booted)| since <= booted.plus(BOOT_TIME))
    }

    /// Returns the map by which a job from before the daemon made its list was given its indices, if it is known.
    pub(super) fn map_for(&self, job: &Job) -> Option<&DeviceMap> {
        let start = job.starts_at?;
        let earlier = self.earlier.as_ref().filter(|_| !self.is_of_list(job))?;
        let is_since = earlier.since.is_some_and(|since| start > since);
        let is_until = earlier.until.is_none_or(|until| start < until);
        (is_since && is_until).then_some(&earlier.map)
    }

    /// Records that what is proved contradicts itself, or the daemon's list.
    pub(super) fn contradict(&mut self) {
        (self.map, self.is_contradicted) = (None, true);
    }

    /// Adds what is proved now, and returns all that is known; `None` while nothing can be trusted. A map that follows
    /// the daemon's list settles what was disputed.
    pub(super) fn merge(&mut self, now: DeviceMap, has_list: bool) -> Option<&DeviceMap> {
        self.is_listed = has_list;
        if has_list {
            (self.map, self.is_contradicted) = (Some(now), false);
            return self.map.as_ref();
        }
        if let Some(known) = &mut self.map {
            let mut both = known.clone();
            if both.intersect(&now) {
                *known = both;
            } else {
                (self.map, self.is_contradicted) = (Some(now), true);
            }
        } else {
            self.map = Some(now);
        }
        let map = self.map.as_ref();
        map.filter(|known| !self.is_contradicted || known.is_complete())
    }

    /// Returns what to record: what a reader that starts later cannot learn from what comes then.
    pub(super) fn proved(&self) -> Option<ProvedIndices> {
        let known = self.map.as_ref().filter(|_| !self.is_listed);
        let has_proof = known.is_some_and(DeviceMap::is_narrowed);
        let earlier = self.earlier.as_ref();
        let is_worth_it = has_proof || self.is_contradicted || earlier.is_some();
        is_worth_it.then(|| ProvedIndices {
            boot_id: self.identity.boot_id.clone(),
            units: self.identity.units.clone(),
            indices: self.identity.indices,
            started_at: self.identity.any_start(),
            meanings: known.map(DeviceMap::meanings).unwrap_or_default(),
            earlier: earlier.map(|earlier| earlier.map.meanings()).unwrap_or_default(),
            earlier_since: earlier.and_then(|earlier| earlier.since),
            earlier_until: earlier.and_then(|earlier| earlier.until),
            is_contradicted: self.is_contradicted,
        })
    }

    /// Takes what was proved before, unless something is known already.
    pub(super) fn restore(&mut self, proved: &ProvedIndices) {
        if self.map.is_some() || self.is_contradicted {
            return;
        }
        let units = proved.units.len();
        self.map = DeviceMap::of_meanings(&proved.meanings, units);
        let earlier = DeviceMap::of_meanings(&proved.earlier, units);
        let (since, until) = (proved.earlier_since, proved.earlier_until);
        self.earlier = earlier.map(|map| EarlierMap { map, since, until });
        self.is_contradicted = proved.is_contradicted;
        self.identity = ListIdentity {
            boot_id: proved.boot_id.clone(),
            units: proved.units.clone(),
            indices: proved.indices,
            started_at: proved.started_at,
            ..ListIdentity::default()
        };
    }
}

/// Returns when the oldest list of processes of a node was taken.
pub(super) fn process_list_time(node: &Node) -> Option<Timestamp> {
    let lists = node.sources.iter().filter(|state| state.source.is_processes());
    lists.filter_map(|state| state.taken_at).min()
}
