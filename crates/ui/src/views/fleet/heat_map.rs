//! Draws the heat map: one cell per device, the nodes of a group side by side.

use std::sync::Arc;

use crate::input::Click;
use crate::render_context::{RenderContext, Size};
use crate::views::fleet::cell_grid::{CellCursor, NODE_GAP, line_of};
use crate::views::fleet::cells::{STALE, StaleStyle};
use crate::views::fleet::group::GroupMember;
use crate::views::fleet::group_header;
use crate::views::fleet::grouped_rows::GroupedRow;
use crate::views::fleet::legend;
use crate::views::fleet::state::{MapState, State};
use crate::widgets::line::{Line, Symbol, Tone, fitting_symbols};
use crate::widgets::list::Viewport;
use gtop_fleet::Node;
use gtop_fleet::insight::node_status::NodeStatus;

/// Scrolls to the cursor, and computes the cells and the totals of the visible lines.
pub(super) fn prepare(context: RenderContext<'_>, state: &mut State) {
    let State { grouped_rows, map: MapState { cells, symbols, viewport, .. }, heights, .. } = state;
    let grid = heights.grid;
    let visible_nodes = (grid.per_line * heights.list).min(grouped_rows.rows.len());
    let columns = visible_nodes * usize::from(grid.strip_width());
    cells.refresh(context.view, (state.metric, StaleStyle::Grey), columns);
    let map_lines = grouped_rows.lines(grid.per_line);
    let at = state.at.map(|cursor| line_of(&map_lines, grid.per_line, cursor));
    let rows = heights.list.saturating_sub(heights.legend);
    *viewport = viewport.scrolled_to(rows, map_lines.len(), at);
    let fleet = &context.view.fleet;
    for map_line in map_lines.get(viewport.range(map_lines.len())).unwrap_or_default() {
        match *map_line {
            GroupedRow::Header(group) => grouped_rows.sum_up(context.view, group),
            GroupedRow::Nodes(group, first) => {
                for member in first..first + grid.per_line {
                    let Some((member, node)) = grouped_rows.member(fleet, group, member) else {
                        break;
                    };
                    cells.add(context, (member.node_index, node), symbols);
                }
            }
        }
    }
}

/// Draws the legend and the visible lines in a view of this size.
pub(super) fn lines(context: RenderContext<'_>, state: &State, size: Size) -> Vec<Line> {
    let (width, _) = size;
    let mut lines = legend::lines(context, state, size);
    let map_lines = state.grouped_rows.lines(state.heights.grid.per_line);
    if let Some(last) = lines.pop() {
        let count = count_nodes(state, &map_lines);
        lines.push(visible_nodes(state, &map_lines).with_position(None, last, count, width));
    }
    for row in state.map.viewport.range(map_lines.len()) {
        let Some(map_line) = map_lines.get(row) else { continue };
        match *map_line {
            GroupedRow::Header(group) => {
                let Some(group_here) = state.grouped_rows.groups.get(group) else { continue };
                let is_selected = state.at == Some(CellCursor::Header(group));
                let line = group_header::line(context, group_here, width).truncated(width);
                lines.push(line.selected(is_selected).clickable_line(Click::Cell(row, 0)));
            }
            GroupedRow::Nodes(group, first) => {
                let parts = 0..state.heights.grid.size.lines;
                let drawn = parts.map(|part| nodes(context, state, (group, first), (row, part)));
                lines.extend(drawn.map(|line| line.truncated(width)));
            }
        }
    }
    lines
}

fn count_nodes(state: &State, map_lines: &[GroupedRow]) -> usize {
    let counts = map_lines.iter().map(|map_line| match *map_line {
        GroupedRow::Header(_) => 0,
        GroupedRow::Nodes(group, first) => {
            let count = state.grouped_rows.member_count(group);
            count.saturating_sub(first).min(state.heights.grid.per_line)
        }
    });
    counts.sum()
}

/// Returns the range of visible nodes; those of folded groups do not count.
fn visible_nodes(state: &State, map_lines: &[GroupedRow]) -> Viewport {
    let range = state.map.viewport.range(map_lines.len());
    let before = map_lines.get(..range.start).unwrap_or_default();
    let shown = map_lines.get(range).unwrap_or_default();
    Viewport { top: count_nodes(state, before), rows: count_nodes(state, shown) }
}

/// Stands before the node under the cursor.
const CURSOR_MARK: &str = "▸";

