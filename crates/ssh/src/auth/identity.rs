//! The user's key files and certificates.
//!
//! A passphrase is used once and not kept; the decrypted key is kept in memory. Files are read on threads that may
//! block.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, PrivateKey, PublicKey, decode_secret_key};

use crate::auth::prompt::Secret;
use crate::auth::short_key::read_short_key;
use crate::file_cache::{self, FileCache};
use gtop_local::fault::ssh::Fault;

/// The permission bits a private key must not have.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The state of a key file.
#[derive(Debug, Clone)]
pub(crate) enum KeyFile {
    /// A private key, decrypted.
    Usable(Arc<PrivateKey>),
    /// Encrypted. The public key is known for most formats.
    Encrypted(Option<KeyData>),
    /// Encrypted in an old format that gtop cannot decrypt; an agent can.
    LegacyEncrypted(Option<KeyData>),
    /// Only the public key; an agent may hold the private key.
    PublicOnly(KeyData),
    /// Readable by others, so not used; an agent may hold the key.
    Unprotected(Option<KeyData>),
    /// Needs a FIDO security key, which an agent can use.
    SecurityKey(KeyData),
    /// Of a format that gtop cannot read; the ssh program or an agent may.
    Foreign(Option<KeyData>),
    /// Exists and cannot be used, for this reason.
    Unusable(&'static str),
    /// Does not exist.
    Missing,
}

impl KeyFile {
    /// Returns the public key, if known.
    pub(crate) fn public_key(&self) -> Option<&KeyData> {
        match self {
            Self::Usable(key) => Some(key.public_key().key_data()),
            Self::Encrypted(public)
            | Self::LegacyEncrypted(public)
            | Self::Unprotected(public)
            | Self::Foreign(public) => public.as_ref(),
            Self::PublicOnly(public) | Self::SecurityKey(public) => Some(public),
            Self::Unusable(_) | Self::Missing => None,
        }
    }

    /// Returns the private key, or why the file cannot sign.
    pub(crate) fn private_key(&self) -> Result<&Arc<PrivateKey>, &'static str> {
        match self {
            Self::Usable(key) => Ok(key),
            Self::Encrypted(_) => Err("encrypted; ssh-add it"),
            Self::LegacyEncrypted(_) => {
                Err("encrypted in an old format; rewrite it with ssh-keygen -p, or ssh-add it")
            }
            Self::PublicOnly(_) => Err("only the public key is here"),
            Self::Unprotected(_) => Err("readable by others; chmod 600 it"),
            Self::SecurityKey(_) => Err("needs its security key; ssh-add it"),
            Self::Foreign(_) => Err("is of a format that gtop cannot read; ssh-add it"),
            Self::Unusable(why) => Err(why),
            Self::Missing => Err("is gone"),
        }
    }
}

/// A key file and the certificate beside it.
#[derive(Debug, Clone)]
pub(crate) struct IdentityFile {
    pub(crate) path: PathBuf,
    pub(crate) key_file: KeyFile,
    /// The user certificate in `NAME-cert.pub`.
    pub(crate) certificate: Option<Arc<Certificate>>,
}

/// A file of `CertificateFile`.
#[derive(Debug, Clone)]
pub(crate) struct CertificateFile {
    pub(crate) path: PathBuf,
    /// `None` if the file has no valid user certificate.
    pub(crate) certificate: Option<Arc<Certificate>>,
}

impl IdentityFile {
    /// Returns the path, to show it.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns true if only the ssh program can use the key: it is on a FIDO security key, or of a format that gtop cannot
    /// read.
    pub(crate) fn is_foreign(&self) -> bool {
        let algorithm = self.key_file.public_key().map(KeyData::algorithm);
        matches!(algorithm, Some(Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256))
            || matches!(self.key_file, KeyFile::Foreign(_))
    }
}

/// The key files read so far, decrypted ones included.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    keys: FileCache<KeyFile>,
    certificates: FileCache<Option<Arc<Certificate>>>,
}

impl KeyCache {
    /// Reads key files and the certificates beside them. Blocks.
    pub(crate) fn load(&self, paths: &[PathBuf]) -> Vec<IdentityFile> {
        paths.iter().map(|path| self.load_identity(path)).collect()
    }

    fn load_identity(&self, path: &Path) -> IdentityFile {
        let (key_file, certificate) = match self.load_certificate(path) {
            // The file holds a certificate instead of a key; its key may be in another file.
            Some(certificate) => (KeyFile::Missing, Some(certificate)),
            None => (self.keys.get(path, read), self.load_certificate(&with_suffix(path, "-cert"))),
        };
        IdentityFile { path: path.to_owned(), key_file, certificate }
    }

    /// Reads files with certificates. Blocks.
    pub(crate) fn load_certificates(&self, paths: &[PathBuf]) -> Vec<CertificateFile> {
        let files = paths.iter().map(|path| {
            let certificate = self.load_certificate(path);
            CertificateFile { path: path.clone(), certificate }
        });
        files.collect()
    }

    /// Reads a certificate from a file of this name, or of this name and `.pub`, as ssh does.
    fn load_certificate(&self, path: &Path) -> Option<Arc<Certificate>> {
        let certificate = self.certificates.get(path, read_certificate);
        certificate.or_else(|| self.certificates.get(&with_suffix(path, ".pub"), read_certificate))
    }

    /// Decrypts a key for the rest of the process. Blocks for about 0.1 s.
    pub(crate) fn unlock(&self, path: &Path, passphrase: &Secret) -> Result<(), Fault> {
        let text = file_cache::read(path).unwrap_or_default();
        let Ok(key) = decode_secret_key(&text, Some(passphrase.expose())) else {
            return Err(Fault::KeyEncrypted { file: path.to_owned() });
        };
        self.keys.set(path, classify(key));
        Ok(())
    }
}

