//! Runs the subcommands: connects the parsed command line, settings, transports and output, and sets the exit
//! code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::app::env::Env;
use crate::cli::{self, Cli, CliCommand, ConfigAction};
use crate::config::{ConfigPaths, FileError, SettingSources, Settings};
use crate::export::{write_fields, write_fields_json, write_json_schema, write_python_module};
use crate::report::{NothingMatched, RntopLogError};
use crate::serve::{ServeError, TlsError, TokenError};
use crate::setting_table::TransportChoice;
use crate::setting_table::{self, ConnectionSettings, DECLARED, NodeSettings};
use gtop_collect::inventory::{InventoryError, PodError};
use gtop_collect::record::{RecordError, RecordingError};
use gtop_collect::transport::{ExecTemplate, TemplateError};
use gtop_fleet::advice::scheduler;
use gtop_fleet::settings::Layer;
use gtop_local::process;
use gtop_local::storage::WriteError;
use gtop_ssh as ssh;
use gtop_ui::{StopReason, StopSignals};

mod config_command;
mod doctor;
mod env;
mod export;
mod feed;
mod host_keys;
mod library;
mod limits;
mod line_prompt;
mod log;
mod login;
mod output_mode;
mod pick;
mod playback;
mod printer;
mod privacy;
mod probe_command;
mod prompt_place;
mod prompter;
mod recent_filters;
mod recording;
mod replay;
mod report;
mod run_server;
mod runs;
mod screen;
mod serve;
mod settings_controller;
mod targets;
mod times;
mod tmux_windows;
mod trust;
mod unlock;
mod utilization_log;
mod watch;
mod watchdog;

pub(crate) use library::watch_args;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// Normally: the command succeeded or the user quit.
    Done,
    NoAnswer,
    Failed,
    /// Fewer devices were found than wanted.
    TooFew,
    /// As a command on a node did.
    Command(u8),
    /// By the user or a signal.
    Stopped(StopReason),
}

impl ExitReason {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done | Self::Stopped(StopReason::Quit) => 0,
            Self::NoAnswer | Self::Failed => 1,
            Self::TooFew => 4,
            Self::Command(code) => code,
            Self::Stopped(StopReason::HangUp) => 129,
            Self::Stopped(StopReason::Interrupted) => 130,
            Self::Stopped(StopReason::Aborted) => 131,
            Self::Stopped(StopReason::Terminated) => 143,
        }
    }
}

impl From<StopReason> for ExitReason {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason)
    }
}

/// Terminates the child processes that still run when it is dropped.
struct StopChildren;

impl Drop for StopChildren {
    fn drop(&mut self) {
        process::terminate_programs();
    }
}

