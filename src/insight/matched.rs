//! The nodes and devices that match a filter, found once per snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{Fleet, Node};
use crate::model::NodeName;
use crate::query::{Filter, NodeMatch};
use crate::time::Timestamp;

/// The nodes and devices that match a filter.
#[derive(Clone, Debug, Default)]
pub struct MatchedDevices {
    /// The positions of the matching devices, without slices, of each node that matches.
    by_node: BTreeMap<NodeName, Arc<[usize]>>,
    /// The number of devices of the whole fleet.
    pub fleet_devices: usize,
    /// The number of devices that do not match only because a compared value of theirs is unknown.
    pub unknown_devices: usize,
}

impl MatchedDevices {
    /// Matches the nodes of a fleet; also returns the indices of those that match.
    pub(super) fn of(fleet: &Fleet, filter: &Filter, now: Timestamp) -> (Vec<usize>, Self) {
        let (mut matching, mut matched) = (Vec::new(), Self::default());
        for (index, node) in fleet.nodes.iter().enumerate() {
            let NodeMatch { is_match, devices, unknown_devices } = filter.match_node(node, now);
            // A machine that is watched under two names counts once.
            if !fleet.same_as.contains_key(&node.name) {
                matched.fleet_devices += node.device_count();
                matched.unknown_devices += unknown_devices;
            }
            if is_match {
                matching.push(index);
                matched.by_node.insert(node.name.clone(), devices.into());
            }
        }
        (matching, matched)
    }

    /// Returns the positions of the devices of a node that match; `None` if the node does not.
    pub fn positions(&self, node: &Node) -> Option<&Arc<[usize]>> {
        self.by_node.get(&node.name)
    }
}
