//! A job's nodes: one line each, one number a device.

use crate::fleet::{Node, Traffic};
use crate::model::{Bytes, Percent};
use crate::time::age;
use crate::view::condition::{Standing, own_notes};
use crate::view::input::Click;
use crate::view::job::sheet::{Cell, Measure, Row, Sheet};
use crate::view::line::{Line, Tone, UNKNOWN};
use crate::view::navigation::Window;
use crate::view::number::{Units, percent, rate, share};
use crate::view::picture::Picture;
use crate::view::taste::Taste;

/// The mark in front of a name, and the gap behind it.
const MARK: u16 = 2;
/// Words in place of numbers.
const WORDS: u16 = 27;

/// Widths of the columns; 0 for one that has no room.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    name: u16,
    /// Of one device, the gap before it and the mark behind it counted.
    device: u16,
    /// Devices that have room.
    devices: usize,
    /// All their columns.
    numbers: u16,
    cpu: u16,
    memory: u16,
    network: u16,
    age: u16,
}

/// What the table shows of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) picture: &'a Picture,
    pub(super) taste: &'a Taste,
    pub(super) sheet: &'a Sheet,
    pub(super) measure: Measure,
    /// The row one is on.
    pub(super) place: usize,
    /// Arrows move among the rows.
    pub(super) has_cursor: bool,
}

/// Returns the title line and the rows in sight.
pub(super) fn lines(look: Look<'_>, window: &mut Window, width: u16, height: usize) -> Vec<Line> {
    let columns = Columns::fit(look.sheet, look.measure, width);
    let count = look.sheet.rows.len();
    let has_title = height > 1;
    let rows = height.saturating_sub(usize::from(has_title));
    window.settle(rows, count, Some(look.place));
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(window.beside(titles(look, &columns), count, width));
    }
    for at in window.range(count) {
        let Some(own) = look.sheet.rows.get(at) else { continue };
        let is_here = at == look.place;
        let mark = if is_here && look.has_cursor { "> " } else { "  " };
        let line = Line::of(mark, Tone::Accent).then(row(look, own, &columns));
        lines.push(line.cut(width).selected(is_here).click(Click::Row(at)));
    }
    lines
}

impl Columns {
    /// Gives room to columns in the order of their worth.
    fn fit(sheet: &Sheet, measure: Measure, width: u16) -> Self {
        let mut columns = Self {
            name: sheet.name.clamp(4, (width / 4).clamp(4, 28)),
            device: match measure {
                Measure::Utilization | Measure::Temperature => 5,
                Measure::Memory | Measure::Power => 6,
            },
            ..Self::default()
        };
        let mut room = width.saturating_sub(MARK + columns.name);
        let mut take = |column: &mut u16, least: u16, kept: u16| {
            if room >= least + 1 + kept {
                room -= least + 1;
                *column = least;
            }
        };
        let wanted = u16::try_from(sheet.columns.len()).unwrap_or(u16::MAX);
        let words = if sheet.has_words { WORDS } else { 0 };
        let devices = columns.device.saturating_mul(wanted).max(words);
        take(&mut columns.age, 6, columns.device);
        take(&mut columns.cpu, 4, devices);
        take(&mut columns.network, 5, devices);
        take(&mut columns.memory, 4, devices);
        let fitting = room / columns.device;
        // One column says how many do not fit.
        let shown = if fitting < wanted { fitting.saturating_sub(1) } else { wanted };
        columns.devices = usize::from(shown);
        columns.numbers = columns.device.saturating_mul(fitting.min(wanted)).max(words).min(room);
        columns
    }
}

fn titles(look: Look<'_>, columns: &Columns) -> Line {
    let mut line = Line::new().gap(MARK).left("NODE", columns.name, Tone::Faint);
    for label in look.sheet.columns.iter().take(columns.devices) {
        line = line.right(label, columns.device - 1, Tone::Faint).gap(1);
    }
    let hidden = look.sheet.columns.len().saturating_sub(columns.devices);
    let rest = columns.numbers.saturating_sub(line.width() - MARK - columns.name);
    let more = if hidden > 0 { format!("+{hidden}") } else { String::new() };
    line = line.right(&more, rest.min(columns.device - 1), Tone::Faint);
    line = line.gap(rest.saturating_sub(columns.device - 1));
    for (word, width) in [
        ("CPU", columns.cpu),
        ("MEM", columns.memory),
        ("NET/s", columns.network),
        ("AGE", columns.age),
    ] {
        if width > 0 {
            line = line.gap(1).right(word, width, Tone::Faint);
        }
    }
    line
}

/// Says what the numbers are.
pub(super) fn caption(measure: Measure, units: Units, width: u16) -> Line {
    Line::of(format!("  {}", measure.caption(units)), Tone::Faint).cut(width)
}

