//! A line of a file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::text;

/// The longest path that is shown, Linux's `PATH_MAX`.
const MAX_PATH: usize = 4096;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = text::excerpt(&self.file.to_string_lossy(), MAX_PATH);
        match self.line {
            0 => f.write_str(&file),
            line => write!(f, "{file}:{line}"),
        }
    }
}
