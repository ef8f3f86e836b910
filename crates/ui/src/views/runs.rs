//! The view of training runs: one row per run, which unfolds into its processes and their threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::action::{RowAction, RunAction};
use crate::dialog::Dialog;
use crate::dialog::delete::DeleteDialog;
use crate::dialog::output::OutputDialog;
use crate::dialog::run_filter::RunFilter;
use crate::dialog::variables::VariablesDialog;
use crate::display_options::DisplayOptions;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::process_target::ProcessTarget;
use crate::render_context::{RenderContext, Size};
use crate::request::UiRequest;
use crate::view_state::{Explained, Shared, ViewState};
use crate::views::runs::rows::{RunRowId, TableRow};
use crate::views::runs::table::SeenColumns;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::{Explanation, Fact};
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{ListCursor, Viewport, cycled};
use gtop_fleet::Fleet;
use gtop_fleet::insight::node_status::shown_id;
use gtop_fleet::insight::runs::{Liveness, RunRow, Runs};
use gtop_fleet::insight::{FleetView, RowId};
use gtop_fleet::query::DisplaySelection;
use gtop_local::time::Timestamp;
use gtop_model::{JobId, ProcessKey, RunId, RunStatus, Signal};

mod columns;
mod rows;
mod summary;
mod table;

/// What to do where no runs are watched.
pub(crate) const NOT_WATCHED: &str = "no training runs are watched; start gtop runs FOLDER";

/// Columns of the printed table: enough for all.
pub const REPORT_WIDTH: u16 = 2_000;

/// The statuses that the table can be limited to.
const STATUSES: [Option<RunStatus>; 7] = [
    None,
    Some(RunStatus::Running),
    Some(RunStatus::Finished),
    Some(RunStatus::Canceled),
    Some(RunStatus::Failed),
    Some(RunStatus::Killed),
    Some(RunStatus::Unknown),
];

/// How far a run is unfolded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfolded {
    Processes,
    Threads,
}

/// The view's filters, cursor and scroll positions.
#[derive(Clone, Debug, Default)]
pub struct State {
    status: Option<RunStatus>,
    /// Part of the names of shown runs.
    name: String,
    /// The job whose runs are shown.
    job: Option<JobId>,
    unfolded: BTreeMap<RunId, Unfolded>,
    rows: Vec<TableRow>,
    cursor: ListCursor<RunRowId>,
    /// The first column after the fixed ones.
    pub(crate) first_column: usize,
    seen_columns: SeenColumns,
    /// Outputs open in windows of their own, not in a dialog.
    pub(crate) opens_windows: bool,
}

impl ViewState for State {
    /// Updates the rows that match the filters, with those that are unfolded.
    fn refresh(&mut self, context: RenderContext<'_>, _: &mut Shared) {
        let runs = context.view.runs.as_deref().map_or(&[][..], |runs| &runs.rows);
        let name = self.name.to_lowercase();
        let mut rows = Vec::with_capacity(runs.len());
        for run in runs.iter().filter(|row| self.shows(row, &name)) {
            rows.push(TableRow { run: Arc::clone(run), process: None });
            let Some(unfolded) = self.unfolded.get(&run.run.id) else { continue };
            let tree = run.process.iter().flat_map(|process| process.tree.iter()).enumerate();
            for (index, process) in tree {
                rows.push(TableRow { run: Arc::clone(run), process: Some((index, None)) });
                if *unfolded == Unfolded::Threads {
                    let threads = 0..process.tasks.len();
                    rows.extend(threads.map(|thread| TableRow {
                        run: Arc::clone(run),
                        process: Some((index, Some(thread))),
                    }));
                }
            }
        }
        self.rows = rows;
        if let Some(runs) = &context.view.runs {
            self.seen_columns.update(context, runs);
        }
        self.cursor.follow(&self.rows, |row, id| row.id() == *id);
    }

