//! The job view: the list of jobs, and the selected job's summary, its nodes and the selected node's panel.

use std::sync::Arc;

use crate::action::{JobAction, RowAction};
use crate::clipboard::{self, Clip};
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::{explain, panel};
use crate::render_context::{RenderContext, Size};
use crate::selection::{JobSelection, SharedSelection};
use crate::view::View;
use crate::view_state::{Explained, Shared, ViewState};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport, cycled};
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_model::{Job, JobOutcome};

mod distribution;
mod header;
mod job_explanation;
mod list;
mod load;
mod metric;
mod series;
mod summary;
mod table;

use gtop_fleet::insight::jobs::JobIndex;
use list::JobListState;
pub use list::{COLUMN_SPECS, sort_columns};
use metric::ComparedMetric;
use series::MeanSeries;
use summary::JobSummary;

/// Why a key does nothing in the list.
pub(crate) const NOT_OPEN: &str = "the list of jobs shows no node; open a job first";
/// Below this height the panel of the selected node is left out.
const MIN_PANEL_HEIGHT: usize = 14;

/// State of the job view that lasts between frames.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// True if the selected job is shown, false if the list of jobs is.
    is_open: bool,
    pub(crate) list: JobListState,
    /// True if Up and Down select a node of the job, false if they select another job.
    is_in_table: bool,
    viewport: Viewport,
    metric: ComparedMetric,
    /// The summary of the selected job and the index it was computed from; `None` if the job has no shown nodes.
    summary: Option<(Arc<JobIndex>, Arc<JobSummary>)>,
    series: MeanSeries,
}

impl ViewState for State {
    fn refresh(&mut self, context: RenderContext<'_>, shared: &mut Shared) {
        if self.is_open {
            self.refresh_summary(context, &mut shared.selection);
        } else {
            self.list.refresh(context);
        }
    }

    fn update(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, .. }: &mut Shared,
        action: &RowAction,
    ) -> Effect {
        if !self.is_open {
            return self.update_list(context, selection, action);
        }
        match action {
            RowAction::Move(movement) => self.step(context, selection, *movement),
            RowAction::Open if self.is_in_table => return Effect::SwitchView(View::Node),
            RowAction::Open => self.is_in_table = true,
            RowAction::Back if std::mem::take(&mut self.is_in_table) => {}
            RowAction::Back => self.show_list(selection),
            RowAction::Click(Click::Row(row)) => {
                let Some((_, summary)) = &self.summary else {
                    return Effect::Handled;
                };
                let is_again = selected_row(summary, selection, context) == *row;
                select(summary, selection, *row);
                if is_again {
                    return Effect::SwitchView(View::Node);
                }
            }
            RowAction::Click(_) => return Effect::Ignored,
        }
        Effect::Handled
    }

    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        (!self.is_open).then(|| (&mut self.list.order, sort_columns()))
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        if !self.is_open {
            return vec![("Columns of jobs", COLUMN_SPECS.to_vec())];
        }
        let own = ("Columns of the job's nodes", table::column_specs());
        std::iter::once(own).chain(panel::column_groups()).collect()
    }

    /// Explains the job under the cursor of the list, the node under the cursor of the table, or else the open job.
    fn explain(&mut self, context: RenderContext<'_>, shared: &Shared) -> Explained {
        let selection = &shared.selection;
        if self.is_in_table()
            && let Some(node) = selection.node(context.view)
        {
            return Ok(explain::node_alone(context, node));
        }
        match self.selected_job(context, selection) {
            Some(job) => Ok(job_explanation::of_job(context, &job)),
            None if self.is_open => Err("no job is selected".to_owned()),
            None => Err("there are no jobs".to_owned()),
        }
    }

    /// Returns what can be copied of the node under the cursor of the table, or else of the job.
    fn clips(&self, context: RenderContext<'_>, shared: &Shared) -> Vec<Clip> {
        let node = shared.selection.node(context.view).filter(|_| self.is_in_table());
        if let Some(node) = node {
            return clipboard::of_node(context.view, node);
        }
        let job = self.selected_job(context, &shared.selection);
        job.map_or_else(Vec::new, |job| clipboard::of_job(context.view, &job))
    }

    fn prepare(&mut self, context: RenderContext<'_>, shared: &mut Shared, size: Size) {
        if self.is_open {
            self.list.settle(context);
        } else {
            self.list.prepare(context, Some(&shared.selection), size);
        }
    }

    /// Draws the list, or the header and the node table of a job; the node panel follows if it fits.
    fn lines(&self, context: RenderContext<'_>, shared: &Shared, size: Size) -> DrawnView {
        let Shared { selection, panel } = shared;
        let (width, height) = size;
        if !self.is_open {
            return self.list.lines(context, Some(selection), size);
        }
        let fleet_view = context.view;
        let Some((_, summary)) = &self.summary else {
            return lines_without_job(context, selection, size).into();
        };
        let position = self.list.place(context, &summary.job);
        let mut lines =
            header::lines(fleet_view, context.options, summary, &self.series, position, size);
        if height >= 24 {
            lines.push(Line::new());
        }
        if height >= 8 {
            lines.push(table::caption(self.metric, summary.units, width));
        }
        let room = height.saturating_sub(lines.len());
        let table_height = (summary.rows.len() + 1).min(room);
        let panel_height = room.saturating_sub(table_height + 2);
        let table_context = table::TableContext {
            fleet_view,
            display: context.options,
            summary,
            metric: self.metric,
            selected: selected_row(summary, selection, context),
            has_cursor: self.is_in_table,
        };
        let size = (width, table_height);
        let list = table::draw_below(&mut lines, table_context, self.viewport, size);
        let mut below = DrawnView::default();
        if panel_height >= MIN_PANEL_HEIGHT
            && let Some(node) = selection.node(fleet_view)
        {
            lines.push(Line::new().rule(width));
            below = panel::lines(context, node, panel, (width, panel_height));
        }
        lines.append(&mut below.lines);
        lines.truncate(height);
        DrawnView { lines, list: Some(list), ..below }
    }

    fn viewport(&mut self) -> Option<&mut Viewport> {
        Some(if self.is_open { &mut self.viewport } else { &mut self.list.cursor.viewport })
    }
}

