//! The process table: title with the scope, visible rows, and details of the selected process.

use crate::display_options::Density;
use crate::drawn_view::DrawnView;
use crate::input::Click;
use crate::process_order;
use crate::process_row::{ProcessEntry, ProcessRow};
use crate::process_target::short_command;
use crate::render_context::{RenderContext, Size};
use crate::views::processes::columns::{self, ProcessTable, max_shift, row_status};
use crate::views::processes::detail::state_text;
use crate::views::processes::rows::{ResolvedScope, is_hidden};
use crate::views::processes::state::{Scope, State};
use crate::widgets::line::{Line, Tone};
use gtop_fleet::Fleet;
use gtop_fleet::insight::node_status::shown_id;
use gtop_local::text::counted;
use gtop_local::time::format_duration;
use gtop_model::JobId;

pub(super) fn lines(context: RenderContext<'_>, state: &State, size: Size) -> DrawnView {
    let (width, height) = size;
    let has_detail = height >= 8;
    let mut lines = vec![title(context, state, width)];
    let count = state.rows.list.len();
    if count == 0 {
        lines.extend(empty_lines(context, state, width));
        lines.truncate(height);
        return lines.into();
    }
    let density = state.density(context);
    let cursor = state.find_cursor();
    let State { rows, tags, cursor: list_cursor, shift, order, .. } = state;
    let table = ProcessTable::laid_out(context, rows, density, width);
    let selected = cursor.and_then(|cursor| rows.list.get(cursor)).and_then(ProcessRow::key);
    let room = height.saturating_sub(lines.len() + usize::from(has_detail));
    let titles =
        table.sorted_titles(|spec| spec.name == order.column, process_order::is_rising(*order));
    let list = list_cursor.viewport.draw_below(
        &mut lines,
        Some(titles),
        (count, cursor),
        (width, room),
        |at| {
            let entry = rows.list.get(at)?.entry()?;
            let is_same_process = cursor != Some(at)
                && selected.as_ref().is_some_and(|selected| {
                    selected.pid == entry.used.pid && selected.node == entry.node.name
                });
            let target = entry.process.map(|process| (entry.node.name.clone(), process.key));
            let is_tagged = target.is_some_and(|tag| tags.contains_key(&tag));
            let mark = match (is_tagged, is_same_process) {
                (true, _) => "*",
                (false, true) => "=",
                (false, false) => " ",
            };
            let line = columns::row(&table, mark, entry, (context.view.now, *shift));
            Some(line.clickable_line(Click::Row(at)))
        },
    );
    if has_detail {
        lines.resize(height - 1, Line::new());
        let row = cursor.and_then(|cursor| rows.list.get(cursor));
        let entry = row.and_then(ProcessRow::entry);
        lines.push(entry.map(|entry| detail(context, entry).truncated(width)).unwrap_or_default());
    }
    lines.truncate(height);
    DrawnView { lines, list: Some(list), ..DrawnView::default() }
}

/// Returns the shift at which the longest visible command ends at the right edge.
pub(super) fn max_shift_in_view(context: RenderContext<'_>, state: &State) -> usize {
    let density = state.density(context);
    let table = ProcessTable::laid_out(context, &state.rows, density, state.width);
    let room = state.width.saturating_sub(table.leading(|name| name != "command").1);
    let range = state.cursor.viewport.range(state.rows.list.len());
    let shown = state.rows.list.get(range).unwrap_or_default();
    let commands = shown.iter().filter_map(|row| Some(row.entry()?.command()));
    let commands = commands.map(|command| short_command(command, density == Density::Full));
    commands.map(|command| max_shift(&command, room)).max().unwrap_or(0)
}

