//! What OpenSSH's `known_hosts` files say about the key a node shows.
//!
//! The rules are OpenSSH's: names may be plain, patterns, negated or hashed,
//! `@revoked` wins over everything, and a host known by another key only has
//! changed. `@cert-authority` lines are not used yet; they can only make a key
//! unknown, never known.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use russh::keys::ssh_key::known_hosts::HostPatterns;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

/// What the files say about one key of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The key is the host's.
    Known,
    /// The host is in no file.
    Unknown,
    /// The host is known, by other keys only.
    Changed {
        /// The file with the other key.
        file: PathBuf,
        /// Its line, counted from 1.
        line: usize,
        /// The fingerprint of the key in the file.
        fingerprint: String,
    },
    /// The key is marked as stolen.
    Revoked {
        /// The file that says so.
        file: PathBuf,
        /// Its line, counted from 1.
        line: usize,
    },
}

/// One parsed `known_hosts` file.
#[derive(Debug, Default)]
pub(super) struct KnownHosts {
    path: PathBuf,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    number: usize,
    revoked: bool,
    names: HostPatterns,
    key: KeyData,
}

impl KnownHosts {
    /// Reads every line that can be read; the others are skipped, as OpenSSH does.
    pub(super) fn parse(path: &Path, text: &str) -> Self {
        let lines = text.lines().enumerate().filter_map(|(at, line)| Line::parse(at + 1, line));
        Self { path: path.to_owned(), lines: lines.collect() }
    }
}

impl Line {
    fn parse(number: usize, line: &str) -> Option<Self> {
        let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
        let mut names = words.next()?;
        let mut revoked = false;
        if names.starts_with('@') {
            match names {
                "@revoked" => revoked = true,
                // An authority's key is not a host's key, and an unknown marker could mean anything.
                _ => return None,
            }
            names = words.next()?;
        }
        if names.starts_with('#') {
            return None;
        }
        let (kind, key) = (words.next()?, words.next()?);
        let key = PublicKey::from_openssh(&format!("{kind} {key}")).ok()?;
        Some(Self { number, revoked, names: names.parse().ok()?, key: key.key_data().clone() })
    }

    fn is_about(&self, name: &str) -> bool {
        match &self.names {
            HostPatterns::HashedName { salt, hash } => hash_name(salt, name) == Some(*hash),
            HostPatterns::Patterns(patterns) => {
                let mut found = false;
                for pattern in patterns {
                    if let Some(pattern) = pattern.strip_prefix('!') {
                        if is_match(pattern, name) {
                            return false;
                        }
                    } else {
                        found = found || is_match(pattern, name);
                    }
                }
                found
            }
        }
    }
}

/// The name a host goes by in `known_hosts` files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName {
    /// `host`, `[host]:port` when the port is not 22, or the alias.
    pub(super) full: String,
    /// The host alone, to be tried when `full` is in no file.
    portless: Option<String>,
}

impl HostName {
    /// Returns the name of `host` at `port`; an alias stands for itself at every port.
    pub(super) fn new(host: &str, port: u16, alias: Option<&str>) -> Self {
        let host = host.to_ascii_lowercase();
        match (alias, port) {
            (Some(alias), _) => Self { full: alias.to_ascii_lowercase(), portless: None },
            (None, 22) => Self { full: host, portless: None },
            (None, port) => Self { full: format!("[{host}]:{port}"), portless: Some(host) },
        }
    }
}

/// Everything the files say about one host.
#[derive(Debug, Clone)]
pub(super) struct HostKeys {
    /// The name they were looked up by.
    pub(super) name: HostName,
    full: Vec<Entry>,
    portless: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    file: PathBuf,
    line: usize,
    revoked: bool,
    key: KeyData,
}

impl HostKeys {
    /// Collects the lines about a host from all files, the user's first.
    pub(super) fn gather(files: &[Arc<KnownHosts>], name: HostName) -> Self {
        let full = lines_about(files, &name.full);
        let portless =
            name.portless.as_deref().map(|host| lines_about(files, host)).unwrap_or_default();
        Self { name, full, portless }
    }

    /// Judges a key the host has just proved to hold.
    pub(super) fn judge(&self, key: &KeyData) -> Verdict {
        let verdict = judge(&self.full, key);
        if verdict != Verdict::Unknown {
            return verdict;
        }
        // Another server on another port of the same host may well have another key.
        let portless = judge(&self.portless, key);
        if matches!(portless, Verdict::Changed { .. }) { Verdict::Unknown } else { portless }
    }

