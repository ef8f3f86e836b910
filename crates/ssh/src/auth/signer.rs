//! Signs the authentication request, with the agent or a key file.

use std::sync::Arc;

use russh::keys::agent::AgentIdentity;
use russh::keys::signature::Signer as _;
use russh::keys::ssh_encoding::Encode;
use russh::keys::ssh_key::private::KeypairData;
use russh::keys::{HashAlg, PrivateKey};
use russh::{SendError, Signer};

use crate::auth::agent::AgentConnection;
use crate::auth::candidates::KeySigner;

/// The signer of one credential, with the agent's connection if the agent signs.
pub(crate) struct AuthSigner<'a> {
    pub(crate) signer: &'a KeySigner,
    pub(crate) agent: Option<&'a mut AgentConnection>,
}

/// Why there is no signature.
#[derive(Debug)]
pub(crate) struct SignError(pub(crate) &'static str);

impl From<SendError> for SignError {
    fn from(_: SendError) -> Self {
        Self("the connection is gone")
    }
}

impl Signer for AuthSigner<'_> {
    type Error = SignError;

    async fn auth_sign(
        &mut self,
        _shown: &AgentIdentity,
        hash: Option<HashAlg>,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, SignError> {
        match (self.signer, &mut self.agent) {
            (KeySigner::Agent(key), Some(agent)) => {
                agent.sign(key, hash, bytes).await.map_err(SignError)
            }
            (KeySigner::Agent(_), None) => Err(SignError("the agent is gone")),
            (KeySigner::File(key), _) if key.algorithm().is_rsa() => {
                // Up to 14 ms of CPU, which would block every other session.
                let key = Arc::clone(key);
                let signing = tokio::task::spawn_blocking(move || sign(&key, hash, bytes));
                signing.await.map_err(|_shutdown| SignError("this program is exiting"))?
            }
            (KeySigner::File(key), _) => sign(key, hash, bytes),
        }
    }
}

/// Returns `bytes` followed by the signature, encoded as an SSH string.
fn sign(key: &PrivateKey, hash: Option<HashAlg>, mut bytes: Vec<u8>) -> Result<Vec<u8>, SignError> {
    let signature = if let KeypairData::Rsa(pair) = key.key_data() {
        (pair, hash).try_sign(&bytes)
    } else {
        key.try_sign(&bytes)
    };
    let signature = signature.map_err(|_unsupported| SignError("cannot be used to sign"))?;
    let written = signature.encode_vec().and_then(|blob| blob.encode(&mut bytes));
    written.map_err(|_error| SignError("its signature cannot be written"))?;
    Ok(bytes)
}
