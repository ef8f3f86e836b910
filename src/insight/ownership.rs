//! The owners of each device: jobs from the scheduler and from processes, users from both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fleet::{
    JobAllocation, JobDevice, JobLookup, MIN_HELD_BYTES, Node, NodeAllocations, User, is_in_use,
    user_of,
};
use crate::model::{DeviceUse, Job, JobId, JobList, MachineId, NodeName};

/// An index of the allocations in a job list, built once per list.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocationIndex {
    jobs: JobLookup,
    /// The names of each machine that [`Self::note_name`] was told.
    names: BTreeMap<MachineId, BTreeSet<NodeName>>,
    generation: u64,
}

/// The jobs and users of one device, or of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DeviceOwner {
    /// The jobs, in the order found.
    pub(crate) jobs: Vec<JobId>,
    pub(crate) users: Vec<Arc<str>>,
    /// True if it is allocated to a job, or processes hold a relevant amount of its memory.
    pub(crate) is_held: bool,
    /// True if a process uses it.
    pub(crate) is_used: bool,
    /// True if its users are unknown.
    pub(crate) is_unknown: bool,
}

/// Who holds a device: a user, with a job if there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) user: User,
    pub(crate) job: Option<JobId>,
}

/// The holders of one device.
#[derive(Clone, Debug)]
pub(crate) struct HolderSet {
    pub(crate) holders: BTreeSet<Holder>,
    /// By the scheduler's word; `None` if a job whose devices are not all known may have it.
    pub(crate) is_allocated: Option<bool>,
}

/// The owners on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceOwners {
    /// One entry per device; slices count for their device.
    pub(crate) devices: Vec<DeviceOwner>,
    /// Jobs and users on the node, including those whose devices are unknown.
    pub(crate) on_node: DeviceOwner,
}

impl AllocationIndex {
    /// Rebuilds the index if the job list has changed.
    pub(crate) fn refresh(&mut self, list: Option<&Arc<JobList>>) {
        if self.jobs.list().map(Arc::as_ptr) != list.map(Arc::as_ptr) {
            self.jobs = JobLookup::of(list);
            self.generation += 1;
        }
    }

    /// Notes a name of a machine, for lists that have the jobs of a machine under any of its names, as those of
    /// recordings do.
    pub(crate) fn note_name(&mut self, node: &Node) {
        let machine = node.hello.as_ref().and_then(|hello| hello.host.machine_id());
        let Some(names) = machine.map(|machine| self.names.entry(machine).or_default()) else {
            return;
        };
        if names.insert(node.name.clone()) && names.len() > 1 {
            self.generation += 1;
        }
    }

