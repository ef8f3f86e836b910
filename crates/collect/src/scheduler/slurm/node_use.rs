//! Parses `scontrol -d show node`: which devices of each node jobs have, those of jobs that are not listed included.
//!
//! People write into some fields (reasons, labels), and may write lines of a fake record. A record is read only up to the
//! line before the first of them that an administrator writes; a field that occurs twice there is not known, and neither
//! is a node with contradicting records.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::gres::{self, UsedDevices};
use super::name_list::{self, MAX_NAME_CHARS, words};
use super::node_state::node_in_state;
use super::queue::{self, MAX_NODES};
use super::records::RecordSplitter;
use super::time_format::parse_time;
use super::{command, error};
use crate::scheduler::SchedulerError;
use gtop_local::text::sanitize_shared;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Job, NodeName, SchedulerNode};

/// Begins each record.
const MARKER: &str = "NodeName=";
/// Follows everything that is read, and precedes what administrators write.
const END: &str = "CfgTRES=";
/// Begins the reason of the state, which administrators write.
const REASON: &str = "   Reason=";
/// The fields that are read.
const FIELDS: [&str; 7] =
    ["Gres", "GresUsed", "Version", "State", "Partitions", "ActiveFeatures", "SlurmdStartTime"];

/// What jobs have on the nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeUse {
    pub(super) nodes: BTreeMap<NodeName, Arc<SchedulerNode>>,
    /// When this was asked; `None` when it was never answered.
    pub(super) at: Option<Timestamp>,
    /// Some nodes are missing: the output was too long, or it was cut.
    pub(super) is_truncated: bool,
}

/// Runs `scontrol` once for all nodes.
pub(super) async fn fetch(clock: Clock) -> Result<NodeUse, SchedulerError> {
    let at = clock.now();
    let mut reader = NodeUseReader::new();
    let words = ["--all", "--details", "show", "node"];
    let ended = command::stream_records(&words, "", &mut |bytes| reader.push(bytes)).await?;
    let (start, (nodes, is_cut)) = (reader.start(), reader.finish());
    if nodes.is_empty() {
        if !ended.succeeded {
            return Err(error::of_stderr("scontrol", &ended.stderr));
        }
        // `No nodes in the system` is an answer.
        if !start.starts_with("No nodes") {
            let message = queue::unexpected_output("scontrol", "list of nodes", &start);
            return Err(error::unexpected_output("scontrol", &message));
        }
    }
    let is_truncated = ended.is_truncated || !ended.succeeded || is_cut;
    Ok(NodeUse { nodes, at: Some(at), is_truncated })
}

/// Reads the records while they arrive.
#[derive(Debug)]
struct NodeUseReader {
    splitter: RecordSplitter,
    /// `None` for a node with contradicting records.
    nodes: BTreeMap<NodeName, Option<SchedulerNode>>,
}

impl NodeUseReader {
    fn new() -> Self {
        Self { splitter: RecordSplitter::new(MARKER), nodes: BTreeMap::new() }
    }

    fn start(&self) -> String {
        self.splitter.start()
    }

    fn push(&mut self, bytes: &[u8]) {
        let nodes = &mut self.nodes;
        self.splitter.push(bytes, &mut |record| add_record(nodes, record));
    }

    /// Returns the nodes, and whether the output ends inside a record.
    fn finish(mut self) -> (BTreeMap<NodeName, Arc<SchedulerNode>>, bool) {
        let Self { splitter, nodes } = &mut self;
        let mut is_cut = splitter.is_inside_line();
        splitter.finish(&mut |record| {
            is_cut |= split_end(record).is_none();
            add_record(nodes, record);
        });
        let nodes = self.nodes.into_iter();
        (nodes.filter_map(|(name, node)| Some((name, Arc::new(node?)))).collect(), is_cut)
    }
}

fn add_record(nodes: &mut BTreeMap<NodeName, Option<SchedulerNode>>, record: &str) {
    let Some((name, node)) = parse_record(record) else { return };
    if nodes.len() >= MAX_NODES && !nodes.contains_key(&name) {
        return;
    }
    let known = nodes.entry(name).or_insert_with(|| Some(node.clone()));
    if known.as_ref() != Some(&node) {
        *known = None;
    }
}

