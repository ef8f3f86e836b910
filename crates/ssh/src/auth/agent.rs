//! The ssh agent, with a timeout on every request: an agent that hangs must not hang a node.
//!
//! After a timeout the agent is not used for a while, so that a thousand nodes do not each wait for it. Few
//! requests run at once, because some agents serve one at a time.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::keys::agent::client::AgentClient;
use russh::keys::agent::{AgentIdentity, AgentSessionBinding};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Error, HashAlg};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use gtop_local::fault::ssh::Fault;
use gtop_local::lock::lock;
use gtop_local::text;

/// Timeout for listing the keys.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for a signature: the user may have to confirm it, or to touch a security key.
const SIGN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long an agent that hangs is not asked again.
const HANG_BACKOFF: Duration = Duration::from_secs(30);

/// Most requests to one agent at once.
const MAX_CONCURRENT: usize = 8;

/// Most keys of an agent that are used.
const MAX_KEYS: usize = 256;

/// The agents, by socket.
#[derive(Debug, Default)]
pub(crate) struct AgentPool(Mutex<BTreeMap<PathBuf, Arc<AgentHandle>>>);

impl AgentPool {
    pub(crate) fn get(&self, socket: &Path) -> Arc<AgentHandle> {
        let mut agents = lock(&self.0);
        let agent =
            agents.entry(socket.to_owned()).or_insert_with(|| Arc::new(AgentHandle::new(socket)));
        Arc::clone(agent)
    }
}

/// One agent, connected to for each request.
#[derive(Debug)]
pub(crate) struct AgentHandle {
    socket: PathBuf,
    permits: Semaphore,
    /// When a request last timed out.
    hung_at: Mutex<Option<Instant>>,
}

impl AgentHandle {
    fn new(socket: &Path) -> Self {
        let permits = Semaphore::new(MAX_CONCURRENT);
        Self { socket: socket.to_owned(), permits, hung_at: Mutex::default() }
    }

    /// Connects and lists the keys, bound to a session if `binding` is given.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        binding: Option<&AgentSessionBinding>,
    ) -> Result<AgentConnection, Fault> {
        let listed = self.with_timeout(LIST_TIMEOUT, list(&self.socket, binding)).await;
        let (client, mut keys) = listed.map_err(|why| self.unreachable(why))?;
        keys.truncate(MAX_KEYS);
        Ok(AgentConnection { client, handle: Arc::clone(self), keys })
    }

    /// Returns the public keys it can sign for; none if it cannot be reached.
    pub(crate) async fn public_keys(self: &Arc<Self>) -> Vec<KeyData> {
        let keys = self.connect(None).await.map(|agent| agent.keys).unwrap_or_default();
        keys.iter().map(|identity| identity.public_key().into_owned().into()).collect()
    }

    fn unreachable(&self, why: String) -> Fault {
        Fault::AgentUnreachable { socket: self.socket.clone(), why }
    }

    /// Runs one request with a timeout; fails at once while backing off.
    async fn with_timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let hangs = Err("it hangs".to_owned());
        let permit = self.permits.acquire().await;
        if self.is_backing_off() {
            return hangs;
        }
        let done = timeout(limit, work).await;
        drop(permit);
        *lock(&self.hung_at) = done.is_err().then(Instant::now);
        done.unwrap_or(hangs)
    }

    fn is_backing_off(&self) -> bool {
        lock(&self.hung_at).is_some_and(|at| at.elapsed() < HANG_BACKOFF)
    }
}

async fn list(
    socket: &Path,
    binding: Option<&AgentSessionBinding>,
) -> Result<(AgentClient<UnixStream>, Vec<AgentIdentity>), String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| text::io_error(&error))?;
    let mut client = AgentClient::connect(stream);
    if let Some(binding) = binding {
        // Keys restricted to some hosts are listed only after this. Most agents do not support it and answer with a
        // failure.
        match client.bind_session(binding, false).await {
            Ok(()) | Err(Error::AgentFailure) => {}
            Err(error) => return Err(describe(&error)),
        }
    }
    let identities = client.request_identities().await.map_err(|error| describe(&error))?;
    Ok((client, identities))
}

fn describe(error: &Error) -> String {
    let Error::IO(error) = error else { return text::excerpt_line(&error.to_string()) };
    if error.kind() == ErrorKind::UnexpectedEof {
        return "it closed the connection".to_owned();
    }
    text::io_error(error)
}

/// A connection to an agent that answered.
pub(crate) struct AgentConnection {
    client: AgentClient<UnixStream>,
    handle: Arc<AgentHandle>,
    /// The keys and certificates it holds, in its order.
    pub(crate) keys: Vec<AgentIdentity>,
}

impl AgentConnection {
    /// Returns `bytes` followed by the signature of `key`, or why there is none.
    pub(crate) async fn sign(
        &mut self,
        key: &AgentIdentity,
        hash: Option<HashAlg>,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, &'static str> {
        let signing = async {
            let signed = self.client.sign_request(key, hash, bytes).await;
            // A refusal is an answer: only a timeout counts as hanging.
            Ok(signed.map_err(|error| {
                if matches!(error, Error::AgentFailure) {
                    "the agent refused to sign"
                } else if matches!(error, Error::IO(_)) {
                    "the agent closed the connection"
                } else {
                    "the agent did not sign"
                }
            }))
        };
        let signed = self.handle.with_timeout(SIGN_TIMEOUT, signing).await;
        signed.unwrap_or(Err("the agent hangs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_hangs_is_waited_for_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent");
        let _listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let agent = AgentPool::default().get(&socket);
        let began = Instant::now();
        let mut logins = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let agent = Arc::clone(&agent);
            logins.spawn(async move { agent.connect(None).await.err() });
        }
        while let Some(fault) = logins.join_next().await {
            let fault = fault.unwrap().unwrap();
            let why = "it hangs".to_owned();
            assert_eq!(fault, Fault::AgentUnreachable { socket: socket.clone(), why });
        }
        assert_eq!(began.elapsed(), LIST_TIMEOUT);
        assert!(agent.connect(None).await.is_err());
        assert_eq!(began.elapsed(), LIST_TIMEOUT);
        // After the backoff it is tried again.
        tokio::time::advance(HANG_BACKOFF).await;
        assert!(agent.connect(None).await.is_err());
        assert!(began.elapsed() > LIST_TIMEOUT + HANG_BACKOFF);
    }

    #[tokio::test]
    async fn an_agent_that_exits_is_distinguished_from_one_that_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let agent = AgentPool::default().get(&socket);
        let ending = async { drop(listener.accept().await) };
        let (opened, ()) = tokio::join!(agent.connect(None), ending);
        let Some(Fault::AgentUnreachable { why, .. }) = opened.err() else { panic!("it answered") };
        assert_ne!(why, "it hangs");
        assert!(!agent.is_backing_off());
    }
}
