//! The page of one process: graphs of its last minutes and the details its node reports.

use std::time::Duration;

use crate::drawn_view::DrawnView;
use crate::process_row::{ProcessEntry, ProcessRow, RowKey};
use crate::process_target::ProcessTarget;
use crate::render_context::{RenderContext, Size};
use crate::request::NodeRequest;
use crate::views::processes::columns::{is_stale, row_status};
use crate::views::processes::series::{GraphMetric, ProcessSeries, Series};
use crate::widgets::graph::Graph;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport};
use crate::widgets::number_format::{
    Units, format_run_time, gib, or_unknown, percent, percent_value,
};
use gtop_fleet::insight::node_status::{device_label, shown_id};
use gtop_local::text::UNKNOWN;
use gtop_local::time::{Timestamp, format_duration};
use gtop_model::{
    IoCounters, JobList, ProcessDetail, ProcessRequest, ProcessState, Reading, RequestError,
};

/// Interval at which the details are queried.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// From this width on, graphs stand side by side.
const TWO_COLUMN_WIDTH: u16 = 60;

/// The page of one process.
#[derive(Clone, Debug)]
pub(super) struct DetailPage {
    pub(super) target: ProcessTarget,
    /// Row in the table, `None` for a process that uses no device.
    pub(super) row: Option<RowKey>,
    detail: Option<ProcessDetail>,
    error: Option<RequestError>,
    requested_at: Timestamp,
    /// The details as texts, each with its name.
    items: Vec<(&'static str, String, Tone)>,
    /// The visible details.
    pub(super) viewport: Viewport,
}

impl DetailPage {
    pub(super) fn new(target: ProcessTarget, row: Option<RowKey>, now: Timestamp) -> Self {
        let (items, viewport) = Default::default();
        Self { target, row, detail: None, error: None, requested_at: now, items, viewport }
    }

    pub(super) fn request(&self) -> NodeRequest {
        NodeRequest {
            node: self.target.node.clone(),
            process_request: ProcessRequest::Detail(self.target.key),
        }
    }

    /// Returns the request if the interval has passed.
    pub(super) fn due_request(&mut self, now: Timestamp) -> Option<NodeRequest> {
        let is_due = now.since(self.requested_at) >= POLL_INTERVAL || now < self.requested_at;
        is_due.then(|| self.request_now(now))
    }

    /// Returns the request regardless of the interval.
    pub(super) fn request_now(&mut self, now: Timestamp) -> NodeRequest {
        self.requested_at = now;
        self.request()
    }

    /// Stores the reply; after an error the previous details stay.
    pub(super) fn on_reply(&mut self, answer: Result<&ProcessDetail, &RequestError>) {
        match answer {
            Ok(detail) => (self.detail, self.error) = (Some(detail.clone()), None),
            Err(error) => self.error = Some(error.clone()),
        }
    }

    pub(super) fn step(&mut self, step: Movement) {
        self.viewport.step(step, self.items.len(), 5);
    }

    /// Updates the details to a fleet view.
    pub(super) fn refresh(&mut self, context: RenderContext<'_>) {
        self.items = self.details(context);
    }

    pub(super) fn lines(
        &self,
        context: RenderContext<'_>,
        row: Option<&ProcessRow>,
        series: &ProcessSeries,
        (width, height): Size,
    ) -> DrawnView {
        let entry = row.and_then(ProcessRow::entry);
        let mut lines = vec![self.title(context, entry, width)];
        if let Some(entry) = entry {
            lines.push(values_line(entry, context.view.fleet.jobs.as_deref()).truncated(width));
        }
        let room = height.saturating_sub(lines.len() + 1);
        let has_ended = self.target.unreachable_reason(context.view).is_some();
        let is_old = has_ended || entry.is_some_and(|entry| is_stale(entry, context.view.now));
        if let Some(series) = self.row.as_ref().and_then(|key| series.get(key)) {
            let size = (width, graph_height(room, width));
            lines.extend(graphs(series, context.options.units(), entry, size));
            lines.push(time_axes(width, if is_old { "" } else { "now" }));
        }
        let count = self.items.len();
        let list = self.viewport.scrolled_to(height.saturating_sub(lines.len() + 1), count, None);
        if list.rows > 0 {
            lines.push(Line::new().rule(width));
        }
        for (name, text, tone) in self.items.get(list.range(count)).unwrap_or_default() {
            let line = Line::styled(format!("{name:<10} "), Tone::Faint);
            lines.push(line.text(text.as_str(), *tone).truncated(width));
        }
        lines.truncate(height);
        if is_old {
            let old = lines.iter_mut().skip(1);
            old.for_each(|line| *line = std::mem::take(line).dimmed());
        }
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }

