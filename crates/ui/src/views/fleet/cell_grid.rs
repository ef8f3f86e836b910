//! The grid of the heat map: where each device has its cell, and how a cursor moves over them.

use crate::render_context::Size;
use crate::views::fleet::cell_size::CellSize;
use crate::views::fleet::grouped_rows::{GroupedRow, GroupedRows};
use crate::widgets::list::Movement;
use gtop_fleet::Fleet;
use gtop_fleet::insight::FleetView;

/// The maximum number of cells per node; further devices are marked as overflow.
const MAX_CELLS: u16 = 16;
/// Up to this many nodes have a line each, with more cells: eight devices in eight slices.
const FEW_NODES: usize = 16;
const FEW_NODES_MAX_CELLS: u16 = 64;
/// The maximum width of a node name.
const MAX_NAME_WIDTH: u16 = 28;
/// Columns between two nodes.
pub(super) const NODE_GAP: u16 = 2;
/// Columns between the map and a panel beside it.
pub(super) const SEPARATOR_WIDTH: u16 = 3;

/// The layout of nodes side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CellGrid {
    /// The indentation of nodes below their group header.
    pub(super) margin: u16,
    pub(super) name: u16,
    /// Cells per node.
    pub(super) cells: u16,
    pub(super) size: CellSize,
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
    /// Fits as many nodes into a line as possible, in the smallest cells.
    pub(super) fn fit(fleet_view: &FleetView, width: u16) -> Self {
        let name = fleet_view.extents.name.clamp(1, MAX_NAME_WIDTH).min((width / 3).max(1));
        let margin = u16::from(width >= 40);
        let room = width.saturating_sub(margin + name + 1).max(1);
        let is_few = fleet_view.count() <= FEW_NODES;
        let max_cells = if is_few { FEW_NODES_MAX_CELLS } else { MAX_CELLS };
        let cells = fleet_view.extents.devices.clamp(8, max_cells).min(room);
        Self { margin, name, cells, ..Self::default() }.sized(CellSize::default(), width)
    }

    /// Returns the grid with the largest cells with which all nodes fit: first as wide as possible, then as high.
    pub(super) fn grown(self, rows: &GroupedRows, (width, height): Size) -> Self {
        let fits = |grid: &Self| grid.width(1) <= width && grid.height(rows) <= height;
        let sized = |grid: Self, size| Some(grid.sized(size, width)).filter(fits);
        let wide = self.size.wider().find_map(|size| sized(self, size)).unwrap_or(self);
        wide.size.higher().find_map(|size| sized(wide, size)).unwrap_or(wide)
    }

    fn sized(self, size: CellSize, width: u16) -> Self {
        let grid = Self { size, ..self };
        let room = usize::from(width.saturating_sub(self.margin) + NODE_GAP);
        Self { per_line: (room / grid.block()).max(1), ..grid }
    }

    /// Returns the columns of the cells of a node.
    pub(super) const fn strip_width(self) -> u16 {
        self.cells * self.size.columns
    }

    /// Returns the columns of a node, with the gap behind it.
    fn block(self) -> usize {
        usize::from(self.name + 1 + self.strip_width() + NODE_GAP)
    }

    /// Returns the columns of the longest line of so many nodes.
    pub(super) fn width(self, nodes: usize) -> u16 {
        let blocks = self.per_line.min(nodes) * self.block();
        u16::try_from(blocks).unwrap_or(u16::MAX).saturating_sub(NODE_GAP) + self.margin
    }

    /// Returns the lines that these rows take.
    pub(super) fn height(self, rows: &GroupedRows) -> usize {
        let lines = rows.lines(self.per_line).into_iter();
        let heights = lines.map(|line| match line {
            GroupedRow::Header(_) => 1,
            GroupedRow::Nodes(..) => self.size.lines,
        });
        heights.sum()
    }

    /// Returns the node within a line, and its cell, at a column.
    pub(super) fn at(self, column: usize) -> (usize, usize) {
        let column = column.saturating_sub(usize::from(self.margin));
        let in_strip = (column % self.block()).saturating_sub(usize::from(self.name + 1));
        (column / self.block(), in_strip / usize::from(self.size.columns))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::views::fleet::group::Group;
    use crate::views::fleet::grouped_rows::GroupedRowOptions;
    use crate::views::fleet::grouping::Grouping;
    use gtop_fleet::query::SortOrder;
    use gtop_fleet::{JobLookup, Node};
    use gtop_local::time::Timestamp;
    use gtop_model::{Device, NodeName};

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
    fn cells_grow_until_all_nodes_just_fit() {
        let grown = |nodes: usize, size: Size, grouping| {
            let fleet_view = fleet_view(&vec![8; nodes]);
            let rows = grouped_rows(&fleet_view, grouping);
            let grid = CellGrid::fit(&fleet_view, size.0).grown(&rows, size);
            let CellSize { columns, lines } = grid.size;
            assert!(grid.height(&rows) <= size.1 || (columns, lines) == (1, 1), "{nodes} {size:?}");
            assert!(grid.width(nodes) <= size.0, "{nodes} {size:?}");
            (columns, lines)
        };
        for (nodes, size, expected) in [
            (1, (80, 20), (4, 3)),
            (1, (30, 20), (3, 3)),
            (4, (80, 4), (4, 2)),
            (12, (80, 5), (2, 1)),
            (12, (80, 20), (4, 3)),
            (64, (80, 26), (2, 1)),
            (64, (80, 20), (1, 1)),
            (64, (80, 4), (1, 1)),
            (64, (200, 20), (4, 1)),
        ] {
            assert_eq!(grown(nodes, size, Grouping::None), expected, "{nodes} {size:?}");
        }
        // The header of the group takes a line.
        assert_eq!(grown(4, (80, 4), Grouping::Range), (4, 1));
    }

    #[test]
    fn a_column_of_a_wide_cell_leads_to_its_device() {
        let grid = CellGrid::fit(&fleet_view(&[8; 3]), 80);
        let grid = grid.sized(CellSize { columns: 4, lines: 1 }, 80);
        let first = 1 + 5 + 1;
        assert_eq!([0, 3, 4, 31].map(|column| grid.at(first + column).1), [0, 0, 1, 7]);
        assert_eq!(grid.at(first + 4 * 8 + 2 + 6 + 13), (1, 3));
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
