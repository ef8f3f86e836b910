//! Sums over a span of time: those that recorders have written, and times of which samples must be read.

use crate::record::Segment;
use crate::source::replay::Recordings;
use crate::sums::SpanSums;
use gtop_local::time::Timestamp;

/// A part of a span of time.
#[derive(Clone, Debug)]
pub struct SumPiece {
    /// When it begins.
    pub from: Timestamp,
    /// When it ends.
    pub to: Timestamp,
    /// The position of a file, and the last segment of a stretch of it whose sums are written.
    stretch: Option<(usize, Segment)>,
}

impl Recordings {
    /// Divides a span of time into pieces: one for each stretch whose sums are written, and what is left.
    pub fn pieces(&self, from: Timestamp, to: Timestamp) -> Vec<SumPiece> {
        let (mut pieces, mut done) = (Vec::new(), from);
        // Where files overlap, nodes would count twice.
        for (number, file) in self.files.iter().enumerate().filter(|_| self.are_apart()) {
            for stretch in file.segments().split_inclusive(|segment| file.ends_stretch(segment)) {
                let is_within = stretch.iter().all(|one| one.first >= from && one.last <= to);
                let last = stretch.last().filter(|last| is_within && file.ends_stretch(last));
                if let Some(last) = last.filter(|last| last.last > done) {
                    let stretch = Some((number, last.clone()));
                    pieces.push(SumPiece { from: done, to: last.last, stretch });
                    done = last.last;
                }
            }
        }
        if done < to {
            pieces.push(SumPiece { from: done, to, stretch: None });
        }
        pieces
    }

    /// Returns the sums that are written of a piece, which end with it, and since when they are; `None` if there are none that
    /// this version uses.
    pub fn written_sums(&self, piece: &SumPiece) -> Option<(Timestamp, SpanSums)> {
        let (file, segment) = piece.stretch.as_ref()?;
        let ((from, to), sums) = self.files.get(*file)?.sums_of_stretch(segment)?;
        (from >= piece.from && to == piece.to).then_some((from, sums))
    }

    /// Returns true if no file begins before the one before it ends.
    fn are_apart(&self) -> bool {
        let ends = self.files.iter().map(|file| file.segments().iter().map(|one| one.last).max());
        let starts = self.files.iter().map(|file| file.segments().first().map(|one| one.first));
        ends.zip(starts.skip(1)).all(|(end, start)| start.is_none() || end <= start)
    }
}

impl SumPiece {
    /// Returns a piece of which samples must be read.
    pub fn of_samples(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to, stretch: None }
    }

    /// Returns true if its sums are written.
    pub fn is_written(&self) -> bool {
        self.stretch.is_some()
    }
}
