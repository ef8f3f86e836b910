//! The ssh agent, with a bound on every wait: an agent that hangs must not hang a node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{HashAlg, PublicKey};
use russh::{SendError, Signer};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::transport::fault::{self, Fault};

/// Longest wait for the agent to answer anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most keys of an agent that are looked at.
const MOST_KEYS: usize = 64;

/// An agent that answered once.
pub(super) struct Agent {
    client: AgentClient<UnixStream>,
    /// The keys it holds, certificates left out.
    pub(super) keys: Vec<PublicKey>,
}

impl Agent {
    /// Connects and lists the keys.
    pub(super) async fn open(socket: &Path) -> Result<Self, Fault> {
        let unreachable = |why: String| Fault::AgentUnreachable { socket: socket.to_owned(), why };
        let listed = timeout(PATIENCE, list(socket)).await;
        let Ok(listed) = listed else { return Err(unreachable("it hangs".to_owned())) };
        let (client, identities) = listed.map_err(unreachable)?;
        let keys = identities.into_iter().filter_map(|identity| match identity {
            AgentIdentity::PublicKey { key, .. } => Some(key),
            AgentIdentity::Certificate { .. } => None,
        });
        Ok(Self { client, keys: keys.take(MOST_KEYS).collect() })
    }

    /// Returns the public halves it can sign for; none when it cannot be reached.
    pub(super) async fn public_keys(socket: Option<PathBuf>) -> Vec<KeyData> {
        let Some(socket) = socket else { return Vec::new() };
        let agent = Self::open(&socket).await;
        let keys = agent.map(|agent| agent.keys).unwrap_or_default();
        keys.iter().map(|key| key.key_data().clone()).collect()
    }
}

async fn list(socket: &Path) -> Result<(AgentClient<UnixStream>, Vec<AgentIdentity>), String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| fault::reason(&error))?;
    let mut client = AgentClient::connect(stream);
    let identities = client.request_identities().await;
    let identities = identities.map_err(|error| fault::quote(&error.to_string()))?;
    Ok((client, identities))
}

/// The agent did not sign.
#[derive(Debug)]
pub(super) struct NotSigned;

impl From<SendError> for NotSigned {
    fn from(_: SendError) -> Self {
        Self
    }
}

impl Signer for Agent {
    type Error = NotSigned;

    async fn auth_sign(
        &mut self,
        key: &AgentIdentity,
        hash: Option<HashAlg>,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, NotSigned> {
        match timeout(PATIENCE, self.client.sign_request(key, hash, bytes)).await {
            Ok(Ok(signature)) => Ok(signature),
            Ok(Err(_)) | Err(_) => Err(NotSigned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_hangs_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent");
        let _listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let fault = Agent::open(&socket).await.err().unwrap();
        assert_eq!(fault, Fault::AgentUnreachable { socket, why: "it hangs".to_owned() });
    }
}
