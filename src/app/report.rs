//! `gtop report`: reads recordings or logs of rntop, or watches for a while, and writes a report.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::app::env::Env;
use crate::app::times::{SpanError, parse_span, span_texts};
use crate::app::utilization_log::print_notices;
use crate::app::watch::start;
use crate::app::{AppError, CommandError, ExitReason, recording, watchdog, written_file};
use crate::cli::{ReportOptions, SpanOptions};
use crate::export::{ReportFormat, write_report};
use crate::report::{
    NothingMatched, ReportFilter, ReportRequest, RntopLogError, UnmatchedName, UsageReport,
    is_rntop_log, report_recordings, report_rntop_logs,
};
use crate::watch::Monitor;
use gtop_collect::source::replay::Recordings;
use gtop_local::process::{ProgramCall, run_program};
use gtop_local::storage::{self, NewFile, TemporaryFolder};
use gtop_local::text::{counted, sanitize};
use gtop_local::time::{Timestamp, format_duration, local_text};
use gtop_model::{JobList, RequestedJobs};

/// A report names users: only its owner reads it, until they change that.
const MODES: NewFile = NewFile { mode: 0o600, folder_mode: 0o755 };

/// Maximum wait for the name of a user.
const NAME_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of what the system says of a user.
const MAX_ENTRY_SIZE: usize = 64 << 10;

/// Maximum wait for what the scheduler says of the requested jobs, before nodes are watched.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("{0}: none of these jobs exists: {1}")]
    NothingToWatch(String, String),
    #[error(
        "{0}: no node appeared in the time watched; gtop --once with the same options says what there is"
    )]
    NothingWatched(String),
    #[error("{0} is a recording and {1} a log of rntop; report on them one at a time")]
    MixedFiles(String, String),
    #[error(
        "{0} exists and is not a report of gtop in this format; choose another name, or --force replaces it"
    )]
    ForeignFile(String),
}

impl CommandError for ReportError {}
impl CommandError for NothingMatched {}
impl CommandError for RntopLogError {}

/// Makes the report and writes it.
pub(super) fn run(
    mut env: Env,
    options: &ReportOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let format = options.format();
    let request = ReportRequest {
        has_commands: options.commands,
        is_anonymous: options.anonymize,
        filter: with_names(&env, options.filter()),
        unmatched: match options.watch_time {
            Some(_) => UnmatchedName::Noted,
            None => UnmatchedName::Refused,
        },
        ..ReportRequest::default()
    };
    let files = storage::distinct(options.files());
    written_file::check(options.write.as_deref(), &files)?;
    if let Some(path) = &options.write {
        // A file that cannot be written is refused before the work begins.
        write_file(path, None, format, options.force)?;
    }
    let report = match options.watch_time {
        Some(span) => watch(&mut env, span, &request, err)?,
        None => read(&files, &options.span, &request, err)?,
    };
    let mut report = UsageReport {
        made_at: env.clock.now(),
        files: match files.len() {
            count if count > 0 && options.anonymize => vec![counted(count, "file")],
            _ => names(&files),
        },
        title: if options.anonymize { "anonymous".to_owned() } else { report.title },
        ..report
    };
    report.judge(options.criteria(&env.settings.read()));
    let mut text = Vec::new();
    write_report(&mut text, &report, format, &TimeZone::system())?;
    match &options.write {
        Some(path) => {
            write_file(path, Some(&text), format, options.force)?;
            for note in report.notes.iter().filter(|_| options.watch_time.is_some()) {
                writeln!(err, "gtop: {note}")?;
            }
            writeln!(err, "gtop: {}", summary(&report, path))?;
        }
        None => out.write_all(&text)?,
    }
    Ok(if report.nodes_seen > 0 { ExitReason::Done } else { ExitReason::NoAnswer })
}

/// Replaces uids by the names of these users, where the system knows them.
fn with_names(env: &Env, filter: ReportFilter) -> ReportFilter {
    let users = filter.users.into_iter().map(|user| {
        let is_uid = !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_digit());
        let name = is_uid.then(|| env.runtime.block_on(user_name(&user))).flatten();
        name.unwrap_or(user)
    });
    ReportFilter { users: users.collect(), ..filter }
}

/// Returns the name of a user given by number, which may be the name. A directory service may be slow, so another program
/// queries it.
async fn user_name(number: &str) -> Option<String> {
    let args = ["-nu".into(), number.into()];
    let answer = run_program(ProgramCall {
        program: Path::new("id"),
        args: &args,
        input: "",
        env: &[],
        hides: |_variable| false,
        timeout: NAME_TIMEOUT,
        max_stdout: MAX_ENTRY_SIZE,
    });
    let answer = answer.await.ok().filter(|answer| answer.succeeded)?;
    Some(sanitize(answer.stdout.trim_end(), 64)).filter(|name| !name.is_empty())
}

fn names(files: &[PathBuf]) -> Vec<String> {
    let names = files.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
    names.map(|name| sanitize(&name, 200)).collect()
}

fn summary(report: &UsageReport, path: &Path) -> String {
    let (from, to) = report.span;
    format!(
        "{} reports on {} of {} on {}, {} to {}",
        path.display(),
        format_duration(to.since(from)),
        counted(report.devices.len(), "device"),
        counted(report.nodes.len(), "node"),
        local_text(from),
        local_text(to),
    )
}

