//! Rows and panels ready to draw, made of a fleet, a moment and where one is; and moving about in them.
//!
//! Everything here is a pure function of its arguments. It says what things mean; colours and glyphs
//! are the theme's. It must not know how a terminal is driven.

pub use filter::{Filter, FilterError, LONGEST as LONGEST_FILTER, complete};
pub use line::{Ground, Kind, Line, Mark, Piece, Tone};
pub use navigation::{Chosen, Navigation, Spot, Step, View, Window};
pub use picture::{Picture, Shape, Trouble};

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::model::NodeName;

mod condition;
mod devices;
mod filter;
mod header;
mod host;
mod jobs;
mod line;
mod list;
mod navigation;
mod number;
mod panel;
mod picture;
mod processes;

/// From this size on, the list and the selected node stand on one screen, however long the list is.
const SPLIT: (u16, usize) = (100, 34);
/// Lines of a panel besides its devices.
const PANEL: usize = 10;
/// The most lines for what is wrong with the fleet.
const TROUBLES: usize = 4;

/// What a frame shows besides the fleet.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// What is watched.
    pub title: &'a str,
    /// How often nodes are asked to sample.
    pub interval: Duration,
    /// The zone of the clock.
    pub zone: &'a TimeZone,
    /// For how long the picture has stood still.
    pub frozen: Option<Duration>,
    /// The node that samples faster.
    pub focus: Option<&'a NodeName>,
    /// Something to be told once.
    pub message: Option<&'a str>,
    /// The keys that do something here: key and meaning.
    pub hints: &'a [(&'a str, &'a str)],
    /// Stands in place of the view.
    pub help: Option<&'a [Line]>,
}

/// Returns the whole screen: at most `height` lines, none wider than `width`.
pub fn screen(
    picture: &Picture,
    navigation: &mut Navigation,
    setting: &Setting<'_>,
    width: u16,
    height: u16,
) -> Vec<Line> {
    let height = usize::from(height);
    let top = match height {
        0..4 => 0,
        4..8 => 1,
        8..10 => 2,
        _ => 3,
    };
    let has_footer = height >= 8;
    let body_height = height - top - usize::from(has_footer);
    let mut lines = if top > 0 {
        header::lines(picture, navigation.view, setting, width, top)
    } else {
        Vec::new()
    };
    let mut body = body(picture, navigation, setting, width, body_height);
    body.resize(body_height, Line::new());
    lines.append(&mut body);
    if has_footer {
        lines.push(footer(setting, width));
    }
    lines.truncate(height);
    lines
}

fn body(
    picture: &Picture,
    navigation: &mut Navigation,
    setting: &Setting<'_>,
    width: u16,
    height: usize,
) -> Vec<Line> {
    if let Some(help) = setting.help {
        return help.iter().take(height).map(|line| line.clone().cut(width)).collect();
    }
    let mut top = Vec::new();
    if let Some(list) = picture.fleet.jobs.as_deref() {
        if navigation.view == View::Job {
            navigation.settle_job(picture);
            match navigation.job(picture) {
                Some(Chosen::Ended(job)) => return jobs::ended(job, width),
                Some(Chosen::Listed { job, place }) => {
                    let count = list.on_nodes().count();
                    if let Some(node) = navigation.node(picture) {
                        top = jobs::head(picture, job, (place, count), &node.name, width);
                    }
                }
                None => return jobs::empty(picture, list, setting.zone, width, height),
            }
        }
        if picture.fleet.nodes.is_empty() {
            return jobs::empty(picture, list, setting.zone, width, height);
        }
    }
    let height = height.saturating_sub(top.len());
    let Some(node) = navigation.node(picture).cloned() else {
        return vec![Line::of("no nodes to watch", Tone::Faint).cut(width)];
    };
    if navigation.view == View::Fleet {
        return fleet(picture, navigation, width, height);
    }
    let has_detail = height >= 8;
    let room = height - usize::from(has_detail);
    let mut lines = top;
    let room_above = lines.len();
    lines.extend(panel::lines(picture, &node, navigation, width, room));
    if let Some(detail) = panel::detail(&node, navigation, width).filter(|_| has_detail) {
        lines.resize(room_above + room, Line::new());
        lines.push(detail);
    }
    lines
}

/// The node list, what is wrong below it, and the selected node where there is room.
fn fleet(picture: &Picture, navigation: &mut Navigation, width: u16, height: usize) -> Vec<Line> {
    let is_large = width >= SPLIT.0 && height >= SPLIT.1;
    let is_split = is_large || list_share(picture, height) > picture.fleet.nodes.len();
    let has_detail = !is_split && height >= 8;
    let most = if height < 10 { 0 } else { (height / 6).min(TROUBLES) };
    let troubles = troubles(picture, width, most);
    let room = height - usize::from(has_detail) - troubles.len();
    let list_height = if is_split { list_share(picture, room) } else { room };
    let mut lines = list::lines(picture, navigation, width, list_height);
    let node = navigation.node(picture).cloned();
    if is_split && let Some(node) = &node {
        lines.resize(list_height, Line::new());
        lines.push(Line::new().rule(width));
        let rest = room.saturating_sub(list_height + 1);
        lines.extend(panel::lines(picture, node, navigation, width, rest));
    }
    lines.resize(room, Line::new());
    lines.extend(troubles);
    if let Some(node) = node.filter(|_| has_detail) {
        lines.push(list::detail(picture, &node.name, width));
    }
    lines
}

/// Lines of the list where it shares the screen with a panel: all it needs if the panel of the
/// largest node has room below, a third at least.
fn list_share(picture: &Picture, room: usize) -> usize {
    let all = picture.fleet.nodes.len() + 1;
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

/// The keys that do something here; those that do not fit are left out.
fn footer(setting: &Setting<'_>, width: u16) -> Line {
    let hint = |(key, meaning): &(&str, &str)| {
        Line::of(*key, Tone::Accent).text(format!(" {meaning}"), Tone::Faint)
    };
    line::flow(setting.hints.iter().map(hint).collect(), 3, width, 1).pop().unwrap_or_default()
}
