//! User authentication, as ssh does it: public keys and keyboard-interactive.
//!
//! Methods are tried in the order of `PreferredAuthentications`, among those the node offers; after a partial
//! success the next one follows. Keys are offered until the node disconnects (`MaxAuthTries`). A password is never
//! sent.

pub(crate) mod agent;
mod candidates;
pub(crate) mod identity;
mod keyboard_interactive;
pub(crate) mod prompt;
mod short_key;
mod signer;

use std::collections::VecDeque;
use std::sync::Arc;

use russh::client::AuthResult;
use russh::keys::HashAlg;
use russh::keys::agent::AgentSessionBinding;
use russh::{MethodKind, MethodSet};

use crate::auth::agent::{AgentConnection, AgentHandle};
use crate::auth::candidates::{Credential, CredentialCandidate, KeySigner, KeySources, LeftOut};
use crate::auth::identity::{CertificateFile, IdentityFile};
use crate::auth::prompt::PromptQueue;
use crate::auth::signer::AuthSigner;
use crate::config::HostSettings;
use crate::connection::session::{End, SshSession};
use crate::deadline::Deadline;
use crate::trace::{self, ConnectEvent, CredentialOutcome};
use gtop_local::fault::ssh::{
    ConnectPhase, Fault, NO_KEY, TOO_MANY_FAILURES, UnansweredReason, job_required,
};
use gtop_local::text;
use gtop_local::time::Clock;

/// The methods gtop supports.
const SUPPORTED: [MethodKind; 2] = [MethodKind::PublicKey, MethodKind::KeyboardInteractive];

/// Most credentials a login may require.
const MAX_CREDENTIALS: usize = 5;

/// Most keys listed in one fault.
const MAX_LISTED_KEYS: usize = 5;

/// The user and the credentials of a login.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) settings: Arc<HostSettings>,
    /// The node name as the user typed it, for prompts.
    pub(crate) node_name: String,
    pub(crate) identities: Vec<IdentityFile>,
    pub(crate) certificates: Vec<CertificateFile>,
    pub(crate) agent: Option<Arc<AgentHandle>>,
    /// Where prompts go; `None` without a terminal.
    pub(crate) prompt_queue: Option<PromptQueue>,
    /// A `ControlMaster` connection to the node is open, so prompts are skipped.
    pub(crate) has_master: bool,
}

impl Login {
    /// Returns true if gtop supports a method and the configuration allows it.
    fn supports(&self, method: &str) -> bool {
        SUPPORTED.iter().any(|kind| <&str>::from(kind) == method)
            && self.settings.methods.iter().any(|allowed| allowed == method)
    }

    /// Authenticates. The time the user takes to answer does not count against the deadline.
    pub(crate) async fn run(
        &self,
        session: &mut SshSession,
        deadline: &mut Deadline,
    ) -> Result<(), Fault> {
        let attempt = Attempt {
            login: self,
            session,
            deadline,
            offers: MethodSet::empty(),
            tried: Vec::new(),
            keys: None,
            refused_keys: 0,
            rsa_hashes: RsaHashes::Unknown,
            exchanges: 0,
            was_prompted: false,
            banner_length: None,
            messages: Vec::new(),
            exhausted: MethodSet::empty(),
            unanswered_reason: None,
            accepted: 0,
        };
        let logged_in = attempt.run().await;
        logged_in.map_err(|fault| job_required(session.state.banner().as_deref()).unwrap_or(fault))
    }

    /// Returns why a login by key was refused, if there was no key to offer to a node with these methods.
    pub(crate) async fn keyless_fault(&self, offers: Vec<String>) -> Option<Fault> {
        let takes_keys = offers.iter().any(|offer| offer == "publickey");
        let has_foreign_key = self.identities.iter().any(IdentityFile::is_foreign);
        if !takes_keys || has_foreign_key || !self.supports("publickey") {
            return None;
        }
        let KeyQueue { pending, left_out, agent_fault, .. } = load_keys(self, None).await;
        if !pending.is_empty() {
            return None;
        }
        Some(left_out.fault(&offers).or(agent_fault).unwrap_or_else(|| {
            let (user, tried) = (self.settings.user.clone(), vec![NO_KEY.to_owned()]);
            Fault::AuthenticationRefused { user, offers, tried }
        }))
    }
}