/// Draws one of the lines of the nodes in a row.
fn nodes(
    context: RenderContext<'_>,
    state: &State,
    (group, first): (usize, usize),
    (row, part): (usize, usize),
) -> Line {
    let grid = state.heights.grid;
    let mut line = Line::new();
    for member in first..first + grid.per_line {
        let found = state.grouped_rows.member(&context.view.fleet, group, member);
        let Some(found) = found else { break };
        let cursor = match state.at {
            Some(CellCursor::Cell(at, one, cell)) if (at, one) == (group, member) => Some(cell),
            Some(CellCursor::Cell(..) | CellCursor::Header(_)) | None => None,
        };
        let gap = if member > first { NODE_GAP } else { grid.margin };
        line = match cursor.and(gap.checked_sub(1)).filter(|_| part == 0) {
            Some(before) => line.gap(before).text(CURSOR_MARK, Tone::Accent),
            None => line.gap(gap),
        };
        line = line.append(node_block(context, state, found, (cursor, part)));
    }
    for column in 0..line.width() {
        line.clicks.push((column, column + 1, Click::Cell(row, usize::from(column))));
    }
    line
}

/// Draws one of the lines of a node: its name and cells, or why it has none.
fn node_block(
    context: RenderContext<'_>,
    state: &State,
    (member, node): (&GroupMember, &Arc<Node>),
    (cursor, part): (Option<usize>, usize),
) -> Line {
    let grid = state.heights.grid;
    let status = NodeStatus::of(node, context.view.now);
    let tone = match (cursor, status) {
        (Some(_), _) => Tone::Accent,
        (None, NodeStatus::Down) => Tone::Bad,
        (None, NodeStatus::Stale(_)) => Tone::Warn,
        (None, _) => Tone::Faint,
    };
    // A text is on the first line.
    let text = |text: &'static str| if part == 0 { text } else { "" };
    let name = if part == 0 { node.name.label() } else { "" };
    let line = Line::new().left_aligned(name, grid.name, tone).gap(1);
    if node.units().next().is_none() {
        let tone = if cursor.is_some() { Tone::Caret } else { tone };
        return line.left_aligned(text(no_devices_reason(node, status)), grid.strip_width(), tone);
    }
    if member.device_indices(node).is_empty() {
        let tone = if cursor.is_some() { Tone::Caret } else { Tone::Faint };
        return line.left_aligned(text("unknown"), grid.strip_width(), tone);
    }
    let all = state.map.cells.of(&node.name);
    let cursor_device = cursor.and_then(|cell| member.device_at(node, cell));
    let strip = member.unit_cells(node, all).map(|(position, cell)| {
        let cell = if cell.1 == Tone::Stale { STALE } else { cell };
        if cursor_device == Some(position) { (cursor_symbol(cell.0), Tone::Caret) } else { cell }
    });
    let cells = fitting_symbols(strip.collect(), usize::from(grid.cells)).into_iter();
    line.strip(cells.flat_map(|cell| grid.size.line(cell, part)).collect(), grid.strip_width())
}

/// Returns the cell under the cursor: its level as a digit, because an inverted full block would be
/// invisible.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a level is 0 to 100")]
pub(super) fn cursor_symbol(symbol: Symbol) -> Symbol {
    let Symbol::Level(part) = symbol else { return symbol };
    let digit = (part / 10.0) as u32;
    Symbol::Char(char::from_digit(digit.min(9), 10).unwrap_or('9'))
}

/// Returns why a node shows no devices, in short.
fn no_devices_reason(node: &Node, status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Down => "✗ down",
        NodeStatus::Reported if node.powered_off().is_some() => "off",
        NodeStatus::Reported if !node.takes_jobs() => "closed",
        NodeStatus::Reported => "no job",
        NodeStatus::Waiting => "waiting",
        NodeStatus::Opening(_) => "connecting",
        NodeStatus::Starting => "starting",
        NodeStatus::Fresh | NodeStatus::Stale(_) if node.has_source_problem() => "✗ fault",
        NodeStatus::Fresh | NodeStatus::Stale(_) if node.source_fault().is_some() => "starting",
        NodeStatus::Fresh | NodeStatus::Stale(_) if node.has_hidden_devices => "hidden",
        NodeStatus::Fresh | NodeStatus::Stale(_) if node.has_unreadable_devices() => "unreadable",
        NodeStatus::Fresh | NodeStatus::Stale(_) => "none",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::SourceState;
    use gtop_local::time::Timestamp;
    use gtop_model::{NodeName, Source, SourceFault, SourceFaultKind};

    #[test]
    fn a_driver_that_is_being_loaded_is_no_fault() {
        let reason = |kind| {
            let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
            let (at, duration) = (Timestamp::default(), Duration::ZERO);
            let fault =
                SourceFault { kind, call: "".into(), message: "".into(), duration, at, code: None };
            let fault = Some(Box::new(fault));
            let (source, interval) = (Source::host(), duration);
            node.sources =
                vec![SourceState { source, taken_at: None, interval, fault, absent: None }];
            no_devices_reason(&node, NodeStatus::Fresh)
        };
        assert_eq!(reason(SourceFaultKind::Starting), "starting");
        assert_eq!(reason(SourceFaultKind::Stuck), "✗ fault");
    }
}
