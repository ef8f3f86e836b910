//! The command line: options, hosts and subcommands, and which of them conflict.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::config::{SettingSources, Settings, check};
use crate::export::{DeviceKey, OutputField};
use crate::text::sanitize;

mod args;
mod hints;
mod manpage;
mod pick;
mod recording;

pub use args::SettingArgs;
pub use manpage::{Shell, write_completions, write_man_page};
pub use pick::{DeviceFormat, FormatOptions, PickOptions};
pub use recording::{KeepOptions, RecordOptions, ReplayOptions};

const EXCLUDE_HELP: &str =
    "Exclude these nodes from every source: a node set such as gpu[03,07], or @down";
const HOST_HELP: &str = "Node to watch: [user@]host[:port], an alias from ~/.ssh/config, a node set such as gpu[001-128,200], or a group such as @gpu (see EXAMPLES)";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "gtop",
    version,
    long_version = manpage::long_version(),
    about = "Watch every accelerator you use, on every node, live",
    long_about = "Watch every accelerator you use, on every node, live, from one terminal.\n\n\
        gtop connects to each node over SSH, like `ssh` does, and needs nothing installed there. Without \
        hosts it watches this machine.",
    after_help = "Names of subcommands and plain numbers are not taken as hosts; put them after --: `gtop -- trust 5`.",
    after_long_help = "EXAMPLES\n  \
        gtop gpu01 gpu02 'gpu[03-16]'   watch these nodes\n  \
        gtop 'gpu[01-16]!gpu[03,07]'    all but two of them; also '&' intersection, '^' symmetric difference\n  \
        gtop @gpu                       watch a ClusterShell group; also @SOURCE:GROUP, @*\n  \
        gtop -f hosts.txt               watch the nodes in a file, one per line\n  \
        gtop --ssh-config-hosts='gpu*'  watch matching hosts of ~/.ssh/config\n  \
        gtop --tpu-pod                  watch all workers of this TPU pod\n  \
        gtop                            watch this machine\n  \
        gtop --slurm                    watch the nodes of your running Slurm jobs\n  \
        gtop --demo                     try gtop with simulated nodes\n  \
        gtop --json gpu01 | jq .totals  one snapshot as JSON\n  \
        gtop --csv gpu01 > devices.csv  one row per device\n  \
        gtop trust gpu01                verify and store the host key of a new node\n  \
        gtop doctor gpu01               diagnose step by step why a node does not answer\n  \
        gtop record --slurm -w a.gtop   record your jobs' nodes; gtop replay a.gtop plays it\n  \
        gtop pick -n 4 gpu01 gpu02      pick four free devices; gtop pick -n 1 -- CMD runs CMD on one\n\n\
        Names of subcommands and plain numbers are not taken as hosts; put them after --: `gtop -- trust 5`.\n\n\
        EXIT STATUS\n  \
        0 at least one node answered, 1 no node answered, 2 usage error, 130 interrupted by Ctrl-C"
)]
pub struct Cli {
    /// The nodes to watch
    #[arg(value_name = "HOST", help = HOST_HELP)]
    pub hosts: Vec<String>,
    /// Subcommand; default: watch
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// Node options
    #[command(flatten)]
    pub nodes: NodeOptions,
    /// Slurm options
    #[command(flatten)]
    pub slurm: SlurmOptions,
    /// Output options
    #[command(flatten)]
    pub output: OutputOptions,
    /// Read settings from FILE instead of config.toml, and setup.toml from the same folder; same as `GTOP_CONFIG`
    #[arg(long, value_name = "FILE", global = true, help_heading = "Output")]
    pub config: Option<PathBuf>,
    /// Options generated from the table of settings
    #[command(flatten)]
    pub settings: SettingArgs,
    /// Connection options, from the settings
    #[arg(skip)]
    pub connection: ConnectionOptions,
}

