//! The fleet view: all nodes as a table or as a heat map of devices, the problems below, and the panel of the
//! selected node where it fits.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::action::{FleetAction, RowAction};
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::panel;
use crate::render_context::{RenderContext, Size};
use crate::selection::SharedSelection;
use crate::view::View;
use crate::view_state::{Shared, ViewState};
use crate::views::fleet::cell_grid::CellCursor;
pub(crate) use crate::views::fleet::cells::MapMetric;
pub use crate::views::fleet::column_layout::column_specs;
use crate::views::fleet::grouped_rows::GroupedRow;
pub(crate) use crate::views::fleet::grouping::Grouping;
pub use crate::views::fleet::node_sort::sort_columns;
pub(crate) use crate::views::fleet::state::Layout;
pub use crate::views::fleet::state::State;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::Explanation;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::cycled;
use gtop_fleet::insight::{FleetProblem, FleetView, RowId};
use gtop_fleet::query::{SortColumn, SortOrder};

mod cell_grid;
mod cell_meaning;
mod cells;
mod column_layout;
mod cursor;
mod device_detail;
mod group;
mod group_header;
mod group_panel;
mod grouped_rows;
mod grouping;
mod heat_map;
mod idle_time;
mod lag;
mod legend;
mod node_cells;
mod node_notes;
mod node_series;
mod node_sort;
mod node_table;
mod owner_counts;
mod problem_lines;
mod row_explanation;
mod state;
mod symbol_map;

/// The minimum screen size to show the node list and the panel of the selected node together.
const MIN_SPLIT_SIZE: (u16, usize) = (100, 34);
/// The lines of the panel besides its devices.
const PANEL_HEIGHT: usize = 10;
/// Below this width, the detail of a device takes two lines.
const ONE_LINE_DETAIL_WIDTH: u16 = 110;
const MAX_PROBLEM_LINES: usize = 4;

impl ViewState for State {
    fn update(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, .. }: &mut Shared,
        action: &RowAction,
    ) -> Effect {
        let fleet_view = context.view;
        self.refresh(fleet_view);
        match action {
            RowAction::Move(movement) => self.move_vertically(fleet_view, selection, *movement),
            RowAction::Open => return self.open(fleet_view, selection),
            RowAction::Click(click) => return self.on_click(fleet_view, selection, click),
            RowAction::Back => return Effect::Ignored,
        }
        Effect::Handled
    }

    /// Draws the nodes, the problems below them, and the panel of the selected node where it fits.
    fn lines(&mut self, context: RenderContext<'_>, shared: &mut Shared, size: Size) -> Vec<Line> {
        let (width, height) = size;
        let fleet_view = context.view;
        let Some(node) = shared.selection.shown_node(fleet_view) else {
            return vec![empty_message(fleet_view).truncated(width)];
        };
        self.refresh(fleet_view);
        // New groups are folded if they have more rows than fit.
        let is_new = self.layout == Layout::Table && std::mem::take(&mut self.folds_if_long);
        if is_new && self.grouped_rows.rows.len() >= height {
            self.fold_all(fleet_view, &mut shared.selection);
            self.is_folded_to_fit = true;
            self.refresh(fleet_view);
        }
        let mut lines = self.body(context, shared, node, (width, height));
        lines.truncate(height);
        lines
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        let own = [
            ("Columns of nodes", column_specs()),
            ("Columns of a group", group_panel::column_specs()),
        ];
        own.into_iter().chain(panel::column_groups()).collect()
    }

    /// Explains the node, the group, or the device of the map at the cursor.
    fn explain(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, .. }: &mut Shared,
    ) -> Result<Explanation, String> {
        self.refresh(context.view);
        let cursor = self.cursor(context.view, selection);
        cursor
            .and_then(|cursor| row_explanation::of_cursor(context, self, cursor))
            .ok_or_else(|| "no row is selected".to_owned())
    }

    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        Some((&mut self.order, sort_columns()))
    }
}

