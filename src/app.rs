//! Wiring: from what was typed to a running watch, and to an exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{self, Runtime};

use crate::app::demo::Demo;
use crate::app::doctor::Consultation;
use crate::app::interview::{Interviewer, Mood};
use crate::app::limits::Toll;
use crate::app::place::Place;
use crate::app::print::Printing;
use crate::app::roster::PodSearch;
use crate::app::screen::Setting;
use crate::app::watch::{Plan, Watch};
use crate::cli::{self, Cli, Command, ConfigDeed, How};
use crate::config::{self, FileError, Places, Settings, Sources};
use crate::doctor::{Report, report_on_pod};
use crate::export::write_json_schema;
use crate::inventory::slurm::JobFilter;
use crate::inventory::{InventoryError, PodError};
use crate::nodeset;
use crate::storage::{WriteError, user_dirs};
use crate::time::Clock;
use crate::transport::{
    self, Choice, ExecTemplate, Options, Reach, Target, TemplateError, Transport,
};
use crate::tui::{self, StopSignals};

mod demo;
mod discover;
mod doctor;
mod dress;
mod interview;
mod limits;
mod log;
mod place;
mod print;
mod roster;
mod screen;
mod terminal;
mod trust;
mod unlock;
mod watch;
mod watchdog;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As asked.
    Done,
    /// No node answered.
    NobodyAnswered,
    /// A command failed.
    Failed,
    /// By Ctrl-C.
    Interrupted,
    /// By SIGTERM.
    Terminated,
    /// By SIGHUP.
    HungUp,
}

impl Ending {
    /// Returns the exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NobodyAnswered | Self::Failed => 1,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<tui::StopReason> for Ending {
    fn from(ending: tui::StopReason) -> Self {
        match ending {
            tui::StopReason::Quit => Self::Done,
            tui::StopReason::Interrupted => Self::Interrupted,
            tui::StopReason::Terminated => Self::Terminated,
            tui::StopReason::HangUp => Self::HungUp,
        }
    }
}

/// Ends the programs that still run when it is dropped.
struct Programs;

impl Drop for Programs {
    fn drop(&mut self) {
        transport::end_programs();
    }
}

/// Does what was typed. Prints to `out`; complaints go to `err`.
pub fn run(cli: Cli, out: &mut impl Write, err: &mut impl Write) -> ExitCode {
    let _programs = Programs;
    // Without it signals end gtop as they end any other program.
    watchdog::start().ok();
    limits::outlive_long_files();
    let code = match start(cli, out, err) {
        Ok(ending) => ending.code(),
        // Whoever reads us has read enough.
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ending::Done.code(),
        Err(failure) => {
            drop(writeln!(err, "gtop: {failure}"));
            failure.code()
        }
    };
    // What failed meanwhile may have been ended by the signal.
    let came = StopSignals::received().map(|ending| Ending::from(ending).code());
    ExitCode::from(came.unwrap_or(code))
}

