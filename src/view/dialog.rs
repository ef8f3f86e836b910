//! Modal dialogs: while one is open, it receives every key.

use crate::view::action::{CommonAction, NodeReply, NodeRequest, ViewAction, ViewEffect};
use crate::view::input::Key;
use crate::view::line::Line;
use crate::view::menu::{Menu, MenuEvent};
use crate::view::processes::signal::{SignalDialog, SignalDialogEffect, SignalReply};
use crate::view::setup::{Setup, SetupEvent};
use crate::view::{RenderContext, node, processes};

/// A question.
#[derive(Clone, Debug)]
pub enum Dialog {
    /// By which column are rows sorted?
    Sort(Menu<&'static str>),
    /// How is everything to be?
    Setup(Setup),
    /// What is charted of each device of a node?
    Charts(Menu<node::ChartMetric>),
    /// The same of processes, where a capital letter sorts the other way round.
    SortProcesses(Menu<&'static str>),
    /// Which signal is sent, and really?
    Signal(Box<SignalDialog>),
}

/// The effect of a key.
#[derive(Debug)]
pub enum DialogEffect {
    /// Stays open.
    KeepOpen,
    /// It is over.
    Close,
    /// It is still open, and this is to be set to that.
    SetSetting(&'static str, String),
    /// It is over, and this is to be done.
    Common(CommonAction),
    /// The same for one view.
    View(ViewAction),
    /// It is still open, and waits for the answers to these.
    RequestNodes(Vec<NodeRequest>),
    /// It is over, with this outcome.
    Finish(ViewEffect),
}

impl Dialog {
    pub fn press(&mut self, _scene: RenderContext<'_>, key: Key) -> DialogEffect {
        match self {
            Self::Sort(menu) => match menu.press(key) {
                MenuEvent::Pending => DialogEffect::KeepOpen,
                MenuEvent::Closed => DialogEffect::Close,
                MenuEvent::Selected(column) => DialogEffect::Common(CommonAction::SortBy(column)),
            },
            Self::Setup(setup) => match setup.press(key) {
                SetupEvent::Nothing => DialogEffect::KeepOpen,
                SetupEvent::Closed => DialogEffect::Close,
                SetupEvent::Change(name, value) => DialogEffect::SetSetting(name, value),
            },
            Self::Charts(menu) => match menu.press(key) {
                MenuEvent::Pending => DialogEffect::KeepOpen,
                MenuEvent::Closed => DialogEffect::Close,
                MenuEvent::Selected(metric) => {
                    DialogEffect::View(ViewAction::Node(node::Action::ChartMetric(metric)))
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
                match menu.press(key) {
                    MenuEvent::Pending => DialogEffect::KeepOpen,
                    MenuEvent::Closed => DialogEffect::Close,
                    MenuEvent::Selected(column) => DialogEffect::View(sort(column)),
                }
            }
            Self::Signal(question) => match question.press(key) {
                SignalDialogEffect::Stay => DialogEffect::KeepOpen,
                SignalDialogEffect::Close => DialogEffect::Close,
                SignalDialogEffect::Send(errands) => DialogEffect::RequestNodes(errands),
            },
        }
    }

    /// Takes an answer of a node; none when it did not ask for it.
    pub fn take(&mut self, reply: &NodeReply) -> Option<DialogEffect> {
        let Self::Signal(question) = self else { return None };
        match question.take(reply) {
            SignalReply::Unrelated => None,
            SignalReply::Pending => Some(DialogEffect::KeepOpen),
            SignalReply::AllSent(words) => Some(DialogEffect::Finish(ViewEffect::Message(words))),
        }
    }

    /// Returns its lines, a rule on top.
    pub(crate) fn lines(&self, scene: RenderContext<'_>, width: u16, most: usize) -> Vec<Line> {
        let room = most.saturating_sub(1);
        let mut lines = vec![Line::new().rule(width)];
        match self {
            Self::Sort(menu) | Self::SortProcesses(menu) => {
                lines.extend(menu.lines(width, room.min(menu.height())));
            }
            Self::Setup(setup) => lines.extend(setup.lines(width, room)),
            Self::Charts(menu) => lines.extend(menu.lines(width, room.min(menu.height()))),
            Self::Signal(question) => {
                lines.extend(question.lines(scene, width, room.min(question.height())));
            }
        }
        lines.truncate(most);
        lines
    }

    /// Returns the keys that do something here.
    pub fn hints(&self) -> Vec<(String, &'static str)> {
        let hints: &[(&str, &'static str)] = match self {
            Self::Sort(_) => &[("↑ ↓", "move"), ("Enter", "choose"), ("Esc", "close")],
            Self::Setup(setup) => setup.hints(),
            Self::Charts(_) => &[("↑ ↓", "move"), ("Enter", "toggle"), ("Esc", "close")],
            Self::SortProcesses(_) => {
                &[("↑ ↓", "move"), ("Enter", "choose"), ("uppercase", "reverse"), ("Esc", "close")]
            }
            Self::Signal(question) => question.hints(),
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}
