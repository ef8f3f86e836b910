//! The cursor of the fleet view: on a group header, a node or a device; and its moves.

use std::sync::Arc;

use crate::selection::SharedSelection;
use crate::views::fleet::cell_grid::{CellCursor, HeatMap, line_of};
use crate::views::fleet::state::{Layout, State};
use crate::widgets::list::Movement;
use gtop_fleet::Node;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::next_problem::sick_device;

impl State {
    /// Finds the cursor by the keys of its group, node and device. If they are gone or folded, the cursor is
    /// on the group header or on the first node.
    pub(super) fn cursor(
        &self,
        fleet_view: &FleetView,
        selection: &SharedSelection,
    ) -> Option<CellCursor> {
        let group = self.keys.group.as_deref();
        if let Some(key) = group.filter(|_| self.keys.is_on_header)
            && let Some(group) = self.grouped_rows.group(key)
        {
            return Some(CellCursor::Header(group));
        }
        let name = &selection.shown_node(fleet_view)?.name;
        let Some((group, member_index)) = self.grouped_rows.find(&fleet_view.fleet, group, name)
        else {
            return self.grouped_rows.rows.first().copied().map(CellCursor::from);
        };
        if self.grouped_rows.groups.get(group).is_some_and(|group| group.is_folded) {
            return Some(CellCursor::Header(group));
        }
        let (member, node) = self.grouped_rows.member(&fleet_view.fleet, group, member_index)?;
        let cell = self.keys.device.as_ref().and_then(|uuid| {
            let position = node.devices.iter().position(|device| device.uuid == *uuid)?;
            member.device_indices(node).iter().position(|index| *index == position)
        });
        Some(CellCursor::Cell(group, member_index, cell.unwrap_or(0)))
    }

    /// Returns the row of the cursor as it is drawn next in the table.
    pub(super) fn cursor_row(&self) -> usize {
        self.at.map_or(0, |cursor| line_of(&self.grouped_rows.rows, 1, cursor))
    }

    pub(super) fn set_cursor(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        cursor: CellCursor,
    ) {
        let group = self.grouped_rows.groups.get(cursor.group());
        let key = group.map(|group| Arc::clone(&group.key));
        self.keys.group = key.filter(|_| self.grouped_rows.is_grouped);
        self.keys.is_on_header = matches!(cursor, CellCursor::Header(_));
        let CellCursor::Cell(group, member, cell) = cursor else { return };
        let found = self.grouped_rows.member(&fleet_view.fleet, group, member);
        let Some((member, node)) = found else { return };
        let device = member.device_at(node, cell).and_then(|at| node.devices.get(at));
        self.keys.device = device.map(|device| Arc::clone(&device.uuid));
        selection.select(node.name.clone());
    }

    /// Moves the cursor to a node, in the map to its device that needs attention, and unfolds its group.
    pub(crate) fn reveal(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        node: &Node,
    ) {
        self.refresh_rows(fleet_view);
        let preferred = self.keys.group.as_deref();
        let found = self.grouped_rows.find(&fleet_view.fleet, preferred, &node.name);
        let Some((group, member)) = found else { return };
        let key = self.grouped_rows.groups.get(group).map(|group| Arc::clone(&group.key));
        if key.is_some_and(|key| self.folding.keys.remove(&key)) {
            self.folding.version += 1;
            self.refresh_rows(fleet_view);
        }
        let sick = sick_device(node);
        let cell = self.grouped_rows.member(&fleet_view.fleet, group, member).and_then(
            |(member, node)| member.device_indices(node).iter().position(|at| Some(*at) == sick),
        );
        let cursor = CellCursor::Cell(group, member, cell.unwrap_or_default());
        self.set_cursor(fleet_view, selection, cursor);
    }

    pub(super) fn move_vertically(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        movement: Movement,
    ) {
        let Some(cursor) = self.cursor(fleet_view, selection) else { return };
        let to = match self.layout {
            Layout::Table => {
                let (rows, page) = (&self.grouped_rows.rows, self.table.viewport.rows);
                let at = line_of(rows, 1, cursor);
                let to = rows.get(movement.new_index(at, rows.len(), page));
                let Some(row) = to else { return };
                CellCursor::from(*row)
            }
            Layout::Map => {
                // Short lines and headers do not change the preferred column.
                let preferred_column = match (self.preferred_column, cursor) {
                    (Some((last, preferred_column)), _) if last == cursor => preferred_column,
                    (_, CellCursor::Cell(_, member, cell)) => {
                        (member % self.heights.grid.per_line.max(1), cell)
                    }
                    (_, CellCursor::Header(_)) => (0, 0),
                };
                let to = self.heat_map(fleet_view).moved_vertically(
                    (cursor, preferred_column),
                    (movement, self.map.viewport.rows),
                );
                self.preferred_column = (!matches!(movement, Movement::Home | Movement::End))
                    .then_some((to, preferred_column));
                to
            }
        };
        self.set_cursor(fleet_view, selection, to);
    }

    /// Folds or unfolds the current group; `None` toggles.
    pub(super) fn fold(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        folds: Option<bool>,
    ) {
        let Some(group) = self.cursor(fleet_view, selection).map(CellCursor::group) else { return };
        let Some(current) = self.grouped_rows.groups.get(group) else { return };
        let key = Arc::clone(&current.key);
        self.folding.version += 1;
        self.folding.is_to_fit = false;
        if folds.unwrap_or(!current.is_folded) {
            self.folding.keys.insert(key);
            self.set_cursor(fleet_view, selection, CellCursor::Header(group));
        } else {
            self.folding.keys.remove(&key);
        }
    }

    /// Returns the heat map as it was drawn last.
    pub(super) fn heat_map<'a>(&'a self, fleet_view: &'a FleetView) -> HeatMap<'a> {
        HeatMap { rows: &self.grouped_rows, fleet: &fleet_view.fleet, grid: self.heights.grid }
    }
}
