//! Checks a host certificate whose signer a `@cert-authority` line names.
//!
//! The rules are those of OpenSSH 9.2, except that a certificate without principals is for no host, as in later
//! versions. Principals are compared literally, without patterns, as in OpenSSH 9.2.

use std::fmt;

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::{KeyData, RsaPublicKey};
use russh::keys::{Algorithm, Certificate, HashAlg};

use crate::ssh::config::algorithm_sets::AUTHORITIES;
use crate::text;
use crate::time::Timestamp;

/// RSA keys shorter than this are refused, in bits; OpenSSH's default.
const MIN_RSA_BITS: u32 = 1024;

/// Why a certificate is ignored. Its plain key may still be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CertificateProblem {
    NotForHosts,
    NotYetValid,
    Expired,
    OtherNames(String),
    NoNames,
    CriticalOptions(String),
    ExcludedSignature(String),
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotForHosts => f.write_str("is not for hosts"),
            Self::NotYetValid => f.write_str("is not valid yet"),
            Self::Expired => f.write_str("has expired"),
            Self::OtherNames(names) => write!(f, "is for other names ({names})"),
            Self::NoNames => f.write_str("names no host"),
            Self::CriticalOptions(names) => write!(f, "has critical options ({names})"),
            Self::ExcludedSignature(algorithm) => {
                write!(f, "is signed with {algorithm}, which CASignatureAlgorithms excludes")
            }
        }
    }
}

/// Checks a certificate for a host name at a time. An empty list of `signatures` means OpenSSH's default.
pub(crate) fn check(
    certificate: &Certificate,
    name: &str,
    now: Timestamp,
    signatures: &[String],
) -> Result<(), CertificateProblem> {
    if certificate.cert_type() != CertType::Host {
        return Err(CertificateProblem::NotForHosts);
    }
    let now = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
    if now < certificate.valid_after() {
        return Err(CertificateProblem::NotYetValid);
    }
    if now >= certificate.valid_before() {
        return Err(CertificateProblem::Expired);
    }
    let names = certificate.valid_principals();
    if names.is_empty() {
        return Err(CertificateProblem::NoNames);
    }
    if !names.iter().any(|principal| principal == name) {
        return Err(CertificateProblem::OtherNames(join_names(names.iter())));
    }
    if !certificate.critical_options().is_empty() {
        return Err(CertificateProblem::CriticalOptions(join_names(
            certificate.critical_options().keys(),
        )));
    }
    let algorithm = certificate.signature().algorithm();
    let is_allowed = if signatures.is_empty() {
        AUTHORITIES.defaults().any(|default| default == algorithm.as_str())
    } else {
        signatures.iter().any(|allowed| allowed == algorithm.as_str())
    };
    if !is_allowed {
        return Err(CertificateProblem::ExcludedSignature(text::excerpt(algorithm.as_str(), 64)));
    }
    Ok(())
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
