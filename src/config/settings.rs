//! Merges the sources of settings. Precedence: option, environment, `setup.toml`, `config.toml`, default.

use std::collections::{BTreeMap, BTreeSet};

use super::declared::Declared;
use super::environment;
use super::file::ConfigFile;
use gtop_fleet::settings::{
    DEFAULT_ORIGIN, Given, KeyRow, Layer, Setting, SettingGroup, SettingValue,
};

/// A value and its origin: file and line, variable or other, such as `config.toml:3`.
type Candidate = (SettingValue, String);

/// All sources except the environment.
#[derive(Clone, Debug, Default)]
pub struct SettingSources {
    pub file: ConfigFile,
    pub setup: ConfigFile,
    /// Values from the command line.
    pub args: BTreeMap<&'static str, SettingValue>,
    /// Hints about old names on the command line.
    pub arg_hints: Vec<String>,
}

/// The merged settings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub declared: Declared,
    /// The values of each setting by source: the highest wins.
    candidates: BTreeMap<&'static str, BTreeMap<Layer, Candidate>>,
    /// Node sets by group name.
    pub groups: BTreeMap<String, String>,
    /// The key bindings of `[keys]`.
    pub keys: Vec<KeyRow>,
    /// Errors in files and variables; these are ignored.
    pub problems: Vec<String>,
    /// Hints about old names that are still accepted.
    pub hints: Vec<String>,
    /// Entries of `setup.toml` that are ignored.
    pub notes: Vec<String>,
    /// Entries of `setup.toml` that this version does not understand, as TOML; saving keeps them.
    unknown: BTreeMap<String, String>,
    /// Settings whose changes are never saved.
    unsaved: BTreeSet<&'static str>,
}

impl Settings {
    /// Returns the defaults.
    pub const fn new(declared: Declared) -> Self {
        Self {
            declared,
            candidates: BTreeMap::new(),
            groups: BTreeMap::new(),
            keys: Vec::new(),
            problems: Vec::new(),
            hints: Vec::new(),
            notes: Vec::new(),
            unknown: BTreeMap::new(),
            unsaved: BTreeSet::new(),
        }
    }

    /// Merges the sources; `variable` reads an environment variable.
    ///
    /// A file with an error is ignored as a whole, because half of its settings could be worse than none.
    pub fn merge(
        declared: Declared,
        sources: SettingSources,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut settings = Self::new(declared);
        for (layer, file) in [(Layer::ConfigFile, sources.file), (Layer::SetupFile, sources.setup)]
        {
            if !file.problems.is_empty() {
                settings.problems.extend(file.problems);
                continue;
            }
            for (name, (line, value)) in file.values {
                settings.add(layer, name, value, format!("{}:{line}", file.name));
            }
            if layer == Layer::SetupFile {
                settings.unknown = file.unknown;
                settings.notes = file.notes;
            } else {
                settings.groups = file.groups;
                settings.keys = file.keys;
                settings.hints = file.notes;
            }
        }
        let (values, problems, hints) = environment::read(declared, variable);
        settings.hints.extend(hints);
        for (name, value, origin) in values {
            settings.add(Layer::Environment, name, value, origin);
        }
        settings.problems.extend(problems);
        settings.hints.extend(sources.arg_hints);
        for (name, value) in sources.args {
            settings.add(Layer::CommandLine, name, value, "command line".to_owned());
        }
        settings
    }

    fn add(&mut self, layer: Layer, name: &'static str, value: SettingValue, origin: String) {
        self.candidates.entry(name).or_default().insert(layer, (value, origin));
    }

    /// Changes a setting while gtop runs. Returns an error if the text is invalid.
    pub fn change(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some(setting) = self.declared.setting(name) else {
            return Err(format!("unknown setting {name:?}"));
        };
        let value = setting.kind.parse(text).map_err(|why| format!("{name}: {why}"))?;
        let text = value.to_string();
        if self.shown_value(name) == text {
            return Ok(());
        }
        // The new value replaces one that another version has saved.
        self.unknown.remove(setting.name);
        if let Some(candidates) = self.candidates.get_mut(setting.name) {
            candidates.remove(&Layer::Changed);
        }
        if self.shown_value(name) != text {
            self.add(Layer::Changed, setting.name, value, "changed, not saved".to_owned());
        }
        Ok(())
    }

    /// Excludes a setting from saving: its value in `setup.toml` stays.
    pub fn never_save(&mut self, name: &'static str) {
        self.unsaved.insert(name);
    }

