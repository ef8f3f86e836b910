//! The dialog that explains a row.

use std::ops::{ControlFlow, Range};

use crate::dialog::dialog_step::DialogStep;
use crate::input::{Key, NamedKey};
use crate::widgets::explanation::{Explanation, UnfoldedDetails};
use crate::widgets::line::Line;
use crate::widgets::list::Movement;
use crate::widgets::scroll::Scroll;
use gtop_fleet::insight::ViewVersion;
use gtop_local::time::Timestamp;

/// The explanation of a row, scrolled to a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExplanationDialog {
    explanation: Explanation,
    /// The snapshot that it is of.
    version: ViewVersion,
    scroll: Scroll,
    /// The number of visible lines when it was drawn last.
    rows: usize,
    unfolded: UnfoldedDetails,
    /// The lines with headings of details, when it was drawn last, and the number of all lines.
    headings: Vec<usize>,
    count: usize,
}

impl ExplanationDialog {
    pub(crate) fn new(explanation: Explanation, version: ViewVersion) -> Self {
        Self {
            explanation,
            version,
            scroll: Scroll::default(),
            rows: 1,
            unfolded: UnfoldedDetails::default(),
            headings: Vec::new(),
            count: 0,
        }
    }

    /// Returns true if there is a newer snapshot than the one explained.
    pub(crate) fn is_old(&self, version: &ViewVersion) -> bool {
        self.version != *version
    }

    /// Takes over newer values of the same row; those of a row that is gone stay and grow old.
    pub(crate) fn update(&mut self, newer: Option<Explanation>, version: ViewVersion) {
        self.version = version;
        if let Some(newer) = newer.filter(|newer| newer.title == self.explanation.title) {
            self.explanation = newer;
        }
    }

    /// Notes the size of the dialog, so that it scrolls no further than its last line, and the cursor is on a visible heading
    /// if there is one.
    pub(crate) fn resize(&mut self, now: Timestamp, width: u16, rows: usize) {
        self.rows = rows;
        if self.count == 0 {
            self.unfold_what_is_wrong(now, width);
        }
        let drawn = self.explanation.drawn(&self.unfolded, now, width);
        (self.headings, self.count) = (drawn.headings, drawn.lines.len());
        self.scroll.fit(self.count, rows);
        let visible = self.visible_headings();
        if let Some(last) = visible.end.checked_sub(1).filter(|_| !visible.is_empty()) {
            self.unfolded.cursor = self.unfolded.cursor.clamp(visible.start, last);
        }
    }

    /// Unfolds what is wrong if the page then still fits on the screen.
    fn unfold_what_is_wrong(&mut self, now: Timestamp, width: u16) {
        let mut unfolded = UnfoldedDetails::default();
        unfolded.set(&self.explanation, Some(true));
        let count = self.explanation.drawn(&unfolded, now, width).lines.len();
        if self.explanation.has_remarks_folded() && count <= self.rows {
            self.unfolded = unfolded;
        }
    }

