//! The chart pane of a node: graphs of up to four metrics of each device.

use crate::action::{Action, NodeAction};
use crate::chart_metric::ChartMetric;
use crate::dialog::Dialog;
use crate::display_options::DisplayOptions;
use crate::node_panel::attributes::{AttributeContext, chart_end_text, chart_text, device_fade};
use crate::node_panel::close_up::{chart_step, metric_points};
use crate::node_panel::host::newest_label;
use crate::render_context::RenderContext;
use crate::widgets::graph::{Graph, SCALE_WIDTH};
use crate::widgets::line::{Line, Tone};
use crate::widgets::menu::Menu;
use crate::widgets::table::Fade;
use gtop_fleet::Node;
use gtop_fleet::insight::node_status::device_label;
use gtop_fleet::metrics::{self, DeviceChart};
use gtop_local::text::{counted, width_of};
use gtop_model::Device;

/// Width of a value in front of a graph.
const VALUE_WIDTH: u16 = 7;
/// Minimum width of a graph with its label and scale.
const MIN_WIDTH: u16 = 40;
/// Height limit of one graph, in rows.
const MAX_ROWS: u16 = 8;

/// Whether the chart is shown, and the metrics chosen with keys (`None` for those of the settings).
#[derive(Clone, Debug, Default)]
pub(crate) struct ChartState {
    pub(crate) is_shown: bool,
    pub(crate) metrics: Option<Vec<ChartMetric>>,
}

impl ChartState {
    fn metrics<'a>(&'a self, display: &'a DisplayOptions) -> &'a [ChartMetric] {
        self.metrics.as_deref().unwrap_or(&display.chart.metrics)
    }

    pub(crate) fn aliases(&self, display: &DisplayOptions) -> Vec<String> {
        self.metrics(display).iter().map(|metric| metric.alias().to_owned()).collect()
    }

    /// Adds a metric at the end of the chart or removes it. A fifth metric displaces the first, and the last
    /// one cannot be removed.
    pub(crate) fn toggle(&mut self, display: &DisplayOptions, metric: ChartMetric) {
        let mut metrics = self.metrics(display).to_vec();
        let before = metrics.len();
        metrics.retain(|known| *known != metric);
        if metrics.len() == before || metrics.is_empty() {
            metrics.push(metric);
        }
        if metrics.len() > ChartMetric::MAX_CHARTED {
            metrics.remove(0);
        }
        self.metrics = Some(metrics);
    }

    /// Returns the menu of metrics with the cursor on `on`, or on the first charted metric.
    pub(crate) fn menu(&self, display: &DisplayOptions, selected: Option<ChartMetric>) -> Dialog {
        let charted = self.metrics(display);
        let empty_menu = Menu::new("chart up to four metrics of each device");
        let menu = metrics::charts().iter().fold(empty_menu, |menu, chart| {
            let metric = ChartMetric::of(chart);
            let sign = if charted.contains(&metric) { "*" } else { " " };
            let label = format!("{sign} {}", chart.alias);
            let toggle = Action::Node(NodeAction::ToggleMetric(metric));
            menu.with_item(toggle, Some(chart.metric.key), label, chart.metric.help)
        });
        let selected = selected.or(charted.first().copied());
        let charts = metrics::charts();
        let cursor = charts.iter().position(|chart| Some(ChartMetric::of(chart)) == selected);
        Dialog::Menu(menu.with_cursor(cursor.unwrap_or(0)), "toggle")
    }
}

/// Layout of the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChartGrid {
    columns: usize,
    /// Devices per column.
    rows: usize,
    /// Metrics per device.
    metrics: usize,
    /// Height of one graph, in rows.
    height: u16,
}

impl ChartGrid {
    /// Finds the fewest columns in which graphs are two rows high or, failing that, all graphs fit. If they
    /// never fit, drops metrics first and devices last.
    fn fit(devices: usize, metrics: usize, width: u16, room: usize) -> Self {
        let max_columns = usize::from(width / MIN_WIDTH).clamp(1, devices.max(1));
        let mut all = (1..=metrics).rev().flat_map(|metrics| {
            (1..=max_columns).filter_map(move |columns| Self::of(devices, columns, metrics, room))
        });
        let mut complete = all.clone().take_while(|grid| grid.metrics == metrics);
        let grid = complete.find(|grid| grid.height > 1).or_else(|| all.next());
        grid.unwrap_or(Self { columns: max_columns, rows: room, metrics: 1, height: 1 })
    }

