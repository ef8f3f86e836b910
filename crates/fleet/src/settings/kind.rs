//! The types of settings: how values are parsed and printed.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::metrics::current_aliases;
use crate::query::{SortColumn, nearest};
use crate::settings::column_spec::ColumnSpec;
use gtop_local::text::{is_unprintable, sanitize};

/// Validates a text; returns what is wrong with it.
pub type Check = fn(&str) -> Result<(), &'static str>;

/// Maximum length of a text value.
const MAX_TEXT_BYTES: usize = 4096;
/// Maximum number of entries of a list.
const MAX_ENTRIES: usize = 1024;

/// A possible value of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct ChoiceValue {
    pub name: &'static str,
    pub help: &'static str,
    pub alias: &'static str,
    /// Its name in earlier versions, still accepted; empty for none.
    pub former: &'static str,
}

/// Returns a value of a choice.
pub const fn value(name: &'static str, help: &'static str) -> ChoiceValue {
    ChoiceValue { name, help, alias: "", former: "" }
}

impl ChoiceValue {
    pub const fn with_alias(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    const fn of_sort(column: SortColumn) -> Self {
        let SortColumn { name, help, former, .. } = column;
        Self { name, help, alias: "", former }
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
    Choice(fn() -> Vec<ChoiceValue>),
    /// The name of a sort column.
    Sort(fn() -> Vec<SortColumn>),
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
    Columns(fn() -> Vec<ColumnSpec>),
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    Switch(bool),
    Choice(&'static str),
    Seconds(Duration),
    Count(u32),
    /// Two percentages, the smaller first.
    PercentPair((u8, u8)),
    /// A text; empty for none.
    Text(String),
    List(Vec<String>),
}

impl SettingKind {
    /// Returns the values of a choice; none of other kinds.
    pub fn choices(self) -> Vec<ChoiceValue> {
        if let Self::Choice(choices) = self {
            return choices();
        }
        let Self::Sort(columns) = self else { return Vec::new() };
        columns().into_iter().map(ChoiceValue::of_sort).collect()
    }

    /// Returns the columns to choose from; none of other kinds.
    pub fn columns(self) -> Vec<ColumnSpec> {
        if let Self::Columns(columns) = self { columns() } else { Vec::new() }
    }

    /// Returns the unit of its values; empty if they have none.
    pub const fn unit(self) -> &'static str {
        if matches!(self, Self::Seconds { .. }) {
            return "s";
        }
        if matches!(self, Self::PercentPair) { "%" } else { "" }
    }

    /// Returns true if the value is a list of texts.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::List(_) | Self::DistinctList(..) | Self::Columns(_))
    }

    /// Parses a value from the command line or the environment; lists are separated by commas.
    pub fn parse(self, text: &str) -> Result<SettingValue, String> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let value = match self {
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(SettingValue::Switch(true)),
                "0" | "false" | "no" | "off" => Some(SettingValue::Switch(false)),
                _ => None,
            },
            Self::Choice(_) | Self::Sort(_) => {
                let choices = self.choices();
                let choice = choices.iter().find(|choice| choice.is_called(text));
                choice.map(|choice| SettingValue::Choice(choice.name))
            }
            Self::Seconds { min, max } => {
                let seconds = text.parse().ok().filter(|seconds| (min..=max).contains(seconds));
                seconds.map(|seconds| SettingValue::Seconds(Duration::from_secs_f64(seconds)))
            }
            Self::Count { min, max } => {
                let count = text.parse().ok().filter(|count| (min..=max).contains(count));
                count.map(SettingValue::Count)
            }
            Self::PercentPair => {
                let shares: Vec<_> = words.map(parse_percent).collect();
                match *shares {
                    [Some(first), Some(second)] if first < second => {
                        Some(SettingValue::PercentPair((first, second)))
                    }
                    _ => None,
                }
            }
            Self::Text(check) => {
                // An empty text is a valid value and means none.
                if !text.is_empty() {
                    check_text(check, text)?;
                }
                Some(SettingValue::Text(text.to_owned()))
            }
            Self::List(_) | Self::DistinctList(..) => {
                let words = split_list(text).map(str::trim).filter(|word| !word.is_empty());
                return self.check_list(words.map(str::to_owned).collect());
            }
            Self::Columns(_) => return self.check_list(words.map(str::to_owned).collect()),
        };
        value.ok_or_else(|| self.expected())
    }

    /// Returns what a value must be.
    pub fn expected(self) -> String {
        match self {
            Self::Switch => "expected true or false".to_owned(),
            Self::Choice(_) | Self::Sort(_) => {
                let choices = self.choices();
                let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
                format!("expected one of {}", names.join(", "))
            }
            Self::Seconds { min, max } => {
                let example = if min < 1.0 { 0.5 } else { 60.0 };
                format!("expected seconds between {min} and {max}, such as {example}")
            }
            Self::Count { min, max } => {
                format!("expected a whole number between {min} and {max}")
            }
            Self::PercentPair => {
                "expected two percentages between 1 and 99, the smaller first, such as 10 75"
                    .to_owned()
            }
            Self::Text(_) => "expected a string in quotes".to_owned(),
            Self::List(check) if check("a").is_err() && check("1").is_ok() => {
                "expected a list such as [\"1\", \"2\"]".to_owned()
            }
            Self::List(_) | Self::DistinctList(..) | Self::Columns(_) => {
                "expected a list such as [\"a\", \"b\"]".to_owned()
            }
        }
    }

    /// Returns those of the words that are names of earlier versions, each with its current name.
    pub fn former_names<'a>(self, words: &[&'a str]) -> Vec<(&'a str, &'static str)> {
        words.iter().filter_map(|word| Some((*word, self.current_name(word)?))).collect()
    }

    /// Returns what replaces a name of earlier versions.
    fn current_name(self, word: &str) -> Option<&'static str> {
        let mut choices = self.choices().into_iter().filter(|_| !word.is_empty());
        if let Some(choice) = choices.find(|choice| choice.former == word) {
            return Some(choice.name);
        }
        let columns: Vec<&str> = self.columns().iter().map(|column| column.name).collect();
        let mut aliases = current_aliases(word).iter().filter(|_| !columns.contains(&word));
        let current = aliases.find(|name| {
            if let Self::DistinctList(check, _) = self {
                check(name).is_ok()
            } else {
                columns.contains(name)
            }
        });
        current.copied()
    }

    /// Validates one entry of a list, or the whole text of another value.
    pub fn check_item(self, word: &str) -> Result<(), String> {
        match self {
            Self::PercentPair => parse_percent(word).map(drop).ok_or_else(|| self.expected()),
            Self::Text(_) if word.is_empty() => {
                Err("empty value; leave the option out instead".to_owned())
            }
            Self::List(check) | Self::DistinctList(check, _) | Self::Text(check) => {
                check_text(check, word)
            }
            Self::Switch
            | Self::Choice(_)
            | Self::Sort(_)
            | Self::Seconds { .. }
            | Self::Count { .. }
            | Self::Columns(_) => self.parse(word).map(drop),
        }
    }

    /// Validates the entries of a list; those of [`Self::List`] may repeat.
    pub fn check_list(self, mut words: Vec<String>) -> Result<SettingValue, String> {
        if matches!(self, Self::List(_)) && words.len() > MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} entries"));
        }
        let columns = self.columns();
        if !columns.is_empty() {
            words = words.into_iter().map(|word| current_column_name(&columns, word)).collect();
        }
        for (index, word) in words.iter().enumerate() {
            if columns.is_empty() {
                self.check_item(word)?;
            } else {
                check_column(&columns, word)?;
            }
            let may_repeat = matches!(self, Self::List(_));
            if !may_repeat && words.iter().take(index).any(|before| before == word) {
                return Err(format!("duplicate {word}"));
            }
        }
        if let Self::DistinctList(_, max) = self
            && !(1..=max).contains(&words.len())
        {
            return Err(format!("expected 1 to {max} entries"));
        }
        Ok(SettingValue::List(words))
    }
}

