//! The host of a node: a few short items, or graphs of the last minutes.

use std::time::Duration;

use crate::RenderContext;
use crate::node_panel::series::{NodeSeries, SeriesId};
use crate::widgets::graph::Graph;
use crate::widgets::line::{Line, Tone, flow};
use crate::widgets::number_format::{Units, mark_host, percent, percent_value, rate, used_percent};
use crate::widgets::series::Means;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::{Metric, Node, Totals, Traffic, measured_parts};
use gtop_local::text::UNKNOWN;
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{Bytes, Device, Freshness, Link, Percent, Source, stale_after};

/// Width of the CPU sparkline, in points.
const CPU_SPARK_POINTS: u16 = 20;
/// Limit of the seconds for which a value is repeated where no newer one is known.
const MAX_HOLD_SECONDS: usize = 60;
/// A file system is highlighted from this usage on.
const FULL_PERCENT: f32 = 90.0;

/// Height of the host with graphs, without the items below them.
pub(crate) const FULL_HEIGHT: usize = 13;
/// Rows of each graph.
const GRAPH_ROWS: u16 = 5;
/// The width of a scale of percentages, without the gap behind it.
const PERCENT_WIDTH: u16 = 4;
/// Minimum width of a graph; below twice this width only one fits in a row.
const MIN_GRAPH_WIDTH: u16 = 36;

/// Draws the host in at most `most` lines; empty before the first sample.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    width: u16,
    max_lines: usize,
) -> Vec<Line> {
    let now = context.view.now;
    let units = context.options.units();
    faded_if_stale(node, now, || flow(items(node, now, width, units), 3, width, max_lines))
}

/// Returns the lines, faded if they are stale, or none before the first sample.
fn faded_if_stale(node: &Node, now: Timestamp, lines: impl FnOnce() -> Vec<Line>) -> Vec<Line> {
    let freshness = node.host_freshness(now);
    if freshness == Freshness::Missing {
        return Vec::new();
    }
    let is_old = !freshness.is_fresh() || node.link != Link::Up;
    if is_old { lines().into_iter().map(Line::dimmed).collect() } else { lines() }
}

/// Draws the host as graphs: CPU over memory and swap on the left, device memory over device load on the
/// right, other items below.
pub(crate) fn graph_lines(
    context: RenderContext<'_>,
    node: &Node,
    series: &NodeSeries,
    width: u16,
    max_lines: usize,
) -> Vec<Line> {
    let now = context.view.now;
    let units = context.options.units();
    faded_if_stale(node, now, || {
        let is_double = width >= MIN_GRAPH_WIDTH * 2 && !node.devices.is_empty();
        let graph_width = if is_double { (width - 3) / 2 } else { width };
        let graph = Graph {
            width: graph_width.saturating_sub(PERCENT_WIDTH + 1),
            height: GRAPH_ROWS,
            grows_down: false,
            is_reversed: context.options.chart.is_reversed,
            step: Duration::from_secs(1),
        };
        let count = graph.visible_points(shown_until(node, now));
        let left = host_graphs(context, node, series, graph, count);
        let mut lines = if is_double {
            let right = device_graphs(context, node, graph, count);
            let beside = |(left, right): (Line, Line)| {
                let gap = (graph_width + 3).saturating_sub(left.width());
                left.gap(gap).append(right)
            };
            left.into_iter().zip(right).map(beside).collect()
        } else {
            left
        };
        let items = other_items(node, units);
        lines.extend(flow(items, 3, width, max_lines.saturating_sub(lines.len())));
        lines.truncate(max_lines);
        lines.into_iter().map(|line| line.truncated(width)).collect()
    })
}

/// Says what the newest end of a time axis is: now, or when the values were seen last.
pub(crate) fn newest_label(node: &Node, taken_at: Option<Timestamp>, now: Timestamp) -> String {
    match taken_at.filter(|_| !NodeStatus::of(node, now).is_fresh()) {
        Some(taken_at) => format!("last seen {} ago", format_age(now.since(taken_at))),
        None => "now".to_owned(),
    }
}

/// Returns the time up to which graphs are drawn: that of the last sample if the node has no fresh one, so that its last
/// graph stays.
pub(crate) fn shown_until(node: &Node, now: Timestamp) -> Timestamp {
    let last = node.taken_at().filter(|_| !NodeStatus::of(node, now).is_fresh());
    last.unwrap_or(now)
}

