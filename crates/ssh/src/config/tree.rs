//! Parses the configuration files and their includes into a tree.

use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::options::OptionSpec;
use crate::config::parse::{self, Criterion, LineError, MatchAttribute, ParsedLine, Pattern};
use crate::config::{ConfigError, LocalEnv, Origin, glob};
use gtop_local::fault::ssh::Fault;
use gtop_local::process::account::Account;
use gtop_local::storage::FileVersion;
use gtop_local::text;

/// Maximum depth of includes.
const MAX_DEPTH: usize = 16;

/// Most files read; two includes per file would be 65,536 at 16 levels.
const MAX_FILES: usize = 1024;

/// Most bytes of all files.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A file, with the files it includes.
#[derive(Debug)]
pub(crate) struct SshConfigFile {
    pub(crate) path: Arc<Path>,
    pub(crate) is_user_file: bool,
    pub(crate) blocks: Vec<Block>,
}

/// A `Host` or `Match` block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) line: u32,
    pub(crate) condition: BlockCondition,
    pub(crate) lines: Vec<ConfigLine>,
    /// It has lines to check even if it does not match.
    pub(crate) is_always_read: bool,
}

/// The condition of a block.
#[derive(Debug)]
pub(crate) enum BlockCondition {
    /// The lines before the first `Host` or `Match`.
    Always,
    Host(Vec<Pattern>),
    Match(Vec<Criterion>),
}

/// A line; numbers count from 1.
#[derive(Debug)]
pub(crate) struct ConfigLine {
    pub(crate) number: u32,
    pub(crate) directive: Directive,
}

/// The directive of a line.
#[derive(Debug)]
pub(crate) enum Directive {
    Set(&'static OptionSpec, Vec<String>),
    Include(Vec<SshConfigFile>),
    /// An unknown keyword; ignored if `IgnoreUnknown` matches it.
    Unknown(String),
    /// Only the `ssh` program can evaluate it.
    NeedsSsh(String),
}

/// All files, with their stamps.
#[derive(Debug)]
pub(crate) struct ConfigTree {
    pub(crate) files: Result<Vec<SshConfigFile>, ConfigError>,
    /// A line requests a second pass over the files.
    pub(crate) needs_second_pass: bool,
    versions: Vec<(PathBuf, Option<FileVersion>)>,
}

impl ConfigTree {
    /// Reads the user's file and the first of the system-wide files that exists; `config_file` is the only one to
    /// read if there is one, as `ssh -F`.
    pub(crate) fn read(env: &LocalEnv, config_file: Option<&Path>, system_files: &[&str]) -> Self {
        let mut reader = ConfigReader {
            env,
            versions: Vec::new(),
            bytes_left: MAX_BYTES,
            needs_second_pass: false,
        };
        let files = reader.read_all(config_file, system_files);
        Self { files, needs_second_pass: reader.needs_second_pass, versions: reader.versions }
    }

    /// Returns true if no file or folder has changed.
    pub(crate) fn is_current(&self) -> bool {
        self.versions.iter().all(|(path, version)| FileVersion::of(path) == *version)
    }
}

struct ConfigReader<'a> {
    env: &'a LocalEnv,
    versions: Vec<(PathBuf, Option<FileVersion>)>,
    bytes_left: u64,
    needs_second_pass: bool,
}

/// Why a file is read.
#[derive(Debug, Clone, Copy)]
struct IncludeContext {
    is_user_file: bool,
    /// Refuse the file if others can write it.
    is_checked: bool,
    depth: usize,
}

