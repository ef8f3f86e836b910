//! An SSH client that reads the configuration of OpenSSH and does what `ssh` does: resolves hosts, verifies host keys,
//! logs in, goes through gateways, runs commands.
//!
//! It knows nothing of monitoring. Its README follows.
//!
#![doc = include_str!("../README.md")]
#![warn(missing_docs, unnameable_types)]

mod auth;
mod command;
mod config;
mod connection;
mod deadline;
mod file_cache;
mod gateway;
mod host_keys;
mod host_offer;
mod login;
mod lookup;
mod program;
mod route;
mod slow_servers;
mod target;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use crate::auth::prompt::{Prompt, PromptQueue, PromptRequest, Secret};
pub use crate::command::{CommandSignal, RemoteCommand, RemoteTerminal, TerminalSize};
pub use crate::config::{EffectiveOption, HostQuery, HostSettings, KnownHostName, LocalEnv, Route};
pub use crate::connection::Stream;
pub use crate::connection::addresses::SchedulerAddresses;
pub use crate::connection::cancellable_stream::{CancelGuard, CancellableStream, cancellable};
pub use crate::connection::channel::SshChannel;
pub use crate::host_keys::HostKeyStatus;
pub use crate::host_keys::writer::{KnownHostEntry, OfferedKey};
pub use crate::host_offer::HostOffer;
pub use crate::login::askpass::{
    ASKPASS_VARIABLE, AskpassServer, QuestionKind, SshQuestion, run_askpass_helper,
};
pub use crate::login::{LoginEvent, LoginHost, MasterLogin};
pub use crate::program::control_master::{ControlMaster, record as record_master};
pub use crate::program::stderr::{SshStderr, parse_fault as parse_stderr};
pub use crate::program::{OPTIONS as PROGRAM_OPTIONS, overrides as program_overrides};
pub use crate::target::{FixedProfile, Profile, SshTarget};
pub use crate::trace::{
    ConnectEvent, CredentialOutcome, RouteSummary, Trace, TracedEvent, record as record_event,
    with_trace,
};
pub use gtop_local::fault::ssh::{
    ConnectPhase, Fault, HostKeyChange, KeyFileProblem, Recourse, SshProgramCause,
    UnansweredReason, join_names,
};
pub use gtop_local::fault::{LoginFacts, Origin, UnknownHostKey};
pub use gtop_local::process::{Exit, NotStarted, Output};
pub use gtop_local::storage::WriteError;

use crate::auth::Login;
use crate::auth::agent::AgentPool;
use crate::auth::identity::{self, IdentityFile, KeyCache, KeyFile};
use crate::config::config_cache::ConfigCache;
use crate::config::{BindOptions, KeySettings};
use crate::connection::addresses::AddressTable;
use crate::connection::algorithms::SshParams;
use crate::connection::dial::Resolver;
use crate::file_cache::FileCache;
use crate::gateway::{Gateway, Gateways, ResolvedRoute};
use crate::host_keys::HostKeyEntries;
use crate::host_keys::known_hosts::KnownHosts;
use crate::host_keys::revoked_keys::RevokedKeys;
use crate::host_keys::verifier::{HostKeyPolicy, HostKeyVerifier};
use crate::slow_servers::SlowServers;

/// Default for connecting: name lookup, TCP and key exchange together.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for authentication; directory services of busy clusters are slow.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Most hosts at once whose configuration is resolved by programs or by name services. They mostly wait, and the
/// hosts of one snapshot should wait together.
const MAX_RESOLVERS: usize = 64;

/// Timeout for finding the keys that need a passphrase.
const LOCKED_KEYS_TIMEOUT: Duration = Duration::from_secs(3);

/// Options for every host.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Timeout for name lookup, TCP and key exchange together. `None`: `ConnectTimeout` of the configuration,
    /// else ten seconds.
    pub connect_timeout: Option<Duration>,
    /// The user name for targets without one; overrides the configuration.
    pub login: Option<String>,
    /// The configuration file to use instead of the user's, as `ssh -F`.
    pub config_file: Option<PathBuf>,
    /// The ssh program: resolves configuration that only it understands (`ssh -G`), uses `ControlMaster`
    /// connections.
    pub ssh_program: PathBuf,
    /// Open `ControlMaster` connections of the user are used.
    pub uses_masters: bool,
    /// A gtop that keeps the programs it starts (`ProxyCommand`, `ssh`) from outliving this process even if it is killed.
    /// `None`: they see the end of their input then, which ends most.
    pub parent_guard: Option<PathBuf>,
    /// The parts of the environment that the configuration refers to.
    pub env: LocalEnv,
    /// Where keyboard-interactive prompts go. `None`: there is no terminal.
    pub prompt_queue: Option<PromptQueue>,
}

