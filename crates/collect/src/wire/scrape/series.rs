//! One line of Prometheus' text format: a series with its labels, and its value.

use std::borrow::Cow;

/// Labels that are read of a series.
const MAX_LABELS: usize = 32;

/// A series and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageSeries<'a> {
    pub(super) family: &'a str,
    labels: Vec<(&'a str, Cow<'a, str>)>,
    pub(super) value: f64,
}

impl PageSeries<'_> {
    /// Returns the value of a label; `None` if it is missing or empty, which is the same.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(known, _)| *known == name)?;
        Some(&*found.1).filter(|value| !value.is_empty())
    }
}

/// Returns the name of the family of a line; empty for a comment.
pub(super) fn family(line: &str) -> &str {
    let line = line.trim_start();
    let name = line.split(['{', ' ', '\t']).next().unwrap_or_default();
    if name.starts_with('#') { "" } else { name }
}

/// Parses a line; `None` if it is none of this format. What follows the value, such as a time, is skipped.
pub(super) fn parse(line: &str) -> Option<PageSeries<'_>> {
    let family = family(line);
    let rest = line.trim_start().strip_prefix(family).filter(|_| !family.is_empty())?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(PageSeries { family, labels, value })
}

type SeriesLabels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Parses labels up to the closing brace, and returns what follows it.
fn parse_labels(mut rest: &str) -> Option<(SeriesLabels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = parse_quoted(after.trim_start().strip_prefix('"')?)?;
        if labels.len() < MAX_LABELS {
            labels.push((name.trim_end(), value));
        }
        rest = after;
    }
}

/// Parses a text up to its closing quotation mark, and returns what follows it.
fn parse_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let (plain, _) = text.split_once('"')?;
    if !plain.contains('\\') {
        return Some((plain.into(), text.strip_prefix(plain)?.strip_prefix('"')?));
    }
    let mut value = String::new();
    let mut letters = text.chars();
    loop {
        match letters.next()? {
            '"' => return Some((value.into(), letters.as_str())),
            '\\' => match letters.next()? {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_family_labels_and_a_value() {
        let line = r#"disk_bytes{path="C:\\a \"b\"\n,}=", device = "sda",} 1.5e+06 1700000000000"#;
        let series = parse(line).unwrap();
        assert_eq!((series.family, series.value), ("disk_bytes", 1.5e6));
        assert_eq!(series.label("path"), Some("C:\\a \"b\"\n,}="));
        assert_eq!(series.label("device"), Some("sda"));
        assert_eq!(series.label("none"), None);
        assert_eq!(parse("\tload 0.25").map(|series| series.value), Some(0.25));
        assert_eq!(parse("up{} +Inf").map(|series| series.value), Some(f64::INFINITY));
        assert!(parse("x NaN").unwrap().value.is_nan());
    }

    #[test]
    fn a_line_of_another_format_is_none() {
        for line in [
            "",
            "#",
            "# HELP load x",
            "load",
            "load ",
            "load x",
            "load{",
            "load{a",
            "load{a=",
            r#"load{a="b" 1"#,
            r#"load{a="b\"} 1"#,
            r#"load{a="\"#,
            r#"load{a="b"}"#,
            r#"{"load"} 1"#,
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    /// Parses all that is left of a line if any part of it is missing, doubled or replaced.
    #[test]
    fn no_damaged_line_ends_the_parser() {
        let line = r#"gpu_power_usage_W{devicename="A \\ \"é\"",index="0",uuid="GPU-1"} 383.25 7"#;
        let letters: Vec<char> = line.chars().collect();
        for at in 0..letters.len() {
            for replacement in ["", "\"", "\\", "{", "}", "=", ",", "\u{0}", "\u{1f600}", "\n", " "]
            {
                for length in 0..3 {
                    let (before, rest) = letters.split_at(at);
                    let after = rest.iter().skip(length);
                    let text: String = before.iter().collect::<String>() + replacement;
                    let text: String = text.chars().chain(after.copied()).collect();
                    drop(parse(&text));
                    drop(parse(&letters.iter().take(at).collect::<String>()));
                }
            }
        }
        let many = format!("x{{{}}} 1", "a=\"b\",".repeat(100_000));
        assert_eq!(parse(&many).unwrap().labels.len(), MAX_LABELS);
    }
}
