//! The types of settings: how values are parsed and printed.

use std::fmt::{self, Write as _};
use std::time::Duration;

use toml::de::DeValue;

use crate::metrics::current_aliases;
use crate::model::{is_unprintable, sanitize};
use crate::query::nearest;
use crate::ui::ColumnSpec;

/// Validates a text; returns what is wrong with it.
pub type Check = fn(&str) -> Result<(), &'static str>;

/// Maximum length of a text value.
const MAX_TEXT_BYTES: usize = 4096;
/// Maximum number of entries of a list.
const MAX_ENTRIES: usize = 1024;

/// A possible value of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceValue {
    pub name: &'static str,
    pub help: &'static str,
    pub alias: &'static str,
    /// Its name in earlier versions, still accepted; empty for none.
    pub former: &'static str,
}

pub(super) const fn choice(name: &'static str, help: &'static str) -> ChoiceValue {
    ChoiceValue { name, help, alias: "", former: "" }
}

impl ChoiceValue {
    pub(super) const fn with_alias(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    /// Sets the name in earlier versions, which is still accepted.
    pub(super) const fn formerly(self, former: &'static str) -> Self {
        Self { former, ..self }
    }

    fn is_called(&self, word: &str) -> bool {
        !word.is_empty() && [self.name, self.alias, self.former].contains(&word)
    }
}

/// The type of a setting.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    Switch,
    /// One of a fixed list of words.
    Choice(&'static [ChoiceValue]),
    /// A duration in seconds.
    Seconds {
        min: f64,
        max: f64,
    },
    /// A whole number.
    Count {
        min: u32,
        max: u32,
    },
    /// Two percentages, the smaller first, each 1 to 99.
    PercentPair,
    /// A text.
    Text(Check),
    /// A list of texts.
    List(Check),
    /// Distinct texts in a given order: at least one, at most this many.
    DistinctList(Check, usize),
    /// Columns of a table, from left to right; an empty list shows as many as fit.
    Columns(&'static [ColumnSpec]),
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    Switch(bool),
    Choice(&'static str),
    Seconds(Duration),
    Count(u32),
    /// Two percentages, the smaller first.
    PercentPair(u8, u8),
    /// A text; empty for none.
    Text(String),
    List(Vec<String>),
}

impl SettingKind {
    /// Parses a value from the command line or the environment; lists are separated by commas.
    pub fn parse(self, text: &str) -> Result<SettingValue, String> {
        match self {
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Ok(SettingValue::Switch(true)),
                "0" | "false" | "no" | "off" => Ok(SettingValue::Switch(false)),
                _ => Err("expected true or false".to_owned()),
            },
            Self::Choice(choices) => choices
                .iter()
                .find(|choice| choice.is_called(text))
                .map(|choice| SettingValue::Choice(choice.name))
                .ok_or_else(|| choices_help(choices)),
            Self::Seconds { min, max } => {
                check_seconds(text.parse().ok(), min, max).map(SettingValue::Seconds)
            }
            Self::Count { min, max } => {
                check_count(text.parse().ok(), min, max).map(SettingValue::Count)
            }
            Self::PercentPair => {
                let pair = text.split([',', ' ']).filter(|part| !part.is_empty());
                check_percent_pair(&pair.map(|part| part.parse().ok()).collect::<Vec<_>>())
            }
            // An empty text is a valid value and means none.
            Self::Text(_) if text.is_empty() => Ok(SettingValue::Text(String::new())),
            Self::Text(check) => {
                check_text(check, text).map(|()| SettingValue::Text(text.to_owned()))
            }
            Self::List(check) => check_list(check, split_commas(text)),
            Self::DistinctList(check, max) => check_distinct_list(check, max, split_commas(text)),
            Self::Columns(headings) => {
                let all = text.split([',', ' ']).filter(|part| !part.is_empty());
                check_columns(headings, all.map(str::to_owned).collect())
            }
        }
    }

    /// Parses a value from a file.
    pub(super) fn parse_toml(self, item: &DeValue<'_>) -> Result<SettingValue, String> {
        let number = || {
            let integer = item.as_integer().map(ToString::to_string);
            let fraction = || Some(item.as_float()?.as_str().replace('_', ""));
            integer.or_else(fraction)?.parse::<f64>().ok()
        };
        match self {
            Self::Switch => item
                .as_bool()
                .map(SettingValue::Switch)
                .ok_or_else(|| "expected true or false".to_owned()),
            Self::Choice(choices) => {
                item.as_str().map_or_else(|| Err(choices_help(choices)), |text| self.parse(text))
            }
            Self::Seconds { min, max } => {
                check_seconds(number(), min, max).map(SettingValue::Seconds)
            }
            Self::Count { min, max } => {
                let count = item.as_integer().and_then(|number| number.to_string().parse().ok());
                check_count(count, min, max).map(SettingValue::Count)
            }
            Self::PercentPair => {
                let percent = |item: &DeValue<'_>| item.as_integer()?.to_string().parse().ok();
                let pair = item.as_array().map(|array| {
                    array.iter().take(3).map(|item| percent(item.get_ref())).collect::<Vec<_>>()
                });
                check_percent_pair(&pair.unwrap_or_default())
            }
            Self::Text(_) => {
                let text = item.as_str().ok_or_else(|| "expected a string in quotes".to_owned())?;
                self.parse(text)
            }
            Self::List(check) => check_list(check, toml_list(item)?),
            Self::DistinctList(check, max) => check_distinct_list(check, max, toml_list(item)?),
            Self::Columns(headings) => match item.as_str() {
                Some(text) => self.parse(text),
                None => check_columns(headings, toml_list(item)?),
            },
        }
    }

    /// Returns those of the words that are names of earlier versions, each with its current name.
    pub fn former_names<'a>(self, words: &[&'a str]) -> Vec<(&'a str, &'static str)> {
        let current = |word: &'a str| -> Option<(&'a str, &'static str)> {
            let new = match self {
                Self::Choice(values) => {
                    let value = values.iter().find(|value| value.former == word);
                    value.filter(|_| !word.is_empty())?.name
                }
                Self::Columns(headings) if headings.iter().all(|heading| heading.name != word) => {
                    let named = |alias: &&&str| headings.iter().any(|one| one.name == **alias);
                    current_aliases(word).iter().find(named)?
                }
                Self::DistinctList(check, _) => {
                    current_aliases(word).iter().find(|alias| check(alias).is_ok())?
                }
                Self::Columns(_)
                | Self::Switch
                | Self::Seconds { .. }
                | Self::Count { .. }
                | Self::PercentPair
                | Self::Text(_)
                | Self::List(_) => return None,
            };
            Some((word, new))
        };
        words.iter().filter_map(|word| current(word)).collect()
    }

    /// Validates one entry of a list.
    pub fn check_item(self, word: &str) -> Result<(), String> {
        match self {
            Self::PercentPair => {
                let is_share = word.parse().is_ok_and(|share| (1..=99).contains(&share));
                if is_share { Ok(()) } else { Err(PERCENT_PAIR_HELP.to_owned()) }
            }
            Self::Text(_) if word.is_empty() => {
                Err("empty value; leave the option out instead".to_owned())
            }
            Self::List(check) | Self::DistinctList(check, _) | Self::Text(check) => {
                check_text(check, word)
            }
            Self::Columns(_) if word.is_empty() => Ok(()),
            Self::Columns(_) => self.parse(word).map(drop),
            Self::Switch | Self::Choice(_) | Self::Seconds { .. } | Self::Count { .. } => {
                self.parse(word).map(drop)
            }
        }
    }
}

