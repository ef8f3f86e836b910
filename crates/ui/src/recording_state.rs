//! What is played of a recording, and what the recorder of the live fleet has written.

use std::sync::Arc;

use crate::timeline::Timeline;
use crate::views::events;
use gtop_fleet::insight::FleetView;
use gtop_local::time::Timestamp;
use gtop_model::RecordedBy;

#[derive(Debug, Default)]
pub(crate) struct RecordingState {
    /// What is played, and its position; `None` if the fleet is live.
    pub(crate) timeline: Option<Timeline>,
    /// Who records the live fleet.
    pub(crate) recorded: RecordedBy,
    /// The events and the snapshot of the live fleet when the user left it for its recording.
    pub(crate) left_live: Option<(events::State, FleetView)>,
    /// What is missing in recordings, as it was shown last.
    shown_loss: Option<Arc<str>>,
}

impl RecordingState {
    /// Returns true if a recording is shown.
    pub(crate) const fn is_shown(&self) -> bool {
        self.timeline.is_some()
    }

    /// Returns true if there is a recording to play.
    pub(crate) const fn exists(&self) -> bool {
        self.is_shown() || self.recorded.recorder().is_some()
    }

    /// Returns true if an earlier time is shown of a recording that is still written.
    pub(crate) fn is_behind(&self) -> bool {
        self.timeline.as_ref().is_some_and(|timeline| timeline.playback.is_live)
    }

    /// Returns the recorded time that can be played.
    pub(crate) fn spans(&self) -> Vec<(Timestamp, Timestamp)> {
        match (&self.timeline, self.recorded.recorder()) {
            (Some(timeline), _) => timeline.playback.spans.to_vec(),
            (None, Some(recorder)) => recorder.from.zip(recorder.to).into_iter().collect(),
            (None, None) => Vec::new(),
        }
    }

    /// Returns true if the player has jumped since the state that is shown, or has begun or ended.
    pub(crate) fn has_jumped(&self, timeline: Option<&Timeline>) -> bool {
        let jumps = self.timeline.as_ref().map(|shown| shown.playback.jumps);
        jumps != timeline.map(|next| next.playback.jumps)
    }

    /// Replaces the state of the player. Returns a message: what is missing, or what a jump has reached.
    pub(crate) fn set_timeline(&mut self, timeline: Option<Timeline>) -> Option<String> {
        let has_jumped = self.has_jumped(timeline.as_ref());
        self.timeline = timeline;
        let playback = &self.timeline.as_ref()?.playback;
        if playback.loss.is_some() && playback.loss != self.shown_loss {
            self.shown_loss.clone_from(&playback.loss);
            return self.shown_loss.as_deref().map(str::to_owned);
        }
        let reached = playback.reached.as_ref().filter(|_| has_jumped);
        reached.map(ToString::to_string)
    }

    /// Replaces who records. Returns a message if the recorder begins to fail, or records again.
    pub(crate) fn set_recorded(&mut self, recorded: RecordedBy) -> Option<String> {
        let before = std::mem::replace(&mut self.recorded, recorded);
        let before = before.recorder().and_then(|state| state.fault.as_ref());
        let after = self.recorded.recorder().and_then(|state| state.fault.as_ref());
        (before != after)
            .then(|| after.map_or_else(|| "recording again".to_owned(), ToString::to_string))
    }
}
