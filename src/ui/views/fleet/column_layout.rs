//! The columns of the node list and their widths.

use crate::insight::{Extents, FleetView};
use crate::model::width_of;
use crate::query::SortOrder;
use crate::ui::input::Click;
use crate::ui::views::fleet::node_sort::arrow;
use crate::ui::widgets::column_spec;
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::Units;

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
    Percent,
    Sparkline,
    MemoryBar,
    Memory,
    Power,
    Temperature,
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
        Self::Percent,
        Self::Sparkline,
        Self::MemoryBar,
        Self::Memory,
        Self::Power,
        Self::Temperature,
        Self::Cpu,
        Self::Age,
        Self::Note,
    ];

    /// Returns true if it shows who uses a node.
    pub(super) const fn is_owner(self) -> bool {
        matches!(self, Self::Job | Self::User | Self::Devices)
    }

    const fn is_left_aligned(self) -> bool {
        matches!(
            self,
            Self::Job
                | Self::User
                | Self::Devices
                | Self::Bar
                | Self::Sparkline
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
    pub(super) percent: u16,
    pub(super) spark: u16,
    pub(super) memory_bar: u16,
    pub(super) memory: u16,
    pub(super) power: u16,
    pub(super) temperature: u16,
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
            percent: 0,
            spark: 0,
            memory_bar: 0,
            memory: 0,
            power: 0,
            temperature: 0,
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
        let extents: &Extents = &fleet_view.extents;
        let columns = Self {
            gap: if width >= 110 { 2 } else { 1 },
            name: extents.name.clamp(4, (width / 6).clamp(4, 28)),
            memory_decimals: units.decimals(extents.memory),
            units,
            is_kilowatts: extents.power >= 2_000.0,
            ..Self::default()
        };
        (columns, width.saturating_sub(MARK_WIDTH + columns.name))
    }

    /// Returns the configured columns that fit; if none are configured, the most important ones that fit.
    pub(super) fn of(fleet_view: &FleetView, names: &[String], units: Units, width: u16) -> Self {
        match column_spec::column_indices(&COLUMN_SPECS, names) {
            Some(indices) => Self::chosen(fleet_view, &indices, units, width),
            None => Self::fit(fleet_view, units, width),
        }
    }

    /// Lays out configured columns from left to right, then gives the rest to bars and the note.
    fn chosen(fleet_view: &FleetView, indices: &[usize], units: Units, width: u16) -> Self {
        let (mut columns, mut room) = Self::base(fleet_view, units, width);
        let Self { gap, .. } = columns;
        columns.order = [None; 13];
        let parts = indices.iter().filter_map(|index| Column::ALL.get(index.checked_sub(1)?));
        for (slot, column) in columns.order.iter_mut().zip(parts) {
            *slot = Some(*column);
        }
        for column in columns.order.into_iter().flatten() {
            let min_width = columns.min_width(fleet_view, column);
            if room < min_width + gap {
                break;
            }
            room -= min_width + gap;
            *columns.width_mut(column) = min_width;
            if column == Column::Power && width >= 100 && room >= 3 + gap {
                room -= 3 + gap;
                columns.power += 3 + gap;
                columns.has_limits = true;
            }
        }
        columns.distribute_rest(room, fleet_view.fleet.jobs.is_some());
        columns
    }

    /// Returns the minimum width of a column.
    fn min_width(&self, fleet_view: &FleetView, column: Column) -> u16 {
        let extents: &Extents = &fleet_view.extents;
        match column {
            Column::Job | Column::User => 10,
            Column::Devices => extents.devices.clamp(7, 16),
            Column::Bar | Column::Age => 6,
            Column::Percent => 3,
            Column::Sparkline => SPARKLINE.0,
            Column::Memory => {
                let decimals = self.memory_decimals;
                let whole = format!("{:.decimals$}", self.units.convert_gib(extents.memory)).len();
                u16::try_from(whole * 2 + 1).unwrap_or(u16::MAX).max(7)
            }
            Column::MemoryBar | Column::Power | Column::Temperature | Column::Cpu => 4,
            Column::Note => 14,
        }
    }

    const fn width_mut(&mut self, column: Column) -> &mut u16 {
        match column {
            Column::Job => &mut self.job,
            Column::User => &mut self.user,
            Column::Devices => &mut self.strip,
            Column::Bar => &mut self.util,
            Column::Percent => &mut self.percent,
            Column::Sparkline => &mut self.spark,
            Column::MemoryBar => &mut self.memory_bar,
            Column::Memory => &mut self.memory,
            Column::Power => &mut self.power,
            Column::Temperature => &mut self.temperature,
            Column::Cpu => &mut self.cpu,
            Column::Age => &mut self.age,
            Column::Note => &mut self.note,
        }
    }

    /// Returns the visible columns and their widths, from left to right.
    pub(super) fn visible(&self) -> impl Iterator<Item = (Column, u16)> {
        let mut layout = *self;
        let columns = self.order.into_iter().flatten();
        columns
            .map(move |column| (column, *layout.width_mut(column)))
            .filter(|(_, width)| *width > 0)
    }

    /// Lays out columns by importance, then gives the rest to bars and the note.
    pub(super) fn fit(fleet_view: &FleetView, units: Units, width: u16) -> Self {
        let extents: &Extents = &fleet_view.extents;
        let (mut columns, mut room) = Self::base(fleet_view, units, width);
        let memory = columns.min_width(fleet_view, Column::Memory);
        let devices = columns.min_width(fleet_view, Column::Devices);
        let Self { gap, .. } = columns;
        let mut reserve = |column: &mut u16, min_width: u16| {
            if room >= min_width + gap {
                room -= min_width + gap;
                *column = min_width;
            }
        };
        reserve(&mut columns.strip, devices);
        reserve(&mut columns.percent, 3);
        reserve(&mut columns.note, 14);
        reserve(&mut columns.memory, memory);
        reserve(&mut columns.age, 6);
        reserve(&mut columns.util, 6);
        reserve(&mut columns.power, 4);
        reserve(&mut columns.cpu, 4);
        reserve(&mut columns.memory_bar, 4);
        let has_jobs = extents.has_jobs || fleet_view.fleet.jobs.is_some();
        if width >= 100 && has_jobs {
            reserve(&mut columns.job, 10);
        }
        if width >= 100 {
            let mut limit = 0;
            reserve(&mut limit, 3);
            columns.power += if limit > 0 { limit + gap } else { 0 };
            columns.has_limits = limit > 0 && columns.power > 0;
        }
        if width >= 140 {
            reserve(&mut columns.temperature, 4);
            reserve(&mut columns.user, 10);
            reserve(&mut columns.spark, SPARKLINE.0);
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
        let is_last = self.visible().last().is_some_and(|(column, _)| column == Column::Note);
        let rest = room - util - memory;
        let rest = if is_last { rest } else { rest.min(26) };
        self.note += if self.note > 0 { rest } else { 0 };
    }

    /// Cuts or pads a cell to its column; the last column is not padded.
    pub(super) fn fit_cell(&self, (column, width): (Column, u16), cell: Line) -> Line {
        if self.visible().last().is_some_and(|(last, _)| last == column) {
            return cell;
        }
        let cell = cell.truncated(width);
        let missing = width.saturating_sub(cell.width());
        cell.gap(missing)
    }

    /// Returns the width of the name and owner columns, gaps included.
    pub(super) fn front_width(&self) -> u16 {
        let owners = self.visible().take_while(|(column, _)| column.is_owner());
        owners.fold(self.name, |sum, (_, width)| sum + width + self.gap)
    }

    /// Returns the title of a column; units follow the display options.
    fn title(&self, column: Column, default: &'static str) -> &'static str {
        if column == Column::Memory {
            self.units.unit_name()
        } else if column == Column::Temperature && self.units.temperature_unit() == "F" {
            "MAXF"
        } else {
            default
        }
    }

    /// Draws the titles; the sort column is highlighted and has an arrow.
    pub(super) fn titles(&self, order: SortOrder) -> Line {
        let titles = TitleWriter { gap: self.gap, order };
        let line = titles.name_title(Line::new().gap(MARK_WIDTH), "NODE", self.name);
        self.visible().fold(line, |line, (column, width)| {
            let specs = Column::ALL.into_iter().zip(COLUMN_SPECS.iter().skip(1));
            let found = specs.into_iter().find(|(known, _)| *known == column);
            let Some((_, ColumnSpec { title, sort, .. })) = found else { return line };
            let is_kilowatts = column == Column::Power && self.is_kilowatts;
            let title = if is_kilowatts { "kW" } else { self.title(column, title) };
            if column.is_left_aligned() {
                titles.left_title(line, title, sort, width)
            } else {
                titles.right_title(line, title, sort, width)
            }
        })
    }
}

struct TitleWriter {
    gap: u16,
    order: SortOrder,
}

impl TitleWriter {
    fn name_title(&self, line: Line, word: &str, width: u16) -> Line {
        let (word, tone) = self.title_with_arrow(word, "node", width);
        line.left_aligned(&word, width, tone).clickable(Click::Column("node"))
    }

    fn left_title(&self, line: Line, word: &str, column: &'static str, width: u16) -> Line {
        let (word, tone) = self.title_with_arrow(word, column, width);
        line.gap(self.gap).left_aligned(&word, width, tone).clickable(Click::Column(column))
    }

    fn right_title(&self, line: Line, word: &str, column: &'static str, width: u16) -> Line {
        let (word, tone) = self.title_with_arrow(word, column, width);
        line.gap(self.gap).right_aligned(&word, width, tone).clickable(Click::Column(column))
    }

    /// Returns the title with its arrow; the default order has none.
    fn title_with_arrow(&self, title: &str, column: &str, width: u16) -> (String, Tone) {
        let is_default_order = self.order == SortOrder::by("node");
        if column != self.order.column || is_default_order {
            return (title.to_owned(), Tone::Faint);
        }
        let arrow = arrow(self.order);
        let full = format!("{title}{arrow}");
        let title = if width_of(&full) <= width { full } else { title.to_owned() };
        (title, Tone::Accent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_columns_keep_their_order_and_the_rightmost_are_dropped() {
        let titles = |names: &[&str], width| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let columns = ColumnLayout::of(&FleetView::default(), &names, Units::default(), width);
            let line = columns.titles(SortOrder::by("node"));
            assert!(line.width() <= width, "{names:?} {width}");
            line.plain_text().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(titles(&["mem", "util", "node", "cpu"], 80), "NODE GiB % CPU");
        assert_eq!(titles(&["note", "mem", "temp"], 80), "NODE NOTE GiB MAX°");
        assert_eq!(titles(&["user", "job", "age", "power"], 30), "NODE USER JOB");
        for width in 6..200 {
            titles(&COLUMN_SPECS.map(|spec| spec.name), width);
        }
    }

    #[test]
    fn columns_never_exceed_the_width() {
        for width in 0..400 {
            let columns = ColumnLayout::fit(&FleetView::default(), Units::default(), width);
            let titles = columns.titles(SortOrder::by("util")).width();
            // The mark and four characters of the name are always shown.
            assert!(titles <= width.max(MARK_WIDTH + 4), "{width}: {titles}");
        }
    }
}
