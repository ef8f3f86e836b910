//! Where the screen reads snapshots from: the live fleet, or a recording that is played.

use tokio::sync::watch;

use crate::timeline::Timeline;
use gtop_fleet::{Fleet, FleetReader};
use gtop_local::time::Clock;
use gtop_model::Playback;

/// A fleet and the time it is shown at.
#[derive(Clone, Debug)]
pub struct FleetSource {
    pub fleet: FleetReader,
    /// The time of the fleet; that of a recording may stand, run faster or go back.
    pub clock: Clock,
    /// The state of the player; `None` if the fleet is live.
    pub playback: Option<watch::Receiver<Playback>>,
}

impl FleetSource {
    /// Returns the newest snapshot, and where it is in the recording.
    ///
    /// A player that jumps changes its clock and its state while it replaces the fleet, so they are read together.
    pub(super) fn read(&mut self) -> (Fleet, Option<Timeline>) {
        let fleet = self.fleet.borrow_and_update();
        let timeline = self.playback.as_mut().map(|playback| Timeline {
            playback: playback.borrow_and_update().clone(),
            position: self.clock.now(),
        });
        (fleet.clone(), timeline)
    }
}

/// Waits until a player changes its state; forever if there is none or it has ended.
pub(super) async fn playback_changed(playback: &mut Option<watch::Receiver<Playback>>) {
    if let Some(playback) = playback
        && playback.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
