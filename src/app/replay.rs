//! `gtop replay`: plays recordings on the screen, or prints a picture of them.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::app::env::Env;
use crate::app::output_mode::OutputMode;
use crate::app::printer::Printer;
use crate::app::times::{SpanError, parse_option, span_texts};
use crate::app::{AppError, ExitReason, playback, screen};
use crate::cli::ReplayOptions;
use crate::setting_table::IntervalSettings;
use gtop_collect::source::replay::{LostLines, Player, Recordings};
use gtop_local::time::{Clock, Timestamp};
use gtop_ui::outside;

/// Plays the files until the user quits, or prints one picture.
pub(super) fn run(
    mut env: Env,
    options: &ReplayOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let recordings = Recordings::open(options.files.iter().map(PathBuf::as_path))?;
    let spans = recordings.spans();
    let (Some((first, _)), Some((_, end))) = (spans.first(), spans.last()) else {
        return Err(SpanError::nothing_in(&options.files).into());
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
