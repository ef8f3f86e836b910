//! Watching nodes for a program that uses the library, without a terminal.

use std::io;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::watch::{Discovery, Monitor, MonitorOptions, SCHEDULER_TIMEOUT, is_complete};
use gtop_collect::transport::Transport;
use gtop_fleet::{Fleet, FleetReader};
use gtop_local::time::{Clock, Timestamp};

/// A running collection with what it needs. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    fleet: FleetReader,
    _monitor: Monitor,
    runtime: Runtime,
    clock: Clock,
}

impl Watcher {
    /// Starts to watch what a discovery finds.
    pub fn start(
        runtime: Runtime,
        transport: Transport,
        discovery: Discovery,
        options: MonitorOptions,
        clock: Clock,
    ) -> io::Result<Self> {
        runtime.block_on(discovery.wait_for_answer(SCHEDULER_TIMEOUT));
        let monitor = Monitor::start(transport, discovery, options, clock.clone(), None)?;
        Ok(Self { fleet: monitor.fleet(), _monitor: monitor, runtime, clock })
    }

    /// Returns the time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the latest snapshot.
    pub fn fleet(&self) -> Fleet {
        self.fleet.borrow().clone()
    }

    /// Waits until every node has answered or is down, at most for `limit`.
    pub fn wait_until_complete(&mut self, limit: Duration) {
        let Self { runtime, fleet, .. } = self;
        let waiting = async { timeout(limit, fleet.wait_for(is_complete)).await };
        // An error means that no more snapshots come: the last one stays.
        drop(runtime.block_on(waiting));
    }

    /// Waits for a snapshot that no earlier call has waited for; returns false if none comes any more.
    pub fn wait_for_next(&mut self) -> bool {
        let Self { runtime, fleet, .. } = self;
        runtime.block_on(fleet.changed()).is_ok()
    }
}
