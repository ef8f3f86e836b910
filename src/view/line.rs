//! The vocabulary of everything drawn: pieces with a tone, put together to lines.
//!
//! A tone says what a thing means; which colour that is, the theme says.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::view::input::Click;

/// What stands for a value that is not known.
pub(crate) const UNKNOWN: &str = "–";

/// What a piece means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Ordinary text.
    #[default]
    Plain,
    /// Text of second rank: labels, units, what is old.
    Faint,
    /// What the eye should find without searching.
    Strong,
    /// The one accent: where one is, and what can be done.
    Accent,
    /// The letter one types at.
    Caret,
    /// A low load.
    Low,
    /// A middling load.
    Mid,
    /// A high load, which is no trouble.
    High,
    /// Something to look at.
    Warn,
    /// Something broken.
    Bad,
}

/// One device in a strip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symbol {
    /// Works this much, 0 to 100.
    Level(f32),
    /// Does nothing.
    Idle,
    /// Says nothing of its load.
    Unknown,
    /// Gives no numbers.
    Faulty,
    /// There are more than fit.
    Overflow,
    /// A sign that stands for itself, one column wide.
    Char(char),
    /// A letter that stands for somebody or something, in a colour of its own.
    Letter(char, u8),
}

/// What a piece shows.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanContent {
    /// Text, cut to its width; where it is shorter, blanks follow.
    Text(String),
    /// A horizontal bar, 0 to 100; nothing when the share is unknown.
    Bar(Option<f32>),
    /// One column a point, 0 to 100, with gaps.
    Spark(Vec<Option<f32>>),
    /// One column a device, each in its own tone.
    Strip(Vec<(Symbol, Tone)>),
    /// One row of a graph: two points a column, each of which fills so many quarters of the row.
    Graph {
        /// From left to right, 0 to 4 each.
        points: Vec<u8>,
        /// They fill it from the top.
        hangs: bool,
    },
    /// A thin horizontal line.
    Rule,
}

/// A part of a line with a fixed width.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What it shows.
    pub kind: SpanContent,
    /// What it means.
    pub tone: Tone,
    /// Columns it takes, always.
    pub width: u16,
}

/// On what a line stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowStyle {
    /// The screen.
    #[default]
    Plain,
    /// The row one is on.
    Selected,
}

/// One line of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// From left to right.
    pub pieces: Vec<Span>,
    /// On what it stands.
    pub ground: RowStyle,
    /// What a click means, from one column up to but not including another; the later wins.
    pub clicks: Vec<(u16, u16, Click)>,
}

impl Line {
    /// Makes an empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a line of one text.
    pub fn of(text: impl Into<String>, tone: Tone) -> Self {
        Self::new().text(text, tone)
    }

    /// Adds text as wide as it is.
    #[must_use]
    pub fn text(self, text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        let width = width_of(&text);
        self.piece(SpanContent::Text(text), tone, width)
    }

    /// Adds the letter one types at.
    #[must_use]
    pub fn caret(self, letter: impl Into<String>) -> Self {
        self.text(letter, Tone::Caret)
    }

    /// Makes a click on the last piece mean something.
    #[must_use]
    pub fn on_click(mut self, click: Click) -> Self {
        let end = self.width();
        let start = end - self.pieces.last().map_or(0, |piece| piece.width);
        self.clicks.push((start, end, click));
        self
    }

    /// Makes a click anywhere on the line mean something, where no piece has its own meaning.
    #[must_use]
    pub fn click(mut self, click: Click) -> Self {
        self.clicks.insert(0, (0, u16::MAX, click));
        self
    }

    /// Returns what a click at a column means.
    pub fn clicked(&self, column: u16) -> Option<&Click> {
        let mut meant = self.clicks.iter().rev();
        meant.find(|(start, end, _)| (*start..*end).contains(&column)).map(|(_, _, click)| click)
    }

    /// Adds text at the left of so many columns.
    #[must_use]
    pub fn left(self, text: &str, width: u16, tone: Tone) -> Self {
        let tone = if text == UNKNOWN { Tone::Faint } else { tone };
        self.piece(SpanContent::Text(cut(text, width)), tone, width)
    }

    /// Adds text at the right of so many columns.
    #[must_use]
    pub fn right(self, text: &str, width: u16, tone: Tone) -> Self {
        let tone = if text == UNKNOWN { Tone::Faint } else { tone };
        let mut text = cut(text, width);
        let rest = width.saturating_sub(width_of(&text));
        text.insert_str(0, &" ".repeat(usize::from(rest)));
        self.piece(SpanContent::Text(text), tone, width)
    }

