//! The parts that views are made of: lines, lists, menus, tables, charts, numbers.

pub(crate) mod column_spec;
pub(crate) mod explanation;
pub(crate) mod graph;
pub(crate) mod host_share;
pub(crate) mod key_hint;
pub(crate) mod line;
pub(crate) mod line_editor;
pub(crate) mod list;
pub(crate) mod menu;
pub(crate) mod number_format;
pub(crate) mod scroll;
pub(crate) mod search;
pub(crate) mod series;
pub(crate) mod table;
