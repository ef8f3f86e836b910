//! A deadline for the phases of a connection.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use gtop_local::fault::ssh::{ConnectPhase, Fault};

/// A deadline, and the fault when it passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    duration: Duration,
}

impl Deadline {
    pub(crate) fn after(duration: Duration) -> Self {
        Self { at: Instant::now() + duration, duration }
    }

    /// Runs `work` until the deadline.
    pub(crate) async fn timeout<T>(
        &self,
        phase: ConnectPhase,
        work: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        timeout_at(self.at, work).await.map_err(|_elapsed| self.timed_out(phase))
    }

    /// Extends the deadline, by time that does not count.
    pub(crate) fn extend(&mut self, by: Duration) {
        self.at += by;
    }

    pub(crate) fn timed_out(&self, phase: ConnectPhase) -> Fault {
        Fault::TimedOut { phase, after: self.duration }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}
