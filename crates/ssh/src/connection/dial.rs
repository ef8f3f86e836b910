//! Name lookup and TCP connect.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use rustix::io::Errno;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::{AddressFamily, BindOptions};
use crate::deadline::Deadline;
use crate::trace::{self, ConnectEvent};
use gtop_local::fault::ssh::{ConnectPhase, Fault};
use gtop_local::text;

/// Most name lookups at once. One that hangs keeps its permit until the resolver gives up.
const MAX_LOOKUPS: usize = 32;

/// Most addresses tried for one name.
const MAX_ADDRESSES: usize = 8;

/// Looks up names; bounds how many lookups run at once.
#[derive(Debug, Clone)]
pub(crate) struct Resolver(Arc<Semaphore>);

impl Default for Resolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LOOKUPS)))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) family: AddressFamily,
    /// The node name as the user typed it.
    pub(crate) typed_name: &'a str,
}

impl Endpoint<'_> {
    fn not_found(self, why: String) -> Fault {
        let host = (self.host != self.typed_name).then(|| self.host.to_owned());
        Fault::NameNotFound { host, why }
    }
}

impl Resolver {
    /// Returns the addresses of a name, in resolver order.
    pub(crate) async fn look_up(&self, endpoint: Endpoint<'_>) -> Result<Vec<SocketAddr>, Fault> {
        let mut addresses = if let Ok(address) = endpoint.host.parse::<IpAddr>() {
            vec![SocketAddr::new(address, endpoint.port)]
        } else {
            let found = self.getaddrinfo(endpoint.host.to_owned(), endpoint.port).await;
            found.map_err(|why| endpoint.not_found(why))?
        };
        addresses.retain(|address| endpoint.family.fits(address));
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() {
            let why = "it has no address of the configured family".to_owned();
            return Err(endpoint.not_found(why));
        }
        Ok(addresses)
    }

    async fn getaddrinfo(&self, host: String, port: u16) -> Result<Vec<SocketAddr>, String> {
        let closed = "this program is exiting";
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(|_ending| closed)?;
        // The lookup owns the permit: once started it cannot be cancelled.
        let lookup = tokio::task::spawn_blocking(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            drop(permit);
            found
        });
        let found = lookup.await.map_err(|_ending| closed)?;
        found.map_err(|error| text::io_error(&error))
    }
}

/// What to connect from, with the address resolved.
#[derive(Debug, Default)]
pub(crate) struct LocalBind<'a> {
    addresses: Vec<SocketAddr>,
    interface: Option<&'a str>,
}

impl BindOptions {
    /// Resolves the local address.
    pub(crate) async fn resolve(&self, names: &Resolver) -> Result<LocalBind<'_>, Fault> {
        // As with ssh, the address wins over the interface.
        let Some(host) = self.address.as_deref() else {
            return Ok(LocalBind { addresses: Vec::new(), interface: self.interface.as_deref() });
        };
        let endpoint = Endpoint { host, port: 0, family: AddressFamily::Any, typed_name: host };
        let addresses = names.look_up(endpoint).await.map_err(|_unknown| {
            let why = format!("BindAddress {} has no address", text::excerpt_line(host));
            Fault::BadConfiguration { why }
        })?;
        Ok(LocalBind { addresses, interface: None })
    }
}

impl LocalBind<'_> {
    /// Returns a socket bound to the local address or interface.
    fn socket(&self, to: &SocketAddr) -> Result<TcpSocket, Fault> {
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(|error| connection_fault(&error, to.port()))?;
        if !self.addresses.is_empty() {
            let from = self.addresses.iter().find(|address| address.is_ipv4() == to.is_ipv4());
            let Some(from) = from else {
                let why = "BindAddress is of another address family than the node".to_owned();
                return Err(Fault::BadConfiguration { why });
            };
            let bound = socket.bind(*from);
            bound.map_err(|error| unusable(&format!("BindAddress {}", from.ip()), &error))?;
        }
        if let Some(interface) = self.interface {
            let bound = socket.bind_device(Some(interface.as_bytes()));
            // Older kernels do not allow this to users; ssh binds to the interface's address instead.
            if bound.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
                return Err(Fault::NeedsSshProgram { options: "BindInterface".to_owned() });
            }
            let option = format!("BindInterface {}", text::excerpt_line(interface));
            bound.map_err(|error| unusable(&option, &error))?;
        }
        Ok(socket)
    }
}

fn unusable(option: &str, error: &std::io::Error) -> Fault {
    let why = format!("{option} cannot be used ({})", text::io_error(error));
    Fault::BadConfiguration { why }
}