/// A subcommand.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Show the host keys of new nodes and, once confirmed, store them in `known_hosts`
    Trust {
        /// Node to trust
        #[arg(value_name = "HOST")]
        hosts: Vec<String>,
    },
    /// Diagnose nodes step by step: findings, timings and remedies
    Doctor(DoctorOptions),
    /// Record what nodes report, without a screen
    Record(Box<RecordOptions>),
    /// Play recordings on the screen, or print a picture of them
    Replay(Box<ReplayOptions>),
    /// Pick free devices, over all nodes, for `CUDA_VISIBLE_DEVICES` or to run a command on
    Pick(Box<PickOptions>),
    /// Show, check or create the configuration
    Config {
        /// Subcommand
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// List every field of --fields, --json, filters and columns: word, id, unit, source and meaning
    Fields {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a Python module with devices, processes and metrics, to be written to a file
    Python,
    /// Print the manual page: gtop man | man -l -
    Man,
    /// Print a shell completion script
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// Options of `gtop doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Node to diagnose; default: this machine
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Diagnose this machine in addition to other hosts
    #[arg(long)]
    pub local: bool,
    /// Diagnose Slurm on this machine and the nodes of your jobs
    #[arg(long)]
    pub slurm: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// A subcommand of `gtop config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum ConfigAction {
    /// Write a config.toml with every setting commented out; never overwrites an existing one
    Init,
    /// Report errors in config.toml, setup.toml and the environment, with line numbers
    Check,
    /// Print every setting and its source
    Show,
    /// Print the path of config.toml
    Path,
}

/// Options that select nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeOptions {
    /// Read nodes from a file, one per line; # starts a comment, - is standard input
    #[arg(short = 'f', long, value_name = "FILE", global = true)]
    pub hosts_file: Option<PathBuf>,
    /// Read nodes from an MPI host file, with lines such as gpu01 slots=8 or gpu01:8
    #[arg(long, value_name = "FILE", global = true)]
    pub mpi_hostfile: Option<PathBuf>,
    /// Watch the hosts that ~/.ssh/config names without wildcards, or those matching PATTERN, such as gpu*
    #[arg(
        long,
        value_name = "PATTERN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*",
        global = true
    )]
    pub ssh_config_hosts: Option<String>,
    /// Watch the workers of this TPU pod, as listed by GKE or the metadata server
    #[arg(long, global = true)]
    pub tpu_pod: bool,
    /// Watch the workers of a TPU pod listed in ~/podips.txt, one address per line, # starts a comment;
    /// or in ~/NAME.txt, or in FILE if it contains a /
    #[arg(
        long,
        alias = "podips",
        value_name = "NAME|FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "podips",
        global = true
    )]
    pub pod_ips: Option<PathBuf>,
    /// Exclude these nodes from every source
    #[arg(help = EXCLUDE_HELP, long, value_name = "SET", global = true)]
    pub exclude: Vec<String>,
    /// Watch this machine in addition to other hosts
    #[arg(long)]
    pub local: bool,
    /// Watch NODES simulated nodes (default: 12)
    #[arg(
        long,
        value_name = "NODES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "12",
        value_parser = parse_node_count,
        conflicts_with_all = ["hosts", "hosts_file", "mpi_hostfile", "ssh_config_hosts", "tpu_pod", "pod_ips", "exclude", "local"]
    )]
    pub demo: Option<u16>,
    /// Random seed of the simulated nodes
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "demo")]
    pub seed: u64,
}

/// Options that select Slurm jobs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Slurm")]
pub struct SlurmOptions {
    /// Watch the nodes of your running jobs, updated as jobs start and end
    #[arg(long, conflicts_with = "demo")]
    pub slurm: bool,
    /// Watch jobs of these users instead of yours
    #[arg(long, value_name = "USER", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub user: Vec<String>,
    /// Watch jobs of all users
    #[arg(long, conflicts_with_all = ["user", "demo"])]
    pub all_users: bool,
    /// Watch these jobs, whoever owns them; `12` is a whole array, `12_3` one task of it
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = parse_job_id, conflicts_with = "demo")]
    pub job: Vec<String>,
    /// Only jobs in these partitions
    #[arg(long, value_name = "PARTITION", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub partition: Vec<String>,
    /// Only jobs of these accounts
    #[arg(long, value_name = "ACCOUNT", value_delimiter = ',', value_parser = parse_name, conflicts_with = "demo")]
    pub account: Vec<String>,
}

impl SlurmOptions {
    /// Adds the options given to a subcommand.
    fn add(&mut self, other: &mut Self) {
        self.slurm |= other.slurm;
        self.all_users |= other.all_users;
        self.user.append(&mut other.user);
        self.job.append(&mut other.job);
        self.partition.append(&mut other.partition);
        self.account.append(&mut other.account);
    }

