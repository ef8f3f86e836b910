//! The panel of a node: title, problems, devices, chart, host and processes.

use std::collections::{BTreeMap, BTreeSet};

use crate::display_options::Density;
use crate::drawn_view::DrawnView;
use crate::node_panel::device_table::DeviceRoom;
use crate::node_panel::state::NodePanel;
use crate::node_panel::{chart, device_table, host, next_steps, process_table};
use crate::render_context::{RenderContext, Size};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::line::{Line, Tone, truncate, truncate_distinct, truncate_middle, wrap};
use crate::widgets::series::mean;
use gtop_fleet::insight::node_status::{
    NodeStatus, model_name, node_advice, shown_id, status_notes,
};
use gtop_fleet::insight::{FleetView, RowId, process_rows};
use gtop_fleet::{Metric, Node};
use gtop_local::text::{match_verb, width_of};
use gtop_local::time::format_age;
use gtop_model::{SudoState, TransportKind};

/// Width below which the names of models are not shortened.
const MIN_MODEL_WIDTH: u16 = 8;
/// Minimum height of the process table, titles included.
const MIN_PROCESS_ROWS: usize = 4;
/// Processes that get lines before devices and host get full density, in steps of as many, so that the layout seldom
/// changes when a process starts or ends.
const PROCESS_ROWS_STEP: usize = 8;
/// Devices shown before processes get any line.
const MIN_DEVICE_ROWS: usize = 8;
/// From this height on, the host has at least one line.
const MIN_HEIGHT_WITH_HOST: usize = 8;
/// From this height on, the next steps have an empty line above and below.
const MIN_HEIGHT_WITH_AIR: usize = 12;
/// Lines of the host if everything fits, and if not.
const HOST_LINES: (usize, usize) = (3, 2);
/// Lines of the host's items below its graphs.
const HOST_ITEM_LINES: usize = 2;
/// Lines that the jobs of the host have in any case, if they do not fit behind its other items.
const MIN_JOB_LINES: usize = 1;
/// Minimum height of the chart.
const MIN_CHART_HEIGHT: usize = 4;

/// Returns the columns of the tables of a panel.
pub(crate) fn column_groups() -> Vec<ColumnGroup> {
    vec![
        ("Columns of devices", device_table::explained_columns()),
        ("Columns of processes", process_table::column_specs()),
    ]
}

/// Draws the panel of a node in the given height.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    panel: &NodePanel,
    (width, height): Size,
) -> DrawnView {
    let fleet_view = context.view;
    let mut scroll = panel.scroll;
    let mut lines = vec![title(fleet_view, node, width)];
    lines.extend(problem_lines(fleet_view, node, width));
    let steps = next_steps::lines(context, node, width);
    if !steps.is_empty() {
        // Empty lines around them if they fit.
        let air = usize::from(height >= MIN_HEIGHT_WITH_AIR);
        lines.resize(lines.len() + air, Line::new());
        lines.extend(steps);
        lines.resize(lines.len() + air, Line::new());
    }
    let room = height.saturating_sub(lines.len());
    let detail = PanelDetail::of(context, node, panel, (width, room));
    let host_lines = |job_lines| {
        if detail.is_host_full {
            let max_lines = host::FULL_HEIGHT + HOST_ITEM_LINES;
            return host::graph_lines(context, node, (width, max_lines), job_lines);
        }
        let is_short = PanelHeights::of(node, panel, detail, HOST_LINES.0, room).is_short;
        let max_lines = if is_short { HOST_LINES.1 } else { HOST_LINES.0 };
        host::lines(context, node, (width, max_lines), job_lines)
    };
    let heights = PanelHeights::of(node, panel, detail, host_lines(MIN_JOB_LINES).len(), room);
    if heights.devices > 0 {
        let room = DeviceRoom {
            lines: heights.devices,
            more: detail.more_lines,
            has_sum: heights.has_sum,
        };
        let devices = device_table::lines(context, node, panel, width, room);
        scroll.devices = devices.1;
        lines.extend(devices.0);
    }
    let mut process_lines = heights.processes;
    if heights.chart > 0 {
        let size = (width, heights.chart);
        let chart = chart::lines(context, node, &panel.charts, scroll.devices.top, size);
        if process_lines > 0 {
            process_lines += heights.chart.saturating_sub(chart.len());
        }
        lines.extend(chart);
    }
    let host = host_lines(MIN_JOB_LINES + heights.spare);
    lines.extend(host.into_iter().take(heights.host + heights.spare));
    if heights.processes > 0 {
        if heights.has_gap {
            lines.push(Line::new());
        }
        let process_lines = process_lines.min(process_rows(node).len() + 1);
        let processes = process_table::lines(context, node, panel, (width, process_lines));
        scroll.processes = processes.1;
        lines.extend(processes.0);
    }
    lines.truncate(height);
    DrawnView { lines, panel: Some(scroll), ..DrawnView::default() }
}

