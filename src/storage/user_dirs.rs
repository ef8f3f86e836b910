//! The user's folders, after the XDG base directories.
//!
//! `dirs` reads the variables, but only a `HOME` that is an absolute path is a home here: `dirs` returns a
//! relative one as it is, and without one it calls `getpwuid_r`, which hangs when a directory service does.

use std::path::{Path, PathBuf};

/// Returns `$HOME`.
pub fn home() -> Option<PathBuf> {
    has_absolute("HOME").then(dirs::home_dir)?
}

/// Returns `$XDG_CONFIG_HOME`, by default `~/.config`.
pub fn config() -> Option<PathBuf> {
    (has_absolute("XDG_CONFIG_HOME") || has_absolute("HOME")).then(dirs::config_dir)?
}

/// Returns `$XDG_STATE_HOME`, by default `~/.local/state`.
pub fn state() -> Option<PathBuf> {
    (has_absolute("XDG_STATE_HOME") || has_absolute("HOME")).then(dirs::state_dir)?
}

fn has_absolute(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| Path::new(&value).is_absolute())
}