    fn update(&mut self, _: RenderContext<'_>, _: &mut Shared, action: &RowAction) -> Effect {
        let selected = self.position();
        match action {
            RowAction::Move(movement) => {
                self.select(self.cursor.moved(*movement, self.rows.len(), Some(selected)));
            }
            RowAction::Click(Click::Row(row)) if *row == selected => return self.open(),
            RowAction::Click(Click::Row(row)) => self.select(*row),
            RowAction::Open => return self.open(),
            RowAction::Back if self.reset() => {}
            RowAction::Back | RowAction::Click(_) => return Effect::Ignored,
        }
        Effect::Handled
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        vec![("Columns of runs", columns::column_specs())]
    }

    fn explain(&mut self, context: RenderContext<'_>, _: &Shared) -> Explained {
        let row = self.rows.get(self.position()).ok_or("no run is selected")?;
        let facts = columns::all().map(|column| {
            let (value, _) = column.cell(context, &row.run);
            Fact::of_cell(&column.title, value, column.help)
        });
        let facts = facts.filter(Fact::has_value).collect();
        let explanation = Explanation::new(format!("run {}", row.run.title()));
        Ok(explanation.with_numbers("from its files and processes", None, facts))
    }

    fn lines(&self, context: RenderContext<'_>, _: &Shared, size: Size) -> DrawnView {
        let (width, height) = size;
        let Some(runs) = &context.view.runs else {
            return vec![Line::styled(NOT_WATCHED, Tone::Faint).truncated(width)].into();
        };
        let rows = &self.rows;
        let mut lines = summary::lines(context, runs, self.filter_text(context.view), size);
        let room = height.saturating_sub(lines.len());
        if rows.is_empty() {
            let text = self.why_empty(context.view, runs);
            lines.push(Line::styled(text, Tone::Faint).truncated(width));
            lines.truncate(height);
            return lines.into();
        }
        let selected = self.position();
        let titles = usize::from(height > 1);
        let room_of_rows = room.saturating_sub(titles);
        let list = self.cursor.viewport.scrolled_to(room_of_rows, rows.len(), Some(selected));
        let visible = rows.get(list.range(rows.len())).unwrap_or_default();
        let columns = (&self.seen_columns, self.first_column);
        let table = table::RunTable::new(context, runs, visible, columns, width);
        list.draw_below(
            &mut lines,
            (titles > 0).then(|| table.titles()),
            (rows.len(), Some(selected)),
            (width, room),
            |at| Some(table.row(rows.get(at)?).clickable_line(Click::Row(at))),
        );
        let first_column = Some(table.first_column());
        DrawnView { lines, list: Some(list), first_column, panel: None }
    }

    fn viewport(&mut self) -> Option<&mut Viewport> {
        Some(&mut self.cursor.viewport)
    }
}

impl State {
    /// Shows only the runs of a job.
    pub(crate) fn show_job(&mut self, job: Option<JobId>) {
        self.job = job;
    }

    /// Returns the runs whose threads are listed.
    pub(crate) fn unfolded(&self) -> Vec<RunId> {
        let threads = self.unfolded.iter().filter(|(_, how)| **how == Unfolded::Threads);
        threads.map(|(run, _)| run.clone()).collect()
    }

