//! Reaches a node and runs one command there: over SSH, or on this machine.
//!
//! It knows neither what is run nor what it prints. Host keys are always checked
//! against OpenSSH's files, strictly: `StrictHostKeyChecking no` and
//! `accept-new` are not followed, so an unknown key is a fault until the user
//! accepts it. Nothing is forwarded, no terminal is asked for, no password is
//! sent.
//!
//! russh logs what it sends at the level `debug`, so its logging must stay above.

mod agent;
mod algorithms;
mod cable;
mod carrier;
mod channel;
mod choice;
mod complaint;
mod dial;
mod fault;
mod files;
mod gateway;
mod identity;
mod known_hosts;
mod local;
mod login;
mod proxy;
mod route;
mod session;
mod ssh_config;
mod system;
mod target;
mod trust;
mod tunnel;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use crate::transport::channel::{Channel, Exit, Output};
pub use crate::transport::choice::Choice;
pub use crate::transport::fault::{Cause, Fault, HostKeyChange, Step};
pub use crate::transport::known_hosts::Verdict;
pub use crate::transport::local::{LEASH, NOT_STARTED, become_leashed};
pub use crate::transport::ssh_config::Surroundings;
pub use crate::transport::target::{FixedProfile, Profile, Reach, SshTarget, Target};
pub use crate::transport::trust::{KnownHostEntry, OfferedKey, write_known_hosts};

use crate::transport::agent::Agent;
use crate::transport::algorithms::Terms;
use crate::transport::choice::Remembered;
use crate::transport::dial::{Deadline, Names, Origin};
use crate::transport::files::{FileCache, Stamp, lock};
use crate::transport::gateway::Gateways;
use crate::transport::identity::{Identity, KeyCache, KeyFile};
use crate::transport::known_hosts::{HostKeys, KnownHosts};
use crate::transport::local::Local;
use crate::transport::login::Login;
use crate::transport::route::Way;
use crate::transport::session::Trust;
use crate::transport::ssh_config::{Family, Keys, Question, Settings};

/// How long connecting may take when nobody says otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long logging in may take; directory services of busy clusters are slow.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// How long `ssh -G` may take.
const CONFIGURATION_LIMIT: Duration = Duration::from_secs(10);

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
    /// The ssh program: it reads the configuration, and reaches nodes that gtop itself cannot.
    pub ssh_program: PathBuf,
    /// What speaks SSH.
    pub choice: Choice,
    /// The gtop that keeps programs from outliving this process; see [`LEASH`].
    pub leash: Option<PathBuf>,
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
            choice: Choice::Auto,
            leash: None,
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
    settings: Mutex<BTreeMap<Question, (ConfigurationStamps, Arc<Settings>)>>,
    resolvers: Semaphore,
    names: Names,
    gateways: Gateways,
    remembered: Remembered,
    known_hosts: FileCache<Arc<KnownHosts>>,
    keys: KeyCache,
}

/// The versions of the user's and the machine's configuration file.
type ConfigurationStamps = [Option<Stamp>; 2];

