//! Runs players for the screen, each on a thread of its own: of files, or back in what is being recorded.

use std::path::PathBuf;
use std::time::Duration;
use std::{io, thread};

use tokio::runtime;
use tokio::sync::mpsc;

use gtop_collect::source::replay::{PlaybackHandle, Player, Recordings};
use gtop_local::time::Timestamp;
use gtop_model::PlaybackCommand;
use gtop_ui::FleetSource;

/// Starts a player; it ends when the sender of commands is dropped.
pub(super) fn start(
    player: Player,
    handle: PlaybackHandle,
) -> io::Result<(FleetSource, mpsc::Sender<PlaybackCommand>)> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let thread = thread::Builder::new().name("player".to_owned());
    thread.spawn(move || runtime.block_on(player.run()))?;
    let PlaybackHandle { fleet, clock, state, commands } = handle;
    let source = FleetSource { fleet, clock, playback: Some(state) };
    Ok((source, commands))
}

/// Goes back in the recording of a live screen, and returns to now.
pub(super) struct Rewind {
    pub(super) path: PathBuf,
    pub(super) live: FleetSource,
    /// Takes the source that the screen shows next.
    pub(super) sources: mpsc::Sender<FleetSource>,
    pub(super) history_span: Duration,
    /// Commands the player, while the screen does not show now.
    pub(super) player: Option<mpsc::Sender<PlaybackCommand>>,
}

impl Rewind {
    /// Obeys a command; the first one leaves the live screen. An error says why that is not possible.
    pub(super) async fn command(
        &mut self,
        command: PlaybackCommand,
        now: Timestamp,
    ) -> Result<(), String> {
        match (&self.player, command == PlaybackCommand::End) {
            (Some(_), true) => {
                self.player = None;
                self.show(self.live.clone()).await;
            }
            (Some(player), false) => drop(player.send(command).await),
            (None, _) if command == PlaybackCommand::End => {}
            (None, _) => {
                let is_paused = command == PlaybackCommand::TogglePlay;
                let (source, commands) = self.leave_live(now, !is_paused)?;
                if !is_paused {
                    // Fails if the player could not start; the screen then shows nothing new.
                    commands.send(command).await.ok();
                }
                self.player = Some(commands);
                self.show(source).await;
            }
        }
        Ok(())
    }

    async fn show(&self, source: FleetSource) {
        // Fails if the screen has ended.
        self.sources.send(source).await.ok();
    }

    /// Starts a player of what has been recorded so far.
    fn leave_live(
        &self,
        now: Timestamp,
        is_playing: bool,
    ) -> Result<(FleetSource, mpsc::Sender<PlaybackCommand>), String> {
        let recordings =
            Recordings::open([self.path.as_path()]).map_err(|error| error.to_string())?;
        if recordings.end().is_none() {
            return Err("nothing is recorded yet".to_owned());
        }
        let growing = Some(self.path.clone());
        let (player, handle) = Player::new(recordings, now, growing, is_playing, self.history_span);
        start(player, handle).map_err(|error| error.to_string())
    }
}
