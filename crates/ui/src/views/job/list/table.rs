//! The columns of the list of jobs. Jobs that wait or have ended share the first columns; what they wait for, or how they
//! ended, takes the others' place.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::render_context::RenderContext;
use crate::timeline::time_text;
use crate::views::job::header::idle_time;
use crate::views::job::list::rows::{JobRow, JobRows, rises};
use crate::views::job::load::JobLoad;
use crate::views::job::series::MeanSeries;
use crate::widgets::line::{Line, Tone, severity_sign};
use crate::widgets::number_format::{format_run_time, or_unknown};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::UNKNOWN;
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{FinishedJob, Job, JobOutcome, JobState, nodeset};

/// The columns that the list can be sorted by.
pub(super) const SORT_COLUMNS: [SortColumn; 12] = [
    SortColumn::new("worst", 'w', "worst first", WORST_HELP),
    SortColumn::new("job", '#', "id", "by job id"),
    SortColumn::new("jobname", 'n', "name", "by name"),
    SortColumn::new("jobuser", 'u', "user", "by user"),
    SortColumn::new("devices", 'd', "devices", "by number of devices"),
    SortColumn::new("util", '%', "utilization", "by utilization"),
    SortColumn::new("idle", 'i', "idle devices", "by number of idle devices"),
    SortColumn::new("wasted", 'a', "wasted", "by wasted device-hours"),
    SortColumn::new("outliers", 'o', "outliers", "by number of outliers"),
    SortColumn::new("used", 't', "time used", "by time used"),
    SortColumn::new("jobstate", 's', "state", "by state"),
    SortColumn::new("partition", 'p', "partition", "by partition"),
];

const WORST_HELP: &str = "your jobs first; on top the worst of the last 30 s";

const DEVICES_HELP: &str = "nodes × devices on each, or those it asks for; 3n 20 if the nodes differ; with a filter, 8/24: those \
     that match, of all; only these count in the columns behind";
const IDLE_HELD_HELP: &str =
    "its devices that are idle-held, and for how long the first of them has been";
const WASTED_HELP: &str = "device-hours that it has held and left idle since gtop watches, on the devices that it still has";
const PROBLEM_HELP: &str = "what is wrong with its devices and nodes: lost, faulty or with ECC errors; down or stale; these jobs \
     stand first";

/// All columns of the list; the id always comes first.
pub const COLUMN_SPECS: [ColumnSpec; 14] = table::specs(&JobListTable::COLUMNS);

/// Width from which problems are shown as texts.
const WIDE_WIDTH: u16 = 100;
const MAX_PROBLEM_WIDTH: u16 = 18;
/// Width of a sign and a number.
const SIGN_WIDTH: u16 = 3;

/// The names of the columns that jobs that wait or have ended have too.
const SHARED_COLUMNS: [&str; 4] = ["job", "jobname", "jobuser", "devices"];

/// What cells are drawn from, apart from their row.
pub(super) struct JobListTable<'a> {
    context: RenderContext<'a>,
    widths: [u16; 4],
    is_wide: bool,
    series: &'a BTreeMap<Arc<str>, MeanSeries>,
}

/// One job and what it does.
pub(super) struct JobListCells<'a> {
    job: &'a Job,
    row: &'a JobRow,
}

impl JobListCells<'_> {
    /// Returns a value of the job's load; `None` too if the job has no nodes.
    fn load<T>(&self, read: fn(&JobLoad) -> Option<T>) -> Option<T> {
        self.row.load.as_ref().and_then(read)
    }
}

type Column<'a> = TableColumn<JobListTable<'a>, JobListCells<'a>>;
pub(super) type LaidOutJobList<'a> = Table<'a, JobListTable<'a>, JobListCells<'a>>;

