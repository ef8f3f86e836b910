//! Who may ask: the token, and the names of this machine.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Uri;
use hyper::http::uri::Authority;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};

use crate::storage::{self, NewFile, WriteError};

const MODES: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };
/// Characters of a token; fewer could be guessed.
const TOKEN_LENGTH: std::ops::RangeInclusive<usize> = 16..=1024;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Others could read it.
    #[error("{path}: others may read this token; make it yours: chmod 600 {path}", path = .0.display())]
    Shared(PathBuf),
    /// It is not a token.
    #[error(
        "{path}: the first line must be a token of 16 to 1024 characters without spaces; without the file, gtop makes one",
        path = .0.display()
    )]
    Malformed(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The secret of those who may see names, as its hash.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads the token of this file; makes one if there is no file.
    ///
    /// # Errors
    ///
    /// If others may read the file, or what it holds is no token.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let failed = |error| TokenError::Read(path.to_owned(), error);
        let mut random = [0; 32];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|error| failed(error.into()))?;
        storage::create(path, format!("{}\n", URL_SAFE_NO_PAD.encode(random)).as_bytes(), MODES)?;
        let mode = fs::metadata(path).map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Shared(path.to_owned()));
        }
        let content = storage::read(path, 64 << 10).map_err(failed)?.unwrap_or_default();
        let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let token = line.trim_ascii();
        let is_token =
            TOKEN_LENGTH.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
        if is_token { Ok(Self::of(token)) } else { Err(TokenError::Malformed(path.to_owned())) }
    }

    fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Returns true if the value of the header `Authorization` has the token. Takes as long for each wrong one:
    /// hashes are compared, all bytes of them.
    pub(super) fn is_given_by(&self, authorization: &[u8]) -> bool {
        let Some((scheme, given)) = authorization.split_at_checked("Bearer ".len()) else {
            return false;
        };
        let bytes = self.0.iter().zip(Self::of(given.trim_ascii()).0);
        let difference = bytes.fold(0, |difference, (one, other)| difference | (one ^ other));
        scheme.eq_ignore_ascii_case(b"Bearer ") && difference == 0
    }
}

/// The names by which requests may call this machine. A page in a browser has a name of its own, even if it leads here.
#[derive(Debug)]
pub(super) struct HostNames(Vec<String>);

impl HostNames {
    /// Returns the names of this machine, and others.
    pub(super) fn of_this_machine(mut names: Vec<String>) -> Self {
        let system = rustix::system::uname();
        let name = system.nodename().to_string_lossy();
        let short = name.split('.').next().unwrap_or_default();
        names.extend(["localhost".to_owned(), short.to_owned(), name.clone().into_owned()]);
        names.retain(|name| !name.is_empty());
        Self(names)
    }

    /// Returns true if the request names this machine: by the address of its target, or else by the header `Host`. An IP
    /// address is no name that somebody else could have given to this machine.
    pub(super) fn has(&self, target: &Uri, header: Option<&[u8]>) -> bool {
        let header = header.and_then(|value| std::str::from_utf8(value).ok());
        let Some(host) = target.authority().map(Authority::as_str).or(header) else {
            return false;
        };
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || self.0.iter().any(|known| known.eq_ignore_ascii_case(name.trim_end_matches('.')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/serve-token");
        let made = Token::load(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.trim_end().len() == 43, "{text}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::load(&path).unwrap().0, made.0);
        let header = |text: &str| made.is_given_by(text.as_bytes());
        assert!(header(&format!("Bearer {}", text.trim_end())));
        assert!(header(&format!("bearer  {}", text.trim_end())));
        let short = text.trim_end().trim_end_matches(|_| true);
        for wrong in
            ["", "Bearer", "Bearer ", "Basic x", &format!("Bearer {short}x"), text.trim_end()]
        {
            assert!(!header(wrong), "{wrong}");
        }
        for (content, is_token) in [
            ("", false),
            ("short\n", false),
            ("0123456789abcdef", true),
            ("0123456789 bcdefgh", false),
        ] {
            storage::write(&path, content.as_bytes(), MODES).unwrap();
            assert_eq!(Token::load(&path).is_ok(), is_token, "{content:?}");
        }
        let shared = NewFile { mode: 0o644, folder_mode: 0o700 };
        let path = folder.path().join("shared");
        storage::write(&path, b"0123456789abcdef", shared).unwrap();
        assert!(matches!(Token::load(&path), Err(TokenError::Shared(..))));
    }

    #[test]
    fn hosts_are_addresses_and_known_names() {
        let names = HostNames::of_this_machine(vec!["Login.Example".to_owned()]);
        let slash = Uri::from_static("/metrics");
        for (host, is_known) in [
            ("localhost", true),
            ("LOCALHOST:9835", true),
            ("127.0.0.1:1", true),
            ("[::1]:9835", true),
            ("192.0.2.7", true),
            ("login.example:9835", true),
            ("login.example.", true),
            ("login.example.evil", false),
            ("evil.example", false),
            ("localhost.evil", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(names.has(&slash, Some(host.as_bytes())), is_known, "{host}");
        }
        assert!(!names.has(&slash, None));
        assert!(!names.has(&slash, Some(b"\xff")));
        // The address of the target counts, not the header.
        assert!(!names.has(&Uri::from_static("http://evil.example/metrics"), Some(b"localhost")));
    }
}