impl ClientOptions {
    /// Returns the options for the user who runs this process.
    pub fn of_this_process() -> Self {
        Self {
            connect_timeout: None,
            login: None,
            config_file: None,
            ssh_program: PathBuf::from("ssh"),
            uses_masters: true,
            parent_guard: None,
            env: LocalEnv::of_this_process(),
            prompt_queue: None,
        }
    }
}

/// Connects to hosts, and caches what it read to do so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    options: ClientOptions,
    configuration: ConfigCache,
    /// Settings by host, each with the version of the configuration they were read from.
    settings: Mutex<BTreeMap<HostQuery, (u64, Arc<HostSettings>)>>,
    resolve_permits: Arc<Semaphore>,
    resolver: Resolver,
    gateways: Gateways,
    known_hosts: FileCache<Result<Arc<KnownHosts>, Fault>>,
    revoked: FileCache<Result<Arc<RevokedKeys>, Fault>>,
    key_cache: KeyCache,
    agents: AgentPool,
    addresses: AddressTable,
    slow_servers: SlowServers,
}

/// Everything one connection needs.
pub struct ConnectPlan {
    settings: Arc<HostSettings>,
    route: ResolvedRoute,
    params: SshParams,
    connect_timeout: Duration,
    host_key_policy: HostKeyPolicy,
    login: Login,
}

impl ConnectPlan {
    /// Sets the open `ControlMaster` connection to the host: with one, no prompt is shown.
    pub fn set_master(&mut self, master: Option<&ControlMaster>) {
        self.login.has_master = master.is_some();
    }
}

impl Client {
    /// Returns a client with empty caches.
    pub fn new(options: ClientOptions) -> Self {
        Self(Arc::new(ClientState {
            options,
            configuration: ConfigCache::default(),
            settings: Mutex::default(),
            resolve_permits: Arc::new(Semaphore::new(MAX_RESOLVERS)),
            resolver: Resolver::default(),
            gateways: Gateways::default(),
            known_hosts: FileCache::default(),
            revoked: FileCache::default(),
            key_cache: KeyCache::default(),
            agents: AgentPool::default(),
            addresses: AddressTable::default(),
            slow_servers: SlowServers::default(),
        }))
    }

    /// Starts a command on a host, as `ssh HOST COMMAND` does.
    pub async fn start(
        &self,
        target: &SshTarget,
        command: RemoteCommand<'_>,
    ) -> Result<SshChannel, Fault> {
        let plan = match &target.profile {
            Profile::Fixed(fixed) => self.fixed_plan(fixed, target),
            Profile::System => {
                let query = self.host_query(target);
                let settings = self.host_settings(&query).await?;
                self.plan(&query, &settings).await?
            }
        };
        Box::pin(self.open(&target.host, &target.host, plan, command, |_phase| {})).await
    }

    /// Starts a command over a planned connection. `name` is the host as the user typed it, `label` tells it from all others.
    pub async fn open(
        &self,
        name: &str,
        label: &str,
        plan: ConnectPlan,
        command: RemoteCommand<'_>,
        mut on_phase: impl FnMut(ConnectPhase),
    ) -> Result<SshChannel, Fault> {
        let prompt_queue = self.0.options.prompt_queue.as_ref();
        let login_guard =
            prompt_queue.map(|prompt_queue| prompt_queue.track_login(label.to_owned()));
        let logged_in = self.log_in(name, plan, &mut on_phase).await;
        if let (Some(login_guard), Err(fault)) = (&login_guard, &logged_in) {
            login_guard.note(fault);
        }
        drop(login_guard);
        let (session, deadline) = logged_in?;
        on_phase(ConnectPhase::Command);
        deadline.timeout(ConnectPhase::Command, SshChannel::start(session, command)).await?
    }

