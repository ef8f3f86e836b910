//! The printed report: one node in full, or one line per node and the problems below.

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::{AllocatedDevices, Node, Totals};
use crate::insight::FleetView;
use crate::insight::node_status::{NodeStatus, notes};
use crate::model::{Link, Percent};
use crate::model::{UNKNOWN, width_of};
use crate::nodeset;
use crate::time::format_age;
use crate::ui::RenderContext;
use crate::ui::header;
use crate::ui::node_panel::panel;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{Units, percent, percent_value};

/// Returns the whole report; no line is wider than `width`.
pub fn report(context: RenderContext<'_>, title: &str, width: u16) -> Vec<Line> {
    let fleet_view = context.view;
    let mut lines = header::report_lines(context, title, width);
    let mut nodes = fleet_view.nodes();
    match (nodes.next(), nodes.next()) {
        (None, _) => lines.push(Line::styled("no nodes to watch", Tone::Faint).truncated(width)),
        (Some(only), None) => {
            lines.extend(panel::report(
                context,
                &context.options.selection.filter_node(only),
                width,
            ));
        }
        (Some(_), Some(_)) => {
            lines.push(Line::new());
            lines.extend(table(context, width));
            lines.extend(problem_paragraphs(fleet_view, width));
            lines.extend(unsampled_nodes(fleet_view, width));
        }
    }
    lines
}

