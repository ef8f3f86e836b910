//! The algorithms gtop offers in the key exchange, and the fault when negotiation fails.

use std::borrow::Cow;
use std::time::Duration;

use russh::{AlgorithmKind, Preferred, cipher, client, compression, kex, mac};

use crate::config::algorithm_sets;
use crate::config::{HostSettings, KeepAlive};
use crate::host_keys::algorithms::HostKeyAlgorithms;
use gtop_local::fault::ssh::{ConnectPhase, Fault};
use gtop_local::text;

/// The default key exchanges. Those russh prefers cost 600 ms of CPU each.
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

/// Default keepalive interval.
const DEFAULT_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A connection that receives nothing for this long is closed.
const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(60);

/// The algorithms offered to one host, without those of host keys, and its keepalive.
#[derive(Debug, Clone)]
pub(crate) struct SshParams {
    key_exchanges: Cow<'static, [kex::Name]>,
    ciphers: Cow<'static, [cipher::Name]>,
    macs: Cow<'static, [mac::Name]>,
    keep_alive: KeepAlive,
}

impl Default for SshParams {
    fn default() -> Self {
        Self {
            key_exchanges: Cow::Borrowed(KEY_EXCHANGES),
            ciphers: Preferred::DEFAULT.cipher,
            macs: Preferred::DEFAULT.mac,
            keep_alive: KeepAlive::default(),
        }
    }
}

impl SshParams {
    /// Returns the parameters the configuration sets, or the fault of an option that leaves nothing to offer.
    pub(crate) fn from_settings(settings: &HostSettings) -> Result<Self, Fault> {
        let mut params = Self { keep_alive: settings.keep_alive, ..Self::default() };
        let wanted = &settings.algorithms;
        if !is_openssh_default(&wanted.key_exchanges) {
            let (names, unreal) = (&wanted.key_exchanges, [kex::NONE]);
            let mut chosen = supported("KexAlgorithms", names, kex::ALL_KEX_ALGORITHMS, &unreal)?;
            // Neither is an algorithm; the protocol carries both in this list.
            chosen.push(kex::EXTENSION_SUPPORT_AS_CLIENT);
            chosen.push(kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT);
            params.key_exchanges = Cow::Owned(chosen);
        }
        if !wanted.ciphers.is_empty() {
            let (names, unreal) = (&wanted.ciphers, [cipher::NONE, cipher::CLEAR]);
            params.ciphers = supported("Ciphers", names, cipher::ALL_CIPHERS, &unreal)?.into();
        }
        if !wanted.macs.is_empty() {
            let (names, unreal) = (&wanted.macs, [mac::NONE]);
            params.macs = supported("MACs", names, mac::ALL_MAC_ALGORITHMS, &unreal)?.into();
        }
        Ok(params)
    }
}

/// Returns true if a list is the default of some OpenSSH version since 7.4, apart from names added or dropped since.
fn is_openssh_default(names: &[String]) -> bool {
    let defaults = algorithm_sets::KEY_EXCHANGES.defaults();
    let defaults = defaults.filter(|name| is_in_all_versions(name));
    let names = names.iter().map(String::as_str);
    names.len() == 0 || names.filter(|name| is_in_all_versions(name)).eq(defaults)
}

fn is_in_all_versions(name: &str) -> bool {
    !(name.starts_with("sntrup") || name.starts_with("mlkem") || name.ends_with("-sha1"))
}

