//! Parses `config.toml` and `setup.toml`, and reports errors with their line.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declared::Declared;
use super::toml_value;
use gtop_fleet::query::nearest;
use gtop_fleet::settings::{KeyRow, SettingValue, toml_string};
use gtop_model::nodeset;

/// Maximum size of a configuration file.
pub const MAX_BYTES: u64 = 256 * 1024;
/// Maximum number of reported errors.
const MAX_PROBLEMS: usize = 50;

/// Returns a hint that a name has been replaced.
pub fn renamed(location: &str, old: &str, new: &str) -> String {
    format!("{location}: {old} is now called {new}")
}

/// The content of a configuration file.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    /// File name for messages.
    pub name: String,
    /// Settings, each with its line.
    pub values: BTreeMap<&'static str, (usize, SettingValue)>,
    /// `[groups]`: node sets by group name.
    pub groups: BTreeMap<String, String>,
    /// `[keys]`: what is bound otherwise than by default.
    pub keys: Vec<KeyRow>,
    /// Errors; a file with any is ignored as a whole.
    pub problems: Vec<String>,
    /// Hints: entries of `setup.toml` that are ignored, and old names.
    pub notes: Vec<String>,
    /// Entries of `setup.toml` that this version does not understand, as TOML.
    pub unknown: BTreeMap<String, String>,
}

/// Parses a configuration file; `setup.toml` has no `[keys]` and no `[groups]`.
pub(super) fn read_text(declared: Declared, name: &str, text: &str, is_setup: bool) -> ConfigFile {
    let file = ConfigFile { name: name.to_owned(), ..ConfigFile::default() };
    let mut parser = FileParser { declared, text, file };
    match DeTable::parse(text) {
        Ok(table) => parser.read_table(table.get_ref(), is_setup),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let why = error.message().lines().next().unwrap_or_default().to_owned();
            parser.report(at, &format!("invalid TOML: {}", sanitized(&why)));
        }
    }
    parser.file
}

struct FileParser<'a> {
    declared: Declared,
    text: &'a str,
    file: ConfigFile,
}

impl FileParser<'_> {
    fn line_of(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn report(&mut self, at: usize, text: &str) {
        if self.file.problems.len() < MAX_PROBLEMS {
            self.file.problems.push(self.located(at, text));
        }
    }

    fn note(&mut self, at: usize, text: &str) {
        if self.file.notes.len() < MAX_PROBLEMS {
            self.file.notes.push(self.located(at, text));
        }
    }

    fn located(&self, at: usize, text: &str) -> String {
        format!("{}:{}: {text}", self.file.name, self.line_of(at))
    }

    fn read_table(&mut self, table: &DeTable<'_>, is_setup: bool) {
        // In the order of the file; the parser sorts by name.
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_unstable_by_key(|(key, _)| key.span().start);
        for (key, item) in rows {
            let name: &str = key.get_ref();
            let section = if is_setup { "" } else { name };
            match (section, item.get_ref()) {
                ("keys", DeValue::Table(table)) => self.read_keys(table),
                ("groups", DeValue::Table(table)) => self.read_groups(table),
                ("keys" | "groups", _) => {
                    self.report(key.span().start, &format!("{name} is a table; use [{name}]"));
                }
                (_, DeValue::Table(table)) if self.declared.begins_setting(name) => {
                    for (rest, item) in table {
                        let setting = format!("{name}-{}", rest.get_ref());
                        self.read_setting((&setting, rest.span().start), item, is_setup);
                    }
                }
                _ => self.read_setting((name, key.span().start), item, is_setup),
            }
        }
    }

    /// Reads a setting. An unknown one is an error, except in `setup.toml`, which several versions of gtop
    /// may share in one home directory: there it is kept and ignored.
    fn read_setting(
        &mut self,
        (name, at): (&str, usize),
        item: &Spanned<DeValue<'_>>,
        is_setup: bool,
    ) {
        let Some(setting) = self.declared.setting(name) else {
            if is_setup {
                let text = format!("{}: unknown in this version, ignored", sanitized(name));
                self.note(at, &text);
                self.file.unknown.insert(name.to_owned(), toml_text(item.get_ref()));
                return;
            }
            let names = self.declared.settings().map(|setting| setting.name);
            let known = names.chain(["keys", "groups"]);
            let advice = nearest(name, known).unwrap_or("gtop config init");
            self.report(
                at,
                &format!("unknown setting {:?}; did you mean {advice}?", sanitized(name)),
            );
            return;
        };
        let value = toml_value::parse(setting.kind, item.get_ref());
        match value.and_then(|value| check_node_set(setting.name, value)) {
            Ok(value) => {
                let line = self.line_of(at);
                self.file.values.insert(setting.name, (line, value));
                let words = strings(item.get_ref()).unwrap_or_default();
                for (old, new) in setting.kind.former_names(&words) {
                    self.note(at, &renamed(name, old, new));
                }
            }
            Err(why) if is_setup => {
                self.note(at, &format!("{name}: {why}; ignored"));
                self.file.unknown.insert(name.to_owned(), toml_text(item.get_ref()));
            }
            Err(why) => self.report(at, &format!("{name}: {why}")),
        }
    }

    /// Reads `[keys]`: an action and one key or a list of keys. TOML makes a name with a dot a nested table.
    fn read_keys(&mut self, table: &DeTable<'_>) {
        let mut rows = Vec::new();
        for (key, item) in table {
            let (name, at): (&str, _) = (key.get_ref(), key.span().start);
            if let DeValue::Table(nested) = item.get_ref() {
                rows.extend(nested.iter().map(|(key, item)| {
                    (format!("{name}.{}", key.get_ref()), key.span().start, item.get_ref())
                }));
            } else {
                rows.push((name.to_owned(), at, item.get_ref()));
            }
        }
        rows.sort_unstable_by_key(|(_, at, _)| *at);
        let mut bound = Vec::new();
        for (action, at, item) in rows {
            let Some(keys) = keys_of(item) else {
                let why = "expected a key in quotes, or a list of keys";
                self.report(at, &format!("{}: {why}", sanitized(&action)));
                continue;
            };
            bound.push((at, KeyRow { action, keys }));
        }
        self.check_keys(bound);
    }

    fn check_keys(&mut self, bound: Vec<(usize, KeyRow)>) {
        let (places, rows): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
        // Settings stand above tables, so the scheme of the file is known.
        let scheme = match self.file.values.get("key-scheme") {
            Some((_, SettingValue::Choice(name))) => name,
            _ => "",
        };
        let report = (self.declared.keys.check)(&rows, scheme);
        self.file.keys = report.rows;
        for issue in report.issues {
            let at = places.get(issue.row).copied().unwrap_or_default();
            if issue.is_error {
                self.report(at, &issue.text);
            } else {
                self.note(at, &issue.text);
            }
        }
    }

    /// Reads `[groups]`: a name and one node set or a list of node sets.
    fn read_groups(&mut self, table: &DeTable<'_>) {
        for (key, item) in table {
            let (name, at): (&str, _) = (key.get_ref(), key.span().start);
            let is_name = !name.is_empty()
                && name
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
            let (true, Some(texts)) = (is_name, strings(item.get_ref())) else {
                let why =
                    format!("{}: expected a group such as a100 = \"gpu[01-16]\"", sanitized(name));
                self.report(at, &why);
                continue;
            };
            let set = texts.join(",");
            // References to groups are resolved when the group is used.
            let expanded = if set.contains('@') { Ok(Vec::new()) } else { nodeset::expand(&set) };
            match expanded {
                Ok(_) => drop(self.file.groups.insert(name.to_owned(), set)),
                Err(why) => self.report(at, &format!("{name}: {why}")),
            }
        }
    }
}

