//! The job view: the selected job's summary, its nodes, the selected node's panel and the pending jobs.

use std::sync::Arc;

use crate::model::{JobId, JobList};
use crate::ui::RenderContext;
use crate::ui::View;
use crate::ui::action::{CommonAction, ViewEffect};
use crate::ui::input::Click;
use crate::ui::navigation::{JobSelection, Navigation};
use crate::ui::node_panel;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::list::{Movement, Viewport};

mod distribution;
mod header;
pub(crate) mod pending;
mod series;
mod summary;
mod table;

use crate::insight::jobs::JobIndex;
use series::MeanSeries;
use summary::{JobMetric, JobSummary};

/// Below this height the panel of the selected node is left out.
const MIN_PANEL_HEIGHT: usize = 14;
/// Height limit of the list of pending jobs, titles included.
const MAX_PENDING_LINES: usize = 4;

/// State of the job view that lasts between frames.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// True if Up and Down select a node of the job, false if they select another job.
    is_in_table: bool,
    viewport: Viewport,
    metric: JobMetric,
    /// The last computed summary and the index it was computed from.
    summary: Option<(Arc<JobIndex>, Arc<JobSummary>)>,
    series: MeanSeries,
}

impl State {
    pub(crate) const fn is_in_table(&self) -> bool {
        self.is_in_table
    }
}

/// Actions that only the job view has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    PreviousJob,
    NextJob,
    PreviousNode,
    NextNode,
    ToggleProcesses,
    /// Show the next metric in the table's device columns.
    NextMetric,
}

/// Performs an action that all views share.
pub(crate) fn update(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: &CommonAction,
) -> ViewEffect {
    match action {
        CommonAction::Move(movement) => step(context, navigation, *movement),
        CommonAction::Open if navigation.job_state.is_in_table => {
            return ViewEffect::SwitchView(View::Node);
        }
        CommonAction::Open => navigation.job_state.is_in_table = true,
        CommonAction::Back if std::mem::take(&mut navigation.job_state.is_in_table) => {}
        CommonAction::Click(Click::Row(row)) => {
            let Some(summary) = refresh(context, navigation) else { return ViewEffect::Handled };
            let is_again = selected_row(&summary, navigation, context) == *row;
            select(&summary, navigation, *row);
            if is_again {
                return ViewEffect::SwitchView(View::Node);
            }
        }
        CommonAction::Back
        | CommonAction::Click(_)
        | CommonAction::SortMenu
        | CommonAction::SortBy(_)
        | CommonAction::SortNext
        | CommonAction::SortPrevious
        | CommonAction::Reverse => return ViewEffect::Ignored,
    }
    ViewEffect::Handled
}

/// Performs an action that only the job view has.
pub(crate) fn update_view(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: Action,
) -> ViewEffect {
    match action {
        Action::PreviousJob => step(context, navigation, Movement::Up),
        Action::NextJob => step(context, navigation, Movement::Down),
        Action::PreviousNode => step_node(context, navigation, Movement::Up),
        Action::NextNode => step_node(context, navigation, Movement::Down),
        Action::ToggleProcesses => navigation.shows_processes = !navigation.shows_processes,
        Action::NextMetric => navigation.job_state.metric = navigation.job_state.metric.next(),
    }
    ViewEffect::Handled
}

/// Selects another node if the cursor is in the table, another job otherwise.
fn step(context: RenderContext<'_>, navigation: &mut Navigation, step: Movement) {
    if navigation.job_state.is_in_table {
        step_node(context, navigation, step);
    } else {
        navigation.step_job(context.view, step);
    }
}

fn step_node(context: RenderContext<'_>, navigation: &mut Navigation, step: Movement) {
    let Some(summary) = refresh(context, navigation) else { return };
    let page = navigation.job_state.viewport.rows;
    let to = step.new_index(selected_row(&summary, navigation, context), summary.rows.len(), page);
    select(&summary, navigation, to);
}

fn select(summary: &JobSummary, navigation: &mut Navigation, row: usize) {
    if let Some(row) = summary.rows.get(row) {
        navigation.select(row.name.clone());
    }
}

/// Returns the row of the selected node, 0 if the job does not run on that node.
fn selected_row(
    summary: &JobSummary,
    navigation: &Navigation,
    context: RenderContext<'_>,
) -> usize {
    let Some(node) = navigation.node(context.view) else { return 0 };
    summary.rows.iter().position(|row| row.name == node.name).unwrap_or(0)
}

/// Returns the summary of the selected job, computed once per `JobIndex`.
fn refresh(context: RenderContext<'_>, navigation: &mut Navigation) -> Option<Arc<JobSummary>> {
    let fleet_view = context.view;
    navigation.refresh_job(fleet_view);
    let id: JobId = match navigation.job(fleet_view)? {
        JobSelection::Listed { job, .. } => job.id.clone(),
        JobSelection::Hidden(_) | JobSelection::Ended(_) => return None,
    };
    let index = fleet_view.job_index();
    let units = context.options.units();
    let state = &mut navigation.job_state;
    if let Some((cached_index, summary)) = &state.summary
        && Arc::ptr_eq(cached_index, index)
        && summary.job.id == id
        && summary.units == units
    {
        return Some(Arc::clone(summary));
    }
    let summary = Arc::new(JobSummary::build(fleet_view, index.entry(&id)?, units));
    state.series.update(&fleet_view.fleet, &summary, fleet_view.now);
    state.summary = Some((Arc::clone(index), Arc::clone(&summary)));
    Some(summary)
}

