//! One node in full.

use crate::view::Scene;
use crate::view::line::{Line, Tone};
use crate::view::navigation::{Navigation, Step};
use crate::view::outcome::{Command, Outcome};

mod devices;
mod host;
pub(crate) mod panel;
mod processes;

/// Where one is in a node.
#[derive(Clone, Debug, Default)]
pub struct Place {}

/// What only the node view understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Go to the node before.
    Previous,
    /// Go to the node after.
    Next,
    /// Show or hide the process table.
    Processes,
}

/// Does what was asked.
pub(crate) fn act(scene: Scene<'_>, navigation: &mut Navigation, command: &Command) -> Outcome {
    match command {
        Command::Move(step) => navigation.step_table(scene.picture, *step),
        Command::Open => navigation.enter_table(scene.picture),
        Command::Back if navigation.leave_table() => {}
        Command::Back
        | Command::Click(_)
        | Command::SortMenu
        | Command::SortBy(_)
        | Command::SortNext
        | Command::SortPrevious
        | Command::Invert => return Outcome::Unused,
    }
    Outcome::Nothing
}

/// Does what only the node view understands.
pub(crate) fn act_own(scene: Scene<'_>, navigation: &mut Navigation, own: Own) -> Outcome {
    match own {
        Own::Previous => navigation.step_node(scene.picture, Step::Up),
        Own::Next => navigation.step_node(scene.picture, Step::Down),
        Own::Processes => navigation.shows_processes = !navigation.shows_processes,
    }
    Outcome::Nothing
}

/// Returns the selected node's panel, and more of the row under the cursor below it.
pub(crate) fn lines(
    scene: Scene<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let Some(node) = navigation.node(scene.picture).cloned() else {
        return vec![Line::of("no nodes to watch", Tone::Faint).cut(width)];
    };
    let has_detail = height >= 8;
    let room = height - usize::from(has_detail);
    let mut lines = panel::lines(scene, &node, navigation, width, room);
    if let Some(detail) = panel::detail(&node, navigation, width).filter(|_| has_detail) {
        lines.resize(room, Line::new());
        lines.push(detail);
    }
    lines
}
