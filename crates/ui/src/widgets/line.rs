//! Lines of the screen: spans of text, bars and graphs, each with a tone.
//!
//! A tone is the meaning of a span; the theme maps it to a colour.

use std::sync::Arc;

use unicode_width::UnicodeWidthChar;

use crate::input::Click;
use gtop_fleet::insight::Severity;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::insight::note::Note;
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::{UNKNOWN, width_of};

/// The meaning of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Ordinary text.
    #[default]
    Plain,
    /// Secondary text: labels and units.
    Faint,
    /// Old values, and nothing else.
    Stale,
    /// Emphasised text.
    Strong,
    /// The accent colour: the current item and the available keys.
    Accent,
    /// The character under the caret.
    Caret,
    /// A low load.
    Low,
    /// A medium load.
    Mid,
    /// A high load, which is not a problem.
    High,
    /// A warning.
    Warn,
    /// An error.
    Bad,
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Error => Self::Bad,
            Severity::Warning => Self::Warn,
            Severity::Notice => Self::Plain,
            Severity::Recovery => Self::Low,
            Severity::Info => Self::Faint,
        }
    }
}

/// Returns the sign before the text of a problem.
pub(crate) fn severity_sign(severity: Severity) -> &'static str {
    if severity == Severity::Error { "✗" } else { "!" }
}

impl From<NodeStatus> for Tone {
    /// Returns the tone of the node's name.
    fn from(status: NodeStatus) -> Self {
        match status {
            NodeStatus::Fresh => Self::Plain,
            NodeStatus::Down | NodeStatus::Stale(_) => Self::Strong,
            NodeStatus::Waiting
            | NodeStatus::Opening(_)
            | NodeStatus::Starting
            | NodeStatus::Reported => Self::Faint,
        }
    }
}

/// A one-column symbol, usually for one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symbol {
    /// The load, 0 to 100.
    Level(f32),
    /// One line of a load that is drawn over several lines: 0 to 100, which fills the line.
    Area(f32),
    /// No load.
    Idle,
    /// The device reports no values.
    Faulty,
    /// More devices follow than fit.
    Overflow,
    /// A character drawn as it is, one column wide.
    Char(char),
    /// The letter of a user or job, and the number of its colour.
    Letter(char, u8),
}

/// The content of a span.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanContent {
    /// Text, cut or padded to the width of the span.
    Text(String),
    /// A horizontal bar, 0 to 100; empty if the share is unknown.
    Bar(Option<f32>),
    /// A sparkline: one column per point, 0 to 100, with gaps. Its highest mark leaves some of the row blank.
    Spark(Vec<Option<f32>>),
    /// One row of a graph of several rows: one column per point, 0 to 100, which fills the row.
    Area(Vec<Option<f32>>),
    /// One column per symbol, each with its own tone.
    Strip(Vec<(Symbol, Tone)>),
    /// One row of a graph: two points per column.
    Graph {
        /// The filled quarters of the row per point, 0 to 4, from left to right.
        points: Vec<u8>,
        /// Fills the row from the top.
        grows_down: bool,
    },
    /// A thin horizontal line.
    Rule,
}

/// A part of a line with a fixed width.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub content: SpanContent,
    pub(crate) tone: Tone,
    /// Width in columns.
    pub width: u16,
}

/// The background of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowStyle {
    #[default]
    Plain,
    /// The selected row.
    Selected,
}

/// One line of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The spans, from left to right.
    pub spans: Vec<Span>,
    pub(crate) row_style: RowStyle,
    /// The click targets, from a start column up to but not including an end column; later ones win.
    pub(crate) clicks: Vec<(u16, u16, Click)>,
    /// The hyperlinks, from a start column up to but not including an end column.
    pub links: Vec<(u16, u16, Arc<str>)>,
    /// The table columns whose titles are on the line, each with its title as drawn; help explains them.
    pub columns: Vec<(ColumnSpec, String)>,
}

impl Line {
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn styled(text: impl Into<String>, tone: impl Into<Tone>) -> Self {
        Self::new().text(text, tone)
    }

    /// Adds text in its natural width.
    #[must_use]
    pub fn text(self, text: impl Into<String>, tone: impl Into<Tone>) -> Self {
        let text = text.into();
        let width = width_of(&text);
        self.push_span(SpanContent::Text(text), tone.into(), width)
    }

