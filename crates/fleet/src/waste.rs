//! Device time that users have held and left idle, added up while gtop watches.
//!
//! A device is idle-held from one sample to the next if it is so at the next one. Time between samples that are further
//! apart than a source stays fresh counts as nothing: what happened in a gap is unknown. A device of two users counts
//! for both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::charted::Metric;
use crate::holdings::{Claim, Evidence};
use crate::idle::{ACTIVE_PERCENT, is_idle, is_idle_held};
use crate::job_lookup::JobLookup;
use crate::node::{Node, SourceState};
use crate::user::User;
use gtop_local::time::Timestamp;
use gtop_model::nodeset::MAX_NAMES;
use gtop_model::{Device, JobId, NodeName, stale_after};

/// Maximum number of nodes; further ones are not counted.
const MAX_NODES: usize = MAX_NAMES;
/// Maximum number of users of one node; further ones are not counted.
const MAX_USERS_PER_NODE: usize = 256;
/// Maximum number of jobs of one node at a time; further ones are not counted.
const MAX_JOBS_PER_NODE: usize = 256;
/// How far back the history of nodes is read where watching begins anew, in seconds.
const MAX_SEED_SECONDS: usize = 3_600;

/// The waste on each node since gtop watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waste {
    /// When the first sample that counts was taken; `None` before it.
    pub since: Option<Timestamp>,
    pub(super) nodes: BTreeMap<NodeName, Arc<NodeWaste>>,
}

/// The waste on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeWaste {
    /// Idle device time of each user.
    pub(crate) by_user: BTreeMap<User, Duration>,
    /// Idle device time of each job that has devices there.
    pub(crate) by_job: BTreeMap<JobId, Duration>,
    /// The devices that are idle-held, by UUID.
    pub idle: BTreeMap<Arc<str>, IdleSpan>,
}

/// Since when a device is held by the same users and idle.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleSpan {
    /// The first sample at which it was, as far as the history reaches.
    pub since: Timestamp,
    /// It may have begun earlier: nothing is known of the time before.
    pub is_lower_bound: bool,
    /// The last sample at which it was.
    pub(super) last: Timestamp,
    pub(super) users: BTreeSet<User>,
}

impl Waste {
    /// A device is taken to have stayed idle between two samples that are no further apart.
    pub const MAX_GAP: Duration = Duration::from_secs(90);

