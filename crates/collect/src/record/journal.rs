//! The journal of a recording, beside its file: the lines that are in no block yet, each group of them as soon as it is full.
//!
//! Its first frame tells where in the file the block of its lines will begin. Once there is a block, the lines are there twice
//! until the journal is cut.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::record::layout;
use gtop_local::storage::{self, AppendError, AppendFile, NewFile};

/// Maximum size of a journal that is read.
const MAX_BYTES: u64 = 256 << 20;

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: AppendFile,
    /// Sizes of its groups: compressed, and of their lines.
    groups: Vec<(u32, u32)>,
}

/// Returns the path of the journal of a file.
fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

/// Reads the journal of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match storage::read(&path_of(path), MAX_BYTES) {
        Ok(None) => Err(io::Error::other("it is larger than a journal can be")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read,
    }
}

/// Returns false if there is something else in the place of the journal of a file. What a crash has left may be cut, or zeros.
pub(super) fn is_ours(path: &Path) -> bool {
    let path = path_of(path);
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() => {
            let mut start = [0; 4];
            let read = File::open(&path).and_then(|mut file| file.read(&mut start));
            let begun = start.get(..read.unwrap_or_default()).unwrap_or_default();
            layout::JOURNAL_MAGIC.to_le_bytes().starts_with(begun) || begun == [0; 4]
        }
        Ok(_other) => false,
        Err(_absent) => true,
    }
}

impl Journal {
    /// Opens the journal of a file. What is in it is overwritten.
    pub(super) fn open(path: &Path, new: NewFile) -> Result<Self, AppendError> {
        Ok(Self { file: AppendFile::open(&path_of(path), new)?, groups: Vec::new() })
    }

    /// Appends a group with its sizes; `offset` is where in the file the block of its lines will begin.
    pub(super) fn append(
        &mut self,
        group: &[u8],
        sizes: (u32, u32),
        offset: u64,
    ) -> io::Result<()> {
        if self.groups.is_empty() {
            self.file.truncate(0)?;
            self.file.append(&[&layout::encode_journal_start(offset)?, group].concat())?;
        } else {
            self.file.append(group)?;
        }
        self.groups.push(sizes);
        Ok(())
    }

    /// Returns its lines.
    pub(super) fn lines(&self) -> io::Result<Vec<u8>> {
        let file = self.file.reader()?;
        let size: u64 = self.groups.iter().map(|(length, _)| u64::from(*length)).sum();
        let mut offset = self.file.length() - size;
        let mut lines = Vec::new();
        for (length, _) in &self.groups {
            let mut group = vec![0; usize::try_from(*length).unwrap_or_default()];
            file.read_exact_at(&mut group, offset)?;
            lines.append(&mut layout::decode_lines(&group)?);
            offset += u64::from(*length);
        }
        Ok(lines)
    }

    /// Returns the size of its lines.
    pub(super) fn line_bytes(&self) -> usize {
        self.groups.iter().map(|(_, lines)| *lines as usize).sum()
    }

    /// Removes all lines: they are in a block.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.groups.clear();
        self.file.truncate(0)
    }

    /// Returns its size.
    pub(super) fn length(&self) -> u64 {
        self.file.length()
    }

    /// Lets another one be opened in its place.
    pub(super) fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> io::Result<()> {
        storage::remove(self.file.path())
    }
}