    /// Returns true if jobs are to be watched: with `--slurm` or any option that selects jobs.
    pub fn is_requested(&self) -> bool {
        let lists = [&self.user, &self.job, &self.partition, &self.account];
        self.slurm || self.all_users || lists.iter().any(|list| !list.is_empty())
    }
}

impl NodeOptions {
    /// Adds the options given to a subcommand.
    fn add(&mut self, other: &mut Self) {
        let Self { hosts_file, mpi_hostfile, ssh_config_hosts, pod_ips, demo, .. } = other;
        self.hosts_file = hosts_file.take().or(self.hosts_file.take());
        self.mpi_hostfile = mpi_hostfile.take().or(self.mpi_hostfile.take());
        self.ssh_config_hosts = ssh_config_hosts.take().or(self.ssh_config_hosts.take());
        self.pod_ips = pod_ips.take().or(self.pod_ips.take());
        if demo.is_some() {
            (self.demo, self.seed) = (*demo, other.seed);
        }
        self.tpu_pod |= other.tpu_pod;
        self.local |= other.local;
        self.exclude = std::mem::take(&mut other.exclude);
    }

    /// Returns true if an option names nodes.
    pub const fn names_nodes(&self) -> bool {
        self.hosts_file.is_some()
            || self.mpi_hostfile.is_some()
            || self.ssh_config_hosts.is_some()
            || self.tpu_pod
            || self.pod_ips.is_some()
    }
}

/// Options of printed snapshots.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct PrintOptions {
    /// Print one complete snapshot and exit; the default if output is not a terminal, or TERM=dumb
    #[arg(short = '1', long)]
    pub once: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Print as CSV (RFC 4180), a row per device
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print only these fields of each device, with --csv or --json; gtop fields lists them
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = OutputField::from_name)]
    pub fields: Vec<OutputField>,
    /// Print command lines too, which may hold secrets, with --csv or --fields
    #[arg(long)]
    pub commands: bool,
    /// Replace users, hosts, jobs, paths and ids by numbered names, and leave out command lines and messages
    #[arg(long, conflicts_with = "commands")]
    pub anonymize: bool,
}

/// Options for output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// What is printed
    #[command(flatten)]
    pub print: PrintOptions,
    /// Print the JSON Schema of the --json output and exit
    #[arg(long)]
    pub json_schema: bool,
    /// Keep printing, one snapshot per interval, with --json or --csv
    #[arg(long, conflicts_with = "once")]
    pub watch: bool,
    /// Append utilization and memory of every device to FILE, in the format of rntop, whatever else is shown
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write to the file of --output at every Nth refresh, beginning with the first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 6,
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "output"
    )]
    pub output_every: u32,
    /// Record to FILE meanwhile; the screen can go back in it
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub record: Option<PathBuf>,
    /// What is kept
    #[command(flatten)]
    pub keep: KeepOptions,
}

impl PrintOptions {
    /// Returns the columns of CSV.
    pub fn columns(&self) -> Vec<OutputField> {
        if !self.fields.is_empty() {
            return self.fields.clone();
        }
        let command = self.commands.then_some(OutputField::Key(DeviceKey::Command));
        OutputField::defaults().into_iter().chain(command).collect()
    }
}

impl OutputOptions {
    /// Returns an error message if an option needs another one.
    fn missing_option(&self) -> Option<&'static str> {
        let PrintOptions { once, json, csv, fields, commands, anonymize } = &self.print;
        let (once, json, csv) = (*once, *json, *csv);
        let is_table = !json && !csv;
        let has_commands = fields.iter().any(|field| field.is_command());
        let has_rows = csv || (json && !fields.is_empty());
        let is_screen = is_table && !once;
        [
            (self.watch && is_table, "--watch requires --json or --csv"),
            (
                self.keep.is_set() && self.record.is_none(),
                "--keep, --max-size and --every need a recording: --record FILE, or gtop record -w FILE",
            ),
            (!fields.is_empty() && is_table, "--fields requires --csv or --json"),
            (*commands && !has_rows, "--commands requires --csv, or --json with --fields"),
            (
                has_commands && !*commands,
                "command lines may hold secrets; add --commands to print them",
            ),
            (
                *anonymize && is_screen,
                "--anonymize requires --once, --json or --csv; the screen shows names",
            ),
        ]
        .into_iter()
        .find_map(|(is_missing, message)| is_missing.then_some(message))
    }
}