    /// Adds secondary texts, with gaps before them.
    #[must_use]
    pub(crate) fn details(self, texts: impl IntoIterator<Item = String>) -> Self {
        texts.into_iter().fold(self, |line, text| line.text(format!("  {text}"), Tone::Faint))
    }

    /// Makes a line of notes, with dots between them.
    pub(crate) fn of_notes<T: Into<Tone> + Copy>(notes: &[(String, T)]) -> Self {
        let mut line = Self::new();
        for (index, (text, tone)) in notes.iter().enumerate() {
            let dot = if index > 0 { " · " } else { "" };
            line = line.text(dot, Tone::Faint).text(text.as_str(), *tone);
        }
        line
    }

    pub(crate) fn of_node(notes: &[Note]) -> Self {
        Self::of_notes(&notes.iter().map(Note::drawn).collect::<Vec<_>>())
    }

    /// Draws as many notes as fit whole, and how many more there are; if none fits, all, to be cut.
    pub(crate) fn of_node_within(notes: &[Note], width: u16) -> Self {
        let drawn: Vec<_> = notes.iter().map(Note::drawn).collect();
        let mut fewer = (1..drawn.len()).rev().map(|count| {
            let line = Self::of_notes(drawn.get(..count).unwrap_or_default());
            line.text(format!(" +{}", drawn.len() - count), Tone::Faint)
        });
        let all = Self::of_notes(&drawn);
        let fewer = fewer.find(|line| line.width() <= width).filter(|_| all.width() > width);
        fewer.unwrap_or(all)
    }

    /// Adds the character under the caret.
    #[must_use]
    pub fn caret(self, letter: impl Into<String>) -> Self {
        self.text(letter, Tone::Caret)
    }

    /// Makes the last span a click target.
    #[must_use]
    pub(crate) fn clickable(mut self, click: Click) -> Self {
        let end = self.width();
        let start = end - self.spans.last().map_or(0, |span| span.width);
        self.clicks.push((start, end, click));
        self
    }

    /// Says that the last span is the title of a column.
    #[must_use]
    pub fn titles(mut self, column: ColumnSpec, title: &str) -> Self {
        self.columns.push((column, title.split_whitespace().collect::<Vec<_>>().join(" ")));
        self
    }

    /// Makes the text of the last span, which is left-aligned, a hyperlink.
    #[must_use]
    pub(crate) fn linked(mut self, url: Arc<str>) -> Self {
        if let Some(Span { content: SpanContent::Text(text), width, .. }) = self.spans.last() {
            let start = self.width() - width;
            self.links.push((start, start + width_of(text).min(*width), url));
        }
        self
    }

    /// Makes the whole line a click target; targets of spans take precedence.
    #[must_use]
    pub(crate) fn clickable_line(mut self, click: Click) -> Self {
        self.clicks.insert(0, (0, u16::MAX, click));
        self
    }

    /// Returns the click target at a column.
    pub(crate) fn click_at(&self, column: u16) -> Option<&Click> {
        let mut targets = self.clicks.iter().rev();
        targets.find(|(start, end, _)| (*start..*end).contains(&column)).map(|(_, _, click)| click)
    }

    /// Adds left-aligned text of a fixed width.
    #[must_use]
    pub(crate) fn left_aligned(self, text: &str, width: u16, tone: Tone) -> Self {
        let tone = if text == UNKNOWN { Tone::Faint } else { tone };
        self.push_span(SpanContent::Text(truncate(text, width)), tone, width)
    }

    /// Adds right-aligned text of a fixed width.
    #[must_use]
    pub(crate) fn right_aligned(self, text: &str, width: u16, tone: Tone) -> Self {
        let tone = if text == UNKNOWN { Tone::Faint } else { tone };
        let mut text = truncate(text, width);
        let padding = width.saturating_sub(width_of(&text));
        text.insert_str(0, &" ".repeat(usize::from(padding)));
        self.push_span(SpanContent::Text(text), tone, width)
    }

    /// Adds blank columns.
    #[must_use]
    pub fn gap(self, width: u16) -> Self {
        if width == 0 {
            return self;
        }
        self.push_span(SpanContent::Text(String::new()), Tone::Plain, width)
    }

    #[must_use]
    pub fn bar(self, share: Option<f32>, width: u16, tone: Tone) -> Self {
        self.push_span(SpanContent::Bar(share), tone, width)
    }

