//! How often nodes are sampled: slower while nobody looks, and the node in focus faster.

use std::time::Duration;

use gtop_local::time::Timestamp;
use gtop_model::Focus;

/// Time without terminal focus after which nodes may sample less often.
const UNATTENDED_AFTER: Duration = Duration::from_secs(60);
const UNATTENDED_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Sampling {
    /// The interval of the settings.
    pub(crate) interval: Duration,
    /// The node in focus.
    pub(crate) focus: Option<Focus>,
    /// Since when the terminal has no focus, if it reports focus.
    unattended: Option<Timestamp>,
}

impl Sampling {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self { interval, focus: None, unattended: None }
    }

    /// Returns the sampling interval: longer when the terminal has been without focus for a while.
    pub(crate) fn interval(&self, now: Timestamp) -> Duration {
        let is_unattended =
            self.unattended.is_some_and(|since| now.since(since) >= UNATTENDED_AFTER);
        if is_unattended { self.interval.max(UNATTENDED_INTERVAL) } else { self.interval }
    }

    /// Records whether the terminal has focus. Without it a focus on a node ends, which is returned.
    pub(crate) fn set_attended(&mut self, is_attended: bool, now: Timestamp) -> Option<Focus> {
        if is_attended {
            self.unattended = None;
            return None;
        }
        self.unattended.get_or_insert(now);
        self.focus.take()
    }
}
