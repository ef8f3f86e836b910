//! The nodes and devices that match a filter, found once per snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::query::{Filter, NodeMatch};
use crate::{Fleet, Node};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// The nodes and devices that match a filter.
#[derive(Clone, Debug, Default)]
pub struct MatchedDevices {
    /// The positions of the matching units of each node that matches.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::insight::FleetView;
    use gtop_model::{Fault, FaultKind, Link, NodeState, SchedulerNode};

    #[test]
    fn devices_that_only_the_scheduler_knows_match_as_it_says() {
        let mut node = Node::new(NodeName::new("gpu07").unwrap(), Duration::ZERO);
        node.link = Link::Down { fault: Fault::new(FaultKind::NoJob, ""), retry_at: None };
        node.scheduler = Some(Arc::new(SchedulerNode {
            partitions: vec!["gpu".into()],
            state: NodeState::Mixed,
            is_responding: true,
            devices: Some(8),
            allocated: Some(3),
            ..SchedulerNode::default()
        }));
        let fleet = Fleet::new(vec![Arc::new(node.clone())].into());
        for (text, free, in_use) in [
            ("free", 5, 0),
            ("partition=gpu free", 5, 0),
            ("partition=cpu free", 0, 0),
            ("partition=gpu", 5, 3),
            ("not free", 0, 3),
            ("reported", 5, 3),
            ("gpu07", 5, 3),
            ("unknown", 0, 0),
            ("in-use", 0, 3),
            ("busy", 0, 0),
            ("util<10", 0, 0),
            ("stale", 0, 0),
            ("alice", 0, 0),
        ] {
            let filter = Filter::new(text).unwrap();
            let fleet_view = FleetView::filtered(fleet.clone(), Timestamp::default(), filter);
            let totals = fleet_view.totals;
            assert_eq!((totals.free, totals.in_use), (free, in_use), "{text}");
            assert_eq!(totals.devices, free + in_use, "{text}");
            assert_eq!(fleet_view.matching.len(), usize::from(free + in_use > 0), "{text}");
            assert_eq!(fleet_view.matched.unwrap().fleet_devices, 8);
        }
    }
}