    /// Adds empty columns.
    #[must_use]
    pub fn gap(self, width: u16) -> Self {
        if width == 0 {
            return self;
        }
        self.piece(SpanContent::Text(String::new()), Tone::Plain, width)
    }

    /// Adds a bar.
    #[must_use]
    pub fn bar(self, share: Option<f32>, width: u16, tone: Tone) -> Self {
        self.piece(SpanContent::Bar(share), tone, width)
    }

    /// Adds the last points of a track.
    #[must_use]
    pub fn spark(self, points: Vec<Option<f32>>, tone: Tone) -> Self {
        let width = u16::try_from(points.len()).unwrap_or(u16::MAX);
        self.piece(SpanContent::Spark(points), tone, width)
    }

    /// Adds one row of a graph, two points a column.
    #[must_use]
    pub fn graph(self, points: Vec<u8>, hangs: bool, tone: Tone) -> Self {
        let width = u16::try_from(points.len().div_ceil(2)).unwrap_or(u16::MAX);
        self.piece(SpanContent::Graph { points, hangs }, tone, width)
    }

    /// Adds one mark a device, padded to so many columns.
    #[must_use]
    pub fn strip(self, mut marks: Vec<(Symbol, Tone)>, width: u16) -> Self {
        let room = usize::from(width);
        if marks.len() > room {
            marks.truncate(room.saturating_sub(1));
            marks.push((Symbol::Overflow, Tone::Faint));
        }
        self.piece(SpanContent::Strip(marks), Tone::Plain, width)
    }

    /// Adds a thin line.
    #[must_use]
    pub fn rule(self, width: u16) -> Self {
        self.piece(SpanContent::Rule, Tone::Faint, width)
    }

    /// Adds all of another line.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        let width = self.width();
        let moved = |column: u16| column.saturating_add(width);
        let clicks = other.clicks.into_iter();
        self.clicks.extend(clicks.map(|(start, end, click)| (moved(start), moved(end), click)));
        self.pieces.extend(other.pieces);
        self
    }

    /// Puts `other` at the right end of so many columns, cutting this one where they meet.
    #[must_use]
    pub fn against(self, other: Self, width: u16) -> Self {
        let room = width.saturating_sub(other.width());
        let own = if self.width() > room { self.cut(room.saturating_sub(1)) } else { self };
        let gap = room.saturating_sub(own.width());
        own.gap(gap).then(other).cut(width)
    }

    /// Cuts it to so many columns.
    #[must_use]
    pub fn cut(mut self, width: u16) -> Self {
        let mut room = width;
        for piece in &mut self.pieces {
            if piece.width > room {
                if let SpanContent::Text(text) = &mut piece.kind {
                    *text = cut(text, room);
                }
                piece.width = room;
            }
            room -= piece.width;
        }
        self.pieces.retain(|piece| piece.width > 0);
        self
    }

    /// Leaves out what is blank at the right end.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        while let Some(Span { kind: SpanContent::Text(text), width, .. }) = self.pieces.last_mut() {
            let kept = text.trim_end_matches(' ').len();
            text.truncate(kept);
            *width = width_of(text);
            if kept > 0 {
                break;
            }
            self.pieces.pop();
        }
        self
    }

    /// Makes all of it second rank: its numbers are old.
    #[must_use]
    pub fn faded(mut self) -> Self {
        for piece in &mut self.pieces {
            piece.tone = Tone::Faint;
            if let SpanContent::Strip(marks) = &mut piece.kind {
                for (_, tone) in marks {
                    *tone = Tone::Low;
                }
            }
        }
        self
    }

    /// Makes it the row one is on.
    #[must_use]
    pub fn selected(mut self, is_selected: bool) -> Self {
        self.ground = if is_selected { RowStyle::Selected } else { RowStyle::Plain };
        self
    }

    /// Returns the columns it takes.
    pub fn width(&self) -> u16 {
        self.pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.width))
    }

    /// Returns its text, without what is drawn.
    #[cfg(test)]
    pub(crate) fn words(&self) -> String {
        let words = |piece: &Span| {
            let SpanContent::Text(text) = &piece.kind else { return String::new() };
            let blank = piece.width.saturating_sub(width_of(text));
            format!("{text}{}", " ".repeat(usize::from(blank)))
        };
        self.pieces.iter().map(words).collect()
    }

    fn piece(mut self, kind: SpanContent, tone: Tone, width: u16) -> Self {
        self.pieces.push(Span { kind, tone, width });
        self
    }
}

/// Lays items side by side, as many lines as needed, at most `most`; what does not fit is left out.
pub(crate) fn flow(items: Vec<Line>, gap: u16, width: u16, most: usize) -> Vec<Line> {
    rows(items, gap, width, most).0.into_iter().map(|row| row.line).collect()
}