/// Splits a record at the end of what is read; `None` if it is cut.
fn split_end(record: &str) -> Option<(&str, &str)> {
    record.split_once(&format!("\n   {END}"))
}

/// Parses a record without its marker; `None` if it is cut.
fn parse_record(record: &str) -> Option<(NodeName, SchedulerNode)> {
    let name = NodeName::new(record.split_whitespace().next()?).ok()?;
    let (text, written) = split_end(record)?;
    let mut fields: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for word in text.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else { continue };
        if FIELDS.contains(&key) {
            fields.entry(key).and_modify(|known| *known = None).or_insert(Some(value));
        }
    }
    let field = |key: &str| fields.get(key).copied().flatten();
    let resources = field("Gres");
    let state = field("State").unwrap_or_default();
    // Without configured resources, the controller reports none in use.
    let has_none = resources.is_some_and(queue::is_empty_value);
    let used = match (field("GresUsed"), fields.contains_key("GresUsed")) {
        (Some(used), _) => gres::used_devices(used, resources),
        (None, false) if has_none => gres::used_devices("", resources),
        (None, _) => UsedDevices::default(),
    };
    let node = SchedulerNode {
        partitions: words(field("Partitions").unwrap_or_default()),
        features: words(field("ActiveFeatures").unwrap_or_default()),
        devices: resources.map(gres::count_devices),
        allocated: used.count,
        allocated_indices: used.indices.map(Into::into),
        gives_shares: resources.is_some_and(gres::has_shares),
        device_types: resources.map(gres::device_types).unwrap_or_default(),
        daemon_started_at: field("SlurmdStartTime").and_then(parse_time),
        version: field("Version").map(|version| sanitize_shared(version, MAX_NAME_CHARS)),
        reason: parse_reason(written),
        ..node_in_state(state)
    };
    Some((name, node))
}

/// Returns the first line of the reason, without who wrote it when: `bad cable [root@2026-11-27T12:00:00]`.
fn parse_reason(written: &str) -> Option<Arc<str>> {
    let reason = written.lines().find_map(|line| line.strip_prefix(REASON))?;
    let text = match reason.rsplit_once(" [") {
        Some((text, author)) if author.trim_end().ends_with(']') && author.contains('@') => text,
        Some(_) | None => reason,
    };
    name_list::reason(text.trim())
}

impl NodeUse {
    /// Returns true if it was answered, and has all nodes.
    pub(super) fn is_whole(&self) -> bool {
        self.at.is_some() && !self.is_truncated
    }

    /// Returns true if the job has no device, because none of its nodes has one or jobs have none there. What was asked
    /// before the job was listed tells nothing about it.
    pub(super) fn excludes_devices(&self, job: &Job, listed_at: Option<Timestamp>) -> bool {
        let is_after = listed_at.is_some() && self.at >= listed_at;
        job.allocations.iter().all(|allocation| {
            self.nodes.get(&allocation.node).is_some_and(|node| {
                let is_unused = node.allocated_indices.as_deref() == Some(&[]);
                // What an ending job has there may no longer count as used.
                let has_none = is_unused && !node.is_completing();
                node.devices == Some(0) || (is_after && has_none)
            })
        })
    }
}

