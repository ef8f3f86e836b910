//! Wiring: from what was typed to a running watch, and to an exit code.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{self, Runtime};

use crate::app::demo::Demo;
use crate::app::discover::Discovery;
use crate::app::doctor::Consultation;
use crate::app::interview::{Interviewer, Mood};
use crate::app::print::Printing;
use crate::app::screen::Setting;
use crate::app::watch::{Plan, Watch};
use crate::cli::{Cli, Command, How, Paces};
use crate::inventory::Roster;
use crate::inventory::slurm::{self, Slurm, Whose};
use crate::nodeset;
use crate::time::Clock;
use crate::transport::{Choice, Options, Reach, Target, Transport};

mod demo;
mod discover;
mod doctor;
mod interview;
mod log;
mod print;
mod screen;
mod terminal;
mod trust;
mod unlock;
mod watch;

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

/// Does what was typed. Prints to `out`; complaints go to `err`.
pub fn run(cli: &Cli, out: &mut impl Write, err: &mut impl Write) -> ExitCode {
    let ending = match start(cli, out, err) {
        Ok(ending) => ending,
        // Whoever reads us has read enough.
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ending::Done,
        Err(failure) => {
            drop(writeln!(err, "gtop: {failure}"));
            return ExitCode::from(failure.code());
        }
    };
    ExitCode::from(ending.code())
}

/// Why the program could not start or go on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Inventory(#[from] crate::inventory::InventoryError),
    #[error("no host to trust; write gtop trust HOST")]
    NoHost,
    #[error("--transport srun reaches nodes of jobs; add --slurm or --job ID")]
    NoJob,
    #[error("cannot write the log {path}: {source}")]
    Log { path: String, source: io::Error },
    #[error(transparent)]
    Transport(#[from] crate::transport::Fault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Failure {
    const fn code(&self) -> u8 {
        match self {
            Self::Inventory(_) | Self::NoHost | Self::NoJob => 2,
            Self::Log { .. } | Self::Transport(_) | Self::Io(_) => 1,
        }
    }
}

/// Raises the limit of open files as far as this user may: each node takes one.
fn allow_many_nodes() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, nodes beyond it say so.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).ok();
}

