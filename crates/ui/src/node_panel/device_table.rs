//! The device table of a node, in nvnodetop's column order, with columns of attributes if they fit.

use crate::display_options::{DisplayOptions, Thresholds};
use crate::node_panel::attributes;
use crate::node_panel::attributes::{Attribute, AttributeContext, device_fade};
use crate::node_panel::host::{history_points, shown_until};
use crate::node_panel::process_table::has_only_tpus;
use crate::node_panel::state::NodePanel;
use crate::render_context::RenderContext;
use crate::widgets::explanation::Fact;
use crate::widgets::line::{Line, Tone, truncate_distinct};
use crate::widgets::list::Viewport;
use crate::widgets::number_format::{or_unknown, percent, share_of};
use crate::widgets::table::{Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::insight::RowId;
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::insight::node_status::{device_label, model_name};
use gtop_fleet::metrics::{DEVICE, bandwidth_share, help_of, utilization};
use gtop_fleet::settings::ColumnSpec;
use gtop_fleet::{Metric, Node, StateReason, Totals};
use gtop_local::text::{UNKNOWN, counted, width_of};
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Device, Percent, Reason, Throttle, Watts};

/// From this width on, device names and memory clocks have columns.
const WIDE_WIDTH: u16 = 100;
/// Number of attributes that have a column even if each device has a second line.
const ATTRIBUTE_COLUMNS_IN_FULL: usize = 2;
/// Columns between two columns of the second lines.
const MORE_LINE_GAP: u16 = 2;
/// How many more marks the last seconds get before bars are widened.
const MORE_MARKS: u16 = 8;
/// Width of a bar in the second line of a device.
const MORE_LINE_BAR_WIDTH: u16 = 8;

/// What cells are drawn from, apart from their row.
struct DeviceTable<'a> {
    node: &'a Node,
    display: &'a DisplayOptions,
    attributes: &'a [Attribute],
    now: Timestamp,
    width: u16,
    has_only_tpus: bool,
}

/// A device in the table, or the sum of all.
struct DeviceRow<'a> {
    label: (String, Tone),
    /// `None` for the sum.
    device: Option<(usize, &'a Device)>,
    util: (Option<f32>, Tone),
    /// In use and in total, and whether it is the host's.
    memory: ((Option<Bytes>, Option<Bytes>), bool),
    power: Option<Watts>,
    power_limit: Option<Watts>,
}

type Column<'a> = TableColumn<DeviceTable<'a>, DeviceRow<'a>>;
type LaidOutDevices<'a, 'c> = Table<'c, DeviceTable<'a>, DeviceRow<'a>>;

/// The highest rank of a column besides those of attributes.
const FIRST_RANKS: u8 = 15;
const FLAGS: &str = "flags";
/// Width of the utilization: a bar, its percentage, and a column for the percent sign.
const UTIL_WIDTH: u16 = 6 + 4;
/// Width of the SM clock.
const SM_CLOCK_WIDTH: u16 = 4;

/// Returns the columns for help.
pub(crate) fn explained_columns() -> Vec<ColumnSpec> {
    DeviceTable::columns(true, &attributes::attributes()).iter().map(TableColumn::spec).collect()
}

/// Returns the columns that can be chosen.
pub fn column_specs() -> Vec<ColumnSpec> {
    explained_columns().into_iter().filter(|spec| !spec.is_fixed).collect()
}

impl<'a> DeviceTable<'a> {
    fn new(
        context: RenderContext<'a>,
        node: &'a Node,
        attributes: &'a [Attribute],
        width: u16,
    ) -> Self {
        let (display, now) = (context.options, context.view.now);
        Self { node, display, attributes, now, width, has_only_tpus: has_only_tpus(node) }
    }