    pub(crate) fn update_runs(&mut self, context: RenderContext<'_>, action: &RunAction) -> Effect {
        let selected = self.rows.get(self.position());
        let run = selected.map(|row| Arc::clone(&row.run));
        let is_readonly = context.options.is_readonly;
        match (action, run) {
            (RunAction::NextStatus, _) => self.status = cycled(&STATUSES, self.status, true),
            (RunAction::Filter, _) => {
                return Effect::OpenDialog(Dialog::RunFilter(RunFilter::new(&self.name)));
            }
            (RunAction::SetFilter(text), _) => self.name.clone_from(text),
            (RunAction::Left, _) => self.first_column = self.first_column.saturating_sub(1),
            (RunAction::Right, _) => self.first_column += 1,
            (RunAction::SignalAll, _) => {
                let running =
                    self.rows.iter().filter(|row| row.process.is_none() && row.run.is_running());
                let targets: Vec<_> = running.filter_map(|row| target(row).ok()).collect();
                let targets = Some(targets).filter(|targets| !targets.is_empty());
                let targets =
                    targets.ok_or("none of the runs shown is known to be running".to_owned());
                return Effect::signal(context, None::<Signal>, targets);
            }
            (RunAction::Signal, Some(_)) => {
                let target = selected.map_or(Err(String::new()), target);
                return Effect::signal(context, None, target.map(|target| vec![target]));
            }
            (RunAction::Unfold, Some(run)) => self.unfold(&run),
            (RunAction::Edit, Some(run)) => {
                let dialog = VariablesDialog::new(&run, is_readonly);
                return Effect::OpenDialog(Dialog::Variables(Box::new(dialog)));
            }
            (RunAction::Output, Some(run)) if self.opens_windows => {
                return Effect::Request(UiRequest::OpenOutputWindow(run.run.id.clone()));
            }
            (RunAction::Output, Some(run)) => {
                let dialog = OutputDialog::new(run.run.id.clone(), run.title().into());
                return Effect::OpenDialog(Dialog::Output(Box::new(dialog)));
            }
            (RunAction::Delete, Some(_)) if is_readonly => {
                return Effect::Message("deleting is disabled (--readonly)".to_owned());
            }
            (RunAction::Delete, Some(run)) => {
                if let Some(obstacle) = run.deletion_obstacle() {
                    return Effect::Message(format!("{} was not deleted: {obstacle}", run.title()));
                }
                return Effect::OpenDialog(Dialog::Delete(Box::new(DeleteDialog::new(&run))));
            }
            (_, None) => return Effect::Message("no run is selected".to_owned()),
            (RunAction::OfJob, _) => return Effect::Ignored,
        }
        Effect::Handled
    }

    /// Returns true if runs are left out or unfolded.
    pub(crate) fn is_changed(&self) -> bool {
        self.status.is_some()
            || !self.name.is_empty()
            || self.job.is_some()
            || !self.unfolded.is_empty()
    }

    /// Clears the filters and folds all runs; returns false if there was nothing to clear.
    fn reset(&mut self) -> bool {
        let is_changed = self.is_changed();
        (self.status, self.job) = (None, None);
        self.name.clear();
        self.unfolded.clear();
        is_changed
    }

