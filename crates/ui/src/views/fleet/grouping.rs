//! Groupings of nodes and devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::views::fleet::group::{Group, GroupMember};
use crate::widgets::list::cycled;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::model_name;
use gtop_fleet::{JobLookup, Node};
use gtop_local::text::UNKNOWN;
use gtop_model::{JobId, nodeset, table};

table! {
    /// What nodes and devices are grouped by, with the label.
    #[derive(Default)]
    pub(crate) enum Grouping {
        /// Not grouped.
        #[default]
        None = "nothing",
        /// Ranges of nodes with similar names.
        Range = "node name",
        /// The partitions of the node according to the scheduler; if it has none, those of its jobs.
        Partition = "partition",
        /// The job that has the device.
        Job = "job",
        /// The user of the device.
        User = "user",
        /// The device model.
        Model = "device model",
    }
    const ALL;
    pub(super) fn label -> &'static str;
}

/// The maximum number of ranges that similar names are split into.
const MAX_BLOCKS: u64 = 32;
/// The minimum count of numbers in a range.
const MIN_BLOCK_SIZE: u64 = 16;

/// The sort key and identity of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    /// The job number, 0 for other groupings; `u64::MAX` sorts nodes without a group last.
    rank: u64,
    text: Arc<str>,
}

impl Grouping {
    /// Returns the next or previous grouping that applies to this fleet.
    pub(super) fn cycle(self, fleet_view: &FleetView, is_forward: bool) -> Self {
        let has_list = fleet_view.fleet.jobs.is_some();
        let mut all = Self::ALL.to_vec();
        all.retain(|grouping| match grouping {
            Self::Partition => has_list,
            Self::Job => has_list || fleet_view.extents.has_jobs,
            Self::None | Self::Range | Self::User | Self::Model => true,
        });
        cycled(&all, self, is_forward)
    }

    /// Returns the groups of a fleet view in the order of their keys.
    pub(super) fn groups(self, fleet_view: &FleetView, lookup: &JobLookup) -> Vec<Group> {
        match self {
            Self::None => {
                let members = fleet_view.matching.iter().copied();
                let members = members.map(GroupMember::with_all_devices).collect();
                vec![Group { members, ..Group::default() }]
            }
            Self::Range => group_by_name(fleet_view),
            Self::Partition | Self::Job | Self::User | Self::Model => {
                self.group_by_device(fleet_view, lookup)
            }
        }
    }

    fn group_by_device(self, fleet_view: &FleetView, lookup: &JobLookup) -> Vec<Group> {
        let mut groups: BTreeMap<GroupKey, Vec<GroupMember>> = BTreeMap::new();
        for index in &fleet_view.matching {
            let Some(node) = fleet_view.fleet.nodes.get(*index) else { continue };
            let is_known =
                !node.is_unseen() || self != Self::Model && fleet_view.fleet.jobs.is_some();
            for (key, devices) in self.groups_of_node(node, lookup) {
                let key = if key.rank == u64::MAX && !is_known { GroupKey::unknown() } else { key };
                let is_whole = devices.len() == node.units().count();
                let devices = (!is_whole).then(|| devices.into());
                groups.entry(key).or_default().push(GroupMember { node_index: *index, devices });
            }
        }
        let groups = groups.into_iter().map(|(key, members)| {
            let (title, description) = self.title(&key, lookup);
            let is_partition = self == Self::Partition && key.rank == 0;
            let pending = is_partition.then(|| lookup.pending_in(&key.text)).flatten();
            Group { key: key.text, title, description, members, pending, ..Group::default() }
        });
        let mut groups: Vec<Group> = groups.collect();
        let titles: Arc<[String]> = groups.iter().map(|group| group.title.clone()).collect();
        for group in &mut groups {
            group.titles = Arc::clone(&titles);
        }
        groups
    }

