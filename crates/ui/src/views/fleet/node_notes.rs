//! The notes of a node in the list: problems, stragglers, idle-held devices, free devices.

use crate::views::fleet::group::GroupMember;
use crate::views::fleet::idle_time;
use crate::views::fleet::idle_time::{ElapsedTime, IDLE_HELD_WARNING};
use crate::views::fleet::lag::find_straggler;
use crate::widgets::line::Tone;
use gtop_fleet::Node;
use gtop_fleet::insight::node_status::{NodeStatus, device_label, notes};
use gtop_fleet::insight::note::Note;
use gtop_fleet::insight::{FleetView, Severity};
use gtop_local::time::format_duration;

/// Returns the notes on a node, the most important first.
pub(super) fn row_notes(fleet_view: &FleetView, node: &Node, member: &GroupMember) -> Vec<Note> {
    let mut all = notes(fleet_view, node);
    if !NodeStatus::of(node, fleet_view.now).is_fresh() {
        return all;
    }
    // A more precise note may replace "free".
    let is_free = all.contains(&Note::Free);
    let lag =
        find_straggler(node, fleet_view.now).filter(|lag| member.has_device(node, lag.position));
    if let Some(lag) = lag {
        let name = node.devices.get(lag.position).map(|device| device_label(node, device));
        let label = name.unwrap_or_default();
        all.push(Note::Lags { label, share: lag.percent, span: format_elapsed(lag.elapsed) });
    }
    // The straggler has its own note.
    let meant = member.device_indices(node).into_iter();
    let others = meant.filter(|position| lag.is_none_or(|lag| lag.position != *position));
    let spans = others.filter_map(|position| idle_time::idle_held_time(fleet_view, node, position));
    all.extend(idle_held_note(&spans.collect::<Vec<_>>()));
    if !is_free {
        all.extend(free_note(fleet_view, node, member));
    }
    all.sort_by_key(|note| std::cmp::Reverse(Tone::from(note.severity()).max(Tone::High)));
    all
}

/// Formats how long a state has lasted; a plus means at least.
pub(super) fn format_elapsed(span: ElapsedTime) -> String {
    format!("{}{}", format_duration(span.span), if span.is_lower_bound { "+" } else { "" })
}

/// Returns the note on held devices that are idle.
fn idle_held_note(spans: &[ElapsedTime]) -> Option<Note> {
    let shortest = *spans.iter().min_by_key(|idle| idle.span)?;
    let count = spans.len();
    let is_long = shortest.span >= IDLE_HELD_WARNING;
    let severity = if is_long { Severity::Warning } else { Severity::Notice };
    Some(Note::IdleHeld { count, span: format_elapsed(shortest), severity })
}

/// Returns the note on free devices of a node that is not free as a whole.
fn free_note(fleet_view: &FleetView, node: &Node, member: &GroupMember) -> Option<Note> {
    let meant = member.device_indices(node).into_iter();
    let count = meant.filter(|position| fleet_view.is_free(node, *position)).count();
    (count > 0).then_some(Note::FreeDevices(count))
}
