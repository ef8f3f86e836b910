//! Renders lines as plain text, for pipes and `--once`.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::paint::paint;
use crate::surface::AnsiWriter;
use crate::theme::Theme;
use crate::widgets::line::Line;

/// Renders lines as text, cut to `width`; with ANSI styles only if `has_styles`.
pub fn render_text(lines: &[Line], theme: Theme, width: u16, has_styles: bool) -> String {
    let area = Rect::new(0, 0, width, 1);
    let mut text = String::new();
    for line in lines {
        let mut buffer = Buffer::empty(area);
        paint(std::slice::from_ref(line), theme, area, &mut buffer);
        write_row(&buffer, has_styles, &mut text);
        text.push('\n');
    }
    text
}

/// Appends one row without trailing blanks.
fn write_row(buffer: &Buffer, has_styles: bool, text: &mut String) {
    let last = buffer.content.iter().rposition(|cell| cell.symbol() != " ");
    let end = last.map_or(0, |last| last + 1);
    let mut pen = AnsiWriter::default();
    let mut covered = 0;
    for cell in buffer.content.iter().take(end) {
        if covered > 0 {
            covered -= 1;
            continue;
        }
        if has_styles {
            pen.set_style(text, cell);
        }
        let columns = cell.symbol().width().max(1);
        text.push_str(&fixed_width(cell.symbol(), columns));
        covered = columns - 1;
    }
    if has_styles {
        pen.reset_style(text);
    }
}

/// Returns a symbol of the same width in every terminal: of joined emoji, which terminals measure
/// differently, the first character with its combining marks.
fn fixed_width(symbol: &str, columns: usize) -> String {
    let mut letters = symbol.chars();
    let mut kept: String = letters.next().into_iter().collect();
    kept.extend(letters.take_while(|letter| {
        letter.width().unwrap_or(0) == 0 && !matches!(letter, '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
    }));
    let missing = columns.saturating_sub(kept.width());
    kept.extend(std::iter::repeat_n(' ', missing));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{ColourDepth, GlyphSet, Palette};
    use crate::widgets::line::Tone;

    const THEME: Theme = Theme {
        palette: Palette::Dark,
        depth: ColourDepth::Indexed256,
        glyphs: GlyphSet::Unicode,
        is_colorful: false,
    };

    #[test]
    fn without_styles_only_text_is_written() {
        let lines = [
            Line::styled("name", Tone::Strong).gap(2).bar(Some(50.0), 4, Tone::Mid).gap(9),
            Line::new(),
            Line::styled("\u{1b}[31mred\r\n", Tone::Bad),
        ];
        assert_eq!(render_text(&lines, THEME, 20, false), "name  ▄▄▁▁\n\n[31mred\n");
        let ascii = Theme { glyphs: GlyphSet::Ascii, ..THEME };
        assert_eq!(render_text(&lines, ascii, 20, false), "name  ##..\n\n[31mred\n");
    }

    #[test]
    fn a_style_is_reset_at_the_end_of_its_line() {
        let lines = [Line::styled("a", Tone::Bad), Line::styled("b", Tone::Plain)];
        assert_eq!(render_text(&lines, THEME, 20, true), "\u{1b}[38;5;210ma\u{1b}[0m\nb\n");
    }

    #[test]
    fn columns_align_after_characters_of_ambiguous_width() {
        let line =
            |name: &str| Line::new().left_aligned(name, 8, Tone::Plain).text("|", Tone::Plain);
        for (name, expected) in [
            ("abc", "abc     |"),
            ("日本", "日本    |"),
            ("e\u{301}t", "e\u{301}t      |"),
            ("\u{1f469}\u{200d}\u{1f680}x", "\u{1f469}x     |"),
            ("\u{2764}\u{fe0f}x", "\u{2764} x     |"),
        ] {
            assert_eq!(
                render_text(&[line(name)], THEME, 20, false),
                format!("{expected}\n"),
                "{name}"
            );
        }
    }
}
