//! The variables of a run: control files, what a person types for a value, and what the job has taken over.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{RunVariable, VariableKind};
use gtop_local::text::sanitize;

/// Maximum number of variables.
const MAX_VARIABLES: usize = 500;
/// Maximum number of characters of a value on the screen.
const MAX_SHOWN: usize = 200;

/// Whether a job has taken over a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The job tells nothing of this variable.
    NotTold,
    /// The job has another value.
    Pending,
    /// The job has this value.
    Done,
}

/// Parses a control file: one object, whose variables stay in order.
pub fn parse_variables(text: &str) -> Result<Vec<RunVariable>, String> {
    if text.trim().is_empty() {
        return Err("empty".to_owned());
    }
    let parsed: Result<Variables, _> = serde_json::from_str(text);
    parsed.map(|variables| variables.0).map_err(|error| {
        if error.is_eof() {
            "incomplete JSON".to_owned()
        } else {
            sanitize(&format!("invalid JSON: {error}"), 120)
        }
    })
}

/// Returns the variable of a name and a value.
pub(super) fn variable_of_value(name: &str, value: &Value) -> RunVariable {
    RunVariable {
        name: sanitize(name, 100).into(),
        kind: kind_of(&value.to_string()),
        json: value.to_string().into(),
    }
}

/// The variables of an object, in its order.
struct Variables(Vec<RunVariable>);

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Variables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of variables")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Variables, A::Error> {
                let mut list: Vec<RunVariable> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if list.iter().any(|known| *known.name == *name) {
                        return Err(serde::de::Error::custom(format!("{name} stands twice")));
                    }
                    if list.len() >= MAX_VARIABLES {
                        return Err(serde::de::Error::custom("more than 500 variables"));
                    }
                    let json = value.get();
                    list.push(RunVariable {
                        name: name.into(),
                        kind: kind_of(json),
                        json: json.into(),
                    });
                }
                Ok(Variables(list))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Returns the type of a JSON text by how it is spelt.
fn kind_of(json: &str) -> VariableKind {
    match json.trim_start().bytes().next() {
        Some(b'"') => VariableKind::Text,
        Some(b'[') => VariableKind::List,
        Some(b'{') => VariableKind::Object,
        Some(b't' | b'f') => VariableKind::Bool,
        Some(b'0'..=b'9' | b'-') if json.contains(['.', 'e', 'E']) => VariableKind::Float,
        Some(b'0'..=b'9' | b'-') => VariableKind::Integer,
        _ => VariableKind::Null,
    }
}

/// Returns a value as it is shown: text without quotes.
pub fn display(variable: &RunVariable) -> String {
    sanitize(&edit_text(variable), MAX_SHOWN)
}

/// Returns the text with which editing begins.
pub fn edit_text(variable: &RunVariable) -> String {
    let text = serde_json::from_str::<String>(&variable.json).ok();
    text.unwrap_or_else(|| on_one_line(&variable.json))
}

/// Returns JSON without line breaks and with one blank at most between two values.
fn on_one_line(json: &str) -> String {
    let (mut text, mut is_string, mut is_escaped) = (String::new(), false, false);
    for letter in json.trim().chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_string => is_escaped = true,
            '"' => is_string = !is_string,
            letter if !is_string && letter.is_ascii_whitespace() => {
                if text.ends_with([',', ':']) {
                    text.push(' ');
                }
                continue;
            }
            _ => {}
        }
        text.push(letter);
    }
    text
}

/// Turns what a person types into JSON of a type, or says why that is impossible.
pub fn parse_value(kind: VariableKind, typed: &str) -> Result<String, String> {
    let word = typed.trim();
    let shown = sanitize(&format!("{word:?}"), 60);
    match kind {
        VariableKind::Text => Ok(Value::from(typed).to_string()),
        VariableKind::Bool => match word.to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok("true".to_owned()),
            "false" | "0" | "no" | "off" => Ok("false".to_owned()),
            _ => Err(format!("{shown} is neither true nor false")),
        },
        VariableKind::Integer => {
            let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number || digits.len() > 400 {
                return Err(format!("{shown} is not an integer"));
            }
            let sign = if word.starts_with('-') { "-" } else { "" };
            let digits = digits.trim_start_matches('0');
            Ok(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") })
        }
        VariableKind::Float => {
            let is_spelt =
                word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            let value: Option<f64> = word.parse().ok().filter(|_| is_spelt);
            let Some(value) = value.filter(|value| value.is_finite()) else {
                return Err(format!("{shown} is not a number"));
            };
            Ok(Value::from(value).to_string())
        }
        VariableKind::List | VariableKind::Object => {
            let value: Result<Value, _> = serde_json::from_str(word);
            match value {
                Ok(value) if kind_of(word) == kind => Ok(value.to_string()),
                _ => Err(format!("{shown} is no JSON {}", kind.as_str())),
            }
        }
        VariableKind::Null => {
            let value: Result<Value, _> = serde_json::from_str(word);
            Ok(value.unwrap_or_else(|_no_json| Value::from(typed)).to_string())
        }
    }
}

