//! The rest of the sessions' thread between two looks at its connections.
//!
//! Samples of many nodes trickle in all the time. Waking for each costs more than handling it;
//! what arrives within one rest is handled together.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::collect::Orders;
use crate::collect::session::FOCUS_INTERVAL;

/// Longest rest: nobody sees that a sample is so much older, and it is well under the pace of
/// publishing.
const LONGEST: Duration = Duration::from_millis(125);
/// At least so many looks an interval.
const LOOKS: u32 = 8;

/// Decides how long to rest, and does.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) orders: watch::Receiver<Orders>,
    /// Connections being opened.
    pub(super) permits: Arc<Semaphore>,
    /// All permits there are.
    pub(super) most: usize,
}

impl Rest {
    /// Rests on this thread.
    #[expect(clippy::disallowed_methods, reason = "to stop the runtime's thread is the point")]
    pub(super) fn take(&self) {
        let length = self.length();
        if !length.is_zero() {
            thread::sleep(length);
        }
    }

    /// Opening and ending take many short steps, and each would wait for the end of a rest.
    fn length(&self) -> Duration {
        let orders = self.orders.borrow();
        if orders.is_ending || self.permits.available_permits() < self.most {
            return Duration::ZERO;
        }
        let interval = if orders.focus.is_some() {
            orders.interval.min(FOCUS_INTERVAL)
        } else {
            orders.interval
        };
        (interval / LOOKS).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeName;

    #[test]
    fn a_rest_is_short_against_the_interval_and_none_while_something_is_opened_or_ends() {
        let (orders, followed) = watch::channel(Orders::every(Duration::from_secs(1)));
        let permits = Arc::new(Semaphore::new(4));
        let rest = Rest { orders: followed, permits: Arc::clone(&permits), most: 4 };
        assert_eq!(rest.length(), Duration::from_millis(125));
        orders.send_modify(|orders| orders.interval = Duration::from_secs(60));
        assert_eq!(rest.length(), Duration::from_millis(125));
        orders.send_modify(|orders| orders.interval = Duration::from_millis(100));
        assert_eq!(rest.length(), Duration::from_micros(12_500));
        orders.send_modify(|orders| {
            orders.interval = Duration::from_secs(1);
            orders.focus = NodeName::new("gpu01").ok();
        });
        assert_eq!(rest.length(), FOCUS_INTERVAL / 8);
        let permit = permits.try_acquire().unwrap();
        assert_eq!(rest.length(), Duration::ZERO);
        drop(permit);
        assert!(!rest.length().is_zero());
        orders.send_modify(|orders| orders.is_ending = true);
        assert_eq!(rest.length(), Duration::ZERO);
    }
}
