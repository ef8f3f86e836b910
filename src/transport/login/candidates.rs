//! Which keys and certificates are shown, in which order, and who signs for them.
//!
//! The order is that of ssh: certificates of the configuration, then what the agent holds of the
//! configured files, then its other keys, then the files. What cannot be shown is left out with
//! the reason.

use std::path::PathBuf;
use std::sync::Arc;

use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, HashAlg, PrivateKey, PublicKey};

use crate::time::Timestamp;
use crate::transport::fault::{self, KeyFileProblem};
use crate::transport::identity::{CertificateFile, IdentityFile, KeyFile};

/// Signature algorithms that count only when the configuration names them.
const DEPRECATED: [&str; 4] =
    ["ssh-rsa", "ssh-dss", "ssh-rsa-cert-v01@openssh.com", "ssh-dss-cert-v01@openssh.com"];

/// Why an encrypted file nobody opened is not shown.
const ENCRYPTED: &str = "encrypted; ssh-add it";

/// Why one is not shown that others than its owner may read.
const UNPROTECTED: &str = "can be read by others; chmod 600 it";

/// The same for one that gtop could not open with its passphrase either.
const LEGACY_ENCRYPTED: &str =
    "encrypted in an old form; rewrite it with ssh-keygen -p, or ssh-add it";

/// What there is to choose from.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeySources<'a> {
    pub(super) identities: &'a [IdentityFile],
    pub(super) certificates: &'a [CertificateFile],
    /// What the agent holds, in its order.
    pub(super) held: &'a [AgentIdentity],
    /// Whether nothing else of the agent may be shown.
    pub(super) identities_only: bool,
    /// Names of the algorithms to sign with; those of today when empty.
    pub(super) algorithms: &'a [String],
    /// Who wants in.
    pub(super) user: &'a str,
    pub(super) now: Timestamp,
}

/// What is shown to the node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Credential {
    Key(KeyData),
    Certificate(Arc<Certificate>),
}

/// Who signs.
#[derive(Debug, Clone)]
pub(super) enum KeySigner {
    /// The agent, with this key of its.
    Agent(Box<AgentIdentity>),
    File(Arc<PrivateKey>),
}

/// One key or certificate to show.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// What people call it: a file, a fingerprint, the id of a certificate.
    pub(super) name: String,
    pub(super) credential: Credential,
    pub(super) signer: KeySigner,
}

/// The keys to show, and why the others are not shown.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) candidates: Vec<Candidate>,
    pub(super) skipped: Vec<String>,
    /// The encrypted files nobody opened.
    pub(super) locked: Vec<PathBuf>,
    /// Files that a person can make of use.
    pub(super) unusable: Vec<(PathBuf, KeyFileProblem)>,
}

impl Credential {
    fn key(&self) -> &KeyData {
        match self {
            Self::Key(key) => key,
            Self::Certificate(certificate) => certificate.public_key(),
        }
    }

    pub(super) fn is_rsa(&self) -> bool {
        matches!(self.key(), KeyData::Rsa(_))
    }

    /// Returns the name of the algorithm it signs by, the preferred one.
    fn kind(&self) -> String {
        let hash = Some(HashAlg::Sha512);
        let algorithm =
            if self.is_rsa() { Algorithm::Rsa { hash } } else { self.key().algorithm() };
        algorithm.as_str().to_owned()
    }

    /// Returns the hashes an RSA key may sign with, the preferred first; one nothing for any other
    /// kind of key that may sign. None at all when it may not.
    pub(super) fn hashes(&self, algorithms: &[String]) -> Vec<Option<HashAlg>> {
        let name = |hash| {
            let algorithm =
                if self.is_rsa() { Algorithm::Rsa { hash } } else { self.key().algorithm() };
            match self {
                Self::Key(_) => algorithm.as_str().to_owned(),
                Self::Certificate(_) => algorithm.to_certificate_type(),
            }
        };
        let hashes: &[Option<HashAlg>] = if self.is_rsa() {
            &[Some(HashAlg::Sha512), Some(HashAlg::Sha256), None]
        } else {
            &[None]
        };
        let place = |name: &str| match algorithms {
            [] => (!DEPRECATED.contains(&name)).then_some(0),
            listed => listed.iter().position(|listed| listed == name),
        };
        let mut allowed: Vec<_> =
            hashes.iter().filter_map(|hash| Some((place(&name(*hash))?, *hash))).collect();
        allowed.sort_by_key(|(place, _)| *place);
        allowed.into_iter().map(|(_, hash)| hash).collect()
    }
}

