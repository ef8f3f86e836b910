//! A line editor for filters and settings.

use crate::input::{Key, NamedKey};
use crate::widgets::line::{Line, Tone};
use gtop_local::text::{is_unprintable, width_of};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEditor {
    text: String,
    /// Characters before the caret.
    caret: usize,
    /// Maximum length in bytes.
    max_bytes: usize,
}

impl LineEditor {
    /// Starts with a text, the caret at its end.
    pub(crate) fn new(text: &str, max_bytes: usize) -> Self {
        Self { text: text.to_owned(), caret: text.chars().count(), max_bytes }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of characters before the caret.
    pub(crate) const fn caret(&self) -> usize {
        self.caret
    }

    /// Returns the text before and after the caret.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.text.split_at_checked(self.byte_offset(self.caret)).unwrap_or((&self.text, ""))
    }

    /// Replaces the text, and puts the caret after `caret` characters.
    pub(crate) fn set(&mut self, text: &str, caret: usize) {
        text.clone_into(&mut self.text);
        self.caret = caret.min(text.chars().count());
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys edit nothing")]
    /// Handles a key; returns true if it is an editing key.
    pub(crate) fn on_key(&mut self, key: Key) -> bool {
        let count = self.text.chars().count();
        match key {
            Key::Letter(letter) => self.insert(letter),
            Key::Named(NamedKey::Backspace) | Key::Control('h') => {
                self.remove(self.caret.checked_sub(1));
            }
            Key::Named(NamedKey::Delete) | Key::Control('d') => self.remove(Some(self.caret)),
            Key::Named(NamedKey::Left) | Key::Control('b') => {
                self.caret = self.caret.saturating_sub(1);
            }
            Key::Named(NamedKey::Right) | Key::Control('f') => {
                self.caret = (self.caret + 1).min(count);
            }
            Key::Named(NamedKey::Home) | Key::Control('a') => self.caret = 0,
            Key::Named(NamedKey::End) | Key::Control('e') => self.caret = count,
            Key::Control('u') => (self.text, self.caret) = (self.parts().1.to_owned(), 0),
            Key::Control('k') => self.text = self.parts().0.to_owned(),
            Key::Control('w') => self.remove_word(),
            _ => return false,
        }
        true
    }

    fn insert(&mut self, letter: char) {
        // Keys such as Ctrl-Space arrive as unprintable characters.
        if !is_unprintable(letter) && self.text.len() + letter.len_utf8() <= self.max_bytes {
            let at = self.byte_offset(self.caret);
            self.text.insert(at, letter);
            self.caret += 1;
        }
    }

    fn remove(&mut self, index: Option<usize>) {
        let Some(index) = index.filter(|index| *index < self.text.chars().count()) else { return };
        self.text.remove(self.byte_offset(index));
        self.caret = self.caret.min(index);
    }

    fn remove_word(&mut self) {
        let (before, after) = self.parts();
        let kept = before.trim_end().trim_end_matches(|letter: char| !letter.is_whitespace());
        (self.text, self.caret) = (format!("{kept}{after}"), kept.chars().count());
    }

    fn byte_offset(&self, index: usize) -> usize {
        self.text.char_indices().nth(index).map_or(self.text.len(), |(byte, _)| byte)
    }

    /// Draws a prompt string and the text, scrolled so that the caret is visible.
    pub(crate) fn line(&self, prompt: &str, width: u16) -> Line {
        let (mut shown, after) = self.parts();
        let mut after = after.chars();
        let caret = after.next().map_or_else(|| " ".to_owned(), String::from);
        let room = width.saturating_sub(width_of(prompt) + 2);
        while width_of(shown) > room {
            let mut letters = shown.chars();
            letters.next();
            shown = letters.as_str();
        }
        Line::styled(prompt, Tone::Accent)
            .text(shown, Tone::Strong)
            .caret(caret)
            .text(after.as_str(), Tone::Strong)
            .truncated(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let named = Key::Named;
        for (text, keys, expected, caret) in [
            ("", vec![Key::Letter('a'), Key::Letter('é')], "aé", 2),
            ("abc", vec![named(NamedKey::Left), named(NamedKey::Backspace)], "ac", 1),
            ("abc", vec![named(NamedKey::Home), named(NamedKey::Delete)], "bc", 0),
            ("a bc  ", vec![Key::Control('w')], "a ", 2),
            ("日本", vec![named(NamedKey::Left), Key::Letter('x')], "日x本", 2),
            ("abc", vec![named(NamedKey::Left), Key::Control('u')], "c", 0),
            ("abc", vec![Key::Control('a'), Key::Control('k')], "", 0),
            ("12345678", vec![Key::Letter('9')], "12345678", 8),
            ("ab", vec![Key::Letter('\0'), Key::Letter('\u{202e}'), Key::Letter('c')], "abc", 3),
        ] {
            let mut editor = LineEditor::new(text, 8);
            for key in keys {
                assert!(editor.on_key(key));
            }
            assert_eq!((editor.text(), editor.caret()), (expected, caret));
        }
        assert!(!LineEditor::new("", 8).on_key(Key::Named(NamedKey::Enter)));
    }

    #[test]
    fn the_caret_is_always_visible() {
        let editor = LineEditor::new(&"x".repeat(300), 500);
        for width in 1..40 {
            assert!(editor.line("/", width).width() <= width);
        }
    }
}