    /// Lays out the devices in so many columns; `None` if the graphs do not fit.
    fn of(devices: usize, columns: usize, metrics: usize, room: usize) -> Option<Self> {
        let rows = devices.div_ceil(columns);
        let height = room / (rows * metrics).max(1);
        let height = u16::try_from(height).unwrap_or(MAX_ROWS).min(MAX_ROWS);
        (height > 0).then_some(Self { columns, rows, metrics, height })
    }
}

/// Draws the chart in at most `height` lines.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    charts: &ChartState,
    top: usize,
    (width, height): (u16, usize),
) -> Vec<Line> {
    let devices: Vec<_> = node.whole_devices().collect();
    let charted = charts.metrics(context.options);
    let grid = ChartGrid::fit(devices.len(), charted.len(), width, height.saturating_sub(1));
    let columns = u16::try_from(grid.columns).unwrap_or(1).max(1);
    let column_width = (width + 2) / columns;
    let all = metrics::charts();
    let shown = charted.iter().take(grid.metrics);
    let shown = shown.filter_map(|metric| all.iter().find(|chart| chart.alias == metric.alias()));
    let shown: Vec<_> = shown.map(|chart| ScaledChart::of(chart, &devices)).collect();
    let label = LabelWidths::of(node, &shown, grid.height);
    let graph = Graph {
        width: column_width.saturating_sub(label.whole + SCALE_WIDTH + 2),
        height: grid.height,
        grows_down: false,
        is_reversed: context.options.chart.is_reversed,
        step: chart_step(node),
    };
    let pane = Pane { context, node, graph, label };
    // Graphs that do not fit scroll with the device table.
    let visible = grid.columns * grid.rows;
    let from = if visible < devices.len() { top.min(devices.len() - visible) } else { 0 };
    let mut lines = Vec::new();
    for row in devices.get(from..).unwrap_or_default().chunks(grid.columns).take(grid.rows) {
        for chart in &shown {
            let mut across = vec![Line::new(); usize::from(grid.height)];
            for (column, (index, device)) in (0..).zip(row) {
                for (line, part) in across.iter_mut().zip(pane.graph_of(*index, device, *chart)) {
                    *line = std::mem::take(line).append_at(column_width * column, part);
                }
            }
            lines.extend(across);
        }
    }
    if !lines.is_empty() {
        let mut ticks = Line::new();
        if grid.metrics < charted.len() {
            let text = format!("{} of {}", grid.metrics, counted(charted.len(), "metric"));
            ticks = ticks.text(text, Tone::Faint);
        }
        let axis = graph.time_axis(&newest_label(node, node.taken_at(), context.view.now));
        for column in 0..columns {
            let start = column_width * column + label.whole + SCALE_WIDTH;
            ticks = ticks.append_at(start, axis.clone());
        }
        lines.push(ticks);
    }
    lines.truncate(height);
    lines.into_iter().map(|line| line.truncated(width)).collect()
}

/// A chart with the end of its scale, which is that of all devices.
#[derive(Clone, Copy)]
struct ScaledChart<'a> {
    chart: &'a DeviceChart,
    /// The most that a share is of; `None` if shares are percentages.
    end: Option<f32>,
}

impl<'a> ScaledChart<'a> {
    fn of(chart: &'a DeviceChart, devices: &[(usize, &Device)]) -> Self {
        let wholes = devices.iter().filter_map(|(_, device)| chart.whole(device));
        Self { chart, end: wholes.max_by(f32::total_cmp) }
    }

    /// Returns what a share of a device is multiplied by to be on the scale.
    fn factor(&self, device: &Device) -> f32 {
        let whole_and_end = self.chart.whole(device).zip(self.end.filter(|end| *end > 0.0));
        whole_and_end.map_or(1.0, |(whole, end)| whole / end)
    }
}

/// The widths of the labels in front of graphs.
#[derive(Clone, Copy)]
struct LabelWidths {
    device: u16,
    alias: u16,
    /// With the value, which is in a row of its own if there is one.
    whole: u16,
}

impl LabelWidths {
    fn of(node: &Node, charts: &[ScaledChart<'_>], height: u16) -> Self {
        let devices = node.devices.iter().map(|device| width_of(&device_label(node, device)));
        let device = devices.max().unwrap_or(1).min(4);
        let alias = charts.iter().map(|shown| width_of(shown.chart.alias)).max().unwrap_or(0);
        let names = device + 1 + alias;
        let whole = if height > 1 { names.max(VALUE_WIDTH) } else { names + VALUE_WIDTH };
        Self { device, alias, whole }
    }
}

struct Pane<'a> {
    context: RenderContext<'a>,
    node: &'a Node,
    graph: Graph,
    label: LabelWidths,
}

