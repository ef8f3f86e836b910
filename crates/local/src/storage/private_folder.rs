//! Folders that only this user can enter.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::process::geteuid;

use crate::storage::create_parent_folder;

const MODE: u32 = 0o700;

/// Creates a folder, and those that it is in, if it is missing.
///
/// # Errors
///
/// If it cannot be created, or if another user can enter it.
pub fn create(folder: &Path) -> io::Result<()> {
    create_parent_folder(folder, MODE)?;
    match DirBuilder::new().mode(MODE).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    match why_not_private(&fs::symlink_metadata(folder)?) {
        None => Ok(()),
        Some(why) => {
            let why = format!("{} {why}", folder.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

/// Returns true if this is a folder of the user that nobody else can enter, and no link.
pub(super) fn exists(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| why_not_private(&found).is_none())
}

/// Returns what to do about what is no private folder.
fn why_not_private(found: &Metadata) -> Option<&'static str> {
    if found.is_symlink() {
        Some("is a link; remove it")
    } else if !found.is_dir() {
        Some("is no folder; move it away")
    } else if found.uid() != geteuid().as_raw() {
        Some("belongs to another user; move it away")
    } else if found.mode() & 0o077 != 0 {
        Some("is open to other users; chmod go= closes it")
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
    }
}
