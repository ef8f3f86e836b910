//! Options of printed snapshots and of files written meanwhile.

use std::path::PathBuf;

use clap::Args;

use crate::cli::KeepOptions;
use crate::export::{DeviceKey, OutputField};
use gtop_fleet::query::Filter;

/// Options of printed snapshots.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct PrintOptions {
    /// Print one complete snapshot and exit; the default if output is not a terminal, or TERM=dumb
    #[arg(short = '1', long)]
    pub once: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Print as CSV (RFC 4180), a row per device
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print each problem once: its nodes, since when, what to do, and the command that drains the nodes
    #[arg(long, conflicts_with_all = ["once", "json", "csv"])]
    pub problems: bool,
    /// Print times as spreadsheets read them, with --csv: 2026-11-24 14:05:00.123
    #[arg(long)]
    pub spreadsheet: bool,
    /// Print only these fields of each device, with --csv or --json; gtop fields lists them
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = OutputField::from_name)]
    pub fields: Vec<OutputField>,
    /// Show only what matches FILTER, in the syntax of / on the screen: 'util<10 user=ada'; see docs/filter.md
    #[arg(long, value_name = "FILTER", value_parser = Filter::new, default_value = "", hide_default_value = true)]
    pub filter: Filter,
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
pub(crate) struct OutputOptions {
    /// What is printed
    #[command(flatten)]
    pub print: PrintOptions,
    /// Print the JSON Schema of the --json output and exit
    #[arg(long)]
    pub json_schema: bool,
    /// Keep printing, one snapshot per interval, with --json or --csv
    #[arg(long, conflicts_with = "once")]
    pub watch: bool,
    /// Print to each program that connects to the socket on standard input; end when the last one disconnects
    #[arg(long, hide = true, requires = "watch", requires = "json")]
    pub feed: bool,
    /// Also append utilization and memory of every device to FILE, in the format of rntop
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write to the --output file at every Nth refresh, beginning with the first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 6,
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "output"
    )]
    pub output_every: u32,
    /// Record to FILE as well; the screen can go back in it
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub record: Option<PathBuf>,
    /// What is kept
    #[command(flatten)]
    pub keep: KeepOptions,
}

impl PrintOptions {
    /// Returns the columns of CSV.
    pub(crate) fn columns(&self) -> Vec<OutputField> {
        if !self.fields.is_empty() {
            return self.fields.clone();
        }
        let command = self.commands.then_some(OutputField::Key(DeviceKey::Command));
        OutputField::defaults().into_iter().chain(command).collect()
    }
}

impl OutputOptions {
    /// Returns an error message if an option needs another one.
    pub(super) fn missing_option(&self) -> Option<&'static str> {
        let PrintOptions {
            once,
            json,
            csv,
            problems,
            spreadsheet,
            fields,
            commands,
            anonymize,
            filter: _,
        } = &self.print;
        let (once, json, csv) = (*once, *json, *csv);
        let is_table = !json && !csv;
        let has_commands = fields.iter().any(|field| field.is_command());
        let has_rows = csv || (json && !fields.is_empty());
        let is_screen = is_table && !once && !problems;
        [
            (self.watch && is_table, "--watch requires --json or --csv"),
            (
                self.keep.is_set() && self.record.is_none(),
                "--keep, --max-size and --every need a recording: --record FILE, or gtop record -w FILE",
            ),
            (*spreadsheet && !csv, "--spreadsheet requires --csv"),
            (!fields.is_empty() && is_table, "--fields requires --csv or --json"),
            (*commands && !has_rows, "--commands requires --csv, or --json with --fields"),
            (
                has_commands && !*commands,
                "command lines may hold secrets; add --commands to print them",
            ),
            (
                *anonymize && is_screen,
                "--anonymize requires --once, --problems, --json or --csv; the screen shows names",
            ),
        ]
        .into_iter()
        .find_map(|(is_missing, message)| is_missing.then_some(message))
    }
}
