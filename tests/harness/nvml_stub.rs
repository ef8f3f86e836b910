//! The stub libnvidia-ml.so.1.

use std::path::PathBuf;

use crate::harness::built;

/// Returns the folder of the library; `None` without a compiler.
///
/// `entry` is the size of an entry of its process lists in bytes: 16 before driver 450, 24 since, 32 from 535.43 to
/// 535.98 under the symbol of the 24.
pub(crate) fn folder(entry: u32) -> Option<PathBuf> {
    let name = "libnvidia-ml.so.1";
    let args = ["-fvisibility=hidden", &format!("-Wl,-soname,{name}"), &format!("-DENTRY={entry}")];
    built::library(name, include_str!("../stubs/nvml.c"), &args)
}
