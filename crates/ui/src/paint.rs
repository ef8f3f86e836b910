//! Draws lines into a ratatui buffer: tones become styles; bars and graphs become glyphs.

use std::borrow::Cow;
use std::sync::Arc;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthChar;

use crate::surface::Hyperlink;
use crate::theme::{GlyphSet, Theme};
use crate::widgets::line::{Line, RowStyle, Span, SpanContent, Symbol, Tone};

/// The cells of a bar: empty, half full and full. They leave the upper half of the row blank, so that the bars of
/// neighbouring rows never merge.
const BAR: [&str; 3] = [" ", "▖", "▄"];
/// The empty part of a bar, which without colours is still another glyph than the filled part.
const TRACK: &str = "▁";
/// The levels of symbols and sparklines, which leave the upper quarter of the row blank for the same reason.
const LEVELS_UP: [&str; 6] = ["▁", "▂", "▃", "▄", "▅", "▆"];
/// The levels of a row of a graph that is several rows high.
const EIGHTHS_UP: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_UP: [&str; 6] = ["_", ".", "-", "=", "+", "#"];
/// Graph levels without braille: one column shows the larger of two points.
const ASCII_GRAPH: [&str; 5] = [" ", ".", ":", "|", "#"];
const ASCII_GRAPH_DOWN: [&str; 5] = [" ", "'", "\"", "|", "#"];
/// Bits of the braille dots from bottom to top, for the left and the right column.
const DOTS_UP: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
const DIGITS: [&str; 10] = ["1", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Draws lines from the top of an area; lines and text beyond it are cut off. Returns their hyperlinks.
pub(crate) fn paint(
    lines: &[Line],
    theme: Theme,
    area: Rect,
    buffer: &mut Buffer,
) -> Vec<Hyperlink> {
    let mut hyperlinks = Vec::new();
    for (y, line) in (area.top()..area.bottom()).zip(lines) {
        let row = Rect { y, height: 1, ..area };
        if line.row_style != RowStyle::Plain {
            buffer.set_style(row, theme.row_style(line.row_style));
        }
        let mut painter =
            LinePainter { theme, row_style: line.row_style, buffer: &mut *buffer, row };
        let mut x = row.left();
        for piece in &line.spans {
            let width = piece.width.min(row.right().saturating_sub(x));
            painter.piece(x, width, piece);
            x += width;
        }
        // Terminals without UTF-8, as the Linux console, may print what they do not know.
        for (start, end, url) in line.links.iter().filter(|_| theme.glyphs != GlyphSet::Ascii) {
            let [start, end] = [start, end].map(|column| row.left().saturating_add(*column).min(x));
            if start < end {
                let url = Arc::clone(url);
                hyperlinks.push(Hyperlink { x: start, y, width: end - start, url });
            }
        }
    }
    hyperlinks
}

struct LinePainter<'a> {
    theme: Theme,
    row_style: RowStyle,
    buffer: &'a mut Buffer,
    row: Rect,
}