impl ConfigReader<'_> {
    fn read_all(
        &mut self,
        config_file: Option<&Path>,
        system_files: &[&str],
    ) -> Result<Vec<SshConfigFile>, ConfigError> {
        let user_context = IncludeContext { is_user_file: true, is_checked: true, depth: 0 };
        if let Some(config_file) = config_file {
            if config_file.as_os_str().eq_ignore_ascii_case("none") {
                return Ok(Vec::new());
            }
            let file =
                self.read_file(config_file, IncludeContext { is_checked: false, ..user_context })?;
            return file.map(|file| vec![file]).map_err(|error| {
                let why = cannot_open(config_file, &error);
                ConfigError::Invalid(Fault::BadConfiguration { why })
            });
        }
        // As with ssh, a file that cannot be opened is skipped.
        let mut files: Vec<SshConfigFile> =
            self.read_file(&self.env.home.join(".ssh/config"), user_context)?.into_iter().collect();
        for path in system_files {
            let context = IncludeContext { is_user_file: false, is_checked: false, depth: 0 };
            if let Ok(file) = self.read_file(Path::new(path), context)? {
                files.push(file);
                break;
            }
        }
        Ok(files)
    }

    fn read_file(
        &mut self,
        path: &Path,
        context: IncludeContext,
    ) -> Result<std::io::Result<SshConfigFile>, ConfigError> {
        self.versions.push((path.to_owned(), FileVersion::of(path)));
        if context.depth > MAX_DEPTH {
            return Err(ConfigError::at_file(
                path,
                "too many recursive configuration includes, at",
            ));
        }
        if self.versions.len() > MAX_FILES {
            return Err(ConfigError::at_file(path, "too many configuration files, at"));
        }
        let bytes = match self.read_bytes(path, context)? {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let path: Arc<Path> = Arc::from(path);
        let mut file = SshConfigFile {
            path: Arc::clone(&path),
            is_user_file: context.is_user_file,
            blocks: vec![],
        };
        let mut block = Block::new(0, BlockCondition::Always);
        for (at, text) in text.split('\n').enumerate() {
            let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
            let origin = Origin { file: Arc::clone(&path), line: number };
            let directive = match parse::parse_line(text) {
                Ok(ParsedLine::Empty) => continue,
                Ok(ParsedLine::Host(patterns)) => {
                    let next = Block::new(number, BlockCondition::Host(patterns));
                    file.blocks.push(std::mem::replace(&mut block, next));
                    continue;
                }
                Ok(ParsedLine::Match(criteria)) => {
                    let second_pass = MatchAttribute::SecondPass { is_wanted: true };
                    self.needs_second_pass |=
                        criteria.iter().any(|criterion| criterion.attribute == second_pass);
                    let next = Block::new(number, BlockCondition::Match(criteria));
                    file.blocks.push(std::mem::replace(&mut block, next));
                    continue;
                }
                Ok(ParsedLine::Include(names)) => self.read_includes(&names, context, &origin)?,
                Ok(ParsedLine::Set(known, values)) => Directive::Set(known, values),
                Ok(ParsedLine::Unknown(keyword)) => Directive::Unknown(keyword),
                Err(LineError::Unknown(what)) => Directive::NeedsSsh(what),
                Err(LineError::Invalid(why)) => return Err(ConfigError::at_line(&origin, why)),
            };
            block.push(number, directive);
        }
        file.blocks.push(block);
        Ok(Ok(file))
    }

    /// Reads a file; a folder is empty.
    fn read_bytes(
        &mut self,
        path: &Path,
        context: IncludeContext,
    ) -> Result<std::io::Result<Vec<u8>>, ConfigError> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return Ok(Err(error)),
        };
        let is_empty =
            metadata.is_dir() || (metadata.file_type().is_char_device() && is_null(&metadata));
        if !is_empty && !metadata.is_file() {
            // Opening a pipe by that name would wait for a writer for ever.
            return Err(ConfigError::at_file(path, "not a regular file:"));
        }
        let mut bytes = Vec::new();
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        if context.is_checked {
            check_owner(path, &metadata)?;
        }
        if is_empty {
            return Ok(Ok(bytes));
        }
        if let Err(error) = file.take(self.bytes_left).read_to_end(&mut bytes) {
            return Ok(Err(error));
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes.len() as u64);
        if self.bytes_left == 0 {
            return Err(ConfigError::at_file(path, "the configuration is too large, at"));
        }
        Ok(Ok(bytes))
    }

    fn read_includes(
        &mut self,
        names: &[String],
        context: IncludeContext,
        origin: &Origin,
    ) -> Result<Directive, ConfigError> {
        let mut files = Vec::new();
        for name in names {
            if name.starts_with('~') && !context.is_user_file {
                return Err(ConfigError::at_line(origin, format_args!("bad include path {name}")));
            }
            let home = self.env.include_home.to_string_lossy().into_owned();
            let pattern = match name.strip_prefix('~') {
                // Later versions of OpenSSH expand these.
                _ if name.contains("${") || name.contains('%') => {
                    return Ok(Directive::NeedsSsh(format!("Include {name}")));
                }
                Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
                Some(rest) => {
                    let (user, path) = rest.split_once('/').unwrap_or((rest, ""));
                    match Account::of_user(user).home {
                        Some(home) => format!("{}/{path}", home.to_string_lossy()),
                        None => return Ok(Directive::NeedsSsh(format!("Include {name}"))),
                    }
                }
                None if name.starts_with('/') => name.clone(),
                None if context.is_user_file => format!("{home}/.ssh/{name}"),
                None => format!("/etc/ssh/{name}"),
            };
            let versions = &mut self.versions;
            let found = glob::expand(&pattern, |path| {
                versions.push((path.to_owned(), FileVersion::of(path)));
            });
            for path in found {
                let inner =
                    IncludeContext { is_checked: true, depth: context.depth + 1, ..context };
                match self.read_file(&path, inner)? {
                    Ok(file) => files.push(file),
                    Err(error) => {
                        return Err(ConfigError::at_line(origin, cannot_open(&path, &error)));
                    }
                }
            }
        }
        Ok(Directive::Include(files))
    }
}

