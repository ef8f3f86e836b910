//! The list of completions above the filter prompt.

use crate::widgets::line::{Line, Tone, truncate};
use gtop_fleet::query::{Completion, Completions};
use gtop_local::text::width_of;

/// The minimum width of a column of completions.
const MIN_COLUMN_WIDTH: u16 = 38;
/// Columns for the mark of the chosen completion, and between it and what it is.
const CHOICE_WIDTH: u16 = 2;
/// Columns for what a completion is, if there are more.
const MIN_HELP_WIDTH: u16 = 12;

/// The completions of the word before the caret; one may be chosen.
#[derive(Clone, Debug)]
pub(super) struct CompletionMenu {
    completions: Completions,
    chosen: Option<usize>,
}

impl CompletionMenu {
    pub(super) const fn new(completions: Completions) -> Self {
        Self { completions, chosen: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.completions.words.is_empty()
    }

    /// Returns where the text begins and ends that a completion replaces, in characters.
    pub(super) const fn span(&self) -> (usize, usize) {
        self.completions.span
    }

    /// Returns the only completion; `None` if there are none or several.
    pub(super) fn only(&self) -> Option<&str> {
        match self.completions.words.as_slice() {
            [only] if self.completions.more == 0 => Some(&only.word),
            _ => None,
        }
    }

    /// Chooses the next or the previous completion, which then stands in the text, and returns it.
    pub(super) fn step(&mut self, is_forward: bool) -> Option<&str> {
        let count = self.completions.words.len();
        let last = count.checked_sub(1)?;
        self.chosen = Some(match (self.chosen, is_forward) {
            (None, true) => 0,
            (None | Some(0), false) => last,
            (Some(chosen), false) => chosen - 1,
            (Some(chosen), true) => (chosen + 1) % count,
        });
        let word = &self.completions.words.get(self.chosen?)?.word;
        self.completions.span.1 = self.completions.span.0 + word.chars().count();
        Some(word)
    }

    /// Draws the completions in columns, downwards; the last place tells how many there are more.
    pub(super) fn lines(&self, width: u16, max_lines: usize) -> Vec<Line> {
        let Completions { words, more, note, .. } = &self.completions;
        if words.is_empty() {
            let text = note.as_deref().unwrap_or("no completions here");
            return vec![Line::styled(text, Tone::Faint).truncated(width)];
        }
        let widest = words.iter().map(|one| width_of(&one.word)).max().unwrap_or_default();
        let whole = widest.saturating_add(2 * CHOICE_WIDTH + MIN_HELP_WIDTH + 1);
        let columns = usize::from((width / whole.max(MIN_COLUMN_WIDTH)).max(1));
        let places = columns * max_lines.max(1);
        let is_whole = *more == 0 && words.len() <= places;
        let per_page = if is_whole { places } else { places.saturating_sub(1).max(1) };
        let first = self.chosen.unwrap_or_default() / per_page * per_page;
        let shown: Vec<&Completion> = words.iter().skip(first).take(per_page).collect();
        let below = words.len().saturating_sub(first + shown.len()) + more;
        let rows = (shown.len() + usize::from(below > 0)).div_ceil(columns);
        let column = (width / u16::try_from(columns).unwrap_or(1)).max(1);
        let widest = shown.iter().map(|one| width_of(&one.word)).max().unwrap_or_default();
        let word_width = widest.min(column.saturating_sub(CHOICE_WIDTH + 1));
        let mut lines = vec![Line::new(); rows];
        for place in 0..rows * columns {
            let cell = match shown.get(place) {
                Some(completion) => {
                    let is_chosen = self.chosen == Some(first + place);
                    cell(completion, is_chosen, word_width, column)
                }
                None if place == shown.len() && below > 0 => {
                    Line::new().gap(CHOICE_WIDTH).text(format!("+{below} more"), Tone::Faint)
                }
                None => continue,
            };
            if let Some(line) = lines.get_mut(place % rows) {
                let gap = (column - line.width() % column) % column;
                *line = std::mem::take(line).gap(gap).append(cell);
            }
        }
        lines.into_iter().map(|line| line.truncated(width)).collect()
    }
}

/// Draws one completion and what it is, one column narrower than its place.
fn cell(completion: &Completion, is_chosen: bool, word_width: u16, width: u16) -> Line {
    let (mark, tone) = if is_chosen { ("▸", Tone::Accent) } else { (" ", Tone::Plain) };
    let line = Line::styled(mark, tone)
        .gap(CHOICE_WIDTH - 1)
        .left_aligned(&truncate(&completion.word, word_width), word_width, tone)
        .gap(CHOICE_WIDTH);
    let room = width.saturating_sub(line.width() + 1);
    line.text(truncate(&completion.help, room), Tone::Faint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(count: usize, more: usize) -> CompletionMenu {
        let word = |number: usize| Completion {
            word: format!("word{number}<"),
            help: format!("what {number} is").into(),
        };
        let words = (0..count).map(word).collect();
        CompletionMenu::new(Completions { span: (0, 0), words, more, note: None })
    }

    fn texts(menu: &CompletionMenu, width: u16, rows: usize) -> Vec<String> {
        let lines = menu.lines(width, rows);
        lines.iter().map(|line| line.plain_text().trim_end().to_owned()).collect()
    }

    #[test]
    fn completions_are_listed_downwards_and_the_rest_is_counted() {
        assert_eq!(
            texts(&menu(5, 0), 80, 10),
            [
                "  word0<  what 0 is                       word3<  what 3 is",
                "  word1<  what 1 is                       word4<  what 4 is",
                "  word2<  what 2 is",
            ]
        );
        assert_eq!(texts(&menu(30, 40), 40, 3)[1..], ["  word1<  what 1 is", "  +68 more"]);
    }

    #[test]
    fn a_long_value_is_whole_where_there_is_room() {
        let mut menu = menu(2, 0);
        let value = "jobname=pretrain-llama-70b-with-a-long-name";
        menu.completions.words[0].word = value.to_owned();
        for (width, count) in [(46, 2), (80, 2), (140, 1)] {
            let lines = texts(&menu, width, 10);
            assert_eq!(lines.len(), count);
            assert!(lines[0].contains(value), "{width}: {}", lines[0]);
        }
    }

    #[test]
    fn the_chosen_completion_is_marked_on_its_page() {
        let mut menu = menu(7, 0);
        assert_eq!(menu.step(true), Some("word0<"));
        assert_eq!(menu.step(false), Some("word6<"));
        assert_eq!(texts(&menu, 40, 4), ["▸ word6<  what 6 is"]);
        assert_eq!(menu.step(true), Some("word0<"));
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in 0..250 {
            for rows in 0..12 {
                for line in menu(40, 3).lines(width, rows) {
                    assert!(line.width() <= width, "{width}");
                }
            }
        }
    }
}
