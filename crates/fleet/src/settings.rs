//! How a setting is declared: its names, kind, default, help, and where it can be set; how values are parsed; and the
//! groups of settings that are read as structs.
//!
//! Each part of gtop declares its own; which sources there are, and which of them wins, is not known here.

pub use column_spec::ColumnSpec;
pub use declaration::{
    Declaration, choice, columns, count, distinct_list, list, open_switch, percent_pair, seconds,
    sort, switch, text,
};
pub use field::{Choice, DEFAULT_ORIGIN, Given, Layer, SettingField};
pub use group::{SettingGroup, dashed, default_group};
pub use key_row::{KeyIssue, KeyReport, KeyRow, KeyTable};
pub use kind::{Check, ChoiceValue, SettingKind, SettingValue, toml_string, value};
pub use setting::{EnvAlias, EnvMapping, Flag, Setting, env_alias, flag};

pub mod check;
mod column_spec;
mod declaration;
mod field;
mod group;
mod key_row;
mod kind;
mod process_kinds;
mod setting;
