//! A cache of parsed files, re-read only when they have changed, and their lines.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gtop_local::lock::lock;
use gtop_local::storage::{self, FileVersion};

/// Largest file that is read, in bytes; key and `known_hosts` files are far smaller.
const MAX_FILE_SIZE: u64 = 64 * 1024 * 1024;

/// Values parsed from files, by path.
#[derive(Debug)]
pub(crate) struct FileCache<T>(Mutex<BTreeMap<PathBuf, (Option<FileVersion>, T)>>);

impl<T> Default for FileCache<T> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<T: Clone> FileCache<T> {
    /// Returns the value of a file; parses it again if the file has changed.
    pub(crate) fn get(&self, path: &Path, parse: impl FnOnce(&Path) -> T) -> T {
        let version = FileVersion::of(path);
        let mut values = lock(&self.0);
        if let Some((cached_version, value)) = values.get(path)
            && *cached_version == version
        {
            return value.clone();
        }
        let value = parse(path);
        values.insert(path.to_owned(), (version, value.clone()));
        value
    }

    /// Sets the value for the current content of a file.
    pub(crate) fn set(&self, path: &Path, value: T) {
        let version = FileVersion::of(path);
        lock(&self.0).insert(path.to_owned(), (version, value));
    }
}

/// Reads a text file; invalid UTF-8 becomes replacement characters.
pub(crate) fn read(path: &Path) -> std::io::Result<String> {
    read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a whole regular file.
pub(crate) fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    storage::read(path, MAX_FILE_SIZE)?
        .ok_or_else(|| std::io::Error::new(ErrorKind::FileTooLarge, "larger than 64 MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_parsed_again_only_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let cache = FileCache::default();
        let mut reads = 0;
        let mut get = || {
            cache.get(&path, |path| {
                reads += 1;
                read(path).ok()
            })
        };
        assert_eq!(get(), None);
        std::fs::write(&path, "one").unwrap();
        assert_eq!(get().as_deref(), Some("one"));
        assert_eq!(get().as_deref(), Some("one"));
        std::fs::write(&path, "three").unwrap();
        assert_eq!(get().as_deref(), Some("three"));
        assert_eq!(reads, 3);
    }

    #[test]
    fn only_a_regular_file_is_read() {
        assert!(read(Path::new("/dev/zero")).is_err());
        assert!(read(Path::new("/")).is_err());
    }
}
