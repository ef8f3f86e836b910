//! Completion of the word before the caret.

use std::collections::BTreeSet;

use crate::fleet::Fleet;
use crate::metrics::{JobAt, Usage, Value};
use crate::model::Job;
use crate::query::filter::{Comparison, FilterField, StateWord};
use crate::time::Timestamp;

const MAX_COMPLETIONS: usize = 24;
/// The maximum number of nodes scanned for values.
const MAX_SCANNED_NODES: usize = 200;
/// The maximum number of jobs scanned for values.
const MAX_SCANNED_JOBS: usize = 2000;

/// Returns completions of the word before the caret, the likeliest first.
///
/// `caret` counts characters. Before a comparison sign, field names are completed; after it, the values of
/// that field in the fleet.
pub fn complete(text: &str, caret: usize, fleet: &Fleet) -> Vec<String> {
    let before_caret: String = text.chars().take(caret).collect();
    let word = before_caret.rsplit(char::is_whitespace).next().unwrap_or_default();
    let (prefix, word) = match word.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", word),
    };
    let symbols =
        Comparison::SYMBOLS.iter().filter_map(|(symbol, _)| Some((word.find(symbol)?, *symbol)));
    // The first sign; of several that start there, the longest.
    let found = symbols.min_by_key(|(at, symbol)| (*at, std::cmp::Reverse(symbol.len())));
    let completions: Vec<String> = match found {
        None => complete_name(&word.to_lowercase()),
        Some((at, symbol)) => {
            let (name, value) = word.split_at_checked(at).unwrap_or((word, ""));
            let value = value.strip_prefix(symbol).unwrap_or_default().to_lowercase();
            let field_values = FilterField::from_name(&name.to_lowercase())
                .map(|field| field_values(field, fleet))
                .unwrap_or_default();
            let fitting =
                field_values.into_iter().filter(|known| known.to_lowercase().starts_with(&value));
            fitting.map(|known| format!("{name}{symbol}{known}")).collect()
        }
    };
    completions.into_iter().take(MAX_COMPLETIONS).map(|word| format!("{prefix}{word}")).collect()
}

fn complete_name(start: &str) -> Vec<String> {
    let states = StateWord::WORDS.iter().map(|(word, _)| *word);
    let known = FilterField::aliases().chain(states).filter(|name| name.starts_with(start));
    let mut known: Vec<String> = known.map(str::to_owned).collect();
    known.sort_by_cached_key(|name| (name.len(), name.clone()));
    known.dedup();
    known
}

/// Returns the text values of a field in the fleet; numbers are not completed.
fn field_values(field: FilterField, fleet: &Fleet) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if matches!(field, FilterField::Job | FilterField::OfJob(_)) {
        return job_values(field, fleet);
    }
    for node in fleet.nodes.iter().take(MAX_SCANNED_NODES) {
        match field {
            FilterField::Node => {
                found.insert(node.name.to_string());
            }
            FilterField::Device(field) => {
                found.extend(
                    node.devices.iter().filter_map(|device| completion_text((field.read)(device))),
                );
            }
            FilterField::Process(field) => {
                let usages = node.devices.iter().flat_map(|device| Usage::of(node, device));
                found.extend(usages.filter_map(|usage| completion_text((field.read)(&usage))));
            }
            FilterField::Host(_)
            | FilterField::Index
            | FilterField::Uuid
            | FilterField::Pid
            | FilterField::Job
            | FilterField::OfJob(_)
            | FilterField::MemoryShare => {}
        }
    }
    found
}

/// Returns the text values of a job field.
fn job_values(field: FilterField, fleet: &Fleet) -> BTreeSet<String> {
    let jobs = fleet.jobs.iter().flat_map(|jobs| &jobs.jobs).take(MAX_SCANNED_JOBS);
    let FilterField::OfJob(field) = field else {
        return jobs.map(|job| job.shown_id.to_string()).collect();
    };
    // No text value depends on the time.
    let at = |job: &Job| JobAt { job: job.clone(), now: Timestamp::default() };
    jobs.filter_map(|job| completion_text((field.read)(&at(job)))).collect()
}

/// Returns a value as it must be typed; `None` if it would need quotes.
fn completion_text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.contains([' ', '"', '\'']) => Some(text.to_string()),
        Value::Flag(_) => Some("yes".to_owned()),
        Value::Text(_) | Value::Unknown(_) | Value::Number(_) | Value::Integer(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::fleet::Node;
    use crate::model::{JobList, NodeName};

    #[test]
    fn fields_states_and_values_are_completed() {
        let node = |name| Arc::new(Node::new(NodeName::new(name).unwrap(), Duration::ZERO));
        let fleet = Fleet::new(vec![node("gpu01"), node("gpu02"), node("login1")].into());
        let at_end = |text: &str| complete(text, text.chars().count(), &fleet);
        assert_eq!(at_end("alice ut"), ["util"]);
        assert!(at_end("st").contains(&"stale".to_owned()));
        assert_eq!(at_end("!thr").first().map(String::as_str), Some("!threads"));
        assert_eq!(at_end("x node=gpu"), ["node=gpu01", "node=gpu02"]);
        assert_eq!(at_end("nosuch=x"), [""; 0]);
        let mut fleet = fleet.clone();
        let job = Job { name: "train".into(), ..Job::example("12") };
        fleet.jobs = Some(Arc::new(JobList { jobs: vec![job], ..JobList::default() }));
        let at_end = |text: &str| complete(text, text.chars().count(), &fleet);
        assert_eq!(at_end("job=1"), ["job=12"]);
        assert_eq!(at_end("jobname="), ["jobname=train"]);
        assert_eq!(at_end("part").first().map(String::as_str), Some("partition"));
        assert!(at_end("job").contains(&"jobname".to_owned()));
        assert_eq!(complete("util<10 st", 2, &fleet).first().map(String::as_str), Some("util"));
    }
}
