//! The arguments of `sinfo`, and the parser of its output: the nodes of a cluster with their partitions.
//!
//! An administrator's reason may contain anything, so records are separated as those of `squeue` are, and the reason is
//! their last field. Which devices are in use has no place in that format: see `node_use`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PROFILE;
use super::gres;
use super::name_list::{self, MAX_NAME_CHARS, MAX_WORDS, words};
use super::node_state::node_in_state;
use super::node_use::NodeUse;
use super::queue::{self, FIELD_SEPARATOR, MAX_NODES, is_empty_value};
use super::{command, error};
use crate::scheduler::SchedulerError;
use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;
use gtop_model::{NodeName, SchedulerNode, SchedulerNodes};

/// Node, partition, state, features, devices, and why it takes no jobs.
const FIELDS: [&str; 6] = ["%N", "%R", "%T", "%f", "%G", "%E"];
/// The header of the first field.
const FIRST_HEADER: &str = "NODELIST";
/// Maximum number of partitions without a listed node.
const MAX_PARTITIONS: usize = 1024;
/// Maximum number of partitions named in a note.
const MAX_SUGGESTIONS: usize = 5;

/// The nodes of a cluster and their partitions, as `sinfo` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeList {
    pub(super) nodes: BTreeMap<NodeName, Arc<SchedulerNode>>,
    pub(super) partitions: BTreeSet<Arc<str>>,
    /// Partitions of which no node is listed; only asked for if partitions are named.
    pub(super) empty_partitions: BTreeSet<Arc<str>>,
    /// When `sinfo` answered; `None` when it never has.
    pub(super) at: Option<Timestamp>,
    /// The output was longer than gtop reads, so nodes are missing.
    pub(super) is_truncated: bool,
}

/// Which answers are so old that they may no longer be true.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OldAnswers {
    /// The list of nodes.
    pub(super) list: bool,
    /// What jobs have on nodes.
    pub(super) node_use: bool,
}

/// The options of a query by `sinfo`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeQuestion {
    /// Also nodes of hidden partitions.
    pub(super) with_hidden: bool,
}

/// Runs `sinfo`.
pub(super) async fn fetch(
    question: NodeQuestion,
    now: Timestamp,
) -> Result<NodeList, SchedulerError> {
    let boundary = command::random_boundary();
    let format = queue::format_option(&FIELDS, &boundary);
    let mut words = vec!["--Node", &format];
    words.extend(question.with_hidden.then_some("--all"));
    let answer = command::run_command("sinfo", &words, "").await?;
    if !answer.succeeded {
        return Err(error::of_stderr("sinfo", &answer.stderr));
    }
    let mut list = parse(&answer.stdout, &boundary, now, answer.is_truncated)
        .map_err(|message| error::unexpected_output("sinfo", &message))?;
    list.is_truncated = answer.is_truncated;
    if question.with_hidden {
        // Without this answer, a partition without a listed node is taken for one that does not exist.
        let words = ["--all", "--noheader", "--format=%R"];
        let answer = command::run_command("sinfo", &words, "").await.ok();
        if let Some(answer) = answer.filter(|answer| answer.succeeded) {
            add_empty_partitions(&mut list, &answer.stdout);
        }
    }
    Ok(list)
}

/// Parses the output; an error if it is something else, or ends inside a record although gtop has not cut it.
fn parse(output: &str, boundary: &str, now: Timestamp, is_cut: bool) -> Result<NodeList, String> {
    let separator = format!("\u{1e}{boundary}");
    let mut nodes: BTreeMap<NodeName, SchedulerNode> = BTreeMap::new();
    let mut partitions: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut has_header = false;
    // Records and the text between them alternate.
    for record in output.split(separator.as_str()).skip(1).step_by(2) {
        let Some(fields) = split_record(record) else { continue };
        if fields.first() == Some(&FIRST_HEADER) {
            has_header = true;
            continue;
        }
        let Some((name, node)) = parse_node(&fields) else { continue };
        partitions.extend(node.partitions.iter().cloned());
        if nodes.len() >= MAX_NODES && !nodes.contains_key(&name) {
            break;
        }
        let known = nodes
            .entry(name)
            .or_insert_with(|| SchedulerNode { partitions: Vec::new(), ..node.clone() });
        for partition in node.partitions {
            if known.partitions.len() < MAX_WORDS && !known.partitions.contains(&partition) {
                known.partitions.push(partition);
            }
        }
    }
    let is_whole = output.matches(separator.as_str()).count().is_multiple_of(2);
    if has_header && !is_whole && !is_cut {
        return Err("the output of sinfo ends in the middle of a node".to_owned());
    }
    if !has_header && nodes.is_empty() {
        return Err(queue::unexpected_output("sinfo", "list of nodes", output));
    }
    let nodes = nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect();
    Ok(NodeList { nodes, partitions, at: Some(now), ..NodeList::default() })
}

