//! Whether the names of a filter fit what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::counted::CountedSums;
use crate::report::filter::{ReportFilter, is_named, is_user};
use crate::report::holders::shown_id;
use crate::report::scope::ReportScope;
use gtop_collect::sums::JobFacts;
use gtop_fleet::Holder;
use gtop_model::{Job, NodeName, nodeset};

/// Names that an error lists.
const MAX_KNOWN: usize = 20;

/// What becomes of a name that nothing fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnmatchedName {
    /// It is an error: it can be corrected, and the recording read again.
    #[default]
    Refused,
    /// It has a note, as long as something is of the others: what was watched does not come again.
    Noted,
}

/// A name that nothing of the recording fits, or nothing that counts.
#[derive(Debug, thiserror::Error)]
pub enum NothingMatched {
    /// A name is unknown.
    #[error("{name} is not in the recording, which has {known}")]
    Unknown {
        /// It, after what it names.
        name: String,
        /// What there is.
        known: String,
    },
    /// A job has waited all the time.
    #[error("{0} is pending; it has had no devices")]
    Pending(String),
    /// What it names was on other nodes than those that count.
    #[error("{name} held nothing on {nodes}, but on {others}")]
    Elsewhere {
        /// It, after what it names.
        name: String,
        /// The nodes that count.
        nodes: String,
        /// Where it was.
        others: String,
    },
    /// Nothing matches the expression.
    #[error("nothing recorded in this time matches {filter}; there are {known}")]
    NothingMatching {
        /// All that must match.
        filter: String,
        /// What there is.
        known: String,
    },
    /// All names are known, and nothing is of all of them.
    #[error("{0} held no device in this time")]
    NothingHeld(String),
}

/// Checks that each name fits something, and that something counts. Returns a note for each name that fits nothing, if these
/// are no errors.
pub(super) fn check_filter(
    scope: &ReportScope,
    counted: &CountedSums<'_>,
    unmatched: UnmatchedName,
) -> Result<Vec<String>, NothingMatched> {
    let filter = &scope.filter;
    let check = FilterCheck::new(filter, counted);
    let problems = check.problems();
    let has_counted = if counted.is_of_holders(scope) {
        let mut devices = counted.nodes.values().flat_map(|node| &node.devices);
        devices.any(|device| device.held_time.is_held())
    } else {
        !counted.nodes.is_empty() || filter.is_empty()
    };
    if unmatched == UnmatchedName::Noted && has_counted {
        return Ok(problems.iter().map(ToString::to_string).collect());
    }
    if let Some(first) = problems.into_iter().next() {
        return Err(first);
    }
    if has_counted {
        return Ok(Vec::new());
    }
    Err(if filter.matching.is_empty() {
        NothingMatched::NothingHeld(filter.text())
    } else {
        check.nothing_matching()
    })
}

/// A filter, and what was collected.
struct FilterCheck<'a> {
    filter: &'a ReportFilter,
    counted: &'a CountedSums<'a>,
    /// Who held devices on nodes that do not count, and which.
    elsewhere: BTreeMap<&'a Holder, BTreeSet<&'a NodeName>>,
}

impl<'a> FilterCheck<'a> {
    fn new(filter: &'a ReportFilter, counted: &'a CountedSums<'a>) -> Self {
        let mut elsewhere: BTreeMap<&Holder, BTreeSet<&NodeName>> = BTreeMap::new();
        let others = counted.sums.nodes.iter();
        let others = others.filter(|(name, _)| !counted.nodes.contains_key(name));
        for (name, node) in others {
            for (holder, _) in node.sets.iter().flat_map(|set| set.iter()) {
                elsewhere.entry(holder).or_default().insert(name);
            }
        }
        Self { filter, counted, elsewhere }
    }

    /// Returns that nothing matches, and what there is that could.
    fn nothing_matching(&self) -> NothingMatched {
        let sums = self.counted.sums;
        let devices = sums.nodes.values().flat_map(|node| &node.devices);
        let models = devices.filter_map(|device| device.model.as_deref());
        let models: BTreeSet<&str> = models.collect();
        let partitions: BTreeSet<&str> =
            sums.jobs.values().map(|facts| &*facts.partition).collect();
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        let known = [
            list_text("users", self.known_users()),
            list_text("partitions", owned(partitions)),
            list_text("models", owned(models)),
        ];
        NothingMatched::NothingMatching { filter: self.filter.text(), known: known.join("; ") }
    }

    /// Returns what is wrong with each name that fits nothing.
    fn problems(&self) -> Vec<NothingMatched> {
        let Self { filter, .. } = self;
        let jobs = filter.jobs.iter().filter_map(|name| self.problem_of_job(name));
        let users = filter.users.iter().filter_map(|name| self.problem_of_user(name));
        let nodes = filter.nodes.iter().filter_map(|name| self.problem_of_node(name));
        jobs.chain(users).chain(nodes).collect()
    }

