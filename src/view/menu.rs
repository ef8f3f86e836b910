//! A menu from which one item is selected, such as a sort column or a signal.

use crate::view::input::{Key, NamedKey};
use crate::view::line::{Line, Tone};
use crate::view::navigation::{Movement, Viewport};

#[derive(Clone, Debug)]
pub struct Menu<T> {
    pub title: String,
    items: Vec<Item<T>>,
    selected: usize,
}

/// One item.
#[derive(Clone, Debug)]
struct Item<T> {
    value: T,
    /// The key that selects it at once.
    key: Option<char>,
    label: String,
    help: String,
}

/// The effect of a key on a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuEvent<T> {
    /// Stays open.
    Pending,
    /// This item was selected.
    Selected(T),
    /// It was closed without a selection.
    Closed,
}

impl<T: Clone> Menu<T> {
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), items: Vec::new(), selected: 0 }
    }

    /// Adds an item; the key `letter` selects it at once.
    #[must_use]
    pub fn with_item(
        mut self,
        choice: T,
        letter: Option<char>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        self.items.push(Item {
            value: choice,
            key: letter,
            label: label.into(),
            help: help.into(),
        });
        self
    }

    /// Moves the cursor to the first item that matches.
    #[must_use]
    pub fn with_selected(mut self, is_meant: impl Fn(&T) -> bool) -> Self {
        self.selected = self.items.iter().position(|row| is_meant(&row.value)).unwrap_or(0);
        self
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    pub fn on_key(&mut self, key: Key) -> MenuEvent<T> {
        let step = match key {
            Key::Named(NamedKey::Enter) => return self.select(self.selected),
            Key::Named(NamedKey::Escape) | Key::Control('c') => return MenuEvent::Closed,
            Key::Letter(letter) => {
                if let Some(at) = self.items.iter().position(|row| row.key == Some(letter)) {
                    return self.select(at);
                }
                match letter {
                    'q' => return MenuEvent::Closed,
                    'j' => Movement::Down,
                    'k' => Movement::Up,
                    _ => return MenuEvent::Pending,
                }
            }
            other => match Movement::of(other) {
                Some(step) => step,
                None => return MenuEvent::Pending,
            },
        };
        self.selected = step.from(self.selected, self.items.len(), 8);
        MenuEvent::Pending
    }

    fn select(&self, at: usize) -> MenuEvent<T> {
        self.items.get(at).map_or(MenuEvent::Closed, |row| MenuEvent::Selected(row.value.clone()))
    }

    /// Draws the title and the visible items.
    pub fn lines(&self, width: u16, height: usize) -> Vec<Line> {
        let mut window = Viewport::default();
        window.scroll_to(height.saturating_sub(1), self.items.len(), Some(self.selected));
        let title = Line::styled(self.title.as_str(), Tone::Strong);
        let mut lines = vec![window.with_position(title, self.items.len(), width)];
        let label = self.items.iter().map(|row| crate::view::line::width_of(&row.label)).max();
        let label = label.unwrap_or(0).min(width / 2);
        for (place, row) in self.items.iter().enumerate().skip(window.top).take(window.rows) {
            let letter = row.key.map(String::from).unwrap_or_default();
            let line = Line::new()
                .gap(1)
                .left_aligned(&letter, 1, Tone::Accent)
                .gap(1)
                .left_aligned(&row.label, label, Tone::Plain)
                .gap(2)
                .text(row.help.as_str(), Tone::Faint);
            lines.push(line.truncated(width).selected(place == self.selected));
        }
        lines
    }

    /// Returns the number of lines all items need, the title included.
    pub fn height(&self) -> usize {
        self.items.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_made_by_its_letter_or_by_the_cursor() {
        let menu = || {
            let menu = Menu::new("sort by")
                .with_item(1, Some('u'), "util", "")
                .with_item(2, None, "memory", "");
            menu.with_selected(|choice| *choice == 2)
        };
        assert_eq!(menu().on_key(Key::Letter('u')), MenuEvent::Selected(1));
        assert_eq!(menu().on_key(Key::Named(NamedKey::Enter)), MenuEvent::Selected(2));
        assert_eq!(menu().on_key(Key::Named(NamedKey::Escape)), MenuEvent::Closed);
        let mut moved = menu();
        assert_eq!(moved.on_key(Key::Named(NamedKey::Up)), MenuEvent::Pending);
        assert_eq!(moved.on_key(Key::Named(NamedKey::Enter)), MenuEvent::Selected(1));
        assert!(menu().lines(20, 2).len() == 2 && menu().height() == 3);
    }
}
