//! The device table of a node, in nvnodetop's column order, with attribute columns if there is room.

use std::sync::Arc;

use crate::fleet::{Metric, Node, Totals};
use crate::insight::RowId;
use crate::insight::node_status::{device_flags, device_label};
use crate::metrics::{MetricColumn, bandwidth_share, utilization};
use crate::model::{Device, Link, Megahertz, Percent, Reading, Reason, Throttle, Watts};
use crate::model::{UNKNOWN, width_of};
use crate::time::Timestamp;
use crate::ui::RenderContext;
use crate::ui::display_options::{DisplayOptions, Thresholds};
use crate::ui::node_panel::NodePanel;
use crate::ui::node_panel::attributes;
use crate::ui::node_panel::attributes::{Attribute, AttributeContext};
use crate::ui::node_panel::host::history_points;
use crate::ui::node_panel::process_table::has_only_tpus;
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{Units, or_unknown, percent};

/// From this width on, device names and memory clocks have columns.
const WIDE_WIDTH: u16 = 100;
/// Number of attributes that have a column even if each device has a second line.
const ATTRIBUTE_COLUMNS_IN_FULL: usize = 2;
/// Width of a bar in the second line of a device.
const SECOND_LINE_BAR_WIDTH: u16 = 8;

/// Returns why a device does not report a value.
type ReasonOf = fn(&Device) -> Option<Reason>;

/// A device in the table.
struct DeviceRow<'a> {
    node: &'a Node,
    index: usize,
    device: &'a Device,
    now: Timestamp,
}

/// A column after the label.
#[derive(Clone, Copy)]
struct DeviceColumn {
    spec: ColumnSpec,
    content: Content,
}

