//! The columns of the table of runs: those of ttop, and more.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::render_context::RenderContext;
use crate::widgets::line::Tone;
use crate::widgets::number_format::or_unknown;
use gtop_fleet::insight::node_status::shown_id;
use gtop_fleet::insight::runs::{Liveness, RunRow, RunTimes};
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::UNKNOWN;
use gtop_local::time::format_duration;
use gtop_model::{Bytes, MetricValue, Progress, RunStatus};

/// Maximum width of a name.
pub(super) const MAX_NAME_WIDTH: u16 = 40;

/// The description of the columns of metrics.
const METRIC_HELP: &str = "a metric that the run writes, as last written";

/// The title of the column of URLs.
const WEB_PAGE: &str = "W&B";

/// A column.
pub(super) struct RunColumn {
    pub(super) title: Cow<'static, str>,
    /// The description in one line.
    pub(super) help: &'static str,
    pub(super) is_right: bool,
    pub(super) kind: ColumnKind,
}

/// What a column shows.
pub(super) enum ColumnKind {
    Value(ReadCell),
    Progress(ReadProgress),
    Time(ReadTime),
    /// A metric of this name.
    Metric(String),
}

type ReadCell = fn(RenderContext<'_>, &RunRow) -> (String, Tone);
type ReadProgress = fn(&Progress) -> Option<String>;
type ReadTime = fn(&RunTimes) -> Option<Duration>;

impl RunColumn {
    const fn left(title: &'static str, help: &'static str, cell: ReadCell) -> Self {
        Self { title: Cow::Borrowed(title), help, is_right: false, kind: ColumnKind::Value(cell) }
    }

    const fn right(title: &'static str, help: &'static str, cell: ReadCell) -> Self {
        Self { title: Cow::Borrowed(title), help, is_right: true, kind: ColumnKind::Value(cell) }
    }

    /// Declares a column of what the file of the run says.
    const fn progress(title: &'static str, help: &'static str, read: ReadProgress) -> Self {
        Self { title: Cow::Borrowed(title), help, is_right: true, kind: ColumnKind::Progress(read) }
    }

    const fn time(title: &'static str, help: &'static str, time: ReadTime) -> Self {
        Self { title: Cow::Borrowed(title), help, is_right: true, kind: ColumnKind::Time(time) }
    }

    pub(super) fn metric(name: &str) -> Self {
        let title = Cow::Owned(name.to_uppercase());
        Self { title, help: METRIC_HELP, is_right: true, kind: ColumnKind::Metric(name.to_owned()) }
    }

    /// Returns where the value leads to in a browser.
    pub(super) fn url(&self, row: &RunRow) -> Option<Arc<str>> {
        let progress = row.run.progress.as_ref().filter(|_| self.title == WEB_PAGE);
        progress.and_then(|progress| progress.url.clone())
    }

    pub(super) fn cell(&self, context: RenderContext<'_>, row: &RunRow) -> (String, Tone) {
        match &self.kind {
            ColumnKind::Value(cell) => cell(context, row),
            ColumnKind::Progress(read) => plain(row.run.progress.as_deref().and_then(read)),
            ColumnKind::Time(time) => plain(time(&row.times).map(format_duration)),
            ColumnKind::Metric(name) => {
                let metrics = row.run.progress.as_ref().map(|progress| &progress.metrics);
                let found = metrics.and_then(|all| all.iter().find(|(known, _)| **known == **name));
                plain(found.map(|(_, value)| metric_text(value, 4)))
            }
        }
    }
}

/// The columns that are always shown: the status, behind the name.
pub(super) const STATUS: RunColumn =
    RunColumn::left("STATUS", "what the run says of itself, and whether that is true", status);

/// The columns that scroll: ttop's, those first that matter most on a narrow screen.
pub(super) const COLUMNS: [RunColumn; 33] = [
    RunColumn::left("PHASE", "what it does now, such as train or validate", |_, row| {
        let phase = row.run.progress.as_ref().and_then(|progress| progress.phase.as_deref());
        (phase.unwrap_or(UNKNOWN).to_owned(), phase_tone(row))
    }),
    RunColumn::progress("EPOCH", "epoch, of how many", |progress| {
        // Counted from 0 in the file.
        Some(of_total(progress.epoch?.saturating_add(1), progress.total_epochs))
    }),
    RunColumn::progress("BATCH", "batch of the epoch, of how many", |progress| {
        Some(of_total(progress.batch?, progress.total_batches))
    }),
    RunColumn::progress("LOSS", "loss as last written", |progress| {
        progress.loss.as_ref().map(|loss| metric_text(loss, 4))
    }),
    RunColumn::time("LEFT", "time left for the whole run", |times| times.run.remaining),
    RunColumn::time("ELAPSED", "time since the run started", |times| times.run.elapsed),
    RunColumn::time("TOTAL", "expected time of the whole run", |times| times.run.total),
    RunColumn::progress("LR", "learning rate", |progress| {
        progress.learning_rate.as_ref().map(|rate| metric_text(rate, 6))
    }),
    RunColumn::right("IT/S", "batches per second", |_, row| {
        plain(row.times.rate.map(|rate| number(rate, 2)))
    }),
    RunColumn::progress("VAL BATCH", "batch of the validation, of how many", |progress| {
        Some(of_total(progress.validation_batch?, progress.total_validation_batches))
    }),
    RunColumn::time("EP ELAPSED", "time since the epoch started", |times| times.epoch.elapsed),
    RunColumn::time("EP LEFT", "time left for the epoch", |times| times.epoch.remaining),
    RunColumn::time("EP TOTAL", "expected time of the epoch", |times| times.epoch.total),
    RunColumn::time("TR ELAPSED", "time since the training part of the epoch started", |times| {
        times.training.elapsed
    }),
    RunColumn::time("TR LEFT", "time left for the training part of the epoch", |times| {
        times.training.remaining
    }),
    RunColumn::time("TR TOTAL", "expected time of the training part of the epoch", |times| {
        times.training.total
    }),
    RunColumn::time("VAL TIME", "mean time of a validation", |times| times.validation_mean),
    RunColumn::time("VAL ELAPSED", "time since the validation started", |times| {
        times.validation.elapsed
    }),
    RunColumn::time("VAL LEFT", "time left for the validation", |times| times.validation.remaining),
    RunColumn::time("VAL TOTAL", "expected time of the validation", |times| times.validation.total),
    RunColumn::right("CPU%", "CPU use of its processes; 100 is one core", |_, row| {
        resource(row, row.resources.cpu_percent.map(|percent| number(percent, 0)))
    }),
    RunColumn::right("RAM", "host memory of its processes", |context, row| {
        resource(row, row.resources.resident.map(|bytes| amount(context, bytes)))
    }),
    RunColumn::right("GPU MEM", "device memory of its processes", |context, row| {
        resource(row, row.resources.device_memory.map(|bytes| amount(context, bytes)))
    }),
    RunColumn::right("GPU%", "mean utilization of its devices, in percent", |_, row| {
        resource(row, row.resources.device_utilization.map(|share| format!("{share:.0}")))
    }),
    RunColumn::left("DEVICES", "its devices, by their numbers", |_, row| {
        let devices = &row.resources.devices;
        let text = devices.iter().map(|device| &**device).collect::<Vec<_>>().join(",");
        plain(Some(text).filter(|text| !text.is_empty()))
    }),
    RunColumn::right("PROCS", "number of its processes", |_, row| {
        resource(row, row.resources.processes.map(|count| count.to_string()))
    }),
    RunColumn::right("THREADS", "number of their threads", |_, row| {
        resource(row, row.resources.threads.map(|count| count.to_string()))
    }),
    RunColumn::left(
        "HOST",
        "the host that it runs on; ? if that does not answer",
        |_, row| match (&row.node, &row.liveness) {
            (_, Liveness::Elsewhere(host)) => (format!("elsewhere: {host}"), Tone::Faint),
            (Some(node), Liveness::Unreachable) => (format!("{} ?", node.label()), Tone::Warn),
            (Some(node), _) => (node.label().to_owned(), Tone::Plain),
            (None, _) => {
                let host = row.run.progress.as_ref().and_then(|progress| progress.host.as_deref());
                plain(host.map(str::to_owned))
            }
        },
    ),
    RunColumn::left("JOB", "job of the scheduler", |context, row| {
        let jobs = context.view.fleet.jobs.as_deref();
        plain(row.job.as_ref().map(|job| shown_id(jobs, job).into_owned()))
    }),
    RunColumn::progress("PID", "id of its main process", |progress| {
        progress.pid.map(|pid| pid.to_string())
    }),
    RunColumn::right("STALLED", "for how long it has not advanced", |context, row| {
        let span = row.stalled_since.map(|since| context.view.now.since(since));
        (or_unknown(span, format_duration), Tone::Warn)
    }),
    RunColumn::left("USER", "owner of its files", |_, row| {
        plain(row.run.user.as_deref().map(str::to_owned))
    }),
    RunColumn::left(WEB_PAGE, "its page on the web", |_, row| {
        let url = row.run.progress.as_ref().and_then(|progress| progress.url.as_deref());
        (url.unwrap_or(UNKNOWN).to_owned(), Tone::Accent)
    }),
];

/// The last column, behind those of metrics.
pub(super) const NOTE: RunColumn = RunColumn::left("NOTE", "problems, and what it says last", note);

/// Returns the columns for help; those of metrics as one.
pub(super) fn column_specs() -> Vec<ColumnSpec> {
    let mut specs = vec![ColumnSpec::new("run", "RUN", "", "name of the run")];
    for column in all() {
        if let Cow::Borrowed(title) = column.title {
            specs.push(ColumnSpec::new(title, title, "", column.help));
        }
    }
    specs.push(ColumnSpec::new("metrics", "others", "", METRIC_HELP));
    specs
}

/// Returns the columns but those of metrics.
pub(super) fn all() -> impl Iterator<Item = RunColumn> {
    [STATUS].into_iter().chain(COLUMNS).chain([NOTE])
}

/// Returns a number of columns wide enough for usual values, so that the table does not jump.
pub(super) fn min_width(title: &str) -> u16 {
    match title {
        "STATUS" | "LR" => 8,
        "PHASE" => 10,
        "EPOCH" | "LOSS" => 6,
        "BATCH" => 9,
        "CPU%" | "IT/S" | "RAM" => 5,
        title if ["ELAPSED", "LEFT", "TOTAL"].iter().any(|end| title.ends_with(end)) => 6,
        _ => 0,
    }
}

fn plain(text: Option<String>) -> (String, Tone) {
    (text.unwrap_or_else(|| UNKNOWN.to_owned()), Tone::Plain)
}

/// Returns a value of the processes; one from the file is old.
fn resource(row: &RunRow, text: Option<String>) -> (String, Tone) {
    let (text, _) = plain(text);
    (text, if row.resources.is_from_file { Tone::Faint } else { Tone::Plain })
}

fn amount(context: RenderContext<'_>, bytes: Bytes) -> String {
    context.options.units().amount(bytes)
}

fn of_total(count: u64, total: Option<u64>) -> String {
    total.map_or_else(|| count.to_string(), |total| format!("{count}/{total}"))
}

/// Formats a number that may be of any size.
fn number(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e7 { format!("{value:.3e}") } else { format!("{value:.decimals$}") }
}

pub(super) fn metric_text(value: &MetricValue, decimals: usize) -> String {
    match value {
        MetricValue::Number(value) if value.is_nan() => "NaN".to_owned(),
        MetricValue::Number(value) if value.is_infinite() => {
            if *value > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        // Small values such as a learning rate of 1e-8 must not look like zero.
        MetricValue::Number(value) if *value != 0.0 && value.abs() < 1e-4 => format!("{value:.1e}"),
        MetricValue::Number(value) => number(*value, decimals),
        MetricValue::Text(text) => text.to_string(),
    }
}

fn status(context: RenderContext<'_>, row: &RunRow) -> (String, Tone) {
    let word = row.status.as_str();
    match (&row.liveness, row.stalled_since) {
        (_, Some(since)) => {
            let span = format_duration(context.view.now.since(since));
            (format!("STALLED {span}"), Tone::Warn)
        }
        (Liveness::Stopped, _) => ("STOPPED".to_owned(), Tone::Warn),
        // Only the file reports it as running.
        (Liveness::Unreachable | Liveness::Elsewhere(_) | Liveness::Unknown(_), _)
            if row.status == RunStatus::Running =>
        {
            (format!("{word} ?"), Tone::Faint)
        }
        _ => (word.to_owned(), status_tone(row)),
    }
}

pub(super) fn status_tone(row: &RunRow) -> Tone {
    match row.status {
        RunStatus::Running => phase_tone(row),
        RunStatus::Finished => Tone::Accent,
        RunStatus::Failed | RunStatus::Killed => Tone::Bad,
        RunStatus::Canceled => Tone::Plain,
        RunStatus::Unknown => Tone::Faint,
    }
}

/// Returns ttop's colour of a running run: by its phase.
fn phase_tone(row: &RunRow) -> Tone {
    if row.status != RunStatus::Running {
        return Tone::Plain;
    }
    let phase = row.run.progress.as_ref().and_then(|progress| progress.phase.as_deref());
    match phase {
        Some(phase) if phase.contains("valid") => Tone::Low,
        Some(phase) if ["loading", "batch", "training"].iter().any(|part| phase.contains(part)) => {
            Tone::Mid
        }
        _ => Tone::High,
    }
}

/// Returns what is remarkable: why the file cannot be read, how it ended, what is not known.
fn note(context: RenderContext<'_>, row: &RunRow) -> (String, Tone) {
    let now = context.view.now;
    if let Some(fault) = &row.run.fault {
        let written_at = row.run.written_at.filter(|_| row.run.progress.is_some());
        let age = written_at.map(|at| format_duration(now.since(at)));
        let old = age.map(|age| format!("; values from {age} ago")).unwrap_or_default();
        return (format!("progress file: {fault}{old}"), Tone::Bad);
    }
    let error = row.run.progress.as_ref().and_then(|progress| progress.error.as_deref());
    let text = match &row.liveness {
        Liveness::Gone => "its process is gone".to_owned(),
        Liveness::Zombie => "its process has ended and was not reaped".to_owned(),
        Liveness::PidReused => "its process is gone; another one has its pid".to_owned(),
        Liveness::Unreachable => "its host does not answer".to_owned(),
        Liveness::Unknown(reason) if row.is_running() => (*reason).to_owned(),
        Liveness::Stopped => "stopped by a signal; CONT continues it".to_owned(),
        Liveness::Alive | Liveness::Ended | Liveness::Elsewhere(_) | Liveness::Unknown(_) => {
            match (error, row.stalled_since) {
                (Some(error), _) => return (error.to_owned(), Tone::Bad),
                (None, Some(_)) => match row.resources.device_utilization {
                    Some(load) if load >= 10.0 => {
                        format!("does not advance; devices {load:.0}% busy")
                    }
                    Some(_) => "does not advance; devices idle".to_owned(),
                    None => "does not advance".to_owned(),
                },
                (None, None) => return plain(None),
            }
        }
    };
    (text, Tone::Warn)
}
