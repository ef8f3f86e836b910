//! Connects to a node and runs one command there: over SSH, in a Slurm step, or on this machine.
//!
//! It knows neither what is run nor what it prints. Host keys are verified as `ssh` verifies them, with the
//! same files and `StrictHostKeyChecking`; a key `ssh` would prompt for is a fault until the user accepts it.
//! Nothing is forwarded, no terminal is requested, no password is sent.
//!
//! russh logs what it sends at level `debug`, so its log level must stay above that.

mod addresses;
mod agent;
mod algorithms;
mod auth_prompt;
mod cancellable_stream;
mod certificate;
mod channel;
mod config_lookup;
mod diagnose;
mod dial;
mod exec;
mod fallback;
mod fault;
mod file_cache;
mod gateway;
mod host_key_algorithms;
mod host_key_verifier;
mod host_keys;
mod identity;
mod known_hosts;
mod known_hosts_writer;
mod login;
mod openssh;
mod output;
mod output_queue;
mod process;
mod proxy_command;
mod revoked_keys;
mod route;
mod select;
mod session;
mod srun;
mod ssh_config;
mod subprocess;
mod target;
mod trace;
mod tunnel;
mod underlay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use crate::transport::addresses::SchedulerAddresses;
pub use crate::transport::auth_prompt::{Prompt, PromptQueue, PromptRequest, Secret};
pub use crate::transport::channel::Channel;
pub use crate::transport::diagnose::StepSupport;
pub use crate::transport::exec::{ExecTemplate, TemplateError};
pub use crate::transport::fault::{
    ConnectPhase, Fault, HostKeyChange, KeyFileProblem, SshProgramCause, StepCause,
    UnansweredReason,
};
pub use crate::transport::host_keys::HostKeyStatus;
pub use crate::transport::known_hosts_writer::{KnownHostEntry, OfferedKey, write_known_hosts};
pub use crate::transport::output::{Exit, Output};
pub use crate::transport::process::{
    EXIT_NOT_STARTED, PARENT_GUARD, run_parent_guard, terminate_programs,
};
pub use crate::transport::srun::{CLUSTER_CACHE_TTL, LineAddress, NodeJobs, StepJob, StepScript};
pub use crate::transport::ssh_config::{EffectiveOption, LocalEnv, Origin};
pub use crate::transport::subprocess::{ProgramCall, ProgramError, ProgramOutput, run_program};
pub use crate::transport::target::{FixedProfile, Profile, Reach, SshTarget, Target};
pub use crate::transport::trace::{
    ConnectEvent, CredentialOutcome, RouteSummary, Trace, TracedEvent, with_trace,
};

use crate::transport::addresses::AddressTable;
use crate::transport::agent::AgentPool;
use crate::transport::algorithms::SshParams;
use crate::transport::dial::Resolver;
use crate::transport::fallback::FallbackCache;
use crate::transport::file_cache::FileCache;
use crate::transport::gateway::Gateways;
use crate::transport::host_key_verifier::{HostKeyPolicy, HostKeyVerifier};
use crate::transport::host_keys::HostKeyEntries;
use crate::transport::identity::{IdentityFile, KeyCache, KeyFile};
use crate::transport::known_hosts::KnownHosts;
use crate::transport::login::Login;
use crate::transport::process::LocalProcess;
use crate::transport::revoked_keys::RevokedKeys;
use crate::transport::srun::{Cluster, SrunSteps};
use crate::transport::ssh_config::{AddressFamily, ConfigCache, HostQuery, HostSettings};

/// Default for connecting: name lookup, TCP and key exchange together.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for authentication; directory services of busy clusters are slow.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Most hosts at once whose configuration is resolved by programs or by name services. They mostly wait, and the
/// hosts of one snapshot should wait together.
const MAX_RESOLVERS: usize = 64;

/// Timeout for finding the keys that need a passphrase.
const LOCKED_KEYS_TIMEOUT: Duration = Duration::from_secs(3);

