//! Connects to a node and runs one command there: over SSH, with the ssh program or another, in a job step, or on
//! this machine or in this process; or reads a page of metrics over HTTP.
//!
//! It knows neither what is run nor what it prints.

mod attach;
mod channel;
mod diagnose;
mod exec;
mod fallback;
mod in_process;
mod openssh;
mod page;
mod select;
mod srun;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

pub use crate::transport::attach::AttachedCommand;
pub use crate::transport::channel::Channel;
pub use crate::transport::diagnose::StepSupport;
pub use crate::transport::exec::{ExecTemplate, TemplateError};
pub(crate) use crate::transport::in_process::{InProcessCommand, InProcessNode};
pub use crate::transport::page::PageUrl;
pub use crate::transport::srun::CLUSTER_CACHE_TTL;
pub use gtop_local::fault::{Fault, LoginFacts, ScrapeFault, StepCause};

pub(crate) use crate::transport::page::PageUrlError;
pub(crate) use crate::transport::srun::StepScript;

use crate::transport::fallback::FallbackCache;
use crate::transport::srun::{Cluster, SrunSteps};
use gtop_local::lock::lock;
use gtop_local::process::LocalProcess;
use gtop_local::storage::WriteError;
use gtop_model::{NodeName, Privilege};
use gtop_ssh::{
    self as ssh, Client, ClientOptions, ConnectEvent, ConnectPhase, EffectiveOption, HostOffer,
    KnownHostEntry, Profile, RemoteCommand, SchedulerAddresses, Secret, SshTarget, record_event,
};

/// Timeout for the settings of a host that a connection to has failed; they were read for it.
const LOGIN_FACTS_TIMEOUT: Duration = Duration::from_secs(2);

/// A node to connect to.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The name, as typed and shown.
    pub name: NodeName,
    /// How to connect.
    pub reach: Reach,
}

/// How to connect to a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// The local machine.
    Local,
    /// Over SSH.
    Ssh(SshTarget),
    /// Not at all: its page of metrics is read over HTTP.
    Page(PageUrl),
    /// Not at all: it runs in this process.
    InProcess(InProcessNode),
}

impl Target {
    /// Returns true if these names have the node: by name, by label, by host without user and port, or by the address of a
    /// page.
    pub fn is_in(&self, names: &BTreeSet<String>) -> bool {
        let is_host = match &self.reach {
            Reach::Ssh(ssh) => names.contains(&ssh.host),
            Reach::Page(url) => names.contains(url.host()) || names.contains(&url.to_string()),
            Reach::Local | Reach::InProcess(_) => false,
        };
        is_host || names.contains(self.name.label()) || names.contains(self.name.host())
    }
}

/// The nodes on which probes run as root: the settings `sudo` and `allow-signals`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootNodes {
    /// All nodes, or those with these names.
    pub nodes: RootNodeNames,
    /// Probes that run as root may send signals.
    pub allows_signals: bool,
}

/// Which nodes those are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RootNodeNames {
    #[default]
    None,
    All,
    Named(BTreeSet<String>),
}

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
    /// Options of the ssh client; its timeout, its ssh program and its parent guard serve the other clients too.
    pub ssh: ClientOptions,
    /// Which client connects to the nodes (`--transport`).
    pub mode: TransportMode,
    /// The command to run instead of SSH (`--exec`).
    pub exec: Option<ExecTemplate>,
    pub srun_program: PathBuf,
    /// The folder of the cache of clusters that refuse SSH.
    pub state: Option<PathBuf>,
    /// The nodes on which probes run as root.
    pub root: RootNodes,
}

impl Options {
    /// Returns the options for the user who runs this process.
    pub fn of_this_process() -> Self {
        Self {
            ssh: ClientOptions::of_this_process(),
            mode: TransportMode::Auto,
            exec: None,
            srun_program: PathBuf::from("srun"),
            state: None,
            root: RootNodes::default(),
        }
    }
}

/// Connects to nodes, and caches what it read to do so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transport(Arc<TransportState>);

#[derive(Debug)]
struct TransportState {
    options: Options,
    ssh: Client,
    fallback_cache: FallbackCache,
    srun_steps: SrunSteps,
    cluster: Cluster,
    /// The nodes that the scheduler has powered down.
    powered_off: Mutex<BTreeSet<NodeName>>,
}

