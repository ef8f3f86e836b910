//! The heat map: one cell a device, the nodes of a group side by side, and a cursor over devices.

use std::sync::Arc;

use crate::fleet::{Fleet, Node};
use crate::view::RenderContext;
use crate::view::fleet::State;
use crate::view::fleet::cell::Old;
use crate::view::fleet::head;
use crate::view::fleet::legend;
use crate::view::fleet::plan::{Member, Plan};
use crate::view::fleet_view::FleetView;
use crate::view::input::Click;
use crate::view::line::{Line, Symbol, Tone};
use crate::view::navigation::{Movement, Viewport};
use crate::view::node_status::NodeStatus;

/// The most cells a node takes; one with more says so.
const CELLS: u16 = 16;
/// The widest name.
const NAME: u16 = 28;
/// Columns between two nodes.
const GAP: u16 = 2;

/// How nodes stand side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grid {
    /// The margin, with which nodes stand under the head of their group.
    margin: u16,
    name: u16,
    cells: u16,
    /// Nodes in a line.
    pub(super) per_line: usize,
}

/// A line of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Band {
    /// The head of a group.
    Head(usize),
    /// Nodes of a group, from this one on.
    Nodes(usize, usize),
}

/// Where the cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    /// On the head of a group.
    Head(usize),
    /// On a member of a group, and on this of its cells if it has any.
    Cell(usize, usize, usize),
}

impl Grid {
    /// Fits as many nodes into a line as there is room for.
    pub(super) fn fit(picture: &FleetView, width: u16) -> Self {
        let name = picture.shape.name.clamp(1, NAME).min((width / 3).max(1));
        let margin = u16::from(width >= 40);
        let room = width.saturating_sub(margin + name + 1).max(1);
        let cells = picture.shape.devices.clamp(8, CELLS).min(room);
        let block = name + 1 + cells + GAP;
        let per_line = usize::from(width.saturating_sub(margin) + GAP) / usize::from(block);
        Self { margin, name, cells, per_line: per_line.max(1) }
    }

    /// Returns which node of a line, and which of its cells, is at a column.
    pub(super) fn at(self, column: usize) -> (usize, usize) {
        let column = column.saturating_sub(usize::from(self.margin));
        let block = usize::from(self.name + 1 + self.cells + GAP);
        (column / block, (column % block).saturating_sub(usize::from(self.name + 1)))
    }
}

/// Returns the lines of the map.
pub(super) fn bands(plan: &Plan, grid: Grid) -> Vec<Band> {
    let mut bands = Vec::new();
    for (place, group) in plan.groups.iter().enumerate() {
        if plan.is_grouped {
            bands.push(Band::Head(place));
        }
        if !group.is_folded {
            let firsts = (0..group.members.len()).step_by(grid.per_line.max(1));
            bands.extend(firsts.map(|first| Band::Nodes(place, first)));
        }
    }
    bands
}

/// Returns the line a spot is on.
pub(super) fn band_of(bands: &[Band], grid: Grid, spot: Cursor) -> usize {
    let is_it = |band: &Band| match (*band, spot) {
        (Band::Head(own), Cursor::Head(group)) => own == group,
        (Band::Nodes(own, first), Cursor::Cell(group, member, _)) => {
            own == group && (first..first + grid.per_line.max(1)).contains(&member)
        }
        (Band::Head(_), Cursor::Cell(..)) | (Band::Nodes(..), Cursor::Head(_)) => false,
    };
    bands.iter().position(is_it).unwrap_or(0)
}

/// Returns the spot on a line that is nearest to a column of nodes and of cells.
pub(super) fn spot_on(
    plan: &Plan,
    fleet: &Fleet,
    band: Band,
    grid: Grid,
    near: (usize, usize),
) -> Cursor {
    match band {
        Band::Head(group) => Cursor::Head(group),
        Band::Nodes(group, first) => {
            let count = plan.groups.get(group).map_or(0, |group| group.members.len());
            let member =
                (first + near.0.min(grid.per_line.saturating_sub(1))).min(count.saturating_sub(1));
            let cells = plan.member(fleet, group, member);
            let cells = cells.map_or(0, |(member, node)| member.positions(node).len());
            Cursor::Cell(group, member, near.1.min(cells.saturating_sub(1)))
        }
    }
}