fn title(context: RenderContext<'_>, state: &State, width: u16) -> Line {
    let rows = &state.rows;
    let (count, nodes) = (rows.process_count, rows.node_count);
    let mut line = match state.rows.scope() {
        ResolvedScope::Fleet => Line::styled("all nodes", Tone::Strong),
        ResolvedScope::Node(name) => {
            Line::styled("node ", Tone::Faint).text(name.as_str(), Tone::Strong)
        }
        ResolvedScope::Job(id, _) => job_line(&context.view.fleet, &id),
    };
    let mut count_text = counted(count, "process");
    if state.scope != Scope::Node && nodes > 0 {
        count_text = format!("{count_text} on {}", counted(nodes, "node"));
    }
    // The range of visible rows counts these.
    let listed = rows.list.len();
    if listed != count {
        count_text = format!("{count_text}, {}", counted(listed, "row"));
    }
    line = line.gap(2).text(count_text, Tone::Plain);
    if rows.hidden.count > 0 {
        let (units, memory) = (context.options.units(), rows.hidden.memory);
        let mut text = format!("{} hidden", rows.hidden.count);
        if memory.0 > 0 {
            let (amount, unit) = (units.convert_gib(memory.gib()), units.unit_name());
            text = format!("{text}, {amount:.1} {unit}");
        }
        line = line.gap(2).text(text, Tone::Warn);
    }
    if let Some((nodes, reason)) = rows.unknown_nodes.filter(|_| count > 0) {
        let text = format!("{} unknown: {}", counted(nodes, "node"), reason.text());
        line = line.gap(2).text(text, Tone::Faint);
    }
    let mut right = Line::new().gap(2);
    if !state.tags.is_empty() {
        let hidden = state.tags.values().filter(|target| is_hidden(target, context.view)).count();
        let not_shown = if hidden > 0 { format!(", {hidden} not shown") } else { String::new() };
        let text = format!("{} tagged{not_shown}", state.tags.len());
        right = right.text(text, Tone::Accent).gap(2);
    }
    if rows.has_tpus && width >= 100 {
        right = right.text("* of the whole chip", Tone::Faint).gap(2);
    }
    // The sort order is dropped first, since the column titles show it too.
    let sorted = Line::styled(process_order::description(state.order), Tone::Faint);
    let is_tight = line.width() + right.width() + sorted.width() > width;
    line.with_right(if is_tight { right.trimmed() } else { right.append(sorted) }, width)
}

fn job_line(fleet: &Fleet, id: &JobId) -> Line {
    let known = fleet.jobs.as_ref().and_then(|list| list.job(id));
    let line = Line::styled("job ", Tone::Faint);
    match known {
        Some(job) => line
            .text(job.shown_id.to_string(), Tone::Strong)
            .gap(1)
            .text(job.name.to_string(), Tone::Plain),
        None => line.text(shown_id(fleet.jobs.as_deref(), id), Tone::Strong),
    }
}

/// Explains why the table is empty.
fn empty_lines(context: RenderContext<'_>, state: &State, width: u16) -> Vec<Line> {
    let fleet_view = context.view;
    let mut lines = Vec::new();
    if let Some((nodes, reason)) = state.rows.unknown_nodes {
        let nodes_text = counted(nodes, "node");
        lines.push(format!("device users of {nodes_text} unknown: {}", reason.text()));
    }
    if !fleet_view.filter.is_empty() {
        let filter = fleet_view.filter.text();
        lines.push(format!("no process matches /{filter}; Esc clears the filter"));
    } else if lines.is_empty() {
        let mut nodes = fleet_view.nodes();
        let has_fresh_node = nodes.any(|node| node.freshness(fleet_view.now).is_fresh());
        let jobs = fleet_view.fleet.jobs.as_deref();
        let selection = fleet_view.selection.no_processes_message(jobs);
        lines.push(match state.scope {
            _ if fleet_view.fleet.nodes.is_empty() => "no nodes to watch".to_owned(),
            _ if !has_fresh_node => "no process data yet".to_owned(),
            _ if selection.is_some() => selection.unwrap_or_default(),
            Scope::Fleet => "no processes use a device".to_owned(),
            Scope::Node => "no processes use a device of this node; s changes the scope".to_owned(),
            Scope::Job => "no processes of this job use a device; s changes the scope".to_owned(),
        });
    }
    lines.into_iter().map(|text| Line::styled(text, Tone::Faint).truncated(width)).collect()
}

/// Describes one process, with its full command line at the end.
fn detail(context: RenderContext<'_>, entry: ProcessEntry<'_>) -> Line {
    let mut line = Line::styled(format!("{} ", entry.used.pid), Tone::Strong)
        .text(entry.user().unwrap_or("owner unknown"), Tone::Plain)
        .text(format!(" on {}", entry.node.name.label()), Tone::Plain);
    let status = row_status(entry, context.view.now);
    let process = entry.process;
    let state = process.and_then(|process| process.state.get()).filter(|_| status.is_none());
    if let Some(status) = status {
        line = line.gap(2).text(status.text, status.tone);
    }
    let parent = process.and_then(|process| process.statics.parent_pid.get());
    let run_time = entry.run_time().map(format_duration);
    let container = process.and_then(|process| process.statics.container.as_ref());
    let jobs = context.view.fleet.jobs.as_deref();
    let details = [
        state.map(|state| state_text(state).to_owned()),
        parent.map(|parent| format!("parent {parent}")),
        run_time.map(|run_time| format!("running {run_time}")),
        container.map(|container| format!("{} {}", container.kind.as_str(), container.id)),
        entry.job().map(|job| format!("job {}", shown_id(jobs, job))),
        entry.used.memory.reason().map(|reason| format!("memory: {}", reason.text())),
    ];
    line.details(details.into_iter().flatten()).text(format!("  {}", entry.command()), Tone::Plain)
}
