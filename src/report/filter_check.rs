//! Whether the names of a filter fit what was recorded.

use crate::fleet::Holder;
use crate::report::collector::UsageCollector;
use crate::report::filter::{ReportFilter, is_named};

/// Names that an error lists.
const MAX_KNOWN: usize = 20;

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

/// Checks that each name fits something, and that something counts.
pub(super) fn check_filter(
    filter: &ReportFilter,
    collector: &UsageCollector,
) -> Result<(), NothingMatched> {
    let records = &collector.holders.records;
    let shown = |holder: &Holder| collector.shown_id(holder).map(str::to_owned);
    let unknown = |kind: &str, name: &String, known: Vec<String>| NothingMatched::Unknown {
        name: format!("{kind} {name}"),
        known: list_text(&format!("{kind}s"), known),
    };
    for name in &filter.jobs {
        let is_job = |holder: &Holder| is_named(name, holder, shown(holder).as_deref());
        if !records.iter().any(|record| is_job(&record.holder)) {
            let known = records.iter().filter_map(|record| shown(&record.holder)).collect();
            return Err(unknown("job", name, known));
        }
    }
    let users = records.iter().map(|record| record.holder.user.text());
    for name in &filter.users {
        if !users.clone().any(|user| user == *name) {
            return Err(unknown("user", name, users.collect()));
        }
    }
    for name in &filter.nodes {
        let of_name = ReportFilter { nodes: vec![name.clone()], ..ReportFilter::default() };
        if !collector.known_nodes.iter().any(|known| of_name.has_node(known)) {
            let known = collector.known_nodes.iter().map(|known| known.label().to_owned());
            return Err(unknown("node", name, known.collect()));
        }
    }
    let is_held = records.iter().any(|record| record.span.is_some());
    if filter.is_of_holders() && !is_held {
        return Err(NothingMatched::NothingHeld(filter.text()));
    }
    Ok(())
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
