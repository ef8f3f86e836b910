//! The node list: one line per node in fixed columns, and one per group header.

use std::sync::Arc;

use crate::input::Click;
use crate::render_context::{RenderContext, Size};
use crate::views::fleet::cells::{CellCache, MapMetric, StaleStyle, is_due};
use crate::views::fleet::column_layout::{
    self, FleetRow, FleetTable, LaidOutFleet, MARK_WIDTH, NodeValues, is_in_front,
};
use crate::views::fleet::group::GroupMember;
use crate::views::fleet::group_header;
use crate::views::fleet::grouped_rows::{GroupedRow, GroupedRows, is_shared};
use crate::views::fleet::grouping::Grouping;
use crate::views::fleet::node_notes::row_notes;
use crate::views::fleet::node_series::{SeriesCache, node_series, series_step};
use crate::views::fleet::state::{MapState, NodeRowCache, State, TableState};
use crate::views::fleet::symbol_map::SymbolMap;
use crate::widgets::line::{Line, Tone};
use crate::widgets::table::Fade;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::{NodeStatus, node_advice};
use gtop_fleet::insight::note::Note;
use gtop_fleet::{Node, Totals};
use gtop_local::text::{counted, width_of};
use gtop_local::time::{Timestamp, format_age};

/// From this width, the note of a down node fits next to its last values.
const WIDE_NOTE_WIDTH: u16 = 40;
/// Above this height, a line below the groups counts the nodes that are in several.
const MIN_FOOTER_HEIGHT: usize = 4;
/// With more visible rows, sparklines change only when a step is complete, and rows update in turns, at most
/// `ROWS_PER_SECOND` each second: remote terminals cannot redraw more.
const MAX_LIVE_ROWS: usize = 20;
const ROWS_PER_SECOND: usize = 24;

/// Scrolls to the selected row, and computes the values and the totals of the visible ones in a table of this size.
pub(super) fn prepare(context: RenderContext<'_>, state: &mut State, (width, height): Size) {
    let at = state.cursor_row();
    let grouped_by = state.grouped_by();
    let State {
        grouped_rows,
        jobs,
        map,
        table: TableState { viewport, rows: cache, rows_key, series, values },
        ..
    } = state;
    let MapState { cells, symbols, .. } = map;
    let table = FleetTable::laid_out(context, jobs, grouped_by, width);
    let count = grouped_rows.rows.len();
    let around = usize::from(height > 1) + usize::from(shared(grouped_rows, height).is_some());
    let rows = height.saturating_sub(around);
    *viewport = viewport.scrolled_to(rows, count, Some(at));
    cells.refresh(context.view, (MapMetric::Utilization, StaleStyle::Unchanged), 0);
    let visible_rows = rows.min(count);
    let is_long = visible_rows > MAX_LIVE_ROWS;
    let refresh_period = if is_long { visible_rows.div_ceil(ROWS_PER_SECOND).max(2) } else { 1 };
    series.retain(|_, (step, _)| *step >= series_step(context.view.now) - 1);
    let key = (context.view.filter.text().to_owned(), table.shown.clone(), refresh_period);
    if *rows_key != key {
        *rows_key = key;
        cache.clear();
    }
    let now = context.view.now.second();
    cache.retain(|_, (second, _)| {
        usize::try_from(now - *second).is_ok_and(|age| age < refresh_period)
    });
    let mut reader =
        ValueReader { context, table, symbols, cells, series_cache: series, cache, refresh_period };
    let visible = viewport.range(count).map(|row| match *grouped_rows.rows.get(row)? {
        GroupedRow::Header(group) => {
            grouped_rows.sum_up(context.view, group);
            None
        }
        GroupedRow::Nodes(group, member) => {
            let (member, node) = grouped_rows.member(&context.view.fleet, group, member)?;
            node.taken_at()?;
            Some(reader.current_values(&member.matching(context.view, node), node))
        }
    });
    *values = visible.collect();
}

/// Draws the titles and the visible rows in a table of this size.
pub(super) fn lines(context: RenderContext<'_>, state: &State, (width, height): Size) -> Vec<Line> {
    let State { grouped_rows, order, table: TableState { viewport, values, .. }, .. } = state;
    let (table, at) = (laid_out(context, state, width), state.cursor_row());
    let count = grouped_rows.rows.len();
    let mut lines = Vec::with_capacity(height);
    if height > 1 {
        let titles = column_layout::titles(&table, *order);
        lines.push(viewport.with_position(None, titles, count, width));
    }
    for (row, values) in viewport.range(count).zip(values) {
        let line = match grouped_rows.rows.get(row).copied() {
            Some(GroupedRow::Header(group)) => grouped_rows
                .groups
                .get(group)
                .map(|group| group_header::row(context.view, group, &table)),
            Some(GroupedRow::Nodes(group, member)) => grouped_rows
                .member(&context.view.fleet, group, member)
                .map(|(member, node)| line(context.view, &table, (member, node), values.as_ref())),
            None => None,
        };
        let Some(line) = line else { continue };
        lines.push(line.truncated(width).selected(row == at).clickable_line(Click::Row(row)));
    }
    lines.extend(shared(grouped_rows, height).map(|shared| shared_line(&shared, width)));
    lines
}

