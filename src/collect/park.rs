//! The rest of the sessions' thread between two looks at its connections.
//!
//! Samples of many nodes trickle in all the time. Waking for each costs more than handling it: what arrives within
//! one rest is handled together. Whoever waits for a node's next word says so, and there is no rest until then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::sync::watch;

use crate::collect::CollectorConfig;
use crate::collect::session::FOCUS_INTERVAL;

/// Longest rest: nobody sees that a sample is so much older. What comes in one rest waits together, and takes
/// room: twice as long a rest saves a tenth of the time and costs 2 KiB a node.
const MAX_REST: Duration = Duration::from_millis(250);
/// At least so many looks an interval.
const LOOKS: u32 = 4;
/// The same while a node takes the steps of opening and is slow about it: each step waits for the end of a rest.
const MAX_OPENING_REST: Duration = Duration::from_millis(125);
const LOOKS_IN_STEPS: u32 = 8;

/// Who is in a hurry.
#[derive(Debug, Default)]
pub(super) struct NoDelay {
    /// Those that wait for the next word.
    waiting: AtomicUsize,
    /// Nodes that are slow to open.
    slow: AtomicUsize,
    /// The thread that rests.
    resting: OnceLock<Thread>,
}

/// One that is in a hurry, for as long as this is held.
#[derive(Debug)]
pub(super) struct NoDelayGuard {
    haste: Arc<NoDelay>,
    is_slow: bool,
}

impl NoDelay {
    /// Somebody waits for a node's next word: there is no rest.
    pub(super) fn wait(self: &Arc<Self>) -> NoDelayGuard {
        self.hurry(false)
    }

    /// A node is opened that is slow about it: rests are short.
    pub(super) fn go_slowly(self: &Arc<Self>) -> NoDelayGuard {
        self.hurry(true)
    }

    fn hurry(self: &Arc<Self>, is_slow: bool) -> NoDelayGuard {
        let hurry = NoDelayGuard { haste: Arc::clone(self), is_slow };
        hurry.count().fetch_add(1, Ordering::SeqCst);
        self.wake();
        hurry
    }

    /// Ends a rest: something is to be told to nodes.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.resting.get() {
            thread.unpark();
        }
    }
}

impl NoDelayGuard {
    fn count(&self) -> &AtomicUsize {
        if self.is_slow { &self.haste.slow } else { &self.haste.waiting }
    }
}

impl Drop for NoDelayGuard {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::SeqCst);
    }
}

/// Decides how long to rest, and does.
#[derive(Debug)]
pub(super) struct ParkPolicy {
    pub(super) config: watch::Receiver<CollectorConfig>,
    pub(super) haste: Arc<NoDelay>,
}

impl ParkPolicy {
    /// Rests on this thread.
    pub(super) fn take(&self) {
        self.haste.resting.get_or_init(thread::current);
        let length = self.length();
        if !length.is_zero() {
            thread::park_timeout(length);
        }
    }

    fn length(&self) -> Duration {
        let config = self.config.borrow();
        if config.is_stopping || self.haste.waiting.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        let interval = if config.focus.is_some() {
            config.interval.min(FOCUS_INTERVAL)
        } else {
            config.interval
        };
        if self.haste.slow.load(Ordering::SeqCst) > 0 {
            return (interval / LOOKS_IN_STEPS).min(MAX_OPENING_REST);
        }
        (interval / LOOKS).min(MAX_REST)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::model::NodeName;

    fn rest() -> (watch::Sender<CollectorConfig>, ParkPolicy) {
        let (config, followed) = watch::channel(CollectorConfig::every(Duration::from_secs(1)));
        (config, ParkPolicy { config: followed, haste: Arc::default() })
    }

    #[test]
    fn a_rest_is_short_against_the_interval() {
        let (config, rest) = rest();
        assert_eq!(rest.length(), Duration::from_millis(250));
        config.send_modify(|config| config.interval = Duration::from_secs(60));
        assert_eq!(rest.length(), Duration::from_millis(250));
        config.send_modify(|config| config.interval = Duration::from_millis(100));
        assert_eq!(rest.length(), Duration::from_millis(25));
        config.send_modify(|config| {
            config.interval = Duration::from_secs(1);
            config.focus = NodeName::new("gpu01").ok();
        });
        assert_eq!(rest.length(), FOCUS_INTERVAL / 4);
    }

    #[test]
    fn nobody_rests_while_somebody_waits_and_not_long_while_a_node_is_slow_to_open() {
        let (config, rest) = rest();
        let waiting = [rest.haste.wait(), rest.haste.wait()];
        let slow = rest.haste.go_slowly();
        assert_eq!(rest.length(), Duration::ZERO);
        drop(waiting);
        assert_eq!(rest.length(), Duration::from_millis(125));
        drop(slow);
        assert_eq!(rest.length(), Duration::from_millis(250));
        config.send_modify(|config| config.is_stopping = true);
        assert_eq!(rest.length(), Duration::ZERO);
    }

    /// Tells whether a rest ended before its time while this was told again and again.
    fn is_cut_short(tell: fn(&Arc<NoDelay>)) -> bool {
        let (_orders, rest) = rest();
        let haste = Arc::clone(&rest.haste);
        thread::scope(|scope| {
            let resting = scope.spawn(move || {
                let began = Instant::now();
                rest.take();
                began.elapsed() < MAX_REST
            });
            while !resting.is_finished() {
                tell(&haste);
                thread::yield_now();
            }
            resting.join().unwrap()
        })
    }

    #[test]
    fn a_rest_ends_when_somebody_begins_to_wait_or_has_something_to_tell() {
        // The machine may be busy for once; a rest that nobody ends always lasts to its end.
        let is_cut_short = |tell| (0..5).any(|_| is_cut_short(tell));
        assert!(is_cut_short(|haste| drop(haste.wait())));
        assert!(is_cut_short(|haste| haste.wake()));
        assert!(!is_cut_short(|_| {}));
    }
}