/// Stacks two graphs of shares, the lower one filled from the top, with the time axis between them and a scale in front.
fn stack_graphs(
    newest: &str,
    graph: Graph,
    upper: (Line, &[Option<f32>], Tone),
    lower: (Line, &[Option<f32>], Tone),
) -> Vec<Line> {
    let inverted = Graph { grows_down: true, ..graph };
    let ends = |at_end: bool| {
        Line::new()
            .right_aligned(if at_end { "100%" } else { "" }, PERCENT_WIDTH, Tone::Faint)
            .gap(1)
    };
    let rows = |rows: Vec<Line>, end: usize| {
        let numbered = rows.into_iter().enumerate();
        numbered.map(move |(row, line)| ends(row == end).append(line)).collect::<Vec<_>>()
    };
    let last = usize::from(graph.height).saturating_sub(1);
    let axis = Line::new().right_aligned("0%", PERCENT_WIDTH, Tone::Faint).gap(1);
    let width = graph.width + PERCENT_WIDTH + 1;
    let mut lines = vec![upper.0.truncated(width)];
    lines.extend(rows(graph.rows(upper.1, upper.2), 0));
    lines.push(axis.append(graph.time_axis(newest)));
    lines.extend(rows(inverted.rows(lower.1, lower.2), last));
    lines.push(lower.0.truncated(width));
    lines
}

fn host_graphs(
    context: RenderContext<'_>,
    node: &Node,
    series: &NodeSeries,
    graph: Graph,
    count: usize,
) -> Vec<Line> {
    let newest = newest_label(node, node.taken_at(), context.view.now);
    let now = shown_until(node, context.view.now);
    let units = context.options.units();
    let fast = &node.host.fast;
    let cpu = history_points(node, ("", Metric::Cpu), Some(&Source::host()), now, count);
    let memory = series.last(node, &SeriesId::HostMemory, now, count);
    let share = used_percent(fast.memory_total.get(), fast.memory_available.get());
    let mut lower_title = labelled("MEM")
        .right_aligned(&percent(share), 3, Tone::Strong)
        .text("% ", Tone::Faint)
        .text(units.usage_with_unit(used_host_memory(node), fast.memory_total.get()), Tone::Plain);
    let swap_share = used_percent(fast.swap_total.get(), fast.swap_free.get());
    if let Some(total) = fast.swap_total.get().filter(|total| total.0 > 0) {
        let used = fast.swap_free.get().map(|free| Bytes(total.0.saturating_sub(free.0)));
        lower_title = lower_title
            .gap(3)
            .append(labelled("SWAP"))
            .right_aligned(&percent(swap_share), 3, Tone::Strong)
            .text("% ", Tone::Faint)
            .text(units.usage_with_unit(used, Some(total)), Tone::Plain);
    }
    let upper_title = cpu_item(node, now, 0).gap(3).append(load_item(node));
    let mut lines = stack_graphs(
        &newest,
        graph,
        (upper_title, &cpu, context.options.load.tone(cpu_percent(node))),
        (lower_title, &memory, context.options.memory.tone(share)),
    );
    // Swap, if any is used, replaces the last row of the memory graph.
    if swap_share.is_some_and(|share| share > 0.0) {
        let swap = series.last(node, &SeriesId::Swap, now, count);
        let row = Graph { height: 1, ..graph }.rows(&swap, Tone::Warn).pop();
        let index = lines.len().saturating_sub(2);
        if let (Some(slot), Some(row)) = (lines.get_mut(index), row) {
            *slot = std::mem::take(slot).truncated(PERCENT_WIDTH + 1).append(row);
        }
    }
    lines
}

