//! Chooses the keys and certificates to offer, their order, and their signers.
//!
//! The order is that of ssh: certificates of the configuration, configured keys that the agent holds, its other
//! keys, then the files. What cannot be used is skipped with a reason.

use std::path::PathBuf;
use std::sync::Arc;

use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, HashAlg, PrivateKey, PublicKey};

use crate::auth::Login;
use crate::auth::identity::KeyFile;
use crate::host_keys::certificate;
use gtop_local::fault::ssh::{Fault, KeyFileProblem};
use gtop_local::text;
use gtop_local::time::Timestamp;

/// Signature algorithms used only if the configuration lists them.
const DEPRECATED: [&str; 4] =
    ["ssh-rsa", "ssh-dss", "ssh-rsa-cert-v01@openssh.com", "ssh-dss-cert-v01@openssh.com"];

/// The sources of keys to choose from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySources<'a> {
    pub(crate) login: &'a Login,
    /// The keys of the agent, in its order.
    pub(crate) agent_keys: &'a [AgentIdentity],
    pub(crate) now: Timestamp,
}

/// What is offered to the node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Credential {
    Key(KeyData),
    Certificate(Arc<Certificate>),
}

/// What signs for a credential.
#[derive(Debug, Clone)]
pub(crate) enum KeySigner {
    /// The agent, with this key.
    Agent(Box<AgentIdentity>),
    File(Arc<PrivateKey>),
}

/// One key or certificate to offer.
#[derive(Debug, Clone)]
pub(crate) struct CredentialCandidate {
    /// Its name for the user: a file, a fingerprint, a certificate id.
    pub(crate) name: String,
    pub(crate) credential: Credential,
    pub(crate) signer: KeySigner,
}

/// The keys that are not offered.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    pub(crate) skipped: Vec<SkippedKey>,
    /// Encrypted files without their passphrase.
    pub(crate) locked: Vec<PathBuf>,
    /// Files with a problem the user can fix.
    pub(crate) unusable: Vec<(PathBuf, KeyFileProblem)>,
}

impl LeftOut {
    /// Returns the fault of a login to a node with these methods, if a key that is not offered is why.
    pub(crate) fn fault(&self, offers: &[String]) -> Option<Fault> {
        let locked = self.locked.first().map(|file| Fault::KeyEncrypted { file: file.clone() });
        locked.or_else(|| {
            let (file, problem) = self.unusable.first()?.clone();
            Some(Fault::KeyUnusable { file, problem, offers: offers.to_vec() })
        })
    }
}

/// A key that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedKey {
    /// Its file, or its name in the agent.
    pub(crate) name: String,
    pub(crate) why: &'static str,
}

impl KeySigner {
    fn of_agent(key: &AgentIdentity) -> Self {
        Self::Agent(Box::new(key.clone()))
    }
}

impl Credential {
    fn key(&self) -> &KeyData {
        match self {
            Self::Key(key) => key,
            Self::Certificate(certificate) => certificate.public_key(),
        }
    }

    pub(crate) fn is_rsa(&self) -> bool {
        matches!(self.key(), KeyData::Rsa(_))
    }

    /// Returns its signature algorithm with a hash, which only RSA keys can choose.
    fn signature_algorithm(&self, hash: Option<HashAlg>) -> Algorithm {
        if self.is_rsa() { Algorithm::Rsa { hash } } else { self.key().algorithm() }
    }

    /// Returns the hashes an RSA key may sign with, in order of preference; a single `None` for other allowed keys.
    /// Empty if the key is not allowed.
    pub(crate) fn hashes(&self, algorithms: &[String]) -> Vec<Option<HashAlg>> {
        let hashes: &[Option<HashAlg>] = if self.is_rsa() {
            &[Some(HashAlg::Sha512), Some(HashAlg::Sha256), None]
        } else {
            &[None]
        };
        let positions = hashes.iter().filter_map(|hash| {
            let algorithm = self.signature_algorithm(*hash);
            let name = match self {
                Self::Key(_) => algorithm.as_str().to_owned(),
                Self::Certificate(_) => algorithm.to_certificate_type(),
            };
            let position = match algorithms {
                [] => (!DEPRECATED.contains(&&*name)).then_some(0),
                listed => listed.iter().position(|listed| *listed == name),
            };
            Some((position?, *hash))
        });
        let mut allowed: Vec<_> = positions.collect();
        allowed.sort_by_key(|(position, _)| *position);
        allowed.into_iter().map(|(_, hash)| hash).collect()
    }
}

