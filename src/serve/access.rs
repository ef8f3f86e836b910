//! Who may ask: the token, and the names of this machine.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};

use gtop_local::storage::{self, NewFile, WriteError};

const MODES: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };
/// Characters of a token; fewer could be guessed.
const TOKEN_LENGTH: std::ops::RangeInclusive<usize> = 16..=1024;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Others could read it.
    #[error("{path}: others may read this token; make it yours: chmod 600 {path}", path = .0.display())]
    Shared(PathBuf),
    /// Its owner knows it.
    #[error("{path}: this file belongs to another user, who knows the token; name a file of your own", path = .0.display())]
    Foreign(PathBuf),
    /// It is not a token.
    #[error(
        "{path}: the first line must be a token of 16 to 1024 characters without spaces; without the file, gtop makes one",
        path = .0.display()
    )]
    Malformed(PathBuf),
    /// The file cannot be read.
    #[error("cannot read the token in {path}: {1}; without --token-file, gtop makes one", path = .0.display())]
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
    /// Makes a token in this file, if there is no file, and reads it.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, and as [`Self::load`].
    pub fn load_or_make(path: &Path) -> Result<Self, TokenError> {
        let mut random = [0; 32];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|error| TokenError::Read(path.to_owned(), error.into()))?;
        storage::create(path, format!("{}\n", URL_SAFE_NO_PAD.encode(random)).as_bytes(), MODES)?;
        Self::load(path)
    }

    /// Reads the token of this file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, if others know it, or if what it holds is no token.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let failed = |error| TokenError::Read(path.to_owned(), error);
        // Opening a pipe would block until there is a writer.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("not a regular file")));
        }
        // What is checked is what is read, even if the file is exchanged meanwhile.
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.uid() != geteuid().as_raw() {
            return Err(TokenError::Foreign(path.to_owned()));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(TokenError::Shared(path.to_owned()));
        }
        let content = storage::read_bounded(file, 64 << 10).map_err(failed)?.unwrap_or_default();
        let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let token = line.trim_ascii();
        let is_token =
            TOKEN_LENGTH.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
        if is_token { Ok(Self::of(token)) } else { Err(TokenError::Malformed(path.to_owned())) }
    }

    pub(super) fn of(text: &[u8]) -> Self {
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
pub(super) struct OwnNames(Vec<String>);

impl OwnNames {
    /// Returns the names of this machine, and others.
    pub(super) fn of_this_machine(mut names: Vec<String>) -> Self {
        let system = rustix::system::uname();
        let name = system.nodename().to_string_lossy();
        let short = name.split('.').next().unwrap_or_default();
        names.extend(["localhost".to_owned(), short.to_owned(), name.clone().into_owned()]);
        names.retain(|name| !name.is_empty());
        Self(names)
    }

    /// Returns true if this is the name of the machine or an IP address, perhaps with a port. An address is no name that
    /// somebody else could have given to this machine.
    pub(super) fn has(&self, host: &str) -> bool {
        if let Some((address, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            return address.parse::<Ipv6Addr>().is_ok() && (rest.is_empty() || is_port(rest));
        }
        let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
        let bare = name.strip_suffix('.').unwrap_or(name);
        (port.is_empty() || is_port(port))
            && (name.parse::<Ipv4Addr>().is_ok()
                || self.0.iter().any(|known| known.eq_ignore_ascii_case(bare)))
    }
}

/// Returns true for `:9835`.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_token_counts() {
        let header = b"Bearer right";
        assert!(Token::of(b"right").is_given_by(header));
        for position in 0..32 {
            for bit in 0..8 {
                let mut other = Token::of(b"right");
                other.0[position] ^= 1 << bit;
                assert!(!other.is_given_by(header), "byte {position}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_token_is_made_once_and_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/serve-token");
        assert!(Token::load(&path).is_err());
        let made = Token::load_or_make(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.trim_end().len() == 43, "{text}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::load_or_make(&path).unwrap().0, made.0);
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
        let names = OwnNames::of_this_machine(vec!["Login.Example".to_owned()]);
        for (host, is_known) in [
            ("localhost", true),
            ("LOCALHOST:9835", true),
            ("127.0.0.1:1", true),
            ("[::1]:9835", true),
            ("[::1]", true),
            ("192.0.2.7", true),
            ("login.example:9835", true),
            ("login.example.", true),
            ("login.example.evil", false),
            ("evil.example", false),
            ("localhost.evil", false),
            ("localhost:evil.example", false),
            ("[::1].evil.example", false),
            ("[::1]:9835.evil.example", false),
            ("[evil.example]", false),
            ("127.0.0.1:", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(names.has(host), is_known, "{host}");
        }
    }
}
