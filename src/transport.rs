//! Reaches a node and runs one command there: over SSH, or on this machine.
//!
//! It knows neither what is run nor what it prints. Host keys are judged as `ssh`
//! judges them, by the same files and `StrictHostKeyChecking`; a key `ssh` would
//! ask about is a fault until the user accepts it. Nothing is forwarded, no
//! terminal is asked for, no password is sent.
//!
//! russh logs what it sends at the level `debug`, so its logging must stay above.

mod agent;
mod algorithms;
mod cable;
mod certificate;
mod channel;
mod dial;
mod fault;
mod files;
mod host_keys;
mod identity;
mod judge;
mod known_hosts;
mod local;
mod login;
mod offer;
mod revoked;
mod session;
mod settings;
mod ssh_config;
mod target;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use crate::transport::channel::{Channel, Exit, Output};
pub use crate::transport::fault::{Fault, HostKeyChange, Step};
pub use crate::transport::host_keys::Verdict;
pub use crate::transport::ssh_config::{EffectiveOption, Origin, Surroundings};
pub use crate::transport::target::{FixedProfile, Profile, Reach, SshTarget, Target};
pub use crate::transport::trust::{KnownHostEntry, OfferedKey, write_known_hosts};

use crate::transport::agent::Agent;
use crate::transport::dial::{Deadline, Names, Place};
use crate::transport::files::FileCache;
use crate::transport::host_keys::HostKeys;
use crate::transport::identity::{Identity, KeyCache, KeyFile};
use crate::transport::judge::{Judge, Trust};
use crate::transport::known_hosts::KnownHosts;
use crate::transport::local::Local;
use crate::transport::login::Login;
use crate::transport::revoked::Revoked;
use crate::transport::ssh_config::{Configuration, Family, Keys, Question, Route, Settings};

/// How long connecting may take when nobody says otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long logging in may take; directory services of busy clusters are slow.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// Most targets that are looked at to find keys that need a passphrase.
const SAMPLE: usize = 32;

/// What holds for every target.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long name, TCP and key exchange may take together. When absent, the
    /// configuration's `ConnectTimeout` or ten seconds.
    pub connect_timeout: Option<Duration>,
    /// The user name for targets that name none; wins over the configuration.
    pub login: Option<String>,
    /// The configuration file in place of the user's, as `ssh -F`.
    pub config_file: Option<PathBuf>,
    /// The program that is asked where only it can tell what the configuration says.
    pub ssh_program: PathBuf,
    /// The environment the configuration refers to.
    pub surroundings: Surroundings,
}

impl Options {
    /// Returns the options for the user who runs this process.
    pub fn of_this_process() -> Self {
        Self {
            connect_timeout: None,
            login: None,
            config_file: None,
            ssh_program: PathBuf::from("ssh"),
            surroundings: Surroundings::of_this_process(),
        }
    }
}

/// Reaches nodes, and remembers what it read to do so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transport(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    configuration: Configuration,
    /// What is known of hosts, and of which reading of the files.
    settings: Mutex<BTreeMap<Question, (u64, Arc<Settings>)>>,
    resolvers: Arc<Semaphore>,
    names: Names,
    known_hosts: FileCache<Result<Arc<KnownHosts>, Fault>>,
    revoked: FileCache<Result<Arc<Revoked>, Fault>>,
    keys: KeyCache,
}

/// Everything one connection needs.
struct Plan {
    host: String,
    port: u16,
    family: Family,
    connect_limit: Duration,
    trust: Trust,
    login: Login,
}

