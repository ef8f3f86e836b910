//! Parses OpenSSH's `known_hosts` files, and finds the entries of a host.
//!
//! Names may be plain, patterns, negated or hashed. An invalid line is skipped, as in OpenSSH; a file that is too
//! large is refused, because part of it could miss a `@revoked` line. A file is indexed once: plain names are
//! looked up, patterns are tried one by one, hashed names need one hash per line.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{HashAlg, PublicKey};
use sha1::Sha1;

use crate::config::lexer;
use crate::file_cache;
use gtop_local::fault::Origin;
use gtop_local::fault::ssh::Fault;

/// Prefix of a hashed name.
const HASH_PREFIX: &str = "|1|";

/// Length of the salt and of the hash of a name, in bytes.
const HASH_LENGTH: usize = 20;

/// The marker of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// None: a host key.
    Host,
    /// `@cert-authority`: signs certificates of the host.
    Authority,
    /// `@revoked`: must never be accepted.
    Revoked,
}

/// An entry of the host that was looked up.
#[derive(Debug, Clone)]
pub(crate) struct HostEntry {
    pub(crate) at: Origin,
    pub(crate) marker: Marker,
    pub(crate) key: KeyData,
}

impl HostEntry {
    /// Returns true if the entry has this marker and key.
    pub(crate) fn lists(&self, marker: Marker, key: &KeyData) -> bool {
        self.marker == marker && self.key == *key
    }
}

/// One `known_hosts` file.
#[derive(Debug, Default)]
pub(crate) struct KnownHosts {
    lines: Vec<RawLine>,
    by_name: BTreeMap<Box<str>, Vec<usize>>,
    /// Name lists with at least one pattern or negation.
    patterns: Vec<(Box<str>, usize)>,
    hashes: Vec<(HashedName, usize)>,
}

/// A line; its key is decoded only when its host is looked up.
#[derive(Debug)]
struct RawLine {
    at: Origin,
    marker: Marker,
    key: Box<str>,
}

#[derive(Debug)]
struct HashedName {
    /// The HMAC, already keyed with the salt.
    salted: Hmac<Sha1>,
    hash: [u8; HASH_LENGTH],
}

impl KnownHosts {
    /// Reads a file; a missing or unreadable file has no entries.
    pub(crate) fn read(path: &Path) -> Result<Arc<Self>, Fault> {
        let text = match file_cache::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                let why = format!("{}: {error}", path.display());
                return Err(Fault::BadConfiguration { why });
            }
            text => text.unwrap_or_default(),
        };
        Ok(Arc::new(Self::parse(path, &text)))
    }

    /// Parses a file; skips invalid lines.
    pub(crate) fn parse(path: &Path, text: &str) -> Self {
        let (mut entries, file) = (Self::default(), Arc::from(path));
        for (number, line) in (1..).zip(text.lines()) {
            // `None` is a comment or an invalid line.
            let at = Origin { file: Arc::clone(&file), line: number };
            let _: Option<()> = entries.add_line(at, line);
        }
        entries
    }

    fn add_line(&mut self, at: Origin, line: &str) -> Option<()> {
        let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
        let mut names = words.next()?;
        if names.starts_with('#') {
            return None;
        }
        let mut marker = Marker::Host;
        if names.starts_with('@') {
            marker = match names {
                "@revoked" => Marker::Revoked,
                "@cert-authority" if !openssh_misses_marker(line) => Marker::Authority,
                // An unknown marker: skipped.
                _ => return None,
            };
            names = words.next()?;
        }
        let (kind, key) = (words.next()?, words.next()?);
        let index = self.lines.len();
        if names.starts_with('|') {
            self.hashes.push((HashedName::parse(names)?, index));
        } else if names.contains(['*', '?', '!']) {
            self.patterns.push((names.into(), index));
        } else {
            for name in names.split(',') {
                self.by_name.entry(name.to_ascii_lowercase().into()).or_default().push(index);
            }
        }
        let key = format!("{kind} {key}").into_boxed_str();
        self.lines.push(RawLine { at, marker, key });
        Some(())
    }

    /// Returns the entries of a host, in file order. `name` is lower case.
    pub(crate) fn lookup(&self, name: &str) -> Vec<HostEntry> {
        let mut found = self.by_name.get(name).cloned().unwrap_or_default();
        let patterns = self.patterns.iter();
        let patterns = patterns.filter(|(names, _)| lexer::is_listed_ignoring_case(name, names));
        found.extend(patterns.map(|(_, index)| *index));
        let hashes = self.hashes.iter().filter(|(hashed, _)| hashed.matches(name));
        found.extend(hashes.map(|(_, index)| *index));
        found.sort_unstable();
        // A line may list the host twice.
        found.dedup();
        let lines = found.into_iter().filter_map(|index| self.lines.get(index));
        let entries = lines.filter_map(|RawLine { at, marker, key }| {
            let key = PublicKey::from_openssh(key).ok()?.into();
            Some(HostEntry { at: at.clone(), marker: *marker, key })
        });
        entries.collect()
    }
}

