//! Runs the subcommands: connects the parsed command line, settings, transports and output, and sets the exit
//! code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{self, Runtime};

use crate::app::demo::Demo;
use crate::app::doctor::DoctorRun;
use crate::app::limits::FdCost;
use crate::app::monitor::{Monitor, MonitorConfig};
use crate::app::output_mode::OutputMode;
use crate::app::printer::Printer;
use crate::app::prompter::{PromptOutcome, Prompter};
use crate::app::screen::ScreenConfig;
use crate::app::targets::PodSearch;
use crate::cli::{self, Cli, CliCommand, ConfigAction, TransportChoice};
use crate::config::{self, ConfigPaths, FileError, SettingSources, Settings};
use crate::doctor::{Report, report_on_pod};
use crate::export::write_json_schema;
use crate::inventory::slurm::JobFilter;
use crate::inventory::{InventoryError, PodError};
use crate::nodeset;
use crate::ssh;
use crate::storage::{WriteError, user_dirs};
use crate::time::Clock;
use crate::transport::{
    ExecTemplate, Options, Reach, Target, TemplateError, Transport, TransportMode,
};
use crate::ui;
use crate::ui::StopSignals;

mod demo;
mod discovery;
mod doctor;
mod limits;
mod line_prompt;
mod log;
mod monitor;
mod output_mode;
mod printer;
mod prompter;
mod screen;
mod settings_controller;
mod targets;
mod trust;
mod unlock;
mod watchdog;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// Normally: the command succeeded or the user quit.
    Done,
    NoAnswer,
    Failed,
    /// By Ctrl-C.
    Interrupted,
    /// By SIGTERM.
    Terminated,
    /// By SIGHUP.
    HungUp,
}