/// The result of one credential.
enum AuthOutcome {
    Success,
    /// Accepted, but the node requires more.
    Partial,
    Refused,
}

/// The keys to offer, and the agent that signs for some of them.
struct KeyQueue {
    /// Not offered since the last success.
    pending: VecDeque<CredentialCandidate>,
    /// Offered since then.
    offered: Vec<CredentialCandidate>,
    agent: Option<AgentConnection>,
    agent_fault: Option<Fault>,
    left_out: LeftOut,
}

/// One login in progress.
struct Attempt<'a> {
    login: &'a Login,
    session: &'a mut SshSession,
    deadline: &'a mut Deadline,
    /// The methods the node offered last.
    offers: MethodSet,
    /// What was tried, for the fault.
    tried: Vec<Tried>,
    /// Loaded when a key is first needed.
    keys: Option<KeyQueue>,
    refused_keys: usize,
    rsa_hashes: RsaHashes,
    /// How many keyboard-interactive exchanges there were.
    exchanges: u32,
    was_prompted: bool,
    /// Length of the banner before the first credential; `None` before the node has answered.
    banner_length: Option<usize>,
    /// The messages of the last keyboard-interactive exchange.
    messages: Vec<String>,
    exhausted: MethodSet,
    /// Why a prompt was not answered.
    unanswered_reason: Option<UnansweredReason>,
    /// How many credentials the node accepted.
    accepted: usize,
}

/// The node's support for RSA signature hashes.
#[derive(Clone, Copy)]
enum RsaHashes {
    Unknown,
    /// The node does not say.
    Unstated,
    /// The best hash it supports; `None` is SHA-1.
    Best(Option<HashAlg>),
}