/// Runs the program with the arguments of this process.
pub fn run_program() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (mut out, mut err) = (io::stdout(), io::stderr());
    if args.next().is_some_and(|arg| arg == process::PARENT_GUARD) {
        let error = process::run_parent_guard(args);
        drop(writeln!(err, "{error}"));
        return ExitCode::from(process::EXIT_NOT_STARTED);
    }
    if let Some(socket) = std::env::var_os(ssh::ASKPASS_VARIABLE) {
        limits::forbid_core_dumps();
        let question = std::env::args_os().nth(1);
        let asked = ssh::run_askpass_helper(&socket, question, &mut out);
        return ExitCode::from(u8::from(asked.is_err()));
    }
    let code = match Cli::parse_args(std::env::args_os()) {
        Ok(cli) => run(cli, &mut out, &mut err),
        Err(error) => {
            // `--help` and `--version` arrive as errors too, and go to standard output.
            match cli::error_text(&error) {
                Some(text) => drop(write!(err, "{text}")),
                None => drop(error.print()),
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    };
    drop(out.flush());
    code
}

/// Runs the command line. Output goes to `out`, errors and warnings go to `err`.
fn run(cli: Cli, out: &mut impl Write, err: &mut impl Write) -> ExitCode {
    let _programs = StopChildren;
    process::remember_ignored_signals();
    // If the watchdog cannot start, signals keep their default action.
    watchdog::start().ok();
    let code = match dispatch(cli, out, err) {
        Ok(reason) => reason.code(),
        // The reader closed the pipe, as `head` does: not an error.
        Err(AppError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitReason::Done.code()
        }
        Err(error) => {
            drop(writeln!(err, "gtop: {error}"));
            error.code()
        }
    };
    // A signal may be the cause of the error: its exit code wins.
    let signal_code = StopSignals::received().map(|reason| ExitReason::from(reason).code());
    ExitCode::from(signal_code.unwrap_or(code))
}

/// Why the program could not start or go on.
#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    #[error("{0}; {remedy}", remedy = scheduler::of_pod(.0.is_no_metadata_server()))]
    Pod(#[from] PodError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("no host given; use gtop trust HOST")]
    NoHost,
    #[error("no node given; use gtop login NODES, or gtop -- login to watch a node called login")]
    NoLoginNode,
    #[error("{0} is a page of metrics: there is no login to it, and no probe; name a host")]
    OnlyPage(String),
    #[error(
        "there is no terminal to ask at; run gtop login in one, or set SSH_ASKPASS to a program that asks in a window"
    )]
    NobodyToAsk,
    #[error(
        "--transport native uses no connection of the ssh program, so gtop login cannot help it; log in and watch with --transport auto"
    )]
    LoginUnused,
    #[error("{0}: {1} is not watched; name the host, or do not exclude it")]
    NoFolderHost(String, String),
    #[error("--tmux opens windows of tmux, in which gtop does not run here; start tmux first")]
    NoTmux,
    #[error("--transport srun needs jobs; add --slurm or --job ID")]
    NoJob,
    #[error(
        "--user selects Slurm jobs{why}; use --slurm --user {user} for these jobs, -l {user} to log in as {user}, or -u={user} for processes of {user}"
    )]
    AmbiguousUser { user: String, why: String },
    #[error("{message} ({origins})")]
    Settings { message: String, origins: String },
    #[error("no configuration folder: neither XDG_CONFIG_HOME nor HOME is an absolute path")]
    NoHome,
    #[error("{0} not found; gtop --config {0} config init creates it")]
    NoConfig(String),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Log(#[from] WriteError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("{0} {1:?}: {2}")]
    NoTime(&'static str, String, &'static str),
    #[error("{0} {1:?}: that is not recorded; the recording is {2}")]
    NotRecorded(&'static str, String, String),
    #[error("{0} holds no samples: the recorder ended before a node answered")]
    NothingRecorded(String),
    #[error("{0}: none of these jobs is there: {1}")]
    NothingToWatch(String, String),
    #[error(
        "{0}: no node appeared in the time watched; gtop --once with the same options says what there is"
    )]
    NothingWatched(String),
    #[error(
        "Parquet is not built in; write ndjson and convert it: duckdb -c \"COPY (FROM 'a.ndjson') TO 'a.parquet'\""
    )]
    NoParquet,
    #[error("--fields: {0}")]
    NoField(String),
    #[error("cannot write {0}: {1}")]
    Table(String, io::Error),
    #[error("nothing was recorded between --from and --to; the recording covers {0}")]
    NothingInSpan(String),
    #[error(transparent)]
    NothingMatched(#[from] NothingMatched),
    #[error(transparent)]
    RntopLog(#[from] RntopLogError),
    #[error("{0} is a recording and {1} a log of rntop; report on them one at a time")]
    MixedFiles(String, String),
    #[error(
        "{0} exists and is not a report of gtop in this format; choose another name, or --force replaces it"
    )]
    ForeignFile(String),
    #[error(transparent)]
    Csv(#[from] runs::CsvError),
    #[error(transparent)]
    Pick(#[from] pick::PickError),
    #[error("HOME is not set: name a file for the token with --token-file")]
    NoTokenFile,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Ssh(#[from] ssh::Fault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl AppError {
    const fn code(&self) -> u8 {
        if let Self::Pick(error) = self {
            return error.code();
        }
        let is_usage_error = matches!(
            self,
            Self::Inventory(_)
                | Self::Template(_)
                | Self::NoHost
                | Self::NoLoginNode
                | Self::OnlyPage(_)
                | Self::LoginUnused
                | Self::NoJob
                | Self::NoFolderHost(..)
                | Self::NoConfig(_)
                | Self::NoTime(..)
                | Self::NotRecorded(..)
                | Self::NoParquet
                | Self::NoField(_)
                | Self::AmbiguousUser { .. }
                | Self::File(FileError::IsSetupFile(_))
                | Self::Settings { .. }
        );
        if is_usage_error { 2 } else { 1 }
    }
}

fn dispatch(
    mut cli: Cli,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    match &cli.command {
        Some(CliCommand::Python) => {
            return Ok(write_python_module(out).map(|()| ExitReason::Done)?);
        }
        Some(CliCommand::Man) => return Ok(cli::write_man_page(out).map(|()| ExitReason::Done)?),
        Some(CliCommand::Completions { shell }) => {
            return Ok(cli::write_completions(*shell, out).map(|()| ExitReason::Done)?);
        }
        Some(CliCommand::Export(options)) => return export::run(options, out, err),
        Some(CliCommand::Fields { json: false }) => {
            return Ok(write_fields(out).map(|()| ExitReason::Done)?);
        }
        Some(CliCommand::Fields { json: true }) => {
            return Ok(write_fields_json(out).map(|()| ExitReason::Done)?);
        }
        _ if cli.output.json_schema => {
            return Ok(write_json_schema(out).map(|()| ExitReason::Done)?);
        }
        Some(
            CliCommand::Trust { .. }
            | CliCommand::Login(_)
            | CliCommand::Doctor { .. }
            | CliCommand::Probe(_)
            | CliCommand::Record(_)
            | CliCommand::Replay(_)
            | CliCommand::Report(_)
            | CliCommand::Pick(_)
            | CliCommand::Serve(_)
            | CliCommand::Runs(_)
            | CliCommand::Config { .. },
        )
        | None => {}
    }
    let (paths, settings) = load_settings(&cli)?;
    cli.apply_settings(&settings);
    if let Some(CliCommand::Config { action }) = cli.command {
        return config_command::run(action, paths.as_ref(), &cli, &settings, out);
    }
    check_settings(&cli, &settings)?;
    targets::check_user_option(&cli)?;
    let mut env = Env::new(cli, paths, settings, err)?;
    match env.cli.command.take() {
        Some(CliCommand::Trust { hosts }) => trust::run(&env, &hosts, &mut io::stdin().lock(), out),
        Some(CliCommand::Login(options)) => login::run(&env, &options, out),
        Some(CliCommand::Doctor(options)) => doctor::run(env, &options, out, err),
        Some(CliCommand::Probe(options)) => probe_command::run(&env, &options, out),
        Some(CliCommand::Replay(options)) => replay::run(env, &options, out, err),
        Some(CliCommand::Report(options)) => report::run(env, &options, out, err),
        Some(CliCommand::Pick(options)) => pick::run(env, &options, out, err),
        Some(CliCommand::Serve(options)) => serve::run(env, &options, err),
        Some(CliCommand::Runs(options)) => runs::run(env, &options, out, err),
        Some(
            CliCommand::Record(_)
            | CliCommand::Config { .. }
            | CliCommand::Export(_)
            | CliCommand::Fields { .. }
            | CliCommand::Python
            | CliCommand::Man
            | CliCommand::Completions { .. },
        )
        | None => watch::run(env, out, err),
    }
}

/// Returns the paths of the configuration files, and the merged settings.
fn load_settings(cli: &Cli) -> Result<(Option<ConfigPaths>, Settings), AppError> {
    let env_file = std::env::var_os("GTOP_CONFIG").filter(|path| !path.is_empty());
    // `config init` and `config path` work without the file; elsewhere a missing `--config FILE` is an error.
    let is_needed = !matches!(
        cli.command,
        Some(CliCommand::Config { action: ConfigAction::Init | ConfigAction::Path })
    );
    if let Some(file) = cli.config.as_ref().filter(|_| is_needed)
        && matches!(file.try_exists(), Ok(false))
    {
        return Err(AppError::NoConfig(file.display().to_string()));
    }
    let paths = match cli.config.clone().or(env_file.map(PathBuf::from)) {
        Some(file) => Some(ConfigPaths::at(file)?),
        None => ConfigPaths::of_this_user(),
    };
    let sources = SettingSources {
        file: paths.as_ref().map(|paths| paths.read_config(DECLARED)).unwrap_or_default(),
        setup: paths.as_ref().map(|paths| paths.read_setup(DECLARED)).unwrap_or_default(),
        args: cli.settings.values.clone(),
        arg_hints: cli.settings.hints.clone(),
    };
    let settings = setting_table::merge(sources, variable);
    Ok((paths, settings))
}

/// Refuses settings that exclude each other, and an invalid `--exec`.
fn check_settings(cli: &Cli, settings: &Settings) -> Result<(), AppError> {
    let template = cli.connection.exec.as_deref().map(ExecTemplate::new);
    let exec_error = || template.and_then(Result::err).map(|error| error.to_string());
    let sudo = settings.read::<NodeSettings>().sudo;
    let is_sudo_asked = sudo.layer == Layer::CommandLine;
    let sudo_error = (is_sudo_asked && cli.connection.transport_kind() == TransportChoice::Srun)
        .then(|| {
            "--sudo needs another transport than srun: a step of a job cannot become root"
                .to_owned()
        });
    let message = cli.conflict().map(str::to_owned).or_else(exec_error).or(sudo_error);
    let Some(message) = message else { return Ok(()) };
    let ConnectionSettings { transport, exec, ssh_binary, .. } = settings.read();
    let origins =
        [transport.origin_text(), exec.origin_text(), ssh_binary.origin_text(), sudo.origin_text()];
    let origins = origins.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Err(AppError::Settings { message, origins })
}

/// Returns an environment variable; `None` if it is unset or not UTF-8.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
