//! Keeps the filters used last in `gtop/filters` of the user's state folder. Nothing is kept without a home directory.

use std::path::{Path, PathBuf};

use gtop_fleet::query::{read_recent_filters, remember_filter};
use gtop_local::storage::{self, NewFile, WriteError, user_dirs};

const MAX_BYTES: u64 = 64 << 10;
/// Filters name users and jobs.
const FILE_MODES: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };

/// The file of recent filters.
#[derive(Clone, Debug)]
pub(super) struct RecentFilterFile(Option<PathBuf>);

impl RecentFilterFile {
    /// Returns the file of this user.
    pub(super) fn of_user() -> Self {
        Self(user_dirs::state().map(|folder| folder.join("gtop/filters")))
    }

    /// Returns the filters, the newest first; none if they cannot be read.
    pub(super) fn read(&self) -> Vec<String> {
        let content = self.0.as_deref().and_then(|path| storage::read(path, MAX_BYTES).ok()?);
        content.map_or_else(Vec::new, |content| {
            read_recent_filters(&String::from_utf8_lossy(&content))
        })
    }

    /// Puts a filter in front, beside those that other instances have added; the error is for the user.
    pub(super) async fn remember(&self, filter: String) -> Result<(), String> {
        let Some(path) = self.0.clone() else { return Ok(()) };
        // The home directory may be on a slow file server.
        let why = match tokio::task::spawn_blocking(move || write(&path, &filter)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(format!("recent filters are not kept: {why}"))
    }
}

fn write(path: &Path, filter: &str) -> Result<(), WriteError> {
    storage::edit(path, FILE_MODES, |old| {
        let mut recent = read_recent_filters(&String::from_utf8_lossy(old));
        let is_changed = remember_filter(&mut recent, filter);
        is_changed.then(|| format!("{}\n", recent.join("\n")).into_bytes())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn filters_are_kept_once_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/gtop/filters");
        let file = RecentFilterFile(Some(path.clone()));
        assert_eq!(file.read(), [""; 0]);
        for filter in ["free", "user=ada", "free"] {
            write(&path, filter).unwrap();
        }
        assert_eq!(file.read(), ["free", "user=ada"]);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::write(&path, vec![0xff; 100_000]).unwrap();
        assert_eq!(file.read(), [""; 0]);
        write(&path, "busy").unwrap();
        assert_eq!(file.read(), ["busy"]);
        assert_eq!(RecentFilterFile(None).read(), [""; 0]);
    }
}
