//! Which of several sources wins: option, then environment, `setup.toml`, `config.toml`, default.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::environment;
use super::file::{ConfigFile, Problem};
use super::kind::Value;
use super::setting::Setting;
use super::table::{SETTINGS, setting};
use crate::tui::Keymap;

/// Where a value comes from; the later wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The table.
    Default,
    /// `config.toml`.
    ConfigFile,
    /// `setup.toml`.
    SetupFile,
    /// A variable.
    Environment,
    /// An option.
    CommandLine,
    /// The setup pages, just now.
    Changed,
}

/// What was found in one place.
#[derive(Clone, Debug, PartialEq)]
struct Candidate {
    layer: Layer,
    value: Value,
    /// The place in words, such as `config.toml:3`.
    place: String,
}

/// Everything that was said about settings.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What `config.toml` says.
    pub file: ConfigFile,
    /// What `setup.toml` says.
    pub setup: ConfigFile,
    /// What was typed.
    pub args: BTreeMap<&'static str, Value>,
    /// Old names on the command line.
    pub arg_hints: Vec<Problem>,
}

/// All settings as they are.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Of each setting what was found, the winner last.
    found: BTreeMap<&'static str, Vec<Candidate>>,
    /// Groups of nodes.
    pub groups: BTreeMap<String, String>,
    /// Which keys do what.
    pub keys: Keymap,
    /// What is wrong with files and variables, which then do not count.
    pub problems: Vec<Problem>,
    /// Old names that were used and are still read, with those of today.
    pub hints: Vec<Problem>,
    /// What `setup.toml` has that this version ignores.
    pub notes: Vec<Problem>,
    /// Entries of `setup.toml` that this version does not know, as TOML; saving keeps them.
    unknown: BTreeMap<String, String>,
    /// Settings whose changes are not written down.
    unsaved: BTreeSet<&'static str>,
}

impl Settings {
    /// Puts together what was said; `variable` returns that of the environment.
    ///
    /// A file with a mistake does not count at all: half of it could be worse than nothing.
    pub fn merge(sources: Sources, variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut settings = Self::default();
        for (layer, written) in
            [(Layer::ConfigFile, sources.file), (Layer::SetupFile, sources.setup)]
        {
            if !written.problems.is_empty() {
                settings.problems.extend(written.problems);
                continue;
            }
            match layer {
                Layer::SetupFile => {
                    settings.unknown = written.unknown;
                    settings.notes.extend(written.notes);
                }
                Layer::ConfigFile
                | Layer::Default
                | Layer::Environment
                | Layer::CommandLine
                | Layer::Changed => settings.hints.extend(written.notes),
            }
            for (name, (line, value)) in written.values {
                settings.add(layer, name, value, format!("{}:{line}", written.name));
            }
            if layer == Layer::ConfigFile {
                settings.groups = written.groups;
                settings.keys = written.keys;
            }
        }
        let (found, wrong, hints) = environment::read(variable);
        settings.hints.extend(hints);
        for (name, value, place) in found {
            settings.add(Layer::Environment, name, value, place);
        }
        settings.problems.extend(wrong);
        settings.hints.extend(sources.arg_hints);
        for (name, value) in sources.args {
            settings.add(Layer::CommandLine, name, value, "command line".to_owned());
        }
        settings
    }

    fn add(&mut self, layer: Layer, name: &'static str, value: Value, place: String) {
        let found = self.found.entry(name).or_default();
        found.retain(|known| known.layer != layer);
        found.push(Candidate { layer, value, place });
        found.sort_by_key(|one| one.layer);
    }

    /// Changes a setting while gtop runs. What is wrong with the text is said.
    pub fn change(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some(setting) = setting(name) else { return Err(format!("unknown setting {name:?}")) };
        let value = setting.kind.parse(text).map_err(|why| format!("{name}: {why}"))?;
        let is_so = |own: &Self| {
            let known = own.value(name).map(|value| value.to_string());
            known.unwrap_or_default() == value.to_string()
        };
        // What is so already is not changed.
        if is_so(self) {
            return Ok(());
        }
        // The value of another version gives way to what somebody wants now.
        self.unknown.remove(setting.name);
        if let Some(found) = self.found.get_mut(setting.name) {
            found.retain(|one| one.layer != Layer::Changed);
        }
        if !is_so(self) {
            self.add(Layer::Changed, setting.name, value, "changed, not saved".to_owned());
        }
        Ok(())
    }