    /// Returns the encrypted key files worth asking a passphrase for. Skips targets whose configuration takes longer
    /// than three seconds to resolve.
    ///
    /// Includes the keys of gateways. Leaves out files whose key is in the agent, and default files when there is
    /// another key to offer.
    pub async fn locked_keys(&self, targets: impl Iterator<Item = SshTarget>) -> Vec<PathBuf> {
        let mut reads = JoinSet::new();
        for ssh in self.with_encrypted_keys(targets.collect()).await {
            let client = self.clone();
            reads.spawn(async move { client.settings_needing_login(&ssh).await });
        }
        let mut key_sets = BTreeSet::new();
        let collecting = async {
            while let Some(read) = reads.join_next().await {
                // A configuration that cannot be read is reported when the node is opened.
                let settings = read.ok().and_then(Result::ok).unwrap_or_default();
                let prompting = settings.iter().filter(|settings| settings.prompts > 0);
                key_sets.extend(prompting.map(|settings| settings.keys.clone()));
            }
        };
        // After the timeout, the keys found so far are returned.
        timeout(LOCKED_KEYS_TIMEOUT, collecting).await.ok();
        let mut locked = BTreeSet::new();
        for keys in key_sets {
            let agent_keys = match &keys.agent {
                Some(socket) => self.0.agents.get(socket).public_keys().await,
                None => Vec::new(),
            };
            let are_keys_configured = keys.are_keys_configured;
            let identities =
                self.run_blocking(move |shared| shared.key_cache.load(&keys.files)).await;
            let identities = identities.unwrap_or_default();
            let files =
                identity::files_needing_passphrase(&identities, are_keys_configured, &agent_keys);
            locked.extend(files.into_iter().map(Path::to_owned));
        }
        locked.into_iter().collect()
    }

    /// Decrypts a key file for the rest of this process; fails if the passphrase is wrong. Does not keep the
    /// passphrase.
    pub async fn unlock(&self, file: &Path, passphrase: impl Into<Secret>) -> Result<(), Fault> {
        let (file, passphrase) = (file.to_owned(), passphrase.into());
        self.run_blocking(move |shared| shared.key_cache.unlock(&file, &passphrase)).await??;
        // A gateway that the key opens is tried again at once.
        self.0.gateways.forget_failures();
        Ok(())
    }

    /// Returns what a connection to a host with a fixed profile needs.
    pub fn fixed_plan(&self, fixed: &FixedProfile, ssh: &SshTarget) -> ConnectPlan {
        let options = &self.0.options;
        let user = ssh.user.as_ref().or(options.login.as_ref());
        let settings = Arc::new(HostSettings {
            host: fixed.address.ip().to_string(),
            port: fixed.address.port(),
            user: user.unwrap_or(&options.env.user).clone(),
            methods: vec!["publickey".to_owned()],
            keys: KeySettings { identities_only: true, ..KeySettings::default() },
            ..HostSettings::default()
        });
        ConnectPlan {
            settings: Arc::clone(&settings),
            route: ResolvedRoute::Direct(BindOptions::default()),
            params: SshParams::default(),
            connect_timeout: self.connect_timeout(&ssh.host, &settings),
            host_key_policy: HostKeyPolicy::Pinned(fixed.host_key.clone()),
            login: Login {
                settings,
                node_name: ssh.host.clone(),
                identities: vec![IdentityFile {
                    path: PathBuf::from("fixed key"),
                    key_file: KeyFile::Usable(Arc::clone(&fixed.key)),
                    certificate: None,
                }],
                certificates: Vec::new(),
                agent: None,
                prompt_queue: None,
                has_master: false,
            },
        }
    }

    /// Returns true if only the ssh program can use a configured key.
    pub async fn has_foreign_key(&self, settings: &Arc<HostSettings>) -> Result<bool, Fault> {
        let host = Arc::clone(settings);
        let identities = self.run_blocking(move |shared| shared.key_cache.load(&host.keys.files));
        let identities = identities.await?;
        Ok(identities.iter().any(IdentityFile::is_foreign))
    }

    /// Returns what one connection needs to a host with these settings: its route, its keys, the known host keys.
    pub async fn plan(
        &self,
        query: &HostQuery,
        settings: &Arc<HostSettings>,
    ) -> Result<ConnectPlan, Fault> {
        let route = self.resolve_route(query, settings).await?;
        trace::record(|| ConnectEvent::Route(route.summary()));
        self.plan_for_route(&query.host, settings, route).await
    }

