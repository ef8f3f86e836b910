//! The target of an SSH connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{PrivateKey, PublicKey, decode_secret_key};

use gtop_local::fault::ssh::Fault;

/// A node reached over SSH.
#[derive(Debug, Clone, PartialEq)]
pub struct SshTarget {
    /// The name or alias to look up in the configuration.
    pub host: String,
    /// The user name, if the target sets one.
    pub user: Option<String>,
    /// The port, if the target sets one.
    pub port: Option<u16>,
    /// Where all other settings come from.
    pub profile: Profile,
}

/// The source of addresses, keys and known hosts.
#[derive(Debug, Clone, PartialEq)]
pub enum Profile {
    /// The user's OpenSSH configuration and files.
    System,
    /// Fixed values; no files are read. For the demo and for tests.
    Fixed(Arc<FixedProfile>),
}

/// An address, the key to offer and the host key to accept.
#[derive(Clone, PartialEq)]
pub struct FixedProfile {
    pub(crate) address: SocketAddr,
    pub(crate) key: Arc<PrivateKey>,
    pub(crate) host_key: Option<KeyData>,
}

impl FixedProfile {
    /// Parses an OpenSSH private key and a public host key. Without a host key the node counts as unknown.
    pub fn new(address: SocketAddr, key: &str, host_key: Option<&str>) -> Result<Self, Fault> {
        let key = decode_secret_key(key, None).map_err(|why| unreadable("private key", why))?;
        let host_key = host_key.map(PublicKey::from_openssh).transpose();
        let host_key = host_key.map_err(|why| unreadable("host key", why))?;
        Ok(Self { address, key: Arc::new(key), host_key: host_key.map(KeyData::from) })
    }
}

fn unreadable(what: &str, why: impl fmt::Display) -> Fault {
    Fault::BadConfiguration { why: format!("the {what} cannot be read: {why}") }
}

impl fmt::Debug for FixedProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedProfile").field("address", &self.address).finish_non_exhaustive()
    }
}
