//! The device table of one node, in nvnodetop's order of columns, with more of them where there is room.

use std::sync::Arc;

use crate::fleet::{Metric, Node, Totals};
use crate::model::{Device, Link, Megahertz, Percent, Reading, Reason, Throttle, Watts};
use crate::time::Timestamp;
use crate::view::RenderContext;
use crate::view::column_spec::{self, ColumnSpec};
use crate::view::display_options::{DisplayOptions, Thresholds};
use crate::view::line::{Line, Tone, UNKNOWN, width_of};
use crate::view::navigation::{Navigation, RowId};
use crate::view::node::facts::{self, FACTS, Fact, Subject};
use crate::view::node::host::track;
use crate::view::node::processes::is_all_chips;
use crate::view::node_status::{Note, flags, label};
use crate::view::number_format::{Units, or_unknown, percent};

/// From this width on, a second pair of numbers and names have columns.
const WIDE: u16 = 100;
/// Facts that have a column also where a device has a second line.
const WORTH_A_COLUMN: usize = 2;
/// Columns of a bar in the second line of a device.
const SECOND_BAR: u16 = 8;

/// The columns behind what tells one device from another.
pub(crate) const HEADINGS: [ColumnSpec; 36] = [
    ColumnSpec::new("uuid", "UUID", "", "the UUID"),
    ColumnSpec::new("name", "NAME", "", "the model"),
    ColumnSpec::new("temp", "TEMP", "", "the temperature"),
    ColumnSpec::new("util", "UTIL", "", "utilization as a bar and in percent"),
    ColumnSpec::new("membar", "MEM", "", "memory as a bar"),
    ColumnSpec::new("mem", "GiB", "", "memory in use and all of it"),
    ColumnSpec::new("power", "W", "", "power and its limit"),
    ColumnSpec::new("clocks", "MHz", "", "clocks, that of memory too where there is room"),
    ColumnSpec::new("owner", "OWNER", "", "who has a chip"),
    ColumnSpec::new("throttled", "THROTTLED", "", "why clocks are held down"),
    ColumnSpec::new("membw", "MEMBW", "", "memory bandwidth in use"),
    ColumnSpec::new("memtemp", "MEMTEMP", "", "the temperature of memory"),
    ColumnSpec::new("junction", "JUNCTION", "", "the hottest spot"),
    ColumnSpec::new("pcie", "PCIe", "", "traffic over PCIe"),
    ColumnSpec::new("nvlink", "NVLINK", "", "traffic over NVLink"),
    ColumnSpec::new("fan", "FAN", "", "how fast the fan turns"),
    ColumnSpec::new("pstate", "PSTATE", "", "the performance state"),
    ColumnSpec::new("enc-dec", "ENC/DEC", "", "video encoder and decoder"),
    ColumnSpec::new("smact", "SMACT", "", "how many multiprocessors work"),
    ColumnSpec::new("tensor", "TENSOR", "", "how much tensor cores work"),
    ColumnSpec::new("occupancy", "OCC", "", "how full multiprocessors are"),
    ColumnSpec::new("ecc", "ECC", "", "errors of memory"),
    ColumnSpec::new("remap", "REMAP", "", "remapped rows of memory"),
    ColumnSpec::new("link", "LINK", "", "the PCIe link"),
    ColumnSpec::new("persistence", "PERS", "", "persistence mode"),
    ColumnSpec::new("mode", "MODE", "", "the compute mode"),
    ColumnSpec::new("hloq", "HLOQ", "", "programs that wait for a chip"),
    ColumnSpec::new("cores", "CORES", "", "the cores of a chip"),
    ColumnSpec::new("gi-ci", "GI/CI", "", "the instances of a slice"),
    ColumnSpec::new("bar1", "BAR1", "", "the BAR1 window in use"),
    ColumnSpec::new("partitions", "PART", "", "the partition"),
    ColumnSpec::new("mig", "MIG", "", "whether it may be cut into slices"),
    ColumnSpec::new("display", "DISP", "", "whether a display hangs on it"),
    ColumnSpec::new("pci", "PCI", "", "its address on the bus"),
    ColumnSpec::new("last", "LAST", "", "utilization over the last seconds"),
    ColumnSpec::new("flags", "FLAGS", "", "what is wrong with it"),
];
/// How many of them stand before the facts.
const BEFORE_FACTS: usize = 8;

