//! A column of a table: its name in settings, its title, and the sort order a click on it selects.

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The name in settings.
    pub name: &'static str,
    /// The text in the title row.
    pub title: &'static str,
    /// The sort column a click selects; empty if rows cannot be sorted by it.
    pub sort: &'static str,
    /// The description in the list of columns.
    pub help: &'static str,
    /// Always shown, at its default position.
    pub is_fixed: bool,
    /// The titles that it has in other units or for other devices.
    pub other_titles: &'static [&'static str],
}

impl ColumnSpec {
    pub const fn new(
        name: &'static str,
        title: &'static str,
        sort: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, title, sort, help, is_fixed: false, other_titles: &[] }
    }

    /// Returns a column that has a title, and no name yet.
    pub const fn titled(title: &'static str) -> Self {
        Self::new("", title, "", "")
    }
}