/// Returns where a move up or down leads.
pub(super) fn stepped(
    plan: &Plan,
    fleet: &Fleet,
    grid: Grid,
    (spot, near): (Cursor, (usize, usize)),
    (step, page): (Movement, usize),
) -> Cursor {
    let bands = bands(plan, grid);
    let at = band_of(&bands, grid, spot);
    let to = step.from(at, bands.len(), page);
    let near = match step {
        Movement::Home => (0, 0),
        Movement::End => (usize::MAX, usize::MAX),
        Movement::Up | Movement::Down | Movement::PageUp | Movement::PageDown => near,
    };
    bands.get(to).map_or(spot, |band| spot_on(plan, fleet, *band, grid, near))
}

/// Returns where a move to the left or right leads: over all cells as one reads.
pub(super) fn beside(plan: &Plan, fleet: &Fleet, spot: Cursor, is_forward: bool) -> Cursor {
    let Cursor::Cell(group, member, cell) = spot else { return spot };
    let cells = |group, member| {
        plan.member(fleet, group, member).map(|(member, node)| member.positions(node).len())
    };
    let open = |group: &usize| {
        plan.groups.get(*group).is_some_and(|one| !one.is_folded && !one.members.is_empty())
    };
    if is_forward {
        if cell + 1 < cells(group, member).unwrap_or(0) {
            return Cursor::Cell(group, member, cell + 1);
        }
        if cells(group, member + 1).is_some() {
            return Cursor::Cell(group, member + 1, 0);
        }
        let next = (group + 1..plan.groups.len()).find(open);
        return next.map_or(spot, |group| Cursor::Cell(group, 0, 0));
    }
    let last_of = |group, member| {
        Cursor::Cell(group, member, cells(group, member).unwrap_or(0).saturating_sub(1))
    };
    match (cell, member) {
        (1.., _) => Cursor::Cell(group, member, cell - 1),
        (0, 1..) => last_of(group, member - 1),
        (0, 0) => {
            let before = (0..group).rev().find(open);
            let last = |group: usize| {
                plan.groups.get(group).map_or(0, |one| one.members.len().saturating_sub(1))
            };
            before.map_or(spot, |group| last_of(group, last(group)))
        }
    }
}

/// Returns how many lines the whole map takes, its legend included.
pub(super) fn height(
    scene: RenderContext<'_>,
    place: &State,
    (width, room): (u16, usize),
) -> usize {
    let grid = Grid::fit(scene.picture, width);
    legend::lines(scene, place, width, room).len() + bands(&place.plan, grid).len()
}

/// Returns the legend and the lines in sight, with the cursor on one of them; `room` is all there is
/// for the view, and decides how long the legend is.
pub(super) fn lines(
    scene: RenderContext<'_>,
    place: &mut State,
    spot: Option<Cursor>,
    (width, height): (u16, usize),
    room: usize,
) -> Vec<Line> {
    place.grid = Grid::fit(scene.picture, width);
    let mut lines = legend::lines(scene, place, width, room);
    let in_sight = place.grid.per_line * usize::from(place.grid.cells) * height;
    let known = place.plan.rows.len() * usize::from(place.grid.cells);
    place.cells.settle(scene.picture, (place.quantity, Old::Faint), in_sight.min(known));
    let rows = height.saturating_sub(lines.len());
    let bands = bands(&place.plan, place.grid);
    let at = spot.map(|spot| band_of(&bands, place.grid, spot));
    place.window.settle(rows, bands.len(), at);
    if let Some(last) = lines.pop() {
        lines.push(scrolled(place, &bands).beside(last, nodes_on(place, &bands), width));
    }
    for row in place.window.range(bands.len()) {
        let Some(band) = bands.get(row) else { continue };
        let line = match *band {
            Band::Head(group) => {
                let Some(one) = place.plan.groups.get_mut(group) else { continue };
                let is_selected = spot == Some(Cursor::Head(group));
                head::line(scene, one, width).selected(is_selected).click(Click::Cell(row, 0))
            }
            Band::Nodes(group, first) => nodes(scene, place, (group, first), spot, row),
        };
        lines.push(line.cut(width));
    }
    lines
}

