//! Stores each node as it changes and publishes the whole fleet at a limited rate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::job_lookup::JobLookup;
use crate::node::Node;
use crate::node_builder::NodeBuilder;
use crate::placing::HoldingsKeeper;
use crate::waste::Waste;
use crate::{Fleet, find_other_names, with_machine_names, with_other_names};
use gtop_model::{JobId, JobList, Link, NodeName, ProcessStatics, ProvedIndices, SchedulerNodes};

/// Maximum number of nodes whose samples are all published if they come faster than usual.
const MAX_FAST_NODES: usize = 64;
/// Minimum interval between two publications of such nodes.
const MIN_INTERVAL: Duration = Duration::from_millis(40);

/// Minimum intervals between two publications of the fleet.
#[derive(Clone, Copy, Debug)]
pub struct PublishIntervals {
    /// When any other node changed.
    pub usual: Duration,
    /// When the focused node changed.
    pub focus: Duration,
    /// When values arrived that were not known before, such as the first sample of a node.
    pub arrival: Duration,
}

impl Default for PublishIntervals {
    /// Below 250 ms, the interval at which the collector processes samples, so that each batch is published.
    fn default() -> Self {
        Self {
            usual: Duration::from_millis(200),
            focus: Duration::from_millis(50),
            arrival: Duration::from_millis(20),
        }
    }
}

impl PublishIntervals {
    /// Returns the minimum interval of so many nodes that are sampled at this interval: shorter than the usual one where
    /// there are few, so that each sample is published.
    pub fn of_samples(self, sampling: Duration, nodes: usize) -> Duration {
        // A publication that is due a little before the next sample does not delay it.
        let interval = sampling * 4 / 5;
        if nodes <= MAX_FAST_NODES { interval.clamp(MIN_INTERVAL, self.usual) } else { self.usual }
    }
}

/// How long a removed node is remembered: longer than its session is kept, since a probe that still runs does
/// not resend its static values when the node is listed again.
const REMOVED_RETENTION: Duration = Duration::from_secs(60);

/// The current nodes; each is updated by one task.
#[derive(Debug)]
pub struct FleetStore {
    state: Mutex<State>,
    changed: Notify,
    published: watch::Sender<Fleet>,
    /// History span of new nodes.
    history_span: Duration,
}

/// Reads the newest published fleet.
pub type FleetReader = watch::Receiver<Fleet>;

