//! Settings: their table, their sources, and which source wins.
//!
//! Command-line options, environment variables, files, setup pages and the reference are all generated from
//! the table. Independent of the command-line parser and of the terminal: values from the command line arrive
//! as text.

pub use file::{ConfigFile, MAX_BYTES, Problem};
pub use kind::{Check, ChoiceValue, SettingKind, SettingValue};
pub use paths::{ConfigPaths, FileError};
pub use reference::{init_text, setup_text, show_text};
pub use setting::{EnvAlias, EnvMapping, Flag, Setting};
pub use settings::{Layer, SettingSources, Settings};
pub use setup_pages::setup;
pub use table::{CURRENT_USER, JOBS, SECTIONS, setting, settings};

pub mod check;
mod environment;
mod file;
mod kind;
mod paths;
mod reference;
mod setting;
mod settings;
mod setup_pages;
mod table;
