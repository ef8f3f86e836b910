//! A file that is written piece by piece and is there only when it is whole.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::storage::{TempFile, WriteError, check, resolve, sync_folder};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 18;

/// A new file, under another name until [`commit`](Self::commit); dropped before, nothing is left of it.
#[derive(Debug)]
pub struct StreamFile {
    /// The file as the user named it.
    path: PathBuf,
    target: PathBuf,
    temp_file: TempFile,
    out: BufWriter<std::fs::File>,
    replaces: bool,
}

impl StreamFile {
    /// Creates it beside its final place. `replaces` allows that a file with its name is replaced.
    pub fn begin(path: &Path, mode: u32, replaces: bool) -> Result<Self, WriteError> {
        let failed = WriteError::failed(path);
        let target = resolve(path)?;
        if let Ok(metadata) = target.symlink_metadata() {
            check(path, &target, &metadata)?;
            if !replaces {
                return Err(exists(path));
            }
        }
        let temp_file = TempFile::create(&target, mode).map_err(&failed)?;
        let file = temp_file.file.try_clone().map_err(&failed)?;
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { path: path.to_owned(), target, temp_file, out, replaces })
    }

    /// Puts the file in its place.
    pub fn commit(mut self) -> Result<(), WriteError> {
        let failed = WriteError::failed(&self.path);
        let written = self.out.flush().and_then(|()| self.temp_file.file.sync_all());
        written.map_err(&failed)?;
        let flags = if self.replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let temporary = &self.temp_file.path;
        match rustix::fs::renameat_with(CWD, temporary, CWD, &self.target, flags) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(exists(&self.path)),
            // Not every file system supports these flags.
            Err(Errno::INVAL | Errno::NOSYS) => {
                std::fs::rename(temporary, &self.target).map_err(failed)?;
            }
            Err(error) => return Err(failed(error.into())),
        }
        sync_folder(&self.target);
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