fn device_graphs(context: RenderContext<'_>, node: &Node, graph: Graph, count: usize) -> Vec<Line> {
    let newest = newest_label(node, node.taken_at(), context.view.now);
    let now = shown_until(node, context.view.now);
    let positions = context.view.matching_devices(node);
    let totals = Totals::of_part(node, positions);
    let ((used, total), is_host) = totals.shown_memory();
    let memory =
        used.zip(total).and_then(|(used, total)| Percent::of(used.0, total.0)).map(Percent::get);
    let load = totals.utilization.map(Percent::get);
    let title = |label: &str, share: Option<f32>| {
        labelled(label).right_aligned(&percent(share), 3, Tone::Strong).text("%", Tone::Faint)
    };
    let amount = mark_host(context.options.units().usage_with_unit(used, total), is_host);
    let upper_title = title("DEVICE MEM", memory).gap(1).text(amount, Tone::Plain);
    let count_text = format!(" mean of {}", totals.utilization_devices);
    let lower_title = title("DEVICE UTIL", load).text(count_text, Tone::Faint);
    stack_graphs(
        &newest,
        graph,
        (
            upper_title,
            &device_mean((node, positions), Metric::Memory, now, count),
            context.options.memory.tone(memory),
        ),
        (
            lower_title,
            &device_mean((node, positions), Metric::Utilization, now, count),
            context.options.load.tone(load),
        ),
    )
}

/// Returns the mean over the devices at these positions, or all, per second; memory is weighted by its size.
fn device_mean(
    (node, positions): (&Node, Option<&[usize]>),
    metric: Metric,
    now: Timestamp,
    count: usize,
) -> Vec<Option<f32>> {
    let mut means = Means::new(count);
    let has_value = |device: &Device| match metric {
        Metric::Memory => device.memory_share().is_some(),
        Metric::Utilization | Metric::Cpu => device.load().get().is_some(),
    };
    for (device, part) in measured_parts(node, positions, has_value) {
        let index = node.devices.iter().position(|one| one.uuid == device.uuid).unwrap_or(0);
        let weight = match metric {
            Metric::Memory => device.memory_total.get().map_or(0.0, single_gib),
            Metric::Utilization | Metric::Cpu => part,
        };
        let points = history_points(
            node,
            (&device.uuid, metric),
            node.device_sources.get(index),
            now,
            count,
        );
        for (at, point) in points.into_iter().enumerate() {
            means.add(at, point, weight);
        }
    }
    means.finish()
}

#[expect(clippy::cast_possible_truncation, reason = "a weight needs few digits")]
fn single_gib(bytes: Bytes) -> f32 {
    bytes.gib() as f32
}

fn cpu_percent(node: &Node) -> Option<f32> {
    percent_value(node.host.cpu)
}

fn used_host_memory(node: &Node) -> Option<Bytes> {
    let fast = &node.host.fast;
    let total_and_available = fast.memory_total.get().zip(fast.memory_available.get());
    total_and_available.map(|(total, available)| Bytes(total.0.saturating_sub(available.0)))
}

fn items(node: &Node, now: Timestamp, width: u16, units: Units) -> Vec<Line> {
    let points = if width >= 100 { CPU_SPARK_POINTS } else { CPU_SPARK_POINTS / 2 };
    let memory = units.usage_with_unit(used_host_memory(node), node.host.fast.memory_total.get());
    let mut items = vec![
        cpu_item(node, now, points),
        load_item(node),
        labelled("MEM").text(memory, Tone::Plain),
    ];
    items.extend(swap_item(node, units));
    items.extend(other_items(node, units));
    items
}

/// Returns the items that have no graph.
fn other_items(node: &Node, units: Units) -> Vec<Line> {
    let mut items = Vec::new();
    let groups = [
        ("NET", &node.host.network, ["↓", "↑"]),
        ("IB", &node.host.infiniband, ["↓", "↑"]),
        ("DISK", &node.host.disks, ["r", "w"]),
    ];
    items
        .extend(groups.iter().filter_map(|(label, list, signs)| traffic_item(label, list, *signs)));
    if let Some(temperature) = node.host.slow.temperature.get() {
        items.push(
            labelled("TEMP").text(format!("{:>4}", units.temperature(temperature)), Tone::Plain),
        );
    }
    if let Some(seconds) = node.host.fast.uptime_seconds.get() {
        items.push(labelled("UP").text(format_duration(Duration::from_secs(seconds)), Tone::Plain));
    }
    items.extend(pressure_item(node));
    items.extend(fullest_filesystem_item(node, units));
    items
}

fn labelled(label: &str) -> Line {
    Line::styled(format!("{label} "), Tone::Faint)
}

