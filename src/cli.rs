//! The command line: options, hosts and subcommands, and which of them conflict.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::cli::first_page::FIRST_PAGE;
use crate::config::{SettingSources, Settings};
use crate::setting_table;
use crate::setting_table::{JobSettings, NodeSettings, TransportChoice};
use gtop_collect::scheduler::SchedulerKind;
use gtop_fleet::settings::SettingValue;
use gtop_local::text::sanitize;

mod args;
mod connection;
mod export;
mod first_page;
mod hints;
mod keep;
mod login;
mod manpage;
mod nodes;
mod output;
mod pick;
mod probe;
mod recording;
mod report;
mod runs;
mod serve;

pub(crate) use args::SettingArgs;
pub(crate) use connection::ConnectionOptions;
pub(crate) use export::ExportOptions;
pub(crate) use keep::KeepOptions;
pub(crate) use login::{DEFAULT_PERSIST, LoginOptions};
pub(crate) use manpage::{Shell, write_completions, write_man_page};
pub(crate) use nodes::{JobOptions, NodeOptions};
pub(crate) use output::{OutputOptions, PrintOptions};
pub(crate) use pick::{DeviceFormat, PickOptions};
pub(crate) use probe::{ProbeOptions, ScriptChoice};
pub(crate) use recording::{RecordOptions, ReplayOptions};
pub(crate) use report::{ReportOptions, SpanOptions};
pub(crate) use runs::{RunCsvFormat, RunPlace, RunsOptions};
pub(crate) use serve::ServeOptions;

