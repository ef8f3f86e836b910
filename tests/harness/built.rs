//! What tests build once for all of them, in the target folder: stub libraries and keys that take long to generate.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder that `build` fills, once per key; `None` if it cannot.
pub(crate) fn folder(key: impl Hash, build: impl FnOnce(&Path) -> Option<()>) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.join(format!("built-{:016x}", hasher.finish()));
    if !folder.is_dir() {
        let new = tempfile::tempdir_in(temporary).unwrap();
        build(new.path())?;
        // Another test may have built the same meanwhile.
        let _exists = fs::rename(new.keep(), &folder);
    }
    Some(folder)
}

/// Returns the folder with a library of this C source; `None` without a compiler.
pub(crate) fn library(name: &str, source: &str, args: &[&str]) -> Option<PathBuf> {
    folder((name, source, args), |folder| {
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(folder.join(name));
        compiler.args(["-x", "c", "-"]).args(args).stdin(Stdio::piped());
        let Ok(mut compiling) = compiler.spawn() else {
            eprintln!("skipped: no C compiler");
            return None;
        };
        compiling.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(compiling.wait().unwrap().success(), "{name} does not compile");
        Some(())
    })
}