fn start(cli: &Cli, out: &mut impl Write, err: &mut impl Write) -> Result<Ending, Failure> {
    allow_many_nodes();
    let clock = Clock::system();
    if let Some(path) = &cli.output.log {
        let named = |source| Failure::Log { path: path.display().to_string(), source };
        log::start(path, clock.clone()).map_err(named)?;
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let interviewer = Interviewer::at_this_terminal();
    let interview = interviewer.as_ref().map(Interviewer::interview);
    let transport = Transport::new(Options { interview, ..options(cli) });
    if let Some(Command::Trust { hosts }) = &cli.command {
        let roster = roster(cli, hosts)?;
        if roster.targets.is_empty() {
            return Err(Failure::NoHost);
        }
        let mut input = io::stdin().lock();
        let trusting =
            trust::trust(transport, roster.targets, cli.reach.max_connecting, &mut input, out);
        return Ok(runtime.block_on(trusting)?);
    }
    let means = Means { transport, interviewer, clock };
    if let Some(Command::Doctor { hosts, local, json, slurm }) = &cli.command {
        let is_slurm = *slurm || cli.slurm.is_wanted();
        let targets = if is_slurm && hosts.is_empty() && !*local {
            roster(cli, hosts)?.targets
        } else {
            targets_of(cli, hosts, *local || cli.nodes.local)?.0
        };
        let whose = is_slurm.then(|| named_jobs(cli));
        return consult(cli, &runtime, means, (targets, whose), *json, out, err);
    }
    watch(cli, &runtime, means, out, err)
}

/// Examines nodes; encrypted keys and questions are asked about as before a watch.
fn consult(
    cli: &Cli,
    runtime: &Runtime,
    means: Means,
    (targets, slurm): (Vec<Target>, Option<Whose>),
    is_json: bool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Ending, Failure> {
    let Means { transport, interviewer, clock } = means;
    if runtime.block_on(unlock::unlock_keys(&transport, &targets, err))? == Mood::Interrupted {
        return Ok(Ending::Interrupted);
    }
    let consultation = Consultation {
        transport,
        targets,
        clock,
        interviewer,
        max_connecting: cli.reach.max_connecting,
        is_json: is_json || cli.output.json,
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
}

fn options(cli: &Cli) -> Options {
    let usual = Options::of_this_process();
    Options {
        connect_timeout: cli.reach.connect_timeout,
        login: cli.nodes.login.clone(),
        ssh_program: cli.reach.ssh_binary.clone().unwrap_or(usual.ssh_program),
        choice: match cli.reach.how() {
            How::Auto => Choice::Auto,
            How::Native => Choice::Native,
            How::Ssh => Choice::Ssh,
            How::Srun => Choice::Srun,
        },
        state: state_folder(),
        // Where it cannot be told, programs still notice the end of their input.
        leash: std::env::current_exe().ok(),
        ..usual
    }
}

/// Returns where gtop keeps what it found out, as the XDG base directories have it.
fn state_folder() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    Some(state?.join("gtop"))
}

fn roster(cli: &Cli, hosts: &[String]) -> Result<Roster, Failure> {
    let mut roster = Roster::default();
    roster.add_arguments(hosts)?;
    if let Some(file) = &cli.nodes.hosts_file {
        roster.add_file(file)?;
    }
    Ok(roster)
}

fn watch(
    cli: &Cli,
    runtime: &Runtime,
    means: Means,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Ending, Failure> {
    let Means { transport, mut interviewer, clock } = means;
    // Dropped after the watch: the nodes outlive those who look at them.
    let demo = cli.nodes.demo.map(|nodes| Demo::start(nodes, cli.nodes.seed)).transpose()?;
    let (discovery, title) = match &demo {
        Some(demo) => (Discovery::fixed(Roster::of(demo.targets()?)), demo.title()),
        None => discovery(cli, clock.clone())?,
    };
    // Slurm mostly answers at once, and then keys and questions are asked about before the screen.
    runtime.block_on(discovery.first(FIRST_ANSWER));
    let targets = discovery.rosters().borrow().targets.clone();
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
    let printing = Printing { is_json: cli.output.json, source: &title, clock: clock.clone() };
    let ending = if cli.output.watch {
        runtime.block_on(printing.forever(&watch.fleet(), cli.pace.interval, out))?
    } else if cli.output.once || cli.output.json || !io::stdout().is_terminal() {
        runtime.block_on(printing.once(&watch, cli.output.deadline, out))?
    } else {
        let Paces { interval, redraw, .. } = cli.pace;
        let setting = Setting { title, clock, interval, redraw };
        runtime.block_on(screen::show(&watch, setting, interviewer))?
    };
    // A read of standard input may still be waiting, and must not hold up the end.
    drop(watch);
    Ok(ending)
}

/// How long a scheduler is waited for before the screen comes on.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// Returns where the nodes come from, and what to call them.
fn discovery(cli: &Cli, clock: Clock) -> Result<(Discovery, String), Failure> {
    let Some((whose, mut title)) = jobs(cli) else {
        if cli.reach.how() == How::Srun {
            return Err(Failure::NoJob);
        }
        let (targets, title) = targets_of(cli, &cli.hosts, cli.nodes.local)?;
        return Ok((Discovery::fixed(Roster::of(targets)), title));
    };
    let mut fixed = roster(cli, &cli.hosts)?;
    if !fixed.targets.is_empty() {
        let names = nodeset::fold(fixed.targets.iter().map(|target| target.name.as_str()));
        title = format!("{title} and {names}");
    }
    if cli.nodes.local {
        fixed.add_local();
        title = format!("{title} and this machine");
    }
    let mut slurm = Slurm::new(whose, cli.slurm.discovery_interval, fixed.targets);
    if !cli.slurm.is_wanted() {
        // A container may have no programs of Slurm: its environment still names the nodes.
        let nodes = std::env::var("SLURM_JOB_NODELIST").unwrap_or_default();
        slurm = slurm.with_nodes_at_first(slurm::nodes_named(&nodes));
    }
    Ok((Discovery::slurm(slurm, clock)?, title))
}

/// Returns which jobs to watch and what to call them: those that were named, or the one that gtop
/// itself runs in when nothing was named at all.
fn jobs(cli: &Cli) -> Option<(Whose, String)> {
    if cli.slurm.is_wanted() {
        let whose = named_jobs(cli);
        let title = format!("Slurm: jobs {}", whose.words());
        return Some((whose, title));
    }
    if cli.nodes.local || !cli.hosts.is_empty() || cli.nodes.hosts_file.is_some() {
        return None;
    }
    let own = std::env::var("SLURM_JOB_ID").ok()?;
    let is_number = (1..=20).contains(&own.len()) && own.bytes().all(|byte| byte.is_ascii_digit());
    let title = format!("Slurm: job {own}, this allocation");
    is_number.then(|| (Whose { jobs: vec![own], ..Whose::default() }, title))
}

/// Returns the jobs that were named; one's own when none were.
fn named_jobs(cli: &Cli) -> Whose {
    let wanted = &cli.slurm;
    let is_own = wanted.user.is_empty() && !wanted.all_users && wanted.job.is_empty();
    Whose {
        users: if is_own { vec![slurm::own_number()] } else { wanted.user.clone() },
        jobs: wanted.job.clone(),
        partitions: wanted.partition.clone(),
        accounts: wanted.account.clone(),
    }
}

/// Returns whom to watch, and what to call them: the folded hosts, or this machine.
fn targets_of(
    cli: &Cli,
    hosts: &[String],
    is_local: bool,
) -> Result<(Vec<Target>, String), Failure> {
    let mut roster = roster(cli, hosts)?;
    let mut title = nodeset::fold(roster.targets.iter().map(|target| target.name.as_str()));
    if is_local || roster.targets.is_empty() {
        roster.add_local();
        title = if title.is_empty() {
            "this machine".to_owned()
        } else {
            format!("{title} and this machine")
        };
    }
    Ok((roster.targets, title))
}