const HOST_HELP: &str = "Node to watch: [user@]host[:port], an alias from ~/.ssh/config, a node set such as gpu[001-128,200], a group such as @gpu, or the page of an exporter such as http://gpu01:9100/metrics (see EXAMPLES)";

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
        gtop http://gpu01:9100/metrics  read the page of nvitop-exporter or node_exporter, without SSH\n  \
        gtop --tpu-pod                  watch all workers of this TPU pod\n  \
        gtop                            watch this machine\n  \
        gtop --slurm                    watch the nodes of your running Slurm jobs\n  \
        gtop --demo                     try gtop with simulated nodes\n  \
        gtop --problems @gpu            what is wrong, which nodes, since when, and what to do\n  \
        gtop --json gpu01 | jq .totals  one snapshot as JSON\n  \
        gtop --csv gpu01 > devices.csv  one row per device\n  \
        gtop trust gpu01                verify and store the host key of a new node\n  \
        gtop login 'gpu[01-16]'         log in to nodes that ask for a password or a one-time code\n  \
        gtop doctor gpu01               diagnose step by step why a node does not answer\n  \
        gtop --sudo @gpu                as administrator: the probe runs as root, reading only\n  \
        gtop probe gpu01                what runs on the node, with hashes\n  \
        gtop record --slurm -w a.gtop   record your jobs' nodes; gtop replay a.gtop plays it\n  \
        gtop report a.gtop -w a.html    what happened, on one page; gtop report --slurm --for 10m watches first\n  \
        gtop pick -n 4 gpu01 gpu02      pick four free devices; gtop pick -n 1 -- CMD runs CMD on one\n  \
        gtop serve --slurm              serve metrics to Prometheus at http://127.0.0.1:9835/metrics\n  \
        gtop runs ./progress            watch training runs; gtop runs --help\n\n\
        Names of subcommands and plain numbers are not taken as hosts; put them after --: `gtop -- trust 5`.\n\n\
        EXIT STATUS\n  \
        0 at least one node answered, 1 no node answered, 2 usage error, 130 interrupted by Ctrl-C"
)]
pub(crate) struct Cli {
    /// The nodes to watch
    #[arg(value_name = "HOST", help = HOST_HELP)]
    pub hosts: Vec<String>,
    /// Subcommand; default: watch
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// Node options
    #[command(flatten)]
    pub nodes: NodeOptions,
    /// Options that select jobs
    #[command(flatten)]
    pub jobs: JobOptions,
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
pub(crate) enum CliCommand {
    /// Show the host keys of new nodes and, once confirmed, store them in `known_hosts`
    Trust {
        /// Node to trust
        #[arg(value_name = "HOST")]
        hosts: Vec<String>,
    },
    /// Log in to nodes that ask for a password or a one-time code, and keep the connections open
    ///
    /// Each node that needs it is logged in to with the ssh program, which asks here, and so are the gateways in front
    /// of it, once. Afterwards gtop uses these connections without a login. To watch a node called login, use gtop -- login.
    Login(Box<LoginOptions>),
    /// Diagnose nodes step by step: findings, timings and remedies
    Doctor(DoctorOptions),
    /// Print what gtop runs on a node, with hashes, and the line that lets sudo run it; connects to nothing
    Probe(ProbeOptions),
    /// Record what nodes report, without a screen
    Record(Box<RecordOptions>),
    /// Play recordings on the screen, or print a picture of them
    Replay(Box<ReplayOptions>),
    /// Report what happened over a span of time, from recordings or from watching for a while
    Report(Box<ReportOptions>),
    /// Write the samples of recordings as a table, for notebooks and databases
    Export(Box<ExportOptions>),
    /// Pick free devices on all nodes, for `CUDA_VISIBLE_DEVICES` or to run a command on them
    Pick(Box<PickOptions>),
    /// Serve metrics to Prometheus, and snapshots as JSON, over HTTP
    ///
    /// /metrics has what Prometheus scrapes, /api/v1/snapshot what --json prints, /healthz whether gtop collects. Instead
    /// of nodes, files can be named: the last snapshot of a recording is served. Names of users and jobs are for those
    /// with the token; docs/serve.md has the rules, and the names of all metrics. It serves until a signal ends it.
    Serve(Box<ServeOptions>),
    /// Watch training runs: their progress, processes, variables and output
    Runs(Box<RunsOptions>),
    /// Show, check or create the configuration
    Config {
        /// Subcommand
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// List every field of --fields, --json, filters and columns: name, id, unit, source and meaning
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
pub(crate) struct DoctorOptions {
    /// Node to diagnose; default: this machine
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Diagnose this machine in addition to other hosts
    #[arg(long)]
    pub local: bool,
    /// Diagnose Slurm on this machine and the nodes of your jobs
    #[arg(long = "slurm")]
    pub jobs: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// A subcommand of `gtop config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum ConfigAction {
    /// Write a config.toml with every setting commented out; never overwrites an existing one
    Init,
    /// Report errors in config.toml, setup.toml and the environment, with line numbers
    Check,
    /// Print every setting and its source
    Show,
    /// Print the path of config.toml
    Path,
}

impl Cli {
    /// Parses the command line, beginning with the program name.
    pub(crate) fn parse_args(args: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let args: Vec<OsString> = expand_only_visible(args).collect();
        let mut cli = Self::try_parse_from(&args).map_err(|error| {
            if error.kind() == ErrorKind::DisplayHelp && asks_first_page(&args) {
                let command = Self::command().override_help(FIRST_PAGE);
                return command.try_get_matches_from(["gtop", "-h"]).err().unwrap_or(error);
            }
            hints::explain_foreign_option(with_joined_value_tip(error, &args), &args)
        })?;
        if let Some(message) = hints::explain_misread_host(&cli, &args) {
            return Err(Self::command().error(ErrorKind::ValueValidation, message));
        }
        cli.lift_shared_options();
        cli.split_recordings();
        cli.lift_pick_options();
        cli.lift_runs_options();
        let args = cli.given_settings();
        cli.apply_settings(&setting_table::merge(
            SettingSources { args, ..SettingSources::default() },
            |_| None,
        ));
        cli.check()?;
        Ok(cli)
    }

    /// Returns the settings given on the command line, also those that have an option of their own.
    pub(crate) fn given_settings(&self) -> BTreeMap<&'static str, SettingValue> {
        let mut values = self.settings.values.clone();
        if !self.nodes.exclude.is_empty() {
            values.insert("exclude", SettingValue::List(self.nodes.exclude.clone()));
        }
        if self.jobs.slurm {
            values.insert("slurm", SettingValue::Switch(true));
        }
        values
    }

    /// Applies the merged settings.
    pub(crate) fn apply_settings(&mut self, settings: &Settings) {
        self.connection = ConnectionOptions::from_settings(settings);
        if self.nodes.demo.is_some() {
            return;
        }
        if self.nodes.exclude.is_empty() {
            self.nodes.exclude = settings.read::<NodeSettings>().exclude.value;
        }
        let names_something = !matches!(
            &self.command,
            None | Some(CliCommand::Record(_) | CliCommand::Serve(_) | CliCommand::Login(_))
        ) || self.names_nodes();
        if !names_something && self.connection.transport_kind() != TransportChoice::Local {
            self.hosts = settings.read::<NodeSettings>().hosts.value;
            self.jobs.slurm = settings.read::<JobSettings>().slurm;
        }
    }

    /// Returns the host arguments, of the subcommand if there is one.
    pub(crate) fn hosts(&self) -> &[String] {
        match &self.command {
            Some(CliCommand::Trust { hosts } | CliCommand::Doctor(DoctorOptions { hosts, .. })) => {
                hosts
            }
            Some(_) | None => &self.hosts,
        }
    }

    /// Checks rules that clap cannot express.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        self.check_pick()?;
        self.check_runs()?;
        self.check_report()?;
        self.check_serve()?;
        if let Some(message) = self.output.missing_option() {
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, message));
        }
        if let Some(message) = self.jobs.foreign_id() {
            return Err(Self::command().error(ErrorKind::ValueValidation, message));
        }
        match self.conflict() {
            Some(message) => Err(Self::command().error(ErrorKind::ArgumentConflict, message)),
            None => Ok(()),
        }
    }

    /// Returns an error message if options or settings conflict.
    pub(crate) fn conflict(&self) -> Option<&'static str> {
        let names_nodes = self.nodes.names_nodes() || !self.hosts().is_empty();
        let is_other = self.jobs.named_scheduler().is_some_and(|kind| kind != SchedulerKind::Slurm);
        let transport = self.connection.transport_kind();
        let conflict = self.connection.conflict();
        if conflict.is_some() {
            conflict
        } else if transport == TransportChoice::Local && names_nodes {
            Some("--transport local watches this machine only; leave the hosts out")
        } else if transport == TransportChoice::Srun && is_other {
            Some("--transport srun runs steps of Slurm jobs; leave out the other --scheduler")
        } else {
            None
        }
    }
}

