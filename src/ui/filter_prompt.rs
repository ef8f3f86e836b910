//! The filter prompt: applies the filter while it is typed, and completes words on Tab.

use std::ops::ControlFlow;

use crate::fleet::Fleet;
use crate::query::{Filter, FilterError, MAX_FILTER_LENGTH, complete};
use crate::ui::RenderContext;
use crate::ui::input::{Key, NamedKey};
use crate::ui::widgets::line::{Line, Tone, flow};
use crate::ui::widgets::line_editor::LineEditor;

/// The prompt string.
const PROMPT: &str = "/ ";

/// The state of the filter prompt.
#[derive(Clone, Debug)]
pub struct FilterPrompt {
    editor: LineEditor,
    /// The filter before the prompt was opened.
    before: Filter,
    error: Option<FilterError>,
    /// The completions that Tab cycles through, and the current one.
    completions: Option<(Vec<String>, usize)>,
}

impl FilterPrompt {
    /// Opens the prompt with the current filter.
    pub fn new(filter: &Filter) -> Self {
        let prompt = LineEditor::new(filter.text(), MAX_FILTER_LENGTH);
        Self { editor: prompt, before: filter.clone(), error: None, completions: None }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are the line's")]
    /// Handles a key; it closes the prompt with a filter, or changes the filter, or keeps the current one.
    pub fn on_key(&mut self, key: Key, fleet: &Fleet) -> ControlFlow<Filter, Option<Filter>> {
        let text_before = self.editor.text().to_owned();
        match key {
            Key::Named(NamedKey::Enter) if self.error.is_none() => {
                return ControlFlow::Break(Filter::new(&text_before).unwrap_or_default());
            }
            Key::Named(NamedKey::Escape) | Key::Control('c') => {
                return ControlFlow::Break(self.before.clone());
            }
            Key::Named(NamedKey::Tab) => self.complete_word(fleet, true),
            Key::Shift(NamedKey::Tab) => self.complete_word(fleet, false),
            _ => {
                if !self.editor.on_key(key) {
                    return ControlFlow::Continue(None);
                }
                self.completions = None;
                // A full line ignores further input, pasted text too.
                if self.editor.text() == text_before {
                    return ControlFlow::Continue(None);
                }
            }
        }
        let filter = Filter::new(self.editor.text());
        self.error = filter.as_ref().err().cloned();
        ControlFlow::Continue(
            filter
                .or_else(|error| {
                    // Until the error is corrected, the terms before it apply.
                    let text_before: String = self.editor.text().chars().take(error.at).collect();
                    let whole = text_before.rfind(char::is_whitespace).unwrap_or(0);
                    Filter::new(text_before.split_at(whole).0)
                })
                .ok(),
        )
    }

    /// Replaces the word before the caret with the next or previous completion.
    fn complete_word(&mut self, fleet: &Fleet, is_forward: bool) {
        let (completions, at) = match self.completions.take() {
            Some((completions, at)) => {
                let count = completions.len();
                (completions, if is_forward { at + 1 } else { at + count - 1 } % count)
            }
            None => (complete(self.editor.text(), self.editor.caret(), fleet), 0),
        };
        let Some(word) = completions.get(at) else { return };
        let (before_caret, after_caret) = self.editor.parts();
        let prefix = before_caret.trim_end_matches(|letter: char| !letter.is_whitespace());
        let caret = prefix.chars().count() + word.chars().count();
        let text = format!("{prefix}{word}{after_caret}");
        self.editor.set(&text, caret);
        self.completions = Some((completions, at));
    }

    pub(crate) fn line(&self, width: u16) -> Line {
        self.editor.line(PROMPT, width)
    }

    /// Draws the lines above the prompt: the error below a mark, or the completions.
    pub(crate) fn lines(
        &self,
        context: RenderContext<'_>,
        width: u16,
        max_lines: usize,
    ) -> Vec<Line> {
        if max_lines < 2 {
            return Vec::new();
        }
        let line = if let Some(error) = &self.error {
            // The mark points down at the character where the error begins.
            let at = u16::try_from(error.at).unwrap_or(u16::MAX);
            let column = at.saturating_add(2).min(width.saturating_sub(1));
            let words = format!("▼ {}", error.message);
            Line::new().gap(column.min(width / 2)).text(words, Tone::Bad)
        } else if let Some((words, at)) = &self.completions {
            let shown = words.iter().enumerate().skip(at.saturating_sub(2)).map(|(index, word)| {
                Line::styled(word.as_str(), if index == *at { Tone::Accent } else { Tone::Faint })
            });
            flow(shown.collect(), 2, width, 1).pop().unwrap_or_default()
        } else {
            let fleet_view = context.view;
            let found = format!("{} of {} nodes", fleet_view.count(), fleet_view.fleet.nodes.len());
            let keys = "   Enter applies  Esc cancels  Tab completes";
            let examples = "   words, or util<10 mem>50% user=alice node~gpu0 temp>=80 stale";
            Line::styled(found, Tone::Strong).text(keys, Tone::Faint).text(examples, Tone::Faint)
        };
        vec![Line::new().rule(width), line.truncated(width)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_text(prompt: &mut FilterPrompt, text: &str) -> Option<Filter> {
        let fleet = Fleet::default();
        let mut found = None;
        for letter in text.chars() {
            match prompt.on_key(Key::Letter(letter), &fleet) {
                ControlFlow::Continue(filter) => found = filter,
                ControlFlow::Break(_) => panic!("it is done too early"),
            }
        }
        found
    }

    #[test]
    fn the_filter_applies_while_it_is_typed_and_errors_are_shown() {
        let mut prompt = FilterPrompt::new(&Filter::default());
        assert_eq!(type_text(&mut prompt, "util<10").unwrap().text(), "util<10");
        assert_eq!(type_text(&mut prompt, " mem>").unwrap().text(), "util<10");
        assert!(prompt.error.is_some());
        let fleet = Fleet::default();
        let enter = Key::Named(NamedKey::Enter);
        assert!(
            matches!(prompt.on_key(enter, &fleet), ControlFlow::Continue(_)),
            "an error is no filter"
        );
        let ControlFlow::Break(filter) = prompt.on_key(Key::Named(NamedKey::Escape), &fleet) else {
            panic!("Esc leaves")
        };
        assert!(filter.is_empty());
    }

    #[test]
    fn a_full_line_ignores_the_rest_of_a_long_paste() {
        let fleet = Fleet::default();
        let mut prompt = FilterPrompt::new(&Filter::default());
        let edited = (0..100_000)
            .filter(|number| {
                let letter = if number % 7 == 0 { ' ' } else { 'x' };
                matches!(prompt.on_key(Key::Letter(letter), &fleet), ControlFlow::Continue(Some(_)))
            })
            .count();
        assert_eq!((edited, prompt.editor.text().len()), (MAX_FILTER_LENGTH, MAX_FILTER_LENGTH));
    }

    #[test]
    fn tab_cycles_through_completions() {
        let mut prompt = FilterPrompt::new(&Filter::default());
        type_text(&mut prompt, "stale ut");
        assert!(prompt.on_key(Key::Named(NamedKey::Tab), &Fleet::default()).is_continue());
        assert_eq!(prompt.editor.text(), "stale util");
        assert!(prompt.on_key(Key::Letter('<'), &Fleet::default()).is_continue());
        assert_eq!(prompt.editor.text(), "stale util<");
    }
}
