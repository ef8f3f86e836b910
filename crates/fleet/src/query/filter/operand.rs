//! The operand of a comparison: a number in the unit of the field, or text.

use crate::metrics::Value;
use crate::query::filter::Comparison;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// A number in the unit of the field, and its lower-case text, which is compared with text.
    Number(f64, String),
    /// Lower-case text; `*` matches any characters.
    Text(String),
    /// Matches unknown values.
    Unknown,
}

/// The unit of differences of temperatures.
pub(super) const KELVIN: &str = "K";
/// Degrees Celsius in one degree Fahrenheit.
const FAHRENHEIT: f64 = 5.0 / 9.0;

/// Suffix, the unit it applies to, and its factor to that unit.
const SUFFIXES: [(&str, &str, f64); 36] = [
    ("%", "%", 1.0),
    ("k", "B", 1024.0),
    ("kb", "B", 1000.0),
    ("kib", "B", 1024.0),
    ("m", "B", 1_048_576.0),
    ("mb", "B", 1e6),
    ("mib", "B", 1_048_576.0),
    ("g", "B", 1_073_741_824.0),
    ("gb", "B", 1e9),
    ("gib", "B", 1_073_741_824.0),
    ("t", "B", 1_099_511_627_776.0),
    ("tb", "B", 1e12),
    ("tib", "B", 1_099_511_627_776.0),
    ("b", "B", 1.0),
    ("c", "°C", 1.0),
    ("°c", "°C", 1.0),
    ("°", "°C", 1.0),
    ("c", KELVIN, 1.0),
    ("°c", KELVIN, 1.0),
    ("°", KELVIN, 1.0),
    ("k", KELVIN, 1.0),
    ("f", KELVIN, FAHRENHEIT),
    ("°f", KELVIN, FAHRENHEIT),
    ("w", "W", 1.0),
    ("kw", "W", 1e3),
    ("mhz", "MHz", 1.0),
    ("ghz", "MHz", 1e3),
    ("j", "J", 1.0),
    ("kj", "J", 1e3),
    ("mj", "J", 1e6),
    ("s", "s", 1.0),
    ("min", "s", 60.0),
    ("m", "s", 60.0),
    ("h", "s", 3600.0),
    ("d", "s", 86_400.0),
    ("", "", 1.0),
];

impl Operand {
    /// Parses an operand for a field with this unit; the error says what is valid.
    pub(super) fn new(text: &str, unit: &str, comparison: Comparison) -> Result<Self, String> {
        let lower = text.to_lowercase();
        if lower == "unknown" || lower == "-" {
            return Ok(Self::Unknown);
        }
        let number = number(&lower, unit);
        match number {
            Some(number) => Ok(Self::Number(number, lower)),
            None if unit.is_empty() && !comparison.is_order() => Ok(Self::Text(lower)),
            None if unit.is_empty() => Err(format!("{text} is not a number")),
            None => Err(format!("{text} is not a value in {unit}; write {}", example(unit))),
        }
    }

    /// Returns true if the value of a field matches.
    pub(super) fn matches(&self, comparison: Comparison, value: &Value) -> bool {
        let is_unknown = matches!(value, Value::Unknown(_));
        match (self, value) {
            (Self::Unknown, _) => !comparison.is_order() && is_unknown != comparison.is_negative(),
            (_, Value::Unknown(_)) => false,
            (Self::Number(operand, _), Value::Number(number)) => number_matches(
                comparison,
                f64::from(*number),
                *operand,
                RELATIVE_TOLERANCE * operand.abs().max(1.0),
            ),
            (Self::Number(operand, _), Value::Integer(number)) => {
                #[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 8 PiB")]
                let number = *number as f64;
                number_matches(comparison, number, *operand, COUNT_TOLERANCE)
            }
            // The names 7 and 007 differ, and 01 is in gpu01; only order makes them numbers.
            (Self::Number(operand, _), Value::Text(text)) if comparison.is_order() => {
                text.parse().is_ok_and(|number| number_matches(comparison, number, *operand, 0.0))
            }
            (Self::Number(_, operand), Value::Flag(flag)) => {
                text_matches(comparison, operand, if *flag { "1" } else { "0" })
            }
            (Self::Text(operand), Value::Flag(flag)) => {
                let words = if *flag { ["yes", "on", "true"] } else { ["no", "off", "false"] };
                let is_match = words.contains(&operand.as_str());
                is_match == matches!(comparison, Comparison::Equal | Comparison::Contains)
            }
            (Self::Text(operand) | Self::Number(_, operand), Value::Text(text)) => {
                text_matches(comparison, operand, text)
            }
            (Self::Text(operand), Value::Number(number)) => {
                text_matches(comparison, operand, &number.to_string())
            }
            (Self::Text(operand), Value::Integer(number)) => {
                text_matches(comparison, operand, &number.to_string())
            }
        }
    }
}