impl Transport {
    /// Makes a transport that has read nothing yet.
    pub fn new(options: Options) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Shared {
            options,
            configuration: Configuration::default(),
            settings: Mutex::default(),
            resolvers: Arc::new(Semaphore::new(cores)),
            names: Names::default(),
            known_hosts: FileCache::default(),
            revoked: FileCache::default(),
            keys: KeyCache::default(),
        }))
    }

    /// Reaches `target` and starts `command` there under the user's login shell, or
    /// `/bin/sh` on this machine.
    ///
    /// `on_step` hears of every step as it begins. Giving up the wait leaves nothing
    /// running.
    pub async fn open(
        &self,
        target: &Target,
        command: &str,
        mut on_step: impl FnMut(Step),
    ) -> Result<Channel, Fault> {
        let Reach::Ssh(ssh) = &target.reach else {
            on_step(Step::Connection);
            return Ok(Channel::local(Local::start(command)?));
        };
        on_step(Step::Configuration);
        let plan = self.plan(ssh).await?;
        let connect_limit = Deadline::after(plan.connect_limit);
        let stream = self.dial(target.name.as_str(), &plan, &connect_limit, &mut on_step).await?;
        on_step(Step::KeyExchange);
        let mut session = session::greet(stream, plan.trust, &connect_limit).await?;
        on_step(Step::Login);
        let login_limit = Deadline::after(LOGIN_LIMIT);
        login_limit.bound(Step::Login, plan.login.run(&mut session)).await??;
        on_step(Step::Command);
        Channel::ssh(session, command, &login_limit).await
    }

    /// Asks a node for its host key without logging in.
    pub async fn host_key(&self, target: &Target) -> Result<OfferedKey, Fault> {
        let bad = |why: &str| Fault::BadConfiguration { why: why.to_owned() };
        let Reach::Ssh(ssh) = &target.reach else {
            return Err(bad("this machine has no host key to accept"));
        };
        let Profile::System = ssh.profile else {
            return Err(bad("this node brings its own host key"));
        };
        let plan = self.plan(ssh).await?;
        let Trust::Known(judge) = &plan.trust else { return Err(bad("nothing to compare with")) };
        let limit = Deadline::after(plan.connect_limit);
        let stream = self.dial(target.name.as_str(), &plan, &limit, &mut |_| ()).await?;
        let judgement = session::look(stream, Arc::clone(judge), &limit).await?;
        trust::offered(&judge.settings, judgement)
    }

    /// Returns the key files that need a passphrase to be of use, for the first
    /// targets of the list.
    ///
    /// Files the agent holds are left out, and default files when there is another
    /// key to show.
    pub async fn locked_keys(&self, targets: &[Target]) -> Vec<PathBuf> {
        let mut reads = JoinSet::new();
        let systems = targets.iter().filter_map(|target| match &target.reach {
            Reach::Ssh(ssh) if ssh.profile == Profile::System => Some(ssh.clone()),
            Reach::Ssh(_) | Reach::Local => None,
        });
        for ssh in systems.take(SAMPLE) {
            let transport = self.clone();
            reads.spawn(async move { transport.settings(&ssh).await });
        }
        let mut sets = BTreeSet::new();
        while let Some(read) = reads.join_next().await {
            // A configuration that cannot be read is reported when its node is opened.
            if let Ok(Ok(settings)) = read {
                sets.insert(settings.keys.clone());
            }
        }
        let mut locked = BTreeSet::new();
        for Keys { files, are_chosen, agent, .. } in sets {
            let held = Agent::public_keys(agent).await;
            let identities = self.blocking(move |shared| shared.keys.load(&files)).await;
            let identities = identities.unwrap_or_default();
            let worth = identity::worth_asking(&identities, are_chosen, &held);
            locked.extend(worth.into_iter().map(Path::to_owned));
        }
        locked.into_iter().collect()
    }

    /// Opens an encrypted key file for the rest of this process, or says that the
    /// passphrase is wrong. The passphrase itself is not kept.
    pub async fn unlock(&self, file: &Path, passphrase: String) -> Result<(), Fault> {
        let file = file.to_owned();
        self.blocking(move |shared| shared.keys.unlock(&file, &passphrase)).await?
    }

    async fn dial(
        &self,
        typed: &str,
        plan: &Plan,
        limit: &Deadline,
        on_step: &mut impl FnMut(Step),
    ) -> Result<tokio::net::TcpStream, Fault> {
        on_step(Step::Name);
        let place = Place { host: &plan.host, port: plan.port, family: plan.family, typed };
        let addresses = limit.bound(Step::Name, self.0.names.look_up(place)).await??;
        on_step(Step::Connection);
        dial::connect(&addresses, limit).await
    }

    async fn plan(&self, ssh: &SshTarget) -> Result<Plan, Fault> {
        let options = &self.0.options;
        if let Profile::Fixed(fixed) = &ssh.profile {
            return Ok(fixed_plan(fixed, ssh, options));
        }
        let settings = self.settings(ssh).await?;
        match &settings.route {
            Route::Direct => {}
            Route::Jumps(hops) => {
                let value = hops.iter().map(|hop| hop.host.as_str()).collect::<Vec<_>>().join(",");
                return Err(Fault::NotSupported { option: "ProxyJump", value });
            }
            Route::Command(command) => {
                let value = fault::quote(command);
                return Err(Fault::NotSupported { option: "ProxyCommand", value });
            }
        }
        let wanted = Arc::clone(&settings);
        let (judge, identities) = self
            .blocking(move |shared| (shared.judge(&wanted), shared.keys.load(&wanted.keys.files)))
            .await?;
        let of_configuration = settings.connect_timeout.filter(|limit| !limit.is_zero());
        Ok(Plan {
            host: settings.host.clone(),
            port: settings.port,
            family: settings.family,
            connect_limit: options.connect_timeout.or(of_configuration).unwrap_or(CONNECT_LIMIT),
            trust: Trust::Known(Arc::new(judge?)),
            login: Login {
                user: settings.user.clone(),
                identities,
                only_these: settings.keys.only_these,
                are_chosen: settings.keys.are_chosen,
                agent: settings.keys.agent.clone(),
                keys_allowed: settings.keys.are_allowed,
            },
        })
    }

    /// Runs work on files where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.map_err(|_ended| ending())
    }
}

impl Shared {
    fn judge(&self, settings: &Arc<Settings>) -> Result<Judge, Fault> {
        let paths = settings.user_known_hosts.iter().chain(&settings.global_known_hosts);
        let files: Result<Vec<_>, _> =
            paths.map(|path| self.known_hosts.get(path, KnownHosts::read)).collect();
        let revoked = settings.revoked_host_keys.as_ref().map(|path| {
            let list = self.revoked.get(path, Revoked::read);
            list.map(|list| (path.clone(), list))
        });
        let known = HostKeys::gather(&files?, settings.known_as.clone());
        Ok(Judge::new(Arc::clone(settings), known, revoked.transpose()?))
    }
}

fn fixed_plan(fixed: &FixedProfile, ssh: &SshTarget, options: &Options) -> Plan {
    let key = KeyFile::Open(Arc::clone(&fixed.key));
    let user = ssh.user.as_ref().or(options.login.as_ref());
    Plan {
        host: fixed.address.ip().to_string(),
        port: fixed.address.port(),
        family: Family::Any,
        connect_limit: options.connect_timeout.unwrap_or(CONNECT_LIMIT),
        trust: Trust::Pinned(fixed.host_key.clone()),
        login: Login {
            user: user.unwrap_or(&options.surroundings.user).clone(),
            identities: vec![Identity { path: PathBuf::from("fixed key"), file: key }],
            are_chosen: true,
            agent: None,
            only_these: true,
            keys_allowed: true,
        },
    }
}

fn ending() -> Fault {
    Fault::SessionLost { why: "gtop is ending".to_owned() }
}
