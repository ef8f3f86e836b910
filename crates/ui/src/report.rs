//! The printed report: one node in full, or one line per node and the problems below.

use std::collections::{BTreeMap, BTreeSet};

use crate::header;
use crate::node_panel::panel;
use crate::render_context::RenderContext;
use crate::widgets::line::{Line, Tone, wrap};
use crate::widgets::number_format::percent_value;
use crate::widgets::table::{Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::advice;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::{NodeStatus, notes};
use gtop_fleet::{Node, Totals};
use gtop_local::text::{UNKNOWN, width_of};
use gtop_local::time::format_age;
use gtop_model::nodeset;
use gtop_model::{Link, Percent};

/// Returns the whole report; no line is wider than `width`.
pub fn report(context: RenderContext<'_>, title: &str, width: u16) -> Vec<Line> {
    let fleet_view = context.view;
    let mut lines = header::report_lines(context, title, width);
    let mut nodes = fleet_view.nodes();
    match (nodes.next(), nodes.next()) {
        (None, _) => lines.push(Line::styled("no nodes to watch", Tone::Faint).truncated(width)),
        (Some(only), None) => {
            let node = context.options.selection.filter_node(only);
            lines.extend(panel::report(context, &node, width));
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

/// The least width of a note on the line of its node.
const MIN_NOTE_WIDTH: u16 = 22;

/// What cells are drawn from, apart from their node.
struct ReportTable<'a> {
    context: RenderContext<'a>,
    name_width: u16,
    memory_width: u16,
    users_width: u16,
    /// The note is on the same line as the values.
    has_note: bool,
}

/// A node with what several of its cells show.
struct ReportedNode<'a> {
    node: &'a Node,
    status: NodeStatus,
    totals: Totals,
    note: Line,
}

type ReportColumn<'a> = TableColumn<ReportTable<'a>, ReportedNode<'a>>;

impl<'a> ReportTable<'a> {
    const COLUMNS: [ReportColumn<'a>; 11] = [
        // Names are never cut: readers search for them.
        ReportColumn::left("NODE", 0, |_, row, _| {
            let tone = if row.status == NodeStatus::Down { Tone::Bad } else { Tone::Strong };
            Cell::toned(row.node.name.to_string(), tone)
        })
        .sized(|table, _| table.name_width),
        ReportColumn::right("DEV", 3, |_, row, _| row.of_devices(row.totals.devices)).rank(1),
        ReportColumn::right("FREE", 4, |table, row, _| {
            let now = Totals::of_nodes([row.node], table.context.view.now);
            if now.fresh > 0 { row.of_devices(now.free) } else { UNKNOWN.into() }
        })
        .rank(2),
        ReportColumn::left("UTIL", 10, |table, row, _| {
            let util = row.utilization();
            Cell::Bar(util, table.context.options.load.tone(util))
        })
        .rank(4),
        ReportColumn::right("%", 4, |_, row, _| Cell::percent(row.utilization())),
        ReportColumn::right("", 0, |table, row, _| {
            table.context.options.units().marked_usage(row.totals.shown_memory()).into()
        })
        .sized(|table, _| table.memory_width)
        .rank(3)
        .titled(|table, _| table.context.options.units().unit_name().into()),
        ReportColumn::right("W", 11, |_, row, _| {
            Cell::of(row.totals.power, |drawn| {
                let limit = row.totals.power_limit;
                let limit = limit.map_or_else(String::new, |limit| format!("/{:.0}", limit.get()));
                format!("{:.0}{limit}", drawn.get())
            })
        })
        .rank(5),
        ReportColumn::right("CPU", 4, |_, row, _| {
            Cell::of(percent_value(row.node.host.cpu), |cpu| format!("{cpu:.0}%"))
        })
        .rank(7),
        ReportColumn::right("AGE", 6, |table, row, _| {
            let now = table.context.view.now;
            Cell::of(row.node.taken_at(), |taken_at| format_age(now.since(taken_at)))
        })
        .rank(6),
        ReportColumn::left("USERS", 0, |_, row, _| users(row.node).into())
            .sized(|table, _| table.users_width)
            .shown_from(100)
            .rank(8),
        ReportColumn::rest("NOTE", 0, |_, row, _| Cell::Line(row.note.clone()))
            .sized(|table, _| if table.has_note { MIN_NOTE_WIDTH } else { 0 })
            .keeps_tone(),
    ];

    fn laid_out(context: RenderContext<'a>, width: u16) -> Table<'a, Self, ReportedNode<'a>> {
        let memory = context.view.nodes().map(|node| {
            let ((_, total), is_host) = Totals::of_devices(node).shown_memory();
            width_of(&context.options.units().marked_usage(((total, total), is_host)))
        });
        let users = context.view.nodes().map(|node| width_of(&users(node)));
        let name_width = context.view.extents.name.max(4);
        let table = Self {
            context,
            name_width,
            memory_width: memory.fold(7, u16::max),
            users_width: users.fold(5, u16::max).min(20),
            has_note: width >= name_width + 10 + MIN_NOTE_WIDTH,
        };
        Table::fit(&Self::COLUMNS, table, &[], TableRoom::new(width, 0, 2))
    }
}

impl<'a> ReportedNode<'a> {
    fn of(fleet_view: &FleetView, node: &'a Node) -> Self {
        // A printed report omits the time of the next attempt.
        let told = match node.fault() {
            Some(fault) => Line::styled(fault.message(), Tone::Bad),
            None => Line::of_node(&notes(fleet_view, node)),
        };
        let status = NodeStatus::of(node, fleet_view.now);
        Self { node, status, totals: Totals::of_devices(node), note: told }
    }

    /// Makes a cell of a number that is unknown if the node has reported no devices.
    fn of_devices(&self, number: usize) -> Cell {
        if self.node.devices.is_empty() { UNKNOWN.into() } else { number.to_string().into() }
    }

    fn utilization(&self) -> Option<f32> {
        self.totals.utilization.map(Percent::get)
    }

    fn lines(self, table: &Table<'_, ReportTable<'a>, Self>) -> Vec<Line> {
        let has_values = self.node.link == Link::Up || self.node.taken_at().is_some();
        let is_old = !self.status.is_fresh() && has_values;
        let line = table.row(Line::new(), &self, Fade::if_old(is_old));
        // Next to a very long name there is no room for the note.
        if table.context.has_note || self.note.width() == 0 {
            return vec![line];
        }
        vec![line, Line::new().gap(2).append(self.note)]
    }
}

/// Returns the users of the devices of a node.
fn users(node: &Node) -> String {
    let processes = node.uses.iter().filter_map(|used| node.process(used.pid));
    let users = processes.filter_map(|process| process.statics.user.known());
    let users: BTreeSet<&str> = users.map(|user| &**user).collect();
    if users.is_empty() {
        return UNKNOWN.to_owned();
    }
    users.into_iter().collect::<Vec<_>>().join(" ")
}

fn table(context: RenderContext<'_>, width: u16) -> Vec<Line> {
    let table = ReportTable::laid_out(context, width);
    let selection = &context.options.selection;
    let nodes: Vec<_> = context.view.nodes().map(|node| selection.filter_node(node)).collect();
    let rows = nodes.iter().flat_map(|node| ReportedNode::of(context.view, node).lines(&table));
    std::iter::once(table.titles()).chain(rows).map(|line| line.truncated(width)).collect()
}

/// Returns the problems in full, wrapped.
fn problem_paragraphs(fleet_view: &FleetView, width: u16) -> Vec<Line> {
    let lines = fleet_view.problems.iter().flat_map(|problem| {
        let text = format!("{}: {}", problem.nodes, problem.sentence());
        paragraph(problem.severity.into(), &text, &problem.remedy(), width)
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
            NodeStatus::Down | NodeStatus::Reported => continue,
        };
        by_state.entry(state).or_default().push(node.name.label());
    }
    let lines = by_state.into_iter().flat_map(|(state, nodes)| {
        let text = format!("{}: {state}", nodeset::fold(nodes));
        paragraph(Tone::Warn, &text, advice::source::LATE, width)
    });
    lines.collect()
}

/// Wraps a message and its remedy, after an empty line.
fn paragraph(tone: Tone, text: &str, remedy: &str, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::new()];
    let symbol = if tone == Tone::Bad { "✗ " } else { "! " };
    for (symbol, tone, text) in [(symbol, tone, text), ("→ ", Tone::Plain, remedy)] {
        let mut mark = symbol;
        for part in wrap(text, width.saturating_sub(2), panel::MAX_TEXT_LINES) {
            lines.push(Line::styled(mark, tone).text(part, tone).truncated(width));
            mark = "  ";
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use gtop_fleet::Fleet;
    use gtop_local::time::Timestamp;
    use gtop_model::{Fault, FaultKind, NodeName};

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
