//! The columns of the node list: one declaration each, and which of them fit.

use std::sync::Arc;

use crate::render_context::RenderContext;
use crate::views::fleet::group::GroupMember;
use crate::views::fleet::grouping::Grouping;
use crate::views::fleet::node_cells::{down_cell, jobs_text, memory_text, power_text};
use crate::views::fleet::node_series::SPARKLINE;
use crate::views::fleet::node_sort::{hottest, is_rising};
use crate::widgets::line::{Line, Symbol, Tone};
use crate::widgets::number_format::{percent_value, share_of};
use crate::widgets::table::{self, Cell, Table, TableColumn, TableRoom};
use gtop_fleet::insight::FleetView;
use gtop_fleet::metrics::{HOST, help_of};
use gtop_fleet::query::SortOrder;
use gtop_fleet::settings::ColumnSpec;
use gtop_fleet::{JobLookup, Node, NodeHoldings, Totals};
use gtop_local::text::{UNKNOWN, width_of};
use gtop_local::time::Timestamp;
use gtop_model::{Percent, RequestedJobs};

/// From this width on, jobs and users are shown: whose a node is comes before power and CPU.
const OWNERS_WIDTH: u16 = 60;
/// From this width on, power limits are shown.
const WIDE_WIDTH: u16 = 100;
/// From this width on, all columns are shown.
const WIDEST_WIDTH: u16 = 140;
/// What jobs and notes get before bars do.
const MORE_JOB_WIDTH: u16 = 6;
const MORE_NOTE_WIDTH: u16 = 6;
/// The width of the power without its limit.
const POWER_WIDTH: u16 = 4;
/// The width that a power limit adds to the power, besides a gap.
const LIMIT_WIDTH: u16 = 3;
/// From this width on, the title of idle-held devices is spelt out.
const LONG_TITLE_WIDTH: u16 = 120;
/// The width of the status mark before the name, gap included.
pub(super) const MARK_WIDTH: u16 = 2;

/// What `FREE` counts.
pub(super) const FREE_HELP: &str = "devices free to use: idle, unused, on a node that takes jobs";
/// What `MOST` counts.
pub(super) const FREE_ON_ONE_HELP: &str = "of a group: the most free devices on one node";
/// What `DOWN` counts.
pub(super) const DOWN_HELP: &str = "devices that cannot be used now: faulty, unavailable, or on a node that is down or \
     stale; ? or + where the devices of a node are not known";

const PENDING_HELP: &str =
    "of a partition: jobs and array tasks that wait there, if those of all users are listed";

/// What cells are drawn from, apart from their row.
pub(super) struct FleetTable<'a> {
    context: RenderContext<'a>,
    jobs: &'a JobLookup,
    memory_decimals: usize,
    is_kilowatts: bool,
    width: u16,
    grouped: GroupedBy,
}

/// The grouping of the rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupedBy {
    pub(super) grouping: Grouping,
    /// The width of the longest title if all groups are folded, so that no row is a node.
    pub(super) folded_width: Option<u16>,
}

/// A node in the list, or the header of a group.
#[derive(Default)]
pub(super) struct FleetRow {
    pub(super) name: String,
    pub(super) name_tone: Tone,
    pub(super) totals: Totals,
    /// Its devices by state; only old values count as such here. `None` if no column shows them.
    pub(super) counts: Option<Totals>,
    /// The number of pending jobs that may start in the partition; `None` for a node and other groups.
    pub(super) pending: Option<usize>,
    /// The number of nodes of a group, or that a node is in several.
    pub(super) nodes: String,
    /// `None` for a group.
    pub(super) values: Option<Arc<NodeValues>>,
    pub(super) age: String,
    pub(super) age_tone: Tone,
    pub(super) note: Line,
}

/// What only a node has.
#[derive(Clone, Debug)]
pub(super) struct NodeValues {
    /// When they were measured.
    pub(super) taken_at: Option<Timestamp>,
    pub(super) totals: Totals,
    /// Its devices by state; `None` if no column shows them.
    pub(super) counts: Option<Totals>,
    pub(super) holdings: Arc<NodeHoldings>,
    /// One mark per device.
    pub(super) marks: Vec<(Symbol, Tone)>,
    /// The utilization over the last minute.
    pub(super) series: Vec<Option<f32>>,
    /// The temperature of its hottest device.
    pub(super) hottest: Option<f32>,
    pub(super) cpu: Option<f32>,
}

