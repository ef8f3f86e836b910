//! The node list: one line a node, in columns that never move.

use std::collections::BTreeSet;

use crate::fleet::{Node, Totals};
use crate::model::{Device, NodeName, Percent, Watts};
use crate::view::Scene;
use crate::view::condition::{Note, Standing, notes, remedy};
use crate::view::input::Click;
use crate::view::line::{Line, Mark, Tone, UNKNOWN};
use crate::view::navigation::Navigation;
use crate::view::number::{age, memory_pair, percent, share};
use crate::view::picture::{Picture, Shape};
use crate::view::taste::Taste;

/// Widths of the columns; 0 for one that has no room.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    gap: u16,
    name: u16,
    job: u16,
    user: u16,
    strip: u16,
    util: u16,
    share: u16,
    memory_bar: u16,
    memory: u16,
    power: u16,
    heat: u16,
    cpu: u16,
    age: u16,
    note: u16,
    has_limits: bool,
    memory_decimals: usize,
    is_kilowatts: bool,
}

/// A device below this share does nothing worth the name.
const ACTIVE_PERCENT: f32 = 5.0;
/// The mark in front of a name, and the gap behind it.
const MARK: u16 = 2;
/// A note this wide can say why a node is down beside its last numbers.
const WIDE_NOTE: u16 = 40;

/// Returns the title line and the rows in sight.
pub(crate) fn lines(
    scene: Scene<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let columns = Columns::fit(&picture.shape, width);
    let count = picture.count();
    let has_title = height > 1;
    let rows = height.saturating_sub(usize::from(has_title));
    let place = navigation.place(picture);
    navigation.list.settle(rows, count, Some(place));
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(columns.titles().cut(width));
    }
    for at in navigation.list.range(count) {
        if let Some(node) = picture.node_at(at) {
            lines.push(
                row(scene, node, &columns).cut(width).selected(at == place).click(Click::Row(at)),
            );
        }
    }
    lines
}

impl Columns {
    /// Gives room to columns in the order of their worth, then the rest to bars and the note.
    fn fit(shape: &Shape, width: u16) -> Self {
        let decimals = usize::from(shape.memory < 100.0);
        let whole = format!("{:.decimals$}", shape.memory).len();
        let memory = u16::try_from(whole * 2 + 1).unwrap_or(u16::MAX).max(7);
        let mut columns = Self {
            gap: if width >= 110 { 2 } else { 1 },
            name: shape.name.clamp(4, (width / 6).clamp(4, 28)),
            memory_decimals: decimals,
            is_kilowatts: shape.power >= 2_000.0,
            ..Self::default()
        };
        let mut room = width.saturating_sub(MARK + columns.name);
        let strip = shape.devices.clamp(7, 16);
        let Self { gap, .. } = columns;
        let mut take = |column: &mut u16, least: u16| {
            if room >= least + gap {
                room -= least + gap;
                *column = least;
            }
        };
        take(&mut columns.strip, strip);
        take(&mut columns.share, 3);
        take(&mut columns.note, 14);
        take(&mut columns.memory, memory);
        take(&mut columns.age, 6);
        take(&mut columns.util, 6);
        take(&mut columns.power, 4);
        take(&mut columns.cpu, 4);
        take(&mut columns.memory_bar, 4);
        if width >= 100 {
            let mut limit = 0;
            take(&mut limit, 3);
            columns.power += if limit > 0 { limit + gap } else { 0 };
            columns.has_limits = limit > 0 && columns.power > 0;
        }
        if width >= 110 && shape.has_jobs {
            take(&mut columns.job, 10);
        }
        if width >= 140 {
            take(&mut columns.heat, 4);
            take(&mut columns.user, 10);
        }
        columns.share_out(room);
        columns
    }

    fn share_out(&mut self, room: u16) {
        let util = if self.util > 0 { (room / 4).min(14) } else { 0 };
        let memory = if self.memory_bar > 0 { (room / 8).min(8) } else { 0 };
        self.util += util;
        self.memory_bar += memory;
        self.note += room - util - memory;
    }