#[derive(Clone, Copy)]
enum Content {
    Attribute(Attribute),
    /// A column that takes part in the layout.
    Laid {
        /// Returns the width of a chosen column in a table of this width.
        width: fn(&Columns, &Node, u16) -> u16,
        cell: fn(&Columns, DeviceRow<'_>, u16) -> Line,
        /// Draws the sum over the devices; `None` if there is none.
        sum: Option<fn(&Columns, &Totals, u16) -> Line>,
    },
}

impl DeviceColumn {
    const fn new(
        (name, title): (&'static str, &'static str),
        help: &'static str,
        width: fn(&Columns, &Node, u16) -> u16,
        cell: fn(&Columns, DeviceRow<'_>, u16) -> Line,
    ) -> Self {
        let content = Content::Laid { width, cell, sum: None };
        Self { spec: ColumnSpec::new(name, title, "", help), content }
    }

    const fn summed(self, sum: fn(&Columns, &Totals, u16) -> Line) -> Self {
        match self.content {
            Content::Laid { width, cell, .. } => {
                Self { content: Content::Laid { width, cell, sum: Some(sum) }, ..self }
            }
            Content::Attribute(_) => self,
        }
    }

    fn of_attribute(attribute: Attribute) -> Self {
        let MetricColumn { title, help, .. } = attribute.column;
        let spec = ColumnSpec::new(attribute.name, title, "", help);
        Self { spec, content: Content::Attribute(attribute) }
    }
}

/// The columns in front of the attributes.
const FIRST: [DeviceColumn; 8] = [
    DeviceColumn::new(
        ("uuid", "UUID"),
        "the UUID",
        |_, node, _| max_width(node.devices.iter().map(|device| device.uuid.to_string())).min(40),
        |_, row, width| Line::new().left_aligned(&row.device.uuid, width, Tone::Plain),
    ),
    DeviceColumn::new(
        ("name", "NAME"),
        "the model",
        |_, node, _| max_width(node.devices.iter().map(|device| name(device, true))).clamp(4, 20),
        |_, row, width| Line::new().left_aligned(&name(row.device, true), width, Tone::Plain),
    ),
    DeviceColumn::new(
        ("temp", "TEMP"),
        "device temperature",
        |_, _, _| 4,
        |columns, row, width| {
            let text = or_unknown(row.device.temperature.get(), |temperature| {
                columns.units.temperature(temperature)
            });
            let is_hot = row.device.throttle.get().is_some_and(Throttle::is_thermal);
            let tone = if is_hot { Tone::Warn } else { Tone::Plain };
            Line::new().right_aligned(&text, width, tone)
        },
    ),
    DeviceColumn::new(
        ("util", "UTIL"),
        "utilization as a bar and in percent",
        |_, _, _| UTIL_WIDTH,
        |columns, row, width| {
            let util = utilization(row.device);
            let flags = device_flags(row.device).into_iter();
            let worst = flags.map(|(_, severity)| Tone::from(severity)).max();
            load_line(util, worst.unwrap_or_else(|| columns.load.tone(util)), width)
        },
    )
    .summed(|columns, totals, width| {
        let util = totals.utilization.map(Percent::get);
        load_line(util, columns.load.tone(util), width)
    }),
    DeviceColumn::new(
        ("membar", "MEM"),
        "memory as a bar",
        |_, _, _| 4,
        |columns, row, width| columns.memory_bar(row.device.memory_share(), width),
    )
    .summed(|columns, totals, width| {
        let both = totals.memory_used.zip(totals.memory_total);
        let share = both.and_then(|(used, total)| Percent::of(used.0, total.0));
        columns.memory_bar(share, width)
    }),
    DeviceColumn::new(
        ("mem", "GiB"),
        "memory in use and total",
        |columns, node, _| {
            let total = Totals::of_devices(node).memory_total;
            width_of(&columns.units.usage(total, total)).max(9)
        },
        |columns, row, width| {
            let (used, total) = (row.device.memory_used.get(), row.device.memory_total.get());
            Line::new().right_aligned(&columns.units.usage(used, total), width, Tone::Plain)
        },
    )
    .summed(|columns, totals, width| {
        let pair = columns.units.usage(totals.memory_used, totals.memory_total);
        Line::new().right_aligned(&pair, width, Tone::Plain)
    }),
    DeviceColumn::new(
        ("power", "W"),
        "power and its limit",
        |_, node, _| {
            // The widest text that can occur.
            let limit = Totals::of_devices(node).power_limit;
            let widest = or_unknown(limit, |limit| format!("{0:.0}/{0:.0}", limit.get()));
            width_of(&widest).max(7)
        },
        |_, row, width| power(row.device.power.get(), row.device.power_limit.get(), width),
    )
    .summed(|_, totals, width| power(totals.power, totals.power_limit, width)),
    DeviceColumn::new(
        ("clocks", "MHz"),
        "SM clock, and memory clock if there is room",
        |_, _, width| 4 + if width >= WIDE_WIDTH { 5 } else { 0 },
        |columns, row, width| {
            Line::new().right_aligned(&columns.clocks_text(row.device), width, Tone::Plain)
        },
    ),
];

/// The columns behind the attributes.
const LAST: [DeviceColumn; 2] = [
    DeviceColumn::new(
        ("last", "LAST"),
        "utilization over the last seconds",
        |_, _, _| 6,
        |_, DeviceRow { node, index, device, now }, width| {
            let series = (&*device.uuid, Metric::Utilization);
            let source = node.device_sources.get(index);
            let points = history_points(node, series, source, now, usize::from(width));
            Line::new().sparkline(points, Tone::Mid)
        },
    ),
    DeviceColumn::new(
        (FLAGS, "FLAGS"),
        "problems",
        |_, _, _| 8,
        |_, row, _| {
            let flags = device_flags(row.device).into_iter();
            flags.fold(Line::new(), |line, (flag, tone)| line.text(flag.as_str(), tone).gap(1))
        },
    ),
];
const FLAGS: &str = "flags";
/// Width of the utilization: a bar, its percentage, and a column for the percent sign.
const UTIL_WIDTH: u16 = 6 + 4;

/// Returns the columns after the label of the device.
fn device_columns() -> impl Iterator<Item = DeviceColumn> {
    let attributes = attributes::attributes().into_iter().map(DeviceColumn::of_attribute);
    FIRST.into_iter().chain(attributes).chain(LAST)
}

/// Returns the columns that can be chosen.
pub(crate) fn column_specs() -> Vec<ColumnSpec> {
    device_columns().map(|column| column.spec).collect()
}

/// The visible columns and what their cells are drawn with.
#[derive(Default)]
struct Columns {
    /// From left to right, with their widths; 0 hides a column.
    order: Vec<(DeviceColumn, u16)>,
    /// Width that is not yet assigned to columns.
    left: u16,
    load: Thresholds,
    /// Thresholds of memory bandwidth.
    bandwidth: Thresholds,
    units: Units,
    gap: u16,
    label: u16,
    has_index: bool,
    has_memory_clock: bool,
    has_only_tpus: bool,
    /// Attributes that some device reports but that have no column.
    without_column: Vec<Attribute>,
}

/// Returns the number of lines around the devices: titles, and the sum if there are several devices.
pub(crate) fn frame_lines(node: &Node) -> usize {
    1 + usize::from(has_sum(node))
}

fn has_sum(node: &Node) -> bool {
    node.devices.iter().filter(|device| device.parent.is_none()).count() > 1
}

/// Draws the titles, the given number of device lines, and the sum. With full density a device takes two
/// lines.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    panel: &mut NodePanel,
    width: u16,
    (room, is_full): (usize, bool),
) -> Vec<Line> {
    let now = context.view.now;
    let columns = Columns::of(node, context.options, width, is_full);
    let cursor = panel.cursor(node);
    let has_cursor = |device: &Device| cursor == Some(RowId::Device(Arc::clone(&device.uuid)));
    let cursor_index = node.devices.iter().position(has_cursor);
    let rows = if is_full { room / 2 } else { room };
    panel.devices.scroll_to(rows, node.devices.len(), cursor_index);
    let count = node.devices.len();
    let mut lines = vec![panel.devices.with_position(columns.titles(), count, width)];
    for index in panel.devices.range(node.devices.len()) {
        let Some(device) = node.devices.get(index) else { continue };
        let is_fresh = node.link == Link::Up && node.device_freshness(index, now).is_fresh();
        let faded = |line: Line| if is_fresh { line } else { line.dimmed() };
        lines.push(columns.row((node, index), now, is_fresh).selected(has_cursor(device)));
        if is_full {
            lines
                .push(faded(columns.second_line(node, device, width)).selected(has_cursor(device)));
        }
    }
    if has_sum(node) {
        let line = columns.sum(node);
        let places = 0..node.devices.len();
        let is_fresh = node.link == Link::Up
            && places.into_iter().all(|index| node.device_freshness(index, now).is_fresh());
        lines.push(if is_fresh { line } else { line.dimmed() });
    }
    lines.into_iter().map(|line| line.truncated(width)).collect()
}

impl Columns {
    /// Returns the columns set by the user, or those of highest priority that fit.
    fn of(node: &Node, display: &DisplayOptions, width: u16, is_full: bool) -> Self {
        let mut columns = Self::base(node, display, width);
        if display.columns.node.is_empty() {
            columns.fit(node, display, width, is_full);
        } else {
            columns.fit_chosen(node, &display.columns.node, width);
        }
        columns
    }

