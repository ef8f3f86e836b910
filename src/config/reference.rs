//! Generates texts about settings: the initial `config.toml`, `setup.toml` and `gtop config show`.

use std::fmt::Write as _;

use super::declared::Declared;
use super::settings::Settings;
use gtop_fleet::settings::{KeyRow, Setting, SettingKind, SettingValue, toml_string};

/// Width of comment lines, in columns.
const WIDTH: usize = 100;

/// Returns a `config.toml` with all settings as comments.
pub fn init_text(declared: Declared) -> String {
    let mut text = String::from(
        "# Settings of gtop. Precedence: command line, environment (GTOP_INTERVAL, ...), setup.toml in the\n\
         # same folder (file by F12), this file. Remove the leading # of a setting to change it.\n\
         # gtop config check reports errors, gtop config show prints the settings in effect.\n",
    );
    for (heading, settings) in declared.sections {
        write!(text, "\n# -- {heading} --\n").ok();
        for setting in *settings {
            text.push('\n');
            push_comment(&mut text, setting.help);
            let choices = setting.kind.choices().into_iter();
            let choices = choices.map(|choice| (choice.name, choice.help));
            let columns =
                setting.kind.columns().into_iter().map(|column| (column.name, column.help));
            for (name, help) in choices.chain(columns) {
                push_comment(&mut text, &format!("  {}: {help}", toml_string(name)));
            }
            let example = example_value(setting).map(|value| value.to_toml()).unwrap_or_default();
            writeln!(text, "#{} = {example}", setting.name).ok();
        }
    }
    text.push_str(
        "\n# -- Node groups, used as @a100 --\n\n[groups]\n#a100 = \"gpu[01-16]\"\n\
         #all = [\"@a100\", \"gpu[20-24]\"]\n\n\
         # -- Key bindings: one key, a list, or [] for none; such as \"x\", \"Space\", \"F5\", \"Ctrl-L\", \"Alt-x\", \"PgUp\" --\n\n[keys]\n",
    );
    for (keys, help) in (declared.keys.actions)() {
        let row = format!("#{}", key_line(&keys));
        writeln!(text, "{row:38} # {help}").ok();
    }
    text
}

/// Returns the default of a setting, or an example if it has none.
fn example_value(setting: &Setting) -> Option<SettingValue> {
    let example = match setting.kind {
        SettingKind::Switch => "false",
        SettingKind::PercentPair => "10,75",
        SettingKind::Seconds { .. } => "10",
        SettingKind::Choice(_)
        | SettingKind::Sort(_)
        | SettingKind::Count { .. }
        | SettingKind::Text(_)
        | SettingKind::List(_)
        | SettingKind::DistinctList(..)
        | SettingKind::Columns(_) => "",
    };
    setting.default_value().or_else(|| setting.kind.parse(example).ok())
}

fn push_comment(text: &mut String, comment: &str) {
    let mut line = String::from("#");
    for word in comment.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            writeln!(text, "{line}").ok();
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(text, "{line}").ok();
}

/// Returns the content of `setup.toml`: the settings that differ from `config.toml` and the defaults.
pub fn setup_text(settings: &Settings) -> String {
    let mut text =
        String::from("# Written by gtop (F12): settings that differ from config.toml.\n");
    let saved = settings.to_save();
    for (setting, value) in &saved {
        writeln!(text, "{} = {}", setting.name, value.to_toml()).ok();
    }
    for (name, value) in settings.unknown() {
        if saved.iter().all(|(setting, _)| setting.name != name) {
            writeln!(text, "{} = {value}", toml_string(name)).ok();
        }
    }
    text
}

/// Returns all settings with their values and origins.
pub fn show_text(settings: &Settings) -> String {
    let mut text = String::new();
    for setting in settings.declared.settings() {
        let value = settings.value(setting.name);
        let (row, origin) = match value {
            Some(value) => {
                (format!("{} = {}", setting.name, value.to_toml()), settings.origin(setting.name))
            }
            None => (format!("#{} =", setting.name), "not set"),
        };
        writeln!(text, "{row:40} # {origin}").ok();
    }
    if !settings.groups.is_empty() {
        text.push_str("\n[groups]\n");
        for (name, set) in &settings.groups {
            writeln!(text, "{} = {}", toml_string(name), toml_string(set)).ok();
        }
    }
    if !settings.keys.is_empty() {
        text.push_str("\n[keys]\n");
        for keys in &settings.keys {
            writeln!(text, "{}", key_line(keys)).ok();
        }
    }
    text
}

