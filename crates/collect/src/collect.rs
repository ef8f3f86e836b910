//! Collects samples: one task per node opens a session, reads frames or a page of metrics, and reconnects with backoff.
//!
//! Knows nothing of the fleet: events go out as deliveries.

pub(crate) use backoff::Backoff;

pub use handshake::{Handshake, LoaderError, ProbeStart};
pub use login_shell::ShellHistory;
pub use requests::NodeClient;

pub(crate) use handshake::start_script;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::collect::park::{NoDelay, ParkPolicy};
use crate::collect::requests::RequestQueue;
use crate::transport::Transport;
use gtop_local::time::Clock;
use gtop_model::Focus;

mod backoff;
mod fault;
mod handshake;
mod login_shell;
mod node;
mod park;
mod requests;
mod scrape;
mod session;
mod stderr;
mod supervisor;

/// Sampling interval of a node in focus; the probe knows the sources that must not be read so often.
const FOCUS_INTERVAL: Duration = Duration::from_millis(50);

/// The collector's settings for all nodes; each node's task follows changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectorConfig {
    /// Sampling interval.
    pub interval: Duration,
    /// The focused node, which is sampled more often.
    pub focus: Option<Focus>,
    /// Incremented on each refresh, which requests complete samples and retries every node that is down.
    pub refresh: u64,
    /// Incremented each time a job of the user starts on the node: a login refused before may succeed now.
    pub(crate) job_starts: u64,
    /// The scheduler has the node powered down: its session must end, and it is not tried again until it is up.
    pub is_powered_off: bool,
    /// Sessions must end.
    pub is_stopping: bool,
}

impl CollectorConfig {
    /// Returns the settings for a sample every `interval`.
    pub fn every(interval: Duration) -> Self {
        Self { interval, ..Self::default() }
    }

    /// Returns true if the session of the node must end.
    const fn ends_session(&self) -> bool {
        self.is_stopping || self.is_powered_off
    }
}

/// Waits until the session of a node must end.
async fn until_session_ends(config: &mut watch::Receiver<CollectorConfig>) {
    // A closed configuration channel means stopping too.
    drop(config.wait_for(CollectorConfig::ends_session).await);
}

/// Shared by all nodes' tasks.
#[derive(Clone, Debug)]
pub struct Collector {
    transport: Transport,
    clock: Clock,
    config: watch::Receiver<CollectorConfig>,
    /// Connections being opened.
    permits: Arc<Semaphore>,
    /// Tasks that prevent or shorten parks.
    no_delay: Arc<NoDelay>,
    /// How long the session of a removed node is kept.
    grace: Duration,
    queue: Arc<RequestQueue>,
}

/// How long the session of a removed node is kept: the next job often runs on the same nodes.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

impl Collector {
    /// Makes a collector that opens at most `max_connecting` connections at once.
    pub fn new(
        transport: Transport,
        clock: Clock,
        config: watch::Receiver<CollectorConfig>,
        max_connecting: u16,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(max_connecting.into()));
        Self {
            transport,
            clock,
            config,
            permits,
            no_delay: Arc::default(),
            grace: DEFAULT_GRACE,
            queue: Arc::default(),
        }
    }

    /// Keeps the session of a removed node for this long.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Returns a client for requests about processes; a node is known to it once it is monitored.
    pub fn client(&self) -> NodeClient {
        NodeClient::new(Arc::clone(&self.queue), Arc::clone(&self.no_delay))
    }

    pub fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// Makes the single-threaded runtime of all sessions: SSH work comes in many small pieces, which one thread handles
    /// with less overhead than two.
    pub fn runtime(&self) -> io::Result<Runtime> {
        let policy =
            ParkPolicy { config: self.config.clone(), no_delay: Arc::clone(&self.no_delay) };
        let mut builder = runtime::Builder::new_current_thread();
        builder.enable_all().on_thread_park(move || policy.park()).build()
    }
}
