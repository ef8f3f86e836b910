//! What was proved about the scheduler's list of the devices of a node, and for which jobs it holds.
//!
//! A daemon makes its list when it starts, and again when it has to read its configuration again, which it does not
//! report. So its list is that of the files only while they have not changed since it started; a job that began since they
//! were last looked at may have been placed by another list.

use std::sync::Arc;
use std::time::Duration;

use crate::node::Node;
use crate::placing::device_map::DeviceMap;
use crate::placing::numbering::NodeUnits;
use gtop_local::time::Timestamp;
use gtop_model::{ConfigurationState, Job, ProvedIndices, SchedulerNode};

/// Starts that the scheduler and the node report this much apart are the same: their clocks differ.
const SAME_START: Duration = Duration::from_secs(60);
/// The node reports the start of its daemon to this precision.
const NODE_ROUNDING: Duration = Duration::from_secs(2);
/// Schedulers report whole seconds.
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
    /// When its configuration last changed, when that was checked, and whether the daemon writes it itself.
    changed_at: Option<Timestamp>,
    checked_at: Option<Timestamp>,
    is_cached: bool,
    booted_at: Option<Timestamp>,
    /// When its files were last seen as the daemon had read them.
    current_at: Option<Timestamp>,
    /// They have changed since the daemon read them, so that it may have made its list anew.
    is_outdated: bool,
}

/// What happened to a daemon's list between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListChange {
    None,
    /// The scheduler reports the start that the node has reported.
    ToldByScheduler,
    /// The node reports the start that the scheduler has reported.
    ToldByNode,
    Anew,
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
    /// It follows the daemon's own list, which the node sends again.
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
            current_at: None,
            is_outdated: false,
        }
    }

    /// Returns the same, with what is known of the list from before if it is still the same.
    fn following(self, before: &Self, change: ListChange) -> Self {
        let is_same = matches!(change, ListChange::None | ListChange::ToldByScheduler);
        let is_outdated = self.changed_at.is_some() && !self.is_current();
        let now = Self { is_outdated: is_outdated || (is_same && before.is_outdated), ..self };
        let current_at =
            if now.is_current() { now.checked_at } else { before.current_at.filter(|_| is_same) };
        Self { current_at, ..now }
    }

    /// Returns what happened to the list since `before`, as far as that is known.
    fn change_since(&self, before: &Self) -> ListChange {
        let is_told_by_scheduler = is_far(self.started_at, before.started_at, Duration::ZERO);
        let is_told_by_node = is_far(self.node_started_at, before.node_started_at, NODE_ROUNDING);
        let has_pair = (self.started_at.is_some() && before.started_at.is_some())
            || (self.node_started_at.is_some() && before.node_started_at.is_some());
        let is_other = !has_pair && is_far(self.any_start(), before.any_start(), SAME_START);
        let is_rewritten = self.is_cached
            && self.changed_at.zip(before.changed_at).is_some_and(|(one, other)| one != other);
        // The other of the two has reported the same start before.
        let is_told_again = is_far(before.started_at, before.node_started_at, SAME_START)
            && !is_far(self.started_at, self.node_started_at, SAME_START);
        match (is_told_by_scheduler, is_told_by_node) {
            (false, false) if !is_other && !is_rewritten => ListChange::None,
            (true, false) if is_told_again && !is_rewritten => ListChange::ToldByScheduler,
            (false, true) if is_told_again => ListChange::ToldByNode,
            _ => ListChange::Anew,
        }
    }

    /// Returns when the daemon started, by the clock of the scheduler as the starts of jobs, if that is known.
    fn any_start(&self) -> Option<Timestamp> {
        self.started_at.or(self.node_started_at)
    }

    /// Returns when the daemon started last: the scheduler and the node report a start at different times.
    fn last_start(&self) -> Option<Timestamp> {
        self.started_at.max(self.node_started_at)
    }

    /// Returns true if the daemon has the list that the files describe now.
    fn is_current(&self) -> bool {
        let Some(changed) = self.changed_at.filter(|_| !self.is_outdated) else { return false };
        self.has_read(changed)
    }

    /// Returns true if the daemon has read what became what it is at this time.
    fn has_read(&self, changed: Timestamp) -> bool {
        let started = self.node_started_at.or(self.started_at).or(self.booted_at);
        self.is_cached || started.is_some_and(|started| changed < started)
    }

    /// Returns true if the files became what they are so long before every daemon since the boot of the node.
    fn is_from_boot(&self, limit: Duration) -> bool {
        let boot = self.changed_at.zip(self.booted_at);
        self.is_current()
            && !self.is_cached
            && boot.is_some_and(|(changed, booted)| changed <= booted.plus(limit))
    }

    /// Returns since when jobs are placed by the list that the daemon has now; `None` if that is not known.
    fn since(&self) -> Option<Timestamp> {
        self.since_change(Duration::ZERO)
    }

    /// Returns the same, if what is written so long after a boot is there before the daemon starts for the first time.
    fn since_change(&self, limit: Duration) -> Option<Timestamp> {
        if self.is_from_boot(limit) {
            return self.booted_at.map(|booted| self.last_start().unwrap_or(booted).min(booted));
        }
        let rewritten = self.changed_at.filter(|_| self.is_cached);
        self.last_start().max(rewritten)
    }

    /// Returns until when jobs are certainly placed by it; `None` if no end is known.
    fn until(&self) -> Option<Timestamp> {
        if self.is_outdated {
            return self.current_at.or(self.since());
        }
        self.checked_at.filter(|_| self.changed_at.is_some())
    }
}