/// Formats a row of `[keys]`.
fn key_line(KeyRow { action, keys }: &KeyRow) -> String {
    let keys: Vec<String> = keys.iter().map(|key| toml_string(key)).collect();
    format!("{action} = [{}]", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::file::read_text;
    use crate::export::{write_json, write_json_schema};
    use crate::setting_table::{DECLARED, setting, settings};
    use gtop_fleet::metrics::made_up;
    use gtop_fleet::query::{Filter, complete};
    use gtop_fleet::{Fleet, Node};
    use gtop_local::time::Timestamp;
    use gtop_model::{Celsius, Device, NodeName, Reading};

    #[test]
    fn a_metric_of_one_entry_is_in_settings_filters_json_schema_and_help() {
        let device = Device {
            uuid: "GPU-1".into(),
            memory_temperature: Reading::checked(Celsius::new(90.0)),
            ..Device::default()
        };
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.devices = vec![device].into();
        let fleet = Fleet::new([Arc::new(node)].into());
        let now = Timestamp::default();
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        made_up::with(|| {
            for name in ["columns-node", "sort-fleet", "charted"] {
                assert!(setting(name).unwrap().kind.parse("wobble").is_ok(), "{name}");
            }
            let matches =
                |text: &str| Filter::new(text).unwrap().match_node(&fleet.nodes[0], now).is_match;
            assert!(matches("wobble>80") && !matches("wobble>95"));
            assert_eq!(complete("wob", 3, &fleet).words[0].word, "wobble>");
            let json = written(&|out| write_json(out, &fleet, now, "").unwrap());
            assert!(json.contains("\"wobble_celsius\":90.0"), "{json}");
            let schema = written(&|out| write_json_schema(out).unwrap());
            assert!(schema.contains("\"wobble_celsius\""));
            let help = init_text(DECLARED);
            for line in ["\"wobble\": a made-up metric", "\"wobble\": by wobble"] {
                let lines = help.lines().filter(|line| line.contains("wobble"));
                assert!(help.contains(line), "{:?}", lines.collect::<Vec<_>>());
            }
        });
        assert!(Filter::new("wobble>80").is_err());
    }

    #[test]
    fn the_initial_file_changes_nothing() {
        let text = init_text(DECLARED);
        let file = read_text(DECLARED, "config.toml", &text, false);
        assert_eq!(file.problems, [""; 0]);
        assert!(file.values.is_empty() && file.groups.is_empty());
        assert!(text.lines().all(|line| line.len() <= 140), "{text}");
    }

    #[test]
    fn every_line_of_the_initial_file_is_valid() {
        let text = init_text(DECLARED);
        let is_row =
            |line: &&str| line.starts_with('#') && !line.starts_with("# ") && line.contains(" = ");
        let uncommented: String = text
            .lines()
            .map(|line| if is_row(&line) { line.trim_start_matches('#') } else { line })
            .flat_map(|line| [line, "\n"])
            .collect();
        let file = read_text(DECLARED, "config.toml", &uncommented, false);
        assert_eq!(file.problems, [""; 0], "{uncommented}");
        assert_eq!(file.values.len(), settings().count());
    }

    #[test]
    fn shown_settings_can_be_parsed() {
        let file = read_text(
            DECLARED,
            "config.toml",
            "only = ['0', 2]\nexec = 'a \"b\" \\\\'\n[groups]\n'a.b' = 'x1'\n[keys]\nfreeze = ['F', 'Space']\n",
            false,
        );
        assert_eq!(file.problems, [""; 0]);
        let settings = Settings::merge(
            DECLARED,
            crate::config::SettingSources { file, ..Default::default() },
            |_| None,
        );
        let shown = show_text(&settings);
        assert!(shown.contains("# config.toml:1") && shown.contains("# default"), "{shown}");
        let again = read_text(DECLARED, "shown", &shown, false);
        assert_eq!(again.problems, [""; 0], "{shown}");
        assert_eq!(again.groups["a.b"], "x1");
        assert_eq!(again.keys, settings.keys);
        assert_eq!(again.keys[0].keys, ["F", "Space"]);
    }
}