impl State {
    /// Forgets the series of earlier snapshots.
    pub(crate) fn forget_series(&mut self) {
        self.series = MeanSeries::default();
        self.list.forget_series();
    }

    /// Returns true if a job is shown, false if the list is.
    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    /// Shows the list, with the cursor on the selected job.
    pub(crate) fn show_list(&mut self, selection: &SharedSelection) {
        (self.is_open, self.is_in_table) = (false, false);
        self.list.follow(selection);
    }

    /// Returns the job under the cursor of the list, or else the open one.
    pub(crate) fn selected_job(
        &self,
        context: RenderContext<'_>,
        selection: &SharedSelection,
    ) -> Option<Job> {
        if !self.is_open {
            return self.list.selected_job(context, selection);
        }
        let (JobSelection::Listed(job) | JobSelection::Hidden(job) | JobSelection::Ended(job)) =
            selection.job(context.view)?;
        Some(job.clone())
    }

    pub(crate) const fn is_in_table(&self) -> bool {
        self.is_open && self.is_in_table
    }

    fn update_list(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        action: &RowAction,
    ) -> Effect {
        match action {
            RowAction::Move(movement) => self.list.step(context, selection, *movement),
            RowAction::Click(Click::Row(row)) => {
                if self.list.click(context, selection, *row) {
                    return self.open_selected(context, selection);
                }
            }
            RowAction::Open => return self.open_selected(context, selection),
            RowAction::Back | RowAction::Click(_) => return Effect::Ignored,
        }
        Effect::Handled
    }

    /// Opens the job under the cursor, or shows why that is not possible.
    fn open_selected(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
    ) -> Effect {
        if let Err(reason) = self.list.open(context, selection) {
            return reason.map_or(Effect::Handled, Effect::Message);
        }
        self.is_open = true;
        selection.refresh_job(context.view);
        Effect::Handled
    }

