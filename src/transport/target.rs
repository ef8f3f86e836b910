//! Which node to reach, and how.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{PrivateKey, PublicKey, decode_secret_key};

use crate::model::NodeName;
use crate::transport::fault::Fault;

/// A node, as far as reaching it goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// What the user typed and the screen shows.
    pub name: NodeName,
    /// How to get there.
    pub reach: Reach,
}

/// How to get to a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// It is this machine.
    Local,
    /// By SSH.
    Ssh(SshTarget),
}

/// A node that is reached by SSH.
#[derive(Debug, Clone, PartialEq)]
pub struct SshTarget {
    /// The name or alias to look up in the configuration.
    pub host: String,
    /// The user name there, when the target itself says so.
    pub user: Option<String>,
    /// The port, when the target itself says so.
    pub port: Option<u16>,
    /// Where everything else comes from.
    pub profile: Profile,
}

/// Where addresses, keys and known hosts come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Profile {
    /// The user's OpenSSH configuration and files.
    System,
    /// Fixed values; no file is read. For the demonstration and for tests.
    Fixed(Arc<FixedProfile>),
}

/// An address with the one key to show and the one host key to believe.
#[derive(Clone, PartialEq)]
pub struct FixedProfile {
    pub(super) address: SocketAddr,
    pub(super) key: Arc<PrivateKey>,
    pub(super) host_key: Option<KeyData>,
}

impl FixedProfile {
    /// Takes an OpenSSH private key and the public host key as texts. Without a host key the node
    /// is one nobody has seen before.
    pub fn new(address: SocketAddr, key: &str, host_key: Option<&str>) -> Result<Self, Fault> {
        let bad = |what: &str| Fault::BadConfiguration { why: format!("{what} cannot be read") };
        let key = decode_secret_key(key, None).map_err(|_unreadable| bad("the private key"))?;
        let host_key = host_key.map(PublicKey::from_openssh).transpose();
        let host_key = host_key.map_err(|_unreadable| bad("the host key"))?;
        let host_key = host_key.map(|key| key.key_data().clone());
        Ok(Self { address, key: Arc::new(key), host_key })
    }
}

impl fmt::Debug for FixedProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedProfile").field("address", &self.address).finish_non_exhaustive()
    }
}