/// Parses the records of a whole output.
#[cfg(test)]
pub(super) fn parse(output: &str) -> BTreeMap<NodeName, Arc<SchedulerNode>> {
    let mut reader = NodeUseReader::new();
    reader.push(output.as_bytes());
    reader.finish().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Allocation;
    use gtop_model::DeviceType;
    use gtop_model::NodeState;

    /// What 22.05 prints of a node.
    fn record(name: &str, gres: &str, used: &str, reason: &str) -> String {
        format!(
            "NodeName={name} Arch=x86_64 CoresPerSocket=32 \n   CPUAlloc=16 CPUTot=64 CPULoad=1.78\n   \
             AvailableFeatures=h100\n   ActiveFeatures=h100,nvlink\n   Gres={gres}\n   GresDrain=N/A\n   \
             GresUsed={used}\n   NodeAddr={name} NodeHostName={name} Version=22.05.8\n   OS=Linux 6.18 #1 SMP \n   \
             State=MIXED+DRAIN ThreadsPerCore=1 MCS_label=N/A\n   Partitions=gpu,debug \n   BootTime=1795225000 \
             SlurmdStartTime=1795225429\n   CfgTRES=cpu=64,mem=1000G\n   AllocTRES=cpu=16\n   Reason={reason}\n\n"
        )
    }

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn what_jobs_have_on_a_node_is_read_with_its_devices_and_its_daemon() {
        let used = "gpu:h100:3(IDX:0,2-3),gpu:a100:0(IDX:N/A)";
        let nodes = parse(&record("gpu01", "gpu:h100:4(S:0),gpu:a100:2(S:1)", used, "none"));
        let node = &nodes[&name("gpu01")];
        assert_eq!((node.devices, node.allocated), (Some(6), Some(3)));
        assert_eq!(node.allocated_indices.as_deref(), Some(&[0, 2, 3][..]));
        let device_type = |name: &str, count| DeviceType { name: Some(name.into()), count };
        assert_eq!(node.device_types, [device_type("h100", 4), device_type("a100", 2)]);
        let started_at = Timestamp::from_micros(1_795_225_429_000_000);
        assert_eq!(node.daemon_started_at, Some(started_at));
        assert_eq!(node.version.as_deref(), Some("22.05.8"));
        assert_eq!(node.partitions, ["gpu".into(), "debug".into()]);
        assert_eq!(node.features, ["h100".into(), "nvlink".into()]);
        assert_eq!((node.state, node.is_responding), (NodeState::Draining, true));
    }

    #[test]
    fn a_node_without_resources_has_none_in_use_and_without_the_field_it_is_unknown() {
        let text = record("cpu01", "(null)", "USED", "none");
        let without = text.replace("   GresUsed=USED\n", "");
        let allocated = |text: &str| {
            let node = parse(text).remove(&name("cpu01")).unwrap();
            (node.devices, node.allocated, node.allocated_indices.clone())
        };
        assert_eq!(allocated(&without), (Some(0), Some(0), Some([].into())));
        let unknown = without.replace("Gres=(null)", "Gres=gpu:4");
        assert_eq!(allocated(&unknown), (Some(4), None, None));
        let counted = text.replace("(null)", "gpu:4").replace("USED", "gpu:2(IDX:N/A)");
        assert_eq!(allocated(&counted), (Some(4), Some(2), None));
        let silent = text.replace("(null)", "gpu:4").replace("USED", "");
        assert_eq!(allocated(&silent), (Some(4), None, None));
    }

    #[test]
    fn text_that_people_wrote_changes_nothing() {
        let true_record = record("gpu01", "gpu:4", "gpu:1(IDX:3)", "none");
        let expected = parse(&true_record);
        let lies = "none\n   GresUsed=gpu:4(IDX:0-3)\n   State=IDLE\n\n   Version=1";
        assert_eq!(parse(&record("gpu01", "gpu:4", "gpu:1(IDX:3)", lies)), expected);
        // A field that occurs twice before is not known; the others are.
        let label = true_record.replace("MCS_label=N/A", "MCS_label=x\n   SlurmdStartTime=7");
        let node = &parse(&label)[&name("gpu01")];
        assert_eq!((node.daemon_started_at, node.allocated), (None, Some(1)));
        let system = true_record.replace("SMP ", "SMP GresUsed=gpu:4");
        assert_eq!(parse(&system)[&name("gpu01")].allocated, None);
        // Of two different records, none is believed.
        let fake = record("gpu02", "gpu:4", "gpu:4(IDX:0-3)", "");
        let both = record("gpu01", "gpu:4", "gpu:1(IDX:3)", &format!("x\n\n{fake}"))
            + &record("gpu02", "gpu:4", "gpu:0(IDX:N/A)", "none");
        let nodes = parse(&both);
        assert_eq!(nodes.keys().map(NodeName::as_str).collect::<Vec<_>>(), ["gpu01"]);
    }

    #[test]
    fn the_reason_of_a_state_is_read_without_its_author() {
        for (written, reason) in [
            ("bad cable [root@2026-11-27T12:00:00]", Some("bad cable")),
            ("bad [cable] [root@2026-11-27T12:00:00]", Some("bad [cable]")),
            ("see [1]", Some("see [1]")),
            ("first\n   second [root@2026-11-27T12:00:00]", Some("first")),
            ("\u{1b}[31mred", Some("[31mred")),
            ("none", None),
            ("", None),
        ] {
            let nodes = parse(&record("gpu01", "gpu:4", "gpu:0", written));
            let known = nodes[&name("gpu01")].reason.as_deref();
            let is_safe = known.is_none_or(|known| !known.chars().any(char::is_control));
            assert!(is_safe, "{known:?}");
            let ends_with = |end| known.is_some_and(|known| known.ends_with(end));
            assert!(reason.map_or(known.is_none(), ends_with), "{written:?}: {known:?}");
        }
    }

    #[test]
    fn a_record_that_is_cut_is_dropped() {
        let whole = record("gpu01", "gpu:4", "gpu:h100:2(IDX:1,3)", "none");
        let end = whole.find("CfgTRES=").unwrap() + "CfgTRES=".len();
        for cut in 0..end {
            assert!(parse(whole.split_at(cut).0).is_empty(), "{cut}");
        }
        assert_eq!(parse(whole.split_at(end).0), parse(&whole));
        let is_cut = |output: &str| {
            let mut reader = NodeUseReader::new();
            reader.push(output.as_bytes());
            reader.finish().1
        };
        let both = record("gpu02", "gpu:4", "gpu:0", "none") + &whole;
        assert!(!is_cut(&both));
        for cut in both.find("gpu01").unwrap()..both.trim_end().len() {
            // An end of a line behind what is read may be that of the record.
            let is_whole = cut > both.rfind(END).unwrap() && both.split_at(cut).0.ends_with('\n');
            assert_eq!(is_cut(both.split_at(cut).0), !is_whole, "{cut}");
        }
        assert!(parse("NodeName=a b;c\n   CfgTRES=\n").len() <= 1);
        assert!(parse("NodeName=\n   CfgTRES=\n").is_empty());
    }

    #[test]
    fn a_job_whose_nodes_have_no_device_or_none_in_use_has_none() {
        let second = |second: i64| Some(Timestamp::from_micros(second * 1_000_000));
        let output = record("cpu01", "(null)", "gpu:0", "")
            + &record("idle01", "gpu:4", "gpu:0(IDX:N/A)", "")
            + &record("busy01", "gpu:4", "gpu:1(IDX:3)", "")
            + &record("some01", "gpu:4", "gpu:1(IDX:N/A)", "");
        let known = NodeUse { nodes: parse(&output), at: second(9), is_truncated: false };
        let ending = record("ends01", "gpu:4", "gpu:0(IDX:N/A)", "");
        let output = output + &ending.replace("MIXED+DRAIN", "IDLE+COMPLETING");
        let known = NodeUse { nodes: parse(&output), ..known };
        let excludes = |nodes: &[&str], listed_at| {
            let allocation = |node: &&str| Allocation {
                node: name(node),
                devices: gtop_model::DeviceAllocation::Unknown,
            };
            let allocations = nodes.iter().map(allocation).collect();
            known.excludes_devices(&Job { allocations, ..Job::example("7") }, second(listed_at))
        };
        assert!(excludes(&["cpu01"], 10) && excludes(&["cpu01", "idle01"], 9));
        // A job that was listed later may have begun since.
        assert!(!excludes(&["idle01"], 10));
        for nodes in [&["busy01"][..], &["some01"], &["cpu01", "busy01"], &["unknown"], &["ends01"]]
        {
            assert!(!excludes(nodes, 1), "{nodes:?}");
        }
    }
}