/// Everything one connection needs.
struct Plan {
    host: String,
    port: u16,
    family: Family,
    way: Way,
    terms: Terms,
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
            settings: Mutex::default(),
            resolvers: Semaphore::new(cores),
            names: Names::default(),
            gateways: Gateways::default(),
            remembered: Remembered::default(),
            known_hosts: FileCache::default(),
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
        if let Profile::Fixed(fixed) = &ssh.profile {
            let plan = fixed_plan(fixed, ssh, &self.0.options);
            return Box::pin(self.native(target, plan, command, on_step)).await;
        }
        self.by_choice(target, ssh, command, on_step).await
    }

    /// Starts a command by our own SSH.
    async fn native(
        &self,
        target: &Target,
        plan: Plan,
        command: &str,
        mut on_step: impl FnMut(Step),
    ) -> Result<Channel, Fault> {
        let (session, limit) = self.log_in(target.name.as_str(), plan, &mut on_step).await?;
        on_step(Step::Command);
        Channel::ssh(session, command, &limit).await
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
        let question = self.question(ssh);
        let settings = self.settings_of(question.clone()).await?;
        let plan = self.plan(&question, &settings).await?;
        let Trust::Known(keys) = &plan.trust else { return Err(bad("nothing to compare with")) };
        let (line, limit) = self.dial(target.name.as_str(), &plan, &mut |_| ()).await?;
        let key = session::look(line, &plan.terms, &limit).await?;
        trust::offered(&settings, keys, &key)
    }

    /// Returns the key files that need a passphrase to be of use, for the first
    /// targets of the list.
    ///
    /// Gateways on the way count too. Files the agent holds are left out, and default files when there is another
    /// key to show.
    pub async fn locked_keys(&self, targets: &[Target]) -> Vec<PathBuf> {
        if self.0.options.choice == Choice::Ssh {
            return Vec::new();
        }
        let mut reads = JoinSet::new();
        let systems = targets.iter().filter_map(|target| match &target.reach {
            Reach::Ssh(ssh) if ssh.profile == Profile::System => Some(ssh.clone()),
            Reach::Ssh(_) | Reach::Local => None,
        });
        for ssh in systems.take(SAMPLE) {
            let transport = self.clone();
            reads.spawn(async move { transport.settings_on_the_way(&ssh).await });
        }
        let mut sets = BTreeSet::new();
        while let Some(read) = reads.join_next().await {
            // A configuration that cannot be read is reported when its node is opened.
            if let Ok(Ok(settings)) = read {
                sets.extend(settings.iter().map(|settings| settings.keys.clone()));
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

    async fn plan(&self, question: &Question, settings: &Arc<Settings>) -> Result<Plan, Fault> {
        let way = self.way(question, settings).await?;
        self.plan_by(settings, way).await
    }

    /// Returns what one connection needs, on a way that is known.
    async fn plan_by(&self, settings: &Arc<Settings>, way: Way) -> Result<Plan, Fault> {
        if !settings.needs_ssh.is_empty() {
            return Err(Fault::OnlySsh { options: settings.needs_ssh.join(", ") });
        }
        let terms = Terms::of(settings)?;
        let wanted = Arc::clone(settings);
        let (keys, identities) = self
            .blocking(move |shared| {
                (shared.host_keys(&wanted), shared.keys.load(&wanted.keys.files))
            })
            .await?;
        Ok(Plan {
            host: settings.host.clone(),
            port: settings.port,
            family: settings.family,
            way,
            terms,
            connect_limit: connect_limit(&self.0.options, settings),
            trust: Trust::Known(keys),
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

    fn question(&self, ssh: &SshTarget) -> Question {
        Question {
            host: ssh.host.clone(),
            user: ssh.user.clone().or_else(|| self.0.options.login.clone()),
            port: ssh.port,
        }
    }

    /// Returns what the configuration says about a host, asking `ssh` when needed.
    async fn settings_of(&self, question: Question) -> Result<Arc<Settings>, Fault> {
        question.check()?;
        let stamps = self.blocking(Shared::configuration_stamps).await?;
        if let Some((of, settings)) = lock(&self.0.settings).get(&question)
            && *of == stamps
        {
            return Ok(Arc::clone(settings));
        }
        let settings = Arc::new(self.resolve(&question).await?);
        lock(&self.0.settings).insert(question, (stamps, Arc::clone(&settings)));
        Ok(settings)
    }

    async fn resolve(&self, question: &Question) -> Result<Settings, Fault> {
        let options = &self.0.options;
        let permit = self.0.resolvers.acquire().await.map_err(|_closed| ending())?;
        let words = question.arguments(options.config_file.as_deref());
        let limit = Deadline::after(CONFIGURATION_LIMIT);
        let asked = local::answer(&options.ssh_program, words);
        let answer = limit.bound(Step::Configuration, asked).await?;
        drop(permit);
        match answer {
            Ok(answer) if answer.succeeded => {
                question.settings(&answer.output, &options.surroundings)
            }
            Ok(answer) => {
                let complaint = answer.complaint.lines().next().unwrap_or("ssh -G failed");
                Err(Fault::BadConfiguration { why: fault::quote(complaint) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                question.defaults(&options.surroundings)
            }
            Err(error) => Err(Fault::ProgramNotFound {
                program: options.ssh_program.display().to_string(),
                why: fault::reason(&error),
            }),
        }
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
    fn configuration_stamps(&self) -> ConfigurationStamps {
        let own = self.options.surroundings.home.join(".ssh/config");
        let own = self.options.config_file.as_deref().unwrap_or(&own);
        [own, Path::new("/etc/ssh/ssh_config")].map(Stamp::of)
    }

    fn host_keys(&self, settings: &Settings) -> HostKeys {
        let read = |path: &Path| {
            // A file that is not there knows nobody.
            let text = files::read(path).unwrap_or_default();
            Arc::new(KnownHosts::parse(path, &text))
        };
        let paths = settings.user_known_hosts.iter().chain(&settings.global_known_hosts);
        let files: Vec<_> = paths.map(|path| self.known_hosts.get(path, read)).collect();
        HostKeys::gather(&files, settings.known_as.clone())
    }
}

fn fixed_plan(fixed: &FixedProfile, ssh: &SshTarget, options: &Options) -> Plan {
    let key = KeyFile::Open(Arc::clone(&fixed.key));
    let user = ssh.user.as_ref().or(options.login.as_ref());
    Plan {
        host: fixed.address.ip().to_string(),
        port: fixed.address.port(),
        family: Family::Any,
        way: Way::Direct(Origin::default()),
        terms: Terms::default(),
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

fn connect_limit(options: &Options, settings: &Settings) -> Duration {
    let of_configuration = settings.connect_timeout.filter(|limit| !limit.is_zero());
    options.connect_timeout.or(of_configuration).unwrap_or(CONNECT_LIMIT)
}

fn ending() -> Fault {
    Fault::SessionLost { why: "gtop is ending".to_owned() }
}