    /// Returns the waste in the histories of machines: devices that are idle-held now count from where they became idle, or
    /// from where their holders began. `jobs` is `None` where it is not known which jobs run.
    pub fn seeded<'a>(
        machines: impl IntoIterator<Item = &'a Arc<Node>>,
        jobs: Option<&JobLookup>,
    ) -> Self {
        let mut waste = Self::default();
        for node in machines {
            for held in idle_held_devices(node, jobs) {
                let (since, watched, is_lower_bound) = idle_history(node, &held);
                waste.since = Some(waste.since.map_or(since, |first| first.min(since)));
                let Some(entry) = waste.entry(&node.name) else { continue };
                entry.add(&held, watched);
                let span = IdleSpan { since, is_lower_bound, last: held.at, users: held.users };
                entry.idle.insert(Arc::clone(&held.device.uuid), span);
            }
        }
        waste
    }

    /// Returns true if devices of a node have been sampled since `before`.
    pub(super) fn concerns(before: &Node, after: &Node) -> bool {
        let mut sources = after.device_sources.iter();
        sources.any(|source| before.sampled_at(source) != after.sampled_at(source))
    }

    /// Adds the waste between two states of a node. `jobs` is `None` where it is not known which
    /// jobs run: then only what processes hold counts.
    pub fn observe(&mut self, before: &Node, after: &Node, jobs: Option<&JobLookup>) {
        if !Self::concerns(before, after) {
            return;
        }
        let taken_at = after.device_sources.first().and_then(|source| after.sampled_at(source));
        self.since = self.since.or(taken_at);
        let held = idle_held_devices(after, jobs);
        if held.is_empty() && self.node(&after.name).is_none_or(|known| known.idle.is_empty()) {
            return;
        }
        let Some(entry) = self.entry(&after.name) else { return };
        entry.idle.retain(|uuid, _| {
            // A job that is not known to run may still have its devices.
            held.iter().any(|held| held.device.uuid == *uuid)
                || (jobs.is_none() && after.device(uuid).is_some_and(is_idle))
        });
        entry.by_job.retain(|job, _| is_on(after, job));
        for held in held {
            let watched = watched_span(before, held.source, held.device);
            if let Some(watched) = watched.filter(|watched| !watched.is_zero()) {
                entry.add(&held, watched);
            }
            let known = entry.idle.get_mut(&held.device.uuid);
            let known = known.filter(|span| span.users == held.users);
            let is_unwatched = watched.is_none() || known.is_some();
            match known {
                Some(span) if held.at.since(span.last) <= Self::MAX_GAP => span.last = held.at,
                _ => {
                    // It may have been so before it was known whose it is.
                    let (since, _, is_lower_bound) = idle_history(after, &held);
                    let is_lower_bound = is_lower_bound || is_unwatched;
                    let (uuid, last) = (Arc::clone(&held.device.uuid), held.at);
                    let span = IdleSpan { since, is_lower_bound, last, users: held.users };
                    entry.idle.insert(uuid, span);
                }
            }
        }
    }

    /// Returns the waste on each node, also on those that are no longer watched.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &NodeWaste)> {
        self.nodes.iter().map(|(name, node)| (name, &**node))
    }

    /// Returns the device time that a job has wasted on these machines.
    pub fn of_job(&self, job: &JobId, machines: &BTreeSet<&NodeName>) -> Duration {
        let nodes = machines.iter().filter_map(|name| self.node(name));
        let times = nodes.filter_map(|node| node.by_job.get(job));
        times.fold(Duration::ZERO, |sum, time| sum.saturating_add(*time))
    }

    /// Returns the waste on a node.
    pub fn node(&self, name: &NodeName) -> Option<&NodeWaste> {
        self.nodes.get(name).map(|node| &**node)
    }

    pub(super) fn entry(&mut self, name: &NodeName) -> Option<&mut NodeWaste> {
        if self.nodes.len() >= MAX_NODES && !self.nodes.contains_key(name) {
            return None;
        }
        Some(Arc::make_mut(self.nodes.entry(name.clone()).or_default()))
    }
}

impl NodeWaste {
    fn add(&mut self, held: &IdleHeldDevice<'_>, time: Duration) {
        for user in &held.users {
            self.add_of_user(user, time);
        }
        for job in &held.jobs {
            self.add_of_job(job, time);
        }
    }

    pub(super) fn add_of_user(&mut self, user: &User, time: Duration) {
        add_time(&mut self.by_user, user, time, MAX_USERS_PER_NODE);
    }

    pub(super) fn add_of_job(&mut self, job: &JobId, time: Duration) {
        add_time(&mut self.by_job, job, time, MAX_JOBS_PER_NODE);
    }
}

fn add_time<K: Ord + Clone>(
    times: &mut BTreeMap<K, Duration>,
    key: &K,
    time: Duration,
    max_count: usize,
) {
    if let Some(sum) = times.get_mut(key) {
        *sum = sum.saturating_add(time);
    } else if times.len() < max_count {
        times.insert(key.clone(), time);
    }
}

/// Returns true if a job has devices of a node.
fn is_on(node: &Node, job: &JobId) -> bool {
    node.units().any(|(_, device)| node.holdings.device(&device.uuid).jobs().any(|one| one == job))
}

/// A device that is idle-held.
struct IdleHeldDevice<'a> {
    device: &'a Device,
    source: &'a SourceState,
    /// When it was sampled.
    at: Timestamp,
    users: BTreeSet<User>,
    jobs: BTreeSet<JobId>,
    /// Since when each of them has had a job or process there; `None` if that is not known of all.
    held_since: Option<Timestamp>,
}