    /// Returns the content of `setup.toml`: its present values of settings without a setup page, and the
    /// values of settings with one that differ from `config.toml` and the defaults. Values from the
    /// environment are not saved.
    pub fn to_save(&self) -> Vec<(&'static Setting, SettingValue)> {
        let differing = self.declared.settings().filter_map(|setting| {
            let configured = self.effective(setting.name, Layer::ConfigFile);
            let unsaved_value =
                configured.map(|(_, (value, _))| value.clone()).or_else(|| setting.default_value());
            let is_saved = !setting.page.is_empty() && !self.unsaved.contains(setting.name);
            let top = if is_saved { Layer::Changed } else { Layer::SetupFile };
            // The environment may have another value at the next start.
            let mut persistent = self.candidates.get(setting.name)?.range(..=top).rev();
            let (layer, (value, _)) =
                persistent.find(|(layer, _)| **layer != Layer::Environment)?;
            let is_in_setup = *layer == Layer::SetupFile && setting.page.is_empty();
            (is_in_setup || Some(value) != unsaved_value.as_ref()).then(|| (setting, value.clone()))
        });
        differing.collect()
    }

    /// Returns the entries of `setup.toml` that this version does not understand, as TOML.
    pub fn unknown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unknown.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Records that [`Self::to_save`] has been written to `setup.toml`, which messages call `name`.
    pub fn mark_saved(&mut self, name: &str) {
        let saved = self.to_save();
        let mut changed = BTreeSet::new();
        for (name, candidates) in &mut self.candidates {
            if candidates.contains_key(&Layer::Changed) {
                changed.insert(*name);
            }
            if !self.unsaved.contains(name) {
                candidates.remove(&Layer::SetupFile);
                candidates.remove(&Layer::Changed);
            }
        }
        for (setting, value) in saved {
            if self.unsaved.contains(setting.name) {
                continue;
            }
            // A change in the setup dialog overrides the command line until gtop ends.
            let highest = self.effective(setting.name, Layer::Changed);
            let is_overridden = changed.contains(setting.name)
                && highest.is_some_and(|(layer, (known, _))| {
                    *layer > Layer::SetupFile && *known != value
                });
            if is_overridden {
                self.add(Layer::Changed, setting.name, value.clone(), name.to_owned());
            }
            self.add(Layer::SetupFile, setting.name, value, name.to_owned());
        }
    }

    /// Returns the value with the highest precedence up to a source, with its source.
    fn effective(&self, name: &str, highest: Layer) -> Option<(&Layer, &Candidate)> {
        self.candidates.get(name)?.range(..=highest).next_back()
    }

    /// Returns the value of a setting; `None` if it is unset and has no default.
    pub fn value(&self, name: &str) -> Option<SettingValue> {
        let setting = self.declared.setting(name);
        debug_assert!(setting.is_some(), "no setting {name}");
        let found = self.effective(name, Layer::Changed).map(|(_, (value, _))| value.clone());
        found.or_else(|| setting.and_then(Setting::default_value))
    }

    /// Returns the value as text; empty if it is unset.
    pub fn shown_value(&self, name: &str) -> String {
        self.value(name).map(|value| value.to_string()).unwrap_or_default()
    }

    /// Returns the source of the value.
    pub fn layer(&self, name: &str) -> Layer {
        self.effective(name, Layer::Changed).map_or(Layer::Default, |(layer, _)| *layer)
    }

    /// Returns the origin of the value for messages, such as `config.toml:3`.
    pub fn origin(&self, name: &str) -> &str {
        self.effective(name, Layer::Changed).map_or(DEFAULT_ORIGIN, |(_, (_, origin))| origin)
    }

    /// Returns a group of settings.
    pub fn read<G: SettingGroup>(&self) -> G {
        G::read(|name| Given {
            name,
            value: self.value(name),
            layer: self.layer(name),
            origin: self.origin(name).to_owned(),
        })
    }

