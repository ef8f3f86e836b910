//! Decides whether to accept a node's host key: by the files and `StrictHostKeyChecking`.
//!
//! The result is that of OpenSSH's `ssh` with the same configuration:
//!
//! - `RevokedHostKeys` is checked first and overrides everything.
//! - A certificate is accepted if it is valid and signed by an authority the files trust for the host;
//!   if not, its key is checked like a plain one, as in OpenSSH.
//! - With `NoHostAuthenticationForLocalhost` and without `HostKeyAlias` any other key is accepted from a host at a
//!   loopback address, even one marked `@revoked`.
//! - A known key, or one with a valid certificate, is accepted.
//! - An unknown key is refused with `yes` and `ask`; `gtop trust` replaces ssh's question. With
//!   `accept-new` and `no` it is accepted and written to the first `UserKnownHostsFile`; if that fails, the log has
//!   a warning, so `UserKnownHostsFile /dev/null` works as with `ssh`.
//! - A changed key is refused, except with `no`: `ssh` then connects without sending a password. gtop never sends
//!   one, so it connects too, and logs a warning.
//!
//! gtop is stricter than OpenSSH in two points: a key or an authority marked `@revoked` is refused with `no` as
//! well; a certificate without principals is for no host, as in versions after 9.2. Addresses are not checked
//! beside names: `CheckHostIP` is off by default in OpenSSH too, and doctor reports that it is ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Certificate, PublicKeyOrCertificate};

use crate::config::{HostKeyCheck, HostSettings};
use crate::host_keys::algorithms::HostKeyAlgorithms;
use crate::host_keys::certificate;
use crate::host_keys::known_hosts;
use crate::host_keys::revoked_keys::RevokedKeys;
use crate::host_keys::writer;
use crate::host_keys::{HostKeyEntries, HostKeyStatus, Verification};
use gtop_local::fault::Origin;
use gtop_local::fault::ssh::Fault;
use gtop_local::time::{Clock, Timestamp};

/// How to decide about a node's host key.
#[derive(Debug, Clone)]
pub(crate) enum HostKeyPolicy {
    /// By the `known_hosts` files.
    KnownHosts(Arc<HostKeyVerifier>),
    /// Accept only this key; no key if `None`.
    Pinned(Option<KeyData>),
    /// Report what the files say of a key of these algorithms, then disconnect.
    Inspect(Arc<HostKeyVerifier>, HostKeyAlgorithms),
}

/// Verifies the keys of one host.
#[derive(Debug)]
pub(crate) struct HostKeyVerifier {
    pub(crate) settings: Arc<HostSettings>,
    known: HostKeyEntries,
    /// The file of `RevokedHostKeys`, and its list.
    revoked: Option<(PathBuf, Arc<RevokedKeys>)>,
    pub(crate) host_key_algorithms: HostKeyAlgorithms,
}

impl HostKeyPolicy {
    /// Returns the host key algorithms to offer.
    pub(crate) fn host_key_algorithms(&self) -> HostKeyAlgorithms {
        match self {
            Self::KnownHosts(verifier) => verifier.host_key_algorithms.clone(),
            Self::Inspect(_, algorithms) => algorithms.clone(),
            Self::Pinned(key) => HostKeyAlgorithms::pinned(key.as_ref()),
        }
    }

    /// Verifies a node's key or certificate.
    pub(crate) fn verify(
        &self,
        offered: &PublicKeyOrCertificate,
        is_loopback: bool,
    ) -> Result<Verification, Fault> {
        match self {
            Self::KnownHosts(verifier) | Self::Inspect(verifier, _) => {
                let is_exempt = is_loopback && verifier.settings.trusts_loopback;
                verifier.verify(offered, is_exempt, Clock::system().now())
            }
            Self::Pinned(pinned) => Ok(verify_pinned(pinned.as_ref(), offered)),
        }
    }

    /// Returns the line that lists a key.
    pub(crate) fn find_line(&self, key: &KeyData) -> Option<Origin> {
        match self {
            Self::KnownHosts(verifier) | Self::Inspect(verifier, _) => {
                verifier.known.find_line(key)
            }
            Self::Pinned(_) => None,
        }
    }

