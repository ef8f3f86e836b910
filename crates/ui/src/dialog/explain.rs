//! The dialog that explains a row.

use std::ops::ControlFlow;

use crate::dialog::dialog_step::DialogStep;
use crate::input::{Key, NamedKey};
use crate::widgets::explanation::Explanation;
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
}

impl ExplanationDialog {
    pub(crate) fn new(explanation: Explanation, version: ViewVersion) -> Self {
        Self { explanation, version, scroll: Scroll::default(), rows: 1 }
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

    /// Notes the size of the dialog, so that it scrolls no further than its last line.
    pub(crate) fn resize(&mut self, now: Timestamp, width: u16, rows: usize) {
        self.rows = rows;
        let count = self.explanation.lines(now, width).len();
        self.scroll.fit(count, rows);
    }

    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        let closes = matches!(
            key,
            Key::Named(NamedKey::Escape | NamedKey::Enter)
                | Key::Control('c')
                | Key::Letter('q' | 'i')
        );
        if closes {
            return ControlFlow::Break(None);
        }
        let movement = if key == Key::Letter(' ') {
            Some(Movement::PageDown)
        } else {
            Movement::from_dialog_key(key)
        };
        if let Some(movement) = movement {
            self.scroll(movement);
        }
        ControlFlow::Continue(None)
    }

    pub(crate) fn scroll(&mut self, movement: Movement) {
        self.scroll.step(movement, self.rows.max(2) - 1);
    }

    /// Draws the visible lines in at most `max_lines`; the last one tells how many are below.
    pub(crate) fn lines(&self, now: Timestamp, width: u16, max_lines: usize) -> Vec<Line> {
        self.scroll.visible(self.explanation.lines(now, width), max_lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::widgets::explanation::Fact;
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
}