/// Splits a list at its commas, except those in brackets: `gpu[1,3]` is one entry.
fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

fn parse_percent(text: &str) -> Option<u8> {
    text.parse().ok().filter(|percent| (1..=99).contains(percent))
}

fn check_text(check: Check, text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("longer than {MAX_TEXT_BYTES} bytes"));
    }
    check(text).map_err(str::to_owned)
}

fn check_column(columns: &[ColumnSpec], word: &str) -> Result<(), String> {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    if names.contains(&word) {
        return Ok(());
    }
    let word = sanitize(word, 40);
    let advice = nearest(&word, names.iter().copied());
    let advice = advice.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    Err(format!("unknown column {word:?}; {advice}the columns are {}", names.join(", ")))
}

/// Returns the current name of a column given by an earlier one; any other word unchanged.
fn current_column_name(columns: &[ColumnSpec], word: String) -> String {
    if columns.iter().any(|column| column.name == word) {
        return word;
    }
    let mut renamed = columns.iter().filter(|column| current_aliases(&word).contains(&column.name));
    match (renamed.next(), renamed.next()) {
        (Some(column), None) => column.name.to_owned(),
        _ => word,
    }
}

impl fmt::Display for SettingValue {
    /// Formats the value as on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(is_on) => write!(f, "{is_on}"),
            Self::Choice(word) => f.write_str(word),
            Self::Seconds(span) => write!(f, "{}", span.as_secs_f64()),
            Self::Count(count) => write!(f, "{count}"),
            Self::PercentPair((first, second)) => write!(f, "{first},{second}"),
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
            Self::PercentPair((first, second)) => format!("[{first}, {second}]"),
            Self::Text(text) => toml_string(text),
            Self::List(all) => {
                let all: Vec<String> = all.iter().map(|text| toml_string(text)).collect();
                format!("[{}]", all.join(", "))
            }
        }
    }
}

/// Formats a TOML string.
pub fn toml_string(text: &str) -> String {
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
