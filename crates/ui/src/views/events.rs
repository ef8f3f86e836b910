//! The events view: events of all nodes, newest first.

use std::sync::Arc;

use crate::action::RowAction;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::explain;
use crate::render_context::{RenderContext, Size};
use crate::timeline::time_or_date;
use crate::view_state::{Explained, Shared, UnfoldingList, ViewState};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::{Explanation, Remark};
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{ListCursor, Movement, Viewport};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::insight::{FleetView, RowId, Severity};
use gtop_local::time::{Timestamp, format_age};
use gtop_model::{Mark, NodeName};

use gtop_fleet::insight::events::changes::{self, EventSummary, ObservedEvent};
use gtop_fleet::insight::events::event_log::EventLog;
use gtop_fleet::insight::events::rows::{DeviceEvents, EventRow, EventRows};

/// The view's cursor, scroll position and log of noticed events.
#[derive(Clone, Debug, Default)]
pub struct State {
    log: EventLog,
    /// The log has the marks of a recording up to this time.
    marked_until: Option<Timestamp>,
    /// The event whose occurrences are unfolded.
    unfolded: Option<EventSummary>,
    cursor: ListCursor<EventIdentity>,
    rows: Arc<EventRows>,
    rows_key: Option<EventRowKey>,
}

/// What the rows were made from: device events, version of the log, unfolded event.
type EventRowKey = (Arc<DeviceEvents>, u64, Option<EventSummary>);

/// Identifies a row independently of its position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EventIdentity {
    summary: EventSummary,
    /// The node and device of an unfolded occurrence; `None` for the row of the whole group.
    occurrence: Option<(NodeName, Option<Arc<str>>)>,
}

impl ViewState for State {
    /// Updates the rows, cached until the snapshot, the log or the unfolded event changes.
    fn refresh(&mut self, context: RenderContext<'_>, _: &mut Shared) {
        let device_events = context.view.device_events();
        let is_same = self.rows_key.as_ref().is_some_and(|(known, version, unfolded)| {
            Arc::ptr_eq(known, device_events)
                && (*version, unfolded) == (self.log.version, &self.unfolded)
        });
        if !is_same {
            let unfolded = self.unfolded.clone();
            let rows = EventRows::of(context.view, device_events, &self.log, unfolded.as_ref());
            self.rows = Arc::new(rows);
            self.rows_key = Some((Arc::clone(device_events), self.log.version, unfolded));
        }
        self.cursor.follow(&self.rows.list, has_identity);
    }

    fn update(&mut self, context: RenderContext<'_>, _: &mut Shared, action: &RowAction) -> Effect {
        self.update_rows(context, action)
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        vec![("Columns of events", table::specs(&EventTable::COLUMNS).to_vec())]
    }

    /// Explains the event of the row, and its node as it is now.
    fn explain(&mut self, context: RenderContext<'_>, _: &Shared) -> Explained {
        let at = self.position(context);
        let rows = &self.rows;
        let row = rows.list.get(at).ok_or("no events so far")?;
        // New events above it move the explained one down, and the cursor with it.
        self.cursor.select(at, Some(identity(row)));
        let table = EventTable::laid_out(context, rows, self.unfolded.as_ref(), u16::MAX);
        let text = &*row.summary.text;
        let remark = Remark {
            note: if row.nodes.is_empty() { text.to_owned() } else { format!("on {}", row.nodes) },
            tone: row.summary.severity.into(),
            meaning: row.summary.meaning.to_string(),
            remedy: row.remedy(),
        };
        let event = Explanation::new(format!("event: {text}")).with_remarks([remark]).with_numbers(
            "numbers of the row",
            None,
            table.facts(row),
        );
        let node = row.target.as_ref().and_then(|(node, _)| context.view.fleet.node(node));
        Ok(match node {
            Some(node) => event.followed_by(explain::node_alone(context, node)),
            None => event,
        })
    }

    fn lines(&self, context: RenderContext<'_>, _: &Shared, size: Size) -> DrawnView {
        let (width, height) = size;
        let rows = &self.rows;
        if rows.list.is_empty() {
            return empty_lines(context.view, width, height).into();
        }
        let cursor = self.position(context);
        let table = EventTable::laid_out(context, rows, self.unfolded.as_ref(), width);
        let (lines, list) = self.cursor.viewport.lines(
            (height > 1).then(|| table.titles()),
            (rows.list.len(), Some(cursor)),
            (width, height),
            |at| {
                let row = rows.list.get(at)?;
                Some(table.row(mark(row), row, Fade::None).clickable_line(Click::Row(at)))
            },
        );
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }

