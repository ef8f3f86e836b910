//! Sorts nodes and groups by a column.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::fleet::{Node, Totals};
use crate::insight::node_status::NodeStatus;
use crate::insight::ownership::AllocationIndex;
use crate::insight::{FleetView, Severity};
use crate::model::{Celsius, Device, Percent, Watts};
use crate::query::{SortColumn, SortOrder};
use crate::ui::views::fleet::group::{Group, GroupMember};

/// The sort columns; `node` is the order in which nodes are configured.
pub(crate) const SORT_COLUMNS: [SortColumn; 11] = [
    SortColumn { name: "node", key: 'n', label: "node" },
    SortColumn { name: "job", key: 'b', label: "job" },
    SortColumn { name: "user", key: 's', label: "user" },
    SortColumn { name: "busy", key: 'd', label: "busy devices" },
    SortColumn { name: "util", key: 'u', label: "utilization" },
    SortColumn { name: "mem", key: 'm', label: "device memory used" },
    SortColumn { name: "power", key: 'p', label: "power" },
    SortColumn { name: "temp", key: 't', label: "hottest device" },
    SortColumn { name: "cpu", key: 'c', label: "CPU" },
    SortColumn { name: "age", key: 'a', label: "age" },
    SortColumn { name: "note", key: 'w', label: "problems" },
];

/// A sort key. Unknown values come last in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeSortKey {
    /// Sorted in descending order.
    Number(i64),
    /// Sorted by number, then alphabetically.
    Text(u64, Arc<str>),
}

/// Sorts the nodes of each group, and the groups by their totals if the column has them. The sort is stable,
/// so that equal rows do not swap.
pub(super) fn sort(
    groups: &mut [Group],
    fleet_view: &FleetView,
    allocations: &AllocationIndex,
    order: SortOrder,
) {
    for group in groups.iter_mut() {
        if order.column == "node" {
            if order.is_reversed {
                group.members.reverse();
            }
            continue;
        }
        let members = std::mem::take(&mut group.members).into_iter();
        let mut keyed: Vec<(Option<NodeSortKey>, GroupMember)> = members
            .map(|member| {
                let node = fleet_view.fleet.nodes.get(member.node_index);
                (
                    node.and_then(|node| {
                        sort_key(fleet_view, allocations, node, &member, order.column)
                    }),
                    member,
                )
            })
            .collect();
        keyed.sort_by(|(one, _), (other, _)| compare(one.as_ref(), other.as_ref(), order));
        group.members = keyed.into_iter().map(|(_, member)| member).collect();
    }
    if matches!(order.column, "busy" | "util" | "mem" | "power") && groups.len() > 1 {
        let total = |group: &mut Group| {
            total_of_column(&group.totals(fleet_view), order.column).map(NodeSortKey::Number)
        };
        let mut order_of_groups: Vec<(Option<NodeSortKey>, usize)> =
            groups.iter_mut().enumerate().map(|(index, group)| (total(group), index)).collect();
        order_of_groups
            .sort_by(|(one, _), (other, _)| compare(one.as_ref(), other.as_ref(), order));
        let mut sorted: Vec<Group> = Vec::with_capacity(groups.len());
        for (_, index) in order_of_groups {
            sorted.extend(groups.get_mut(index).map(std::mem::take));
        }
        for (slot, group) in groups.iter_mut().zip(sorted) {
            *slot = group;
        }
    } else if order.is_reversed {
        groups.reverse();
    }
}

/// Returns the arrow of a sort order: up if values rise from row to row.
pub(super) fn arrow(order: SortOrder) -> char {
    let is_rising = matches!(order.column, "node" | "job" | "user") != order.is_reversed;
    if is_rising { '↑' } else { '↓' }
}

fn compare(one: Option<&NodeSortKey>, other: Option<&NodeSortKey>, order: SortOrder) -> Ordering {
    let directed =
        |ordering: Ordering| if order.is_reversed { ordering.reverse() } else { ordering };
    match (one, other) {
        (Some(NodeSortKey::Number(one)), Some(NodeSortKey::Number(other))) => {
            directed(other.cmp(one))
        }
        (Some(NodeSortKey::Text(one, text)), Some(NodeSortKey::Text(other, word))) => {
            directed((one, text).cmp(&(other, word)))
        }
        (one, other) => one.is_none().cmp(&other.is_none()),
    }
}

fn sort_key(
    fleet_view: &FleetView,
    allocations: &AllocationIndex,
    node: &Node,
    member: &GroupMember,
    column: &str,
) -> Option<NodeSortKey> {
    let word = |text: &str| {
        let number = text.parse().unwrap_or(u64::MAX);
        NodeSortKey::Text(number, text.to_lowercase().into())
    };
    let number = match column {
        "job" => {
            return Some(word(allocations.owners(node).on_node.jobs.iter().min()?.as_str()));
        }
        "user" => return Some(word(allocations.owners(node).on_node.users.iter().min()?)),
        "busy" | "util" | "mem" | "power" => {
            total_of_column(&Totals::of_part(node, member.devices.as_deref()), column)?
        }
        "temp" => rounded(hottest(node, member)?),
        "cpu" => rounded(node.host.cpu.get()?.get()),
        "age" => i64::try_from(fleet_view.now.since(node.taken_at()?).as_secs()).ok()?,
        "note" => i64::from(severity(fleet_view, node)?),
        _ => return None,
    };
    Some(NodeSortKey::Number(number))
}

