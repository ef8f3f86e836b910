//! A file that one program at a time appends to, in whole pieces.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::storage::{
    NewFile, WriteError, create_parent_folder, open_to_append, reserve_space, sync_folder,
};

/// An open file with the lock on it.
#[derive(Debug)]
pub struct AppendFile {
    file: File,
    path: PathBuf,
    length: u64,
    /// False if the file system has no locks.
    is_locked: bool,
    /// A part of an append that failed may be left at the end.
    has_remainder: bool,
}

/// The types of file systems that no other machine can mount: ext4, xfs, btrfs, tmpfs, overlay, zfs, f2fs.
const LOCAL_FILE_SYSTEMS: [i128; 7] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0xF2F5_2010];

/// Why a file cannot be appended to.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another program has the lock.
    #[error("another program has locked {0}")]
    Locked(String),
    /// It is no regular file, or cannot be opened.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl AppendFile {
    /// Opens or creates a file and locks it, on network file systems for other machines too.
    pub fn open(path: &Path, new: NewFile) -> Result<Self, AppendError> {
        let failed = WriteError::failed(path);
        create_parent_folder(path, new.folder_mode).map_err(&failed)?;
        let (file, target) = open_to_append(path, new.mode)?;
        let is_locked = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(Errno::WOULDBLOCK) => return Err(AppendError::Locked(path.display().to_string())),
            // NFS without a lock daemon, Lustre without -o flock.
            Err(_) => false,
        };
        let length = file.metadata().map_err(&failed)?.len();
        Ok(Self { file, path: target, length, is_locked, has_remainder: false })
    }

    /// Returns the path, with links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length that it should have: nobody else writes to it.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns false if the file system has no locks, or did not grant one.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Gives the lock back, so that the file can be opened anew.
    pub fn unlock(&self) -> io::Result<()> {
        Ok(rustix::fs::flock(&self.file, FlockOperation::Unlock)?)
    }

    /// Returns a second handle, to read it.
    pub fn reader(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Cuts off what follows `length`.
    pub fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }

    /// Appends bytes and waits until they are on the disk. If that fails, nothing of them stays in the file, or it is cut
    /// off before the next bytes.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        reserve_space(&self.file, self.length, bytes.len())?;
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length += bytes.len() as u64,
            Err(_) => self.has_remainder = self.file.set_len(self.length).is_err(),
        }
        written
    }

    /// Checks that the file is still there and as it was left; an error if not.
    pub fn check(&mut self) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        if metadata.nlink() == 0 {
            return Err(Errno::STALE.into());
        }
        if self.has_remainder && metadata.len() > self.length {
            self.file.set_len(self.length)?;
        } else if metadata.len() != self.length {
            return Err(io::Error::other("another program has changed it"));
        }
        self.has_remainder = false;
        Ok(())
    }

    /// Sets its times to now, which shows others that a program has it open.
    pub fn touch(&self) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        rustix::fs::futimens(&self.file, &Timestamps { last_access: now, last_modification: now })?;
        Ok(())
    }

    /// Returns true if only this machine can have it open: its file system is not shared.
    pub fn is_local(&self) -> bool {
        let kind = rustix::fs::fstatfs(&self.file).map(|info| info.f_type);
        kind.is_ok_and(|kind| LOCAL_FILE_SYSTEMS.iter().any(|known| i128::from(kind) == *known))
    }

    /// Renames it, unless there is a file of that name; it stays open.
    pub fn rename(&mut self, to: &Path) -> io::Result<()> {
        let renamed = rustix::fs::renameat_with(CWD, &self.path, CWD, to, RenameFlags::NOREPLACE);
        if renamed.is_err() {
            // Not every file system can rename without replacing.
            if to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&self.path, to)?;
        }
        sync_folder(to);
        to.clone_into(&mut self.path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_renamed_to_a_name_that_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let [path, taken, free] = ["a", "taken", "free"].map(|name| folder.path().join(name));
        fs::write(&taken, "another's").unwrap();
        let mut file =
            AppendFile::open(&path, NewFile { mode: 0o600, folder_mode: 0o700 }).unwrap();
        let error = file.rename(&taken).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&taken).unwrap(), "another's");
        file.rename(&free).unwrap();
        assert!(free.exists() && !path.exists());
    }
}
