//! What is known of one event of a node: a driver and the kernel may both report it.

use std::sync::Arc;
use std::time::Duration;

use gtop_local::time::Timestamp;
use gtop_model::{Event, KernelLine, Source};

/// Maximum number of lines of the kernel that are kept of an event.
const MAX_LINES: usize = 8;

/// A device event and how often it occurred.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// The event, as it occurred last.
    pub event: Event,
    /// Time of the first occurrence.
    pub first_at: Timestamp,
    /// Number of occurrences.
    pub count: u64,
    /// The last lines of the kernel's log about it, oldest first; none where gtop cannot read that.
    pub lines: Vec<Arc<KernelLine>>,
    /// Occurrences that only one source has reported so far.
    unpaired: Unpaired,
}

/// The latest occurrences of an event that another source may report too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unpaired {
    source: Source,
    at: Timestamp,
    count: u64,
}

impl EventRecord {
    /// Returns the record of an event that has not occurred before.
    pub(super) fn new(event: Event) -> Self {
        let Event { source, at, count, line, .. } = &event;
        Self {
            first_at: line.as_ref().map_or(*at, |line| line.first_at),
            count: *count,
            lines: line.iter().cloned().collect(),
            unpaired: Unpaired { source: source.clone(), at: *at, count: *count },
            event,
        }
    }

    /// Returns the record of both. What two sources report within `delay` is counted once.
    pub(super) fn merged_with(self, newer: Self, delay: Duration) -> Self {
        let (known, found) = (self.unpaired, newer.unpaired);
        let is_near = known.at.distance(found.at) <= delay;
        let is_paired = is_near && known.source != found.source;
        let paired = if is_paired { known.count.min(found.count) } else { 0 };
        let unpaired = if is_paired && known.count > paired {
            Unpaired { count: known.count - paired, ..known }
        } else if is_paired || !is_near {
            Unpaired { count: found.count - paired, ..found }
        } else {
            Unpaired { count: known.count.saturating_add(found.count), ..found }
        };
        let is_newer = newer.event.at >= self.event.at;
        // Of the same occurrence, the kernel reports more, and its time is the true one.
        let is_better = if paired > 0 { newer.event.line.is_some() } else { is_newer };
        let mut lines = [self.lines, newer.lines].concat();
        lines.sort_by_key(|line| line.at);
        lines.drain(..lines.len().saturating_sub(MAX_LINES));
        Self {
            event: if is_better { newer.event } else { self.event },
            first_at: self.first_at.min(newer.first_at),
            count: self.count.saturating_add(newer.count - paired),
            lines,
            unpaired,
        }
    }

    /// Returns it with another event, and without the lines of the kernel.
    pub(super) fn with_event(&self, event: Event) -> Self {
        Self { event, lines: Vec::new(), ..self.clone() }
    }

    /// Returns true if the kernel has logged it, and no driver lists the device.
    pub fn is_of_unlisted_device(&self) -> bool {
        self.event.line.as_ref().is_some_and(|line| line.pci == self.event.device)
    }
}
