//! Device time that users have held and left idle, added up while gtop watches.
//!
//! A device is idle-held from one sample to the next if it is so at the next one. Time between samples that are further
//! apart than a source stays fresh counts as nothing: what happened in a gap is unknown. A device of two users counts
//! for both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::history::Metric;
use crate::fleet::idle::{ACTIVE_PERCENT, is_idle, is_idle_held};
use crate::fleet::jobs::{JobAllocation, allocated_on};
use crate::fleet::node::Node;
use crate::fleet::user::{User, user_of};
use crate::model::{Device, JobList, NodeName, stale_after};
use crate::time::Timestamp;

/// A device is taken to have stayed idle between two samples that are no further apart.
const MAX_BRIDGED_GAP: Duration = Duration::from_secs(90);
/// Maximum number of nodes; further ones are not counted.
const MAX_NODES: usize = 65_536;
/// Maximum number of users of one node; further ones are not counted.
const MAX_USERS_PER_NODE: usize = 256;
/// How far back the history of nodes is read where watching begins anew, in seconds.
const MAX_SEED_SECONDS: usize = 3_600;

/// The waste on each node since gtop watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waste {
    /// When the first sample that counts was taken; `None` before it.
    pub since: Option<Timestamp>,
    nodes: BTreeMap<NodeName, Arc<NodeWaste>>,
}

/// The waste on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeWaste {
    /// Idle device time of each user.
    pub by_user: BTreeMap<User, Duration>,
    /// The devices that are idle-held, by UUID.
    pub idle: BTreeMap<Arc<str>, IdleSpan>,
}

/// Since when a device is held by the same users and idle.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleSpan {
    /// The first sample at which it was.
    pub since: Timestamp,
    /// It may have begun earlier: nothing is known of the time before.
    pub is_lower_bound: bool,
    /// The last sample at which it was.
    last: Timestamp,
    users: BTreeSet<User>,
}

/// The jobs that the scheduler placed on each node.
#[derive(Debug, Default)]
pub struct AllocationsByNode {
    list: Option<Arc<JobList>>,
    /// Per node, the indices of its jobs in the list, and of its allocations in each job.
    by_node: BTreeMap<NodeName, Vec<(usize, usize)>>,
}

impl AllocationsByNode {
    /// Indexes the allocations of a list.
    pub fn of(list: Option<&Arc<JobList>>) -> Self {
        let mut index = Self { list: list.cloned(), by_node: BTreeMap::new() };
        for (at, job) in list.iter().flat_map(|list| &list.jobs).enumerate() {
            for (position, allocation) in job.allocations.iter().enumerate() {
                index.by_node.entry(allocation.node.clone()).or_default().push((at, position));
            }
        }
        index
    }

    fn on(&self, node: &NodeName) -> Vec<JobAllocation<'_>> {
        let Some(list) = &self.list else { return Vec::new() };
        let found = self.by_node.get(node).into_iter().flatten();
        let allocation = |(job, position): &(usize, usize)| {
            let job = list.jobs.get(*job)?;
            Some((job, job.allocations.get(*position)?))
        };
        found.filter_map(allocation).collect()
    }
}

impl Waste {
    /// Returns what the histories of nodes tell: devices that are idle-held now count from where they became idle.
    pub fn seeded(nodes: &[Arc<Node>], allocations: &AllocationsByNode) -> Self {
        let mut waste = Self::default();
        for node in nodes {
            for (source_at, device, users) in idle_held_devices(node, &allocations.on(&node.name)) {
                let Some((since, sampled, is_lower_bound)) = idle_history(node, device, source_at)
                else {
                    continue;
                };
                waste.since = Some(waste.since.map_or(since, |first| first.min(since)));
                let Some(entry) = waste.entry(&node.name) else { continue };
                let span = IdleSpan { since, is_lower_bound, last: source_at, users };
                for user in &span.users {
                    entry.add(user, sampled);
                }
                entry.idle.insert(Arc::clone(&device.uuid), span);
            }
        }
        waste
    }

    /// Returns true if devices of a node have been sampled since `before`.
    pub(super) fn concerns(before: &Node, after: &Node) -> bool {
        let taken_at = |node: &Node, source| node.source(source).and_then(|state| state.taken_at);
        let sources = || after.device_sources.iter();
        sources().any(|source| taken_at(before, source) != taken_at(after, source))
    }

