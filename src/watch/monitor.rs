//! Runs the collection, sessions to publishing, on its own thread, so that it never blocks the screen.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::watch::Discovery;
use gtop_collect::collect::{Collector, CollectorConfig, NodeClient};
use gtop_collect::inventory::Roster;
use gtop_collect::record::RecorderSink;
use gtop_collect::source::live;
use gtop_collect::transport::Transport;
use gtop_fleet::insight::events::MarkObserver;
use gtop_fleet::{DEFAULT_INTERVAL, FleetReader, FleetStore};
use gtop_local::lock::lock;
use gtop_local::time::Clock;
use gtop_model::{Focus, JobId};

/// Maximum time for an orderly shutdown of the sessions; the kernel closes the rest.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// Maximum time between two looks at what has happened.
const MARK_INTERVAL: Duration = Duration::from_secs(1);

/// How nodes are watched.
#[derive(Clone, Copy, Debug)]
pub struct MonitorOptions {
    /// The sampling interval.
    pub interval: Duration,
    /// How far back samples are kept.
    pub history: Duration,
    /// Maximum number of connections opened at once.
    pub max_connecting: u16,
}

impl Default for MonitorOptions {
    fn default() -> Self {
        let history = Duration::from_secs(300);
        Self { interval: DEFAULT_INTERVAL, history, max_connecting: 64 }
    }
}

/// The running collection. Dropping it ends it.
#[derive(Debug)]
pub struct Monitor {
    store: Arc<FleetStore>,
    config: watch::Sender<CollectorConfig>,
    node_client: NodeClient,
    discovery: Discovery,
    /// Where sessions run: connections that are opened elsewhere would stop with a slow terminal.
    sessions: Handle,
    ended: Mutex<Receiver<()>>,
}

impl Monitor {
    /// Starts the collection; what it collects also goes to a recorder, if there is one.
    pub fn start(
        transport: Transport,
        discovery: Discovery,
        options: MonitorOptions,
        clock: Clock,
        recorder: Option<RecorderSink>,
    ) -> io::Result<Self> {
        let rosters = discovery.rosters();
        let store = FleetStore::new([], options.history);
        store.set_sampling(options.interval);
        live::publish_roster(&store, recorder.as_ref(), &rosters.borrow());
        let (config, config_changes) = watch::channel(CollectorConfig::every(options.interval));
        let (ended_sender, ended) = channel();
        let thread_store = Arc::clone(&store);
        let max_connecting = options.max_connecting;
        let collector = Collector::new(transport, clock.clone(), config_changes, max_connecting);
        let runtime = collector.runtime()?;
        let (node_client, sessions) = (collector.client(), runtime.handle().clone());
        if let Some(recorder) = recorder.clone() {
            sessions.spawn(mark_events(recorder, store.reader(), clock));
        }
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            runtime.block_on(live::run(rosters, collector, thread_store, recorder));
            // A blocked name lookup must not delay the exit.
            runtime.shutdown_background();
            // Fails if the shutdown no longer waits; that is fine.
            ended_sender.send(()).ok();
        })?;
        Ok(Self { store, config, node_client, discovery, sessions, ended: Mutex::new(ended) })
    }

    /// Returns a reader of the fleet's snapshots.
    pub fn fleet(&self) -> FleetReader {
        self.store.reader()
    }

    /// Returns the rosters: the nodes that are watched at a time.
    pub fn rosters(&self) -> watch::Receiver<Arc<Roster>> {
        self.discovery.rosters()
    }

    /// Returns the runtime of the sessions, on which other connections to nodes are opened too.
    pub fn sessions(&self) -> Handle {
        self.sessions.clone()
    }

    /// Returns a client for requests about processes on nodes.
    pub fn node_client(&self) -> NodeClient {
        self.node_client.clone()
    }

    /// Returns the configuration of the sessions, which has the sampling interval.
    pub fn config(&self) -> watch::Receiver<CollectorConfig> {
        self.config.subscribe()
    }

    /// Requests a full sample from every node, retries nodes that are down, and requests a new roster.
    pub fn refresh(&self) {
        self.discovery.refresh();
        self.request_full_samples();
    }

    /// Requests a full sample from every node, and retries nodes that are down.
    pub fn request_full_samples(&self) {
        self.update_config(|config| config.refresh += 1);
    }

    /// Sets the job whose details are queried.
    pub fn set_detailed_job(&self, job: Option<JobId>) {
        self.discovery.set_detailed_job(job);
    }

    /// Sets the sampling interval of all nodes.
    pub fn set_interval(&self, interval: Duration) {
        self.store.set_sampling(interval);
        self.update_config(|config| config.interval = interval);
    }

    /// Samples this node faster than the others; `None` ends that.
    pub fn focus(&self, focus: Option<Focus>) {
        self.store.set_focus(focus.as_ref().map(|focus| focus.node.clone()));
        self.update_config(|config| config.focus = focus);
    }

    fn update_config(&self, change: impl FnOnce(&mut CollectorConfig)) {
        self.config.send_modify(change);
        self.node_client.wake();
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.update_config(|config| config.is_stopping = true);
        // A timeout is fine: the kernel closes the sessions.
        lock(&self.ended).recv_timeout(SHUTDOWN_TIMEOUT).ok();
    }
}

/// Marks in a recording what happens in the fleet, as long as it is watched.
async fn mark_events(recorder: RecorderSink, mut fleet: FleetReader, clock: Clock) {
    let mut observer = MarkObserver::default();
    loop {
        let snapshot = fleet.borrow_and_update().clone();
        if recorder.is_recording() {
            for mark in observer.observe(&snapshot, clock.now()) {
                recorder.mark(mark);
            }
        } else {
            observer = MarkObserver::default();
        }
        // Nodes also become stale without a new snapshot.
        match timeout(MARK_INTERVAL, fleet.changed()).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(_closed)) => return,
        }
    }
}
