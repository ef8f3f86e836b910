//! The arguments of the command, for a program that uses the library.

use std::error::Error;
use std::ffi::OsString;
use std::thread;

use crate::app::env::Env;
use crate::app::{AppError, watch};
use crate::cli::{self, Cli};
use crate::watch::Watcher;

/// Starts watching what these arguments of the command name.
pub(crate) fn watch_args(args: Vec<OsString>) -> Result<Watcher, Box<dyn Error + Send + Sync>> {
    let args = std::iter::once(OsString::from("gtop")).chain(args);
    let cli = Cli::parse_args(args).map_err(|error| {
        let text = cli::error_text(&error).unwrap_or_else(|| error.to_string());
        text.strip_prefix("gtop: ").unwrap_or(&text).trim_end().to_owned()
    })?;
    // On a thread of its own, because the caller may be in a runtime, in which no other one can be run or dropped.
    let started = thread::scope(|scope| scope.spawn(|| start(cli)).join());
    Ok(started.map_err(|_panic| "gtop panicked".to_owned())??)
}

fn start(cli: Cli) -> Result<Watcher, AppError> {
    let env = Env::for_library(cli)?;
    let (discovery, title) = watch::discovery(&env)?;
    let options = env.monitor_options();
    Ok(Watcher::start(env.transport, discovery, title, options, env.clock)?)
}
