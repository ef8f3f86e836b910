//! The arguments of the command, for a program that uses the library.

use std::ffi::OsString;

use crate::app::env::Env;
use crate::app::{AppError, check_settings, load_settings, targets, watch};
use crate::cli::{self, Cli};
use crate::watch::Watcher;

/// Starts watching what these arguments of the command name; an error is a sentence for a person.
pub(crate) fn watch_args(args: Vec<OsString>) -> Result<Watcher, String> {
    let args = std::iter::once(OsString::from("gtop")).chain(args);
    let cli = Cli::parse_args(args).map_err(|error| {
        let text = cli::error_text(&error).unwrap_or_else(|| error.to_string());
        text.strip_prefix("gtop: ").unwrap_or(&text).trim_end().to_owned()
    })?;
    start(cli).map_err(|error| error.to_string())
}

fn start(mut cli: Cli) -> Result<Watcher, AppError> {
    let (paths, settings) = load_settings(&cli)?;
    cli.apply_settings(&settings);
    check_settings(&cli, &settings)?;
    targets::check_user_option(&cli)?;
    let env = Env::for_library(cli, paths, settings)?;
    let (discovery, _) = watch::discovery(&env)?;
    let options = env.monitor_options();
    Ok(Watcher::start(env.runtime, env.transport, discovery, options, env.clock)?)
}
