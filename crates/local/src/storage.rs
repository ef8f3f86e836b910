//! Writes all files of gtop: settings, host keys, logs, caches; reads files of limited size.
//!
//! Only regular files are written. An existing file keeps its mode, its owner and the symbolic links to it.
//! Devices, pipes, sockets, folders, dangling links and read-only files are refused with a [`WriteError`].
//!
//! Readers see either the old content or the new one: the new content is written to a temporary file, which
//! is renamed over the old one. Where that would lose something (the file is a mount point, has hard links or
//! an ACL, or its folder is read-only), the file is overwritten in place, from the first byte that differs,
//! after the space has been allocated.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    fchown,
};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use tempfile::TempPath;

pub use crate::storage::append_file::{AppendError, AppendFile};
pub use crate::storage::line_file::LineFile;
pub use crate::storage::log_file::LogFile;
pub use crate::storage::private_socket::PrivateSocket;
pub use crate::storage::stream_file::StreamFile;
pub use crate::storage::temporary_folder::{TemporaryFolder, remove_temporary_folders};

mod append_file;
mod line_file;
mod log_file;
pub mod private_folder;
mod private_socket;
pub mod reservations;
pub mod socket_folder;
mod stream_file;
mod temporary_folder;
pub mod user_dirs;

/// Maximum number of attempts if another program changes the file meanwhile.
const MAX_ATTEMPTS: usize = 5;
/// Maximum size of a file that is changed.
const MAX_BYTES: u64 = 64 << 20;

/// Permissions of a file that does not exist yet.
#[derive(Clone, Copy, Debug)]
pub struct NewFile {
    /// Mode of the file, before the umask.
    pub mode: u32,
    /// Mode of each folder created for it.
    pub folder_mode: u32,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// gtop refuses to write the file.
    #[error("{what}; {remedy}")]
    Refused {
        /// The file and the reason.
        what: String,
        remedy: &'static str,
    },
    /// A system call failed.
    #[error("cannot write {path}: {source}")]
    Failed { path: String, source: io::Error },
}

impl WriteError {
    fn failed(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Failed { path: path.display().to_string(), source }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        Self::other(error)
    }
}

/// Identifies a version of a file: it differs after each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    modified: (i64, i64),
    /// Includes changes of owner and permissions.
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

impl FileVersion {
    /// Returns the version of a file; `None` if the file does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: metadata.ino(),
        })
    }
}

/// Returns what is the same for all paths of a file; `None` if it does not exist.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Leaves out the later paths of a file that is named more than once.
pub fn distinct(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let is_new = |path: &PathBuf| identity(path).is_none_or(|identity| known.insert(identity));
    paths.into_iter().filter(is_new).collect()
}

/// Reads a regular file; `None` if it has more than `max` bytes.
pub fn read(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    // Opening a pipe would block until there is a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    read_bounded(File::open(path)?, max)
}

/// Reads to the end; `None` if there are more than `max` bytes.
pub fn read_bounded(source: impl io::Read, max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    source.take(max + 1).read_to_end(&mut content)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= max))
}

/// Creates a file, or replaces its content.
pub fn write(path: &Path, content: &[u8], new: NewFile) -> Result<(), WriteError> {
    edit(path, new, |_old| Some(content.to_vec())).map(drop)
}

/// Creates a file. Returns false if it exists already.
pub fn create(path: &Path, content: &[u8], new: NewFile) -> Result<bool, WriteError> {
    let failed = WriteError::failed(path);
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    create_parent_folder(path, new.folder_mode).map_err(&failed)?;
    create_new_file(path, content, new.mode).map_err(failed)
}

