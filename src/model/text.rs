//! Text from a node, made safe to show: bounded and without control characters.

use std::sync::Arc;

use unicode_width::UnicodeWidthStr;

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
    let is_safe = |byte: u8| (0x21..0x7f).contains(&byte);
    if text.len() <= limit && text.bytes().all(is_safe) {
        return text.into();
    }
    sanitize(text, limit).into()
}

/// Shown for unknown values.
pub const UNKNOWN: &str = "–";

/// Returns the width of a text in columns.
pub fn width_of(text: &str) -> u16 {
    let width = if text.is_ascii() { text.len() } else { text.width() };
    u16::try_from(width).unwrap_or(u16::MAX)
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