impl<'a> JobListTable<'a> {
    const COLUMNS: [Column<'a>; 14] = [
        Column::left("ID", 0, |_, cells, _| {
            Cell::toned(cells.job.shown_id.to_string(), Tone::Strong)
        })
        .named("job", "job", "the job's id, as squeue writes it; always shown first")
        .sized(|table, _| table.widths[0].clamp(4, 14)),
        Column::left("NAME", 0, |_, cells, _| Cell::from(cells.job.name.to_string()))
            .named("jobname", "jobname", "the job's name")
            .sized(|table, _| table.widths[1].clamp(4, 10))
            .rank(3)
            .wider(7, |table, room| table.widths[1].saturating_sub(10).min(20).min(room)),
        Column::left("USER", 0, |_, cells, _| {
            let tone = if cells.row.is_own { Tone::Accent } else { Tone::Plain };
            Cell::toned(cells.job.user.to_string(), tone)
        })
        .named("jobuser", "jobuser", "whose job it is; yours stand first")
        .sized(|table, _| table.widths[2].clamp(4, 12))
        .rank(4),
        Column::left("DEVICES", 7, |table, cells, _| {
            let is_filtered = !table.context.view.filter.is_empty();
            match cells.row.matching_text().filter(|_| is_filtered) {
                Some(text) => Cell::toned(text, Tone::Accent),
                None => Cell::from(cells.row.size_text(cells.job)),
            }
        })
        .named("devices", "devices", DEVICES_HELP)
        .rank(1),
        Column::left("PROBLEM", 0, |_, cells, place| {
            let problems = cells.row.problems();
            let sign = cells.row.load.as_ref().filter(|_| problems.width() > place.width);
            Cell::Line(sign.map_or(problems, problem_sign))
        })
        .named("problem", "worst", PROBLEM_HELP)
        .titled(|_, width| if width > SIGN_WIDTH { "PROBLEM" } else { "!" }.into())
        .or_titled(&["!"])
        .sized(|table, _| match table.widths[3] {
            0 => 0,
            width if table.is_wide => width.clamp(8, MAX_PROBLEM_WIDTH),
            _ => SIGN_WIDTH,
        })
        .keeps_tone()
        .rank(2),
        Column::right("UTIL", 4, |table, cells, _| {
            let share = cells.load(JobLoad::mean);
            let tone = table.context.options.load.tone(share);
            Cell::Text(or_unknown(share, |share| format!("{share:.0}%")).into(), tone)
        })
        .named("util", "util", "mean utilization of its devices now")
        .rank(1),
        Column::right("5 MIN", 0, |table, cells, place| {
            let series = table.series.get(&cells.job.shown_id);
            let count = usize::from(place.width);
            let points = series.map(|series| series.columns(count).0).unwrap_or_default();
            let share = cells.load(JobLoad::mean);
            Cell::Line(Line::new().sparkline(points, table.context.options.load.tone(share)))
        })
        .named("chart", "util", "mean utilization of its devices over the last five minutes")
        // Its title needs five columns.
        .sized(|_, room| if room < 5 { 0 } else { room.min(8) })
        .rank(7)
        .wider(9, |_, room| room.min(12)),
        Column::right("IDLE", 4, |_, cells, _| Cell::count(cells.load(JobLoad::idle), Tone::Warn))
            .named("idle", "idle", "its devices that are idle: below 5 % of utilization")
            .rank(2),
        Column::left("IDLE-HELD", 10, |table, cells, _| {
            let Some(load) = &cells.row.load else { return UNKNOWN.into() };
            let Some(longest) = load.idle_held.first() else { return Cell::from(String::new()) };
            let span = idle_time(longest, table.context.view.now).unwrap_or_default();
            Cell::toned(format!("{} {span}", load.idle_held.len()), Tone::Warn)
        })
        .named("idle-held", "idle", IDLE_HELD_HELP)
        .rank(11),
        Column::right("WASTED", 7, |_, cells, _| {
            let wasted = cells.row.load.as_ref().map(|load| load.wasted).unwrap_or_default();
            let is_known = !wasted.is_zero() || cells.load(JobLoad::idle).is_some();
            if is_known { Cell::wasted(wasted) } else { UNKNOWN.into() }
        })
        .named("wasted", "wasted", WASTED_HELP)
        .rank(8),
        Column::right("OUTL", 4, |_, cells, _| {
            Cell::count(cells.load(JobLoad::outliers), Tone::Warn)
        })
        .named("outliers", "outliers", "its devices far from the utilization of the others")
        .rank(5),
        Column::right("USED/LIMIT", 13, |table, cells, _| {
            let job = cells.job;
            let used = job.elapsed(table.context.view.now).map(format_duration);
            match (used, job.limit.map(format_duration)) {
                (Some(used), Some(limit)) => format!("{used}/{limit}").into(),
                (Some(used), None) => used.into(),
                (None, _) => UNKNOWN.into(),
            }
        })
        .named("used", "used", "how long it has run, and its time limit")
        .rank(6),
        Column::left("STATE", 9, |_, cells, _| {
            let job = cells.job;
            let is_running = job.state == JobState::Running;
            let tone = if is_running { Tone::Plain } else { Tone::Warn };
            Cell::toned(job.state_text().to_owned(), tone)
        })
        .named("jobstate", "jobstate", "the scheduler's state of the job")
        .rank(9),
        Column::left("PARTITION", 12, |_, cells, _| cells.job.partition.to_string().into())
            .named("partition", "partition", "the partition it runs in")
            .rank(10),
    ];

