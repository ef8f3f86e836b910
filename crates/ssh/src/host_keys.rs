//! The `known_hosts` entries of one host, and the status of its key.
//!
//! The rules are those of OpenSSH's `check_host_key`: `@revoked` overrides everything, a certificate is accepted
//! if a `@cert-authority` line of the host names its signer, and a host with other keys only has changed. A host at
//! a port other than 22 is looked up without its port only if the full name has no entry.

pub(crate) mod algorithms;
pub(crate) mod certificate;
pub(crate) mod known_hosts;
pub(crate) mod revoked_keys;
pub(crate) mod verifier;
pub(crate) mod writer;

use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate};

use crate::config::KnownHostName;
use crate::host_keys::certificate::is_same_algorithm;
use crate::host_keys::known_hosts::{HostEntry, KnownHosts, Marker};
use gtop_local::fault::Origin;
use gtop_local::fault::ssh::{Fault, HostKeyChange};

/// What the `known_hosts` files say about a key of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeyStatus {
    /// The key is listed for the host.
    Known,
    /// The key has a certificate of an authority trusted for the host.
    Certified {
        /// The line that names the authority.
        at: Origin,
    },
    /// The files are not checked, because of `NoHostAuthenticationForLocalhost`.
    Exempt,
    /// The host has no entry.
    Unknown,
    /// The host has entries, all with other keys.
    Changed {
        /// The line with the other key.
        at: Origin,
        /// The algorithm and fingerprint of the key in the file.
        known: String,
    },
    /// The key, or the authority that signed it, is marked `@revoked`.
    Revoked {
        /// The line that revokes it, or the list as a whole.
        at: Origin,
    },
}

/// The entries of one host.
#[derive(Debug, Clone)]
pub(crate) struct HostKeyEntries {
    full: Vec<HostEntry>,
    portless: Vec<HostEntry>,
}

impl HostKeyEntries {
    /// Collects the entries of a host from all files, the user's first.
    pub(crate) fn collect_for(files: &[Arc<KnownHosts>], name: &KnownHostName) -> Self {
        let portless = name.portless.as_ref().map(|name| lookup(files, name));
        Self { full: lookup(files, &name.full), portless: portless.unwrap_or_default() }
    }

    /// Returns the status of a key that the host has proved to hold.
    pub(crate) fn check(&self, key: &KeyData) -> HostKeyStatus {
        let status = key_status(&self.full, key);
        if status != HostKeyStatus::Unknown {
            return status;
        }
        // A server on another port of the same host may have another key.
        let portless = key_status(&self.portless, key);
        if matches!(portless, HostKeyStatus::Changed { .. }) {
            HostKeyStatus::Unknown
        } else {
            portless
        }
    }

    /// Returns the line that lists a key.
    pub(crate) fn find_line(&self, key: &KeyData) -> Option<Origin> {
        let mut entries = self.full.iter().chain(&self.portless);
        entries.find(|entry| entry.lists(Marker::Host, key)).map(|entry| entry.at.clone())
    }

    /// Returns what the files say about the signer of a certificate, by the name with the port and by the name without:
    /// `Certified` if it is trusted for the host, `Revoked` also if the signed key is, else `Unknown`.
    pub(crate) fn check_authorities(&self, certificate: &Certificate) -> [HostKeyStatus; 2] {
        [authority_status(&self.full, certificate), authority_status(&self.portless, certificate)]
    }

    /// Returns true if the host has a plain key of this algorithm.
    pub(crate) fn has_algorithm(&self, algorithm: &Algorithm) -> bool {
        let mut plain = self.full.iter().filter(|entry| entry.marker == Marker::Host);
        let first = plain.find(|entry| is_same_algorithm(&entry.key, algorithm));
        first.is_some_and(|entry| revocation(&self.full, &entry.key).is_none())
    }

    /// Returns true if the host has a `@cert-authority` line.
    pub(crate) fn has_authority(&self) -> bool {
        self.full.iter().any(|entry| entry.marker == Marker::Authority)
    }
}

fn lookup(files: &[Arc<KnownHosts>], name: &str) -> Vec<HostEntry> {
    files.iter().flat_map(|file| file.lookup(name)).collect()
}

fn revocation<'a>(entries: &'a [HostEntry], key: &KeyData) -> Option<&'a HostEntry> {
    entries.iter().find(|entry| entry.lists(Marker::Revoked, key))
}

fn key_status(entries: &[HostEntry], key: &KeyData) -> HostKeyStatus {
    if let Some(entry) = revocation(entries, key) {
        return HostKeyStatus::Revoked { at: entry.at.clone() };
    }
    let mut valid = entries.iter().filter(|entry| entry.marker == Marker::Host).peekable();
    let Some(first) = valid.peek().copied() else { return HostKeyStatus::Unknown };
    if valid.any(|entry| entry.key == *key) {
        return HostKeyStatus::Known;
    }
    HostKeyStatus::Changed {
        at: first.at.clone(),
        known: format!("{} {}", first.key.algorithm(), known_hosts::fingerprint(&first.key)),
    }
}

fn authority_status(entries: &[HostEntry], certificate: &Certificate) -> HostKeyStatus {
    let signer = certificate.signature_key();
    let revoked = revocation(entries, certificate.public_key());
    if let Some(HostEntry { at, .. }) = revoked.or_else(|| revocation(entries, signer)) {
        return HostKeyStatus::Revoked { at: at.clone() };
    }
    match entries.iter().find(|entry| entry.lists(Marker::Authority, signer)) {
        Some(entry) => HostKeyStatus::Certified { at: entry.at.clone() },
        None => HostKeyStatus::Unknown,
    }
}

