//! The node table of a job: one line per node, one column per device.

use crate::display_options::DisplayOptions;
use crate::input::Click;
use crate::views::job::metric::ComparedMetric;
use crate::views::job::summary::{DeviceCell, JobSummary, NodeRow};
use crate::widgets::host_share::{cpu_count, used_cpus};
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::Viewport;
use crate::widgets::number_format::{Units, or_unknown, percent_value, rate, used_percent};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::{NodeStatus, status_notes};
use gtop_fleet::settings::ColumnSpec;
use gtop_fleet::{HostShare, Node};
use gtop_local::time::{Timestamp, format_age};

/// Width of the cursor mark and the gap behind it.
const MARK_WIDTH: u16 = 2;
/// The columns between two columns of the host.
const HOST_GAP: u16 = 1;
/// Widths of the columns of CPUs and memory with what the job uses: `152.1` and `512.0G`.
const SHARE_WIDTHS: [u16; 2] = [5, 6];
/// The same with what it may use: `152.1/192` and `1512.0/2015.0`.
const WIDE_SHARE_WIDTHS: [u16; 2] = [9, 13];
/// Width of the other columns of the host, with the gaps.
const OTHER_WIDTH: u16 = 5 + 6 + 3 * HOST_GAP;
/// Width of the text that replaces the numbers of a node.
const TEXT_WIDTH: u16 = 27;

#[derive(Clone, Copy, Debug)]
pub(super) struct TableContext<'a> {
    pub(super) fleet_view: &'a FleetView,
    pub(super) display: &'a DisplayOptions,
    pub(super) summary: &'a JobSummary,
    pub(super) metric: ComparedMetric,
    /// Index of the selected row.
    pub(super) selected: usize,
    /// True if Up and Down move the cursor in the table.
    pub(super) has_cursor: bool,
}

/// Draws the title line and the visible rows below other lines; returns the viewport as it is scrolled then.
pub(super) fn draw_below(
    lines: &mut Vec<Line>,
    context: TableContext<'_>,
    viewport: Viewport,
    (width, height): (u16, usize),
) -> Viewport {
    let table = JobTable::laid_out(context, width);
    viewport.draw_below(
        lines,
        (height > 1).then(|| table.titles()),
        (context.summary.rows.len(), Some(context.selected)),
        (width, height),
        |at| {
            let has_mark = at == context.selected && context.has_cursor;
            let mark = Line::styled(if has_mark { "> " } else { "  " }, Tone::Accent);
            let line = mark.append(table.row(context.summary.rows.get(at)?));
            Some(line.clickable_line(Click::Row(at)))
        },
    )
}

/// A node, whether its values are fresh, and what the job has and uses of its host, if that is known.
type HostRow<'a> = (&'a Node, bool, Option<&'a HostShare>);
type Column<'a> = TableColumn<DeviceColumns, HostRow<'a>>;

/// The columns in front of those of the host.
#[derive(Clone, Copy)]
struct DeviceColumns {
    name_width: u16,
    /// Of one device, with the gap before the number and the mark behind it.
    device_width: u16,
    /// Of all devices together.
    wanted_width: u16,
    /// Widths of the columns of CPUs and memory.
    share_widths: [u16; 2],
    units: Units,
    now: Timestamp,
}

impl DeviceColumns {
    /// Returns the width of a column beside the devices; 0 if it does not fit.
    const fn fitting(&self, width: u16, room: u16) -> u16 {
        if room >= width + self.wanted_width { width } else { 0 }
    }

    /// Returns true if there is room for what the job may use.
    fn has_wide_shares(&self) -> bool {
        self.share_widths == WIDE_SHARE_WIDTHS
    }
}

/// Returns the columns of the table for help; those of devices as one.
pub(super) fn column_specs() -> Vec<ColumnSpec> {
    let node = ColumnSpec::new("node", "NODE", "", "node of the job");
    let devices = ColumnSpec::new(
        "devices",
        "0 1 2 …",
        "",
        "one column per device of the node: what the line above says, ! where it stands out",
    );
    [node, devices].into_iter().chain(table::specs(&JobTable::HOST_COLUMNS)).collect()
}

/// The node table of a job, laid out.
struct JobTable<'a> {
    context: TableContext<'a>,
    /// The columns behind the devices.
    host: Table<'a, DeviceColumns, HostRow<'a>>,
    /// The number of devices that fit.
    devices: usize,
    /// The width of all device columns together.
    numbers: u16,
}