impl Attempt<'_> {
    async fn run(mut self) -> Result<(), Fault> {
        let first = self.session.handle.authenticate_none(&self.login.settings.user);
        let first = self.deadline.timeout(ConnectPhase::Login, first).await?;
        let mut answer = self.handle_result(first, None)?;
        self.banner_length = Some(self.session.state.banner_length());
        loop {
            match answer {
                AuthOutcome::Success => {
                    trace::record(|| ConnectEvent::LoggedIn { user: self.user() });
                    return Ok(());
                }
                AuthOutcome::Partial => self.requeue_keys(),
                AuthOutcome::Refused => {}
            }
            answer = match self.next_method() {
                Some(MethodKind::PublicKey) => self.try_next_key().await?,
                Some(_) => self.keyboard_interactive().await?,
                None => return Err(self.final_fault()),
            };
        }
    }

    /// Returns the first preferred method that the node offers and that is not exhausted.
    fn next_method(&self) -> Option<MethodKind> {
        let mut preferred = self.login.settings.methods.iter().filter_map(|name| name.parse().ok());
        preferred.find(|kind| {
            SUPPORTED.contains(kind) && self.offers.contains(kind) && !self.exhausted.contains(kind)
        })
    }

    fn user(&self) -> String {
        self.login.settings.user.clone()
    }

    /// All keys may be offered again, the accepted one last.
    fn requeue_keys(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.pending.extend(keys.offered.drain(..));
        }
    }

    async fn try_next_key(&mut self) -> Result<AuthOutcome, Fault> {
        if self.keys.is_none() {
            let reading = load_keys(self.login, self.session.handle.agent_session_binding());
            self.keys = Some(self.deadline.timeout(ConnectPhase::Login, reading).await?);
        }
        let next = self.keys.as_mut().and_then(|keys| keys.pending.pop_front());
        let Some(candidate) = next else {
            self.exhausted.push(MethodKind::PublicKey);
            return Ok(AuthOutcome::Refused);
        };
        let answer = self.offer(&candidate).await?;
        if let Some(keys) = &mut self.keys {
            keys.offered.push(candidate);
        }
        Ok(answer)
    }

    async fn offer(&mut self, candidate: &CredentialCandidate) -> Result<AuthOutcome, Fault> {
        let allowed = candidate.credential.hashes(&self.login.settings.algorithms.signatures);
        let Some(hash) = self.choose_hash(candidate, &allowed).await? else {
            let is_agents = matches!(candidate.signer, KeySigner::Agent(_));
            let by = if is_agents { " of the agent" } else { "" };
            let why = "node supports no hash that the configuration allows for it";
            self.skip(candidate, by, why);
            return Ok(AuthOutcome::Refused);
        };
        let agent = self.keys.as_mut().and_then(|keys| keys.agent.as_mut());
        let mut signing = AuthSigner { signer: &candidate.signer, agent };
        let (user, handle) = (self.login.settings.user.as_str(), &mut self.session.handle);
        let offered = async {
            match &candidate.credential {
                Credential::Key(_) => {
                    let key = candidate.public_key();
                    handle.authenticate_publickey_with(user, key, hash, &mut signing).await
                }
                Credential::Certificate(certificate) => {
                    let certificate = certificate.as_ref().clone();
                    handle
                        .authenticate_certificate_with(user, certificate, hash, &mut signing)
                        .await
                }
            }
        };
        match self.deadline.timeout(ConnectPhase::Login, offered).await? {
            Ok(result) => {
                let answer = self.handle_result(Ok(result), Some(&candidate.name))?;
                self.refused_keys += usize::from(matches!(answer, AuthOutcome::Refused));
                Ok(answer)
            }
            Err(_not_signed) if self.session.handle.is_closed() => Err(self.disconnect_fault()),
            Err(not_signed) => {
                self.skip(candidate, "", not_signed.0);
                Ok(AuthOutcome::Refused)
            }
        }
    }

    /// Skips a key; `by` tells whose it is, if the reason does not.
    fn skip(&mut self, candidate: &CredentialCandidate, by: &str, why: &str) {
        trace::record_tried(&candidate.name, || CredentialOutcome::Skipped(why.to_owned()));
        self.tried.push(Tried::Skipped(format!("{}{by} ({why})", candidate.name)));
    }

    /// Returns the hash to sign with, allowed by both sides; `Some(None)` for keys without one.
    async fn choose_hash(
        &mut self,
        candidate: &CredentialCandidate,
        allowed: &[Option<HashAlg>],
    ) -> Result<Option<Option<HashAlg>>, Fault> {
        if !candidate.credential.is_rsa() {
            return Ok(allowed.first().copied());
        }
        if let RsaHashes::Unknown = self.rsa_hashes {
            let querying = self.session.handle.best_supported_rsa_hash();
            let rsa_hash = self.deadline.timeout(ConnectPhase::Login, querying).await?;
            self.rsa_hashes = match rsa_hash.map_err(|_gone| self.disconnect_fault())? {
                Some(best) => RsaHashes::Best(best),
                None => RsaHashes::Unstated,
            };
        }
        Ok(match self.rsa_hashes {
            // A node that supports a hash supports the older ones.
            RsaHashes::Best(best) => {
                allowed.iter().find(|hash| hash_rank(**hash) <= hash_rank(best)).copied()
            }
            RsaHashes::Unstated | RsaHashes::Unknown => allowed.first().copied(),
        })
    }

    /// Handles the node's reply to one credential.
    fn handle_result(
        &mut self,
        result: Result<AuthResult, russh::Error>,
        what: Option<&str>,
    ) -> Result<AuthOutcome, Fault> {
        match result {
            Ok(AuthResult::Success) => {
                trace::record_tried(what.unwrap_or("no credential"), || {
                    CredentialOutcome::Accepted
                });
                Ok(AuthOutcome::Success)
            }
            Ok(AuthResult::Failure { remaining_methods, partial_success }) => {
                self.handle_failure(remaining_methods, partial_success, what.unwrap_or_default())
            }
            Err(_) => Err(self.disconnect_fault()),
        }
    }

    /// Handles a failure or a partial success.
    fn handle_failure(
        &mut self,
        remaining: MethodSet,
        is_accepted: bool,
        what: &str,
    ) -> Result<AuthOutcome, Fault> {
        // russh also returns this when the connection is closed.
        if remaining.is_empty() && self.session.handle.is_closed() {
            return Err(self.disconnect_fault());
        }
        self.offers = remaining;
        trace::record(|| ConnectEvent::OfferedMethods(method_names(&self.offers)));
        if !what.is_empty() {
            let result =
                if is_accepted { CredentialOutcome::Partial } else { CredentialOutcome::Refused };
            trace::record_tried(what, || result);
        }
        if is_accepted {
            self.accepted += 1;
            if self.accepted > MAX_CREDENTIALS {
                let why = "it required more credentials than gtop supports".to_owned();
                return Err(self.refused(Some(why)));
            }
            self.tried.push(Tried::Offered(format!("{what} (accepted, but not enough)")));
            return Ok(AuthOutcome::Partial);
        }
        if !what.is_empty() {
            self.tried.push(Tried::Offered(what.to_owned()));
        }
        Ok(AuthOutcome::Refused)
    }

    /// The fault when the connection closed during login: if the node gave a reason, it has refused the account.
    fn disconnect_fault(&self) -> Fault {
        if let Some(message) = self.refusal_text() {
            return Fault::AccountRefused { user: self.user(), message };
        }
        match self.session.state.end() {
            Some(End::Disconnected(words)) if words.contains(TOO_MANY_FAILURES) => {
                self.too_many_keys_fault()
            }
            Some(End::Disconnected(words)) => {
                self.refused(Some(format!("until the node said: {words}")))
            }
            // The user was prompted: only the user may decide to try again.
            _ if self.was_prompted => self.unanswered_fault(UnansweredReason::HungUp),
            Some(End::Failed(_)) | None => Fault::ConnectionLost {
                phase: ConnectPhase::Login,
                why: self.session.state.end_text(),
            },
        }
    }

    /// Returns the text the node has sent since authentication began, without the banner before it.
    fn refusal_text(&self) -> Option<String> {
        let banner = self.banner_length.and_then(|length| self.session.state.banner_since(length));
        banner.or_else(|| {
            (!self.messages.is_empty()).then(|| text::excerpt_line(&self.messages.join(" ")))
        })
    }

    /// The fault when nothing is left to try.
    fn final_fault(mut self) -> Fault {
        if !self.login.settings.methods.iter().any(|name| name == "publickey") {
            self.tried.push(Tried::Offered("no key, PubkeyAuthentication is off".to_owned()));
        }
        let keys = self.keys.take();
        let offered_none = self.refused_keys == 0 && self.accepted == 0;
        if let Some(KeyQueue { left_out, agent_fault, .. }) = keys {
            // Reported rather than the node's prompt, since the user can fix it.
            if offered_none && let Some(fault) = left_out.fault(&method_names(&self.offers)) {
                return fault;
            }
            match agent_fault {
                Some(fault) if offered_none && self.unanswered_reason.is_none() => return fault,
                Some(Fault::AgentUnreachable { why, .. }) => {
                    self.tried.push(Tried::Skipped(format!("the ssh agent ({why})")));
                }
                _ => {}
            }
            let skipped = left_out.skipped.iter().map(|key| format!("{} ({})", key.name, key.why));
            self.tried.extend(skipped.map(Tried::Skipped));
            if self.tried.is_empty() {
                self.tried.push(Tried::Offered(NO_KEY.to_owned()));
            }
        }
        let remaining = method_names(&self.offers);
        let can_continue = remaining.iter().any(|method| self.login.supports(method));
        let user = self.user();
        match self.unanswered_reason {
            Some(why) if offered_none || self.accepted > 0 => self.unanswered_fault(why),
            Some(_) => self.refused(Some("its prompts were not answered".to_owned())),
            // One key was accepted, and no other one is.
            None if self.accepted > 0 && (!can_continue || remaining == ["publickey"]) => {
                Fault::MoreAuthenticationRequired { user, required: remaining }
            }
            None if remaining == ["password"] => Fault::PasswordOnly { user },
            None => self.refused(None),
        }
    }

    fn unanswered_fault(&self, why: UnansweredReason) -> Fault {
        Fault::PromptUnanswered { user: self.user(), tried: summarise_tried(&self.tried), why }
    }

    /// The fault of `MaxAuthTries`. The key offered last counts as refused.
    fn too_many_keys_fault(&self) -> Fault {
        let untried = self.keys.as_ref().map_or(0, |keys| keys.pending.len());
        Fault::TooManyKeys { user: self.user(), offered: Some(self.refused_keys + 1), untried }
    }

    fn refused(&self, last: Option<String>) -> Fault {
        let mut tried = summarise_tried(&self.tried);
        tried.extend(last);
        let offers = method_names(&self.offers);
        Fault::AuthenticationRefused { user: self.user(), offers, tried }
    }
}

