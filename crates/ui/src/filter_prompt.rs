//! The filter prompt: applies the filter while it is typed, completes words on Tab, and recalls recent filters.

use std::ops::ControlFlow;

use crate::filter_prompt::menu::CompletionMenu;
use crate::input::{Key, NamedKey};
use crate::render_context::{RenderContext, Size};
use crate::widgets::line::{Line, Tone, flow};
use crate::widgets::line_editor::LineEditor;
use gtop_fleet::Fleet;
use gtop_fleet::query::{Filter, FilterError, MAX_FILTER_LENGTH, complete};
use gtop_local::text::counted;

mod menu;
pub(crate) mod syntax;

/// The prompt string.
const PROMPT: &str = "/ ";
/// The maximum number of lines of completions.
const MAX_MENU_LINES: usize = 10;

/// The state of the filter prompt.
#[derive(Clone, Debug)]
pub(crate) struct FilterPrompt {
    editor: LineEditor,
    /// The filter before the prompt was opened.
    before: Filter,
    error: Option<FilterError>,
    /// It was to be applied in spite of its error.
    is_refused: bool,
    /// The completions, while they are listed.
    menu: Option<CompletionMenu>,
    /// Filters that Up and Down recall, the newest first, after the text that is typed.
    recalled: Vec<String>,
    /// The index of the text in `recalled`.
    recalled_at: usize,
}

