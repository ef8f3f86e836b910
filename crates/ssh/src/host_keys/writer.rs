//! Writes host keys to `known_hosts` files: keys the user accepted, and new keys that `StrictHostKeyChecking`
//! accepts.
//!
//! Keys the user accepted are written by replacing the file, where possible, so that a crash leaves either the old
//! or the new one. Keys accepted automatically come from many nodes at once and beside other programs, so they are
//! appended, as `ssh` does it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use russh::keys::PublicKey;
use russh::keys::ssh_key::public::KeyData;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::config::{self, HostSettings};
use crate::host_keys::known_hosts::{self, KnownHosts};
use crate::host_keys::{HostKeyEntries, HostKeyStatus, Verification};
use gtop_local::fault::ssh::Fault;
use gtop_local::lock::lock;
use gtop_local::storage::{self, NewFile, WriteError};

/// The modes with which `ssh` creates the file and its folder.
const FILE_MODES: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };

/// The host key of a node, and its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedKey {
    /// The name for a `known_hosts` file.
    pub host: String,
    /// The algorithm, such as `ssh-ed25519`.
    pub algorithm: String,
    /// The fingerprint, as `ssh-keygen -l` prints it.
    pub fingerprint: String,
    /// Its status in the files.
    pub status: HostKeyStatus,
    /// Why the key must not be stored, if so.
    pub refusal: Option<Fault>,
    /// Why its certificate is ignored; reads on after "certificate".
    pub certificate_problem: Option<String>,
    /// The line that makes it known; `None` if no file keeps it.
    pub entry: Option<KnownHostEntry>,
}

/// A line for a `known_hosts` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHostEntry {
    /// The first `UserKnownHostsFile`.
    pub file: PathBuf,
    /// The line, without the newline.
    pub line: String,
}

/// Describes the key of a host.
pub(crate) fn describe_key(
    settings: &HostSettings,
    verification: Verification,
) -> Result<OfferedKey, Fault> {
    let host = settings.known_hosts_name.full.clone();
    let (fault, (algorithm, fingerprint)) = (verification.fault(&host), verification.key_text());
    let Verification { key, status, certificate_problem } = verification;
    let is_kept = keeps_keys(settings);
    if status == HostKeyStatus::Unknown && !is_kept {
        return Err(Fault::HostKeyNotKept { host, algorithm, fingerprint });
    }
    Ok(OfferedKey {
        algorithm,
        fingerprint,
        refusal: fault.filter(|_| status != HostKeyStatus::Unknown),
        status,
        certificate_problem,
        entry: is_kept.then(|| entry(settings, &key)).transpose()?,
        host,
    })
}

/// Returns the line that makes a key known.
fn entry(settings: &HostSettings, key: &KeyData) -> Result<KnownHostEntry, Fault> {
    let Some(file) = settings.user_known_hosts.first() else {
        return Err(config_fault("UserKnownHostsFile is none, so there is no file to write"));
    };
    let host = &settings.known_hosts_name.full;
    let bare = host.trim_start_matches('[').split("]:").next().unwrap_or_default();
    config::check_known_name(bare)?;
    let hashed = if settings.hash_known_hosts { Some(hash_name(host)?) } else { None };
    let names = hashed.as_ref().unwrap_or(host);
    let public = PublicKey::new(key.clone(), "").to_openssh();
    let public = public.map_err(|_unencodable| config_fault("the node's key cannot be encoded"))?;
    Ok(KnownHostEntry { file: file.clone(), line: format!("{names} {}", public.trim()) })
}

fn config_fault(why: &str) -> Fault {
    Fault::BadConfiguration { why: why.to_owned() }
}

/// Returns the hashed form of the name (`HashKnownHosts`).
fn hash_name(host: &str) -> Result<String, Fault> {
    let mut salt = [0; 20];
    getrandom(&mut salt, GetRandomFlags::empty())
        .map_err(|error| config_fault(&format!("cannot read random numbers ({error})")))?;
    known_hosts::hash_host(salt, host).ok_or_else(|| config_fault("the name cannot be hashed"))
}

/// Held while a file is written, so that tasks of this process do not add the same line twice.
static WRITE_LOCK: Mutex<()> = Mutex::new(());

/// Returns true if a new key of the host can be kept: with `/dev/null` it is forgotten at once.
pub(crate) fn keeps_keys(settings: &HostSettings) -> bool {
    settings.user_known_hosts.first().is_some_and(|file| file != Path::new("/dev/null"))
}