/// Lines of the host in a report, whose height is unlimited.
const REPORT_HOST_LINES: usize = 8;

/// Returns a report of a node in as many lines as it takes, without graphs, which would be empty.
pub(crate) fn report(context: RenderContext<'_>, node: &Node, width: u16) -> Vec<Line> {
    let fleet_view = context.view;
    let panel = NodePanel::default();
    let mut lines = vec![title(fleet_view, node, width)];
    // A report is not interactive, so no keys are suggested and nothing is cut.
    match node.fault() {
        Some(fault) => {
            lines.extend(wrapped(&fault.message(), Tone::Bad, width));
            lines.extend(remedy_lines(context.view, node, width));
        }
        None => lines.extend(problem_lines(fleet_view, node, width)),
    }
    let steps = next_steps::lines(context, node, width);
    if !steps.is_empty() {
        lines.push(Line::new());
        lines.extend(steps);
        lines.push(Line::new());
    }
    if !node.devices.is_empty() {
        let more = match context.options.density {
            Density::Full => device_table::most_more_lines(context, node, width),
            Density::Compact | Density::Auto => 0,
        };
        let room = DeviceRoom {
            lines: device_table::height(node, more),
            more,
            has_sum: device_table::has_sum(node),
        };
        lines.extend(device_table::lines(context, node, &panel, width, room).0);
    }
    lines.extend(host::lines(context, node, (width, REPORT_HOST_LINES), usize::MAX));
    if !node.devices.is_empty() || !node.uses.is_empty() {
        lines.push(Line::new());
        let rows = process_rows(node).len() + 1;
        lines.extend(process_table::lines(context, node, &panel, (width, rows)).0);
    }
    lines
}

/// Level of detail of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PanelDetail {
    /// The lines below the first one of each device.
    more_lines: usize,
    /// Graphs of the host.
    is_host_full: bool,
    has_chart: bool,
}

impl PanelDetail {
    /// Chooses the level of detail for the density. `Density::Auto` has a line per device, and graphs of the host if they
    /// fit; `Density::Full` has all that is known of each device if it fits, and a line of that at least.
    fn of(context: RenderContext<'_>, node: &Node, panel: &NodePanel, (width, room): Size) -> Self {
        let has_chart = panel.charts.is_shown && !node.devices.is_empty();
        let frame_lines = if node.devices.is_empty() { 0 } else { device_table::frame_lines(node) };
        let job_lines = if node.shares.is_some() { MIN_JOB_LINES } else { 0 };
        let graph_lines = host::FULL_HEIGHT + HOST_ITEM_LINES + job_lines;
        let process_lines = panel.process_lines(node, PROCESS_ROWS_STEP);
        let room = room.saturating_sub(frame_lines);
        match panel.density.unwrap_or(context.options.density) {
            Density::Compact => Self { has_chart, ..Self::default() },
            Density::Auto => {
                let needed = device_table::height(node, 0) + graph_lines + process_lines;
                Self { is_host_full: !has_chart && needed <= room, has_chart, more_lines: 0 }
            }
            Density::Full => {
                let most = device_table::most_more_lines(context, node, width);
                let processes = process_lines.min(MIN_PROCESS_ROWS);
                let fits = |more: usize, host: usize| {
                    device_table::height(node, more) + host + processes <= room
                };
                let fitting = |host| (1..=most).rev().find(|more| fits(*more, host));
                let with_graphs = fitting(graph_lines);
                let more_lines = with_graphs.or_else(|| fitting(HOST_LINES.0)).unwrap_or(1);
                Self { is_host_full: with_graphs.is_some(), has_chart, more_lines }
            }
        }
    }
}