/// Changes the content of a file; a missing file has an empty content. `change` is called again if another
/// program changes the file meanwhile, and returns `None` to leave it unchanged. Returns true if the file was
/// written.
pub fn edit(
    path: &Path,
    new: NewFile,
    mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<bool, WriteError> {
    let failed = WriteError::failed(path);
    create_parent_folder(path, new.folder_mode).map_err(&failed)?;
    for _ in 0..MAX_ATTEMPTS {
        let target = resolve(path)?;
        let version = FileVersion::of(&target);
        let existing =
            if version.is_some() { Some(ExistingFile::read(path, &target)?) } else { None };
        let old = existing.as_ref().map(|existing| existing.content.as_slice());
        let Some(content) = change(old.unwrap_or_default()) else { return Ok(false) };
        let written = match existing {
            Some(existing) => existing.replace(&target, &content, version),
            None => create_new_file(&target, &content, new.mode),
        };
        if written.map_err(&failed)? {
            return Ok(true);
        }
    }
    Err(failed(io::Error::other("it keeps changing; try again")))
}

/// Appends to a file in one write, so that concurrent writes of other programs are not lost. `addition` gets
/// the content, and returns `None` to leave it unchanged. Returns true if the file was written.
pub fn append(
    path: &Path,
    new: NewFile,
    addition: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<bool, WriteError> {
    let failed = WriteError::failed(path);
    create_parent_folder(path, new.folder_mode).map_err(&failed)?;
    let (mut file, _) = open_to_append(path, new.mode)?;
    let content = read_content(&file).map_err(&failed)?;
    let Some(addition) = addition(&content) else { return Ok(false) };
    let reserved = reserve_space(&file, content.len() as u64, addition.len());
    reserved.and_then(|()| file.write_all(&addition)).map_err(failed)?;
    Ok(true)
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Creates the folder of a file if it is missing.
fn create_parent_folder(file: &Path, mode: u32) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        Some(folder) => DirBuilder::new().recursive(true).mode(mode).create(folder),
        None => Ok(()),
    }
}

/// Follows symbolic links: their target is written, and they stay.
fn resolve(path: &Path) -> Result<PathBuf, WriteError> {
    match fs::canonicalize(path) {
        Ok(target) => Ok(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => Err(WriteError::Refused {
                what: format!(
                    "{} is a link to {}, which does not exist",
                    path.display(),
                    target.display()
                ),
                remedy: "create that file or remove the link",
            }),
            Err(_no_link) => Ok(path.to_owned()),
        },
        Err(error) => Err(WriteError::failed(path)(error)),
    }
}

/// Opens a file to append to it, and creates it if it is missing. Returns its path, too, with links followed.
fn open_to_append(path: &Path, mode: u32) -> Result<(File, PathBuf), WriteError> {
    let target = resolve(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(mode);
    Ok((open_checked(path, &target, &mut options)?, target))
}

/// Opens a file for writing. Checks its type before, because opening a device can have side effects and
/// opening a pipe blocks, and after, because it may have been replaced meanwhile.
fn open_checked(path: &Path, target: &Path, options: &mut OpenOptions) -> Result<File, WriteError> {
    if let Ok(metadata) = fs::symlink_metadata(target) {
        check(path, target, &metadata)?;
    }
    let failed = WriteError::failed(path);
    let flags = nonblocking_flags() | OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.custom_flags(flags).open(target).map_err(&failed)?;
    check(path, target, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// Returns the flags to open a file without blocking and without acquiring a controlling terminal.
const fn nonblocking_flags() -> i32 {
    OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed()
}

/// Returns an error if the file must not be written.
fn check(path: &Path, target: &Path, metadata: &Metadata) -> Result<(), WriteError> {
    let link = fs::symlink_metadata(path).ok().filter(Metadata::is_symlink);
    // Otherwise root would write to wherever another user's link points.
    let trusted = [0, rustix::process::geteuid().as_raw(), metadata.uid()];
    let (what, remedy) = if !metadata.is_file() {
        let remedy = match link {
            Some(_) => "gtop writes only regular files: remove the link or point it to one",
            None => "gtop writes only regular files: move it away or name another file",
        };
        (file_kind(metadata), remedy)
    } else if metadata.mode() & 0o222 == 0 {
        ("is read-only", "chmod u+w lets gtop write it")
    } else if link.as_ref().is_some_and(|link| !trusted.contains(&link.uid())) {
        let remedy = "gtop does not follow such a link: remove it or name another file";
        ("belongs to another user than the link", remedy)
    } else {
        return Ok(());
    };
    let path = path.display();
    let what = match link {
        Some(_) => format!("{path} is a link to {}, which {what}", target.display()),
        None => format!("{path} {what}"),
    };
    Err(WriteError::Refused { what, remedy })
}

fn file_kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "is a folder"
    } else if kind.is_fifo() {
        "is a pipe"
    } else if kind.is_socket() {
        "is a socket"
    } else {
        "is a device"
    }
}

fn read_content(file: &File) -> io::Result<Vec<u8>> {
    read_bounded(file, MAX_BYTES)?
        .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 64 MiB"))
}

/// Creates an empty temporary file in the folder of `target`; dropping the path removes it.
fn temp_file(target: &Path, mode: u32) -> io::Result<(File, TempPath)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix(".gtop-").make_in(folder_of(target), |path| options.open(path))?;
    Ok(file.into_parts())
}

/// Creates a file. Returns false if it exists by now.
fn create_new_file(target: &Path, content: &[u8], mode: u32) -> io::Result<bool> {
    let (file, path) = temp_file(target, mode)?;
    write_synced(&file, content)?;
    rename_to_new(path, target)
}

/// Renames a temporary file. Returns false if there is a file of that name.
fn rename_to_new(path: TempPath, target: &Path) -> io::Result<bool> {
    if let Err(error) = path.persist_noclobber(target) {
        if target.symlink_metadata().is_ok() {
            return Ok(false);
        }
        // Not every file system can rename without replacing, or has hard links.
        error.path.persist(target)?;
    }
    sync_folder(target);
    Ok(true)
}

fn write_synced(mut file: &File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

/// An existing file, open for reading and writing.
struct ExistingFile {
    file: File,
    metadata: Metadata,
    content: Vec<u8>,
}

impl ExistingFile {
    fn read(path: &Path, target: &Path) -> Result<Self, WriteError> {
        let file = open_checked(path, target, OpenOptions::new().read(true).write(true))?;
        let read = file.metadata().and_then(|metadata| Ok((metadata, read_content(&file)?)));
        let (metadata, content) = read.map_err(WriteError::failed(path))?;
        Ok(Self { file, metadata, content })
    }

    /// Replaces the content. Returns false if another program has changed the file meanwhile.
    fn replace(
        &self,
        target: &Path,
        content: &[u8],
        version: Option<FileVersion>,
    ) -> io::Result<bool> {
        let temp_path = match self.write_copy(target, content) {
            Err(error) if !prevents_replacement(&error) => return Err(error),
            written => written.ok().flatten(),
        };
        if FileVersion::of(target) != version {
            return Ok(false);
        }
        // The temporary file stays until the content is written, as a copy in case of a crash.
        let _copy = match temp_path.map(|path| path.persist(target)) {
            Some(Ok(())) => {
                sync_folder(target);
                return Ok(true);
            }
            Some(Err(failure)) if !prevents_replacement(&failure.error) => {
                return Err(failure.error);
            }
            Some(Err(failure)) => Some(failure.path),
            None => None,
        };
        self.overwrite(content).map(|()| true)
    }

    /// Writes the new content to a temporary file. Returns `None` if that could not keep the hard links, the
    /// ACL or the owner.
    fn write_copy(&self, target: &Path, content: &[u8]) -> io::Result<Option<TempPath>> {
        let old = &self.metadata;
        if old.nlink() > 1 || has_attributes(&self.file) {
            return Ok(None);
        }
        let (file, path) = temp_file(target, 0o600)?;
        let new = file.metadata()?;
        let is_owned = (new.uid(), new.gid()) == (old.uid(), old.gid())
            || fchown(&file, Some(old.uid()), Some(old.gid())).is_ok();
        if new.dev() != old.dev() || !is_owned {
            return Ok(None);
        }
        file.set_permissions(old.permissions())?;
        write_synced(&file, content)?;
        Ok(Some(path))
    }

    /// Overwrites in place what differs; restores the old content on an error.
    fn overwrite(&self, content: &[u8]) -> io::Result<()> {
        let old = &self.content;
        let growth = content.len().saturating_sub(old.len());
        reserve_space(&self.file, old.len() as u64, growth)?;
        let same = old.iter().zip(content).take_while(|(old, new)| old == new).count();
        let written = self.write_from(same, content);
        if written.is_err() {
            // The old content needs no new space. The first error is the one to return.
            self.write_from(same, old).ok();
        }
        written
    }

    /// Writes what begins at a byte of the content.
    fn write_from(&self, at: usize, content: &[u8]) -> io::Result<()> {
        self.file.write_all_at(content.get(at..).unwrap_or_default(), at as u64)?;
        self.file.set_len(content.len() as u64)?;
        self.file.sync_all()
    }
}

/// Allocates space beyond the end of a file, so that a full disk is noticed before anything is changed.
fn reserve_space(file: &File, from: u64, bytes: usize) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, bytes as u64) {
        // Not every file system supports fallocate.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the file has attributes that a new one would lack: an ACL or user attributes.
fn has_attributes(file: &File) -> bool {
    let mut names = [0_u8; 4096];
    match rustix::fs::flistxattr(file, &mut names) {
        Ok(length) => names
            .get(..length)
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .any(|name| name.starts_with(b"user.") || name.starts_with(b"system.posix_acl")),
        Err(error) => error == Errno::RANGE,
    }
}

/// Returns true if the error prevents replacing the file, but perhaps not overwriting it in place.
fn prevents_replacement(error: &io::Error) -> bool {
    let errors = [Errno::BUSY, Errno::XDEV, Errno::PERM, Errno::ACCESS, Errno::ROFS];
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

/// Flushes the folder of a file to disk. Not every file system supports that.
fn sync_folder(file: &Path) {
    File::open(folder_of(file)).and_then(|folder| folder.sync_all()).ok();
}

fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests run programs that create pipes and mounts")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    const NEW: NewFile = NewFile { mode: 0o644, folder_mode: 0o700 };
    /// A user without permissions.
    const NOBODY: u32 = 65534;
    /// Environment variable with the name of the test case for [`inside`].
    const CASE_VARIABLE: &str = "GTOP_TEST_STORAGE";

    fn folder() -> (TempDir, impl Fn(&str) -> PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        (folder, move |name| root.join(name))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn create_with_mode(path: &Path, content: &str, mode: u32) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write_error(path: &Path) -> String {
        write(path, b"new", NEW).unwrap_err().to_string()
    }

    /// A write function and its name.
    type WriteFunction = (&'static str, fn(&Path) -> Result<(), WriteError>);

    fn write_functions() -> [WriteFunction; 4] {
        [
            ("write", |path| write(path, b"new\n", NEW)),
            ("append", |path| append(path, NEW, |_| Some(b"new\n".into())).map(drop)),
            ("log", |path| LogFile::open(path).map(|mut log| log.write_line("new"))),
            ("lines", |path| LineFile::open(path, "head\n")?.append("new\n")),
        ]
    }

    #[test]
    fn a_new_file_has_the_given_mode_and_its_folders_are_created() {
        let (_folder, at) = folder();
        write(&at("a/b/c"), b"one", NewFile { mode: 0o600, folder_mode: 0o700 }).unwrap();
        assert_eq!((mode(&at("a")), mode(&at("a/b")), mode(&at("a/b/c"))), (0o700, 0o700, 0o600));
        assert!(create(&at("d/e"), b"one", NEW).unwrap());
        assert!(!create(&at("d/e"), b"two", NEW).unwrap());
        assert_eq!(fs::read_to_string(at("d/e")).unwrap(), "one");
    }

    #[test]
    fn mode_owner_and_links_are_kept() {
        for (name, write) in write_functions() {
            let (_folder, at) = folder();
            create_with_mode(&at("real"), "old\n", 0o640);
            let is_root = rustix::process::geteuid().is_root();
            if is_root {
                chown(at("real"), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            symlink("real", at("link")).unwrap();
            symlink(at("link"), at("longer")).unwrap();
            write(&at("longer")).unwrap();
            assert!(at("longer").is_symlink() && at("link").is_symlink(), "{name}");
            assert!(!at("real").is_symlink(), "{name}");
            assert!(fs::read_to_string(at("real")).unwrap().ends_with("new\n"), "{name}");
            assert_eq!(mode(&at("real")), 0o640, "{name}");
            let metadata = fs::metadata(at("real")).unwrap();
            assert!(!is_root || (metadata.uid(), metadata.gid()) == (NOBODY, NOBODY), "{name}");
            assert_eq!(fs::read_dir(at("")).unwrap().count(), 3, "{name} leaves something");
        }
    }

    #[test]
    fn anything_but_a_regular_file_is_refused_and_kept() {
        for (name, write) in write_functions() {
            let (_folder, at) = folder();
            fs::create_dir(at("folder")).unwrap();
            let _socket = UnixListener::bind(at("socket")).unwrap();
            let pipe = std::process::Command::new("mkfifo").arg(at("pipe")).status();
            assert!(pipe.unwrap().success());
            symlink("/dev/full", at("device")).unwrap();
            symlink("nowhere", at("dangling")).unwrap();
            create_with_mode(&at("readonly"), "old", 0o444);
            for (what, expected) in [
                ("folder", "folder is a folder; gtop writes only regular files: "),
                ("socket", "socket is a socket; gtop writes only regular files: "),
                ("pipe", "pipe is a pipe"),
                ("device", "device is a link to /dev/full, which is a device; gtop writes only "),
                (
                    "dangling",
                    "dangling is a link to nowhere, which does not exist; create that file",
                ),
                ("readonly", "readonly is read-only; chmod u+w "),
            ] {
                let before = fs::symlink_metadata(at(what)).unwrap();
                let error = write(&at(what)).unwrap_err().to_string();
                assert!(error.contains(expected), "{name} {what}: {error}");
                let after = fs::symlink_metadata(at(what)).unwrap();
                assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{what}");
            }
            assert!(!at("nowhere").exists(), "{name}");
            assert_eq!(fs::read_to_string(at("readonly")).unwrap(), "old", "{name}");
        }
    }

    #[test]
    fn root_does_not_follow_links_of_users_to_files_of_others() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for (name, write) in write_functions() {
            let (_folder, at) = folder();
            fs::write(at("shadow"), "root's").unwrap();
            symlink(at("shadow"), at("planted")).unwrap();
            std::os::unix::fs::lchown(at("planted"), Some(NOBODY), Some(NOBODY)).unwrap();
            let error = write(&at("planted")).unwrap_err().to_string();
            assert!(error.contains("belongs to another user than the link"), "{name}: {error}");
            assert_eq!(fs::read_to_string(at("shadow")).unwrap(), "root's");
        }
    }

    #[test]
    fn a_temporary_file_is_private_and_removed() {
        let (_folder, at) = folder();
        let [(_, one), (_, two)] = [0; 2].map(|_| temp_file(&at("f"), 0o600).unwrap());
        assert_ne!(one.to_path_buf(), two.to_path_buf());
        assert_eq!(mode(&one), 0o600);
        drop((one, two));
        assert_eq!(fs::read_dir(at("")).unwrap().count(), 0);
    }

    #[test]
    fn hard_links_are_kept() {
        let (_folder, at) = folder();
        fs::write(at("one"), "old\nlonger\n").unwrap();
        fs::hard_link(at("one"), at("two")).unwrap();
        write(&at("one"), b"oh\n", NEW).unwrap();
        assert_eq!(fs::read_to_string(at("two")).unwrap(), "oh\n");
    }

    #[test]
    fn concurrent_changes_of_another_program_are_not_lost() {
        let (_folder, at) = folder();
        fs::write(at("f"), "one\n").unwrap();
        let mut calls = 0;
        let done = edit(&at("f"), NEW, |old| {
            calls += 1;
            if calls == 1 {
                fs::write(at("f"), "one\ntwo\n").unwrap();
            }
            Some([old, b"three\n"].concat())
        });
        assert!(done.unwrap() && calls == 2);
        assert_eq!(fs::read_to_string(at("f")).unwrap(), "one\ntwo\nthree\n");
        // A file created meanwhile is not lost either.
        let done = edit(&at("g"), NEW, |old| {
            if old.is_empty() {
                fs::write(at("g"), "theirs\n").unwrap();
            }
            Some([old, b"ours\n"].concat())
        });
        assert!(done.unwrap());
        assert_eq!(fs::read_to_string(at("g")).unwrap(), "theirs\nours\n");
        assert!(!edit(&at("g"), NEW, |_| None).unwrap());
        let never = edit(&at("f"), NEW, |old| {
            fs::write(at("f"), [old, b"x"].concat()).unwrap();
            Some(Vec::new())
        });
        assert!(never.unwrap_err().to_string().ends_with("f: it keeps changing; try again"));
    }

    /// Runs [`inside`] in a new mount namespace that `script` has set up; `$1` is a folder.
    fn run_in_namespace(case: &str, script: &str) {
        let (folder, _at) = folder();
        let is_root = rustix::process::geteuid().is_root();
        let namespaces: &[&str] =
            if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
        let unshare = || {
            let mut unshare = std::process::Command::new("unshare");
            unshare.args(namespaces);
            unshare
        };
        if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
            assert!(std::env::var_os("GTOP_CI").is_none(), "unshare --mount is not available");
            return;
        }
        let script =
            format!("cd \"$1\"\n{script}\nexec \"$2\" --exact storage::tests::namespace_cases");
        let mut program = unshare();
        program.args(["sh", "-euc", &script, "sh"]).arg(folder.path());
        program.arg(std::env::current_exe().unwrap());
        let done = program.env(CASE_VARIABLE, case).current_dir(folder.path()).output().unwrap();
        let output = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && output.contains("1 passed"), "{done:?}");
    }

    /// The test cases that run in a mount namespace.
    #[test]
    fn namespace_cases() {
        let Some(case) = std::env::var_os(CASE_VARIABLE) else { return };
        let at = |name: &str| std::env::current_dir().unwrap().join(name);
        match case.to_str().unwrap() {
            "device" => {
                for (name, write) in write_functions() {
                    let error = write(&at("link")).unwrap_err().to_string();
                    assert!(error.contains("node, which is a device"), "{name}: {error}");
                    assert!(fs::metadata(at("node")).unwrap().file_type().is_char_device());
                }
            }
            "bound" => {
                for content in ["longer than it was\n", "short\n", "short\nand more\n", ""] {
                    write(&at("bound"), content.as_bytes(), NEW).unwrap();
                    assert_eq!(fs::read_to_string(at("bound")).unwrap(), content);
                    assert_eq!(fs::read_to_string(at("real")).unwrap(), content);
                }
                append(&at("bound"), NEW, |_| Some(b"added\n".into())).unwrap();
                assert_eq!(fs::read_to_string(at("real")).unwrap(), "added\n");
                assert_eq!((mode(&at("bound")), mode(&at("real"))), (0o640, 0o640));
                // The temporary file is gone.
                assert_eq!(fs::read_dir(at("")).unwrap().count(), 2);
            }
            "full" => {
                let content = vec![b'x'; 100_000];
                for name in ["full/file", "full/twice", "bound"] {
                    let error = write(&at(name), &content, NEW).unwrap_err().to_string();
                    assert!(error.contains("No space left on device"), "{name}: {error}");
                    let more = append(&at(name), NEW, |_| Some(content.clone())).unwrap_err();
                    assert!(more.to_string().contains("No space left"), "{name}: {more}");
                    assert_eq!(fs::read_to_string(at(name)).unwrap(), "old\n", "{name}");
                }
                let error = write(&at("full/new"), &content, NEW).unwrap_err().to_string();
                assert!(error.contains("No space left on device"), "{error}");
                for name in ["full/file", "full/twice", "bound"] {
                    let lines = LineFile::open(&at(name), "head\n").unwrap();
                    let error = lines.append(&"y\n".repeat(50_000)).unwrap_err().to_string();
                    assert!(error.contains("No space left on device"), "{name}: {error}");
                    assert_eq!(fs::read_to_string(at(name)).unwrap(), "old\n", "{name}");
                }
                // On a full disk the log stops growing and does not block.
                let mut log = LogFile::open(&at("full/file")).unwrap();
                for _ in 0..1000 {
                    log.write_line(&"y".repeat(1000));
                }
                let names = fs::read_dir(at("full")).unwrap();
                assert_eq!(names.count(), 4, "a temporary or a new file is left");
            }
            "readonly" => {
                let error = write_error(&at("ro/file"));
                assert!(error.contains("Read-only file system"), "{error}");
                write(&at("ro/bound"), b"new", NEW).unwrap();
                assert_eq!(fs::read_to_string(at("real")).unwrap(), "new");
            }
            _ => unreachable!(),
        }
    }

    #[test]
    fn a_device_behind_a_link_is_refused_and_kept() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        run_in_namespace(
            "device",
            "mkdir in\nmount -t tmpfs none in\ncd in\nmknod node c 1 3\nln -s node link",
        );
    }

    #[test]
    fn a_mount_point_is_overwritten_in_place() {
        run_in_namespace(
            "bound",
            "echo old >real\nchmod 640 real\n: >bound\nmount --bind real bound",
        );
    }

    #[test]
    fn nothing_is_lost_on_a_full_disk() {
        let script = "mkdir full\nmount -t tmpfs -o size=64k none full\nfor name in file once bound; do \
                      echo old >full/$name; done\nln full/once full/twice\nrm full/once\n: >bound\n\
                      mount --bind full/bound bound\ndd if=/dev/zero of=full/rest bs=4096 count=8 2>&1";
        run_in_namespace("full", script);
    }

    #[test]
    fn a_file_in_a_read_only_folder_is_overwritten_in_place() {
        let script = "echo old >real\nmkdir ro\nmount -t tmpfs none ro\necho old >ro/file\n: >ro/bound\n\
                      mount --bind real ro/bound\nmount -o remount,ro none ro";
        run_in_namespace("readonly", script);
    }
}
