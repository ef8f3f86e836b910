//! Lines that are scrolled as a whole, such as the help page.

use crate::widgets::line::{Line, Tone};
use crate::widgets::list::Movement;

/// The position of a page that may have more lines than fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scroll {
    /// The first visible line.
    pub(crate) top: usize,
}

impl Scroll {
    pub(crate) fn step(&mut self, movement: Movement, page: usize) {
        self.top = movement.new_index(self.top, usize::MAX, page);
    }

    /// Scrolls back so that the last of `count` lines is at the bottom at most.
    pub(crate) fn fit(&mut self, count: usize, rows: usize) {
        self.top = self.top.min(count.saturating_sub(rows));
    }

    /// Returns the visible lines; the last one tells how many are below.
    pub(crate) fn visible(self, lines: Vec<Line>, rows: usize) -> Vec<Line> {
        let below = lines.len().saturating_sub(self.top + rows);
        let mut visible: Vec<Line> = lines.into_iter().skip(self.top).take(rows).collect();
        if below > 0
            && let Some(last) = visible.last_mut()
        {
            *last = Line::styled(format!("  ↓ {} more lines", below + 1), Tone::Faint);
        }
        visible
    }
}
