//! What the commands that connect to nodes share.

use std::io::Write;
use std::path::PathBuf;

use tokio::runtime::{self, Runtime};

use crate::app::configuration::{checked_settings, node_groups};
use crate::app::output_mode::OutputMode;
use crate::app::privacy::Privacy;
use crate::app::prompter::Prompter;
use crate::app::{AppError, CommandError, log};
use crate::cli::{Cli, CliCommand};
use crate::config::{ConfigPaths, Settings};
use crate::setting_table::{
    ALL_NODES, ConnectionSettings, IntervalSettings, NodeSettings, OutputSettings, TransportChoice,
};
use crate::watch::{self, MonitorOptions};
use gtop_collect::inventory::Roster;
use gtop_collect::transport::{
    ExecTemplate, Options, RootNodeNames, RootNodes, TemplateError, Transport, TransportMode,
};
use gtop_local::storage::user_dirs;
use gtop_local::time::Clock;
use gtop_ssh::ClientOptions;

impl CommandError for TemplateError {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// The command line and settings, and what every connection needs.
pub(super) struct Env {
    pub(super) cli: Cli,
    pub(super) settings: Settings,
    /// Paths of the configuration files; `None` without a home directory.
    pub(super) paths: Option<ConfigPaths>,
    pub(super) output_mode: OutputMode,
    pub(super) runtime: Runtime,
    pub(super) transport: Transport,
    /// `None` without a terminal and a program to ask with.
    pub(super) prompter: Option<Prompter>,
    pub(super) clock: Clock,
    pub(super) privacy: Privacy,
    /// Limit of open files; `None` if unlimited.
    pub(super) max_open_files: Option<u64>,
    /// Files that are not for nodes: connections of `gtop serve`.
    pub(super) other_files: u64,
}

impl Env {
    /// Reads the settings, starts the log and prepares connections; warnings go to `err`.
    pub(super) fn new(mut cli: Cli, err: &mut impl Write) -> Result<Self, AppError> {
        let (paths, settings) = checked_settings(&mut cli)?;
        let clock = Clock::system();
        if let Some(path) = settings.read::<OutputSettings>().log {
            log::start(path.as_ref(), clock.clone())?;
        }
        let prompter = Prompter::at_start();
        let mut options = transport_options(&cli, &settings)?;
        let names_hosts = !cli.hosts().is_empty() || cli.nodes.names_nodes();
        if let Some(problem) = options.ssh.env.problem().filter(|_| names_hosts) {
            writeln!(err, "gtop: {problem}")?;
        }
        options.ssh.prompt_queue = prompter.as_ref().map(|prompter| prompter.queue.clone());
        let env = Self { prompter, clock, ..Self::with_options(cli, paths, settings, options)? };
        // The screen shows this itself.
        let is_watching =
            matches!(env.cli.command, None | Some(CliCommand::Replay(_) | CliCommand::Runs(_)));
        let is_screen = is_watching && env.output_mode == OutputMode::Screen;
        if let Some(summary) = env.settings.problem_summary().filter(|_| !is_screen) {
            writeln!(err, "gtop: {summary}")?;
        }
        Ok(env)
    }

    /// Prepares connections for a program that uses the library: without a log, a terminal to prompt on or children of
    /// its own binary.
    pub(super) fn for_library(mut cli: Cli) -> Result<Self, AppError> {
        let (paths, settings) = checked_settings(&mut cli)?;
        let mut options = transport_options(&cli, &settings)?;
        options.ssh.parent_guard = None;
        Self::with_options(cli, paths, settings, options)
    }

    /// Returns how nodes are watched.
    pub(super) fn monitor_options(&self) -> MonitorOptions {
        MonitorOptions {
            interval: self.settings.read::<IntervalSettings>().interval.value,
            history: self.settings.read::<IntervalSettings>().history,
            max_connecting: self.cli.connection.max_connecting,
        }
    }

    fn with_options(
        cli: Cli,
        paths: Option<ConfigPaths>,
        settings: Settings,
        options: Options,
    ) -> Result<Self, AppError> {
        Ok(Self {
            max_open_files: watch::raise_open_files(),
            other_files: 0,
            runtime: runtime::Builder::new_current_thread().enable_all().build()?,
            transport: Transport::new(options),
            output_mode: OutputMode::of(&cli),
            prompter: None,
            clock: Clock::system(),
            privacy: Privacy::of(&cli.output),
            cli,
            settings,
            paths,
        })
    }
}

fn transport_options(cli: &Cli, settings: &Settings) -> Result<Options, AppError> {
    let defaults = Options::of_this_process();
    Ok(Options {
        ssh: ClientOptions {
            connect_timeout: settings.read::<ConnectionSettings>().connect_timeout,
            login: settings.read::<NodeSettings>().login,
            ssh_program: cli.connection.ssh_binary.clone().unwrap_or(defaults.ssh.ssh_program),
            // /proc/self/exe is the running binary even after an upgrade has replaced the file. Without /proc,
            // child programs still see the end of their input.
            parent_guard: Some(PathBuf::from("/proc/self/exe")).filter(|path| path.exists()),
            ..defaults.ssh
        },
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
        root: root_nodes(cli, settings)?,
        ..defaults
    })
}

/// Returns the nodes on which probes run as root.
fn root_nodes(cli: &Cli, settings: &Settings) -> Result<RootNodes, AppError> {
    let NodeSettings { sudo, allow_signals, .. } = settings.read();
    let sets = sudo.value;
    let nodes = if sets.is_empty() || cli.nodes.demo.is_some() {
        RootNodeNames::None
    } else if sets.iter().any(|set| set == ALL_NODES) {
        RootNodeNames::All
    } else {
        let groups = node_groups(settings);
        // A comma within a set may have separated it into two.
        let names = Roster::with_groups(groups).names_of(&[sets.join(",")], "--sudo: ")?;
        RootNodeNames::Named(names)
    };
    Ok(RootNodes { nodes, allows_signals: allow_signals })
}