    /// Returns what does not depend on the columns.
    fn base(node: &Node, display: &DisplayOptions, width: u16) -> Self {
        let names = display.selection.names;
        let label = max_width(node.devices.iter().map(|device| device_label(node, device))).max(3);
        let is_named = names.has_index || names.has_name || names.has_uuid;
        // Without index, name and UUID, devices could not be told apart.
        let has_index = names.has_index || !is_named;
        let label = if has_index { label } else { 3 };
        Self {
            load: display.device,
            bandwidth: display.memory,
            units: display.units(),
            gap: if width >= 110 { 2 } else { 1 },
            left: width.saturating_sub(label),
            has_index,
            label,
            has_only_tpus: has_only_tpus(node),
            ..Self::default()
        }
    }

    /// Adds a column if it fits.
    fn reserve(&mut self, column: DeviceColumn, width: u16) -> bool {
        let fits = self.left >= width + self.gap;
        if fits {
            self.left -= width + self.gap;
            self.order.push((column, width));
        }
        fits
    }

    /// Adds the column of this name if it fits, in its width or in `width`.
    fn reserve_named(&mut self, node: &Node, name: &str, width: Option<u16>) {
        let mut columns = FIRST.into_iter().chain(LAST);
        let Some(column) = columns.find(|column| column.spec.name == name) else { return };
        let Content::Laid { width: chosen_width, .. } = column.content else { return };
        let width = width.unwrap_or_else(|| chosen_width(self, node, 0));
        self.reserve(column, width);
    }

