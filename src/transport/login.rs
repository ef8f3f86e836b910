//! Proves who the user is, with public keys only.
//!
//! Keys are shown in OpenSSH's order and at most five of them, because a server
//! counts every refused key and hangs up at the sixth. A password is never sent.

use std::path::PathBuf;
use std::sync::Arc;

use russh::client::AuthResult;
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey};
use russh::{MethodKind, MethodSet};

use crate::transport::agent::Agent;
use crate::transport::fault::{Fault, Step};
use crate::transport::identity::{Identity, KeyFile};
use crate::transport::session::{End, Session};

/// Most keys shown to one node.
const MOST_KEYS: usize = 5;

/// Who wants in, and with what.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) identities: Vec<Identity>,
    /// Whether the user chose the identities, rather than OpenSSH's defaults.
    pub(super) are_chosen: bool,
    pub(super) agent: Option<PathBuf>,
    /// Whether no other key of the agent may be shown.
    pub(super) only_these: bool,
    /// False when the configuration forbids public keys.
    pub(super) keys_allowed: bool,
}

/// One key to show.
enum Candidate {
    /// The agent signs.
    InAgent(PublicKey),
    /// We sign.
    File(PathBuf, Arc<PrivateKey>),
}

impl Candidate {
    fn is_rsa(&self) -> bool {
        let algorithm = match self {
            Self::InAgent(key) => key.algorithm(),
            Self::File(_, key) => key.algorithm(),
        };
        algorithm.is_rsa()
    }

    fn name(&self) -> String {
        match self {
            Self::InAgent(key) => format!("agent {}", key.fingerprint(HashAlg::Sha256)),
            Self::File(path, _) => path.display().to_string(),
        }
    }
}

/// What one attempt came to.
enum Attempt {
    In,
    Refused,
    /// The key was not shown, or could not sign.
    Skipped(&'static str),
}

/// What happened so far.
struct Tally {
    offers: MethodSet,
    tried: Vec<String>,
}

impl Login {
    /// Logs in, or says why not.
    pub(super) async fn run(&self, session: &mut Session) -> Result<(), Fault> {
        let first = session.handle.authenticate_none(&self.user).await;
        let mut tally = Tally { offers: MethodSet::empty(), tried: Vec::new() };
        if let Attempt::In = self.weigh(first, session, &mut tally)? {
            return Ok(());
        }
        if !self.keys_allowed {
            tally.tried.push("nothing, PubkeyAuthentication is off".to_owned());
            return Err(self.refused(&tally));
        }
        if !tally.offers.contains(&MethodKind::PublicKey) {
            return Err(self.refused(&tally));
        }
        let (mut agent, agent_fault) = self.open_agent().await;
        let candidates = self.candidates(agent.as_ref());
        for candidate in candidates.iter().take(MOST_KEYS) {
            match self.show(candidate, session, agent.as_mut(), &mut tally).await? {
                Attempt::In => return Ok(()),
                Attempt::Refused => tally.tried.push(candidate.name()),
                Attempt::Skipped(why) => tally.tried.push(format!("{} ({why})", candidate.name())),
            }
        }
        if candidates.len() > MOST_KEYS {
            let left = candidates.len() - MOST_KEYS;
            tally.tried.push(format!("not {left} more keys; set IdentitiesOnly"));
        }
        Err(self.out_of_keys(tally, candidates.is_empty(), agent_fault))
    }

    async fn open_agent(&self) -> (Option<Agent>, Option<Fault>) {
        let Some(socket) = &self.agent else { return (None, None) };
        match Agent::open(socket).await {
            Ok(agent) => (Some(agent), None),
            Err(fault) => (None, Some(fault)),
        }
    }

    /// Lists the keys to show: chosen ones the agent holds, its others, then files.
    ///
    /// When there are too many, chosen files go before keys that just happen to be
    /// in the agent; ssh would never get to them.
    fn candidates(&self, agent: Option<&Agent>) -> Vec<Candidate> {
        let held = agent.map(|agent| agent.keys.as_slice()).unwrap_or_default();
        let is_ours = |key: &&PublicKey| {
            self.identities.iter().any(|identity| identity.file.public() == Some(key.key_data()))
        };
        let (ours, others): (Vec<_>, Vec<_>) = held.iter().partition(is_ours);
        let others = others.into_iter().filter(|_| !self.only_these);
        let in_agent = |key: &PublicKey| Candidate::InAgent(key.clone());
        let others: Vec<_> = others.map(in_agent).collect();
        let mut candidates: Vec<_> = ours.into_iter().map(in_agent).collect();
        let files = self.identities.iter().filter_map(|identity| match &identity.file {
            KeyFile::Open(key) => {
                let is_held =
                    held.iter().any(|held| held.key_data() == key.public_key().key_data());
                (!is_held).then(|| Candidate::File(identity.path.clone(), Arc::clone(key)))
            }
            KeyFile::Locked(_) | KeyFile::Public(_) | KeyFile::Unusable(_) | KeyFile::Absent => {
                None
            }
        });
        let files: Vec<_> = files.collect();
        let are_too_many = candidates.len() + others.len() + files.len() > MOST_KEYS;
        let (second, third) =
            if self.are_chosen && are_too_many { (files, others) } else { (others, files) };
        candidates.extend(second.into_iter().chain(third));
        candidates
    }

