//! Reads the value of a setting from TOML.

use toml::de::DeValue;

use gtop_fleet::settings::{SettingKind, SettingValue};

/// Parses a value from a file.
pub(super) fn parse(kind: SettingKind, item: &DeValue<'_>) -> Result<SettingValue, String> {
    match (kind, item) {
        (SettingKind::Switch, DeValue::Boolean(is_on)) => Ok(SettingValue::Switch(*is_on)),
        (SettingKind::Seconds { .. } | SettingKind::Count { .. }, DeValue::Integer(number)) => {
            kind.parse(&number.to_string())
        }
        (SettingKind::Seconds { .. }, DeValue::Float(number)) => {
            kind.parse(&number.as_str().replace('_', ""))
        }
        (
            SettingKind::Choice(_)
            | SettingKind::Sort(_)
            | SettingKind::Text(_)
            | SettingKind::Columns(_),
            DeValue::String(text),
        ) => kind.parse(text),
        (SettingKind::List(_) | SettingKind::DistinctList(..), DeValue::String(text)) => {
            kind.check_list(vec![text.to_string()])
        }
        (SettingKind::PercentPair, DeValue::Array(items)) => {
            let numbers: Option<Vec<_>> =
                items.iter().map(|item| integer(item.get_ref())).collect();
            kind.parse(&numbers.unwrap_or_default().join(","))
        }
        (kind, DeValue::Array(items)) if kind.is_list() => {
            let texts = items.iter().map(|item| {
                let item = item.get_ref();
                item.as_str().map(str::to_owned).or_else(|| integer(item))
            });
            let texts: Option<_> = texts.collect();
            kind.check_list(texts.ok_or_else(|| kind.expected())?)
        }
        _ => Err(kind.expected()),
    }
}

fn integer(item: &DeValue<'_>) -> Option<String> {
    item.as_integer().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::settings::{ChoiceValue, check, value};

    fn choices() -> Vec<ChoiceValue> {
        vec![value("auto", ""), value("full", "")]
    }

    fn kinds() -> [(SettingKind, Vec<&'static str>, Vec<&'static str>); 8] {
        [
            (SettingKind::Switch, vec!["true", "0", "yes", "OFF"], vec!["", "2", "maybe"]),
            (SettingKind::Choice(choices), vec!["auto", "full"], vec!["", "Auto", "compact"]),
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
                SettingKind::DistinctList(check::name, 2),
                vec!["mem", "util, mem"],
                vec!["", "mem,mem", "mem,util,fan"],
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
                assert_eq!(parse(kind, item.get_ref()).as_ref(), Ok(&value), "{file}");
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
            (SettingKind::Choice(choices), "x = true", "one of auto, full"),
            (SettingKind::Choice(choices), "x = 'ful'", "one of auto, full"),
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
            let error = parse(kind, table.get_ref().get("x").unwrap().get_ref()).unwrap_err();
            assert!(error.contains(expected), "{file}: {error}");
        }
    }
}