    fn viewport(&mut self) -> Option<&mut Viewport> {
        Some(&mut self.cursor.viewport)
    }
}

fn observed(mark: &Mark) -> ObservedEvent {
    let summary = EventSummary::plain(mark.severity, Arc::clone(&mark.event));
    ObservedEvent {
        at: mark.at,
        kind: mark.kind,
        nodes: mark.nodes.to_vec(),
        device: mark.device.clone(),
        summary: summary.explained(mark.meaning.to_string(), mark.remedy.to_string()),
    }
}

fn identity(row: &EventRow) -> EventIdentity {
    let part = if row.is_detail { row.target.clone() } else { None };
    EventIdentity { summary: row.summary.clone(), occurrence: part }
}

fn has_identity(row: &EventRow, key: &EventIdentity) -> bool {
    identity(row) == *key
}

impl UnfoldingList for State {
    fn count(&self) -> usize {
        self.rows.list.len()
    }

    /// Returns the position of the selected row. If it is gone, falls back to its group, then row 0.
    fn position(&self, _: RenderContext<'_>) -> usize {
        let rows = &self.rows.list;
        let selected = self.cursor.find(rows, has_identity).or_else(|| {
            let key = self.cursor.key()?;
            rows.iter().position(|row| row.summary == key.summary)
        });
        selected.unwrap_or(0)
    }

    fn select(&mut self, _: RenderContext<'_>, row: usize) {
        // The cursor on the first row stays there when new events arrive above it.
        let key = self.rows.list.get(row).filter(|_| row > 0).map(identity);
        self.cursor.select(row, key);
    }

    /// Opens the node of the row, or unfolds the row.
    fn open(&mut self, context: RenderContext<'_>) -> Effect {
        let at = self.position(context);
        let Some(row) = self.rows.list.get(at) else { return Effect::Ignored };
        let Some((node, device)) = &row.target else {
            let is_open = self.unfolded.as_ref() == Some(&row.summary);
            self.unfolded = (!is_open).then(|| row.summary.clone());
            self.cursor.select(0, Some(identity(row)));
            return Effect::Handled;
        };
        if context.view.fleet.node(node).is_none() {
            return Effect::Message(format!("{node} is no longer monitored"));
        }
        Effect::OpenNode(node.clone(), device.clone().map(RowId::Device))
    }

    fn fold(&mut self) -> bool {
        let Some(summary) = self.unfolded.take() else { return false };
        self.cursor.select(0, Some(EventIdentity { summary, occurrence: None }));
        true
    }

    fn moved(&self, movement: Movement, count: usize, selected: usize) -> usize {
        self.cursor.moved(movement, count, Some(selected))
    }
}

impl State {
    /// Logs the events between two snapshots.
    pub(crate) fn record_changes(&mut self, before: &FleetView, after: &FleetView) {
        self.log.add(changes::events_between(before, after));
    }

    /// Logs the marks of a recording up to a time, and no others; those of devices are events of the nodes already.
    pub(crate) fn show_marks(&mut self, marks: &[Mark], until: Timestamp) {
        let before = self.marked_until.replace(until).filter(|before| *before <= until);
        if before.is_none() {
            self.log.clear();
        }
        let first = before.map_or(0, |before| marks.partition_point(|mark| mark.at <= before));
        let last = marks.partition_point(|mark| mark.at <= until);
        let new = marks.get(first..last).unwrap_or_default().iter();
        self.log.add(new.filter(|mark| !mark.is_device_event()).map(observed).collect());
    }
}

fn empty_lines(fleet_view: &FleetView, width: u16, height: usize) -> Vec<Line> {
    let first = if fleet_view.filter.is_empty() {
        "no events so far"
    } else {
        "no events on nodes that match the filter"
    };
    [first, "shown here: faults, memory errors, throttling, lost nodes, jobs started and ended"]
        .into_iter()
        .map(|line| Line::styled(line, Tone::Faint).truncated(width))
        .take(height)
        .collect()
}

