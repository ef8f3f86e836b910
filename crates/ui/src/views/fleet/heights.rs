//! How the lines of the fleet view are divided, and which problems are listed in them.

use std::collections::BTreeSet;

use crate::render_context::{RenderContext, Size};
use crate::views::fleet::grouped_rows::GroupedRow;
use crate::views::fleet::state::{FleetHeights, Layout, State};
use crate::views::fleet::{legend, node_table};

/// The minimum screen size to show the node list and the panel of the selected node together.
const MIN_SPLIT_SIZE: (u16, usize) = (100, 34);
/// The lines of the panel besides its devices.
const PANEL_HEIGHT: usize = 10;
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
        let problems = fleet_view.problems.iter().enumerate();
        let listed = problems
            .filter(|(_, problem)| problem.members.iter().any(|node| !noted.contains(&node.index)));
        let listed: Vec<usize> = listed.map(|(at, _)| at).collect();
        let problems = listed.len().min(max_problems);
        let panel = PANEL_HEIGHT + usize::from(fleet_view.extents.devices.min(8));
        let rows = grouped_rows.rows.len() + usize::from(grouped_rows.shared.is_some());
        // All rows if the largest panel fits below, a third of the lines at least.
        let table = |room: usize| (rows + 1).min(room.saturating_sub(panel).max(room / 3));
        let (legend, map, is_split) = if self.is_map() {
            let legend = legend::lines(context, self, (width, height)).len();
            let map = legend + grouped_rows.lines(self.grid.per_line).len();
            (legend, map, map <= height.saturating_sub(1 + panel + problems + 2))
        } else {
            (0, 0, is_large || table(height) > rows)
        };
        let detail = match (is_split, self.layout) {
            (true, Layout::Table) => 0,
            (_, Layout::Map) if width < ONE_LINE_DETAIL_WIDTH && height >= 14 => 2,
            (..) => usize::from(height >= 8),
        };
        let room = height.saturating_sub(detail + problems);
        let list = match self.layout {
            Layout::Table if is_split => table(room),
            Layout::Map if is_split => map,
            Layout::Table | Layout::Map => room,
        };
        let panel = is_split.then(|| room.saturating_sub(list + 1));
        FleetHeights { list, legend, detail, panel, problems, listed }
    }

    /// Returns the indices of the nodes whose notes are visible in a table with so many rows.
    fn nodes_with_notes(&self, context: RenderContext<'_>, (width, rows): Size) -> BTreeSet<usize> {
        let Self { grouped_rows, table_viewport, .. } = self;
        let count = grouped_rows.rows.len();
        let visible = table_viewport.scrolled_to(rows, count, Some(self.cursor_row()));
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