    /// Returns the columns, with those of some attributes.
    fn columns(has_index: bool, attributes: &[Attribute]) -> Vec<Column<'a>> {
        let ranked = (FIRST_RANKS + 1..).zip(attributes);
        let attributes = ranked.map(|(rank, Attribute { name, column, help, .. })| {
            Column::right(column.title, column.width, |table, row, place| {
                row.of_device(|_, device| table.attribute_cell(place.name, device))
            })
            .named(name, "", help)
            .rank(rank)
        });
        // Without its index, a device is known by its name.
        let [label, uuid, name, first @ ..] = Self::FIRST;
        let first =
            [label, uuid, name.rank(if has_index { 12 } else { 5 })].into_iter().chain(first);
        first.chain(attributes).chain(Self::LAST).collect()
    }

    /// The columns in front of the attributes.
    const FIRST: [Column<'a>; 9] = [
        Column::right("#", 0, |_, row, _| Cell::toned(row.label.0.clone(), row.label.1))
            .named("index", "", "number of the device; 3.1 is a slice of device 3")
            .sized(|table, _| table.label_width())
            .titled(|table, _| if table.has_index() { "#" } else { "" }.into()),
        Column::left("UUID", 0, |_, row, _| {
            row.of_device(|_, device| device.uuid.to_string().into())
        })
        .named("uuid", "", "the UUID")
        .rank(4)
        .sized(|table, _| {
            let longest = table.longest(|device| device.uuid.to_string());
            match table.display.selection.names.has_uuid {
                _ if table.is_chosen() => longest.min(40),
                true => longest.min(if table.width >= WIDE_WIDTH { 40 } else { 12 }),
                false => 0,
            }
        }),
        Column::left("NAME", 0, |table, row, place| {
            row.of_device(|_, device| table.name_within(device, place.width).into())
        })
        .named("name", "", "the model")
        .sized(|table, _| {
            let names = table.display.selection.names;
            let longest = table.longest(name);
            match names.has_name && (!names.has_index || table.width >= WIDE_WIDTH) {
                _ if table.is_chosen() => longest.clamp(4, 20),
                true => longest.clamp(4, if names.has_index { 20 } else { 16 }),
                false => 0,
            }
        }),
        Column::right("TEMP", 4, |table, row, _| {
            row.of_device(|_, device| {
                let text = or_unknown(device.temperature.get(), |temperature| {
                    table.display.units().temperature(temperature)
                });
                let is_hot = device.throttle.get().is_some_and(Throttle::is_thermal);
                Cell::toned(text, if is_hot { Tone::Warn } else { Tone::Plain })
            })
        })
        .named("temp", "", "core temperature, °C or °F; a warning while heat slows it down")
        .rank(6)
        .sized(|table, _| table.if_supported(4, |device| device.temperature.reason())),
        Column::left("UTIL", UTIL_WIDTH, |table, row, place| {
            let (util, tone) = row.util;
            let slices = row.device.filter(|_| util.is_none());
            let slices = slices.and_then(|(_, device)| table.node.slices_in_use(&device.uuid));
            if let Some((used, count)) = slices {
                let text = format!("{used}/{} used", counted(count, "slice"));
                let is_fitting = width_of(&text) <= place.width;
                return if is_fitting { text } else { format!("{used}/{count} used") }.into();
            }
            let bar = Line::new().bar(util, place.width.saturating_sub(4), tone);
            Cell::Line(bar.right_aligned(&percent(util), 4, Tone::Plain))
        })
        .named("util", "", help_of(DEVICE, "util"))
        .or_titled(&["UTIL %", "DUTY"])
        .rank(1)
        .wider(13, |table, room| table.if_roomy(room.min(6)))
        .titled(|table, width| {
            let title = if table.has_only_tpus { "DUTY" } else { "UTIL" };
            format!("{title:<0$}%", usize::from(width.saturating_sub(1))).into()
        }),
        Column::left("MEM", 4, |table, row, _| {
            let ((used, total), _) = row.memory;
            let share = share_of(used, total);
            Cell::Bar(share, table.display.device.tone(share))
        })
        .named("membar", "", "device memory in use, of the total, as a bar")
        .or_titled(&["HBM"])
        .rank(9)
        .wider(14, |table, room| table.if_roomy(room.min(4)))
        .titled(|table, _| if table.has_only_tpus { "HBM" } else { "MEM" }.into()),
        Column::right("GiB", 0, |table, row, _| {
            table.display.units().marked_usage(row.memory).into()
        })
        .named("mem", "", "device memory in use/total; * that of the host")
        .or_titled(&["MiB", "GB", "MB"])
        .rank(2)
        .sized(|table, _| {
            let ((_, total), is_host) = Totals::of_devices(table.node).shown_memory();
            width_of(&table.display.units().marked_usage(((total, total), is_host))).max(9)
        })
        .titled(|table, _| table.display.units().unit_name().into()),
        Column::right("W", 0, |_, row, _| power_text(row.power, row.power_limit).into())
            .named("power", "", "power draw/limit in force, in watts")
            .rank(7)
            .sized(|table, _| {
                // The widest text that can occur.
                let limit = Totals::of_devices(table.node).power_limit;
                let widest = or_unknown(limit, |limit| format!("{0:.0}/{0:.0}", limit.get()));
                // The limit of all is unknown if that of one is.
                let of_device = table.longest(|device| {
                    power_text(device.power_limit.get(), device.power_limit.get())
                });
                let width = width_of(&widest).max(of_device).max(7);
                table.if_supported(width, |device| device.power.reason())
            }),
        Column::right("MHz", 0, |table, row, place| {
            row.of_device(|_, device| {
                clocks_text(device, place.width, table.memory_clock_width()).into()
            })
        })
        .named("clocks", "", "SM clock, and memory clock if there is room, in MHz")
        .or_titled(&["SM/MEM"])
        .rank(8)
        .sized(|table, _| {
            let more =
                if table.is_chosen() { table.if_wide(table.memory_clock_width()) } else { 0 };
            table.if_supported(SM_CLOCK_WIDTH + more, |device| device.sm_clock.reason())
        })
        .wider(11, |table, room| {
            let more = table.memory_clock_width();
            if room >= more { table.if_roomy(more) } else { 0 }
        })
        .titled(|_, width| if has_memory_clock(width) { "SM/MEM" } else { "MHz" }.into()),
    ];

    /// The columns behind the attributes.
    const LAST: [Column<'a>; 2] = [
        Column::right("LAST", 6, |table, row, place| {
            row.of_device(|index, device| {
                let series = (&*device.uuid, Metric::Utilization);
                let source = table.node.device_sources.get(index);
                let count = usize::from(place.width);
                let until = shown_until(table.node, table.now);
                let points = history_points(table.node, series, source, until, count);
                let tone = table.display.device.tone(utilization(device));
                Cell::Line(Line::new().sparkline(points, tone))
            })
        })
        .named("last", "", "utilization over the last seconds, 0 to 100 %")
        .rank(10)
        .wider(15, |table, room| table.if_roomy(room.min(14)))
        .titled(|_, width| format!("{}{}s", if width >= 8 { "LAST " } else { "" }, width).into()),
        Column::rest("FLAGS", 0, |table, row, _| {
            row.of_device(|index, device| {
                let mut line = Line::new();
                for flag in DeviceFlag::of(table.node, device) {
                    line = line.text(flag.badge(), flag.severity()).gap(1);
                }
                // Why it does not count as free is no problem of its own.
                let reason = StateReason::last_known(table.node, index);
                let word = reason.and_then(StateReason::name).unwrap_or_default();
                Cell::Line(line.text(word, Tone::Faint))
            })
        })
        .named(FLAGS, "", "problems of the device; each is explained with the flags")
        .rank(3)
        .sized(|table, _| {
            let usual = if table.width >= 110 && !table.is_chosen() { 14 } else { 8 };
            // What is wrong comes before what has been.
            let longest = table.longest(|device| {
                let flags = DeviceFlag::of(table.node, device);
                flags.iter().map(DeviceFlag::badge).collect::<Vec<_>>().join(" ")
            });
            longest.clamp(usual, (table.width / 4).max(usual))
        })
        .titled(|_, width| format!("{:<1$}", "FLAGS", usize::from(width)).into())
        .keeps_tone(),
    ];

    fn is_chosen(&self) -> bool {
        !self.display.columns.node.is_empty()
    }

    /// Returns true if devices are identified by their index: if chosen, or if neither names nor UUIDs are.
    fn has_index(&self) -> bool {
        let names = self.display.selection.names;
        names.has_index || !(names.has_name || names.has_uuid)
    }

    fn label_width(&self) -> u16 {
        if self.has_index() {
            self.longest(|device| device_label(self.node, device)).max(3)
        } else {
            3
        }
    }

    fn longest(&self, text: impl Fn(&Device) -> String) -> u16 {
        self.node.devices.iter().map(|device| width_of(&text(device))).max().unwrap_or(0)
    }

    /// Returns the name of a device, different from those of other models.
    fn name_within(&self, device: &Device, width: u16) -> String {
        let names: Vec<String> = self.node.devices.iter().map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        truncate_distinct(&name(device), &names, width)
    }

    /// Returns the width, 0 in narrow tables.
    const fn if_wide(&self, width: u16) -> u16 {
        if self.width >= WIDE_WIDTH { width } else { 0 }
    }

    /// Returns the width that the memory clock adds, separator included.
    fn memory_clock_width(&self) -> u16 {
        let clocks = self.node.devices.iter().filter_map(|device| device.memory_clock.get());
        // That of GDDR6X has five digits.
        1 + clocks.map(|clock| width_of(&clock.get().to_string())).max().unwrap_or(0).max(4)
    }

    /// Returns the width, 0 in narrow tables and if columns are chosen.
    fn if_roomy(&self, width: u16) -> u16 {
        if self.is_chosen() { 0 } else { self.if_wide(width) }
    }

    /// Returns the width, 0 if no device of this kind supports the value and the column is not chosen.
    fn if_supported(&self, width: u16, reason: fn(&Device) -> Option<Reason>) -> u16 {
        let is_shown = self.node.devices.iter().map(reason).any(|reason| match reason {
            Some(Reason::NotSupported | Reason::NotOffered) => false,
            Some(_) => !self.has_only_tpus,
            None => true,
        });
        if is_shown || self.is_chosen() { width } else { 0 }
    }

    fn attribute_cell(&self, name: &str, device: &Device) -> Cell {
        let attribute = self.attributes.iter().find(|attribute| attribute.name == name);
        let (text, tone) = attribute.map_or_else(Default::default, |attribute| {
            attribute_text(*attribute, self.attribute_context(device))
        });
        Cell::toned(text, tone)
    }

    fn attribute_context<'b>(&'b self, device: &'b Device) -> AttributeContext<'b> {
        AttributeContext { node: self.node, device, units: self.display.units() }
    }

    fn row(&self, (index, device): (usize, &'a Device)) -> DeviceRow<'a> {
        let util = utilization(device);
        let flags = DeviceFlag::of(self.node, device);
        let worst = flags.iter().map(|flag| Tone::from(flag.severity())).max();
        let label = if self.has_index() { device_label(self.node, device) } else { String::new() };
        DeviceRow {
            label: (label, Tone::Strong),
            device: Some((index, device)),
            util: (util, worst.unwrap_or_else(|| self.display.device.tone(util))),
            memory: ((device.memory_used.get(), device.memory_total.get()), device.has_host_memory),
            power: device.power.get(),
            power_limit: device.power_limit.get(),
        }
    }

    /// Sums up the devices at these positions, or all.
    fn sum(&self, positions: Option<&[usize]>) -> DeviceRow<'a> {
        let totals = Totals::of_part(self.node, positions);
        let util = totals.utilization.map(Percent::get);
        DeviceRow {
            label: ("SUM".to_owned(), Tone::Faint),
            device: None,
            util: (util, self.display.device.tone(util)),
            memory: totals.shown_memory(),
            power: totals.power,
            power_limit: totals.power_limit,
        }
    }
}

