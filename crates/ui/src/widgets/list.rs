//! Moves within a list, and its visible part.

use std::cmp::Ordering;

use crate::input::{Key, NamedKey};
use crate::widgets::line::{Line, Tone};
use gtop_local::text::width_of;

/// A move within a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Movement {
    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys do not move")]
    /// Returns the move for a key; the same in every view.
    pub(crate) const fn from_key(key: Key) -> Option<Self> {
        Some(match key {
            Key::Named(NamedKey::Up) => Self::Up,
            Key::Named(NamedKey::Down) => Self::Down,
            Key::Named(NamedKey::PageUp) => Self::PageUp,
            Key::Named(NamedKey::PageDown) => Self::PageDown,
            Key::Named(NamedKey::Home) => Self::Home,
            Key::Named(NamedKey::End) => Self::End,
            _ => return None,
        })
    }

    /// Returns the move for a key in a dialog, where `j` and `k` move too.
    pub(crate) fn from_dialog_key(key: Key) -> Option<Self> {
        let letters = [(Key::Letter('j'), Self::Down), (Key::Letter('k'), Self::Up)];
        let letter = letters.into_iter().find(|(letter, _)| *letter == key);
        letter.map(|(_, movement)| movement).or_else(|| Self::from_key(key))
    }

    /// Returns the new index after a move from `index` in a list of `count` rows.
    pub(crate) fn new_index(self, index: usize, count: usize, page: usize) -> usize {
        let page = page.max(1);
        let to = match self {
            Self::Up => index.saturating_sub(1),
            Self::Down => index.saturating_add(1),
            Self::PageUp => index.saturating_sub(page),
            Self::PageDown => index.saturating_add(page),
            Self::Home => 0,
            Self::End => count,
        };
        to.min(count.saturating_sub(1))
    }
}

/// Compares sort keys, those that are unknown last in both directions.
pub(crate) fn compare_known<T: Ord>([one, other]: [Option<T>; 2], is_reversed: bool) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) if is_reversed => other.cmp(&one),
        (Some(one), Some(other)) => one.cmp(&other),
        (one, other) => one.is_none().cmp(&other.is_none()),
    }
}

/// Returns the item after or before `current`, around the ends.
pub(crate) fn cycled<T: Copy + PartialEq>(all: &[T], current: T, is_forward: bool) -> T {
    let at = all.iter().position(|item| *item == current).unwrap_or(0);
    let to = if is_forward { at + 1 } else { at + all.len().max(1) - 1 };
    all.get(to % all.len().max(1)).copied().unwrap_or(current)
}

/// The selected row of a list, known by its key so that it stays selected when rows move, and the visible rows.
#[derive(Clone, Debug)]
pub(crate) struct ListCursor<K> {
    key: Option<K>,
    /// The index of the row that was last selected.
    index: usize,
    pub(crate) viewport: Viewport,
}

impl<K> Default for ListCursor<K> {
    fn default() -> Self {
        Self { key: None, index: 0, viewport: Viewport::default() }
    }
}

impl<K> ListCursor<K> {
    pub(crate) const fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// Selects the row at `index`, which has this key; `None` selects nothing.
    pub(crate) fn select(&mut self, index: usize, key: Option<K>) {
        (self.index, self.key) = (index, key);
    }

    /// Returns the index of the row that was last selected, in a list that has `count` rows now.
    pub(crate) const fn last_index(&self, count: usize) -> usize {
        let last = count.saturating_sub(1);
        if self.index < last { self.index } else { last }
    }

    /// Selects nothing; returns true if a row was selected.
    pub(crate) fn clear(&mut self) -> bool {
        self.key.take().is_some()
    }

    /// Finds the selected row, trying its last index first.
    pub(crate) fn find<T>(&self, rows: &[T], has_key: impl Fn(&T, &K) -> bool) -> Option<usize> {
        let key = self.key.as_ref()?;
        if rows.get(self.index).is_some_and(|row| has_key(row, key)) {
            return Some(self.index);
        }
        rows.iter().position(|row| has_key(row, key))
    }

    /// Notes the index of the selected row, where rows may have moved.
    pub(crate) fn follow<T>(&mut self, rows: &[T], has_key: impl Fn(&T, &K) -> bool) {
        self.index = self.find(rows, has_key).unwrap_or(self.index);
    }

