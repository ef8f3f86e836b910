//! Delivers the signals that end gtop to whichever task can shut down cleanly.

use std::sync::LazyLock;

use tokio::sync::watch;

/// Why the UI stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    Quit,
    Interrupted,
    Terminated,
    /// SIGQUIT.
    Aborted,
    /// SIGHUP, or the terminal is closed.
    HangUp,
}

/// The signal received; process-wide, because signals are.
static RECEIVED: LazyLock<watch::Sender<Option<StopReason>>> =
    LazyLock::new(watch::Sender::default);

/// A subscription to the signals that end gtop.
///
/// The watchdog that publishes a signal kills the process if no subscriber stops it in time.
#[derive(Debug)]
pub struct StopSignals(watch::Receiver<Option<StopReason>>);

impl StopSignals {
    pub fn new() -> Self {
        Self(RECEIVED.subscribe())
    }

    pub async fn next(&mut self) -> StopReason {
        loop {
            if let Some(ending) = *self.0.borrow_and_update() {
                return ending;
            }
            // The sender is never dropped.
            self.0.changed().await.ok();
        }
    }

    pub fn received() -> Option<StopReason> {
        *RECEIVED.borrow()
    }

    /// Publishes a signal. Returns true if there are subscribers.
    pub fn publish(ending: StopReason) -> bool {
        let has_listeners = RECEIVED.receiver_count() > 0;
        RECEIVED.send_replace(Some(ending));
        has_listeners
    }
}

impl Default for StopSignals {
    fn default() -> Self {
        Self::new()
    }
}
