//! The columns of the node list: one declaration each, and which of them fit.

use crate::fleet::Totals;
use crate::insight::FleetView;
use crate::model::Percent;
use crate::query::SortOrder;
use crate::text::width_of;
use crate::ui::RenderContext;
use crate::ui::input::Click;
use crate::ui::views::fleet::node_cells::{
    self, NodeCells, NumberFormats, memory_text, power_text,
};
use crate::ui::views::fleet::node_series::SPARKLINE;
use crate::ui::views::fleet::node_sort::{arrow, hottest, to_f32};
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{Units, or_unknown, percent, percent_value};

/// A column of the node list after the name.
pub(super) struct FleetColumn {
    pub(super) spec: ColumnSpec,
    is_left_aligned: bool,
    /// Its place in the order in which columns get room.
    rank: u8,
    /// If not chosen, it is shown only in tables of at least this width.
    from_width: u16,
    /// Returns its least width.
    width: fn(&FleetView, NumberFormats) -> u16,
    pub(super) content: FleetCell,
}

/// How a column draws its cells.
pub(super) enum FleetCell {
    /// Who uses the node.
    Owner(fn(&mut NodeCells<'_>, u16) -> Line),
    /// Totals of a node or a group.
    Totals(fn(RenderContext<'_>, &Totals, NumberFormats, u16) -> Line),
    /// Other values of a node.
    Node(fn(&mut NodeCells<'_>, u16) -> Line),
    /// The age of the sample.
    Age,
    /// Problems, or the counts of a group.
    Note,
}

impl FleetColumn {
    const fn new(
        spec: ColumnSpec,
        rank: u8,
        width: fn(&FleetView, NumberFormats) -> u16,
        content: FleetCell,
    ) -> Self {
        Self { spec, is_left_aligned: false, rank, from_width: 0, width, content }
    }

    const fn left(self) -> Self {
        Self { is_left_aligned: true, ..self }
    }

    const fn in_tables_from(self, from_width: u16) -> Self {
        Self { from_width, ..self }
    }

    /// Returns true if it shows who uses a node.
    pub(super) const fn is_owner(&self) -> bool {
        matches!(self.content, FleetCell::Owner(_))
    }
}

/// The name of the node; always the first column.
const NODE: ColumnSpec =
    ColumnSpec::new("node", "NODE", "node", "node name, always first").always();

/// The columns after the name, in the order of the screen.
static COLUMNS: [FleetColumn; 13] = [
    FleetColumn::new(
        ColumnSpec::new("job", "JOB", "job", "jobs on the node"),
        10,
        |_, _| 10,
        FleetCell::Owner(node_cells::jobs),
    )
    .left()
    .in_tables_from(WIDE_WIDTH),
    FleetColumn::new(
        ColumnSpec::new("user", "USER", "user", "users of its devices"),
        12,
        |_, _| 10,
        FleetCell::Owner(node_cells::users),
    )
    .left()
    .in_tables_from(WIDEST_WIDTH),
    FleetColumn::new(
        ColumnSpec::new("devices", "DEVICES", "busy", "one cell per device, by utilization"),
        1,
        |fleet_view, _| fleet_view.extents.devices.clamp(7, 16),
        FleetCell::Owner(node_cells::devices),
    )
    .left(),
    FleetColumn::new(
        ColumnSpec::new("bar", "UTIL", "util", "mean utilization as a bar"),
        6,
        |_, _| 6,
        FleetCell::Totals(|context, totals, _, width| {
            let util = to_f32(totals.utilization);
            Line::new().bar(util, width, context.options.load.tone(util))
        }),
    )
    .left(),
    FleetColumn::new(
        ColumnSpec::new("util", "%", "util", "mean utilization in percent"),
        2,
        |_, _| 3,
        FleetCell::Totals(|_, totals, _, width| right(&percent(to_f32(totals.utilization)), width)),
    ),
    FleetColumn::new(
        ColumnSpec::new("last", "LAST 60s", "util", "utilization over the last minute"),
        13,
        |_, _| SPARKLINE.0,
        FleetCell::Node(node_cells::sparkline),
    )
    .left()
    .in_tables_from(WIDEST_WIDTH),
    FleetColumn::new(
        ColumnSpec::new("membar", "MEM", "mem", "device memory as a bar"),
        9,
        |_, _| 4,
        FleetCell::Totals(|context, totals, _, width| {
            let used = totals.memory_used.zip(totals.memory_total);
            let share = to_f32(used.and_then(|(used, total)| Percent::of(used.0, total.0)));
            Line::new().bar(share, width, context.options.memory.tone(share))
        }),
    )
    .left(),
    FleetColumn::new(
        ColumnSpec::new("mem", "GiB", "mem", "device memory, used and total"),
        4,
        |fleet_view, NumberFormats { units, memory_decimals: decimals, .. }| {
            let largest = units.convert_gib(fleet_view.extents.memory);
            let whole = format!("{largest:.decimals$}").len();
            u16::try_from(whole * 2 + 1).unwrap_or(u16::MAX).max(7)
        },
        FleetCell::Totals(|_, totals, formats, width| {
            right(&memory_text(totals, formats, width), width)
        }),
    ),
    FleetColumn::new(
        ColumnSpec::new("power", "W", "power", "power draw, with the limit if it fits"),
        7,
        |_, _| 4,
        FleetCell::Totals(|_, totals, formats, width| {
            right(&power_text(totals, formats, width), width)
        }),
    ),
    FleetColumn::new(
        ColumnSpec::new("temp", "MAX°", "temp", "hottest device"),
        11,
        |_, _| 4,
        FleetCell::Node(|cells, width| {
            let units = cells.context.options.units();
            let heat = hottest(cells.node, cells.member);
            right(&or_unknown(heat, |celsius| units.temperature_text(celsius)), width)
        }),
    )
    .in_tables_from(WIDEST_WIDTH),
    FleetColumn::new(
        ColumnSpec::new("cpu", "CPU", "cpu", "CPU utilization"),
        8,
        |_, _| 4,
        FleetCell::Node(|cells, width| {
            let cpu = percent_value(cells.node.host.cpu);
            right(&or_unknown(cpu, |cpu| format!("{cpu:.0}%")), width)
        }),
    ),
    FleetColumn::new(
        ColumnSpec::new("age", "AGE", "age", "age of the sample"),
        5,
        |_, _| 6,
        FleetCell::Age,
    ),
    FleetColumn::new(
        ColumnSpec::new("note", "NOTE", "note", "problems"),
        3,
        |_, _| 14,
        FleetCell::Note,
    )
    .left(),
];
/// From this width on, jobs and power limits are shown.
const WIDE_WIDTH: u16 = 100;
/// From this width on, all columns are shown.
const WIDEST_WIDTH: u16 = 140;
/// The columns up to this rank get room before power limits do.
const RANK_BEFORE_LIMITS: u8 = 10;
/// The width that a power limit adds to the power.
const LIMIT_WIDTH: u16 = 3;

fn right(text: &str, width: u16) -> Line {
    Line::new().right_aligned(text, width, Tone::Plain)
}

/// Returns the columns that can be chosen, and the fixed one.
pub(crate) fn column_specs() -> Vec<ColumnSpec> {
    [NODE].into_iter().chain(COLUMNS.iter().map(|column| column.spec)).collect()
}

/// The visible columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnLayout {
    /// Indices in [`COLUMNS`] and widths, from left to right.
    shown: Vec<(usize, u16)>,
    /// Width that is not assigned.
    room: u16,
    pub(super) gap: u16,
    /// Width of the name.
    pub(super) name: u16,
    pub(super) formats: NumberFormats,
    /// The values of each row update once in this many seconds.
    pub(super) refresh_period: usize,
}

/// The width of the status mark before the name, gap included.
pub(super) const MARK_WIDTH: u16 = 2;

impl ColumnLayout {
    /// Returns the configured columns that fit; if none are configured, the most important ones that fit.
    pub(super) fn of(fleet_view: &FleetView, names: &[String], units: Units, width: u16) -> Self {
        let extents = &fleet_view.extents;
        let name = extents.name.clamp(4, (width / 6).clamp(4, 28));
        let mut layout = Self {
            shown: Vec::new(),
            room: width.saturating_sub(MARK_WIDTH + name),
            gap: if width >= 110 { 2 } else { 1 },
            name,
            formats: NumberFormats {
                units,
                memory_decimals: units.decimals(extents.memory),
                is_kilowatts: extents.power >= 2_000.0,
                has_limits: false,
            },
            refresh_period: 0,
        };
        if names.is_empty() {
            layout.fit(fleet_view, width);
        } else {
            layout.fit_chosen(fleet_view, names, width);
        }
        layout.distribute_rest(fleet_view.fleet.jobs.is_some());
        layout
    }

    fn reserve(&mut self, fleet_view: &FleetView, (index, column): (usize, &FleetColumn)) -> bool {
        let width = (column.width)(fleet_view, self.formats);
        let fits = self.room >= width + self.gap;
        if fits {
            self.room -= width + self.gap;
            self.shown.push((index, width));
        }
        fits
    }

    /// Lays out configured columns from left to right.
    fn fit_chosen(&mut self, fleet_view: &FleetView, names: &[String], width: u16) {
        for name in names {
            let mut columns = COLUMNS.iter().enumerate();
            let Some(column) = columns.find(|(_, column)| column.spec.name == name) else {
                continue;
            };
            if !self.reserve(fleet_view, column) {
                break;
            }
            if name == "power" && width >= WIDE_WIDTH {
                self.reserve_limits();
            }
        }
    }

    /// Lays out columns by rank.
    fn fit(&mut self, fleet_view: &FleetView, width: u16) {
        let has_jobs = fleet_view.extents.has_jobs || fleet_view.fleet.jobs.is_some();
        let is_wanted = |(_, column): &(usize, &FleetColumn)| {
            width >= column.from_width && (has_jobs || column.spec.name != "job")
        };
        let mut columns: Vec<_> = COLUMNS.iter().enumerate().filter(is_wanted).collect();
        columns.sort_by_key(|(_, column)| column.rank);
        let (first, last): (Vec<_>, Vec<_>) =
            columns.into_iter().partition(|(_, column)| column.rank <= RANK_BEFORE_LIMITS);
        for column in first {
            self.reserve(fleet_view, column);
        }
        if width >= WIDE_WIDTH {
            self.reserve_limits();
        }
        for column in last {
            self.reserve(fleet_view, column);
        }
        self.shown.sort_unstable();
    }

    /// Widens the power for its limit, if there is room.
    fn reserve_limits(&mut self) {
        let by = LIMIT_WIDTH + self.gap;
        if self.room >= by && self.widen("power", by) > 0 {
            self.formats.has_limits = true;
        }
    }

    /// Widens a column, if it is visible; returns by how much.
    fn widen(&mut self, name: &str, by: u16) -> u16 {
        let is_named =
            |index: usize| COLUMNS.get(index).is_some_and(|column| column.spec.name == name);
        let shown = self.shown.iter_mut().find(|(index, _)| is_named(*index));
        let by = if let Some((_, width)) = shown {
            *width += by;
            by
        } else {
            0
        };
        self.room -= by;
        by
    }

    /// Gives the room that is left to names of jobs, to bars and to the note.
    fn distribute_rest(&mut self, has_names: bool) {
        if has_names {
            self.widen("job", (self.room / 3).min(12));
        }
        let room = self.room;
        self.widen("bar", (room / 4).min(14));
        self.widen("membar", (room / 8).min(8));
        // A wide note in the middle would put too large a gap before the next column.
        let is_last = self.is_last("note");
        self.widen("note", if is_last { self.room } else { self.room.min(26) });
    }

    /// Returns the visible columns and their widths, from left to right.
    pub(super) fn visible(&self) -> impl Iterator<Item = (&'static FleetColumn, u16)> {
        self.shown.iter().filter_map(|(index, width)| Some((COLUMNS.get(*index)?, *width)))
    }

    /// Returns the width of a column, 0 if it is hidden.
    pub(super) fn width_of(&self, name: &str) -> u16 {
        let column = self.visible().find(|(column, _)| column.spec.name == name);
        column.map_or(0, |(_, width)| width)
    }

    fn is_last(&self, name: &str) -> bool {
        self.visible().last().is_some_and(|(last, _)| last.spec.name == name)
    }

    /// Cuts or pads a note to its column; the last column is not padded.
    pub(super) fn fit_note(&self, note: Line, width: u16) -> Line {
        if self.is_last("note") {
            return note;
        }
        let note = note.truncated(width);
        let missing = width.saturating_sub(note.width());
        note.gap(missing)
    }

    /// Returns the width of the name and owner columns, gaps included.
    pub(super) fn front_width(&self) -> u16 {
        let owners = self.visible().take_while(|(column, _)| column.is_owner());
        owners.fold(self.name, |sum, (_, width)| sum + width + self.gap)
    }

    /// Returns the title of a column; units follow the display options.
    fn title(&self, spec: &ColumnSpec) -> &'static str {
        match spec.name {
            "mem" => self.formats.units.unit_name(),
            "temp" if self.formats.units.is_fahrenheit => "MAXF",
            "power" if self.formats.is_kilowatts => "kW",
            _ => spec.title,
        }
    }

    /// Draws the titles; the sort column is highlighted and has an arrow.
    pub(super) fn titles(&self, order: SortOrder) -> Line {
        let title = |line: Line, title: &'static str, sort: &'static str, (width, is_left)| {
            let (text, tone) = title_with_arrow(order, title, sort, width);
            let line = if is_left {
                line.left_aligned(&text, width, tone)
            } else {
                line.right_aligned(&text, width, tone)
            };
            line.clickable(Click::Column(sort))
        };
        let name = title(Line::new().gap(MARK_WIDTH), NODE.title, NODE.sort, (self.name, true));
        self.visible().fold(name, |line, (column, width)| {
            let text = self.title(&column.spec);
            let line = line.gap(self.gap);
            title(line, text, column.spec.sort, (width, column.is_left_aligned))
        })
    }
}

/// Returns a title with its arrow; the default order has none.
fn title_with_arrow(order: SortOrder, title: &str, column: &str, width: u16) -> (String, Tone) {
    if column != order.column || order == SortOrder::by("node") {
        return (title.to_owned(), Tone::Faint);
    }
    let full = format!("{title}{}", arrow(order));
    let title = if width_of(&full) <= width { full } else { title.to_owned() };
    (title, Tone::Accent)
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
            titles(&column_specs().iter().map(|spec| spec.name).collect::<Vec<_>>(), width);
        }
    }

    #[test]
    fn columns_never_exceed_the_width() {
        for width in 0..400 {
            let columns = ColumnLayout::of(&FleetView::default(), &[], Units::default(), width);
            let titles = columns.titles(SortOrder::by("util")).width();
            // The mark and four characters of the name are always shown.
            assert!(titles <= width.max(MARK_WIDTH + 4), "{width}: {titles}");
        }
    }
}
