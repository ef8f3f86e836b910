//! The columns of the node list and their widths.

use crate::view::column_spec::{self, ColumnSpec};
use crate::view::fleet::node_sort::arrow;
use crate::view::fleet_view::{Extents, FleetView};
use crate::view::input::Click;
use crate::view::line::{Line, Tone, width_of};
use crate::view::number_format::Units;
use crate::view::sort_order::SortOrder;

/// The column specs; `node` always comes first.
pub(crate) const COLUMN_SPECS: [ColumnSpec; 14] = [
    ColumnSpec::new("node", "NODE", "node", "node name, always first").always(),
    ColumnSpec::new("job", "JOB", "job", "jobs on the node"),
    ColumnSpec::new("user", "USER", "user", "users of its devices"),
    ColumnSpec::new("devices", "DEVICES", "busy", "one cell per device, by utilization"),
    ColumnSpec::new("bar", "UTIL", "util", "mean utilization as a bar"),
    ColumnSpec::new("util", "%", "util", "mean utilization in percent"),
    ColumnSpec::new("last", "LAST 60s", "util", "utilization over the last minute"),
    ColumnSpec::new("membar", "MEM", "mem", "device memory as a bar"),
    ColumnSpec::new("mem", "GiB", "mem", "device memory, used and total"),
    ColumnSpec::new("power", "W", "power", "power draw, with the limit if it fits"),
    ColumnSpec::new("temp", "MAX°", "temp", "hottest device"),
    ColumnSpec::new("cpu", "CPU", "cpu", "CPU utilization"),
    ColumnSpec::new("age", "AGE", "age", "age of the sample"),
    ColumnSpec::new("note", "NOTE", "note", "problems"),
];

/// The columns after the name, in the order of [`COLUMN_SPECS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Job,
    User,
    Devices,
    Bar,
    Share,
    Spark,
    MemoryBar,
    Memory,
    Power,
    Heat,
    Cpu,
    Age,
    Note,
}

impl Column {
    const ALL: [Self; 13] = [
        Self::Job,
        Self::User,
        Self::Devices,
        Self::Bar,
        Self::Share,
        Self::Spark,
        Self::MemoryBar,
        Self::Memory,
        Self::Power,
        Self::Heat,
        Self::Cpu,
        Self::Age,
        Self::Note,
    ];

    /// Returns true if it shows who uses a node.
    pub(super) const fn is_owner(self) -> bool {
        matches!(self, Self::Job | Self::User | Self::Devices)
    }

    const fn is_left(self) -> bool {
        matches!(
            self,
            Self::Job
                | Self::User
                | Self::Devices
                | Self::Bar
                | Self::Spark
                | Self::MemoryBar
                | Self::Note
        )
    }
}

/// Column widths; 0 if a column is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnLayout {
    /// From left to right.
    pub(super) order: [Option<Column>; 13],
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
    pub(super) units: Units,
    pub(super) is_kilowatts: bool,
    /// The values of each row update once in this many seconds.
    pub(super) refresh_period: usize,
}

impl Default for ColumnLayout {
    fn default() -> Self {
        Self {
            order: Column::ALL.map(Some),
            gap: 0,
            name: 0,
            job: 0,
            user: 0,
            strip: 0,
            util: 0,
            share: 0,
            spark: 0,
            memory_bar: 0,
            memory: 0,
            power: 0,
            heat: 0,
            cpu: 0,
            age: 0,
            note: 0,
            has_limits: false,
            memory_decimals: 0,
            units: Units::default(),
            is_kilowatts: false,
            refresh_period: 0,
        }
    }
}

/// The width of the status mark before the name, gap included.
pub(super) const MARK_WIDTH: u16 = 2;
/// The points of a sparkline, and the seconds per point.
pub(super) const SPARKLINE: (u16, u16) = (12, 5);

impl ColumnLayout {
    /// Returns the layout without optional columns, and the room left after the name.
    fn base(fleet_view: &FleetView, units: Units, width: u16) -> (Self, u16) {
        let shape: &Extents = &fleet_view.extents;
        let columns = Self {
            gap: if width >= 110 { 2 } else { 1 },
            name: shape.name.clamp(4, (width / 6).clamp(4, 28)),
            memory_decimals: units.decimals(shape.memory),
            units,
            is_kilowatts: shape.power >= 2_000.0,
            ..Self::default()
        };
        (columns, width.saturating_sub(MARK_WIDTH + columns.name))
    }