    fn titles(&self) -> Line {
        let left = |line: Line, word: &str, width: u16| {
            if width == 0 { line } else { line.gap(self.gap).left(word, width, Tone::Faint) }
        };
        let right = |line: Line, word: &str, width: u16| {
            if width == 0 { line } else { line.gap(self.gap).right(word, width, Tone::Faint) }
        };
        let mut line = Line::new().gap(MARK).left("NODE", self.name, Tone::Faint);
        line = left(line, "JOB", self.job);
        line = left(line, "USER", self.user);
        line = left(line, "DEVICES", self.strip);
        line = left(line, "UTIL", self.util);
        line = right(line, "%", self.share);
        line = left(line, "MEM", self.memory_bar);
        line = right(line, "GiB", self.memory);
        line = right(line, if self.is_kilowatts { "kW" } else { "W" }, self.power);
        line = right(line, "MAX°", self.heat);
        line = right(line, "CPU", self.cpu);
        line = right(line, "AGE", self.age);
        left(line, "NOTE", self.note)
    }
}

fn row(scene: Scene<'_>, node: &Node, columns: &Columns) -> Line {
    let picture = scene.picture;
    let standing = Standing::of(node, picture.now);
    let notes = notes(picture, node);
    let front = Line::new().then(mark(standing, &notes)).left(
        node.name.as_str(),
        columns.name,
        name_tone(standing),
    );
    let Some(taken_at) = node.taken_at() else {
        // Nothing is known: the reason has all the room.
        return front.gap(columns.gap).then(said(&notes));
    };
    let span = age(picture.now.since(taken_at));
    if standing == Standing::Down && columns.note < WIDE_NOTE {
        let last = Line::of(format!(" · last {span} ago"), Tone::Faint);
        let owners = owners(scene.taste, node, columns).faded().gap(columns.gap);
        return front.then(owners).then(said(&notes)).then(last);
    }
    let numbers = numbers(scene.taste, node, columns);
    let numbers = if standing.is_fresh() { numbers } else { numbers.faded() };
    let age_tone = if standing.is_fresh() { Tone::Faint } else { Tone::Warn };
    let mut line = front.then(numbers);
    if columns.age > 0 {
        line = line.gap(columns.gap).right(&span, columns.age, age_tone);
    }
    if columns.note > 0 { line.gap(columns.gap).then(said(&notes)) } else { line }
}

fn name_tone(standing: Standing) -> Tone {
    match standing {
        Standing::Fresh => Tone::Plain,
        Standing::Down | Standing::Stale(_) => Tone::Strong,
        Standing::Waiting | Standing::Opening(_) | Standing::Starting => Tone::Faint,
    }
}

/// What is worst about a node, in one column.
fn mark(standing: Standing, notes: &[Note]) -> Line {
    let worst = notes.iter().map(|(_, tone)| *tone).max().unwrap_or_default();
    let (sign, tone) = match (standing, worst) {
        (Standing::Down, _) => ("✗", Tone::Bad),
        (_, Tone::Bad) => ("!", Tone::Bad),
        (_, Tone::Warn) => ("!", Tone::Warn),
        (Standing::Waiting | Standing::Opening(_) | Standing::Starting, _) => ("·", Tone::Faint),
        _ => (" ", Tone::Plain),
    };
    Line::of(sign, tone).gap(1)
}

fn said(notes: &[Note]) -> Line {
    let mut line = Line::new();
    for (place, (words, tone)) in notes.iter().enumerate() {
        if place > 0 {
            line = line.text(" · ", Tone::Faint);
        }
        line = line.text(words.as_str(), *tone);
    }
    line
}

fn strip(taste: &Taste, node: &Node, columns: &Columns) -> Line {
    if columns.strip == 0 {
        return Line::new();
    }
    let whole = node.devices.iter().filter(|device| device.parent.is_none());
    Line::new()
        .gap(columns.gap)
        .strip(whole.map(|device| device_mark(taste, device)).collect(), columns.strip)
}

/// Shows one device in one column.
fn device_mark(taste: &Taste, device: &Device) -> (Mark, Tone) {
    if device.fault.is_some() {
        return (Mark::Broken, Tone::Bad);
    }
    let level = share(device.utilization);
    let flag = crate::view::condition::flags(device).into_iter().map(|(_, tone)| tone).max();
    let tone = flag.unwrap_or_else(|| taste.load.tone(level));
    match level {
        None => (Mark::Unknown, tone),
        Some(level) if level < ACTIVE_PERCENT => (Mark::Idle, tone),
        Some(level) => (Mark::Level(level), tone),
    }
}

