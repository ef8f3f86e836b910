//! The rows of the table and the heat map: groups, their nodes, and for each node the devices that belong to
//! the group. Built once per fleet view.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::views::fleet::group::{Group, GroupMember};
use crate::views::fleet::grouping::Grouping;
use crate::views::fleet::node_sort;
use gtop_fleet::insight::{FleetView, ViewVersion};
use gtop_fleet::query::SortOrder;
use gtop_fleet::{Fleet, JobLookup, Node, Totals};
use gtop_model::NodeName;

/// Groups of nodes, and the table rows they make.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupedRows {
    key: Option<(ViewVersion, SortOrder, Grouping, u64)>,
    /// The groups; without grouping, a single one without a name.
    pub(super) groups: Vec<Group>,
    pub(super) rows: Vec<GroupedRow>,
    /// True if groups have headers.
    pub(super) is_grouped: bool,
    /// The nodes that are in several partitions, if grouped by partition.
    pub(super) shared: Option<Totals>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupedRow {
    /// The header of the group with this index.
    Header(usize),
    /// Nodes of a group: its index, and the index of the first node.
    Nodes(usize, usize),
}

/// What the rows depend on besides the fleet view.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupedRowOptions<'a> {
    pub(super) order: SortOrder,
    pub(super) grouping: Grouping,
    /// The keys of the folded groups.
    pub(super) folded_groups: &'a BTreeSet<Arc<str>>,
    /// Incremented on each change of `folded_groups`.
    pub(super) fold_version: u64,
}

impl GroupedRows {
    /// Rebuilds groups and rows if something they depend on has changed.
    pub(super) fn refresh(
        &mut self,
        fleet_view: &FleetView,
        jobs: &JobLookup,
        options: GroupedRowOptions<'_>,
    ) {
        let GroupedRowOptions { order, grouping, fold_version, .. } = options;
        let key = Some((fleet_view.version(), order, grouping, fold_version));
        if self.key == key {
            return;
        }
        self.key = key;
        self.is_grouped = grouping != Grouping::None;
        self.groups = grouping.groups(fleet_view, jobs);
        let shared = (grouping == Grouping::Partition).then(|| shared_nodes(fleet_view));
        self.shared = shared.filter(|shared| shared.nodes > 0);
        node_sort::sort(&mut self.groups, fleet_view, order);
        for group in &mut self.groups {
            group.is_folded = self.is_grouped && options.folded_groups.contains(&group.key);
        }
        self.rows = self.lines(1);
    }

    /// Returns the headers and the nodes of all groups, with as many nodes per line.
    pub(super) fn lines(&self, nodes_per_line: usize) -> Vec<GroupedRow> {
        let mut lines = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            if self.is_grouped {
                lines.push(GroupedRow::Header(index));
            }
            if !group.is_folded {
                let firsts = (0..group.members.len()).step_by(nodes_per_line.max(1));
                lines.extend(firsts.map(|first| GroupedRow::Nodes(index, first)));
            }
        }
        lines
    }

    /// Finds the group and member index of a node, in the group with this key if possible.
    pub(super) fn find(
        &self,
        fleet: &Fleet,
        group: Option<&str>,
        name: &NodeName,
    ) -> Option<(usize, usize)> {
        let preferred = group.and_then(|key| self.group(key));
        let mut groups = preferred.into_iter().chain(0..self.groups.len());
        groups.find_map(|at| Some((at, self.groups.get(at)?.position(fleet, name)?)))
    }

    /// Returns the width of the longest title if all groups are folded.
    pub(super) fn folded_width(&self) -> Option<u16> {
        let is_folded = self.is_grouped && self.groups.iter().all(|group| group.is_folded);
        is_folded.then(|| self.groups.iter().map(Group::title_width).max().unwrap_or_default())
    }

    pub(super) fn group(&self, key: &str) -> Option<usize> {
        self.groups.iter().position(|group| *group.key == *key)
    }

    pub(super) fn member<'a>(
        &self,
        fleet: &'a Fleet,
        group: usize,
        member: usize,
    ) -> Option<(&GroupMember, &'a Arc<Node>)> {
        let member = self.groups.get(group)?.members.get(member)?;
        Some((member, fleet.nodes.get(member.node_index)?))
    }

    /// Computes the totals of a group, once.
    pub(super) fn sum_up(&mut self, fleet_view: &FleetView, group: usize) {
        if let Some(group) = self.groups.get_mut(group) {
            group.sum_up(fleet_view);
        }
    }

    /// Computes the totals of a group by device model, once.
    pub(super) fn sum_up_models(&mut self, fleet_view: &FleetView, group: usize) {
        if let Some(group) = self.groups.get_mut(group) {
            group.sum_up_models(fleet_view);
        }
    }

    pub(super) fn member_count(&self, group: usize) -> usize {
        self.groups.get(group).map_or(0, |group| group.members.len())
    }

    /// Returns the last cell of a member of a group, 0 if it has none.
    pub(super) fn last_cell(&self, fleet: &Fleet, (group, member): (usize, usize)) -> usize {
        let found = self.member(fleet, group, member);
        found.map_or(0, |(member, node)| member.device_indices(node).len()).saturating_sub(1)
    }
}

