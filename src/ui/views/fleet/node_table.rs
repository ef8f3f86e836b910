//! The node list: one line per node in fixed columns, and one per group header.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{Node, Totals};
use crate::insight::FleetView;
use crate::insight::node_status::{NodeStatus, short_remedy};
use crate::insight::ownership::DeviceOwners;
use crate::model::{JobId, NodeName};
use crate::model::{UNKNOWN, width_of};
use crate::time::{Timestamp, format_age};
use crate::ui::RenderContext;
use crate::ui::input::Click;
use crate::ui::views::fleet::State;
use crate::ui::views::fleet::cells::{MapMetric, StaleStyle, is_due};
use crate::ui::views::fleet::column_layout::{Column, ColumnLayout, MARK_WIDTH};
use crate::ui::views::fleet::group::GroupMember;
use crate::ui::views::fleet::group_header;
use crate::ui::views::fleet::grouped_rows::GroupedRow;
use crate::ui::views::fleet::node_notes::row_notes;
use crate::ui::views::fleet::node_series::{node_series, series_step};
use crate::ui::views::fleet::node_sort::{hottest, to_f32};
use crate::ui::views::fleet::usage_cell::usage_cell;
use crate::ui::widgets::line::{Line, Symbol, Tone};
use crate::ui::widgets::list::Viewport;
use crate::ui::widgets::number_format::{or_unknown, percent_value};

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
    let columns = ColumnLayout::of(
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
    let columns = ColumnLayout { refresh_period, ..columns };
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
    if status == NodeStatus::Down && columns.note < WIDE_NOTE_WIDTH {
        let last = Line::styled(format!(" · last {span} ago"), Tone::Faint);
        let leading = columns.visible().take_while(|(column, _)| column.is_owner());
        let owners = leading.fold(Line::new(), |line, last| {
            line.gap(columns.gap).append(owner_cell(context, state, (member, node), &owners, last))
        });
        let owners = owners.dimmed().gap(columns.gap);
        return front.append(owners).append(join_notes(&notes)).append(last);
    }
    let age_tone = if status.is_fresh() { Tone::Faint } else { Tone::Warn };
    let cells = value_cells(context, state, (member, node), &owners, columns);
    columns.visible().zip(cells).fold(front, |line, ((column, width), cell)| {
        let gap = Line::new().gap(columns.gap);
        line.append(if column == Column::Age {
            gap.right_aligned(&span, width, age_tone)
        } else if column == Column::Note {
            gap.append(columns.fit_cell((column, width), join_notes(&notes)))
        } else {
            let cell = gap.append(cell);
            if status.is_fresh() { cell } else { cell.dimmed() }
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
    let mut series = Some(node_series(state, (member, node), now, columns));
    let cells = columns.visible().map(|(column, width)| match column {
        Column::Job | Column::User | Column::Devices => {
            owner_cell(context, state, (member, node), owners, (column, width))
        }
        Column::Temperature | Column::Cpu => host_cell(context, (node, member), (column, width)),
        Column::Age | Column::Note => Line::new(),
        Column::Sparkline => {
            let tone = context.options.load.tone(to_f32(totals.utilization));
            Line::new().sparkline(series.take().unwrap_or_default(), tone)
        }
        Column::Bar | Column::Percent | Column::MemoryBar | Column::Memory | Column::Power => {
            usage_cell(context, &totals, columns, (column, width))
        }
    });
    let cells: Vec<Line> = cells.collect();
    if columns.refresh_period > 1 {
        state.rows.insert(key, (second, *columns, cells.clone()));
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

/// Draws the owners: jobs, users or devices.
fn owner_cell(
    context: RenderContext<'_>,
    state: &mut State,
    (member, node): (&GroupMember, &Node),
    owners: &DeviceOwners,
    (column, width): (Column, u16),
) -> Line {
    if column == Column::Job {
        return Line::new().left_aligned(&jobs_text(state, owners, width), width, Tone::Plain);
    }
    if column == Column::User {
        let users: Vec<&str> = owners.on_node.users.iter().map(|user| &**user).collect();
        return Line::new().left_aligned(&first_and_count(&users), width, Tone::Plain);
    }
    let State { cells, allocations, symbols, .. } = state;
    let marks = cells.of(context, (member.node_index, node), allocations, symbols);
    let positions = crate::insight::ownership::whole_devices(node);
    let last = positions.map(|position| {
        let blank = (Symbol::Char(' '), Tone::Faint);
        let mark = marks.get(position).copied().filter(|_| member.has_device(position));
        mark.unwrap_or(blank)
    });
    Line::new().strip(last.collect(), width)
}

fn host_cell(
    context: RenderContext<'_>,
    (node, member): (&Node, &GroupMember),
    (column, width): (Column, u16),
) -> Line {
    let text = if column == Column::Temperature {
        let heat = hottest(node, member);
        let units = context.options.units();
        or_unknown(heat, |celsius| {
            format!("{:.0}{}", units.convert_celsius(celsius), units.temperature_unit())
        })
    } else {
        or_unknown(percent_value(node.host.cpu), |cpu| format!("{cpu:.0}%"))
    };
    Line::new().right_aligned(&text, width, Tone::Plain)
}

/// Formats the first job, with its name if it fits, and the number of others.
fn jobs_text(state: &State, owners: &DeviceOwners, width: u16) -> String {
    let mut ids: Vec<&JobId> = owners.on_node.jobs.iter().collect();
    ids.sort_unstable_by_key(|id| (id.as_str().parse::<u64>().unwrap_or(u64::MAX), id.as_str()));
    let Some(first) = ids.first() else { return UNKNOWN.to_owned() };
    if let [only] = ids.as_slice() {
        return state.allocations.name(only);
    }
    let rest = format!(" +{}", ids.len() - 1);
    let name = state.allocations.name(first);
    let room = width.saturating_sub(width_of(&rest));
    // A cut number would be a different number; a cut name is still recognisable.
    let number = state.allocations.job(first).map_or(first.as_str(), |job| &job.shown_id);
    let name = if width_of(number) < room {
        crate::ui::widgets::line::truncate(&name, room)
    } else {
        number.to_owned()
    };
    format!("{name}{rest}")
}

/// Formats the first name and the number of others.
fn first_and_count(words: &[&str]) -> String {
    match (words.iter().min(), words.len()) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(word), 1) => (*word).to_owned(),
        (Some(word), count) => format!("{word} +{}", count - 1),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleet;
    use crate::insight::ownership::DeviceOwner;
    use crate::model::{Job, JobList};

    #[test]
    fn the_first_job_keeps_its_id_and_the_others_are_counted() {
        let job = |id: &str, visible: &str| Job {
            shown_id: visible.into(),
            name: "train".into(),
            ..Job::example(id)
        };
        let list = JobList {
            jobs: vec![job("2011", "2000_17"), job("2012", "12+1")],
            ..JobList::default()
        };
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::default() };
        let mut state = State::default();
        state.allocations.refresh(&FleetView::new(fleet, Timestamp::default()));
        let text_for = |ids: &[&str], width| {
            let jobs = ids.iter().map(|id| JobId::new(id).unwrap()).collect();
            let on_node = DeviceOwner { jobs, ..DeviceOwner::default() };
            jobs_text(&state, &DeviceOwners { on_node, ..DeviceOwners::default() }, width)
        };
        assert_eq!(text_for(&["2011"], 20), "2000_17 train");
        assert_eq!(text_for(&["2012", "2011", "9999"], 20), "2000_17 train +2");
        assert_eq!(text_for(&["2012", "2011"], 13), "2000_17 t… +1");
        assert_eq!(text_for(&["2012", "2011"], 10), "2000_17 +1");
        assert_eq!(text_for(&["2012", "2011"], 6), "2000_17 +1");
        assert_eq!(text_for(&[], 20), UNKNOWN);
    }
}