    fn title(
        &self,
        context: RenderContext<'_>,
        entry: Option<ProcessEntry<'_>>,
        width: u16,
    ) -> Line {
        let status = entry.and_then(|entry| row_status(entry, context.view.now));
        let right = match (self.target.unreachable_reason(context.view), status) {
            (Some(reason), _) => Line::styled(reason, Tone::Bad),
            (None, Some(status)) => Line::styled(status.text, status.tone),
            (None, None) => Line::new(),
        };
        let title = Line::styled("process", Tone::Strong).gap(2);
        let room = width.saturating_sub(title.width() + right.width() + 2);
        title.text(self.target.name_within(room), Tone::Plain).with_right(right, width)
    }

    /// Returns the details that the node reports.
    fn details(&self, context: RenderContext<'_>) -> Vec<(&'static str, String, Tone)> {
        let mut items = Vec::new();
        let mut add = |name, text, tone| items.push((name, text, tone));
        if let Some(error) = &self.error {
            add("request", error.to_string(), Tone::Warn);
        }
        let Some(detail) = &self.detail else {
            if self.error.is_none() {
                add("request", "waiting for the node".to_owned(), Tone::Faint);
            }
            add("command", self.target.command.to_string(), Tone::Plain);
            return items;
        };
        let node = context.view.fleet.node(&self.target.node);
        let plain = Tone::Plain;
        add("command", text(&detail.process.command), plain);
        add("program", text(&detail.program), plain);
        add("directory", text(&detail.directory), plain);
        let state = detail.process.state.get().map_or(UNKNOWN, state_text);
        let wait_channel = detail.wchan.known().filter(|name| !matches!(&***name, "" | "0"));
        let place = wait_channel.map(|name| format!(", in {name}")).unwrap_or_default();
        let run_time = node.and_then(|node| node.run_time(self.target.key));
        let run_time = or_unknown(run_time, format_run_time);
        let parent = detail.process.parent_pid;
        add("state", format!("{state}{place}; running for {run_time}; parent {parent}"), plain);
        let threads = reading_text(&detail.threads, u32::to_string);
        let niceness = reading_text(&detail.niceness, i8::to_string);
        let [voluntary, involuntary] = [&detail.voluntary_switches, &detail.involuntary_switches]
            .map(|count| reading_text(count, u64::to_string));
        let switches = format!("{voluntary} voluntary, {involuntary} involuntary");
        let threads = format!("{threads}; niceness {niceness}; context switches: {switches}");
        add("threads", threads, plain);
        let units = context.options.units();
        let ProcessDetail { process, peak_resident, swapped, virtual_memory, .. } = detail;
        let [used, peak, swapped, reserved] =
            [&process.resident, peak_resident, swapped, virtual_memory]
                .map(|value| reading_text(value, |bytes| units.amount(*bytes)));
        let memory = format!("{used} in use, {peak} peak, {swapped} swapped, {reserved} reserved");
        add("memory", memory, plain);
        add("storage", reading_text(&detail.io, |all| io_text(all, units)), plain);
        add("cgroup", text(&detail.cgroup), plain);
        for limit in &detail.limits {
            let text = format!("{}: soft {}, hard {}", limit.name, limit.soft, limit.hard);
            add("limit", text, plain);
        }
        items
    }
}

/// Formats a value, or the reason why it is unavailable.
fn reading_text<T>(value: &Reading<T>, format: impl FnOnce(&T) -> String) -> String {
    match value {
        Reading::Known(value) => format(value),
        Reading::Unknown(reason) => format!("{UNKNOWN} ({})", reason.text()),
    }
}

fn text(value: &Reading<std::sync::Arc<str>>) -> String {
    reading_text(value, ToString::to_string)
}

fn io_text(io: &IoCounters, units: Units) -> String {
    let [read, written, from_disk, to_disk] =
        [io.read, io.written, io.storage_read, io.storage_written].map(|bytes| units.amount(bytes));
    format!("read {read} ({from_disk} from disk), wrote {written} ({to_disk} to disk)")
}

pub(super) const fn state_text(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Running => "running",
        ProcessState::Sleeping => "sleeping",
        ProcessState::Waiting => "uninterruptible sleep",
        ProcessState::Stopped => "stopped",
        ProcessState::Traced => "stopped by a debugger",
        ProcessState::Zombie => "zombie: ended, not reaped by its parent",
        ProcessState::Dead => "being removed",
        ProcessState::Idle => "idle",
    }
}