async fn load_keys(login: &Login, binding: Option<&AgentSessionBinding>) -> KeyQueue {
    let (mut agent, mut agent_fault) = (None, None);
    if let Some(handle) = &login.agent {
        match handle.connect(binding).await {
            Ok(opened) => agent = Some(opened),
            Err(fault) => agent_fault = Some(fault),
        }
    }
    let (candidates, left_out) = candidates::select(KeySources {
        login,
        agent_keys: agent.as_ref().map(|agent| agent.keys.as_slice()).unwrap_or_default(),
        now: Clock::system().now(),
    });
    trace_untried(&left_out, agent_fault.as_ref());
    KeyQueue { pending: candidates.into(), offered: Vec::new(), agent, agent_fault, left_out }
}

/// Traces the keys that are not offered.
fn trace_untried(LeftOut { skipped, locked, .. }: &LeftOut, agent: Option<&Fault>) {
    for key in skipped {
        trace::record_tried(&key.name, || CredentialOutcome::Skipped(key.why.to_owned()));
    }
    for file in locked.iter().map(|file| file.to_string_lossy()) {
        if !skipped.iter().any(|key| key.name == file) {
            trace::record_tried(&file, || CredentialOutcome::Skipped("encrypted".to_owned()));
        }
    }
    if let Some(fault) = agent {
        trace::record_tried("the ssh agent", || CredentialOutcome::Skipped(fault.to_string()));
    }
}