    /// Adds what the newest state of a node tells, given the one before.
    pub fn observe(&mut self, before: &Node, after: &Node, allocations: &AllocationsByNode) {
        if !Self::concerns(before, after) {
            return;
        }
        let known = self.nodes.get(&after.name);
        let is_any_idle = after.whole_devices().any(|(_, device)| is_idle(device));
        let taken_at = after.device_sources.first().and_then(|one| after.source(one)?.taken_at);
        self.since = self.since.or(taken_at);
        if !is_any_idle && known.is_none_or(|known| known.idle.is_empty()) {
            return;
        }
        let held = idle_held_devices(after, &allocations.on(&after.name));
        if held.is_empty() && known.is_none_or(|known| known.idle.is_empty()) {
            return;
        }
        let Some(entry) = self.entry(&after.name) else { return };
        let is_held = |uuid: &str| held.iter().any(|(_, device, _)| *device.uuid == *uuid);
        entry.idle.retain(|uuid, _| is_held(uuid));
        for (at, device, users) in held {
            let watched = watched_span(before, after, device, at);
            for user in users.iter().filter(|_| watched > Some(Duration::ZERO)) {
                entry.add(user, watched.unwrap_or_default());
            }
            match entry.idle.get_mut(&device.uuid) {
                Some(span) if span.users == users && at.since(span.last) <= MAX_BRIDGED_GAP => {
                    span.last = at;
                }
                _ => {
                    let is_lower_bound = watched.is_none();
                    let span = IdleSpan { since: at, is_lower_bound, last: at, users };
                    entry.idle.insert(Arc::clone(&device.uuid), span);
                }
            }
        }
    }

    /// Returns the waste on each node, also on those that are no longer watched.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &NodeWaste)> {
        self.nodes.iter().map(|(name, node)| (name, &**node))
    }

    /// Returns the waste on a node.
    pub fn node(&self, name: &NodeName) -> Option<&NodeWaste> {
        self.nodes.get(name).map(|node| &**node)
    }

    /// Returns the same with other names of nodes, users and devices.
    #[must_use]
    pub(super) fn renamed(
        &self,
        mut name: impl FnMut(&NodeName) -> NodeName,
        mut user: impl FnMut(&User) -> User,
        mut uuid: impl FnMut(&str) -> Arc<str>,
    ) -> Self {
        let mut renamed = Self { since: self.since, nodes: BTreeMap::new() };
        for (node, waste) in &self.nodes {
            let by_user = waste.by_user.iter().map(|(one, time)| (user(one), *time)).collect();
            let mut idle = BTreeMap::new();
            for (device, span) in &waste.idle {
                let users = span.users.iter().map(&mut user).collect();
                idle.insert(uuid(device), IdleSpan { users, ..span.clone() });
            }
            renamed.nodes.insert(name(node), Arc::new(NodeWaste { by_user, idle }));
        }
        renamed
    }

    fn entry(&mut self, name: &NodeName) -> Option<&mut NodeWaste> {
        if self.nodes.len() >= MAX_NODES && !self.nodes.contains_key(name) {
            return None;
        }
        Some(Arc::make_mut(self.nodes.entry(name.clone()).or_default()))
    }
}

impl NodeWaste {
    fn add(&mut self, user: &User, time: Duration) {
        if let Some(sum) = self.by_user.get_mut(user) {
            *sum = sum.saturating_add(time);
        } else if self.by_user.len() < MAX_USERS_PER_NODE {
            self.by_user.insert(user.clone(), time);
        }
    }
}

/// Returns the time from the sample before to that at `at` for a device; `None` if there is none, or if they are further
/// apart than its source stays fresh.
fn watched_span(before: &Node, after: &Node, device: &Device, at: Timestamp) -> Option<Duration> {
    let position = after.devices.iter().position(|one| one.uuid == device.uuid)?;
    let source = after.device_sources.get(position)?;
    before.device(&device.uuid)?;
    let earlier = before.source(source)?.taken_at?;
    let span = at.since(earlier);
    (span <= stale_after(after.source(source)?.interval)).then_some(span)
}