impl NodeValues {
    /// Returns the values of the part of a node that is meant, with its counts, but without marks and series.
    pub(super) fn of(node: &Node, member: &GroupMember, counts: Option<Totals>) -> Self {
        Self {
            taken_at: node.taken_at(),
            totals: Totals::of_part(node, member.devices.as_deref()),
            counts,
            holdings: Arc::clone(&node.holdings),
            marks: Vec::new(),
            series: Vec::new(),
            hottest: hottest(node, member),
            cpu: percent_value(node.host.cpu),
        }
    }
}

type Column<'a> = TableColumn<FleetTable<'a>, FleetRow>;
pub(super) type LaidOutFleet<'a> = Table<'a, FleetTable<'a>, FleetRow>;

/// Returns the columns that can be chosen, and the fixed one.
pub fn column_specs() -> Vec<ColumnSpec> {
    table::specs(&FleetTable::COLUMNS).to_vec()
}

/// Returns true for the columns of the name, the owners and the devices of a node.
pub(super) fn is_in_front(name: &str) -> bool {
    matches!(name, "node" | "job" | "user" | "devices")
}

impl<'a> FleetTable<'a> {
    const COLUMNS: [Column<'a>; 22] = [
        Column::left("NODE", 0, |_, row, _| Cell::toned(row.name.clone(), row.name_tone))
            .named("node", "node", "node name, always first")
            .sized(|table, _| match table.grouped.folded_width {
                Some(width) => width.clamp(8, (table.width / 3).max(8)),
                None => table.context.view.extents.name.clamp(4, (table.width / 6).clamp(4, 28)),
            })
            .or_titled(&["GROUP"])
            .titled(|table, _| {
                if table.grouped.folded_width.is_some() { "GROUP" } else { "NODE" }.into()
            })
            .keeps_tone(),
        Column::left("JOB", 0, |table, row, place| {
            row.of_node(|node| jobs_text(table.jobs, &node.holdings, place.width).into())
        })
        .named("job", "job", "jobs on the node")
        .rank(6)
        .shown_from(OWNERS_WIDTH)
        .sized(|table, _| {
            let FleetView { extents, fleet, .. } = table.context.view;
            let is_chosen = !table.context.options.columns.fleet.is_empty();
            let has_jobs = extents.has_jobs || fleet.jobs.is_some() || is_chosen;
            table.node_width(if has_jobs { 10 } else { 0 })
        })
        .wider(8, |table, room| {
            let has_names = table.context.view.fleet.jobs.is_some();
            if has_names { room.min(MORE_JOB_WIDTH) } else { 0 }
        }),
        Column::left("USER", 0, |_, row, _| {
            row.of_node(|node| Cell::of(node.holdings.users_text(), |users| users))
        })
        .named("user", "user", "users of its devices")
        .rank(7)
        .shown_from(OWNERS_WIDTH)
        .sized(|table, _| table.node_width(table.context.view.extents.users.clamp(5, 12))),
        Column::left("DEVICES", 0, |_, row, place| {
            row.of_node(|node| Cell::Line(Line::new().strip(node.marks.clone(), place.width)))
        })
        .named("devices", "busy", "one cell per device, by utilization")
        .rank(1)
        .sized(|table, _| table.node_width(table.context.view.extents.devices.clamp(7, 16))),
        Column::right("NODES", 0, |_, row, _| row.nodes.clone().into())
            .named("nodes", "", "nodes of the group; `shared` on a node that is in several")
            .rank(3)
            .sized(|table, _| table.count_width("nodes", 6)),
        Column::right("BUSY", 0, |_, row, _| row.count(Totals::known_busy, Tone::Plain))
            .named("busy", "busy", "devices at 5 % utilization or more")
            .rank(1)
            .sized(|table, _| table.count_width("busy", 4)),
        Column::right("HELD", 0, |_, row, _| row.count(Totals::known_idle_held, Tone::Plain))
            .named("idle-held", "idle-held", "idle-held devices: allocated or in use, and idle")
            .rank(1)
            .sized(|table, _| {
                table.count_width("idle-held", if table.width >= LONG_TITLE_WIDTH { 9 } else { 4 })
            })
            .titled(|_, width| if width < 9 { "HELD" } else { "IDLE-HELD" }.into()),
        Column::right("FREE", 0, |_, row, _| row.count(Totals::known_free, Tone::Strong))
            .named("free", "free", FREE_HELP)
            .rank(1)
            .sized(|table, _| table.count_width("free", 4)),
        Column::right("MOST", 0, |_, row, _| match row.counts {
            Some(counts) if row.values.is_none() => {
                Cell::count(counts.known_free().map(|_| counts.max_free), Tone::Plain)
            }
            Some(_) | None => "".into(),
        })
        .named("most-free", "", FREE_ON_ONE_HELP)
        .rank(6)
        .sized(|table, _| if table.is_grouped_by(Grouping::None) { 0 } else { 4 }),
        Column::right("DOWN", 0, |_, row, _| {
            row.counts.as_ref().map_or_else(|| UNKNOWN.into(), down_cell)
        })
        .named("down", "", DOWN_HELP)
        .rank(1)
        .sized(|table, _| table.count_width("down", 4)),
        Column::right("?", 0, |_, row, _| row.count(Totals::known_unknown, Tone::Plain))
            .named("unknown", "", "devices whose load or users are unknown")
            .rank(1)
            .sized(|table, _| {
                let has_any = table.context.view.totals.known_unknown() > Some(0);
                if has_any { table.count_width("unknown", 3) } else { 0 }
            }),
        Column::right("PEND", 0, |_, row, _| match row.pending {
            Some(count) => count.to_string().into(),
            None => "".into(),
        })
        .named("pending", "", PENDING_HELP)
        .rank(6)
        .sized(|table, _| {
            let list = table.context.view.fleet.jobs.as_ref();
            let has_all = list.is_some_and(|list| list.requested == RequestedJobs::All);
            if has_all && table.is_grouped_by(Grouping::Partition) { 4 } else { 0 }
        }),
        Column::left("UTIL", 6, |table, row, _| Cell::Bar(row.util(), table.load_tone(row)))
            .named("bar", "util", "mean utilization of its devices as a bar")
            .rank(8),
        Column::right("%", 3, |_, row, _| Cell::percent(row.util()))
            .named("util", "util", "mean utilization of its devices, in percent")
            .rank(2),
        Column::right("LAST 60s", 0, |table, row, _| {
            row.of_node(|node| {
                Cell::Line(Line::new().sparkline(node.series.clone(), table.load_tone(row)))
            })
        })
        .named("last", "util", "utilization over the last minute, 0 to 100 %")
        .rank(14)
        .shown_from(WIDEST_WIDTH)
        .sized(|table, _| table.node_width(SPARKLINE.0)),
        Column::left("MEM", 4, |table, row, _| {
            let ((used, total), _) = row.totals.shown_memory();
            let share = share_of(used, total);
            Cell::Bar(share, table.context.options.memory.tone(share))
        })
        .named("membar", "mem", "device memory in use, of the total, as a bar")
        .rank(11),
        Column::right("GiB", 0, |table, row, place| {
            let formats = (table.context.options.units(), table.memory_decimals);
            memory_text(&row.totals, formats, place.width).into()
        })
        .named("mem", "mem", "device memory of all its devices, in use/total; * that of the host")
        .or_titled(&["MiB", "GB", "MB"])
        .rank(4)
        .sized(|table, _| {
            let largest =
                table.context.options.units().convert_gib(table.context.view.extents.memory);
            let whole = format!("{largest:.0$}", table.memory_decimals).len();
            u16::try_from(whole * 2 + 1).unwrap_or(u16::MAX).max(7)
        })
        .titled(|table, _| table.context.options.units().unit_name().into()),
        Column::right("W", POWER_WIDTH, |table, row, place| {
            let formats = (table.is_kilowatts, place.width > POWER_WIDTH);
            power_text(&row.totals, formats, place.width).into()
        })
        .named("power", "power", "power draw in watts or kilowatts; /limit if it fits")
        .or_titled(&["kW"])
        .rank(9)
        .wider(12, |table, room| {
            let limit = LIMIT_WIDTH + table.gap();
            if table.width >= WIDE_WIDTH && room >= limit { limit } else { 0 }
        })
        .titled(|table, _| if table.is_kilowatts { "kW" } else { "W" }.into()),
        Column::right("MAX°", 0, |table, row, _| {
            let units = table.context.options.units();
            row.of_node(|node| Cell::of(node.hottest, |celsius| units.temperature_text(celsius)))
        })
        .named("temp", "temp", "temperature of the hottest device")
        .or_titled(&["MAXF"])
        .rank(13)
        .shown_from(WIDEST_WIDTH)
        .sized(|table, _| table.node_width(4))
        .titled(|table, _| {
            if table.context.options.units().is_fahrenheit { "MAXF" } else { "MAX°" }.into()
        }),
        Column::right("CPU", 0, |_, row, _| {
            row.of_node(|node| Cell::of(node.cpu, |cpu| format!("{cpu:.0}%")))
        })
        .named("cpu", "cpu", help_of(HOST, "cpu"))
        .rank(10)
        .sized(|table, _| table.node_width(4)),
        Column::right("AGE", 0, |_, row, _| Cell::toned(row.age.clone(), row.age_tone))
            .named("age", "age", "age of the numbers: how long ago they were measured")
            .rank(5)
            .sized(|table, _| table.node_width(6))
            .keeps_tone(),
        Column::left("NOTE", 14, |_, row, _| Cell::Line(row.note.clone()))
            .named("note", "note", "problems, and what is idle or free; i explains each")
            .rank(3)
            .wider(7, |table, room| table.node_width(room.min(MORE_NOTE_WIDTH)))
            .keeps_tone(),
    ];