/// Returns the numbers of a device's row, those of all columns.
pub(crate) fn facts(context: RenderContext<'_>, node: &Node, position: usize) -> Vec<Fact> {
    let attributes = attributes::attributes();
    let table = DeviceTable::new(context, node, &attributes, u16::MAX);
    let columns = DeviceTable::columns(context.options.selection.names.has_index, &attributes);
    let room = TableRoom::new(u16::MAX, 0, 1);
    let table = Table::fit(&columns, table, &context.options.columns.node, room);
    let device = node.devices.get(position);
    device.map(|device| table.facts(&table.context.row((position, device)))).unwrap_or_default()
}

impl<'a> DeviceRow<'a> {
    /// Makes a cell of a device, blank for the sum.
    fn of_device(&self, cell: impl FnOnce(usize, &'a Device) -> Cell) -> Cell {
        self.device.map_or_else(|| "".into(), |(index, device)| cell(index, device))
    }
}

/// Gives the width that is left to bars, and as much of the rest to the flags.
fn distribute(table: &mut LaidOutDevices<'_, '_>) {
    table.widen("last", MORE_MARKS);
    let room = table.spare;
    table.widen("util", (room * 2 / 5).min(18));
    table.widen("membar", (room / 5).min(12));
    table.widen("last", 34);
    table.widen_last(FLAGS, 12);
}

/// Returns the number of lines around the devices: titles, and the sum if there are several devices.
pub(crate) fn frame_lines(node: &Node) -> usize {
    1 + usize::from(has_sum(node))
}

/// Returns true if there are several devices, which have a sum.
pub(crate) fn has_sum(node: &Node) -> bool {
    node.whole_devices().count() > 1
}

/// How many lines the table has, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceRoom {
    /// The lines of devices, without titles and sum.
    pub(crate) lines: usize,
    /// The lines below that of a device, with what has no column.
    pub(crate) more: usize,
    pub(crate) has_sum: bool,
}