/// Counts the nodes on some lines.
fn nodes_on(place: &State, bands: &[Band]) -> usize {
    let on = |band: &Band| match *band {
        Band::Head(_) => 0,
        Band::Nodes(group, first) => {
            let count = place.plan.groups.get(group).map_or(0, |group| group.members.len());
            count.saturating_sub(first).min(place.grid.per_line)
        }
    };
    bands.iter().map(on).sum()
}

/// Returns which nodes are in sight; those of folded groups do not count.
fn scrolled(place: &State, bands: &[Band]) -> Viewport {
    let in_sight = place.window.range(bands.len());
    let before = bands.get(..in_sight.start).unwrap_or_default();
    let shown = bands.get(in_sight).unwrap_or_default();
    Viewport { top: nodes_on(place, before), rows: nodes_on(place, shown) }
}

/// Nodes side by side.
fn nodes(
    scene: RenderContext<'_>,
    place: &mut State,
    (group, first): (usize, usize),
    spot: Option<Cursor>,
    row: usize,
) -> Line {
    let grid = place.grid;
    let mut line = Line::new().gap(grid.margin);
    for member in first..first + grid.per_line {
        let found = place.plan.member(&scene.picture.fleet, group, member);
        let Some((own, node)) = found.map(|(own, node)| (own.clone(), Arc::clone(node))) else {
            break;
        };
        if member > first {
            line = line.gap(GAP);
        }
        let cursor = match spot {
            Some(Cursor::Cell(at, one, cell)) if (at, one) == (group, member) => Some(cell),
            Some(Cursor::Cell(..) | Cursor::Head(_)) | None => None,
        };
        line = line.then(node_block(scene, place, (&own, &node), cursor));
    }
    let width = line.width();
    (0..width).fold(line, |mut line, column| {
        line.clicks.push((column, column + 1, Click::Cell(row, usize::from(column))));
        line
    })
}

/// A node: its name and its cells, or why it has none.
fn node_block(
    scene: RenderContext<'_>,
    place: &mut State,
    (member, node): (&Member, &Node),
    cursor: Option<usize>,
) -> Line {
    let grid = place.grid;
    let standing = NodeStatus::of(node, scene.picture.now);
    let tone = match (cursor, standing) {
        (Some(_), _) => Tone::Accent,
        (None, NodeStatus::Down) => Tone::Bad,
        (None, NodeStatus::Stale(_)) => Tone::Warn,
        (None, _) => Tone::Faint,
    };
    let line = Line::new().left(node.name.label(), grid.name, tone).gap(1);
    let all: Vec<usize> = super::claim::whole_devices(node).collect();
    if all.is_empty() {
        let tone = if cursor.is_some() { Tone::Caret } else { tone };
        return line.left(absence(node, standing), grid.cells, tone);
    }
    if member.positions(node).is_empty() {
        let tone = if cursor.is_some() { Tone::Caret } else { Tone::Faint };
        return line.left("not told", grid.cells, tone);
    }
    let State { cells, roll, letters, .. } = place;
    let marks = cells.of(scene, (member.place, node), roll, letters);
    let under = cursor.and_then(|cell| member.positions(node).get(cell).copied());
    let strip = all.into_iter().map(|position| {
        let blank = (Symbol::Char(' '), Tone::Faint);
        let mark = marks.get(position).copied().filter(|_| member.has(position));
        let mark = mark.unwrap_or(blank);
        if under == Some(position) { (pointed(mark.0), Tone::Caret) } else { mark }
    });
    line.strip(strip.collect(), grid.cells)
}

/// A full block turned around would be a hole: the cell under the cursor says its level as a digit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a level is between 0 and 100"
)]
fn pointed(mark: Symbol) -> Symbol {
    match mark {
        Symbol::Level(part) => {
            let digit = (part / 10.0) as u32;
            Symbol::Char(char::from_digit(digit.min(9), 10).unwrap_or('9'))
        }
        other @ (Symbol::Idle
        | Symbol::Unknown
        | Symbol::Faulty
        | Symbol::Overflow
        | Symbol::Char(_)
        | Symbol::Letter(..)) => other,
    }
}

