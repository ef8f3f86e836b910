//! What happens on the way into a node, for a person who wants to know every step of it.
//!
//! Whoever wants notes wraps the work in [`with_trace`]; everybody else pays for one look at a
//! thread-local. So watching a node and examining it are the same code.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::model::JobId;
use crate::transport::control_master::ControlMaster;
use crate::transport::fault::{self, ConnectPhase};
use crate::transport::file_cache::lock;
use crate::transport::host_key_verifier::Verification;
use crate::transport::host_keys::HostKeyStatus;
use crate::transport::known_hosts;
use crate::transport::ssh_config::HostSettings;

/// Most notes that are kept of one attempt: many keys of an agent, many gateways.
const MAX_EVENTS: usize = 256;

/// Longest text of a node in a note.
const MAX_TEXT: usize = 200;

tokio::task_local! {
    static TRACE: Trace;
}

/// Where notes go. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<TracedEvent>>>);

/// A note and its moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedEvent {
    /// When it was taken.
    pub at: Instant,
    /// What happened.
    pub note: ConnectEvent,
}

/// Something that happened on the way into a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectEvent {
    /// A step begins.
    PhaseStarted(ConnectPhase),
    /// How bytes get there: gateways, the nearest to us first, or a command.
    Route(RouteSummary),
    /// A session with this gateway is being opened; notes until its end are about the gateway.
    GatewayStarted(String),
    /// The session with the gateway is open, or could not be opened.
    GatewayFinished,
    /// A gateway has connected us to the host.
    GatewayConnected(String),
    /// The addresses of the host.
    Resolved(Vec<SocketAddr>),
    /// An address did not answer.
    ConnectFailed {
        /// The address.
        address: SocketAddr,
        /// Why not, in a few words.
        why: String,
    },
    /// The address that answered.
    Connected(SocketAddr),
    /// The first line the other side sent.
    ServerVersion(String),
    /// What both sides agreed upon.
    Negotiated {
        /// The key exchange.
        exchange: String,
        /// The cipher.
        cipher: String,
        /// What keeps packets from being changed; the cipher itself for some.
        mac: String,
    },
    /// The key the host showed, and what it is worth.
    HostKey {
        /// Its kind.
        algorithm: String,
        /// Its fingerprint, as `ssh-keygen -l` prints it.
        fingerprint: String,
        /// What the files say.
        verdict: HostKeyStatus,
        /// The line that knows the key, when it is known by a line.
        line: Option<(PathBuf, usize)>,
        /// Why the certificate around it does not count.
        flaw: Option<String>,
    },
    /// The methods the host offers to log in by.
    OfferedMethods(Vec<String>),
    /// A key, a certificate or an answer, and what became of it.
    CredentialTried {
        /// What people call it.
        what: String,
        /// What became of it.
        result: CredentialOutcome,
    },
    /// The host let us in.
    LoggedIn {
        /// The user there.
        user: String,
    },
    /// A command of the user's is started, to lead to the host.
    Exec(String),
    /// gtop itself cannot get in, and the ssh program is tried.
    Fallback(String),
    /// A master connection to the host answers at this socket.
    MasterFound(PathBuf),
    /// The configuration names a master connection, and none is open.
    MasterMissing,
    /// A gateway is reached over a master connection at this socket.
    GatewayMaster {
        /// The gateway.
        gateway: String,
        /// The socket.
        socket: PathBuf,
    },
    /// The ssh program takes over; what it does it does not tell.
    SshProgram(PathBuf),
    /// A step of this job leads to the host.
    SlurmStep(JobId),
    /// That step does not lead there, and SSH is tried.
    SlurmStepFailed(String),
}

/// How bytes get to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteSummary {
    /// By a connection from here.
    Direct,
    /// Through these gateways, the nearest to us first.
    Gateways(Vec<String>),
    /// Through a command.
    Command(String),
}

/// What became of one proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialOutcome {
    /// The host is content.
    Accepted,
    /// The host accepts it and wants more.
    Partial,
    /// The host refused it.
    Refused,
    /// It was not shown, and why.
    Skipped(String),
}

impl Trace {
    /// Returns the notes taken so far, in order.
    pub fn taken(&self) -> Vec<TracedEvent> {
        lock(&self.0).clone()
    }

    pub(super) fn push(&self, note: ConnectEvent) {
        let mut trace = lock(&self.0);
        if trace.len() < MAX_EVENTS {
            trace.push(TracedEvent { at: Instant::now(), note });
        }
    }
}

/// Does some work and takes notes of every node it reaches meanwhile.
pub async fn with_trace<T>(trace: &Trace, work: impl Future<Output = T>) -> T {
    TRACE.scope(trace.clone(), work).await
}

/// Takes a note when anybody wants it.
pub(super) fn record(make: impl FnOnce() -> ConnectEvent) {
    // Nobody does: the usual case.
    TRACE.try_with(|trace| trace.push(make())).ok();
}

