//! Computes the devices, memory and power of each user on the visible nodes, once per snapshot.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fleet::{self, Node, is_busy, is_idle_held};
use crate::insight::FleetView;
use crate::insight::node_status::NodeStatus;
use crate::insight::{RowId, process_rows};
use crate::model::{Bytes, Device, DeviceUse, JobId, UnseenReason};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// A user with a known name.
    Named(Arc<str>),
    /// A user of whom only the uid is known.
    Number(u32),
    /// The owner of processes whose owner was not reported.
    Unknown,
    /// The owner of processes that the node does not let gtop see.
    Hidden,
}

impl User {
    /// Returns the text shown for the user.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Named(name) => name.to_string(),
            Self::Number(number) => format!("uid {number}"),
            Self::Unknown => "unknown".to_owned(),
            Self::Hidden => "hidden".to_owned(),
        }
    }

    /// Returns true if the name or uid is known.
    pub(crate) const fn is_known(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Number(_))
    }
}

/// Usage of one user. Sums cover fresh nodes only.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserUsage {
    /// Devices allocated to the user or used by the user's processes; a device of two users counts for both.
    pub(crate) devices: usize,
    /// Devices of these that are busy.
    pub(crate) busy: usize,
    /// Devices of these that are idle-held.
    pub(crate) idle_held: usize,
    /// Device memory of the user's processes; `None` when no driver reports it.
    pub(crate) memory: Option<Bytes>,
    /// Power of the user's devices in watts; the power of a shared device is divided evenly.
    pub(crate) power: Option<f32>,
    pub(crate) processes: usize,
    pub(crate) jobs: BTreeSet<JobId>,
    /// Nodes where the user holds devices or has processes.
    pub(crate) nodes: Vec<NodeUsage>,
    /// Number of `nodes` that are fresh.
    pub(crate) fresh_nodes: usize,
}

/// Usage of one user on one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeUsage {
    /// Index of the node in the fleet.
    pub(crate) node_index: usize,
    pub(crate) is_fresh: bool,
    pub(crate) devices: usize,
    /// The user's device uses: the position in the node's list, and the row's id.
    pub(crate) uses: Vec<(usize, RowId)>,
}

/// Usage of all users.
#[derive(Debug, Default)]
pub(crate) struct Users {
    pub(crate) entries: Vec<(User, UserUsage)>,
    /// Number of devices on fresh nodes.
    pub(crate) devices: usize,
    /// Devices of these that are held by a user.
    pub(crate) held: usize,
    /// Power of the held devices in watts.
    pub(crate) power: Option<f32>,
    /// Number of fresh nodes, and of all nodes.
    pub(crate) nodes: (usize, usize),
}

/// A job with its owner and the devices it was allocated on one node.
type AllocatedJob = (User, JobId, Vec<Arc<str>>);

/// Users of each device of one node, by device UUID.
type DeviceHolders = BTreeMap<Arc<str>, BTreeSet<User>>;

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
            let jobs = &fleet_view.allocated;
            usage.add_node(&mut users, (*index, node, is_fresh), (allocated, jobs));
        }
        usage.entries = users.into_iter().collect();
        usage
    }

    /// Adds the usage on one node.
    fn add_node(
        &mut self,
        users: &mut BTreeMap<User, UserUsage>,
        (node_index, node, is_fresh): (usize, &Node, bool),
        (allocated, jobs): (Vec<AllocatedJob>, &fleet::AllocatedDevices),
    ) {
        let mut holders = DeviceHolders::new();
        let mut node_usages: BTreeMap<User, NodeUsage> = BTreeMap::new();
        let mut add_holder =
            |node_usages: &mut BTreeMap<User, NodeUsage>, user: &User, device: &Arc<str>| {
                let device = node.whole_uuid(device);
                let is_new = holders.entry(Arc::clone(device)).or_default().insert(user.clone());
                let new_usage = || NodeUsage { node_index, is_fresh, devices: 0, uses: Vec::new() };
                let node_usage = node_usages.entry(user.clone()).or_insert_with(new_usage);
                node_usage.devices += usize::from(is_new);
            };
        for (user, job, devices) in allocated {
            users.entry(user.clone()).or_default().jobs.insert(job);
            for device in &devices {
                add_holder(&mut node_usages, &user, device);
            }
        }
        for (use_index, row_id) in process_rows(node) {
            let Some(device_use) = node.uses.get(use_index) else { continue };
            let Some(user) = user_of(node, device_use) else { continue };
            add_holder(&mut node_usages, &user, &device_use.device);
            let user_usage = users.entry(user.clone()).or_default();
            user_usage.jobs.extend(node.job_of(device_use.pid).cloned());
            if is_fresh {
                user_usage.processes += 1;
                if let Some(memory) = device_use.memory.get() {
                    let sum = user_usage.memory.unwrap_or_default();
                    user_usage.memory = Some(Bytes(sum.0.saturating_add(memory.0)));
                }
            }
            if let Some(node_usage) = node_usages.get_mut(&user) {
                node_usage.uses.push((use_index, row_id));
            }
        }
        // The driver of a TPU chip tells that it is held, without the process that holds it.
        for (_, device) in node.whole_devices().filter(|(_, device)| device.is_open() == Some(true))
        {
            if !holders.contains_key(&device.uuid) {
                add_hidden_holder(&mut holders, &mut node_usages, device, (node_index, is_fresh));
            }
        }
        for (user, node_usage) in node_usages {
            let user_usage = users.entry(user).or_default();
            user_usage.fresh_nodes += usize::from(is_fresh);
            user_usage.nodes.push(node_usage);
        }
        if is_fresh {
            self.count_devices(users, node, (&holders, jobs));
        }
    }

    /// Adds each device of a fresh node to its holders.
    fn count_devices(
        &mut self,
        users: &mut BTreeMap<User, UserUsage>,
        node: &Node,
        (holders, jobs): (&DeviceHolders, &fleet::AllocatedDevices),
    ) {
        for (_, device) in node.whole_devices() {
            self.devices += 1;
            let Some(holders) = holders.get(&device.uuid) else { continue };
            let power = device.power.get().map(crate::model::Watts::get);
            if let Some(power) = power {
                self.power = Some(self.power.unwrap_or_default() + power);
            }
            self.held += 1;
            let is_busy = is_busy(device);
            let is_idle_held = is_idle_held(node, device, jobs.contains(node, device));
            let count = u16::try_from(holders.len()).unwrap_or(u16::MAX);
            for user in holders {
                let user_usage = users.entry(user.clone()).or_default();
                user_usage.devices += 1;
                user_usage.busy += usize::from(is_busy);
                user_usage.idle_held += usize::from(is_idle_held);
                if let Some(power) = power {
                    let sum =
                        user_usage.power.unwrap_or_default() + power / f32::from(count.max(1));
                    user_usage.power = Some(sum);
                }
            }
        }
    }

    pub(crate) fn usage_of(&self, user: &User) -> Option<&UserUsage> {
        let index = self.entries.binary_search_by(|(known, _)| known.cmp(user)).ok()?;
        self.entries.get(index).map(|(_, user_usage)| user_usage)
    }
}

