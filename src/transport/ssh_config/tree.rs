//! Parses the configuration files and their includes into a tree.

use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::FileVersion;
use crate::transport::fault::{self, Fault};
use crate::transport::ssh_config::options::OptionSpec;
use crate::transport::ssh_config::parse::{
    self, Criterion, LineError, MatchAttribute, ParsedLine, Pattern,
};
use crate::transport::ssh_config::{ConfigError, LocalEnv, Origin, glob};

/// Maximum depth of includes.
const MAX_DEPTH: usize = 16;

/// Most files read; two includes per file would be 65,536 at 16 levels.
const MAX_FILES: usize = 1024;

/// Most bytes of all files.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A file, with the files it includes.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: Arc<Path>,
    pub(super) is_users: bool,
    pub(super) blocks: Vec<Block>,
}

/// A `Host` or `Match` block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) line: u32,
    pub(super) when: BlockCondition,
    pub(super) lines: Vec<ConfigLine>,
    /// It has lines to check even if it does not match.
    pub(super) is_always_read: bool,
}

/// The condition of a block.
#[derive(Debug)]
pub(super) enum BlockCondition {
    /// The lines before the first `Host` or `Match`.
    Always,
    Host(Vec<Pattern>),
    Match(Vec<Criterion>),
}

/// A line; numbers count from 1.
#[derive(Debug)]
pub(super) struct ConfigLine {
    pub(super) number: u32,
    pub(super) item: Directive,
}

/// The directive of a line.
#[derive(Debug)]
pub(super) enum Directive {
    Set(&'static OptionSpec, Vec<String>),
    Include(Vec<ConfigFile>),
    /// An unknown keyword; ignored if `IgnoreUnknown` matches it.
    Unknown(String),
    /// Only the `ssh` program can evaluate it.
    NeedsSsh(String),
}

/// All files, with their stamps.
#[derive(Debug)]
pub(super) struct ConfigTree {
    pub(super) files: Result<Vec<ConfigFile>, ConfigError>,
    /// A line requests a second pass over the files.
    pub(super) wants_final: bool,
    stamps: Vec<(PathBuf, Option<FileVersion>)>,
}

/// The files to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigPaths<'a> {
    pub(super) env: &'a LocalEnv,
    /// The only file to read, as `ssh -F`.
    pub(super) chosen: Option<&'a Path>,
    /// The system-wide files; the first that exists is read.
    pub(super) machine: &'a [&'a str],
}

impl ConfigTree {
    pub(super) fn read(places: ConfigPaths<'_>) -> Self {
        let mut reader =
            Reader { env: places.env, stamps: Vec::new(), left: MAX_BYTES, wants_final: false };
        let files = reader.all(places);
        Self { files, wants_final: reader.wants_final, stamps: reader.stamps }
    }

    /// Returns true if no file or folder has changed.
    pub(super) fn is_current(&self) -> bool {
        self.stamps.iter().all(|(path, stamp)| FileVersion::of(path) == *stamp)
    }
}

struct Reader<'a> {
    env: &'a LocalEnv,
    stamps: Vec<(PathBuf, Option<FileVersion>)>,
    left: u64,
    wants_final: bool,
}

/// Why a file is read.
#[derive(Debug, Clone, Copy)]
struct IncludeContext {
    is_users: bool,
    /// Refuse the file if others can write it.
    is_checked: bool,
    depth: usize,
}

