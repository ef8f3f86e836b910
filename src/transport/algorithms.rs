//! What gtop offers in the key exchange, and what it means when that fails.

use std::borrow::Cow;
use std::time::Duration;

use russh::{AlgorithmKind, Preferred, client, kex};

use crate::transport::fault::{self, Fault, Step};
use crate::transport::offer::Offer;

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

/// Returns russh's settings for a host that is asked for these kinds of key.
pub(super) fn settings(offer: Offer) -> client::Config {
    client::Config {
        preferred: Preferred {
            kex: Cow::Borrowed(KEY_EXCHANGES),
            key: Cow::Owned(offer.keys),
            host_key_certificates: Cow::Owned(offer.certificates),
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
    fn a_dead_handshake_always_ends_and_packets_cannot_be_dropped() {
        let settings = settings(Offer::pinned(None));
        assert!(settings.inactivity_timeout.is_some());
        assert!(settings.preferred.kex.contains(&kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT));
        assert!(!settings.preferred.kex.contains(&kex::DH_GEX_SHA256));
    }
}
