//! The user's folders, after the XDG base directories.
//!
//! The crate `dirs` would do this with a call to `getpwuid_r`, for users without `HOME`. In glibc, that loads the
//! modules of directory services, which can hang and may not match the C library that gtop was built with;
//! `.ci/program.py` refuses programs that call it. `dirs` also takes a relative `HOME`.

use std::path::PathBuf;

/// Returns `$HOME`; `None` if it is not an absolute path.
pub fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// Returns `$XDG_CONFIG_HOME`, by default `~/.config`.
pub fn config() -> Option<PathBuf> {
    absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))
}

/// Returns `$XDG_STATE_HOME`, by default `~/.local/state`.
pub fn state() -> Option<PathBuf> {
    absolute("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")))
}

/// Returns `$XDG_RUNTIME_DIR`.
pub fn runtime() -> Option<PathBuf> {
    absolute("XDG_RUNTIME_DIR")
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
