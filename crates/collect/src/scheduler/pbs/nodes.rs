//! Parses the output of `pbsnodes -a -F json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::read_json;
use super::resources::{Resources, Text, device_count, text};
use crate::scheduler::SchedulerError;
use crate::scheduler::list_poller::ListedNodes;
use gtop_model::{NodeFlag, NodeName, NodeState, SchedulerNode};

/// Maximum number of nodes.
const MAX_NODES: usize = 65_536;

#[derive(Deserialize)]
struct NodesOutput {
    pbs_version: String,
    #[serde(default)]
    nodes: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PbsNode {
    state: Text,
    comment: Option<Text>,
    queue: Option<Text>,
    jobs: Value,
    resources_available: Resources,
    resources_assigned: Resources,
}

/// Parses the output.
pub(super) fn parse(output: &str) -> Result<ListedNodes, SchedulerError> {
    let parsed: NodesOutput = read_json("pbsnodes", output)?;
    let mut found = ListedNodes::default();
    for (name, json) in parsed.nodes.into_iter().take(MAX_NODES) {
        // One odd node hides no other.
        let Ok(json) = PbsNode::deserialize(json) else { continue };
        let host = json.resources_available.get("host").and_then(Value::as_str).unwrap_or(&name);
        let Ok(host) = NodeName::new(host) else { continue };
        let is_virtual = host.as_str() != name;
        let node = json.node(&parsed.pbs_version);
        // A host of several virtual nodes has the devices of all, and the worst of their states.
        found.nodes.entry(host.clone()).and_modify(|whole| add(whole, &node)).or_insert(node);
        if is_virtual {
            found.hosts.insert(name, host);
        }
    }
    Ok(found)
}

impl PbsNode {
    fn node(&self, version: &str) -> SchedulerNode {
        let devices = device_count(&self.resources_available);
        // A resource of which nothing is assigned is left out.
        let assigned = device_count(&self.resources_assigned).unwrap_or(0);
        let (state, flags, is_responding) =
            node_state(&self.state, self.jobs.as_array().is_some_and(|jobs| !jobs.is_empty()));
        SchedulerNode {
            partitions: self.queue.iter().map(|queue| text(queue)).collect(),
            native_state: text(&self.state),
            reason: self.comment.as_deref().map(text),
            devices,
            allocated: devices.map(|_| assigned),
            version: Some(text(version)),
            is_responding,
            ..SchedulerNode::in_state(state, &flags)
        }
    }
}

/// Adds another virtual node of a host.
fn add(whole: &mut SchedulerNode, other: &SchedulerNode) {
    for (sum, count) in
        [(&mut whole.devices, other.devices), (&mut whole.allocated, other.allocated)]
    {
        *sum = sum.map_or(count, |sum| Some(sum.saturating_add(count.unwrap_or(0))));
    }
    if whole.takes_jobs() && (!other.takes_jobs() || whole.state == NodeState::Idle) {
        whole.state = other.state;
        whole.native_state.clone_from(&other.native_state);
        whole.flags.clone_from(&other.flags);
        whole.is_responding = other.is_responding;
        whole.reason = other.reason.clone().or(whole.reason.take());
    }
}

/// Returns what the words of a state mean: what keeps jobs away counts most.
fn node_state(words: &str, has_jobs: bool) -> (NodeState, Vec<NodeFlag>, bool) {
    let states = [
        ("down", NodeState::Down),
        ("offline", if has_jobs { NodeState::Draining } else { NodeState::Drained }),
        ("maintenance", NodeState::Maintenance),
        ("sleep", NodeState::PoweredDown),
        ("provisioning", NodeState::PoweringUp),
        ("wait-provisioning", NodeState::PoweringUp),
        ("resv-exclusive", NodeState::Reserved),
        ("job-busy", NodeState::Allocated),
        ("job-exclusive", NodeState::Allocated),
        ("free", if has_jobs { NodeState::Mixed } else { NodeState::Idle }),
    ];
    let words: Vec<&str> = words.split(',').map(str::trim).collect();
    let is_responding =
        !["state-unknown", "unresolvable", "stale"].iter().any(|word| words.contains(word));
    let state = states.into_iter().find(|(word, _)| words.contains(word));
    let state = state.map_or(NodeState::Other, |(_, state)| state);
    let is_drained_too = state == NodeState::Down && words.contains(&"offline");
    (state, is_drained_too.then_some(NodeFlag::Drain).into_iter().collect(), is_responding)
}

#[cfg(test)]
mod tests {
    use super::super::jobs;
    use super::*;

