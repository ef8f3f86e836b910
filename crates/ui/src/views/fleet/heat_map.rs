//! The heat map: one cell per device, the nodes of a group side by side, and a cursor over devices.

use std::sync::Arc;

use crate::input::Click;
use crate::render_context::{RenderContext, Size};
use crate::views::fleet::State;
use crate::views::fleet::cells::StaleStyle;
use crate::views::fleet::group::GroupMember;
use crate::views::fleet::group_header;
use crate::views::fleet::grouped_rows::{GroupedRow, GroupedRows};
use crate::views::fleet::legend;
use crate::widgets::line::{Line, Symbol, Tone};
use crate::widgets::list::{Movement, Viewport};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::{Fleet, Node};

/// The maximum number of cells per node; further devices are marked as overflow.
const MAX_CELLS: u16 = 16;
/// Up to this many nodes have a line each, with more cells: eight devices in eight slices.
const FEW_NODES: usize = 16;
const FEW_NODES_MAX_CELLS: u16 = 64;
/// The maximum width of a node name.
const MAX_NAME_WIDTH: u16 = 28;
/// Columns between two nodes.
const NODE_GAP: u16 = 2;

/// The layout of nodes side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CellGrid {
    /// The indentation of nodes below their group header.
    margin: u16,
    name: u16,
    cells: u16,
    /// Nodes per line.
    pub(super) per_line: usize,
}

/// The position of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellCursor {
    /// On the header of the group with this index.
    Header(usize),
    /// On a member of a group, and on one of its cells if it has any.
    Cell(usize, usize, usize),
}

impl CellCursor {
    pub(super) const fn group(self) -> usize {
        let (Self::Header(group) | Self::Cell(group, _, _)) = self;
        group
    }
}

impl From<GroupedRow> for CellCursor {
    fn from(row: GroupedRow) -> Self {
        match row {
            GroupedRow::Header(group) => Self::Header(group),
            GroupedRow::Nodes(group, member) => Self::Cell(group, member, 0),
        }
    }
}

impl CellGrid {
    /// Fits as many nodes into a line as possible.
    pub(super) fn fit(fleet_view: &FleetView, width: u16) -> Self {
        let name = fleet_view.extents.name.clamp(1, MAX_NAME_WIDTH).min((width / 3).max(1));
        let margin = u16::from(width >= 40);
        let room = width.saturating_sub(margin + name + 1).max(1);
        let is_few = fleet_view.count() <= FEW_NODES;
        let max_cells = if is_few { FEW_NODES_MAX_CELLS } else { MAX_CELLS };
        let cells = fleet_view.extents.devices.clamp(8, max_cells).min(room);
        let block = name + 1 + cells + NODE_GAP;
        let per_line = usize::from(width.saturating_sub(margin) + NODE_GAP) / usize::from(block);
        Self { margin, name, cells, per_line: per_line.max(1) }
    }

    /// Returns the node within a line, and its cell, at a column.
    pub(super) fn at(self, column: usize) -> (usize, usize) {
        let column = column.saturating_sub(usize::from(self.margin));
        let block = usize::from(self.name + 1 + self.cells + NODE_GAP);
        (column / block, (column % block).saturating_sub(usize::from(self.name + 1)))
    }
}

/// Rows of nodes, laid out side by side.
#[derive(Clone, Copy)]
pub(super) struct HeatMap<'a> {
    pub(super) rows: &'a GroupedRows,
    pub(super) fleet: &'a Fleet,
    pub(super) grid: CellGrid,
}

impl HeatMap<'_> {
    /// Returns the cursor position on a line that is closest to a node column and cell column.
    pub(super) fn nearest(
        self,
        map_line: GroupedRow,
        (column, cell): (usize, usize),
    ) -> CellCursor {
        match map_line {
            GroupedRow::Header(group) => CellCursor::Header(group),
            GroupedRow::Nodes(group, first) => {
                let member = first + column.min(self.grid.per_line.saturating_sub(1));
                let member = member.min(self.rows.member_count(group).saturating_sub(1));
                let last_cell = self.rows.last_cell(self.fleet, (group, member));
                CellCursor::Cell(group, member, cell.min(last_cell))
            }
        }
    }

    pub(super) fn moved_vertically(
        self,
        (cursor, preferred_column): (CellCursor, (usize, usize)),
        (movement, page): (Movement, usize),
    ) -> CellCursor {
        let map_lines = self.rows.lines(self.grid.per_line);
        let at = line_of(&map_lines, self.grid.per_line, cursor);
        let to = movement.new_index(at, map_lines.len(), page);
        let column = match movement {
            Movement::Home => (0, 0),
            Movement::End => (usize::MAX, usize::MAX),
            Movement::Up | Movement::Down | Movement::PageUp | Movement::PageDown => {
                preferred_column
            }
        };
        map_lines.get(to).map_or(cursor, |map_line| self.nearest(*map_line, column))
    }

    /// Returns the cursor after a move left or right, which continues on the next or previous line.
    pub(super) fn moved_horizontally(self, cursor: CellCursor, is_forward: bool) -> CellCursor {
        let CellCursor::Cell(at, member, cell) = cursor else { return cursor };
        let groups = self.rows.groups.iter().enumerate().filter(|(_, group)| !group.is_folded);
        let members =
            groups.flat_map(|(at, group)| (0..group.members.len()).map(move |member| (at, member)));
        let here = (at, member);
        let to = if is_forward && cell < self.rows.last_cell(self.fleet, here) {
            Some((here, cell + 1))
        } else if is_forward {
            members.skip_while(|place| *place != here).nth(1).map(|next| (next, 0))
        } else if cell > 0 {
            Some((here, cell - 1))
        } else {
            let before = members.take_while(|place| *place != here).last();
            before.map(|before| (before, self.rows.last_cell(self.fleet, before)))
        };
        to.map_or(cursor, |((group, member), cell)| CellCursor::Cell(group, member, cell))
    }
}

