//! Checks a host certificate whose signer a `@cert-authority` line names.
//!
//! The rules are those of OpenSSH 9.2, except that a certificate without principals is for no host, as in later
//! versions. Principals are compared literally, without patterns, as in OpenSSH 9.2.

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::{KeyData, RsaPublicKey};
use russh::keys::{Algorithm, Certificate, HashAlg};

use crate::config::algorithm_sets::AUTHORITIES;
use gtop_local::text;
use gtop_local::time::Timestamp;

/// RSA keys shorter than this are refused, in bits; OpenSSH's default.
const MIN_RSA_BITS: u32 = 1024;

/// Returns why a certificate is not valid for a host name at a time; reads on after "certificate".
///
/// Its plain key may still be known. An empty list of `signatures` means OpenSSH's default.
pub(crate) fn problem(
    certificate: &Certificate,
    name: &str,
    now: Timestamp,
    signatures: &[String],
) -> Option<String> {
    let now = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
    let names = certificate.valid_principals();
    let options = certificate.critical_options();
    let algorithm = certificate.signature().algorithm();
    let is_allowed = if signatures.is_empty() {
        AUTHORITIES.defaults().any(|default| default == algorithm.as_str())
    } else {
        signatures.iter().any(|allowed| allowed == algorithm.as_str())
    };
    Some(if certificate.cert_type() != CertType::Host {
        "is not for hosts".to_owned()
    } else if now < certificate.valid_after() {
        "is not valid yet".to_owned()
    } else if now >= certificate.valid_before() {
        "has expired".to_owned()
    } else if names.is_empty() {
        "names no host".to_owned()
    } else if !names.iter().any(|principal| principal == name) {
        format!("is for other names ({})", join_names(names.iter()))
    } else if !options.is_empty() {
        format!("has critical options ({})", join_names(options.keys()))
    } else if !is_allowed {
        let algorithm = text::excerpt(algorithm.as_str(), 64);
        format!("is signed with {algorithm}, which CASignatureAlgorithms excludes")
    } else {
        return None;
    })
}

fn join_names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.take(5).map(String::as_str).collect();
    text::excerpt_line(&names.join(", "))
}

/// Returns true if the certificate is signed by the key it names as its signer.
///
/// Does not check that the signer is trusted.
pub(crate) fn has_valid_signature(certificate: &Certificate) -> bool {
    let signer = certificate.signature_key().fingerprint(HashAlg::Sha256);
    // Any time within its validity; the current time is checked elsewhere.
    let time = certificate.valid_after();
    let is_never_valid = time >= certificate.valid_before();
    is_never_valid || certificate.validate_at(time, [&signer]).is_ok()
}

/// Returns the size in bits of an RSA key that is shorter than `least` or the minimum.
pub(crate) fn short_rsa_bits(key: &KeyData, min_bits: u32) -> Option<u32> {
    key.rsa().map(RsaPublicKey::key_size).filter(|bits| *bits < min_bits.max(MIN_RSA_BITS))
}

/// Returns true if a key is of an algorithm, ignoring the hash of RSA.
pub(crate) fn is_same_algorithm(key: &KeyData, algorithm: &Algorithm) -> bool {
    match (key.algorithm(), algorithm) {
        (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
        (have, wanted) => have == *wanted,
    }
}