    const RECORDED: &str = include_str!(
        "../../../../../tests/fixtures/pbs/openpbs-23.06.06/pbsnodes-offline-F-json.json"
    );

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn the_nodes_of_a_recorded_cluster_are_known() {
        let found = parse(RECORDED).unwrap();
        let shown = |name: &str| {
            let known = &found.nodes[&node(name)];
            (known.state_text(), known.devices, known.allocated, known.takes_jobs())
        };
        assert_eq!(shown("pbs-gpu01"), ("mixed".to_owned(), Some(4), Some(4), true));
        let offline = "draining: GPU 2 fell off the bus".to_owned();
        assert_eq!(shown("pbs-gpu02"), (offline, Some(4), Some(4), false));
        assert_eq!(&*found.nodes[&node("pbs-gpu02")].native_state, "offline");
    }

    #[test]
    fn a_word_that_keeps_jobs_away_counts_most() {
        for (words, has_jobs, state, takes_jobs) in [
            ("free", false, "idle", true),
            ("free", true, "mixed", true),
            ("job-busy", true, "allocated", true),
            ("job-exclusive,resv-exclusive", true, "reserved", false),
            ("offline", false, "drained", false),
            ("offline,job-busy", true, "draining", false),
            ("down,offline", false, "down, drain", false),
            ("state-unknown,down", false, "down", false),
            ("state-unknown", false, "state-unknown, not responding", false),
            ("provisioning", false, "powering up", false),
        ] {
            let jobs = if has_jobs { vec!["1.s".to_owned()] } else { Vec::new() };
            let json = serde_json::json!({"state": words, "jobs": jobs});
            let json = PbsNode::deserialize(json).unwrap();
            let found = json.node("23.06.06");
            assert_eq!(
                (found.state_words().join(", ").as_str(), found.takes_jobs()),
                (state, takes_jobs)
            );
        }
    }

    #[test]
    fn a_job_has_the_devices_of_its_chunks_none_or_all_of_its_own_nodes() {
        let all = r#"{"pbs_version":"1","nodes":{
            "a[0]":{"state":"free","jobs":["1.s"],"resources_available":{"host":"a","ngpus":2},"resources_assigned":{"ngpus":1}},
            "a[1]":{"state":"offline","resources_available":{"host":"a","ngpus":"2"}},
            "b":{"state":"free","resources_available":{"host":"b","ngpus":4}},
            "c":{"state":"free","resources_available":{"host":"c"}}}}"#;
        let nodes = parse(all).unwrap();
        assert_eq!(
            (nodes.nodes[&node("a")].devices, nodes.nodes[&node("a")].allocated),
            (Some(4), Some(1))
        );
        assert!(!nodes.nodes[&node("a")].takes_jobs());
        let on = |chunks: &str, place: &str| {
            let output = format!(
                r#"{{"pbs_server":"s","Jobs":{{"1.s":{{"job_state":"R","exec_vnode":"{chunks}","Resource_List":{{"place":"{place}"}}}}}}}}"#
            );
            let job = nodes.job(&jobs::parse(&output).unwrap().jobs[0]);
            job.allocations
                .iter()
                .map(|one| format!("{} {:?}", one.node, one.devices))
                .collect::<Vec<_>>()
        };
        assert_eq!(on("(a[0]:ngpus=1+a[1]:ngpus=1)+(b:ncpus=1)", "free"), ["a Count(2)", "b None"]);
        assert_eq!(on("(b:ncpus=1)", "scatter:excl"), ["b Count(4)"]);
        assert_eq!(on("(c:ncpus=1)+(d[3]:ncpus=1)", "excl"), ["c Unknown", "d Unknown"]);
    }
}
