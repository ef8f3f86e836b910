//! SSH servers that answered too late, and how long to wait for them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use gtop_local::lock::lock;

/// The longest time to wait for a server, unless the connect timeout is longer.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(80);

/// The name of a host, as typed or as `ProxyJump` has it, and its port.
type ServerAddress<'a> = (&'a str, u16);

/// How many times in a row each server did not finish the key exchange in time.
///
/// The time is doubled after each: a server that needs longer than the connect timeout for its first line would never be
/// reached.
#[derive(Debug, Default)]
pub(crate) struct SlowServers(Mutex<BTreeMap<(String, u16), u32>>);

impl SlowServers {
    /// Returns how long to wait for a server.
    pub(crate) fn connect_timeout(
        &self,
        (host, port): ServerAddress<'_>,
        minimum: Duration,
    ) -> Duration {
        let count = lock(&self.0).get(&(host.to_owned(), port)).copied().unwrap_or_default();
        minimum.saturating_mul(1 << count.min(8)).min(MAX_CONNECT_TIMEOUT.max(minimum))
    }

    /// Records that a server did not answer in time.
    pub(crate) fn add_timeout(&self, (host, port): ServerAddress<'_>) {
        *lock(&self.0).entry((host.to_owned(), port)).or_default() += 1;
    }

    /// Records that a server answered, with so much of its time left: one that is quick again gets the usual time.
    pub(crate) fn add_answer(&self, server: ServerAddress<'_>, minimum: Duration, took: Duration) {
        if took < minimum / 2 {
            lock(&self.0).remove(&(server.0.to_owned(), server.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_more_time_after_each_timeout_until_it_is_quick() {
        let (servers, second) = (SlowServers::default(), Duration::from_secs(1));
        let server = ("gpu01", 22);
        let timeout = |minimum: u32| servers.connect_timeout(server, second * minimum).as_secs();
        let mut timeouts = Vec::new();
        for _ in 0..6 {
            timeouts.push((timeout(10), timeout(4), timeout(300)));
            servers.add_timeout(server);
        }
        assert_eq!(
            timeouts,
            [
                (10, 4, 300),
                (20, 8, 300),
                (40, 16, 300),
                (80, 32, 300),
                (80, 64, 300),
                (80, 80, 300)
            ]
        );
        assert_eq!(servers.connect_timeout(("gpu02", 22), second), second);
        servers.add_answer(server, 10 * second, 14 * second);
        assert_eq!(timeout(10), 80);
        servers.add_answer(server, 10 * second, second);
        assert_eq!(timeout(10), 10);
    }
}