fn row(look: Look<'_>, row: &Row, columns: &Columns) -> Line {
    let Some(node) = row.node(look.picture) else {
        let name = Line::new().left(row.name.label(), columns.name, Tone::Faint);
        return name.gap(1).text("not watched", Tone::Faint);
    };
    let standing = Standing::of(node, look.picture.now);
    let name = Line::new().left(row.name.label(), columns.name, tone(standing));
    let notes = || {
        let mut line = Line::new();
        for (place, (words, tone)) in own_notes(look.picture, node).iter().enumerate() {
            let sign = if place > 0 { " · " } else { "" };
            line = line.text(sign, Tone::Faint).text(words.as_str(), *tone);
        }
        line
    };
    let Some(taken_at) = node.taken_at() else { return name.gap(1).then(notes()) };
    let numbers = if row.is_untold {
        let words = if node.devices.is_empty() {
            "its devices are not shown"
        } else {
            "nobody says which devices"
        };
        Line::new().gap(1).left(words, columns.numbers.max(1) - 1, Tone::Faint)
    } else if row.cells.is_empty() {
        Line::new().gap(1).left("no devices", columns.numbers.max(1) - 1, Tone::Faint)
    } else {
        devices(look, node, row, columns)
    };
    let mut line = numbers.then(host(node, columns));
    if !row.is_fresh {
        line = line.faded();
    }
    if columns.age > 0 {
        let tone = if row.is_fresh { Tone::Faint } else { Tone::Warn };
        let span = age(look.picture.now.since(taken_at));
        line = line.gap(1).right(&span, columns.age, tone);
    }
    let line = name.then(line);
    if row.is_fresh { line } else { line.gap(2).then(notes()) }
}

fn tone(standing: Standing) -> Tone {
    match standing {
        Standing::Fresh => Tone::Plain,
        Standing::Down | Standing::Stale(_) => Tone::Strong,
        Standing::Waiting | Standing::Opening(_) | Standing::Starting => Tone::Faint,
    }
}

fn devices(look: Look<'_>, node: &Node, row: &Row, columns: &Columns) -> Line {
    let mut line = Line::new();
    let mut cells = row.cells.iter().peekable();
    for column in 0..columns.devices {
        // Cells stand in the order of the node's list, which is that of the columns nearly always.
        let cell = match cells.peek() {
            Some(cell) if cell.column == column => cells.next(),
            Some(_) | None => row.cells.iter().find(|cell| cell.column == column),
        };
        line = match cell {
            Some(cell) => line.then(number(look, node, *cell, columns.device)),
            // Not its own.
            None => line.gap(columns.device),
        };
    }
    let rest = columns.numbers.saturating_sub(line.width());
    line.gap(rest)
}

/// Writes one device's number and, behind it, whether there is something to look at.
fn number(look: Look<'_>, node: &Node, cell: Cell, width: u16) -> Line {
    let Some(device) = node.devices.get(cell.device) else { return Line::new().gap(width) };
    if device.fault.is_some() {
        return Line::new().right("✗", width - 1, Tone::Bad).text("!", Tone::Bad);
    }
    let value = look.measure.of(device);
    let text = value.map_or_else(
        || UNKNOWN.to_owned(),
        |value| {
            let units = Units::of(look.taste);
            let decimals = match look.measure {
                Measure::Memory => units.decimals(0.0),
                Measure::Utilization | Measure::Power | Measure::Temperature => 0,
            };
            format!("{:.decimals$}", look.measure.in_units(value, units))
        },
    );
    let level = match look.measure {
        Measure::Utilization => look.taste.load.tone(value),
        Measure::Memory | Measure::Power | Measure::Temperature => Tone::Plain,
    };
    if cell.is_marked {
        return Line::new().right(&text, width - 1, Tone::Warn).text("!", Tone::Warn);
    }
    Line::new().right(&text, width - 1, level).gap(1)
}

fn host(node: &Node, columns: &Columns) -> Line {
    let with_sign = |part: Option<f32>| {
        part.map_or_else(|| UNKNOWN.to_owned(), |_| format!("{}%", percent(part)))
    };
    let fast = &node.host.fast;
    let memory = fast.memory_total.get().zip(fast.memory_available.get());
    let memory = memory
        .and_then(|(total, left)| Percent::of(total.0.saturating_sub(left.0), total.0))
        .map(Percent::get);
    let mut line = Line::new();
    for (text, width) in [
        (with_sign(share(node.host.cpu)), columns.cpu),
        (with_sign(memory), columns.memory),
        (network(node), columns.network),
    ] {
        if width > 0 {
            line = line.gap(1).right(&text, width, Tone::Plain);
        }
    }
    line
}

/// Writes what goes in and out over network and InfiniBand.
fn network(node: &Node) -> String {
    let all = || node.host.network.iter().chain(node.host.infiniband.iter());
    if all().next().is_none() {
        return UNKNOWN.to_owned();
    }
    let both = |traffic: &Traffic| traffic.inward.0.saturating_add(traffic.outward.0);
    let sum = all().fold(Bytes(0), |sum, traffic| Bytes(sum.0.saturating_add(both(traffic))));
    rate(sum.0)
}