/// Options of connections.
#[derive(Clone, Debug, Default)]
pub struct ConnectionOptions {
    /// Maximum number of connections opened at once.
    pub max_connecting: u16,
    pub transport: TransportChoice,
    /// Command that connects to a node.
    pub exec: Option<String>,
    /// The ssh program, if it is to be used.
    pub ssh_binary: Option<PathBuf>,
}

/// The transport setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// Built-in SSH, with fallbacks
    #[default]
    Auto,
    /// Built-in SSH only
    Native,
    /// The ssh program
    Ssh,
    /// No connections: this machine only
    Local,
    /// The command of --exec
    Exec,
    /// One step per Slurm job, for clusters that forbid ssh to nodes
    Srun,
}

impl ConnectionOptions {
    /// Reads the options from the settings. A setting from a source of higher precedence, such as the command
    /// line, disables conflicting ones from other sources.
    fn from_settings(settings: &Settings) -> Self {
        let names = ["transport", "exec", "ssh-binary"];
        let highest = names.iter().map(|name| settings.layer(name)).max();
        let is_highest = |name: &str| Some(settings.layer(name)) == highest;
        let transport = match settings.choice("transport") {
            "native" => TransportChoice::Native,
            "ssh" => TransportChoice::Ssh,
            "local" => TransportChoice::Local,
            "exec" => TransportChoice::Exec,
            "srun" => TransportChoice::Srun,
            _ => TransportChoice::Auto,
        };
        let transport = if is_highest("transport") { transport } else { TransportChoice::Auto };
        let has_exec = is_highest("exec") || transport == TransportChoice::Exec;
        let has_program = is_highest("ssh-binary") || transport == TransportChoice::Ssh;
        Self {
            max_connecting: settings.count("max-connecting").unwrap_or(64),
            transport,
            exec: settings.text("exec").filter(|_| has_exec),
            ssh_binary: settings.text("ssh-binary").filter(|_| has_program).map(PathBuf::from),
        }
    }

    /// Returns the transport; `--ssh-binary` and `--exec` imply theirs.
    pub fn transport_kind(&self) -> TransportChoice {
        if self.ssh_binary.is_some() {
            TransportChoice::Ssh
        } else if self.exec.is_some() {
            TransportChoice::Exec
        } else {
            self.transport
        }
    }

    /// Returns an error message if options conflict.
    const fn conflict(&self) -> Option<&'static str> {
        use TransportChoice::{Exec, Local, Native, Srun, Ssh};
        match (self.transport, self.ssh_binary.is_some(), self.exec.is_some()) {
            (Native, true, _) => Some("--ssh-binary conflicts with --transport native"),
            (Local | Exec | Srun, true, _) => {
                Some("--ssh-binary conflicts with --transport; leave one of them out")
            }
            (Native | Ssh | Local | Srun, _, true) => {
                Some("--exec conflicts with --transport; leave one of them out")
            }
            (Exec, _, false) => Some(
                "--transport exec needs --exec COMMAND, such as 'kubectl exec -i {node} -- sh'",
            ),
            _ => None,
        }
    }
}

fn parse_job_id(text: &str) -> Result<String, String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (first, second) = text.split_once(['_', '+']).unwrap_or((text, "0"));
    if text.len() <= 32 && is_number(first) && is_number(second) {
        return Ok(text.to_owned());
    }
    Err("expected a job ID, such as 12, 12_3 or 12+1".to_owned())
}

fn parse_node_count(nodes: &str) -> Result<u16, String> {
    let count = nodes.parse().ok().filter(|count| (1..=1000).contains(count));
    count.ok_or_else(|| {
        "expected a number of nodes between 1 and 1000, such as --demo=64".to_owned()
    })
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    check::name(text).map(|()| text.to_owned())
}