    /// Returns whether to continue the handshake, or why the key is refused. Stores an accepted unknown key.
    pub(crate) async fn accept(&self, verification: Verification) -> Result<bool, Fault> {
        let verifier = match self {
            Self::Inspect(..) => return Ok(false),
            Self::KnownHosts(verifier) => verifier,
            Self::Pinned(_) => {
                let fault = verification.fault("this node");
                return fault.map_or(Ok(true), Err);
            }
        };
        let host = &verifier.settings.known_hosts_name.full;
        let Some(fault) = verification.fault(host) else { return Ok(true) };
        match (&verification.status, verifier.settings.host_key_check) {
            (HostKeyStatus::Unknown, HostKeyCheck::AcceptNew | HostKeyCheck::No) => {
                let settings = Arc::clone(&verifier.settings);
                let key = verification.key.clone();
                let done =
                    tokio::task::spawn_blocking(move || writer::store_new_key(&settings, &key));
                match done.await {
                    Ok(Err(fault)) => {
                        log::warn!("{host}: the host key was accepted but not stored: {fault}");
                    }
                    // Another host of this name was accepted at the same time.
                    Ok(Ok(status @ HostKeyStatus::Changed { .. }))
                        if verifier.settings.host_key_check == HostKeyCheck::AcceptNew =>
                    {
                        let changed = Verification { status, ..verification };
                        return changed.fault(host).map_or(Ok(true), Err);
                    }
                    Ok(Ok(_)) | Err(_) => {}
                }
                Ok(true)
            }
            (HostKeyStatus::Changed { .. }, HostKeyCheck::No) => {
                log::warn!("{fault}; connecting anyway because of StrictHostKeyChecking no");
                Ok(true)
            }
            (HostKeyStatus::Unknown, _) if !writer::keeps_keys(&verifier.settings) => {
                let (algorithm, fingerprint) = verification.key_text();
                Err(Fault::HostKeyNotKept { host: host.clone(), algorithm, fingerprint })
            }
            _ => Err(fault),
        }
    }
}

impl HostKeyVerifier {
    pub(crate) fn new(
        settings: Arc<HostSettings>,
        known: HostKeyEntries,
        revoked: Option<(PathBuf, Arc<RevokedKeys>)>,
    ) -> Self {
        let host_key_algorithms = HostKeyAlgorithms::new(&settings.algorithms.host_keys, &known);
        Self { settings, known, revoked, host_key_algorithms }
    }

    fn verify(
        &self,
        offered: &PublicKeyOrCertificate,
        is_exempt: bool,
        now: Timestamp,
    ) -> Result<Verification, Fault> {
        let (key, host_certificate) = match offered {
            PublicKeyOrCertificate::PublicKey { key, .. } => (key.key_data(), None),
            PublicKeyOrCertificate::Certificate(host_certificate) => {
                (host_certificate.public_key(), Some(host_certificate))
            }
        };
        self.check_algorithm(key, host_certificate)?;
        if let Some(host_certificate) = host_certificate
            .filter(|host_certificate| !certificate::has_valid_signature(host_certificate))
        {
            return Err(Fault::HostCertificateRefused {
                host: self.settings.known_hosts_name.full.clone(),
                why: "has an invalid signature".to_owned(),
                algorithm: host_certificate.algorithm().to_string(),
                fingerprint: known_hosts::fingerprint(key),
            });
        }
        let (status, certificate_problem) = self.check(key, host_certificate, is_exempt, now);
        Ok(Verification { key: key.clone(), status, certificate_problem })
    }

