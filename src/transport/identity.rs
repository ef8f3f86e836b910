//! The user's key files: which can be used, which need a passphrase.
//!
//! A passphrase is used at once and forgotten; only the key it opens is kept,
//! in memory. The files are read on threads that may block.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, PrivateKey, PublicKey, decode_secret_key};

use crate::transport::fault::Fault;
use crate::transport::files::{self, FileCache};

/// Access that nobody but the owner of a private key may have.
const OTHERS: u32 = 0o077;

/// One key file as far as it can be used.
#[derive(Debug, Clone)]
pub(super) enum KeyFile {
    /// Can sign.
    Open(Arc<PrivateKey>),
    /// Needs a passphrase. The public half is known for most formats.
    Locked(Option<KeyData>),
    /// Only the public half is here; an agent may hold the other.
    Public(KeyData),
    /// Exists and is of no use.
    Unusable(&'static str),
    /// Does not exist.
    Absent,
}

impl KeyFile {
    /// Returns the public half, when it is known.
    pub(super) fn public(&self) -> Option<&KeyData> {
        match self {
            Self::Open(key) => Some(key.public_key().key_data()),
            Self::Locked(public) => public.as_ref(),
            Self::Public(public) => Some(public),
            Self::Unusable(_) | Self::Absent => None,
        }
    }
}

/// A key file with its name.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) path: PathBuf,
    pub(super) file: KeyFile,
}

impl Identity {
    /// Returns whether the key is on a FIDO token, which only the ssh program can ask to sign.
    pub(super) fn is_on_a_token(&self) -> bool {
        let algorithm = self.file.public().map(KeyData::algorithm);
        matches!(algorithm, Some(Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256))
    }
}

/// The key files read so far, opened ones included.
#[derive(Debug, Default)]
pub(super) struct KeyCache(FileCache<KeyFile>);

impl KeyCache {
    /// Reads key files. Blocks.
    pub(super) fn load(&self, paths: &[PathBuf]) -> Vec<Identity> {
        let load = |path: &PathBuf| Identity { path: path.clone(), file: self.0.get(path, read) };
        paths.iter().map(load).collect()
    }

    /// Opens an encrypted key for the rest of the process. Blocks for about 0.1 s.
    pub(super) fn unlock(&self, path: &Path, passphrase: &str) -> Result<(), Fault> {
        let encrypted = || Fault::KeyEncrypted { file: path.to_owned() };
        let text = files::read(path).map_err(|_unreadable| encrypted())?;
        let key = decode_secret_key(&text, Some(passphrase)).map_err(|_wrong| encrypted())?;
        self.0.set(path, KeyFile::Open(Arc::new(key)));
        Ok(())
    }
}

fn read(path: &Path) -> KeyFile {
    let public = || public_half(path);
    let Ok(about) = std::fs::metadata(path) else {
        return public().map_or(KeyFile::Absent, KeyFile::Public);
    };
    let Ok(text) = files::read(path) else {
        return public().map_or(KeyFile::Unusable("cannot be read"), KeyFile::Public);
    };
    if let Some(key) = parse_public(&text) {
        return KeyFile::Public(key);
    }
    // ssh would not use it either: others may have copied it.
    if about.uid() == rustix::process::geteuid().as_raw() && about.mode() & OTHERS != 0 {
        let why = "can be read by others; chmod 600 it";
        return public().map_or(KeyFile::Unusable(why), KeyFile::Public);
    }
    if let Ok(key) = decode_secret_key(&text, None) {
        return KeyFile::Open(Arc::new(key));
    }
    if let Ok(key) = PrivateKey::from_openssh(&text)
        && key.is_encrypted()
    {
        return KeyFile::Locked(Some(key.public_key().key_data().clone()));
    }
    if text.contains("ENCRYPTED") {
        return KeyFile::Locked(public());
    }
    public().map_or(KeyFile::Unusable("is no private key gtop knows"), KeyFile::Public)
}

/// Reads the file beside a private key that holds its public half.
fn public_half(path: &Path) -> Option<KeyData> {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    parse_public(&files::read(Path::new(&name)).ok()?)
}

fn parse_public(text: &str) -> Option<KeyData> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(PublicKey::from_openssh(line).ok()?.key_data().clone())
}

/// Returns the key files a passphrase would help with.
///
/// A chosen file that is locked is always one; a default file only when there is
/// nothing else to show the node.
pub(super) fn worth_asking<'a>(
    identities: &'a [Identity],
    are_chosen: bool,
    in_agent: &[KeyData],
) -> Vec<&'a Path> {
    let held = |file: &KeyFile| file.public().is_some_and(|public| in_agent.contains(public));
    let is_open = |identity: &Identity| matches!(identity.file, KeyFile::Open(_));
    if !are_chosen && (!in_agent.is_empty() || identities.iter().any(is_open)) {
        return Vec::new();
    }
    let locked = identities
        .iter()
        .filter(|identity| matches!(identity.file, KeyFile::Locked(_)) && !held(&identity.file));
    locked.map(|identity| identity.path.as_path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio a comment";

    fn identity(name: &str, file: KeyFile) -> Identity {
        Identity { path: PathBuf::from(name), file }
    }

    fn key() -> KeyData {
        parse_public(PUBLIC).unwrap()
    }

    #[test]
    fn a_passphrase_is_asked_for_only_when_it_helps() {
        let locked = [identity("/k", KeyFile::Locked(Some(key())))];
        assert_eq!(worth_asking(&locked, true, &[]), [Path::new("/k")]);
        assert_eq!(worth_asking(&locked, false, &[]), [Path::new("/k")]);
        assert!(worth_asking(&locked, true, &[key()]).is_empty());
        assert!(worth_asking(&locked, false, &[key()]).is_empty());
        let absent = [identity("/k", KeyFile::Absent), identity("/l", KeyFile::Unusable("x"))];
        assert!(worth_asking(&absent, true, &[]).is_empty());
    }

    #[test]
    fn a_file_may_hold_only_the_public_half() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id");
        assert!(matches!(read(&path), KeyFile::Absent));
        std::fs::write(folder.path().join("id.pub"), PUBLIC).unwrap();
        assert!(matches!(read(&path), KeyFile::Public(_)));
        std::fs::write(&path, PUBLIC).unwrap();
        assert_eq!(read(&path).public(), Some(&key()));
        std::fs::remove_file(folder.path().join("id.pub")).unwrap();
        std::fs::write(&path, "what is this").unwrap();
        assert!(matches!(read(&path), KeyFile::Unusable(_)));
    }
}