impl Cli {
    /// Parses the command line, beginning with the program name.
    pub fn parse_args(args: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let args: Vec<OsString> = expand_only_visible(args).collect();
        let explain = |error| hints::explain_foreign_option(with_joined_value_tip(error, &args));
        let mut cli = Self::try_parse_from(&args).map_err(explain)?;
        if let Some(message) = hints::explain_misread_host(&cli, &args) {
            return Err(Self::command().error(ErrorKind::ValueValidation, message));
        }
        cli.lift_shared_options();
        cli.lift_pick_options();
        let args = cli.settings.values.clone();
        cli.apply_settings(&Settings::merge(
            SettingSources { args, ..SettingSources::default() },
            |_| None,
        ));
        cli.check()?;
        Ok(cli)
    }

    /// Applies the merged settings.
    pub fn apply_settings(&mut self, settings: &Settings) {
        self.connection = ConnectionOptions::from_settings(settings);
        if self.nodes.demo.is_some() {
            return;
        }
        if self.nodes.exclude.is_empty() {
            self.nodes.exclude = settings.list("exclude");
        }
        let names_something = !matches!(self.command, None | Some(CliCommand::Record(_)))
            || !self.hosts.is_empty()
            || self.nodes.names_nodes()
            || self.nodes.local
            || self.slurm.is_requested();
        if !names_something && self.connection.transport_kind() != TransportChoice::Local {
            self.hosts = settings.list("hosts");
            self.slurm.slurm = settings.is_on("slurm");
        }
    }

    /// Returns the host arguments, of the subcommand if there is one.
    pub fn hosts(&self) -> &[String] {
        match &self.command {
            Some(CliCommand::Trust { hosts } | CliCommand::Doctor(DoctorOptions { hosts, .. })) => {
                hosts
            }
            Some(
                CliCommand::Record(_)
                | CliCommand::Replay(_)
                | CliCommand::Pick(_)
                | CliCommand::Config { .. }
                | CliCommand::Fields { .. }
                | CliCommand::Python
                | CliCommand::Man
                | CliCommand::Completions { .. },
            )
            | None => &self.hosts,
        }
    }

    /// Checks rules that clap cannot express.
    pub fn check(&self) -> Result<(), clap::Error> {
        self.check_pick()?;
        if let Some(message) = self.output.missing_option() {
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, message));
        }
        match self.conflict() {
            Some(message) => Err(Self::command().error(ErrorKind::ArgumentConflict, message)),
            None => Ok(()),
        }
    }

    /// Returns an error message if options or settings conflict.
    pub fn conflict(&self) -> Option<&'static str> {
        let names_nodes = self.nodes.names_nodes() || !self.hosts().is_empty();
        let local = "--transport local watches this machine only; leave the hosts out";
        let local = (self.connection.transport_kind() == TransportChoice::Local && names_nodes)
            .then_some(local);
        self.connection.conflict().or(local)
    }
}

/// Returns the message of a usage error; `None` for `--help` and `--version`, which clap returns as errors too.
pub fn error_text(error: &clap::Error) -> Option<String> {
    let text = error.render().to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text);
    error.use_stderr().then(|| format!("gtop: {message}"))
}

/// Replaces `-ov`, which clap would read as `-o v`, by `--only-visible`.
fn expand_only_visible(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut are_options = true;
    args.map(move |arg| {
        are_options &= arg != "--";
        if are_options && arg == "-ov" { "--only-visible".into() } else { arg }
    })
}