    fn width_of(&mut self, name: &str) -> Option<&mut u16> {
        let column = self.order.iter_mut().find(|(column, _)| column.spec.name == name);
        column.map(|(_, width)| width)
    }

    /// Widens a column that is shown by some of the width that is left.
    fn grow(&mut self, name: &str, by: u16) {
        let by = by.min(self.left);
        if let Some(width) = self.width_of(name) {
            *width += by;
            self.left -= by;
        }
    }

    /// Assigns width to the columns set by the user, from left to right, and the rest to bars and flags.
    fn fit_chosen(&mut self, node: &Node, names: &[String], width: u16) {
        let all: Vec<DeviceColumn> = device_columns().collect();
        let chosen = |name: &String| all.iter().find(|column| column.spec.name == name).copied();
        for column in names.iter().filter_map(chosen) {
            let column_width = match column.content {
                Content::Attribute(attribute) => attribute.column.width,
                Content::Laid { width: column_width, .. } => column_width(self, node, width),
            };
            if !self.reserve(column, column_width) {
                break;
            }
            self.has_memory_clock |= column.spec.name == "clocks" && width >= WIDE_WIDTH;
        }
        self.without_column = attributes::attributes();
        let Self { without_column, order, units, .. } = self;
        without_column.retain(|attribute| {
            let has_column = order.iter().any(|(column, _)| column.spec.name == attribute.name);
            !has_column && attribute.is_available(node, *units)
        });
        // A wide gap between flags and the next column would be hard to follow.
        let is_last = self.order.last().is_none_or(|(column, _)| column.spec.name == FLAGS);
        self.distribute(if is_last { u16::MAX } else { 12 });
    }

    fn fit(&mut self, node: &Node, display: &DisplayOptions, width: u16, is_full: bool) {
        let names = display.selection.names;
        self.reserve_named(node, "util", None);
        self.reserve_named(node, "mem", None);
        self.reserve_named(node, FLAGS, Some(if width >= 110 { 14 } else { 8 }));
        let devices = || node.devices.iter();
        if names.has_uuid {
            let uuid = max_width(devices().map(|device| device.uuid.to_string()));
            let uuid = uuid.min(if width >= WIDE_WIDTH { 40 } else { 12 });
            self.reserve_named(node, "uuid", Some(uuid));
        }
        if !names.has_index && names.has_name {
            let longest = max_width(devices().map(|device| name(device, true)));
            self.reserve_named(node, "name", Some(longest.clamp(4, 16)));
        }
        let reasons: [(&str, ReasonOf); 3] = [
            ("temp", |device| device.temperature.reason()),
            ("power", |device| device.power.reason()),
            ("clocks", |device| device.sm_clock.reason()),
        ];
        for (name, reason) in reasons {
            // A column is dropped if no device of this kind supports it.
            let is_reported = devices().map(reason).any(|reason| {
                reason.is_none_or(|why| why != Reason::NotSupported && !self.has_only_tpus)
            });
            if is_reported {
                self.reserve_named(node, name, None);
            }
        }
        self.reserve_named(node, "membar", None);
        self.reserve_named(node, "last", None);
        let available = attributes::attributes().into_iter().enumerate();
        let units = self.units;
        let available = available.filter(|(_, attribute)| attribute.is_available(node, units));
        if width >= WIDE_WIDTH {
            let max_attributes = if is_full { ATTRIBUTE_COLUMNS_IN_FULL } else { usize::MAX };
            self.widen(node, names.has_name);
            for (index, attribute) in available {
                let column = DeviceColumn::of_attribute(attribute);
                if index >= max_attributes || !self.reserve(column, attribute.column.width) {
                    self.without_column.push(attribute);
                }
            }
        } else {
            self.without_column = available.map(|(_, attribute)| attribute).collect();
        }
        if self.width_of(FLAGS).is_none() {
            // The flags have what no other column needs.
            self.order.extend(LAST.last().map(|flags| (*flags, 0)));
        }
        self.distribute(u16::MAX);
        let places: Vec<&str> = device_columns().map(|column| column.spec.name).collect();
        let place =
            |column: &DeviceColumn| places.iter().position(|name| *name == column.spec.name);
        self.order.sort_by_key(|(column, _)| place(column));
    }

