//! A folder that is removed with all that is in it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The folders that exist: a program that is ended by force removes them, too.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that only this user can enter; dropping it removes it.
#[derive(Debug)]
pub struct TemporaryFolder(tempfile::TempDir);

impl TemporaryFolder {
    /// Creates one where temporary files belong.
    pub fn create() -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let folder =
            builder.prefix("gtop-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        if let Ok(mut folders) = FOLDERS.lock() {
            folders.push(folder.path().to_owned());
        }
        Ok(Self(folder))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Ok(mut folders) = FOLDERS.lock() {
            folders.retain(|path| path != self.path());
        }
    }
}

/// Removes all of them, for a program that ends without dropping them.
pub fn remove_temporary_folders() {
    // Who holds the lock is about to remove its folder, or has just made it.
    let folders = FOLDERS.try_lock().map(|mut folders| std::mem::take(&mut *folders));
    for path in folders.unwrap_or_default() {
        // The program ends: nothing can be done about a failure.
        fs::remove_dir_all(path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_when_it_is_dropped_and_when_the_program_is_ended() {
        let dropped = TemporaryFolder::create().unwrap();
        let kept = TemporaryFolder::create().unwrap();
        let paths = [&dropped, &kept].map(|folder| folder.path().to_owned());
        for path in &paths {
            fs::write(path.join("file"), "x").unwrap();
        }
        drop(dropped);
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true]);
        remove_temporary_folders();
        assert!(!kept.path().exists());
    }
}
