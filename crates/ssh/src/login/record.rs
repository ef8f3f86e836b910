//! Records of the master connections that `gtop login` has opened: what `gtop login --close` ends.
//!
//! Each is a small file in the folder of the sockets, beside the socket if that is not elsewhere by `ControlPath`. A
//! master of another program is distinguished from gtop's by its process.

use std::io;
use std::path::{Path, PathBuf};

use gtop_local::storage::{self, NewFile};

/// Most bytes of a record.
const MAX_BYTES: u64 = 4096;

/// The ending of the files.
const EXTENSION: &str = "login";

/// A master connection that gtop has opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginRecord {
    /// Tells the host and the user from all others.
    pub(crate) id: String,
    /// The process of the master.
    pub(crate) pid: u32,
    /// The id of the gateway that it goes through, if gtop has opened a connection to that one, too.
    pub(crate) gateway: Option<String>,
    /// The host, as the user typed it.
    pub(crate) name: String,
    pub(crate) socket: PathBuf,
}

impl LoginRecord {
    /// Writes the record to the folder.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let gateway = self.gateway.as_deref().unwrap_or_default();
        let socket = self.socket.to_string_lossy();
        let text = format!("{}\n{gateway}\n{}\n{socket}\n", self.pid, self.name);
        let file = NewFile { mode: 0o600, folder_mode: 0o700 };
        Ok(storage::write(&self.path(folder), text.as_bytes(), file)?)
    }

    /// Removes the record from the folder.
    pub(crate) fn remove(&self, folder: &Path) {
        // It may be gone already.
        storage::remove(&self.path(folder)).ok();
    }

    /// Returns all records in the folder, by name.
    pub(crate) fn read_all(folder: &Path) -> Vec<Self> {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut records: Vec<_> = files.filter_map(|file| Self::read(&file.path())).collect();
        records.sort_by(|one, other| one.name.cmp(&other.name));
        records
    }

    fn read(file: &Path) -> Option<Self> {
        if file.extension()? != EXTENSION {
            return None;
        }
        let bytes = storage::read(file, MAX_BYTES).ok()??;
        let text = String::from_utf8(bytes).ok()?;
        let mut lines = text.lines();
        Some(Self {
            id: file.file_stem()?.to_str()?.to_owned(),
            pid: lines.next()?.parse().ok()?,
            gateway: lines.next().map(str::to_owned).filter(|id| !id.is_empty()),
            name: lines.next()?.to_owned(),
            socket: lines.next()?.into(),
        })
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.id).with_extension(EXTENSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_other_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let record = |id: &str, gateway: Option<&str>| LoginRecord {
            id: id.to_owned(),
            pid: 4711,
            gateway: gateway.map(str::to_owned),
            name: format!("gpu{id}"),
            socket: folder.path().join(id),
        };
        let records = [record("01", None), record("02", Some("01"))];
        for record in &records {
            record.write(folder.path()).unwrap();
        }
        std::fs::write(folder.path().join("03.login"), "x\n").unwrap();
        std::fs::write(folder.path().join("03"), "x\n").unwrap();
        assert_eq!(LoginRecord::read_all(folder.path()), records);
        records[0].remove(folder.path());
        assert_eq!(LoginRecord::read_all(folder.path()), records[1..]);
    }
}
