//! How the lines of the fleet view are divided, where its panel is, and which problems are listed.

use std::collections::BTreeSet;

use crate::render_context::{RenderContext, Size};
use crate::views::fleet::cell_grid::{CellGrid, SEPARATOR_WIDTH};
use crate::views::fleet::grouped_rows::GroupedRow;
use crate::views::fleet::state::{FleetHeights, PanelPlace, State};
use crate::views::fleet::{legend, node_table};

/// The minimum screen size to show the node list and the panel of the selected node together.
const MIN_SPLIT_SIZE: (u16, usize) = (100, 34);
/// The lines of the panel besides its devices.
const PANEL_HEIGHT: usize = 10;
/// The minimum size of the panel of the map.
const MIN_PANEL_SIZE: (u16, usize) = (80, 9);
/// Below this width, the detail of a device takes two lines.
const ONE_LINE_DETAIL_WIDTH: u16 = 110;
const MAX_PROBLEM_LINES: usize = 4;

impl State {
    /// Divides the lines of a view of this size.
    pub(super) fn divide(&self, context: RenderContext<'_>, (width, height): Size) -> FleetHeights {
        let (fleet_view, grouped_rows) = (context.view, &self.grouped_rows);
        let max_problems = if height < 10 { 0 } else { (height / 6).min(MAX_PROBLEM_LINES) };
        let is_large = width >= MIN_SPLIT_SIZE.0 && height >= MIN_SPLIT_SIZE.1;
        // Where lines are scarce, problems that visible rows note are not listed again.
        let noted = if is_large || self.is_map() {
            BTreeSet::new()
        } else {
            // Besides the problems, there are the titles and the line of the selected node.
            self.nodes_with_notes(context, (width, height.saturating_sub(max_problems + 2)))
        };
        let problems = fleet_view.shown_problems().iter().enumerate();
        let listed = problems
            .filter(|(_, problem)| problem.members.iter().any(|node| !noted.contains(&node.index)));
        let listed: Vec<usize> = listed.map(|(at, _)| at).collect();
        let problems = listed.len().min(max_problems);
        let panel = PANEL_HEIGHT + usize::from(fleet_view.extents.devices.min(8));
        if self.is_map() {
            let heights = FleetHeights { problems, listed, ..FleetHeights::default() };
            return self.divide_map(context, (width, height), panel, heights);
        }
        let rows = grouped_rows.rows.len() + usize::from(grouped_rows.shared.is_some());
        // All rows if the largest panel fits below, a third of the lines at least.
        let table = |room: usize| (rows + 1).min(room.saturating_sub(panel).max(room / 3));
        let is_split = is_large || table(height) > rows;
        let detail = usize::from(!is_split && height >= 8);
        let room = height.saturating_sub(detail + problems);
        let list = if is_split { table(room) } else { room };
        let panel = if is_split {
            PanelPlace::Below(room.saturating_sub(list + 1))
        } else {
            PanelPlace::Hidden
        };
        let grid = CellGrid::fit(fleet_view, width);
        FleetHeights { list, legend: 0, grid, detail, panel, problems, listed }
    }

    /// Divides the lines of the map. A panel of `panel` lines is below it if both fit, or else beside it, or else below it
    /// in fewer lines. The cells grow into what is left.
    fn divide_map(
        &self,
        context: RenderContext<'_>,
        (width, height): Size,
        panel: usize,
        heights: FleetHeights,
    ) -> FleetHeights {
        let rows = &self.grouped_rows;
        let legend = legend::lines(context, self, (width, height)).len();
        let has_two_lines = width < ONE_LINE_DETAIL_WIDTH && height >= 14;
        let detail = if has_two_lines { 2 } else { usize::from(height >= 8) };
        let room = height.saturating_sub(detail + heights.problems);
        let room_for_cells = room.saturating_sub(legend);
        let grid = CellGrid::fit(context.view, width);
        let heights = FleetHeights { legend, detail, list: room, ..heights };
        // Between them is a line.
        let fits_below = |panel: usize| grid.height(rows) + 1 + panel <= room_for_cells;
        if !fits_below(panel)
            && let Some(grid) = self.beside_panel(grid, context, (width, room_for_cells))
        {
            let panel = PanelPlace::Beside(grid.width(context.view.count()));
            return FleetHeights { grid, panel, ..heights };
        }
        if fits_below(panel.min(MIN_PANEL_SIZE.1)) {
            let grid = grid.grown(rows, (width, room_for_cells.saturating_sub(panel + 1)));
            let list = legend + grid.height(rows);
            let panel = PanelPlace::Below(room.saturating_sub(list + 1));
            return FleetHeights { list, grid, panel, ..heights };
        }
        FleetHeights { grid: grid.grown(rows, (width, room_for_cells)), ..heights }
    }

    /// Returns this grid of all nodes, with nothing cut, beside a panel; `None` if it does not fit. Headers of groups need
    /// the whole width.
    fn beside_panel(
        &self,
        whole: CellGrid,
        context: RenderContext<'_>,
        (width, height): Size,
    ) -> Option<CellGrid> {
        let width = width.checked_sub(MIN_PANEL_SIZE.0 + SEPARATOR_WIDTH)?;
        let rows = &self.grouped_rows;
        let grid = CellGrid::fit(context.view, width).grown(rows, (width, height));
        let CellGrid { margin, name, cells, .. } = grid;
        let is_cut = (margin, name, cells) != (whole.margin, whole.name, whole.cells);
        let fits = !is_cut && height >= MIN_PANEL_SIZE.1 && grid.height(rows) <= height;
        (fits && !rows.is_grouped).then_some(grid)
    }

    /// Returns the indices of the nodes whose notes are visible in a table with so many rows.
    fn nodes_with_notes(&self, context: RenderContext<'_>, (width, rows): Size) -> BTreeSet<usize> {
        let grouped_rows = &self.grouped_rows;
        let count = grouped_rows.rows.len();
        let visible = self.table.viewport.scrolled_to(rows, count, Some(self.cursor_row()));
        let visible = grouped_rows.rows.get(visible.range(count)).unwrap_or_default();
        let table = node_table::laid_out(context, self, width);
        let indices = visible.iter().filter_map(|row| {
            let GroupedRow::Nodes(group, member) = *row else { return None };
            let (member, node) = grouped_rows.member(&context.view.fleet, group, member)?;
            let has_note = node_table::has_note(&table, context.view.now, node);
            has_note.then_some(member.node_index)
        });
        indices.collect()
    }
}