    /// Returns the groups of a node, each with its devices there.
    fn groups_of_node(self, node: &Node, lookup: &JobLookup) -> BTreeMap<GroupKey, Vec<usize>> {
        let mut parts: BTreeMap<GroupKey, Vec<usize>> = BTreeMap::new();
        if self == Self::Model {
            for (index, _) in node.units() {
                let Some(device) = node.devices.get(index) else { continue };
                parts.entry(GroupKey::named(model_name(device))).or_default().push(index);
            }
        } else if self == Self::Partition
            && let Some(known) =
                node.scheduler.as_ref().filter(|known| !known.partitions.is_empty())
        {
            let devices: Vec<usize> = node.units().map(|(index, _)| index).collect();
            for name in &known.partitions {
                parts.insert(GroupKey::named(Arc::clone(name)), devices.clone());
            }
        } else {
            for (index, _) in node.units() {
                let holdings = node.device_holdings(index);
                for key in self.group_keys(holdings.jobs(), holdings.users(), lookup) {
                    parts.entry(key).or_default().push(index);
                }
            }
            // A job whose devices are unknown is still on the node.
            let jobs = node.holdings.jobs().iter().map(|known| &known.job);
            for key in self.group_keys(jobs, node.holdings.users(), lookup) {
                if key.rank < u64::MAX || parts.is_empty() {
                    parts.entry(key).or_default();
                }
            }
        }
        if parts.is_empty() {
            parts.insert(GroupKey::ungrouped(), Vec::new());
        }
        parts
    }

    /// Returns the group keys of these jobs or users; a single one if there are none.
    fn group_keys<'a>(
        self,
        jobs: impl Iterator<Item = &'a JobId>,
        users: impl IntoIterator<Item = &'a Arc<str>>,
        lookup: &JobLookup,
    ) -> Vec<GroupKey> {
        let mut keys: Vec<GroupKey> = match self {
            Self::Job => jobs.map(GroupKey::of_job).collect(),
            Self::Partition => {
                let known = jobs.filter_map(|id| lookup.job(id));
                known.map(|job| GroupKey::named(Arc::clone(&job.partition))).collect()
            }
            Self::User => users.into_iter().cloned().map(GroupKey::named).collect(),
            Self::None | Self::Range | Self::Model => Vec::new(),
        };
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() { vec![GroupKey::ungrouped()] } else { keys }
    }

    fn title(self, key: &GroupKey, lookup: &JobLookup) -> (String, String) {
        if key.rank == u64::MAX {
            let title = match self {
                Self::None | Self::Range => UNKNOWN,
                _ if *key == GroupKey::unknown() => "devices unknown",
                Self::Job => "no job",
                Self::User => "no user",
                Self::Partition => "no partition",
                Self::Model => "no devices",
            };
            return (title.to_owned(), String::new());
        }
        let job = JobId::new(&key.text).filter(|_| self == Self::Job);
        let Some(job) = job else { return (key.text.to_string(), String::new()) };
        let known = lookup.job(&job);
        let description = known.map(|job| format!("{} · {}", job.user, job.partition));
        (lookup.name(&job), description.unwrap_or_default())
    }
}

impl GroupKey {
    fn named(text: impl Into<Arc<str>>) -> Self {
        Self { rank: 0, text: text.into() }
    }
    fn ungrouped() -> Self {
        Self { rank: u64::MAX, text: "".into() }
    }

    /// Of nodes whose devices are not known.
    fn unknown() -> Self {
        Self { rank: u64::MAX, text: "unknown".into() }
    }

    fn of_job(id: &JobId) -> Self {
        let number = id.as_str().parse::<u64>().unwrap_or(u64::MAX - 1);
        Self { rank: number.min(u64::MAX - 1), text: id.as_str().into() }
    }
}

/// Groups nodes whose names differ in their last number only.
fn group_by_name(fleet_view: &FleetView) -> Vec<Group> {
    let nodes = &fleet_view.fleet.nodes;
    let mut patterns: Vec<NameRange<'_>> = Vec::new();
    let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for index in fleet_view.matching.iter().copied() {
        let Some(name) = nodes.get(index).map(|node| node.name.label()) else { continue };
        let (prefix, number, suffix) = split_name(name);
        let at = *known.entry((prefix, suffix)).or_insert_with(|| {
            patterns.push(NameRange { prefix, suffix, nodes: Vec::new() });
            patterns.len() - 1
        });
        if let Some(pattern) = patterns.get_mut(at) {
            pattern.nodes.push((number, index, name));
        }
    }
    patterns.iter().flat_map(NameRange::groups).collect()
}

/// The nodes whose names share the text before and after their last number.
struct NameRange<'a> {
    prefix: &'a str,
    suffix: &'a str,
    nodes: Vec<(u64, usize, &'a str)>,
}

