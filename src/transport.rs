//! Reaches a node and runs one command there: over SSH, or on this machine.
//!
//! It knows neither what is run nor what it prints. Host keys are judged as `ssh`
//! judges them, by the same files and `StrictHostKeyChecking`; a key `ssh` would
//! ask about is a fault until the user accepts it. Nothing is forwarded, no
//! terminal is asked for, no password is sent.
//!
//! russh logs what it sends at the level `debug`, so its logging must stay above.

mod addresses;
mod agent;
mod algorithms;
mod ask;
mod cable;
mod carrier;
mod certificate;
mod channel;
mod choice;
mod complaint;
mod dial;
mod exec;
mod fault;
mod files;
mod gateway;
mod host_keys;
mod identity;
mod interview;
mod judge;
mod known_hosts;
mod local;
mod login;
mod master;
mod notes;
mod offer;
mod outlet;
mod proxy;
mod revoked;
mod route;
mod session;
mod settings;
mod ssh_config;
mod step;
mod system;
mod target;
mod trial;
mod trust;
mod tunnel;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use crate::transport::addresses::Addresses;
pub use crate::transport::ask::{Answer, AskFault, Asked, ask};
pub use crate::transport::channel::{Channel, Exit, Output};
pub use crate::transport::choice::Choice;
pub use crate::transport::exec::{ExecTemplate, TemplateError};
pub use crate::transport::fault::{Cause, Fault, HostKeyChange, KeyFlaw, Silence, Step, StepCause};
pub use crate::transport::host_keys::Verdict;
pub use crate::transport::interview::{Inquiry, Interview, Prompt, Secret};
pub use crate::transport::local::{LEASH, NOT_STARTED, become_leashed, end_programs};
pub use crate::transport::notes::{Attempt, Note, Noted, Notes, Way, noting};
pub use crate::transport::ssh_config::{EffectiveOption, Origin, Surroundings};
pub use crate::transport::step::{AddressOf, KEPT, Places, Shared, StepJob};
pub use crate::transport::target::{FixedProfile, Profile, Reach, SshTarget, Target};
pub use crate::transport::trial::StepSite;
pub use crate::transport::trust::{KnownHostEntry, OfferedKey, write_known_hosts};

use crate::transport::addresses::AddressBook;
use crate::transport::agent::Agents;
use crate::transport::algorithms::Terms;
use crate::transport::choice::Remembered;
use crate::transport::dial::Names;
use crate::transport::files::FileCache;
use crate::transport::gateway::Gateways;
use crate::transport::host_keys::HostKeys;
use crate::transport::identity::{Identity, KeyCache, KeyFile};
use crate::transport::judge::{Judge, Trust};
use crate::transport::known_hosts::KnownHosts;
use crate::transport::local::Local;
use crate::transport::login::Login;
use crate::transport::revoked::Revoked;
use crate::transport::ssh_config::{Configuration, Family, Question, Settings};
use crate::transport::step::{Site, Steps};

/// How long connecting may take when nobody says otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long logging in may take; directory services of busy clusters are slow.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// Most hosts at once whose configuration is found out by programs or by name services. They mostly wait, and
/// those of one picture should wait together.
const RESOLVERS: usize = 64;

/// How long targets are looked at to find keys that need a passphrase.
const LOOKING_LIMIT: Duration = Duration::from_secs(3);

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
    /// The ssh program: it is asked where only it can tell what the configuration says, and reaches
    /// nodes that gtop itself cannot.
    pub ssh_program: PathBuf,
    /// What speaks SSH.
    pub choice: Choice,
    /// The command that leads to nodes, in place of any SSH.
    pub exec: Option<ExecTemplate>,
    /// The srun program.
    pub srun_program: PathBuf,
    /// Where it is remembered which clusters are reached by srun only.
    pub state: Option<PathBuf>,
    /// The gtop that keeps programs from outliving this process; see [`LEASH`].
    pub leash: Option<PathBuf>,
    /// The environment the configuration refers to.
    pub surroundings: Surroundings,
    /// How nodes may ask a person something, when there is one.
    pub interview: Option<Interview>,
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
            exec: None,
            srun_program: PathBuf::from("srun"),
            state: None,
            leash: None,
            surroundings: Surroundings::of_this_process(),
            interview: None,
        }
    }
}