/// Appends an unknown key to the user's first file, in one write, so that a concurrent gtop or `ssh` loses no
/// line. Returns the status of the key just before: another host of the same name may have been stored meanwhile, and then
/// this one is not. Blocks.
pub(crate) fn store_new_key(
    settings: &HostSettings,
    key: &KeyData,
) -> Result<HostKeyStatus, Fault> {
    let mut status = HostKeyStatus::Unknown;
    if !keeps_keys(settings) {
        return Ok(status);
    }
    let KnownHostEntry { file, line } = entry(settings, key)?;
    let _writing = lock(&WRITE_LOCK);
    let done = storage::append(&file, FILE_MODES, |content| {
        let known = KnownHosts::parse(&file, &String::from_utf8_lossy(content));
        let name = &settings.known_hosts_name;
        status = HostKeyEntries::collect_for(&[Arc::new(known)], name).check(key);
        let is_open = content.last().is_some_and(|last| *last != b'\n');
        let before = if is_open { "\n" } else { "" };
        (status == HostKeyStatus::Unknown).then(|| format!("{before}{line}\n").into_bytes())
    });
    done.map_err(|error| config_fault(&error.to_string()))?;
    Ok(status)
}

/// Adds lines to `known_hosts` files, and returns the number of new ones. Blocks.
///
/// Creates missing folders and files for the owner only.
pub(crate) fn write_known_hosts(entries: &[KnownHostEntry]) -> Result<usize, WriteError> {
    let mut files: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        files.entry(&entry.file).or_default().push(&entry.line);
    }
    let mut added = 0;
    for (file, lines) in files {
        let _writing = lock(&WRITE_LOCK);
        let mut new = 0;
        let is_changed = storage::edit(file, FILE_MODES, |old| {
            let (content, count) = add_missing_lines(old.to_vec(), &lines);
            new = count;
            (new > 0).then_some(content)
        })?;
        added += if is_changed { new } else { 0 };
    }
    Ok(added)
}

/// Returns the content with the missing lines added, and their number.
fn add_missing_lines(mut content: Vec<u8>, lines: &[&str]) -> (Vec<u8>, usize) {
    let mut added = 0;
    for line in lines {
        let is_present = content.split(|byte| *byte == b'\n').any(|have| have == line.as_bytes());
        if is_present {
            continue;
        }
        if content.last().is_some_and(|last| *last != b'\n') {
            content.push(b'\n');
        }
        content.extend_from_slice(line.as_bytes());
        content.push(b'\n');
        added += 1;
    }
    (content, added)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    fn entry(file: &Path, line: &str) -> KnownHostEntry {
        KnownHostEntry { file: file.to_owned(), line: line.to_owned() }
    }

    #[test]
    fn a_missing_folder_and_file_are_created_for_the_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".ssh/known_hosts");
        let added = write_known_hosts(&[entry(&file, "a k"), entry(&file, "b k")]).unwrap();
        assert_eq!(added, 2);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a k\nb k\n");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn content_and_permissions_are_kept_and_the_last_line_gets_its_newline() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("known_hosts");
        fs::write(&file, "# mine\nold k").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(write_known_hosts(&[entry(&file, "new k")]).unwrap(), 1);
        assert_eq!(write_known_hosts(&[entry(&file, "new k")]).unwrap(), 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\nold k\nnew k\n");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn crlf_line_endings_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("known_hosts");
        fs::write(&file, "# mine\r\nold k\r\n").unwrap();
        assert_eq!(write_known_hosts(&[entry(&file, "new k")]).unwrap(), 1);
        assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\r\nold k\r\nnew k\n");
    }

    #[test]
    fn a_symlink_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real"), home.path().join("known_hosts"));
        fs::write(&real, "old k\n").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_known_hosts(&[entry(&link, "new k")]).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "old k\nnew k\n");
    }

    #[test]
    fn a_symlink_to_a_missing_file_or_a_device_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("known_hosts");
        std::os::unix::fs::symlink(home.path().join("nowhere"), &link).unwrap();
        assert!(write_known_hosts(&[entry(&link, "a k")]).is_err());
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let error = write_known_hosts(&[entry(&link, "a k")]).unwrap_err();
        assert!(error.to_string().contains("which is a device"), "{error}");
    }
}