    /// Returns the headings that are on the screen.
    fn visible_headings(&self) -> Range<usize> {
        let end = self.scroll.top + self.rows;
        // The last line tells how many are below.
        let end = if end < self.count { end.saturating_sub(1) } else { end };
        let before = |line: usize| self.headings.partition_point(|heading| *heading < line);
        before(self.scroll.top)..before(end)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other keys move, or mean nothing")]
    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        let has_details = !self.headings.is_empty();
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') | Key::Letter('q' | 'i') => {
                return ControlFlow::Break(None);
            }
            Key::Named(NamedKey::Enter) if !has_details => return ControlFlow::Break(None),
            Key::Named(NamedKey::Enter) => self.unfold(None),
            Key::Named(NamedKey::Right) => self.unfold(Some(true)),
            Key::Named(NamedKey::Left) => self.unfold(Some(false)),
            Key::Letter('+' | '=') => self.unfolded.set_all(&self.explanation, true),
            Key::Letter('-') => self.unfolded.set_all(&self.explanation, false),
            Key::Letter(' ') => self.scroll(Movement::PageDown),
            key => match Movement::from_dialog_key(key) {
                Some(movement @ (Movement::Up | Movement::Down)) => self.step(movement),
                Some(movement) => self.scroll(movement),
                None => {}
            },
        }
        ControlFlow::Continue(None)
    }

    /// Unfolds the details under the cursor, or folds them, if their heading is on the screen.
    fn unfold(&mut self, unfolds: Option<bool>) {
        if self.visible_headings().contains(&self.unfolded.cursor) {
            self.unfolded.set(&self.explanation, unfolds);
        }
    }

    /// Moves up or down to the next heading on the screen, or scrolls by a line if there is none.
    fn step(&mut self, movement: Movement) {
        let cursor = self.unfolded.cursor;
        let is_up = movement == Movement::Up;
        let next = if is_up { cursor.checked_sub(1) } else { cursor.checked_add(1) };
        match next.filter(|next| self.visible_headings().contains(next)) {
            Some(next) => self.unfolded.cursor = next,
            None => self.scroll(movement),
        }
    }

    pub(crate) fn scroll(&mut self, movement: Movement) {
        self.scroll.step(movement, self.rows.max(2) - 1);
    }

    /// Draws the visible lines in at most `max_lines`; the last one tells how many are below.
    pub(crate) fn lines(&self, now: Timestamp, width: u16, max_lines: usize) -> Vec<Line> {
        let drawn = self.explanation.drawn(&self.unfolded, now, width);
        self.scroll.visible(drawn.lines, max_lines)
    }

    pub(crate) const fn hints(&self) -> &'static [(&'static str, &'static str)] {
        if self.headings.is_empty() {
            return &[("↑ ↓ PgUp PgDn", "scroll"), ("Esc", "close")];
        }
        &[("↑ ↓ PgUp PgDn", "move"), ("Enter", "unfold"), ("+ -", "all"), ("Esc", "close")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::widgets::explanation::Fact;
    use crate::widgets::line::RowStyle;
    use gtop_fleet::insight::FleetView;

    fn dialog(title: &str, values: usize) -> ExplanationDialog {
        let facts = (0..values).map(|at| Fact::known("name", at.to_string(), "")).collect();
        let page = Explanation::new(title).with_numbers("source", None, facts);
        ExplanationDialog::new(page, FleetView::default().version())
    }

    fn first(dialog: &ExplanationDialog) -> String {
        let lines = dialog.lines(Timestamp::default(), 40, 5);
        lines.first().map(|line| line.plain_text().trim().to_owned()).unwrap_or_default()
    }

    #[test]
    fn it_scrolls_to_its_last_line_and_back() {
        let mut open = dialog("gpu01", 20);
        open.resize(Timestamp::default(), 40, 5);
        for _ in 0..90 {
            assert_eq!(open.on_key(Key::Named(NamedKey::PageDown)), ControlFlow::Continue(None));
            open.resize(Timestamp::default(), 40, 5);
        }
        assert_eq!(open.lines(Timestamp::default(), 40, 5).len(), 5);
        assert_eq!(first(&open), "name 15");
        let _step = open.on_key(Key::Named(NamedKey::Home));
        assert_eq!(first(&open), "gpu01");
        for key in [Key::Letter('i'), Key::Named(NamedKey::Escape), Key::Letter('q')] {
            assert_eq!(open.on_key(key), ControlFlow::Break(None));
        }
    }

    #[test]
    fn a_row_that_is_gone_keeps_its_last_explanation() {
        let mut open = dialog("gpu01", 2);
        let version = FleetView::default().version();
        open.update(Some(dialog("gpu02", 3).explanation), version.clone());
        assert_eq!(first(&open), "gpu01");
        open.update(None, version.clone());
        assert_eq!(first(&open), "gpu01");
        open.update(Some(dialog("gpu01", 3).explanation), version);
        assert_eq!(open.lines(Timestamp::default(), 40, 9).len(), 6);
    }

    #[test]
    fn the_cursor_moves_over_headings_on_the_screen_and_scrolls_between_them() {
        let fact = || Fact::known("name", "1", "");
        let page = Explanation::new("gpu01")
            .with_details("one", None, vec![fact(); 20])
            .with_details("two", None, vec![fact()]);
        let mut open = ExplanationDialog::new(page, FleetView::default().version());
        let mut press = |key| {
            let step = open.on_key(key);
            assert_eq!(step, ControlFlow::Continue(None));
            open.resize(Timestamp::default(), 40, 6);
            let lines = open.lines(Timestamp::default(), 40, 6);
            let selected = lines.iter().find(|line| line.row_style == RowStyle::Selected);
            let selected = selected.map(|line| line.plain_text().trim().to_owned());
            (selected.unwrap_or_default(), lines.len())
        };
        let named = Key::Named;
        assert_eq!(press(named(NamedKey::Up)), ("▸ one".to_owned(), 4));
        assert_eq!(press(named(NamedKey::Down)), ("▸ two".to_owned(), 4));
        assert_eq!(press(named(NamedKey::Enter)), ("▾ two".to_owned(), 6));
        assert_eq!(press(named(NamedKey::Left)), ("▸ two".to_owned(), 4));
        assert_eq!(press(named(NamedKey::Up)), ("▸ one".to_owned(), 4));
        assert_eq!(press(named(NamedKey::Right)), ("▾ one".to_owned(), 6));
        // Between the headings, lines scroll.
        for _ in 0..10 {
            press(named(NamedKey::Down));
        }
        assert_eq!(press(named(NamedKey::Enter)), (String::new(), 6));
        assert_eq!(press(named(NamedKey::End)), ("▸ two".to_owned(), 6));
        assert_eq!(press(Key::Letter('-')).1, 4);
        assert_eq!(press(Key::Letter('+')).1, 6);
    }
}