impl NodePanel {
    /// Returns the lines reserved for processes, titles included, in steps of as many rows.
    fn process_lines(&self, node: &Node, step: usize) -> usize {
        let rows = node.uses.len().div_ceil(step).max(1) * step;
        if self.hides_processes { 0 } else { 1 + rows }
    }
}

/// How the lines of a panel are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PanelHeights {
    /// Excludes the titles and the sum.
    devices: usize,
    has_sum: bool,
    host: usize,
    chart: usize,
    /// Includes the titles.
    processes: usize,
    has_gap: bool,
    /// What nothing else needs.
    spare: usize,
    /// True if devices or processes are cut.
    is_short: bool,
}

impl PanelHeights {
    fn of(node: &Node, panel: &NodePanel, detail: PanelDetail, host: usize, room: usize) -> Self {
        let frame_lines = if node.devices.is_empty() { 0 } else { device_table::frame_lines(node) };
        let device_lines = device_table::height(node, detail.more_lines);
        let is_shown = !panel.hides_processes && (device_lines > 0 || !node.uses.is_empty());
        let wanted_processes = if is_shown { process_rows(node).len() + 1 } else { 0 };
        // If lines are scarce, the host shrinks before the devices do, but keeps one line.
        let min_device_lines = device_lines.min(MIN_DEVICE_ROWS * (1 + detail.more_lines));
        let spare = room.saturating_sub(frame_lines + min_device_lines);
        let host = if detail.is_host_full || device_lines == 0 {
            host
        } else {
            host.min(spare.max(usize::from(room >= MIN_HEIGHT_WITH_HOST)))
        };
        let rest = room.saturating_sub(frame_lines + host);
        let min_chart = if detail.has_chart { MIN_CHART_HEIGHT } else { 0 };
        let reserved = wanted_processes.min(MIN_PROCESS_ROWS) + min_chart;
        let reserved = reserved.min(rest.saturating_sub(min_device_lines));
        let devices = device_lines.min(rest.saturating_sub(reserved));
        let is_cut = devices < device_lines;
        let rest = rest.saturating_sub(devices);
        // Where devices do not fit, one more has the line of the sum.
        let has_sum = device_table::has_sum(node);
        let devices = (devices + usize::from(is_cut && has_sum)).min(room.saturating_sub(1));
        // The chart gets what the first processes leave, or everything if that is almost nothing.
        let chart = if detail.has_chart {
            let rows = wanted_processes.min(MIN_PROCESS_ROWS.max(rest / 3));
            let rows = if rest < rows + MIN_CHART_HEIGHT { 0 } else { rows };
            rest.saturating_sub(rows + usize::from(rows > 0 && rest > MIN_PROCESS_ROWS * 3))
        } else {
            0
        };
        let rest = rest.saturating_sub(chart);
        let has_gap = rest > MIN_PROCESS_ROWS;
        let processes = wanted_processes.min(rest.saturating_sub(usize::from(has_gap)));
        // Titles alone say nothing.
        let processes = if processes < wanted_processes.min(2) { 0 } else { processes };
        let is_short = is_cut || processes < wanted_processes;
        let has_sum = has_sum && !is_cut;
        let spare = rest.saturating_sub(processes + usize::from(has_gap && processes > 0));
        Self { devices, has_sum, host, chart, processes, has_gap, spare, is_short }
    }
}

fn title(fleet_view: &FleetView, node: &Node, width: u16) -> Line {
    let status = NodeStatus::of(node, fleet_view.now);
    let tone = if status == NodeStatus::Down { Tone::Bad } else { Tone::Accent };
    let mut right = Line::new();
    if let Some(taken_at) = node.taken_at() {
        let age = format_age(fleet_view.now.since(taken_at));
        right = if status.is_fresh() {
            right.right_aligned(&age, 6, Tone::Faint)
        } else {
            let text = if status == NodeStatus::Down {
                format!("last seen {age} ago")
            } else {
                format!("values {age} old")
            };
            right.gap(2).text(text, Tone::Warn)
        };
    }
    let position = fleet_view.position(&node.name).map(|position| (position + 1).to_string());
    let position = position.unwrap_or_else(|| "hidden".to_owned());
    let right =
        Line::styled(format!("{position}/{}", fleet_view.count()), Tone::Faint).append(right);
    let name = truncate(node.name.as_str(), width / 2);
    let left = Line::styled(format!("{name}  "), tone).append(matching_text(fleet_view, node));
    let room = width.saturating_sub(left.width() + right.width() + 1);
    left.append(node_description(fleet_view, node, room)).with_right(right, width)
}

