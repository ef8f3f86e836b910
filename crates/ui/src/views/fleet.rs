//! The fleet view: all nodes as a table or as a heat map of devices, the problems below, and the panel of the
//! selected node where it fits.

use std::sync::Arc;

use crate::action::{FleetAction, RowAction};
use crate::clipboard::{self, Clip};
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::panel;
use crate::render_context::{RenderContext, Size};
use crate::selection::SharedSelection;
use crate::view::View;
use crate::view_state::{Explained, Shared, ViewState};
use crate::views::fleet::cell_grid::{CellCursor, SEPARATOR_WIDTH};
pub(crate) use crate::views::fleet::cells::MapMetric;
pub use crate::views::fleet::column_layout::column_specs;
pub(crate) use crate::views::fleet::grouping::Grouping;
pub use crate::views::fleet::node_sort::sort_columns;
pub(crate) use crate::views::fleet::state::Layout;
use crate::views::fleet::state::PanelPlace;
pub use crate::views::fleet::state::State;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::cycled;
use gtop_fleet::insight::{FleetProblem, FleetView, RowId};
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_model::nodeset;

mod cell_grid;
mod cell_meaning;
mod cell_size;
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
mod heights;
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

impl ViewState for State {
    fn refresh(&mut self, context: RenderContext<'_>, _: &mut Shared) {
        self.refresh_rows(context.view);
    }

