//! An append-only log file with a size limit, whose writes never block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::storage::{WriteError, nonblocking_flags, open_checked, resolve};

/// Maximum size of a log. One rotated log is kept.
const MAX_BYTES: u64 = 32 << 20;

/// A log: a regular file, a pipe with a reader, or a terminal.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// The path of a regular file; `None` for a pipe or a terminal.
    path: Option<PathBuf>,
    length: u64,
    limit: u64,
}

impl LogFile {
    pub fn open(path: &Path) -> Result<Self, WriteError> {
        Self::with_limit(path, MAX_BYTES)
    }

    fn with_limit(path: &Path, limit: u64) -> Result<Self, WriteError> {
        let failed = WriteError::failed(path);
        if is_stream(path) {
            let opened =
                OpenOptions::new().write(true).custom_flags(nonblocking_flags()).open(path);
            let file = opened.map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NXIO) => WriteError::Refused {
                    what: format!("{} is a pipe without a reader", path.display()),
                    remedy: "start a reader first or name a file",
                },
                _ => failed(error),
            })?;
            return Ok(Self { file, path: None, length: 0, limit });
        }
        let target = resolve(path)?;
        let file = open_checked(path, &target, &mut append_options())?;
        let length = file.metadata().map_err(failed)?.len();
        Ok(Self { file, path: Some(target), length, limit })
    }

    /// Appends a line. If that fails it is dropped, because neither a full disk nor a slow reader may stop
    /// gtop.
    pub fn write_line(&mut self, line: &str) {
        let length = line.len() as u64 + 1;
        // A full log that cannot be rotated does not grow.
        if self.length.saturating_add(length) > self.limit && self.rotate().is_err() {
            return;
        }
        // A single write, so that a pipe takes either the whole line or nothing.
        if self.file.write_all(format!("{line}\n").as_bytes()).is_ok() && self.path.is_some() {
            self.length = self.length.saturating_add(length);
        }
    }

    /// Renames the full log to `FILE.1` and opens a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let mut rotated = path.as_os_str().to_owned();
        rotated.push(".1");
        let metadata = self.file.metadata()?;
        // Another gtop that writes to this file may have rotated it already.
        if fs::symlink_metadata(&path).is_ok_and(|now| now.ino() == metadata.ino()) {
            if fs::symlink_metadata(&rotated).is_ok_and(|file| !file.is_file()) {
                return Err(io::Error::other("not a regular file"));
            }
            fs::rename(&path, &rotated)?;
        }
        let file = open_checked(&path, &path, &mut append_options()).map_err(io::Error::from)?;
        file.set_permissions(metadata.permissions())?;
        self.length = file.metadata()?.len();
        self.file = file;
        Ok(())
    }
}

/// Returns the options to open a log; a new one is readable by its owner only.
fn append_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options
}

/// Returns true if the path is a pipe, a terminal or `/dev/null`. Other devices are refused.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
        || fs::canonicalize(path).is_ok_and(|path| {
            path.starts_with("/dev/pts")
                || ["/dev/tty", "/dev/null"].map(Path::new).contains(&&*path)
        })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test runs mkfifo")]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_full_log_is_rotated_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("log"), folder.path().join("link"));
        fs::write(&path, "before\n").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut log = LogFile::with_limit(&link, 20).unwrap();
        for line in ["one", "two", "three", "four"] {
            log.write_line(line);
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            (read("log.1"), read("log")),
            ("before\none\ntwo\n".into(), "three\nfour\n".into())
        );
        assert!(link.is_symlink());
        assert_eq!(
            fs::metadata(&path).unwrap().mode(),
            fs::metadata(folder.path().join("log.1")).unwrap().mode()
        );
        // With two writers, the log is rotated once.
        let mut other = LogFile::with_limit(&path, 20).unwrap();
        log.write_line("long enough");
        other.write_line("long as well");
        assert_eq!(
            (read("log.1"), read("log")),
            ("three\nfour\n".into(), "long enough\nlong as well\n".into())
        );
    }

    #[test]
    fn a_full_log_that_cannot_be_rotated_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::create_dir(folder.path().join("log.1")).unwrap();
        let mut log = LogFile::with_limit(&path, 10).unwrap();
        for line in ["one", "two", "three", "x"] {
            log.write_line(line);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nx\n");
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_and_a_slow_reader_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = LogFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("pipe is a pipe without a reader; start a reader"), "{error}");
        let mut options = OpenOptions::new();
        let mut reader = options.read(true).custom_flags(nonblocking_flags()).open(&path).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        let line = "x".repeat(999);
        (0..1000).for_each(|_| log.write_line(&line));
        let mut text = vec![0; 2 << 20];
        let length = reader.read(&mut text).unwrap();
        // Only whole lines are dropped.
        assert!(length >= 4000 && length.is_multiple_of(1000), "{length}");
        drop(reader);
        log.write_line("after the reader has closed the pipe");
    }

    #[test]
    fn a_log_to_dev_null_is_accepted() {
        LogFile::open(Path::new("/dev/null")).unwrap().write_line("gone");
    }
}