impl UserUsage {
    /// Compares by a column, largest first.
    pub(crate) fn compare(&self, other: &Self, column: &str) -> Ordering {
        let memory = |usage: &Self| usage.memory.map(|bytes| bytes.0);
        match column {
            "busy" => other.busy.cmp(&self.busy),
            "idle-held" => other.idle_held.cmp(&self.idle_held),
            "mem" => memory(other).cmp(&memory(self)),
            "power" => other.power.unwrap_or(-1.0).total_cmp(&self.power.unwrap_or(-1.0)),
            "nodes" => other.nodes.len().cmp(&self.nodes.len()),
            "jobs" => other.jobs.len().cmp(&self.jobs.len()),
            "procs" => other.processes.cmp(&self.processes),
            _ => other.devices.cmp(&self.devices),
        }
    }
}

/// Returns the devices that a scheduler allocated to jobs, by position of the node.
fn allocated_jobs(fleet_view: &FleetView) -> BTreeMap<usize, Vec<AllocatedJob>> {
    let mut allocated: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    if fleet_view.fleet.jobs.is_none() {
        return allocated;
    }
    for entry in fleet_view.job_index().entries.iter().filter(|entry| entry.is_listed) {
        let user = User::Named(Arc::clone(&entry.job.user));
        for job_node in entry.nodes.iter().filter(|job_node| job_node.is_shown) {
            let (Some(index), Some(devices)) = (job_node.node_index, &job_node.assigned.devices)
            else {
                continue;
            };
            let job = (user.clone(), entry.job.id.clone(), devices.clone());
            allocated.entry(index).or_default().push(job);
        }
    }
    allocated
}

/// Returns the owner of a process; `None` when the process has ended.
pub(crate) fn user_of(node: &Node, used: &DeviceUse) -> Option<User> {
    let is_visible = node.process(used.pid).is_some();
    let unseen = node.unseen_process(used.pid);
    if !is_visible && unseen.is_some_and(|process| process.why == UnseenReason::Gone) {
        return None;
    }
    let owner = node.statics_of(used.pid).and_then(|statics| {
        let name = statics.user.known().map(|name| User::Named(Arc::clone(name)));
        name.or_else(|| statics.uid.get().map(User::Number))
    });
    Some(owner.unwrap_or(if unseen.is_some() { User::Hidden } else { User::Unknown }))
}

fn add_hidden_holder(
    holders: &mut DeviceHolders,
    node_usages: &mut BTreeMap<User, NodeUsage>,
    device: &Device,
    (node_index, is_fresh): (usize, bool),
) {
    holders.entry(Arc::clone(&device.uuid)).or_default().insert(User::Hidden);
    let new_usage = || NodeUsage { node_index, is_fresh, devices: 0, uses: Vec::new() };
    node_usages.entry(User::Hidden).or_insert_with(new_usage).devices += 1;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::{Fleet, Process, SourceState};
    use crate::model::{
        Allocation, DeviceAllocation, Job, JobList, Link, NodeName, Percent, ProcessKey,
        ProcessStatics, Reading, Source, TpuDetails, UnseenProcess, Watts,
    };
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn node(name: &str, devices: Vec<Device>, taken_at: Timestamp) -> Node {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.device_sources = vec![Source::host(); devices.len()].into();
        node.devices = devices;
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
    fn slices_count_as_their_parent_device() {
        let slice = |uuid: &str| Device { parent: Some("GPU-1".into()), ..device(uuid, 0.0) };
        let devices = vec![device("GPU-1", 50.0), slice("MIG-1"), slice("MIG-2")];
        let mut node = node("a", devices, NOW);
        add_use(&mut node, "MIG-1", 1);
        add_use(&mut node, "MIG-2", 1);
        add_process(&mut node, 1, owned_by("ada"));
        let usage = usage(vec![node], None);
        assert_eq!((usage.devices, usage.held, counts(&usage, "ada")), (1, 1, (1, 1, 0)));
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
}
