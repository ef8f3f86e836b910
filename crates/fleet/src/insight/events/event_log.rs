//! The log of events that gtop noticed: repeated events are counted, and the oldest are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::insight::events::changes::{EventSummary, ObservedEvent};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Maximum number of entries: different events, or the same event on different nodes or devices.
const MAX_ENTRIES: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub struct EventLog {
    entries: BTreeMap<LogKey, LogEntry>,
    /// Incremented with each change.
    pub version: u64,
}

/// An event, and its first node and device.
type LogKey = (EventSummary, Option<NodeName>, Option<Arc<str>>);

/// One logged event on one node or device.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    pub(crate) summary: EventSummary,
    pub(crate) nodes: Vec<NodeName>,
    pub(crate) device: Option<Arc<str>>,
    /// Time of the last occurrence.
    pub at: Timestamp,
    /// Number of occurrences.
    pub count: u64,
    /// What the kernel logged of the last one; empty if nothing.
    pub(crate) detail: String,
}

impl EventLog {
    /// Adds events, then drops the oldest entries beyond `MAX_ENTRIES`.
    pub fn add(&mut self, events: Vec<ObservedEvent>) {
        if events.is_empty() {
            return;
        }
        for ObservedEvent { at, nodes, device, summary, .. } in events {
            let key = (summary.clone(), nodes.first().cloned(), device.clone());
            let count = self.entries.get(&key).map_or(1, |known| known.count.saturating_add(1));
            let entry = LogEntry { summary, nodes, device, at, count, detail: String::new() };
            self.entries.insert(key, entry);
        }
        self.version = self.version.wrapping_add(1);
        let surplus = self.entries.len().saturating_sub(MAX_ENTRIES);
        if surplus > 0 {
            let mut moments: Vec<Timestamp> = self.entries.values().map(|entry| entry.at).collect();
            moments.sort_unstable();
            let last = moments.get(surplus - 1).copied().unwrap_or_default();
            let mut to_drop = surplus;
            self.entries.retain(|_, entry| {
                let is_dropped = to_drop > 0 && entry.at <= last;
                to_drop -= usize::from(is_dropped);
                !is_dropped
            });
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.version = self.version.wrapping_add(1);
    }

    /// Returns the entries, not sorted by time.
    pub fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight::Severity;
    use gtop_model::MarkKind;

    fn event(second: i64, node: &str, text: &str) -> ObservedEvent {
        ObservedEvent {
            at: Timestamp::from_micros(second * 1_000_000),
            kind: MarkKind::Down,
            nodes: vec![NodeName::new(node).unwrap()],
            device: None,
            summary: EventSummary::plain(Severity::Error, text),
        }
    }

    #[test]
    fn repeated_events_of_a_node_are_counted() {
        let mut log = EventLog::default();
        log.add(vec![event(1, "a", "lost"), event(2, "b", "lost")]);
        log.add(vec![event(3, "a", "lost")]);
        log.add(Vec::new());
        let found: Vec<_> =
            log.entries().map(|one| (one.nodes[0].to_string(), one.count)).collect();
        assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(log.version, 2);
    }

    #[test]
    fn only_the_oldest_entries_beyond_the_limit_are_dropped() {
        let mut log = EventLog::default();
        log.add((0..3_000).map(|at| event(at / 2, &format!("n{at}"), "lost")).collect());
        assert_eq!(log.entries().count(), MAX_ENTRIES);
        assert!(log.entries().all(|one| one.at.as_micros() >= 1_000_000_000));
    }
}
