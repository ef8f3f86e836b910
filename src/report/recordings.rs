//! Reports of recordings: their parts are read at the same time, each by a thread.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::report::collector::UsageCollector;
use crate::report::filter::ReportFilter;
use crate::report::filter_check::{NothingMatched, UnmatchedName, check_filter};
use crate::report::intervals::TimeIntervals;
use crate::report::labels::ReportNames;
use crate::report::scope::ReportScope;
use crate::report::series::StepGrid;
use crate::report::summary::summarize;
use crate::report::{EventReport, UsageReport};
use gtop_collect::source::replay::{LostLines, Recordings};
use gtop_fleet::Anonymizer;
use gtop_local::time::Timestamp;

/// Threads at most: others use the machine, too.
const MAX_THREADS: usize = 4;
/// A part has at least this many checkpoints; it begins with the work of restoring all nodes.
const MIN_CHECKPOINTS: usize = 8;
/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Events of a report; of more, the latest ones.
const MAX_EVENTS: usize = 1_000;

/// What is reported.
#[derive(Clone, Debug, Default)]
pub struct ReportRequest {
    /// Nothing earlier counts.
    pub from: Option<Timestamp>,
    /// Nothing later counts.
    pub to: Option<Timestamp>,
    /// Command lines are listed.
    pub has_commands: bool,
    /// Names are replaced, and free texts withheld.
    pub is_anonymous: bool,
    /// Whose devices and time count.
    pub filter: ReportFilter,
    /// What becomes of a name of the filter that nothing fits.
    pub unmatched: UnmatchedName,
    /// Threads that read; `None` for as many as there are processors, within limits.
    pub threads: Option<usize>,
}

impl ReportRequest {
    pub(super) fn names(&self) -> ReportNames {
        ReportNames(self.is_anonymous.then(Anonymizer::default))
    }

    /// Returns true if a time counts.
    pub(super) fn has_time(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at <= to)
    }
}

/// Reports on recordings; `None` if nothing is recorded in the span, an error if nothing is of those that count. `progress` is called with the share that is read.
pub fn report_recordings(
    recordings: &Recordings,
    options: &ReportRequest,
    progress: impl FnMut(f64),
) -> Result<Option<UsageReport>, NothingMatched> {
    let recorded = recordings.spans();
    let (Some((first, _)), Some((_, last))) = (recorded.first(), recorded.last()) else {
        return Ok(None);
    };
    // The last sample counts, too.
    let (first, last) = (*first, last.plus(Duration::from_micros(1)));
    let from = options.from.unwrap_or(first).max(first);
    let to = options.to.unwrap_or(last).min(last);
    let scope = ReportScope {
        begins: from,
        from,
        to,
        grid: StepGrid::new(from, to, devices(recordings, to)),
        spans_by_file: recordings.spans_by_file().into_iter().map(TimeIntervals::new).collect(),
        spans: TimeIntervals::new(recorded),
        has_commands: options.has_commands,
        filter: options.filter.clone(),
    };
    let spans = scope.spans.intersection(&TimeIntervals::new(vec![(from, to)]));
    if spans.as_slice().is_empty() && from != first {
        return Ok(None);
    }
    let bounds = bounds(recordings, &scope, options.threads);
    let (mut collector, missing) = collect(recordings, &scope, &bounds, progress);
    collector.add_unseen(&scope);
    let unmatched = check_filter(&options.filter, &collector, options.unmatched)?;
    let mut names = options.names();
    let mut report = UsageReport {
        title: recordings.title(),
        kind: "recording",
        span: (from, to),
        recorded: spans.as_slice().to_vec(),
        ..UsageReport::default()
    };
    report.notes.extend(recordings.loss());
    if !options.is_anonymous {
        report.notes.extend(unmatched);
    } else if !unmatched.is_empty() {
        report.notes.push("some of what was to count held no device".to_owned());
    }
    report.notes.extend(missing.text());
    add_events(&mut report, recordings, options);
    summarize(&mut report, &collector, &scope, &mut names);
    Ok(Some(report))
}

