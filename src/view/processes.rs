//! Processes: processes everywhere, or in one place.

use crate::view::Scene;
use crate::view::line::{Line, Tone};
use crate::view::navigation::Navigation;
use crate::view::outcome::{Command, Outcome, Reply};

/// Where one is among them.
#[derive(Clone, Debug, Default)]
pub struct Place {}

/// What only this view understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {}

/// Does what was asked.
pub(crate) fn act(_scene: Scene<'_>, _navigation: &mut Navigation, command: &Command) -> Outcome {
    match command {
        Command::Move(_)
        | Command::Open
        | Command::Back
        | Command::Click(_)
        | Command::SortMenu
        | Command::SortBy(_)
        | Command::SortNext
        | Command::SortPrevious
        | Command::Invert => Outcome::Unused,
    }
}

/// Does what only this view understands.
pub(crate) fn act_own(_scene: Scene<'_>, _navigation: &mut Navigation, own: Own) -> Outcome {
    match own {}
}

/// Returns the view's lines.
pub(crate) fn lines(
    scene: Scene<'_>,
    _navigation: &mut Navigation,
    width: u16,
    _height: usize,
) -> Vec<Line> {
    let count = scene.picture.count();
    vec![Line::of(format!("{count} nodes"), Tone::Faint).cut(width)]
}

/// Takes an answer of a node.
pub fn take(_scene: Scene<'_>, _navigation: &mut Navigation, reply: &Reply) -> Outcome {
    match &reply.answer {
        Ok(_) => Outcome::Nothing,
        Err(error) => Outcome::Say(format!("{}: {error}", reply.errand.node)),
    }
}
