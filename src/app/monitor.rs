//! Runs the collection, sessions to publishing, on its own thread, so that it never blocks the screen.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::app::discovery::Discovery;
use crate::app::env::Env;
use crate::app::recording;
use gtop_collect::collect::{Collector, CollectorConfig, NodeClient};
use gtop_collect::inventory::Roster;
use gtop_collect::record::RecorderSink;
use gtop_collect::source::live;
use gtop_fleet::{FleetReader, FleetStore};
use gtop_model::{Focus, JobId};

/// Maximum time for an orderly shutdown of the sessions; the kernel closes the rest.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// The running collection. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Monitor {
    store: Arc<FleetStore>,
    config: watch::Sender<CollectorConfig>,
    node_client: NodeClient,
    discovery: Discovery,
    /// Where sessions run: connections that are opened elsewhere would stop with a slow terminal.
    sessions: Handle,
    ended: Receiver<()>,
}

impl Monitor {
    /// Starts the collection; what it collects also goes to a recorder, if there is one.
    pub(super) fn start(
        env: &Env,
        discovery: Discovery,
        recorder: Option<RecorderSink>,
    ) -> io::Result<Self> {
        let rosters = discovery.rosters();
        let store = FleetStore::new([], env.settings.seconds("history"));
        live::publish_roster(&store, recorder.as_ref(), &rosters.borrow());
        let (config, config_changes) =
            watch::channel(CollectorConfig::every(env.settings.seconds("interval")));
        let (ended_sender, ended) = channel();
        let thread_store = Arc::clone(&store);
        let (transport, clock) = (env.transport.clone(), env.clock.clone());
        let max_connecting = env.cli.connection.max_connecting;
        let collector = Collector::new(transport, clock, config_changes, max_connecting);
        let runtime = collector.runtime()?;
        let (node_client, sessions) = (collector.client(), runtime.handle().clone());
        if let Some(recorder) = recorder.clone() {
            sessions.spawn(recording::mark_events(recorder, store.reader(), env.clock.clone()));
        }
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            runtime.block_on(live::run(rosters, collector, thread_store, recorder));
            // A blocked name lookup must not delay the exit.
            runtime.shutdown_background();
            // Fails if the shutdown no longer waits; that is fine.
            ended_sender.send(()).ok();
        })?;
        Ok(Self { store, config, node_client, discovery, sessions, ended })
    }

    /// Returns a reader of the fleet's snapshots.
    pub(super) fn fleet(&self) -> FleetReader {
        self.store.reader()
    }

    /// Returns the rosters: the nodes that are watched at a time.
    pub(super) fn rosters(&self) -> watch::Receiver<Arc<Roster>> {
        self.discovery.rosters()
    }

    /// Returns the runtime of the sessions, on which other connections to nodes are opened too.
    pub(super) fn sessions(&self) -> Handle {
        self.sessions.clone()
    }

    /// Returns a client for requests about processes on nodes.
    pub(super) fn node_client(&self) -> NodeClient {
        self.node_client.clone()
    }

    /// Returns the configuration of the sessions, which has the sampling interval.
    pub(super) fn config(&self) -> watch::Receiver<CollectorConfig> {
        self.config.subscribe()
    }

    /// Requests a full sample from every node, retries nodes that are down, and requests a new roster.
    pub(super) fn refresh(&self) {
        self.discovery.refresh();
        self.update_config(|config| config.refresh += 1);
    }

    /// Sets the job whose details are queried.
    pub(super) fn set_detailed_job(&self, job: Option<JobId>) {
        self.discovery.set_detailed_job(job);
    }

    /// Sets the sampling interval of all nodes.
    pub(super) fn set_interval(&self, interval: Duration) {
        self.update_config(|config| config.interval = interval);
    }

    /// Samples this node faster than the others; `None` ends that.
    pub(super) fn focus(&self, focus: Option<Focus>) {
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
        self.ended.recv_timeout(SHUTDOWN_TIMEOUT).ok();
    }
}
