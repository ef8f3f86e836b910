//! Diffs frames and writes the fewest bytes that update the terminal.
//!
//! The link to a login node may be slow: cursor moves are relative where that is shorter, and a style
//! is only written when it changes what is visible.

use std::fmt::Write as _;
use std::sync::Arc;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

/// Synchronized update (DEC mode 2026): the terminal shows the whole change at once.
const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";

/// Begins and ends a hyperlink (OSC 8); terminals without hyperlinks show the text alone.
const BEGIN_LINK: &str = "\x1b]8;;";
const END_LINK: &str = "\x1b]8;;\x1b\\";
const END_OF_URL: &str = "\x1b\\";

/// Cells of one row that lead to a URL, which has no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperlink {
    pub x: u16,
    pub y: u16,
    pub width: u16,
    pub url: Arc<str>,
}

impl Hyperlink {
    fn covers(&self, x: u16, y: u16) -> bool {
        y == self.y && (self.x..self.x.saturating_add(self.width)).contains(&x)
    }
}

/// The cells on the screen and those of the next frame.
#[derive(Debug, Default)]
pub struct Surface {
    shown: Buffer,
    next: Buffer,
    links: Vec<Hyperlink>,
    needs_clear: bool,
}

impl Surface {
    pub fn new() -> Self {
        Self { needs_clear: true, ..Self::default() }
    }

    /// Makes the next frame a full redraw.
    pub(crate) fn invalidate(&mut self) {
        self.needs_clear = true;
    }

    /// Draws a frame and its hyperlinks, and returns the bytes for the terminal; empty if nothing changed.
    pub fn frame(
        &mut self,
        area: Rect,
        draw: impl FnOnce(&mut Buffer) -> Vec<Hyperlink>,
    ) -> String {
        let mut text = String::new();
        if self.needs_clear || self.shown.area != area {
            self.shown = Buffer::empty(area);
            self.next = Buffer::empty(area);
            self.links.clear();
            text.push_str("\x1b[0m\x1b[2J");
            self.needs_clear = false;
        }
        self.next.reset();
        let links = draw(&mut self.next);
        let mut pen = AnsiWriter::default();
        let changed = self.shown.diff(&self.next);
        for (x, y, cell) in &changed {
            pen.put_cell(&mut text, *x, *y, cell);
        }
        for old in self.links.iter().filter(|old| !links.contains(old)) {
            pen.put_link(&mut text, old, "", &self.next);
        }
        for link in &links {
            let is_known = self.links.contains(link);
            if !is_known || changed.iter().any(|(x, y, _)| link.covers(*x, *y)) {
                pen.put_link(&mut text, link, &link.url, &self.next);
            }
        }
        self.links = links;
        pen.reset_style(&mut text);
        std::mem::swap(&mut self.shown, &mut self.next);
        if text.is_empty() { text } else { format!("{BEGIN_UPDATE}{text}{END_UPDATE}") }
    }
}