/// Returns true if `-h` is given without a subcommand.
fn asks_first_page(args: &[OsString]) -> bool {
    let command = Cli::command();
    args.iter().any(|arg| arg == "-h")
        && !args.iter().skip(1).any(|arg| command.find_subcommand(arg).is_some())
}

/// Returns the message of a usage error; `None` for `--help` and `--version`, which clap returns as errors too.
pub(crate) fn error_text(error: &clap::Error) -> Option<String> {
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
    let options = command.get_arguments().filter(|option| option.is_require_equals_set());
    let names: Vec<String> = options
        .flat_map(|option| {
            let long = option.get_long().map(|name| format!("--{name}"));
            long.into_iter().chain(option.get_short().map(|letter| format!("-{letter}")))
        })
        .collect();
    let tip = args.windows(2).find_map(|pair| {
        let [option, value] = pair else { return None };
        let (option, value) = (option.to_str()?, value.to_str()?);
        if !names.iter().any(|name| name == option) || value.starts_with('-') {
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
    use crate::setting_table::ReportSettings;

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
        for name in ["trust", "login"] {
            let host = parse(&format!("gtop -- {name}")).unwrap();
            assert!(host.command.is_none() && host.hosts == [name]);
        }
    }

    #[test]
    fn the_first_page_fits_a_screen_and_names_what_there_is() {
        let error = parse("gtop gpu01 -h").unwrap_err();
        assert!(!error.use_stderr());
        assert_eq!(error.render().to_string(), FIRST_PAGE);
        assert!(FIRST_PAGE.lines().count() <= 60);
        assert!(FIRST_PAGE.lines().all(|line| line.chars().count() <= 80));
        let mut command = Cli::command();
        command.build();
        let words: Vec<&str> = FIRST_PAGE.split([' ', ',', ':', '\n']).collect();
        for subcommand in command.get_subcommands().filter(|one| one.get_name() != "help") {
            assert!(words.contains(&subcommand.get_name()), "{subcommand}");
        }
        for word in words.iter().filter(|word| word.len() > 1 && word.starts_with('-')) {
            let is_option = command.get_arguments().any(|option| {
                option.get_short().is_some_and(|short| **word == format!("-{short}"))
                    || option.get_long().is_some_and(|long| **word == format!("--{long}"))
            });
            assert!(is_option, "{word}");
        }
        assert!(parse("gtop pick -h").unwrap_err().render().to_string().contains("gtop pick"));
        assert!(parse("gtop --help").unwrap_err().render().to_string().contains("--units"));
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
            assert!(parse(line).unwrap().jobs.is_requested(), "{line}");
        }
        let plain = parse("gtop gpu01").unwrap().jobs;
        assert!(!plain.is_requested());
        assert_eq!(parse("gtop --job 12_3,4+1").unwrap().jobs.job, ["12_3", "4+1"]);
    }

    #[test]
    fn a_report_of_files_counts_jobs_and_one_of_nodes_watches_them_too() {
        let read = parse("gtop report a.gtop --job 11,2_1 --user ada --node gpu[01-02]").unwrap();
        let Some(CliCommand::Report(options)) = &read.command else { panic!("{read:?}") };
        let filter = options.filter();
        assert_eq!(
            (&*filter.jobs, &*filter.users),
            (&["11", "2_1"].map(str::to_owned)[..], &["ada".to_owned()][..])
        );
        assert_eq!(filter.nodes, ["gpu01", "gpu02"]);
        assert!(!read.jobs.is_requested());
        let watched = parse("gtop report --slurm --job 11 --for 10m").unwrap();
        let Some(CliCommand::Report(options)) = &watched.command else { panic!("{watched:?}") };
        assert_eq!(
            (options.filter().jobs, &watched.jobs.job),
            (vec!["11".to_owned()], &vec!["11".to_owned()])
        );
        assert!(parse("gtop report a.gtop --slurm").is_err());
        assert!(parse("gtop report a.gtop --node gpu[").is_err());
    }

    #[test]
    fn options_of_a_report_take_precedence_over_the_limits_of_settings() {
        let settings = ReportSettings {
            report_low: 20,
            report_good: 60,
            report_price: vec!["H100=2".to_owned()],
            ..ReportSettings::default()
        };
        for (line, expected) in [
            (
                "gtop report a.gtop",
                "low load below 20 %, good from 60 %, not judged below 5m00s, prices of a device-hour h100=2",
            ),
            (
                "gtop report a.gtop --low 7.5 --price 3",
                "low load below 7.5 %, good from 60 %, not judged below 5m00s, prices of a device-hour 3",
            ),
        ] {
            let read = parse(line).unwrap();
            let Some(CliCommand::Report(options)) = &read.command else { panic!("{read:?}") };
            assert_eq!(options.criteria(&settings).text(), expected);
        }
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
            ("gtop --demo=0", "between 1 and 10000"),
            ("gtop --demo=10001", "between 1 and 10000"),
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
            ("gtop --problems --json gpu01", "cannot be used with"),
            ("gtop --problems --watch gpu01", "--watch requires --json"),
            ("gtop --fields util gpu01", "--fields requires --csv or --json"),
            ("gtop --csv --fields utl gpu01", "no field utl; did you mean util?"),
            ("gtop --csv --fields util,command gpu01", "add --commands"),
            ("gtop report a.gtop --filter util>50", "util>50 is true of moments"),
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