    /// Returns the configured columns that fit; if none are configured, the most important ones that fit.
    pub(super) fn of(fleet_view: &FleetView, chosen: &[String], units: Units, width: u16) -> Self {
        match column_spec::column_indices(&COLUMN_SPECS, chosen) {
            Some(places) => Self::chosen(fleet_view, &places, units, width),
            None => Self::fit(fleet_view, units, width),
        }
    }

    /// Lays out configured columns from left to right, then gives the rest to bars and the note.
    fn chosen(fleet_view: &FleetView, places: &[usize], units: Units, width: u16) -> Self {
        let (mut columns, mut room) = Self::base(fleet_view, units, width);
        let Self { gap, .. } = columns;
        columns.order = [None; 13];
        let parts = places.iter().filter_map(|index| Column::ALL.get(index.checked_sub(1)?));
        for (slot, part) in columns.order.iter_mut().zip(parts) {
            *slot = Some(*part);
        }
        for part in columns.order.into_iter().flatten() {
            let least = columns.min_width(fleet_view, part);
            if room < least + gap {
                break;
            }
            room -= least + gap;
            *columns.width_mut(part) = least;
            if part == Column::Power && width >= 100 && room >= 3 + gap {
                room -= 3 + gap;
                columns.power += 3 + gap;
                columns.has_limits = true;
            }
        }
        columns.distribute_rest(room, fleet_view.fleet.jobs.is_some());
        columns
    }

    /// Returns the minimum width of a column.
    fn min_width(&self, fleet_view: &FleetView, part: Column) -> u16 {
        let shape: &Extents = &fleet_view.extents;
        match part {
            Column::Job | Column::User => 10,
            Column::Devices => shape.devices.clamp(7, 16),
            Column::Bar | Column::Age => 6,
            Column::Share => 3,
            Column::Spark => SPARKLINE.0,
            Column::Memory => {
                let decimals = self.memory_decimals;
                let whole = format!("{:.decimals$}", self.units.of_gib(shape.memory)).len();
                u16::try_from(whole * 2 + 1).unwrap_or(u16::MAX).max(7)
            }
            Column::MemoryBar | Column::Power | Column::Heat | Column::Cpu => 4,
            Column::Note => 14,
        }
    }

    const fn width_mut(&mut self, part: Column) -> &mut u16 {
        match part {
            Column::Job => &mut self.job,
            Column::User => &mut self.user,
            Column::Devices => &mut self.strip,
            Column::Bar => &mut self.util,
            Column::Share => &mut self.share,
            Column::Spark => &mut self.spark,
            Column::MemoryBar => &mut self.memory_bar,
            Column::Memory => &mut self.memory,
            Column::Power => &mut self.power,
            Column::Heat => &mut self.heat,
            Column::Cpu => &mut self.cpu,
            Column::Age => &mut self.age,
            Column::Note => &mut self.note,
        }
    }

    /// Returns the visible columns and their widths, from left to right.
    pub(super) fn shown(&self) -> impl Iterator<Item = (Column, u16)> {
        let mut own = *self;
        let parts = self.order.into_iter().flatten();
        parts.map(move |part| (part, *own.width_mut(part))).filter(|(_, width)| *width > 0)
    }

