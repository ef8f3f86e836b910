//! One node in full: what it is, what is wrong, its devices, its machine, its processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::Node;
use crate::model::Via;
use crate::view::Scene;
use crate::view::condition::{Standing, own_notes, whole_story};
use crate::view::line::{Line, Tone, cut, width_of};
use crate::view::navigation::{Navigation, Spot, uses};
use crate::view::node::{devices, host, processes};
use crate::view::number::age;
use crate::view::picture::Picture;

/// Rows the process table gets at least, where it is shown.
const LEAST_PROCESSES: usize = 4;
/// Rows of devices that go before any process.
const LEAST_DEVICES: usize = 8;
/// Lines of the host, and how many when they are dear.
const HOST: (usize, usize) = (3, 2);

/// Returns the panel of a node in so many lines.
pub(crate) fn lines(
    scene: Scene<'_>,
    node: &Node,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let mut lines = vec![title(picture, node, navigation, width)];
    lines.extend(reasons(picture, node, width));
    let room = height.saturating_sub(lines.len());
    let most = if Share::of(node, navigation, HOST.0, room).is_short { HOST.1 } else { HOST.0 };
    let host = host::lines(node, picture.now, width, most);
    let share = Share::of(node, navigation, host.len(), room);
    if share.devices > 0 {
        lines.extend(devices::lines(scene, node, navigation, width, share.devices));
    }
    lines.extend(host.into_iter().take(share.host));
    if share.processes > 0 {
        if share.has_gap {
            lines.push(Line::new());
        }
        lines.extend(processes::lines(scene, node, navigation, width, share.processes));
    }
    lines.truncate(height);
    lines
}

/// How the lines of a panel are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Rows of devices.
    devices: usize,
    host: usize,
    /// Lines of the process table, its titles included.
    processes: usize,
    has_gap: bool,
    /// Something got less than it wants.
    is_short: bool,
}

impl Share {
    fn of(node: &Node, navigation: &Navigation, host: usize, room: usize) -> Self {
        let frame = if node.devices.is_empty() { 0 } else { devices::frame_lines(node) };
        let all = node.devices.len();
        let is_shown = navigation.shows_processes && (all > 0 || !node.uses.is_empty());
        let wanted = if is_shown { uses(node).len() + 1 } else { 0 };
        let rest = room.saturating_sub(frame + host);
        let reserved = wanted.min(LEAST_PROCESSES).min(rest.saturating_sub(all.min(LEAST_DEVICES)));
        let devices = all.min(rest.saturating_sub(reserved));
        let rest = rest.saturating_sub(devices);
        let has_gap = rest > LEAST_PROCESSES;
        let processes = wanted.min(rest.saturating_sub(usize::from(has_gap)));
        let is_short = devices < all || processes < wanted;
        Self { devices, host, processes, has_gap, is_short }
    }
}

fn title(picture: &Picture, node: &Node, navigation: &Navigation, width: u16) -> Line {
    let standing = Standing::of(node, picture.now);
    let tone = if standing == Standing::Down { Tone::Bad } else { Tone::Accent };
    let mut right = Line::new();
    if let Some(taken_at) = node.taken_at() {
        let tone = if standing.is_fresh() { Tone::Faint } else { Tone::Warn };
        right = right.right(&age(picture.now.since(taken_at)), 6, tone);
    }
    let place = navigation.place(picture) + 1;
    let right = Line::of(format!("{place}/{}", picture.count()), Tone::Faint).then(right);
    let name = cut(node.name.as_str(), width / 2);
    Line::of(format!("{name}  "), tone).then(identity(node)).against(right, width)
}

/// Says what a node is: its devices, driver, jobs, probe.
pub(crate) fn identity(node: &Node) -> Line {
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    for device in node.devices.iter().filter(|device| device.parent.is_none()) {
        *models.entry(devices::name(device, false)).or_default() += 1;
    }
    let mut line = Line::new();
    for (model, count) in models {
        line = line.text(format!("{count}× {model}  "), Tone::Plain);
    }
    if let Some(driver) = node.devices.iter().find_map(|device| device.driver.known()) {
        line = line.text(format!("driver {driver}  "), Tone::Faint);
    }
    let jobs: std::collections::BTreeSet<_> =
        node.processes.iter().filter_map(|process| process.statics.job.as_ref()).collect();
    for job in jobs.iter().take(3) {
        line = line.text(format!("job {job}  "), Tone::Faint);
    }
    // Usual ways go without saying; these cost a process, or a step of the job.
    let by = match node.via {
        Some(Via::SshProgram) => "by the ssh program  ",
        Some(Via::Exec) => "by a command  ",
        Some(Via::Step) => "by srun  ",
        Some(Via::Native | Via::Local) | None => "",
    };
    if !by.is_empty() {
        line = line.text(by, Tone::Faint);
    }
    match &node.hello {
        Some(hello) => line.text(format!("{}  {}", hello.probe, hello.host.kernel), Tone::Faint),
        None => line,
    }
}

/// Says what keeps a node from being fresh, and what helps.
fn reasons(picture: &Picture, node: &Node, width: u16) -> Vec<Line> {
    let mut line = Line::new();
    for (place, (words, tone)) in own_notes(picture, node).iter().enumerate() {
        let sign = if place == 0 { "" } else { " · " };
        line = line.text(sign, Tone::Faint).text(words.as_str(), *tone);
    }
    let story = whole_story(node).map(|story| wrapped(story, width.saturating_sub(2)));
    let story = story.into_iter().flatten().enumerate().map(|(place, words)| {
        Line::of(if place == 0 { "→ " } else { "  " }, Tone::Faint).text(words, Tone::Plain)
    });
    let lines = std::iter::once(line).chain(story).filter(|line| line.width() > 0);
    lines.map(|line| line.cut(width)).collect()
}

/// Breaks words into lines of at most `width`, and no more than a person reads.
fn wrapped(words: &str, width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line) + 1 + width_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.truncate(8);
    lines
}

/// Says more of the row under the cursor.
pub(crate) fn detail(node: &Node, navigation: &Navigation, width: u16) -> Option<Line> {
    let spot = navigation.cursor(node)?;
    let line = match &spot {
        Spot::Device(uuid) => {
            let device = node
                .devices
                .iter()
                .find(|device| Arc::ptr_eq(&device.uuid, uuid) || device.uuid == *uuid)?;
            devices::detail(node, device)
        }
        Spot::Use { .. } => processes::detail(node, &spot)?,
    };
    Some(line.cut(width))
}