/// Which client connects to the nodes: the setting `transport`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TransportMode {
    /// gtop's own SSH client, and the ssh program for nodes that need it.
    #[default]
    Auto,
    /// gtop's own SSH client.
    Native,
    Ssh,
    Srun,
}

/// Options for every target.
#[derive(Debug, Clone)]
pub struct Options {
    /// Timeout for name lookup, TCP and key exchange together. `None`: `ConnectTimeout` of the configuration,
    /// else ten seconds.
    pub connect_timeout: Option<Duration>,
    /// The user name for targets without one; overrides the configuration.
    pub login: Option<String>,
    /// The configuration file to use instead of the user's, as `ssh -F`.
    pub config_file: Option<PathBuf>,
    /// The ssh program: resolves configuration that only it understands (`ssh -G`), and connects to nodes that gtop
    /// itself cannot.
    pub ssh_program: PathBuf,
    /// Which client connects to the nodes (`--transport`).
    pub mode: TransportMode,
    /// The command to run instead of SSH (`--exec`).
    pub exec: Option<ExecTemplate>,
    pub srun_program: PathBuf,
    /// The folder of the cache of clusters that refuse SSH.
    pub state: Option<PathBuf>,
    /// The gtop that keeps programs from outliving this process; see [`PARENT_GUARD`].
    pub parent_guard: Option<PathBuf>,
    /// The parts of the environment that the configuration refers to.
    pub env: LocalEnv,
    /// Where keyboard-interactive prompts go. `None`: there is no terminal.
    pub prompt_queue: Option<PromptQueue>,
}

impl Options {
    /// Returns the options for the user who runs this process.
    pub fn of_this_process() -> Self {
        Self {
            connect_timeout: None,
            login: None,
            config_file: None,
            ssh_program: PathBuf::from("ssh"),
            mode: TransportMode::Auto,
            exec: None,
            srun_program: PathBuf::from("srun"),
            state: None,
            parent_guard: None,
            env: LocalEnv::of_this_process(),
            prompt_queue: None,
        }
    }
}

/// Connects to nodes, and caches what it read to do so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transport(Arc<TransportState>);

#[derive(Debug)]
struct TransportState {
    options: Options,
    configuration: ConfigCache,
    /// Settings by host, each with the version of the configuration they were read from.
    settings: Mutex<BTreeMap<HostQuery, (u64, Arc<HostSettings>)>>,
    resolve_permits: Arc<Semaphore>,
    resolver: Resolver,
    gateways: Gateways,
    fallback_cache: FallbackCache,
    known_hosts: FileCache<Result<Arc<KnownHosts>, Fault>>,
    revoked: FileCache<Result<Arc<RevokedKeys>, Fault>>,
    key_cache: KeyCache,
    agents: AgentPool,
    srun_steps: SrunSteps,
    cluster: Cluster,
    addresses: AddressTable,
}

/// Everything one connection needs.
struct ConnectPlan {
    host: String,
    port: u16,
    family: AddressFamily,
    route: gateway::ResolvedRoute,
    params: SshParams,
    connect_timeout: Duration,
    host_key_policy: HostKeyPolicy,
    login: Login,
}

