//! The options of `gtop report`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueEnum};

use crate::cli::keep::parse_duration;
use crate::cli::{Cli, CliCommand, JobOptions, NodeOptions, SettingArgs};
use crate::export::ReportFormat;
use crate::report::{DevicePrice, ReportCriteria, ReportFilter};
use crate::setting_table::ReportSettings;
use gtop_fleet::query::Filter;
use gtop_model::nodeset;

/// Options of `gtop report`.
#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Recordings, each with its older parts, or logs of rntop; with --for, nodes to watch
    #[arg(value_name = "FILE")]
    hosts: Vec<String>,
    /// The file to write; it may replace an earlier report
    #[arg(short = 'w', long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// The format; default: by the extension of the file, or md without a file
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatWord>,
    /// Watch for this time, then report: 90s, 10m, 2h; Ctrl-C ends it earlier
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub watch_time: Option<Duration>,
    #[command(flatten)]
    pub span: SpanOptions,
    /// Count these nodes only; in the same way, --job and --user count only what these jobs and users held
    #[arg(long, value_name = "SET", value_parser = parse_node_set)]
    node: Vec<String>,
    /// Count only what matches FILTER, in the syntax of / on the screen: 'user=ada name~h100'; see docs/reports.md
    #[arg(long, value_name = "FILTER", value_parser = Filter::of_span, default_value = "", hide_default_value = true)]
    filter: Filter,
    /// The jobs and users whose devices and time count.
    #[arg(skip)]
    holders: (Vec<String>, Vec<String>),
    /// The mean load in percent below which the load of a job is low; default: report-low of the settings, 15
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    low: Option<f64>,
    /// The price of a device-hour, of all devices or of a model: 2.50, H100=2.50; may be repeated; default: report-price of the settings
    #[arg(long, value_name = "[MODEL=]AMOUNT")]
    price: Vec<DevicePrice>,
    /// List command lines, which can hold secrets
    #[arg(long, conflicts_with = "anonymize")]
    pub commands: bool,
    /// Replace names of users, hosts, jobs and devices, and leave out free texts
    #[arg(long)]
    pub anonymize: bool,
    /// Replace a file that is not a report
    #[arg(long, requires = "write")]
    pub force: bool,
    #[command(flatten)]
    pub(super) nodes: NodeOptions,
    #[command(flatten)]
    pub(super) jobs: JobOptions,
    #[command(flatten)]
    pub(super) settings: SettingArgs,
}

/// The span of a recording that counts.
#[derive(Clone, Debug, Args)]
pub(crate) struct SpanOptions {
    /// Leave out everything before this time: 14:05, -3h (before the end), 2026-11-24 14:05, ISO 8601
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Leave out everything after this time, written in the same way
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatWord {
    /// A page for browsers
    Html,
    /// Text for people
    Md,
    /// All of it, for programs
    Json,
    /// A table of all numbers
    Csv,
    /// Plain text for mail, the verdicts first
    Text,
    /// A line of JSON for each job
    Jobs,
}

impl ReportOptions {
    /// Returns the hosts to watch, which no longer count as files.
    pub(super) fn take_hosts(&mut self) -> Vec<String> {
        if self.watch_time.is_some() { std::mem::take(&mut self.hosts) } else { Vec::new() }
    }

    /// Notes the jobs and users that count; without nodes to watch, their options say nothing else.
    pub(super) fn note_holders(&mut self) {
        let (job, user) = (&mut self.jobs.job, &mut self.jobs.user);
        self.holders = match self.watch_time {
            Some(_) => (job.clone(), user.clone()),
            None => (std::mem::take(job), std::mem::take(user)),
        };
    }

    /// Returns whose devices and time count.
    pub(crate) fn filter(&self) -> ReportFilter {
        let (jobs, users) = self.holders.clone();
        // Their form is known to be right.
        let nodes = self.node.iter().flat_map(|set| nodeset::expand(set).unwrap_or_default());
        ReportFilter { jobs, users, nodes: nodes.collect(), matching: self.filter.clone() }
    }

    /// Returns by what jobs are judged.
    pub(crate) fn criteria(&self, settings: &ReportSettings) -> ReportCriteria {
        // Their form is known to be right.
        let prices = settings.report_price.iter().filter_map(|price| price.parse().ok());
        ReportCriteria {
            low_percent: self.low.unwrap_or(f64::from(settings.report_low)),
            good_percent: f64::from(settings.report_good),
            min_held: settings.report_min_time,
            prices: if self.price.is_empty() { prices.collect() } else { self.price.clone() },
        }
    }

    /// Returns the files to read.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.hosts.iter().map(PathBuf::from).collect()
    }

    /// Returns the format of the report.
    pub(crate) fn format(&self) -> ReportFormat {
        match (self.format, &self.write) {
            (Some(FormatWord::Html), _) => ReportFormat::Html,
            (Some(FormatWord::Md), _) | (None, None) => ReportFormat::Markdown,
            (Some(FormatWord::Json), _) => ReportFormat::Json,
            (Some(FormatWord::Csv), _) => ReportFormat::Csv,
            (Some(FormatWord::Text), _) => ReportFormat::Text,
            (Some(FormatWord::Jobs), _) => ReportFormat::Jobs,
            (None, Some(path)) => {
                let extension = path.extension().and_then(OsStr::to_str);
                extension.and_then(ReportFormat::of_extension).unwrap_or(ReportFormat::Html)
            }
        }
    }
}

fn parse_node_set(text: &str) -> Result<String, String> {
    nodeset::expand(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a percentage is 0 to 100".to_owned())
}

impl Cli {
    /// Checks rules about `gtop report` that clap cannot express.
    pub(super) fn check_report(&self) -> Result<(), clap::Error> {
        let Some(CliCommand::Report(options)) = &self.command else { return Ok(()) };
        let problem = match options.watch_time {
            Some(_) if options.span.from.is_some() || options.span.to.is_some() => {
                "--from and --to select a part of a recording; leave them out with --for"
            }
            None if self.names_nodes() => {
                "--for says how long the nodes are watched, such as --for 10m; recordings are named without them"
            }
            None if options.hosts.is_empty() => {
                "no file given; gtop record makes one: gtop report FILE -w report.html, or gtop report --job ID --for 10m -w report.html"
            }
            Some(_) | None => return Ok(()),
        };
        Err(Self::command().error(ErrorKind::MissingRequiredArgument, problem))
    }
}