/// Returns true if OpenSSH does not recognise the marker: it looks for a space after it, and for a tab only if
/// the whole line has no space.
fn openssh_misses_marker(line: &str) -> bool {
    let rest = line.trim_start_matches([' ', '\t']);
    rest.find('\t').is_some_and(|tab| rest.find(' ').is_some_and(|blank| tab < blank))
}

impl HashedName {
    fn parse(text: &str) -> Option<Self> {
        let (salt, hash) = text.strip_prefix(HASH_PREFIX)?.split_once('|')?;
        let [salt, hash] = [salt, hash].map(|text| STANDARD.decode(text).ok()?.try_into().ok());
        Some(Self { salted: salted(salt?)?, hash: hash? })
    }

    fn matches(&self, name: &str) -> bool {
        hash_name(self.salted.clone(), name) == self.hash
    }
}

/// Returns the hashed form of a name (`HashKnownHosts`).
pub(crate) fn hash_host(salt: [u8; HASH_LENGTH], name: &str) -> Option<String> {
    let hash = hash_name(salted(salt)?, name);
    Some(format!("{HASH_PREFIX}{}|{}", STANDARD.encode(salt), STANDARD.encode(hash)))
}

fn salted(salt: [u8; HASH_LENGTH]) -> Option<Hmac<Sha1>> {
    Hmac::new_from_slice(&salt).ok()
}

fn hash_name(mut salted: Hmac<Sha1>, name: &str) -> [u8; HASH_LENGTH] {
    salted.update(name.as_bytes());
    salted.finalize().into_bytes().into()
}

/// Returns the fingerprint as `ssh-keygen -l` prints it.
pub(crate) fn fingerprint(key: &KeyData) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";

    /// Returns the numbers of the lines about `name`.
    fn lines(text: &str, name: &str) -> Vec<u32> {
        let file = KnownHosts::parse(Path::new("/k"), &text.replace("<A>", KEY));
        file.lookup(name).iter().map(|entry| entry.at.line).collect()
    }

    #[test]
    fn entries_are_found_by_name_pattern_and_hash_in_file_order() {
        let hashed = hash_host([7; HASH_LENGTH], "n1").unwrap();
        let text =
            format!("n* <A>\nx,N1,n1 <A>\n{hashed} <A>\nn2 <A>\n*,!n1 <A>\n# n1 <A>\nn1 <A>");
        assert_eq!(lines(&text, "n1"), [1, 2, 3, 7]);
        assert_eq!(lines(&text, "n2"), [1, 4, 5]);
        assert_eq!(lines(&text, "x"), [2, 5]);
    }

    #[test]
    fn hashed_names_equal_those_of_ssh_keygen() {
        // Written by ssh-keygen -H.
        let line = "|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|USECr3SWf1JUPsms5AqfD5QfxkM= <A>";
        assert_eq!(hash_host(*b"12345678901234567890", "n1").unwrap().len(), "|1||".len() + 56);
        assert_eq!(lines(line, "closenet"), [1]);
        assert!(lines(line, "opennet").is_empty());
        for invalid in ["|1|bad|bad <A>", "|1|bad <A>", "|2|a|b <A>", "|1|AAAA|AAAA <A>"] {
            assert!(lines(invalid, "n1").is_empty(), "{invalid}");
        }
    }

    #[test]
    fn a_marker_before_a_tab_never_weakens_the_check() {
        let markers = |line: &str| {
            let file = KnownHosts::parse(Path::new("/k"), &line.replace("<A>", KEY));
            file.lookup("n1").iter().map(|entry| entry.marker).collect::<Vec<_>>()
        };
        assert_eq!(markers("@revoked\tn1 <A>"), [Marker::Revoked]);
        assert_eq!(markers("@cert-authority\tn1 <A>"), []);
        assert_eq!(markers("@cert-authority n1\t<A>"), [Marker::Authority]);
        assert_eq!(
            markers(&format!("@cert-authority\tn1\t{}", KEY.replace(' ', "\t"))),
            [Marker::Authority]
        );
        assert_eq!(markers("@strange n1 <A>"), []);
        assert_eq!(markers("@revoked @revoked n1 <A>"), []);
    }

    #[test]
    fn any_text_is_parsed_without_a_panic() {
        for text in
            ["", "\n\n", "@", "@revoked", "n1", "n1 x", ",,, <A>", "| <A>", "! <A>", "\0 \0 \0"]
        {
            lines(text, "n1");
            lines(text, "");
        }
        assert!(lines("n1,,n2 <A>", "n2") == [1]);
    }

    #[test]
    fn a_file_that_is_too_large_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_hosts");
        assert!(KnownHosts::read(&path).unwrap().lookup("n1").is_empty(), "there is none");
        // The file is sparse, so it needs no space.
        std::fs::write(&path, format!("@revoked n1 {KEY}\n")).unwrap();
        assert_eq!(KnownHosts::read(&path).unwrap().lookup("n1").len(), 1);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(64 * 1024 * 1024 + 1).unwrap();
        let fault = KnownHosts::read(&path).unwrap_err().to_string();
        assert!(fault.contains("known_hosts") && fault.contains("larger than 64 MiB"), "{fault}");
    }
}