    /// Returns the status of a key, and why its certificate is ignored.
    fn check(
        &self,
        key: &KeyData,
        host_certificate: Option<&Certificate>,
        is_exempt: bool,
        now: Timestamp,
    ) -> (HostKeyStatus, Option<String>) {
        if let Some((file, revoked)) = &self.revoked
            && host_certificate.map_or_else(
                || revoked.has_key(key),
                |host_certificate| revoked.has_certificate(host_certificate),
            )
        {
            let at = Origin { file: file.as_path().into(), line: 0 };
            return (HostKeyStatus::Revoked { at }, None);
        }
        if is_exempt {
            return (HostKeyStatus::Exempt, None);
        }
        let Some(host_certificate) = host_certificate else {
            return (self.known.check(key), None);
        };
        let [full, portless] = self.known.check_authorities(host_certificate);
        let is_full = full != HostKeyStatus::Unknown;
        let status = if is_full { full } else { portless };
        match status {
            HostKeyStatus::Certified { .. } => {
                let name = self.settings.known_hosts_name.principal();
                let signatures = &self.settings.algorithms.authority_signatures;
                match certificate::problem(host_certificate, name, now, signatures) {
                    None => (status, None),
                    problem => (self.known.check(key), problem),
                }
            }
            HostKeyStatus::Unknown => (self.known.check(key), None),
            // As in OpenSSH, the entries without the port come last.
            HostKeyStatus::Revoked { .. }
                if !is_full && self.known.check(key) == HostKeyStatus::Known =>
            {
                (HostKeyStatus::Known, None)
            }
            HostKeyStatus::Revoked { .. }
            | HostKeyStatus::Known
            | HostKeyStatus::Exempt
            | HostKeyStatus::Changed { .. } => (status, None),
        }
    }

    /// Refuses a key of an algorithm that was not negotiated, or too short.
    fn check_algorithm(
        &self,
        key: &KeyData,
        host_certificate: Option<&Certificate>,
    ) -> Result<(), Fault> {
        let short = [Some(key), host_certificate.map(Certificate::signature_key)];
        let short = short
            .into_iter()
            .flatten()
            .find_map(|key| certificate::short_rsa_bits(key, self.settings.min_rsa_bits));
        let theirs = match short {
            Some(bits) => format!("an RSA key of {bits} bits"),
            None if self.host_key_algorithms.contains(key, host_certificate.is_some()) => {
                return Ok(());
            }
            None => key.algorithm().to_string(),
        };
        Err(Fault::NoCommonAlgorithm {
            kind: "host key",
            ours: self.host_key_algorithms.keys.iter().map(ToString::to_string).collect(),
            theirs: vec![theirs],
        })
    }
}

fn verify_pinned(pinned: Option<&KeyData>, offered: &PublicKeyOrCertificate) -> Verification {
    let key = KeyData::from(offered.public_key());
    let status = match pinned {
        Some(pinned) if *pinned == key => HostKeyStatus::Known,
        Some(pinned) => HostKeyStatus::Changed {
            at: Origin { file: Path::new("the fixed profile").into(), line: 1 },
            known: known_hosts::fingerprint(pinned),
        },
        None => HostKeyStatus::Unknown,
    };
    Verification { key, status, certificate_problem: None }
}

#[cfg(test)]
mod tests {
    use russh::keys::ssh_key::certificate::{Builder, CertType};
    use russh::keys::ssh_key::private::Ed25519Keypair;
    use russh::keys::{PrivateKey, PublicKey};

    use super::*;
    use crate::config::KnownHostName;
    use crate::config::{HostQuery, LocalEnv};
    use crate::host_keys::known_hosts::KnownHosts;

    /// The time of every check, in seconds.
    const NOW: u64 = 1_000_000;

    fn private_key(seed: u8) -> PrivateKey {
        Ed25519Keypair::from_seed(&[seed; 32]).into()
    }

    fn public_key(seed: u8) -> PublicKey {
        PublicKey::new(private_key(seed).public_key().key_data().clone(), "")
    }

    /// The node's key.
    const NODE: u8 = 1;
    const OTHER: u8 = 2;
    /// The authority.
    const CA: u8 = 3;
    const CA2: u8 = 4;

    /// How a certificate differs from a valid one.
    #[derive(Clone, Copy, Default)]
    struct CertificateSpec {
        is_for_users: bool,
        starts: Option<u64>,
        ends: Option<u64>,
        name: Option<&'static str>,
        option: Option<&'static str>,
        signer: Option<u8>,
    }

    fn certificate(spec: CertificateSpec) -> Certificate {
        let (starts, ends) = (spec.starts.unwrap_or(NOW), spec.ends.unwrap_or(NOW + 1));
        let mut builder = Builder::new([0; 16], public_key(NODE), starts, ends).unwrap();
        builder.cert_type(if spec.is_for_users { CertType::User } else { CertType::Host }).unwrap();
        match spec.name.unwrap_or("n1") {
            "" => builder.all_principals_valid().unwrap(),
            name => builder.valid_principal(name).unwrap(),
        };
        if let Some(option) = spec.option {
            builder.critical_option(option, "").unwrap();
        }
        builder.sign(&private_key(spec.signer.unwrap_or(CA))).unwrap()
    }

