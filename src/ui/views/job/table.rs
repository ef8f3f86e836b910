//! The node table of a job: one line per node, one column per device.

use crate::fleet::{Node, Traffic};
use crate::insight::FleetView;
use crate::insight::node_status::{NodeStatus, status_notes};
use crate::model::UNKNOWN;
use crate::model::{Bytes, Percent};
use crate::time::format_age;
use crate::ui::display_options::DisplayOptions;
use crate::ui::input::Click;
use crate::ui::views::job::summary::{DeviceCell, JobMetric, JobSummary, NodeRow};
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::list::Viewport;
use crate::ui::widgets::number_format::{Units, percent, percent_value, rate};

/// Width of the cursor mark and the gap behind it.
const MARK_WIDTH: u16 = 2;
/// Width of the text that replaces the numbers of a node.
const TEXT_WIDTH: u16 = 27;

/// Widths of the columns; 0 hides a column.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    name: u16,
    /// Per device, with the gap before the number and the mark behind it.
    device: u16,
    /// Number of devices that fit.
    devices: usize,
    /// Width of all device columns together.
    numbers: u16,
    cpu: u16,
    memory: u16,
    network: u16,
    age: u16,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TableContext<'a> {
    pub(super) fleet_view: &'a FleetView,
    pub(super) display: &'a DisplayOptions,
    pub(super) summary: &'a JobSummary,
    pub(super) metric: JobMetric,
    /// Index of the selected row.
    pub(super) selected: usize,
    /// True if Up and Down move the cursor in the table.
    pub(super) has_cursor: bool,
}

/// Draws the title line and the visible rows.
pub(super) fn lines(
    context: TableContext<'_>,
    viewport: &mut Viewport,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let columns = Columns::fit(context.summary, context.metric, width);
    let count = context.summary.rows.len();
    let has_title = height > 1;
    let rows = height.saturating_sub(usize::from(has_title));
    viewport.scroll_to(rows, count, Some(context.selected));
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(viewport.with_position(titles(context, &columns), count, width));
    }
    for at in viewport.range(count) {
        let Some(node_row) = context.summary.rows.get(at) else { continue };
        let is_selected = at == context.selected;
        let mark = if is_selected && context.has_cursor { "> " } else { "  " };
        let line = Line::styled(mark, Tone::Accent).append(row(context, node_row, &columns));
        lines.push(line.truncated(width).selected(is_selected).clickable_line(Click::Row(at)));
    }
    lines
}

impl Columns {
    /// Distributes the width over the columns by priority.
    fn fit(summary: &JobSummary, metric: JobMetric, width: u16) -> Self {
        let mut columns = Self {
            name: summary.name_width.clamp(4, (width / 4).clamp(4, 28)),
            device: match metric {
                JobMetric::Utilization | JobMetric::Temperature => 5,
                JobMetric::Memory | JobMetric::Power => 6,
            },
            ..Self::default()
        };
        let mut room = width.saturating_sub(MARK_WIDTH + columns.name);
        let mut reserve = |column: &mut u16, wanted_width: u16, kept_width: u16| {
            if room >= wanted_width + 1 + kept_width {
                room -= wanted_width + 1;
                *column = wanted_width;
            }
        };
        let wanted_devices = u16::try_from(summary.columns.len()).unwrap_or(u16::MAX);
        let text_width = if summary.has_text_rows { TEXT_WIDTH } else { 0 };
        let devices = columns.device.saturating_mul(wanted_devices).max(text_width);
        reserve(&mut columns.age, 6, columns.device);
        reserve(&mut columns.cpu, 4, devices);
        reserve(&mut columns.network, 5, devices);
        reserve(&mut columns.memory, 4, devices);
        let fitting = room / columns.device;
        // The last column counts the devices that do not fit.
        let shown =
            if fitting < wanted_devices { fitting.saturating_sub(1) } else { wanted_devices };
        columns.devices = usize::from(shown);
        columns.numbers =
            columns.device.saturating_mul(fitting.min(wanted_devices)).max(text_width).min(room);
        columns
    }
}

fn titles(context: TableContext<'_>, columns: &Columns) -> Line {
    let mut line = Line::new().gap(MARK_WIDTH).left_aligned("NODE", columns.name, Tone::Faint);
    for label in context.summary.columns.iter().take(columns.devices) {
        line = line.right_aligned(label, columns.device - 1, Tone::Faint).gap(1);
    }
    let hidden = context.summary.columns.len().saturating_sub(columns.devices);
    let rest = columns.numbers.saturating_sub(line.width() - MARK_WIDTH - columns.name);
    let more = if hidden > 0 { format!("+{hidden}") } else { String::new() };
    line = line.right_aligned(&more, rest.min(columns.device - 1), Tone::Faint);
    line = line.gap(rest.saturating_sub(columns.device - 1));
    for (title, width) in [
        ("CPU", columns.cpu),
        ("MEM", columns.memory),
        ("NET/s", columns.network),
        ("AGE", columns.age),
    ] {
        if width > 0 {
            line = line.gap(1).right_aligned(title, width, Tone::Faint);
        }
    }
    line
}

pub(super) fn caption(metric: JobMetric, units: Units, width: u16) -> Line {
    Line::styled(format!("  {}", metric.caption(units)), Tone::Faint).truncated(width)
}