impl Transport {
    /// Returns the connect timeout the user set.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.0.options.ssh.connect_timeout
    }

    /// Returns a transport with empty caches.
    pub fn new(mut options: Options) -> Self {
        options.ssh.uses_masters = matches!(options.mode, TransportMode::Auto | TransportMode::Ssh);
        Self(Arc::new(TransportState {
            ssh: Client::new(options.ssh.clone()),
            options,
            fallback_cache: FallbackCache::default(),
            srun_steps: SrunSteps::default(),
            cluster: Cluster::default(),
            powered_off: Mutex::default(),
        }))
    }

    /// Returns as whom a probe is to run on a node.
    pub fn privilege(&self, target: &Target) -> Privilege {
        let RootNodes { nodes, allows_signals } = &self.0.options.root;
        let is_root = match nodes {
            RootNodeNames::None => false,
            RootNodeNames::All => true,
            RootNodeNames::Named(names) => target.is_in(names),
        };
        if is_root { Privilege::Root { allows_signals: *allows_signals } } else { Privilege::Login }
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
            record_event(|| ConnectEvent::PhaseStarted(phase));
            on_phase(phase);
        };
        let ssh = match &target.reach {
            Reach::Local => {
                on_phase(ConnectPhase::Connection);
                return Ok(Channel::Local(Box::new(LocalProcess::start(command)?)));
            }
            Reach::InProcess(node) => {
                on_phase(ConnectPhase::Connection);
                return Ok(Channel::InProcess(Box::new(node.start(command).await?)));
            }
            Reach::Page(_) => return Err(ScrapeFault::OnlyPage.into()),
            Reach::Ssh(ssh) => ssh,
        };
        if let Profile::Fixed(fixed) = &ssh.profile {
            let plan = self.0.ssh.fixed_plan(fixed, ssh);
            let opened = Box::pin(self.0.ssh.open(
                target.name.host(),
                target.name.as_str(),
                plan,
                RemoteCommand::plain(command),
                on_phase,
            ))
            .await;
            return Ok(Channel::Ssh(Box::new(opened?)));
        }
        if let Some(template) = &self.0.options.exec {
            let opening = self.open_exec(template, target.name.host(), command, on_phase);
            return Ok(Channel::Program(Box::new(opening.await?)));
        }
        if self.0.options.mode == TransportMode::Srun {
            let why = "a single command needs ssh; srun runs only the probe";
            return Err(bad_configuration(why).into());
        }
        self.open_configured(target, ssh, command, on_phase).await
    }

    /// Fetches the keys of a node without logging in there. If a gateway before it is not known, the keys of that one.
    pub async fn fetch_host_keys(&self, target: &Target) -> Result<HostOffer, ssh::Fault> {
        let why = match &target.reach {
            Reach::Local => "the local machine has no host key to accept",
            Reach::InProcess(_) => "a simulated node without SSH has no host key to accept",
            Reach::Page(_) => "a page of metrics has no host key to accept",
            Reach::Ssh(ssh) if self.0.options.exec.is_some() && ssh.profile == Profile::System => {
                "this node is reached by --exec, which shows no host key"
            }
            Reach::Ssh(ssh) => {
                return self.0.ssh.fetch_host_keys(target.name.host(), ssh).await;
            }
        };
        Err(bad_configuration(why))
    }

    /// Adds lines to `known_hosts` files, and returns the number of new ones.
    pub async fn store_host_keys(&self, entries: Vec<KnownHostEntry>) -> Result<usize, WriteError> {
        self.0.ssh.store_host_keys(entries).await
    }

    /// Returns the encrypted key files worth asking a passphrase for; see [`Client`].
    pub async fn locked_keys(&self, targets: &[Target]) -> Vec<PathBuf> {
        let has_program = matches!(self.0.options.mode, TransportMode::Ssh | TransportMode::Srun);
        if has_program || self.0.options.exec.is_some() {
            return Vec::new();
        }
        let ssh_targets = targets.iter().filter_map(|target| match &target.reach {
            Reach::Ssh(ssh) if ssh.profile == Profile::System => Some(ssh.clone()),
            Reach::Ssh(_) | Reach::Local | Reach::Page(_) | Reach::InProcess(_) => None,
        });
        self.0.ssh.locked_keys(ssh_targets).await
    }

    /// Decrypts a key file for the rest of this process; fails if the passphrase is wrong. Does not keep the
    /// passphrase.
    pub async fn unlock(
        &self,
        file: &Path,
        passphrase: impl Into<Secret>,
    ) -> Result<(), ssh::Fault> {
        self.0.ssh.unlock(file, passphrase).await
    }

    /// Returns the ssh client.
    pub fn client(&self) -> &Client {
        &self.0.ssh
    }

    /// Returns the ssh client, and what it connects to for a node.
    ///
    /// # Errors
    ///
    /// If the node is not reached by ssh with the user's configuration.
    pub fn ssh_client(&self, target: &Target) -> Result<(&Client, SshTarget), ssh::Fault> {
        match &target.reach {
            Reach::Ssh(ssh) if ssh.profile == Profile::System && self.0.options.exec.is_none() => {
                Ok((&self.0.ssh, ssh.clone()))
            }
            Reach::Ssh(_) | Reach::Local | Reach::Page(_) | Reach::InProcess(_) => {
                Err(bad_configuration("this node is not reached by ssh, so it needs no login"))
            }
        }
    }

    /// Returns what is known of the host where a connection to a target failed: the target, or a gateway. `None` if the
    /// ssh configuration does not lead to it.
    pub async fn login_facts(&self, target: &Target, fault: &Fault) -> Option<LoginFacts> {
        let (client, ssh) = self.ssh_client(target).ok()?;
        let fault = if let Fault::Ssh(fault) = fault { Some(fault) } else { None };
        let gateway = fault.and_then(ssh::Fault::gateway);
        // A configuration that hangs is the fault, and no more is known.
        let facts = timeout(LOGIN_FACTS_TIMEOUT, client.login_facts(&ssh, gateway)).await;
        let mut facts = facts.ok().flatten()?;
        // The ssh program finds the connection of `gtop login` to a node, and none to a gateway.
        facts.shares_logins &= gateway.is_none() || self.0.options.mode != TransportMode::Ssh;
        Some(facts)
    }

    /// Returns true if the ssh configuration applies to a node.
    pub fn uses_ssh_config(&self, target: &Target) -> bool {
        matches!(target.reach, Reach::Ssh(_)) && self.0.options.exec.is_none()
    }

    /// Returns every effective option of a target, and where it was set.
    pub async fn effective_options(&self, target: &Target) -> Result<Vec<EffectiveOption>, Fault> {
        let Reach::Ssh(ssh) = &target.reach else { return Ok(Vec::new()) };
        let Profile::System = ssh.profile else { return Ok(Vec::new()) };
        let mut options = self.0.ssh.effective_options(ssh).await?;
        if self.0.options.mode == TransportMode::Ssh {
            // The ssh program follows every option that gtop does not override.
            for option in &mut options {
                option.is_ignored = ssh::program_overrides(option.spelling);
            }
        }
        Ok(options)
    }

    /// Returns the host names of the configuration, without patterns, in file order.
    ///
    /// Reads files; blocks.
    pub fn configured_hosts(&self) -> Result<Vec<String>, ssh::Fault> {
        self.0.ssh.configured_hosts()
    }

    /// Sets which nodes the scheduler has powered down; they are not to be connected to.
    pub fn set_powered_off(&self, nodes: BTreeSet<NodeName>) {
        *lock(&self.0.powered_off) = nodes;
    }

    /// Returns true if the scheduler has powered the node down.
    pub fn is_powered_off(&self, node: &NodeName) -> bool {
        lock(&self.0.powered_off).contains(node)
    }

    /// Sets the scheduler's addresses of its nodes.
    pub fn set_scheduler_addresses(&self, addresses: SchedulerAddresses) {
        self.0.ssh.set_scheduler_addresses(addresses);
    }
}

fn bad_configuration(why: &str) -> ssh::Fault {
    ssh::Fault::BadConfiguration { why: why.to_owned() }
}

/// Sleeps until a moment; forever if there is none.
pub(crate) async fn sleep_until_some(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
