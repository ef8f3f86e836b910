//! Marks of a recording: what happens between two snapshots of the live fleet, so that a replay shows the same however one
//! gets to a moment of it.

use std::sync::Arc;
use std::time::Duration;

use crate::insight::Severity;
use crate::insight::events::changes::{EventSummary, FleetMoment, ObservedEvent, events_between};
use crate::insight::events::rows;
use crate::insight::node_status::device_label;
use crate::{EventRecord, Fleet, Node};
use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;
use gtop_model::nodeset;
use gtop_model::{Mark, MarkKind, NodeName};

/// Events reported later than this happened before gtop watched: the kernel's log goes back to the boot.
const MAX_TELLING_DELAY: Duration = Duration::from_secs(30);
/// Maximum length of a mark's text.
const MAX_TEXT_LENGTH: usize = 200;

/// Observes a fleet, snapshot after snapshot.
#[derive(Debug, Default)]
pub struct MarkObserver {
    before: Option<(Fleet, Timestamp)>,
}

impl MarkObserver {
    /// Returns what has happened since the snapshot before.
    pub fn observe(&mut self, fleet: &Fleet, now: Timestamp) -> Vec<Mark> {
        let Some((before, then)) = self.before.replace((fleet.clone(), now)) else {
            return Vec::new();
        };
        let moments =
            [(&before, then), (fleet, now)].map(|(fleet, now)| FleetMoment { fleet, now });
        let observed = events_between(moments[0], moments[1]).into_iter();
        let mut marks: Vec<Mark> = observed.map(|event| mark(event, fleet)).collect();
        for node in fleet.nodes.iter().filter(|node| !fleet.same_as.contains_key(&node.name)) {
            let known = before.node(&node.name).map(|known| &known.events);
            if let Some(known) = known.filter(|known| !Arc::ptr_eq(known, &node.events)) {
                let new = node.events.iter().filter(|record| is_new(record, known, then));
                marks.extend(new.map(|record| driver_mark(record, node, now)));
            }
        }
        marks
    }
}

/// Returns true if an event has occurred, or occurred again, since a snapshot.
fn is_new(record: &EventRecord, known: &[EventRecord], then: Timestamp) -> bool {
    let before = known.iter().find(|known| known.event.is_same_event(&record.event));
    record.count > before.map_or(0, |known| known.count)
        && then.since(record.event.at) <= MAX_TELLING_DELAY
}

/// Returns the mark of what two snapshots show.
fn mark(event: ObservedEvent, fleet: &Fleet) -> Mark {
    let ObservedEvent { at, kind, nodes, device, summary } = event;
    let label = device.as_deref().and_then(|uuid| {
        let node = fleet.node(nodes.first()?)?;
        Some(device_label(node, node.device(uuid)?))
    });
    let text = if kind == MarkKind::Job {
        summary.text.to_string()
    } else {
        format!("{}: {}", place(&nodes, label), summary.text)
    };
    explained(Mark { nodes: nodes.into(), device, ..plain(at, kind, &text) }, summary)
}

fn plain(at: Timestamp, kind: MarkKind, text: &str) -> Mark {
    Mark::plain(at, kind, sanitize_shared(text, MAX_TEXT_LENGTH))
}

fn explained(mark: Mark, summary: EventSummary) -> Mark {
    Mark {
        severity: summary.severity,
        event: summary.text,
        meaning: summary.meaning.into(),
        remedy: summary.remedy.into(),
        ..mark
    }
}

/// Returns the mark of an event that a node reports.
fn driver_mark(record: &EventRecord, node: &Node, now: Timestamp) -> Mark {
    let EventRecord { event, lines, .. } = record;
    let summary = rows::summary(event);
    let kind = match summary.severity {
        Severity::Recovery => MarkKind::Recovered,
        Severity::Error | Severity::Warning | Severity::Notice | Severity::Info => MarkKind::Device,
    };
    let label = node.device(&event.device).map(|device| device_label(node, device));
    let detail = lines.last().map(|line| format!(" · {}", line.text())).unwrap_or_default();
    let place = place(std::slice::from_ref(&node.name), label);
    let text = format!("{place}: {}{detail}", summary.text);
    let device = Some(Arc::clone(&event.device)).filter(|uuid| !uuid.is_empty());
    let nodes = [node.name.clone()].into();
    explained(Mark { nodes, device, ..plain(now, kind, &text) }, summary)
}

/// Returns the nodes, with the label of a device.
fn place(nodes: &[NodeName], device: Option<String>) -> String {
    let nodes = nodeset::fold(nodes.iter().map(NodeName::label));
    device.map_or(nodes.clone(), |label| format!("{nodes} #{label}"))
}
