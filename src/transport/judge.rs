//! Whether to believe the key a node shows: what the files say, and what
//! `StrictHostKeyChecking` makes of it.
//!
//! The verdict is the one of OpenSSH's `ssh` with the same configuration:
//!
//! - `RevokedHostKeys` is asked first and refuses whatever else is said.
//! - A certificate counts when an authority the files name for the host signed it and it is good;
//!   if not, its key is judged like a plain one, as in OpenSSH.
//! - A known key, or one with a good certificate, is believed.
//! - A key that is unknown is refused with `yes` and `ask`: the question `ssh` would ask is
//!   `gtop trust`. With `accept-new` and `no` it is written to the first `UserKnownHostsFile` and
//!   believed; when it cannot be written that is a warning in the log and no more, so
//!   `UserKnownHostsFile /dev/null` works as it does with `ssh`.
//! - A key that has changed is refused, but for `no`, with which `ssh` connects and sends no
//!   password. gtop sends no password to any node, so it connects as well, and warns in the log.
//!
//! In these points gtop is stricter than OpenSSH: a key or an authority marked `@revoked` is
//! refused with `no` as well; a certificate without names is for nobody, as in later versions
//! than 9.2; an RSA key must have 1024 bits whatever `RequiredRSASize` says; localhost is
//! checked like any other host; `VerifyHostKeyDNS` is not followed. Addresses are not looked up
//! beside names: `CheckHostIP` is off in OpenSSH too.

use std::path::PathBuf;
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Certificate, PublicKeyOrCertificate};

use crate::time::{Clock, Timestamp};
use crate::transport::certificate::{self, Flaw};
use crate::transport::fault::{Fault, HostKeyChange};
use crate::transport::host_keys::{Authority, HostKeys, Verdict};
use crate::transport::known_hosts;
use crate::transport::offer::Offer;
use crate::transport::revoked::Revoked;
use crate::transport::ssh_config::{HostKeyCheck, Settings};
use crate::transport::trust;

/// What to do with the key a node shows.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Believe the files.
    Known(Arc<Judge>),
    /// Believe this key only; none at all when there is none.
    Pinned(Option<KeyData>),
    /// Note what the files say and go no further.
    Look(Arc<Judge>),
}

/// Everything that decides about the keys of one host.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) settings: Arc<Settings>,
    known: HostKeys,
    /// The list of `RevokedHostKeys`, and its file.
    revoked: Option<(PathBuf, Arc<Revoked>)>,
    offer: Offer,
}

/// What is to be said about a key a node has shown.
#[derive(Debug, Clone)]
pub(super) struct Judgement {
    pub(super) key: KeyData,
    pub(super) verdict: Verdict,
    /// Why the certificate around the key does not count.
    pub(super) flaw: Option<Flaw>,
}

impl Trust {
    /// Returns the kinds of key to ask for.
    pub(super) fn offer(&self) -> Offer {
        match self {
            Self::Known(judge) | Self::Look(judge) => judge.offer.clone(),
            Self::Pinned(key) => Offer::pinned(key.as_ref()),
        }
    }

    /// Judges what a node shows.
    pub(super) fn judge(&self, shown: &PublicKeyOrCertificate) -> Result<Judgement, Fault> {
        match self {
            Self::Known(judge) | Self::Look(judge) => judge.judge(shown, Clock::system().now()),
            Self::Pinned(pinned) => Ok(judge_pinned(pinned.as_ref(), shown)),
        }
    }

    /// Returns whether to go on after a judgement, or why not. An unknown key that is believed is
    /// written down.
    pub(super) async fn admit(&self, judgement: Judgement) -> Result<bool, Fault> {
        let judge = match self {
            Self::Look(_) => return Ok(false),
            Self::Known(judge) => judge,
            Self::Pinned(_) => {
                let fault = judgement.fault("this node");
                return fault.map_or(Ok(true), Err);
            }
        };
        let host = &judge.known.name.full;
        let Some(fault) = judgement.fault(host) else { return Ok(true) };
        match (&judgement.verdict, judge.settings.host_key_check) {
            (Verdict::Unknown, HostKeyCheck::AcceptNew | HostKeyCheck::No) => {
                let settings = Arc::clone(&judge.settings);
                let key = judgement.key.clone();
                let done = tokio::task::spawn_blocking(move || trust::remember(&settings, &key));
                if let Ok(Err(fault)) = done.await {
                    log::warn!("{host}: the host key is believed but not stored: {fault}");
                }
                Ok(true)
            }
            (Verdict::Changed { .. }, HostKeyCheck::No) => {
                log::warn!("{fault}; StrictHostKeyChecking no connects all the same");
                Ok(true)
            }
            _ => Err(fault),
        }
    }
}

impl Judge {
    pub(super) fn new(
        settings: Arc<Settings>,
        known: HostKeys,
        revoked: Option<(PathBuf, Arc<Revoked>)>,
    ) -> Self {
        let offer = Offer::new(&settings.algorithms.host_keys, &known);
        Self { settings, known, revoked, offer }
    }

