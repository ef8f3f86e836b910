//! The node that is sampled as often as its sources allow.

use crate::id::NodeName;
use gtop_local::time::Timestamp;

/// The node in focus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    /// Its name.
    pub node: NodeName,
    /// When the focus ends; a later one on the same node is another focus.
    pub until: Timestamp,
}
