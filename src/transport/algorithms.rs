//! What gtop offers in the key exchange, and what it means when that fails.

use std::borrow::Cow;
use std::time::Duration;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg};
use russh::{AlgorithmKind, Preferred, client, kex};

use crate::transport::fault::{self, Fault, Step};

/// Ours, because the defaults put key exchanges first that cost 600 ms of CPU each.
const KEY_EXCHANGES: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_G14_SHA256,
    kex::DH_G16_SHA512,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    // Without this name the protection against dropped packets (Terrapin) is off.
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];

/// Kinds of host key, the wanted first. No SHA-1, as in today's OpenSSH.
const HOST_KEYS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

/// Returns russh's settings for a host that is known by these kinds of key.
pub(super) fn settings(known: &[Algorithm]) -> client::Config {
    client::Config {
        preferred: Preferred {
            kex: Cow::Borrowed(KEY_EXCHANGES),
            key: Cow::Owned(host_key_order(known)),
            ..Preferred::DEFAULT
        },
        window_size: 256 * 1024,
        // Each session keeps a buffer for the largest packet it ever read.
        maximum_packet_size: 4 * 1024,
        channel_buffer_size: 16,
        keepalive_interval: Some(Duration::from_secs(15)),
        keepalive_max: 3,
        inactivity_timeout: Some(Duration::from_secs(60)),
        nodelay: true,
        ..client::Config::default()
    }
}

/// Puts the kinds of key the host is known by first, else it would show another kind.
fn host_key_order(known: &[Algorithm]) -> Vec<Algorithm> {
    let is_known = |algorithm: &Algorithm| {
        known.iter().any(|known| match (known, algorithm) {
            (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
            (known, algorithm) => known == algorithm,
        })
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = HOST_KEYS.into_iter().partition(is_known);
    first.extend(rest);
    first
}

/// Says why a connection broke before the host key was accepted.
pub(super) fn handshake_fault(error: &russh::Error, step: Step, port: u16) -> Fault {
    if let russh::Error::NoCommonAlgo { kind, ours, theirs } = error {
        return Fault::NoCommonAlgorithm {
            kind: kind_name(kind),
            ours: some(ours),
            theirs: some(theirs),
        };
    }
    let why = describe(error);
    if step == Step::Greeting || matches!(error, russh::Error::Version) {
        return Fault::NotSsh { port, why };
    }
    Fault::Broken { step, why }
}

/// Returns the names of algorithms from a list of any length and content.
fn some(names: &[String]) -> Vec<String> {
    names.iter().take(12).map(|name| fault::clean(name, 64)).collect()
}

fn kind_name(kind: &AlgorithmKind) -> &'static str {
    match kind {
        AlgorithmKind::Kex => "key exchange",
        AlgorithmKind::Key => "host key",
        AlgorithmKind::Cipher => "cipher",
        AlgorithmKind::Compression => "compression",
        AlgorithmKind::Mac => "MAC",
    }
}

/// Returns the cause in our words where russh's would not help.
pub(super) fn describe(error: &russh::Error) -> String {
    use russh::Error;
    if let Error::IO(error) = error
        && error.kind() != std::io::ErrorKind::UnexpectedEof
    {
        return fault::reason(error);
    }
    if matches!(error, Error::HUP | Error::Disconnect | Error::IO(_)) {
        return "node closed the connection".to_owned();
    }
    if matches!(error, Error::KeepaliveTimeout | Error::InactivityTimeout) {
        return "node no longer answers".to_owned();
    }
    if matches!(error, Error::Version) {
        return "it does not speak SSH 2".to_owned();
    }
    let text = fault::quote(&error.to_string());
    let mut letters = text.chars();
    letters
        .next()
        .map_or(text.clone(), |first| format!("{}{}", first.to_ascii_lowercase(), letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_kinds_come_first_and_nothing_is_lost() {
        let p521 = Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 };
        let order = host_key_order(&[Algorithm::Rsa { hash: None }, p521.clone()]);
        assert_eq!(order.first(), Some(&p521));
        assert!(order[1..3].iter().all(|kind| kind.clone().is_rsa()));
        assert_eq!(order.len(), HOST_KEYS.len());
        assert!(!order.contains(&Algorithm::Rsa { hash: None }), "SHA-1 is never offered");
    }

    #[test]
    fn a_dead_handshake_always_ends_and_packets_cannot_be_dropped() {
        let settings = settings(&[]);
        assert!(settings.inactivity_timeout.is_some());
        assert!(settings.preferred.kex.contains(&kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT));
        assert!(!settings.preferred.kex.contains(&kex::DH_GEX_SHA256));
    }
}