/// Returns how many lines a device takes if so many are below its first one. A slice has only that: it reports little
/// itself.
fn device_height(device: &Device, more: usize) -> usize {
    1 + if device.parent.is_none() { more } else { 0 }
}

/// Returns how many lines the devices of a node take if so many are below the first line of each.
pub(crate) fn height(node: &Node, more: usize) -> usize {
    node.devices.iter().map(|device| device_height(device, more)).sum()
}

/// Returns the most lines that all that is known of a device takes below its first one.
pub(crate) fn most_more_lines(context: RenderContext<'_>, node: &Node, width: u16) -> usize {
    let attributes = attributes::attributes();
    let table = DeviceTable::new(context, node, &attributes, width);
    let columns = columns_of(context, &table, &attributes, true);
    let table = laid_out(context, table, &columns);
    table.context.more_columns(without_column(&table, &attributes, context)).len()
}

/// Scrolls to the cursor where devices take so many lines each.
fn scrolled(viewport: Viewport, heights: &[usize], room: usize, cursor: Option<usize>) -> Viewport {
    let fitting = |top: usize| {
        let ends = heights.iter().skip(top).scan(0, |end, height| {
            *end += height;
            Some(*end)
        });
        ends.take_while(|end| *end <= room).count()
    };
    let count = heights.len();
    let mut top = viewport.top.min(cursor.unwrap_or(count)).min(count.saturating_sub(1));
    while cursor.is_some_and(|cursor| top < cursor && top + fitting(top) <= cursor) {
        top += 1;
    }
    // No lines are left empty below the last device.
    while top > 0 && top - 1 + fitting(top - 1) >= count {
        top -= 1;
    }
    Viewport { top, rows: fitting(top) }
}

