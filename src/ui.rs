//! The terminal UI: the event loop, key bindings, views, and the rendering of lines into cells.
//!
//! It does not know how nodes are reached or what they send: it reads fleet snapshots and sends [`UiRequest`]s.
//! Views decide what a line means; colours and glyphs belong to the theme. Only `event_loop`, `screen` and the
//! modules that draw on the terminal depend on a terminal library.

pub use action::{CommonAction, NodeReply, NodeRequest, ViewAction, ViewEffect};
pub use chart_metric::ChartMetric;
pub use dialog::setup::{Setup, SetupEntry, SetupEvent, SetupPage};
pub use dialog::{Dialog, DialogEffect};
pub use display_options::{Chart, Density, DisplayOptions, Thresholds};
pub use event_loop::{SettingsEvent, SuspendedTask, UiContext, run};
pub use filter_prompt::{FilterPrompt, FilterPromptEvent};
pub use hint::hint;
pub use input::{Click, Key, KeyParseError, NamedKey};
pub use keymap::{Keymap, KeymapError};
pub use navigation::{JobSelection, Navigation};
pub use preferences::{PREFERENCES, UiPreference, preferences, restore_preference};
pub use render::{ScreenState, body_height, on_tick, render_screen, update};
pub use report::report;
pub use screen::{Ui, UiConfig, UiEffect, UiRequest};
pub use signals::{StopReason, StopSignals};
pub use surface::Surface;
pub use terminal::{force_restore_terminal, unblock_terminal};
pub use text::render_text;
pub use theme::{ColourDepth, GlyphSet, Palette, Theme, ThemeOptions};
pub use views::{events, fleet, job, node, processes, users};
pub use widgets::column_spec::{ColumnSpec, TableColumns};
pub use widgets::line::{Line, RowStyle, Span, SpanContent, Symbol, Tone};
pub use widgets::line_editor::LineEditor;
pub use widgets::list::{Movement, Viewport};
pub use widgets::menu::{Menu, MenuEvent};
pub use widgets::number_format::MemoryUnit;

use jiff::tz::TimeZone;

use crate::insight::FleetView;

mod action;
mod background;
mod chart_metric;
mod dialog;
mod display_options;
mod event_loop;
mod filter_prompt;
mod header;
mod hint;
mod input;
mod keyboard;
mod keymap;
mod navigation;
mod node_panel;
mod paint;
mod preferences;
mod process_target;
mod render;
mod report;
mod screen;
mod signals;
mod surface;
mod terminal;
mod text;
mod theme;
mod views;
mod widgets;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Fleet,
    /// One job and its nodes.
    Job,
    Node,
    /// Processes on devices, of all nodes or of one node or job.
    Processes,
    /// Users and the devices they hold.
    Users,
    Events,
}

impl View {
    /// All views, in the order of their number keys.
    pub const ALL: [Self; 6] =
        [Self::Fleet, Self::Job, Self::Node, Self::Processes, Self::Users, Self::Events];

    /// Returns the name in tabs and settings.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Fleet => "Fleet",
            Self::Job => "Job",
            Self::Node => "Node",
            Self::Processes => "Processes",
            Self::Users => "Users",
            Self::Events => "Events",
        }
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
