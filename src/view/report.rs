//! The printed report: one node in full, or one line per node and the problems below.

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::{AllocatedDevices, Node, Totals};
use crate::model::{Link, Percent};
use crate::nodeset;
use crate::time::age;
use crate::view::RenderContext;
use crate::view::fleet_view::FleetView;
use crate::view::header;
use crate::view::line::{Line, Tone, UNKNOWN, width_of};
use crate::view::node::panel;
use crate::view::node_status::{NodeStatus, notes};
use crate::view::number_format::{Units, percent, share};

/// Returns the whole report; no line is wider than `width`.
pub fn printed(context: RenderContext<'_>, title: &str, width: u16) -> Vec<Line> {
    let fleet_view = context.view;
    let mut lines = header::printed(context, title, width);
    let mut nodes = fleet_view.nodes();
    match (nodes.next(), nodes.next()) {
        (None, _) => lines.push(Line::styled("no nodes to watch", Tone::Faint).truncated(width)),
        (Some(only), None) => {
            lines.extend(panel::report(context, &context.options.filter_node(only), width));
        }
        (Some(_), Some(_)) => {
            lines.push(Line::new());
            lines.extend(table(context, width));
            lines.extend(troubles(fleet_view, width));
            lines.extend(unheard(fleet_view, width));
        }
    }
    lines
}

/// The minimum width of the note column.
const NOTE: u16 = 24;

/// Column widths; 0 if a column is hidden.
struct Columns {
    units: Units,
    name: u16,
    devices: u16,
    free: u16,
    bar: u16,
    memory: u16,
    power: u16,
    cpu: u16,
    users: u16,
    age: u16,
    /// The note is on the same line as the values.
    has_note: bool,
}

impl Columns {
    /// Names are never cut: readers search for them.
    fn fit(context: RenderContext<'_>, width: u16) -> Self {
        let fleet_view = context.view;
        let units = Units::of(context.options);
        let widest = |text: &dyn Fn(&Node) -> String| {
            fleet_view.nodes().map(|node| width_of(&text(node))).max().unwrap_or(0)
        };
        let name = fleet_view.extents.name.max(4);
        let has_note = width >= name + 8 + NOTE;
        let mut room = width.saturating_sub(name + 6 + if has_note { NOTE } else { 0 });
        let mut take = |wanted: u16| {
            let fits = room >= wanted + 2;
            room -= if fits { wanted + 2 } else { 0 };
            if fits { wanted } else { 0 }
        };
        let amount = |node: &Node| {
            let totals = Totals::of_devices(node);
            units.pair(totals.memory_total, totals.memory_total)
        };
        let devices = take(3);
        let free = take(4);
        let memory = take(widest(&amount).max(7));
        let bar = take(10);
        let power = take(11);
        let age = take(6);
        let cpu = take(4);
        let users = if width >= 100 { take(widest(&|node| users(node)).clamp(5, 20)) } else { 0 };
        Self { units, name, devices, free, bar, memory, power, cpu, users, age, has_note }
    }

    fn titles(&self) -> Line {
        let columns = [
            ("DEV", self.devices, true),
            ("FREE", self.free, true),
            ("UTIL", self.bar, false),
            ("%", 4, true),
            (self.units.word(), self.memory, true),
            ("W", self.power, true),
            ("CPU", self.cpu, true),
            ("AGE", self.age, true),
            ("USERS", self.users, false),
        ];
        let line = Line::new().left_aligned("NODE", self.name, Tone::Faint);
        let line = columns.into_iter().filter(|(_, width, _)| *width > 0).fold(
            line,
            |line, (word, width, is_right)| {
                let line = line.gap(2);
                if is_right {
                    line.right_aligned(word, width, Tone::Faint)
                } else {
                    line.left_aligned(word, width, Tone::Faint)
                }
            },
        );
        if self.has_note { line.gap(2).text("NOTE", Tone::Faint) } else { line }
    }

    fn row(&self, context: RenderContext<'_>, given: &AllocatedDevices, node: &Node) -> Vec<Line> {
        let fleet_view = context.view;
        let standing = NodeStatus::of(node, fleet_view.now);
        let totals = Totals::of_devices(node);
        let util = totals.utilization.map(Percent::get);
        let name = if standing == NodeStatus::Down { Tone::Bad } else { Tone::Strong };
        let mut line = Line::new().left_aligned(node.name.as_str(), self.name, name);
        let right = |line: Line, text: &str, width: u16| {
            if width == 0 { line } else { line.gap(2).right_aligned(text, width, Tone::Plain) }
        };
        let count =
            if node.devices.is_empty() { UNKNOWN.to_owned() } else { totals.devices.to_string() };
        line = right(line, &count, self.devices);
        let now = Totals::of_nodes([node], fleet_view.now, given);
        let is_told = now.fresh > 0 && !node.devices.is_empty();
        let free = if is_told { now.free.to_string() } else { UNKNOWN.to_owned() };
        line = right(line, &free, self.free);
        if self.bar > 0 {
            line = line.gap(2).bar(util, self.bar, context.options.load.tone(util));
        }
        line = right(line, &percent(util), 4);
        line = right(line, &self.units.pair(totals.memory_used, totals.memory_total), self.memory);
        let watts = totals.power.zip(totals.power_limit).map_or_else(
            || UNKNOWN.to_owned(),
            |(drawn, limit)| format!("{:.0}/{:.0}", drawn.get(), limit.get()),
        );
        line = right(line, &watts, self.power);
        let cpu =
            share(node.host.cpu).map_or_else(|| UNKNOWN.to_owned(), |cpu| format!("{cpu:.0}%"));
        line = right(line, &cpu, self.cpu);
        let old = node
            .taken_at()
            .map_or_else(|| UNKNOWN.to_owned(), |taken_at| age(fleet_view.now.since(taken_at)));
        line = right(line, &old, self.age);
        if self.users > 0 {
            line = line.gap(2).left_aligned(&users(node), self.users, Tone::Plain);
        }
        let line = if standing.is_fresh() || node.link != Link::Up && node.taken_at().is_none() {
            line
        } else {
            line.dimmed()
        };
        // A printed report omits the time of the next attempt.
        let noted = match node.fault() {
            Some(fault) => vec![(fault.message(), Tone::Bad)],
            None => notes(fleet_view, node),
        };
        let mut said = Line::new();
        for (place, (words, tone)) in noted.into_iter().enumerate() {
            said = said.text(if place > 0 { " · " } else { "" }, Tone::Faint).text(words, tone);
        }
        // Next to a very long name there is no room for the note.
        if self.has_note || said.width() == 0 {
            return vec![line.gap(2).append(said)];
        }
        vec![line, Line::new().gap(2).append(said)]
    }
}