/// Shows whose jobs run on which devices.
fn owners(taste: &Taste, node: &Node, columns: &Columns) -> Line {
    let Columns { gap, .. } = *columns;
    let mut line = Line::new();
    if columns.job > 0 {
        line = line.gap(gap).left(&jobs(node), columns.job, Tone::Plain);
    }
    if columns.user > 0 {
        line = line.gap(gap).left(&users(node), columns.user, Tone::Plain);
    }
    line.then(strip(taste, node, columns))
}

fn numbers(taste: &Taste, node: &Node, columns: &Columns) -> Line {
    let totals = Totals::of_devices(node);
    let Columns { gap, .. } = *columns;
    let mut line = owners(taste, node, columns);
    let util = totals.utilization.map(Percent::get);
    if columns.util > 0 {
        line = line.gap(gap).bar(util, columns.util, taste.load.tone(util));
    }
    if columns.share > 0 {
        line = line.gap(gap).right(&percent(util), columns.share, Tone::Plain);
    }
    let used = totals.memory_used.zip(totals.memory_total);
    let part = used.and_then(|(used, total)| Percent::of(used.0, total.0)).map(Percent::get);
    if columns.memory_bar > 0 {
        line = line.gap(gap).bar(part, columns.memory_bar, taste.memory.tone(part));
    }
    if columns.memory > 0 {
        let pair = memory_pair(totals.memory_used, totals.memory_total, columns.memory_decimals);
        let pair = if totals.memory_total.is_some() { pair } else { UNKNOWN.to_owned() };
        line = line.gap(gap).right(&pair, columns.memory, Tone::Plain);
    }
    if columns.power > 0 {
        line = line.gap(gap).right(&power(&totals, columns), columns.power, Tone::Plain);
    }
    if columns.heat > 0 {
        line = line.gap(gap).right(&heat(node), columns.heat, Tone::Plain);
    }
    if columns.cpu > 0 {
        let cpu = share(node.host.cpu);
        let text = cpu.map_or_else(|| UNKNOWN.to_owned(), |cpu| format!("{cpu:.0}%"));
        line = line.gap(gap).right(&text, columns.cpu, Tone::Plain);
    }
    line
}

fn power(totals: &Totals, columns: &Columns) -> String {
    let write = |watts: Option<Watts>| match watts.map(Watts::get) {
        None => UNKNOWN.to_owned(),
        Some(watts) if columns.is_kilowatts => format!("{:.1}", watts / 1_000.0),
        Some(watts) => format!("{watts:.0}"),
    };
    if columns.has_limits && totals.power_limit.is_some() {
        format!("{}/{}", write(totals.power), write(totals.power_limit))
    } else {
        write(totals.power)
    }
}

fn heat(node: &Node) -> String {
    let hottest = node.devices.iter().filter_map(|device| device.temperature.get());
    hottest
        .map(crate::model::Celsius::get)
        .reduce(f32::max)
        .map_or_else(|| UNKNOWN.to_owned(), |degrees| format!("{degrees:.0}°"))
}

fn jobs(node: &Node) -> String {
    some(node.processes.iter().filter_map(|process| Some(process.statics.job.as_ref()?.as_str())))
}

fn users(node: &Node) -> String {
    some(node.processes.iter().filter_map(|process| Some(&**process.statics.user.known()?)))
}

/// Writes the first of some words and how many others there are.
fn some<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: BTreeSet<&str> = words.collect();
    match (words.first(), words.len()) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(word), 1) => (*word).to_owned(),
        (Some(word), count) => format!("{word} +{}", count - 1),
    }
}

/// Returns one line about the selected node: what is wrong and what helps, or what it is.
pub(crate) fn detail(picture: &Picture, name: &NodeName, width: u16) -> Line {
    let Some(node) = picture.fleet.node(name) else { return Line::new() };
    let front = Line::of(format!("{name}  "), Tone::Strong);
    let back = match remedy(node) {
        Some(remedy) => {
            said(&notes(picture, node)).text("  → ", Tone::Faint).text(remedy, Tone::Plain)
        }
        None => crate::view::node::panel::identity(node),
    };
    front.then(back).cut(width)
}
