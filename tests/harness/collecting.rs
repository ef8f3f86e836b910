//! Collects from nodes as the program does: a collector, a pipeline and a store in this runtime.
//!
//! Simulated nodes run in this runtime too, so a test of them can pause its clock ([`start_time_lapse`]): what takes a
//! minute then takes as long as it computes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gtop_collect::collect::{Collector, CollectorConfig, NodeClient};
use gtop_collect::sim::SimNode;
use gtop_collect::source::Pipeline;
use gtop_collect::transport::{Options, Reach, Target, Transport};
use gtop_collect::wire::DeliverySink;
use gtop_fleet::{FleetReader, FleetStore, PublishIntervals};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::NodeName;
use gtop_ssh::{FixedProfile, Profile, SshTarget};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A fleet that is collected, and what asks its nodes.
pub(crate) struct Collected {
    pub(crate) fleet: FleetReader,
    pub(crate) config: watch::Sender<CollectorConfig>,
    pub(crate) client: NodeClient,
    pub(crate) tasks: JoinSet<()>,
}

/// Returns a clock that shows the time of this runtime, which must be paused.
///
/// The runtime advances its time only while all its tasks wait. The kernel may then still hold a packet of a connection,
/// so a step takes a little real time too: a timeout never elapses just because the machine is busy.
pub(crate) fn start_time_lapse() -> (Clock, JoinSet<()>) {
    const STEP: Duration = Duration::from_millis(20);
    let clock = Clock::fixed(Timestamp::from_micros(1_700_000_000_000_000));
    let (shown, mut stepping) = (clock.clone(), JoinSet::new());
    stepping.spawn(async move {
        loop {
            tokio::time::sleep(STEP).await;
            shown.advance(STEP);
            // The runtime does not advance its time during this.
            let pause = || thread::sleep(Duration::from_micros(200));
            tokio::task::spawn_blocking(pause).await.unwrap();
        }
    });
    (clock, stepping)
}

/// Collects a sample every `interval` from each of these nodes.
pub(crate) fn collect(
    options: Options,
    interval: Duration,
    targets: &[Target],
    clock: &Clock,
) -> Collected {
    let keep = Duration::from_secs(60);
    let store = FleetStore::new(targets.iter().map(|target| target.name.clone()), keep);
    let pipeline = Pipeline::new(Arc::clone(&store));
    let with_sink = |target: &Target| (target.clone(), pipeline.sink(target.name.clone()));
    let targets = targets.iter().map(with_sink).collect();
    let (config, config_updates) = watch::channel(CollectorConfig::every(interval));
    let collector = Collector::new(Transport::new(options), clock.clone(), config_updates, 64);
    let (client, fleet) = (collector.client(), store.reader());
    let intervals =
        PublishIntervals { usual: Duration::ZERO, focus: Duration::ZERO, arrival: Duration::ZERO };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        tokio::select! {
            () = follow_all(collector, targets) => {}
            () = store.publish(intervals) => {}
        }
    });
    Collected { fleet, config, client, tasks }
}

/// Runs a collector for nodes that do not change, each with the sink of its events.
pub(crate) async fn follow_all(collector: Collector, targets: Vec<(Target, DeliverySink)>) {
    let listed = targets.iter().map(|(target, _)| target.clone()).collect();
    let sinks = targets.into_iter().map(|(target, sink)| (target.name, sink));
    let mut sinks: BTreeMap<NodeName, DeliverySink> = sinks.collect();
    let (_list, listed) = watch::channel::<Arc<[Target]>>(listed);
    collector.follow(listed, |name| sinks.remove(name).unwrap()).await;
}

/// Returns how a simulated node is reached.
pub(crate) fn sim_target(node: &SimNode) -> Target {
    let profile = FixedProfile::new(node.address, &node.client_key, node.host_key.as_deref());
    let reach = Reach::Ssh(SshTarget {
        host: node.name.as_str().to_owned(),
        user: Some("ada".to_owned()),
        port: None,
        profile: Profile::Fixed(Arc::new(profile.unwrap())),
    });
    Target { name: node.name.clone(), reach }
}
