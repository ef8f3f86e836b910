//! The user's key files and certificates: which can be used, which need a passphrase.
//!
//! A passphrase is used at once and forgotten; only the key it opens is kept,
//! in memory. The files are read on threads that may block.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, PrivateKey, PublicKey, decode_secret_key};

use crate::transport::auth_prompt::Secret;
use crate::transport::fault::Fault;
use crate::transport::file_cache::{self, FileCache};

/// Access that nobody but the owner of a private key may have.
const GROUP_AND_OTHERS: u32 = 0o077;

/// One key file as far as it can be used.
#[derive(Debug, Clone)]
pub(super) enum KeyFile {
    /// Can sign.
    Usable(Arc<PrivateKey>),
    /// Needs a passphrase. The public half is known for most formats.
    Encrypted(Option<KeyData>),
    /// Is encrypted in a form of long ago that gtop cannot open; an agent can.
    LegacyEncrypted(Option<KeyData>),
    /// Only the public half is here; an agent may hold the other.
    PublicOnly(KeyData),
    /// Others may read it; an agent may hold it all the same.
    Unprotected(Option<KeyData>),
    /// Signs only together with a security key, which an agent can talk to.
    SecurityKey(KeyData),
    /// Exists and is of no use.
    Unusable(&'static str),
    /// Does not exist.
    Missing,
}

impl KeyFile {
    /// Returns the public half, when it is known.
    pub(super) fn public(&self) -> Option<&KeyData> {
        match self {
            Self::Usable(key) => Some(key.public_key().key_data()),
            Self::Encrypted(public) | Self::LegacyEncrypted(public) | Self::Unprotected(public) => {
                public.as_ref()
            }
            Self::PublicOnly(public) | Self::SecurityKey(public) => Some(public),
            Self::Unusable(_) | Self::Missing => None,
        }
    }
}

/// A key file with its name.
#[derive(Debug, Clone)]
pub(super) struct IdentityFile {
    pub(super) path: PathBuf,
    pub(super) file: KeyFile,
    /// The user certificate in `NAME-cert.pub` beside it.
    pub(super) certificate: Option<Arc<Certificate>>,
}

/// A file with a certificate.
#[derive(Debug, Clone)]
pub(super) struct CertificateFile {
    pub(super) path: PathBuf,
    /// `None` when no user certificate can be read from it.
    pub(super) certificate: Option<Arc<Certificate>>,
}

impl IdentityFile {
    /// Returns whether the key is on a FIDO token, which only the ssh program can ask to sign.
    pub(super) fn is_security_key(&self) -> bool {
        let algorithm = self.file.public().map(KeyData::algorithm);
        matches!(algorithm, Some(Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256))
    }
}

/// The key files read so far, opened ones included.
#[derive(Debug, Default)]
pub(super) struct KeyCache {
    keys: FileCache<KeyFile>,
    certificates: FileCache<Option<Arc<Certificate>>>,
}

impl KeyCache {
    /// Reads key files and the certificates beside them. Blocks.
    pub(super) fn load(&self, paths: &[PathBuf]) -> Vec<IdentityFile> {
        paths.iter().map(|path| self.identity(path)).collect()
    }

    fn identity(&self, path: &Path) -> IdentityFile {
        let path = path.to_owned();
        if let Some(certificate) = self.certificate(&path) {
            // A certificate where a key should be: the key it is for may be elsewhere.
            return IdentityFile { path, file: KeyFile::Missing, certificate: Some(certificate) };
        }
        let (file, certificate) =
            (self.keys.get(&path, read), self.certificate(&beside(&path, "-cert")));
        IdentityFile { path, file, certificate }
    }

    /// Reads files with certificates. Blocks.
    pub(super) fn load_certificates(&self, paths: &[PathBuf]) -> Vec<CertificateFile> {
        let load = |path: &PathBuf| CertificateFile {
            path: path.clone(),
            certificate: self.certificate(path),
        };
        paths.iter().map(load).collect()
    }

    /// Reads a certificate from a file of this name, or of this name and `.pub`, as ssh does.
    fn certificate(&self, path: &Path) -> Option<Arc<Certificate>> {
        let get = |path: &Path| self.certificates.get(path, read_certificate);
        get(path).or_else(|| get(&beside(path, ".pub")))
    }