pub(super) fn example(unit: &str) -> &'static str {
    match unit {
        "%" => "50%",
        "B" | "B/s" => "40GiB",
        "°C" => "80C or 176F",
        KELVIN => "10C or 18F",
        "W" => "300W",
        "MHz" => "1400MHz",
        "s" => "10m",
        _ => "10",
    }
}

/// Parses a number with an optional suffix of the unit.
fn number(lower: &str, unit: &str) -> Option<f64> {
    let end = lower.find(|letter| !matches!(letter, '0'..='9' | '.' | '-')).unwrap_or(lower.len());
    let (digits, suffix) = lower.split_at_checked(end)?;
    let number = digits.parse::<f64>().ok().filter(|number| number.is_finite())?;
    let amount = unit.trim_end_matches("/s");
    let suffix = suffix.trim_end_matches("/s");
    if amount == "°C" && matches!(suffix, "f" | "°f") {
        return Some((number - 32.0) * FAHRENHEIT);
    }
    let mut suffixes = SUFFIXES.iter().filter(|(known, ..)| *known == suffix);
    let found = suffixes.find(|(_, of, _)| *of == amount || suffix.is_empty());
    found.map(|(_, _, factor)| number * factor)
}

/// Measured values count as equal within this relative difference; it is smaller than any display shows.
const RELATIVE_TOLERANCE: f64 = 1e-6;
/// The tolerance for counts that were typed with a suffix.
const COUNT_TOLERANCE: f64 = 0.49;

fn number_matches(comparison: Comparison, value: f64, operand: f64, tolerance: f64) -> bool {
    let is_equal = (value - operand).abs() <= tolerance;
    match comparison {
        Comparison::Equal | Comparison::Contains => is_equal,
        Comparison::Unequal | Comparison::NotContains => !is_equal,
        Comparison::Less => value < operand && !is_equal,
        Comparison::AtMost => value < operand || is_equal,
        Comparison::More => value > operand && !is_equal,
        Comparison::AtLeast => value > operand || is_equal,
    }
}

/// Matches text: the whole text or a pattern for `=`, any part of it for `~`.
fn text_matches(comparison: Comparison, operand: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    let is_match = match comparison {
        Comparison::Equal | Comparison::Unequal => glob_matches(operand, &text),
        Comparison::Contains | Comparison::NotContains => text.contains(operand),
        Comparison::Less | Comparison::AtMost | Comparison::More | Comparison::AtLeast => {
            return false;
        }
    };
    is_match != comparison.is_negative()
}