    /// Performs an action that only the job view has.
    pub(crate) fn update_job(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, panel }: &mut Shared,
        action: JobAction,
    ) -> Effect {
        match action {
            JobAction::PreviousJob | JobAction::NextJob if !self.is_open => {
                let is_up = action == JobAction::PreviousJob;
                let movement = if is_up { Movement::Up } else { Movement::Down };
                self.list.step(context, selection, movement);
            }
            JobAction::PreviousNode
            | JobAction::NextNode
            | JobAction::NextMetric
            | JobAction::ToggleProcesses
                if !self.is_open =>
            {
                return Effect::Message(NOT_OPEN.to_owned());
            }
            JobAction::PreviousJob => self.step(context, selection, Movement::Up),
            JobAction::NextJob => self.step(context, selection, Movement::Down),
            JobAction::PreviousNode => self.step_node(context, selection, Movement::Up),
            JobAction::NextNode => self.step_node(context, selection, Movement::Down),
            JobAction::ToggleProcesses => panel.hides_processes = !panel.hides_processes,
            JobAction::NextMetric => self.metric = cycled(&ComparedMetric::ALL, self.metric, true),
        }
        Effect::Handled
    }

    /// Selects another node if the cursor is in the table, another job otherwise.
    fn step(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        step: Movement,
    ) {
        if self.is_in_table {
            self.step_node(context, selection, step);
        } else if let Some(job) = self.list.neighbour(context, selection, step) {
            selection.show_job(context.view, job);
        }
    }

    fn step_node(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        step: Movement,
    ) {
        let Some((_, summary)) = &self.summary else { return };
        let row = selected_row(summary, selection, context);
        select(summary, selection, step.new_index(row, summary.rows.len(), self.viewport.rows));
    }

    /// Updates the summary of the selected job, computed once per `JobIndex`.
    fn refresh_summary(&mut self, context: RenderContext<'_>, selection: &mut SharedSelection) {
        let fleet_view = context.view;
        selection.refresh_job(fleet_view);
        let last = self.summary.take();
        let Some(JobSelection::Listed(job)) = selection.job(fleet_view) else { return };
        let (index, units) = (fleet_view.job_index(), context.options.units());
        self.summary = last.filter(|(known, summary)| {
            Arc::ptr_eq(known, index) && summary.job.id == job.id && summary.units == units
        });
        if self.summary.is_none()
            && let Some(entry) = index.entry(&job.id)
        {
            let summary = Arc::new(JobSummary::build(fleet_view, entry, units));
            self.series.update(&fleet_view.fleet, &summary, fleet_view.now);
            self.summary = Some((Arc::clone(index), summary));
        }
    }
}

fn select(summary: &JobSummary, selection: &mut SharedSelection, row: usize) {
    if let Some(row) = summary.rows.get(row) {
        selection.select(row.name.clone());
    }
}

/// Returns the row of the selected node, 0 if the job does not run on that node.
fn selected_row(
    summary: &JobSummary,
    selection: &SharedSelection,
    context: RenderContext<'_>,
) -> usize {
    let Some(node) = selection.node(context.view) else { return 0 };
    summary.rows.iter().position(|row| row.name == node.name).unwrap_or(0)
}

/// Draws a job that has no shown nodes: hidden by the filter, or ended.
fn lines_without_job(
    context: RenderContext<'_>,
    selection: &SharedSelection,
    (width, height): Size,
) -> Vec<Line> {
    let fleet_view = context.view;
    let list = fleet_view.fleet.jobs.as_deref();
    let lines = match selection.job(fleet_view) {
        Some(JobSelection::Ended(job)) => {
            let text = list.map_or(JobOutcome::Unknown.text(), |list| list.departure_text(&job.id));
            header::ended_lines(job, text, width)
        }
        Some(JobSelection::Hidden(job)) => header::hidden_lines(job, width),
        Some(JobSelection::Listed(_)) | None => {
            vec![Line::styled("no job is selected; Esc lists them", Tone::Faint).truncated(width)]
        }
    };
    lines.into_iter().take(height).collect()
}