/// Returns the totals of the nodes that are in several partitions, of the devices that match the filter.
fn shared_nodes(fleet_view: &FleetView) -> Totals {
    let nodes = fleet_view.matching.iter().copied();
    let shared = nodes
        .filter(|index| fleet_view.fleet.nodes.get(*index).is_some_and(|node| is_shared(node)));
    let members: Vec<_> = shared.map(GroupMember::with_all_devices).collect();
    GroupMember::totals(&members, fleet_view)
}

/// Returns true if a node is in several partitions.
pub(super) fn is_shared(node: &Node) -> bool {
    node.scheduler.as_ref().is_some_and(|known| known.partitions.len() > 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::views::fleet::group::ModelTotals;
    use gtop_fleet::SourceState;
    use gtop_fleet::query::Filter;
    use gtop_local::time::Timestamp;
    use gtop_model::{
        Device, Fault, FaultKind, Link, NodeState, Percent, Reading, SchedulerNode, Source,
    };

    fn fleet_view(count: u32) -> FleetView {
        let node = |number: u32| {
            let name = NodeName::new(&format!("gpu{number:03}")).unwrap();
            Arc::new(Node::new(name, Duration::ZERO))
        };
        let nodes: Vec<_> = (1..=count).map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn grouped_rows(
        fleet_view: &FleetView,
        grouping: Grouping,
        folded_groups: &[&str],
    ) -> GroupedRows {
        let folded_groups = folded_groups.iter().map(|key| Arc::from(*key)).collect();
        let order = SortOrder::by("node");
        let mut grouped_rows = GroupedRows::default();
        let options =
            GroupedRowOptions { order, grouping, folded_groups: &folded_groups, fold_version: 0 };
        grouped_rows.refresh(fleet_view, &JobLookup::default(), options);
        grouped_rows
    }

    #[test]
    fn a_folded_group_is_one_row() {
        let fleet_view = fleet_view(40);
        let open = grouped_rows(&fleet_view, Grouping::Range, &[]);
        assert_eq!(open.rows.len(), 43);
        let folded = grouped_rows(&fleet_view, Grouping::Range, &["gpu 1 "]);
        assert_eq!(folded.rows.len(), 27);
        assert_eq!(folded.rows[17..19], [GroupedRow::Header(1), GroupedRow::Header(2)]);
    }

    #[test]
    fn a_node_is_found_in_the_preferred_group_or_any() {
        let fleet_view = fleet_view(40);
        let grouped_rows = grouped_rows(&fleet_view, Grouping::Range, &[]);
        let name = NodeName::new("gpu020").unwrap();
        for group in [Some("gpu 1 "), Some("gone"), None] {
            assert_eq!(grouped_rows.find(&fleet_view.fleet, group, &name), Some((1, 3)));
        }
        let other = NodeName::new("other").unwrap();
        assert_eq!(grouped_rows.find(&fleet_view.fleet, None, &other), None);
    }

    /// Returns two nodes that are in two partitions, each with a free H100 and two free A100.
    fn mixed_nodes(filter: &str) -> FleetView {
        let device = |name: &str| Device {
            uuid: name.into(),
            name: Reading::Known(name.into()),
            utilization: Reading::checked(Percent::new(0.0)),
            ..Device::default()
        };
        let node = |name: &str| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            node.link = Link::Up;
            node.sources.push(SourceState {
                source: Source::host(),
                taken_at: Some(Timestamp::default()),
                interval: Duration::from_secs(1),
                fault: None,
                absent: None,
            });
            node.devices = vec![device("H100"), device("A100"), device("A100 too")].into();
            node.devices[2].name = Reading::Known("A100".into());
            let partitions = ["gpu".into(), "serve".into()].into();
            let known = SchedulerNode {
                state: NodeState::Idle,
                is_responding: true,
                partitions,
                ..SchedulerNode::default()
            };
            node.scheduler = Some(Arc::new(known));
            Arc::new(node)
        };
        let unseen = Node::new(NodeName::new("gpu3").unwrap(), Duration::ZERO);
        let fleet = Fleet::new([node("gpu1"), node("gpu2"), Arc::new(unseen)].into());
        FleetView::filtered(fleet, Timestamp::default(), Filter::new(filter).unwrap())
    }

    #[test]
    fn nodes_in_several_partitions_count_the_devices_that_match() {
        for (filter, devices) in [("", 6), ("name=A100", 4), ("node=gpu1 name=A100", 2)] {
            let fleet_view = mixed_nodes(filter);
            let rows = grouped_rows(&fleet_view, Grouping::Partition, &[]);
            let shared = rows.shared.unwrap();
            assert_eq!((shared.devices, shared.free), (devices, devices), "{filter}");
        }
    }

    #[test]
    fn a_group_counts_its_devices_by_model_and_names_the_nodes_with_free_ones() {
        let models = |filter: &str| {
            let fleet_view = mixed_nodes(filter);
            let mut rows = grouped_rows(&fleet_view, Grouping::Range, &[]);
            rows.groups[0].sum_up_models(&fleet_view);
            let models = rows.groups[0].models().iter();
            let text =
                |row: &ModelTotals| format!("{} {} {}", row.model, row.totals.free, row.free_on);
            models.map(text).collect::<Vec<_>>()
        };
        assert_eq!(models(""), ["A100 4 2× gpu[1-2]", "H100 2 1× gpu[1-2]", "unknown 0 "]);
        assert_eq!(models("node=gpu2 name=H100"), ["H100 1 1× gpu2"]);
        assert_eq!(models("node=gpu1 or name=H100"), ["A100 2 2× gpu1", "H100 2 1× gpu[1-2]"]);
    }

    #[test]
    fn the_panel_of_a_group_has_the_devices_of_nodes_known_from_the_scheduler_alone() {
        let mut node = Node::new(NodeName::new("gpu7").unwrap(), Duration::ZERO);
        node.link = Link::Down { fault: Fault::new(FaultKind::NoJob, ""), retry_at: None };
        node.scheduler = Some(Arc::new(SchedulerNode {
            state: NodeState::Mixed,
            is_responding: true,
            devices: Some(8),
            allocated: Some(3),
            ..SchedulerNode::default()
        }));
        // A device that is remembered from when the node let gtop in.
        node.devices = vec![Device { uuid: "GPU-1".into(), ..Device::default() }].into();
        for (filter, counts) in [("", (8, 5, 3)), ("free", (5, 5, 0)), ("in-use", (3, 0, 3))] {
            let fleet = Fleet::new([Arc::new(node.clone())].into());
            let filter = Filter::new(filter).unwrap();
            let fleet_view = FleetView::filtered(fleet, Timestamp::default(), filter);
            let mut rows = grouped_rows(&fleet_view, Grouping::Range, &[]);
            rows.groups[0].sum_up_models(&fleet_view);
            let models = rows.groups[0].models().iter();
            let count = |row: &ModelTotals| {
                let ModelTotals { model, totals, free_on } = row;
                let counts = (totals.devices, totals.free, totals.in_use);
                (model.clone(), counts, free_on.is_empty())
            };
            let models: Vec<_> = models.map(count).collect();
            assert_eq!(models, [("unknown".to_owned(), counts, counts.1 == 0)]);
            let member = rows.groups[0].members[0].matching(&fleet_view, &node);
            let shown = member.device_indices(&node).len();
            assert_eq!(shown, usize::from(fleet_view.filter.is_empty()));
        }
    }

    #[test]
    fn an_empty_fleet_has_no_rows() {
        for grouping in [Grouping::None, Grouping::Range, Grouping::Job, Grouping::Model] {
            assert_eq!(grouped_rows(&FleetView::default(), grouping, &[]).rows, []);
        }
    }
}
