//! Paths of the configuration files; reads, creates and saves them.

use std::io;
use std::path::{Path, PathBuf};

use gtop_local::storage::{self, NewFile, WriteError, user_dirs};

use super::declared::Declared;
use super::file::{ConfigFile, MAX_BYTES, read_text};

/// The configuration folder: `gtop` in `$XDG_CONFIG_HOME`, or the folder of the file given with `--config` or
/// `GTOP_CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPaths {
    folder: PathBuf,
    /// The file given with `--config` or `GTOP_CONFIG`, used in place of `config.toml`.
    explicit_file: Option<PathBuf>,
}

/// The file that gtop itself writes.
const SETUP_FILE: &str = "setup.toml";

/// Permissions of new configuration files and folders.
const NEW_FILE: NewFile = NewFile { mode: 0o644, folder_mode: 0o755 };

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file exists already.
    #[error("{0} already exists and is not overwritten; gtop config check checks it")]
    Exists(String),
    /// `setup.toml` was given as the configuration file; gtop overwrites it.
    #[error("{0} is written by gtop (F12); name another file")]
    IsSetupFile(String),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ConfigPaths {
    /// Returns the default folder; `None` without a home directory.
    pub fn of_this_user() -> Option<Self> {
        Some(Self { folder: user_dirs::config()?.join("gtop"), explicit_file: None })
    }

    /// Uses a given file as `config.toml`; `setup.toml` is in the same folder.
    pub fn at(file: PathBuf) -> Result<Self, FileError> {
        if file.file_name().is_none_or(|name| name == SETUP_FILE) {
            return Err(FileError::IsSetupFile(file.display().to_string()));
        }
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Self { folder, explicit_file: Some(file) })
    }

    /// Reads `config.toml`. If it was given by name, it must exist.
    pub fn read_config(&self, declared: Declared) -> ConfigFile {
        let mut config = ConfigFile::read(declared, &self.config(), false);
        if let Some(file) = self.explicit_file.as_ref().filter(|file| !file.exists()) {
            config
                .problems
                .push(format!("{}: file not found; gtop config init creates it", file.display()));
        }
        config
    }

    pub fn read_setup(&self, declared: Declared) -> ConfigFile {
        ConfigFile::read(declared, &self.setup(), true)
    }

    pub fn config(&self) -> PathBuf {
        self.explicit_file.clone().unwrap_or_else(|| self.folder.join("config.toml"))
    }

    pub fn setup(&self) -> PathBuf {
        self.folder.join(SETUP_FILE)
    }

    /// Creates `config.toml`; an existing one is an error.
    pub fn create_config(&self, text: &str) -> Result<PathBuf, FileError> {
        let path = self.config();
        if storage::create(&path, text.as_bytes(), NEW_FILE)? {
            return Ok(path);
        }
        Err(FileError::Exists(path.display().to_string()))
    }

    /// Saves `setup.toml` atomically: readers see either the old content or the new one.
    pub fn save(&self, text: &str) -> Result<PathBuf, FileError> {
        let path = self.setup();
        storage::write(&path, text.as_bytes(), NEW_FILE)?;
        Ok(path)
    }
}

impl ConfigFile {
    /// Reads a file; a missing one is empty.
    pub fn read(declared: Declared, path: &Path, is_setup: bool) -> Self {
        let name =
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match read_bounded(path) {
            Ok(text) => read_text(declared, &name, &text, is_setup),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self { name, ..Self::default() }
            }
            Err(error) => {
                let problems = vec![format!("{name}: cannot be read: {error}")];
                Self { name, problems, ..Self::default() }
            }
        }
    }
}

/// Reads a regular file of limited size.
fn read_bounded(path: &Path) -> io::Result<String> {
    let Some(bytes) = storage::read(path, MAX_BYTES)? else {
        return Err(io::Error::other(format!("larger than {} KiB", MAX_BYTES / 1024)));
    };
    String::from_utf8(bytes).map_err(|_bytes| io::Error::other("not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::setting_table::DECLARED;

    fn paths() -> (tempfile::TempDir, ConfigPaths) {
        let home = tempfile::tempdir().unwrap();
        let paths = ConfigPaths { folder: home.path().join(".config/gtop"), explicit_file: None };
        (home, paths)
    }

    #[test]
    fn a_given_file_must_exist_and_its_setup_is_in_the_same_folder() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("lab.toml");
        let paths = ConfigPaths::at(file.clone()).unwrap();
        assert_eq!(paths.setup(), home.path().join("setup.toml"));
        let problem = paths.read_config(DECLARED).problems[0].clone();
        assert!(
            problem.ends_with("lab.toml: file not found; gtop config init creates it"),
            "{problem}"
        );
        paths.create_config("interval = 0\n").unwrap();
        let problem = paths.read_config(DECLARED).problems[0].clone();
        assert!(problem.starts_with("lab.toml:1: interval: "), "{problem}");
        assert!(ConfigPaths::at(home.path().join("setup.toml")).is_err());
        assert!(ConfigPaths::at(PathBuf::from("/")).is_err());
        assert_eq!(ConfigPaths::at("lab.toml".into()).unwrap().setup(), Path::new("setup.toml"));
    }

    #[test]
    fn an_existing_configuration_is_never_overwritten() {
        let (_home, paths) = paths();
        let path = paths.create_config("a").unwrap();
        assert!(matches!(paths.create_config("b"), Err(FileError::Exists(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a");
        fs::remove_file(&path).unwrap();
        // A dangling link is not overwritten either.
        std::os::unix::fs::symlink("/nowhere/config.toml", &path).unwrap();
        assert!(matches!(paths.create_config("b"), Err(FileError::Exists(_))));
    }

    #[test]
    fn saving_replaces_the_file_and_leaves_no_temporary_one() {
        let (_home, paths) = paths();
        paths.save("one").unwrap();
        paths.save("two").unwrap();
        assert_eq!(fs::read_to_string(paths.setup()).unwrap(), "two");
        let folder = paths.setup().parent().unwrap().to_owned();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        // A link remains a link.
        let real = folder.join("elsewhere.toml");
        fs::rename(paths.setup(), &real).unwrap();
        std::os::unix::fs::symlink(&real, paths.setup()).unwrap();
        paths.save("three").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "three");
        assert!(paths.setup().symlink_metadata().unwrap().is_symlink());
    }

    #[test]
    fn a_missing_file_is_empty_and_an_unreadable_one_reported() {
        let (home, _paths) = paths();
        let read = |name: &str| {
            let file = ConfigFile::read(DECLARED, &home.path().join(name), false);
            file.problems.first().map(ToString::to_string)
        };
        assert_eq!(read("nothing.toml"), None);
        fs::create_dir(home.path().join("folder")).unwrap();
        fs::write(home.path().join("latin"), b"x = '\xe9'").unwrap();
        fs::write(home.path().join("long"), vec![b'#'; 300_000]).unwrap();
        assert_eq!(read("folder").unwrap(), "folder: cannot be read: not a regular file");
        assert_eq!(read("latin").unwrap(), "latin: cannot be read: not valid UTF-8");
        assert_eq!(read("long").unwrap(), "long: cannot be read: larger than 256 KiB");
    }
}