    async fn show(
        &self,
        candidate: &Candidate,
        session: &mut Session,
        agent: Option<&mut Agent>,
        tally: &mut Tally,
    ) -> Result<Attempt, Fault> {
        let mut hash = None;
        if candidate.is_rsa() {
            match session.handle.best_supported_rsa_hash().await {
                // SHA-1 only: OpenSSH would not sign with it either.
                Ok(Some(None)) => {
                    return Ok(Attempt::Skipped("node knows only ssh-rsa with SHA-1"));
                }
                Ok(Some(best)) => hash = best,
                Ok(None) => hash = Some(HashAlg::Sha512),
                Err(error) => return self.weigh(Err(error), session, tally),
            }
        }
        match (candidate, agent) {
            (Candidate::File(_, key), _) => {
                let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
                let result = session.handle.authenticate_publickey(&self.user, key).await;
                self.weigh(result, session, tally)
            }
            (Candidate::InAgent(key), Some(agent)) => {
                let asked = session.handle.authenticate_publickey_with(
                    &self.user,
                    key.clone(),
                    hash,
                    agent,
                );
                match asked.await {
                    Ok(result) => self.weigh(Ok(result), session, tally),
                    Err(_not_signed) if session.handle.is_closed() => {
                        Err(self.ended(session, tally))
                    }
                    Err(_not_signed) => Ok(Attempt::Skipped("the agent did not sign")),
                }
            }
            (Candidate::InAgent(_), None) => Ok(Attempt::Skipped("the agent is gone")),
        }
    }

    /// Reads the node's answer to one attempt.
    fn weigh(
        &self,
        result: Result<AuthResult, russh::Error>,
        session: &Session,
        tally: &mut Tally,
    ) -> Result<Attempt, Fault> {
        match result {
            Ok(AuthResult::Success) => Ok(Attempt::In),
            // russh says the same when the connection is gone.
            Ok(AuthResult::Failure { remaining_methods, .. })
                if remaining_methods.is_empty() && session.handle.is_closed() =>
            {
                Err(self.ended(session, tally))
            }
            Ok(AuthResult::Failure { remaining_methods, partial_success: true }) => {
                let wants = names(&remaining_methods);
                Err(Fault::MoreAuthentication { user: self.user.clone(), wants })
            }
            Ok(AuthResult::Failure { remaining_methods, partial_success: false }) => {
                tally.offers = remaining_methods;
                Ok(Attempt::Refused)
            }
            Err(_) => Err(self.ended(session, tally)),
        }
    }

    /// The connection ended during login: a node that says why has refused us.
    fn ended(&self, session: &Session, tally: &Tally) -> Fault {
        match session.seen.end() {
            Some(End::Dismissed(words)) => {
                let mut tried = tally.tried.clone();
                tried.push(format!("until the node said: {words}"));
                Fault::AuthenticationRefused {
                    user: self.user.clone(),
                    offers: names(&tally.offers),
                    tried,
                }
            }
            Some(End::Broke(_)) | None => {
                Fault::Broken { step: Step::Login, why: session.seen.why() }
            }
        }
    }

    fn out_of_keys(&self, mut tally: Tally, had_none: bool, agent_fault: Option<Fault>) -> Fault {
        let locked =
            self.identities.iter().find(|identity| matches!(identity.file, KeyFile::Locked(_)));
        if let Some(identity) = locked {
            if had_none {
                return Fault::KeyEncrypted { file: identity.path.clone() };
            }
            tally
                .tried
                .push(format!("not {}, which is encrypted (ssh-add it)", identity.path.display()));
        }
        if had_none && let Some(fault) = agent_fault {
            return fault;
        }
        if had_none {
            tally.tried.push("no key to show".to_owned());
            for identity in &self.identities {
                if let KeyFile::Unusable(why) = identity.file {
                    tally.tried.push(format!("{} {why}", identity.path.display()));
                }
            }
        }
        self.refused(&tally)
    }

    fn refused(&self, tally: &Tally) -> Fault {
        Fault::AuthenticationRefused {
            user: self.user.clone(),
            offers: names(&tally.offers),
            tried: tally.tried.clone(),
        }
    }
}

fn names(methods: &MethodSet) -> Vec<String> {
    methods.iter().map(String::from).collect()
}