impl Transport {
    /// Returns the connect timeout the user set.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.0.options.connect_timeout
    }

    /// Returns a transport with empty caches.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(TransportState {
            options,
            configuration: ConfigCache::default(),
            settings: Mutex::default(),
            resolve_permits: Arc::new(Semaphore::new(MAX_RESOLVERS)),
            resolver: Resolver::default(),
            gateways: Gateways::default(),
            fallback_cache: FallbackCache::default(),
            known_hosts: FileCache::default(),
            revoked: FileCache::default(),
            key_cache: KeyCache::default(),
            agents: AgentPool::default(),
            srun_steps: SrunSteps::default(),
            cluster: Cluster::default(),
            addresses: AddressTable::default(),
        }))
    }

    /// Connects to `target` and starts `command` there under the user's login shell, or under `/bin/sh` on this
    /// machine.
    ///
    /// `on_phase` is called at the start of each phase. Dropping the future leaves nothing running.
    pub async fn open(
        &self,
        target: &Target,
        command: &str,
        mut on_phase: impl FnMut(ConnectPhase),
    ) -> Result<Channel, Fault> {
        let mut on_phase = |phase| {
            trace::record(|| ConnectEvent::PhaseStarted(phase));
            on_phase(phase);
        };
        let Reach::Ssh(ssh) = &target.reach else {
            on_phase(ConnectPhase::Connection);
            return Ok(Channel::local(LocalProcess::start(command)?));
        };
        if let Profile::Fixed(fixed) = &ssh.profile {
            let plan = fixed_plan(fixed, ssh, &self.0.options);
            return Box::pin(self.open_native(target, plan, command, on_phase)).await;
        }
        if let Some(template) = &self.0.options.exec {
            return self.open_exec(template, target, command, on_phase).await;
        }
        if self.0.options.mode == TransportMode::Srun {
            let why = "a single command needs ssh; srun only runs the probe".to_owned();
            return Err(Fault::BadConfiguration { why });
        }
        self.open_configured(target, ssh, command, on_phase).await
    }

    /// Starts the probe on `target`: as [`open`](Self::open) does, or as one task of the script that `shared`
    /// returns, in a step of the user's job on that node.
    pub async fn open_probe(
        &self,
        target: &Target,
        command: &str,
        shared: &(dyn Fn() -> StepScript + Sync),
        on_phase: impl FnMut(ConnectPhase) + Send,
    ) -> Result<Channel, Fault> {
        let call = select::ProbeCall { target, command, script: shared };
        Box::pin(self.open_probe_via(call, on_phase)).await
    }

    /// Starts a command with gtop's own SSH client.
    async fn open_native(
        &self,
        target: &Target,
        plan: ConnectPlan,
        command: &str,
        mut on_phase: impl FnMut(ConnectPhase),
    ) -> Result<Channel, Fault> {
        let prompt_queue = self.0.options.prompt_queue.as_ref();
        let login_guard =
            prompt_queue.map(|prompt_queue| prompt_queue.track_login(target.name.clone()));
        let (session, deadline) = self.log_in(target.name.host(), plan, &mut on_phase).await?;
        drop(login_guard);
        on_phase(ConnectPhase::Command);
        Channel::ssh(session, command, &deadline).await
    }

    /// Fetches the host key of a node without logging in.
    pub async fn fetch_host_key(&self, target: &Target) -> Result<OfferedKey, Fault> {
        let bad = |why: &str| Fault::BadConfiguration { why: why.to_owned() };
        let Reach::Ssh(ssh) = &target.reach else {
            return Err(bad("the local machine has no host key to accept"));
        };
        let Profile::System = ssh.profile else {
            return Err(bad("the host key of this node is fixed"));
        };
        if self.0.options.exec.is_some() {
            return Err(bad("this node is reached by --exec, which shows no host key"));
        }
        let query = self.host_query(ssh);
        let settings = self.host_settings(query.clone()).await?;
        let plan = self.plan(&query, &settings).await?;
        let HostKeyPolicy::KnownHosts(verifier) = &plan.host_key_policy else {
            return Err(bad("there are no known_hosts files to compare with"));
        };
        let (connection, deadline) = self.dial(target.name.host(), &plan, &mut |_| ()).await?;
        let verification =
            session::fetch_host_key(connection, Arc::clone(verifier), &plan.params, &deadline)
                .await?;
        known_hosts_writer::describe_key(&verifier.settings, verification)
    }

    /// Returns the encrypted key files worth asking a passphrase for. Skips targets whose configuration takes longer
    /// than three seconds to resolve.
    ///
    /// Includes the keys of gateways. Leaves out files whose key is in the agent, and default files when there is
    /// another key to offer.
    pub async fn locked_keys(&self, targets: &[Target]) -> Vec<PathBuf> {
        let has_program = matches!(self.0.options.mode, TransportMode::Ssh | TransportMode::Srun);
        if has_program || self.0.options.exec.is_some() {
            return Vec::new();
        }
        let mut reads = JoinSet::new();
        let ssh_targets = targets.iter().filter_map(|target| match &target.reach {
            Reach::Ssh(ssh) if ssh.profile == Profile::System => Some(ssh.clone()),
            Reach::Ssh(_) | Reach::Local => None,
        });
        for ssh in ssh_targets {
            let transport = self.clone();
            reads.spawn(async move { transport.settings_needing_login(&ssh).await });
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
        self.run_blocking(move |shared| shared.key_cache.unlock(&file, &passphrase)).await?
    }

    async fn plan(
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
        route: gateway::ResolvedRoute,
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
            host: settings.host.clone(),
            port: settings.port,
            family: settings.family,
            route,
            params,
            connect_timeout: effective_connect_timeout(&self.0.options, settings),
            host_key_policy: HostKeyPolicy::KnownHosts(Arc::new(verifier?)),
            login: Login {
                user: settings.user.clone(),
                node_name: node_name.to_owned(),
                methods: settings.methods.clone(),
                identities,
                certificates,
                identities_only: settings.keys.identities_only,
                agent: settings.keys.agent.as_deref().map(|socket| self.0.agents.get(socket)),
                algorithms: settings.algorithms.signatures.clone(),
                prompts: settings.prompts,
                devices: settings.devices.clone(),
                prompt_queue: self.0.options.prompt_queue.clone(),
                has_master: false,
            },
        })
    }

    /// Runs blocking work on a thread that may block.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&TransportState) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.map_err(|_ended| shutting_down())
    }
}

