//! The host of a node: a few short items, or graphs of the last minutes.

use std::time::Duration;

use crate::render_context::{RenderContext, Size};
use crate::widgets::graph::{Graph, SCALE_WIDTH, scale};
use crate::widgets::host_share::share_texts;
use crate::widgets::line::{Line, Tone, flow, flow_with_overflow};
use crate::widgets::number_format::{
    Units, gib, mark_host, or_unknown, percent, percent_value, rate, share_of, used_percent,
};
use crate::widgets::series::Means;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::{HostShare, Metric, Node, Totals, Traffic, measured_parts};
use gtop_local::text::UNKNOWN;
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{Bytes, Freshness, Link, Percent, Source, stale_after};

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
/// From these widths on, two and three graphs are side by side; in three, no title is cut.
const SIDE_BY_SIDE: [u16; 2] = [72, 144];
/// The columns between two graphs.
const GRAPH_GAP: u16 = 3;
/// The end of the scale of rates that are lower still, in bytes per second.
const MIN_RATE_SCALE: f32 = 1_000.0;

/// The columns between two items.
const ITEM_GAP: u16 = 3;

/// Draws the host in at most `max_lines` lines, and its jobs behind it and in at most `job_lines` below; empty before the
/// first sample.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    (width, max_lines): Size,
    job_lines: usize,
) -> Vec<Line> {
    let now = context.view.now;
    let units = context.options.units();
    faded_if_stale(node, now, || {
        let lines = flow(items(node, now, width, units), ITEM_GAP, width, max_lines);
        with_jobs(lines, job_items(node, units), width, job_lines)
    })
}

/// Adds the jobs to the last line, and in at most `job_lines` below it; those that do not fit are counted.
fn with_jobs(
    mut lines: Vec<Line>,
    jobs: impl Iterator<Item = Line>,
    width: u16,
    job_lines: usize,
) -> Vec<Line> {
    let items = lines.pop().into_iter().chain(jobs).collect();
    let max_lines = job_lines.saturating_add(1);
    lines.extend(flow_with_overflow(items, ITEM_GAP, width, (max_lines, "jobs")));
    lines
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

/// Draws the host as graphs: CPU over memory and swap, device memory over device load, and what the network receives over
/// what it sends, as many as fit side by side; other items below.
pub(crate) fn graph_lines(
    context: RenderContext<'_>,
    node: &Node,
    (width, max_lines): Size,
    job_lines: usize,
) -> Vec<Line> {
    let now = context.view.now;
    let units = context.options.units();
    faded_if_stale(node, now, || {
        let (has_devices, has_network) = (!node.devices.is_empty(), has_network(node));
        let wanted = 1 + u16::from(has_devices) + u16::from(has_network);
        let wide_enough = SIDE_BY_SIDE.iter().filter(|min_width| width >= **min_width);
        let columns = wanted.min(wide_enough.fold(1, |columns, _| columns + 1));
        let column_width = (width + GRAPH_GAP) / columns;
        let graph = Graph {
            width: column_width.saturating_sub(SCALE_WIDTH + GRAPH_GAP),
            height: GRAPH_ROWS,
            grows_down: false,
            is_reversed: context.options.chart.is_reversed,
            step: Duration::from_secs(1),
        };
        let until = shown_until(node, now);
        let graphs = HostGraphs { context, node, graph, until, count: graph.visible_points(until) };
        let mut lines = graphs.of_host();
        let others =
            [has_devices.then(|| graphs.of_devices()), has_network.then(|| graphs.of_network())];
        let others = others.into_iter().flatten();
        for (column, other) in (1..columns).zip(others) {
            for (line, part) in lines.iter_mut().zip(other) {
                *line = std::mem::take(line).append_at(column_width * column, part);
            }
        }
        let has_network_graph = has_network && columns == wanted;
        let mut items: Vec<Line> = limit_item(node, units).into_iter().collect();
        if !has_network_graph {
            items.extend(network_items(node));
        }
        items.extend(other_items(node, units));
        items.extend(cache_item(node, units));
        let item_lines = max_lines.saturating_sub(lines.len());
        let items = flow(items, ITEM_GAP, width, item_lines);
        lines.extend(with_jobs(items, job_items(node, units), width, job_lines));
        lines.into_iter().map(|line| line.truncated(width)).collect()
    })
}

/// Returns true if the traffic of network interfaces is measured.
fn has_network(node: &Node) -> bool {
    !node.host.fast.network.is_empty()
}

/// Returns the label of the newest end of a time axis: now, or the age of the last values.
pub(crate) fn newest_label(node: &Node, taken_at: Option<Timestamp>, now: Timestamp) -> String {
    match taken_at.filter(|_| !NodeStatus::of(node, now).is_fresh()) {
        Some(taken_at) => format!("{} ago", format_age(now.since(taken_at))),
        None => "now".to_owned(),
    }
}

/// Returns the time up to which graphs are drawn: that of the last sample if the node has no fresh one, so that its last
/// graph stays.
pub(crate) fn shown_until(node: &Node, now: Timestamp) -> Timestamp {
    let last = node.taken_at().filter(|_| !NodeStatus::of(node, now).is_fresh());
    last.unwrap_or(now)
}

/// The graphs of a host.
struct HostGraphs<'a> {
    context: RenderContext<'a>,
    node: &'a Node,
    graph: Graph,
    /// The time up to which they are drawn, and the number of points up to it.
    until: Timestamp,
    count: usize,
}

