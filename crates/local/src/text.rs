//! Text to show: that of other machines and programs bounded and without control characters; the width of a
//! text; the lines of a stream.

mod line_reader;
mod wildcard;

use std::sync::Arc;

use unicode_width::UnicodeWidthStr;

pub use crate::text::line_reader::{LineReader, LineTooLong};
pub use crate::text::wildcard::{matches_pattern, matches_wildcards};

/// Returns the characters of `text`, each hostile one as a space; see [`is_unprintable`].
pub fn sanitized_chars(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|letter| if is_unprintable(letter) { ' ' } else { letter })
}

/// Returns at most `limit` characters of `text`, each hostile one as a space.
pub fn sanitize(text: &str, limit: usize) -> String {
    let cleaned: String = sanitized_chars(text).take(limit).collect();
    cleaned.trim().to_owned()
}

/// Same as [`sanitize`], as a shared string.
pub fn sanitize_shared(text: &str, limit: usize) -> Arc<str> {
    // Fast path: nearly every text is printable ASCII.
    if text.len() <= limit && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return text.into();
    }
    sanitize(text, limit).into()
}

/// What the addresses of pages begin with.
pub const HTTP: &str = "http://";
/// The same, where they are encrypted.
pub const HTTPS: &str = "https://";

/// Returns what follows the scheme of an address, which is in any case.
pub fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Shown for unknown values.
pub const UNKNOWN: &str = "–";

/// Formats a count with its noun in the singular or the plural.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Returns the verb of so many things that match.
pub const fn match_verb(count: usize) -> &'static str {
    if count == 1 { "matches" } else { "match" }
}

/// Returns the width of a text in columns.
pub fn width_of(text: &str) -> u16 {
    let width = if text.is_ascii() { text.len() } else { text.width() };
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// Same as [`sanitize`], but marks where `text` was cut, and keeps its spaces.
pub fn excerpt(text: &str, limit: usize) -> String {
    let mut cleaned: String = sanitized_chars(text).take(limit).collect();
    if text.chars().nth(limit).is_some() {
        cleaned.push('…');
    }
    cleaned
}

/// Returns an [`excerpt`] of at most 200 characters, without spaces around it.
pub fn excerpt_line(text: &str) -> String {
    excerpt(text.trim_matches(|c: char| c.is_whitespace() || is_unprintable(c)), 200)
}

/// Returns an [`excerpt_line`] with a lower-case first letter, for use within a sentence.
pub fn lowercase_first(text: &str) -> String {
    let text = excerpt_line(text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}", first.to_ascii_lowercase(), letters.as_str()),
        None => text,
    }
}

/// Returns the text of an operating system error, without its number.
pub fn io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(text);
    // An acronym keeps its capitals.
    let is_word = text.chars().nth(1).is_some_and(char::is_lowercase);
    if is_word { lowercase_first(text) } else { excerpt_line(text) }
}

/// Returns true if a character can move a cursor, hide text or reorder it.
///
/// These are the control characters, line separators, interlinear marks, and whatever Unicode calls
/// `Default_Ignorable_Code_Point`: bidirectional marks, joiners, fillers, variation selectors, tags.
pub fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_stripped_of_control_characters() {
        assert_eq!(excerpt_line("hi\x1b[2Jthere\r\n"), "hi [2Jthere");
        assert_eq!(excerpt_line("a\u{202e}b\u{9b}c\u{7f}"), "a b c");
        assert_eq!(excerpt_line(&"x".repeat(300)).chars().count(), 201);
    }

    #[test]
    fn an_operating_system_error_reads_as_a_phrase() {
        let error = std::io::Error::from_raw_os_error(113);
        assert_eq!(io_error(&error), "no route to host");
    }

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        assert_eq!(sanitize("a\x1b[31mb\u{9b}2Jc\u{202e}d\n", 100), "a [31mb 2Jc d");
        assert_eq!(sanitize("абв", 2), "аб");
        assert_eq!(&*sanitize_shared("python", 64), "python");
        assert_eq!(&*sanitize_shared("a\tb", 64), "a b");
    }

    #[test]
    fn every_character_that_is_seen_by_nobody_becomes_a_space() {
        let ends = [
            ('\0', '\u{1f}'),
            ('\u{7f}', '\u{9f}'),
            ('\u{200b}', '\u{200f}'),
            ('\u{2028}', '\u{202e}'),
            ('\u{2060}', '\u{206f}'),
            ('\u{feff}', '\u{feff}'),
            ('\u{fff9}', '\u{fffb}'),
        ];
        for letter in ends.into_iter().flat_map(|(first, last)| first..=last) {
            let text = format!("a{letter}b");
            assert!(is_unprintable(letter), "{letter:?}");
            assert_eq!(sanitize(&text, 100), "a b", "{letter:?}");
            assert_eq!(&*sanitize_shared(&text, 100), "a b", "{letter:?}");
        }
    }

    /// `Default_Ignorable_Code_Point` of Unicode 16, `DerivedCoreProperties.txt`.
    const IGNORABLE: [(u32, u32); 17] = [
        (0xad, 0xad),
        (0x34f, 0x34f),
        (0x61c, 0x61c),
        (0x115f, 0x1160),
        (0x17b4, 0x17b5),
        (0x180b, 0x180f),
        (0x200b, 0x200f),
        (0x202a, 0x202e),
        (0x2060, 0x206f),
        (0x3164, 0x3164),
        (0xfe00, 0xfe0f),
        (0xfeff, 0xfeff),
        (0xffa0, 0xffa0),
        (0xfff0, 0xfff8),
        (0x1bca0, 0x1bca3),
        (0x1d173, 0x1d17a),
        (0xe0000, 0xe0fff),
    ];

    #[test]
    fn what_nobody_sees_is_hostile_and_what_somebody_reads_is_not() {
        for letter in IGNORABLE.into_iter().flat_map(|(first, last)| first..=last) {
            let letter = char::from_u32(letter).unwrap();
            assert_eq!(sanitize(&format!("a{letter}b"), 9), "a b", "{letter:?}");
        }
        for control in (0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32) {
            assert_eq!(sanitize(&format!("a{control}b"), 9), "a b", "{control:?}");
        }
        for text in
            ["naïve", "e\u{301}", "日本語", "한국", "ภาษา", "עברית", "\u{1f680}", "a\u{a0}b"]
        {
            assert_eq!(sanitize(text, 99), text);
        }
    }
}
