//! Computes the devices, memory and power of each user on the visible nodes, once per snapshot; with a filter, of the
//! devices that match.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::insight::FleetView;
use crate::insight::node_status::NodeStatus;
use crate::insight::{RowId, process_rows};
use crate::{Fleet, IdleSpan, LastState, Node, User, is_idle_held};
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Device, JobId, NodeName};

/// Usage of one user. Sums cover fresh nodes only.
#[derive(Clone, Debug, Default)]
pub struct UserUsage {
    /// Devices allocated to the user or used by the user's processes; a device of two users counts for both.
    pub devices: usize,
    /// Devices of these that are busy.
    pub busy: usize,
    /// Devices of these that are idle-held.
    pub idle_held: usize,
    /// Device memory of the user's processes; `None` when no driver reports it.
    pub memory: Option<Bytes>,
    /// Power of the user's devices in watts; the power of a shared device is divided evenly.
    pub power: Option<f32>,
    pub processes: usize,
    /// Device time that the user has held and left idle since gtop watches, also on devices held no longer.
    pub wasted: Duration,
    /// The idle-held devices, those that have been idle for longest first.
    pub idle: Vec<IdleDevice>,
    pub jobs: BTreeSet<JobId>,
    /// Nodes where the user holds devices or has processes.
    pub nodes: Vec<NodeUsage>,
    /// Number of `nodes` that are fresh.
    pub fresh_nodes: usize,
}

/// A device that is held and left idle, by a user or by a job.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleDevice {
    /// Index of the node in the fleet.
    pub node_index: usize,
    pub uuid: Arc<str>,
    pub job: Option<JobId>,
    /// Since when; `None` if it was not idle at the samples that gtop has watched.
    pub span: Option<IdleSpan>,
}

impl IdleDevice {
    /// Returns a device of the node at an index of the fleet, if it is idle-held, with the job that has it.
    pub fn of(
        fleet: &Fleet,
        (node_index, node): (usize, &Node),
        device: &Device,
        job: Option<&JobId>,
    ) -> Option<Self> {
        let is_allocated = node.holdings.device(&device.uuid).is_allocated();
        if !is_idle_held(node, device, is_allocated == Some(true)) {
            return None;
        }
        // Idle times count under one name of the machine.
        let waste = fleet.waste.node(fleet.machine_name(&node.name));
        let span = waste.and_then(|waste| waste.idle.get(&device.uuid)).cloned();
        Some(Self { node_index, uuid: Arc::clone(&device.uuid), job: job.cloned(), span })
    }

    /// Sorts devices, those first that have been idle for longest.
    pub fn sort(devices: &mut [Self]) {
        // Devices of which nothing is known have begun to be idle just now.
        devices.sort_by_key(|idle| {
            idle.span.as_ref().map_or(Timestamp::from_micros(i64::MAX), |span| span.since)
        });
    }
}

/// Usage of one user on one node.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    /// Index of the node in the fleet.
    pub node_index: usize,
    pub is_fresh: bool,
    pub devices: usize,
    /// The user's device uses: the position in the node's list, and the row's id.
    pub uses: Vec<(usize, RowId)>,
}

/// Usage of all users.
#[derive(Debug, Default)]
pub struct Users {
    pub entries: Vec<(User, UserUsage)>,
    /// Number of devices on fresh nodes; with a filter, of those that match.
    pub devices: usize,
    /// Devices of these that are held by a user.
    pub held: usize,
    /// Power of the held devices in watts.
    pub power: Option<f32>,
    /// Number of fresh nodes, and of all nodes.
    pub nodes: (usize, usize),
    /// When the waste began to be counted; `None` if nothing has been watched.
    pub watched_since: Option<Timestamp>,
}

/// A job with its owner and the devices it was allocated on one node.
type AllocatedJob = (User, JobId, Vec<Arc<str>>);

