//! Whose devices and time a report counts.

use gtop_fleet::query::Filter;
use gtop_fleet::{Holder, Node, User};
use gtop_model::{Device, JobId, NodeName, PART_MARKS, nodeset};

/// Whose devices and time a report counts: of each list that is not empty, anything that one of its names fits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportFilter {
    /// Ids of jobs, as the scheduler numbers or shows them; that of an array is all its tasks.
    pub jobs: Vec<String>,
    /// Names of users, or uids where no name is known.
    pub users: Vec<String>,
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// What devices and those who hold them match, too: a filter of a span of time.
    pub matching: Filter,
}

/// What counts of a device, or of a node without devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedPart {
    Nothing,
    /// What some holders have of it.
    OfHolders,
    /// It counts whoever holds it.
    All,
}

impl ReportFilter {
    /// Returns true if all counts.
    pub fn is_empty(&self) -> bool {
        !self.names_holders() && self.nodes.is_empty() && self.matching.is_empty()
    }

    /// Returns true if jobs or users are named.
    pub(super) fn names_holders(&self) -> bool {
        !self.jobs.is_empty() || !self.users.is_empty()
    }

    /// Returns true if it may matter who held a device.
    pub(super) fn reads_holders(&self) -> bool {
        self.names_holders() || self.matching.reads_holders()
    }

    /// Returns what counts of a device, or of a node without devices.
    pub(super) fn part_of(&self, node: &Node, device: Option<&Device>) -> CountedPart {
        match self.matching.matches_place(node, device) {
            Some(false) => CountedPart::Nothing,
            Some(true) if !self.names_holders() => CountedPart::All,
            Some(true) | None => CountedPart::OfHolders,
        }
    }

    pub(super) fn has_node(&self, name: &NodeName) -> bool {
        let mut nodes = self.nodes.iter();
        self.nodes.is_empty() || nodes.any(|given| given == name.as_str() || given == name.label())
    }

    /// Returns true if what a holder has counts; `shown_id` is the id of its job as users know it.
    pub(super) fn has_holder(&self, holder: &Holder, shown_id: Option<&str>) -> bool {
        let (mut users, mut jobs) = (self.users.iter(), self.jobs.iter());
        (self.users.is_empty() || users.any(|given| is_user(given, &holder.user)))
            && (self.jobs.is_empty()
                || jobs.any(|given| is_named(given, holder.job.as_ref(), shown_id)))
    }

    /// Returns what counts as text: `job 11 of user ada on node gpu01`.
    pub fn text(&self) -> String {
        let parts = [
            ("", part_text("job", &self.jobs)),
            (" of ", part_text("user", &self.users)),
            (" on ", part_text("node", &self.nodes)),
            (
                " with ",
                (!self.matching.is_empty()).then(|| format!("filter {}", self.matching.text())),
            ),
        ];
        let mut text = String::new();
        for (link, part) in parts {
            if let Some(part) = part {
                text.push_str(if text.is_empty() { "" } else { link });
                text.push_str(&part);
            }
        }
        text
    }
}

fn part_text(kind: &str, names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("{kind} {name}")),
        names if kind == "node" => Some(format!("{kind}s {}", nodeset::fold(names))),
        names => Some(format!("{kind}s {}", names.join(", "))),
    }
}

/// Returns true if a user has this name or uid.
pub(super) fn is_user(given: &str, user: &User) -> bool {
    given == user.text() || matches!(user, User::Number(number) if given.parse() == Ok(*number))
}

/// Returns true if an id is that of a job, of its array, such as `21` or `21[]`, or of the heterogeneous job that it is
/// part of.
pub(super) fn is_named(given: &str, job: Option<&JobId>, shown_id: Option<&str>) -> bool {
    let Some(job) = job else { return false };
    let is_part = match (given.strip_suffix("[]"), shown_id) {
        (_, None) => false,
        (Some(array), Some(shown)) => {
            shown.strip_prefix(array).is_some_and(|rest| rest.starts_with('['))
        }
        (None, Some(shown)) => shown
            .strip_prefix(given)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(PART_MARKS)),
    };
    is_part || job.as_str() == given
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for array in ["21", "21[]"] {
            assert!(jobs(&[array]).has_holder(&holder("ada", "21[3].server"), Some("21[3]")));
        }
        assert!(!jobs(&["17[]"]).has_holder(&task, Some("17")));
        assert!(!jobs(&["2"]).has_holder(&holder("ada", "21[3].server"), Some("21[3]")));
        assert!(jobs(&["9", "17"]).has_holder(&task, None));
        let of_bob = ReportFilter { users: vec!["bob".to_owned()], ..jobs(&["17"]) };
        assert!(!of_bob.has_holder(&task, None) && of_bob.has_holder(&holder("bob", "17"), None));
        let of_uid = ReportFilter { users: vec!["2001".to_owned()], ..ReportFilter::default() };
        let nameless = |number| Holder { user: User::Number(number), job: None };
        assert!(of_uid.has_holder(&nameless(2001), None));
        assert!(!of_uid.has_holder(&nameless(2002), None));
    }

    #[test]
    fn what_counts_is_told_in_words() {
        let [gpu01, gpu02] = ["gpu01", "gpu02"].map(str::to_owned);
        let users = vec!["ada".to_owned()];
        let all = ReportFilter { users, nodes: vec![gpu01.clone(), gpu02], ..jobs(&["11", "2"]) };
        assert_eq!(all.text(), "jobs 11, 2 of user ada on nodes gpu[01-02]");
        let node = ReportFilter { nodes: vec![gpu01], ..ReportFilter::default() };
        assert_eq!((node.text().as_str(), jobs(&["11"]).text().as_str()), ("node gpu01", "job 11"));
        let matching = Filter::of_span("name~h100").unwrap();
        let of_model = ReportFilter { matching, ..jobs(&["11"]) };
        assert_eq!(of_model.text(), "job 11 with filter name~h100");
        assert!(ReportFilter::default().is_empty() && !node.is_empty() && !of_model.is_empty());
    }
}
