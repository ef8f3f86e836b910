//! Splits lines into words and matches patterns, as OpenSSH does.

use std::borrow::Cow;

use gtop_local::text::matches_pattern;

/// Word separators.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Takes the next word of a line (`strdelim` of OpenSSH).
///
/// One `=` may replace the blanks, and double quotes group a word. `None` at the end of the line, or at an
/// unclosed quote.
pub(crate) fn next_word<'a>(rest: &mut Option<&'a str>) -> Option<Cow<'a, str>> {
    let text = (*rest)?;
    *rest = None;
    let Some(index) = text.find(|c| BLANKS.contains(&c) || c == '"' || c == '=') else {
        return Some(text.into());
    };
    let (word, after) = text.split_at(index);
    let mut chars = after.chars();
    let first = chars.next();
    if first == Some('"') {
        let (quoted, after) = chars.as_str().split_once('"')?;
        *rest = Some(after.trim_start_matches(BLANKS));
        return Some(match word {
            "" => quoted.into(),
            word => format!("{word}{quoted}").into(),
        });
    }
    let mut after = chars.as_str().trim_start_matches(BLANKS);
    if first != Some('=')
        && let Some(value) = after.strip_prefix('=')
    {
        after = value.trim_start_matches(BLANKS);
    }
    *rest = Some(after);
    Some(word.into())
}

/// Splits the arguments of a keyword (`argv_split` of OpenSSH); `None` for an unclosed quote.
///
/// Both kinds of quote group a word, a backslash escapes a quote, a backslash or a space, and `#` at the start of
/// a word begins a comment.
pub(crate) fn split_arguments(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        if matches!(chars.peek(), None | Some('#')) {
            return Some(words);
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(c) = chars.next_if(|c| quote.is_some() || !matches!(c, ' ' | '\t')) {
            match c {
                '\\' => {
                    let escaped = chars.next_if(|next| {
                        matches!(next, '\'' | '"' | '\\') || (quote.is_none() && *next == ' ')
                    });
                    word.push(escaped.unwrap_or('\\'));
                }
                '"' | '\'' if quote.is_none() => quote = Some(c),
                c if quote == Some(c) => quote = None,
                c => word.push(c),
            }
        }
        if quote.is_some() {
            return None;
        }
        words.push(word);
    }
}

/// The result of matching a pattern list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMatch {
    Yes,
    /// A negated pattern matches.
    Negated,
    No,
}

/// Matches a comma-separated pattern list; `!` negates a pattern.
pub(crate) fn match_list(text: &str, patterns: &str) -> ListMatch {
    /// A longer pattern makes its whole list match nothing.
    const MAX_PATTERN_LENGTH: usize = 1022;
    let mut result = ListMatch::No;
    if patterns.is_empty() {
        return result;
    }
    let mut parts = patterns.split(',').peekable();
    while let Some(part) = parts.next() {
        // A trailing comma is allowed.
        if part.is_empty() && parts.peek().is_none() {
            break;
        }
        let (pattern, is_negated) =
            part.strip_prefix('!').map_or((part, false), |pattern| (pattern, true));
        if pattern.len() > MAX_PATTERN_LENGTH {
            return ListMatch::No;
        }
        if matches_pattern(text, pattern) {
            if is_negated {
                return ListMatch::Negated;
            }
            result = ListMatch::Yes;
        }
    }
    result
}

/// Returns true if a pattern of the list matches and no negated one does.
pub(crate) fn is_listed(text: &str, patterns: &str) -> bool {
    match_list(text, patterns) == ListMatch::Yes
}

/// The same, ignoring case.
pub(crate) fn is_listed_ignoring_case(text: &str, patterns: &str) -> bool {
    is_listed(&text.to_ascii_lowercase(), &patterns.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_ends_at_blanks_at_a_quote_or_at_one_equals_sign() {
        let cases: [(&str, &str, Option<&str>); 9] = [
            ("Port 22", "Port", Some("22")),
            ("Port=22", "Port", Some("22")),
            ("Port = 22", "Port", Some("22")),
            ("Port\t=\t22", "Port", Some("22")),
            ("Port==22", "Port", Some("=22")),
            ("\"Port\" 22", "Port", Some("22")),
            ("po\"rt\" 22", "port", Some("22")),
            ("Port", "Port", None),
            ("Port  ", "Port", Some("")),
        ];
        for (line, word, after) in cases {
            let mut rest = Some(line);
            assert_eq!(next_word(&mut rest).as_deref(), Some(word), "{line}");
            assert_eq!(rest, after, "{line}");
        }
        let mut rest = Some("\"never closed");
        assert_eq!(next_word(&mut rest), None);
    }

    #[test]
    fn arguments_are_split_at_quotes_escapes_and_comments() {
        let cases: [(&str, &[&str]); 10] = [
            ("a b\tc", &["a", "b", "c"]),
            ("\"a b\" 'c d'", &["a b", "c d"]),
            (r#"a\ b "c\ d" \\ \" \' \x"#, &["a b", r"c\ d", r"\", "\"", "'", r"\x"]),
            ("a\"b c\"d", &["ab cd"]),
            ("a # b", &["a"]),
            ("a#b", &["a#b"]),
            ("\"\" a", &["", "a"]),
            ("'#a' \"#\"", &["#a", "#"]),
            ("  ", &[]),
            ("a\\", &["a\\"]),
        ];
        for (text, want) in cases {
            assert_eq!(split_arguments(text).as_deref(), Some(&want.map_words()[..]), "{text}");
        }
        assert_eq!(split_arguments("'a"), None);
        assert_eq!(split_arguments("\"a'"), None);
    }

    trait Words {
        fn map_words(&self) -> Vec<String>;
    }

    impl Words for &[&str] {
        fn map_words(&self) -> Vec<String> {
            self.iter().map(|word| (*word).to_owned()).collect()
        }
    }

    #[test]
    fn a_matching_negated_pattern_rejects_the_list() {
        for (patterns, want) in [
            ("n1", ListMatch::Yes),
            ("n2,n*", ListMatch::Yes),
            ("n*,!n1", ListMatch::Negated),
            ("!n2", ListMatch::No),
            ("!n2,*", ListMatch::Yes),
            ("", ListMatch::No),
            ("n1,", ListMatch::Yes),
        ] {
            assert_eq!(match_list("n1", patterns), want, "{patterns}");
        }
        assert!(is_listed_ignoring_case("N1", "n1"));
        assert_eq!(match_list("n1", &format!("{},n1", "x".repeat(2000))), ListMatch::No);
    }
}