/// Counts the devices of each model. Names that do not fit are shortened so that those which differ here, or only at their
/// ends, still do.
fn models(node: &Node, room: u16) -> Line {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, device) in node.whole_devices() {
        *counts.entry(model_name(device)).or_default() += 1;
    }
    let longest = counts.keys().map(|name| width_of(name)).max().unwrap_or(0);
    let widths = MIN_MODEL_WIDTH..=longest.max(MIN_MODEL_WIDTH);
    let mut lines = widths.rev().map(|width| counted_models(&counts, width));
    // What is behind the last one may be cut off.
    let fitting = lines.find(|line| line.width().saturating_sub(2) <= room);
    fitting.unwrap_or_else(|| counted_models(&counts, MIN_MODEL_WIDTH))
}

fn counted_models(counts: &BTreeMap<&str, usize>, width: u16) -> Line {
    let names: Vec<&str> = counts.keys().copied().collect();
    let mut line = Line::new();
    for (name, count) in shortened(&names, width).into_iter().zip(counts.values()) {
        line = line.text(format!("{count}× {name}  "), Tone::Plain);
    }
    line
}

fn shortened(names: &[&str], width: u16) -> Vec<String> {
    let cut: Vec<String> = names.iter().map(|name| truncate_middle(name, width)).collect();
    if cut.iter().collect::<BTreeSet<_>>().len() == names.len() {
        return cut;
    }
    names.iter().map(|name| truncate_distinct(name, names, width)).collect()
}

/// Draws how many devices match the filter, unless all do.
fn matching_text(fleet_view: &FleetView, node: &Node) -> Line {
    let (all, matching) = (node.units().count(), fleet_view.matching_devices(node));
    let fewer = matching.map(<[usize]>::len).filter(|count| *count < all);
    fewer.map_or_else(Line::new, |count| {
        Line::styled(format!("{count} of {all} {}  ", match_verb(count)), Tone::Strong)
    })
}

/// Describes a node: devices, driver, jobs, probe. Only the names of the models are shortened to fit into `room`.
pub(crate) fn node_description(fleet_view: &FleetView, node: &Node, room: u16) -> Line {
    let mut line = models(node, room);
    let mut statics = node.devices.iter().filter_map(|device| device.statics.as_deref());
    if let Some(driver) = statics.find_map(|statics| statics.driver.known()) {
        line = line.text(format!("driver {driver}  "), Tone::Faint);
    }
    if let Some(cuda) = cuda_version(node) {
        line = line.text(format!("CUDA {cuda}  "), Tone::Faint);
    }
    let jobs = node.processes.iter().filter_map(|process| process.statics.job.as_ref());
    for job in jobs.collect::<BTreeSet<_>>().into_iter().take(3) {
        let job = shown_id(fleet_view.fleet.jobs.as_deref(), job);
        line = line.text(format!("job {job}  "), Tone::Faint);
    }
    // Only transports that cost an extra process or a job step are mentioned.
    let transport = match node.via {
        Some(TransportKind::SshProgram) => "via ssh  ",
        Some(TransportKind::Exec) => "via command  ",
        Some(TransportKind::Step) => "via srun  ",
        Some(TransportKind::Http) => "via http  ",
        Some(TransportKind::Native | TransportKind::Local | TransportKind::InProcess) | None => "",
    };
    line = line.text(transport, Tone::Faint);
    let Some(hello) = &node.hello else { return line };
    let user = if hello.sudo == Some(SudoState::Root) { "as root  " } else { "" };
    let probe = format!("{}  {}", hello.probe, hello.host.kernel);
    line.text(user, Tone::Warn).text(probe, Tone::Faint)
}