/// Returns the totals of the nodes that are in several groups, if there is a line for them.
fn shared(grouped_rows: &GroupedRows, height: usize) -> Option<Totals> {
    grouped_rows.shared.filter(|_| height > MIN_FOOTER_HEIGHT)
}

/// Draws the row of a node with these values.
fn line(
    fleet_view: &FleetView,
    table: &LaidOutFleet<'_>,
    (member, node): (&GroupMember, &Node),
    values: Option<&Arc<NodeValues>>,
) -> Line {
    let member = &member.matching(fleet_view, node);
    let status = NodeStatus::of(node, fleet_view.now);
    let notes = row_notes(fleet_view, node, member);
    let mark = status_symbol(status, &notes);
    let gap = table.room.gap;
    let mut row = FleetRow {
        name: node.name.to_string(),
        name_tone: status.into(),
        age_tone: if status.is_fresh() { Tone::Faint } else { Tone::Warn },
        note: Line::of_node_within(&notes, table.width_of("note")),
        ..FleetRow::default()
    };
    if table.context.is_grouped_by(Grouping::Partition) && is_shared(node) {
        "shared".clone_into(&mut row.nodes);
    }
    let Some((values, taken_at)) = values.zip(node.taken_at()) else {
        // Without values, the reason takes the whole line.
        return table
            .part_of_row(..1, mark, &row, Fade::None)
            .gap(gap)
            .append(Line::of_node(&notes));
    };
    let values = Arc::clone(values);
    // Values that are drawn again are older than those of the node.
    row.age = format_age(fleet_view.now.since(values.taken_at.unwrap_or(taken_at)));
    if status == NodeStatus::Down && table.width_of("note") < WIDE_NOTE_WIDTH {
        row.values = Some(values);
        let (front, _) = table.leading(is_in_front);
        let line = table.part_of_row(..front, mark, &row, Fade::All).gap(gap);
        let last = format!(" · last {} ago", row.age);
        return line.append(Line::of_node(&notes)).text(last, Tone::Stale);
    }
    (row.totals, row.counts, row.values) = (values.totals, values.counts, Some(values));
    table.row(mark, &row, Fade::if_old(!status.is_fresh()))
}

pub(super) fn laid_out<'a>(
    context: RenderContext<'a>,
    state: &'a State,
    width: u16,
) -> LaidOutFleet<'a> {
    FleetTable::laid_out(context, &state.jobs, state.grouped_by(), width)
}

/// Returns true if the row of a node shows its notes: in their column, or in place of values.
pub(super) fn has_note(table: &LaidOutFleet<'_>, now: Timestamp, node: &Node) -> bool {
    table.width_of("note") > 0
        || node.taken_at().is_none()
        || NodeStatus::of(node, now) == NodeStatus::Down
}

/// Counts the nodes that are in several groups, so that the groups without them add up to the fleet.
fn shared_line(shared: &Totals, width: u16) -> Line {
    let nodes = counted(shared.nodes, "node");
    let Totals { busy, idle_held, free, .. } = *shared;
    let down = shared.unusable();
    let long = format!(
        "{nodes} counted in several partitions: \
         {busy} busy, {idle_held} idle-held, {free} free, {down} down"
    );
    let usual = format!(
        "{nodes} counted in several partitions: {busy} busy, {idle_held} held, {free} free, {down} down"
    );
    let short = format!("{nodes} counted in several: {free} free");
    let room = width.saturating_sub(MARK_WIDTH);
    let fitting = [long, usual, short.clone()].into_iter().find(|text| width_of(text) <= room);
    let text = fitting.unwrap_or(short);
    Line::new().gap(MARK_WIDTH).text(text, Tone::Faint).truncated(width)
}

/// Reads the values of nodes for one frame.
struct ValueReader<'a> {
    context: RenderContext<'a>,
    table: LaidOutFleet<'a>,
    symbols: &'a SymbolMap,
    cells: &'a mut CellCache,
    series_cache: &'a mut SeriesCache,
    cache: &'a mut NodeRowCache,
    refresh_period: usize,
}

