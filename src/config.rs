//! The sources of settings, and which of them wins.
//!
//! What can be set is given. Independent of the command-line parser and of the screen: values from the command line
//! arrive as text, and key bindings stay text.

pub use declared::Declared;
pub use file::{ConfigFile, MAX_BYTES, renamed};
pub use paths::{ConfigPaths, FileError};
pub use reference::{init_text, setup_text, show_text};
pub use settings::{SettingSources, Settings};

mod declared;
mod environment;
mod file;
mod paths;
mod reference;
mod settings;
mod toml_value;