    /// Adds a sparkline, one column per point.
    #[must_use]
    pub(crate) fn sparkline(self, points: Vec<Option<f32>>, tone: Tone) -> Self {
        let width = u16::try_from(points.len()).unwrap_or(u16::MAX);
        self.push_span(SpanContent::Spark(points), tone, width)
    }

    /// Adds one row of a graph, one column per point.
    #[must_use]
    pub fn area(self, points: Vec<Option<f32>>, tone: Tone) -> Self {
        let width = u16::try_from(points.len()).unwrap_or(u16::MAX);
        self.push_span(SpanContent::Area(points), tone, width)
    }

    /// Adds one row of a graph, two points per column.
    #[must_use]
    pub fn graph(self, points: Vec<u8>, grows_down: bool, tone: Tone) -> Self {
        let width = u16::try_from(points.len().div_ceil(2)).unwrap_or(u16::MAX);
        self.push_span(SpanContent::Graph { points, grows_down }, tone, width)
    }

    /// Adds one symbol per device, padded to `width`.
    #[must_use]
    pub fn strip(self, symbols: Vec<(Symbol, Tone)>, width: u16) -> Self {
        let symbols = fitting_symbols(symbols, usize::from(width));
        self.push_span(SpanContent::Strip(symbols), Tone::Plain, width)
    }

    /// Adds a thin horizontal line.
    #[must_use]
    pub fn rule(self, width: u16) -> Self {
        self.push_span(SpanContent::Rule, Tone::Faint, width)
    }

    /// Appends the spans, click targets and hyperlinks of another line.
    #[must_use]
    pub fn append(mut self, other: Self) -> Self {
        let width = self.width();
        let moved = |column: u16| column.saturating_add(width);
        let clicks = other.clicks.into_iter();
        self.clicks.extend(clicks.map(|(start, end, click)| (moved(start), moved(end), click)));
        let links = other.links.into_iter();
        self.links.extend(links.map(|(start, end, url)| (moved(start), moved(end), url)));
        self.columns.extend(other.columns);
        self.spans.extend(other.spans);
        self
    }

    /// Appends another line at a column, or behind this one if it reaches further.
    #[must_use]
    pub(crate) fn append_at(self, column: u16, other: Self) -> Self {
        let gap = column.saturating_sub(self.width());
        self.gap(gap).append(other)
    }

    /// Right-aligns `other` within `width`, and cuts this line where they meet.
    #[must_use]
    pub(crate) fn with_right(self, other: Self, width: u16) -> Self {
        let room = width.saturating_sub(other.width());
        // At least one blank is between them.
        let gap = u16::from(!other.starts_blank());
        let is_long = self.width_without_trailing_blanks().saturating_add(gap) > room;
        let left = if is_long { self.truncated(room.saturating_sub(1)) } else { self };
        left.append_at(room, other).truncated(width)
    }

    /// Cuts the line to `width` columns.
    #[must_use]
    pub fn truncated(mut self, width: u16) -> Self {
        let is_cut = self.width_without_trailing_blanks() > width;
        let mut room = width;
        for span in &mut self.spans {
            if span.width > room {
                if let SpanContent::Text(text) = &mut span.content {
                    *text = truncate(text, room);
                }
                span.width = room;
            }
            room -= span.width;
        }
        self.spans.retain(|span| span.width > 0);
        let last = self.spans.last_mut().filter(|_| is_cut);
        if let Some(Span { content: SpanContent::Text(text), width, .. }) = last
            && !text.ends_with('…')
        {
            // What was cut off began with another span.
            *text = truncate(&format!("{text:0$} ", usize::from(*width)), *width);
        }
        self
    }

    /// Returns true if the first column is blank.
    fn starts_blank(&self) -> bool {
        self.spans.iter().find(|span| span.width > 0).is_none_or(|span| {
            matches!(&span.content, SpanContent::Text(text) if text.is_empty() || text.starts_with(' '))
        })
    }

    fn width_without_trailing_blanks(&self) -> u16 {
        let mut blanks = 0;
        for span in self.spans.iter().rev() {
            let SpanContent::Text(text) = &span.content else { break };
            let kept = width_of(text.trim_end_matches(' ')).min(span.width);
            blanks += span.width - kept;
            if kept > 0 {
                break;
            }
        }
        self.width().saturating_sub(blanks)
    }

