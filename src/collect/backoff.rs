//! How long to wait before the next try.

use std::time::Duration;

/// The first wait.
const INITIAL_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The wait after a node refused the account: each try is a login in the node's log, and what keeps people out lasts.
const REFUSED_WAIT: Duration = Duration::from_secs(300);
/// So many tries are made soon after each other where a server takes no more connections at once: those before us
/// are through in a moment.
const MAX_QUICK_RETRIES: u32 = 12;
/// A session that lasted so long was a good one.
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

    /// Takes note of how long a session lasted.
    pub(crate) fn after_session(&mut self, lasted: Duration) {
        if lasted >= STABLE_SESSION {
            self.next = INITIAL_WAIT;
        }
    }

    /// Takes note that the node refused the account.
    pub(crate) fn after_refusal(&mut self) {
        self.next = REFUSED_WAIT;
    }

    /// Takes note that the server had too many others at this attempt.
    pub(crate) fn after_busy_server(&mut self, attempt: u32) {
        if attempt <= MAX_QUICK_RETRIES {
            self.next = INITIAL_WAIT;
        }
    }

    /// Returns the next wait, shortened by up to a half so that nodes that fell together do not
    /// come back together. `jitter` is any number.
    pub(crate) fn next_wait(&mut self, jitter: u8) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(MAX_WAIT);
        whole.saturating_sub(whole / 2 * u32::from(jitter) / u32::from(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew_after_a_good_session() {
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
    fn a_crowded_server_is_soon_asked_again_but_not_for_ever() {
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
    fn chance_shortens_a_wait_by_at_most_a_half() {
        for jitter in 0..=255 {
            let wait = Backoff::new().next_wait(jitter);
            assert!((500..=1000).contains(&wait.as_millis()), "{wait:?}");
        }
    }
}