    /// A verifier for `n1` with these lines, revoked keys and settings.
    fn verifier(lines: &str, revoked: &str, change: impl Fn(&mut HostSettings)) -> HostKeyVerifier {
        let expand = |text: &str| {
            let marks = [("<A>", NODE), ("<B>", OTHER), ("<CA>", CA), ("<CA2>", CA2)];
            marks.iter().fold(text.to_owned(), |text, (mark, seed)| {
                text.replace(mark, &public_key(*seed).to_openssh().unwrap())
            })
        };
        let env = LocalEnv {
            home: "/none".into(),
            include_home: "/none".into(),
            user: "ada".to_owned(),
            host_name: "here".to_owned(),
            agent: None,
        };
        let query = HostQuery { host: "n1".to_owned(), user: None, port: None };
        let mut settings =
            query.settings_from_ssh_g("hostname n1\nuser ada\nport 22\n", &env).unwrap();
        change(&mut settings);
        let file = Arc::new(KnownHosts::parse(Path::new("/k"), &expand(lines)));
        let known = HostKeyEntries::collect_for(&[file], &KnownHostName::new("n1", 22, None));
        let list = RevokedKeys::parse(expand(revoked).as_bytes()).unwrap();
        let revoked = Some((PathBuf::from("/r"), Arc::new(list)));
        HostKeyVerifier::new(Arc::new(settings), known, revoked)
    }