/// The title and the rows of a graph.
type TitledRows = (Line, Vec<Line>);

impl HostGraphs<'_> {
    fn of_host(&self) -> Vec<Line> {
        let Self { context, node, .. } = *self;
        let (units, fast) = (context.options.units(), &node.host.fast);
        let share = used_percent(fast.memory_total.get(), fast.memory_available.get());
        let usage = units.usage_with_unit(used_host_memory(node), fast.memory_total.get());
        let mut lower_title =
            labelled_share("MEM", share).text(" ", Tone::Faint).text(usage, Tone::Plain);
        let swap_share = used_percent(fast.swap_total.get(), fast.swap_free.get());
        if let Some(total) = fast.swap_total.get().filter(|total| total.0 > 0) {
            let used = fast.swap_free.get().map(|free| Bytes(total.0.saturating_sub(free.0)));
            let usage = units.usage_with_unit(used, Some(total));
            let swap = labelled_share("SWAP", swap_share).text(" ", Tone::Faint);
            lower_title = lower_title.gap(3).append(swap.text(usage, Tone::Plain));
        }
        let upper_title = cpu_item(node, self.until, 0).gap(3).append(load_item(node));
        let cpu_tone = context.options.load.tone(percent_value(node.host.cpu));
        let upper = self.upper_rows(&self.points(Metric::Cpu), cpu_tone, "100%");
        // Swap, if any is used, has the last row.
        let has_swap = swap_share.is_some_and(|share| share >= 0.5);
        let graph = Graph { height: GRAPH_ROWS - u16::from(has_swap), ..self.lower() };
        let tone = context.options.memory.tone(share);
        let mut lower = graph.scaled_rows(&self.points(Metric::HostMemory), tone, ("", "100%"));
        if has_swap {
            let graph = Graph { height: 1, ..self.graph };
            lower.extend(graph.scaled_rows(&self.points(Metric::Swap), Tone::Warn, ("", "SWAP")));
        }
        self.stacked((upper_title, upper), (lower_title, lower))
    }

    fn of_devices(&self) -> Vec<Line> {
        let RenderContext { view, options, .. } = self.context;
        let positions = view.matching_devices(self.node);
        let totals = Totals::of_part(self.node, positions);
        let ((used, total), is_host) = totals.shown_memory();
        let memory = share_of(used, total);
        let load = totals.utilization.map(Percent::get);
        let amount = mark_host(options.units().usage_with_unit(used, total), is_host);
        let upper_title = labelled_share("DEVICE MEM", memory).gap(1).text(amount, Tone::Plain);
        let count_text = format!(" mean of {}", totals.utilization_devices);
        let lower_title = labelled_share("DEVICE UTIL", load).text(count_text, Tone::Faint);
        let [upper, lower] = [Metric::Memory, Metric::Utilization]
            .map(|metric| device_mean((self.node, positions), metric, self.until, self.count));
        self.stacked(
            (upper_title, self.upper_rows(&upper, options.memory.tone(memory), "100%")),
            (lower_title, self.lower_rows(&lower, options.load.tone(load), "100%")),
        )
    }

    /// Draws both directions to the same scale, which ends at the highest rate of either.
    fn of_network(&self) -> Vec<Line> {
        let rates = [Metric::NetworkIn, Metric::NetworkOut].map(|metric| self.points(metric));
        let highest = rates.iter().flatten().flatten().copied().fold(MIN_RATE_SCALE, f32::max);
        let [inward, outward] = rates.map(|rates| -> Vec<Option<f32>> {
            rates.into_iter().map(|rate| Some(rate? / highest * 100.0)).collect()
        });
        let now = Traffic::sum(&self.node.host.network);
        let title = |sign, rate_now: Option<Bytes>| {
            let text = or_unknown(rate_now, |bytes| format!("{sign}{:>4}/s", rate(bytes.0)));
            labelled("NET").text(text, Tone::Plain)
        };
        let end = format!("{}/s", rate(whole_bytes(highest)));
        self.stacked(
            (title("↓", now.map(|(rate, _)| rate)), self.upper_rows(&inward, Tone::Mid, &end)),
            (title("↑", now.map(|(_, rate)| rate)), self.lower_rows(&outward, Tone::Mid, &end)),
        )
    }

    /// Returns the points of a metric of the host.
    fn points(&self, metric: Metric) -> Vec<Option<f32>> {
        history_points(self.node, ("", metric), Some(&Source::host()), self.until, self.count)
    }

    fn upper_rows(&self, points: &[Option<f32>], tone: Tone, end: &str) -> Vec<Line> {
        self.graph.scaled_rows(points, tone, ("", end))
    }

    fn lower_rows(&self, points: &[Option<f32>], tone: Tone, end: &str) -> Vec<Line> {
        self.lower().scaled_rows(points, tone, ("", end))
    }

    /// Returns the graph below the time axis, which is filled from the top.
    const fn lower(&self) -> Graph {
        Graph { grows_down: true, ..self.graph }
    }

    /// Stacks two graphs, with the time axis between them.
    fn stacked(&self, upper: TitledRows, lower: TitledRows) -> Vec<Line> {
        let (node, graph) = (self.node, self.graph);
        let width = graph.width + SCALE_WIDTH;
        let newest = newest_label(node, node.taken_at(), self.context.view.now);
        let mut lines = vec![upper.0.truncated(width)];
        lines.extend(upper.1);
        lines.push(scale("0").append(graph.time_axis(&newest)));
        lines.extend(lower.1);
        lines.push(lower.0.truncated(width));
        lines
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
const fn whole_bytes(rate: f32) -> u64 {
    rate as u64
}

/// Returns the mean over the devices at these positions, or all, per second; memory is weighted by its size.
fn device_mean(
    (node, positions): (&Node, Option<&[usize]>),
    metric: Metric,
    now: Timestamp,
    count: usize,
) -> Vec<Option<f32>> {
    let mut means = Means::new(count);
    let is_memory = metric == Metric::Memory;
    let parts = measured_parts(node, positions, |device| {
        if is_memory { device.memory_share().is_some() } else { device.load().get().is_some() }
    });
    for (device, part) in parts {
        let index = node.devices.iter().position(|known| known.uuid == device.uuid).unwrap_or(0);
        let weight = if is_memory { device.memory_total.get().map_or(0.0, gib) } else { part };
        let source = node.device_sources.get(index);
        let points = history_points(node, (&device.uuid, metric), source, now, count);
        for (at, point) in points.into_iter().enumerate() {
            means.add(at, point, weight);
        }
    }
    means.finish()
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
    items.extend(limit_item(node, units));
    items.extend(swap_item(node, units));
    items.extend(network_items(node));
    items.extend(other_items(node, units));
    items
}

fn network_items(node: &Node) -> Vec<Line> {
    traffic_item("NET", &node.host.network, ["↓", "↑"]).into_iter().collect()
}

/// Returns the items that have no graph.
fn other_items(node: &Node, units: Units) -> Vec<Line> {
    let groups =
        [("IB", &node.host.infiniband, ["↓", "↑"]), ("DISK", &node.host.disks, ["r", "w"])];
    let traffic =
        groups.iter().filter_map(|(label, list, signs)| traffic_item(label, list, *signs));
    let mut items: Vec<Line> = traffic.collect();
    if let Some(temperature) = node.host.slow.temperature.get() {
        let text = format!("{:>4}", units.temperature(temperature));
        items.push(labelled("TEMP").text(text, Tone::Plain));
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

fn labelled_share(label: &str, share: Option<f32>) -> Line {
    labelled(label).right_aligned(&percent(share), 3, Tone::Strong).text("%", Tone::Faint)
}

fn cpu_item(node: &Node, now: Timestamp, points: u16) -> Line {
    let mut line = labelled_share("CPU", percent_value(node.host.cpu));
    if points > 0 {
        let (source, until) = (Source::host(), shown_until(node, now));
        let count = usize::from(points);
        let history = history_points(node, ("", Metric::Cpu), Some(&source), until, count);
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
    let (inward, outward) = Traffic::sum(list)?;
    let item = labelled(label)
        .text(format!("{}{:>4}", signs[0], rate(inward.0)), Tone::Plain)
        .text(format!(" {}{:>4}", signs[1], rate(outward.0)), Tone::Plain)
        .text("/s", Tone::Faint);
    Some(item)
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

/// Returns what the container of the probe uses of what it may use, if that is less than the host has.
fn limit_item(node: &Node, units: Units) -> Option<Line> {
    share_item("LIMIT", node.own_share()?, units)
}

/// Returns what jobs use of what they may use.
fn job_items(node: &Node, units: Units) -> impl Iterator<Item = Line> {
    let jobs = node.shares.iter().flat_map(|shares| shares.jobs.iter());
    jobs.filter_map(move |(id, share)| share_item(&format!("JOB {id}"), share, units))
}

fn share_item(label: &str, share: &HostShare, units: Units) -> Option<Line> {
    let parts = share_texts(share, units).into_iter().filter(|text| !text.is_empty());
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| labelled(label).text(parts.join(", "), Tone::Plain))
}

fn cache_item(node: &Node, units: Units) -> Option<Line> {
    let [cached, buffers] =
        [node.host.fast.memory_cached, node.host.fast.memory_buffers].map(|known| known.get());
    let buffers = buffers.map(|buffers| format!(", {} buffers", units.amount(buffers)));
    Some(
        labelled("CACHE")
            .text(units.amount(cached?), Tone::Plain)
            .text(buffers.unwrap_or_default(), Tone::Faint),
    )
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
    let hold = usize::try_from(hold_time(node, source).as_secs()).unwrap_or(3);
    let hold = hold.min(MAX_HOLD_SECONDS);
    repeated(node.history.last(subject, metric, now, count + hold), hold)
}

/// Returns for how long a value of a source is repeated.
pub(crate) fn hold_time(node: &Node, source: Option<&Source>) -> Duration {
    let state = source.and_then(|source| node.source(source));
    stale_after(state.map(|state| state.interval).unwrap_or_default())
}

/// Repeats each value at most `hold` times where no newer one is known, and leaves out the first `hold` points.
pub(crate) fn repeated(points: Vec<Option<f32>>, hold: usize) -> Vec<Option<f32>> {
    let mut last = (None, 0);
    let repeated = points.into_iter().map(|point| {
        last = match (point, last) {
            (Some(_), _) => (point, hold),
            (None, (value, left)) if left > 0 => (value, left - 1),
            (None, _) => (None, 0),
        };
        last.0
    });
    repeated.skip(hold).collect()
}
