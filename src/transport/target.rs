//! The target of a connection.

use crate::model::NodeName;
use crate::ssh::SshTarget;

/// A node to connect to.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The name, as typed and shown.
    pub name: NodeName,
    /// How to connect.
    pub reach: Reach,
}

/// How to connect to a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// The local machine.
    Local,
    /// Over SSH.
    Ssh(SshTarget),
}