const PERCENT_PAIR_HELP: &str =
    "expected two percentages between 1 and 99, the smaller first, such as 10 75";

fn choices_help(choices: &[ChoiceValue]) -> String {
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    format!("expected one of {}", names.join(", "))
}

fn check_seconds(value: Option<f64>, min: f64, max: f64) -> Result<Duration, String> {
    let in_range = value.filter(|value| (min..=max).contains(value));
    in_range.map(Duration::from_secs_f64).ok_or_else(|| {
        let example = if min < 1.0 { 0.5 } else { 60.0 };
        format!("expected seconds between {min} and {max}, such as {example}")
    })
}

fn check_count(value: Option<u32>, min: u32, max: u32) -> Result<u32, String> {
    let in_range = value.filter(|value| (min..=max).contains(value));
    in_range.ok_or_else(|| format!("expected a whole number between {min} and {max}"))
}

fn check_percent_pair(pair: &[Option<u8>]) -> Result<SettingValue, String> {
    let range = 1..=99;
    match pair {
        [Some(first), Some(second)]
            if first < second && range.contains(first) && range.contains(second) =>
        {
            Ok(SettingValue::PercentPair(*first, *second))
        }
        _ => Err(PERCENT_PAIR_HELP.to_owned()),
    }
}

fn check_text(check: Check, text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("longer than {MAX_TEXT_BYTES} bytes"));
    }
    check(text).map_err(str::to_owned)
}

