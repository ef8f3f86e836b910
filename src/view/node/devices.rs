//! The device table of one node, in nvnodetop's order of columns.

use std::sync::Arc;

use crate::fleet::{Metric, Node, Totals};
use crate::model::{Bytes, Device, Link, Megahertz, Percent, Reading};
use crate::time::Timestamp;
use crate::view::Scene;
use crate::view::condition::{Note, flags, label};
use crate::view::line::{Line, Tone, UNKNOWN, width_of};
use crate::view::navigation::{Navigation, Spot};
use crate::view::node::host::track;
use crate::view::number::{memory_pair, or_unknown, percent, share};
use crate::view::taste::Thresholds;

/// Widths of the columns; 0 for one that has no room.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    load: Thresholds,
    gap: u16,
    label: u16,
    name: u16,
    heat: u16,
    util: u16,
    memory_bar: u16,
    memory: u16,
    power: u16,
    clocks: u16,
    spark: u16,
    flags: u16,
    has_memory_clock: bool,
    is_mebibytes: bool,
}

/// Lines around the rows: the titles, and the sum when there is something to sum up.
pub(crate) fn frame_lines(node: &Node) -> usize {
    1 + usize::from(has_sum(node))
}

fn has_sum(node: &Node) -> bool {
    node.devices.iter().filter(|device| device.parent.is_none()).count() > 1
}