    /// Returns the kinds of keys the host is known by, so that they are asked for first.
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        let entries = if self.full.is_empty() { &self.portless } else { &self.full };
        let keys = entries.iter().filter(|entry| !entry.revoked);
        keys.map(|entry| entry.key.algorithm()).collect()
    }
}

fn lines_about(files: &[Arc<KnownHosts>], name: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    for file in files {
        for line in file.lines.iter().filter(|line| line.is_about(name)) {
            found.push(Entry {
                file: file.path.clone(),
                line: line.number,
                revoked: line.revoked,
                key: line.key.clone(),
            });
        }
    }
    found
}

fn judge(entries: &[Entry], key: &KeyData) -> Verdict {
    if let Some(entry) = entries.iter().find(|entry| entry.revoked && entry.key == *key) {
        return Verdict::Revoked { file: entry.file.clone(), line: entry.line };
    }
    let mut valid = entries.iter().filter(|entry| !entry.revoked).peekable();
    let Some(first) = valid.peek().copied() else { return Verdict::Unknown };
    if valid.any(|entry| entry.key == *key) {
        return Verdict::Known;
    }
    Verdict::Changed {
        file: first.file.clone(),
        line: first.line,
        fingerprint: fingerprint(&first.key),
    }
}

/// Returns the fingerprint as `ssh-keygen -l` prints it.
pub(super) fn fingerprint(key: &KeyData) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// Returns the hash OpenSSH writes in place of a name.
pub(super) fn hash_name(salt: &[u8], name: &str) -> Option<[u8; 20]> {
    let mut mac = Hmac::<Sha1>::new_from_slice(salt).ok()?;
    mac.update(name.as_bytes());
    Some(mac.finalize().into_bytes().into())
}

