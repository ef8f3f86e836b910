//! Matches names against patterns with `*` and `?`.

/// Returns true if a text matches: `*` matches any bytes or none, `?` exactly one.
pub fn matches_pattern(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.as_bytes(), pattern.as_bytes());
    // Where to retry with one byte more for the last star.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', after)), _) => {
                retry = Some((text, after));
                pattern = after;
                continue;
            }
            (Some((wanted, after)), Some((byte, rest))) if *wanted == b'?' || wanted == byte => {
                (text, pattern) = (rest, after);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((from, after)) = retry else { return false };
        let Some((_, rest)) = from.split_first() else { return false };
        retry = Some((rest, after));
        (text, pattern) = (rest, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_bytes() {
        for (text, pattern, matches) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("", "?*", false),
            ("a", "", false),
            ("a", "?", true),
            ("a", "**?", true),
            ("ab", "?", false),
            ("gpu", "gpu*", true),
            ("gpu01", "gpu0?", true),
            ("gpu01", "gpu?", false),
            ("gpu01", "*0*", true),
            ("gpu01", "*2*", false),
            ("aaab", "*ab", true),
            ("aaac", "*ab", false),
            ("abcabd", "*abd", true),
            ("n01.site", "n*.site", true),
            ("n01.site", "n??.s*e", true),
            ("n01.site", "*.site.*", false),
        ] {
            assert_eq!(matches_pattern(text, pattern), matches, "{text} {pattern}");
        }
        // A pattern that would take for ever by trying everything.
        assert!(!matches_pattern(&"a".repeat(4000), &"a*".repeat(200).replace("a*a", "a*b")));
    }
}