/// Returns the columns of the table; in full density some attributes have none.
fn columns_of<'a>(
    context: RenderContext<'a>,
    table: &DeviceTable<'a>,
    attributes: &[Attribute],
    is_full: bool,
) -> Vec<Column<'a>> {
    let units = context.options.units();
    let with_column: Vec<Attribute> = if table.is_chosen() {
        attributes.to_vec()
    } else {
        let max_attributes = if is_full { ATTRIBUTE_COLUMNS_IN_FULL } else { usize::MAX };
        let is_wide = table.width >= WIDE_WIDTH;
        let shown = attributes.iter().take(if is_wide { max_attributes } else { 0 });
        shown.filter(|attribute| attribute.is_available(table.node, units)).copied().collect()
    };
    DeviceTable::columns(context.options.selection.names.has_index, &with_column)
}

/// Lays out the table.
fn laid_out<'a, 'b>(
    context: RenderContext<'a>,
    table: DeviceTable<'a>,
    columns: &'b [Column<'a>],
) -> LaidOutDevices<'a, 'b> {
    let width = table.width;
    let room = TableRoom::new(width, 0, if width >= 110 { 2 } else { 1 });
    let mut table = Table::fit(columns, table, &context.options.columns.node, room);
    distribute(&mut table);
    table
}

/// Returns the attributes that are known of a node and have no column.
fn without_column<'a>(
    table: &LaidOutDevices<'_, '_>,
    attributes: &'a [Attribute],
    context: RenderContext<'_>,
) -> Vec<&'a Attribute> {
    let (node, units) = (table.context.node, context.options.units());
    let has_no_column = |attribute: &&Attribute| {
        table.width_of(attribute.name) == 0 && attribute.is_available(node, units)
    };
    attributes.iter().filter(has_no_column).collect()
}

