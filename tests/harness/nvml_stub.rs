//! Builds the stub libnvidia-ml.so.1, once per version of its source.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder of the library; `None` without a compiler.
///
/// `entry` is the size of an entry of its process lists in bytes: 16 before driver 450, 24 since, 32 from 535.43 to
/// 535.98 under the symbol of the 24.
pub(crate) fn folder(entry: u32) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stubs/nvml.c");
    let mut hasher = DefaultHasher::new();
    std::fs::read(&source).unwrap().hash(&mut hasher);
    entry.hash(&mut hasher);
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.join(format!("nvml-{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Some(folder);
    }
    let build_folder = tempfile::tempdir_in(temporary).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"])
        .arg(format!("-DENTRY={entry}"))
        .arg("-o")
        .arg(build_folder.path().join("libnvidia-ml.so.1"))
        .arg(&source)
        .stderr(Stdio::inherit())
        .status();
    let Ok(status) = status else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(status.success(), "{} does not compile", source.display());
    // Another test may have status the same library first.
    let _exists = std::fs::rename(build_folder.keep(), &folder);
    Some(folder)
}