/// A key or certificate before it is known whether anybody can sign for it.
struct Entry<'a> {
    name: String,
    credential: Credential,
    /// The file of the key, where it came from one.
    file: Option<&'a KeyFile>,
    /// The agent's own, where it holds exactly this.
    held: Option<&'a AgentIdentity>,
}

/// Chooses and orders.
pub(super) fn select(sources: KeySources<'_>) -> Selection {
    let mut selection = Selection::default();
    let files = file_entries(sources, &mut selection);
    for entry in in_order(sources, files) {
        match entry.candidate(sources) {
            Ok(candidate) if selection.has(&candidate.credential) => {}
            Ok(candidate) => selection.candidates.push(candidate),
            Err(why) => selection.skipped.push(format!("{} ({why})", entry.name)),
        }
    }
    selection
}

impl Selection {
    fn has(&self, credential: &Credential) -> bool {
        self.candidates.iter().any(|candidate| candidate.credential == *credential)
    }
}

/// Lists what the files hold, each key before its certificate.
fn file_entries<'a>(sources: KeySources<'a>, selection: &mut Selection) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for identity in sources.identities {
        let path = identity.path.display().to_string();
        match &identity.file {
            KeyFile::Missing => {}
            KeyFile::Unusable(why) => selection.skipped.push(format!("{path} ({why})")),
            KeyFile::Unprotected(None) => selection.skipped.push(format!("{path} ({UNPROTECTED})")),
            KeyFile::Encrypted(None) => selection.skipped.push(format!("{path} ({ENCRYPTED})")),
            KeyFile::LegacyEncrypted(None) => {
                selection.skipped.push(format!("{path} ({LEGACY_ENCRYPTED})"))
            }
            KeyFile::Usable(_)
            | KeyFile::Encrypted(_)
            | KeyFile::LegacyEncrypted(_)
            | KeyFile::PublicOnly(_)
            | KeyFile::Unprotected(_)
            | KeyFile::SecurityKey(_) => {
                entries.extend(identity.file.public().map(|key| Entry {
                    name: path.clone(),
                    credential: Credential::Key(key.clone()),
                    file: Some(&identity.file),
                    held: None,
                }));
            }
        }
        if matches!(&identity.file, KeyFile::Encrypted(public) if !sources.holds(public.as_ref())) {
            selection.locked.push(identity.path.clone());
        }
        let flaw = sources.flaw(&identity.file).map(|flaw| (identity.path.clone(), flaw));
        selection.unusable.extend(flaw);
        // With certificates of its own the configuration wants no others.
        if let Some(certificate) = &identity.certificate
            && sources.certificates.is_empty()
        {
            entries.push(sources.certificate_entry(&path, certificate));
        }
    }
    entries
}

/// Returns configured certificates, configured keys the agent holds, its others, the files.
fn in_order<'a>(sources: KeySources<'a>, mut files: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
    let certificates = sources.certificates.iter().filter_map(|file| {
        let path = file.path.display().to_string();
        Some(sources.certificate_entry(&path, file.certificate.as_ref()?))
    });
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for held in sources.held {
        let credential = credential_of(held);
        if let Some(at) = files.iter().position(|entry| entry.credential == credential) {
            let entry = files.remove(at);
            let name = format!("{} in the agent", entry.name);
            ours.push(Entry { name, held: Some(held), ..entry });
        } else if !sources.identities_only {
            let name = match &credential {
                Credential::Key(key) => format!("agent {}", key.fingerprint(HashAlg::Sha256)),
                Credential::Certificate(certificate) => {
                    sources.certificate_name("agent", certificate)
                }
            };
            others.push(Entry { name, credential, file: None, held: Some(held) });
        }
    }
    certificates.chain(ours).chain(others).chain(files).collect()
}

fn credential_of(held: &AgentIdentity) -> Credential {
    match held {
        AgentIdentity::PublicKey { key, .. } => Credential::Key(key.key_data().clone()),
        AgentIdentity::Certificate { certificate, .. } => {
            Credential::Certificate(Arc::new(certificate.clone()))
        }
    }
}