/// Connects to the first address that answers; each address gets an equal share of the remaining time.
pub(crate) async fn connect(
    addresses: &[SocketAddr],
    local_bind: &LocalBind<'_>,
    deadline: &Deadline,
) -> Result<TcpStream, Fault> {
    let mut last = deadline.timed_out(ConnectPhase::Connection);
    for (tried, address) in addresses.iter().enumerate() {
        let remaining = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let socket = match local_bind.socket(address) {
            Ok(socket) => socket,
            Err(fault) => {
                last = fault;
                continue;
            }
        };
        match timeout(deadline.remaining() / remaining, socket.connect(*address)).await {
            Ok(Ok(stream)) => {
                // Failure costs only some latency.
                stream.set_nodelay(true).ok();
                trace::record(|| ConnectEvent::Connected(*address));
                return Ok(stream);
            }
            Ok(Err(error)) => last = connection_fault(&error, address.port()),
            Err(_elapsed) => last = deadline.timed_out(ConnectPhase::Connection),
        }
        trace::record(|| ConnectEvent::ConnectFailed {
            address: *address,
            why: failure_text(&last),
        });
    }
    Err(last)
}

/// Returns why an address did not work, as a short text.
fn failure_text(fault: &Fault) -> String {
    if let Fault::TimedOut { phase, .. } = fault {
        format!("timed out {phase}")
    } else if let Fault::NeedsSshProgram { options } = fault {
        format!("needs ssh for {options}")
    } else if matches!(fault, Fault::Unreachable { .. }) {
        "no route".to_owned()
    } else if matches!(fault, Fault::TooManyOpenFiles) {
        "too many open files here".to_owned()
    } else if matches!(fault, Fault::ConnectionRefused { .. }) {
        "connection refused".to_owned()
    } else {
        "bad configuration".to_owned()
    }
}

fn connection_fault(error: &std::io::Error, port: u16) -> Fault {
    if error.kind() == ErrorKind::ConnectionRefused {
        return Fault::ConnectionRefused { port };
    }
    if [Errno::MFILE, Errno::NFILE].iter().any(|full| Errno::from_io_error(error) == Some(*full)) {
        return Fault::TooManyOpenFiles;
    }
    Fault::Unreachable { why: text::io_error(error) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn endpoint(host: &str, family: AddressFamily) -> Endpoint<'_> {
        Endpoint { host, port: 22, family, typed_name: host }
    }

    #[test]
    fn running_out_of_file_descriptors_is_not_a_network_fault() {
        let full = connection_fault(&Errno::MFILE.into(), 22);
        assert_eq!(full, Fault::TooManyOpenFiles);
        let lost = connection_fault(&Errno::NETUNREACH.into(), 22);
        assert!(matches!(lost, Fault::Unreachable { .. }), "{lost}");
    }

    #[tokio::test]
    async fn an_address_needs_no_lookup() {
        let found =
            Resolver::default().look_up(endpoint("10.1.2.3", AddressFamily::Any)).await.unwrap();
        assert_eq!(found, ["10.1.2.3:22".parse().unwrap()]);
        let fault =
            Resolver::default().look_up(endpoint("10.1.2.3", AddressFamily::Version6)).await;
        assert!(matches!(fault, Err(Fault::NameNotFound { .. })));
    }

    #[tokio::test]
    async fn the_second_address_is_tried_when_the_first_refuses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = SocketAddr::new("127.0.0.2".parse().unwrap(), open.port());
        let deadline = Deadline::after(Duration::from_secs(10));
        let unbound = LocalBind::default();
        let stream = connect(&[closed, open], &unbound, &deadline).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let fault = connect(&[closed], &unbound, &deadline).await.unwrap_err();
        assert_eq!(fault, Fault::ConnectionRefused { port: open.port() });
    }

    #[tokio::test]
    async fn a_connection_starts_at_the_bind_address_or_interface() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let deadline = Deadline::after(Duration::from_secs(10));
        let connect_from = async |address: Option<&str>, interface: Option<&str>| {
            let bind_options = BindOptions {
                address: address.map(str::to_owned),
                interface: interface.map(str::to_owned),
            };
            let local_bind = bind_options.resolve(&Resolver::default()).await?;
            connect(&[open], &local_bind, &deadline).await
        };
        let stream = connect_from(Some("127.0.0.3"), None).await.unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), "127.0.0.3".parse::<IpAddr>().unwrap());
        connect_from(None, Some("lo")).await.unwrap();
        for (address, interface) in
            [(Some("192.0.2.1"), None), (Some("::1"), None), (None, Some("nosuch0"))]
        {
            let fault = connect_from(address, interface).await.unwrap_err();
            assert!(matches!(fault, Fault::BadConfiguration { .. }), "{fault}");
        }
    }
}
