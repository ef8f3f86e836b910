//! A file that grows by whole lines, to which other programs may append as well.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::storage::{WriteError, open_to_append, reserve_space};

/// Mode of a new file, before the umask: its content is for anybody.
const MODE: u32 = 0o644;

/// A file of lines. It is opened for each batch, so that a file that was moved away is created anew.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    /// The first line of an empty file.
    header: String,
}

impl LineFile {
    /// Checks that the file can be written, and creates it if it is missing.
    pub fn open(path: &Path, header: impl Into<String>) -> Result<Self, WriteError> {
        open_to_append(path, MODE)?;
        Ok(Self { path: path.to_owned(), header: header.into() })
    }

    /// Returns true if the file begins with the header, or is empty.
    pub fn has_header(&self) -> Result<bool, WriteError> {
        let mut start = Vec::new();
        let (file, _) = open_to_append(&self.path, MODE)?;
        let read = file.take(self.header.len() as u64).read_to_end(&mut start);
        read.map_err(WriteError::failed(&self.path))?;
        Ok(start.is_empty() || start == self.header.as_bytes())
    }

    /// Appends whole lines in one write, after the header if the file is empty. On an error, such as a full disk,
    /// nothing is left of them.
    pub fn append(&self, lines: &str) -> Result<(), WriteError> {
        let (mut file, _) = open_to_append(&self.path, MODE)?;
        // Two writers of an empty file must not both write the header. Where locks are not supported, they may.
        flock(&file, FlockOperation::LockExclusive).ok();
        let appended = self.prefix(&mut file).and_then(|(length, prefix)| {
            let text = [prefix, lines].concat();
            reserve_space(&file, length, text.len())?;
            write_whole(&mut file, text.as_bytes())
        });
        appended.map_err(WriteError::failed(&self.path))
    }

    /// Returns the length of the file, and what has to precede new lines: the header, or the end of half a line.
    fn prefix(&self, file: &mut File) -> io::Result<(u64, &str)> {
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok((0, &self.header));
        }
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok((length, if last == *b"\n" { "" } else { "\n" }))
    }
}

/// Writes all bytes to the end of the file, or none.
fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let written = file.write(bytes)?;
    if written == bytes.len() {
        return Ok(());
    }
    // The position is the end of this write, wherever other programs have written since.
    let end = file.stream_position()?;
    if file.metadata()?.len() == end {
        file.set_len(end.saturating_sub(written as u64))?;
    }
    Err(io::Error::new(io::ErrorKind::StorageFull, "not enough space for a complete line"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn lines_follow_the_header_of_an_empty_file_and_end_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        for (before, after) in [
            (None, "head\none\n"),
            (Some(""), "head\none\n"),
            (Some("head\n"), "head\none\n"),
            (Some("other\n"), "other\none\n"),
            (Some("head\nhal"), "head\nhal\none\n"),
        ] {
            let path = folder.path().join("lines");
            fs::remove_file(&path).ok();
            if let Some(before) = before {
                fs::write(&path, before).unwrap();
            }
            let file = LineFile::open(&path, "head\n").unwrap();
            file.append("one\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after, "{before:?}");
            file.append("two\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{after}two\n"));
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o133, 0);
        }
    }

    #[test]
    fn a_file_that_was_moved_away_is_created_anew() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let file = LineFile::open(&at("lines"), "head\n").unwrap();
        file.append("one\n").unwrap();
        fs::rename(at("lines"), at("lines.1")).unwrap();
        file.append("two\n").unwrap();
        assert_eq!(fs::read_to_string(at("lines.1")).unwrap(), "head\none\n");
        assert_eq!(fs::read_to_string(at("lines")).unwrap(), "head\ntwo\n");
    }

    #[test]
    fn two_writers_write_one_header_and_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                let path = &path;
                scope.spawn(move || {
                    let file = LineFile::open(path, "head\n").unwrap();
                    (0..200).for_each(|_| file.append(&format!("{}\n", name.repeat(50))).unwrap());
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().count(), text.matches("head").count()), (601, 1));
        assert!(text.starts_with("head\n") && text.lines().skip(1).all(|line| line.len() == 50));
    }
}
