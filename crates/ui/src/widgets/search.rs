//! A search as in a pager: `/` and a text, Enter, then `n` and `N`. Where it searches is up to its user.

use crate::input::{Key, NamedKey};
use crate::widgets::line::{Line, Span, SpanContent, Tone};
use crate::widgets::line_editor::LineEditor;

const MAX_PATTERN_BYTES: usize = 200;

/// The prompt of a search, and what was searched for last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SearchPrompt {
    input: Option<LineEditor>,
    /// Empty before the first search.
    pub(crate) pattern: String,
}

/// What a key does to a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchStep {
    /// Nothing else than to the prompt.
    Handled,
    /// The pattern is to be found, onwards or backwards.
    Find { is_backwards: bool },
}

impl SearchPrompt {
    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are typed, or none of a search")]
    /// Handles a key; returns `None` if it is none of a search.
    pub(crate) fn on_key(&mut self, key: Key) -> Option<SearchStep> {
        if let Some(editor) = &mut self.input {
            return Some(match key {
                Key::Named(NamedKey::Escape) | Key::Control('c') => self.close(),
                Key::Named(NamedKey::Enter) if editor.text().is_empty() => self.close(),
                Key::Named(NamedKey::Enter) => {
                    editor.text().clone_into(&mut self.pattern);
                    self.input = None;
                    SearchStep::Find { is_backwards: false }
                }
                key => {
                    editor.on_key(key);
                    SearchStep::Handled
                }
            });
        }
        match key {
            Key::Letter('/') => self.input = Some(LineEditor::new("", MAX_PATTERN_BYTES)),
            Key::Letter(letter @ ('n' | 'N')) if !self.pattern.is_empty() => {
                return Some(SearchStep::Find { is_backwards: letter == 'N' });
            }
            _ => return None,
        }
        Some(SearchStep::Handled)
    }

    fn close(&mut self) -> SearchStep {
        self.input = None;
        SearchStep::Handled
    }

    pub(crate) const fn is_typing(&self) -> bool {
        self.input.is_some()
    }

    /// Draws the prompt while it is open.
    pub(crate) fn line(&self, width: u16) -> Option<Line> {
        self.input.as_ref().map(|editor| editor.line("search: ", width))
    }

    /// The hints while the prompt is open.
    pub(crate) const TYPING_HINTS: &[(&str, &str)] = &[("Enter", "search"), ("Esc", "cancel")];

    pub(crate) fn not_found(&self) -> String {
        format!("{:?} not found", self.pattern)
    }

    /// Says that a search has gone around the end of the text.
    pub(crate) fn wrapped(is_backwards: bool) -> String {
        let from = if is_backwards { "the end" } else { "the beginning" };
        format!("search continued from {from}")
    }

    /// Returns true if a part of the line contains the pattern.
    pub(crate) fn matches(&self, line: &Line) -> bool {
        line.spans.iter().any(
            |span| matches!(&span.content, SpanContent::Text(text) if !self.find(text).is_empty()),
        )
    }

    /// Marks each occurrence of the pattern.
    pub(crate) fn marked(&self, line: Line) -> Line {
        if self.pattern.is_empty() {
            return line;
        }
        let spans = line.spans.into_iter().flat_map(|span| self.marked_parts(span)).collect();
        Line { spans, ..line }
    }

    fn marked_parts(&self, span: Span) -> Vec<Span> {
        let SpanContent::Text(text) = &span.content else { return vec![span] };
        let mut parts = Line::new();
        let mut from = 0;
        for start in self.find(text) {
            let end = start + self.pattern.len();
            parts = parts.text(text.get(from..start).unwrap_or_default(), span.tone);
            parts = parts.text(text.get(start..end).unwrap_or_default(), Tone::Caret);
            from = end;
        }
        let rest = text.get(from..).unwrap_or_default().to_owned();
        let width = span.width.saturating_sub(parts.width());
        parts.spans.push(Span { content: SpanContent::Text(rest), width, ..span });
        parts.spans
    }

    /// Returns where the pattern occurs in a text; case counts if the pattern has capitals.
    fn find(&self, text: &str) -> Vec<usize> {
        let folds = !self.pattern.chars().any(char::is_uppercase);
        let text = if folds { text.to_ascii_lowercase() } else { text.to_owned() };
        text.match_indices(&self.pattern).map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_and_gaps_stay() {
        let line = Line::new().text("Loss loss 5", Tone::Plain).gap(2).text("LOSS", Tone::Bad);
        for (pattern, count) in [("loss", 3), ("Loss", 1), ("x", 0), ("", 0)] {
            let search = SearchPrompt { pattern: pattern.to_owned(), ..SearchPrompt::default() };
            let marked = search.marked(line.clone());
            let caret = marked.spans.iter().filter(|span| span.tone == Tone::Caret).count();
            assert_eq!((caret, marked.plain_text()), (count, line.plain_text()), "{pattern}");
            assert_eq!(search.matches(&line), count > 0 || pattern.is_empty(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_is_typed_and_an_empty_one_finds_nothing() {
        let mut search = SearchPrompt::default();
        let mut press = |key| search.on_key(key);
        let (enter, handled) = (Key::Named(NamedKey::Enter), Some(SearchStep::Handled));
        let find = |is_backwards| Some(SearchStep::Find { is_backwards });
        assert_eq!([press(Key::Letter('n')), press(enter)], [None, None]);
        assert_eq!([press(Key::Letter('/')), press(enter)], [handled; 2]);
        assert_eq!([press(Key::Letter('/')), press(Key::Letter('n'))], [handled; 2]);
        assert_eq!([press(enter), press(Key::Letter('N'))], [find(false), find(true)]);
        assert_eq!([press(Key::Letter('/')), press(Key::Named(NamedKey::Escape))], [handled; 2]);
        assert_eq!(press(Key::Named(NamedKey::Escape)), None);
        assert_eq!(search.pattern, "n");
    }
}