    /// Returns where a move leads in a list of `count` rows: from the selected row, to the last index of one that
    /// is gone, and to the first visible row if none was selected.
    pub(crate) fn moved(&self, movement: Movement, count: usize, selected: Option<usize>) -> usize {
        match (selected, movement) {
            (Some(at), _) => movement.new_index(at, count, self.viewport.rows),
            (None, _) if self.key.is_some() => self.last_index(count),
            (None, Movement::End) => count.saturating_sub(1),
            (None, Movement::Home) => 0,
            (None, _) => self.viewport.top,
        }
    }
}

/// The visible part of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Viewport {
    /// The index of the first visible row.
    pub top: usize,
    /// The maximum number of visible rows.
    pub rows: usize,
}

impl Viewport {
    /// Returns the same in `rows` lines, scrolled so that row `wanted` of a list of `count` rows is visible.
    #[must_use]
    pub(crate) fn scrolled_to(self, rows: usize, count: usize, wanted: Option<usize>) -> Self {
        let min_top = |wanted: usize| wanted.saturating_add(1).saturating_sub(rows);
        let top = wanted.map_or(self.top, |wanted| {
            self.top.clamp(min_top(wanted), min_top(wanted).max(wanted))
        });
        Self { top: top.min(count.saturating_sub(rows)), rows }
    }

    /// Moves the visible part of a list of `count` rows that has no cursor.
    pub(crate) fn step(&mut self, movement: Movement, count: usize, page: usize) {
        let top = movement.new_index(self.top, count, page);
        self.top = top.min(count.saturating_sub(self.rows));
    }

    /// Draws the titles, if any, and the visible rows in `height` lines below others; returns the viewport scrolled to the
    /// selected row.
    pub(crate) fn draw_below(
        self,
        lines: &mut Vec<Line>,
        titles: Option<Line>,
        (count, selected): (usize, Option<usize>),
        (width, height): (u16, usize),
        row: impl Fn(usize) -> Option<Line>,
    ) -> Self {
        let rows = height.saturating_sub(usize::from(titles.is_some()));
        let scrolled = self.scrolled_to(rows, count, selected);
        let titles =
            titles.map(|line| scrolled.with_position(lines.last_mut(), line, count, width));
        lines.extend(titles);
        let rows = scrolled.range(count).filter_map(|at| Some((at, row(at)?)));
        lines.extend(rows.map(|(at, row)| row.truncated(width).selected(selected == Some(at))));
        scrolled
    }

    /// Same as [`Self::draw_below`], without lines above: returns the lines, too.
    pub(crate) fn lines(
        self,
        titles: Option<Line>,
        counts: (usize, Option<usize>),
        size: (u16, usize),
        row: impl Fn(usize) -> Option<Line>,
    ) -> (Vec<Line>, Self) {
        let mut lines = Vec::new();
        let scrolled = self.draw_below(&mut lines, titles, counts, size, row);
        (lines, scrolled)
    }

    /// Appends the range of visible rows to the titles, unless all rows are visible. Where it does not fit, it stands at
    /// the end of the line above, and otherwise the titles have only arrows with the numbers of hidden rows: no title is
    /// cut for it.
    pub(crate) fn with_position(
        self,
        above: Option<&mut Line>,
        titles: Line,
        count: usize,
        width: u16,
    ) -> Line {
        let range = self.range(count);
        let titles = titles.truncated(width);
        if range.is_empty() || range.len() >= count {
            return titles;
        }
        let (first, last) = (range.start + 1, range.end);
        let ranges = [" of ", "/"].map(|of| format!("{first}–{last}{of}{count}"));
        let appended = |line: &Line, texts: &[String], gap: u16| {
            let line = line.clone().trimmed();
            let room = width.saturating_sub(line.width());
            let text = texts.iter().find(|text| width_of(text).saturating_add(gap) <= room)?;
            Some(line.with_right(Line::styled(text.clone(), Tone::Faint), width))
        };
        // A number that follows a title at once would belong to it.
        if let Some(line) = appended(&titles, &ranges, 2) {
            return line;
        }
        if let Some(above) = above
            && let Some(line) = appended(above, &ranges, 2)
        {
            *above = line;
            return titles;
        }
        let hidden = [("↑", range.start), ("↓", count - range.end)];
        let hidden = hidden.into_iter().filter(|(_, rows)| *rows > 0);
        let arrows: Vec<String> = hidden.map(|(arrow, rows)| format!("{arrow}{rows}")).collect();
        appended(&titles, &[arrows.join(" ")], 1).unwrap_or(titles)
    }