    /// Removes trailing blanks.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        while let Some(Span { content: SpanContent::Text(text), width, .. }) = self.spans.last_mut()
        {
            let kept = text.trim_end_matches(' ').len();
            text.truncate(kept);
            *width = width_of(text);
            if kept > 0 {
                break;
            }
            self.spans.pop();
        }
        self
    }

    /// Shows the whole line as old values.
    #[must_use]
    pub(crate) fn dimmed(mut self) -> Self {
        for span in &mut self.spans {
            span.tone = Tone::Stale;
            if let SpanContent::Strip(symbols) = &mut span.content {
                for (_, own) in symbols {
                    *own = Tone::Stale;
                }
            }
        }
        self
    }

    /// Takes the emphasis from the whole line.
    #[must_use]
    pub(crate) fn without_emphasis(mut self) -> Self {
        for span in self.spans.iter_mut().filter(|span| span.tone == Tone::Strong) {
            span.tone = Tone::Plain;
        }
        self
    }

    /// Marks the line as the selected row.
    #[must_use]
    pub fn selected(mut self, is_selected: bool) -> Self {
        self.row_style = if is_selected { RowStyle::Selected } else { RowStyle::Plain };
        self
    }

    /// Returns the width in columns.
    pub fn width(&self) -> u16 {
        self.spans.iter().fold(0, |sum, span| sum.saturating_add(span.width))
    }

    /// Returns the text, without bars and graphs.
    #[cfg(test)]
    pub(crate) fn plain_text(&self) -> String {
        let text_of = |span: &Span| {
            let SpanContent::Text(text) = &span.content else { return String::new() };
            let padding = span.width.saturating_sub(width_of(text));
            format!("{text}{}", " ".repeat(usize::from(padding)))
        };
        self.spans.iter().map(text_of).collect()
    }

    fn push_span(mut self, kind: SpanContent, tone: Tone, width: u16) -> Self {
        self.spans.push(Span { content: kind, tone, width });
        self
    }
}

/// Returns at most so many symbols, the last of which says that more follow.
pub(crate) fn fitting_symbols(
    mut symbols: Vec<(Symbol, Tone)>,
    count: usize,
) -> Vec<(Symbol, Tone)> {
    if symbols.len() > count {
        symbols.truncate(count.saturating_sub(1));
        symbols.push((Symbol::Overflow, Tone::Faint));
    }
    symbols
}

/// Lays items side by side in at most `max_lines` lines; drops those that do not fit.
pub(crate) fn flow(items: Vec<Line>, gap: u16, width: u16, max_lines: usize) -> Vec<Line> {
    lay_out(items, gap, width, max_lines).0.into_iter().map(|row| row.line).collect()
}

/// Same as [`flow`], but the last line counts the dropped items: `+4 more`, or what else they are.
pub(crate) fn flow_with_overflow(
    items: Vec<Line>,
    gap: u16,
    width: u16,
    (max_lines, dropped_items): (usize, &str),
) -> Vec<Line> {
    let (mut rows, mut dropped) = lay_out(items, gap, width, max_lines);
    if let Some(row) = rows.last_mut().filter(|_| dropped > 0) {
        let label = |dropped| Line::styled(format!("+{dropped} {dropped_items}"), Tone::Faint);
        while row.ends.len() > 1 && row.line.width() + gap + label(dropped).width() > width {
            row.ends.pop();
            let end = row.ends.last().copied().unwrap_or(0);
            row.line = std::mem::take(&mut row.line).truncated(end);
            dropped += 1;
        }
        row.line = std::mem::take(&mut row.line).gap(gap).append(label(dropped)).truncated(width);
    }
    rows.into_iter().map(|row| row.line).collect()
}

/// One row of items, and the end column of each.
struct ItemRow {
    line: Line,
    ends: Vec<u16>,
}

/// Lays out the items; also returns the number of dropped ones.
fn lay_out(items: Vec<Line>, gap: u16, width: u16, max_lines: usize) -> (Vec<ItemRow>, usize) {
    let (mut rows, count): (Vec<ItemRow>, usize) = (Vec::new(), items.len());
    for (index, item) in items.into_iter().enumerate() {
        let room = width.checked_sub(gap.saturating_add(item.width()));
        if let Some(row) = rows.last_mut().filter(|row| Some(row.line.width()) <= room) {
            row.line = std::mem::take(&mut row.line).gap(gap).append(item);
            row.ends.push(row.line.width());
        } else if rows.len() < max_lines {
            let line = item.truncated(width);
            rows.push(ItemRow { ends: vec![line.width()], line });
        } else {
            return (rows, count - index);
        }
    }
    (rows, 0)
}