impl<'a> KeySources<'a> {
    fn certificate_entry(self, place: &str, certificate: &Arc<Certificate>) -> Entry<'a> {
        Entry {
            name: self.certificate_name(place, certificate),
            credential: Credential::Certificate(Arc::clone(certificate)),
            file: None,
            held: None,
        }
    }

    /// Names a certificate, with what will keep it from being accepted. It is shown all the same:
    /// the node is the judge, and its clock may differ.
    fn certificate_name(self, place: &str, certificate: &Certificate) -> String {
        let now = u64::try_from(self.now.as_micros() / 1_000_000).unwrap_or(0);
        let principals = certificate.valid_principals();
        let flaw = if certificate.valid_before() <= now {
            ", expired".to_owned()
        } else if certificate.valid_after() > now {
            ", not valid yet".to_owned()
        } else if !principals.is_empty() && !principals.iter().any(|name| name == self.user) {
            format!(", for {}", fault::sanitize(&principals.join(" "), 64))
        } else {
            String::new()
        };
        format!("{place} certificate '{}'{flaw}", fault::sanitize(certificate.key_id(), 64))
    }

    /// Returns what keeps a key file from being used, where a person can change that.
    fn flaw(self, file: &KeyFile) -> Option<KeyFileProblem> {
        match file {
            KeyFile::Unprotected(public) => {
                (!self.holds(public.as_ref())).then_some(KeyFileProblem::Unprotected)
            }
            KeyFile::Usable(key) => {
                let credential = Credential::Key(key.public_key().key_data().clone());
                let kind = || KeyFileProblem::AlgorithmExcluded(credential.kind());
                credential.hashes(self.algorithms).is_empty().then(kind)
            }
            KeyFile::Encrypted(_)
            | KeyFile::LegacyEncrypted(_)
            | KeyFile::PublicOnly(_)
            | KeyFile::SecurityKey(_)
            | KeyFile::Unusable(_)
            | KeyFile::Missing => None,
        }
    }

    /// Returns whether the agent holds a key.
    fn holds(self, key: Option<&KeyData>) -> bool {
        key.is_some_and(|key| self.plain(key).is_some())
    }

    /// Returns the agent's plain key.
    fn plain(self, wanted: &KeyData) -> Option<&'a AgentIdentity> {
        let is_it = |held: &&AgentIdentity| match held {
            AgentIdentity::PublicKey { key, .. } => key.key_data() == wanted,
            AgentIdentity::Certificate { .. } => false,
        };
        self.held.iter().find(is_it)
    }

    /// Returns who can sign for a certificate: the agent, or the file of its key.
    fn signer(self, certificate: &Certificate) -> Option<KeySigner> {
        let wanted = certificate.public_key();
        if let Some(held) = self.plain(wanted) {
            return Some(KeySigner::Agent(Box::new(held.clone())));
        }
        let files = self.identities.iter().map(|identity| &identity.file);
        let mut opened = files.filter(|file| file.public() == Some(wanted));
        opened.find_map(|file| {
            let KeyFile::Usable(key) = file else { return None };
            Some(KeySigner::File(Arc::clone(key)))
        })
    }
}

impl Entry<'_> {
    /// Returns this with who signs for it, or why it is not shown.
    fn candidate(&self, sources: KeySources<'_>) -> Result<Candidate, &'static str> {
        if self.credential.hashes(sources.algorithms).is_empty() {
            return Err("its kind is not in PubkeyAcceptedAlgorithms");
        }
        let signer = match (&self.credential, self.held, self.file) {
            (Credential::Certificate(certificate), held, _) => {
                let own = || held.map(|held| KeySigner::Agent(Box::new(held.clone())));
                sources.signer(certificate).or_else(own).ok_or("its private key is not here")?
            }
            (Credential::Key(_), Some(held), _) => KeySigner::Agent(Box::new(held.clone())),
            (Credential::Key(_), None, Some(file)) => match file {
                KeyFile::Usable(key) => KeySigner::File(Arc::clone(key)),
                KeyFile::Encrypted(_) => return Err(ENCRYPTED),
                KeyFile::LegacyEncrypted(_) => return Err(LEGACY_ENCRYPTED),
                KeyFile::SecurityKey(_) => return Err("needs its security key; ssh-add it"),
                KeyFile::PublicOnly(_) => return Err("only its public half is here"),
                KeyFile::Unprotected(_) => return Err(UNPROTECTED),
                KeyFile::Unusable(why) => return Err(why),
                KeyFile::Missing => return Err("is gone"),
            },
            (Credential::Key(_), None, None) => return Err("nobody signs for it"),
        };
        Ok(Candidate { name: self.name.clone(), credential: self.credential.clone(), signer })
    }
}

impl Candidate {
    /// Returns the public key as the node gets it.
    pub(super) fn public_key(&self) -> PublicKey {
        PublicKey::from(self.credential.key().clone())
    }
}
