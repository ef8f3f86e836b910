//! The cursor of the fleet: on the head of a group, on a node, on a device; and its moves.

use std::sync::Arc;

use crate::view::fleet::map::{self, Cursor};
use crate::view::fleet::plan::Row;
use crate::view::fleet::{Form, State};
use crate::view::fleet_view::FleetView;
use crate::view::navigation::{Movement, Navigation};

impl State {
    /// Finds the cursor again: by the names of the group, the node and the device it was on. What is
    /// gone or folded leaves it at the head of the group, or at the first node.
    pub(super) fn spot(&self, picture: &FleetView, navigation: &Navigation) -> Option<Cursor> {
        let group = self.group.as_deref();
        let on_head = group.filter(|_| self.is_on_head).and_then(|key| self.plan.group(key));
        if let Some(group) = on_head {
            return Some(Cursor::Head(group));
        }
        let first = || match self.plan.rows.first().copied()? {
            Row::Head(group) => Some(Cursor::Head(group)),
            Row::Node(group, member) => Some(Cursor::Cell(group, member, 0)),
        };
        let name = &navigation.node(picture)?.name;
        let Some((group, member)) = self.plan.find(&picture.fleet, group, name) else {
            return first();
        };
        if self.plan.groups.get(group).is_some_and(|group| group.is_folded) {
            return Some(Cursor::Head(group));
        }
        let (own, node) = self.plan.member(&picture.fleet, group, member)?;
        let is_it = |position: &usize| {
            let uuid = node.devices.get(*position).map(|device| &device.uuid);
            uuid.is_some() && uuid == self.device.as_ref()
        };
        let cell = own.positions(node).iter().position(is_it).unwrap_or(0);
        Some(Cursor::Cell(group, member, cell))
    }

    /// Returns the row of the table a spot is on.
    pub(super) fn row(&self, spot: Option<Cursor>) -> usize {
        let row = match spot {
            Some(Cursor::Head(group)) => self.plan.row_of_head(group),
            Some(Cursor::Cell(group, member, _)) => self.plan.row_of(group, member),
            None => None,
        };
        row.unwrap_or(0)
    }

    /// Puts the cursor on a spot.
    pub(super) fn go(&mut self, picture: &FleetView, navigation: &mut Navigation, spot: Cursor) {
        let (Cursor::Head(group) | Cursor::Cell(group, _, _)) = spot;
        let key = self.plan.groups.get(group).map(|group| Arc::clone(&group.key));
        self.group = key.filter(|_| self.plan.is_grouped);
        self.is_on_head = matches!(spot, Cursor::Head(_));
        let Cursor::Cell(group, member, cell) = spot else { return };
        let Some((own, node)) = self.plan.member(&picture.fleet, group, member) else { return };
        let device = own.positions(node).get(cell).and_then(|at| node.devices.get(*at));
        self.device = device.map(|device| Arc::clone(&device.uuid));
        navigation.select(node.name.clone());
    }

    /// Moves up or down.
    pub(super) fn step(
        &mut self,
        picture: &FleetView,
        navigation: &mut Navigation,
        step: Movement,
    ) {
        let Some(spot) = self.spot(picture, navigation) else { return };
        let to = match self.form {
            Form::Table => {
                let rows = &self.plan.rows;
                let to = step.from(self.row(Some(spot)), rows.len(), navigation.list.rows);
                match rows.get(to).copied() {
                    Some(Row::Head(group)) => Cursor::Head(group),
                    Some(Row::Node(group, member)) => Cursor::Cell(group, member, 0),
                    None => return,
                }
            }
            Form::Map => {
                // Short lines and heads do not forget the column one came down in.
                let near = match (self.near, spot) {
                    (Some((last, near)), _) if last == spot => near,
                    (_, Cursor::Cell(_, member, cell)) => {
                        (member % self.grid.per_line.max(1), cell)
                    }
                    (_, Cursor::Head(_)) => (0, 0),
                };
                let page = self.window.rows;
                let moved = (spot, near);
                let to = map::stepped(&self.plan, &picture.fleet, self.grid, moved, (step, page));
                self.near = (!matches!(step, Movement::Home | Movement::End)).then_some((to, near));
                to
            }
        };
        self.go(picture, navigation, to);
    }

    /// Moves to the device before or after.
    pub(super) fn step_beside(
        &mut self,
        picture: &FleetView,
        navigation: &mut Navigation,
        is_forward: bool,
    ) {
        let Some(spot) = self.spot(picture, navigation) else { return };
        let to = map::beside(&self.plan, &picture.fleet, spot, is_forward);
        self.go(picture, navigation, to);
    }

    /// Folds or unfolds the group one is in; `None` for the other way round.
    pub(super) fn fold(
        &mut self,
        picture: &FleetView,
        navigation: &mut Navigation,
        wish: Option<bool>,
    ) {
        let Some(Cursor::Head(group) | Cursor::Cell(group, _, _)) = self.spot(picture, navigation)
        else {
            return;
        };
        let Some(known) = self.plan.groups.get(group) else { return };
        let key = Arc::clone(&known.key);
        self.folds += 1;
        if wish.unwrap_or(!known.is_folded) {
            self.folded.insert(key);
            self.go(picture, navigation, Cursor::Head(group));
        } else {
            self.folded.remove(&key);
        }
    }

    /// Puts the cursor on the head of the group one is in.
    pub(super) fn enter_head(&mut self, picture: &FleetView, navigation: &mut Navigation) {
        let spot = self.spot(picture, navigation);
        if let Some(Cursor::Head(group) | Cursor::Cell(group, _, _)) = spot {
            self.go(picture, navigation, Cursor::Head(group));
        }
    }
}
