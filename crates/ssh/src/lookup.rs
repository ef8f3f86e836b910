//! Resolves the ssh configuration of a target: from the files, or with `ssh -G` where gtop cannot evaluate them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::identity::files_needing_passphrase;
use crate::config::config_cache::{ParsedConfig, has_address};
use crate::config::resolve::HasAddress;
use crate::config::{
    ConfigError, EffectiveOption, HostKeyCheck, HostQuery, HostSettings, Origin, Route,
    host_settings,
};
use crate::deadline::Deadline;
use crate::host_keys::writer;
use crate::program;
use crate::target::SshTarget;
use crate::{Client, ClientState, shutting_down};
use gtop_local::fault::ssh::{ConnectPhase, Fault};
use gtop_local::fault::{LoginFacts, UnknownHostKey};
use gtop_local::lock::lock;
use gtop_local::process::{NotStarted, ProgramError};
use gtop_local::text;

/// Timeout for reading the files, for name lookups, and for `ssh -G`.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of `ssh -G` when `ForkAfterAuthentication` requires a command.
const NEEDS_COMMAND: &str = "fork into background without a command";

/// What is asked of the configuration of a host.
type Question<T> =
    fn(&ClientState, &ParsedConfig, &HostQuery, Option<HasAddress>) -> Result<T, ConfigError>;

/// What the files of a version of the configuration say.
struct Evaluated<T> {
    version: u64,
    found: Result<T, ConfigError>,
}

impl Client {
    /// Returns every effective option of a target, and where it was set.
    pub async fn effective_options(&self, ssh: &SshTarget) -> Result<Vec<EffectiveOption>, Fault> {
        let query = self.host_query(ssh);
        query.check()?;
        let found = self.evaluate(&query, ClientState::all_options).await?.found;
        let env = &self.0.options.env;
        Ok(match found {
            Err(ConfigError::NeedsSsh { at, what }) => {
                let file = self.0.options.config_file.as_deref();
                let text = self.run_ssh_g(&query, file, &at, &what).await?;
                let defaults = self.run_ssh_g(&query, Some(Path::new("none")), &at, &what).await?;
                let defaults = query.options_from_ssh_g(&defaults, env);
                let mut options = query.options_from_ssh_g(&text, env);
                for EffectiveOption { name, values, is_set, .. } in &mut options {
                    let default = defaults.iter().find(|default| default.name == *name);
                    *is_set = default.is_none_or(|default| default.values != *values);
                }
                options
            }
            found => found.map_err(config_fault)?,
        })
    }

    /// Returns the host names of the configuration, without patterns, in file order.
    ///
    /// Reads files; blocks.
    pub fn configured_hosts(&self) -> Result<Vec<String>, Fault> {
        self.0.configuration().hosts().map_err(config_fault)
    }

    /// Returns the host to resolve the configuration for, with the user name of the options if the target has none.
    pub fn host_query(&self, ssh: &SshTarget) -> HostQuery {
        HostQuery {
            host: ssh.host.clone(),
            user: ssh.user.clone().or_else(|| self.0.options.login.clone()),
            port: ssh.port,
        }
    }

    /// Returns the targets without those of which the files alone tell that they use no encrypted key: mostly all.
    pub(crate) async fn with_encrypted_keys(&self, targets: Vec<SshTarget>) -> Vec<SshTarget> {
        let queries: Vec<_> = targets.iter().map(|ssh| self.host_query(ssh)).collect();
        let reading = self.run_blocking(move |shared| {
            let config = shared.configuration();
            let mut known = BTreeMap::new();
            let mut is_kept = |query| {
                let Ok(settings) = shared.cached_settings(&config, query, None) else {
                    return true;
                };
                let keys = settings.keys.clone();
                matches!(settings.route, Route::Jumps(_))
                    || *known.entry(keys).or_insert_with_key(|keys| {
                        let identities = shared.key_cache.load(&keys.files);
                        !files_needing_passphrase(&identities, keys.are_keys_configured, &[])
                            .is_empty()
                    })
            };
            let kept = targets.into_iter().zip(&queries).filter(|(_, query)| is_kept(query));
            kept.map(|(ssh, _)| ssh).collect()
        });
        reading.await.unwrap_or_default()
    }

    /// Returns what is known of a node, or of a gateway to it.
    pub async fn login_facts(&self, ssh: &SshTarget, gateway: Option<&str>) -> Option<LoginFacts> {
        let query = match gateway {
            Some(gateway) => HostQuery::parse_jump(gateway).ok()?,
            None => self.host_query(ssh),
        };
        let settings = self.host_settings(&query).await.ok()?;
        let keys = &settings.keys;
        let key_file = keys.files.first().filter(|_| keys.are_keys_configured);
        let options = &self.0.options;
        let has_agent = match &options.env.agent {
            Some(socket) => UnixStream::connect(socket).await.is_ok(),
            None => false,
        };
        Some(LoginFacts {
            host_name: settings.host.clone(),
            port: settings.port,
            user: settings.user.clone(),
            login_option: options.login.clone().filter(|_| gateway.is_none() && ssh.user.is_none()),
            key_file: key_file.map(|file| file.display().to_string()),
            has_agent,
            unknown_host_key: match settings.host_key_check {
                _ if writer::keeps_keys(&settings) => UnknownHostKey::Kept,
                HostKeyCheck::Yes => UnknownHostKey::Refused,
                HostKeyCheck::Ask | HostKeyCheck::AcceptNew | HostKeyCheck::No => {
                    UnknownHostKey::Forgotten
                }
            },
            shares_logins: options.uses_masters,
        })
    }

