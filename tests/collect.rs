//! Collects from simulated nodes behind real SSH servers: what each fault looks like, and that the fault
//! of one node does not affect another. Time is that of the runtime, which is paused: no test waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::collect::{Collector, CollectorConfig};
use gtop_collect::sim::{self, FleetSpec, SimFleet};
use gtop_collect::transport::{Options, Target, Transport};
use gtop_collect::wire::{Body, DeliverySink, RawUpdate};
use gtop_fleet::{Fleet, FleetReader, Node};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Fault, FaultKind, Freshness, Link, NodeName, SessionUpdate, SourceFaultKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::harness::collecting::{self, Collected, follow_all, sim_target, start_time_lapse};

/// Limit for any wait, in the time of the runtime.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A simulated fleet with a collector in this runtime.
struct WatchedFleet {
    fleet: FleetReader,
    config: watch::Sender<CollectorConfig>,
    clock: Clock,
    served: SimFleet,
    tasks: JoinSet<()>,
    _time_lapse: JoinSet<()>,
}

async fn watch_fleet(spec: &FleetSpec, interval: Duration) -> WatchedFleet {
    let served = sim::serve(spec).await.unwrap();
    let targets: Vec<Target> = served.nodes.iter().map(sim_target).collect();
    let mut options = Options::of_this_process();
    options.ssh.connect_timeout = Some(Duration::from_secs(10));
    let (clock, time_lapse) = start_time_lapse();
    let Collected { fleet, config, tasks, .. } =
        collecting::collect(options, interval, &targets, &clock);
    WatchedFleet { fleet, config, clock, served, tasks, _time_lapse: time_lapse }
}

impl WatchedFleet {
    /// Waits until the fleet satisfies `is_so`.
    async fn until(&mut self, what: &str, is_so: impl FnMut(&Fleet) -> bool) -> Fleet {
        if let Ok(fleet) = timeout(TIMEOUT, self.fleet.wait_for(is_so)).await {
            return fleet.unwrap().clone();
        }
        let fleet = self.fleet.borrow();
        let links: Vec<_> = fleet.nodes.iter().map(|node| (&node.name, &node.link)).collect();
        panic!("timed out waiting for {what}: {links:?}")
    }

    async fn until_node(
        &mut self,
        index: usize,
        what: &str,
        mut is_so: impl FnMut(&Node) -> bool,
    ) -> Arc<Node> {
        let fleet = self.until(what, |fleet| is_so(fleet.nodes.get(index).unwrap())).await;
        Arc::clone(fleet.nodes.get(index).unwrap())
    }

    async fn stop(mut self) {
        self.config.send_modify(|config| config.is_stopping = true);
        timeout(TIMEOUT, self.tasks.join_next()).await.unwrap();
        self.served.stop().await;
    }
}

fn is_settled(node: &Node) -> bool {
    node.link == Link::Up && node.is_settled
}

fn fault_of(node: &Node) -> Option<&Fault> {
    node.fault()
}

fn busy(nodes: u32) -> FleetSpec {
    FleetSpec::busy(nodes, 2, 2, 1)
}