/// Returns the titles, so many rows, and the sum.
pub(crate) fn lines(
    scene: Scene<'_>,
    node: &Node,
    navigation: &mut Navigation,
    width: u16,
    rows: usize,
) -> Vec<Line> {
    let now = scene.picture.now;
    let columns = Columns::fit(node, scene.taste.device, width);
    let cursor = navigation.cursor(node);
    let on = |device: &Device| cursor == Some(Spot::Device(Arc::clone(&device.uuid)));
    let wanted = node.devices.iter().position(on);
    navigation.devices.settle(rows, node.devices.len(), wanted);
    let mut lines = vec![columns.titles()];
    for place in navigation.devices.range(node.devices.len()) {
        let Some(device) = node.devices.get(place) else { continue };
        let is_fresh = node.link == Link::Up && node.device_freshness(place, now).is_fresh();
        let line = columns.row(node, place, now);
        let line = if is_fresh { line } else { line.faded() };
        lines.push(line.then(columns.said(&flags(device))).selected(on(device)));
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

impl Columns {
    fn fit(node: &Node, load: Thresholds, width: u16) -> Self {
        let totals = Totals::of_devices(node);
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| width_of(&text)).max().unwrap_or(0)
        };
        let mut columns = Self {
            load,
            gap: if width >= 110 { 2 } else { 1 },
            is_mebibytes: width >= 150,
            label: widest(&mut node.devices.iter().map(|device| label(node, device))).max(3),
            ..Self::default()
        };
        let memory = columns.memory_text(totals.memory_total, totals.memory_total);
        let power = or_unknown(totals.power_limit, |limit| format!("{0:.0}/{0:.0}", limit.get()));
        let Self { gap, .. } = columns;
        let mut room = width.saturating_sub(columns.label);
        let mut take = |column: &mut u16, wanted: u16| {
            if room >= wanted + gap {
                room -= wanted + gap;
                *column = wanted;
            }
        };
        // The percent sign's column goes with the bar.
        take(&mut columns.util, 6 + 4);
        take(&mut columns.memory, width_of(&memory).max(9));
        take(&mut columns.flags, if width >= 110 { 14 } else { 8 });
        take(&mut columns.heat, 4);
        take(&mut columns.power, width_of(&power).max(7));
        take(&mut columns.clocks, 4);
        take(&mut columns.memory_bar, 4);
        take(&mut columns.spark, 6);
        if width >= 100 {
            let mut more = 0;
            take(&mut more, 5_u16.saturating_sub(gap));
            columns.has_memory_clock = more > 0 && columns.clocks > 0;
            columns.clocks += if more > 0 { 5 } else { 0 };
            let names = widest(&mut node.devices.iter().map(|device| name(device, true)));
            take(&mut columns.name, names.clamp(4, 20));
        }
        columns.share_out(room);
        columns
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
        let seconds = format!("{}s", self.spark);
        let unit = if self.is_mebibytes { "MiB" } else { "GiB" };
        let clocks = if self.has_memory_clock { "SM/MEM" } else { "MHz" };
        let mut line = Line::new().right("#", self.label, Tone::Faint);
        let columns = [
            ("NAME", self.name, false),
            ("TEMP", self.heat, true),
            ("UTIL", self.util.saturating_sub(4), false),
            ("%", if self.util > 0 { 4 } else { 0 }, true),
            ("MEM", self.memory_bar, false),
            (unit, self.memory, true),
            ("W", self.power, true),
            (clocks, self.clocks, true),
            (&seconds, self.spark, false),
            ("FLAGS", self.flags, false),
        ];
        for (word, width, is_right) in columns {
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
        let util = share(device.utilization);
        let worst = flags(device).into_iter().map(|(_, tone)| tone).max();
        let tone = worst.unwrap_or_else(|| self.load.tone(util));
        let number = if device.parent.is_some() { Tone::Faint } else { Tone::Strong };
        let mut line = Line::new().right(&label(node, device), self.label, number);
        if self.name > 0 {
            line = line.gap(self.gap).left(&name(device, true), self.name, Tone::Plain);
        }
        if self.heat > 0 {
            let heat = device.temperature.get().map(crate::model::Celsius::get);
            let text = or_unknown(heat, |degrees| format!("{degrees:.0}°"));
            let is_hot = device.throttle.get().is_some_and(crate::model::Throttle::is_thermal);
            line = line.gap(self.gap).right(
                &text,
                self.heat,
                if is_hot { Tone::Warn } else { Tone::Plain },
            );
        }
        line = self.load(line, util, tone);
        let part = device.memory_share().map(Percent::get);
        line = self.memory(line, part, device.memory_used.get(), device.memory_total.get());
        line = self.power(line, device.power.get(), device.power_limit.get());
        if self.clocks > 0 {
            line = line.gap(self.gap).right(&self.clocks_text(device), self.clocks, Tone::Plain);
        }
        if self.spark > 0 {
            let subject = (&*device.uuid, Metric::Utilization);
            let points = track(node, subject, source, now, usize::from(self.spark));
            line = line.gap(self.gap).spark(points, Tone::Mid);
        }
        line
    }

    fn sum(&self, node: &Node) -> Line {
        let totals = Totals::of_devices(node);
        let util = totals.utilization.map(Percent::get);
        let mut line = Line::new().right("SUM", self.label, Tone::Faint);
        for width in [self.name, self.heat] {
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
        line.gap(self.gap).right(&self.memory_text(used, total), self.memory, Tone::Plain)
    }

    fn power(
        &self,
        line: Line,
        drawn: Option<crate::model::Watts>,
        limit: Option<crate::model::Watts>,
    ) -> Line {
        if self.power == 0 {
            return line;
        }
        let write = |watts: Option<crate::model::Watts>| {
            or_unknown(watts, |watts| format!("{:.0}", watts.get()))
        };
        let text = match (drawn, limit) {
            (None, None) => UNKNOWN.to_owned(),
            (drawn, limit) => format!("{}/{}", write(drawn), write(limit)),
        };
        line.gap(self.gap).right(&text, self.power, Tone::Plain)
    }

    fn memory_text(&self, used: Option<Bytes>, total: Option<Bytes>) -> String {
        if used.is_none() && total.is_none() {
            return UNKNOWN.to_owned();
        }
        if !self.is_mebibytes {
            return memory_pair(used, total, 1);
        }
        let write = |bytes: Option<Bytes>| or_unknown(bytes, |bytes| bytes.mib().to_string());
        format!("{}/{}", write(used), write(total))
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

/// Returns a device's model without the maker's name; a slice is set in.
pub(crate) fn name(device: &Device, is_indented: bool) -> String {
    let name = device.name.known().map_or(UNKNOWN, |name| name.trim_start_matches("NVIDIA "));
    let indent = if is_indented && device.parent.is_some() { " " } else { "" };
    format!("{indent}{name}")
}

/// Returns what one device is, and what it does not tell and why.
pub(crate) fn detail(node: &Node, device: &Device) -> Line {
    let mut line = Line::of(format!("{} ", label(node, device)), Tone::Strong)
        .text(format!(" {}", name(device, false)), Tone::Plain);
    let tpu = device.tpu.as_deref();
    let known = [
        Some(device.uuid.to_string()),
        device.pci.known().map(|pci| format!("pci {pci}")),
        device.performance_state.get().map(|state| format!("P{state}")),
        device.fan.get().map(|fan| format!("fan {:.0}%", fan.get())),
        device.memory_temperature.get().map(|heat| format!("memory {:.0}°", heat.get())),
        device.pcie.get().map(|(generation, lanes)| format!("PCIe {generation}x{lanes}")),
        tpu.and_then(|tpu| tpu.nodes.known()).map(ToString::to_string),
        tpu.and_then(|tpu| tpu.metrics_fault.known())
            .filter(|words| &***words != "none")
            .map(ToString::to_string),
    ];
    for word in known.into_iter().flatten() {
        line = line.text(format!("  {word}"), Tone::Faint);
    }
    for (words, reason) in unknowns(device) {
        line = line.text(format!("  {words}: {reason}"), Tone::Faint);
    }
    line
}

/// Names the values of the table that are not known, alike reasons together.
fn unknowns(device: &Device) -> Vec<(String, &'static str)> {
    let reasons = [
        ("util", device.utilization.reason()),
        ("memory", device.memory_used.reason().or(device.memory_total.reason())),
        ("temp", device.temperature.reason()),
        ("power", device.power.reason()),
        ("limit", device.power_limit.reason()),
        ("clocks", device.sm_clock.reason()),
    ];
    let mut grouped: Vec<(String, &'static str)> = Vec::new();
    for (word, reason) in reasons {
        let Some(reason) = reason.map(crate::model::Reason::text) else { continue };
        match grouped.iter_mut().find(|(_, known)| *known == reason) {
            Some((words, _)) => *words = format!("{words}, {word}"),
            None => grouped.push((word.to_owned(), reason)),
        }
    }
    grouped
}