/// Adds a tip to a conflict error if a host looks like the value of the option before it, which needs `=`.
fn with_joined_value_tip(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::ArgumentConflict {
        return error;
    }
    let command = Cli::command();
    let needs_equals = |arg: &str| {
        let mut options = command.get_arguments().filter(|option| option.is_require_equals_set());
        options.any(|option| {
            let long = option.get_long().map(|name| format!("--{name}"));
            let short = option.get_short().map(|letter| format!("-{letter}"));
            [long, short].iter().flatten().any(|name| name == arg)
        })
    };
    let tip = args.windows(2).find_map(|pair| {
        let [option, value] = pair else { return None };
        let (option, value) = (option.to_str()?, value.to_str()?);
        if !needs_equals(option) || value.starts_with('-') {
            return None;
        }
        let joined = format!("{option}={value}");
        let is_value = Cli::try_parse_from(["gtop", &joined]).is_ok();
        is_value.then(|| format!("to pass a value to {option}, use =: {}", sanitize(&joined, 80)))
    });
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::parse_args(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn clap_accepts_the_declaration() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_detached_value_gets_a_tip_to_use_an_equals_sign() {
        for (line, tip) in [
            ("gtop --demo 20", Some("tip: to pass a value to --demo, use =: --demo=20")),
            ("gtop --demo -u ada", Some("tip: to pass a value to -u, use =: -u=ada")),
            ("gtop --demo gpu01", None),
            ("gtop gpu01 --demo", None),
            ("gtop --local --demo --once", None),
        ] {
            let error = parse(line).unwrap_err().to_string();
            let found = error.lines().find(|line| line.contains("tip:")).map(str::trim);
            assert_eq!(found, tip, "{error}");
        }
    }

    #[test]
    fn hosts_and_options_are_accepted_in_any_order() {
        let cli = parse("gtop gpu01 -i 0.5 gpu[02-03] --username ada").unwrap();
        assert_eq!(cli.hosts, ["gpu01", "gpu[02-03]"]);
        let given = |name: &str| cli.settings.values[name].to_string();
        assert_eq!((given("interval"), given("login")), ("0.5".to_owned(), "ada".to_owned()));
    }

    #[test]
    fn a_subcommand_takes_precedence_over_a_host_unless_after_a_double_dash() {
        assert!(
            matches!(parse("gtop trust gpu01").unwrap().command, Some(CliCommand::Trust { hosts }) if hosts == ["gpu01"])
        );
        assert!(parse("gtop -l ada trust gpu01").unwrap().command.is_some());
        assert_eq!(parse("gtop gpu01 trust").unwrap().hosts, ["gpu01", "trust"]);
        let host = parse("gtop -- trust").unwrap();
        assert!(host.command.is_none() && host.hosts == ["trust"]);
    }

    #[test]
    fn doctor_takes_hosts_or_defaults_to_this_machine() {
        let doctor = |line: &str| match parse(line).unwrap().command {
            Some(CliCommand::Doctor(options)) => (options.hosts, options.local, options.json),
            _ => panic!("{line}"),
        };
        assert_eq!(doctor("gtop doctor"), (vec![], false, false));
        let all = (vec!["gpu01".to_owned()], true, true);
        assert_eq!(doctor("gtop -l ada doctor gpu01 --local --json --max-connecting 2"), all);
        assert_eq!(parse("gtop -- doctor").unwrap().hosts, ["doctor"]);
        assert!(parse("gtop doctor --watch").is_err());
    }

    #[test]
    fn an_optional_value_needs_an_equals_sign() {
        assert_eq!(parse("gtop --demo").unwrap().nodes.demo, Some(12));
        assert_eq!(parse("gtop --demo=3 --seed 7").unwrap().nodes.demo, Some(3));
        assert!(parse("gtop --demo 3").is_err());
    }

    #[test]
    fn options_that_select_jobs_imply_slurm() {
        for line in [
            "gtop --slurm",
            "gtop --job 12_3,4+1",
            "gtop --user ada,bob",
            "gtop --all-users",
            "gtop --partition gpu",
        ] {
            assert!(parse(line).unwrap().slurm.is_requested(), "{line}");
        }
        let plain = parse("gtop gpu01").unwrap().slurm;
        assert!(!plain.is_requested());
        assert_eq!(parse("gtop --job 12_3,4+1").unwrap().slurm.job, ["12_3", "4+1"]);
    }

    #[test]
    fn options_can_name_nodes() {
        let nodes = |line: &str| parse(line).unwrap().nodes;
        assert!(!nodes("gtop --exclude gpu01").names_nodes());
        let all =
            nodes("gtop --ssh-config-hosts --exclude gpu01 --exclude @down --mpi-hostfile hosts");
        assert_eq!(all.ssh_config_hosts.as_deref(), Some("*"));
        assert_eq!(all.exclude, ["gpu01", "@down"]);
        assert!(all.mpi_hostfile.is_some() && all.names_nodes());
        assert_eq!(nodes("gtop --ssh-config-hosts=gpu*").ssh_config_hosts.as_deref(), Some("gpu*"));
    }

    #[test]
    fn ssh_binary_implies_its_transport() {
        let transport = |line: &str| {
            let connection = parse(line).unwrap().connection;
            (connection.transport_kind(), connection.ssh_binary)
        };
        assert_eq!(transport("gtop gpu01"), (TransportChoice::Auto, None));
        assert_eq!(transport("gtop --transport native gpu01"), (TransportChoice::Native, None));
        assert_eq!(transport("gtop --transport ssh gpu01"), (TransportChoice::Ssh, None));
        for line in ["gtop --ssh gpu01", "gtop --ssh-binary gpu01"] {
            assert_eq!(transport(line), (TransportChoice::Ssh, Some("ssh".into())), "{line}");
        }
        assert_eq!(transport("gtop --transport ssh-binary gpu01"), (TransportChoice::Ssh, None));
        assert_eq!(transport("gtop --transport local"), (TransportChoice::Local, None));
        assert_eq!(transport("gtop --exec x gpu01"), (TransportChoice::Exec, None));
        assert_eq!(
            transport("gtop --transport exec --exec x gpu01"),
            (TransportChoice::Exec, None)
        );
        let named = Some("/opt/bin/ssh".into());
        assert_eq!(
            transport("gtop --ssh-binary=/opt/bin/ssh gpu01"),
            (TransportChoice::Ssh, named)
        );
    }

    #[test]
    fn usage_errors_name_the_remedy() {
        for (line, expected) in [
            ("gtop -i 0", "between 0.05 and 3600"),
            ("gtop -i x", "between 0.05 and 3600"),
            ("gtop -i NaN", "between 0.05 and 3600"),
            ("gtop --history 1", "between 10 and 86400"),
            ("gtop --demo=0", "between 1 and 1000"),
            ("gtop --demo=x", "such as --demo=64"),
            ("gtop --seed 3", "--demo"),
            ("gtop --login=-x", "does not start with -"),
            ("gtop -l a;b gpu01", "a login name consists of"),
            ("gtop --max-connecting 0", "between 1 and 4096"),
            ("gtop --gpu-util-thresh 10 x", "two percentages between 1 and 99"),
            ("gtop --gpu-util-thresh 75 10", "two percentages between 1 and 99"),
            ("gtop --mem-util-thresh 10", "2 values required"),
            ("gtop --theme blue", "colour-blind"),
            ("gtop -o GPU-1", "CUDA_VISIBLE_DEVICES and use -ov"),
            ("gtop -p x", "process IDs"),
            ("gtop --themme dark", "--theme"),
            ("gtop --watch gpu01", "--watch requires --json"),
            ("gtop --csv --json gpu01", "cannot be used with"),
            ("gtop --fields util gpu01", "--fields requires --csv or --json"),
            ("gtop --csv --fields utl gpu01", "no field utl; did you mean util?"),
            ("gtop --csv --fields util,command gpu01", "add --commands"),
            ("gtop --commands gpu01", "--commands requires --csv"),
            ("gtop --json --commands gpu01", "--commands requires --csv"),
            ("gtop --csv --commands --anonymize gpu01", "cannot be used with"),
            ("gtop --anonymize gpu01", "--anonymize requires --once"),
            ("gtop --output-every 2 gpu01", "--output"),
            ("gtop --output f --output-every 0 gpu01", "0 is not in 1.."),
            ("gtop --transport native --ssh gpu01", "--transport native"),
            ("gtop --transport exec gpu01", "needs --exec COMMAND"),
            ("gtop --transport ssh --exec x gpu01", "conflicts with --transport"),
            ("gtop --ssh --exec x gpu01", "cannot be used with"),
            ("gtop --transport local gpu01", "leave the hosts out"),
            ("gtop --transport local doctor gpu01", "leave the hosts out"),
            ("gtop --transport rsh gpu01", "auto"),
            ("gtop --once --watch", "cannot be used with"),
            ("gtop --job 12_x", "expected a job ID"),
            ("gtop --job=-1", "expected a job ID"),
            ("gtop --user a;b", "names consist of letters"),
            ("gtop --user a --all-users", "cannot be used with"),
            ("gtop --discovery-interval 0.5", "between 1 and 3600"),
            ("gtop --slurm --demo", "cannot be used with"),
            ("gtop --hsots-file x", "--hosts-file"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.to_string().contains(expected), "{line}: {error}");
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
