//! Modal dialogs: while one is open, it receives every key.

use crate::ui::RenderContext;
use crate::ui::action::{CommonAction, NodeReply, NodeRequest, ViewAction, ViewEffect};
use crate::ui::chart_metric::ChartMetric;
use crate::ui::dialog::setup::{Setup, SetupEvent};
use crate::ui::dialog::signal::{SignalDialog, SignalDialogEffect, SignalReply};
use crate::ui::input::Key;
use crate::ui::views::{node, processes};
use crate::ui::widgets::line::Line;
use crate::ui::widgets::menu::{Menu, MenuEvent};

pub(crate) mod setup;
pub(crate) mod signal;

#[derive(Clone, Debug)]
pub enum Dialog {
    /// The sort menu.
    Sort(Menu<&'static str>),
    /// The setup screen.
    Setup(Setup),
    /// The menu of charts in the node view.
    Charts(Menu<ChartMetric>),
    /// The sort menu of processes, in which a capital letter sorts in reverse.
    SortProcesses(Menu<&'static str>),
    /// The dialog that selects a signal and asks for confirmation.
    Signal(Box<SignalDialog>),
}

/// The effect of a key or a reply on a dialog.
#[derive(Debug)]
pub enum DialogEffect {
    /// The dialog stays open.
    KeepOpen,
    /// The dialog closes.
    Close,
    /// The dialog stays open; the setting with this name gets this value.
    SetSetting(&'static str, String),
    /// The dialog closes, and the action is performed.
    Common(CommonAction),
    /// The dialog closes, and the action of one view is performed.
    View(ViewAction),
    /// The dialog stays open and waits for the replies.
    RequestNodes(Vec<NodeRequest>),
    /// The dialog closes with this effect.
    Finish(ViewEffect),
}

impl Dialog {
    pub fn on_key(&mut self, _context: RenderContext<'_>, key: Key) -> DialogEffect {
        match self {
            Self::Sort(menu) => match menu.on_key(key) {
                MenuEvent::Pending => DialogEffect::KeepOpen,
                MenuEvent::Closed => DialogEffect::Close,
                MenuEvent::Selected(column) => DialogEffect::Common(CommonAction::SortBy(column)),
            },
            Self::Setup(setup) => match setup.on_key(key) {
                SetupEvent::Nothing => DialogEffect::KeepOpen,
                SetupEvent::Closed => DialogEffect::Close,
                SetupEvent::Change(name, value) => DialogEffect::SetSetting(name, value),
            },
            Self::Charts(menu) => match menu.on_key(key) {
                MenuEvent::Pending => DialogEffect::KeepOpen,
                MenuEvent::Closed => DialogEffect::Close,
                MenuEvent::Selected(metric) => {
                    DialogEffect::View(ViewAction::Node(node::Action::ToggleMetric(metric)))
                }
            },
            Self::SortProcesses(menu) => {
                let is_inverted = matches!(key, Key::Letter(letter) if letter.is_ascii_uppercase());
                let key = match key {
                    Key::Letter(letter) => Key::Letter(letter.to_ascii_lowercase()),
                    Key::Control(_)
                    | Key::Alt(_)
                    | Key::Function(_)
                    | Key::Named(_)
                    | Key::Shift(_) => key,
                };
                let sort =
                    |column| ViewAction::Processes(processes::Action::Sort { column, is_inverted });
                match menu.on_key(key) {
                    MenuEvent::Pending => DialogEffect::KeepOpen,
                    MenuEvent::Closed => DialogEffect::Close,
                    MenuEvent::Selected(column) => DialogEffect::View(sort(column)),
                }
            }
            Self::Signal(dialog) => match dialog.on_key(key) {
                SignalDialogEffect::Stay => DialogEffect::KeepOpen,
                SignalDialogEffect::Close => DialogEffect::Close,
                SignalDialogEffect::Send(requests) => DialogEffect::RequestNodes(requests),
            },
        }
    }

    /// Handles the reply of a node; returns `None` if the dialog did not request it.
    pub fn on_reply(&mut self, reply: &NodeReply) -> Option<DialogEffect> {
        let Self::Signal(dialog) = self else { return None };
        match dialog.on_reply(reply) {
            SignalReply::Unrelated => None,
            SignalReply::Pending => Some(DialogEffect::KeepOpen),
            SignalReply::AllSent(message) => {
                Some(DialogEffect::Finish(ViewEffect::Message(message)))
            }
        }
    }

    /// Draws the dialog below a horizontal rule.
    pub(crate) fn lines(
        &self,
        context: RenderContext<'_>,
        width: u16,
        max_lines: usize,
    ) -> Vec<Line> {
        let room = max_lines.saturating_sub(1);
        let mut lines = vec![Line::new().rule(width)];
        match self {
            Self::Sort(menu) | Self::SortProcesses(menu) => {
                lines.extend(menu.lines(width, room.min(menu.height())));
            }
            Self::Setup(setup) => lines.extend(setup.lines(width, room)),
            Self::Charts(menu) => lines.extend(menu.lines(width, room.min(menu.height()))),
            Self::Signal(dialog) => {
                lines.extend(dialog.lines(context, width, room.min(dialog.height())));
            }
        }
        lines.truncate(max_lines);
        lines
    }

    /// Returns the key hints of the dialog.
    pub fn hints(&self) -> Vec<(String, &'static str)> {
        let hints: &[(&str, &'static str)] = match self {
            Self::Sort(_) => &[("↑ ↓", "move"), ("Enter", "choose"), ("Esc", "close")],
            Self::Setup(setup) => setup.hints(),
            Self::Charts(_) => &[("↑ ↓", "move"), ("Enter", "toggle"), ("Esc", "close")],
            Self::SortProcesses(_) => {
                &[("↑ ↓", "move"), ("Enter", "choose"), ("uppercase", "reverse"), ("Esc", "close")]
            }
            Self::Signal(dialog) => dialog.hints(),
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}
