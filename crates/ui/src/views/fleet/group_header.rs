//! Group headers: the title of a group, and its totals over fresh nodes.

use crate::device_counts::{CountForm, fitting_device_counts, joined};
use crate::render_context::RenderContext;
use crate::views::fleet::column_layout::{FleetRow, LaidOutFleet, MARK_WIDTH, is_in_front};
use crate::views::fleet::group::Group;
use crate::widgets::line::{Line, Tone, truncate};
use crate::widgets::number_format::{percent, power_text};
use crate::widgets::table::Fade;
use gtop_fleet::Totals;
use gtop_fleet::insight::FleetView;
use gtop_local::text::{counted, width_of};

/// Below this width, there is room for the title only.
const NARROW_WIDTH: u16 = 28;

/// Draws the header as a table row, its totals in the columns of the nodes.
pub(super) fn row(fleet_view: &FleetView, group: &Group, table: &LaidOutFleet<'_>) -> Line {
    let totals = group.totals(fleet_view);
    let (columns, start) = table.leading(is_in_front);
    let width = start.saturating_sub(MARK_WIDTH + table.room.gap);
    let has_counts = table.width_of("free") > 0;
    let has_nodes = table.width_of("nodes") > 0;
    let is_narrow = width < NARROW_WIDTH && !has_nodes;
    let mut note = Line::new();
    if is_narrow {
        note = note.text(counted(group.members.len(), "node"), Tone::Plain);
    }
    note = with_node_counts(note, &totals);
    if !has_counts {
        note = fitting_device_counts(&note, &totals, table.width_of("note"));
    }
    let front =
        fold_symbol(group).append(title_cell(group, (!has_nodes).then_some(&totals), width));
    let row = FleetRow {
        // The title stands in front.
        totals,
        counts: Some(totals),
        pending: group.pending,
        nodes: group.members.len().to_string(),
        note,
        ..FleetRow::default()
    };
    table.part_of_row(columns.., front, &row, Fade::None)
}

/// Draws the header as a line of the heat map, its totals as text.
pub(super) fn line(context: RenderContext<'_>, group: &Group, width: u16) -> Line {
    let fleet_view = context.view;
    let totals = group.totals(fleet_view);
    let units = context.options.units();
    let mut totals_line = Line::styled(counted(group.members.len(), "node"), Tone::Plain);
    let parts = [
        totals.utilization.map(|share| format!("{:>3}%", percent(Some(share.get())))),
        totals
            .memory_total
            .map(|_| pad_used(&units.usage_with_unit(totals.memory_used, totals.memory_total))),
        totals.power.map(|_| pad_used(&power_text(totals.power, totals.power_limit))),
    ];
    for part in parts.into_iter().flatten() {
        totals_line = totals_line.gap(2).text(part, Tone::Plain);
    }
    let states = with_node_counts(Line::new(), &totals);
    let title = group.title_within((width / 2).max(8));
    let mut line = fold_symbol(group).text(title, Tone::Strong).gap(2);
    let room = width.saturating_sub(line.width() + totals_line.width() + 2);
    let states = fitting_device_counts(&states, &totals, room);
    let totals_line = totals_line.gap(2).append(states);
    let description = width_of(&group.description) + 2;
    if description > 2 && line.width() + description + totals_line.width() <= width {
        line = line.text(group.description.as_str(), Tone::Faint).gap(2);
    }
    line.append(totals_line)
}

pub(super) fn detail(context: RenderContext<'_>, group: &Group, width: u16) -> Line {
    let hint = if group.is_folded { "  Space unfolds" } else { "  Space folds" };
    let line = Line::styled(group.title.as_str(), Tone::Strong).gap(2);
    let description = group.description.clone();
    let gap = if description.is_empty() { 0 } else { 2 };
    let line = line.text(description, Tone::Plain).gap(gap);
    let fleet_view = context.view;
    let totals = group.totals(fleet_view);
    let room = width.saturating_sub(line.width() + width_of(hint));
    let states = fitting_device_counts(&with_node_counts(Line::new(), &totals), &totals, room);
    line.append(states).text(hint, Tone::Faint).truncated(width)
}

/// Pads the first part of `used/total unit` to the width of the second, so that changing totals do not shift
/// what follows.
fn pad_used(pair: &str) -> String {
    let total = pair.split_once('/').map_or(0, |(_, rest)| rest.find(' ').unwrap_or(rest.len()));
    let used = pair.find('/').unwrap_or(0);
    format!("{}{pair}", " ".repeat(total.saturating_sub(used)))
}

fn fold_symbol(group: &Group) -> Line {
    Line::styled(if group.is_folded { "▸" } else { "▾" }, Tone::Accent).gap(MARK_WIDTH - 1)
}

/// Draws title and description, and counts of nodes and devices unless columns show them.
fn title_cell(group: &Group, totals: Option<&Totals>, width: u16) -> Line {
    let Some(totals) = totals.filter(|_| width >= NARROW_WIDTH) else {
        let line = Line::styled(group.title_within(width), Tone::Strong);
        let room = width.saturating_sub(line.width() + 2);
        if !group.description.is_empty() && width_of(&group.description) <= room {
            return line.gap(2).left_aligned(&group.description, room, Tone::Faint);
        }
        return Line::new().left_aligned(&group.title_within(width), width, Tone::Strong);
    };
    let mut count = counted(group.members.len(), "node");
    if width >= 50 {
        count = format!("{count} · {}", counted(totals.devices, "device"));
    }
    let count = Line::styled(truncate(&count, width), Tone::Plain);
    let room = width.saturating_sub(count.width() + 1);
    let mut line = Line::styled(group.title_within(room), Tone::Strong);
    if !group.description.is_empty()
        && line.width() + width_of(&group.description) + count.width() + 4 <= width
    {
        line = line.gap(2).text(group.description.as_str(), Tone::Faint);
    }
    line.with_right(count, width)
}

/// Appends how many nodes are down or stale.
fn with_node_counts(mut line: Line, totals: &Totals) -> Line {
    for (count, word, tone) in
        [(totals.down, "down", Tone::Bad), (totals.stale, "stale", Tone::Warn)]
    {
        if count > 0 {
            line = joined(line, CountForm::Words)
                .text(format!("{} {word}", counted(count, "node")), tone);
        }
    }
    line
}
