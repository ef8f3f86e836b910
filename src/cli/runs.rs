//! The options of `gtop runs`: folders, hosts, logs, and the CSV files of ttop.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueEnum};

use crate::cli::hints::is_number;
use crate::cli::{Cli, CliCommand, JobOptions, NodeOptions, SettingArgs};
use gtop_model::{Bytes, RunLimits};

/// Where CSV files go by default, as in ttop.
const DEFAULT_CSV_DIR: &str = "./train/statistics/data";

/// Options of `gtop runs`.
#[derive(Debug, Args)]
#[command(
    after_long_help = "An argument with a slash, . or .., or one that is a folder here, is a FOLDER. HOST:FOLDER is a \
        folder on another host, which is watched too. Any other argument is a HOST to watch: processes of runs are \
        looked at there if the run's file names that host.\n\nEXAMPLES\n  \
        gtop runs ./progress                      runs of this machine\n  \
        gtop runs ./progress gpu01 gpu02          a shared folder; the runs are on these nodes\n  \
        gtop runs ./progress --slurm              the same, on the nodes of your Slurm jobs\n  \
        gtop runs gpu03:/data/runs gpu04:runs     folders on other hosts\n  \
        gtop runs --follow train.log              the progress that a log shows\n  \
        gtop runs ./progress --headless --csv-interval 10"
)]
pub(crate) struct RunsOptions {
    /// Folder of runs, FOLDER or HOST:FOLDER; or a node to watch
    #[arg(id = "hosts", value_name = "FOLDER|HOST")]
    places: Vec<String>,
    /// Show the progress in a log, LOG or HOST:LOG: tqdm, Keras, Lightning, Hugging Face, Megatron, step N/M
    #[arg(long, value_name = "LOG")]
    follow: Vec<String>,
    /// Open the output of a run (o) in a window of tmux; gtop must run inside tmux
    #[arg(long, conflicts_with_all = ["once", "headless"])]
    pub tmux: bool,
    /// The resources to compare with
    #[command(flatten)]
    max: MaxOptions,
    /// CSV files
    #[command(flatten)]
    pub csv: CsvOptions,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    jobs: JobOptions,
    #[command(flatten)]
    settings: SettingArgs,
}

/// What the resources of a login are compared with.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Runs")]
#[expect(clippy::struct_field_names, reason = "the names of the options")]
struct MaxOptions {
    /// Compare CPU use with N CPUs; default: those of the hosts
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    max_cpus: Option<f64>,
    /// Compare memory with GB; default: that of the hosts
    #[arg(long, value_name = "GB", value_parser = parse_amount)]
    max_ram: Option<f64>,
    /// Compare device memory with GB; default: that of the devices
    #[arg(long, value_name = "GB", value_parser = parse_amount)]
    max_gpu: Option<f64>,
}

/// Options of CSV files.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Runs")]
pub(crate) struct CsvOptions {
    /// Print the table once, as if standard output were no terminal
    #[arg(long, conflicts_with = "headless")]
    pub once: bool,
    /// Show no screen: print a line per interval and write CSV files
    #[arg(long)]
    pub headless: bool,
    /// Write CSV files to this folder; default with --headless and the other --csv options: ./train/statistics/data
    #[arg(long, value_name = "DIR")]
    csv_dir: Option<PathBuf>,
    /// Write a row per run every SECONDS; default: the interval
    #[arg(long, value_name = "SECONDS", value_parser = parse_amount)]
    pub csv_interval: Option<f64>,
    /// Write `RUN_matrix.csv` and `RUN_overall.csv` of each run, or ttop's one file of all
    #[arg(long, value_name = "FORMAT")]
    csv_format: Option<RunCsvFormat>,
}

/// The files of `--csv-dir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunCsvFormat {
    /// `RUN_matrix.csv` and `RUN_overall.csv` of each run
    #[default]
    Runs,
    /// One file of all runs, as ttop writes it
    Ttop,
}

/// A folder or a log, and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunPlace {
    /// As it was typed.
    pub text: String,
    /// `None` for this machine.
    pub host: Option<String>,
    /// The path on the host.
    pub path: String,
}

impl RunPlace {
    fn here(path: &str) -> Self {
        Self { text: path.to_owned(), host: None, path: path.to_owned() }
    }
}

impl RunsOptions {
    /// Returns the folders.
    pub(crate) fn folders(&self) -> Vec<RunPlace> {
        self.places.iter().filter_map(|word| place(word)).collect()
    }

    /// Returns the logs.
    pub(crate) fn logs(&self) -> Vec<RunPlace> {
        self.follow.iter().map(|log| place(log).unwrap_or_else(|| RunPlace::here(log))).collect()
    }

    /// Returns what resources are compared with.
    pub(crate) fn limits(&self) -> RunLimits {
        let MaxOptions { max_cpus, max_ram, max_gpu } = self.max;
        RunLimits { cpus: max_cpus, ram: max_ram.map(gib), gpu: max_gpu.map(gib) }
    }
}

