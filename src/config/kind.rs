//! What settings take, and how it is read and written.

use std::fmt::{self, Write as _};
use std::time::Duration;

use toml::de::DeValue;

use crate::fields::current_aliases;
use crate::model::{clean, is_unprintable};
use crate::view::{Heading, nearest};

/// Says what is wrong with a word.
pub type Check = fn(&str) -> Result<(), &'static str>;

/// Longest text of a setting.
const LONGEST: usize = 4096;
/// Most entries of a list.
const MOST: usize = 1024;

/// A word that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// How it is written.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// How it may be written too; empty for not at all.
    pub alias: &'static str,
}

/// Makes a word.
pub(super) const fn word(name: &'static str, help: &'static str) -> Word {
    Word { name, help, alias: "" }
}

impl Word {
    /// Lets it be written in another way too.
    pub(super) const fn or(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }
}

/// What a setting takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Yes or no.
    Switch,
    /// One of some words.
    Choice(&'static [Word]),
    /// Seconds, within limits.
    Seconds {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// A whole number, within limits.
    Count {
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// Two shares in percent, the smaller first, each 1 to 99.
    Shares,
    /// Some text.
    Text(Check),
    /// Several texts.
    List(Check),
    /// A few different texts, in their order: at least one, at most so many.
    Few(Check, usize),
    /// Several columns of a table, from left to right; none for as many as there is room for.
    Columns(&'static [Heading]),
}

/// What a setting is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Switch(bool),
    /// One of some words.
    Choice(&'static str),
    /// A span.
    Seconds(Duration),
    /// A whole number.
    Count(u32),
    /// Two shares in percent.
    Shares(u8, u8),
    /// Some text; empty for none.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

impl Kind {
    /// Reads it as it is typed, or stands in the environment: lists with commas.
    pub fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Ok(Value::Switch(true)),
                "0" | "false" | "no" | "off" => Ok(Value::Switch(false)),
                _ => Err("write true or false".to_owned()),
            },
            Self::Choice(words) => words
                .iter()
                .find(|word| word.name == text || (!text.is_empty() && word.alias == text))
                .map(|word| Value::Choice(word.name))
                .ok_or_else(|| choices(words)),
            Self::Seconds { least, most } => {
                seconds(text.parse().ok(), least, most).map(Value::Seconds)
            }
            Self::Count { least, most } => count(text.parse().ok(), least, most).map(Value::Count),
            Self::Shares => {
                let two = text.split([',', ' ']).filter(|part| !part.is_empty());
                shares(&two.map(|part| part.parse().ok()).collect::<Vec<_>>())
            }
            // Nothing is what it is when nobody says anything.
            Self::Text(_) if text.is_empty() => Ok(Value::Text(String::new())),
            Self::Text(check) => judge(check, text).map(|()| Value::Text(text.to_owned())),
            Self::List(check) => list(check, listed(text)),
            Self::Few(check, most) => few(check, most, listed(text)),
            Self::Columns(headings) => {
                let all = text.split([',', ' ']).filter(|part| !part.is_empty());
                columns(headings, all.map(str::to_owned).collect())
            }
        }
    }

    /// Reads it as it stands in a file.
    pub(super) fn take(self, item: &DeValue<'_>) -> Result<Value, String> {
        let number = || {
            let whole = item.as_integer().map(ToString::to_string);
            let broken = || Some(item.as_float()?.as_str().replace('_', ""));
            whole.or_else(broken)?.parse::<f64>().ok()
        };
        match self {
            Self::Switch => {
                item.as_bool().map(Value::Switch).ok_or_else(|| "write true or false".to_owned())
            }
            Self::Choice(words) => {
                item.as_str().map_or_else(|| Err(choices(words)), |text| self.read(text))
            }
            Self::Seconds { least, most } => seconds(number(), least, most).map(Value::Seconds),
            Self::Count { least, most } => {
                let whole = item.as_integer().and_then(|number| number.to_string().parse().ok());
                count(whole, least, most).map(Value::Count)
            }
            Self::Shares => {
                let whole = |item: &DeValue<'_>| item.as_integer()?.to_string().parse().ok();
                let two = item.as_array().map(|array| {
                    array.iter().take(3).map(|item| whole(item.get_ref())).collect::<Vec<_>>()
                });
                shares(&two.unwrap_or_default())
            }
            Self::Text(_) => {
                let text = item.as_str().ok_or_else(|| "write it in quotes".to_owned())?;
                self.read(text)
            }
            Self::List(check) => list(check, taken(item)?),
            Self::Few(check, most) => few(check, most, taken(item)?),
            Self::Columns(headings) => match item.as_str() {
                Some(text) => self.read(text),
                None => columns(headings, taken(item)?),
            },
        }
    }

    /// Judges one of possibly several words that were typed.
    pub fn judge(self, word: &str) -> Result<(), String> {
        match self {
            Self::Shares => {
                let is_share = word.parse().is_ok_and(|share| (1..=99).contains(&share));
                if is_share { Ok(()) } else { Err(SHARES.to_owned()) }
            }
            Self::Text(_) if word.is_empty() => Err("leave it out, or write something".to_owned()),
            Self::List(check) | Self::Few(check, _) | Self::Text(check) => judge(check, word),
            Self::Columns(_) if word.is_empty() => Ok(()),
            Self::Columns(_) => self.read(word).map(drop),
            Self::Switch | Self::Choice(_) | Self::Seconds { .. } | Self::Count { .. } => {
                self.read(word).map(drop)
            }
        }
    }
}

const SHARES: &str = "give two percentages between 1 and 99, the smaller first, such as 10 75";

fn choices(words: &[Word]) -> String {
    let names: Vec<&str> = words.iter().map(|word| word.name).collect();
    format!("write one of {}", names.join(", "))
}

fn seconds(value: Option<f64>, least: f64, most: f64) -> Result<Duration, String> {
    let fitting = value.filter(|value| (least..=most).contains(value));
    fitting.map(Duration::from_secs_f64).ok_or_else(|| {
        let example = if least < 1.0 { 0.5 } else { 60.0 };
        format!("give seconds between {least} and {most}, such as {example}")
    })
}

fn count(value: Option<u32>, least: u32, most: u32) -> Result<u32, String> {
    let fitting = value.filter(|value| (least..=most).contains(value));
    fitting.ok_or_else(|| format!("give a whole number between {least} and {most}"))
}

fn shares(two: &[Option<u8>]) -> Result<Value, String> {
    let range = 1..=99;
    match two {
        [Some(first), Some(second)]
            if first < second && range.contains(first) && range.contains(second) =>
        {
            Ok(Value::Shares(*first, *second))
        }
        _ => Err(SHARES.to_owned()),
    }
}

fn judge(check: Check, text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("write at most {LONGEST} letters"));
    }
    check(text).map_err(str::to_owned)
}