/// What cells are drawn from, apart from their row.
struct EventTable<'a> {
    context: RenderContext<'a>,
    unfolded: Option<&'a EventSummary>,
    /// Widths of the nodes and the devices.
    widths: (u16, u16),
}

type Column<'a> = TableColumn<EventTable<'a>, EventRow>;

impl<'a> EventTable<'a> {
    const COLUMNS: [Column<'a>; 6] = [
        Column::left("TIME", 8, |table, row, _| {
            time_or_date(row.at, table.context.view.now, table.context.zone).into()
        })
        .named("time", "", "when it happened last: time of day, or the date if not today")
        .rank(4),
        Column::right("AGE", 6, |table, row, _| {
            Cell::toned(format_age(table.context.view.now.since(row.at)), Tone::Faint)
        })
        .named("age", "", "how long ago it happened last")
        .rank(1),
        Column::left("NODES", 0, |_, row, place| {
            let inset = if row.is_detail { 2 } else { 0 };
            let room = place.width.saturating_sub(inset);
            Cell::Line(Line::new().gap(inset).left_aligned(&row.nodes, room, Tone::Strong))
        })
        .named("nodes", "", "the nodes concerned, as a node set")
        .sized(|table, _| table.widths.0),
        Column::left("DEV", 0, |_, row, _| row.devices.clone().into())
            .named("dev", "", "the devices concerned, by their numbers")
            .sized(|table, _| table.widths.1)
            .rank(2),
        Column::right("TIMES", 6, |_, row, _| match row.count {
            0 | 1 => "".into(),
            2..=9_999 => format!("×{}", row.count).into(),
            _ => "many".into(),
        })
        .named("times", "", "how often it happened")
        .rank(3),
        Column::rest("WHAT", 23, |table, row, _| Cell::Line(table.what(row))).named(
            "what",
            "",
            "what happened; + unfolds its occurrences",
        ),
    ];

    /// Lays out the table in `width`; the text of the event needs the most of it.
    fn laid_out(
        context: RenderContext<'a>,
        rows: &EventRows,
        unfolded: Option<&'a EventSummary>,
        width: u16,
    ) -> Table<'a, Self, EventRow> {
        let (nodes, devices) = rows.widths;
        let widths = (nodes.clamp(5, (width / 4).clamp(5, 32)), devices.clamp(3, 8));
        let table = Self { context, unfolded, widths };
        Table::fit(&Self::COLUMNS, table, &[], TableRoom::new(width, 2, 1))
    }

    fn what(&self, row: &EventRow) -> Line {
        if row.is_detail {
            return Line::styled(&*row.detail, Tone::Faint);
        }
        let tone = match row.summary.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Warn,
            Severity::Notice | Severity::Recovery | Severity::Info => Tone::Plain,
        };
        let mut line = Line::styled(&*row.summary.text, tone);
        if !row.detail.is_empty() {
            line = line.text(format!(" · {}", row.detail), Tone::Faint);
        }
        match &row.target {
            None if self.unfolded == Some(&row.summary) => line.text("  -", Tone::Faint),
            None => line.text("  +", Tone::Faint),
            Some(_) => line,
        }
    }
}

/// Draws the severity of an event in front of its row.
fn mark(row: &EventRow) -> Line {
    let (sign, tone) = match row.summary.severity {
        _ if row.is_detail => (" ", Tone::Plain),
        Severity::Error => ("✗", Tone::Bad),
        Severity::Warning => ("!", Tone::Warn),
        Severity::Recovery => ("·", Tone::Low),
        Severity::Notice | Severity::Info => (" ", Tone::Plain),
    };
    Line::styled(sign, tone).gap(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::MarkKind;

    #[test]
    fn after_a_jump_back_later_marks_are_gone_and_earlier_ones_count_once() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let marks = [(10, "the first"), (20, "the second")]
            .map(|(second, text)| Mark::plain(at(second), MarkKind::Job, text));
        let mut state = State::default();
        let mut shown = |until| {
            state.show_marks(&marks, at(until));
            let entries = state.log.entries().map(|entry| (entry.at, entry.count));
            entries.collect::<Vec<_>>()
        };
        assert_eq!(shown(30), [(at(10), 1), (at(20), 1)]);
        assert_eq!(shown(15), [(at(10), 1)]);
        assert_eq!(shown(25), [(at(10), 1), (at(20), 1)]);
    }
}
