//! The folder of the sockets of `gtop login`: only this user can enter it, and it is the same for each gtop of the user.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::process::geteuid;

use crate::storage::{private_folder, user_dirs};

/// The longest path of a folder: a socket in it has a name of 32 characters, to which ssh adds 17 while it creates the
/// socket, and the address of a socket holds 107.
const MAX_FOLDER_BYTES: usize = 107 - 1 - 32 - 17;

/// Returns the path of the folder, which may not exist.
pub fn path() -> PathBuf {
    let uid = geteuid().as_raw();
    let system = PathBuf::from(format!("/run/user/{uid}"));
    let folders = user_dirs::runtime().into_iter().chain([system]);
    folders
        .filter(|folder| private_folder::exists(folder))
        .map(|folder| folder.join("gtop"))
        .find(|folder| folder.as_os_str().len() <= MAX_FOLDER_BYTES)
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/gtop-{uid}")))
}

/// Returns the folder; `None` if it does not exist, or if another user can enter it.
pub fn find() -> Option<PathBuf> {
    Some(path()).filter(|folder| private_folder::exists(folder))
}

/// Returns the folder, and creates it if it is missing.
///
/// # Errors
///
/// If it cannot be created, or if another user can enter it.
pub fn create() -> io::Result<PathBuf> {
    let folder = path();
    private_folder::create(&folder)?;
    Ok(folder)
}

/// Removes the folder if nothing is in it.
pub fn remove_if_empty() {
    if let Some(folder) = find() {
        // It fails if something is in it.
        fs::remove_dir(folder).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_in_the_folder_fits_its_address() {
        assert!(path().as_os_str().len() <= MAX_FOLDER_BYTES);
    }
}
