//! Builds the stub libnvidia-ml.so.1, once per version of its source.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder that holds the library; `None` where there is no compiler.
///
/// An entry of its process lists has so many bytes: 16 before 450, 24 since, 32 from 535.43 to 535.98 under the
/// symbol of the 24.
pub(crate) fn folder(entry: u32) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stubs/nvml.c");
    let mut hasher = DefaultHasher::new();
    std::fs::read(&source).unwrap().hash(&mut hasher);
    entry.hash(&mut hasher);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = place.join(format!("nvml-{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Some(folder);
    }
    let own = tempfile::tempdir_in(place).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"])
        .arg(format!("-DENTRY={entry}"))
        .arg("-o")
        .arg(own.path().join("libnvidia-ml.so.1"))
        .arg(&source)
        .stderr(Stdio::inherit())
        .status();
    let Ok(status) = built else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(status.success(), "{} does not compile", source.display());
    // Another test may have been faster; then its library is as good.
    let _taken = std::fs::rename(own.keep(), &folder);
    Some(folder)
}
