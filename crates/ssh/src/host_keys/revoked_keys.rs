//! The file of `RevokedHostKeys`.
//!
//! It is a list of public keys, one per line, or a binary key revocation list (`ssh-keygen -k`, OpenSSH's
//! `PROTOCOL.krl`). If the list is missing or invalid, every key is refused, as in OpenSSH.

mod krl;

use std::path::Path;
use std::sync::Arc;

use hmac::digest::Digest;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Certificate, HashAlg, PublicKey};
use sha1::Sha1;

use crate::file_cache;
use crate::host_keys::revoked_keys::krl::Krl;
use gtop_local::fault::ssh::Fault;
use gtop_local::text;

/// A revocation list.
#[derive(Debug)]
pub(crate) enum RevokedKeys {
    Keys(Vec<KeyData>),
    Krl(Box<Krl>),
}

/// A key in the forms in which a list may contain it.
pub(crate) struct KeyDigests {
    blob: Vec<u8>,
    sha1: [u8; 20],
    sha256: [u8; 32],
}

impl KeyDigests {
    /// `None` for a key that cannot be encoded, which no list can contain.
    fn new(key: &KeyData) -> Option<Self> {
        let blob = PublicKey::new(key.clone(), "").to_bytes().ok()?;
        let sha1 = Sha1::digest(&blob).into();
        let sha256 = key.fingerprint(HashAlg::Sha256).sha256()?;
        Some(Self { blob, sha1, sha256 })
    }
}

impl RevokedKeys {
    /// Reads a list, or returns why every key must be refused.
    pub(crate) fn read(path: &Path) -> Result<Arc<Self>, Fault> {
        // The usual way to switch an option off.
        if path == Path::new("/dev/null") {
            return Ok(Arc::new(Self::Keys(Vec::new())));
        }
        let bytes = file_cache::read_bytes(path).map_err(|error| text::io_error(&error));
        let list = bytes.and_then(|bytes| Self::parse(&bytes));
        list.map(Arc::new).map_err(|why| {
            let file = path.display();
            let why = format!(
                "RevokedHostKeys {file} cannot be used ({why}), so every host key is refused"
            );
            Fault::BadConfiguration { why }
        })
    }

    /// Parses a list.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if let Some(krl) = Krl::parse(bytes) {
            return krl.map(|krl| Self::Krl(Box::new(krl))).map_err(str::to_owned);
        }
        let text = String::from_utf8_lossy(bytes);
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
            let (Some(kind), key) = (words.next(), words.next()) else { continue };
            if kind.starts_with('#') {
                continue;
            }
            let key = PublicKey::from_openssh(&format!("{kind} {}", key.unwrap_or_default()));
            let key = key.map_err(|_unreadable| format!("line {} is not a key", index + 1))?;
            keys.push(key.into());
        }
        Ok(Self::Keys(keys))
    }

    /// Returns true if a key is revoked.
    pub(crate) fn has_key(&self, key: &KeyData) -> bool {
        match self {
            Self::Keys(keys) => keys.contains(key),
            Self::Krl(krl) => KeyDigests::new(key).is_none_or(|digests| krl.has_key(&digests)),
        }
    }

    /// Returns true if a certificate, its key or its signer is revoked.
    pub(crate) fn has_certificate(&self, certificate: &Certificate) -> bool {
        self.has_key(certificate.public_key())
            || self.has_key(certificate.signature_key())
            || matches!(self, Self::Krl(krl) if krl.has_certificate(certificate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const B: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN+Wjn4+4Fcvl2JlKpggT+wCRxpSvtqqpVrQrKN1/A22";

    #[test]
    fn a_list_of_public_keys_revokes_those_keys() {
        let key = |text: &str| PublicKey::from_openssh(text).unwrap().key_data().clone();
        let list = RevokedKeys::parse(format!("# stolen\n\n  {A} of n1\r\n").as_bytes()).unwrap();
        assert!(list.has_key(&key(A)) && !list.has_key(&key(B)));
    }

    #[test]
    fn an_invalid_or_unreadable_list_is_an_error() {
        for text in
            ["nonsense", "ssh-ed25519", "ssh-ed25519 AAAA", "n1 ssh-ed25519 AAAA", "SSHKRL\n\0"]
        {
            assert!(RevokedKeys::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(RevokedKeys::read(&folder.path().join("none")).is_err());
        assert!(RevokedKeys::read(folder.path()).is_err());
        assert!(RevokedKeys::read(Path::new("/dev/null")).is_ok());
    }
}