fn row(context: TableContext<'_>, row: &NodeRow, columns: &Columns) -> Line {
    let Some(node) = row.node(context.fleet_view) else {
        let name = Line::new().left_aligned(row.name.label(), columns.name, Tone::Faint);
        return name.gap(1).text("not monitored", Tone::Faint);
    };
    let status = NodeStatus::of(node, context.fleet_view.now);
    let name = Line::new().left_aligned(row.name.label(), columns.name, name_tone(status));
    let notes = || Line::of_notes(&status_notes(context.fleet_view, node));
    let Some(taken_at) = node.taken_at() else { return name.gap(1).append(notes()) };
    let numbers = if row.has_unknown_devices {
        let text = if node.devices.is_empty() { "devices not reported" } else { "devices unknown" };
        Line::new().gap(1).left_aligned(text, columns.numbers.max(1) - 1, Tone::Faint)
    } else if row.cells.is_empty() {
        Line::new().gap(1).left_aligned("no devices", columns.numbers.max(1) - 1, Tone::Faint)
    } else {
        devices(context, node, row, columns)
    };
    let mut line = numbers.append(host(node, columns));
    if !row.is_fresh {
        line = line.dimmed();
    }
    if columns.age > 0 {
        let tone = if row.is_fresh { Tone::Faint } else { Tone::Warn };
        let span = format_age(context.fleet_view.now.since(taken_at));
        line = line.gap(1).right_aligned(&span, columns.age, tone);
    }
    let line = name.append(line);
    if row.is_fresh { line } else { line.gap(2).append(notes()) }
}

fn name_tone(status: NodeStatus) -> Tone {
    match status {
        NodeStatus::Fresh => Tone::Plain,
        NodeStatus::Down | NodeStatus::Stale(_) => Tone::Strong,
        NodeStatus::Waiting | NodeStatus::Opening(_) | NodeStatus::Starting => Tone::Faint,
    }
}

fn devices(context: TableContext<'_>, node: &Node, row: &NodeRow, columns: &Columns) -> Line {
    let mut line = Line::new();
    let mut cells = row.cells.iter().peekable();
    for column in 0..columns.devices {
        // Cells are sorted as the node lists its devices, which nearly always is the order of the columns.
        let cell = match cells.peek() {
            Some(cell) if cell.column == column => cells.next(),
            Some(_) | None => row.cells.iter().find(|cell| cell.column == column),
        };
        line = match cell {
            Some(cell) => line.append(device_cell(context, node, *cell, columns.device)),
            // Not a device of this job.
            None => line.gap(columns.device),
        };
    }
    let rest = columns.numbers.saturating_sub(line.width());
    line.gap(rest)
}

/// Draws the value of a device, followed by `!` if the device has a finding.
fn device_cell(context: TableContext<'_>, node: &Node, cell: DeviceCell, width: u16) -> Line {
    let Some(device) = node.devices.get(cell.device) else { return Line::new().gap(width) };
    if device.fault.is_some() {
        return Line::new().right_aligned("✗", width - 1, Tone::Bad).text("!", Tone::Bad);
    }
    let value = context.metric.read(device);
    let text = value.map_or_else(
        || UNKNOWN.to_owned(),
        |value| {
            let units = context.display.units();
            let decimals = match context.metric {
                JobMetric::Memory => units.decimals(0.0),
                JobMetric::Utilization | JobMetric::Power | JobMetric::Temperature => 0,
            };
            format!("{:.decimals$}", context.metric.to_unit(value, units))
        },
    );
    let level = match context.metric {
        JobMetric::Utilization => context.display.load.tone(value),
        JobMetric::Memory | JobMetric::Power | JobMetric::Temperature => Tone::Plain,
    };
    if cell.is_marked {
        return Line::new().right_aligned(&text, width - 1, Tone::Warn).text("!", Tone::Warn);
    }
    Line::new().right_aligned(&text, width - 1, level).gap(1)
}

fn host(node: &Node, columns: &Columns) -> Line {
    let with_sign = |share: Option<f32>| {
        share.map_or_else(|| UNKNOWN.to_owned(), |_| format!("{}%", percent(share)))
    };
    let fast = &node.host.fast;
    let memory = fast.memory_total.get().zip(fast.memory_available.get());
    let memory = memory
        .and_then(|(total, left)| Percent::of(total.0.saturating_sub(left.0), total.0))
        .map(Percent::get);
    let mut line = Line::new();
    for (text, width) in [
        (with_sign(percent_value(node.host.cpu)), columns.cpu),
        (with_sign(memory), columns.memory),
        (network(node), columns.network),
    ] {
        if width > 0 {
            line = line.gap(1).right_aligned(&text, width, Tone::Plain);
        }
    }
    line
}

/// Sums the receive and transmit rates over network and InfiniBand.
fn network(node: &Node) -> String {
    let all = || node.host.network.iter().chain(node.host.infiniband.iter());
    if all().next().is_none() {
        return UNKNOWN.to_owned();
    }
    let total = |traffic: &Traffic| traffic.inward.0.saturating_add(traffic.outward.0);
    let sum = all().fold(Bytes(0), |sum, traffic| Bytes(sum.0.saturating_add(total(traffic))));
    rate(sum.0)
}