/// Returns the highest CUDA version that the node's driver supports.
fn cuda_version(node: &Node) -> Option<&str> {
    let drivers = node.hello.as_ref()?.backends.iter().filter_map(|state| state.driver.as_deref());
    drivers.into_iter().find_map(|driver| driver.cuda.as_deref())
}

/// Explains why a node is not fresh, and the remedy.
fn problem_lines(fleet_view: &FleetView, node: &Node, width: u16) -> Vec<Line> {
    let notes = Line::of_node(&status_notes(&fleet_view.fleet, node, fleet_view.now));
    let mut lines = vec![notes.truncated(width)];
    lines.retain(|line| line.width() > 0);
    // The whole error of a node that is down, if its notes show only a part.
    if let Some(fault) = node.fault().filter(|fault| *fault.what() != *fault.message()) {
        lines.extend(wrapped(&fault.what(), Tone::Plain, width));
    }
    lines.extend(remedy_lines(fleet_view, node, width));
    lines
}

fn wrapped(text: &str, tone: Tone, width: u16) -> impl Iterator<Item = Line> {
    let lines = wrap(text, width, MAX_TEXT_LINES).into_iter();
    lines.map(move |text| Line::styled(text, tone).truncated(width))
}

fn remedy_lines(fleet_view: &FleetView, node: &Node, width: u16) -> Vec<Line> {
    let text = node_advice(node, fleet_view.reader).first();
    let texts = wrap(&text, width.saturating_sub(2), MAX_TEXT_LINES).into_iter().enumerate();
    let lines = texts.map(|(index, text)| {
        Line::styled(if index == 0 { "→ " } else { "  " }, Tone::Faint).text(text, Tone::Plain)
    });
    lines.map(|line| line.truncated(width)).collect()
}

const MINUTE: usize = 60;
/// Maximum lines of a wrapped message or remedy.
pub(crate) const MAX_TEXT_LINES: usize = 8;

pub(crate) fn detail(
    context: RenderContext<'_>,
    node: &Node,
    panel: &NodePanel,
    width: u16,
) -> Option<Line> {
    let row_id = panel.cursor(node)?;
    let line = match &row_id {
        RowId::Device(uuid) => {
            let device = node.device(uuid)?;
            let minute = node.history.last(uuid, Metric::Throttled, context.view.now, MINUTE);
            device_table::detail(node, device, mean(minute.into_iter().flatten()), context.options)
        }
        RowId::Process { .. } => {
            process_table::detail(node, &row_id, context.view.fleet.jobs.as_deref())?
        }
    };
    Some(line.truncated(width))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_model::{Device, NodeName, Reading};

    fn drawn(names: &[&str], room: u16) -> String {
        let mut node = Node::new(NodeName::new("gpu1").unwrap(), Duration::ZERO);
        let device = |name: &&str| Device {
            uuid: (*name).into(),
            name: Reading::Known((*name).into()),
            ..Device::default()
        };
        node.devices = names.iter().map(device).collect();
        models(&node, room).plain_text().trim_end().to_owned()
    }

    #[test]
    fn models_that_differ_stay_different_at_every_width() {
        const ADA: [&str; 2] =
            ["NVIDIA RTX 6000 Ada Generation Server A", "NVIDIA RTX 6000 Ada Generation Server B"];
        const H100: [&str; 2] = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM2e"];
        const WORKSTATION: [&str; 2] = [
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ];
        assert_eq!(drawn(&ADA[..1], 40), "1× RTX 6000 Ada Generation Server A");
        assert_eq!(drawn(&ADA[..1], 27), "1× RTX 6000 Ada…on Server A");
        assert_eq!(drawn(&H100, 30), "1× H100 …HBM2e  1× H100 … HBM3");
        for names in [ADA, H100, WORKSTATION] {
            for room in 24..120 {
                let both = drawn(&names, room);
                let (one, other) = both.split_once("  ").unwrap();
                assert!(one != other && width_of(&both) <= room, "{room}: {both}");
                // On two nodes too, if they differ at the end.
                let alone = [drawn(&names[..1], room / 2), drawn(&names[1..], room / 2)];
                assert!(names == WORKSTATION || alone[0] != alone[1], "{room}: {alone:?}");
            }
        }
    }
}
