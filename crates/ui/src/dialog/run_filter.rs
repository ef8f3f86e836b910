//! The prompt for a part of the names of runs to show.

use std::ops::ControlFlow;

use crate::action::{Action, RunAction};
use crate::dialog::dialog_step::DialogStep;
use crate::input::{Key, NamedKey};
use crate::widgets::line::Line;
use crate::widgets::line_editor::LineEditor;

const MAX_BYTES: usize = 200;

/// The prompt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunFilter(LineEditor);

impl RunFilter {
    /// Opens the prompt at the current text.
    pub(crate) fn new(text: &str) -> Self {
        Self(LineEditor::new(text, MAX_BYTES))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are typed or mean nothing")]
    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') => ControlFlow::Break(None),
            Key::Named(NamedKey::Enter) => {
                let text = self.0.text().trim().to_owned();
                ControlFlow::Break(Some(Action::Runs(RunAction::SetFilter(text))))
            }
            key => {
                self.0.on_key(key);
                ControlFlow::Continue(None)
            }
        }
    }

    pub(crate) fn lines(&self, width: u16) -> Vec<Line> {
        vec![self.0.line("name contains: ", width)]
    }
}