/// Judges columns by their names.
fn columns(headings: &[Heading], all: Vec<String>) -> Result<Value, String> {
    let names = || headings.iter().map(|heading| heading.name);
    let all: Vec<_> = all.into_iter().map(|own| current(own, names)).collect();
    for (place, own) in all.iter().enumerate() {
        if !names().any(|name| name == own) {
            let own = clean(own, 40);
            let known = names().collect::<Vec<_>>().join(", ");
            let advice = nearest(&own, names());
            let advice = advice.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
            return Err(format!("there is no column {own:?}; {advice}there are {known}"));
        }
        if all.iter().take(place).any(|before| before == own) {
            return Err(format!("{own} is named twice"));
        }
    }
    Ok(Value::List(all))
}

/// Returns today's name of a column that an earlier version called otherwise; any other word as it is.
fn current<'a, N: Iterator<Item = &'a str>>(word: String, names: impl Fn() -> N) -> String {
    if names().any(|name| name == word) {
        return word;
    }
    let mut found = names().filter(|name| current_aliases(&word).contains(name));
    match (found.next(), found.next()) {
        (Some(name), None) => name.to_owned(),
        _ => word,
    }
}

/// Returns what is written with commas.
fn listed(text: &str) -> Vec<String> {
    let all = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    all.map(str::to_owned).collect()
}

/// Returns what a file lists.
fn taken(item: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wrong = || "write a list such as [\"a\", \"b\"]".to_owned();
    if let Some(text) = item.as_str() {
        return Ok(vec![text.to_owned()]);
    }
    let word = |item: &DeValue<'_>| {
        let number = || Some(item.as_integer()?.to_string());
        item.as_str().map(str::to_owned).or_else(number)
    };
    let array = item.as_array().ok_or_else(wrong)?;
    let all = array.iter().map(|item| word(item.get_ref()).ok_or_else(wrong));
    all.take(MOST + 1).collect()
}

fn few(check: Check, most: usize, all: Vec<String>) -> Result<Value, String> {
    all.iter().try_for_each(|text| judge(check, text))?;
    let before = |place: usize| all.iter().take(place);
    let twice = all.iter().enumerate().find(|(place, own)| before(*place).any(|text| text == *own));
    if let Some((_, own)) = twice {
        return Err(format!("{own} is named twice"));
    }
    if all.is_empty() || all.len() > most {
        return Err(format!("name one to {most}"));
    }
    Ok(Value::List(all))
}

