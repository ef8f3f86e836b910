//! Runs the subcommands: connects the parsed command line, settings, transports and output, and sets the exit
//! code.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::app::env::Env;
use crate::cli::{self, Cli, CliCommand};
use crate::export::{write_fields, write_fields_json, write_json_schema, write_python_module};
use gtop_collect::record::RecordingError;
use gtop_local::process;
use gtop_local::storage::WriteError;
use gtop_ssh as ssh;
use gtop_ui::{StopReason, StopSignals};

mod automatic_recording;
mod config_command;
mod configuration;
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
mod written_file;

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
    let (mut out, mut err) = (StandardOutput(io::stdout()), io::stderr());
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
        Err(error) => {
            if let Some(message) = &error.message {
                drop(writeln!(err, "gtop: {message}"));
            }
            error.code
        }
    };
    // A signal may be the cause of the error: its exit code wins.
    let signal_code = StopSignals::received().map(|reason| ExitReason::from(reason).code());
    ExitCode::from(signal_code.unwrap_or(code))
}

/// An error of a command that ends the program.
trait CommandError: Error {
    /// Returns the exit code of the program: 2 for a usage error.
    fn exit_code(&self) -> u8 {
        1
    }
}

/// The end of a command that has failed or was stopped; each command has errors of its own.
#[derive(Debug)]
pub(crate) struct AppError {
    /// `None` if there is nothing to say: the user ended gtop, or the reader of the output closed it.
    message: Option<String>,
    code: u8,
}

impl fmt::Display for AppError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.message.as_deref().unwrap_or_default())
    }
}

impl Error for AppError {}

impl<E: CommandError> From<E> for AppError {
    fn from(error: E) -> Self {
        Self { message: Some(error.to_string()), code: error.exit_code() }
    }
}

impl From<ExitReason> for AppError {
    fn from(reason: ExitReason) -> Self {
        Self { message: None, code: reason.code() }
    }
}

impl From<StopReason> for AppError {
    fn from(reason: StopReason) -> Self {
        ExitReason::from(reason).into()
    }
}

impl From<io::Error> for AppError {
    fn from(error: io::Error) -> Self {
        // The reader closed the pipe, as `head` does: not an error.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return ExitReason::Done.into();
        }
        Self { message: Some(error.to_string()), code: 1 }
    }
}

impl CommandError for RecordingError {}
impl CommandError for WriteError {}

/// Runs the subcommand, or watches without one.
fn dispatch(cli: Cli, out: &mut impl Write, err: &mut impl Write) -> Result<ExitReason, AppError> {
    match &cli.command {
        Some(CliCommand::Python) => write_python_module(out)?,
        Some(CliCommand::Man) => cli::write_man_page(out)?,
        Some(CliCommand::Completions { shell }) => cli::write_completions(*shell, out)?,
        Some(CliCommand::Fields { json: false }) => write_fields(out)?,
        Some(CliCommand::Fields { json: true }) => write_fields_json(out)?,
        _ if cli.output.json_schema => write_json_schema(out)?,
        Some(CliCommand::Export(options)) => return export::run(options, out, err),
        Some(CliCommand::Config { action }) => return config_command::run(*action, cli, out),
        Some(_) | None => return dispatch_with_nodes(Env::new(cli, err)?, out, err),
    }
    Ok(ExitReason::Done)
}

/// Runs a subcommand that may connect to nodes.
fn dispatch_with_nodes(
    mut env: Env,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
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
        Some(CliCommand::Record(_)) | None => watch::run(env, out, err),
        // They have run without nodes.
        Some(
            CliCommand::Export(_)
            | CliCommand::Config { .. }
            | CliCommand::Fields { .. }
            | CliCommand::Python
            | CliCommand::Man
            | CliCommand::Completions { .. },
        ) => Ok(ExitReason::Done),
    }
}

/// Writes all of a text at once.
fn print_whole(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    out.write_all(text).and_then(|()| out.flush())
}

/// Standard output, whose errors say so. They keep their kind: a closed pipe is none for the caller.
struct StandardOutput(io::Stdout);

impl StandardOutput {
    fn failed(error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| Self::failed(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| Self::failed(&error))
    }
}

/// Waits for something, unless a signal ends gtop before.
async fn unless_stopped<T>(
    signals: &mut StopSignals,
    work: impl Future<Output = T>,
) -> Result<T, StopReason> {
    tokio::select! {
        done = work => Ok(done),
        reason = signals.next() => Err(reason),
    }
}

/// Returns an environment variable; `None` if it is unset or not UTF-8.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
