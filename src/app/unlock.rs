//! Asks for the passphrases of encrypted private keys at startup.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use crate::app::AppError;
use crate::app::line_prompt::{LineInput, LinePrompt};
use crate::app::prompt_place::PromptPlace;
use gtop_collect::transport::{Target, Transport};
use gtop_ui::StopReason;

/// Attempts per key file, as in ssh.
const MAX_ATTEMPTS: usize = 3;

/// Asks for the passphrase of each encrypted key that the targets need. An empty line skips a key, Ctrl-D all.
pub(super) async fn unlock_keys(
    transport: &Transport,
    targets: &[Target],
    out: &mut impl Write,
) -> Result<(), AppError> {
    let Some(place) = PromptPlace::at_start() else { return Ok(()) };
    for file in transport.locked_keys(targets).await {
        for _ in 0..MAX_ATTEMPTS {
            let prompt = format!("Passphrase of {} (empty to skip): ", file.display());
            let prompt_line = LinePrompt { prompt, is_shown: false };
            let passphrase = match prompt_line.ask(&place, &AtomicBool::new(false), out)? {
                LineInput::Line(passphrase) if passphrase.expose().is_empty() => break,
                LineInput::Line(passphrase) => passphrase,
                LineInput::End => return Ok(()),
                LineInput::Interrupt => return Err(StopReason::Interrupted.into()),
            };
            match transport.unlock(&file, passphrase).await {
                Ok(()) => break,
                Err(_wrong) => writeln!(out, "gtop: wrong passphrase for {}", file.display())?,
            }
        }
    }
    Ok(())
}