impl Reader<'_> {
    fn all(&mut self, places: ConfigPaths<'_>) -> Result<Vec<ConfigFile>, ConfigError> {
        let own = IncludeContext { is_users: true, is_checked: true, depth: 0 };
        if let Some(chosen) = places.chosen {
            if chosen.as_os_str().eq_ignore_ascii_case("none") {
                return Ok(Vec::new());
            }
            let file = self.file(chosen, IncludeContext { is_checked: false, ..own })?;
            return file.map(|file| vec![file]).map_err(|error| {
                let why = fault::io_error_text(&error);
                let path = fault::sanitize_line(&chosen.to_string_lossy());
                let why = format!("can't open user config file {path}: {why}");
                ConfigError::Invalid(Fault::BadConfiguration { why })
            });
        }
        // As with ssh, a file that cannot be opened is skipped.
        let mut files: Vec<ConfigFile> =
            self.file(&self.env.home.join(".ssh/config"), own)?.into_iter().collect();
        for path in places.machine {
            let reason = IncludeContext { is_users: false, is_checked: false, depth: 0 };
            if let Ok(file) = self.file(Path::new(path), reason)? {
                files.push(file);
                break;
            }
        }
        Ok(files)
    }

    fn file(
        &mut self,
        path: &Path,
        reason: IncludeContext,
    ) -> Result<std::io::Result<ConfigFile>, ConfigError> {
        self.stamps.push((path.to_owned(), FileVersion::of(path)));
        if reason.depth > MAX_DEPTH {
            return Err(ConfigError::file(path, "too many recursive configuration includes, at"));
        }
        if self.stamps.len() > MAX_FILES {
            return Err(ConfigError::file(path, "too many configuration files, at"));
        }
        let bytes = match self.bytes(path, reason)? {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let path: Arc<Path> = Arc::from(path);
        let mut file =
            ConfigFile { path: Arc::clone(&path), is_users: reason.is_users, blocks: vec![] };
        let mut block = Block::new(0, BlockCondition::Always);
        for (at, text) in text.split('\n').enumerate() {
            let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
            let origin = || Origin { file: Arc::clone(&path), line: number };
            let item = match parse::line(text) {
                Ok(ParsedLine::Empty) => continue,
                Ok(ParsedLine::Host(patterns)) => {
                    let next = Block::new(number, BlockCondition::Host(patterns));
                    file.blocks.push(std::mem::replace(&mut block, next));
                    continue;
                }
                Ok(ParsedLine::Match(criteria)) => {
                    let asks =
                        |c: &Criterion| c.test == MatchAttribute::SecondPass { is_wanted: true };
                    self.wants_final |= criteria.iter().any(asks);
                    let next = Block::new(number, BlockCondition::Match(criteria));
                    file.blocks.push(std::mem::replace(&mut block, next));
                    continue;
                }
                Ok(ParsedLine::Include(names)) => self.include(&names, reason, &origin())?,
                Ok(ParsedLine::Set(known, values)) => Directive::Set(known, values),
                Ok(ParsedLine::Unknown(keyword)) => Directive::Unknown(keyword),
                Err(LineError::Unknown(what)) => Directive::NeedsSsh(what),
                Err(LineError::Invalid(why)) => return Err(ConfigError::wrong(&origin(), why)),
            };
            block.push(number, item);
        }
        file.blocks.push(block);
        Ok(Ok(file))
    }

    /// Reads a file; a folder is empty.
    fn bytes(
        &mut self,
        path: &Path,
        reason: IncludeContext,
    ) -> Result<std::io::Result<Vec<u8>>, ConfigError> {
        let about = match std::fs::metadata(path) {
            Ok(about) => about,
            Err(error) => return Ok(Err(error)),
        };
        let is_nothing = about.is_dir() || (about.file_type().is_char_device() && is_null(&about));
        if !is_nothing && !about.is_file() {
            // Opening a pipe by that name would wait for a writer for ever.
            return Err(ConfigError::file(path, "not a regular file:"));
        }
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        if reason.is_checked {
            check_owner(path, &about)?;
        }
        if is_nothing {
            return Ok(Ok(bytes));
        }
        if let Err(error) = file.take(self.left).read_to_end(&mut bytes) {
            return Ok(Err(error));
        }
        self.left = self.left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.left == 0 {
            return Err(ConfigError::file(path, "the configuration is too large, at"));
        }
        Ok(Ok(bytes))
    }

    fn include(
        &mut self,
        names: &[String],
        reason: IncludeContext,
        origin: &Origin,
    ) -> Result<Directive, ConfigError> {
        let mut files = Vec::new();
        for name in names {
            if name.starts_with('~') && !reason.is_users {
                return Err(ConfigError::wrong(origin, format_args!("bad include path {name}")));
            }
            let home = self.env.include_home.to_string_lossy().into_owned();
            let pattern = match name.strip_prefix('~') {
                // Later versions of OpenSSH expand these.
                _ if name.contains("${") || name.contains('%') => {
                    return Ok(Directive::NeedsSsh(format!("Include {name}")));
                }
                Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
                Some(_) => return Ok(Directive::NeedsSsh(format!("Include {name}"))),
                None if name.starts_with('/') => name.clone(),
                None if reason.is_users => format!("{home}/.ssh/{name}"),
                None => format!("/etc/ssh/{name}"),
            };
            let stamps = &mut self.stamps;
            let found = glob::find(&pattern, |path| {
                stamps.push((path.to_owned(), FileVersion::of(path)));
            });
            for path in found {
                let inner = IncludeContext { is_checked: true, depth: reason.depth + 1, ..reason };
                match self.file(&path, inner)? {
                    Ok(file) => files.push(file),
                    Err(error) => {
                        let path = fault::sanitize_line(&path.to_string_lossy());
                        let why = fault::io_error_text(&error);
                        let why = format_args!("can't open user config file {path}: {why}");
                        return Err(ConfigError::wrong(origin, why));
                    }
                }
            }
        }
        Ok(Directive::Include(files))
    }
}

impl Block {
    fn new(line: u32, when: BlockCondition) -> Self {
        Self { line, when, lines: Vec::new(), is_always_read: false }
    }

