//! The notes of a node in the list: problems, stragglers, idle-held devices, free devices.

use crate::fleet::Node;
use crate::insight::FleetView;
use crate::insight::node_status::{NodeStatus, device_label, notes};
use crate::time::format_duration;
use crate::ui::views::fleet::group::GroupMember;
use crate::ui::views::fleet::idle_time;
use crate::ui::views::fleet::idle_time::{ElapsedTime, IDLE_HELD_WARNING};
use crate::ui::views::fleet::lag::find_straggler;
use crate::ui::widgets::line::Tone;

/// Returns the notes on a node, the most important first.
pub(super) fn row_notes(
    fleet_view: &FleetView,
    node: &Node,
    member: &GroupMember,
) -> Vec<(String, Tone)> {
    let mut all: Vec<(String, Tone)> = notes(fleet_view, node)
        .into_iter()
        .map(|(text, severity)| (text, severity.into()))
        .collect();
    if !NodeStatus::of(node, fleet_view.now).is_fresh() {
        return all;
    }
    // A more precise note may replace "free".
    let free = all.iter().position(|(words, tone)| words == "free" && *tone == Tone::Faint);
    let lag =
        find_straggler(node, fleet_view.now).filter(|lag| member.has_device(node, lag.position));
    if let Some(lag) = lag {
        let name = node.devices.get(lag.position).map(|device| device_label(node, device));
        let name = name.unwrap_or_default();
        let words =
            format!("#{name} lags: {:.0}% for {}", lag.percent, format_elapsed(lag.elapsed));
        all.push((words, Tone::Warn));
    }
    // The straggler has its own note.
    let meant = member.device_indices(node).into_iter();
    let others = meant.filter(|position| lag.is_none_or(|lag| lag.position != *position));
    let spans = others.filter_map(|position| idle_time::idle_held_time(fleet_view, node, position));
    all.extend(idle_held_note(&spans.collect::<Vec<_>>()));
    if free.is_none() {
        all.extend(free_note(fleet_view, node, member));
    }
    all.sort_by_key(|(_, tone)| std::cmp::Reverse((*tone).max(Tone::High)));
    all
}

/// Formats how long a state has lasted; a plus means at least.
pub(super) fn format_elapsed(span: ElapsedTime) -> String {
    format!("{}{}", format_duration(span.span), if span.is_lower_bound { "+" } else { "" })
}

/// Returns the note on held devices that are idle.
fn idle_held_note(spans: &[ElapsedTime]) -> Option<(String, Tone)> {
    let shortest = *spans.iter().min_by_key(|idle| idle.span)?;
    let count = spans.len();
    let tone = if shortest.span >= IDLE_HELD_WARNING { Tone::Warn } else { Tone::Plain };
    Some((format!("{count} idle-held for {}", format_elapsed(shortest)), tone))
}

/// Returns the note on free devices of a node that is not free as a whole.
fn free_note(fleet_view: &FleetView, node: &Node, member: &GroupMember) -> Option<(String, Tone)> {
    let meant = member.device_indices(node).into_iter();
    let count = meant.filter(|position| fleet_view.is_free(node, *position)).count();
    (count > 0).then(|| (format!("{count} free"), Tone::Faint))
}