impl ValueReader<'_> {
    /// Returns the values of a node. With many visible rows they update in turns: other rows repeat their last
    /// ones.
    fn current_values(&mut self, member: &GroupMember, node: &Node) -> Arc<NodeValues> {
        let now = self.context.view.now;
        let key = (node.name.clone(), member.devices.clone());
        let is_due_now = is_due(member.node_index, now, self.refresh_period);
        if let Some((_, values)) = self.cache.get(&key).filter(|_| !is_due_now) {
            return Arc::clone(values);
        }
        let values = Arc::new(self.values(member, node));
        if self.refresh_period > 1 {
            self.cache.insert(key, (now.second(), Arc::clone(&values)));
        }
        values
    }

    fn values(&mut self, member: &GroupMember, node: &Node) -> NodeValues {
        let Self { context, table, symbols, cells, series_cache, .. } = self;
        cells.add(*context, (member.node_index, node), symbols);
        let is_calm = self.refresh_period > 1;
        let series = if table.width_of("last") > 0 {
            // What is no longer measured keeps its last values.
            let now = context.view.now;
            let last = node.taken_at().filter(|_| !NodeStatus::of(node, now).is_fresh());
            node_series(series_cache, (member, node), last.unwrap_or(now), is_calm)
        } else {
            Vec::new()
        };
        let counts = (table.width_of("free") > 0)
            .then(|| Totals::of_node_part(node, member.devices.as_deref(), context.view.now));
        let marks = member.unit_cells(node, cells.of(&node.name)).map(|(_, mark)| mark).collect();
        NodeValues { marks, series, ..NodeValues::of(node, member, counts) }
    }
}

/// Draws the worst state of a node as a mark.
fn status_symbol(status: NodeStatus, notes: &[Note]) -> Line {
    let worst = notes.iter().map(|note| Tone::from(note.severity())).max().unwrap_or_default();
    let (symbol, tone) = match (status, worst) {
        (NodeStatus::Down, _) => ("✗", Tone::Bad),
        (_, Tone::Bad) => ("!", Tone::Bad),
        (_, Tone::Warn) => ("!", Tone::Warn),
        (NodeStatus::Waiting | NodeStatus::Opening(_) | NodeStatus::Starting, _) => {
            ("·", Tone::Faint)
        }
        _ => (" ", Tone::Plain),
    };
    Line::styled(symbol, tone).gap(MARK_WIDTH - 1)
}

/// Draws the detail line of the selected node: its fault and remedy, or its properties.
pub(super) fn detail(fleet_view: &FleetView, node: &Node, width: u16) -> Line {
    let title = Line::styled(format!("{}  ", node.name), Tone::Strong);
    let remedy = node_advice(node, fleet_view.reader).first();
    let notes_line = match remedy.as_str() {
        "" => {
            let room = width.saturating_sub(title.width());
            crate::node_panel::panel::node_description(fleet_view, node, room)
        }
        remedy => {
            let notes = row_notes(fleet_view, node, &GroupMember::with_all_devices(0));
            Line::of_node(&notes).text("  → ", Tone::Faint).text(remedy, Tone::Plain)
        }
    };
    title.append(notes_line).truncated(width)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::display_options::DisplayOptions;
    use gtop_fleet::{Fleet, SourceState};
    use gtop_model::{Device, Link, NodeName, Percent, Reading, Source};

    /// Draws the rows of this many nodes, all sampled at a second with a load of as many percent; returns the load and age
    /// of the first one.
    fn first_row(state: &mut State, nodes: usize, second: i64) -> String {
        let at = Timestamp::from_micros(second * 1_000_000);
        let node = |number: usize| {
            let name = NodeName::new(&format!("gpu{number:02}")).unwrap();
            let mut node = Node::new(name, Duration::ZERO);
            node.link = Link::Up;
            node.sources.push(SourceState {
                source: Source::host(),
                taken_at: Some(at),
                interval: Duration::from_secs(1),
                fault: None,
                absent: None,
            });
            node.device_sources = [Source::host()].into();
            let load = f32::from(i16::try_from(second).unwrap());
            let utilization = Reading::checked(Percent::new(load));
            node.devices =
                vec![Device { uuid: "GPU-1".into(), utilization, ..Device::default() }].into();
            Arc::new(node)
        };
        let view = FleetView::new(Fleet::new((0..nodes).map(node).collect()), at);
        let (options, zone) = (DisplayOptions::default(), jiff::tz::TimeZone::UTC);
        state.refresh_rows(&view);
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        prepare(context, state, (80, nodes + 1));
        let row = lines(context, state, (80, nodes + 1))[1].plain_text();
        let mut words = row.split_whitespace();
        let load = words.find(|word| word.parse::<u8>().is_ok()).unwrap_or("no load").to_owned();
        format!("{load} {}", words.next_back().unwrap_or("no age"))
    }

    #[test]
    fn values_that_are_drawn_again_have_their_own_age() {
        let mut state = State::default();
        assert_eq!([42, 43].map(|second| first_row(&mut state, 9, second)), ["42 1s", "43 1s"]);
        // Of many rows, each updates every third second.
        let drawn = [45, 46, 47, 48, 49].map(|second| first_row(&mut state, 60, second));
        assert_eq!(drawn, ["45 1s", "45 1s", "45 2s", "48 1s", "48 1s"]);
        // After a jump nothing is drawn again.
        state.forget_series();
        assert_eq!(first_row(&mut state, 60, 49), "49 1s");
    }
}