/// The users of one node.
struct NodeUsers {
    node_index: usize,
    is_fresh: bool,
    /// Users of each device, by UUID, each with a job if there is one.
    holders: BTreeMap<Arc<str>, BTreeMap<User, Option<JobId>>>,
    usages: BTreeMap<User, NodeUsage>,
}

impl NodeUsers {
    /// Adds a user of a device, and returns the user's usage of the node.
    fn usage(&mut self, user: &User) -> &mut NodeUsage {
        let (node_index, is_fresh) = (self.node_index, self.is_fresh);
        let new = NodeUsage { node_index, is_fresh, devices: 0, uses: Vec::new() };
        self.usages.entry(user.clone()).or_insert(new)
    }

    fn add(&mut self, user: &User, device: &Arc<str>, job: Option<&JobId>) -> &mut NodeUsage {
        let of_device = self.holders.entry(Arc::clone(device)).or_default();
        let is_new = !of_device.contains_key(user);
        of_device.entry(user.clone()).or_insert_with(|| job.cloned());
        let usage = self.usage(user);
        usage.devices += usize::from(is_new);
        usage
    }
}

impl Users {
    /// Computes the usage. Too slow for every frame with thousands of nodes, so it is cached per snapshot.
    pub(crate) fn build(fleet_view: &FleetView) -> Self {
        let mut usage = Self::default();
        let mut users: BTreeMap<User, UserUsage> = BTreeMap::new();
        let mut allocated = allocated_jobs(fleet_view);
        for index in &fleet_view.matching {
            let Some(node) = fleet_view.fleet.nodes.get(*index) else { continue };
            if fleet_view.fleet.same_as.contains_key(&node.name) {
                continue;
            }
            let is_fresh = NodeStatus::of(node, fleet_view.now).is_fresh();
            usage.nodes.1 += 1;
            usage.nodes.0 += usize::from(is_fresh);
            let allocated = allocated.remove(index).unwrap_or_default();
            usage.add_node(&mut users, fleet_view, (*index, node, is_fresh), allocated);
        }
        usage.watched_since = fleet_view.fleet.waste.since;
        add_waste(fleet_view, &mut users);
        for user_usage in users.values_mut() {
            IdleDevice::sort(&mut user_usage.idle);
        }
        usage.entries = users.into_iter().collect();
        usage
    }

    /// Adds the usage on one node.
    fn add_node(
        &mut self,
        users: &mut BTreeMap<User, UserUsage>,
        fleet_view: &FleetView,
        (node_index, node, is_fresh): (usize, &Node, bool),
        allocated: Vec<AllocatedJob>,
    ) {
        let (matching, others): (Vec<_>, Vec<_>) =
            node.units().partition(|(at, _)| fleet_view.matches_device(node, *at));
        let others: BTreeSet<&Arc<str>> = others.iter().map(|(_, device)| &device.uuid).collect();
        let (holders, usages) = (BTreeMap::new(), BTreeMap::new());
        let mut node_users = NodeUsers { node_index, is_fresh, holders, usages };
        for (user, job, devices) in allocated {
            node_users.usage(&user);
            for device in &devices {
                node_users.add(&user, device, Some(&job));
            }
            users.entry(user).or_default().jobs.insert(job);
        }
        let mut counted = BTreeSet::new();
        for (use_index, row_id) in process_rows(node) {
            let Some(device_use) = node.uses.get(use_index) else { continue };
            if others.contains(&device_use.device) {
                continue;
            }
            let Some(user) = node.user_of(device_use) else { continue };
            let job = node.job_of(device_use.pid);
            node_users.add(&user, &device_use.device, job).uses.push((use_index, row_id));
            let user_usage = users.entry(user.clone()).or_default();
            user_usage.jobs.extend(job.cloned());
            if is_fresh {
                // A process on several devices counts once.
                user_usage.processes += usize::from(counted.insert(device_use.pid));
                if let Some(memory) = device_use.memory.get() {
                    let sum = user_usage.memory.unwrap_or_default();
                    user_usage.memory = Some(Bytes(sum.0.saturating_add(memory.0)));
                }
            }
        }
        // The driver of a TPU chip reports that it is held, without the process that holds it.
        for (_, device) in matching.iter().filter(|(_, device)| device.is_open() == Some(true)) {
            if !node_users.holders.contains_key(&device.uuid) {
                node_users.add(&User::Hidden, &device.uuid, None);
            }
        }
        for (user, node_usage) in node_users.usages {
            let user_usage = users.entry(user).or_default();
            user_usage.fresh_nodes += usize::from(is_fresh);
            user_usage.nodes.push(node_usage);
        }
        if is_fresh {
            let of_node = (node_index, node, matching);
            self.count_devices(users, fleet_view, of_node, &node_users.holders);
        }
    }