/// Returns the number of devices at the last checkpoint before a time, which is read soon.
fn devices(recordings: &Recordings, to: Timestamp) -> usize {
    let at = recordings.starts().into_iter().rfind(|start| *start <= to).unwrap_or(to);
    recordings.fleet_at(at, Duration::ZERO).nodes.iter().map(|node| node.devices.len()).sum()
}

/// Reads all parts; returns what they have collected, and what could not be read.
fn collect(
    recordings: &Recordings,
    scope: &ReportScope,
    bounds: &[Timestamp],
    mut progress: impl FnMut(f64),
) -> (UsageCollector, LostLines) {
    let positions: Vec<AtomicI64> =
        bounds.iter().map(|from| AtomicI64::new(from.as_micros())).collect();
    let (sender, results) = mpsc::channel();
    let is_cancelled = AtomicBool::new(false);
    let mut parts: Vec<Option<(UsageCollector, LostLines)>> = bounds.iter().map(|_| None).collect();
    thread::scope(|threads| {
        for (number, (from, position)) in bounds.iter().zip(&positions).enumerate() {
            let to = bounds.get(number + 1).copied().unwrap_or(scope.to);
            let (sender, is_cancelled) = (sender.clone(), &is_cancelled);
            let scope = ReportScope { from: *from, to, ..scope.clone() };
            threads.spawn(move || {
                let mut collector = UsageCollector::new(scope);
                let missing = recordings.walk(*from, to, is_cancelled, |line| {
                    position.store(line.at.as_micros(), Ordering::Relaxed);
                    collector.on_change(line);
                });
                collector.finish();
                // Fails if the program ends.
                sender.send((number, collector, missing)).ok();
            });
        }
        drop(sender);
        loop {
            match results.recv_timeout(PROGRESS_INTERVAL) {
                Ok((number, collector, missing)) => {
                    if let Some(part) = parts.get_mut(number) {
                        *part = Some((collector, missing));
                    }
                }
                Err(RecvTimeoutError::Timeout) => progress(share_read(bounds, &positions, scope)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    let mut parts = parts.into_iter().flatten();
    let first = parts.next();
    let (mut all, mut missing) =
        first.unwrap_or_else(|| (UsageCollector::new(scope.clone()), LostLines::default()));
    for (part, more) in parts {
        all.merge(part);
        missing.merge(more);
    }
    (all, missing)
}

/// Returns where the parts begin.
fn bounds(recordings: &Recordings, scope: &ReportScope, threads: Option<usize>) -> Vec<Timestamp> {
    let mut starts = recordings.starts();
    starts.retain(|start| *start > scope.from && *start < scope.to);
    let threads = threads
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS))
        .max(1);
    let count = (starts.len() / MIN_CHECKPOINTS).clamp(1, threads);
    let inner = (1..count).filter_map(|number| starts.get(starts.len() * number / count));
    let mut bounds = vec![scope.from];
    bounds.extend(inner);
    bounds.dedup();
    bounds
}

#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
fn share_read(bounds: &[Timestamp], positions: &[AtomicI64], scope: &ReportScope) -> f64 {
    let read = bounds.iter().zip(positions).map(|(from, position)| {
        position.load(Ordering::Relaxed).saturating_sub(from.as_micros()).max(0)
    });
    let all = scope.to.as_micros().saturating_sub(scope.from.as_micros()).max(1);
    (read.sum::<i64>() as f64 / all as f64).min(1.0)
}

fn add_events(report: &mut UsageReport, recordings: &Recordings, options: &ReportRequest) {
    let (from, to) = report.span;
    let mut marks = recordings.marks();
    marks.retain(|mark| (from..=to).contains(&mark.at));
    let why_not = if options.is_anonymous {
        Some("events are left out: their texts have names in them")
    } else {
        (!options.filter.is_empty()).then_some("events are left out: they are of all nodes")
    };
    if let Some(why_not) = why_not {
        report.events_left_out = marks.len();
        report.notes.extend((!marks.is_empty()).then(|| why_not.to_owned()));
        return;
    }
    report.events_left_out = marks.len().saturating_sub(MAX_EVENTS);
    let latest = marks.into_iter().skip(report.events_left_out);
    report.events = latest
        .map(|mark| EventReport { at: mark.at, kind: mark.kind.as_str(), text: mark.text })
        .collect();
}
