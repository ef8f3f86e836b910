//! The device table of a node, in nvnodetop's column order, with attribute columns if there is room.

use std::sync::Arc;

use crate::fleet::{Metric, Node, Totals};
use crate::insight::RowId;
use crate::insight::node_status::{Note, device_flags, device_label};
use crate::model::{Device, Link, Megahertz, Percent, Reading, Reason, Throttle, Watts};
use crate::model::{UNKNOWN, width_of};
use crate::time::Timestamp;
use crate::ui::RenderContext;
use crate::ui::display_options::{DisplayOptions, Thresholds};
use crate::ui::navigation::Navigation;
use crate::ui::node_panel::attributes;
use crate::ui::node_panel::attributes::{ATTRIBUTES, Attribute, AttributeContext};
use crate::ui::node_panel::host::history_points;
use crate::ui::node_panel::process_table::has_only_tpus;
use crate::ui::widgets::column_spec;
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{Units, or_unknown, percent};

/// From this width on, device names and memory clocks have columns.
const WIDE_WIDTH: u16 = 100;
/// Number of attributes that have a column even if each device has a second line.
const ATTRIBUTE_COLUMNS_IN_FULL: usize = 2;
/// Width of a bar in the second line of a device.
const SECOND_LINE_BAR_WIDTH: u16 = 8;

/// The columns that can be chosen, after the label of the device.
pub(crate) const COLUMN_SPECS: [ColumnSpec; 36] = [
    ColumnSpec::new("uuid", "UUID", "", "the UUID"),
    ColumnSpec::new("name", "NAME", "", "the model"),
    ColumnSpec::new("temp", "TEMP", "", "device temperature"),
    ColumnSpec::new("util", "UTIL", "", "utilization as a bar and in percent"),
    ColumnSpec::new("membar", "MEM", "", "memory as a bar"),
    ColumnSpec::new("mem", "GiB", "", "memory in use and total"),
    ColumnSpec::new("power", "W", "", "power and its limit"),
    ColumnSpec::new("clocks", "MHz", "", "SM clock, and memory clock if there is room"),
    ColumnSpec::new("owner", "OWNER", "", "the user of a TPU chip"),
    ColumnSpec::new("throttled", "THROTTLED", "", "why clocks are throttled"),
    ColumnSpec::new("membw", "MEMBW", "", "memory bandwidth in use"),
    ColumnSpec::new("memtemp", "MEMTEMP", "", "memory temperature"),
    ColumnSpec::new("junction", "JUNCTION", "", "junction (hotspot) temperature"),
    ColumnSpec::new("pcie", "PCIe", "", "traffic over PCIe"),
    ColumnSpec::new("nvlink", "NVLINK", "", "traffic over NVLink"),
    ColumnSpec::new("fan", "FAN", "", "fan speed"),
    ColumnSpec::new("pstate", "PSTATE", "", "the performance state"),
    ColumnSpec::new("enc-dec", "ENC/DEC", "", "video encoder and decoder"),
    ColumnSpec::new("smact", "SMACT", "", "SM activity"),
    ColumnSpec::new("tensor", "TENSOR", "", "tensor core activity"),
    ColumnSpec::new("occupancy", "OCC", "", "SM occupancy"),
    ColumnSpec::new("ecc", "ECC", "", "ECC errors, corrected/uncorrected"),
    ColumnSpec::new("remap", "REMAP", "", "remapped memory rows"),
    ColumnSpec::new("link", "LINK", "", "PCIe generation and lanes"),
    ColumnSpec::new("persistence", "PERS", "", "persistence mode"),
    ColumnSpec::new("mode", "MODE", "", "the compute mode"),
    ColumnSpec::new("hloq", "HLOQ", "", "programs queued for a chip"),
    ColumnSpec::new("cores", "CORES", "", "the cores of a chip"),
    ColumnSpec::new("gi-ci", "GI/CI", "", "GPU and compute instance of a slice"),
    ColumnSpec::new("bar1", "BAR1", "", "the BAR1 window in use"),
    ColumnSpec::new("partitions", "PART", "", "compute and memory partition"),
    ColumnSpec::new("mig", "MIG", "", "MIG mode"),
    ColumnSpec::new("display", "DISP", "", "display attached"),
    ColumnSpec::new("pci", "PCI", "", "PCI address"),
    ColumnSpec::new("last", "LAST", "", "utilization over the last seconds"),
    ColumnSpec::new("flags", "FLAGS", "", "problems"),
];
/// Number of columns in front of the attributes.
const COLUMNS_BEFORE_ATTRIBUTES: usize = 8;