/// Validates column names.
fn check_columns(headings: &[ColumnSpec], all: Vec<String>) -> Result<SettingValue, String> {
    let names = || headings.iter().map(|heading| heading.name);
    let all: Vec<_> = all.into_iter().map(|name| current_column_name(name, names)).collect();
    for (index, column) in all.iter().enumerate() {
        if !names().any(|name| name == column) {
            let column = sanitize(column, 40);
            let known = names().collect::<Vec<_>>().join(", ");
            let advice = nearest(&column, names());
            let advice = advice.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
            return Err(format!("unknown column {column:?}; {advice}columns are {known}"));
        }
        if all.iter().take(index).any(|before| before == column) {
            return Err(format!("duplicate {column}"));
        }
    }
    Ok(SettingValue::List(all))
}

/// Returns the current name of a column given by an earlier one; any other word unchanged.
fn current_column_name<'a, N: Iterator<Item = &'a str>>(
    word: String,
    names: impl Fn() -> N,
) -> String {
    if names().any(|name| name == word) {
        return word;
    }
    let mut found = names().filter(|name| current_aliases(&word).contains(name));
    match (found.next(), found.next()) {
        (Some(name), None) => name.to_owned(),
        _ => word,
    }
}

/// Splits a list separated by commas.
fn split_commas(text: &str) -> Vec<String> {
    let all = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    all.map(str::to_owned).collect()
}

/// Returns the entries of a TOML list, or a single entry.
fn toml_list(item: &DeValue<'_>) -> Result<Vec<String>, String> {
    let error = || "expected a list such as [\"a\", \"b\"]".to_owned();
    if let Some(text) = item.as_str() {
        return Ok(vec![text.to_owned()]);
    }
    let word = |item: &DeValue<'_>| {
        let number = || Some(item.as_integer()?.to_string());
        item.as_str().map(str::to_owned).or_else(number)
    };
    let array = item.as_array().ok_or_else(error)?;
    let all = array.iter().map(|item| word(item.get_ref()).ok_or_else(error));
    all.take(MAX_ENTRIES + 1).collect()
}

fn check_distinct_list(check: Check, max: usize, all: Vec<String>) -> Result<SettingValue, String> {
    all.iter().try_for_each(|text| check_text(check, text))?;
    let is_duplicate =
        |(index, text): &(usize, &String)| all.iter().take(*index).any(|before| before == *text);
    if let Some((_, text)) = all.iter().enumerate().find(is_duplicate) {
        return Err(format!("duplicate {text}"));
    }
    if all.is_empty() || all.len() > max {
        return Err(format!("expected 1 to {max} entries"));
    }
    Ok(SettingValue::List(all))
}

fn check_list(check: Check, all: Vec<String>) -> Result<SettingValue, String> {
    if all.len() > MAX_ENTRIES {
        return Err(format!("more than {MAX_ENTRIES} entries"));
    }
    all.iter().try_for_each(|text| check_text(check, text))?;
    Ok(SettingValue::List(all))
}

impl fmt::Display for SettingValue {
    /// Formats the value as on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(is_on) => write!(f, "{is_on}"),
            Self::Choice(word) => f.write_str(word),
            Self::Seconds(span) => write!(f, "{}", span.as_secs_f64()),
            Self::Count(count) => write!(f, "{count}"),
            Self::PercentPair(first, second) => write!(f, "{first},{second}"),
            Self::Text(text) => f.write_str(text),
            Self::List(all) => f.write_str(&all.join(",")),
        }
    }
}