    fn filter_text(&self, fleet_view: &FleetView) -> Option<String> {
        let status = self.status.map(|status| status.as_str().to_owned());
        let name = (!self.name.is_empty()).then(|| format!("name {:?}", self.name));
        let jobs = fleet_view.fleet.jobs.as_deref();
        let job = self.job.as_ref().map(|job| format!("job {}", shown_id(jobs, job)));
        let all: Vec<String> = [status, name, job].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn why_empty(&self, fleet_view: &FleetView, runs: &Runs) -> String {
        if let Some(filter) = self.filter_text(fleet_view).filter(|_| !runs.rows.is_empty()) {
            return format!("none of {} runs matches {filter}; Esc shows all", runs.rows.len());
        }
        let is_answered = runs.list.folders.iter().any(|folder| folder.answered_at.is_some());
        if is_answered { "no runs here yet" } else { "waiting for the folder…" }.to_owned()
    }

    fn unfold(&mut self, run: &RunRow) {
        let id = run.run.id.clone();
        match self.unfolded.get(&id) {
            None => self.unfolded.insert(id.clone(), Unfolded::Processes),
            Some(Unfolded::Processes) => self.unfolded.insert(id.clone(), Unfolded::Threads),
            Some(Unfolded::Threads) => self.unfolded.remove(&id),
        };
        if !self.unfolded.contains_key(&id) {
            // The cursor stays on the run when its rows fold.
            self.cursor.select(0, Some(RunRowId { run: id, process: None, thread: None }));
        }
    }

    /// Opens the node of a run, with the cursor on its process if that uses a device.
    fn open(&self) -> Effect {
        let Some(row) = self.rows.get(self.position()) else { return Effect::Ignored };
        let Some(node) = row.run.node.clone() else {
            let text = if let Liveness::Elsewhere(host) = &row.run.liveness {
                format!("{host} is not watched; name it on the command line to see its node")
            } else {
                "the run does not say which host it runs on".to_owned()
            };
            return Effect::Message(text);
        };
        let tree = row.run.process.iter().flat_map(|process| process.tree.iter());
        // The process of the row, or else the first of the run that uses a device.
        let mut candidates = row.process().into_iter().chain(tree);
        let row_id = candidates.find_map(|process| device_row(&row.run, process.key));
        Effect::OpenNode(node, row_id)
    }

    /// Returns true if a run matches the filters, of which this is the name in lowercase.
    fn shows(&self, row: &RunRow, name: &str) -> bool {
        self.status.is_none_or(|status| row.status == status)
            && (name.is_empty()
                || row.run.id.name.to_lowercase().contains(name)
                || row.title().to_lowercase().contains(name))
            && (self.job.is_none() || row.job == self.job)
    }

    fn select(&mut self, at: usize) {
        self.cursor.select(at, self.rows.get(at).map(TableRow::id));
    }

    /// Returns the position of the selected row: where it is now, or that of its run. If the run is gone, the cursor stays
    /// where it was.
    fn position(&self) -> usize {
        let Some(id) = self.cursor.key() else { return 0 };
        let rows = &self.rows;
        let exact = self.cursor.find(rows, |row, id| row.id() == *id);
        exact
            .or_else(|| rows.iter().position(|row| row.run.run.id == id.run))
            .unwrap_or_else(|| self.cursor.last_index(rows.len()))
    }
}

/// Returns the table of all runs, with all its columns.
pub fn report(runs: Runs, fleet: Fleet, now: Timestamp) -> Vec<Line> {
    let mut view = FleetView::printed(fleet, now, &DisplaySelection::default());
    let rows = runs.rows.iter().map(|run| TableRow { run: Arc::clone(run), process: None });
    let rows: Vec<TableRow> = rows.collect();
    let runs = Arc::new(runs);
    view.runs = Some(Arc::clone(&runs));
    let (options, zone) = (DisplayOptions::default(), TimeZone::system());
    let context = RenderContext { view: &view, options: &options, zone: &zone };
    let mut lines = summary::lines(context, &runs, None, (u16::MAX, usize::MAX));
    if !rows.is_empty() {
        let mut seen = SeenColumns::default();
        seen.update(context, &runs);
        let table = table::RunTable::new(context, &runs, &rows, (&seen, 0), REPORT_WIDTH);
        lines.push(table.titles());
        lines.extend(rows.iter().map(|row| table.row(row)));
    }
    lines
}

/// Returns the process that a signal to a row goes to, or why there is none.
fn target(row: &TableRow) -> Result<ProcessTarget, String> {
    let run = &row.run;
    let process = run.process.as_ref().zip(run.node.as_ref());
    let Some((main, node)) = process else {
        return Err(match &run.liveness {
            Liveness::Elsewhere(host) => {
                format!("{} runs on {host}, which is not watched", run.title())
            }
            Liveness::Unreachable => "its host does not answer".to_owned(),
            Liveness::Unknown(reason) => (*reason).to_owned(),
            Liveness::Alive
            | Liveness::Stopped
            | Liveness::Ended
            | Liveness::Gone
            | Liveness::Zombie
            | Liveness::PidReused => format!("{} is not running", run.title()),
        });
    };
    let process = row.process().or_else(|| main.tree.first());
    let key = process.map_or(main.key, |process| process.key);
    let name = process.map_or_else(|| Arc::from(""), |process| Arc::clone(&process.name));
    let command = format!("{name} of run {}", run.title());
    Ok(ProcessTarget::of_run(node.clone(), key, run.run.user.clone(), command.into()))
}

/// Returns the row of a process in the tables of its node, if it uses a device.
fn device_row(row: &RunRow, key: ProcessKey) -> Option<RowId> {
    let (device, _) = row.resources.uses.iter().find(|(_, pid)| *pid == key.pid)?;
    Some(RowId::Process {
        device: Arc::clone(device),
        pid: key.pid,
        start_ticks: Some(key.start_ticks),
    })
}