    /// Keeps what `setup.toml` says of a setting as it is, whatever it is changed to.
    pub fn never_save(&mut self, name: &'static str) {
        self.unsaved.insert(name);
    }

    /// Returns what to write into `setup.toml`: what stands there already and is on no page, and what
    /// is on a page and differs from `config.toml` and the defaults, unless only the environment says so.
    pub fn to_save(&self) -> Vec<(&'static Setting, Value)> {
        let differing = |setting: &'static Setting| {
            let below =
                self.effective(setting.name, Layer::ConfigFile).map(|found| &found.value).cloned();
            let below = below.or_else(|| setting.default_value());
            let is_passing = self.unsaved.contains(setting.name);
            let is_saved = setting.page.is_some() && !is_passing;
            let top = if is_saved { Layer::Changed } else { Layer::SetupFile };
            // The environment says it again the next time, and may say something else then.
            let all = self.found.get(setting.name)?.iter().rev();
            let mut lasting = all.filter(|one| one.layer != Layer::Environment);
            let own = lasting.find(|one| one.layer <= top)?;
            let is_there = own.layer == Layer::SetupFile && setting.page.is_none();
            (is_there || Some(&own.value) != below.as_ref()).then(|| (setting, own.value.clone()))
        };
        SETTINGS.iter().filter_map(differing).collect()
    }

    /// Returns the entries of `setup.toml` that this version does not know and saving keeps, as TOML.
    pub fn unknown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unknown.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Takes it that what differs is written down now, in the file of this name.
    pub fn mark_saved(&mut self, name: &str) {
        let written = self.to_save();
        let is_changed =
            |found: &Vec<Candidate>| found.iter().any(|one| one.layer == Layer::Changed);
        let changed = self.found.iter().filter(|(_, found)| is_changed(found));
        let changed: BTreeSet<_> = changed.map(|(name, _)| *name).collect();
        let passing = &self.unsaved;
        for (_, found) in self.found.iter_mut().filter(|(name, _)| !passing.contains(*name)) {
            found.retain(|one| !matches!(one.layer, Layer::SetupFile | Layer::Changed));
        }
        for (setting, value) in written {
            if self.unsaved.contains(setting.name) {
                continue;
            }
            // It is what somebody wants now, whatever was typed when gtop began.
            let found = self.found.entry(setting.name).or_default();
            let is_covered = changed.contains(setting.name)
                && found.last().is_some_and(|one| one.layer > Layer::SetupFile);
            if is_covered && found.last().map(|one| &one.value) != Some(&value) {
                found.push(Candidate {
                    layer: Layer::Changed,
                    value: value.clone(),
                    place: name.to_owned(),
                });
            }
            self.add(Layer::SetupFile, setting.name, value, name.to_owned());
        }
    }

    fn effective(&self, name: &str, highest: Layer) -> Option<&Candidate> {
        self.found.get(name)?.iter().rev().find(|found| found.layer <= highest)
    }

    /// Returns what a setting is; none when nobody says anything and there is no default.
    pub fn value(&self, name: &str) -> Option<Value> {
        let found = self.effective(name, Layer::Changed).map(|found| found.value.clone());
        found.or_else(|| setting(name).and_then(Setting::default_value))
    }

    /// Returns where that comes from.
    pub fn layer(&self, name: &str) -> Layer {
        self.effective(name, Layer::Changed).map_or(Layer::Default, |found| found.layer)
    }

    /// Returns the same in words.
    pub fn origin(&self, name: &str) -> &str {
        self.effective(name, Layer::Changed).map_or("default", |found| found.place.as_str())
    }

    /// Returns whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Switch(true))
    }

    /// Returns the word that was chosen.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Choice(word)) => word,
            _ => "",
        }
    }

    /// Returns a span.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.value(name) {
            Some(Value::Seconds(span)) => Some(span),
            _ => None,
        }
    }

    /// Returns a number.
    pub fn count(&self, name: &str) -> Option<u32> {
        match self.value(name) {
            Some(Value::Count(count)) => Some(count),
            _ => None,
        }
    }

    /// Returns two shares in percent.
    pub fn percent_pair(&self, name: &str) -> Option<(u8, u8)> {
        match self.value(name) {
            Some(Value::PercentPair(first, second)) => Some((first, second)),
            _ => None,
        }
    }

    /// Returns a text that is not empty.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// Returns a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Says what is wrong, in one line; none when nothing is.
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

    fn written(name: &str, text: &str, is_setup: bool) -> ConfigFile {
        let written = file::read_text(name, text, is_setup);
        assert_eq!(written.problems, [], "{text}");
        written
    }

    fn settings(
        file: &str,
        setup: &str,
        variables: &[(&str, &str)],
        typed: &[(&str, &str)],
    ) -> Settings {
        let typed = typed.iter().map(|(name, text)| {
            let setting = setting(name).unwrap();
            (setting.name, setting.kind.parse(text).unwrap())
        });
        let sources = Sources {
            file: written("config.toml", file, false),
            setup: written("setup.toml", setup, true),
            args: typed.collect(),
            arg_hints: Vec::new(),
        };
        Settings::merge(sources, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn option_beats_environment_beats_setup_beats_file_beats_default() {
        let (file, setup) = ("theme = 'mono'\n", "theme = 'hot'\n");
        let variables = [("GTOP_THEME", "dark"), ("NVITOP_MONITOR_MODE", "light,full")];
        let background = settings("background = 'dark'", "", &variables, &[]);
        let found = (background.choice("background"), background.origin("background"));
        assert_eq!(found, ("light", "NVITOP_MONITOR_MODE"));
        let typed = [("theme", "colour-blind")];
        for (found, theme, place) in [
            (settings("", "", &[], &[]), "auto", "default"),
            (settings(file, "", &[], &[]), "mono", "config.toml:1"),
            (settings(file, setup, &[], &[]), "hot", "setup.toml:1"),
            (settings(file, setup, &variables, &[]), "dark", "GTOP_THEME"),
            (settings(file, setup, &variables, &typed), "colour-blind", "command line"),
        ] {
            assert_eq!((found.choice("theme"), found.origin("theme")), (theme, place));
        }
        let both = settings("monitor = 'compact'", "", &variables, &[]);
        assert_eq!(both.choice("monitor"), "full");
    }

    #[test]
    fn what_is_changed_wins_and_what_differs_is_saved() {
        let mut settings = settings(
            "theme = 'mono'\n",
            "history = 60\ntheme = 'hot'\n",
            &[],
            &[("interval", "2")],
        );
        let names = |settings: &Settings| {
            let all = settings.to_save();
            all.iter().map(|(own, value)| format!("{}={value}", own.name)).collect::<Vec<_>>()
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
        let places = ["mouse", "columns-fleet", "interval"].map(|name| settings.origin(name));
        assert_eq!(places, ["default", "default", "command line"]);
        settings.change("interval", "0.5").unwrap();
        settings.mark_saved("setup.toml");
        assert_eq!(names(&settings), ["interval=0.5", "history=60", "ascii=true"]);
        assert_eq!((settings.choice("theme"), settings.origin("theme")), ("mono", "config.toml:1"));
        assert_eq!(settings.duration("interval"), Some(Duration::from_millis(500)));
        settings.change("interval", "0.5").unwrap();
        assert_eq!(settings.origin("interval"), "setup.toml");
        assert!(
            settings.change("theme", "blue").unwrap_err().contains("theme: expected one of auto")
        );
        assert!(settings.change("nothing", "").is_err());
    }

    #[test]
    fn the_nearest_place_wins_in_whatever_order_they_are_heard() {
        let layers = [
            Layer::ConfigFile,
            Layer::SetupFile,
            Layer::Environment,
            Layer::CommandLine,
            Layer::Changed,
        ];
        for turn in 0..layers.len() {
            for is_backward in [false, true] {
                let mut order = layers;
                order.rotate_left(turn);
                if is_backward {
                    order.reverse();
                }
                let mut settings = Settings::default();
                for (heard, layer) in order.into_iter().enumerate() {
                    let value = Value::Text(format!("{layer:?}"));
                    settings.add(layer, "log", value, format!("{layer:?}"));
                    let nearest = order.iter().take(heard + 1).max().unwrap();
                    assert_eq!(settings.layer("log"), *nearest, "{order:?}");
                    assert_eq!(settings.text("log"), Some(format!("{nearest:?}")), "{order:?}");
                }
                for layer in layers {
                    assert_eq!(settings.effective("log", layer).unwrap().layer, layer, "{order:?}");
                }
            }
        }
    }

    #[test]
    fn saving_keeps_what_another_version_wrote() {
        let setup = "theme = 'neon'\nredraw = 1\nsparkle = [1, { 'a b' = 'c' }]\n";
        let mut settings = settings("", setup, &[], &[]);
        let saved = |settings: &Settings| {
            let text = crate::config::setup_text(settings);
            let again = file::read_text("setup.toml", &text, true);
            assert_eq!(again.problems, [], "{text}");
            again.unknown
        };
        assert_eq!(settings.choice("theme"), "auto");
        assert_eq!(settings.problem_summary(), None);
        settings.change("redraw", "2").unwrap();
        assert_eq!(saved(&settings)["theme"], "\"neon\"");
        assert_eq!(saved(&settings)["sparkle"], "[1, { \"a b\" = \"c\" }]");
        settings.mark_saved("setup.toml");
        assert_eq!(saved(&settings).len(), 2);
        // What somebody sets here wins.
        settings.change("theme", "mono").unwrap();
        assert!(!saved(&settings).contains_key("theme"));
        settings.change("theme", "auto").unwrap();
        assert!(!saved(&settings).contains_key("theme"));
    }

    #[test]
    fn a_setting_that_passes_is_not_written_down_and_holds_meanwhile() {
        for (setup, kept) in [("", vec![]), ("interval = 5\n", vec!["interval=5"])] {
            let mut settings = settings("", setup, &[], &[("interval", "0.1")]);
            settings.never_save("interval");
            let names = |settings: &Settings| {
                let all = settings.to_save();
                all.iter().map(|(own, value)| format!("{}={value}", own.name)).collect::<Vec<_>>()
            };
            assert_eq!(names(&settings), kept);
            settings.change("interval", "0.25").unwrap();
            settings.change("ascii", "true").unwrap();
            let kept = [kept, vec!["ascii=true"]].concat();
            assert_eq!(names(&settings), kept);
            settings.mark_saved("setup.toml");
            assert_eq!(names(&settings), kept);
            assert_eq!(settings.duration("interval"), Some(Duration::from_millis(250)));
        }
    }

    #[test]
    fn what_the_environment_says_is_not_kept() {
        let setup = "color = 'always'\n";
        let environment = [("NO_COLOR", "1"), ("GTOP_UNITS", "mib")];
        for (setup, kept) in [("", vec![]), (setup, vec!["color=always"])] {
            let mut settings = settings("", setup, &environment, &[]);
            assert_eq!((settings.choice("color"), settings.choice("units")), ("never", "mib"));
            let names = |settings: &Settings| {
                let all = settings.to_save();
                all.iter().map(|(own, value)| format!("{}={value}", own.name)).collect::<Vec<_>>()
            };
            assert_eq!(names(&settings), kept);
            settings.mark_saved("setup.toml");
            assert_eq!((settings.choice("color"), settings.choice("units")), ("never", "mib"));
            settings.change("units", "mb").unwrap();
            assert!(names(&settings).contains(&"units=mb".to_owned()));
            settings.mark_saved("setup.toml");
            assert_eq!(settings.choice("units"), "mb");
        }
    }

    #[test]
    fn a_file_with_a_mistake_does_not_count_at_all() {
        let file = file::read_text("config.toml", "theme = 'mono'\nthem = 'x'\nascii = 3\n", false);
        let settings = Settings::merge(Sources { file, ..Sources::default() }, |_| None);
        assert_eq!(settings.choice("theme"), "auto");
        assert_eq!(
            settings.problem_summary().unwrap(),
            "config.toml:2: unknown setting \"them\"; did you mean theme?; 1 more: gtop config check"
        );
    }
}