impl SettingValue {
    /// Formats the value as TOML.
    pub fn to_toml(&self) -> String {
        match self {
            Self::Switch(_) | Self::Seconds(_) | Self::Count(_) => self.to_string(),
            Self::Choice(word) => toml_string(word),
            Self::PercentPair(first, second) => format!("[{first}, {second}]"),
            Self::Text(text) => toml_string(text),
            Self::List(all) => {
                let all: Vec<String> = all.iter().map(|text| toml_string(text)).collect();
                format!("[{}]", all.join(", "))
            }
        }
    }
}

/// Formats a TOML string.
pub(super) fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if is_unprintable(letter) => {
                write!(quoted, "\\U{:08X}", u32::from(letter)).ok();
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;

    const CHOICES: &[ChoiceValue] = &[choice("auto", ""), choice("full", "")];

    fn kinds() -> [(SettingKind, Vec<&'static str>, Vec<&'static str>); 8] {
        [
            (SettingKind::Switch, vec!["true", "0", "yes", "OFF"], vec!["", "2", "maybe"]),
            (SettingKind::Choice(CHOICES), vec!["auto", "full"], vec!["", "Auto", "compact"]),
            (
                SettingKind::Seconds { min: 0.05, max: 3600.0 },
                vec!["0.05", "3600", "1e1"],
                vec!["", "0", "NaN", "inf", "-1", "1s"],
            ),
            (SettingKind::Count { min: 1, max: 64 }, vec!["1", "64"], vec!["0", "65", "1.5", "x"]),
            (
                SettingKind::PercentPair,
                vec!["10,75", "1 99"],
                vec!["75,10", "10", "0,5", "5,100", "1,2,3"],
            ),
            (SettingKind::Text(check::login), vec!["ada", ""], vec!["-x", "a b"]),
            (SettingKind::List(check::device), vec!["", "0", "0, 1"], vec!["x", "0,-1"]),
            (
                SettingKind::DistinctList(check::metric, 2),
                vec!["mem", "util, mem"],
                vec!["", "mem,mem", "mem,bw,fan"],
            ),
        ]
    }

    #[test]
    fn formatted_values_parse_to_the_same_value() {
        for (kind, good, bad) in kinds() {
            for text in good {
                let value = kind.parse(text).unwrap();
                assert_eq!(kind.parse(&value.to_string()).as_ref(), Ok(&value), "{text}");
                let file = format!("x = {}", value.to_toml());
                let table = toml::de::DeTable::parse(&file).unwrap();
                let item = table.get_ref().get("x").unwrap();
                assert_eq!(kind.parse_toml(item.get_ref()).as_ref(), Ok(&value), "{file}");
            }
            for text in bad {
                assert!(kind.parse(text).is_err(), "{kind:?} {text}");
            }
        }
    }

    #[test]
    fn a_wrong_type_in_a_file_names_the_expected_one() {
        for (kind, file, expected) in [
            (SettingKind::Switch, "x = 1", "true or false"),
            (SettingKind::Choice(CHOICES), "x = true", "one of auto, full"),
            (SettingKind::Choice(CHOICES), "x = 'ful'", "one of auto, full"),
            (SettingKind::Seconds { min: 1.0, max: 2.0 }, "x = '1'", "between 1 and 2"),
            (SettingKind::Seconds { min: 1.0, max: 2.0 }, "x = nan", "between 1 and 2"),
            (SettingKind::Count { min: 1, max: 2 }, "x = 1.0", "whole number"),
            (SettingKind::PercentPair, "x = [10, 75, 80]", "two percentages"),
            (SettingKind::PercentPair, "x = 10", "two percentages"),
            (SettingKind::Text(check::any), "x = 1", "in quotes"),
            (SettingKind::Text(check::any), "x = \"a\\u001b\"", "control characters"),
            (SettingKind::List(check::pid), "x = [1.5]", "a list such as"),
            (SettingKind::List(check::pid), "x = ['a']", "process IDs"),
        ] {
            let table = toml::de::DeTable::parse(file).unwrap();
            let error = kind.parse_toml(table.get_ref().get("x").unwrap().get_ref()).unwrap_err();
            assert!(error.contains(expected), "{file}: {error}");
        }
    }
}
