//! What a frame shows besides the fleet.

use std::time::Duration;

use crate::dialog::Dialog;
use crate::filter_prompt::FilterPrompt;
use crate::time_prompt::TimePrompt;
use crate::timeline::Timeline;
use crate::widgets::line::Line;
use gtop_model::RecorderState;

/// What a frame shows besides the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenState<'a> {
    /// The title: what is watched.
    pub title: &'a str,
    /// The sampling interval of the nodes.
    pub interval: Duration,
    /// How long the display has been paused; `None` if it is live.
    pub frozen: Option<Duration>,
    /// The focus: how often its node is sampled, and what that costs.
    pub focus: Option<&'a str>,
    /// What is played, and its position; `None` if the fleet is live.
    pub timeline: Option<&'a Timeline>,
    /// The recorder of the live fleet, if it is recorded.
    pub recorder: Option<&'a RecorderState>,
    /// A message shown once.
    pub message: Option<&'a str>,
    /// The key hints of the footer: key and meaning.
    pub hints: &'a [(String, &'a str)],
    /// Shown instead of the view.
    pub help: Option<&'a [Line]>,
    /// The filter prompt, if open.
    pub(crate) filter_prompt: Option<&'a FilterPrompt>,
    /// The prompt for a time of the recording, if open.
    pub(crate) time_prompt: Option<&'a TimePrompt>,
    /// The dialog in front of the view, if open.
    pub dialog: Option<&'a Dialog>,
}
