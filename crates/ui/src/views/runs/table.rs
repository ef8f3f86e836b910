//! Lays out the table of runs: the name and the status stay, the other columns scroll.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::render_context::RenderContext;
use crate::views::runs::columns::{
    COLUMNS, MAX_NAME_WIDTH, NOTE, RunColumn, STATUS, min_width, status_tone,
};
use crate::views::runs::rows::TableRow;
use crate::views::runs::summary::is_old;
use crate::widgets::line::{Line, Tone};
use crate::widgets::number_format::or_unknown;
use gtop_fleet::insight::runs::Runs;
use gtop_local::text::{UNKNOWN, width_of};

/// Columns of the gap between two columns.
const GAP: u16 = 1;
/// Maximum number of columns of custom metrics.
const MAX_METRICS: usize = 32;
/// Maximum width of any column but the last.
const MAX_WIDTH: u16 = 40;
/// Maximum width of the last column.
const MAX_LAST_WIDTH: u16 = 160;
/// Columns that stand even if no run has a value for them.
const ALWAYS: [&str; 10] =
    ["PHASE", "EPOCH", "BATCH", "LOSS", "LR", "ELAPSED", "LEFT", "CPU%", "RAM", "HOST"];

/// The columns that had a value once. They stay, so that the others stand still when all runs begin another phase.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenColumns {
    titles: BTreeSet<String>,
    metrics: Vec<String>,
}

impl SeenColumns {
    /// Notes the columns that have a value now.
    pub(super) fn update(&mut self, context: RenderContext<'_>, runs: &Runs) {
        self.add_metrics(runs);
        let unseen: Vec<RunColumn> = self.all().filter(|column| !self.has(column)).collect();
        for column in unseen {
            if runs.rows.iter().any(|row| column.cell(context, row).0 != UNKNOWN) {
                self.titles.insert(column.title.into_owned());
            }
        }
    }

    /// Returns all columns between the status and the end.
    fn all(&self) -> impl Iterator<Item = RunColumn> {
        let metrics = self.metrics.iter().map(|name| RunColumn::metric(name));
        COLUMNS.into_iter().chain(metrics).chain([NOTE])
    }

    /// Returns true if a column stands: always, or since it had a value.
    fn has(&self, column: &RunColumn) -> bool {
        ALWAYS.contains(&&*column.title) || self.titles.contains(&*column.title)
    }

    /// Adds the names of the custom metrics of all runs, in the order in which they first occur.
    fn add_metrics(&mut self, runs: &Runs) {
        let progress = runs.rows.iter().filter_map(|row| row.run.progress.as_ref());
        for (name, _) in progress.flat_map(|progress| progress.metrics.iter()) {
            if self.metrics.len() >= MAX_METRICS {
                break;
            }
            if !self.metrics.iter().any(|known| **known == **name) {
                self.metrics.push(name.to_string());
            }
        }
    }
}

/// The table with the columns that fit.
pub(super) struct RunTable<'a> {
    context: RenderContext<'a>,
    name_width: u16,
    status_width: u16,
    /// The visible columns with their widths.
    columns: Vec<(RunColumn, u16)>,
    first_column: usize,
    /// The number of columns on the left and on the right that do not fit.
    hidden: (usize, usize),
    /// The folders that have not answered for a while.
    old_folders: Vec<Arc<str>>,
    width: u16,
}

impl<'a> RunTable<'a> {
    /// Lays out the table for its visible rows, scrolled to a column.
    pub(super) fn new(
        context: RenderContext<'a>,
        runs: &Runs,
        visible: &[TableRow],
        (seen, first_column): (&SeenColumns, usize),
        width: u16,
    ) -> Self {
        let names = visible.iter().map(|row| width_of(&name(row)));
        let limit = MAX_NAME_WIDTH.min((width / 4).max(8));
        let name_width = names.max().unwrap_or(0).clamp(4, limit);
        let status_width = column_width(context, &STATUS, visible);
        let all: Vec<RunColumn> = seen.all().filter(|column| seen.has(column)).collect();
        let room = width.saturating_sub(name_width + GAP + status_width + GAP);
        let widths: Vec<u16> =
            all.iter().map(|column| column_width(context, column, visible)).collect();
        // The last columns fill the screen; scrolling ends there.
        let mut last_page = all.len();
        let mut needed = 0;
        while let Some(width) = last_page.checked_sub(1).and_then(|at| widths.get(at)) {
            needed += width + GAP;
            if needed > room + GAP {
                break;
            }
            last_page -= 1;
        }
        let first_column = first_column.min(last_page.min(all.len().saturating_sub(1)));
        let mut columns: Vec<(RunColumn, u16)> = Vec::new();
        let mut spare = room;
        let count = all.len();
        for (column, width) in all.into_iter().zip(widths).skip(first_column) {
            if width > spare && !columns.is_empty() {
                break;
            }
            let width = width.min(spare);
            spare = spare.saturating_sub(width + GAP);
            columns.push((column, width));
        }
        let right = count - first_column - columns.len();
        // Numbers stand at the right edge of their column: only a text can use more width.
        if right == 0
            && let Some((column, last)) = columns.last_mut()
            && !column.is_right
        {
            *last = (*last + spare).min(MAX_LAST_WIDTH.max(*last));
        }
        let hidden = (first_column, right);
        let old = runs.list.folders.iter().filter(|folder| is_old(folder, context.view.now));
        let old_folders = old.map(|folder| Arc::clone(&folder.label)).collect();
        Self {
            context,
            name_width,
            status_width,
            columns,
            first_column,
            hidden,
            old_folders,
            width,
        }
    }