    /// Summarizes the errors in one line; `None` if there are none.
    pub fn problem_summary(&self) -> Option<String> {
        let mut all = self.problems.iter().chain(&self.hints);
        let first = all.next()?;
        let more = all.count();
        let more =
            if more > 0 { format!("; {more} more: gtop config check") } else { String::new() };
        Some(format!("{first}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;
    use crate::setting_table::{DECLARED, setting};

    fn parse_valid(name: &str, text: &str, is_setup: bool) -> ConfigFile {
        let file = file::read_text(DECLARED, name, text, is_setup);
        assert_eq!(file.problems, [""; 0], "{text}");
        file
    }

    fn settings(
        file: &str,
        setup: &str,
        variables: &[(&str, &str)],
        args: &[(&str, &str)],
    ) -> Settings {
        let args = args.iter().map(|(name, text)| {
            let setting = setting(name).unwrap();
            (setting.name, setting.kind.parse(text).unwrap())
        });
        let sources = SettingSources {
            file: parse_valid("config.toml", file, false),
            setup: parse_valid("setup.toml", setup, true),
            args: args.collect(),
            arg_hints: Vec::new(),
        };
        Settings::merge(DECLARED, sources, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        })
    }

    fn text(settings: &Settings, name: &str) -> String {
        settings.value(name).map(|value| value.to_string()).unwrap_or_default()
    }

    #[test]
    fn option_beats_environment_beats_setup_beats_file_beats_default() {
        let (file, setup) = ("theme = 'mono'\n", "theme = 'hot'\n");
        let variables = [("GTOP_THEME", "dark"), ("NVITOP_MONITOR_MODE", "light,full")];
        let background = settings("background = 'dark'", "", &variables, &[]);
        let found = (text(&background, "background"), background.origin("background"));
        assert_eq!(found, ("light".to_owned(), "NVITOP_MONITOR_MODE"));
        let args = [("theme", "colour-blind")];
        for (settings, theme, origin) in [
            (settings("", "", &[], &[]), "auto", "default"),
            (settings(file, "", &[], &[]), "mono", "config.toml:1"),
            (settings(file, setup, &[], &[]), "hot", "setup.toml:1"),
            (settings(file, setup, &variables, &[]), "dark", "GTOP_THEME"),
            (settings(file, setup, &variables, &args), "colour-blind", "command line"),
        ] {
            assert_eq!((&*text(&settings, "theme"), settings.origin("theme")), (theme, origin));
        }
        let both = settings("monitor = 'compact'", "", &variables, &[]);
        assert_eq!(text(&both, "monitor"), "full");
    }

    #[test]
    fn a_change_takes_precedence_and_differences_are_saved() {
        let mut settings = settings(
            "theme = 'mono'\n",
            "history = 60\ntheme = 'hot'\n",
            &[],
            &[("interval", "2")],
        );
        let names = |settings: &Settings| {
            let all = settings.to_save();
            all.iter()
                .map(|(setting, value)| format!("{}={value}", setting.name))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&settings), ["interval=2", "history=60", "theme=hot"]);
        settings.change("theme", "mono").unwrap();
        settings.change("ascii", "true").unwrap();
        settings.change("interval", "0.5").unwrap();
        assert_eq!(names(&settings), ["interval=0.5", "history=60", "ascii=true"]);
        assert_eq!(settings.origin("ascii"), "changed, not saved");
        settings.change("mouse", "true").unwrap();
        settings.change("columns-fleet", "").unwrap();
        settings.change("interval", "2").unwrap();
        let origins = ["mouse", "columns-fleet", "interval"].map(|name| settings.origin(name));
        assert_eq!(origins, ["default", "default", "command line"]);
        settings.change("interval", "0.5").unwrap();
        settings.mark_saved("setup.toml");
        assert_eq!(names(&settings), ["interval=0.5", "history=60", "ascii=true"]);
        assert_eq!(
            (&*text(&settings, "theme"), settings.origin("theme")),
            ("mono", "config.toml:1")
        );
        assert_eq!(text(&settings, "interval"), "0.5");
        settings.change("interval", "0.5").unwrap();
        assert_eq!(settings.origin("interval"), "setup.toml");
        assert!(
            settings.change("theme", "blue").unwrap_err().contains("theme: expected one of auto")
        );
        assert!(settings.change("nothing", "").is_err());
    }

    #[test]
    fn the_highest_layer_wins_in_any_order() {
        let layers = [
            Layer::ConfigFile,
            Layer::SetupFile,
            Layer::Environment,
            Layer::CommandLine,
            Layer::Changed,
        ];
        for shift in 0..layers.len() {
            for is_reversed in [false, true] {
                let mut order = layers;
                order.rotate_left(shift);
                if is_reversed {
                    order.reverse();
                }
                let mut settings = Settings::new(DECLARED);
                for (index, layer) in order.into_iter().enumerate() {
                    let value = SettingValue::Text(format!("{layer:?}"));
                    settings.add(layer, "log", value, format!("{layer:?}"));
                    let highest = order.iter().take(index + 1).max().unwrap();
                    assert_eq!(settings.layer("log"), *highest, "{order:?}");
                    assert_eq!(text(&settings, "log"), format!("{highest:?}"), "{order:?}");
                }
                for layer in layers {
                    assert_eq!(*settings.effective("log", layer).unwrap().0, layer, "{order:?}");
                }
            }
        }
    }

    #[test]
    fn saving_keeps_entries_of_another_version() {
        let setup = "theme = 'neon'\nredraw = 1\nsparkle = [1, { 'a b' = 'c' }]\n";
        let mut settings = settings("", setup, &[], &[]);
        let saved = |settings: &Settings| {
            let text = crate::config::setup_text(settings);
            let again = file::read_text(DECLARED, "setup.toml", &text, true);
            assert_eq!(again.problems, [""; 0], "{text}");
            again.unknown
        };
        assert_eq!(text(&settings, "theme"), "auto");
        assert_eq!(settings.problem_summary(), None);
        settings.change("redraw", "2").unwrap();
        assert_eq!(saved(&settings)["theme"], "\"neon\"");
        assert_eq!(saved(&settings)["sparkle"], "[1, { \"a b\" = \"c\" }]");
        settings.mark_saved("setup.toml");
        assert_eq!(saved(&settings).len(), 2);
        // A change in the setup dialog wins.
        settings.change("theme", "mono").unwrap();
        assert!(!saved(&settings).contains_key("theme"));
        settings.change("theme", "auto").unwrap();
        assert!(!saved(&settings).contains_key("theme"));
    }

    #[test]
    fn any_toml_of_another_version_survives_saving() {
        let setup = "'a b' = 0xff\noctal = 0o17\nfloats = [1.5e3, -inf, nan]\nat = 1979-05-27T07:32:00Z\n\
            text = \"\\u0001\\\"\\\\é\"\nlong = \'\'\'\ntwo\nlines\'\'\'\n[table.below]\nnone = []\n[[list]]\nx = true\n";
        let first = settings("", setup, &[], &[]);
        let text = crate::config::setup_text(&first);
        let again = file::read_text(DECLARED, "setup.toml", &text, true);
        assert_eq!(again.problems, [""; 0], "{text}");
        assert_eq!(again.unknown.len(), 8, "{text}");
        assert_eq!(
            again.unknown,
            file::read_text(DECLARED, "setup.toml", setup, true).unknown,
            "{text}"
        );
        for (name, value) in [
            ("a b", "0xff"),
            ("floats", "[1.5e3, -inf, nan]"),
            ("long", "\"two\\U0000000Alines\""),
            ("table", "{ \"below\" = { \"none\" = [] } }"),
        ] {
            assert_eq!(again.unknown[name], value, "{text}");
        }
    }

    #[test]
    fn a_setting_that_is_never_saved_still_takes_effect() {
        for (setup, kept) in [("", vec![]), ("interval = 5\n", vec!["interval=5"])] {
            let mut settings = settings("", setup, &[], &[("interval", "0.1")]);
            settings.never_save("interval");
            let names = |settings: &Settings| {
                let all = settings.to_save();
                all.iter()
                    .map(|(setting, value)| format!("{}={value}", setting.name))
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(&settings), kept);
            settings.change("interval", "0.25").unwrap();
            settings.change("ascii", "true").unwrap();
            let kept = [kept, vec!["ascii=true"]].concat();
            assert_eq!(names(&settings), kept);
            settings.mark_saved("setup.toml");
            assert_eq!(names(&settings), kept);
            assert_eq!(text(&settings, "interval"), "0.25");
        }
    }

    #[test]
    fn values_from_the_environment_are_not_saved() {
        let setup = "color = 'always'\n";
        let environment = [("NO_COLOR", "1"), ("GTOP_UNITS", "mib")];
        for (setup, kept) in [("", vec![]), (setup, vec!["color=always"])] {
            let mut settings = settings("", setup, &environment, &[]);
            assert_eq!((&*text(&settings, "color"), &*text(&settings, "units")), ("never", "mib"));
            let names = |settings: &Settings| {
                let all = settings.to_save();
                all.iter()
                    .map(|(setting, value)| format!("{}={value}", setting.name))
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(&settings), kept);
            settings.mark_saved("setup.toml");
            assert_eq!((&*text(&settings, "color"), &*text(&settings, "units")), ("never", "mib"));
            settings.change("units", "mb").unwrap();
            assert!(names(&settings).contains(&"units=mb".to_owned()));
            settings.mark_saved("setup.toml");
            assert_eq!(text(&settings, "units"), "mb");
        }
    }

    #[test]
    fn a_file_with_an_error_is_ignored_as_a_whole() {
        let file = file::read_text(
            DECLARED,
            "config.toml",
            "theme = 'mono'\nthem = 'x'\nascii = 3\n",
            false,
        );
        let settings =
            Settings::merge(DECLARED, SettingSources { file, ..SettingSources::default() }, |_| {
                None
            });
        assert_eq!(text(&settings, "theme"), "auto");
        assert_eq!(
            settings.problem_summary().unwrap(),
            "config.toml:2: unknown setting \"them\"; did you mean theme?; 1 more: gtop config check"
        );
    }
}