impl FleetStore {
    /// Returns a store of empty nodes, in this order.
    pub fn new(names: impl IntoIterator<Item = NodeName>, history_span: Duration) -> Arc<Self> {
        let mut state = State::default();
        state.nodes.list(names, history_span);
        state.set_jobs(None);
        let (published, _) = watch::channel(state.snapshot());
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), published, history_span })
    }

    /// Replaces the list of nodes, in this order, and the job list. Nodes that stay keep their state; removed
    /// nodes are forgotten after `REMOVED_RETENTION`.
    pub fn set_nodes(&self, names: impl IntoIterator<Item = NodeName>, jobs: Option<Arc<JobList>>) {
        self.list_nodes(names, jobs);
        // This is rare, and no reader must see the old list.
        self.published.send_replace(self.snapshot());
    }

    /// Replaces the lists in the same way, without publishing them yet.
    pub fn list_nodes(
        &self,
        names: impl IntoIterator<Item = NodeName>,
        jobs: Option<Arc<JobList>>,
    ) {
        let mut state = self.lock();
        state.nodes.list(names, self.history_span);
        state.set_jobs(jobs);
    }

    /// Replaces all nodes and jobs by those of another moment, which need not follow this one. Readers of the fleet see
    /// what `change` does together with it.
    pub fn replace(
        &self,
        nodes: Vec<Arc<Node>>,
        jobs: Option<Arc<JobList>>,
        change: impl FnOnce(),
    ) {
        let mut state = self.lock();
        state.replace(nodes, jobs);
        let fleet = state.snapshot();
        drop(state);
        self.published.send_modify(|published| {
            *published = fleet;
            change();
        });
    }

    /// Publishes what has changed. Readers of the fleet see what `change` does together with it.
    pub fn publish_now(&self, change: impl FnOnce()) {
        self.published.send_modify(|published| {
            *published = self.snapshot();
            change();
        });
    }

    /// Returns how long the history of a node is kept.
    pub fn history_span(&self) -> Duration {
        self.history_span
    }

    /// Returns a reader of the published fleet.
    pub fn reader(&self) -> FleetReader {
        self.published.subscribe()
    }

    /// Sets the focused node, which is published more often.
    pub fn set_focus(&self, node: Option<NodeName>) {
        self.lock().urgency.focus = node;
    }

    /// Sets the interval at which nodes are sampled.
    pub fn set_sampling(&self, interval: Duration) {
        self.lock().urgency.sampling = Some(interval);
    }

    /// Returns what was proved about the scheduler's lists of devices, for a recording.
    pub fn proved(&self) -> BTreeMap<NodeName, ProvedIndices> {
        self.lock().scheduled.holdings.proved()
    }

    /// Sets what the store adds to a node, so that it need not copy the node to do that.
    pub fn prepare(&self, builder: &mut NodeBuilder) {
        let state = self.lock();
        let scheduler = state.scheduled.nodes.nodes.get(builder.name()).cloned();
        let holdings = state.scheduled.holdings.last(builder.name()).cloned();
        drop(state);
        builder.set_scheduler(scheduler.as_ref());
        builder.set_holdings(holdings);
    }

    /// Stores the new state of a node.
    pub fn update(&self, node: Arc<Node>) {
        self.lock().update(node);
        self.changed.notify_one();
    }

    /// Publishes changes until dropped, at most so often.
    pub async fn publish(self: Arc<Self>, intervals: PublishIntervals) {
        let mut last = None;
        loop {
            self.changed.notified().await;
            while let Some(next_publish_at) =
                last.map(|last| last + self.lock().publish_interval(intervals))
                && next_publish_at > Instant::now()
            {
                // A change of the focused node, or an arrival, brings the deadline forward.
                tokio::select! {
                    () = sleep_until(next_publish_at) => {}
                    () = self.changed.notified() => {}
                }
            }
            last = Some(Instant::now());
            self.published.send_replace(self.snapshot());
        }
    }

    fn snapshot(&self) -> Fleet {
        self.lock().snapshot()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave a half-written node: each is replaced in one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that the store holds.
#[derive(Debug, Default)]
struct State {
    nodes: NodeTable,
    machines: MachineNames,
    scheduled: Scheduled,
    urgency: Urgency,
    waste: Arc<Waste>,
}

impl State {
    /// Replaces the job list, and places it on the nodes.
    fn set_jobs(&mut self, jobs: Option<Arc<JobList>>) {
        self.scheduled.set_list(jobs);
        self.machines.find(&self.nodes.listed, self.scheduled.list.as_deref());
        self.place_scheduled();
    }

    /// Places what the scheduler lists on machines.
    fn place_scheduled(&mut self) {
        self.scheduled.set_machine_names(&self.machines.same_as);
        for node in &mut self.nodes.listed {
            self.scheduled.place(node);
        }
    }

    fn replace(&mut self, nodes: Vec<Arc<Node>>, jobs: Option<Arc<JobList>>) {
        self.nodes = NodeTable::of(nodes);
        self.scheduled.holdings = HoldingsKeeper::default();
        self.set_jobs(jobs);
        // What was watched before does not lead to this moment; the histories of the nodes do.
        let same_as = &self.machines.same_as;
        let machines = self.nodes.listed.iter().filter(|node| !same_as.contains_key(&node.name));
        self.waste = Arc::new(Waste::seeded(machines, self.scheduled.running.as_ref()));
    }

    fn update(&mut self, mut newer: Arc<Node>) {
        let Some(entry) = self.nodes.get_mut(&newer.name) else {
            self.nodes.update_removed(newer);
            return;
        };
        self.machines.on_update(entry, &newer);
        self.urgency.on_update(entry, &newer);
        self.scheduled.place(&mut newer);
        let before = std::mem::replace(entry, Arc::clone(&newer));
        // A machine that is watched under two names counts once.
        if Waste::concerns(&before, &newer) && !self.machines.same_as.contains_key(&newer.name) {
            let running = self.scheduled.running.as_ref();
            Arc::make_mut(&mut self.waste).observe(&before, &newer, running);
        }
    }

    fn publish_interval(&self, intervals: PublishIntervals) -> Duration {
        self.urgency.interval(intervals, self.nodes.listed.len())
    }

    /// Returns the fleet to be published.
    fn snapshot(&mut self) -> Fleet {
        self.urgency.on_publication();
        let Self { nodes, machines, scheduled, .. } = self;
        if machines.may_have_changed && machines.find(&nodes.listed, scheduled.list.as_deref()) {
            self.place_scheduled();
        }
        Fleet {
            nodes: self.nodes.listed.as_slice().into(),
            same_as: Arc::clone(&self.machines.same_as),
            jobs: self.scheduled.jobs.clone(),
            waste: Arc::clone(&self.waste),
            arrivals: self.urgency.arrivals,
        }
    }
}

/// The nodes, found by their names.
#[derive(Debug, Default)]
struct NodeTable {
    /// In the order of the roster.
    listed: Vec<Arc<Node>>,
    positions: BTreeMap<NodeName, usize>,
    /// Nodes that are no longer listed, and when they were removed.
    removed: BTreeMap<NodeName, (Arc<Node>, Instant)>,
}

impl NodeTable {
    fn of(listed: Vec<Arc<Node>>) -> Self {
        let positions = listed.iter().map(|node| node.name.clone()).zip(0..).collect();
        Self { listed, positions, removed: BTreeMap::new() }
    }

    /// Replaces the list; nodes that stay, or were removed a short time ago, keep their state.
    fn list(&mut self, names: impl IntoIterator<Item = NodeName>, history_span: Duration) {
        let now = Instant::now();
        let Self { listed, mut removed, .. } = std::mem::take(self);
        removed.retain(|_, (_, since)| now.duration_since(*since) < REMOVED_RETENTION);
        removed.extend(listed.into_iter().map(|node| (node.name.clone(), (node, now))));
        let listed = names.into_iter().map(|name| match removed.remove(&name) {
            Some((node, _)) => node,
            None => Arc::new(Node::new(name, history_span)),
        });
        *self = Self::of(listed.collect());
        self.removed = removed;
    }

    fn get_mut(&mut self, name: &NodeName) -> Option<&mut Arc<Node>> {
        self.listed.get_mut(*self.positions.get(name)?)
    }

    /// Stores the new state of a node that may be listed again.
    fn update_removed(&mut self, node: Arc<Node>) {
        if let Some((known, _)) = self.removed.get_mut(&node.name) {
            *known = node;
        }
    }
}

/// The names of machines that are monitored under more than one.
#[derive(Debug, Default)]
struct MachineNames {
    /// As in [`Fleet::same_as`]; found again only if they may have changed.
    same_as: Arc<BTreeMap<NodeName, NodeName>>,
    may_have_changed: bool,
}

impl MachineNames {
    fn on_update(&mut self, before: &Node, after: &Node) {
        let [known, newer] = [before, after].map(|node| node.hello.as_ref().map(Arc::as_ptr));
        // A machine counts under a name that is up.
        let is_other_link = (before.link == Link::Up) != (after.link == Link::Up);
        self.may_have_changed |= known != newer || (is_other_link && !self.same_as.is_empty());
    }

    /// Finds the nodes that are the same machine as another one. Returns true if others are than before.
    fn find(&mut self, nodes: &[Arc<Node>], list: Option<&JobList>) -> bool {
        self.may_have_changed = false;
        let same_as = find_other_names(nodes, |node| {
            list.is_some_and(|list| list.nodes.nodes.contains_key(&node.name))
        });
        let has_changed = same_as != *self.same_as;
        if has_changed {
            self.same_as = Arc::new(same_as);
        }
        has_changed
    }
}

/// What the scheduler lists, and who has which device.
#[derive(Debug, Default)]
struct Scheduled {
    /// The jobs as listed.
    list: Option<Arc<JobList>>,
    /// The same under the names of machines.
    jobs: Option<Arc<JobList>>,
    /// Job ids by SLUID, for processes that know only the SLUID of their job.
    job_ids: BTreeMap<JobId, JobId>,
    /// What the scheduler says of the watched nodes, under all names of their machines.
    nodes: Arc<SchedulerNodes>,
    /// Who has which device.
    holdings: HoldingsKeeper,
    /// The jobs that run; `None` while the scheduler does not say.
    running: Option<JobLookup>,
}

impl Scheduled {
    fn set_list(&mut self, list: Option<Arc<JobList>>) {
        let jobs = list.iter().flat_map(|list| &list.jobs);
        self.job_ids = jobs.filter_map(|job| Some((job.alias.clone()?, job.id.clone()))).collect();
        self.list = list;
    }

    /// Puts what is listed under the names of machines.
    fn set_machine_names(&mut self, same_as: &Arc<BTreeMap<NodeName, NodeName>>) {
        let list = self.list.as_ref();
        self.nodes = list.map(|list| with_other_names(&list.nodes, same_as)).unwrap_or_default();
        self.jobs = list.map(|list| with_machine_names(list, same_as));
        self.holdings.set_jobs(self.jobs.as_ref());
        let is_known = list.is_none_or(|list| list.is_current());
        self.running = is_known.then(|| JobLookup::of(self.jobs.as_ref()));
    }

    /// Sets what the scheduler says of a node, and who has its devices, unless that is the case already.
    fn place(&mut self, node: &mut Arc<Node>) {
        self.resolve_job_ids(node);
        let known = self.nodes.nodes.get(&node.name);
        // `Arc` compares by value only what is not the same allocation.
        if node.scheduler.as_ref() != known {
            Arc::make_mut(node).scheduler = known.cloned();
        }
        self.holdings.place(node);
    }

    /// Sets the job id of processes whose control group names the job only by its SLUID.
    fn resolve_job_ids(&self, node: &mut Arc<Node>) {
        let seen = node.processes.iter().map(|process| &*process.statics);
        let mut all = seen.chain(node.unseen.iter().map(|process| &process.statics));
        if self.job_ids.is_empty() || !all.any(|statics| self.job_by_alias(statics).is_some()) {
            return;
        }
        let node = Arc::make_mut(node);
        for process in Arc::make_mut(&mut node.processes) {
            if let Some(job) = self.job_by_alias(&process.statics) {
                Arc::make_mut(&mut process.statics).job = Some(job.clone());
            }
        }
        for process in Arc::make_mut(&mut node.unseen) {
            if let Some(job) = self.job_by_alias(&process.statics) {
                process.statics.job = Some(job.clone());
            }
        }
    }

    /// Returns the id of the job of a process that knows only its SLUID.
    fn job_by_alias(&self, statics: &ProcessStatics) -> Option<&JobId> {
        let alias = statics.job_alias.as_deref().filter(|_| statics.job.is_none())?;
        self.job_ids.get(&JobId::new(alias)?)
    }
}

/// How soon the next publication is due.
#[derive(Debug, Default)]
struct Urgency {
    focus: Option<NodeName>,
    /// The interval at which nodes are sampled; `None` if they are not.
    sampling: Option<Duration>,
    /// The focused node has changed.
    has_focus_changed: bool,
    /// Values that were not known before have arrived.
    has_arrived: bool,
    arrivals: u64,
}

impl Urgency {
    fn on_update(&mut self, before: &Node, after: &Node) {
        self.has_focus_changed |= self.focus.as_ref() == Some(&after.name);
        if after.known_parts() > before.known_parts() {
            self.has_arrived = true;
            self.arrivals += 1;
        }
    }

    fn on_publication(&mut self) {
        (self.has_focus_changed, self.has_arrived) = (false, false);
    }

    fn interval(&self, intervals: PublishIntervals, nodes: usize) -> Duration {
        match (self.has_arrived, self.has_focus_changed, self.sampling) {
            (true, _, _) => intervals.arrival,
            (_, true, _) => intervals.focus,
            (_, _, Some(sampling)) => intervals.of_samples(sampling, nodes),
            (_, _, None) => intervals.usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::{Metric, Totals, User};
    use gtop_local::time::Timestamp;
    use gtop_model::{
        Allocation, Device, DeviceAllocation, Hello, HostFacts, Job, JobListError, NodeState,
        Percent, Reading, SchedulerErrorKind, SchedulerNode, Source,
    };

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn node_opening(node: &str, attempt: u32) -> Arc<Node> {
        let mut node = Node::new(name(node), Duration::ZERO);
        node.link = Link::Opening { attempt };
        Arc::new(node)
    }

    fn names(store: &FleetStore) -> Vec<String> {
        store.reader().borrow().nodes.iter().map(|node| node.name.to_string()).collect()
    }

    #[test]
    fn set_nodes_keeps_the_state_of_nodes_that_stay() {
        let store = FleetStore::new([name("a"), name("b")], Duration::ZERO);
        store.update(node_opening("b", 7));
        store.set_nodes([name("c"), name("b")], None);
        assert_eq!(names(&store), ["c", "b"]);
        store.update(node_opening("a", 1));
        store.update(node_opening("c", 2));
        store.set_nodes([name("b"), name("c")], None);
        let fleet = store.reader().borrow().clone();
        assert_eq!(names(&store), ["b", "c"]);
        assert_eq!(fleet.node(&name("b")).unwrap().link, Link::Opening { attempt: 7 });
        assert_eq!(fleet.node(&name("c")).unwrap().link, Link::Opening { attempt: 2 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_node_is_updated_and_restored_until_its_retention_ends() {
        let store = FleetStore::new([name("a"), name("b")], Duration::ZERO);
        let link = |store: &FleetStore| store.snapshot().node(&name("a")).unwrap().link.clone();
        store.set_nodes([name("b")], None);
        store.update(node_opening("a", 3));
        tokio::time::advance(REMOVED_RETENTION / 2).await;
        store.set_nodes([name("b"), name("a")], None);
        assert_eq!(link(&store), Link::Opening { attempt: 3 });
        store.set_nodes([name("b")], None);
        tokio::time::advance(REMOVED_RETENTION).await;
        store.set_nodes([name("b")], None);
        store.update(node_opening("a", 4));
        store.set_nodes([name("a")], None);
        assert_eq!(link(&store), Link::Idle);
    }

    #[test]
    fn a_node_that_is_prepared_is_stored_without_a_copy() {
        let store = FleetStore::new([name("a")], Duration::ZERO);
        let mut builder = NodeBuilder::new(name("a"), Duration::ZERO);
        builder.on_link(Link::Up);
        let is_shared = |store: &FleetStore, builder: &NodeBuilder| {
            store.update(builder.node());
            Arc::ptr_eq(&store.snapshot().nodes[0], &builder.node())
        };
        assert!(!is_shared(&store, &builder), "it is not known yet who has its devices");
        store.prepare(&mut builder);
        assert!(is_shared(&store, &builder));
        let scheduler = SchedulerNode { state: NodeState::Mixed, ..SchedulerNode::default() };
        let nodes = [(name("a"), Arc::new(scheduler))].into();
        let nodes = Arc::new(SchedulerNodes { nodes, ..SchedulerNodes::default() });
        store.set_nodes([name("a")], Some(Arc::new(JobList { nodes, ..JobList::default() })));
        store.prepare(&mut builder);
        assert!(is_shared(&store, &builder));
    }

    #[test]
    fn an_alias_resolves_to_the_job_id_whichever_comes_first() {
        use gtop_model::{UnseenProcess, UnseenReason};
        let statics = ProcessStatics {
            job_alias: Some("s1MXM7XYD0DV00".into()),
            ..ProcessStatics::default()
        };
        let mut node = Node::new(name("a"), Duration::ZERO);
        node.unseen = [UnseenProcess { pid: 7, why: UnseenReason::Hidden, statics }].into();
        let job = Job {
            shown_id: "2_1".into(),
            alias: JobId::new("s1MXM7XYD0DV00"),
            ..Job::example("11")
        };
        let jobs = Some(Arc::new(JobList { jobs: vec![job], ..JobList::default() }));
        let number = |store: &FleetStore| {
            store.snapshot().nodes[0].unseen[0].statics.job.as_ref().map(ToString::to_string)
        };
        let store = FleetStore::new([name("a")], Duration::ZERO);
        store.update(Arc::new(node.clone()));
        assert_eq!(number(&store), None);
        store.set_nodes([name("a")], jobs);
        assert_eq!(number(&store).as_deref(), Some("11"));
        store.update(Arc::new(node));
        assert_eq!(number(&store).as_deref(), Some("11"));
    }

    fn node_with(node: &str, boot: &str) -> Arc<Node> {
        let mut node = Node::new(name(node), Duration::ZERO);
        let host =
            HostFacts { boot_id: boot.into(), host_name: "a".into(), ..HostFacts::default() };
        node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        Arc::new(node)
    }

    /// A node of machine `boot-1` with an idle device, sampled at a second.
    fn idle_node(node: &str, second: i64) -> Arc<Node> {
        let mut node = Node::clone(&node_with(node, "boot-1"));
        node.mark_sampled(&Source::host(), Timestamp::from_micros(second * 1_000_000));
        node.device_sources = [Source::host()].into();
        node.devices = vec![Device {
            uuid: "GPU-1".into(),
            utilization: Reading::checked(Percent::new(0.0)),
            ..Device::default()
        }]
        .into();
        Arc::new(node)
    }

    /// Alice's job, which has the device of each of these nodes, in a list made at a second, and whether the scheduler
    /// has failed since.
    fn job_list(nodes: &[&str], has_failed: bool) -> Arc<JobList> {
        let allocation = |node: &&str| Allocation {
            node: name(node),
            devices: DeviceAllocation::Indices([0].into()),
        };
        let allocations = nodes.iter().map(allocation).collect();
        let error = has_failed.then(|| JobListError {
            message: "squeue failed".into(),
            kind: SchedulerErrorKind::Other,
            since: Timestamp::from_micros(1),
        });
        let at = Some(Timestamp::default());
        let starts_at = Some(Timestamp::default());
        let jobs = vec![Job { starts_at, allocations, ..Job::example("7") }];
        Arc::new(JobList { jobs, at, error, ..JobList::default() })
    }

    /// Returns the seconds that alice has left devices idle on all nodes.
    fn wasted(store: &FleetStore) -> u64 {
        let alice = User::Named("alice".into());
        let waste = store.snapshot().waste;
        waste.nodes().filter_map(|(_, node)| node.by_user.get(&alice)).map(Duration::as_secs).sum()
    }

    #[test]
    fn while_the_scheduler_fails_nobody_is_charged_for_allocations() {
        let store = FleetStore::new([name("a")], Duration::ZERO);
        for (second, has_failed, expected) in
            [(0, false, 0), (1, false, 1), (2, true, 1), (3, true, 1), (4, false, 2)]
        {
            store.set_nodes([name("a")], Some(job_list(&["a"], has_failed)));
            store.update(idle_node("a", second));
            assert_eq!(wasted(&store), expected, "{second}");
        }
    }

    #[test]
    fn a_machine_with_two_names_wastes_once_also_after_one_has_left() {
        let both = [name("a"), name("b")];
        let store = FleetStore::new(both.clone(), Duration::ZERO);
        store.set_nodes(both, Some(job_list(&["a", "b"], false)));
        for second in 0..=10 {
            store.update(idle_node("a", second));
            store.update(idle_node("b", second));
            store.snapshot();
        }
        assert_eq!(wasted(&store), 10);
        store.set_nodes([name("b")], Some(job_list(&["b"], false)));
        assert_eq!(wasted(&store), 10);
        for second in 11..=15 {
            store.update(idle_node("b", second));
        }
        assert_eq!(wasted(&store), 15);
        // Where watching begins anew, it counts once too.
        let nodes = ["a", "b"].map(|node| {
            let mut node = Node::clone(&idle_node(node, 9));
            node.history = History::new(Duration::from_secs(60));
            for second in 0..10 {
                let at = Timestamp::from_micros(second * 1_000_000);
                node.history.record(&"GPU-1".into(), Metric::Utilization, at, 0.0);
            }
            Arc::new(node)
        });
        store.replace(nodes.into(), Some(job_list(&["a", "b"], false)), || {});
        assert_eq!(wasted(&store), 9);
    }

    #[test]
    fn a_machine_with_two_names_is_detected_at_once() {
        let store = FleetStore::new([name("a"), name("b")], Duration::ZERO);
        let duplicates = |store: &FleetStore| store.snapshot().same_as.len();
        store.update(node_with("a", "boot-1"));
        store.update(node_with("b", "boot-2"));
        assert_eq!(duplicates(&store), 0);
        store.update(node_with("b", "boot-1"));
        assert_eq!(duplicates(&store), 1);
        // The result is cached until the next hello.
        let same_as = Arc::clone(&store.snapshot().same_as);
        store.update(Arc::clone(&store.snapshot().nodes[0]));
        assert!(Arc::ptr_eq(&same_as, &store.snapshot().same_as));
    }

    #[test]
    fn a_machine_counts_under_its_first_name_that_is_up_and_scheduled_with_all_its_jobs() {
        let store = FleetStore::new([], Duration::ZERO);
        // Returns the name, and the devices that are idle-held and free.
        let machine = |links: [bool; 2], scheduled: &str, job_on: &str| {
            let node = |(node, is_up)| {
                let mut node = Node::clone(&idle_node(node, 0));
                node.link = if is_up { Link::Up } else { Link::Opening { attempt: 1 } };
                Arc::new(node)
            };
            let mut list = JobList::clone(&job_list(&[job_on], false));
            let scheduler = SchedulerNode { state: NodeState::Mixed, ..SchedulerNode::default() };
            let nodes = [(name(scheduled), Arc::new(scheduler))].into();
            list.nodes = Arc::new(SchedulerNodes { nodes, ..SchedulerNodes::default() });
            let nodes = ["a", "b"].into_iter().zip(links).map(node).collect();
            store.replace(nodes, Some(Arc::new(list)), || {});
            let fleet = store.reader().borrow().clone();
            let totals = Totals::of(&fleet, Timestamp::default());
            let names: String = fleet.machines().map(|node| node.name.as_str()).collect();
            (names, totals.idle_held, totals.free)
        };
        for job_on in ["a", "b"] {
            for (links, scheduled, expected) in [
                ([true, true], "c", "a"),
                ([true, true], "b", "b"),
                ([true, false], "b", "a"),
                ([false, true], "a", "b"),
            ] {
                let found = machine(links, scheduled, job_on);
                assert_eq!(found, (expected.to_owned(), 1, 0), "{links:?} {scheduled} {job_on}");
            }
        }
        // When one name is down, the other one is used.
        assert_eq!(machine([true, true], "c", "a").0, "a");
        let mut down = Node::clone(&store.snapshot().nodes[0]);
        down.link = Link::Opening { attempt: 1 };
        store.update(Arc::new(down));
        let fleet = store.snapshot();
        assert_eq!(fleet.machines().map(|node| node.name.as_str()).collect::<String>(), "b");
        assert_eq!(fleet.jobs.unwrap().jobs[0].allocations[0].node, name("b"));
    }

    #[test]
    fn every_name_of_a_machine_has_what_the_scheduler_says_of_one() {
        let store = FleetStore::new([name("a"), name("b"), name("c")], Duration::ZERO);
        let mut list = JobList::clone(&job_list(&["a"], false));
        let drained = SchedulerNode { state: NodeState::Drained, ..SchedulerNode::default() };
        let nodes = [(name("a"), Arc::new(drained))].into();
        list.nodes = Arc::new(SchedulerNodes { nodes, ..SchedulerNodes::default() });
        store.set_nodes(["a", "b", "c"].map(name), Some(Arc::new(list)));
        let found = |store: &FleetStore| {
            let fleet = store.snapshot();
            let takes_jobs: Vec<bool> = fleet.nodes.iter().map(|node| node.takes_jobs()).collect();
            let jobs = JobLookup::of(fleet.jobs.as_ref());
            let has_job = |node: &Arc<Node>| {
                let is_allocated = |position| node.device_holdings(position).is_allocated();
                let is_held =
                    (0..node.devices.len()).any(|position| is_allocated(position) == Some(true));
                (is_held, jobs.on_node(&node.name).len(), node.holdings.jobs().len())
            };
            (takes_jobs, fleet.nodes.iter().map(has_job).collect::<Vec<_>>())
        };
        let node_up = |node, is_up| {
            let mut node = Node::clone(&idle_node(node, 0));
            node.link = if is_up { Link::Up } else { Link::Opening { attempt: 1 } };
            Arc::new(node)
        };
        // The machine is up under the name that the scheduler does not know.
        store.update(node_up("a", false));
        store.update(node_up("b", true));
        let on_both = (vec![false, false, true], vec![(true, 1, 1), (true, 1, 1), (false, 0, 0)]);
        assert_eq!(found(&store), on_both);
        assert_eq!(store.snapshot().same_as.get(&name("a")), Some(&name("b")));
        // It counts under the scheduler's name again as soon as that is up.
        store.update(node_up("a", true));
        assert_eq!(found(&store), on_both);
        assert_eq!(store.snapshot().same_as.get(&name("b")), Some(&name("a")));
        // They turn out to be two machines.
        store.update(node_with("b", "boot-2"));
        let on_one = (vec![false, true, true], vec![(true, 1, 1), (false, 0, 0), (false, 0, 0)]);
        assert_eq!(found(&store), on_one);
    }

    #[test]
    fn what_a_job_has_under_two_names_of_a_machine_is_together() {
        let store = FleetStore::new([name("a"), name("b")], Duration::ZERO);
        let mut list = JobList::clone(&job_list(&["a", "b"], false));
        let indices = |of: &[u32]| DeviceAllocation::Indices(of.into());
        let allocation = |node, of: &[u32]| Allocation { node: name(node), devices: indices(of) };
        list.jobs[0].allocations = [allocation("a", &[2, 0]), allocation("b", &[1])].into();
        list.awaiting_outcome = vec![list.jobs[0].clone()];
        let extra = SchedulerNode { is_extra: true, ..SchedulerNode::default() };
        let nodes = [(name("a"), Arc::new(extra))].into();
        list.nodes = Arc::new(SchedulerNodes { nodes, ..SchedulerNodes::default() });
        store.set_nodes(["a", "b"].map(name), Some(Arc::new(list)));
        for node in ["a", "b"] {
            let mut node = Node::clone(&idle_node(node, 0));
            node.link = Link::Up;
            store.update(Arc::new(node));
        }
        let fleet = store.snapshot();
        let jobs = fleet.jobs.unwrap();
        for job in jobs.jobs.iter().chain(&jobs.awaiting_outcome) {
            let [known] = &*job.allocations else { panic!("{:?}", job.allocations) };
            assert_eq!((&known.node, &known.devices), (&name("a"), &indices(&[0, 1, 2])));
        }
        // The user asked for the other name.
        let is_extra = |node: &Node| node.scheduler.as_ref().unwrap().is_extra;
        assert!(is_extra(&fleet.nodes[0]) && !is_extra(&fleet.nodes[1]));
    }

    #[test]
    fn the_scheduler_s_word_reaches_nodes_that_are_down_and_those_that_report_later() {
        let listed = |state| {
            let node = SchedulerNode { state, ..SchedulerNode::default() };
            let nodes = SchedulerNodes {
                nodes: [(name("a"), Arc::new(node))].into(),
                ..SchedulerNodes::default()
            };
            Some(Arc::new(JobList { nodes: Arc::new(nodes), ..JobList::default() }))
        };
        let state = |store: &FleetStore| {
            store.snapshot().nodes[0].scheduler.as_ref().map(|node| node.state)
        };
        let store = FleetStore::new([name("a")], Duration::ZERO);
        store.set_nodes([name("a")], listed(NodeState::Drained));
        assert_eq!(state(&store), Some(NodeState::Drained));
        store.update(node_opening("a", 1));
        assert_eq!(state(&store), Some(NodeState::Drained));
        store.set_nodes([name("a")], listed(NodeState::Idle));
        assert_eq!(state(&store), Some(NodeState::Idle));
        store.set_nodes([name("a")], None);
        assert_eq!(state(&store), None);
    }

    /// Returns the publications of a second in which a node changes every 10 ms.
    async fn count_publications(focus: Option<NodeName>, sampling_millis: Option<u64>) -> usize {
        let store = FleetStore::new([name("a"), name("b")], Duration::ZERO);
        store.set_focus(focus);
        if let Some(millis) = sampling_millis {
            store.set_sampling(Duration::from_millis(millis));
        }
        let mut reader = store.reader();
        let mut count = 0;
        let writing = async {
            for attempt in 0..100 {
                store.update(node_opening("a", attempt));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let counting = async {
            while reader.changed().await.is_ok() {
                count += 1;
            }
        };
        tokio::select! {
            () = Arc::clone(&store).publish(PublishIntervals::default()) => {}
            () = counting => {}
            () = writing => {}
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_values_of_a_node_are_published_early() {
        let store = FleetStore::new([name("a"), name("b"), name("c")], Duration::ZERO);
        let mut reader = store.reader();
        let intervals = PublishIntervals::default();
        let publishing = tokio::spawn(Arc::clone(&store).publish(intervals));
        let arrivals = |reader: &mut FleetReader| reader.borrow_and_update().arrivals;
        store.update(node_opening("a", 1));
        reader.changed().await.unwrap();
        assert_eq!(arrivals(&mut reader), 0);
        let began = Instant::now();
        let sampled = |node| {
            let mut sampled = Node::new(name(node), Duration::ZERO);
            sampled.mark_sampled(&Source::host(), Timestamp::default());
            Arc::new(sampled)
        };
        // Two that come together are published together.
        store.update(sampled("a"));
        store.update(sampled("b"));
        reader.changed().await.unwrap();
        assert_eq!((arrivals(&mut reader), began.elapsed()), (2, intervals.arrival));
        // The same values again are no arrival.
        store.update(sampled("b"));
        reader.changed().await.unwrap();
        assert_eq!(arrivals(&mut reader), 2);
        assert_eq!(began.elapsed(), intervals.arrival + intervals.usual);
        // After a pause, nothing is waited for.
        tokio::time::sleep(intervals.usual).await;
        let began = Instant::now();
        store.update(sampled("c"));
        reader.changed().await.unwrap();
        assert_eq!((arrivals(&mut reader), began.elapsed()), (3, Duration::ZERO));
        publishing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn frequent_changes_are_published_at_the_default_rate() {
        assert!((4..=6).contains(&count_publications(None, None).await));
        assert!((4..=6).contains(&count_publications(None, Some(1000)).await));
    }

    #[tokio::test(start_paused = true)]
    async fn the_focused_node_is_published_at_the_focus_rate() {
        assert!((18..=22).contains(&count_publications(Some(name("a")), None).await));
    }

    #[tokio::test(start_paused = true)]
    async fn samples_of_few_nodes_that_come_fast_are_all_published() {
        assert!((18..=27).contains(&count_publications(None, Some(50)).await));
        let interval = |millis, nodes| {
            PublishIntervals::default().of_samples(Duration::from_millis(millis), nodes).as_millis()
        };
        assert_eq!(
            [1, MAX_FAST_NODES, MAX_FAST_NODES + 1].map(|nodes| interval(50, nodes)),
            [40, 40, 200]
        );
        assert_eq!([10, 100, 250, 1000].map(|millis| interval(millis, 1)), [40, 80, 200, 200]);
    }
}
