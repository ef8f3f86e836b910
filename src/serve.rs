//! Serves snapshots over HTTP, for Prometheus and other programs. Nothing can be changed over it.
//!
//! Whoever reaches a port may be a stranger: connections are few, short and bounded, and names of users and jobs need
//! the token. docs/serve.md has the rules.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::setpriority_process;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;

use crate::export::{CompatNames, MetricChoice};
use crate::serve::access::OwnNames;
use crate::serve::connections::Connections;
use crate::serve::responder::Responder;
use gtop_fleet::FleetReader;
use gtop_fleet::query::{DisplaySelection, Filter};
use gtop_local::storage::PrivateSocket;
use gtop_local::time::Clock;

pub use access::{Token, TokenError};
pub use tls::{Tls, TlsError};

mod access;
mod connections;
mod renderer;
mod responder;
mod tls;

/// How far threads that answer step back behind those that collect.
const NICENESS: i32 = 10;

/// What is served.
#[derive(Clone, Debug)]
pub struct ServedContent {
    /// The snapshots.
    pub fleet: FleetReader,
    /// The time of the snapshots.
    pub clock: Clock,
    /// What is watched, as text.
    pub title: String,
    /// The other exporters whose names are added.
    pub compat: CompatNames,
    /// Which of gtop's own metrics.
    pub metrics: MetricChoice,
    /// Processes too, for those with the token.
    pub has_processes: bool,
    /// The devices and processes that are served.
    pub selection: DisplaySelection,
    /// Which of these match, and the nodes that do.
    pub filter: Filter,
}

/// Who may ask, and how.
#[derive(Debug)]
pub struct AccessRules {
    /// The secret of those who may see names.
    pub token: Token,
    /// Names of this machine in URLs, besides its own.
    pub allowed_hosts: Vec<String>,
}

/// Where a connection comes from, which decides what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// The owner, over the Unix socket.
    Owner,
    /// Any user of this machine.
    Loopback,
    /// Anybody who reaches the port.
    Network,
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Port(SocketAddr, io::Error),
    /// The port is taken.
    #[error(
        "cannot listen on {0}: the port is taken; end what listens there, or choose another with --listen"
    )]
    PortTaken(SocketAddr),
    /// The Unix socket cannot be made.
    #[error("cannot listen on {path}: {1}", path = .0.display())]
    Socket(PathBuf, io::Error),
    /// Others would read what is sent.
    #[error(
        "{0} is not a loopback address: others could read along; give --tls-cert and --tls-key, or use ssh -L and 127.0.0.1"
    )]
    NeedsTls(SocketAddr),
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    tcp: Option<(TcpListener, SocketAddr)>,
    unix: Option<(UnixListener, PrivateSocket, PathBuf)>,
    tls: Option<Tls>,
}

impl Server {
    /// Starts to listen; only inside a runtime. With a certificate, the port uses TLS, whatever its address.
    ///
    /// # Errors
    ///
    /// If a port or socket cannot be used, or an address that is not loopback has no certificate.
    pub fn bind(
        listen: Option<SocketAddr>,
        socket: Option<PathBuf>,
        tls: Option<Tls>,
    ) -> Result<Self, ServeError> {
        let tcp = listen.map(|address| bind_port(address, tls.is_some())).transpose()?;
        let unix = socket.map(bind_socket).transpose()?;
        Ok(Self { tcp, unix, tls })
    }

    /// Returns true if it listens on a port, where others may come.
    pub const fn has_port(&self) -> bool {
        self.tcp.is_some()
    }

    /// Returns how many files its connections may have open.
    pub fn max_files(&self) -> u64 {
        let listeners = usize::from(self.tcp.is_some()) + usize::from(self.unix.is_some());
        u64::try_from(listeners * connections::MAX_OPEN).unwrap_or(u64::MAX)
    }

    /// Returns the URLs of what it listens on.
    pub fn addresses(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let tcp = self.tcp.iter().map(|(_, address)| format!("{scheme}://{address}/metrics"));
        let unix = self.unix.iter().map(|(_, _, path)| path.display().to_string());
        tcp.chain(unix).collect()
    }