    /// Lays out the configured columns that fit; if none are configured, the most important ones that fit.
    pub(super) fn laid_out(
        context: RenderContext<'a>,
        jobs: &'a JobLookup,
        grouped: GroupedBy,
        width: u16,
    ) -> LaidOutFleet<'a> {
        let FleetView { extents, fleet, .. } = context.view;
        let memory_decimals = context.options.units().decimals(extents.memory);
        let is_kilowatts = extents.power >= 2_000.0;
        let table = Self { context, jobs, memory_decimals, is_kilowatts, width, grouped };
        let room = TableRoom::new(width, MARK_WIDTH, table.gap());
        let mut table = Table::fit(&Self::COLUMNS, table, &context.options.columns.fleet, room);
        // What is left goes to names of jobs, to bars and to the note.
        if fleet.jobs.is_some() {
            table.widen("job", (table.spare / 3).min(12));
        }
        let spare = table.spare;
        table.widen("bar", (spare / 4).min(14));
        table.widen("membar", (spare / 8).min(8));
        table.widen_last("note", 26);
        table
    }

    const fn gap(&self) -> u16 {
        if self.width >= 110 { 2 } else { 1 }
    }

    /// Returns the width of a column of counts: of groups and their nodes, or chosen.
    fn count_width(&self, name: &str, title: u16) -> u16 {
        let is_chosen = self.context.options.columns.fleet.iter().any(|chosen| chosen == name);
        if self.is_grouped_by(Grouping::None) && !is_chosen {
            return 0;
        }
        width_of(&self.context.view.totals.devices.to_string()).max(title)
    }

    /// Returns the width of a column that only nodes fill.
    const fn node_width(&self, width: u16) -> u16 {
        if self.grouped.folded_width.is_some() { 0 } else { width }
    }

    pub(super) fn is_grouped_by(&self, grouping: Grouping) -> bool {
        self.grouped.grouping == grouping
    }

    fn load_tone(&self, row: &FleetRow) -> Tone {
        self.context.options.load.tone(row.util())
    }
}

