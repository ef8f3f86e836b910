//! `gtop config`: creates, checks and shows the configuration.

use std::io::Write;

use crate::app::configuration::{SettingsError, apply_settings, check_settings, node_groups};
use crate::app::{AppError, ExitReason};
use crate::cli::{Cli, ConfigAction};
use crate::config::{self, ConfigPaths, Settings};
use crate::setting_table::{ALL_NODES, NodeSettings};
use gtop_model::nodeset;

/// Runs a `gtop config` subcommand.
pub(super) fn run(
    action: ConfigAction,
    mut cli: Cli,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let (paths, settings) = apply_settings(&mut cli)?;
    let paths = paths.ok_or(SettingsError::NoHome);
    match action {
        ConfigAction::Init => {
            let path = paths?.create_config(&config::init_text(settings.declared))?;
            writeln!(out, "created {}; every setting in it is commented out", path.display())?;
        }
        ConfigAction::Path => writeln!(out, "{}", paths?.config().display())?,
        // Options and variables are settings, too.
        ConfigAction::Show => out.write_all(config::show_text(&settings).as_bytes())?,
        ConfigAction::Check => return check(&paths?, &cli, &settings, out),
    }
    Ok(ExitReason::Done)
}

fn check(
    paths: &ConfigPaths,
    cli: &Cli,
    settings: &Settings,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    for problem in &settings.problems {
        writeln!(out, "{problem}")?;
    }
    for note in settings.hints.iter().chain(&settings.notes) {
        writeln!(out, "note: {note}")?;
    }
    let cycles = nodeset::find_cycles(&settings.groups).into_iter();
    let cycles = cycles.map(|cycle| format!("{}: [groups]: {cycle}", paths.config().display()));
    let conflict = check_settings(cli, settings).err().map(|error| error.to_string());
    let errors: Vec<String> = cycles.chain(bad_node_sets(settings)).chain(conflict).collect();
    for error in &errors {
        writeln!(out, "{error}")?;
    }
    if !settings.problems.is_empty() || !errors.is_empty() {
        return Ok(ExitReason::Failed);
    }
    for path in [paths.config(), paths.setup()] {
        let state = if path.exists() { "no errors" } else { "does not exist" };
        writeln!(out, "{}: {state}", path.display())?;
    }
    Ok(ExitReason::Done)
}

/// Returns what is wrong with the node sets among the settings, with the origin of each.
fn bad_node_sets(settings: &Settings) -> Vec<String> {
    let groups = node_groups(settings);
    let NodeSettings { hosts, exclude, sudo, .. } = settings.read();
    let mut wrong = Vec::new();
    for given in [hosts, exclude, sudo] {
        let place = format!("{}: {}", given.origin, given.name);
        let sets = given.value.iter().filter(|set| *set != ALL_NODES);
        let errors = sets.filter_map(|set| nodeset::expand_with(set, &groups).err());
        wrong.extend(errors.map(|error| format!("{place}: {error:#}")));
    }
    wrong
}