/// A column after the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceColumn {
    Uuid,
    Name,
    Temperature,
    Util,
    MemoryBar,
    Memory,
    Power,
    Clocks,
    /// Index into the attributes.
    Attribute(usize),
    Spark,
    Flags,
}

impl DeviceColumn {
    /// The columns in front of the attributes.
    const FIRST: [Self; COLUMNS_BEFORE_ATTRIBUTES] = [
        Self::Uuid,
        Self::Name,
        Self::Temperature,
        Self::Util,
        Self::MemoryBar,
        Self::Memory,
        Self::Power,
        Self::Clocks,
    ];

    /// Returns the column at an index of `COLUMN_SPECS`.
    fn from_index(index: usize) -> Option<Self> {
        let after_first = index.checked_sub(COLUMNS_BEFORE_ATTRIBUTES);
        match after_first {
            None => Self::FIRST.get(index).copied(),
            Some(attribute) if attribute < ATTRIBUTES.len() => Some(Self::Attribute(attribute)),
            Some(last) => [Self::Spark, Self::Flags].get(last - ATTRIBUTES.len()).copied(),
        }
    }
}

/// Widths of the columns; 0 hides a column.
#[derive(Clone, Debug, Default)]
struct Columns {
    /// From left to right.
    order: Vec<DeviceColumn>,
    load: Thresholds,
    /// Thresholds of memory bandwidth.
    bandwidth: Thresholds,
    units: Units,
    gap: u16,
    label: u16,
    name: u16,
    uuid: u16,
    temperature: u16,
    util: u16,
    memory_bar: u16,
    memory: u16,
    power: u16,
    clocks: u16,
    spark: u16,
    flags: u16,
    has_index: bool,
    has_memory_clock: bool,
    has_only_tpus: bool,
    /// Indices of the attributes that have a column.
    attributes: Vec<usize>,
    /// Attributes that some device reports but that have no column.
    without_column: Vec<&'static Attribute>,
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
    navigation: &mut Navigation,
    width: u16,
    (room, is_full): (usize, bool),
) -> Vec<Line> {
    let now = context.view.now;
    let columns = Columns::of(node, context.options, width, is_full);
    let cursor = navigation.cursor(node);
    let has_cursor = |device: &Device| cursor == Some(RowId::Device(Arc::clone(&device.uuid)));
    let cursor_index = node.devices.iter().position(has_cursor);
    let rows = if is_full { room / 2 } else { room };
    navigation.device_table.scroll_to(rows, node.devices.len(), cursor_index);
    let count = node.devices.len();
    let mut lines = vec![navigation.device_table.with_position(columns.titles(), count, width)];
    for index in navigation.device_table.range(node.devices.len()) {
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

/// Width that is not yet assigned to columns.
struct WidthBudget {
    left: u16,
    gap: u16,
}

impl WidthBudget {
    fn reserve(&mut self, column: &mut u16, width: u16) -> bool {
        let fits = self.left >= width + self.gap;
        if fits {
            self.left -= width + self.gap;
            *column = width;
        }
        fits
    }

    /// Widens a column that is shown.
    fn grow(&mut self, column: &mut u16, by: u16) {
        let by = if *column > 0 { by.min(self.left) } else { 0 };
        self.left -= by;
        *column += by;
    }
}

impl Columns {
    /// Returns the columns set by the user, or those of highest priority that fit.
    fn of(node: &Node, display: &DisplayOptions, width: u16, is_full: bool) -> Self {
        match column_spec::column_indices(&COLUMN_SPECS, &display.columns.node) {
            Some(column_indices) => Self::with_user_columns(node, display, &column_indices, width),
            None => Self::fit(node, display, width, is_full),
        }
    }

    /// Returns what does not depend on the available width.
    fn base(node: &Node, display: &DisplayOptions, width: u16) -> Self {
        let names = display.selection.names;
        let label = max_width(node.devices.iter().map(|device| device_label(node, device))).max(3);
        let is_named = names.has_index || names.has_name || names.has_uuid;
        Self {
            load: display.device,
            bandwidth: display.memory,
            units: display.units(),
            gap: if width >= 110 { 2 } else { 1 },
            // Without index, name and UUID, devices could not be told apart.
            has_index: names.has_index || !is_named,
            label: if names.has_index || !is_named { label } else { 3 },
            has_only_tpus: has_only_tpus(node),
            ..Self::default()
        }
    }

    /// Assigns width to the columns set by the user, from left to right, and the rest to bars and flags.
    fn with_user_columns(
        node: &Node,
        display: &DisplayOptions,
        indices: &[usize],
        width: u16,
    ) -> Self {
        let mut columns = Self::base(node, display, width);
        let units = columns.units;
        let totals = Totals::of_devices(node);
        let mut budget =
            WidthBudget { left: width.saturating_sub(columns.label), gap: columns.gap };
        for column in indices.iter().filter_map(|index| DeviceColumn::from_index(*index)) {
            let devices = node.devices.iter();
            let min_width = match column {
                DeviceColumn::Uuid => {
                    max_width(devices.map(|device| device.uuid.to_string())).min(40)
                }
                DeviceColumn::Name => {
                    max_width(devices.map(|device| name(device, true))).clamp(4, 20)
                }
                DeviceColumn::Temperature | DeviceColumn::MemoryBar => 4,
                DeviceColumn::Util => 6 + 4,
                DeviceColumn::Memory => {
                    width_of(&units.usage(totals.memory_total, totals.memory_total)).max(9)
                }
                DeviceColumn::Power => width_of(&widest_power_text(&totals)).max(7),
                DeviceColumn::Clocks => 4 + if width >= WIDE_WIDTH { 5 } else { 0 },
                DeviceColumn::Attribute(at) => {
                    ATTRIBUTES.get(at).map_or(0, |attribute| attribute.width)
                }
                DeviceColumn::Spark => 6,
                DeviceColumn::Flags => 8,
            };
            if !budget.reserve(columns.width_mut(column).unwrap_or(&mut 0), min_width) {
                break;
            }
            columns.has_memory_clock |= column == DeviceColumn::Clocks && width >= WIDE_WIDTH;
            if let DeviceColumn::Attribute(at) = column {
                columns.attributes.push(at);
            }
            columns.order.push(column);
        }
        let is_reported = |(at, attribute): &(usize, &Attribute)| {
            !columns.attributes.contains(at) && attribute.is_available(node, columns.units)
        };
        columns.without_column = ATTRIBUTES
            .iter()
            .enumerate()
            .filter(is_reported)
            .map(|(_, attribute)| attribute)
            .collect::<Vec<_>>();
        columns.distribute(budget.left);
        columns
    }

    fn fit(node: &Node, display: &DisplayOptions, width: u16, is_full: bool) -> Self {
        let totals = Totals::of_devices(node);
        let names = display.selection.names;
        let mut columns = Self::base(node, display, width);
        let units = columns.units;
        let memory = units.usage(totals.memory_total, totals.memory_total);
        let power = widest_power_text(&totals);
        let mut budget =
            WidthBudget { left: width.saturating_sub(columns.label), gap: columns.gap };
        // The bar includes a column for the percent sign.
        budget.reserve(&mut columns.util, 6 + 4);
        budget.reserve(&mut columns.memory, width_of(&memory).max(9));
        budget.reserve(&mut columns.flags, if width >= 110 { 14 } else { 8 });
        if names.has_uuid {
            let uuid = max_width(node.devices.iter().map(|device| device.uuid.to_string()));
            budget.reserve(&mut columns.uuid, uuid.min(if width >= WIDE_WIDTH { 40 } else { 12 }));
        }
        if !names.has_index && names.has_name {
            let longest = max_width(node.devices.iter().map(|device| name(device, true)));
            budget.reserve(&mut columns.name, longest.clamp(4, 16));
        }
        let is_reported = |read: fn(&Device) -> Option<Reason>| {
            let mut reasons = node.devices.iter().map(read);
            // A column is dropped if no device of this kind supports it.
            reasons.any(|reason| {
                reason.is_none_or(|why| why != Reason::NotSupported && !columns.has_only_tpus)
            })
        };
        let has_temperature = is_reported(|device| device.temperature.reason());
        let has_power = is_reported(|device| device.power.reason());
        let has_clocks = is_reported(|device| device.sm_clock.reason());
        if has_temperature {
            budget.reserve(&mut columns.temperature, 4);
        }
        if has_power {
            budget.reserve(&mut columns.power, width_of(&power).max(7));
        }
        if has_clocks {
            budget.reserve(&mut columns.clocks, 4);
        }
        budget.reserve(&mut columns.memory_bar, 4);
        budget.reserve(&mut columns.spark, 6);
        if width >= WIDE_WIDTH {
            columns.widen(
                node,
                &mut budget,
                names.has_name,
                if is_full { ATTRIBUTE_COLUMNS_IN_FULL } else { ATTRIBUTES.len() },
            );
        } else {
            columns.without_column =
                ATTRIBUTES.iter().filter(|attribute| attribute.is_available(node, units)).collect();
        }
        columns.distribute(budget.left);
        let attributes = columns.attributes.iter().map(|at| DeviceColumn::Attribute(*at));
        columns.order = DeviceColumn::FIRST
            .into_iter()
            .chain(attributes)
            .chain([DeviceColumn::Spark, DeviceColumn::Flags])
            .collect();
        columns
    }

    /// Returns the width of a column, `None` if the column has a fixed width.
    const fn width_mut(&mut self, column: DeviceColumn) -> Option<&mut u16> {
        Some(match column {
            DeviceColumn::Uuid => &mut self.uuid,
            DeviceColumn::Name => &mut self.name,
            DeviceColumn::Temperature => &mut self.temperature,
            DeviceColumn::Util => &mut self.util,
            DeviceColumn::MemoryBar => &mut self.memory_bar,
            DeviceColumn::Memory => &mut self.memory,
            DeviceColumn::Power => &mut self.power,
            DeviceColumn::Clocks => &mut self.clocks,
            DeviceColumn::Spark => &mut self.spark,
            DeviceColumn::Flags => &mut self.flags,
            DeviceColumn::Attribute(_) => return None,
        })
    }

    fn width(&self, column: DeviceColumn) -> u16 {
        match column {
            DeviceColumn::Uuid => self.uuid,
            DeviceColumn::Name => self.name,
            DeviceColumn::Temperature => self.temperature,
            DeviceColumn::Util => self.util,
            DeviceColumn::MemoryBar => self.memory_bar,
            DeviceColumn::Memory => self.memory,
            DeviceColumn::Power => self.power,
            DeviceColumn::Clocks => self.clocks,
            DeviceColumn::Spark => self.spark,
            DeviceColumn::Flags => self.flags,
            DeviceColumn::Attribute(at) => {
                ATTRIBUTES.get(at).map_or(0, |attribute| attribute.width)
            }
        }
    }

    /// Returns the visible columns, from left to right.
    fn shown(&self) -> impl Iterator<Item = DeviceColumn> {
        self.order.iter().copied().filter(|column| self.width(*column) > 0)
    }

    /// Spends spare width on memory clocks and names, wider bars, and attribute columns, in this order.
    fn widen(
        &mut self,
        node: &Node,
        budget: &mut WidthBudget,
        has_name: bool,
        max_attributes: usize,
    ) {
        let mut memory_clock = 0;
        if self.clocks > 0 && budget.reserve(&mut memory_clock, 5_u16.saturating_sub(self.gap)) {
            self.has_memory_clock = true;
            self.clocks += 5;
        }
        if has_name && self.name == 0 {
            let names = node.devices.iter().map(|device| width_of(&name(device, true))).max();
            budget.reserve(&mut self.name, names.unwrap_or(0).clamp(4, 20));
        }
        budget.grow(&mut self.util, 6);
        budget.grow(&mut self.memory_bar, 4);
        budget.grow(&mut self.spark, 9);
        for (index, attribute) in ATTRIBUTES.iter().enumerate() {
            if !attribute.is_available(node, self.units) {
                continue;
            }
            let mut column = 0;
            if index < max_attributes && budget.reserve(&mut column, attribute.width) {
                self.attributes.push(index);
            } else {
                self.without_column.push(attribute);
            }
        }
    }

    fn distribute(&mut self, room: u16) {
        let if_shown = |column: u16, extra: u16| if column > 0 { extra } else { 0 };
        let util = if_shown(self.util, (room * 2 / 5).min(18));
        let memory = if_shown(self.memory_bar, (room / 5).min(12));
        let spark = if_shown(self.spark, (room - util - memory).min(34));
        self.util += util;
        self.memory_bar += memory;
        self.spark += spark;
        // A wide gap between flags and the next column would be hard to follow.
        let rest = room - util - memory - spark;
        self.flags += match self.order.last() {
            None => rest,
            Some(DeviceColumn::Flags) => if_shown(self.flags, rest),
            Some(_) => if_shown(self.flags, rest.min(12)),
        };
    }

    fn titles(&self) -> Line {
        let last = if self.spark >= 8 { "LAST " } else { "" };
        let seconds = format!("{last}{}s", self.spark);
        let clocks = if self.has_memory_clock { "SM/MEM" } else { "MHz" };
        let [load, memory] = if self.has_only_tpus { ["DUTY", "HBM"] } else { ["UTIL", "MEM"] };
        let sign = if self.has_index { "#" } else { "" };
        let line = Line::new().right_aligned(sign, self.label, Tone::Faint);
        self.shown().fold(line, |line, column| {
            let (line, width) = (line.gap(self.gap), self.width(column));
            let left = |title: &str| Line::new().left_aligned(title, width, Tone::Faint);
            let right = |title: &str| Line::new().right_aligned(title, width, Tone::Faint);
            line.append(match column {
                DeviceColumn::Uuid => left("UUID"),
                DeviceColumn::Name => left("NAME"),
                DeviceColumn::Temperature => right("TEMP"),
                DeviceColumn::Util => Line::new()
                    .left_aligned(load, width - 4, Tone::Faint)
                    .right_aligned("%", 4, Tone::Faint),
                DeviceColumn::MemoryBar => left(memory),
                DeviceColumn::Memory => right(self.units.unit_name()),
                DeviceColumn::Power => right("W"),
                DeviceColumn::Clocks => right(clocks),
                DeviceColumn::Attribute(at) => {
                    right(ATTRIBUTES.get(at).map_or("", |attribute| attribute.title))
                }
                DeviceColumn::Spark => left(&seconds),
                DeviceColumn::Flags => left("FLAGS"),
            })
        })
    }

    fn row(&self, (node, index): (&Node, usize), now: Timestamp, is_fresh: bool) -> Line {
        let Some(device) = node.devices.get(index) else { return Line::new() };
        let faded = |line: Line| if is_fresh { line } else { line.dimmed() };
        let label_tone = if device.parent.is_some() { Tone::Faint } else { Tone::Strong };
        let label_text = if self.has_index { device_label(node, device) } else { String::new() };
        let line = faded(Line::new().right_aligned(&label_text, self.label, label_tone));
        self.shown().fold(line, |line, column| {
            if column != DeviceColumn::Flags {
                return line.append(faded(self.cell((node, index, device), column, now)));
            }
            let flags_line = self.flags_line(&device_flags(device));
            let is_last = self.order.last() == Some(&column);
            if is_last {
                return line.append(flags_line);
            }
            let flags_line = flags_line.truncated(self.gap + self.flags);
            let missing = (self.gap + self.flags).saturating_sub(flags_line.width());
            line.append(flags_line).gap(missing)
        })
    }

    /// Draws one cell, including the gap before it.
    fn cell(
        &self,
        (node, index, device): (&Node, usize, &Device),
        column: DeviceColumn,
        now: Timestamp,
    ) -> Line {
        let (line, width) = (Line::new().gap(self.gap), self.width(column));
        match column {
            DeviceColumn::Uuid => line.left_aligned(&device.uuid, width, Tone::Plain),
            DeviceColumn::Name => line.left_aligned(&name(device, true), width, Tone::Plain),
            DeviceColumn::Temperature => {
                let text = or_unknown(device.temperature.get(), |temperature| {
                    self.units.temperature(temperature)
                });
                let is_hot = device.throttle.get().is_some_and(Throttle::is_thermal);
                line.right_aligned(&text, width, if is_hot { Tone::Warn } else { Tone::Plain })
            }
            DeviceColumn::Util => {
                let util = attributes::utilization(device);
                let worst = device_flags(device)
                    .into_iter()
                    .map(|(_, severity)| Tone::from(severity))
                    .max();
                self.load(line, util, worst.unwrap_or_else(|| self.load.tone(util)))
            }
            DeviceColumn::MemoryBar => self.memory_bar(line, device.memory_share()),
            DeviceColumn::Memory => {
                let (used, total) = (device.memory_used.get(), device.memory_total.get());
                line.right_aligned(&self.units.usage(used, total), width, Tone::Plain)
            }
            DeviceColumn::Power => self.power(line, device.power.get(), device.power_limit.get()),
            DeviceColumn::Clocks => {
                line.right_aligned(&self.clocks_text(device), width, Tone::Plain)
            }
            DeviceColumn::Attribute(at) => {
                let Some(attribute) = ATTRIBUTES.get(at) else { return line };
                let (text, tone) =
                    attribute_text(attribute, AttributeContext { node, device, units: self.units });
                line.right_aligned(&text, width, tone)
            }
            DeviceColumn::Spark => {
                let series = (&*device.uuid, Metric::Utilization);
                let source = node.device_sources.get(index);
                let points = history_points(node, series, source, now, usize::from(width));
                line.sparkline(points, Tone::Mid)
            }
            DeviceColumn::Flags => line.gap(width),
        }
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
        let has_traffic =
            devices().any(|device| attributes::bandwidth_share(device).get().is_some());
        let power = device.power_share().map(Percent::get);
        let traffic = attributes::bandwidth_share(device).get().map(Percent::get);
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
        for attribute in self.without_column.iter().filter(|attribute| attribute.title != "MEMBW") {
            let room = width.saturating_sub(line.width());
            let (text, tone) = attribute_text(attribute, context);
            if room < width_of(attribute.label) + 2 + attribute.width
                || (is_slice && text == UNKNOWN)
            {
                continue;
            }
            let gap = if line.width() > self.label + 1 { 2 } else { 1 };
            line = line.gap(gap).text(format!("{} ", attribute.label), Tone::Faint).left_aligned(
                &text,
                attribute.width,
                tone,
            );
        }
        line
    }

    fn sum(&self, node: &Node) -> Line {
        let totals = Totals::of_devices(node);
        let util = totals.utilization.map(Percent::get);
        let line = Line::new().right_aligned("SUM", self.label, Tone::Faint);
        let is_summed = |part: &DeviceColumn| {
            matches!(
                part,
                DeviceColumn::Util
                    | DeviceColumn::MemoryBar
                    | DeviceColumn::Memory
                    | DeviceColumn::Power
            )
        };
        let shown: Vec<DeviceColumn> = self.shown().collect();
        let count = shown.iter().rposition(is_summed).map_or(0, |last| last + 1);
        shown.into_iter().take(count).fold(line, |line, part| {
            let (line, width) = (line.gap(self.gap), self.width(part));
            match part {
                DeviceColumn::Util => self.load(line, util, self.load.tone(util)),
                DeviceColumn::MemoryBar => {
                    let both = totals.memory_used.zip(totals.memory_total);
                    let part = both.and_then(|(used, total)| Percent::of(used.0, total.0));
                    self.memory_bar(line, part)
                }
                DeviceColumn::Memory => {
                    let pair = self.units.usage(totals.memory_used, totals.memory_total);
                    line.right_aligned(&pair, width, Tone::Plain)
                }
                DeviceColumn::Power => self.power(line, totals.power, totals.power_limit),
                DeviceColumn::Uuid
                | DeviceColumn::Name
                | DeviceColumn::Temperature
                | DeviceColumn::Clocks
                | DeviceColumn::Attribute(_)
                | DeviceColumn::Spark
                | DeviceColumn::Flags => line.gap(width),
            }
        })
    }

    fn load(&self, line: Line, util: Option<f32>, tone: Tone) -> Line {
        let bar = self.util.saturating_sub(4);
        line.bar(util, bar, tone).right_aligned(&percent(util), 4, Tone::Plain)
    }

    fn memory_bar(&self, line: Line, part: Option<Percent>) -> Line {
        let part = part.map(Percent::get);
        line.bar(part, self.memory_bar, self.load.tone(part))
    }

    fn power(&self, line: Line, drawn: Option<Watts>, limit: Option<Watts>) -> Line {
        let watts_text =
            |watts: Option<Watts>| or_unknown(watts, |watts| format!("{:.0}", watts.get()));
        let text = match (drawn, limit) {
            (None, None) => UNKNOWN.to_owned(),
            (drawn, limit) => format!("{}/{}", watts_text(drawn), watts_text(limit)),
        };
        line.right_aligned(&text, self.power, Tone::Plain)
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

    fn flags_line(&self, flags: &[Note]) -> Line {
        let mut line = Line::new().gap(self.gap);
        for (flag, tone) in flags {
            line = line.text(flag.as_str(), *tone).gap(1);
        }
        line
    }
}

fn max_width(texts: impl Iterator<Item = String>) -> u16 {
    texts.map(|text| width_of(&text)).max().unwrap_or(0)
}

/// Returns the widest power text that can occur.
fn widest_power_text(totals: &Totals) -> String {
    or_unknown(totals.power_limit, |limit| format!("{0:.0}/{0:.0}", limit.get()))
}

/// Formats an attribute, as a dash if it is unavailable.
fn attribute_text(attribute: &Attribute, context: AttributeContext<'_>) -> (String, Tone) {
    let text = (attribute.read)(context).into_known();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heading_has_a_column_and_attribute_titles_match() {
        for (index, heading) in COLUMN_SPECS.iter().enumerate() {
            let column = DeviceColumn::from_index(index).unwrap();
            if let DeviceColumn::Attribute(at) = column {
                assert_eq!(ATTRIBUTES[at].title, heading.title);
            }
        }
        assert_eq!(DeviceColumn::from_index(COLUMN_SPECS.len()), None);
        assert_eq!(DeviceColumn::from_index(COLUMN_SPECS.len() - 1), Some(DeviceColumn::Flags));
    }
}
