//! Builds the rows of the events view: equal events on many nodes are one row, newest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::HealthReason;
use crate::advice::{device as advice, shell_quoted};
use crate::insight::FleetView;
use crate::insight::Severity;
use crate::insight::device_flag::{DeviceFlag, is_harmless_xid};
use crate::insight::events::changes::{EventSummary, HOST};
use crate::insight::events::event_log::{EventLog, LogEntry};
use crate::insight::node_status::device_label;
use gtop_local::text::UNKNOWN;
use gtop_local::time::Timestamp;
use gtop_model::nodeset;
use gtop_model::{Event, EventKind, NodeName, RecoveryAction, bus_address};

/// The events that devices of a snapshot reported.
#[derive(Debug, Default)]
pub struct DeviceEvents(Vec<LogEntry>);

impl DeviceEvents {
    /// Collects the events, each machine once.
    pub(crate) fn build(fleet_view: &FleetView) -> Self {
        let machines =
            fleet_view.nodes().filter(|node| !fleet_view.fleet.same_as.contains_key(&node.name));
        let entries = machines.flat_map(|node| {
            node.events.iter().map(|record| LogEntry {
                summary: summary(&record.event),
                nodes: vec![node.name.clone()],
                device: Some(Arc::clone(&record.event.device)).filter(|uuid| !uuid.is_empty()),
                at: record.event.at,
                count: record.count,
                detail: record.lines.last().map(|line| line.text()).unwrap_or_default(),
            })
        });
        Self(entries.collect())
    }
}

/// Returns what an event of a driver says.
pub(super) fn summary(event: &Event) -> EventSummary {
    let severity = match (&event.kind, event.code) {
        (EventKind::Xid, Some(code)) if is_harmless_xid(code) => Severity::Warning,
        (EventKind::Recovery, Some(0)) | (EventKind::Returned, _) => Severity::Recovery,
        (EventKind::Retirement | EventKind::Recovery | EventKind::Other(_), _) => Severity::Warning,
        _ => Severity::Error,
    };
    let text = if event.message.is_empty() {
        event.text()
    } else {
        format!("{} · {}", event.text(), event.message)
    };
    let (meaning, remedy) = explanation(event);
    EventSummary::plain(severity, text).explained(meaning, remedy)
}

/// Returns what an event of a driver means, and what to do about it.
fn explanation(event: &Event) -> (&'static str, &'static str) {
    let reason = match &event.kind {
        EventKind::Xid => {
            let code = event.code.unwrap_or_default();
            return (HealthReason::xid_meaning(code), advice::of_xid(code));
        }
        EventKind::MemoryError | EventKind::Poison => HealthReason::EccUncorrected(1),
        EventKind::Retirement => HealthReason::RetirementPending,
        EventKind::Recovery if event.code == Some(0) => return ("", ""),
        EventKind::Recovery => HealthReason::Recovery(RecoveryAction::Other(None)),
        EventKind::Lost => HealthReason::Lost,
        EventKind::NeedsReset => HealthReason::NeedsReset,
        EventKind::Gone => HealthReason::Gone(event.at),
        EventKind::Returned => {
            return ("the device has its old number again", advice::RETURNED);
        }
        EventKind::Unavailable => {
            return ("the driver cannot use the device", advice::UNAVAILABLE);
        }
        EventKind::Other(_) => return ("", ""),
    };
    let flag = DeviceFlag::Health(reason);
    (flag.meaning(), flag.remedy())
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    pub summary: EventSummary,
    /// Time of the last occurrence.
    pub at: Timestamp,
    pub count: u64,
    /// The nodes, as a folded node set.
    pub nodes: String,
    /// Labels of the devices; empty if none is concerned, or if there are several nodes.
    pub devices: String,
    /// The node and device to open; `None` for a row that unfolds.
    pub target: Option<(NodeName, Option<Arc<str>>)>,
    /// True for a single occurrence below its group's row.
    pub is_detail: bool,
    /// What the kernel logged of it; empty if nothing, or for several occurrences.
    pub detail: String,
}

impl EventRow {
    /// Returns what to do about it, with the nodes named.
    pub fn remedy(&self) -> String {
        self.summary.remedy.replace(HOST, &shell_quoted(&self.nodes))
    }
}

#[derive(Debug, Default)]
pub struct EventRows {
    pub list: Vec<EventRow>,
    /// Columns for the nodes and the devices.
    pub widths: (u16, u16),
}