/// Returns the line of the cursor among lines with so many nodes; the first if the cursor is on none.
pub(super) fn line_of(lines: &[GroupedRow], per_line: usize, cursor: CellCursor) -> usize {
    let at = lines.iter().position(|line| match (*line, cursor) {
        (GroupedRow::Header(line_group), CellCursor::Header(group)) => line_group == group,
        (GroupedRow::Nodes(line_group, first), CellCursor::Cell(group, member, _)) => {
            line_group == group && (first..first + per_line.max(1)).contains(&member)
        }
        _ => false,
    });
    at.unwrap_or(0)
}

/// Returns the number of lines of the whole heat map, legend included.
pub(super) fn height(context: RenderContext<'_>, state: &State, size: Size) -> usize {
    let (width, room) = size;
    let grid = CellGrid::fit(context.view, width);
    legend::lines(context, state, (width, room)).len()
        + state.grouped_rows.lines(grid.per_line).len()
}

/// Draws the legend and the visible lines, the cursor among them; the length of the legend depends on `room`,
/// the height of the view.
pub(super) fn lines(
    context: RenderContext<'_>,
    state: &mut State,
    cursor: Option<CellCursor>,
    (width, height): (u16, usize),
    room: usize,
) -> Vec<Line> {
    state.grid = CellGrid::fit(context.view, width);
    let mut lines = legend::lines(context, state, (width, room));
    let visible_cells = state.grid.per_line * usize::from(state.grid.cells) * height;
    let all_cells = state.grouped_rows.rows.len() * usize::from(state.grid.cells);
    let style = (state.metric, StaleStyle::Grey);
    state.cells.refresh(context.view, style, visible_cells.min(all_cells));
    let rows = height.saturating_sub(lines.len());
    let map_lines = state.grouped_rows.lines(state.grid.per_line);
    let at = cursor.map(|cursor| line_of(&map_lines, state.grid.per_line, cursor));
    state.viewport.scroll_to(rows, map_lines.len(), at);
    if let Some(last) = lines.pop() {
        let count = count_nodes(state, &map_lines);
        lines.push(visible_nodes(state, &map_lines).with_position(None, last, count, width));
    }
    for row in state.viewport.range(map_lines.len()) {
        let Some(map_line) = map_lines.get(row) else { continue };
        let line = match *map_line {
            GroupedRow::Header(group) => {
                let Some(group_here) = state.grouped_rows.groups.get_mut(group) else { continue };
                let is_selected = cursor == Some(CellCursor::Header(group));
                group_header::line(context, group_here, width)
                    .selected(is_selected)
                    .clickable_line(Click::Cell(row, 0))
            }
            GroupedRow::Nodes(group, first) => nodes(context, state, (group, first), cursor, row),
        };
        lines.push(line.truncated(width));
    }
    lines
}

fn count_nodes(state: &State, map_lines: &[GroupedRow]) -> usize {
    let counts = map_lines.iter().map(|map_line| match *map_line {
        GroupedRow::Header(_) => 0,
        GroupedRow::Nodes(group, first) => {
            let count = state.grouped_rows.member_count(group);
            count.saturating_sub(first).min(state.grid.per_line)
        }
    });
    counts.sum()
}

/// Returns the range of visible nodes; those of folded groups do not count.
fn visible_nodes(state: &State, map_lines: &[GroupedRow]) -> Viewport {
    let range = state.viewport.range(map_lines.len());
    let before = map_lines.get(..range.start).unwrap_or_default();
    let shown = map_lines.get(range).unwrap_or_default();
    Viewport { top: count_nodes(state, before), rows: count_nodes(state, shown) }
}