impl LinePainter<'_> {
    fn piece(&mut self, x: u16, width: u16, piece: &Span) {
        let style = self.theme.style(piece.tone, self.row_style);
        let tone = piece.tone;
        match &piece.content {
            SpanContent::Text(text) => self.text(x, width, text, style),
            SpanContent::Bar(part) => {
                let is_load = matches!(tone, Tone::Low | Tone::Mid | Tone::High);
                let is_graded = self.theme.is_colorful && is_load;
                self.bar(x, width, *part, self.bar_style(tone), is_graded);
            }
            SpanContent::Spark(points) => {
                self.marks(x, width, points, &LEVELS_UP, self.bar_style(tone));
            }
            SpanContent::Area(points) => {
                self.marks(x, width, points, &EIGHTHS_UP, self.bar_style(tone));
            }
            SpanContent::Strip(marks) => {
                for (x, (symbol, tone)) in (x..x + width).zip(marks) {
                    let is_load = matches!(symbol, Symbol::Level(_) | Symbol::Area(_));
                    let style = if is_load && !self.is_ascii() {
                        self.theme.level_style(*tone, self.row_style)
                    } else {
                        self.theme.style(*tone, self.row_style)
                    };
                    // Without colours, the height of a cell would hide an alarm.
                    let is_alarm = is_load && matches!(tone, Tone::Warn | Tone::Bad);
                    let is_colourless = style.fg.is_none_or(|colour| colour == Color::Reset);
                    let symbol =
                        if is_alarm && is_colourless { Symbol::Char('!') } else { *symbol };
                    self.symbol(x, symbol, style);
                }
            }
            SpanContent::Graph { points, grows_down } => {
                for (x, pair) in (x..x + width).zip(points.chunks(2)) {
                    self.graph(x, pair, *grows_down, self.bar_style(tone));
                }
            }
            SpanContent::Rule => {
                let glyph = if self.is_ascii() { "-" } else { "─" };
                (x..x + width).for_each(|x| self.glyph(x, glyph, style));
            }
        }
    }

    /// Returns the style of filled cells; in ASCII they are letters and take the text style.
    fn bar_style(&self, tone: Tone) -> Style {
        if self.is_ascii() {
            self.theme.style(tone, self.row_style)
        } else {
            self.theme.bar_style(tone, self.row_style)
        }
    }

    fn is_ascii(&self) -> bool {
        self.theme.glyphs == GlyphSet::Ascii
    }

    fn text(&mut self, x: u16, width: u16, text: &str, style: Style) {
        let text = if self.is_ascii() { to_ascii(text) } else { Cow::Borrowed(text) };
        let letters = text.bytes().take(usize::from(width));
        let is_printable = text.is_ascii() && !letters.clone().any(|byte| byte.is_ascii_control());
        let end = if is_printable {
            for (cell, byte) in self.cells(x, width).iter_mut().zip(letters.clone()) {
                cell.set_char(char::from(byte));
            }
            x
        } else {
            // Characters may be two columns wide, or combine with the one before.
            let (end, _) = self.buffer.set_stringn(x, self.row.y, text, usize::from(width), style);
            end
        };
        for cell in self.cells(end, (x + width).saturating_sub(end)) {
            cell.set_style(style);
        }
    }

    fn glyph(&mut self, x: u16, glyph: &str, style: Style) {
        if let Some(cell) = self.cells(x, 1).first_mut() {
            cell.set_symbol(glyph).set_style(style);
        }
    }

    /// Returns up to `width` cells of the row from column `x`.
    fn cells(&mut self, x: u16, width: u16) -> &mut [Cell] {
        let Rect { x: left, y: top, width: columns, .. } = self.buffer.area;
        let [row, column] =
            [self.row.y.saturating_sub(top), x.saturating_sub(left)].map(usize::from);
        let start = row * usize::from(columns) + column;
        self.buffer.content.get_mut(start..start + usize::from(width)).unwrap_or_default()
    }

    fn bar(&mut self, x: u16, width: u16, part: Option<f32>, style: Style, is_graded: bool) {
        let Some(part) = part else { return };
        let (start, whole) = (x, f32::from(width.saturating_sub(1).max(1)));
        let filled_halves = filled_halves(part, width);
        let track = self.theme.track_style(self.row_style).filter(|_| !self.is_ascii());
        for (index, x) in (x..x + width).enumerate() {
            let halves = filled_halves.saturating_sub(index * 2).min(2);
            let (glyph, style) = match (self.is_ascii(), halves) {
                (true, 0) => (".", self.theme.style(Tone::Faint, self.row_style)),
                (false, 0) => match track {
                    Some(track) => (TRACK, track),
                    None => (" ", style),
                },
                _ if is_graded => {
                    let part = f32::from(x - start) / whole;
                    (self.bar_glyph(halves), self.theme.gradient_style(part, self.row_style))
                }
                _ => (self.bar_glyph(halves), style),
            };
            self.glyph(x, glyph, style);
        }
    }

    fn bar_glyph(&self, halves: usize) -> &'static str {
        if self.is_ascii() {
            return if halves < 2 { "-" } else { "#" };
        }
        BAR.get(halves).copied().unwrap_or(" ")
    }

    fn graph(&mut self, x: u16, pair: &[u8], grows_down: bool, style: Style) {
        if self.is_ascii() {
            let glyphs = if grows_down { &ASCII_GRAPH_DOWN } else { &ASCII_GRAPH };
            let fullest = pair.iter().copied().max().unwrap_or(0);
            self.glyph(x, glyphs.get(usize::from(fullest)).copied().unwrap_or("#"), style);
            return;
        }
        let dots = DOTS_UP.iter().zip(pair).fold(0, |dots, (column, filled)| {
            let filled = usize::from(*filled).min(column.len());
            let skipped = if grows_down { column.len() - filled } else { 0 };
            column.iter().skip(skipped).take(filled).fold(dots, |dots, dot| dots | dot)
        });
        // The empty braille pattern is not blank in every font.
        let sign = if dots == 0 { ' ' } else { char::from_u32(0x2800 + dots).unwrap_or(' ') };
        self.glyph(x, sign.encode_utf8(&mut [0; 4]), style);
    }

    /// Draws one mark per point, one of `glyphs` or blank if the point is unknown.
    fn marks(&mut self, x: u16, width: u16, points: &[Option<f32>], glyphs: &[&str], style: Style) {
        let glyphs = if self.is_ascii() { &ASCII_UP } else { glyphs };
        for (x, point) in (x..x + width).zip(points) {
            let glyph = point.and_then(|value| glyphs.get(step(value, glyphs.len())).copied());
            self.glyph(x, glyph.unwrap_or(" "), style);
        }
    }

    fn symbol(&mut self, x: u16, symbol: Symbol, style: Style) {
        let (letter, style) = match symbol {
            Symbol::Char(letter) => (letter, style),
            // A cell under the cursor keeps the cursor's style.
            Symbol::Letter(letter, _) if style.add_modifier.contains(Modifier::REVERSED) => {
                (letter, style)
            }
            Symbol::Letter(letter, hue) => {
                (letter, style.patch(self.theme.hue(hue, self.row_style)))
            }
            Symbol::Level(_)
            | Symbol::Area(_)
            | Symbol::Idle
            | Symbol::Faulty
            | Symbol::Overflow => {
                return self.glyph(x, self.symbol_glyph(symbol), style);
            }
        };
        self.text(x, 1, letter.encode_utf8(&mut [0; 4]), style);
    }

    fn symbol_glyph(&self, symbol: Symbol) -> &'static str {
        match (symbol, self.is_ascii()) {
            (Symbol::Level(value), true) => DIGITS.get(step(value, 10)).copied().unwrap_or(" "),
            (Symbol::Level(value), false) => LEVELS_UP.get(step(value, 6)).copied().unwrap_or(" "),
            (Symbol::Area(value), true) => ASCII_UP.get(step(value, 6)).copied().unwrap_or(" "),
            (Symbol::Area(value), false) => EIGHTHS_UP.get(step(value, 8)).copied().unwrap_or(" "),
            (Symbol::Idle, true) => ".",
            (Symbol::Idle, false) => "·",
            (Symbol::Faulty, true) => "X",
            (Symbol::Faulty, false) => "✗",
            (Symbol::Overflow, _) => "+",
            (Symbol::Char(_) | Symbol::Letter(..), _) => " ",
        }
    }
}