    /// Adds these devices of a fresh node to their holders.
    fn count_devices<'a>(
        &mut self,
        users: &mut BTreeMap<User, UserUsage>,
        fleet_view: &FleetView,
        (node_index, node, devices): (usize, &'a Node, Vec<(usize, &'a Device)>),
        holders: &BTreeMap<Arc<str>, BTreeMap<User, Option<JobId>>>,
    ) {
        for (position, device) in devices {
            self.devices += 1;
            let Some(holders) = holders.get(&device.uuid) else { continue };
            let power = node.unit_power(device);
            if let Some(power) = power {
                self.power = Some(self.power.unwrap_or_default() + power);
            }
            self.held += 1;
            let is_busy = LastState::of(node, position, device) == LastState::Busy;
            let idle = IdleDevice::of(&fleet_view.fleet, (node_index, node), device, None);
            let count = u16::try_from(holders.len()).unwrap_or(u16::MAX);
            for (user, job) in holders {
                let user_usage = users.entry(user.clone()).or_default();
                user_usage.devices += 1;
                user_usage.busy += usize::from(is_busy);
                if let Some(idle) = &idle {
                    user_usage.idle_held += 1;
                    user_usage.idle.push(IdleDevice { job: job.clone(), ..idle.clone() });
                }
                if let Some(power) = power {
                    let sum =
                        user_usage.power.unwrap_or_default() + power / f32::from(count.max(1));
                    user_usage.power = Some(sum);
                }
            }
        }
    }

    pub fn usage_of(&self, user: &User) -> Option<&UserUsage> {
        let index = self.entries.binary_search_by(|(known, _)| known.cmp(user)).ok()?;
        self.entries.get(index).map(|(_, user_usage)| user_usage)
    }
}

impl UserUsage {
    /// Compares by a column, largest first.
    pub fn compare(&self, other: &Self, column: &str) -> Ordering {
        match column {
            "busy" => other.busy.cmp(&self.busy),
            "wasted" => shown_device_time(other.wasted)
                .cmp(&shown_device_time(self.wasted))
                .then(other.idle_held.cmp(&self.idle_held)),
            "idle-held" => other.idle_held.cmp(&self.idle_held),
            "mem" => other.memory.cmp(&self.memory),
            "power" => other.power.unwrap_or(-1.0).total_cmp(&self.power.unwrap_or(-1.0)),
            "nodes" => other.nodes.len().cmp(&self.nodes.len()),
            "jobs" => other.jobs.len().cmp(&self.jobs.len()),
            "procs" => other.processes.cmp(&self.processes),
            _ => other.devices.cmp(&self.devices),
        }
    }
}

/// Returns device time as exact as it is shown: in seconds, from one hour on in tenths of hours, from a hundred on in hours.
/// What looks the same is the same for sorting.
pub fn shown_device_time(time: Duration) -> Duration {
    let step = match time.as_secs() {
        0..3_600 => 1,
        3_600..360_000 => 360,
        _ => 3_600,
    };
    Duration::from_secs((time.as_secs() + step / 2) / step * step)
}

