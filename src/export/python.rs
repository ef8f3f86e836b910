//! The Python module of `gtop python`.

use std::io::{self, Write};

/// The files of `python/`, which `build.rs` joins.
const MODULE: &str = include_str!(concat!(env!("OUT_DIR"), "/gtop_monitor.py"));

/// Writes the module.
pub fn write_python_module(out: &mut impl Write) -> io::Result<()> {
    out.write_all(MODULE.as_bytes())
}