    pub(super) fn laid_out(
        context: RenderContext<'a>,
        rows: &JobRows,
        series: &'a BTreeMap<Arc<str>, MeanSeries>,
        width: u16,
    ) -> LaidOutJobList<'a> {
        let is_wide = width >= WIDE_WIDTH;
        let table = Self { context, widths: rows.widths, is_wide, series };
        let room = TableRoom::new(width, 0, if is_wide { 2 } else { 1 });
        Table::fit(&Self::COLUMNS, table, &context.options.columns.jobs, room)
    }
}

/// Draws the worst problem of a job as a sign, and how often it has it.
fn problem_sign(load: &JobLoad) -> Line {
    let Some((count, _, severity)) = load.problems().next() else { return Line::new() };
    Line::styled(format!("{}{count}", severity_sign(severity)), severity)
}

/// Returns the title line, with the sort column marked.
pub(super) fn titles(table: &LaidOutJobList<'_>, order: SortOrder) -> Line {
    table.sorted_titles(
        |spec| spec.sort == order.column && spec.name != "chart",
        rises(order.column) != order.is_reversed,
    )
}

/// Draws a job; `finished` has how it ended, if it has.
pub(super) fn row<'a>(
    table: &LaidOutJobList<'a>,
    job: &'a Job,
    row: &'a JobRow,
    finished: Option<&FinishedJob>,
) -> Line {
    let cells = JobListCells { job, row };
    let Some(load) = &row.load else {
        let context = table.context.context;
        let text = match finished {
            Some(finished) => finished_text(finished, context),
            None => waiting_text(job, context),
        };
        let (count, _) = table.leading(|name| SHARED_COLUMNS.contains(&name));
        let line = table.part_of_row(..count, Line::new(), &cells, Fade::None);
        return line.gap(table.room.gap).append(text);
    };
    table.row(Line::new(), &cells, Fade::if_old(load.fresh == 0))
}

/// Draws how a job ended, when, how long it ran and where.
fn finished_text(finished: &FinishedJob, RenderContext { view, .. }: RenderContext<'_>) -> Line {
    let job = &finished.job;
    let tone = match finished.outcome {
        JobOutcome::Completed | JobOutcome::Unknown => Tone::Faint,
        JobOutcome::Cancelled => Tone::Plain,
        JobOutcome::TimeLimit
        | JobOutcome::Deadline
        | JobOutcome::Failed
        | JobOutcome::NodeFailed
        | JobOutcome::OutOfMemory
        | JobOutcome::Preempted => Tone::Warn,
    };
    let nodes = job.allocations.iter().map(|allocation| allocation.node.as_str());
    let parts = [
        job.ends_at.map(|end| format!("{} ago", format_age(view.now.since(end)))),
        // One that was cancelled while it waited has not run.
        job.starts_at.and(job.run_time).map(|time| format!("ran {}", format_duration(time))),
        (!job.allocations.is_empty()).then(|| nodeset::fold(nodes)),
    ];
    let line = Line::styled(finished.outcome_text(), tone);
    parts
        .into_iter()
        .flatten()
        .fold(line, |line, part| line.text(" · ", Tone::Faint).text(part, Tone::Faint))
}

/// Draws what a job without nodes waits for, and when it is expected to start.
fn waiting_text(job: &Job, context: RenderContext<'_>) -> Line {
    let RenderContext { view, zone, .. } = context;
    let mut line = Line::styled(job.state_text().to_owned(), Tone::Faint);
    if let Some(reason) = job.reason.as_deref() {
        line = line.text(": ", Tone::Faint).text(reason, Tone::Plain);
    }
    line = line.text(" · ", Tone::Faint).text(start_text(job, view.now, zone), Tone::Plain);
    if !job.partition.is_empty() {
        let queue = view.fleet.scheduler().words.queue;
        let text = format!("{queue} {}", job.partition);
        line = line.text(" · ", Tone::Faint).text(text, Tone::Faint);
    }
    match job.limit.map(format_duration) {
        Some(limit) => line.text(" · ", Tone::Faint).text(format!("limit {limit}"), Tone::Faint),
        None => line,
    }
}

fn start_text(job: &Job, now: Timestamp, zone: &TimeZone) -> String {
    if job.starts_at.is_none() || job.state != JobState::Pending {
        return "start unknown".to_owned();
    }
    format!("starts {}", expected_start(job, now, zone))
}

pub(super) fn expected_start(job: &Job, now: Timestamp, zone: &TimeZone) -> String {
    let Some(starts_at) = job.starts_at else { return "start unknown".to_owned() };
    let clock = time_text(starts_at, zone, "%a %H:%M");
    if starts_at <= now {
        format!("{clock}, any moment")
    } else {
        format!("{clock}, in {}", format_run_time(starts_at.since(now)))
    }
}