/// A column behind the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Uuid,
    Name,
    Heat,
    Util,
    MemoryBar,
    Memory,
    Power,
    Clocks,
    /// The place among facts.
    Fact(usize),
    Spark,
    Flags,
}

impl Part {
    /// Those before the facts.
    const FIRST: [Self; BEFORE_FACTS] = [
        Self::Uuid,
        Self::Name,
        Self::Heat,
        Self::Util,
        Self::MemoryBar,
        Self::Memory,
        Self::Power,
        Self::Clocks,
    ];

    /// Returns the one of a heading.
    fn at(place: usize) -> Option<Self> {
        let behind = place.checked_sub(BEFORE_FACTS);
        match behind {
            None => Self::FIRST.get(place).copied(),
            Some(fact) if fact < FACTS.len() => Some(Self::Fact(fact)),
            Some(last) => [Self::Spark, Self::Flags].get(last - FACTS.len()).copied(),
        }
    }
}

/// Widths of the columns; 0 for one that has no room.
#[derive(Clone, Debug, Default)]
struct Columns {
    /// From left to right.
    order: Vec<Part>,
    load: Thresholds,
    /// Where the share of memory bandwidth turns high.
    traffic: Thresholds,
    units: Units,
    gap: u16,
    label: u16,
    name: u16,
    uuid: u16,
    heat: u16,
    util: u16,
    memory_bar: u16,
    memory: u16,
    power: u16,
    clocks: u16,
    spark: u16,
    flags: u16,
    has_index: bool,
    has_memory_clock: bool,
    has_chips: bool,
    /// Facts that have a column, by their places.
    more: Vec<usize>,
    /// Facts that some device tells and that have none.
    rest: Vec<&'static Fact>,
}

/// Lines around the rows: the titles, and the sum when there is something to sum up.
pub(crate) fn frame_lines(node: &Node) -> usize {
    1 + usize::from(has_sum(node))
}

fn has_sum(node: &Node) -> bool {
    node.devices.iter().filter(|device| device.parent.is_none()).count() > 1
}