    fn judge(&self, shown: &PublicKeyOrCertificate, now: Timestamp) -> Result<Judgement, Fault> {
        let (key, around) = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => (key.key_data(), None),
            PublicKeyOrCertificate::Certificate(around) => (around.public_key(), Some(around)),
        };
        self.check_kind(key, around)?;
        if let Some(around) = around.filter(|around| !certificate::is_signed(around)) {
            return Err(Fault::HostCertificateRefused {
                host: self.known.name.full.clone(),
                why: "has a false signature".to_owned(),
                algorithm: around.algorithm().to_string(),
                fingerprint: known_hosts::fingerprint(key),
            });
        }
        let judged = |verdict, flaw| Ok(Judgement { key: key.clone(), verdict, flaw });
        if let Some((file, revoked)) = &self.revoked
            && around.map_or_else(|| revoked.has_key(key), |around| revoked.has_certificate(around))
        {
            return judged(Verdict::Revoked { file: file.clone(), line: None }, None);
        }
        let Some(around) = around else { return judged(self.known.judge(key), None) };
        match self.judge_certificate(around, now) {
            Certified::Yes(verdict) => judged(verdict, None),
            Certified::No(flaw) => judged(self.known.judge(key), flaw),
            // As in OpenSSH, what is said of the host without its port comes last.
            Certified::Stolen(verdict) => match self.known.judge(key) {
                Verdict::Known => judged(Verdict::Known, None),
                Verdict::Certified { .. }
                | Verdict::Unknown
                | Verdict::Changed { .. }
                | Verdict::Revoked { .. } => judged(verdict, None),
            },
        }
    }

    fn judge_certificate(&self, around: &Certificate, now: Timestamp) -> Certified {
        let [full, portless] = self.known.authorities(around);
        let name = self.known.name.principal();
        let check = |file, line| {
            let signatures = &self.settings.algorithms.authority_signatures;
            match certificate::check(around, name, now, signatures) {
                Ok(()) => Certified::Yes(Verdict::Certified { file, line }),
                Err(flaw) => Certified::No(Some(flaw)),
            }
        };
        let revoked = |file, line| Verdict::Revoked { file, line: Some(line) };
        match (full, portless) {
            (Authority::Revoked { file, line }, _) => Certified::Yes(revoked(file, line)),
            (Authority::Trusted { file, line }, _)
            | (Authority::Unknown, Authority::Trusted { file, line }) => check(file, line),
            (Authority::Unknown, Authority::Revoked { file, line }) => {
                Certified::Stolen(revoked(file, line))
            }
            (Authority::Unknown, Authority::Unknown) => Certified::No(None),
        }
    }

    /// A node must show what was agreed upon, and nothing that is too weak.
    fn check_kind(&self, key: &KeyData, around: Option<&Certificate>) -> Result<(), Fault> {
        let short = [Some(key), around.map(Certificate::signature_key)];
        let short = short.into_iter().flatten().find_map(certificate::is_too_short);
        let theirs = match short {
            Some(bits) => format!("an RSA key of {bits} bits"),
            None if self.offer.includes(key, around.is_some()) => return Ok(()),
            None => key.algorithm().to_string(),
        };
        Err(Fault::NoCommonAlgorithm {
            kind: "host key",
            ours: self.offer.keys.iter().map(ToString::to_string).collect(),
            theirs: vec![theirs],
        })
    }
}

/// What a certificate is worth.
enum Certified {
    /// It decides.
    Yes(Verdict),
    /// It does not count, for a reason that is worth telling.
    No(Option<Flaw>),
    /// It decides unless its key is known by itself.
    Stolen(Verdict),
}

fn judge_pinned(pinned: Option<&KeyData>, shown: &PublicKeyOrCertificate) -> Judgement {
    let key = shown.public_key().key_data().clone();
    let verdict = match pinned {
        Some(pinned) if *pinned == key => Verdict::Known,
        Some(pinned) => Verdict::Changed {
            file: "the fixed profile".into(),
            line: 1,
            known: known_hosts::fingerprint(pinned),
        },
        None => Verdict::Unknown,
    };
    Judgement { key, verdict, flaw: None }
}

impl Judgement {
    /// Returns what is wrong with the key; nothing when the host has proved to be itself.
    pub(super) fn fault(&self, host: &str) -> Option<Fault> {
        let host = host.to_owned();
        let (algorithm, fingerprint) =
            (self.key.algorithm().to_string(), known_hosts::fingerprint(&self.key));
        Some(match &self.verdict {
            Verdict::Known | Verdict::Certified { .. } => return None,
            Verdict::Unknown => match &self.flaw {
                None => Fault::HostKeyUnknown { host, algorithm, fingerprint },
                Some(flaw) => {
                    let why = flaw.to_string();
                    Fault::HostCertificateRefused { host, why, algorithm, fingerprint }
                }
            },
            Verdict::Changed { file, line, known } => {
                Fault::HostKeyChanged(Box::new(HostKeyChange {
                    host,
                    file: file.clone(),
                    line: *line,
                    known: known.clone(),
                    algorithm,
                    shown: fingerprint,
                }))
            }
            Verdict::Revoked { file, line } => {
                let (file, line) = (file.clone(), *line);
                Fault::HostKeyRevoked { host, algorithm, fingerprint, file, line }
            }
        })
    }
}