/// Returns the devices of a node that are idle-held, when they were sampled, and by whom they are held.
fn idle_held_devices<'a>(
    node: &'a Node,
    listed: &[JobAllocation<'_>],
) -> Vec<(Timestamp, &'a Device, BTreeSet<User>)> {
    let allocated = allocated_on(node, listed);
    let owners = |device: &Device| -> BTreeSet<User> {
        let is_own = |uuid: &Arc<str>| *node.whole_uuid(uuid) == device.uuid;
        let jobs = allocated.iter().filter(|(_, uuid)| is_own(uuid));
        jobs.map(|(job, _)| User::Named(Arc::clone(&job.user))).collect()
    };
    let held = |(position, device): (usize, &'a Device)| {
        let at = node.source(node.device_sources.get(position)?)?.taken_at?;
        if !is_idle(device) {
            return None;
        }
        let mut users = owners(device);
        if !is_idle_held(node, device, !users.is_empty()) {
            return None;
        }
        if users.is_empty() {
            let is_own = |uuid: &Arc<str>| *node.whole_uuid(uuid) == device.uuid;
            let of_device = node.uses.iter().filter(|used| is_own(&used.device));
            users = of_device.filter_map(|used| user_of(node, used)).collect();
        }
        if users.is_empty() {
            users.insert(User::Hidden);
        }
        Some((at, device, users))
    };
    node.whole_devices().filter_map(held).collect()
}

/// Returns since when a device is idle by its history, for how many seconds of these it was sampled, and whether it may
/// have been idle before.
fn idle_history(
    node: &Node,
    device: &Device,
    at: Timestamp,
) -> Option<(Timestamp, Duration, bool)> {
    let points = node.history.last(&device.uuid, Metric::Utilization, at, MAX_SEED_SECONDS);
    let max_gap = MAX_BRIDGED_GAP.as_secs();
    let (mut first, mut sampled, mut gap, mut is_lower_bound) = (0, 0, 0, true);
    for (ago, point) in (0_u64..).zip(points.iter().rev()) {
        match point {
            Some(share) if *share < ACTIVE_PERCENT => (first, sampled, gap) = (ago, sampled + 1, 0),
            Some(_) => {
                is_lower_bound = false;
                break;
            }
            None => gap += 1,
        }
        if gap > max_gap {
            break;
        }
    }
    let since = at.minus(Duration::from_secs(first));
    (sampled > 0).then_some((since, Duration::from_secs(sampled), is_lower_bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::node::SourceState;
    use crate::model::{
        Allocation, Bytes, DeviceAllocation, DeviceUse, Job, Percent, Reading, Source,
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

    fn alice_has(devices: &[u32]) -> AllocationsByNode {
        let devices = DeviceAllocation::Indices(devices.into());
        let allocation = Allocation { node: NodeName::new("gpu01").unwrap(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("7") };
        AllocationsByNode::of(Some(&Arc::new(JobList { jobs: vec![job], ..JobList::default() })))
    }

    fn watched(nodes: &[Node], allocations: &AllocationsByNode) -> Waste {
        let mut waste = Waste::default();
        for pair in nodes.windows(2) {
            waste.observe(&pair[0], &pair[1], allocations);
        }
        waste
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
        assert_eq!(waste.since, Some(at(1)));
        let node = waste.node(&NodeName::new("gpu01").unwrap()).unwrap();
        assert_eq!((node.idle["GPU-0"].since, node.idle["GPU-0"].is_lower_bound), (at(6), false));
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
        let span = |nodes: &[Node], allocations: &AllocationsByNode| {
            let waste = watched(nodes, allocations);
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
        let bob = {
            let known = alice_has(&[0]);
            let list = known.list.as_deref().unwrap().clone();
            let jobs = vec![Job { user: "bob".into(), ..list.jobs[0].clone() }];
            AllocationsByNode::of(Some(&Arc::new(JobList { jobs, ..list })))
        };
        waste.observe(&idle(1), &idle(2), &bob);
        let node = waste.node(&NodeName::new("gpu01").unwrap()).unwrap();
        assert_eq!(node.idle["GPU-0"].since, at(2));
        assert_eq!(seconds_of(&waste, &alice()), Some(1));
        assert_eq!(seconds_of(&waste, &User::Named("bob".into())), Some(1));
    }

    #[test]
    fn where_watching_begins_anew_the_history_tells_what_it_can() {
        let mut node = node(100, [0.0, 90.0]);
        for second in 0..=100_i64 {
            let share = if second < 40 { 80.0 } else { 1.0 };
            let share = Percent::new(share).unwrap();
            node.history.record(&"GPU-0".into(), Metric::Utilization, at(second), share);
        }
        let waste = Waste::seeded(&[Arc::new(node)], &alice_has(&[0]));
        assert_eq!((waste.since, seconds_of(&waste, &alice())), (Some(at(40)), Some(61)));
        let node = waste.node(&NodeName::new("gpu01").unwrap()).unwrap();
        assert_eq!((node.idle["GPU-0"].since, node.idle["GPU-0"].is_lower_bound), (at(40), false));
    }
}
