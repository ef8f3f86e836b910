//! A menu from which one item is selected, such as a sort column or a signal.

use crate::view::input::{Key, NamedKey};
use crate::view::line::{Line, Tone};
use crate::view::navigation::{Movement, Viewport};

#[derive(Clone, Debug)]
pub struct Menu<T> {
    pub title: String,
    rows: Vec<Row<T>>,
    at: usize,
}

/// One item.
#[derive(Clone, Debug)]
struct Row<T> {
    choice: T,
    /// The key that selects it at once.
    letter: Option<char>,
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
        Self { title: title.into(), rows: Vec::new(), at: 0 }
    }

    /// Adds an item; the key `letter` selects it at once.
    #[must_use]
    pub fn with(
        mut self,
        choice: T,
        letter: Option<char>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        self.rows.push(Row { choice, letter, label: label.into(), help: help.into() });
        self
    }

    /// Moves the cursor to the first item that matches.
    #[must_use]
    pub fn on(mut self, is_meant: impl Fn(&T) -> bool) -> Self {
        self.at = self.rows.iter().position(|row| is_meant(&row.choice)).unwrap_or(0);
        self
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    pub fn press(&mut self, key: Key) -> MenuEvent<T> {
        let step = match key {
            Key::Named(NamedKey::Enter) => return self.picked(self.at),
            Key::Named(NamedKey::Escape) | Key::Control('c') => return MenuEvent::Closed,
            Key::Letter(letter) => {
                if let Some(at) = self.rows.iter().position(|row| row.letter == Some(letter)) {
                    return self.picked(at);
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
        self.at = step.from(self.at, self.rows.len(), 8);
        MenuEvent::Pending
    }

    fn picked(&self, at: usize) -> MenuEvent<T> {
        self.rows.get(at).map_or(MenuEvent::Closed, |row| MenuEvent::Selected(row.choice.clone()))
    }

    /// Draws the title and the visible items.
    pub fn lines(&self, width: u16, height: usize) -> Vec<Line> {
        let mut window = Viewport::default();
        window.scroll_to(height.saturating_sub(1), self.rows.len(), Some(self.at));
        let title = Line::of(self.title.as_str(), Tone::Strong);
        let mut lines = vec![window.with_position(title, self.rows.len(), width)];
        let label = self.rows.iter().map(|row| crate::view::line::width_of(&row.label)).max();
        let label = label.unwrap_or(0).min(width / 2);
        for (place, row) in self.rows.iter().enumerate().skip(window.top).take(window.rows) {
            let letter = row.letter.map(String::from).unwrap_or_default();
            let line = Line::new()
                .gap(1)
                .left(&letter, 1, Tone::Accent)
                .gap(1)
                .left(&row.label, label, Tone::Plain)
                .gap(2)
                .text(row.help.as_str(), Tone::Faint);
            lines.push(line.cut(width).selected(place == self.at));
        }
        lines
    }

    /// Returns the number of lines all items need, the title included.
    pub fn height(&self) -> usize {
        self.rows.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_made_by_its_letter_or_by_the_cursor() {
        let menu = || {
            let menu =
                Menu::new("sort by").with(1, Some('u'), "util", "").with(2, None, "memory", "");
            menu.on(|choice| *choice == 2)
        };
        assert_eq!(menu().press(Key::Letter('u')), MenuEvent::Selected(1));
        assert_eq!(menu().press(Key::Named(NamedKey::Enter)), MenuEvent::Selected(2));
        assert_eq!(menu().press(Key::Named(NamedKey::Escape)), MenuEvent::Closed);
        let mut moved = menu();
        assert_eq!(moved.press(Key::Named(NamedKey::Up)), MenuEvent::Pending);
        assert_eq!(moved.press(Key::Named(NamedKey::Enter)), MenuEvent::Selected(1));
        assert!(menu().lines(20, 2).len() == 2 && menu().height() == 3);
    }
}