    /// Spends spare width on memory clocks and names, then on wider bars.
    fn widen(&mut self, node: &Node, has_name: bool) {
        if self.left >= 5 && self.width_of("clocks").is_some() {
            self.grow("clocks", 5);
            self.has_memory_clock = true;
        }
        if has_name && self.width_of("name").is_none() {
            self.reserve_named(node, "name", None);
        }
        self.grow("util", 6);
        self.grow("membar", 4);
        self.grow("last", 9);
    }

    /// Gives the width that is left to bars, and as much of the rest to the flags.
    fn distribute(&mut self, max_flags: u16) {
        let room = self.left;
        self.grow("util", (room * 2 / 5).min(18));
        self.grow("membar", (room / 5).min(12));
        self.grow("last", 34);
        self.grow(FLAGS, max_flags);
    }

    /// Returns the visible columns, from left to right.
    fn shown(&self) -> impl Iterator<Item = (DeviceColumn, u16)> {
        self.order.iter().copied().filter(|(_, width)| *width > 0)
    }

    fn titles(&self) -> Line {
        let line = Line::new().right_aligned(
            if self.has_index { "#" } else { "" },
            self.label,
            Tone::Faint,
        );
        self.shown().fold(line, |line, (DeviceColumn { spec, .. }, width)| {
            let line = line.gap(self.gap);
            let seconds = || format!("{}{width}s", if width >= 8 { "LAST " } else { "" });
            match spec.name {
                "uuid" | "name" | FLAGS => line.left_aligned(spec.title, width, Tone::Faint),
                "last" => line.left_aligned(&seconds(), width, Tone::Faint),
                "util" => line
                    .left_aligned(
                        if self.has_only_tpus { "DUTY" } else { spec.title },
                        width - 4,
                        Tone::Faint,
                    )
                    .right_aligned("%", 4, Tone::Faint),
                "membar" => {
                    let title = if self.has_only_tpus { "HBM" } else { spec.title };
                    line.left_aligned(title, width, Tone::Faint)
                }
                "mem" => line.right_aligned(self.units.unit_name(), width, Tone::Faint),
                "clocks" if self.has_memory_clock => {
                    line.right_aligned("SM/MEM", width, Tone::Faint)
                }
                _ => line.right_aligned(spec.title, width, Tone::Faint),
            }
        })
    }

    fn row(&self, (node, index): (&Node, usize), now: Timestamp, is_fresh: bool) -> Line {
        let Some(device) = node.devices.get(index) else { return Line::new() };
        let faded = |line: Line| if is_fresh { line } else { line.dimmed() };
        let label_tone = if device.parent.is_some() { Tone::Faint } else { Tone::Strong };
        let label_text = if self.has_index { device_label(node, device) } else { String::new() };
        let line = faded(Line::new().right_aligned(&label_text, self.label, label_tone));
        let last = self.order.last().map(|(column, _)| column.spec.name);
        self.shown().fold(line, |line, (column, width)| {
            let row = DeviceRow { node, index, device, now };
            let cell = match column.content {
                Content::Attribute(attribute) => {
                    let context = AttributeContext { node, device, units: self.units };
                    let (text, tone) = attribute_text(attribute, context);
                    Line::new().right_aligned(&text, width, tone)
                }
                Content::Laid { cell, .. } => cell(self, row, width),
            };
            let cell = Line::new().gap(self.gap).append(cell);
            if column.spec.name != FLAGS {
                return line.append(faded(cell));
            }
            if last == Some(FLAGS) {
                return line.append(cell);
            }
            let flags = cell.truncated(self.gap + width);
            let missing = (self.gap + width).saturating_sub(flags.width());
            line.append(flags).gap(missing)
        })
    }

