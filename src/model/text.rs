//! Text from a node, made safe to show: bounded and without control characters.

use std::sync::Arc;

/// Returns at most `limit` characters of `text`, each control character replaced by a space.
///
/// Control characters are C0, DEL, C1 and the invisible ones that reorder or hide text
/// (bidirectional marks, zero-width marks, line separators).
pub fn clean(text: &str, limit: usize) -> String {
    let safe = |letter: char| if is_hostile(letter) { ' ' } else { letter };
    let cleaned: String = text.chars().take(limit).map(safe).collect();
    cleaned.trim().to_owned()
}

/// [`clean`], shared.
pub fn clean_shared(text: &str, limit: usize) -> Arc<str> {
    // Nearly everything is harmless already: one look, one copy.
    let harmless = |byte: u8| (0x21..0x7f).contains(&byte);
    if text.len() <= limit && text.bytes().all(harmless) {
        return text.into();
    }
    clean(text, limit).into()
}

/// Says whether a character can move a cursor, hide text or reorder it.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        assert_eq!(clean("a\x1b[31mb\u{9b}2Jc\u{202e}d\n", 100), "a [31mb 2Jc d");
        assert_eq!(clean("абв", 2), "аб");
        assert_eq!(&*clean_shared("python", 64), "python");
        assert_eq!(&*clean_shared("a\tb", 64), "a b");
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
            assert!(is_hostile(letter), "{letter:?}");
            assert_eq!(clean(&text, 100), "a b", "{letter:?}");
            assert_eq!(&*clean_shared(&text, 100), "a b", "{letter:?}");
        }
    }
}
