//! The signals that end gtop, for those who can end it in good order.

use std::sync::LazyLock;

use tokio::sync::watch;

use crate::tui::StopReason;

/// The signal that came. One process gets them, and whoever is at work then hears of it.
static RECEIVED: LazyLock<watch::Sender<Option<StopReason>>> =
    LazyLock::new(watch::Sender::default);

/// Hears of a signal that ends gtop; one that comes while something is written waits.
///
/// Whoever takes too long after it is ended by whoever announced it.
#[derive(Debug)]
pub struct StopSignals(watch::Receiver<Option<StopReason>>);

impl StopSignals {
    /// Listens from now on.
    pub fn new() -> Self {
        Self(RECEIVED.subscribe())
    }

    /// Waits for a signal.
    pub async fn next(&mut self) -> StopReason {
        loop {
            if let Some(ending) = *self.0.borrow_and_update() {
                return ending;
            }
            // The sender is never dropped.
            self.0.changed().await.ok();
        }
    }

    /// Returns what came, if anything did.
    pub fn received() -> Option<StopReason> {
        *RECEIVED.borrow()
    }

    /// Tells those who listen that a signal came. Returns whether there is anybody.
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
