//! Matches names against patterns with `*` and `?`.

/// Returns true if a text matches: `*` matches any bytes or none, `?` exactly one.
pub fn matches_pattern(text: &str, pattern: &str) -> bool {
    matches_wildcards(text.as_bytes(), pattern.as_bytes(), b'*', |byte, pattern| {
        let (wanted, after) = pattern.split_first()?;
        (*wanted == b'?' || *wanted == byte).then_some(after)
    })
}

/// Returns true if a text matches a pattern in which `star` stands for any letters or none.
///
/// `match_one` matches one letter and returns the rest of the pattern.
pub fn matches_wildcards<'a, T: Copy + PartialEq>(
    mut text: &'a [T],
    mut pattern: &'a [T],
    star: T,
    match_one: impl Fn(T, &'a [T]) -> Option<&'a [T]>,
) -> bool {
    // Where to retry with one letter more for the last star.
    let mut retry: Option<(&[T], &[T])> = None;
    loop {
        if let Some((first, after)) = pattern.split_first()
            && *first == star
        {
            retry = Some((text, after));
            pattern = after;
            continue;
        }
        if text.is_empty() && pattern.is_empty() {
            return true;
        }
        if let Some((letter, rest)) = text.split_first()
            && let Some(after) = match_one(*letter, pattern)
        {
            (text, pattern) = (rest, after);
            continue;
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
        assert!(!matches_pattern(&"ab".repeat(2000), "*a*b*c*"));
        // A pattern that would take for ever by trying everything.
        assert!(!matches_pattern(&"a".repeat(4000), &"a*".repeat(200).replace("a*a", "a*b")));
    }
}
