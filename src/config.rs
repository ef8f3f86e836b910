//! Settings: what can be set, where each is set, and which of several wins.
//!
//! One table says it all; options, environment, files, setup pages and the reference are made from it.
//! Knows neither the command line's parser nor a terminal: what is typed comes as text.

pub use file::{ConfigFile, MAX_BYTES, Problem};
pub use kind::{Check, ChoiceValue, Kind, Value};
pub use paths::{ConfigPaths, FileError};
pub use reference::{init_text, keys_text, metrics_text, setup_text, show_text, table_text};
pub use setting::{EnvAlias, EnvMapping, Flag, Setting};
pub use settings::{Layer, Settings, Sources};
pub use setup_pages::setup;
pub use table::{CURRENT_USER, SETTINGS, setting};

mod check;
mod environment;
mod file;
mod kind;
mod paths;
mod reference;
mod setting;
mod settings;
mod setup_pages;
mod table;