/// Returns true if a text matches a pattern, in which `*` matches any characters.
pub(super) fn glob_matches(pattern: &str, text: &str) -> bool {
    let Some((front, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(front) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(end) = parts.pop() else { return true };
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = text.get(at + part.len()..).unwrap_or_default();
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Reason;

    #[test]
    fn numbers_are_read_in_the_unit_of_the_field() {
        for (text, unit, expected) in [
            ("50%", "%", Some(50.0)),
            ("50", "%", Some(50.0)),
            ("40gib", "B", Some(40.0 * 1_073_741_824.0)),
            ("1gb", "B/s", Some(1e9)),
            ("80c", "°C", Some(80.0)),
            ("-3", "°C", Some(-3.0)),
            ("212f", "°C", Some(100.0)),
            ("18f", KELVIN, Some(10.0)),
            ("10c", KELVIN, Some(10.0)),
            ("212f", "W", None),
            ("1.4ghz", "MHz", Some(1400.0)),
            ("10m", "s", Some(600.0)),
            ("2m", "B", Some(2_097_152.0)),
            ("7", "", Some(7.0)),
            ("50%", "W", None),
            ("7x", "", None),
            ("", "%", None),
            ("1e5", "W", None),
            ("--1", "W", None),
        ] {
            assert_eq!(number(text, unit), expected, "{text} {unit}");
        }
    }

    #[test]
    fn a_pattern_must_match_the_whole_text() {
        for (pattern, text, is_match) in [
            ("alice", "alice", true),
            ("al*", "alice", true),
            ("*ice", "alice", true),
            ("a*c*", "alice", true),
            ("*", "", true),
            ("a*b*c", "abc", true),
            ("ali", "alice", false),
            ("a*x*e", "alice", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(glob_matches(pattern, text), is_match, "{pattern} {text}");
        }
    }

    #[test]
    fn an_unknown_value_matches_no_comparison() {
        let unknown = Value::Unknown(Reason::NotSampled);
        for (_, comparison) in Comparison::SYMBOLS {
            assert!(!Operand::Number(1.0, "1".to_owned()).matches(comparison, &unknown));
        }
        assert!(Operand::Unknown.matches(Comparison::Equal, &unknown));
        assert!(Operand::Unknown.matches(Comparison::Unequal, &Value::Integer(3)));
    }

    #[test]
    fn a_flag_matches_each_of_its_words_and_no_other() {
        for (flag, word, is_match) in [
            (true, "yes", true),
            (true, "on", true),
            (true, "true", true),
            (true, "no", false),
            (false, "no", true),
            (false, "off", true),
            (false, "false", true),
            (false, "on", false),
            (false, "maybe", false),
        ] {
            let operand = Operand::new(word, "", Comparison::Equal).unwrap();
            for (comparison, expected) in [
                (Comparison::Equal, is_match),
                (Comparison::Contains, is_match),
                (Comparison::Unequal, !is_match),
                (Comparison::NotContains, !is_match),
            ] {
                let matches = operand.matches(comparison, &Value::Flag(flag));
                assert_eq!(matches, expected, "{flag} {comparison:?} {word}");
            }
        }
        let one = Operand::new("1", "", Comparison::Equal).unwrap();
        assert!(one.matches(Comparison::Equal, &Value::Flag(true)));
        assert!(!one.matches(Comparison::Equal, &Value::Flag(false)));
    }

    #[test]
    fn each_operator_compares_in_its_direction() {
        let operand = Operand::new("50", "", Comparison::More).unwrap();
        for (comparison, below, equal, above) in [
            (Comparison::Less, true, false, false),
            (Comparison::AtMost, true, true, false),
            (Comparison::Equal, false, true, false),
            (Comparison::Unequal, true, false, true),
            (Comparison::AtLeast, false, true, true),
            (Comparison::More, false, false, true),
        ] {
            for (value, expected) in [(49, below), (50, equal), (51, above)] {
                let whole = Value::Integer(value);
                let text = Value::Text(value.to_string().into());
                let number = Value::Number(f32::from(u8::try_from(value).unwrap()));
                for value in [whole, text, number] {
                    assert_eq!(
                        operand.matches(comparison, &value),
                        expected,
                        "{value:?} {comparison:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn counts_and_numeric_text_are_compared_exactly() {
        let pid = Operand::new("4000001", "", Comparison::Equal).unwrap();
        assert!(pid.matches(Comparison::Equal, &Value::Integer(4_000_001)));
        assert!(!pid.matches(Comparison::Equal, &Value::Integer(4_000_002)));
        assert!(!pid.matches(Comparison::Equal, &Value::Text("4000002".into())));
        let share = Operand::new("33.3", "%", Comparison::Equal).unwrap();
        assert!(share.matches(Comparison::Equal, &Value::Number(33.3)));
        let memory = Operand::new("1.1g", "B", Comparison::Equal).unwrap();
        assert!(memory.matches(Comparison::Equal, &Value::Integer(1_181_116_006)));
    }

    #[test]
    fn text_is_compared_with_the_digits_as_typed() {
        for (comparison, typed, text, is_match) in [
            (Comparison::Contains, "01", "gpu01", true),
            (Comparison::Contains, "01", "gpu1", false),
            (Comparison::NotContains, "01", "gpu1", true),
            (Comparison::Equal, "007", "007", true),
            (Comparison::Equal, "007", "7", false),
            (Comparison::Unequal, "0012", "12", true),
            (Comparison::Equal, "1e3", "1000", false),
            (Comparison::Equal, "12.0", "12", false),
            (Comparison::More, "08", "11", true),
        ] {
            let operand = Operand::new(typed, "", comparison).unwrap();
            let found = operand.matches(comparison, &Value::Text(text.into()));
            assert_eq!(found, is_match, "{typed} {comparison:?} {text}");
        }
    }

    #[test]
    fn only_numbers_are_compared_by_order() {
        assert!(Operand::new("warm", "%", Comparison::Less).is_err());
        assert!(Operand::new("bob", "", Comparison::More).is_err());
        assert_eq!(Operand::new("Bob", "", Comparison::Equal), Ok(Operand::Text("bob".to_owned())));
    }
}