    /// Draws the second line of a device: bars of power and bandwidth, then the attributes without a column.
    /// A slice has only what it reports itself.
    fn second_line(&self, node: &Node, device: &Device, width: u16) -> Line {
        let mut line = Line::new().gap(self.label + 1);
        if device.fault.is_some() {
            return line;
        }
        let is_slice = device.parent.is_some();
        let devices = || node.devices.iter();
        let has_power = devices().any(|device| device.power_share().is_some());
        let has_traffic = devices().any(|device| bandwidth_share(device).get().is_some());
        let power = device.power_share().map(Percent::get);
        let traffic = bandwidth_share(device).get().map(Percent::get);
        let bars = [
            ("power", power, self.load, has_power),
            ("membw", traffic, self.bandwidth, has_traffic),
        ];
        for (label, share, thresholds, is_reported) in bars {
            let has_room = line.width() + 16 + SECOND_LINE_BAR_WIDTH <= width;
            if !is_reported || !has_room || (is_slice && share.is_none()) {
                continue;
            }
            line = line
                .gap(1)
                .text(format!("{label} "), Tone::Faint)
                .bar(share, SECOND_LINE_BAR_WIDTH, thresholds.tone(share))
                .right_aligned(&percent(share), 4, Tone::Plain)
                .text(if share.is_some() { "%" } else { " " }, Tone::Faint)
                .gap(1);
        }
        let context = AttributeContext { node, device, units: self.units };
        for attribute in self.without_column.iter().filter(|attribute| attribute.name != "membw") {
            let room = width.saturating_sub(line.width());
            let (text, tone) = attribute_text(*attribute, context);
            let MetricColumn { label, width: column_width, .. } = attribute.column;
            if room < width_of(label) + 2 + column_width || (is_slice && text == UNKNOWN) {
                continue;
            }
            let gap = if line.width() > self.label + 1 { 2 } else { 1 };
            line = line.gap(gap).text(format!("{label} "), Tone::Faint).left_aligned(
                &text,
                column_width,
                tone,
            );
        }
        line
    }

    fn sum(&self, node: &Node) -> Line {
        let totals = Totals::of_devices(node);
        let line = Line::new().right_aligned("SUM", self.label, Tone::Faint);
        let sum_of = |column: &DeviceColumn| match column.content {
            Content::Laid { sum, .. } => sum,
            Content::Attribute(_) => None,
        };
        let shown: Vec<(DeviceColumn, u16)> = self.shown().collect();
        let last = shown.iter().rposition(|(column, _)| sum_of(column).is_some());
        let summed = shown.iter().take(last.map_or(0, |last| last + 1));
        summed.fold(line, |line, (column, width)| {
            let line = line.gap(self.gap);
            match sum_of(column) {
                Some(sum) => line.append(sum(self, &totals, *width)),
                None => line.gap(*width),
            }
        })
    }

    fn memory_bar(&self, share: Option<Percent>, width: u16) -> Line {
        let share = share.map(Percent::get);
        Line::new().bar(share, width, self.load.tone(share))
    }

