//! `gtop replay`: plays recordings on the screen, or prints a picture of them.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::app::automatic_recording::NO_FOLDER;
use crate::app::env::Env;
use crate::app::output_mode::OutputMode;
use crate::app::printer::Printer;
use crate::app::times::{SpanError, parse_option, span_texts};
use crate::app::{AppError, CommandError, ExitReason, automatic_recording, playback, screen};
use crate::cli::ReplayOptions;
use crate::setting_table::IntervalSettings;
use gtop_collect::source::replay::{LostLines, Player, Recordings};
use gtop_local::time::{Clock, Timestamp};
use gtop_ui::outside;

/// Why there is nothing to play without a file.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error("name a recording: there is none of the setting record = \"auto\": {NO_FOLDER}")]
    NoFolder,
    #[error(
        "name a recording: there is no {path}, which gtop writes if record = \"auto\" is set (F2, or \
         config.toml){others}"
    )]
    NotRecorded {
        path: String,
        /// Commands that play the recordings of other hosts, a line each.
        others: String,
    },
}

impl CommandError for ReplayError {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// Plays the files until the user quits, or prints one picture.
pub(super) fn run(
    mut env: Env,
    options: &ReplayOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let files = files(&options.files)?;
    let recordings = Recordings::open(files.iter().map(PathBuf::as_path))?;
    let spans = recordings.spans();
    let (Some((first, _)), Some((_, end))) = (spans.first(), spans.last()) else {
        return Err(SpanError::nothing_in(&files).into());
    };
    let at = options.at.as_deref().map(|text| recorded_time(text, *end, &spans)).transpose()?;
    let title = recordings.title();
    let history_span = env.settings.read::<IntervalSettings>().history;
    if env.output_mode == OutputMode::Screen {
        let from = at.unwrap_or(*first);
        let (player, handle) = Player::new(recordings, from, None, true, history_span);
        let (source, commands) = playback::start(player, handle)?;
        let screen = Box::pin(screen::run_replay(&env, title, source, commands));
        return Ok(env.runtime.block_on(screen)?);
    }
    let at = at.unwrap_or(*end);
    env.clock = Clock::fixed(at);
    let (fleet, missing) = recordings.picture_at(at, history_span);
    print_losses(&recordings, &missing, err)?;
    Ok(Printer::new(&env, &title).print_picture(&fleet, out)?)
}

/// Returns the files to play: those that are named, or the automatic recording.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, ReplayError> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let path = automatic_recording::path().ok_or(ReplayError::NoFolder)?;
    if path.exists() {
        return Ok(vec![path]);
    }
    let others = automatic_recording::all_paths();
    let others = others.iter().map(|path| format!("\n  gtop replay {}", path.display()));
    Err(ReplayError::NotRecorded { path: path.display().to_string(), others: others.collect() })
}

/// Prints what of recordings cannot be played, and what could not be read.
pub(super) fn print_losses(
    recordings: &Recordings,
    missing: &LostLines,
    err: &mut impl Write,
) -> io::Result<()> {
    let mut losses = recordings.loss().into_iter().chain(missing.text());
    losses.try_for_each(|loss| writeln!(err, "gtop: {loss}"))
}

/// Returns the time that `--at` means; an error that names what is recorded if that is before or after it.
fn recorded_time(
    text: &str,
    end: Timestamp,
    spans: &[(Timestamp, Timestamp)],
) -> Result<Timestamp, SpanError> {
    let at = parse_option("--at", text, end, spans)?;
    match outside(at, spans) {
        None => Ok(at),
        Some(_) => Err(SpanError::NotRecorded("--at", text.to_owned(), span_texts(spans))),
    }
}
