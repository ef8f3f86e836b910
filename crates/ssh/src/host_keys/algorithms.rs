//! The host key algorithms to offer, and their order.
//!
//! As in OpenSSH, the algorithms of the host's known keys go first, else it would present another key and look
//! unknown; with an authority for the host all certificates do. A list the user wrote keeps its order. A list does
//! not say who wrote it, but OpenSSH's default, also with `+` and `-`, has all certificates before the first plain
//! key.

use std::str::FromStr;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg};

use crate::host_keys::HostKeyEntries;
use crate::host_keys::certificate::is_same_algorithm;

/// Suffix of the certificate algorithms.
const CERTIFICATE_SUFFIX: &str = "-cert-v01@openssh.com";

/// The default order. No SHA-1, as in current OpenSSH.
const DEFAULT_ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

/// Offered only if the configuration lists it.
const RSA_SHA1: Algorithm = Algorithm::Rsa { hash: None };

/// The algorithms to offer; certificates go before plain keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostKeyAlgorithms {
    pub(crate) certificates: Vec<Algorithm>,
    pub(crate) keys: Vec<Algorithm>,
}

/// One name in `HostKeyAlgorithms`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedAlgorithm {
    algorithm: Algorithm,
    is_certificate: bool,
}

impl HostKeyAlgorithms {
    /// Returns the algorithms for a host, from `HostKeyAlgorithms`, or from the default if it is empty.
    pub(crate) fn new(names: &[String], known: &HostKeyEntries) -> Self {
        let defaults = [true, false].into_iter().flat_map(|is_certificate| {
            DEFAULT_ALGORITHMS.map(|algorithm| ListedAlgorithm { algorithm, is_certificate })
        });
        let wanted: Vec<ListedAlgorithm> = match names {
            [] => defaults.collect(),
            names => names.iter().filter_map(|name| ListedAlgorithm::parse(name)).collect(),
        };
        // If the most preferred key is known, the order is kept.
        let keeps_order = is_user_ordered(&wanted)
            || wanted.first().is_some_and(|first| known.has_algorithm(&first.algorithm));
        let (mut order, rest): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|wanted| {
            keeps_order
                || known.has_algorithm(&wanted.algorithm)
                || (wanted.is_certificate && known.has_authority())
        });
        order.extend(rest);
        Self::in_order(order)
    }

    /// Returns the algorithms for a host with a pinned key.
    pub(crate) fn pinned(key: Option<&KeyData>) -> Self {
        let mut keys = Vec::from(DEFAULT_ALGORITHMS);
        keys.sort_by_key(|algorithm| !key.is_some_and(|key| is_same_algorithm(key, algorithm)));
        Self { certificates: Vec::new(), keys }
    }

    /// Splits the list in two, because russh offers all certificates before all plain keys.
    ///
    /// A certificate that should follow a plain key is left out: a host with the certificate has the plain key too,
    /// and without a known authority only that one counts.
    fn in_order(order: Vec<ListedAlgorithm>) -> Self {
        let plain = order.iter().position(|wanted| !wanted.is_certificate).unwrap_or(order.len());
        let (certificates, keys): (Vec<_>, Vec<_>) =
            order.into_iter().enumerate().partition(|(_, wanted)| wanted.is_certificate);
        let keys: Vec<Algorithm> = keys.into_iter().map(|(_, wanted)| wanted.algorithm).collect();
        let certificates = certificates
            .into_iter()
            .filter(|(index, wanted)| *index < plain || !keys.contains(&wanted.algorithm));
        let certificates = certificates.map(|(_, wanted)| wanted.algorithm).collect();
        Self { certificates, keys }
    }

    /// Returns the plain algorithms without those of some keys.
    pub(crate) fn without(&self, keys: &[KeyData]) -> Self {
        let others = self
            .keys
            .iter()
            .filter(|algorithm| !keys.iter().any(|key| is_same_algorithm(key, algorithm)));
        Self { certificates: Vec::new(), keys: others.cloned().collect() }
    }

    /// Returns true if a key of this algorithm was offered.
    pub(crate) fn contains(&self, key: &KeyData, is_certificate: bool) -> bool {
        let kinds = if is_certificate { &self.certificates } else { &self.keys };
        kinds.iter().any(|algorithm| is_same_algorithm(key, algorithm))
    }
}

/// Returns true if the user chose this order. `ssh-rsa` may have been added with `+`.
fn is_user_ordered(wanted: &[ListedAlgorithm]) -> bool {
    let current = wanted.iter().filter(|wanted| wanted.algorithm != RSA_SHA1);
    !current.is_sorted_by_key(|wanted| !wanted.is_certificate)
}