/// Draws the titles, the devices and the sum; returns the visible devices, too.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    panel: &NodePanel,
    width: u16,
    DeviceRoom { lines: room_lines, more, has_sum }: DeviceRoom,
) -> (Vec<Line>, Viewport) {
    let attributes = attributes::attributes();
    let table = DeviceTable::new(context, node, &attributes, width);
    let columns = columns_of(context, &table, &attributes, more > 0);
    let table = laid_out(context, table, &columns);
    let cursor = match panel.cursor(node) {
        Some(RowId::Device(uuid)) => node.devices.iter().position(|device| device.uuid == uuid),
        Some(RowId::Process { .. }) | None => None,
    };
    let count = node.devices.len();
    let heights: Vec<usize> =
        node.devices.iter().map(|device| device_height(device, more)).collect();
    let visible = scrolled(panel.scroll.devices, &heights, room_lines, cursor);
    let mut lines = vec![visible.with_position(None, table.titles(), count, width)];
    let mut more_columns = table.context.more_columns(without_column(&table, &attributes, context));
    more_columns.truncate(more);
    let specs = if more > 0 { explained_columns() } else { Vec::new() };
    for index in visible.range(count) {
        let Some(device) = node.devices.get(index) else { continue };
        let fade = device_fade(context.view, node, index);
        let row = table.context.row((index, device));
        lines.push(table.row(Line::new(), &row, fade).selected(cursor == Some(index)));
        for columns in more_columns.iter().filter(|_| device.parent.is_none()) {
            let line = table.context.more_line(device, columns, &specs);
            lines.push(fade.applied_to(line).selected(cursor == Some(index)));
        }
    }
    if has_sum {
        // With a filter, the sum is that of the devices that match.
        let mut summed = (0..count).filter(|index| context.view.matches_device(node, *index));
        let has_old = summed.any(|index| device_fade(context.view, node, index) == Fade::All);
        let fade = Fade::if_old(has_old);
        let sum = table.context.sum(context.view.matching_devices(node));
        lines.push(table.row(Line::new(), &sum, fade).trimmed());
    }
    (lines.into_iter().map(|line| line.truncated(width)).collect(), visible)
}

impl DeviceTable<'_> {
    /// Returns what stands below the first line of a device, line by line: bars of power and bandwidth, then the attributes
    /// that have no column of their own.
    fn more_columns<'b>(
        &self,
        without_column: impl IntoIterator<Item = &'b Attribute>,
    ) -> Vec<Vec<MoreColumn<'b>>> {
        let devices = &self.node.devices;
        let has_power = devices.iter().any(|device| device.power_share().is_some());
        let has_traffic = devices.iter().any(|device| bandwidth_share(device).get().is_some());
        let bars = [(has_power, MoreColumn::Power), (has_traffic, MoreColumn::Bandwidth)];
        let bars = bars.into_iter().filter(|(is_reported, _)| *is_reported).map(|(_, bar)| bar);
        let attributes = without_column.into_iter().filter(|attribute| attribute.name != "membw");
        let room = self.width.saturating_sub(self.more_start());
        let (mut lines, mut used) = (Vec::<Vec<_>>::new(), room);
        for column in bars.chain(attributes.map(MoreColumn::Attribute)) {
            let needed = column.width() + MORE_LINE_GAP;
            match lines.last_mut() {
                Some(line) if used + needed <= room => line.push(column),
                _ => {
                    lines.push(vec![column]);
                    used = 0;
                }
            }
            used += needed;
        }
        lines
    }

    /// Returns where the lines below begin: below what follows the label of the device.
    fn more_start(&self) -> u16 {
        self.label_width() + 2
    }

    /// Draws a line below the first one of a device.
    fn more_line(&self, device: &Device, columns: &[MoreColumn<'_>], specs: &[ColumnSpec]) -> Line {
        let start = Line::new().gap(self.more_start());
        if device.fault.is_some() {
            return start;
        }
        columns.iter().fold(start, |line, column| {
            let cell = match column {
                MoreColumn::Power => share_bar(device.power_share(), self.display.device),
                MoreColumn::Bandwidth => {
                    share_bar(bandwidth_share(device).get(), self.display.memory)
                }
                MoreColumn::Attribute(attribute) => {
                    let (text, tone) = attribute_text(**attribute, self.attribute_context(device));
                    Line::new().left_aligned(&text, attribute.column.width, tone)
                }
            };
            let title = column.title();
            let known = specs.iter().find(|spec| spec.title == title);
            let line = line.text(format!("{title} "), Tone::Faint);
            let line = known.into_iter().fold(line, |line, spec| line.titles(*spec, title));
            line.append(cell).gap(MORE_LINE_GAP)
        })
    }
}