impl ExitReason {
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NoAnswer | Self::Failed => 1,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<ui::StopReason> for ExitReason {
    fn from(reason: ui::StopReason) -> Self {
        match reason {
            ui::StopReason::Quit => Self::Done,
            ui::StopReason::Interrupted => Self::Interrupted,
            ui::StopReason::Terminated => Self::Terminated,
            ui::StopReason::HangUp => Self::HungUp,
        }
    }
}

/// Terminates the child processes that still run when it is dropped.
struct StopChildren;

impl Drop for StopChildren {
    fn drop(&mut self) {
        ssh::terminate_programs();
    }
}

/// Runs the program with the arguments of this process.
pub fn run_program() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (mut out, mut err) = (io::stdout(), io::stderr());
    if args.next().is_some_and(|arg| arg == ssh::PARENT_GUARD) {
        let error = ssh::run_parent_guard(args);
        drop(writeln!(err, "{error}"));
        return ExitCode::from(ssh::EXIT_NOT_STARTED);
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
    // If the watchdog cannot start, signals keep their default action.
    watchdog::start().ok();
    limits::catch_file_size_signal();
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
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Pod(#[from] PodError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("no host given; use gtop trust HOST")]
    NoHost,
    #[error("--transport srun needs jobs; add --slurm or --job ID")]
    NoJob,
    #[error(
        "--user selects Slurm jobs{why}; use --slurm --user {user} for these jobs, -l {user} to log in as {user}, or -u={user} for processes of {user}"
    )]
    AmbiguousUser { user: String, why: &'static str },
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
    Transport(#[from] ssh::Fault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl AppError {
    const fn code(&self) -> u8 {
        match self {
            Self::Inventory(_)
            | Self::Template(_)
            | Self::NoHost
            | Self::NoJob
            | Self::NoConfig(_)
            | Self::AmbiguousUser { .. }
            | Self::File(FileError::IsSetupFile(_))
            | Self::Settings { .. } => 2,
            Self::NoHome
            | Self::File(_)
            | Self::Log(_)
            | Self::Pod(_)
            | Self::Transport(_)
            | Self::Io(_) => 1,
        }
    }
}

fn dispatch(
    mut cli: Cli,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    match &cli.command {
        Some(CliCommand::Man) => return Ok(cli::write_man_page(out).map(|()| ExitReason::Done)?),
        Some(CliCommand::Completions { shell }) => {
            return Ok(cli::write_completions(*shell, out).map(|()| ExitReason::Done)?);
        }
        Some(CliCommand::Trust { .. } | CliCommand::Doctor { .. } | CliCommand::Config { .. })
        | None => {}
    }
    if cli.output.json_schema {
        return Ok(write_json_schema(out).map(|()| ExitReason::Done)?);
    }
    let (paths, settings) = load_settings(&cli)?;
    cli.apply_settings(&settings);
    if let Some(CliCommand::Config { action }) = cli.command {
        return run_config_command(action, paths.as_ref(), &cli, &settings, out);
    }
    check_settings(&cli, &settings)?;
    targets::check_user_option(&cli)?;
    let cli = &cli;
    let max_open_files = limits::raise_open_files();
    let clock = Clock::system();
    if let Some(path) = &cli.output.log {
        log::start(path, clock.clone())?;
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let prompter = Prompter::for_terminal();
    let prompt_queue = prompter.as_ref().map(Prompter::queue);
    let options = transport_options(cli)?;
    if let Some(problem) = options.env.problem().filter(|_| names_hosts(cli)) {
        writeln!(err, "gtop: {problem}")?;
    }
    let transport = Transport::new(Options { prompt_queue, ..options });
    // The screen shows this itself.
    let is_screen = cli.command.is_none() && !is_printing(cli);
    if let Some(summary) = settings.problem_summary().filter(|_| !is_screen) {
        writeln!(err, "gtop: {summary}")?;
    }
    if let Some(CliCommand::Trust { hosts }) = &cli.command {
        let roster = targets::named_roster(cli, &transport, hosts)?;
        if roster.targets.is_empty() {
            return Err(AppError::NoHost);
        }
        let mut input = io::stdin().lock();
        let trusting =
            trust::trust(transport, roster.targets, cli.connection.max_connecting, &mut input, out);
        return Ok(runtime.block_on(trusting)?);
    }
    let env = Env { transport, prompter, clock, max_open_files, paths, settings };
    if let Some(CliCommand::Doctor { hosts, local, json, slurm }) = &cli.command {
        let is_local = *local || cli.nodes.local;
        let filter =
            (*slurm || cli.slurm.is_requested()).then(|| targets::job_filter_of_options(cli));
        let doctor_targets = DoctorTargets::of(cli, &env.transport, hosts, is_local, filter)?;
        return run_doctor(cli, &runtime, env, doctor_targets, *json || cli.output.json, out, err);
    }
    run_monitor(cli, &runtime, env, out, err)
}

/// Returns the paths of the configuration files, and the merged settings.
fn load_settings(cli: &Cli) -> Result<(Option<ConfigPaths>, Settings), AppError> {
    let env_file = std::env::var_os("GTOP_CONFIG").map(PathBuf::from);
    let env_file = env_file.filter(|path| !path.as_os_str().is_empty());
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
    let paths = match cli.config.clone().or(env_file) {
        Some(file) => Some(ConfigPaths::at(file)?),
        None => ConfigPaths::of_this_user(),
    };
    let sources = SettingSources {
        file: paths.as_ref().map(ConfigPaths::read_config).unwrap_or_default(),
        setup: paths.as_ref().map(ConfigPaths::read_setup).unwrap_or_default(),
        args: cli.settings.values.clone(),
        arg_hints: cli.settings.hints.clone(),
    };
    let settings = Settings::merge(sources, |name| std::env::var(name).ok());
    Ok((paths, settings))
}

/// Refuses settings that exclude each other, and an invalid `--exec`.
fn check_settings(cli: &Cli, settings: &Settings) -> Result<(), AppError> {
    let exec = cli.connection.exec.as_deref().map(ExecTemplate::new);
    let exec_error = || exec.and_then(Result::err).map(|error| error.to_string());
    let message = cli.conflict().map(str::to_owned).or_else(exec_error);
    let Some(message) = message else { return Ok(()) };
    let origins = ["transport", "exec", "ssh-binary"].map(|name| {
        let is_set = settings.origin(name) != "default";
        is_set.then(|| format!("{name}: {}", settings.origin(name)))
    });
    let origins = origins.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Err(AppError::Settings { message, origins })
}

/// Runs a `gtop config` subcommand.
fn run_config_command(
    action: ConfigAction,
    paths: Option<&ConfigPaths>,
    cli: &Cli,
    settings: &Settings,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let paths = paths.ok_or(AppError::NoHome)?;
    match action {
        ConfigAction::Init => {
            let path = paths.create_config(&config::init_text())?;
            writeln!(out, "created {}; every setting in it is commented out", path.display())?;
        }
        ConfigAction::Path => writeln!(out, "{}", paths.config().display())?,
        ConfigAction::Show => out.write_all(config::show_text(settings).as_bytes())?,
        ConfigAction::Check => {
            for problem in &settings.problems {
                writeln!(out, "{problem}")?;
            }
            for note in settings.hints.iter().chain(&settings.notes) {
                writeln!(out, "note: {note}")?;
            }
            let cycles = nodeset::find_cycles(&settings.groups);
            for cycle in &cycles {
                writeln!(out, "{}: [groups]: {cycle}", paths.config().display())?;
            }
            let checked = check_settings(cli, settings);
            if let Err(error) = &checked {
                writeln!(out, "{error}")?;
            }
            if checked.is_err() || !settings.problems.is_empty() || !cycles.is_empty() {
                return Ok(ExitReason::Failed);
            }
            for path in [paths.config(), paths.setup()] {
                let state = if path.exists() { "no errors" } else { "does not exist" };
                writeln!(out, "{}: {state}", path.display())?;
            }
        }
    }
    Ok(ExitReason::Done)
}

/// The targets of `gtop doctor`.
struct DoctorTargets {
    targets: Vec<Target>,
    /// The report on the TPU pod that the targets belong to.
    pod: Option<Report>,
    /// The jobs whose nodes are examined, after Slurm itself.
    slurm: Option<JobFilter>,
}

impl DoctorTargets {
    fn of(
        cli: &Cli,
        transport: &Transport,
        hosts: &[String],
        is_local: bool,
        slurm: Option<JobFilter>,
    ) -> Result<Self, AppError> {
        let search = PodSearch::of(cli)?;
        let pod = search.as_ref().map(|search| report_on_pod(&search.result, search.duration));
        let pod = pod.transpose().map_err(io::Error::other)?;
        let found = search.as_ref().and_then(|search| search.result.as_ref().ok());
        let no_targets = search.is_some() && found.is_none() && hosts.is_empty() && !is_local;
        let targets = if no_targets {
            Vec::new()
        } else {
            let roster = targets::named_roster_with_pod(cli, transport, hosts, found)?;
            // With `--slurm` the targets are the nodes of the jobs, so this machine is not added.
            let is_slurm_only = slurm.is_some() && roster.targets.is_empty() && !is_local;
            if is_slurm_only { Vec::new() } else { targets::with_local(roster, is_local).0 }
        };
        Ok(Self { targets, pod, slurm })
    }
}

/// Runs `gtop doctor`, after asking for the passphrases of encrypted keys.
fn run_doctor(
    cli: &Cli,
    runtime: &Runtime,
    env: Env,
    doctor_targets: DoctorTargets,
    is_json: bool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let Env { transport, prompter, clock, .. } = env;
    let DoctorTargets { targets, pod, slurm } = doctor_targets;
    if runtime.block_on(unlock::unlock_keys(&transport, &targets, err))?
        == PromptOutcome::Interrupted
    {
        return Ok(ExitReason::Interrupted);
    }
    let doctor_run = DoctorRun {
        transport,
        targets,
        pod,
        clock,
        prompter,
        max_connecting: cli.connection.max_connecting,
        is_json,
        slurm,
    };
    Ok(runtime.block_on(doctor::run(doctor_run, out))?)
}

/// What the commands share: transport, prompts, clock, limits and settings.
struct Env {
    transport: Transport,
    /// `None` without a terminal.
    prompter: Option<Prompter>,
    clock: Clock,
    /// Limit of open files; `None` if unlimited.
    max_open_files: Option<u64>,
    /// Paths of the configuration files; `None` without a home directory.
    paths: Option<ConfigPaths>,
    settings: Settings,
}

/// Returns true if an option asks for printed output, whatever standard output is.
const fn is_printing_requested(cli: &Cli) -> bool {
    cli.output.watch || cli.output.once || cli.output.json
}

/// Returns true if output is printed instead of shown on the screen.
fn is_printing(cli: &Cli) -> bool {
    is_printing_requested(cli) || OutputMode::detect() != OutputMode::Screen
}

/// Returns true if the command line names nodes other than this machine.
fn names_hosts(cli: &Cli) -> bool {
    !cli.hosts().is_empty() || cli.nodes.names_nodes()
}

fn transport_options(cli: &Cli) -> Result<Options, TemplateError> {
    let defaults = Options::of_this_process();
    Ok(Options {
        connect_timeout: cli.connection.connect_timeout,
        login: cli.nodes.login.clone(),
        ssh_program: cli.connection.ssh_binary.clone().unwrap_or(defaults.ssh_program),
        mode: match cli.connection.transport_kind() {
            TransportChoice::Auto | TransportChoice::Local | TransportChoice::Exec => {
                TransportMode::Auto
            }
            TransportChoice::Native => TransportMode::Native,
            TransportChoice::Ssh => TransportMode::Ssh,
            TransportChoice::Srun => TransportMode::Srun,
        },
        exec: cli.connection.exec.as_deref().map(ExecTemplate::new).transpose()?,
        state: user_dirs::state().map(|folder| folder.join("gtop")),
        // /proc/self/exe is the running binary even after an upgrade has replaced the file. Without /proc,
        // child programs still see the end of their input.
        parent_guard: Some(PathBuf::from("/proc/self/exe")).filter(|path| path.exists()),
        ..defaults
    })
}

/// Maximum wait for the scheduler before the screen starts.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(2);

fn run_monitor(
    cli: &Cli,
    runtime: &Runtime,
    env: Env,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let Env { transport, mut prompter, clock, max_open_files, paths, mut settings } = env;
    if cli.nodes.demo.is_some() {
        // The interval of simulated nodes must not become the default for real ones.
        settings.never_save("interval");
    }
    if let OutputMode::LinesOnly(reason) = OutputMode::detect()
        && !is_printing_requested(cli)
    {
        writeln!(err, "gtop: {reason}")?;
    }
    // Declared before the monitor, so that the servers stop after their clients.
    let demo = cli.nodes.demo.map(|nodes| Demo::start(nodes, cli.nodes.seed)).transpose()?;
    let (discovery, title) = match &demo {
        Some(demo) => (demo.discovery(clock.clone())?, demo.title()),
        None => targets::discovery(cli, &transport, clock.clone())?,
    };
    // Slurm usually answers at once; then passphrases and prompts come before the screen.
    runtime.block_on(discovery.wait_for_answer(SCHEDULER_TIMEOUT));
    let targets = discovery.rosters().borrow().targets.clone();
    let cost = match cli.connection.transport_kind() {
        _ if demo.is_some() => FdCost::SessionAndServer,
        TransportChoice::Ssh | TransportChoice::Exec => FdCost::Program,
        // One step serves many nodes.
        TransportChoice::Auto
        | TransportChoice::Native
        | TransportChoice::Local
        | TransportChoice::Srun => FdCost::Session,
    };
    if let Some(warning) = limits::open_files_warning(max_open_files, targets.len(), cost) {
        writeln!(err, "gtop: {warning}")?;
    }
    if demo.is_none()
        && runtime.block_on(unlock::unlock_keys(&transport, &targets, err))?
            == PromptOutcome::Interrupted
    {
        return Ok(ExitReason::Interrupted);
    }
    // Neither simulated nodes nor this machine prompt for input.
    let nodes = targets.iter().filter(|target| matches!(target.reach, Reach::Ssh(_))).count();
    let expects_jobs = cli.slurm.is_requested();
    prompter = prompter.filter(|_| demo.is_none() && (nodes > 0 || expects_jobs));
    prompter.iter().for_each(Prompter::open);
    let monitor = Monitor::start(MonitorConfig {
        discovery,
        transport,
        clock: clock.clone(),
        interval: cli.intervals.interval,
        history: cli.intervals.history,
        max_connecting: cli.connection.max_connecting,
    })?;
    if let Some(prompter) = &mut prompter
        && let Some(reason) = runtime.block_on(prompter.prompt_at_startup(nodes))?
    {
        return Ok(reason);
    }
    let printer = Printer {
        is_json: cli.output.json,
        source: &title,
        clock: clock.clone(),
        display: settings_controller::display_options(&settings, |name| std::env::var(name).ok()),
        theme: settings_controller::theme(&settings, |name| std::env::var(name).ok()),
        is_styled: settings.choice("color") == "always",
    };
    let reason = if cli.output.watch {
        runtime.block_on(printer.print_continuously(
            &monitor.fleet(),
            cli.intervals.interval,
            out,
        ))?
    } else if is_printing(cli) {
        runtime.block_on(printer.print_once(&monitor, cli.output.deadline, out))?
    } else {
        let screen_config = ScreenConfig { title, clock, paths, settings };
        runtime.block_on(screen::run(&monitor, screen_config, prompter))?
    };
    // A blocked read of standard input must not delay the exit.
    drop(monitor);
    Ok(reason)
}