/// Returns the algorithms of `wanted` that russh supports, in that order.
fn supported<T: AsRef<str> + Copy + PartialEq>(
    option: &'static str,
    wanted: &[String],
    all: &[&'static T],
    unreal: &[T],
) -> Result<Vec<T>, Fault> {
    let ours: Vec<T> =
        all.iter().map(|name| **name).filter(|name| !unreal.contains(name)).collect();
    let found = wanted.iter().filter_map(|name| ours.iter().find(|known| known.as_ref() == name));
    let found: Vec<T> = found.copied().collect();
    if found.is_empty() {
        let known = ours.iter().map(|name| name.as_ref().to_owned()).collect();
        return Err(Fault::UnsupportedAlgorithms { option, known });
    }
    Ok(found)
}

/// Returns russh's configuration for a host.
pub(crate) fn client_config(host_keys: HostKeyAlgorithms, params: SshParams) -> client::Config {
    let alive_interval = params.keep_alive.interval.unwrap_or(DEFAULT_KEEP_ALIVE_INTERVAL);
    client::Config {
        preferred: Preferred {
            kex: params.key_exchanges,
            key: Cow::Owned(host_keys.keys),
            host_key_certificates: Cow::Owned(host_keys.certificates),
            cipher: params.ciphers,
            mac: params.macs,
            compression: Cow::Borrowed(&[compression::NONE]),
        },
        window_size: 256 * 1024,
        // Each session keeps a buffer for the largest packet it ever read; a sample of eight devices rarely needs more
        // than two packets.
        maximum_packet_size: 3 * 1024 + 256,
        channel_buffer_size: 16,
        keepalive_interval: Some(alive_interval),
        // russh takes 0 as no limit.
        keepalive_max: params.keep_alive.max_count.max(1),
        inactivity_timeout: Some(INACTIVITY_TIMEOUT.max(alive_interval.saturating_mul(2))),
        nodelay: true,
        ..client::Config::default()
    }
}

/// Returns the fault of a connection that failed before the host key was accepted.
pub(crate) fn handshake_fault(error: &russh::Error, phase: ConnectPhase, port: u16) -> Fault {
    if let russh::Error::NoCommonAlgo { kind, ours, theirs } = error {
        return Fault::NoCommonAlgorithm {
            kind: kind_name(kind),
            ours: sanitize_names(ours),
            theirs: sanitize_names(theirs),
        };
    }
    let why = describe(error);
    if phase == ConnectPhase::BannerExchange || matches!(error, russh::Error::Version) {
        let is_closed = !matches!(error, russh::Error::Version);
        return Fault::NoBanner { port, why, is_closed };
    }
    Fault::ConnectionLost { phase, why }
}

/// Returns at most 12 names, sanitised.
fn sanitize_names(names: &[String]) -> Vec<String> {
    names.iter().take(12).map(|name| text::excerpt(name, 64)).collect()
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

/// Returns the error text, another than russh's where that would not help.
pub(crate) fn describe(error: &russh::Error) -> String {
    use russh::Error;
    if let Error::IO(error) = error
        && error.kind() != std::io::ErrorKind::UnexpectedEof
    {
        return text::io_error(error);
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
    text::lowercase_first(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        list.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn the_default_list_of_any_openssh_version_keeps_gtops_order() {
        let core = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,\
            ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,\
            diffie-hellman-group16-sha512,diffie-hellman-group18-sha512,\
            diffie-hellman-group14-sha256";
        assert!(is_openssh_default(&[]));
        assert!(is_openssh_default(&names(core)));
        assert!(is_openssh_default(&names(&format!("sntrup761x25519-sha512@openssh.com,{core}"))));
        assert!(is_openssh_default(&names(&format!("{core},diffie-hellman-group14-sha1"))));
        assert!(!is_openssh_default(&names("curve25519-sha256")));
        assert!(!is_openssh_default(&names("ecdh-sha2-nistp256,curve25519-sha256")));
    }

    #[test]
    fn configured_algorithms_keep_their_order_without_unknown_names() {
        let all = kex::ALL_KEX_ALGORITHMS;
        let wanted = names("sntrup761x25519-sha512,ecdh-sha2-nistp384,curve25519-sha256,none");
        let found = supported("KexAlgorithms", &wanted, all, &[kex::NONE]).unwrap();
        assert_eq!(found, [kex::ECDH_SHA2_NISTP384, kex::CURVE25519]);
        let fault = supported(
            "MACs",
            &names("umac-64@openssh.com,none"),
            mac::ALL_MAC_ALGORITHMS,
            &[mac::NONE],
        );
        let Err(Fault::UnsupportedAlgorithms { option: "MACs", known }) = fault else {
            panic!("{fault:?}")
        };
        assert!(known.contains(&"hmac-sha2-256".to_owned()) && !known.contains(&"none".to_owned()));
    }

    #[test]
    fn the_handshake_has_a_timeout_and_strict_key_exchange() {
        let settings = client_config(HostKeyAlgorithms::pinned(None), SshParams::default());
        assert!(settings.inactivity_timeout.is_some());
        assert!(settings.preferred.kex.contains(&kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT));
        assert!(!settings.preferred.kex.contains(&kex::DH_GEX_SHA256));
    }
}