fn list(check: Check, all: Vec<String>) -> Result<Value, String> {
    if all.len() > MOST {
        return Err(format!("name at most {MOST}"));
    }
    all.iter().try_for_each(|text| judge(check, text))?;
    Ok(Value::List(all))
}

impl fmt::Display for Value {
    /// Writes it as it is typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(is_on) => write!(f, "{is_on}"),
            Self::Choice(word) => f.write_str(word),
            Self::Seconds(span) => write!(f, "{}", span.as_secs_f64()),
            Self::Count(count) => write!(f, "{count}"),
            Self::Shares(first, second) => write!(f, "{first},{second}"),
            Self::Text(text) => f.write_str(text),
            Self::List(all) => f.write_str(&all.join(",")),
        }
    }
}

impl Value {
    /// Writes it as it stands in a file.
    pub fn written(&self) -> String {
        match self {
            Self::Switch(_) | Self::Seconds(_) | Self::Count(_) => self.to_string(),
            Self::Choice(word) => quoted(word),
            Self::Shares(first, second) => format!("[{first}, {second}]"),
            Self::Text(text) => quoted(text),
            Self::List(all) => {
                let all: Vec<String> = all.iter().map(|text| quoted(text)).collect();
                format!("[{}]", all.join(", "))
            }
        }
    }
}

/// Writes a string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut written = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            letter if is_unprintable(letter) => {
                write!(written, "\\U{:08X}", u32::from(letter)).ok();
            }
            letter => written.push(letter),
        }
    }
    written.push('"');
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;

    const WORDS: &[Word] = &[word("auto", ""), word("full", "")];

    fn kinds() -> [(Kind, Vec<&'static str>, Vec<&'static str>); 8] {
        [
            (Kind::Switch, vec!["true", "0", "yes", "OFF"], vec!["", "2", "maybe"]),
            (Kind::Choice(WORDS), vec!["auto", "full"], vec!["", "Auto", "compact"]),
            (
                Kind::Seconds { least: 0.05, most: 3600.0 },
                vec!["0.05", "3600", "1e1"],
                vec!["", "0", "NaN", "inf", "-1", "1s"],
            ),
            (Kind::Count { least: 1, most: 64 }, vec!["1", "64"], vec!["0", "65", "1.5", "x"]),
            (Kind::Shares, vec!["10,75", "1 99"], vec!["75,10", "10", "0,5", "5,100", "1,2,3"]),
            (Kind::Text(check::login), vec!["ada", ""], vec!["-x", "a b"]),
            (Kind::List(check::device), vec!["", "0", "0, 1"], vec!["x", "0,-1"]),
            (
                Kind::Few(check::metric, 2),
                vec!["mem", "util, mem"],
                vec!["", "mem,mem", "mem,bw,fan"],
            ),
        ]
    }

    #[test]
    fn what_is_read_is_written_so_that_it_is_read_again() {
        for (kind, good, bad) in kinds() {
            for text in good {
                let value = kind.read(text).unwrap();
                assert_eq!(kind.read(&value.to_string()).as_ref(), Ok(&value), "{text}");
                let file = format!("x = {}", value.written());
                let table = toml::de::DeTable::parse(&file).unwrap();
                let item = table.get_ref().get("x").unwrap();
                assert_eq!(kind.take(item.get_ref()).as_ref(), Ok(&value), "{file}");
            }
            for text in bad {
                assert!(kind.read(text).is_err(), "{kind:?} {text}");
            }
        }
    }

    #[test]
    fn a_wrong_type_in_a_file_is_told_with_the_right_one() {
        for (kind, file, words) in [
            (Kind::Switch, "x = 1", "true or false"),
            (Kind::Choice(WORDS), "x = true", "one of auto, full"),
            (Kind::Choice(WORDS), "x = 'ful'", "one of auto, full"),
            (Kind::Seconds { least: 1.0, most: 2.0 }, "x = '1'", "between 1 and 2"),
            (Kind::Seconds { least: 1.0, most: 2.0 }, "x = nan", "between 1 and 2"),
            (Kind::Count { least: 1, most: 2 }, "x = 1.0", "whole number"),
            (Kind::Shares, "x = [10, 75, 80]", "two percentages"),
            (Kind::Shares, "x = 10", "two percentages"),
            (Kind::Text(check::any), "x = 1", "in quotes"),
            (Kind::Text(check::any), "x = \"a\\u001b\"", "control characters"),
            (Kind::List(check::pid), "x = [1.5]", "a list such as"),
            (Kind::List(check::pid), "x = ['a']", "process ids"),
        ] {
            let table = toml::de::DeTable::parse(file).unwrap();
            let error = kind.take(table.get_ref().get("x").unwrap().get_ref()).unwrap_err();
            assert!(error.contains(words), "{file}: {error}");
        }
    }
}
