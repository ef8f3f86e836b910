//! Reports of recordings: written sums are used where there are some, and samples of the rest, by several threads.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::report::counted::CountedSums;
use crate::report::filter::ReportFilter;
use crate::report::filter_check::{NothingMatched, UnmatchedName, check_filter};
use crate::report::labels::ReportNames;
use crate::report::scope::ReportScope;
use crate::report::summary::summarize;
use crate::report::{EventReport, UsageReport};
use gtop_collect::source::replay::{FoldedChange, LostLines, Recordings, SumPiece};
use gtop_collect::sums::{SpanSums, StepGrid, SumBuilder, SumScope, TimeIntervals};
use gtop_fleet::Anonymizer;
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

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
    /// Where written sums take the place of samples.
    pub written_sums: WrittenSums,
    /// Threads that read; `None` for as many as there are processors, within limits.
    pub threads: Option<usize>,
}

/// Where the sums that recorders write take the place of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WrittenSums {
    /// Where the steps of charts are whole minutes, as theirs are.
    #[default]
    ForLongSpans,
    /// Wherever there are some.
    Always,
    /// Nowhere.
    Never,
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
    let by_file = recordings.spans_by_file().into_iter().map(TimeIntervals::new);
    let sums = SumScope {
        begins: from,
        from,
        to,
        grid: StepGrid::new(from, to, devices(recordings, to)),
        recorded_by_file: by_file.collect(),
        recorded: TimeIntervals::new(recorded),
        has_commands: options.has_commands,
    };
    let scope = ReportScope { sums, filter: options.filter.clone() };
    let spans = scope.counted_times();
    if spans.as_slice().is_empty() && from != first {
        return Ok(None);
    }
    let threads = options.threads.unwrap_or_else(|| {
        thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
    });
    let pieces = pieces(recordings, &scope, options.written_sums, threads.max(1));
    let (sums, missing) = add_up(recordings, &scope, &pieces, threads.max(1), progress);
    let counted = CountedSums::new(&sums, &scope);
    let unmatched = check_filter(&scope, &counted, options.unmatched)?;
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
    summarize(&mut report, &counted, &scope, &mut names);
    add_events(&mut report, recordings, options);
    Ok(Some(report))
}

/// Returns the number of devices at the last checkpoint before a time, which is read soon.
fn devices(recordings: &Recordings, to: Timestamp) -> usize {
    let at = recordings.starts().into_iter().rfind(|start| *start <= to).unwrap_or(to);
    recordings.fleet_at(at, Duration::ZERO).nodes.iter().map(|node| node.devices.len()).sum()
}

