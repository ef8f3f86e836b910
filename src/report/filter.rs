//! Whose devices and time a report counts.

use crate::fleet::Holder;
use crate::model::NodeName;
use crate::nodeset;
use crate::report::collector::UsageCollector;

/// Names that an error lists.
const MAX_KNOWN: usize = 20;

/// Whose devices and time a report counts: of each list that is not empty, anything that one of its names fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportFilter {
    /// Ids of jobs, as the scheduler numbers or shows them; that of an array is all its tasks.
    pub jobs: Vec<String>,
    /// Names of users.
    pub users: Vec<String>,
    /// Names of nodes.
    pub nodes: Vec<String>,
}

/// A name that nothing of the recording fits, or nothing that counts.
#[derive(Debug, thiserror::Error)]
pub enum NothingMatched {
    /// A name is unknown.
    #[error("{name} is not in what was recorded; there are {known}")]
    Unknown {
        /// It, after what it names.
        name: String,
        /// What there is.
        known: String,
    },
    /// All names are known, and nothing is of all of them.
    #[error("{0} held no device in this time")]
    NothingHeld(String),
}

impl ReportFilter {
    /// Returns true if all counts.
    pub fn is_empty(&self) -> bool {
        !self.is_of_holders() && self.nodes.is_empty()
    }

    /// Returns true if only what some jobs or users held counts.
    pub fn is_of_holders(&self) -> bool {
        !self.jobs.is_empty() || !self.users.is_empty()
    }

    pub(super) fn has_node(&self, name: &NodeName) -> bool {
        let is_named = |given: &String| given == name.as_str() || given == name.label();
        self.nodes.is_empty() || self.nodes.iter().any(is_named)
    }

    /// Returns true if what a holder has counts; `shown_id` is the id of its job as users know it.
    pub(super) fn has_holder(&self, holder: &Holder, shown_id: Option<&str>) -> bool {
        let is_user = |given: &String| *given == holder.user.text();
        let is_job = |given: &String| is_named(given, holder, shown_id);
        (self.users.is_empty() || self.users.iter().any(is_user))
            && (self.jobs.is_empty() || self.jobs.iter().any(is_job))
    }

    /// Checks that each name fits something, and that something counts.
    pub(super) fn check(&self, collector: &UsageCollector) -> Result<(), NothingMatched> {
        let records = &collector.holders.records;
        let shown = |holder: &Holder| collector.shown_id(holder).map(str::to_owned);
        let unknown = |kind: &str, name: &String, known: Vec<String>| NothingMatched::Unknown {
            name: format!("{kind} {name}"),
            known: list_text(&format!("{kind}s"), known),
        };
        for name in &self.jobs {
            let is_job = |holder: &Holder| is_named(name, holder, shown(holder).as_deref());
            if !records.iter().any(|record| is_job(&record.holder)) {
                let known = records.iter().filter_map(|record| shown(&record.holder)).collect();
                return Err(unknown("job", name, known));
            }
        }
        let users = records.iter().map(|record| record.holder.user.text());
        for name in &self.users {
            if !users.clone().any(|user| user == *name) {
                return Err(unknown("user", name, users.collect()));
            }
        }
        for name in &self.nodes {
            let of_name = Self { nodes: vec![name.clone()], ..Self::default() };
            if !collector.known_nodes.iter().any(|known| of_name.has_node(known)) {
                let known = collector.known_nodes.iter().map(|known| known.label().to_owned());
                return Err(unknown("node", name, known.collect()));
            }
        }
        let is_held = records.iter().any(|record| record.span.is_some());
        if self.is_of_holders() && !is_held {
            return Err(NothingMatched::NothingHeld(self.text()));
        }
        Ok(())
    }

    /// Returns what counts, in words: `job 11 of user ada on node gpu01`.
    pub fn text(&self) -> String {
        let part = |kind: &str, names: &[String]| match names {
            [] => None,
            [name] => Some(format!("{kind} {name}")),
            names if kind == "node" => Some(format!("{kind}s {}", nodeset::fold(names))),
            names => Some(format!("{kind}s {}", names.join(", "))),
        };
        let (jobs, users) = (part("job", &self.jobs), part("user", &self.users));
        let holders = match (jobs, users) {
            (Some(jobs), Some(users)) => Some(format!("{jobs} of {users}")),
            (jobs, users) => jobs.or(users),
        };
        match (holders, part("node", &self.nodes)) {
            (Some(holders), Some(nodes)) => format!("{holders} on {nodes}"),
            (holders, nodes) => holders.or(nodes).unwrap_or_default(),
        }
    }
}

/// Returns true if an id is that of the holder's job, of its array, or of the heterogeneous job that it is part of.
fn is_named(given: &str, holder: &Holder, shown_id: Option<&str>) -> bool {
    let is_part = |shown: &str| {
        let rest = shown.strip_prefix(given);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '+']))
    };
    let Some(job) = &holder.job else { return false };
    job.as_str() == given || shown_id.is_some_and(is_part)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::User;
    use crate::model::JobId;

    fn holder(user: &str, job: &str) -> Holder {
        Holder { user: User::Named(user.into()), job: JobId::new(job) }
    }

    fn jobs(ids: &[&str]) -> ReportFilter {
        let jobs = ids.iter().map(|id| (*id).to_owned()).collect();
        ReportFilter { jobs, ..ReportFilter::default() }
    }

    #[test]
    fn a_job_is_named_by_either_id_and_by_its_array() {
        let task = holder("ada", "17");
        for (given, is_counted) in
            [("17", true), ("2_1", true), ("2", true), ("2_10", false), ("1", false), ("7", false)]
        {
            assert_eq!(jobs(&[given]).has_holder(&task, Some("2_1")), is_counted, "{given}");
        }
        assert!(jobs(&["3"]).has_holder(&holder("ada", "4"), Some("3+1")));
        assert!(jobs(&["9", "17"]).has_holder(&task, None));
        let of_bob = ReportFilter { users: vec!["bob".to_owned()], ..jobs(&["17"]) };
        assert!(!of_bob.has_holder(&task, None) && of_bob.has_holder(&holder("bob", "17"), None));
    }

    #[test]
    fn what_counts_is_told_in_words() {
        let [gpu01, gpu02] = ["gpu01", "gpu02"].map(str::to_owned);
        let users = vec!["ada".to_owned()];
        let all = ReportFilter { users, nodes: vec![gpu01.clone(), gpu02], ..jobs(&["11", "2"]) };
        assert_eq!(all.text(), "jobs 11, 2 of user ada on nodes gpu[01-02]");
        let node = ReportFilter { nodes: vec![gpu01], ..ReportFilter::default() };
        assert_eq!((node.text().as_str(), jobs(&["11"]).text().as_str()), ("node gpu01", "job 11"));
        assert!(ReportFilter::default().is_empty() && !node.is_empty() && !node.is_of_holders());
    }
}
