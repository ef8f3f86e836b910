//! What was proved about the scheduler's list of the devices of a node, and how long that holds.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::node::Node;
use crate::fleet::placing::device_map::DeviceMap;
use crate::fleet::placing::numbering::NodeUnits;
use crate::model::{Job, ProvedIndices, SchedulerNode};
use crate::time::Timestamp;

/// A daemon that starts this much earlier or later by another clock is the same.
const SAME_START: Duration = Duration::from_secs(60);
/// Slurm reports whole seconds.
pub(super) const START_ROUNDING: Duration = Duration::from_secs(1);

/// By what a scheduler's list of the devices of a node is the same as before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListIdentity {
    boot_id: Option<Arc<str>>,
    units: Vec<Arc<str>>,
    indices: usize,
    /// When the scheduler's daemon on the node started, by the clock of the scheduler or that of the node.
    started_at: Option<Timestamp>,
    /// Since when its configuration is the same.
    configured_at: Option<Timestamp>,
    booted_at: Option<Timestamp>,
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
    /// What was proved before the daemon started anew, for jobs from that time.
    earlier: Option<DeviceMap>,
}

impl ListIdentity {
    pub(super) fn of(
        node: &Node,
        scheduler: Option<&SchedulerNode>,
        units: &NodeUnits<'_>,
        indices: usize,
    ) -> Self {
        let seconds = |seconds: u64| {
            i64::try_from(seconds)
                .ok()
                .map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000)))
        };
        let daemon = node.evidence.as_ref().map(|evidence| &evidence.daemon);
        let started_at = scheduler.and_then(|known| known.daemon_started_at);
        let host = node.hello.as_ref().map(|hello| &hello.host);
        let boot_id = host.map(|host| Arc::clone(&host.boot_id)).filter(|id| !id.is_empty());
        let uptime = node.host.fast.uptime_seconds.get().map(Duration::from_secs);
        Self {
            boot_id,
            units: units.devices.iter().map(|device| Arc::clone(&device.uuid)).collect(),
            indices,
            started_at: started_at.or_else(|| daemon?.started_at.and_then(seconds)),
            configured_at: daemon.and_then(|daemon| daemon.configured_at).and_then(seconds),
            booted_at: node.taken_at().zip(uptime).map(|(at, uptime)| at.minus(uptime)),
        }
    }

    /// Returns true if the daemon runs that ran before, as far as that is known.
    fn has_same_daemon(&self, other: &Self) -> bool {
        let starts = self.started_at.zip(other.started_at);
        starts.is_none_or(|(one, other)| one.since(other).max(other.since(one)) <= SAME_START)
    }
}

impl LearnedMap {
    /// Keeps what was proved if the list is still the same, and forgets it otherwise.
    pub(super) fn follow(&mut self, identity: ListIdentity) {
        let before = &self.identity;
        let has_same_devices = before.units == identity.units && before.indices == identity.indices;
        let is_same_boot = before.boot_id.is_none() || before.boot_id == identity.boot_id;
        if !has_same_devices || !is_same_boot {
            (self.map, self.earlier, self.is_contradicted) = (None, None, false);
        } else if !before.has_same_daemon(&identity) {
            let complete = self.map.take().filter(DeviceMap::is_complete);
            (self.earlier, self.is_contradicted) = (complete, false);
        }
        let started_at = identity.started_at.or(self.identity.started_at);
        let started_at = started_at.filter(|_| has_same_devices && is_same_boot);
        self.identity = ListIdentity { started_at: identity.started_at.or(started_at), ..identity };
    }

    /// Returns true if the configuration has changed since the daemon read it, so that a list made now is another.
    pub(super) fn is_list_outdated(&self) -> bool {
        let ListIdentity { started_at, configured_at, .. } = &self.identity;
        configured_at.zip(*started_at).is_some_and(|(configured, started)| configured > started)
    }

    /// Returns since when the list is what it is now; `None` if that is not known.
    fn since(&self) -> Option<Timestamp> {
        let ListIdentity { started_at, configured_at, .. } = &self.identity;
        match (configured_at, started_at) {
            (Some(configured), Some(started)) => Some(*configured.min(started)),
            (_, started) => *started,
        }
    }

    /// Returns true if a job was given its indices by the list that the daemon has now. Times are whole seconds, so one that
    /// began in the second of the change is taken for an earlier one.
    pub(super) fn is_of_list(&self, job: &Job) -> bool {
        job.starts_at.zip(self.since()).is_none_or(|(start, since)| start > since)
    }

    /// Returns true if the list has been made anew from another configuration since a job began.
    pub(super) fn is_reconfigured_since(&self, job: &Job) -> bool {
        let configured_at = self.identity.configured_at;
        configured_at.zip(job.starts_at).is_some_and(|(configured, start)| configured >= start)
    }

    /// Returns true if all jobs of the node were given their indices by the list that the daemon has now.
    pub(super) fn is_unchanged(&self) -> bool {
        let booted_at = self.identity.booted_at;
        self.since()
            .zip(booted_at)
            .is_none_or(|(since, booted)| since <= booted.plus(Duration::from_secs(600)))
    }

    /// Returns the map by which a job from before the daemon's start was given its indices, if it is known.
    pub(super) fn map_for(&self, job: &Job) -> Option<&DeviceMap> {
        self.earlier.as_ref().filter(|_| !self.is_of_list(job))
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
        let is_worth_it = has_proof || self.is_contradicted || self.earlier.is_some();
        is_worth_it.then(|| ProvedIndices {
            boot_id: self.identity.boot_id.clone(),
            units: self.identity.units.clone(),
            indices: self.identity.indices,
            started_at: self.identity.started_at,
            meanings: known.map(DeviceMap::meanings).unwrap_or_default(),
            earlier: self.earlier.as_ref().map(DeviceMap::meanings).unwrap_or_default(),
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
        self.earlier = DeviceMap::of_meanings(&proved.earlier, units);
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