impl TransportState {
    fn verifier(&self, settings: &Arc<HostSettings>) -> Result<HostKeyVerifier, Fault> {
        let paths = settings.user_known_hosts.iter().chain(&settings.global_known_hosts);
        let files: Result<Vec<_>, _> =
            paths.map(|path| self.known_hosts.get(path, KnownHosts::read)).collect();
        let revoked = settings.revoked_host_keys.as_ref().map(|path| {
            let list = self.revoked.get(path, RevokedKeys::read);
            list.map(|list| (path.clone(), list))
        });
        let known = HostKeyEntries::collect_for(&files?, settings.known_hosts_name.clone());
        Ok(HostKeyVerifier::new(Arc::clone(settings), known, revoked.transpose()?))
    }
}

fn fixed_plan(fixed: &FixedProfile, ssh: &SshTarget, options: &Options) -> ConnectPlan {
    let key = KeyFile::Usable(Arc::clone(&fixed.key));
    let user = ssh.user.as_ref().or(options.login.as_ref());
    ConnectPlan {
        host: fixed.address.ip().to_string(),
        port: fixed.address.port(),
        family: AddressFamily::Any,
        route: gateway::ResolvedRoute::Direct(dial::BindOptions::default()),
        params: SshParams::default(),
        connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
        host_key_policy: HostKeyPolicy::Pinned(fixed.host_key.clone()),
        login: Login {
            user: user.unwrap_or(&options.env.user).clone(),
            node_name: ssh.host.clone(),
            methods: vec!["publickey".to_owned()],
            identities: vec![IdentityFile {
                path: PathBuf::from("fixed key"),
                key_file: key,
                certificate: None,
            }],
            certificates: Vec::new(),
            agent: None,
            identities_only: true,
            algorithms: Vec::new(),
            prompts: 0,
            devices: None,
            prompt_queue: None,
            has_master: false,
        },
    }
}

fn effective_connect_timeout(options: &Options, settings: &HostSettings) -> Duration {
    let configured = settings.connect_timeout.filter(|limit| !limit.is_zero());
    options.connect_timeout.or(configured).unwrap_or(DEFAULT_CONNECT_TIMEOUT)
}

fn shutting_down() -> Fault {
    Fault::SessionLost { why: "gtop is exiting".to_owned() }
}