/// What was tried to log in.
#[derive(Clone, Debug)]
pub(super) enum Tried {
    Offered(String),
    /// It was not offered, and why.
    Skipped(String),
}

/// Lists the first few offered and skipped keys and counts the rest: an agent may hold hundreds.
fn summarise_tried(tried: &[Tried]) -> Vec<String> {
    let (mut offered, mut unshown) = (0, 0);
    let mut named = Vec::new();
    for credential in tried {
        let (count, prefix, what) = match credential {
            Tried::Offered(what) => (&mut offered, "", what),
            Tried::Skipped(what) => (&mut unshown, "not ", what),
        };
        *count += 1;
        named.extend((*count <= MAX_LISTED_KEYS).then(|| format!("{prefix}{what}")));
    }
    for (prefix, count) in [("", offered), ("not ", unshown)] {
        let more = count.saturating_sub(MAX_LISTED_KEYS);
        named.extend((more > 0).then(|| format!("{prefix}{more} more")));
    }
    named
}

/// Ranks the hashes of RSA signatures, SHA-1 lowest.
fn hash_rank(hash: Option<HashAlg>) -> u8 {
    match hash {
        None => 0,
        Some(HashAlg::Sha256) => 1,
        Some(_) => 2,
    }
}

fn method_names(methods: &MethodSet) -> Vec<String> {
    methods.iter().map(String::from).collect()
}
