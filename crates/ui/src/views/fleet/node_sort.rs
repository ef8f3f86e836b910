//! Sorts nodes and groups by a column.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::views::fleet::group::{Group, GroupMember};
use crate::widgets::list::compare_known;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::next_problem::sickness;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::metrics::{Field, HOST, MetricOrder, device_fields};
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_fleet::{Node, NodeHoldings, Totals};
use gtop_model::Device;

/// A sort column and the values it sorts by.
type NodeOrder = (SortColumn, Values);

/// The values of a sort column.
enum Values {
    /// The positions in which nodes are configured.
    Positions,
    /// The first of several, those that are numbers by value.
    Names(fn(&NodeHoldings) -> Vec<&str>),
    /// Groups are sorted by them too.
    Totals(fn(&Totals) -> Option<i64>),
    /// The same, of devices by state, as far as it is known.
    Counts(fn(&Totals) -> Option<usize>),
    Numbers(fn(&FleetView, &Node) -> Option<i64>),
    HostMetric(&'static Field<Node>),
    /// The highest value of the devices.
    DeviceMetric(&'static Field<Device>),
}

const FIRST: [NodeOrder; 9] = [
    (SortColumn::new("node", 'n', "node", "in the order given"), Values::Positions),
    (
        SortColumn::new("job", 'b', "job", "by job"),
        Values::Names(|holdings| holdings.jobs().iter().map(|known| known.job.as_str()).collect()),
    ),
    (
        SortColumn::new("user", 's', "user", "by user"),
        Values::Names(|holdings| holdings.users().iter().map(|user| &**user).collect()),
    ),
    (
        SortColumn::new("busy", 'd', "busy devices", "by number of busy devices"),
        Values::Counts(Totals::known_busy),
    ),
    (
        SortColumn::new("free", 'f', "free devices", "by number of free devices"),
        Values::Counts(Totals::known_free),
    ),
    (
        SortColumn::new("idle-held", 'h', "idle-held devices", "by number of idle-held devices"),
        Values::Counts(Totals::known_idle_held),
    ),
    (
        SortColumn::new("util", 'u', "utilization", "by utilization"),
        Values::Totals(|totals| totals.utilization.map(|share| rounded(share.get()))),
    ),
    (
        SortColumn::new("mem", 'm', "device memory used", "by device memory in use"),
        Values::Totals(|totals| {
            totals.memory_used.map(|bytes| i64::try_from(bytes.0 >> 30).unwrap_or(i64::MAX))
        }),
    ),
    (
        SortColumn::new("power", 'p', "power", "by power"),
        Values::Totals(|totals| totals.power.map(|watts| rounded(watts.get()))),
    ),
];

const LAST: [NodeOrder; 2] = [
    (
        SortColumn::new("age", 'a', "age", "by age of the data"),
        Values::Numbers(|fleet_view, node| {
            i64::try_from(fleet_view.now.since(node.taken_at()?).as_secs()).ok()
        }),
    ),
    (
        SortColumn::new("note", 'w', "note", "by note: the worst problems first"),
        Values::Numbers(|fleet_view, node| severity(fleet_view, node).map(i64::from)),
    ),
];

fn metric_column(alias: &'static str, order: MetricOrder) -> SortColumn {
    SortColumn::new(alias, order.key, order.label, order.help)
}

fn orders() -> impl Iterator<Item = NodeOrder> {
    let devices = device_fields().filter_map(|field| {
        Some((metric_column(field.alias, field.order?), Values::DeviceMetric(field)))
    });
    let hosts = HOST.iter().filter_map(|field| {
        Some((metric_column(field.alias, field.order?), Values::HostMetric(field)))
    });
    FIRST.into_iter().chain(devices).chain(hosts).chain(LAST)
}

/// Returns the sort columns; `node` is the order in which nodes are configured.
pub fn sort_columns() -> Vec<SortColumn> {
    orders().map(|(column, _)| column).collect()
}

fn values_of(column: &str) -> Values {
    let order = orders().find(|(known, _)| known.name == column);
    order.map_or(Values::Positions, |(_, values)| values)
}

/// A sort key. Unknown values come last in either direction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeSortKey {
    /// Sorted in descending order.
    Number(Reverse<i64>),
    /// Sorted by number, then alphabetically.
    Text(u64, Arc<str>),
}

/// Sorts the nodes of each group, and the groups by their totals if the column has them. The sort is stable,
/// so that equal rows do not swap.
pub(super) fn sort(groups: &mut [Group], fleet_view: &FleetView, order: SortOrder) {
    let values = values_of(order.column);
    for group in groups.iter_mut() {
        if matches!(values, Values::Positions) {
            if order.is_reversed {
                group.members.reverse();
            }
            continue;
        }
        let members = std::mem::take(&mut group.members).into_iter().map(|member| {
            let node = fleet_view.fleet.nodes.get(member.node_index);
            (node.and_then(|node| values.sort_key(fleet_view, (node, &member))), member)
        });
        let mut keyed: Vec<(Option<NodeSortKey>, GroupMember)> = members.collect();
        keyed.sort_by(|(one, _), (other, _)| {
            compare_known([one.as_ref(), other.as_ref()], order.is_reversed)
        });
        group.members = keyed.into_iter().map(|(_, member)| member).collect();
    }
    if matches!(values, Values::Totals(_) | Values::Counts(_)) && groups.len() > 1 {
        let keyed = groups.iter_mut().map(|group| {
            let totals = group.sum_up(fleet_view);
            let total = if let Values::Totals(read) = &values {
                read(&totals)
            } else if let Values::Counts(read) = &values {
                sortable_count(&totals, *read)
            } else {
                None
            };
            (total.map(Reverse), std::mem::take(group))
        });
        let mut keyed: Vec<(Option<Reverse<i64>>, Group)> = keyed.collect();
        keyed.sort_by(|(one, _), (other, _)| compare_known([*one, *other], order.is_reversed));
        for (slot, (_, group)) in groups.iter_mut().zip(keyed) {
            *slot = group;
        }
    } else if order.is_reversed {
        groups.reverse();
    }
}

/// Returns true if values rise from row to row.
pub(super) fn is_rising(order: SortOrder) -> bool {
    let is_text = matches!(values_of(order.column), Values::Positions | Values::Names(_));
    is_text != order.is_reversed
}

impl Values {
    fn sort_key(
        &self,
        fleet_view: &FleetView,
        (node, member): (&Node, &GroupMember),
    ) -> Option<NodeSortKey> {
        let member = &member.matching(fleet_view, node);
        let number = match self {
            Self::Positions => return None,
            Self::Names(read) => {
                let names = read(&node.holdings).into_iter();
                let keys =
                    names.map(|name| (name.parse().unwrap_or(u64::MAX), name.to_lowercase()));
                let (number, name) = keys.min()?;
                return Some(NodeSortKey::Text(number, name.into()));
            }
            Self::Totals(read) => read(&Totals::of_part(node, member.devices.as_deref()))?,
            Self::Counts(read) => {
                let devices = member.devices.as_deref();
                sortable_count(&Totals::of_node_part(node, devices, fleet_view.now), *read)?
            }
            Self::Numbers(read) => read(fleet_view, node)?,
            Self::HostMetric(field) => rounded(field.number_of(node)?),
            Self::DeviceMetric(field) => rounded(highest(node, member, field)?),
        };
        Some(NodeSortKey::Number(Reverse(number)))
    }
}

/// Returns a number of devices of a state; `None` if it is unknown, or there are no devices.
fn sortable_count(totals: &Totals, read: fn(&Totals) -> Option<usize>) -> Option<i64> {
    let count = read(totals).filter(|_| totals.devices > 0)?;
    Some(i64::try_from(count).unwrap_or(i64::MAX))
}

#[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
fn rounded(value: f32) -> i64 {
    value.round() as i64
}

/// Returns the highest temperature of the devices in the group.
pub(super) fn hottest(node: &Node, member: &GroupMember) -> Option<f32> {
    let temperature = device_fields().find(|field| field.alias == "temp")?;
    highest(node, member, temperature)
}

/// Returns the highest value of the devices in the group.
fn highest(node: &Node, member: &GroupMember, field: &Field<Device>) -> Option<f32> {
    let devices = node.units().filter(|(index, _)| member.has_device(node, *index));
    // What a slice does not report is that of its device.
    let numbers = devices.filter_map(|(_, device)| {
        field.number_of(device).or_else(|| field.number_of(node.whole(device)))
    });
    numbers.reduce(f32::max)
}

/// Returns how bad the state of a node is, as `!` ranks nodes where no job of one's own runs; `None` if it is healthy.
fn severity(fleet_view: &FleetView, node: &Node) -> Option<u8> {
    let is_unready = match NodeStatus::of(node, fleet_view.now) {
        NodeStatus::Reported => !node.takes_jobs() && node.powered_off().is_none(),
        NodeStatus::Waiting | NodeStatus::Opening(_) | NodeStatus::Starting => true,
        NodeStatus::Down | NodeStatus::Stale(_) | NodeStatus::Fresh => false,
    };
    sickness(node, fleet_view.now).or(is_unready.then_some(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::metrics::made_up;
    use gtop_fleet::{Fleet, Process, SourceState};
    use gtop_local::time::Timestamp;
    use gtop_model::{
        Bytes, Celsius, DeviceUse, Fault, FaultKind, JobId, Link, NodeName, Percent, ProcessKey,
        ProcessStatics, Reading, SchedulerNode, Source, SourceFault, SourceFaultKind,
    };

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
            }]
            .into();
            Arc::new(node)
        };
        let nodes: Vec<_> = nodes.iter().map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn sorted(fleet_view: &FleetView, column: &'static str, is_inverted: bool) -> String {
        let members =
            (0..fleet_view.fleet.nodes.len()).map(GroupMember::with_all_devices).collect();
        let mut groups = [Group { members, ..Group::default() }];
        sort(&mut groups, fleet_view, SortOrder { column, is_reversed: is_inverted });
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

    /// Returns a fleet of these nodes after a change of each.
    fn changed(mut view: FleetView, change: impl Fn(&mut Node)) -> FleetView {
        let mut nodes = view.fleet.nodes.to_vec();
        for node in &mut nodes {
            change(Arc::make_mut(node));
        }
        view.fleet = Fleet { nodes: nodes.into(), ..view.fleet }.with_jobs(None);
        view
    }

    /// Makes a node fresh, with a fault of its only source.
    fn sample(node: &mut Node, fault: Option<SourceFaultKind>) {
        let new_fault = |kind| {
            let (call, message, duration) = ("".into(), "".into(), Duration::ZERO);
            Box::new(SourceFault {
                kind,
                call,
                message,
                duration,
                at: Timestamp::default(),
                code: None,
            })
        };
        let (source, taken_at) = (Source::host(), Some(Timestamp::default()));
        let interval = Duration::from_secs(1);
        node.link = Link::Up;
        node.sources = vec![SourceState {
            source,
            taken_at,
            interval,
            fault: fault.map(new_fault),
            absent: None,
        }];
    }

    #[test]
    fn what_a_node_was_busy_with_does_not_count_when_it_is_stale() {
        let view = fleet_view(&[("a", Some(90.0), 50.0), ("b", Some(0.0), 50.0)]);
        let view = changed(view, |node| {
            if node.name.as_str() == "b" {
                sample(node, None);
            }
        });
        assert_eq!(["busy", "free"].map(|column| sorted(&view, column, false)), ["ba", "ba"]);
        assert_eq!(["busy", "free"].map(|column| sorted(&view, column, true)), ["ba", "ba"]);
        // A group of such nodes comes last too.
        for is_reversed in [false, true] {
            let group = |node_index| {
                let members = vec![GroupMember::with_all_devices(node_index)];
                Group { members, ..Group::default() }
            };
            let mut groups = [group(0), group(1)];
            let order = SortOrder { column: "busy", is_reversed };
            sort(&mut groups, &view, order);
            assert_eq!(groups[0].members[0].node_index, 1, "{is_reversed}");
        }
    }

    #[test]
    fn what_a_closed_node_was_busy_with_is_unknown() {
        let view = fleet_view(&[("a", Some(90.0), 50.0), ("b", Some(0.0), 50.0)]);
        let view = changed(view, |node| {
            sample(node, None);
            if node.name.as_str() == "a" {
                let fault = Fault::new(FaultKind::NoJob, "");
                node.link = Link::Down { fault, retry_at: None };
                let (devices, allocated) = (Some(1), Some(1));
                let scheduler = SchedulerNode { devices, allocated, ..SchedulerNode::default() };
                node.scheduler = Some(Arc::new(scheduler));
            }
        });
        for is_reversed in [false, true] {
            assert_eq!(sorted(&view, "busy", is_reversed), "ba", "{is_reversed}");
        }
        // That none of its devices is free is known.
        assert_eq!(sorted(&view, "free", false), "ba");
        assert_eq!(sorted(&view, "free", true), "ab");
    }

    #[test]
    fn a_source_that_starts_is_no_problem() {
        let view = fleet_view(&[("a", Some(90.0), 50.0)]);
        let severity_of = |kind| {
            let view = changed(view.clone(), |node| sample(node, Some(kind)));
            severity(&view, &view.fleet.nodes[0])
        };
        assert_eq!(severity_of(SourceFaultKind::Starting), None);
        assert!(severity_of(SourceFaultKind::Stuck) > Some(0));
        // One that is not ready yet comes behind the sick ones.
        let opening = changed(view, |node| node.link = Link::Opening { attempt: 1 });
        assert_eq!(severity(&opening, &opening.fleet.nodes[0]), Some(0));
    }

    #[test]
    fn nodes_are_sorted_by_the_lowest_number_of_their_jobs() {
        let view = fleet_view(&[("b", None, 20.0), ("a", None, 20.0)]);
        let view = changed(view, |node| {
            let jobs: &[(u32, &str)] =
                if node.name.as_str() == "a" { &[(1, "10"), (2, "9")] } else { &[(1, "10")] };
            let device = Arc::clone(&node.devices[0].uuid);
            let used = |(pid, _): &(u32, &str)| DeviceUse {
                device: Arc::clone(&device),
                pid: *pid,
                memory: Reading::Known(Bytes(1 << 30)),
                ..DeviceUse::default()
            };
            let process = |(pid, job): &(u32, &str)| Process {
                key: ProcessKey { pid: *pid, start_ticks: 1 },
                statics: Arc::new(ProcessStatics {
                    user: Reading::Known("alice".into()),
                    job: JobId::new(job),
                    ..ProcessStatics::default()
                }),
                ..Process::default()
            };
            node.uses = jobs.iter().map(used).collect();
            node.processes = jobs.iter().map(process).collect();
        });
        assert_eq!(sorted(&view, "job", false), "ab");
        assert_eq!(sorted(&view, "job", true), "ba");
    }

    #[test]
    fn nodes_are_sorted_by_a_metric_of_one_entry() {
        let view = fleet_view(&[("a", None, 20.0), ("b", None, 90.0)]);
        let view = changed(view, |node| {
            let device = &mut node.devices[0];
            device.memory_temperature = device.temperature;
        });
        made_up::with(|| {
            assert!(sort_columns().iter().any(|column| column.name == "wobble"));
            assert_eq!(sorted(&view, "wobble", false), "ba");
            assert_eq!(sorted(&view, "wobble", true), "ab");
        });
    }

    #[test]
    fn numeric_text_sorts_by_value() {
        let number = |number, text: &str| NodeSortKey::Text(number, text.into());
        assert!(number(9, "9") < number(11, "11"));
    }

    #[test]
    fn every_sort_key_is_unique_and_not_used_by_the_menu() {
        let mut symbols: Vec<char> = sort_columns().iter().map(|column| column.key).collect();
        symbols.sort_unstable();
        assert!(symbols.windows(2).all(|two| two[0] != two[1]));
        assert!(!symbols.iter().any(|letter| "jkq".contains(*letter)));
    }
}