/// Reaches nodes, and remembers what it read to do so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transport(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    options: Options,
    configuration: Configuration,
    /// What is known of hosts, and of which reading of the files.
    settings: Mutex<BTreeMap<Question, (u64, Arc<Settings>)>>,
    resolvers: Arc<Semaphore>,
    names: Names,
    gateways: Gateways,
    remembered: Remembered,
    known_hosts: FileCache<Result<Arc<KnownHosts>, Fault>>,
    revoked: FileCache<Result<Arc<Revoked>, Fault>>,
    keys: KeyCache,
    agents: Agents,
    steps: Steps,
    site: Site,
    addresses: AddressBook,
}

/// Everything one connection needs.
struct Plan {
    host: String,
    port: u16,
    family: Family,
    way: route::Way,
    terms: Terms,
    connect_limit: Duration,
    trust: Trust,
    login: Login,
}

impl Transport {
    /// Returns how long connecting may take where the user has said so.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.0.options.connect_timeout
    }

    /// Makes a transport that has read nothing yet.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Kept {
            options,
            configuration: Configuration::default(),
            settings: Mutex::default(),
            resolvers: Arc::new(Semaphore::new(RESOLVERS)),
            names: Names::default(),
            gateways: Gateways::default(),
            remembered: Remembered::default(),
            known_hosts: FileCache::default(),
            revoked: FileCache::default(),
            keys: KeyCache::default(),
            agents: Agents::default(),
            steps: Steps::default(),
            site: Site::default(),
            addresses: AddressBook::default(),
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
        let mut on_step = |step| {
            notes::note(|| Note::Begins(step));
            on_step(step);
        };
        let Reach::Ssh(ssh) = &target.reach else {
            on_step(Step::Connection);
            return Ok(Channel::local(Local::start(command)?));
        };
        if let Profile::Fixed(fixed) = &ssh.profile {
            let plan = fixed_plan(fixed, ssh, &self.0.options);
            return Box::pin(self.native(target, plan, command, on_step)).await;
        }
        if let Some(template) = &self.0.options.exec {
            return self.by_exec(template, target, command, on_step).await;
        }
        if self.0.options.choice == Choice::Srun {
            let why = "a command of its own needs ssh; srun is for watching".to_owned();
            return Err(Fault::BadConfiguration { why });
        }
        self.by_choice(target, ssh, command, on_step).await
    }

    /// Starts the probe on `target`: as [`open`](Self::open) does, or as a part of what `shared`
    /// returns, in a step of the job that is known to run there.
    pub async fn open_probe(
        &self,
        target: &Target,
        command: &str,
        shared: &(dyn Fn() -> Shared + Sync),
        on_step: impl FnMut(Step) + Send,
    ) -> Result<Channel, Fault> {
        let ways = way::Ways { target, command, shared };
        Box::pin(self.by_ways(ways, on_step)).await
    }

    /// Starts a command by our own SSH.
    async fn native(
        &self,
        target: &Target,
        plan: Plan,
        command: &str,
        mut on_step: impl FnMut(Step),
    ) -> Result<Channel, Fault> {
        let interview = self.0.options.interview.as_ref();
        let at_the_door = interview.map(|interview| interview.at_the_door(target.name.clone()));
        let (session, limit) = self.log_in(target.name.host(), plan, &mut on_step).await?;
        drop(at_the_door);
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
        if self.0.options.exec.is_some() {
            return Err(bad("this node is reached by --exec, which shows no host key"));
        }
        let question = self.question(ssh);
        let settings = self.settings_of(question.clone()).await?;
        let plan = self.plan(&question, &settings).await?;
        let Trust::Known(judge) = &plan.trust else { return Err(bad("nothing to compare with")) };
        let (line, limit) = self.dial(target.name.host(), &plan, &mut |_| ()).await?;
        let judgement = session::look(line, Arc::clone(judge), &plan.terms, &limit).await?;
        trust::offered(&judge.settings, judgement)
    }

    /// Returns the key files that need a passphrase to be of use. Targets whose configuration
    /// takes longer than three seconds to find do not count.
    ///
    /// Gateways on the way count too. Files the agent holds are left out, and default files when there is another
    /// key to show.
    pub async fn locked_keys(&self, targets: &[Target]) -> Vec<PathBuf> {
        let has_program = matches!(self.0.options.choice, Choice::Ssh | Choice::Srun);
        if has_program || self.0.options.exec.is_some() {
            return Vec::new();
        }
        let mut reads = JoinSet::new();
        let systems = targets.iter().filter_map(|target| match &target.reach {
            Reach::Ssh(ssh) if ssh.profile == Profile::System => Some(ssh.clone()),
            Reach::Ssh(_) | Reach::Local => None,
        });
        for ssh in systems {
            let transport = self.clone();
            reads.spawn(async move { transport.settings_to_log_in_with(&ssh).await });
        }
        let mut sets = BTreeSet::new();
        let looking = async {
            while let Some(read) = reads.join_next().await {
                // A configuration that cannot be read is reported when its node is opened.
                let settings = read.ok().and_then(Result::ok).unwrap_or_default();
                let asks = settings.iter().filter(|settings| settings.prompts > 0);
                sets.extend(asks.map(|settings| settings.keys.clone()));
            }
        };
        // What was found until then counts.
        timeout(LOOKING_LIMIT, looking).await.ok();
        let mut locked = BTreeSet::new();
        for keys in sets {
            let held = match &keys.agent {
                Some(socket) => self.0.agents.at(socket).public_keys().await,
                None => Vec::new(),
            };
            let are_chosen = keys.are_chosen;
            let identities = self.blocking(move |shared| shared.keys.load(&keys.files)).await;
            let identities = identities.unwrap_or_default();
            let worth = identity::worth_asking(&identities, are_chosen, &held);
            locked.extend(worth.into_iter().map(Path::to_owned));
        }
        locked.into_iter().collect()
    }

    /// Opens an encrypted key file for the rest of this process, or says that the
    /// passphrase is wrong. The passphrase itself is not kept.
    pub async fn unlock(&self, file: &Path, passphrase: impl Into<Secret>) -> Result<(), Fault> {
        let (file, passphrase) = (file.to_owned(), passphrase.into());
        self.blocking(move |shared| shared.keys.unlock(&file, &passphrase)).await?
    }

    async fn plan(&self, question: &Question, settings: &Arc<Settings>) -> Result<Plan, Fault> {
        let way = self.way(question, settings).await?;
        notes::note(|| Note::Way(way.told()));
        self.plan_by(&question.host, settings, way).await
    }

    /// Returns what one connection needs, on a way that is known.
    async fn plan_by(
        &self,
        place: &str,
        settings: &Arc<Settings>,
        way: route::Way,
    ) -> Result<Plan, Fault> {
        if !settings.needs_ssh.is_empty() {
            return Err(Fault::OnlySsh { options: settings.needs_ssh.join(", ") });
        }
        let terms = Terms::of(settings)?;
        let wanted = Arc::clone(settings);
        let (judge, identities, certificates) = self
            .blocking(move |shared| {
                (
                    shared.judge(&wanted),
                    shared.keys.load(&wanted.keys.files),
                    shared.keys.load_certificates(&wanted.keys.certificates),
                )
            })
            .await?;
        Ok(Plan {
            host: settings.host.clone(),
            port: settings.port,
            family: settings.family,
            way,
            terms,
            connect_limit: connect_limit(&self.0.options, settings),
            trust: Trust::Known(Arc::new(judge?)),
            login: Login {
                user: settings.user.clone(),
                place: place.to_owned(),
                methods: settings.methods.clone(),
                identities,
                certificates,
                only_these: settings.keys.only_these,
                agent: settings.keys.agent.as_deref().map(|socket| self.0.agents.at(socket)),
                algorithms: settings.algorithms.signatures.clone(),
                prompts: settings.prompts,
                devices: settings.devices.clone(),
                interview: self.0.options.interview.clone(),
                has_master: false,
            },
        })
    }

    /// Runs work on files where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Kept) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.map_err(|_ended| ending())
    }
}

impl Kept {
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
        way: route::Way::Direct(dial::Origin::default()),
        terms: Terms::default(),
        connect_limit: options.connect_timeout.unwrap_or(CONNECT_LIMIT),
        trust: Trust::Pinned(fixed.host_key.clone()),
        login: Login {
            user: user.unwrap_or(&options.surroundings.user).clone(),
            place: ssh.host.clone(),
            methods: vec!["publickey".to_owned()],
            identities: vec![Identity {
                path: PathBuf::from("fixed key"),
                file: key,
                certificate: None,
            }],
            certificates: Vec::new(),
            agent: None,
            only_these: true,
            algorithms: Vec::new(),
            prompts: 0,
            devices: None,
            interview: None,
            has_master: false,
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