    /// Returns all who held devices, where these count.
    fn holders(&self) -> impl Iterator<Item = &Holder> + Clone {
        self.counted.holders.records.iter().map(|record| &record.holder)
    }

    /// Returns all who held devices, on whatever node.
    fn all(&self) -> impl Iterator<Item = &Holder> + Clone {
        self.holders().chain(self.elsewhere.keys().copied())
    }

    fn known_users(&self) -> Vec<String> {
        self.all().map(|holder| holder.user.text()).collect()
    }

    fn problem_of_job(&self, name: &str) -> Option<NothingMatched> {
        let sums = self.counted.sums;
        let is_job = |holder: &Holder| is_named(name, holder.job.as_ref(), shown_id(sums, holder));
        let listed = sums.jobs.iter();
        let listed = listed.filter(|(id, facts)| is_named(name, Some(id), Some(&facts.shown_id)));
        let listed: Vec<&JobFacts> = listed.map(|(_, facts)| facts).collect();
        self.problem_of_holder(format!("job {name}"), is_job, &listed, |shown| {
            if sums.pending.values().any(|job| is_pending(name, job)) {
                return NothingMatched::Pending(shown);
            }
            let known = self.all().filter_map(|holder| shown_id(sums, holder));
            unknown(shown, "jobs", known.map(str::to_owned).collect())
        })
    }

    fn problem_of_user(&self, name: &str) -> Option<NothingMatched> {
        let is_of_user = |holder: &Holder| is_user(name, &holder.user);
        let listed = self.counted.sums.jobs.values().filter(|facts| *facts.user == *name);
        let listed: Vec<&JobFacts> = listed.collect();
        self.problem_of_holder(format!("user {name}"), is_of_user, &listed, |shown| {
            unknown(shown, "users", self.known_users())
        })
    }

    /// Returns why nothing is of a name that these holders have and these listed jobs; `otherwise` tells it if it has none.
    fn problem_of_holder(
        &self,
        shown: String,
        is_named: impl Fn(&Holder) -> bool,
        listed: &[&JobFacts],
        otherwise: impl FnOnce(String) -> NothingMatched,
    ) -> Option<NothingMatched> {
        if self.holders().any(&is_named) {
            return None;
        }
        let listed_on = listed.iter().flat_map(|facts| &facts.nodes);
        if let Some(elsewhere) = self.held_elsewhere(&shown, is_named, listed_on) {
            return Some(elsewhere);
        }
        let is_listed = !listed.is_empty();
        Some(if is_listed { NothingMatched::NothingHeld(shown) } else { otherwise(shown) })
    }

    /// Returns where those who count must have held something.
    fn place_text(&self) -> String {
        let ReportFilter { nodes, matching, .. } = self.filter;
        if nodes.is_empty() {
            return format!("what matches {}", matching.text());
        }
        ReportFilter { nodes: nodes.clone(), ..ReportFilter::default() }.text()
    }

    fn problem_of_node(&self, name: &str) -> Option<NothingMatched> {
        let known_nodes = &self.counted.sums.nodes;
        let of_name = ReportFilter { nodes: vec![name.to_owned()], ..ReportFilter::default() };
        if known_nodes.keys().any(|known| of_name.has_node(known)) {
            return None;
        }
        let known = known_nodes.keys().map(|known| known.label().to_owned());
        Some(unknown(format!("node {name}"), "nodes", known.collect()))
    }

    /// Returns the nodes of a holder that held nothing on those that count: by the devices held there, or by the list of jobs.
    fn held_elsewhere(
        &self,
        shown: &str,
        is_named: impl Fn(&Holder) -> bool,
        listed_on: impl Iterator<Item = &'a NodeName>,
    ) -> Option<NothingMatched> {
        let held = self.elsewhere.iter().filter(|(holder, _)| is_named(holder));
        let held: BTreeSet<&NodeName> = held.flat_map(|(_, nodes)| nodes).copied().collect();
        let listed = listed_on.filter(|name| !self.filter.has_node(name));
        let others = if held.is_empty() { listed.collect() } else { held };
        (!others.is_empty()).then(|| NothingMatched::Elsewhere {
            name: shown.to_owned(),
            nodes: self.place_text(),
            others: nodeset::fold(others.into_iter().map(NodeName::label)),
        })
    }
}

/// Returns true if a name is that of a job that waits, or of a task of it.
fn is_pending(name: &str, job: &Job) -> bool {
    is_named(name, Some(&job.id), Some(&job.shown_id)) || job.lists_task(name) == Some(true)
}

fn unknown(name: String, kind: &str, known: Vec<String>) -> NothingMatched {
    NothingMatched::Unknown { name, known: list_text(kind, known) }
}

fn list_text(kind: &str, mut names: Vec<String>) -> String {
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.dedup();
    if names.is_empty() {
        return format!("no {kind}");
    }
    let more = match names.len().saturating_sub(MAX_KNOWN) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    names.truncate(MAX_KNOWN);
    format!("the {kind} {}{more}", names.join(", "))
}
