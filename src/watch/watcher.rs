//! Watching nodes for a program that uses the library: without a terminal, and in whatever runtime the program has.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::watch::{Discovery, Monitor, MonitorOptions, is_complete};
use gtop_collect::transport::Transport;
use gtop_fleet::{Fleet, FleetReader};
use gtop_local::time::{Clock, Timestamp};

/// A running collection. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    fleet: FleetReader,
    monitor: Monitor,
    clock: Clock,
    title: Arc<str>,
}

impl Watcher {
    /// Starts to watch what a discovery finds; the title says what that is.
    pub fn start(
        transport: Transport,
        discovery: Discovery,
        title: String,
        options: MonitorOptions,
        clock: Clock,
    ) -> io::Result<Self> {
        let monitor = Monitor::start(transport, discovery, options, clock.clone(), None)?;
        Ok(Self { fleet: monitor.fleet(), monitor, clock, title: title.into() })
    }

    /// Returns what is watched, as text.
    pub fn title(&self) -> &Arc<str> {
        &self.title
    }

    /// Returns the clock.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Returns the time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the latest snapshot.
    pub fn fleet(&self) -> Fleet {
        self.fleet.borrow().clone()
    }

    /// Returns a reader of the snapshots.
    pub fn reader(&self) -> FleetReader {
        self.fleet.clone()
    }

    /// Waits until every node has answered or is down, at most for `limit`.
    pub async fn wait_until_complete(&self, limit: Duration) {
        let mut fleet = self.reader();
        // The caller's runtime may have no timer.
        let waiting = self.monitor.sessions().spawn(async move {
            // An error means that no more snapshots come: the last one stays.
            drop(timeout(limit, fleet.wait_for(is_complete)).await);
        });
        drop(waiting.await);
    }
}
