//! One node's life: open, talk, end, wait, open again. One task a node; no node waits for another.
//!
//! Knows nothing of the fleet: what happens goes out as deliveries.

pub use fault::of_transport;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::model::NodeName;
use crate::time::Clock;
use crate::transport::{Target, Transport};
use crate::wire::Delivery;

mod backoff;
mod fault;
mod node;
mod session;

/// What is wanted of all nodes; each node's task follows changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// How often nodes are sampled.
    pub interval: Duration,
    /// The node somebody looks at closely.
    pub focus: Option<NodeName>,
    /// Counts up each time everything is asked for anew: complete samples, and another try at
    /// every node that is down.
    pub refresh: u64,
    /// Sessions are to end.
    pub is_ending: bool,
}

impl Orders {
    /// Asks for a sample every `interval` and nothing else.
    pub fn every(interval: Duration) -> Self {
        Self { interval, focus: None, refresh: 0, is_ending: false }
    }
}

/// What all nodes share.
#[derive(Clone, Debug)]
pub struct Collector {
    transport: Transport,
    clock: Clock,
    orders: watch::Receiver<Orders>,
    /// Connections being opened.
    permits: Arc<Semaphore>,
}

impl Collector {
    /// Makes a collector that opens at most `max_connecting` connections at once.
    pub fn new(
        transport: Transport,
        clock: Clock,
        orders: watch::Receiver<Orders>,
        max_connecting: u16,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(usize::from(max_connecting)));
        Self { transport, clock, orders, permits }
    }

    /// Watches nodes until the orders say that sessions are to end, and until they have.
    ///
    /// Each target comes with where to send what happens there.
    pub async fn run(self, targets: Vec<(Target, Sender<Delivery>)>) {
        let mut lives = JoinSet::new();
        for (target, intake) in targets {
            lives.spawn(node::live(self.clone(), target, intake));
        }
        while lives.join_next().await.is_some() {}
    }
}