/// Returns whether the job has taken over a variable.
pub fn acknowledgement(
    variable: &RunVariable,
    acknowledged: Option<&[RunVariable]>,
) -> Acknowledgement {
    let name: Arc<str> = sanitize(&variable.name, 100).into();
    let told = acknowledged.and_then(|all| all.iter().find(|known| known.name == name));
    let Some(told) = told else { return Acknowledgement::NotTold };
    if told.json == variable.json && told.kind == variable.kind {
        return Acknowledgement::Done;
    }
    let [theirs, ours] =
        [told, variable].map(|variable| serde_json::from_str::<Value>(&variable.json).ok());
    let is_same = told.kind == variable.kind && theirs == ours;
    if is_same { Acknowledgement::Done } else { Acknowledgement::Pending }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VariableKind as Kind;

    #[test]
    fn variables_keep_their_order_types_and_digits() {
        let text = "{\"z\": 32, \"lr\": 1e-3, \"amp\": true, \"opt\": \"a\\\"b\",\n \"n\": null, \"l\": [1, 2], \"o\": {\"a\": 1},\n \"big\": 123456789012345678901234567890, \"f\": 1.0}";
        let list = parse_variables(text).unwrap();
        let told: Vec<_> = list.iter().map(|one| (&*one.name, one.kind, &*one.json)).collect();
        assert_eq!(
            told,
            [
                ("z", Kind::Integer, "32"),
                ("lr", Kind::Float, "1e-3"),
                ("amp", Kind::Bool, "true"),
                ("opt", Kind::Text, "\"a\\\"b\""),
                ("n", Kind::Null, "null"),
                ("l", Kind::List, "[1, 2]"),
                ("o", Kind::Object, "{\"a\": 1}"),
                ("big", Kind::Integer, "123456789012345678901234567890"),
                ("f", Kind::Float, "1.0"),
            ]
        );
        assert_eq!(
            (display(&list[3]), edit_text(&list[3])),
            ("a\"b".to_owned(), "a\"b".to_owned())
        );
    }

    #[test]
    fn lists_are_shown_on_one_line() {
        let json = "{\"l\": [\n    1,\n    {\"a b\":  \"c\\\"  d\"}\n]}";
        assert_eq!(display(&parse_variables(json).unwrap()[0]), "[1, {\"a b\": \"c\\\"  d\"}]");
    }

    #[test]
    fn broken_control_files_are_errors() {
        for (text, error) in [
            ("", "empty"),
            ("{\"a\": 1", "incomplete JSON"),
            (
                "[1]",
                "invalid JSON: invalid type: sequence, expected an object of variables at line 1 column 1",
            ),
            ("{\"a\": 1, \"a\": 2}", "invalid JSON: a stands twice at line 1 column 16"),
        ] {
            let told = parse_variables(text).unwrap_err();
            assert!(told.starts_with(error.split(" at ").next().unwrap()), "{text}: {told}");
        }
    }

    #[test]
    fn what_is_typed_keeps_the_type() {
        for (kind, typed, json) in [
            (Kind::Integer, " 12 ", Ok("12")),
            (Kind::Integer, "-007", Ok("-7")),
            (Kind::Integer, "-0", Ok("0")),
            (Kind::Integer, "1.5", Err("\"1.5\" is not an integer")),
            (Kind::Integer, "", Err("\"\" is not an integer")),
            (Kind::Integer, "1_000", Err("\"1_000\" is not an integer")),
            (Kind::Float, "3", Ok("3.0")),
            (Kind::Float, "1e-4", Ok("0.0001")),
            (Kind::Float, "nan", Err("\"nan\" is not a number")),
            (Kind::Float, "inf", Err("\"inf\" is not a number")),
            (Kind::Float, "1e999", Err("\"1e999\" is not a number")),
            (Kind::Bool, "Yes", Ok("true")),
            (Kind::Bool, "0", Ok("false")),
            (Kind::Bool, "maybe", Err("\"maybe\" is neither true nor false")),
            (Kind::Text, "a\"b\\", Ok("\"a\\\"b\\\\\"")),
            (Kind::List, "[1,2]", Ok("[1,2]")),
            (Kind::List, "{}", Err("\"{}\" is no JSON list")),
            (Kind::Object, "{", Err("\"{\" is no JSON object")),
            (Kind::Null, "5", Ok("5")),
            (Kind::Null, "adam", Ok("\"adam\"")),
        ] {
            let found = parse_value(kind, typed);
            assert_eq!(found.as_deref().map_err(String::as_str), json, "{kind:?} {typed:?}");
        }
    }

    #[test]
    fn a_change_is_taken_over_when_the_job_tells_the_same_value() {
        let list = parse_variables(r#"{"lr": 1e-2, "n": 1}"#).unwrap();
        let told = |text| parse_variables(text).unwrap();
        for (job, expected) in [
            (None, Acknowledgement::NotTold),
            (Some(told("{\"n\": 1}")), Acknowledgement::NotTold),
            (Some(told("{\"lr\": 0.1}")), Acknowledgement::Pending),
            (Some(told("{\"lr\": 0.01}")), Acknowledgement::Done),
        ] {
            assert_eq!(acknowledgement(&list[0], job.as_deref()), expected);
        }
        let float = told("{\"n\": 1.0}");
        assert_eq!(acknowledgement(&list[1], Some(&float)), Acknowledgement::Pending);
    }
}