impl State {
    /// Performs an action that only the fleet view has.
    pub(crate) fn update_layout(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, .. }: &mut Shared,
        action: FleetAction,
    ) -> Effect {
        let fleet_view = context.view;
        self.refresh(fleet_view);
        match action {
            FleetAction::ToggleLayout => {
                let is_table = self.layout == Layout::Table;
                self.layout = if is_table { Layout::Map } else { Layout::Table };
                if is_table && std::mem::take(&mut self.is_folded_to_fit) {
                    // A map of folded groups would show no device.
                    self.folded_groups.clear();
                    self.fold_version += 1;
                    self.folds_if_long = true;
                }
            }
            FleetAction::NextMetric | FleetAction::PreviousMetric => {
                if self.layout == Layout::Table {
                    return Effect::Message("press m for the map first".to_owned());
                }
                let is_forward = action == FleetAction::NextMetric;
                self.metric = cycled(&MapMetric::ALL, self.metric, is_forward);
            }
            FleetAction::NextGrouping | FleetAction::PreviousGrouping => {
                self.group_by(self.grouping.cycle(fleet_view, action == FleetAction::NextGrouping));
                if self.layout == Layout::Table {
                    return Effect::Message(format!("grouped by {}", self.grouping.label()));
                }
            }
            FleetAction::Left | FleetAction::Right
                if self.layout == Layout::Map && !self.is_on_header =>
            {
                if let Some(cursor) = self.cursor(fleet_view, selection) {
                    let is_forward = action == FleetAction::Right;
                    let to = self.heat_map(fleet_view).moved_horizontally(cursor, is_forward);
                    self.set_cursor(fleet_view, selection, to);
                }
            }
            FleetAction::ToggleFold
            | FleetAction::Left
            | FleetAction::Right
            | FleetAction::FoldAll
            | FleetAction::UnfoldAll
                if !self.grouped_rows.is_grouped =>
            {
                return Effect::Message("press g to group nodes first".to_owned());
            }
            FleetAction::ToggleFold => self.fold(fleet_view, selection, None),
            FleetAction::Left => self.fold(fleet_view, selection, Some(true)),
            FleetAction::Right => self.fold(fleet_view, selection, Some(false)),
            FleetAction::FoldAll => {
                self.is_folded_to_fit = false;
                self.fold_all(fleet_view, selection);
            }
            FleetAction::UnfoldAll => {
                self.folded_groups.clear();
                self.fold_version += 1;
            }
        }
        Effect::Handled
    }

    fn fold_all(&mut self, fleet_view: &FleetView, selection: &mut SharedSelection) {
        if let Some(cursor) = self.cursor(fleet_view, selection) {
            self.set_cursor(fleet_view, selection, CellCursor::Header(cursor.group()));
        }
        self.folded_groups =
            self.grouped_rows.groups.iter().map(|group| Arc::clone(&group.key)).collect();
        self.fold_version += 1;
    }

    fn open(&mut self, fleet_view: &FleetView, selection: &mut SharedSelection) -> Effect {
        match (self.cursor(fleet_view, selection), self.layout) {
            (Some(CellCursor::Header(_)), _) => {
                self.fold(fleet_view, selection, None);
                Effect::Handled
            }
            (Some(CellCursor::Cell(group, member, cell)), layout) => {
                let found = self.grouped_rows.member(&fleet_view.fleet, group, member);
                let Some((member, node)) = found else { return Effect::SwitchView(View::Node) };
                let position = member.device_at(node, cell).filter(|_| layout == Layout::Map);
                if let Some(device) = position.and_then(|position| node.devices.get(position)) {
                    let cursor = RowId::Device(Arc::clone(&device.uuid));
                    return Effect::OpenNode(node.name.clone(), Some(cursor));
                }
                selection.select(node.name.clone());
                Effect::SwitchView(View::Node)
            }
            (None, _) => Effect::SwitchView(View::Node),
        }
    }

    fn on_click(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        click: &Click,
    ) -> Effect {
        let new_cursor = match (click, self.layout) {
            (Click::Row(row), Layout::Table) => {
                self.grouped_rows.rows.get(*row).copied().map(CellCursor::from)
            }
            (Click::Cell(row, column), Layout::Map) => {
                let line = self.grouped_rows.lines(self.grid.per_line).get(*row).copied();
                let map = self.heat_map(fleet_view);
                line.map(|line| map.nearest(line, self.grid.at(*column)))
            }
            _ => return Effect::Ignored,
        };
        let Some(new_cursor) = new_cursor else { return Effect::Handled };
        let old_cursor = self.cursor(fleet_view, selection);
        let is_same = match (old_cursor, new_cursor, self.layout) {
            (
                Some(CellCursor::Cell(group, member, _)),
                CellCursor::Cell(new_group, new_member, _),
                Layout::Table,
            ) => (group, member) == (new_group, new_member),
            (old_cursor, new_cursor, _) => old_cursor == Some(new_cursor),
        };
        self.set_cursor(fleet_view, selection, new_cursor);
        if is_same { self.open(fleet_view, selection) } else { Effect::Handled }
    }
}

