//! Generates the pages of the setup dialog from the table of settings.

use crate::config::Settings;
use gtop_fleet::settings::{Layer, Setting, SettingKind};
use gtop_ui::{Setup, SetupEntry, SetupPage};

/// Titles of the pages, in order.
const PAGES: [&str; 7] =
    ["General", "Fleet", "Devices", "Chart", "Processes", "Selection", "Columns"];

/// Returns the pages with the current values.
pub fn setup(settings: &Settings) -> Setup {
    let pages = PAGES.into_iter().map(|title| SetupPage {
        title,
        entries: settings
            .declared
            .settings()
            .filter(|setting| setting.page == title)
            .map(|setting| entry(settings, setting))
            .collect(),
    });
    Setup::new(pages.collect())
}

fn entry(settings: &Settings, setting: &'static Setting) -> SetupEntry {
    let value = settings.shown_value(setting.name);
    let choices = setting.kind.choices();
    let is_switch = matches!(setting.kind, SettingKind::Switch);
    let columns = setting.kind.columns();
    let choice = choices.iter().find(|choice| choice.name == value);
    SetupEntry {
        name: setting.name,
        label: setting.label,
        unit: setting.kind.unit(),
        default: setting.default,
        steps: if is_switch {
            vec!["false", "true"]
        } else {
            setting.steps.iter().copied().chain(choices.iter().map(|choice| choice.name)).collect()
        },
        is_typed: !is_switch && choices.is_empty() && columns.is_empty(),
        columns,
        help: choice
            .map_or_else(|| setting.help.to_owned(), |choice| format!("{value}: {}", choice.help)),
        origin: settings.origin(setting.name).to_owned(),
        is_changed: settings.layer(setting.name) == Layer::Changed,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting_table::settings;

    #[test]
    fn every_page_has_settings_and_every_setting_a_known_page() {
        for title in PAGES {
            assert!(settings().any(|setting| setting.page == title), "{title}");
        }
        let mut pages = settings().map(|setting| setting.page);
        assert!(pages.all(|page| page.is_empty() || PAGES.contains(&page)));
    }

    #[test]
    fn every_setting_of_a_page_is_named_in_words() {
        for setting in settings().filter(|setting| !setting.page.is_empty()) {
            assert!(!setting.label.is_empty(), "{}", setting.name);
        }
    }
}
