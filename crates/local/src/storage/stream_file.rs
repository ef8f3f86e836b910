//! A file that is written piece by piece and is there only when it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::storage::{WriteError, check, rename_to_new, resolve, sync_folder, temp_file};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 18;

/// A new file, under another name until [`commit`](Self::commit); dropped before, nothing is left of it.
#[derive(Debug)]
pub struct StreamFile {
    /// The file as the user named it.
    path: PathBuf,
    target: PathBuf,
    temp_path: TempPath,
    out: BufWriter<File>,
    replaces: bool,
}

impl StreamFile {
    /// Creates it beside its final place. `replaces` allows that a file with its name is replaced.
    pub fn begin(path: &Path, mode: u32, replaces: bool) -> Result<Self, WriteError> {
        let target = resolve(path)?;
        if let Ok(metadata) = target.symlink_metadata() {
            check(path, &target, &metadata)?;
            if !replaces {
                return Err(exists(path));
            }
        }
        let (file, temp_path) = temp_file(&target, mode).map_err(WriteError::failed(path))?;
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { path: path.to_owned(), target, temp_path, out, replaces })
    }

    /// Puts the file in its place.
    pub fn commit(mut self) -> Result<(), WriteError> {
        let failed = WriteError::failed(&self.path);
        let written = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        written.map_err(&failed)?;
        if self.replaces {
            self.temp_path.persist(&self.target).map_err(|error| failed(error.into()))?;
            sync_folder(&self.target);
        } else if !rename_to_new(self.temp_path, &self.target).map_err(failed)? {
            return Err(exists(&self.path));
        }
        Ok(())
    }
}

impl Write for StreamFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn exists(path: &Path) -> WriteError {
    WriteError::Refused {
        what: format!("{} exists", path.display()),
        remedy: "choose another name, or --force replaces it",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole_and_replaces_none_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let mut file = StreamFile::begin(&path, 0o600, false).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(names(), 0);
        let mut file = StreamFile::begin(&path, 0o600, false).unwrap();
        file.write_all(b"whole").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"whole".to_vec(), 1));
        assert!(StreamFile::begin(&path, 0o600, false).is_err());
        // It appears meanwhile.
        let other = folder.path().join("other.csv");
        let file = StreamFile::begin(&other, 0o600, false).unwrap();
        fs::write(&other, "theirs").unwrap();
        assert!(file.commit().is_err());
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        let mut file = StreamFile::begin(&path, 0o600, true).unwrap();
        file.write_all(b"newer").unwrap();
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"newer".to_vec(), 2));
    }
}
