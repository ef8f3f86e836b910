//! Options of `gtop login`.

use std::time::Duration;

use clap::Args;

use crate::cli::keep::parse_duration;
use crate::cli::{HOST_HELP, JobOptions, NodeOptions};

/// How long a connection is kept after its last use.
pub(crate) const DEFAULT_PERSIST: Duration = Duration::from_secs(8 * 3600);

/// Options of `gtop login`.
#[derive(Debug, Args)]
pub(crate) struct LoginOptions {
    /// The nodes to log in to
    #[arg(value_name = "HOST", help = HOST_HELP)]
    pub(super) hosts: Vec<String>,
    /// Keep each connection open for this time after its last use: 90m, 12h, 7d; default: 8h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "close")]
    persist: Option<Duration>,
    /// End the connections that gtop login has opened to the nodes; without nodes, all of them
    #[arg(long)]
    pub close: bool,
    /// Node options
    #[command(flatten)]
    pub(super) nodes: NodeOptions,
    /// Options that select jobs
    #[command(flatten)]
    pub(super) jobs: JobOptions,
}

impl LoginOptions {
    /// Returns how long a connection is kept after its last use.
    pub(crate) fn persist(&self) -> Duration {
        self.persist.unwrap_or(DEFAULT_PERSIST)
    }
}
