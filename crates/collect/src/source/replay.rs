//! Recordings: folds their lines into a fleet, at the pace of a playback clock.
//!
//! Lines take the way of live deliveries: each node has a pipeline, and the store publishes the fleet. A jump builds the
//! fleet anew from the nearest checkpoint; where that leaves the history of the nodes short, a second, longer build runs
//! beside, and takes over.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::record::{MAX_PAUSE, Recording, RecordingError, Segment};
use crate::source::replay::fold::Fold;
use gtop_fleet::{Fleet, FleetStore};
use gtop_local::storage;
use gtop_local::time::Timestamp;
use gtop_model::Mark;

pub use lost::LostLines;
pub use player::{PlaybackHandle, Player};
pub use sums::SumPiece;
pub use walk::{FoldedChange, FoldedLine};

mod fold;
mod lost;
mod moments;
mod player;
mod snapshots;
mod sums;
mod walk;

/// Files that are played together.
#[derive(Clone, Debug, Default)]
pub struct Recordings {
    files: Vec<Arc<Recording>>,
    /// What is missing of older parts that cannot be read.
    unread: Vec<String>,
}

impl Recordings {
    /// Opens files, each with its older parts. A file that is named twice is read once.
    pub fn open<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, RecordingError> {
        let named: Vec<&Path> = paths.into_iter().collect();
        let with_parts = named
            .iter()
            .flat_map(|path| Recording::parts(path).into_iter().chain([path.to_path_buf()]));
        let mut all = Self::default();
        for path in storage::distinct(with_parts) {
            match Recording::open(&path) {
                Ok(recording) => all.files.push(Arc::new(recording)),
                Err(error) if named.contains(&&*path) => return Err(error),
                // An older part that is damaged or gone does not keep the rest from being played.
                Err(error) => all.unread.extend(Recording::loss_of_part(&path, &error)),
            }
        }
        Ok(all)
    }

    /// Returns the recorded times, in rising order and apart.
    pub fn spans(&self) -> Vec<(Timestamp, Timestamp)> {
        let segments = self.files.iter().flat_map(|recording| recording.segments());
        let mut spans: Vec<_> = segments.flat_map(Segment::spans).collect();
        spans.sort_unstable();
        let mut merged: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (first, last) in spans {
            match merged.last_mut() {
                Some((_, end)) if first <= end.plus(MAX_PAUSE) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        merged
    }

    /// Returns the time of the last line; `None` if nothing is recorded.
    pub fn end(&self) -> Option<Timestamp> {
        self.spans().last().map(|(_, last)| *last)
    }

    /// Returns what the files say they are.
    pub fn title(&self) -> String {
        let headers = self.files.iter().filter_map(|recording| recording.header());
        let mut titles: Vec<&str> = headers.map(|header| header.title.as_str()).collect();
        titles.dedup();
        gtop_local::text::sanitize(&titles.join(" and "), 200)
    }

    /// Returns what cannot be played; `None` if the files are whole.
    pub fn loss(&self) -> Option<String> {
        let losses = self.files.iter().filter_map(|recording| recording.loss());
        let losses: Vec<String> = self.unread.iter().cloned().chain(losses).collect();
        (!losses.is_empty()).then(|| losses.join("; "))
    }

    /// Returns the marks of all files, in rising order.
    pub fn marks(&self) -> Vec<Mark> {
        let mut marks: Vec<Mark> =
            self.files.iter().flat_map(|recording| recording.marks()).cloned().collect();
        marks.sort_by_key(|mark| mark.at);
        marks
    }

    /// Returns the fleet at a time, with the history before it.
    pub fn fleet_at(&self, at: Timestamp, history_span: Duration) -> Fleet {
        self.picture_at(at, history_span).0
    }

    /// Returns the fleet at a time, with the history before it, and what of that is lost.
    pub fn picture_at(&self, at: Timestamp, history_span: Duration) -> (Fleet, LostLines) {
        let mut fold = Fold::new(self, at.minus(history_span), history_span);
        fold.advance(at, &AtomicBool::new(false));
        (fleet_of(&fold, history_span), fold.lost())
    }

    /// Returns the fleet at a time, as a jump there shows it first.
    #[cfg(feature = "testing")]
    pub fn fleet_from_checkpoint(&self, at: Timestamp, history_span: Duration) -> Fleet {
        let mut fold = Fold::new(self, at, history_span);
        fold.advance(at, &AtomicBool::new(false));
        fleet_of(&fold, history_span)
    }
}

fn fleet_of(fold: &Fold, history_span: Duration) -> Fleet {
    let (nodes, jobs) = fold.picture();
    let store = FleetStore::new([], history_span);
    store.replace(nodes, jobs, || {});
    Fleet::clone(&store.reader().borrow())
}

/// Returns true if a file goes on where another one ends: one run of a recorder has written the end and the start.
fn is_continued(part: &Recording, next: &Recording) -> bool {
    let [recorder, next_recorder] =
        [part, next].map(|recording| recording.header().map(|header| (&header.host, header.pid)));
    // Of parts of one recording, the first may have been begun by another recorder than the one that ended it; for one whose
    // start is damaged, the time decides.
    let is_same = part.recording_path() == next.recording_path()
        || recorder.zip(next_recorder).is_none_or(|(one, other)| one == other);
    let end = part.segments().iter().map(|segment| segment.last).max();
    let start = next.segments().first().map(|segment| segment.first);
    is_same
        && end.zip(start).is_some_and(|(end, start)| start >= end && start.since(end) <= MAX_PAUSE)
}