/// Wraps a text into at most `max_lines` lines of `width` columns.
pub(crate) fn wrap(text: &str, width: u16, max_lines: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line) + 1 + width_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.truncate(max_lines);
    lines
}

/// Cuts a text to `width` columns; `…` replaces the rest.
pub(crate) fn truncate(text: &str, width: u16) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut room = usize::from(width).saturating_sub(1);
    for letter in text.chars() {
        let letter_width = letter.width().unwrap_or(0);
        if letter_width > room {
            break;
        }
        room -= letter_width;
        kept.push(letter);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Cuts a text to `width` columns; `…` replaces its middle.
pub(crate) fn truncate_middle(text: &str, width: u16) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let reversed: String = text.chars().rev().collect();
    let end = truncate(&reversed, width.saturating_sub(1) / 2 + 1);
    // Without the mark of what was cut.
    let end: String = end.chars().rev().skip(1).collect();
    let start = truncate(text, width.saturating_sub(width_of(&end)));
    start + &end
}

/// Cuts a text to `width` columns so that it differs from those of `others` that it differs from in full, as far as
/// `width` permits: what they begin with in common is left out instead of the end.
pub(crate) fn truncate_distinct(text: &str, others: &[&str], width: u16) -> String {
    let cut = truncate(text, width);
    let mut alike = others.to_vec();
    alike.retain(|other| *other != text && truncate(other, width) == cut);
    let shared = alike.iter().map(|other| shared_start(text, other)).min().unwrap_or(0);
    if width < 2 || shared == 0 {
        return cut;
    }
    let ends: Vec<&str> = alike.iter().filter_map(|other| other.get(shared..)).collect();
    let end = truncate_distinct(text.get(shared..).unwrap_or_default(), &ends, width - 1);
    let start = truncate(text, width.saturating_sub(width_of(&end)));
    start + &end
}