impl EventRows {
    /// Builds the rows from device events and the log; the occurrences of the event `open` are unfolded.
    pub fn of(
        fleet_view: &FleetView,
        device_events: &DeviceEvents,
        log: &EventLog,
        unfolded: Option<&EventSummary>,
    ) -> Self {
        let shown: Option<BTreeSet<&NodeName>> = (!fleet_view.filter.is_empty())
            .then(|| fleet_view.nodes().map(|node| &node.name).collect());
        let mut groups: BTreeMap<EventSummary, Vec<LogEntry>> = BTreeMap::new();
        for entry in device_events.0.iter().chain(log.entries()) {
            let is_shown = shown.as_ref().is_none_or(|shown| {
                entry.nodes.is_empty() || entry.nodes.iter().any(|name| shown.contains(name))
            });
            // A frozen view shows no later events.
            if is_shown && entry.at <= fleet_view.now {
                groups.entry(entry.summary.clone()).or_default().push(entry.clone());
            }
        }
        let mut groups: Vec<(EventSummary, Vec<LogEntry>)> = groups.into_iter().collect();
        for (_, entries) in &mut groups {
            entries.sort_by_key(|entry| Reverse(entry.at));
        }
        groups.sort_by_key(|(_, entries)| Reverse(entries.first().map(|latest| latest.at)));
        let mut rows = Self::default();
        let devices = DeviceLabels::of(fleet_view);
        for (summary, entries) in groups {
            rows.push(group_row(&devices, &summary, &entries));
            if entries.len() > 1 && unfolded == Some(&summary) {
                for entry in &entries {
                    let detail = group_row(&devices, &summary, std::slice::from_ref(entry));
                    rows.push(EventRow { is_detail: true, ..detail });
                }
            }
        }
        rows
    }

    fn push(&mut self, row: EventRow) {
        use gtop_local::text::width_of;
        self.widths.0 = self.widths.0.max(width_of(&row.nodes) + u16::from(row.is_detail) * 2);
        self.widths.1 = self.widths.1.max(width_of(&row.devices));
        self.list.push(row);
    }
}

/// Looks up device labels by node name.
struct DeviceLabels<'a> {
    fleet_view: &'a FleetView,
    index_by_node: BTreeMap<&'a NodeName, usize>,
}

impl<'a> DeviceLabels<'a> {
    fn of(fleet_view: &'a FleetView) -> Self {
        let index_by_node = fleet_view.fleet.nodes.iter().map(|node| &node.name).zip(0..).collect();
        Self { fleet_view, index_by_node }
    }

    /// Returns a device's label: its PCI id if it is known by that, or a placeholder if the node no longer has the device.
    fn label(&self, node: &NodeName, uuid: &str) -> String {
        let node =
            self.index_by_node.get(node).and_then(|index| self.fleet_view.fleet.nodes.get(*index));
        let label = node.and_then(|node| Some(device_label(node, node.device(uuid)?)));
        label.or_else(|| bus_address(uuid).map(str::to_owned)).unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

fn group_row(devices: &DeviceLabels<'_>, summary: &EventSummary, entries: &[LogEntry]) -> EventRow {
    let nodes: BTreeSet<&str> =
        entries.iter().flat_map(|entry| &entry.nodes).map(NodeName::label).collect();
    let mut labels: Vec<String> = Vec::new();
    if nodes.len() == 1 {
        for entry in entries {
            let label = entry.nodes.first().zip(entry.device.as_ref());
            labels.extend(label.map(|(node, uuid)| devices.label(node, uuid)));
        }
    }
    labels.sort_unstable_by_key(|label| (label.len(), label.clone()));
    labels.dedup();
    let target = match entries {
        [one] => one.nodes.first().map(|node| (node.clone(), one.device.clone())),
        _ => None,
    };
    EventRow {
        summary: summary.clone(),
        at: entries.first().map(|entry| entry.at).unwrap_or_default(),
        count: entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.count)),
        nodes: nodeset::fold(nodes),
        devices: labels.join(","),
        target,
        is_detail: false,
        detail: if let [one] = entries { one.detail.clone() } else { String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Source;

    fn event(kind: EventKind, code: Option<u64>) -> Event {
        let at = Timestamp::default();
        let (device, message) = ("".into(), "".into());
        Event { at, source: Source::host(), kind, device, code, message, count: 1, line: None }
    }

    #[test]
    fn every_event_of_a_driver_has_a_meaning_and_a_remedy() {
        for kind in EventKind::known() {
            let summary = summary(&event(kind.clone(), None));
            assert!(!summary.meaning.is_empty() && !summary.remedy.is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn the_number_of_an_xid_decides_what_is_to_be_done() {
        for (code, remedy) in [
            (13, "dcgmi"),
            (79, "fell off the bus"),
            (95, "may be wrong"),
            (99_999, "list of Xid errors"),
        ] {
            let found = summary(&event(EventKind::Xid, Some(code)));
            assert!(found.remedy.contains(remedy), "{code}: {}", found.remedy);
        }
    }
}