/// Draws the header and the node table; pending jobs and the node panel follow if there is room.
pub(crate) fn lines(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let fleet_view = context.view;
    let Some(summary) = refresh(context, navigation) else {
        return lines_without_job(context, navigation, width, height);
    };
    let count = fleet_view.job_index().shown().count();
    let index = match navigation.job(fleet_view) {
        Some(JobSelection::Listed { index, .. }) => index,
        Some(JobSelection::Hidden(_) | JobSelection::Ended(_)) | None => 0,
    };
    let position = header::Position { index, count };
    let series = &navigation.job_state.series;
    let size = (width, height);
    let mut lines = header::lines(fleet_view, context.options, &summary, series, position, size);
    if height >= 24 {
        lines.push(Line::new());
    }
    if height >= 8 {
        lines.push(table::caption(navigation.job_state.metric, summary.units, width));
    }
    let room = height.saturating_sub(lines.len());
    let heights = JobHeights::of(&summary, pending_count(context), room);
    let index = selected_row(&summary, navigation, context);
    let table_context = table::TableContext {
        fleet_view,
        display: context.options,
        summary: &summary,
        metric: navigation.job_state.metric,
        selected: index,
        has_cursor: navigation.job_state.is_in_table,
    };
    lines.extend(table::lines(
        table_context,
        &mut navigation.job_state.viewport,
        width,
        heights.table,
    ));
    if heights.panel > 0
        && let Some(node) = navigation.node(fleet_view).cloned()
    {
        lines.push(Line::new().rule(width));
        lines.extend(node_panel::panel::lines(context, &node, navigation, width, heights.panel));
    }
    if heights.pending > 0
        && let Some(list) = &fleet_view.fleet.jobs
    {
        lines.resize(height.saturating_sub(heights.pending), Line::new());
        lines.extend(pending::lines(fleet_view, list, context.zone, width, heights.pending));
    }
    lines.truncate(height);
    lines
}

/// How the lines below the header are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JobHeights {
    /// Includes the title line.
    table: usize,
    /// Excludes the rule above the panel.
    panel: usize,
    /// Includes the title line.
    pending: usize,
}

impl JobHeights {
    fn of(summary: &JobSummary, pending: usize, room: usize) -> Self {
        let table_lines = summary.rows.len() + 1;
        let min_table = table_lines.min(room / 2);
        let pending = if pending > 0 { (pending + 1).min(MAX_PENDING_LINES) } else { 0 };
        // Needs one more line, for the gap above the pending jobs.
        let pending = if room > min_table + pending && room >= 8 { pending } else { 0 };
        let without_pending = room - pending;
        let table = table_lines.min(without_pending.saturating_sub(usize::from(pending > 0)));
        let left = without_pending.saturating_sub(table + 2);
        let panel = if left >= MIN_PANEL_HEIGHT { left } else { 0 };
        Self { table, panel, pending }
    }
}

fn pending_count(context: RenderContext<'_>) -> usize {
    context.view.fleet.jobs.as_ref().map_or(0, |list| list.pending().count())
}

/// Draws the view when no job is selected.
fn lines_without_job(
    context: RenderContext<'_>,
    navigation: &Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let fleet_view = context.view;
    let list = fleet_view.fleet.jobs.as_deref();
    let mut lines = match navigation.job(fleet_view) {
        Some(JobSelection::Ended(job)) => {
            let outcome = list.map(|list| list.outcome(&job.id)).unwrap_or_default();
            header::ended_lines(job, outcome, width)
        }
        Some(JobSelection::Hidden(job)) => header::hidden_lines(job, width),
        Some(JobSelection::Listed { .. }) | None if !fleet_view.job_index().entries.is_empty() => {
            vec![Line::styled("no node of any job matches the filter", Tone::Warn).truncated(width)]
        }
        Some(JobSelection::Listed { .. }) | None => match list {
            Some(list) => return lines_without_running_jobs(context, list, width, height),
            None => NO_JOBS_TEXT
                .iter()
                .map(|line| Line::styled(*line, Tone::Faint).truncated(width))
                .collect(),
        },
    };
    if let Some(list) = list {
        lines.push(Line::new());
        let room = height.saturating_sub(lines.len());
        lines.extend(pending::lines(fleet_view, list, context.zone, width, room));
    }
    lines
}

/// Shown when there are no jobs at all.
const NO_JOBS_TEXT: [&str; 2] = [
    "no process belongs to a job, and no scheduler is queried",
    "gtop --slurm shows your jobs and their nodes",
];

/// Draws the view while no job runs: why, what to do about it, and the pending jobs.
pub(crate) fn lines_without_running_jobs(
    context: RenderContext<'_>,
    list: &JobList,
    width: u16,
    height: usize,
) -> Vec<Line> {
    pending::lines_without_running_jobs(context.view, list, context.zone, width, height)
}
