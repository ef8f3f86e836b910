//! Exponential backoff between connection attempts.

use std::time::Duration;

/// Wait before the first retry.
const INITIAL_WAIT: Duration = Duration::from_secs(1);
/// Upper bound of the wait.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Wait after a node refused the account: each try is a login in the node's log, and the reason rarely goes away soon.
const REFUSED_WAIT: Duration = Duration::from_secs(300);
/// Quick retries at a server that accepts no more connections at once (`MaxStartups`), which soon passes.
const MAX_QUICK_RETRIES: u32 = 12;
/// A session of at least this length resets the wait.
const STABLE_SESSION: Duration = Duration::from_secs(30);

/// Waits that double from 1 s to 60 s.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: INITIAL_WAIT }
    }

    /// Resets the wait after a session of at least [`STABLE_SESSION`].
    pub(crate) fn after_session(&mut self, duration: Duration) {
        if duration >= STABLE_SESSION {
            self.next = INITIAL_WAIT;
        }
    }

    /// Sets the wait after the node refused the account.
    pub(crate) fn after_refusal(&mut self) {
        self.next = REFUSED_WAIT;
    }

    /// Shortens the wait after the server was too busy at this attempt.
    pub(crate) fn after_busy_server(&mut self, attempt: u32) {
        if attempt <= MAX_QUICK_RETRIES {
            self.next = INITIAL_WAIT;
        }
    }

    /// Returns the next wait, shortened by up to a half so that nodes that failed together do not reconnect
    /// together. `jitter` is a random number.
    pub(crate) fn next_wait(&mut self, jitter: u8) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(MAX_WAIT);
        wait.saturating_sub(wait / 2 * u32::from(jitter) / u32::from(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_reset_after_a_stable_session() {
        let mut backoff = Backoff::new();
        let waits: Vec<u64> = (0..8).map(|_| backoff.next_wait(0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.after_session(Duration::from_secs(29));
        assert_eq!(backoff.next_wait(0).as_secs(), 60);
        backoff.after_session(Duration::from_secs(30));
        assert_eq!(backoff.next_wait(0).as_secs(), 1);
        for _ in 0..3 {
            backoff.after_refusal();
            assert_eq!(backoff.next_wait(0).as_secs(), 300);
        }
        assert_eq!(backoff.next_wait(0).as_secs(), 60);
    }

    #[test]
    fn a_busy_server_is_retried_quickly_a_limited_number_of_times() {
        let mut backoff = Backoff::new();
        let mut wait = |attempt| {
            backoff.after_busy_server(attempt);
            backoff.next_wait(0).as_secs()
        };
        assert_eq!(
            (1..=15).map(&mut wait).collect::<Vec<_>>(),
            [[1; 12].as_slice(), &[2, 4, 8]].concat()
        );
        assert_eq!(wait(1), 1);
    }

    #[test]
    fn jitter_shortens_a_wait_by_at_most_a_half() {
        for jitter in 0..=255 {
            let wait = Backoff::new().next_wait(jitter);
            assert!((500..=1000).contains(&wait.as_millis()), "{wait:?}");
        }
    }
}
