//! Records the events of opening a connection, for `gtop doctor`.
//!
//! Work wrapped in [`with_trace`] is recorded; all other work pays for one lookup of a task-local. So monitoring
//! and diagnosis run the same code.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::host_keys::HostKeyStatus;
use crate::host_keys::Verification;
use gtop_local::fault::Origin;
use gtop_local::fault::ssh::ConnectPhase;
use gtop_local::lock::lock;
use gtop_local::text;

/// Most events kept per trace: an agent may hold many keys.
const MAX_EVENTS: usize = 256;

/// Most characters of a node's text in an event.
const MAX_TEXT: usize = 200;

tokio::task_local! {
    static TRACE: Trace;
}

/// A list of events. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<TracedEvent>>>);

/// An event and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedEvent {
    /// When it happened.
    pub at: Instant,
    /// What happened.
    pub event: ConnectEvent,
}

/// An event of opening a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectEvent {
    /// A phase starts.
    PhaseStarted(ConnectPhase),
    /// The route is resolved.
    Route(RouteSummary),
    /// A session with this gateway is being opened; events until `GatewayFinished` are about the gateway.
    GatewayStarted(String),
    /// The session with the gateway is open, or failed.
    GatewayFinished,
    /// The gateway has connected to the host.
    GatewayConnected(String),
    /// The host name resolved to these addresses.
    Resolved(Vec<SocketAddr>),
    /// Connecting to an address failed.
    ConnectFailed {
        /// The address.
        address: SocketAddr,
        /// Why, as a short text.
        why: String,
    },
    /// Connected to this address.
    Connected(SocketAddr),
    /// The version line, or the first line received instead.
    ServerVersion(String),
    /// The negotiated algorithms.
    Negotiated {
        /// The key exchange.
        exchange: String,
        /// The cipher.
        cipher: String,
        /// The MAC; empty or the cipher's for AEAD ciphers.
        mac: String,
    },
    /// The host key and its status.
    HostKey {
        /// Its kind.
        algorithm: String,
        /// Its fingerprint, as `ssh-keygen -l` prints it.
        fingerprint: String,
        /// What the `known_hosts` files say of it.
        status: HostKeyStatus,
        /// The line that lists the key.
        line: Option<Origin>,
        /// Why its certificate was ignored.
        certificate_problem: Option<String>,
    },
    /// The authentication methods the host offers.
    OfferedMethods(Vec<String>),
    /// A key, a certificate or an answer was tried or skipped.
    CredentialTried {
        /// Its name for the user.
        what: String,
        /// What came of it.
        outcome: CredentialOutcome,
    },
    /// Authentication succeeded.
    LoggedIn {
        /// The user name on the host.
        user: String,
    },
    /// gtop's own client failed with this fault; another way is tried.
    Fallback(String),
    /// A `ControlMaster` connection answers at this socket.
    MasterFound(PathBuf),
    /// `ControlPath` is set and no master is open.
    MasterMissing,
    /// A gateway is reached over a `ControlMaster` connection.
    GatewayMaster {
        /// The gateway.
        gateway: String,
        /// The socket.
        socket: PathBuf,
    },
    /// Another program takes over; its phases are not visible.
    Delegated {
        /// Its name in the report.
        to: &'static str,
        /// What it runs or uses.
        what: String,
    },
    /// That program failed with this fault; another way is tried.
    DelegateFailed(String),
}

/// The route to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteSummary {
    /// A direct TCP connection.
    Direct,
    /// Through these gateways, in connection order.
    Gateways(Vec<String>),
    /// Through a `ProxyCommand`.
    Command(String),
}

/// The result of one credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialOutcome {
    /// The host accepted it.
    Accepted,
    /// The host accepted it and requires more.
    Partial,
    /// The host refused it.
    Refused,
    /// It was not offered, for this reason.
    Skipped(String),
}

impl Trace {
    /// Returns the events so far, in order.
    pub fn events(&self) -> Vec<TracedEvent> {
        lock(&self.0).clone()
    }

    pub(crate) fn push(&self, event: ConnectEvent) {
        let mut trace = lock(&self.0);
        if trace.len() < MAX_EVENTS {
            trace.push(TracedEvent { at: Instant::now(), event });
        }
    }
}