impl NameRange<'_> {
    fn groups(&self) -> Vec<Group> {
        let numbers = self.nodes.iter().map(|(number, _, _)| *number);
        let first = numbers.clone().min().unwrap_or(0).min(1);
        let last = numbers.max().unwrap_or(0);
        let mut size = MIN_BLOCK_SIZE;
        while (last - first) / size >= MAX_BLOCKS && size < u64::MAX / 2 {
            size *= 2;
        }
        let mut blocks: BTreeMap<u64, (Vec<GroupMember>, Vec<&str>)> = BTreeMap::new();
        for (number, index, name) in &self.nodes {
            let block = blocks.entry((number - first) / size).or_default();
            block.0.push(GroupMember::with_all_devices(*index));
            block.1.push(name);
        }
        let groups = blocks.into_iter().map(|(block, (members, names))| Group {
            key: format!("{} {block} {}", self.prefix, self.suffix).into(),
            title: nodeset::fold(names),
            members,
            ..Group::default()
        });
        groups.collect()
    }
}

/// Splits a name around its last number; 0 if there is none.
fn split_name(name: &str) -> (&str, u64, &str) {
    let head = name.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let prefix = head.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let suffix = name.get(head.len()..).unwrap_or_default();
    let digits = head.get(prefix.len()..).unwrap_or_default();
    match digits.parse() {
        Ok(number) => (prefix, number, suffix),
        Err(_) => (name, 0, ""),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::{Fleet, SourceState};
    use gtop_local::time::Timestamp;
    use gtop_model::{Device, NodeName, Reading, Source};

    fn fleet_view(names: impl IntoIterator<Item = String>) -> FleetView {
        let node =
            |name: String| Arc::new(Node::new(NodeName::new(&name).unwrap(), Duration::ZERO));
        let nodes: Vec<_> = names.into_iter().map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn titles(grouping: Grouping, fleet_view: &FleetView) -> Vec<String> {
        let groups = grouping.groups(fleet_view, &JobLookup::default());
        groups.iter().map(|group| format!("{} {}", group.title, group.members.len())).collect()
    }

    #[test]
    fn similar_names_are_grouped_in_ranges() {
        let names = (1..=40).map(|number| format!("gpu{number:02}")).chain(["login".to_owned()]);
        assert_eq!(
            titles(Grouping::Range, &fleet_view(names)),
            ["gpu[01-16] 16", "gpu[17-32] 16", "gpu[33-40] 8", "login 1"]
        );
        let many =
            titles(Grouping::Range, &fleet_view((0..5_000).map(|number| format!("n{number}"))));
        assert_eq!((many.len(), many[0].as_str()), (20, "n[0-255] 256"));
    }

    #[test]
    fn a_name_is_split_around_its_last_number() {
        for (name, parts) in [
            ("gpu01", ("gpu", 1, "")),
            ("r1n07-ib", ("r1n", 7, "-ib")),
            ("login", ("login", 0, "")),
            ("12", ("", 12, "")),
            ("é7", ("é", 7, "")),
            ("x99999999999999999999999", ("x99999999999999999999999", 0, "")),
            ("", ("", 0, "")),
        ] {
            assert_eq!(split_name(name), parts, "{name}");
        }
    }

    #[test]
    fn a_node_with_two_device_models_is_in_both_groups() {
        let mut mixed = Node::new(NodeName::new("a").unwrap(), Duration::ZERO);
        let device = |name: &str| Device {
            uuid: name.into(),
            name: Reading::Known(name.into()),
            ..Device::default()
        };
        mixed.devices = vec![device("A100"), device("H100"), device("H100")].into();
        let unseen = |name: &str| Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        let mut without = unseen("b");
        without.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(Timestamp::default()),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        let nodes = [mixed, without, unseen("c")].map(Arc::new).to_vec();
        let fleet_view = FleetView::new(Fleet::new(nodes.into()), Timestamp::default());
        let groups = Grouping::Model.groups(&fleet_view, &JobLookup::default());
        let found: Vec<_> = groups
            .iter()
            .map(|group| (group.title.as_str(), group.members[0].devices.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("A100", Some(&[0][..])),
                ("H100", Some(&[1, 2][..])),
                ("no devices", None),
                ("devices unknown", None),
            ]
        );
    }

    #[test]
    fn cycling_skips_groupings_that_do_not_apply() {
        let fleet_view = FleetView::default();
        assert_eq!(Grouping::Range.cycle(&fleet_view, true), Grouping::User);
        assert_eq!(Grouping::None.cycle(&fleet_view, false), Grouping::Model);
    }
}