/// Returns the time since the sample before for a device; `None` if there is none, or if they are further apart than its
/// source stays fresh.
fn watched_span(before: &Node, source: &SourceState, device: &Device) -> Option<Duration> {
    before.device(&device.uuid)?;
    let earlier = before.source(&source.source)?.taken_at?;
    let span = source.taken_at?.since(earlier);
    (span <= stale_after(source.interval)).then_some(span)
}

/// Returns the devices of a node that are idle-held.
fn idle_held_devices<'a>(node: &'a Node, jobs: Option<&JobLookup>) -> Vec<IdleHeldDevice<'a>> {
    let idle = node.units().filter(|(_, device)| is_idle(device));
    idle.filter_map(|(position, device)| idle_held_device(node, position, device, jobs)).collect()
}

/// Returns an idle device if it is held.
fn idle_held_device<'a>(
    node: &'a Node,
    position: usize,
    device: &'a Device,
    jobs: Option<&JobLookup>,
) -> Option<IdleHeldDevice<'a>> {
    let source = node.source(node.device_sources.get(position)?)?;
    let at = source.taken_at?;
    let holdings = node.holdings.device(&device.uuid);
    let is_allocated = jobs.is_some() && holdings.claims.iter().any(Claim::is_allocation);
    if !is_idle_held(node, device, is_allocated) {
        return None;
    }
    let mut began_by_user = BTreeMap::<User, Option<Timestamp>>::new();
    let mut held_jobs = BTreeSet::new();
    for claim in holdings.holders() {
        // Where it is not known which jobs run, only processes hold something.
        if jobs.is_none() && !claim.evidence.has(Evidence::PROCESSES) {
            continue;
        }
        held_jobs.extend(claim.holder.job.clone());
        let job = claim.holder.job.as_ref().and_then(|id| jobs?.job(id));
        let began = job.map_or_else(|| first_start(node, device, claim), |job| job.starts_at);
        let first = began_by_user.entry(claim.holder.user.clone()).or_default();
        *first = [*first, began].into_iter().flatten().min();
    }
    if began_by_user.is_empty() {
        began_by_user.insert(User::Hidden, None);
    }
    let held_since =
        began_by_user.values().copied().reduce(|last, began| Some(last?.max(began?))).flatten();
    let users = began_by_user.into_keys().collect();
    Some(IdleHeldDevice { device, source, at, users, jobs: held_jobs, held_since })
}

/// Returns when the first process of a holder started on a device.
fn first_start(node: &Node, device: &Device, claim: &Claim) -> Option<Timestamp> {
    let own = node.uses_on(device).filter(|used| {
        node.user_of(used).as_ref() == Some(&claim.holder.user)
            && node.job_of(used.pid) == claim.holder.job.as_ref()
    });
    own.filter_map(|used| node.process(used.pid)?.started_at.get()).min()
}