    /// Returns the settings of a host; runs `ssh -G` if needed.
    pub async fn host_settings(&self, query: &HostQuery) -> Result<Arc<HostSettings>, Fault> {
        query.check()?;
        let Evaluated { version, found } =
            self.evaluate(query, ClientState::cached_settings).await?;
        let settings = match found {
            Ok(settings) => settings,
            Err(ConfigError::NeedsSsh { at, what }) => {
                let file = self.0.options.config_file.as_deref();
                let text = self.run_ssh_g(query, file, &at, &what).await?;
                Arc::new(query.settings_from_ssh_g(&text, &self.0.options.env)?)
            }
            Err(error) => return Err(config_fault(error)),
        };
        lock(&self.0.settings).insert(query.clone(), (version, Arc::clone(&settings)));
        Ok(settings)
    }

    /// Evaluates the files. Looks up names only if the files require it (`CanonicalizeHostname`).
    async fn evaluate<T: Send + 'static>(
        &self,
        query: &HostQuery,
        question: Question<T>,
    ) -> Result<Evaluated<T>, Fault> {
        let deadline = Deadline::after(CONFIG_TIMEOUT);
        let read = |has_address, permit: Option<OwnedSemaphorePermit>| {
            let query = query.clone();
            let read = self.run_blocking(move |shared| {
                let config = shared.configuration();
                let found = question(shared, &config, &query, has_address);
                drop(permit);
                Evaluated { version: config.version, found }
            });
            deadline.timeout(ConnectPhase::Configuration, read)
        };
        let first = read(None, None).await??;
        let Err(ConfigError::NeedsLookup) = first.found else { return Ok(first) };
        // The permit goes along: a lookup cannot be stopped, only not started.
        let permit = Arc::clone(&self.0.resolve_permits).acquire_owned();
        let permit = deadline.timeout(ConnectPhase::Configuration, permit).await?;
        read(Some(has_address), Some(permit.map_err(|_closed| shutting_down())?)).await?
    }

    /// Returns the output of `ssh -G`, needed because of the line `at`.
    async fn run_ssh_g(
        &self,
        query: &HostQuery,
        file: Option<&Path>,
        at: &Origin,
        what: &str,
    ) -> Result<String, Fault> {
        let options = &self.0.options;
        let permit = self.0.resolve_permits.acquire().await.map_err(|_closed| shutting_down())?;
        let mut args = query.ssh_g_args(file);
        let deadline = Deadline::after(CONFIG_TIMEOUT);
        let mut answer = program::run(&options.ssh_program, &args, deadline.remaining()).await;
        if answer.as_ref().is_ok_and(|answer| answer.stderr.contains(NEEDS_COMMAND)) {
            args.push("true".into());
            answer = program::run(&options.ssh_program, &args, deadline.remaining()).await;
        }
        drop(permit);
        match answer {
            Ok(answer) if answer.succeeded && !answer.is_truncated => Ok(answer.stdout),
            Ok(answer) => {
                let line = answer.stderr.lines().next().unwrap_or("ssh -G failed");
                Err(Fault::BadConfiguration { why: text::excerpt_line(line) })
            }
            Err(ProgramError::NotFound) => {
                Err(config_fault(ConfigError::NeedsSsh { at: at.clone(), what: what.to_owned() }))
            }
            Err(ProgramError::NotStarted(why)) => {
                let program = options.ssh_program.display().to_string();
                Err(NotStarted { program, why }.into())
            }
            Err(ProgramError::TimedOut(_)) => Err(deadline.timed_out(ConnectPhase::Configuration)),
        }
    }
}

impl ClientState {
    fn configuration(&self) -> Arc<ParsedConfig> {
        let options = &self.options;
        self.configuration.current(&options.env, options.config_file.as_deref())
    }

    fn cached_settings(
        &self,
        config: &ParsedConfig,
        query: &HostQuery,
        has_address: Option<HasAddress>,
    ) -> Result<Arc<HostSettings>, ConfigError> {
        if let Some((version, settings)) = lock(&self.settings).get(query)
            && *version == config.version
        {
            return Ok(Arc::clone(settings));
        }
        let resolved = config.resolve(query, &self.options.env, has_address)?;
        let settings = host_settings::from_options(&resolved, query, &self.options.env);
        settings.map(Arc::new).map_err(ConfigError::Invalid)
    }

    fn all_options(
        &self,
        config: &ParsedConfig,
        query: &HostQuery,
        has_address: Option<HasAddress>,
    ) -> Result<Vec<EffectiveOption>, ConfigError> {
        let resolved = config.resolve(query, &self.options.env, has_address)?;
        Ok(host_settings::effective_options(&resolved, query, &self.options.env))
    }
}

/// Returns the fault of a configuration error.
fn config_fault(error: ConfigError) -> Fault {
    let why = match error {
        ConfigError::Invalid(fault) => return fault,
        ConfigError::NeedsSsh { at, what } => {
            format!("{at}: {what}: only the ssh program can resolve this, and it is not installed")
        }
        ConfigError::NeedsLookup => "names could not be looked up".to_owned(),
    };
    Fault::BadConfiguration { why: text::excerpt(&why, 400) }
}