    /// Returns the jobs on the machine of a node.
    fn listed(&self, node: &Node) -> Vec<JobAllocation<'_>> {
        let machine = node.hello.as_ref().and_then(|hello| hello.host.machine_id());
        match machine.and_then(|machine| self.names.get(&machine)) {
            Some(names) => names.iter().flat_map(|name| self.jobs.on_node(name)).collect(),
            None => self.jobs.on_node(&node.name),
        }
    }

    pub(crate) fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.job(id)
    }

    /// Returns the number of pending jobs that may start in a partition; `None` unless all jobs are listed now.
    pub(crate) fn pending_in(&self, partition: &str) -> Option<usize> {
        self.jobs.pending_in(partition)
    }

    /// Returns the id and name of a job, as users know it.
    pub(crate) fn name(&self, id: &JobId) -> String {
        match self.job(id) {
            Some(job) => format!("{} {}", job.shown_id, job.name),
            None => id.to_string(),
        }
    }

    /// Returns the uses of devices by processes whose user is known to gtop, with the position of the whole device.
    pub(crate) fn uses<'a>(
        &'a self,
        node: &'a Node,
    ) -> impl Iterator<Item = (usize, Holder, &'a DeviceUse)> {
        node.uses.iter().filter_map(|used| {
            let user = user_of(node, used)?;
            let job = node.job_of(used.pid).map(|id| self.job(id).map_or(id, |job| &job.id));
            let index = whole_device_index(node, &used.device)?;
            Some((index, Holder { user, job: job.cloned() }, used))
        })
    }

    /// Returns the holders of each device of a node: of its allocations or, without one, of its processes; of both
    /// where only processes tell that a job has it. Slices count for their device. A process of less than
    /// [`MIN_HELD_BYTES`] counts only where none uses more.
    pub(crate) fn holders(&self, node: &Node) -> Vec<HolderSet> {
        let (allocations, may_be_more) = self.allocations(node, &self.listed(node));
        let unallocated =
            HolderSet { is_allocated: (!may_be_more).then_some(false), holders: BTreeSet::new() };
        let mut found = vec![unallocated; node.devices.len()];
        let mut may_share = vec![true; node.devices.len()];
        for JobDevice { job, uuid, is_by_processes } in allocations.devices {
            let user = User::Named(Arc::clone(&job.user));
            let index = whole_device_index(node, &uuid);
            let of_device = index.and_then(|at| found.get_mut(at).zip(may_share.get_mut(at)));
            if let Some((of_device, may_share)) = of_device {
                *may_share &= is_by_processes;
                of_device.is_allocated = Some(true);
                of_device.holders.insert(Holder { user, job: Some(job.id.clone()) });
            }
        }
        let mut used_bytes = vec![BTreeMap::new(); node.devices.len()];
        for (index, holder, used) in self.uses(node) {
            if let Some(of_device) = used_bytes.get_mut(index) {
                let bytes: &mut u64 = of_device.entry(holder).or_default();
                *bytes =
                    bytes.saturating_add(used.memory.get().map_or(u64::MAX, |memory| memory.0));
            }
        }
        for ((of_device, used), may_share) in found.iter_mut().zip(used_bytes).zip(may_share) {
            if may_share {
                // Whoever's the processes of a job are, it is held by its owner.
                let jobs: Vec<_> =
                    of_device.holders.iter().map(|known| known.job.clone()).collect();
                let is_new = |holder: &Holder| holder.job.is_none() || !jobs.contains(&holder.job);
                let used: BTreeMap<_, _> =
                    used.into_iter().filter(|(holder, _)| is_new(holder)).collect();
                let least = used.values().max().map_or(0, |most| MIN_HELD_BYTES.min(*most));
                let relevant = used.into_iter().filter(|(_, bytes)| *bytes >= least);
                of_device.holders.extend(relevant.map(|(holder, _)| holder));
            }
        }
        found
    }

    /// Returns what the listed jobs have on a node, and whether they may have more.
    fn allocations<'a>(
        &self,
        node: &Node,
        listed: &[JobAllocation<'a>],
    ) -> (NodeAllocations<'a>, bool) {
        let allocations = NodeAllocations::of(node, listed);
        let counted_at = self.jobs.list().and_then(|list| list.nodes.counted_at());
        let may_be_more = allocations.may_be_more(node, counted_at);
        (allocations, may_be_more)
    }

    /// Returns a number that changes with the list.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the owners on a node.
    pub(crate) fn owners(&self, node: &Node) -> DeviceOwners {
        let mut owners = DeviceOwners {
            devices: vec![DeviceOwner::default(); node.devices.len()],
            ..DeviceOwners::default()
        };
        for used in node.uses.iter() {
            let statics = node.statics_of(used.pid);
            let job = statics.and_then(|statics| statics.job.as_ref()).map(|id| {
                // A persistent id and a number may mean the same job.
                self.job(id).map_or(id, |job| &job.id)
            });
            let user = statics.and_then(|statics| statics.user.known());
            owners.on_node.add(job, user);
            let Some(index) = whole_device_index(node, &used.device) else { continue };
            if let Some(owner) = owners.devices.get_mut(index) {
                owner.add(job, user);
                owner.is_used = true;
            }
        }
        let listed = self.listed(node);
        for (job, _) in &listed {
            owners.on_node.add(Some(&job.id), Some(&job.user));
        }
        let (allocations, may_be_more) = self.allocations(node, &listed);
        for JobDevice { job, uuid, .. } in allocations.devices {
            let owner =
                whole_device_index(node, &uuid).and_then(|index| owners.devices.get_mut(index));
            if let Some(owner) = owner {
                owner.add(Some(&job.id), Some(&job.user));
                owner.is_held = true;
            }
        }
        for (index, (device, owner)) in node.devices.iter().zip(&mut owners.devices).enumerate() {
            owner.is_held |= device.parent.is_none() && is_in_use(node, device);
            owner.is_used |= device.is_open() == Some(true);
            owner.is_unknown = owner.users.is_empty()
                && (owner.is_used || may_be_more || node.users_unknown_reason(index).is_some());
        }
        owners
    }
}