/// Writes the report, unless that would replace a file of others; without a text, it only finds out whether it may.
fn write_file(
    path: &Path,
    text: Option<&[u8]>,
    format: ReportFormat,
    is_forced: bool,
) -> Result<(), AppError> {
    let mut is_foreign = false;
    storage::edit(path, MODES, |old| {
        is_foreign = !is_forced && !format.is_report(old);
        text.filter(|_| !is_foreign).map(<[u8]>::to_vec)
    })?;
    if is_foreign {
        Err(ReportError::ForeignFile(path.display().to_string()).into())
    } else {
        Ok(())
    }
}

/// Reports on files.
fn read(
    files: &[PathBuf],
    span: &SpanOptions,
    request: &ReportRequest,
    err: &mut impl Write,
) -> Result<UsageReport, AppError> {
    let (logs, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        files.iter().partition(|path| is_rntop_log(path));
    if let (Some(log), Some(other)) = (logs.first(), others.first()) {
        let [other, log] = [other, log].map(|path| path.display().to_string());
        return Err(ReportError::MixedFiles(other, log).into());
    }
    if !logs.is_empty() {
        return read_logs(files, span, request);
    }
    let recordings = Recordings::open(files.iter().map(PathBuf::as_path))?;
    let spans = recordings.spans();
    let Some((_, end)) = spans.last().copied() else {
        return Err(SpanError::NothingRecorded(names(files).join(", ")).into());
    };
    let request = with_span(request, span, end, &spans)?;
    let report = report_recordings(&recordings, &request, show_progress(err))?;
    Ok(report.ok_or_else(|| SpanError::NothingInSpan(span_texts(&spans)))?)
}

fn read_logs(
    files: &[PathBuf],
    span: &SpanOptions,
    request: &ReportRequest,
) -> Result<UsageReport, AppError> {
    let whole = report_rntop_logs(files, request)?;
    let Some(whole) = whole else {
        return Err(SpanError::NothingRecorded(names(files).join(", ")).into());
    };
    if span.from.is_none() && span.to.is_none() {
        return Ok(whole);
    }
    let request = with_span(request, span, whole.span.1, &whole.recorded)?;
    let report = report_rntop_logs(files, &request)?;
    Ok(report.ok_or_else(|| SpanError::NothingInSpan(span_texts(&whole.recorded)))?)
}

fn with_span(
    request: &ReportRequest,
    options: &SpanOptions,
    end: Timestamp,
    spans: &[(Timestamp, Timestamp)],
) -> Result<ReportRequest, SpanError> {
    let (from, to) = parse_span(options, end, spans)?;
    Ok(ReportRequest { from, to, ..request.clone() })
}

/// Returns a function that shows the share of work that is done, where a person looks on.
fn show_progress(err: &mut impl Write) -> impl FnMut(f64) {
    let is_shown = io::stderr().is_terminal();
    move |share| {
        if is_shown {
            // The line is overwritten by what comes next.
            write!(err, "\rgtop: reading, {:.0} %\x1b[K\r", share * 100.0).ok();
            err.flush().ok();
        }
    }
}

/// Watches for a while into a temporary recording, and reports on it.
fn watch(
    env: &mut Env,
    span: Duration,
    request: &ReportRequest,
    err: &mut impl Write,
) -> Result<UsageReport, AppError> {
    let folder = TemporaryFolder::create()?;
    let path = folder.path().join("watched.gtop");
    env.cli.output.record = Some(path.clone());
    env.cli.output.keep.never_drop();
    let session = start(env, err)?;
    let list = env.runtime.block_on(answered_jobs(&session.monitor));
    let notes = list.iter().flat_map(|list| list.notes.iter());
    let notes = notes.map(ToString::to_string).collect::<Vec<_>>();
    if list.as_deref().is_some_and(lacks_all) {
        return Err(ReportError::NothingToWatch(session.title, notes.join("; ")).into());
    }
    for note in notes {
        writeln!(err, "gtop: {note}")?;
    }
    writeln!(
        err,
        "gtop: watching for {}; Ctrl-C ends it early and reports",
        format_duration(span)
    )?;
    let (notice_sender, mut notices) = mpsc::channel(1);
    // What was watched is reported even then.
    watchdog::finish_work();
    env.runtime.block_on(async {
        tokio::select! {
            () = sleep(span) => Ok(ExitReason::Done),
            reason = recording::report(&session.recorder, &notice_sender) => reason,
            reason = print_notices(&mut notices, err) => reason,
        }
    })?;
    let title = session.title.clone();
    // Ends the sessions and the recording.
    drop(session);
    let recordings = Recordings::open([path.as_path()])?;
    let report = report_recordings(&recordings, request, show_progress(err))?;
    let report = report.ok_or_else(|| SpanError::NothingRecorded("the time watched".to_owned()))?;
    if report.nodes.is_empty() {
        return Err(ReportError::NothingWatched(title).into());
    }
    Ok(UsageReport { kind: "live", ..report })
}

/// Returns the scheduler's jobs once it has answered what was asked of them; `None` without an answer.
async fn answered_jobs(monitor: &Monitor) -> Option<Arc<JobList>> {
    let mut rosters = monitor.rosters();
    let answered =
        rosters.wait_for(|roster| roster.jobs.as_ref().is_none_or(|list| list.is_answered()));
    let roster = timeout(SCHEDULER_TIMEOUT, answered).await.ok()?.ok()?;
    roster.jobs.clone()
}

/// Returns true if jobs were requested by their ids and none of them is there, so that nothing can be watched.
fn lacks_all(list: &JobList) -> bool {
    let is_listed = list.at.is_some() && list.error.is_none();
    list.requested == RequestedJobs::ById && is_listed && list.jobs.is_empty()
}