/// A key or certificate whose signer is not known yet.
struct Entry<'a> {
    name: String,
    credential: Credential,
    /// The file it came from.
    file: Option<&'a KeyFile>,
    /// The same credential in the agent.
    agent_key: Option<&'a AgentIdentity>,
}

/// Selects and orders the candidates.
pub(crate) fn select(sources: KeySources<'_>) -> (Vec<CredentialCandidate>, LeftOut) {
    let (mut candidates, mut left_out) = (Vec::<CredentialCandidate>::new(), LeftOut::default());
    let files = file_entries(sources, &mut left_out);
    for entry in order_entries(sources, files) {
        match entry.candidate(sources) {
            Ok(new) if candidates.iter().any(|other| other.credential == new.credential) => {}
            Ok(new) => candidates.push(new),
            Err(skipped) => left_out.skipped.push(skipped),
        }
    }
    (candidates, left_out)
}

/// Lists the credentials of the files, each key before its certificate.
fn file_entries<'a>(sources: KeySources<'a>, left_out: &mut LeftOut) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for identity in &sources.login.identities {
        let key_file = &identity.key_file;
        if let Some(key) = key_file.public_key() {
            entries.push(Entry {
                name: identity.name(),
                credential: Credential::Key(key.clone()),
                file: Some(key_file),
                agent_key: None,
            });
        } else if !matches!(key_file, KeyFile::Missing)
            && let Err(why) = key_file.private_key()
        {
            left_out.skipped.push(SkippedKey { name: identity.name(), why });
        }
        if matches!(key_file, KeyFile::Encrypted(public) if !sources.agent_holds(public.as_ref())) {
            left_out.locked.push(identity.path.clone());
        }
        let problem = sources.problem(key_file);
        left_out.unusable.extend(problem.map(|problem| (identity.path.clone(), problem)));
        // `CertificateFile` replaces the certificates beside the keys.
        if let Some(certificate) = &identity.certificate
            && sources.login.certificates.is_empty()
        {
            entries.push(sources.certificate_entry(&identity.name(), certificate));
        }
    }
    entries
}

/// Orders: configured certificates, configured keys in the agent, other keys of the agent, files.
fn order_entries<'a>(sources: KeySources<'a>, mut files: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
    let certificates = sources.login.certificates.iter().filter_map(|file| {
        let path = file.path.display().to_string();
        Some(sources.certificate_entry(&path, file.certificate.as_ref()?))
    });
    let (mut configured, mut others) = (Vec::new(), Vec::new());
    for agent_key in sources.agent_keys {
        let credential = credential_of(agent_key);
        if let Some(index) = files.iter().position(|entry| entry.credential == credential) {
            let entry = files.remove(index);
            let name = format!("{} in the agent", entry.name);
            configured.push(Entry { name, agent_key: Some(agent_key), ..entry });
        } else if !sources.login.settings.keys.identities_only {
            let name = match &credential {
                Credential::Key(key) => format!("agent {}", key.fingerprint(HashAlg::Sha256)),
                Credential::Certificate(certificate) => {
                    sources.certificate_name("agent", certificate)
                }
            };
            others.push(Entry { name, credential, file: None, agent_key: Some(agent_key) });
        }
    }
    certificates.chain(configured).chain(others).chain(files).collect()
}

fn credential_of(agent_key: &AgentIdentity) -> Credential {
    match agent_key {
        AgentIdentity::PublicKey { key, .. } => Credential::Key(key.into()),
        AgentIdentity::Certificate { certificate, .. } => {
            Credential::Certificate(Arc::new(certificate.clone()))
        }
    }
}

