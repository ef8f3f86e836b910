//! The options of recordings: `gtop record`, `gtop replay`, and `--record` beside the screen.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{
    Cli, CliCommand, HOST_HELP, JobOptions, KeepOptions, NodeOptions, PrintOptions, SettingArgs,
};

/// Options of `gtop record`.
#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// The file to record to; an existing recording is continued
    #[arg(short = 'w', long, value_name = "FILE", required = true)]
    pub write: PathBuf,
    /// What is watched
    #[command(flatten)]
    pub watched: WatchOptions,
    /// What is kept
    #[command(flatten)]
    pub keep: KeepOptions,
}

/// What is watched, for a subcommand.
#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// The nodes to watch
    #[arg(value_name = "HOST", help = HOST_HELP)]
    hosts: Vec<String>,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    jobs: JobOptions,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Options of `gtop replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// Recordings, each with its older parts; several are merged; default: that of the setting record = "auto"
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Start at this time, or print its picture: 14:05, -3m (before the end), 2026-11-24 14:05, ISO 8601
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    #[command(flatten)]
    print: PrintOptions,
    #[command(flatten)]
    settings: SettingArgs,
}

impl Cli {
    /// Moves the options that a subcommand shares with watching to where watching has them.
    pub(super) fn lift_shared_options(&mut self) {
        let watched = match &mut self.command {
            Some(CliCommand::Record(options)) => {
                self.output.record = Some(options.write.clone());
                self.output.keep = options.keep.clone();
                &mut options.watched
            }
            Some(CliCommand::Serve(options)) => &mut options.watched,
            Some(CliCommand::Login(options)) => {
                self.hosts.append(&mut options.hosts);
                self.nodes.add(&mut options.nodes);
                self.jobs.add(&mut options.jobs);
                return;
            }
            Some(CliCommand::Report(options)) => {
                options.note_holders();
                self.hosts.append(&mut options.take_hosts());
                self.nodes.add(&mut options.nodes);
                self.jobs.add(&mut options.jobs);
                self.settings.add(&mut options.settings);
                return;
            }
            Some(CliCommand::Replay(options)) => {
                self.output.print = std::mem::take(&mut options.print);
                self.settings.add(&mut options.settings);
                return;
            }
            _ => return,
        };
        self.hosts.append(&mut watched.hosts);
        self.nodes.add(&mut watched.nodes);
        self.jobs.add(&mut watched.jobs);
        self.settings.add(&mut watched.settings);
    }
}
