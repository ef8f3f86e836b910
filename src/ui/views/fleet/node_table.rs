//! The node list: one line per node in fixed columns, and one per group header.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{Node, Totals};
use crate::insight::FleetView;
use crate::insight::node_status::{NodeStatus, short_remedy};
use crate::insight::ownership::DeviceOwners;
use crate::model::NodeName;
use crate::time::{Timestamp, format_age};
use crate::ui::RenderContext;
use crate::ui::input::Click;
use crate::ui::views::fleet::State;
use crate::ui::views::fleet::cells::{MapMetric, StaleStyle, is_due};
use crate::ui::views::fleet::column_layout::{ColumnLayout, FleetCell, MARK_WIDTH};
use crate::ui::views::fleet::group::GroupMember;
use crate::ui::views::fleet::group_header;
use crate::ui::views::fleet::grouped_rows::GroupedRow;
use crate::ui::views::fleet::node_cells::NodeCells;
use crate::ui::views::fleet::node_notes::row_notes;
use crate::ui::views::fleet::node_series::series_step;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::list::Viewport;

/// From this width, the note of a down node fits next to its last values.
const WIDE_NOTE_WIDTH: u16 = 40;
/// With more visible rows, sparklines change only when a step is complete, and rows update in turns, at most
/// `ROWS_PER_SECOND` each second: remote terminals cannot redraw more.
const MAX_LIVE_ROWS: usize = 20;
const ROWS_PER_SECOND: usize = 24;

/// The cells drawn last, by node and group devices: the second, and the columns they were laid out for.
pub(super) type NodeRowCache =
    BTreeMap<(NodeName, Option<Arc<[usize]>>), (i64, ColumnLayout, Vec<Line>)>;

/// Draws the titles and the visible rows; `at` is the selected row.
pub(super) fn lines(
    context: RenderContext<'_>,
    state: &mut State,
    viewport: &mut Viewport,
    at: usize,
    (width, height): (u16, usize),
) -> Vec<Line> {
    let mut columns = ColumnLayout::of(
        context.view,
        &context.options.columns.fleet,
        context.options.units(),
        width,
    );
    let count = state.grouped_rows.rows.len();
    let has_title = height > 1;
    let rows = height.saturating_sub(usize::from(has_title));
    viewport.scroll_to(rows, count, Some(at));
    state.cells.refresh(context.view, (MapMetric::Utilization, StaleStyle::Unchanged), 0);
    let visible_rows = rows.min(count);
    let refresh_period = if visible_rows > MAX_LIVE_ROWS {
        visible_rows.div_ceil(ROWS_PER_SECOND).max(2)
    } else {
        1
    };
    columns.refresh_period = refresh_period;
    state.series_cache.retain(|_, (step, _)| *step >= series_step(context.view.now) - 1);
    if state.filter != context.view.filter.text() {
        context.view.filter.text().clone_into(&mut state.filter);
        state.rows.clear();
    }
    let now = second_of(context.view.now);
    let is_new =
        |second: i64| usize::try_from(now - second).is_ok_and(|age| age < columns.refresh_period);
    state.rows.retain(|_, (second, ..)| is_new(*second));
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(viewport.with_position(columns.titles(state.order), count, width));
    }
    for row in viewport.range(count) {
        let line = match state.grouped_rows.rows.get(row).copied() {
            Some(GroupedRow::Header(group)) => group_header::row(context, state, group, &columns),
            Some(GroupedRow::Node(group, member)) => {
                let found = state.grouped_rows.member(&context.view.fleet, group, member);
                let Some((member, node)) = found.map(|(member, node)| (member.clone(), node))
                else {
                    continue;
                };
                self::row(context, state, (&member, node), &columns)
            }
            None => continue,
        };
        lines.push(line.truncated(width).selected(row == at).clickable_line(Click::Row(row)));
    }
    lines
}