    fn status_name(verifier: &HostKeyVerifier, offered: &PublicKeyOrCertificate) -> &'static str {
        let now = Timestamp::from_micros(i64::try_from(NOW).unwrap() * 1_000_000);
        match verifier.verify(offered, false, now).map(|verification| verification.status) {
            Ok(HostKeyStatus::Known) => "known",
            Ok(HostKeyStatus::Certified { .. }) => "certified",
            Ok(HostKeyStatus::Exempt) => "exempt",
            Ok(HostKeyStatus::Unknown) => "unknown",
            Ok(HostKeyStatus::Changed { .. }) => "changed",
            Ok(HostKeyStatus::Revoked { .. }) => "revoked",
            Err(Fault::NoCommonAlgorithm { .. }) => "not agreed",
            Err(_) => "refused",
        }
    }

    #[test]
    fn a_certificate_with_any_problem_is_ignored() {
        let cases = [
            (CertificateSpec::default(), "certified"),
            (CertificateSpec { is_for_users: true, ..CertificateSpec::default() }, "unknown"),
            (
                CertificateSpec {
                    starts: Some(NOW + 1),
                    ends: Some(NOW + 2),
                    ..CertificateSpec::default()
                },
                "unknown",
            ),
            (
                CertificateSpec { starts: Some(0), ends: Some(NOW), ..CertificateSpec::default() },
                "unknown",
            ),
            (
                CertificateSpec {
                    starts: Some(0),
                    ends: Some(u64::MAX),
                    ..CertificateSpec::default()
                },
                "certified",
            ),
            (CertificateSpec { name: Some("n2"), ..CertificateSpec::default() }, "unknown"),
            (CertificateSpec { name: Some("N1"), ..CertificateSpec::default() }, "unknown"),
            (CertificateSpec { name: Some("*"), ..CertificateSpec::default() }, "unknown"),
            (CertificateSpec { name: Some(""), ..CertificateSpec::default() }, "unknown"),
            (
                CertificateSpec { option: Some("force-command"), ..CertificateSpec::default() },
                "unknown",
            ),
            (CertificateSpec { signer: Some(CA2), ..CertificateSpec::default() }, "unknown"),
        ];
        for (at, (spec, want)) in cases.into_iter().enumerate() {
            let offered = certificate(spec).into();
            let of = |lines| status_name(&verifier(lines, "", |_| ()), &offered);
            assert_eq!(of("@cert-authority n1 <CA>"), want, "case {at}");
            // The plain key is then checked instead.
            if want == "unknown" {
                assert_eq!(of("@cert-authority n1 <CA>\nn1 <A>"), "known", "case {at}");
                assert_eq!(of("@cert-authority n1 <CA>\nn1 <B>"), "changed", "case {at}");
            }
        }
    }

    #[test]
    fn a_certificate_problem_is_reported() {
        let verifier = verifier("@cert-authority n1 <CA>", "", |_| ());
        let offered = certificate(CertificateSpec {
            name: Some("n\u{1b}[2J2"),
            ..CertificateSpec::default()
        })
        .into();
        let verification =
            verifier.verify(&offered, false, Timestamp::from_micros(1_000_000_000_000)).unwrap();
        let fault = verification.fault("n1").unwrap();
        assert!(matches!(fault, Fault::HostCertificateRefused { .. }), "{fault}");
        assert!(fault.to_string().contains("is for other names (n [2J2)"), "{fault}");
    }

    #[test]
    fn an_authority_is_trusted_only_for_the_hosts_of_its_line() {
        let offered = certificate(CertificateSpec::default()).into();
        let of = |lines| status_name(&verifier(lines, "", |_| ()), &offered);
        assert_eq!(of("@cert-authority * <CA>"), "certified");
        assert_eq!(of("@cert-authority *,!n1 <CA>"), "unknown");
        assert_eq!(of("@cert-authority n2 <CA>"), "unknown");
        assert_eq!(of("@cert-authority n1 <CA2>"), "unknown");
        assert_eq!(of("n1 <CA>"), "changed");
        assert_eq!(of("@revoked n1 <CA>\n@cert-authority n1 <CA>\nn1 <A>"), "revoked");
        assert_eq!(of("@revoked n1 <A>\n@cert-authority n1 <CA>\nn1 <A>"), "revoked");
    }

    #[test]
    fn a_signature_must_be_valid_and_of_an_allowed_algorithm() {
        let lines = "@cert-authority n1 <CA>\nn1 <A>";
        let good = certificate(CertificateSpec::default());
        // The last bytes are the signature's.
        let mut bytes = good.to_bytes().unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        let forged = Certificate::from_bytes(&bytes).unwrap();
        assert_eq!(status_name(&verifier(lines, "", |_| ()), &forged.into()), "refused");
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let change = |settings: &mut HostSettings| {
                settings.algorithms.authority_signatures.clone_from(&names);
            };
            status_name(&verifier("@cert-authority n1 <CA>", "", change), &good.clone().into())
        };
        assert_eq!(of(&["ssh-ed25519"]), "certified");
        assert_eq!(of(&["rsa-sha2-512", "ecdsa-sha2-nistp256"]), "unknown");
    }

    #[test]
    fn revoked_host_keys_are_checked_first() {
        let (plain, signed) =
            (public_key(NODE).into(), certificate(CertificateSpec::default()).into());
        let lines = "n1 <A>\n@cert-authority n1 <CA>";
        for (list, plain_want, signed_want) in [
            ("", "known", "certified"),
            ("<B>", "known", "certified"),
            ("<A>", "revoked", "revoked"),
            ("<CA>", "known", "revoked"),
        ] {
            let verifier = verifier(lines, list, |_| ());
            assert_eq!(status_name(&verifier, &plain), plain_want, "{list}");
            assert_eq!(status_name(&verifier, &signed), signed_want, "{list}");
        }
    }

    #[test]
    fn a_key_of_an_algorithm_that_was_not_offered_is_refused() {
        let only = |name: &str| {
            let names = vec![name.to_owned()];
            verifier("n1 <A>\n@cert-authority n1 <CA>", "", |settings| {
                settings.algorithms.host_keys.clone_from(&names);
            })
        };
        let (plain, signed) =
            (public_key(NODE).into(), certificate(CertificateSpec::default()).into());
        assert_eq!(status_name(&only("ecdsa-sha2-nistp256"), &plain), "not agreed");
        assert_eq!(status_name(&only("ssh-ed25519"), &signed), "not agreed");
        assert_eq!(status_name(&only("ssh-ed25519-cert-v01@openssh.com"), &plain), "not agreed");
        // A modulus of 768 bits.
        let short = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAYQDBCzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYar0PUaP2SJrtP4HUJnjLHW+yBFao+02f4jSG2St9wBJktwlbrfBClOc5i94gcsUXabwOUKL1R5nsPoDTJXfBE=";
        let short = PublicKey::from_openssh(short).unwrap();
        let lines = "n1 ".to_owned() + &short.to_openssh().unwrap();
        assert_eq!(status_name(&verifier(&lines, "", |_| ()), &short.into()), "not agreed");
    }

    #[test]
    fn a_key_shorter_than_the_configuration_requires_is_refused() {
        // A modulus of 2048 bits.
        let key = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQCvw6UEg+enac3r3CLPgOJ6o2koQlKVLVlqxskNszgmPr6gFA/lRKzU55NvfG41EmNWmz94QZAxtG9l/2tUvjllorLj556vN9zSeFtpyAywxP3H0TYwIq1Mnh/gVPu7SgmkDgazmhZQFXMs+MIftqfpQn42FVODPUagfpxDvHThBkPA67kKprUqxSARgqNjRycTYv3juj7F94tHwoyLgrSVwYv2SyyaFV9GKeMQze8w4+sh0bBWASf9DbfBU17FH3ZFAUDg2hpak2YwwPPKwyXNCgD4V6zi/BHJsLnhuzppo3+58lbuSjKbJDJGv81v9Yx0LVcvgNm1JlcppoxQ5Fm/";
        let key = PublicKey::from_openssh(key).unwrap();
        let lines = "n1 ".to_owned() + &key.to_openssh().unwrap();
        for (min_bits, want) in [(0, "known"), (2048, "known"), (2049, "not agreed")] {
            let verifier = verifier(&lines, "", |settings| settings.min_rsa_bits = min_bits);
            assert_eq!(status_name(&verifier, &key.clone().into()), want, "{min_bits}");
        }
    }

    #[test]
    fn an_authority_key_shorter_than_the_configuration_requires_is_refused() {
        // A certificate for n1, signed by an RSA key of 1024 bits with rsa-sha2-512.
        let host_certificate = "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIMZI8xWfXo8vtzuUZnhKpfNrG9mP2i9MHYOLhIqkJ9NoAAAAILElcMIepCGTvCH1xCejGkawKYL8WNAd6pJfA314qY0oAAAAAAAAAAAAAAACAAAAAXgAAAAGAAAAAm4xAAAAAAAAAAD//////////wAAAAAAAAAAAAAAAAAAAJcAAAAHc3NoLXJzYQAAAAMBAAEAAACBAMDlUJfKPj4zV8OkIsg96pEOegpBlB5ts1BsPFjmXGEcsT6gsDcIe/QQ5RNJ5AiXaT32CPAxxL/6bybPgZy3L2pxeXkqraosQzHs9sm4YifRZAncYK0qAV95zYvNuLJR7PzU690AQsuM75X/70lid21WQ1Ra9QeftgRZZZaH6QyPAAAAlAAAAAxyc2Etc2hhMi01MTIAAACAmC00UmygrAtH0fzkhf6OpLTFQU06ccJDRgu3ZJvLzEJpspI67v2zP8LyUeYC+eUQBvP6KkQo+RvlEmRDLIgRtebosJmxMvU1jxQQFXw6aIOmOLov76gc8OnRcf2f7LXnMG7vYz0K0jRChtlVb2LJyUIrhsxBvbZ8ljSK195kfcQ=";
        let signer = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDA5VCXyj4+M1fDpCLIPeqRDnoKQZQebbNQbDxY5lxhHLE+oLA3CHv0EOUTSeQIl2k99gjwMcS/+m8mz4Gcty9qcXl5Kq2qLEMx7PbJuGIn0WQJ3GCtKgFfec2LzbiyUez81OvdAELLjO+V/+9JYndtVkNUWvUHn7YEWWWWh+kMjw==";
        let host_certificate = Certificate::from_openssh(host_certificate).unwrap();
        for lines in [format!("@cert-authority n1 {signer}"), String::new()] {
            for (min_bits, is_agreed) in [(0, true), (1024, true), (1025, false), (2048, false)] {
                let verifier = verifier(&lines, "", |settings| settings.min_rsa_bits = min_bits);
                let want = match (is_agreed, lines.is_empty()) {
                    (false, _) => "not agreed",
                    (true, true) => "unknown",
                    (true, false) => "certified",
                };
                assert_eq!(
                    status_name(&verifier, &host_certificate.clone().into()),
                    want,
                    "{min_bits} {lines}"
                );
            }
        }
    }

    #[test]
    fn a_key_at_a_loopback_address_is_exempt_only_if_configured() {
        let of = |lines: &str, revoked: &str, is_loopback, trusts_loopback| {
            let verifier =
                verifier(lines, revoked, |settings| settings.trusts_loopback = trusts_loopback);
            let policy = HostKeyPolicy::KnownHosts(Arc::new(verifier));
            policy.verify(&public_key(NODE).into(), is_loopback).unwrap().status
        };
        for lines in ["", "n1 <B>", "@revoked n1 <A>", "n1 <A>"] {
            assert_eq!(of(lines, "", true, true), HostKeyStatus::Exempt, "{lines}");
            for (is_loopback, is_configured) in [(true, false), (false, true), (false, false)] {
                assert_ne!(
                    of(lines, "", is_loopback, is_configured),
                    HostKeyStatus::Exempt,
                    "{lines}"
                );
            }
        }
        assert!(matches!(of("", "<A>", true, true), HostKeyStatus::Revoked { .. }));
    }

    #[tokio::test]
    async fn only_keys_that_ssh_accepts_are_accepted() {
        use HostKeyCheck::{AcceptNew, Ask, No, Yes};
        let accepts = async |lines: &str, check| {
            let verifier = verifier(lines, "", |settings| {
                settings.host_key_check = check;
                settings.user_known_hosts = vec!["/dev/null".into()];
            });
            let policy = HostKeyPolicy::KnownHosts(Arc::new(verifier));
            let verification = policy.verify(&public_key(NODE).into(), false).unwrap();
            policy.accept(verification).await.is_ok_and(|continues| continues)
        };
        for (lines, wants) in [
            ("n1 <A>", [true, true, true, true]),
            ("", [false, false, true, true]),
            ("n1 <B>", [false, false, false, true]),
            ("@revoked n1 <A>", [false; 4]),
            ("@revoked n1 <A>\nn1 <A>", [false; 4]),
            ("*,!n1 <A>", [false, false, true, true]),
        ] {
            for (check, want) in [Yes, Ask, AcceptNew, No].into_iter().zip(wants) {
                assert_eq!(accepts(lines, check).await, want, "{lines} {check:?}");
            }
        }
    }

    #[tokio::test]
    async fn of_two_hosts_accepted_under_one_name_at_once_one_is_stored() {
        for (check, is_refused) in [(HostKeyCheck::AcceptNew, true), (HostKeyCheck::No, false)] {
            let home = tempfile::tempdir().unwrap();
            let file = home.path().join("known_hosts");
            // Both are verified by the file as it was before.
            let policy = HostKeyPolicy::KnownHosts(Arc::new(verifier("", "", |settings| {
                settings.user_known_hosts = vec![file.clone()];
                settings.host_key_check = check;
            })));
            let accept = async |seed| {
                let verification = policy.verify(&public_key(seed).into(), false).unwrap();
                policy.accept(verification).await
            };
            assert_eq!(accept(NODE).await, Ok(true));
            let second = accept(OTHER).await;
            assert_eq!(matches!(second, Err(Fault::HostKeyChanged(_))), is_refused, "{second:?}");
            assert_eq!(accept(NODE).await, Ok(true));
            assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1);
        }
    }

    #[tokio::test]
    async fn inspecting_never_continues_and_only_the_pinned_key_is_accepted() {
        let continues = async |policy: HostKeyPolicy| {
            let verification = policy.verify(&public_key(NODE).into(), false).unwrap();
            policy.accept(verification).await
        };
        let known = Arc::new(verifier("n1 <A>", "", |_| ()));
        let algorithms = known.host_key_algorithms.clone();
        assert_eq!(continues(HostKeyPolicy::Inspect(known, algorithms)).await, Ok(false));
        let pinned = |seed| HostKeyPolicy::Pinned(Some(public_key(seed).key_data().clone()));
        assert_eq!(continues(pinned(NODE)).await, Ok(true));
        assert!(matches!(continues(pinned(OTHER)).await, Err(Fault::HostKeyChanged(_))));
        assert!(matches!(
            continues(HostKeyPolicy::Pinned(None)).await,
            Err(Fault::HostKeyUnknown { .. })
        ));
    }
}
