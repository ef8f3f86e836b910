//! The options of `gtop export`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::SpanOptions;
use crate::cli::keep::parse_duration;
use crate::export::SampleFormat;

/// Options of `gtop export`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct ExportOptions {
    /// Recordings, each with its older parts; several are merged
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The file to write; default: standard output
    #[arg(short = 'w', long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// The format; default: by the extension of the file, or csv
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<TableFormat>,
    /// A row per device and time, with a column per field; default: a row per value
    #[arg(long)]
    pub wide: bool,
    /// The fields, by name or id, or all for all numbers of devices; gtop fields lists them
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub fields: Vec<String>,
    #[command(flatten)]
    pub span: SpanOptions,
    /// Write at most one sample per device every TIME: 10s, 1m; default: each sample
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub every: Option<Duration>,
    /// Write times as spreadsheets read them, in this machine's time zone: 2026-11-24 14:05:00.123
    #[arg(long)]
    pub spreadsheet: bool,
    /// Replace names of users, hosts, jobs and devices
    #[arg(long)]
    pub anonymize: bool,
    /// Replace a file that exists
    #[arg(long, requires = "write")]
    pub force: bool,
}

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// One JSON object per line
    #[value(alias = "jsonl")]
    Ndjson,
    /// Comma-separated values
    Csv,
    /// Apache Parquet, with types
    Parquet,
}

impl ExportOptions {
    /// Returns the format; `None` if it is not built in.
    pub(crate) fn format(&self) -> Option<SampleFormat> {
        match (self.format, self.extension().as_deref()) {
            (Some(TableFormat::Parquet), _) | (None, Some("parquet")) => SampleFormat::PARQUET,
            (Some(TableFormat::Ndjson), _) | (None, Some("ndjson" | "jsonl" | "json")) => {
                Some(SampleFormat::Ndjson)
            }
            (Some(TableFormat::Csv) | None, _) => Some(SampleFormat::Csv),
        }
    }

    /// Returns the file and its extension if that is one of compressed files.
    pub(crate) fn compressed(&self) -> Option<(&Path, String)> {
        let extension = self.extension()?;
        let is_compressed = ["gz", "zst", "bz2", "xz", "zip"].contains(&&*extension);
        self.write.as_deref().zip(Some(extension).filter(|_| is_compressed))
    }

    fn extension(&self) -> Option<String> {
        let extension = self.write.as_ref()?.extension()?.to_str()?;
        Some(extension.to_ascii_lowercase())
    }
}