impl ListedAlgorithm {
    /// Parses a name; `None` for algorithms russh cannot verify.
    fn parse(name: &str) -> Option<Self> {
        let (stem, is_certificate) = match name.strip_suffix(CERTIFICATE_SUFFIX) {
            Some(stem) => (stem, true),
            None => (name, false),
        };
        let algorithm = Algorithm::from_str(stem).ok()?;
        (DEFAULT_ALGORITHMS.contains(&algorithm) || algorithm == RSA_SHA1)
            .then_some(Self { algorithm, is_certificate })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::config::KnownHostName;
    use crate::host_keys::known_hosts::KnownHosts;

    const E: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";
    const A: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";

    /// Returns the offer as names, to a host with these lines.
    fn offered(names: &str, lines: &str) -> (String, String) {
        let text = lines.replace("<A>", A).replace("<E>", E);
        let file = Arc::new(KnownHosts::parse(Path::new("/k"), &text));
        let known = HostKeyEntries::collect_for(&[file], &KnownHostName::new("n1", 22, None));
        let names: Vec<_> = names.split_terminator(',').map(str::to_owned).collect();
        let HostKeyAlgorithms { certificates, keys } = HostKeyAlgorithms::new(&names, &known);
        let short = |algorithm: &Algorithm| match algorithm.as_str() {
            "ssh-ed25519" => "ed",
            "ecdsa-sha2-nistp256" => "ec",
            "ecdsa-sha2-nistp384" | "ecdsa-sha2-nistp521" => "EC",
            "rsa-sha2-512" => "rsa",
            "rsa-sha2-256" => "RSA",
            "ssh-rsa" => "sha1",
            other => panic!("{other}"),
        };
        let join = |kinds: &[Algorithm]| kinds.iter().map(short).collect::<Vec<_>>().join(" ");
        (join(&certificates), join(&keys))
    }

    #[test]
    fn algorithms_of_known_keys_are_offered_first() {
        let all = "ed ec EC EC rsa RSA";
        let cases = [
            ("", all, all),
            ("n1 <A>", all, all),
            ("n1 <E>", "ec", "ec ed EC EC rsa RSA"),
            ("n1 <E>\nn1 <A>", all, all),
            ("@cert-authority * <A>", all, all),
            ("@cert-authority * <A>\nn1 <E>", all, "ec ed EC EC rsa RSA"),
            ("@revoked n1 <E>\nn1 <E>", all, all),
            ("n2 <E>", all, all),
        ];
        for (lines, certificates, keys) in cases {
            assert_eq!(offered("", lines), (certificates.to_owned(), keys.to_owned()), "{lines}");
        }
    }

    #[test]
    fn only_configured_algorithms_are_offered() {
        let names = |text: &str| offered(text, "");
        let both = |certificates: &str, keys: &str| (certificates.to_owned(), keys.to_owned());
        assert_eq!(names("ssh-ed25519"), both("", "ed"));
        assert_eq!(names("ssh-rsa,ssh-ed25519"), both("", "sha1 ed"));
        assert_eq!(names("sk-ssh-ed25519@openssh.com,nonsense"), both("", ""));
        assert_eq!(names("ssh-ed25519-cert-v01@openssh.com"), both("ed", ""));
        // The plain key comes first, so the certificate is of no use.
        assert_eq!(names("ssh-ed25519,ssh-ed25519-cert-v01@openssh.com"), both("", "ed"));
        assert_eq!(names("ecdsa-sha2-nistp256,ssh-ed25519-cert-v01@openssh.com"), both("ed", "ec"));
    }

    #[test]
    fn a_list_ordered_by_the_user_keeps_its_order() {
        let keys = |names: &str, lines: &str| offered(names, lines).1;
        let chosen = "ssh-ed25519,ecdsa-sha2-nistp256,ssh-ed25519-cert-v01@openssh.com";
        assert_eq!(keys(chosen, "n1 <E>"), "ed ec");
        assert_eq!(keys("ssh-ed25519,ecdsa-sha2-nistp256", "n1 <E>"), "ec ed");
        let added = "ssh-ed25519,ecdsa-sha2-nistp256,ssh-rsa,ssh-rsa-cert-v01@openssh.com";
        assert_eq!(keys(added, "n1 <E>"), "ec ed sha1");
    }

    #[test]
    fn the_algorithm_of_a_pinned_key_is_offered_first_without_certificates() {
        let key = russh::keys::PublicKey::from_openssh(E).unwrap().key_data().clone();
        let offered = HostKeyAlgorithms::pinned(Some(&key));
        assert_eq!(offered.keys.first(), Some(&key.algorithm()));
        assert_eq!((offered.keys.len(), offered.certificates.len()), (DEFAULT_ALGORITHMS.len(), 0));
        assert!(
            !HostKeyAlgorithms::pinned(None).keys.contains(&RSA_SHA1),
            "SHA-1 is never offered"
        );
        assert!(offered.contains(&key, false) && !offered.contains(&key, true));
    }
}