impl FilterPrompt {
    /// Opens the prompt with the current filter; `recent` filters can be recalled, the newest first.
    pub(crate) fn new(filter: &Filter, recent: &[String]) -> Self {
        let others = recent.iter().filter(|text| *text != filter.text());
        Self {
            editor: LineEditor::new(filter.text(), MAX_FILTER_LENGTH),
            before: filter.clone(),
            error: None,
            is_refused: false,
            menu: None,
            recalled: std::iter::once(filter.text().to_owned()).chain(others.cloned()).collect(),
            recalled_at: 0,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are the line's")]
    /// Handles a key; it closes the prompt with a filter, or changes the filter, or keeps the current one.
    pub(crate) fn on_key(
        &mut self,
        key: Key,
        fleet: &Fleet,
    ) -> ControlFlow<Filter, Option<Filter>> {
        let text_before = self.editor.text().to_owned();
        let has_menu = self.menu.as_ref().is_some_and(|menu| !menu.is_empty());
        match key {
            Key::Named(NamedKey::Enter) if self.error.is_none() => {
                return ControlFlow::Break(Filter::new(&text_before).unwrap_or_default());
            }
            Key::Named(NamedKey::Enter) => (self.is_refused, self.menu) = (true, None),
            Key::Named(NamedKey::Escape) | Key::Control('c') => {
                return ControlFlow::Break(self.before.clone());
            }
            Key::Named(NamedKey::Tab | NamedKey::Down | NamedKey::Up)
            | Key::Shift(NamedKey::Tab)
                if has_menu =>
            {
                self.choose(matches!(key, Key::Named(NamedKey::Tab | NamedKey::Down)));
            }
            Key::Named(NamedKey::Tab) | Key::Shift(NamedKey::Tab) => self.list_completions(fleet),
            Key::Named(NamedKey::Up) => self.recall(self.recalled_at + 1),
            Key::Named(NamedKey::Down) => self.recall(self.recalled_at.saturating_sub(1)),
            _ => {
                if !self.editor.on_key(key) {
                    return ControlFlow::Continue(None);
                }
                self.menu = None;
            }
        }
        // A full line ignores further input, pasted text too.
        if self.editor.text() == text_before {
            return ControlFlow::Continue(None);
        }
        let filter = Filter::new(self.editor.text());
        self.error = filter.as_ref().err().cloned();
        self.is_refused = false;
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

    /// Lists the completions of the word at the caret, or inserts the only one.
    fn list_completions(&mut self, fleet: &Fleet) {
        let menu = CompletionMenu::new(complete(self.editor.text(), self.editor.caret(), fleet));
        let only = menu.only().map(|word| (menu.span(), word.to_owned()));
        self.menu = only.is_none().then_some(menu);
        if let Some((span, word)) = only {
            self.replace_word(span, &word);
        }
    }

    /// Replaces the word at the caret with the next or previous completion.
    fn choose(&mut self, is_forward: bool) {
        let Some(menu) = &mut self.menu else { return };
        let span = menu.span();
        if let Some(word) = menu.step(is_forward).map(str::to_owned) {
            self.replace_word(span, &word);
        }
    }

    fn replace_word(&mut self, (start, end): (usize, usize), word: &str) {
        let before = self.editor.text().chars().take(start);
        let after = self.editor.text().chars().skip(end);
        let text: String = before.chain(word.chars()).chain(after).collect();
        self.editor.set(&text, start + word.chars().count());
    }

    /// Shows the recalled filter at this index, if there is one; index 0 is what was typed.
    fn recall(&mut self, index: usize) {
        let is_at_draft = self.recalled_at == 0;
        if let Some(draft) = self.recalled.first_mut().filter(|_| is_at_draft) {
            self.editor.text().clone_into(draft);
        }
        if let Some(text) = self.recalled.get(index) {
            self.editor.set(text, text.chars().count());
            (self.recalled_at, self.menu) = (index, None);
        }
    }

    pub(crate) fn line(&self, width: u16) -> Line {
        self.editor.line(PROMPT, width)
    }

    /// Draws the lines above the prompt: the completions, the error below a mark, or what matches and hints.
    pub(crate) fn lines(&self, context: RenderContext<'_>, size: Size) -> Vec<Line> {
        let (width, max_lines) = size;
        if max_lines < 2 {
            return Vec::new();
        }
        let mut lines = vec![Line::new().rule(width)];
        if let Some(menu) = &self.menu {
            lines.extend(menu.lines(width, (max_lines / 2).clamp(1, MAX_MENU_LINES)));
        } else if let Some(error) = &self.error {
            lines.push(self.error_line(error, width));
        } else {
            let [keys, forms] = syntax::hints(self.recalled.len() > 1);
            let found = std::iter::once(match_counts(context)).chain(keys).collect();
            lines.extend(flow(found, 2, width, 1));
            if max_lines >= 6 {
                lines.extend(flow(forms, 3, width, 1));
            }
        }
        lines
    }

    /// Draws an error below a mark that points at the character where it begins. What is missing at the end may still
    /// be typed, until the filter is to be applied.
    fn error_line(&self, error: &FilterError, width: u16) -> Line {
        let is_at_end = error.at >= self.editor.text().trim_end().chars().count();
        let tone = if is_at_end && !self.is_refused { Tone::Faint } else { Tone::Bad };
        let at = u16::try_from(error.at).unwrap_or(u16::MAX);
        let column = at.saturating_add(2).min(width.saturating_sub(1));
        let refused = if self.is_refused { "not applied: " } else { "" };
        let words = Line::styled(format!("▼ {refused}{}", error.message), tone);
        let column = column.min(width.saturating_sub(words.width()).max(width / 3));
        Line::new().gap(column).append(words).truncated(width)
    }
}

/// Draws how many nodes match, and how many devices do not only because a value is unknown.
fn match_counts(context: RenderContext<'_>) -> Line {
    let fleet_view = context.view;
    let nodes =
        format!("{} of {}", fleet_view.count(), counted(fleet_view.fleet.nodes.len(), "node"));
    let line = Line::styled(nodes, Tone::Strong);
    let unknown = fleet_view.matched.as_ref().map_or(0, |matched| matched.unknown_devices);
    match unknown {
        0 => line,
        count => line.text(format!(" · {} unknown", counted(count, "device")), Tone::Warn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAB: Key = Key::Named(NamedKey::Tab);

    fn prompt() -> FilterPrompt {
        FilterPrompt::new(&Filter::default(), &["busy".to_owned(), "free".to_owned()])
    }

    fn press(prompt: &mut FilterPrompt, key: Key) -> Option<Filter> {
        match prompt.on_key(key, &Fleet::default()) {
            ControlFlow::Continue(filter) => filter,
            ControlFlow::Break(_) => panic!("it is done too early"),
        }
    }

    fn type_text(prompt: &mut FilterPrompt, text: &str) -> Option<Filter> {
        text.chars().fold(None, |_, letter| press(prompt, Key::Letter(letter)))
    }

    #[test]
    fn the_filter_applies_while_it_is_typed_and_errors_are_shown() {
        let mut prompt = prompt();
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
    fn what_is_missing_at_the_end_is_no_error_yet() {
        let tone = |text: &str| {
            let mut prompt = prompt();
            type_text(&mut prompt, text);
            let line = prompt.error_line(prompt.error.as_ref().unwrap(), 80);
            line.spans.last().unwrap().tone
        };
        assert_eq!(tone("(free or"), Tone::Faint);
        assert_eq!(tone("util<"), Tone::Faint);
        assert_eq!(tone("utl<10 busy"), Tone::Bad);
    }

    #[test]
    fn enter_in_an_unfinished_filter_says_what_is_missing() {
        let mut prompt = prompt();
        type_text(&mut prompt, "busy util>");
        press(&mut prompt, TAB);
        assert!(press(&mut prompt, Key::Named(NamedKey::Enter)).is_none());
        let shown = |prompt: &FilterPrompt| {
            assert!(prompt.menu.is_none());
            let line = prompt.error_line(prompt.error.as_ref().unwrap(), 80);
            (line.plain_text().trim().to_owned(), line.spans.last().unwrap().tone)
        };
        let words = "▼ not applied: a value is missing after util>".to_owned();
        assert_eq!(shown(&prompt), (words, Tone::Bad));
        type_text(&mut prompt, "5 not");
        assert_eq!(shown(&prompt).1, Tone::Faint);
    }

    #[test]
    fn a_full_line_ignores_the_rest_of_a_long_paste() {
        let fleet = Fleet::default();
        let mut prompt = prompt();
        let edited = (0..100_000)
            .filter(|number| {
                let letter = if number % 7 == 0 { ' ' } else { 'x' };
                matches!(prompt.on_key(Key::Letter(letter), &fleet), ControlFlow::Continue(Some(_)))
            })
            .count();
        assert_eq!((edited, prompt.editor.text().len()), (MAX_FILTER_LENGTH, MAX_FILTER_LENGTH));
    }

    #[test]
    fn the_first_tab_lists_and_the_second_chooses() {
        let mut prompt = prompt();
        type_text(&mut prompt, "(stale or u");
        press(&mut prompt, TAB);
        assert_eq!(prompt.editor.text(), "(stale or u", "it is only listed");
        press(&mut prompt, TAB);
        assert_eq!(prompt.editor.text(), "(stale or util<");
        press(&mut prompt, Key::Named(NamedKey::Down));
        assert_eq!(prompt.editor.text(), "(stale or user=");
        press(&mut prompt, Key::Named(NamedKey::Up));
        type_text(&mut prompt, "10)");
        assert_eq!(prompt.editor.text(), "(stale or util<10)");
        assert!(prompt.menu.is_none() && prompt.error.is_none());
    }

    #[test]
    fn a_completion_inside_a_word_replaces_all_of_it() {
        let mut prompt = prompt();
        type_text(&mut prompt, "stale free");
        for _ in 0..8 {
            press(&mut prompt, Key::Named(NamedKey::Left));
        }
        for expected in ["stale free", "stale free", "state= free", "started= free"] {
            press(&mut prompt, TAB);
            assert_eq!(prompt.editor.text(), expected);
        }
    }

    #[test]
    fn a_single_completion_is_inserted_at_once() {
        let mut prompt = prompt();
        type_text(&mut prompt, "stale parti");
        press(&mut prompt, TAB);
        assert_eq!(prompt.editor.text(), "stale partition=");
        press(&mut prompt, TAB);
        let lines = prompt.menu.as_ref().unwrap().lines(80, 5);
        assert_eq!(lines[0].plain_text(), "no partition is known now");
    }

    #[test]
    fn arrows_recall_recent_filters_and_return_to_what_was_typed() {
        let mut prompt = prompt();
        type_text(&mut prompt, "my dra");
        let (up, down) = (Key::Named(NamedKey::Up), Key::Named(NamedKey::Down));
        assert_eq!(press(&mut prompt, up).unwrap().text(), "busy");
        assert_eq!(press(&mut prompt, up).unwrap().text(), "free");
        assert!(press(&mut prompt, up).is_none(), "there is no older one");
        assert_eq!(press(&mut prompt, down).unwrap().text(), "busy");
        assert_eq!(press(&mut prompt, down).unwrap().text(), "my dra");
        assert!(press(&mut prompt, down).is_none());
        assert_eq!(type_text(&mut prompt, "ft").unwrap().text(), "my draft");
    }
}