    fn clocks_text(&self, device: &Device) -> String {
        let clock_text =
            |clock: &Reading<Megahertz>| or_unknown(clock.get(), |clock| clock.get().to_string());
        if !self.has_memory_clock {
            return clock_text(&device.sm_clock);
        }
        if device.sm_clock.get().is_none() && device.memory_clock.get().is_none() {
            return UNKNOWN.to_owned();
        }
        format!("{}/{:>4}", clock_text(&device.sm_clock), clock_text(&device.memory_clock))
    }
}

fn load_line(util: Option<f32>, tone: Tone, width: u16) -> Line {
    let bar = Line::new().bar(util, width.saturating_sub(4), tone);
    bar.right_aligned(&percent(util), 4, Tone::Plain)
}

fn power(drawn: Option<Watts>, limit: Option<Watts>, width: u16) -> Line {
    let watts_text =
        |watts: Option<Watts>| or_unknown(watts, |watts| format!("{:.0}", watts.get()));
    let text = match (drawn, limit) {
        (None, None) => UNKNOWN.to_owned(),
        (drawn, limit) => format!("{}/{}", watts_text(drawn), watts_text(limit)),
    };
    Line::new().right_aligned(&text, width, Tone::Plain)
}

fn max_width(texts: impl Iterator<Item = String>) -> u16 {
    texts.map(|text| width_of(&text)).max().unwrap_or(0)
}

/// Formats an attribute, as a dash if it is unavailable.
fn attribute_text(attribute: Attribute, context: AttributeContext<'_>) -> (String, Tone) {
    let text = attribute.read(context).into_known();
    text.unwrap_or_else(|| (UNKNOWN.to_owned(), Tone::Faint))
}

/// Returns the model of a device without the vendor. A slice below its device is indented and shows only its
/// profile.
pub(crate) fn name(device: &Device, is_indented: bool) -> String {
    let name = device.name.known().map_or(UNKNOWN, |name| name.trim_start_matches("NVIDIA "));
    if !is_indented || device.parent.is_none() {
        return name.to_owned();
    }
    let profile = name.find("MIG ").and_then(|start| name.get(start..));
    format!(" {}", profile.unwrap_or(name))
}

/// Describes a device: its attributes and the reasons for those unavailable. `throttled` is the share of the
/// last minute in which its clocks were throttled.
pub(crate) fn detail(
    node: &Node,
    device: &Device,
    throttled: Option<f32>,
    display: &DisplayOptions,
) -> Line {
    let units = display.units();
    let mut line = Line::styled(format!("{} ", device_label(node, device)), Tone::Strong)
        .text(format!(" {}", name(device, false)), Tone::Plain);
    let tpu = device.tpu.as_deref();
    let throttle = device.throttle.get().map(Throttle::text).filter(|text| text != "none");
    if let Some(text) = throttle {
        line = line.text(format!("  throttled by {text}"), Tone::Warn);
    }
    if let Some(share) = throttled.filter(|share| *share >= 0.5) {
        line = line.text(format!("  throttled {share:.0}% of the last minute"), Tone::Warn);
    }
    let first = [
        ("util", device.utilization.reason()),
        ("memory", device.memory_used.reason().or(device.memory_total.reason())),
        ("temp", device.temperature.reason()),
        ("power", device.power.reason()),
        ("limit", device.power_limit.reason()),
        ("clocks", device.sm_clock.reason()),
    ];
    let items = [
        Some(device.uuid.to_string()),
        device.pci.known().map(|pci| format!("pci {pci}")),
        device.performance_state.get().map(|state| format!("P{state}")),
        device.fan.get().map(|fan| format!("fan {:.0}%", fan.get())),
        device
            .memory_temperature
            .get()
            .map(|temperature| format!("memory {}", units.temperature(temperature))),
        device.pcie.get().map(|(generation, lanes)| format!("PCIe {generation}x{lanes}")),
        tpu.and_then(|tpu| tpu.nodes.known()).map(ToString::to_string),
        tpu.and_then(|tpu| tpu.metrics_fault.known())
            .filter(|text| &***text != "none")
            .map(ToString::to_string),
    ];
    for item in items.into_iter().flatten() {
        line = line.text(format!("  {item}"), Tone::Faint);
    }
    let context = AttributeContext { node, device, units };
    for (text, reason) in attributes::unavailable(context, &first) {
        line = line.text(format!("  {text}: {reason}"), Tone::Faint);
    }
    line
}