/// The same; how many are left out is said at the end.
pub(crate) fn flow_told(items: Vec<Line>, gap: u16, width: u16, most: usize) -> Vec<Line> {
    let (mut rows, mut left) = rows(items, gap, width, most);
    if let Some(row) = rows.last_mut().filter(|_| left > 0) {
        let words = |left| Line::of(format!("+{left} more"), Tone::Faint);
        while row.ends.len() > 1 && row.line.width() + gap + words(left).width() > width {
            row.ends.pop();
            let end = row.ends.last().copied().unwrap_or(0);
            row.line = std::mem::take(&mut row.line).cut(end);
            left += 1;
        }
        row.line = std::mem::take(&mut row.line).gap(gap).then(words(left)).cut(width);
    }
    rows.into_iter().map(|row| row.line).collect()
}

/// Items side by side, and the column behind each.
struct Row {
    line: Line,
    ends: Vec<u16>,
}

/// Lays items out; returns how many are left out, too.
fn rows(items: Vec<Line>, gap: u16, width: u16, most: usize) -> (Vec<Row>, usize) {
    let (mut rows, count): (Vec<Row>, usize) = (Vec::new(), items.len());
    for (place, item) in items.into_iter().enumerate() {
        let fits = |row: &Row| row.line.width().saturating_add(gap + item.width()) <= width;
        if let Some(row) = rows.last_mut().filter(|row| fits(row)) {
            row.line = std::mem::take(&mut row.line).gap(gap).then(item);
            row.ends.push(row.line.width());
        } else if rows.len() < most {
            let line = item.cut(width);
            rows.push(Row { ends: vec![line.width()], line });
        } else {
            return (rows, count - place);
        }
    }
    (rows, 0)
}

/// Returns the columns a text takes.
pub(crate) fn width_of(text: &str) -> u16 {
    let width = if text.is_ascii() { text.len() } else { text.width() };
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// Cuts a text to so many columns; `…` stands for what is left out.
pub(crate) fn cut(text: &str, width: u16) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut room = usize::from(width).saturating_sub(1);
    for letter in text.chars() {
        let own = letter.width().unwrap_or(0);
        if own > room {
            break;
        }
        room -= own;
        kept.push(letter);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_wide_as_it_says_whatever_stands_in_it() {
        for (word, left, right) in [
            ("ab", "ab  ", "  ab"),
            ("abcdef", "abc…", "abc…"),
            ("日本語", "日… ", " 日…"),
            ("e\u{301}tude", "e\u{301}tu…", "e\u{301}tu…"),
        ] {
            assert_eq!(Line::new().left(word, 4, Tone::Plain).words(), left);
            assert_eq!(Line::new().right(word, 4, Tone::Plain).words(), right);
        }
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn two_ends_never_overlap() {
        let line = |width| {
            Line::of("left side", Tone::Plain).against(Line::of("right", Tone::Plain), width)
        };
        assert_eq!(line(20).words(), "left side      right");
        assert_eq!(line(12).words(), "left … right");
        assert_eq!(line(3).words(), "ri…");
        assert_eq!(line(0).words(), "");
    }

    #[test]
    fn what_is_blank_at_the_end_can_be_left_out() {
        let line = Line::new().left("NODE", 9, Tone::Plain).gap(3).left("", 4, Tone::Plain);
        assert_eq!((line.clone().trimmed().words().as_str(), line.trimmed().width()), ("NODE", 4));
        assert_eq!(Line::new().gap(3).trimmed(), Line::new());
        assert_eq!(Line::new().gap(1).rule(5).trimmed().width(), 6);
    }

    #[test]
    fn items_flow_over_lines_and_stop_at_the_last() {
        let items =
            || ["aaa", "bbb", "ccc", "ddd"].map(|word| Line::of(word, Tone::Plain)).to_vec();
        let lines =
            |width, most| flow(items(), 1, width, most).iter().map(Line::words).collect::<Vec<_>>();
        assert_eq!(lines(7, 9), ["aaa bbb", "ccc ddd"]);
        assert_eq!(lines(7, 1), ["aaa bbb"]);
        assert_eq!(lines(2, 2), ["a…", "b…"]);
    }

    #[test]
    fn a_strip_says_when_there_are_more_devices_than_columns() {
        let line = Line::new().strip(vec![(Symbol::Idle, Tone::Low); 20], 4);
        let SpanContent::Strip(marks) = &line.pieces[0].kind else { panic!("no strip") };
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[3].0, Symbol::Overflow);
    }
}
