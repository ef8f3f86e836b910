//! The folder of the sockets of `gtop login`: only this user can enter it, and it is the same for each gtop of the user.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::storage::user_dirs;

/// The longest path of a folder: a socket in it has a name of 32 characters, to which ssh adds 17 while it creates the
/// socket, and the address of a socket holds 107.
const MAX_FOLDER_BYTES: usize = 107 - 1 - 32 - 17;

/// Returns the path of the folder, which may not exist.
pub fn path() -> PathBuf {
    let uid = geteuid().as_raw();
    let system = PathBuf::from(format!("/run/user/{uid}"));
    let folders = user_dirs::runtime().into_iter().chain([system]);
    folders
        .filter(|folder| is_private(folder))
        .map(|folder| folder.join("gtop"))
        .find(|folder| folder.as_os_str().len() <= MAX_FOLDER_BYTES)
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/gtop-{uid}")))
}

/// Returns the folder; `None` if it does not exist, or if another user can enter it.
pub fn find() -> Option<PathBuf> {
    Some(path()).filter(|folder| is_private(folder))
}

/// Returns the folder, and creates it if it is missing.
///
/// # Errors
///
/// If it cannot be created, or if another user can enter it.
pub fn create() -> io::Result<PathBuf> {
    let folder = path();
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    if !is_private(&folder) {
        let why = format!("{} is not a private folder of yours; remove it", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(folder)
}

/// Removes the folder if nothing is in it.
pub fn remove_if_empty() {
    if let Some(folder) = find() {
        // It fails if something is in it.
        fs::remove_dir(folder).ok();
    }
}

/// Returns true if this is a folder of the user that nobody else can enter, and no link.
fn is_private(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| {
        let is_of_others = found.mode() & 0o077 != 0;
        found.is_dir() && found.uid() == geteuid().as_raw() && !is_of_others
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_can_enter_or_a_link_is_not_private() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("gtop");
        assert!(!is_private(&folder));
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        assert!(is_private(&folder));
        let link = parent.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(!is_private(&link));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o710)).unwrap();
        assert!(!is_private(&folder));
    }

    #[test]
    fn a_socket_in_the_folder_fits_its_address() {
        assert!(path().as_os_str().len() <= MAX_FOLDER_BYTES);
    }
}
