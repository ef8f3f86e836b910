//! The sort order of rows: one column, and whether its usual direction is reversed.

use crate::view::menu::Menu;

/// A column that rows may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortColumn {
    /// Its name in settings and clicks; a field's alias where it is a field.
    pub name: &'static str,
    /// The letter that chooses it behind `o`.
    pub letter: char,
    /// What it is, in a word or two.
    pub label: &'static str,
}

/// The order of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// The name of the column.
    pub column: &'static str,
    /// The direction is the reverse of the usual one.
    pub is_inverted: bool,
}

impl SortOrder {
    /// Orders by a column the usual way.
    pub const fn by(column: &'static str) -> Self {
        Self { column, is_inverted: false }
    }

    /// Takes a column that was chosen; the same again inverts.
    pub fn choose(&mut self, column: &'static str) {
        let is_inverted = self.column == column && !self.is_inverted;
        *self = Self { column, is_inverted };
    }

    /// Goes to the column before or after in a list of them, around its ends.
    pub fn turn(&mut self, columns: &[SortColumn], is_forward: bool) {
        let at = columns.iter().position(|one| one.name == self.column).unwrap_or(0);
        let count = columns.len().max(1);
        let to = if is_forward { at + 1 } else { at + count - 1 } % count;
        if let Some(column) = columns.get(to) {
            *self = Self::by(column.name);
        }
    }

    /// Returns the menu of columns, the present one under the cursor.
    pub fn menu(self, columns: &[SortColumn]) -> Menu<&'static str> {
        let empty = Menu::new("sort by");
        let menu = columns.iter().fold(empty, |menu, one| {
            let state = match (one.name == self.column, self.is_inverted) {
                (false, _) => "",
                (true, false) => "current",
                (true, true) => "current, reversed",
            };
            menu.with(one.name, Some(one.letter), one.label, state)
        });
        menu.on(|name| *name == self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [SortColumn; 3] = [
        SortColumn { name: "node", letter: 'n', label: "node" },
        SortColumn { name: "util", letter: 'u', label: "utilization" },
        SortColumn { name: "mem", letter: 'm', label: "memory" },
    ];

    #[test]
    fn the_same_column_again_inverts_and_turning_goes_around() {
        let mut order = SortOrder::by("node");
        order.choose("util");
        assert_eq!(order, SortOrder::by("util"));
        order.choose("util");
        assert!(order.is_inverted);
        order.turn(&COLUMNS, true);
        assert_eq!(order, SortOrder::by("mem"));
        order.turn(&COLUMNS, true);
        assert_eq!(order, SortOrder::by("node"));
        order.turn(&COLUMNS, false);
        assert_eq!(order, SortOrder::by("mem"));
    }
}
