//! The columns of the node list: which there are, and how wide.

use crate::view::fleet::column::arrow;
use crate::view::input::Click;
use crate::view::line::{Line, Tone, width_of};
use crate::view::order::Order;
use crate::view::picture::{Picture, Shape};

/// Widths of the columns; 0 for one that has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) gap: u16,
    pub(super) name: u16,
    pub(super) job: u16,
    pub(super) user: u16,
    pub(super) strip: u16,
    pub(super) util: u16,
    pub(super) share: u16,
    pub(super) spark: u16,
    pub(super) memory_bar: u16,
    pub(super) memory: u16,
    pub(super) power: u16,
    pub(super) heat: u16,
    pub(super) cpu: u16,
    pub(super) age: u16,
    pub(super) note: u16,
    pub(super) has_limits: bool,
    pub(super) memory_decimals: usize,
    pub(super) is_kilowatts: bool,
    /// A row's numbers move once in so many seconds.
    pub(super) pace: usize,
}

/// The mark in front of a name, and the gap behind it.
pub(super) const MARK: u16 = 2;
/// Points of a track, and how many seconds each stands for.
pub(super) const TRACK: (u16, u16) = (12, 5);

impl Columns {
    /// Gives room to columns in the order of their worth, then the rest to bars and the note.
    pub(super) fn fit(picture: &Picture, width: u16) -> Self {
        let shape: &Shape = &picture.shape;
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
        let has_jobs = shape.has_jobs || picture.fleet.jobs.is_some();
        if width >= 100 && has_jobs {
            take(&mut columns.job, 10);
        }
        if width >= 100 {
            let mut limit = 0;
            take(&mut limit, 3);
            columns.power += if limit > 0 { limit + gap } else { 0 };
            columns.has_limits = limit > 0 && columns.power > 0;
        }
        if width >= 140 {
            take(&mut columns.heat, 4);
            take(&mut columns.user, 10);
            take(&mut columns.spark, TRACK.0);
        }
        columns.share_out(room, picture.fleet.jobs.is_some());
        columns
    }

    fn share_out(&mut self, room: u16, has_names: bool) {
        let job = if self.job > 0 && has_names { (room / 3).min(12) } else { 0 };
        let room = room - job;
        let util = if self.util > 0 { (room / 4).min(14) } else { 0 };
        let memory = if self.memory_bar > 0 { (room / 8).min(8) } else { 0 };
        self.job += job;
        self.util += util;
        self.memory_bar += memory;
        self.note += if self.note > 0 { room - util - memory } else { 0 };
    }

    /// Returns the columns that tell whose a node is, from the name to the devices, gaps included.
    pub(super) fn front(&self) -> u16 {
        let wide = |column: u16| if column > 0 { column + self.gap } else { 0 };
        self.name + wide(self.job) + wide(self.user) + wide(self.strip)
    }

    /// Returns the titles; the one that rows are sorted by stands out, and says which way.
    pub(super) fn titles(&self, order: Order) -> Line {
        let titles = Titles { gap: self.gap, order };
        let line = Line::new().gap(MARK);
        let line = titles.first(line, "NODE", self.name);
        let line = titles.left(line, "JOB", "job", self.job);
        let line = titles.left(line, "USER", "user", self.user);
        let line = titles.left(line, "DEVICES", "busy", self.strip);
        let line = titles.left(line, "UTIL", "util", self.util);
        let line = titles.right(line, "%", "util", self.share);
        let line = titles.left(line, "LAST 60s", "util", self.spark);
        let line = titles.left(line, "MEM", "mem", self.memory_bar);
        let line = titles.right(line, "GiB", "mem", self.memory);
        let watts = if self.is_kilowatts { "kW" } else { "W" };
        let line = titles.right(line, watts, "power", self.power);
        let line = titles.right(line, "MAX°", "temp", self.heat);
        let line = titles.right(line, "CPU", "cpu", self.cpu);
        let line = titles.right(line, "AGE", "age", self.age);
        titles.left(line, "NOTE", "note", self.note)
    }
}

/// How titles are written.
struct Titles {
    gap: u16,
    order: Order,
}

impl Titles {
    fn first(&self, line: Line, word: &str, width: u16) -> Line {
        let (word, tone) = self.word(word, "node", width);
        line.left(&word, width, tone).on_click(Click::Column("node"))
    }

    fn left(&self, line: Line, word: &str, column: &'static str, width: u16) -> Line {
        if width == 0 {
            return line;
        }
        let (word, tone) = self.word(word, column, width);
        line.gap(self.gap).left(&word, width, tone).on_click(Click::Column(column))
    }

    fn right(&self, line: Line, word: &str, column: &'static str, width: u16) -> Line {
        if width == 0 {
            return line;
        }
        let (word, tone) = self.word(word, column, width);
        line.gap(self.gap).right(&word, width, tone).on_click(Click::Column(column))
    }

    /// The order in which nodes are watched goes without saying.
    fn word(&self, word: &str, column: &str, width: u16) -> (String, Tone) {
        let is_usual = self.order == Order::by("node");
        if column != self.order.column || is_usual {
            return (word.to_owned(), Tone::Faint);
        }
        let arrow = arrow(self.order);
        let full = format!("{word}{arrow}");
        let word = if width_of(&full) <= width { full } else { word.to_owned() };
        (word, Tone::Accent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_never_take_more_than_there_is() {
        for width in 0..400 {
            let columns = Columns::fit(&Picture::default(), width);
            let titles = columns.titles(Order::by("util")).width();
            // A mark and four letters of a name are always asked for.
            assert!(titles <= width.max(MARK + 4), "{width}: {titles}");
        }
    }
}
