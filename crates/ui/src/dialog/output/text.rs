//! A line of output as it is shown: what a carriage return has overwritten is gone, colours are tones, and nothing else
//! of a terminal's language is left.

use crate::widgets::line::{Line, SpanContent, Tone};
use gtop_local::text::{is_unprintable, width_of};

const TAB_WIDTH: usize = 8;

/// Returns a line; `base` is the tone of text without a colour.
pub(super) fn render(bytes: &[u8], base: Tone) -> Line {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    // A progress bar draws itself again behind each carriage return.
    let shown = text.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    let mut line = Line::new();
    let (mut part, mut tone, mut column) = (String::new(), base, 0);
    let mut letters = shown.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                if let Some(codes) = skip_escape(&mut letters) {
                    line = push(line, &mut part, tone);
                    tone = tone_of(&codes, tone, base);
                }
            }
            '\t' => {
                let blanks = TAB_WIDTH - column % TAB_WIDTH;
                part.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            letter if is_unprintable(letter) => {}
            letter => {
                part.push(letter);
                column += 1;
            }
        }
    }
    push(line, &mut part, tone)
}

fn push(line: Line, part: &mut String, tone: Tone) -> Line {
    if part.is_empty() { line } else { line.text(std::mem::take(part), tone) }
}

/// Skips the rest of an escape sequence; returns the parameters of one that sets colours.
fn skip_escape(letters: &mut std::str::Chars<'_>) -> Option<String> {
    match letters.next()? {
        '[' => {
            let mut parameters = String::new();
            for letter in letters.by_ref() {
                match letter {
                    'm' => return Some(parameters),
                    '\x40'..='\x7e' => return None,
                    _ if parameters.len() < 64 => parameters.push(letter),
                    _ => {}
                }
            }
            None
        }
        // Titles, links and the like end with BEL or ESC \.
        ']' | 'P' | '_' | '^' | 'X' => {
            let mut is_escaped = false;
            for letter in letters.by_ref() {
                if letter == '\x07' || (is_escaped && letter == '\\') {
                    break;
                }
                is_escaped = letter == '\x1b';
            }
            None
        }
        ' '..='/' => {
            letters.next();
            None
        }
        _ => None,
    }
}

/// Returns the tone after some codes of a colour sequence.
fn tone_of(codes: &str, current: Tone, base: Tone) -> Tone {
    let mut tone = current;
    let mut codes = codes.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
    while let Some(code) = codes.next() {
        tone = match code {
            0 | 39 => base,
            1 => Tone::Strong,
            2 | 90 => Tone::Faint,
            31 | 91 => Tone::Bad,
            32 | 92 => Tone::Low,
            33 | 93 => Tone::Warn,
            34..=36 | 94..=96 => Tone::Accent,
            // A colour of 256, or of red, green and blue.
            38 | 48 => {
                let count = if codes.next() == Some(2) { 3 } else { 1 };
                codes.by_ref().take(count).for_each(drop);
                if code == 38 { Tone::Accent } else { tone }
            }
            _ => tone,
        };
    }
    tone
}

/// Returns a line without its first columns.
pub(super) fn scrolled(line: Line, columns: u16) -> Line {
    if columns == 0 {
        return line;
    }
    let mut left = columns;
    let mut rest = Line::new();
    for span in line.spans {
        let SpanContent::Text(text) = span.content else { continue };
        let mut letters = text.chars();
        while left > 0 {
            let Some(letter) = letters.next() else { break };
            left = left.saturating_sub(width_of(letter.encode_utf8(&mut [0; 4])));
        }
        rest = rest.text(letters.as_str(), span.tone);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        render(bytes, Tone::Plain).plain_text()
    }

    #[test]
    fn a_progress_bar_is_shown_as_it_stands_last() {
        assert_eq!(shown(b" 10%|#   |\r 20%|##  |\r 30%|### |\n"), " 30%|### |");
        assert_eq!(shown(b"done\r\n"), "done");
        assert_eq!(shown(b"a\r\r\n"), "a");
        assert_eq!(shown(b"\r\n"), "");
    }

    #[test]
    fn colours_become_tones_and_nothing_else_is_left() {
        let line = render(
            b"a\x1b[31mred\x1b[0m b\x1b[1;38;5;200mx\x1b[39m\x1b[38;2;1;2;3my\x1b[m.",
            Tone::Plain,
        );
        let tones: Vec<(String, Tone)> = line
            .spans
            .iter()
            .filter_map(|span| {
                let SpanContent::Text(text) = &span.content else { return None };
                Some((text.clone(), span.tone))
            })
            .collect();
        let expected = [
            ("a", Tone::Plain),
            ("red", Tone::Bad),
            (" b", Tone::Plain),
            ("x", Tone::Accent),
            ("y", Tone::Accent),
            (".", Tone::Plain),
        ];
        assert_eq!(tones, expected.map(|(text, tone)| (text.to_owned(), tone)));
        for hostile in [
            &b"\x1b]0;title\x07text"[..],
            b"\x1b]8;;http://a\x1b\\text\x1b]8;;\x1b\\",
            b"\x1b[2J\x1b[1;1H\x1b[?25ltext\x1b[6n",
            b"\x1b(Btext\x1bc\x07\x08\x00",
            b"\x1bPq...\x1b\\text",
            "te\u{202e}xt\u{9b}".as_bytes(),
        ] {
            assert_eq!(shown(hostile), "text", "{hostile:?}");
        }
        assert_eq!(shown(b"a\tb\xff"), "a       b\u{fffd}");
        for end in 0..12 {
            shown(&b"\x1b[31;1mx\x1b]8"[..end]);
        }
    }

    #[test]
    fn lines_scroll_sideways() {
        let scrolled_text = |text: &str, columns| {
            scrolled(render(text.as_bytes(), Tone::Plain), columns).plain_text()
        };
        assert_eq!(scrolled_text("abcdef", 2), "cdef");
        assert_eq!(scrolled_text("日本語", 3), "語");
        assert_eq!(scrolled_text("ab", 5), "");
    }
}
