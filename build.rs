//! Joins the files of `python/` into `gtop_monitor.py`, and names the commit of a release.

use std::io::{Result, Write as _};
use std::path::Path;
use std::{env, fs};

#[path = "build/commit.rs"]
mod commit;
#[path = "build/python_module.rs"]
mod python_module;

fn main() -> Result<()> {
    writeln!(
        std::io::stdout(),
        "cargo::rerun-if-changed=python\ncargo::rerun-if-changed=build.rs\ncargo::rerun-if-changed=build"
    )?;
    set_commit()?;
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    fs::write(Path::new(&out).join("gtop_monitor.py"), python_module::join(&version)?)
}

/// Sets `GTOP_COMMIT` for the compiler unless the environment does. Only in release builds, because a changed commit
/// recompiles the crate.
fn set_commit() -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "cargo::rerun-if-env-changed=GTOP_COMMIT")?;
    let is_release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    if !is_release || env::var_os("GTOP_COMMIT").is_some() {
        return Ok(());
    }
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    if let Some(commit) = commit::Commit::of(Path::new(&root)) {
        writeln!(out, "cargo::rustc-env=GTOP_COMMIT={}\ncargo::rerun-if-changed=src", commit.name)?;
        for file in commit.watched {
            writeln!(out, "cargo::rerun-if-changed={}", file.display())?;
        }
    }
    Ok(())
}