impl FleetRow {
    fn util(&self) -> Option<f32> {
        self.totals.utilization.map(Percent::get)
    }

    /// Makes a cell of a count, in this tone unless it is zero.
    fn count(&self, read: fn(&Totals) -> Option<usize>, tone: Tone) -> Cell {
        Cell::count(self.counts.as_ref().and_then(read), tone)
    }

    /// Makes a cell of a node, blank for a group.
    fn of_node(&self, cell: impl FnOnce(&NodeValues) -> Cell) -> Cell {
        self.values.as_deref().map_or_else(|| "".into(), cell)
    }
}

/// Draws the titles, with the sort column marked.
pub(super) fn titles(table: &LaidOutFleet<'_>, order: SortOrder) -> Line {
    // Without the column itself, one that shows the same values stands for it.
    let is_shown = table.width_of(order.column) > 0;
    // The default order has no arrow.
    let is_default = order == SortOrder::by("node");
    table.sorted_titles(
        |spec| {
            let by = if is_shown { spec.name } else { spec.sort };
            by == order.column && !is_default
        },
        is_rising(order),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display_options::DisplayOptions;

    /// Returns the titles of a table with these columns, or of the usual ones.
    fn titles(names: &[&str], width: u16) -> Line {
        sorted_titles(names, width, if names.is_empty() { "util" } else { "node" })
    }

    fn sorted_titles(names: &[&str], width: u16, order: &'static str) -> Line {
        let mut options = DisplayOptions::default();
        options.columns.fleet = names.iter().map(|name| (*name).to_owned()).collect();
        let (view, jobs) = (FleetView::default(), JobLookup::default());
        let zone = jiff::tz::TimeZone::UTC;
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        let table = FleetTable::laid_out(context, &jobs, GroupedBy::default(), width);
        super::titles(&table, SortOrder::by(order))
    }

    #[test]
    fn bars_give_way_to_jobs_and_notes() {
        let (options, zone) = (DisplayOptions::default(), jiff::tz::TimeZone::UTC);
        let mut view = FleetView::default();
        view.fleet.jobs = Some(Arc::default());
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        let jobs = JobLookup::default();
        for width in 0..300 {
            let table = FleetTable::laid_out(context, &jobs, GroupedBy::default(), width);
            let widths = ["job", "note"].map(|name| table.width_of(name));
            for bar in ["bar", "membar", "last"] {
                let is_cut = widths[0] < 10 + MORE_JOB_WIDTH || widths[1] < 14 + MORE_NOTE_WIDTH;
                assert!(table.width_of(bar) == 0 || !is_cut, "{width} {bar} {widths:?}");
            }
        }
    }

    #[test]
    fn only_the_sorted_column_is_marked() {
        let marked = |names: &[&str], order| {
            let mut line = sorted_titles(names, 400, order);
            line.spans.retain(|span| span.tone == Tone::Accent);
            line.plain_text().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let all: Vec<&str> = column_specs().iter().map(|spec| spec.name).collect();
        for (order, title) in
            [("free", "FRE↓"), ("util", "%↓"), ("mem", "GiB↓"), ("busy", "BUS↓"), ("user", "USER↑")]
        {
            assert_eq!(marked(&all, order), [title], "{order}");
        }
        assert_eq!(marked(&["bar"], "util"), ["UTIL↓"]);
        for spec in column_specs().iter().filter(|spec| ["down", "unknown"].contains(&spec.name)) {
            assert_eq!(spec.sort, "", "{}", spec.name);
        }
    }

    #[test]
    fn folded_groups_have_no_columns_of_nodes() {
        let options = DisplayOptions::default();
        let (view, jobs) = (FleetView::default(), JobLookup::default());
        let zone = jiff::tz::TimeZone::UTC;
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        let titles = |folded_width| {
            let grouped = GroupedBy { grouping: Grouping::Partition, folded_width };
            let table = FleetTable::laid_out(context, &jobs, grouped, 200);
            super::titles(&table, SortOrder::by("node")).plain_text()
        };
        let (open, folded) = (titles(None), titles(Some(10)));
        assert!(folded.trim_start().starts_with("GROUP        NODES"), "{folded}");
        for title in ["NODE ", "USER", "DEVICES", "LAST 60s", "MAX°", "CPU", "AGE"] {
            assert!(open.contains(title) && !folded.contains(title), "{title}: {open}\n{folded}");
        }
    }

    #[test]
    fn configured_columns_keep_their_order_and_the_rightmost_are_dropped() {
        let titles = |names: &[&str], width| {
            let line = titles(names, width);
            assert!(line.width() <= width, "{names:?} {width}");
            line.plain_text().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(titles(&["mem", "util", "node", "cpu"], 80), "NODE GiB % CPU");
        assert_eq!(titles(&["note", "mem", "temp"], 80), "NODE NOTE GiB MAX°");
        assert_eq!(titles(&["user", "job", "age", "power"], 29), "NODE USER JOB");
        for width in 6..200 {
            titles(&column_specs().iter().map(|spec| spec.name).collect::<Vec<_>>(), width);
        }
    }

    #[test]
    fn columns_never_exceed_the_width() {
        for width in 0..400 {
            // The mark and four characters of the name are always shown.
            let titles = titles(&[], width).width();
            assert!(titles <= width.max(MARK_WIDTH + 4), "{width}: {titles}");
        }
    }
}