    /// Lays out columns by importance, then gives the rest to bars and the note.
    pub(super) fn fit(fleet_view: &FleetView, units: Units, width: u16) -> Self {
        let shape: &Extents = &fleet_view.extents;
        let (mut columns, mut room) = Self::base(fleet_view, units, width);
        let memory = columns.min_width(fleet_view, Column::Memory);
        let strip = columns.min_width(fleet_view, Column::Devices);
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
        let has_jobs = shape.has_jobs || fleet_view.fleet.jobs.is_some();
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
            take(&mut columns.spark, SPARKLINE.0);
        }
        columns.distribute_rest(room, fleet_view.fleet.jobs.is_some());
        columns
    }

    fn distribute_rest(&mut self, room: u16, has_names: bool) {
        let job = if self.job > 0 && has_names { (room / 3).min(12) } else { 0 };
        let room = room - job;
        let util = if self.util > 0 { (room / 4).min(14) } else { 0 };
        let memory = if self.memory_bar > 0 { (room / 8).min(8) } else { 0 };
        self.job += job;
        self.util += util;
        self.memory_bar += memory;
        // A wide note in the middle would put too large a gap before the next column.
        let is_last = self.shown().last().is_some_and(|(part, _)| part == Column::Note);
        let rest = room - util - memory;
        let rest = if is_last { rest } else { rest.min(26) };
        self.note += if self.note > 0 { rest } else { 0 };
    }

    /// Cuts or pads a cell to its column; the last column is not padded.
    pub(super) fn fit_cell(&self, (part, width): (Column, u16), words: Line) -> Line {
        if self.shown().last().is_some_and(|(last, _)| last == part) {
            return words;
        }
        let words = words.truncated(width);
        let missing = width.saturating_sub(words.width());
        words.gap(missing)
    }

    /// Returns the width of the name and owner columns, gaps included.
    pub(super) fn front(&self) -> u16 {
        let owners = self.shown().take_while(|(part, _)| part.is_owner());
        owners.fold(self.name, |sum, (_, width)| sum + width + self.gap)
    }

    /// Returns the title of a column; units follow the display options.
    fn title(&self, part: Column, usual: &'static str) -> &'static str {
        if part == Column::Memory {
            self.units.word()
        } else if part == Column::Heat && self.units.degree() == "F" {
            "MAXF"
        } else {
            usual
        }
    }

    /// Draws the titles; the sort column is highlighted and has an arrow.
    pub(super) fn titles(&self, order: SortOrder) -> Line {
        let titles = TitleWriter { gap: self.gap, order };
        let line = titles.first(Line::new().gap(MARK_WIDTH), "NODE", self.name);
        self.shown().fold(line, |line, (part, width)| {
            let headings = Column::ALL.into_iter().zip(COLUMN_SPECS.iter().skip(1));
            let found = headings.into_iter().find(|(own, _)| *own == part);
            let Some((_, ColumnSpec { title, sort, .. })) = found else { return line };
            let is_kilowatts = part == Column::Power && self.is_kilowatts;
            let title = if is_kilowatts { "kW" } else { self.title(part, title) };
            if part.is_left() {
                titles.left(line, title, sort, width)
            } else {
                titles.right(line, title, sort, width)
            }
        })
    }
}

struct TitleWriter {
    gap: u16,
    order: SortOrder,
}

impl TitleWriter {
    fn first(&self, line: Line, word: &str, width: u16) -> Line {
        let (word, tone) = self.word(word, "node", width);
        line.left_aligned(&word, width, tone).clickable(Click::Column("node"))
    }

    fn left(&self, line: Line, word: &str, column: &'static str, width: u16) -> Line {
        let (word, tone) = self.word(word, column, width);
        line.gap(self.gap).left_aligned(&word, width, tone).clickable(Click::Column(column))
    }

    fn right(&self, line: Line, word: &str, column: &'static str, width: u16) -> Line {
        let (word, tone) = self.word(word, column, width);
        line.gap(self.gap).right_aligned(&word, width, tone).clickable(Click::Column(column))
    }

    /// Returns the title with its arrow; the default order has none.
    fn word(&self, word: &str, column: &str, width: u16) -> (String, Tone) {
        let is_default_order = self.order == SortOrder::by("node");
        if column != self.order.column || is_default_order {
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
    fn what_is_chosen_stands_as_chosen_and_leaves_from_the_right() {
        let titles = |chosen: &[&str], width| {
            let chosen: Vec<String> = chosen.iter().map(|name| (*name).to_owned()).collect();
            let columns = ColumnLayout::of(&FleetView::default(), &chosen, Units::default(), width);
            let line = columns.titles(SortOrder::by("node"));
            assert!(line.width() <= width, "{chosen:?} {width}");
            line.plain_text().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(titles(&["mem", "util", "node", "cpu"], 80), "NODE GiB % CPU");
        assert_eq!(titles(&["note", "mem", "temp"], 80), "NODE NOTE GiB MAX°");
        assert_eq!(titles(&["user", "job", "age", "power"], 30), "NODE USER JOB");
        for width in 6..200 {
            titles(&COLUMN_SPECS.map(|heading| heading.name), width);
        }
    }

    #[test]
    fn columns_never_take_more_than_there_is() {
        for width in 0..400 {
            let columns = ColumnLayout::fit(&FleetView::default(), Units::default(), width);
            let titles = columns.titles(SortOrder::by("util")).width();
            // The mark and four characters of the name are always shown.
            assert!(titles <= width.max(MARK_WIDTH + 4), "{width}: {titles}");
        }
    }
}
