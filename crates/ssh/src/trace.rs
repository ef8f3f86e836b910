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

    /// Records the version line of the server, or the line that it has sent instead.
    pub(crate) fn push_version(&self, line: &[u8]) {
        let line = text::excerpt(String::from_utf8_lossy(line).trim(), MAX_TEXT);
        if !line.is_empty() {
            self.push(ConnectEvent::ServerVersion(line));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_are_recorded_only_when_traced_and_bounded() {
        record(|| panic!("not traced"));
        assert!(current().is_none());
        let trace = Trace::default();
        with_trace(&trace, async {
            (0..10_000).for_each(|_| record(|| ConnectEvent::GatewayFinished));
        })
        .await;
        assert_eq!(trace.events().len(), MAX_EVENTS);
    }
}