    fn update(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, .. }: &mut Shared,
        action: &RowAction,
    ) -> Effect {
        let fleet_view = context.view;
        match action {
            RowAction::Move(movement) => self.move_vertically(fleet_view, selection, *movement),
            RowAction::Open => return self.open(fleet_view, selection),
            RowAction::Click(click) => return self.on_click(fleet_view, selection, click),
            RowAction::Back => return Effect::Ignored,
        }
        Effect::Handled
    }

    fn prepare(&mut self, context: RenderContext<'_>, shared: &mut Shared, size: Size) {
        let fleet_view = context.view;
        let selection = &mut shared.selection;
        if selection.shown_node(fleet_view).is_none() {
            return;
        }
        // New groups are folded if they have more rows than fit.
        let is_new = self.layout == Layout::Table && std::mem::take(&mut self.folding.is_due);
        if is_new && self.grouped_rows.rows.len() >= size.1 {
            self.fold_all(fleet_view, selection);
            self.folding.is_to_fit = true;
            self.refresh_rows(fleet_view);
        }
        self.at = self.cursor(fleet_view, selection);
        self.heights = self.divide(context, size);
        match self.layout {
            Layout::Map => heat_map::prepare(context, self),
            Layout::Table => node_table::prepare(context, self, (size.0, self.heights.list)),
        }
        if self.heights.panel != PanelPlace::Hidden
            && let Some(CellCursor::Header(group)) = self.at
        {
            self.grouped_rows.sum_up_models(fleet_view, group);
        }
    }

    /// Draws the nodes, the problems below them, and the panel of the selected node below or beside them if it fits.
    fn lines(&self, context: RenderContext<'_>, shared: &Shared, size: Size) -> DrawnView {
        let (width, height) = size;
        let fleet_view = context.view;
        let Some(node) = shared.selection.shown_node(fleet_view) else {
            return vec![empty_message(fleet_view).truncated(width)].into();
        };
        let heights = &self.heights;
        let listed = heights.listed.iter().filter_map(|at| fleet_view.shown_problems().get(*at));
        let listed: Vec<&FleetProblem> = listed.collect();
        let problems = problem_lines::lines(&listed, width, heights.problems);
        let mut lines = match self.layout {
            Layout::Map => heat_map::lines(context, self, size),
            Layout::Table => node_table::lines(context, self, (width, heights.list)),
        };
        let mut detail = self.detail(context, node, (width, heights.detail));
        detail.resize(heights.detail, Line::new());
        let panel = |size| match self.selected_group() {
            Some(group) => group_panel::lines(context, group, size).into(),
            None => panel::lines(context, node, &shared.panel, size),
        };
        let mut drawn = DrawnView::default();
        match heights.panel {
            PanelPlace::Hidden => {}
            PanelPlace::Below(panel_height) => {
                lines.resize(heights.list, Line::new());
                // Below the cells that it describes.
                lines.append(&mut detail);
                lines.push(Line::new().rule(width));
                drawn = panel((width, panel_height));
                lines.append(&mut drawn.lines);
            }
            PanelPlace::Beside(map_width) => {
                lines.resize(heights.list, Line::new());
                let room = width.saturating_sub(map_width + SEPARATOR_WIDTH);
                drawn = panel((room, heights.list.saturating_sub(heights.legend)));
                let cells = lines.iter_mut().skip(heights.legend);
                append_beside(cells, map_width, std::mem::take(&mut drawn.lines));
            }
        }
        lines.resize(height.saturating_sub(problems.len() + detail.len()), Line::new());
        lines.extend(problems);
        lines.extend(detail);
        lines.truncate(height);
        DrawnView { lines, ..drawn }
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        let own = [
            ("Columns of nodes", column_specs()),
            ("Columns of a group", group_panel::column_specs()),
        ];
        own.into_iter().chain(panel::column_groups()).collect()
    }

    fn clips(&self, context: RenderContext<'_>, shared: &Shared) -> Vec<Clip> {
        let node = shared.selection.shown_node(context.view);
        let of_node = node.map_or_else(Vec::new, |node| clipboard::of_node(context.view, node));
        let all = nodeset::fold(context.view.nodes().map(|node| node.name.label()));
        of_node.into_iter().chain(Clip::new('a', "all shown nodes", &all)).collect()
    }

    /// Explains the node, the group, or the device of the map at the cursor.
    fn explain(&mut self, context: RenderContext<'_>, shared: &Shared) -> Explained {
        let cursor = self.cursor(context.view, &shared.selection);
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
        match action {
            FleetAction::ToggleLayout => {
                let is_table = self.layout == Layout::Table;
                self.layout = if is_table { Layout::Map } else { Layout::Table };
                if is_table && std::mem::take(&mut self.folding.is_to_fit) {
                    // A map of folded groups would show no device.
                    self.folding.keys.clear();
                    self.folding.version += 1;
                    self.folding.is_due = true;
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
                if self.layout == Layout::Map && !self.keys.is_on_header =>
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
                self.folding.is_to_fit = false;
                self.fold_all(fleet_view, selection);
            }
            FleetAction::UnfoldAll => {
                self.folding.keys.clear();
                self.folding.version += 1;
            }
        }
        Effect::Handled
    }

    fn fold_all(&mut self, fleet_view: &FleetView, selection: &mut SharedSelection) {
        if let Some(cursor) = self.cursor(fleet_view, selection) {
            self.set_cursor(fleet_view, selection, CellCursor::Header(cursor.group()));
        }
        self.folding.keys =
            self.grouped_rows.groups.iter().map(|group| Arc::clone(&group.key)).collect();
        self.folding.version += 1;
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
                let line = self.grouped_rows.lines(self.heights.grid.per_line).get(*row).copied();
                let map = self.heat_map(fleet_view);
                line.map(|line| map.nearest(line, self.heights.grid.at(*column)))
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
    /// Returns the group whose header the cursor is on.
    fn selected_group(&self) -> Option<&group::Group> {
        let Some(CellCursor::Header(group)) = self.at else { return None };
        self.grouped_rows.groups.get(group)
    }

    fn detail(
        &self,
        context: RenderContext<'_>,
        node: &gtop_fleet::Node,
        (width, max_lines): (u16, usize),
    ) -> Vec<Line> {
        if max_lines == 0 {
            return Vec::new();
        }
        if let Some(group) = self.selected_group() {
            return vec![group_header::detail(context, group, width)];
        }
        match (self.at, self.layout) {
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

/// Draws a panel beside lines of this width, with a line between.
fn append_beside<'a>(lines: impl Iterator<Item = &'a mut Line>, width: u16, panel: Vec<Line>) {
    let panel = panel.into_iter().chain(std::iter::repeat(Line::new()));
    for (line, panel_line) in lines.zip(panel) {
        let separator = Line::new().gap(1).text("│", Tone::Faint).gap(1);
        *line = std::mem::take(line).append_at(width, separator).append(panel_line);
    }
}

fn empty_message(fleet_view: &FleetView) -> Line {
    if fleet_view.fleet.nodes.is_empty() {
        return Line::styled("no nodes to watch", Tone::Faint);
    }
    Line::styled("no node matches the filter", Tone::Warn)
        .text("  → Esc clears the filter", Tone::Faint)
}