/// Returns since when a device is idle-held by its history, how much of that time was watched, and whether it may have
/// been so before.
fn idle_history(node: &Node, held: &IdleHeldDevice<'_>) -> (Timestamp, Duration, bool) {
    let held_seconds = held.held_since.map_or(0, |since| held.at.since(since).as_secs() + 1);
    let count = usize::try_from(held_seconds).unwrap_or(usize::MAX).min(MAX_SEED_SECONDS);
    let points = node.history.last(&held.device.uuid, Metric::Utilization, held.at, count);
    let max_watched = stale_after(held.source.interval).as_secs();
    let max_gap = Waste::MAX_GAP.as_secs();
    let reaches_further = held.held_since.is_none() || count == MAX_SEED_SECONDS;
    let (mut first, mut watched, mut is_lower_bound) = (0_u64, 0, reaches_further);
    for (ago, point) in (0_u64..).zip(points.iter().rev()) {
        let distance = ago - first;
        if distance > max_gap {
            is_lower_bound = true;
            break;
        }
        let Some(share) = point else { continue };
        watched += if distance <= max_watched { distance } else { 0 };
        if *share >= ACTIVE_PERCENT {
            is_lower_bound = false;
            break;
        }
        first = ago;
    }
    let since = held.at.minus(Duration::from_secs(first));
    (since, Duration::from_secs(watched), is_lower_bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{
        Allocation, Bytes, DeviceAllocation, DeviceUse, Job, JobList, Percent, ProcessStatics,
        Reading, Source, UnseenProcess, UnseenReason,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// A node of two devices with these loads, sampled at a second; a process of unknown user holds the second one.
    fn node(second: i64, loads: [f32; 2]) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(300));
        let device = |(index, share): (u32, f32)| Device {
            uuid: format!("GPU-{index}").into(),
            index: Reading::Known(index),
            utilization: Reading::checked(Percent::new(share)),
            ..Device::default()
        };
        node.devices = (0..).zip(loads).map(device).collect();
        node.device_sources = vec![Source::host(); 2].into();
        node.uses = [DeviceUse {
            device: "GPU-1".into(),
            pid: 7,
            memory: Reading::Known(Bytes(1 << 30)),
            ..DeviceUse::default()
        }]
        .into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(at(second)),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        node
    }

    /// The job of a user with these devices, which began at a second.
    fn job_of(user: &str, devices: &[u32], began: i64) -> JobLookup {
        job_with(user, DeviceAllocation::Indices(devices.into()), began)
    }

    fn job_with(user: &str, devices: DeviceAllocation, began: i64) -> JobLookup {
        let allocation = Allocation { node: NodeName::new("gpu01").unwrap(), devices };
        let job = Job {
            user: user.into(),
            starts_at: Some(at(began)),
            allocations: [allocation].into(),
            ..Job::example("7")
        };
        JobLookup::of(Some(&Arc::new(JobList { jobs: vec![job], ..JobList::default() })))
    }

    fn alice_has(devices: &[u32]) -> JobLookup {
        job_of("alice", devices, 0)
    }

    fn watched(nodes: &[Node], jobs: &JobLookup) -> Waste {
        let mut waste = Waste::default();
        for pair in nodes.windows(2) {
            observe(&mut waste, [&pair[0], &pair[1]], Some(jobs));
        }
        waste
    }

    fn observe(waste: &mut Waste, nodes: [&Node; 2], jobs: Option<&JobLookup>) {
        let [before, after] = nodes.map(|node| node.with_jobs(jobs.and_then(JobLookup::list)));
        waste.observe(&before, &after, jobs);
    }

    fn seconds_of(waste: &Waste, user: &User) -> Option<u64> {
        let node = waste.node(&NodeName::new("gpu01").unwrap())?;
        node.by_user.get(user).map(Duration::as_secs)
    }

    fn alice() -> User {
        User::Named("alice".into())
    }

    #[test]
    fn idle_time_of_held_devices_is_added_up_for_their_holder() {
        let nodes: Vec<Node> = (0..10)
            .map(|second| node(second, [if second == 5 { 80.0 } else { 0.0 }, 0.0]))
            .collect();
        let waste = watched(&nodes, &alice_has(&[0]));
        // Nine spans of a second, one of them busy; the process that holds the other device is of an unknown user.
        assert_eq!(seconds_of(&waste, &alice()), Some(8));
        assert_eq!(seconds_of(&waste, &User::Unknown), Some(9));
        let machine = NodeName::new("gpu01").unwrap();
        let of_job = waste.of_job(&JobId::new("7").unwrap(), &[&machine].into());
        assert_eq!(of_job, Duration::from_secs(8));
        assert_eq!(waste.since, Some(at(1)));
        let node = waste.node(&NodeName::new("gpu01").unwrap()).unwrap();
        assert_eq!((node.idle["GPU-0"].since, node.idle["GPU-0"].is_lower_bound), (at(6), false));
    }

    #[test]
    fn a_device_that_only_processes_give_to_a_job_is_wasted_by_its_other_users_too() {
        let seconds = |devices: DeviceAllocation| {
            let node = |second| {
                let mut node = node(second, [90.0, 0.0]);
                // A process of the job beside that of an unknown user, and a small one.
                let used = |pid, bytes| DeviceUse {
                    pid,
                    memory: Reading::Known(Bytes(bytes)),
                    ..node.uses[0].clone()
                };
                let all = [used(8, 1 << 30), used(9, 1 << 20), node.uses[0].clone()];
                node.uses = all.into();
                let statics = |job: &str, user: &str| ProcessStatics {
                    job: JobId::new(job),
                    user: Reading::Known(user.into()),
                    ..ProcessStatics::default()
                };
                let unseen =
                    |pid, statics| UnseenProcess { pid, why: UnseenReason::Hidden, statics };
                node.unseen =
                    [unseen(8, statics("7", "root")), unseen(9, statics("", "carol"))].into();
                node
            };
            let jobs = job_with("alice", devices, 0);
            let waste = watched(&[node(0), node(1)], &jobs);
            let users = ["alice", "root", "carol"].map(|user| User::Named(user.into()));
            let [alice, root, carol] = users.map(|user| seconds_of(&waste, &user));
            (alice, root, carol, seconds_of(&waste, &User::Unknown))
        };
        let indices = DeviceAllocation::Indices([1].into());
        assert_eq!(seconds(indices), (Some(1), None, None, None));
        assert_eq!(seconds(DeviceAllocation::Unknown), (Some(1), None, None, Some(1)));
    }

    #[test]
    fn gaps_and_stale_spans_count_as_nothing() {
        let idle = |second| node(second, [0.0, 90.0]);
        // Three seconds are within the limit, four are not.
        let waste = watched(&[idle(0), idle(3), idle(7), idle(8)], &alice_has(&[0]));
        assert_eq!(seconds_of(&waste, &alice()), Some(4));
        // A repeated delivery of the same sample adds nothing.
        let waste = watched(&[idle(0), idle(1), idle(1), idle(1)], &alice_has(&[0]));
        assert_eq!(seconds_of(&waste, &alice()), Some(1));
    }

    #[test]
    fn an_idle_span_begins_where_gtop_saw_it_or_is_a_lower_bound() {
        let name = NodeName::new("gpu01").unwrap();
        let span = |nodes: &[Node], jobs: &JobLookup| {
            let waste = watched(nodes, jobs);
            let span = waste.node(&name)?.idle.get("GPU-0")?.clone();
            Some((span.since, span.is_lower_bound))
        };
        let idle = |second| node(second, [0.0, 90.0]);
        let busy = |second| node(second, [70.0, 90.0]);
        let new = Node::new(name.clone(), Duration::ZERO);
        let alice = alice_has(&[0]);
        assert_eq!(span(&[new.clone(), idle(1), idle(2)], &alice), Some((at(1), true)));
        assert_eq!(span(&[busy(0), idle(1), idle(2)], &alice), Some((at(1), false)));
        assert_eq!(span(&[busy(0), idle(1), busy(2)], &alice), None);
        // A short gap is bridged, after a long one nothing is known of the time before.
        assert_eq!(span(&[busy(0), idle(1), idle(60)], &alice), Some((at(1), false)));
        assert_eq!(span(&[busy(0), idle(1), idle(300)], &alice), Some((at(300), true)));
        assert_eq!(span(&[busy(0), idle(1)], &alice_has(&[])), None);
    }

    #[test]
    fn a_new_holder_begins_a_new_span() {
        let idle = |second| node(second, [0.0, 90.0]);
        let mut waste = watched(&[idle(0), idle(1)], &alice_has(&[0]));
        observe(&mut waste, [&idle(1), &idle(2)], Some(&job_of("bob", &[0], 1)));
        let node = waste.node(&NodeName::new("gpu01").unwrap()).unwrap();
        assert_eq!(node.idle["GPU-0"].since, at(2));
        assert_eq!(seconds_of(&waste, &alice()), Some(1));
        assert_eq!(seconds_of(&waste, &User::Named("bob".into())), Some(1));
    }

    /// A node whose first device was idle at these seconds, and busy at any in `busy`.
    fn node_with_history(idle: impl IntoIterator<Item = i64>, busy: &[i64]) -> Arc<Node> {
        let mut points: Vec<(i64, f32)> = busy.iter().map(|second| (*second, 80.0)).collect();
        points.extend(idle.into_iter().map(|second| (second, 1.0)));
        points.sort_by_key(|(second, _)| *second);
        let mut node = node(points.last().unwrap().0, [0.0, 90.0]);
        for (second, share) in points {
            node.history.record(&"GPU-0".into(), Metric::Utilization, at(second), share);
        }
        Arc::new(node)
    }

    #[test]
    fn where_watching_begins_anew_the_history_tells_what_it_can() {
        let name = NodeName::new("gpu01").unwrap();
        for (what, node, began, (since, is_lower_bound), seconds) in [
            ("idle after work", node_with_history(40..=100, &[38, 39]), 0, (40, false), 61),
            ("nothing known before", node_with_history(40..=100, &[]), -4_000, (40, true), 60),
            ("every 3 s", node_with_history((40..=100).step_by(3), &[38]), 0, (40, false), 62),
            (
                "with a gap of 30 s",
                node_with_history((40..60).chain(90..=100), &[39]),
                0,
                (40, false),
                30,
            ),
            (
                "after a long gap",
                node_with_history((0..9).chain(100..=110), &[]),
                0,
                (100, true),
                10,
            ),
            ("idle before the job", node_with_history(0..=100, &[]), 90, (90, false), 10),
        ] {
            let jobs = job_of("alice", &[0], began);
            let waste = Waste::seeded([&node.with_jobs(jobs.list())], Some(&jobs));
            let span = &waste.node(&name).unwrap().idle["GPU-0"];
            assert_eq!((span.since, span.is_lower_bound), (at(since), is_lower_bound), "{what}");
            assert_eq!(seconds_of(&waste, &alice()), Some(seconds), "{what}");
            assert_eq!(waste.since, Some(at(since)), "{what}");
        }
    }

    #[test]
    fn without_a_current_job_list_only_what_processes_hold_counts() {
        let idle = |second| node(second, [0.0, 0.0]);
        let mut waste = watched(&[idle(0), idle(1), idle(2)], &alice_has(&[0]));
        for second in 2..200 {
            observe(&mut waste, [&idle(second), &idle(second + 1)], None);
        }
        assert_eq!(seconds_of(&waste, &alice()), Some(2));
        assert_eq!(seconds_of(&waste, &User::Unknown), Some(200));
        // It may have been held all the time: how long is not known.
        observe(&mut waste, [&idle(200), &idle(201)], Some(&alice_has(&[0])));
        assert_eq!(seconds_of(&waste, &alice()), Some(3));
        let node = waste.node(&NodeName::new("gpu01").unwrap()).unwrap();
        assert_eq!((node.idle["GPU-0"].since, node.idle["GPU-0"].is_lower_bound), (at(201), true));
    }

    #[test]
    fn a_job_that_is_listed_late_has_left_its_devices_idle_since_it_began() {
        let name = NodeName::new("gpu01").unwrap();
        let [before, after] = [99, 100].map(|second| node_with_history(0..=second, &[]));
        for (began, since, is_lower_bound) in [(40, 40, false), (-4_000, 0, true)] {
            let mut waste = Waste::default();
            observe(&mut waste, [&before, &after], Some(&job_of("alice", &[0], began)));
            let span = &waste.node(&name).unwrap().idle["GPU-0"];
            assert_eq!((span.since, span.is_lower_bound), (at(since), is_lower_bound), "{began}");
            // Only what was watched is wasted.
            assert_eq!(seconds_of(&waste, &alice()), Some(1));
        }
    }
}
