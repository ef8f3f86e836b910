//! Names in a report: as they are, or replaced.

use std::collections::BTreeMap;

use gtop_collect::sums::JobFacts;
use gtop_fleet::{Anonymizer, Holder, User};
use gtop_model::{JobId, NodeName};

/// Names as they are, or replaced.
#[derive(Debug, Default)]
pub(super) struct ReportNames(pub(super) Option<Anonymizer>);

impl ReportNames {
    pub(super) fn node(&mut self, name: &NodeName) -> String {
        match &mut self.0 {
            Some(anonymizer) => anonymizer.name("node", name.as_str()).to_string(),
            None => name.label().to_owned(),
        }
    }

    pub(super) fn user(&mut self, user: &User) -> String {
        self.text("user", &user.text(), user.is_known())
    }

    pub(super) fn uuid(&mut self, uuid: &str) -> String {
        self.text("device", uuid, true)
    }

    fn text(&mut self, kind: &'static str, text: &str, is_name: bool) -> String {
        match &mut self.0 {
            Some(anonymizer) if is_name => anonymizer.name(kind, text).to_string(),
            _ => text.to_owned(),
        }
    }

    /// Returns a free text, which may contain any name.
    pub(super) fn free_text(&self, text: &str) -> String {
        if self.0.is_some() { "withheld".to_owned() } else { text.to_owned() }
    }
}

/// A job or a user without a job, with its names.
pub(super) struct HolderNames {
    pub(super) user: String,
    /// The id as users know it, and the name.
    pub(super) job: Option<(String, String)>,
    pub(super) partition: Option<String>,
}

/// Returns the names of a holder.
pub(super) fn holder_names(
    holder: &Holder,
    jobs: &BTreeMap<JobId, JobFacts>,
    names: &mut ReportNames,
) -> HolderNames {
    let user = names.user(&holder.user);
    let facts = holder.job.as_ref().and_then(|id| jobs.get(id));
    let job = holder.job.as_ref().map(|id| {
        let shown = facts.map_or(id.as_str(), |facts| &facts.shown_id);
        let name = facts.map_or("", |facts| &facts.name);
        (names.text("job", shown, true), names.text("name", name, !name.is_empty()))
    });
    let partition = facts.map(|facts| names.text("partition", &facts.partition, true));
    HolderNames { user, job, partition }
}