fn split_record(record: &str) -> Option<Vec<&str>> {
    let fields = record.strip_prefix(FIELD_SEPARATOR)?.splitn(FIELDS.len(), FIELD_SEPARATOR);
    let fields: Vec<&str> = fields.map(str::trim).collect();
    (fields.len() == FIELDS.len()).then_some(fields)
}

fn parse_node(fields: &[&str]) -> Option<(NodeName, SchedulerNode)> {
    let [name, partition, state, features, resources, reason] = *fields else { return None };
    let name = NodeName::new(name).ok()?;
    let node = SchedulerNode {
        partitions: words(partition),
        reason: name_list::reason(reason),
        features: words(features),
        devices: Some(gres::count_devices(resources)),
        ..node_in_state(state)
    };
    Some((name, node))
}

/// Adds the partitions of which no node is listed, from lines with one name each.
fn add_empty_partitions(list: &mut NodeList, output: &str) {
    let names = output.lines().map(str::trim).filter(|name| {
        !is_empty_value(name)
            && !name.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    });
    let empty = names
        .map(|name| sanitize_shared(name, MAX_NAME_CHARS))
        .filter(|name| !list.partitions.contains(name));
    list.empty_partitions = empty.take(MAX_PARTITIONS).collect();
}

/// Returns a listed node with what jobs have on it, in the state of the newer answer.
fn with_use(listed: &SchedulerNode, used: &SchedulerNode, is_use_newer: bool) -> SchedulerNode {
    let newer = if is_use_newer { used } else { listed };
    SchedulerNode {
        state: newer.state,
        flags: newer.flags.clone(),
        is_responding: newer.is_responding,
        reason: newer.reason.clone(),
        devices: used.devices.or(listed.devices),
        allocated: used.allocated,
        allocated_indices: used.allocated_indices.clone(),
        gives_shares: used.gives_shares,
        device_types: used.device_types.clone(),
        daemon_started_at: used.daemon_started_at,
        version: used.version.clone(),
        ..listed.clone()
    }
}

/// Returns the nodes that are in these partitions, or all if none are named.
pub(super) fn names_in<'a>(
    nodes: &'a BTreeMap<NodeName, Arc<SchedulerNode>>,
    partitions: &'a [String],
) -> impl Iterator<Item = &'a NodeName> {
    let nodes = nodes.iter().filter(|(_, node)| {
        let mut names = node.partitions.iter();
        partitions.is_empty() || names.any(|name| partitions.iter().any(|one| **one == **name))
    });
    nodes.map(|(name, _)| name)
}

impl NodeList {
    /// Returns what it and `node_use` say of some nodes: their states are those of the newer answer. Nodes that are not in
    /// `expected` are marked as extra.
    pub(super) fn of<'a>(
        &self,
        node_use: &NodeUse,
        names: impl Iterator<Item = &'a NodeName>,
        expected: &BTreeSet<&NodeName>,
        old: OldAnswers,
    ) -> SchedulerNodes {
        let is_use_newer = node_use.at > self.at;
        let mut state_at: Option<Timestamp> = None;
        let mut nodes = BTreeMap::new();
        for name in names {
            let (node, is_old, is_of_use) = match (self.nodes.get(name), node_use.nodes.get(name)) {
                (Some(listed), Some(used)) => {
                    let both = with_use(listed, used, is_use_newer);
                    (Arc::new(both), old.list && old.node_use, is_use_newer)
                }
                (Some(listed), None) => (Arc::clone(listed), old.list, false),
                (None, Some(used)) => (Arc::clone(used), old.node_use, true),
                (None, None) => continue,
            };
            let at = if is_of_use { node_use.at } else { self.at };
            state_at = state_at.into_iter().chain(at).min();
            let is_extra = !expected.contains(name);
            let is_count_old = old.node_use && node_use.nodes.contains_key(name);
            let node = if is_extra || is_old || is_count_old {
                let node = SchedulerNode::clone(&node);
                Arc::new(SchedulerNode { is_extra, is_old, is_count_old, ..node })
            } else {
                node
            };
            nodes.insert(name.clone(), node);
        }
        SchedulerNodes {
            nodes,
            at: state_at.or(self.at).or(node_use.at),
            allocated_at: node_use.at,
            awaits_allocated: false,
        }
    }

    /// Returns a note on those of these partitions of which no node is listed: there is none, or it hides nodes in the
    /// cloud that are powered down.
    pub(super) fn hidden_nodes_note(&self, names: &[String]) -> Option<String> {
        let hidden: Vec<String> = names
            .iter()
            .filter(|name| self.empty_partitions.contains(name.as_str()))
            .map(|name| sanitize_shared(name, MAX_NAME_CHARS).to_string())
            .collect();
        (!hidden.is_empty()).then(|| {
            format!(
                "{} lists no node of partition {}: there is none, or they are powered down and appear here once a job \
                 needs them",
                PROFILE.words.name,
                hidden.join(", ")
            )
        })
    }

    /// Returns a note on one of these partitions that the cluster lacks, with the most similar names.
    pub(super) fn unknown_partition(&self, names: &[String]) -> Option<String> {
        if self.partitions.is_empty() || self.is_truncated {
            return None;
        }
        let all = self.partitions.iter().chain(&self.empty_partitions);
        let mut known: Vec<&str> = all.map(|name| &**name).collect();
        let unknown = names.iter().find(|name| !known.contains(&name.as_str()))?;
        known.sort_by_key(|name| std::cmp::Reverse(similarity(name, unknown)));
        let rest = known.len().saturating_sub(MAX_SUGGESTIONS);
        known.truncate(MAX_SUGGESTIONS);
        let more = if rest > 0 { format!(" and {rest} more (sinfo)") } else { String::new() };
        let unknown = sanitize_shared(unknown, MAX_NAME_CHARS);
        Some(format!(
            "{} has no partition {unknown:?}; use one of {}{more}",
            PROFILE.words.name,
            known.join(", ")
        ))
    }
}