/// Classifies a decrypted private key.
fn classify(key: PrivateKey) -> KeyFile {
    let algorithm = key.algorithm();
    if matches!(algorithm, Algorithm::SkEcdsaSha2NistP256 | Algorithm::SkEd25519) {
        return KeyFile::SecurityKey(key.public_key().into());
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
    // The agent's copy of the certificate has another comment.
    certificate.set_comment("");
    certificate.cert_type().is_user().then(|| Arc::new(certificate))
}

/// Returns a path with a suffix appended.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn read(path: &Path) -> KeyFile {
    let Ok(metadata) = std::fs::metadata(path) else {
        return read_public_key(path).map_or(KeyFile::Missing, KeyFile::PublicOnly);
    };
    let Ok(text) = file_cache::read(path) else {
        let unreadable = KeyFile::Unusable("cannot be read");
        return read_public_key(path).map_or(unreadable, KeyFile::PublicOnly);
    };
    if let Some(key) = parse_public(&text) {
        return KeyFile::PublicOnly(key);
    }
    // ssh would not use it either.
    if metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & GROUP_AND_OTHERS != 0
    {
        return KeyFile::Unprotected(read_public_key(path));
    }
    if let Some(key) = decode_secret_key(&text, None).ok().or_else(|| read_short_key(&text)) {
        return classify(key);
    }
    if let Ok(key) = PrivateKey::from_openssh(&text)
        && key.is_encrypted()
    {
        return KeyFile::Encrypted(Some(key.public_key().into()));
    }
    if text.contains("ENCRYPTED") {
        let is_legacy = text.contains("Proc-Type: 4,ENCRYPTED");
        let is_supported = text.contains("BEGIN RSA") && text.contains("DEK-Info: AES-128-CBC,");
        let public = read_public_key(path);
        return if is_legacy && !is_supported {
            KeyFile::LegacyEncrypted(public)
        } else {
            KeyFile::Encrypted(public)
        };
    }
    if text.contains("PRIVATE KEY-----") {
        return KeyFile::Foreign(read_public_key(path));
    }
    read_public_key(path).map_or(KeyFile::Unusable("is not a private key"), KeyFile::PublicOnly)
}

/// Reads `NAME.pub` beside a private key.
fn read_public_key(path: &Path) -> Option<KeyData> {
    parse_public(&file_cache::read(&with_suffix(path, ".pub")).ok()?)
}

fn parse_public(text: &str) -> Option<KeyData> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let key = KeyData::from(PublicKey::from_openssh(line).ok()?);
    key.certificate().is_none().then_some(key)
}

/// Returns the key files worth asking a passphrase for.
///
/// A configured file always is, if it is encrypted; a default file only if there is no other key to offer.
pub(crate) fn files_needing_passphrase<'a>(
    identities: &'a [IdentityFile],
    are_keys_configured: bool,
    in_agent: &[KeyData],
) -> Vec<&'a Path> {
    let mut files = identities.iter().map(|identity| &identity.key_file);
    let has_key = !in_agent.is_empty() || files.any(|file| matches!(file, KeyFile::Usable(_)));
    if has_key && !are_keys_configured {
        return Vec::new();
    }
    let locked = identities.iter().filter(|identity| {
        let public = identity.key_file.public_key();
        matches!(identity.key_file, KeyFile::Encrypted(_))
            && !public.is_some_and(|public| in_agent.contains(public))
    });
    locked.map(|identity| identity.path.as_path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio a comment";

    fn identity(name: &str, file: KeyFile) -> IdentityFile {
        IdentityFile { path: PathBuf::from(name), key_file: file, certificate: None }
    }

    fn key() -> KeyData {
        parse_public(PUBLIC).unwrap()
    }

    #[test]
    fn a_passphrase_is_requested_only_when_it_helps() {
        let locked = [identity("/k", KeyFile::Encrypted(Some(key())))];
        assert_eq!(files_needing_passphrase(&locked, true, &[]), [Path::new("/k")]);
        assert_eq!(files_needing_passphrase(&locked, false, &[]), [Path::new("/k")]);
        assert!(files_needing_passphrase(&locked, true, &[key()]).is_empty());
        assert!(files_needing_passphrase(&locked, false, &[key()]).is_empty());
        let absent = [identity("/k", KeyFile::Missing), identity("/l", KeyFile::Unusable("x"))];
        assert!(files_needing_passphrase(&absent, true, &[]).is_empty());
    }

    #[test]
    fn a_file_may_hold_only_the_public_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id");
        assert!(matches!(read(&path), KeyFile::Missing));
        std::fs::write(folder.path().join("id.pub"), PUBLIC).unwrap();
        assert!(matches!(read(&path), KeyFile::PublicOnly(_)));
        std::fs::write(&path, PUBLIC).unwrap();
        assert_eq!(read(&path).public_key(), Some(&key()));
        std::fs::remove_file(folder.path().join("id.pub")).unwrap();
        std::fs::write(&path, "what is this").unwrap();
        for (mode, is_exposed) in [(0o644, true), (0o600, false)] {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
            let file = read(&path);
            assert_eq!(matches!(file, KeyFile::Unprotected(None)), is_exposed, "{file:?}");
            assert_eq!(matches!(file, KeyFile::Unusable(_)), !is_exposed, "{file:?}");
        }
        std::fs::write(&path, "-----BEGIN STRANGE PRIVATE KEY-----\n").unwrap();
        assert!(matches!(read(&path), KeyFile::Foreign(None)));
    }
}
