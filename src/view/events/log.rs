//! What happened lately, like things at one place counted; the oldest are forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::NodeName;
use crate::time::Timestamp;
use crate::view::events::notice::{Happening, What};

/// So many different things at different places are remembered.
const LIMIT: usize = 1_000;

/// The log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    entries: BTreeMap<Key, Times>,
    /// Grows with each change.
    pub(crate) version: u64,
}

/// What happened, and where first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    what: What,
    node: Option<NodeName>,
    device: Option<Arc<str>>,
}

/// When, and on which nodes the last time.
#[derive(Clone, Debug)]
struct Times {
    at: Timestamp,
    count: u64,
    nodes: Vec<NodeName>,
}

/// One thing at one place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) what: What,
    pub(crate) nodes: Vec<NodeName>,
    pub(crate) device: Option<Arc<str>>,
    /// The last time.
    pub(crate) at: Timestamp,
    /// How often.
    pub(crate) count: u64,
}

impl Log {
    /// Takes what happened.
    pub(crate) fn take(&mut self, happenings: Vec<Happening>) {
        if happenings.is_empty() {
            return;
        }
        for Happening { at, nodes, device, what } in happenings {
            let key = Key { what, node: nodes.first().cloned(), device };
            let times =
                self.entries.entry(key).or_insert(Times { at, count: 0, nodes: Vec::new() });
            (times.at, times.count, times.nodes) = (at, times.count.saturating_add(1), nodes);
        }
        self.version = self.version.wrapping_add(1);
        let surplus = self.entries.len().saturating_sub(LIMIT);
        if surplus > 0 {
            let mut moments: Vec<Timestamp> = self.entries.values().map(|one| one.at).collect();
            moments.sort_unstable();
            let last = moments.get(surplus - 1).copied().unwrap_or_default();
            let mut left = surplus;
            self.entries.retain(|_, times| {
                let is_over = left > 0 && times.at <= last;
                left -= usize::from(is_over);
                !is_over
            });
        }
    }

    /// Returns what it holds, in no order of time.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().map(|(key, times)| Entry {
            what: key.what.clone(),
            nodes: times.nodes.clone(),
            device: key.device.clone(),
            at: times.at,
            count: times.count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::events::notice::Weight;

    fn happening(second: i64, node: &str, words: &str) -> Happening {
        Happening {
            at: Timestamp::from_micros(second * 1_000_000),
            nodes: vec![NodeName::new(node).unwrap()],
            device: None,
            what: What { weight: Weight::FleetProblem, words: words.into() },
        }
    }

    #[test]
    fn the_same_at_the_same_place_is_counted() {
        let mut log = Log::default();
        log.take(vec![happening(1, "a", "lost"), happening(2, "b", "lost")]);
        log.take(vec![happening(3, "a", "lost")]);
        log.take(Vec::new());
        let found: Vec<_> =
            log.entries().map(|one| (one.nodes[0].to_string(), one.count)).collect();
        assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(log.version, 2);
    }

    #[test]
    fn the_oldest_are_forgotten_and_no_more() {
        let mut log = Log::default();
        log.take((0..3_000).map(|at| happening(at / 2, &format!("n{at}"), "lost")).collect());
        assert_eq!(log.entries().count(), LIMIT);
        assert!(log.entries().all(|one| one.at.as_micros() >= 1_000_000_000));
    }
}
