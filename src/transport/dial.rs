//! From a host name to an open TCP connection.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::transport::fault::{self, Fault, Step};
use crate::transport::ssh_config::Family;

/// Most name lookups at once. One that hangs holds its place until the system gives up.
const LOOKUPS: usize = 32;

/// Most addresses of one name that are tried.
const MOST_ADDRESSES: usize = 8;

/// A bound on time, and what to say when it is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    given: Duration,
}

impl Deadline {
    pub(super) fn after(given: Duration) -> Self {
        Self { at: Instant::now() + given, given }
    }

    /// Waits for `work`, at the longest until this deadline.
    pub(super) async fn bound<T>(
        &self,
        step: Step,
        work: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        timeout_at(self.at, work).await.map_err(|_elapsed| self.missed(step))
    }

    /// Moves the deadline by time that does not count.
    pub(super) fn put_off(&mut self, by: Duration) {
        self.at += by;
    }

    pub(super) fn missed(&self, step: Step) -> Fault {
        Fault::TimedOut { step, after: self.given }
    }

    fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

/// Looks up names, a bounded number at once.
#[derive(Debug, Clone)]
pub(super) struct Names(Arc<Semaphore>);

impl Default for Names {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

/// Where to connect to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) family: Family,
    /// What the user typed.
    pub(super) typed: &'a str,
}

impl Names {
    /// Returns the addresses of a name, in the order of the system.
    pub(super) async fn look_up(&self, place: Place<'_>) -> Result<Vec<SocketAddr>, Fault> {
        let unknown = |why: String| Fault::NameNotFound {
            host: (place.host != place.typed).then(|| place.host.to_owned()),
            why,
        };
        let found = match place.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, place.port)],
            Err(_) => self.ask(place.host.to_owned(), place.port).await.map_err(unknown)?,
        };
        let fits = |address: &SocketAddr| match place.family {
            Family::Any => true,
            Family::Version4 => address.is_ipv4(),
            Family::Version6 => address.is_ipv6(),
        };
        let mut addresses: Vec<_> = found.into_iter().filter(fits).collect();
        addresses.truncate(MOST_ADDRESSES);
        if addresses.is_empty() {
            return Err(unknown("it has no address of the wanted family".to_owned()));
        }
        Ok(addresses)
    }

    async fn ask(&self, host: String, port: u16) -> Result<Vec<SocketAddr>, String> {
        let closed = "gtop is ending";
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(|_ending| closed)?;
        // The permit goes along: a lookup cannot be stopped, only not started.
        let asked = tokio::task::spawn_blocking(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            drop(permit);
            found
        });
        let found = asked.await.map_err(|_ending| closed)?;
        found.map_err(|error| fault::reason(&error))
    }
}

/// Connects to the first address that answers; every address gets its share of the time.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    deadline: &Deadline,
) -> Result<TcpStream, Fault> {
    let mut last = deadline.missed(Step::Connection);
    for (tried, address) in addresses.iter().enumerate() {
        let waiting = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match timeout(deadline.left() / waiting, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Not being able to only costs a little time.
                stream.set_nodelay(true).ok();
                return Ok(stream);
            }
            Ok(Err(error)) => last = connection_fault(&error, address.port()),
            Err(_elapsed) => last = deadline.missed(Step::Connection),
        }
    }
    Err(last)
}

fn connection_fault(error: &std::io::Error, port: u16) -> Fault {
    if error.kind() == std::io::ErrorKind::ConnectionRefused {
        return Fault::Refused { port };
    }
    Fault::Unreachable { why: fault::reason(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, family: Family) -> Place<'_> {
        Place { host, port: 22, family, typed: host }
    }

    #[tokio::test]
    async fn an_address_needs_no_lookup() {
        let found = Names::default().look_up(place("10.1.2.3", Family::Any)).await.unwrap();
        assert_eq!(found, ["10.1.2.3:22".parse().unwrap()]);
        let fault = Names::default().look_up(place("10.1.2.3", Family::Version6)).await;
        assert!(matches!(fault, Err(Fault::NameNotFound { .. })));
    }

    #[tokio::test]
    async fn the_second_address_is_tried_when_the_first_refuses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = SocketAddr::new("127.0.0.2".parse().unwrap(), open.port());
        let deadline = Deadline::after(Duration::from_secs(10));
        let stream = connect(&[closed, open], &deadline).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let fault = connect(&[closed], &deadline).await.unwrap_err();
        assert_eq!(fault, Fault::Refused { port: open.port() });
    }
}
