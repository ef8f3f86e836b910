//! The list of jobs: own ones first, the worst on top, then the jobs that wait for nodes, and at the end those that have ended.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::drawn_view::DrawnView;
use crate::input::Click;
use crate::render_context::{RenderContext, Size};
use crate::selection::SharedSelection;
use crate::views::job::series::MeanSeries;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{ListCursor, Movement};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::jobs::JobIndex;
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_local::text::{counted, match_verb};
use gtop_local::time::format_age;
use gtop_model::Job;

mod rows;
mod table;

use rows::{JobRow, JobRows, ListCounts};
pub use table::COLUMN_SPECS;
use table::expected_start;

/// Below this height, only rows are shown.
const MIN_SUMMARY_HEIGHT: usize = 6;
/// The summary, an empty line and the titles.
const LINES_ABOVE: usize = 3;

/// Shown when there are no jobs at all.
const NO_JOBS_TEXT: &str = "no process belongs to a job, and no scheduler is queried";

/// The list's sort order, cursor and scroll position.
#[derive(Clone, Debug)]
pub(crate) struct JobListState {
    pub(crate) order: SortOrder,
    /// The displayed id of the job under the cursor, which differs for each task of an array.
    pub(super) cursor: ListCursor<Arc<str>>,
    rows: Arc<JobRows>,
    /// The index and the order that the rows were made from.
    rows_key: Option<(Arc<JobIndex>, SortOrder)>,
    /// The sparklines of the visible rows.
    series: BTreeMap<Arc<str>, MeanSeries>,
}

impl Default for JobListState {
    fn default() -> Self {
        let (cursor, rows, rows_key, series) = Default::default();
        Self { order: SortOrder::by("worst"), cursor, rows, rows_key, series }
    }
}

/// Returns the columns that the list can be sorted by.
pub fn sort_columns() -> Vec<SortColumn> {
    table::SORT_COLUMNS.to_vec()
}

impl JobListState {
    /// Updates the rows, and the sparklines of those that are drawn next.
    pub(crate) fn prepare(
        &mut self,
        context: RenderContext<'_>,
        selection: Option<&SharedSelection>,
        (_, height): Size,
    ) {
        let cursor = selection.map(|selection| self.position(context, selection));
        let count = self.rows.list.len();
        // Notes above the table may leave fewer.
        let above = if height >= MIN_SUMMARY_HEIGHT { LINES_ABOVE } else { 0 };
        let visible = self.cursor.viewport.scrolled_to(height - above, count, cursor);
        self.update_series(context, visible.range(count));
    }

    /// Draws the list in at most `height` lines, with a cursor if there is a selection to follow.
    pub(crate) fn lines(
        &self,
        context: RenderContext<'_>,
        selection: Option<&SharedSelection>,
        (width, height): Size,
    ) -> DrawnView {
        let rows = &self.rows;
        let mut lines = notes(context, rows, height);
        if rows.list.is_empty() {
            lines.extend(finished_note(context));
            lines.truncate(height);
            let lines = lines.into_iter().map(|line| line.truncated(width));
            return lines.collect::<Vec<_>>().into();
        }
        if height >= MIN_SUMMARY_HEIGHT {
            lines.push(Line::new());
        }
        let cursor = selection.map(|selection| self.position(context, selection));
        let room = height.saturating_sub(lines.len());
        let table = table::JobListTable::laid_out(context, rows, &self.series, width);
        let titles = (room > 1).then(|| table::titles(&table, self.order));
        let list = self.cursor.viewport.draw_below(
            &mut lines,
            titles,
            (rows.list.len(), cursor),
            (width, room),
            |at| {
                let row = rows.list.get(at)?;
                let job = rows.job(context.view, row)?;
                let finished = row.finished_job(context.view);
                Some(table::row(&table, job, row, finished).clickable_line(Click::Row(at)))
            },
        );
        // Where the jobs would be that have ended.
        if rows.list.len() + 1 < room {
            lines.extend(finished_note(context));
        }
        let lines = lines.into_iter().take(height).map(|line| line.truncated(width)).collect();
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }

    pub(super) fn step(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        movement: Movement,
    ) {
        let at = self.position(context, selection);
        let to = self.cursor.moved(movement, self.rows.list.len(), Some(at));
        self.select(context, selection, to);
    }

    /// Puts the cursor on a row; returns true if it was there already.
    pub(super) fn click(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        row: usize,
    ) -> bool {
        let is_again = self.position(context, selection) == row;
        self.select(context, selection, row);
        is_again
    }