/// Why a node shows no devices, in a word or two.
fn absence(node: &Node, standing: NodeStatus) -> &'static str {
    match standing {
        NodeStatus::Down => "✗ down",
        NodeStatus::Waiting => "waiting",
        NodeStatus::Opening(_) => "connecting",
        NodeStatus::Starting => "starting",
        NodeStatus::Fresh | NodeStatus::Stale(_) if node.source_fault().is_some() => "✗ fault",
        NodeStatus::Fresh | NodeStatus::Stale(_) if node.numbering.is_some() => "hidden",
        NodeStatus::Fresh | NodeStatus::Stale(_) => "none",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::model::{Device, NodeName};
    use crate::time::Timestamp;
    use crate::view::fleet::claim::Roll;
    use crate::view::fleet::grouping::Grouping;
    use crate::view::fleet::plan::Wish;
    use crate::view::sort_order::SortOrder;

    /// Nodes with so many devices each.
    fn picture(devices: &[usize]) -> FleetView {
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

    fn plan(picture: &FleetView, grouping: Grouping) -> Plan {
        let mut plan = Plan::default();
        let order = SortOrder::by("node");
        let folded = BTreeSet::new();
        plan.settle(picture, &Roll::default(), Wish { order, grouping, folded: &folded, folds: 0 });
        plan
    }

    #[test]
    fn as_many_nodes_stand_in_a_line_as_fit() {
        for (width, per_line) in [(0, 1), (1, 1), (20, 1), (80, 5), (120, 7), (200, 12)] {
            assert_eq!(Grid::fit(&picture(&[8; 3]), width).per_line, per_line, "{width}");
        }
        let grid = Grid::fit(&picture(&[8; 3]), 80);
        assert_eq!(grid.at(1 + 5 + 1), (0, 0));
        assert_eq!(grid.at(1 + 16 + 6 + 3), (1, 3));
    }

    #[test]
    fn the_cursor_goes_over_all_cells_as_one_reads_and_back() {
        let picture = picture(&[2, 0, 3]);
        let plan = plan(&picture, Grouping::None);
        let mut spots = vec![Cursor::Cell(0, 0, 0)];
        for _ in 0..6 {
            let last = *spots.last().unwrap();
            spots.push(beside(&plan, &picture.fleet, last, true));
        }
        let all = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 2)];
        assert_eq!(spots, all.map(|(member, cell)| Cursor::Cell(0, member, cell)));
        for pair in spots.windows(2).rev().skip(1) {
            assert_eq!(beside(&plan, &picture.fleet, pair[1], false), pair[0]);
        }
        assert_eq!(beside(&plan, &picture.fleet, spots[0], false), spots[0]);
    }

    #[test]
    fn up_and_down_keep_the_column_across_heads_and_short_lines() {
        let picture = picture(&[8; 24]);
        let plan = plan(&picture, Grouping::Range);
        let grid = Grid::fit(&picture, 80);
        let near = (3, 5);
        let mut spot = Cursor::Cell(0, 8, 5);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let to = stepped(&plan, &picture.fleet, grid, (spot, near), (Movement::Down, 1));
            seen.push(to);
            spot = to;
        }
        assert_eq!(
            seen,
            [
                Cursor::Cell(0, 13, 5),
                Cursor::Cell(0, 15, 5),
                Cursor::Head(1),
                Cursor::Cell(1, 3, 5)
            ]
        );
        let end = stepped(&plan, &picture.fleet, grid, (spot, near), (Movement::End, 1));
        assert_eq!(end, Cursor::Cell(1, 7, 7));
        let home = stepped(&plan, &picture.fleet, grid, (end, near), (Movement::Home, 1));
        assert_eq!(home, Cursor::Head(0));
    }

    #[test]
    fn a_folded_group_is_one_line() {
        let picture = picture(&[8; 24]);
        let mut plan = plan(&picture, Grouping::Range);
        let grid = Grid::fit(&picture, 80);
        assert_eq!(bands(&plan, grid).len(), 2 + 4 + 2);
        plan.groups[0].is_folded = true;
        assert_eq!(
            bands(&plan, grid),
            [Band::Head(0), Band::Head(1), Band::Nodes(1, 0), Band::Nodes(1, 5)]
        );
    }
}