/// Returns how similar two names are: the length of what they begin with, more if one contains the other.
fn similarity(one: &str, other: &str) -> usize {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let contains = one.contains(&other) || other.contains(&one);
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    same + if contains { MAX_NAME_CHARS } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::NodeState;

    const MARK: &str = "0123456789abcdef";
    const NOW: Timestamp = Timestamp::from_micros(1_795_269_440_000_000);

    fn record(fields: [&str; 6]) -> String {
        format!("\u{1e}{MARK}\u{1f}{}\u{1e}{MARK}\n", fields.join("\u{1f}"))
    }

    fn header() -> String {
        record(["NODELIST", "PARTITION", "STATE", "AVAIL_FEATURES", "GRES", "REASON"])
    }

    fn node(name: &str, partition: &str, state: &str, reason: &str) -> String {
        record([name, partition, state, "a100,ib", "gpu:a100:8(S:0-1),shard:32", reason])
    }

    fn parsed(output: &str) -> NodeList {
        parse(output, MARK, NOW, false).unwrap()
    }

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn a_node_in_two_partitions_is_one_node() {
        let list = parsed(
            &(header()
                + &node("gpu01", "gpu", "mixed", "none")
                + &node("gpu01", "debug", "mixed", "none")
                + &node("gpu02", "gpu", "idle", "none")),
        );
        assert_eq!(list.nodes.len(), 2);
        let both = &list.nodes[&name("gpu01")];
        assert_eq!(both.partitions, ["gpu".into(), "debug".into()]);
        assert_eq!(both.features, ["a100".into(), "ib".into()]);
        assert_eq!((both.devices, both.allocated, list.at), (Some(8), None, Some(NOW)));
        let in_debug = ["debug".to_owned()];
        assert_eq!(names_in(&list.nodes, &in_debug).collect::<Vec<_>>(), [&name("gpu01")]);
        assert_eq!(names_in(&list.nodes, &[]).count(), 2);
        let known = |is_old| {
            let busy = name("gpu02");
            let expected = [&busy].into();
            let old = OldAnswers { list: is_old, node_use: false };
            let known = list.of(&NodeUse::default(), names_in(&list.nodes, &[]), &expected, old);
            assert_eq!(known.at, Some(NOW));
            known.nodes.into_values().map(|node| (node.is_extra, node.is_old)).collect::<Vec<_>>()
        };
        assert_eq!(known(false), [(true, false), (false, false)]);
        assert_eq!(known(true), [(true, true), (false, true)]);
    }

    /// What is known of gpu01, which `sinfo` called idle at `NOW`, if `scontrol` was asked so many seconds later.
    fn known_after(seconds: i64, old: OldAnswers) -> (SchedulerNode, SchedulerNodes) {
        let list = parsed(&(header() + &node("gpu01", "gpu", "idle", "none")));
        let drained = SchedulerNode {
            reason: Some("bad cable".into()),
            devices: Some(4),
            allocated: Some(1),
            ..node_in_state("IDLE+DRAIN")
        };
        let node_use = NodeUse {
            nodes: [(name("gpu01"), Arc::new(drained))].into(),
            at: Some(Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)),
            ..NodeUse::default()
        };
        let expected = name("gpu01");
        let nodes = list.of(&node_use, names_in(&list.nodes, &[]), &[&expected].into(), old);
        (SchedulerNode::clone(&nodes.nodes[&name("gpu01")]), nodes)
    }

    #[test]
    fn the_state_of_a_node_is_that_of_the_newer_answer() {
        for (seconds, state, reason) in
            [(20, NodeState::Drained, Some("bad cable")), (-20, NodeState::Idle, None)]
        {
            let (known, nodes) = known_after(seconds, OldAnswers::default());
            assert_eq!((known.state, known.reason.as_deref()), (state, reason), "{seconds}");
            assert_eq!(known.takes_jobs(), state == NodeState::Idle);
            // Its partitions are those that `sinfo` lists.
            assert_eq!((known.partitions, known.allocated), (vec!["gpu".into()], Some(1)));
            let later = NOW.plus(std::time::Duration::from_secs(20));
            assert_eq!(nodes.at, Some(if seconds > 0 { later } else { NOW }));
            assert_eq!(nodes.counted_at() < nodes.at, seconds < 0);
        }
    }

    #[test]
    fn a_new_list_of_nodes_does_not_make_an_old_count_new() {
        let old = |list, node_use| {
            let (known, nodes) = known_after(-20, OldAnswers { list, node_use });
            assert!(nodes.answered_at(&known) < Some(NOW));
            (known.is_old, known.is_count_old)
        };
        assert_eq!(old(false, true), (false, true));
        assert_eq!(old(true, false), (false, false));
        assert_eq!(old(true, true), (true, true));
    }

    #[test]
    fn a_reason_may_contain_anything_and_is_made_safe() {
        let reason = "bad|cable\u{1f}\n\u{1b}[31m \u{1e}wait, idle";
        let list = parsed(&(header() + &node("gpu01", "gpu", "drained*", reason)));
        let node = &list.nodes[&name("gpu01")];
        assert_eq!((node.state, node.is_responding), (NodeState::Drained, false));
        let shown = node.reason.as_deref().unwrap();
        assert!(shown.starts_with("bad|cable") && shown.ends_with("wait, idle"), "{shown:?}");
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }

    #[test]
    fn other_output_is_an_error_and_an_empty_cluster_is_not() {
        assert_eq!(parsed(&header()).nodes.len(), 0);
        for output in ["", "sinfo: command moved", "\u{1e}\u{1e}"] {
            assert!(parse(output, MARK, NOW, false).is_err(), "{output:?}");
        }
        let odd = header() + &node("a b;c", "gpu", "idle", "") + &record(["", "", "", "", "", ""]);
        assert_eq!(parsed(&odd).nodes.len(), 0);
    }

    #[test]
    fn a_list_that_ends_inside_a_node_is_an_error_unless_gtop_has_cut_it() {
        let whole = header()
            + &node("gpu01", "gpu", "idle", "none")
            + &node("gpu02", "gpu", "idle", "none");
        let second = whole.rfind("gpu02").unwrap();
        let cut = whole.split_at(second + 20).0;
        assert!(parse(cut, MARK, NOW, false).unwrap_err().contains("in the middle of a node"));
        assert_eq!(parse(cut, MARK, NOW, true).unwrap().nodes.len(), 1);
    }

    #[test]
    fn a_partition_whose_nodes_are_hidden_while_they_are_powered_down_is_named() {
        let mut list = parsed(&(header() + &node("gpu01", "gpu", "idle", "none")));
        // As `sinfo` of 22.05 prints it.
        add_empty_partitions(&mut list, "gpu\ncloud\n\nsinfo: some error\n");
        let names = ["cloud".to_owned()];
        assert_eq!(list.unknown_partition(&names), None);
        let note = list.hidden_nodes_note(&names).unwrap();
        assert!(note.contains(" lists no node of partition cloud: there is none, or"), "{note}");
        assert_eq!(list.hidden_nodes_note(&["gpu".to_owned()]), None);
        let note = list.unknown_partition(&["clod".to_owned()]).unwrap();
        assert!(note.contains("use one of cloud, gpu"), "{note}");
    }

    #[test]
    fn an_unknown_partition_is_named_with_those_most_like_it() {
        let partitions = ["cpu", "debug", "gpu", "gpu-long", "gpu-short", "interactive", "viz"];
        let lines = partitions.map(|partition| node("gpu01", partition, "idle", "none"));
        let list = parsed(&(header() + &lines.concat()));
        let unknown = |name: &str| list.unknown_partition(&[name.to_owned()]);
        assert_eq!(unknown("gpu"), None);
        let note = unknown("gpu-lng").unwrap();
        let begins = " has no partition \"gpu-lng\"; use one of gpu, gpu-long, gpu-short";
        assert!(note.contains(begins), "{note}");
        assert!(note.ends_with("and 2 more (sinfo)"), "{note}");
        // What is cut off may name it.
        let cut = NodeList { is_truncated: true, ..list.clone() };
        assert_eq!(cut.unknown_partition(&["gpu-lng".to_owned()]), None);
        assert_eq!(NodeList::default().unknown_partition(&["x".to_owned()]), None);
    }
}
