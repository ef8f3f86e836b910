//! Reads the configuration, and refuses settings that exclude each other.

use std::path::PathBuf;

use crate::app::{AppError, CommandError, variable};
use crate::cli::{Cli, CliCommand, ConfigAction};
use crate::config::{ConfigPaths, FileError, SettingSources, Settings};
use crate::setting_table::{self, ConnectionSettings, DECLARED, NodeSettings, TransportChoice};
use gtop_collect::inventory::user_groups;
use gtop_collect::scheduler::SchedulerKind;
use gtop_collect::transport::ExecTemplate;
use gtop_fleet::settings::Layer;
use gtop_model::nodeset::Groups;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    #[error("{message} ({origins})")]
    Conflict { message: String, origins: String },
    #[error("no configuration folder: neither XDG_CONFIG_HOME nor HOME is an absolute path")]
    NoHome,
    #[error("{0} not found; gtop --config {0} config init creates it")]
    NoConfig(String),
    #[error(
        "--user selects Slurm jobs{why}; use --slurm --user {user} for these jobs, -l {user} to log in as {user}, or -u={user} for processes of {user}"
    )]
    AmbiguousUser { user: String, why: String },
}

impl CommandError for SettingsError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::NoHome) { 1 } else { 2 }
    }
}

impl CommandError for FileError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::IsSetupFile(_)) { 2 } else { 1 }
    }
}

/// Applies the settings of all sources to the command line; returns the paths of the configuration files, and the merged
/// settings.
pub(super) fn apply_settings(cli: &mut Cli) -> Result<(Option<ConfigPaths>, Settings), AppError> {
    let env_file = std::env::var_os("GTOP_CONFIG").filter(|path| !path.is_empty());
    // `config init` and `config path` work without the file; elsewhere a missing `--config FILE` is an error.
    let is_needed = !matches!(
        cli.command,
        Some(CliCommand::Config { action: ConfigAction::Init | ConfigAction::Path })
    );
    if let Some(file) = cli.config.as_ref().filter(|_| is_needed)
        && matches!(file.try_exists(), Ok(false))
    {
        return Err(SettingsError::NoConfig(file.display().to_string()).into());
    }
    let paths = match cli.config.clone().or(env_file.map(PathBuf::from)) {
        Some(file) => Some(ConfigPaths::at(file)?),
        None => ConfigPaths::of_this_user(),
    };
    let sources = SettingSources {
        file: paths.as_ref().map(|paths| paths.read_config(DECLARED)).unwrap_or_default(),
        setup: paths.as_ref().map(|paths| paths.read_setup(DECLARED)).unwrap_or_default(),
        args: cli.given_settings(),
        arg_hints: cli.settings.hints.clone(),
    };
    let settings = setting_table::merge(sources, variable);
    cli.apply_settings(&settings);
    Ok((paths, settings))
}

/// Returns what [`apply_settings`] does, after settings and options that exclude each other are refused.
pub(super) fn checked_settings(cli: &mut Cli) -> Result<(Option<ConfigPaths>, Settings), AppError> {
    let (paths, settings) = apply_settings(cli)?;
    check_settings(cli, &settings)?;
    check_user_option(cli)?;
    Ok((paths, settings))
}

/// Returns the groups of nodes: those of `ClusterShell` and of the configuration.
pub(super) fn node_groups(settings: &Settings) -> Groups {
    user_groups().with_config_groups(settings.groups.clone())
}

/// Rejects `--user` where `--login` is probably meant: with hosts, or without a scheduler on this machine.
fn check_user_option(cli: &Cli) -> Result<(), SettingsError> {
    let options = &cli.jobs;
    let others =
        [&options.job, &options.partition, &options.account, &options.qos, &options.reservation];
    let names_others = options.names_scheduler()
        || options.all_nodes
        || !options.nodelist.is_empty()
        || others.iter().any(|list| !list.is_empty());
    let hosts = match &cli.command {
        Some(CliCommand::Doctor(doctor)) if doctor.jobs => return Ok(()),
        Some(CliCommand::Doctor(doctor)) => &doctor.hosts,
        Some(_) | None => &cli.hosts,
    };
    let why = match options.user.as_slice() {
        [] => return Ok(()),
        _ if names_others => return Ok(()),
        _ if !hosts.is_empty() || cli.nodes.names_nodes() => ", and hosts are named".to_owned(),
        _ if SchedulerKind::here().is_none() => {
            let program = SchedulerKind::default().profile().program;
            format!(", and {program} is not on the PATH of this machine")
        }
        _ => return Ok(()),
    };
    Err(SettingsError::AmbiguousUser { user: options.user.join(","), why })
}

/// Refuses settings that exclude each other, and an invalid `--exec`.
pub(super) fn check_settings(cli: &Cli, settings: &Settings) -> Result<(), SettingsError> {
    let NodeSettings { sudo, .. } = settings.read();
    let ConnectionSettings { transport, exec, ssh_binary, .. } = settings.read();
    let template = cli.connection.exec.as_deref().map(ExecTemplate::new);
    let is_in_step = cli.connection.transport_kind() == TransportChoice::Srun;
    let message = if let Some(conflict) = cli.conflict() {
        conflict.to_owned()
    } else if let Some(Err(error)) = template {
        error.to_string()
    } else if is_in_step && sudo.layer == Layer::CommandLine {
        "--sudo needs another transport than srun: a step of a job cannot become root".to_owned()
    } else {
        return Ok(());
    };
    let origins =
        [transport.origin_text(), exec.origin_text(), ssh_binary.origin_text(), sudo.origin_text()];
    let origins = origins.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Err(SettingsError::Conflict { message, origins })
}
