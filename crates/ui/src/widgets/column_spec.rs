//! Columns of tables: their names in settings, their titles, and the sort order a click on each selects.

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
    pub(crate) other_titles: &'static [&'static str],
}

/// The columns of one table of a view, with the heading under which help explains them.
pub(crate) type ColumnGroup = (&'static str, Vec<ColumnSpec>);

impl ColumnSpec {
    pub(crate) const fn new(
        name: &'static str,
        title: &'static str,
        sort: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, title, sort, help, is_fixed: false, other_titles: &[] }
    }
}

/// The configured columns of each table, by name, from left to right; if empty, the table shows as many
/// columns as fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableColumns {
    /// Of the node list.
    pub fleet: Vec<String>,
    /// Of the device table of a node.
    pub node: Vec<String>,
    /// Of the process table.
    pub processes: Vec<String>,
    /// Of the list of jobs.
    pub jobs: Vec<String>,
    /// Of the user table.
    pub users: Vec<String>,
}