/// Matches a pattern with `*` and `?` against a lower-case name.
fn is_match(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.as_bytes(), name.as_bytes());
    // Where to go on when the text after the last star turns out not to fit.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), name.split_first()) {
            (Some((b'*', after)), _) => {
                star = Some((after, name));
                pattern = after;
            }
            (Some((want, after)), Some((have, rest)))
                if *want == b'?' || want.to_ascii_lowercase() == *have =>
            {
                (pattern, name) = (after, rest);
            }
            (None, None) => return true,
            _ => match star {
                Some((after, [_, rest @ ..])) => {
                    star = Some((after, rest));
                    (pattern, name) = (after, rest);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const B: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN+Wjn4+4Fcvl2JlKpggT+wCRxpSvtqqpVrQrKN1/A22";
    const E: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";

    fn key(text: &str) -> KeyData {
        PublicKey::from_openssh(text).unwrap().key_data().clone()
    }

    fn word(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Known => "known",
            Verdict::Unknown => "unknown",
            Verdict::Changed { .. } => "changed",
            Verdict::Revoked { .. } => "revoked",
        }
    }

    /// Judges key A for `host` at `port`, as OpenSSH would with these lines.
    fn ask(text: &str, host: &str, port: u16, alias: Option<&str>) -> Verdict {
        let text = text.replace("<A>", A).replace("<B>", B).replace("<E>", E);
        let file = Arc::new(KnownHosts::parse(Path::new("/k"), &text));
        HostKeys::gather(&[file], HostName::new(host, port, alias)).judge(&key(A))
    }

    #[test]
    fn the_files_mean_what_they_mean_to_openssh() {
        let cases: &[(&str, &str, u16, &str)] = &[
            ("n1 <A>", "n1", 22, "known"),
            ("n1 <A> a comment # with a hash", "n1", 22, "known"),
            ("n1 <B>", "n1", 22, "changed"),
            ("n2 <A>", "n1", 22, "unknown"),
            ("", "n1", 22, "unknown"),
            ("# n1 <A>", "n1", 22, "unknown"),
            ("#n1 <A>", "n1", 22, "unknown"),
            ("n1,10.0.0.1 <A>", "10.0.0.1", 22, "known"),
            ("N1 <A>", "n1", 22, "known"),
            ("n1 <A>", "N1", 22, "known"),
            ("n1\t<A>", "n1", 22, "known"),
            ("  n1   <A>", "n1", 22, "known"),
            ("n1 <B>\nn1 <A>", "n1", 22, "known"),
            ("n1 <A>\nn1 <B>", "n1", 22, "known"),
            // OpenSSH calls a host changed when it is known by keys of other kinds only.
            ("n1 <E>", "n1", 22, "changed"),
            ("n1 <E>\nn1 <A>", "n1", 22, "known"),
            ("*.x <A>", "a.x", 22, "known"),
            ("n? <A>", "n1", 22, "known"),
            ("n? <A>", "n12", 22, "unknown"),
            ("*a*b* <A>", "xaaxbx", 22, "known"),
            ("n*,!n1 <A>", "n1", 22, "unknown"),
            ("n*,!n1 <A>", "n2", 22, "known"),
            ("!n1,n* <A>", "n1", 22, "unknown"),
            ("!n1 <A>", "n2", 22, "unknown"),
            ("@revoked * <A>\nn1 <A>", "n1", 22, "revoked"),
            ("n1 <A>\n@revoked n1 <A>", "n1", 22, "revoked"),
            ("@revoked\tn1\t<A>", "n1", 22, "revoked"),
            ("@revoked n2 <A>\nn1 <A>", "n1", 22, "known"),
            ("@revoked n1 <B>\nn1 <A>", "n1", 22, "known"),
            ("@revoked n1 <B>", "n1", 22, "unknown"),
            ("@cert-authority * <A>", "n1", 22, "unknown"),
            ("@cert-authority * <B>\nn1 <A>", "n1", 22, "known"),
            ("@strange n1 <A>", "n1", 22, "unknown"),
            ("[n1]:2222 <A>", "n1", 2222, "known"),
            ("[n1]:2222 <B>", "n1", 2222, "changed"),
            ("[n1]:2222 <A>", "n1", 22, "unknown"),
            ("[*]:2222 <A>", "n1", 2222, "known"),
            ("n1 <A>", "n1", 2222, "known"),
            ("n1 <B>", "n1", 2222, "unknown"),
            ("@revoked n1 <A>", "n1", 2222, "revoked"),
            ("n1 ssh-ed25519 broken\nn1 <A>", "n1", 22, "known"),
            ("n1 1024 35 1234567\nn1 <A>", "n1", 22, "known"),
            ("n1\nn1 ssh-ed25519\nn1 <A>", "n1", 22, "known"),
            ("fe80::1 <A>", "fe80::1", 22, "known"),
        ];
        for (text, host, port, want) in cases {
            let verdict = ask(text, host, *port, None);
            assert_eq!(word(&verdict), *want, "{host}:{port} with {text:?}");
        }
    }

    #[test]
    fn an_alias_replaces_the_name_at_every_port() {
        assert_eq!(ask("cluster <A>", "n1", 2222, Some("Cluster")), Verdict::Known);
        assert_eq!(ask("n1 <A>", "n1", 22, Some("cluster")), Verdict::Unknown);
    }

    #[test]
    fn a_hashed_name_is_found() {
        // Written by ssh-keygen -H for the name closenet.
        let hash = hash_name(b"12345678901234567890", "closenet").unwrap();
        let names = HostPatterns::HashedName { salt: b"12345678901234567890".to_vec(), hash };
        let line = format!("{} <A>", names.to_string());
        assert_eq!(ask(&line, "closenet", 22, None), Verdict::Known);
        assert_eq!(ask(&line, "opennet", 22, None), Verdict::Unknown);
        assert_eq!(ask("|1|bad|bad <A>", "closenet", 22, None), Verdict::Unknown);
    }

    #[test]
    fn a_change_names_the_file_and_the_line() {
        let Verdict::Changed { file, line, fingerprint } = ask("\n# x\nn1 <B>", "n1", 22, None)
        else {
            panic!("not changed");
        };
        assert_eq!((file, line), (PathBuf::from("/k"), 3));
        assert!(fingerprint.starts_with("SHA256:"), "{fingerprint}");
    }

    #[test]
    fn keys_of_several_files_count_together() {
        let user = Arc::new(KnownHosts::parse(Path::new("/u"), &format!("n1 {B}")));
        let global = Arc::new(KnownHosts::parse(Path::new("/g"), &format!("n1 {A}")));
        let keys = HostKeys::gather(&[user, global], HostName::new("n1", 22, None));
        assert_eq!(keys.judge(&key(A)), Verdict::Known);
        assert_eq!(keys.judge(&key(B)), Verdict::Known);
    }

    #[test]
    fn known_kinds_are_listed_without_the_revoked() {
        let file =
            Arc::new(KnownHosts::parse(Path::new("/k"), &format!("n1 {E}\n@revoked n1 {A}")));
        let keys = HostKeys::gather(&[file], HostName::new("n1", 22, None));
        assert_eq!(keys.algorithms(), [key(E).algorithm()]);
    }
}
