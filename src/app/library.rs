//! Watching nodes for a program that uses the library: the same wiring as the command, without a terminal.

use std::ffi::OsString;
use std::time::Duration;

use tokio::time::timeout;

use crate::app::demo::Demo;
use crate::app::discovery::SCHEDULER_TIMEOUT;
use crate::app::env::Env;
use crate::app::monitor::Monitor;
use crate::app::{AppError, check_settings, load_settings, printer, targets, watch};
use crate::cli::{self, Cli};
use gtop_fleet::{Fleet, FleetReader};
use gtop_local::time::Timestamp;

/// A running collection with what it needs. Dropping it ends it.
pub(crate) struct Watcher {
    fleet: FleetReader,
    // Dropped in this order: the sessions end before the simulated nodes they lead to.
    _monitor: Monitor,
    _demo: Option<Demo>,
    env: Env,
}

impl Watcher {
    /// Starts watching what these arguments of the command name; an error is a sentence for a person.
    pub(crate) fn start(args: Vec<OsString>) -> Result<Self, String> {
        let args = std::iter::once(OsString::from("gtop")).chain(args);
        let cli = Cli::parse_args(args).map_err(|error| {
            let text = cli::error_text(&error).unwrap_or_else(|| error.to_string());
            text.strip_prefix("gtop: ").unwrap_or(&text).trim_end().to_owned()
        })?;
        Self::start_cli(cli).map_err(|error| error.to_string())
    }

    fn start_cli(mut cli: Cli) -> Result<Self, AppError> {
        let (paths, settings) = load_settings(&cli)?;
        cli.apply_settings(&settings);
        check_settings(&cli, &settings)?;
        targets::check_user_option(&cli)?;
        let env = Env::for_library(cli, paths, settings)?;
        let (demo, discovery, _) = watch::discovery(&env)?;
        env.runtime.block_on(discovery.wait_for_answer(SCHEDULER_TIMEOUT));
        let monitor = Monitor::start(&env, discovery, None)?;
        Ok(Self { fleet: monitor.fleet(), _monitor: monitor, _demo: demo, env })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    /// Returns the latest snapshot.
    pub(crate) fn fleet(&self) -> Fleet {
        self.fleet.borrow().clone()
    }

    /// Waits until every node has answered or is down, at most for `limit`.
    pub(crate) fn wait_until_complete(&mut self, limit: Duration) {
        let Self { env, fleet, .. } = self;
        let waiting = async { timeout(limit, fleet.wait_for(printer::is_complete)).await };
        // An error means that no more snapshots come: the last one stays.
        drop(env.runtime.block_on(waiting));
    }

    /// Waits for a snapshot that no earlier call has waited for; returns false if none comes any more.
    pub(crate) fn wait_for_next(&mut self) -> bool {
        let Self { env, fleet, .. } = self;
        env.runtime.block_on(fleet.changed()).is_ok()
    }
}