impl LearnedMap {
    /// Keeps what was proved if the list is still the same, and forgets it otherwise.
    pub(super) fn follow(&mut self, identity: ListIdentity) {
        let before = &self.identity;
        let has_same_devices = before.units == identity.units && before.indices == identity.indices;
        let is_same_boot = before.boot_id.is_none() || before.boot_id == identity.boot_id;
        if !(has_same_devices && is_same_boot) {
            (self.map, self.earlier, self.is_contradicted) = (None, None, false);
            self.identity = identity.following(before, ListChange::Anew);
            return;
        }
        // The scheduler, or the node, may not report it for a while.
        let started_at = identity.started_at.or(before.started_at);
        let node_started_at = identity.node_started_at.or(before.node_started_at);
        let identity = ListIdentity { started_at, node_started_at, ..identity };
        let change = identity.change_since(before);
        match change {
            ListChange::None | ListChange::ToldByScheduler => {}
            // The list that the node has sent until now is that of the daemon before.
            ListChange::ToldByNode => (self.map, self.is_contradicted) = (None, false),
            ListChange::Anew => {
                let (since, until) = (before.since(), before.until());
                let complete = self.map.take().filter(DeviceMap::is_complete);
                self.earlier = complete.map(|map| EarlierMap { map, since, until });
                self.is_contradicted = false;
            }
        }
        self.identity = identity.following(before, change);
    }

    /// Returns true if the daemon has the list that its files describe now.
    pub(super) fn is_list_current(&self) -> bool {
        self.identity.is_current()
    }

    /// Returns true if the daemon has read what became what it is at this time.
    pub(super) fn has_read(&self, changed: Timestamp) -> bool {
        self.identity.has_read(changed)
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

    /// Returns true if the daemon may have made another list since a job was given its indices. Each of its steps is given
    /// what the list of that moment means by them.
    pub(super) fn may_have_moved(&self, job: &Job) -> bool {
        self.identity.is_outdated || !self.is_since_list(job)
    }

    /// Returns true if the daemon has the list that its files describe now, and they were checked since it started.
    pub(super) fn is_list_confirmed(&self) -> bool {
        let is_checked = self.identity.checked_at >= self.identity.last_start();
        self.is_list_current() && (is_checked || self.identity.is_cached)
    }

    /// Returns true if jobs that are not listed may have been given devices by another list: their starts are not known.
    pub(super) fn may_have_older_jobs(&self) -> bool {
        let since = self.identity.since_change(BOOT_TIME).zip(self.identity.booted_at);
        let is_first = since.is_some_and(|(since, booted)| since <= booted.plus(BOOT_TIME));
        !(is_first && self.is_list_current())
    }

    /// Returns true if jobs may have been given devices by another list, whose files have changed or which was seen.
    pub(super) fn has_several(&self) -> bool {
        let earlier = self.earlier.as_ref().map(|earlier| &earlier.map);
        self.identity.is_outdated || (earlier.is_some() && earlier != self.map.as_ref())
    }

    fn is_since_list(&self, job: &Job) -> bool {
        job.starts_at.zip(self.identity.since()).is_none_or(|(start, since)| start > since)
    }

    /// Returns true if the rules by which the files describe a list may be applied to a job.
    pub(super) fn has_rule_for(&self, job: &Job) -> bool {
        let since = job.starts_at.zip(self.identity.since_change(BOOT_TIME));
        let is_since = since.is_none_or(|(start, since)| start > since);
        !self.is_sure() || (self.is_list_current() && is_since)
    }

    /// Returns true if all jobs of the node were given their indices by the list that the daemon has now.
    pub(super) fn is_unchanged(&self) -> bool {
        self.identity.is_from_boot(Duration::ZERO)
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
            until: self.identity.until().filter(|_| self.identity.is_outdated),
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
            current_at: proved.until,
            is_outdated: proved.until.is_some(),
            ..ListIdentity::default()
        };
    }
}

/// Returns true if two known times are further apart than this.
fn is_far(one: Option<Timestamp>, other: Option<Timestamp>, limit: Duration) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.distance(other) > limit)
}

/// Returns when the oldest list of processes of a node was taken.
pub(super) fn process_list_time(node: &Node) -> Option<Timestamp> {
    let lists = node.sources.iter().filter(|state| state.source.is_processes());
    lists.filter_map(|state| state.taken_at).min()
}