/// Adds up all pieces, by several threads; returns their sums, and what could not be read.
fn add_up(
    recordings: &Recordings,
    scope: &ReportScope,
    pieces: &[SumPiece],
    threads: usize,
    mut progress: impl FnMut(f64),
) -> (SpanSums, LostLines) {
    let adding = PieceSums {
        recordings,
        scope,
        positions: pieces.iter().map(|piece| AtomicI64::new(piece.from.as_micros())).collect(),
        next: Mutex::new(0),
        merged: (Mutex::new(0), Condvar::new()),
        is_cancelled: AtomicBool::new(false),
    };
    let (sender, results) = mpsc::channel();
    let (mut all, mut missing) = <(SpanSums, LostLines)>::default();
    let mut waiting = BTreeMap::new();
    thread::scope(|scope_of_threads| {
        for _ in 0..threads.min(pieces.len()) {
            let (sender, adding) = (sender.clone(), &adding);
            scope_of_threads.spawn(move || {
                while let Some((number, piece)) = adding.next_piece(pieces, threads) {
                    // Fails if the program ends.
                    sender.send((number, adding.add_up(number, piece))).ok();
                }
            });
        }
        drop(sender);
        let mut next = 0;
        loop {
            match results.recv_timeout(PROGRESS_INTERVAL) {
                Ok((number, of_piece)) => {
                    waiting.insert(number, of_piece);
                    while let Some((sums, lost)) = waiting.remove(&next) {
                        all.merge(sums, &scope.sums.recorded);
                        missing.merge(lost);
                        next += 1;
                    }
                    adding.note_merged(next);
                }
                Err(RecvTimeoutError::Timeout) => progress(adding.share_done(pieces)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    (all, missing)
}

/// Adds up pieces, each by one thread.
struct PieceSums<'a> {
    recordings: &'a Recordings,
    scope: &'a ReportScope,
    /// How far each piece is read.
    positions: Vec<AtomicI64>,
    /// The number of the next piece.
    next: Mutex<usize>,
    /// How many pieces are merged: sums of pieces that wait for an earlier one need memory.
    merged: (Mutex<usize>, Condvar),
    is_cancelled: AtomicBool,
}

impl PieceSums<'_> {
    /// Returns the next piece, once no more than two for each thread wait to be merged.
    fn next_piece<'p>(
        &self,
        pieces: &'p [SumPiece],
        threads: usize,
    ) -> Option<(usize, &'p SumPiece)> {
        let number = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next - 1
        };
        let piece = pieces.get(number)?;
        let (merged, change) = &self.merged;
        let mut count = merged.lock().unwrap_or_else(PoisonError::into_inner);
        while number >= *count + 2 * threads {
            count = change.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        Some((number, piece))
    }

    fn note_merged(&self, number: usize) {
        let (merged, change) = &self.merged;
        *merged.lock().unwrap_or_else(PoisonError::into_inner) = number;
        change.notify_all();
    }

    /// Adds up a piece: what is written of it, and samples of the rest.
    fn add_up(&self, number: usize, piece: &SumPiece) -> (SpanSums, LostLines) {
        let Some((from, written)) = self.recordings.written_sums(piece) else {
            return self.add_samples(number, (piece.from, piece.to));
        };
        let (mut sums, missing) = if self.scope.recorded((piece.from, from)).as_slice().is_empty() {
            <(SpanSums, LostLines)>::default()
        } else {
            self.add_samples(number, (piece.from, from))
        };
        sums.merge(written.on_grid(self.scope.sums.grid), &self.scope.sums.recorded);
        self.note_position(number, piece.to);
        (sums, missing)
    }

    fn add_samples(
        &self,
        number: usize,
        (from, to): (Timestamp, Timestamp),
    ) -> (SpanSums, LostLines) {
        let Self { recordings, scope, is_cancelled, .. } = self;
        let mut builder = SumBuilder::new(SumScope { from, to, ..scope.sums.clone() });
        let missing = recordings.walk(from, to, is_cancelled, |line| {
            self.note_position(number, line.at);
            match &line.change {
                FoldedChange::Node(node) if is_read(&scope.filter, &node.name) => {
                    builder.on_node(line.at, node);
                }
                FoldedChange::Node(_) => {}
                FoldedChange::Roster(names, jobs) => {
                    builder.on_roster(line.file, line.at, names, jobs.as_ref());
                }
            }
        });
        (builder.take(to), missing)
    }

    fn note_position(&self, number: usize, at: Timestamp) {
        if let Some(position) = self.positions.get(number) {
            position.store(at.as_micros(), Ordering::Relaxed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
    fn share_done(&self, pieces: &[SumPiece]) -> f64 {
        let read = pieces.iter().zip(&self.positions).map(|(piece, position)| {
            position.load(Ordering::Relaxed).saturating_sub(piece.from.as_micros()).max(0)
        });
        let SumScope { from, to, .. } = &self.scope.sums;
        let all = to.as_micros().saturating_sub(from.as_micros()).max(1);
        (read.sum::<i64>() as f64 / all as f64).min(1.0)
    }
}

/// Returns true if what a node did is added up: who held devices elsewhere tells why nothing matches.
fn is_read(filter: &ReportFilter, name: &NodeName) -> bool {
    filter.names_holders() || filter.has_node(name)
}

/// Returns the pieces: those whose sums are written, unless more is asked for than they have, and parts of the rest.
fn pieces(
    recordings: &Recordings,
    scope: &ReportScope,
    written: WrittenSums,
    threads: usize,
) -> Vec<SumPiece> {
    let SumScope { from, to, grid, has_commands, .. } = &scope.sums;
    let are_used = match written {
        WrittenSums::ForLongSpans => grid.is_of_minutes(),
        WrittenSums::Always => true,
        WrittenSums::Never => false,
    };
    let all = if are_used && !has_commands {
        recordings.pieces(*from, *to)
    } else {
        vec![SumPiece::of_samples(*from, *to)]
    };
    let starts = recordings.starts();
    let mut pieces = Vec::new();
    for piece in all {
        if piece.is_written() {
            pieces.push(piece);
            continue;
        }
        let mut bounds = bounds(&starts, (piece.from, piece.to), threads);
        bounds.push(piece.to);
        let pairs = bounds.iter().zip(bounds.iter().skip(1));
        pieces.extend(pairs.map(|(from, to)| SumPiece::of_samples(*from, *to)));
    }
    pieces
}

/// Returns where the parts of a time of which samples are read begin.
fn bounds(
    starts: &[Timestamp],
    (from, to): (Timestamp, Timestamp),
    threads: usize,
) -> Vec<Timestamp> {
    let starts: Vec<Timestamp> =
        starts.iter().copied().filter(|start| *start > from && *start < to).collect();
    let count = (starts.len() / MIN_CHECKPOINTS).clamp(1, threads);
    let inner = (1..count).filter_map(|number| starts.get(starts.len() * number / count));
    let mut bounds = vec![from];
    bounds.extend(inner);
    bounds.dedup();
    bounds
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