#[tokio::test(start_paused = true)]
async fn healthy_nodes_are_watched_until_the_collector_stops() {
    let mut watched = watch_fleet(&busy(8), Duration::from_secs(1)).await;
    let fleet =
        watched.until("all nodes", |fleet| fleet.nodes.iter().all(|node| is_settled(node))).await;
    for node in fleet.nodes.iter() {
        assert_eq!(node.devices.len(), 2);
        assert!(node.freshness(watched.clock.now()).is_fresh());
        assert!(node.host.cpu.get().is_some());
    }
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_session_up_past_the_heartbeat_timeout() {
    let is_up = |fleet: &Fleet| fleet.nodes.iter().all(|node| node.link == Link::Up);
    let mut fast = watch_fleet(&busy(1), Duration::from_secs(1)).await;
    // Its interval is longer than that of heartbeats.
    let mut slow = watch_fleet(&busy(1), Duration::from_secs(12)).await;
    for watched in [&mut fast, &mut slow] {
        watched.until("the session", is_up).await;
    }
    let loss = async {
        tokio::select! {
            fleet = fast.until("a loss", |fleet| !is_up(fleet)) => fleet,
            fleet = slow.until("a loss", |fleet| !is_up(fleet)) => fleet,
        }
    };
    let timeout_limit = gtop_collect::probe::HEARTBEAT_TIMEOUT + Duration::from_secs(5);
    if let Ok(fleet) = timeout(timeout_limit, loss).await {
        panic!("{:?}", fleet.nodes.iter().map(|node| node.fault()).collect::<Vec<_>>());
    }
    fast.stop().await;
    slow.stop().await;
}

/// Faults that end or prevent a session, with the expected kind and a part of the detail.
const FATAL: &[(sim::InjectedFault, FaultKind, &str)] = &[
    (sim::InjectedFault::RefusedPort, FaultKind::Refused, "port"),
    (sim::InjectedFault::SilentPort, FaultKind::TimedOut, "banner"),
    (sim::InjectedFault::RefuseAuth, FaultKind::AuthenticationRefused, "node offers: hostbased"),
    (sim::InjectedFault::UnknownHostKey, FaultKind::HostKeyUnknown, ""),
    (sim::InjectedFault::ChangedHostKey, FaultKind::HostKeyChanged, ""),
    (sim::InjectedFault::NeverAnswerExec, FaultKind::TimedOut, "starting the command"),
    (sim::InjectedFault::NoNonce, FaultKind::TimedOut, "did not start it within"),
    (sim::InjectedFault::LoginExits, FaultKind::NoInterpreter, "ended first"),
    (sim::InjectedFault::Silent, FaultKind::Silent, "nothing within 30 s"),
    (sim::InjectedFault::WrongVersion, FaultKind::BadReply, "version 2"),
];

/// Each fault on its own node of one fleet, with healthy nodes between.
#[tokio::test(start_paused = true)]
async fn every_fault_shows_only_on_its_own_node() {
    let count = u32::try_from(FATAL.len()).unwrap();
    let mut spec = busy(count * 2);
    for (index, (fault, _, _)) in (0..).zip(FATAL) {
        spec = spec.with_fault(index * 2, *fault);
    }
    let mut watched = watch_fleet(&spec, Duration::from_secs(1)).await;
    let healthy =
        |fleet: &Fleet| fleet.nodes.iter().skip(1).step_by(2).all(|node| is_settled(node));
    watched.until("the healthy nodes", healthy).await;
    for (index, (fault, kind, detail)) in FATAL.iter().enumerate() {
        let node = watched
            .until_node(index * 2, &format!("{fault:?}"), |node| fault_of(node).is_some())
            .await;
        let shown = fault_of(&node).unwrap();
        assert_eq!(shown.kind, *kind, "{fault:?}: {}", shown.message());
        assert!(shown.detail.contains(detail), "{fault:?}: {}", shown.message());
        if let Link::Down { retry_at, .. } = &node.link {
            assert_eq!(retry_at.is_some(), kind.is_retryable(), "{fault:?}");
        }
        assert!(!shown.detail.contains(node.name.as_str()), "{fault:?} cannot fold");
    }
    let fleet = watched.fleet.borrow().clone();
    assert!(healthy(&fleet), "a fault reached another node");
    watched.stop().await;
}

/// 15 nodes settle alike whether the sixteenth answers or accepts the connection and stays silent.
#[tokio::test(start_paused = true)]
async fn an_unresponsive_node_does_not_affect_the_others() {
    let mut settled = BTreeMap::new();
    for is_silent in [false, true] {
        let spec = if is_silent {
            busy(16).with_fault(15, sim::InjectedFault::SilentPort)
        } else {
            busy(16)
        };
        let mut watched = watch_fleet(&spec, Duration::from_millis(200)).await;
        let before = watched.clock.now();
        let others = |fleet: &Fleet| fleet.nodes.iter().take(15).all(|node| is_settled(node));
        let fleet = watched.until("15 nodes", others).await;
        settled.insert(is_silent, watched.clock.now().since(before));
        if is_silent {
            // The others are settled while the silent node is still connecting.
            assert_eq!(fleet.nodes.last().unwrap().link, Link::Opening { attempt: 1 });
            let node =
                watched.until_node(15, "the silent node", |node| fault_of(node).is_some()).await;
            assert_eq!(fault_of(&node).unwrap().kind, FaultKind::TimedOut);
            let fleet = watched.fleet.borrow().clone();
            let now = watched.clock.now();
            assert!(fleet.nodes.iter().take(15).all(|node| node.freshness(now).is_fresh()));
        }
        watched.stop().await;
    }
    println!(
        "15 nodes complete after {:?}, and after {:?} beside a silent one",
        settled[&false], settled[&true]
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_frames_are_skipped_and_the_session_continues() {
    let spec = busy(4)
        .with_fault(0, sim::InjectedFault::CutFrame { number: 3 })
        .with_fault(1, sim::InjectedFault::Garbage)
        .with_fault(2, sim::InjectedFault::HugeLine { number: 3 })
        .with_fault(3, sim::InjectedFault::BannerNoise);
    let mut watched = watch_fleet(&spec, Duration::from_millis(100)).await;
    watched.until("all nodes", |fleet| fleet.nodes.iter().all(|node| is_settled(node))).await;
    let first = sample_times(&watched.fleet.borrow());
    let is_later = |fleet: &Fleet| {
        let now = sample_times(fleet);
        first.iter().zip(&now).all(|(then, now)| now.since(*then) > Duration::from_secs(2))
    };
    let fleet = watched.until("two more seconds of every node", is_later).await;
    for node in fleet.nodes.iter() {
        assert_eq!(node.link, Link::Up, "{}", node.name);
        assert_eq!(node.devices.len(), 2, "{}", node.name);
    }
    watched.stop().await;
}

fn sample_times(fleet: &Fleet) -> Vec<Timestamp> {
    fleet.nodes.iter().map(|node| node.taken_at().unwrap_or_default()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_without_python_is_watched_by_the_shell_probe() {
    let mut watched =
        watch_fleet(&busy(1).with_fault(0, sim::InjectedFault::NoPython), Duration::from_secs(1))
            .await;
    watched.until_node(0, "the node", is_settled).await;
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_opened_again() {
    let after = Duration::from_millis(1500);
    let mut watched = watch_fleet(
        &busy(1).with_fault(0, sim::InjectedFault::DropSession { after }),
        Duration::from_millis(200),
    )
    .await;
    watched.until_node(0, "the first session", is_settled).await;
    let lost = watched.until_node(0, "the loss", |node| fault_of(node).is_some()).await;
    assert_eq!(fault_of(&lost).unwrap().kind, FaultKind::SessionLost);
    assert!(!lost.devices.is_empty(), "known devices are kept and become stale");
    watched.until_node(0, "the second session", is_settled).await;
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_detected() {
    let after = Duration::from_millis(1500);
    let mut watched = watch_fleet(
        &busy(1).with_fault(0, sim::InjectedFault::Reboot { after }),
        Duration::from_millis(200),
    )
    .await;
    let first = watched.until_node(0, "the first boot", is_settled).await;
    let boot = Arc::clone(&first.hello.as_ref().unwrap().host.boot_id);
    let is_other =
        |node: &Node| is_settled(node) && node.hello.as_ref().unwrap().host.boot_id != boot;
    watched.until_node(0, "the second boot", is_other).await;
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_is_retried_only_on_request() {
    let mut watched =
        watch_fleet(&busy(1).with_fault(0, sim::InjectedFault::RefuseAuth), Duration::from_secs(1))
            .await;
    let node = watched.until_node(0, "the refusal", |node| fault_of(node).is_some()).await;
    assert!(matches!(node.link, Link::Down { retry_at: None, .. }));
    watched.config.send_modify(|config| config.refresh += 1);
    watched.until_node(0, "another try", |node| node.link == Link::Opening { attempt: 2 }).await;
    watched.until_node(0, "the second refusal", |node| fault_of(node).is_some()).await;
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_driver_is_shown_while_the_host_is_fresh() {
    let after = Duration::from_secs(1);
    let mut watched = watch_fleet(
        &busy(1).with_fault(0, sim::InjectedFault::StuckBackend { after }),
        Duration::from_millis(500),
    )
    .await;
    watched.until_node(0, "the node", is_settled).await;
    let node = watched.until_node(0, "the fault", |node| node.source_fault().is_some()).await;
    let (_, fault) = node.source_fault().unwrap();
    assert_eq!(fault.kind, SourceFaultKind::Stuck);
    let clock = watched.clock.clone();
    let is_split = |node: &Node| {
        let now = clock.now();
        node.host_freshness(now).is_fresh()
            && matches!(node.device_freshness(0, now), Freshness::Stale(_))
    };
    watched.until_node(0, "stale devices beside a fresh host", is_split).await;
    watched.stop().await;
}

/// Data delayed on its way is shown with its real age, within a second.
#[tokio::test(start_paused = true)]
async fn late_data_is_shown_with_its_real_age() {
    let (after, by) = (Duration::from_secs(2), Duration::from_secs(6));
    let spec = busy(2).with_fault(0, sim::InjectedFault::Lag { after, by });
    let mut watched = watch_fleet(&spec, Duration::from_millis(200)).await;
    watched.until("both nodes", |fleet| fleet.nodes.iter().all(|node| is_settled(node))).await;
    let clock = watched.clock.clone();
    let age = |node: &Node| clock.now().since(node.taken_at().unwrap());
    let node =
        watched.until_node(0, "the delay", |node| age(node) > Duration::from_millis(4500)).await;
    assert!(matches!(node.freshness(clock.now()), Freshness::Stale(_)));
    // Frames arrive again, each six seconds old.
    let before = node.taken_at();
    let is_late = |node: &Node| {
        let shown = age(node);
        assert!(shown + Duration::from_secs(1) > by || node.taken_at() == before, "{shown:?}");
        node.taken_at() > before && shown < by + Duration::from_secs(2)
    };
    watched.until_node(0, "late frames", is_late).await;
    let other = Arc::clone(watched.fleet.borrow().nodes.last().unwrap());
    assert!(other.freshness(clock.now()).is_fresh());
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_stalls_becomes_stale_and_recovers() {
    let (after, lasting) = (Duration::from_secs(1), Duration::from_secs(5));
    let spec = busy(1).with_fault(0, sim::InjectedFault::Stall { after, lasting });
    let mut watched = watch_fleet(&spec, Duration::from_millis(200)).await;
    watched.until_node(0, "the node", is_settled).await;
    let before = watched.fleet.borrow().nodes.first().unwrap().taken_at().unwrap();
    let clock = watched.clock.clone();
    let node = watched
        .until_node(0, "the return", |node| {
            node.taken_at().unwrap().since(before) > Duration::from_secs(4)
        })
        .await;
    assert_eq!(node.link, Link::Up);
    assert!(node.freshness(clock.now()).is_fresh());
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_four_intervals_does_not_end_the_session() {
    // The samples due after 20, 30 and 40 s are missing.
    let (after, lasting) = (Duration::from_secs(15), Duration::from_secs(30));
    let fault = sim::InjectedFault::Stall { after, lasting };
    let mut watched = watch_fleet(&busy(1).with_fault(0, fault), Duration::from_secs(10)).await;
    watched.until_node(0, "a sample", |node| node.taken_at().is_some()).await;
    let mut last = None;
    let is_after_stall = |node: &Node| {
        let before = last.replace(node.taken_at().unwrap_or_default());
        let gap = node
            .taken_at()
            .unwrap_or_default()
            .since(before.unwrap_or(Timestamp::from_micros(i64::MAX)));
        node.link != Link::Up || gap > lasting
    };
    let node = watched.until_node(0, "the sample after the quiet", is_after_stall).await;
    assert_eq!(node.link, Link::Up, "the stall takes 40 s, five intervals take 50 s");
    watched.stop().await;
}

/// Watches one node with a fault, and returns its events; calls `on_event` for each one first.
async fn collect_events(
    fault: sim::InjectedFault,
    clock: &Clock,
    every: Duration,
    mut on_event: impl FnMut(&RawUpdate) + Send + 'static,
) -> (mpsc::Receiver<RawUpdate>, watch::Sender<CollectorConfig>, impl AsyncFnOnce()) {
    let served = sim::serve(&busy(1).with_fault(0, fault)).await.unwrap();
    let (config, config_updates) = watch::channel(CollectorConfig::every(every));
    let (sender, events) = mpsc::channel(4096);
    let sink: DeliverySink = Box::new(move |delivery| {
        on_event(&delivery.raw);
        sender.try_send(delivery.raw).unwrap();
    });
    let transport = Transport::new(Options::of_this_process());
    let collector = Collector::new(transport, clock.clone(), config_updates, 1);
    let targets = vec![(sim_target(served.nodes.first().unwrap()), sink)];
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_all(collector, targets));
    let config_sender = config.clone();
    let stop = async move || {
        config.send_modify(|config| config.is_stopping = true);
        timeout(TIMEOUT, tasks.join_next()).await.unwrap();
        served.stop().await;
    };
    (events, config_sender, stop)
}

#[tokio::test(start_paused = true)]
async fn the_interval_is_delivered_before_the_first_frame_and_on_each_change() {
    let (clock, _time_lapse) = start_time_lapse();
    let every = Duration::from_millis(200);
    let fault = sim::InjectedFault::LostFrame { number: u64::MAX };
    let (mut events, config, stop) = collect_events(fault, &clock, every, |_| {}).await;
    let mut next = async || timeout(TIMEOUT, events.recv()).await.unwrap().unwrap();
    let mut delivered = None;
    loop {
        match next().await {
            RawUpdate::Session(SessionUpdate::Interval(interval)) => delivered = Some(interval),
            RawUpdate::Frame(_) | RawUpdate::Scrape(_) => break,
            RawUpdate::Session(_) => {}
        }
    }
    assert_eq!(delivered, Some(every));
    let other = Duration::from_secs(7);
    config.send_modify(|config| config.interval = other);
    loop {
        if let RawUpdate::Session(SessionUpdate::Interval(interval)) = next().await {
            break assert_eq!(interval, other);
        }
    }
    stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_good_session_shortens_the_next_wait() {
    let _time_lapse = start_time_lapse();
    let clock = Clock::fixed(Timestamp::from_micros(1_000_000_000));
    let fault = sim::InjectedFault::DropSession { after: Duration::from_millis(200) };
    // On this clock, three sessions take no time, which makes the waits longer; the fourth takes a minute.
    let (session_clock, mut sessions) = (clock.clone(), 0);
    let lengthen = move |event: &RawUpdate| {
        if matches!(event, RawUpdate::Session(SessionUpdate::Link(Link::Up))) {
            sessions += 1;
            session_clock.advance(Duration::from_secs(if sessions == 4 { 60 } else { 0 }));
        }
    };
    let every = Duration::from_millis(100);
    let (mut events, _config, stop) = collect_events(fault, &clock, every, lengthen).await;
    let (mut waits, mut was_up, mut ended_at) = (Vec::new(), false, clock.now());
    while waits.len() < 4 {
        let event = timeout(TIMEOUT, events.recv()).await.unwrap().unwrap();
        let RawUpdate::Session(SessionUpdate::Link(link)) = event else { continue };
        if let (Link::Down { retry_at, .. }, true) = (&link, was_up) {
            ended_at = if waits.len() == 3 { clock.now() } else { ended_at };
            waits.push(retry_at.unwrap().since(ended_at));
        }
        was_up = link == Link::Up;
    }
    let seconds = |count: u64| Duration::from_secs(count);
    assert!(waits[2] >= seconds(2), "each wait is twice the one before, less a half: {waits:?}");
    assert!(waits[3] <= seconds(1), "after a good session it is the first again: {waits:?}");
    stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_sample_is_followed_by_a_complete_one() {
    let fault = sim::InjectedFault::LostFrame { number: 5 };
    let (clock, _time_lapse) = start_time_lapse();
    let every = Duration::from_millis(200);
    let (mut events, _config, stop) = collect_events(fault, &clock, every, |_| {}).await;
    // Without a request, the probe sends its next full sample after 20 s.
    let next_full = 15_000 / 200;
    let mut numbers = Vec::new();
    loop {
        let event = timeout(TIMEOUT, events.recv()).await.unwrap().unwrap();
        let RawUpdate::Frame(frame) = event else { continue };
        let Body::Sample(sample) = frame.body else { continue };
        numbers.push(sample.n);
        if sample.n > 5 && sample.full {
            assert!(sample.n < next_full, "it was not requested: {}", sample.n);
            break;
        }
    }
    assert!(!numbers.contains(&5), "{numbers:?}");
    stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_follow_the_list_and_unchanged_ones_keep_their_session() {
    let served = sim::serve(&busy(3)).await.unwrap();
    let (config, config_updates) = watch::channel(CollectorConfig::every(Duration::from_secs(1)));
    let all: Vec<Target> = served.nodes.iter().map(sim_target).collect();
    let select = |indices: &[usize]| {
        indices.iter().map(|index| all[*index].clone()).collect::<Arc<[Target]>>()
    };
    let (list, listed) = watch::channel(select(&[0, 1]));
    let (sender, mut events) = mpsc::channel(1024);
    // A guard is dropped when the task of its node ends.
    let guards = Arc::new(std::sync::Mutex::new(BTreeMap::new()));
    let new_guards = Arc::clone(&guards);
    let sink = move |name: &NodeName| -> DeliverySink {
        let guard = Arc::new(());
        new_guards.lock().unwrap().insert(name.clone(), Arc::downgrade(&guard));
        let (name, sender) = (name.clone(), sender.clone());
        Box::new(move |delivery| {
            assert!(Arc::strong_count(&guard) > 0);
            if let RawUpdate::Session(SessionUpdate::Link(link)) = delivery.raw {
                sender.try_send((name.clone(), link)).unwrap();
            }
        })
    };
    let transport = Transport::new(Options::of_this_process());
    let (clock, _time_lapse) = start_time_lapse();
    let collector = Collector::new(transport, clock, config_updates, 8);
    let mut tasks = JoinSet::new();
    tasks.spawn(collector.with_grace(Duration::from_millis(300)).follow(listed, sink));
    let mut links_by_node: BTreeMap<NodeName, Vec<Link>> = BTreeMap::new();
    let mut until_up = async |count: usize| {
        let up = |links: &Vec<Link>| links.last() == Some(&Link::Up);
        while links_by_node.values().filter(|links| up(links)).count() < count {
            let (node, link) = timeout(TIMEOUT, events.recv()).await.unwrap().unwrap();
            links_by_node.entry(node).or_default().push(link);
        }
        links_by_node.clone()
    };
    let is_alive = |index: usize| {
        let guards = guards.lock().unwrap();
        guards
            .get(&all[index].name)
            .is_some_and(|guard: &std::sync::Weak<()>| guard.strong_count() > 0)
    };
    until_up(2).await;
    // A node that returns within the grace period keeps its session.
    list.send_replace(select(&[1, 2]));
    list.send_replace(select(&[0, 1, 2]));
    let links_by_node = until_up(3).await;
    assert!(
        links_by_node.values().all(|links| links.len() == 2),
        "each was opened once: {links_by_node:?}"
    );
    list.send_replace(select(&[2, 1]));
    timeout(TIMEOUT, async {
        while is_alive(0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    assert!(is_alive(1) && is_alive(2));
    // A node that returns later starts a new session.
    list.send_replace(select(&[0, 1, 2]));
    timeout(TIMEOUT, async {
        while !is_alive(0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    config.send_modify(|config| config.is_stopping = true);
    timeout(TIMEOUT, tasks.join_next()).await.unwrap();
    assert!(!(0..3).any(is_alive));
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_connected_to_while_it_is_powered_down() {
    let served = sim::serve(&busy(1)).await.unwrap();
    let (config, config_updates) = watch::channel(CollectorConfig::every(Duration::from_secs(1)));
    let targets: Arc<[Target]> = served.nodes.iter().map(sim_target).collect();
    let off: BTreeSet<NodeName> = [targets[0].name.clone()].into();
    let (list, listed) = watch::channel(Arc::clone(&targets));
    let (sender, mut events) = mpsc::channel(1024);
    let sink = move |_: &NodeName| -> DeliverySink {
        let sender = sender.clone();
        Box::new(move |delivery| {
            if let RawUpdate::Session(SessionUpdate::Link(link)) = delivery.raw {
                sender.try_send(link).unwrap();
            }
        })
    };
    let transport = Transport::new(Options::of_this_process());
    let (clock, _time_lapse) = start_time_lapse();
    transport.set_powered_off(off.clone());
    let collector = Collector::new(transport.clone(), clock, config_updates, 8);
    let mut tasks = JoinSet::new();
    tasks.spawn(collector.follow(listed, sink));
    let set_powered_off = |nodes: BTreeSet<NodeName>| {
        transport.set_powered_off(nodes);
        list.send_replace(Arc::clone(&targets));
    };
    let mut next = async || timeout(TIMEOUT, events.recv()).await.unwrap().unwrap();
    assert_eq!(next().await, Link::Idle);
    set_powered_off(BTreeSet::new());
    assert_eq!((next().await, next().await), (Link::Opening { attempt: 1 }, Link::Up));
    // A session ends without a fault, and nothing is tried until the node is up again.
    config.send_modify(|config| config.interval = Duration::from_secs(2));
    set_powered_off(off);
    assert_eq!(next().await, Link::Idle);
    config.send_modify(|config| config.refresh += 1);
    tokio::time::sleep(Duration::from_secs(120)).await;
    set_powered_off(BTreeSet::new());
    assert_eq!((next().await, next().await), (Link::Opening { attempt: 1 }, Link::Up));
    config.send_modify(|config| config.is_stopping = true);
    timeout(TIMEOUT, tasks.join_next()).await.unwrap();
    served.stop().await;
}

/// Collects from nodes with these faults; returns the links of each until `is_over` holds for all of them.
async fn links_until(
    faults: &[sim::InjectedFault],
    is_over: impl Fn(&[Link]) -> bool,
) -> Vec<Vec<Link>> {
    let mut spec = busy(u32::try_from(faults.len()).unwrap());
    for (index, fault) in (0..).zip(faults) {
        spec = spec.with_fault(index, *fault);
    }
    let served = sim::serve(&spec).await.unwrap();
    let (clock, _time_lapse) = start_time_lapse();
    let (config, config_updates) = watch::channel(CollectorConfig::every(Duration::from_secs(30)));
    let (sink, mut links) = mpsc::channel(4096);
    let targets = served.nodes.iter().enumerate().map(|(index, node)| {
        let sink = sink.clone();
        let event_sink: DeliverySink = Box::new(move |delivery| {
            if let RawUpdate::Session(SessionUpdate::Link(link)) = delivery.raw {
                sink.try_send((index, link)).unwrap();
            }
        });
        (sim_target(node), event_sink)
    });
    let targets = targets.collect();
    let collector =
        Collector::new(Transport::new(Options::of_this_process()), clock, config_updates, 64);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_all(collector, targets));
    let mut seen = vec![Vec::new(); faults.len()];
    let collecting = async {
        while !seen.iter().all(|links: &Vec<Link>| is_over(links)) {
            let (index, link) = links.recv().await.unwrap();
            seen[index].push(link);
        }
    };
    let is_complete = timeout(10 * TIMEOUT, collecting).await.is_ok();
    assert!(is_complete, "{:?}", seen.iter().map(|links| link_texts(links)).collect::<Vec<_>>());
    config.send_modify(|config| config.is_stopping = true);
    timeout(TIMEOUT, tasks.join_next()).await.unwrap();
    served.stop().await;
    seen
}

/// Returns each link in a few words.
fn link_texts(links: &[Link]) -> Vec<String> {
    let text = |link: &Link| match link {
        Link::Down { fault, .. } => fault.message(),
        Link::Opening { attempt } => format!("attempt {attempt}"),
        Link::Idle | Link::Up => format!("{link:?}"),
    };
    links.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_login_shell_that_takes_up_to_a_minute_is_used_at_the_first_attempt() {
    let faults: Vec<_> = (0..=60)
        .map(|seconds| sim::InjectedFault::SlowShell { after: Duration::from_secs(seconds) })
        .collect();
    let seen = links_until(&faults, |links| links.contains(&Link::Up)).await;
    for (seconds, links) in (0..).zip(&seen) {
        let mut expected = vec!["attempt 1".to_owned()];
        let reports = [10, 20, 40].into_iter().filter(|report| *report < seconds);
        expected.extend(reports.map(|report| {
            format!("timed out: the login shell did not start it within {report} s")
        }));
        expected.push("Up".to_owned());
        let texts = link_texts(links);
        // At the very second either may come first.
        if ![10, 20, 40].contains(&seconds) {
            assert_eq!(texts, expected, "{seconds} s");
        }
        assert!(texts[1..].iter().all(|text| !text.starts_with("attempt")), "{texts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_shell_that_reads_its_input_is_told_from_a_slow_one() {
    let second = |seconds| sim::InjectedFault::SlowShell { after: Duration::from_secs(seconds) };
    let faults =
        [sim::InjectedFault::ReadsInput, sim::InjectedFault::NoNonce, second(91), second(150)];
    let is_final = |link: &Link| match link {
        Link::Up => true,
        Link::Down { fault, .. } => fault.kind == FaultKind::NoInterpreter,
        Link::Idle | Link::Opening { .. } => false,
    };
    let is_over = |links: &[Link]| {
        links.contains(&Link::Up) || links.iter().filter(|link| is_final(link)).count() >= 2
    };
    let seen = links_until(&faults, is_over).await;
    let late =
        |seconds: u64| format!("timed out: the login shell did not start it within {seconds} s");
    let first = || ["attempt 1".to_owned(), late(10), late(20), late(40), late(80)];
    let closed = |seconds: u64, end: &str| {
        format!("no interpreter: the login shell did not start it within {seconds} s, {end}")
    };
    let attempt = |number: u32| format!("attempt {number}");
    let may_read = "but when its input was closed: a login file may read its input";
    let reads = "but when its input was closed: a login file reads its input";
    let ended = "and ended with its input";
    let expected: [Vec<String>; 4] = [
        [&first()[..], &[closed(90, may_read), attempt(2), closed(10, reads)]].concat(),
        [&first()[..], &[closed(90, ended), attempt(2), closed(10, ended)]].concat(),
        // It started at the moment its input was closed; at another time it did not.
        [
            &first()[..],
            &[closed(90, may_read), attempt(2), late(10), attempt(3)],
            &[late(10), late(20), late(40), late(80), "Up".to_owned()],
        ]
        .concat(),
        [
            &first()[..],
            &[late(90), attempt(2), late(10), late(20), late(40), late(80), "Up".to_owned()],
        ]
        .concat(),
    ];
    for (links, expected) in seen.iter().zip(&expected) {
        assert_eq!(&link_texts(links)[..expected.len()], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn one_connecting_slot_is_enough_for_many_nodes() {
    // The silent node releases its slot instead of blocking the others.
    let spec = busy(6).with_fault(0, sim::InjectedFault::NoNonce);
    let served = sim::serve(&spec).await.unwrap();
    let (clock, _time_lapse) = start_time_lapse();
    let (config, config_updates) = watch::channel(CollectorConfig::every(Duration::from_secs(1)));
    let (sink, mut deliveries) = mpsc::channel(1024);
    let targets = served.nodes.iter().map(|node| {
        let sink = sink.clone();
        let event_sink: DeliverySink = Box::new(move |delivery| sink.try_send(delivery).unwrap());
        (sim_target(node), event_sink)
    });
    let targets = targets.collect();
    let transport = Transport::new(Options::of_this_process());
    let collector = Collector::new(transport, clock, config_updates, 1);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_all(collector, targets));
    let mut up = 0;
    while up < 5 {
        let delivery = timeout(TIMEOUT, deliveries.recv()).await.unwrap().unwrap();
        if let RawUpdate::Session(SessionUpdate::Link(link)) = delivery.raw {
            assert!(!matches!(link, Link::Down { .. }), "one gave up before the others were up");
            up += usize::from(link == Link::Up);
        }
    }
    config.send_modify(|config| config.is_stopping = true);
    timeout(TIMEOUT, tasks.join_next()).await.unwrap();
    served.stop().await;
}