fn row(
    context: RenderContext<'_>,
    state: &mut State,
    (member, node): (&GroupMember, &Node),
    columns: &ColumnLayout,
) -> Line {
    let fleet_view = context.view;
    let status = NodeStatus::of(node, fleet_view.now);
    let owners = state.allocations.owners(node);
    let notes = row_notes(fleet_view, node, member, &owners);
    let front =
        status_symbol(status, &notes).left_aligned(node.name.as_str(), columns.name, status.into());
    let Some(taken_at) = node.taken_at() else {
        // Without values, the reason takes the whole line.
        return front.gap(columns.gap).append(join_notes(&notes));
    };
    let span = format_age(fleet_view.now.since(taken_at));
    if status == NodeStatus::Down && columns.width_of("note") < WIDE_NOTE_WIDTH {
        let last = Line::styled(format!(" · last {span} ago"), Tone::Faint);
        let is_calm = columns.refresh_period > 1;
        let mut cells = NodeCells { context, state, member, node, owners: &owners, is_calm };
        let mut line = Line::new();
        for (column, width) in columns.visible() {
            let FleetCell::Owner(draw) = column.content else { break };
            line = line.gap(columns.gap).append(draw(&mut cells, width));
        }
        let owners = line.dimmed().gap(columns.gap);
        return front.append(owners).append(join_notes(&notes)).append(last);
    }
    let age_tone = if status.is_fresh() { Tone::Faint } else { Tone::Warn };
    let cells = value_cells(context, state, (member, node), &owners, columns);
    columns.visible().zip(cells).fold(front, |line, ((column, width), cell)| {
        let gap = Line::new().gap(columns.gap);
        line.append(match column.content {
            FleetCell::Age => gap.right_aligned(&span, width, age_tone),
            FleetCell::Note => gap.append(columns.fit_note(join_notes(&notes), width)),
            FleetCell::Owner(_) | FleetCell::Totals(_) | FleetCell::Node(_)
                if status.is_fresh() =>
            {
                gap.append(cell)
            }
            FleetCell::Owner(_) | FleetCell::Totals(_) | FleetCell::Node(_) => {
                gap.append(cell).dimmed()
            }
        })
    })
}

/// Draws owners and values, one cell per column. With many visible rows they update in turns: other rows
/// repeat their last cells.
fn value_cells(
    context: RenderContext<'_>,
    state: &mut State,
    (member, node): (&GroupMember, &Node),
    owners: &DeviceOwners,
    columns: &ColumnLayout,
) -> Vec<Line> {
    let now = context.view.now;
    let second = second_of(now);
    let is_due_now = is_due(member.node_index, now, columns.refresh_period);
    let key = (node.name.clone(), member.devices.clone());
    let before = state.rows.get(&key).filter(|(_, last, _)| last == columns);
    if let Some((_, _, cells)) = before.filter(|_| !is_due_now) {
        return cells.clone();
    }
    let totals = Totals::of_part(node, member.devices.as_deref());
    let is_calm = columns.refresh_period > 1;
    let mut drawn = NodeCells { context, state: &mut *state, member, node, owners, is_calm };
    let cells = columns.visible().map(|(column, width)| match column.content {
        FleetCell::Owner(draw) | FleetCell::Node(draw) => draw(&mut drawn, width),
        FleetCell::Totals(draw) => draw(context, &totals, columns.formats, width),
        FleetCell::Age | FleetCell::Note => Line::new(),
    });
    let cells: Vec<Line> = cells.collect();
    if is_calm {
        state.rows.insert(key, (second, columns.clone(), cells.clone()));
    }
    cells
}

fn second_of(now: Timestamp) -> i64 {
    now.as_micros().div_euclid(1_000_000)
}

/// Draws the worst state of a node as a mark.
fn status_symbol(status: NodeStatus, notes: &[(String, Tone)]) -> Line {
    let worst = notes.iter().map(|(_, tone)| *tone).max().unwrap_or_default();
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

pub(super) fn join_notes(notes: &[(String, Tone)]) -> Line {
    Line::of_notes(notes)
}

/// Draws the detail line of the selected node: its fault and remedy, or its properties.
pub(super) fn detail(fleet_view: &FleetView, state: &State, node: &Node, width: u16) -> Line {
    let title = Line::styled(format!("{}  ", node.name), Tone::Strong);
    let notes_line = match short_remedy(node) {
        Some(remedy) => {
            let with_all_devices = GroupMember::with_all_devices(0);
            let notes =
                row_notes(fleet_view, node, &with_all_devices, &state.allocations.owners(node));
            join_notes(&notes).text("  → ", Tone::Faint).text(remedy, Tone::Plain)
        }
        None => crate::ui::node_panel::panel::node_description(node),
    };
    title.append(notes_line).truncated(width)
}