impl Block {
    fn new(line: u32, condition: BlockCondition) -> Self {
        Self { line, condition, lines: Vec::new(), is_always_read: false }
    }

    fn push(&mut self, number: u32, directive: Directive) {
        self.is_always_read |= match &directive {
            Directive::Unknown(_) | Directive::NeedsSsh(_) => true,
            Directive::Include(files) => {
                files.iter().flat_map(|file| &file.blocks).any(|block| block.is_always_read)
            }
            Directive::Set(..) => false,
        };
        self.lines.push(ConfigLine { number, directive });
    }
}

fn cannot_open(path: &Path, error: &std::io::Error) -> String {
    let path = text::excerpt_line(&path.to_string_lossy());
    format!("can't open user config file {path}: {}", text::io_error(error))
}

/// Returns true for `/dev/null`, by any name.
fn is_null(metadata: &Metadata) -> bool {
    std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == metadata.rdev())
}

/// Refuses files that others can write.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), ConfigError> {
    let uid = rustix::process::getuid().as_raw();
    let is_owned = metadata.uid() == 0 || metadata.uid() == uid;
    if !is_owned || metadata.mode() & 0o002 != 0 {
        return Err(ConfigError::at_file(path, "bad owner or permissions on"));
    }
    if metadata.mode() & 0o020 != 0 {
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
            ConfigTree::read(&self.env(), None, &[])
        }

        fn error_text(&self) -> String {
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
        assert!(
            home.error_text().contains("too many recursive configuration includes"),
            "{}",
            home.error_text()
        );
        home.write("config", "Include config config\n");
        assert!(home.error_text().contains("too many recursive"));
    }

    #[test]
    fn files_writable_by_others_are_refused() {
        let home = Home::new();
        let path = home.write("config", "Port 1\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o606)).unwrap();
        assert!(home.error_text().contains("bad owner or permissions on"), "{}", home.error_text());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
        assert!(matches!(home.read().files, Err(ConfigError::NeedsSsh { .. })));
        let config_file = ConfigTree::read(&home.env(), Some(&path), &[]);
        assert!(config_file.files.is_ok(), "as with ssh -F");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        home.write("config", "Include x\n");
        let path = home.write("x", "Port 1\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
        assert!(home.error_text().contains("bad owner or permissions on"), "{}", home.error_text());
    }

    #[test]
    fn unusual_files_are_read_or_refused() {
        let home = Home::new();
        home.write("config", [&b"Host \xff\xfe n\0 x\n"[..], &vec![b'a'; 1 << 20]].concat());
        assert!(home.error_text().contains("no argument after keyword"));
        home.write("config", "Host n\n  Port 22\n".repeat(5000));
        assert_eq!(home.read().files.unwrap()[0].blocks.len(), 5001);
        home.write("config", "Include d\n");
        fs::create_dir(home.0.path().join(".ssh/d")).unwrap();
        fs::set_permissions(home.0.path().join(".ssh/d"), fs::Permissions::from_mode(0o700))
            .unwrap();
        assert!(home.read().files.is_ok());
        let config_file = |path: &str| {
            let config_file = Some(Path::new(path));
            ConfigTree::read(&home.env(), config_file, &[]).files
        };
        assert!(
            config_file("/dev/null").unwrap()[0].blocks.iter().all(|block| block.lines.is_empty())
        );
        assert!(config_file("/dev/zero").is_err() && config_file("/dev/null/gone").is_err());
        assert!(config_file("none").unwrap().is_empty());
    }

    #[test]
    fn a_dangling_symlink_is_an_error() {
        let home = Home::new();
        home.write("config", "Include x\n");
        std::os::unix::fs::symlink("gone", home.0.path().join(".ssh/x")).unwrap();
        assert!(
            home.error_text().contains("config:1: can't open user config file"),
            "{}",
            home.error_text()
        );
    }
}
