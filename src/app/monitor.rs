//! Everything that watches, on a thread of its own: sessions, pipeline, publishing.
//!
//! The screen never waits for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::app::discovery::Discovery;
use crate::collect::{Collector, CollectorConfig, NodeClient};
use crate::fleet::{FleetReader, FleetStore, PublishRate};
use crate::inventory::{Roster, slurm};
use crate::model::{JobId, NodeName};
use crate::pipeline::Pipeline;
use crate::time::Clock;
use crate::transport::{Target, Transport};

/// How long sessions may take to say goodbye. What is not closed then, the kernel closes.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// What watching needs to know.
#[derive(Debug)]
pub(super) struct MonitorConfig {
    /// Whom.
    pub(super) discovery: Discovery,
    /// How they are reached.
    pub(super) transport: Transport,
    /// Whose time.
    pub(super) clock: Clock,
    /// How often.
    pub(super) interval: Duration,
    /// How long histories are kept.
    pub(super) history: Duration,
    /// How many connections may be opened at once.
    pub(super) max_connecting: u16,
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Monitor {
    store: Arc<FleetStore>,
    config: watch::Sender<CollectorConfig>,
    node_client: NodeClient,
    discovery: Discovery,
    ended: Receiver<()>,
}

impl Monitor {
    /// Starts watching.
    pub(super) fn start(config: MonitorConfig) -> io::Result<Self> {
        let rosters = config.discovery.rosters();
        let store = FleetStore::new([], config.history);
        publish_roster(&store, &rosters.borrow());
        let (collector_config, followed) = watch::channel(CollectorConfig::every(config.interval));
        let (ending, ended) = channel();
        let published = Arc::clone(&store);
        let MonitorConfig { discovery, transport, clock, history, max_connecting, .. } = config;
        let collector = Collector::new(transport, clock, followed, max_connecting);
        let runtime = collector.runtime()?;
        let node_client = collector.client();
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            runtime.block_on(run(rosters, collector, published, history));
            // A name service that hangs must not hold up the end.
            runtime.shutdown_background();
            // Nobody may be waiting any more.
            ending.send(()).ok();
        })?;
        Ok(Self { store, config: collector_config, node_client, discovery, ended })
    }

    /// Returns a reader of the fleet.
    pub(super) fn fleet(&self) -> FleetReader {
        self.store.reader()
    }

    /// Returns who asks nodes about their processes.
    pub(super) fn node_client(&self) -> NodeClient {
        self.node_client.clone()
    }

    /// Asks every node for everything, tries those that are down, and asks for a new roster.
    pub(super) fn refresh(&self) {
        self.discovery.refresh();
        self.update_config(|config| config.refresh += 1);
    }

    /// Asks about one job in detail.
    pub(super) fn set_detailed_job(&self, job: Option<JobId>) {
        self.discovery.set_detailed_job(job);
    }

    /// Samples every node so often from now on.
    pub(super) fn set_interval(&self, interval: Duration) {
        self.update_config(|config| config.interval = interval);
    }

    /// Samples one node faster than the others.
    pub(super) fn focus(&self, node: Option<NodeName>) {
        self.store.set_focus(node.clone());
        self.update_config(|config| config.focus = node);
    }

    fn update_config(&self, change: impl FnOnce(&mut CollectorConfig)) {
        self.config.send_modify(change);
        self.node_client.wake();
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.update_config(|config| config.is_stopping = true);
        // Whether it ended or took too long: the program goes on.
        self.ended.recv_timeout(SHUTDOWN_TIMEOUT).ok();
    }
}

/// Puts a roster on the store.
fn publish_roster(store: &FleetStore, roster: &Roster) {
    store.set_nodes(roster.targets.iter().map(|target| target.name.clone()), roster.jobs.clone());
}

async fn run(
    mut rosters: watch::Receiver<Arc<Roster>>,
    collector: Collector,
    store: Arc<FleetStore>,
    history: Duration,
) {
    let pipeline = Pipeline::new(Arc::clone(&store), history);
    let targets = |roster: &Roster| Arc::<[Target]>::from(roster.targets.as_slice());
    let transport = collector.transport();
    let know = |roster: &Roster| {
        if let Some(jobs) = &roster.jobs {
            transport.update_jobs(|before| slurm::choose_step_jobs(jobs, before));
            transport.set_scheduler_addresses(roster.addresses.clone());
        }
    };
    // One look at it: what comes between two would be listed and not known.
    let first = Arc::clone(&rosters.borrow_and_update());
    publish_roster(&store, &first);
    know(&first);
    let (listed, followed) = watch::channel(targets(&first));
    let listing = async {
        while rosters.changed().await.is_ok() {
            let roster = Arc::clone(&rosters.borrow_and_update());
            publish_roster(&store, &roster);
            know(&roster);
            listed.send_replace(targets(&roster));
        }
        std::future::pending::<()>().await;
    };
    // A task of its own comes to its turn when all that arrived together is on the store.
    let publishing = tokio::spawn(Arc::clone(&store).publish(PublishRate::default()));
    tokio::select! {
        () = collector.follow(followed, |node| pipeline.sink(node.clone())) => {}
        _ended = publishing => {}
        () = listing => {}
    }
}
