//! What a frame shows besides the fleet.

use std::time::Duration;

use crate::overlays::Overlays;
use crate::timeline::Timeline;
use crate::view::View;
use gtop_fleet::query::SortOrder;
use gtop_model::RecordedBy;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenState<'a> {
    /// The title: what is watched.
    pub(crate) title: &'a str,
    pub(crate) view: View,
    /// The sort order of the view; `None` if its rows cannot be sorted.
    pub(crate) order: Option<SortOrder>,
    /// The sampling interval of the nodes.
    pub(crate) interval: Duration,
    /// How often the screen shows new data if that is less often than it comes, and one might expect otherwise.
    pub(crate) calmer: Option<Duration>,
    /// How long the display has been paused; `None` if it is live.
    pub(crate) frozen: Option<Duration>,
    /// The focus: how often its node is sampled, and what that costs.
    pub(crate) focus: Option<&'a str>,
    /// What is played, and its position; `None` if the fleet is live.
    pub(crate) timeline: Option<&'a Timeline>,
    /// Who records the live fleet.
    pub(crate) recorded: &'a RecordedBy,
    /// A message shown once.
    pub(crate) message: Option<&'a str>,
    /// The key hints of the footer: key and meaning.
    pub(crate) hints: &'a [(String, &'a str)],
    pub(crate) overlays: &'a Overlays,
}