/// Returns the users of the devices of a node.
fn users(node: &Node) -> String {
    let owner = |pid| Some(node.process(pid)?.statics.user.known()?.to_string());
    let users: BTreeSet<String> = node.uses.iter().filter_map(|used| owner(used.pid)).collect();
    if users.is_empty() {
        return UNKNOWN.to_owned();
    }
    users.into_iter().collect::<Vec<_>>().join(" ")
}

fn table(context: RenderContext<'_>, width: u16) -> Vec<Line> {
    let columns = Columns::fit(context, width);
    let given = AllocatedDevices::of(&context.view.fleet);
    let nodes = context.view.nodes();
    let rows =
        nodes.flat_map(|node| columns.row(context, &given, &context.options.filter_node(node)));
    std::iter::once(columns.titles()).chain(rows).map(|line| line.truncated(width)).collect()
}

/// Returns the problems in full, wrapped.
fn troubles(fleet_view: &FleetView, width: u16) -> Vec<Line> {
    let told = fleet_view.problems.iter().flat_map(|trouble| {
        let words = format!("{}: {}", trouble.nodes, trouble.sentence);
        paragraph(trouble.tone, &words, trouble.remedy, width)
    });
    told.collect()
}

/// Lists the nodes that are not down and have not sent a sample yet.
fn unheard(fleet_view: &FleetView, width: u16) -> Vec<Line> {
    let mut alike: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in fleet_view.nodes().filter(|node| node.taken_at().is_none()) {
        let what = match NodeStatus::of(node, fleet_view.now) {
            NodeStatus::Waiting => "waiting to connect",
            NodeStatus::Opening(_) => "no answer yet",
            NodeStatus::Starting | NodeStatus::Fresh | NodeStatus::Stale(_) => {
                "no sample from the probe yet"
            }
            NodeStatus::Down => continue,
        };
        alike.entry(what).or_default().push(node.name.label());
    }
    let remedy = "--deadline SECONDS waits longer; gtop doctor HOST says why";
    let told = alike.into_iter().flat_map(|(what, nodes)| {
        paragraph(Tone::Warn, &format!("{}: {what}", nodeset::fold(nodes)), remedy, width)
    });
    told.collect()
}

/// Wraps a message and its remedy, after an empty line.
fn paragraph(tone: Tone, words: &str, remedy: &str, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::new()];
    let sign = if tone == Tone::Bad { "✗ " } else { "! " };
    for (sign, tone, words) in [(sign, tone, words), ("→ ", Tone::Plain, remedy)] {
        let parts = panel::wrap(words, width.saturating_sub(2)).into_iter().enumerate();
        lines.extend(parts.map(|(place, part)| {
            Line::styled(if place == 0 { sign } else { "  " }, tone)
                .text(part, tone)
                .truncated(width)
        }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::fleet::Fleet;
    use crate::model::{Fault, FaultKind, NodeName};
    use crate::time::Timestamp;

    #[test]
    fn nodes_that_have_said_nothing_are_named_with_what_they_are_at() {
        let node = |name: &str, link: Link| {
            Arc::new(Node { link, ..Node::new(NodeName::new(name).unwrap(), Duration::ZERO) })
        };
        let nodes = [
            node("gpu01", Link::Opening { attempt: 1 }),
            node("gpu02", Link::Opening { attempt: 3 }),
            node("gpu03", Link::Up),
            node("gpu04", Link::Idle),
            // Listed with its fault instead.
            node("gpu05", Link::Down { fault: Fault::new(FaultKind::Silent, ""), retry_at: None }),
        ];
        let fleet_view = FleetView::new(Fleet::new(nodes.into()), Timestamp::default());
        let told: Vec<String> = unheard(&fleet_view, 200).iter().map(Line::plain_text).collect();
        let told: Vec<&str> = told.iter().map(|line| line.trim()).collect();
        let remedy = "→ --deadline SECONDS waits longer; gtop doctor HOST says why";
        assert_eq!(
            told,
            [
                "",
                "! gpu[01-02]: no answer yet",
                remedy,
                "",
                "! gpu03: no sample from the probe yet",
                remedy,
                "",
                "! gpu04: waiting to connect",
                remedy,
            ]
        );
    }
}