/// The minimum width of the note column.
const MIN_NOTE_WIDTH: u16 = 24;

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
        let units = context.options.units();
        let widest = |text: &dyn Fn(&Node) -> String| {
            fleet_view.nodes().map(|node| width_of(&text(node))).max().unwrap_or(0)
        };
        let name = fleet_view.extents.name.max(4);
        let has_note = width >= name + 8 + MIN_NOTE_WIDTH;
        let mut room = width.saturating_sub(name + 6 + if has_note { MIN_NOTE_WIDTH } else { 0 });
        let mut reserve = |wanted: u16| {
            let fits = room >= wanted + 2;
            room -= if fits { wanted + 2 } else { 0 };
            if fits { wanted } else { 0 }
        };
        let amount = |node: &Node| {
            let totals = Totals::of_devices(node);
            units.usage(totals.memory_total, totals.memory_total)
        };
        let devices = reserve(3);
        let free = reserve(4);
        let memory = reserve(widest(&amount).max(7));
        let bar = reserve(10);
        let power = reserve(11);
        let age = reserve(6);
        let cpu = reserve(4);
        let users =
            if width >= 100 { reserve(widest(&|node| users(node)).clamp(5, 20)) } else { 0 };
        Self { units, name, devices, free, bar, memory, power, cpu, users, age, has_note }
    }

    fn titles(&self) -> Line {
        let columns = [
            ("DEV", self.devices, true),
            ("FREE", self.free, true),
            ("UTIL", self.bar, false),
            ("%", 4, true),
            (self.units.unit_name(), self.memory, true),
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

    fn row(
        &self,
        context: RenderContext<'_>,
        allocated: &AllocatedDevices,
        node: &Node,
    ) -> Vec<Line> {
        let fleet_view = context.view;
        let status = NodeStatus::of(node, fleet_view.now);
        let totals = Totals::of_devices(node);
        let util = totals.utilization.map(Percent::get);
        let name = if status == NodeStatus::Down { Tone::Bad } else { Tone::Strong };
        let mut line = Line::new().left_aligned(node.name.as_str(), self.name, name);
        let right = |line: Line, text: &str, width: u16| {
            if width == 0 { line } else { line.gap(2).right_aligned(text, width, Tone::Plain) }
        };
        let count =
            if node.devices.is_empty() { UNKNOWN.to_owned() } else { totals.devices.to_string() };
        line = right(line, &count, self.devices);
        let now = Totals::of_nodes([node], fleet_view.now, allocated);
        let is_known = now.fresh > 0 && !node.devices.is_empty();
        let free = if is_known { now.free.to_string() } else { UNKNOWN.to_owned() };
        line = right(line, &free, self.free);
        if self.bar > 0 {
            line = line.gap(2).bar(util, self.bar, context.options.load.tone(util));
        }
        line = right(line, &percent(util), 4);
        line = right(line, &self.units.usage(totals.memory_used, totals.memory_total), self.memory);
        let watts = totals.power.zip(totals.power_limit).map_or_else(
            || UNKNOWN.to_owned(),
            |(drawn, limit)| format!("{:.0}/{:.0}", drawn.get(), limit.get()),
        );
        line = right(line, &watts, self.power);
        let cpu = percent_value(node.host.cpu)
            .map_or_else(|| UNKNOWN.to_owned(), |cpu| format!("{cpu:.0}%"));
        line = right(line, &cpu, self.cpu);
        let age_text = node.taken_at().map_or_else(
            || UNKNOWN.to_owned(),
            |taken_at| format_age(fleet_view.now.since(taken_at)),
        );
        line = right(line, &age_text, self.age);
        if self.users > 0 {
            line = line.gap(2).left_aligned(&users(node), self.users, Tone::Plain);
        }
        let line = if status.is_fresh() || node.link != Link::Up && node.taken_at().is_none() {
            line
        } else {
            line.dimmed()
        };
        // A printed report omits the time of the next attempt.
        let note_line = match node.fault() {
            Some(fault) => Line::styled(fault.message(), Tone::Bad),
            None => Line::of_notes(&notes(fleet_view, node)),
        };
        // Next to a very long name there is no room for the note.
        if self.has_note || note_line.width() == 0 {
            return vec![line.gap(2).append(note_line)];
        }
        vec![line, Line::new().gap(2).append(note_line)]
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
    let allocated = AllocatedDevices::of(&context.view.fleet);
    let nodes = context.view.nodes();
    let rows = nodes.flat_map(|node| {
        columns.row(context, &allocated, &context.options.selection.filter_node(node))
    });
    std::iter::once(columns.titles()).chain(rows).map(|line| line.truncated(width)).collect()
}

/// Returns the problems in full, wrapped.
fn problem_paragraphs(fleet_view: &FleetView, width: u16) -> Vec<Line> {
    let lines = fleet_view.problems.iter().flat_map(|problem| {
        let text = format!("{}: {}", problem.nodes, problem.sentence);
        paragraph(problem.severity.into(), &text, problem.remedy, width)
    });
    lines.collect()
}

/// Lists the nodes that are not down and have not sent a sample yet.
fn unsampled_nodes(fleet_view: &FleetView, width: u16) -> Vec<Line> {
    let mut by_state: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in fleet_view.nodes().filter(|node| node.taken_at().is_none()) {
        let state = match NodeStatus::of(node, fleet_view.now) {
            NodeStatus::Waiting => "waiting to connect",
            NodeStatus::Opening(_) => "no answer yet",
            NodeStatus::Starting | NodeStatus::Fresh | NodeStatus::Stale(_) => {
                "no sample from the probe yet"
            }
            NodeStatus::Down => continue,
        };
        by_state.entry(state).or_default().push(node.name.label());
    }
    let remedy = "--deadline SECONDS waits longer; gtop doctor HOST says why";
    let lines = by_state.into_iter().flat_map(|(state, nodes)| {
        paragraph(Tone::Warn, &format!("{}: {state}", nodeset::fold(nodes)), remedy, width)
    });
    lines.collect()
}

/// Wraps a message and its remedy, after an empty line.
fn paragraph(tone: Tone, text: &str, remedy: &str, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::new()];
    let symbol = if tone == Tone::Bad { "✗ " } else { "! " };
    for (symbol, tone, text) in [(symbol, tone, text), ("→ ", Tone::Plain, remedy)] {
        let parts = panel::wrap(text, width.saturating_sub(2)).into_iter().enumerate();
        lines.extend(parts.map(|(index, part)| {
            Line::styled(if index == 0 { symbol } else { "  " }, tone)
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
    fn nodes_without_a_sample_are_listed_with_their_state() {
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
        let texts: Vec<String> =
            unsampled_nodes(&fleet_view, 200).iter().map(Line::plain_text).collect();
        let texts: Vec<&str> = texts.iter().map(|line| line.trim()).collect();
        let remedy = "→ --deadline SECONDS waits longer; gtop doctor HOST says why";
        assert_eq!(
            texts,
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
