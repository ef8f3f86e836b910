//! Settings: what can be set, where each is set, and which of several wins.
//!
//! One table says it all; options, environment, files, setup pages and the reference are made from it.
//! Knows neither the command line's parser nor a terminal: what is typed comes as text.

pub use file::{MOST_BYTES, Problem, Written};
pub use kind::{Check, Kind, Value, Word};
pub use pages::setup;
pub use place::{FileError, Places};
pub use reference::{init_text, keys_text, metrics_text, setup_text, show_text, table_text};
pub use setting::{Flag, Reading, Setting, Twin};
pub use settings::{Layer, Settings, Sources};
pub use table::{OWN, SETTINGS, setting};

mod check;
mod environment;
mod file;
mod kind;
mod pages;
mod place;
mod reference;
mod setting;
mod settings;
mod table;