/// Returns the matching devices that a scheduler allocated to jobs, by position of the node.
fn allocated_jobs(fleet_view: &FleetView) -> BTreeMap<usize, Vec<AllocatedJob>> {
    let mut allocated: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    if fleet_view.fleet.jobs.is_none() {
        return allocated;
    }
    for entry in fleet_view.job_index().entries.iter().filter(|entry| entry.is_listed) {
        let user = User::Named(Arc::clone(&entry.job.user));
        for job_node in entry.nodes.iter().filter(|job_node| job_node.is_shown) {
            let Some((index, node)) = job_node.node_index.zip(job_node.node(fleet_view)) else {
                continue;
            };
            // Of a node that is down, only the job may be known.
            if !job_node.holdings.is_known() && NodeStatus::of(node, fleet_view.now).is_fresh() {
                continue;
            }
            let devices = job_node.devices(node).map(|(_, device)| Arc::clone(&device.uuid));
            let job = (user.clone(), entry.job.id.clone(), devices.collect());
            allocated.entry(index).or_default().push(job);
        }
    }
    allocated
}

/// Adds the device time that users have wasted: on all nodes or, with a filter, that of the users with matching devices on
/// the nodes that match.
fn add_waste(fleet_view: &FleetView, users: &mut BTreeMap<User, UserUsage>) {
    let fleet = &fleet_view.fleet;
    let shown: Option<BTreeSet<&NodeName>> = (!fleet_view.filter.is_empty())
        .then(|| fleet_view.nodes().map(|node| &node.name).collect());
    for (name, waste) in fleet.waste.nodes() {
        if shown.as_ref().is_some_and(|shown| !shown.contains(name)) {
            continue;
        }
        for (user, time) in &waste.by_user {
            if shown.is_some() && !users.contains_key(user) {
                continue;
            }
            let user_usage = users.entry(user.clone()).or_default();
            user_usage.wasted = user_usage.wasted.saturating_add(*time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobLookup, Process, SourceState, Waste};
    use gtop_model::{
        Allocation, DeviceAllocation, DeviceFault, DeviceUse, Job, JobList, Link, Percent,
        ProcessKey, ProcessStatics, Reading, Reason, Source, TpuDetails, UnseenProcess,
        UnseenReason, Watts,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn node(name: &str, devices: Vec<Device>, taken_at: Timestamp) -> Node {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.device_sources = vec![Source::host(); devices.len()].into();
        node.devices = devices.into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(taken_at),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        node
    }

    fn device(uuid: &str, share: f32) -> Device {
        Device {
            uuid: uuid.into(),
            utilization: Reading::checked(Percent::new(share)),
            power: Reading::checked(Watts::new(300.0)),
            ..Device::default()
        }
    }

    fn add_use(node: &mut Node, device: &str, pid: u32) {
        let used = DeviceUse {
            device: device.into(),
            pid,
            memory: Reading::Known(Bytes(1 << 30)),
            ..DeviceUse::default()
        };
        node.uses = node.uses.iter().cloned().chain([used]).collect();
    }

    fn add_process(node: &mut Node, pid: u32, statics: ProcessStatics) {
        let key = ProcessKey { pid, start_ticks: 1 };
        let process = Process { key, statics: Arc::new(statics), ..Process::default() };
        node.processes = node.processes.iter().cloned().chain([process]).collect();
    }

    fn owned_by(user: &str) -> ProcessStatics {
        ProcessStatics { user: Reading::Known(user.into()), ..ProcessStatics::default() }
    }

    fn usage(nodes: Vec<Node>, jobs: Option<JobList>) -> Arc<Users> {
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let fleet = Fleet { jobs: jobs.map(Arc::new), ..Fleet::new(nodes.into()) };
        Arc::clone(FleetView::new(fleet, NOW).users())
    }

    fn counts(usage: &Users, user: &str) -> (usize, usize, usize) {
        let found = usage.entries.iter().find(|(known, _)| known.text() == user);
        let user_usage = &found.unwrap_or_else(|| panic!("no {user}")).1;
        (user_usage.devices, user_usage.busy, user_usage.idle_held)
    }

    #[test]
    fn a_shared_device_counts_for_both_users_and_its_power_is_divided() {
        let mut node = node("a", vec![device("GPU-1", 90.0), device("GPU-2", 1.0)], NOW);
        add_use(&mut node, "GPU-1", 1);
        add_use(&mut node, "GPU-1", 2);
        add_use(&mut node, "GPU-2", 2);
        add_process(&mut node, 1, owned_by("ada"));
        add_process(&mut node, 2, owned_by("bob"));
        let usage = usage(vec![node], None);
        assert_eq!((usage.devices, usage.held, usage.power), (2, 2, Some(600.0)));
        assert_eq!((counts(&usage, "ada"), counts(&usage, "bob")), ((1, 1, 0), (2, 1, 1)));
        let power = |user: &str| usage.usage_of(&User::Named(user.into())).unwrap().power;
        assert_eq!((power("ada"), power("bob")), (Some(150.0), Some(450.0)));
    }

    #[test]
    fn slices_count_instead_of_their_device_and_share_its_power() {
        let slice = |uuid: &str, load| Device {
            parent: Some("GPU-1".into()),
            power: Reading::Unknown(Reason::NotSupported),
            ..device(uuid, load)
        };
        let mut devices = vec![device("GPU-1", 50.0), slice("MIG-1", 90.0), slice("MIG-2", 0.0)];
        devices.push(slice("MIG-3", 0.0));
        let mut node = node("a", devices, NOW);
        add_use(&mut node, "MIG-1", 1);
        add_use(&mut node, "MIG-2", 1);
        add_process(&mut node, 1, owned_by("ada"));
        let usage = usage(vec![node], None);
        assert_eq!((usage.devices, usage.held, counts(&usage, "ada")), (3, 2, (2, 1, 1)));
        assert_eq!(usage.power, Some(2.0 * 300.0 / 3.0));
    }

    #[test]
    fn a_process_on_several_devices_counts_once() {
        let mut node = node("a", vec![device("GPU-1", 90.0), device("GPU-2", 1.0)], NOW);
        for (device, pid) in [("GPU-1", 1), ("GPU-2", 1), ("GPU-2", 2)] {
            add_use(&mut node, device, pid);
        }
        add_process(&mut node, 1, owned_by("ada"));
        add_process(&mut node, 2, owned_by("ada"));
        let usage = usage(vec![node], None);
        let ada = usage.usage_of(&User::Named("ada".into())).unwrap();
        assert_eq!((ada.processes, ada.memory), (2, Some(Bytes(3 << 30))));
    }

    #[test]
    fn unnamed_users_are_distinguished() {
        let mut node = node("a", vec![device("GPU-1", 90.0)], NOW);
        for pid in 1..=4 {
            add_use(&mut node, "GPU-1", pid);
        }
        let number = ProcessStatics { uid: Reading::Known(1_234), ..ProcessStatics::default() };
        add_process(&mut node, 1, number);
        let unseen = |pid, why| UnseenProcess { pid, why, statics: ProcessStatics::default() };
        node.unseen = [unseen(2, UnseenReason::Hidden), unseen(3, UnseenReason::Gone)].into();
        let usage = usage(vec![node], None);
        let counts = usage.entries.iter().map(|(user, usage)| (user.text(), usage.processes));
        let found: Vec<_> = counts.collect();
        let expected = [("uid 1234", 1), ("unknown", 1), ("hidden", 1)];
        assert_eq!(found, expected.map(|(user, count)| (user.to_owned(), count)));
    }

    #[test]
    fn a_held_chip_without_visible_process_counts_for_the_hidden_user() {
        let is_held = Reading::Known(true);
        let tpu = Arc::new(TpuDetails { is_held, ..TpuDetails::default() });
        let chip = Device { tpu: Some(tpu), ..device("tpu-1", 0.0) };
        let usage = usage(vec![node("a", vec![chip], NOW)], None);
        assert_eq!(counts(&usage, "hidden"), (1, 0, 1));
    }

    #[test]
    fn allocated_devices_are_held_and_stale_nodes_are_not_counted() {
        let fresh = node("a", vec![device("GPU-1", 0.0), device("GPU-2", 0.0)], NOW);
        let long_ago = Timestamp::from_micros(0);
        let mut stale = node("b", vec![device("GPU-3", 90.0)], long_ago);
        add_use(&mut stale, "GPU-3", 1);
        add_process(&mut stale, 1, owned_by("bob"));
        let devices = DeviceAllocation::Indices([1].into());
        let allocation = Allocation { node: fresh.name.clone(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("7") };
        let jobs = JobList { jobs: vec![job], ..JobList::default() };
        let usage = usage(vec![fresh, stale], Some(jobs));
        assert_eq!((usage.devices, usage.held, usage.nodes), (2, 1, (1, 2)));
        assert_eq!((counts(&usage, "alice"), counts(&usage, "bob")), ((1, 0, 1), (0, 0, 0)));
        let bob = usage.usage_of(&User::Named("bob".into())).unwrap();
        assert_eq!((bob.fresh_nodes, bob.nodes.len(), bob.memory), (0, 1, None));
    }

    #[test]
    fn a_faulty_device_is_neither_busy_nor_idle_held() {
        let fault = Some(DeviceFault::Lost);
        let devices = [("GPU-1", 90.0), ("GPU-2", 0.0), ("GPU-3", 90.0), ("GPU-4", 0.0)];
        let mut node = node("a", devices.map(|(uuid, share)| device(uuid, share)).into(), NOW);
        for at in 0..4 {
            let uuid = Arc::clone(&node.devices[at].uuid);
            add_use(&mut node, &uuid, 1);
        }
        add_process(&mut node, 1, owned_by("bob"));
        for at in 2..4 {
            node.devices[at].fault.clone_from(&fault);
        }
        assert_eq!(counts(&usage(vec![node], None), "bob"), (4, 1, 1));
    }

    #[test]
    fn a_node_that_is_down_counts_for_the_user_whose_job_is_there() {
        let up = node("a", vec![device("GPU-1", 90.0)], NOW);
        let down = Node { link: Link::Idle, ..node("b", vec![], NOW) };
        let allocation = |node: &Node| Allocation {
            node: node.name.clone(),
            devices: DeviceAllocation::Indices([0].into()),
        };
        let job = Job { allocations: [&up, &down].map(allocation).into(), ..Job::example("7") };
        let jobs = JobList { jobs: vec![job], ..JobList::default() };
        let usage = usage(vec![up, down], Some(jobs));
        let alice = usage.usage_of(&User::Named("alice".into())).unwrap();
        assert_eq!((alice.fresh_nodes, alice.nodes.len(), alice.devices), (1, 2, 1));
    }

    #[test]
    fn with_a_filter_only_devices_that_match_count() {
        let mut node =
            node("a", ["GPU-1", "GPU-2", "GPU-3"].map(|uuid| device(uuid, 90.0)).into(), NOW);
        node.devices[0].utilization = Reading::checked(Percent::new(1.0));
        for (device, pid) in [("GPU-1", 1), ("GPU-2", 1), ("GPU-3", 2)] {
            add_use(&mut node, device, pid);
        }
        add_process(&mut node, 1, owned_by("alice"));
        add_process(&mut node, 2, owned_by("bob"));
        let devices = DeviceAllocation::Indices([0, 1].into());
        let allocation = Allocation { node: node.name.clone(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("7") };
        let jobs = JobList { jobs: vec![job], ..JobList::default() };
        let fleet = Fleet::new([Arc::new(node)].into()).with_jobs(Some(Arc::new(jobs)));
        for (filter, held, alice, has_bob) in [
            ("", 3, ((2, 1, 1), 2), true),
            ("node=a", 3, ((2, 1, 1), 2), true),
            ("job=7", 2, ((2, 1, 1), 2), false),
            ("job=7 util<50", 1, ((1, 0, 1), 1), false),
        ] {
            let filter = crate::query::Filter::new(filter).unwrap();
            let fleet_view = FleetView::filtered(fleet.clone(), NOW, filter);
            let users = fleet_view.users();
            assert_eq!((users.devices, users.held), (held, held), "{}", fleet_view.filter.text());
            let usage = users.usage_of(&User::Named("alice".into())).unwrap();
            let memory = usage.memory.map(|bytes| bytes.0 >> 30);
            assert_eq!((counts(users, "alice"), memory), (alice.0, Some(alice.1)));
            assert_eq!((usage.nodes[0].devices, usage.processes), (alice.0.0, 1));
            assert_eq!(users.usage_of(&User::Named("bob".into())).is_some(), has_bob);
        }
    }

    #[test]
    fn those_who_seem_to_waste_the_same_are_ordered_by_idle_devices() {
        let usage = |seconds, idle_held| UserUsage {
            wasted: Duration::from_secs(seconds),
            idle_held,
            ..UserUsage::default()
        };
        for (one, other, expected) in [
            (usage(62, 0), usage(61, 8), Ordering::Less),
            (usage(61, 1), usage(61, 8), Ordering::Greater),
            (usage(7_210, 1), usage(7_200, 8), Ordering::Greater),
            (usage(7_600, 1), usage(7_200, 8), Ordering::Less),
            (usage(61, 1), usage(61, 1), Ordering::Equal),
        ] {
            assert_eq!(one.compare(&other, "wasted"), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_user_s_idle_devices_and_waste_are_listed_also_after_the_job_has_ended() {
        let earlier = Timestamp::from_micros(NOW.as_micros() - 2_000_000);
        let devices = || vec![device("GPU-1", 0.0), device("GPU-2", 90.0)];
        let (before, after) = (node("a", devices(), earlier), node("a", devices(), NOW));
        let devices = DeviceAllocation::Indices([0, 1].into());
        let allocation = Allocation { node: after.name.clone(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("7") };
        let jobs = Some(Arc::new(JobList { jobs: vec![job], ..JobList::default() }));
        let mut waste = Waste::default();
        let placed = after.with_jobs(jobs.as_ref());
        waste.observe(&before, &placed, Some(&JobLookup::of(jobs.as_ref())));
        let users = |jobs: Option<Arc<JobList>>, filter: &str| {
            let fleet = Fleet {
                jobs,
                waste: Arc::new(waste.clone()),
                ..Fleet::new([Arc::new(after.clone())].into())
            };
            let filter = crate::query::Filter::new(filter).unwrap();
            Arc::clone(FleetView::filtered(fleet, NOW, filter).users())
        };
        let alice = User::Named("alice".into());
        let now = users(jobs.clone(), "");
        let usage = now.usage_of(&alice).unwrap();
        assert_eq!((usage.idle_held, usage.wasted), (1, Duration::from_secs(2)));
        let [idle] = usage.idle.as_slice() else { panic!("{usage:?}") };
        assert_eq!((&*idle.uuid, idle.job.as_ref().unwrap().as_str()), ("GPU-1", "7"));
        assert_eq!(idle.span.as_ref().unwrap().since, NOW);
        let ended = users(None, "");
        let usage = ended.usage_of(&alice).unwrap();
        assert_eq!((usage.devices, usage.wasted), (0, Duration::from_secs(2)));
        assert!(users(jobs, "node=b").usage_of(&alice).is_none());
    }
}