    fn push(&mut self, number: u32, item: Directive) {
        self.is_always_read |= match &item {
            Directive::Unknown(_) | Directive::NeedsSsh(_) => true,
            Directive::Include(files) => {
                files.iter().flat_map(|file| &file.blocks).any(|block| block.is_always_read)
            }
            Directive::Set(..) => false,
        };
        self.lines.push(ConfigLine { number, item });
    }
}

/// Returns true for `/dev/null`, by any name.
fn is_null(about: &Metadata) -> bool {
    std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == about.rdev())
}

/// Refuses files that others can write.
fn check_owner(path: &Path, about: &Metadata) -> Result<(), ConfigError> {
    let own = rustix::process::getuid().as_raw();
    let is_owned = about.uid() == 0 || about.uid() == own;
    if !is_owned || about.mode() & 0o002 != 0 {
        return Err(ConfigError::file(path, "bad owner or permissions on"));
    }
    if about.mode() & 0o020 != 0 {
        // Some systems allow this if the group has no other members.
        let at = Origin { file: Arc::from(path), line: 0 };
        return Err(ConfigError::NeedsSsh { at, what: "a file its group can write".to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join(".ssh")).unwrap();
            Self(folder)
        }

        fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.path().join(".ssh").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        }

        fn env(&self) -> LocalEnv {
            LocalEnv {
                home: self.0.path().to_owned(),
                include_home: self.0.path().to_owned(),
                ..LocalEnv::of_this_process()
            }
        }

        fn read(&self) -> ConfigTree {
            ConfigTree::read(ConfigPaths { env: &self.env(), chosen: None, machine: &[] })
        }

        fn why(&self) -> String {
            match self.read().files {
                Err(ConfigError::Invalid(fault)) => fault.to_string(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_changed_include_is_noticed() {
        let home = Home::new();
        home.write("config", "Include d/*.conf gone\nPort 1\n");
        home.write("d/a.conf", "User ada\n");
        let tree = home.read();
        assert!(tree.files.is_ok() && tree.is_current());
        home.write("d/b.conf", "");
        assert!(!tree.is_current(), "a new file in a folder");
        let tree = home.read();
        home.write("d/a.conf", "User eve\n\n");
        assert!(!tree.is_current(), "another text");
        let tree = home.read();
        home.write("gone", "");
        assert!(!tree.is_current(), "a file that was not there");
        let tree = home.read();
        let open = fs::Permissions::from_mode(0o666);
        fs::set_permissions(home.0.path().join(".ssh/d/a.conf"), open).unwrap();
        assert!(!tree.is_current(), "other permissions");
    }

    #[test]
    fn a_loop_of_includes_ends() {
        let home = Home::new();
        home.write("config", "Include config\n");
        assert!(home.why().contains("too many recursive configuration includes"), "{}", home.why());
        home.write("config", "Include config config\n");
        assert!(home.why().contains("too many recursive"));
    }

    #[test]
    fn files_others_can_write_are_refused() {
        let home = Home::new();
        let path = home.write("config", "Port 1\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o606)).unwrap();
        assert!(home.why().contains("bad owner or permissions on"), "{}", home.why());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
        assert!(matches!(home.read().files, Err(ConfigError::NeedsSsh { .. })));
        let chosen =
            ConfigTree::read(ConfigPaths { env: &home.env(), chosen: Some(&path), machine: &[] });
        assert!(chosen.files.is_ok(), "as with ssh -F");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        home.write("config", "Include x\n");
        let path = home.write("x", "Port 1\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
        assert!(home.why().contains("bad owner or permissions on"), "{}", home.why());
    }

    #[test]
    fn odd_files_are_no_harm() {
        let home = Home::new();
        home.write("config", [&b"Host \xff\xfe n\0 x\n"[..], &vec![b'a'; 1 << 20]].concat());
        assert!(home.why().contains("no argument after keyword"));
        home.write("config", "Host n\n  Port 22\n".repeat(5000));
        assert_eq!(home.read().files.unwrap()[0].blocks.len(), 5001);
        home.write("config", "Include d\n");
        fs::create_dir(home.0.path().join(".ssh/d")).unwrap();
        fs::set_permissions(home.0.path().join(".ssh/d"), fs::Permissions::from_mode(0o700))
            .unwrap();
        assert!(home.read().files.is_ok());
        let chosen = |path: &str| {
            let chosen = Some(Path::new(path));
            ConfigTree::read(ConfigPaths { env: &home.env(), chosen, machine: &[] }).files
        };
        assert!(chosen("/dev/null").unwrap()[0].blocks.iter().all(|block| block.lines.is_empty()));
        assert!(chosen("/dev/zero").is_err() && chosen("/gone").is_err());
        assert!(chosen("none").unwrap().is_empty());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_a_mistake() {
        let home = Home::new();
        home.write("config", "Include x\n");
        std::os::unix::fs::symlink("/gone", home.0.path().join(".ssh/x")).unwrap();
        assert!(home.why().contains("config:1: can't open user config file"), "{}", home.why());
    }
}
