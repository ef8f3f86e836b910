//! The user's folders, after the XDG base directories, by the crate `dirs`.
//!
//! Without `HOME`, the crate asks the account database, by `getpwuid_r`. In glibc, that loads the modules of directory
//! services, which can hang and may not match the C library that gtop was built with. So `HOME` is read first, and without
//! it no folder is known.

use std::env;
use std::path::{Path, PathBuf};

/// Returns `$HOME`; `None` if it is not an absolute path.
pub fn home() -> Option<PathBuf> {
    if is_absolute("HOME") { dirs::home_dir() } else { None }
}

/// Returns `$XDG_CONFIG_HOME`, by default `~/.config`.
pub fn config() -> Option<PathBuf> {
    if is_absolute("XDG_CONFIG_HOME") || is_absolute("HOME") { dirs::config_dir() } else { None }
}

/// Returns `$XDG_STATE_HOME`, by default `~/.local/state`.
pub fn state() -> Option<PathBuf> {
    if is_absolute("XDG_STATE_HOME") || is_absolute("HOME") { dirs::state_dir() } else { None }
}

/// Returns `$XDG_RUNTIME_DIR`.
pub fn runtime() -> Option<PathBuf> {
    dirs::runtime_dir()
}

fn is_absolute(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| Path::new(&value).is_absolute())
}