    /// Returns what one connection needs, over a resolved route.
    async fn plan_for_route(
        &self,
        node_name: &str,
        settings: &Arc<HostSettings>,
        route: ResolvedRoute,
    ) -> Result<ConnectPlan, Fault> {
        if !settings.needs_ssh.is_empty() {
            return Err(Fault::NeedsSshProgram { options: settings.needs_ssh.join(", ") });
        }
        let params = SshParams::from_settings(settings)?;
        let host = Arc::clone(settings);
        let (verifier, identities, certificates) = self
            .run_blocking(move |shared| {
                (
                    shared.verifier(&host),
                    shared.key_cache.load(&host.keys.files),
                    shared.key_cache.load_certificates(&host.keys.certificates),
                )
            })
            .await?;
        Ok(ConnectPlan {
            settings: Arc::clone(settings),
            route,
            params,
            connect_timeout: self.connect_timeout(node_name, settings),
            host_key_policy: HostKeyPolicy::KnownHosts(Arc::new(verifier?)),
            login: Login {
                settings: Arc::clone(settings),
                node_name: node_name.to_owned(),
                identities,
                certificates,
                agent: settings.keys.agent.as_deref().map(|socket| self.0.agents.get(socket)),
                prompt_queue: self.0.options.prompt_queue.clone(),
                has_master: false,
            },
        })
    }

    /// Returns what a connection to a gateway needs.
    async fn plan_for_gateway(&self, gateway: &Gateway) -> Result<ConnectPlan, Fault> {
        self.plan_for_route(&gateway.name, &gateway.settings, gateway.route.clone()).await
    }

    /// Returns the fault of the ssh program, which does not say that it had no key to offer.
    pub async fn explain_refusal(&self, query: &HostQuery, fault: Fault) -> Fault {
        let Fault::AuthenticationRefused { offers, .. } = fault.root() else { return fault };
        let query = match fault.gateway() {
            Some(gateway) => HostQuery::parse_jump(gateway),
            None => Ok(query.clone()),
        };
        let keyless = async {
            let query = query.ok()?;
            let settings = self.host_settings(&query).await.ok()?;
            let route = ResolvedRoute::first_hop(&settings);
            let plan = self.plan_for_route(&query.host, &settings, route).await.ok()?;
            plan.login.keyless_fault(offers.clone()).await
        };
        match (keyless.await, fault.gateway()) {
            (None, _) => fault,
            (Some(keyless), None) => keyless,
            (Some(keyless), Some(gateway)) => keyless.at_gateway(gateway),
        }
    }

    /// Returns how long to wait for a host: longer after each time that it was too slow.
    pub fn connect_timeout(&self, host: &str, settings: &HostSettings) -> Duration {
        let minimum = self.min_connect_timeout(settings);
        self.0.slow_servers.connect_timeout((host, settings.port), minimum)
    }

    /// Returns how long to wait for a host that is not known to be slow.
    fn min_connect_timeout(&self, settings: &HostSettings) -> Duration {
        let configured = settings.connect_timeout.filter(|limit| !limit.is_zero());
        self.0.options.connect_timeout.or(configured).unwrap_or(DEFAULT_CONNECT_TIMEOUT)
    }

    /// Records that a host was too slow.
    pub fn add_timeout(&self, host: &str, settings: &HostSettings) {
        self.0.slow_servers.add_timeout((host, settings.port));
    }

    /// Runs blocking work on a thread that may block.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ClientState) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.map_err(|_ended| shutting_down())
    }
}

impl ClientState {
    fn verifier(&self, settings: &Arc<HostSettings>) -> Result<HostKeyVerifier, Fault> {
        let paths = settings.user_known_hosts.iter().chain(&settings.global_known_hosts);
        let files: Result<Vec<_>, _> =
            paths.map(|path| self.known_hosts.get(path, KnownHosts::read)).collect();
        let revoked = settings.revoked_host_keys.as_ref().map(|path| {
            let list = self.revoked.get(path, RevokedKeys::read);
            list.map(|list| (path.clone(), list))
        });
        let known = HostKeyEntries::collect_for(&files?, &settings.known_hosts_name);
        Ok(HostKeyVerifier::new(Arc::clone(settings), known, revoked.transpose()?))
    }
}

/// Returns the fault of what was not done because the program exits.
pub fn shutting_down() -> Fault {
    Fault::SessionLost { why: "this program is exiting".to_owned() }
}
