//! Walks over recordings: each change of a node, in the order of time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::source::replay::fold::{Change, Fold};
use crate::source::replay::{LostLines, Recordings, is_continued};
use gtop_fleet::Node;
use gtop_local::time::Timestamp;
use gtop_model::{JobList, NodeName};

/// A change, and where it comes from.
#[derive(Debug)]
pub struct FoldedLine<'a> {
    /// When it was recorded.
    pub at: Timestamp,
    /// The position of its file in the recordings.
    pub file: usize,
    /// What has changed.
    pub change: FoldedChange<'a>,
}

/// What a line of a recording changes.
#[derive(Debug)]
pub enum FoldedChange<'a> {
    /// A node.
    Node(&'a Arc<Node>),
    /// The nodes that the file lists, or the jobs of all files.
    Roster(&'a [NodeName], Option<Arc<JobList>>),
}

impl Recordings {
    /// Calls `visit` for what changes from a time to another, after what is known from the checkpoints before.
    ///
    /// Returns what could not be read. The first calls may be for times before `from`. Histories are not kept: a node
    /// has its last values only.
    pub fn walk(
        &self,
        from: Timestamp,
        to: Timestamp,
        is_cancelled: &AtomicBool,
        mut visit: impl FnMut(&FoldedLine<'_>),
    ) -> LostLines {
        let mut fold = Fold::new(self, from, Duration::ZERO);
        while let Some(file) = fold.next_stream(to)
            && !is_cancelled.load(std::sync::atomic::Ordering::Relaxed)
        {
            let change = fold.step(file);
            let Some((at, listed)) = fold.listed(file) else { continue };
            match change {
                Change::Node(node) => {
                    visit(&FoldedLine { at, file, change: FoldedChange::Node(&node) });
                }
                Change::Roster => {
                    let change = FoldedChange::Roster(listed, fold.jobs());
                    visit(&FoldedLine { at, file, change });
                }
                Change::Nothing => {}
            }
        }
        fold.lost()
    }

    /// Returns the recorded times of each file, in rising order and apart; a part ends where the next one begins.
    pub fn spans_by_file(&self) -> Vec<Vec<(Timestamp, Timestamp)>> {
        let mut all: Vec<_> = self
            .files
            .iter()
            .map(|one| Self { files: vec![Arc::clone(one)], ..Self::default() }.spans())
            .collect();
        for (number, parts) in self.files.windows(2).enumerate() {
            let [part, next] = parts else { continue };
            let start = next.segments().first().map(|segment| segment.first);
            let span = all.get_mut(number).and_then(|spans| spans.last_mut());
            if let (true, Some((_, end)), Some(start)) = (is_continued(part, next), span, start) {
                *end = start;
            }
        }
        all
    }

    /// Returns the times at which a walk can begin without reading anything twice, in rising order.
    pub fn starts(&self) -> Vec<Timestamp> {
        let segments = self.files.iter().flat_map(|recording| recording.segments());
        let mut starts: Vec<Timestamp> = segments.map(|segment| segment.first).collect();
        starts.sort_unstable();
        starts
    }
}
