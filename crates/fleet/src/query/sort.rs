//! The sort order of rows: one column, and whether its default direction is inverted.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortColumn {
    /// The name in settings and clicks; for a field, its alias.
    pub name: &'static str,
    /// The key that selects it in the sort menu.
    pub key: char,
    /// The label in the sort menu.
    pub label: &'static str,
    /// The description among the values of the setting.
    pub help: &'static str,
    /// The name in earlier versions, still accepted; empty for none.
    pub former: &'static str,
}

impl SortColumn {
    /// Declares a sort column.
    pub const fn new(
        name: &'static str,
        key: char,
        label: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, key, label, help, former: "" }
    }

    /// Sets the name in earlier versions.
    #[must_use]
    pub const fn formerly(self, former: &'static str) -> Self {
        Self { former, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// The name of the column.
    pub column: &'static str,
    /// Inverts the default direction of the column.
    pub is_reversed: bool,
}

impl Default for SortOrder {
    /// Sorts by node, as most lists are at first.
    fn default() -> Self {
        Self::by("node")
    }
}

impl SortOrder {
    /// Sorts by a column in its default direction.
    pub const fn by(column: &'static str) -> Self {
        Self { column, is_reversed: false }
    }

    /// Sorts by a column; inverts the order if it is the sort column already.
    pub fn select(&mut self, column: &'static str) {
        let is_inverted = self.column == column && !self.is_reversed;
        *self = Self { column, is_reversed: is_inverted };
    }

    /// Moves to the next or previous column, and wraps around.
    pub fn cycle(&mut self, columns: &[SortColumn], is_forward: bool) {
        let at = columns.iter().position(|one| one.name == self.column).unwrap_or(0);
        let count = columns.len().max(1);
        let to = if is_forward { at + 1 } else { at + count - 1 } % count;
        if let Some(column) = columns.get(to) {
            *self = Self::by(column.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [SortColumn; 3] = [
        SortColumn::new("node", 'n', "node", ""),
        SortColumn::new("util", 'u', "utilization", ""),
        SortColumn::new("mem", 'm', "memory", ""),
    ];

    #[test]
    fn selecting_a_column_again_reverses_and_cycling_wraps() {
        let mut order = SortOrder::by("node");
        order.select("util");
        assert_eq!(order, SortOrder::by("util"));
        order.select("util");
        assert!(order.is_reversed);
        order.cycle(&COLUMNS, true);
        assert_eq!(order, SortOrder::by("mem"));
        order.cycle(&COLUMNS, true);
        assert_eq!(order, SortOrder::by("node"));
        order.cycle(&COLUMNS, false);
        assert_eq!(order, SortOrder::by("mem"));
    }
}