/// Draws a share in a line below the first one of a device.
fn share_bar(share: Option<Percent>, thresholds: Thresholds) -> Line {
    let share = share.map(Percent::get);
    Line::new()
        .bar(share, MORE_LINE_BAR_WIDTH, thresholds.tone(share))
        .right_aligned(&percent(share), 4, Tone::Plain)
        .text(if share.is_some() { "%" } else { " " }, Tone::Faint)
}

/// What stands in the lines below the first one of a device.
#[derive(Clone, Copy, Debug)]
enum MoreColumn<'a> {
    Power,
    Bandwidth,
    Attribute(&'a Attribute),
}

impl MoreColumn<'_> {
    const fn title(&self) -> &'static str {
        match self {
            Self::Power => "POWER",
            Self::Bandwidth => "MEMBW",
            Self::Attribute(attribute) => attribute.column.title,
        }
    }

    fn width(&self) -> u16 {
        let value = match self {
            Self::Power | Self::Bandwidth => MORE_LINE_BAR_WIDTH + 5,
            Self::Attribute(attribute) => attribute.column.width,
        };
        width_of(self.title()) + 1 + value
    }
}

const fn has_memory_clock(width: u16) -> bool {
    width > SM_CLOCK_WIDTH
}

fn clocks_text(device: &Device, width: u16, memory_width: u16) -> String {
    let clocks = [device.sm_clock.get(), device.memory_clock.get()];
    let [sm, memory] = clocks.map(|clock| or_unknown(clock, |clock| clock.get().to_string()));
    if !has_memory_clock(width) || clocks == [None, None] {
        return sm;
    }
    let digits = usize::from(memory_width.saturating_sub(1));
    format!("{sm}/{memory:>digits$}")
}

fn power_text(drawn: Option<Watts>, limit: Option<Watts>) -> String {
    if drawn.is_none() && limit.is_none() {
        return UNKNOWN.to_owned();
    }
    let texts =
        [drawn, limit].map(|drawn| or_unknown(drawn, |watts| format!("{:.0}", watts.get())));
    texts.join("/")
}

/// Formats an attribute, as a dash if it is unavailable.
fn attribute_text(attribute: Attribute, context: AttributeContext<'_>) -> (String, Tone) {
    let text = attribute.read(context).into_known();
    text.unwrap_or_else(|| (UNKNOWN.to_owned(), Tone::Faint))
}

