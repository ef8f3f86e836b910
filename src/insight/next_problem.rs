//! The nodes that need somebody, the sickest first.

use crate::fleet::Node;
use crate::insight::node_status::{NodeStatus, device_flags};
use crate::insight::{FleetView, Severity};
use crate::model::SourceFaultKind;
use crate::time::Timestamp;

/// How sick a node is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Illness {
    /// It cannot be reached.
    Down,
    /// A device is lost or faulty.
    DeviceFault,
    /// A source of values is stuck or fails.
    SourceFault,
    /// A device has uncorrected errors.
    DeviceErrors,
    /// No new values arrive.
    Stale,
    /// A device is slowed down.
    Slowed,
}

fn illness(node: &Node, now: Timestamp) -> Option<Illness> {
    let status = NodeStatus::of(node, now);
    if status == NodeStatus::Down {
        return Some(Illness::Down);
    }
    if node.devices.iter().any(|device| device.fault.is_some()) {
        return Some(Illness::DeviceFault);
    }
    let mut faults = node.sources.iter().filter_map(|state| state.fault.as_deref());
    if faults.any(|fault| fault.kind != SourceFaultKind::Starting) {
        return Some(Illness::SourceFault);
    }
    let mut flags = node.devices.iter().flat_map(device_flags).map(|(_, severity)| severity);
    match (flags.clone().min(), status) {
        (Some(Severity::Error), _) => Some(Illness::DeviceErrors),
        (_, NodeStatus::Stale(_)) => Some(Illness::Stale),
        _ => flags.any(|severity| severity == Severity::Warning).then_some(Illness::Slowed),
    }
}

/// Returns the indices in the fleet of the shown nodes with a problem, the sickest first.
///
/// Looks at every shown node, so it is asked on a key press and not in each frame.
pub(crate) fn sick_nodes(fleet_view: &FleetView) -> Vec<usize> {
    let mut sick: Vec<(Illness, usize)> = fleet_view
        .matching
        .iter()
        .filter_map(|index| {
            let node = fleet_view.fleet.nodes.get(*index)?;
            Some((illness(node, fleet_view.now)?, *index))
        })
        .collect();
    sick.sort_by_key(|(illness, _)| *illness);
    sick.into_iter().map(|(_, index)| index).collect()
}

/// Returns the position of the device to look at first: one with a fault, else with errors, else slowed down.
pub(crate) fn sick_device(node: &Node) -> Option<usize> {
    let flagged = node.whole_devices().filter_map(|(position, device)| {
        Some((device_flags(device).into_iter().map(|(_, severity)| severity).min()?, position))
    });
    let fault = node.whole_devices().find(|(_, device)| device.fault.is_some());
    let worst = || flagged.min_by_key(|(severity, _)| *severity).map(|(_, position)| position);
    fault.map(|(position, _)| position).or_else(worst)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::fleet::{Fleet, SourceState};
    use crate::model::{Device, DeviceFault, Fault, FaultKind, Link, NodeName, Reading, Source};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn node(name: &str, change: impl FnOnce(&mut Node)) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        node.devices = vec![Device::default(), Device::default()];
        change(&mut node);
        Arc::new(node)
    }

    fn names(nodes: Vec<Arc<Node>>) -> Vec<String> {
        let view = FleetView::new(Fleet::new(nodes.into()), NOW);
        let name = |index: usize| view.fleet.nodes[index].name.to_string();
        sick_nodes(&view).into_iter().map(name).collect()
    }

    #[test]
    fn the_sickest_node_comes_first_and_healthy_ones_do_not_come() {
        let fault = Fault::new(FaultKind::Refused, "");
        let nodes = vec![
            node("healthy", |_| {}),
            node("errors", |node| node.devices[1].ecc_uncorrected = Reading::Known(2)),
            node("lost", |node| node.devices[1].fault = Some(DeviceFault::Lost)),
            node("down", |node| node.link = Link::Down { fault, retry_at: None }),
            node("stale", |node| {
                node.sources[0].taken_at = Some(NOW.minus(Duration::from_secs(9)));
            }),
            node("opening", |node| node.link = Link::Opening { attempt: 1 }),
        ];
        assert_eq!(names(nodes), ["down", "lost", "errors", "stale"]);
        assert_eq!(names(Vec::new()), [""; 0]);
    }

    #[test]
    fn the_device_with_a_fault_is_looked_at_first() {
        let lost = node("a", |node| node.devices[1].fault = Some(DeviceFault::Lost));
        assert_eq!(sick_device(&lost), Some(1));
        assert_eq!(sick_device(&node("b", |_| {})), None);
    }
}