fn values_line(entry: ProcessEntry<'_>, jobs: Option<&JobList>) -> Line {
    let device = or_unknown(entry.device, |device| device_label(entry.node, device));
    let kind = if entry.is_tpu() { "TPU" } else { "GPU" };
    let mut line = Line::styled(format!("{kind} {device}"), Tone::Strong);
    let values = [
        ("job", or_unknown(entry.job(), |job| shown_id(jobs, job).into_owned())),
        ("%GMBW", percent(percent_value(entry.used.memory_utilization))),
        ("%ENC", percent(percent_value(entry.used.encoder))),
        ("%DEC", percent(percent_value(entry.used.decoder))),
        ("%MEM", or_unknown(entry.resident_share(), |percent| format!("{percent:.1}"))),
        ("TIME", or_unknown(entry.run_time(), format_run_time)),
    ];
    for (name, value) in values {
        line = line.gap(2).text(format!("{name} "), Tone::Faint).text(value, Tone::Plain);
    }
    line
}

/// Returns the height of a graph without its title, so that some lines are left for the details.
fn graph_height(room: usize, width: u16) -> usize {
    let rows = if width >= TWO_COLUMN_WIDTH { 2 } else { 4 };
    let details = (room / 3).clamp(2, 12);
    (room.saturating_sub(details) / rows).saturating_sub(1).min(12)
}

/// Draws the four graphs, in two columns if the width allows.
fn graphs(series: &Series, units: Units, entry: Option<ProcessEntry<'_>>, size: Size) -> Vec<Line> {
    let (width, height) = size;
    let is_wide = width >= TWO_COLUMN_WIDTH;
    let graph_width = graph_width(width);
    let graphs =
        GraphMetric::ALL.map(|metric| graph(series, (metric, units), entry, (graph_width, height)));
    if !is_wide {
        return graphs.into_iter().flatten().collect();
    }
    let [cpu, device_memory, host_memory, load] = graphs;
    let rows = cpu.into_iter().zip(device_memory).chain(host_memory.into_iter().zip(load));
    rows.map(|(left, right)| left.append_at(graph_width + 2, right)).collect()
}

const fn graph_width(width: u16) -> u16 {
    if width >= TWO_COLUMN_WIDTH { (width - 2) / 2 } else { width }
}

/// Draws the time axis below each column of graphs.
fn time_axes(width: u16, newest: &str) -> Line {
    let graph_width = graph_width(width);
    let axis = Graph {
        width: graph_width.saturating_sub(TICK_WIDTH),
        height: 1,
        grows_down: false,
        is_reversed: false,
        // A column of the graphs is one second.
        step: Duration::from_millis(500),
    };
    let one = Line::new().gap(TICK_WIDTH).append(axis.time_axis(newest));
    let line = if width < TWO_COLUMN_WIDTH { one } else { one.clone().gap(2).append(one) };
    line.truncated(width)
}

/// Draws a graph below a title with the current and the highest value.
fn graph(
    series: &Series,
    (metric, units): (GraphMetric, Units),
    entry: Option<ProcessEntry<'_>>,
    (width, height): Size,
) -> Vec<Line> {
    let points = series.last(metric, usize::from(width.saturating_sub(TICK_WIDTH)));
    let highest = series.highest(metric);
    let [usual, of_chip] = metric.names();
    let name = if entry.is_some_and(ProcessEntry::is_tpu) { of_chip } else { usual };
    let now = points.last().copied().flatten();
    let total = memory_total(metric, entry);
    let share = now.zip(total).map_or_else(String::new, |(now, total)| {
        format!(" of {}, {:.0}%", value_text(metric, total, units), now / total * 100.0)
    });
    let [now, max] =
        [now, highest].map(|value| or_unknown(value, |value| value_text(metric, value, units)));
    let title = Line::styled(format!("{name} "), Tone::Faint)
        .text(now, Tone::Strong)
        .text(share, Tone::Plain)
        .text(format!("  max {max}"), Tone::Faint);
    let span = Duration::from_secs(u64::try_from(series.seconds().min(points.len())).unwrap_or(0));
    let span = Line::styled(format!("last {}", format_duration(span)), Tone::Faint);
    let title = title.with_right(span, width);
    let max = axis_max(metric, highest, entry);
    let mut lines = vec![title];
    for row in (0..height).rev() {
        let row = graph_row(&points, highest, max, (row, height), (metric, units));
        lines.push(row.truncated(width));
    }
    lines
}

/// Width of the axis labels at the left of a graph.
const TICK_WIDTH: u16 = 7;

