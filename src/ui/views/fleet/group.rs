//! A group of nodes, with the devices of each node that belong to it.

use std::sync::Arc;

use crate::fleet::{Fleet, Node, Totals};
use crate::insight::FleetView;
use crate::model::NodeName;

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Identifies the group across fleet views.
    pub(super) key: Arc<str>,
    pub(super) title: String,
    /// A short description.
    pub(super) description: String,
    pub(super) members: Vec<GroupMember>,
    /// True if only its header is shown.
    pub(super) is_folded: bool,
    /// Its totals, computed on first use.
    pub(super) totals: Option<Totals>,
}

/// A node in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupMember {
    /// Its index in the fleet.
    pub(super) node_index: usize,
    /// The indices of the devices that belong to the group; `None` for all.
    pub(super) devices: Option<Arc<[usize]>>,
}

impl GroupMember {
    /// Makes a member with all devices of a node.
    pub(super) fn with_all_devices(index: usize) -> Self {
        Self { node_index: index, devices: None }
    }

    /// Returns the same with only those devices that match the filter.
    pub(super) fn matching(&self, fleet_view: &FleetView, node: &Node) -> Self {
        let matched = fleet_view.matched.as_ref().and_then(|matched| matched.positions(node));
        let Some(positions) = matched else { return self.clone() };
        let devices = match &self.devices {
            None => Arc::clone(positions),
            Some(devices) => {
                devices.iter().copied().filter(|index| positions.contains(index)).collect()
            }
        };
        Self { devices: Some(devices), ..*self }
    }

    /// Returns true if the device at this index belongs to the group.
    pub(super) fn has_device(&self, position: usize) -> bool {
        self.devices.as_ref().is_none_or(|devices| devices.contains(&position))
    }

    /// Returns the indices of its devices, without slices.
    pub(super) fn device_indices(&self, node: &Node) -> Vec<usize> {
        let positions = node.whole_devices().map(|(position, _)| position);
        positions.filter(|position| self.has_device(*position)).collect()
    }
}

impl Group {
    /// Returns the totals of its fresh nodes; computes them once.
    pub(super) fn totals(&mut self, fleet_view: &FleetView) -> Totals {
        let FleetView { fleet, now, allocated, .. } = fleet_view;
        *self.totals.get_or_insert_with(|| {
            let parts = self.members.iter().filter_map(|member| {
                let node = fleet.nodes.get(member.node_index)?;
                // A host watched under two names counts once.
                let is_first = !fleet.same_as.contains_key(&node.name);
                is_first.then(|| (&**node, member.matching(fleet_view, node).devices))
            });
            let parts: Vec<_> = parts.collect();
            let parts = parts.iter().map(|(node, devices)| (*node, devices.as_deref()));
            Totals::of_node_parts(parts, *now, allocated)
        })
    }

    /// Returns the index of a node in the group.
    pub(super) fn position(&self, fleet: &Fleet, name: &NodeName) -> Option<usize> {
        self.members.iter().position(|member| {
            fleet.nodes.get(member.node_index).is_some_and(|node| node.name == *name)
        })
    }
}