impl Pane<'_> {
    /// Draws the graph of one metric of one device behind its label.
    fn graph_of(&self, index: usize, device: &Device, shown: ScaledChart<'_>) -> Vec<Line> {
        let Self { context, node, graph, label } = *self;
        let chart = shown.chart;
        let now = context.view.now;
        let count = graph.visible_points(now);
        let source = node.device_sources.get(index);
        let fade = device_fade(context.view, node, index);
        let taken_at = source.and_then(|source| node.source(source)?.taken_at);
        // What is no longer measured keeps its last graph.
        let now = taken_at.filter(|_| fade == Fade::All).unwrap_or(now);
        let mut points =
            metric_points(node, (&device.uuid, chart.metric.series), source, now, count);
        for share in points.iter_mut().flatten() {
            *share *= shown.factor(device);
        }
        let units = context.options.units();
        let value = chart_text(chart, AttributeContext { node, device, units });
        let end = chart_end_text(chart, shown.end, units);
        let tone = context.options.device.tone(chart.share(device));
        let names = Line::new()
            .right_aligned(&device_label(node, device), label.device, Tone::Strong)
            .gap(1)
            .left_aligned(chart.alias, label.alias, Tone::Faint);
        let right = |line: Line| {
            let room = label.whole.saturating_sub(line.width());
            line.right_aligned(&value, room, Tone::Plain)
        };
        let labels =
            if graph.height > 1 { vec![names, right(Line::new())] } else { vec![right(names)] };
        let labels = labels.into_iter().chain(std::iter::repeat_with(Line::new));
        let rows = graph.scaled_rows(&points, tone, ("0", &end)).into_iter();
        rows.zip(labels)
            .map(|(row, labels)| fade.applied_to(labels.append_at(label.whole, row)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{Reading, Watts};

    #[test]
    fn one_to_four_metrics_are_charted() {
        let (mut charts, display) = (ChartState::default(), DisplayOptions::default());
        charts.toggle(&display, ChartMetric::MEMORY);
        assert_eq!(charts.metrics(&display), [ChartMetric::UTILIZATION]);
        charts.toggle(&display, ChartMetric::UTILIZATION);
        assert_eq!(charts.metrics(&display), [ChartMetric::UTILIZATION]);
        for name in ["fan", "power", "pcie", "smclock"] {
            charts.toggle(&display, ChartMetric::from_name(name).unwrap());
        }
        assert_eq!(charts.metrics(&display).len(), ChartMetric::MAX_CHARTED);
        assert!(charts.metrics(&display).iter().any(|metric| metric.alias() == "smclock"));
        let letters: Vec<char> = metrics::charts().iter().map(|chart| chart.metric.key).collect();
        let different: std::collections::BTreeSet<_> = letters.iter().collect();
        assert_eq!(different.len(), letters.len());
        assert!(!letters.iter().any(|letter| "jkq".contains(*letter)));
    }

    #[test]
    fn devices_with_different_limits_are_drawn_to_one_scale() {
        let device = |limit: f32| Device {
            power: Reading::checked(Watts::new(200.0)),
            power_limit: Reading::checked(Watts::new(limit)),
            ..Device::default()
        };
        let devices = [device(400.0), device(800.0), Device::default()];
        let charts = metrics::charts();
        let power = charts.iter().find(|chart| chart.alias == "power").unwrap();
        let numbered: Vec<(usize, &Device)> = devices.iter().enumerate().collect();
        let shown = ScaledChart::of(power, &numbered);
        assert_eq!(shown.end, Some(800.0));
        // A share is of the device's own limit: 50 % of 400 W is as high as 25 % of 800 W.
        let factors: Vec<f32> = devices.iter().map(|device| shown.factor(device)).collect();
        assert_eq!(factors, [0.5, 1.0, 1.0]);
        let util = ScaledChart::of(&charts[0], &numbered);
        assert_eq!((util.end, Some(util.factor(&devices[0]))), (None, Some(1.0)));
    }

    #[test]
    fn graphs_divide_the_available_lines() {
        for (devices, metrics, width, room, expected) in [
            (1, 2, 80, 12, (1, 1, 2, 6)),
            (8, 2, 80, 10, (2, 4, 2, 1)),
            (8, 2, 80, 5, (2, 4, 1, 1)),
            (8, 2, 200, 24, (2, 4, 2, 3)),
            (8, 4, 200, 8, (4, 2, 4, 1)),
            (20, 2, 80, 6, (2, 6, 1, 1)),
            (0, 2, 80, 6, (1, 0, 2, 6)),
        ] {
            let ChartGrid { columns, rows, metrics: shown, height } =
                ChartGrid::fit(devices, metrics, width, room);
            let found = (columns, rows, shown, height);
            assert_eq!(found, expected, "{devices} {metrics} {width} {room}");
        }
    }
}