/// Writes cells as ANSI sequences; tracks the cursor position and the current style.
#[derive(Debug, Default)]
pub(super) struct AnsiWriter {
    at: Option<(u16, u16)>,
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl AnsiWriter {
    fn put_cell(&mut self, text: &mut String, x: u16, y: u16, cell: &Cell) {
        self.move_to(text, x, y);
        self.set_style(text, cell);
        text.push_str(cell.symbol());
        // After a character of ambiguous width the cursor position is unknown.
        self.at = cell.symbol().is_ascii().then_some((x + 1, y)).or_else(|| {
            let mut letters = cell.symbol().chars();
            let is_block =
                letters.next().is_some_and(|letter| ('\u{2010}'..'\u{2900}').contains(&letter));
            (is_block && letters.next().is_none()).then_some((x + 1, y))
        });
    }

    /// Writes the cells of a hyperlink, as text that leads to a URL or to nothing.
    fn put_link(&mut self, text: &mut String, link: &Hyperlink, url: &str, buffer: &Buffer) {
        self.move_to(text, link.x, link.y);
        self.at = Some((link.x, link.y));
        for part in [BEGIN_LINK, url, END_OF_URL] {
            text.push_str(part);
        }
        for x in link.x..link.x.saturating_add(link.width) {
            if let Some(cell) = buffer.cell((x, link.y)) {
                self.put_cell(text, x, link.y, cell);
            }
        }
        text.push_str(END_LINK);
    }

    fn move_to(&self, text: &mut String, x: u16, y: u16) {
        // Writing to a string cannot fail.
        let moved = match self.at {
            Some((column, row)) if row == y && column == x => Ok(()),
            Some((column, row)) if row == y && column < x => write!(text, "\x1b[{}C", x - column),
            _ => write!(text, "\x1b[{};{}H", y + 1, x + 1),
        };
        debug_assert!(moved.is_ok(), "a string takes everything");
    }

    pub(super) fn set_style(&mut self, text: &mut String, cell: &Cell) {
        let mut codes: Vec<String> = Vec::new();
        if cell.modifier != self.modifier {
            codes.extend(self.set_modifiers(cell.modifier));
        }
        // A blank shows its foreground only if it is reversed or underlined.
        let is_blank = cell.symbol() == " "
            && !cell.modifier.intersects(Modifier::REVERSED | Modifier::UNDERLINED);
        if cell.fg != self.fg && !is_blank {
            codes.push(colour(cell.fg, 30));
            self.fg = cell.fg;
        }
        if cell.bg != self.bg {
            codes.push(colour(cell.bg, 40));
            self.bg = cell.bg;
        }
        if !codes.is_empty() {
            text.push_str("\x1b[");
            text.push_str(&codes.join(";"));
            text.push('m');
        }
    }

    /// Returns the SGR codes for `wanted`; removing a modifier resets all of them, and the colours.
    fn set_modifiers(&mut self, wanted: Modifier) -> Vec<String> {
        let mut codes = Vec::new();
        if !wanted.contains(self.modifier) {
            codes.push("0".to_owned());
            (self.fg, self.bg, self.modifier) = (Color::Reset, Color::Reset, Modifier::empty());
        }
        let known = [
            (Modifier::BOLD, "1"),
            (Modifier::DIM, "2"),
            (Modifier::UNDERLINED, "4"),
            (Modifier::REVERSED, "7"),
        ];
        let missing = wanted.difference(self.modifier);
        let new = known.iter().filter(|(modifier, _)| missing.contains(*modifier));
        codes.extend(new.map(|(_, code)| (*code).to_owned()));
        self.modifier = wanted;
        codes
    }

    pub(super) fn reset_style(&self, text: &mut String) {
        let is_plain = (self.fg, self.bg) == (Color::Reset, Color::Reset);
        if !is_plain || !self.modifier.is_empty() {
            text.push_str("\x1b[0m");
        }
    }
}

/// Returns the SGR code of a colour; `base` is 30 for the foreground and 40 for the background.
fn colour(colour: Color, base: u8) -> String {
    let bright = base + 60;
    let code = match colour {
        Color::Reset => base + 9,
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => bright,
        Color::LightRed => bright + 1,
        Color::LightGreen => bright + 2,
        Color::LightYellow => bright + 3,
        Color::LightBlue => bright + 4,
        Color::LightMagenta => bright + 5,
        Color::LightCyan => bright + 6,
        Color::White => bright + 7,
        Color::Indexed(index) => return format!("{};5;{index}", base + 8),
        Color::Rgb(red, green, blue) => return format!("{};2;{red};{green};{blue}", base + 8),
    };
    code.to_string()
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    const AREA: Rect = Rect { x: 0, y: 0, width: 20, height: 2 };

    fn style(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
        buffer.set_string(x, y, text, style);
    }

    fn plain(draw: impl Fn(&mut Buffer)) -> impl Fn(&mut Buffer) -> Vec<Hyperlink> {
        move |buffer| {
            draw(buffer);
            Vec::new()
        }
    }

    #[test]
    fn an_unchanged_frame_writes_nothing() {
        let mut surface = Surface::new();
        let draw = plain(|buffer| style(buffer, 0, 0, "ab", Style::new()));
        assert_eq!(surface.frame(AREA, &draw), "\x1b[?2026h\x1b[0m\x1b[2J\x1b[1;1Hab\x1b[?2026l");
        assert_eq!(surface.frame(AREA, &draw), "");
        surface.invalidate();
        assert!(surface.frame(AREA, &draw).contains("ab"));
    }

    #[test]
    fn only_changes_are_written_with_short_moves() {
        let mut surface = Surface::new();
        let draw = |text: &'static str| {
            plain(move |buffer: &mut Buffer| style(buffer, 0, 0, text, Style::new()))
        };
        surface.frame(AREA, draw("a 10% b 20%"));
        let bytes = surface.frame(AREA, draw("a 11% b 29%"));
        assert_eq!(bytes, "\x1b[?2026h\x1b[1;4H1\x1b[5C9\x1b[?2026l");
    }

