//! The terminal UI: the event loop, key bindings, views, and the rendering of lines into cells.
//!
//! It does not know how nodes are reached or what they send: it reads fleet snapshots and sends [`UiRequest`]s.
//! Views decide what a line means; colours and glyphs belong to the theme. Only `event_loop`, `screen` and the
//! modules that draw on the terminal depend on a terminal library.
//!
//! A part of gtop: its interface changes with it.

pub use action::{NodeReply, NodeRequest, UiPreference, UiRequest};
pub use chart_metric::ChartMetric;
pub use dialog::setup::{Setup, SetupEntry, SetupPage};
pub use display_options::{Chart, Density, DisplayOptions};
pub use effect::Effect;
pub use event_loop::{RunFeed, SettingsEvent, SuspendedTask, UiContext, run};
pub use fleet_source::FleetSource;
pub use input::Key;
pub use key_scheme::KeyScheme;
#[cfg(feature = "testing")]
pub use keymap::{ForeignKey, Here};
pub use keymap::{KEY_TABLE, Keymap};

pub use report::report;
pub use screen::{Ui, UiConfig};
pub use settings::ScreenSettings;
pub use signals::{StopReason, StopSignals};
pub use surface::Surface;
pub use terminal::{force_restore_terminal, unblock_terminal};
pub use text::render_text;
pub use theme::{ColourDepth, ColourUse, GlyphSet, Palette, Theme, ThemeName, ThemeOptions};
pub use time_prompt::time_text::{TimeContext, outside, parse_time};
pub use timeline::Timeline;
pub use views::{events, fleet, job, node, processes, runs, users};
pub use widgets::column_spec::TableColumns;
pub use widgets::line::{Line, SpanContent, Symbol};
pub use widgets::number_format::MemoryUnit;

pub(crate) use action::Action;
pub(crate) use dialog::Dialog;
pub(crate) use filter_prompt::FilterPrompt;
pub(crate) use input::NamedKey;
pub(crate) use time_prompt::TimePrompt;
pub(crate) use widgets::line::{RowStyle, Span, Tone};

use std::time::Duration;

use jiff::tz::TimeZone;

use gtop_fleet::insight::FleetView;
use gtop_model::table;
use gtop_model::{RecorderState, SchedulerWords};

mod action;
mod background;
mod chart_metric;
mod dialog;
mod display_options;
mod draw_pace;
mod effect;
mod event_loop;
mod filter_prompt;
mod fleet_source;
mod focus;
mod header;
mod input;
mod key_scheme;
mod keyboard;
mod keymap;
mod navigation;
mod node_panel;
mod paint;
mod preferences;
mod process_order;
mod process_row;
mod process_target;
mod render;
mod report;
mod screen;
mod selection;
mod settings;
mod shown_fleet;
mod signals;
mod surface;
mod terminal;
mod text;
mod theme;
mod time_prompt;
mod timeline;
mod view_state;
mod views;
mod widgets;

table! {
    /// A page of the screen, in the order of the number keys.
    #[derive(Default)]
    pub enum View {
        /// All nodes.
        #[default]
        Fleet = "Fleet",
        /// One job and its nodes.
        Job = "Job",
        /// One node.
        Node = "Node",
        /// Processes on devices, of all nodes or of one node or job.
        Processes = "Processes",
        /// Users and the devices they hold.
        Users = "Users",
        /// What happened.
        Events = "Events",
        /// Training runs; only if folders of runs are watched.
        Runs = "Runs",
    }
    /// All views, in the order of their number keys.
    pub const ALL;
    /// Returns the name in tabs and settings.
    pub fn title -> &'static str;
}

impl View {
    /// Returns the views that have a tab.
    pub(crate) fn shown(has_runs: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |view| *view != Self::Runs || has_runs)
    }
}

/// The fleet and the options to draw it with.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    pub view: &'a FleetView,
    pub options: &'a DisplayOptions,
    /// The time zone of times of day.
    pub zone: &'a TimeZone,
}

impl RenderContext<'_> {
    /// Returns the words of the scheduler that lists the jobs, or of that of this machine.
    fn scheduler(&self) -> &'static SchedulerWords {
        let list = self.view.fleet.jobs.as_ref();
        list.map_or(self.options.scheduler, |list| &list.scheduler.words)
    }
}

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
