//! The columns of tables: those of a view, and those that settings choose.

use gtop_fleet::settings::ColumnSpec;

/// The columns of one table of a view, with the heading under which help explains them.
pub(crate) type ColumnGroup = (&'static str, Vec<ColumnSpec>);

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