    #[test]
    fn a_style_is_written_once_and_reset_at_the_end() {
        let mut surface = Surface::new();
        surface.frame(AREA, plain(|_| {}));
        let bytes = surface.frame(
            AREA,
            plain(|buffer| {
                let green = Style::new().fg(Color::Indexed(78));
                style(buffer, 0, 0, "██", green);
                style(buffer, 2, 0, "!", green.add_modifier(Modifier::BOLD));
                style(buffer, 3, 0, "x", Style::new().fg(Color::LightRed));
            }),
        );
        let expected = "\x1b[1;1H\x1b[38;5;78m██\x1b[1m!\x1b[0;91mx\x1b[0m";
        assert_eq!(bytes, format!("\x1b[?2026h{expected}\x1b[?2026l"));
    }

    #[test]
    fn the_cursor_is_moved_after_a_wide_character() {
        let mut surface = Surface::new();
        surface.frame(AREA, plain(|_| {}));
        let bytes = surface.frame(AREA, plain(|buffer| style(buffer, 0, 0, "日x", Style::new())));
        assert_eq!(bytes, "\x1b[?2026h\x1b[1;1H日\x1b[1;3Hx\x1b[?2026l");
    }
    #[test]
    fn a_hyperlink_is_written_when_it_comes_changes_and_goes() {
        let mut surface = Surface::new();
        let draw = |text: &'static str, urls: &'static [&'static str]| {
            move |buffer: &mut Buffer| {
                style(buffer, 0, 0, text, Style::new());
                let link = |url: &&str| Hyperlink { x: 2, y: 0, width: 2, url: (*url).into() };
                urls.iter().map(link).collect()
            }
        };
        let update = |text: &str| format!("\x1b[?2026h{text}\x1b[?2026l");
        let link =
            |url: &str, text: &str| format!("\x1b[1;3H\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\");
        surface.frame(AREA, draw("a bc", &[]));
        let come = surface.frame(AREA, draw("a bc", &["http://x"]));
        assert_eq!(come, update(&link("http://x", "bc")));
        assert_eq!(surface.frame(AREA, draw("a bc", &["http://x"])), "");
        assert_eq!(surface.frame(AREA, draw("b bc", &["http://x"])), update("\x1b[1;1Hb"));
        let changed = surface.frame(AREA, draw("b bd", &["http://x"]));
        assert!(changed.contains(&link("http://x", "bd")), "{changed:?}");
        let other = surface.frame(AREA, draw("b bd", &["http://y"]));
        assert!(other.contains(&link("http://y", "bd")), "{other:?}");
        assert_eq!(surface.frame(AREA, draw("b bd", &[])), update(&link("", "bd")));
    }
}
