//! A question in front of a view, answered by keys before anything else happens.

use crate::view::input::Key;
use crate::view::line::Line;
use crate::view::menu::{Menu, Picked};
use crate::view::outcome::{Command, Deed, Outcome};
use crate::view::setup::{Setup, Turned};
use crate::view::{Scene, node};

/// A question.
#[derive(Clone, Debug)]
pub enum Dialog {
    /// By which column are rows sorted?
    Sort(Menu<&'static str>),
    /// How is everything to be?
    Setup(Setup),
    /// What is charted of each device of a node?
    Charts(Menu<node::Metric>),
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
        }
    }

    /// Returns its lines, a rule on top.
    pub(crate) fn lines(&self, _scene: Scene<'_>, width: u16, most: usize) -> Vec<Line> {
        let room = most.saturating_sub(1);
        let mut lines = vec![Line::new().rule(width)];
        match self {
            Self::Sort(menu) => lines.extend(menu.lines(width, room.min(menu.height()))),
            Self::Setup(setup) => lines.extend(setup.lines(width, room)),
            Self::Charts(menu) => lines.extend(menu.lines(width, room.min(menu.height()))),
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
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}