fn cpu_item(node: &Node, now: Timestamp, points: u16) -> Line {
    let cpu = percent_value(node.host.cpu);
    let mut line =
        labelled("CPU").right_aligned(&percent(cpu), 3, Tone::Strong).text("%", Tone::Faint);
    if points > 0 {
        let series = ("", Metric::Cpu);
        let history = history_points(
            node,
            series,
            Some(&Source::host()),
            shown_until(node, now),
            usize::from(points),
        );
        line = line.gap(1).sparkline(history, Tone::Mid);
    }
    match node.hello.as_ref().map(|hello| hello.host.cpus) {
        Some(cpus) if cpus > 0 => line.text(format!(" of {cpus}"), Tone::Faint),
        _ => line,
    }
}

fn load_item(node: &Node) -> Line {
    let Some([one, five, fifteen]) = node.host.fast.load.get() else {
        return labelled("LOAD").text(UNKNOWN, Tone::Faint);
    };
    labelled("LOAD")
        .text(format!("{one:>5.1}"), Tone::Plain)
        .text(format!(" {five:>5.1} {fifteen:>5.1}"), Tone::Faint)
}

fn traffic_item(label: &str, list: &[Traffic], signs: [&str; 2]) -> Option<Line> {
    let sum = |pick: fn(&Traffic) -> Bytes| {
        list.iter().fold(0_u64, |sum, traffic| sum.saturating_add(pick(traffic).0))
    };
    let (inward, outward) = (sum(|traffic| traffic.inward), sum(|traffic| traffic.outward));
    (!list.is_empty()).then(|| {
        labelled(label)
            .text(format!("{}{:>4}", signs[0], rate(inward)), Tone::Plain)
            .text(format!(" {}{:>4}", signs[1], rate(outward)), Tone::Plain)
            .text("/s", Tone::Faint)
    })
}

fn pressure_item(node: &Node) -> Option<Line> {
    let pressure = node.host.fast.pressure;
    let parts = [("cpu", pressure.cpu), ("mem", pressure.memory), ("io", pressure.io)];
    let known: Vec<_> = parts.iter().filter(|(_, pressure)| pressure.get().is_some()).collect();
    (!known.is_empty()).then(|| {
        known.iter().fold(labelled("PSI"), |line, (label, pressure)| {
            line.text(format!("{label}{:>3}% ", percent(percent_value(*pressure))), Tone::Plain)
        })
    })
}

fn swap_item(node: &Node, units: Units) -> Option<Line> {
    let (total, free) = (node.host.fast.swap_total.get()?, node.host.fast.swap_free.get()?);
    let used = Bytes(total.0.saturating_sub(free.0));
    (used.mib() > 0)
        .then(|| labelled("SWAP").text(units.usage_with_unit(Some(used), Some(total)), Tone::Plain))
}

fn fullest_filesystem_item(node: &Node, units: Units) -> Option<Line> {
    let spaces = node.host.slow.space.iter();
    let (space, used) = spaces
        .filter_map(|space| Some((space, used_percent(Some(space.total), Some(space.free))?)))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let tone = if used >= FULL_PERCENT { Tone::Warn } else { Tone::Plain };
    let text = format!("{used:.0}% full, {} free", units.amount(space.free));
    Some(labelled(&space.path).text(text, tone))
}

/// Returns the last `count` seconds of a metric. A value is repeated until it would count as stale.
pub(crate) fn history_points(
    node: &Node,
    (subject, metric): (&str, Metric),
    source: Option<&Source>,
    now: Timestamp,
    count: usize,
) -> Vec<Option<f32>> {
    let state = source.and_then(|source| node.source(source));
    let interval = state.map(|state| state.interval).unwrap_or_default();
    let hold = usize::try_from(stale_after(interval).as_secs()).unwrap_or(3).min(MAX_HOLD_SECONDS);
    let points = node.history.last(subject, metric, now, count + hold);
    let mut last: Option<(f32, usize)> = None;
    let repeated: Vec<_> = points
        .into_iter()
        .map(|point| {
            last = match (point, last) {
                (Some(value), _) => Some((value, hold)),
                (None, Some((value, left))) if left > 0 => Some((value, left - 1)),
                (None, _) => None,
            };
            last.map(|(value, _)| value)
        })
        .collect();
    repeated.into_iter().skip(hold).collect()
}