/// Returns the filled halves of a bar's columns; a value above zero fills at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn filled_halves(part: f32, width: u16) -> usize {
    let all = usize::from(width) * 2;
    let filled = (part / 100.0 * f32::from(width) * 2.0).round() as usize;
    if part > 0.0 { filled.clamp(1, all.max(1)) } else { 0 }
}

/// Returns the level of a share among `steps`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what we want; there are a few steps"
)]
fn step(part: f32, steps: usize) -> usize {
    let level = (part / 100.0 * steps as f32).floor().max(0.0) as usize;
    level.min(steps.saturating_sub(1))
}

/// Replaces characters outside ASCII by others of the same width.
fn to_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            _ if letter.is_ascii() => plain.push(letter),
            // A sign, as cells have it; behind a space it separates.
            '·' if !plain.ends_with(' ') => plain.push('.'),
            // The scale is named anyway.
            '°' if letters.peek().is_some_and(char::is_ascii_alphabetic) => plain.push(' '),
            '–' | '─' => plain.push('-'),
            '━' => plain.push('='),
            '╱' => plain.push('/'),
            '●' => plain.push('*'),
            '…' => plain.push('~'),
            '·' | '├' | '┤' | '│' | '┃' | '▮' => plain.push('|'),
            '×' => plain.push('x'),
            '°' => plain.push('C'),
            '✗' => plain.push('X'),
            '→' | '▸' | '▶' => plain.push('>'),
            '←' => plain.push('<'),
            '↑' => plain.push('^'),
            '↓' | '▾' => plain.push('v'),
            '▒' => plain.push('%'),
            '└' => plain.push('`'),
            '␤' => plain.push('$'),
            _ => plain.extend(std::iter::repeat_n('?', letter.width().unwrap_or(0))),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{ColourDepth, Palette};

    fn paint_line(line: Line, glyphs: GlyphSet, width: u16) -> String {
        let area = Rect::new(0, 0, width, 1);
        let mut buffer = Buffer::empty(area);
        let theme = Theme {
            palette: Palette::Mono,
            depth: ColourDepth::Ansi16,
            glyphs,
            is_colorful: false,
        };
        paint(&[line], theme, area, &mut buffer);
        (0..width).map(|x| buffer[(x, 0)].symbol().to_owned()).collect()
    }

    #[test]
    fn bars_fill_by_halves_and_a_small_value_is_visible() {
        for (part, unicode, ascii) in [
            (None, "    ", "    "),
            (Some(0.0), "    ", "...."),
            (Some(0.1), "▖   ", "-..."),
            (Some(50.0), "▄▄  ", "##.."),
            (Some(99.0), "▄▄▄▄", "####"),
            (Some(60.0), "▄▄▖ ", "##-."),
        ] {
            let line = || Line::new().bar(part, 4, Tone::Mid);
            assert_eq!(paint_line(line(), GlyphSet::Unicode, 4), unicode, "{part:?}");
            assert_eq!(paint_line(line(), GlyphSet::Ascii, 4), ascii, "{part:?}");
        }
    }

    #[test]
    fn no_mark_of_load_touches_the_row_above() {
        let full = Line::new()
            .bar(Some(100.0), 3, Tone::High)
            .sparkline(vec![Some(100.0); 3], Tone::High)
            .strip(vec![(Symbol::Level(100.0), Tone::High); 3], 3);
        for glyphs in [GlyphSet::Unicode, GlyphSet::Ascii] {
            let text = paint_line(full.clone(), glyphs, 9);
            assert!(!text.contains(['█', '▇', '▉']), "{text}");
        }
    }

    #[test]
    fn sparklines_and_strips_show_gaps_and_faults() {
        let spark =
            || Line::new().sparkline(vec![Some(0.0), None, Some(50.0), Some(100.0)], Tone::Mid);
        assert_eq!(paint_line(spark(), GlyphSet::Unicode, 4), "▁ ▄▆");
        assert_eq!(paint_line(spark(), GlyphSet::Ascii, 4), "_ =#");
        let marks = [Symbol::Level(100.0), Symbol::Idle, Symbol::Faulty, Symbol::Overflow];
        let strip =
            || Line::new().strip(marks.iter().map(|symbol| (*symbol, Tone::Plain)).collect(), 5);
        assert_eq!(paint_line(strip(), GlyphSet::Unicode, 5), "▆·✗+ ");
        assert_eq!(paint_line(strip(), GlyphSet::Ascii, 5), "9.X+ ");
    }

    #[test]
    fn graphs_fill_from_the_bottom_or_from_the_top() {
        let line = |grows_down| Line::new().graph(vec![0, 0, 1, 4, 2, 0, 9], grows_down, Tone::Mid);
        assert_eq!(paint_line(line(false), GlyphSet::Unicode, 4), " ⣸⡄⡇");
        assert_eq!(paint_line(line(true), GlyphSet::Unicode, 4), " ⢹⠃⡇");
        assert_eq!(paint_line(line(false), GlyphSet::Ascii, 4), " #:#");
        assert_eq!(paint_line(line(true), GlyphSet::Ascii, 4), " #\"#");
    }

    #[test]
    fn ascii_replacements_have_the_same_width() {
        for (text, plain) in [
            ("61°", "61C"),
            ("°C or °F", " C or  F"),
            ("· free", ". free"),
            ("a · b", "a | b"),
            ("8× – …", "8x - ~"),
            ("日本e\u{301}", "????e"),
        ] {
            assert_eq!(to_ascii(text), plain);
        }
    }

    #[test]
    fn content_beyond_the_row_is_cut() {
        let line = Line::styled("日本語", Tone::Plain).bar(Some(100.0), 9, Tone::Mid);
        assert_eq!(paint_line(line.clone(), GlyphSet::Ascii, 8), "??????##");
        assert_eq!(paint_line(line, GlyphSet::Unicode, 1), " ");
    }
}