/// Returns where notes of this task go, for work in tasks of its own.
pub(super) fn current() -> Option<Trace> {
    TRACE.try_with(Clone::clone).ok()
}

/// Takes a note of whether a master connection is there, where the configuration names one.
pub(super) fn record_master(settings: &HostSettings, master: Option<&ControlMaster>) {
    if !settings.control_paths.is_empty() {
        record(|| {
            master.map_or(ConnectEvent::MasterMissing, |master| {
                ConnectEvent::MasterFound(master.0.clone())
            })
        });
    }
}

/// Takes a note of a key, a certificate or an answer.
pub(super) fn record_tried(what: &str, result: impl FnOnce() -> CredentialOutcome) {
    record(|| ConnectEvent::CredentialTried {
        what: fault::sanitize(what, MAX_TEXT),
        result: result(),
    });
}

impl ConnectEvent {
    pub(super) fn host_key(verification: &Verification, line: Option<(PathBuf, usize)>) -> Self {
        Self::HostKey {
            algorithm: verification.key.algorithm().to_string(),
            fingerprint: known_hosts::fingerprint(&verification.key),
            verdict: verification.verdict.clone(),
            line,
            flaw: verification.flaw.as_ref().map(ToString::to_string),
        }
    }
}

/// Listens for the first line of the other side: sshd's is its version.
#[derive(Debug)]
pub(super) struct VersionTap {
    trace: Trace,
    buffer: Vec<u8>,
    is_done: bool,
}

impl VersionTap {
    /// Returns an ear when anybody wants notes.
    pub(super) fn if_traced() -> Option<Self> {
        Some(Self { trace: current()?, buffer: Vec::new(), is_done: false })
    }

    /// Takes bytes as they come, until there is a line.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        if self.is_done {
            return;
        }
        let room = MAX_TEXT.saturating_sub(self.buffer.len());
        self.buffer.extend(bytes.iter().take(room));
        // A server may say other things before its version.
        let is_version = |line: &&[u8]| line.starts_with(b"SSH-");
        let mut lines: Vec<&[u8]> = self.buffer.split(|byte| *byte == b'\n').collect();
        let rest = lines.pop().unwrap_or_default();
        let version = lines.into_iter().find(is_version);
        let is_full = self.buffer.len() >= MAX_TEXT;
        if let Some(line) = version.or_else(|| is_full.then_some(rest)) {
            self.is_done = true;
            self.say(line);
        }
    }

    fn say(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let line = fault::sanitize(text.trim(), MAX_TEXT);
        if !line.is_empty() {
            self.trace.push(ConnectEvent::ServerVersion(line));
        }
    }
}

impl Drop for VersionTap {
    /// What came was no version: that is worth telling.
    fn drop(&mut self) {
        if !self.is_done {
            let line = self.buffer.split(|byte| *byte == b'\n').next().unwrap_or_default();
            self.say(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn buffer(pieces: &[&[u8]]) -> Vec<ConnectEvent> {
        let trace = Trace::default();
        with_trace(&trace, async {
            let mut version_tap = VersionTap::if_traced().unwrap();
            for piece in pieces {
                version_tap.hear(piece);
            }
        })
        .await;
        trace.taken().into_iter().map(|noted| noted.note).collect()
    }

    #[tokio::test]
    async fn the_greeting_is_the_version_line_or_what_came_instead() {
        let said = |line: &str| vec![ConnectEvent::ServerVersion(line.to_owned())];
        assert_eq!(
            buffer(&[b"SSH-2.0-Open", b"SSH_9.2\r\nbinary"]).await,
            said("SSH-2.0-OpenSSH_9.2")
        );
        assert_eq!(buffer(&[b"welcome\r\nSSH-2.0-x\r\n"]).await, said("SSH-2.0-x"));
        assert_eq!(
            buffer(&[b"HTTP/1.1 400 Bad\x1b[2J\r\n\r\n"]).await,
            said("HTTP/1.1 400 Bad [2J")
        );
        assert_eq!(buffer(&[]).await, []);
        let Some(ConnectEvent::ServerVersion(long)) = buffer(&[&[b'x'; 9000]]).await.pop() else {
            panic!()
        };
        assert!(long.chars().count() <= MAX_TEXT + 1);
    }

    #[tokio::test]
    async fn notes_are_taken_only_where_somebody_wants_them_and_never_without_bound() {
        record(|| panic!("nobody asked"));
        assert!(current().is_none() && VersionTap::if_traced().is_none());
        let trace = Trace::default();
        with_trace(&trace, async {
            (0..10_000).for_each(|_| record(|| ConnectEvent::GatewayFinished))
        })
        .await;
        assert_eq!(trace.taken().len(), MAX_EVENTS);
    }
}