impl CsvOptions {
    /// Returns the folder and the format of CSV files; `None` if none are written.
    pub(crate) fn target(&self) -> Option<(PathBuf, RunCsvFormat)> {
        let is_wanted = self.headless
            || self.csv_dir.is_some()
            || self.csv_interval.is_some()
            || self.csv_format.is_some();
        is_wanted.then(|| {
            let folder = self.csv_dir.clone().unwrap_or_else(|| DEFAULT_CSV_DIR.into());
            (folder, self.csv_format.unwrap_or_default())
        })
    }
}

impl Cli {
    /// Moves the options that `gtop runs` shares with watching to where watching has them. The hosts of folders are
    /// watched, too; this machine is if a folder is here.
    pub(super) fn lift_runs_options(&mut self) {
        let Some(CliCommand::Runs(options)) = &mut self.command else { return };
        let places = options.folders().into_iter().chain(options.logs());
        let mut is_local = false;
        for place in places {
            match place.host {
                Some(host) if !self.hosts.contains(&host) => self.hosts.push(host),
                Some(_) => {}
                None => is_local = true,
            }
        }
        let hosts = options.places.iter().filter(|word| place(word).is_none());
        self.hosts.extend(hosts.cloned());
        self.nodes.add(&mut options.nodes);
        self.jobs.add(&mut options.jobs);
        self.settings.add(&mut options.settings);
        self.nodes.local |= is_local;
    }

    /// Checks that `gtop runs` has something to show.
    pub(super) fn check_runs(&self) -> Result<(), clap::Error> {
        let Some(CliCommand::Runs(options)) = &self.command else { return Ok(()) };
        if !options.folders().is_empty() || !options.follow.is_empty() {
            return Ok(());
        }
        let message = match options.places.first() {
            Some(word) => format!(
                "no folder is given: {word} is not a folder here, so it is taken as a host; name a folder as ./{word}, \
                 a path, or HOST:FOLDER"
            ),
            None => {
                "no folder is given; use gtop runs FOLDER, such as gtop runs ./progress".to_owned()
            }
        };
        Err(Self::command().error(ErrorKind::MissingRequiredArgument, message))
    }
}

/// Returns the folder that an argument names; `None` for a host.
fn place(word: &str) -> Option<RunPlace> {
    if matches!(word, "." | ".." | "~")
        || word.starts_with(['/', '~'])
        || word.starts_with("./")
        || word.starts_with("../")
    {
        return Some(RunPlace::here(word));
    }
    // A colon behind brackets belongs to an IPv6 address.
    let search_from = word.find(']').unwrap_or(0);
    let colon = word.get(search_from..).and_then(|rest| rest.find(':')).map(|at| at + search_from);
    if let Some((host, path)) = colon.and_then(|at| word.split_at_checked(at)) {
        let path = path.trim_start_matches(':');
        let is_port = is_number(path);
        if !host.is_empty() && !host.contains('/') {
            // A number is the port of a host; a folder of such a name is HOST:./22.
            let path = if path.is_empty() { "." } else { path };
            return (!is_port).then(|| RunPlace {
                text: word.to_owned(),
                host: Some(host.to_owned()),
                path: path.to_owned(),
            });
        }
    }
    (word.contains('/') || Path::new(word).is_dir()).then(|| RunPlace::here(word))
}

fn parse_amount(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_error| "not a number".to_owned())?;
    if value.is_finite() && value > 0.0 && value <= 1e9 {
        Ok(value)
    } else {
        Err("not between 0 and 10^9".to_owned())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and checked when parsed"
)]
fn gib(amount: f64) -> Bytes {
    Bytes((amount * 1_073_741_824.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_folder_a_folder_elsewhere_or_a_host() {
        for (word, host, path) in [
            (".", None, "."),
            ("./progress", None, "./progress"),
            ("/data/runs", None, "/data/runs"),
            ("a/b", None, "a/b"),
            ("src", None, "src"),
            ("~/runs", None, "~/runs"),
            ("/data/a:b", None, "/data/a:b"),
            ("gpu03:runs", Some("gpu03"), "runs"),
            ("ada@gpu03:/data/runs", Some("ada@gpu03"), "/data/runs"),
            ("gpu03:", Some("gpu03"), "."),
            ("gpu03:./22", Some("gpu03"), "./22"),
            ("[::1]:runs", Some("[::1]"), "runs"),
        ] {
            let found = place(word).unwrap();
            assert_eq!((found.host.as_deref(), &*found.path), (host, path), "{word}");
        }
        for host in ["gpu03", "gpu[01-16]", "gpu03:22", "[::1]:22", "@gpu"] {
            assert_eq!(place(host), None, "{host}");
        }
    }
}