    /// Returns the range of visible rows in a list of `count`.
    pub(crate) fn range(self, count: usize) -> std::ops::Range<usize> {
        let end = self.top.saturating_add(self.rows).min(count);
        self.top.min(end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movements_stop_at_both_ends() {
        for (movement, index, to) in [
            (Movement::Up, 0, 0),
            (Movement::Down, 9, 9),
            (Movement::PageDown, 3, 8),
            (Movement::PageDown, 7, 9),
            (Movement::PageUp, 3, 0),
            (Movement::Home, 5, 0),
            (Movement::End, 5, 9),
        ] {
            assert_eq!(movement.new_index(index, 10, 5), to, "{movement:?} {index}");
        }
        assert_eq!(Movement::End.new_index(3, 0, 0), 0);
    }

    #[test]
    fn a_choice_cycles_around_both_ends() {
        for (current, is_forward, next) in [(1, true, 2), (3, true, 1), (1, false, 3), (9, true, 2)]
        {
            assert_eq!(cycled(&[1, 2, 3], current, is_forward), next);
        }
        assert_eq!(cycled(&[], 4, false), 4);
    }

    #[test]
    fn a_selected_row_is_found_where_it_moves_and_a_move_starts_where_it_was() {
        let mut cursor =
            ListCursor { viewport: Viewport { top: 2, rows: 3 }, ..Default::default() };
        let rows = ["a", "b", "c", "d", "e"];
        let found = |cursor: &mut ListCursor<&str>, rows: &[&str]| {
            cursor.follow(rows, |a, b| a == b);
            cursor.find(rows, |a, b| a == b)
        };
        assert_eq!(found(&mut cursor, &rows), None);
        for (movement, to) in [(Movement::Down, 2), (Movement::Home, 0), (Movement::End, 4)] {
            assert_eq!(cursor.moved(movement, 5, None), to, "{movement:?} without a selected row");
        }
        cursor.select(1, Some("b"));
        assert_eq!(found(&mut cursor, &["b", "a", "c"]), Some(0));
        assert_eq!(cursor.moved(Movement::PageDown, 5, Some(1)), 4);
        cursor.select(4, Some("e"));
        assert_eq!(found(&mut cursor, &["a", "b", "c"]), None);
        for movement in [Movement::Up, Movement::Home, Movement::End] {
            assert_eq!(cursor.moved(movement, 3, None), 2, "{movement:?} from a row that is gone");
        }
        assert_eq!(cursor.moved(Movement::Down, 0, None), 0);
        assert!(cursor.clear() && !cursor.clear());
    }

    #[test]
    fn the_range_stands_where_it_cuts_no_title() {
        let shown = Viewport { top: 2, rows: 5 };
        for (width, above, expected) in [
            (19, "note", ["note", "NAME TIME  3–7 of 9"]),
            (18, "note", ["note", "NAME TIME    3–7/9"]),
            (15, "note", ["note   3–7 of 9", "NAME TIME"]),
            (15, "a long caption", ["a long caption", "NAME TIME ↑2 ↓2"]),
            (14, "a long caption", ["a long caption", "NAME TIME"]),
        ] {
            let mut line = Line::styled(above, Tone::Plain);
            let titles = Line::styled("NAME TIME", Tone::Faint);
            let titles = shown.with_position(Some(&mut line), titles, 9, width);
            let [above, below] = expected;
            assert_eq!([line.plain_text(), titles.plain_text()], [above, below], "{width}");
        }
    }

    #[test]
    fn the_viewport_follows_the_cursor_and_stays_within_the_list() {
        for (top, rows, count, wanted, range) in [
            (0, 5, 10, Some(7), 3..8),
            (6, 5, 10, Some(2), 2..7),
            (4, 5, 10, Some(6), 4..9),
            (9, 5, 10, None, 5..10),
            (9, 5, 3, Some(2), 0..3),
            (3, 0, 10, Some(5), 6..6),
            (0, 5, 0, Some(0), 0..0),
        ] {
            let viewport = Viewport { top, rows }.scrolled_to(rows, count, wanted);
            assert_eq!(viewport.range(count), range, "{top} {rows} {count}");
        }
    }
}