/// Why the program could not start or go on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Pod(#[from] PodError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("no host to trust; write gtop trust HOST")]
    NoHost,
    #[error("--transport srun reaches nodes of jobs; add --slurm or --job ID")]
    NoJob,
    #[error(
        "--user chooses Slurm jobs{why}; write --slurm --user {user} for these jobs, -l {user} to log in as {user}, or -u={user} for processes of {user}"
    )]
    UserAlone { user: String, why: &'static str },
    #[error("{words} ({places})")]
    Settings { words: String, places: String },
    #[error("there is no place for settings: neither XDG_CONFIG_HOME nor HOME is an absolute path")]
    Homeless,
    #[error("{0} is not there; gtop --config {0} config init writes it")]
    NoConfig(String),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Log(#[from] WriteError),
    #[error(transparent)]
    Transport(#[from] transport::Fault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Failure {
    const fn code(&self) -> u8 {
        match self {
            Self::Inventory(_)
            | Self::Template(_)
            | Self::NoHost
            | Self::NoJob
            | Self::NoConfig(_)
            | Self::UserAlone { .. }
            | Self::File(FileError::Own(_))
            | Self::Settings { .. } => 2,
            Self::Homeless
            | Self::File(_)
            | Self::Log(_)
            | Self::Pod(_)
            | Self::Transport(_)
            | Self::Io(_) => 1,
        }
    }
}

fn start(mut cli: Cli, out: &mut impl Write, err: &mut impl Write) -> Result<Ending, Failure> {
    match &cli.command {
        Some(Command::Man) => return Ok(cli::man(out).map(|()| Ending::Done)?),
        Some(Command::Completions { shell }) => {
            return Ok(cli::completions(*shell, out).map(|()| Ending::Done)?);
        }
        Some(Command::Trust { .. } | Command::Doctor { .. } | Command::Config { .. }) | None => {}
    }
    if cli.output.json_schema {
        return Ok(write_json_schema(out).map(|()| Ending::Done)?);
    }
    let (places, settings) = settings(&cli)?;
    cli.settle(&settings);
    if let Some(Command::Config { deed }) = cli.command {
        return configure(deed, places.as_ref(), &cli, &settings, out);
    }
    judge(&cli, &settings)?;
    roster::judge_user(&cli)?;
    let cli = &cli;
    let files = limits::raise();
    let clock = Clock::system();
    if let Some(path) = &cli.output.log {
        log::start(path, clock.clone())?;
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let interviewer = Interviewer::at_this_terminal();
    let interview = interviewer.as_ref().map(Interviewer::interview);
    let options = options(cli)?;
    if let Some(words) = options.surroundings.complaint().filter(|_| names_hosts(cli)) {
        writeln!(err, "gtop: {words}")?;
    }
    let transport = Transport::new(Options { interview, ..options });
    // The screen says it itself.
    let is_screen = cli.command.is_none() && !is_printing(cli);
    if let Some(words) = settings.complaint().filter(|_| !is_screen) {
        writeln!(err, "gtop: {words}")?;
    }
    if let Some(Command::Trust { hosts }) = &cli.command {
        let roster = roster::named(cli, &transport, hosts)?;
        if roster.targets.is_empty() {
            return Err(Failure::NoHost);
        }
        let mut input = io::stdin().lock();
        let trusting =
            trust::trust(transport, roster.targets, cli.reach.max_connecting, &mut input, out);
        return Ok(runtime.block_on(trusting)?);
    }
    let means = Means { transport, interviewer, clock, files, places, settings };
    if let Some(Command::Doctor { hosts, local, json, slurm }) = &cli.command {
        let is_local = *local || cli.nodes.local;
        let whose = (*slurm || cli.slurm.is_wanted()).then(|| roster::named_jobs(cli));
        let patients = Patients::of(cli, &means.transport, hosts, is_local, whose)?;
        return consult(cli, &runtime, means, patients, *json || cli.output.json, out, err);
    }
    watch(cli, &runtime, means, out, err)
}

/// Returns where settings stand, and all of them.
fn settings(cli: &Cli) -> Result<(Option<Places>, Settings), Failure> {
    let named = std::env::var_os("GTOP_CONFIG").map(PathBuf::from);
    let named = named.filter(|path| !path.as_os_str().is_empty());
    // What a variable names may be missing here; what is typed is meant.
    let is_needed =
        !matches!(cli.command, Some(Command::Config { deed: ConfigDeed::Init | ConfigDeed::Path }));
    if let Some(file) = cli.config.as_ref().filter(|_| is_needed)
        && matches!(file.try_exists(), Ok(false))
    {
        return Err(Failure::NoConfig(file.display().to_string()));
    }
    let places = match cli.config.clone().or(named) {
        Some(file) => Some(Places::at(file)?),
        None => Places::of_this_user(),
    };
    let sources = Sources {
        file: places.as_ref().map(Places::read_config).unwrap_or_default(),
        setup: places.as_ref().map(Places::read_setup).unwrap_or_default(),
        typed: cli.typed.0.clone(),
    };
    let settings = Settings::of(sources, |name| std::env::var(name).ok());
    Ok((places, settings))
}

/// Says which settings cannot be together, and what is wrong with a command that leads to nodes.
fn judge(cli: &Cli, settings: &Settings) -> Result<(), Failure> {
    let exec = cli.reach.exec.as_deref().map(ExecTemplate::new);
    let wrong_exec = || exec.and_then(Result::err).map(|error| error.to_string());
    let words = cli.disagreement().map(str::to_owned).or_else(wrong_exec);
    let Some(words) = words else { return Ok(()) };
    let named = ["transport", "exec", "ssh-binary"].map(|name| {
        let is_said = settings.place(name) != "default";
        is_said.then(|| format!("{name}: {}", settings.place(name)))
    });
    let places = named.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Err(Failure::Settings { words, places })
}

/// Does what was asked about settings.
fn configure(
    deed: ConfigDeed,
    places: Option<&Places>,
    cli: &Cli,
    settings: &Settings,
    out: &mut impl Write,
) -> Result<Ending, Failure> {
    let places = places.ok_or(Failure::Homeless)?;
    match deed {
        ConfigDeed::Init => {
            let path = places.begin(&config::init_text())?;
            writeln!(out, "{} is written; it changes nothing yet", path.display())?;
        }
        ConfigDeed::Path => writeln!(out, "{}", places.config().display())?,
        ConfigDeed::Show => out.write_all(config::show_text(settings).as_bytes())?,
        ConfigDeed::Check => {
            for problem in &settings.problems {
                writeln!(out, "{problem}")?;
            }
            let circles = nodeset::find_cycles(&settings.groups);
            for circle in &circles {
                writeln!(out, "{}: [groups]: {circle}", places.config().display())?;
            }
            let together = judge(cli, settings);
            if let Err(wrong) = &together {
                writeln!(out, "{wrong}")?;
            }
            if together.is_err() || !settings.problems.is_empty() || !circles.is_empty() {
                return Ok(Ending::Failed);
            }
            for path in [places.config(), places.setup()] {
                let state = if path.exists() { "nothing is wrong" } else { "is not there" };
                writeln!(out, "{}: {state}", path.display())?;
            }
        }
    }
    Ok(Ending::Done)
}

/// Whom to examine.
struct Patients {
    targets: Vec<Target>,
    /// What was found about the pod they belong to.
    pod: Option<Report>,
    /// Whose jobs' nodes are examined too, after Slurm itself.
    slurm: Option<JobFilter>,
}

impl Patients {
    fn of(
        cli: &Cli,
        transport: &Transport,
        hosts: &[String],
        is_local: bool,
        slurm: Option<JobFilter>,
    ) -> Result<Self, Failure> {
        let search = PodSearch::of(cli)?;
        let pod = search.as_ref().map(|search| report_on_pod(&search.found, search.took));
        let pod = pod.transpose().map_err(io::Error::other)?;
        let found = search.as_ref().and_then(|search| search.found.as_ref().ok());
        let nobody = search.is_some() && found.is_none() && hosts.is_empty() && !is_local;
        let targets = if nobody {
            Vec::new()
        } else {
            let named = roster::with_pod(cli, transport, hosts, found)?;
            // Jobs bring nodes of their own.
            let is_alone = slurm.is_some() && named.targets.is_empty() && !is_local;
            if is_alone { Vec::new() } else { roster::or_this_machine(named, is_local).0 }
        };
        Ok(Self { targets, pod, slurm })
    }
}

/// Examines nodes; encrypted keys and questions are asked about as before a watch.
fn consult(
    cli: &Cli,
    runtime: &Runtime,
    means: Means,
    patients: Patients,
    is_json: bool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Ending, Failure> {
    let Means { transport, interviewer, clock, .. } = means;
    let Patients { targets, pod, slurm } = patients;
    if runtime.block_on(unlock::unlock_keys(&transport, &targets, err))? == Mood::Interrupted {
        return Ok(Ending::Interrupted);
    }
    let consultation = Consultation {
        transport,
        targets,
        pod,
        clock,
        interviewer,
        max_connecting: cli.reach.max_connecting,
        is_json,
        slurm,
    };
    Ok(runtime.block_on(doctor::consult(consultation, out))?)
}

/// What a watch works with.
struct Means {
    transport: Transport,
    /// The person at the terminal, when there is one.
    interviewer: Option<Interviewer>,
    clock: Clock,
    /// How many files may be open.
    files: Option<u64>,
    /// Where settings stand.
    places: Option<Places>,
    settings: Settings,
}

/// Says whether pictures are to be printed, wherever output goes.
const fn is_printing_wanted(cli: &Cli) -> bool {
    cli.output.watch || cli.output.once || cli.output.json
}

/// Says whether pictures are printed, and no screen shown.
fn is_printing(cli: &Cli) -> bool {
    is_printing_wanted(cli) || Place::of_this_process() != Place::Screen
}

/// Returns whether anybody beyond this machine is spoken of.
fn names_hosts(cli: &Cli) -> bool {
    !cli.hosts().is_empty() || cli.nodes.names_nodes()
}

fn options(cli: &Cli) -> Result<Options, TemplateError> {
    let usual = Options::of_this_process();
    Ok(Options {
        connect_timeout: cli.reach.connect_timeout,
        login: cli.nodes.login.clone(),
        ssh_program: cli.reach.ssh_binary.clone().unwrap_or(usual.ssh_program),
        choice: match cli.reach.how() {
            How::Auto | How::Local | How::Exec => Choice::Auto,
            How::Native => Choice::Native,
            How::Ssh => Choice::Ssh,
            How::Srun => Choice::Srun,
        },
        exec: cli.reach.exec.as_deref().map(ExecTemplate::new).transpose()?,
        state: user_dirs::state().map(|folder| folder.join("gtop")),
        // This very file, even when an upgrade has put another in its place. Where there is no /proc,
        // programs still notice the end of their input.
        leash: Some(PathBuf::from("/proc/self/exe")).filter(|own| own.exists()),
        ..usual
    })
}

/// How long a scheduler is waited for before the screen comes on.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

fn watch(
    cli: &Cli,
    runtime: &Runtime,
    means: Means,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Ending, Failure> {
    let Means { transport, mut interviewer, clock, files, places, mut settings } = means;
    if cli.nodes.demo.is_some() {
        // How often made-up nodes are asked says nothing of real ones.
        settings.keep_saved("interval");
    }
    if let Place::Lines(lack) = Place::of_this_process()
        && !is_printing_wanted(cli)
    {
        writeln!(err, "gtop: {lack}")?;
    }
    // Dropped after the watch: the nodes outlive those who look at them.
    let demo = cli.nodes.demo.map(|nodes| Demo::start(nodes, cli.nodes.seed)).transpose()?;
    let (discovery, title) = match &demo {
        Some(demo) => (demo.discovery(clock.clone())?, demo.title()),
        None => roster::discovery(cli, &transport, clock.clone())?,
    };
    // Slurm mostly answers at once, and then keys and questions are asked about before the screen.
    runtime.block_on(discovery.first(FIRST_ANSWER));
    let targets = discovery.rosters().borrow().targets.clone();
    let toll = match cli.reach.how() {
        _ if demo.is_some() => Toll::BothEnds,
        How::Ssh | How::Exec => Toll::Program,
        // One step serves many nodes.
        How::Auto | How::Native | How::Local | How::Srun => Toll::Session,
    };
    if let Some(words) = limits::shortage(files, targets.len(), toll) {
        writeln!(err, "gtop: {words}")?;
    }
    if demo.is_none()
        && runtime.block_on(unlock::unlock_keys(&transport, &targets, err))? == Mood::Interrupted
    {
        return Ok(Ending::Interrupted);
    }
    // Nobody asks anything in a demonstration, nor this machine itself.
    let nodes = targets.iter().filter(|target| matches!(target.reach, Reach::Ssh(_))).count();
    let is_more_to_come = cli.slurm.is_wanted();
    interviewer = interviewer.filter(|_| demo.is_none() && (nodes > 0 || is_more_to_come));
    interviewer.iter().for_each(Interviewer::open);
    let watch = Watch::start(Plan {
        discovery,
        transport,
        clock: clock.clone(),
        interval: cli.pace.interval,
        history: cli.pace.history,
        max_connecting: cli.reach.max_connecting,
    })?;
    if let Some(interviewer) = &mut interviewer
        && let Some(ending) = runtime.block_on(interviewer.before_all(nodes))?
    {
        return Ok(ending);
    }
    let printing = Printing {
        is_json: cli.output.json,
        source: &title,
        clock: clock.clone(),
        taste: dress::taste(&settings, |name| std::env::var(name).ok()),
        look: dress::look(&settings, |name| std::env::var(name).ok()),
        is_styled: settings.choice("color") == "always",
    };
    let ending = if cli.output.watch {
        runtime.block_on(printing.forever(&watch.fleet(), cli.pace.interval, out))?
    } else if is_printing(cli) {
        runtime.block_on(printing.once(&watch, cli.output.deadline, out))?
    } else {
        let setting = Setting { title, clock, places, settings };
        runtime.block_on(screen::show(&watch, setting, interviewer))?
    };
    // A read of standard input may still be waiting, and must not hold up the end.
    drop(watch);
    Ok(ending)
}
