//! The cursor of the fleet view: on a group header, a node or a device; and its moves.

use std::sync::Arc;

use crate::selection::SharedSelection;
use crate::views::fleet::grouped_rows::GroupedRow;
use crate::views::fleet::heat_map;
use crate::views::fleet::heat_map::CellCursor;
use crate::views::fleet::{Layout, State};
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
        let group = self.group.as_deref();
        let on_header =
            group.filter(|_| self.is_on_header).and_then(|key| self.grouped_rows.group(key));
        if let Some(group) = on_header {
            return Some(CellCursor::Header(group));
        }
        let first = || match self.grouped_rows.rows.first().copied()? {
            GroupedRow::Header(group) => Some(CellCursor::Header(group)),
            GroupedRow::Node(group, member) => Some(CellCursor::Cell(group, member, 0)),
        };
        let name = &selection.shown_node(fleet_view)?.name;
        let Some((group, member_index)) = self.grouped_rows.find(&fleet_view.fleet, group, name)
        else {
            return first();
        };
        if self.grouped_rows.groups.get(group).is_some_and(|group| group.is_folded) {
            return Some(CellCursor::Header(group));
        }
        let (member, node) = self.grouped_rows.member(&fleet_view.fleet, group, member_index)?;
        let is_device = |position: &usize| {
            let uuid = node.devices.get(*position).map(|device| &device.uuid);
            uuid.is_some() && uuid == self.device.as_ref()
        };
        let cell = member.device_indices(node).iter().position(is_device).unwrap_or(0);
        Some(CellCursor::Cell(group, member_index, cell))
    }

    /// Returns the table row of a cursor.
    pub(super) fn row_of_cursor(&self, cursor: Option<CellCursor>) -> usize {
        let row_of_cursor = match cursor {
            Some(CellCursor::Header(group)) => self.grouped_rows.row_of_header(group),
            Some(CellCursor::Cell(group, member, _)) => {
                self.grouped_rows.row_of_member(group, member)
            }
            None => None,
        };
        row_of_cursor.unwrap_or(0)
    }

    pub(super) fn set_cursor(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        cursor: CellCursor,
    ) {
        let (CellCursor::Header(group) | CellCursor::Cell(group, _, _)) = cursor;
        let key = self.grouped_rows.groups.get(group).map(|group| Arc::clone(&group.key));
        self.group = key.filter(|_| self.grouped_rows.is_grouped);
        self.is_on_header = matches!(cursor, CellCursor::Header(_));
        let CellCursor::Cell(group, member, cell) = cursor else { return };
        let Some((member, node)) = self.grouped_rows.member(&fleet_view.fleet, group, member)
        else {
            return;
        };
        let device = member.device_indices(node).get(cell).and_then(|at| node.devices.get(*at));
        self.device = device.map(|device| Arc::clone(&device.uuid));
        selection.select(node.name.clone());
    }

    /// Moves the cursor to a node, in the map to its device that needs attention, and unfolds its group.
    pub(crate) fn reveal(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        node: &Node,
    ) {
        self.refresh(fleet_view);
        let preferred = self.group.as_deref();
        let found = self.grouped_rows.find(&fleet_view.fleet, preferred, &node.name);
        let Some((group, member)) = found else { return };
        let Some(key) = self.grouped_rows.groups.get(group).map(|group| Arc::clone(&group.key))
        else {
            return;
        };
        if self.folded_groups.remove(&key) {
            self.fold_version += 1;
            self.refresh(fleet_view);
        }
        let sick = sick_device(node);
        let cell = self.grouped_rows.member(&fleet_view.fleet, group, member).and_then(
            |(member, node)| member.device_indices(node).iter().position(|at| Some(*at) == sick),
        );
        self.set_cursor(
            fleet_view,
            selection,
            CellCursor::Cell(group, member, cell.unwrap_or_default()),
        );
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
                let rows = &self.grouped_rows.rows;
                let to = movement.new_index(
                    self.row_of_cursor(Some(cursor)),
                    rows.len(),
                    self.table_viewport.rows,
                );
                match rows.get(to).copied() {
                    Some(GroupedRow::Header(group)) => CellCursor::Header(group),
                    Some(GroupedRow::Node(group, member)) => CellCursor::Cell(group, member, 0),
                    None => return,
                }
            }
            Layout::Map => {
                // Short lines and headers do not change the preferred column.
                let preferred_column = match (self.preferred_column, cursor) {
                    (Some((last, preferred_column)), _) if last == cursor => preferred_column,
                    (_, CellCursor::Cell(_, member, cell)) => {
                        (member % self.grid.per_line.max(1), cell)
                    }
                    (_, CellCursor::Header(_)) => (0, 0),
                };
                let page = self.viewport.rows;
                let moved = (cursor, preferred_column);
                let to = heat_map::moved_vertically(
                    &self.grouped_rows,
                    &fleet_view.fleet,
                    self.grid,
                    moved,
                    (movement, page),
                );
                self.preferred_column = (!matches!(movement, Movement::Home | Movement::End))
                    .then_some((to, preferred_column));
                to
            }
        };
        self.set_cursor(fleet_view, selection, to);
    }

    /// Moves to the previous or next device.
    pub(super) fn move_horizontally(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        is_forward: bool,
    ) {
        let Some(cursor) = self.cursor(fleet_view, selection) else { return };
        let to =
            heat_map::moved_horizontally(&self.grouped_rows, &fleet_view.fleet, cursor, is_forward);
        self.set_cursor(fleet_view, selection, to);
    }

    /// Folds or unfolds the current group; `None` toggles.
    pub(super) fn fold(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
        folds: Option<bool>,
    ) {
        let Some(CellCursor::Header(group) | CellCursor::Cell(group, _, _)) =
            self.cursor(fleet_view, selection)
        else {
            return;
        };
        let Some(current) = self.grouped_rows.groups.get(group) else { return };
        let key = Arc::clone(&current.key);
        self.fold_version += 1;
        self.is_folded_to_fit = false;
        if folds.unwrap_or(!current.is_folded) {
            self.folded_groups.insert(key);
            self.set_cursor(fleet_view, selection, CellCursor::Header(group));
        } else {
            self.folded_groups.remove(&key);
        }
    }

    /// Moves the cursor to the header of the current group.
    pub(super) fn select_group_header(
        &mut self,
        fleet_view: &FleetView,
        selection: &mut SharedSelection,
    ) {
        let cursor = self.cursor(fleet_view, selection);
        if let Some(CellCursor::Header(group) | CellCursor::Cell(group, _, _)) = cursor {
            self.set_cursor(fleet_view, selection, CellCursor::Header(group));
        }
    }
}
