//! The lines that are compressed together.

use std::collections::VecDeque;

use crate::record::line;
use crate::record::value::is_pause;
use crate::wire::Frame;
use gtop_local::time::Timestamp;
use gtop_model::Mark;

/// Marks of one segment.
const MAX_MARKS: usize = 1000;

/// A group of lines.
#[derive(Debug, Default)]
pub(super) struct LineGroup {
    pub(super) text: Vec<u8>,
    /// Times of the first and the last line.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    /// The times within it in which the recorder stood still, as while its machine slept.
    pub(super) pauses: Vec<(Timestamp, Timestamp)>,
    pub(super) marks: Vec<Mark>,
    /// Frames of its lines, in their order, so that sums do not decode them again; those of a large group are not all there.
    pub(super) frames: VecDeque<Frame>,
}

impl LineGroup {
    /// Adds what `write` appends, at this time.
    pub(super) fn add(&mut self, at: Timestamp, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
        let (first, last) = self.span.unwrap_or((at, at));
        if is_pause(last, at) {
            self.pauses.push((last, at));
        }
        self.span = Some((first, last.max(at)));
    }

    /// Adds the line of a mark.
    pub(super) fn add_mark(&mut self, mark: Mark) {
        self.add(mark.at, |text| line::write_mark(text, &mark));
        if self.marks.len() < MAX_MARKS {
            self.marks.push(mark);
        }
    }
}
