//! A group of nodes, with the devices of each node that belong to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::widgets::line::{Symbol, Tone, truncate_distinct};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::model_name;
use gtop_fleet::{Fleet, Node, Totals};
use gtop_local::text::width_of;
use gtop_local::time::Timestamp;
use gtop_model::{NodeName, nodeset};

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Identifies the group across fleet views.
    pub(super) key: Arc<str>,
    pub(super) title: String,
    /// The titles of all groups, from which this one stays different where it is cut.
    pub(super) titles: Arc<[String]>,
    /// A short description.
    pub(super) description: String,
    pub(super) members: Vec<GroupMember>,
    /// The number of pending jobs that may start in it, if it is a partition.
    pub(super) pending: Option<usize>,
    /// True if only its header is shown.
    pub(super) is_folded: bool,
    /// Its totals, once they are needed.
    pub(super) totals: Option<Totals>,
    /// Its totals by device model, once they are needed.
    pub(super) models: Option<Vec<ModelTotals>>,
}

/// The devices of one model in a group.
#[derive(Clone, Debug)]
pub(super) struct ModelTotals {
    pub(super) model: String,
    pub(super) totals: Totals,
    /// The nodes with free ones by how many are free on each: `8× gpu[001-004], 2× gpu007`.
    pub(super) free_on: String,
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

    /// Returns the nodes of members, each machine once, and their devices that match the filter.
    fn parts<'a>(
        members: &'a [Self],
        fleet_view: &'a FleetView,
    ) -> impl Iterator<Item = (&'a Node, Option<Arc<[usize]>>)> {
        let fleet = &fleet_view.fleet;
        members.iter().filter_map(|member| {
            let node = fleet.nodes.get(member.node_index)?;
            // A host watched under two names counts once.
            let is_first = !fleet.same_as.contains_key(&node.name);
            is_first.then(|| (&**node, member.matching(fleet_view, node).devices))
        })
    }

    pub(super) fn totals(members: &[Self], fleet_view: &FleetView) -> Totals {
        let parts: Vec<_> = Self::parts(members, fleet_view).collect();
        let parts = parts.iter().map(|(node, devices)| (*node, devices.as_deref()));
        Totals::of_node_parts(parts, fleet_view.now)
    }

    /// Returns true if the device at this index of the node belongs to the group. Those remembered of a node that is now
    /// known from the scheduler alone do not match a filter.
    pub(super) fn has_device(&self, node: &Node, position: usize) -> bool {
        self.devices
            .as_ref()
            .is_none_or(|devices| node.reported().is_none() && devices.contains(&position))
    }

    /// Returns the positions of its units.
    pub(super) fn device_indices(&self, node: &Node) -> Vec<usize> {
        let positions = node.units().map(|(position, _)| position);
        positions.filter(|position| self.has_device(node, *position)).collect()
    }

    /// Returns the position of the device in a cell.
    pub(super) fn device_at(&self, node: &Node, cell: usize) -> Option<usize> {
        self.device_indices(node).get(cell).copied()
    }

    /// Returns the cells of its units, of those of all devices of the node; blank for units that do not belong to it.
    pub(super) fn unit_cells(
        &self,
        node: &Node,
        all: &[(Symbol, Tone)],
    ) -> impl Iterator<Item = (usize, (Symbol, Tone))> {
        node.units().map(|(position, _)| {
            let own = all.get(position).filter(|_| self.has_device(node, position));
            (position, own.copied().unwrap_or((Symbol::Char(' '), Tone::Faint)))
        })
    }
}

/// The nodes with devices of a model, and the positions of these.
type ModelParts<'a> = Vec<(&'a Node, Vec<usize>)>;

fn totals_of(parts: &[(&Node, Vec<usize>)], now: Timestamp) -> Totals {
    let parts = parts.iter().map(|(node, positions)| (*node, Some(&**positions)));
    Totals::of_node_parts(parts, now)
}

fn models(members: &[GroupMember], fleet_view: &FleetView) -> Vec<ModelTotals> {
    let now = fleet_view.now;
    let mut by_model: BTreeMap<&str, ModelParts<'_>> = BTreeMap::new();
    let mut of_unknown_model: ModelParts<'_> = Vec::new();
    for (node, positions) in GroupMember::parts(members, fleet_view) {
        let mut parts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let included = node
            .device_positions()
            .filter(|index| positions.as_ref().is_none_or(|all| all.contains(index)));
        if node.reported().is_some() || node.devices.is_empty() {
            of_unknown_model.push((node, included.collect()));
            continue;
        }
        for index in included {
            if let Some(device) = node.devices.get(index) {
                parts.entry(model_name(device)).or_default().push(index);
            }
        }
        for (model, positions) in parts {
            by_model.entry(model).or_default().push((node, positions));
        }
    }
    let all = by_model.into_iter().chain([("unknown", of_unknown_model)]);
    let rows = all.map(|(model, parts)| {
        let mut free_on: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for part in &parts {
            let free = totals_of(std::slice::from_ref(part), now).free;
            free_on.entry(free).or_default().push(part.0.name.label());
        }
        let most_first = free_on.into_iter().rev().filter(|(free, _)| *free > 0);
        let texts = most_first.map(|(free, names)| format!("{free}× {}", nodeset::fold(names)));
        let free_on = texts.collect::<Vec<_>>().join(", ");
        ModelTotals { model: model.to_owned(), totals: totals_of(&parts, now), free_on }
    });
    rows.filter(|row| row.totals.devices > 0 || row.totals.unseen > 0).collect()
}

impl Group {
    /// Returns its totals, which it keeps.
    pub(super) fn sum_up(&mut self, fleet_view: &FleetView) -> Totals {
        *self.totals.get_or_insert_with(|| GroupMember::totals(&self.members, fleet_view))
    }

    /// Computes its totals by device model, once.
    pub(super) fn sum_up_models(&mut self, fleet_view: &FleetView) {
        self.models.get_or_insert_with(|| models(&self.members, fleet_view));
    }

    /// Returns the totals of its fresh nodes.
    pub(super) fn totals(&self, fleet_view: &FleetView) -> Totals {
        self.totals.unwrap_or_else(|| GroupMember::totals(&self.members, fleet_view))
    }

    /// Returns the totals by device model as they were computed last, with those of nodes whose devices are not known last.
    pub(super) fn models(&self) -> &[ModelTotals] {
        self.models.as_deref().unwrap_or_default()
    }

    /// Returns its title in at most `width` columns.
    pub(super) fn title_within(&self, width: u16) -> String {
        let titles: Vec<&str> = self.titles.iter().map(String::as_str).collect();
        truncate_distinct(&self.title, &titles, width)
    }

    /// Returns the width of its title with the description.
    pub(super) fn title_width(&self) -> u16 {
        let description = width_of(&self.description);
        width_of(&self.title) + if description > 0 { 2 + description } else { 0 }
    }

    pub(super) fn nodes<'a>(&'a self, view: &'a FleetView) -> impl Iterator<Item = &'a Arc<Node>> {
        self.members.iter().filter_map(|member| view.fleet.nodes.get(member.node_index))
    }

    pub(super) fn position(&self, fleet: &Fleet, name: &NodeName) -> Option<usize> {
        self.members.iter().position(|member| {
            fleet.nodes.get(member.node_index).is_some_and(|node| node.name == *name)
        })
    }
}