fn nodes(
    context: RenderContext<'_>,
    state: &mut State,
    (group, first): (usize, usize),
    cursor: Option<CellCursor>,
    row: usize,
) -> Line {
    let grid = state.grid;
    let mut line = Line::new().gap(grid.margin);
    for member in first..first + grid.per_line {
        let found = state.grouped_rows.member(&context.view.fleet, group, member);
        let Some((member_here, node)) = found else { break };
        let (member_here, node) = (member_here.clone(), Arc::clone(node));
        if member > first {
            line = line.gap(NODE_GAP);
        }
        let cursor = match cursor {
            Some(CellCursor::Cell(at, one, cell)) if (at, one) == (group, member) => Some(cell),
            Some(CellCursor::Cell(..) | CellCursor::Header(_)) | None => None,
        };
        line = line.append(node_block(context, state, (&member_here, &node), cursor));
    }
    for column in 0..line.width() {
        line.clicks.push((column, column + 1, Click::Cell(row, usize::from(column))));
    }
    line
}

/// Draws a node: its name and cells, or why it has none.
fn node_block(
    context: RenderContext<'_>,
    state: &mut State,
    (member, node): (&GroupMember, &Node),
    cursor: Option<usize>,
) -> Line {
    let grid = state.grid;
    let status = NodeStatus::of(node, context.view.now);
    let tone = match (cursor, status) {
        (Some(_), _) => Tone::Accent,
        (None, NodeStatus::Down) => Tone::Bad,
        (None, NodeStatus::Stale(_)) => Tone::Warn,
        (None, _) => Tone::Faint,
    };
    let line = Line::new().left_aligned(node.name.label(), grid.name, tone).gap(1);
    if node.units().next().is_none() {
        let tone = if cursor.is_some() { Tone::Caret } else { tone };
        return line.left_aligned(no_devices_reason(node, status), grid.cells, tone);
    }
    if member.device_indices(node).is_empty() {
        let tone = if cursor.is_some() { Tone::Caret } else { Tone::Faint };
        return line.left_aligned("unknown", grid.cells, tone);
    }
    let all = state.cells.of(context, (member.node_index, node), &state.symbols);
    let cursor_device = cursor.and_then(|cell| member.device_at(node, cell));
    let strip = member.unit_cells(node, &all).map(|(position, cell)| {
        if cursor_device == Some(position) { (cursor_symbol(cell.0), Tone::Caret) } else { cell }
    });
    line.strip(strip.collect(), grid.cells)
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
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::views::fleet::group::Group;
    use crate::views::fleet::grouped_rows::GroupedRowOptions;
    use crate::views::fleet::grouping::Grouping;
    use gtop_fleet::JobLookup;
    use gtop_fleet::SourceState;
    use gtop_fleet::query::SortOrder;
    use gtop_local::time::Timestamp;
    use gtop_model::{Device, NodeName, Source, SourceFault, SourceFaultKind};

    /// Nodes with these device counts.
    fn fleet_view(devices: &[usize]) -> FleetView {
        let node = |(number, count): (usize, &usize)| {
            let name = NodeName::new(&format!("gpu{:02}", number + 1)).unwrap();
            let mut node = Node::new(name, Duration::ZERO);
            let device = |index| Device { uuid: format!("{index}").into(), ..Device::default() };
            node.devices = (0..*count).map(device).collect();
            Arc::new(node)
        };
        let nodes: Vec<_> = devices.iter().enumerate().map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn grouped_rows(fleet_view: &FleetView, grouping: Grouping) -> GroupedRows {
        let mut grouped_rows = GroupedRows::default();
        let order = SortOrder::by("node");
        let folded_groups = BTreeSet::new();
        grouped_rows.refresh(
            fleet_view,
            &JobLookup::default(),
            GroupedRowOptions { order, grouping, folded_groups: &folded_groups, fold_version: 0 },
        );
        grouped_rows
    }

    fn heat_map<'a>(rows: &'a GroupedRows, fleet_view: &'a FleetView) -> HeatMap<'a> {
        HeatMap { rows, fleet: &fleet_view.fleet, grid: CellGrid::fit(fleet_view, 80) }
    }

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

    #[test]
    fn few_nodes_show_all_slices_of_a_node() {
        assert_eq!(CellGrid::fit(&fleet_view(&[56; 16]), 80).cells, 56);
        assert_eq!(CellGrid::fit(&fleet_view(&[56; 17]), 80).cells, 16);
        assert_eq!(CellGrid::fit(&fleet_view(&[56; 2]), 40).cells, 33);
    }

    #[test]
    fn a_line_holds_as_many_nodes_as_fit() {
        for (width, per_line) in [(0, 1), (1, 1), (20, 1), (80, 5), (120, 7), (200, 12)] {
            assert_eq!(CellGrid::fit(&fleet_view(&[8; 3]), width).per_line, per_line, "{width}");
        }
        let grid = CellGrid::fit(&fleet_view(&[8; 3]), 80);
        assert_eq!(grid.at(1 + 5 + 1), (0, 0));
        assert_eq!(grid.at(1 + 16 + 6 + 3), (1, 3));
    }

    #[test]
    fn moving_right_and_left_visits_all_cells_in_order() {
        let fleet_view = fleet_view(&[2, 0, 3]);
        let grouped_rows = grouped_rows(&fleet_view, Grouping::None);
        let map = heat_map(&grouped_rows, &fleet_view);
        let mut cursors = vec![CellCursor::Cell(0, 0, 0)];
        for _ in 0..6 {
            let last = *cursors.last().unwrap();
            cursors.push(map.moved_horizontally(last, true));
        }
        let all = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 2)];
        assert_eq!(cursors, all.map(|(member, cell)| CellCursor::Cell(0, member, cell)));
        for pair in cursors.windows(2).rev().skip(1) {
            assert_eq!(map.moved_horizontally(pair[1], false), pair[0]);
        }
        assert_eq!(map.moved_horizontally(cursors[0], false), cursors[0]);
    }

    #[test]
    fn moving_right_and_left_passes_from_group_to_group_but_not_into_folded_ones() {
        let fleet_view = fleet_view(&[2, 1, 2]);
        let mut rows = grouped_rows(&fleet_view, Grouping::None);
        let mut groups = Vec::new();
        for member in &rows.groups[0].members {
            groups.push(Group { members: vec![member.clone()], ..rows.groups[0].clone() });
        }
        rows.groups = groups;
        let moved = |rows: &GroupedRows, from: (usize, usize), is_forward| {
            let from = CellCursor::Cell(from.0, 0, from.1);
            match heat_map(rows, &fleet_view).moved_horizontally(from, is_forward) {
                CellCursor::Cell(group, 0, cell) => (group, cell),
                other @ (CellCursor::Header(_) | CellCursor::Cell(..)) => panic!("{other:?}"),
            }
        };
        assert_eq!([moved(&rows, (0, 1), true), moved(&rows, (1, 0), true)], [(1, 0), (2, 0)]);
        assert_eq!([moved(&rows, (2, 0), false), moved(&rows, (1, 0), false)], [(1, 0), (0, 1)]);
        rows.groups[1].is_folded = true;
        assert_eq!([moved(&rows, (0, 1), true), moved(&rows, (2, 0), false)], [(2, 0), (0, 1)]);
        rows.groups[2].is_folded = true;
        assert_eq!([moved(&rows, (0, 1), true), moved(&rows, (0, 0), false)], [(0, 1), (0, 0)]);
        let header = CellCursor::Header(0);
        assert_eq!(heat_map(&rows, &fleet_view).moved_horizontally(header, true), header);
    }

    #[test]
    fn moving_up_and_down_keeps_the_column_across_headers_and_short_lines() {
        let fleet_view = fleet_view(&[8; 24]);
        let grouped_rows = grouped_rows(&fleet_view, Grouping::Range);
        let map = heat_map(&grouped_rows, &fleet_view);
        let preferred_column = (3, 5);
        let mut cursor = CellCursor::Cell(0, 8, 5);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let to = map.moved_vertically((cursor, preferred_column), (Movement::Down, 1));
            seen.push(to);
            cursor = to;
        }
        assert_eq!(
            seen,
            [
                CellCursor::Cell(0, 13, 5),
                CellCursor::Cell(0, 15, 5),
                CellCursor::Header(1),
                CellCursor::Cell(1, 3, 5)
            ]
        );
        let end = map.moved_vertically((cursor, preferred_column), (Movement::End, 1));
        assert_eq!(end, CellCursor::Cell(1, 7, 7));
        let home = map.moved_vertically((end, preferred_column), (Movement::Home, 1));
        assert_eq!(home, CellCursor::Header(0));
    }

    #[test]
    fn a_folded_group_is_one_line() {
        let fleet_view = fleet_view(&[8; 24]);
        let mut grouped_rows = grouped_rows(&fleet_view, Grouping::Range);
        let grid = CellGrid::fit(&fleet_view, 80);
        assert_eq!(grouped_rows.lines(grid.per_line).len(), 2 + 4 + 2);
        grouped_rows.groups[0].is_folded = true;
        let lines = grouped_rows.lines(grid.per_line);
        let [first, second] = [GroupedRow::Nodes(1, 0), GroupedRow::Nodes(1, 5)];
        assert_eq!(lines, [GroupedRow::Header(0), GroupedRow::Header(1), first, second]);
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(line_of(&lines, grid.per_line, CellCursor::from(*line)), at);
        }
        assert_eq!(line_of(&lines, grid.per_line, CellCursor::Cell(1, 7, 0)), 3);
    }
}
