//! Folders that only this user can enter.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::geteuid;

use crate::storage::{WriteError, create_parent_folder};

const MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// What is wrong, and the remedy.
type Why = (&'static str, &'static str);

/// Creates a folder, and those that it is in, if it is missing.
///
/// # Errors
///
/// If it cannot be created, or if another user can enter it.
pub fn create(folder: &Path) -> Result<(), WriteError> {
    let failed = WriteError::failed(folder);
    create_parent_folder(folder, MODE).map_err(&failed)?;
    match DirBuilder::new().mode(MODE).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(folder).map_err(failed)?;
    why_not_private(&found).map_or(Ok(()), |why| Err(refused(folder, why)))
}

/// Lets nobody but this user read a file of a private folder, if it is there.
///
/// # Errors
///
/// If it is a link, no file, or another user's.
pub fn close_file(path: &Path) -> Result<(), WriteError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if let Some(why) = why_foreign(&found, found.is_file(), ("is no file", "move it away")) {
        return Err(refused(path, why));
    }
    if is_open(&found) {
        let closed = fs::set_permissions(path, fs::Permissions::from_mode(FILE_MODE));
        closed.map_err(WriteError::failed(path))?;
    }
    Ok(())
}

fn refused(path: &Path, (what, remedy): Why) -> WriteError {
    WriteError::Refused { what: format!("{} {what}", path.display()), remedy }
}

/// Returns true if this is a folder of the user that nobody else can enter, and no link.
pub(super) fn exists(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| why_not_private(&found).is_none())
}

/// Returns what to do about what is no private folder.
fn why_not_private(found: &Metadata) -> Option<Why> {
    why_foreign(found, found.is_dir(), ("is no folder", "move it away"))
        .or_else(|| is_open(found).then_some(("is open to other users", "chmod go= closes it")))
}

/// Returns true if other users have a permission.
fn is_open(found: &Metadata) -> bool {
    found.mode() & 0o077 != 0
}

/// Returns what to do about what is a link, another user's, or not of the kind that it should be.
fn why_foreign(found: &Metadata, is_of_kind: bool, other_kind: Why) -> Option<Why> {
    if found.is_symlink() {
        Some(("is a link", "remove it"))
    } else if !is_of_kind {
        Some(other_kind)
    } else if found.uid() != geteuid().as_raw() {
        Some(("belongs to another user", "move it away"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn only_a_folder_that_others_cannot_enter_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        for name in ["new/inner", "new", "new/inner"] {
            create(&path(name)).unwrap();
            assert_eq!(fs::metadata(path(name)).unwrap().mode() & 0o777, 0o700);
        }
        assert!(exists(&path("new")) && !exists(&path("missing")));
        symlink(path("new"), path("link")).unwrap();
        fs::write(path("file"), "").unwrap();
        create(&path("open")).unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o710)).unwrap();
        let mut refused = vec![
            ("link", "is a link; remove it"),
            ("file", "is no folder; move it away"),
            ("open", "is open to other users; chmod go= closes it"),
        ];
        if geteuid().is_root() {
            create(&path("theirs")).unwrap();
            chown(path("theirs"), Some(65534), None).unwrap();
            refused.push(("theirs", "belongs to another user; move it away"));
        }
        for (name, why) in refused {
            let error = create(&path(name)).unwrap_err().to_string();
            assert_eq!(error, format!("{} {why}", path(name).display()));
            assert!(!exists(&path(name)), "{name}");
        }
        let error = create(&path("file/inner")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}: ", path("file/inner").display())));
    }

    #[test]
    fn a_file_is_closed_to_others_if_it_is_ones_own() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        close_file(&path("missing")).unwrap();
        fs::write(path("own"), "").unwrap();
        fs::set_permissions(path("own"), fs::Permissions::from_mode(0o644)).unwrap();
        close_file(&path("own")).unwrap();
        assert_eq!(fs::metadata(path("own")).unwrap().mode() & 0o777, 0o600);
        symlink(path("own"), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let mut refused =
            vec![("link", "is a link; remove it"), ("folder", "is no file; move it away")];
        if geteuid().is_root() {
            fs::write(path("theirs"), "").unwrap();
            chown(path("theirs"), Some(65534), None).unwrap();
            refused.push(("theirs", "belongs to another user; move it away"));
        }
        for (name, why) in refused {
            let error = close_file(&path(name)).unwrap_err().to_string();
            assert_eq!(error, format!("{} {why}", path(name).display()));
        }
    }
}