/// Rejects malformed node sets of `hosts`, `exclude` and `sudo`. Sets with groups or logins are checked when they are
/// used.
fn check_node_set(name: &str, value: SettingValue) -> Result<SettingValue, String> {
    if let ("hosts" | "exclude" | "sudo", SettingValue::List(all)) = (name, &value) {
        let set = all.join(",");
        if !set.contains(['@', ':', '*']) {
            nodeset::expand(&set).map_err(|why| why.to_string())?;
        }
    }
    Ok(value)
}

/// Returns the keys of a row of `[keys]`: none for an empty list, `None` if it is no list of strings.
fn keys_of(item: &DeValue<'_>) -> Option<Vec<String>> {
    let keys = strings(item).unwrap_or_default();
    let is_unbound = item.as_array().is_some_and(|array| array.is_empty());
    (is_unbound || !keys.is_empty()).then(|| keys.into_iter().map(str::to_owned).collect())
}

/// Returns a string, or a list of strings.
fn strings<'a>(item: &'a DeValue<'_>) -> Option<Vec<&'a str>> {
    if let Some(text) = item.as_str() {
        return Some(vec![text]);
    }
    item.as_array()?.iter().map(|item| item.get_ref().as_str()).collect()
}

/// Formats a value as TOML on one line.
fn toml_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => toml_string(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is_true) => is_true.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| toml_text(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, item)| {
                format!("{} = {}", toml_string(key.get_ref()), toml_text(item.get_ref()))
            });
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Removes control characters from a text of a file, and truncates it, for messages.
fn sanitized(text: &str) -> String {
    gtop_local::text::sanitize(text, 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting_table::DECLARED;

    fn problems(text: &str) -> Vec<String> {
        read_text(DECLARED, "config.toml", text, false).problems
    }

    #[test]
    fn keys_are_checked_with_the_scheme_of_the_file() {
        let taken = "key-scheme = 'nvitop'\n[keys]\nfreeze = 'v'\n";
        assert_eq!(problems(taken), [""; 0], "the key of a scheme gives way");
        let freed = "[keys]\nfreeze = 'Tab'\n";
        assert!(problems(freed)[0].contains("Tab is bound to next-view and to freeze"));
        assert_eq!(problems(&format!("key-scheme = 'nvitop'\n{freed}")), [""; 0]);
        assert!(problems("key-scheme = 'emacs'\n")[0].contains("expected one of gtop"));
    }

    #[test]
    fn a_file_has_settings_groups_and_keys() {
        let text = "interval = 2\nonly = [0, '2']\ngpu-util-thresh = [20, 60]\n\
            [groups]\na100 = 'gpu[01-16]'\nbig = ['@a100', 'gpu20']\n\
            [keys]\nfreeze = 'F'\nquit = ['q', 'Ctrl-Q']\nsuspend = []\njob.overview = 'O'\n";
        let file = read_text(DECLARED, "config.toml", text, false);
        assert_eq!(file.problems, [""; 0]);
        assert_eq!(file.values["gpu-util-thresh"], (3, SettingValue::PercentPair((20, 60))));
        assert_eq!(file.groups["big"], "@a100,gpu20");
        let keys: Vec<_> =
            file.keys.iter().map(|row| format!("{}: {}", row.action, row.keys.join(" "))).collect();
        assert_eq!(keys.len(), 4);
        for row in ["quit: q Ctrl-Q", "suspend: ", "freeze: F", "job.overview: O"] {
            assert!(keys.iter().any(|one| one == row), "{keys:?}");
        }
    }

    #[test]
    fn settings_with_the_same_beginning_may_be_in_a_table() {
        for text in
            ["[report]\nlow = 20\nprice = ['H100=2']", "report-low = 20\nreport.price = 'H100=2'"]
        {
            let file = read_text(DECLARED, "config.toml", text, false);
            assert_eq!(file.problems, [""; 0]);
            assert_eq!(file.values["report-low"].1, SettingValue::Count(20));
            let prices = SettingValue::List(vec!["H100=2".to_owned()]);
            assert_eq!(
                file.values["report-price"],
                (if text.starts_with('[') { 3 } else { 2 }, prices)
            );
        }
    }

    #[test]
    fn an_error_has_a_line_and_a_remedy() {
        for (text, expected) in [
            ("\ninterval = ", "config.toml:2: invalid TOML"),
            ("[groups\n", "config.toml:1: invalid TOML"),
            ("a = 1\na = 2\n", "config.toml:2: invalid TOML"),
            (
                "\n\nintervall = 2",
                "config.toml:3: unknown setting \"intervall\"; did you mean interval?",
            ),
            ("group.a = 'x'", "did you mean groups?"),
            (
                "[report]\nprice = 'H100=x'",
                "config.toml:2: report-price: a price is a number that is not negative",
            ),
            (
                "[report]\nlow = 101",
                "config.toml:2: report-low: expected a whole number between 0 and 100",
            ),
            (
                "[report]\nlo = 5",
                "config.toml:2: unknown setting \"report-lo\"; did you mean report-low?",
            ),
            ("[interval]\nx = 1", "config.toml:1: interval: expected"),
            ("keys = 1", "config.toml:1: keys is a table; use [keys]"),
            ("interval = 0", "config.toml:1: interval: expected seconds between 0.05 and 3600"),
            (
                "[keys]\nfreze = 'F'",
                "config.toml:2: unknown action \"freze\"; did you mean freeze?",
            ),
            (
                "[keys]\nfreeze = 'Hyper-F'",
                "config.toml:2: freeze: \"Hyper-F\" is not a key; write for example",
            ),
            ("[keys]\nfreeze = 3", "config.toml:2: freeze: expected a key in quotes"),
            ("[keys]\nfreeze = 'q'", "config.toml:2: q is bound to freeze and to quit"),
            ("[keys]\nquit = []", "config.toml:2: quit must have a key"),
            ("[groups]\na = 'gpu['", "config.toml:2: a: "),
            ("\nhosts = ['a', 'gpu[01-']", "column 6: '[' without ']'"),
            ("exclude = 'gpu['", "config.toml:1: exclude: "),
            ("[groups]\n'a b' = 'x'", "config.toml:2: a b: expected a group such as"),
            ("\"\\u001b[2J\" = 1", "config.toml:1: unknown setting"),
        ] {
            let found = problems(text);
            assert!(found[0].contains(expected), "{text}: {found:?}");
            assert!(!found.concat().contains('\u{1b}'), "{found:?}");
        }
        assert_eq!(problems(&"[a]\nb=1\n".repeat(9)).len(), 1);
    }

    #[test]
    fn no_file_makes_the_parser_panic() {
        for text in
            ["\u{feff}", "\0", &"[".repeat(5_000), &"a.".repeat(5_000), &"x = [".repeat(900)]
        {
            drop(problems(text));
        }
        let rows: Vec<String> = (0..1_000).map(|number| format!("x{number} = 1\n")).collect();
        assert_eq!(problems(&rows.concat()).len(), MAX_PROBLEMS);
    }
}
