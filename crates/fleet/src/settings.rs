//! How a setting is declared: its names, kind, default, help, and where it can be set; and how values are parsed.
//!
//! Each part of gtop declares its own; which sources there are, and which of them wins, is not known here.

pub use column_spec::ColumnSpec;
pub use key_row::{KeyIssue, KeyReport, KeyRow, KeyTable};
pub use kind::{Check, ChoiceValue, SettingKind, SettingValue, toml_string, value};
pub use setting::{
    EnvAlias, EnvMapping, Flag, Setting, choice, columns, env_alias, flag, option, sort, switch,
};

pub mod check;
mod column_spec;
mod key_row;
mod kind;
mod setting;