/// Returns the upper bound of the axis.
fn axis_max(metric: GraphMetric, highest: Option<f32>, entry: Option<ProcessEntry<'_>>) -> f32 {
    let max = highest.unwrap_or(0.0) * 1.25;
    match metric {
        GraphMetric::Load => 100.0,
        GraphMetric::Cpu => max.max(100.0),
        GraphMetric::DeviceMemory | GraphMetric::HostMemory => {
            let max = max.max(0.1);
            memory_total(metric, entry).map_or(max, |total| max.min(total).max(0.1))
        }
    }
}

/// Returns the memory of the device in GiB, if the metric is a part of it.
fn memory_total(metric: GraphMetric, entry: Option<ProcessEntry<'_>>) -> Option<f32> {
    let total = entry?.device?.memory_total.get().filter(|total| total.0 > 0)?;
    (metric == GraphMetric::DeviceMemory).then(|| gib(total))
}

fn value_text(metric: GraphMetric, value: f32, units: Units) -> String {
    match metric {
        GraphMetric::Cpu | GraphMetric::Load => format!("{value:.0}%"),
        GraphMetric::DeviceMemory | GraphMetric::HostMemory => units.amount_of_gib(value),
    }
}

/// Draws one line of a graph; row 0 is the lowest. A rule marks the highest value where the line is empty.
#[expect(clippy::cast_precision_loss, reason = "a few rows")]
fn graph_row(
    points: &[Option<f32>],
    highest: Option<f32>,
    max: f32,
    (row, rows): (usize, usize),
    (metric, units): (GraphMetric, Units),
) -> Line {
    let (low, row_count) = (row as f32, rows.max(1) as f32);
    // How much of this row a value fills, in percent; 0 or less if it does not reach the row.
    let filled = |value: f32| (value / max * row_count - low) * 100.0;
    let has_line = highest.is_some_and(|highest| {
        let part = filled(highest);
        (part > 0.0 || row == 0) && part <= 100.0 && highest > 0.0
    });
    let tick = if row + 1 == rows {
        value_text(metric, max, units)
    } else if rows >= 4 && row == rows / 2 {
        value_text(metric, max * (row as f32) / row_count, units)
    } else {
        String::new()
    };
    let mut line = Line::new().right_aligned(&tick, TICK_WIDTH - 1, Tone::Faint).gap(1);
    let cells = points.iter().map(|point| {
        let part = point.map(filled).filter(|part| *part > 0.0 || row == 0);
        // Where nothing is known, there is no rule either.
        let is_rule = has_line && point.is_some() && part.is_none();
        (is_rule, part.map(|part| part.clamp(0.0, 100.0)))
    });
    let cells: Vec<(bool, Option<f32>)> = cells.collect();
    for run in cells.chunk_by(|(one, _), (other, _)| one == other) {
        line = if matches!(run, [(true, _), ..]) {
            line.rule(u16::try_from(run.len()).unwrap_or(0))
        } else {
            line.area(run.iter().map(|(_, part)| *part).collect(), Tone::Mid)
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::widgets::line::SpanContent;

    fn drawn_text(line: &Line) -> String {
        let sign = |part: f32| if part >= 100.0 { '#' } else { '+' };
        let span_text = |span: &crate::widgets::line::Span| {
            if let SpanContent::Area(points) = &span.content {
                return points.iter().map(|point| point.map_or(' ', sign)).collect();
            }
            let is_rule = span.content == SpanContent::Rule;
            "-".repeat(if is_rule { usize::from(span.width) } else { 0 })
        };
        line.spans.iter().map(span_text).collect()
    }

    #[test]
    fn a_graph_is_filled_from_below_and_a_line_marks_the_highest_value() {
        let points = [None, Some(0.0), Some(50.0), Some(100.0), Some(75.0)];
        let row = |row| {
            drawn_text(&graph_row(
                &points,
                Some(100.0),
                200.0,
                (row, 4),
                (GraphMetric::Cpu, Units::default()),
            ))
        };
        assert_eq!([row(3), row(2), row(1), row(0)], ["     ", "     ", " --#+", " +###"]);
    }

    #[test]
    fn all_lines_of_a_graph_have_the_same_width() {
        let points: Vec<Option<f32>> =
            (0..30_u8).map(|at| (at % 3 > 0).then(|| f32::from(at))).collect();
        for row in 0..5 {
            let line = graph_row(
                &points,
                Some(29.0),
                40.0,
                (row, 5),
                (GraphMetric::HostMemory, Units::default()),
            );
            assert_eq!(line.width(), 30 + TICK_WIDTH);
        }
    }
}