    /// Selects the job under the cursor, or says why it cannot be opened; `None` for an empty list.
    pub(super) fn open(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
    ) -> Result<(), Option<String>> {
        let at = self.position(context, selection);
        let row = self.rows.list.get(at).ok_or(None)?;
        let job = self.rows.job(context.view, row).ok_or(None)?;
        if let Some(finished) = row.finished_job(context.view) {
            return Err(Some(format!(
                "job {} has ended: {}",
                job.shown_id,
                finished.outcome_text()
            )));
        }
        if row.load.is_none() {
            return Err(Some(waiting_message(context, row, job)));
        }
        self.select(context, selection, at);
        Ok(())
    }

    /// Returns the job beside the selected one in the order of the list, among those that have nodes.
    pub(super) fn neighbour(
        &mut self,
        context: RenderContext<'_>,
        selection: &SharedSelection,
        movement: Movement,
    ) -> Option<Job> {
        self.settle(context);
        let jobs: Vec<&Job> = self.rows.with_nodes(context.view).collect();
        let selected = selection.last_job();
        let at = jobs.iter().position(|job| selected.is_some_and(|known| known.id == job.id));
        let page = self.cursor.viewport.rows;
        let to = at.map_or(0, |at| movement.new_index(at, jobs.len(), page));
        jobs.get(to).map(|job| (*job).clone())
    }

    /// Returns the position of a job among those that have nodes, and their number.
    pub(super) fn place(&self, context: RenderContext<'_>, job: &Job) -> (usize, usize) {
        let mut jobs = self.rows.with_nodes(context.view);
        let count = jobs.clone().count();
        (jobs.position(|one| one.id == job.id).unwrap_or(0), count)
    }

    /// Returns the job under the cursor; `None` for an empty list.
    pub(super) fn selected_job(
        &self,
        context: RenderContext<'_>,
        selection: &SharedSelection,
    ) -> Option<Job> {
        let row = self.rows.list.get(self.position(context, selection))?;
        self.rows.job(context.view, row).cloned()
    }

    pub(super) fn forget_series(&mut self) {
        self.series.clear();
        (self.rows, self.rows_key) = Default::default();
    }

    /// Returns the row under the cursor: that of the job last selected here or elsewhere, or else the first.
    fn position(&self, context: RenderContext<'_>, selection: &SharedSelection) -> usize {
        let rows = &self.rows;
        let found = self.cursor.find(&rows.list, |row, id| rows.has_id(context.view, row, id));
        let selected = found.or_else(|| {
            let id = &selection.last_job()?.shown_id;
            rows.list.iter().position(|row| rows.has_id(context.view, row, id))
        });
        selected.unwrap_or(0)
    }

    fn select(&mut self, context: RenderContext<'_>, selection: &mut SharedSelection, row: usize) {
        let Some(found) = self.rows.list.get(row) else { return };
        let Some(job) = self.rows.job(context.view, found) else { return };
        self.cursor.select(row, Some(Arc::clone(&job.shown_id)));
        if found.load.is_some() {
            selection.set_job(Some(job.clone()));
        }
    }

    pub(super) fn follow(&mut self, selection: &SharedSelection) {
        if let Some(job) = selection.last_job() {
            self.cursor.select(0, Some(Arc::clone(&job.shown_id)));
        }
    }

    /// Updates the rows where jobs have begun or ended. While a job is shown in place of the list, their order stays and
    /// their loads are not needed.
    pub(super) fn settle(&mut self, context: RenderContext<'_>) {
        let has_order = self.rows_key.as_ref().is_some_and(|(_, order)| *order == self.order);
        if !has_order || !self.rows.has_jobs_of(context.view.job_index()) {
            self.refresh(context);
        }
    }

    /// Updates the rows, cached until the data or the sort order changes.
    pub(crate) fn refresh(&mut self, context: RenderContext<'_>) {
        let index = context.view.job_index();
        let is_same = self
            .rows_key
            .as_ref()
            .is_some_and(|(known, order)| Arc::ptr_eq(known, index) && *order == self.order);
        if !is_same {
            self.rows = Arc::new(JobRows::of(context.view, self.order, Some(&self.rows)));
            self.rows_key = Some((Arc::clone(index), self.order));
        }
        let Self { cursor, rows, .. } = self;
        cursor.follow(&rows.list, |row, id| rows.has_id(context.view, row, id));
    }

    /// Appends to the sparklines of these rows, and forgets the others.
    fn update_series(&mut self, context: RenderContext<'_>, visible: Range<usize>) {
        let mut before = std::mem::take(&mut self.series);
        let visible = self.rows.list.get(visible).unwrap_or_default().iter();
        for row in visible.filter(|row| row.load.is_some()) {
            let Some(job) = self.rows.job(context.view, row) else { continue };
            let mut series = before.remove(&job.shown_id).unwrap_or_default();
            let FleetView { fleet, now, .. } = context.view;
            series.update_with(fleet, *now, self.rows.sampled_devices(row));
            self.series.insert(Arc::clone(&job.shown_id), series);
        }
    }
}

