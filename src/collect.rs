//! One node's life: open, talk, end, wait, open again. One task a node; no node waits for another.
//!
//! Knows nothing of the fleet: what happens goes out as deliveries.

pub use fault::from_transport;
pub use handshake::Handshake;
pub use request_queue::NodeClient;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::collect::request_queue::RequestQueue;
use crate::collect::rest::{Haste, Rest};
use crate::model::NodeName;
use crate::time::Clock;
use crate::transport::{Target, Transport};
use crate::wire::EventSink;

mod backoff;
mod fault;
mod follow;
mod handshake;
mod node;
mod request_queue;
mod rest;
mod session;
mod stderr_tail;

/// What is wanted of all nodes; each node's task follows changes.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorConfig {
    /// How often nodes are sampled.
    pub interval: Duration,
    /// The node somebody looks at closely.
    pub focus: Option<NodeName>,
    /// Counts up each time everything is asked for anew: complete samples, and another try at
    /// every node that is down.
    pub refresh: u64,
    /// Counts up each time a job of the user's begins on the node: what refused us before may let us
    /// in now.
    pub job_starts: u64,
    /// Sessions are to end.
    pub is_stopping: bool,
}

impl CollectorConfig {
    /// Asks for a sample every `interval` and nothing else.
    pub fn every(interval: Duration) -> Self {
        Self { interval, focus: None, refresh: 0, job_starts: 0, is_stopping: false }
    }
}

/// What all nodes share.
#[derive(Clone, Debug)]
pub struct Collector {
    transport: Transport,
    clock: Clock,
    config: watch::Receiver<CollectorConfig>,
    /// Connections being opened.
    permits: Arc<Semaphore>,
    /// Who must not wait for the end of a rest.
    haste: Arc<Haste>,
    /// For how long the session with a node that is not listed any more is kept.
    grace: Duration,
    queue: Arc<RequestQueue>,
}

/// The next job often comes to the same nodes.
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
            haste: Arc::default(),
            grace: DEFAULT_GRACE,
            queue: Arc::default(),
        }
    }

    /// Keeps the session with a node that is not listed any more for so long.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Returns what asks the nodes about their processes; they are known as soon as they are watched.
    pub fn client(&self) -> NodeClient {
        NodeClient::new(Arc::clone(&self.queue), Arc::clone(&self.haste))
    }

    /// Returns what reaches the nodes.
    pub fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// Makes the runtime for the one thread that holds all sessions: SSH work is many small
    /// pieces, and one thread does it with less than two would.
    pub fn runtime(&self) -> io::Result<Runtime> {
        let rest = Rest { config: self.config.clone(), haste: Arc::clone(&self.haste) };
        let mut builder = runtime::Builder::new_current_thread();
        builder.enable_all().on_thread_park(move || rest.take()).build()
    }

    /// Watches nodes until the configuration says that sessions are to end, and until they have.
    ///
    /// Each target comes with where to send what happens there.
    pub async fn run(self, targets: Vec<(Target, EventSink)>) {
        let mut tasks = JoinSet::new();
        for (target, sink) in targets {
            self.queue.open(&target.name);
            tasks.spawn(node::supervise(self.clone(), target, sink));
        }
        while tasks.join_next().await.is_some() {}
    }
}