/// Returns the titles, so many lines of devices, and the sum; in full a device has two lines.
pub(crate) fn lines(
    scene: RenderContext<'_>,
    node: &Node,
    navigation: &mut Navigation,
    width: u16,
    (room, is_full): (usize, bool),
) -> Vec<Line> {
    let now = scene.picture.now;
    let columns = Columns::of(node, scene.taste, width, is_full);
    let cursor = navigation.cursor(node);
    let on = |device: &Device| cursor == Some(RowId::Device(Arc::clone(&device.uuid)));
    let wanted = node.devices.iter().position(on);
    let rows = if is_full { room / 2 } else { room };
    navigation.devices.settle(rows, node.devices.len(), wanted);
    let count = node.devices.len();
    let mut lines = vec![navigation.devices.beside(columns.titles(), count, width)];
    for place in navigation.devices.range(node.devices.len()) {
        let Some(device) = node.devices.get(place) else { continue };
        let is_fresh = node.link == Link::Up && node.device_freshness(place, now).is_fresh();
        let faded = |line: Line| if is_fresh { line } else { line.faded() };
        lines.push(columns.row((node, place), now, is_fresh).selected(on(device)));
        if is_full {
            lines.push(faded(columns.second(node, device, width)).selected(on(device)));
        }
    }
    if has_sum(node) {
        let line = columns.sum(node);
        let places = 0..node.devices.len();
        let is_fresh = node.link == Link::Up
            && places.into_iter().all(|place| node.device_freshness(place, now).is_fresh());
        lines.push(if is_fresh { line } else { line.faded() });
    }
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// Room that is still to be given to columns.
struct Room {
    left: u16,
    gap: u16,
}

impl Room {
    fn take(&mut self, column: &mut u16, wanted: u16) -> bool {
        let fits = self.left >= wanted + self.gap;
        if fits {
            self.left -= wanted + self.gap;
            *column = wanted;
        }
        fits
    }

    /// Lets a column that is there grow.
    fn grow(&mut self, column: &mut u16, by: u16) {
        let by = if *column > 0 { by.min(self.left) } else { 0 };
        self.left -= by;
        *column += by;
    }
}

impl Columns {
    /// Returns the columns somebody chose, or those that are worth most.
    fn of(node: &Node, taste: &DisplayOptions, width: u16, is_full: bool) -> Self {
        match column_spec::places(&HEADINGS, &taste.columns.node) {
            Some(places) => Self::chosen(node, taste, &places, width),
            None => Self::fit(node, taste, width, is_full),
        }
    }

    /// What holds however much room there is.
    fn begin(node: &Node, taste: &DisplayOptions, width: u16) -> Self {
        let names = taste.only.names;
        let label = widest(node.devices.iter().map(|device| label(node, device))).max(3);
        let is_named = names.has_index || names.has_name || names.has_uuid;
        Self {
            load: taste.device,
            traffic: taste.memory,
            units: Units::of(taste),
            gap: if width >= 110 { 2 } else { 1 },
            // Something must tell one from another.
            has_index: names.has_index || !is_named,
            label: if names.has_index || !is_named { label } else { 3 },
            has_chips: is_all_chips(node),
            ..Self::default()
        }
    }

    /// Gives room to chosen columns from left to right, then the rest to bars and flags.
    fn chosen(node: &Node, taste: &DisplayOptions, places: &[usize], width: u16) -> Self {
        let mut columns = Self::begin(node, taste, width);
        let units = columns.units;
        let totals = Totals::of_devices(node);
        let mut room = Room { left: width.saturating_sub(columns.label), gap: columns.gap };
        for part in places.iter().filter_map(|place| Part::at(*place)) {
            let all = node.devices.iter();
            let least = match part {
                Part::Uuid => widest(all.map(|device| device.uuid.to_string())).min(40),
                Part::Name => widest(all.map(|device| name(device, true))).clamp(4, 20),
                Part::Heat | Part::MemoryBar => 4,
                Part::Util => 6 + 4,
                Part::Memory => {
                    width_of(&units.pair(totals.memory_total, totals.memory_total)).max(9)
                }
                Part::Power => width_of(&power_pair(&totals)).max(7),
                Part::Clocks => 4 + if width >= WIDE { 5 } else { 0 },
                Part::Fact(at) => FACTS.get(at).map_or(0, |fact| fact.width),
                Part::Spark => 6,
                Part::Flags => 8,
            };
            if !room.take(columns.width_mut(part).unwrap_or(&mut 0), least) {
                break;
            }
            columns.has_memory_clock |= part == Part::Clocks && width >= WIDE;
            if let Part::Fact(at) = part {
                columns.more.push(at);
            }
            columns.order.push(part);
        }
        let is_told = |(at, fact): &(usize, &Fact)| {
            !columns.more.contains(at) && fact.is_told(node, columns.units)
        };
        columns.rest =
            FACTS.iter().enumerate().filter(is_told).map(|(_, fact)| fact).collect::<Vec<_>>();
        columns.share_out(room.left);
        columns
    }

    fn fit(node: &Node, taste: &DisplayOptions, width: u16, is_full: bool) -> Self {
        let totals = Totals::of_devices(node);
        let names = taste.only.names;
        let mut columns = Self::begin(node, taste, width);
        let units = columns.units;
        let memory = units.pair(totals.memory_total, totals.memory_total);
        let power = power_pair(&totals);
        let mut room = Room { left: width.saturating_sub(columns.label), gap: columns.gap };
        // The percent sign's column goes with the bar.
        room.take(&mut columns.util, 6 + 4);
        room.take(&mut columns.memory, width_of(&memory).max(9));
        room.take(&mut columns.flags, if width >= 110 { 14 } else { 8 });
        if names.has_uuid {
            let uuid = widest(node.devices.iter().map(|device| device.uuid.to_string()));
            room.take(&mut columns.uuid, uuid.min(if width >= WIDE { 40 } else { 12 }));
        }
        if !names.has_index && names.has_name {
            let all = widest(node.devices.iter().map(|device| name(device, true)));
            room.take(&mut columns.name, all.clamp(4, 16));
        }
        let is_told = |read: fn(&Device) -> Option<Reason>| {
            let mut reasons = node.devices.iter().map(read);
            // What no device of this make has needs no column.
            reasons.any(|reason| {
                reason.is_none_or(|why| why != Reason::NotSupported && !columns.has_chips)
            })
        };
        let has_heat = is_told(|device| device.temperature.reason());
        let has_power = is_told(|device| device.power.reason());
        let has_clocks = is_told(|device| device.sm_clock.reason());
        if has_heat {
            room.take(&mut columns.heat, 4);
        }
        if has_power {
            room.take(&mut columns.power, width_of(&power).max(7));
        }
        if has_clocks {
            room.take(&mut columns.clocks, 4);
        }
        room.take(&mut columns.memory_bar, 4);
        room.take(&mut columns.spark, 6);
        if width >= WIDE {
            columns.widen(
                node,
                &mut room,
                names.has_name,
                if is_full { WORTH_A_COLUMN } else { FACTS.len() },
            );
        } else {
            columns.rest = FACTS.iter().filter(|fact| fact.is_told(node, units)).collect();
        }
        columns.share_out(room.left);
        let more = columns.more.iter().map(|at| Part::Fact(*at));
        columns.order =
            Part::FIRST.into_iter().chain(more).chain([Part::Spark, Part::Flags]).collect();
        columns
    }

    /// Returns where the width of a column stands, of those whose width is not always the same.
    const fn width_mut(&mut self, part: Part) -> Option<&mut u16> {
        Some(match part {
            Part::Uuid => &mut self.uuid,
            Part::Name => &mut self.name,
            Part::Heat => &mut self.heat,
            Part::Util => &mut self.util,
            Part::MemoryBar => &mut self.memory_bar,
            Part::Memory => &mut self.memory,
            Part::Power => &mut self.power,
            Part::Clocks => &mut self.clocks,
            Part::Spark => &mut self.spark,
            Part::Flags => &mut self.flags,
            Part::Fact(_) => return None,
        })
    }

    fn width(&self, part: Part) -> u16 {
        match part {
            Part::Uuid => self.uuid,
            Part::Name => self.name,
            Part::Heat => self.heat,
            Part::Util => self.util,
            Part::MemoryBar => self.memory_bar,
            Part::Memory => self.memory,
            Part::Power => self.power,
            Part::Clocks => self.clocks,
            Part::Spark => self.spark,
            Part::Flags => self.flags,
            Part::Fact(at) => FACTS.get(at).map_or(0, |fact| fact.width),
        }
    }

    /// Returns the columns that have room, from left to right.
    fn shown(&self) -> impl Iterator<Item = Part> {
        self.order.iter().copied().filter(|part| self.width(*part) > 0)
    }

    /// Gives a wide table names and memory clocks, comfortable bars, and then columns of facts.
    fn widen(&mut self, node: &Node, room: &mut Room, has_name: bool, most: usize) {
        let mut more = 0;
        if self.clocks > 0 && room.take(&mut more, 5_u16.saturating_sub(self.gap)) {
            self.has_memory_clock = true;
            self.clocks += 5;
        }
        if has_name && self.name == 0 {
            let names = node.devices.iter().map(|device| width_of(&name(device, true))).max();
            room.take(&mut self.name, names.unwrap_or(0).clamp(4, 20));
        }
        room.grow(&mut self.util, 6);
        room.grow(&mut self.memory_bar, 4);
        room.grow(&mut self.spark, 9);
        for (place, fact) in FACTS.iter().enumerate() {
            if !fact.is_told(node, self.units) {
                continue;
            }
            let mut own = 0;
            if place < most && room.take(&mut own, fact.width) {
                self.more.push(place);
            } else {
                self.rest.push(fact);
            }
        }
    }

    fn share_out(&mut self, room: u16) {
        let own = |column: u16, part: u16| if column > 0 { part } else { 0 };
        let util = own(self.util, (room * 2 / 5).min(18));
        let memory = own(self.memory_bar, (room / 5).min(12));
        let spark = own(self.spark, (room - util - memory).min(34));
        self.util += util;
        self.memory_bar += memory;
        self.spark += spark;
        // In the middle, words far from the next column would be hard to follow.
        let rest = room - util - memory - spark;
        self.flags += match self.order.last() {
            None => rest,
            Some(Part::Flags) => own(self.flags, rest),
            Some(_) => own(self.flags, rest.min(12)),
        };
    }

    fn titles(&self) -> Line {
        let last = if self.spark >= 8 { "LAST " } else { "" };
        let seconds = format!("{last}{}s", self.spark);
        let clocks = if self.has_memory_clock { "SM/MEM" } else { "MHz" };
        let [load, memory] = if self.has_chips { ["DUTY", "HBM"] } else { ["UTIL", "MEM"] };
        let sign = if self.has_index { "#" } else { "" };
        let line = Line::new().right(sign, self.label, Tone::Faint);
        self.shown().fold(line, |line, part| {
            let (line, width) = (line.gap(self.gap), self.width(part));
            let left = |word: &str| Line::new().left(word, width, Tone::Faint);
            let right = |word: &str| Line::new().right(word, width, Tone::Faint);
            line.then(match part {
                Part::Uuid => left("UUID"),
                Part::Name => left("NAME"),
                Part::Heat => right("TEMP"),
                Part::Util => {
                    Line::new().left(load, width - 4, Tone::Faint).right("%", 4, Tone::Faint)
                }
                Part::MemoryBar => left(memory),
                Part::Memory => right(self.units.word()),
                Part::Power => right("W"),
                Part::Clocks => right(clocks),
                Part::Fact(at) => right(FACTS.get(at).map_or("", |fact| fact.title)),
                Part::Spark => left(&seconds),
                Part::Flags => left("FLAGS"),
            })
        })
    }

    fn row(&self, (node, place): (&Node, usize), now: Timestamp, is_fresh: bool) -> Line {
        let Some(device) = node.devices.get(place) else { return Line::new() };
        let faded = |line: Line| if is_fresh { line } else { line.faded() };
        let number = if device.parent.is_some() { Tone::Faint } else { Tone::Strong };
        let own = if self.has_index { label(node, device) } else { String::new() };
        let line = faded(Line::new().right(&own, self.label, number));
        self.shown().fold(line, |line, part| {
            if part != Part::Flags {
                return line.then(faded(self.cell((node, place, device), part, now)));
            }
            let said = self.said(&flags(device));
            let is_last = self.order.last() == Some(&part);
            if is_last {
                return line.then(said);
            }
            let said = said.cut(self.gap + self.flags);
            let missing = (self.gap + self.flags).saturating_sub(said.width());
            line.then(said).gap(missing)
        })
    }

    /// Returns one number of a device, the gap before it included.
    fn cell(
        &self,
        (node, place, device): (&Node, usize, &Device),
        part: Part,
        now: Timestamp,
    ) -> Line {
        let (line, width) = (Line::new().gap(self.gap), self.width(part));
        match part {
            Part::Uuid => line.left(&device.uuid, width, Tone::Plain),
            Part::Name => line.left(&name(device, true), width, Tone::Plain),
            Part::Heat => {
                let text = or_unknown(device.temperature.get(), |heat| self.units.degrees(heat));
                let is_hot = device.throttle.get().is_some_and(Throttle::is_thermal);
                line.right(&text, width, if is_hot { Tone::Warn } else { Tone::Plain })
            }
            Part::Util => {
                let util = load_of(device);
                let worst = flags(device).into_iter().map(|(_, tone)| tone).max();
                self.load(line, util, worst.unwrap_or_else(|| self.load.tone(util)))
            }
            Part::MemoryBar => self.memory_bar(line, device.memory_share()),
            Part::Memory => {
                let (used, total) = (device.memory_used.get(), device.memory_total.get());
                line.right(&self.units.pair(used, total), width, Tone::Plain)
            }
            Part::Power => self.power(line, device.power.get(), device.power_limit.get()),
            Part::Clocks => line.right(&self.clocks_text(device), width, Tone::Plain),
            Part::Fact(at) => {
                let Some(fact) = FACTS.get(at) else { return line };
                let (text, tone) = said(fact, Subject { node, device, units: self.units });
                line.right(&text, width, tone)
            }
            Part::Spark => {
                let subject = (&*device.uuid, Metric::Utilization);
                let source = node.device_sources.get(place);
                let points = track(node, subject, source, now, usize::from(width));
                line.spark(points, Tone::Mid)
            }
            Part::Flags => line.gap(width),
        }
    }

    /// Returns the second line of a device: bars of power and bandwidth, then what has no column. Of
    /// a slice only what it tells: it has little of all that.
    fn second(&self, node: &Node, device: &Device, width: u16) -> Line {
        let mut line = Line::new().gap(self.label + 1);
        if device.fault.is_some() {
            return line;
        }
        let is_slice = device.parent.is_some();
        let devices = || node.devices.iter();
        let has_power = devices().any(|one| one.power_share().is_some());
        let has_traffic = devices().any(|one| facts::bandwidth_share(one).get().is_some());
        let power = device.power_share().map(Percent::get);
        let traffic = facts::bandwidth_share(device).get().map(Percent::get);
        let bars =
            [("power", power, self.load, has_power), ("membw", traffic, self.traffic, has_traffic)];
        for (word, share, thresholds, is_told) in bars {
            let has_room = line.width() + 16 + SECOND_BAR <= width;
            if !is_told || !has_room || (is_slice && share.is_none()) {
                continue;
            }
            line = line
                .gap(1)
                .text(format!("{word} "), Tone::Faint)
                .bar(share, SECOND_BAR, thresholds.tone(share))
                .right(&percent(share), 4, Tone::Plain)
                .text(if share.is_some() { "%" } else { " " }, Tone::Faint)
                .gap(1);
        }
        let subject = Subject { node, device, units: self.units };
        for fact in self.rest.iter().filter(|fact| fact.title != "MEMBW") {
            let room = width.saturating_sub(line.width());
            let (text, tone) = said(fact, subject);
            if room < width_of(fact.word) + 2 + fact.width || (is_slice && text == UNKNOWN) {
                continue;
            }
            let gap = if line.width() > self.label + 1 { 2 } else { 1 };
            line = line
                .gap(gap)
                .text(format!("{} ", fact.word), Tone::Faint)
                .left(&text, fact.width, tone);
        }
        line
    }

    fn sum(&self, node: &Node) -> Line {
        let totals = Totals::of_devices(node);
        let util = totals.utilization.map(Percent::get);
        let line = Line::new().right("SUM", self.label, Tone::Faint);
        let is_summed =
            |part: &Part| matches!(part, Part::Util | Part::MemoryBar | Part::Memory | Part::Power);
        let shown: Vec<Part> = self.shown().collect();
        let count = shown.iter().rposition(is_summed).map_or(0, |last| last + 1);
        shown.into_iter().take(count).fold(line, |line, part| {
            let (line, width) = (line.gap(self.gap), self.width(part));
            match part {
                Part::Util => self.load(line, util, self.load.tone(util)),
                Part::MemoryBar => {
                    let both = totals.memory_used.zip(totals.memory_total);
                    let part = both.and_then(|(used, total)| Percent::of(used.0, total.0));
                    self.memory_bar(line, part)
                }
                Part::Memory => {
                    let pair = self.units.pair(totals.memory_used, totals.memory_total);
                    line.right(&pair, width, Tone::Plain)
                }
                Part::Power => self.power(line, totals.power, totals.power_limit),
                Part::Uuid
                | Part::Name
                | Part::Heat
                | Part::Clocks
                | Part::Fact(_)
                | Part::Spark
                | Part::Flags => line.gap(width),
            }
        })
    }

    fn load(&self, line: Line, util: Option<f32>, tone: Tone) -> Line {
        let bar = self.util.saturating_sub(4);
        line.bar(util, bar, tone).right(&percent(util), 4, Tone::Plain)
    }

    fn memory_bar(&self, line: Line, part: Option<Percent>) -> Line {
        let part = part.map(Percent::get);
        line.bar(part, self.memory_bar, self.load.tone(part))
    }

    fn power(&self, line: Line, drawn: Option<Watts>, limit: Option<Watts>) -> Line {
        let write = |watts: Option<Watts>| or_unknown(watts, |watts| format!("{:.0}", watts.get()));
        let text = match (drawn, limit) {
            (None, None) => UNKNOWN.to_owned(),
            (drawn, limit) => format!("{}/{}", write(drawn), write(limit)),
        };
        line.right(&text, self.power, Tone::Plain)
    }

    fn clocks_text(&self, device: &Device) -> String {
        let write =
            |clock: &Reading<Megahertz>| or_unknown(clock.get(), |clock| clock.get().to_string());
        if !self.has_memory_clock {
            return write(&device.sm_clock);
        }
        if device.sm_clock.get().is_none() && device.memory_clock.get().is_none() {
            return UNKNOWN.to_owned();
        }
        format!("{}/{:>4}", write(&device.sm_clock), write(&device.memory_clock))
    }

    fn said(&self, flags: &[Note]) -> Line {
        let mut line = Line::new().gap(self.gap);
        for (word, tone) in flags {
            line = line.text(word.as_str(), *tone).gap(1);
        }
        line
    }
}

fn widest(texts: impl Iterator<Item = String>) -> u16 {
    texts.map(|text| width_of(&text)).max().unwrap_or(0)
}

/// Writes the widest pair of watts there will be.
fn power_pair(totals: &Totals) -> String {
    or_unknown(totals.power_limit, |limit| format!("{0:.0}/{0:.0}", limit.get()))
}

/// Returns a fact of a device in words, a dash when it is not known.
fn said(fact: &Fact, subject: Subject<'_>) -> (String, Tone) {
    let said = (fact.read)(subject).into_known();
    said.unwrap_or_else(|| (UNKNOWN.to_owned(), Tone::Faint))
}

/// Returns the load of a device; that of a slice as the hardware measures it, where nothing else does.
pub(super) fn load_of(device: &Device) -> Option<f32> {
    let measured = device.activity.as_deref();
    let share = device.utilization.get().or_else(|| {
        let more = measured?;
        more.graphics_active.get().or_else(|| more.sm_active.get())
    });
    share.map(Percent::get)
}

/// Returns a device's model without the maker's name; below its device a slice is set in, and called by
/// what is its own.
pub(crate) fn name(device: &Device, is_indented: bool) -> String {
    let name = device.name.known().map_or(UNKNOWN, |name| name.trim_start_matches("NVIDIA "));
    if !is_indented || device.parent.is_none() {
        return name.to_owned();
    }
    let own = name.find("MIG ").and_then(|start| name.get(start..));
    format!(" {}", own.unwrap_or(name))
}

/// Returns what one device is, and what it does not tell and why. `throttled` is the share of the
/// last minute in which its clocks were held down.
pub(crate) fn detail(
    node: &Node,
    device: &Device,
    throttled: Option<f32>,
    taste: &DisplayOptions,
) -> Line {
    let units = Units::of(taste);
    let mut line = Line::of(format!("{} ", label(node, device)), Tone::Strong)
        .text(format!(" {}", name(device, false)), Tone::Plain);
    let tpu = device.tpu.as_deref();
    let throttle = device.throttle.get().map(Throttle::text).filter(|words| words != "none");
    if let Some(words) = throttle {
        line = line.text(format!("  held down by {words}"), Tone::Warn);
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
    let known = [
        Some(device.uuid.to_string()),
        device.pci.known().map(|pci| format!("pci {pci}")),
        device.performance_state.get().map(|state| format!("P{state}")),
        device.fan.get().map(|fan| format!("fan {:.0}%", fan.get())),
        device.memory_temperature.get().map(|heat| format!("memory {}", units.degrees(heat))),
        device.pcie.get().map(|(generation, lanes)| format!("PCIe {generation}x{lanes}")),
        tpu.and_then(|tpu| tpu.nodes.known()).map(ToString::to_string),
        tpu.and_then(|tpu| tpu.metrics_fault.known())
            .filter(|words| &***words != "none")
            .map(ToString::to_string),
    ];
    for word in known.into_iter().flatten() {
        line = line.text(format!("  {word}"), Tone::Faint);
    }
    let subject = Subject { node, device, units };
    for (words, reason) in facts::unknowns(subject, &first) {
        line = line.text(format!("  {words}: {reason}"), Tone::Faint);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heading_is_a_column_and_facts_have_theirs() {
        for (place, heading) in HEADINGS.iter().enumerate() {
            let part = Part::at(place).unwrap();
            if let Part::Fact(at) = part {
                assert_eq!(FACTS[at].title, heading.title);
            }
        }
        assert_eq!(Part::at(HEADINGS.len()), None);
        assert_eq!(Part::at(HEADINGS.len() - 1), Some(Part::Flags));
    }
}
