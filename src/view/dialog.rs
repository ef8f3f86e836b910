//! A question in front of a view, answered by keys before anything else happens.

use crate::view::input::Key;
use crate::view::line::Line;
use crate::view::menu::{Menu, Picked};
use crate::view::outcome::{Command, Deed, Errand, Outcome, Reply};
use crate::view::processes::signal::{Pressed, SignalBox, Taken};
use crate::view::setup::{Setup, Turned};
use crate::view::{Scene, node, processes};

/// A question.
#[derive(Clone, Debug)]
pub enum Dialog {
    /// By which column are rows sorted?
    Sort(Menu<&'static str>),
    /// How is everything to be?
    Setup(Setup),
    /// What is charted of each device of a node?
    Charts(Menu<node::Metric>),
    /// The same of processes, where a capital letter sorts the other way round.
    SortProcesses(Menu<&'static str>),
    /// Which signal is sent, and really?
    Signal(Box<SignalBox>),
}

/// What a key did to it.
#[derive(Debug)]
pub enum Reaction {
    /// It is still open.
    Stay,
    /// It is over.
    Close,
    /// It is still open, and this is to be set to that.
    Change(&'static str, String),
    /// It is over, and this is to be done.
    Do(Command),
    /// The same for one view.
    Act(Deed),
    /// It is still open, and waits for the answers to these.
    Ask(Vec<Errand>),
    /// It is over, with this outcome.
    End(Outcome),
}

impl Dialog {
    /// Takes a key.
    pub fn press(&mut self, _scene: Scene<'_>, key: Key) -> Reaction {
        match self {
            Self::Sort(menu) => match menu.press(key) {
                Picked::Nothing => Reaction::Stay,
                Picked::Closed => Reaction::Close,
                Picked::Choice(column) => Reaction::Do(Command::SortBy(column)),
            },
            Self::Setup(setup) => match setup.press(key) {
                Turned::Nothing => Reaction::Stay,
                Turned::Closed => Reaction::Close,
                Turned::Change(name, value) => Reaction::Change(name, value),
            },
            Self::Charts(menu) => match menu.press(key) {
                Picked::Nothing => Reaction::Stay,
                Picked::Closed => Reaction::Close,
                Picked::Choice(metric) => Reaction::Act(Deed::Node(node::Own::Metric(metric))),
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
                let sort = |column| Deed::Processes(processes::Own::Sort { column, is_inverted });
                match menu.press(key) {
                    Picked::Nothing => Reaction::Stay,
                    Picked::Closed => Reaction::Close,
                    Picked::Choice(column) => Reaction::Act(sort(column)),
                }
            }
            Self::Signal(question) => match question.press(key) {
                Pressed::Stay => Reaction::Stay,
                Pressed::Close => Reaction::Close,
                Pressed::Send(errands) => Reaction::Ask(errands),
            },
        }
    }

    /// Takes an answer of a node; none when it did not ask for it.
    pub fn take(&mut self, reply: &Reply) -> Option<Reaction> {
        let Self::Signal(question) = self else { return None };
        match question.take(reply) {
            Taken::NotOurs => None,
            Taken::Noted => Some(Reaction::Stay),
            Taken::Over(words) => Some(Reaction::End(Outcome::Say(words))),
        }
    }

    /// Returns its lines, a rule on top.
    pub(crate) fn lines(&self, scene: Scene<'_>, width: u16, most: usize) -> Vec<Line> {
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
            Self::Charts(_) => &[("↑ ↓", "move"), ("Enter", "on or off"), ("Esc", "close")],
            Self::SortProcesses(_) => &[
                ("↑ ↓", "move"),
                ("Enter", "choose"),
                ("capital", "the other way round"),
                ("Esc", "close"),
            ],
            Self::Signal(question) => question.hints(),
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}