    /// Opens an encrypted key for the rest of the process. Blocks for about 0.1 s.
    pub(super) fn unlock(&self, path: &Path, passphrase: &Secret) -> Result<(), Fault> {
        let encrypted = || Fault::KeyEncrypted { file: path.to_owned() };
        let text = file_cache::read(path).map_err(|_unreadable| encrypted())?;
        let key = decode_secret_key(&text, Some(passphrase.expose()));
        self.keys.set(path, opened(key.map_err(|_wrong| encrypted())?));
        Ok(())
    }
}

/// Returns what a private key without a passphrase is good for.
fn opened(key: PrivateKey) -> KeyFile {
    let algorithm = key.algorithm();
    if matches!(algorithm, Algorithm::SkEcdsaSha2NistP256 | Algorithm::SkEd25519) {
        return KeyFile::SecurityKey(key.public_key().key_data().clone());
    }
    if algorithm == Algorithm::Dsa {
        return KeyFile::Unusable("is a DSA key, which is too weak");
    }
    KeyFile::Usable(Arc::new(key))
}

fn read_certificate(path: &Path) -> Option<Arc<Certificate>> {
    let text = file_cache::read(path).ok()?;
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let mut certificate = Certificate::from_openssh(line).ok()?;
    // The agent's copy of the same has another.
    certificate.set_comment("");
    certificate.cert_type().is_user().then(|| Arc::new(certificate))
}

/// Returns a path with more letters at its end.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

fn read(path: &Path) -> KeyFile {
    let public = || read_public_key(path);
    let Ok(about) = std::fs::metadata(path) else {
        return public().map_or(KeyFile::Missing, KeyFile::PublicOnly);
    };
    let Ok(text) = file_cache::read(path) else {
        return public().map_or(KeyFile::Unusable("cannot be read"), KeyFile::PublicOnly);
    };
    if let Some(key) = parse_public(&text) {
        return KeyFile::PublicOnly(key);
    }
    // ssh would not use it either: others may have copied it.
    if about.uid() == rustix::process::geteuid().as_raw() && about.mode() & GROUP_AND_OTHERS != 0 {
        return KeyFile::Unprotected(public());
    }
    if let Ok(key) = decode_secret_key(&text, None) {
        return opened(key);
    }
    if let Ok(key) = PrivateKey::from_openssh(&text)
        && key.is_encrypted()
    {
        return KeyFile::Encrypted(Some(key.public_key().key_data().clone()));
    }
    if text.contains("ENCRYPTED") {
        let is_old = text.contains("Proc-Type: 4,ENCRYPTED");
        let is_read = text.contains("BEGIN RSA") && text.contains("DEK-Info: AES-128-CBC,");
        return if is_old && !is_read {
            KeyFile::LegacyEncrypted(public())
        } else {
            KeyFile::Encrypted(public())
        };
    }
    public().map_or(KeyFile::Unusable("is no private key gtop knows"), KeyFile::PublicOnly)
}

/// Reads the file beside a private key that holds its public half.
fn read_public_key(path: &Path) -> Option<KeyData> {
    parse_public(&file_cache::read(&beside(path, ".pub")).ok()?)
}

fn parse_public(text: &str) -> Option<KeyData> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let key = PublicKey::from_openssh(line).ok()?.key_data().clone();
    key.certificate().is_none().then_some(key)
}

/// Returns the key files a passphrase would help with.
///
/// A chosen file that is locked is always one; a default file only when there is
/// nothing else to show the node.
pub(super) fn needing_passphrase<'a>(
    identities: &'a [IdentityFile],
    are_keys_configured: bool,
    in_agent: &[KeyData],
) -> Vec<&'a Path> {
    let held = |file: &KeyFile| file.public().is_some_and(|public| in_agent.contains(public));
    let is_open = |identity: &IdentityFile| matches!(identity.file, KeyFile::Usable(_));
    if !are_keys_configured && (!in_agent.is_empty() || identities.iter().any(is_open)) {
        return Vec::new();
    }
    let locked = identities
        .iter()
        .filter(|identity| matches!(identity.file, KeyFile::Encrypted(_)) && !held(&identity.file));
    locked.map(|identity| identity.path.as_path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio a comment";

    fn identity(name: &str, file: KeyFile) -> IdentityFile {
        IdentityFile { path: PathBuf::from(name), file, certificate: None }
    }

    fn key() -> KeyData {
        parse_public(PUBLIC).unwrap()
    }

    #[test]
    fn a_passphrase_is_asked_for_only_when_it_helps() {
        let locked = [identity("/k", KeyFile::Encrypted(Some(key())))];
        assert_eq!(needing_passphrase(&locked, true, &[]), [Path::new("/k")]);
        assert_eq!(needing_passphrase(&locked, false, &[]), [Path::new("/k")]);
        assert!(needing_passphrase(&locked, true, &[key()]).is_empty());
        assert!(needing_passphrase(&locked, false, &[key()]).is_empty());
        let absent = [identity("/k", KeyFile::Missing), identity("/l", KeyFile::Unusable("x"))];
        assert!(needing_passphrase(&absent, true, &[]).is_empty());
    }

    #[test]
    fn a_file_may_hold_only_the_public_half() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id");
        assert!(matches!(read(&path), KeyFile::Missing));
        std::fs::write(folder.path().join("id.pub"), PUBLIC).unwrap();
        assert!(matches!(read(&path), KeyFile::PublicOnly(_)));
        std::fs::write(&path, PUBLIC).unwrap();
        assert_eq!(read(&path).public(), Some(&key()));
        std::fs::remove_file(folder.path().join("id.pub")).unwrap();
        std::fs::write(&path, "what is this").unwrap();
        for (mode, is_exposed) in [(0o644, true), (0o600, false)] {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
            let file = read(&path);
            assert_eq!(matches!(file, KeyFile::Unprotected(None)), is_exposed, "{file:?}");
            assert_eq!(matches!(file, KeyFile::Unusable(_)), !is_exposed, "{file:?}");
        }
    }
}