/// Returns the length of the common start of two texts, up to the last start of a word in it.
fn shared_start(text: &str, other: &str) -> usize {
    let differs = text.char_indices().zip(other.chars()).find(|((_, one), two)| one != two);
    let shared = differs.map_or(text.len().min(other.len()), |((at, _), _)| at);
    let word = text.get(..shared).and_then(|start| start.rfind([' ', '-']));
    word.map_or(shared, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_is_between_a_line_and_what_stands_at_its_right_end() {
        let joined = |left: &str, right: &str| {
            let right = Line::styled(right, Tone::Plain);
            Line::styled(left, Tone::Plain).with_right(right, 10).plain_text()
        };
        assert_eq!(joined("abcde", "1/64"), "abcde 1/64");
        assert_eq!(joined("abcdef", "1/64"), "abcd… 1/64");
        assert_eq!(joined("abcdef", " /64"), "abcdef /64");
        assert_eq!(joined("abcdefghij", ""), "abcdefghij");
    }

    #[test]
    fn what_is_cut_off_between_two_parts_is_marked() {
        let line =
            Line::styled("ended", Tone::Plain).text(" · ", Tone::Faint).text("late", Tone::Bad);
        let cut = |width| line.clone().truncated(width).plain_text();
        assert_eq!(
            [12, 11, 8, 5, 4].map(cut),
            ["ended · late", "ended · la…", "ended ·…", "ende…", "end…"]
        );
        let blanks = Line::styled("ended", Tone::Plain).gap(9);
        assert_eq!(blanks.truncated(6).plain_text(), "ended ");
    }

    #[test]
    fn notes_that_do_not_fit_whole_are_counted() {
        let notes = [Note::Free, Note::Waiting, Note::FreeDevices(12)];
        let text = |width| Line::of_node_within(&notes, width).plain_text();
        let all = text(u16::MAX);
        assert_eq!(all, "free · waiting to connect · 12 free");
        assert_eq!(text(width_of(&all)), all);
        assert_eq!(text(width_of(&all) - 1), "free · waiting to connect +1");
        assert_eq!(text(27), "free +2");
        // What is cut says that something is missing.
        assert_eq!(text(6), all);
    }

    #[test]
    fn texts_that_differ_at_the_end_stay_different_at_every_width() {
        const MODELS: [&str; 8] = [
            "RTX PRO 6000 Blackwell Server Edition",
            "RTX PRO 6000 Blackwell Workstation Edition",
            "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "A100-SXM4-40GB",
            "A100-SXM4-80GB",
            "H100 80GB HBM3",
            "H100 80GB HBM3 MIG 1g.10gb",
            "T4",
        ];
        assert_eq!(truncate_distinct(MODELS[0], &MODELS, 20), "RTX P…Server Edition");
        assert_eq!(truncate_distinct(MODELS[1], &MODELS, 20), "…Workstation Edition");
        assert_eq!(truncate_distinct(MODELS[3], &MODELS, 8), "A10…40GB");
        assert_eq!(truncate_distinct(MODELS[7], &MODELS, 4), "T4");
        for width in 4..50 {
            let mut cut = MODELS.map(|model| truncate_distinct(model, &MODELS, width));
            assert!(cut.iter().all(|text| width_of(text) <= width), "{cut:?}");
            cut.sort_unstable();
            assert!(cut.windows(2).all(|two| two[0] != two[1]), "{width}: {cut:?}");
        }
        // The same models stay the same.
        assert_eq!(truncate_distinct("A100-SXM4-40GB", &["A100-SXM4-40GB"], 6), "A100-…");
    }

    #[test]
    fn both_ends_of_a_text_stay() {
        for (text, width, cut) in [
            ("RTX 6000 Ada Generation Server A", 20, "RTX 6000 A… Server A"),
            ("H100 80GB HBM3", 14, "H100 80GB HBM3"),
            ("abcdef", 4, "ab…f"),
            ("日本語日本語", 6, "日…語"),
            ("abcdef", 1, "…"),
            ("abcdef", 0, ""),
        ] {
            assert_eq!(truncate_middle(text, width), cut);
        }
    }

    #[test]
    fn aligned_text_has_exactly_the_given_width() {
        for (word, left, right) in [
            ("ab", "ab  ", "  ab"),
            ("abcdef", "abc…", "abc…"),
            ("日本語", "日… ", " 日…"),
            ("e\u{301}tude", "e\u{301}tu…", "e\u{301}tu…"),
        ] {
            assert_eq!(Line::new().left_aligned(word, 4, Tone::Plain).plain_text(), left);
            assert_eq!(Line::new().right_aligned(word, 4, Tone::Plain).plain_text(), right);
        }
        assert_eq!(truncate("abc", 0), "");
    }

    #[test]
    fn left_and_right_parts_never_overlap() {
        let line = |width| {
            Line::styled("left side", Tone::Plain)
                .with_right(Line::styled("right", Tone::Plain), width)
        };
        assert_eq!(line(20).plain_text(), "left side      right");
        assert_eq!(line(12).plain_text(), "left … right");
        assert_eq!(line(3).plain_text(), "ri…");
        assert_eq!(line(0).plain_text(), "");
    }

    #[test]
    fn trailing_blanks_can_be_trimmed() {
        let line = Line::new().left_aligned("NODE", 9, Tone::Plain).gap(3).left_aligned(
            "",
            4,
            Tone::Plain,
        );
        assert_eq!(
            (line.clone().trimmed().plain_text().as_str(), line.trimmed().width()),
            ("NODE", 4)
        );
        assert_eq!(Line::new().gap(3).trimmed(), Line::new());
        assert_eq!(Line::new().gap(1).rule(5).trimmed().width(), 6);
    }

    #[test]
    fn items_flow_over_at_most_the_given_lines() {
        let items =
            || ["aaa", "bbb", "ccc", "ddd"].map(|word| Line::styled(word, Tone::Plain)).to_vec();
        let lines = |width, most| {
            flow(items(), 1, width, most).iter().map(Line::plain_text).collect::<Vec<_>>()
        };
        assert_eq!(lines(7, 9), ["aaa bbb", "ccc ddd"]);
        assert_eq!(lines(7, 1), ["aaa bbb"]);
        assert_eq!(lines(2, 2), ["a…", "b…"]);
    }

    #[test]
    fn a_strip_marks_overflow() {
        let line = Line::new().strip(vec![(Symbol::Idle, Tone::Low); 20], 4);
        let SpanContent::Strip(marks) = &line.spans[0].content else { panic!("no strip") };
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[3].0, Symbol::Overflow);
    }
}