/// Runs some work and records the connections it opens.
pub async fn with_trace<T>(trace: &Trace, work: impl Future<Output = T>) -> T {
    TRACE.scope(trace.clone(), work).await
}

/// Records an event if this task is traced.
pub fn record(event: impl FnOnce() -> ConnectEvent) {
    // Usually the task is not traced.
    TRACE.try_with(|trace| trace.push(event())).ok();
}

/// Returns the trace of this task, for use in other tasks.
pub(crate) fn current() -> Option<Trace> {
    TRACE.try_with(Clone::clone).ok()
}

/// Records the result of a credential.
pub(crate) fn record_tried(what: &str, outcome: impl FnOnce() -> CredentialOutcome) {
    record(|| ConnectEvent::CredentialTried {
        what: text::excerpt(what, MAX_TEXT),
        outcome: outcome(),
    });
}

impl ConnectEvent {
    pub(crate) fn host_key(verification: &Verification, line: Option<Origin>) -> Self {
        let (algorithm, fingerprint) = verification.key_text();
        let Verification { status, certificate_problem, .. } = verification.clone();
        Self::HostKey { algorithm, fingerprint, status, line, certificate_problem }
    }
}

/// Records the version line of the server.
#[derive(Debug)]
pub(crate) struct VersionTap {
    trace: Trace,
    line: Vec<u8>,
    /// The first line, if it is another one.
    first_line: Option<Vec<u8>>,
    is_done: bool,
}

impl VersionTap {
    /// Returns a tap if this task is traced.
    pub(crate) fn if_traced() -> Option<Self> {
        Some(Self { trace: current()?, line: Vec::new(), first_line: None, is_done: false })
    }

    /// Observes received bytes until there is a version line.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.is_done {
                return;
            }
            if *byte != b'\n' {
                self.line.extend((self.line.len() < MAX_TEXT).then_some(*byte));
                continue;
            }
            // A server may send other lines before its version.
            let line = std::mem::take(&mut self.line);
            if line.starts_with(b"SSH-") {
                self.is_done = true;
                self.record_line(&line);
            } else {
                self.first_line.get_or_insert(line);
            }
        }
    }

    fn record_line(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let line = text::excerpt(text.trim(), MAX_TEXT);
        if !line.is_empty() {
            self.trace.push(ConnectEvent::ServerVersion(line));
        }
    }
}

impl Drop for VersionTap {
    /// Records what was received instead of a version line.
    fn drop(&mut self) {
        if !self.is_done {
            self.record_line(self.first_line.as_ref().unwrap_or(&self.line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn feed_all(chunks: &[&[u8]]) -> Vec<ConnectEvent> {
        let trace = Trace::default();
        with_trace(&trace, async {
            let mut version_tap = VersionTap::if_traced().unwrap();
            for chunk in chunks {
                version_tap.feed(chunk);
            }
        })
        .await;
        trace.events().into_iter().map(|traced| traced.event).collect()
    }

    #[tokio::test]
    async fn the_version_line_or_the_first_line_is_recorded() {
        let version = |line: &str| vec![ConnectEvent::ServerVersion(line.to_owned())];
        assert_eq!(
            feed_all(&[b"SSH-2.0-Open", b"SSH_9.2\r\nbinary"]).await,
            version("SSH-2.0-OpenSSH_9.2")
        );
        assert_eq!(feed_all(&[b"welcome\r\nSSH-2.0-x\r\n"]).await, version("SSH-2.0-x"));
        assert_eq!(
            feed_all(&[b"HTTP/1.1 400 Bad\x1b[2J\r\n\r\n"]).await,
            version("HTTP/1.1 400 Bad [2J")
        );
        assert_eq!(feed_all(&[]).await, []);
        let Some(ConnectEvent::ServerVersion(long)) = feed_all(&[&[b'x'; 9000]]).await.pop() else {
            panic!()
        };
        assert!(long.chars().count() <= MAX_TEXT + 1);
    }

    #[tokio::test]
    async fn events_are_recorded_only_when_traced_and_bounded() {
        record(|| panic!("not traced"));
        assert!(current().is_none() && VersionTap::if_traced().is_none());
        let trace = Trace::default();
        with_trace(&trace, async {
            (0..10_000).for_each(|_| record(|| ConnectEvent::GatewayFinished));
        })
        .await;
        assert_eq!(trace.events().len(), MAX_EVENTS);
    }
}
