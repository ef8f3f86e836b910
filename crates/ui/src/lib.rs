//! The terminal UI: the event loop, key bindings, views, and the rendering of lines into cells.
//!
//! It does not know how nodes are reached or what they send: it reads fleet snapshots and sends [`UiRequest`]s.
//! Views decide what a line means; colours and glyphs belong to the theme. Only `event_loop`, `screen` and the
//! modules that draw on the terminal depend on a terminal library.
//!
//! A part of gtop: its interface changes with it.

pub use chart_metric::ChartMetric;
pub use dialog::setup::{Setup, SetupEntry, SetupPage};
pub use display_options::{Chart, Density, DisplayOptions};
pub use draw_pace::RedrawPace;
pub use effect::LoopEffect;
pub use event_loop::{RunFeed, SettingsEvent, UiContext, run};
pub use fleet_source::FleetSource;
pub use handover::SuspendedTask;
pub use input::Key;
pub use key_scheme::KeyScheme;
#[cfg(feature = "testing")]
pub use keymap::{ForeignKey, Here};
pub use keymap::{KEY_TABLE, Keymap};
pub use render_context::RenderContext;
pub use report::report;
pub use request::{NodeReply, NodeRequest, UiPreference, UiRequest};
pub use screen::{Ui, UiConfig};
pub use settings::ScreenSettings;
pub use signals::{StopReason, StopSignals};
pub use surface::Surface;
pub use terminal::{force_restore_terminal, unblock_terminal};
pub use text::render_text;
pub use theme::{ColourDepth, ColourUse, GlyphSet, Palette, Theme, ThemeName};
pub use time_prompt::time_text::{TimeContext, outside, parse_time};
pub use timeline::Timeline;
pub use view::View;
pub use views::{events, fleet, job, node, problems, processes, runs, users};
pub use widgets::column_spec::TableColumns;
pub use widgets::line::{Line, SpanContent, Symbol};
pub use widgets::number_format::MemoryUnit;

mod action;
mod appearance;
mod background;
mod chart_metric;
mod choices;
mod clipboard;
mod device_counts;
mod dialog;
mod display_options;
mod draw_pace;
mod drawn_view;
mod effect;
mod event_loop;
mod filter_prompt;
mod fleet_source;
mod focus;
mod handover;
mod header;
mod help;
mod input;
mod key_scheme;
mod keyboard;
mod keymap;
mod message;
mod navigation;
mod node_panel;
mod overlays;
mod paint;
mod preferences;
mod process_order;
mod process_row;
mod process_target;
mod recording_state;
mod render;
mod render_context;
mod report;
mod request;
mod sampling;
mod screen;
mod screen_state;
mod selection;
mod settings;
mod shown_fleet;
mod signals;
mod surface;
mod terminal;
mod text;
mod theme;
mod theme_choice;
mod time_prompt;
mod timeline;
mod view;
mod view_state;
mod views;
mod widgets;
