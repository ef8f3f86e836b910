//! The nodes of a scheduler, as JSON in a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::value::{from_seconds, short_text, to_seconds};
use crate::wire::objects;
use gtop_model::{
    DeviceType, NodeFlag, NodeName, NodeState, SchedulerNode, SchedulerNodes, nodeset,
};

/// Maximum number of partitions, and of features, of a node.
const MAX_WORDS: usize = 64;
/// Maximum number of devices of a node.
const MAX_INDICES: usize = 4096;

objects! {
    /// Nodes that are equal for the scheduler.
    pub(super) struct SchedulerNodesLine {
        /// A node set.
        names: String,
        partitions: Vec<Arc<str>>,
        state: String,
        flags?: Vec<String>,
        silent?: bool,
        extra?: bool,
        old?: bool,
        count_old?: bool,
        reason?: Option<Arc<str>>,
        features?: Vec<Arc<str>>,
        devices?: Option<u32>,
        allocated?: Option<u32>,
        allocated_indices?: Option<Vec<u32>>,
        shares?: bool,
        /// Each type with its number of devices.
        device_types?: Vec<(Option<Arc<str>>, u32)>,
        daemon_started_at?: Option<f64>,
        version?: Option<Arc<str>>,
    }
}

/// Returns the lines of some nodes.
pub(super) fn to_lines(nodes: &SchedulerNodes) -> Vec<SchedulerNodesLine> {
    let mut equal: Vec<(&SchedulerNode, Vec<&str>)> = Vec::new();
    for (name, node) in &nodes.nodes {
        // Nodes next to each other by name are mostly the same.
        match equal.last_mut().filter(|(known, _)| **known == **node) {
            Some((_, names)) => names.push(name.as_str()),
            None => equal.push((node, vec![name.as_str()])),
        }
    }
    let lines = equal.into_iter().map(|(node, names)| SchedulerNodesLine {
        names: nodeset::fold(names),
        partitions: node.partitions.clone(),
        state: node.state_word().to_owned(),
        flags: node.flags.iter().map(|flag| flag.as_str().to_owned()).collect(),
        silent: !node.is_responding,
        extra: node.is_extra,
        old: node.is_old,
        count_old: node.is_count_old,
        reason: node.reason.clone(),
        features: node.features.clone(),
        devices: node.devices,
        allocated: node.allocated,
        allocated_indices: node.allocated_indices.as_ref().map(|indices| indices.to_vec()),
        shares: node.gives_shares,
        device_types: node
            .device_types
            .iter()
            .map(|kind| (kind.name.clone(), kind.count))
            .collect(),
        daemon_started_at: node.daemon_started_at.map(to_seconds),
        version: node.version.clone(),
    });
    lines.collect()
}

/// Returns the nodes of some lines.
pub(super) fn to_nodes(lines: &[SchedulerNodesLine]) -> BTreeMap<NodeName, Arc<SchedulerNode>> {
    let mut nodes = BTreeMap::new();
    for line in lines {
        let state = NodeState::ALL.into_iter().find(|state| state.as_str() == line.state);
        let mut flags = NodeFlag::ALL.to_vec();
        flags.retain(|flag| line.flags.iter().any(|word| word == flag.as_str()));
        let device_types = line.device_types.iter().take(MAX_WORDS);
        let node = Arc::new(SchedulerNode {
            partitions: names(&line.partitions),
            state: state.unwrap_or_default(),
            native_state: state.map_or_else(|| short_text(&line.state), |_| Arc::default()),
            flags: flags.into_iter().collect(),
            is_responding: !line.silent,
            reason: line.reason.as_deref().map(short_text),
            features: names(&line.features),
            devices: line.devices,
            allocated: line.allocated,
            is_extra: line.extra,
            is_old: line.old,
            is_count_old: line.count_old,
            allocated_indices: line
                .allocated_indices
                .as_ref()
                .map(|list| list.iter().take(MAX_INDICES).copied().collect()),
            gives_shares: line.shares,
            device_types: device_types
                .map(|(name, count)| DeviceType {
                    name: name.as_deref().map(short_text),
                    count: *count,
                })
                .collect(),
            daemon_started_at: line.daemon_started_at.map(from_seconds),
            version: line.version.as_deref().map(short_text),
        });
        let names = nodeset::expand(&line.names).unwrap_or_default();
        let room = nodeset::MAX_NAMES.saturating_sub(nodes.len());
        let names = names.iter().filter_map(|name| NodeName::new(name).ok()).take(room);
        nodes.extend(names.map(|name| (name, Arc::clone(&node))));
    }
    nodes
}

fn names(list: &[Arc<str>]) -> Vec<Arc<str>> {
    list.iter().take(MAX_WORDS).map(|name| short_text(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::time::Timestamp;

    #[test]
    fn what_a_scheduler_says_of_nodes_is_read_as_it_was_written() {
        let node = |state, reason: Option<&str>| {
            Arc::new(SchedulerNode {
                partitions: vec!["gpu".into(), "debug".into()],
                state,
                native_state: if state == NodeState::Other {
                    "busy".into()
                } else {
                    Arc::default()
                },
                flags: reason.iter().map(|_| NodeFlag::PoweredDown).collect(),
                is_responding: reason.is_none(),
                reason: reason.map(Into::into),
                features: vec!["a100".into()],
                devices: Some(8),
                allocated: Some(3),
                allocated_indices: reason.is_none().then(|| [0, 2, 5].into()),
                gives_shares: reason.is_some(),
                device_types: vec![DeviceType { name: Some("a100".into()), count: 8 }],
                daemon_started_at: Some(Timestamp::from_micros(4_000_000)),
                version: Some("24.11.5".into()),
                is_extra: reason.is_some(),
                is_old: reason.is_some(),
                is_count_old: reason.is_some(),
            })
        };
        let named = |name: &str, node| (NodeName::new(name).unwrap(), node);
        let nodes = SchedulerNodes {
            nodes: [
                named("gpu01", node(NodeState::Mixed, None)),
                named("gpu02", node(NodeState::Mixed, None)),
                named("gpu03", node(NodeState::Drained, Some("bad cable"))),
                named("gpu04", node(NodeState::Other, None)),
            ]
            .into(),
            ..SchedulerNodes::default()
        };
        let lines = to_lines(&nodes);
        assert_eq!((lines.len(), lines[0].names.as_str()), (3, "gpu[01-02]"));
        let text = serde_json::to_string(&lines).unwrap();
        let lines: Vec<SchedulerNodesLine> = serde_json::from_str(&text).unwrap();
        assert_eq!(to_nodes(&lines), nodes.nodes);
    }

    #[test]
    fn the_number_of_nodes_is_limited_over_all_lines() {
        let line = |first: char| SchedulerNodesLine {
            names: format!("{first}[1-40000]"),
            ..SchedulerNodesLine::default()
        };
        let nodes = to_nodes(&[line('a'), line('b'), line('c')]);
        assert_eq!(nodes.len(), nodeset::MAX_NAMES);
    }

    #[test]
    fn a_damaged_line_has_no_nodes() {
        for names in ["", "gpu[", "gpu[1-99999999999]"] {
            let line = SchedulerNodesLine { names: names.to_owned(), ..Default::default() };
            assert_eq!(to_nodes(&[line]), BTreeMap::new(), "{names}");
        }
    }
}