/// The result for one key.
#[derive(Debug, Clone)]
pub(crate) struct Verification {
    pub(crate) key: KeyData,
    pub(crate) status: HostKeyStatus,
    /// Why the key's certificate was ignored.
    pub(crate) certificate_problem: Option<String>,
}

impl Verification {
    /// Returns the algorithm and the fingerprint of the key, as `ssh-keygen -l` prints it.
    pub(crate) fn key_text(&self) -> (String, String) {
        (self.key.algorithm().to_string(), known_hosts::fingerprint(&self.key))
    }

    /// Returns why the key is not trusted, or `None` if it is.
    pub(crate) fn fault(&self, host: &str) -> Option<Fault> {
        let host = host.to_owned();
        let (algorithm, fingerprint) = self.key_text();
        Some(match &self.status {
            HostKeyStatus::Known | HostKeyStatus::Certified { .. } | HostKeyStatus::Exempt => {
                return None;
            }
            HostKeyStatus::Unknown => match &self.certificate_problem {
                None => Fault::HostKeyUnknown { host, algorithm, fingerprint },
                Some(why) => {
                    let why = why.clone();
                    Fault::HostCertificateRefused { host, why, algorithm, fingerprint }
                }
            },
            HostKeyStatus::Changed { at, known } => {
                let (at, known) = (at.clone(), known.clone());
                let change = HostKeyChange { host, at, known, algorithm, fingerprint };
                Fault::HostKeyChanged(Box::new(change))
            }
            HostKeyStatus::Revoked { at } => {
                Fault::HostKeyRevoked { host, algorithm, fingerprint, at: at.clone() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use russh::keys::PublicKey;

    use super::*;

    const A: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const B: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN+Wjn4+4Fcvl2JlKpggT+wCRxpSvtqqpVrQrKN1/A22";
    const E: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";

    fn key(text: &str) -> KeyData {
        PublicKey::from_openssh(text).unwrap().key_data().clone()
    }

    fn status_name(status: &HostKeyStatus) -> &'static str {
        match status {
            HostKeyStatus::Known => "known",
            HostKeyStatus::Certified { .. } => "certified",
            HostKeyStatus::Exempt => "exempt",
            HostKeyStatus::Unknown => "unknown",
            HostKeyStatus::Changed { .. } => "changed",
            HostKeyStatus::Revoked { .. } => "revoked",
        }
    }

    /// Checks key A for `host` at `port` against these lines.
    fn check(text: &str, host: &str, port: u16, alias: Option<&str>) -> HostKeyStatus {
        let text = text.replace("<A>", A).replace("<B>", B).replace("<E>", E);
        let file = Arc::new(KnownHosts::parse(Path::new("/k"), &text));
        HostKeyEntries::collect_for(&[file], &KnownHostName::new(host, port, alias)).check(&key(A))
    }

    #[test]
    fn entries_match_as_in_openssh() {
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
            ("n1,!n1 <A>", "n1", 22, "unknown"),
            ("n1,!n2 <A>", "n1", 22, "known"),
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
            let status = check(text, host, *port, None);
            assert_eq!(status_name(&status), *want, "{host}:{port} with {text:?}");
        }
    }

    #[test]
    fn an_alias_replaces_the_name_at_every_port() {
        assert_eq!(check("cluster <A>", "n1", 2222, Some("Cluster")), HostKeyStatus::Known);
        assert_eq!(check("n1 <A>", "n1", 22, Some("cluster")), HostKeyStatus::Unknown);
    }

    #[test]
    fn a_changed_key_names_the_file_and_the_line() {
        let HostKeyStatus::Changed { at, known } = check("\n# x\nn1 <B>", "n1", 22, None) else {
            panic!("not changed");
        };
        assert_eq!(at.to_string(), "/k:3");
        assert!(known.starts_with("ssh-ed25519 SHA256:"), "{known}");
    }

    #[test]
    fn entries_of_several_files_are_combined() {
        let user = Arc::new(KnownHosts::parse(Path::new("/u"), &format!("n1 {B}")));
        let global = Arc::new(KnownHosts::parse(Path::new("/g"), &format!("n1 {A}")));
        let keys =
            HostKeyEntries::collect_for(&[user, global], &KnownHostName::new("n1", 22, None));
        assert_eq!(keys.check(&key(A)), HostKeyStatus::Known);
        assert_eq!(keys.check(&key(B)), HostKeyStatus::Known);
    }

    #[test]
    fn an_algorithm_with_only_a_revoked_key_is_not_known() {
        let of = |text: &str| {
            let text = text.replace("<A>", A).replace("<B>", B).replace("<E>", E);
            let file = Arc::new(KnownHosts::parse(Path::new("/k"), &text));
            let keys = HostKeyEntries::collect_for(&[file], &KnownHostName::new("n1", 2222, None));
            [
                keys.has_algorithm(&Algorithm::Ed25519),
                keys.has_algorithm(&key(E).algorithm()),
                keys.has_authority(),
            ]
        };
        assert_eq!(of("[n1]:2222 <E>\n@revoked [n1]:2222 <A>"), [false, true, false]);
        assert_eq!(of("[n1]:2222 <A>\n@revoked [n1]:2222 <A>"), [false, false, false]);
        // As in OpenSSH, entries without the port do not affect the order.
        assert_eq!(of("n1 <E>"), [false, false, false]);
        assert_eq!(of("@cert-authority [*]:2222 <A>"), [false, false, true]);
    }
}
