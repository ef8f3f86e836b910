//! The columns of a table as people choose them: their names, what stands over them, and by what a
//! click on one sorts.

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name in settings.
    pub name: &'static str,
    /// What stands over it.
    pub title: &'static str,
    /// The order a click on it chooses; empty where there is none.
    pub sort: &'static str,
    /// What stands in it.
    pub help: &'static str,
    /// It is always there, in its place.
    pub is_fixed: bool,
}

impl ColumnSpec {
    /// Declares one.
    pub(crate) const fn new(
        name: &'static str,
        title: &'static str,
        sort: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, title, sort, help, is_fixed: false }
    }

    /// Makes it one that is always there.
    pub(crate) const fn always(self) -> Self {
        Self { is_fixed: true, ..self }
    }
}

/// The columns somebody chose for each table, by their names, from left to right; where there are
/// none, as many are shown as there is room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableColumns {
    /// Of the list of nodes.
    pub fleet: Vec<String>,
    /// Of the devices of a node.
    pub node: Vec<String>,
    /// Of processes.
    pub processes: Vec<String>,
    /// Of users.
    pub users: Vec<String>,
}

/// Returns the places of the chosen columns in a table, in the order they were chosen; none where
/// nothing was.
pub(crate) fn places(headings: &[ColumnSpec], chosen: &[String]) -> Option<Vec<usize>> {
    if chosen.is_empty() {
        return None;
    }
    let place = |name: &String| headings.iter().position(|heading| heading.name == name);
    Some(chosen.iter().filter_map(place).collect())
}
