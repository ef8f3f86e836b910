//! The file that a command writes is none of those that it reads.

use std::path::{Path, PathBuf};

use crate::app::CommandError;
use gtop_collect::record::Recording;
use gtop_local::storage::identity;

/// A file would be replaced while it is read.
#[derive(Debug, thiserror::Error)]
#[error("{0} is read by this command, and would be lost; choose another name for what is written")]
pub(super) struct WrittenIsRead(String);

impl CommandError for WrittenIsRead {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// Refuses to write to one of the files that are read, or to a part of one.
pub(super) fn check(written: Option<&Path>, read: &[PathBuf]) -> Result<(), WrittenIsRead> {
    let Some((path, target)) = written.and_then(|path| Some((path, identity(path)?))) else {
        return Ok(());
    };
    let parts = read.iter().flat_map(|path| Recording::parts(path));
    if read.iter().cloned().chain(parts).any(|path| identity(&path) == Some(target)) {
        return Err(WrittenIsRead(path.display().to_string()));
    }
    Ok(())
}