    pub(super) const fn first_column(&self) -> usize {
        self.first_column
    }

    /// Returns the titles, with arrows where more columns are.
    pub(super) fn titles(&self) -> Line {
        let mut line = Line::new()
            .left_aligned("RUN", self.name_width, Tone::Faint)
            .gap(GAP)
            .left_aligned(&STATUS.title, self.status_width, Tone::Faint);
        for (index, (column, width)) in self.columns.iter().enumerate() {
            let is_first = index == 0 && self.hidden.0 > 0;
            line = line.text(if is_first { "‹" } else { " " }, Tone::Accent);
            line = aligned(line, column, *width, &column.title, Tone::Faint);
        }
        if self.hidden.1 > 0 {
            line = line.truncated(self.width.saturating_sub(1)).text("›", Tone::Accent);
        }
        line
    }

    pub(super) fn row(&self, row: &TableRow) -> Line {
        if row.process.is_some() {
            return self.process_row(row);
        }
        let (status, tone) = STATUS.cell(self.context, &row.run);
        let run = &row.run.run;
        let is_old = run.fault.is_some() || self.old_folders.contains(&run.id.folder);
        let mut line = Line::new()
            .left_aligned(&name(row), self.name_width, status_tone(&row.run))
            .gap(GAP)
            .left_aligned(&status, self.status_width, tone);
        for (column, width) in &self.columns {
            let (text, tone) = column.cell(self.context, &row.run);
            let tone = if is_old && tone == Tone::Plain { Tone::Faint } else { tone };
            line = aligned(line.gap(GAP), column, *width, &text, tone);
            if let Some(url) = column.url(&row.run) {
                line = line.linked(url);
            }
        }
        line
    }

    /// Returns the row of a process or a thread: its values stand under the titles of the run's.
    fn process_row(&self, row: &TableRow) -> Line {
        let (thread, process) = (row.thread(), row.process());
        let tone = if thread.is_some() { Tone::High } else { Tone::Low };
        let name_width = self.name_width + GAP + self.status_width;
        let mut line = Line::new().left_aligned(&name(row), name_width, tone);
        for (column, width) in &self.columns {
            let cpu = match thread {
                Some(thread) => thread.cpu_percent,
                None => process.and_then(|process| process.cpu_percent),
            };
            let text = match (&*column.title, thread, process) {
                ("CPU%", _, Some(_)) => or_unknown(cpu, |cpu| format!("{cpu:.0}")),
                ("PID", Some(thread), _) => thread.tid.to_string(),
                ("RAM", None, Some(process)) => {
                    self.context.options.units().amount(process.resident)
                }
                ("THREADS", None, Some(process)) => process.threads.to_string(),
                ("PID", None, Some(process)) => process.key.pid.to_string(),
                _ => String::new(),
            };
            line = aligned(line.gap(GAP), column, *width, &text, tone);
        }
        line
    }
}

/// Returns the width that a column needs for some rows.
fn column_width(context: RenderContext<'_>, column: &RunColumn, rows: &[TableRow]) -> u16 {
    let cells = rows.iter().filter(|row| row.process.is_none());
    let cells = cells.map(|row| width_of(&column.cell(context, &row.run).0));
    let usual = min_width(&column.title).max(width_of(&column.title));
    cells.max().unwrap_or(0).max(usual).min(MAX_WIDTH)
}

fn aligned(line: Line, column: &RunColumn, width: u16, text: &str, tone: Tone) -> Line {
    if column.is_right {
        line.right_aligned(text, width, tone)
    } else {
        line.left_aligned(text, width, tone)
    }
}

/// Returns the name of a row: of the run, or of a process or thread below it.
fn name(row: &TableRow) -> String {
    match (row.thread(), row.process()) {
        (Some(thread), _) => format!("    [T] {} {}", thread.tid, thread.name),
        (None, Some(process)) => format!("  [P] {} {}", process.key.pid, process.name),
        (None, None) => row.run.title().to_owned(),
    }
}