impl DeviceOwner {
    fn add(&mut self, job: Option<&JobId>, user: Option<&Arc<str>>) {
        if let Some(job) = job.filter(|job| !self.jobs.contains(job)) {
            self.jobs.push(job.clone());
        }
        if let Some(user) = user.filter(|user| !self.users.contains(user)) {
            self.users.push(Arc::clone(user));
        }
    }
}

/// Returns the index of a device; for a slice, that of the device it is cut from.
fn whole_device_index(node: &Node, uuid: &Arc<str>) -> Option<usize> {
    let whole = node.whole_uuid(uuid);
    node.devices.iter().position(|device| device.uuid == *whole)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::{Fleet, Process};
    use crate::insight::FleetView;
    use crate::model::{
        Allocation, Bytes, Device, DeviceAllocation, Hello, HostFacts, ProcessKey, ProcessStatics,
        Reading,
    };
    use crate::time::Timestamp;

    /// Two devices, the second with one slice; a process of bob's on the slice.
    fn node(memory: Option<u64>) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let device = |uuid: &str, parent: Option<&str>| Device {
            uuid: uuid.into(),
            parent: parent.map(Into::into),
            ..Device::default()
        };
        node.devices = vec![device("a", None), device("b", None), device("b1", Some("b"))];
        node.uses = [DeviceUse {
            device: "b1".into(),
            pid: 7,
            memory: memory.map_or_else(Reading::default, |mib| Reading::Known(Bytes(mib << 20))),
            ..DeviceUse::default()
        }]
        .into();
        let statics = ProcessStatics {
            user: Reading::Known("bob".into()),
            job: JobId::new("9"),
            ..ProcessStatics::default()
        };
        let key = ProcessKey { pid: 7, start_ticks: 1 };
        node.processes = [Process { key, statics: Arc::new(statics), ..Process::default() }].into();
        node
    }

    fn fleet_view(node: &Node, devices: DeviceAllocation) -> FleetView {
        let allocation = Allocation { node: node.name.clone(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("11") };
        let list = JobList { jobs: vec![job], ..JobList::default() };
        let fleet = Fleet::new(vec![Arc::new(node.clone())].into());
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..fleet };
        FleetView::new(fleet, Timestamp::default())
    }

    fn owner_texts(node: &Node, devices: DeviceAllocation) -> Vec<String> {
        let mut allocations = AllocationIndex::default();
        allocations.refresh(fleet_view(node, devices).fleet.jobs.as_ref());
        let owners = allocations.owners(node);
        let text_of = |owner: &DeviceOwner| {
            let jobs: Vec<_> = owner.jobs.iter().map(JobId::as_str).collect();
            let suffix = if owner.is_held { " held" } else { "" };
            format!("{} {}{suffix}", jobs.join(","), owner.users.join(","))
        };
        owners.devices.iter().chain([&owners.on_node]).map(text_of).collect()
    }

    #[test]
    fn slices_count_for_their_device_and_jobs_hold_their_allocated_devices() {
        assert_eq!(
            owner_texts(&node(Some(900)), DeviceAllocation::Indices([0].into())),
            ["11 alice held", "9 bob held", " ", "9,11 bob,alice"]
        );
        assert_eq!(
            owner_texts(&node(Some(900)), DeviceAllocation::Unknown),
            [" ", "9 bob held", " ", "9,11 bob,alice"]
        );
    }

    #[test]
    fn a_job_is_found_under_every_name_of_its_machine() {
        let mut known = node(None);
        let host =
            HostFacts { boot_id: "boot-1".into(), host_name: "h".into(), ..HostFacts::default() };
        known.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        let alias = Node { name: NodeName::new("alias").unwrap(), ..known.clone() };
        let mut allocations = AllocationIndex::default();
        let list = fleet_view(&known, DeviceAllocation::Indices([0].into())).fleet.jobs;
        allocations.refresh(list.as_ref());
        let is_allocated = |allocations: &AllocationIndex, node: &Node| {
            (allocations.holders(node)[0].is_allocated, allocations.owners(node).devices[0].is_held)
        };
        assert_eq!(is_allocated(&allocations, &alias), (Some(false), false));
        let before = allocations.generation();
        allocations.note_name(&alias);
        assert_eq!(allocations.generation(), before);
        allocations.note_name(&known);
        assert!(allocations.generation() > before);
        for node in [&known, &alias] {
            assert_eq!(is_allocated(&allocations, node), (Some(true), true), "{}", node.name);
        }
    }

    #[test]
    fn a_device_that_only_processes_give_to_a_job_is_also_that_of_its_other_users() {
        let held_by = |devices, process_user: &str| {
            let mut node = node(Some(900));
            let of_job = ProcessStatics {
                user: Reading::Known(process_user.into()),
                job: JobId::new("11"),
                ..ProcessStatics::default()
            };
            let mut used = vec![DeviceUse { pid: 8, ..node.uses[0].clone() }];
            used.extend(node.uses.iter().cloned());
            let mut processes = node.processes.to_vec();
            let key = ProcessKey { pid: 8, start_ticks: 1 };
            processes.push(Process { key, statics: Arc::new(of_job), ..Process::default() });
            (node.uses, node.processes) = (used.into(), processes.into());
            let mut allocations = AllocationIndex::default();
            allocations.refresh(fleet_view(&node, devices).fleet.jobs.as_ref());
            let of_device = allocations.holders(&node).swap_remove(1);
            let holders = of_device.holders.into_iter().map(|holder| match holder.user {
                User::Named(name) => name.to_string(),
                other @ (User::Number(_) | User::Hidden | User::Unknown) => panic!("{other:?}"),
            });
            (holders.collect::<Vec<_>>(), of_device.is_allocated)
        };
        // Indices count slices: 1 is that of the second device.
        let allocated = DeviceAllocation::Indices([1].into());
        assert_eq!(held_by(allocated, "alice"), (vec!["alice".to_owned()], Some(true)));
        let both = vec!["alice".to_owned(), "bob".to_owned()];
        for devices in [DeviceAllocation::Unknown, DeviceAllocation::Count(1)] {
            for process_user in ["alice", "root"] {
                let found = held_by(devices.clone(), process_user);
                assert_eq!(found, (both.clone(), Some(true)), "{devices:?} {process_user}");
            }
        }
    }

    #[test]
    fn little_memory_does_not_hold_a_device_but_an_unknown_amount_does() {
        for (memory, held) in [(Some(10), "9 bob"), (Some(256), "9 bob held"), (None, "9 bob held")]
        {
            assert_eq!(owner_texts(&node(memory), DeviceAllocation::None)[1], held, "{memory:?}");
        }
    }

    #[test]
    fn a_listed_job_has_its_shown_id_and_name() {
        let node = node(None);
        let mut allocations = AllocationIndex::default();
        assert_eq!(allocations.name(&JobId::new("11").unwrap()), "11");
        allocations.refresh(fleet_view(&node, DeviceAllocation::Unknown).fleet.jobs.as_ref());
        assert_eq!(allocations.name(&JobId::new("11").unwrap()), "11 x");
        allocations.refresh(None);
        assert!(allocations.job(&JobId::new("11").unwrap()).is_none());
    }
}
