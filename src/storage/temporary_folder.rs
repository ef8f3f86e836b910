//! A folder that is removed with all that is in it.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A folder that only this user can enter; dropping it removes it.
#[derive(Debug)]
pub struct TemporaryFolder(tempfile::TempDir);

impl TemporaryFolder {
    /// Creates one where temporary files belong.
    pub fn create() -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("gtop-").permissions(Permissions::from_mode(0o700)).tempdir().map(Self)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