impl<'a> JobTable<'a> {
    /// Most important are the age and then the devices.
    const HOST_COLUMNS: [Column<'a>; 4] = [
        Column::right("CPU", 4, |devices, (node, _, share), _| {
            let of_node = || with_sign(percent_value(node.host.cpu));
            share.map_or_else(of_node, |share| cpus(share, devices))
        })
        .named("cpu", "", "CPUs that the job uses, of those it may use; if not known, utilization of the node in percent")
        .sized(|devices, room| devices.fitting(devices.share_widths[0], room))
        .rank(2),
        Column::right("MEM", 4, |devices, (node, _, share), _| {
            let fast = &node.host.fast;
            let of_node = || used_percent(fast.memory_total.get(), fast.memory_available.get());
            share.map_or_else(|| with_sign(of_node()), |share| memory(share, devices))
        })
.named("hostmem", "", "host memory that the job uses, of what it may use; if not known, that of the node in percent")
        .sized(|devices, room| devices.fitting(devices.share_widths[1], room))
        .rank(4),
        Column::right("NET/s", 5, |_, (node, ..), _| network(node).into())
            .named("net", "", "bytes per second over the network, received and sent")
            .sized(|devices, room| devices.fitting(5, room))
            .rank(3),
        Column::right("AGE", 6, |devices, (node, is_fresh, _), _| {
            let tone = if *is_fresh { Tone::Faint } else { Tone::Warn };
            let age = or_unknown(node.taken_at(), |at| format_age(devices.now.since(at)));
            Cell::toned(age, tone)
        })
        .named("age", "", "age of the numbers")
        .sized(|devices, room| if room >= 6 + devices.device_width { 6 } else { 0 })
        .rank(1)
        .keeps_tone(),
    ];

    fn laid_out(context: TableContext<'a>, width: u16) -> Self {
        let TableContext { summary, fleet_view, .. } = context;
        let device_width = match context.metric {
            ComparedMetric::Utilization | ComparedMetric::Temperature => 5,
            ComparedMetric::Memory | ComparedMetric::Power => 6,
        };
        let wanted = u16::try_from(summary.columns.len()).unwrap_or(u16::MAX);
        let text_width = if summary.has_text_rows { TEXT_WIDTH } else { 0 };
        let columns = DeviceColumns {
            name_width: summary.name_width.clamp(4, (width / 4).clamp(4, 28)),
            device_width,
            wanted_width: device_width.saturating_mul(wanted).max(text_width),
            share_widths: [4, 4],
            units: context.display.units(),
            now: fleet_view.now,
        };
        let width = width.saturating_sub(MARK_WIDTH + columns.name_width + HOST_GAP);
        let mut rows = summary.rows.iter().filter_map(|row| row.node(fleet_view));
        let has_shares = rows.any(|node| node.share_of(&summary.job).is_some());
        let others = columns.wanted_width + OTHER_WIDTH + WIDE_SHARE_WIDTHS.iter().sum::<u16>();
        let share_widths = match has_shares {
            true if width >= others => WIDE_SHARE_WIDTHS,
            true => SHARE_WIDTHS,
            false => columns.share_widths,
        };
        let columns = DeviceColumns { share_widths, ..columns };
        let room = TableRoom::new(width, 0, HOST_GAP);
        let host = Table::fit(&Self::HOST_COLUMNS, columns, &[], room);
        let fitting = host.spare / device_width;
        // The last column counts the devices that do not fit.
        let shown = if fitting < wanted { fitting.saturating_sub(1) } else { wanted };
        let numbers = device_width.saturating_mul(fitting.min(wanted));
        let numbers = numbers.max(text_width).min(host.spare);
        Self { context, host, devices: usize::from(shown), numbers }
    }

    fn titles(&self) -> Line {
        let DeviceColumns { name_width, device_width, .. } = self.host.context;
        let labels = &self.context.summary.columns;
        let line = Line::new().gap(MARK_WIDTH).left_aligned("NODE", name_width, Tone::Faint);
        let line = labels.iter().take(self.devices).fold(line, |line, label| {
            line.right_aligned(label, device_width - 1, Tone::Faint).gap(1)
        });
        let hidden = labels.len().saturating_sub(self.devices);
        let rest = self.numbers.saturating_sub(line.width() - MARK_WIDTH - name_width);
        let more = if hidden > 0 { format!("+{hidden}") } else { String::new() };
        let line = line
            .right_aligned(&more, rest.min(device_width - 1), Tone::Faint)
            .gap(rest.saturating_sub(device_width - 1));
        beside(line, self.host.titles(), Fade::None)
    }

