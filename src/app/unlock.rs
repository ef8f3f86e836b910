//! Asks for the passphrases of encrypted private keys, at startup or as soon as the nodes are known.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, oneshot};

use crate::app::AppError;
use crate::app::line_prompt::{LineInput, LinePrompt};
use crate::app::prompt_place::PromptPlace;
use crate::app::prompter::PromptOutcome;
use crate::watch::Monitor;
use gtop_collect::transport::{Target, Transport};
use gtop_ui::{StopReason, SuspendedTask};

/// Attempts per key file, as in ssh.
const MAX_ATTEMPTS: usize = 3;

/// Asks for the passphrase of each encrypted key that the targets need. An empty line skips a key, Ctrl-D all.
pub(super) async fn unlock_keys(
    transport: &Transport,
    targets: &[Target],
    out: &mut impl Write,
) -> Result<(), AppError> {
    let Some(place) = PromptPlace::at_start() else { return Ok(()) };
    let files = transport.locked_keys(targets).await;
    match unlock(transport, files, &place, &AtomicBool::new(false), out).await? {
        PromptOutcome::Continue | PromptOutcome::SkipAll => Ok(()),
        PromptOutcome::Interrupted => Err(StopReason::Interrupted.into()),
    }
}

/// Asks for the passphrases as soon as the scheduler has named its nodes, with the screen suspended; connects again to
/// the nodes that did not answer until then. Returns an error if the screen has ended.
pub(super) async fn unlock_on_screen(
    monitor: &Monitor,
    transport: &Transport,
    place: &PromptPlace,
    suspended_tasks: &mpsc::Sender<SuspendedTask>,
) -> Result<(), SendError<SuspendedTask>> {
    let mut rosters = monitor.rosters();
    let Ok(targets) =
        rosters.wait_for(|roster| roster.is_complete()).await.map(|roster| roster.targets.clone())
    else {
        return Ok(());
    };
    let files = transport.locked_keys(&targets).await;
    if files.is_empty() {
        return Ok(());
    }
    let (done_sender, done) = oneshot::channel::<()>();
    let (transport, place) = (transport.clone(), place.clone());
    suspended_tasks
        .send(Box::new(move |is_over| {
            let mut err = io::stderr();
            // A terminal that cannot be read skips all keys.
            drop(Handle::current().block_on(unlock(&transport, files, &place, is_over, &mut err)));
            drop(done_sender);
        }))
        .await?;
    done.await.ok();
    monitor.refresh();
    Ok(())
}

/// Asks for the passphrases of key files.
async fn unlock(
    transport: &Transport,
    files: Vec<PathBuf>,
    place: &PromptPlace,
    is_over: &AtomicBool,
    out: &mut impl Write,
) -> io::Result<PromptOutcome> {
    for file in files {
        for _ in 0..MAX_ATTEMPTS {
            let prompt = format!("Passphrase of {} (empty to skip): ", file.display());
            let prompt_line = LinePrompt { prompt, is_shown: false };
            let passphrase = match prompt_line.ask(place, is_over, out)? {
                LineInput::Line(passphrase) if passphrase.expose().is_empty() => break,
                LineInput::Line(passphrase) => passphrase,
                LineInput::End => return Ok(PromptOutcome::SkipAll),
                LineInput::Interrupt => return Ok(PromptOutcome::Interrupted),
            };
            match transport.unlock(&file, passphrase).await {
                Ok(()) => break,
                Err(_wrong) => writeln!(out, "gtop: wrong passphrase for {}", file.display())?,
            }
        }
    }
    Ok(PromptOutcome::Continue)
}