    /// Answers requests for ever. `notices` takes what a person should know.
    pub async fn run(
        self,
        content: ServedContent,
        access: AccessRules,
        notices: mpsc::Sender<String>,
    ) {
        lower_priority();
        let Self { tcp, unix, tls } = self;
        let hosts = OwnNames::of_this_machine(access.allowed_hosts);
        let responder = Arc::new(Responder::new(content, access.token, hosts));
        // The owner has connections of their own, whatever comes to the port.
        let mut of_port = Connections::new(Arc::clone(&responder));
        let mut of_socket = Connections::new(responder);
        let peer = tcp.as_ref().map_or(Peer::Loopback, |(_, address)| Peer::of(*address));
        loop {
            tokio::select! {
                accepted = accept_tcp(tcp.as_ref()) => match accepted {
                    Ok(stream) => match &tls {
                        Some(tls) => of_port.open_tls(stream, tls.acceptor(&notices), peer),
                        None => of_port.open(stream, peer),
                    },
                    Err(_error) => connections::wait_for_files().await,
                },
                accepted = accept_unix(unix.as_ref()) => match accepted {
                    Ok(stream) => of_socket.open(stream, Peer::Owner),
                    Err(_error) => connections::wait_for_files().await,
                },
                () = of_port.forget_ended() => {}
                () = of_socket.forget_ended() => {}
            }
        }
    }
}

impl Peer {
    fn of(address: SocketAddr) -> Self {
        if is_loopback(address) { Self::Loopback } else { Self::Network }
    }
}

/// Lets the threads that collect go first: they were started before.
fn lower_priority() {
    // On Linux, this is the priority of the thread. Without it, samples are later while many ask.
    setpriority_process(None, NICENESS).ok();
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn bind_port(address: SocketAddr, has_tls: bool) -> Result<(TcpListener, SocketAddr), ServeError> {
    if !is_loopback(address) && !has_tls {
        return Err(ServeError::NeedsTls(address));
    }
    listen_on_port(address).map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            return ServeError::PortTaken(address);
        }
        ServeError::Port(address, error)
    })
}

fn listen_on_port(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, bound))
}

fn bind_socket(path: PathBuf) -> Result<(UnixListener, PrivateSocket, PathBuf), ServeError> {
    match listen_on_socket(&path) {
        Ok((listener, socket)) => Ok((listener, socket, path)),
        Err(error) => Err(ServeError::Socket(path, error)),
    }
}

fn listen_on_socket(path: &Path) -> io::Result<(UnixListener, PrivateSocket)> {
    let socket = PrivateSocket::bind(path)?;
    let listener = socket.listener()?;
    listener.set_nonblocking(true)?;
    Ok((UnixListener::from_std(listener)?, socket))
}

async fn accept_tcp(
    listener: Option<&(TcpListener, SocketAddr)>,
) -> io::Result<tokio::net::TcpStream> {
    let Some((listener, _)) = listener else { return std::future::pending().await };
    listener.accept().await.map(|(stream, _)| stream)
}

async fn accept_unix(
    listener: Option<&(UnixListener, PrivateSocket, PathBuf)>,
) -> io::Result<tokio::net::UnixStream> {
    let Some((listener, ..)) = listener else { return std::future::pending().await };
    listener.accept().await.map(|(stream, _)| stream)
}

#[cfg(test)]
mod examples {
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use gtop_fleet::{Fleet, Node};
    use gtop_local::time::Timestamp;
    use gtop_model::NodeName;

    /// Returns a fleet of one node.
    pub(super) fn fleet_of(name: &str) -> Fleet {
        let node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        Fleet::new([Arc::new(node)].into())
    }

    /// Returns what is served, and where its snapshots come from.
    pub(super) fn content() -> (ServedContent, watch::Sender<Fleet>) {
        let (publisher, fleet) = watch::channel(fleet_of("first"));
        let content = ServedContent {
            fleet,
            clock: Clock::fixed(Timestamp::from_micros(1)),
            title: "test".to_owned(),
            compat: CompatNames::default(),
            metrics: MetricChoice::All,
            has_processes: false,
            selection: DisplaySelection::default(),
            filter: Filter::default(),
        };
        (content, publisher)
    }

    /// Returns a responder with the token `right`.
    pub(super) fn responder() -> (Arc<Responder>, watch::Sender<Fleet>) {
        let (content, publisher) = content();
        let hosts = OwnNames::of_this_machine(Vec::new());
        (Arc::new(Responder::new(content, Token::of(b"right"), hosts)), publisher)
    }
}
