//! A menu from which one item is selected, such as a sort column or a signal.

use std::ops::ControlFlow;

use crate::input::{Key, NamedKey};
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport};
use gtop_local::text::width_of;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Menu<T> {
    pub title: String,
    items: Vec<Item<T>>,
    selected: usize,
    /// The item whose question is shown.
    asked: Option<usize>,
}

/// One item.
#[derive(Clone, Debug, PartialEq)]
struct Item<T> {
    value: T,
    /// The key that selects it at once.
    key: Option<char>,
    /// What the uppercase of its key selects.
    uppercase: Option<T>,
    label: String,
    help: String,
    /// The question to confirm before it is selected; empty if none.
    question: String,
}

impl<T: Clone> Menu<T> {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), items: Vec::new(), selected: 0, asked: None }
    }

    /// Adds an item; the key `letter` selects it at once.
    #[must_use]
    pub(crate) fn with_item(
        mut self,
        value: T,
        key: Option<char>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (label, help) = (label.into(), help.into());
        let question = String::new();
        self.items.push(Item { value, key, uppercase: None, label, help, question });
        self
    }

    /// Lets the uppercase of the last item's key select another value.
    #[must_use]
    pub(crate) fn with_uppercase(mut self, value: T) -> Self {
        if let Some(item) = self.items.last_mut() {
            item.uppercase = Some(value);
        }
        self
    }

    /// Asks this before the last item is selected; selecting it again confirms.
    #[must_use]
    pub(crate) fn with_question(mut self, question: impl Into<String>) -> Self {
        if let Some(item) = self.items.last_mut() {
            item.question = question.into();
        }
        self
    }

    /// Returns true if uppercase letters select values of their own.
    pub(crate) fn has_uppercase(&self) -> bool {
        self.items.iter().any(|item| item.uppercase.is_some())
    }

    /// Moves the cursor to an item.
    #[must_use]
    pub(crate) fn with_cursor(mut self, index: usize) -> Self {
        self.selected = index;
        self
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    /// Handles a key; it closes the menu with the selected value, or with none.
    pub(crate) fn on_key(&mut self, mut key: Key) -> ControlFlow<Option<T>> {
        match key {
            Key::Named(NamedKey::Enter) => return self.select(self.selected),
            Key::Named(NamedKey::Escape) | Key::Control('c') => return ControlFlow::Break(None),
            Key::Letter(letter) => {
                if let Some(index) = self.items.iter().position(|row| row.key == Some(letter)) {
                    return self.select(index);
                }
                let lowercase = letter.to_ascii_lowercase();
                let mut items = self.items.iter().filter(|row| row.key == Some(lowercase));
                if let Some(value) = items.find_map(|item| item.uppercase.clone()) {
                    return ControlFlow::Break(Some(value));
                }
                if self.has_uppercase() {
                    // Keys that move and close work with Shift too.
                    key = Key::Letter(lowercase);
                }
                if key == Key::Letter('q') {
                    return ControlFlow::Break(None);
                }
            }
            _ => {}
        }
        if let Some(movement) = Movement::from_dialog_key(key) {
            self.selected = movement.new_index(self.selected, self.items.len(), 8);
            self.asked = None;
        }
        ControlFlow::Continue(())
    }

    fn select(&mut self, index: usize) -> ControlFlow<Option<T>> {
        let asks = self.items.get(index).is_some_and(|item| !item.question.is_empty());
        if asks && self.asked != Some(index) {
            (self.selected, self.asked) = (index, Some(index));
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(self.items.get(index).map(|item| item.value.clone()))
    }

    /// Draws the title and the visible items.
    pub(crate) fn lines(&self, width: u16, height: usize) -> Vec<Line> {
        let title = Line::styled(self.title.as_str(), Tone::Strong);
        let label_width = self.items.iter().map(|item| width_of(&item.label)).max();
        let label_width = label_width.unwrap_or(0).min(width / 2);
        let rows = (self.items.len(), Some(self.selected));
        let (lines, _) = Viewport::default().lines(Some(title), rows, (width, height), |index| {
            let item = self.items.get(index)?;
            let key = item.key.map(String::from).unwrap_or_default();
            let line = Line::new().gap(1).left_aligned(&key, 1, Tone::Accent).gap(1);
            let line = line.left_aligned(&item.label, label_width, Tone::Plain).gap(2);
            Some(if self.asked == Some(index) {
                line.text(item.question.as_str(), Tone::Warn)
            } else {
                line.text(item.help.as_str(), Tone::Faint)
            })
        });
        lines
    }

    /// Returns the number of lines all items need, the title included.
    pub(crate) fn height(&self) -> usize {
        self.items.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_selected_by_its_key_or_by_the_cursor() {
        let menu = || {
            let menu = Menu::new("sort by").with_item(1, Some('u'), "util", "").with_uppercase(3);
            menu.with_item(2, None, "memory", "").with_cursor(1)
        };
        assert_eq!(menu().on_key(Key::Letter('u')), ControlFlow::Break(Some(1)));
        assert_eq!(menu().on_key(Key::Letter('U')), ControlFlow::Break(Some(3)));
        assert_eq!(menu().on_key(Key::Named(NamedKey::Enter)), ControlFlow::Break(Some(2)));
        assert_eq!(menu().on_key(Key::Named(NamedKey::Escape)), ControlFlow::Break(None));
        let mut moved = menu();
        assert_eq!(moved.on_key(Key::Named(NamedKey::Up)), ControlFlow::Continue(()));
        assert_eq!(moved.on_key(Key::Named(NamedKey::Enter)), ControlFlow::Break(Some(1)));
        assert_eq!(menu().on_key(Key::Letter('Q')), ControlFlow::Break(None));
        let mut moved = menu();
        assert_eq!(moved.on_key(Key::Letter('K')), ControlFlow::Continue(()));
        assert_eq!(moved.on_key(Key::Named(NamedKey::Enter)), ControlFlow::Break(Some(1)));
        let mut plain = Menu::new("").with_item(1, Some('u'), "util", "");
        assert_eq!(plain.on_key(Key::Letter('Q')), ControlFlow::Continue(()));
        let mut asking = menu().with_question("reverse?");
        for key in [Key::Named(NamedKey::Enter), Key::Named(NamedKey::Up)] {
            assert_eq!(asking.on_key(key), ControlFlow::Continue(()));
        }
        // A move takes the question back.
        assert_eq!(asking.on_key(Key::Named(NamedKey::Down)), ControlFlow::Continue(()));
        assert_eq!(asking.on_key(Key::Named(NamedKey::Enter)), ControlFlow::Continue(()));
        assert_eq!(asking.lines(40, 9)[2].plain_text().trim(), "memory  reverse?");
        assert_eq!(asking.on_key(Key::Named(NamedKey::Enter)), ControlFlow::Break(Some(2)));
        assert!(menu().lines(20, 2).len() == 2 && menu().height() == 3);
    }
}