    fn row(&self, row: &'a NodeRow) -> Line {
        let fleet_view = self.context.fleet_view;
        let node = row.node(fleet_view);
        let tone = node.map_or(Tone::Faint, |node| NodeStatus::of(node, fleet_view.now).into());
        let name_width = self.host.context.name_width;
        let name = Line::new().left_aligned(row.name.label(), name_width, tone);
        let Some(node) = node else { return name.gap(1).text("not monitored", Tone::Faint) };
        if node.taken_at().is_none() {
            return name.gap(1).append(notes(fleet_view, node));
        }
        let text = match row.has_unknown_devices {
            true if node.devices.is_empty() => Some("devices not reported"),
            true => Some("devices unknown"),
            false if row.cells.is_empty() => Some("no devices"),
            false => None,
        };
        let width = self.numbers.max(1) - 1;
        let numbers = text.map_or_else(
            || self.devices(node, row),
            |text| Line::new().gap(1).left_aligned(text, width, Tone::Faint),
        );
        let numbers = if row.is_fresh { numbers } else { numbers.dimmed() };
        let fade = Fade::if_old(!row.is_fresh);
        let share = node.share_of(&self.context.summary.job);
        let host = self.host.row(Line::new(), &(node, row.is_fresh, share), fade);
        let line = beside(name.append(numbers), host, fade);
        if row.is_fresh { line } else { line.gap(2).append(notes(fleet_view, node)) }
    }

    fn devices(&self, node: &Node, row: &NodeRow) -> Line {
        let width = self.host.context.device_width;
        let mut line = Line::new();
        let mut cells = row.cells.iter().peekable();
        for column in 0..self.devices {
            // Cells are sorted as the node lists its devices, which nearly always is the order of the columns.
            let cell = match cells.peek() {
                Some(cell) if cell.column == column => cells.next(),
                Some(_) | None => row.cells.iter().find(|cell| cell.column == column),
            };
            line = match cell {
                Some(cell) => line.append(device_cell(self.context, node, *cell, width)),
                // Not a device of this job.
                None => line.gap(width),
            };
        }
        line.append_at(self.numbers, Line::new())
    }
}

fn notes(fleet_view: &FleetView, node: &Node) -> Line {
    Line::of_node(&status_notes(&fleet_view.fleet, node, fleet_view.now))
}

pub(super) fn caption(metric: ComparedMetric, units: Units, width: u16) -> Line {
    Line::styled(format!("  {}", metric.caption(units)), Tone::Faint).truncated(width)
}

/// Draws the value of a device, followed by `!` if the device has a finding.
fn device_cell(context: TableContext<'_>, node: &Node, cell: DeviceCell, width: u16) -> Line {
    let Some(device) = node.devices.get(cell.device) else { return Line::new().gap(width) };
    if device.fault.is_some() {
        return Line::new().right_aligned("✗", width - 1, Tone::Bad).text("!", Tone::Bad);
    }
    let value = context.metric.read(device);
    let text = or_unknown(value, |value| {
        let units = context.display.units();
        let is_memory = context.metric == ComparedMetric::Memory;
        let decimals = if is_memory { units.decimals(0.0) } else { 0 };
        format!("{:.decimals$}", context.metric.to_unit(value, units))
    });
    let is_load = context.metric == ComparedMetric::Utilization;
    let level = if is_load { context.display.load.tone(value) } else { Tone::Plain };
    if cell.is_marked {
        return Line::new().right_aligned(&text, width - 1, Tone::Warn).text("!", Tone::Warn);
    }
    Line::new().right_aligned(&text, width - 1, level).gap(1)
}

/// Appends the columns of the host, if any fit.
fn beside(line: Line, host: Line, fade: Fade) -> Line {
    let gap = if host.width() == 0 { Line::new() } else { Line::new().gap(HOST_GAP) };
    line.append(if fade == Fade::None { gap } else { gap.dimmed() }).append(host)
}

fn with_sign(share: Option<f32>) -> Cell {
    Cell::of(share, |share| format!("{share:.0}%"))
}

/// Returns the CPUs that the job uses, and if there is room those it may use: `7.9/8`.
fn cpus(share: &HostShare, columns: &DeviceColumns) -> Cell {
    let used = used_cpus(share);
    match share.cpus.filter(|_| columns.has_wide_shares()) {
        Some(cpus) => format!("{used}/{}", cpu_count(cpus)).into(),
        None => used.into(),
    }
}

/// Returns the memory that the job uses, and if there is room what it may use: `31.2/64.0`.
fn memory(share: &HostShare, columns: &DeviceColumns) -> Cell {
    let (used, limit) = (share.memory_used.get(), share.memory_limit);
    let amount = |bytes| columns.units.amount(bytes);
    match limit.filter(|_| columns.has_wide_shares()) {
        Some(limit) if limit.0 < 1 << 30 => {
            format!("{}/{}", or_unknown(used, amount), amount(limit)).into()
        }
        Some(limit) => columns.units.usage(used, Some(limit)).into(),
        None => or_unknown(used, amount).into(),
    }
}

/// Sums the receive and transmit rates over network and InfiniBand.
fn network(node: &Node) -> String {
    let all = node.host.network.iter().chain(node.host.infiniband.iter());
    let totals = all.map(|traffic| traffic.inward.0.saturating_add(traffic.outward.0));
    let sum = totals.reduce(u64::saturating_add);
    or_unknown(sum, rate)
}
