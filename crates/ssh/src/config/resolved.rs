//! The resolved options of one host, from gtop's own parser or from `ssh -G`.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::config::Origin;
use crate::config::options::{self, Keyword, OptionSpec, OptionValueKind};

/// Options and their values, as `ssh -G` prints them, tokens not expanded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResolvedOptions(BTreeMap<&'static str, ResolvedOption>);

/// The values of one option, and the first line that set it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResolvedOption {
    pub(crate) values: Vec<String>,
    /// Whether each value comes from the user's files; only for cumulative options.
    pub(crate) from_user_file: Vec<bool>,
    pub(crate) origin: Option<Origin>,
}

impl ResolvedOptions {
    /// Parses the output of `ssh -G`: an option in lower case, a space, its value.
    pub(crate) fn parse_ssh_g(text: &str) -> Self {
        let mut resolved = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Keyword::Option(known) = options::parse_keyword(&name.to_ascii_lowercase()) else {
                continue;
            };
            let value = value.trim();
            let entry = resolved.0.entry(known.name).or_default();
            let list = if matches!(known.kind, OptionValueKind::Words(_)) {
                split_paths(value)
            } else if matches!(known.kind, OptionValueKind::Domains) {
                value.split(' ').map(str::to_owned).collect()
            } else if matches!(known.kind, OptionValueKind::Algorithms(_)) {
                value.split(',').map(str::to_owned).collect()
            } else {
                entry.values.push(value.to_owned());
                continue;
            };
            if entry.values.is_empty() {
                entry.values = list;
            }
        }
        resolved
    }

    pub(crate) fn get(&self, option: &str) -> Option<&ResolvedOption> {
        self.0.get(option)
    }

    pub(crate) fn all(&self, option: &str) -> &[String] {
        self.0.get(option).map_or(&[], |entry| entry.values.as_slice())
    }

    pub(crate) fn first(&self, option: &str) -> Option<&str> {
        self.all(option).first().map(String::as_str)
    }

    /// Returns the first value, or the default.
    pub(crate) fn first_or_default(&self, option: &str) -> &str {
        let set = self.first(option);
        set.unwrap_or_else(|| options::find(option).map_or("", |known| known.default))
    }

    /// Returns the first value as a number.
    pub(crate) fn number<T: FromStr>(&self, option: &str) -> Option<T> {
        self.first(option)?.parse().ok()
    }

    pub(crate) fn is_yes(&self, option: &str) -> bool {
        matches!(self.first(option), Some("yes" | "true"))
    }

    pub(crate) fn is_no(&self, option: &str) -> bool {
        matches!(self.first(option), Some("no" | "false"))
    }

    /// Returns the first value, unless it is `none`.
    pub(crate) fn first_unless_none(&self, option: &str) -> Option<&str> {
        self.first(option).filter(|value| !value.eq_ignore_ascii_case("none"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &ResolvedOption)> {
        self.0.iter().map(|(name, entry)| (*name, entry))
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.contains_key(option)
    }

    /// Removes the values of an option; it does not get its default.
    pub(crate) fn clear(&mut self, option: &str) {
        if let Some(entry) = self.0.get_mut(option) {
            entry.values.clear();
        }
    }

    pub(crate) fn remove(&mut self, option: &str) {
        self.0.remove(option);
    }

    /// Replaces an option.
    pub(crate) fn set(
        &mut self,
        option: &'static str,
        values: Vec<String>,
        origin: Option<Origin>,
    ) {
        self.0.insert(option, ResolvedOption { values, from_user_file: Vec::new(), origin });
    }

    /// Returns the entry of a cumulative option.
    pub(crate) fn entry(&mut self, known: &OptionSpec, origin: &Origin) -> &mut ResolvedOption {
        self.0.entry(known.name).or_insert_with(|| ResolvedOption {
            origin: Some(origin.clone()),
            ..ResolvedOption::default()
        })
    }
}

/// Splits a list of files. `ssh -G` drops the quotes, so a word that does not start a path belongs to the one
/// before.
fn split_paths(value: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for word in value.split(' ').filter(|word| !word.is_empty()) {
        match names.last_mut() {
            Some(last) if !word.starts_with(['/', '~', '%', '"', '$']) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => names.push(word.to_owned()),
        }
    }
    names
}