/// Returns the model of a device; a slice below its device is indented and shows only its profile.
fn name(device: &Device) -> String {
    let name = model_name(device);
    if device.parent.is_none() {
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
        .text(format!(" {}", model_name(device)), Tone::Plain);
    if let Some(text) = device.throttle.get().map(Throttle::text).filter(|text| text != "none") {
        line = line.text(format!("  throttled by {text}"), Tone::Warn);
    }
    if let Some(share) = throttled.filter(|share| *share >= 0.5) {
        line = line.text(format!("  throttled {share:.0}% of the last minute"), Tone::Warn);
    }
    let first = [
        ("util", device.load().reason()),
        ("memory", device.memory_used.reason().or(device.memory_total.reason())),
        ("temp", device.temperature.reason()),
        ("power", device.power.reason()),
        ("limit", device.power_limit.reason()),
        ("clocks", device.sm_clock.reason()),
    ];
    let memory_temperature = device.memory_temperature.get();
    let tpu = device.tpu.as_deref();
    let tpu_fault = tpu.and_then(|tpu| tpu.metrics_fault.known());
    let items = [
        device.pci.known().map(|pci| format!("pci {pci}")),
        device.performance_state.get().map(|state| format!("P{state}")),
        device.fan.get().map(|fan| format!("fan {:.0}%", fan.get())),
        memory_temperature.map(|celsius| format!("memory {}", units.temperature(celsius))),
        device.pcie.get().map(|(generation, lanes)| format!("PCIe {generation}x{lanes}")),
        tpu.and_then(|tpu| tpu.nodes.known()).map(ToString::to_string),
        tpu_fault.filter(|text| &***text != "none").map(ToString::to_string),
    ];
    let context = AttributeContext { node, device, units };
    let named = attributes::named(context, &["persistence", "mode", "ecc", "mig", "display"]);
    let uuid = device.uuid.to_string();
    let unavailable = attributes::unavailable(context, &first).into_iter();
    let unavailable = unavailable.map(|(text, reason)| format!("{text}: {reason}"));
    line.details(items.into_iter().flatten().chain(named).chain([uuid]).chain(unavailable))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use gtop_model::{NodeName, Reading};

    #[test]
    fn devices_of_different_heights_scroll_to_the_cursor_and_leave_no_line_empty() {
        let at = |top| Viewport { top, rows: 0 };
        let tops = |top, room, cursor| {
            let Viewport { top, rows } = scrolled(at(top), &[3, 1, 1, 3, 3], room, cursor);
            (top, rows)
        };
        assert_eq!(tops(0, 11, None), (0, 5));
        assert_eq!(tops(0, 5, None), (0, 3));
        assert_eq!(tops(0, 5, Some(3)), (1, 3));
        assert_eq!(tops(0, 5, Some(4)), (4, 1));
        assert_eq!(tops(4, 6, None), (3, 2));
        assert_eq!(tops(4, 6, Some(0)), (0, 3));
        assert_eq!(tops(9, 2, None), (4, 0));
        assert_eq!(scrolled(at(3), &[], 5, Some(0)), Viewport { top: 0, rows: 0 });
    }

    #[test]
    fn models_that_differ_at_the_end_are_different_in_tables_of_every_width() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let device = |name: &str| Device {
            uuid: format!("GPU-{name}").into(),
            name: Reading::Known(format!("NVIDIA RTX PRO 6000 Blackwell {name} Edition").into()),
            ..Device::default()
        };
        node.devices = vec![device("Server"), device("Workstation")].into();
        let mut display = DisplayOptions::default();
        let mut shown = BTreeSet::new();
        for has_index in [true, false] {
            display.selection.names.has_index = has_index;
            for width in 40..220 {
                let table = DeviceTable {
                    node: &node,
                    display: &display,
                    attributes: &[],
                    now: Timestamp::default(),
                    width,
                    has_only_tpus: false,
                };
                let columns = DeviceTable::columns(true, &[]);
                let fit = Table::fit(&columns, table, &[], TableRoom::new(width, 0, 1));
                let room = fit.width_of("name");
                let [one, other] =
                    [0, 1].map(|at| fit.context.name_within(&node.devices[at], room));
                assert!(room == 0 || one != other, "{width}: {one}");
                shown.insert(room);
            }
        }
        assert!(shown.len() > 1, "{shown:?}");
    }

    #[test]
    fn a_wider_table_drops_no_chosen_column() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let uuid = "GPU-00000000-0000-0000-0000-000000000000";
        node.devices = vec![Device { uuid: uuid.into(), ..Device::default() }].into();
        let mut display = DisplayOptions::default();
        let chosen = ["uuid", "util", "membar", "last", "mem", "power", FLAGS];
        display.columns.node = chosen.map(str::to_owned).to_vec();
        let columns = DeviceTable::columns(true, &[]);
        for width in 94..130 {
            let table = DeviceTable {
                node: &node,
                display: &display,
                attributes: &[],
                now: Timestamp::default(),
                width,
                has_only_tpus: false,
            };
            let room = TableRoom::new(width, 0, 1);
            let mut table = Table::fit(&columns, table, &display.columns.node, room);
            distribute(&mut table);
            let hidden = chosen.iter().filter(|name| table.width_of(name) == 0);
            assert_eq!(hidden.collect::<Vec<_>>(), Vec::<&&str>::new(), "{width}");
        }
    }
}