/// Returns the lines above the table: how many jobs there are, and what is wrong with the list.
fn notes(context: RenderContext<'_>, rows: &JobRows, height: usize) -> Vec<Line> {
    let list = context.view.fleet.jobs.as_deref();
    let message = list.and_then(|list| context.options.selection.no_jobs_message(list));
    let messages = message.into_iter().map(|sentence| Line::styled(sentence, Tone::Plain));
    let notes = list.iter().flat_map(|list| &list.notes);
    let notes = notes.map(|note| Line::styled(&**note, Tone::Warn));
    let mut lines: Vec<Line> = messages.chain(notes).collect();
    if rows.list.is_empty() && lines.is_empty() {
        if rows.hidden > 0 || !context.view.job_index().entries.is_empty() {
            let line = Line::styled("no node of any job matches the filter", Tone::Warn);
            let hidden = format!("; {} pending not shown", rows.hidden);
            lines.push(line.text(if rows.hidden > 0 { &*hidden } else { "" }, Tone::Faint));
        } else {
            let watch = context.options.scheduler.watch;
            lines.push(Line::styled(NO_JOBS_TEXT, Tone::Faint));
            let hint = format!("{watch} shows your jobs and their nodes");
            lines.push(Line::styled(hint, Tone::Faint));
        }
    }
    if height >= MIN_SUMMARY_HEIGHT && !rows.list.is_empty() {
        lines.insert(0, summary(context, rows));
    }
    lines
}

/// Returns why the jobs that have ended are not known, or no newer ones.
fn finished_note(context: RenderContext<'_>) -> Option<Line> {
    let finished = &context.view.fleet.jobs.as_ref()?.finished;
    let error = finished.error.as_ref()?;
    let text = match finished.at {
        None => format!("finished jobs are unknown: {error}"),
        Some(at) => {
            let age = format_age(context.view.now.since(at));
            format!("finished jobs as of {age} ago: {error}")
        }
    };
    Some(Line::styled(text, Tone::Faint))
}

/// Counts the jobs that have nodes, those that wait for some, those that have ended, and the devices that they leave idle.
fn summary(context: RenderContext<'_>, rows: &JobRows) -> Line {
    let fleet_view = context.view;
    let ListCounts { own, with_nodes, pending, has_more_tasks, idle, outliers, finished } =
        rows.counts;
    let is_partial = fleet_view.fleet.jobs.as_ref().is_some_and(|list| list.finished.is_partial);
    let more_finished = if is_partial { "+" } else { "" };
    let (jobs, tone) = if fleet_view.filter.is_empty() {
        (format!("{} with nodes", counted(with_nodes, "job")), Tone::Strong)
    } else {
        let all = counted(fleet_view.job_index().entries.len(), "job");
        (format!("{with_nodes} of {all} with nodes {}", match_verb(with_nodes)), Tone::Accent)
    };
    let more = if has_more_tasks { "+" } else { "" };
    let awaited = fleet_view.fleet.jobs.as_ref().filter(|list| list.awaits_devices);
    let unknown = awaited.map_or(0, |list| list.jobs_without_devices());
    let watch = context.options.scheduler.watch;
    let unlisted = format!("known from processes only; {watch} shows pending ones too");
    let parts = [
        (with_nodes > 0, jobs, tone),
        (pending > 0, format!("{pending}{more} pending"), Tone::Plain),
        (own > 0, format!("{own} yours on top"), Tone::Accent),
        (idle > 0, format!("{} idle", counted(idle, "device")), Tone::Warn),
        (outliers > 0, counted(outliers, "outlier"), Tone::Warn),
        (finished > 0, format!("{finished}{more_finished} finished"), Tone::Faint),
        (rows.hidden > 0, format!("{} pending not shown", rows.hidden), Tone::Faint),
        (unknown > 0, format!("devices of {unknown} not known yet"), Tone::Faint),
        (fleet_view.fleet.jobs.is_none(), unlisted, Tone::Faint),
    ];
    let present = parts.into_iter().filter(|(is_present, ..)| *is_present);
    Line::of_notes(&present.map(|(_, text, tone)| (text, tone)).collect::<Vec<_>>())
}

/// Returns why a job without nodes cannot be opened.
fn waiting_message(context: RenderContext<'_>, row: &JobRow, job: &Job) -> String {
    let mut text = format!("job {} has no nodes yet", job.shown_id);
    if let Some(reason) = job.reason.as_deref() {
        text = format!("{text}: {reason}");
    }
    if row.is_pending(job) && job.starts_at.is_some() {
        let start = expected_start(job, context.view.now, context.zone);
        text = format!("{text}; it starts {start}");
    }
    text
}