fn total_of_column(totals: &Totals, column: &str) -> Option<i64> {
    match column {
        "busy" => (totals.devices > 0).then(|| i64::try_from(totals.busy).unwrap_or(i64::MAX)),
        "util" => totals.utilization.map(|share| rounded(share.get())),
        "mem" => totals.memory_used.map(|bytes| i64::try_from(bytes.0 >> 30).unwrap_or(i64::MAX)),
        "power" => totals.power.map(|watts| rounded(Watts::get(watts))),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float cast saturates, which is what we want"
)]
fn rounded(value: f32) -> i64 {
    value.round() as i64
}

/// Returns the highest temperature of the devices in the group.
pub(super) fn hottest(node: &Node, member: &GroupMember) -> Option<f32> {
    let devices = node.devices.iter().enumerate().filter(|(index, _)| member.has_device(*index));
    devices.filter_map(|(_, device)| device.temperature.get()).map(Celsius::get).reduce(f32::max)
}

/// Returns the severity of the state of a node; `None` if it is healthy.
fn severity(fleet_view: &FleetView, node: &Node) -> Option<u8> {
    let is_bad = |device: &Device| device.fault.is_some();
    match NodeStatus::of(node, fleet_view.now) {
        NodeStatus::Down => Some(9),
        NodeStatus::Stale(_) => Some(8),
        _ if node.source_fault().is_some() || node.devices.iter().any(is_bad) => Some(7),
        NodeStatus::Fresh => {
            let flags = node.devices.iter().flat_map(crate::insight::node_status::device_flags);
            flags.map(|(_, severity)| if severity == Severity::Error { 6 } else { 5 }).max()
        }
        NodeStatus::Waiting | NodeStatus::Opening(_) | NodeStatus::Starting => Some(1),
    }
}

/// Returns a percentage as a plain number.
pub(super) fn to_f32(share: Option<Percent>) -> Option<f32> {
    share.map(Percent::get)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::Fleet;
    use crate::model::{NodeName, Reading};
    use crate::time::Timestamp;

    /// Nodes with one device each, of this load and temperature.
    fn fleet_view(nodes: &[(&str, Option<f32>, f32)]) -> FleetView {
        let node = |(name, load, heat): &(&str, Option<f32>, f32)| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            node.devices = vec![Device {
                uuid: (*name).into(),
                utilization: load
                    .map_or_else(Reading::default, |load| Reading::checked(Percent::new(load))),
                temperature: Reading::checked(Celsius::new(*heat)),
                ..Device::default()
            }];
            Arc::new(node)
        };
        let nodes: Vec<_> = nodes.iter().map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn sorted(fleet_view: &FleetView, column: &'static str, is_inverted: bool) -> String {
        let members =
            (0..fleet_view.fleet.nodes.len()).map(GroupMember::with_all_devices).collect();
        let mut groups = [Group { members, ..Group::default() }];
        sort(
            &mut groups,
            fleet_view,
            &AllocationIndex::default(),
            SortOrder { column, is_reversed: is_inverted },
        );
        let name =
            |member: &GroupMember| fleet_view.fleet.nodes[member.node_index].name.to_string();
        groups[0].members.iter().map(name).collect()
    }

    #[test]
    fn the_largest_value_sorts_first_and_unknown_values_last() {
        let fleet_view = fleet_view(&[
            ("a", Some(10.0), 50.0),
            ("b", None, 90.0),
            ("c", Some(95.0), 50.0),
            ("d", Some(10.2), 20.0),
        ]);
        for (column, usual, inverted) in [
            ("node", "abcd", "dcba"),
            ("util", "cadb", "adcb"),
            ("temp", "bacd", "dacb"),
            ("cpu", "abcd", "abcd"),
            ("job", "abcd", "abcd"),
        ] {
            assert_eq!(sorted(&fleet_view, column, false), usual, "{column}");
            assert_eq!(sorted(&fleet_view, column, true), inverted, "{column}");
        }
    }

    #[test]
    fn numeric_text_sorts_by_value() {
        let number = |number, text: &str| Some(NodeSortKey::Text(number, text.into()));
        let order = SortOrder::by("job");
        let (nine, eleven) = (number(9, "9"), number(11, "11"));
        assert_eq!(compare(nine.as_ref(), eleven.as_ref(), order), Ordering::Less);
    }

    #[test]
    fn every_sort_key_is_unique_and_not_used_by_the_menu() {
        let mut symbols: Vec<char> = SORT_COLUMNS.iter().map(|column| column.key).collect();
        symbols.sort_unstable();
        assert!(symbols.windows(2).all(|two| two[0] != two[1]));
        assert!(!symbols.iter().any(|letter| "jkq".contains(*letter)));
    }
}
