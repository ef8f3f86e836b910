//! Reads what PBS prints as JSON, which is not always JSON: its versions leave control characters and quotes in texts as
//! they are, and write some texts without quotes, such as `007`.

use serde_json::{Map, Value};

use gtop_local::text::sanitize;

/// Maximum nesting of values.
const MAX_DEPTH: usize = 32;
/// Maximum length of a key in a message, in characters.
const MAX_KEY_CHARS: usize = 64;
/// Maximum number of keys in a message.
const MAX_KEYS: usize = 4;

/// Reads a text; the error says where it cannot be read.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut reader = JsonReader { rest: text, keys: Vec::new() };
    let value = reader.value().filter(|_| reader.rest.trim().is_empty());
    value.ok_or_else(|| reader.place(text))
}

struct JsonReader<'a> {
    /// What has not been read.
    rest: &'a str,
    /// The keys of the values that are being read.
    keys: Vec<String>,
}

impl JsonReader<'_> {
    fn value(&mut self) -> Option<Value> {
        match self.next_letter()? {
            '{' => self.object(),
            '[' => self.array(),
            '"' => self.text().map(Value::String),
            _ => self.bare_word(),
        }
    }

    fn object(&mut self) -> Option<Value> {
        let mut object = Map::new();
        self.skip('{')?;
        while self.skip('}').is_none() {
            self.next_letter()?;
            let key = self.text()?;
            self.skip(':')?;
            // The keys stay where reading ends early.
            self.keys.push(key);
            (self.keys.len() < MAX_DEPTH).then_some(())?;
            let value = self.value()?;
            object.insert(self.keys.pop()?, value);
            self.end_of_item('}')?;
        }
        Some(Value::Object(object))
    }

    fn array(&mut self) -> Option<Value> {
        let mut array = Vec::new();
        self.skip('[')?;
        while self.skip(']').is_none() {
            self.keys.push(format!("[{}]", array.len()));
            (self.keys.len() < MAX_DEPTH).then_some(())?;
            array.push(self.value()?);
            self.keys.pop();
            self.end_of_item(']')?;
        }
        Some(Value::Array(array))
    }

    /// Takes the comma after an item, which the last one may have too.
    fn end_of_item(&mut self, end: char) -> Option<()> {
        let is_last = self.next_letter()? == end;
        if is_last { Some(()) } else { self.skip(',') }
    }

    /// Reads a text in quotes; one that nothing follows that can follow a text belongs to it.
    fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        self.skip('"')?;
        loop {
            let (before, from) = self.rest.split_at_checked(self.rest.find(['"', '\\'])?)?;
            text.push_str(before);
            self.rest = from;
            if let Some(after) = from.strip_prefix('"') {
                self.rest = after;
                if matches!(after.trim_start().chars().next(), None | Some(',' | ':' | '}' | ']')) {
                    return Some(text);
                }
                text.push('"');
            } else {
                self.escaped(&mut text)?;
            }
        }
    }

    /// Reads what a backslash begins; of letters that it gives no meaning to, both stay.
    fn escaped(&mut self, text: &mut String) -> Option<()> {
        let mut units = Vec::new();
        while let Some((unit, rest)) = code_unit(self.rest) {
            units.push(unit);
            self.rest = rest;
        }
        if !units.is_empty() {
            text.push_str(&String::from_utf16_lossy(&units));
            return Some(());
        }
        let mut letters = self.rest.strip_prefix('\\')?.chars();
        match letters.next()? {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            letter @ ('"' | '\\' | '/') => text.push(letter),
            other => text.extend(['\\', other]),
        }
        self.rest = letters.as_str();
        Some(())
    }

    /// Reads a value without quotes: a text, if it is not written as a whole number is.
    fn bare_word(&mut self) -> Option<Value> {
        let end = self.rest.find([',', '}', ']', '{', '[', '"', ':', '\n'])?;
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        match word.trim_end() {
            "" => None,
            "null" => Some(Value::Null),
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            word => {
                let number = word.parse::<u64>().ok().filter(|number| number.to_string() == word);
                Some(number.map_or_else(|| word.into(), Value::from))
            }
        }
    }

    /// Returns the next letter that is no white space.
    fn next_letter(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn skip(&mut self, letter: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(letter)?;
        Some(())
    }

    /// Returns where reading has ended.
    fn place(&self, text: &str) -> String {
        let read = text.strip_suffix(self.rest).unwrap_or(text);
        let line = read.matches('\n').count().saturating_add(1);
        let column = read.rsplit('\n').next().unwrap_or_default().chars().count().saturating_add(1);
        let keys = self
            .keys
            .iter()
            .take(MAX_KEYS)
            .map(|key| sanitize(key, MAX_KEY_CHARS))
            .collect::<Vec<_>>();
        let of = if keys.is_empty() { String::new() } else { format!(", in {}", keys.join(", ")) };
        format!("line {line}, column {column}{of}")
    }
}

/// Returns the unit of UTF-16 that a text begins with, such as `\u00e9`, and what follows.
fn code_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.strip_prefix("\\u")?.split_at_checked(4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)?, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_json_is_read_as_it() {
        for text in [
            r#"{"a": [1, -2, 0, true, null, {}, []], "b\n\"\\\/A\u00e9\ud83d\ude00": "x, \"y\": z"}"#,
            include_str!(
                "../../../../../tests/fixtures/pbs/openpbs-23.06.06/qstat-t-f-F-json.json"
            ),
            include_str!(
                "../../../../../tests/fixtures/pbs/openpbs-23.06.06/pbsnodes-offline-F-json.json"
            ),
        ] {
            let mut known: Value = serde_json::from_str(text).unwrap();
            if let Some(negative) = known.pointer_mut("/a/1") {
                *negative = "-2".into();
            }
            assert_eq!(read(text), Ok(known));
        }
    }

    #[test]
    fn what_is_not_json_is_read_as_it_is_meant() {
        for (text, meant) in [
            ("007", json!("007")),
            ("1e5", json!("1e5")),
            ("+5", json!("+5")),
            ("NaN", json!("NaN")),
            ("a b", json!("a b")),
            ("\"a\tb\u{1b}\nc\"", json!("a\tb\u{1b}\nc")),
            ("\"a \"b\" c\"", json!("a \"b\" c")),
            (r#""a\eb\u12""#, json!("a\\eb\\u12")),
            (r#""\ud83d""#, json!("\u{fffd}")),
            ("[1,]", json!([1])),
        ] {
            assert_eq!(read(&format!("{{\"x\": {text} ,}}")), Ok(json!({ "x": meant })), "{text}");
        }
    }

    #[test]
    fn the_place_of_what_cannot_be_read_is_named() {
        for (text, place) in [
            ("", "line 1, column 1"),
            ("{", "line 1, column 2"),
            ("{} x", "line 1, column 3"),
            ("{\"Jobs\": {\n \"1.s\": {\"a\": é, \"b\": }}}", "line 2, column 23, in Jobs, 1.s, b"),
            ("{\"a\": [1, }", "line 1, column 11, in a, [1]"),
            ("{\"a\": \"b", "line 1, column 8, in a"),
            ("{\"a\" \"b\"}", "line 1, column 9"),
        ] {
            assert_eq!(read(text), Err(place.to_owned()), "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(read(&deep).unwrap_err().starts_with("line 1, column 33, in [0]"));
    }
}