impl<'a> KeySources<'a> {
    /// Returns the signature algorithms allowed; the default when empty.
    fn algorithms(self) -> &'a [String] {
        &self.login.settings.algorithms.signatures
    }

    /// Returns the size of an RSA key that is shorter than `RequiredRSASize`.
    fn short_rsa_bits(self, key: &KeyData) -> Option<u32> {
        certificate::short_rsa_bits(key, self.login.settings.min_rsa_bits)
    }

    fn certificate_entry(self, source: &str, certificate: &Arc<Certificate>) -> Entry<'a> {
        Entry {
            name: self.certificate_name(source, certificate),
            credential: Credential::Certificate(Arc::clone(certificate)),
            file: None,
            agent_key: None,
        }
    }

    /// Names a certificate, with the reason why the node may refuse it. It is offered anyway: the node decides, and its
    /// clock may differ.
    fn certificate_name(self, source: &str, certificate: &Certificate) -> String {
        let now = u64::try_from(self.now.as_micros() / 1_000_000).unwrap_or(0);
        let principals = certificate.valid_principals();
        let problem = if certificate.valid_before() <= now {
            ", expired".to_owned()
        } else if certificate.valid_after() > now {
            ", not valid yet".to_owned()
        } else if !principals.is_empty()
            && !principals.iter().any(|name| *name == self.login.settings.user)
        {
            format!(", for {}", text::excerpt(&principals.join(" "), 64))
        } else {
            String::new()
        };
        format!("{source} certificate '{}'{problem}", text::excerpt(certificate.key_id(), 64))
    }

    /// Returns why a key file cannot be used, if the user can fix it.
    fn problem(self, file: &KeyFile) -> Option<KeyFileProblem> {
        if let KeyFile::Unprotected(public) = file {
            return (!self.agent_holds(public.as_ref())).then_some(KeyFileProblem::Unprotected);
        }
        let KeyFile::Usable(key) = file else { return None };
        if let Some(bits) = self.short_rsa_bits(key.public_key().key_data()) {
            return Some(KeyFileProblem::TooShort(bits));
        }
        let credential = Credential::Key(key.public_key().into());
        let algorithm = credential.signature_algorithm(Some(HashAlg::Sha512));
        let is_excluded = credential.hashes(self.algorithms()).is_empty();
        is_excluded.then(|| KeyFileProblem::AlgorithmExcluded(algorithm.to_string()))
    }

    /// Returns true if the agent holds a key.
    fn agent_holds(self, key: Option<&KeyData>) -> bool {
        key.is_some_and(|key| self.find_plain_key(key).is_some())
    }

    /// Finds a plain key in the agent.
    fn find_plain_key(self, wanted: &KeyData) -> Option<&'a AgentIdentity> {
        self.agent_keys.iter().find(|agent_key| {
            matches!(agent_key, AgentIdentity::PublicKey { key, .. } if key.key_data() == wanted)
        })
    }

    /// Returns the signer for a certificate: the agent, or the file of its key.
    fn signer(self, certificate: &Certificate) -> Option<KeySigner> {
        let wanted = certificate.public_key();
        if let Some(agent_key) = self.find_plain_key(wanted) {
            return Some(KeySigner::of_agent(agent_key));
        }
        let files = self.login.identities.iter().map(|identity| &identity.key_file);
        let mut opened = files.filter(|file| file.public_key() == Some(wanted));
        opened.find_map(|file| Some(KeySigner::File(Arc::clone(file.private_key().ok()?))))
    }
}

impl Entry<'_> {
    /// Returns the candidate with its signer, or the key that is skipped.
    fn candidate(self, sources: KeySources<'_>) -> Result<CredentialCandidate, SkippedKey> {
        match self.signer(sources) {
            Ok(signer) => {
                Ok(CredentialCandidate { name: self.name, credential: self.credential, signer })
            }
            Err(why) => Err(SkippedKey { name: self.name, why }),
        }
    }

    fn signer(&self, sources: KeySources<'_>) -> Result<KeySigner, &'static str> {
        if sources.short_rsa_bits(self.credential.key()).is_some() {
            return Err("it is shorter than RequiredRSASize");
        }
        if self.credential.hashes(sources.algorithms()).is_empty() {
            return Err("its kind is not in PubkeyAcceptedAlgorithms");
        }
        match (&self.credential, self.agent_key, self.file) {
            (Credential::Certificate(certificate), agent_key, _) => {
                let signer = sources.signer(certificate);
                signer
                    .or_else(|| agent_key.map(KeySigner::of_agent))
                    .ok_or("its private key is missing")
            }
            (Credential::Key(_), Some(agent_key), _) => Ok(KeySigner::of_agent(agent_key)),
            (Credential::Key(_), None, Some(file)) => {
                Ok(KeySigner::File(Arc::clone(file.private_key()?)))
            }
            (Credential::Key(_), None, None) => Err("nothing can sign for it"),
        }
    }
}

impl CredentialCandidate {
    /// Returns the public key as sent to the node.
    pub(crate) fn public_key(&self) -> PublicKey {
        PublicKey::from(self.credential.key().clone())
    }
}