impl State {
    fn body(
        &mut self,
        context: RenderContext<'_>,
        shared: &mut Shared,
        node: &gtop_fleet::Node,
        (width, height): (u16, usize),
    ) -> Vec<Line> {
        let fleet_view = context.view;
        let max_lines = if height < 10 { 0 } else { (height / 6).min(MAX_PROBLEM_LINES) };
        let cursor = self.cursor(fleet_view, &shared.selection);
        let is_large = width >= MIN_SPLIT_SIZE.0 && height >= MIN_SPLIT_SIZE.1;
        // Where lines are scarce, problems that visible rows note are not listed again.
        let noted = if is_large {
            BTreeSet::new()
        } else {
            self.nodes_with_visible_notes(context, cursor, (width, height), max_lines)
        };
        let problems = fleet_view.problems.iter();
        let problems: Vec<&FleetProblem> = problems
            .filter(|problem| problem.indices.iter().any(|index| !noted.contains(index)))
            .collect();
        let problems = problem_lines::lines(&problems, width, max_lines);
        let rows = self.grouped_rows.rows.len() + usize::from(self.grouped_rows.shared.is_some());
        let panel = 1 + PANEL_HEIGHT + usize::from(fleet_view.extents.devices.min(8));
        let is_split = match self.layout {
            Layout::Table => is_large || list_height(fleet_view, rows, height) > rows,
            Layout::Map => {
                let below = height.saturating_sub(panel + problems.len() + 2);
                heat_map::height(context, self, (width, height)) <= below
            }
        };
        let detail_height = match (is_split, self.layout) {
            (true, Layout::Table) => 0,
            (_, Layout::Map) if width < ONE_LINE_DETAIL_WIDTH && height >= 14 => 2,
            (..) => usize::from(height >= 8),
        };
        let room = height.saturating_sub(detail_height + problems.len());
        let list_height = match self.layout {
            Layout::Table if is_split => list_height(fleet_view, rows, room),
            Layout::Map if is_split => heat_map::height(context, self, (width, height)),
            Layout::Table | Layout::Map => room,
        };
        let mut lines = match self.layout {
            Layout::Map => heat_map::lines(context, self, cursor, (width, list_height), height),
            Layout::Table => {
                let at = self.row_of_cursor(cursor);
                node_table::lines(context, self, at, (width, list_height))
            }
        };
        let mut detail = self.detail(context, cursor, node, (width, detail_height));
        detail.resize(detail_height, Line::new());
        if is_split {
            lines.resize(list_height, Line::new());
            // Below the cells that it describes.
            lines.append(&mut detail);
            lines.push(Line::new().rule(width));
            let panel_height = room.saturating_sub(list_height + 1);
            lines.extend(match self.selected_group(cursor) {
                Some(group) => group_panel::lines(context, group, (width, panel_height)),
                None => panel::lines(context, node, &mut shared.panel, (width, panel_height)),
            });
        }
        lines.resize(height.saturating_sub(problems.len() + detail.len()), Line::new());
        lines.extend(problems);
        lines.extend(detail);
        lines
    }

    /// Returns the group whose header the cursor is on.
    fn selected_group(&mut self, cursor: Option<CellCursor>) -> Option<&mut group::Group> {
        let Some(CellCursor::Header(group)) = cursor else { return None };
        self.grouped_rows.groups.get_mut(group)
    }

    /// Returns the indices of the nodes whose notes are visible even with `max_problems` lines of problems below.
    fn nodes_with_visible_notes(
        &self,
        context: RenderContext<'_>,
        cursor: Option<CellCursor>,
        (width, height): (u16, usize),
        max_problems: usize,
    ) -> BTreeSet<usize> {
        if self.layout == Layout::Map {
            return BTreeSet::new();
        }
        let mut viewport = self.table_viewport;
        let count = self.grouped_rows.rows.len();
        // Besides the problems, there are the titles and the line of the selected node.
        let rows = height.saturating_sub(max_problems + 2);
        viewport.scroll_to(rows, count, Some(self.row_of_cursor(cursor)));
        let visible = self.grouped_rows.rows.get(viewport.range(count)).unwrap_or_default();
        let table =
            node_table::laid_out(context, &self.jobs, (self.grouping, &self.grouped_rows), width);
        let indices = visible.iter().filter_map(|row| {
            let GroupedRow::Nodes(group, member) = *row else { return None };
            let (member, node) = self.grouped_rows.member(&context.view.fleet, group, member)?;
            let has_note = node_table::has_note(&table, context.view.now, node);
            has_note.then_some(member.node_index)
        });
        indices.collect()
    }

    fn detail(
        &mut self,
        context: RenderContext<'_>,
        cursor: Option<CellCursor>,
        node: &gtop_fleet::Node,
        (width, max_lines): (u16, usize),
    ) -> Vec<Line> {
        if max_lines == 0 {
            return Vec::new();
        }
        if let Some(group) = self.selected_group(cursor) {
            return vec![group_header::detail(context, group, width)];
        }
        match (cursor, self.layout) {
            (Some(CellCursor::Cell(group, member, cell)), Layout::Map) => {
                let member = self.grouped_rows.member(&context.view.fleet, group, member);
                let cell = member.and_then(|(member, node)| member.device_at(node, cell));
                device_detail::lines(context, self, (node, cell), (width, max_lines))
            }
            (Some(CellCursor::Header(_) | CellCursor::Cell(..)) | None, _) => {
                vec![node_table::detail(context.view, node, width)]
            }
        }
    }
}

fn empty_message(fleet_view: &FleetView) -> Line {
    if fleet_view.fleet.nodes.is_empty() {
        return Line::styled("no nodes to watch", Tone::Faint);
    }
    Line::styled("no node matches the filter", Tone::Warn).text("  → Esc clears it", Tone::Faint)
}

/// Returns the number of list lines above a panel: all rows if the largest panel fits below, a third of the
/// screen at least.
fn list_height(fleet_view: &FleetView, rows: usize, room: usize) -> usize {
    let list = rows + 1;
    let panel = PANEL_HEIGHT + usize::from(fleet_view.extents.devices.min(8));
    list.min(room.saturating_sub(panel).max(room / 3))
}
