//! The device table of one node, in nvnodetop's order of columns, with more of them where there is room.

use std::sync::Arc;

use crate::fleet::{Metric, Node, Totals};
use crate::model::{Bytes, Device, Link, Megahertz, Percent, Reading, Reason, Throttle, Watts};
use crate::time::Timestamp;
use crate::view::Scene;
use crate::view::condition::{Note, flags, label};
use crate::view::line::{Line, Tone, UNKNOWN, width_of};
use crate::view::navigation::{Navigation, Spot};
use crate::view::node::facts::{self, FACTS, Fact, Subject};
use crate::view::node::host::track;
use crate::view::node::processes::is_all_chips;
use crate::view::number::{Units, or_unknown, percent};
use crate::view::taste::{Taste, Thresholds};

/// From this width on, a second pair of numbers and names have columns.
const WIDE: u16 = 100;
/// Facts that have a column also where a device has a second line.
const WORTH_A_COLUMN: usize = 2;
/// Columns of a bar in the second line of a device.
const SECOND_BAR: u16 = 8;

/// Widths of the columns; 0 for one that has no room.
#[derive(Clone, Debug, Default)]
struct Columns {
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
    /// Facts that have a column.
    more: Vec<&'static Fact>,
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
    scene: Scene<'_>,
    node: &Node,
    navigation: &mut Navigation,
    width: u16,
    (room, is_full): (usize, bool),
) -> Vec<Line> {
    let now = scene.picture.now;
    let columns = Columns::fit(node, scene.taste, width, is_full);
    let cursor = navigation.cursor(node);
    let on = |device: &Device| cursor == Some(Spot::Device(Arc::clone(&device.uuid)));
    let wanted = node.devices.iter().position(on);
    let rows = if is_full { room / 2 } else { room };
    navigation.devices.settle(rows, node.devices.len(), wanted);
    let count = node.devices.len();
    let mut lines = vec![navigation.devices.beside(columns.titles(), count, width)];
    for place in navigation.devices.range(node.devices.len()) {
        let Some(device) = node.devices.get(place) else { continue };
        let is_fresh = node.link == Link::Up && node.device_freshness(place, now).is_fresh();
        let faded = |line: Line| if is_fresh { line } else { line.faded() };
        let line = faded(columns.row(node, place, now));
        lines.push(line.then(columns.said(&flags(device))).selected(on(device)));
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
    fn fit(node: &Node, taste: &Taste, width: u16, is_full: bool) -> Self {
        let totals = Totals::of_devices(node);
        let names = taste.only.names;
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| width_of(&text)).max().unwrap_or(0)
        };
        let units = Units::of(taste);
        let label = widest(&mut node.devices.iter().map(|device| label(node, device))).max(3);
        let is_named = names.has_index || names.has_name || names.has_uuid;
        let mut columns = Self {
            load: taste.device,
            traffic: taste.memory,
            units,
            gap: if width >= 110 { 2 } else { 1 },
            // Something must tell one from another.
            has_index: names.has_index || !is_named,
            label: if names.has_index || !is_named { label } else { 3 },
            has_chips: is_all_chips(node),
            ..Self::default()
        };
        let memory = units.pair(totals.memory_total, totals.memory_total);
        let power = or_unknown(totals.power_limit, |limit| format!("{0:.0}/{0:.0}", limit.get()));
        let mut room = Room { left: width.saturating_sub(columns.label), gap: columns.gap };
        // The percent sign's column goes with the bar.
        room.take(&mut columns.util, 6 + 4);
        room.take(&mut columns.memory, width_of(&memory).max(9));
        room.take(&mut columns.flags, if width >= 110 { 14 } else { 8 });
        if names.has_uuid {
            let uuid = widest(&mut node.devices.iter().map(|device| device.uuid.to_string()));
            room.take(&mut columns.uuid, uuid.min(if width >= WIDE { 40 } else { 12 }));
        }
        if !names.has_index && names.has_name {
            let all = widest(&mut node.devices.iter().map(|device| name(device, true)));
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
        columns
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
                self.more.push(fact);
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
        self.flags += room - util - memory - spark;
    }

    fn titles(&self) -> Line {
        let last = if self.spark >= 8 { "LAST " } else { "" };
        let seconds = format!("{last}{}s", self.spark);
        let clocks = if self.has_memory_clock { "SM/MEM" } else { "MHz" };
        let [load, memory] = if self.has_chips { ["DUTY", "HBM"] } else { ["UTIL", "MEM"] };
        let sign = if self.has_index { "#" } else { "" };
        let mut line = Line::new().right(sign, self.label, Tone::Faint);
        let columns = [
            ("UUID", self.uuid, false),
            ("NAME", self.name, false),
            ("TEMP", self.heat, true),
            (load, self.util.saturating_sub(4), false),
            ("%", if self.util > 0 { 4 } else { 0 }, true),
            (memory, self.memory_bar, false),
            (self.units.word(), self.memory, true),
            ("W", self.power, true),
            (clocks, self.clocks, true),
        ];
        let facts = self.more.iter().map(|fact| (fact.title, fact.width, true));
        let last = [(seconds.as_str(), self.spark, false), ("FLAGS", self.flags, false)];
        for (word, width, is_right) in columns.into_iter().chain(facts).chain(last) {
            if width == 0 {
                continue;
            }
            let gap = if word == "%" { 0 } else { self.gap };
            line = line.gap(gap);
            line = if is_right {
                line.right(word, width, Tone::Faint)
            } else {
                line.left(word, width, Tone::Faint)
            };
        }
        line
    }

    fn row(&self, node: &Node, place: usize, now: Timestamp) -> Line {
        let Some(device) = node.devices.get(place) else { return Line::new() };
        let source = node.device_sources.get(place);
        let util = load_of(device);
        let worst = flags(device).into_iter().map(|(_, tone)| tone).max();
        let tone = worst.unwrap_or_else(|| self.load.tone(util));
        let number = if device.parent.is_some() { Tone::Faint } else { Tone::Strong };
        let own = if self.has_index { label(node, device) } else { String::new() };
        let mut line = Line::new().right(&own, self.label, number);
        if self.uuid > 0 {
            line = line.gap(self.gap).left(&device.uuid, self.uuid, Tone::Plain);
        }
        if self.name > 0 {
            line = line.gap(self.gap).left(&name(device, true), self.name, Tone::Plain);
        }
        if self.heat > 0 {
            let text = or_unknown(device.temperature.get(), |heat| self.units.degrees(heat));
            let is_hot = device.throttle.get().is_some_and(Throttle::is_thermal);
            let tone = if is_hot { Tone::Warn } else { Tone::Plain };
            line = line.gap(self.gap).right(&text, self.heat, tone);
        }
        line = self.load(line, util, tone);
        let part = device.memory_share().map(Percent::get);
        line = self.memory(line, part, device.memory_used.get(), device.memory_total.get());
        line = self.power(line, device.power.get(), device.power_limit.get());
        if self.clocks > 0 {
            line = line.gap(self.gap).right(&self.clocks_text(device), self.clocks, Tone::Plain);
        }
        let subject = Subject { node, device, units: self.units };
        for fact in &self.more {
            let (text, tone) = said(fact, subject);
            line = line.gap(self.gap).right(&text, fact.width, tone);
        }
        if self.spark > 0 {
            let subject = (&*device.uuid, Metric::Utilization);
            let points = track(node, subject, source, now, usize::from(self.spark));
            line = line.gap(self.gap).spark(points, Tone::Mid);
        }
        line
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
            [("power", power, self.load, has_power), ("bw", traffic, self.traffic, has_traffic)];
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
        for fact in self.rest.iter().filter(|fact| fact.title != "BW") {
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
        let mut line = Line::new().right("SUM", self.label, Tone::Faint);
        for width in [self.uuid, self.name, self.heat] {
            line = if width > 0 { line.gap(self.gap + width) } else { line };
        }
        line = self.load(line, util, self.load.tone(util));
        let both = totals.memory_used.zip(totals.memory_total);
        let part = both.and_then(|(used, total)| Percent::of(used.0, total.0)).map(Percent::get);
        line = self.memory(line, part, totals.memory_used, totals.memory_total);
        self.power(line, totals.power, totals.power_limit)
    }

    fn load(&self, line: Line, util: Option<f32>, tone: Tone) -> Line {
        if self.util == 0 {
            return line;
        }
        line.gap(self.gap).bar(util, self.util - 4, tone).right(&percent(util), 4, Tone::Plain)
    }

    fn memory(
        &self,
        line: Line,
        part: Option<f32>,
        used: Option<Bytes>,
        total: Option<Bytes>,
    ) -> Line {
        let mut line = line;
        if self.memory_bar > 0 {
            line = line.gap(self.gap).bar(part, self.memory_bar, self.load.tone(part));
        }
        if self.memory == 0 {
            return line;
        }
        line.gap(self.gap).right(&self.units.pair(used, total), self.memory, Tone::Plain)
    }

    fn power(&self, line: Line, drawn: Option<Watts>, limit: Option<Watts>) -> Line {
        if self.power == 0 {
            return line;
        }
        let write = |watts: Option<Watts>| or_unknown(watts, |watts| format!("{:.0}", watts.get()));
        let text = match (drawn, limit) {
            (None, None) => UNKNOWN.to_owned(),
            (drawn, limit) => format!("{}/{}", write(drawn), write(limit)),
        };
        line.gap(self.gap).right(&text, self.power, Tone::Plain)
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

/// Returns a fact of a device in words, a dash when it is not known.
fn said(fact: &Fact, subject: Subject<'_>) -> (String, Tone) {
    let said = (fact.read)(subject).into_known();
    said.unwrap_or_else(|| (UNKNOWN.to_owned(), Tone::Faint))
}

/// Returns the load of a device; that of a slice as the hardware measures it, where nothing else does.
pub(super) fn load_of(device: &Device) -> Option<f32> {
    let measured = device.details.as_deref();
    let share = device.utilization.get().or_else(|| {
        let more = measured?;
        more.graphics_active.get().or_else(|| more.sm_active.get())
    });
    share.map(Percent::get)
}

/// Returns a device's model without the maker's name; a slice is set in.
pub(crate) fn name(device: &Device, is_indented: bool) -> String {
    let name = device.name.known().map_or(UNKNOWN, |name| name.trim_start_matches("NVIDIA "));
    let indent = if is_indented && device.parent.is_some() { " " } else { "" };
    format!("{indent}{name}")
}

/// Returns what one device is, and what it does not tell and why. `throttled` is the share of the
/// last minute in which its clocks were held down.
pub(crate) fn detail(node: &Node, device: &Device, throttled: Option<f32>, taste: &Taste) -> Line {
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
