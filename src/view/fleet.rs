//! The fleet: all nodes, what is wrong with them, and the selected one where there is room.

use crate::view::Scene;
use crate::view::input::Click;
use crate::view::line::{self, Line, Tone};
use crate::view::navigation::{Navigation, View};
use crate::view::node::panel;
use crate::view::outcome::{Command, Outcome};
use crate::view::picture::{Picture, Trouble};

mod table;

/// From this size on, the list and the selected node stand on one screen, however long the list is.
const SPLIT: (u16, usize) = (100, 34);
/// Lines of a panel besides its devices.
const PANEL: usize = 10;
/// The most lines for what is wrong with the fleet.
const TROUBLES: usize = 4;

/// Where one is in the fleet.
#[derive(Clone, Debug, Default)]
pub struct Place {}

/// What only the fleet understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {}

/// Does what was asked.
pub(crate) fn act(scene: Scene<'_>, navigation: &mut Navigation, command: &Command) -> Outcome {
    let picture = scene.picture;
    match command {
        Command::Move(step) => navigation.step_node(picture, *step),
        Command::Open => return Outcome::Show(View::Node),
        Command::Click(Click::Row(place)) => {
            let is_again = navigation.place(picture) == *place;
            if let Some(node) = picture.node_at(*place) {
                navigation.select(node.name.clone());
            }
            if is_again {
                return Outcome::Show(View::Node);
            }
        }
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

/// Does what only the fleet understands.
pub(crate) fn act_own(_scene: Scene<'_>, _navigation: &mut Navigation, own: Own) -> Outcome {
    match own {}
}

/// The node list, what is wrong below it, and the selected node where there is room.
pub(crate) fn lines(
    scene: Scene<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let Some(node) = navigation.node(picture).cloned() else {
        return vec![nothing(picture).cut(width)];
    };
    let is_large = width >= SPLIT.0 && height >= SPLIT.1;
    let is_split = is_large || list_share(picture, height) > picture.count();
    let has_detail = !is_split && height >= 8;
    let most = if height < 10 { 0 } else { (height / 6).min(TROUBLES) };
    let troubles = troubles(picture, width, most);
    let room = height.saturating_sub(usize::from(has_detail) + troubles.len());
    let list_height = if is_split { list_share(picture, room) } else { room };
    let mut lines = table::lines(scene, navigation, width, list_height);
    if is_split {
        lines.resize(list_height, Line::new());
        lines.push(Line::new().rule(width));
        let rest = room.saturating_sub(list_height + 1);
        lines.extend(panel::lines(scene, &node, navigation, width, rest));
    }
    lines.resize(room, Line::new());
    lines.extend(troubles);
    if has_detail {
        lines.push(table::detail(picture, &node.name, width));
    }
    lines
}

fn nothing(picture: &Picture) -> Line {
    if picture.fleet.nodes.is_empty() {
        return Line::of("no nodes to watch", Tone::Faint);
    }
    Line::of("the filter takes no node", Tone::Warn).text("  → Esc clears it", Tone::Faint)
}

/// Lines of the list where it shares the screen with a panel: all it needs if the panel of the
/// largest node has room below, a third at least.
fn list_share(picture: &Picture, room: usize) -> usize {
    let all = picture.count() + 1;
    let panel = PANEL + usize::from(picture.shape.devices.min(8));
    all.min(room.saturating_sub(panel).max(room / 3))
}

fn troubles(picture: &Picture, width: u16, most: usize) -> Vec<Line> {
    let count = picture.troubles.len();
    let shown = if count > most { most.saturating_sub(1) } else { count };
    let mut lines: Vec<Line> =
        picture.troubles.iter().take(shown).map(|trouble| told(trouble, width)).collect();
    if count > shown && most > 0 {
        let rest: usize = picture.troubles.iter().skip(shown).map(|trouble| trouble.count).sum();
        let text = format!("  and {} more kinds of trouble on {rest} nodes", count - shown);
        lines.push(Line::of(text, Tone::Faint).cut(width));
    }
    lines
}

fn told(trouble: &Trouble, width: u16) -> Line {
    let sign = if trouble.tone == Tone::Bad { "✗" } else { "!" };
    // A long set of names must leave room for what is wrong with them.
    let names = line::cut(&trouble.nodes, width / 3);
    let mut line = Line::of(sign, trouble.tone).gap(1).text(names, Tone::Strong);
    if trouble.count > 1 {
        line = line.text(format!(" ({})", trouble.count), Tone::Faint);
    }
    line.gap(2)
        .text(trouble.sentence.as_str(), trouble.tone)
        .text(format!("  → {}", trouble.remedy), Tone::Faint)
        .cut(width)
}
